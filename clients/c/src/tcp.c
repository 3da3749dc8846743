static tw_result tcp_open(void *context);
static tw_result tcp_recv(void *context, uint8_t *to, size_t size);
static tw_result tcp_send(void *context, const uint8_t *bytes, size_t len);
static void tcp_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms);
static void tcp_close(void *context);
static uint32_t tcp_now_ms(void *context);

tw_transport tw_tcp_transport(tw_tcp *tcp, const char *host, const char *port) {
    tw_transport transport;
    memset(tcp, 0, sizeof *tcp);
    tcp->host = host;
    tcp->port = port;
    tcp->fd = -1;
    transport.recv = tcp_recv;
    transport.send = tcp_send;
    transport.now_ms = tcp_now_ms;
    transport.open = tcp_open;
    transport.wait = tcp_wait;
    transport.close = tcp_close;
    transport.context = tcp;
    return transport;
}

static void close_socket(tw_tcp *tcp) {
    if (tcp->fd >= 0) {
        (void)close(tcp->fd);
    }
    tcp->fd = -1;
    tcp->is_open = false;
}

static void tcp_close(void *context) {
    tw_tcp *tcp = (tw_tcp *)context;
    close_socket(tcp);
    if (tcp->addresses != NULL) {
        freeaddrinfo((struct addrinfo *)tcp->addresses);
    }
    tcp->addresses = NULL;
    tcp->address = NULL;
}

static bool look_up(tw_tcp *tcp) {
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(tcp->host, tcp->port, &hints, &found) != 0) {
        return false;
    }
    tcp->addresses = found;
    tcp->address = found;
    return true;
}

/* Begins to connect to an address. False if that failed at once. */
static bool begin(tw_tcp *tcp, const struct addrinfo *address) {
    int yes = 1, flags;
    tcp->fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (tcp->fd < 0) {
        return false;
    }
    /* Small packets are sent at once: the library puts together what belongs together. */
    (void)setsockopt(tcp->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
#ifdef SO_NOSIGPIPE
    (void)setsockopt(tcp->fd, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
    flags = fcntl(tcp->fd, F_GETFL, 0);
    if (flags < 0 || fcntl(tcp->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return false;
    }
    return connect(tcp->fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS;
}

/* 1 if the socket is connected, 0 if not yet, -1 if it failed. */
static tw_result progress(const tw_tcp *tcp) {
    struct pollfd poller;
    int error = 0;
    socklen_t len = sizeof error;
    poller.fd = tcp->fd;
    poller.events = POLLOUT;
    poller.revents = 0;
    if (poll(&poller, 1, 0) <= 0) {
        return 0;
    }
    return getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0 ? 1 : -1;
}

static tw_result tcp_open(void *context) {
    tw_tcp *tcp = (tw_tcp *)context;
    if (tcp->is_open) {
        return 1;
    }
    if (tcp->addresses == NULL && !look_up(tcp)) {
        return -1;
    }
    for (;;) {
        const struct addrinfo *address = (const struct addrinfo *)tcp->address;
        if (tcp->fd >= 0) {
            tw_result state = progress(tcp);
            if (state >= 0) {
                tcp->is_open = state > 0;
                return state;
            }
        } else if (address == NULL) {
            tcp_close(tcp);
            return -1;
        } else if (begin(tcp, address)) {
            tcp->address = address->ai_next;
            continue;
        } else {
            tcp->address = address->ai_next;
        }
        close_socket(tcp);
    }
}

static bool is_for_later(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static tw_result tcp_recv(void *context, uint8_t *to, size_t size) {
    ssize_t count = recv(((tw_tcp *)context)->fd, to, size < INT32_MAX ? size : INT32_MAX, 0);
    if (count > 0) {
        return (tw_result)count;
    }
    return count < 0 && is_for_later() ? 0 : -1;
}

static tw_result tcp_send(void *context, const uint8_t *bytes, size_t len) {
#ifdef MSG_NOSIGNAL
    int flags = MSG_NOSIGNAL;
#else
    int flags = 0;
#endif
    ssize_t count = send(((tw_tcp *)context)->fd, bytes, len < INT32_MAX ? len : INT32_MAX, flags);
    if (count >= 0) {
        return (tw_result)count;
    }
    return is_for_later() ? 0 : -1;
}

static void tcp_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    struct pollfd poller;
    poller.fd = ((tw_tcp *)context)->fd;
    poller.events = (short)((to_receive ? POLLIN : 0) | (to_send ? POLLOUT : 0));
    poller.revents = 0;
    /* Without a socket this is a pause. */
    (void)poll(&poller, 1, timeout_ms < INT32_MAX ? (int)timeout_ms : INT32_MAX);
}

static uint32_t tcp_now_ms(void *context) {
    struct timespec now;
    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u);
}
