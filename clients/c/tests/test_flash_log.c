/*
 * The log of examples/flash_log.c alone. The power fails at every byte that is written or erased: the log that is opened then has
 * every appended record, in order, and at most the interrupted one in addition.
 */
#include "flash_rig.h"

#define RECORDS 40
#define KEPT_AT_MOST 4

static flash_rig f;
static flash_log log_;
static tw_store store;

/* The expected content of the log: numbers of records, possibly including `under_way`. */
typedef struct model {
    int numbers[RECORDS + 1], count;
    int under_way;
} model;

static model m;

static size_t len_of(int number) {
    return number % 7 == 0 ? 0 : (size_t)(number * 13 % 70);
}

static tw_result append_number(int number) {
    uint8_t head[TW_STORE_HEAD_BYTES] = {0}, body[80];
    head[0] = (uint8_t)number;
    memset(body, number, sizeof body);
    return store.append(store.context, head, tw_view(body, len_of(number)), true);
}

/* Like the client: when the log is full, live records are rewritten and replace all others. */
static void append_or_begin(int number) {
    int i, dropped;
    m.under_way = number;
    if (append_number(number) < 0) {
        /* The oldest are complete. They may remain until the new log is valid. */
        dropped = m.count > KEPT_AT_MOST ? m.count - KEPT_AT_MOST : 0;
        CHECK(store.begin(store.context) == 0, "begin");
        for (i = dropped; i < m.count; i++) {
            CHECK(append_number(m.numbers[i]) == 0, "append %d anew", m.numbers[i]);
        }
        CHECK(store.commit(store.context) == 0, "commit");
        m.count -= dropped;
        memmove(m.numbers, m.numbers + dropped, (size_t)m.count * sizeof m.numbers[0]);
        CHECK(append_number(number) == 0, "append %d after a restart of the log", number);
    }
    m.numbers[m.count++] = number;
    m.under_way = 0;
}

static void open_log(void) {
    CHECK(flash_log_open(&log_, &f.driver) == 0, "open");
    store = flash_log_store(&log_);
}

/* Reads all records, and compares. */
static void check_log(long cut) {
    uint8_t head[TW_STORE_HEAD_BYTES], body[80];
    int found[RECORDS + 1], count = 0, from;
    tw_result len;
    while ((len = store.read(store.context, head, tw_lend(body, sizeof body))) >= 0 && count <= RECORDS) {
        CHECK((size_t)len == len_of(head[0]) && (len == 0 || body[len - 1] == head[0]), "cut %ld: record %d", cut, head[0]);
        found[count++] = head[0];
    }
    CHECK(len == TW_INCOMPLETE, "cut %ld: %s", cut, tw_error_name(len));
    if (m.under_way != 0 && count > 0 && found[count - 1] == m.under_way) {
        count--;
    }
    /* The new log may already be valid, without the oldest. */
    from = m.count - count;
    CHECK(from == 0 || (m.under_way != 0 && m.count > KEPT_AT_MOST && count == KEPT_AT_MOST), "cut %ld: %d of %d", cut, count,
          m.count);
    CHECK(from >= 0 && memcmp(found, m.numbers + from, (size_t)count * sizeof found[0]) == 0, "cut %ld: other records", cut);
}

static long play(uint32_t write_bytes, long cut) {
    volatile int number = 1;
    set_up_flash(&f, 512, write_bytes, (uint64_t)cut + 7);
    memset(&m, 0, sizeof m);
    f.left = cut;
    if (setjmp(f.power_off) == 0) {
        open_log();
        for (; number <= RECORDS; number++) {
            append_or_begin(number);
        }
    }
    f.left = -1;
    open_log();
    check_log(cut);
    /* It continues, also after torn bytes. */
    m.under_way = 0;
    if (number <= RECORDS) {
        open_log();
        m.count = 0;
        for (;;) {
            uint8_t head[TW_STORE_HEAD_BYTES], body[80];
            if (store.read(store.context, head, tw_lend(body, sizeof body)) < 0) {
                break;
            }
            m.numbers[m.count++] = head[0];
        }
        append_or_begin(100);
        open_log();
        m.under_way = 0;
        {
            uint8_t head[TW_STORE_HEAD_BYTES], body[80];
            int last = 0, count = 0;
            while (store.read(store.context, head, tw_lend(body, sizeof body)) >= 0) {
                last = head[0];
                count++;
            }
            CHECK(last == 100 && count == m.count && log_.torn_bytes == 0, "cut %ld: %d of %d", cut, count, m.count);
        }
    }
    return f.spent;
}

static void test_every_cut(void) {
    static const uint32_t UNITS[] = {1, 8, 32};
    size_t unit;
    long cut, all;
    for (unit = 0; unit < sizeof UNITS / sizeof UNITS[0]; unit++) {
        all = play(UNITS[unit], -1);
        CHECK(log_.erases == 0 && log_.epoch > 3, "%u beginnings", (unsigned)log_.epoch);
        for (cut = 0; cut < all; cut++) {
            (void)play(UNITS[unit], cut);
        }
        printf("units of %u: %ld cuts\n", (unsigned)UNITS[unit], all);
    }
}

/* A write that fails without a power failure: the client restarts the log, and nothing is written after torn bytes. */
static void test_failed_writes(void) {
    set_up_flash(&f, 512, 4, 1);
    memset(&m, 0, sizeof m);
    open_log();
    append_or_begin(1);
    append_or_begin(2);
    f.failures = 1;
    CHECK(append_number(3) == TW_STORE_FAILED, "a failed write");
    CHECK(append_number(3) < 0, "nothing may follow");
    append_or_begin(3);
    open_log();
    check_log(-1);
    f.failures = 1;
    CHECK(store.begin(store.context) == TW_STORE_FAILED && append_number(4) < 0 && store.commit(store.context) < 0, "erase");
    append_or_begin(4);
    open_log();
    check_log(-1);
}

/* Cells that accept a write and lose it. */
static tw_result forgetful_write(void *context, uint32_t address, const uint8_t *from, size_t len) {
    flash_rig *rig = (flash_rig *)context;
    tw_result result = rig_write(context, address, from, len);
    rig->bytes[address] = 0xFF;
    return result;
}

static void test_worn_cells(void) {
    set_up_flash(&f, 512, 4, 1);
    memset(&m, 0, sizeof m);
    open_log();
    append_or_begin(1);
    log_.flash.write = forgetful_write;
    CHECK(append_number(2) == TW_STORE_FAILED, "it is read back");
    CHECK(store.begin(store.context) == 0 && store.commit(store.context) == TW_STORE_FAILED, "the header, too");
    open_log();
    check_log(-1);
}

/* An erase that leaves half a sector unchanged: its records belong to another epoch. */
static tw_result erase_half(void *context, uint32_t address) {
    memset(((flash_rig *)context)->bytes + address, 0xFF, 256);
    return 0;
}

static void test_remains_after_an_erase(void) {
    uint8_t head[TW_STORE_HEAD_BYTES] = {0}, body[45] = {0};
    int round, i, count = 0;
    set_up_flash(&f, 512, 1, 1);
    open_log();
    for (round = 0; round < 3; round++) {
        CHECK(store.begin(store.context) == 0, "begin");
        log_.flash.erase = erase_half;
        /* Four records of 61 bytes end where the other half starts; in round 0 more of them follow. */
        for (i = 0; i < (round == 0 ? 7 : 4); i++) {
            CHECK(store.append(store.context, head, tw_view(body, sizeof body), true) == 0, "append");
        }
        CHECK(store.commit(store.context) == 0, "commit");
    }
    open_log();
    while (store.read(store.context, head, tw_lend(body, sizeof body)) >= 0) {
        count++;
    }
    CHECK(count == 4 && log_.torn_bytes > 0, "%d records", count);
}

static void test_sizes(void) {
    flash_rig bad;
    set_up_flash(&bad, 512, 4, 1);
    bad.driver.write_bytes = 0;
    CHECK(flash_log_open(&log_, &bad.driver) == TW_ARGUMENT, "no unit");
    bad.driver.write_bytes = 33;
    CHECK(flash_log_open(&log_, &bad.driver) == TW_ARGUMENT, "a unit too large");
    bad.driver.write_bytes = 24;
    CHECK(flash_log_open(&log_, &bad.driver) == TW_ARGUMENT, "no divisor");
    bad.driver.write_bytes = 4;
    bad.driver.sectors[1] = 508;
    CHECK(flash_log_open(&log_, &bad.driver) == TW_ARGUMENT, "sectors overlap");
    bad.driver.sectors[1] = 512;
    bad.driver.sector_bytes = 128;
    CHECK(flash_log_open(&log_, &bad.driver) == TW_ARGUMENT, "a sector too small");
}

static void test_erase(void) {
    set_up_flash(&f, 512, 8, 1);
    memset(&m, 0, sizeof m);
    open_log();
    append_or_begin(1);
    CHECK(flash_log_erase(&log_) == 0, "erase");
    m.count = 0;
    check_log(-1);
    open_log();
    check_log(-1);
    append_or_begin(2);
    open_log();
    check_log(-1);
}

int main(void) {
    test_every_cut();
    test_failed_writes();
    test_worn_cells();
    test_remains_after_an_erase();
    test_sizes();
    test_erase();
    return finish("flash log");
}
