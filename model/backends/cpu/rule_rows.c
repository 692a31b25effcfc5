/* How the CPU lowers composites that have a kernel of their own for rows or heads (layer norm,
   softmax, attention, losses), and the optimizer's update.  The rules read attributes once, when a
   graph is compiled, and a run only passes them on to the kernels. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/rules.h"
#include "model/ir/element.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

/* ---- layer norm ---- */
typedef struct norm {
  float eps;
  bool two_pass;
} norm_t;

static void layer_norm_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  const norm_t *s = c->state;
  mr_layer_norm_fwd(x->dtype, c->in[0], c->in[1], c->in[2], s->eps, s->two_pass, y->dtype,
                    c->out[0], c->out[1], c->out[2], mr_aval_span(x, 0, x->ndim - 1),
                    x->dim[x->ndim - 1]);
}

mr_err_t mr__cpu_layer_norm(mr_call_t *c, mr_diag_t *diag) {
  norm_t s = {(float)mr_attr_get(c->eqn, "eps")->f, mr_attr_get(c->eqn, "two_pass")->i[0] != 0};
  c->run = layer_norm_run;
  return mr__call_state(c, &s, sizeof s, diag);
}

static void layer_norm_vjp_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  mr_layer_norm_bwd(x->dtype, c->in[0], c->in[1], c->in[2], c->in[3], c->eqn->in[4]->aval.dtype,
                    c->in[4], c->out[0], c->out[1], c->out[2], c->scratch,
                    mr_aval_span(x, 0, x->ndim - 1), x->dim[x->ndim - 1]);
}

mr_err_t mr__cpu_layer_norm_vjp(mr_call_t *c, mr_diag_t *diag) {
  c->run = layer_norm_vjp_run;
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  c->scratch_bytes = mr_layer_norm_scratch(mr_aval_span(x, 0, x->ndim - 1), x->dim[x->ndim - 1]);
  return MR_OK;
}

/* ---- softmax, and the loss ---- */
static void rule_rows_softmax_row(mr_dtype_t t, const void *x, void *y, int64_t at, int64_t n) {
  float top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) top = fmaxf(top, mr_get_f32(t, x, at + i));
  for (int64_t i = 0; i < n; i++) sum += expf(mr_get_f32(t, x, at + i) - top);
  for (int64_t i = 0; i < n; i++)
    mr_set_f32(t, y, at + i, expf(mr_get_f32(t, x, at + i) - top) / sum);
}

static void softmax_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  int64_t n = x->dim[x->ndim - 1], rows = mr_aval_span(x, 0, x->ndim - 1);
#pragma omp parallel for schedule(static) if (rows * n > 16384)
  for (int64_t r = 0; r < rows; r++) rule_rows_softmax_row(x->dtype, c->in[0], c->out[0], r * n, n);
}

mr_err_t mr__cpu_softmax(mr_call_t *c, mr_diag_t *diag) {
  c->run = softmax_run;
  return MR_OK;
}

static void xent_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const float *smoothing = c->state;
  mr_xent_fwd(c->in[0], c->in[1], *smoothing, c->out[0], x->dim[0], x->dim[1]);
}

static void xent_vjp_run(const mr_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval;
  const float *smoothing = c->state;
  mr_xent_bwd(c->in[0], c->in[1], *smoothing, c->in[2], c->out[0], x->dim[0], x->dim[1]);
}

static mr_err_t lower_xent(mr_call_t *c, void (*run)(const mr_call_t *c), mr_diag_t *diag) {
  float smoothing = (float)mr_attr_get(c->eqn, "smoothing")->f;
  c->run = run;
  return mr__call_state(c, &smoothing, sizeof smoothing, diag);
}

mr_err_t mr__cpu_softmax_cross_entropy(mr_call_t *c, mr_diag_t *diag) {
  return lower_xent(c, xent_run, diag);
}

mr_err_t mr__cpu_softmax_cross_entropy_vjp(mr_call_t *c, mr_diag_t *diag) {
  return lower_xent(c, xent_vjp_run, diag);
}

/* ---- attention ---- */
static mr_attention_spec_t attention_spec(const mr_eqn_t *e) {
  mr_attention_sizes_t z = mr__attention_sizes(e);
  int64_t token = z.H * z.D, stride = z.packed ? 3 * token : token;
  return (mr_attention_spec_t){.B = z.B,
                               .T = z.T,
                               .H = z.H,
                               .D = z.D,
                               .q_tok = stride,
                               .k_tok = stride,
                               .v_tok = stride,
                               .o_tok = token,
                               .scale = (float)mr_attr_get(e, "scale")->f,
                               .t = e->in[0]->aval.dtype};
}

/* Points qkv at q, k and v, in one packed array or in three arrays. */
static void attention_split(const mr_attention_spec_t *s, void *const *in, void **qkv) {
  size_t token = (size_t)(s->H * s->D) * mr_dtype_size(s->t);
  bool packed = s->q_tok != s->o_tok;
  for (size_t i = 0; i < 3; i++) qkv[i] = packed ? (char *)in[0] + i * token : in[i];
}

static void attention_run(const mr_call_t *c) {
  const mr_attention_spec_t *s = c->state;
  void *qkv[3];
  attention_split(s, c->in, qkv);
  mr_attention_fwd(s, qkv[0], qkv[1], qkv[2], c->out[0], c->out[1]);
}

static void attention_vjp_run(const mr_call_t *c) {
  const mr_attention_spec_t *s = c->state;
  int n = c->eqn->n_out;
  void *qkv[3], *d[3];
  attention_split(s, c->in, qkv);
  attention_split(s, c->out, d);
  mr_attention_bwd(s, qkv[0], qkv[1], qkv[2], c->in[n], c->in[n + 1], c->in[n + 2], d[0], d[1],
                   d[2]);
}

static mr_err_t lower_attention(mr_call_t *c, void (*run)(const mr_call_t *c), mr_diag_t *diag) {
  mr_attention_spec_t s = attention_spec(c->eqn);
  c->run = run;
  c->how = mr_attention_how(&s);
  c->borrowed = mr_attention_workspace(&s, run == attention_vjp_run);
  c->borrowers = omp_get_max_threads();
  return mr__call_state(c, &s, sizeof s, diag);
}

mr_err_t mr__cpu_attention(mr_call_t *c, mr_diag_t *diag) {
  return lower_attention(c, attention_run, diag);
}

mr_err_t mr__cpu_attention_vjp(mr_call_t *c, mr_diag_t *diag) {
  return lower_attention(c, attention_vjp_run, diag);
}

/* ---- AdamW ---- */
/* What is donated is where it stays. */
static void adamw_leave(const mr_call_t *c) {
  static const int from[] = {0, 2, 3};
  size_t bytes = mr_aval_bytes(&c->eqn->in[0]->aval);
  for (int k = 0; k < 3; k++)
    if (bytes && c->out[k] != c->in[from[k]]) memcpy(c->out[k], c->in[from[k]], bytes);
}

static void adamw_run(const mr_call_t *c) {
  if (c->eqn->n_in > 7 && !*(const uint8_t *)c->in[7]) {
    adamw_leave(c);
    return;
  }
  double t = *(const float *)c->in[5];
  mr_adamw_step_t s = *(const mr_adamw_step_t *)c->state;
  s.lr = *(const float *)c->in[4];
  s.grad_scale = *(const float *)c->in[6];
  s.bias1 = (float)(1 - pow(s.b1, t));
  s.bias2 = (float)(1 - pow(s.b2, t));
  mr_adamw(&s, c->in[0], c->in[1], c->in[2], c->in[3], c->out[0], c->out[1], c->out[2],
           mr_aval_elems(&c->eqn->in[0]->aval));
}

mr_err_t mr__cpu_adamw(mr_call_t *c, mr_diag_t *diag) {
  mr_adamw_step_t s = {.b1 = (float)mr_attr_get(c->eqn, "b1")->f,
                       .b2 = (float)mr_attr_get(c->eqn, "b2")->f,
                       .eps = (float)mr_attr_get(c->eqn, "eps")->f,
                       .weight_decay = (float)mr_attr_get(c->eqn, "weight_decay")->f};
  c->run = adamw_run;
  return mr__call_state(c, &s, sizeof s, diag);
}
