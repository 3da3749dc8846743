/*
 * The floor: messages of the same size over a bare socket. `tcp-echo` and `udp-echo` print `ready PORT` and send back what
 * comes; `tcp-ping HOST PORT` and `udp-ping HOST PORT` understand the commands of a driver. See README.md.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What PUBLISH with 16 bytes and these topics takes. */
#define MESSAGE_BYTES 40
#define COUNT_MAX 1000000

static uint32_t times_ns[COUNT_MAX];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void receive_whole(int fd, uint8_t *bytes) {
    size_t got = 0;
    while (got < MESSAGE_BYTES) {
        ssize_t n = recv(fd, bytes + got, MESSAGE_BYTES - got, 0);
        if (n <= 0) {
            exit(n < 0);
        }
        got += (size_t)n;
    }
}

static void send_at_once(int fd) {
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        die("TCP_NODELAY");
    }
}

static struct sockaddr_in loopback(const char *host, const char *port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(port));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        die(host);
    }
    return address;
}

static void echo(bool is_tcp) {
    struct sockaddr_in address = loopback("127.0.0.1", "0"), peer;
    socklen_t len = sizeof address;
    uint8_t bytes[MESSAGE_BYTES];
    int fd = socket(AF_INET, is_tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        (is_tcp && listen(fd, 1) != 0)) {
        die("bind");
    }
    printf("ready %d\n", ntohs(address.sin_port));
    fflush(stdout);
    if (is_tcp) {
        fd = accept(fd, NULL, NULL);
        send_at_once(fd);
        for (;;) {
            receive_whole(fd, bytes);
            if (send(fd, bytes, sizeof bytes, 0) != sizeof bytes) {
                die("send");
            }
        }
    }
    for (;;) {
        len = sizeof peer;
        if (recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, &len) != sizeof bytes ||
            sendto(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, len) != sizeof bytes) {
            die("datagram");
        }
    }
}

static void ping(bool is_tcp, const char *host, const char *port) {
    struct sockaddr_in address = loopback(host, port);
    int fd = socket(AF_INET, is_tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    uint8_t bytes[MESSAGE_BYTES], reply[MESSAGE_BYTES];
    char line[128];
    long count, limit_ms, done, i;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        die("connect");
    }
    if (is_tcp) {
        send_at_once(fd);
    }
    memset(bytes, 'p', sizeof bytes);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        uint64_t begun_ns = now_ns(), limit_ns;
        if (sscanf(line, "%*s %ld %ld", &count, &limit_ms) != 2 || count < 1 || count > COUNT_MAX) {
            fprintf(stderr, "expected: SERVER COUNT LIMIT_MS\n");
            exit(2);
        }
        limit_ns = (uint64_t)limit_ms * 1000000;
        for (done = 0; done < count; done++) {
            uint64_t sent_ns = now_ns(), now;
            memcpy(bytes, &done, sizeof done);
            if (send(fd, bytes, sizeof bytes, 0) != sizeof bytes) {
                die("send");
            }
            receive_whole(fd, reply);
            now = now_ns();
            if (memcmp(bytes, reply, sizeof bytes) != 0) {
                fprintf(stderr, "not the reply to the last message\n");
                exit(1);
            }
            times_ns[done] = (uint32_t)(now - sent_ns);
            if (now - begun_ns > limit_ns) {
                done++;
                break;
            }
        }
        for (i = 0; i < done; i++) {
            printf("%u ", times_ns[i]);
        }
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    bool is_tcp = argc > 1 && strncmp(argv[1], "tcp-", 4) == 0;
    const char *task = argc > 1 && strlen(argv[1]) > 4 ? argv[1] + 4 : "";
    if (strcmp(task, "echo") == 0) {
        echo(is_tcp);
    } else if (strcmp(task, "ping") == 0 && argc == 4) {
        ping(is_tcp, argv[2], argv[3]);
        return 0;
    }
    fprintf(stderr, "usage: %s tcp-echo | udp-echo | tcp-ping HOST PORT | udp-ping HOST PORT\n", argv[0]);
    return 2;
}
