/* Vision Transformers: flax's (cls token, pre-norm, tanh-GELU) and timm's (qkv, erf-GELU).
   Implemented in vit.c, vit_flax.c and vit_timm.c. */
#ifndef MR_MODEL_NN_VIT_H
#define MR_MODEL_NN_VIT_H

#include "base/decls.h"
#include "model/nn/class_loss.h"
#include "model/nn/loss.h"

MR_BEGIN_DECLS

typedef enum mr_vit_variant { MR_VIT_FLAX, MR_VIT_TIMM } mr_vit_variant_t;

typedef struct mr_vit_config {
  mr_vit_variant_t variant;
  int image, patch, channels;             /* pixels; patch divides image */
  int embed, mlp, heads, layers, classes; /* heads divides embed */
  float dropout;                          /* rate in training, [0,1) */
  float attn_drop;  /* rate for attention's probabilities in training, [0,1) */
  float proj_drop;  /* timm: rate for attention's result in training, [0,1); -1: as dropout */
  float drop_path;  /* timm: rate of the last block, 0 in the first, linear between; [0,1) */
  bool no_qkv_bias; /* timm */
  float ln_eps;     /* [0,1); 0: the variant's own (flax 1e-6, timm 1e-5) */
  mr_activation_t activation; /* of the MLPs */
  mr_nn_gelu_t gelu;          /* 0: the variant's own (flax tanh, timm erf) */
  bool rms;                   /* RMS normalizations for layer normalizations */
  float label_smoothing;      /* of the loss in training, [0,1) */
  mr_class_loss_kind_t loss;
  float focal_gamma; /* of the focal loss, [1,100] */
} mr_vit_config_t;

/* Returns the recipe's model: image 32, patch 4, embed 384, mlp 1536, heads 8, layers 6, classes
   10, dropout .1; 10,695,562 parameters. */
mr_vit_config_t mr_vit_default(void);
/* MR_OK, or MR_ERR_CONFIG with the setting, its value and its range.  The functions below require
   a c that has passed it. */
mr_err_t mr_vit_check(const mr_vit_config_t *c, mr_diag_t *diag);

/* Returns the epsilon of its normalizations: ln_eps, or the variant's own. */
float mr_vit_ln_eps(const mr_vit_config_t *c);

/* images (B,H,W,C) f32, normalised -> logits (B,classes) in the dtype of computation.  The last
   block computes token 0 alone, as the head reads nothing else.  The result belongs to s->f; NULL
   with the sentence in s->f->diag.  Source: Dosovitskiy et al., "An Image is Worth 16x16 Words"
   (2021); flax: the recipe's model in flax.nnx; timm: timm's and LiBai's vision_transformer. */
mr_var_t *mr_vit_flax(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
mr_var_t *mr_vit_timm(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);

/* The two halves of either, with the parameters of the whole model in the same order: what timm
   calls forward_features and forward_head, cut where LiBai cuts them, before the last norm (timm's
   own forward_features ends behind it, token by token the same).

   forward_features: images -> all tokens (B,N+1,E) as the last block leaves them, token 0 first,
   then the N patches row by row.  forward_head: tokens (B,T,E), T >= 1 -> the norm of token 0, then
   the head: logits (B,classes).  Head of features are the logits of mr_vit_flax or mr_vit_timm
   where nothing is dropped.  Both set s's rates and switches from c; with s->train they drop, and
   where the whole model computes token 0 of its last block alone they draw other masks there than
   it does, as a mask is drawn by the index of an element.  Each returns a var that belongs to s->f,
   or NULL with the sentence in s->f->diag: MR_ERR_SHAPE for tokens of another width. */
mr_var_t *mr_vit_forward_features(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *images);
mr_var_t *mr_vit_forward_head(mr_nn_t *s, const mr_vit_config_t *c, mr_var_t *tokens);

/* The two functions of a loss (mr_loss_t) over the fields image f32 (B,H,W,C) and label i32 (B).
   trace: config's loss.  config is a mr_vit_config_t; out->out[0] receives the logits f32
   (B,classes).  With s->train it applies dropout at config's rates and label smoothing.  Returns
   MR_OK, or the failure in s->f->diag. */
mr_err_t mr_vit_trace(const void *config, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out);
/* metrics: accuracy.  of is not read.  Returns MR_OK, or the failure in f->diag. */
mr_err_t mr_vit_metrics(const void *of, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                        mr_loss_report_t *reported);
/* Returns the loss of c, which it points at: c must stay valid as long as the loss is used. */
mr_loss_t mr_vit_loss(const mr_vit_config_t *c);

MR_END_DECLS

#endif
