/*
 * The cost of one packet, in nanoseconds of CPU time.
 *
 *     codec [ROUNDS]
 *
 * Prints the results of each round as JSON.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>

#include "stopwatch.h"
#include "tautwire.h"

#define ROUNDS_MAX 51
#define TIMES 100000

#define TOPICS 50

/* As in bench/codec of this repository: a topic of 20 bytes, 64 bytes of payload, fifty topics in turn. */
static char topics[TOPICS][24];
static uint8_t payload[64];
static uint8_t properties[64];
static tw_publish plain[TOPICS], with_properties[TOPICS];
static uint8_t encoded[4][TOPICS][192];
static tw_result encoded_len[4][TOPICS];
static uint8_t out[256];
static tw_packet decoded;

/* The compiler must not know the content of memory, nor that it is never read. */
static void touch(void) {
    __asm__ volatile("" ::: "memory");
}

static int64_t copy_64_bytes(int times) {
    int64_t sum = 0;
    while (times-- > 0) {
        memcpy(out, payload, sizeof payload);
        touch();
        sum += 64;
    }
    return sum;
}

static int64_t encode_all(const tw_publish *list, tw_version version, int times) {
    int64_t sum = 0;
    int i = 0;
    while (times-- > 0) {
        sum += tw_encode_publish(&list[i], version, out, sizeof out);
        touch();
        i = i + 1 == TOPICS ? 0 : i + 1;
    }
    return sum;
}

static int64_t decode_all(int which, tw_version version, int times) {
    int64_t sum = 0;
    int i = 0;
    while (times-- > 0) {
        sum += tw_decode(encoded[which][i], (size_t)encoded_len[which][i], version, TW_MAX_PACKET_BYTES, &decoded);
        touch();
        i = i + 1 == TOPICS ? 0 : i + 1;
    }
    return sum;
}

static int64_t encode_v3(int times) {
    return encode_all(plain, TW_V3_1_1, times);
}

static int64_t encode_v5(int times) {
    return encode_all(plain, TW_V5, times);
}

static int64_t encode_properties(int times) {
    return encode_all(with_properties, TW_V5, times);
}

static int64_t decode_v3(int times) {
    return decode_all(0, TW_V3_1_1, times);
}

static int64_t decode_v5(int times) {
    return decode_all(1, TW_V5, times);
}

static int64_t decode_properties(int times) {
    return decode_all(2, TW_V5, times);
}

static int64_t decode_puback(int times) {
    return decode_all(3, TW_V5, times);
}

static const struct measured {
    const char *name;
    int64_t (*run)(int times);
} MEASURED[] = {
    {"copy_64_bytes", copy_64_bytes},
    {"encode_publish_qos1_64_v3_1_1", encode_v3},
    {"encode_publish_qos1_64_v5", encode_v5},
    {"encode_publish_properties_v5", encode_properties},
    {"decode_publish_qos1_64_v3_1_1", decode_v3},
    {"decode_publish_qos1_64_v5", decode_v5},
    {"decode_publish_properties_v5", decode_properties},
    {"decode_puback_v5", decode_puback},
};
#define COUNT (sizeof MEASURED / sizeof MEASURED[0])

static double samples[COUNT][ROUNDS_MAX];

static void set_up(void) {
    tw_writer writer = tw_writer_on(properties, sizeof properties);
    int i;
    memset(payload, 'p', sizeof payload);
    tw_put_text(&writer, TW_CONTENT_TYPE, tw_str("text/plain"));
    tw_put_user_property(&writer, tw_str("region"), tw_str("A"));
    for (i = 0; i < TOPICS; i++) {
        tw_packet ack;
        sprintf(topics[i], "bench/device/%02d/value", i);
        plain[i] = tw_message(tw_view(topics[i], 20), tw_view(payload, sizeof payload), TW_AT_LEAST_ONCE);
        plain[i].packet_id = (uint16_t)(1000 + i);
        with_properties[i] = plain[i];
        with_properties[i].properties = tw_written(&writer);
        memset(&ack, 0, sizeof ack);
        ack.type = TW_PUBACK;
        ack.as.ack.packet_id = plain[i].packet_id;
        encoded_len[0][i] = tw_encode_publish(&plain[i], TW_V3_1_1, encoded[0][i], sizeof encoded[0][i]);
        encoded_len[1][i] = tw_encode_publish(&plain[i], TW_V5, encoded[1][i], sizeof encoded[1][i]);
        encoded_len[2][i] = tw_encode_publish(&with_properties[i], TW_V5, encoded[2][i], sizeof encoded[2][i]);
        encoded_len[3][i] = tw_encode(&ack, TW_V5, encoded[3][i], sizeof encoded[3][i]);
    }
}

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? (size_t)atoi(argv[1]) : ROUNDS_MAX;
    size_t round, i;
    int64_t sum = 0;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: %s [ROUNDS]; at most %d\n", argv[0], ROUNDS_MAX);
        return 2;
    }
    set_up();
    for (round = 0; round < rounds; round++) {
        for (i = 0; i < COUNT; i++) {
            uint64_t start = thread_ns();
            sum += MEASURED[i].run(TIMES);
            samples[i][round] = (double)(thread_ns() - start) / TIMES;
        }
    }
    printf("{\"topic_bytes\": 20, \"payload_bytes\": 64, \"times\": %d, \"sum\": %lld, \"ns\": {", TIMES, (long long)sum);
    for (i = 0; i < COUNT; i++) {
        printf("%s\n  \"%s\": [", i > 0 ? "," : "", MEASURED[i].name);
        for (round = 0; round < rounds; round++) {
            printf("%s%.3f", round > 0 ? ", " : "", samples[i][round]);
        }
        printf("]");
    }
    printf("\n}}\n");
    return 0;
}
