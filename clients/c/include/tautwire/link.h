/* Layer 3, the link: a client on a transport, with reconnection and with helpers that wait. */

/**
 * How bytes go in and out: TCP (see tw_tcp_transport), TLS, a serial line. None of the functions blocks but `wait`.
 * Only `recv`, `send` and `now_ms` must be there; the others may be NULL.
 */
typedef struct tw_transport {
    /** Takes up to `size` bytes. Answers how many; 0 if there are none now; less than 0 if the connection is gone. */
    tw_result (*recv)(void *context, uint8_t *to, size_t size);
    /** Gives up to `len` bytes. Answers how many were taken; 0 if none now; less than 0 if the connection is gone. */
    tw_result (*send)(void *context, const uint8_t *bytes, size_t len);
    /** Milliseconds of a clock that does not jump. */
    uint32_t (*now_ms)(void *context);
    /** Begins or goes on to open. Answers 1 when it is open; 0 while it is not; less than 0 if it failed. */
    tw_result (*open)(void *context);
    /** Returns when what is asked for can be done, or after `timeout_ms`. Without it, the link polls. */
    void (*wait)(void *context, bool to_receive, bool to_send, uint32_t timeout_ms);
    void (*close)(void *context);
    void *context;
} tw_transport;

typedef struct tw_link tw_link;

/**
 * Is told every event. It may call all tw_client functions that publish, subscribe, reject and so on, on `link->client`;
 * not tw_client_next() and what moves bytes, and no tw_link function.
 */
typedef void (*tw_on_event)(void *user, tw_link *link, const tw_event *event);

/** A link. `client` is yours to publish with, and `retry_min_ms` and `retry_max_ms` to set; the rest is private. */
struct tw_link {
    tw_client client;
    tw_transport transport;
    tw_on_event on_event;
    void *user;
    /** The pause before a connection is tried again. It doubles with each failure, from 1 s to 60 s. */
    uint32_t retry_min_ms, retry_max_ms;
    uint32_t retry_ms, since_ms;
    tw_result error, answer;
    uint16_t awaited;
    tw_reason reason;
    uint8_t state;
    bool is_drained, is_telling;
};

/** Sets a link up; `on_event` may be NULL. Answers 0, or what is wrong with the configuration. Nothing is opened yet. */
tw_result tw_link_init(tw_link *link, const tw_client_config *config, tw_transport transport, tw_on_event on_event,
                       void *user);

/**
 * One turn: connects if there is no connection, sends, waits for at most `timeout_ms`, receives, tells events. Call it
 * again and again; it never gives up by itself. What the events lead to, such as acknowledgements, leaves with the next call
 * and what is published until then; at once if `timeout_ms` is 0. Answers 0, or TW_ARGUMENT from within `on_event`.
 */
tw_result tw_link_step(tw_link *link, uint32_t timeout_ms);

/**
 * Connects. Answers 0, TW_REFUSED (see tw_link_reason), the authenticator's error from TW_SCRAM_CREDENTIALS on, or TW_TIMED_OUT:
 * tw_link_step() goes on trying then.
 */
tw_result tw_link_connect(tw_link *link, uint32_t timeout_ms);

/** The reason code of the last TW_EVENT_CLOSED. */
tw_reason tw_link_reason(const tw_link *link);

/**
 * Publishes, and waits until the message has been acknowledged (QoS 0: given to the transport). Answers the reason code:
 * a failure from 0x80 on. After TW_TIMED_OUT a message of QoS 1 or 2 is still in the outbox, and on its way.
 */
tw_result tw_link_publish(tw_link *link, const tw_publish *message, uint32_t timeout_ms);

/** Subscribes to one filter and waits for the answer: the granted QoS, or a reason code from 0x80 on. */
tw_result tw_link_subscribe(tw_link *link, const char *filter, tw_qos qos, uint32_t timeout_ms);

/** Ends one subscription and waits for the answer, a reason code. */
tw_result tw_link_unsubscribe(tw_link *link, const char *filter, uint32_t timeout_ms);

/** Waits until everything has been acknowledged. Answers 0, TW_TIMED_OUT, or TW_ARGUMENT from within `on_event`. */
tw_result tw_link_flush(tw_link *link, uint32_t timeout_ms);

/** Says goodbye and closes. Nothing connects again before tw_link_step() or tw_link_connect(). */
void tw_link_disconnect(tw_link *link);

/** Closes without a word, as when the line is cut. The server publishes the will; the session may be resumed. */
void tw_link_cut(tw_link *link);
