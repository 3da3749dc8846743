/*
 * A client that proves its password by SCRAM: `scram HOST PORT USER 256|512`, with the password in the environment variable
 * PASSWORD. It publishes, authenticates again on the same connection, and once more after the line was cut. Build with
 * -DTW_SCRAM=512.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tautwire.h"

/* If there is no such file, use the hardware's random generator. */
static tw_result random_bytes(void *context, uint8_t *to, size_t len) {
    FILE *file = fopen("/dev/urandom", "rb");
    size_t count = file == NULL ? 0 : fread(to, 1, len, file);
    (void)context;
    if (file != NULL) {
        fclose(file);
    }
    return count == len ? 0 : (tw_result)TW_SCRAM_CREDENTIALS;
}

static bool has_proved_again;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    if (event->type == TW_EVENT_AUTH) {
        has_proved_again = true;
    }
}

static tw_result publish(tw_link *link) {
    tw_publish message = tw_message(tw_str("demo/scram"), tw_str("hi"), TW_AT_LEAST_ONCE);
    return tw_link_publish(link, &message, 10000);
}

int main(int argc, char **argv) {
    static uint8_t receive[1024], transmit[1024], outbox[1024], space[512];
    const char *password = getenv("PASSWORD");
    tw_client_config config = tw_client_defaults();
    tw_authenticator authenticator;
    tw_scram scram;
    tw_tcp tcp;
    tw_link link;
    tw_result result;
    int turns;

    if (argc != 5 || password == NULL) {
        fprintf(stderr, "write: PASSWORD=... scram HOST PORT USER 256|512\n");
        return 2;
    }
    tw_scram_init(&scram, strcmp(argv[4], "512") == 0 ? &tw_sha512 : &tw_sha256, tw_str(argv[3]), tw_str(password),
                  random_bytes, NULL);
    authenticator = tw_scram_authenticator(&scram, tw_lend(space, sizeof space));
    config.authenticator = &authenticator;
    config.connect.client_id = tw_str("scram-example");
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);

    result = tw_link_init(&link, &config, tw_tcp_transport(&tcp, argv[1], argv[2]), on_event, NULL);
    if (result == 0) {
        result = tw_link_connect(&link, 10000);
    }
    if (result == 0) {
        result = tw_client_reauthenticate(&link.client);
    }
    /* Messages flow meanwhile. */
    for (turns = 0; result == 0 && !has_proved_again && turns < 100; turns++) {
        result = publish(&link);
    }
    if (result == 0) {
        tw_link_cut(&link);
        /* The keys are cached: this costs no iterations. */
        result = tw_link_connect(&link, 10000);
    }
    if (result == 0) {
        result = publish(&link);
    }
    if (result < 0) {
        fprintf(stderr, "%s (0x%02x) [%s]\n", tw_error_text(result), (unsigned)tw_link_reason(&link), tw_error_name(result));
        return 1;
    }
    puts(has_proved_again ? "proved, proved again, and come back" : "the server has not answered");
    tw_link_disconnect(&link);
    return has_proved_again ? 0 : 1;
}
