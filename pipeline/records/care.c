/* Bad and excluded records of a source: the settings, the list of bad records and the report.
   care_fetch.c applies them around fetch, quarantine.c has the file. */
#include "pipeline/records/care_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ledger.h"
#include "pipeline/stage_source.h"

mr_care_t *mr__care_of(const mr_stage_t *s) {
  const mr_source_def_t *source = s->def->source;
  return source && source->care ? (mr_care_t *)((char *)s->state + source->care) : NULL;
}

/* ---- settings ---- */

/* "fail", "skip-replace" or "quarantine:N". */
static bool parse_policy(const char *text, bool *replaces, int64_t *most) {
  static const char quarantine[] = "quarantine:";
  char *end;
  *replaces = strcmp(text, "fail") != 0;
  *most = -1;
  if (!*replaces || !strcmp(text, "skip-replace")) return true;
  if (strncmp(text, quarantine, sizeof quarantine - 1)) return false;
  const char *n = text + sizeof quarantine - 1;
  errno = 0;
  *most = *n >= '0' && *n <= '9' ? strtoll(n, &end, 10) : -1;
  return *most >= 0 && !errno && !*end;
}

mr_err_t mr__care_plan(mr_stage_t *s) {
  mr_care_t *c = mr__care_of(s);
  int64_t most;
  if (!c) return MR_OK;
  bool good = parse_policy(c->on_bad, &c->lenient, &most);
  c->lenient |= c->skip && *c->skip; /* excluded records need not be readable */
  if (good) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting on-bad = %s: want fail, skip-replace or quarantine:N", c->on_bad);
}

/* ---- the list of bad records ---- */

/* The slot of a record in a table of cap slots, a power of two with a free one: its own, or the
   free one where it belongs. */
static bad_t *bad_slot(bad_t *table, int64_t cap, int64_t index) {
  uint64_t at = mr_hash_mix(0, (uint64_t)index);
  while (table[at & (uint64_t)(cap - 1)].index >= 0 &&
         table[at & (uint64_t)(cap - 1)].index != index)
    at++;
  return &table[at & (uint64_t)(cap - 1)];
}

const bad_t *mr__care_bad(const struct mr__care *t, int64_t index) {
  const bad_t *row = t->cap ? bad_slot(t->bad, t->cap, index) : NULL;
  return row && row->index >= 0 ? row : NULL;
}

void mr__care_ask_ahead(const struct mr__care *t, const int64_t *index, int n) {
  for (int i = 0; i < n && t->cap; i++)
    __builtin_prefetch(&t->bad[mr_hash_mix(0, (uint64_t)index[i]) & (uint64_t)(t->cap - 1)]);
}

/* Moves the rows to a table of twice the slots. */
static bool bad_grow(struct mr__care *t) {
  int64_t cap = t->cap ? 2 * t->cap : 32;
  bad_t *more = malloc((size_t)cap * sizeof *more);
  if (!more) return false;
  for (int64_t i = 0; i < cap; i++) more[i].index = -1;
  for (int64_t i = 0; i < t->cap; i++)
    if (t->bad[i].index >= 0) *bad_slot(more, cap, t->bad[i].index) = t->bad[i];
  free(t->bad);
  t->bad = more, t->cap = cap;
  return true;
}

mr_err_t mr__care_add(mr_stage_t *s, struct mr__care *t, bad_t row) {
  assert(row.index >= 0);
  if (2 * (mr__care_n_bad(t) + 1) > t->cap && !bad_grow(t))
    return mr_stage_no_memory(s, "a list of bad records");
  bad_t *slot = bad_slot(t->bad, t->cap, row.index);
  if (slot->index < 0) atomic_fetch_add_explicit(&t->n_bad, 1, memory_order_relaxed);
  *slot = row;
  return MR_OK;
}

/* ---- life ---- */

/* Field after field, each 64-aligned. */
static bool care_make_room(const mr_stage_t *s, struct mr__care *t) {
  const mr_spec_t *spec = &s->out_spec[0];
  size_t bytes = 64, longest = 64;
  for (int f = 0; f < spec->n_fields; f++) {
    size_t here = (mr_field_bytes(&spec->field[f]) + 63) / 64 * 64;
    if (s->writes >> f & 1) bytes += here;
    if (here > longest) longest = here;
  }
  t->zero = calloc(1, longest);
  char *at = t->room = aligned_alloc(64, bytes);
  if (!t->zero || !t->room) return false;
  for (int f = 0; f < spec->n_fields; f++)
    if (s->writes >> f & 1) {
      t->value[f].data = at;
      at += (mr_field_bytes(&spec->field[f]) + 63) / 64 * 64;
    }
  return true;
}

mr_err_t mr__care_open(mr_stage_t *s) {
  mr_care_t *c = mr__care_of(s);
  mr_diag_t why = {0};
  if (!c) return MR_OK;
  struct mr__care *t = c->rt = calloc(1, sizeof *t);
  if (!t) return mr_stage_no_memory(s, "the list of bad records");
  pthread_mutex_init(&t->lock, NULL);
  t->quarantine.fd = -1;
  parse_policy(c->on_bad, &t->replaces, &t->most);
  if (mr_ranges_parse(&t->skip, c->skip, &why) < 0)
    return mr_diag_prefix(s->diag, why.code, &why, "%s: setting skip-records", s->name);
  if (!care_make_room(s, t)) return mr_stage_no_memory(s, "the list of bad records");
  return t->most >= 0 ? mr__quarantine_open(s, t) : MR_OK;
}

/* The counts move to the state, for the report. */
void mr__care_close(mr_stage_t *s) {
  mr_care_t *c = mr__care_of(s);
  struct mr__care *t = c ? c->rt : NULL;
  if (!t) return;
  c->n_skipped = atomic_load_explicit(&t->n_skipped, memory_order_relaxed);
  c->n_replaced = atomic_load_explicit(&t->n_replaced, memory_order_relaxed);
  c->n_bad = mr__care_n_bad(t);
  mr__quarantine_close(&t->quarantine);
  mr_ranges_fini(&t->skip);
  pthread_mutex_destroy(&t->lock);
  free(t->zero), free(t->room), free(t->bad), free(t);
  c->rt = NULL;
}

static const char *plural_s(int64_t n) { return n == 1 ? "" : "s"; }

void mr__care_report(const mr_stage_t *s, char *text, size_t n) {
  const mr_care_t *c = mr__care_of(s);
  text[0] = 0;
  if (!c || (!c->n_skipped && !c->n_bad)) return;
  int k = 0;
  const char *and = c->n_skipped && c->n_bad ? ", " : "";
  if (c->n_skipped)
    k = snprintf(text, n, "excluded %" PRId64 " record%s", c->n_skipped, plural_s(c->n_skipped));
  if (c->n_bad && k >= 0 && (size_t)k < n)
    snprintf(text + k, n - (size_t)k, "%s%" PRId64 " bad record%s, replaced %" PRId64 " time%s",
             and, c->n_bad, plural_s(c->n_bad), c->n_replaced, plural_s(c->n_replaced));
}
