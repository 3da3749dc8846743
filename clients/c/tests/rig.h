/* A client for tests: bytes are given and expected in hex, and the test sets the time. */
#ifndef RIG_H
#define RIG_H

#include "check.h"
#include "tautwire.h"

typedef struct rig {
    tw_client client;
    tw_client_config config;
    tw_event event;
    uint32_t now_ms;
    uint8_t receive[256], transmit[128], outbox[256], subscriptions[64];
    uint16_t incoming[4];
} rig;

static inline size_t unhex(const char *hex, uint8_t *to) {
    size_t count = 0;
    unsigned byte;
    for (; *hex != '\0'; hex++) {
        if (*hex != ' ') {
            sscanf(hex, "%2x", &byte);
            to[count++] = (uint8_t)byte;
            hex++;
        }
    }
    return count;
}

/* A client of that version, not connected. Change `config` and call restart() for other settings. */
static inline void restart(rig *r) {
    r->config.receive = tw_lend(r->receive, sizeof r->receive);
    r->config.transmit = tw_lend(r->transmit, sizeof r->transmit);
    r->config.incoming = r->incoming;
    CHECK(tw_client_init(&r->client, &r->config) == 0, "init");
}

static inline void set_up(rig *r, tw_version version) {
    memset(r, 0, sizeof *r);
    r->config = tw_client_defaults();
    r->config.connect.version = version;
    r->config.connect.client_id = tw_str("c");
    r->config.outbox = tw_lend(r->outbox, sizeof r->outbox);
    r->config.incoming_count = 4;
    if (version == TW_V5) {
        r->config.session_expiry_s = 600;
    } else {
        r->config.connect.clean_start = false;
    }
    r->now_ms = 0xFFFFF000u;
    restart(r);
}

/* Passes bytes to the client, and takes one event if there is one. */
static inline tw_event_type give(rig *r, const char *hex) {
    uint8_t bytes[512];
    size_t count = unhex(hex, bytes);
    tw_memory space = tw_client_space(&r->client);
    CHECK(count <= space.size, "%s does not fit", hex);
    if (count <= space.size && count > 0) {
        memcpy(space.data, bytes, count);
        tw_client_received(&r->client, count);
    }
    (void)tw_client_next(&r->client, r->now_ms, &r->event);
    return r->event.type;
}

static inline tw_event_type next(rig *r) {
    (void)tw_client_next(&r->client, r->now_ms, &r->event);
    return r->event.type;
}

/* The pending output is exactly this; it counts as sent. */
#define SENDS(r, hex) CHECK(takes(r, hex), "wanted %s", hex)

static inline bool takes(rig *r, const char *hex) {
    uint8_t want[512];
    size_t count = unhex(hex, want), i;
    tw_bytes output = tw_client_output(&r->client);
    bool is_right = output.len == count && (count == 0 || memcmp(output.data, want, count) == 0);
    if (!is_right) {
        fprintf(stderr, "sent ");
        for (i = 0; i < output.len; i++) {
            fprintf(stderr, "%02x", output.data[i]);
        }
        fputc('\n', stderr);
    }
    tw_client_sent(&r->client, output.len);
    return is_right;
}

/* Connects; `connack` is the server's answer. */
static inline void connect_with(rig *r, const char *connack) {
    CHECK(tw_client_open(&r->client, r->now_ms) == 0, "open");
    tw_client_sent(&r->client, tw_client_output(&r->client).len);
    CHECK(give(r, connack) == TW_EVENT_CONNECTED, "%s", tw_error_name(r->event.error));
}

#define CONNACK_V5 "2003 000000"
#define CONNACK_V5_RESUMED "2003 010000"
#define CONNACK_V3 "2002 0000"
#define CONNACK_V3_RESUMED "2002 0100"

/* Returns the packet identifier, or the error. */
static inline tw_result publish(rig *r, const char *topic, tw_qos qos) {
    tw_publish message = tw_message(tw_str(topic), tw_str("x"), qos);
    uint16_t packet_id = 0xFFFF;
    tw_result result = tw_client_publish(&r->client, &message, &packet_id);
    CHECK(result <= 0 && (result == 0 || packet_id == 0), "an identifier is no result");
    return result < 0 ? result : packet_id;
}

static inline tw_result subscribe(rig *r, const char *filter, tw_qos qos) {
    tw_subscription list = tw_filter(tw_str(filter), qos);
    tw_properties none = {NULL, 0};
    uint16_t packet_id = 0xFFFF;
    tw_result result = tw_client_subscribe(&r->client, &list, 1, none, &packet_id);
    CHECK(result <= 0 && (result == 0 || packet_id == 0), "an identifier is no result");
    return result < 0 ? result : packet_id;
}

#endif
