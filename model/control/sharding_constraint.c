/* How a value shall lie on a mesh: the value itself, except that mr_partition puts it so.  The spec
   is a text until then, as a function is traced without a mesh; only its number of entries is
   checked here. */
#include <stdio.h>
#include <string.h>

#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_shard(mr_fn_t *f, mr_var_t *x, const char *spec) {
  mr_attr_t attr = mr_attr_text("spec", mr_mem_text(&f->mem, spec));
  return mr_emit1(f, &mr_op_sharding_constraint, 1, &x, 1, &attr);
}

/* The n entries of "(None,(data,model))", each a part of the text; -1: it is no such list, or has
   more than MR_MAX_NDIM. */
typedef struct entry {
  const char *at;
  int n;
} entry_t;

static int entries_of(const char *text, entry_t entry[MR_MAX_NDIM]) {
  int n = 0, depth = 0;
  const char *end = text + strlen(text), *at = text + 1;
  while (end > text && end[-1] == ' ') end--;
  if (*text != '(' || end - text < 2 || end[-1] != ')') return -1;
  end--;
  while (end > at && strchr(" ,", end[-1])) end--; /* Python's last comma */
  for (const char *c = at; c <= end; c++) {
    if (c < end && *c == '(') depth++;
    if (c < end && *c == ')' && --depth < 0) return -1;
    if (c < end && (*c != ',' || depth)) continue;
    if (end == text + 1) break;
    if (n == MR_MAX_NDIM) return -1;
    entry[n++] = (entry_t){at, (int)(c - at)};
    at = c + 1;
  }
  return depth ? -1 : n;
}

static mr_err_t constraint_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  entry_t entry[MR_MAX_NDIM];
  const mr_attr_t *spec = mr_attr_get(e, "spec");
  int n = spec && spec->kind == MR_ATTR_TEXT ? entries_of(spec->text, entry) : -1;
  if (n != e->in[0]->aval.ndim)
    return mr_shape_fail(e, diag, "want a spec such as (data,None), an entry for each dimension");
  *out = e->in[0]->aval;
  return MR_OK;
}

/* Its cotangent lies as it does, as in jax. */
static mr_err_t constraint_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                               mr_var_t **din) {
  din[0] = mr_lax_shard(f, dout[0], mr_attr_get(e, "spec")->text);
  return mr_rule_done(f);
}

/* The mapped dimension is whole. */
static mr_err_t constraint_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                                 mr_batched_t *out) {
  const char *spec = mr_attr_get(e, "spec")->text;
  entry_t entry[MR_MAX_NDIM];
  int n = entries_of(spec, entry), axis = in[0].axis;
  size_t room = strlen(spec) + 16, at = 0;
  char *text = mr_mem_take(&f->mem, room);
  if (!text || n < 0) return mr_rule_done(f);
  at += (size_t)snprintf(text, room, "(");
  for (int d = 0; d <= n; d++) {
    if (d == axis) at += (size_t)snprintf(text + at, room - at, "%sNone", d ? "," : "");
    if (d < n)
      at += (size_t)snprintf(text + at, room - at, "%s%.*s", d || d == axis ? "," : "", entry[d].n,
                             entry[d].at);
  }
  snprintf(text + at, room - at, ")");
  out[0] = (mr_batched_t){mr_lax_shard(f, in[0].var, text), axis};
  return mr_rule_done(f);
}

static bool constraint_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 4, 2);
  return mr_sample_done(s, mr_lax_shard(s->f, x, "(None,None)"));
}

const mr_op_def_t mr_op_sharding_constraint = {
    MR_RULES_PRIMITIVE,
    .name = "sharding_constraint",
    .n_in = 1,
    .n_out = 1,
    .kind = MR_OP_ALIAS,
    .shape = constraint_shape,
    .batch = constraint_batch,
    .sample = constraint_sample,
    .ad = {.jvp = mr_jvp_linear, .vjp = constraint_vjp},
    .fuse = {.unit = mr_unit_same},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_shard_each},
};
