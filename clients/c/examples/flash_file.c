#define _POSIX_C_SOURCE 200809L
#include "flash_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static tw_result read_file(void *context, uint32_t address, uint8_t *to, size_t len) {
    const flash_file *file = (const flash_file *)context;
    while (len > 0) {
        ssize_t count = pread(file->fd, to, len, (off_t)address);
        if (count == 0 || (count < 0 && errno != EINTR)) {
            return TW_STORE_FAILED;
        }
        if (count > 0) {
            to += count;
            address += (uint32_t)count;
            len -= (size_t)count;
        }
    }
    return 0;
}

static tw_result write_file(void *context, uint32_t address, const uint8_t *from, size_t len) {
    const flash_file *file = (const flash_file *)context;
    while (len > 0) {
        ssize_t count = pwrite(file->fd, from, len, (off_t)address);
        if (count < 0 && errno != EINTR) {
            return TW_STORE_FAILED;
        }
        if (count > 0) {
            from += count;
            address += (uint32_t)count;
            len -= (size_t)count;
        }
    }
    return 0;
}

static tw_result fill_file(void *context, uint32_t from, uint32_t to) {
    uint8_t blank[512];
    memset(blank, 0xFF, sizeof blank);
    while (from < to) {
        uint32_t part = to - from < sizeof blank ? to - from : (uint32_t)sizeof blank;
        if (write_file(context, from, blank, part) < 0) {
            return TW_STORE_FAILED;
        }
        from += part;
    }
    return 0;
}

static tw_result sync_file(void *context) {
    return fdatasync(((const flash_file *)context)->fd) == 0 ? 0 : (tw_result)TW_STORE_FAILED;
}

/* A driver does not know its sector size, but the file does: it has two sectors. */
static tw_result erase_file(void *context, uint32_t address) {
    struct stat status;
    if (fstat(((const flash_file *)context)->fd, &status) != 0) {
        return TW_STORE_FAILED;
    }
    return fill_file(context, address, address + (uint32_t)(status.st_size / 2));
}

/* The name of a new file survives a crash only if its folder is synced, too. */
static bool sync_folder(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 1 : (size_t)(slash - path) + 1;
    int fd, result;
    if (len >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(folder, slash == NULL ? "." : path, len);
    folder[len] = '\0';
    fd = open(folder, O_RDONLY);
    if (fd < 0) {
        return false;
    }
    result = fsync(fd);
    (void)close(fd);
    return result == 0;
}

static bool begins_a_log(flash_file *file, uint32_t at) {
    uint8_t first[4];
    return read_file(file, at, first, sizeof first) == 0 && memcmp(first, "TWL1", sizeof first) == 0;
}

/* A file of another size belongs to another log, unless it contains none: then its creation was cut off. */
static bool make_whole(flash_file *file, const char *path, uint32_t bytes) {
    struct stat status;
    if (fstat(file->fd, &status) != 0) {
        return false;
    }
    if ((uint64_t)status.st_size == bytes) {
        return true;
    }
    if ((uint64_t)status.st_size > bytes || begins_a_log(file, 0) || begins_a_log(file, (uint32_t)(status.st_size / 2))) {
        errno = EINVAL;
        return false;
    }
    return fill_file(file, 0, bytes) == 0 && fsync(file->fd) == 0 && sync_folder(path);
}

tw_result flash_file_open(flash_file *file, const char *path, uint32_t sector_bytes, flash_driver *driver) {
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        return TW_STORE_FAILED;
    }
    if (fcntl(file->fd, F_SETLK, &lock) != 0 || !make_whole(file, path, 2 * sector_bytes)) {
        int reason = errno;
        flash_file_close(file);
        errno = reason;
        return TW_STORE_FAILED;
    }
    memset(driver, 0, sizeof *driver);
    driver->read = read_file;
    driver->write = write_file;
    driver->erase = erase_file;
    driver->sync = sync_file;
    driver->context = file;
    driver->sectors[1] = sector_bytes;
    driver->sector_bytes = sector_bytes;
    driver->write_bytes = 1;
    return 0;
}

void flash_file_close(flash_file *file) {
    (void)close(file->fd);
}
