/* Records what a process changes in one folder, or kills it at a chosen change. Loaded with LD_PRELOAD, on Linux.

   FILE_OPERATIONS_ROOT  the folder
   FILE_OPERATIONS_LOG   the file to which each change is appended, if it is set
   FILE_OPERATIONS_KILL  the number of the change at which the process kills itself: N before it, -N after it

   Each record is a `struct record`, then the path, then the data of a write or the new path of a rename. Changes of one
   process are made and recorded one at a time, so that the order of the records is the order of the changes. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC_FILE, SYNC_FOLDER };

struct record {
    uint32_t kind, path_bytes;
    uint64_t inode, offset, data_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static size_t root_bytes;
static int log_fd = -1;
static long kill_at, changes;

static void unlock_in_child(void) { pthread_mutex_init(&lock, NULL); }

__attribute__((constructor)) static void start(void) {
    pthread_atfork(NULL, NULL, unlock_in_child);
    root = getenv("FILE_OPERATIONS_ROOT");
    root_bytes = root ? strlen(root) : 0;
    const char *log = getenv("FILE_OPERATIONS_LOG"), *number = getenv("FILE_OPERATIONS_KILL");
    if (root && log)
        log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    kill_at = number ? atol(number) : 0;
}

/* Whether `path` lies in the folder. SQLite's shared memory is left out: it is rebuilt after every end. */
static int is_ours(const char *path) {
    size_t length = strlen(path);
    if (!root || length < root_bytes || strncmp(path, root, root_bytes) || (path[root_bytes] && path[root_bytes] != '/'))
        return 0;
    return length < 4 || strcmp(path + length - 4, "-shm");
}

/* A file without a name is left out: nothing of it is left after the process. */
static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    struct stat status;
    return is_ours(path) && !fstat(fd, &status) && status.st_nlink > 0;
}

static int absolute(int folder, const char *path, char *full, size_t size) {
    if (path[0] == '/') {
        snprintf(full, size, "%s", path);
    } else {
        char base[4096];
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base))
                return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0)
                return 0;
            base[length] = 0;
        }
        if ((size_t)snprintf(full, size, "%s/%s", base, path) >= size)
            return 0;
    }
    return is_ours(full);
}

static void before(void) {
    pthread_mutex_lock(&lock);
    if (++changes == kill_at)
        kill(getpid(), SIGKILL);
}

static void after(enum kind kind, int done, const char *path, uint64_t inode, uint64_t offset, const void *data,
                  size_t data_bytes) {
    int saved = errno;
    if (done && log_fd >= 0) {
        struct record record = {kind, strlen(path), inode, offset, data_bytes};
        struct iovec parts[] = {{&record, sizeof record}, {(void *)path, strlen(path)}, {(void *)data, data_bytes}};
        if (syscall(SYS_writev, log_fd, parts, 3) != (long)(sizeof record + strlen(path) + data_bytes))
            abort();
    }
    if (changes == -kill_at)
        kill(getpid(), SIGKILL);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_ino;
}

/* ---- opening ---- */

static int open_any(int folder, const char *path, int flags, mode_t mode) {
    char full[8192];
    if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || !absolute(folder, path, full, sizeof full))
        return syscall(SYS_openat, folder, path, flags, mode);
    struct stat status;
    int existed = !lstat(full, &status);
    if (existed && !(flags & O_TRUNC))
        return syscall(SYS_openat, folder, path, flags, mode);
    before();
    int fd = syscall(SYS_openat, folder, path, flags, mode);
    after(existed ? TRUNCATE : CREATE, fd >= 0, full, fd >= 0 ? inode_of(fd) : 0, 0, NULL, 0);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open64(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags) return open_any(folder, path, flags | O_LARGEFILE, mode);
}

/* ---- data ---- */

static ssize_t write_at(int fd, const void *data, size_t size, off_t offset, int is_positioned) {
    char path[8192];
    if (!path_of(fd, path, sizeof path))
        return is_positioned ? syscall(SYS_pwrite64, fd, data, size, offset) : syscall(SYS_write, fd, data, size);
    before();
    if (!is_positioned) {
        struct stat status;
        int appends = fcntl(fd, F_GETFL) & O_APPEND;
        offset = appends && !fstat(fd, &status) ? status.st_size : lseek(fd, 0, SEEK_CUR);
    }
    ssize_t written = is_positioned ? syscall(SYS_pwrite64, fd, data, size, offset) : syscall(SYS_write, fd, data, size);
    after(WRITE, written > 0, path, inode_of(fd), offset, data, written > 0 ? written : 0);
    return written;
}

ssize_t write(int fd, const void *data, size_t size) { return write_at(fd, data, size, 0, 0); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return write_at(fd, data, size, offset, 1); }

int ftruncate64(int fd, off64_t size) {
    char path[8192];
    if (!path_of(fd, path, sizeof path))
        return syscall(SYS_ftruncate, fd, size);
    before();
    int result = syscall(SYS_ftruncate, fd, size);
    after(TRUNCATE, !result, path, inode_of(fd), size, NULL, 0);
    return result;
}

static int sync_any(int fd, long call) {
    char path[8192];
    if (!path_of(fd, path, sizeof path))
        return syscall(call, fd);
    struct stat status;
    int is_folder = !fstat(fd, &status) && S_ISDIR(status.st_mode);
    before();
    int result = syscall(call, fd);
    after(is_folder ? SYNC_FOLDER : SYNC_FILE, !result, path, inode_of(fd), 0, NULL, 0);
    return result;
}

int fsync(int fd) { return sync_any(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }

/* ---- names ---- */

int rename(const char *from, const char *to) {
    char full_from[8192], full_to[8192];
    int ours = absolute(AT_FDCWD, from, full_from, sizeof full_from);
    ours = absolute(AT_FDCWD, to, full_to, sizeof full_to) || ours;
    if (!ours)
        return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    before();
    int result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    after(RENAME, !result, full_from, 0, 0, full_to, strlen(full_to));
    return result;
}

static int unlink_any(int folder, const char *path, int flags) {
    char full[8192];
    if (!absolute(folder, path, full, sizeof full))
        return syscall(SYS_unlinkat, folder, path, flags);
    before();
    int result = syscall(SYS_unlinkat, folder, path, flags);
    after(flags & AT_REMOVEDIR ? RMDIR : UNLINK, !result, full, 0, 0, NULL, 0);
    return result;
}

int unlink(const char *path) { return unlink_any(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return unlink_any(folder, path, flags); }
int rmdir(const char *path) { return unlink_any(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    char full[8192];
    if (!absolute(AT_FDCWD, path, full, sizeof full))
        return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    before();
    int result = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    after(MKDIR, !result, full, 0, 0, NULL, 0);
    return result;
}
