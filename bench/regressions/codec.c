/*
 * The hot paths of the C library on fixed input, for counting their instructions. It works like src/main.rs.
 * Prints a line for each case, in order: `NAME OPERATIONS`.
 */
#include <stdio.h>
#include <string.h>

#include "tautwire.h"

#define OPERATIONS 2000
#define TOPICS 50

enum { V3, V5, V5_PROPERTIES, PUBACK, KINDS };

static char topics[TOPICS][24];
static uint8_t payload[64];
static uint8_t properties[128];
static tw_publish plain[TOPICS], with_properties[TOPICS];
static uint8_t encoded[KINDS][TOPICS][256];
static tw_result encoded_len[KINDS][TOPICS];
static uint8_t out[256];
static tw_packet decoded;

/* Hides the contents and the use of memory from the optimizer. */
static void touch(void) {
    __asm__ volatile("" ::: "memory");
}

static int encode_all(const tw_publish *list, tw_version version, int times) {
    int i, failed = 0;
    for (i = 0; times-- > 0; i = i + 1 == TOPICS ? 0 : i + 1) {
        failed |= tw_encode_publish(&list[i], version, out, sizeof out) < 0;
        touch();
    }
    return failed;
}

static int decode_all(int kind, tw_version version, int times) {
    int i, failed = 0;
    for (i = 0; times-- > 0; i = i + 1 == TOPICS ? 0 : i + 1) {
        failed |= tw_decode(encoded[kind][i], (size_t)encoded_len[kind][i], version, TW_MAX_PACKET_BYTES, &decoded) < 0;
        touch();
    }
    return failed;
}

static int decode_v3(int times) {
    return decode_all(V3, TW_V3_1_1, times);
}

static int decode_v5(int times) {
    return decode_all(V5, TW_V5, times);
}

static int decode_properties(int times) {
    return decode_all(V5_PROPERTIES, TW_V5, times);
}

static int decode_puback(int times) {
    return decode_all(PUBACK, TW_V5, times);
}

static int encode_v3(int times) {
    return encode_all(plain, TW_V3_1_1, times);
}

static int encode_v5(int times) {
    return encode_all(plain, TW_V5, times);
}

static int encode_properties(int times) {
    return encode_all(with_properties, TW_V5, times);
}

static const struct measured {
    const char *name;
    int (*run)(int times);
} CASES[] = {
    {"decode/c-publish-qos1-v3", decode_v3},
    {"decode/c-publish-qos1-v5", decode_v5},
    {"decode/c-publish-qos1-v5-properties", decode_properties},
    {"decode/c-puback-v5", decode_puback},
    {"encode/c-publish-qos1-v3", encode_v3},
    {"encode/c-publish-qos1-v5", encode_v5},
    {"encode/c-publish-qos1-v5-properties", encode_properties},
};

__attribute__((noinline)) int measured_operations(const struct measured *measured) {
    return measured->run(OPERATIONS);
}

static void set_up(void) {
    tw_writer writer = tw_writer_on(properties, sizeof properties);
    int i;
    memset(payload, 'p', sizeof payload);
    tw_put_text(&writer, TW_CONTENT_TYPE, tw_str("application/json"));
    tw_put_user_property(&writer, tw_str("source"), tw_str("gateway-17"));
    tw_put_user_property(&writer, tw_str("region"), tw_str("eu-north"));
    for (i = 0; i < TOPICS; i++) {
        tw_packet ack;
        sprintf(topics[i], "sensors/room-%02d/temp", i);
        plain[i] = tw_message(tw_view(topics[i], 20), tw_view(payload, sizeof payload), TW_AT_LEAST_ONCE);
        plain[i].packet_id = (uint16_t)(1 + i);
        with_properties[i] = plain[i];
        with_properties[i].properties = tw_written(&writer);
        memset(&ack, 0, sizeof ack);
        ack.type = TW_PUBACK;
        ack.as.ack.packet_id = plain[i].packet_id;
        encoded_len[V3][i] = tw_encode_publish(&plain[i], TW_V3_1_1, encoded[V3][i], sizeof encoded[V3][i]);
        encoded_len[V5][i] = tw_encode_publish(&plain[i], TW_V5, encoded[V5][i], sizeof encoded[V5][i]);
        encoded_len[V5_PROPERTIES][i] =
            tw_encode_publish(&with_properties[i], TW_V5, encoded[V5_PROPERTIES][i], sizeof encoded[V5_PROPERTIES][i]);
        encoded_len[PUBACK][i] = tw_encode(&ack, TW_V5, encoded[PUBACK][i], sizeof encoded[PUBACK][i]);
    }
}

int main(void) {
    size_t i;
    set_up();
    for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        if (CASES[i].run(OPERATIONS / 10) != 0 || measured_operations(&CASES[i]) != 0) {
            fprintf(stderr, "%s: refused\n", CASES[i].name);
            return 1;
        }
        printf("%s %d\n", CASES[i].name, OPERATIONS);
    }
    return 0;
}
