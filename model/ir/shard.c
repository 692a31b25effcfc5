/* Tables of factors: filled by an op's rule, completed with what the rule leaves out, and used to
   write the equation that one device computes on its parts. */
#include "model/ir/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"

int mr_factor_add(mr_factors_t *s, int64_t size, mr_cut_t cut) {
  s->factor[s->n] = (mr_factor_t){size, cut};
  return s->n++;
}

static void append_factor(mr_dim_factors_t *dim, int k) {
  assert(dim->n <= MR_MAX_NDIM);
  dim->of[dim->n++] = k;
}

void mr_factor_in(mr_factors_t *s, int i, int d, int k) { append_factor(&s->in[i][d], k); }
void mr_factor_out(mr_factors_t *s, int i, int d, int k) { append_factor(&s->out[i][d], k); }

void mr_factors_fini(mr_factors_t *s) {
  free(s->factor), free(s->in), free(s->out);
  *s = (mr_factors_t){0};
}

/* Gives each dimension of v the factor that it lacks. */
static void complete_dims(mr_factors_t *s, const mr_aval_t *v, mr_dim_factors_t *dim) {
  for (int d = 0; d < v->ndim; d++) {
    int64_t covered = 1;
    for (int k = 0; k < dim[d].n; k++) covered *= s->factor[dim[d].of[k]].size;
    if (covered == v->dim[d]) continue;
    assert(covered && v->dim[d] % covered == 0);
    append_factor(&dim[d], mr_factor_add(s, v->dim[d] / covered, MR_CUT_WHOLE));
  }
}

mr_err_t mr_factors_of(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  size_t n = 2; /* a rule adds at most one factor for each dimension, and so does complete_dims */
  for (int i = 0; i < e->n_in; i++) n += 2 * (size_t)e->in[i]->aval.ndim;
  for (int i = 0; i < e->n_out; i++) n += 2 * (size_t)e->out[i]->aval.ndim;
  *s = (mr_factors_t){.factor = calloc(n, sizeof *s->factor),
                      .in = calloc((size_t)e->n_in + 1, sizeof *s->in),
                      .out = calloc((size_t)e->n_out + 1, sizeof *s->out)};
  mr_err_t err = s->factor && s->in && s->out
                     ? e->op->shard.rule(e, s, diag)
                     : mr_no_memory(diag, "the factors of %s", e->op->name);
  if (err != MR_OK) {
    mr_factors_fini(s);
    return err;
  }
  for (int i = 0; i < e->n_in; i++) complete_dims(s, &e->in[i]->aval, s->in[i]);
  for (int i = 0; i < e->n_out; i++) complete_dims(s, &e->out[i]->aval, s->out[i]);
  assert((size_t)s->n <= n);
  return MR_OK;
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
  mr_aval_t y = mr_part_aval(&e->out[0]->aval, s, s->out[0], parts);
  mr_eqn_t part = *e;
  mr_attr_t *attr = mr_mem_copy(&f->mem, e->attr, (size_t)e->n_attr, sizeof *attr);
  if (f->mem.failed) return NULL;
  part.attr = attr;
  for (int i = 0; i < e->n_attr; i++)
    for (int d = 0; d < y.ndim && !strcmp(attr[i].name, sizes); d++)
      attr[i].i[d] = y.dim[d] + (from ? mr_attr_get(e, from)->i[d] : 0);
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
