/* Requests and responses: a requester and a responder, each with a simulated client. */
#include "rig.h"

#define PLACES 2

static rig r, other;
static tw_requester requester;
static tw_request places[PLACES];
static uint8_t memory[160];
static tw_response last;
static char last_text[64];
static int responses;

static void on_response(void *user, tw_requester *to, const tw_response *response) {
    tw_bytes text = response->sentence.len > 0 ? response->sentence : response->payload;
    (void)user;
    (void)to;
    last = *response;
    snprintf(last_text, sizeof last_text, "%.*s", (int)text.len, text.len > 0 ? (const char *)text.data : "");
    responses++;
}

static void set_up_requester(void) {
    static const uint8_t RANDOM[TW_REQUESTER_RANDOM_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF};
    tw_requester_config config;
    set_up(&r, TW_V5);
    r.config.subscriptions = tw_lend(r.subscriptions, sizeof r.subscriptions);
    restart(&r);
    memset(&config, 0, sizeof config);
    config.client = &r.client;
    config.places = places;
    config.count = PLACES;
    config.memory = tw_lend(memory, sizeof memory);
    config.random = RANDOM;
    config.on_response = on_response;
    CHECK(tw_requester_init(&requester, &config) == 0, "init");
    connect_with(&r, CONNACK_V5);
    CHECK(!tw_requester_take(&requester, &r.event), "others are told of connections too");
    memset(&last, 0, sizeof last);
    responses = 0;
}

static tw_result ask(const char *payload, tw_qos qos) {
    tw_publish request = tw_message(tw_str("service"), tw_str(payload), qos);
    uint32_t number = 0;
    tw_result result = tw_requester_send(&requester, &request, r.now_ms, 1000, &number);
    return result < 0 ? result : (tw_result)number;
}

/* Removes the next packet from the output of a client. */
static tw_packet sent(rig *from) {
    tw_bytes output = tw_client_output(&from->client);
    tw_packet packet;
    tw_result len = tw_decode(output.data, output.len, TW_V5, TW_MAX_PACKET_BYTES, &packet);
    CHECK(len > 0, "%s", tw_error_name(len));
    tw_client_sent(&from->client, len > 0 ? (size_t)len : output.len);
    return packet;
}

/* Delivers a message to a client like its server, at its QoS and with its properties. */
static tw_event_type deliver(rig *to, const tw_publish *message) {
    uint8_t bytes[256];
    char hex[513];
    tw_publish copy = *message;
    tw_result len, i;
    copy.packet_id = copy.qos == TW_AT_MOST_ONCE ? 0 : 77;
    len = tw_encode_publish(&copy, TW_V5, bytes, sizeof bytes);
    CHECK(len > 0, "%s", tw_error_name(len));
    for (i = 0; i < len; i++) {
        sprintf(hex + 2 * i, "%02x", bytes[i]);
    }
    return give(to, hex);
}

static void tell_requester(void) {
    CHECK(tw_requester_take(&requester, &r.event), "it is the requester's");
}

/* Sends a request, and lets the other client answer with `sentence`: NULL for an echo. */
static void round_trip(bool fails, const char *sentence) {
    uint8_t work[64];
    tw_packet packet;
    tw_result number;
    set_up_requester();
    set_up(&other, TW_V5);
    connect_with(&other, CONNACK_V5);
    number = ask("question", TW_AT_LEAST_ONCE);
    CHECK(number == 1, "%s", tw_error_name(number));
    packet = sent(&r);
    CHECK(packet.type == TW_SUBSCRIBE, "first the subscription");
    CHECK(give(&r, "9004 0001 00 01") == TW_EVENT_SUBSCRIBED, "SUBACK");
    tell_requester();
    packet = sent(&r);
    CHECK(packet.type == TW_PUBLISH && packet.as.publish.qos == TW_AT_LEAST_ONCE, "then the request");
    CHECK(deliver(&other, &packet.as.publish) == TW_EVENT_MESSAGE, "the responder has it");
    if (fails) {
        CHECK(tw_respond_failure(&other.client, &other.event.message, sentence, tw_lend(work, sizeof work)) == 0, "respond");
    } else {
        CHECK(tw_respond(&other.client, &other.event.message, tw_str("answer"), tw_lend(work, sizeof work)) == 0, "respond");
    }
    CHECK(give(&r, "4002 0002") == TW_EVENT_PUBLISHED, "PUBACK");
    tell_requester();
    CHECK(responses == 0, "not yet");
    packet = sent(&other);
    CHECK(packet.type == TW_PUBLISH && packet.as.publish.qos == TW_AT_LEAST_ONCE, "the response");
    CHECK(packet.as.publish.topic.len == 34 &&
              memcmp(packet.as.publish.topic.data, "tautwire/response/0123456789abcdef", 34) == 0,
          "its topic");
    CHECK(deliver(&r, &packet.as.publish) == TW_EVENT_MESSAGE, "it comes");
    tell_requester();
    CHECK(responses == 1 && last.number == 1, "%d", responses);
    tell_requester();
    CHECK(responses == 1 && requester.late == 1, "one that comes twice is dropped and counted");
}

static void a_response_arrives(void) {
    round_trip(false, NULL);
    CHECK(last.error == 0 && strcmp(last_text, "answer") == 0, "%s: %s", tw_error_name(last.error), last_text);
}

static void a_failure_arrives_with_its_text(void) {
    round_trip(true, "out of paper");
    CHECK(last.error == TW_REQUEST_FAILED && strcmp(last_text, "out of paper") == 0, "%s", last_text);
    round_trip(true, NULL);
    CHECK(last.error == TW_REQUEST_FAILED && strcmp(last_text, "the responder failed") == 0, "%s", last_text);
}

static void a_missing_responder_is_reported(void) {
    set_up_requester();
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 1 && ask("?", TW_EXACTLY_ONCE) == 2, "two");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(give(&r, "4003 0002 10") == TW_EVENT_PUBLISHED, "PUBACK");
    tell_requester();
    CHECK(responses == 1 && last.number == 1 && last.error == TW_NO_RESPONDER, "%s", tw_error_name(last.error));
    CHECK(last.reason == TW_NO_MATCHING_SUBSCRIBERS, "0x%02x", (unsigned)last.reason);
    CHECK(give(&r, "5003 0003 10 7002 0003") == TW_EVENT_PUBLISHED, "PUBREC");
    tell_requester();
    CHECK(responses == 2 && last.number == 2 && last.error == TW_NO_RESPONDER, "%s", tw_error_name(last.error));
}

static void refusals_are_reported(void) {
    set_up_requester();
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 1, "ask");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(give(&r, "4003 0002 87") == TW_EVENT_PUBLISHED, "PUBACK");
    tell_requester();
    CHECK(last.number == 1 && last.error == TW_PUBLISH_REFUSED && last.reason == TW_NOT_AUTHORIZED, "the request");
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 2, "ask");
    CHECK(give(&r, "9004 0001 00 87") == TW_EVENT_SUBSCRIBED, "SUBACK");
    tell_requester();
    CHECK(last.number == 2 && last.error == TW_SUBSCRIBE_REFUSED && last.reason == TW_NOT_AUTHORIZED, "the responses");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 3 && sent(&r).type == TW_SUBSCRIBE, "it is tried again");
}

static void a_request_times_out(void) {
    set_up_requester();
    CHECK(tw_requester_turn(&requester, r.now_ms) == UINT32_MAX, "nothing waits");
    CHECK(ask("?", TW_AT_MOST_ONCE) == 1, "ask");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    r.now_ms += 400;
    CHECK(ask("?", TW_AT_MOST_ONCE) == 2, "ask");
    CHECK(ask("?", TW_AT_MOST_ONCE) == TW_REQUESTS_FULL && requester.full == 1, "no third place");
    CHECK(tw_requester_turn(&requester, r.now_ms) == 600 && responses == 0, "the first has 600 ms left");
    r.now_ms += 600;
    CHECK(tw_requester_turn(&requester, r.now_ms) == 0 && responses == 1, "it is over");
    CHECK(last.number == 1 && last.error == TW_REQUEST_TIMEOUT, "%s", tw_error_name(last.error));
    CHECK(tw_requester_turn(&requester, r.now_ms) == 400, "the second");
    tw_requester_cancel(&requester, 2);
    r.now_ms += 400;
    CHECK(tw_requester_turn(&requester, r.now_ms) == UINT32_MAX && responses == 1, "given up without a word");
}

static void a_new_session_subscribes_to_responses_before_requests(void) {
    tw_packet packet;
    set_up_requester();
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 1, "ask");
    CHECK(sent(&r).type == TW_SUBSCRIBE && sent(&r).type == TW_PUBLISH, "sent");
    CHECK(give(&r, "9004 0001 00 01") == TW_EVENT_SUBSCRIBED, "SUBACK");
    tell_requester();
    tw_client_close(&r.client);
    connect_with(&r, CONNACK_V5);
    CHECK(!tw_requester_take(&requester, &r.event), "others are told");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    CHECK(sent(&r).type == TW_SUBSCRIBE, "the subscription first");
    packet = sent(&r);
    CHECK(packet.type == TW_PUBLISH && tw_client_output(&r.client).len == 0, "then the request, and nothing else");
}

static void the_server_can_set_the_response_topic(void) {
    tw_packet packet;
    tw_property property;
    set_up_requester();
    tw_client_close(&r.client);
    /* Response Information "me/in". */
    connect_with(&r, "200b 0000 08 1a 0005 6d652f696e");
    CHECK(!tw_requester_take(&requester, &r.event), "others are told");
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 1 && sent(&r).type == TW_SUBSCRIBE, "ask");
    packet = sent(&r);
    CHECK(tw_find_property(packet.as.publish.properties, TW_RESPONSE_TOPIC, &property), "response topic");
    CHECK(property.text.len == 22 && memcmp(property.text.data, "me/in/0123456789abcdef", 22) == 0, "named by the server");
}

static void a_message_without_response_topic_is_not_answered(void) {
    uint8_t work[64];
    tw_publish message = tw_message(tw_str("service"), tw_str("x"), TW_AT_LEAST_ONCE);
    set_up(&other, TW_V5);
    connect_with(&other, CONNACK_V5);
    CHECK(tw_respond(&other.client, &message, tw_str("y"), tw_lend(work, sizeof work)) == 0, "no error");
    CHECK(tw_client_output(&other.client).len == 0, "and no message");
}

static void invalid_requests_are_refused(void) {
    tw_requester_config config;
    tw_publish request = tw_message(tw_str("a/#"), tw_str("x"), TW_AT_LEAST_ONCE);
    set_up_requester();
    CHECK(tw_requester_send(&requester, &request, r.now_ms, 1, NULL) == TW_TOPIC_WILDCARD, "wildcard");
    request.topic = tw_str("a");
    request.properties = tw_view("\x09\x00\x01x", 4);
    CHECK(tw_requester_send(&requester, &request, r.now_ms, 1, NULL) == TW_PROPERTY_REPEATED, "correlation data");
    CHECK(ask("?", TW_AT_LEAST_ONCE) == 1 && ask("?", TW_AT_LEAST_ONCE) == 2, "no place has been lost");
    memset(&config, 0, sizeof config);
    config.client = &r.client;
    config.places = places;
    config.count = PLACES;
    config.memory = tw_lend(memory, 33);
    config.random = memory;
    config.on_response = on_response;
    CHECK(tw_requester_init(&requester, &config) == TW_BUFFER_TOO_SMALL, "no room for the topic");
    config.count = 0;
    CHECK(tw_requester_init(&requester, &config) == TW_ARGUMENT, "no places");
    set_up(&r, TW_V3_1_1);
    CHECK(tw_requester_init(&requester, &config) == TW_NOT_IN_VERSION, "3.1.1");
}

int main(void) {
    a_response_arrives();
    a_failure_arrives_with_its_text();
    a_missing_responder_is_reported();
    refusals_are_reported();
    a_request_times_out();
    a_new_session_subscribes_to_responses_before_requests();
    the_server_can_set_the_response_topic();
    a_message_without_response_topic_is_not_answered();
    invalid_requests_are_refused();
    return finish("requests");
}
