/*
 * Round trips through a broker: publish to a topic with a subscription of the same client, wait for the message, repeat.
 *
 *     round_trip LIBRARY HOST PORT QOS COUNT
 *     round_trip                                 the libraries that it was built with
 *
 * Prints `WALL_NS CPU_NS` for COUNT round trips, after a tenth as many for warm-up. CPU_NS is that of this process, all
 * threads. Each library is used in its fastest way: libmosquitto and this one in one thread, paho in both of its modes.
 */
#define _POSIX_C_SOURCE 200809L
#if WITH_PAHO
#include <MQTTClient.h>
#endif
#if WITH_MOSQUITTO
#include <mosquitto.h>
#endif
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "stopwatch.h"
#include "tautwire.h"

#define PAYLOAD_BYTES 64
#define TIMEOUT_MS 10000

static const char *host, *port;
static int qos;
static char topic[64], client_id[32];
static uint8_t payload[PAYLOAD_BYTES];
static volatile long arrived;

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Tautwire. */

static tw_link link_;
static tw_tcp tcp;

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    if (event->type == TW_EVENT_MESSAGE) {
        arrived++;
    }
}

static void tautwire_start(void) {
    static uint8_t receive[16384], transmit[16384], outbox[16384];
    static uint16_t incoming[64];
    tw_client_config config = tw_client_defaults();
    config.connect.version = TW_V3_1_1;
    config.connect.client_id = tw_str(client_id);
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    config.incoming = incoming;
    config.incoming_count = 64;
    if (tw_link_init(&link_, &config, tw_tcp_transport(&tcp, host, port), on_event, NULL) != 0 ||
        tw_link_connect(&link_, TIMEOUT_MS) != 0 || tw_link_subscribe(&link_, topic, (tw_qos)qos, TIMEOUT_MS, NULL) != 0) {
        die("tautwire: no connection");
    }
}

static void tautwire_once(long number) {
    tw_publish message = tw_message(tw_str(topic), tw_view(payload, sizeof payload), (tw_qos)qos);
    if (tw_client_publish(&link_.client, &message, NULL) < 0) {
        die("tautwire: publish");
    }
    while (arrived <= number) {
        tw_link_step(&link_, TIMEOUT_MS);
    }
}

#if WITH_MOSQUITTO
/* libmosquitto. */

static struct mosquitto *mosq;
static bool is_subscribed;

static void on_mosquitto_message(struct mosquitto *m, void *user, const struct mosquitto_message *message) {
    (void)m;
    (void)user;
    (void)message;
    arrived++;
}

static void on_mosquitto_connect(struct mosquitto *m, void *user, int code) {
    (void)user;
    if (code != 0 || mosquitto_subscribe(m, NULL, topic, qos) != MOSQ_ERR_SUCCESS) {
        die("libmosquitto: no connection");
    }
}

static void on_mosquitto_subscribe(struct mosquitto *m, void *user, int id, int count, const int *granted) {
    (void)m;
    (void)user;
    (void)id;
    (void)count;
    (void)granted;
    is_subscribed = true;
}

static void mosquitto_turn(void) {
    if (mosquitto_loop(mosq, TIMEOUT_MS, 1) != MOSQ_ERR_SUCCESS) {
        die("libmosquitto: loop");
    }
}

static void libmosquitto_start(void) {
    mosquitto_lib_init();
    mosq = mosquitto_new(client_id, true, NULL);
    mosquitto_int_option(mosq, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_message_callback_set(mosq, on_mosquitto_message);
    mosquitto_connect_callback_set(mosq, on_mosquitto_connect);
    mosquitto_subscribe_callback_set(mosq, on_mosquitto_subscribe);
    if (mosquitto_connect(mosq, host, atoi(port), 60) != MOSQ_ERR_SUCCESS) {
        die("libmosquitto: no connection");
    }
    while (!is_subscribed) {
        mosquitto_turn();
    }
}

static void libmosquitto_once(long number) {
    if (mosquitto_publish(mosq, NULL, topic, PAYLOAD_BYTES, payload, qos, false) != MOSQ_ERR_SUCCESS) {
        die("libmosquitto: publish");
    }
    while (arrived <= number) {
        mosquitto_turn();
    }
}

#endif

#if WITH_PAHO
/* paho.mqtt.c, with its thread and callbacks, and without. */

static MQTTClient paho;
static sem_t paho_arrived;

static int on_paho_message(void *user, char *name, int name_len, MQTTClient_message *message) {
    (void)user;
    (void)name_len;
    MQTTClient_freeMessage(&message);
    MQTTClient_free(name);
    arrived++;
    sem_post(&paho_arrived);
    return 1;
}

static void on_paho_lost(void *user, char *cause) {
    (void)user;
    (void)cause;
    die("paho: connection lost");
}

static void paho_connect(bool with_callbacks) {
    MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer;
    char url[128];
    snprintf(url, sizeof url, "tcp://%s:%s", host, port);
    sem_init(&paho_arrived, 0, 0);
    options.cleansession = 1;
    options.reliable = 0;
    options.MQTTVersion = MQTTVERSION_3_1_1;
    if (MQTTClient_create(&paho, url, client_id, MQTTCLIENT_PERSISTENCE_NONE, NULL) != MQTTCLIENT_SUCCESS ||
        (with_callbacks &&
         MQTTClient_setCallbacks(paho, NULL, on_paho_lost, on_paho_message, NULL) != MQTTCLIENT_SUCCESS) ||
        MQTTClient_connect(paho, &options) != MQTTCLIENT_SUCCESS ||
        MQTTClient_subscribe(paho, topic, qos) != MQTTCLIENT_SUCCESS) {
        die("paho: no connection");
    }
}

static void paho_start(void) {
    paho_connect(true);
}

static void paho_sync_start(void) {
    paho_connect(false);
}

static void paho_publish(void) {
    if (MQTTClient_publish(paho, topic, PAYLOAD_BYTES, payload, qos, 0, NULL) != MQTTCLIENT_SUCCESS) {
        die("paho: publish");
    }
}

static void paho_once(long number) {
    paho_publish();
    while (arrived <= number) {
        sem_wait(&paho_arrived);
    }
}

static void paho_sync_once(long number) {
    paho_publish();
    while (arrived <= number) {
        char *name = NULL;
        int name_len;
        MQTTClient_message *message = NULL;
        if (MQTTClient_receive(paho, &name, &name_len, &message, TIMEOUT_MS) != MQTTCLIENT_SUCCESS || message == NULL) {
            die("paho: receive");
        }
        MQTTClient_freeMessage(&message);
        MQTTClient_free(name);
        arrived++;
    }
}

#endif

static const struct library {
    const char *name;
    void (*start)(void);
    void (*once)(long number);
} LIBRARIES[] = {
    {"tautwire", tautwire_start, tautwire_once},
#if WITH_MOSQUITTO
    {"libmosquitto", libmosquitto_start, libmosquitto_once},
#endif
#if WITH_PAHO
    {"paho", paho_start, paho_once},
    {"paho_sync", paho_sync_start, paho_sync_once},
#endif
};

int main(int argc, char **argv) {
    const struct library *library = NULL;
    uint64_t wall, cpu;
    long count, i, warm;
    size_t n;
    if (argc == 1) {
        for (n = 0; n < sizeof LIBRARIES / sizeof LIBRARIES[0]; n++) {
            puts(LIBRARIES[n].name);
        }
        return 0;
    }
    if (argc != 6) {
        fprintf(stderr, "usage: %s LIBRARY HOST PORT QOS COUNT\n", argv[0]);
        return 2;
    }
    for (n = 0; n < sizeof LIBRARIES / sizeof LIBRARIES[0]; n++) {
        if (strcmp(LIBRARIES[n].name, argv[1]) == 0) {
            library = &LIBRARIES[n];
        }
    }
    if (library == NULL) {
        die("no such library");
    }
    host = argv[2];
    port = argv[3];
    qos = atoi(argv[4]);
    count = atol(argv[5]);
    warm = count / 10;
    snprintf(client_id, sizeof client_id, "bench-%d", (int)getpid());
    snprintf(topic, sizeof topic, "bench/round/trip/%s", client_id);
    memset(payload, 'p', sizeof payload);
    library->start();
    for (i = 0; i < warm; i++) {
        library->once(i);
    }
    wall = wall_ns();
    cpu = process_ns();
    for (i = warm; i < warm + count; i++) {
        library->once(i);
    }
    printf("%llu %llu\n", (unsigned long long)(wall_ns() - wall), (unsigned long long)(process_ns() - cpu));
    return 0;
}
