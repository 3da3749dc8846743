/* SCRAM: all vectors, the cached keys, and a client with servers that cannot be trusted. */
#define TW_SCRAM 512
#include "rig.h"

typedef struct text {
    const char *data;
    size_t len;
} text;

typedef struct scram_vector {
    const char *id, *mechanism;
    text user, password, client_nonce, client_first, server_first, client_final, server_final;
    const char *result;
} scram_vector;

#include "scram_vectors.h"

static tw_bytes view(text t) {
    return tw_view(t.data, t.len);
}

/* The random bytes that result in the nonce of a vector. */
static const char *wanted_nonce;

static tw_result no_chance(void *context, uint8_t *to, size_t len) {
    static const char SIGNS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t i;
    (void)context;
    for (i = 0; i < len; i++) {
        const char *at = wanted_nonce + i / 3 * 4;
        uint32_t bits = 0;
        int k;
        for (k = 0; k < 4; k++) {
            bits = bits << 6 | (uint32_t)(strchr(SIGNS, at[k]) - SIGNS);
        }
        to[i] = (uint8_t)(bits >> (16 - 8 * (i % 3)));
    }
    return 0;
}

static bool is_text(tw_result len, const uint8_t *bytes, text want) {
    return want.data != NULL && len == (tw_result)want.len && memcmp(bytes, want.data, want.len) == 0;
}

static tw_result run(const scram_vector *v) {
    const tw_hash *hash = strcmp(v->mechanism, "SCRAM-SHA-512") == 0 ? &tw_sha512 : &tw_sha256;
    uint8_t space[512];
    tw_memory to = tw_lend(space, sizeof space);
    tw_authenticator a;
    tw_scram scram;
    tw_result len;
    wanted_nonce = v->client_nonce.data;
    tw_scram_init(&scram, hash, view(v->user), view(v->password), no_chance, NULL);
    scram.nonce_bytes = (uint8_t)(v->client_nonce.len / 4 * 3);
    a = tw_scram_authenticator(&scram, to);
    CHECK(strcmp(a.method, v->mechanism) == 0, "%s", v->id);
    len = a.begin(a.context, to);
    if (len < 0) {
        return len;
    }
    CHECK(is_text(len, space, v->client_first), "%s: wrote %.*s", v->id, (int)len, (const char *)space);
    len = a.respond(a.context, view(v->server_first), to);
    if (len < 0) {
        return len;
    }
    CHECK(is_text(len, space, v->client_final), "%s: wrote %.*s", v->id, (int)len, (const char *)space);
    return a.finish(a.context, view(v->server_final));
}

static void every_vector_succeeds(void) {
    size_t i, count = sizeof SCRAM_VECTORS / sizeof SCRAM_VECTORS[0];
    CHECK(count > 60, "%u vectors", (unsigned)count);
    for (i = 0; i < count; i++) {
        const scram_vector *v = &SCRAM_VECTORS[i];
        tw_result result = run(v);
        const char *code = result == 0 ? "valid" : tw_error_name(result);
        CHECK(strcmp(code, v->result) == 0, "%s: %s, wanted %s", v->id, code, v->result);
    }
}

#define NONCE "fyko+d2lbbFgONRv9qkxdawL"
#define CHALLENGE "r=" NONCE "x,s=AAAA,i=4096"
/* A signature of 32 zeros. */
#define ZEROS "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

static tw_scram scram;
static uint8_t space[512];

static tw_authenticator ann(const char *password) {
    wanted_nonce = NONCE;
    tw_scram_init(&scram, &tw_sha256, tw_str("ann"), tw_str(password), no_chance, NULL);
    return tw_scram_authenticator(&scram, tw_lend(space, sizeof space));
}

static tw_result challenged(const tw_authenticator *a, const char *challenge) {
    CHECK(a->begin(a->context, a->space) > 0, "begin");
    return a->respond(a->context, tw_str(challenge), a->space);
}

static void keys_are_cached_for_the_same_salt_and_iterations(void) {
    static const char *const OTHERS[] = {"r=" NONCE "x,s=AAAA,i=4097", "r=" NONCE "x,s=AAAB,i=4097", CHALLENGE};
    tw_authenticator a = ann("pencil");
    uint8_t first[512];
    tw_result len = challenged(&a, CHALLENGE);
    size_t i;
    memcpy(first, space, sizeof first);
    /* With another password, only cached keys give the same proof. */
    scram.password = tw_str("rubber");
    CHECK(challenged(&a, CHALLENGE) == len && memcmp(space, first, (size_t)len) == 0, "%.*s", (int)len, (const char *)space);
    for (i = 0; i < 3; i++) {
        tw_scram kept = scram;
        uint8_t fresh[512];
        tw_authenticator b = ann("rubber");
        len = challenged(&b, OTHERS[i]);
        memcpy(fresh, space, sizeof fresh);
        scram = kept;
        CHECK(challenged(&a, OTHERS[i]) == len && memcmp(space, fresh, (size_t)len) == 0, "%s", OTHERS[i]);
    }
}

static void early_or_repeated_success_proves_nothing(void) {
    tw_authenticator a = ann("pencil");
    CHECK(a.finish(a.context, tw_str(ZEROS)) == TW_SCRAM_SERVER_SIGNATURE, "before all");
    CHECK(a.begin(a.context, a.space) > 0, "begin");
    CHECK(a.finish(a.context, tw_str(ZEROS)) == TW_SCRAM_SERVER_SIGNATURE, "before the proof");
    CHECK(challenged(&a, CHALLENGE) > 0, "challenged");
    CHECK(a.respond(a.context, tw_str(CHALLENGE), a.space) == TW_SCRAM_MALFORMED, "twice");
    CHECK(a.finish(a.context, tw_str(ZEROS)) == TW_SCRAM_SERVER_SIGNATURE, "after that");
}

static void limits_are_enforced(void) {
    tw_authenticator a = ann("pencil");
    size_t size;
    scram.iterations_max = 4095;
    CHECK(challenged(&a, "r=" NONCE "x,s=AAAA,i=4095") == TW_SCRAM_ITERATIONS, "few");
    scram.iterations_max = 100001;
    CHECK(challenged(&a, "r=" NONCE "x,s=AAAA,i=100001") > 0, "many");
    /* Whatever the size of the memory, nothing is written past its end. */
    for (size = 0; size < 100; size++) {
        uint8_t *exact = (uint8_t *)malloc(size + 1);
        tw_result len = a.begin(a.context, tw_lend(exact, size));
        CHECK(len == (size < 35 ? (tw_result)TW_BUFFER_TOO_SMALL : 35), "%u: %d", (unsigned)size, (int)len);
        len = a.respond(a.context, tw_str("r=" NONCE "x,s=AAAA,i=100001"), tw_lend(exact, size));
        CHECK(len == (size < 81 ? (tw_result)TW_BUFFER_TOO_SMALL : 81), "%u: %d", (unsigned)size, (int)len);
        free(exact);
    }
}

/* A client with an authenticator, and room for its messages. */
static rig r;
static uint8_t receive[512], transmit[512];
static tw_authenticator authenticator;

static void open_with(tw_authenticator a) {
    set_up(&r, TW_V5);
    authenticator = a;
    r.config.authenticator = &authenticator;
    r.config.receive = tw_lend(receive, sizeof receive);
    r.config.transmit = tw_lend(transmit, sizeof transmit);
    CHECK(tw_client_init(&r.client, &r.config) == 0, "init");
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "open");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
}

/* Passes AUTH (0xF0) or CONNACK (0x20) with a method and data to the client. */
static tw_event_type give_auth(unsigned first, tw_reason reason, const char *method, const char *data) {
    uint8_t properties[256];
    tw_writer writer = tw_writer_on(properties, sizeof properties);
    tw_packet packet;
    tw_result len;
    tw_memory to = tw_client_space(&r.client);
    if (method != NULL) {
        tw_put_text(&writer, TW_AUTHENTICATION_METHOD, tw_str(method));
    }
    if (data != NULL) {
        tw_put_text(&writer, TW_AUTHENTICATION_DATA, tw_str(data));
    }
    memset(&packet, 0, sizeof packet);
    if (first == 0xF0) {
        packet.type = TW_AUTH;
        packet.as.notice.reason = reason;
        packet.as.notice.properties = tw_written(&writer);
    } else {
        packet.type = TW_CONNACK;
        packet.as.connack.reason = reason;
        packet.as.connack.properties = tw_written(&writer);
    }
    len = tw_encode(&packet, TW_V5, to.data, to.size);
    CHECK(len > 0, "%s", tw_error_name(len));
    tw_client_received(&r.client, (size_t)len);
    return next(&r);
}

#define METHOD "SCRAM-SHA-256"

static void a_server_that_does_not_know_the_password_is_refused(void) {
    open_with(ann("pencil"));
    CHECK(give_auth(0xF0, TW_CONTINUE_AUTHENTICATION, METHOD, CHALLENGE) == TW_EVENT_NONE, "challenge");
    CHECK(tw_client_output(&r.client).len > 80, "a proof");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(publish(&r, "a", TW_AT_LEAST_ONCE) == 1, "waits");
    CHECK(give_auth(0x20, TW_SUCCESS, METHOD, ZEROS) == TW_EVENT_CLOSED, "zeros");
    CHECK(r.event.error == TW_SCRAM_SERVER_SIGNATURE && r.event.reason == TW_NOT_AUTHORIZED, "%s", tw_error_name(r.event.error));
    CHECK(tw_client_output(&r.client).len == 0, "nothing goes there");

    open_with(ann("pencil"));
    CHECK(give_auth(0xF0, TW_CONTINUE_AUTHENTICATION, METHOD, "r=" NONCE "x,s=AAAA,i=4095") == TW_EVENT_CLOSED, "few");
    CHECK(r.event.error == TW_SCRAM_ITERATIONS && tw_client_output(&r.client).len == 0, "nothing to guess at");
    open_with(ann("pencil"));
    CHECK(give_auth(0x20, TW_SUCCESS, METHOD, NULL) == TW_EVENT_CLOSED, "at once");
    CHECK(r.event.error == TW_SCRAM_SERVER_SIGNATURE, "%s", tw_error_name(r.event.error));
    /* [MQTT-4.12.0-5] */
    open_with(ann("pencil"));
    CHECK(give_auth(0x20, TW_SUCCESS, NULL, NULL) == TW_EVENT_CLOSED && r.event.error == TW_UNEXPECTED_PACKET, "no method");
    open_with(ann("pencil"));
    CHECK(give_auth(0xF0, TW_CONTINUE_AUTHENTICATION, "SCRAM-SHA-1", CHALLENGE) == TW_EVENT_CLOSED, "another method");
    CHECK(r.event.error == TW_UNEXPECTED_PACKET, "%s", tw_error_name(r.event.error));
}

/* An authenticator that sends "begin" and "answer", and accepts "good". */
static tw_result say(tw_memory to, const char *word) {
    memcpy(to.data, word, strlen(word));
    return (tw_result)strlen(word);
}

static tw_result begin_simply(void *context, tw_memory to) {
    (void)context;
    return say(to, "begin");
}

static tw_result answer_simply(void *context, tw_bytes challenge, tw_memory to) {
    (void)context;
    return challenge.len == 1 ? say(to, "answer") : (tw_result)TW_SCRAM_MALFORMED;
}

static tw_result finish_simply(void *context, tw_bytes data) {
    (void)context;
    return data.len == 4 && memcmp(data.data, "good", 4) == 0 ? 0 : (tw_result)TW_SCRAM_SERVER_SIGNATURE;
}

static tw_authenticator simple(void) {
    tw_authenticator a;
    a.method = "m";
    a.begin = begin_simply;
    a.respond = answer_simply;
    a.finish = finish_simply;
    a.context = NULL;
    a.space = tw_lend(space, 16);
    return a;
}

#define AUTH_AGAIN "f00e 19 0c 1500016d 160005 626567696e"
#define AUTH_ANSWER "f00f 18 0d 1500016d 160006 616e73776572"

static void open_simply(void) {
    open_with(simple());
    CHECK(give_auth(0xF0, TW_CONTINUE_AUTHENTICATION, "m", "?") == TW_EVENT_NONE, "challenge");
    SENDS(&r, AUTH_ANSWER);
    CHECK(tw_client_reauthenticate(&r.client) == TW_NOT_CONNECTED, "not yet");
    CHECK(give_auth(0x20, TW_SUCCESS, "m", "good") == TW_EVENT_CONNECTED, "%s", tw_error_name(r.event.error));
}

static void a_client_reauthenticates_on_the_same_connection(void) {
    open_simply();
    CHECK(tw_client_reauthenticate(&r.client) == 0, "begins");
    SENDS(&r, AUTH_AGAIN);
    CHECK(tw_client_reauthenticate(&r.client) == TW_ARGUMENT, "one at a time");
    CHECK(publish(&r, "a", TW_AT_MOST_ONCE) == 0, "messages flow");
    SENDS(&r, "3005 000161 00 78");
    CHECK(give_auth(0xF0, TW_CONTINUE_AUTHENTICATION, "m", "?") == TW_EVENT_NONE, "challenge");
    SENDS(&r, AUTH_ANSWER);
    CHECK(give_auth(0xF0, TW_SUCCESS, "m", "good") == TW_EVENT_AUTH && r.event.reason == TW_SUCCESS, "accepted");
    /* [MQTT-4.12.1-2] */
    CHECK(tw_client_reauthenticate(&r.client) == 0, "again");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(give_auth(0xF0, TW_SUCCESS, "m", "bad!") == TW_EVENT_CLOSED, "not believed");
    CHECK(r.event.error == TW_SCRAM_SERVER_SIGNATURE, "%s", tw_error_name(r.event.error));
    SENDS(&r, "e001 87");
    CHECK(tw_client_open(&r.client, r.now_ms) == 0, "another connection");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(give_auth(0x20, TW_SUCCESS, "m", "good") == TW_EVENT_CONNECTED, "%s", tw_error_name(r.event.error));
    CHECK(tw_client_reauthenticate(&r.client) == 0, "the other one is over");
}

static void a_response_waits_for_buffer_space(void) {
    tw_result result;
    open_simply();
    do {
        result = publish(&r, "a", TW_AT_MOST_ONCE);
    } while (result == 0);
    CHECK(result == TW_OUTPUT_FULL, "%s", tw_error_name(result));
    CHECK(tw_client_reauthenticate(&r.client) == 0, "begins");
    tw_client_sent(&r.client, tw_client_output(&r.client).len);
    CHECK(next(&r) == TW_EVENT_NONE, "none");
    SENDS(&r, AUTH_AGAIN);
}

static void unexpected_auth_is_refused(void) {
    static const tw_reason REASONS[] = {TW_SUCCESS, TW_CONTINUE_AUTHENTICATION, TW_RE_AUTHENTICATE};
    size_t i;
    for (i = 0; i < 3; i++) {
        open_simply();
        CHECK(give_auth(0xF0, REASONS[i], "m", "good") == TW_EVENT_CLOSED, "%d", (int)REASONS[i]);
        CHECK(r.event.error == TW_UNEXPECTED_PACKET, "%s", tw_error_name(r.event.error));
    }
    open_with(simple());
    CHECK(give_auth(0xF0, TW_SUCCESS, "m", "good") == TW_EVENT_CLOSED, "before CONNACK");
}

static void an_invalid_configuration_is_refused_at_once(void) {
    tw_authenticator a = simple();
    set_up(&r, TW_V3_1_1);
    r.config.authenticator = &a;
    CHECK(tw_client_init(&r.client, &r.config) == TW_NOT_IN_VERSION, "3.1.1");
    set_up(&r, TW_V5);
    r.config.authenticator = &a;
    a.space.size = 6;
    CHECK(tw_client_init(&r.client, &r.config) == TW_BUFFER_TOO_SMALL, "space");
    set_up(&r, TW_V5);
    r.config.authenticator = &a;
    a = ann("");
    CHECK(tw_client_init(&r.client, &r.config) == TW_SCRAM_CREDENTIALS, "no password");
    set_up(&r, TW_V5);
    CHECK(tw_client_reauthenticate(&r.client) == TW_ARGUMENT, "no authenticator");
}

int main(void) {
    every_vector_succeeds();
    keys_are_cached_for_the_same_salt_and_iterations();
    early_or_repeated_success_proves_nothing();
    limits_are_enforced();
    a_server_that_does_not_know_the_password_is_refused();
    a_client_reauthenticates_on_the_same_connection();
    a_response_waits_for_buffer_space();
    unexpected_auth_is_refused();
    an_invalid_configuration_is_refused_at_once();
    return finish("scram");
}
