/*
 * Layer 2, the client: the state of one session, without I/O. Received bytes and the time go in; bytes to send and events come out.
 * A complete turn:
 *
 *     tw_memory space = tw_client_space(&client);           // receive into it, then say how much it was:
 *     tw_client_received(&client, count);
 *     while (tw_client_next(&client, now_ms, &event)) { ... }
 *     tw_bytes output = tw_client_output(&client);          // send it, then say how much was taken:
 *     tw_client_sent(&client, count);
 *
 * Times are milliseconds of a clock that may start anywhere and may wrap around.
 */

/** The default of `session_expiry_s`: 300 s while the client reconnects, and 0 after tw_client_disconnect(). */
#define TW_SESSION_EXPIRY_DEFAULT 0xFFFFFFFEu
#define TW_SESSION_EXPIRY_DEFAULT_S 300u
#define TW_CONNECT_TIMEOUT_DEFAULT_MS 20000u
#define TW_RESPONSE_TIMEOUT_DEFAULT_MS 10000u

/**
 * The client side of an extended authentication (section 4.12, 5.0 only): SCRAM (tw_scram_authenticator), or your own method. The
 * functions are called in the middle of the protocol; an error, one of tw_error, ends the connection.
 */
typedef struct tw_authenticator {
    const char *method;
    /** Starts an exchange: writes the data for CONNECT, or for a re-authentication. Returns how many bytes; 0 for none. */
    tw_result (*begin)(void *context, tw_memory to);
    /** Answers the server's data. */
    tw_result (*respond)(void *context, tw_bytes challenge, tw_memory to);
    /** Checks the server's last data. Returns 0 to accept the server. */
    tw_result (*finish)(void *context, tw_bytes data);
    void *context;
    /** Must have room for the method and the longest message of this side, plus six bytes. */
    tw_memory space;
} tw_authenticator;

/** The configuration of a client. Start with tw_client_defaults(). Everything it points to must outlive the client. */
typedef struct tw_client_config {
    /**
     * The content of CONNECT. Session Expiry Interval, Receive Maximum, Maximum Packet Size and Topic Alias Maximum must not be
     * among its properties: the client writes the first three. An empty client id always starts a new session. `clean_start`:
     * whether an existing session of the server is discarded at the first connection. In 3.1.1 it is discarded at every connection.
     */
    tw_connect connect;
    /** How long the server keeps the session after the connection, also after tw_client_disconnect(); 0: not at all. 5.0 only.
     * TW_SESSION_EXPIRY_DEFAULT unless you set it.
     */
    uint32_t session_expiry_s;
    /** The time limit for an attempt to connect, up to CONNACK. For a link it includes the name lookup. */
    uint32_t connect_timeout_ms;
    /** The time limit for PINGRESP. */
    uint32_t response_timeout_ms;
    /** The maximum number of unacknowledged QoS 1 and 2 messages; the server may allow fewer. */
    uint16_t max_in_flight;
    /** The receive buffer. Its size is the largest packet that can be received, and is announced to a 5.0 server. */
    tw_memory receive;
    /** The output buffer. No sent packet can be larger. At least 16 bytes. */
    tw_memory transmit;
    /** QoS 1 and 2 messages, and subscriptions, stay here until acknowledged: their packets, plus 8 bytes each. */
    tw_memory outbox;
    /**
     * The stored subscriptions, which the client renews when the server has lost the session: 8 bytes, the filter, and the
     * properties of the SUBSCRIBE for each. Without memory (size 0) you have to subscribe again yourself.
     */
    tw_memory subscriptions;
    /**
     * The packet identifiers of incomplete incoming QoS 2 messages. Their number is announced to a 5.0 server as Receive Maximum. A
     * 3.1.1 server has no such limit: provide as many as it sends at once, which is its own setting. Each further message ends the
     * connection with TW_TOO_MANY_INCOMING. With none, do not subscribe at QoS 2.
     */
    uint16_t *incoming;
    uint16_t incoming_count;
    /**
     * NULL for none. With a store, QoS 1 and 2 messages and the state of their exchanges outlive the process: tw_client_init()
     * restores them, and the first connection resumes the session, whatever `clean_start` is. The outbox, `transmit` and `incoming`
     * must have room for the stored state. In 3.1.1 `clean_start` must be off, because the server keeps no session otherwise.
     */
    const tw_store *store;
    /** NULL for none. With an authenticator, method and data must not be among the properties of CONNECT. */
    const tw_authenticator *authenticator;
} tw_client_config;

typedef enum tw_event_type {
    TW_EVENT_NONE,
    /** The server has accepted the connection. `session_present`, `properties`. */
    TW_EVENT_CONNECTED,
    /** A message has arrived: `message`. It is acknowledged with the next call of tw_client_next(). */
    TW_EVENT_MESSAGE,
    /**
     * A QoS 1 or 2 message is complete: `packet_id`, `error`, `reason`, `properties`. Errors: TW_PUBLISH_REFUSED (see the reason
     * code), TW_SESSION_LOST, and if the server announced limits after the call: TW_OVER_MAXIMUM_PACKET_SIZE, TW_OVER_MAXIMUM_QOS,
     * TW_RETAIN_UNAVAILABLE.
     */
    TW_EVENT_PUBLISHED,
    /**
     * The answer to SUBSCRIBE: `packet_id`, `reasons` (one byte for each filter: the granted QoS, or a failure from 0x80 on),
     * `properties`. TW_SUBSCRIBE_REFUSED if a filter was refused. If the renewal after a lost session was refused, `filter` is the
     * filter; otherwise it is empty.
     */
    TW_EVENT_SUBSCRIBED,
    /** The answer to UNSUBSCRIBE: as above, with TW_UNSUBSCRIBE_REFUSED. `reasons` is empty in 3.1.1. */
    TW_EVENT_UNSUBSCRIBED,
    /**
     * With an authenticator: the server has accepted a re-authentication, and the authenticator the server's proof. Without: the
     * server continues the authentication (`reason`, `properties`), and you answer with tw_client_auth().
     */
    TW_EVENT_AUTH,
    /**
     * The connection has ended, or an attempt has failed: `error`, `reason`, `properties`, `is_final`. Send the rest of
     * tw_client_output(), and close.
     */
    TW_EVENT_CLOSED
} tw_event_type;

/** An event. Views are valid until the next call of tw_client_next() or tw_client_space(). */
typedef struct tw_event {
    tw_event_type type;
    /** 0, or the error. */
    tw_result error;
    /** The reason code of the server's packet, or of the DISCONNECT of this side. TW_SUCCESS if there is none. */
    tw_reason reason;
    uint16_t packet_id;
    bool session_present;
    /** The server will not accept another attempt either. */
    bool is_final;
    /** It is in the memory of subscriptions: to subscribe to it again, pass a copy to tw_client_subscribe(). */
    tw_bytes filter;
    tw_bytes reasons;
    tw_properties properties;
    tw_publish message;
} tw_event;

/** How often a limit was reached, and what was ignored. They wrap around. */
typedef struct tw_client_counters {
    uint16_t outbox_full;
    uint16_t transmit_full;
    uint16_t in_flight_full;
    uint16_t incoming_full;
    uint16_t subscriptions_full;
    /** Acknowledgements without a pending packet. */
    uint16_t acks_unexpected;
    uint16_t timeouts;
    /** Changes that the store could not save. */
    uint16_t store_failed;
} tw_client_counters;

/** A client. All fields are private except `counters`. It uses only its own memory and that of the configuration. */
typedef struct tw_client {
    tw_client_config config;
    tw_client_counters counters;
    size_t receive_start, receive_end;
    size_t transmit_start, transmit_end;
    size_t head, tail, limit, cursor;
    size_t subscriptions_len;
    size_t kept_bytes;
    uint32_t sent_at_ms, heard_at_ms, asked_at_ms;
    uint32_t server_max_packet_bytes;
    uint32_t auth_len;
    uint16_t records, unsent, settled;
    uint16_t next_packet_id;
    uint16_t in_flight, max_in_flight;
    uint16_t incoming_used;
    uint16_t keep_alive_s;
    uint16_t ack_packet_id;
    uint8_t ack_type;
    uint8_t ack_reason;
    uint8_t auth_reason;
    uint8_t state;
    uint8_t server_max_qos;
    bool server_retains;
    bool has_session;
    bool asked_clean;
    bool is_waiting_for_pong, owes_ping;
    bool has_sent, has_heard;
    bool is_authenticating;
    bool owes_subscriptions, owes_releases;
    bool is_store_behind, has_store_failed;
} tw_client;

/**
 * MQTT 5.0, clean start, keep alive 60 s, session expiry 300 s, 20 s for an attempt, 10 s for PINGRESP, no own limit of in-flight
 * messages.
 */
tw_client_config tw_client_defaults(void);

/**
 * Initialises a client. Returns 0, or what is wrong with the configuration. With a store, also: TW_STORE_FAILED (it cannot be
 * read), TW_BUFFER_TOO_SMALL (the outbox, `transmit` or `incoming` is too small for the stored state), TW_NOT_IN_VERSION (the
 * stored messages are for another version of the protocol), TW_ARGUMENT (its capacity is too small for `incoming_count`).
 */
tw_result tw_client_init(tw_client *client, const tw_client_config *config);

/** The transport is open: starts a connection. The first output is CONNECT. */
tw_result tw_client_open(tw_client *client, uint32_t now_ms);

/** The transport is closed. Unacknowledged messages stay in the outbox for the next tw_client_open(). */
void tw_client_close(tw_client *client);

/** Whether the server has accepted the connection. */
bool tw_client_is_connected(const tw_client *client);

/** Whether all messages and requests have been acknowledged. */
bool tw_client_is_idle(const tw_client *client);

/** The buffer to receive into. Empty if nothing can be received now. */
tw_memory tw_client_space(tw_client *client);

/** `count` bytes have been received into tw_client_space(). */
void tw_client_received(tw_client *client, size_t count);

/**
 * Handles received bytes and timeouts. True: there is an event, call it again. False: nothing to do until bytes are received or
 * sent, or tw_client_wait_ms() has passed.
 */
bool tw_client_next(tw_client *client, uint32_t now_ms, tw_event *event);

/** The bytes to send. */
tw_bytes tw_client_output(const tw_client *client);

/** The first `count` bytes of tw_client_output() have been sent. */
void tw_client_sent(tw_client *client, size_t count);

/** Milliseconds until tw_client_next() must be called even if nothing happens; UINT32_MAX for never. */
uint32_t tw_client_wait_ms(const tw_client *client, uint32_t now_ms);

/**
 * Publishes a message; the client sets its `packet_id` and `dup`. Returns 0. `packet_id`, which may be NULL, is the identifier in
 * TW_EVENT_PUBLISHED; 0 for QoS 0.
 *
 * QoS 1 and 2 work without a connection, too: the message waits in the outbox, is sent as soon as possible, and again after a
 * reconnection, until TW_EVENT_PUBLISHED. `message` may be freed after the call.
 *
 * With a store, the message is stored when the function returns 0: it is sent even if the process ends now.
 *
 * Errors: TW_NOT_CONNECTED (QoS 0), TW_OUTBOX_FULL, TW_OUTPUT_FULL, TW_BUFFER_TOO_SMALL (it will never fit), TW_STORE_FAILED,
 * TW_OVER_MAXIMUM_PACKET_SIZE, TW_OVER_MAXIMUM_QOS, TW_RETAIN_UNAVAILABLE, TW_ARGUMENT (also for a Topic Alias, which does
 * not outlive a connection), and those of tw_encode().
 */
tw_result tw_client_publish(tw_client *client, const tw_publish *message, uint16_t *packet_id);

/**
 * Subscribes. Returns 0. `packet_id`, which may be NULL, is the identifier in TW_EVENT_SUBSCRIBED. Errors as tw_client_publish(),
 * and TW_SUBSCRIPTIONS_FULL.
 *
 * The client stores the subscription until you end it or the server refuses it, and renews it, with all `properties`, when the
 * server has lost the session (see `subscriptions` of tw_client_config).
 */
tw_result tw_client_subscribe(tw_client *client, const tw_subscription *list, size_t count, tw_properties properties,
                              uint16_t *packet_id);

/** Ends subscriptions. Only the filters of `list` are used. As tw_client_subscribe(), with TW_EVENT_UNSUBSCRIBED. */
tw_result tw_client_unsubscribe(tw_client *client, const tw_subscription *list, size_t count, tw_properties properties,
                                uint16_t *packet_id);

/** Refuses the message of the last TW_EVENT_MESSAGE with a reason code of PUBACK. Only 5.0, only QoS 1 and 2. */
tw_result tw_client_reject(tw_client *client, tw_reason reason);

/**
 * Starts a re-authentication with the authenticator (section 4.12.1), while messages flow; TW_EVENT_AUTH reports that the server
 * has accepted. If either side refuses, the connection ends. Errors: TW_NOT_CONNECTED; TW_ARGUMENT, if there is no authenticator or
 * a re-authentication is in progress; TW_BUFFER_TOO_SMALL; those of the authenticator.
 */
tw_result tw_client_reauthenticate(tw_client *client);

/** Without an authenticator: answers TW_EVENT_AUTH, or starts a re-authentication (section 4.12). */
tw_result tw_client_auth(tw_client *client, tw_reason reason, tw_properties properties);

/**
 * Ends the connection: send the output, then close the transport. In 3.1.1 `reason` is TW_SUCCESS. The session ends, too, unless
 * you have set `session_expiry_s`.
 */
tw_result tw_client_disconnect(tw_client *client, tw_reason reason);
