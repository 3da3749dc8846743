/*
 * Prints how this codec decodes packets, for comparison with codecs in other languages.
 *
 * Each line of the input is `VERSION MAX_PACKET_SIZE HEX`, with version 3, 4 or 5. Each line of the output is one of
 * `valid CONSUMED HEX`, with the packet encoded again, `incomplete`, or `CLASS REASON CODE OFFSET TEXT`, with the class
 * `malformed`, `protocol_error` or `too_large`.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "tautwire.h"

static void print_hex(const uint8_t *bytes, size_t len) {
    size_t i;
    for (i = 0; i < len; i++) {
        printf("%02x", bytes[i]);
    }
    putchar('\n');
}

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Converts the hex digits at the start of `text` to bytes, in place. Returns how many bytes there are, -1 for half a
 * byte. */
static long unhex(char *text) {
    uint8_t *to = (uint8_t *)text;
    long count = 0;
    while (digit(*text) >= 0) {
        if (digit(text[1]) < 0) {
            return -1;
        }
        to[count++] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
        text += 2;
    }
    return count;
}

static int answer(char *line) {
    char *end;
    long version = strtol(line, &end, 10);
    unsigned long max = strtoul(end, &end, 10);
    /* Exactly as large as the input, so that a sanitizer detects reads past its end. */
    uint8_t *input, *out;
    tw_packet packet;
    tw_result used, len;
    long size;
    while (*end == ' ') {
        end++;
    }
    size = unhex(end);
    if (version < 3 || version > 5 || size < 0) {
        fprintf(stderr, "not VERSION MAX_PACKET_SIZE HEX: %s", line);
        return 1;
    }
    input = (uint8_t *)malloc(size > 0 ? (size_t)size : 1);
    if (input == NULL) {
        return 1;
    }
    memcpy(input, end, (size_t)size);
    used = tw_decode(input, (size_t)size, (tw_version)version,
                     max < TW_MAX_PACKET_BYTES ? (uint32_t)max : TW_MAX_PACKET_BYTES, &packet);
    if (used >= 0) {
        len = tw_encoded_len(&packet, (tw_version)version);
        out = (uint8_t *)malloc(len > 0 ? (size_t)len : 1);
        if (len == TW_CLIENT_ID_MISSING && out != NULL) {
            /* A server has to decode the packet to refuse it, but a client must not send it [MQTT-3.1.3-7]. */
            printf("valid %d ", (int)used);
            print_hex(input, (size_t)used);
        } else if (out == NULL || len < 0 || tw_encode(&packet, (tw_version)version, out, (size_t)len) != len) {
            printf("not_encodable %s\n", tw_error_name(len));
        } else {
            printf("valid %d ", (int)used);
            print_hex(out, (size_t)len);
        }
        free(out);
    } else if (used == TW_INCOMPLETE) {
        puts("incomplete");
    } else {
        tw_fault_class fault = tw_fault(used);
        printf("%s %u %s %lu %s\n",
               fault == TW_FAULT_MALFORMED        ? "malformed"
               : fault == TW_FAULT_PROTOCOL_ERROR ? "protocol_error"
                                                  : "too_large",
               (unsigned)tw_reason_for(used), tw_error_name(used), (unsigned long)packet.at, tw_error_text(used));
    }
    free(input);
    return 0;
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    int status = 0;
    while (status == 0 && getline(&line, &size, stdin) > 0) {
        status = answer(line);
    }
    free(line);
    return status;
}
