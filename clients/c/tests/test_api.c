/* The small parts: writing and reading properties, errors and their names. */
#include "check.h"
#include "tautwire.h"

static void a_writer_keeps_its_first_error(void) {
    uint8_t space[16];
    static uint8_t large[70000];
    tw_writer writer = tw_writer_on(space, 3);
    tw_put_number(&writer, TW_TOPIC_ALIAS, 1);
    CHECK(writer.error == 0 && writer.len == 3, "it fits");
    tw_put_number(&writer, TW_PAYLOAD_FORMAT_INDICATOR, 1);
    CHECK(writer.error == TW_BUFFER_TOO_SMALL && writer.len == 3, "it does not");
    tw_put_number(&writer, TW_PAYLOAD_FORMAT_INDICATOR, 2);
    CHECK(writer.error == TW_BUFFER_TOO_SMALL, "the first error stays");
    writer = tw_writer_on(space, sizeof space);
    tw_put_text(&writer, TW_CONTENT_TYPE, tw_view(large, sizeof large));
    CHECK(writer.error == TW_FIELD_TOO_LONG && writer.len == 0, "too long");
}

static void a_writer_refuses_invalid_property_values(void) {
    static const struct wrong {
        tw_property_id id;
        uint32_t value;
    } WRONG[] = {
        {TW_PAYLOAD_FORMAT_INDICATOR, 2}, {TW_MAXIMUM_QOS, 2},           {TW_RETAIN_AVAILABLE, 2},
        {TW_RECEIVE_MAXIMUM, 0},          {TW_RECEIVE_MAXIMUM, 65536},   {TW_TOPIC_ALIAS, 0},
        {TW_MAXIMUM_PACKET_SIZE, 0},      {TW_SUBSCRIPTION_IDENTIFIER, 0}, {TW_SUBSCRIPTION_IDENTIFIER, 268435456},
        {TW_CONTENT_TYPE, 1},             {TW_USER_PROPERTY, 1},         {(tw_property_id)4, 1},
    };
    uint8_t space[16];
    size_t i;
    tw_writer writer;
    for (i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        writer = tw_writer_on(space, sizeof space);
        tw_put_number(&writer, WRONG[i].id, WRONG[i].value);
        CHECK(writer.error == TW_ARGUMENT && writer.len == 0, "%d", (int)i);
    }
    writer = tw_writer_on(space, sizeof space);
    tw_put_text(&writer, TW_TOPIC_ALIAS, tw_str("x"));
    CHECK(writer.error == TW_ARGUMENT, "text for a number");
}

static void properties_are_found(void) {
    uint8_t space[64];
    tw_writer writer = tw_writer_on(space, sizeof space);
    tw_property property;
    tw_properties broken = tw_view("\x03\x00\x09x", 4);
    tw_put_user_property(&writer, tw_str("a"), tw_str("1"));
    tw_put_number(&writer, TW_MESSAGE_EXPIRY_INTERVAL, 70000);
    tw_put_user_property(&writer, tw_str("b"), tw_str("2"));
    CHECK(tw_find_property(tw_written(&writer), TW_MESSAGE_EXPIRY_INTERVAL, &property) && property.number == 70000, "number");
    CHECK(tw_find_property(tw_written(&writer), TW_USER_PROPERTY, &property) && property.name.data[0] == 'a', "first");
    CHECK(!tw_find_property(tw_written(&writer), TW_CONTENT_TYPE, &property), "absent");
    CHECK(!tw_next_property(&broken, &property), "past the end");
}

static void every_error_has_its_own_name(void) {
    int a, b, named = 0;
    for (a = 0; a >= -256; a--) {
        const char *name = tw_error_name(a);
        bool is_known = strcmp(name, "unknown") != 0;
        named += is_known && a < 0;
        for (b = 0; b > a && is_known; b--) {
            /* A packet may be too large for either side. */
            bool is_size = a == TW_OVER_MAXIMUM_PACKET_SIZE && b == TW_PACKET_OVER_LIMIT;
            CHECK((strcmp(name, tw_error_name(b)) == 0) == is_size, "%d and %d: %s", a, b, name);
        }
        if (is_known && a < 0) {
            CHECK(tw_reason_for(a) >= 0x80 && tw_fault(a) != TW_FAULT_NONE, "%s", name);
        }
    }
    CHECK(named == 110, "%d", named);
    CHECK(strcmp(tw_error_name(TW_SCRAM_SERVER_SIGNATURE), "scram_server_signature") == 0, "the last of a run");
    CHECK(strcmp(tw_error_name(TW_PACKET_ID_ZERO), "packet_id_zero") == 0, "the first of a run");
    CHECK(strcmp(tw_error_name(TW_TLS_OPTIONS), "tls_options") == 0, "the last of a run");
    CHECK(strcmp(tw_error_name(TW_REQUEST_TIMEOUT), "request_timeout") == 0, "the last");
}

static void errors_have_a_class(void) {
    CHECK(tw_fault(TW_REQUESTS_FULL) == TW_FAULT_USE, "use");
    CHECK(tw_fault(TW_CONNECTION_LOST) == TW_FAULT_CONNECTION, "the first of the connection");
    CHECK(tw_fault(TW_SCRAM_SERVER_SIGNATURE) == TW_FAULT_CONNECTION, "the last of the connection");
    CHECK(tw_fault(TW_PUBLISH_REFUSED) == TW_FAULT_OUTCOME, "the first outcome");
    CHECK(tw_reason_for(TW_SCRAM_NONCE) == TW_NOT_AUTHORIZED, "authentication");
    CHECK(tw_reason_for(TW_PING_TIMEOUT) == TW_KEEP_ALIVE_TIMEOUT, "silence");
}

static void texts_contain_advice(void) {
    tw_result error;
    CHECK(strcmp(tw_error_text(TW_UNREACHABLE),
                 "cannot connect to the server: check that it runs, and that address and port are correct") == 0,
          "%s", tw_error_text(TW_UNREACHABLE));
    CHECK(strcmp(tw_error_text(-1000), "unknown") == 0, "what is no error");
    CHECK(strcmp(tw_error_text(0), "ok") == 0, "no error");
    for (error = TW_NOT_CONNECTED; error >= TW_REQUEST_TIMEOUT; error--) {
        bool is_scram = error <= TW_SCRAM_CREDENTIALS && error >= TW_SCRAM_SERVER_SIGNATURE;
        if (strcmp(tw_error_name(error), "unknown") != 0 && !is_scram) {
            CHECK(strchr(tw_error_text(error), ':') != NULL, "%s has no text", tw_error_name(error));
        }
    }
}

static void versions_match(void) {
    char text[32];
    sprintf(text, "%d.%d.%d", TW_VERSION_MAJOR, TW_VERSION_MINOR, TW_VERSION_PATCH);
    CHECK(strcmp(text, TW_VERSION) == 0, "%s and %s", text, TW_VERSION);
}

static void errors_contain_cause_and_advice(void) {
    int error;
    for (error = -1; error >= TW_FIELD_TOO_LONG; error--) {
        if (strcmp(tw_error_name(error), "unknown") != 0) {
            CHECK(strstr(tw_error_text(error), ": ") != NULL, "%s: %s", tw_error_name(error), tw_error_text(error));
        }
    }
    CHECK(strcmp(tw_error_text(TW_TOPIC_WILDCARD), "the topic name contains + or #: publish to one exact topic") == 0, "%s",
          tw_error_text(TW_TOPIC_WILDCARD));
    CHECK(strcmp(tw_error_text(-1000), "unknown") == 0 && strcmp(tw_error_text(7), "ok") == 0, "no error");
}

/* Topics are checked and copied in pieces, whose number depends on the length. */
static void a_topic_is_validated_to_its_last_byte(void) {
    static const struct {
        char byte;
        tw_result error;
    } BAD[] = {{'+', TW_TOPIC_WILDCARD}, {'#', TW_TOPIC_WILDCARD}, {'\0', TW_UTF8_NULL}, {'\xFF', TW_UTF8_INVALID}};
    uint8_t out[128];
    char topic[70];
    size_t len, at, bad;
    for (len = 1; len <= sizeof topic; len++) {
        /* Both, because the common case has code of its own. */
        const tw_qos qos = len % 2 == 0 ? TW_AT_LEAST_ONCE : TW_AT_MOST_ONCE;
        tw_publish message = tw_message(tw_view(topic, len), tw_str("x"), qos);
        message.packet_id = qos == TW_AT_MOST_ONCE ? 0 : 1;
        for (at = 0; at < len; at++) {
            topic[at] = (char)('0' + at);
        }
        CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == (tw_result)len + (qos == TW_AT_MOST_ONCE ? 6 : 8), "%zu bytes", len);
        CHECK(memcmp(out + 4, topic, len) == 0, "%zu bytes as they were", len);
        for (bad = 0; bad < sizeof BAD / sizeof BAD[0]; bad++) {
            for (at = 0; at < len; at++) {
                topic[at] = BAD[bad].byte;
                CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == BAD[bad].error, "byte %zu of %zu", at, len);
                topic[at] = (char)('0' + at);
            }
        }
    }
}

/* The common case has code of its own, with overlapping pieces: it never writes a byte beyond the packet. */
static void fast_and_general_encoders_agree(void) {
    const tw_version versions[] = {TW_V3_1_1, TW_V5};
    uint8_t expected[160], payload[70];
    char topic[36];
    size_t topic_len, payload_len, which, qos;
    memset(topic, 't', sizeof topic);
    memset(payload, 'p', sizeof payload);
    for (topic_len = 14; topic_len <= sizeof topic; topic_len++) {
        for (payload_len = 0; payload_len <= sizeof payload; payload_len++) {
            for (which = 0; which < 6; which++) {
                const tw_version version = versions[which % 2];
                tw_packet packet;
                tw_result len;
                uint8_t *out;
                qos = which / 2;
                memset(&packet, 0, sizeof packet);
                packet.type = TW_PUBLISH;
                packet.as.publish = tw_message(tw_view(topic, topic_len), tw_view(payload, payload_len), (tw_qos)qos);
                packet.as.publish.packet_id = (uint16_t)(qos == 0 ? 0 : 0x1234);
                packet.as.publish.dup = qos == 2;
                packet.as.publish.retain = payload_len % 2 == 1;
                len = tw_encode(&packet, version, expected, sizeof expected);
                /* The sanitizer detects writes past its end. */
                out = (uint8_t *)malloc((size_t)len);
                CHECK(tw_encode_publish(&packet.as.publish, version, out, (size_t)len) == len && memcmp(out, expected, (size_t)len) == 0,
                      "topic %zu, payload %zu, QoS %zu", topic_len, payload_len, qos);
                CHECK(tw_encode_publish(&packet.as.publish, version, out, (size_t)len - 1) == TW_BUFFER_TOO_SMALL, "one byte less");
                free(out);
            }
        }
    }
}

static void packets_that_a_receiver_would_refuse_are_not_encoded(void) {
    uint8_t out[64];
    tw_packet packet;
    tw_publish message = tw_message(tw_str("a/b"), tw_str("x"), TW_AT_LEAST_ONCE);
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == TW_PACKET_ID_ZERO, "no packet identifier");
    message.packet_id = 1;
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == 11, "well-formed");
    message.topic = tw_str("a/#");
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == TW_TOPIC_WILDCARD, "wildcard");
    message.topic = tw_view("a\0b", 3);
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == TW_UTF8_NULL, "U+0000");
    message.topic = tw_view("\xed\xa0\x80", 3);
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == TW_UTF8_INVALID, "a surrogate");
    message = tw_message(tw_str("a"), tw_str("x"), TW_AT_MOST_ONCE);
    message.dup = true;
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == TW_DUP_WITH_QOS_ZERO, "DUP");
    message.dup = false;
    message.properties = tw_view("\x23\x00\x01\x23\x00\x01", 6);
    CHECK(tw_encode_publish(&message, TW_V5, out, sizeof out) == TW_PROPERTY_REPEATED, "an alias twice");
    memset(&packet, 0, sizeof packet);
    CHECK(tw_encode(&packet, TW_V5, out, sizeof out) == TW_ARGUMENT, "no packet type");
    packet.type = TW_PUBREL;
    packet.as.ack.packet_id = 1;
    packet.as.ack.reason = TW_NOT_AUTHORIZED;
    CHECK(tw_encode(&packet, TW_V5, out, sizeof out) == TW_REASON_CODE_UNKNOWN, "a reason of another packet");
    packet.type = TW_PUBACK;
    CHECK(tw_encode(&packet, TW_V3_1_1, out, sizeof out) == TW_NOT_IN_VERSION, "a reason in 3.1.1");
}

/* Acknowledgements without a reason code have a decoder of their own, which must refuse similar packets. */
static void short_acknowledgements_are_distinguished(void) {
    uint8_t bytes[] = {0x40, 2, 0, 1};
    tw_packet packet;
    unsigned first;
    for (first = 0; first < 256; first++) {
        bool is_ack = first == 0x40 || first == 0x50 || first == 0x62 || first == 0x70;
        tw_result used;
        bytes[0] = (uint8_t)first;
        used = tw_decode(bytes, sizeof bytes, TW_V5, TW_MAX_PACKET_BYTES, &packet);
        CHECK((used == 4) == is_ack && (!is_ack || (unsigned)packet.type == first >> 4), "%02x: %d", first, (int)used);
        CHECK(!is_ack || (packet.as.ack.packet_id == 1 && packet.as.ack.reason == TW_SUCCESS && packet.as.ack.properties.len == 0),
              "%02x", first);
        CHECK(!is_ack || tw_decode(bytes, sizeof bytes, TW_V5, 3, &packet) == TW_PACKET_OVER_LIMIT, "%02x", first);
    }
}

int main(void) {
    short_acknowledgements_are_distinguished();
    a_writer_keeps_its_first_error();
    a_writer_refuses_invalid_property_values();
    properties_are_found();
    every_error_has_its_own_name();
    errors_contain_cause_and_advice();
    errors_have_a_class();
    texts_contain_advice();
    versions_match();
    a_topic_is_validated_to_its_last_byte();
    fast_and_general_encoders_agree();
    packets_that_a_receiver_would_refuse_are_not_encoded();
    return finish("api");
}
