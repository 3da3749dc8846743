/* Layer 1, the codec: packets from and to bytes. No state, no needless copies. */

/** Control packet types (section 2.1.2). */
typedef enum tw_packet_type {
    TW_CONNECT = 1,
    TW_CONNACK = 2,
    TW_PUBLISH = 3,
    TW_PUBACK = 4,
    TW_PUBREC = 5,
    TW_PUBREL = 6,
    TW_PUBCOMP = 7,
    TW_SUBSCRIBE = 8,
    TW_SUBACK = 9,
    TW_UNSUBSCRIBE = 10,
    TW_UNSUBACK = 11,
    TW_PINGREQ = 12,
    TW_PINGRESP = 13,
    TW_DISCONNECT = 14,
    TW_AUTH = 15
} tw_packet_type;

/** Property identifiers (section 2.2.2.2). */
typedef enum tw_property_id {
    TW_PAYLOAD_FORMAT_INDICATOR = 0x01,
    TW_MESSAGE_EXPIRY_INTERVAL = 0x02,
    TW_CONTENT_TYPE = 0x03,
    TW_RESPONSE_TOPIC = 0x08,
    TW_CORRELATION_DATA = 0x09,
    TW_SUBSCRIPTION_IDENTIFIER = 0x0B,
    TW_SESSION_EXPIRY_INTERVAL = 0x11,
    TW_ASSIGNED_CLIENT_IDENTIFIER = 0x12,
    TW_SERVER_KEEP_ALIVE = 0x13,
    TW_AUTHENTICATION_METHOD = 0x15,
    TW_AUTHENTICATION_DATA = 0x16,
    TW_REQUEST_PROBLEM_INFORMATION = 0x17,
    TW_WILL_DELAY_INTERVAL = 0x18,
    TW_REQUEST_RESPONSE_INFORMATION = 0x19,
    TW_RESPONSE_INFORMATION = 0x1A,
    TW_SERVER_REFERENCE = 0x1C,
    TW_REASON_STRING = 0x1F,
    TW_RECEIVE_MAXIMUM = 0x21,
    TW_TOPIC_ALIAS_MAXIMUM = 0x22,
    TW_TOPIC_ALIAS = 0x23,
    TW_MAXIMUM_QOS = 0x24,
    TW_RETAIN_AVAILABLE = 0x25,
    TW_USER_PROPERTY = 0x26,
    TW_MAXIMUM_PACKET_SIZE = 0x27,
    TW_WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28,
    TW_SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29,
    TW_SHARED_SUBSCRIPTION_AVAILABLE = 0x2A
} tw_property_id;

/** One property: a number, a text (or binary data), or a name and text for a user property. */
typedef struct tw_property {
    tw_property_id id;
    uint32_t number;
    tw_bytes name;
    tw_bytes text;
} tw_property;

/**
 * Properties are stored in encoded form, without their length prefix: decoded ones are views of the packet, and those to
 * send are written with tw_put_number(), tw_put_text() and tw_put_user_property(). {NULL, 0}: none.
 */
typedef tw_bytes tw_properties;

/** A buffer for writing properties. Create it with tw_writer_on(); check `error` once, at the end. */
typedef struct tw_writer {
    uint8_t *data;
    size_t size;
    size_t len;
    /** The first error of a tw_put function: TW_BUFFER_TOO_SMALL, TW_FIELD_TOO_LONG, TW_ARGUMENT; 0 if there was none. */
    tw_result error;
} tw_writer;

/** A message (section 3.3). */
typedef struct tw_publish {
    /** Empty if a Topic Alias among the properties replaces it. */
    tw_bytes topic;
    tw_bytes payload;
    tw_properties properties;
    /** 0 at QoS 0. */
    uint16_t packet_id;
    tw_qos qos;
    bool retain;
    bool dup;
    /** Whether there is a Topic Alias among the properties of a decoded message. Not encoded. */
    bool has_alias;
} tw_publish;

/** A message without properties. */
static inline tw_publish tw_message(tw_bytes topic, tw_bytes payload, tw_qos qos) {
    tw_publish message;
    memset(&message, 0, sizeof message);
    message.topic = topic;
    message.payload = payload;
    message.qos = qos;
    return message;
}

/** The message that the server publishes if the connection is lost (section 3.1.3). */
typedef struct tw_will {
    tw_bytes topic;
    tw_bytes payload;
    tw_properties properties;
    tw_qos qos;
    bool retain;
} tw_will;

typedef struct tw_connect {
    tw_version version;
    bool clean_start;
    bool has_will;
    uint16_t keep_alive_s;
    tw_bytes client_id;
    /** Absent if `data` is NULL; an empty one is not NULL. */
    tw_bytes user_name;
    tw_bytes password;
    tw_will will;
    tw_properties properties;
} tw_connect;

typedef struct tw_connack {
    bool session_present;
    /** Return codes of 3.1.1 are converted to the reason code with the same meaning. */
    tw_reason reason;
    tw_properties properties;
} tw_connack;

/** PUBACK, PUBREC, PUBREL and PUBCOMP. */
typedef struct tw_ack {
    uint16_t packet_id;
    tw_reason reason;
    tw_properties properties;
} tw_ack;

/** When retained messages are sent for a subscription (section 3.8.3.1). */
typedef enum tw_retain_handling {
    TW_RETAINED_ALWAYS = 0,
    TW_RETAINED_IF_NEW = 1,
    TW_RETAINED_NEVER = 2
} tw_retain_handling;

/** One entry of SUBSCRIBE. In 3.1.1 there is only the QoS, and in UNSUBSCRIBE only the filter. */
typedef struct tw_subscription {
    tw_bytes filter;
    tw_qos qos;
    bool no_local;
    bool retain_as_published;
    tw_retain_handling retain_handling;
} tw_subscription;

/** A subscription with the default options. */
static inline tw_subscription tw_filter(tw_bytes filter, tw_qos qos) {
    tw_subscription subscription;
    memset(&subscription, 0, sizeof subscription);
    subscription.filter = filter;
    subscription.qos = qos;
    return subscription;
}

/** SUBSCRIBE and UNSUBSCRIBE. */
typedef struct tw_subscribe {
    uint16_t packet_id;
    tw_properties properties;
    /** The entries to encode. NULL in a decoded packet. */
    const tw_subscription *list;
    /** The number of entries, in `list` or in `wire`. */
    size_t count;
    /** The list of a decoded packet, for tw_next_subscription(). Encoded if `list` is NULL. */
    tw_bytes wire;
} tw_subscribe;

/** SUBACK and UNSUBACK. `reasons`: one byte for each filter, a value of tw_reason; none in UNSUBACK of 3.1.1. */
typedef struct tw_suback {
    uint16_t packet_id;
    tw_properties properties;
    tw_bytes reasons;
} tw_suback;

/** DISCONNECT and AUTH. */
typedef struct tw_notice {
    tw_reason reason;
    tw_properties properties;
} tw_notice;

/** Any packet. PINGREQ and PINGRESP have no fields. */
typedef struct tw_packet {
    tw_packet_type type;
    union {
        tw_connect connect;
        tw_connack connack;
        tw_publish publish;
        tw_ack ack;
        tw_subscribe subscribe;
        tw_suback suback;
        tw_notice notice;
    } as;
    /** After an error of tw_decode(): its position. After TW_INCOMPLETE: the minimum number of bytes. */
    size_t at;
} tw_packet;

/**
 * Decodes the packet at the start of `input`. `version` is that of the connection; CONNECT has its own.
 *
 * Returns the length of the packet, TW_INCOMPLETE until it is complete, or the error as soon as it is known. Views in
 * `packet` refer to `input`. `max_packet_bytes` includes the fixed header; TW_MAX_PACKET_BYTES for no limit.
 */
tw_result tw_decode(const uint8_t *input, size_t len, tw_version version, uint32_t max_packet_bytes, tw_packet *packet);

/**
 * Encodes a packet to `out`, in its shortest form, and returns its length. Everything is validated first: bytes that a
 * receiver would refuse are never written. `out` must not overlap the data of the packet.
 *
 * Errors: those of tw_decode() for wrong content, TW_BUFFER_TOO_SMALL, TW_FIELD_TOO_LONG, TW_ARGUMENT, TW_NOT_IN_VERSION.
 */
tw_result tw_encode(const tw_packet *packet, tw_version version, uint8_t *out, size_t size);

/** As tw_encode(), for a message. */
tw_result tw_encode_publish(const tw_publish *publish, tw_version version, uint8_t *out, size_t size);

/** Returns how many bytes tw_encode() would write, or its errors except TW_BUFFER_TOO_SMALL. */
tw_result tw_encoded_len(const tw_packet *packet, tw_version version);

/** Removes the first property from `rest`. False at the end, and if `rest` is neither decoded nor written with tw_put. */
bool tw_next_property(tw_properties *rest, tw_property *property);

/** Finds the first property with that identifier. */
bool tw_find_property(tw_properties properties, tw_property_id id, tw_property *property);

/** Removes the first entry from the list of a decoded SUBSCRIBE or (`with_options` false) UNSUBSCRIBE. False at the
 * end. */
bool tw_next_subscription(tw_bytes *rest, bool with_options, tw_subscription *subscription);

tw_writer tw_writer_on(void *data, size_t size);

/** Writes a numeric property: one, two or four bytes, or a variable byte integer. */
void tw_put_number(tw_writer *writer, tw_property_id id, uint32_t value);

/** Writes a property with text or binary data. */
void tw_put_text(tw_writer *writer, tw_property_id id, tw_bytes text);

void tw_put_user_property(tw_writer *writer, tw_bytes name, tw_bytes value);

/** Returns the written properties. */
static inline tw_properties tw_written(const tw_writer *writer) {
    return tw_view(writer->data, writer->len);
}

/** Returns 0 for a valid topic name (section 4.7), otherwise the error. `at`, if not NULL, is its position. */
tw_result tw_check_topic(tw_bytes topic, size_t *at);

/** Returns 0 for a valid topic filter, also one with `$share/NAME/` (sections 4.7 and 4.8.2), otherwise the error. */
tw_result tw_check_filter(tw_bytes filter, size_t *at);

/** Whether a topic matches a filter. Both must be valid. `$share/NAME/` is ignored. */
bool tw_topic_matches(tw_bytes filter, tw_bytes topic);
