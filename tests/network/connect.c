/* Preloaded into a process, it sends the process's connections to ports of this machine elsewhere:
 * PLIMSOLL_TEST_CONNECT="9300=41001,9301=41002" makes what is meant for 127.0.0.1:9300 arrive at
 * 127.0.0.1:41001. So every way of a process to another one can lead through a proxy of its own,
 * whatever addresses processes tell each other.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAYS_MAX = 64 };

static struct {
  in_port_t from, to;
} ways[WAYS_MAX];
static int ways_count;

static void die(const char *text) {
  dprintf(2, "connect shim: PLIMSOLL_TEST_CONNECT=%s is no list of ports\n", text);
  _exit(97);
}

__attribute__((constructor)) static void open_ways(void) {
  const char *text = getenv("PLIMSOLL_TEST_CONNECT");
  if (!text) return;
  for (const char *at = text; *at;) {
    unsigned from, to;
    int read = 0;
    if (ways_count == WAYS_MAX || sscanf(at, "%u=%u%n", &from, &to, &read) != 2) die(text);
    ways[ways_count].from = htons((in_port_t)from);
    ways[ways_count++].to = htons((in_port_t)to);
    at += read;
    if (*at == ',') at++;
  }
}

int connect(int socket, const struct sockaddr *address, socklen_t size) {
  static int (*real)(int, const struct sockaddr *, socklen_t);
  if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
  struct sockaddr_in changed;
  if (address && address->sa_family == AF_INET && size >= sizeof changed) {
    memcpy(&changed, address, sizeof changed);
    for (int i = 0; i < ways_count; i++) {
      if (changed.sin_port == ways[i].from && changed.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) {
        changed.sin_port = ways[i].to;
        return real(socket, (struct sockaddr *)&changed, sizeof changed);
      }
    }
  }
  return real(socket, address, size);
}
