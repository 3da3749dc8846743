/*
 * What the client stores, and when: packet by packet, with a reboot in between. A process that ends is simulated by initialising
 * rig's client again with the same flash. The random sessions of test_session.c cut the power, too.
 */
#include "flash_rig.h"
#include "rig.h"

typedef struct desk {
    rig r;
    flash_rig flash;
    flash_log log;
    tw_store store;
} desk;

static desk d;

/* Starts a process with the content of the flash. Returns the result of tw_client_init(). */
static tw_result boot(void) {
    CHECK(flash_log_open(&d.log, &d.flash.driver) == 0, "open");
    d.store = flash_log_store(&d.log);
    memset(d.r.outbox, 0xEE, sizeof d.r.outbox);
    memset(d.r.incoming, 0xEE, sizeof d.r.incoming);
    return tw_client_init(&d.r.client, &d.r.config);
}

static void reboot(void) {
    tw_result result = boot();
    CHECK(result == 0, "%s", tw_error_name(result));
}

static void set_up_desk(tw_version version, uint32_t sector_bytes) {
    set_up(&d.r, version);
    set_up_flash(&d.flash, sector_bytes, 4, 1);
    d.r.config.store = &d.store;
    reboot();
}

/* Connects, and the server has the session. */
static void resume(void) {
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    CHECK((tw_client_output(&d.r.client).data[9] & 0x02) == 0, "Clean Start is off");
    tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    CHECK(give(&d.r, CONNACK_V5_RESUMED) == TW_EVENT_CONNECTED, "%s", tw_error_name(d.r.event.error));
}

/* The same, and first the application gets the result of a message of the last process. */
static void resume_and_tell(const char *connack, uint16_t packet_id, tw_result error) {
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    CHECK(give(&d.r, connack) == TW_EVENT_PUBLISHED && d.r.event.packet_id == packet_id && d.r.event.error == error,
          "packet %d: %s", d.r.event.packet_id, tw_error_name(d.r.event.error));
    CHECK(next(&d.r) == TW_EVENT_CONNECTED, "%s", tw_error_name(d.r.event.error));
    CHECK(next(&d.r) == TW_EVENT_NONE, "no other message has ended");
}

static void test_messages_survive_the_process(void) {
    set_up_desk(TW_V5, 1024);
    CHECK(publish(&d.r, "a", TW_AT_LEAST_ONCE) == 1 && publish(&d.r, "b", TW_EXACTLY_ONCE) == 2, "publish");
    reboot();
    CHECK(!tw_client_is_idle(&d.r.client), "they are there");
    CHECK(publish(&d.r, "c", TW_AT_LEAST_ONCE) == 3, "identifiers go on");
    connect_with(&d.r, CONNACK_V5);
    (void)next(&d.r);
    /* They have never been sent: no DUP. */
    SENDS(&d.r, "3207 000161 0001 00 78  3407 000162 0002 00 78  3207 000163 0003 00 78");
    reboot();
    resume();
    (void)next(&d.r);
    /* [MQTT-4.4.0-1] */
    SENDS(&d.r, "3a07 000161 0001 00 78  3c07 000162 0002 00 78  3a07 000163 0003 00 78");
    CHECK(give(&d.r, "4002 0001") == TW_EVENT_PUBLISHED && give(&d.r, "5002 0002") == TW_EVENT_NONE, "answers");
    SENDS(&d.r, "6202 0002");
    reboot();
    resume();
    (void)next(&d.r);
    /* The server has it: only PUBREL remains [MQTT-4.3.3-4]. */
    SENDS(&d.r, "6202 0002  3a07 000163 0003 00 78");
    CHECK(give(&d.r, "7002 0002") == TW_EVENT_PUBLISHED && d.r.event.error == 0, "done");
    CHECK(give(&d.r, "4002 0003") == TW_EVENT_PUBLISHED && d.r.event.error == 0, "done");
    reboot();
    CHECK(tw_client_is_idle(&d.r.client), "nothing is left");
}

/* The PUBCOMP at the end of the exchange may be lost. The server then no longer knows the identifier. */
static void test_a_lost_pubcomp_is_not_a_refusal(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    CHECK(publish(&d.r, "a", TW_EXACTLY_ONCE) == 1 && give(&d.r, "5002 0001") == TW_EVENT_NONE, "publish");
    reboot();
    resume();
    CHECK(give(&d.r, "7003 0001 92") == TW_EVENT_PUBLISHED, "published");
    CHECK(d.r.event.error == 0 && d.r.event.reason == TW_SUCCESS, "%s", tw_error_name(d.r.event.error));
}

static void test_incoming_messages_arrive_once(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    CHECK(give(&d.r, "3407 000161 0007 00 78") == TW_EVENT_MESSAGE, "message");
    /* The process ends while the application handles the message: it is delivered again. */
    reboot();
    resume();
    CHECK(give(&d.r, "3c07 000161 0007 00 78") == TW_EVENT_MESSAGE, "once more");
    (void)next(&d.r);
    SENDS(&d.r, "5002 0007");
    reboot();
    resume();
    CHECK(give(&d.r, "3c07 000161 0007 00 78") == TW_EVENT_NONE, "not again [MQTT-4.3.3-10]");
    SENDS(&d.r, "5002 0007");
    CHECK(give(&d.r, "6202 0007") == TW_EVENT_NONE, "release");
    SENDS(&d.r, "7002 0007");
    reboot();
    resume();
    CHECK(give(&d.r, "3407 000161 0007 00 79") == TW_EVENT_MESSAGE, "the identifier is free for another message");
    tw_client_close(&d.r.client);
    reboot();
    resume();
    CHECK(give(&d.r, "3c07 000161 0007 00 79") == TW_EVENT_NONE, "the application was done with it when the line broke");
    SENDS(&d.r, "5002 0007");
}

/* The log is restarted, for a message that the application publishes while it handles another one. */
static void test_messages_being_handled_survive_a_compaction(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    CHECK(give(&d.r, "3407 000161 0007 00 78") == TW_EVENT_MESSAGE, "message");
    d.flash.failures = 1;
    CHECK(publish(&d.r, "a", TW_AT_LEAST_ONCE) == 1 && d.log.erases == 2, "%u erases", (unsigned)d.log.erases);
    reboot();
    resume();
    CHECK(give(&d.r, "3c07 000161 0007 00 78") == TW_EVENT_MESSAGE, "once more");
}

/* The server has lost the session, and the process ends at once. */
static void test_a_lost_session(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    CHECK(publish(&d.r, "a", TW_AT_LEAST_ONCE) == 1 && publish(&d.r, "b", TW_EXACTLY_ONCE) == 2, "publish");
    CHECK(give(&d.r, "3407 000161 0007 00 78") == TW_EVENT_MESSAGE && next(&d.r) == TW_EVENT_NONE, "message");
    reboot();
    connect_with(&d.r, CONNACK_V5);
    reboot();
    /* Identifiers of the old session are void in the new one [MQTT-3.2.2-5]. */
    resume_and_tell(CONNACK_V5_RESUMED, 2, TW_SESSION_LOST);
    SENDS(&d.r, "3207 000161 0001 00 78");
    CHECK(give(&d.r, "3407 000161 0007 00 79") == TW_EVENT_MESSAGE, "another message");
}

/* Messages that the store has as sent, but that were not: the window of the server was full. */
static void test_messages_beyond_a_window(void) {
    set_up_desk(TW_V5, 1024);
    CHECK(publish(&d.r, "a", TW_EXACTLY_ONCE) == 1 && publish(&d.r, "b", TW_EXACTLY_ONCE) == 2 &&
          publish(&d.r, "c", TW_EXACTLY_ONCE) == 3, "publish");
    connect_with(&d.r, "2006 0000 03 210001");
    (void)next(&d.r);
    SENDS(&d.r, "3407 000161 0001 00 78");
    reboot();
    connect_with(&d.r, "2006 0000 03 210001");
    CHECK(next(&d.r) == TW_EVENT_PUBLISHED && d.r.event.packet_id == 1 && d.r.event.error == TW_SESSION_LOST, "the first may be there");
    CHECK(next(&d.r) == TW_EVENT_NONE, "the others have not been sent");
    SENDS(&d.r, "3407 000162 0002 00 78");
    /* One of the queued messages is marked, is not sent, and survives the loss of the session in the same process. */
    tw_client_close(&d.r.client);
    set_up_desk(TW_V5, 1024);
    CHECK(publish(&d.r, "a", TW_EXACTLY_ONCE) == 1 && publish(&d.r, "b", TW_EXACTLY_ONCE) == 2, "publish");
    d.r.config.transmit = tw_lend(d.r.transmit, 40);
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    d.r.client.config.transmit.size = 16;
    CHECK(give(&d.r, CONNACK_V5) == TW_EVENT_CONNECTED && next(&d.r) == TW_EVENT_NONE, "connected");
    SENDS(&d.r, "3407 000161 0001 00 78");
    d.r.client.config.transmit.size = 128;
    connect_with(&d.r, CONNACK_V5);
    reboot();
    resume_and_tell(CONNACK_V5_RESUMED, 1, TW_SESSION_LOST);
    SENDS(&d.r, "3407 000162 0002 00 78");
}

static void test_another_client_identifier(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    CHECK(publish(&d.r, "a", TW_EXACTLY_ONCE) == 1, "publish");
    d.r.config.connect.client_id = tw_str("other");
    reboot();
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    CHECK((tw_client_output(&d.r.client).data[9] & 0x02) != 0, "Clean Start");
    resume_and_tell(CONNACK_V5, 1, TW_SESSION_LOST);
}

/* More messages than the flash can hold, one at a time: many of them share an erase. */
static void test_wear(void) {
    int i;
    set_up_desk(TW_V5, 4096);
    connect_with(&d.r, CONNACK_V5);
    for (i = 0; i < 2000; i++) {
        char ack[16];
        tw_result packet_id = publish(&d.r, "topic/of/a/sensor", (tw_qos)(1 + i % 2));
        sprintf(ack, "%s02 %04x", i % 2 == 0 ? "40" : "50", (unsigned)packet_id);
        (void)give(&d.r, ack);
        if (i % 2 == 1) {
            sprintf(ack, "7002 %04x", (unsigned)packet_id);
            (void)give(&d.r, ack);
        }
        CHECK(d.r.event.type == TW_EVENT_PUBLISHED && packet_id == i + 1, "message %d", i);
        tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    }
    /* A message, its answers and its end are 40 to 88 bytes; a sector has 4,096. */
    CHECK(d.log.erases <= 2000 / 40, "%u erases", (unsigned)d.log.erases);
    printf("2000 messages: %u erases of 4096 bytes\n", (unsigned)d.log.erases);
}

/* An outbox that is full of messages for the store refuses them, without an erase for each attempt. */
static void test_a_full_store(void) {
    int taken = 0, i;
    static uint8_t large[4096];
    set_up_desk(TW_V5, 1024);
    d.r.config.outbox = tw_lend(large, sizeof large);
    reboot();
    while (publish(&d.r, "a/topic", TW_AT_LEAST_ONCE) > 0) {
        taken++;
    }
    CHECK(taken >= 10 && taken <= 512 / 34, "%d messages", taken);
    for (i = 0; i < 100; i++) {
        CHECK(publish(&d.r, "a/topic", TW_AT_LEAST_ONCE) == TW_OUTBOX_FULL, "full");
    }
    CHECK(d.r.client.counters.outbox_full == 101 && d.log.erases == 1 && d.log.epoch == 1, "%u beginnings", (unsigned)d.log.epoch);
    reboot();
    connect_with(&d.r, CONNACK_V5);
    for (i = 1; i <= taken; i++) {
        char ack[16];
        sprintf(ack, "4002 %04x", (unsigned)i);
        (void)next(&d.r);
        tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
        CHECK(give(&d.r, ack) == TW_EVENT_PUBLISHED, "message %d", i);
    }
    CHECK(tw_client_is_idle(&d.r.client) && publish(&d.r, "a/topic", TW_AT_LEAST_ONCE) > 0, "room again");
}

/* A medium that has failed: nothing is reported as safe, no dependent packet is sent, and later it continues. */
static void test_a_failed_store(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    d.flash.failures = 100;
    CHECK(publish(&d.r, "a", TW_EXACTLY_ONCE) == TW_STORE_FAILED, "not taken");
    SENDS(&d.r, "");
    d.flash.failures = 0;
    CHECK(publish(&d.r, "a", TW_EXACTLY_ONCE) == 1, "taken");
    (void)next(&d.r);
    SENDS(&d.r, "3407 000161 0001 00 78");
    d.flash.failures = 100;
    /* PUBREL would free the identifier at the server, while the store would publish the message again. */
    CHECK(give(&d.r, "5002 0001") == TW_EVENT_CLOSED && d.r.event.error == TW_STORE_FAILED, "%s", tw_error_name(d.r.event.error));
    SENDS(&d.r, "e001 83");
    CHECK(d.r.client.counters.store_failed == 2, "%d", d.r.client.counters.store_failed);
    d.flash.failures = 0;
    resume();
    (void)next(&d.r);
    SENDS(&d.r, "3c07 000161 0001 00 78");
    CHECK(give(&d.r, "5002 0001") == TW_EVENT_NONE, "PUBREC");
    SENDS(&d.r, "6202 0001");
    CHECK(give(&d.r, "3407 000161 0007 00 78") == TW_EVENT_MESSAGE, "message");
    d.flash.failures = 100;
    CHECK(next(&d.r) == TW_EVENT_CLOSED && d.r.event.error == TW_STORE_FAILED, "no PUBREC");
    SENDS(&d.r, "e001 83");
    d.flash.failures = 0;
    resume();
    (void)next(&d.r);
    SENDS(&d.r, "6202 0001");
    CHECK(give(&d.r, "3c07 000161 0007 00 78") == TW_EVENT_NONE, "delivered already");
    SENDS(&d.r, "5002 0007");
    reboot();
    resume();
    (void)next(&d.r);
    SENDS(&d.r, "6202 0001");
    CHECK(give(&d.r, "3c07 000161 0007 00 78") == TW_EVENT_NONE, "also for another process");
    SENDS(&d.r, "5002 0007");
    d.flash.failures = 100;
    CHECK(give(&d.r, "6202 0007") == TW_EVENT_CLOSED, "no PUBCOMP");
    d.flash.failures = 0;
    tw_client_close(&d.r.client);
    connect_with(&d.r, CONNACK_V5_RESUMED);
    d.flash.failures = 100;
    tw_client_close(&d.r.client);
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    CHECK(give(&d.r, CONNACK_V5) == TW_EVENT_CLOSED && d.r.event.error == TW_STORE_FAILED, "a new session that cannot be kept");
    d.flash.failures = 0;
    /* The store records it with the next change. */
    CHECK(publish(&d.r, "b", TW_AT_LEAST_ONCE) == 2, "publish");
    reboot();
    /* It had recorded the release of the first message, so the server has it. */
    resume_and_tell(CONNACK_V5_RESUMED, 1, 0);
    SENDS(&d.r, "3207 000162 0002 00 78");
    CHECK(give(&d.r, "3407 000161 0007 00 79") == TW_EVENT_MESSAGE, "another message");
}

/* A session was lost, and the store could not record it: it does before the next connection is used. */
static void test_a_lagging_store_catches_up(void) {
    set_up_desk(TW_V5, 1024);
    connect_with(&d.r, CONNACK_V5);
    CHECK(give(&d.r, "3407 000161 0007 00 78") == TW_EVENT_MESSAGE && next(&d.r) == TW_EVENT_NONE, "message");
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    d.flash.failures = 100;
    CHECK(give(&d.r, CONNACK_V5) == TW_EVENT_CLOSED && d.r.event.error == TW_STORE_FAILED, "%s", tw_error_name(d.r.event.error));
    CHECK(tw_client_open(&d.r.client, d.r.now_ms) == 0, "open");
    tw_client_sent(&d.r.client, tw_client_output(&d.r.client).len);
    CHECK(give(&d.r, CONNACK_V5_RESUMED) == TW_EVENT_CLOSED && d.r.event.error == TW_STORE_FAILED, "still");
    d.flash.failures = 0;
    resume();
    reboot();
    resume();
    CHECK(give(&d.r, "3407 000161 0007 00 79") == TW_EVENT_MESSAGE, "another message");
}

/* A store whose append has failed may accept the next one, like a file when there is room on the disk again. */
static int appends, begins;

static tw_result count_append(void *context, const uint8_t *head, tw_bytes body, bool must_last) {
    (void)context, (void)head, (void)body, (void)must_last;
    CHECK(appends != 1 || begins == 1, "nothing may follow what is missing");
    return appends++ == 0 ? TW_STORE_FAILED : 0;
}

static tw_result count_begin(void *context) {
    (void)context;
    return begins++ == 0 ? 0 : TW_STORE_FAILED;
}

static tw_result fail_to_commit(void *context) {
    (void)context;
    return begins == 1 ? TW_STORE_FAILED : 0;
}

static void test_nothing_follows_a_missing_record(void) {
    set_up_desk(TW_V5, 1024);
    d.store.append = count_append;
    d.store.begin = count_begin;
    d.store.commit = fail_to_commit;
    CHECK(publish(&d.r, "a", TW_AT_LEAST_ONCE) == TW_STORE_FAILED && appends == 1 && begins == 1, "%d appends", appends);
    CHECK(publish(&d.r, "a", TW_AT_LEAST_ONCE) == TW_STORE_FAILED && appends == 1 && begins == 2, "%d appends", appends);
}

static void test_smaller_memory(void) {
    set_up_desk(TW_V5, 1024);
    CHECK(publish(&d.r, "a", TW_AT_LEAST_ONCE) == 1 && publish(&d.r, "b", TW_AT_LEAST_ONCE) == 2, "publish");
    d.r.config.outbox.size = 2 * (9 + 8) - 1;
    CHECK(boot() == TW_BUFFER_TOO_SMALL, "the outbox");
    d.r.config.outbox.size++;
    CHECK(boot() == 0, "it just fits");
    d.r.config.incoming_count = 1000;
    CHECK(boot() == TW_ARGUMENT, "the flash is too small for so many incoming messages");
    d.r.config.incoming_count = 4;
    d.r.config.connect.version = TW_V3_1_1;
    CHECK(boot() == TW_NOT_IN_VERSION, "written for another version");
}

int main(void) {
    test_messages_survive_the_process();
    test_a_lost_pubcomp_is_not_a_refusal();
    test_incoming_messages_arrive_once();
    test_messages_being_handled_survive_a_compaction();
    test_a_lost_session();
    test_messages_beyond_a_window();
    test_another_client_identifier();
    test_wear();
    test_a_full_store();
    test_a_failed_store();
    test_a_lagging_store_catches_up();
    test_nothing_follows_a_missing_record();
    test_smaller_memory();
    return finish("store");
}
