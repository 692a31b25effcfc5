/* What mixup and cutmix share: each record of a batch is mixed with the one before it, pictures in
   one way or another, and labels, as rows of f32, by the same share. */
#ifndef MR_STAGES_MIX_H
#define MR_STAGES_MIX_H

#include "pipeline/stage_step.h"

/* The part of such a stage's state that its settings and plan fill. */
typedef struct mr_mix {
  const char *field, *label_name;
  double alpha, p;
  int64_t classes, seed;
  int picture, label; /* fields */
  bool rows;          /* labels are rows already */
  int planes, H, W;   /* of a picture; planes: 1, or channels */
  size_t pixel;       /* bytes */
} mr_mix_t;

/* What a batch draws. */
typedef struct mr_mix_draw {
  double own;         /* share of the record itself; 1: nothing is mixed */
  int x1, y1, x2, y2; /* cutmix: the box that the other record fills */
} mr_mix_draw_t;

/* A kind of mixing. */
typedef struct mr_mix_kind {
  uint32_t tag; /* distinguishes the generators of kinds */
  /* Draws from g; own may differ from lam. */
  void (*draw)(const mr_mix_t *t, double lam, mr_philox_t *g, mr_mix_draw_t *d);
  /* Makes one picture; all have the size of a record's. */
  void (*mix)(const mr_mix_t *t, mr_dtype_t dtype, const mr_mix_draw_t *d, const void *own,
              const void *other, void *out);
} mr_mix_kind_t;

/* The rows of its settings, in a state that is an mr_mix_t. */
extern const mr_opt_t mr_mix_opts[];

/* The plan of such a stage; floats: it takes only f32 and bf16 pictures.  MR_OK, or MR_ERR_SHAPE
   or MR_ERR_CONFIG with a sentence. */
mr_err_t mr_mix_plan(mr_stage_t *s, bool floats);

/* The step of such a stage: one batch.  As a step; MR_ERR_DATA with a sentence for a label that is
   not a class. */
mr_err_t mr_mix_step(mr_stage_t *s, const mr_mix_kind_t *kind);

/* A number of the beta distribution with both parameters alpha > 0, in [0,1]; up to alpha 1 it is
   numpy's Generator.beta(alpha, alpha). */
double mr_beta(mr_philox_t *g, double alpha);

#endif
