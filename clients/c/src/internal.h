/* Declarations that the files of this folder share. They are one translation unit, see tautwire.c. */

/* Eight-byte words are faster if they fit a register. Elsewhere single bytes are smaller, and as fast. */
#ifndef TW_WIDE
#if UINTPTR_MAX > 0xFFFFFFFFu
#define TW_WIDE 1
#else
#define TW_WIDE 0
#endif
#endif

#if defined(__GNUC__)
#define TW_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define TW_COLD __attribute__((noinline, cold))
/* Kept out of the hot path, so that it needs fewer registers. */
#define TW_APART __attribute__((noinline))
#define TW_INLINE inline __attribute__((always_inline))
#else
#define TW_UNLIKELY(condition) (condition)
#define TW_COLD
#define TW_APART
#define TW_INLINE inline
#endif

#define TW_MAX_VARINT 0x0FFFFFFFu
#define TW_MAX_FIELD_BYTES 0xFFFFu
/* Will Properties have a context of their own. Packet types start at 1. */
#define TW_WILL_CONTEXT 0u

/* reader.c: reads fields of a packet. After the first error all fields read as zero and empty. */
typedef struct tw_reader {
    const uint8_t *at;
    const uint8_t *end;
    /* Offsets are relative to this. */
    const uint8_t *start;
    /* The error for a field that exceeds the data. */
    tw_error past_end;
    tw_result error;
    size_t error_at;
} tw_reader;

static tw_reader reader_on(const uint8_t *data, size_t len, tw_error past_end);
static void refuse(tw_reader *r, tw_result error, const uint8_t *at);
static uint32_t read_number(tw_reader *r, size_t width);
static uint32_t read_varint(tw_reader *r);
static tw_bytes read_binary(tw_reader *r);
static tw_bytes read_text(tw_reader *r);
static uint16_t read_packet_id(tw_reader *r);
static tw_reason read_reason(tw_reader *r, tw_packet_type type);

/* utf8.c */
static tw_result check_text(tw_bytes text, size_t *at);
static size_t well_formed_len(tw_bytes text);
static tw_result check_message_topic(tw_bytes topic, size_t *at);
static size_t find_null_or_wildcard(tw_bytes text, bool with_null);

/* topic.c */
static tw_result check_filter_levels(tw_bytes filter, size_t *at);
static bool is_shared(tw_bytes filter);

/* properties.c */
static tw_properties read_properties(tw_reader *r, unsigned context, uint32_t *seen);
static tw_result check_properties(tw_properties properties, unsigned context, uint32_t *seen);
static bool has_seen(uint32_t seen, tw_property_id id);

/* reasons.c */
static bool is_reason_of(tw_packet_type type, unsigned code);
static bool reason_from_v3(unsigned code, tw_reason *reason);
static bool reason_to_v3(tw_reason reason, uint8_t *code);

/* decode.c */
static tw_subscription read_subscription(tw_reader *r, bool with_options, tw_version version);

/* outbox.c */
typedef struct tw_record {
    uint32_t len;
    uint16_t packet_id;
    uint8_t state;
    /*
     * SETTLED: the error, without its sign. RELEASED: the reason code of PUBREC. QUEUED: 1 if the store already has the message
     * as sent.
     */
    uint8_t detail;
} tw_record;

/* client.c */
typedef enum client_state { IDLE, CONNECTING, CONNECTED, CLOSING } client_state;
static uint8_t *transmit_room(tw_client *c, size_t len);
static tw_result encode_packet(const tw_client *c, const tw_packet *packet, uint8_t *out, size_t size);
static bool put_short(tw_client *c, tw_packet_type type, uint16_t packet_id, tw_reason reason);
static tw_result transmit_packet(tw_client *c, const tw_packet *packet, size_t kept);
static size_t append(uint8_t *to, size_t at, tw_bytes bytes);
static tw_result transmit_notice(tw_client *c, tw_packet_type type, tw_reason reason, tw_properties properties);

/* subscriptions.c */
#if TW_SUBSCRIPTIONS
static void settle_subscriptions(tw_client *c, size_t at, tw_bytes reasons);
static bool pump_subscriptions(tw_client *c);
#endif

/* authentication.c */
static tw_result gather_authentication(const tw_authenticator *a, const tw_bytes *challenge, tw_properties *properties);
static tw_result finish_authentication(const tw_authenticator *a, tw_properties properties);
static void flush_auth(tw_client *c);
static bool handle_auth(tw_client *c, const tw_notice *notice, tw_event *event);

/* incoming.c */
static bool handle_packet(tw_client *c, const tw_packet *packet, tw_event *event);
static bool settle_incoming(tw_client *c);
static void flush_ack(tw_client *c);
static bool close_with(tw_client *c, tw_result error, tw_event *event);

/* store.c: persists changes. Functions that return false have not saved the change, and the connection ends. */
static tw_result keep_message(tw_client *c, tw_record *record, size_t at);
static bool keep_sent(tw_client *c, size_t from);
static bool keep_released(tw_client *c, uint16_t packet_id, tw_reason reason);
static void keep_finished(tw_client *c, const tw_record *record);
static bool keep_accepted(tw_client *c, uint16_t packet_id);
static bool keep_completed(tw_client *c, uint16_t packet_id);
static void keep_session(tw_client *c, bool session_present);
static void keep_unsent(tw_client *c);
static tw_result load_store(tw_client *c);
static inline bool has_store_failed(const tw_client *c) {
    return TW_STORE && c->has_store_failed;
}

/* tcp.c */
#if TW_POSIX
static bool is_tcp(const tw_transport *transport);
static tw_result tcp_await(tw_tcp *tcp, uint8_t *to, size_t size, uint32_t start_ms, uint32_t timeout_ms);
#endif

static inline uint16_t load_u16(const uint8_t *at) {
    return (uint16_t)((unsigned)at[0] << 8 | at[1]);
}

static inline void store_u16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline size_t varint_len(uint32_t value) {
    return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : 4;
}

static inline size_t store_varint(uint8_t *at, uint32_t value) {
    size_t len = 0;
    while (value >= 0x80) {
        at[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    at[len++] = (uint8_t)value;
    return len;
}

static inline bool same_bytes(tw_bytes a, tw_bytes b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}
