/* A port for tests whose peers must know it before anyone waits there. */
#ifndef MR_TESTS_PORT_H
#define MR_TESTS_PORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool port_can_bind(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool good = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
  if (fd >= 0) close(fd);
  return good;
}

/* A free port whose next one, a second link's, is free too; below those that connections which come
   and go are given, since what is killed wants its port again.  0: no port is free. */
static inline int port_free(void) {
  static int tried;
  for (int i = 0; i < 6000; i++) {
    int port = 20000 + 2 * (((int)getpid() + tried++) % 6000);
    if (port_can_bind(port) && port_can_bind(port + 1)) return port;
  }
  return 0;
}

#endif
