/* A driver in C: `echo HOST PORT QOS NAME`, `ping HOST PORT QOS DIGIT` or `self HOST PORT QOS DIGIT`. See README.md. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_BYTES 16
#define COUNT_MAX 1000000
#define CLIENTS 16

static const char digits[] = "0123456789abcdef";
static bool is_echo, is_self;
static char topic[64];
static char back[CLIENTS][32];

/* The exchanges of one command. */
static uint32_t times_ns[COUNT_MAX];
static char payload[PAYLOAD_BYTES * 2];
static char digit;
static long number, count, done;
static uint64_t begun_ns, limit_ns, sent_ns;

void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void ask(void) {
    /* Created before the clock starts, because it is the driver's work, not the library's. */
    snprintf(payload, sizeof payload, "%c%015ld", digit, ++number);
    sent_ns = now_ns();
    library_publish(topic, payload, PAYLOAD_BYTES);
}

void on_message(const void *bytes, size_t len) {
    if (is_echo) {
        const char *of = memchr(digits, *(const char *)bytes, CLIENTS);
        if (len != PAYLOAD_BYTES || of == NULL) {
            die("a payload that no client sends");
        }
        library_publish(back[of - digits], bytes, len);
        return;
    }
    {
        uint64_t now = now_ns();
        if (len != PAYLOAD_BYTES || memcmp(bytes, payload, len) != 0) {
            die("not the reply to the last message");
        }
        times_ns[done++] = (uint32_t)(now - sent_ns);
        if (done == count || now - begun_ns > limit_ns) {
            count = done;
        } else {
            ask();
        }
    }
}

static void ping(int qos) {
    char line[128], server[32];
    long limit_ms, i;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%31s %ld %ld", server, &count, &limit_ms) != 3 || count < 1 || count > COUNT_MAX) {
            die("expected: SERVER COUNT LIMIT_MS");
        }
        if (is_self) {
            snprintf(topic, sizeof topic, "rtt/%d/back/%c", qos, digit);
        } else {
            snprintf(topic, sizeof topic, "rtt/%d/there/%s", qos, server);
        }
        done = 0;
        limit_ns = (uint64_t)limit_ms * 1000000;
        begun_ns = now_ns();
        ask();
        while (done < count) {
            library_step();
        }
        for (i = 0; i < done; i++) {
            printf("%u ", times_ns[i]);
        }
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    char filter[64], client_id[32];
    int qos, i;
    if (argc != 6 || (strcmp(argv[1], "echo") != 0 && strcmp(argv[1], "ping") != 0 && strcmp(argv[1], "self") != 0)) {
        die("usage: echo HOST PORT QOS NAME | ping HOST PORT QOS DIGIT | self HOST PORT QOS DIGIT");
    }
    is_echo = strcmp(argv[1], "echo") == 0;
    is_self = strcmp(argv[1], "self") == 0;
    qos = atoi(argv[4]);
    digit = argv[5][0];
    snprintf(client_id, sizeof client_id, "rtt%d", (int)getpid());
    for (i = 0; i < CLIENTS; i++) {
        snprintf(back[i], sizeof back[i], "rtt/%d/back/%c", qos, digits[i]);
    }
    snprintf(filter, sizeof filter, "rtt/%d/%s/%s", qos, is_echo ? "there" : "back", argv[5]);
    library_connect(argv[2], argv[3], client_id, qos);
    library_subscribe(filter);
    printf("ready\n");
    fflush(stdout);
    if (!is_echo) {
        ping(qos);
        return 0;
    }
    for (;;) {
        library_step();
    }
}
