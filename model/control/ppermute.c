/* Sends values from place to place of a named axis.  The pairs are kept as the text that jax
   prints,
   "((0, 1), (1, 2))", since an attribute has room for two dozen numbers only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/control/collectives_private.h"
#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

enum { PAIR_TEXT = 28, PLACES_MOST = 1 << 20 };

typedef struct pairs {
  int n;
  int (*at)[2];
} pairs_t;

/* Returns the first pair with a place that is out of range, or that sends or receives once more; n:
   none; -1 without memory. */
static int first_bad_pair(int n, const int (*perm)[2]) {
  int most = 0, k = 0;
  for (int i = 0; i < n; i++) {
    const int a = perm[i][0], b = perm[i][1];
    if (a < 0 || b < 0 || a >= PLACES_MOST || b >= PLACES_MOST) n = i; /* pair i is bad at most */
    if (i < n) most = a > most ? a : most, most = b > most ? b : most;
  }
  char(*seen)[2] = calloc((size_t)most + 1, sizeof *seen);
  if (!seen) return -1;
  for (k = 0; k < n; k++)
    if (seen[perm[k][0]][0]++ || seen[perm[k][1]][1]++) break;
  free(seen);
  return k;
}

static const char *pairs_text(mr_fn_t *f, int n, const int (*perm)[2]) {
  if (n < 1 || n > PLACES_MOST) return "()";
  size_t room = (size_t)n * PAIR_TEXT + 4, at = 0;
  char *text = mr_mem_take(&f->mem, room);
  if (!text) return "()";
  at += (size_t)snprintf(text, room, "(");
  for (int k = 0; k < n; k++)
    at +=
        (size_t)snprintf(text + at, room - at, "%s(%d, %d)", k ? ", " : "", perm[k][0], perm[k][1]);
  snprintf(text + at, room - at, n == 1 ? ",)" : ")");
  return text;
}

mr_var_t *mr_lax_ppermute(mr_fn_t *f, mr_var_t *x, const char *axis_name, int n,
                          const int (*perm)[2]) {
  const int k = n < 0 || n > PLACES_MOST ? -1 : first_bad_pair(n, perm);
  if (!x) return NULL;
  if (k != n) {
    if (k < 0)
      mr_fail(&f->diag, MR_ERR_SHAPE, "%s%sppermute: %d pairs, want 0 to %d, and memory for them",
              f->scope, *f->scope ? ": " : "", n, PLACES_MOST);
    else
      mr_fail(&f->diag, MR_ERR_SHAPE,
              "%s%sppermute: pair %d is (%d, %d): want places from 0 on, none of which sends or "
              "receives twice",
              f->scope, *f->scope ? ": " : "", k, perm[k][0], perm[k][1]);
    return NULL;
  }
  mr_attr_t attr[] = {mr_attr_text("axis_name", mr_mem_text(&f->mem, axis_name)),
                      mr_attr_text("perm", pairs_text(f, n, perm))};
  return mr_emit1(f, &mr_op_ppermute, 1, &x, 2, attr);
}

mr_var_t *mr_lax_ppermute_in_turn(mr_fn_t *f, mr_var_t *x, const char *axis_name, int n,
                                  const int (*perm)[2], int turn) {
  mr_var_t *y = mr_lax_ppermute(f, x, axis_name, n, perm);
  if (y) mr_attr_set(f, y->def, mr_attr_int(MR_TURN, turn));
  return y;
}

/* Reads the next pair of the text; false: the text is at its end. */
static bool next_pair(const char **at, int pair[2]) {
  for (int side = 0; side < 2; side++) {
    char *end;
    *at += strspn(*at, "(), ");
    if (!**at) return false;
    long v = strtol(*at, &end, 10);
    if (end == *at || v < 0 || v >= PLACES_MOST) return false;
    pair[side] = (int)v, *at = end;
  }
  return true;
}

static int count_pairs(const char *text) {
  int pair[2], n = 0;
  while (next_pair(&text, pair)) n++;
  return n;
}

/* The pairs of e, in memory of f. */
static pairs_t pairs_of(mr_fn_t *f, const mr_eqn_t *e) {
  const char *text = mr_attr_get(e, "perm")->text;
  int n = count_pairs(text);
  pairs_t p = {n, mr_mem_take(&f->mem, ((size_t)n + 1) * sizeof *p.at)};
  for (int k = 0; k < n; k++) next_pair(&text, p.at[k]);
  return p;
}

mr_err_t mr_ppermute_places(const mr_eqn_t *e, int64_t size, int r, int *to, int *from,
                            mr_diag_t *diag) {
  const char *text = mr_attr_get(e, "perm")->text;
  int pair[2];
  *to = *from = -1;
  while (next_pair(&text, pair)) {
    if (pair[0] >= size || pair[1] >= size)
      return mr_fail(diag, MR_ERR_SHAPE,
                     "%s%sppermute: axis \"%s\" has size %lld, so no pair (%d, %d)", e->scope,
                     *e->scope ? ": " : "", mr_attr_get(e, "axis_name")->text, (long long)size,
                     pair[0], pair[1]);
    if (pair[0] == r) *to = pair[1];
    if (pair[1] == r) *from = pair[0];
  }
  return MR_OK;
}

/* Text from a parsed graph is checked here, and each pair once more against the axis. */
static mr_err_t permute_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_attr_t *perm = mr_attr_get(e, "perm");
  const char *text = perm && perm->kind == MR_ATTR_TEXT ? perm->text : "";
  int n = count_pairs(text);
  int(*at)[2] = malloc(((size_t)n + 1) * sizeof *at);
  if (!at) return mr_no_memory(diag, "a permutation of %d pairs", n);
  for (int k = 0; k < n; k++) next_pair(&text, at[k]);
  text += strspn(text, "(), ");
  bool good = perm && perm->kind == MR_ATTR_TEXT && !*text && n <= PLACES_MOST &&
              first_bad_pair(n, (const int(*)[2])at) == n;
  free(at);
  if (!good)
    return mr_shape_fail(e, diag, "want pairs of places, none of which is on a side twice");
  *out = e->in[0]->aval;
  return MR_OK;
}

/* What went from here to there comes back; where none was sent, nothing does. */
static mr_err_t permute_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  pairs_t p = pairs_of(f, e);
  for (int k = 0; k < p.n; k++) {
    int to = p.at[k][1];
    p.at[k][1] = p.at[k][0], p.at[k][0] = to;
  }
  din[0] =
      mr_lax_ppermute(f, dout[0], mr_attr_get(e, "axis_name")->text, p.n, (const int(*)[2])p.at);
  return mr_rule_done(f);
}

/* Row `from` of x (size,...), or zeros for -1. */
static mr_var_t *permuted_row(mr_fn_t *f, mr_var_t *x, int from) {
  int64_t start[MR_MAX_NDIM] = {from}, limit[MR_MAX_NDIM];
  mr_aval_t row = x->aval;
  row.dim[0] = 1;
  if (from < 0) return mr_lax_full(f, &row, 0);
  for (int d = 0; d < row.ndim; d++) limit[d] = d ? row.dim[d] : from + 1;
  return mr_lax_slice(f, x, start, limit);
}

/* x (size,...) with its rows where the pairs send them. */
static mr_var_t *permuted_rows(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *x) {
  int n = (int)f->axis_size;
  pairs_t p = pairs_of(f, e);
  mr_var_t **row = mr_mem_take(&f->mem, ((size_t)n + 1) * sizeof(mr_var_t *));
  if (!x || !row) return NULL;
  for (int k = 0; k < p.n; k++) row[p.at[k][1]] = permuted_row(f, x, p.at[k][0]);
  for (int r = 0; r < n; r++)
    if (!row[r]) row[r] = permuted_row(f, x, -1);
  return mr_lax_concatenate(f, n, row, 0);
}

static mr_err_t permute_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                              mr_batched_t *out) {
  int to, from;
  if (!mr_axis_bound(f, e)) return mr_batch_pointwise(f, e, in, out);
  MR_TRY(mr_ppermute_places(e, f->axis_size, 0, &to, &from, &f->diag));
  out[0] = (mr_batched_t){permuted_rows(f, e, mr_batch_front(f, &in[0], f->axis_size)), 0};
  return mr_rule_done(f);
}

/* x times what came, of a ring and of a chain with an end. */
static bool permute_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  const int ring[][2] = {{0, 1}, {1, 2}, {2, 0}}, chain[][2] = {{2, 1}, {1, 0}};
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2)), *y = mr_lax_sin(b, x);
  y = k ? mr_lax_ppermute(b, y, "i", 2, chain) : mr_lax_ppermute(b, y, "i", 3, ring);
  return mr__axis_sample(s, b, mr_lax_mul(b, x, y));
}

const mr_op_def_t mr_op_ppermute = {
    MR_RULES_PRIMITIVE,
    .name = "ppermute",
    .n_in = 1,
    .n_out = 1,
    .shape = permute_shape,
    .batch = permute_batch,
    .sample = permute_sample,
    .collective = true,
    .ad = {.jvp = mr_jvp_linear, .vjp = permute_vjp},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_no_shard},
};
