/* Converts a memory report to pprof's protobuf format, so that `pprof -top` and its flame graphs
   show memory by layer.  The parts of a scope's path become the frames of a stack, and the value's
   equation is its leaf. */
#include "apps/measure/mem_pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "model/ir/op.h"
#include "pprof.pb-c.h"

#define P(name) Perftools__Profiles__##name
#define P_INIT(name) PERFTOOLS__PROFILES__##name##__INIT

enum { DEEPEST = 32 };

/* Each name is one string, one function and one location: name k (from 1) is location k and string
   FIXED + k - 1. */
static const char *const fixed[] = {"", "tensors", "count", "space", "bytes"};
enum { FIXED = sizeof fixed / sizeof fixed[0] };

typedef struct writer {
  mr_mem_t mem;
  char **name; /* [n_name] */
  int n_name;
  P(Sample) * *sample;
  int n_sample;
} writer_t;

static uint64_t location_of(writer_t *w, const char *name) {
  for (int i = 0; i < w->n_name; i++)
    if (!strcmp(w->name[i], name)) return (uint64_t)i + 1;
  w->name[w->n_name] = (char *)mr_mem_text(&w->mem, name);
  return (uint64_t)++w->n_name;
}

/* Builds a sample's stack: "net/block.0.attn" with leaf "dot f32[2,3]" gives the leaf,
   net/block.0.attn, net/block.0, net/block, net. */
static void stack_of(writer_t *w, P(Sample) * s, const char *scope, const char *leaf) {
  char text[512];
  s->location_id = mr_mem_take(&w->mem, DEEPEST * sizeof *s->location_id);
  s->location_id[s->n_location_id++] = location_of(w, leaf);
  snprintf(text, sizeof text, "%s", scope);
  while (*text && s->n_location_id < DEEPEST) {
    s->location_id[s->n_location_id++] = location_of(w, text);
    size_t n = strlen(text);
    while (n && text[n] != '/' && text[n] != '.') n--;
    text[n] = 0;
  }
}

static void mem_pprof_add_row(writer_t *w, const mr_mem_row_t *r) {
  char leaf[MR_AVAL_TEXT + 64] = "literal", aval[MR_AVAL_TEXT];
  if (r->eqn && r->out < 0)
    snprintf(leaf, sizeof leaf, "%s scratch", r->eqn->op->name);
  else if (r->eqn)
    snprintf(leaf, sizeof leaf, "%s %s", r->eqn->op->name,
             mr_aval_text(&r->eqn->out[r->out]->aval, aval));
  P(Sample) *s = mr_mem_take(&w->mem, sizeof *s);
  *s = (P(Sample))P_INIT(SAMPLE);
  stack_of(w, s, r->eqn ? r->eqn->scope : "", leaf);
  s->n_value = 2;
  s->value = mr_mem_take(&w->mem, 2 * sizeof *s->value);
  s->value[0] = 1;
  s->value[1] = (int64_t)r->bytes;
  w->sample[w->n_sample++] = s;
}

static void mem_pprof_name_all(writer_t *w, P(Profile) * p) {
  size_t n = (size_t)w->n_name;
  p->string_table = mr_mem_take(&w->mem, (n + FIXED) * sizeof *p->string_table);
  p->location = mr_mem_take(&w->mem, (n + 1) * sizeof *p->location);
  p->function = mr_mem_take(&w->mem, (n + 1) * sizeof *p->function);
  for (int i = 0; i < FIXED; i++) p->string_table[i] = (char *)fixed[i];
  for (size_t i = 0; i < n; i++) {
    P(Location) *l = p->location[i] = mr_mem_take(&w->mem, sizeof *l);
    P(Function) *f = p->function[i] = mr_mem_take(&w->mem, sizeof *f);
    P(Line) *line = mr_mem_take(&w->mem, sizeof *line);
    *l = (P(Location))P_INIT(LOCATION);
    *f = (P(Function))P_INIT(FUNCTION);
    *line = (P(Line))P_INIT(LINE);
    l->id = f->id = line->function_id = i + 1;
    f->name = FIXED + (int64_t)i;
    l->n_line = 1;
    l->line = mr_mem_copy(&w->mem, &line, 1, sizeof line);
    p->string_table[FIXED + i] = w->name[i];
  }
  p->n_string_table = n + FIXED;
  p->n_location = p->n_function = n;
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

static mr_err_t mem_pprof_save(const P(Profile) * p, const char *path, mr_diag_t *diag) {
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

mr_err_t mr_mem_pprof(const mr_mem_report_t *r, const char *path, mr_diag_t *diag) {
  writer_t w = {0};
  P(Profile) p = P_INIT(PROFILE);
  P(ValueType) count = P_INIT(VALUE_TYPE), space = P_INIT(VALUE_TYPE);
  P(ValueType) * types[] = {&count, &space};
  w.name = mr_mem_take(&w.mem, ((size_t)r->n_row * DEEPEST + 1) * sizeof *w.name);
  w.sample = mr_mem_take(&w.mem, ((size_t)r->n_row + 1) * sizeof *w.sample);
  for (int i = 0; i < r->n_row; i++)
    if (r->row[i].first <= r->peak && r->row[i].last >= r->peak) mem_pprof_add_row(&w, &r->row[i]);
  count.type = 1, count.unit = 2, space.type = 3, space.unit = 4;
  p.n_sample_type = 2, p.sample_type = types;
  p.n_sample = (size_t)w.n_sample, p.sample = w.sample;
  p.default_sample_type = 3;
  mem_pprof_name_all(&w, &p);
  mr_err_t e = mem_pprof_save(&p, path, diag);
  mr_mem_fini(&w.mem);
  return e;
}
