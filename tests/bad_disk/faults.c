/* Loaded before the C library: counts the changes of a folder that a program makes, and lets one of them fail.
 *
 * FAULTS_DIR   the folder
 * FAULTS_AT    which change fails, from 1
 * FAULTS_KIND  full: this and every later one finds no room; eio: this one fails; short: this one writes half,
 *              or fails if it is no write
 * FAULTS_SEEN  a file that gets the number of changes when the program ends in order
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum outcome { PASS, FAIL, HALF };

static char folder[PATH_MAX];
static size_t length;
static long at;
static char kind;
static long changes;

__attribute__((constructor)) static void begin(void) {
    const char *dir = getenv("FAULTS_DIR"), *n = getenv("FAULTS_AT"), *how = getenv("FAULTS_KIND");
    if (!dir) return;
    snprintf(folder, sizeof folder, "%s", dir);
    length = strlen(folder);
    at = n ? atol(n) : 0;
    kind = how ? how[0] : 0;
}

__attribute__((destructor)) static void end(void) {
    const char *seen = getenv("FAULTS_SEEN");
    if (!seen) return;
    FILE *file = fopen(seen, "w");
    if (!file) return;
    fprintf(file, "%ld", changes);
    fclose(file);
}

static int is_beneath(const char *path) {
    return length && path && strncmp(path, folder, length) == 0;
}

static int is_open_beneath(int fd) {
    char link[64], path[PATH_MAX];
    if (!length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return is_beneath(path);
}

static enum outcome change(void) {
    long n = __sync_add_and_fetch(&changes, 1);
    if (!at || n < at || (n > at && kind != 'f')) return PASS;
    errno = kind == 'f' ? ENOSPC : EIO;
    return kind == 's' ? HALF : FAIL;
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t count) {
    REAL(write);
    if (!is_open_beneath(fd)) return real(fd, bytes, count);
    switch (change()) {
    case FAIL: return -1;
    case HALF: return real(fd, bytes, count / 2);
    default: return real(fd, bytes, count);
    }
}

static int opens(const char *name, const char *path, int flags, mode_t mode) {
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
    if (is_beneath(path) && (flags & O_CREAT) && access(path, F_OK) != 0 && change() != PASS) return -1;
    return real(path, flags, mode);
}

static int opens_at(const char *name, int dir, const char *path, int flags, mode_t mode) {
    int (*real)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, name);
    int here = path && path[0] == '/' ? is_beneath(path) : is_open_beneath(dir);
    if (here && (flags & O_CREAT) && faccessat(dir, path, F_OK, 0) != 0 && change() != PASS) return -1;
    return real(dir, path, flags, mode);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) { MODE(flags) return opens("open", path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opens("open64", path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE(flags) return opens_at("openat", dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) {
    MODE(flags)
    return opens_at("openat64", dir, path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (is_beneath(path) && access(path, F_OK) != 0 && change() != PASS) return -1;
    return real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    if (is_beneath(to) && change() != PASS) return -1;
    return real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    if (is_beneath(path) && access(path, F_OK) == 0 && change() != PASS) return -1;
    return real(path);
}

int rmdir(const char *path) {
    REAL(rmdir);
    if (is_beneath(path) && change() != PASS) return -1;
    return real(path);
}

int fsync(int fd) {
    REAL(fsync);
    if (is_open_beneath(fd) && change() != PASS) return -1;
    return real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    if (is_open_beneath(fd) && change() != PASS) return -1;
    return real(fd);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    if (is_open_beneath(fd) && change() != PASS) return -1;
    return real(fd, size);
}
