/*
 * Requests and responses (section 4.10), for 5.0: a requester on a client, and what a responder answers with. The events of
 * the client and the time go in; responses come out by a callback. A link hands both on by itself (tw_link.requester).
 */

/** Where the server sends responses, unless its Response Information says otherwise. A random part follows. */
#define TW_RESPONSE_PREFIX "tautwire/response"
#define TW_REQUEST_TIMEOUT_DEFAULT_MS 30000u
#define TW_REQUESTER_RANDOM_BYTES 8u
/** What a requester is told if the responder has nothing to say that is meant for others. */
#define TW_RESPONDER_FAILED "the responder failed"

/** A place for a request that waits for its response. Private. */
typedef struct tw_request {
    /* 0 if the place is free. */
    uint32_t number;
    uint32_t since_ms, timeout_ms;
    uint16_t packet_id;
} tw_request;

/** How a request ended. Views are those of the event that brought it. */
typedef struct tw_response {
    /** What tw_requester_send() gave. */
    uint32_t number;
    /**
     * 0; TW_REQUEST_FAILED: the responder says why in `sentence`; TW_NO_RESPONDER; TW_REQUEST_TIMEOUT; TW_SUBSCRIBE_REFUSED:
     * the server does not let the client hear responses; or what became of the request as a message (TW_EVENT_PUBLISHED).
     */
    tw_result error;
    /** The reason code of the packet that refused, if one did. */
    tw_reason reason;
    tw_bytes payload;
    tw_bytes sentence;
    tw_properties properties;
} tw_response;

typedef struct tw_requester tw_requester;

/** Is told how a request ended. It may call what a tw_on_event may, and tw_requester_send(). */
typedef void (*tw_on_response)(void *user, tw_requester *requester, const tw_response *response);

/** How a requester is set up. What it points to must outlive it. */
typedef struct tw_requester_config {
    tw_client *client;
    /** As many requests may be under way at a time. */
    tw_request *places;
    uint16_t count;
    /** Holds the response topic (34 bytes without Response Information), and twice that and 10 bytes and the properties of a request. */
    tw_memory memory;
    /** TW_REQUESTER_RANDOM_BYTES that no other client has. They are copied. */
    const uint8_t *random;
    tw_on_response on_response;
    void *user;
} tw_requester_config;

/** A requester. All fields are private but the counters. */
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
    /** Counters, which wrap around: responses that came too late or twice, and requests for which there was no place. */
    uint16_t late, full;
};

/** Sets a requester up. Answers 0; TW_NOT_IN_VERSION before 5.0; TW_BUFFER_TOO_SMALL; TW_ARGUMENT without places or callback. */
tw_result tw_requester_init(tw_requester *requester, const tw_requester_config *config);

/**
 * Sends a request: a message, best at QoS 1, without Response Topic and Correlation Data, which the requester adds. The
 * response topic is subscribed to before the first one. `number`, which may be NULL, comes back with the response.
 *
 * Errors: TW_REQUESTS_FULL; TW_BUFFER_TOO_SMALL, also if the properties do not fit; those of tw_client_publish() and
 * tw_client_subscribe().
 */
tw_result tw_requester_send(tw_requester *requester, const tw_publish *request, uint32_t now_ms, uint32_t timeout_ms,
                            uint32_t *number);

/** Gives a request up: its response counts as late, and the callback is not called. */
void tw_requester_cancel(tw_requester *requester, uint32_t number);

/** Looks at an event. True if it was the requester's alone, so that nobody else need look at it. */
bool tw_requester_take(tw_requester *requester, const tw_event *event);

/** Ends what has timed out. Answers in how many milliseconds it must be called again; UINT32_MAX for never. */
uint32_t tw_requester_turn(tw_requester *requester, uint32_t now_ms);

/**
 * Responds to a request, which is the message of a TW_EVENT_MESSAGE: at its QoS, to its response topic, with its correlation
 * data. Answers 0, also if it has no response topic and nobody waits. `memory` holds the correlation data and 3 bytes while the
 * function runs. Errors: TW_BUFFER_TOO_SMALL, and those of tw_client_publish().
 */
tw_result tw_respond(tw_client *client, const tw_publish *request, tw_bytes payload, tw_memory memory);

/**
 * Responds that the request has failed. `sentence`, for people, reaches the requester: NULL for TW_RESPONDER_FAILED, as what
 * went wrong here may be a secret. As tw_respond(), with 10 bytes more in `memory`, and the sentence.
 */
tw_result tw_respond_failure(tw_client *client, const tw_publish *request, const char *sentence, tw_memory memory);
