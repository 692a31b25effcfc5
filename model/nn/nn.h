/* Layers as functions over the graph.  A layer requests its parameters by name; each request adds
   an input to the graph and a row to the parameter list, in the order of the requests.

   Implemented in nn.c (scopes, parameters, dropout), layers.c, attention.c,
   patch_embed.c and remat.c.  One thread at a time for one mr_nn_t. */
#ifndef MR_MODEL_NN_NN_H
#define MR_MODEL_NN_NN_H

#include "base/decls.h"
#include "model/control/control.h"
#include "model/nn/activation.h"
#include "model/nn/params.h"
#include "model/transforms/transforms.h"

MR_BEGIN_DECLS

/* Which values of a part of a model the backward pass recomputes, so that they are not kept. */
typedef enum mr_nn_remat_kind {
  MR_NN_REMAT_NONE, /* only the cheap values that the pass mr_remat chooses */
  MR_NN_REMAT_DOTS, /* all but the results of matrix products and attention */
  MR_NN_REMAT_FULL, /* all: only the part's input is kept */
  MR_NN_REMATS
} mr_nn_remat_t;
const char *mr_nn_remat_name(mr_nn_remat_t r);   /* returns "none", "dots" or "full"; static */
mr_policy_fn *mr_nn_policy(mr_nn_remat_t remat); /* for mr_nn_remat, static; NULL for NONE */

#define MR_NN_DEPTH 32

typedef struct mr_nn {
  mr_fn_t *f;
  mr_params_t *params;        /* receives the list; belongs to the caller */
  float dropout;              /* rate; 0: none */
  bool train;                 /* the graph is for training: dropout and stochastic depth apply */
  float proj_drop;            /* timm: rate of dropout of attention's result; 0: none */
  float attn_drop;            /* rate of dropout of attention's probabilities; 0: none */
  mr_policy_fn *remat;        /* for mr_nn_remat, for the repeated blocks of a model; NULL: none */
  bool no_qkv_bias;           /* timm: q, k and v without biases */
  mr_activation_t activation; /* of the MLPs; zero-initialised: GELU */
  mr_nn_gelu_t gelu;          /* theirs, where it is GELU */
  mr_var_t *seed, *step;
  mr_var_t *key;      /* u32[2]: dropouts draw from it and their number; NULL: from seed and step */
  uint32_t next_site; /* number of the next dropout */
  /* The graph works on records [first_record, first_record + records) of a batch, whose draws it
     makes.  records 0: on all of the batch. */
  int64_t first_record, records;
  char prefix[256]; /* "encoder_blocks.0.attn." */
  bool called;      /* f is a function that the model's graph calls (mr_nn_remat) */
  bool whole;       /* all tokens of all blocks are traced, those too that no result needs */
  /* For each part that has been entered: the scope around it and its own.  A part may be entered
     inside a scope of f (mr_scope_enter, mr_amp_stop), which then stays part of the path. */
  int depth;
  const char *around[MR_NN_DEPTH], *own[MR_NN_DEPTH];
} mr_nn_t;

/* Enters a scope: until the matching leave, parameters are called "name. ..." and equations carry
   that scope.  Returns a mark, which leave takes; cannot fail, but cuts a path off at 255
   bytes. */
size_t mr_nn_enter(mr_nn_t *s, const char *name);
void mr_nn_leave(mr_nn_t *s, size_t mark);

/* Adds the parameter s->prefix + name, f32, and returns its var, which belongs to s->f.  NULL
   with the sentence in s->f->diag: MR_ERR_CONFIG for a name that exists already, MR_ERR_NOMEM, or
   an earlier failure. */
mr_var_t *mr_nn_param(mr_nn_t *s, const char *name, mr_init_t init, int ndim, const int64_t *dim);
#define mr_nn_param_of(s, name, init, ...) mr_nn_param(s, name, init, MR_DIMS(__VA_ARGS__))
/* Records in s->params the type, input and output of the module that was entered last; call it
   before leave.  in and out have the dtypes of x and y, which mr_amp may change.  A failure goes
   to s->f->diag.  type is not copied. */
void mr_nn_applied(mr_nn_t *s, const char *type, const mr_aval_t *in, const mr_var_t *x,
                   const mr_aval_t *out, const mr_var_t *y);
/* The same for two vars; does nothing if one of them is NULL. */
void mr_nn_applied_to(mr_nn_t *s, const char *type, const mr_var_t *x, const mr_var_t *y);

/* Whether x has least to most dimensions and the layer's number (heads, a patch's side; else 1) is
   above 0; if not, fails with MR_ERR_SHAPE, which names scope, layer and shape, in s->f->diag.
   want: the shape that fits, "(...,in)". */
bool mr_nn_fits(mr_nn_t *s, const char *layer, const mr_var_t *x, int least, int most,
                int64_t number, const char *want);

/* ---- layers ----
   Each function below appends a layer to s->f and returns its result, which belongs to s->f.  It
   returns NULL with the sentence in s->f->diag: MR_ERR_SHAPE names op, scope and shapes if x does
   not fit, MR_ERR_CONFIG names a parameter that is requested twice, MR_ERR_NOMEM.  For a NULL x
   it returns NULL.  x is f32 with at least the dimensions shown, and so is the result: layers are
   written in f32, and mr_amp says what computes narrower.  B: records, T: tokens of a record, E:
   width of a token. */

/* flax names.  Each returns a var that belongs to s->f, or NULL (see above).  Source: flax.nnx
   layers and their defaults (flax 0.12).

   linear: x (...,in) -> (...,out): "name.kernel" [in,out] lecun_normal, "name.bias" [out] zeros.

   layer_norm: x (...,C) -> the same shape: "name.scale" [C] ones, "name.bias" [C] zeros; variance
   computed as E[x^2] - E[x]^2.  Ba et al., "Layer Normalization" (2016).

   rms_norm: x (...,C) -> the same shape, x / sqrt(E[x^2] + eps): "name.scale" [C] ones.  Zhang and
   Sennrich, "Root Mean Square Layer Normalization" (2019).

   attention: multi-head self-attention on x (B,T,E): "query", "key", "value" [E,H,E/H], "out"
   [H,E/H,E], with biases; heads H >= 1 divides E.  The result is (B,T,E), or with first_only that
   of token 0 alone, (B,1,E).  Vaswani et al., "Attention Is All You Need" (2017).

   mlp: x (...,E) -> (...,E): "linear1" to hidden, s->activation (of GELU tanh unless s->gelu says
   erf), dropout, "linear2" to E, dropout.

   patch_embed: a convolution with kernel and stride P: x (B,H,W,C) with P dividing H and W ->
   (B,H/P*W/P,E).  "name.kernel" [P,P,C,E] lecun_normal, "name.bias" [E] zeros.  Dosovitskiy et
   al., "An Image is Worth 16x16 Words" (2021). */
mr_var_t *mr_nn_linear(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out);
mr_var_t *mr_nn_layer_norm(mr_nn_t *s, const char *name, mr_var_t *x, float eps);
mr_var_t *mr_nn_rms_norm(mr_nn_t *s, const char *name, mr_var_t *x, float eps);
mr_var_t *mr_nn_attention(mr_nn_t *s, const char *name, mr_var_t *x, int64_t heads,
                          bool first_only);
mr_var_t *mr_nn_mlp(mr_nn_t *s, mr_var_t *x, int64_t hidden);
mr_var_t *mr_nn_patch_embed(mr_nn_t *s, const char *name, mr_var_t *x, int64_t P, int64_t E);

/* timm names: the same layers with "name.weight" [out,in] and "name.bias"; weights trunc_normal
   .02, biases zeros.  Each returns a var that belongs to s->f, or NULL (see above).  Source:
   timm's vision_transformer and LiBai's, PyTorch's layouts.

   layer_norm: "name.weight" [C] ones, "name.bias" [C] zeros; variance computed as E[(x -
   mean)^2].  rms_norm: "name.weight" [C] ones.

   attention: "qkv", whose outputs are ordered (3,H,D), without bias if s->no_qkv_bias; "proj";
   then dropout at s->proj_drop.

   mlp: "name.fc1", s->activation (of GELU erf unless s->gelu says tanh), dropout, "name.fc2",
   dropout.

   patch_embed: "name.weight" [E,C,P,P] and "name.bias" [E], both uniform within 1/sqrt(P P C), as
   PyTorch initialises convolutions. */
mr_var_t *mr_nn_linear_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out);
mr_var_t *mr_nn_linear_timm_no_bias(mr_nn_t *s, const char *name, mr_var_t *x, int64_t out);
mr_var_t *mr_nn_layer_norm_timm(mr_nn_t *s, const char *name, mr_var_t *x, float eps);
mr_var_t *mr_nn_rms_norm_timm(mr_nn_t *s, const char *name, mr_var_t *x, float eps);
mr_var_t *mr_nn_attention_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t heads,
                               bool first_only);
mr_var_t *mr_nn_mlp_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t hidden);
mr_var_t *mr_nn_patch_embed_timm(mr_nn_t *s, const char *name, mr_var_t *x, int64_t P, int64_t E);

/* ---- both ---- */
/* Dropout.  Each returns a var that belongs to s->f, or NULL (see above); x itself for rate 0.

   drop: x with each element set to zero with probability rate, in [0,1), else divided by 1 -
   rate.  Each call draws its own masks, from the number of the dropout and s->key, or s->seed and
   s->step.  Srivastava et al., "Dropout" (2014).

   dropout: drop at s->dropout.

   drop_path: stochastic depth (Huang et al., 2016): each record of x (B,...) is set to zero with
   probability rate, else divided by 1 - rate. */
mr_var_t *mr_nn_drop(mr_nn_t *s, mr_var_t *x, float rate);
mr_var_t *mr_nn_dropout(mr_nn_t *s, mr_var_t *x);
/* The same as a module of that name (flax's Dropout), also where nothing is dropped; its equations
   keep the scope that they are in. */
mr_var_t *mr_nn_dropout_module(mr_nn_t *s, const char *name, mr_var_t *x);
mr_var_t *mr_nn_drop_path(mr_nn_t *s, mr_var_t *x, float rate);

/* Returns body(s, arg, x), a var that belongs to s->f, or NULL (see above).  Of its inner values
   the backward pass keeps those that policy saves, and recomputes the others (mr_checkpoint).
   body may request parameters and draw dropout.  Without a policy it is called as it is. */
typedef mr_var_t *mr_nn_body_fn(mr_nn_t *s, const void *arg, mr_var_t *x);
mr_var_t *mr_nn_remat(mr_nn_t *s, mr_policy_fn *policy, mr_nn_body_fn *body, const void *arg,
                      mr_var_t *x);

/* Parts of a transformer.  Each returns a var that belongs to s->f, or NULL (see above).

   attend: softmax(q k' / sqrt(D)) v of qkv (B,T,3,H,D) -> (B,T,H,D): the fused op, or primitives
   if s->attn_drop drops probabilities.

   patches: pixels (B,H,W,C) -> (B, H/P*W/P, P*P*C), in x's dtype: patches row-major; within a
   patch (row, column, channel), or (channel, row, column) if channel_first.

   embed: puts the token cls (1,1,E) before those of x (B,N,E) and adds pos (1,N+1,E): (B,N+1,E)
   in f32.

   residual: the sum of x and y.

   first_token: token 0 of x: (B,T,E) -> (B,1,E), in x's dtype. */
mr_var_t *mr_nn_attend(mr_nn_t *s, mr_var_t *qkv);
mr_var_t *mr_nn_patches(mr_nn_t *s, mr_var_t *x, int64_t P, bool channel_first);
mr_var_t *mr_nn_embed(mr_nn_t *s, mr_var_t *x, mr_var_t *cls, mr_var_t *pos);
mr_var_t *mr_nn_residual(mr_nn_t *s, mr_var_t *x, mr_var_t *y);
mr_var_t *mr_nn_first_token(mr_nn_t *s, mr_var_t *x);

MR_END_DECLS

#endif
