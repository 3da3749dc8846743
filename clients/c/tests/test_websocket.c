/* The WebSocket of examples/websocket.c on a simulated transport, which moves a few bytes at a time. */
#include "rig.h"
#include "../examples/websocket.h"

/* The key and its response are those of RFC 6455, section 1.3. */
#define ANSWER(protocol)                                                                                                    \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                                     \
    "SEC-WebSocket-Accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: " protocol "\r\n\r\n"

typedef struct fake {
    uint8_t down[8192], up[8192];
    size_t down_len, up_len;
    /* The maximum number of bytes at a time. */
    size_t most, room;
    bool is_gone;
} fake;

static fake f;
static websocket ws;
static tw_transport transport;

static tw_result fake_recv(void *context, uint8_t *to, size_t size) {
    size_t len = size < f.down_len ? size : f.down_len;
    (void)context;
    len = len < f.most ? len : f.most;
    if (len == 0) {
        return f.is_gone ? -1 : 0;
    }
    memcpy(to, f.down, len);
    f.down_len -= len;
    memmove(f.down, f.down + len, f.down_len);
    return (tw_result)len;
}

static tw_result fake_send(void *context, const uint8_t *bytes, size_t len) {
    (void)context;
    len = len < f.most ? len : f.most;
    len = len < f.room ? len : f.room;
    memcpy(f.up + f.up_len, bytes, len);
    f.up_len += len;
    f.room -= len;
    return (tw_result)len;
}

static uint32_t fake_now_ms(void *context) {
    (void)context;
    return 0;
}

static tw_result not_random(void *context, uint8_t *to, size_t len) {
    (void)context;
    memcpy(to, "the sample nonce", len);
    return 0;
}

static void down(const char *hex) {
    f.down_len += unhex(hex, f.down + f.down_len);
}

/* Whether exactly this has been sent, with the mask 74686520. */
static bool went(const char *hex) {
    uint8_t want[256];
    size_t len = unhex(hex, want);
    bool is_right = len == f.up_len && memcmp(want, f.up, len) == 0;
    f.up_len = 0;
    return is_right;
}

static tw_result open_with(const char *answer, size_t most) {
    websocket_config config;
    tw_result result = 0;
    int turns;
    memset(&f, 0, sizeof f);
    f.most = most;
    f.room = sizeof f.up;
    memset(&config, 0, sizeof config);
    config.under.recv = fake_recv;
    config.under.send = fake_send;
    config.under.now_ms = fake_now_ms;
    config.host = "server.example";
    config.path = "/mqtt";
    config.headers = "X-More: yes\r\n";
    config.random = not_random;
    transport = websocket_transport(&ws, &config);
    CHECK(transport.open(transport.context) == 0, "asked, and not answered");
    memcpy(f.down, answer, strlen(answer));
    f.down_len = strlen(answer);
    f.is_gone = true;
    for (turns = 0; turns < 1000 && result == 0; turns++) {
        result = transport.open(transport.context);
    }
    f.is_gone = false;
    return result;
}

static void open_ready(size_t most) {
    CHECK(open_with(ANSWER("mqtt"), most) == 1, "open");
    f.up_len = 0;
}

static void the_handshake_succeeds(void) {
    static const char REQUEST[] = "GET /mqtt HTTP/1.1\r\nHost: server.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Protocol: mqtt\r\nX-More: yes\r\n\r\n";
    CHECK(open_with(ANSWER("mqtt"), 1) == 1, "byte by byte");
    CHECK(f.up_len == strlen(REQUEST) && memcmp(f.up, REQUEST, f.up_len) == 0, "%.*s", (int)f.up_len, (const char *)f.up);
    CHECK(open_with(ANSWER("mqttv3"), 9) == TW_WEBSOCKET_REFUSED, "another protocol");
    CHECK(open_with("HTTP/1.1 404 Not Found\r\n\r\n", 9) == TW_WEBSOCKET_REFUSED && ws.status == 404, "%d", ws.status);
    CHECK(open_with("HTTP/1.1 101 Yes\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n", 9) ==
              TW_WEBSOCKET_REFUSED,
          "another key");
    CHECK(open_with("HTTP/1.1 101", 9) == TW_HANDSHAKE_FAILED, "cut off");
    CHECK(open_with("HTTP/1.1 404 Not Found\r\n\r\n", 9) == TW_WEBSOCKET_REFUSED, "refused");
    transport.close(transport.context);
    CHECK(ws.status == 404, "it is still there for who asks: %d", ws.status);
    CHECK(transport.open(transport.context) == 0 && ws.status == 0, "and not for the next attempt: %d", ws.status);
}

static void frames_form_one_stream(void) {
    uint8_t got[512];
    char hex[700] = "027e00c8";
    size_t most, len, i;
    for (i = 0; i < 200; i++) {
        strcat(hex, "61");
    }
    for (most = 1; most < 10; most += 4) {
        open_ready(most);
        /* A message in two frames, with a PING between them, and an empty frame. */
        down(hex);
        down("8902 6869 8000 8001 62");
        len = 0;
        for (i = 0; i < 2000 && len < 201; i++) {
            tw_result count = transport.recv(transport.context, got + len, sizeof got - len);
            CHECK(count >= 0, "%d", (int)count);
            len += count > 0 ? (size_t)count : 0;
        }
        CHECK(len == 201 && got[0] == 'a' && got[199] == 'a' && got[200] == 'b', "%d bytes", (int)len);
        while (!(f.up_len == 8) && i++ < 4000) {
            (void)transport.recv(transport.context, got, sizeof got);
        }
        CHECK(went("8a82 74686520 1c01"), "PONG with the payload of PING");
    }
}

static void invalid_frames_of_a_server_end_the_connection(void) {
    static const char *const WRONG[] = {"8101 61", "c201 61", "8281 00000000 61", "897e0080", "8800", "8802 03e8"};
    uint8_t got[16];
    size_t i;
    int turns;
    for (i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        tw_result result = 0;
        open_ready(100);
        down(WRONG[i]);
        for (turns = 0; turns < 10 && result == 0; turns++) {
            result = transport.recv(transport.context, got, sizeof got);
        }
        CHECK(result < 0, "%s: %d", WRONG[i], (int)result);
    }
}

static void output_is_masked_and_waits_for_buffer_space(void) {
    static uint8_t bytes[3000];
    tw_result taken;
    open_ready(1000);
    CHECK(transport.send(transport.context, (const uint8_t *)"ab", 2) == 2 && went("8282 74686520 150a"), "a frame");
    f.room = 3;
    CHECK(transport.send(transport.context, (const uint8_t *)"ab", 2) == 2, "taken, though it has not gone");
    CHECK(transport.send(transport.context, (const uint8_t *)"cd", 2) == 0, "nothing more is");
    f.room = 100;
    CHECK(transport.send(transport.context, (const uint8_t *)"cd", 2) == 2, "there is room");
    CHECK(went("8282 74686520 150a 8282 74686520 170c"), "one after the other");
    f.room = sizeof f.up;
    taken = transport.send(transport.context, bytes, sizeof bytes);
    CHECK(taken == 1016 && f.up_len == 1024 && f.up[1] == 0xFE && f.up[2] == 0x03 && f.up[3] == 0xF8, "%d", (int)taken);
    f.up_len = 0;
    transport.close(transport.context);
    CHECK(went("8880 74686520"), "goodbye");
}

int main(void) {
    the_handshake_succeeds();
    frames_form_one_stream();
    invalid_frames_of_a_server_end_the_connection();
    output_is_masked_and_waits_for_buffer_space();
    return finish("websocket");
}
