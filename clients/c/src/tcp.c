#ifdef MSG_NOSIGNAL
#define WITHOUT_SIGNAL MSG_NOSIGNAL
#else
#define WITHOUT_SIGNAL 0
#endif
/* The flag for a non-blocking receive. Without it no receive may block. */
#ifdef MSG_DONTWAIT
#define WITHOUT_WAIT MSG_DONTWAIT
#else
#define WITHOUT_WAIT 0
#endif

/* The maximum time that a receive blocks. A connection on which bytes arrive sooner than that is active ("brisk"). */
#define BLOCK_MS 50u

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
    tcp->is_brisk = false;
    tcp->may_block = false;
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

/* Returns 0, or why there is no address. */
static tw_result look_up(tw_tcp *tcp) {
    struct addrinfo hints, *found = NULL;
    int wrong;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    wrong = getaddrinfo(tcp->host, tcp->port, &hints, &found);
    if (wrong != 0) {
        return wrong == EAI_SERVICE ? TW_UNREACHABLE : TW_NAME_NOT_FOUND;
    }
    tcp->addresses = found;
    tcp->address = found;
    return 0;
}

/* Starts to connect to an address. False if that fails at once. */
static bool begin(tw_tcp *tcp, const struct addrinfo *address) {
    int yes = 1, flags;
    tcp->fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (tcp->fd < 0) {
        return false;
    }
    /* Small packets are sent at once: the library already combines them. */
    (void)setsockopt(tcp->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
#ifdef SO_NOSIGPIPE
    (void)setsockopt(tcp->fd, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
    /* A child process would keep the connection open, so that the server would not see its end. */
    (void)fcntl(tcp->fd, F_SETFD, FD_CLOEXEC);
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

/* The time left for the current address: one that never answers, as often with IPv6, must not block the others. */
static uint32_t address_left_ms(const tw_tcp *tcp) {
    return tcp->address == NULL ? UINT32_MAX : left_ms(tcp_now_ms(NULL), tcp->since_ms, TW_TCP_ADDRESS_MS);
}

static tw_result tcp_open(void *context) {
    tw_tcp *tcp = (tw_tcp *)context;
    tw_result result;
    if (tcp->is_open) {
        return 1;
    }
    if (tcp->addresses == NULL && (result = look_up(tcp)) < 0) {
        return result;
    }
    for (;;) {
        const struct addrinfo *address = (const struct addrinfo *)tcp->address;
        if (tcp->fd >= 0) {
            tw_result state = progress(tcp);
            if (state > 0 || (state == 0 && address_left_ms(tcp) > 0)) {
                tcp->is_open = state > 0;
                return state;
            }
        } else if (address == NULL) {
            tcp_close(tcp);
            return TW_UNREACHABLE;
        } else if (begin(tcp, address)) {
            tcp->address = address->ai_next;
            tcp->since_ms = tcp_now_ms(tcp);
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

static tw_result receive(const tw_tcp *tcp, uint8_t *to, size_t size, int flags) {
    ssize_t count = recv(tcp->fd, to, size < INT32_MAX ? size : INT32_MAX, flags);
    if (count > 0) {
        return (tw_result)count;
    }
    return count < 0 && is_for_later() ? 0 : -1;
}

static tw_result tcp_recv(void *context, uint8_t *to, size_t size) {
    return receive((const tw_tcp *)context, to, size, WITHOUT_WAIT);
}

static tw_result tcp_send(void *context, const uint8_t *bytes, size_t len) {
    ssize_t count = send(((tw_tcp *)context)->fd, bytes, len < INT32_MAX ? len : INT32_MAX, WITHOUT_SIGNAL | WITHOUT_WAIT);
    if (count >= 0) {
        return (tw_result)count;
    }
    return is_for_later() ? 0 : -1;
}

static void tcp_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    const tw_tcp *tcp = (const tw_tcp *)context;
    struct pollfd poller;
    if (!tcp->is_open && tcp->fd >= 0) {
        timeout_ms = lesser(timeout_ms, address_left_ms(tcp));
    }
    poller.fd = tcp->fd;
    poller.events = (short)((to_receive ? POLLIN : 0) | (to_send ? POLLOUT : 0));
    poller.revents = 0;
    /* Without a socket this only waits. */
    (void)poll(&poller, 1, timeout_ms < INT32_MAX ? (int)timeout_ms : INT32_MAX);
}

static uint32_t tcp_now_ms(void *context) {
    struct timespec now;
    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u);
}

/* Whether the transport is still plain TCP, with nothing such as TLS in between. */
static bool is_tcp(const tw_transport *transport) {
    return transport->recv == tcp_recv && transport->wait == tcp_wait && transport->now_ms == tcp_now_ms;
}

/*
 * Lets receives block, for BLOCK_MS at most. It is called only when needed: a socket that others read, such as a TLS
 * library, never blocks.
 */
static bool let_block(tw_tcp *tcp) {
    if (!tcp->may_block && WITHOUT_WAIT != 0) {
        struct timeval limit;
        int flags = fcntl(tcp->fd, F_GETFL, 0);
        limit.tv_sec = 0;
        limit.tv_usec = BLOCK_MS * 1000;
        tcp->may_block = flags >= 0 && setsockopt(tcp->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
                         fcntl(tcp->fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
    }
    return tcp->may_block;
}

/*
 * tcp_wait() and tcp_recv(), in one system call if the connection is brisk. The timeout of a blocking receive is coarse, and
 * may be exceeded by some milliseconds: poll(), which is exact, waits for the rest. A connection that is not brisk uses only
 * poll(), so that a quiet one causes no extra wake-ups. `start_ms` is now.
 */
static tw_result tcp_await(tw_tcp *tcp, uint8_t *to, size_t size, uint32_t start_ms, uint32_t timeout_ms) {
    uint32_t wait_ms = timeout_ms;
    tw_result count;
    if (tcp->is_brisk && timeout_ms >= 2 * BLOCK_MS && let_block(tcp)) {
        count = receive(tcp, to, size, 0);
        /* A signal ends the wait, as with poll(). */
        if (count != 0 || errno == EINTR) {
            return count;
        }
        wait_ms = left_ms(tcp_now_ms(tcp), start_ms, timeout_ms);
    }
    tcp_wait(tcp, true, false, wait_ms);
    count = tcp_recv(tcp, to, size);
    tcp->is_brisk = count > 0 && tcp_now_ms(tcp) - start_ms < BLOCK_MS;
    return count;
}
