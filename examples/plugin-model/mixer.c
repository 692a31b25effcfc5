/* A plug-in with a model: the MLP-Mixer (Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for
   Vision", 2021).  Its settings are those of train-step model=mixer.

   cc -O2 -shared -fPIC mixer.c $(pkg-config --cflags millrace-plugin) -o mixer.so
   millrace train --plugin ./mixer.so model=mixer width=128 layers=4 */
#include <millrace.h>
#include <stdio.h>

typedef struct mixer {
  int64_t patch, width, tokens_mlp, mlp, layers, classes; /* classes: of the label */
} mixer_t;

#define SIZE(text, member, usual, words)                                                          \
  {                                                                                               \
    .name = text, .type = MR_OPT_INT, .offset = offsetof(mixer_t, member), .def = usual, .lo = 1, \
    .hi = 65536, .help = words                                                                    \
  }
static const mr_opt_t mixer_opts[] = {
    SIZE("patch", patch, "4", "Pixels along a patch."),
    SIZE("width", width, "128", "Width of a token."),
    SIZE("tokens-mlp", tokens_mlp, "64", "Width inside the MLP over tokens."),
    SIZE("mlp", mlp, "512", "Width inside the MLP over channels."),
    SIZE("layers", layers, "4", "Blocks."),
    {0}};

/* Before anything runs: what is taken of a batch, and what comes out. */
static mr_err_t mixer_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) {
  mixer_t *m = state;
  const mr_model_field_t *image = mr_model_take(p, "image", diag), *label;
  if (!image || !(label = mr_model_take(p, "label", diag))) return MR_ERR_SHAPE;
  if (image->aval.dtype != MR_F32 || image->aval.ndim != 3 || label->classes < 1)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "want image f32 (H,W,C), as `normalize` makes it, and label");
  if (image->aval.dim[0] % m->patch || image->aval.dim[1] % m->patch)
    return mr_fail(diag, MR_ERR_CONFIG, "patch = %d does not divide %d x %d pixels", (int)m->patch,
                   (int)image->aval.dim[0], (int)image->aval.dim[1]);
  p->loss.classes = m->classes = label->classes;
  mr_model_reports(p, "accuracy");
  return MR_OK;
}

/* (B,T,E) -> (B,E,T) */
static mr_var_t *turned(mr_nn_t *s, mr_var_t *x) {
  return x ? mr_lax_transpose(s->f, x, (int[]){0, 2, 1}) : NULL;
}

/* x (B,T,E): over tokens, then over channels, each with what was there added. */
static mr_var_t *block(mr_nn_t *s, const void *arg, mr_var_t *x) {
  const mixer_t *m = arg;
  size_t mark = mr_nn_enter(s, "tokens");
  mr_var_t *y = turned(s, mr_nn_layer_norm(s, "norm", x, 1e-6f));
  x = mr_nn_residual(s, x, turned(s, mr_nn_mlp(s, y, m->tokens_mlp)));
  mr_nn_leave(s, mark);
  mark = mr_nn_enter(s, "channels");
  x = mr_nn_residual(s, x, mr_nn_mlp(s, mr_nn_layer_norm(s, "norm", x, 1e-6f), m->mlp));
  mr_nn_leave(s, mark);
  return x;
}

/* The mean over all tokens: (B,T,E) -> (B,E). */
static mr_var_t *mean(mr_fn_t *f, mr_var_t *x) {
  if (!x) return NULL;
  double tokens = (double)x->aval.dim[1];
  return mr_lax_scale(f, 1 / tokens, mr_lax_reduce_sum(f, x, 1, (int[]){1}));
}

static mr_err_t mixer_loss(const void *state, mr_nn_t *s, mr_var_t *const *field,
                           mr_loss_out_t *out) {
  const mixer_t *m = state;
  mr_fn_t *f = s->f;
  mr_var_t *x = mr_nn_patch_embed(s, "patches", field[0], m->patch, m->width);
  if (x) x = mr_lax_convert(f, x, MR_F32);
  for (int i = 0; i < m->layers; i++) {
    char name[24];
    snprintf(name, sizeof name, "blocks.%d", i);
    size_t mark = mr_nn_enter(s, name);
    x = mr_nn_remat(s, s->remat, block, m, x);
    mr_nn_leave(s, mark);
  }
  x = mr_nn_layer_norm(s, "norm", mean(f, x), 1e-6f);
  x = mr_nn_linear(s, "head", x, m->classes);
  if (!x) return f->diag.code;
  out->out[0] = mr_lax_convert(f, x, MR_F32);
  out->losses = mr_lax_softmax_cross_entropy(f, out->out[0], field[1], 0);
  out->loss =
      mr_lax_scale(f, 1 / (double)x->aval.dim[0], mr_lax_reduce_sum(f, out->losses, 1, (int[]){0}));
  return f->diag.code;
}

static mr_err_t mixer_metrics(const void *state, mr_fn_t *f, mr_var_t *const *field,
                              mr_var_t *const *out, mr_loss_report_t *reported) {
  return mr_loss_report_classes(f, out[0], field[1], reported);
}

static const mr_model_def_t mixer = {
    .name = "mixer",
    .help = "An MLP-Mixer: MLPs over tokens and over channels in turn, without attention.",
    .opts = mixer_opts,
    .state_sz = sizeof(mixer_t),
    .shapes = "patch width tokens-mlp mlp layers",
    .remat = true,
    .plan = mixer_plan,
    .loss = mixer_loss,
    .metrics = mixer_metrics,
};

static const mr_model_def_t *const models[] = {&mixer, NULL};

const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "mixer", .models = models};
