/** TCP on POSIX, IPv4 and IPv6. Private but for `fd`: -1 while there is no socket. */
typedef struct tw_tcp {
    const char *host;
    const char *port;
    int fd;
    bool is_open, is_brisk, may_block;
    void *addresses;
    void *address;
} tw_tcp;

/** Sets `tcp` up and answers its transport. `host` and `port` must outlive it. A name is looked up at each connection. */
tw_transport tw_tcp_transport(tw_tcp *tcp, const char *host, const char *port);
