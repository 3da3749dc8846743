/* paho.mqtt.c without its thread, which is faster: see bench/results of the C library. */
#include <MQTTClient.h>
#include <stdio.h>

#include "driver.h"

#define TIMEOUT_MS 10000

static MQTTClient client;
static int qos;

void library_connect(const char *host, const char *port, const char *client_id, int level) {
    MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer;
    char url[128];
    snprintf(url, sizeof url, "tcp://%s:%s", host, port);
    options.cleansession = 1;
    options.keepAliveInterval = 0;
    options.reliable = 0;
    options.MQTTVersion = MQTTVERSION_3_1_1;
    qos = level;
    if (MQTTClient_create(&client, url, client_id, MQTTCLIENT_PERSISTENCE_NONE, NULL) != MQTTCLIENT_SUCCESS ||
        MQTTClient_connect(client, &options) != MQTTCLIENT_SUCCESS) {
        die("no connection");
    }
}

void library_subscribe(const char *filter) {
    if (MQTTClient_subscribe(client, filter, qos) != MQTTCLIENT_SUCCESS) {
        die("not subscribed");
    }
}

void library_publish(const char *topic, const void *payload, size_t len) {
    if (MQTTClient_publish(client, topic, (int)len, payload, qos, 0, NULL) != MQTTCLIENT_SUCCESS) {
        die("not published");
    }
}

void library_step(void) {
    char *topic = NULL;
    int topic_len, status;
    MQTTClient_message *message = NULL;
    status = MQTTClient_receive(client, &topic, &topic_len, &message, TIMEOUT_MS);
    if (status != MQTTCLIENT_SUCCESS && status != MQTTCLIENT_TOPICNAME_TRUNCATED) {
        die("the connection is over");
    }
    if (message != NULL) {
        on_message(message->payload, (size_t)message->payloadlen);
        MQTTClient_freeMessage(&message);
        MQTTClient_free(topic);
    }
}
