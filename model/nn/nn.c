/* What all layers share while a model is traced: scopes, parameters and dropout sites.  Entering a
   part extends the prefix of parameters' names and the scope of equations together, so that a row
   of `millrace profile` and a tensor of a checkpoint are called alike. */
#include "model/nn/nn.h"

#include <stdio.h>
#include <string.h>

/* The scope in which name is entered: inside a part, "part.name"; else "scope/name". */
static const char *nn_scope_in(mr_nn_t *s, const char *name) {
  const char *outer = s->f->scope;
  size_t n = strlen(outer) + strlen(name) + 2;
  char *scope = mr_mem_take(&s->f->mem, n);
  if (!scope) return outer;
  bool in_part = s->depth && outer == s->own[s->depth - 1];
  const char *between = !*outer ? "" : in_part ? "." : "/";
  snprintf(scope, n, "%s%s%s", outer, between, name);
  return scope;
}

size_t mr_nn_enter(mr_nn_t *s, const char *name) {
  size_t mark = strlen(s->prefix);
  snprintf(s->prefix + mark, sizeof s->prefix - mark, "%s.", name);
  if (s->depth == MR_NN_DEPTH) {
    mr_fail(&s->f->diag, MR_ERR_CONFIG, "%s: more than %d parts in each other", s->prefix,
            MR_NN_DEPTH);
    return mark;
  }
  const char *scope = nn_scope_in(s, name);
  s->around[s->depth] = s->f->scope;
  s->f->scope = s->own[s->depth++] = scope;
  return mark;
}

void mr_nn_leave(mr_nn_t *s, size_t mark) {
  s->prefix[mark] = 0;
  if (s->depth) s->f->scope = s->around[--s->depth];
}

mr_var_t *mr_nn_param(mr_nn_t *s, const char *name, mr_init_t init, int ndim, const int64_t *dim) {
  char full[320];
  snprintf(full, sizeof full, "%s%s", s->prefix, name);
  mr_aval_t aval = mr_aval(MR_F32, ndim, dim);
  if (s->f->diag.code < 0 || mr_params_add(s->params, full, aval, init, &s->f->diag) < 0)
    return NULL;
  return mr_fn_input(s->f, aval);
}

bool mr_nn_fits(mr_nn_t *s, const char *layer, const mr_var_t *x, int least, int most,
                int64_t number, const char *want) {
  char text[MR_AVAL_TEXT];
  const char *scope = s->f->scope;
  if (x->aval.ndim >= least && x->aval.ndim <= most && number > 0) return true;
  mr_fail(&s->f->diag, MR_ERR_SHAPE, "%s%s%s %s: want x %s", scope, *scope ? ": " : "", layer,
          mr_aval_text(&x->aval, text), want);
  return false;
}

void mr_nn_applied(mr_nn_t *s, const char *type, const mr_aval_t *in, const mr_var_t *x,
                   const mr_aval_t *out, const mr_var_t *y) {
  char name[sizeof s->prefix];
  size_t n = strlen(s->prefix);
  memcpy(name, s->prefix, n + 1);
  if (n) name[n - 1] = 0;
  mr_module_t m = {name, type, *in, *out, s->called ? -1 : x->id, s->called ? -1 : y->id};
  mr_params_module(s->params, m, &s->f->diag);
}

void mr_nn_applied_to(mr_nn_t *s, const char *type, const mr_var_t *x, const mr_var_t *y) {
  if (x && y) mr_nn_applied(s, type, &x->aval, x, &y->aval, y);
}

/* The element of the whole batch's x that the first of this one is; 0 if x has no records. */
static int64_t nn_first_element(const mr_nn_t *s, const mr_aval_t *x) {
  if (!s->records || !x->ndim || !x->dim[0] || x->dim[0] % s->records) return 0;
  return mr_aval_elems(x) / s->records * s->first_record;
}

mr_var_t *mr_nn_drop(mr_nn_t *s, mr_var_t *x, float rate) {
  if (rate <= 0 || !x) return x;
  uint32_t site = s->next_site++;
  if (!s->key)
    return mr_lax_dropout_from(s->f, x, rate, site, nn_first_element(s, &x->aval), s->seed,
                               s->step);
  mr_var_t *key = mr_lax_random_fold_in(s->f, s->key, mr_literal(s->f, MR_U32, site));
  return mr_lax_dropout_by_key(s->f, x, rate, key);
}

mr_var_t *mr_nn_dropout(mr_nn_t *s, mr_var_t *x) { return mr_nn_drop(s, x, s->dropout); }

mr_var_t *mr_nn_dropout_module(mr_nn_t *s, const char *name, mr_var_t *x) {
  char full[320];
  mr_var_t *y = mr_nn_dropout(s, x);
  if (!y) return NULL;
  snprintf(full, sizeof full, "%s%s", s->prefix, name);
  mr_module_t m = {full, MR_MODULE_DROPOUT, x->aval, y->aval, -1, -1};
  if (!s->called) m.in_var = x->id, m.out_var = y->id;
  mr_params_module(s->params, m, &s->f->diag);
  return y;
}

mr_var_t *mr_nn_drop_path(mr_nn_t *s, mr_var_t *x, float rate) {
  if (rate <= 0 || !x) return x;
  const mr_aval_t *a = &x->aval;
  mr_var_t *one = mr_literal(s->f, a->dtype, 1);
  mr_var_t *keep = mr_lax_broadcast_in_dim(s->f, one, 1, a->dim, NULL);
  keep = mr_nn_drop(s, keep, rate);
  keep = mr_lax_broadcast_in_dim(s->f, keep, a->ndim, a->dim, (int[]){0});
  return mr_lax_mul(s->f, x, keep);
}

mr_var_t *mr_nn_residual(mr_nn_t *s, mr_var_t *x, mr_var_t *y) { return mr_lax_add(s->f, x, y); }

mr_var_t *mr_nn_first_token(mr_nn_t *s, mr_var_t *x) {
  if (!x) return NULL;
  int64_t start[] = {0, 0, 0}, limit[] = {x->aval.dim[0], 1, x->aval.dim[2]};
  return mr_lax_slice(s->f, x, start, limit);
}
