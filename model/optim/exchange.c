/* The exchange as equations: the row that goes to a rank is a concatenation of the parts of arrays
   that lie in the chunk of its share, and of zeros that fill it up to the size of the chunk. */
#include "model/optim/exchange.h"

#include <assert.h>
#include <stdlib.h>

#include "model/control/control.h"
#include "model/ir/op.h"

enum {
  ROWS = 1 << 16, /* elements of all ranks' rows up to which they are one chunk */
  CHUNKS = 8      /* at most */
};

struct mr__piece {
  int64_t at; /* its place in the array */
  mr_var_t *v;
  mr__piece_t *next; /* of the array, in the order of the places */
};

/* Even shares have one size, and one of them after the other is the vector. */
static void exchange_set_shares(mr__exchange_t *x, const int *share) {
  int size = x->ranks->size;
  x->width = (x->at[x->n] + size - 1) / size;
  for (int r = 0; r <= size; r++) {
    int64_t even = r * x->width < x->at[x->n] ? r * x->width : x->at[x->n];
    x->from[r] = share ? x->at[share[r]] : even;
  }
  for (int r = 0; r < size; r++)
    if (x->from[r + 1] - x->from[r] > x->width) x->width = x->from[r + 1] - x->from[r];
  int64_t least = (ROWS + size - 1) / size, most = (x->width + CHUNKS - 1) / CHUNKS;
  x->chunk = least > most ? least : most;
  if (x->chunk > x->width) x->chunk = x->width;
  x->n_chunks = x->chunk ? (int)((x->width + x->chunk - 1) / x->chunk) : 0;
}

mr__exchange_t mr__exchange_start(mr_fn_t *f, const mr_optim_ranks_t *ranks, int n,
                                  const int64_t *size, const int *share, int most) {
  mr__exchange_t x = {.f = f, .ranks = ranks, .n = n, .most_posted = most};
  x.at = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof *x.at);
  x.from = mr_mem_take(&f->mem, (size_t)(ranks->size + 1) * sizeof *x.from);
  x.posted = mr_mem_take(&f->mem, (size_t)(most + 1) * sizeof *x.posted);
  x.posted_at = mr_mem_take(&f->mem, (size_t)(most + 1) * sizeof *x.posted_at);
  x.piece = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof *x.piece);
  if (f->mem.failed) return x;
  x.at[0] = x.posted_at[0] = 0;
  for (int i = 0; i < n; i++) x.at[i + 1] = x.at[i] + size[i], x.piece[i] = NULL;
  exchange_set_shares(&x, share);
  return x;
}

static mr_var_t *exchange_flat(mr_fn_t *f, mr_var_t *v) {
  return v ? mr_lax_reshape_to(f, mr_lax_convert(f, v, MR_F32), mr_aval_elems(&v->aval)) : NULL;
}

static mr_var_t *exchange_zeros(mr_fn_t *f, int64_t n) {
  mr_aval_t flat = mr_aval_of(MR_F32, n);
  return mr_lax_full(f, &flat, 0);
}

static mr_var_t *exchange_join(mr_fn_t *f, int n, mr_var_t **v) {
  return n > 1 ? mr_lax_concatenate(f, n, v, 0) : n ? v[0] : NULL;
}

/* A call of all ranks that has its turn. */
static mr_var_t *in_turn(mr__exchange_t *x, mr_var_t *called) {
  if (called) mr_attr_set(x->f, called->def, mr_attr_int(MR_TURN, x->turn++));
  return called;
}

/* ---- what all are posted ---- */

int mr__exchange_post(mr__exchange_t *x, mr_var_t *v, int64_t size) {
  v = exchange_flat(x->f, v);
  assert(x->n_posted < x->most_posted && (!v || v->aval.dim[0] <= size));
  if (v && v->aval.dim[0] < size)
    v = mr_lax_pad(x->f, v, (int64_t[]){0}, (int64_t[]){size - v->aval.dim[0]});
  x->posted[x->n_posted] = v;
  x->posted_at[x->n_posted + 1] = x->posted_at[x->n_posted] + size;
  return x->n_posted++;
}

int mr__exchange_post_none(mr__exchange_t *x, int64_t size) {
  return mr__exchange_post(x, exchange_zeros(x->f, size), size);
}

void mr__exchange_publish(mr__exchange_t *x) {
  mr_var_t *mine = exchange_join(x->f, x->n_posted, x->posted);
  if (mine) x->all = in_turn(x, mr_lax_all_gather(x->f, mine, x->ranks->axis, x->ranks->size));
}

/* Elements [from,from+n) of row r. */
static mr_var_t *take_of_row(mr_fn_t *f, mr_var_t *rows, int r, int64_t from, int64_t n) {
  mr_var_t *v = mr_lax_slice(f, rows, (int64_t[]){r, from}, (int64_t[]){r + 1, from + n});
  return mr_lax_reshape_to(f, v, n);
}

mr_var_t *mr__exchange_posted(const mr__exchange_t *x, int posted, int rank, int64_t at,
                              const mr_aval_t *aval) {
  if (!x->all) return NULL;
  mr_var_t *v = take_of_row(x->f, x->all, rank, x->posted_at[posted] + at, mr_aval_elems(aval));
  return mr_lax_convert(x->f, mr_lax_reshape(x->f, v, aval->ndim, aval->dim), aval->dtype);
}

/* ---- chunks of shares ---- */

/* The elements of chunk c of the largest share. */
static int64_t chunk_width(const mr__exchange_t *x, int c) {
  int64_t left = x->width - c * x->chunk;
  return left < x->chunk ? left : x->chunk;
}

void mr__exchange_chunk(const mr__exchange_t *x, int rank, int c, int64_t *from, int64_t *to) {
  int64_t end = x->from[rank + 1];
  *from = x->from[rank] + c * x->chunk, *to = *from + x->chunk;
  if (*from > end) *from = end;
  if (*to > end) *to = end;
}

/* Appends elements [from,to) of flat arrays to row[n].  Returns the new n. */
static int append_elements(const mr__exchange_t *x, mr_var_t *const *flat, int64_t from, int64_t to,
                           mr_var_t **row, int n) {
  for (int i = 0; i < x->n; i++) {
    int64_t a = from > x->at[i] ? from : x->at[i], b = to < x->at[i + 1] ? to : x->at[i + 1];
    if (a >= b) continue;
    bool whole = b - a == x->at[i + 1] - x->at[i];
    row[n++] =
        whole ? flat[i]
              : mr_lax_slice(x->f, flat[i], (int64_t[]){a - x->at[i]}, (int64_t[]){b - x->at[i]});
  }
  return n;
}

void mr__exchange_terms(mr__exchange_t *x, int n_terms, mr_var_t **const *term) {
  mr_fn_t *f = x->f;
  x->flat = mr_mem_take(&f->mem, (size_t)(n_terms + 1) * sizeof *x->flat);
  for (int k = 0; k < n_terms && x->flat; k++) {
    x->flat[k] = term[k] ? mr_mem_take(&f->mem, (size_t)(x->n + 1) * sizeof(mr_var_t *)) : NULL;
    for (int i = 0; x->flat[k] && i < x->n; i++) x->flat[k][i] = exchange_flat(f, term[k][i]);
  }
  x->n_terms = n_terms;
}

void mr__exchange_send(mr__exchange_t *x, int c) {
  mr_fn_t *f = x->f;
  int size = x->ranks->size, n = 0;
  int64_t from, to, width = chunk_width(x, c);
  mr_var_t **row =
      mr_mem_take(&f->mem, (size_t)size * (size_t)(x->n_terms * (x->n + 1)) * sizeof *row);
  if (f->mem.failed || f->diag.code < 0) return;
  for (int r = 0; r < size; r++)
    for (int k = 0; k < x->n_terms; k++) {
      mr__exchange_chunk(x, r, c, &from, &to);
      if (!x->flat[k]) to = from;
      if (from < to) n = append_elements(x, x->flat[k], from, to, row, n);
      if (to - from < width) row[n++] = exchange_zeros(f, width - (to - from));
    }
  mr_var_t *rows = mr_lax_reshape_to(f, exchange_join(f, n, row), size, x->n_terms * width);
  x->come = in_turn(x, mr_lax_all_to_all(f, rows, x->ranks->axis));
  x->newest = c;
}

mr_var_t *mr__exchange_term(const mr__exchange_t *x, int term, int rank, int64_t from, int64_t to,
                            mr_dtype_t t) {
  int64_t own, end;
  if (!x->come) return NULL;
  mr__exchange_chunk(x, x->ranks->rank, x->newest, &own, &end);
  assert(own <= from && from < to && to <= end);
  int64_t at = term * chunk_width(x, x->newest) + from - own;
  return mr_lax_convert(x->f, take_of_row(x->f, x->come, rank, at, to - from), t);
}

/* Keeps elements of array i that have been gathered, in order. */
static void keep_piece(mr__exchange_t *x, int i, int64_t at, mr_var_t *v) {
  mr__piece_t *p = mr_mem_take(&x->f->mem, sizeof *p), **place = &x->piece[i];
  if (!p) return;
  while (*place && (*place)->at < at) place = &(*place)->next;
  *p = (mr__piece_t){at, v, *place};
  *place = p;
}

void mr__exchange_gather(mr__exchange_t *x, int c, mr_var_t *mine, int lo, int hi) {
  mr_fn_t *f = x->f;
  int64_t width = chunk_width(x, c), from, to;
  if (!mine) mine = exchange_zeros(f, width);
  if (mine && mine->aval.dim[0] < width)
    mine = mr_lax_pad(f, mine, (int64_t[]){0}, (int64_t[]){width - mine->aval.dim[0]});
  mr_var_t *rows = in_turn(x, mr_lax_all_gather(f, mine, x->ranks->axis, x->ranks->size));
  for (int r = 0; r < x->ranks->size && rows; r++) {
    mr__exchange_chunk(x, r, c, &from, &to);
    for (int i = 0; i < x->n; i++) {
      int64_t a = from > x->at[i] ? from : x->at[i], b = to < x->at[i + 1] ? to : x->at[i + 1];
      if (a < b && (i < lo || i >= hi))
        keep_piece(x, i, a - x->at[i], take_of_row(f, rows, r, a - from, b - a));
    }
  }
}

bool mr__exchange_completes(const mr__exchange_t *x, int c, int i) {
  int64_t from, to, newest = -1;
  if (x->at[i] == x->at[i + 1]) return c == x->n_chunks - 1; /* no chunk has anything of it */
  for (int r = 0; r < x->ranks->size; r++)
    for (int k = 0; k < x->n_chunks; k++) {
      mr__exchange_chunk(x, r, k, &from, &to);
      if (from < x->at[i + 1] && to > x->at[i] && k > newest) newest = k;
    }
  return newest == c;
}

mr_var_t *mr__exchange_whole(const mr__exchange_t *x, int i, const mr_aval_t *aval) {
  int n = 0;
  for (const mr__piece_t *p = x->piece[i]; p; p = p->next) n++;
  mr_var_t **v = mr_mem_take(&x->f->mem, (size_t)(n + 1) * sizeof *v);
  if (!v) return NULL;
  n = 0;
  for (const mr__piece_t *p = x->piece[i]; p; p = p->next) v[n++] = p->v;
  mr_var_t *flat = n ? exchange_join(x->f, n, v) : exchange_zeros(x->f, 0);
  return mr_lax_convert(x->f, mr_lax_reshape(x->f, flat, aval->ndim, aval->dim), aval->dtype);
}

mr_var_t *mr__exchange_own(const mr__exchange_t *x, int c, mr_var_t *const *array) {
  mr_fn_t *f = x->f;
  int64_t from, to;
  mr__exchange_chunk(x, x->ranks->rank, c, &from, &to);
  mr_var_t **flat = mr_mem_take(&f->mem, (size_t)(x->n + 1) * sizeof *flat);
  mr_var_t **row = mr_mem_take(&f->mem, (size_t)(x->n + 1) * sizeof *row);
  if (!flat || !row || from == to) return NULL;
  for (int i = 0; i < x->n; i++)
    flat[i] = x->at[i] < to && x->at[i + 1] > from ? exchange_flat(f, array[i]) : NULL;
  return exchange_join(f, append_elements(x, flat, from, to, row, 0), row);
}

mr_var_t *mr__exchange_sum_each(mr_fn_t *f, const mr_optim_ranks_t *ranks, const int *share,
                                mr_var_t *const *mine, int turn) {
  int most = 1, n = share[ranks->rank + 1] - share[ranks->rank];
  mr_var_t *sum = NULL;
  for (int r = 0; r < ranks->size; r++)
    if (share[r + 1] - share[r] > most) most = share[r + 1] - share[r];
  mr_var_t **own = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof *own);
  for (int i = 0; own && i < n; i++) own[i] = mr_lax_reshape_to(f, mine[i], 1);
  const mr_aval_t none = mr_aval_of(MR_F64, most - n);
  if (own && n < most) own[n++] = mr_lax_full(f, &none, 0);
  mr_var_t *all =
      own ? mr_lax_all_gather(f, exchange_join(f, n, own), ranks->axis, ranks->size) : NULL;
  if (all) mr_attr_set(f, all->def, mr_attr_int(MR_TURN, turn));
  for (int r = 0; all && r < ranks->size; r++)
    for (int i = 0; i < share[r + 1] - share[r]; i++) {
      mr_var_t *v = mr_lax_slice(f, all, (int64_t[]){r, i}, (int64_t[]){r + 1, i + 1});
      v = mr_lax_reshape(f, v, 0, NULL);
      sum = sum ? mr_lax_add(f, sum, v) : v;
    }
  return sum;
}

/* ---- order ---- */

/* An equation and the place behind which it belongs. */
typedef struct placed {
  mr_eqn_t *eqn;
  int after, number;
} placed_t;

static int exchange_by_place(const void *a, const void *b) {
  const placed_t *x = a, *y = b;
  return x->after != y->after ? (x->after < y->after ? -1 : 1)
                              : (x->number > y->number) - (x->number < y->number);
}

mr_err_t mr__exchange_early(mr_fn_t *f, int from) {
  int *place = mr_mem_take(&f->mem, ((size_t)f->n_var + 1) * sizeof *place);
  placed_t *p = mr_mem_take(&f->mem, ((size_t)f->n_eqn + 1) * sizeof *p);
  int newest = 0; /* of the collectives, which keep their order */
  if (f->mem.failed || f->diag.code < 0) return f->diag.code;
  for (int i = 0; i < f->n_var; i++) place[i] = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_eqn_t *e = f->eqn[i];
    int after = i < from ? i : e->op->collective ? newest : 0;
    for (int k = 0; i >= from && k < e->n_in; k++)
      if (place[e->in[k]->id] > after) after = place[e->in[k]->id];
    if (e->op->collective) newest = after;
    for (int k = 0; k < e->n_out; k++) place[e->out[k]->id] = after;
    p[i] = (placed_t){e, after, i};
  }
  qsort(p, (size_t)f->n_eqn, sizeof *p, exchange_by_place);
  for (int i = 0; i < f->n_eqn; i++) f->eqn[i] = p[i].eqn;
  return MR_OK;
}
