/* The C client of this repository. */
#define _POSIX_C_SOURCE 200809L
#include "tautwire.h"

#include "driver.h"

#define TIMEOUT_MS 10000

static tw_link link_;
static tw_tcp tcp;
static tw_qos qos;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    if (event->type == TW_EVENT_MESSAGE) {
        on_message(event->message.payload.data, event->message.payload.len);
    } else if (event->type == TW_EVENT_CLOSED) {
        die("the connection is over");
    }
}

void library_connect(const char *host, const char *port, const char *client_id, int level) {
    static uint8_t receive[16384], transmit[16384], outbox[16384];
    static uint16_t incoming[64];
    tw_client_config config = tw_client_defaults();
    config.connect.version = TW_V3_1_1;
    config.connect.client_id = tw_str(client_id);
    config.connect.keep_alive_s = 0;
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    config.incoming = incoming;
    config.incoming_count = 64;
    qos = (tw_qos)level;
    if (tw_link_init(&link_, &config, tw_tcp_transport(&tcp, host, port), on_event, NULL) != 0 ||
        tw_link_connect(&link_, TIMEOUT_MS) != 0) {
        die("no connection");
    }
}

void library_subscribe(const char *filter) {
    if (tw_link_subscribe(&link_, filter, qos, TIMEOUT_MS, NULL) != 0) {
        die("not subscribed");
    }
}

void library_publish(const char *topic, const void *payload, size_t len) {
    tw_publish message = tw_message(tw_str(topic), tw_view(payload, len), qos);
    if (tw_client_publish(&link_.client, &message, NULL) < 0) {
        die("not published");
    }
}

void library_step(void) {
    tw_link_step(&link_, TIMEOUT_MS);
}
