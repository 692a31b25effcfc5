/* The graph of a training step: gradients of the loss (for the whole batch, or averaged over its
   parts), clipping, and the optimizer's update of each parameter.  What parts give is added in an
   order that depends on their numbers alone: a chain, or a tree whose subtrees may be computed by
   others. */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "model/control/control.h"
#include "model/optim/exchange.h"
#include "model/optim/pipeline_rank.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

typedef struct step {
  mr_fn_t *g;
  const mr_optim_loss_t *loss;
  const mr_optim_t *o;
  int from, to;   /* the parts that are computed */
  int n, n_out;   /* parameters; outputs of the loss */
  int lo, hi;     /* the parameters that are updated; slot and average have no others */
  int *share;     /* [ranks+1] the first parameter of each rank; NULL: each updates all */
  int n_scale;    /* scalars that count steps (mr_optim_counts) */
  int n_fp8;      /* scales and history, or 0 */
  mr_var_t *amax; /* the largest magnitudes of the parts' products so far; NULL without fp8 */
  /* p is [n]; slot and average are [hi-lo] from lo on */
  mr_var_t **data, *lr, *t, **scale, **fp8, **p, **slot[MR_OPTIM_SLOTS], **average;
  mr__exchange_t *exchange; /* of ranks */
  mr_var_t **out;           /* [n_out] of the loss, over all parts */
  mr_var_t **grad;          /* [n] */
  int computed;             /* equations up to the gradients of the last part */
} step_t;

static bool is_split(const mr_optim_loss_t *loss, int i) {
  return loss->parts > 1 && loss->split[i];
}

/* The rows of data input i, which is split, in parts [from,to). */
static int64_t rows_of_parts(const mr_optim_loss_t *loss, int i, int from, int to) {
  int64_t rows = 0;
  for (int k = from; k < to; k++) rows += loss->part[k]->in[i]->aval.dim[0];
  return rows;
}

/* The parts whose records the data inputs have: those that are computed, or with ranks all. */
static int input_from_part(const step_t *s) { return s->loss->ranks ? 0 : s->from; }
static int input_to_part(const step_t *s) { return s->loss->ranks ? s->loss->parts : s->to; }

/* Data input i of the step. */
static mr_aval_t step_whole(const step_t *s, int i) {
  mr_aval_t a = s->loss->part[0]->in[i]->aval;
  if (is_split(s->loss, i))
    a.dim[0] = rows_of_parts(s->loss, i, input_from_part(s), input_to_part(s));
  return a;
}

/* The share of part k's records in those of all parts. */
static double weight_of_part(const mr_optim_loss_t *loss, int k) {
  for (int i = 0; i < loss->n_data; i++)
    if (is_split(loss, i))
      return (double)loss->part[k]->in[i]->aval.dim[0] /
             (double)rows_of_parts(loss, i, 0, loss->parts);
  return 1.0 / loss->parts;
}

static void make_inputs(step_t *s) {
  const mr_fn_t *f = s->loss->part[0];
  int n_data = s->loss->n_data, n_slots = s->o->def->n_slots, sets = mr_optim_sets(s->o);
  for (int i = 0; i < n_data; i++) mr_fn_input(s->g, step_whole(s, i));
  mr_fn_input(s->g, mr_aval_scalar(MR_F32));
  mr_fn_input(s->g, mr_aval_scalar(MR_F32));
  for (int i = 0; i < s->n_scale; i++) mr_fn_input(s->g, mr_aval_scalar(i ? MR_I32 : MR_F32));
  if (s->n_fp8) {
    mr_aval_t scales = f->in[f->n_in - 1]->aval;
    mr_fn_input(s->g, scales);
    mr_fn_input(s->g, mr_aval_of(MR_F32, s->loss->fp8->history, scales.dim[0], scales.dim[1]));
  }
  for (int set = 0; set < sets; set++)
    for (int i = set ? s->lo : 0; i < (set ? s->hi : s->n); i++)
      mr_fn_input(s->g, f->in[n_data + i]->aval);
  s->data = s->g->in; /* the array has its final place now */
  s->lr = s->data[n_data];
  s->t = s->data[n_data + 1];
  s->scale = s->data + n_data + 2;
  s->fp8 = s->scale + s->n_scale;
  s->p = s->fp8 + s->n_fp8;
  for (int k = 0; k < n_slots; k++) s->slot[k] = s->p + s->n + k * (s->hi - s->lo);
  s->average = s->p + s->n + n_slots * (s->hi - s->lo);
}

/* The piece of data input i that part k reads. */
static mr_var_t *piece_of_input(step_t *s, int i, int k) {
  mr_var_t *x = s->data[i];
  if (!is_split(s->loss, i) || input_to_part(s) - input_from_part(s) == 1) return x;
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  for (int d = 0; d < x->aval.ndim; d++) limit[d] = x->aval.dim[d];
  start[0] = rows_of_parts(s->loss, i, input_from_part(s), k);
  limit[0] = rows_of_parts(s->loss, i, input_from_part(s), k + 1);
  return mr_lax_slice(s->g, x, start, limit);
}

/* Returns the loss of part k, after the passes that spare its backward pass work; the caller
   destroys it.  NULL on failure. */
static mr_fn_t *light_loss(step_t *s, int k) {
  mr_fn_t *f = mr_fn_copy(s->loss->part[k], &s->g->diag);
  if (!f || mr_passes_before_grad(f, NULL, &s->g->diag) >= 0) return f;
  mr_fn_destroy(f);
  return NULL;
}

/* Appends the loss of part k. */
static mr_err_t run_loss(step_t *s, int k, mr_var_t *const *in, mr_var_t **out) {
  mr_fn_t *f = light_loss(s, k);
  if (!f) return s->g->diag.code;
  mr_err_t err = mr_inline(s->g, f, in, out);
  mr_fn_destroy(f);
  return err;
}

static bool step_is_dynamic(const step_t *s) { return s->o->dynamic.patience > 0; }

/* The cotangent of the loss of part k. */
static mr_var_t *loss_seed(step_t *s, int k) {
  double fixed = s->o->loss_scale > 0 ? (double)s->o->loss_scale : 1;
  double weight = weight_of_part(s->loss, k);
  mr_dtype_t t = s->loss->part[0]->out[0]->aval.dtype;
  if (step_is_dynamic(s))
    return mr_lax_convert(
        s->g, s->loss->parts > 1 ? mr_lax_scale(s->g, weight, s->scale[0]) : s->scale[0], t);
  return mr_literal(s->g, t, s->loss->tree ? fixed * weight : fixed / s->loss->parts);
}

/* Marks what follows as written by fp8; returns what g->by was. */
static const char *step_by_fp8(step_t *s) {
  const char *by = s->g->by;
  s->g->by = "fp8";
  return by;
}

/* The inputs of part k, in memory of the graph. */
static mr_var_t **inputs_of_part(step_t *s, int k) {
  int n_data = s->loss->n_data, n_in = s->loss->part[k]->n_in;
  mr_var_t **in = mr_mem_take(&s->g->mem, (size_t)n_in * sizeof *in);
  for (int i = 0; in && i < n_in; i++)
    in[i] = i < n_data ? piece_of_input(s, i, k) : i - n_data < s->n ? s->p[i - n_data] : s->fp8[0];
  return in;
}

/* Loss and gradients of one part: out[n_out], grad[n].  The cotangent of the scales of fp8 is what
   its products have met. */
static mr_err_t step_run_part(step_t *s, int k, mr_var_t **out, mr_var_t **grad) {
  int n_data = s->loss->n_data, n = s->n + (s->n_fp8 > 0);
  mr_var_t **d = mr_mem_take(&s->g->mem, (size_t)n * sizeof *d);
  mr_var_t **in = inputs_of_part(s, k);
  if (!in) return s->g->diag.code;
  MR_TRY(run_loss(s, k, in, out));
  MR_TRY(mr_backward(s->g, out[0], loss_seed(s, k), n, in + n_data, d));
  for (int i = 0; i < s->n; i++) grad[i] = d[i];
  const char *by = step_by_fp8(s);
  if (s->n_fp8) s->amax = s->amax ? mr_lax_max(s->g, s->amax, d[s->n]) : d[s->n];
  s->g->by = by;
  return s->g->diag.code;
}

/* ---- the order in which parts are added ---- */

/* Sums of parts that wait for another, of decreasing size: one of a chain, one a level of a tree.
 */
typedef struct sums {
  mr_var_t **of[32];
  int n;
} sums_t;

/* How many of the sums that wait are added to what part k gives.  Those of a rank are sums of the
   tree of all parts, whose left halves another rank may have. */
static int sums_before(const step_t *s, int k) {
  int n = 0, origin = input_from_part(s), size = 1;
  if (!s->loss->tree) return k > s->from;
  for (int at = k - origin; at & 1 && (at - 1) * size + origin >= s->from; at >>= 1) n++, size *= 2;
  return n;
}

/* Adds x[n], of part k. */
static void sums_add(step_t *s, sums_t *sums, int k, int n, mr_var_t **x) {
  for (int left = sums_before(s, k); left; left--) {
    mr_var_t **was = sums->of[--sums->n];
    for (int i = 0; i < n; i++) x[i] = mr_lax_add(s->g, was[i], x[i]);
  }
  sums->of[sums->n++] = x;
}

/* Adds the sums that wait, those of the last parts first. */
static mr_var_t **sums_end(step_t *s, sums_t *sums, int n) {
  while (sums->n > 1) {
    mr_var_t **x = sums->of[--sums->n], **was = sums->of[sums->n - 1];
    for (int i = 0; i < n; i++) was[i] = mr_lax_add(s->g, was[i], x[i]);
  }
  return sums->of[0];
}

/* x: a scalar of part k, weighted if the parts are added as a tree.  A chain of equal parts is
   weighted once. */
static mr_var_t *weighted_scalar(step_t *s, int k, mr_var_t *x) {
  return s->loss->tree ? mr_lax_scale(s->g, weight_of_part(s->loss, k), x) : x;
}

/* x[n]: the weighted scalars of the parts from s->from on. */
static mr_var_t *sum_of_scalars(step_t *s, int n, mr_var_t **x) {
  sums_t sums = {0};
  for (int k = 0; k < n; k++) sums_add(s, &sums, s->from + k, 1, &x[k]);
  mr_var_t *sum = sums_end(s, &sums, 1)[0];
  return s->loss->tree ? sum : mr_lax_scale(s->g, 1.0 / s->loss->parts, sum);
}

/* Output i of the loss over the parts that are computed, whose outputs lie n_out apart in all. */
static mr_var_t *step_join(step_t *s, mr_var_t **all, int i) {
  int n = s->to - s->from;
  mr_var_t **x = mr_mem_take(&s->g->mem, (size_t)n * sizeof *x);
  for (int k = 0; k < n; k++) x[k] = all[k * s->n_out + i];
  if (s->loss->parts == 1 || !x[0]) return x[0];
  if (x[0]->aval.ndim) return n == 1 ? x[0] : mr_lax_concatenate(s->g, n, x, 0);
  for (int k = 0; k < n; k++) x[k] = weighted_scalar(s, s->from + k, x[k]);
  return sum_of_scalars(s, n, x);
}

/* ---- ranks ---- */

int mr_optim_rank_from(int parts, int size, int rank) {
  int more = parts % size;
  return rank * (parts / size) + (rank < more ? rank : more);
}

/* A sum of the tree, of parts [from,to), and the place at which its rank has it. */
typedef struct node {
  int from, to, rank, place;
} node_t;

/* Ranks, or pipelines of ranks, which share the parts. */
static int count_sharers(const step_t *s) { return mr__pipe_lines(s->loss->ranks); }

/* This rank's stage; 0 without pipelines. */
static int stage_of_rank(const step_t *s) { return s->loss->ranks->rank / count_sharers(s); }

/* The rank that has the outputs of a sharer's parts. */
static int rank_with_outputs(const step_t *s, int sharer) {
  const mr_pipeline_t *p = s->loss->ranks->pipeline;
  return p ? mr__pipe_rank(s->loss->ranks, sharer, p->stages - 1) : sharer;
}

/* The sums that all ranks have, node[n] in order, and the most that one has; with pipelines the
   ranks of this one's stage. */
typedef struct nodes {
  node_t *node;
  int n, most;
} nodes_t;

/* The parts of a rank are the fewest sums of the tree, as sums_add leaves them. */
static nodes_t nodes_of_ranks(step_t *s) {
  int parts = s->loss->parts, size = count_sharers(s), stage = stage_of_rank(s);
  nodes_t all = {.node = mr_mem_take(&s->g->mem, (size_t)parts * sizeof(node_t))};
  for (int r = 0; r < size && all.node; r++) {
    int at = mr_optim_rank_from(parts, size, r), to = mr_optim_rank_from(parts, size, r + 1);
    for (int place = 0; at < to; place++) {
      int n = parts;
      while (at % n || at + n > to) n /= 2;
      all.node[all.n++] = (node_t){at, at + n, mr__pipe_rank(s->loss->ranks, r, stage), place};
      if (place >= all.most) all.most = place + 1;
      at += n;
    }
  }
  return all;
}

/* The sum of parts [from,to) of elements [at,end) of all gradients, which are t: the term of place
   j of a rank is the sum that it has there. */
static mr_var_t *sum_of_nodes(step_t *s, const mr__exchange_t *x, const nodes_t *nodes, int64_t at,
                              int64_t end, mr_dtype_t t, int from, int to) {
  for (int k = 0; k < nodes->n; k++) {
    const node_t *v = &nodes->node[k];
    if (v->from == from && v->to == to) return mr__exchange_term(x, v->place, v->rank, at, end, t);
  }
  int half = (from + to) / 2;
  mr_var_t *left = sum_of_nodes(s, x, nodes, at, end, t, from, half);
  return mr_lax_add(s->g, left, sum_of_nodes(s, x, nodes, at, end, t, half, to));
}

/* Chunk c of this rank's share of the gradients over all parts, f32[elements]: neighbours of one
   dtype are added together.  NULL if the share has none. */
static mr_var_t *sum_of_even_chunk(step_t *s, const mr__exchange_t *x, const nodes_t *nodes,
                                   int c) {
  int64_t at, end;
  mr__exchange_chunk(x, s->loss->ranks->rank, c, &at, &end);
  mr_var_t **sum = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *sum);
  int n = 0, i = 0;
  while (sum && at < end) {
    while (x->at[i + 1] <= at) i++;
    mr_dtype_t t = s->p[i]->aval.dtype;
    int last = i;
    while (last + 1 < s->n && s->p[last + 1]->aval.dtype == t) last++;
    int64_t to = x->at[last + 1] < end ? x->at[last + 1] : end;
    mr_var_t *v = sum_of_nodes(s, x, nodes, at, to, t, 0, s->loss->parts);
    sum[n++] = mr_lax_convert(s->g, v, MR_F32);
    at = to;
  }
  return n > 1 ? mr_lax_concatenate(s->g, n, sum, 0) : n ? sum[0] : NULL;
}

/* What has been summed of a gradient, piece by piece. */
typedef struct summed {
  int n;
  mr_var_t **piece; /* [n] */
} summed_t;

/* Adds the pieces of gradients that lie in chunk c of this rank's share, which are whole
   parameters. */
static void sum_of_chunk(step_t *s, const mr__exchange_t *x, const nodes_t *nodes, int c,
                         summed_t *sum) {
  int64_t from, to;
  mr__exchange_chunk(x, s->loss->ranks->rank, c, &from, &to);
  for (int i = s->lo; i < s->hi; i++) {
    int64_t a = from > x->at[i] ? from : x->at[i], b = to < x->at[i + 1] ? to : x->at[i + 1];
    summed_t *own = &sum[i - s->lo];
    if (a < b)
      own->piece[own->n++] =
          sum_of_nodes(s, x, nodes, a, b, s->p[i]->aval.dtype, 0, s->loss->parts);
  }
}

/* The gradients, over all parts, of the parameters that this rank updates: a chunk is added as soon
   as it has come. */
static void sum_gradients(step_t *s, mr__exchange_t *x, const nodes_t *nodes) {
  mr_mem_t *mem = &s->g->mem;
  summed_t *sum = mr_mem_take(mem, (size_t)(s->n + 1) * sizeof *sum);
  for (int i = 0; sum && s->share && i < s->hi - s->lo; i++)
    sum[i] = (summed_t){.piece = mr_mem_take(mem, (size_t)x->n_chunks * sizeof(mr_var_t *))};
  if (mem->failed) return;
  for (int c = 0; c < x->n_chunks; c++) {
    mr__exchange_send(x, c);
    if (s->share)
      sum_of_chunk(s, x, nodes, c, sum);
    else
      mr__exchange_gather(x, c, sum_of_even_chunk(s, x, nodes, c), 0, 0);
    for (int i = 0; !s->share && i < s->n; i++)
      if (mr__exchange_completes(x, c, i)) s->grad[i] = mr__exchange_whole(x, i, &s->p[i]->aval);
  }
  for (int i = s->lo; s->share && i < s->hi; i++) {
    const mr_aval_t *a = &s->p[i]->aval;
    const summed_t *own = &sum[i - s->lo];
    mr_var_t *v = own->n > 1 ? mr_lax_concatenate(s->g, own->n, own->piece, 0)
                  : own->n   ? *own->piece
                             : mr_lax_full(s->g, a, 0); /* without elements */
    s->grad[i] = mr_lax_reshape(s->g, v, a->ndim, a->dim);
  }
}

/* ---- sums that do not wait for the end of the backward pass ---- */

enum { BUCKET = 1 << 18 }; /* elements from which a bucket takes no further parameter */

/* Parameters [from,to) of one rank's share and of one dtype, whose gradients are sent together. */
typedef struct bucket {
  int from, to, owner;
} bucket_t;

/* The bucket that ends before parameter `to`. */
static bucket_t bucket_before(const step_t *s, int to) {
  bucket_t b = {to - 1, to, 0};
  int64_t elems = mr_aval_elems(&s->p[b.from]->aval);
  while (s->share[b.owner + 1] < to) b.owner++;
  while (b.from > s->share[b.owner] && elems < BUCKET &&
         s->p[b.from - 1]->aval.dtype == s->p[b.from]->aval.dtype)
    elems += mr_aval_elems(&s->p[--b.from]->aval);
  return b;
}

/* The gradients of a bucket, one behind the other. */
static mr_var_t *bucket_flat(step_t *s, const bucket_t *b, mr_var_t *const *grad) {
  int n = b->to - b->from;
  mr_var_t **flat = mr_mem_take(&s->g->mem, (size_t)n * sizeof *flat);
  for (int i = 0; flat && i < n; i++)
    flat[i] = mr_lax_reshape_to(s->g, grad[b->from + i], mr_aval_elems(&s->p[b->from + i]->aval));
  if (!flat) return NULL;
  return n > 1 ? mr_lax_concatenate(s->g, n, flat, 0) : flat[0];
}

/* A bucket on its way to its owner. */
typedef struct sending {
  const bucket_t *bucket;
  const nodes_t *nodes;
  mr_var_t **own;   /* [nodes->n] this rank's sums; NULL for those of others */
  mr_var_t *newest; /* of them */
  int *turn;
} sending_t;

/* Sends sum k of the tree to the owner, and returns it there.  The operand of a message that the
   owner receives is sent to none: with its own newest sum, it does not receive before its backward
   pass has come as far. */
static mr_var_t *send_node(step_t *s, const sending_t *b, int k) {
  const mr_optim_ranks_t *ranks = s->loss->ranks;
  int from = b->nodes->node[k].rank, owner = b->bucket->owner, own = ranks->rank;
  const int perm[1][2] = {{from, owner}};
  int turn = (*b->turn)++;
  if (from == owner || (from != own && owner != own)) return b->own[k];
  return mr_lax_ppermute_in_turn(s->g, from == own ? b->own[k] : b->newest, ranks->axis, 1, perm,
                                 turn);
}

/* The sum of parts [from,to) of a bucket's gradients, of use to the owner alone: two sums are added
   as soon as both have come, so that few wait.  A barrier keeps fusion from adding all at once. */
static mr_var_t *send_tree(step_t *s, const sending_t *b, int from, int to) {
  for (int k = 0; k < b->nodes->n; k++)
    if (b->nodes->node[k].from == from && b->nodes->node[k].to == to) return send_node(s, b, k);
  int half = (from + to) / 2;
  mr_var_t *left = send_tree(s, b, from, half), *right = send_tree(s, b, half, to);
  return b->bucket->owner == s->loss->ranks->rank
             ? mr_lax_optimization_barrier(s->g, mr_lax_add(s->g, left, right))
             : NULL;
}

/* Each rank sends its sums of a bucket's gradients to the owner, which adds them.  All ranks have
   the messages in one order, that of the tree; their turns, which keep each rank's own apart, may
   begin at different numbers. */
static void exchange_bucket(step_t *s, const bucket_t *b, const nodes_t *nodes, const sums_t *sums,
                            int *turn) {
  int own = s->loss->ranks->rank;
  sending_t way = {.bucket = b, .nodes = nodes, .turn = turn};
  way.own = mr_mem_take(&s->g->mem, (size_t)nodes->n * sizeof *way.own);
  if (!way.own) return;
  for (int k = 0; k < nodes->n; k++) {
    const node_t *v = &nodes->node[k];
    way.own[k] = v->rank == own ? bucket_flat(s, b, sums->of[v->place]) : NULL;
    if (v->rank == own) way.newest = way.own[k];
  }
  mr_var_t *sum = send_tree(s, &way, 0, s->loss->parts);
  if (b->owner != own) return;
  int64_t at = 0;
  for (int i = b->from; i < b->to; i++) {
    const mr_aval_t *a = &s->p[i]->aval;
    mr_var_t *v = mr_lax_slice(s->g, sum, &at, (int64_t[]){at + mr_aval_elems(a)});
    s->grad[i] = mr_lax_reshape(s->g, v, a->ndim, a->dim);
    at += mr_aval_elems(a);
  }
}

/* The gradients of the parameters that this rank updates, each as soon as the backward pass of the
   last part has made it: buckets go from the last parameters to the first, as the pass does. */
static mr_err_t exchange_early(step_t *s, const nodes_t *nodes, const sums_t *sums) {
  int turn = 0;
  for (int to = s->n; to > 0;) {
    bucket_t b = bucket_before(s, to);
    exchange_bucket(s, &b, nodes, sums, &turn);
    to = b.from;
  }
  return mr__exchange_early(s->g, s->computed);
}

/* The most records, or with records false parts, that a rank, or a pipeline, has. */
static int64_t most_of_ranks(const step_t *s, bool records) {
  int64_t most = 0;
  int parts = s->loss->parts, size = count_sharers(s), split = 0;
  while (records && !s->loss->split[split]) split++;
  for (int r = 0; r < size; r++) {
    int from = mr_optim_rank_from(parts, size, r), to = mr_optim_rank_from(parts, size, r + 1);
    int64_t n = records ? rows_of_parts(s->loss, split, from, to) : to - from;
    if (n > most) most = n;
  }
  return most;
}

/* The elements that a rank posts of an output of parts, which are a. */
static int64_t posted_size(const step_t *s, const mr_aval_t *a) {
  return a->ndim ? most_of_ranks(s, true) * (mr_aval_elems(a) / a->dim[0])
                 : most_of_ranks(s, false);
}

/* Posts output i of this rank's parts: scalars part by part, weighted, others joined. */
static int post_output(step_t *s, mr__exchange_t *x, mr_var_t **all, int i) {
  int n = s->to - s->from;
  const mr_aval_t *a = &all[i]->aval;
  if (a->ndim) return mr__exchange_post(x, step_join(s, all, i), posted_size(s, a));
  mr_var_t **each = mr_mem_take(&s->g->mem, (size_t)n * sizeof *each);
  for (int k = 0; each && k < n; k++)
    each[k] = mr_lax_reshape_to(s->g, weighted_scalar(s, s->from + k, all[k * s->n_out + i]), 1);
  mr_var_t *v = each && n > 1 ? mr_lax_concatenate(s->g, n, each, 0) : each ? each[0] : NULL;
  return mr__exchange_post(x, v, posted_size(s, a));
}

/* Output i over the parts of all ranks, from what they have posted. */
static mr_var_t *posted_output(step_t *s, const mr__exchange_t *x, int posted, mr_aval_t a) {
  int parts = s->loss->parts, size = count_sharers(s), n = 0, split = 0;
  mr_var_t **v = mr_mem_take(&s->g->mem, (size_t)parts * sizeof *v);
  while (a.ndim && !s->loss->split[split]) split++;
  for (int r = 0; v && r < size; r++) {
    int from = mr_optim_rank_from(parts, size, r), to = mr_optim_rank_from(parts, size, r + 1);
    int rank = rank_with_outputs(s, r);
    for (int k = from; !a.ndim && k < to; k++)
      v[n++] = mr__exchange_posted(x, posted, rank, k - from, &a);
    if (!a.ndim) continue;
    a.dim[0] = rows_of_parts(s->loss, split, from, to);
    v[n++] = mr__exchange_posted(x, posted, rank, 0, &a);
  }
  if (a.ndim) return mr_lax_concatenate(s->g, n, v, 0);
  int mine = s->from;
  s->from = 0; /* all parts are added */
  mr_var_t *sum = sum_of_scalars(s, n, v);
  s->from = mine;
  return sum;
}

/* The largest of what ranks have met. */
static mr_var_t *posted_amax(step_t *s, const mr__exchange_t *x, int posted) {
  mr_aval_t a = s->amax->aval;
  mr_var_t *most = mr__exchange_posted(x, posted, 0, 0, &a);
  for (int r = 1; r < s->loss->ranks->size; r++)
    most = mr_lax_max(s->g, most, mr__exchange_posted(x, posted, r, 0, &a));
  return most;
}

/* The terms of the gradients that this rank has: of each place a sum, or NULL. */
static mr_var_t ***terms_of_rank(step_t *s, const sums_t *sums, const nodes_t *nodes) {
  mr_var_t ***term = mr_mem_take(&s->g->mem, (size_t)(nodes->most + 1) * sizeof *term);
  for (int j = 0; term && j < sums->n; j++) term[j] = sums->of[j];
  return term;
}

/* Outputs, gradients and amax of all ranks' parts, from those of this rank's: outputs in all, and
   sums of gradients. */
static mr_err_t step_exchange(step_t *s, mr_var_t **all, const sums_t *sums) {
  mr_mem_t *mem = &s->g->mem;
  nodes_t nodes = nodes_of_ranks(s);
  int *posted = mr_mem_take(mem, (size_t)(s->n_out + 1) * sizeof *posted);
  int64_t *size = mr_mem_take(mem, (size_t)(s->n + 1) * sizeof *size);
  mr_var_t ***term = terms_of_rank(s, sums, &nodes);
  s->grad = mr_mem_take(mem, (size_t)s->n * sizeof(mr_var_t *));
  if (mem->failed || s->g->diag.code < 0) return s->g->diag.code;
  for (int i = 0; i < s->n; i++) size[i] = mr_aval_elems(&s->p[i]->aval);
  mr__exchange_t *x = mr_mem_take(mem, sizeof *x);
  if (mem->failed) return s->g->diag.code;
  *x = mr__exchange_start(s->g, s->loss->ranks, s->n, size, s->share, s->n_out + 1);
  if (mem->failed) return s->g->diag.code;
  bool early = s->loss->ranks->zero >= 2;
  const char *outer = mr_scope_enter(s->g, "exchange");
  if (early) MR_TRY(exchange_early(s, &nodes, sums));
  const char *exchange = mr_scope_enter(s->g, "posted");
  for (int i = 0; i < s->n_out; i++) posted[i] = all[i] ? post_output(s, x, all, i) : -1;
  mr_scope_leave(s->g, exchange);
  int amax = s->n_fp8 ? mr__exchange_post(x, s->amax, mr_aval_elems(&s->amax->aval)) : 0;
  mr__exchange_publish(x);
  MR_TRY(s->g->diag.code);
  for (int i = 0; i < s->n_out; i++)
    s->out[i] = posted[i] < 0 ? NULL : posted_output(s, x, posted[i], all[i]->aval);
  if (s->n_fp8) s->amax = posted_amax(s, x, amax);
  if (!early) mr__exchange_terms(x, nodes.most, term);
  if (!early) sum_gradients(s, x, &nodes);
  s->exchange = x;
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

/* ---- shares of the update ---- */

/* What each rank has of x, t[n] here: t[ranks, n]. */
static mr_var_t *of_all_ranks(step_t *s, mr_var_t *x) {
  return mr_lax_all_gather(s->g, x, s->loss->ranks->axis, s->loss->ranks->size);
}

/* f32[]: the largest of the ranks' numbers; NULL for a rank without parameters. */
static mr_var_t *most_over_ranks(step_t *s, mr_var_t *most) {
  const mr_aval_t one = mr_aval_of(MR_F32, 1);
  most = most ? mr_lax_reshape_to(s->g, most, 1) : mr_lax_full(s->g, &one, 0);
  return mr_lax_reduce_max(s->g, of_all_ranks(s, most), 2, (int[]){0, 1});
}

static bool is_frozen(const step_t *s, int i) { return s->loss->each && s->loss->each[i].frozen; }

/* The sum of the squares of all gradients that are not frozen, of which this rank may have a share:
   parameter by parameter, as mr_lax_sum_squares adds, or with `pair` mr_lax_sum_squares_pair. */
static mr_var_t *squares_of_gradients(step_t *s, bool pair) {
  mr_fn_t *g = s->g;
  if (!s->share) {
    mr_var_t **moving = mr_mem_take(&g->mem, (size_t)s->n * sizeof *moving);
    int n_moving = 0;
    for (int i = 0; moving && i < s->n; i++)
      if (!is_frozen(s, i)) moving[n_moving++] = s->grad[i];
    if (!moving) return NULL;
    return pair ? mr_lax_sum_squares_pair(g, n_moving, moving)
                : mr_lax_sum_squares(g, n_moving, moving);
  }
  int ranks = s->loss->ranks->size, most = 1, n = s->hi - s->lo;
  mr_var_t **own = mr_mem_take(&g->mem, (size_t)(s->n + 1) * sizeof *own), *sum = NULL;
  for (int r = 0; r < ranks; r++)
    if (s->share[r + 1] - s->share[r] > most) most = s->share[r + 1] - s->share[r];
  for (int i = 0; own && i < n; i++)
    own[i] =
        mr_lax_reshape_to(g,
                          is_frozen(s, s->lo + i) ? mr_literal(g, MR_F64, 0)
                                                  : mr_lax_sum_squares_wide(g, s->grad[s->lo + i]),
                          1);
  const mr_aval_t none = mr_aval_of(MR_F64, most - n);
  if (own && n < most) own[n++] = mr_lax_full(g, &none, 0);
  mr_var_t *mine = !own ? NULL : n > 1 ? mr_lax_concatenate(g, n, own, 0) : own[0];
  mr_var_t *all = of_all_ranks(s, mine);
  for (int r = 0; all && r < ranks; r++)
    for (int i = 0; i < s->share[r + 1] - s->share[r]; i++) {
      mr_var_t *v = mr_lax_slice(g, all, (int64_t[]){r, i}, (int64_t[]){r + 1, i + 1});
      v = mr_lax_reshape(g, v, 0, NULL);
      sum = sum ? mr_lax_add(g, sum, v) : v;
    }
  if (!pair) return mr_lax_convert(g, sum, MR_F32);
  mr_var_t *small = mr_lax_scale(g, ldexp(1, -2 * MR_SQUARES_SHIFT), sum);
  mr_var_t *both[] = {mr_lax_reshape_to(g, mr_lax_convert(g, sum, MR_F32), 1),
                      mr_lax_reshape_to(g, mr_lax_convert(g, small, MR_F32), 1)};
  return mr_lax_concatenate(g, 2, both, 0);
}

/* Completes the new values next[n], of which this rank has [lo,hi). */
static void take_updates(step_t *s, mr_var_t **next) {
  mr__exchange_t *x = s->exchange;
  const char *outer = mr_scope_enter(s->g, "exchange");
  for (int c = 0; c < x->n_chunks; c++) {
    mr__exchange_gather(x, c, mr__exchange_own(x, c, next), s->lo, s->hi);
    for (int i = 0; i < s->n; i++)
      if ((i < s->lo || i >= s->hi) && mr__exchange_completes(x, c, i))
        next[i] = mr__exchange_whole(x, i, &s->p[i]->aval);
  }
  mr_scope_leave(s->g, outer);
}

/* ---- a stage of a pipeline ---- */

/* Forward through part k of this pipeline's: out[n_out] in the last stage. */
static mr_err_t stage_forward(step_t *s, mr__pipe_t *p, int k, mr_var_t **out) {
  mr_fn_t *f = light_loss(s, s->from + k);
  mr_var_t **in = inputs_of_part(s, s->from + k);
  mr_err_t e = f && in ? mr__pipe_forward(p, k, f, in, out) : s->g->diag.code;
  mr_fn_destroy(f);
  return e;
}

/* Back through part k, whose gradients are added to those before.  Sums have an entry for each
   parameter of the stage, [first,end). */
static mr_err_t stage_backward(step_t *s, mr__pipe_t *p, int k, mr_var_t *loss, sums_t *sums) {
  const int *first = &s->loss->ranks->pipeline->first[p->stage], n = first[1] - first[0];
  mr_var_t **grad = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof *grad);
  mr_var_t *seed = loss ? loss_seed(s, s->from + k) : NULL;
  if (!grad) return s->g->diag.code;
  grad += *first; /* room for all parameters, so that sums may be read by a parameter's number */
  MR_TRY(mr__pipe_backward(p, k, loss, seed, n, s->p + *first, grad));
  sums_add(s, sums, s->from + k, n, grad);
  return s->g->diag.code;
}

/* Outputs of the loss over all parts, from what the last stage of each pipeline posts: all, a row
   for each of its parts. */
static mr_err_t stage_outputs(step_t *s, mr__exchange_t *x, mr_var_t **all) {
  const mr_fn_t *f = s->loss->part[0];
  bool last = rank_with_outputs(s, s->loss->ranks->rank % count_sharers(s)) == s->loss->ranks->rank;
  int *posted = mr_mem_take(&s->g->mem, (size_t)(s->n_out + 1) * sizeof *posted);
  const char *outer = mr_scope_enter(s->g, "exchange");
  const char *exchange = mr_scope_enter(s->g, "posted");
  for (int i = 0; posted && i < s->n_out; i++)
    posted[i] = last ? post_output(s, x, all, i)
                     : mr__exchange_post_none(x, posted_size(s, &f->out[i]->aval));
  mr_scope_leave(s->g, exchange);
  mr__exchange_publish(x);
  for (int i = 0; s->g->diag.code >= 0 && i < s->n_out; i++)
    s->out[i] = posted_output(s, x, posted[i], f->out[i]->aval);
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

/* The gradients, over the parts of all pipelines, of the parameters that this rank updates.  Those
   of its stage go in buckets to the ranks that have the stage too, when its passes are done. */
static mr_err_t stage_exchange(step_t *s, const mr__pipe_t *p, sums_t *sums) {
  const int *first = &s->loss->ranks->pipeline->first[p->stage];
  int turn = mr__pipe_next_turn(p);
  s->grad = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof(mr_var_t *));
  if (!s->grad) return s->g->diag.code;
  if (count_sharers(s) == 1) {
    mr_var_t **sum = sums_end(s, sums, first[1] - first[0]);
    for (int i = first[0]; i < first[1]; i++) s->grad[i] = sum[i - first[0]];
    return s->g->diag.code;
  }
  nodes_t nodes = nodes_of_ranks(s);
  const char *outer = mr_scope_enter(s->g, "exchange");
  for (int j = 0; j < sums->n; j++) sums->of[j] -= first[0];
  for (int to = first[1]; to > first[0] && s->g->diag.code >= 0;) {
    bucket_t b = bucket_before(s, to);
    exchange_bucket(s, &b, &nodes, sums, &turn);
    to = b.from;
  }
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

static mr_err_t run_stage(step_t *s) {
  mr_mem_t *mem = &s->g->mem;
  int parts = s->to - s->from;
  mr_var_t **all = mr_mem_take(mem, (size_t)(parts * s->n_out) * sizeof *all);
  int64_t *elems = mr_mem_take(mem, (size_t)s->n * sizeof *elems);
  mr__exchange_t *x = mr_mem_take(mem, sizeof *x);
  mr_fn_t *first = light_loss(s, 0);
  sums_t sums = {0};
  mr__pipe_t *p =
      first ? mr__pipe_start(s->g, s->loss->ranks, first, s->loss->n_data, parts) : NULL;
  mr_fn_destroy(first);
  if (mem->failed || !p) return s->g->diag.code;
  bool last = p->stage + 1 == s->loss->ranks->pipeline->stages;
  for (int i = 0; i < p->n_slot; i++) {
    const mr_pipeline_slot_t *slot = &p->slot[i];
    mr_var_t **out = all + slot->part * s->n_out;
    bool own = slot->rank == p->stage;
    if (own && !slot->backward) MR_TRY(stage_forward(s, p, slot->part, out));
    if (own && slot->backward)
      MR_TRY(stage_backward(s, p, slot->part, last ? out[0] : NULL, &sums));
    if (i + 1 == p->n_slot || slot[1].time > slot->time) MR_TRY(mr__pipe_exchange(p, slot->time));
  }
  MR_TRY(stage_exchange(s, p, &sums));
  for (int i = 0; i < s->n; i++) elems[i] = mr_aval_elems(&s->p[i]->aval);
  *x = mr__exchange_start(s->g, s->loss->ranks, s->n, elems, s->share, s->n_out);
  if (mem->failed) return s->g->diag.code;
  s->exchange = x;
  return stage_outputs(s, x, all);
}

/* ---- the step ---- */

/* Gradient i where it is to lie.  One that is widened lies so before: ranks then send it narrow. */
static mr_var_t *gradient_that_lies(step_t *s, int i) {
  mr_var_t *x = s->grad[i];
  const mr_eqn_t *e = x ? x->def : NULL;
  bool widened = e && e->op == &mr_op_convert_element_type;
  mr_var_t *y = mr_lax_shard(s->g, widened ? e->in[0] : x, s->loss->lies[i]);
  return widened && y ? mr_lax_convert(s->g, y, x->aval.dtype) : y;
}

static mr_err_t run_parts(step_t *s) {
  int n = s->to - s->from;
  mr_var_t **all = mr_mem_take(&s->g->mem, (size_t)(n * s->n_out) * sizeof *all);
  sums_t sums = {0};
  if (s->loss->ranks && s->loss->ranks->pipeline) return run_stage(s);
  for (int k = s->from; k < s->to; k++) {
    mr_var_t **grad = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof *grad);
    MR_TRY(step_run_part(s, k, all + (k - s->from) * s->n_out, grad));
    s->computed = s->g->n_eqn;
    sums_add(s, &sums, k, s->n, grad);
  }
  if (s->loss->ranks) return step_exchange(s, all, &sums);
  s->grad = sums_end(s, &sums, s->n);
  for (int i = 0; s->loss->lies && i < s->n; i++)
    if (s->loss->lies[i]) s->grad[i] = gradient_that_lies(s, i);
  for (int i = 0; i < s->n_out; i++) s->out[i] = step_join(s, all, i);
  return s->g->diag.code;
}

/* Element k of the squares of mr_lax_sum_squares_pair, as the root in f32. */
static mr_var_t *root_of_pair(mr_fn_t *g, mr_var_t *pair, int64_t k) {
  mr_var_t *v = mr_lax_slice(g, pair, &k, (int64_t[]){k + 1});
  return mr_lax_convert(g, mr_lax_sqrt(g, mr_lax_reshape(g, v, 0, NULL)), MR_F32);
}

/* Divides v by a fixed loss scale. */
static mr_var_t *divide_by_scale(step_t *s, mr_var_t *v) {
  double fixed = (double)s->o->loss_scale;
  return !step_is_dynamic(s) && fixed > 0 && fixed != 1 ? mr_lax_scale(s->g, 1 / fixed, v) : v;
}

/* The scalar v in the dtype of parameter i. */
static mr_var_t *as_parameter(step_t *s, int i, mr_var_t *v) {
  return mr_lax_convert(s->g, v, s->p[i]->aval.dtype);
}

/* Divides the gradients by a dynamic scale.  This comes before their norm, whose squares would
   overflow with the scale in them. */
static void unscale_each(step_t *s) {
  for (int i = s->lo; step_is_dynamic(s) && i < s->hi; i++)
    s->grad[i] = mr_lax_div(s->g, s->grad[i], as_parameter(s, i, s->scale[0]));
}

/* The rule of the scale; one that is fixed stays, and its state counts alone. */
static mr_loss_scale_t step_rule(const step_t *s) {
  mr_loss_scale_t c = s->o->dynamic;
  if (!step_is_dynamic(s)) c = (mr_loss_scale_t){.start = 1, .factor = 1};
  if (s->o->only_finite) c.max_bad = INT32_MAX; /* none is applied because it is late */
  return c;
}

/* The settings of parameter i's update. */
static mr_optim_in_t step_in(step_t *s, int i, mr_var_t *scale) {
  mr_optim_in_t in = {.p = s->p[i], .g = s->grad[i], .t = s->t};
  double rate = s->loss->each ? (double)s->loss->each[i].rate : 1;
  mr_var_t *lr = rate == 1 ? s->lr : mr_lax_scale(s->g, rate, s->lr);
  in.lr = as_parameter(s, i, lr), in.scale = as_parameter(s, i, scale);
  for (int k = 0; k < s->o->def->n_slots; k++) in.slot[k] = s->slot[k][i - s->lo];
  return in;
}

/* Parameter i's update by the optimizer. */
static mr_err_t step_apply(step_t *s, int i, const mr_optim_in_t *in, mr_var_t **out) {
  mr_optim_t o = *s->o;
  if (s->loss->each && !s->loss->each[i].decays) o.weight_decay = 0;
  return o.def->update(s->g, &o, in, out);
}

/* f32[]: the largest magnitude of parameter i after its update, computed for this alone.  The
   barrier keeps passes from taking the later update for the same one: all updates would then be
   kept until the verdict. */
static mr_var_t *step_reach(step_t *s, int i, mr_var_t *scale) {
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  mr_var_t *then[1 + MR_OPTIM_SLOTS] = {NULL};
  mr_optim_in_t in = step_in(s, i, scale);
  in.g = mr_lax_optimization_barrier(s->g, in.g);
  if (!in.g || step_apply(s, i, &in, then) < 0) return NULL;
  mr_var_t *v = mr_lax_abs(s->g, mr_lax_convert(s->g, then[0], MR_F32));
  return v && v->aval.ndim ? mr_lax_reduce_max(s->g, v, v->aval.ndim, axes) : v;
}

/* f32[]: 0 if all parameters are below the limit after their updates, else infinite; NULL: there is
   no limit. */
static mr_var_t *step_excess(step_t *s, mr_var_t *scale) {
  mr_fn_t *g = s->g;
  mr_var_t *most = NULL;
  if (!(s->o->below > 0) || !s->n_scale) return NULL;
  const char *outer = mr_scope_enter(g, MR_OPTIM_REACH);
  for (int i = s->lo; i < s->hi && g->diag.code >= 0; i++) {
    if (is_frozen(s, i)) continue;
    mr_var_t *v = step_reach(s, i, scale);
    most = most ? mr_lax_max(g, most, v) : v;
  }
  if (s->share) most = most_over_ranks(s, most);
  if (!most) most = mr_literal(g, MR_F32, 0);
  mr_var_t *fits = mr_lax_lt(g, most, mr_literal(g, MR_F32, (double)s->o->below));
  most = mr_lax_select_n(g, fits, mr_literal(g, MR_F32, INFINITY), mr_literal(g, MR_F32, 0));
  mr_scope_leave(g, outer);
  return most;
}

/* bool[]: loss, norm and excess (unless NULL) are finite, and no more steps than allowed were not,
   in a row. */
static mr_var_t *step_is_good(step_t *s, mr_var_t *norm, mr_var_t *excess) {
  enum { BAD = 2 }; /* of mr_scale_state_t */
  mr_fn_t *g = s->g;
  mr_var_t *look[] = {norm, mr_lax_convert(g, s->out[0], MR_F32), excess};
  mr_var_t *finite = mr_optim_finite(g, excess ? 3 : 2, look);
  mr_var_t *few = mr_lax_le(g, s->scale[BAD], mr_literal(g, MR_I32, s->o->dynamic.max_bad));
  mr_var_t *both = mr_lax_add(g, mr_lax_convert(g, finite, MR_I32), mr_lax_convert(g, few, MR_I32));
  return mr_lax_eq(g, both, mr_literal(g, MR_I32, 2));
}

/* Writes the next state of the scale to next[n_scale].  *apply: whether the step is
   applied; NULL if all steps are.  scale: of the gradients. */
static mr_err_t step_scale(step_t *s, mr_var_t *norm, mr_var_t *scale, mr_var_t **next,
                           mr_var_t **apply) {
  mr_fn_t *g = s->g;
  *apply = NULL;
  if (!s->n_scale) return MR_OK;
  mr_var_t *skipped = mr_lax_convert(g, s->scale[MR_SCALE_VARS - 1], MR_F32);
  s->t = mr_lax_sub(g, s->t, skipped);
  mr_loss_scale_t rule = step_rule(s);
  mr_var_t *look[] = {norm, step_excess(s, scale)};
  mr_var_t *finite = s->o->only_finite ? step_is_good(s, look[0], look[1])
                                       : mr_optim_finite(g, look[1] ? 2 : 1, look);
  return mr_optim_scale_step(g, &rule, finite, s->scale, next, apply);
}

/* v if the step is applied, else was. */
static mr_var_t *select_if_applied(step_t *s, mr_var_t *apply, mr_var_t *was, mr_var_t *v) {
  return apply ? mr_lax_select_n(s->g, apply, was, v) : v;
}

/* Leaves parameter i as it is, with what is kept for it. */
static void keep_one(step_t *s, int i, mr_var_t **next) {
  int sets = 1 + s->o->def->n_slots, each = s->hi - s->lo;
  mr_var_t **later = next + s->n + i - s->lo;
  next[i] = s->p[i];
  for (int k = 1; k < sets; k++) later[(k - 1) * each] = s->slot[k - 1][i - s->lo];
  if (s->o->ema > 0) later[(sets - 1) * each] = s->average[i - s->lo];
}

/* Updates parameter i: next has all values, then each later set's tensors [lo,hi). */
static mr_err_t update_one(step_t *s, int i, mr_var_t *scale, mr_var_t *apply, mr_var_t **next) {
  int sets = 1 + s->o->def->n_slots, each = s->hi - s->lo;
  mr_var_t **later = next + s->n + i - s->lo;
  mr_optim_in_t in = step_in(s, i, scale);
  mr_var_t *then[1 + MR_OPTIM_SLOTS];
  mr_var_t *select = s->o->def->chooses ? NULL : apply;
  if (s->o->def->chooses) in.apply = apply;
  MR_TRY(step_apply(s, i, &in, then));
  for (int k = 0; k < sets; k++)
    *(k ? &later[(k - 1) * each] : &next[i]) =
        select_if_applied(s, select, k ? in.slot[k - 1] : in.p, then[k]);
  if (s->o->ema > 0) {
    mr_var_t *was = s->average[i - s->lo];
    mr_var_t *count = mr_lax_sub(s->g, s->t, mr_literal(s->g, MR_F32, (double)s->o->ema_after));
    later[(sets - 1) * each] = select_if_applied(
        s, apply, was, mr_optim_debiased_ema(s->g, s->o->ema, count, was, then[0]));
  }
  return s->g->diag.code;
}

/* v, or the largest magnitude among tensors [from,to) of the products of fp8 if that is not
   finite. */
static mr_var_t *step_or_clamped_most(step_t *s, int from, int to, mr_var_t *v) {
  const char *by = step_by_fp8(s);
  int64_t products = s->amax->aval.dim[0];
  mr_var_t *met = mr_lax_slice(s->g, s->amax, (int64_t[]){0, from}, (int64_t[]){products, to});
  mr_var_t *most = mr_lax_reduce_max(s->g, met, 2, (int[]){0, 1});
  mr_var_t *finite = mr_optim_finite(s->g, 1, &most);
  v = mr_lax_select_n(s->g, finite, mr_lax_convert(s->g, most, v->aval.dtype), v);
  s->g->by = by;
  return v;
}

/* A product of fp8 clamps an infinity.  One in an operand belongs to the loss, and one in a
   cotangent, which the loss scale may have caused, to the gradients' norm. */
static mr_var_t *step_loss_of_all(step_t *s, mr_var_t *loss) {
  return s->n_fp8 ? step_or_clamped_most(s, 0, MR_FP8_TENSORS - 1, loss) : loss;
}

static mr_var_t *step_norm_of_all(step_t *s, mr_var_t *norm) {
  return s->n_fp8 ? step_or_clamped_most(s, MR_FP8_TENSORS - 1, MR_FP8_TENSORS, norm) : norm;
}

/* Writes the next state of fp8 to next[n_fp8]. */
static mr_err_t step_fp8(step_t *s, mr_var_t *apply, mr_var_t **next) {
  if (!s->n_fp8) return MR_OK;
  MR_TRY(mr_fp8_next(s->g, s->loss->fp8, s->amax, s->fp8[0], s->fp8[1], &next[0], &next[1]));
  for (int i = 0; i < s->n_fp8; i++) next[i] = select_if_applied(s, apply, s->fp8[i], next[i]);
  return s->g->diag.code;
}

/* The global norm of the gradients without a fixed loss scale, and the factor that limits it to
   clip_norm.  Squares of a gradient whose norm is above 1.8e19 overflow, which without clipping is
   a norm that is not finite: with it, a second sum of smaller squares gives norm and factor.  A
   norm above FLT_MAX of a finite gradient is reported as that. */
static void step_norm(step_t *s, mr_var_t **norm, mr_var_t **scale) {
  mr_fn_t *g = s->g;
  double most = (double)s->o->clip_norm;
  *scale = mr_literal(g, MR_F32, 1);
  if (!(most > 0)) {
    mr_var_t *root = mr_lax_sqrt(g, squares_of_gradients(s, false));
    *norm = step_norm_of_all(s, divide_by_scale(s, mr_lax_convert(g, root, MR_F32)));
    return;
  }
  mr_var_t *pair = squares_of_gradients(s, true);
  mr_var_t *plain = divide_by_scale(s, root_of_pair(g, pair, 0));
  mr_var_t *small = divide_by_scale(s, root_of_pair(g, pair, 1));
  mr_var_t *large = mr_lax_scale(g, ldexp(1, MR_SQUARES_SHIFT), small);
  mr_var_t *fits = mr_optim_finite(g, 1, &plain), *finite = mr_optim_finite(g, 1, &small);
  mr_var_t *reported = mr_lax_min(g, large, mr_literal(g, MR_F32, (double)FLT_MAX));
  reported = mr_lax_select_n(g, fits, mr_lax_select_n(g, finite, large, reported), plain);
  *norm = step_norm_of_all(s, reported);
  mr_var_t *of_plain = mr_lax_div(g, mr_literal(g, MR_F32, most), *norm);
  double less = ldexp(most, -MR_SQUARES_SHIFT);
  mr_var_t *of_small = mr_lax_div(g, mr_literal(g, MR_F32, less), small);
  *scale = mr_lax_min(g, mr_lax_select_n(g, fits, of_small, of_plain), *scale);
}

static mr_err_t step_update(step_t *s, mr_var_t **next) {
  mr_var_t *apply, *norm, *scale;
  unscale_each(s);
  step_norm(s, &norm, &scale);
  scale = divide_by_scale(s, scale);
  *next++ = norm;
  MR_TRY(step_scale(s, norm, scale, next, &apply));
  next += s->n_scale;
  MR_TRY(step_fp8(s, apply, next));
  next += s->n_fp8;
  for (int i = s->lo; i < s->hi; i++)
    if (is_frozen(s, i))
      keep_one(s, i, next);
    else
      MR_TRY(update_one(s, i, scale, apply, next));
  if (s->share) take_updates(s, next);
  return s->g->diag.code;
}

static mr_err_t step_build(step_t *s) {
  int n = s->n_out + 1 + s->n_scale + s->n_fp8 + s->n + (mr_optim_sets(s->o) - 1) * (s->hi - s->lo);
  s->out = mr_mem_take(&s->g->mem, (size_t)n * sizeof *s->out);
  make_inputs(s);
  MR_TRY(run_parts(s));
  s->out[0] = step_loss_of_all(s, s->out[0]);
  const char *outer = mr_scope_enter(s->g, s->o->def->name);
  MR_TRY(step_update(s, s->out + s->n_out));
  mr_scope_leave(s->g, outer);
  return mr_fn_return(s->g, n, s->out);
}

/* The sums of parts [from,to) alone. */
static mr_err_t step_build_parts(step_t *s) {
  int n = s->n_out + (s->n_fp8 > 0) + s->n;
  s->out = mr_mem_take(&s->g->mem, (size_t)n * sizeof *s->out);
  make_inputs(s);
  MR_TRY(run_parts(s));
  mr_var_t **next = s->out + s->n_out;
  if (s->n_fp8) *next++ = s->amax;
  for (int i = 0; i < s->n; i++) next[i] = s->grad[i];
  return mr_fn_return(s->g, n, s->out);
}

static bool can_compute(mr_dtype_t t) { return mr_is_float(t) && !mr_is_storage(t); }

/* Checks that part k was traced, has parameters, and has dtypes that optimizers compute in. */
static mr_err_t check_part(const mr_optim_loss_t *l, int k, mr_diag_t *diag) {
  const mr_fn_t *f = l->part[k];
  char text[MR_AVAL_TEXT];
  if (f->diag.code < 0)
    return mr_diag_prefix(diag, f->diag.code, &f->diag, "part %d of the loss failed", k);
  if (f->n_out < 1) return mr_fail(diag, MR_ERR_SHAPE, "part %d of the loss gives no value", k);
  if (l->n_data < 0 || f->n_in <= l->n_data + (l->fp8 != NULL))
    return mr_fail(diag, MR_ERR_CONFIG, "a loss without parameters");
  const mr_aval_t *last = &f->in[f->n_in - 1]->aval;
  if (l->fp8 && (last->dtype != MR_F32 || last->ndim != 2 || last->dim[1] != MR_FP8_TENSORS))
    return mr_fail(diag, MR_ERR_SHAPE, "the last input is %s, want the scales of fp8, f32[n,%d]",
                   mr_aval_text(last, text), MR_FP8_TENSORS);
  for (int i = l->n_data; i < f->n_in; i++)
    if (!can_compute(f->in[i]->aval.dtype))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "parameter %d is %s, want f32, bf16, f16 or f64: the loss may convert it to "
                     "what it computes in",
                     i - l->n_data, mr_aval_text(&f->in[i]->aval, text));
  if (f->out[0]->aval.ndim || !can_compute(f->out[0]->aval.dtype))
    return mr_fail(diag, MR_ERR_SHAPE, "the loss is %s, want a scalar of f32, bf16, f16 or f64",
                   mr_aval_text(&f->out[0]->aval, text));
  return MR_OK;
}

/* Whether data input i of part k differs from the first part's in its number of records alone,
   which is that of all its split inputs, and which a tree may. */
static bool differs_in_records(const mr_optim_loss_t *l, int k, int i) {
  mr_aval_t a = l->part[k]->in[i]->aval;
  const mr_aval_t *first = &l->part[0]->in[i]->aval;
  int64_t rows = a.dim[0];
  bool same = l->tree && rows > 0 && a.ndim == first->ndim;
  for (int j = 0; same && j < l->n_data; j++)
    same = !l->split[j] || (l->part[k]->in[j]->aval.dim[0] == rows &&
                            l->part[0]->in[j]->aval.dim[0] == first->dim[0]);
  a.dim[0] = first->dim[0];
  return same && mr_aval_equal(&a, first);
}

static bool f32_holds(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16 || t == MR_F16; }

/* Checks that each rank has a stage of a pipeline, and the stages all parameters. */
static mr_err_t check_pipeline(const mr_optim_loss_t *l, mr_diag_t *diag) {
  const mr_optim_ranks_t *r = l->ranks;
  const mr_pipeline_t *p = r->pipeline;
  int n = l->part[0]->n_in - l->n_data;
  bool good = p->stages >= 2 && p->stages <= MR_PIPELINE_STAGES && r->size >= p->stages &&
              r->size % p->stages == 0 && l->tree && l->parts <= MR_PIPELINE_PARTS &&
              mr__pipe_lines(r) <= l->parts && r->zero == 1 && r->rank >= 0 && r->rank < r->size &&
              !p->first[0] && p->first[p->stages] == n;
  for (int s = 0; good && s < p->stages; s++) good = p->first[s] < p->first[s + 1];
  if (!good || l->fp8)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "pipelines of %d stages, %d ranks, %d parts of a tree: want a rank for each stage of a "
        "pipeline, each of at least one of %d parameters, at least a part a pipeline, at most %d "
        "parts, and no fp8",
        p->stages, r->size, l->parts, n, MR_PIPELINE_PARTS);
  return MR_OK;
}

/* Checks that ranks can share the parts, and that f32 holds what they exchange. */
static mr_err_t check_ranks(const mr_optim_loss_t *l, mr_diag_t *diag) {
  const mr_optim_ranks_t *r = l->ranks;
  const mr_fn_t *f = l->part[0];
  char text[MR_AVAL_TEXT];
  if (r->pipeline)
    MR_TRY(check_pipeline(l, diag));
  else if (!l->tree || r->size < 1 || r->size > l->parts || r->rank < 0 || r->rank >= r->size)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "rank %d of %d ranks that share %d parts, want a tree of at least a part a rank",
                   r->rank, r->size, l->parts);
  for (int i = l->n_data; i < f->n_in + f->n_out; i++) {
    const mr_var_t *v = i < f->n_in ? f->in[i] : f->out[i - f->n_in];
    if (v && !f32_holds(v->aval.dtype))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "%s %d of the loss is %s, which ranks do not exchange, want f32, bf16 or f16",
                     i < f->n_in ? "input" : "output", i < f->n_in ? i : i - f->n_in,
                     mr_aval_text(&v->aval, text));
  }
  return MR_OK;
}

/* Checks that some parameter is updated, by a rate that is a number. */
static mr_err_t check_each(const mr_optim_loss_t *l, mr_diag_t *diag) {
  int n = l->part[0]->n_in - l->n_data - (l->fp8 != NULL), moving = 0;
  for (int i = 0; i < n; i++) {
    moving += !l->each[i].frozen;
    if (!(l->each[i].rate >= 0 && l->each[i].rate <= FLT_MAX))
      return mr_fail(diag, MR_ERR_CONFIG, "parameter %d has %g times the learning rate, want >= 0",
                     i, (double)l->each[i].rate);
  }
  if (moving) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "all %d parameters are frozen, want one that is not", n);
}

static mr_err_t step_check(const mr_optim_loss_t *l, mr_diag_t *diag) {
  if (l->parts < 1)
    return mr_fail(diag, MR_ERR_CONFIG, "a step of %d parts, want 1 or more", l->parts);
  if (l->tree && (l->parts & (l->parts - 1)))
    return mr_fail(diag, MR_ERR_CONFIG, "a tree of %d parts, want a power of two", l->parts);
  if (l->fp8) MR_TRY(mr_fp8_check(l->fp8, diag));
  if (l->ranks) MR_TRY(check_ranks(l, diag));
  for (int k = 0; k < l->parts; k++) {
    const mr_fn_t *f = l->part[k], *first = l->part[0];
    MR_TRY(check_part(l, k, diag));
    for (int i = 0; l->parts > 1 && i < l->n_data; i++)
      if (l->split[i] && !f->in[i]->aval.ndim)
        return mr_fail(diag, MR_ERR_SHAPE, "data input %d is a scalar: it has no parts", i);
    bool same = f->n_in == first->n_in && f->n_out == first->n_out;
    for (int i = 0; same && i < f->n_in; i++)
      same = mr_aval_equal(&f->in[i]->aval, &first->in[i]->aval) ||
             (i < l->n_data && is_split(l, i) && differs_in_records(l, k, i));
    if (!same) return mr_fail(diag, MR_ERR_SHAPE, "part %d of the loss differs from the first", k);
  }
  return l->each ? check_each(l, diag) : MR_OK;
}

static int64_t elements_of_parameter(const void *arg, int i) {
  const mr_optim_loss_t *loss = arg;
  return mr_aval_elems(&loss->part[0]->in[loss->n_data + i]->aval);
}

/* Sets which parameters are updated. */
static mr_err_t step_set_share(step_t *s) {
  const mr_optim_ranks_t *r = s->loss->ranks;
  s->hi = s->n;
  if (!r || !r->zero) return MR_OK;
  s->share = mr_mem_take(&s->g->mem, (size_t)(r->size + 1) * sizeof *s->share);
  if (!s->share) return s->g->diag.code;
  for (int k = 0; k <= r->size; k++)
    s->share[k] = r->pipeline
                      ? mr__pipe_share_from(r->pipeline, elements_of_parameter, s->loss, r->size, k)
                      : mr_optim_share_from(s->n, elements_of_parameter, s->loss, r->size, k);
  s->lo = s->share[r->rank], s->hi = s->share[r->rank + 1];
  return MR_OK;
}

static mr_err_t step_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, int from, int to,
                        mr_err_t (*build)(step_t *s), mr_fn_t **out, mr_diag_t *diag) {
  MR_TRY(mr_optim_check(o, diag));
  MR_TRY(step_check(loss, diag));
  const mr_fn_t *first = loss->part[0];
  step_t s = {.g = mr_fn_create(), .loss = loss, .o = o, .from = from, .to = to};
  if (!s.g) return mr_no_memory(diag, "the graph of a step of %s", o->def->name);
  s.n_fp8 = loss->fp8 ? 2 : 0;
  s.n = first->n_in - loss->n_data - (loss->fp8 != NULL), s.n_out = first->n_out;
  s.n_scale = mr_optim_counts(o) ? MR_SCALE_VARS : 0;
  mr_err_t err = step_set_share(&s);
  if (err >= 0) err = build(&s);
  if (err < 0) {
    mr_diag_relay(diag, err, &s.g->diag);
    mr_fn_destroy(s.g);
    return err;
  }
  mr_dce(s.g);
  *out = s.g;
  return MR_OK;
}

mr_err_t mr_optim_step_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, mr_fn_t **out,
                          mr_diag_t *diag) {
  const mr_optim_ranks_t *r = loss->ranks;
  bool shared =
      r && r->size >= 1 && r->rank >= 0 && r->rank < r->size; /* else step_check refuses */
  if (shared && r->pipeline)
    shared = r->pipeline->stages >= 1 && r->pipeline->stages <= r->size; /* likewise */
  int n = shared ? mr__pipe_lines(r) : 1, own = shared ? r->rank % n : 0;
  int from = shared ? mr_optim_rank_from(loss->parts, n, own) : 0;
  int to = shared ? mr_optim_rank_from(loss->parts, n, own + 1) : loss->parts;
  return step_fn(loss, o, from, to, step_build, out, diag);
}

mr_err_t mr_optim_parts_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, int from, int to,
                           mr_fn_t **out, mr_diag_t *diag) {
  assert(0 <= from && from < to && to <= loss->parts && !loss->ranks);
  return step_fn(loss, o, from, to, step_build_parts, out, diag);
}

/* (1 - d) / (1 - d^n): what the newest of n steps counts for.  1 - d^n is 2h / (1 + h) with
   h = tanh(-n log(d) / 2), which is exact for a d near 1 too. */
static mr_var_t *share_of_newest(mr_fn_t *f, double d, mr_var_t *n) {
  mr_var_t *one = mr_literal(f, MR_F32, 1);
  mr_var_t *h = mr_lax_tanh(f, mr_lax_scale(f, -log(d) / 2, n));
  mr_var_t *share = mr_lax_div(f, mr_lax_add(f, h, one), mr_lax_scale(f, 2, h));
  return mr_lax_min(f, mr_lax_scale(f, 1 - d, share), one);
}

mr_var_t *mr_optim_debiased_ema(mr_fn_t *f, float decay, mr_var_t *count, mr_var_t *average,
                                mr_var_t *p) {
  mr_dtype_t t = p->aval.dtype;
  mr_var_t *share = share_of_newest(f, (double)decay, count);
  mr_var_t *rest = mr_lax_sub(f, mr_literal(f, MR_F32, 1), share);
  return mr_lax_add(f, mr_lax_mul(f, average, mr_lax_convert(f, rest, t)),
                    mr_lax_mul(f, p, mr_lax_convert(f, share, t)));
}

mr_var_t *mr_optim_ema(mr_fn_t *f, float decay, mr_var_t *average, mr_var_t *p) {
  double d = (double)decay;
  return mr_lax_add(f, mr_lax_scale(f, d, average), mr_lax_scale(f, 1 - d, p));
}
