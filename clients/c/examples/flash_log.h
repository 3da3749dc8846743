/*
 * A store for tw_client_config.store in two sectors of flash: the session of a client survives a power failure at any moment.
 *
 *     static flash_log log;
 *     static tw_store store;
 *
 *     if (flash_log_open(&log, &flash) < 0) { ... }
 *     store = flash_log_store(&log);
 *     config.store = &store;
 *
 * One sector holds the log; records are appended to it. When it is full, the client writes the live records to the other one, and
 * a final write makes that the log. So a sector is erased once for many messages (`erases` counts them), in turns. The log needs
 * no RAM except its struct, and 64 bytes of stack.
 *
 * Files to copy: flash_log.h, flash_log.c. Any C99 compiler, and tautwire.h.
 */
#ifndef FLASH_LOG_H
#define FLASH_LOG_H

#include "tautwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The largest supported write unit of the flash. */
#define FLASH_LOG_MAX_WRITE_BYTES 32u
/** The minimum sector size. */
#define FLASH_LOG_MIN_SECTOR_BYTES 256u

/**
 * The driver of your flash. Erased bytes read as 0xFF; a write clears bits, and each unit is written once after an erase. The
 * functions return 0, or a negative value on failure.
 *
 * If the hardware checks what it reads (ECC), a unit with an interrupted write may be unreadable: return any bytes except 0xFF
 * for it, and 0 as the result.
 */
typedef struct flash_driver {
    tw_result (*read)(void *context, uint32_t address, uint8_t *to, size_t len);
    /** Address and length are multiples of `write_bytes`; `from` may have any alignment. */
    tw_result (*write)(void *context, uint32_t address, const uint8_t *from, size_t len);
    /** Erases the sector that starts at `address`, all `sector_bytes` of it. */
    tw_result (*erase)(void *context, uint32_t address);
    /** NULL, or waits until all writes are on the medium. */
    tw_result (*sync)(void *context);
    void *context;
    /** The addresses of the two sectors. Only the log may use them. */
    uint32_t sectors[2];
    /** A multiple of the erase unit of the flash; at least FLASH_LOG_MIN_SECTOR_BYTES. */
    uint32_t sector_bytes;
    /** The write unit: 1 to 32 bytes, a divisor of `sector_bytes`. */
    uint32_t write_bytes;
} flash_driver;

/** A log. You may read `erases`, `torn_bytes` and `epoch`; the rest is private. */
typedef struct flash_log {
    flash_driver flash;
    /** How often the log has been started again in its whole life. */
    uint32_t epoch;
    /** How often this program has erased a sector. */
    uint32_t erases;
    /** Bytes after the last complete record, found by flash_log_open(). A power failure leaves them; nothing that had to be
     * persistent is lost. */
    uint32_t torn_bytes;
    uint32_t at, end;
    uint8_t sector, target;
    bool is_closed;
} flash_log;

/**
 * Finds the log in the flash; if there is none, an empty one starts with the first message. Nothing is written. Returns 0,
 * TW_ARGUMENT for invalid sizes, or TW_STORE_FAILED if the flash cannot be read.
 */
tw_result flash_log_open(flash_log *log, const flash_driver *flash);

/** Returns the store for a client. Half of a sector can hold messages; the other half makes erases rare. */
tw_store flash_log_store(flash_log *log);

/** Erases everything, for a new tw_client_init(). Returns 0 or TW_STORE_FAILED. */
tw_result flash_log_erase(flash_log *log);

#ifdef __cplusplus
}
#endif

#endif
