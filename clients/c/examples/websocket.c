#include "websocket.h"

#include <stdio.h>

#define OPCODE_TEXT 1u
#define OPCODE_BINARY 2u
#define OPCODE_CLOSE 8u
#define OPCODE_PING 9u
#define OPCODE_PONG 10u
/* Two bytes, two of an extended length, and the mask. */
#define FRAME_HEAD_BYTES 8u

/* SHA-1 of at most 119 bytes: RFC 6455 requires it for the response; it protects nothing. */

static uint32_t rotated(uint32_t word, unsigned bits) {
    return word << bits | word >> (32 - bits);
}

static void sha1_block(uint32_t h[5], const uint8_t *block) {
    static const uint32_t K[4] = {0x5A827999u, 0x6ED9EBA1u, 0x8F1BBCDCu, 0xCA62C1D6u};
    uint32_t w[80], v[5];
    unsigned i;
    for (i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               (uint32_t)block[4 * i + 3];
    }
    for (; i < 80; i++) {
        w[i] = rotated(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    memcpy(v, h, sizeof v);
    for (i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (v[1] & v[2]) | (~v[1] & v[3])
                     : i < 40 ? v[1] ^ v[2] ^ v[3]
                     : i < 60 ? (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])
                              : v[1] ^ v[2] ^ v[3];
        uint32_t next = rotated(v[0], 5) + f + v[4] + K[i / 20] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotated(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (i = 0; i < 5; i++) {
        h[i] += v[i];
    }
}

static void sha1(const uint8_t *bytes, size_t len, uint8_t digest[20]) {
    uint32_t h[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    uint8_t padded[128] = {0};
    size_t blocks = len < 56 ? 1 : 2, i;
    memcpy(padded, bytes, len);
    padded[len] = 0x80;
    padded[64 * blocks - 2] = (uint8_t)(len * 8 >> 8);
    padded[64 * blocks - 1] = (uint8_t)(len * 8);
    for (i = 0; i < blocks; i++) {
        sha1_block(h, padded + 64 * i);
    }
    for (i = 0; i < 20; i++) {
        digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
    }
}

/* Base64 with a terminating zero. */
static void base64(const uint8_t *bytes, size_t len, char *to) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i;
    for (i = 0; i < len; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16 | (i + 1 < len ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < len ? (uint32_t)bytes[i + 2] : 0);
        *to++ = DIGITS[group >> 18];
        *to++ = DIGITS[group >> 12 & 63];
        *to++ = i + 1 < len ? DIGITS[group >> 6 & 63] : '=';
        *to++ = i + 2 < len ? DIGITS[group & 63] : '=';
    }
    *to = '\0';
}

/* Sends as much as the underlying transport accepts. Returns 1 if nothing is left, 0 if something is, a negative value
   on failure. */
static tw_result flush(websocket *s) {
    while (s->out_sent < s->out_len) {
        tw_result sent = s->config.under.send(s->config.under.context, s->out + s->out_sent, s->out_len - s->out_sent);
        if (sent <= 0) {
            return sent;
        }
        s->out_sent += (size_t)sent;
    }
    s->out_len = 0;
    s->out_sent = 0;
    return 1;
}

/* Writes a masked frame to the output buffer [RFC 6455, section 5.3], which is empty and large enough. */
static tw_result put_frame(websocket *s, unsigned opcode, const uint8_t *bytes, size_t len) {
    uint8_t *at = s->out, *mask;
    size_t i;
    *at++ = (uint8_t)(0x80u | opcode);
    if (len < 126) {
        *at++ = (uint8_t)(0x80u | len);
    } else {
        *at++ = 0x80u | 126u;
        *at++ = (uint8_t)(len >> 8);
        *at++ = (uint8_t)len;
    }
    mask = at;
    if (s->config.random(s->config.context, mask, 4) < 0) {
        return TW_WEBSOCKET_REFUSED;
    }
    at += 4;
    for (i = 0; i < len; i++) {
        *at++ = (uint8_t)(bytes[i] ^ mask[i % 4]);
    }
    s->out_len = (size_t)(at - s->out);
    return 0;
}

static tw_result ask(websocket *s) {
    char key[32];
    int len;
    if (s->config.random(s->config.context, s->key, sizeof s->key) < 0) {
        return TW_WEBSOCKET_REFUSED;
    }
    base64(s->key, sizeof s->key, key);
    len = snprintf((char *)s->out, sizeof s->out,
                   "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n%s\r\n",
                   s->config.path, s->config.host, key, s->config.headers != NULL ? s->config.headers : "");
    if (len < 0 || (size_t)len >= sizeof s->out) {
        return TW_WEBSOCKET_REFUSED;
    }
    s->out_len = (size_t)len;
    s->has_asked = true;
    s->status = 0;
    return 0;
}

static int lower(int byte) {
    return byte >= 'A' && byte <= 'Z' ? byte + 'a' - 'A' : byte;
}

/* Whether the response has a header with this value. */
static bool has_header(const websocket *s, const char *name, const char *value) {
    const char *line = s->answer;
    while ((line = strchr(line, '\n')) != NULL) {
        const char *at = ++line, *wanted = name;
        while (*wanted != '\0' && lower(*at) == *wanted) {
            at++;
            wanted++;
        }
        if (*wanted == '\0' && *at == ':') {
            size_t len = strlen(value);
            at++;
            at += strspn(at, " \t");
            return strncmp(at, value, len) == 0 && (at[len] == '\r' || at[len] == ' ' || at[len] == '\n');
        }
    }
    return false;
}

/* Whether the server has accepted: by the key [RFC 6455, section 4.1], and MQTT [MQTT-6.0.0-3]. */
static bool is_agreed(websocket *s) {
    static const char MAGIC[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[24 + sizeof MAGIC], accept[32];
    uint8_t digest[20];
    base64(s->key, sizeof s->key, text);
    memcpy(text + 24, MAGIC, sizeof MAGIC);
    sha1((const uint8_t *)text, strlen(text), digest);
    base64(digest, sizeof digest, accept);
    if (strncmp(s->answer, "HTTP/1.", 7) == 0 && s->answer_len > 12) {
        s->status = (s->answer[9] - '0') * 100 + (s->answer[10] - '0') * 10 + s->answer[11] - '0';
    }
    return s->status == 101 && has_header(s, "sec-websocket-accept", accept) && has_header(s, "sec-websocket-protocol", "mqtt");
}

static bool is_whole(const websocket *s) {
    return s->answer_len >= 4 && memcmp(s->answer + s->answer_len - 4, "\r\n\r\n", 4) == 0;
}

static tw_result websocket_open(void *context) {
    websocket *s = (websocket *)context;
    tw_result result = s->config.under.open != NULL ? s->config.under.open(s->config.under.context) : 1;
    if (result <= 0 || s->is_open) {
        return result;
    }
    if (!s->has_asked) {
        result = ask(s);
        if (result < 0) {
            return result;
        }
    }
    result = flush(s);
    /* Byte by byte: the bytes after the response are frames. */
    while (result > 0 && !is_whole(s)) {
        result = s->config.under.recv(s->config.under.context, (uint8_t *)s->answer + s->answer_len, 1);
        s->answer_len += result > 0 ? 1 : 0;
        if (s->answer_len == sizeof s->answer - 1) {
            return TW_WEBSOCKET_REFUSED;
        }
    }
    if (result <= 0) {
        return result < 0 ? (tw_result)TW_HANDSHAKE_FAILED : 0;
    }
    s->answer[s->answer_len] = '\0';
    s->is_open = is_agreed(s);
    return s->is_open ? 1 : (tw_result)TW_WEBSOCKET_REFUSED;
}

static tw_result websocket_send(void *context, const uint8_t *bytes, size_t len) {
    websocket *s = (websocket *)context;
    size_t most = sizeof s->out - FRAME_HEAD_BYTES;
    tw_result result = flush(s);
    if (result <= 0 || len == 0) {
        return result < 0 ? result : 0;
    }
    if (s->wants_pong) {
        s->wants_pong = false;
        result = put_frame(s, OPCODE_PONG, s->control, s->control_len);
        if (result < 0 || (result = flush(s)) <= 0) {
            return result;
        }
    }
    len = len < most ? len : most;
    result = put_frame(s, OPCODE_BINARY, bytes, len);
    if (result < 0 || (result = flush(s)) < 0) {
        return result;
    }
    /* Bytes that cannot be sent now wait here, and are sent before any others. */
    return (tw_result)len;
}

/* The length of a frame header, as far as it is known. */
static size_t head_bytes(const websocket *s) {
    unsigned len = s->head_len < 2 ? 0 : s->head[1] & 127u;
    return len == 126 ? 4 : len == 127 ? 10 : 2;
}

/* Reads the header of the next frame. Returns 1 when it is complete. */
static tw_result read_head(websocket *s) {
    size_t i;
    while (s->head_len < head_bytes(s)) {
        tw_result count =
            s->config.under.recv(s->config.under.context, s->head + s->head_len, head_bytes(s) - s->head_len);
        if (count <= 0) {
            return count;
        }
        s->head_len += (size_t)count;
    }
    s->left = s->head[1] & 127u;
    if (s->left >= 126) {
        s->left = 0;
        for (i = 2; i < s->head_len; i++) {
            s->left = s->left << 8 | s->head[i];
        }
    }
    s->head_len = 0;
    if ((s->head[0] & 0x0Fu) < OPCODE_CLOSE) {
        s->opcode = OPCODE_BINARY;
    } else {
        s->opcode = s->head[0] & 0x0Fu;
        s->control_len = 0;
    }
    /* Reserved bits, text, a mask of the server, or a control frame that is too long [MQTT-6.0.0-1]. */
    if ((s->head[0] & 0x70u) != 0 || (s->head[0] & 0x0Fu) == OPCODE_TEXT || (s->head[1] & 0x80u) != 0 ||
        (s->opcode >= OPCODE_CLOSE && s->left > WEBSOCKET_CONTROL_BYTES)) {
        return -1;
    }
    return 1;
}

static tw_result websocket_recv(void *context, uint8_t *to, size_t size) {
    websocket *s = (websocket *)context;
    tw_result result = flush(s);
    if (result < 0) {
        return result;
    }
    if (s->wants_pong) {
        if (result == 0) {
            return 0;
        }
        s->wants_pong = false;
        result = put_frame(s, OPCODE_PONG, s->control, s->control_len);
        if (result < 0 || (result = flush(s)) < 0) {
            return result;
        }
    }
    for (;;) {
        bool is_control = s->opcode >= OPCODE_CLOSE;
        uint8_t *place = is_control ? s->control + s->control_len : to;
        size_t room = is_control ? sizeof s->control - s->control_len : size;
        if (s->left > 0) {
            result = s->config.under.recv(s->config.under.context, place, s->left < room ? (size_t)s->left : room);
            if (result <= 0) {
                return result;
            }
            s->left -= (uint64_t)result;
            if (!is_control) {
                return result;
            }
            s->control_len += (size_t)result;
            continue;
        }
        if (s->opcode == OPCODE_CLOSE) {
            return -1;
        }
        s->wants_pong = s->wants_pong || s->opcode == OPCODE_PING;
        s->opcode = OPCODE_BINARY;
        if (s->wants_pong) {
            /* It is answered before the next frame is read, which could overwrite its payload. */
            return 0;
        }
        result = read_head(s);
        if (result <= 0) {
            return result;
        }
    }
}

static void websocket_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    websocket *s = (websocket *)context;
    bool has_output = s->out_sent < s->out_len;
    /* A PING is answered at once, if there is room. During the handshake it waits for the response. */
    if (s->config.under.wait != NULL && (has_output || !s->wants_pong)) {
        s->config.under.wait(s->config.under.context, to_receive || !s->is_open,
                             has_output || (to_send && (s->is_open || !s->has_asked)), timeout_ms);
    }
}

static void reset(websocket *s) {
    websocket_config config = s->config;
    int status = s->status;
    memset(s, 0, sizeof *s);
    s->config = config;
    s->status = status;
    s->opcode = OPCODE_BINARY;
}

static void websocket_close(void *context) {
    websocket *s = (websocket *)context;
    if (s->is_open && flush(s) > 0 && put_frame(s, OPCODE_CLOSE, NULL, 0) == 0) {
        (void)flush(s);
    }
    reset(s);
    if (s->config.under.close != NULL) {
        s->config.under.close(s->config.under.context);
    }
}

static uint32_t websocket_now_ms(void *context) {
    websocket *s = (websocket *)context;
    return s->config.under.now_ms(s->config.under.context);
}

tw_transport websocket_transport(websocket *socket, const websocket_config *config) {
    tw_transport transport;
    memset(socket, 0, sizeof *socket);
    socket->config = *config;
    reset(socket);
    transport.recv = websocket_recv;
    transport.send = websocket_send;
    transport.now_ms = websocket_now_ms;
    transport.open = websocket_open;
    transport.wait = websocket_wait;
    transport.close = websocket_close;
    transport.context = socket;
    return transport;
}
