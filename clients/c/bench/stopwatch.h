/* CPU time and wall clock time. */
#ifndef STOPWATCH_H
#define STOPWATCH_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Nanoseconds of CPU time of this thread, in user mode and in the kernel. */
static inline uint64_t thread_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The same for all threads of this process. */
static inline uint64_t process_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
