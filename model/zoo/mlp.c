/* A multilayer perceptron.  It predicts the numbers of the field y if batches have one, else the
   class in the field label, or the shares of classes in it. */
#include <inttypes.h>
#include <stdio.h>

#include "model/zoo/shared_opts.h"
#include "model/zoo/zoo.h"

typedef struct mlp {
  int64_t hidden, layers;
  double dropout, focal_gamma, label_smoothing;
  int activation, gelu;
  int loss;     /* 0: auto; else 1 + mr_class_loss_kind_t */
  int64_t outs; /* classes, or numbers of y */
  bool targets; /* the label is a row of one-hot or mixup */
} mlp_t;

static const mr_opt_t mlp_opts[] = {
    {.name = "hidden",
     .hint = "hiddensize hiddendim hiddenunits units width dim",
     .type = MR_OPT_INT,
     .offset = offsetof(mlp_t, hidden),
     .def = "512",
     .lo = 1,
     .hi = 262144,
     .help = "Width of a hidden layer."},
    {.name = "layers",
     .hint = "numlayers nlayers depth numhiddenlayers",
     .type = MR_OPT_INT,
     .offset = offsetof(mlp_t, layers),
     .def = "2",
     .hi = 64,
     .help = "Hidden layers, each followed by activation and dropout; 0: a linear model."},
    {.name = "dropout",
     .hint = "dropoutrate droprate dropoutprob",
     .type = MR_OPT_F64,
     .offset = offsetof(mlp_t, dropout),
     .def = "0",
     .hi = 0.99,
     .help = "Rate of dropout behind each hidden layer, while training."},
    MR__ACTIVATION_OPTS(offsetof(mlp_t, activation), offsetof(mlp_t, gelu), "tanh"),
    MR__LOSS_OPTS(offsetof(mlp_t, loss), offsetof(mlp_t, focal_gamma),
                  offsetof(mlp_t, label_smoothing), "auto", mr_class_loss_auto_choices,
                  "  auto: cross-entropy, and of numbers y the mean of squared differences, which "
                  "is mse."),
    {0}};

static mr_err_t mlp_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) {
  mlp_t *m = state;
  const mr_model_field_t *x = mr_model_may_take(p, "x");
  if (!x && !(x = mr_model_take(p, "image", diag))) return MR_ERR_SHAPE;
  if (x->aval.dtype != MR_F32)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "want %s of f32; of pictures `normalize` before batch makes that", x->name);
  const mr_model_field_t *y = mr_model_may_take(p, "y");
  p->loss.masked = y != NULL;
  if (!y && !(y = mr_model_take(p, "label", diag))) return MR_ERR_SHAPE;
  bool floats = y->aval.dtype == MR_F32, numbers = p->loss.masked;
  m->targets = !numbers && floats && y->aval.ndim == 1 && y->aval.dim[0] > 0;
  if (numbers ? !floats : y->classes < 1 && !m->targets)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "want y of f32, or a label with classes, or labels of one-hot");
  if (numbers && m->loss && m->loss - 1 != MR_CLASS_LOSS_MSE)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting loss: it is of classes, and y has numbers: want auto or mse");
  if (numbers && m->label_smoothing > 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "setting label-smoothing: it is of classes, and y has numbers: want 0");
  p->loss.classes = y->classes, p->loss.masked = numbers || m->targets;
  m->outs = p->loss.masked ? mr_aval_elems(&y->aval) : y->classes;
  mr_model_reports(p, numbers ? "mean_error" : "accuracy");
  if (!numbers && m->outs >= MR_LOSS_TOP5_FROM) mr_model_judged_by(p, &mr_loss_top5);
  return MR_OK;
}

/* Reshapes (B, ...) to (B, N). */
static mr_var_t *flatten_batch(mr_fn_t *f, mr_var_t *x) {
  return mr_lax_reshape_to(f, x, x->aval.dim[0], mr_aval_span(&x->aval, 1, x->aval.ndim));
}

/* The mean of the squared (or absolute) differences of each record: f32 (B). */
static mr_var_t *mean_difference(mr_fn_t *f, mr_var_t *got, mr_var_t *want, bool squared) {
  mr_var_t *d = mr_lax_sub(f, got, flatten_batch(f, want));
  d = mr_lax_reduce_sum(f, squared ? mr_lax_mul(f, d, d) : mr_lax_abs(f, d), 1, (int[]){1});
  return mr_lax_scale(f, 1 / (double)got->aval.dim[1], d);
}

static mr_err_t mlp_loss(const void *state, mr_nn_t *s, mr_var_t *const *field,
                         mr_loss_out_t *out) {
  const mlp_t *m = state;
  mr_fn_t *f = s->f;
  mr_var_t *x = flatten_batch(f, field[0]), *y = field[1];
  bool classes = y->aval.dtype == MR_I32;
  const mr_class_loss_t l = {.kind = (mr_class_loss_kind_t)(m->loss ? m->loss - 1 : 0),
                             .gamma = m->focal_gamma,
                             .smoothing = s->train ? m->label_smoothing : 0};
  const mr_gelu_t gelu = mr_nn_gelu_of((mr_nn_gelu_t)m->gelu, MR_GELU_TANH);
  s->dropout = s->train ? (float)m->dropout : 0;
  for (int i = 0; i < m->layers; i++) {
    char name[24], dropout[24];
    snprintf(name, sizeof name, "hidden.%d", i), snprintf(dropout, sizeof dropout, "dropout.%d", i);
    x = mr_nn_activate(f, (mr_activation_t)m->activation, gelu,
                       mr_nn_linear(s, name, x, m->hidden));
    x = mr_nn_dropout_module(s, dropout, x);
  }
  x = mr_nn_linear(s, "head", x, m->outs);
  mr_nn_applied_to(s, "MLP", field[0], x);
  if (!x) return f->diag.code;
  out->out[0] = x;
  if (classes || m->targets)
    out->losses = mr_class_losses(f, &l, x, y, classes ? NULL : field[2]);
  else
    out->losses = mr_lax_mul(f, mean_difference(f, x, y, true), field[2]);
  out->loss =
      mr_lax_scale(f, 1 / (double)x->aval.dim[0], mr_lax_reduce_sum(f, out->losses, 1, (int[]){0}));
  return f->diag.code;
}

static mr_err_t mlp_metrics(const void *state, mr_fn_t *f, mr_var_t *const *field,
                            mr_var_t *const *out, mr_loss_report_t *reported) {
  const mlp_t *m = state;
  if (field[1]->aval.dtype == MR_I32) return mr_loss_report_classes(f, out[0], field[1], reported);
  if (m->targets) return mr_loss_report_targets(f, out[0], field[1], field[2], reported);
  reported->counts = field[2];
  reported->metric[0] = mean_difference(f, out[0], field[1], false);
  return f->diag.code;
}

/* The same model has one text: gelu is said where it is one, and by erf. */
static void mlp_text(const void *state, const mr_model_plan_t *p, char *text, size_t n) {
  const mlp_t *m = state;
  const mr_loss_t *l = &p->loss;
  const char *activation = mr_activation_name((mr_activation_t)m->activation);
  bool is_gelu = m->activation == MR_ACTIVATION_GELU;
  char aval[MR_AVAL_TEXT];
  size_t at = (size_t)snprintf(text, n, "mlp");
  for (int i = 0; i < l->n_fields && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, " %s=%s", l->field[i].name,
                           mr_aval_text(&l->field[i].aval, aval));
  if (l->classes && at < n)
    at += (size_t)snprintf(text + at, n - at, " classes=%" PRId64, l->classes);
  if (at < n)
    snprintf(text + at, n - at, " hidden=%" PRId64 " layers=%" PRId64 "%s%s%s", m->hidden,
             m->layers, is_gelu ? "" : " activation=", is_gelu ? "" : activation,
             is_gelu && m->gelu == MR_NN_GELU_ERF ? " gelu=erf" : "");
}

/* Megatron's pairs: hidden layers 0, 2, 4 by columns, those between by rows. */
#define COLUMNS(digit) "hidden.*" digit ".kernel=(None,model), hidden.*" digit ".bias=(model), "
#define ROWS(digit) "hidden.*" digit ".kernel=(model,None), "
static const char mlp_partition[] = COLUMNS("0") ROWS("1") COLUMNS("2") ROWS("3") COLUMNS("4")
    ROWS("5") COLUMNS("6") ROWS("7") COLUMNS("8") "hidden.*9.kernel=(model,None)";

const mr_model_def_t mr_model_mlp = {
    .name = "mlp",
    .help = "A multilayer perceptron: classes of image, or numbers y of x.",
    .opts = mlp_opts,
    .state_sz = sizeof(mlp_t),
    .shapes = "hidden layers activation? gelu?",
    .plan = mlp_plan,
    .loss = mlp_loss,
    .metrics = mlp_metrics,
    .text = mlp_text,
    .partition = mlp_partition,
};
