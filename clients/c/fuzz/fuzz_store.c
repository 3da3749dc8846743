/*
 * The data that is read at start: a flash log with any bytes in it, and a store with any records. Neither breaks the reader, and
 * the log accepts records again.
 */
#include <stdlib.h>

#include "../examples/flash_log.h"
#include "fuzz.h"

#define SECTOR_BYTES 512u

static void must(bool condition) {
    if (!condition) {
        abort();
    }
}

typedef struct input {
    const uint8_t *at, *end;
} input;

static uint8_t next_byte(input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

/* Flash. */

static tw_result read_flash(void *context, uint32_t address, uint8_t *to, size_t len) {
    must(address + len <= 2 * SECTOR_BYTES);
    memcpy(to, (const uint8_t *)context + address, len);
    return 0;
}

static tw_result write_flash(void *context, uint32_t address, const uint8_t *from, size_t len) {
    must(address + len <= 2 * SECTOR_BYTES);
    memcpy((uint8_t *)context + address, from, len);
    return 0;
}

static tw_result erase_flash(void *context, uint32_t address) {
    must(address % SECTOR_BYTES == 0 && address < 2 * SECTOR_BYTES);
    memset((uint8_t *)context + address, 0xFF, SECTOR_BYTES);
    return 0;
}

/* Reads all records. Returns how many there are. */
static int read_all(const tw_store *store) {
    uint8_t head[TW_STORE_HEAD_BYTES], body[64];
    int count = 0;
    tw_result len;
    while ((len = store->read(store->context, head, tw_lend(body, sizeof body))) >= 0) {
        must(len <= (tw_result)sizeof body && count++ < 64);
    }
    must(len == TW_INCOMPLETE || len == TW_BUFFER_TOO_SMALL || len == TW_STORE_FAILED);
    return len == TW_INCOMPLETE ? count : -1;
}

static void play_log(input *in, uint8_t setting) {
    static const uint32_t UNITS[] = {1, 2, 4, 32};
    uint8_t *image = (uint8_t *)malloc(2 * SECTOR_BYTES), head[TW_STORE_HEAD_BYTES] = {0};
    flash_driver driver;
    flash_log log;
    tw_store store;
    int count = setting >> 4, i;
    must(image != NULL);
    memset(image, 0xFF, 2 * SECTOR_BYTES);
    memset(&driver, 0, sizeof driver);
    driver.read = read_flash;
    driver.write = write_flash;
    driver.erase = erase_flash;
    driver.context = image;
    driver.sectors[1] = SECTOR_BYTES;
    driver.sector_bytes = SECTOR_BYTES;
    driver.write_bytes = UNITS[setting >> 2 & 3];
    must(flash_log_open(&log, &driver) == 0);
    store = flash_log_store(&log);
    must(store.begin(&log) == 0 && store.commit(&log) == 0);
    for (i = 0; i < count; i++) {
        uint8_t len = next_byte(in);
        size_t left = (size_t)(in->end - in->at);
        len = (uint8_t)(len % 64 < left ? len % 64 : left);
        (void)store.append(&log, head, tw_view(in->at, len), true);
        in->at += len;
    }
    /* Then some bytes are changed. */
    while (in->at < in->end) {
        unsigned at = next_byte(in);
        at = (at << 8 | next_byte(in)) % (2 * SECTOR_BYTES);
        image[at] = next_byte(in);
    }
    must(flash_log_open(&log, &driver) == 0);
    store = flash_log_store(&log);
    (void)read_all(&store);
    if (store.append(&log, head, tw_view("x", 1), true) < 0) {
        must(store.begin(&log) == 0 && store.commit(&log) == 0 && store.append(&log, head, tw_view("x", 1), true) == 0);
    }
    must(flash_log_open(&log, &driver) == 0);
    store = flash_log_store(&log);
    must(read_all(&store) != 0 && log.torn_bytes == 0);
    free(image);
}

/* Records. */

static tw_result read_input(void *context, uint8_t *head, tw_memory body) {
    input *in = (input *)context;
    size_t left, len;
    uint8_t kind = next_byte(in), shape = next_byte(in);
    if (in->at >= in->end) {
        return TW_INCOMPLETE;
    }
    memset(head, 0, TW_STORE_HEAD_BYTES);
    head[0] = kind % 10;
    head[1] = next_byte(in);
    /* Few identifiers, so that records collide. */
    head[3] = shape % 8;
    head[4] = shape >> 5;
    head[5] = (kind & 0x80) != 0 ? 4 : 5;
    if (head[0] == 1 && (shape & 0x10) == 0) {
        /* A valid message. */
        static const uint8_t PACKET[] = {0x32, 7, 0, 1, 'a', 0, 0, 0, 'x'};
        memcpy(body.data, PACKET, sizeof PACKET);
        body.data[0] = (shape & 0x08) != 0 ? 0x34 : 0x32;
        body.data[6] = head[3];
        return sizeof PACKET;
    }
    len = head[0] <= 2 ? next_byte(in) : 0;
    left = (size_t)(in->end - in->at);
    len = len < left ? len : left;
    len = len < body.size ? len : body.size;
    if (len > 0) {
        memcpy(body.data, in->at, len);
    }
    in->at += len;
    return (tw_result)len;
}

static tw_result take_append(void *context, const uint8_t *head, tw_bytes body, bool must_last) {
    const input *in = (const input *)context;
    (void)must_last;
    must(head[0] != 0 && (body.len == 0 || body.data != NULL));
    /* Sometimes there is no room. */
    return ((size_t)head[3] + body.len + (size_t)(in->end - in->at)) % 5 == 0 ? TW_STORE_FAILED : 0;
}

static tw_result take_begin(void *context) {
    (void)context;
    return 0;
}

static void receive(tw_client *client, const uint8_t *bytes, size_t len) {
    tw_memory space = tw_client_space(client);
    tw_event event;
    int count = 0;
    if (len <= space.size) {
        memcpy(space.data, bytes, len);
        tw_client_received(client, len);
    }
    while (tw_client_next(client, 0, &event)) {
        must(count++ < 1000);
    }
    tw_client_sent(client, tw_client_output(client).len);
}

static void play_records(input *in, uint8_t setting) {
    static const uint8_t CONNACKS[][5] = {{0x20, 3, 0, 0, 0}, {0x20, 3, 1, 0, 0}};
    uint8_t publish[] = {0x34, 6, 0, 1, 'a', 0, 0, 0};
    uint8_t memory[64], transmit[64], outbox[160], acks[] = {0x40, 2, 0, 0, 0x50, 2, 0, 0, 0x70, 2, 0, 0, 0x62, 2, 0, 0};
    uint16_t incoming[4];
    tw_client_config config = tw_client_defaults();
    tw_client client;
    tw_store store;
    uint8_t id;
    memset(&store, 0, sizeof store);
    store.read = read_input;
    store.append = take_append;
    store.begin = take_begin;
    store.commit = take_begin;
    store.context = in;
    store.capacity_bytes = 400;
    store.record_bytes = 16;
    config.store = &store;
    config.connect.client_id = tw_str((setting & 4) != 0 ? "" : "x");
    config.receive = tw_lend(memory, sizeof memory);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, 24u + setting / 2u);
    config.incoming = incoming;
    config.incoming_count = 4;
    if (tw_client_init(&client, &config) < 0) {
        return;
    }
    must(tw_client_open(&client, 0) == 0);
    tw_client_sent(&client, tw_client_output(&client).len);
    receive(&client, CONNACKS[setting >> 3 & 1], 5);
    for (id = 1; id <= 8; id++) {
        size_t i;
        tw_publish message = tw_message(tw_str("t"), tw_view(&id, 1), (tw_qos)(1 + id % 2));
        (void)tw_client_publish(&client, &message, NULL);
        publish[6] = id;
        receive(&client, publish, sizeof publish);
        for (i = 0; i < sizeof acks; i += 4) {
            acks[i + 3] = id;
            receive(&client, acks + i, 4);
        }
    }
    tw_client_close(&client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in;
    uint8_t setting;
    in.at = data;
    in.end = data + size;
    setting = next_byte(&in);
    if ((setting & 1) != 0) {
        play_log(&in, setting);
    } else {
        play_records(&in, setting);
    }
    return 0;
}
