/* The link on a simulated transport with its own clock: no socket, no waiting. */
#include "rig.h"

typedef struct fake {
    uint32_t now_ms;
    bool can_open, is_open, is_deaf, is_full, is_slow;
    /* The codes in the server's answers. */
    unsigned connack, suback, puback;
    tw_result open_error, lost_error;
    int opens, waits, sends, closes, connects, subscribes;
    size_t send_limit;
    uint8_t down[1024], up[1024];
    size_t down_len, up_len;
} fake;

static fake f;
static tw_link link;
static uint8_t receive_memory[256], transmit_memory[128], outbox_memory[256], subscription_memory[64];
static int events[8];
static tw_event last_closed;
static tw_result inner;
static bool leaves;

static tw_result fake_open(void *context) {
    (void)context;
    f.opens++;
    f.is_open = f.can_open && !f.is_slow;
    f.up_len = 0;
    f.down_len = 0;
    return f.is_open ? 1 : f.is_slow ? 0 : f.open_error;
}

static tw_result fake_recv(void *context, uint8_t *to, size_t size) {
    size_t len = size < f.down_len ? size : f.down_len;
    (void)context;
    if (!f.is_open) {
        return f.lost_error;
    }
    memcpy(to, f.down, len);
    f.down_len -= len;
    memmove(f.down, f.down + len, f.down_len);
    return (tw_result)len;
}

static void down(const char *hex) {
    f.down_len += unhex(hex, f.down + f.down_len);
}

/* Answers the complete packets that have arrived, like a broker. */
static void answer_all(void) {
    tw_packet packet;
    tw_result used;
    char hex[64];
    while ((used = tw_decode(f.up, f.up_len, TW_V5, TW_MAX_PACKET_BYTES, &packet)) > 0) {
        if (f.is_deaf) {
        } else if (packet.type == TW_CONNECT) {
            f.connects++;
            sprintf(hex, "2003 00%02x00", f.connack);
            down(hex);
        } else if (packet.type == TW_PUBLISH && packet.as.publish.qos == TW_AT_LEAST_ONCE) {
            sprintf(hex, "4003 %04x %02x", packet.as.publish.packet_id, f.puback);
            down(hex);
        } else if (packet.type == TW_SUBSCRIBE) {
            f.subscribes++;
            sprintf(hex, "9004 %04x 00 %02x", packet.as.subscribe.packet_id, f.suback);
            down(hex);
        } else if (packet.type == TW_UNSUBSCRIBE) {
            sprintf(hex, "b004 %04x 00 11", packet.as.subscribe.packet_id);
            down(hex);
        } else if (packet.type == TW_PINGREQ) {
            down("d000");
        }
        f.up_len -= (size_t)used;
        memmove(f.up, f.up + used, f.up_len);
    }
}

static tw_result fake_send(void *context, const uint8_t *bytes, size_t len) {
    (void)context;
    if (!f.is_open) {
        return f.lost_error;
    }
    if (f.is_full) {
        return 0;
    }
    len = f.send_limit > 0 && len > f.send_limit ? f.send_limit : len;
    f.sends++;
    memcpy(f.up + f.up_len, bytes, len);
    f.up_len += len;
    answer_all();
    return (tw_result)len;
}

static uint32_t fake_now_ms(void *context) {
    (void)context;
    return f.now_ms;
}

static void fake_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    bool is_ready = f.is_open && ((to_receive && f.down_len > 0) || (to_send && !f.is_full));
    (void)context;
    f.waits++;
    f.now_ms += is_ready ? 0 : timeout_ms;
}

static void fake_close(void *context) {
    (void)context;
    f.is_open = false;
    f.closes++;
}

static void on_event(void *user, tw_link *l, const tw_event *event) {
    (void)user;
    events[event->type]++;
    if (event->type == TW_EVENT_CLOSED) {
        last_closed = *event;
    }
    inner = tw_link_step(l, 0);
    if (leaves && event->type == TW_EVENT_MESSAGE) {
        inner = tw_client_disconnect(&l->client, TW_SUCCESS);
    }
}

static void set_up_link_as(const char *client_id) {
    tw_client_config config = tw_client_defaults();
    tw_transport transport;
    memset(&f, 0, sizeof f);
    memset(events, 0, sizeof events);
    memset(&last_closed, 0, sizeof last_closed);
    leaves = false;
    f.can_open = true;
    f.suback = 1;
    f.open_error = -1;
    f.lost_error = -1;
    f.now_ms = 5000;
    transport.recv = fake_recv;
    transport.send = fake_send;
    transport.now_ms = fake_now_ms;
    transport.open = fake_open;
    transport.wait = fake_wait;
    transport.close = fake_close;
    transport.context = NULL;
    config.connect.client_id = tw_str(client_id);
    config.receive = tw_lend(receive_memory, sizeof receive_memory);
    config.transmit = tw_lend(transmit_memory, sizeof transmit_memory);
    config.outbox = tw_lend(outbox_memory, sizeof outbox_memory);
    config.subscriptions = tw_lend(subscription_memory, sizeof subscription_memory);
    CHECK(tw_link_init(&link, &config, transport, on_event, NULL) == 0, "init");
}

static void set_up_link(void) {
    set_up_link_as("link");
}

static tw_publish a_message(tw_qos qos) {
    return tw_message(tw_str("a"), tw_str("x"), qos);
}

static void blocking_helpers_wait_for_their_acknowledgements(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    tw_qos granted = TW_AT_MOST_ONCE;
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0 && events[TW_EVENT_CONNECTED] == 1, "connect");
    CHECK(tw_link_subscribe(&link, "a/#", TW_EXACTLY_ONCE, 1000, &granted) == 0, "subscribe");
    CHECK(granted == TW_AT_LEAST_ONCE, "less than was asked for");
    CHECK(tw_link_publish(&link, &message, 1000) == 0, "publish");
    f.puback = TW_NO_MATCHING_SUBSCRIBERS;
    CHECK(tw_link_publish(&link, &message, 1000) == 0, "publish");
    CHECK(tw_link_reason(&link) == TW_NO_MATCHING_SUBSCRIBERS, "0x%02x", (unsigned)tw_link_reason(&link));
    CHECK(tw_link_unsubscribe(&link, "a/#", 1000) == 0, "unsubscribe");
    CHECK(tw_link_reason(&link) == TW_NO_SUBSCRIPTION_EXISTED, "0x%02x", (unsigned)tw_link_reason(&link));
    message.qos = TW_AT_MOST_ONCE;
    CHECK(tw_link_publish(&link, &message, 1000) == 0, "QoS 0");
    CHECK(tw_link_flush(&link, 1000) == 0, "flush");
    tw_link_disconnect(&link);
    CHECK(!f.is_open && tw_link_publish(&link, &message, 10) == TW_NOT_CONNECTED, "closed");
}

static void a_transport_that_writes_little_is_sufficient(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    int i;
    set_up_link();
    f.send_limit = 1;
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    for (i = 0; i < 100; i++) {
        CHECK(tw_link_publish(&link, &message, 1000) == 0, "%d", i);
    }
}

static void waiting_has_a_timeout(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.is_deaf = true;
    CHECK(tw_link_publish(&link, &message, 1000) == TW_UNACKNOWLEDGED, "no PUBACK");
    CHECK(f.now_ms == 6000, "%u", f.now_ms);
    CHECK(tw_link_flush(&link, 1000) == TW_UNACKNOWLEDGED, "flush");
    CHECK(tw_link_subscribe(&link, "a", TW_AT_LEAST_ONCE, 1000, NULL) == TW_UNACKNOWLEDGED, "no SUBACK");
    f.is_full = true;
    message.qos = TW_AT_MOST_ONCE;
    CHECK(tw_link_publish(&link, &message, 1000) == TW_UNACKNOWLEDGED, "not taken by the transport");
    while (tw_client_publish(&link.client, &message, NULL) == 0) {
    }
    CHECK(tw_link_publish(&link, &message, 1000) == TW_OUTPUT_FULL, "no room for another");
    message.qos = TW_AT_LEAST_ONCE;
    while (tw_client_publish(&link.client, &message, NULL) == 0) {
    }
    CHECK(tw_link_publish(&link, &message, 1000) == TW_OUTBOX_FULL, "no room for another");
}

/* The cause of a failed attempt is known after the first one. */
static void connecting_reports_the_first_failure(void) {
    static const tw_result ERRORS[] = {TW_NAME_NOT_FOUND, TW_UNREACHABLE, TW_TLS_EXPIRED};
    size_t i;
    for (i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; i++) {
        set_up_link();
        f.can_open = false;
        f.open_error = ERRORS[i];
        CHECK(tw_link_connect(&link, 5000) == ERRORS[i] && f.opens == 1, "%d attempts", f.opens);
        CHECK(last_closed.error == ERRORS[i] && !last_closed.is_final, "the event says it, too");
        /* The next attempt is at once, and may be the first of those that continue. */
        f.can_open = true;
        CHECK(tw_link_connect(&link, 5000) == 0 && f.now_ms == 5000, "%u", f.now_ms);
    }
    set_up_link();
    f.can_open = false;
    CHECK(tw_link_connect(&link, 5000) == TW_UNREACHABLE, "a transport that does not say why");
    set_up_link();
    f.is_slow = true;
    CHECK(tw_link_connect(&link, 5000) == TW_CONNECT_TIMEOUT && f.now_ms == 10000, "the caller's time: %u", f.now_ms);
    CHECK(f.closes == 1, "%d", f.closes);
    set_up_link();
    f.is_slow = true;
    CHECK(tw_link_connect(&link, 50000) == TW_CONNECT_TIMEOUT && f.now_ms == 25000, "20 s: %u", f.now_ms);
    set_up_link();
    f.is_deaf = true;
    CHECK(tw_link_connect(&link, 50000) == TW_CONNECT_TIMEOUT && f.now_ms == 25000, "no CONNACK: %u", f.now_ms);
}

/* The time limit of an attempt starts at its beginning, not when the transport is open. */
static void an_attempt_has_one_timeout(void) {
    set_up_link();
    f.is_slow = true;
    f.is_deaf = true;
    tw_link_step(&link, 15000);
    f.is_slow = false;
    while (events[TW_EVENT_CLOSED] == 0) {
        tw_link_step(&link, 1000);
    }
    CHECK(last_closed.error == TW_CONNECT_TIMEOUT && f.now_ms == 25000, "%u", f.now_ms);
}

static void errors_of_the_transport_are_reported(void) {
    set_up_link();
    f.is_deaf = true;
    tw_link_step(&link, 0);
    f.is_open = false;
    tw_link_step(&link, 0);
    CHECK(last_closed.error == TW_HANDSHAKE_FAILED, "before CONNACK: %s", tw_error_name(last_closed.error));
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.is_open = false;
    tw_link_step(&link, 0);
    CHECK(last_closed.error == TW_CONNECTION_LOST, "%s", tw_error_name(last_closed.error));
    set_up_link();
    f.lost_error = TW_TLS_CLIENT_CERTIFICATE_REFUSED;
    f.is_deaf = true;
    tw_link_step(&link, 0);
    f.is_open = false;
    tw_link_step(&link, 0);
    CHECK(last_closed.error == TW_TLS_CLIENT_CERTIFICATE_REFUSED, "%s", tw_error_name(last_closed.error));
}

static void an_idle_link_waits(void) {
    int i, waits;
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.is_full = true;
    /* Messages that cannot be acknowledged fill the receive buffer. */
    for (i = 0; i < 100; i++) {
        if (f.down_len < 900) {
            down("3207 000161 0005 00 78");
        }
        tw_link_step(&link, 1);
    }
    waits = f.waits;
    for (i = 0; i < 100; i++) {
        tw_link_step(&link, 1);
    }
    CHECK(f.down_len > 0 && f.waits == waits + 100, "%d waits in 100 turns", f.waits - waits);
    f.is_full = false;
    while (f.down_len > 0) {
        tw_link_step(&link, 1);
    }
}

static void acknowledgements_are_sent_with_the_next_packet(void) {
    tw_publish message = a_message(TW_AT_MOST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.sends = 0;
    down("3207 000161 0005 00 78");
    tw_link_step(&link, 1);
    CHECK(events[TW_EVENT_MESSAGE] == 1 && f.sends == 0, "%d sends", f.sends);
    CHECK(tw_client_publish(&link.client, &message, NULL) == 0, "publish");
    tw_link_step(&link, 1);
    CHECK(f.sends == 1, "one for both: %d", f.sends);
    down("3207 000161 0006 00 78");
    tw_link_step(&link, 1);
    CHECK(tw_link_flush(&link, 1000) == 0 && f.sends == 2, "a flush: %d sends", f.sends);
    CHECK(f.now_ms == 5001, "which waits for nothing: %u", f.now_ms);
    down("3207 000161 0007 00 78");
    tw_link_step(&link, 0);
    CHECK(events[TW_EVENT_MESSAGE] == 3 && f.sends == 3, "one who does not wait: %d", f.sends);
    down("3207 000161 0008 00 78");
    tw_link_step(&link, 1);
    tw_link_disconnect(&link);
    CHECK(f.sends == 4, "not lost at the end: %d", f.sends);
}

static void refusals_are_reported(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    tw_qos granted = TW_EXACTLY_ONCE;
    set_up_link();
    f.connack = TW_NOT_AUTHORIZED;
    CHECK(tw_link_connect(&link, 1000) == TW_CONNECTION_REFUSED, "refused");
    CHECK(tw_link_reason(&link) == TW_NOT_AUTHORIZED, "0x%02x", (unsigned)tw_link_reason(&link));
    CHECK(events[TW_EVENT_CLOSED] == 1 && !f.is_open, "closed");
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.suback = TW_NOT_AUTHORIZED;
    CHECK(tw_link_subscribe(&link, "a", TW_EXACTLY_ONCE, 1000, &granted) == TW_SUBSCRIBE_REFUSED, "subscribe");
    CHECK(tw_link_reason(&link) == TW_NOT_AUTHORIZED && granted == TW_AT_MOST_ONCE, "0x%02x", (unsigned)tw_link_reason(&link));
    f.puback = TW_QUOTA_EXCEEDED;
    CHECK(tw_link_publish(&link, &message, 1000) == TW_PUBLISH_REFUSED, "publish");
    CHECK(tw_link_reason(&link) == TW_QUOTA_EXCEEDED, "0x%02x", (unsigned)tw_link_reason(&link));
}

static void a_link_gives_up_after_permanent_errors(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    int i;
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    down("e001 8e");
    for (i = 0; i < 100; i++) {
        (void)tw_link_step(&link, 1000);
    }
    CHECK(f.connects == 1 && last_closed.is_final, "%d connections", f.connects);
    CHECK(tw_link_step(&link, 0) == TW_TAKEN_OVER, "%s", tw_error_name(tw_link_step(&link, 0)));
    CHECK(tw_link_publish(&link, &message, 1000) == TW_TAKEN_OVER, "nobody will send it");
    CHECK(tw_link_connect(&link, 1000) == 0 && f.connects == 2, "unless it is told to");
    set_up_link();
    f.connack = TW_SERVER_BUSY;
    for (i = 0; i < 100; i++) {
        CHECK(tw_link_step(&link, 1000) == 0, "it goes on");
    }
    CHECK(f.connects > 2, "%d attempts", f.connects);
}

static void subscriptions_are_restored_with_the_connection(void) {
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    CHECK(tw_link_subscribe(&link, "a/#", TW_AT_LEAST_ONCE, 1000, NULL) == 0, "subscribe");
    f.is_open = false;
    while (events[TW_EVENT_CONNECTED] < 2) {
        tw_link_step(&link, 1000);
    }
    tw_link_step(&link, 1);
    CHECK(f.subscribes == 2, "the server had no session: %d", f.subscribes);
}

static uint8_t requester_memory[128];
static tw_request request_places[2];
static int others;

static void on_response(void *user, tw_requester *requester, const tw_response *response) {
    (void)user;
    (void)requester;
    (void)response;
    others++;
}

static void pending_requests_are_awaited(void) {
    static const uint8_t RANDOM[TW_REQUESTER_RANDOM_BYTES] = {0};
    tw_requester requester;
    tw_requester_config config;
    tw_publish request = a_message(TW_AT_LEAST_ONCE);
    tw_response response;
    uint8_t answer[16];
    set_up_link();
    memset(&config, 0, sizeof config);
    config.client = &link.client;
    config.places = request_places;
    config.count = 2;
    config.memory = tw_lend(requester_memory, sizeof requester_memory);
    config.random = RANDOM;
    config.on_response = on_response;
    CHECK(tw_link_request(&link, &request, 1000, tw_lend(answer, sizeof answer), &response) == TW_ARGUMENT, "no requester");
    CHECK(tw_requester_init(&requester, &config) == 0, "init");
    link.requester = &requester;
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    CHECK(tw_link_request(&link, &request, 1000, tw_lend(answer, sizeof answer), &response) == TW_REQUEST_TIMEOUT, "timeout");
    CHECK(f.now_ms == 6000 && others == 0, "%u", f.now_ms);
    /* To the topic, with the correlation data of the second request. */
    down("302f 0022 74617574776972652f726573706f6e73652f30303030303030303030303030303030 07 09 0004 00000002 796573");
    CHECK(tw_link_request(&link, &request, 1000, tw_lend(answer, sizeof answer), &response) == 0, "answered");
    CHECK(response.payload.len == 3 && memcmp(response.payload.data, "yes", 3) == 0 && others == 0, "the answer");
    CHECK(events[TW_EVENT_MESSAGE] == 0 && events[TW_EVENT_CONNECTED] == 1, "the requester's messages are its own");
    down("302f 0022 74617574776972652f726573706f6e73652f30303030303030303030303030303030 07 09 0004 00000003 796573");
    CHECK(tw_link_request(&link, &request, 1000, tw_lend(answer, 2), &response) == TW_BUFFER_TOO_SMALL, "no room for it");
    f.puback = TW_NO_MATCHING_SUBSCRIBERS;
    CHECK(tw_link_request(&link, &request, 1000, tw_lend(answer, 2), &response) == TW_NO_RESPONDER, "nobody listens");
}

static void lost_connections_are_reestablished(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.is_open = false;
    CHECK(tw_link_publish(&link, &message, 5000) == 0, "published over the second connection");
    CHECK(f.opens == 2 && events[TW_EVENT_CLOSED] == 1 && events[TW_EVENT_CONNECTED] == 2, "%d opens", f.opens);
    CHECK(f.now_ms >= 5000 + 250 && f.now_ms <= 5000 + 500, "a pause of 0.25 s to 0.5 s: %u", f.now_ms);
}

static void retry_delays_double(void) {
    uint32_t last_ms, pauses[10];
    int i;
    set_up_link();
    f.can_open = false;
    tw_link_step(&link, 0);
    for (i = 0; i < 10; i++) {
        int opens = f.opens;
        last_ms = f.now_ms;
        while (f.opens == opens) {
            tw_link_step(&link, 100000);
        }
        pauses[i] = f.now_ms - last_ms;
    }
    for (i = 0; i < 10; i++) {
        uint32_t full = i < 6 ? 500u << i : 30000u;
        CHECK(pauses[i] <= full && pauses[i] >= full / 2, "pause %d: %u", i, pauses[i]);
    }
}

static uint32_t first_pause_ms(const char *client_id) {
    set_up_link_as(client_id);
    f.can_open = false;
    while (f.opens < 2) {
        tw_link_step(&link, 100000);
    }
    return f.now_ms - 5000;
}

/* Devices that lose their server at the same moment do not reconnect at the same moment. */
static void retry_delays_differ_between_clients(void) {
    uint32_t least = UINT32_MAX, most = 0;
    char client_id[32];
    int i;
    for (i = 0; i < 50; i++) {
        uint32_t pause;
        sprintf(client_id, "board-%d", i);
        pause = first_pause_ms(client_id);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    CHECK(least < 300 && most > 450, "%u to %u ms", least, most);
}

static void a_silent_server_is_detected(void) {
    int i;
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    for (i = 0; i < 20; i++) {
        tw_link_step(&link, 10000);
    }
    CHECK(events[TW_EVENT_CLOSED] == 0, "pings are answered");
    f.is_deaf = true;
    for (i = 0; i < 20 && events[TW_EVENT_CLOSED] == 0; i++) {
        tw_link_step(&link, 10000);
    }
    CHECK(events[TW_EVENT_CLOSED] == 1, "no answer is a lost connection");
}

static void the_event_handler_cannot_run_the_link(void) {
    set_up_link();
    inner = 0;
    CHECK(tw_link_connect(&link, 1000) == 0 && inner == TW_ARGUMENT, "%s", tw_error_name(inner));
}

/* For example on a message with a command to disconnect. */
static void the_event_handler_can_disconnect(void) {
    uint32_t timeout_ms;
    for (timeout_ms = 0; timeout_ms <= 1000; timeout_ms += 1000) {
        set_up_link();
        CHECK(tw_link_connect(&link, 1000) == 0, "connect");
        leaves = true;
        down("3207 000161 0005 00 78");
        CHECK(tw_link_step(&link, timeout_ms) == 0 && inner == 0, "%s", tw_error_name(inner));
        CHECK(!f.is_open && f.closes == 1 && events[TW_EVENT_CLOSED] == 0, "the connection has ended: %d times", f.closes);
        /* PUBACK, and the DISCONNECT that ends the session. */
        CHECK(f.up_len == 0 && f.sends == 2, "%d sends", f.sends);
        CHECK(tw_link_step(&link, 1000) == 0 && tw_link_step(&link, 1000) == 0 && f.connects == 2, "the next step connects again");
    }
}

static void a_reason_belongs_to_the_last_acknowledgement(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE), wrong = tw_message(tw_str("#"), tw_str(""), TW_AT_LEAST_ONCE);
    int i;
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.suback = TW_NOT_AUTHORIZED;
    for (i = 0; i < 7; i++) {
        message.qos = TW_AT_LEAST_ONCE;
        CHECK(tw_link_subscribe(&link, "a", TW_AT_MOST_ONCE, 1000, NULL) == TW_SUBSCRIBE_REFUSED, "subscribe");
        CHECK(tw_link_reason(&link) == TW_NOT_AUTHORIZED, "0x%02x", (unsigned)tw_link_reason(&link));
        switch (i) {
        case 0: CHECK(tw_link_subscribe(&link, "a/#/b", TW_AT_MOST_ONCE, 1000, NULL) < 0, "filter"); break;
        case 1: CHECK(tw_link_unsubscribe(&link, "", 1000) < 0, "no filter"); break;
        case 2: CHECK(tw_link_publish(&link, &wrong, 1000) < 0, "topic"); break;
        case 3: message.qos = TW_AT_MOST_ONCE; /* fall through */
        case 4: CHECK(tw_link_publish(&link, &message, 1000) == 0, "publish"); break;
        case 5: CHECK(tw_link_flush(&link, 1000) == 0, "flush"); break;
        default:
            f.is_deaf = true;
            CHECK(tw_link_publish(&link, &message, 100) == TW_UNACKNOWLEDGED, "nobody answers");
        }
        CHECK(tw_link_reason(&link) == TW_SUCCESS, "%d: 0x%02x", i, (unsigned)tw_link_reason(&link));
    }
    f.is_deaf = false;
    f.suback = TW_NOT_AUTHORIZED;
    CHECK(tw_link_subscribe(&link, "a", TW_AT_MOST_ONCE, 1000, NULL) == TW_SUBSCRIBE_REFUSED, "subscribe");
    tw_link_disconnect(&link);
    CHECK(tw_link_connect(&link, 1000) == 0 && tw_link_reason(&link) == TW_SUCCESS, "0x%02x", (unsigned)tw_link_reason(&link));
}

int main(void) {
    blocking_helpers_wait_for_their_acknowledgements();
    a_transport_that_writes_little_is_sufficient();
    waiting_has_a_timeout();
    connecting_reports_the_first_failure();
    an_attempt_has_one_timeout();
    errors_of_the_transport_are_reported();
    an_idle_link_waits();
    acknowledgements_are_sent_with_the_next_packet();
    refusals_are_reported();
    a_link_gives_up_after_permanent_errors();
    subscriptions_are_restored_with_the_connection();
    pending_requests_are_awaited();
    lost_connections_are_reestablished();
    retry_delays_double();
    retry_delays_differ_between_clients();
    a_silent_server_is_detected();
    the_event_handler_cannot_run_the_link();
    the_event_handler_can_disconnect();
    a_reason_belongs_to_the_last_acknowledgement();
    return finish("link");
}
