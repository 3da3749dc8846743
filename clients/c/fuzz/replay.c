/*
 * A fuzz target without libFuzzer: runs it with every vector, with each version prepended, and with mutations of them
 * from a fixed seed. `replay [MUTATIONS]`.
 */
#include "check.h"
#include "fuzz.h"
#include "vectors.h"

#define LONGEST 2048

static size_t load(const vector *v, uint8_t *to) {
    size_t len = 0, i, n;
    for (i = 0; i < v->input.count; i++) {
        const blob_part *part = &v->input.parts[i];
        for (n = 0; n < part->count && len + part->len <= LONGEST; n++) {
            memcpy(to + len, VECTOR_POOL + part->at, part->len);
            len += part->len;
        }
    }
    return len;
}

/* The input gets memory of exactly its size, so that the sanitizer detects reads past its end. */
static void feed(const uint8_t *bytes, size_t len) {
    uint8_t *exact = (uint8_t *)malloc(len > 0 ? len : 1);
    memcpy(exact, bytes, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static size_t mutate(dice *d, uint8_t *bytes, size_t len) {
    uint32_t count = 1 + roll(d, 4);
    while (count-- > 0 && len > 2) {
        size_t at = roll(d, (uint32_t)len);
        switch (roll(d, 5)) {
        case 0: bytes[at] = (uint8_t)roll(d, 256); break;
        case 1: bytes[at] = (uint8_t)(bytes[at] ^ 1u << roll(d, 8)); break;
        case 2:
            memmove(bytes + at, bytes + at + 1, len - at - 1);
            len--;
            break;
        case 3:
            if (len < LONGEST) {
                memmove(bytes + at + 1, bytes + at, len - at);
                len++;
            }
            break;
        default: len = at + 1; break;
        }
    }
    return len;
}

int main(int argc, char **argv) {
    static uint8_t bytes[LONGEST + 16], second[LONGEST + 16];
    long mutations = argc > 1 ? atol(argv[1]) : 100000, n;
    dice d = {88172645463325252u};
    size_t i, len;
    for (i = 0; i < PACKET_VECTOR_COUNT; i++) {
        for (n = 0; n < 3; n++) {
            bytes[0] = (uint8_t)n;
            len = load(&PACKET_VECTORS[i], bytes + 1);
            feed(bytes, len + 1);
        }
    }
    for (n = 0; n < mutations; n++) {
        bytes[0] = (uint8_t)roll(&d, 256);
        len = 1 + load(&PACKET_VECTORS[roll(&d, (uint32_t)PACKET_VECTOR_COUNT)], bytes + 1);
        if (roll(&d, 2) == 0) {
            size_t more = load(&PACKET_VECTORS[roll(&d, (uint32_t)PACKET_VECTOR_COUNT)], second);
            size_t room = len < LONGEST ? LONGEST - len : 0;
            more = more < room ? more : room;
            memcpy(bytes + len, second, more);
            len += more;
        }
        if (roll(&d, 4) == 0) {
            for (i = 1; i < len && i < 200; i++) {
                bytes[i] = (uint8_t)roll(&d, 256);
            }
        }
        feed(bytes, mutate(&d, bytes, len));
    }
    printf("%ld inputs\n", (long)(PACKET_VECTOR_COUNT * 3) + mutations);
    return 0;
}
