/* What vit-step and vit-eval share: the model's settings, the check of their inputs, and counting
   over an evaluation stream. */
#ifndef MR_STAGES_VIT_COMMON_H
#define MR_STAGES_VIT_COMMON_H

#include "metrics/metrics.h"
#include "model/exec/backend.h"
#include "model/exec/exec.h"
#include "model/train.h"
#include "pipeline/stage.h"
#include "pipeline/stream_at.h"

/* Who computes. */
typedef struct mr_vit_team {
  int64_t threads;
  bool pin;
} mr_vit_team_t;

/* Says on standard error when pin cannot give each thread a processor of its own. */
void mr_vit_team_tell(const mr_stage_t *s, const mr_vit_team_t *t);

/* Rows of a table: clang-format would give each of their values a line. */
/* clang-format off */

/* Of a stage whose state holds an mr_vit_team_t at offset base. */
#define MR_VIT_TEAM_OPTS(base)                                                                    \
  {"threads", MR_OPT_INT, (base) + offsetof(mr_vit_team_t, threads), "", "0", 0, MR_THREADS_MAX,     \
   NULL, "Threads that compute; 0: one a processor.", 0},                                         \
  {"pin", MR_OPT_BOOL, (base) + offsetof(mr_vit_team_t, pin), "", "false", 0, 0, NULL,            \
   "Ties each of these threads to a processor of its own, or in turn where there are fewer.", 0}
/* clang-format on */

/* The model as settings say it. */
typedef struct mr_vit_settings {
  int variant, dtype, precision;
  int64_t patch, embed, mlp, heads, layers;
  double dropout, attn_drop, proj_drop, drop_path;
  bool qkv_bias;
  mr_vit_team_t team;
} mr_vit_settings_t;

#define MR_VIT_AT(base, field) ((base) + offsetof(mr_vit_settings_t, field))
/* clang-format off */
/* Of a stage whose state holds an mr_vit_settings_t at offset base. */
#define MR_VIT_OPTS(base) MR_VIT_TEAM_OPTS(MR_VIT_AT(base, team)), MR_VIT_MODEL_OPTS(base)
#define MR_VIT_MODEL_OPTS(base)                                                                   \
  {"model", MR_OPT_ENUM, MR_VIT_AT(base, variant), "", "flax", 0, 0, "flax|timm",                 \
   "Form of the Vision Transformer.", 0},                                                         \
  {"patch", MR_OPT_INT, MR_VIT_AT(base, patch), "pixels", "4", 1, 1024, NULL,                     \
   "Side of a patch; it divides the picture's.", 0},                                              \
  {"embed", MR_OPT_INT, MR_VIT_AT(base, embed), "", "384", 1, 65536, NULL,                        \
   "Width of a token.", 0},                                                                       \
  {"mlp", MR_OPT_INT, MR_VIT_AT(base, mlp), "", "1536", 1, 262144, NULL,                          \
   "Width inside the MLP.", 0},                                                                   \
  {"heads", MR_OPT_INT, MR_VIT_AT(base, heads), "", "8", 1, 1024, NULL,                           \
   "Attention heads; they divide embed.", 0},                                                     \
  {"layers", MR_OPT_INT, MR_VIT_AT(base, layers), "", "6", 1, 1024, NULL, "Encoder blocks.", 0},  \
  {"dropout", MR_OPT_F64, MR_VIT_AT(base, dropout), "", "0.1", 0, 0.99, NULL,                     \
   "Rate of dropout in the MLP, while training.", 0},                                             \
  {"attn-drop", MR_OPT_F64, MR_VIT_AT(base, attn_drop), "", "0", 0, 0.99, NULL,                   \
   "Rate of dropout of attention's probabilities, while training.", 0},                           \
  {"proj-drop", MR_OPT_F64, MR_VIT_AT(base, proj_drop), "", "-1", -1, 0.99, NULL,                 \
   "timm: rate of dropout of what attention gives, while training; -1: as dropout.", 0},          \
  {"drop-path", MR_OPT_F64, MR_VIT_AT(base, drop_path), "", "0", 0, 0.99, NULL,                   \
   "timm: rate at which a record skips the last block while training; 0 in the first "            \
   "block, linear between.", 0},                                                                  \
  {"qkv-bias", MR_OPT_BOOL, MR_VIT_AT(base, qkv_bias), "", "true", 0, 0, NULL,                    \
   "timm: biases of q, k and v.", 0},                                                             \
  {"matmul-precision", MR_OPT_ENUM, MR_VIT_AT(base, precision), "", "none", 0, 0,                 \
   "none|default|high|highest",                                                                   \
   "Of dtype=f32's products: bf16 with f32 sums (default), three of these (high) or f32; "        \
   "none: what MILLRACE_MATMUL_PRECISION says, else f32.", 0},                                    \
  {"dtype", MR_OPT_ENUM, MR_VIT_AT(base, dtype), "", "bf16", 0, 0, "f32|bf16",                    \
   "Type of the matrix products; parameters are f32.", 0}
/* clang-format on */

/* Fails as the stage s unless port brings f32 batches of square pictures, HWC, with classes. */
mr_err_t mr_vit_check_input(mr_stage_t *s, int port);
/* The configuration for the pictures of port, checked. */
mr_err_t mr_vit_config_for(mr_stage_t *s, const mr_vit_settings_t *v, int port,
                           mr_vit_config_t *out);

/* Counts of an evaluation. */
typedef struct mr_vit_tally {
  int64_t records, right;
  double loss; /* sum */
  int n_classes;
  mr_stream_at_t at; /* behind the last batch that was read, if it was right before */
  uint32_t confusion[MR_METRICS_CLASSES * MR_METRICS_CLASSES]; /* zeros if there are more classes */
  /* Told of every record with a wrong guess, after it is counted; NULL: nobody is. */
  void (*wrong)(mr_stage_t *s, const struct mr_vit_tally *tally, int port, const mr_buf_t *b, int i,
                int guess);
} mr_vit_tally_t;

/* Reads port up to the end of an epoch, or of the stream, and counts; step takes the port's
   batches. MR_END if the stream had ended before; MR_AGAIN if an orderly stop was asked for
   meanwhile.  tally: zero but for wrong. */
mr_err_t mr_vit_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                         mr_vit_tally_t *tally);

/* How many of n labels are one. */
int64_t mr_vit_labels(const int32_t *label, int64_t n);

/* How many of n rows of logits (n,classes) have their largest value at label. */
int64_t mr_vit_right(const float *logits, const int32_t *label, int64_t n, int64_t classes);

/* Writes loss, accuracy, records and the confusion matrix. */
void mr_vit_tally_metrics(const mr_vit_tally_t *tally, mr_metrics_t *r);

#endif
