/* Runs the graph of each input for one epoch and collects hashes of its records; a hash that an
   earlier input had is a leak. */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "apps/cli/cli.h"
#include "apps/run/leak.h"
#include "apps/run/take_batches.h"
#include "base/err.h"
#include "base/text.h"
#include "pipeline/records/lineage.h"
#include "pipeline/stage_source.h"

enum { FIRST = 3 /* pairs that are reported */, RECORDS_MAX = 100 << 20 };

/* A record of an input, identified by the hash of its place or of its bytes. */
typedef struct seen {
  uint64_t hash, key;
  const char *source; /* in leak_t.name */
  int port;           /* + 1; 0: a free row */
  unsigned reported;  /* bit p: counted for port p, since an endless stream may repeat the record */
} seen_t;

typedef struct leak {
  const mr_stage_def_t *def;
  const char *input[MR_MAX_PORTS]; /* names of the linked inputs; the graph owns them */
  bool content;
  int port;    /* the input whose records are read now */
  bool stores; /* its records are kept, to compare later inputs with them */
  seen_t *row; /* [cap], a power of two: open addressing */
  size_t cap, n;
  bool no_memory;
  char **name; /* [cap_names], a power of two: copies of sources' names, which outlive their graphs,
                  by open addressing; NULL: free */
  size_t cap_names, n_names;
  int64_t looked, most; /* records read of this input, and the limit */
  int64_t shared[MR_MAX_PORTS];
  char first[MR_MAX_PORTS][512];           /* text of the first pairs, by the other port */
  char file[MR_WHERE_MAX], real[PATH_MAX]; /* the last file's name and its real path */
} leak_t;

/* What graphs are built from: now, and in earlier parts of the run. */
typedef struct past {
  mr_build_fn build;
  void *now, *const *past; /* [n] */
  int n;
} past_t;

/* ---- a set of records ---- */

static seen_t *leak_slot_of(const leak_t *t, uint64_t hash) {
  size_t i = (size_t)hash & (t->cap - 1);
  while (t->row[i].port && t->row[i].hash != hash) i = (i + 1) & (t->cap - 1);
  return &t->row[i];
}

static bool leak_grow(leak_t *t) {
  seen_t *old = t->row;
  size_t n = t->cap;
  if (2 * t->n < t->cap) return true;
  t->cap = n ? 2 * n : 1 << 12;
  t->row = calloc(t->cap, sizeof *t->row);
  if (!t->row) return t->row = old, t->cap = n, false;
  for (size_t i = 0; i < n; i++)
    if (old[i].port) *leak_slot_of(t, old[i].hash) = old[i];
  free(old);
  return true;
}

/* ---- the identity of a record ---- */

/* The real path of a file, since one file may have several names; caches the last one. */
static const char *real_name(leak_t *t, const char *file) {
  if (strcmp(t->file, file)) {
    snprintf(t->file, sizeof t->file, "%s", file);
    if (!realpath(file, t->real)) snprintf(t->real, sizeof t->real, "%s", file);
  }
  return t->real;
}

/* Hashes all fields except labels: the same picture with another class is a leak too. */
static uint64_t content_of(const mr_spec_t *spec, const mr_rec_t *rec) {
  uint64_t hash = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    const mr_value_t *v = &rec->field[f];
    size_t bytes = field->ragged ? (size_t)v->rows * mr_field_row(field) : mr_field_bytes(field);
    if (!field->label) hash ^= XXH3_64bits_withSeed(v->data, bytes, (uint64_t)f);
  }
  return hash;
}

static uint64_t leak_hash_of(leak_t *t, const mr_leaf_t *leaf, const mr_where_t *where) {
  if (t->content) return content_of(&leaf->source->out_spec[0], leaf->rec);
  const char *name = where->offset >= 0 ? real_name(t, where->file) : where->file;
  uint64_t at = where->offset >= 0 ? (uint64_t)where->offset : where->key;
  return XXH3_64bits_withSeed(name, strlen(name), at);
}

static void report_pair(leak_t *t, const seen_t *other, const mr_leaf_t *leaf, uint64_t key) {
  char pair[160], *text = t->first[other->port - 1];
  size_t n = strlen(text);
  if (t->shared[other->port - 1]++ >= FIRST) return;
  snprintf(pair, sizeof pair, "%.32s %" PRIu64 " = %.39s %" PRIu64, leaf->source->name, key,
           other->source, other->key);
  snprintf(text + n, sizeof t->first[0] - n, "%s%s", n ? ", " : "", pair);
}

static char **name_slot(char **name, size_t cap, const char *source) {
  size_t i = (size_t)XXH3_64bits(source, strlen(source)) & (cap - 1);
  while (name[i] && strcmp(name[i], source) != 0) i = (i + 1) & (cap - 1);
  return &name[i];
}

static bool grow_names(leak_t *t) {
  if (2 * t->n_names < t->cap_names) return true;
  size_t cap = t->cap_names ? 2 * t->cap_names : 64;
  char **wider = calloc(cap, sizeof *wider);
  if (!wider) return false;
  for (size_t i = 0; i < t->cap_names; i++)
    if (t->name[i]) *name_slot(wider, cap, t->name[i]) = t->name[i];
  free(t->name);
  t->name = wider, t->cap_names = cap;
  return true;
}

/* The copy of a source's name; NULL without memory. */
static const char *name_of(leak_t *t, const char *source) {
  if (!grow_names(t)) return NULL;
  char **slot = name_slot(t->name, t->cap_names, source);
  if (!*slot && (*slot = strdup(source))) t->n_names++;
  return *slot;
}

static void leak_free(leak_t *t) {
  for (size_t i = 0; i < t->cap_names; i++) free(t->name[i]);
  free(t->name), free(t->row), free(t);
}

static void leak_look_at(leak_t *t, const mr_leaf_t *leaf) {
  char file[MR_WHERE_MAX] = "";
  mr_where_t where = {.file = file, .offset = -1};
  if (!leaf->source->def->source->where) return;
  leaf->source->def->source->where(leaf->source, leaf->index, &where);
  uint64_t hash = leak_hash_of(t, leaf, &where);
  if (!leak_grow(t)) {
    t->no_memory = true;
    return;
  }
  seen_t *s = leak_slot_of(t, hash);
  if (s->port && s->port != t->port + 1 && !(s->reported >> t->port & 1)) {
    s->reported |= 1u << t->port;
    report_pair(t, s, leaf, where.key);
  }
  if (s->port || !t->stores) return;
  const char *name = name_of(t, leaf->source->name);
  if (!name) {
    t->no_memory = true;
    return;
  }
  *s = (seen_t){hash, where.key, name, t->port + 1, 0};
  t->n++;
}

static uint64_t leak_look(void *ctx, const mr_lineage_t *r) {
  leak_t *t = ctx;
  for (int i = 0; i < r->n_leaves; i++) leak_look_at(t, &r->leaf[i]);
  return 0;
}

/* ---- the records of one epoch of an input ---- */

static mr_err_t leak_count(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                           mr_diag_t *diag) {
  leak_t *t = ctx;
  t->looked += b->n;
  return b->flags & MR_BUF_EPOCH_END || t->looked >= t->most ? MR_END : MR_OK;
}

/* Makes the input deliver every record, including those that fill no batch, belong to another host
   or are skipped. */
static mr_err_t set_whole(mr_graph_t *g, const char *stage, mr_diag_t *diag) {
  const char *last;
  MR_TRY(mr_graph_only(g, stage, diag));
  const char *batch = mr_graph_batches(g, &last);
  if (!batch || mr_graph_stage(g, batch)->def->role != MR_ROLE_BATCH) return MR_OK;
  MR_TRY(mr_graph_set(g, batch, "drop-remainder", "false", diag));
  MR_TRY(mr_graph_set(g, batch, "host", "", diag));
  return mr_graph_set(g, batch, "skip-steps", "", diag);
}

static int64_t leak_records_of(const mr_graph_t *g) {
  int64_t n = 0;
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (s->def->source) n += s->out_spec[0].n_records;
  }
  return n;
}

/* Called before the records are read: sets the limit and refuses an input with too many records.  A
   walk without epochs is followed for twice as many records as there are, by when it has most
   likely repeated itself. */
static bool leak_is_small(void *ctx, const mr_graph_t *g) {
  leak_t *t = ctx;
  t->looked = 0, t->most = 2 * leak_records_of(g);
  if (t->most <= RECORDS_MAX) return true;
  const char *input = t->input[t->port];
  if (t->stores)
    fprintf(stderr,
            "millrace: leak-check: input %s has %" PRId64
            " records, more than the %d that leak-check holds in memory, so this input is not "
            "checked; leak-check=off silences this\n",
            input, t->most / 2, RECORDS_MAX / 2);
  else
    fprintf(stderr,
            "millrace: leak-check: looks through %" PRId64
            " records of input %s before the run; leak-check=off skips this\n",
            t->most / 2, input);
  return !t->stores;
}

static mr_err_t look_through(leak_t *t, mr_graph_t *g, const char *stage, mr_diag_t *diag) {
  mr_batches_t want = {
      .stage = stage, .first = 1, .take = leak_count, .ctx = t, .ready = leak_is_small};
  MR_TRY(set_whole(g, stage, diag));
  mr_graph_lineage(g, leak_look, t, !t->content);
  return mr_take_batches(g, &want, diag);
}

static mr_err_t look_at_port(leak_t *t, const char *stage, mr_build_fn build, void *ctx,
                             mr_diag_t *diag) {
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "the graph");
  mr_err_t e = build(ctx, g, diag);
  if (e >= 0) e = look_through(t, g, stage, diag);
  mr_graph_destroy(g);
  if (e >= 0 && t->no_memory) e = mr_no_memory(diag, "leak-check");
  return e;
}

/* ---- the check ---- */

static const char *port_name(const leak_t *t, int port) { return port ? t->input[port] : "train"; }

static mr_err_t leak_refuse(const leak_t *t, const char *stage, mr_diag_t *diag) {
  char text[1600] = "";
  size_t n = 0;
  for (int p = 0; p < MR_MAX_PORTS && n < sizeof text; p++)
    if (t->shared[p])
      n += (size_t)snprintf(text + n, sizeof text - n,
                            "%s%s and %s share %" PRId64 " records (%s%s)", n ? "; " : "",
                            port_name(t, t->port), port_name(t, p), t->shared[p], t->first[p],
                            t->shared[p] > FIRST ? ", ..." : "");
  if (!n) return MR_OK;
  return mr_fail(
      diag, MR_ERR_CONFIG,
      "%s: leak-check: %s; remove them from one of the inputs, or permit them with leak-check=off",
      stage, text);
}

/* The text of what leads to a stage of a graph built from ctx; heap, NULL if it cannot be built. */
static char *stream_text(const char *stage, mr_build_fn build, void *ctx, mr_diag_t *why) {
  mr_text_out_t text;
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  bool there = g && build(ctx, g, why) >= 0 && mr_graph_only(g, stage, why) >= 0;
  FILE *f = there ? mr_text_out_open(&text) : NULL;
  if (f) mr_graph_dump(g, f);
  mr_graph_destroy(g);
  return there ? mr_text_out_close(&text, f, NULL) : NULL;
}

/* Looks through the training records of earlier parts of the run whose stream was another. */
static mr_err_t look_at_past(leak_t *t, const char *before, const past_t *p, mr_diag_t *diag) {
  mr_diag_t why = {0};
  char *last = stream_text(before, p->build, p->now, &why);
  mr_err_t e = MR_OK;
  for (int i = p->n - 1; i >= 0 && e >= 0; i--) {
    why = (mr_diag_t){0};
    char *text = stream_text(before, p->build, p->past[i], &why);
    bool same = text && last && !strcmp(text, last);
    mr_err_t here = !text  ? MR_ERR_DATA
                    : same ? MR_OK
                           : look_at_port(t, before, p->build, p->past[i], &why);
    if (here < 0 && t->no_memory)
      e = mr_diag_relay(diag, here, &why);
    else if (here < 0)
      mr_notice("leak-check: the records of an earlier part of the run cannot be compared: %s",
                why.text);
    free(last);
    last = text;
  }
  free(last);
  return e;
}

/* Whether the batches that stage `name` gives are made in this graph; else, as those of a `source`,
   they come from another process, which alone can look through its records. */
static bool makes_its_batches(const mr_graph_t *g, const char *name) {
  const mr_stage_t *s = mr_graph_stage(g, name);
  if (!s) return false;
  if (s->def->role == MR_ROLE_BATCH) return true;
  for (int p = 0, n = mr_graph_n_inputs(g, name); p < n; p++) {
    const char *before = mr_graph_before(g, name, p);
    if (before && makes_its_batches(g, before)) return true;
  }
  return false;
}

/* Checks the inputs from the last to the first.  The first one is usually the largest by far, so
   its records are compared but not stored. */
static mr_err_t check_stage(leak_t *t, const mr_graph_t *g, const char *stage, const past_t *of,
                            mr_diag_t *diag) {
  int others = 0;
  for (int p = mr_stage_def_n_in(t->def) - 1; p >= 0; p--) {
    const char *before = mr_graph_before(g, stage, p);
    if (before) before = mr_graph_on_host(g, before);
    if (!before || (p == 0 && !others)) continue;
    t->input[p] = mr_graph_input_name(g, stage, p);
    if (!makes_its_batches(g, before)) {
      mr_notice(
          "leak-check: the batches of input %s come from another process, and their records are "
          "not compared; leak-check=off silences this",
          p ? t->input[p] : "in");
      continue;
    }
    t->port = p, t->stores = p > 0, others++;
    MR_TRY(look_at_port(t, before, of->build, of->now, diag));
    if (p == 0) MR_TRY(look_at_past(t, before, of, diag));
    MR_TRY(leak_refuse(t, stage, diag));
  }
  return MR_OK;
}

mr_err_t mr_leak_check(const mr_graph_t *g, mr_build_fn build, void *ctx, void *const *past,
                       int n_past, mr_diag_t *diag) {
  const past_t of = {build, ctx, past, n_past};
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (!mr_stage_def_opt(s->def, "leak-check")) continue;
    const char *mode = mr_graph_setting(g, s->name, "leak-check");
    if (!mode || !strcmp(mode, "off")) continue;
    leak_t *t = calloc(1, sizeof *t);
    if (!t) return mr_no_memory(diag, "leak-check");
    t->def = s->def, t->content = !strcmp(mode, "content");
    mr_err_t e = check_stage(t, g, s->name, &of, diag);
    leak_free(t);
    if (e < 0) return e;
  }
  return MR_OK;
}
