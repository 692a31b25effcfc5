#include "model/nn/vit.h"

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
                           .proj_drop = -1,
                           .dtype = MR_BF16};
}

static mr_err_t in_range(const char *name, int v, int lo, int hi, mr_diag_t *diag) {
  if (v >= lo && v <= hi) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "vit.%s: %d, want [%d,%d]", name, v, lo, hi);
}

static mr_err_t rate(const char *name, float v, mr_diag_t *diag) {
  if (v >= 0 && v < 1) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "vit.%s: %g, want [0,1)", name, (double)v);
}

mr_err_t mr_vit_check(const mr_vit_config_t *c, mr_diag_t *diag) {
  MR_TRY(in_range("image", c->image, 1, 4096, diag));
  MR_TRY(in_range("patch", c->patch, 1, c->image, diag));
  MR_TRY(in_range("channels", c->channels, 1, 64, diag));
  MR_TRY(in_range("embed", c->embed, 1, 65536, diag));
  MR_TRY(in_range("mlp", c->mlp, 1, 262144, diag));
  MR_TRY(in_range("heads", c->heads, 1, c->embed, diag));
  MR_TRY(in_range("layers", c->layers, 1, 256, diag));
  MR_TRY(in_range("classes", c->classes, 2, 1 << 20, diag));
  MR_TRY(in_range("threads", c->threads, 0, 1024, diag));
  if (c->image % c->patch)
    return mr_fail(diag, MR_ERR_CONFIG, "vit.patch: %d, want a divisor of the image size %d",
                   c->patch, c->image);
  if (c->embed % c->heads)
    return mr_fail(diag, MR_ERR_CONFIG, "vit.heads: %d, want a divisor of embed %d", c->heads,
                   c->embed);
  MR_TRY(rate("dropout", c->dropout, diag));
  MR_TRY(rate("attn-drop", c->attn_drop, diag));
  if (c->proj_drop != -1) MR_TRY(rate("proj-drop", c->proj_drop, diag));
  MR_TRY(rate("drop-path", c->drop_path, diag));
  if (c->variant == MR_VIT_FLAX && (c->drop_path > 0 || c->no_qkv_bias))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "vit: drop-path and no qkv bias are timm's; take model=timm");
  if (!(c->ln_eps >= 0 && c->ln_eps < 1))
    return mr_fail(diag, MR_ERR_CONFIG, "vit.ln-eps: %g, want [0,1)", (double)c->ln_eps);
  if (c->dtype != MR_F32 && c->dtype != MR_BF16)
    return mr_fail(diag, MR_ERR_CONFIG, "vit.dtype: %s, want f32 or bf16", mr_dtype_name(c->dtype));
  return MR_OK;
}

const char *mr_vit_remat_name(mr_vit_remat_t r) {
  static const char *const names[] = {"none", "dots", "full"};
  return names[r];
}

mr_policy_fn *mr_vit_policy(const mr_nn_t *s, const mr_vit_config_t *c) {
  if (!s->train || c->remat == MR_VIT_REMAT_NONE) return NULL;
  return c->remat == MR_VIT_REMAT_DOTS ? mr_save_dots : mr_save_nothing;
}

static void build(mr_fn_t *f, const mr_vit_config_t *c, int64_t batch, bool train, float smoothing,
                  mr_params_t *params) {
  mr_var_t *images = mr_fn_input(f, mr_aval_of(MR_F32, batch, c->image, c->image, c->channels));
  mr_var_t *labels = mr_fn_input(f, mr_aval_of(MR_I32, batch));
  mr_nn_t s = {.f = f,
               .params = params,
               .dtype = c->dtype,
               .dropout = train ? c->dropout : 0,
               .train = train,
               .attn_drop = train ? c->attn_drop : 0,
               .proj_drop = !train               ? 0
                            : c->proj_drop == -1 ? c->dropout
                                                 : c->proj_drop,
               .no_qkv_bias = c->no_qkv_bias};
  if (c->precision) f->precision = c->precision;
  s.next_site = c->first_site;
  s.seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  s.step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  mr_var_t *logits =
      c->variant == MR_VIT_FLAX ? mr_vit_flax(&s, c, images) : mr_vit_timm(&s, c, images);
  logits = mr_lax_convert(f, logits, MR_F32);
  mr_var_t *losses = mr_lax_softmax_cross_entropy(f, logits, labels, smoothing);
  mr_var_t *loss = mr_lax_reduce_sum(f, losses, 1, (int[]){0});
  loss = mr_lax_div(f, loss, mr_literal(f, MR_F32, (double)batch));
  mr_fn_return(f, 3, (mr_var_t *[]){loss, logits, losses});
}

mr_fn_t *mr_vit_loss(const mr_vit_config_t *c, int64_t batch, bool train, float label_smoothing,
                     mr_params_t *params, mr_diag_t *diag) {
  if (mr_vit_check(c, diag) < 0) return NULL;
  if (batch < 1 || batch > 1 << 20 || !(label_smoothing >= 0 && label_smoothing < 1)) {
    mr_fail(diag, MR_ERR_CONFIG, "vit: batch %lld, label smoothing %g: want [1,1048576] and [0,1)",
            (long long)batch, (double)label_smoothing);
    return NULL;
  }
  mr_fn_t *f = mr_fn_create();
  if (!f) {
    mr_fail(diag, MR_ERR_NOMEM, "no memory for the model's graph");
    return NULL;
  }
  build(f, c, batch, train, label_smoothing, params);
  if (f->diag.code >= 0) return f;
  mr_fail(diag, f->diag.code, "%s", f->diag.text);
  mr_fn_destroy(f);
  return NULL;
}
