/* A disk that loses power: preloaded into a process, it keeps below PLIMSOLL_POWERLOSS_JOURNAL an undo
 * journal of everything done to files below PLIMSOLL_POWERLOSS_DATA that was not synced yet.
 * restore.py reads the journal after the process was killed and takes the unsynced changes back.
 *
 * The journal is written before the change that it undoes, with plain writes: a killed process loses
 * nothing of the page cache, and that is exactly why this shim exists. What the disk is taken to keep:
 *   - bytes and length of a file: after fsync or fdatasync of it (a sync covers what was written
 *     before it began; sync_file_range promises nothing and is passed through);
 *   - a new name: after fsync of its folder, or of the new file itself;
 *   - a new folder: after fsync of its folder, or of anything inside it;
 *   - a rename, a removal: after fsync of the folder it happened in.
 * Not seen, and therefore kept: stdio's own writes (RocksDB's text log), and system calls made around
 * libc (the log's fallocate, which only lengthens a file). Writes by mmap would be missed too; they end
 * the process.
 *
 * One record of the journal, little endian, no padding:
 *   u8 kind | u64 inode | u64 offset | u64 size before | u32 path bytes | u32 second path bytes
 *   | u64 saved bytes | path | second path | saved bytes
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 'W', SYNC = 'S', SYNC_FOLDER = 'Y', CREATE = 'C', RENAME = 'R', UNLINK = 'U', LINK = 'L', MKDIR = 'D', RMDIR = 'X' };

#pragma pack(push, 1)
struct record {
  uint8_t kind;
  uint64_t inode, offset, size;
  uint32_t path_bytes, second_bytes;
  uint64_t saved_bytes;
};
#pragma pack(pop)

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char data[PATH_MAX], journal_folder[PATH_MAX];
static size_t data_bytes;
static int journal = -1;
static uint64_t journal_bytes, saved_files;

static void die(const char *what) {
  dprintf(2, "powerloss shim: %s: %s\n", what, strerror(errno));
  _exit(97);
}

__attribute__((constructor)) static void start(void) {
  const char *d = getenv("PLIMSOLL_POWERLOSS_DATA"), *j = getenv("PLIMSOLL_POWERLOSS_JOURNAL");
  if (!d || !j) return;
  if (!realpath(d, data) || !realpath(j, journal_folder)) die("cannot resolve the folders");
  char path[PATH_MAX + 16];
  snprintf(path, sizeof path, "%s/journal", journal_folder);
  __typeof__(open) *real = (__typeof__(open) *)dlsym(RTLD_NEXT, "open");
  journal = real(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (journal < 0) die("cannot open the journal");
  data_bytes = strlen(data);
}

static int below(const char *path) {
  return !strncmp(path, data, data_bytes) && (path[data_bytes] == '/' || !path[data_bytes]);
}

/* Fills in the path and returns whether the descriptor is a file below the data folder. */
static int tracked(int fd, struct stat *st, char *path) {
  if (journal < 0 || fd < 0 || fstat(fd, st)) return 0;
  if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) return 0;
  char link[40];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return below(path);
}

/* Makes a path absolute without following its last part; returns whether it is below the data folder. */
static int resolve(int at, const char *path, char *out) {
  if (journal < 0) return 0;
  char base[PATH_MAX] = "", whole[2 * PATH_MAX], folder[PATH_MAX];
  if (path[0] != '/') {
    if (at == AT_FDCWD) {
      if (!getcwd(base, sizeof base)) return 0;
    } else {
      char link[40];
      snprintf(link, sizeof link, "/proc/self/fd/%d", at);
      ssize_t n = readlink(link, base, sizeof base - 1);
      if (n < 0) return 0;
      base[n] = 0;
    }
    strcat(base, "/");
  }
  snprintf(whole, sizeof whole, "%s%s", base, path);
  size_t end = strlen(whole);
  while (end > 1 && whole[end - 1] == '/') whole[--end] = 0;
  char *slash = strrchr(whole, '/');
  if (!slash) return 0;
  *slash = 0;
  if (!realpath(whole[0] ? whole : "/", folder)) return 0;
  if (snprintf(out, PATH_MAX, "%s/%s", folder, slash + 1) >= PATH_MAX) return 0;
  return below(out);
}

static void put(struct record head, const char *path, const char *second, const void *saved) {
  REAL(writev);
  head.path_bytes = path ? strlen(path) : 0;
  head.second_bytes = second ? strlen(second) : 0;
  struct iovec parts[4] = {{&head, sizeof head},
                           {(void *)path, head.path_bytes},
                           {(void *)second, head.second_bytes},
                           {(void *)saved, head.saved_bytes}};
  uint64_t total = sizeof head + head.path_bytes + head.second_bytes + head.saved_bytes;
  if (real(journal, parts, 4) != (ssize_t)total) die("cannot write the journal");
  journal_bytes += total;
}

/* Keeps what a change to [offset, offset + length) of a file is about to destroy. Call with the lock held. */
static void keep_bytes(int fd, const struct stat *st, const char *path, uint64_t offset, uint64_t length) {
  uint64_t size = st->st_size, kept = 0;
  char *saved = NULL;
  if (offset < size) {
    kept = length < size - offset ? length : size - offset;
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    __typeof__(open) *real_open = (__typeof__(open) *)dlsym(RTLD_NEXT, "open");
    int in = real_open(link, O_RDONLY | O_CLOEXEC);  /* the descriptor itself may be write-only */
    if (in < 0) die("cannot read back a file");
    if (!(saved = malloc(kept))) die("no memory");
    for (uint64_t n = 0; n < kept;) {
      ssize_t got = pread(in, saved + n, kept - n, offset + n);
      if (got <= 0) die("short read of a file");
      n += got;
    }
    __typeof__(close) *real_close = (__typeof__(close) *)dlsym(RTLD_NEXT, "close");
    real_close(in);
  }
  put((struct record){.kind = WRITE, .inode = st->st_ino, .offset = offset, .size = size, .saved_bytes = kept}, path, NULL, saved);
  free(saved);
}

static uint64_t total_of(const struct iovec *v, int n) {
  uint64_t total = 0;
  for (int i = 0; i < n; i++) total += v[i].iov_len;
  return total;
}

/* Runs `call` with the bytes it overwrites kept, if the descriptor is tracked. Offset -1: where the file stands. */
#define KEEPING(fd, offset, length, call) \
  struct stat st; \
  char path[PATH_MAX]; \
  if (!tracked(fd, &st, path)) return call; \
  pthread_mutex_lock(&lock); \
  if (fstat(fd, &st)) die("fstat"); \
  int64_t at = (offset); \
  if (at < 0) at = fcntl(fd, F_GETFL) & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR); \
  keep_bytes(fd, &st, path, at, (length)); \
  __typeof__(call) result = call; \
  int error = errno; \
  pthread_mutex_unlock(&lock); \
  errno = error; \
  return result

ssize_t write(int fd, const void *b, size_t n) { REAL(write); KEEPING(fd, -1, n, real(fd, b, n)); }
ssize_t writev(int fd, const struct iovec *v, int n) { REAL(writev); KEEPING(fd, -1, total_of(v, n), real(fd, v, n)); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { REAL(pwrite); KEEPING(fd, o, n, real(fd, b, n, o)); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { REAL(pwrite64); KEEPING(fd, o, n, real(fd, b, n, o)); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t o) { REAL(pwritev); KEEPING(fd, o, total_of(v, n), real(fd, v, n, o)); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t o) { REAL(pwritev64); KEEPING(fd, o, total_of(v, n), real(fd, v, n, o)); }
int ftruncate(int fd, off_t n) { REAL(ftruncate); KEEPING(fd, n, UINT64_MAX / 2, real(fd, n)); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); KEEPING(fd, n, UINT64_MAX / 2, real(fd, n)); }
int fallocate(int fd, int m, off_t o, off_t n) { REAL(fallocate); KEEPING(fd, o, m & ~FALLOC_FL_KEEP_SIZE ? n : 0, real(fd, m, o, n)); }
int fallocate64(int fd, int m, off64_t o, off64_t n) { REAL(fallocate64); KEEPING(fd, o, m & ~FALLOC_FL_KEEP_SIZE ? n : 0, real(fd, m, o, n)); }
int posix_fallocate(int fd, off_t o, off_t n) { REAL(posix_fallocate); KEEPING(fd, o, 0, real(fd, o, n)); }
int posix_fallocate64(int fd, off64_t o, off64_t n) { REAL(posix_fallocate64); KEEPING(fd, o, 0, real(fd, o, n)); }

/* In-kernel copies into the data folder are refused; every caller falls back to read and write. */
ssize_t copy_file_range(int in, off64_t *oi, int out, off64_t *oo, size_t n, unsigned f) {
  REAL(copy_file_range);
  struct stat st;
  char path[PATH_MAX];
  if (tracked(out, &st, path)) return errno = ENOSYS, -1;
  return real(in, oi, out, oo, n, f);
}
ssize_t sendfile(int out, int in, off_t *o, size_t n);
ssize_t sendfile64(int out, int in, off64_t *o, size_t n) {
  static ssize_t (*real)(int, int, off64_t *, size_t);
  if (!real) real = (ssize_t(*)(int, int, off64_t *, size_t))dlsym(RTLD_NEXT, "sendfile64");
  struct stat st;
  char path[PATH_MAX];
  if (tracked(out, &st, path)) return errno = EINVAL, -1;
  return real(out, in, o, n);
}

void *mmap(void *a, size_t n, int prot, int flags, int fd, off_t o) {
  REAL(mmap);
  struct stat st;
  char path[PATH_MAX];
  if (prot & PROT_WRITE && flags & MAP_SHARED && tracked(fd, &st, path)) errno = ENOTSUP, die("a file is written by mmap");
  return real(a, n, prot, flags, fd, o);
}

/* A sync covers what the journal held when it began. */
static void synced(int fd, const struct stat *st, const char *path, uint64_t upto) {
  (void)fd;
  pthread_mutex_lock(&lock);
  uint8_t kind = S_ISDIR(st->st_mode) ? SYNC_FOLDER : SYNC;
  put((struct record){.kind = kind, .inode = st->st_ino, .offset = upto}, path, NULL, NULL);
  pthread_mutex_unlock(&lock);
}

#define SYNCING(fd, call) \
  struct stat st; \
  char path[PATH_MAX]; \
  int mine = tracked(fd, &st, path); \
  pthread_mutex_lock(&lock); \
  uint64_t upto = journal_bytes; \
  pthread_mutex_unlock(&lock); \
  int result = call; \
  if (mine && !result) synced(fd, &st, path, upto); \
  return result

int fsync(int fd) { REAL(fsync); SYNCING(fd, real(fd)); }
int fdatasync(int fd) { REAL(fdatasync); SYNCING(fd, real(fd)); }

static int opening(int at, const char *name, int flags, mode_t mode) {
  static int (*real)(int, const char *, int, ...);
  if (!real) real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
  char path[PATH_MAX];
  if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || !resolve(at, name, path))
    return real(at, name, flags, mode);
  pthread_mutex_lock(&lock);
  struct stat st;
  int existed = !stat(path, &st), error;
  if (existed && S_ISREG(st.st_mode) && flags & O_TRUNC && st.st_size) {
    int in = real(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (in < 0) die("cannot read a file before it is truncated");
    keep_bytes(in, &st, path, 0, st.st_size);
    __typeof__(close) *real_close = (__typeof__(close) *)dlsym(RTLD_NEXT, "close");
    real_close(in);
  }
  int fd = real(at, name, flags, mode);
  error = errno;
  if (!existed && fd >= 0) {
    if (fstat(fd, &st)) die("fstat");
    put((struct record){.kind = CREATE, .inode = st.st_ino}, path, NULL, NULL);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}

#define MODE(flags) \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { va_list v; va_start(v, flags); mode = va_arg(v, mode_t); va_end(v); }

int open(const char *p, int flags, ...) { MODE(flags) return opening(AT_FDCWD, p, flags, mode); }
int open64(const char *p, int flags, ...) { MODE(flags) return opening(AT_FDCWD, p, flags | O_LARGEFILE, mode); }
int openat(int at, const char *p, int flags, ...) { MODE(flags) return opening(at, p, flags, mode); }
int openat64(int at, const char *p, int flags, ...) { MODE(flags) return opening(at, p, flags | O_LARGEFILE, mode); }
int creat(const char *p, mode_t mode) { return opening(AT_FDCWD, p, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* Keeps a second name of a file that is about to lose one; returns its number. Call with the lock held. */
static uint64_t save(const char *path, struct stat *st) {
  static int (*real)(int, const char *, int, const char *, int);
  if (!real) real = (int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat");
  if (lstat(path, st)) return 0;
  char to[PATH_MAX + 32];
  snprintf(to, sizeof to, "%s/saved.%llu", journal_folder, (unsigned long long)++saved_files);
  if (real(AT_FDCWD, path, AT_FDCWD, to, 0)) die("cannot keep a file that is removed");
  return saved_files;
}

static int removing(int at, const char *name, int flags) {
  static int (*real)(int, const char *, int);
  if (!real) real = (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");
  char path[PATH_MAX];
  if (!resolve(at, name, path)) return real(at, name, flags);
  pthread_mutex_lock(&lock);
  struct stat st = {0};
  uint64_t number = flags & AT_REMOVEDIR ? 0 : save(path, &st);
  put((struct record){.kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK, .inode = st.st_ino, .size = number}, path, NULL, NULL);
  int result = real(at, name, flags), error = errno;
  if (result) die("a removal failed after it was noted");
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}
int unlink(const char *p) { return access(p, F_OK) ? -1 : removing(AT_FDCWD, p, 0); }
int rmdir(const char *p) {
  static int (*real)(const char *);
  if (!real) real = (int (*)(const char *))dlsym(RTLD_NEXT, "rmdir");
  char path[PATH_MAX];
  int result = real(p), error = errno;
  if (!result && resolve(AT_FDCWD, p, path)) {
    pthread_mutex_lock(&lock);
    put((struct record){.kind = RMDIR}, path, NULL, NULL);
    pthread_mutex_unlock(&lock);
  }
  errno = error;
  return result;
}
int unlinkat(int at, const char *p, int flags) { return faccessat(at, p, F_OK, AT_SYMLINK_NOFOLLOW) ? -1 : removing(at, p, flags); }
int remove(const char *p) {
  struct stat st;
  if (lstat(p, &st)) return -1;
  return S_ISDIR(st.st_mode) ? rmdir(p) : unlink(p);
}

static int renaming(int at, const char *from, int to_at, const char *to, unsigned flags) {
  static int (*real)(int, const char *, int, const char *, unsigned);
  if (!real) real = (int (*)(int, const char *, int, const char *, unsigned))dlsym(RTLD_NEXT, "renameat2");
  char a[PATH_MAX], b[PATH_MAX];
  if (!resolve(at, from, a) || !resolve(to_at, to, b)) return real(at, from, to_at, to, flags);
  struct stat st, target;
  if (lstat(a, &st)) return -1;
  pthread_mutex_lock(&lock);
  uint64_t number = !lstat(b, &target) && S_ISREG(target.st_mode) ? save(b, &target) : 0;
  put((struct record){.kind = RENAME, .inode = st.st_ino, .size = number}, a, b, NULL);
  int result = real(at, from, to_at, to, flags), error = errno;
  if (result) die("a rename failed after it was noted");
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}
int rename(const char *a, const char *b) { return renaming(AT_FDCWD, a, AT_FDCWD, b, 0); }
int renameat(int x, const char *a, int y, const char *b) { return renaming(x, a, y, b, 0); }
int renameat2(int x, const char *a, int y, const char *b, unsigned f) { return renaming(x, a, y, b, f); }

int linkat(int x, const char *a, int y, const char *b, int flags) {
  static int (*real)(int, const char *, int, const char *, int);
  if (!real) real = (int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat");
  char path[PATH_MAX];
  int result = real(x, a, y, b, flags), error = errno;
  if (!result && resolve(y, b, path)) {
    pthread_mutex_lock(&lock);
    put((struct record){.kind = LINK}, path, NULL, NULL);
    pthread_mutex_unlock(&lock);
  }
  errno = error;
  return result;
}
int link(const char *a, const char *b) { return linkat(AT_FDCWD, a, AT_FDCWD, b, 0); }

int mkdirat(int at, const char *p, mode_t mode) {
  static int (*real)(int, const char *, mode_t);
  if (!real) real = (int (*)(int, const char *, mode_t))dlsym(RTLD_NEXT, "mkdirat");
  char path[PATH_MAX];
  int result = real(at, p, mode), error = errno;
  if (!result && resolve(at, p, path)) {
    pthread_mutex_lock(&lock);
    put((struct record){.kind = MKDIR}, path, NULL, NULL);
    pthread_mutex_unlock(&lock);
  }
  errno = error;
  return result;
}
int mkdir(const char *p, mode_t mode) { return mkdirat(AT_FDCWD, p, mode); }
