/*
 * Requests and responses (MQTT 5.0): a thermostat answers, and a panel sends requests.
 *
 *     thermostat HOST PORT serve [REQUESTS]     answers that many requests, then exits
 *     thermostat HOST PORT ask DEGREES          asks for a temperature, and prints what the thermostat says
 */
#include <stdio.h>
#include <stdlib.h>

#include "tautwire.h"

#define TOPIC "thermostats/hall/target"
#define PATIENCE_MS 10000u

typedef struct place {
    uint8_t receive[1024], transmit[1024], outbox[2048], subscriptions[256], work[256];
    uint16_t incoming[4];
    int answered;
} place;

/* If there is no such file, use the hardware's random generator. */
static bool random_bytes(uint8_t *to, size_t len) {
    FILE *file = fopen("/dev/urandom", "rb");
    size_t count = file == NULL ? 0 : fread(to, 1, len, file);
    if (file != NULL) {
        fclose(file);
    }
    return count == len;
}

static void on_event(void *user, tw_link *link, const tw_event *event) {
    place *p = (place *)user;
    char text[16] = "";
    tw_memory work = tw_lend(p->work, sizeof p->work);
    size_t len = event->message.payload.len;
    if (event->type == TW_EVENT_CLOSED) {
        fprintf(stderr, "%s [%s]\n", tw_error_text(event->error), tw_error_name(event->error));
        return;
    }
    if (event->type != TW_EVENT_MESSAGE || !tw_topic_matches(tw_str(TOPIC), event->message.topic)) {
        return;
    }
    if (len > 0 && len < sizeof text) {
        memcpy(text, event->message.payload.data, len);
    }
    if (strtod(text, NULL) < 5 || strtod(text, NULL) > 30) {
        (void)tw_respond_failure(&link->client, &event->message, "the hall can be heated to 5 to 30 degrees", work);
    } else {
        (void)tw_respond(&link->client, &event->message, tw_str("heating"), work);
    }
    p->answered++;
}

/* Responses whose request has been abandoned. */
static void on_response(void *user, tw_requester *requester, const tw_response *response) {
    (void)user;
    (void)requester;
    (void)response;
}

static tw_result serve(tw_link *link, const place *p, int requests) {
    tw_result result = tw_link_subscribe(link, TOPIC, TW_AT_LEAST_ONCE, PATIENCE_MS, NULL);
    if (result == 0) {
        puts("serving");
        fflush(stdout);
    }
    while (result == 0 && p->answered != requests) {
        result = tw_link_step(link, 1000);
    }
    return result == 0 ? tw_link_flush(link, PATIENCE_MS) : result;
}

static tw_result ask(tw_link *link, const char *degrees) {
    static tw_request places[2];
    static uint8_t memory[256];
    static char answer[128];
    uint8_t random[TW_REQUESTER_RANDOM_BYTES];
    tw_requester requester;
    tw_requester_config config;
    tw_publish request = tw_message(tw_str(TOPIC), tw_str(degrees), TW_AT_LEAST_ONCE);
    tw_response response;
    tw_result result;
    if (!random_bytes(random, sizeof random)) {
        return TW_ARGUMENT;
    }
    memset(&config, 0, sizeof config);
    config.client = &link->client;
    config.places = places;
    config.count = 2;
    config.memory = tw_lend(memory, sizeof memory);
    config.random = random;
    config.on_response = on_response;
    result = tw_requester_init(&requester, &config);
    if (result == 0) {
        link->requester = &requester;
        result = tw_link_request(link, &request, PATIENCE_MS, tw_lend(answer, sizeof answer), &response);
        link->requester = NULL;
    }
    if (result == 0) {
        printf("%.*s\n", (int)response.payload.len, (const char *)response.payload.data);
    } else if (result == TW_REQUEST_FAILED) {
        printf("%.*s\n", (int)response.sentence.len, (const char *)response.sentence.data);
    }
    return result;
}

int main(int argc, char **argv) {
    static place p;
    static tw_link link;
    tw_tcp tcp;
    tw_client_config config = tw_client_defaults();
    tw_result result;
    bool is_server = argc > 3 && strcmp(argv[3], "serve") == 0;
    if (argc < 4 || (!is_server && argc < 5)) {
        fprintf(stderr, "usage: %s HOST PORT serve [REQUESTS] | ask DEGREES\n", argv[0]);
        return 2;
    }
    config.connect.client_id = is_server ? tw_str("hall-thermostat") : tw_str("hall-panel");
    config.receive = tw_lend(p.receive, sizeof p.receive);
    config.transmit = tw_lend(p.transmit, sizeof p.transmit);
    config.outbox = tw_lend(p.outbox, sizeof p.outbox);
    config.subscriptions = tw_lend(p.subscriptions, sizeof p.subscriptions);
    config.incoming = p.incoming;
    config.incoming_count = sizeof p.incoming / sizeof p.incoming[0];
    result = tw_link_init(&link, &config, tw_tcp_transport(&tcp, argv[1], argv[2]), on_event, &p);
    if (result == 0) {
        result = tw_link_connect(&link, PATIENCE_MS);
    }
    if (result == 0) {
        result = is_server ? serve(&link, &p, argc > 4 ? atoi(argv[4]) : -1) : ask(&link, argv[4]);
    }
    if (result < 0) {
        fprintf(stderr, "%s [%s]\n", tw_error_text(result), tw_error_name(result));
    }
    tw_link_disconnect(&link);
    return result == 0 ? 0 : 1;
}
