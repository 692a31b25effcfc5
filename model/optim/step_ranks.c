/* What ranks exchange in a step: sums of gradients, which are added in the order of the tree of all
   parts, as one rank adds them; what the loss gives for each part; and new values of parameters. */
#include <math.h>

#include "model/control/control.h"
#include "model/optim/step_private.h"

int mr_optim_rank_from(int parts, int size, int rank) {
  int more = parts % size;
  return rank * (parts / size) + (rank < more ? rank : more);
}

int mr__optim_sharers(const mr__optim_step_t *s) { return mr__pipe_lines(s->loss->ranks); }

/* This rank's stage; 0 without pipelines. */
static int stage_of_rank(const mr__optim_step_t *s) {
  return s->loss->ranks->rank / mr__optim_sharers(s);
}

int mr__optim_rank_with_outputs(const mr__optim_step_t *s, int sharer) {
  const mr_pipeline_t *p = s->loss->ranks->pipeline;
  return p ? mr__pipe_rank(s->loss->ranks, sharer, p->stages - 1) : sharer;
}

/* The parts of a rank are the fewest sums of the tree, as mr__optim_sums_add leaves them. */
mr__optim_nodes_t mr__optim_nodes(mr__optim_step_t *s) {
  int parts = s->loss->parts, size = mr__optim_sharers(s), stage = stage_of_rank(s);
  mr__optim_nodes_t all = {.node =
                               mr_mem_take(&s->g->mem, (size_t)parts * sizeof(mr__optim_node_t))};
  for (int r = 0; r < size && all.node; r++) {
    int at = mr_optim_rank_from(parts, size, r), to = mr_optim_rank_from(parts, size, r + 1);
    for (int place = 0; at < to; place++) {
      int n = parts;
      while (at % n || at + n > to) n /= 2;
      all.node[all.n++] =
          (mr__optim_node_t){at, at + n, mr__pipe_rank(s->loss->ranks, r, stage), place};
      if (place >= all.most) all.most = place + 1;
      at += n;
    }
  }
  return all;
}

/* The sum of parts [from,to) of elements [at,end) of all gradients, which are t: the term of place
   j of a rank is the sum that it has there. */
static mr_var_t *sum_of_nodes(mr__optim_step_t *s, const mr__exchange_t *x,
                              const mr__optim_nodes_t *nodes, int64_t at, int64_t end, mr_dtype_t t,
                              int from, int to) {
  for (int k = 0; k < nodes->n; k++) {
    const mr__optim_node_t *v = &nodes->node[k];
    if (v->from == from && v->to == to) return mr__exchange_term(x, v->place, v->rank, at, end, t);
  }
  int half = (from + to) / 2;
  mr_var_t *left = sum_of_nodes(s, x, nodes, at, end, t, from, half);
  return mr_lax_add(s->g, left, sum_of_nodes(s, x, nodes, at, end, t, half, to));
}

/* Chunk c of this rank's share of the gradients over all parts, f32[elements]: neighbours of one
   dtype are added together.  NULL if the share has none. */
static mr_var_t *sum_of_even_chunk(mr__optim_step_t *s, const mr__exchange_t *x,
                                   const mr__optim_nodes_t *nodes, int c) {
  int64_t at, end;
  mr__exchange_chunk(x, s->loss->ranks->rank, c, &at, &end);
  mr_var_t **sum = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *sum);
  int n = 0, i = 0;
  while (sum && at < end) {
    while (x->at[i + 1] <= at) i++;
    mr_dtype_t t = mr__optim_aval(s, i)->dtype;
    int last = i;
    while (last + 1 < s->n && mr__optim_aval(s, last + 1)->dtype == t) last++;
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
static void sum_of_chunk(mr__optim_step_t *s, const mr__exchange_t *x,
                         const mr__optim_nodes_t *nodes, int c, summed_t *sum) {
  int64_t from, to;
  mr__exchange_chunk(x, s->loss->ranks->rank, c, &from, &to);
  for (int i = s->lo; i < s->hi; i++) {
    int64_t a = from > x->at[i] ? from : x->at[i], b = to < x->at[i + 1] ? to : x->at[i + 1];
    summed_t *own = &sum[i - s->lo];
    if (a < b)
      own->piece[own->n++] =
          sum_of_nodes(s, x, nodes, a, b, mr__optim_aval(s, i)->dtype, 0, s->loss->parts);
  }
}

/* The gradients, over all parts, of the parameters that this rank updates: a chunk is added as soon
   as it has come. */
static void sum_gradients(mr__optim_step_t *s, mr__exchange_t *x, const mr__optim_nodes_t *nodes) {
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
      if (mr__exchange_completes(x, c, i))
        s->grad[i] = mr__exchange_whole(x, i, mr__optim_aval(s, i));
  }
  for (int i = s->lo; s->share && i < s->hi; i++) {
    const mr_aval_t *a = mr__optim_aval(s, i);
    const summed_t *own = &sum[i - s->lo];
    mr_var_t *v = own->n > 1 ? mr_lax_concatenate(s->g, own->n, own->piece, 0)
                  : own->n   ? *own->piece
                             : mr_lax_full(s->g, a, 0); /* without elements */
    s->grad[i] = mr_lax_reshape(s->g, v, a->ndim, a->dim);
  }
}

/* ---- sums that do not wait for the end of the backward pass ---- */

enum { BUCKET = 1 << 18 }; /* elements from which a bucket takes no further parameter */

mr__optim_bucket_t mr__optim_bucket_before(const mr__optim_step_t *s, int to) {
  mr__optim_bucket_t b = {to - 1, to, 0};
  int64_t elems = mr_aval_elems(mr__optim_aval(s, b.from));
  while (s->share[b.owner + 1] < to) b.owner++;
  while (b.from > s->share[b.owner] && elems < BUCKET &&
         mr__optim_aval(s, b.from - 1)->dtype == mr__optim_aval(s, b.from)->dtype)
    elems += mr_aval_elems(mr__optim_aval(s, --b.from));
  return b;
}

mr_var_t *mr__optim_bucket_flat(mr__optim_step_t *s, const mr__optim_bucket_t *b,
                                mr_var_t *const *grad) {
  int n = b->to - b->from;
  mr_var_t **flat = mr_mem_take(&s->g->mem, (size_t)n * sizeof *flat);
  for (int i = 0; flat && i < n; i++)
    flat[i] =
        mr_lax_reshape_to(s->g, grad[b->from + i], mr_aval_elems(mr__optim_aval(s, b->from + i)));
  if (!flat) return NULL;
  return n > 1 ? mr_lax_concatenate(s->g, n, flat, 0) : flat[0];
}

void mr__optim_bucket_split(mr__optim_step_t *s, const mr__optim_bucket_t *b, mr_var_t *flat,
                            mr_var_t **array) {
  int64_t at = 0;
  for (int i = b->from; i < b->to; i++) {
    const mr_aval_t *a = mr__optim_aval(s, i);
    mr_var_t *v = mr_lax_slice(s->g, flat, &at, (int64_t[]){at + mr_aval_elems(a)});
    array[i] = mr_lax_reshape(s->g, v, a->ndim, a->dim);
    at += mr_aval_elems(a);
  }
}

/* A bucket on its way to its owner. */
typedef struct sending {
  const mr__optim_bucket_t *bucket;
  const mr__optim_nodes_t *nodes;
  mr_var_t **own;   /* [nodes->n] this rank's sums; NULL for those of others */
  mr_var_t *newest; /* of them */
  int *turn;
} sending_t;

/* Sends sum k of the tree to the owner, and returns it there.  The operand of a message that the
   owner receives is sent to none: with its own newest sum, it does not receive before its backward
   pass has come as far. */
static mr_var_t *send_node(mr__optim_step_t *s, const sending_t *b, int k) {
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
static mr_var_t *send_tree(mr__optim_step_t *s, const sending_t *b, int from, int to) {
  for (int k = 0; k < b->nodes->n; k++)
    if (b->nodes->node[k].from == from && b->nodes->node[k].to == to) return send_node(s, b, k);
  int half = (from + to) / 2;
  mr_var_t *left = send_tree(s, b, from, half), *right = send_tree(s, b, half, to);
  return b->bucket->owner == s->loss->ranks->rank
             ? mr_lax_optimization_barrier(s->g, mr_lax_add(s->g, left, right))
             : NULL;
}

void mr__optim_exchange_bucket(mr__optim_step_t *s, const mr__optim_bucket_t *b,
                               const mr__optim_nodes_t *nodes, const mr__optim_sums_t *sums,
                               int *turn) {
  int own = s->loss->ranks->rank;
  sending_t way = {.bucket = b, .nodes = nodes, .turn = turn};
  way.own = mr_mem_take(&s->g->mem, (size_t)nodes->n * sizeof *way.own);
  if (!way.own) return;
  for (int k = 0; k < nodes->n; k++) {
    const mr__optim_node_t *v = &nodes->node[k];
    way.own[k] = v->rank == own ? mr__optim_bucket_flat(s, b, sums->of[v->place]) : NULL;
    if (v->rank == own) way.newest = way.own[k];
  }
  mr_var_t *sum = send_tree(s, &way, 0, s->loss->parts);
  if (b->owner != own) return;
  mr__optim_bucket_split(s, b, sum, s->grad);
}

/* The gradients of the parameters that this rank updates, each as soon as the backward pass of the
   last part has made it: buckets go from the last parameters to the first, as the pass does. */
static mr_err_t exchange_early(mr__optim_step_t *s, const mr__optim_nodes_t *nodes,
                               const mr__optim_sums_t *sums) {
  int turn = 0;
  for (int to = s->n; to > 0;) {
    mr__optim_bucket_t b = mr__optim_bucket_before(s, to);
    mr__optim_exchange_bucket(s, &b, nodes, sums, &turn);
    to = b.from;
  }
  return mr__exchange_early(s->g, s->computed);
}

/* The most records, or with records false parts, that a rank, or a pipeline, has. */
static int64_t most_of_ranks(const mr__optim_step_t *s, bool records) {
  int64_t most = 0;
  int parts = s->loss->parts, size = mr__optim_sharers(s), split = 0;
  while (records && !s->loss->split[split]) split++;
  for (int r = 0; r < size; r++) {
    int from = mr_optim_rank_from(parts, size, r), to = mr_optim_rank_from(parts, size, r + 1);
    int64_t n = records ? mr__optim_rows(s->loss, split, from, to) : to - from;
    if (n > most) most = n;
  }
  return most;
}

int64_t mr__optim_posted_size(const mr__optim_step_t *s, const mr_aval_t *a) {
  return a->ndim ? most_of_ranks(s, true) * (mr_aval_elems(a) / a->dim[0])
                 : most_of_ranks(s, false);
}

int mr__optim_post_output(mr__optim_step_t *s, mr__exchange_t *x, mr_var_t **all, int i) {
  int n = s->to - s->from;
  const mr_aval_t *a = &all[i]->aval;
  if (a->ndim) return mr__exchange_post(x, mr__optim_join(s, all, i), mr__optim_posted_size(s, a));
  mr_var_t **each = mr_mem_take(&s->g->mem, (size_t)n * sizeof *each);
  for (int k = 0; each && k < n; k++)
    each[k] = mr_lax_reshape_to(s->g, mr__optim_weighted(s, s->from + k, all[k * s->n_out + i]), 1);
  mr_var_t *v = each && n > 1 ? mr_lax_concatenate(s->g, n, each, 0) : each ? each[0] : NULL;
  return mr__exchange_post(x, v, mr__optim_posted_size(s, a));
}

mr_var_t *mr__optim_posted_output(mr__optim_step_t *s, const mr__exchange_t *x, int posted,
                                  mr_aval_t a) {
  int parts = s->loss->parts, size = mr__optim_sharers(s), n = 0, split = 0;
  mr_var_t **v = mr_mem_take(&s->g->mem, (size_t)parts * sizeof *v);
  while (a.ndim && !s->loss->split[split]) split++;
  for (int r = 0; v && r < size; r++) {
    int from = mr_optim_rank_from(parts, size, r), to = mr_optim_rank_from(parts, size, r + 1);
    int rank = mr__optim_rank_with_outputs(s, r);
    for (int k = from; !a.ndim && k < to; k++)
      v[n++] = mr__exchange_posted(x, posted, rank, k - from, &a);
    if (!a.ndim) continue;
    a.dim[0] = mr__optim_rows(s->loss, split, from, to);
    v[n++] = mr__exchange_posted(x, posted, rank, 0, &a);
  }
  if (a.ndim) return mr_lax_concatenate(s->g, n, v, 0);
  int mine = s->from;
  s->from = 0; /* all parts are added */
  mr_var_t *sum = mr__optim_sum_of_scalars(s, n, v);
  s->from = mine;
  return sum;
}

/* The largest of what ranks have met. */
static mr_var_t *posted_amax(mr__optim_step_t *s, const mr__exchange_t *x, int posted) {
  mr_aval_t a = s->amax->aval;
  mr_var_t *most = mr__exchange_posted(x, posted, 0, 0, &a);
  for (int r = 1; r < s->loss->ranks->size; r++)
    most = mr_lax_max(s->g, most, mr__exchange_posted(x, posted, r, 0, &a));
  return most;
}

/* The terms of the gradients that this rank has: of each place a sum, or NULL. */
static mr_var_t ***terms_of_rank(mr__optim_step_t *s, const mr__optim_sums_t *sums,
                                 const mr__optim_nodes_t *nodes) {
  mr_var_t ***term = mr_mem_take(&s->g->mem, (size_t)(nodes->most + 1) * sizeof *term);
  for (int j = 0; term && j < sums->n; j++) term[j] = sums->of[j];
  return term;
}

mr_err_t mr__optim_exchange(mr__optim_step_t *s, mr_var_t **all, const mr__optim_sums_t *sums) {
  mr_mem_t *mem = &s->g->mem;
  mr__optim_nodes_t nodes = mr__optim_nodes(s);
  int *posted = mr_mem_take(mem, (size_t)(s->n_out + 1) * sizeof *posted);
  int64_t *size = mr_mem_take(mem, (size_t)(s->n + 1) * sizeof *size);
  mr_var_t ***term = terms_of_rank(s, sums, &nodes);
  bool early = s->loss->ranks->zero == 2, sent = s->grad != NULL;
  if (!sent) s->grad = mr_mem_take(mem, (size_t)s->n * sizeof(mr_var_t *));
  if (mem->failed || s->g->diag.code < 0) return s->g->diag.code;
  for (int i = 0; i < s->n; i++) size[i] = mr_aval_elems(mr__optim_aval(s, i));
  mr__exchange_t *x = mr_mem_take(mem, sizeof *x);
  if (mem->failed) return s->g->diag.code;
  *x = mr__exchange_start(s->g, s->loss->ranks, s->n, size, s->share, s->n_out + 1);
  if (mem->failed) return s->g->diag.code;
  const char *outer = mr_scope_enter(s->g, "exchange");
  if (early) MR_TRY(exchange_early(s, &nodes, sums));
  const char *exchange = mr_scope_enter(s->g, "posted");
  for (int i = 0; i < s->n_out; i++) posted[i] = all[i] ? mr__optim_post_output(s, x, all, i) : -1;
  mr_scope_leave(s->g, exchange);
  int amax = s->n_fp8 ? mr__exchange_post(x, s->amax, mr_aval_elems(&s->amax->aval)) : 0;
  mr__exchange_publish(x);
  MR_TRY(s->g->diag.code);
  for (int i = 0; i < s->n_out; i++)
    s->out[i] = posted[i] < 0 ? NULL : mr__optim_posted_output(s, x, posted[i], all[i]->aval);
  if (s->n_fp8) s->amax = posted_amax(s, x, amax);
  if (!early && !sent) mr__exchange_terms(x, nodes.most, term);
  if (!early && !sent) sum_gradients(s, x, &nodes);
  s->exchange = x;
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

/* ---- shares of the update ---- */

enum { MOST_TURN = 2 }; /* behind the sums of squares, which have 0 and 1 */

/* A rank without parameters has a constant here, others what they compute: the turn keeps the call
   of each from being dropped or merged, as that of any graph that differs from the others'. */
mr_var_t *mr__optim_most(mr__optim_step_t *s, mr_var_t *most) {
  const mr_optim_ranks_t *ranks = s->loss->ranks;
  const mr_aval_t one = mr_aval_of(MR_F32, 1);
  most = most ? mr_lax_reshape_to(s->g, most, 1) : mr_lax_full(s->g, &one, 0);
  mr_var_t *all = mr_lax_all_gather(s->g, most, ranks->axis, ranks->size);
  if (all) mr_attr_set(s->g, all->def, mr_attr_int(MR_TURN, MOST_TURN));
  return mr_lax_reduce_max(s->g, all, 2, (int[]){0, 1});
}

bool mr__optim_is_frozen(const mr__optim_step_t *s, int i) {
  return s->loss->each && s->loss->each[i].frozen;
}

mr_var_t *mr__optim_squares(mr__optim_step_t *s, bool pair) {
  mr_fn_t *g = s->g;
  if (!s->share) {
    mr_var_t **moving = mr_mem_take(&g->mem, (size_t)s->n * sizeof *moving);
    int n_moving = 0;
    for (int i = 0; moving && i < s->n; i++)
      if (!mr__optim_is_frozen(s, i)) moving[n_moving++] = s->grad[i];
    if (!moving) return NULL;
    return pair ? mr_lax_sum_squares_pair(g, n_moving, moving)
                : mr_lax_sum_squares(g, n_moving, moving);
  }
  mr_var_t **own = mr_mem_take(&g->mem, (size_t)(s->n + 1) * sizeof *own);
  for (int i = s->lo; own && i < s->hi; i++)
    own[i - s->lo] = mr__optim_is_frozen(s, i) ? mr_literal(g, MR_F64, 0)
                                               : mr_lax_sum_squares_wide(g, s->grad[i]);
  mr_var_t *sum = own ? mr__exchange_sum_each(g, s->loss->ranks, s->share, own, 0) : NULL;
  if (!pair) return mr_lax_convert(g, sum, MR_F32);
  mr_var_t *small = mr_lax_scale(g, ldexp(1, -2 * MR_SQUARES_SHIFT), sum);
  mr_var_t *both[] = {mr_lax_reshape_to(g, mr_lax_convert(g, sum, MR_F32), 1),
                      mr_lax_reshape_to(g, mr_lax_convert(g, small, MR_F32), 1)};
  return mr_lax_concatenate(g, 2, both, 0);
}

void mr__optim_take_updates(mr__optim_step_t *s, mr_var_t **next) {
  mr__exchange_t *x = s->exchange;
  const char *outer = mr_scope_enter(s->g, "exchange");
  for (int c = 0; c < x->n_chunks; c++) {
    mr__exchange_gather(x, c, mr__exchange_own(x, c, next), s->lo, s->hi);
    for (int i = 0; i < s->n; i++)
      if ((i < s->lo || i >= s->hi) && mr__exchange_completes(x, c, i))
        next[i] = mr__exchange_whole(x, i, mr__optim_aval(s, i));
  }
  mr_scope_leave(s->g, outer);
}
