/* Tables of factors: filled by an op's rule, completed with what the rule leaves out, and used to
   write the equation that one device computes on its parts. */
#include "model/ir/shard.h"

#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"

static int fail_factor(mr_factors_t *s, const char *fault) {
  if (!s->fault) s->fault = fault;
  return -1;
}

int mr_factor_add(mr_factors_t *s, int64_t size, mr_cut_t cut) {
  if (size < 0) return fail_factor(s, "a factor has a size below 0");
  if (s->n == s->max)
    return fail_factor(s, "more factors than operands and results have dimensions");
  s->factor[s->n] = (mr_factor_t){size, cut};
  return s->n++;
}

/* Appends factor k to dimension d of operand or result i of n. */
static void append_factor(mr_factors_t *s, mr_dim_factors_t (*of)[MR_MAX_NDIM], int n, int i, int d,
                          int k) {
  if (i < 0 || i >= n || d < 0 || d >= MR_MAX_NDIM)
    fail_factor(s, "a factor of an operand, result or dimension that the op lacks");
  else if (k < 0 || k >= s->n)
    fail_factor(s, "a dimension with a factor that was not added");
  else if (of[i][d].n == MR_MAX_NDIM)
    fail_factor(s, "a dimension with too many factors");
  else
    of[i][d].of[of[i][d].n++] = k;
}

void mr_factor_in(mr_factors_t *s, int i, int d, int k) {
  append_factor(s, s->in, s->n_in, i, d, k);
}

void mr_factor_out(mr_factors_t *s, int i, int d, int k) {
  append_factor(s, s->out, s->n_out, i, d, k);
}

void mr_factors_fini(mr_factors_t *s) {
  free(s->factor), free(s->in), free(s->out);
  *s = (mr_factors_t){0};
}

/* Gives each dimension of v, with the factors dim, the factor that it lacks.  One that has
   MR_MAX_NDIM has room for this one more. */
static void complete_dims(mr_factors_t *s, const mr_aval_t *v, mr_dim_factors_t *dim) {
  for (int d = 0; d < v->ndim; d++) {
    int64_t covered = 1;
    bool fits = true;
    for (int k = 0; k < dim[d].n; k++)
      fits &= !__builtin_mul_overflow(covered, s->factor[dim[d].of[k]].size, &covered);
    if (fits && covered == v->dim[d]) continue;
    if (!fits || !covered || v->dim[d] % covered) {
      fail_factor(s, "factors whose product does not divide their dimension");
      return;
    }
    s->factor[s->n] = (mr_factor_t){v->dim[d] / covered, MR_CUT_WHOLE};
    dim[d].of[dim[d].n++] = s->n++;
  }
}

static mr_err_t fill_factors(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_err_t err = e->op->shard.rule(e, s, diag);
  for (int i = 0; i < e->n_in && err == MR_OK && !s->fault; i++)
    complete_dims(s, &e->in[i]->aval, s->in[i]);
  for (int i = 0; i < e->n_out && err == MR_OK && !s->fault; i++)
    complete_dims(s, &e->out[i]->aval, s->out[i]);
  if (err < 0 || !s->fault) return err;
  return mr_fail(diag, MR_ERR_CONFIG, "%s%s%s: its shard rule is wrong: %s", e->scope,
                 *e->scope ? ": " : "", e->op->name, s->fault);
}

mr_err_t mr_factors_of(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  int dims = 0;
  for (int i = 0; i < e->n_in; i++) dims += e->in[i]->aval.ndim;
  for (int i = 0; i < e->n_out; i++) dims += e->out[i]->aval.ndim;
  *s = (mr_factors_t){.max = dims + 2, .n_in = e->n_in, .n_out = e->n_out};
  /* Behind what the rule may add there is room for what complete_dims adds. */
  s->factor = calloc((size_t)(s->max + dims), sizeof *s->factor);
  s->in = calloc((size_t)e->n_in + 1, sizeof *s->in);
  s->out = calloc((size_t)e->n_out + 1, sizeof *s->out);
  mr_err_t err = s->factor && s->in && s->out
                     ? fill_factors(e, s, diag)
                     : mr_no_memory(diag, "the factors of %s", e->op->name);
  if (err != MR_OK) mr_factors_fini(s);
  return err;
}

mr_aval_t mr_part_aval(const mr_aval_t *a, const mr_factors_t *s, const mr_dim_factors_t *dim,
                       const int64_t *parts) {
  mr_aval_t part = *a;
  for (int d = 0; d < a->ndim; d++) {
    part.dim[d] = a->dim[d] ? 1 : 0;
    for (int k = 0; k < dim[d].n; k++)
      part.dim[d] *= s->factor[dim[d].of[k]].size / parts[dim[d].of[k]];
  }
  return part;
}

static mr_err_t check_parts(mr_fn_t *f, const mr_eqn_t *e, const mr_factors_t *s,
                            const int64_t *parts) {
  for (int k = 0; k < s->n; k++) {
    if (parts[k] == 1) continue;
    if (s->factor[k].cut == MR_CUT_WHOLE || parts[k] < 1)
      return mr_shape_fail(e, &f->diag, "a dimension that must stay whole is cut");
    if (s->factor[k].size % parts[k])
      return mr_fail(&f->diag, MR_ERR_SHAPE, "%s%s%s: %lld places cannot be cut into %lld parts",
                     e->scope, *e->scope ? ": " : "", e->op->name, (long long)s->factor[k].size,
                     (long long)parts[k]);
  }
  return MR_OK;
}

mr_eqn_t *mr_emit_part(mr_fn_t *f, const mr_eqn_t *e, const mr_factors_t *s, const int64_t *parts,
                       mr_var_t *const *in) {
  if (f->diag.code < 0 || check_parts(f, e, s, parts) < 0) return NULL;
  const char *sizes = e->op->shard.sizes, *from = e->op->shard.from;
  if (!sizes) return mr_emit_like(f, e, in);
  const mr_aval_t *whole = &e->out[0]->aval;
  mr_aval_t y = mr_part_aval(whole, s, s->out[0], parts);
  int64_t start[MR_MAX_NDIM] = {0};
  for (int d = 0; d < y.ndim && from; d++) {
    int64_t at = mr_attr_get(e, from)->i[d];
    start[d] = y.dim[d] == whole->dim[d] ? at : at / whole->dim[d] * y.dim[d];
  }
  mr_eqn_t part = *e;
  mr_attr_t *attr = mr_mem_copy(&f->mem, e->attr, (size_t)e->n_attr, sizeof *attr);
  if (f->mem.failed) return NULL;
  part.attr = attr;
  for (int i = 0; i < e->n_attr; i++) {
    for (int d = 0; d < y.ndim && !strcmp(attr[i].name, sizes); d++)
      attr[i].i[d] = y.dim[d] + start[d];
    for (int d = 0; d < y.ndim && from && !strcmp(attr[i].name, from); d++) attr[i].i[d] = start[d];
  }
  return mr_emit_like(f, &part, in);
}

/* ---- as text ---- */

static const char *factors_letter(const mr_factors_t *s, int k, char out[2]) {
  int before = 0;
  for (int i = 0; i < k; i++) before += s->factor[i].cut != MR_CUT_WHOLE;
  out[0] = s->factor[k].cut == MR_CUT_WHOLE ? '.' : before < 26 ? (char)('a' + before) : '?';
  out[1] = 0;
  return out;
}

static void print_dims(FILE *f, const mr_factors_t *s, const mr_aval_t *v,
                       const mr_dim_factors_t *dim) {
  char letter[2];
  for (int d = 0; d < v->ndim; d++) {
    if (dim[d].n != 1) fputc('(', f);
    for (int k = 0; k < dim[d].n; k++) fputs(factors_letter(s, dim[d].of[k], letter), f);
    if (dim[d].n != 1) fputc(')', f);
  }
}

const char *mr_factors_text(const mr_eqn_t *e, const mr_factors_t *s, char *out, size_t size) {
  static const char *const kind[] = {"", "", "SUM", "MAX"};
  char letter[2];
  FILE *f = fmemopen(out, size, "w");
  if (size) *out = 0;
  if (!f) return out;
  for (int i = 0; i < e->n_in; i++) {
    if (i) fputs(", ", f);
    print_dims(f, s, &e->in[i]->aval, s->in[i]);
  }
  fputs(" ->", f);
  for (int i = 0; i < e->n_out; i++) {
    fputs(i ? ", " : " ", f);
    print_dims(f, s, &e->out[i]->aval, s->out[i]);
  }
  for (int k = 0, n = 0; k < s->n; k++)
    if (*kind[s->factor[k].cut])
      fprintf(f, "%s%s %s", n++ ? ", " : " | ", factors_letter(s, k, letter),
              kind[s->factor[k].cut]);
  fclose(f);
  return out;
}
