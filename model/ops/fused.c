/* A chain of elementwise ops, possibly with sums at its end, as one loop.  The compiler creates it
   (transforms/fuse.c), after all transforms.

   With the attribute `tensors` it is that many loops which compute the same, each of tensors of its
   own (transforms/join.c): the function holds their bodies one after the other, with as many
   equations and as many results each.  With the attribute `beside` it is no loop, but that many
   equations which do not depend on one another (transforms/beside.c), a result each. */
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

const mr_fn_t *mr__loop_body(const mr_eqn_t *e) {
  return e->op == &mr_op_fused ? mr_attr_called(e, "jaxpr") : NULL;
}

static mr_err_t fused_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  return mr__call_shape(e, "jaxpr", out, diag);
}

/* The body's equations come from the graph around it: their scopes are whole. */
static mr_err_t fused_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  const char *outer = f->scope;
  f->scope = "";
  mr_err_t err = mr__call_inline(f, e, "jaxpr", out);
  f->scope = outer;
  return err;
}

/* Of loops over several tensors: whether v is read only by the loop that gives result o. */
static bool only_read_for(const mr_eqn_t *e, const mr_var_t *v, int o) {
  const mr_fn_t *body = mr_attr_called(e, "jaxpr");
  int tensors = (int)mr_attr_get(e, "tensors")->i[0];
  int each = body->n_eqn / tensors, own = o / (body->n_out / tensors);
  if (mr_aval_elems(&v->aval) != mr_aval_elems(&e->out[o]->aval)) return false;
  for (int i = 0; i < body->n_eqn; i++)
    for (int k = 0; i / each != own && k < body->eqn[i]->n_in; k++)
      if (body->eqn[i]->in[k] == v) return false;
  return true;
}

/* Only if the operand has as many elements as the result and no value of the loop has more: each
   element is then read before the result's is written over it. */
static bool fused_reuses(const mr_eqn_t *e, int k, int o) {
  const mr_fn_t *body = mr_attr_called(e, "jaxpr");
  if (mr_attr_find(e, "tensors")) return only_read_for(e, body->in[k], o);
  if (mr_attr_find(e, "beside")) return false;
  if (k >= MR_INPLACE_IN || o >= MR_INPLACE_OUT) return false;
  int64_t n = mr_aval_elems(&e->in[k]->aval);
  for (int i = 0; i < body->n_eqn; i++)
    if (mr_aval_elems(&body->eqn[i]->out[0]->aval) > n) return false;
  return n == mr_aval_elems(&e->out[o]->aval);
}

/* The sample: sin(x) y + row, and the sums of its rows. */
static bool fused_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b = mr_fn_create();
  mr_var_t *x = mr_fn_input(b, mr_aval_of(MR_F32, 2, 3)), *y = mr_fn_input(b, x->aval);
  mr_var_t *row = mr_fn_input(b, mr_aval_of(MR_F32, 3));
  mr_var_t *z = mr_lax_mul(b, mr_lax_sin(b, x), y);
  z = mr_lax_add(b, z, mr_lax_broadcast_in_dim(b, row, 2, z->aval.dim, (int[]){1}));
  mr_fn_return(b, 2, (mr_var_t *[]){z, mr_lax_reduce_sum(b, z, 1, (int[]){1})});
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 2, 3),
                    mr_sample_f32(s, -1, 1, 3)};
  mr_eqn_t *e = mr_emit(s->f, op, 3, in, 1, (mr_attr_t[]){mr_attr_fn("jaxpr", b)}, 2);
  mr_fn_destroy(b);
  if (e) mr_fn_return(s->f, 2, e->out);
  return true;
}

const mr_op_def_t mr_op_fused = {
    .name = "fused",
    .n_in = -1,
    .n_out = -1,
    .shape = fused_shape,
    .batch = mr_batch_open,
    .open = fused_open,
    .sample = fused_sample,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .reuse = {.of = {0xFF, 0xFF, 0xFF, 0xFF}, .may = fused_reuses, .any = true},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.body = "jaxpr"},
    .shard = {mr_shard_open},
};
