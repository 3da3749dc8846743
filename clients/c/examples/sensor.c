/*
 * A sensor on POSIX: reports that it is online, publishes readings, executes commands, and has a will.
 *
 *     sensor HOST PORT [READINGS]
 */
#include <stdio.h>
#include <stdlib.h>

#include "tautwire.h"

#define READ_EVERY_MS 200u

typedef struct sensor {
    uint8_t receive[1024], transmit[1024], outbox[4096], subscriptions[128];
    uint16_t incoming[8];
    double offset;
} sensor;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    sensor *s = (sensor *)user;
    switch (event->type) {
    case TW_EVENT_CONNECTED: {
        /* Runs after each reconnection, too. Calls on link->client never block. */
        tw_publish online = tw_message(tw_str("sensors/kitchen/status"), tw_str("online"), TW_AT_LEAST_ONCE);
        online.retain = true;
        (void)tw_client_publish(&link->client, &online, NULL);
        printf("connected\n");
        break;
    }
    case TW_EVENT_MESSAGE:
        if (tw_topic_matches(tw_str("sensors/+/set/offset"), event->message.topic)) {
            char text[16] = "";
            size_t len = event->message.payload.len < sizeof text - 1 ? event->message.payload.len : sizeof text - 1;
            memcpy(text, event->message.payload.data, len);
            s->offset = strtod(text, NULL);
        }
        break;
    case TW_EVENT_SUBSCRIBED:
    case TW_EVENT_PUBLISHED:
        if (event->error < 0) {
            printf("%s (0x%02x) [%s]\n", tw_error_text(event->error), (unsigned)event->reason, tw_error_name(event->error));
        }
        break;
    case TW_EVENT_CLOSED: printf("%s [%s]\n", tw_error_text(event->error), tw_error_name(event->error)); break;
    default: break;
    }
}

int main(int argc, char **argv) {
    static sensor s;
    static tw_link link;
    tw_tcp tcp;
    tw_client_config config = tw_client_defaults();
    tw_subscription commands = tw_filter(tw_str("sensors/kitchen/set/#"), TW_AT_LEAST_ONCE);
    tw_properties none = {NULL, 0};
    tw_result result;
    int left, reading;
    if (argc < 3) {
        fprintf(stderr, "usage: %s HOST PORT [READINGS]\n", argv[0]);
        return 2;
    }
    left = argc > 3 ? atoi(argv[3]) : -1;
    config.connect.client_id = tw_str("kitchen-sensor");
    config.connect.clean_start = false;
    config.session_expiry_s = 3600;
    config.connect.has_will = true;
    config.connect.will.topic = tw_str("sensors/kitchen/status");
    config.connect.will.payload = tw_str("offline");
    config.connect.will.retain = true;
    config.receive = tw_lend(s.receive, sizeof s.receive);
    config.transmit = tw_lend(s.transmit, sizeof s.transmit);
    config.outbox = tw_lend(s.outbox, sizeof s.outbox);
    config.subscriptions = tw_lend(s.subscriptions, sizeof s.subscriptions);
    config.incoming = s.incoming;
    config.incoming_count = sizeof s.incoming / sizeof s.incoming[0];
    result = tw_link_init(&link, &config, tw_tcp_transport(&tcp, argv[1], argv[2]), on_event, &s);
    if (result == 0) {
        /* It is sent with the first connection, and again whenever the broker has lost the session. */
        result = tw_client_subscribe(&link.client, &commands, 1, none, NULL);
    }
    if (result < 0) {
        fprintf(stderr, "configuration: %s [%s]\n", tw_error_text(result), tw_error_name(result));
        return 1;
    }
    for (reading = 0; left != 0; reading++, left -= left > 0) {
        char text[32];
        tw_publish message;
        uint32_t start_ms = link.transport.now_ms(link.transport.context), passed_ms = 0;
        snprintf(text, sizeof text, "%.1f", 20.0 + reading % 10 / 10.0 + s.offset);
        message = tw_message(tw_str("sensors/kitchen/temperature"), tw_str(text), TW_AT_LEAST_ONCE);
        /* Works without a connection, too: the outbox is sent when there is one. */
        result = tw_client_publish(&link.client, &message, NULL);
        if (result < 0) {
            fprintf(stderr, "reading %d is lost: %s [%s]\n", reading, tw_error_text(result), tw_error_name(result));
        }
        while (passed_ms < READ_EVERY_MS) {
            if (tw_link_step(&link, READ_EVERY_MS - passed_ms) < 0) {
                /* The broker has refused this sensor permanently: on_event has printed the reason. */
                return 1;
            }
            passed_ms = link.transport.now_ms(link.transport.context) - start_ms;
        }
    }
    result = tw_link_flush(&link, 5000);
    tw_link_disconnect(&link);
    printf("%d readings, %s\n", reading, result == 0 ? "all acknowledged" : tw_error_name(result));
    return result == 0 ? 0 : 1;
}
