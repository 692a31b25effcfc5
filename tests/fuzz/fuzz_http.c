/* The server of the live page: whatever comes over a connection, no request is allowed without the
   token. First byte '1': the rest follows a good request line and Host, to get further. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "sinks/http.h"
#include "tests/fuzz/fuzz.h"

static const char secret[] = "let in without the token";
static mr_http_t server;

static struct MHD_Response *answer(void *arg, struct MHD_Connection *c, const char *path) {
  return mr_http_text(strdup(secret), sizeof secret - 1, "text/plain");
}

static void start(void) {
  static mr_stage_t s;
  static mr_diag_t diag;
  static mr_http_settings_t set = {.bind = "127.0.0.1", .allow_host = "", .cert = "", .key = ""};
  static const mr_opt_t none[] = {{0}};
  static const mr_stage_def_t def = {.name = "web", .opts = none};
  s.def = &def, s.name = "web", s.diag = &diag, s.state = &set;
  fuzz_need(mr_http_open(&server, &s, &set, true, NULL, answer, NULL) >= 0, diag.text);
}

static int dial(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server.port)};
  struct linger at_once = {1, 0}; /* no port waits in TIME_WAIT */
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (;;) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    fuzz_need(errno == EINTR, "connect"); /* the fuzzer's clock rings every few seconds */
    close(fd);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static char said[1 << 16];
  char head[64];
  size_t have = 0;
  if (!server.daemon) start();
  if (n < 1) return 0;
  int fd = dial();
  int k = snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n", server.port);
  if (data[0] == '1') (void)!send(fd, head, (size_t)k, MSG_NOSIGNAL);
  (void)!send(fd, data + 1, n - 1, MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  for (ssize_t m; have < sizeof said - 1; have += (size_t)m)
    if ((m = recv(fd, said + have, sizeof said - 1 - have, 0)) <= 0) break;
  close(fd);
  if (memmem(said, have, secret, sizeof secret - 1)) abort();
  return 0;
}
