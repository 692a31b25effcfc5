/* Losses: a loss is a table that a training step (model/train/train.h) is compiled from.  It lists
   the fields that it reads from a batch, and holds the functions that trace loss and metrics.
   Models (model/zoo/zoo.h) are written as losses.

   B: records of a batch.  One thread at a time for one graph or parameter list. */
#ifndef MR_MODEL_NN_LOSS_H
#define MR_MODEL_NN_LOSS_H

#include "base/decls.h"
#include "base/metric.h"
#include "model/control/fp8.h"
#include "model/nn/nn.h"
#include "model/transforms/amp.h"

MR_BEGIN_DECLS

struct mr_device;

enum { MR_LOSS_FIELDS = 8, MR_LOSS_OUTS = 4, MR_LOSS_METRICS = 256 };

/* A field of a batch. */
typedef struct mr_model_field {
  const char *name;   /* "image", "label" */
  mr_aval_t aval;     /* of one record; a batch holds (B, ...) of it */
  const char *layout; /* for pictures: "HWC", "CHW"; else "" */
  int64_t classes; /* > 0: whole numbers (i32) in [0,classes), or MR_LABEL_NONE (base/dataset.h) in
                      a record that does not count */
  /* How a batch holds a field of f32, which losses see as aval says.  0: so.  MR_BF16: rounded.
     MR_U8, of pictures of at most 3 channels, the record's dimension `channel`: as byte x of
     channel c for the value (x / 255 - mean[c]) / std[c], each step rounded to f32. */
  mr_dtype_t held;
  int channel;
  float mean[3], std[3];
} mr_model_field_t;

/* The values that a loss traces for B records. */
typedef struct mr_loss_out {
  mr_var_t *loss;              /* f32[]: the sum of losses / B, whatever number of records counts */
  mr_var_t *losses;            /* f32 (B), 0 for a record that does not count */
  mr_var_t *out[MR_LOSS_OUTS]; /* (B, ...), the values that metrics read; ends at NULL */
} mr_loss_out_t;

/* The values that metrics trace: one number for each record, f32 (B), finite also for a record
   that does not count. */
typedef struct mr_loss_report {
  mr_var_t *counts; /* 1, or 0 for a record that does not count; NULL: every record counts */
  mr_var_t *guess;  /* the predicted class; NULL: the loss predicts no class */
  mr_var_t *metric[MR_LOSS_METRICS]; /* in the order of mr_loss_t.metric */
} mr_loss_report_t;

typedef struct mr_loss {
  const void *of; /* passed to the two functions */
  /* Traces the loss into s->f.  field[i] is the batch of this->field[i]; with masked,
     field[n_fields] is the mask, f32 (B), 1 for a record that counts, else 0.  Returns MR_OK or a
     failure, whose sentence is in s->f->diag; a failure in s->f->diag alone is noticed too. */
  mr_err_t (*trace)(const void *of, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out);
  /* Traces the metrics into f, from the same fields and mr_loss_out_t.out.  Returns as trace. */
  mr_err_t (*metrics)(const void *of, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                      mr_loss_report_t *reported);
  int n_fields;
  mr_model_field_t field[MR_LOSS_FIELDS];
  bool masked;     /* a mask says which records count; without it, a field shows that */
  int64_t classes; /* of the prediction; 0: the loss predicts no class */
  /* While training, the loss of a record counts this often; [classes], by the class in a field of
     these classes; belongs to the caller.  NULL: once. */
  const float *class_weight;
  const char *no_decay; /* parameters that optimizers leave without weight decay, unless they are
                           asked for others (model/train/train.h); static; NULL: none */
  int n_metrics;
  const mr_metric_def_t *metric[MR_LOSS_METRICS]; /* what it is judged by: means over records */
} mr_loss_t;

/* How any loss computes. */
typedef struct mr_compute {
  mr_dtype_t dtype; /* of computation: MR_F32, or MR_BF16 or MR_F16 for what policy says */
  /* Belongs to the caller; read by mr_loss_fn, its compute dtype is replaced by dtype.  NULL:
     mr_amp_usual. */
  const mr_amp_policy_t *policy;
  /* How parameters and the optimizer's slots are kept between steps: MR_F32, MR_BF16 or MR_F16;
     0: MR_F32.  Updates compute in f32 and round to it, as `stochastic` says.  An average is f32.
   */
  mr_dtype_t values, slots;
  /* Values and slots that are kept narrow are rounded at random (mr_lax_stochastic_round), drawn by
     the step's seed and number, instead of to nearest. */
  bool stochastic;
  /* MR_BF16 or MR_F16: the model reads parameters rounded to it, of which `values` is then the
     master copy, whose gradients are not rounded; 0: it reads them as they are kept. */
  mr_dtype_t reads;
  /* With a history, products of bf16 operands are in f8 while training (model/control/fp8.h); dtype
     is then MR_BF16 and remat none.  history 0: they are not.  Evaluation computes in dtype. */
  mr_fp8_t fp8;
  mr_precision_t precision;       /* of f32 products; NONE: the process's default */
  mr_nn_remat_t remat;            /* which values the backward pass recomputes */
  int threads;                    /* of a step, [1,1024]; 0: as many as the caller's team has */
  bool pin;                       /* pins each thread to a processor of its own */
  const struct mr_device *device; /* computes (mr_device_open); NULL: the processors */
} mr_compute_t;

/* MR_OK, or MR_ERR_CONFIG with the setting, its value and its range: for threads, the dtypes, and
   fp8 with what it does not go with. */
mr_err_t mr_compute_check(const mr_compute_t *c, mr_diag_t *diag);

/* The variant of a loss's graph. */
typedef struct mr_loss_use {
  int64_t batch;       /* B, [1,2^20] */
  bool train;          /* for training: with dropout and the like */
  uint32_t first_site; /* number of the first dropout; it differs between parts of a batch that
                          draw masks of their own */
  /* The B records begin here in the batch that they are a part of, and draw what they would draw
     in a graph of the whole batch. */
  int64_t first_record;
  bool whole; /* traces what no result needs too, the last block's tokens beside the first */
} mr_loss_use_t;

/* Returns the number of inputs before the parameters in the graph of mr_loss_fn: the fields, the
   mask if the loss is masked, seed and step. */
int mr_loss_n_data(const mr_loss_t *l);

/* Returns a record of a field as a batch holds it.  Cannot fail. */
mr_aval_t mr_loss_held(const mr_model_field_t *field);
/* Traces the values of a field, (B, ...) as field->aval says, from x, a batch as it is held: x
   itself if that is the same.  The result belongs to f; NULL on failure, with the sentence in
   f->diag. */
mr_var_t *mr_loss_values(mr_fn_t *f, const mr_model_field_t *field, mr_var_t *x);

/* Traces the graph (fields as held..., mask f32 (B) if masked, seed u64[], step u32[], parameters
   f32...)
   -> (loss, out..., losses), and fills the list of params, zeroed before.  With c->fp8 and
   use->train a last input has the scales, f32[n,MR_FP8_TENSORS] for n products.  The caller
   destroys the graph, and calls mr_params_fini in any case.  NULL on failure, with the sentence in
   diag: the error of trace, MR_ERR_CONFIG for a batch or a setting of c out of range or for fp8
   without a product to apply to, or MR_ERR_NOMEM. */
mr_fn_t *mr_loss_fn(const mr_loss_t *l, const mr_compute_t *c, const mr_loss_use_t *use,
                    mr_params_t *params, mr_diag_t *diag);

/* Fills the list of params, zeroed before, with names and shapes; no arena is taken.  MR_OK, or
   the errors of mr_loss_fn.  mr_params_fini frees the list, also after a failure. */
mr_err_t mr_loss_params_list(const mr_loss_t *l, mr_params_t *params, mr_diag_t *diag);
/* Fills the list, takes the arenas of the sets and initialises them: values are drawn from seed,
   an average equals the values, the rest is 0.  params: zeroed before, except for sets that
   mr_params_want has requested.  MR_OK, the errors of mr_loss_fn, or MR_ERR_NOMEM.
   mr_params_fini frees all, also after a failure. */
mr_err_t mr_loss_params(const mr_loss_t *l, uint64_t seed, mr_params_t *params, mr_diag_t *diag);

/* Metrics for losses of classes: labels i32 (B), logits f32 (B,C).  Fills counts, guess and
   metric[0], which is 1 if the guess is right: its mean is the accuracy; and metric[1] with
   mr_loss_report_top5 where there are MR_LOSS_TOP5_FROM classes or more.  MR_OK, or the failure
   in f->diag: MR_ERR_SHAPE as the ops. */
mr_err_t mr_loss_report_classes(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels,
                                mr_loss_report_t *reported);

/* The metric of mr_loss_report_top5, which models of at least this many classes have. */
enum { MR_LOSS_TOP5_FROM = 21 };
extern const mr_metric_def_t mr_loss_top5;
/* Returns 1 for a record whose class has one of the five largest of its logits f32 (B,C), else 0:
   f32 (B).  right: its class, f32 (B).  Belongs to f; NULL on failure. */
mr_var_t *mr_loss_report_top5(mr_fn_t *f, mr_var_t *logits, mr_var_t *right);

/* The same for losses of targets: targets f32 (B,C), a share for each class; mask f32 (B).  A guess
   is right if it is the class with the largest share.  MR_OK, or the failure in f->diag. */
mr_err_t mr_loss_report_targets(mr_fn_t *f, mr_var_t *logits, mr_var_t *targets, mr_var_t *mask,
                                mr_loss_report_t *reported);

/* The cross-entropy of each record with its targets, of which a share `smoothing` in [0,1) is
   spread evenly over all classes: f32 (B), 0 where the mask is 0; as torch's cross_entropy of
   probabilities.  Belongs to f; NULL with the failure in f->diag: MR_ERR_SHAPE as the ops. */
mr_var_t *mr_loss_of_targets(mr_fn_t *f, mr_var_t *logits, mr_var_t *targets, mr_var_t *mask,
                             double smoothing);

MR_END_DECLS

#endif
