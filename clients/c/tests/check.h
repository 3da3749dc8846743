/* A minimal test harness: a failed check is printed and counted; finish() returns the exit status. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int check_failures;
static long check_count;

#define CHECK(condition, ...)                                        \
    do {                                                             \
        check_count++;                                               \
        if (!(condition)) {                                          \
            check_failures++;                                        \
            if (check_failures <= 20) {                              \
                fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
                fprintf(stderr, __VA_ARGS__);                        \
                fputc('\n', stderr);                                 \
            }                                                        \
        }                                                            \
    } while (0)

static inline int finish(const char *what) {
    printf("%s: %ld checks, %d failed\n", what, check_count, check_failures);
    return check_failures == 0 ? 0 : 1;
}

/* Random numbers for seeded tests: the same on every machine (xorshift). */
typedef struct dice {
    uint64_t state;
} dice;

static inline uint32_t roll(dice *d, uint32_t below) {
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return (uint32_t)(d->state >> 33) % below;
}

#endif
