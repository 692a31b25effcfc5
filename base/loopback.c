#include "base/loopback.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

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
