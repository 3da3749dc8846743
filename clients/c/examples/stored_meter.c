/*
 * A meter with persistent readings: each is in a file as soon as it is taken, and is published once, however often the meter or its
 * server loses power. On a board, use a driver of its flash in place of flash_file.
 *
 *     stored_meter HOST PORT FILE [READINGS]
 *
 *     cc stored_meter.c flash_file.c flash_log.c tautwire.c
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "flash_file.h"

#define SECTOR_BYTES 65536u
#define ONE_DAY_S 86400u

static uint8_t receive[1024], transmit[1024], outbox[32768];
static uint16_t incoming[8];

static int complain(const char *what, tw_result error) {
    fprintf(stderr, "%s: %s [%s]\n", what, tw_error_text(error), tw_error_name(error));
    return 1;
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
    int reading, count = argc > 4 ? atoi(argv[4]) : 10;
    if (argc < 4) {
        fprintf(stderr, "usage: %s HOST PORT FILE [READINGS]\n", argv[0]);
        return 2;
    }
    if ((result = flash_file_open(&file, argv[3], SECTOR_BYTES, &driver)) < 0 ||
        (result = flash_log_open(&log, &driver)) < 0) {
        return complain(argv[3], result);
    }
    store = flash_log_store(&log);
    config.store = &store;
    config.connect.client_id = tw_str("meter-7");
    /* The longest power failure after which a reading is still published exactly once. */
    config.session_expiry_s = ONE_DAY_S;
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    config.incoming = incoming;
    config.incoming_count = sizeof incoming / sizeof incoming[0];
    result = tw_link_init(&link, &config, tw_tcp_transport(&tcp, argv[1], argv[2]), NULL, NULL);
    if (result < 0) {
        return complain("the meter cannot start", result);
    }
    for (reading = 1; reading <= count; reading++) {
        char text[16];
        tw_publish message;
        snprintf(text, sizeof text, "%d", reading);
        message = tw_message(tw_str("meters/7/energy"), tw_str(text), TW_EXACTLY_ONCE);
        /* With or without a connection: the reading is safe when this returns 0. */
        result = tw_client_publish(&link.client, &message, NULL);
        if (result < 0) {
            return complain("a reading is lost", result);
        }
        result = tw_link_step(&link, 100);
        if (result < 0) {
            return complain("the server", result);
        }
    }
    /* Readings that have not arrived by now are sent by the next run. */
    result = tw_link_flush(&link, 10000);
    printf("%s, %u erases\n", result == 0 ? "all readings have arrived" : "some readings wait", (unsigned)log.erases);
    tw_link_disconnect(&link);
    flash_file_close(&file);
    return 0;
}
