/* Preloaded into a process, it sets the process's wall clock wrong: by as many milliseconds as the
 * file PLIMSOLL_TEST_CLOCK holds (8 bytes, little-endian, signed), which may change while the
 * process runs. Clocks that do not step are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *wrong_ms;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("PLIMSOLL_TEST_CLOCK");
  if (!path) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *wrong_ms, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) {
    dprintf(2, "clock shim: PLIMSOLL_TEST_CLOCK=%s cannot be read\n", path);
    _exit(97);
  }
  close(file);
  wrong_ms = page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, time);
  if (!failed && clock == CLOCK_REALTIME && wrong_ms) {
    int64_t ms = *wrong_ms;
    int64_t ns = time->tv_nsec + (ms % 1000) * 1000000;
    time->tv_sec += ms / 1000 + (ns >= 1000000000) - (ns < 0);
    time->tv_nsec = ns + (ns < 0 ? 1000000000 : ns >= 1000000000 ? -1000000000 : 0);
  }
  return failed;
}
