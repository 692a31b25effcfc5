/* From a record to positions: goes down from the batch with a range of positions, each order saying
   which positions of its inputs the range can take, and from the places of the record in its source
   up again, each order saying where it takes that position.  The range is a window that grows while
   it costs little, so that answers come in the order of the stream and few are kept at a time.

   An order without an inverse looks at each position of its window.  So does the whole chain where
   that is less work, as for a few records that are repeated often, and where an inverse fails: not
   each position that an order takes is one of the stream.  A wide window is made narrow before. */
#include "pipeline/records/find.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph_private.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"

enum {
  WINDOW_LEAST = 1 << 16,
  CHEAP = 1 << 14,
  NEAR = 1 << 8, /* positions looked at together: of a join's inputs only one may fail */
  IN_VAIN = 16,  /* windows of NEAR whose inverse fails, but none of whose positions */
};
static const int64_t END_MAX = INT64_C(1) << 62;

/* The indices of the record in a source. */
typedef struct places {
  bool known;
  int64_t *index; /* [n] rising */
  int n;
} places_t;

typedef struct finder {
  mr_graph_t *g;
  const mr_find_t *want;
  mr_diag_t *diag;
  places_t *places; /* [nodes] */
  int batch, first; /* nodes: that which makes batches, and the last one before it */
  int64_t *found;   /* [n] positions of the window that hold the record */
  size_t n, cap;
  int64_t tries, most; /* steps of this window, and how many are less work than looking at each
                          position */
  int64_t begin;       /* the first position that matters */
  int in_vain;
} finder_t;

/* A stage between the record and the batch. */
typedef struct level {
  const struct level *above; /* NULL: the batch is next */
  int node, port;
  int64_t lo, hi; /* positions of its output that matter */
} level_t;

static mr_stage_t *planned_stage(const finder_t *f, int node) { return f->g->node[node]->worker; }

static int node_before(const finder_t *f, int node, int port) {
  const mr__edge_t *e = mr__edge_into(f->g, node, port);
  return e ? e->from : -1;
}

/* ---- the record in its source ---- */

static mr_err_t find_add_place(finder_t *f, places_t *p, int64_t index) {
  int64_t *more = realloc(p->index, ((size_t)p->n + 1) * sizeof *more);
  if (!more) return mr_no_memory(f->diag, "the places of a record");
  p->index = more, p->index[p->n++] = index;
  return MR_OK;
}

static bool is_record_at(const finder_t *f, mr_stage_t *s, int64_t index) {
  char file[MR_WHERE_MAX];
  mr_where_t where = {.file = file};
  s->def->source->where(s, index, &where);
  return where.key == f->want->key;
}

static mr_err_t find_places(finder_t *f, int node, places_t **out) {
  places_t *p = *out = &f->places[node];
  mr_stage_t *s = planned_stage(f, node);
  int64_t n = s->out_spec[0].n_records;
  if (p->known) return MR_OK;
  p->known = true;
  if (f->want->source && strcmp(f->want->source, s->name) != 0) return MR_OK;
  if (s->def->source->index_of) {
    int64_t i = s->def->source->index_of(s, f->want->key);
    return i >= 0 && i < n && is_record_at(f, s, i) ? find_add_place(f, p, i) : MR_OK;
  }
  for (int64_t i = 0; i < n; i++)
    if (is_record_at(f, s, i)) MR_TRY(find_add_place(f, p, i));
  return MR_OK;
}

/* ---- from a position to the record ---- */

/* MR_OK: a source before `node` gives the record at this position, and *to says which; MR_END: none
   does. */
static mr_err_t find_look(finder_t *f, int node, int64_t position, mr_found_place_t *to) {
  for (;;) {
    mr_stage_t *s = planned_stage(f, node);
    const mr_stage_def_t *def = s->def;
    int port = 0;
    if (def->source) {
      places_t *p;
      int64_t index = position % s->out_spec[0].n_records;
      MR_TRY(find_places(f, node, &p));
      for (int i = 0; i < p->n; i++)
        if (p->index[i] == index) return to->source = s, to->index = index, MR_OK;
      return MR_END;
    }
    if (def->join) {
      mr_err_t e = MR_END;
      for (; port < s->n_in && e == MR_END; port++)
        if (node_before(f, node, port) >= 0)
          e = find_look(f, node_before(f, node, port), position, to);
      return e;
    }
    if (def->order) {
      mr_at_t at = {.index = position};
      s->diag = f->diag;
      MR_TRY(def->order->at(s, position, &at));
      position = at.index, port = at.port;
    }
    node = node_before(f, node, port);
  }
}

/* ---- from the record to positions ---- */

static mr_err_t keep_found(finder_t *f, int64_t position) {
  if (f->n == f->cap) {
    size_t cap = f->cap ? 2 * f->cap : 64;
    int64_t *more = realloc(f->found, cap * sizeof *more);
    if (!more) return mr_no_memory(f->diag, "%zu places of a record", cap);
    f->found = more, f->cap = cap;
  }
  f->found[f->n++] = position;
  return MR_OK;
}

/* The stage of l takes the record at this position of its input.  MR_END as find_descend. */
static mr_err_t find_rise(finder_t *f, const level_t *l, int64_t position) {
  while (l && !planned_stage(f, l->node)->def->order) l = l->above; /* others keep the position */
  if (!l) return keep_found(f, position);
  mr_stage_t *s = planned_stage(f, l->node);
  for (int64_t from = l->lo, at;; from = at + 1) {
    s->diag = f->diag;
    mr_err_t e = s->def->order->taken(s, l->port, position, from, &at);
    if (e < 0) return e;
    if (e == MR_END || at >= l->hi) return MR_OK;
    if (++f->tries > f->most) return MR_END;
    e = find_rise(f, l->above, at);
    if (e != MR_OK) return e;
  }
}

/* All places of the record in a source whose positions [lo,hi) matter. */
static mr_err_t rise_from_source(finder_t *f, int node, const level_t *above, int64_t lo,
                                 int64_t hi) {
  int64_t n = planned_stage(f, node)->out_spec[0].n_records;
  places_t *p;
  MR_TRY(find_places(f, node, &p));
  for (int i = 0; i < p->n; i++) {
    int64_t at = lo / n * n + p->index[i];
    for (at += at < lo ? n : 0; at < hi; at += n) {
      if (++f->tries > f->most) return MR_END;
      mr_err_t e = find_rise(f, above, at);
      if (e != MR_OK) return e;
      if (at > INT64_MAX - n) break;
    }
  }
  return MR_OK;
}

/* All positions [lo,hi) of an order that cannot say where it takes one. */
static mr_err_t rise_from_each(finder_t *f, int node, const level_t *above, int64_t lo,
                               int64_t hi) {
  mr_found_place_t found;
  for (int64_t at = lo; at < hi; at++) {
    if (++f->tries > f->most) return MR_END;
    mr_err_t e = find_look(f, node, at, &found);
    if (e == MR_END) continue;
    if (e == MR_OK) e = find_rise(f, above, at);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

/* MR_END: it is less work to look at each position of the window, or of a part of it. */
static mr_err_t find_descend(finder_t *f, int node, const level_t *above, int64_t lo, int64_t hi) {
  mr_stage_t *s = planned_stage(f, node);
  const mr_order_def_t *order = s->def->order;
  if (s->def->source) return rise_from_source(f, node, above, lo, hi);
  if (order && !order->taken) return rise_from_each(f, node, above, lo, hi);
  for (int port = 0; port < s->n_in; port++) {
    level_t own = {above, node, port, lo, hi};
    int64_t first = lo, end = hi;
    if (node_before(f, node, port) < 0) continue;
    if (++f->tries > f->most) return MR_END;
    if (order) order->spans(s, port, lo, hi, &first, &end);
    if (first >= end) continue;
    mr_err_t e = find_descend(f, node_before(f, node, port), &own, first, end);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

/* ---- windows ---- */

static int find_by_position(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The first of positions [lo,hi) that fails; hi: none does. */
static int64_t first_failing(finder_t *f, int64_t lo, int64_t hi) {
  mr_found_place_t to;
  while (lo < hi && find_look(f, f->first, lo, &to) >= 0) lo++;
  *f->diag = (mr_diag_t){0};
  return lo;
}

/* Says which step the failures end of which the one at this position is one.  A failure stays, as
   that of numbers that are used up, so that the first is between one that fails and one behind
   which several do not. */
static mr_err_t name_failing_step(finder_t *f, int64_t position) {
  mr_stage_t *s = planned_stage(f, f->batch);
  mr_batch_place_t held;
  mr_found_place_t to;
  *f->diag = (mr_diag_t){0};
  for (int64_t good = f->begin; good < position;) {
    int64_t at = good + (position - good) / 2, end = position - at < NEAR ? position : at + NEAR;
    int64_t bad = first_failing(f, at, end);
    if (bad < end)
      position = bad;
    else
      good = end;
  }
  mr_err_t e = find_look(f, f->first, position, &to);
  mr_diag_t why = *f->diag;
  if (s->def->step->holds(s, position, &held) != MR_OK || held.number < 0) return e;
  *f->diag = (mr_diag_t){0};
  return mr_diag_prefix(f->diag, e, &why, "step %" PRId64 ", slot %d", held.number + 1, held.slot);
}

/* Reports a position that the inverse gave; one that does not hold the record is not one. */
static mr_err_t report_position(finder_t *f, int64_t position) {
  mr_stage_t *s = planned_stage(f, f->batch);
  mr_found_place_t found = {0};
  mr_batch_place_t held;
  mr_err_t e = find_look(f, f->first, position, &found);
  if (e < 0) return name_failing_step(f, position);
  if (e == MR_END) return MR_OK;
  s->diag = f->diag;
  e = s->def->step->holds(s, position, &held);
  if (e != MR_OK) return e < 0 ? e : MR_OK;
  if (held.number < f->want->first || held.number >= f->want->end) return MR_OK;
  found.number = held.number, found.epoch = held.epoch, found.slot = held.slot;
  return f->want->found(f->want->ctx, &found, f->diag);
}

static mr_err_t report_found(finder_t *f) {
  mr_err_t e;
  if (f->n) qsort(f->found, f->n, sizeof *f->found, find_by_position);
  for (size_t i = 0; i < f->n; i++) {
    if (i && f->found[i] == f->found[i - 1]) continue;
    if ((e = report_position(f, f->found[i])) != MR_OK) return e;
  }
  return MR_OK;
}

/* Looks at each position, where the inverse has ended with `e`: a failure that no position shows is
   that of the search if there are many such. */
static mr_err_t report_each(finder_t *f, int64_t lo, int64_t hi, mr_err_t e) {
  mr_diag_t why = *f->diag;
  *f->diag = (mr_diag_t){0};
  for (int64_t at = lo; at < hi; at++) {
    mr_err_t reported = report_position(f, at);
    if (reported != MR_OK) return reported;
  }
  if (e >= 0 || ++f->in_vain < IN_VAIN) return MR_OK;
  return mr_diag_relay(f->diag, e, &why);
}

/* Where a batch begins, in [0,END_MAX]; beyond the end of the stream: where that ends. */
static mr_err_t begins_at(finder_t *f, int64_t number, int64_t *position) {
  mr_stage_t *s = planned_stage(f, f->batch);
  const mr_spec_t *in = &s->in_spec[0];
  int64_t record = 0, own[1], all, at = -1;
  if (!in->n_epochs || __builtin_mul_overflow(in->n_records, in->n_epochs, &all)) all = END_MAX;
  if (number < END_MAX) at = s->def->step->seek(s, number, own, &record);
  *position = at >= 0 && at < all ? at : all;
  return MR_OK;
}

static mr_err_t find_in_stream(finder_t *f) {
  int64_t lo, end, window = WINDOW_LEAST;
  MR_TRY(begins_at(f, f->want->first, &lo));
  MR_TRY(begins_at(f, f->want->end, &end));
  f->begin = lo;
  while (lo < end) {
    int64_t n = window < end - lo ? window : end - lo, least = n < WINDOW_LEAST ? n : WINDOW_LEAST;
    f->n = 0, f->tries = 0, f->most = least + CHEAP;
    mr_err_t e = find_descend(f, f->first, NULL, lo, lo + n);
    if (e == MR_ERR_NOMEM) return e;
    int64_t narrow = e < 0 ? NEAR : WINDOW_LEAST; /* few enough to look at each */
    if (e != MR_OK && n > narrow) {
      *f->diag = (mr_diag_t){0};
      window = n / 4 > narrow ? n / 4 : narrow;
      continue;
    }
    bool cheap = f->tries < CHEAP && f->n < CHEAP;
    e = e == MR_OK ? report_found(f) : report_each(f, lo, lo + n, e);
    if (e != MR_OK) return e == MR_END ? MR_OK : e;
    if ((cheap && window < END_MAX / 4) || window < WINDOW_LEAST) window *= 4;
    lo += n;
  }
  return MR_OK;
}

/* ---- whether the batches follow from positions ---- */

/* Goes up from a stage that gives a buffer for each one that it takes to the one that makes
   batches; another stage on the way is a reason. */
static bool go_up_to_batch(finder_t *f, int node, char *why, size_t n) {
  for (int steps = 0; steps <= f->g->n_nodes && node >= 0;
       steps++, node = node_before(f, node, 0)) {
    const mr_stage_t *s = planned_stage(f, node);
    const mr_step_def_t *step = s->def->step;
    bool passes = step && !step->seek && !step->n_words && !step->outside;
    if (s->def->in[0].flow == MR_FLOW_RECORDS && step && step->holds && step->seek)
      return f->batch = node, f->first = node_before(f, node, 0), true;
    if (!passes || mr__count_inputs(f->g, f->g->node[node]) != 1)
      return snprintf(why, n, "stage %s makes other batches of those that it takes", s->name),
             false;
  }
  return snprintf(why, n, "no stage makes batches of records"), false;
}

/* The stage before `node`, or itself, that first makes its stream one without positions. */
static const char *who_takes_positions(const finder_t *f, int node) {
  for (int port = 0; port < planned_stage(f, node)->n_in; port++) {
    int in = node_before(f, node, port);
    const mr_spec_t *spec = in >= 0 ? &planned_stage(f, in)->out_spec[0] : NULL;
    if (spec && (spec->sequential || spec->holes)) return who_takes_positions(f, in);
  }
  return planned_stage(f, node)->name;
}

static bool positions_decide(const finder_t *f, char *why, size_t n) {
  mr_stage_t *s = planned_stage(f, f->batch);
  const mr_spec_t *in = &s->in_spec[0];
  mr_batch_place_t at;
  if (in->holes || in->sequential)
    return snprintf(why, n, "behind stage %s the place of a record depends on those before it",
                    who_takes_positions(f, f->first)),
           false;
  if (s->def->step->holds(s, 0, &at) == MR_OK && at.number < 0)
    return snprintf(why, n, "stage %s takes records in the turns of several workers", s->name),
           false;
  return true;
}

mr_err_t mr_graph_find(mr_graph_t *g, const char *stage, const mr_find_t *want, char *why, size_t n,
                       mr_diag_t *diag) {
  finder_t f = {.g = g, .want = want, .diag = diag};
  int node = mr__graph_find(g, stage);
  *why = 0;
  if (node < 0) return mr_fail(diag, MR_ERR_USAGE, "no stage is called \"%.60s\"", stage);
  if (!go_up_to_batch(&f, node, why, n) || !positions_decide(&f, why, n)) return MR_OK;
  f.places = calloc((size_t)g->n_nodes, sizeof *f.places);
  if (!f.places) return mr_no_memory(diag, "the places of a record");
  mr_err_t e = find_in_stream(&f);
  for (int i = 0; i < g->n_nodes; i++) free(f.places[i].index), g->node[i]->worker->diag = NULL;
  free(f.places), free(f.found);
  return e;
}
