/* Vision Transformers: flax's (cls token, pre-norm, tanh-GELU) and timm's (qkv, erf-GELU). */
#ifndef MR_MODEL_NN_VIT_H
#define MR_MODEL_NN_VIT_H

#include "base/decls.h"
#include "model/nn/loss.h"

MR_BEGIN_DECLS

typedef enum mr_vit_variant { MR_VIT_FLAX, MR_VIT_TIMM } mr_vit_variant_t;

typedef struct mr_vit_config {
  mr_vit_variant_t variant;
  int image, patch, channels;             /* pixels; patch divides image */
  int embed, mlp, heads, layers, classes; /* heads divides embed */
  float dropout;                          /* rate in training, [0,1) */
  float attn_drop;                        /* of attention's probabilities, in training, [0,1) */
  float proj_drop;       /* timm: of what attention gives, in training, [0,1); -1: as dropout */
  float drop_path;       /* of the last block, 0 in the first, linear between; timm */
  bool no_qkv_bias;      /* timm */
  float ln_eps;          /* 0: the variant's own (flax 1e-6, timm 1e-5) */
  float label_smoothing; /* of the loss, in training, [0,1) */
} mr_vit_config_t;

/* The recipe: image 32, patch 4, embed 384, mlp 1536, heads 8, layers 6, classes 10, dropout .1;
   10,695,562 parameters. */
mr_vit_config_t mr_vit_default(void);
/* MR_ERR_CONFIG with the setting, its value and its range.  The functions below take a c that
   passed it. */
mr_err_t mr_vit_check(const mr_vit_config_t *c, mr_diag_t *diag);

/* images (B,H,W,C) f32, normalised -> logits (B,classes) in the dtype of computation.  The last
   block computes what token 0 needs alone: the head reads nothing else.  NULL with the sentence in
   s->f->diag.  Source: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021); flax: the
   recipe's model in flax.nnx; timm: timm's and LiBai's vision_transformer. */
mr_var_t *mr_vit_flax(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
mr_var_t *mr_vit_timm(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
/* timm's two halves: the normed token 0 (B,E), f32 or the dtype of computation, and its logits. */
mr_var_t *mr_vit_timm_features(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
mr_var_t *mr_vit_timm_head(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *features);

/* The two functions of a loss (mr_loss_t) over the fields image f32 (B,H,W,C) and label i32 (B).
   Cross-entropy: config is a mr_vit_config_t, out->out[0] are the logits f32 (B,classes).  With
   s->train dropouts at its rates and smoothed targets.  MR_OK, or the failure of s->f->diag. */
mr_err_t mr_vit_trace(const void *config, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out);
/* Right answers: the accuracy.  of is not read. */
mr_err_t mr_vit_metrics(const void *of, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                        mr_loss_told_t *told);
/* The loss of c, which must stand as long as it is used. */
mr_loss_t mr_vit_loss(const mr_vit_config_t *c);

MR_END_DECLS

#endif
