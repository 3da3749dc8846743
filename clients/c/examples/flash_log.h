/*
 * A store for tw_client_config.store in two sectors of flash: what a client keeps survives a loss of power at any moment.
 *
 *     static flash_log log;
 *     static tw_store store;
 *
 *     if (flash_log_open(&log, &flash) < 0) { ... }
 *     store = flash_log_store(&log);
 *     config.store = &store;
 *
 * One sector holds the log; records are appended to it. When it is full, the client writes what still counts to the other one,
 * and a last write makes that the log. So a sector is erased once for many messages (`erases` counts), in turns. The log needs
 * no RAM but its struct, and 64 bytes of stack.
 *
 * Files to copy: flash_log.h, flash_log.c. Any C99 compiler, and tautwire.h.
 */
#ifndef FLASH_LOG_H
#define FLASH_LOG_H

#include "tautwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The largest unit that flash can be written in, here. */
#define FLASH_LOG_MAX_WRITE_BYTES 32u
/** Below this size a sector holds too little. */
#define FLASH_LOG_MIN_SECTOR_BYTES 256u

/**
 * The driver of your flash. Erased bytes read as 0xFF; a write clears bits, and each unit is written once after an erase. The
 * functions answer 0, or less than 0 if they have failed.
 *
 * Where the hardware checks what it reads (ECC), a unit whose write was cut off may be unreadable: give any other bytes than 0xFF
 * for it, and answer 0.
 */
typedef struct flash_driver {
    tw_result (*read)(void *context, uint32_t address, uint8_t *to, size_t len);
    /** Address and length are multiples of `write_bytes`; `from` may have any alignment. */
    tw_result (*write)(void *context, uint32_t address, const uint8_t *from, size_t len);
    /** Erases the sector that begins at `address`, all `sector_bytes` of it. */
    tw_result (*erase)(void *context, uint32_t address);
    /** NULL, or waits until all writes are on the medium. */
    tw_result (*sync)(void *context);
    void *context;
    /** Where the two sectors begin. They belong to the log alone. */
    uint32_t sectors[2];
    /** A multiple of what the flash erases at a time; at least FLASH_LOG_MIN_SECTOR_BYTES. */
    uint32_t sector_bytes;
    /** The unit of writing: 1 to 32 bytes, a divisor of `sector_bytes`. */
    uint32_t write_bytes;
} flash_driver;

/** A log. Read `erases`, `torn_bytes` and `epoch` as you like; the rest is private. */
typedef struct flash_log {
    flash_driver flash;
    /** How often the log has begun anew in its whole life. */
    uint32_t epoch;
    /** How often this program has erased a sector. */
    uint32_t erases;
    /** What flash_log_open() found behind the last whole record, as a loss of power leaves it: nothing that had to last. */
    uint32_t torn_bytes;
    uint32_t at, end;
    uint8_t sector, target;
    bool is_closed;
} flash_log;

/**
 * Finds the log in the flash; where there is none, an empty one begins with the first message. Nothing is written. Answers 0,
 * TW_ARGUMENT for sizes that do not fit together, or TW_STORE_FAILED if the flash cannot be read.
 */
tw_result flash_log_open(flash_log *log, const flash_driver *flash);

/** The store of a client. Half of a sector can be messages; the other half is what makes erasing rare. */
tw_store flash_log_store(flash_log *log);

/** Forgets everything, for a new tw_client_init(). Answers 0 or TW_STORE_FAILED. */
tw_result flash_log_erase(flash_log *log);

#ifdef __cplusplus
}
#endif

#endif
