/* Hides what is secret in a setting's value.  Two things are: the value of a setting that is
   declared as a secret, and in every other the parts of a URL that give access. */
#include "base/shown.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char hidden[] = "(hidden)";

/* Where the host begins.  A password may hold an unencoded "/", "?" or "#": what is before them is
   no host then, since its port is no number, and all up to the last "@" is hidden. */
static const char *host_of(const char *from) {
  const char *end = from + strcspn(from, "/?#"), *host = from, *at = strrchr(from, '@');
  for (const char *c = from; c < end; c++)
    if (*c == '@') host = c + 1;
  const char *port = *host == '[' ? NULL : memchr(host, ':', (size_t)(end - host));
  bool number = !port || strspn(port + 1, "0123456789") == (size_t)(end - port - 1);
  return number || !at || at < end ? host : at + 1;
}

char *mr_shown_url(const char *url) {
  const char *from = strstr(url, "://");
  if (!from) return strdup(url);
  from += strlen("://");
  bool s3 = !strncasecmp(url, "s3://", 5);
  const char *end = from + strcspn(from, "/"),
             *at = s3 ? memchr(from, '@', (size_t)(end - from)) : NULL;
  const char *host = s3 ? at ? at + 1 : from : host_of(from);
  char *shown = malloc(strlen(url) + 1);
  if (!shown) return NULL;
  size_t scheme = (size_t)(from - url), rest = s3 ? strlen(host) : strcspn(host, "?#");
  memcpy(shown, url, scheme);
  memcpy(shown + scheme, host, rest);
  shown[scheme + rest] = 0;
  return shown;
}

static const char scheme_chars[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-";

/* Whether addresses of this scheme, "tcp", have parts that give access. */
static bool gives_access(const char *scheme, size_t n) {
  static const char *const none[] = {"file", "ipc", "tcp", "inproc"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if (n == strlen(none[i]) && !strncasecmp(scheme, none[i], n)) return false;
  return n > 0;
}

void mr_hide_access(char *text) {
  for (char *at = text; (at = strchr(at, ':'));) { /* many times as fast as strstr */
    if (strncmp(at, "://", 3)) {
      at++;
      continue;
    }
    char *scheme = at, *from = at + strlen("://");
    while (scheme > text && strchr(scheme_chars, scheme[-1])) scheme--;
    char *end = from + strcspn(from, " \t\n\"'");
    while (end > from && strchr(":;,.)", end[-1])) end--; /* of the sentence */
    bool s3 = at - scheme == 2 && !strncasecmp(scheme, "s3", 2);
    char behind = *end;
    if (!gives_access(scheme, (size_t)(at - scheme))) {
      at = from;
      continue;
    }
    *end = 0;
    const char *slash = from + strcspn(from, "/"),
               *user = s3 ? memchr(from, '@', (size_t)(slash - from)) : NULL;
    const char *host = s3 ? user ? user + 1 : from : host_of(from);
    size_t rest = s3 ? strlen(host) : strcspn(host, "?#");
    memmove(from, host, rest);
    *end = behind;
    memmove(from + rest, end, strlen(end) + 1);
    at = from + rest;
  }
}

char *mr_shown(const mr_opt_t *opt, const char *text) {
  if (!text) return NULL;
  if (opt && opt->type == MR_OPT_SECRET) return strdup(*text ? hidden : "");
  const char *scheme = strstr(text, "://");
  if (!scheme || !strpbrk(text, "?#@")) return strdup(text);
  bool first = strspn(text, scheme_chars) == (size_t)(scheme - text);
  bool one = first && !strstr(scheme + 3, "://") && !strstr(text, "::");
  if (!one) return strdup(hidden);
  return strncasecmp(text, "file://", 7) ? mr_shown_url(text) : strdup(text);
}
