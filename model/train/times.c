/* Each rank has a clock.  It goes through its equations until it needs a collective that has not
   ended, and posts the collectives on the way; a collective ends when all ranks that take part have
   posted it and those before it.  Where ranks wait for each other in different ones, no clock
   moves. */
#include "model/train/times.h"

#include <stdlib.h>
#include <string.h>

#include "model/control/control.h"
#include "model/ir/op.h"
#include "model/ops/operands.h"

bool mr_times_exchanges(const mr_eqn_t *e) { return e->op->collective && e->n_in; }

int mr_times_axis(const mr_mesh_t *m, const mr_eqn_t *e) {
  const char *axis = mr_attr_get(e, "axis_name")->text;
  int a = mr_mesh_axis(m, axis, strlen(axis));
  return a < 0 ? mr_mesh_batch(m) : a;
}

/* The place of a rank along an axis. */
static int place_along(const mr_mesh_t *m, int axis, int rank) {
  int at[MR_MESH_AXES];
  mr_mesh_place(m, rank, at);
  return at[axis];
}

int64_t mr_times_received(const mr_eqn_t *e, int n, int rank) {
  int64_t in = (int64_t)mr_aval_bytes(&e->in[0]->aval);
  int64_t out = (int64_t)mr_aval_bytes(&e->out[0]->aval);
  int to, from = 0;
  if (e->op == &mr_op_ppermute)
    return mr_ppermute_places(e, n, rank, &to, &from, NULL) >= 0 && from >= 0 ? in : 0;
  if (e->op == &mr_op_all_gather || e->op == &mr_op_all_to_all) return out / n * (n - 1);
  if (e->op == &mr_op_reduce_scatter) return in / n * (n - 1);
  return 2 * (in * (n - 1) / n);
}

/* Messages that a rank waits for, one behind the other. */
static int count_messages(const mr_eqn_t *e, int n) {
  if (e->op == &mr_op_ppermute) return 1;
  bool once =
      e->op == &mr_op_all_gather || e->op == &mr_op_all_to_all || e->op == &mr_op_reduce_scatter;
  return (once ? 1 : 2) * (n - 1);
}

typedef struct posted {
  double at, end; /* when the rank has come, and the end, once `ended` */
  bool ended, waits;
} posted_t;

typedef struct walk {
  mr_times_rank_t *rank;
  const mr_mesh_t *mesh;
  const mr_rates_t *rates;
  int at;                /* the next equation */
  double now, link;      /* of the computation; when the last collective ends */
  int n_posted, n_ended; /* of rank->call */
  int *by;               /* [n_var] by var id: the collective that gives it, from 1; 0: none */
  posted_t *posted;      /* [n_call] */
} walk_t;

static double seconds_of_equation(const mr_rates_t *r, const mr_eqn_t *e) {
  static const char *const free_ops[] = {"reshape", "squeeze", "expand_dims",
                                         "optimization_barrier"};
  for (size_t i = 0; i < sizeof free_ops / sizeof *free_ops; i++)
    if (!strcmp(e->op->name, free_ops[i])) return 0;
  mr_cost_t c = mr_cost_of(e);
  return mr_rates_equation(r, e->n_in ? e->in[0]->aval.dtype : MR_F32, c.flop, c.bytes);
}

static bool takes_no_time(const mr_rates_t *r, const mr_eqn_t *e) {
  return !(seconds_of_equation(r, e) > 0);
}

static mr_err_t walk_init(walk_t *w, mr_diag_t *diag) {
  const mr_fn_t *f = w->rank->f;
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) n += mr_times_exchanges(f->eqn[i]);
  w->by = calloc((size_t)f->n_var + 1, sizeof *w->by);
  w->posted = calloc((size_t)n + 1, sizeof *w->posted);
  w->rank->call = calloc((size_t)n + 1, sizeof *w->rank->call);
  w->rank->n_call = n;
  return w->by && w->posted && w->rank->call ? MR_OK : mr_no_memory(diag, "times of ranks");
}

/* The call that e reads and that has not ended; -1: none.  What has ended is waited for. */
static int awaited_by(walk_t *w, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++) {
    int c = e->in[k]->literal ? 0 : w->by[e->in[k]->id];
    if (!c) continue;
    posted_t *p = &w->posted[c - 1];
    if (!p->ended) return c - 1;
    if (p->end > w->now) w->rank->call[c - 1].waits_s += p->end - w->now, w->now = p->end;
  }
  return -1;
}

/* Posts collective e, the next one.  Whether the rank stays until it has ended. */
static bool post_call(walk_t *w, const mr_eqn_t *e) {
  mr_times_call_t *c = &w->rank->call[w->n_posted];
  int axis = mr_times_axis(w->mesh, e), n = w->mesh->size[axis];
  c->eqn = e;
  c->bytes = mr_times_received(e, n, place_along(w->mesh, axis, w->rank->rank));
  /* Who only sends is held up as long as who receives. */
  int64_t moved = e->op == &mr_op_ppermute ? (int64_t)mr_aval_bytes(&e->in[0]->aval) : c->bytes;
  c->s = mr_rates_call(w->rates, count_messages(e, n), (double)moved);
  posted_t *p = &w->posted[w->n_posted++];
  p->at = w->now > w->link ? w->now : w->link;
  p->waits = !w->rates->beside;
  for (int k = 0; k < e->n_out; k++) w->by[e->out[k]->id] = w->n_posted;
  return p->waits;
}

static void compute_equation(walk_t *w, const mr_eqn_t *e) {
  double s = seconds_of_equation(w->rates, e);
  w->now += s, w->rank->compute_s += s;
}

/* Continues until the rank has to wait.  Whether it has moved. */
static bool walk_on(walk_t *w) {
  const mr_fn_t *f = w->rank->f;
  int from = w->at;
  for (; w->at < f->n_eqn; w->at++) {
    const mr_eqn_t *e = f->eqn[w->at];
    int last = w->n_posted - 1;
    if (last >= 0 && w->posted[last].waits) {
      if (!w->posted[last].ended) break;
      w->posted[last].waits = false;
      w->rank->call[last].waits_s += w->posted[last].end - w->now;
      w->now = w->posted[last].end;
    }
    int own = 0; /* values that are free are those of the call they come from */
    if (takes_no_time(w->rates, e) && !mr_times_exchanges(e)) {
      for (int k = 0; k < e->n_in && !own; k++) own = e->in[k]->literal ? 0 : w->by[e->in[k]->id];
      for (int k = 0; k < e->n_out; k++) w->by[e->out[k]->id] = own;
      continue;
    }
    if (awaited_by(w, e) >= 0) break;
    if (mr_times_exchanges(e))
      post_call(w, e);
    else
      compute_equation(w, e);
  }
  return w->at > from;
}

/* Whether two ranks differ along an axis at most: they take part in the same collectives of it. */
static bool are_in_group(const walk_t *w, const walk_t *other, int axis) {
  int at[MR_MESH_AXES], to[MR_MESH_AXES];
  mr_mesh_place(w->mesh, w->rank->rank, at);
  mr_mesh_place(w->mesh, other->rank->rank, to);
  at[axis] = to[axis];
  return !memcmp(at, to, (size_t)w->mesh->n * sizeof *at);
}

/* The walk at a place of w's group along an axis; NULL: it is none of those that are gone
   through. */
static walk_t *walk_of(walk_t *all, int n, const walk_t *w, int axis, int place) {
  for (int i = 0; i < n; i++)
    if (are_in_group(w, &all[i], axis) && place_along(w->mesh, axis, all[i].rank->rank) == place)
      return &all[i];
  return NULL;
}

static int64_t turn_of_call(const mr_eqn_t *e) {
  const mr_attr_t *turn = mr_attr_find(e, MR_TURN);
  return turn ? turn->i[0] : -1;
}

/* Whether w has come to the collective e of another rank, and when. */
static bool has_come(const walk_t *w, const mr_eqn_t *e, double *when) {
  if (w->n_ended == w->n_posted) return false;
  const mr_eqn_t *own = w->rank->call[w->n_ended].eqn;
  bool same_axis = mr_times_axis(w->mesh, own) == mr_times_axis(w->mesh, e);
  if (own->op != e->op || !same_axis || turn_of_call(own) != turn_of_call(e)) return false;
  if (w->posted[w->n_ended].at > *when) *when = w->posted[w->n_ended].at;
  return true;
}

/* Ends the oldest collective of w if all that take part have come.  Whether it has. */
static bool end_collective(walk_t *all, int n, walk_t *w) {
  if (w->n_ended == w->n_posted) return false;
  const mr_times_call_t *c = &w->rank->call[w->n_ended];
  double when = w->posted[w->n_ended].at;
  walk_t *part[2] = {NULL, NULL};
  bool pair = c->eqn->op == &mr_op_ppermute;
  int axis = mr_times_axis(w->mesh, c->eqn);
  if (pair) {
    int to = -1, from = -1, own = place_along(w->mesh, axis, w->rank->rank);
    mr_ppermute_places(c->eqn, w->mesh->size[axis], own, &to, &from, NULL);
    part[0] = walk_of(all, n, w, axis, to), part[1] = walk_of(all, n, w, axis, from);
  }
  for (int i = 0; i < (pair ? 2 : n); i++) {
    walk_t *other = pair ? part[i] : are_in_group(w, &all[i], axis) ? &all[i] : NULL;
    if (other && other != w && !has_come(other, c->eqn, &when)) return false;
  }
  for (int i = 0; i < (pair ? 3 : n); i++) {
    walk_t *other = pair ? i < 2 ? part[i] : w : are_in_group(w, &all[i], axis) ? &all[i] : NULL;
    if (!other || (pair && i == 1 && other == part[0]) || (pair && i < 2 && other == w)) continue;
    posted_t *p = &other->posted[other->n_ended];
    p->end = when + other->rank->call[other->n_ended].s;
    p->ended = true;
    other->link = p->end;
    other->n_ended++;
  }
  return true;
}

/* What is computed between call number c of w and its first reader. */
static void find_beside(walk_t *w, int c) {
  const mr_fn_t *f = w->rank->f;
  mr_times_call_t *call = &w->rank->call[c];
  double most = 0;
  int i = 0;
  while (i < f->n_eqn && f->eqn[i] != call->eqn) i++;
  for (i++; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if (mr_times_exchanges(e) || takes_no_time(w->rates, e)) continue;
    for (int k = 0; k < e->n_in; k++)
      if (!e->in[k]->literal && w->by[e->in[k]->id] == c + 1) return;
    double s = seconds_of_equation(w->rates, e);
    call->beside_s += s;
    if (s > most) most = s, call->beside = e;
  }
}

static mr_err_t walk_ranks(walk_t *w, int n, mr_diag_t *diag) {
  bool moves = true;
  while (moves) {
    moves = false;
    for (int i = 0; i < n; i++) moves |= walk_on(&w[i]);
    for (int i = 0; i < n; i++)
      while (end_collective(w, n, &w[i])) moves = true;
  }
  for (int i = 0; i < n; i++) {
    if (w[i].at < w[i].rank->f->n_eqn || w[i].n_ended < w[i].n_posted)
      return mr_fail(diag, MR_ERR_CONFIG, "rank %d waits for collective %d forever",
                     w[i].rank->rank, w[i].n_ended);
    w[i].rank->ends_s = w[i].now > w[i].link ? w[i].now : w[i].link;
    for (int c = 0; c < w[i].rank->n_call; c++) find_beside(&w[i], c);
  }
  return MR_OK;
}

mr_err_t mr_times(const mr_rates_t *r, const mr_mesh_t *m, int n, mr_times_rank_t *rank,
                  mr_diag_t *diag) {
  walk_t *w = calloc((size_t)n + 1, sizeof *w);
  mr_err_t e = w ? MR_OK : mr_no_memory(diag, "times of ranks");
  for (int i = 0; w && i < n && e >= 0; i++) {
    rank[i].ends_s = rank[i].compute_s = 0;
    w[i] = (walk_t){.rank = &rank[i], .mesh = m, .rates = r};
    e = walk_init(&w[i], diag);
  }
  if (e >= 0) e = walk_ranks(w, n, diag);
  for (int i = 0; w && i < n; i++) free(w[i].by), free(w[i].posted);
  free(w);
  return e;
}

void mr_times_fini(int n, mr_times_rank_t *rank) {
  for (int i = 0; i < n; i++) {
    free(rank[i].call);
    rank[i].call = NULL, rank[i].n_call = 0;
  }
}
