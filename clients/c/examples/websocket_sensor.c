/* A reading over WebSocket, published and received back: `websocket_sensor HOST PORT PATH`. */
#include <stdio.h>

#include "websocket.h"

#define PATIENCE_MS 10000u
#define READING_BYTES 5000u

static size_t heard;

/* If there is no such file, use the hardware's random generator. */
static tw_result random_bytes(void *context, uint8_t *to, size_t len) {
    FILE *file = fopen("/dev/urandom", "rb");
    size_t count = file == NULL ? 0 : fread(to, 1, len, file);
    (void)context;
    if (file != NULL) {
        fclose(file);
    }
    return count == len ? 0 : -1;
}

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    if (event->type == TW_EVENT_MESSAGE) {
        heard = event->message.payload.len;
    }
}

int main(int argc, char **argv) {
    static uint8_t receive[8192], transmit[8192], outbox[16384], subscriptions[256], reading[READING_BYTES];
    static websocket socket;
    static tw_link link;
    char host[300];
    tw_tcp tcp;
    websocket_config secure;
    tw_client_config config = tw_client_defaults();
    tw_publish message = tw_message(tw_str("sensors/attic/raw"), tw_view(reading, sizeof reading), TW_AT_LEAST_ONCE);
    tw_result result;
    if (argc != 4) {
        fprintf(stderr, "usage: %s HOST PORT PATH\n", argv[0]);
        return 2;
    }
    snprintf(host, sizeof host, "%.200s:%.20s", argv[1], argv[2]);
    memset(&secure, 0, sizeof secure);
    secure.under = tw_tcp_transport(&tcp, argv[1], argv[2]);
    secure.host = host;
    secure.path = argv[3];
    secure.random = random_bytes;
    config.connect.client_id = tw_str("attic-sensor");
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    config.subscriptions = tw_lend(subscriptions, sizeof subscriptions);
    result = tw_link_init(&link, &config, websocket_transport(&socket, &secure), on_event, NULL);
    if (result == 0) {
        result = tw_link_connect(&link, PATIENCE_MS);
    }
    if (result == 0) {
        result = tw_link_subscribe(&link, "sensors/attic/#", TW_AT_LEAST_ONCE, PATIENCE_MS, NULL);
    }
    if (result == 0) {
        result = tw_link_publish(&link, &message, PATIENCE_MS);
    }
    while (result == 0 && heard == 0) {
        result = tw_link_step(&link, PATIENCE_MS);
    }
    if (result < 0) {
        fprintf(stderr, "%s (HTTP %d) [%s]\n", tw_error_text(result), socket.status, tw_error_name(result));
    }
    tw_link_disconnect(&link);
    puts(result == 0 && heard == sizeof reading ? "acknowledged" : "not acknowledged");
    return result == 0 && heard == sizeof reading ? 0 : 1;
}
