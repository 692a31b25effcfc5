/* Common subexpressions: a hash table of the equations so far.  An equation that is in it already
   is dropped, and its results are replaced by those of the earlier one. */
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

static bool same_var(const mr_var_t *a, const mr_var_t *b) {
  return a == b || mr_literal_same(a, b);
}

static bool same_eqn(const mr_eqn_t *a, const mr_eqn_t *b) {
  if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->n_attr != b->n_attr)
    return false;
  for (int k = 0; k < a->n_in; k++)
    if (!same_var(a->in[k], b->in[k])) return false;
  for (int k = 0; k < a->n_out; k++)
    if (!mr_aval_equal(&a->out[k]->aval, &b->out[k]->aval)) return false;
  for (int k = 0; k < a->n_attr; k++)
    if (!mr_attr_same(&a->attr[k], &b->attr[k])) return false;
  return true;
}

/* A barrier must stay distinct; functions in attributes are not compared. */
static bool is_mergeable(const mr_eqn_t *e) {
  if (e->op->fuse.apart) return false;
  const mr_fn_t *const *fns;
  for (int k = 0; k < e->n_attr; k++)
    if (mr_attr_calls(&e->attr[k], &fns)) return false;
  return true;
}

static uint64_t cse_mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u; }

/* Operands and the first number of each attribute are enough to spread equations over the table. */
static uint64_t cse_hash_of(const mr_eqn_t *e) {
  uint64_t h = cse_mix(7, (uint64_t)(uintptr_t)e->op);
  for (int k = 0; k < e->n_in; k++) {
    uint64_t value = (uint64_t)e->in[k]->id;
    if (e->in[k]->literal) memcpy(&value, &e->in[k]->value, sizeof value);
    h = cse_mix(h, value);
  }
  for (int k = 0; k < e->n_attr; k++) h = cse_mix(h, (uint64_t)e->attr[k].i[0]);
  return h ^ h >> 29;
}

typedef struct table {
  mr_eqn_t **slot; /* open addressing; [mask + 1] */
  size_t mask;
} table_t;

/* Returns the equal equation in the table; without one, enters e and returns NULL. */
static mr_eqn_t *find_earlier(table_t *t, mr_eqn_t *e) {
  size_t at = (size_t)cse_hash_of(e) & t->mask;
  for (; t->slot[at]; at = (at + 1) & t->mask)
    if (same_eqn(t->slot[at], e)) return t->slot[at];
  t->slot[at] = e;
  return NULL;
}

/* One pass in order is enough: operands are replaced before their reader is looked up. */
static void cse_merge(mr_fn_t *f, table_t *t, mr_var_t **instead) {
  int kept = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_eqn_t *e = f->eqn[i], *before = NULL;
    for (int k = 0; k < e->n_in; k++)
      if (instead[e->in[k]->id]) e->in[k] = instead[e->in[k]->id];
    if (is_mergeable(e)) before = find_earlier(t, e);
    if (before)
      for (int k = 0; k < e->n_out; k++) instead[e->out[k]->id] = before->out[k];
    else
      f->eqn[kept++] = e;
  }
  f->n_eqn = kept;
  for (int i = 0; i < f->n_out; i++)
    if (instead[f->out[i]->id]) f->out[i] = instead[f->out[i]->id];
}

mr_err_t mr_cse(mr_fn_t *f, mr_diag_t *diag) {
  table_t t = {.mask = 15};
  while (t.mask < 2 * (size_t)f->n_eqn) t.mask = 2 * t.mask + 1;
  t.slot = calloc(t.mask + 1, sizeof *t.slot);
  mr_var_t **instead = calloc((size_t)f->n_var + 1, sizeof *instead);
  mr_err_t e = MR_OK;
  if (t.slot && instead)
    cse_merge(f, &t, instead);
  else
    e = mr_no_memory(diag, "merging common subexpressions");
  free(t.slot);
  free(instead);
  return e;
}
