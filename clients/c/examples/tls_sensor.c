/*
 * A sensor over TLS: a reading is published, acknowledged and received back, over two connections. With the certificates of `tautwire
 * cert`:
 *
 *     tls_sensor localhost 8883 tls/ca.pem [cert=FILE key=FILE revoked=FILE name=NAME alpn=PROTOCOL]
 *
 * Exits with 0 if the broker has the reading; otherwise it prints the TLS error.
 */
#include <stdio.h>

#include "tls.h"

#define PATIENCE_MS 10000u

typedef struct sensor {
    uint8_t receive[4096], transmit[4096], outbox[4096];
    uint16_t incoming[8];
    uint8_t subscriptions[128];
    size_t heard;
} sensor;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    sensor *s = (sensor *)user;
    (void)link;
    if (event->type == TW_EVENT_MESSAGE) {
        s->heard = event->message.payload.len;
    }
}

/* The value of an argument KEY=VALUE, or NULL. */
static const char *option(int argc, char **argv, const char *key) {
    size_t len = strlen(key);
    int at;
    for (at = 4; at < argc; at++) {
        if (strncmp(argv[at], key, len) == 0 && argv[at][len] == '=') {
            return argv[at] + len + 1;
        }
    }
    return NULL;
}

/* Publishes a reading and receives it back. */
static tw_result exchange(tw_link *link, sensor *s) {
    static char reading[3000];
    tw_publish message = tw_message(tw_str("sensors/cellar/raw"), tw_str(""), TW_AT_LEAST_ONCE);
    uint32_t start_ms = link->transport.now_ms(link->transport.context);
    tw_result result;
    s->heard = 0;
    memset(reading, 'x', sizeof reading);
    message.payload.data = (const uint8_t *)reading;
    message.payload.len = sizeof reading;
    result = tw_link_subscribe(link, "sensors/cellar/#", TW_AT_LEAST_ONCE, PATIENCE_MS, NULL);
    if (result == 0) {
        result = tw_link_publish(link, &message, PATIENCE_MS);
    }
    while (result == 0 && s->heard == 0 && link->transport.now_ms(link->transport.context) - start_ms < PATIENCE_MS) {
        result = tw_link_step(link, 100);
    }
    if (result == 0 && s->heard != sizeof reading) {
        result = TW_UNACKNOWLEDGED;
    }
    return result == 0 ? tw_link_flush(link, PATIENCE_MS) : result;
}

int main(int argc, char **argv) {
    static sensor s;
    static tw_link link;
    char message[400];
    tls_config secure;
    tls *connection;
    tw_result result;
    tw_client_config config = tw_client_defaults();
    if (argc < 4) {
        fprintf(stderr, "usage: %s HOST PORT CA_FILE [KEY=VALUE]...\n", argv[0]);
        return 2;
    }
    secure.host = argv[1];
    secure.port = argv[2];
    secure.ca_file = argv[3];
    secure.server_name = option(argc, argv, "name");
    secure.certificate_file = option(argc, argv, "cert");
    secure.key_file = option(argc, argv, "key");
    secure.revoked_file = option(argc, argv, "revoked");
    secure.alpn = option(argc, argv, "alpn");
    connection = tls_new(&secure, message, sizeof message);
    if (connection == NULL) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    config.connect.client_id = tw_str("cellar-sensor");
    config.receive = tw_lend(s.receive, sizeof s.receive);
    config.transmit = tw_lend(s.transmit, sizeof s.transmit);
    config.outbox = tw_lend(s.outbox, sizeof s.outbox);
    config.subscriptions = tw_lend(s.subscriptions, sizeof s.subscriptions);
    config.incoming = s.incoming;
    config.incoming_count = sizeof s.incoming / sizeof s.incoming[0];
    result = tw_link_init(&link, &config, tls_transport(connection), on_event, &s);
    if (result == 0) {
        result = tw_link_connect(&link, PATIENCE_MS);
    }
    if (result == 0) {
        result = exchange(&link, &s);
    }
    if (result == 0) {
        /* The line is cut, and the link reconnects with another handshake. */
        tw_link_cut(&link);
        result = tw_link_connect(&link, PATIENCE_MS);
    }
    if (result == 0) {
        result = exchange(&link, &s);
    }
    if (result < 0 && tls_error(connection)[0] != '\0') {
        fprintf(stderr, "%s\n", tls_error(connection));
    } else if (result < 0) {
        fprintf(stderr, "%s [%s]\n", tw_error_text(result), tw_error_name(result));
    }
    tw_link_disconnect(&link);
    tls_free(connection);
    puts(result == 0 ? "acknowledged" : "not acknowledged");
    return result == 0 ? 0 : 1;
}
