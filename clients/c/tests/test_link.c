/* The link on a transport of its own, with its own clock: no socket, no waiting. */
#include "rig.h"

typedef struct fake {
    uint32_t now_ms;
    bool can_open, is_open, is_deaf, refuses, is_full;
    int opens, waits, sends;
    size_t send_limit;
    uint8_t down[1024], up[1024];
    size_t down_len, up_len;
} fake;

static fake f;
static tw_link link;
static uint8_t receive_memory[256], transmit_memory[128], outbox_memory[256];
static int events[8];
static tw_result inner;

static tw_result fake_open(void *context) {
    (void)context;
    f.opens++;
    f.is_open = f.can_open;
    f.up_len = 0;
    f.down_len = 0;
    return f.can_open ? 1 : -1;
}

static tw_result fake_recv(void *context, uint8_t *to, size_t size) {
    size_t len = size < f.down_len ? size : f.down_len;
    (void)context;
    if (!f.is_open) {
        return -1;
    }
    memcpy(to, f.down, len);
    f.down_len -= len;
    memmove(f.down, f.down + len, f.down_len);
    return (tw_result)len;
}

static void down(const char *hex) {
    f.down_len += unhex(hex, f.down + f.down_len);
}

/* What a broker would say to the packets that have arrived whole. */
static void answer_all(void) {
    tw_packet packet;
    tw_result used;
    char hex[64];
    while ((used = tw_decode(f.up, f.up_len, TW_V5, TW_MAX_PACKET_BYTES, &packet)) > 0) {
        if (f.is_deaf) {
        } else if (packet.type == TW_CONNECT) {
            down(f.refuses ? "2003 008700" : "2003 000000");
        } else if (packet.type == TW_PUBLISH && packet.as.publish.qos == TW_AT_LEAST_ONCE) {
            sprintf(hex, "4002 %04x", packet.as.publish.packet_id);
            down(hex);
        } else if (packet.type == TW_SUBSCRIBE) {
            sprintf(hex, "9004 %04x 00 01", packet.as.subscribe.packet_id);
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
        return -1;
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
}

static void on_event(void *user, tw_link *l, const tw_event *event) {
    (void)user;
    events[event->type]++;
    inner = tw_link_step(l, 0);
}

static void set_up_link(void) {
    tw_client_config config = tw_client_defaults();
    tw_transport transport;
    memset(&f, 0, sizeof f);
    memset(events, 0, sizeof events);
    f.can_open = true;
    f.now_ms = 5000;
    transport.recv = fake_recv;
    transport.send = fake_send;
    transport.now_ms = fake_now_ms;
    transport.open = fake_open;
    transport.wait = fake_wait;
    transport.close = fake_close;
    transport.context = NULL;
    config.connect.client_id = tw_str("link");
    config.receive = tw_lend(receive_memory, sizeof receive_memory);
    config.transmit = tw_lend(transmit_memory, sizeof transmit_memory);
    config.outbox = tw_lend(outbox_memory, sizeof outbox_memory);
    CHECK(tw_link_init(&link, &config, transport, on_event, NULL) == 0, "init");
}

static tw_publish a_message(tw_qos qos) {
    return tw_message(tw_str("a"), tw_str("x"), qos);
}

static void helpers_wait_for_their_answers(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0 && events[TW_EVENT_CONNECTED] == 1, "connect");
    CHECK(tw_link_subscribe(&link, "a/#", TW_AT_LEAST_ONCE, 1000) == 1, "subscribe");
    CHECK(tw_link_publish(&link, &message, 1000) == TW_SUCCESS, "publish");
    CHECK(tw_link_unsubscribe(&link, "a/#", 1000) == TW_NO_SUBSCRIPTION_EXISTED, "unsubscribe");
    message.qos = TW_AT_MOST_ONCE;
    CHECK(tw_link_publish(&link, &message, 1000) == 0, "QoS 0");
    CHECK(tw_link_flush(&link, 1000) == 0, "flush");
    tw_link_disconnect(&link);
    CHECK(!f.is_open && tw_link_publish(&link, &message, 10) == TW_NOT_CONNECTED, "closed");
}

static void a_transport_that_takes_little_is_enough(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    int i;
    set_up_link();
    f.send_limit = 1;
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    for (i = 0; i < 100; i++) {
        CHECK(tw_link_publish(&link, &message, 1000) == TW_SUCCESS, "%d", i);
    }
}

static void waiting_ends(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.is_deaf = true;
    CHECK(tw_link_publish(&link, &message, 1000) == TW_TIMED_OUT, "no PUBACK");
    CHECK(f.now_ms == 6000, "%u", f.now_ms);
    CHECK(tw_link_flush(&link, 1000) == TW_TIMED_OUT, "flush");
    f.is_full = true;
    message.qos = TW_AT_MOST_ONCE;
    CHECK(tw_link_publish(&link, &message, 1000) == TW_TIMED_OUT, "not taken by the transport");
    set_up_link();
    f.can_open = false;
    CHECK(tw_link_connect(&link, 5000) == TW_TIMED_OUT && f.opens >= 2, "nobody there, %d", f.opens);
}

static void a_link_that_can_do_nothing_waits(void) {
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

static void acknowledgements_leave_with_what_comes_next(void) {
    tw_publish message = a_message(TW_AT_MOST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.sends = 0;
    down("3207 000161 0005 00 78");
    tw_link_step(&link, 1);
    CHECK(events[TW_EVENT_MESSAGE] == 1 && f.sends == 0, "%d sends", f.sends);
    CHECK(tw_client_publish(&link.client, &message) == 0, "publish");
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

static void refusals_are_told(void) {
    set_up_link();
    f.refuses = true;
    CHECK(tw_link_connect(&link, 1000) == TW_REFUSED, "refused");
    CHECK(tw_link_reason(&link) == TW_NOT_AUTHORIZED, "0x%02x", (unsigned)tw_link_reason(&link));
    CHECK(events[TW_EVENT_CLOSED] == 1 && !f.is_open, "closed");
}

static void lost_connections_come_back(void) {
    tw_publish message = a_message(TW_AT_LEAST_ONCE);
    set_up_link();
    CHECK(tw_link_connect(&link, 1000) == 0, "connect");
    f.is_open = false;
    CHECK(tw_link_publish(&link, &message, 5000) == TW_SUCCESS, "published over the second connection");
    CHECK(f.opens == 2 && events[TW_EVENT_CLOSED] == 1 && events[TW_EVENT_CONNECTED] == 2, "%d opens", f.opens);
    CHECK(f.now_ms > 5000 + 700 && f.now_ms <= 5000 + 1000, "a pause of about 1 s: %u", f.now_ms);
}

static void pauses_double(void) {
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
        uint32_t full = i < 6 ? 1000u << i : 60000u;
        CHECK(pauses[i] <= full && pauses[i] >= full - full / 4 - 1, "pause %d: %u", i, pauses[i]);
    }
}

static void silence_is_noticed(void) {
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

static void the_event_handler_may_not_turn_the_link(void) {
    set_up_link();
    inner = 0;
    CHECK(tw_link_connect(&link, 1000) == 0 && inner == TW_ARGUMENT, "%s", tw_error_name(inner));
}

int main(void) {
    helpers_wait_for_their_answers();
    a_transport_that_takes_little_is_enough();
    waiting_ends();
    a_link_that_can_do_nothing_waits();
    acknowledgements_leave_with_what_comes_next();
    refusals_are_told();
    lost_connections_come_back();
    pauses_double();
    silence_is_noticed();
    the_event_handler_may_not_turn_the_link();
    return finish("link");
}
