/* pprof's profiles: a sample for each object, whose stack is a list of locations.  Each name is one
   string, one function and one location: name k (from 1) is location k and string FIXED + k - 1. */
#include "model/call/pprof.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pprof.pb-c.h"

#define P(name) Perftools__Profiles__##name
#define P_INIT(name) PERFTOOLS__PROFILES__##name##__INIT

static const char *const fixed[] = {"", "tensors", "count", "space", "bytes"};
enum { FIXED = sizeof fixed / sizeof fixed[0] };

/* An object: its size and the numbers of its names. */
typedef struct object {
  int64_t bytes;
  int n;
  uint64_t place[MR_PPROF_DEEPEST];
} object_t;

struct mr_pprof {
  char **name; /* [n_name] */
  object_t *object;
  size_t n_name, room_name, n_object, room_object;
  bool failed; /* without memory */
};

mr_pprof_t *mr_pprof_create(void) { return calloc(1, sizeof(mr_pprof_t)); }

static void pprof_destroy(mr_pprof_t *p) {
  for (size_t i = 0; i < p->n_name; i++) free(p->name[i]);
  free(p->name), free(p->object), free(p);
}

/* The array with room for one more than n elements; NULL without memory. */
static void *pprof_grow(void *array, size_t n, size_t *room, size_t size) {
  if (n < *room) return array;
  size_t more = *room ? 2 * *room : 64;
  void *at = realloc(array, more * size);
  if (at) *room = more;
  return at;
}

/* The location of a name; 0 without memory. */
static uint64_t location_of(mr_pprof_t *p, const char *name) {
  for (size_t i = 0; i < p->n_name; i++)
    if (!strcmp(p->name[i], name)) return i + 1;
  void *more = pprof_grow(p->name, p->n_name, &p->room_name, sizeof *p->name);
  if (!more) return 0;
  p->name = more;
  if (!(p->name[p->n_name] = strdup(name))) return 0;
  return ++p->n_name;
}

void mr_pprof_add(mr_pprof_t *p, int n, const char *const *name, int64_t bytes) {
  if (!p) return;
  void *more = pprof_grow(p->object, p->n_object, &p->room_object, sizeof *p->object);
  object_t o = {.bytes = bytes};
  for (int i = 0; i < n && o.n < MR_PPROF_DEEPEST; i++)
    p->failed |= !(o.place[o.n++] = location_of(p, name[i]));
  p->failed |= !more;
  if (!more) return;
  p->object = more;
  p->object[p->n_object++] = o;
}

/* ---- the file ---- */

/* The messages of a profile, which point into each other. */
typedef struct messages {
  P(Profile) profile;
  P(ValueType) count, space, *type[2];
  P(Sample) * sample, **samples;
  P(Location) * location, **locations;
  P(Function) * function, **functions;
  P(Line) * line, **lines;
  char **string;
  int64_t *value; /* of samples, two each */
} messages_t;

static bool messages_take(messages_t *m, const mr_pprof_t *p) {
  size_t names = p->n_name + 1, samples = p->n_object + 1;
  *m = (messages_t){0};
  return (m->sample = calloc(samples, sizeof *m->sample)) &&
         (m->samples = calloc(samples, sizeof *m->samples)) &&
         (m->value = calloc(samples, 2 * sizeof *m->value)) &&
         (m->location = calloc(names, sizeof *m->location)) &&
         (m->locations = calloc(names, sizeof *m->locations)) &&
         (m->function = calloc(names, sizeof *m->function)) &&
         (m->functions = calloc(names, sizeof *m->functions)) &&
         (m->line = calloc(names, sizeof *m->line)) &&
         (m->lines = calloc(names, sizeof *m->lines)) &&
         (m->string = calloc(names + FIXED, sizeof *m->string));
}

static void messages_free(messages_t *m) {
  free(m->sample), free(m->samples), free(m->value), free(m->location), free(m->locations);
  free(m->function), free(m->functions), free(m->line), free(m->lines), free(m->string);
}

static void messages_name(messages_t *m, const mr_pprof_t *p) {
  for (size_t i = 0; i < FIXED; i++) m->string[i] = (char *)fixed[i];
  for (size_t i = 0; i < p->n_name; i++) {
    P(Location) *l = m->locations[i] = &m->location[i];
    P(Function) *f = m->functions[i] = &m->function[i];
    P(Line) *line = m->lines[i] = &m->line[i];
    *l = (P(Location))P_INIT(LOCATION);
    *f = (P(Function))P_INIT(FUNCTION);
    *line = (P(Line))P_INIT(LINE);
    l->id = f->id = line->function_id = i + 1;
    f->name = FIXED + (int64_t)i;
    l->n_line = 1, l->line = &m->lines[i];
    m->string[FIXED + i] = p->name[i];
  }
}

static void messages_fill(messages_t *m, const mr_pprof_t *p) {
  m->profile = (P(Profile))P_INIT(PROFILE);
  m->count = m->space = (P(ValueType))P_INIT(VALUE_TYPE);
  m->count.type = 1, m->count.unit = 2, m->space.type = 3, m->space.unit = 4;
  m->type[0] = &m->count, m->type[1] = &m->space;
  for (size_t i = 0; i < p->n_object; i++) {
    P(Sample) *s = m->samples[i] = &m->sample[i];
    *s = (P(Sample))P_INIT(SAMPLE);
    s->n_location_id = (size_t)p->object[i].n, s->location_id = p->object[i].place;
    s->n_value = 2, s->value = m->value + 2 * i;
    s->value[0] = 1, s->value[1] = p->object[i].bytes;
  }
  messages_name(m, p);
  m->profile.n_sample_type = 2, m->profile.sample_type = m->type;
  m->profile.n_sample = p->n_object, m->profile.sample = m->samples;
  m->profile.n_location = m->profile.n_function = p->n_name;
  m->profile.location = m->locations, m->profile.function = m->functions;
  m->profile.n_string_table = p->n_name + FIXED, m->profile.string_table = m->string;
  m->profile.default_sample_type = 3;
}

/* Writes the bytes gzipped, as pprof's own profiles are; on failure *why is an errno. */
static bool save_zipped(const uint8_t *bytes, size_t n, const char *path, int *why) {
  errno = 0;
  gzFile f = gzopen(path, "wb9");
  *why = errno ? errno : ENOMEM;
  if (!f) return false;
  bool ok = gzfwrite(bytes, 1, n, f) == n;
  if (!ok && errno) *why = errno;
  if (gzclose(f) == Z_OK) return ok;
  *why = errno ? errno : EIO;
  return false;
}

static mr_err_t save_profile(const P(Profile) * p, const char *path, mr_diag_t *diag) {
  size_t n = perftools__profiles__profile__get_packed_size(p);
  uint8_t *bytes = malloc(n + 1);
  if (!bytes) return mr_no_memory(diag, "a profile of %zu bytes", n);
  perftools__profiles__profile__pack(p, bytes);
  int why;
  bool ok = save_zipped(bytes, n, path, &why);
  free(bytes);
  if (ok) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", path, strerror(why));
}

mr_err_t mr_pprof_save(mr_pprof_t *p, const char *what, const char *path, mr_diag_t *diag) {
  messages_t m;
  if (!p) return mr_no_memory(diag, "%s", what);
  bool taken = messages_take(&m, p) && !p->failed;
  if (taken) messages_fill(&m, p);
  mr_err_t e = taken ? save_profile(&m.profile, path, diag) : mr_no_memory(diag, "%s", what);
  messages_free(&m);
  pprof_destroy(p);
  return e;
}
