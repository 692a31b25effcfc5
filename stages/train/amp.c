/* Which policy of mixed precision the settings dtype, amp and amp-rule describe, and which dtypes
   the parameters are kept and read in.  Combinations without effect are refused, since a setting
   that changes nothing is a mistake of its user; details of fp8 without it are a notice (open.c).
   What the policy does is the transform's affair (model/transforms/amp.c). */
#include "stages/train/amp.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "pipeline/stage_step.h"

const mr_hint_t mr_train_amp_hints[] = {
    {"true yes on 1", "usual", NULL}, {"false no off 0", "none", NULL}, {0}};

enum { USUAL, JAXAMP, NONE }; /* setting amp */

static const mr_dtype_t amp_dtype[] = {MR_F32, MR_BF16, MR_F16}; /* settings of a dtype */

static const char *amp_fp8_name(const mr_train_amp_t *a) {
  static const char *const name[] = {"none", "hybrid", "e4m3"};
  return name[a->fp8];
}

mr_err_t mr_train_amp_plan(mr_stage_t *s, mr_train_amp_t *a) {
  mr_dtype_t t = amp_dtype[a->dtype];
  bool rules = a->rules && a->rules[0];
  mr_diag_t why = {0};
  if (a->amp == NONE && t != MR_F32)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting amp = none: the model computes in f32 as it is written, want "
                         "dtype=f32 beside it instead of dtype=%s",
                         mr_dtype_name(t));
  if (rules && t == MR_F32)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting amp-rule = \"%s\": with dtype=f32 nothing computes narrower, want "
        "dtype=bf16 or f16 beside it",
        a->rules);
  if (a->master && !a->values)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting master = none: parameters are f32 without a copy, want "
                         "param-dtype=bf16 or f16 beside it");
  if (a->rounding && !a->master && !a->slots)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting rounding = stochastic: parameters and moments are kept in f32, "
                         "want master=none or slot-dtype=bf16 beside it");
  if (a->fp8 && t != MR_BF16)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fp8 = %s: the model computes in %s, want dtype=bf16 beside it",
                         amp_fp8_name(a), mr_dtype_name(t));
  if (rules && strlen(a->rules) > MR_TRAIN_RULES)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting amp-rule: %zu bytes, want at most %d; blanks around names and "
                         "rules are not needed",
                         strlen(a->rules), MR_TRAIN_RULES);
  a->policy = a->amp == JAXAMP ? mr_amp_jaxamp(t) : mr_amp_usual(t);
  if (rules && mr_amp_add_text(&a->policy, a->rules, &why) < 0)
    return mr_diag_prefix(s->diag, MR_ERR_CONFIG, &why, "%s: setting amp-rule", s->name);
  return MR_OK;
}

void mr_train_amp_set(const mr_train_amp_t *a, mr_compute_t *c) {
  c->dtype = amp_dtype[a->dtype];
  c->policy = &a->policy;
  bool narrow = a->values > 0, master = a->master == 0;
  c->values = narrow && !master ? amp_dtype[a->values] : MR_F32;
  c->reads = narrow && master ? amp_dtype[a->values] : (mr_dtype_t)0;
  c->slots = amp_dtype[a->slots];
  c->stochastic = a->rounding;
  if (!a->fp8) return;
  c->fp8 = (mr_fp8_t){.format = (mr_fp8_format_t)(a->fp8 - 1), /* same order */
                      .history = (int)a->fp8_history,
                      .margin = (int)a->fp8_margin,
                      .most_recent = a->fp8_amax};
}

/* The ops that do not fit, "head: softmax_cross_entropy, ...", each once. */
typedef struct unfit {
  const mr_amp_row_t *row;
  char ops[256];
} unfit_t;

static void amp_note_unfit(void *arg, const mr_amp_row_t *row, const mr_eqn_t *e) {
  unfit_t *u = arg;
  char word[80];
  size_t n = strlen(u->ops);
  if (row != u->row || !strcmp(row->name, e->op->name)) return; /* such a row is refused */
  snprintf(word, sizeof word, " %s,", e->op->name);
  if (!strstr(u->ops, word)) snprintf(u->ops + n, sizeof u->ops - n, "%s", word);
}

void mr_train_amp_report(const mr_stage_t *s, const mr_train_amp_t *a, const mr_loss_t *l) {
  const mr_compute_t wide = {.dtype = MR_F32};
  const mr_loss_use_t use = {.batch = 1, .train = true};
  mr_params_t params = {0};
  mr_diag_t unsaid = {0};
  bool asks = false;
  for (int i = 0; i < a->policy.n_rows; i++)
    asks |= a->policy.row[i].asked && a->policy.row[i].rule == MR_AMP_COMPUTE;
  mr_fn_t *f = asks ? mr_loss_fn(l, &wide, &use, &params, &unsaid) : NULL;
  for (int i = 0; f && i < a->policy.n_rows; i++) {
    unfit_t u = {.row = &a->policy.row[i]};
    mr_amp_each_unfit(&a->policy, f, amp_note_unfit, &u);
    if (!u.ops[0]) continue;
    u.ops[strlen(u.ops) - 1] = 0;
    mr_notice("%s: amp-rule %s=compute: these ops do not take %s and compute in f32:%s", s->name,
              u.row->name, mr_dtype_name(a->policy.compute), u.ops);
  }
  mr_fn_destroy(f);
  mr_params_fini(&params);
}
