/* The parts of a rank that has values of its share of the parameters alone.  They come in the
   buckets in which gradients leave: before the first equation of a part's forward pass that reads
   one, its owner sends it to all ranks that compute such a part, and once more in the backward
   pass, so that no rank keeps it in between; what the backward pass reads of it alone, such as its
   conversion, is computed again.  Each part is traced by itself and its equations are copied with
   the messages between them.

   Ranks compute different parts, some one more than others, but all have the messages in one order:
   that of the first part, which every rank traces.  The last parts of all ranks run together; where
   a rank has none yet, it sends what it owns and does nothing else.  Within the last parts the
   gradients of a bucket leave as soon as the first part's trace has made them.

   On a mesh that cuts arrays all ranks have one graph, and a piece of each value: there the same
   passes put a value where the loss reads it, without messages of their own (mr_lax_shard). */
#include <stdlib.h>

#include "model/control/control.h"
#include "model/optim/step_private.h"
#include "model/transforms/transforms.h"

/* A part that is traced into a graph of its own, whose inputs are those of a step with all
   values. */
typedef struct traced {
  mr__optim_step_t s;
  mr_var_t **out, **grad; /* [n_out], NULL for an output that is none; [n] */
  bool *of_values; /* heap, [n_var]: of the forward pass, computed from parameters without data */
} traced_t;

/* A message of a pass: values of a bucket that come, or gradients of it that leave. */
typedef struct message {
  int bucket;
  bool leaves;
} message_t;

typedef struct gathered {
  mr__optim_step_t *s;
  bool placed;                /* values are put where s->loss->reads says: no message is sent */
  mr__optim_bucket_t *bucket; /* [n], from the last parameters to the first */
  int n, *of;                 /* of[s->n]: the bucket of a parameter */
  message_t *message[2];      /* [n_messages] of the forward and the backward pass */
  int n_messages[2];
  int most, turn; /* the most parts of a rank; of the next message */
  mr__optim_nodes_t nodes;
  mr__optim_sums_t sums, before; /* before: those that wait for the last part */
} gathered_t;

/* A pass of one of the rank's parts on its way into the graph of the step. */
typedef struct walk {
  gathered_t *g;
  const traced_t *part; /* NULL: the rank has no part there */
  int at, pass, slot;   /* the next message; 0 forward, 1 backward; of g->most */
  bool *have;           /* [g->n] buckets whose values have come in this pass */
  mr_var_t **value;     /* [s->n] */
  int *to;              /* [ranks] those that a message goes to */
  mr_var_t **map;       /* [n_var] of the part's graph */
} walk_t;

/* ---- a part by itself ---- */

static void traced_fini(traced_t *t) {
  mr_fn_destroy(t->s.g);
  free(t->of_values);
  *t = (traced_t){.out = NULL};
}

/* Marks what the forward pass computes of parameters, without data: each operand is such a value or
   an input that is there anyway. */
static void mark_of_values(traced_t *t) {
  const mr__optim_step_t *s = &t->s;
  const mr_fn_t *f = s->g;
  bool *marked = t->of_values;
  for (int i = 0; i < s->n; i++) marked[s->p[i]->id] = true;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    bool some = false, all = e->n_out > 0 && e->out[0]->id < s->forward;
    for (int k = 0; k < e->n_in; k++) {
      const mr_var_t *v = e->in[k];
      bool held = v->literal;
      for (int j = s->loss->n_data; j < f->n_in; j++) held |= f->in[j] == v;
      some |= marked[v->id], all &= marked[v->id] || held;
    }
    for (int k = 0; k < e->n_out; k++) marked[e->out[k]->id] = some && all;
  }
}

/* The caller ends *t, also after a failure, which is in s->g. */
static mr_err_t trace_part(mr__optim_step_t *s, int k, traced_t *t) {
  *t = (traced_t){.s = *s};
  t->s.g = mr_fn_create();
  if (!t->s.g) return mr_no_memory(&s->g->diag, "the graph of a part");
  mr__optim_step_t *own = &t->s;
  own->lo = own->hi = own->p_lo = 0, own->p_hi = s->n, own->amax = NULL;
  t->out = mr_mem_take(&own->g->mem, (size_t)(2 * s->n_out + s->n + 1) * sizeof *t->out);
  t->grad = mr_mem_take(&own->g->mem, (size_t)(s->n + 1) * sizeof *t->grad);
  mr__optim_inputs(own);
  mr_err_t e = own->g->diag.code;
  if (e >= 0) e = mr__optim_run_part(own, k, t->out, t->grad);
  if (e >= 0) {
    mr_var_t **all = t->out + s->n_out;
    int n = 0;
    for (int i = 0; i < s->n_out; i++)
      if (t->out[i]) all[n++] = t->out[i];
    for (int i = 0; i < s->n; i++) all[n++] = t->grad[i];
    if (own->amax) all[n++] = own->amax;
    e = mr_fn_return(own->g, n, all);
  }
  if (e >= 0) mr_dce(own->g);
  if (e >= 0 && !(t->of_values = calloc((size_t)own->g->n_var + 1, sizeof *t->of_values)))
    return mr_no_memory(&s->g->diag, "the values of a part");
  if (e >= 0) mark_of_values(t);
  return e < 0 ? mr_diag_relay(&s->g->diag, e, &own->g->diag) : MR_OK;
}

/* ---- the order of messages ---- */

/* Each value comes by itself. */
static mr_err_t take_each(gathered_t *g) {
  g->n = g->s->n, g->most = g->s->to - g->s->from;
  g->of = mr_mem_take(&g->s->g->mem, (size_t)(g->n + 1) * sizeof *g->of);
  for (int i = 0; g->of && i < g->n; i++) g->of[i] = i;
  return g->s->g->diag.code;
}

static mr_err_t take_buckets(gathered_t *g) {
  mr__optim_step_t *s = g->s;
  if (g->placed) return take_each(g);
  g->bucket = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *g->bucket);
  g->of = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *g->of);
  for (int pass = 0; pass < 2; pass++)
    g->message[pass] = mr_mem_take(&s->g->mem, (size_t)(2 * s->n + 1) * sizeof(message_t));
  if (s->g->mem.failed) return s->g->diag.code;
  for (int to = s->n; to > 0; to = g->bucket[g->n++].from) {
    g->bucket[g->n] = mr__optim_bucket_before(s, to);
    for (int i = g->bucket[g->n].from; i < to; i++) g->of[i] = g->n;
  }
  for (int r = 0; r < s->loss->ranks->size; r++) {
    int n = mr_optim_rank_from(s->loss->parts, s->loss->ranks->size, r + 1) -
            mr_optim_rank_from(s->loss->parts, s->loss->ranks->size, r);
    if (n > g->most) g->most = n;
  }
  return MR_OK;
}

/* The order of the messages of a pass, as the equations of one part ask for them. */
typedef struct order {
  gathered_t *g;
  const traced_t *part;
  bool *asked;           /* [g->n] */
  const mr_eqn_t **made; /* [n_var] by var: its equation, if it computes of values alone */
  int *left, *leaves;    /* [g->n] gradients that are not there yet; [n_var] parameter + 1 */
} order_t;

static void add_message(gathered_t *g, int pass, int bucket, bool leaves) {
  g->message[pass][g->n_messages[pass]++] = (message_t){bucket, leaves};
}

/* v is read in a pass; in the backward pass also what it is computed of. */
static void ask_for(order_t *o, int pass, const mr_var_t *v) {
  const mr__optim_step_t *s = &o->part->s;
  if (v->literal || !o->part->of_values[v->id]) return;
  const mr_eqn_t *e = o->made[v->id];
  for (int k = 0; pass && e && k < e->n_in; k++) ask_for(o, pass, e->in[k]);
  for (int i = 0; !e && i < s->n; i++) {
    int b = o->g->of[i];
    if (s->p[i] != v || o->asked[b]) continue;
    o->asked[b] = true;
    add_message(o->g, pass, b, false);
  }
}

/* Gradients of a bucket leave behind the equation that gives the last of them. */
static void note_gradient(order_t *o, const mr_var_t *v) {
  for (int i = 0; i < o->part->s.n; i++)
    if (o->part->grad[i] == v && !--o->left[o->g->of[i]]) add_message(o->g, 1, o->g->of[i], true);
}

static void order_pass(order_t *o, int pass) {
  const mr_fn_t *f = o->part->s.g;
  for (int b = 0; b < o->g->n; b++) o->asked[b] = false;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if ((e->out[0]->id >= o->part->s.forward) != pass) continue;
    for (int k = 0; k < e->n_in; k++) ask_for(o, pass, e->in[k]);
    if (pass)
      for (int k = 0; k < e->n_out; k++) note_gradient(o, e->out[k]);
    else
      for (int k = 0; k < e->n_out; k++) o->made[e->out[k]->id] = e;
  }
}

/* The order of the first part, which is that of all. */
static mr_err_t order_messages(gathered_t *g) {
  mr__optim_step_t *s = g->s;
  traced_t part;
  mr_err_t e = trace_part(s, 0, &part);
  size_t n = e >= 0 ? (size_t)part.s.g->n_var + 1 : 1;
  order_t o = {.g = g,
               .part = &part,
               .asked = mr_mem_take(&s->g->mem, (size_t)(g->n + 1) * sizeof *o.asked),
               .made = mr_mem_take(&s->g->mem, n * sizeof *o.made),
               .left = mr_mem_take(&s->g->mem, (size_t)(g->n + 1) * sizeof *o.left)};
  if (e >= 0 && s->g->mem.failed) e = s->g->diag.code;
  for (int b = 0; e >= 0 && b < g->n; b++) o.left[b] = g->bucket[b].to - g->bucket[b].from;
  if (e >= 0) order_pass(&o, 0);
  for (int i = 0; e >= 0 && i < s->n; i++) /* those that no equation of the backward pass gives */
    if ((!part.grad[i]->def || part.grad[i]->id < part.s.forward) && !--o.left[g->of[i]])
      add_message(g, 1, g->of[i], true);
  if (e >= 0) order_pass(&o, 1);
  traced_fini(&part);
  return e;
}

/* ---- messages ---- */

static mr_err_t have_of_values(walk_t *w, const mr_var_t *v);

/* Whether a rank computes a part in a slot: the last parts of all run together. */
static bool computes_in_slot(const gathered_t *g, int rank, int slot) {
  int parts = g->s->loss->parts, size = g->s->loss->ranks->size;
  return mr_optim_rank_from(parts, size, rank + 1) - mr_optim_rank_from(parts, size, rank) >=
         g->most - slot;
}

/* Zeros that no other equation gives, so that none of them is kept. */
static mr_var_t *nothing_of(mr__optim_step_t *s, const mr__optim_bucket_t *b) {
  int64_t n = 0;
  for (int i = b->from; i < b->to; i++) n += mr_aval_elems(mr__optim_aval(s, i));
  mr_var_t *zero = mr_literal(s->g, mr__optim_aval(s, b->from)->dtype, 0);
  zero = mr_lax_optimization_barrier(s->g, zero);
  return mr_lax_broadcast_in_dim(s->g, zero, 1, &n, NULL);
}

/* The owner's values of a bucket, one behind the other; for this message alone, as a pass would
   keep what two of them have in common from one to the other. */
static mr_var_t *own_values(mr__optim_step_t *s, const mr__optim_bucket_t *b, mr_var_t **value) {
  for (int i = b->from; i < b->to; i++) value[i] = mr_lax_optimization_barrier(s->g, s->p[i]);
  return mr__optim_bucket_flat(s, b, value);
}

void mr__optim_send_values(mr__optim_step_t *s, const mr__optim_bucket_t *b, int n, const int *to,
                           int *turn, mr_var_t **value) {
  const mr_optim_ranks_t *ranks = s->loss->ranks;
  bool mine = b->owner == ranks->rank;
  mr_var_t *flat = NULL;
  const char *outer = mr_scope_enter(s->g, MR_OPTIM_GATHERED);
  for (int k = 0; k < n; k++) {
    const int way[1][2] = {{b->owner, to[k]}};
    int own = (*turn)++;
    if (to[k] == b->owner || (!mine && to[k] != ranks->rank)) continue;
    if (mine && !flat) flat = own_values(s, b, value);
    mr_var_t *come =
        mr_lax_ppermute_in_turn(s->g, mine ? flat : nothing_of(s, b), ranks->axis, 1, way, own);
    if (!mine && come) mr__optim_bucket_split(s, b, come, value);
  }
  mr_scope_leave(s->g, outer);
  for (int i = b->from; mine && i < b->to; i++) value[i] = s->p[i];
}

/* The owner sends a bucket's values to each rank that computes a part in this slot. */
static void send_values(walk_t *w, const mr__optim_bucket_t *b) {
  int n = 0;
  for (int r = 0; r < w->g->s->loss->ranks->size; r++)
    if (computes_in_slot(w->g, r, w->slot)) w->to[n++] = r;
  mr__optim_send_values(w->g->s, b, n, w->to, &w->g->turn, w->value);
}

/* The gradients of a bucket, of this rank's last part and of those before it, leave. */
static mr_err_t send_gradients(walk_t *w, const mr__optim_bucket_t *b) {
  gathered_t *g = w->g;
  mr__optim_step_t *s = g->s;
  mr_var_t **sum = g->sums.of[g->sums.n - 1];
  for (int i = b->from; i < b->to; i++) {
    MR_TRY(have_of_values(w, w->part->grad[i]));
    sum[i] = mr__mapped(s->g, w->map, w->part->grad[i]);
    if (!sum[i])
      return mr_fail(&s->g->diag, MR_ERR_SHAPE,
                     "zero=3: part %d of the loss gives the gradients of parameters in another "
                     "order than the first: want parts of one form, or zero=2",
                     s->to - 1);
    for (int k = g->before.n - 1; k >= g->sums.n - 1; k--)
      sum[i] = mr_lax_add(s->g, g->before.of[k][i], sum[i]);
  }
  const char *outer = mr_scope_enter(s->g, "exchange");
  mr__optim_exchange_bucket(s, b, &g->nodes, &g->sums, &g->turn);
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

/* Gives the graph the next message of the pass. */
static mr_err_t give_message(walk_t *w) {
  const message_t *m = &w->g->message[w->pass][w->at++];
  const mr__optim_bucket_t *b = &w->g->bucket[m->bucket];
  if (m->leaves) return w->slot + 1 == w->g->most ? send_gradients(w, b) : MR_OK;
  send_values(w, b);
  w->have[m->bucket] = true;
  return w->g->s->g->diag.code;
}

/* ---- the passes of a part ---- */

static mr_err_t copy_equation(walk_t *w, const mr_eqn_t *e);

/* The dtype to which all readers of v narrow it, as it is or moved; its own if some read more. */
static mr_dtype_t dtype_read(const mr_fn_t *f, const mr_var_t *v) {
  const mr_dtype_t own = v->aval.dtype;
  mr_dtype_t found = MR_DTYPE_COUNT;
  for (int i = 0; i < f->n_out; i++)
    if (f->out[i] == v) return own;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    bool reads = false;
    for (int k = 0; k < e->n_in; k++) reads |= e->in[k] == v;
    if (!reads) continue;
    const mr_dtype_t made = e->out[0]->aval.dtype;
    bool narrows = e->op == &mr_op_convert_element_type && mr_dtype_size(made) < mr_dtype_size(own);
    bool moves = e->op->cost.moves && e->n_out == 1 && made == own;
    mr_dtype_t read = narrows ? made : moves ? dtype_read(f, e->out[0]) : own;
    if (read == own || (found != MR_DTYPE_COUNT && found != read)) return own;
    found = read;
  }
  return found == MR_DTYPE_COUNT ? own : found;
}

/* Parameter i where the loss reads it, for this pass alone, as a pass of the compiler would keep
   what two have in common.  One that is narrowed comes narrow. */
static mr_var_t *value_where_read(walk_t *w, int i) {
  mr__optim_step_t *s = w->g->s;
  const mr_var_t *own = w->part->s.p[i];
  if (!s->loss->reads[i]) return s->p[i];
  const char *outer = mr_scope_enter(s->g, MR_OPTIM_GATHERED);
  mr_var_t *v = mr_lax_optimization_barrier(s->g, s->p[i]);
  v = mr_lax_convert(s->g, v, dtype_read(w->part->s.g, own));
  v = mr_lax_convert(s->g, mr_lax_shard(s->g, v, s->loss->reads[i]), own->aval.dtype);
  mr_scope_leave(s->g, outer);
  return v;
}

/* Has parameter i's value in the map, behind the messages up to that which brings it. */
static mr_err_t have_value(walk_t *w, int i) {
  const mr__optim_step_t *s = w->g->s;
  if (w->g->placed && !w->have[i]) {
    w->value[i] = value_where_read(w, i);
    w->have[i] = true;
  }
  while (!w->have[w->g->of[i]]) {
    if (w->at == w->g->n_messages[w->pass])
      return mr_fail(&s->g->diag, MR_ERR_SHAPE,
                     "zero=3: a part of the loss reads parameter %d where the first part does not: "
                     "want parts of one form, or zero=2",
                     i);
    MR_TRY(give_message(w));
  }
  w->map[w->part->s.p[i]->id] = w->value[i];
  return MR_OK;
}

/* Has v, a value of parameters alone, in the map. */
static mr_err_t have_of_values(walk_t *w, const mr_var_t *v) {
  if (v->literal || w->map[v->id] || !w->part->of_values[v->id]) return MR_OK;
  if (v->def) return copy_equation(w, v->def);
  int i = 0;
  while (w->part->s.p[i] != v) i++;
  return have_value(w, i);
}

static mr_err_t copy_equation(walk_t *w, const mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++) MR_TRY(have_of_values(w, e->in[k]));
  return mr__copy_eqn(w->g->s->g, e, w->map);
}

/* A pass of the part in this slot; without one, the messages that others need.  In the backward
   pass nothing is left of the values of the forward pass. */
static mr_err_t run_pass(walk_t *w, int pass) {
  w->pass = pass, w->at = 0;
  for (int b = 0; b < w->g->n; b++) w->have[b] = false;
  const traced_t *t = w->part;
  for (int i = 0; t && pass && i < t->s.g->n_var; i++)
    if (t->of_values[i]) w->map[i] = NULL;
  for (int i = 0; t && i < t->s.g->n_eqn; i++)
    if ((t->s.g->eqn[i]->out[0]->id >= t->s.forward) == pass)
      MR_TRY(copy_equation(w, t->s.g->eqn[i]));
  while (w->at < w->g->n_messages[pass]) MR_TRY(give_message(w));
  return w->g->s->g->diag.code;
}

/* The last part of a rank sends its sums while it computes: here is what waits for it. */
static mr_err_t begin_last(gathered_t *g, int k) {
  mr__optim_step_t *s = g->s;
  mr_var_t **grad = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *grad);
  if (!grad) return s->g->diag.code;
  g->before = g->sums;
  g->sums.n -= mr__optim_sums_before(s, k);
  g->sums.of[g->sums.n++] = grad;
  return MR_OK;
}

/* What a part has given beside gradients. */
static mr_err_t take_part_outputs(walk_t *w, mr_var_t **out) {
  mr__optim_step_t *s = w->g->s;
  const traced_t *t = w->part;
  for (int i = 0; i < s->n_out; i++) {
    if (t->out[i]) MR_TRY(have_of_values(w, t->out[i]));
    out[i] = t->out[i] ? mr__mapped(s->g, w->map, t->out[i]) : NULL;
  }
  return MR_OK;
}

static mr_err_t take_gradients(walk_t *w, int k) {
  mr__optim_step_t *s = w->g->s;
  mr_var_t **grad = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *grad);
  if (!grad) return s->g->diag.code;
  for (int i = 0; i < s->n; i++) {
    MR_TRY(have_of_values(w, w->part->grad[i]));
    grad[i] = mr__mapped(s->g, w->map, w->part->grad[i]);
  }
  mr__optim_sums_add(s, &w->g->sums, k, s->n, grad);
  return s->g->diag.code;
}

static mr_err_t take_amax(walk_t *w) {
  mr__optim_step_t *s = w->g->s;
  const char *by = mr__optim_by_fp8(s);
  mr_var_t *met = w->part->s.amax ? mr__mapped(s->g, w->map, w->part->s.amax) : NULL;
  if (met) s->amax = s->amax ? mr_lax_max(s->g, s->amax, met) : met;
  s->g->by = by;
  return s->g->diag.code;
}

/* The inputs of a part's graph, but for the values, are those of the step. */
static mr_err_t begin_walk(walk_t *w) {
  const mr_fn_t *f = w->part->s.g;
  const mr__optim_step_t *s = w->g->s;
  w->map = mr_mem_take(&s->g->mem, ((size_t)f->n_var + 1) * sizeof *w->map);
  for (int i = 0; w->map && i < f->n_in - s->n; i++) w->map[f->in[i]->id] = s->g->in[i];
  return s->g->diag.code;
}

/* A slot of this rank with part k, whose outputs go to out[n_out]; or, below s->from, without. */
static mr_err_t run_slot(gathered_t *g, walk_t *w, int k, mr_var_t **out) {
  traced_t part = {.out = NULL};
  bool own = k >= g->s->from, last = k + 1 == g->s->to && !g->placed;
  mr_err_t e = own ? trace_part(g->s, k, &part) : MR_OK;
  w->part = own ? &part : NULL;
  if (e >= 0 && own) e = begin_walk(w);
  if (e >= 0 && last) e = begin_last(g, k);
  if (e >= 0) e = run_pass(w, 0);
  if (e >= 0 && own) e = take_part_outputs(w, out);
  if (e >= 0) e = run_pass(w, 1);
  if (e >= 0 && own && !last) e = take_gradients(w, k);
  if (e >= 0 && own) e = take_amax(w);
  traced_fini(&part);
  return e;
}

static mr_err_t run_slots(gathered_t *g, mr_var_t **all) {
  mr__optim_step_t *s = g->s;
  walk_t w = {.g = g};
  MR_TRY(take_buckets(g));
  if (!g->placed) MR_TRY(order_messages(g));
  w.have = mr_mem_take(&s->g->mem, (size_t)(g->n + 1) * sizeof *w.have);
  w.value = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *w.value);
  w.to = mr_mem_take(&s->g->mem, g->placed ? 1 : (size_t)s->loss->ranks->size * sizeof *w.to);
  if (s->g->mem.failed) return s->g->diag.code;
  for (w.slot = 0; w.slot < g->most; w.slot++) {
    int k = s->to - g->most + w.slot;
    MR_TRY(run_slot(g, &w, k, all + (k - s->from) * s->n_out));
  }
  return s->g->diag.code;
}

mr_err_t mr__optim_run_gathered(mr__optim_step_t *s, mr_var_t **all) {
  gathered_t g = {.s = s, .nodes = mr__optim_nodes(s)};
  s->grad = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *s->grad);
  return s->g->mem.failed ? s->g->diag.code : run_slots(&g, all);
}

mr_err_t mr__optim_run_placed(mr__optim_step_t *s, mr_var_t **all, mr__optim_sums_t *sums) {
  gathered_t g = {.s = s, .placed = true};
  mr_err_t e = run_slots(&g, all);
  *sums = g.sums;
  return e;
}
