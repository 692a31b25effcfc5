/* A graph cut down to its batches, with a stage of its own at their end that has no thread: the
   caller's takes batches from its rings, so that each passes from the thread that makes it to the
   one that uses it.  Full rings stop the stages that fill buffers where the caller is slow.

   A thread that waits for a batch polls, so that signals interrupt it, and so that mr_loader_stop
   may end the wait from a signal handler. */
#include "pull/reader.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "base/text.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "pipeline/stage_step.h"
#include "pipeline/text/graph_text.h"
#include "plugins/plugin.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

struct mr__reader {
  mr_atomic_int_t refs; /* the loader, and each batch that is not dropped */
  mr_atomic_int_t out;  /* batches that are not dropped */
  mr_registry_t reg;
  mr_graph_t *g;
  const char *stage, *batch; /* whose batches, and which stage makes them of records or NULL */
  const char *end;           /* the stage of our own behind it */
  mr_stage_t *taker;         /* the same, once it runs */
  mr_spec_t spec;
  int64_t steps;
  char *text;          /* of the graph without our stage, canonical */
  const mr_own_t *own; /* [n_own] the caller's */
  int n_own;
  uint32_t forks;
  int64_t drop; /* batches to drop before the first one */
};

typedef struct batch {
  mr_batch_t pub; /* first, so that the caller's pointer is ours */
  mr_atomic_int_t refs;
  mr__reader_t *reader; /* NULL: a copy, whose values are in the same block of memory */
  mr_buf_t *buf;
} batch_t;

/* ---- the stage at the end ---- */

typedef struct hand_over {
  int64_t keep;
} hand_over_t;

static const mr_opt_t hand_over_opts[] = {{.name = "keep",
                                           .type = MR_OPT_INT,
                                           .offset = offsetof(hand_over_t, keep),
                                           .def = "0",
                                           .hi = 4096,
                                           .help = "Batches that the caller may keep."},
                                          {0}};

static mr_err_t hand_over_plan(mr_stage_t *s) {
  s->holds = ((hand_over_t *)s->state)->keep + 2; /* the newest, and one that comes */
  return MR_OK;
}

static const mr_stage_def_t hand_over = {.name = "hand-over",
                                         .help = "Hands batches to the program.",
                                         .in = {{"in", MR_FLOW_BATCHES, false}},
                                         .opts = hand_over_opts,
                                         .state_sz = sizeof(hand_over_t),
                                         .plan = hand_over_plan,
                                         .step = &(const mr_step_def_t){.pulled = true}};

/* ---- the graph ---- */

static mr_err_t load_plugin(void *ctx, const char *origin, const char *file, mr_diag_t *diag) {
  static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
  char path[4096];
  const char *slash = origin && *file != '/' ? strrchr(origin, '/') : NULL;
  int folder = slash ? (int)(slash - origin) + 1 : 0;
  if (snprintf(path, sizeof path, "%.*s%s", folder, origin ? origin : "", file) >= (int)sizeof path)
    return mr_fail(diag, MR_ERR_USAGE, "plugin %.200s...: the path is too long", file);
  pthread_mutex_lock(&one);
  mr_err_t e = mr_plugin_load(path, ctx, diag);
  pthread_mutex_unlock(&one);
  return e;
}

void mr__reader_all_stages(mr_registry_t *reg) {
  mr_registry_add(reg, mr_loaders_stages);
  mr_registry_add(reg, mr_stages_stages);
  mr_registry_add(reg, mr_links_stages);
  mr_registry_add(reg, mr_sinks_stages);
}

const mr_own_t *mr__reader_own(const mr_registry_t *reg, const char *name) {
  const mr__reader_t *r =
      (const mr__reader_t *)(const void *)((const char *)reg - offsetof(mr__reader_t, reg));
  for (int i = 0; i < r->n_own && name; i++)
    if (!strcmp(r->own[i].name, name)) return &r->own[i];
  return NULL;
}

static mr_err_t reader_add_stages(mr__reader_t *r, const mr_loader_settings_t *set,
                                  mr_diag_t *diag) {
  mr__reader_all_stages(&r->reg);
  if (set->n_own) mr_registry_add(&r->reg, mr__own_stages);
  r->own = set->own, r->n_own = set->n_own;
  if (!set->stages) return MR_OK;
  MR_TRY(mr_registry_check(&r->reg, set->stages, "the program's own stages", diag));
  mr_registry_add_from(&r->reg, set->stages, "the program's own stages");
  return MR_OK;
}

static bool step_gives_batches(const mr_stage_t *s) {
  return s->def->step && s->def->out[0].name && s->def->out[0].flow == MR_FLOW_BATCHES;
}

/* Whose batches: of the line that begins where batches are made of records, or else where they come
   from outside. */
static mr_err_t find_batches_stage(const mr_graph_t *g, const char *wanted, const char **stage,
                                   mr_diag_t *diag) {
  const char *last = NULL;
  mr_graph_batches(g, &last);
  for (int i = 0; i < mr_graph_n_stages(g) && !last; i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (!s->def->in[0].name && step_gives_batches(s)) last = s->name;
  }
  for (int i = 0; i < mr_graph_n_stages(g) && last && !wanted;) { /* on, and from the first again */
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    const char *before = mr_graph_before(g, s->name, 0);
    bool next = before && !strcmp(before, last) && step_gives_batches(s) && strcmp(s->name, last);
    if (next) last = s->name;
    i = next ? 0 : i + 1;
  }
  if (!last)
    return mr_fail(
        diag, MR_ERR_USAGE,
        "the graph makes no batches: it has no batch stage; add one, as in \"batch 64\"");
  if (wanted && !mr_graph_stage(g, wanted))
    return mr_fail(diag, MR_ERR_USAGE, "no stage of the graph is called \"%.60s\"", wanted);
  *stage = mr_graph_on_host(g, wanted ? wanted : last);
  if (!*stage) *stage = wanted ? wanted : last; /* mr_graph_only says what it is not */
  return MR_OK;
}

/* Stages that keep what batches hold keep nothing of these: the caller has mr_loader_state. */
static mr_err_t keep_no_ledgers(mr_graph_t *g, mr_diag_t *diag) {
  static const char *const file[] = {"path", "state"};
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    for (int k = 0; k < 2 && s->def->role == MR_ROLE_LEDGER; k++)
      if (mr_stage_def_opt(s->def, file[k])) MR_TRY(mr_graph_set(g, s->name, file[k], "", diag));
  }
  return MR_OK;
}

static mr_err_t share_out(mr_graph_t *g, const mr_loader_settings_t *set, mr_diag_t *diag) {
  const char *shares = mr_graph_shares(g);
  char host[32];
  if (!set->hosts) return MR_OK;
  if (set->hosts < 1 || set->host < 0 || set->host >= set->hosts)
    return mr_fail(diag, MR_ERR_CONFIG, "host %d of %d: want a number in [0,%d)", set->host,
                   set->hosts, set->hosts > 1 ? set->hosts : 1);
  if (!shares)
    return mr_fail(diag, MR_ERR_USAGE, "host %d of %d: the graph makes no batches to share",
                   set->host, set->hosts);
  snprintf(host, sizeof host, "%d/%d", set->host, set->hosts);
  return mr_graph_set(g, shares, "host", host, diag);
}

static char *graph_dump(const mr_graph_t *g) {
  mr_text_out_t out;
  FILE *f = mr_text_out_open(&out);
  if (f) mr_graph_dump(g, f);
  return mr_text_out_close(&out, f, NULL);
}

static mr_err_t cut_down(mr__reader_t *r, const mr_loader_settings_t *set, mr_diag_t *diag) {
  char keep[12];
  const char *last;
  MR_TRY(find_batches_stage(r->g, set->stage, &r->stage, diag));
  MR_TRY(mr_graph_only(r->g, r->stage, diag));
  MR_TRY(keep_no_ledgers(r->g, diag));
  MR_TRY(share_out(r->g, set, diag));
  r->batch = mr_graph_batches(r->g, &last);
  if (set->keep < 0 || set->keep > 4096)
    return mr_fail(diag, MR_ERR_CONFIG, "keep %d: want [0,4096] batches", set->keep);
  snprintf(keep, sizeof keep, "%d", set->keep);
  if (!(r->text = graph_dump(r->g))) return mr_no_memory(diag, "the text of the graph");
  MR_TRY(mr_graph_add_def(r->g, &hand_over, NULL, &r->end, diag));
  MR_TRY(mr_graph_set(r->g, r->end, "keep", keep, diag));
  return mr_graph_link(r->g, r->stage, NULL, r->end, NULL, diag);
}

static mr_err_t build_reader(mr__reader_t *r, const char *graph, const mr_loader_settings_t *set,
                             mr_diag_t *diag) {
  char *text;
  const char *origin;
  MR_TRY(reader_add_stages(r, set, diag));
  if (!(r->g = mr_graph_create(&r->reg))) return mr_no_memory(diag, "a graph");
  mr_graph_ends_with(r->g, set->halt);
  if (set->plugins) mr_graph_on_plugin(r->g, load_plugin, &r->reg);
  MR_TRY(mr_graph_text(graph, &text, &origin, diag));
  mr_err_t e = mr_graph_set_origin(r->g, origin, diag);
  if (e >= 0) e = mr_graph_parse(r->g, text, set->set, set->n_set, diag);
  free(text);
  MR_TRY(e);
  MR_TRY(cut_down(r, set, diag));
  MR_TRY(mr_graph_settle(r->g, diag));
  r->spec = mr_graph_stage(r->g, r->end)->in_spec[0];
  r->steps = r->spec.n_batches * r->spec.n_epochs;
  if (r->steps) r->steps += r->spec.ahead;
  return MR_OK;
}

static void reader_free(mr__reader_t *r) {
  free(r->text);
  mr_graph_destroy(r->g);
  free(r);
}

mr_err_t mr__reader_build(const char *graph, const mr_loader_settings_t *settings,
                          mr__reader_t **reader, mr_diag_t *diag) {
  mr__reader_t *r = calloc(1, sizeof *r);
  *reader = NULL;
  if (!r) return mr_no_memory(diag, "a stream");
  atomic_init(&r->refs, 1);
  r->forks = mr_forks();
  mr_err_t e = build_reader(r, graph, settings, diag);
  if (e < 0)
    reader_free(r);
  else
    *reader = r;
  return e;
}

mr_err_t mr__reader_resume(mr__reader_t *r, const mr_stream_at_t *at, mr_diag_t *diag) {
  return mr_graph_resume(r->g, r->stage, at, diag);
}

mr_err_t mr__reader_seek(mr__reader_t *r, int64_t step, mr_diag_t *diag) {
  bool found = false;
  if (step < 0 || (r->steps && step > r->steps))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: step %" PRId64 ": want [0,%" PRId64
                   "], behind a "
                   "batch of the stream",
                   r->stage, step, r->steps ? r->steps : INT64_MAX);
  if (!step) return MR_OK;
  MR_TRY(mr_graph_seek(r->g, r->stage, step, &found, diag));
  if (found) return MR_OK;
  const mr_spec_t *made = r->batch ? &mr_graph_stage(r->g, r->batch)->out_spec[0] : NULL;
  bool same = made && made->n_batches == r->spec.n_batches && made->batch == r->spec.batch;
  if (same) return mr_graph_start_number(r->g, r->batch, step, diag);
  r->drop = step; /* before the start: no other thread has it yet */
  return MR_OK;
}

mr_err_t mr__reader_start(mr__reader_t *r, mr_diag_t *diag) {
  MR_TRY(mr_graph_start(r->g, diag));
  r->taker = (mr_stage_t *)(uintptr_t)mr_graph_stage(r->g, r->end);
  return MR_OK;
}

/* ---- batches ---- */

mr_err_t mr__reader_take(mr__reader_t *r, mr_buf_t **batch) {
  *batch = NULL;
  if (!mr_take(r->taker, 0, batch, 1)) return mr_idle(r->taker) == MR_AGAIN ? MR_AGAIN : MR_END;
  if (!r->drop) return MR_OK;
  r->drop--;
  mr_buf_unref(*batch);
  *batch = NULL;
  return MR_OK;
}

mr_err_t mr__reader_wait(mr__reader_t *r, int fd, int ms, mr_diag_t *diag) {
  struct pollfd stops = {.fd = fd, .events = POLLIN};
  mr_err_t e = mr_wait_input(r->taker, 0, &stops, 1, ms);
  return e < 0 ? mr_diag_relay(diag, e, r->taker->diag) : e;
}

void mr__reader_cancel(mr__reader_t *r) { mr_graph_cancel(r->g); }

mr_err_t mr__reader_verdict(mr__reader_t *r, mr_diag_t *diag) {
  mr_err_t e = mr_graph_join(r->g, diag);
  return e < 0 ? e : MR_END;
}

static void set_field(mr_batch_field_t *to, const mr_field_t *field, const mr_buf_field_t *v,
                      int n) {
  int skip = field->ragged; /* its first dimension is the one that rows run along */
  *to = (mr_batch_field_t){.name = field->name,
                           .dtype_name = mr_dtype_name(field->dtype),
                           .dtype = (int32_t)field->dtype,
                           .ndim = field->ndim + 1 - skip,
                           .dim = {field->ragged ? v->offset[n] : n},
                           .data = v->data,
                           .offset = v->offset};
  memcpy(to->dim + 1, field->dim + skip, (size_t)(field->ndim - skip) * sizeof *to->dim);
}

mr_batch_t *mr__reader_batch(mr__reader_t *r, mr_buf_t *buf, int64_t step) {
  batch_t *b = malloc(sizeof *b);
  if (!b) {
    mr_buf_unref(buf);
    return NULL;
  }
  static_assert(MR_FIELDS_MAX == 16 && MR_MAX_NDIM == 8, "arrays of mr_batch_t");
  b->pub = (mr_batch_t){.step = step,
                        .epoch = buf->epoch,
                        .n = buf->n,
                        .first = buf->first,
                        .ends_epoch = buf->flags & MR_BUF_EPOCH_END,
                        .writable = r->batch != NULL, /* else it may be a peer's memory */
                        .n_fields = r->spec.n_fields,
                        .key = buf->key,
                        .draw = buf->draw,
                        .excluded = buf->excluded};
  for (int f = 0; f < r->spec.n_fields; f++)
    set_field(&b->pub.field[f], &r->spec.field[f], &buf->field[f], buf->n);
  b->reader = r, b->buf = buf;
  atomic_init(&b->refs, 1);
  /* relaxed: the caller has a reference to r, and what is counted is only compared. */
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  b->pub.kept = atomic_fetch_add_explicit(&r->out, 1, memory_order_relaxed);
  return &b->pub;
}

int mr__reader_out(mr__reader_t *r) {
  /* acquire pairs with the release in mr_batch_drop: the buffer of a batch that no longer counts is
     back. */
  return atomic_load_explicit(&r->out, memory_order_acquire);
}

/* In a child of a fork nothing is given back: the graph is the parent's. */
static void reader_drop(mr__reader_t *r) {
  /* acq_rel: the last one follows all accesses of the others. */
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1 && r->forks == mr_forks())
    reader_free(r);
}

const mr_batch_t *mr_batch_keep(const mr_batch_t *batch) {
  batch_t *b = (batch_t *)(uintptr_t)batch;
  /* relaxed: the caller has a reference already. */
  if (b) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  return batch;
}

void mr_batch_drop(const mr_batch_t *batch) {
  batch_t *b = (batch_t *)(uintptr_t)batch;
  /* acq_rel: the last one follows all accesses of the others. */
  if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
  if (!b->reader) return free(b);
  if (b->reader->forks == mr_forks()) mr_buf_unref(b->buf);
  /* release pairs with the acquire in mr__reader_out. */
  atomic_fetch_sub_explicit(&b->reader->out, 1, memory_order_release);
  reader_drop(b->reader);
  free(b);
}

/* Bytes of a field's values, and where they are in a copy: each array 64-aligned. */
static size_t field_bytes(const mr_batch_field_t *f) {
  size_t bytes = mr_dtype_size((mr_dtype_t)f->dtype);
  for (int d = 0; d < f->ndim; d++) bytes *= (size_t)f->dim[d];
  return bytes;
}

static void *copy_array(char *base, size_t *at, const void *from, size_t bytes) {
  char *to = base ? base + *at : NULL;
  *at += (bytes + 63) & ~(size_t)63;
  if (to && bytes) memcpy(to, from, bytes);
  return to;
}

/* Copies all arrays of `from` behind base, and points `to` there; base NULL: counts.  Returns the
   bytes. */
static size_t copy_arrays(const mr_batch_t *from, char *base, mr_batch_t *to) {
  size_t at = 0, n = (size_t)from->n;
  for (int f = 0; f < from->n_fields; f++) {
    const mr_batch_field_t *v = &from->field[f];
    to->field[f].data = copy_array(base, &at, v->data, field_bytes(v));
    if (v->offset)
      to->field[f].offset = copy_array(base, &at, v->offset, (n + 1) * sizeof *v->offset);
  }
  to->key = copy_array(base, &at, from->key, n * sizeof *from->key);
  to->draw = copy_array(base, &at, from->draw, n * sizeof *from->draw);
  to->excluded = copy_array(base, &at, from->excluded, n);
  return at;
}

const mr_batch_t *mr_batch_copy(const mr_batch_t *batch) {
  mr_batch_t counted = *batch;
  size_t head = (sizeof(batch_t) + 63) & ~(size_t)63;
  size_t names = sizeof(char[MR_FIELDS_MAX][MR_FIELD_NAME]);
  batch_t *b = aligned_alloc(64, head + names + copy_arrays(batch, NULL, &counted));
  if (!b) return NULL;
  b->pub = *batch;
  copy_arrays(batch, (char *)b + head + names, &b->pub);
  for (int f = 0; f < batch->n_fields; f++) { /* names are the stream's, which may end before */
    char *name = (char *)b + head + (size_t)f * MR_FIELD_NAME;
    snprintf(name, MR_FIELD_NAME, "%s", batch->field[f].name);
    b->pub.field[f].name = name;
  }
  b->pub.writable = true;
  b->reader = NULL, b->buf = NULL;
  atomic_init(&b->refs, 1);
  return &b->pub;
}

/* ---- looking at it, leaving it ---- */

const mr_graph_t *mr__reader_graph(const mr__reader_t *r) { return r->g; }
const char *mr__reader_text(const mr__reader_t *r) { return r->text; }
const mr_spec_t *mr__reader_spec(const mr__reader_t *r) { return &r->spec; }
const char *mr__reader_stage(const mr__reader_t *r) { return r->stage; }
int64_t mr__reader_steps(const mr__reader_t *r) { return r->steps; }

void mr__reader_leave(mr__reader_t *r) {
  if (!r) return;
  mr_graph_cancel(r->g);
  mr_graph_join(r->g, NULL);
  reader_drop(r);
}
