/* A loss as a training step takes it: what it reads of a batch, functions that trace it and what is
   told of it, and how it computes.  Models (model/zoo/zoo.h) are written as such losses.

   B: records of a batch. */
#ifndef MR_MODEL_NN_LOSS_H
#define MR_MODEL_NN_LOSS_H

#include "base/decls.h"
#include "model/nn/nn.h"

MR_BEGIN_DECLS

enum { MR_LOSS_FIELDS = 8, MR_LOSS_OUTS = 4, MR_LOSS_METRICS = 8, MR_LOSS_METRIC_NAME = 23 };

/* A field of a batch. */
typedef struct mr_model_field {
  const char *name;   /* "image", "label" */
  mr_aval_t aval;     /* of one record; a batch holds (B, ...) of it */
  const char *layout; /* of pictures: "HWC", "CHW"; else "" */
  int64_t classes;    /* > 0: whole numbers (i32) of [0,classes), MR_LABEL_NONE (base/label.h) in a
                         record that does not count */
} mr_model_field_t;

/* What a loss traces for B records. */
typedef struct mr_loss_out {
  mr_var_t *loss;              /* f32[]: the sum of losses / B, whatever number of them counts */
  mr_var_t *losses;            /* f32 (B), 0 where a record does not count */
  mr_var_t *out[MR_LOSS_OUTS]; /* (B, ...), what metrics read; ends at NULL */
} mr_loss_out_t;

/* What its metrics trace: numbers of each record, f32 (B), finite where it does not count. */
typedef struct mr_loss_told {
  mr_var_t *counts; /* 1, or 0 where a record does not count; NULL: every one does */
  mr_var_t *guess;  /* the class that the answer names; NULL: answers are no classes */
  mr_var_t *metric[MR_LOSS_METRICS]; /* in the order of mr_loss_t.metric */
} mr_loss_told_t;

typedef struct mr_loss {
  const void *of; /* handed to the two functions */
  /* Traces into s->f; field[i] is the batch of this->field[i], and with masked field[n_fields] f32
     (B), 1 where a record counts, else 0.  A failure may also stand in s->f->diag. */
  mr_err_t (*trace)(const void *of, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out);
  /* Appends to f, from the same fields and mr_loss_out_t.out. */
  mr_err_t (*metrics)(const void *of, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                      mr_loss_told_t *told);
  int n_fields;
  mr_model_field_t field[MR_LOSS_FIELDS];
  bool masked;     /* the loss is told which records count; without, it sees that in a field */
  int64_t classes; /* of the answer; 0: it is no class */
  int n_metrics;
  const char *metric[MR_LOSS_METRICS]; /* "accuracy", "mean_error": means over records */
} mr_loss_t;

/* How a loss computes, whatever it is. */
typedef struct mr_compute {
  mr_dtype_t dtype;         /* of products: MR_F32 or MR_BF16; parameters are f32 */
  mr_precision_t precision; /* of f32 products; NONE: the process's default */
  mr_nn_remat_t remat;      /* what the backward pass computes again */
  int threads;              /* of a step, [1,1024]; 0: one a processor */
  bool pin;                 /* each to a processor of its own */
} mr_compute_t;

/* MR_ERR_CONFIG with the setting, its value and its range. */
mr_err_t mr_compute_check(const mr_compute_t *c, mr_diag_t *diag);

/* Which trace of a loss. */
typedef struct mr_loss_use {
  int64_t batch;       /* B, [1,2^20] */
  bool train;          /* with what only training does */
  uint32_t first_site; /* number of the first dropout: parts of a batch differ */
} mr_loss_use_t;

/* Inputs of the graph that mr_loss_fn makes, before the parameters: the fields, counts where the
   loss is masked, the seed and the step. */
int mr_loss_n_data(const mr_loss_t *l);

/* The graph (fields..., counts f32 (B) if masked, seed u64[], step u32[], parameters f32...) ->
   (loss, out..., losses).  Fills params' list (zeroed before).  NULL on failure, which is the
   loss's own, or MR_ERR_CONFIG for a batch out of range; the caller destroys it. */
mr_fn_t *mr_loss_fn(const mr_loss_t *l, const mr_compute_t *c, const mr_loss_use_t *use,
                    mr_params_t *params, mr_diag_t *diag);

/* The list of the parameters alone, without arenas: names and shapes.  params: zeroed before. */
mr_err_t mr_loss_params_list(const mr_loss_t *l, mr_params_t *params, mr_diag_t *diag);
/* And its sets, values drawn by the initialisers from seed, the rest 0 (the average: the values).
   params: zeroed, but for sets that mr_params_want has asked for.  mr_params_fini gives back, also
   after a failure. */
mr_err_t mr_loss_params(const mr_loss_t *l, uint64_t seed, mr_params_t *params, mr_diag_t *diag);

/* For losses of classes: labels i32 (B), logits f32 (B,C).  Fills counts, guess and metric[0],
   which is 1 where the guess is right: its mean is the accuracy.  MR_ERR_SHAPE as the ops. */
mr_err_t mr_loss_tell_classes(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels, mr_loss_told_t *told);

MR_END_DECLS

#endif
