/* Vision Transformers: flax's (cls token, pre-norm, tanh-GELU) and timm's (qkv, erf-GELU). */
#ifndef MR_MODEL_NN_VIT_H
#define MR_MODEL_NN_VIT_H

#include "base/decls.h"
#include "model/nn/nn.h"

MR_BEGIN_DECLS

typedef enum mr_vit_variant { MR_VIT_FLAX, MR_VIT_TIMM } mr_vit_variant_t;

/* What the backward pass of a block computes again instead of finding it kept. */
typedef enum mr_vit_remat {
  MR_VIT_REMAT_NONE, /* nothing: cheap values alone (mr_remat) */
  MR_VIT_REMAT_DOTS, /* everything but matrix products and attention */
  MR_VIT_REMAT_FULL, /* everything: only a block's input is kept */
  MR_VIT_REMATS
} mr_vit_remat_t;
const char *mr_vit_remat_name(mr_vit_remat_t r); /* "none", "dots", "full" */

typedef struct mr_vit_config {
  mr_vit_variant_t variant;
  int image, patch, channels;             /* pixels; patch divides image */
  int embed, mlp, heads, layers, classes; /* heads divides embed */
  float dropout;                          /* rate in training, [0,1) */
  float attn_drop;                        /* of attention's probabilities, in training, [0,1) */
  float proj_drop;          /* timm: of what attention gives, in training, [0,1); -1: as dropout */
  float drop_path;          /* of the last block, 0 in the first, linear between; timm */
  bool no_qkv_bias;         /* timm */
  mr_dtype_t dtype;         /* of computation: MR_F32 or MR_BF16 */
  mr_vit_remat_t remat;     /* while training */
  mr_precision_t precision; /* of f32 products; NONE: the process's default */
  float ln_eps;             /* 0: the variant's own (flax 1e-6, timm 1e-5) */
  int threads;              /* of a step, [1,1024]; 0: one a processor */
  bool pin;                 /* each to a processor of its own */
  uint32_t first_site;      /* number of the first dropout: parts of a batch differ */
} mr_vit_config_t;

/* The recipe: image 32, patch 4, embed 384, mlp 1536, heads 8, layers 6, classes 10, dropout .1,
   bf16; 10,695,562 parameters. */
mr_vit_config_t mr_vit_default(void);
/* MR_ERR_CONFIG with the setting, its value and its range.  mr_vit_loss asks it; the others take a
   c that passed it. */
mr_err_t mr_vit_check(const mr_vit_config_t *c, mr_diag_t *diag);

/* The policy of c's blocks where s trains; NULL: nothing is computed again. */
mr_policy_fn *mr_vit_policy(const mr_nn_t *s, const mr_vit_config_t *c);

/* images (B,H,W,C) f32, normalised -> logits (B,classes) in the dtype of computation.  The last
   block computes what token 0 needs alone: the head reads nothing else.  NULL with the sentence in
   s->f->diag.  Source: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021); flax: the
   recipe's model in flax.nnx; timm: timm's and LiBai's vision_transformer. */
mr_var_t *mr_vit_flax(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
mr_var_t *mr_vit_timm(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
/* timm's two halves: the normed token 0 (B,E), f32 or the dtype of computation, and its logits. */
mr_var_t *mr_vit_timm_features(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
mr_var_t *mr_vit_timm_head(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *features);

/* Inputs of the graph that mr_vit_loss makes, before the parameters (in params' order). */
enum { MR_VIT_IMAGES, MR_VIT_LABELS, MR_VIT_SEED, MR_VIT_STEP, MR_VIT_N_DATA };
/* The graph (images f32 (B,H,W,C), labels i32 (B), seed u64[], step u32[], parameters f32...) ->
   (mean loss f32[], logits f32 (B,classes), losses f32 (B)).  train: with dropout.  Fills params'
   list (zeroed before).  NULL on failure; the caller destroys it. */
mr_fn_t *mr_vit_loss(const mr_vit_config_t *c, int64_t batch, bool train, float label_smoothing,
                     mr_params_t *params, mr_diag_t *diag);

MR_END_DECLS

#endif
