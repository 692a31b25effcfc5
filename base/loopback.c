/* Addresses of sockets: whether text is one, whether it stays on this machine, and freeing an ipc
   name that a killed process has left.  Connecting to a socket file shows whether it is stale,
   since the file itself looks the same as a live one; only a refused connection allows its removal.
   */
#include "base/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

bool mr_host_is_loopback(const char *host) {
  struct in_addr v4;
  if (!strcmp(host, "::1") || !strcmp(host, "[::1]") || !strcmp(host, "localhost")) return true;
  return inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

bool mr_address_is_one(const char *address) {
  if (!strncmp(address, "ipc://", 6)) return address[6] != 0;
  if (strncmp(address, "tcp://", 6)) return false;
  const char *port = strrchr(address + 6, ':');
  if (!port++ || port == address + 7) return false;
  if (!strcmp(port, "*")) return true;
  size_t n = strlen(port);
  if (n < 1 || n > 5 || strspn(port, "0123456789") != n) return false;
  long number = strtol(port, NULL, 10);
  return number >= 1 && number <= 65535;
}

bool mr_address_stays_here(const char *address) {
  char host[64];
  if (!strncmp(address, "ipc://", 6)) return true;
  if (strncmp(address, "tcp://", 6)) return false;
  const char *at = address + 6, *colon = strrchr(at, ':');
  if (!colon || (size_t)(colon - at) >= sizeof host) return false;
  memcpy(host, at, (size_t)(colon - at)), host[colon - at] = 0;
  return mr_host_is_loopback(host);
}

bool mr_needs_proof(const char *address) {
  bool has_scheme = strstr(address, "://") != NULL;
  return has_scheme ? !mr_address_stays_here(address) : !mr_host_is_loopback(address);
}

static bool is_listened_at(const char *file) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || strlen(file) >= sizeof at.sun_path) return close(fd), true; /* leave it alone */
  strcpy(at.sun_path, file);
  bool refused = connect(fd, (void *)&at, sizeof at) < 0 && errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

mr_err_t mr_address_make_free(const char *address, mr_diag_t *diag) {
  const char *file = address + 6;
  struct stat st;
  if (strncmp(address, "ipc://", 6) || *file == '@' || lstat(file, &st) < 0) return MR_OK;
  if (!S_ISSOCK(st.st_mode))
    return mr_fail(diag, MR_ERR_IO,
                   "cannot bind %s: a file of that name is not a socket; choose another name",
                   address);
  if (is_listened_at(file))
    return mr_fail(diag, MR_ERR_IO, "cannot bind %s: another process listens there", address);
  if (unlink(file) == 0 || errno == ENOENT) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "cannot bind %s: cannot remove the socket of an earlier process: %s", address,
                 strerror(errno));
}
