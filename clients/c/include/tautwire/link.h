/* Layer 3, the link: a client on a transport, with reconnection and blocking helpers. */

/**
 * A byte stream: TCP (see tw_tcp_transport), TLS, a serial line. None of the functions blocks except `wait`. Only `recv`,
 * `send` and `now_ms` are mandatory; the others may be NULL.
 *
 * The link reports their negative results as its error, such as TW_NAME_NOT_FOUND. A negative value that is not a connection
 * error becomes TW_UNREACHABLE from `open`, otherwise TW_HANDSHAKE_FAILED or TW_CONNECTION_LOST.
 */
typedef struct tw_transport {
    /** Receives up to `size` bytes. Returns how many; 0 if there are none now; a negative value if the connection is
     * lost. */
    tw_result (*recv)(void *context, uint8_t *to, size_t size);
    /** Sends up to `len` bytes. Returns how many were accepted; 0 if none now; a negative value if the connection is
     * lost. */
    tw_result (*send)(void *context, const uint8_t *bytes, size_t len);
    /** Milliseconds of a monotonic clock. */
    uint32_t (*now_ms)(void *context);
    /** Starts or continues to open. Returns 1 when it is open; 0 while it is not; a negative value on failure. */
    tw_result (*open)(void *context);
    /** Returns when the requested operation is possible, or after `timeout_ms`. Without it, the link polls. */
    void (*wait)(void *context, bool to_receive, bool to_send, uint32_t timeout_ms);
    void (*close)(void *context);
    void *context;
} tw_transport;

typedef struct tw_link tw_link;

/**
 * Receives every event. It may call all tw_client functions that publish, subscribe, reject and so on, on `link->client`,
 * but not tw_client_next(), the functions that move bytes, or any tw_link function. After tw_client_disconnect() the link
 * sends DISCONNECT and closes when the handler has returned; there is no event for that. The next tw_link_step() connects
 * again.
 */
typedef void (*tw_on_event)(void *user, tw_link *link, const tw_event *event);

#define TW_RETRY_MIN_DEFAULT_MS 500u
#define TW_RETRY_MAX_DEFAULT_MS 30000u

/**
 * A link. You may publish with `client`, and set `retry_min_ms`, `retry_max_ms` and `requester`; the rest is private.
 */
struct tw_link {
    tw_client client;
    tw_transport transport;
    tw_on_event on_event;
    void *user;
    /**
     * The delay before another attempt to connect. It doubles with each failure, from 0.5 s to 30 s, and is random between
     * half and all of that, so that many clients do not reconnect at the same moment.
     */
    uint32_t retry_min_ms, retry_max_ms;
#if TW_REQUESTS
    /** NULL, or the requester that handles responses and their timeouts. */
    tw_requester *requester;
#endif
    uint32_t retry_ms, since_ms, dice;
    tw_result error, answer;
    uint16_t awaited;
    tw_reason reason;
    uint8_t state;
    bool is_drained, is_telling, is_final;
};

/** Initialises a link; `on_event` may be NULL. Returns 0, or what is wrong with the configuration. Nothing is opened yet. */
tw_result tw_link_init(tw_link *link, const tw_client_config *config, tw_transport transport, tw_on_event on_event,
                       void *user);

/**
 * One turn: connects if there is no connection, sends, waits for at most `timeout_ms`, receives, reports events. Call it
 * repeatedly: it keeps trying to connect, with delays. Packets that the events cause, such as acknowledgements, are sent
 * with the next call together with what is published until then; at once if `timeout_ms` is 0.
 *
 * Returns 0; TW_ARGUMENT from within `on_event`; or, after a TW_EVENT_CLOSED with `is_final`, its error, until
 * tw_link_connect() is called.
 */
tw_result tw_link_step(tw_link *link, uint32_t timeout_ms);

/**
 * Makes one attempt to connect, at once. Returns 0 or why it failed, such as TW_NAME_NOT_FOUND, TW_UNREACHABLE,
 * TW_CONNECTION_REFUSED (see tw_link_reason) or an error of the authenticator; TW_CONNECT_TIMEOUT after `timeout_ms` or
 * `connect_timeout_ms`. Afterwards tw_link_step() maintains the connection.
 */
tw_result tw_link_connect(tw_link *link, uint32_t timeout_ms);

/**
 * The reason code for the last result of a tw_link function: that of CONNACK, DISCONNECT, PUBACK, PUBREC, SUBACK or
 * UNSUBACK. TW_SUCCESS if there is none.
 */
tw_reason tw_link_reason(const tw_link *link);

/**
 * Publishes, and waits until the message has been acknowledged (QoS 0: passed to the transport). Returns 0, or
 * TW_PUBLISH_REFUSED (see tw_link_reason), TW_SESSION_LOST, and the errors of tw_client_publish(), where TW_OUTBOX_FULL and
 * TW_OUTPUT_FULL mean that there was no room during all of `timeout_ms`. After TW_UNACKNOWLEDGED the message may still be
 * delivered: at QoS 1 and 2 it is still in the outbox.
 */
tw_result tw_link_publish(tw_link *link, const tw_publish *message, uint32_t timeout_ms);

/**
 * Subscribes to one filter and waits for the answer. Returns 0, and the QoS in `granted` unless that is NULL; or
 * TW_SUBSCRIBE_REFUSED (see tw_link_reason), TW_UNACKNOWLEDGED, and the errors of tw_client_subscribe().
 */
tw_result tw_link_subscribe(tw_link *link, const char *filter, tw_qos qos, uint32_t timeout_ms, tw_qos *granted);

/** Ends one subscription and waits for the answer. Errors as tw_link_subscribe(), with TW_UNSUBSCRIBE_REFUSED. */
tw_result tw_link_unsubscribe(tw_link *link, const char *filter, uint32_t timeout_ms);

#if TW_REQUESTS
/**
 * Sends a request (see tw_requester_send) by `requester` and waits for the response, which is copied to `memory`: the
 * payload or, with TW_REQUEST_FAILED, the sentence. Returns its error, 0 for none; TW_BUFFER_TOO_SMALL if `memory` is too
 * small; and the errors of tw_requester_send().
 */
tw_result tw_link_request(tw_link *link, const tw_publish *request, uint32_t timeout_ms, tw_memory memory,
                          tw_response *response);
#endif

/** Waits until everything has been acknowledged. Returns 0, TW_UNACKNOWLEDGED, or TW_ARGUMENT from within `on_event`. */
tw_result tw_link_flush(tw_link *link, uint32_t timeout_ms);

/**
 * Sends DISCONNECT and closes. The session ends, too, unless you have set `session_expiry_s`. Nothing reconnects before
 * tw_link_step() or tw_link_connect().
 */
void tw_link_disconnect(tw_link *link);

/** Closes without DISCONNECT, like a cut line. The server publishes the will; the session may be resumed. */
void tw_link_cut(tw_link *link);
