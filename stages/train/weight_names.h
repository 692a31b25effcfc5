/* The parameters of a Vision Transformer under the names, and in the layouts, of several libraries.
   One table serves both directions: a run that begins with a file (from.c) and a file that is
   exported (export.c).  A parameter is known by timm's name, "blocks.0.attn.qkv.weight", and its
   whole tensor is a matrix of rows (outputs) and columns (inputs) as timm keeps it.  Other
   libraries keep it as one tensor or as parts, which lie in it one after the other, as they are or
   transposed.

   Any thread.  Nothing here takes memory. */
#ifndef MR_STAGES_TRAIN_WEIGHT_NAMES_H
#define MR_STAGES_TRAIN_WEIGHT_NAMES_H

#include "base/safetensors.h"
#include "model/ir/aval.h"
#include "model/nn/activation.h"

typedef enum mr__names {
  MR__NAMES_TIMM,
  MR__NAMES_FLAX,
  MR__NAMES_HF,
  MR__NAMES_TORCHVISION,
  MR__NAMES_HF5,  /* of a model's state_dict in transformers 5, whose files have those of 4 */
  MR__NAMES_OTHER /* of no Vision Transformer that is known here */
} mr__names_t;

enum { MR__WEIGHT_PARTS = 3, MR__WEIGHT_NAME = 256 };

/* How a library keeps a parameter. */
typedef struct mr__weight {
  int n; /* of its tensors, in [1,MR__WEIGHT_PARTS] */
  char name[MR__WEIGHT_PARTS][MR__WEIGHT_NAME];
  int in;     /* leading dimensions that are inputs: it is transposed, or a convolution's (P,P,C,E);
                 0: as timm keeps it */
  bool heads; /* its outputs, or with in = 2 its inputs, are two dimensions, heads and what each has
               */
} mr__weight_t;

/* Writes how `of` keeps the parameter that timm calls `name`.  A name of no row stays as it is. */
void mr__weight_of(mr__names_t of, const char *name, mr__weight_t *out);

/* Writes timm's name of the parameter that is called `name` by `of` into timm[MR__WEIGHT_NAME];
   returns which part of it that is, or -1 for a name of no row. */
int mr__weight_timm(mr__names_t of, const char *name, char *timm);

/* The shape of timm's tensor, from that of a tensor of it.  One of another number of dimensions
   gives a shape whose mr__weight_part is not this one. */
mr_aval_t mr__weight_whole(const mr__weight_t *w, const mr_aval_t *part);
/* The shape of each tensor, from that of timm's.  heads divides its rows and its columns. */
mr_aval_t mr__weight_part(const mr__weight_t *w, const mr_aval_t *whole, int heads);
/* Whether timm's tensor of this shape can be kept so: it has the dimensions, parts and heads divide
   them, and none is 0. */
bool mr__weight_fits(const mr__weight_t *w, const mr_aval_t *whole, int heads);

/* Writes tensor `part` of a parameter, kept as `to`, into at, of dtype, from tensors t[from->n] of
   the shapes that mr__weight_part gives for `from`.  whole: the shape of timm's tensor, which fits
   both (mr__weight_fits). */
void mr__weight_copy(const mr_aval_t *whole, const mr__weight_t *from,
                     const mr_st_tensor_t *const *t, const mr__weight_t *to, int part,
                     mr_dtype_t dtype, void *at);

/* What beside its weights says what a Vision Transformer computes, read from its text
   (mr_model_text). */
typedef struct mr__vit {
  bool known; /* the text is of the model vit */
  mr__names_t style;
  int image, patch, channels, embed, mlp, heads, layers, classes;
  bool qkv_bias, erf, rms;    /* erf: its GELU is by erf, else by tanh; rms: RMS normalizations */
  mr_activation_t activation; /* of its MLPs */
  double eps;                 /* of its normalizations */
} mr__vit_t;

/* The metadata in which an exported file has the text of the model it comes from. */
#define MR__EXPORTED "millrace.exported"

/* Cannot fail; text: NULL is fine. */
mr__vit_t mr__vit_of(const char *text);

#endif
