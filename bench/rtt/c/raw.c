/*
 * The floor: messages of the same size over a bare socket. `tcp-echo` and `udp-echo` print `ready PORT` and echo what
 * arrives; `tcp-ping HOST PORT` and `udp-ping HOST PORT` support the commands of a driver. `relay-echo` is two processes: what
 * the first receives goes to the second, which sends it back through the first. The first waits with epoll, like brokers, and does
 * nothing else: no broker that waits with epoll can be faster. See README.md.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The size of a PUBLISH with 16 bytes and these topics. */
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

/* Opens a socket on a port that the kernel chooses. */
static int bound(int type, struct sockaddr_in *address) {
    socklen_t len = sizeof *address;
    int fd = socket(AF_INET, type, 0);
    *address = loopback("127.0.0.1", "0");
    if (fd < 0 || bind(fd, (struct sockaddr *)address, len) != 0 || getsockname(fd, (struct sockaddr *)address, &len) != 0 ||
        (type == SOCK_STREAM && listen(fd, 2) != 0)) {
        die("bind");
    }
    return fd;
}

static int accepted(int listening) {
    int fd = accept(listening, NULL, NULL);
    if (fd < 0) {
        die("accept");
    }
    send_at_once(fd);
    return fd;
}

static int connected(int type, const struct sockaddr_in *address) {
    int fd = socket(AF_INET, type, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        die("connect");
    }
    if (type == SOCK_STREAM) {
        send_at_once(fd);
    }
    return fd;
}

static void say_ready(const struct sockaddr_in *address) {
    printf("ready %d\n", ntohs(address->sin_port));
    fflush(stdout);
}

static void send_whole(int fd, const uint8_t *bytes) {
    if (send(fd, bytes, MESSAGE_BYTES, MSG_NOSIGNAL) != MESSAGE_BYTES) {
        die("send");
    }
}

static void tcp_echo_on(int fd) {
    uint8_t bytes[MESSAGE_BYTES];
    for (;;) {
        receive_whole(fd, bytes);
        send_whole(fd, bytes);
    }
}

static void tcp_echo(void) {
    struct sockaddr_in address;
    int listening = bound(SOCK_STREAM, &address);
    say_ready(&address);
    tcp_echo_on(accepted(listening));
}

static void watch(int events, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) != 0) {
        die("watch");
    }
}

static void relay_echo(void) {
    struct sockaddr_in address;
    struct epoll_event event;
    uint8_t bytes[MESSAGE_BYTES];
    int listening = bound(SOCK_STREAM, &address), events = epoll_create1(0), echo, asking;
    pid_t child = fork();
    if (child < 0 || events < 0) {
        die("relay");
    }
    if (child == 0) {
        tcp_echo_on(connected(SOCK_STREAM, &address));
    }
    echo = accepted(listening);
    say_ready(&address);
    asking = accepted(listening);
    watch(events, asking);
    watch(events, echo);
    for (;;) {
        if (epoll_wait(events, &event, 1, -1) != 1) {
            die("wait");
        }
        receive_whole(event.data.fd, bytes);
        send_whole(event.data.fd == asking ? echo : asking, bytes);
    }
}

static void udp_echo(void) {
    struct sockaddr_in address, peer;
    uint8_t bytes[MESSAGE_BYTES];
    int fd = bound(SOCK_DGRAM, &address);
    say_ready(&address);
    for (;;) {
        socklen_t len = sizeof peer;
        if (recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, &len) != sizeof bytes ||
            sendto(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, len) != sizeof bytes) {
            die("datagram");
        }
    }
}

static void ping(int type, const char *host, const char *port) {
    const struct sockaddr_in address = loopback(host, port);
    int fd = connected(type, &address);
    uint8_t bytes[MESSAGE_BYTES], reply[MESSAGE_BYTES];
    char line[128];
    long count, limit_ms, done, i;
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
            send_whole(fd, bytes);
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
    const char *task = argc > 1 ? argv[1] : "", *dash = strchr(task, '-');
    if (strcmp(task, "tcp-echo") == 0) {
        tcp_echo();
    } else if (strcmp(task, "relay-echo") == 0) {
        relay_echo();
    } else if (strcmp(task, "udp-echo") == 0) {
        udp_echo();
    } else if (dash != NULL && strcmp(dash, "-ping") == 0 && argc == 4) {
        ping(strncmp(task, "udp", 3) == 0 ? SOCK_DGRAM : SOCK_STREAM, argv[2], argv[3]);
        return 0;
    }
    fprintf(stderr, "usage: %s tcp-echo | udp-echo | relay-echo | tcp-ping HOST PORT | udp-ping HOST PORT | relay-ping HOST PORT\n", argv[0]);
    return 2;
}
