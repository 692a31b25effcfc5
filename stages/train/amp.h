/* Mixed precision: settings that train-step and eval-step share, and the policy they describe. */
#ifndef MR_STAGES_TRAIN_AMP_H
#define MR_STAGES_TRAIN_AMP_H

#include "model/nn/loss.h"
#include "pipeline/stage.h"

typedef struct mr_train_amp {
  int dtype, amp, values, slots, master, rounding, fp8, fp8_amax; /* numbers of their choices */
  int64_t fp8_history, fp8_margin;
  const char *rules;
  mr_amp_policy_t policy; /* of mr_train_amp_plan */
} mr_train_amp_t;

/* The most bytes of a->rules: a replay file has room for them. */
enum { MR_TRAIN_RULES = MR_AMP_ROWS * (MR_AMP_NAME + 16) };

/* Settles a->policy.  MR_OK, or MR_ERR_CONFIG on the stage, naming the setting: amp=none with a
   narrow dtype, rules that cannot be read or are longer than MR_TRAIN_RULES, rules where nothing is
   narrow, fp8 without bf16. */
mr_err_t mr_train_amp_plan(mr_stage_t *s, mr_train_amp_t *a);
/* Sets the dtypes and the policy of c; a, which c then points into, must live as long.  Cannot
 * fail. */
void mr_train_amp_set(const mr_train_amp_t *a, mr_compute_t *c);

/* Says, as a notice, which ops compute in f32 although amp-rule asks compute of the part of the
   model that they are in.  Without memory it says nothing. */
void mr_train_amp_report(const mr_stage_t *s, const mr_train_amp_t *a, const mr_loss_t *l);

/* Other frameworks' words for the values of amp=. */
extern const mr_hint_t mr_train_amp_hints[];

/* clang-format would give each value of these rows a line of its own. */
/* clang-format off */
/* For a stage whose state holds an mr_train_amp_t at offset base. */
#define MR_TRAIN_AMP_OPTS(base)                                                                   \
  {.name = "dtype", .hint = "precision mixedprecision computedtype", .values = mr_dtype_hints,    \
   .type = MR_OPT_ENUM, .offset = (base) + offsetof(mr_train_amp_t, dtype),                       \
   .def = "bf16", .choices = "f32|bf16|f16",                                                      \
   .help = "Type that the model computes in, as far as amp says.  f16 wants "                     \
           "loss-scale=dynamic: small gradients are 0 in it."},                                   \
  {.name = "amp", .values = mr_train_amp_hints,                                                   \
   .type = MR_OPT_ENUM, .offset = (base) + offsetof(mr_train_amp_t, amp),                         \
   .def = "usual", .choices = "usual|jaxamp|none",                                                \
   .help = "What computes in dtype: usual (products, and what follows them; sums, norms and "     \
           "losses in f32), jaxamp (as the library of that name), or none (all in f32)."},        \
  {.name = "amp-rule", .type = MR_OPT_STR, .offset = (base) + offsetof(mr_train_amp_t, rules),    \
   .help = "Exceptions to amp, as \"head=f32, attn=original, exp=compute\": a part of the model " \
           "or an op, and class, compute, f32, original, follow or as-is."}
/* Beside it: what the model reads of the parameters. */
#define MR_TRAIN_READS_OPTS(base)                                                                 \
  {.name = "param-dtype", .hint = "torchdtype modeldtype weightdtype", .values = mr_dtype_hints,  \
   .type = MR_OPT_ENUM,                                                                           \
   .offset = (base) + offsetof(mr_train_amp_t, values), .def = "f32", .choices = "f32|bf16|f16",  \
   .help = "Type of the parameters that the model reads."}

/* Beside it, for a stage that updates parameters. */
#define MR_TRAIN_KEPT_OPTS(base)                                                                  \
  MR_TRAIN_READS_OPTS(base),                                                                      \
  {.name = "master", .values = mr_dtype_hints,                                                    \
   .type = MR_OPT_ENUM, .offset = (base) + offsetof(mr_train_amp_t, master),                      \
   .def = "f32", .choices = "f32|none",                                                           \
   .help = "With a narrow param-dtype: f32 keeps a copy in f32, to which updates are added; "     \
           "none keeps only the narrow ones: rounding= decides what becomes of small updates."},  \
  {.name = "slot-dtype", .hint = "momentdtype", .values = mr_dtype_hints,                         \
   .type = MR_OPT_ENUM,                                                                           \
   .offset = (base) + offsetof(mr_train_amp_t, slots), .def = "f32", .choices = "f32|bf16",       \
   .help = "Type in which the optimizer keeps its moments between steps."},                       \
  {.name = "rounding", .type = MR_OPT_ENUM,                                                       \
   .offset = (base) + offsetof(mr_train_amp_t, rounding), .def = "nearest",                       \
   .choices = "nearest|stochastic",                                                               \
   .help = "How updates are rounded to parameters and moments that are kept narrow: to nearest, " \
           "which loses what is less than half of the distance to the next number, or up or "     \
           "down at random, so that small updates count on average; drawn by seed and step."}

/* Beside it, for a stage that trains. */
#define MR_TRAIN_FP8_OPTS(base)                                                                   \
  {.name = "fp8", .type = MR_OPT_ENUM, .offset = (base) + offsetof(mr_train_amp_t, fp8),          \
   .def = "none", .choices = "none|hybrid|e4m3",                                                  \
   .help = "Computes products of bf16 operands in f8 with delayed scaling: operands in e4m3, "    \
           "gradients of results in e5m2 (hybrid) or e4m3.  A CPU multiplies f8 values as bf16.  "\
           "Evaluation computes in dtype."},                                                      \
  {.name = "fp8-history", .type = MR_OPT_INT,                                                     \
   .offset = (base) + offsetof(mr_train_amp_t, fp8_history), .unit = "steps", .def = "1024",      \
   .lo = 1, .hi = 65536,                                                                          \
   .help = "Steps whose largest magnitudes the scales of fp8 follow."},                           \
  {.name = "fp8-margin", .type = MR_OPT_INT,                                                      \
   .offset = (base) + offsetof(mr_train_amp_t, fp8_margin), .def = "0", .lo = -64, .hi = 64,      \
   .help = "Divides the scales of fp8 by this power of two."},                                    \
  {.name = "fp8-amax", .type = MR_OPT_ENUM,                                                       \
   .offset = (base) + offsetof(mr_train_amp_t, fp8_amax), .def = "max",                           \
   .choices = "max|most-recent",                                                                  \
   .help = "Which magnitude of the history sets a scale of fp8."}
/* clang-format on */

#endif
