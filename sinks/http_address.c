/* The address that a page keeps from one life of its run to the next, in a file that holds its URL;
   port and token are parsed out of it.  The token is a password: a file that others can read, or
   that is a link, is not used. */
#include "sinks/http.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/trusted.h"
#include "base/xio.h"

/* Parses "http://127.0.0.1:8360/?token=0123..." */
static bool parse_url(const char *url, char token[MR_HTTP_TOKEN], int *port) {
  const char *mark = strstr(url, "/?token="), *colon = mark;
  while (colon && colon > url && *colon != ':') colon--;
  if (!mark || *colon != ':') return false;
  const char *digits = mark + strlen("/?token=");
  long n = strtol(colon + 1, NULL, 10);
  if (strspn(digits, "0123456789abcdef") != MR_HTTP_TOKEN - 1 || n < 1 || n > 65535) return false;
  memcpy(token, digits, MR_HTTP_TOKEN - 1);
  token[MR_HTTP_TOKEN - 1] = 0;
  *port = (int)n;
  return true;
}

bool mr_http_address_read(const char *path, char token[MR_HTTP_TOKEN], int *port) {
  char url[512];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const char *why = mr_distrust(fd, MR_KEPT_ADDRESS, NULL);
  ssize_t n = why ? -1 : read(fd, url, sizeof url - 1);
  close(fd);
  if (why) mr_notice("%s: %s: its address is not used, and another one is made", path, why);
  if (n <= 0) return false;
  url[n] = 0;
  return parse_url(url, token, port);
}

mr_err_t mr_http_address_write(const char *path, const char *url, mr_diag_t *diag) {
  mr_newfile_t f;
  MR_TRY(mr_newfile_open_own(&f, path, diag));
  mr_err_t e = fchmod(f.fd, S_IRUSR | S_IWUSR) < 0
                   ? mr_fail(diag, MR_ERR_IO, "%s: its mode cannot be set", path)
                   : mr_write_all(f.fd, url, strlen(url), path, diag);
  if (e >= 0) e = mr_write_all(f.fd, "\n", 1, path, diag);
  if (e >= 0) return mr_newfile_commit(&f, diag);
  mr_newfile_drop(&f);
  return e;
}
