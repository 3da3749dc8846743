/*
 * The client with a simulated broker, over a line that is cut at any byte, for many seeds: QoS 1 arrives at least once, QoS 2
 * exactly once, both in order, in both directions; the windows of both sides are respected; each message is reported once.
 *
 * In half of the seeds the client has a store in flash, and its power fails at any byte that is written or erased, and at any
 * other time. Messages that were reported as safe arrive nevertheless, QoS 2 once.
 */
#include "flash_rig.h"
#include "tautwire.h"

#define MESSAGES 80
#define WIRE_BYTES 65536

/* Bytes in transit. */
typedef struct wire {
    uint8_t bytes[WIRE_BYTES];
    size_t len;
} wire;

typedef struct note {
    uint8_t type;
    uint16_t packet_id;
} note;

/* The broker's state of a message to the client. Its identifier is its number plus 1. */
typedef enum sending { UNSENT, SENT_ONCE, RELEASED_ONCE, OVER } sending;

typedef struct world {
    dice d;
    tw_version version;
    tw_client client;
    uint8_t receive[512], transmit[256], outbox[1024];
    uint16_t incoming[8];
    wire up, down;
    uint32_t now_ms;
    bool is_open;
    /* The client's messages. */
    uint8_t qos[MESSAGES];
    int published, reported, arrived[MESSAGES], last_arrived;
    /* The broker. */
    bool has_session, is_greeted, open_ids[65536];
    /* QoS 2 messages without PUBCOMP: they count on the next connection, too [MQTT-3.3.4-7]. */
    bool uncompleted[65536];
    int receive_maximum, outstanding;
    note notes[4096];
    int note_count;
    uint8_t their_qos[MESSAGES], their_state[MESSAGES];
    bool is_resend_due;
    int their_arrived[MESSAGES], their_last;
    int cuts;
    /* The store, and the state at the last power failure. */
    flash_rig flash;
    flash_log log;
    tw_store store;
    tw_client_config config;
    bool has_store, is_safe[MESSAGES];
    /* The message that the application is handling, or -1, and how often power failed during each. */
    int in_hands, spilled[MESSAGES];
    int reboots;
} world;

static world w;

static void put(wire *to, const uint8_t *bytes, size_t len) {
    if (to->len + len > WIRE_BYTES) {
        abort();
    }
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
}

static void take(wire *from, size_t len) {
    from->len -= len;
    memmove(from->bytes, from->bytes + len, from->len);
}

static void broker_sends(tw_packet *packet) {
    uint8_t bytes[256];
    tw_result len = tw_encode(packet, w.version, bytes, sizeof bytes);
    CHECK(len > 0, "%s", tw_error_name(len));
    put(&w.down, bytes, (size_t)len);
}

static void broker_acks(tw_packet_type type, uint16_t packet_id) {
    tw_packet packet;
    memset(&packet, 0, sizeof packet);
    packet.type = type;
    packet.as.ack.packet_id = packet_id;
    broker_sends(&packet);
    if (type == TW_PUBACK || type == TW_PUBCOMP) {
        w.outstanding--;
        w.uncompleted[packet_id] = false;
    }
}

static void later(tw_packet_type type, uint16_t packet_id) {
    w.notes[w.note_count].type = (uint8_t)type;
    w.notes[w.note_count++].packet_id = packet_id;
}

static int number_in(tw_bytes payload) {
    return payload.len >= 4 ? (payload.data[0] - '0') * 1000 + (payload.data[1] - '0') * 100 +
                                  (payload.data[2] - '0') * 10 + (payload.data[3] - '0')
                            : -1;
}

static void broker_gets_message(const tw_publish *publish) {
    int number = number_in(publish->payload);
    bool is_new = publish->qos != TW_EXACTLY_ONCE || !w.open_ids[publish->packet_id];
    CHECK(number >= 0 && number < w.published && (int)publish->qos == w.qos[number], "message %d", number);
    if (publish->qos != TW_AT_MOST_ONCE) {
        w.outstanding += !w.uncompleted[publish->packet_id];
        w.uncompleted[publish->packet_id] = publish->qos == TW_EXACTLY_ONCE;
        CHECK(w.outstanding <= w.receive_maximum, "%d of %d", w.outstanding, w.receive_maximum);
    }
    if (!is_new) {
        /* [MQTT-3.3.1-1] */
        CHECK(publish->dup, "message %d comes again without DUP", number);
    } else {
        CHECK(publish->qos == TW_AT_MOST_ONCE || w.arrived[number] > 0 || number > w.last_arrived, "order of %d", number);
        if (publish->qos != TW_AT_MOST_ONCE && number > w.last_arrived) {
            w.last_arrived = number;
        }
        w.arrived[number]++;
    }
    if (publish->qos == TW_EXACTLY_ONCE) {
        w.open_ids[publish->packet_id] = true;
    }
    if (publish->qos != TW_AT_MOST_ONCE) {
        later(publish->qos == TW_AT_LEAST_ONCE ? TW_PUBACK : TW_PUBREC, publish->packet_id);
    }
}

static void broker_gets_connect(const tw_connect *connect) {
    tw_packet packet;
    uint8_t space[8];
    tw_writer writer = tw_writer_on(space, sizeof space);
    CHECK(!w.is_greeted, "a second CONNECT");
    CHECK(w.has_session ? !connect->clean_start : true, "the session is given up");
    memset(&packet, 0, sizeof packet);
    packet.type = TW_CONNACK;
    packet.as.connack.session_present = w.has_session;
    if (w.version == TW_V5) {
        tw_put_number(&writer, TW_RECEIVE_MAXIMUM, (uint32_t)w.receive_maximum);
        packet.as.connack.properties = tw_written(&writer);
    }
    broker_sends(&packet);
    w.is_greeted = true;
    w.has_session = true;
    w.is_resend_due = true;
}

static void broker_gets(const tw_packet *packet) {
    const tw_ack *ack = &packet->as.ack;
    uint8_t *state = &w.their_state[(ack->packet_id - 1) % MESSAGES];
    CHECK(w.is_greeted || packet->type == TW_CONNECT, "CONNECT is the first packet");
    switch (packet->type) {
    case TW_CONNECT: broker_gets_connect(&packet->as.connect); break;
    case TW_PUBLISH: broker_gets_message(&packet->as.publish); break;
    case TW_PUBREL:
        w.open_ids[ack->packet_id] = false;
        later(TW_PUBCOMP, ack->packet_id);
        break;
    case TW_PUBACK: *state = OVER; break;
    case TW_PUBREC:
        if (*state == SENT_ONCE || *state == RELEASED_ONCE) {
            *state = RELEASED_ONCE;
            broker_acks(TW_PUBREL, ack->packet_id);
        }
        break;
    case TW_PUBCOMP: *state = OVER; break;
    default: CHECK(false, "packet type %d", (int)packet->type); break;
    }
}

static void broker_publishes(int number, bool dup) {
    char payload[64];
    tw_packet packet;
    memset(&packet, 0, sizeof packet);
    memset(payload, '.', sizeof payload);
    sprintf(payload, "%04d", number);
    packet.type = TW_PUBLISH;
    packet.as.publish = tw_message(tw_str("down"), tw_view(payload, 4 + roll(&w.d, 60)), (tw_qos)w.their_qos[number]);
    packet.as.publish.packet_id = (uint16_t)(number + 1);
    packet.as.publish.dup = dup && w.their_qos[number] > 0;
    broker_sends(&packet);
    w.their_state[number] = w.their_qos[number] == 0 ? OVER : SENT_ONCE;
}

static void broker_delivers(void) {
    int i, open = 0;
    for (i = 0; i < MESSAGES; i++) {
        if (w.is_resend_due && w.their_state[i] == SENT_ONCE) {
            broker_publishes(i, true);
        } else if (w.is_resend_due && w.their_state[i] == RELEASED_ONCE) {
            broker_acks(TW_PUBREL, (uint16_t)(i + 1));
        }
        open += w.their_state[i] == SENT_ONCE || w.their_state[i] == RELEASED_ONCE;
    }
    w.is_resend_due = false;
    for (i = 0; i < MESSAGES && open < 8; i++) {
        if (w.their_state[i] == UNSENT) {
            broker_publishes(i, false);
            return;
        }
    }
}

static void broker_turn(void) {
    tw_packet packet;
    for (;;) {
        tw_result used = tw_decode(w.up.bytes, w.up.len, w.version, TW_MAX_PACKET_BYTES, &packet);
        if (used == TW_INCOMPLETE) {
            break;
        }
        CHECK(used > 0, "%s", tw_error_name(used));
        if (used <= 0) {
            abort();
        }
        broker_gets(&packet);
        take(&w.up, (size_t)used);
    }
    while (w.note_count > 0 && roll(&w.d, 2) == 0) {
        broker_acks((tw_packet_type)w.notes[0].type, w.notes[0].packet_id);
        memmove(w.notes, w.notes + 1, (size_t)--w.note_count * sizeof w.notes[0]);
    }
    if (w.is_greeted && roll(&w.d, 2) == 0) {
        broker_delivers();
    }
}

static void client_event(const tw_event *event) {
    if (event->type == TW_EVENT_MESSAGE) {
        int number = number_in(event->message.payload);
        CHECK(number >= 0 && number < MESSAGES && (int)event->message.qos == w.their_qos[number], "message %d", number);
        CHECK(event->message.qos == TW_AT_MOST_ONCE || w.their_arrived[number] > 0 || number > w.their_last, "order");
        if (event->message.qos != TW_AT_MOST_ONCE && number > w.their_last) {
            w.their_last = number;
        }
        w.their_arrived[number]++;
        w.in_hands = event->message.qos == TW_EXACTLY_ONCE ? number : -1;
    } else if (event->type == TW_EVENT_PUBLISHED) {
        CHECK(event->error == 0, "%s", tw_error_name(event->error));
        w.reported++;
    } else {
        CHECK(event->type == TW_EVENT_CONNECTED, "%s", tw_error_name(event->error));
    }
}

static void client_turn(void) {
    tw_memory space = tw_client_space(&w.client);
    size_t len = roll(&w.d, 40);
    tw_event event;
    tw_bytes output;
    len = len < w.down.len ? len : w.down.len;
    len = len < space.size ? len : space.size;
    memcpy(space.data, w.down.bytes, len);
    take(&w.down, len);
    tw_client_received(&w.client, len);
    while (tw_client_next(&w.client, w.now_ms, &event)) {
        w.in_hands = -1;
        client_event(&event);
        if (roll(&w.d, 3) == 0) {
            /* The rest has to wait, and may be lost. */
            break;
        }
    }
    if (w.client.ack_type == 0) {
        w.in_hands = -1;
    }
    output = tw_client_output(&w.client);
    len = roll(&w.d, 60);
    len = len < output.len ? len : output.len;
    put(&w.up, output.data, len);
    tw_client_sent(&w.client, len);
}

static void client_publishes(void) {
    char payload[64];
    tw_publish message;
    tw_result result;
    if (w.published == MESSAGES) {
        return;
    }
    memset(payload, '.', sizeof payload);
    sprintf(payload, "%04d", w.published);
    w.qos[w.published] = (uint8_t)roll(&w.d, 3);
    message = tw_message(tw_str("up"), tw_view(payload, 4 + roll(&w.d, 60)), (tw_qos)w.qos[w.published]);
    w.published++;
    result = tw_client_publish(&w.client, &message, NULL);
    if (result == TW_OUTBOX_FULL || result == TW_OUTPUT_FULL || result == TW_NOT_CONNECTED) {
        w.published--;
        return;
    }
    CHECK(result >= 0, "%s", tw_error_name(result));
    w.is_safe[w.published - 1] = true;
    if (message.qos == TW_AT_MOST_ONCE) {
        w.reported++;
    }
}

static void lose_line(void) {
    size_t packet_id;
    w.cuts++;
    w.up.len = 0;
    w.down.len = 0;
    w.note_count = 0;
    w.outstanding = 0;
    for (packet_id = 0; packet_id < 65536; packet_id++) {
        w.outstanding += w.uncompleted[packet_id];
    }
    w.is_greeted = false;
}

static void cut(void) {
    lose_line();
    tw_client_close(&w.client);
    w.in_hands = -1;
    CHECK(tw_client_open(&w.client, w.now_ms) == 0, "open");
}

/* The process ends, and another one starts with the content of the flash. */
static void reboot(void) {
    tw_result result;
    lose_line();
    w.reboots++;
    w.flash.left = -1;
    if (w.in_hands >= 0) {
        w.spilled[w.in_hands]++;
        w.in_hands = -1;
    }
    memset(w.outbox, 0xEE, sizeof w.outbox);
    memset(w.incoming, 0xEE, sizeof w.incoming);
    CHECK(flash_log_open(&w.log, &w.flash.driver) == 0, "open the log");
    w.store = flash_log_store(&w.log);
    result = tw_client_init(&w.client, &w.config);
    CHECK(result == 0, "%s", tw_error_name(result));
    CHECK(tw_client_open(&w.client, w.now_ms) == 0, "open");
}

static bool is_all_done(void) {
    int i;
    for (i = 0; i < MESSAGES; i++) {
        if (w.their_state[i] != OVER) {
            return false;
        }
    }
    return w.published == MESSAGES && (w.reboots > 0 || w.reported == MESSAGES) && tw_client_is_idle(&w.client) && w.down.len == 0;
}

static void turn_once(void) {
    w.now_ms++;
    switch (roll(&w.d, 4)) {
    case 0: client_publishes(); break;
    case 1: broker_turn(); break;
    default: client_turn(); break;
    }
}

static void set_up_store(uint64_t seed) {
    static const uint32_t UNITS[] = {1, 4, 8, 16};
    w.has_store = true;
    set_up_flash(&w.flash, 1536 + 512 * roll(&w.d, 5), UNITS[roll(&w.d, 4)], seed);
    CHECK(flash_log_open(&w.log, &w.flash.driver) == 0, "open the log");
    w.store = flash_log_store(&w.log);
    w.config.store = &w.store;
}

/* Whether each message has arrived as often as allowed. */
static void check_arrivals(int seed) {
    int i;
    for (i = 0; i < MESSAGES; i++) {
        int least = w.is_safe[i] && w.qos[i] > 0, theirs = w.their_arrived[i] - w.spilled[i];
        CHECK(w.arrived[i] >= least && (w.qos[i] == 1 || w.arrived[i] <= 1),
              "seed %d: message %d with QoS %d arrived %d times", seed, i, w.qos[i], w.arrived[i]);
        CHECK(w.their_arrived[i] >= (w.their_qos[i] > 0) && (w.their_qos[i] == 1 || theirs <= 1),
              "seed %d: their message %d with QoS %d arrived %d times, %d spilled", seed, i, w.their_qos[i], w.their_arrived[i],
              w.spilled[i]);
    }
}

/* With a store, the power fails after `cut_at` bytes of flash, unless that is negative. Returns how many bytes there were. */
static long play(uint64_t seed, bool has_store, long cut_at) {
    tw_client_config config = tw_client_defaults();
    volatile int turn;
    int i;
    memset(&w, 0, sizeof w);
    w.in_hands = -1;
    w.d.state = seed * 0x9E3779B97F4A7C15u + 1;
    w.version = roll(&w.d, 2) == 0 ? TW_V5 : TW_V3_1_1;
    w.receive_maximum = w.version == TW_V5 ? 1 + (int)roll(&w.d, 10) : 65535;
    w.last_arrived = -1;
    w.their_last = -1;
    config.connect.version = w.version;
    config.connect.client_id = tw_str("fake");
    config.connect.clean_start = false;
    config.session_expiry_s = w.version == TW_V5 ? 100 : 0;
    config.receive = tw_lend(w.receive, 80 + roll(&w.d, 400));
    config.transmit = tw_lend(w.transmit, 100 + roll(&w.d, 150));
    /* Also at odd addresses. */
    config.outbox = tw_lend(w.outbox + roll(&w.d, 4), 120 + roll(&w.d, 900));
    config.incoming = w.incoming;
    config.incoming_count = 8;
    w.config = config;
    if (has_store) {
        set_up_store(seed);
    }
    for (i = 0; i < MESSAGES; i++) {
        w.their_qos[i] = (uint8_t)roll(&w.d, 3);
    }
    CHECK(tw_client_init(&w.client, &w.config) == 0, "init");
    cut();
    w.flash.left = cut_at;
    for (turn = 0; turn < 200000 && !is_all_done(); turn++) {
        if (setjmp(w.flash.power_off) != 0) {
            reboot();
            continue;
        }
        turn_once();
        if (turn < 3000 && roll(&w.d, 40) == 0) {
            cut();
        }
        if (has_store && cut_at < 0 && turn < 3000 && roll(&w.d, 60) == 0) {
            if (roll(&w.d, 4) == 0) {
                reboot();
            } else {
                w.flash.left = (long)roll(&w.d, 400);
            }
        }
    }
    CHECK(is_all_done(), "seed %d: %d published, %d reported", (int)seed, w.published, w.reported);
    check_arrivals((int)seed);
    return w.flash.spent;
}

int main(int argc, char **argv) {
    uint64_t seed, count = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000;
    int cuts = 0, reboots = 0;
    long bytes, at, each = 0;
    for (seed = 1; seed <= count; seed++) {
        (void)play(seed, seed % 2 == 0, -1);
        cuts += w.cuts;
        reboots += w.reboots;
    }
    /* One session, cut at each byte of flash: the seed has little to write. */
    w.flash.spent = 0;
    bytes = play(4, true, 1L << 30);
    for (at = 0; at < bytes; at += 13) {
        (void)play(4, true, at);
        each++;
    }
    printf("%d seeds, %d cuts of the line, %d of the power, and %ld of one session's %ld bytes\n", (int)count, cuts, reboots, each,
           bytes);
    return finish("session");
}
