/*
 * Tests the client library with any broker: `driver HOST PORT [CASE…]` or `driver --list`. Prints `ok NAME`
 * or `FAIL NAME: reason` for each case; the exit status is 0 if none failed.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tautwire.h"

#define CASE_TIMEOUT_MS 20000u
#define MAX_KEPT 64
#define MANY 20

/* A received message. */
typedef struct kept {
    char topic[96];
    char payload[96];
    size_t payload_len;
    tw_qos qos;
    bool retain;
    uint8_t properties[256];
    size_t properties_len;
} kept;

/* A client of this driver with its received messages. */
typedef struct peer {
    tw_link link;
    tw_tcp tcp;
    char id[40];
    uint8_t receive[4096], transmit[4096], outbox[8192], subscriptions[1024];
    uint16_t incoming[32];
    kept messages[MAX_KEPT];
    size_t count;
    int connections;
    bool session_present;
} peer;

static const char *host, *port;
static char tag[16];
static char reason[256];
static uint32_t case_start_ms;
static peer peers[3];

static bool fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return false;
}

#define EXPECT(condition, ...)          \
    do {                                \
        if (!(condition)) {             \
            return fail(__VA_ARGS__);   \
        }                               \
    } while (0)

static uint32_t clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u);
}

static uint32_t left_ms(void) {
    uint32_t passed = clock_ms() - case_start_ms;
    return passed >= CASE_TIMEOUT_MS ? 0 : CASE_TIMEOUT_MS - passed;
}

static void copy_text(char *to, size_t size, tw_bytes from) {
    size_t len = from.len < size - 1 ? from.len : size - 1;
    memcpy(to, from.data, len);
    to[len] = '\0';
}

static void on_event(void *user, tw_link *link, const tw_event *event) {
    peer *p = (peer *)user;
    (void)link;
    if (event->type == TW_EVENT_CONNECTED) {
        p->connections++;
        p->session_present = event->session_present;
    } else if (event->type == TW_EVENT_MESSAGE && p->count < MAX_KEPT) {
        kept *m = &p->messages[p->count++];
        copy_text(m->topic, sizeof m->topic, event->message.topic);
        copy_text(m->payload, sizeof m->payload, event->message.payload);
        m->payload_len = event->message.payload.len;
        m->qos = event->message.qos;
        m->retain = event->message.retain;
        m->properties_len = event->properties.len < sizeof m->properties ? event->properties.len : sizeof m->properties;
        if (m->properties_len > 0) {
            memcpy(m->properties, event->properties.data, m->properties_len);
        }
    }
}

static tw_client_config config_of(peer *p, tw_version version, const char *name) {
    tw_client_config config = tw_client_defaults();
    memset(p, 0, sizeof *p);
    snprintf(p->id, sizeof p->id, "c-%s-%s", tag, name);
    config.connect.version = version;
    config.connect.client_id = tw_str(p->id);
    config.receive = tw_lend(p->receive, sizeof p->receive);
    config.transmit = tw_lend(p->transmit, sizeof p->transmit);
    config.outbox = tw_lend(p->outbox, sizeof p->outbox);
    config.subscriptions = tw_lend(p->subscriptions, sizeof p->subscriptions);
    config.incoming = p->incoming;
    config.incoming_count = sizeof p->incoming / sizeof p->incoming[0];
    return config;
}

static bool start(peer *p, const tw_client_config *config) {
    tw_result result = tw_link_init(&p->link, config, tw_tcp_transport(&p->tcp, host, port), on_event, p);
    EXPECT(result == 0, "init: %s", tw_error_name(result));
    p->link.retry_min_ms = 10;
    result = tw_link_connect(&p->link, left_ms());
    EXPECT(result == 0, "connect: %s, reason 0x%02x", tw_error_name(result), (unsigned)tw_link_reason(&p->link));
    return true;
}

static bool start_plain(peer *p, tw_version version, const char *name) {
    tw_client_config config = config_of(p, version, name);
    return start(p, &config);
}

static const char *topic_of(const char *name) {
    static char topics[4][64];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(topics[turn], sizeof topics[turn], "interop/%s/%s", tag, name);
    return topics[turn];
}

static bool subscribe(peer *p, const char *topic, tw_qos qos) {
    tw_qos granted;
    tw_result result = tw_link_subscribe(&p->link, topic, qos, left_ms(), &granted);
    EXPECT(result == 0, "subscribe: %s, reason 0x%02x", tw_error_name(result), (unsigned)tw_link_reason(&p->link));
    EXPECT(granted == qos, "subscribe: the server granted QoS %d", (int)granted);
    return true;
}

static bool publish(peer *p, const char *topic, const char *payload, tw_qos qos, bool retain) {
    tw_publish message = tw_message(tw_str(topic), tw_str(payload), qos);
    tw_result result;
    message.retain = retain;
    result = tw_link_publish(&p->link, &message, left_ms());
    EXPECT(result == 0, "publish: %s, reason 0x%02x", tw_error_name(result), (unsigned)tw_link_reason(&p->link));
    return true;
}

static bool wait_for(peer *p, size_t count) {
    while (p->count < count) {
        EXPECT(left_ms() > 0, "%d of %d messages within 20 s", (int)p->count, (int)count);
        tw_link_step(&p->link, left_ms());
    }
    return true;
}

static bool expect_message(const peer *p, size_t at, const char *topic, const char *payload, tw_qos qos, bool retain) {
    const kept *m = &p->messages[at];
    EXPECT(at < p->count, "message %d is missing", (int)at);
    EXPECT(strcmp(m->topic, topic) == 0, "message %d: topic %s", (int)at, m->topic);
    EXPECT(strcmp(m->payload, payload) == 0, "message %d: payload %s, want %s", (int)at, m->payload, payload);
    EXPECT(m->qos == qos, "message %d: QoS %d", (int)at, (int)m->qos);
    EXPECT(m->retain == retain, "message %d: retain %d", (int)at, m->retain);
    return true;
}

static bool run_connect(tw_version version) {
    peer *p = &peers[0];
    tw_client_config config = config_of(p, version, "connect");
    config.connect.keep_alive_s = 1;
    return start(p, &config) && (!p->session_present || fail("a session is present"));
}

static bool run_qos(tw_version version, tw_qos qos) {
    peer *publisher = &peers[0], *subscriber = &peers[1];
    const char *topic = topic_of("qos");
    char payload[16];
    size_t i;
    if (!start_plain(publisher, version, "pub") || !start_plain(subscriber, version, "sub") ||
        !subscribe(subscriber, topic, qos)) {
        return false;
    }
    for (i = 0; i < MANY; i++) {
        snprintf(payload, sizeof payload, "%d", (int)i);
        if (!publish(publisher, topic, payload, qos, false)) {
            return false;
        }
    }
    if (!wait_for(subscriber, MANY)) {
        return false;
    }
    for (i = 0; i < MANY; i++) {
        snprintf(payload, sizeof payload, "%d", (int)i);
        if (!expect_message(subscriber, i, topic, payload, qos, false)) {
            return false;
        }
    }
    /* After this one, no late message may arrive. */
    return publish(publisher, topic, "fence", qos, false) && wait_for(subscriber, MANY + 1) &&
           expect_message(subscriber, MANY, topic, "fence", qos, false);
}

static bool run_retained(tw_version version) {
    peer *publisher = &peers[0], *first = &peers[1], *second = &peers[2];
    const char *topic = topic_of("retained");
    return start_plain(publisher, version, "pub") && publish(publisher, topic, "kept", TW_AT_LEAST_ONCE, true) &&
           start_plain(first, version, "one") && subscribe(first, topic, TW_AT_LEAST_ONCE) && wait_for(first, 1) &&
           expect_message(first, 0, topic, "kept", TW_AT_LEAST_ONCE, true) &&
           publish(publisher, topic, "", TW_AT_LEAST_ONCE, true) && start_plain(second, version, "two") &&
           subscribe(second, topic, TW_AT_LEAST_ONCE) && publish(publisher, topic, "fence", TW_AT_LEAST_ONCE, false) &&
           wait_for(second, 1) && expect_message(second, 0, topic, "fence", TW_AT_LEAST_ONCE, false);
}

static bool run_will(tw_version version) {
    peer *watcher = &peers[0], *dying = &peers[1];
    const char *topic = topic_of("will");
    tw_client_config config = config_of(dying, version, "dying");
    config.connect.has_will = true;
    config.connect.will.topic = tw_str(topic);
    config.connect.will.payload = tw_str("gone");
    config.connect.will.qos = TW_AT_LEAST_ONCE;
    if (!start_plain(watcher, version, "watch") || !subscribe(watcher, topic, TW_AT_LEAST_ONCE) || !start(dying, &config)) {
        return false;
    }
    tw_link_cut(&dying->link);
    return wait_for(watcher, 1) && expect_message(watcher, 0, topic, "gone", TW_AT_LEAST_ONCE, false);
}

static bool run_reconnect(tw_version version) {
    peer *p = &peers[0], *other = &peers[1];
    const char *topic = topic_of("resumed");
    tw_client_config config = config_of(p, version, "resume");
    config.connect.clean_start = version == TW_V5;
    if (!start(p, &config) || !subscribe(p, topic, TW_AT_LEAST_ONCE) || !start_plain(other, version, "other")) {
        return false;
    }
    /* The line is cut below the client, which has to detect it. */
    shutdown(p->tcp.fd, SHUT_RDWR);
    if (!publish(other, topic, "meanwhile", TW_AT_LEAST_ONCE, false) || !wait_for(p, 1)) {
        return false;
    }
    EXPECT(p->connections == 2, "%d connections", p->connections);
    EXPECT(p->session_present, "the session is not resumed");
    return publish(other, topic, "fence", TW_AT_LEAST_ONCE, false) && wait_for(p, 2) &&
           expect_message(p, 0, topic, "meanwhile", TW_AT_LEAST_ONCE, false) &&
           expect_message(p, 1, topic, "fence", TW_AT_LEAST_ONCE, false);
}

static bool same_text(tw_bytes bytes, const char *text) {
    return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

static bool check_properties(const kept *m) {
    tw_properties rest = tw_view(m->properties, m->properties_len);
    tw_property p;
    int users = 0, others = 0;
    static const char *const USERS[][2] = {{"b", "1"}, {"a", "2"}, {"b", "3"}};
    while (tw_next_property(&rest, &p)) {
        bool is_right = true;
        switch (p.id) {
        case TW_CONTENT_TYPE: is_right = same_text(p.text, "text/plain"); break;
        case TW_RESPONSE_TOPIC: is_right = same_text(p.text, "answers/here"); break;
        case TW_CORRELATION_DATA: is_right = p.text.len == 3 && memcmp(p.text.data, "\0\xff\1", 3) == 0; break;
        case TW_MESSAGE_EXPIRY_INTERVAL: is_right = p.number > 0 && p.number <= 600; break;
        case TW_PAYLOAD_FORMAT_INDICATOR: is_right = p.number == 1; break;
        case TW_SUBSCRIPTION_IDENTIFIER: is_right = p.number == 268435455; break;
        case TW_USER_PROPERTY:
            is_right = users < 3 && same_text(p.name, USERS[users][0]) && same_text(p.text, USERS[users][1]);
            users++;
            continue;
        default: continue;
        }
        EXPECT(is_right, "property 0x%02x has another value", (unsigned)p.id);
        others++;
    }
    EXPECT(users == 3 && others == 6, "%d user properties and %d others of 3 and 6", users, others);
    return true;
}

static bool run_properties(tw_version version) {
    peer *publisher = &peers[0], *subscriber = &peers[1];
    const char *topic = topic_of("properties");
    tw_subscription subscription = tw_filter(tw_str(topic), TW_AT_LEAST_ONCE);
    /* QoS 0: one broker answers user properties with an invalid PUBACK. */
    tw_publish message = tw_message(tw_str(topic), tw_str("whole"), TW_AT_MOST_ONCE);
    uint8_t space[256], id_space[8];
    tw_writer writer = tw_writer_on(space, sizeof space), id_writer = tw_writer_on(id_space, sizeof id_space);
    tw_result result;
    tw_put_number(&writer, TW_PAYLOAD_FORMAT_INDICATOR, 1);
    tw_put_number(&writer, TW_MESSAGE_EXPIRY_INTERVAL, 600);
    tw_put_text(&writer, TW_CONTENT_TYPE, tw_str("text/plain"));
    tw_put_text(&writer, TW_RESPONSE_TOPIC, tw_str("answers/here"));
    tw_put_text(&writer, TW_CORRELATION_DATA, tw_view("\0\xff\1", 3));
    tw_put_user_property(&writer, tw_str("b"), tw_str("1"));
    tw_put_user_property(&writer, tw_str("a"), tw_str("2"));
    tw_put_user_property(&writer, tw_str("b"), tw_str("3"));
    tw_put_number(&id_writer, TW_SUBSCRIPTION_IDENTIFIER, 268435455);
    EXPECT(writer.error == 0 && id_writer.error == 0, "the properties do not fit");
    message.properties = tw_written(&writer);
    if (!start_plain(publisher, version, "pub") || !start_plain(subscriber, version, "sub")) {
        return false;
    }
    result = tw_client_subscribe(&subscriber->link.client, &subscription, 1, tw_written(&id_writer), NULL);
    EXPECT(result == 0, "subscribe: %s", tw_error_name(result));
    EXPECT(tw_link_flush(&subscriber->link, left_ms()) == 0, "no SUBACK");
    result = tw_link_publish(&publisher->link, &message, left_ms());
    EXPECT(result == 0, "publish: %s", tw_error_name(result));
    return wait_for(subscriber, 1) && expect_message(subscriber, 0, topic, "whole", TW_AT_MOST_ONCE, false) &&
           check_properties(&subscriber->messages[0]);
}

static bool run_qos0(tw_version version) {
    return run_qos(version, TW_AT_MOST_ONCE);
}

static bool run_qos1(tw_version version) {
    return run_qos(version, TW_AT_LEAST_ONCE);
}

static bool run_qos2(tw_version version) {
    return run_qos(version, TW_EXACTLY_ONCE);
}

static const struct test_case {
    const char *name;
    bool (*run)(tw_version version);
    tw_version version;
} CASES[] = {
    {"v3_connect", run_connect, TW_V3_1_1},   {"v3_qos0", run_qos0, TW_V3_1_1},
    {"v3_qos1", run_qos1, TW_V3_1_1},         {"v3_qos2", run_qos2, TW_V3_1_1},
    {"v3_retained", run_retained, TW_V3_1_1}, {"v3_will", run_will, TW_V3_1_1},
    {"v3_reconnect", run_reconnect, TW_V3_1_1},
    {"v5_connect", run_connect, TW_V5},       {"v5_qos0", run_qos0, TW_V5},
    {"v5_qos1", run_qos1, TW_V5},             {"v5_qos2", run_qos2, TW_V5},
    {"v5_retained", run_retained, TW_V5},     {"v5_will", run_will, TW_V5},
    {"v5_reconnect", run_reconnect, TW_V5},   {"v5_properties", run_properties, TW_V5},
};
#define CASE_COUNT (sizeof CASES / sizeof CASES[0])

static bool run_case(const struct test_case *c) {
    size_t i;
    bool is_ok;
    for (i = 0; i < 3; i++) {
        memset(&peers[i], 0, sizeof peers[i]);
    }
    snprintf(tag, sizeof tag, "%04x%06x", (unsigned)getpid() & 0xFFFF, (unsigned)time(NULL) & 0xFFFFFF);
    snprintf(tag + 10, sizeof tag - 10, "%02d", (int)(c - CASES));
    case_start_ms = clock_ms();
    is_ok = c->run(c->version);
    for (i = 0; i < 3; i++) {
        if (peers[i].link.transport.close != NULL) {
            tw_link_disconnect(&peers[i].link);
        }
    }
    if (is_ok) {
        printf("ok %s\n", c->name);
    } else {
        printf("FAIL %s: %s\n", c->name, reason);
    }
    fflush(stdout);
    return is_ok;
}

int main(int argc, char **argv) {
    int status = 0, given;
    size_t i;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (i = 0; i < CASE_COUNT; i++) {
            puts(CASES[i].name);
        }
        return 0;
    }
    if (argc < 3) {
        fprintf(stderr, "usage: %s HOST PORT [CASE…] | --list\n", argv[0]);
        return 2;
    }
    host = argv[1];
    port = argv[2];
    for (given = 3; given < argc; given++) {
        for (i = 0; i < CASE_COUNT && strcmp(CASES[i].name, argv[given]) != 0; i++) {
        }
        if (i == CASE_COUNT) {
            fprintf(stderr, "no such case: %s\n", argv[given]);
            return 2;
        }
        status |= !run_case(&CASES[i]);
    }
    for (i = 0; argc == 3 && i < CASE_COUNT; i++) {
        status |= !run_case(&CASES[i]);
    }
    return status;
}
