/* Layer 3, the link: a client on a transport, with reconnection and with helpers that wait. */

/**
 * How bytes go in and out: TCP (see tw_tcp_transport), TLS, a serial line. None of the functions blocks but `wait`.
 * Only `recv`, `send` and `now_ms` must be there; the others may be NULL.
 *
 * What they answer below 0 is the error that the link reports, such as TW_NAME_NOT_FOUND. A negative value that is no error
 * of the connection reads as TW_UNREACHABLE from `open`, otherwise as TW_HANDSHAKE_FAILED or TW_CONNECTION_LOST.
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
 * not tw_client_next() and what moves bytes, and no tw_link function. After tw_client_disconnect() the link says goodbye and
 * closes when the handler has returned; there is no event for it. The next tw_link_step() connects again.
 */
typedef void (*tw_on_event)(void *user, tw_link *link, const tw_event *event);

#define TW_RETRY_MIN_DEFAULT_MS 500u
#define TW_RETRY_MAX_DEFAULT_MS 30000u

/**
 * A link. `client` is yours to publish with, and `retry_min_ms`, `retry_max_ms` and `requester` to set; the rest is private.
 */
struct tw_link {
    tw_client client;
    tw_transport transport;
    tw_on_event on_event;
    void *user;
    /**
     * The pause before another attempt to connect. It doubles with each failure, from 0.5 s to 30 s; each is drawn at
     * random between half of it and all of it, so that many clients do not come back at the same moment.
     */
    uint32_t retry_min_ms, retry_max_ms;
#if TW_REQUESTS
    /** NULL, or what takes the responses among the events, and the time. */
    tw_requester *requester;
#endif
    uint32_t retry_ms, since_ms, dice;
    tw_result error, answer;
    uint16_t awaited;
    tw_reason reason;
    uint8_t state;
    bool is_drained, is_telling, is_final;
};

/** Sets a link up; `on_event` may be NULL. Answers 0, or what is wrong with the configuration. Nothing is opened yet. */
tw_result tw_link_init(tw_link *link, const tw_client_config *config, tw_transport transport, tw_on_event on_event,
                       void *user);

/**
 * One turn: connects if there is no connection, sends, waits for at most `timeout_ms`, receives, tells events. Call it
 * again and again: it goes on trying to connect, with pauses. What the events lead to, such as acknowledgements, leaves with
 * the next call and what is published until then; at once if `timeout_ms` is 0.
 *
 * Answers 0; TW_ARGUMENT from within `on_event`; or the error of the TW_EVENT_CLOSED with `is_final` after which the link
 * has given up, until tw_link_connect() is called.
 */
tw_result tw_link_step(tw_link *link, uint32_t timeout_ms);

/**
 * Makes one attempt to connect, at once. Answers 0 or why it failed, such as TW_NAME_NOT_FOUND, TW_UNREACHABLE,
 * TW_CONNECTION_REFUSED (see tw_link_reason) or an error of the authenticator; TW_CONNECT_TIMEOUT after `timeout_ms` or
 * `connect_timeout_ms`. Once connected, tw_link_step() keeps the link so.
 */
tw_result tw_link_connect(tw_link *link, uint32_t timeout_ms);

/**
 * The reason code that belongs to what a tw_link function answered last: that of CONNACK, DISCONNECT, PUBACK, PUBREC,
 * SUBACK or UNSUBACK. TW_SUCCESS where no packet brought one.
 */
tw_reason tw_link_reason(const tw_link *link);

/**
 * Publishes, and waits until the message has been acknowledged (QoS 0: given to the transport). Answers 0, or
 * TW_PUBLISH_REFUSED (see tw_link_reason), TW_SESSION_LOST, and the errors of tw_client_publish(), where TW_OUTBOX_FULL and
 * TW_OUTPUT_FULL mean that there was no room during all of `timeout_ms`. After TW_UNACKNOWLEDGED the message is on its
 * way: at QoS 1 and 2 it is still in the outbox.
 */
tw_result tw_link_publish(tw_link *link, const tw_publish *message, uint32_t timeout_ms);

/**
 * Subscribes to one filter and waits for the answer. Answers 0, and the QoS in `granted` unless that is NULL; or
 * TW_SUBSCRIBE_REFUSED (see tw_link_reason), TW_UNACKNOWLEDGED, and the errors of tw_client_subscribe().
 */
tw_result tw_link_subscribe(tw_link *link, const char *filter, tw_qos qos, uint32_t timeout_ms, tw_qos *granted);

/** Ends one subscription and waits for the answer. Errors as tw_link_subscribe(), with TW_UNSUBSCRIBE_REFUSED. */
tw_result tw_link_unsubscribe(tw_link *link, const char *filter, uint32_t timeout_ms);

#if TW_REQUESTS
/**
 * Sends a request (see tw_requester_send) by `requester` and waits for the response, which is copied to `memory`: payload
 * or, with TW_REQUEST_FAILED, sentence. Answers its error, 0 for none; TW_BUFFER_TOO_SMALL if `memory` does not hold it;
 * and the errors of tw_requester_send().
 */
tw_result tw_link_request(tw_link *link, const tw_publish *request, uint32_t timeout_ms, tw_memory memory,
                          tw_response *response);
#endif

/** Waits until everything has been acknowledged. Answers 0, TW_UNACKNOWLEDGED, or TW_ARGUMENT from within `on_event`. */
tw_result tw_link_flush(tw_link *link, uint32_t timeout_ms);

/**
 * Says goodbye and closes. The session ends, too, unless you have set `session_expiry_s`. Nothing connects again before
 * tw_link_step() or tw_link_connect().
 */
void tw_link_disconnect(tw_link *link);

/** Closes without a word, as when the line is cut. The server publishes the will; the session may be resumed. */
void tw_link_cut(tw_link *link);
