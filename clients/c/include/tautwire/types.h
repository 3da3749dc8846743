/* Types that all layers share. */

/** A view of bytes that someone else owns. Text is UTF-8 and has no terminating zero. */
typedef struct tw_bytes {
    const uint8_t *data;
    size_t len;
} tw_bytes;

/** Memory that the caller provides. */
typedef struct tw_memory {
    uint8_t *data;
    size_t size;
} tw_memory;

/** The view of a zero-terminated string, without the zero. */
static inline tw_bytes tw_str(const char *text) {
    tw_bytes view;
    view.data = (const uint8_t *)text;
    view.len = strlen(text);
    return view;
}

/** The view of `len` bytes. */
static inline tw_bytes tw_view(const void *data, size_t len) {
    tw_bytes view;
    view.data = (const uint8_t *)data;
    view.len = len;
    return view;
}

static inline tw_memory tw_lend(void *data, size_t size) {
    tw_memory memory;
    memory.data = (uint8_t *)data;
    memory.size = size;
    return memory;
}

/** The protocol level in CONNECT. 3.1 has the layout of 3.1.1. */
typedef enum tw_version { TW_V3_1 = 3, TW_V3_1_1 = 4, TW_V5 = 5 } tw_version;

typedef enum tw_qos { TW_AT_MOST_ONCE = 0, TW_AT_LEAST_ONCE = 1, TW_EXACTLY_ONCE = 2 } tw_qos;

/** The largest possible packet, in bytes with its fixed header. As a limit it means no limit. */
#define TW_MAX_PACKET_BYTES 268435460u

/**
 * The result of a function. Negative: one of tw_error. Otherwise 0, or a number of bytes if the function says so.
 * tw_error_name(), tw_error_text(), tw_fault() and tw_reason_for() describe an error.
 */
typedef int32_t tw_result;

/** Errors. The values are stable; new ones are added at the end of their class. */
typedef enum tw_error {
    /** The packet is not complete yet: wait for more bytes. */
    TW_INCOMPLETE = -1,

    /* Malformed packets: 0x81. */
    TW_PACKET_TYPE_RESERVED = -10,
    TW_AUTH_BEFORE_V5 = -11,
    TW_FLAGS_RESERVED = -12,
    TW_PUBLISH_QOS_THREE = -13,
    TW_DUP_WITH_QOS_ZERO = -14,
    TW_VARINT_TOO_LONG = -15,
    TW_VARINT_NOT_MINIMAL = -16,
    TW_FIELD_PAST_END = -17,
    TW_TRAILING_BYTES = -18,
    TW_UTF8_INVALID = -19,
    TW_UTF8_NULL = -20,
    TW_PROPERTY_BLOCK_PAST_END = -21,
    TW_PROPERTY_PAST_BLOCK = -22,
    TW_PROPERTY_UNKNOWN = -23,
    TW_PROPERTY_NOT_ALLOWED = -24,
    TW_CONNECT_FLAG_RESERVED = -25,
    TW_WILL_FLAGS_WITHOUT_WILL = -26,
    TW_WILL_QOS_THREE = -27,
    TW_PASSWORD_WITHOUT_USER_NAME = -28,
    TW_CONNACK_FLAGS_RESERVED = -29,
    TW_SUBSCRIPTION_OPTIONS_RESERVED = -30,

    /* Protocol errors: 0x82, except those with a code of their own (see tw_reason_for). */
    TW_PACKET_ID_ZERO = -40,
    TW_REASON_CODE_UNKNOWN = -41,
    TW_PROPERTY_REPEATED = -42,
    TW_PROPERTY_NOT_BOOLEAN = -43,
    TW_PAYLOAD_FORMAT_UNKNOWN = -44,
    TW_MAXIMUM_QOS_OUT_OF_RANGE = -45,
    TW_RECEIVE_MAXIMUM_ZERO = -46,
    TW_MAXIMUM_PACKET_SIZE_ZERO = -47,
    TW_TOPIC_ALIAS_ZERO = -48,
    TW_SUBSCRIPTION_ID_ZERO = -49,
    TW_RESPONSE_TOPIC_INVALID = -50,
    TW_AUTHENTICATION_DATA_ALONE = -51,
    TW_AUTHENTICATION_METHOD_MISSING = -52,
    TW_PROTOCOL_NAME_UNKNOWN = -53,
    TW_PROTOCOL_LEVEL_UNSUPPORTED = -54,
    TW_WILL_TOPIC_INVALID = -55,
    TW_SESSION_PRESENT_ON_FAILURE = -56,
    TW_TOPIC_MISSING = -57,
    TW_TOPIC_WILDCARD = -58,
    TW_TOPIC_FILTER_EMPTY = -59,
    TW_TOPIC_FILTER_MULTI_LEVEL = -60,
    TW_TOPIC_FILTER_WILDCARD = -61,
    TW_SHARE_NAME_INVALID = -62,
    TW_SHARE_FILTER_MISSING = -63,
    TW_NO_TOPIC_FILTERS = -64,
    TW_NO_REASON_CODES = -65,
    TW_SUBSCRIPTION_QOS_THREE = -66,
    TW_RETAIN_HANDLING_THREE = -67,
    TW_NO_LOCAL_ON_SHARED = -68,
    /** The server sent a packet that is not allowed now. */
    TW_UNEXPECTED_PACKET = -69,
    /** Session Present after Clean Start [MQTT-3.2.2-2]. */
    TW_UNEXPECTED_SESSION = -70,
    /** The server used a topic alias although none is allowed. */
    TW_UNEXPECTED_TOPIC_ALIAS = -71,
    /** More incoming QoS 2 messages are open than `incoming` has room for. */
    TW_TOO_MANY_INCOMING = -72,
    /** A CONNECT before 5.0 with a persistent session but no client identifier. It is decoded, but never encoded. */
    TW_CLIENT_ID_MISSING = -73,

    /* Larger than the receiver accepts: 0x95. */
    TW_PACKET_OVER_LIMIT = -80,

    /* Wrong use of this library, or one of its limits. Nothing was done. */
    /** The buffer is too small for the packet. */
    TW_BUFFER_TOO_SMALL = -90,
    /** A string or binary field is longer than 65,535 bytes. */
    TW_FIELD_TOO_LONG = -91,
    /** An argument is out of range, or the function must not be called here: invalid_argument. */
    TW_ARGUMENT = -92,
    /** This version of the protocol cannot express this. */
    TW_NOT_IN_VERSION = -93,
    /** There is no connection. QoS 0 messages are not queued. */
    TW_NOT_CONNECTED = -94,
    /** The outbox is full: wait until messages are acknowledged, or provide more memory. */
    TW_OUTBOX_FULL = -95,
    /** The transmit buffer is full: send its content, then try again. */
    TW_OUTPUT_FULL = -96,
    /** The packet is larger than the server's Maximum Packet Size: packet_too_large. */
    TW_OVER_MAXIMUM_PACKET_SIZE = -97,
    /** The QoS is above the server's Maximum QoS: qos_not_supported. */
    TW_OVER_MAXIMUM_QOS = -98,
    /** The server does not support retained messages: retain_not_supported. */
    TW_RETAIN_UNAVAILABLE = -99,
    /** The memory for subscriptions is full: provide more, or end one of them. */
    TW_SUBSCRIPTIONS_FULL = -100,
    /** All slots for requests are in use: wait for a response, or provide more. */
    TW_REQUESTS_FULL = -101,
    /** The store failed: nothing that had to be stored was done. */
    TW_STORE_FAILED = -102,

    /* The connection, and attempts to make one. Transports return these, too. */
    /** The connection was lost without a reason. */
    TW_CONNECTION_LOST = -110,
    /** The name of the server cannot be resolved. */
    TW_NAME_NOT_FOUND = -111,
    /** There is no route to the server, or no listener at the port. */
    TW_UNREACHABLE = -112,
    /** The server did not accept the connection within `connect_timeout_ms`. */
    TW_CONNECT_TIMEOUT = -113,
    /** The connection ended before the server had accepted it. */
    TW_HANDSHAKE_FAILED = -114,
    /** The server did not answer a PINGREQ within `response_timeout_ms`: keep_alive_timeout. */
    TW_PING_TIMEOUT = -115,
    /** CONNACK with a refusal; see the reason code. */
    TW_CONNECTION_REFUSED = -116,
    /** The server does not support this version of the protocol: unsupported_protocol_version. */
    TW_UNSUPPORTED_VERSION = -117,
    /** The server names another server in CONNACK or DISCONNECT. */
    TW_REDIRECTED = -118,
    /** The server sent DISCONNECT; see the reason code. */
    TW_SERVER_DISCONNECTED = -119,
    /** Another client has connected with the same client identifier: session_taken_over. */
    TW_TAKEN_OVER = -120,
    /** The server refused the WebSocket. */
    TW_WEBSOCKET_REFUSED = -121,

    /* TLS, for transports such as those in examples/: the library itself has none. */
    TW_TLS_UNKNOWN_AUTHORITY = -130,
    TW_TLS_SELF_SIGNED = -131,
    TW_TLS_NAME_MISMATCH = -132,
    TW_TLS_EXPIRED = -133,
    TW_TLS_NOT_YET_VALID = -134,
    TW_TLS_REVOKED = -135,
    TW_TLS_CERTIFICATE = -136,
    TW_TLS_CLIENT_CERTIFICATE_REQUIRED = -137,
    TW_TLS_CLIENT_CERTIFICATE_REFUSED = -138,
    TW_TLS_NO_SHARED_PARAMETERS = -139,
    TW_TLS_NOT_SUPPORTED = -140,
    TW_TLS_CLOSED = -141,
    TW_TLS_OPTIONS = -142,

    /* Authentication, on this side. An authenticator may return any of them. */
    TW_AUTHENTICATION_FAILED = -150,
    /** The user name or password is empty or not visible ASCII, or there are no random bytes. */
    TW_SCRAM_CREDENTIALS = -151,
    /** The server sent an invalid SCRAM message. */
    TW_SCRAM_MALFORMED = -152,
    /** The server did not continue the client's nonce: the message may be from another exchange. */
    TW_SCRAM_NONCE = -153,
    /** The server requests too few or too many iterations. */
    TW_SCRAM_ITERATIONS = -154,
    /** The server refuses with a SCRAM error. */
    TW_SCRAM_REFUSED = -155,
    /** The server has not proved that it knows the password. It may be an impostor. */
    TW_SCRAM_SERVER_SIGNATURE = -156,

    /* The result of a message, a subscription or a request. */
    /** The server refused the message; see the reason code. */
    TW_PUBLISH_REFUSED = -160,
    /** The server refused the subscription; see the reason code. */
    TW_SUBSCRIBE_REFUSED = -161,
    /** The server refused to end the subscription; see the reason code. */
    TW_UNSUBSCRIBE_REFUSED = -162,
    /** The server has lost the session. It is unknown whether it has the QoS 2 message. */
    TW_SESSION_LOST = -163,
    /** The time limit of the caller passed before there was an answer. The message may still be delivered. */
    TW_UNACKNOWLEDGED = -164,
    /** No client has subscribed to the topic of the request. */
    TW_NO_RESPONDER = -165,
    /** The responder failed, and explains why. */
    TW_REQUEST_FAILED = -166,
    /** No response arrived in time. */
    TW_REQUEST_TIMEOUT = -167
} tw_error;

/** The class of an error. */
typedef enum tw_fault_class {
    TW_FAULT_NONE,
    TW_FAULT_INCOMPLETE,
    TW_FAULT_MALFORMED,
    TW_FAULT_PROTOCOL_ERROR,
    TW_FAULT_TOO_LARGE,
    TW_FAULT_USE,
    TW_FAULT_CONNECTION,
    TW_FAULT_OUTCOME
} tw_fault_class;

/** Reason codes (section 2.4). Those from 0x80 on are failures. */
typedef enum tw_reason {
    TW_SUCCESS = 0x00,
    TW_GRANTED_QOS_1 = 0x01,
    TW_GRANTED_QOS_2 = 0x02,
    TW_DISCONNECT_WITH_WILL = 0x04,
    TW_NO_MATCHING_SUBSCRIBERS = 0x10,
    TW_NO_SUBSCRIPTION_EXISTED = 0x11,
    TW_CONTINUE_AUTHENTICATION = 0x18,
    TW_RE_AUTHENTICATE = 0x19,
    TW_UNSPECIFIED_ERROR = 0x80,
    TW_MALFORMED_PACKET = 0x81,
    TW_PROTOCOL_ERROR = 0x82,
    TW_IMPLEMENTATION_SPECIFIC_ERROR = 0x83,
    TW_UNSUPPORTED_PROTOCOL_VERSION = 0x84,
    TW_CLIENT_IDENTIFIER_NOT_VALID = 0x85,
    TW_BAD_USER_NAME_OR_PASSWORD = 0x86,
    TW_NOT_AUTHORIZED = 0x87,
    TW_SERVER_UNAVAILABLE = 0x88,
    TW_SERVER_BUSY = 0x89,
    TW_BANNED = 0x8A,
    TW_SERVER_SHUTTING_DOWN = 0x8B,
    TW_BAD_AUTHENTICATION_METHOD = 0x8C,
    TW_KEEP_ALIVE_TIMEOUT = 0x8D,
    TW_SESSION_TAKEN_OVER = 0x8E,
    TW_TOPIC_FILTER_INVALID = 0x8F,
    TW_TOPIC_NAME_INVALID = 0x90,
    TW_PACKET_IDENTIFIER_IN_USE = 0x91,
    TW_PACKET_IDENTIFIER_NOT_FOUND = 0x92,
    TW_RECEIVE_MAXIMUM_EXCEEDED = 0x93,
    TW_TOPIC_ALIAS_INVALID = 0x94,
    TW_PACKET_TOO_LARGE = 0x95,
    TW_MESSAGE_RATE_TOO_HIGH = 0x96,
    TW_QUOTA_EXCEEDED = 0x97,
    TW_ADMINISTRATIVE_ACTION = 0x98,
    TW_PAYLOAD_FORMAT_INVALID = 0x99,
    TW_RETAIN_NOT_SUPPORTED = 0x9A,
    TW_QOS_NOT_SUPPORTED = 0x9B,
    TW_USE_ANOTHER_SERVER = 0x9C,
    TW_SERVER_MOVED = 0x9D,
    TW_SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E,
    TW_CONNECTION_RATE_EXCEEDED = 0x9F,
    TW_MAXIMUM_CONNECT_TIME = 0xA0,
    TW_SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1,
    TW_WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2
} tw_reason;

/** Returns the class of a result. */
tw_fault_class tw_fault(tw_result result);

/** Returns the reason code to answer a packet that was refused with this error. */
tw_reason tw_reason_for(tw_result result);

/** Returns the stable code of an error, such as "topic_wildcard"; "ok" if it is not negative. */
const char *tw_error_name(tw_result result);

/** Returns what is wrong and, after a colon, what to do, as text for people. The code if there is no text (see TW_TEXTS). */
const char *tw_error_text(tw_result result);
