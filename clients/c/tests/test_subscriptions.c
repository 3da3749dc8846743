/* Subscriptions that the client stores, and renews when the server has lost the session. */
#include "rig.h"

static rig r;

static void set_up_keeping(tw_version version, size_t bytes) {
    set_up(&r, version);
    r.config.subscriptions = tw_lend(r.subscriptions, bytes);
    restart(&r);
}

static void reconnect(const char *connack) {
    tw_client_close(&r.client);
    connect_with(&r, connack);
    CHECK(next(&r) == TW_EVENT_NONE, "none");
}

/* A connection with "a/#" granted at QoS 1. */
static void set_up_subscribed(void) {
    set_up_keeping(TW_V5, sizeof r.subscriptions);
    connect_with(&r, CONNACK_V5);
    CHECK(subscribe(&r, "a/#", TW_AT_LEAST_ONCE) == 1, "subscribe");
    SENDS(&r, "8209 0001 00 0003612f23 01");
    CHECK(give(&r, "9004 0001 00 01") == TW_EVENT_SUBSCRIBED && r.event.reason == TW_GRANTED_QOS_1, "SUBACK");
    CHECK(r.event.error == 0 && r.event.filter.len == 0, "granted");
}

static void granted_subscriptions_are_renewed_before_messages(void) {
    set_up_subscribed();
    CHECK(subscribe(&r, "b", TW_EXACTLY_ONCE) == 2, "subscribe");
    SENDS(&r, "8207 0002 00 000162 02");
    CHECK(give(&r, "9004 0002 00 87") == TW_EVENT_SUBSCRIBED && r.event.error == TW_SUBSCRIBE_REFUSED, "refused");
    tw_client_close(&r.client);
    CHECK(publish(&r, "x", TW_AT_LEAST_ONCE) == 3, "a message that waits");
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0004 00 0003612f23 01 3207 000178 0003 00 78");
    CHECK(give(&r, "9004 0004 00 01") == TW_EVENT_NONE, "the application did not ask");
    CHECK(r.client.counters.acks_unexpected == 0, "the client did");
    reconnect(CONNACK_V5_RESUMED);
    SENDS(&r, "3a07 000178 0003 00 78");
}

static void ended_subscriptions_are_not_renewed(void) {
    tw_properties none = {NULL, 0};
    tw_subscription list = tw_filter(tw_str("a/#"), TW_AT_MOST_ONCE);
    set_up_subscribed();
    CHECK(tw_client_unsubscribe(&r.client, &list, 1, none, NULL) == 0, "unsubscribe");
    CHECK(give(&r, "b004 0002 00 00") == TW_EVENT_UNSUBSCRIBED, "UNSUBACK");
    reconnect(CONNACK_V5);
    SENDS(&r, "");
    set_up_subscribed();
    tw_client_close(&r.client);
    /* The UNSUBSCRIBE waits in the outbox: the subscription must not follow it. */
    CHECK(tw_client_unsubscribe(&r.client, &list, 1, none, NULL) == 0, "unsubscribe");
    reconnect(CONNACK_V5);
    SENDS(&r, "a208 0002 00 0003612f23");
}

static void a_subscribe_in_the_outbox_is_not_repeated(void) {
    set_up_subscribed();
    CHECK(subscribe(&r, "a/#", TW_EXACTLY_ONCE) == 2, "the same filter with another QoS");
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0002 00 0003612f23 02");
    CHECK(give(&r, "9004 0002 00 02") == TW_EVENT_SUBSCRIBED, "SUBACK");
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0003 00 0003612f23 02");
}

static void subscriptions_are_renewed_until_acknowledged(void) {
    set_up_subscribed();
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0002 00 0003612f23 01");
    /* It is unknown whether the server had it before the line was cut. */
    reconnect(CONNACK_V5_RESUMED);
    SENDS(&r, "8209 0003 00 0003612f23 01");
    CHECK(give(&r, "9004 0002 00 01") == TW_EVENT_NONE && r.client.counters.acks_unexpected == 1, "an old answer");
    CHECK(give(&r, "9004 0003 00 01") == TW_EVENT_NONE && r.client.counters.acks_unexpected == 1, "the answer");
    reconnect(CONNACK_V5_RESUMED);
    SENDS(&r, "");
}

static void a_later_refusal_ends_the_subscription_with_its_filter(void) {
    set_up_subscribed();
    CHECK(subscribe(&r, "b", TW_AT_LEAST_ONCE) == 2, "another one behind it");
    CHECK(give(&r, "9004 0002 00 01") == TW_EVENT_SUBSCRIBED, "SUBACK");
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0003 00 0003612f23 01 8207 0004 00 000162 01");
    CHECK(give(&r, "9004 0003 00 87") == TW_EVENT_SUBSCRIBED && r.event.error == TW_SUBSCRIBE_REFUSED, "told");
    CHECK(r.event.reason == TW_NOT_AUTHORIZED && r.event.filter.len == 3 && memcmp(r.event.filter.data, "a/#", 3) == 0, "which");
    CHECK(give(&r, "9004 0004 00 01") == TW_EVENT_NONE, "the other one");
    reconnect(CONNACK_V5);
    SENDS(&r, "8207 0005 00 000162 01");
}

static void only_a_refusal_of_a_renewal_has_a_filter(void) {
    set_up_subscribed();
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0002 00 0003612f23 01");
    CHECK(subscribe(&r, "b", TW_AT_LEAST_ONCE) == 3, "subscribe");
    /* Both answers at once. */
    CHECK(give(&r, "9004 0002 00 01 9004 0003 00 01") == TW_EVENT_SUBSCRIBED, "the answer that is told");
    CHECK(r.event.packet_id == 3 && r.event.error == 0 && r.event.filter.len == 0, "it has no filter");
}

static void options_and_properties_are_stored(void) {
    uint8_t space[32];
    tw_writer writer = tw_writer_on(space, sizeof space);
    tw_subscription list[2];
    list[0] = tw_filter(tw_str("a"), TW_AT_LEAST_ONCE);
    list[0].no_local = true;
    list[1] = tw_filter(tw_str("b"), TW_EXACTLY_ONCE);
    list[1].retain_as_published = true;
    list[1].retain_handling = TW_RETAINED_NEVER;
    tw_put_number(&writer, TW_SUBSCRIPTION_IDENTIFIER, 300);
    tw_put_user_property(&writer, tw_str("k"), tw_str("v"));
    set_up_keeping(TW_V5, sizeof r.subscriptions);
    connect_with(&r, CONNACK_V5);
    CHECK(tw_client_subscribe(&r.client, list, 2, tw_written(&writer), NULL) == 0, "subscribe");
    SENDS(&r, "8215 0001 0a 0bac02 2600016b000176 000161 05 000162 2a");
    CHECK(give(&r, "9005 0001 00 0102") == TW_EVENT_SUBSCRIBED, "SUBACK");
    memset(space, 0, sizeof space);
    reconnect(CONNACK_V5);
    SENDS(&r, "8211 0002 0a 0bac02 2600016b000176 000161 05 8211 0003 0a 0bac02 2600016b000176 000162 2a");
}

static void full_memory_is_reported(void) {
    tw_properties none = {NULL, 0};
    tw_subscription b = tw_filter(tw_str("b"), TW_AT_MOST_ONCE);
    /* Two subscriptions of 9 bytes each. */
    set_up_keeping(TW_V5, 18);
    connect_with(&r, CONNACK_V5);
    CHECK(subscribe(&r, "a", TW_AT_LEAST_ONCE) == 1 && subscribe(&r, "b", TW_AT_LEAST_ONCE) == 2, "two");
    SENDS(&r, "8207 0001 00 000161 01 8207 0002 00 000162 01");
    CHECK(subscribe(&r, "c", TW_AT_LEAST_ONCE) == TW_SUBSCRIPTIONS_FULL, "no third");
    CHECK(r.client.counters.subscriptions_full == 1, "counted");
    SENDS(&r, "");
    CHECK(subscribe(&r, "a", TW_EXACTLY_ONCE) == 3, "in the place of the first");
    CHECK(tw_client_unsubscribe(&r.client, &b, 1, none, NULL) == 0, "unsubscribe");
    CHECK(subscribe(&r, "c", TW_AT_LEAST_ONCE) == 5, "there is room again");
}

/* The old subscription's memory is counted each time that the list names its filter. */
static void a_list_that_nearly_fits_does_not_overrun_the_memory(void) {
    uint8_t space[8];
    tw_writer writer = tw_writer_on(space, sizeof space);
    tw_properties none = {NULL, 0};
    tw_subscription list[3];
    list[0] = tw_filter(tw_str("a"), TW_AT_MOST_ONCE);
    list[1] = list[0];
    list[2] = tw_filter(tw_str("c"), TW_AT_MOST_ONCE);
    tw_put_number(&writer, TW_SUBSCRIPTION_IDENTIFIER, 300);
    set_up_keeping(TW_V5, 24);
    connect_with(&r, CONNACK_V5);
    CHECK(tw_client_subscribe(&r.client, list, 1, tw_written(&writer), NULL) == 0, "12 bytes");
    CHECK(subscribe(&r, "b", TW_AT_LEAST_ONCE) == 2, "9 bytes");
    CHECK(tw_client_subscribe(&r.client, list, 3, none, NULL) == 0, "3 x 9 bytes, in the place of 12 and 3");
    CHECK(r.client.subscriptions_len == 18 && r.client.counters.subscriptions_full == 1, "%d", (int)r.client.subscriptions_len);
    CHECK(r.subscriptions[24] == 0, "what lies behind is not written to");
}

static void without_memory_subscriptions_are_not_stored(void) {
    set_up_keeping(TW_V5, 0);
    connect_with(&r, CONNACK_V5);
    CHECK(subscribe(&r, "a", TW_AT_LEAST_ONCE) == 1, "subscribe");
    CHECK(give(&r, "9004 0001 00 01") == TW_EVENT_SUBSCRIBED, "SUBACK");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    reconnect(CONNACK_V5);
    SENDS(&r, "");
}

static void each_connection_of_3_1_1_is_a_new_session(void) {
    set_up_keeping(TW_V3_1_1, sizeof r.subscriptions);
    r.config.connect.clean_start = true;
    restart(&r);
    connect_with(&r, CONNACK_V3);
    CHECK(subscribe(&r, "a", TW_AT_LEAST_ONCE) == 1, "subscribe");
    SENDS(&r, "8206 0001 000161 01");
    CHECK(give(&r, "9003 0001 01") == TW_EVENT_SUBSCRIBED, "SUBACK");
    reconnect(CONNACK_V3);
    SENDS(&r, "8206 0002 000161 01");
}

static void subscriptions_that_do_not_fit_follow_later(void) {
    char filter[16];
    int i;
    set_up_keeping(TW_V5, sizeof r.subscriptions);
    r.config.transmit = tw_lend(r.transmit, 30);
    CHECK(tw_client_init(&r.client, &r.config) == 0, "init");
    connect_with(&r, CONNACK_V5);
    for (i = 0; i < 5; i++) {
        char suback[40];
        sprintf(filter, "ab%d", i);
        CHECK(subscribe(&r, filter, TW_AT_LEAST_ONCE) == i + 1, "%d", i);
        tw_client_sent(&r.client, tw_client_output(&r.client).len);
        sprintf(suback, "9004 %04x 00 01", i + 1);
        CHECK(give(&r, suback) == TW_EVENT_SUBSCRIBED, "%d", i);
    }
    tw_client_close(&r.client);
    CHECK(publish(&r, "x", TW_AT_LEAST_ONCE) == 6, "a message that waits");
    reconnect(CONNACK_V5);
    SENDS(&r, "8209 0007 00 0003616230 01 8209 0008 00 0003616231 01");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "8209 0009 00 0003616232 01 8209 000a 00 0003616233 01");
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, "8209 000b 00 0003616234 01 3207 000178 0006 00 78");
}

#define FILTERS 4

/* The client's and the server's subscriptions: the QoS, or -1. */
static int wanted[FILTERS], granted[FILTERS];

static tw_subscription filter_of(int i, int qos) {
    static const char NAMES[FILTERS][4] = {"a", "a/b", "+", "#"};
    return tw_filter(tw_str(NAMES[i]), (tw_qos)qos);
}

static int index_of(tw_bytes filter) {
    int i;
    for (i = 0; i < FILTERS; i++) {
        tw_bytes name = filter_of(i, 0).filter;
        if (name.len == filter.len && memcmp(name.data, filter.data, name.len) == 0) {
            return i;
        }
    }
    CHECK(false, "an unknown filter");
    return 0;
}

/* The server handles a packet, and answers if `answers`. */
static void serve(bool answers) {
    tw_bytes output = tw_client_output(&r.client);
    tw_packet packet;
    tw_subscription s;
    char hex[32];
    tw_result len = tw_decode(output.data, output.len, TW_V5, TW_MAX_PACKET_BYTES, &packet);
    bool is_subscribe = packet.type == TW_SUBSCRIBE;
    int reason = 0;
    if (len <= 0) {
        return;
    }
    while ((is_subscribe || packet.type == TW_UNSUBSCRIBE) &&
           tw_next_subscription(&packet.as.subscribe.wire, is_subscribe, &s)) {
        granted[index_of(s.filter)] = is_subscribe ? (int)s.qos : -1;
        reason = is_subscribe ? (int)s.qos : 0;
    }
    sprintf(hex, "%s04 %04x 00 %02x", is_subscribe ? "90" : "b0", packet.as.subscribe.packet_id, (unsigned)reason & 0xFF);
    tw_client_sent(&r.client, (size_t)len);
    (void)give(&r, answers ? hex : "");
}

/* The line is cut at any time, and the server may lose the session: in the end it has the client's subscriptions. */
static void whatever_happens_the_server_has_what_is_wanted_in_the_end(uint64_t seed) {
    tw_properties none = {NULL, 0};
    dice d;
    bool is_mute = false;
    int turn, i;
    d.state = seed * 0x9E3779B97F4A7C15u + 1;
    set_up_keeping(TW_V5, sizeof r.subscriptions);
    memset(wanted, -1, sizeof wanted);
    memset(granted, -1, sizeof granted);
    connect_with(&r, CONNACK_V5);
    for (turn = 0; turn < 200; turn++) {
        tw_subscription list = filter_of((int)roll(&d, FILTERS), (int)roll(&d, 3));
        switch (roll(&d, 6)) {
        case 0:
            if (tw_client_subscribe(&r.client, &list, 1, none, NULL) == 0) {
                wanted[index_of(list.filter)] = (int)list.qos;
            }
            break;
        case 1:
            if (tw_client_unsubscribe(&r.client, &list, 1, none, NULL) == 0) {
                wanted[index_of(list.filter)] = -1;
            }
            break;
        case 2:
            if (roll(&d, 3) == 0) {
                bool is_lost = roll(&d, 2) == 0;
                tw_client_close(&r.client);
                if (is_lost) {
                    memset(granted, -1, sizeof granted);
                }
                is_mute = false;
                connect_with(&r, is_lost ? CONNACK_V5 : CONNACK_V5_RESUMED);
            }
            break;
        case 3: (void)next(&r); break;
        default:
            /* From some packet on, answers are in transit when the line is cut. */
            is_mute = is_mute || roll(&d, 5) == 0;
            serve(!is_mute);
            break;
        }
    }
    /* Unanswered requests are sent again after a last reconnection. */
    reconnect(CONNACK_V5_RESUMED);
    for (i = 0; i < 200; i++) {
        serve(true);
        (void)next(&r);
    }
    CHECK(tw_client_is_idle(&r.client), "seed %d", (int)seed);
    for (i = 0; i < FILTERS; i++) {
        CHECK(wanted[i] == granted[i], "seed %d: filter %d is wanted at %d, and granted at %d", (int)seed, i, wanted[i],
              granted[i]);
    }
}

int main(void) {
    uint64_t seed;
    granted_subscriptions_are_renewed_before_messages();
    ended_subscriptions_are_not_renewed();
    a_subscribe_in_the_outbox_is_not_repeated();
    subscriptions_are_renewed_until_acknowledged();
    a_later_refusal_ends_the_subscription_with_its_filter();
    only_a_refusal_of_a_renewal_has_a_filter();
    options_and_properties_are_stored();
    full_memory_is_reported();
    a_list_that_nearly_fits_does_not_overrun_the_memory();
    without_memory_subscriptions_are_not_stored();
    each_connection_of_3_1_1_is_a_new_session();
    subscriptions_that_do_not_fit_follow_later();
    for (seed = 1; seed <= 3000; seed++) {
        whatever_happens_the_server_has_what_is_wanted_in_the_end(seed);
    }
    return finish("subscriptions");
}
