/*
 * Flash in a file, for flash_log.h on POSIX: on a gateway, or to try firmware on the desk. Data is on disk when the function that has
 * to persist it returns. Compile with flash_log.c.
 */
#ifndef FLASH_FILE_H
#define FLASH_FILE_H

#include "flash_log.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Only one program may have the file open; `fd` is private. */
typedef struct flash_file {
    int fd;
} flash_file;

/**
 * Opens or creates the file, of two sectors, and describes it in `driver`. Returns 0, or TW_STORE_FAILED with the reason in `errno`:
 * EAGAIN or EACCES if another program has it open, EINVAL if it was created with sectors of another size.
 */
tw_result flash_file_open(flash_file *file, const char *path, uint32_t sector_bytes, flash_driver *driver);

void flash_file_close(flash_file *file);

#ifdef __cplusplus
}
#endif

#endif
