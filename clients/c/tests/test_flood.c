/* Many messages at once, and large ones, through a real broker: `test_flood HOST PORT`. All arrive, once, in order. */
#include "check.h"
#include "tautwire.h"

#define COUNT 6000
#define LARGE_BYTES 200000u
#define TIMEOUT_MS 20000u

static uint8_t receive[256 * 1024], transmit[256 * 1024], outbox[512 * 1024];
static uint8_t large[LARGE_BYTES];
static uint16_t incoming[64];
static int arrived[3], published;
static size_t large_arrived;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    if (event->type == TW_EVENT_PUBLISHED) {
        CHECK(event->reason < TW_UNSPECIFIED_ERROR, "reason 0x%02x", (unsigned)event->reason);
        published++;
    } else if (event->type == TW_EVENT_CLOSED) {
        CHECK(false, "connection lost: %s", tw_error_name(event->error));
        exit(1);
    } else if (event->type == TW_EVENT_MESSAGE && event->message.payload.len == LARGE_BYTES) {
        CHECK(memcmp(event->message.payload.data, large, LARGE_BYTES) == 0, "content");
        large_arrived++;
    } else if (event->type == TW_EVENT_MESSAGE) {
        uint32_t number;
        int qos = (int)event->message.qos;
        memcpy(&number, event->message.payload.data, sizeof number);
        /* A flooded broker may drop QoS 0; the received ones are in order. */
        CHECK(qos == 0 ? (int)number >= arrived[0] : (int)number == arrived[qos], "QoS %d: %u after %d", qos, number,
              arrived[qos]);
        arrived[qos] = (int)number + 1;
    }
}

static void publish(tw_link *link, const char *topic, const void *payload, size_t len, tw_qos qos) {
    tw_publish message = tw_message(tw_str(topic), tw_view(payload, len), qos);
    tw_result result;
    while ((result = tw_client_publish(&link->client, &message, NULL)) == TW_OUTBOX_FULL || result == TW_OUTPUT_FULL) {
        tw_link_step(link, TIMEOUT_MS);
    }
    CHECK(result >= 0, "%s", tw_error_name(result));
}

static void flood(tw_link *link, const char *topic) {
    uint32_t i;
    for (i = 0; i < COUNT; i++) {
        publish(link, topic, &i, sizeof i, TW_AT_MOST_ONCE);
        publish(link, topic, &i, sizeof i, TW_AT_LEAST_ONCE);
        publish(link, topic, &i, sizeof i, TW_EXACTLY_ONCE);
        if (i % 50 == 0) {
            tw_link_step(link, 0);
        }
    }
    for (i = 0; i < 10; i++) {
        publish(link, topic, large, sizeof large, (tw_qos)(1 + i % 2));
    }
    while ((arrived[1] < COUNT || arrived[2] < COUNT || large_arrived < 10 || !tw_client_is_idle(&link->client)) &&
           check_failures == 0) {
        tw_link_step(link, TIMEOUT_MS);
    }
    CHECK(published == 2 * COUNT + 10, "%d", published);
}

int main(int argc, char **argv) {
    static tw_link link;
    tw_tcp tcp;
    tw_version version;
    size_t i;
    if (argc < 3) {
        return 2;
    }
    for (i = 0; i < LARGE_BYTES; i++) {
        large[i] = (uint8_t)(i * 31 >> 3);
    }
    for (version = TW_V3_1_1; version <= TW_V5; version = (tw_version)(version + 1)) {
        tw_client_config config = tw_client_defaults();
        config.connect.version = version;
        config.connect.client_id = tw_str("flood");
        config.receive = tw_lend(receive, sizeof receive);
        config.transmit = tw_lend(transmit, sizeof transmit);
        config.outbox = tw_lend(outbox, sizeof outbox);
        config.incoming = incoming;
        config.incoming_count = sizeof incoming / sizeof incoming[0];
        config.max_in_flight = 50;
        memset(arrived, 0, sizeof arrived);
        published = 0;
        large_arrived = 0;
        CHECK(tw_link_init(&link, &config, tw_tcp_transport(&tcp, argv[1], argv[2]), on_event, NULL) == 0, "init");
        CHECK(tw_link_connect(&link, TIMEOUT_MS) == 0, "connect");
        CHECK(tw_link_subscribe(&link, "flood", TW_EXACTLY_ONCE, TIMEOUT_MS, NULL) == 0, "subscribe");
        flood(&link, "flood");
        tw_link_disconnect(&link);
    }
    return finish("flood");
}
