/*
 * Layer 2, the client: the state of one session, without input or output of its own. Bytes that arrived and the time go
 * in; bytes to be sent and events come out. A full turn:
 *
 *     tw_memory space = tw_client_space(&client);           // receive into it, then say how much it was:
 *     tw_client_received(&client, count);
 *     while (tw_client_next(&client, now_ms, &event)) { ... }
 *     tw_bytes output = tw_client_output(&client);          // send it, then say how much was taken:
 *     tw_client_sent(&client, count);
 *
 * Times are milliseconds of a clock that may begin anywhere and may wrap around.
 */

/** The default of `session_expiry_s`: 300 s while the client reconnects, and none after tw_client_disconnect(). */
#define TW_SESSION_EXPIRY_DEFAULT 0xFFFFFFFEu
#define TW_SESSION_EXPIRY_DEFAULT_S 300u
#define TW_CONNECT_TIMEOUT_DEFAULT_MS 20000u
#define TW_RESPONSE_TIMEOUT_DEFAULT_MS 10000u

/**
 * One side of an extended authentication (section 4.12, 5.0 alone): SCRAM (tw_scram_authenticator), or a method of your own. The
 * functions are called in the middle of the protocol; an error of theirs, one of tw_error, ends the connection.
 */
typedef struct tw_authenticator {
    const char *method;
    /** Begins anew: writes the data that goes with CONNECT, or begins a re-authentication. Answers how many bytes; 0 for none. */
    tw_result (*begin)(void *context, tw_memory to);
    /** Answers the server's data. */
    tw_result (*respond)(void *context, tw_bytes challenge, tw_memory to);
    /** Checks what the server sent with its success. Answers 0 if it can be believed. */
    tw_result (*finish)(void *context, tw_bytes data);
    void *context;
    /** Holds the method and the longest message of this side, and six bytes. */
    tw_memory space;
} tw_authenticator;

/** How a client is set up. Begin with tw_client_defaults(). What it points to must outlive the client. */
typedef struct tw_client_config {
    /**
     * What CONNECT says. Session Expiry Interval, Receive Maximum, Maximum Packet Size and Topic Alias Maximum must not
     * be among its properties: the client writes the first three. An empty client id always begins a new session.
     * `clean_start`: whether a session that the server may have is given up at the first connection. In 3.1.1 it is
     * given up at every connection.
     */
    tw_connect connect;
    /**
     * How long the server keeps the session after the connection, also after tw_client_disconnect(); 0: not at all.
     * Only in 5.0. TW_SESSION_EXPIRY_DEFAULT unless you set it.
     */
    uint32_t session_expiry_s;
    /** How long an attempt to connect may take, up to CONNACK. A link counts from the lookup of the name on. */
    uint32_t connect_timeout_ms;
    /** How long an answer to PINGREQ may take. */
    uint32_t response_timeout_ms;
    /** How many messages with QoS 1 and 2 may wait for acknowledgement; the server may want fewer. */
    uint16_t max_in_flight;
    /** Packets are received here. Its size is the largest packet that can be received, and is told to a 5.0 server. */
    tw_memory receive;
    /** Packets wait here until they are sent. No packet can be larger. At least 16 bytes. */
    tw_memory transmit;
    /** Messages with QoS 1 and 2, and subscriptions, stay here until acknowledged: their packets, and 8 bytes for each. */
    tw_memory outbox;
    /**
     * Subscriptions stay here, so that the client asks for them again when the server has lost the session: 8 bytes, the
     * filter, and the properties of the SUBSCRIBE for each. Without memory (size 0) you subscribe again yourself.
     */
    tw_memory subscriptions;
    /**
     * Packet identifiers of incoming QoS 2 messages that are not complete yet. Their number is told to a 5.0 server as Receive
     * Maximum. A 3.1.1 server cannot be told: lend as many as it sends at once, which is its own setting. Each further message ends
     * the connection with TW_TOO_MANY_INCOMING. With none, do not subscribe at QoS 2.
     */
    uint16_t *incoming;
    uint16_t incoming_count;
    /**
     * NULL for none. With one, messages with QoS 1 and 2 and the state of their exchanges outlive the process: tw_client_init()
     * reads them back, and the first connection resumes the session, whatever `clean_start` says. The outbox, `transmit` and
     * `incoming` must have room for what was kept. In 3.1.1 `clean_start` must be off, as the server keeps no session otherwise.
     */
    const tw_store *store;
    /** NULL for none. With one, method and data must not be among the properties of CONNECT. */
    const tw_authenticator *authenticator;
} tw_client_config;

typedef enum tw_event_type {
    TW_EVENT_NONE,
    /** The server has accepted the connection. `session_present`, `properties`. */
    TW_EVENT_CONNECTED,
    /** A message has arrived: `message`. It is acknowledged with the next call of tw_client_next(). */
    TW_EVENT_MESSAGE,
    /**
     * A message with QoS 1 or 2 is done: `packet_id`, `error`, `reason`, `properties`. Errors: TW_PUBLISH_REFUSED (the
     * reason code says why), TW_SESSION_LOST, and if the server named limits after the call: TW_OVER_MAXIMUM_PACKET_SIZE,
     * TW_OVER_MAXIMUM_QOS, TW_RETAIN_UNAVAILABLE.
     */
    TW_EVENT_PUBLISHED,
    /**
     * The answer to a subscription: `packet_id`, `reasons` (one byte for each filter: the granted QoS, or from 0x80 on why
     * not), `properties`. TW_SUBSCRIBE_REFUSED if a filter was refused. If it was refused when the client asked again
     * after the loss of a session, `filter` says which; otherwise that is empty.
     */
    TW_EVENT_SUBSCRIBED,
    /** The answer to the end of a subscription: as above, with TW_UNSUBSCRIBE_REFUSED. `reasons` is empty in 3.1.1. */
    TW_EVENT_UNSUBSCRIBED,
    /**
     * With an authenticator: the server has accepted a re-authentication, and the authenticator its proof. Without: the server
     * goes on with authentication (`reason`, `properties`), and you answer with tw_client_auth().
     */
    TW_EVENT_AUTH,
    /**
     * The connection is over, or an attempt has failed: `error`, `reason`, `properties`, `is_final`. Send what
     * tw_client_output() still has, and close.
     */
    TW_EVENT_CLOSED
} tw_event_type;

/** Something happened. Views are valid until the next call of tw_client_next() or tw_client_space(). */
typedef struct tw_event {
    tw_event_type type;
    /** 0, or what went wrong. */
    tw_result error;
    /** That of the server's packet, or the one with which this side has ended the connection. TW_SUCCESS where there is none. */
    tw_reason reason;
    uint16_t packet_id;
    bool session_present;
    /** By its answer the server will not accept another attempt either. */
    bool is_final;
    /** It lies in the memory of subscriptions: to subscribe to it again, give tw_client_subscribe() a copy. */
    tw_bytes filter;
    tw_bytes reasons;
    tw_properties properties;
    tw_publish message;
} tw_event;

/** How often a limit was met, and what was passed over. They wrap around. */
typedef struct tw_client_counters {
    uint16_t outbox_full;
    uint16_t transmit_full;
    uint16_t in_flight_full;
    uint16_t incoming_full;
    uint16_t subscriptions_full;
    /** Acknowledgements that belong to nothing. */
    uint16_t acks_unexpected;
    uint16_t timeouts;
    /** Changes that the store could not keep. */
    uint16_t store_failed;
} tw_client_counters;

/** A client. All fields are private but `counters`. It holds no memory but itself and what the configuration lends. */
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
    uint16_t quota, max_quota;
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
    bool owes_subscriptions;
    bool is_store_behind, has_store_failed;
} tw_client;

/**
 * MQTT 5.0, clean start, keep alive 60 s, the session kept for 300 s, attempts of 20 s, answers within 10 s, no limit of
 * its own on messages in flight.
 */
tw_client_config tw_client_defaults(void);

/**
 * Sets a client up. Answers 0, or what is wrong with the configuration. With a store, also: TW_STORE_FAILED (it cannot be read),
 * TW_BUFFER_TOO_SMALL (the outbox, `transmit` or `incoming` does not hold what was kept), TW_NOT_IN_VERSION (messages were kept for
 * another version of the protocol), TW_ARGUMENT (its capacity is too small for `incoming_count`).
 */
tw_result tw_client_init(tw_client *client, const tw_client_config *config);

/** The transport is there: begins a connection. The first output is CONNECT. */
tw_result tw_client_open(tw_client *client, uint32_t now_ms);

/** The transport is gone. What is not acknowledged stays in the outbox for the next tw_client_open(). */
void tw_client_close(tw_client *client);

/** Whether the server has accepted the connection. */
bool tw_client_is_connected(const tw_client *client);

/** Whether everything published and asked for has been acknowledged. */
bool tw_client_is_idle(const tw_client *client);

/** Where to receive to. Empty if nothing more is wanted now. */
tw_memory tw_client_space(tw_client *client);

/** `count` bytes have been received into tw_client_space(). */
void tw_client_received(tw_client *client, size_t count);

/**
 * Works on what has been received, and on what time demands. True: there is an event, ask again. False: nothing left to
 * do until something is received, sent, or tw_client_wait_ms() is over.
 */
bool tw_client_next(tw_client *client, uint32_t now_ms, tw_event *event);

/** What is to be sent. */
tw_bytes tw_client_output(const tw_client *client);

/** The first `count` bytes of tw_client_output() have been sent. */
void tw_client_sent(tw_client *client, size_t count);

/** In how many milliseconds tw_client_next() must be called even if nothing happens; UINT32_MAX for never. */
uint32_t tw_client_wait_ms(const tw_client *client, uint32_t now_ms);

/**
 * Publishes a message, whose `packet_id` and `dup` the client sets itself. Answers 0. `packet_id`, which may be NULL, is
 * what TW_EVENT_PUBLISHED will bring; 0 for QoS 0.
 *
 * With QoS 1 and 2 it works without a connection too: the message waits in the outbox, is sent as soon as may be, and
 * again after a reconnection, until TW_EVENT_PUBLISHED. Nothing of `message` is needed after the call.
 *
 * With a store, the message is in it when the function answers 0: it is sent even if the process ends now.
 *
 * Errors: TW_NOT_CONNECTED (QoS 0), TW_OUTBOX_FULL, TW_OUTPUT_FULL, TW_BUFFER_TOO_SMALL (it will never fit), TW_STORE_FAILED,
 * TW_OVER_MAXIMUM_PACKET_SIZE, TW_OVER_MAXIMUM_QOS, TW_RETAIN_UNAVAILABLE, TW_ARGUMENT (also for a Topic Alias, which does
 * not outlive a connection), and those of tw_encode().
 */
tw_result tw_client_publish(tw_client *client, const tw_publish *message, uint16_t *packet_id);

/**
 * Subscribes. Answers 0. `packet_id`, which may be NULL, is what TW_EVENT_SUBSCRIBED will bring. Errors as
 * tw_client_publish(), and TW_SUBSCRIPTIONS_FULL.
 *
 * The client keeps the subscription until you end it or the server refuses it, and asks for it again, with all
 * `properties`, when the server has lost the session (see `subscriptions` of tw_client_config).
 */
tw_result tw_client_subscribe(tw_client *client, const tw_subscription *list, size_t count, tw_properties properties,
                              uint16_t *packet_id);

/** Ends subscriptions. Of `list`, the filters count. As tw_client_subscribe(), with TW_EVENT_UNSUBSCRIBED. */
tw_result tw_client_unsubscribe(tw_client *client, const tw_subscription *list, size_t count, tw_properties properties,
                                uint16_t *packet_id);

/** Refuses the message of the last TW_EVENT_MESSAGE with a reason code of PUBACK. 5.0 alone, QoS 1 and 2 alone. */
tw_result tw_client_reject(tw_client *client, tw_reason reason);

/**
 * Begins a re-authentication with the authenticator (section 4.12.1), while messages flow; TW_EVENT_AUTH tells when the server has
 * accepted. If either side refuses, the connection ends. Errors: TW_NOT_CONNECTED; TW_ARGUMENT, if there is no authenticator or one
 * goes on already; TW_BUFFER_TOO_SMALL; those of the authenticator.
 */
tw_result tw_client_reauthenticate(tw_client *client);

/** Without an authenticator: answers TW_EVENT_AUTH, or begins re-authentication (section 4.12). */
tw_result tw_client_auth(tw_client *client, tw_reason reason, tw_properties properties);

/**
 * Ends the connection: send the output, then close the transport. In 3.1.1 `reason` is TW_SUCCESS. The session ends, too,
 * unless you have set `session_expiry_s`.
 */
tw_result tw_client_disconnect(tw_client *client, tw_reason reason);
