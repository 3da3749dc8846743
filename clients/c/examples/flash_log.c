/*
 * A sector: a header, then records, each padded with 0xFF to a complete write unit. Numbers are little-endian.
 *
 *     header   "TWL1", epoch (4 bytes), CRC-32C of these 8 bytes
 *     record   length of the body (4), CRC-32C of epoch, length, head and body (4), head (8), body
 *
 * The header is written after all live records: until then the sector is invalid, and the other one is valid. The higher
 * epoch wins. Because the epoch is in the CRC of each record, leftovers of an erase are never mistaken for records.
 */
#include "flash_log.h"

#define MAGIC_BYTES 4u
#define HEADER_BYTES 12u
#define PREFIX_BYTES 8u
#define FIXED_BYTES (PREFIX_BYTES + TW_STORE_HEAD_BYTES)
#define STEP_BYTES 32u

static const uint8_t MAGIC[MAGIC_BYTES] = {'T', 'W', 'L', '1'};

static void store_le(uint8_t *at, uint32_t value) {
    unsigned i;
    for (i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint32_t load_le(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* CRC-32C (Castagnoli), four bits at a time: a table of 64 bytes. Start with 0. */
static uint32_t crc_of(uint32_t crc, const uint8_t *bytes, size_t len) {
    static const uint32_t TABLE[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
                                       0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                       0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
    size_t i;
    crc = ~crc;
    for (i = 0; i < len; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ TABLE[crc & 0xF];
        crc = crc >> 4 ^ TABLE[crc & 0xF];
    }
    return ~crc;
}

static uint32_t whole_units(const flash_log *log, uint32_t bytes) {
    uint32_t unit = log->flash.write_bytes;
    return (bytes + unit - 1) / unit * unit;
}

static bool read_at(flash_log *log, uint32_t at, uint8_t *to, size_t len) {
    return log->flash.read(log->flash.context, log->flash.sectors[log->target] + at, to, len) >= 0;
}

static bool sync_log(flash_log *log) {
    return log->flash.sync == NULL || log->flash.sync(log->flash.context) >= 0;
}

/* The initial CRC of a record, before its head and body. */
static uint32_t crc_of_len(uint32_t epoch, uint32_t len) {
    uint8_t bytes[8];
    store_le(bytes, epoch);
    store_le(bytes + 4, len);
    return crc_of(0, bytes, sizeof bytes);
}

/* Reading. */

/* Whether there is a complete record at `at`, and where the next one would start. False with `is_failed` if reading
 * fails. */
static bool check_record(flash_log *log, uint32_t epoch, uint32_t at, uint32_t *next, bool *is_failed) {
    uint8_t bytes[STEP_BYTES];
    uint32_t room = log->flash.sector_bytes - at, len, left, crc, wanted;
    if (room < FIXED_BYTES) {
        return false;
    }
    if (!read_at(log, at, bytes, PREFIX_BYTES)) {
        *is_failed = true;
        return false;
    }
    len = load_le(bytes);
    wanted = load_le(bytes + 4);
    if (len > room - FIXED_BYTES) {
        return false;
    }
    crc = crc_of_len(epoch, len);
    at += PREFIX_BYTES;
    for (left = TW_STORE_HEAD_BYTES + len; left > 0;) {
        uint32_t part = left < STEP_BYTES ? left : STEP_BYTES;
        if (!read_at(log, at, bytes, part)) {
            *is_failed = true;
            return false;
        }
        crc = crc_of(crc, bytes, part);
        at += part;
        left -= part;
    }
    *next = whole_units(log, at);
    return crc == wanted && *next <= log->flash.sector_bytes;
}

/* Checks whether a sector is a log, and reads its epoch. */
static tw_result read_header(flash_log *log, uint8_t sector, bool *is_there, uint32_t *epoch) {
    uint8_t header[HEADER_BYTES];
    log->target = sector;
    if (!read_at(log, 0, header, sizeof header)) {
        return TW_STORE_FAILED;
    }
    *epoch = load_le(header + MAGIC_BYTES);
    *is_there = memcmp(header, MAGIC, MAGIC_BYTES) == 0 && load_le(header + 8) == crc_of(0, header, 8);
    return 0;
}

/* The number of bytes from `end` to the last one that is not blank. */
static tw_result measure_torn(flash_log *log) {
    uint8_t bytes[STEP_BYTES];
    uint32_t at = log->end, i;
    while (at < log->flash.sector_bytes) {
        uint32_t left = log->flash.sector_bytes - at, part = left < STEP_BYTES ? left : STEP_BYTES;
        if (!read_at(log, at, bytes, part)) {
            return TW_STORE_FAILED;
        }
        for (i = 0; i < part; i++) {
            if (bytes[i] != 0xFF) {
                log->torn_bytes = at + i + 1 - log->end;
            }
        }
        at += part;
    }
    return 0;
}

static bool do_sizes_fit(const flash_driver *flash) {
    uint32_t apart = flash->sectors[0] > flash->sectors[1] ? flash->sectors[0] - flash->sectors[1]
                                                           : flash->sectors[1] - flash->sectors[0];
    return flash->write_bytes >= 1 && flash->write_bytes <= FLASH_LOG_MAX_WRITE_BYTES &&
           flash->sector_bytes >= FLASH_LOG_MIN_SECTOR_BYTES && flash->sector_bytes % flash->write_bytes == 0 &&
           apart >= flash->sector_bytes;
}

tw_result flash_log_open(flash_log *log, const flash_driver *flash) {
    bool is_there[2], is_failed = false;
    uint32_t epochs[2], next;
    uint8_t i;
    memset(log, 0, sizeof *log);
    log->flash = *flash;
    if (!do_sizes_fit(flash)) {
        return TW_ARGUMENT;
    }
    for (i = 0; i < 2; i++) {
        if (read_header(log, i, &is_there[i], &epochs[i]) < 0) {
            return TW_STORE_FAILED;
        }
    }
    if (!is_there[0] && !is_there[1]) {
        /* A log that does not exist is full: the client starts a new one, in sector 0. */
        log->sector = 1;
        log->target = 1;
        log->is_closed = true;
        return 0;
    }
    /* Epochs may wrap around. */
    log->sector = is_there[1] && (!is_there[0] || (int32_t)(epochs[1] - epochs[0]) > 0);
    log->target = log->sector;
    log->epoch = epochs[log->sector];
    log->at = whole_units(log, HEADER_BYTES);
    log->end = log->at;
    while (check_record(log, log->epoch, log->end, &next, &is_failed)) {
        log->end = next;
    }
    if (is_failed || measure_torn(log) < 0) {
        return TW_STORE_FAILED;
    }
    /* A sector with leftover bytes cannot be written to. */
    log->is_closed = log->torn_bytes > 0;
    return 0;
}

static tw_result read_record(void *context, uint8_t *head, tw_memory body) {
    flash_log *log = (flash_log *)context;
    uint8_t prefix[PREFIX_BYTES];
    uint32_t len, crc;
    if (log->at >= log->end) {
        return TW_INCOMPLETE;
    }
    if (!read_at(log, log->at, prefix, sizeof prefix)) {
        return TW_STORE_FAILED;
    }
    len = load_le(prefix);
    if (len > log->flash.sector_bytes) {
        return TW_STORE_FAILED;
    }
    if (len > body.size) {
        return TW_BUFFER_TOO_SMALL;
    }
    if (!read_at(log, log->at + PREFIX_BYTES, head, TW_STORE_HEAD_BYTES) ||
        (len > 0 && !read_at(log, log->at + FIXED_BYTES, body.data, len))) {
        return TW_STORE_FAILED;
    }
    crc = crc_of(crc_of_len(log->epoch, len), head, TW_STORE_HEAD_BYTES);
    if ((len > 0 ? crc_of(crc, body.data, len) : crc) != load_le(prefix + 4)) {
        return TW_STORE_FAILED;
    }
    log->at = whole_units(log, log->at + FIXED_BYTES + len);
    return (tw_result)len;
}

/* Writing. */

/* Collects bytes to complete write units. */
typedef struct writer {
    flash_log *log;
    uint32_t at, used;
    uint8_t unit[STEP_BYTES];
    bool is_failed;
} writer;

static writer writer_at(flash_log *log, uint32_t at) {
    writer w;
    w.log = log;
    w.at = at;
    w.used = 0;
    w.is_failed = false;
    return w;
}

static void write_out(writer *w, const uint8_t *bytes, uint32_t len) {
    const flash_driver *flash = &w->log->flash;
    if (len > 0 && !w->is_failed) {
        w->is_failed = flash->write(flash->context, flash->sectors[w->log->target] + w->at, bytes, len) < 0;
        w->at += len;
    }
}

static void put(writer *w, const uint8_t *bytes, size_t len) {
    uint32_t step = STEP_BYTES / w->log->flash.write_bytes * w->log->flash.write_bytes;
    while (len > 0) {
        uint32_t part = step - w->used;
        if (w->used == 0 && len >= step) {
            /* Most of a long body needs no buffering. */
            part = (uint32_t)(len / step * step);
            write_out(w, bytes, part);
        } else {
            part = part < len ? part : (uint32_t)len;
            memcpy(w->unit + w->used, bytes, part);
            w->used += part;
            if (w->used == step) {
                write_out(w, w->unit, step);
                w->used = 0;
            }
        }
        bytes += part;
        len -= part;
    }
}

/* Pads the last unit. False if a write has failed. */
static bool finish(writer *w) {
    uint32_t whole = whole_units(w->log, w->used);
    memset(w->unit + w->used, 0xFF, whole - w->used);
    write_out(w, w->unit, whole);
    return !w->is_failed;
}

static tw_result append_record(void *context, const uint8_t *head, tw_bytes body, bool must_last) {
    flash_log *log = (flash_log *)context;
    /* Between begin and commit, records belong to the next epoch. */
    uint32_t epoch = log->epoch + (log->target != log->sector), crc, size, next = 0;
    uint8_t prefix[PREFIX_BYTES];
    bool is_failed = false;
    writer w = writer_at(log, log->end);
    if (log->is_closed || body.len > log->flash.sector_bytes) {
        return TW_OUTBOX_FULL;
    }
    size = whole_units(log, FIXED_BYTES + (uint32_t)body.len);
    if (size > log->flash.sector_bytes - log->end) {
        return TW_OUTBOX_FULL;
    }
    crc = crc_of(crc_of_len(epoch, (uint32_t)body.len), head, TW_STORE_HEAD_BYTES);
    store_le(prefix, (uint32_t)body.len);
    store_le(prefix + 4, body.len > 0 ? crc_of(crc, body.data, body.len) : crc);
    put(&w, prefix, sizeof prefix);
    put(&w, head, TW_STORE_HEAD_BYTES);
    put(&w, body.data, body.len);
    /* Worn cells accept a write but lose it: only what can be read back is valid. */
    if (!finish(&w) || (must_last && !sync_log(log)) || !check_record(log, epoch, log->end, &next, &is_failed)) {
        log->is_closed = true;
        return TW_STORE_FAILED;
    }
    log->end = next;
    return 0;
}

static tw_result begin(void *context) {
    flash_log *log = (flash_log *)context;
    log->target = log->sector ^ 1u;
    log->end = whole_units(log, HEADER_BYTES);
    log->is_closed = true;
    log->erases++;
    if (log->flash.erase(log->flash.context, log->flash.sectors[log->target]) < 0) {
        return TW_STORE_FAILED;
    }
    log->is_closed = false;
    return 0;
}

static tw_result commit(void *context) {
    flash_log *log = (flash_log *)context;
    uint8_t header[HEADER_BYTES], found[HEADER_BYTES];
    writer w = writer_at(log, 0);
    memcpy(header, MAGIC, MAGIC_BYTES);
    store_le(header + MAGIC_BYTES, log->epoch + 1);
    store_le(header + 8, crc_of(0, header, 8));
    put(&w, header, sizeof header);
    /* The header must reach the medium after the records. */
    if (log->is_closed || !sync_log(log) || !finish(&w) || !sync_log(log) || !read_at(log, 0, found, sizeof found) ||
        memcmp(header, found, sizeof header) != 0) {
        log->is_closed = true;
        return TW_STORE_FAILED;
    }
    log->sector = log->target;
    log->epoch++;
    return 0;
}

tw_store flash_log_store(flash_log *log) {
    tw_store store;
    memset(&store, 0, sizeof store);
    store.read = read_record;
    store.append = append_record;
    store.begin = begin;
    store.commit = commit;
    store.context = log;
    store.record_bytes = FIXED_BYTES + log->flash.write_bytes - 1;
    store.capacity_bytes = (log->flash.sector_bytes - whole_units(log, HEADER_BYTES)) / 2;
    return store;
}

tw_result flash_log_erase(flash_log *log) {
    tw_result result = begin(log);
    result = result < 0 ? result : commit(log);
    log->at = log->end;
    return result;
}
