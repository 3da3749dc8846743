/*
 * Tests a broker with the paho C client, MQTT 3.1.1 and 5.0: `driver HOST PORT [CASE...]` or `driver --list`. With TAUTWIRE_TLS_CA it
 * connects over TLS, with TAUTWIRE_TLS_CERT and TAUTWIRE_TLS_KEY it uses a client certificate.
 *
 * Prints `ok NAME` or `FAIL NAME: reason` for each case, and exits with 1 if one has failed.
 */
#include <MQTTClient.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MESSAGES = 100,
    LARGE_PAYLOAD_BYTES = 1024 * 1024,
    CASE_TIMEOUT_MS = 60000,
    KEEP_ALIVE_S = 30,
    SESSION_EXPIRY_S = 300,
    NAME_MAX_BYTES = 128,
    REASON_MAX_BYTES = 256,
    /* The timeout of MQTTClient_receive(), which is called again until the deadline of the case. */
    RECEIVE_MS = 1000,
};

/* One run of one case. */
typedef struct {
    int version;
    char tag[32];
    struct timespec begun;
    char failure[REASON_MAX_BYTES];
    MQTTClient clients[4];
    int client_count;
    /* A message may be a duplicate. */
    bool may_repeat;
} Case;

static char url[NAME_MAX_BYTES];

/* Only the first failure is reported. */
__attribute__((format(printf, 2, 3))) static bool fail(Case *run, const char *format, ...)
{
    if (run->failure[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(run->failure, sizeof run->failure, format, arguments);
        va_end(arguments);
    }
    return false;
}

static bool check(Case *run, int code, const char *what)
{
    return code == MQTTCLIENT_SUCCESS || fail(run, "%s: %d, %s", what, code, MQTTClient_strerror(code));
}

static bool has_time(const Case *run)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - run->begun.tv_sec) * 1000 < CASE_TIMEOUT_MS;
}

static const char *topic(const Case *run, const char *suffix)
{
    static char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "interop/%s/%s", run->tag, suffix);
    return name;
}

static MQTTClient make(Case *run, const char *name)
{
    char id[NAME_MAX_BYTES];
    snprintf(id, sizeof id, "interop-%s-%s", run->tag, name);
    MQTTClient client = NULL;
    MQTTClient_createOptions options = MQTTClient_createOptions_initializer;
    options.MQTTVersion = run->version;
    if (check(run, MQTTClient_createWithOptions(&client, url, id, MQTTCLIENT_PERSISTENCE_NONE, NULL, &options), "create")) {
        run->clients[run->client_count++] = client;
    }
    return client;
}

/* Connects; returns the session present flag, or -1. */
static int connect_to(Case *run, MQTTClient client, bool clean, MQTTClient_willOptions *will)
{
    MQTTClient_SSLOptions tls = MQTTClient_SSLOptions_initializer;
    tls.trustStore = getenv("TAUTWIRE_TLS_CA");
    tls.keyStore = getenv("TAUTWIRE_TLS_CERT");
    tls.privateKey = getenv("TAUTWIRE_TLS_KEY");
    tls.verify = 1;

    MQTTClient_connectOptions v3 = MQTTClient_connectOptions_initializer;
    MQTTClient_connectOptions v5 = MQTTClient_connectOptions_initializer5;
    MQTTClient_connectOptions *options = run->version == MQTTVERSION_5 ? &v5 : &v3;
    options->keepAliveInterval = KEEP_ALIVE_S;
    options->MQTTVersion = run->version;
    options->will = will;
    /* Otherwise each message waits for the previous one, a tenth of a second. */
    options->reliable = 0;
    options->maxInflightMessages = MESSAGES;
    options->ssl = tls.trustStore != NULL ? &tls : NULL;
    if (run->version != MQTTVERSION_5) {
        options->cleansession = clean;
        int code = MQTTClient_connect(client, options);
        return check(run, code, "connect") ? options->returned.sessionPresent : -1;
    }
    options->cleanstart = clean;
    MQTTProperties properties = MQTTProperties_initializer;
    MQTTProperty expiry = {.identifier = MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL, .value.integer4 = SESSION_EXPIRY_S};
    if (!clean) {
        MQTTProperties_add(&properties, &expiry);
    }
    MQTTResponse response = MQTTClient_connect5(client, options, &properties, NULL);
    int code = (int)response.reasonCode;
    MQTTProperties_free(&properties);
    MQTTResponse_free(response);
    return check(run, code, "connect") ? options->returned.sessionPresent : -1;
}

static MQTTClient connected(Case *run, const char *name)
{
    MQTTClient client = make(run, name);
    return client != NULL && connect_to(run, client, true, NULL) >= 0 ? client : NULL;
}

static bool disconnect(Case *run, MQTTClient client)
{
    return check(run, MQTTClient_disconnect(client, RECEIVE_MS), "disconnect");
}

static bool subscribe(Case *run, MQTTClient client, const char *filter, int qos)
{
    int granted = qos;
    if (run->version == MQTTVERSION_5) {
        MQTTResponse response = MQTTClient_subscribe5(client, filter, qos, NULL, NULL);
        granted = (int)response.reasonCode;
        MQTTResponse_free(response);
    } else if (!check(run, MQTTClient_subscribe(client, filter, qos), "subscribe")) {
        return false;
    }
    return granted == qos || fail(run, "%s was granted with %d, not %d", filter, granted, qos);
}

/* Publishes, and waits for the end of the exchange if `waits`: the client checks ten times a second, so only the last of many messages is
 * waited for. */
static bool publish(Case *run, MQTTClient client, const char *to, const void *payload, int bytes, int qos, bool retained,
                    MQTTProperties *properties, bool waits)
{
    MQTTClient_message message = MQTTClient_message_initializer;
    message.payload = (void *)(size_t)payload;
    message.payloadlen = bytes;
    message.qos = qos;
    message.retained = retained;
    MQTTClient_deliveryToken token = 0;
    if (run->version == MQTTVERSION_5) {
        if (properties != NULL) {
            message.properties = *properties;
        }
        MQTTResponse response = MQTTClient_publishMessage5(client, to, &message, &token);
        int code = (int)response.reasonCode;
        MQTTResponse_free(response);
        if (code < 0 || code >= 0x80) {
            return fail(run, "publish: %d", code);
        }
    } else if (!check(run, MQTTClient_publishMessage(client, to, &message, &token), "publish")) {
        return false;
    }
    return qos == 0 || !waits || check(run, MQTTClient_waitForCompletion(client, token, CASE_TIMEOUT_MS), "acknowledgement");
}

/* Receives the next message, with this topic and payload; the caller frees it if `kept` is given. */
static bool receive(Case *run, MQTTClient client, const char *from, const void *payload, int bytes, int qos, bool retained,
                    MQTTClient_message **kept)
{
    char *name = NULL;
    int name_bytes = 0;
    MQTTClient_message *message = NULL;
    while (message == NULL) {
        if (!has_time(run)) {
            return fail(run, "timed out waiting for a message on %s", from);
        }
        int code = MQTTClient_receive(client, &name, &name_bytes, &message, RECEIVE_MS);
        if (code != MQTTCLIENT_SUCCESS && code != MQTTCLIENT_TOPICNAME_TRUNCATED) {
            return check(run, code, "receive");
        }
    }
    bool right = true;
    if (strcmp(name, from) != 0) {
        right = fail(run, "topic %s, not %s", name, from);
    } else if (message->payloadlen != bytes || memcmp(message->payload, payload, (size_t)bytes) != 0) {
        right = fail(run, "%s: another payload of %d bytes", from, message->payloadlen);
    } else if (message->qos != qos || message->retained != (int)retained || (message->dup != 0 && !run->may_repeat)) {
        right = fail(run, "%s: QoS %d, retain %d, DUP %d", from, message->qos, message->retained, message->dup);
    }
    MQTTClient_free(name);
    if (kept != NULL && right) {
        *kept = message;
    } else {
        MQTTClient_freeMessage(&message);
    }
    return right;
}

/* Nothing has been sent to this client: a message that is published now is the first to arrive. */
static bool expect_nothing(Case *run, MQTTClient client, MQTTClient publisher)
{
    char fence[NAME_MAX_BYTES];
    snprintf(fence, sizeof fence, "%s", topic(run, "fence"));
    return subscribe(run, client, fence, 1) && publish(run, publisher, fence, "f", 1, 1, false, NULL, true) &&
           receive(run, client, fence, "f", 1, 1, false, NULL);
}

static void round_trips(Case *run, int qos)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", topic(run, "a"));
    MQTTClient subscriber = connected(run, "subscriber"), publisher = connected(run, "publisher");
    if (subscriber == NULL || publisher == NULL || !subscribe(run, subscriber, name, qos)) {
        return;
    }
    for (int number = 0; number < MESSAGES; number++) {
        if (!publish(run, publisher, name, &number, sizeof number, qos, false, NULL, number + 1 == MESSAGES)) {
            return;
        }
    }
    for (int number = 0; number < MESSAGES; number++) {
        if (!receive(run, subscriber, name, &number, sizeof number, qos, false, NULL)) {
            return;
        }
    }
    expect_nothing(run, subscriber, publisher);
}

static void qos0_roundtrip(Case *run)
{
    round_trips(run, 0);
}

static void qos1_roundtrip(Case *run)
{
    round_trips(run, 1);
}

static void qos2_roundtrip(Case *run)
{
    round_trips(run, 2);
}

static void large_payload(Case *run)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", topic(run, "large"));
    unsigned char *payload = malloc(LARGE_PAYLOAD_BYTES);
    if (payload == NULL) {
        fail(run, "no memory");
        return;
    }
    srand((unsigned)time(NULL));
    for (int at = 0; at < LARGE_PAYLOAD_BYTES; at++) {
        payload[at] = (unsigned char)rand();
    }
    MQTTClient subscriber = connected(run, "subscriber"), publisher = connected(run, "publisher");
    bool right = subscriber != NULL && publisher != NULL && subscribe(run, subscriber, name, 2);
    for (int qos = 0; right && qos <= 2; qos++) {
        right = publish(run, publisher, name, payload, LARGE_PAYLOAD_BYTES, qos, false, NULL, true) &&
                receive(run, subscriber, name, payload, LARGE_PAYLOAD_BYTES, qos, false, NULL);
    }
    free(payload);
}

static void retained_on_subscribe(Case *run)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", topic(run, "kept"));
    MQTTClient live = connected(run, "live"), later = connected(run, "later"), publisher = connected(run, "publisher");
    (void)(live != NULL && later != NULL && publisher != NULL && subscribe(run, live, name, 1) &&
           publish(run, publisher, name, "kept", 4, 1, true, NULL, true) && receive(run, live, name, "kept", 4, 1, false, NULL) &&
           subscribe(run, later, name, 1) && receive(run, later, name, "kept", 4, 1, true, NULL) &&
           publish(run, publisher, name, "", 0, 1, true, NULL, true));
}

/* Only QoS 1: QoS 2 messages are delivered when their exchange ends, so that others overtake them. */
static void persistent_session(Case *run)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", topic(run, "away"));
    MQTTClient publisher = connected(run, "publisher"), subscriber = make(run, "subscriber");
    if (publisher == NULL || subscriber == NULL) {
        return;
    }
    if (connect_to(run, subscriber, false, NULL) != 0) {
        fail(run, "a session was there before");
        return;
    }
    if (!subscribe(run, subscriber, name, 2) || !disconnect(run, subscriber)) {
        return;
    }
    /* The broker may read from the publisher first, and DISCONNECT after that. */
    run->may_repeat = true;
    for (int number = 0; number < MESSAGES; number++) {
        if (!publish(run, publisher, name, &number, sizeof number, 1, false, NULL, number + 1 == MESSAGES)) {
            return;
        }
    }
    /* In 5.0 the client does not report it. */
    int present = run->version == MQTTVERSION_5 ? 0 : 1;
    if (connect_to(run, subscriber, false, NULL) != present) {
        fail(run, "the session is not present");
        return;
    }
    for (int number = 0; number < MESSAGES; number++) {
        if (!receive(run, subscriber, name, &number, sizeof number, 1, false, NULL)) {
            return;
        }
    }
    expect_nothing(run, subscriber, publisher);
}

static void no_will_on_disconnect(Case *run)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", topic(run, "will"));
    MQTTClient_willOptions will = MQTTClient_willOptions_initializer;
    will.topicName = name;
    will.message = "gone";
    will.qos = 1;
    MQTTClient watcher = connected(run, "watcher"), publisher = connected(run, "publisher"), mortal = make(run, "mortal");
    (void)(watcher != NULL && publisher != NULL && mortal != NULL && subscribe(run, watcher, name, 1) &&
           connect_to(run, mortal, true, &will) == 0 && disconnect(run, mortal) &&
           expect_nothing(run, watcher, publisher));
}

static void user_properties(Case *run)
{
    static const char *const NAMES[] = {"a", "b", "a"}, *const VALUES[] = {"1", "", "3"};
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s", topic(run, "properties"));
    MQTTProperties properties = MQTTProperties_initializer;
    for (int at = 0; at < 3; at++) {
        MQTTProperty property = {.identifier = MQTTPROPERTY_CODE_USER_PROPERTY};
        property.value.data = (MQTTLenString){(int)strlen(NAMES[at]), (char *)(size_t)NAMES[at]};
        property.value.value = (MQTTLenString){(int)strlen(VALUES[at]), (char *)(size_t)VALUES[at]};
        MQTTProperties_add(&properties, &property);
    }
    MQTTProperty type = {.identifier = MQTTPROPERTY_CODE_CONTENT_TYPE};
    type.value.data = (MQTTLenString){10, "text/plain"};
    MQTTProperties_add(&properties, &type);
    MQTTClient subscriber = connected(run, "subscriber"), publisher = connected(run, "publisher");
    MQTTClient_message *message = NULL;
    if (subscriber != NULL && publisher != NULL && subscribe(run, subscriber, name, 1) &&
        publish(run, publisher, name, "x", 1, 1, false, &properties, true) &&
        receive(run, subscriber, name, "x", 1, 1, false, &message)) {
        for (int at = 0; at < 3; at++) {
            MQTTProperty *found = MQTTProperties_getPropertyAt(&message->properties, MQTTPROPERTY_CODE_USER_PROPERTY, at);
            if (found == NULL || found->value.data.len != (int)strlen(NAMES[at]) ||
                memcmp(found->value.data.data, NAMES[at], strlen(NAMES[at])) != 0 ||
                found->value.value.len != (int)strlen(VALUES[at]) ||
                memcmp(found->value.value.data, VALUES[at], strlen(VALUES[at])) != 0) {
                fail(run, "user property %d is missing or another one", at);
            }
        }
        MQTTProperty *found = MQTTProperties_getProperty(&message->properties, MQTTPROPERTY_CODE_CONTENT_TYPE);
        if (found == NULL || found->value.data.len != 10 || memcmp(found->value.data.data, "text/plain", 10) != 0) {
            fail(run, "the content type is missing or another one");
        }
        MQTTClient_freeMessage(&message);
    }
    MQTTProperties_free(&properties);
}

static const struct {
    const char *name;
    void (*run)(Case *);
    bool only_v5;
} CASES[] = {
    {"qos0_roundtrip", qos0_roundtrip, false},
    {"qos1_roundtrip", qos1_roundtrip, false},
    {"qos2_roundtrip", qos2_roundtrip, false},
    {"large_payload", large_payload, false},
    {"retained_on_subscribe", retained_on_subscribe, false},
    {"persistent_session", persistent_session, false},
    {"no_will_on_disconnect", no_will_on_disconnect, false},
    {"user_properties", user_properties, true},
};

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int at = 3; at < argc; at++) {
        if (strcmp(argv[at], name) == 0) {
            return true;
        }
    }
    return argc <= 3;
}

/* Runs a case; returns whether it passed. */
static bool passes(const char *name, void (*body)(Case *), int version, int number)
{
    Case run = {.version = version};
    clock_gettime(CLOCK_MONOTONIC, &run.begun);
    snprintf(run.tag, sizeof run.tag, "%lx-%lx-%d", (long)time(NULL), run.begun.tv_nsec, number);
    body(&run);
    for (int at = 0; at < run.client_count; at++) {
        if (MQTTClient_isConnected(run.clients[at])) {
            MQTTClient_disconnect(run.clients[at], RECEIVE_MS);
        }
        MQTTClient_destroy(&run.clients[at]);
    }
    if (run.failure[0] == '\0') {
        printf("ok %s\n", name);
    } else {
        printf("FAIL %s: %s\n", name, run.failure);
    }
    fflush(stdout);
    return run.failure[0] == '\0';
}

int main(int argc, char **argv)
{
    bool lists = argc == 2 && strcmp(argv[1], "--list") == 0;
    if (!lists && argc < 3) {
        fprintf(stderr, "usage: %s HOST PORT [CASE...] | --list\n", argv[0]);
        return 2;
    }
    if (!lists) {
        MQTTClient_init_options options = MQTTClient_init_options_initializer;
        options.do_openssl_init = 1;
        MQTTClient_global_init(&options);
        snprintf(url, sizeof url, "%s://%s:%s", getenv("TAUTWIRE_TLS_CA") != NULL ? "ssl" : "tcp", argv[1], argv[2]);
    }
    bool all = true;
    int number = 0;
    for (size_t at = 0; at < sizeof CASES / sizeof *CASES; at++) {
        for (int version = CASES[at].only_v5 ? 5 : 3; version <= 5; version += 2) {
            char name[NAME_MAX_BYTES];
            snprintf(name, sizeof name, "v%d_%s", version, CASES[at].name);
            if (lists) {
                printf("%s\n", name);
            } else if (is_wanted(name, argc, argv)) {
                all &= passes(name, CASES[at].run, version == 5 ? MQTTVERSION_5 : MQTTVERSION_3_1_1, number++);
            }
        }
    }
    return all ? 0 : 1;
}
