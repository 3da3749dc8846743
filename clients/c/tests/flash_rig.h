/*
 * A simulated flash. It checks how it is used (complete units, each written once after an erase), and its power can fail at any byte
 * of any operation: that byte is torn, and power_off() does not return.
 */
#ifndef FLASH_RIG_H
#define FLASH_RIG_H

#include <setjmp.h>

#include "../examples/flash_log.h"
#include "check.h"

#define RIG_SECTOR_MAX_BYTES 4096u

typedef struct flash_rig {
    uint8_t bytes[2 * RIG_SECTOR_MAX_BYTES];
    flash_driver driver;
    /* How many bytes are written or erased before the power fails; negative: never. */
    long left;
    long spent;
    dice d;
    jmp_buf power_off;
    /* A medium that fails without a power failure: each write or erase while this is positive. */
    int failures;
} flash_rig;

/* One more byte of work; does not return if the power fails. A torn byte has some old and some new bits. */
static inline void spend(flash_rig *f, uint8_t *byte, uint8_t value) {
    if (f->left == 0) {
        uint8_t mask = (uint8_t)roll(&f->d, 256);
        *byte = (uint8_t)((*byte & mask) | (value & ~mask));
        longjmp(f->power_off, 1);
    }
    f->left--;
    f->spent++;
    *byte = value;
}

static inline tw_result rig_read(void *context, uint32_t address, uint8_t *to, size_t len) {
    flash_rig *f = (flash_rig *)context;
    CHECK(address + len <= 2 * f->driver.sector_bytes, "read of %u at %u", (unsigned)len, (unsigned)address);
    memcpy(to, f->bytes + address, len);
    return 0;
}

static inline tw_result rig_write(void *context, uint32_t address, const uint8_t *from, size_t len) {
    flash_rig *f = (flash_rig *)context;
    uint32_t sector = address / f->driver.sector_bytes;
    size_t i;
    CHECK(address % f->driver.write_bytes == 0 && len % f->driver.write_bytes == 0, "%u at %u", (unsigned)len, (unsigned)address);
    CHECK(address + len <= (sector + 1) * f->driver.sector_bytes && sector < 2, "past the sector");
    if (f->failures > 0) {
        f->failures--;
        return -1;
    }
    for (i = 0; i < len; i++) {
        if (f->bytes[address + i] != 0xFF) {
            CHECK(false, "written twice at %u", (unsigned)(address + i));
        }
        spend(f, &f->bytes[address + i], from[i]);
    }
    return 0;
}

static inline tw_result rig_erase(void *context, uint32_t address) {
    flash_rig *f = (flash_rig *)context;
    uint32_t i, at;
    /* Cells are erased in no particular order: this one visits each byte once, because the step and the size have no common
     * factor. */
    uint32_t step = roll(&f->d, 2) == 0 ? 1 : 97;
    CHECK(address % f->driver.sector_bytes == 0, "erase at %u", (unsigned)address);
    if (f->failures > 0) {
        f->failures--;
        return -1;
    }
    for (i = 0, at = 0; i < f->driver.sector_bytes; i++, at = (at + step) % f->driver.sector_bytes) {
        spend(f, &f->bytes[address + at], 0xFF);
    }
    return 0;
}

static inline void set_up_flash(flash_rig *f, uint32_t sector_bytes, uint32_t write_bytes, uint64_t seed) {
    memset(f, 0, sizeof *f);
    memset(f->bytes, 0xFF, sizeof f->bytes);
    f->driver.read = rig_read;
    f->driver.write = rig_write;
    f->driver.erase = rig_erase;
    f->driver.context = f;
    f->driver.sectors[1] = sector_bytes;
    f->driver.sector_bytes = sector_bytes;
    f->driver.write_bytes = write_bytes;
    f->left = -1;
    f->d.state = seed * 0x9E3779B97F4A7C15u + 1;
}

#endif
