/*
 * Requests and responses (section 4.10), for 5.0: a requester on a client, and the functions of a responder. The events of the client
 * and the time go in; responses come out by a callback. A link passes both on (tw_link.requester).
 */

/** The prefix of response topics, unless the server's Response Information sets one. A random part follows. */
#define TW_RESPONSE_PREFIX "tautwire/response"
#define TW_REQUEST_TIMEOUT_DEFAULT_MS 30000u
#define TW_REQUESTER_RANDOM_BYTES 8u
/** What a requester gets if the responder sends no explanation. */
#define TW_RESPONDER_FAILED "the responder failed"

/** A slot for a pending request. Private. */
typedef struct tw_request {
    /* 0 if the slot is free. */
    uint32_t number;
    uint32_t since_ms, timeout_ms;
    uint16_t packet_id;
} tw_request;

/** The result of a request. Views are those of the event that caused it. */
typedef struct tw_response {
    /** The number from tw_requester_send(). */
    uint32_t number;
    /**
     * 0; TW_REQUEST_FAILED: the responder's explanation is in `sentence`; TW_NO_RESPONDER; TW_REQUEST_TIMEOUT; TW_SUBSCRIBE_REFUSED: the
     * server refused the subscription to responses; or the result of the request as a message (TW_EVENT_PUBLISHED).
     */
    tw_result error;
    /** The reason code of the refusal, if there was one. */
    tw_reason reason;
    tw_bytes payload;
    tw_bytes sentence;
    tw_properties properties;
} tw_response;

typedef struct tw_requester tw_requester;

/** Receives the result of a request. It may call what a tw_on_event may, and tw_requester_send(). */
typedef void (*tw_on_response)(void *user, tw_requester *requester, const tw_response *response);

/** The configuration of a requester. Everything it points to must outlive it. */
typedef struct tw_requester_config {
    tw_client *client;
    /** The slots for pending requests. */
    tw_request *places;
    uint16_t count;
    /** Has room for the response topic (34 bytes without Response Information), and twice that plus 10 bytes and the properties of a
     * request. */
    tw_memory memory;
    /** TW_REQUESTER_RANDOM_BYTES that no other client has. They are copied. */
    const uint8_t *random;
    tw_on_response on_response;
    void *user;
} tw_requester_config;

/** A requester. All fields are private except the counters. */
struct tw_requester {
    tw_client *client;
    tw_request *places;
    tw_memory memory;
    tw_on_response on_response;
    void *user;
    size_t topic_len;
    uint32_t number;
    uint16_t count;
    uint16_t subscribe_id;
    bool is_subscribed;
    uint8_t random[TW_REQUESTER_RANDOM_BYTES];
    /** Counters, which wrap around: responses that arrived too late or twice, and requests without a free slot. */
    uint16_t late, full;
};

/** Initialises a requester. Returns 0; TW_NOT_IN_VERSION before 5.0; TW_BUFFER_TOO_SMALL; TW_ARGUMENT without slots or callback. */
tw_result tw_requester_init(tw_requester *requester, const tw_requester_config *config);

/**
 * Sends a request: a message, preferably at QoS 1, without Response Topic and Correlation Data, which the requester adds. It subscribes
 * to the response topic before the first request. `number`, which may be NULL, identifies the response.
 *
 * Errors: TW_REQUESTS_FULL; TW_BUFFER_TOO_SMALL, also if the properties do not fit; those of tw_client_publish() and
 * tw_client_subscribe().
 */
tw_result tw_requester_send(tw_requester *requester, const tw_publish *request, uint32_t now_ms, uint32_t timeout_ms,
                            uint32_t *number);

/** Abandons a request: its response counts as late, and the callback is not called. */
void tw_requester_cancel(tw_requester *requester, uint32_t number);

/** Handles an event. True if it was only for the requester, so that the application can ignore it. */
bool tw_requester_take(tw_requester *requester, const tw_event *event);

/** Ends requests that have timed out. Returns the milliseconds until the next call; UINT32_MAX for never. */
uint32_t tw_requester_turn(tw_requester *requester, uint32_t now_ms);

/**
 * Responds to a request, which is the message of a TW_EVENT_MESSAGE: at its QoS, to its response topic, with its correlation data.
 * Returns 0, also if it has no response topic. `memory` has room for the correlation data and 3 bytes during the call. Errors:
 * TW_BUFFER_TOO_SMALL, and those of tw_client_publish().
 */
tw_result tw_respond(tw_client *client, const tw_publish *request, tw_bytes payload, tw_memory memory);

/**
 * Responds that the request has failed. The requester gets `sentence`, a text for people: NULL for TW_RESPONDER_FAILED, because the
 * cause may be a secret. As tw_respond(), with 10 bytes more in `memory`, and the sentence.
 */
tw_result tw_respond_failure(tw_client *client, const tw_publish *request, const char *sentence, tw_memory memory);
