/* The exchange as equations: the row that goes to a rank is a concatenation of the parts of arrays
   that lie in its share, of zeros that fill the share up to the largest one's size, and of what all
   are posted. */
#include "model/optim/exchange.h"

#include <assert.h>
#include <stdlib.h>

#include "model/control/control.h"

mr__exchange_t mr__exchange_start(mr_fn_t *f, const mr_optim_ranks_t *ranks, int n,
                                  const int64_t *size, const int *share, int most) {
  mr__exchange_t x = {.f = f, .ranks = ranks, .n = n, .most_posted = most};
  x.at = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof *x.at);
  x.from = mr_mem_take(&f->mem, (size_t)(ranks->size + 1) * sizeof *x.from);
  x.posted = mr_mem_take(&f->mem, (size_t)(most + 1) * sizeof *x.posted);
  x.posted_at = mr_mem_take(&f->mem, (size_t)(most + 1) * sizeof *x.posted_at);
  if (f->mem.failed) return x;
  x.at[0] = x.posted_at[0] = 0;
  for (int i = 0; i < n; i++) x.at[i + 1] = x.at[i] + size[i];
  x.width = (x.at[n] + ranks->size - 1) / ranks->size;
  for (int r = 0; r <= ranks->size; r++) {
    int64_t even = r * x.width < x.at[n] ? r * x.width : x.at[n];
    x.from[r] = share ? x.at[share[r]] : even;
  }
  for (int r = 0; r < ranks->size; r++)
    if (x.from[r + 1] - x.from[r] > x.width) x.width = x.from[r + 1] - x.from[r];
  return x;
}

static mr_var_t *exchange_flat(mr_fn_t *f, mr_var_t *v) {
  return v ? mr_lax_reshape_to(f, mr_lax_convert(f, v, MR_F32), mr_aval_elems(&v->aval)) : NULL;
}

static mr_var_t *exchange_zeros(mr_fn_t *f, int64_t n) {
  mr_aval_t flat = mr_aval_of(MR_F32, n);
  return mr_lax_full(f, &flat, 0);
}

int mr__exchange_post(mr__exchange_t *x, mr_var_t *v, int64_t size) {
  v = exchange_flat(x->f, v);
  assert(x->n_posted < x->most_posted && (!v || v->aval.dim[0] <= size));
  if (v && v->aval.dim[0] < size)
    v = mr_lax_pad(x->f, v, (int64_t[]){0}, (int64_t[]){size - v->aval.dim[0]});
  x->posted[x->n_posted] = v;
  x->posted_at[x->n_posted + 1] = x->posted_at[x->n_posted] + size;
  return x->n_posted++;
}

/* Appends to row[n] what rank r receives of a term, whose arrays are flat.  Returns the new n. */
static int exchange_row(const mr__exchange_t *x, int r, mr_var_t *const *flat, mr_var_t **row,
                        int n) {
  int64_t from = x->from[r], to = x->from[r + 1], filled = flat ? to - from : 0;
  for (int i = 0; flat && i < x->n; i++) {
    int64_t a = from > x->at[i] ? from : x->at[i], b = to < x->at[i + 1] ? to : x->at[i + 1];
    if (a >= b) continue;
    bool whole = b - a == x->at[i + 1] - x->at[i];
    row[n++] =
        whole ? flat[i]
              : mr_lax_slice(x->f, flat[i], (int64_t[]){a - x->at[i]}, (int64_t[]){b - x->at[i]});
  }
  if (filled < x->width) row[n++] = exchange_zeros(x->f, x->width - filled);
  return n;
}

void mr__exchange_send(mr__exchange_t *x, int n_terms, mr_var_t **const *term) {
  mr_fn_t *f = x->f;
  int size = x->ranks->size, n = 0;
  mr_var_t ***flat = mr_mem_take(&f->mem, (size_t)(n_terms + 1) * sizeof *flat);
  mr_var_t **row = mr_mem_take(
      &f->mem, (size_t)size * (size_t)(n_terms * (x->n + 1) + x->n_posted) * sizeof *row);
  for (int k = 0; k < n_terms && flat && term[k]; k++) {
    flat[k] = mr_mem_take(&f->mem, (size_t)(x->n + 1) * sizeof(mr_var_t *));
    for (int i = 0; flat[k] && i < x->n; i++) flat[k][i] = exchange_flat(f, term[k][i]);
  }
  if (f->mem.failed || f->diag.code < 0) return;
  for (int r = 0; r < size; r++) {
    for (int k = 0; k < n_terms; k++) n = exchange_row(x, r, term[k] ? flat[k] : NULL, row, n);
    for (int i = 0; i < x->n_posted; i++) row[n++] = x->posted[i];
  }
  mr_var_t *rows = mr_lax_concatenate(f, n, row, 0);
  rows = mr_lax_reshape_to(f, rows, size, n_terms * x->width + x->posted_at[x->n_posted]);
  x->all = mr_lax_all_to_all(f, rows, x->ranks->axis);
}

/* Elements [from,from+n) of what a rank has sent. */
static mr_var_t *take_sent(const mr__exchange_t *x, int rank, int64_t from, int64_t n) {
  mr_var_t *v =
      mr_lax_slice(x->f, x->all, (int64_t[]){rank, from}, (int64_t[]){rank + 1, from + n});
  return mr_lax_reshape_to(x->f, v, n);
}

mr_var_t *mr__exchange_posted(const mr__exchange_t *x, int posted, int rank, int64_t at,
                              const mr_aval_t *aval) {
  if (!x->all) return NULL;
  int64_t terms = x->all->aval.dim[1] - x->posted_at[x->n_posted];
  mr_var_t *v = take_sent(x, rank, terms + x->posted_at[posted] + at, mr_aval_elems(aval));
  return mr_lax_convert(x->f, mr_lax_reshape(x->f, v, aval->ndim, aval->dim), aval->dtype);
}

mr_var_t *mr__exchange_term(const mr__exchange_t *x, int term, int rank, int64_t from, int64_t to,
                            mr_dtype_t t) {
  int64_t own = x->from[x->ranks->rank];
  if (!x->all) return NULL;
  return mr_lax_convert(x->f, take_sent(x, rank, term * x->width + from - own, to - from), t);
}

mr_var_t *mr__exchange_gather(const mr__exchange_t *x, mr_var_t *share) {
  if (!share) share = exchange_zeros(x->f, x->width);
  if (share && share->aval.dim[0] < x->width)
    share = mr_lax_pad(x->f, share, (int64_t[]){0}, (int64_t[]){x->width - share->aval.dim[0]});
  return mr_lax_all_gather(x->f, share, x->ranks->axis, x->ranks->size);
}

mr_var_t *mr__exchange_whole(const mr__exchange_t *x, mr_var_t *shares, int i,
                             const mr_aval_t *aval) {
  int r = 0;
  if (!shares) return NULL;
  while (r + 1 < x->ranks->size && x->from[r + 1] <= x->at[i]) r++;
  /* Even shares before the last ones, which are shorter, have the full width, so that an array over
     several is one piece; no other array is in several. */
  int64_t from = r * x->width + x->at[i] - x->from[r], n = x->at[i + 1] - x->at[i];
  mr_var_t *flat = mr_lax_reshape_to(x->f, shares, x->ranks->size * x->width);
  flat = mr_lax_slice(x->f, flat, &from, (int64_t[]){from + n});
  return mr_lax_convert(x->f, mr_lax_reshape(x->f, flat, aval->ndim, aval->dim), aval->dtype);
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
