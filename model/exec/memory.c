/* The planner.  It finds the lifetime of each value, decides which values share a block (reshapes,
   ops that write over an operand, outputs in place), and then assigns offsets: the largest block
   first, each at the lowest offset that is free during its lifetime. */
#include "model/exec/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"

typedef struct planner {
  mr_memory_plan_t *p;
  const mr_fn_t *f;
  int *root;   /* by var id: the var whose bytes it shares, through reshapes */
  int *last;   /* by root id: the last equation that reads it; n_eqn for outputs */
  int *output; /* by root id: the number of the output it becomes, or -1 */
  int *keeper; /* by equation: the first that keeps the same of the same operand */
  int *reader; /* by equation that is a keeper: the last of them */
  int in_place;
  bool apart;
} planner_t;

/* The output that input i becomes in place, or -1. */
static int output_of(const planner_t *s, int i) {
  int k = i - (s->f->n_in - s->in_place);
  return k < 0 ? -1 : s->f->n_out - s->in_place + k;
}

static bool becomes_output(const planner_t *s, int output) {
  return output >= s->f->n_out - s->in_place;
}

static bool is_alias(const mr_eqn_t *e) { return e->op->kind == MR_OP_ALIAS; }

static void find_lifetimes(planner_t *s) {
  const mr_fn_t *f = s->f;
  for (int i = 0; i < f->n_var; i++) {
    s->root[i] = i;
    s->last[i] = s->output[i] = -1;
  }
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    for (int k = 0; k < e->n_in; k++) s->last[s->root[e->in[k]->id]] = i;
    if (is_alias(e)) s->root[e->out[0]->id] = s->root[e->in[0]->id];
  }
  for (int i = f->n_out - 1; i >= 0; i--) {
    int r = s->root[f->out[i]->id];
    s->last[r] = f->n_eqn;
    s->output[r] = i;
  }
}

static int add_block(planner_t *s, mr_block_t b) {
  assert(s->p->n_block <= s->f->n_var + 2 * s->f->n_eqn && b.first <= b.last + 1);
  s->p->block[s->p->n_block] = b;
  return s->p->n_block++;
}

static bool keep_the_same(const planner_t *s, const mr_call_t *x, const mr_call_t *y) {
  const mr_call_kept_t *a = &x->kept, *b = &y->kept;
  return s->root[x->eqn->in[a->operand]->id] == s->root[y->eqn->in[b->operand]->id] &&
         a->bytes == b->bytes && a->form_bytes == b->form_bytes &&
         !memcmp(a->form, b->form, a->form_bytes);
}

/* newest: by root id, the last keeper of the operand so far, or -1; before: by equation, the keeper
   before it. */
static void find_keepers(planner_t *s, const mr_call_t *call, int *newest, int *before) {
  for (int i = 0; i < s->f->n_var; i++) newest[i] = -1;
  for (int i = 0; i < s->f->n_eqn; i++) {
    s->keeper[i] = -1;
    if (!call[i].kept.bytes) continue;
    int *at = &newest[s->root[call[i].eqn->in[call[i].kept.operand]->id]], k = *at;
    while (k >= 0 && !keep_the_same(s, &call[k], &call[i])) k = before[k];
    if (k < 0) before[i] = *at, *at = k = i;
    s->keeper[i] = k;
    s->reader[k] = i;
  }
}

static void place_kept_operand(planner_t *s, int i, const mr_call_t *call) {
  int k = s->keeper[i];
  if (k < 0 || s->reader[k] == k) return;
  s->p->of_kept[i] =
      k < i
          ? s->p->of_kept[k]
          : add_block(s, (mr_block_t){.bytes = call->kept.bytes, .first = i, .last = s->reader[i]});
}

static void place_input(planner_t *s, const mr_var_t *v, int index, bool donated) {
  s->p->of_var[v->id] = add_block(s, (mr_block_t){.place = MR_BLOCK_IN,
                                                  .index = index,
                                                  .bytes = mr_aval_bytes(&v->aval),
                                                  .first = -1,
                                                  .last = s->last[v->id],
                                                  .pinned = !donated});
}

static size_t memory_round(const mr_memory_plan_t *p, size_t n) {
  assert(p->align && !(p->align & (p->align - 1)));
  return (n + p->align - 1) & ~(p->align - 1);
}

static void place_literal(planner_t *s, const mr_var_t *v) {
  if (!v->literal || s->p->of_var[v->id] >= 0) return;
  mr_block_t b = {.place = s->apart ? MR_BLOCK_CONST : MR_BLOCK_ARENA,
                  .bytes = mr_aval_bytes(&v->aval),
                  .first = -1,
                  .last = s->f->n_eqn + 1,
                  .pinned = true};
  if (s->apart) {
    b.offset = s->p->constants;
    s->p->constants += memory_round(s->p, b.bytes);
  }
  s->p->of_var[v->id] = add_block(s, b);
}

/* The block of an operand whose last use is e and whose bytes output o may take, or -1.  The input
   that becomes o in place comes before any other operand. */
static int reusable_block(const planner_t *s, const mr_eqn_t *e, int i, int o) {
  int found = -1, output = s->output[e->out[o]->id];
  for (int k = 0; k < e->n_in; k++) {
    bool listed = k < MR_INPLACE_IN && o < MR_INPLACE_OUT;
    if (listed ? !(e->op->reuse.of[o] >> k & 1) : !e->op->reuse.any) continue;
    int b = s->p->of_var[e->in[k]->id];
    assert(b >= 0 && b < s->p->n_block);
    const mr_block_t *block = &s->p->block[b];
    if (block->pinned || block->last != i || block->bytes != mr_aval_bytes(&e->out[o]->aval))
      continue;
    if (e->op->reuse.may && !e->op->reuse.may(e, k, o)) continue;
    int own = block->place == MR_BLOCK_IN ? output_of(s, block->index) : -1;
    if (own >= 0 && own == output) return b;
    if (own < 0 && found < 0) found = b;
  }
  return found;
}

/* The block of the input that becomes output o of e in place, if no equation from i on reads it; or
   -1. */
static int left_behind(const planner_t *s, const mr_eqn_t *e, int i, int o) {
  int output = s->output[e->out[o]->id];
  if (output < 0 || !becomes_output(s, output)) return -1;
  int b = s->p->of_var[s->f->in[s->f->n_in - (s->f->n_out - output)]->id];
  return s->p->block[b].last < i ? b : -1;
}

static void memory_place_output(planner_t *s, const mr_eqn_t *e, int i, int o) {
  int id = e->out[o]->id;
  assert(s->p->of_var[id] < 0); /* each var is made once */
  int last = s->last[id] < i ? i : s->last[id];
  int b = reusable_block(s, e, i, o);
  int own = left_behind(s, e, i, o);
  if (own >= 0) b = own;
  if (b >= 0) {
    s->p->block[b].last = last;
  } else {
    bool out = s->output[id] >= 0 && !becomes_output(s, s->output[id]);
    b = add_block(s, (mr_block_t){.place = out ? MR_BLOCK_OUT : MR_BLOCK_ARENA,
                                  .index = s->output[id],
                                  .bytes = mr_aval_bytes(&e->out[o]->aval),
                                  .first = i,
                                  .last = last});
  }
  s->p->of_var[id] = b;
}

static void place_eqn(planner_t *s, int i, const mr_call_t *call) {
  const mr_eqn_t *e = s->f->eqn[i];
  for (int k = 0; k < e->n_in; k++) place_literal(s, e->in[k]);
  if (is_alias(e)) {
    assert(s->p->of_var[e->in[0]->id] >= 0);
    s->p->of_var[e->out[0]->id] = s->p->of_var[e->in[0]->id];
    return;
  }
  for (int o = 0; o < e->n_out; o++) memory_place_output(s, e, i, o);
  if (call->scratch_bytes)
    s->p->of_scratch[i] =
        add_block(s, (mr_block_t){.bytes = call->scratch_bytes, .first = i, .last = i});
  place_kept_operand(s, i, call);
}

/* ---- offsets: the largest block first, each at the lowest offset free during its lifetime ---- */
static int by_size(const void *a, const void *b, void *blocks) {
  const mr_block_t *x = (const mr_block_t *)blocks + *(const int *)a;
  const mr_block_t *y = (const mr_block_t *)blocks + *(const int *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first - y->first;
}

static int by_first_eqn(const void *a, const void *b, void *blocks) {
  const mr_block_t *x = (const mr_block_t *)blocks + *(const int *)a;
  const mr_block_t *y = (const mr_block_t *)blocks + *(const int *)b;
  return x->first - y->first;
}

typedef struct span {
  size_t begin, end;
  int first, last;
} span_t;

/* The blocks that have their offsets.  There are two ways to those that live during a lifetime, and
   both see the same blocks from the lowest offset on.  If they are few among many, as in a step of
   many parts: blocks lie in the order of their first equations, under a tree whose nodes know the
   last equation of what is placed below, and what is found becomes a heap.  Else a look at all. */
typedef struct placement {
  mr_memory_plan_t *p;
  int n, leaves; /* blocks in the arena; the power of two that holds them */
  int *in_order; /* by first equation */
  int *place_of; /* by block: its number in that order */
  int *latest;   /* node k has 2k and 2k+1 below it; -2: nothing is placed there */
  span_t *heap;
  int n_heap, most;
  span_t *placed; /* the first n_sorted by begin */
  int n_placed, n_sorted;
} placement_t;

enum { FEW = 32 }; /* at most one of this many */

static void sift_down(span_t *heap, int n, int i) {
  span_t moved = heap[i];
  for (int k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && heap[k + 1].begin < heap[k].begin) k++;
    if (heap[k].begin >= moved.begin) break;
    heap[i] = heap[k];
  }
  heap[i] = moved;
}

static span_t arena_span(const mr_memory_plan_t *p, const mr_block_t *b) {
  return (span_t){b->offset, b->offset + memory_round(p, b->bytes), b->first, b->last};
}

/* Gathers what is placed below a node, lies before `until` in the order, and lives at `since`, up
   to s->most blocks. */
static void gather_living(placement_t *s, int node, int begin, int width, int until, int since) {
  if (begin >= until || s->latest[node] < since || s->n_heap > s->most) return;
  if (width > 1) {
    gather_living(s, 2 * node, begin, width / 2, until, since);
    gather_living(s, 2 * node + 1, begin + width / 2, width / 2, until, since);
  } else {
    s->heap[s->n_heap++] = arena_span(s->p, &s->p->block[s->in_order[begin]]);
  }
}

/* How many blocks begin at an equation or before it. */
static int begun_by(const placement_t *s, int eqn) {
  int low = 0, high = s->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (s->p->block[s->in_order[middle]].first <= eqn)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static size_t lowest_gap_of_few(placement_t *s, size_t want) {
  size_t at = 0;
  for (int i = s->n_heap / 2 - 1; i >= 0; i--) sift_down(s->heap, s->n_heap, i);
  while (s->n_heap && s->heap[0].begin < at + want) {
    if (s->heap[0].end > at) at = s->heap[0].end;
    s->heap[0] = s->heap[--s->n_heap];
    sift_down(s->heap, s->n_heap, 0);
  }
  return at;
}

static int by_begin(const void *a, const void *b) {
  const span_t *x = a, *y = b;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

/* What was placed since the last look at all takes its place among them; the heap is free for it.
 */
static void sort_placed(placement_t *s) {
  int tail = s->n_placed - s->n_sorted, i = s->n_sorted - 1, k = tail - 1;
  qsort(s->placed + s->n_sorted, (size_t)tail, sizeof *s->placed, by_begin);
  memcpy(s->heap, s->placed + s->n_sorted, (size_t)tail * sizeof *s->heap);
  for (int at = s->n_placed - 1; k >= 0; at--)
    s->placed[at] = i >= 0 && s->placed[i].begin > s->heap[k].begin ? s->placed[i--] : s->heap[k--];
  s->n_sorted = s->n_placed;
}

static size_t lowest_gap(placement_t *s, const mr_block_t *b) {
  size_t at = 0, want = memory_round(s->p, b->bytes);
  s->n_heap = 0;
  s->most = s->n_placed / FEW;
  gather_living(s, 1, 0, s->leaves, begun_by(s, b->last), b->first);
  if (s->n_heap <= s->most) return lowest_gap_of_few(s, want);
  sort_placed(s);
  for (int i = 0; i < s->n_placed; i++) {
    const span_t *q = &s->placed[i];
    if (q->last < b->first || q->first > b->last) continue;
    if (q->begin >= at + want) break;
    if (q->end > at) at = q->end;
  }
  return at;
}

static void block_is_placed(placement_t *s, int block) {
  int last = s->p->block[block].last;
  s->placed[s->n_placed++] = arena_span(s->p, &s->p->block[block]);
  for (int k = s->leaves + s->place_of[block]; k && s->latest[k] < last; k /= 2)
    s->latest[k] = last;
}

/* The three arrays have room for all blocks. */
static mr_err_t assign_offsets(mr_memory_plan_t *p, int *order, int *in_order, int *place_of,
                               mr_diag_t *diag) {
  placement_t s = {.p = p, .leaves = 1, .in_order = in_order, .place_of = place_of};
  for (int i = 0; i < p->n_block; i++)
    if (p->block[i].place == MR_BLOCK_ARENA) order[s.n] = in_order[s.n] = i, s.n++;
  while (s.leaves < s.n) s.leaves *= 2;
  s.latest = malloc(2 * (size_t)s.leaves * sizeof *s.latest);
  s.heap = malloc(((size_t)s.n + 1) * sizeof *s.heap);
  s.placed = malloc(((size_t)s.n + 1) * sizeof *s.placed);
  if (!s.latest || !s.heap || !s.placed) {
    free(s.latest), free(s.heap), free(s.placed);
    return mr_no_memory(diag, "the memory plan");
  }
  qsort_r(order, (size_t)s.n, sizeof *order, by_size, p->block);
  qsort_r(in_order, (size_t)s.n, sizeof *in_order, by_first_eqn, p->block);
  for (int i = 0; i < s.n; i++) place_of[in_order[i]] = i;
  for (int k = 0; k < 2 * s.leaves; k++) s.latest[k] = -2;
  for (int i = 0; i < s.n; i++) {
    mr_block_t *b = &p->block[order[i]];
    b->offset = lowest_gap(&s, b);
    block_is_placed(&s, order[i]);
    assert(b->offset % p->align == 0);
    size_t end = b->offset + b->bytes;
    if (end > p->bytes) p->bytes = end;
  }
  free(s.latest), free(s.heap), free(s.placed);
  return MR_OK;
}

static void plan_all(planner_t *s, const bool *donate, const mr_call_t *call, int *newest,
                     int *before) {
  const mr_fn_t *f = s->f;
  for (int i = 0; i < f->n_var; i++) s->p->of_var[i] = -1;
  for (int i = 0; i < f->n_eqn; i++) s->p->of_scratch[i] = s->p->of_kept[i] = -1;
  find_lifetimes(s);
  find_keepers(s, call, newest, before);
  for (int i = 0; i < f->n_in; i++)
    place_input(s, f->in[i], i, (donate && donate[i]) || output_of(s, i) >= 0);
  for (int i = 0; i < f->n_eqn; i++) place_eqn(s, i, &call[i]);
  for (int i = 0; i < f->n_out; i++) place_literal(s, f->out[i]);
}

/* Checks counts and avals.  An output in place must not be another input in place: that input may
   be overwritten before it is copied. */
static mr_err_t check_in_place(const mr_fn_t *f, int n, mr_diag_t *diag) {
  char a[MR_AVAL_TEXT], b[MR_AVAL_TEXT];
  if (n < 0 || n > f->n_in || n > f->n_out)
    return mr_fail(diag, MR_ERR_SHAPE, "in_place: %d of %d inputs and %d outputs", n, f->n_in,
                   f->n_out);
  for (int k = 1; k <= n; k++) {
    const mr_var_t *in = f->in[f->n_in - k], *out = f->out[f->n_out - k];
    if (!mr_aval_equal(&in->aval, &out->aval))
      return mr_fail(diag, MR_ERR_SHAPE, "in_place: input %d is %s, output %d is %s", f->n_in - k,
                     mr_aval_text(&in->aval, a), f->n_out - k, mr_aval_text(&out->aval, b));
    for (int i = 1; out != in && i <= n; i++)
      if (out == f->in[f->n_in - i])
        return mr_fail(diag, MR_ERR_SHAPE, "in_place: output %d is input %d as it came",
                       f->n_out - k, f->n_in - i);
  }
  return MR_OK;
}

mr_err_t mr_memory_plan_init(mr_memory_plan_t *p, const mr_fn_t *f, const bool *donate,
                             int in_place, const mr_call_t *call, size_t align, bool apart,
                             mr_diag_t *diag) {
  MR_TRY(check_in_place(f, in_place, diag));
  size_t n = (size_t)(f->n_var + 2 * f->n_eqn) + 1;
  *p = (mr_memory_plan_t){.block = calloc(n, sizeof *p->block),
                          .of_var = calloc(n, sizeof(int)),
                          .of_scratch = calloc(n, sizeof(int)),
                          .of_kept = calloc(n, sizeof(int)),
                          .align = align};
  int *work = calloc(7 * n, sizeof *work);
  if (!p->block || !p->of_var || !p->of_scratch || !p->of_kept || !work) {
    free(work);
    mr_memory_plan_fini(p);
    return mr_no_memory(diag, "the memory plan");
  }
  planner_t s = {.p = p,
                 .f = f,
                 .root = work,
                 .last = work + n,
                 .output = work + 2 * n,
                 .keeper = work + 3 * n,
                 .reader = work + 4 * n,
                 .in_place = in_place,
                 .apart = apart};
  plan_all(&s, donate, call, work + 5 * n, work + 6 * n);
  mr_err_t err = assign_offsets(p, work + 2 * n, work + 5 * n, work + 6 * n, diag);
  free(work);
  if (err < 0) mr_memory_plan_fini(p);
  return err;
}

void mr_memory_plan_fini(mr_memory_plan_t *p) {
  free(p->block);
  free(p->of_var);
  free(p->of_scratch);
  free(p->of_kept);
  *p = (mr_memory_plan_t){0};
}
