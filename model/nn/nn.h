/* Layers as functions over the graph.  A layer asks for its parameters by name; asking makes them
   inputs of the graph and rows of the parameter list, in the order of asking. */
#ifndef MR_MODEL_NN_NN_H
#define MR_MODEL_NN_NN_H

#include "base/decls.h"
#include "model/control/control.h"
#include "model/nn/params.h"
#include "model/transforms/transforms.h"

MR_BEGIN_DECLS

/* What the backward pass of a part of a model computes again instead of finding it kept. */
typedef enum mr_nn_remat_kind {
  MR_NN_REMAT_NONE, /* nothing: cheap values alone (mr_remat) */
  MR_NN_REMAT_DOTS, /* everything but matrix products and attention */
  MR_NN_REMAT_FULL, /* everything: only the part's input is kept */
  MR_NN_REMATS
} mr_nn_remat_t;
const char *mr_nn_remat_name(mr_nn_remat_t r);   /* "none", "dots", "full" */
mr_policy_fn *mr_nn_policy(mr_nn_remat_t remat); /* for mr_nn_remat; NULL for none */

typedef struct mr_nn {
  mr_fn_t *f;
  mr_params_t *params; /* gets the list; not the owner */
  mr_dtype_t dtype;    /* of computation: MR_F32 or MR_BF16; parameters are f32 */
  float dropout;       /* rate; 0: none */
  bool train;          /* what only training does is done */
  float proj_drop;     /* timm: rate of dropout of what attention gives; 0: none */
  float attn_drop;     /* rate of dropout of attention's probabilities; 0: none */
  mr_policy_fn *remat; /* for mr_nn_remat, of the parts that a model has many of; NULL: none */
  bool no_qkv_bias;    /* timm: q, k and v without biases */
  mr_var_t *seed, *step;
  mr_var_t *key; /* u32[2]: dropouts draw by it and their number instead; NULL: by seed, step */
  uint32_t next_site; /* numbers the dropouts */
  char prefix[256];   /* "encoder_blocks.0.attn." */
} mr_nn_t;

/* Parameters that follow are called "name. ...", and equations stand in that scope; leave takes
   what enter returned. */
size_t mr_nn_enter(mr_nn_t *s, const char *name);
void mr_nn_leave(mr_nn_t *s, size_t mark);

/* The parameter "prefix name", f32. */
mr_var_t *mr_nn_param(mr_nn_t *s, const char *name, mr_init_t init, int ndim, const int64_t *dim);
#define mr_nn_param_of(s, name, init, ...) mr_nn_param(s, name, init, MR_DIMS(__VA_ARGS__))
/* Notes in s->params what the module that was entered last is, and what it takes and gives;
   s->f->diag gets a failure.  It may be left then. */
void mr_nn_applied(mr_nn_t *s, const char *type, const mr_aval_t *in, const mr_aval_t *out);
/* The same of values, which may be NULL: nothing is noted. */
void mr_nn_applied_to(mr_nn_t *s, const char *type, const mr_var_t *x, const mr_var_t *y);
/* v in the dtype of computation. */
mr_var_t *mr_nn_cast(mr_nn_t *s, mr_var_t *v);

/* What follows appends to s->f and returns the layer's value, or NULL with the sentence in f->diag:
   MR_ERR_SHAPE names op, scope and shapes where x does not fit, MR_ERR_CONFIG a parameter that is
   asked for twice.  A NULL x is passed on.  x is f32 or bf16, the result in the dtype of
   computation unless said; parameters are f32.  E is the width of a token, T tokens of a record, B
   records. */

/* ---- flax names.  Source: flax.nnx layers and their defaults (flax 0.12) ---- */
/* x (...,in) -> (...,out): "name.kernel" [in,out] lecun_normal, "name.bias" [out] zeros. */
mr_var_t *mr_nn_linear(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out);
/* x (...,C) -> the same: "name.scale" [C] ones, "name.bias" [C] zeros; variance as E[x^2] - E[x]^2.
   Ba et al., "Layer Normalization" (2016). */
mr_var_t *mr_nn_layer_norm(mr_nn_t *s, const char *name, mr_var_t *x, float eps);
/* Multi-head self-attention on x (B,T,E): "query", "key", "value" [E,H,E/H], "out" [H,E/H,E], with
   biases; heads divides E.  first_only: only token 0's result is wanted: (B,1,E), else (B,T,E).
   Vaswani et al., "Attention Is All You Need" (2017). */
mr_var_t *mr_nn_attention(mr_nn_t *s, const char *name, mr_var_t *x, int64_t heads,
                          bool first_only);
/* x (...,E) -> (...,E): "linear1" to hidden, GELU (tanh), dropout, "linear2" to E, dropout. */
mr_var_t *mr_nn_mlp(mr_nn_t *s, mr_var_t *x, int64_t hidden);
/* A convolution by patches of P pixels, x (B,H,W,C) with P dividing H and W -> (B,H/P*W/P,E):
   "name.kernel" [P,P,C,E] lecun_normal, "name.bias" [E] zeros.  Dosovitskiy et al., "An Image is
   Worth 16x16 Words" (2021). */
mr_var_t *mr_nn_patch_embed(mr_nn_t *s, const char *name, mr_var_t *x, int64_t P, int64_t E);

/* ---- timm names: the same layers with "name.weight" [out,in] and "name.bias".  Source: timm's
   vision_transformer and LiBai's, PyTorch's layouts; weights trunc_normal .02, biases zeros ---- */
mr_var_t *mr_nn_linear_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out);
mr_var_t *mr_nn_linear_timm_no_bias(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out);
/* "name.weight" [C] ones, "name.bias" [C] zeros; variance as E[(x - mean)^2]. */
mr_var_t *mr_nn_layer_norm_timm(mr_nn_t *s, const char *name, mr_var_t *x, float eps);
/* "qkv" (3,H,D outwards; without bias where s->no_qkv_bias) and "proj", then dropout at
   s->proj_drop. */
mr_var_t *mr_nn_attention_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t heads,
                               bool first_only);
/* "name.fc1", GELU (erf), dropout, "name.fc2", dropout. */
mr_var_t *mr_nn_mlp_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t hidden);
/* "name.weight" [E,C,P,P] and "name.bias", both uniform within 1/sqrt(P P C), as PyTorch draws
   convolutions. */
mr_var_t *mr_nn_patch_embed_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t P, int64_t E);

/* ---- both ---- */
/* x, each element zero with probability rate, in [0,1), else divided by 1 - rate; 0: x itself.
   Each call draws other masks, by its own number and s->key, or s->seed and s->step.  Srivastava et
   al., "Dropout" (2014). */
mr_var_t *mr_nn_drop(mr_nn_t *s, mr_var_t *x, float rate);
mr_var_t *mr_nn_dropout(mr_nn_t *s, mr_var_t *x); /* at s->dropout */
/* Stochastic depth (Huang et al., 2016): each record of x (B,...) is zero with probability rate,
   else divided by 1 - rate.  rate 0: x itself. */
mr_var_t *mr_nn_drop_path(mr_nn_t *s, mr_var_t *x, float rate);
/* body(s, arg, x), whose inner values are not kept for the backward pass, but those that the policy
   saves: they are computed again there (mr_checkpoint).  body may ask for parameters and draw
   dropout; policy NULL: body as it is. */
typedef mr_var_t *mr_nn_body_fn(mr_nn_t *s, const void *arg, mr_var_t *x);
mr_var_t *mr_nn_remat(mr_nn_t *s, mr_policy_fn *policy, mr_nn_body_fn *body, const void *arg,
                      mr_var_t *x);
/* softmax(q k' / sqrt(D)) v of qkv (B,T,3,H,D) -> (B,T,H,D), by the fused op, or as primitives
   where s->attn_drop drops probabilities. */
mr_var_t *mr_nn_attend(mr_nn_t *s, mr_var_t *qkv);
/* Pixels (B,H,W,C) -> (B, H/P*W/P, P*P*C): patches row-major; inside (row, column, channel), or
   (channel, row, column) if channel_first.  In x's dtype. */
mr_var_t *mr_nn_patches(mr_nn_t *s, mr_var_t *x, int64_t P, bool channel_first);
/* Puts cls (1,1,E) before x (B,N,E) and adds pos (1,N+1,E), in f32. */
mr_var_t *mr_nn_embed(mr_nn_t *s, mr_var_t *x, mr_var_t *cls, mr_var_t *pos);
mr_var_t *mr_nn_residual(mr_nn_t *s, mr_var_t *x, mr_var_t *y); /* x f32 + y, in f32 */
mr_var_t *mr_nn_first_token(mr_nn_t *s, mr_var_t *x);           /* (B,T,E) -> (B,1,E) */

MR_END_DECLS

#endif
