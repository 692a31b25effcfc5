/* The configuration of a Vision Transformer, its check, and its loss.  The two variants, flax's and
   timm's, are functions of their own (vit_flax.c, vit_timm.c), since they differ in every detail
   that names, layouts and random draws depend on. */
#include "model/nn/vit_private.h"

mr_vit_config_t mr_vit_default(void) {
  return (mr_vit_config_t){.variant = MR_VIT_FLAX,
                           .image = 32,
                           .patch = 4,
                           .channels = 3,
                           .embed = 384,
                           .mlp = 1536,
                           .heads = 8,
                           .layers = 6,
                           .classes = 10,
                           .dropout = 0.1f,
                           .proj_drop = -1};
}

static mr_err_t vit_in_range(const char *name, int v, int lo, int hi, mr_diag_t *diag) {
  if (v >= lo && v <= hi) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "vit.%s: %d, want [%d,%d]", name, v, lo, hi);
}

static mr_err_t check_rate(const char *name, float v, mr_diag_t *diag) {
  if (v >= 0 && v < 1) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "vit.%s: %g, want [0,1)", name, (double)v);
}

mr_err_t mr_vit_check(const mr_vit_config_t *c, mr_diag_t *diag) {
  MR_TRY(vit_in_range("image", c->image, 1, 4096, diag));
  MR_TRY(vit_in_range("patch", c->patch, 1, c->image, diag));
  MR_TRY(vit_in_range("channels", c->channels, 1, 64, diag));
  MR_TRY(vit_in_range("embed", c->embed, 1, 65536, diag));
  MR_TRY(vit_in_range("mlp", c->mlp, 1, 262144, diag));
  MR_TRY(vit_in_range("heads", c->heads, 1, c->embed, diag));
  MR_TRY(vit_in_range("layers", c->layers, 1, 1024, diag));
  MR_TRY(vit_in_range("classes", c->classes, 2, 1 << 20, diag));
  if (c->image % c->patch)
    return mr_fail(diag, MR_ERR_CONFIG, "vit.patch: %d, want a divisor of the image size %d",
                   c->patch, c->image);
  if (c->embed % c->heads)
    return mr_fail(diag, MR_ERR_CONFIG, "vit.heads: %d, want a divisor of embed %d", c->heads,
                   c->embed);
  MR_TRY(check_rate("dropout", c->dropout, diag));
  MR_TRY(check_rate("attn-drop", c->attn_drop, diag));
  if (c->proj_drop != -1) MR_TRY(check_rate("proj-drop", c->proj_drop, diag));
  MR_TRY(check_rate("drop-path", c->drop_path, diag));
  if (c->variant == MR_VIT_FLAX && (c->drop_path > 0 || c->no_qkv_bias))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "vit: drop-path and no qkv bias are timm's; take style=timm");
  if (!(c->ln_eps >= 0 && c->ln_eps < 1))
    return mr_fail(diag, MR_ERR_CONFIG, "vit.ln-eps: %g, want [0,1)", (double)c->ln_eps);
  MR_TRY(check_rate("label-smoothing", c->label_smoothing, diag));
  if (c->loss == MR_CLASS_LOSS_FOCAL && !(c->focal_gamma >= 1 && c->focal_gamma <= 100))
    return mr_fail(diag, MR_ERR_CONFIG, "vit.focal-gamma: %g, want [1,100]",
                   (double)c->focal_gamma);
  return MR_OK;
}

float mr_vit_ln_eps(const mr_vit_config_t *c) {
  return c->ln_eps > 0 ? c->ln_eps : c->variant == MR_VIT_FLAX ? 1e-6f : 1e-5f;
}

mr_var_t *mr__vit_norm(mr_nn_t *s, const mr_vit_config_t *c, const char *name, mr_var_t *x) {
  float eps = mr_vit_ln_eps(c);
  if (c->variant == MR_VIT_FLAX)
    return c->rms ? mr_nn_rms_norm(s, name, x, eps) : mr_nn_layer_norm(s, name, x, eps);
  return c->rms ? mr_nn_rms_norm_timm(s, name, x, eps) : mr_nn_layer_norm_timm(s, name, x, eps);
}

mr_var_t *mr__vit_token(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens) {
  if (!tokens) return NULL;
  const mr_aval_t *a = &tokens->aval;
  if (a->ndim != 3 || a->dim[2] != c->embed) {
    char text[MR_AVAL_TEXT];
    mr_fail(&s->f->diag, MR_ERR_SHAPE, "vit head: tokens are %s, want (B,T,%d)",
            mr_aval_text(a, text), c->embed);
    return NULL;
  }
  if (a->dim[1] > 1) tokens = mr_nn_first_token(s, tokens);
  return tokens ? mr_lax_reshape_to(s->f, tokens, a->dim[0], a->dim[2]) : NULL;
}

/* Gives s the rates and switches of c. */
static void vit_configure(mr_nn_t *s, const mr_vit_config_t *c) {
  if (s->train) {
    s->dropout = c->dropout, s->attn_drop = c->attn_drop;
    s->proj_drop = c->proj_drop == -1 ? c->dropout : c->proj_drop;
  }
  s->no_qkv_bias = c->no_qkv_bias;
  s->activation = c->activation, s->gelu = c->gelu;
}

mr_var_t *mr_vit_forward_features(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images) {
  vit_configure(s, c);
  if (c->variant == MR_VIT_FLAX) return mr__vit_flax_tokens(s, c, images, false);
  return mr__vit_timm_tokens(s, c, images, false);
}

mr_var_t *mr_vit_forward_head(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens) {
  vit_configure(s, c);
  if (c->variant == MR_VIT_FLAX) return mr__vit_flax_logits(s, c, tokens);
  return mr__vit_timm_logits(s, c, tokens);
}

mr_err_t mr_vit_trace(const void *config, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out) {
  const mr_vit_config_t *c = config;
  mr_var_t *images = field[0], *labels = field[1];
  mr_fn_t *f = s->f;
  vit_configure(s, c);
  mr_var_t *logits =
      c->variant == MR_VIT_FLAX ? mr_vit_flax(s, c, images) : mr_vit_timm(s, c, images);
  const mr_class_loss_t l = {c->loss, (double)c->focal_gamma,
                             s->train ? (double)c->label_smoothing : 0};
  bool targets = labels->aval.dtype == MR_F32; /* rows of one-hot or mixup, and then the mask */
  mr_var_t *losses = mr_class_losses(f, &l, logits, labels, targets ? field[2] : NULL);
  if (!losses) return f->diag.code;
  double batch = (double)losses->aval.dim[0];
  mr_var_t *loss = mr_lax_reduce_sum(f, losses, 1, (int[]){0});
  loss = mr_lax_div(f, loss, mr_literal(f, MR_F32, batch));
  *out = (mr_loss_out_t){.loss = loss, .losses = losses, .out = {logits}};
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

mr_err_t mr_vit_metrics(const void *of, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                        mr_loss_report_t *reported) {
  if (field[1]->aval.dtype == MR_F32)
    return mr_loss_report_targets(f, out[0], field[1], field[2], reported);
  return mr_loss_report_classes(f, out[0], field[1], reported);
}

mr_loss_t mr_vit_loss(const mr_vit_config_t *c) {
  mr_model_field_t image = {.name = "image",
                            .aval = mr_aval_of(MR_F32, c->image, c->image, c->channels),
                            .layout = "HWC"};
  mr_model_field_t label = {
      .name = "label", .aval = mr_aval_scalar(MR_I32), .layout = "", .classes = c->classes};
  return (mr_loss_t){.of = c,
                     .trace = mr_vit_trace,
                     .metrics = mr_vit_metrics,
                     .n_fields = 2,
                     .field = {image, label},
                     .classes = c->classes,
                     .n_metrics = 1,
                     .metric = {MR_METRIC_OWN(ACCURACY)}};
}
