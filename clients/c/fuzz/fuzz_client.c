/* The client: whatever the server sends and whenever the line is cut, its guarantees hold. */
#include <stdlib.h>

#include "fuzz.h"

static void must(bool condition) {
    if (!condition) {
        abort();
    }
}

typedef struct player {
    tw_client client;
    uint8_t *receive, *transmit, *outbox;
    uint16_t *incoming;
    uint32_t now_ms;
    const uint8_t *script, *end;
} player;

static uint8_t next_byte(player *p) {
    return p->script < p->end ? *p->script++ : 0;
}

static void take_events(player *p) {
    tw_event event;
    int count = 0;
    while (tw_client_next(&p->client, p->now_ms, &event)) {
        must(event.type > TW_EVENT_NONE && event.type <= TW_EVENT_CLOSED && count++ < 10000);
        if (event.type == TW_EVENT_MESSAGE) {
            must(event.message.topic.len > 0 && (unsigned)event.message.qos <= 2);
        } else if (event.type == TW_EVENT_CLOSED) {
            must(event.error < 0);
            must(tw_client_space(&p->client).size == 0);
        }
    }
}

static void receive(player *p, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        tw_memory space = tw_client_space(&p->client);
        size_t part = len < space.size ? len : space.size;
        if (part == 0) {
            return;
        }
        memcpy(space.data, bytes, part);
        tw_client_received(&p->client, part);
        bytes += part;
        len -= part;
        take_events(p);
        tw_client_sent(&p->client, tw_client_output(&p->client).len);
    }
}

static void play(player *p, tw_version version) {
    static const char TOPIC[] = "a/topic/that/is/cut/to/some/length";
    tw_packet packet;
    while (p->script < p->end) {
        uint8_t move = next_byte(p), amount = next_byte(p);
        tw_bytes output;
        switch (move % 8) {
        case 0: {
            /* Raw bytes of the input. */
            size_t left = (size_t)(p->end - p->script), len = amount < left ? amount : left;
            receive(p, p->script, len);
            p->script += len;
            break;
        }
        case 1: {
            tw_publish message =
                tw_message(tw_view(TOPIC, 1 + amount % 30), tw_view(TOPIC, amount % 20), (tw_qos)(move / 8 % 3));
            (void)tw_client_publish(&p->client, &message, NULL);
            break;
        }
        case 2: {
            /* Few filters, so that they collide. */
            tw_subscription subscription = tw_filter(tw_view(TOPIC, 1u + amount % 4u * 2u), (tw_qos)(move / 8 % 3));
            tw_properties none = {NULL, 0};
            if (move >= 192) {
                (void)tw_client_unsubscribe(&p->client, &subscription, 1, none, NULL);
            } else {
                (void)tw_client_subscribe(&p->client, &subscription, 1, none, NULL);
            }
            break;
        }
        case 3:
            tw_client_close(&p->client);
            must(tw_client_open(&p->client, p->now_ms) == 0);
            break;
        case 4: p->now_ms += (uint32_t)amount * 500; break;
        case 5: {
            /* A CONNACK, so that code that needs a connection is reached. */
            static const uint8_t CONNACKS[][5] = {{0x20, 3, 0, 0, 0}, {0x20, 3, 1, 0, 0}};
            static const uint8_t OLD_CONNACKS[][4] = {{0x20, 2, 0, 0}, {0x20, 2, 1, 0}};
            if (version == TW_V5) {
                receive(p, CONNACKS[amount % 2], 5);
            } else {
                receive(p, OLD_CONNACKS[amount % 2], 4);
            }
            break;
        }
        case 6: {
            /* An acknowledgement of one of the first identifiers. */
            static const uint8_t TYPES[] = {0x40, 0x50, 0x62, 0x70, 0x90, 0xb0};
            uint8_t ack[6] = {0, 2, 0, 0, 0, 0};
            ack[0] = TYPES[move / 8 % 6];
            ack[3] = (uint8_t)(1 + amount % 16);
            if (ack[0] >= 0x90) {
                /* No properties, and a reason code that grants or refuses. */
                bool is_old = version != TW_V5;
                ack[1] = is_old ? (ack[0] == 0x90 ? 3 : 2) : 4;
                ack[is_old ? 4 : 5] = ack[0] == 0x90 && amount >= 128 ? 0x80 : 0;
            }
            receive(p, ack, 2u + ack[1]);
            break;
        }
        default:
            /* Only a part is sent. */
            output = tw_client_output(&p->client);
            tw_client_sent(&p->client, amount < output.len ? amount : output.len);
            break;
        }
        take_events(p);
        /* The output is always a packet that a server can read. */
        output = tw_client_output(&p->client);
        if (move % 8 == 3) {
            must(tw_decode(output.data, output.len, version, TW_MAX_PACKET_BYTES, &packet) == (tw_result)output.len);
            must(packet.type == TW_CONNECT);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_client_config config = tw_client_defaults();
    player p;
    uint8_t setting;
    size_t kept;
    if (size < 2) {
        return 0;
    }
    memset(&p, 0, sizeof p);
    setting = data[0];
    p.script = data + 1;
    p.end = data + size;
    p.now_ms = 0xFFFFFF00u;
    config.connect.version = (setting & 1) != 0 ? TW_V5 : TW_V3_1_1;
    config.connect.clean_start = (setting & 2) != 0;
    config.session_expiry_s = (setting & 5) == 5 ? 60 : 0;
    config.connect.client_id = tw_str("fuzz");
    /* With little room for subscriptions, much, or none. */
    kept = (setting & 8) != 0 ? setting : 0u;
    config.subscriptions = tw_lend(malloc(kept + (kept == 0)), kept);
    config.receive = tw_lend(malloc(96), 96);
    config.transmit = tw_lend(malloc(64), 64);
    config.outbox = tw_lend(malloc(160 + setting / 8), 160u + setting / 8);
    p.incoming = (uint16_t *)malloc(4 * sizeof *p.incoming);
    config.incoming = p.incoming;
    config.incoming_count = 4;
    must(config.receive.data != NULL && config.transmit.data != NULL && config.outbox.data != NULL && p.incoming != NULL &&
         config.subscriptions.data != NULL);
    must(tw_client_init(&p.client, &config) == 0);
    must(tw_client_open(&p.client, p.now_ms) == 0);
    play(&p, config.connect.version);
    free(config.receive.data);
    free(config.transmit.data);
    free(config.outbox.data);
    free(config.subscriptions.data);
    free(p.incoming);
    return 0;
}
