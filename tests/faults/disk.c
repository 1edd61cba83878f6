/* A disk that fails, preloaded into a process: calls below a folder set errno.
 *
 * Calls that take space and calls that read are counted apart; the calls from `first` to `last` of one sort fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES = 0, READS = 1 };

static char folder[PATH_MAX];
static int sort, code;
static long first, last;
static atomic_long count;
static char call_made[PATH_MAX + 64];

void disk_arm(const char *below, int what, long from, long until, int error) {
    folder[0] = 0;
    count = 0;
    sort = what;
    first = from;
    last = until;
    code = error;
    call_made[0] = 0;
    strncpy(folder, below, sizeof folder - 1);
}

long disk_count(void) { return count; }

const char *disk_call(void) { return call_made; }

static int fails(int what, const char *call, const char *path) {
    if (!folder[0] || what != sort || !path || strncmp(path, folder, strlen(folder))) return 0;
    long number = ++count;
    if (number < first || number > last) return 0;
    if (number == first) snprintf(call_made, sizeof call_made, "%s %s", call, path);
    errno = code;
    return 1;
}

static int fails_at(int what, const char *call, int file) {
    char link[64], path[PATH_MAX];
    if (!folder[0] || what != sort) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails(what, call, path);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define ON_FILE(type, name, what, parameters, arguments) \
    type name parameters { REAL(name); return fails_at(what, #name, file) ? -1 : real arguments; }

#define ON_PATH(name, parameters, arguments, path) \
    int name parameters { REAL(name); return fails(WRITES, #name, path) ? -1 : real arguments; }

ON_FILE(ssize_t, write, WRITES, (int file, const void *data, size_t size), (file, data, size))
ON_FILE(ssize_t, pwrite, WRITES, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
ON_FILE(ssize_t, pwrite64, WRITES, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
ON_FILE(ssize_t, writev, WRITES, (int file, const struct iovec *data, int n), (file, data, n))
ON_FILE(int, fsync, WRITES, (int file), (file))
ON_FILE(int, fdatasync, WRITES, (int file), (file))
ON_FILE(ssize_t, read, READS, (int file, void *data, size_t size), (file, data, size))
ON_FILE(ssize_t, pread, READS, (int file, void *data, size_t size, off_t at), (file, data, size, at))
ON_FILE(ssize_t, pread64, READS, (int file, void *data, size_t size, off64_t at), (file, data, size, at))
ON_PATH(rename, (const char *a, const char *b), (a, b), b)
ON_PATH(renameat, (int x, const char *a, int y, const char *b), (x, a, y, b), b)
ON_PATH(renameat2, (int x, const char *a, int y, const char *b, unsigned flags), (x, a, y, b, flags), b)
ON_PATH(link, (const char *a, const char *b), (a, b), b)
ON_PATH(linkat, (int x, const char *a, int y, const char *b, int flags), (x, a, y, b, flags), b)

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return access(path, F_OK) && fails(WRITES, "mkdir", path) ? -1 : real(path, mode);
}

static int fails_to_open(const char *path, int flags) {
    if (flags & O_CREAT && access(path, F_OK)) return fails(WRITES, "create", path);
    return (flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY) && fails(READS, "open", path);
}

#define OPEN(name, parameters, call) \
    int name parameters { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        return fails_to_open(path, flags) ? -1 : real call; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
