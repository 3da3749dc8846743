/*
 * A client with a file store, which with_store.py kills at any time. It prints which messages are safe, and which have
 * arrived.
 *
 *     store_agent HOST PORT FILE publish FIRST    publishes numbers from FIRST on, alternating between QoS 1 and 2: `safe NUMBER`
 *     store_agent HOST PORT FILE drain            publishes the rest, and exits
 *     store_agent HOST PORT FILE subscribe        `subscribed`, and `message NUMBER` for each that arrives
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "../examples/flash_file.h"

/* Small, so that the log is restarted often. */
#define SECTOR_BYTES 4096u
#define DRAIN_MS 60000u

static uint8_t receive[4096], transmit[1024], outbox[4096];
static uint16_t incoming[8];

static void say(const char *word, tw_bytes number) {
    printf("%s %.*s\n", word, (int)number.len, (const char *)number.data);
    fflush(stdout);
}

static void fail(const char *what, tw_result result) {
    fprintf(stderr, "%s: %s\n", what, tw_error_name(result));
    exit(1);
}

static void on_event(void *user, tw_link *link, const tw_event *event) {
    tw_bytes payload = event->message.payload;
    const bool *is_subscriber = (const bool *)user;
    if (event->type == TW_EVENT_CONNECTED && *is_subscriber && !event->session_present) {
        tw_subscription all = tw_filter(tw_str("kill/#"), TW_EXACTLY_ONCE);
        tw_properties none = {NULL, 0};
        tw_result result = tw_client_subscribe(&link->client, &all, 1, none, NULL);
        if (result < 0) {
            fail("subscribe", result);
        }
    } else if (event->type == TW_EVENT_SUBSCRIBED) {
        say("subscribed", tw_str("kill/#"));
    } else if (event->type == TW_EVENT_MESSAGE) {
        while (payload.len > 0 && payload.data[payload.len - 1] == '.') {
            payload.len--;
        }
        say("message", payload);
    } else if (event->type == TW_EVENT_PUBLISHED && event->error != 0) {
        fail("published", event->error);
    }
}

static void publish_from(tw_link *link, long number) {
    for (;;) {
        char payload[200];
        size_t digits = (size_t)sprintf(payload, "%ld", number), len = digits + (size_t)(number * 37 % 120);
        tw_publish message;
        tw_result result;
        memset(payload + digits, '.', sizeof payload - digits);
        message = tw_message(tw_str("kill/meter"), tw_view(payload, len), number % 2 == 0 ? TW_EXACTLY_ONCE : TW_AT_LEAST_ONCE);
        result = tw_client_publish(&link->client, &message, NULL);
        if (result == 0) {
            say("safe", tw_view(payload, digits));
            number++;
        } else if (result != TW_OUTBOX_FULL) {
            fail("publish", result);
        }
        if ((result = tw_link_step(link, result == 0 ? 0 : 100)) < 0) {
            fail("step", result);
        }
    }
}

int main(int argc, char **argv) {
    tw_client_config config = tw_client_defaults();
    flash_file file;
    flash_driver driver;
    flash_log log;
    tw_store store;
    tw_tcp tcp;
    tw_link link;
    tw_result result;
    bool is_subscriber;
    if (argc < 5) {
        return 2;
    }
    is_subscriber = strcmp(argv[4], "subscribe") == 0;
    if ((result = flash_file_open(&file, argv[3], SECTOR_BYTES, &driver)) < 0 ||
        (result = flash_log_open(&log, &driver)) < 0) {
        fail("open", result);
    }
    store = flash_log_store(&log);
    config.store = &store;
    config.connect.client_id = tw_str(is_subscriber ? "reader" : "meter");
    config.session_expiry_s = 3600;
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    config.incoming = incoming;
    config.incoming_count = sizeof incoming / sizeof incoming[0];
    if ((result = tw_link_init(&link, &config, tw_tcp_transport(&tcp, argv[1], argv[2]), on_event, &is_subscriber)) < 0) {
        fail("init", result);
    }
    link.retry_min_ms = 10;
    link.retry_max_ms = 50;
    if (argc > 5) {
        publish_from(&link, atol(argv[5]));
    }
    if (is_subscriber) {
        while ((result = tw_link_step(&link, 1000)) == 0) {
        }
        fail("step", result);
    }
    if ((result = tw_link_flush(&link, DRAIN_MS)) < 0) {
        fail("flush", result);
    }
    tw_link_cut(&link);
    flash_file_close(&file);
    return 0;
}
