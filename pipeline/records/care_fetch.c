/* The wrapper around a source's fetch.  A burst is fetched as a whole; only if that fails with a
   bad record are its records fetched one by one to find which are bad. */
#include <stdio.h>
#include <string.h>

#include "base/ledger.h"
#include "pipeline/records/care_private.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_source.h"

enum { TRIES = 64 };

static bool is_bad(mr_err_t e) { return e == MR_ERR_DATA || e == MR_ERR_IO; }

static mr_err_t fetch_into(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *rec,
                           mr_diag_t *why) {
  mr_diag_t *diag = s->diag;
  s->diag = why;
  mr_err_t e = s->def->source->fetch(s, worker, index, n, rec);
  s->diag = diag;
  return e;
}

/* A fetch whose failure goes to why. */
static mr_err_t fetch_apart(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *rec,
                            mr_diag_t *why) {
  why->code = MR_OK, why->text[0] = 0; /* its other bytes are many, and no caller reads them */
  return fetch_into(s, worker, index, n, rec, why);
}

/* The same where no caller reads what is said of a bad record, which takes longer than its fetch:
   only another failure has its sentence in why. */
static mr_err_t fetch_quietly(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *rec,
                              mr_diag_t *why) {
  mr_err_t e = fetch_into(s, worker, index, n, rec, NULL);
  return e >= 0 || is_bad(e) ? e : fetch_apart(s, worker, index, n, rec, why);
}

bool mr_care_leaves_out(const mr_stage_t *s, uint64_t key) {
  const mr_care_t *c = mr__care_of(s);
  if (c && c->rt) return mr_ranges_has(&c->rt->skip, key);
  mr_ranges_t skip = {0}; /* the source is not open: records are only found */
  mr_diag_t why;
  bool leaves_out = c && mr_ranges_parse(&skip, c->skip, &why) >= 0 && mr_ranges_has(&skip, key);
  mr_ranges_fini(&skip);
  return leaves_out;
}

static bool is_skipped(const mr_stage_t *s, const struct mr__care *t, int64_t index) {
  mr_where_t where;
  char path[MR_WHERE_MAX];
  if (!t->skip.n || !s->def->source->where) return false;
  where.file = path;
  s->def->source->where((mr_stage_t *)s, index, &where);
  return mr_ranges_has(&t->skip, where.key);
}

/* Writes the file of a record, "" if its source does not say, and returns path. */
static const char *file_of_record(mr_stage_t *s, int64_t index, char path[MR_WHERE_MAX]) {
  mr_where_t where = {.file = path};
  *path = 0;
  if (s->def->source->where) s->def->source->where(s, index, &where);
  return path;
}

/* Finds a replacement: the first good record of a sequence that the seed and the bad record's index
   determine. */
static mr_err_t find_other(mr_stage_t *s, struct mr__care *t, int worker, int64_t index,
                           int64_t *other) {
  uint64_t n = (uint64_t)s->out_spec[0].n_records;
  uint64_t h = mr_hash_mix((uint64_t)mr__care_of(s)->seed, (uint64_t)index);
  mr_rec_t rec = {.field = t->value};
  mr_diag_t why;
  for (int k = 0; k < TRIES; k++) {
    h = mr_hash_mix(h, (uint64_t)k);
    *other = (int64_t)(h % n);
    if (*other == index || mr__care_bad(t, *other) || is_skipped(s, t, *other)) continue;
    mr_err_t e = fetch_quietly(s, worker, other, 1, &rec, &why);
    if (!is_bad(e)) return mr_diag_relay(s->diag, e, &why);
  }
  char path[MR_WHERE_MAX];
  return mr_stage_fail(
      s, MR_ERR_DATA, "record %lld%s%.400s is bad, and so are %d records drawn to replace it",
      (long long)index, *file_of_record(s, index, path) ? " of " : "", path, TRIES);
}

static mr_err_t note_bad(mr_stage_t *s, struct mr__care *t, int worker, int64_t index,
                         const mr_diag_t *reason) {
  bad_t row = {.index = index};
  const char *sentence = reason->text;
  size_t name = strlen(s->name);
  if (!strncmp(sentence, s->name, name) && !strncmp(sentence + name, ": ", 2)) sentence += name + 2;
  if (t->most >= 0 && mr__care_n_bad(t) >= t->most)
    return mr_stage_fail(s, MR_ERR_DATA, "more than %lld bad record%s (on-bad): %s",
                         (long long)t->most, t->most == 1 ? "" : "s", sentence);
  MR_TRY(find_other(s, t, worker, index, &row.other));
  MR_TRY(mr__quarantine_add(s, &t->quarantine, row, sentence));
  return mr__care_add(s, t, row);
}

/* Finds the bad records among index[0,n), fetching each by itself.  Under the lock, because another
   worker may be about to find the same ones. */
static mr_err_t find_bad(mr_stage_t *s, struct mr__care *t, int worker, const int64_t *index,
                         int n) {
  mr_rec_t rec = {.field = t->value};
  mr_diag_t why;
  mr_err_t e = MR_OK;
  pthread_mutex_lock(&t->lock);
  for (int i = 0; i < n && e >= 0; i++) {
    if (mr__care_bad(t, index[i]) || is_skipped(s, t, index[i])) continue;
    e = fetch_apart(s, worker, &index[i], 1, &rec, &why);
    if (is_bad(e))
      e = note_bad(s, t, worker, index[i], &why);
    else if (e < 0)
      mr_diag_relay(s->diag, e, &why);
  }
  mr_err_t wrote = mr__quarantine_write(s, &t->quarantine); /* also what came before a failure */
  pthread_mutex_unlock(&t->lock);
  return e < 0 ? e : wrote;
}

/* Copies index with replacements for bad records; returns how many were replaced. */
static int put_others(struct mr__care *t, const int64_t *index, int n, int64_t *out) {
  int put = 0;
  if (!mr__care_n_bad(t)) { /* the usual case, without the lock */
    memcpy(out, index, (size_t)n * sizeof *out);
    return 0;
  }
  pthread_mutex_lock(&t->lock);
  mr__care_ask_ahead(t, index, n);
  for (int i = 0; i < n; i++) {
    const bad_t *bad = mr__care_bad(t, index[i]);
    out[i] = bad ? bad->other : index[i];
    put += bad != NULL;
  }
  pthread_mutex_unlock(&t->lock);
  return put;
}

static void set_zeros(const mr_stage_t *s, const struct mr__care *t, mr_rec_t *rec) {
  const mr_spec_t *spec = &s->out_spec[0];
  for (int f = 0; f < spec->n_fields; f++) {
    mr_value_t *v = &rec->field[f];
    if (s->writes >> f & 1)
      memset(v->data, 0, mr_field_bytes(&spec->field[f]));
    else
      v->data = t->zero;
    v->rows = 0;
  }
}

/* Excluded records need not be readable: this fetches the others alone and fills the excluded ones
   with zeros. */
static mr_err_t fetch_singly(mr_stage_t *s, struct mr__care *t, int worker, const int64_t *index,
                             int n, mr_rec_t *rec, mr_diag_t *why) {
  int64_t good[MR_BURST];
  int at[MR_BURST], k = 0;
  mr_rec_t found[MR_BURST];
  for (int i = 0; i < n; i++) {
    if (is_skipped(s, t, index[i])) {
      char path[MR_WHERE_MAX];
      mr_where_t where = {.file = path};
      s->def->source->where(s, index[i], &where);
      set_zeros(s, t, &rec[i]);
      rec[i].key = where.key;
    } else {
      found[k] = rec[i];
      good[k] = index[i], at[k++] = i;
    }
  }
  mr_err_t e = k ? fetch_apart(s, worker, good, k, found, why) : MR_OK;
  for (int i = 0; i < k && e >= 0; i++) rec[at[i]] = found[i];
  return e;
}

static void mark_skipped(const struct mr__care *t, int n, mr_rec_t *rec) {
  for (int i = 0; i < n && t->skip.n; i++) rec[i].skipped = mr_ranges_has(&t->skip, rec[i].key);
}

/* the ledger covers the replacement */
mr_err_t mr__care_fetch(mr_stage_t *s, int worker, int64_t *index, int n, mr_rec_t *rec) {
  mr_care_t *c = mr__care_of(s);
  struct mr__care *t = c ? c->rt : NULL;
  if (!t || (!t->skip.n && !t->replaces)) return s->def->source->fetch(s, worker, index, n, rec);
  int64_t real[MR_BURST];
  mr_diag_t why;
  int put = put_others(t, index, n, real);
  mr_err_t e = t->replaces ? fetch_quietly(s, worker, real, n, rec, &why)
                           : fetch_apart(s, worker, real, n, rec, &why);
  if (is_bad(e) && t->replaces) {
    MR_TRY(find_bad(s, t, worker, real, n));
    put = put_others(t, index, n, real);
  }
  if (is_bad(e)) e = fetch_singly(s, t, worker, real, n, rec, &why);
  bool fails = is_bad(e) && !t->replaces;
  if (e < 0) return mr_fail(s->diag, e, "%s%s", why.text, fails ? MR_ON_BAD_ADVICE : "");
  for (int i = 0; i < n && put; i++)
    if (real[i] != index[i]) mr_draw_note(&rec[i], (uint64_t)index[i]), index[i] = real[i];
  mark_skipped(t, n, rec);
  return MR_OK;
}

void mr__care_count(mr_stage_t *s, int64_t asked, int64_t used, const mr_rec_t *rec) {
  mr_care_t *c = mr__care_of(s);
  struct mr__care *t = c ? c->rt : NULL;
  if (!t) return;
  if (asked != used) atomic_fetch_add_explicit(&t->n_replaced, 1, memory_order_relaxed);
  if (rec->skipped) atomic_fetch_add_explicit(&t->n_skipped, 1, memory_order_relaxed);
}

/* Another replacement for a record whose first one is bad too.  Under the lock. */
static mr_err_t replace_again(mr_stage_t *s, struct mr__care *t, int worker, int64_t asked,
                              int64_t used) {
  char why[64];
  const bad_t *row = mr__care_bad(t, asked);
  if (!row || row->other != used) return MR_OK; /* another worker was first */
  bad_t next = {.index = asked};
  MR_TRY(find_other(s, t, worker, asked, &next.other));
  snprintf(why, sizeof why, "its replacement %lld is bad too", (long long)used);
  MR_TRY(mr__quarantine_add(s, &t->quarantine, next, why));
  return mr__care_add(s, t, next);
}

mr_err_t mr__care_reject(mr_stage_t *s, int worker, int64_t asked, int64_t used, const char *why) {
  mr_care_t *c = mr__care_of(s);
  struct mr__care *t = c ? c->rt : NULL;
  mr_diag_t reason = {.code = MR_ERR_DATA};
  if (!t) return mr_fail(s->diag, MR_ERR_DATA, "%s", why);
  if (!t->replaces) {
    char path[MR_WHERE_MAX];
    return mr_fail(s->diag, MR_ERR_DATA, "%s (record %lld of %s%s%.400s)%s", why, (long long)used,
                   s->name, *file_of_record(s, used, path) ? ", " : "", path, MR_ON_BAD_ADVICE);
  }
  snprintf(reason.text, sizeof reason.text, "%s", why);
  pthread_mutex_lock(&t->lock);
  mr_err_t e = mr__care_bad(t, used) ? MR_OK : note_bad(s, t, worker, used, &reason);
  if (e >= 0 && asked != used) e = replace_again(s, t, worker, asked, used);
  mr_err_t wrote = mr__quarantine_write(s, &t->quarantine);
  pthread_mutex_unlock(&t->lock);
  return e < 0 ? e : wrote;
}

int64_t mr__care_foresee(mr_stage_t *s, const int64_t *index, int n) {
  mr_care_t *c = mr__care_of(s);
  struct mr__care *t = c ? c->rt : NULL;
  int64_t real[MR_BURST];
  if (t && t->replaces) put_others(t, index, n, real), index = real;
  return s->def->source->foresee(s, index, n);
}

void mr__care_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  mr_care_t *c = mr__care_of(s);
  struct mr__care *t = c ? c->rt : NULL;
  int64_t real[MR_BURST];
  if (t && t->replaces) put_others(t, index, n, real), index = real;
  s->def->source->ahead(s, worker, index, n);
}
