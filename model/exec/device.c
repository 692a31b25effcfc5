/* Reads the name of a device, "cpu" or "opencl:1", and opens the backend that it names.  The name
   is checked when a graph is planned, without touching the device; the error for an unknown name
   lists the known ones, and opening one that this build leaves out says so. */
#include "model/exec/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "cpu or opencl[:N]": the names that there are. */
static const char *devices_known(char *text, size_t n) {
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; mr_backends[i] && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s%s%s", i ? " or " : "", mr_backends[i]->name,
                           mr_backends[i]->host ? "" : "[:N]");
  return text;
}

/* Splits name into a backend and a number, which is NULL without a colon. */
static mr_err_t device_parse(const char *name, const mr_backend_t **out, const char **number,
                             mr_diag_t *diag) {
  char word[32], known[128];
  size_t n = strcspn(name, ":");
  *number = name[n] ? name + n + 1 : NULL;
  snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), name);
  if ((*out = mr_backend_find(word))) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "device = %.60s: there is no such backend, want %s", name,
                 devices_known(known, sizeof known));
}

#define DESCRIBED ":described="

bool mr_device_is_described(const char *name) {
  const char *colon = name ? strchr(name, ':') : NULL;
  return colon && !strncmp(colon, DESCRIBED, strlen(DESCRIBED));
}

mr_err_t mr_device_open_to_plan(const char *name, const mr_backend_t **out, mr_diag_t *diag) {
  const mr_backend_t *b;
  const char *number;
  if (!mr_device_is_described(name)) return mr_device_open(name, out, diag);
  MR_TRY(device_parse(name, &b, &number, diag));
  if (!b->open_described)
    return mr_fail(diag, MR_ERR_CONFIG, "device = %.60s: backend %s has no described devices", name,
                   b->name);
  MR_TRY(b->open_described(strchr(number, '=') + 1, diag));
  *out = b;
  return MR_OK;
}

mr_err_t mr_device_check(const char *name, mr_diag_t *diag) {
  const mr_backend_t *b;
  const char *number;
  MR_TRY(device_parse(name, &b, &number, diag));
  if (mr_device_is_described(name))
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "device = %.60s: a described device computes nothing: only mem, explain and jaxpr "
        "take one",
        name);
  if (number && b->host) return b->open(number, diag);
  size_t n = number ? strlen(number) : 1;
  if (n && n <= 4 && (!number || strspn(number, "0123456789") == n)) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "device = %.60s: want %s:N, where N is the number of a device, from 0", name,
                 b->name);
}

mr_err_t mr_device_open(const char *name, const mr_backend_t **out, mr_diag_t *diag) {
  const mr_backend_t *b;
  const char *number;
  MR_TRY(mr_device_check(name, diag));
  MR_TRY(device_parse(name, &b, &number, diag));
  MR_TRY(b->open(number, diag));
  *out = b;
  return MR_OK;
}

const char *mr__device_wish(const char *backend, const char *variable, const char *number,
                            char text[120]) {
  const char *wish = number ? number : getenv(variable);
  if (number)
    snprintf(text, 120, "device = %s:%.40s", backend, number);
  else
    snprintf(text, 120, "%s = %.40s", variable, wish ? wish : "");
  return text;
}

mr_err_t mr__device_number(const char *backend, const char *variable, const char *number,
                           unsigned *at, mr_diag_t *diag) {
  const char *wish = number ? number : getenv(variable);
  char text[120];
  size_t n = wish ? strlen(wish) : 0;
  *at = 0;
  if (!number && !n) return MR_OK;
  if (!n || n > 4 || strspn(wish, "0123456789") != n)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: want the number of a device, from 0",
                   mr__device_wish(backend, variable, number, text));
  *at = (unsigned)strtoul(wish, NULL, 10);
  return MR_OK;
}

bool mr__device_waits(void) {
  const char *wish = getenv("MILLRACE_SYNC");
  return wish && !strcmp(wish, "1");
}
