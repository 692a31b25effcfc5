/* Devices by name: reads "cpu", "cpu:1" or "opencl:1", and keeps the open devices of the process in
   a list, with the number of their owners.  The name is checked when a graph is planned, without
   touching the device; the error for an unknown name lists the known ones, and opening one that
   this build leaves out says so. */
#include "model/exec/device.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIBED ":described="

/* "cpu or opencl[:N]": the names that there are; shares of the processors are for the few. */
static const char *list_device_names(char *text, size_t n) {
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; mr_backends[i] && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s%s%s", i ? " or " : "", mr_backends[i]->name,
                           mr_backends[i]->host ? "" : "[:N]");
  return text;
}

/* Of the process: set before the threads that open devices. */
static int preferred;

void mr_device_prefer(int number) { preferred = number; }

/* Splits name into a backend and a number, which is NULL without a colon. */
static mr_err_t device_parse(const char *name, const mr_backend_t **out, const char **number,
                             mr_diag_t *diag) {
  char word[32], known[128];
  size_t n = strcspn(name, ":");
  *number = name[n] ? name + n + 1 : NULL;
  snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), name);
  if ((*out = mr_backend_find(word))) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "device = %.60s: there is no such backend, want %s", name,
                 list_device_names(known, sizeof known));
}

bool mr_device_is_described(const char *name) {
  const char *colon = name ? strchr(name, ':') : NULL;
  return colon && !strncmp(colon, DESCRIBED, strlen(DESCRIBED));
}

mr_err_t mr_device_check(const char *name, mr_diag_t *diag) {
  const mr_backend_t *b;
  const char *number;
  char key[MR_DEVICE_KEY];
  MR_TRY(device_parse(name, &b, &number, diag));
  if (mr_device_is_described(name))
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "device = %.60s: a described device computes nothing: only mem, explain and jaxpr "
        "take one",
        name);
  return number ? b->device->key(number, key, diag) : MR_OK;
}

/* The backend of a name and its key. */
static mr_err_t device_key(const char *name, const mr_backend_t **b, const char **number,
                           char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  MR_TRY(device_parse(name, b, number, diag));
  return (*b)->device->key(*number, key, diag);
}

bool mr_device_same(const char *a, const char *b) {
  const mr_backend_t *of_a, *of_b;
  const char *number;
  char key_a[MR_DEVICE_KEY], key_b[MR_DEVICE_KEY];
  if (!strcmp(a, b)) return true;
  return device_key(a, &of_a, &number, key_a, NULL) >= 0 &&
         device_key(b, &of_b, &number, key_b, NULL) >= 0 && of_a == of_b && !strcmp(key_a, key_b);
}

bool mr_device_on_host(const char *name) {
  const mr_backend_t *b;
  const char *number;
  return device_parse(name, &b, &number, NULL) >= 0 && b->host;
}

/* ---- the open devices ---- */

typedef struct opened {
  mr_device_t device;
  char name[MR_DEVICE_KEY + 32];
  int owners;
  bool settling; /* it opens or closes without the lock: who wants it waits */
  struct opened *next;
} opened_t;

enum { BACKENDS_MAX = 4 };

/* Of the whole process.  A driver may take seconds to open or close a device, so that the lock of
   the list is not held meanwhile: the entry is marked, and other devices are kept, opened and
   closed.  Drivers of one backend are called by one thread at a time: OpenCL's are asked in a fork,
   and what another thread held in them would never be let go in the child. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t settled;
  opened_t *first;
  pthread_mutex_t turn[BACKENDS_MAX]; /* of mr_backends[i] */
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .settled = PTHREAD_COND_INITIALIZER,
             .turn = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                      PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER}};

static pthread_mutex_t *driver_turn(const mr_backend_t *b) {
  int i = 0;
  while (mr_backends[i] != b) i++;
  assert(i < BACKENDS_MAX);
  return &devices.turn[i];
}

static opened_t **opened_find(const char *name) {
  opened_t **at = &devices.first;
  while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
  return at;
}

static void opened_remove(const opened_t *o) {
  opened_t **at = &devices.first;
  while (*at != o) at = &(*at)->next;
  *at = o->next;
}

/* The default device has no entry in the list: it is always open. */
static struct {
  pthread_once_t once;
  mr_device_t device;
} processors = {.once = PTHREAD_ONCE_INIT};

static void processors_init(void) {
  processors.device = (mr_device_t){mr_backends[0], NULL, -1, mr_backends[0]->name};
}

const mr_device_t *mr_device_default(void) {
  pthread_once(&processors.once, processors_init);
  return &processors.device;
}

static const mr_device_t *device_default(const mr_backend_t *b, const char *key) {
  return b == mr_backends[0] && !*key ? mr_device_default() : NULL;
}

typedef mr_err_t open_fn(mr_device_t *d, const char *what, mr_diag_t *diag);

/* A new entry, not open yet; NULL without memory. */
static opened_t *opened_create(const mr_backend_t *b, const char *name, const char *key) {
  opened_t *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  snprintf(o->name, sizeof o->name, "%s", name);
  bool numbered = *key >= '0' && *key <= '9';
  o->device = (mr_device_t){b, NULL, numbered ? (int)strtol(key, NULL, 10) : -1, o->name};
  o->next = devices.first, devices.first = o;
  return o;
}

/* Between these two the caller opens or closes the device of o, in its backend's turn; the lock,
   which is held before and after, is not held. */
static void opened_begin(opened_t *o) {
  o->settling = true;
  pthread_mutex_unlock(&devices.lock);
  pthread_mutex_lock(driver_turn(o->device.backend));
}

static void opened_end(opened_t *o) {
  pthread_mutex_unlock(driver_turn(o->device.backend));
  pthread_mutex_lock(&devices.lock);
  o->settling = false;
  pthread_cond_broadcast(&devices.settled);
}

/* One more owner of the device of that key, which open(what) opens if it is not. */
static mr_err_t devices_open(const mr_backend_t *b, const char *key, open_fn *open,
                             const char *what, const mr_device_t **out, mr_diag_t *diag) {
  char name[sizeof((opened_t *)0)->name];
  snprintf(name, sizeof name, "%s%s%s", b->name, *key ? ":" : "", key);
  pthread_mutex_lock(&devices.lock);
  opened_t *o;
  while ((o = *opened_find(name)) && o->settling)
    pthread_cond_wait(&devices.settled, &devices.lock);
  mr_err_t e = MR_OK;
  if (!o && (o = opened_create(b, name, key))) {
    opened_begin(o);
    e = open(&o->device, what, diag);
    opened_end(o);
    if (e < 0) opened_remove(o), free(o), o = NULL;
  } else if (!o)
    e = mr_no_memory(diag, "device %s", name);
  if (o) o->owners++, *out = &o->device;
  pthread_mutex_unlock(&devices.lock);
  return e;
}

/* Whether MILLRACE_OPENCL or the like says which device of a backend a name without a number means.
 */
static bool environment_names(const mr_backend_t *b) {
  char variable[48];
  snprintf(variable, sizeof variable, "MILLRACE_%s", b->name);
  for (char *c = variable; *c; c++) *c = (char)toupper((unsigned char)*c);
  return getenv(variable) != NULL;
}

mr_err_t mr_device_open(const char *name, const mr_device_t **out, mr_diag_t *diag) {
  const mr_backend_t *b;
  const char *number;
  char key[MR_DEVICE_KEY];
  MR_TRY(mr_device_check(name, diag));
  MR_TRY(device_key(name, &b, &number, key, diag));
  const mr_device_t *d = device_default(b, key);
  if (d) return *out = d, MR_OK;
  mr_diag_t why = {0};
  mr_err_t e = devices_open(b, key, b->device->open, number, out, &why);
  if (e == MR_ERR_CONFIG && preferred && !number && !environment_names(b))
    return devices_open(b, "0", b->device->open, "0", out, diag);
  return mr_diag_relay(diag, e, &why);
}

mr_err_t mr_device_open_to_plan(const char *name, const mr_device_t **out, mr_diag_t *diag) {
  const mr_backend_t *b;
  const char *number;
  if (!mr_device_is_described(name)) return mr_device_open(name, out, diag);
  MR_TRY(device_parse(name, &b, &number, diag));
  if (!b->device->open_described)
    return mr_fail(diag, MR_ERR_CONFIG, "device = %.60s: backend %s has no described devices", name,
                   b->name);
  if (strlen(number) >= MR_DEVICE_KEY)
    return mr_fail(diag, MR_ERR_CONFIG, "device = %.60s...: a name of %zu bytes, want less than %d",
                   name, strlen(name), MR_DEVICE_KEY);
  return devices_open(b, number, b->device->open_described, strchr(number, '=') + 1, out, diag);
}

/* The entry whose device is d, with the lock held; NULL: d is not from mr_device_open. */
static opened_t **opened_of(const mr_device_t *d) {
  opened_t **at = &devices.first;
  while (*at && &(*at)->device != d) at = &(*at)->next;
  return *at ? at : NULL;
}

const mr_device_t *mr_device_keep(const mr_device_t *d) {
  if (d == mr_device_default()) return d;
  pthread_mutex_lock(&devices.lock);
  opened_t **at = opened_of(d);
  if (at) (*at)->owners++;
  pthread_mutex_unlock(&devices.lock);
  return d;
}

void mr_device_close(const mr_device_t *d) {
  if (!d || d == mr_device_default()) return;
  pthread_mutex_lock(&devices.lock);
  opened_t **at = opened_of(d), *o = at ? *at : NULL;
  if (o && --o->owners == 0) {
    opened_begin(o);
    o->device.backend->device->close(&o->device);
    opened_end(o);
    opened_remove(o);
    free(o);
  }
  pthread_mutex_unlock(&devices.lock);
}

/* ---- for backends ---- */

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
                           char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  const char *wish = number ? number : getenv(variable);
  size_t n = wish ? strlen(wish) : 0;
  char text[120];
  bool good = n && n <= 4 && strspn(wish, "0123456789") == n;
  snprintf(key, MR_DEVICE_KEY, "%lu",
           good ? strtoul(wish, NULL, 10) : (unsigned long)(number || wish ? 0 : preferred));
  if (good || (!number && !n)) return MR_OK;
  if (!number)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: want the number of a device, from 0",
                   mr__device_wish(backend, variable, number, text));
  return mr_fail(diag, MR_ERR_CONFIG,
                 "device = %s:%.40s: want %s:N, where N is the number of a device, from 0", backend,
                 number, backend);
}

bool mr__device_waits(void) {
  const char *wish = getenv("MILLRACE_SYNC");
  return wish && !strcmp(wish, "1");
}
