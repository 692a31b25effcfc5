/* A port for tests whose peers must know it before anyone waits there.

   Between the moment that it is drawn and the one that its owner binds it, another process may draw
   it too.  So a port is also taken by a name, an abstract address of the machine, which the kernel
   gives back when this process ends; scripts/chromium.py takes the same names. */
#ifndef MR_TESTS_PORT_H
#define MR_TESTS_PORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORTS_HELD = 64 /* names; the oldest is given back for the next one */ };

static inline bool port_can_bind(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool good = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
  if (fd >= 0) close(fd);
  return good;
}

/* The descriptor that holds the name of a port, or -1: another process has it. */
static inline int port_take(int port) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "millrace-port-%d", port);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) == 0) return fd;
  close(fd);
  return -1;
}

/* A free port whose next one, a second link's, is free too; below those that connections which come
   and go are given, since what is killed wants its port again.  0: no port is free. */
static inline int port_free(void) {
  static int tried, held[PORTS_HELD], n_held;
  for (int i = 0; i < 6000; i++) {
    int port = 20000 + 2 * (((int)getpid() + tried++) % 6000);
    if (!port_can_bind(port) || !port_can_bind(port + 1)) continue;
    int fd = port_take(port); /* pairs begin at even numbers: one name is enough */
    if (fd < 0) continue;
    int *place = &held[n_held++ % PORTS_HELD];
    if (*place > 0) close(*place);
    *place = fd;
    return port;
  }
  return 0;
}

#endif
