/*
 * A library for LD_PRELOAD that sets TCP_NODELAY on all TCP sockets: for paho.mqtt.c, which has no option for it. Used by the
 * round-trip matrix and tests/nodelay.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TYPE_MASK 0xf

int socket(int domain, int type, int protocol) {
    int fd = (int)syscall(SYS_socket, domain, type, protocol);
    int on = 1;
    if (fd >= 0 && (domain == AF_INET || domain == AF_INET6) && (type & TYPE_MASK) == SOCK_STREAM &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}
