/*
 * A sensor by TLS: a reading goes out, is acknowledged and comes back, over two connections. With the certificates of `tautwire cert`:
 *
 *     tls_sensor localhost 8883 tls/ca.pem [cert=FILE key=FILE revoked=FILE name=NAME alpn=PROTOCOL]
 *
 * Ends with 0 if the broker has the reading; otherwise it says what is wrong with TLS.
 */
#include <stdio.h>

#include "tls.h"

#define PATIENCE_MS 10000u

typedef struct sensor {
    uint8_t receive[4096], transmit[4096], outbox[4096];
    uint16_t incoming[8];
    size_t heard;
    bool has_failed;
} sensor;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    sensor *s = (sensor *)user;
    (void)link;
    if (event->type == TW_EVENT_MESSAGE) {
        s->heard = event->message.payload.len;
    } else if (event->type == TW_EVENT_CLOSED) {
        s->has_failed = true;
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

/* A reading of some size, out and back again. */
static bool exchange(tw_link *link, sensor *s) {
    static char reading[3000];
    tw_publish message = tw_message(tw_str("sensors/cellar/raw"), tw_str(""), TW_AT_LEAST_ONCE);
    uint32_t start_ms = link->transport.now_ms(link->transport.context);
    s->heard = 0;
    memset(reading, 'x', sizeof reading);
    message.payload.data = (const uint8_t *)reading;
    message.payload.len = sizeof reading;
    if (tw_link_subscribe(link, "sensors/cellar/#", TW_AT_LEAST_ONCE, PATIENCE_MS) != 1 ||
        tw_link_publish(link, &message, PATIENCE_MS) != 0) {
        return false;
    }
    while (s->heard == 0 && link->transport.now_ms(link->transport.context) - start_ms < PATIENCE_MS) {
        tw_link_step(link, 100);
    }
    return s->heard == sizeof reading && tw_link_flush(link, PATIENCE_MS) == 0;
}

int main(int argc, char **argv) {
    static sensor s;
    static tw_link link;
    char message[200];
    tls_config secure;
    tls *connection;
    bool is_done = false;
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
    config.incoming = s.incoming;
    config.incoming_count = sizeof s.incoming / sizeof s.incoming[0];
    if (tw_link_init(&link, &config, tls_transport(connection), on_event, &s) == 0) {
        uint32_t start_ms = link.transport.now_ms(link.transport.context);
        /* A link goes on trying by itself; this program wants to know why the first attempt has failed. */
        while (!s.has_failed && link.transport.now_ms(link.transport.context) - start_ms < PATIENCE_MS) {
            if (tw_link_connect(&link, 0) == 0) {
                is_done = exchange(&link, &s);
                /* The line is cut, and the link comes back by another handshake. */
                tw_link_cut(&link);
                is_done = is_done && tw_link_connect(&link, PATIENCE_MS) == 0 && exchange(&link, &s);
                break;
            }
            tw_link_step(&link, 50);
        }
    }
    if (!is_done) {
        fprintf(stderr, "%s\n", tls_error(connection)[0] == '\0' ? "no connection" : tls_error(connection));
    }
    tw_link_disconnect(&link);
    tls_free(connection);
    puts(is_done ? "acknowledged" : "not acknowledged");
    return is_done ? 0 : 1;
}
