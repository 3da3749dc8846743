// A wall clock that is set, for one program: the file CLOCK_FILE names says by how many seconds.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    const char *path = getenv("CLOCK_FILE");
    if (result != 0 || clock != CLOCK_REALTIME || path == NULL)
        return result;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        char text[32];
        ssize_t length = read(file, text, sizeof text - 1);
        close(file);
        text[length > 0 ? length : 0] = '\0';
        now->tv_sec += atol(text);
    }
    return result;
}
