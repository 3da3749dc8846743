/** TCP on POSIX, IPv4 and IPv6. Private except `fd`: -1 while there is no socket. */
typedef struct tw_tcp {
    const char *host;
    const char *port;
    int fd;
    bool is_open, is_brisk, may_block;
    uint32_t since_ms;
    void *addresses;
    void *address;
} tw_tcp;

/** The time limit for one address of a name before the next one is tried. The last one has the rest of `connect_timeout_ms`. */
#define TW_TCP_ADDRESS_MS 5000u

/**
 * Initialises `tcp` and returns its transport. `host` and `port` must outlive it. A name is resolved at each connection, and its
 * addresses are tried in turn.
 */
tw_transport tw_tcp_transport(tw_tcp *tcp, const char *host, const char *port);
