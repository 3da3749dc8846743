/* The client against scripts. Random ones are in test_session.c. */
#include "rig.h"

static rig r;

static void connect_contains_the_limits_of_the_client(void) {
    set_up(&r, TW_V5);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    /* Session Expiry Interval 600, Receive Maximum 4, Maximum Packet Size 256. */
    SENDS(&r, "101b 00044d515454 05 02 003c 0d 1100000258 210004 2700000100 000163");
    set_up(&r, TW_V3_1_1);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    SENDS(&r, "100d 00044d515454 04 00 003c 000163");
}

static void a_client_without_identifier_starts_clean(void) {
    set_up(&r, TW_V3_1_1);
    r.config.connect.client_id = tw_str("");
    restart(&r);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    SENDS(&r, "100c 00044d515454 04 02 003c 0000");
}

static void an_invalid_configuration_is_refused_at_once(void) {
    tw_client_config config;
    tw_client client;
    uint8_t properties[8];
    tw_writer writer = tw_writer_on(properties, sizeof properties);
    set_up(&r, TW_V5);
    config = r.config;
    config.transmit.size = 20;
    CHECK(tw_client_init(&client, &config) == TW_BUFFER_TOO_SMALL, "CONNECT does not fit");
    config = r.config;
    config.connect.client_id = tw_view("\xff", 1);
    CHECK(tw_client_init(&client, &config) == TW_UTF8_INVALID, "client id");
    config = r.config;
    tw_put_number(&writer, TW_TOPIC_ALIAS_MAXIMUM, 5);
    config.connect.properties = tw_written(&writer);
    CHECK(tw_client_init(&client, &config) == TW_ARGUMENT, "topic alias maximum");
    config = r.config;
    writer = tw_writer_on(properties, sizeof properties);
    tw_put_number(&writer, TW_RECEIVE_MAXIMUM, 5);
    config.connect.properties = tw_written(&writer);
    CHECK(tw_client_init(&client, &config) == TW_PROPERTY_REPEATED, "receive maximum");
    config = r.config;
    config.connect_timeout_ms = 0;
    CHECK(tw_client_init(&client, &config) == TW_ARGUMENT, "no time to connect");
}

static void a_session_survives_reconnections_until_disconnect(void) {
    set_up(&r, TW_V5);
    r.config.session_expiry_s = TW_SESSION_EXPIRY_DEFAULT;
    restart(&r);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    /* Session Expiry Interval 300. */
    SENDS(&r, "101b 00044d515454 05 02 003c 0d 110000012c 210004 2700000100 000163");
    CHECK(give(&r, CONNACK_V5) == TW_EVENT_CONNECTED, "CONNACK");
    CHECK(tw_client_disconnect(&r.client, TW_SUCCESS) == 0, "disconnect");
    SENDS(&r, "e007 00 05 1100000000");
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    SENDS(&r, "101b 00044d515454 05 00 003c 0d 110000012c 210004 2700000100 000163");
    /* A session that cannot be named again. */
    r.config.connect.client_id = tw_str("");
    restart(&r);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    SENDS(&r, "1015 00044d515454 05 02 003c 08 210004 2700000100 0000");
}

static void messages_of_each_qos_are_sent(void) {
    set_up(&r, TW_V5);
    CHECK(publish(&r, "a", TW_AT_MOST_ONCE) == TW_NOT_CONNECTED, "QoS 0 without a connection");
    connect_with(&r, CONNACK_V5);
    CHECK(publish(&r, "a", TW_AT_MOST_ONCE) == 0, "QoS 0");
    SENDS(&r, "3005 000161 00 78");
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == 1, "QoS 1");
    SENDS(&r, "3207 000161 0001 00 78");
    CHECK(give(&r, "4003 0001 10") == TW_EVENT_PUBLISHED, "PUBACK");
    CHECK(r.event.packet_id == 1 && r.event.reason == TW_NO_MATCHING_SUBSCRIBERS, "PUBACK");
    CHECK(publish(&r, "a", TW_EXACTLY_ONCE) == 2, "QoS 2");
    SENDS(&r, "3407 000161 0002 00 78");
    CHECK(give(&r, "5002 0002") == TW_EVENT_NONE, "PUBREC");
    SENDS(&r, "6202 0002");
    CHECK(!tw_client_is_idle(&r.client), "one message is under way");
    CHECK(give(&r, "7002 0002") == TW_EVENT_PUBLISHED && r.event.packet_id == 2, "PUBCOMP");
    CHECK(tw_client_is_idle(&r.client), "all done");
    SENDS(&r, "");
}

static void a_refusal_in_pubrec_ends_the_exchange(void) {
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    (void)publish(&r, "a", TW_EXACTLY_ONCE);
    SENDS(&r, "3407 000161 0001 00 78");
    CHECK(give(&r, "5003 0001 97") == TW_EVENT_PUBLISHED && r.event.reason == TW_QUOTA_EXCEEDED, "PUBREC");
    CHECK(r.event.error == TW_PUBLISH_REFUSED, "%s", tw_error_name(r.event.error));
    SENDS(&r, "");
    CHECK(tw_client_is_idle(&r.client), "nothing is left");
}

static void pubrec_reports_no_matching_subscribers(void) {
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    (void)publish(&r, "a", TW_EXACTLY_ONCE);
    CHECK(give(&r, "5003 0001 10 7002 0001") == TW_EVENT_PUBLISHED, "PUBCOMP");
    CHECK(r.event.reason == TW_NO_MATCHING_SUBSCRIBERS && r.event.error == 0, "0x%02x", (unsigned)r.event.reason);
}

static void unexpected_acknowledgements_are_counted(void) {
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    (void)publish(&r, "a", TW_EXACTLY_ONCE);
    SENDS(&r, "3407 000161 0001 00 78");
    CHECK(give(&r, "4002 0001 4002 0009 7002 0001 b004 0001 00 00") == TW_EVENT_NONE, "%d", (int)r.event.type);
    CHECK(r.client.counters.acks_unexpected == 4, "%d", r.client.counters.acks_unexpected);
    CHECK(give(&r, "5002 0009") == TW_EVENT_NONE, "PUBREC of nothing");
    SENDS(&r, "6203 0009 92");
    CHECK(give(&r, "5002 0001 7002 0001") == TW_EVENT_PUBLISHED, "the exchange goes on");
}

static void messages_wait_for_a_connection(void) {
    set_up(&r, TW_V3_1_1);
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == 1, "QoS 1");
    CHECK(publish(&r, "b", TW_EXACTLY_ONCE) == 2, "QoS 2");
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    SENDS(&r, "100d 00044d515454 04 00 003c 000163");
    SENDS(&r, "");
    CHECK(give(&r, CONNACK_V3) == TW_EVENT_CONNECTED, "CONNACK");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "3206 000161 0001 78 3406 000162 0002 78");
}

static void the_receive_maximum_of_the_server_is_respected(void) {
    set_up(&r, TW_V5);
    connect_with(&r, "2006 0000 03 210002");
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == 1 && publish(&r, "b", TW_EXACTLY_ONCE) == 2, "two");
    CHECK(publish(&r, "c", TW_AT_LEAST_ONCE) == 3, "three");
    SENDS(&r, "3207 000161 0001 00 78 3407 000162 0002 00 78");
    CHECK(r.client.counters.in_flight_full > 0, "counted");
    /* [MQTT-4.9.0-3]: PUBREC does not make room, PUBCOMP and PUBACK do. */
    CHECK(give(&r, "5002 0002") == TW_EVENT_NONE, "PUBREC");
    SENDS(&r, "6202 0002");
    CHECK(give(&r, "7002 0002") == TW_EVENT_PUBLISHED, "PUBCOMP");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "3207 000163 0003 00 78");
}

static void a_resumed_session_continues(void) {
    set_up(&r, TW_V5);
    connect_with(&r, "2006 0000 03 210003");
    (void)publish(&r, "a", TW_AT_LEAST_ONCE);
    (void)publish(&r, "b", TW_EXACTLY_ONCE);
    (void)publish(&r, "c", TW_EXACTLY_ONCE);
    (void)publish(&r, "d", TW_AT_LEAST_ONCE);
    SENDS(&r, "3207 000161 0001 00 78 3407 000162 0002 00 78 3407 000163 0003 00 78");
    CHECK(give(&r, "5002 0002") == TW_EVENT_NONE, "PUBREC");
    tw_client_close(&r.client);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    /* Clean Start is not set again. */
    SENDS(&r, "101b 00044d515454 05 00 003c 0d 1100000258 210004 2700000100 000163");
    CHECK(give(&r, CONNACK_V5_RESUMED) == TW_EVENT_CONNECTED && r.event.session_present, "CONNACK");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    /* PUBREL first, then messages in the original order [MQTT-4.6.0-1], those that were sent with DUP [MQTT-3.3.1-1]. */
    SENDS(&r, "6202 0002 3a07 000161 0001 00 78 3c07 000163 0003 00 78 3207 000164 0004 00 78");
    CHECK(give(&r, "4002 0001 7002 0002 5002 0003 7002 0003 4002 0004") == TW_EVENT_PUBLISHED, "1");
    CHECK(next(&r) == TW_EVENT_PUBLISHED && r.event.packet_id == 2, "2");
    CHECK(next(&r) == TW_EVENT_PUBLISHED && r.event.packet_id == 3, "3");
    CHECK(next(&r) == TW_EVENT_PUBLISHED && r.event.packet_id == 4, "4");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "6202 0003");
    CHECK(tw_client_is_idle(&r.client), "all done");
}

static void nothing_is_resumed_after_a_lost_session(void) {
    set_up(&r, TW_V3_1_1);
    connect_with(&r, CONNACK_V3);
    (void)publish(&r, "a", TW_AT_LEAST_ONCE);
    (void)publish(&r, "b", TW_EXACTLY_ONCE);
    (void)publish(&r, "c", TW_EXACTLY_ONCE);
    SENDS(&r, "3206 000161 0001 78 3406 000162 0002 78 3406 000163 0003 78");
    CHECK(give(&r, "5002 0002") == TW_EVENT_NONE, "PUBREC");
    CHECK(give(&r, "3406 000174 0007 79") == TW_EVENT_MESSAGE, "incoming QoS 2");
    tw_client_close(&r.client);
    connect_with(&r, CONNACK_V3);
    CHECK(next(&r) == TW_EVENT_PUBLISHED && r.event.packet_id == 2 && r.event.error == 0, "released");
    CHECK(next(&r) == TW_EVENT_PUBLISHED && r.event.packet_id == 3, "unknown");
    CHECK(r.event.error == TW_SESSION_LOST, "%s", tw_error_name(r.event.error));
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    /* A new message: no DUP. */
    SENDS(&r, "3206 000161 0001 78");
    /* The identifiers of the server's old messages are dropped, too. */
    CHECK(give(&r, "3406 000174 0007 7a") == TW_EVENT_MESSAGE, "a new message under an old identifier");
}

static void incoming_messages_are_acknowledged_after_handling(void) {
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    CHECK(give(&r, "3005 000161 00 78") == TW_EVENT_MESSAGE, "QoS 0");
    CHECK(give(&r, "3207 000161 0005 00 78") == TW_EVENT_MESSAGE, "QoS 1");
    CHECK(r.event.message.topic.len == 1 && r.event.message.payload.data[0] == 'x', "content");
    SENDS(&r, "");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "4002 0005");
    CHECK(give(&r, "3207 000161 0006 00 78") == TW_EVENT_MESSAGE, "QoS 1");
    CHECK(tw_client_reject(&r.client, TW_QUOTA_EXCEEDED) == 0, "reject");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "4003 0006 97");
    CHECK(tw_client_reject(&r.client, TW_QUOTA_EXCEEDED) == TW_ARGUMENT, "nothing to reject");
}

static void incoming_qos_2_is_delivered_once(void) {
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    CHECK(give(&r, "3407 000161 0005 00 78") == TW_EVENT_MESSAGE, "first");
    tw_client_close(&r.client);
    connect_with(&r, CONNACK_V5_RESUMED);
    CHECK(give(&r, "3c07 000161 0005 00 78") == TW_EVENT_NONE, "again");
    SENDS(&r, "5002 0005");
    CHECK(give(&r, "6202 0005") == TW_EVENT_NONE, "PUBREL");
    SENDS(&r, "7002 0005");
    CHECK(give(&r, "6202 0005") == TW_EVENT_NONE, "PUBREL of nothing");
    SENDS(&r, "7003 0005 92");
    CHECK(give(&r, "3407 000161 0005 00 78") == TW_EVENT_MESSAGE, "a new message with the identifier");
    CHECK(tw_client_reject(&r.client, TW_NOT_AUTHORIZED) == 0, "reject");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "5003 0005 87");
    /* [MQTT-4.3.3-9] */
    CHECK(give(&r, "3407 000161 0005 00 78") == TW_EVENT_MESSAGE, "after a refusal it is free again");
}

static void too_many_incoming_qos_2_end_the_connection(void) {
    char hex[64];
    int i;
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    for (i = 1; i <= 4; i++) {
        sprintf(hex, "3407 000161 %04x 00 78", i);
        CHECK(give(&r, hex) == TW_EVENT_MESSAGE, "%d", i);
    }
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "5002 0001 5002 0002 5002 0003 5002 0004");
    CHECK(give(&r, "3407 000161 0005 00 78") == TW_EVENT_CLOSED && r.event.error == TW_TOO_MANY_INCOMING, "full");
    SENDS(&r, "e001 93");
    CHECK(r.client.counters.incoming_full == 1, "counted");
    CHECK(tw_client_space(&r.client).size == 0, "nothing more is taken");
}

static void idle_connections_send_pings_and_time_out(void) {
    set_up(&r, TW_V5);
    r.config.connect.keep_alive_s = 0;
    restart(&r);
    connect_with(&r, CONNACK_V5);
    CHECK(next(&r) == TW_EVENT_NONE && tw_client_wait_ms(&r.client, r.now_ms) == UINT32_MAX, "no keep alive");
    set_up(&r, TW_V5);
    /* Server Keep Alive 20 s [MQTT-3.2.2-21]. The clock wraps around meanwhile. */
    connect_with(&r, "2006 0000 03 130014");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    CHECK(tw_client_wait_ms(&r.client, r.now_ms) == 15000, "%u", tw_client_wait_ms(&r.client, r.now_ms));
    r.now_ms += 14999;
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "");
    r.now_ms += 1;
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "c000");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    r.now_ms += 9000;
    CHECK(give(&r, "d000") == TW_EVENT_NONE, "PINGRESP");
    CHECK(tw_client_wait_ms(&r.client, r.now_ms) == 15000 - 9000, "%u", tw_client_wait_ms(&r.client, r.now_ms));
    r.now_ms += 6000;
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "c000");
    r.now_ms += 10000;
    CHECK(next(&r) == TW_EVENT_CLOSED && r.event.error == TW_PING_TIMEOUT && !r.event.is_final, "no answer");
    SENDS(&r, "");
    CHECK(r.client.counters.timeouts == 1, "counted");
}

static void any_packet_proves_that_the_server_is_alive(void) {
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    r.now_ms += 45000;
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "c000");
    r.now_ms += 9000;
    CHECK(give(&r, "3005 000161 00 78") == TW_EVENT_MESSAGE, "a message before the answer");
    r.now_ms += 9000;
    CHECK(next(&r) == TW_EVENT_NONE, "not timed out");
    r.now_ms += 1000;
    CHECK(next(&r) == TW_EVENT_CLOSED, "timed out");
}

static void a_failed_handshake_ends(void) {
    set_up(&r, TW_V5);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    r.now_ms += 19999;
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    r.now_ms += 1;
    CHECK(next(&r) == TW_EVENT_CLOSED && r.event.error == TW_CONNECT_TIMEOUT, "no CONNACK");
    set_up(&r, TW_V3_1_1);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    CHECK(give(&r, "2002 0005") == TW_EVENT_CLOSED && r.event.reason == TW_NOT_AUTHORIZED, "refused in 3.1.1");
    CHECK(r.event.error == TW_CONNECTION_REFUSED && r.event.is_final, "refused in 3.1.1");
    set_up(&r, TW_V5);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    CHECK(give(&r, CONNACK_V5_RESUMED) == TW_EVENT_CLOSED && r.event.error == TW_UNEXPECTED_SESSION, "session");
    set_up(&r, TW_V5);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    CHECK(give(&r, "3005 000161 00 78") == TW_EVENT_CLOSED && r.event.error == TW_UNEXPECTED_PACKET, "PUBLISH first");
}

/* Packets in place of CONNACK, from a server without MQTT 5.0 and from other protocols. */
static void connack_of_another_version_is_understood(void) {
    static const struct answer {
        const char *hex;
        tw_error error;
        tw_reason reason;
        bool is_final;
    } ANSWERS[] = {
        {"2002 0001", TW_UNSUPPORTED_VERSION, TW_UNSUPPORTED_PROTOCOL_VERSION, true},
        {"2002 0004", TW_CONNECTION_REFUSED, TW_BAD_USER_NAME_OR_PASSWORD, true},
        {"2002 0003", TW_CONNECTION_REFUSED, TW_SERVER_UNAVAILABLE, false},
        {"2002 0000", TW_HANDSHAKE_FAILED, TW_UNSPECIFIED_ERROR, false},
        {"53 53 48 2d 32", TW_HANDSHAKE_FAILED, TW_UNSPECIFIED_ERROR, false},
        {"30ffffff7f", TW_PACKET_OVER_LIMIT, TW_PACKET_TOO_LARGE, false},
    };
    size_t i;
    for (i = 0; i < sizeof ANSWERS / sizeof ANSWERS[0]; i++) {
        set_up(&r, TW_V5);
        CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
        CHECK(give(&r, ANSWERS[i].hex) == TW_EVENT_CLOSED, "%s", ANSWERS[i].hex);
        CHECK(r.event.error == (tw_result)ANSWERS[i].error && r.event.reason == ANSWERS[i].reason &&
                  r.event.is_final == ANSWERS[i].is_final,
              "%s: %s", ANSWERS[i].hex, tw_error_name(r.event.error));
    }
}

/* The reason at the end of a connection, and whether another attempt can help. */
static void disconnects_by_the_server_are_distinguished(void) {
    static const struct end {
        const char *hex;
        tw_error error;
        bool is_final;
    } ENDS[] = {
        {"2003 008400", TW_UNSUPPORTED_VERSION, true}, {"2003 008500", TW_CONNECTION_REFUSED, true},
        {"2003 008600", TW_CONNECTION_REFUSED, true},  {"2003 008700", TW_CONNECTION_REFUSED, true},
        {"2003 008a00", TW_CONNECTION_REFUSED, true},  {"2003 008c00", TW_CONNECTION_REFUSED, true},
        {"2003 009000", TW_CONNECTION_REFUSED, true},  {"2003 009900", TW_CONNECTION_REFUSED, true},
        {"2003 009a00", TW_CONNECTION_REFUSED, true},  {"2003 009b00", TW_CONNECTION_REFUSED, true},
        {"2003 009500", TW_CONNECTION_REFUSED, true},  {"2003 008100", TW_CONNECTION_REFUSED, false},
        {"2003 009c00", TW_REDIRECTED, true},          {"2003 009d00", TW_REDIRECTED, true},
        {"2003 008000", TW_CONNECTION_REFUSED, false}, {"2003 008800", TW_CONNECTION_REFUSED, false},
        {"2003 008900", TW_CONNECTION_REFUSED, false}, {"2003 009700", TW_CONNECTION_REFUSED, false},
        {"2003 009f00", TW_CONNECTION_REFUSED, false}, {"e001 8e", TW_TAKEN_OVER, true},
        {"e001 9c", TW_REDIRECTED, true},              {"e001 9d", TW_REDIRECTED, true},
        {"e001 87", TW_SERVER_DISCONNECTED, true},     {"e001 8b", TW_SERVER_DISCONNECTED, false},
        {"e001 98", TW_SERVER_DISCONNECTED, false},    {"e001 a0", TW_SERVER_DISCONNECTED, false},
        {"e000", TW_SERVER_DISCONNECTED, false},
    };
    size_t i;
    for (i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        set_up(&r, TW_V5);
        if (ENDS[i].hex[0] == 'e') {
            connect_with(&r, CONNACK_V5);
        } else {
            CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
        }
        CHECK(give(&r, ENDS[i].hex) == TW_EVENT_CLOSED, "%s", ENDS[i].hex);
        CHECK(r.event.error == (tw_result)ENDS[i].error && r.event.is_final == ENDS[i].is_final, "%s: %s", ENDS[i].hex,
              tw_error_name(r.event.error));
    }
}

/* Each of these is answered with DISCONNECT and its reason code. */
static void protocol_errors_of_the_server_end_the_connection(void) {
    static const char *const FAULTS[][2] = {
        {"3605 000161 00 78", "e001 81"},          {"3008 000161 03 230001 78", "e001 94"},
        {"3005 000123 00 78", "e001 90"},          {"3205 000161 00 00", "e001 82"},
        {CONNACK_V5, "e001 82"},                   {"c000", "e001 82"},
        {"8206 0001 00 0000 00", "e001 8f"},       {"30ff7f", "e001 95"},
    };
    size_t i;
    for (i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        set_up(&r, TW_V5);
        connect_with(&r, CONNACK_V5);
        CHECK(give(&r, FAULTS[i][0]) == TW_EVENT_CLOSED && r.event.error < 0, "%s", FAULTS[i][0]);
        SENDS(&r, FAULTS[i][1]);
        CHECK(next(&r) == TW_EVENT_NONE, "nothing after it");
    }
    set_up(&r, TW_V3_1_1);
    connect_with(&r, CONNACK_V3);
    CHECK(give(&r, "e000") == TW_EVENT_CLOSED && r.event.error == TW_UNEXPECTED_PACKET, "DISCONNECT in 3.1.1");
    SENDS(&r, "");
}

static void the_limits_of_the_server_are_respected(void) {
    tw_publish message = tw_message(tw_str("a"), tw_str("x"), TW_AT_MOST_ONCE);
    set_up(&r, TW_V5);
    CHECK(publish(&r, "early", TW_EXACTLY_ONCE) == 1, "not known yet");
    /* Maximum QoS 1, Retain Available 0, Maximum Packet Size 10. */
    connect_with(&r, "200c 0000 09 2401 2500 270000000a");
    CHECK(next(&r) == TW_EVENT_PUBLISHED && r.event.error == TW_OVER_MAXIMUM_PACKET_SIZE, "the early one is too large");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "");
    CHECK(publish(&r, "a", TW_EXACTLY_ONCE) == TW_OVER_MAXIMUM_QOS, "QoS");
    message.retain = true;
    CHECK(tw_client_publish(&r.client, &message, NULL) == TW_RETAIN_UNAVAILABLE, "retain");
    CHECK(publish(&r, "abcdefg", TW_AT_MOST_ONCE) == TW_OVER_MAXIMUM_PACKET_SIZE, "size");
    CHECK(publish(&r, "ab", TW_AT_LEAST_ONCE) == 2, "within all limits");
    SENDS(&r, "3208 00026162 0002 00 78");
}

static void a_full_outbox_is_reported(void) {
    int count = 0;
    tw_result result;
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    do {
        result = publish(&r, "a", TW_AT_LEAST_ONCE);
        count += result > 0;
    } while (result > 0);
    /* 17 bytes for each. */
    CHECK(result == TW_OUTBOX_FULL && count == 256 / 17, "%d", count);
    CHECK(r.client.counters.outbox_full == 1, "counted");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(give(&r, "4002 0002") == TW_EVENT_PUBLISHED, "not the oldest");
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == TW_OUTBOX_FULL, "its place is free only after the oldest");
    CHECK(give(&r, "4002 0001") == TW_EVENT_PUBLISHED, "the oldest");
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == 16 && publish(&r, "a", TW_AT_LEAST_ONCE) == 17, "two places");
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == TW_OUTBOX_FULL, "and no third");
    {
        char topic[300];
        memset(topic, 'a', sizeof topic);
        topic[290] = '\0';
        CHECK(publish(&r, topic, TW_AT_LEAST_ONCE) == TW_BUFFER_TOO_SMALL, "never");
        topic[121] = '\0';
        CHECK(publish(&r, topic, TW_AT_LEAST_ONCE) == TW_BUFFER_TOO_SMALL, "larger than the transmit buffer");
    }
}

static void packets_that_cannot_be_answered_are_not_accepted(void) {
    int count = 0;
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    while (publish(&r, "a", TW_AT_MOST_ONCE) == 0) {
        count++;
    }
    CHECK(count == (128 - 5) / 7, "%d", count);
    CHECK(give(&r, "3207 000161 0005 00 78") == TW_EVENT_MESSAGE, "room for an answer is kept");
    CHECK(give(&r, "3207 000161 0006 00 78") == TW_EVENT_MESSAGE, "here for two, of four bytes each");
    CHECK(give(&r, "3207 000161 0007 00 78") == TW_EVENT_NONE, "and no more");
    CHECK(r.client.counters.transmit_full > 0, "counted");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(next(&r) == TW_EVENT_MESSAGE && r.event.packet_id == 7, "after sending it goes on");
}

static void subscriptions_are_requested_until_they_are_acknowledged(void) {
    tw_properties none = {NULL, 0};
    tw_subscription list[2];
    list[0] = tw_filter(tw_str("a/#"), TW_AT_LEAST_ONCE);
    list[1] = tw_filter(tw_str("b"), TW_EXACTLY_ONCE);
    list[1].no_local = true;
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    CHECK(tw_client_subscribe(&r.client, list, 2, none, NULL) == 0, "subscribe");
    SENDS(&r, "820d 0001 00 0003612f23 01 000162 06");
    tw_client_close(&r.client);
    connect_with(&r, CONNACK_V5_RESUMED);
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "820d 0001 00 0003612f23 01 000162 06");
    CHECK(give(&r, "9005 0001 00 0187") == TW_EVENT_SUBSCRIBED && r.event.packet_id == 1, "SUBACK");
    CHECK(r.event.reasons.len == 2 && r.event.reasons.data[1] == TW_NOT_AUTHORIZED, "reasons");
    CHECK(r.event.error == TW_SUBSCRIBE_REFUSED && r.event.reason == TW_NOT_AUTHORIZED, "one is refused");
    CHECK(tw_client_unsubscribe(&r.client, list, 1, none, NULL) == 0, "unsubscribe");
    SENDS(&r, "a208 0002 00 0003612f23");
    CHECK(give(&r, "b004 0002 00 11") == TW_EVENT_UNSUBSCRIBED && r.event.reasons.data[0] == 0x11, "UNSUBACK");
    CHECK(r.event.error == 0 && r.event.reason == TW_NO_SUBSCRIPTION_EXISTED, "no refusal");
    CHECK(tw_client_unsubscribe(&r.client, list, 1, none, NULL) == 0, "unsubscribe");
    SENDS(&r, "a208 0003 00 0003612f23");
    CHECK(give(&r, "b004 0003 00 87") == TW_EVENT_UNSUBSCRIBED && r.event.error == TW_UNSUBSCRIBE_REFUSED, "refused");
    CHECK(tw_client_is_idle(&r.client), "all done");
    list[0].filter = tw_str("a#");
    CHECK(tw_client_subscribe(&r.client, list, 1, none, NULL) == TW_TOPIC_FILTER_WILDCARD, "a bad filter");
    CHECK(tw_client_subscribe(&r.client, list, 0, none, NULL) == TW_NO_TOPIC_FILTERS, "none");
}

static void unsupported_features_are_refused(void) {
    tw_publish message = tw_message(tw_str("a"), tw_str("x"), TW_AT_LEAST_ONCE);
    uint8_t space[8];
    tw_writer writer = tw_writer_on(space, sizeof space);
    tw_put_number(&writer, TW_TOPIC_ALIAS, 1);
    message.properties = tw_written(&writer);
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    CHECK(tw_client_publish(&r.client, &message, NULL) == TW_ARGUMENT, "topic alias");
    CHECK(publish(&r, "a/+", TW_AT_LEAST_ONCE) == TW_TOPIC_WILDCARD, "wildcard");
    CHECK(publish(&r, "", TW_AT_LEAST_ONCE) == TW_TOPIC_MISSING, "empty");
    CHECK(publish(&r, "a", (tw_qos)3) == TW_ARGUMENT, "QoS 3");
    set_up(&r, TW_V3_1_1);
    connect_with(&r, CONNACK_V3);
    writer = tw_writer_on(space, sizeof space);
    tw_put_number(&writer, TW_MESSAGE_EXPIRY_INTERVAL, 1);
    message.properties = tw_written(&writer);
    CHECK(tw_client_publish(&r.client, &message, NULL) == TW_NOT_IN_VERSION, "properties in 3.1.1");
    CHECK(tw_client_disconnect(&r.client, TW_DISCONNECT_WITH_WILL) == TW_NOT_IN_VERSION, "a reason in 3.1.1");
    SENDS(&r, "");
}

static void packet_identifiers_wrap_around_without_0(void) {
    char hex[32];
    int i;
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    for (i = 1; i <= 65537; i++) {
        tw_result want = i <= 65535 ? i : i - 65535, got = publish(&r, "a", TW_AT_LEAST_ONCE);
        CHECK(got == want, "%d: %d", i, (int)got);
        tw_client_sent(&r.client, tw_client_output(&r.client).len);
        sprintf(hex, "4002 %04x", (unsigned)got);
        CHECK(give(&r, hex) == TW_EVENT_PUBLISHED, "%d", i);
    }
}

/* [MQTT-2.2.1-3], also if other packets have used identifiers in between. */
static void an_identifier_in_use_is_not_reused(void) {
    static uint8_t large[65536 * 18];
    tw_result result;
    int count = 0;
    set_up(&r, TW_V5);
    r.config.outbox = tw_lend(large, sizeof large);
    restart(&r);
    connect_with(&r, CONNACK_V5);
    r.client.next_packet_id = 10;
    while ((result = publish(&r, "a", TW_AT_LEAST_ONCE)) > 0) {
        if (++count == 5) {
            r.client.next_packet_id += 3;
        }
    }
    CHECK(result == TW_OUTBOX_FULL && count == 65535 - 3, "%d: %s", count, tw_error_name(result));
}

static void authentication_exchanges_several_packets(void) {
    uint8_t space[32];
    tw_writer writer = tw_writer_on(space, sizeof space);
    tw_put_text(&writer, TW_AUTHENTICATION_METHOD, tw_str("m"));
    set_up(&r, TW_V5);
    r.config.connect.properties = tw_written(&writer);
    restart(&r);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(give(&r, "f006 18 04 1500016d") == TW_EVENT_AUTH && r.event.reason == TW_CONTINUE_AUTHENTICATION, "AUTH");
    CHECK(tw_client_auth(&r.client, TW_CONTINUE_AUTHENTICATION, tw_written(&writer)) == 0, "answer");
    SENDS(&r, "f006 18 04 1500016d");
    CHECK(give(&r, "2007 0000 04 1500016d") == TW_EVENT_CONNECTED, "CONNACK");
}

static void disconnect_is_the_last_packet(void) {
    set_up(&r, TW_V5);
    CHECK(tw_client_disconnect(&r.client, TW_SUCCESS) == TW_NOT_CONNECTED, "no connection");
    connect_with(&r, CONNACK_V5);
    CHECK(give(&r, "3207 000161 0005 00 78") == TW_EVENT_MESSAGE, "a message");
    CHECK(tw_client_disconnect(&r.client, TW_DISCONNECT_WITH_WILL) == 0, "disconnect");
    CHECK(publish(&r, "a", TW_AT_MOST_ONCE) == TW_NOT_CONNECTED, "nothing after it");
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == 1, "kept for later");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "4002 0005 e001 04");
    set_up(&r, TW_V5);
    connect_with(&r, CONNACK_V5);
    CHECK(give(&r, "e002 8e 00") == TW_EVENT_CLOSED && r.event.error == TW_TAKEN_OVER, "by the server");
    CHECK(r.event.reason == TW_SESSION_TAKEN_OVER, "reason");
}

static void bytes_can_arrive_one_by_one(void) {
    static const uint8_t BYTES[] = {0x20, 3, 0, 0, 0, 0x32, 7, 0, 1, 'a', 0, 5, 0, 'x', 0xd0, 0};
    int events = 0;
    size_t i;
    set_up(&r, TW_V5);
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    for (i = 0; i < sizeof BYTES; i++) {
        *tw_client_space(&r.client).data = BYTES[i];
        tw_client_received(&r.client, 1);
        while (next(&r) != TW_EVENT_NONE) {
            events++;
        }
    }
    CHECK(events == 2, "%d", events);
}

int main(void) {
    connect_contains_the_limits_of_the_client();
    a_client_without_identifier_starts_clean();
    an_invalid_configuration_is_refused_at_once();
    a_session_survives_reconnections_until_disconnect();
    messages_of_each_qos_are_sent();
    a_refusal_in_pubrec_ends_the_exchange();
    pubrec_reports_no_matching_subscribers();
    unexpected_acknowledgements_are_counted();
    messages_wait_for_a_connection();
    the_receive_maximum_of_the_server_is_respected();
    a_resumed_session_continues();
    nothing_is_resumed_after_a_lost_session();
    incoming_messages_are_acknowledged_after_handling();
    incoming_qos_2_is_delivered_once();
    too_many_incoming_qos_2_end_the_connection();
    idle_connections_send_pings_and_time_out();
    any_packet_proves_that_the_server_is_alive();
    a_failed_handshake_ends();
    connack_of_another_version_is_understood();
    disconnects_by_the_server_are_distinguished();
    protocol_errors_of_the_server_end_the_connection();
    the_limits_of_the_server_are_respected();
    a_full_outbox_is_reported();
    packets_that_cannot_be_answered_are_not_accepted();
    subscriptions_are_requested_until_they_are_acknowledged();
    unsupported_features_are_refused();
    packet_identifiers_wrap_around_without_0();
    an_identifier_in_use_is_not_reused();
    authentication_exchanges_several_packets();
    disconnect_is_the_last_packet();
    bytes_can_arrive_one_by_one();
    return finish("client");
}
