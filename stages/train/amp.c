/* Which policy of mixed precision the settings dtype, amp and amp-rule describe. */
#include "stages/train/amp.h"

#include "pipeline/stage_step.h"

enum { USUAL, JAXAMP, NONE }; /* setting amp */

static const mr_dtype_t amp_dtype[] = {MR_F32, MR_BF16, MR_F16}; /* settings of a dtype */

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
  a->policy = a->amp == JAXAMP ? mr_amp_jaxamp(t) : mr_amp_usual(t);
  if (rules && mr_amp_add_text(&a->policy, a->rules, &why) < 0)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting amp-rule: %s", why.text);
  return MR_OK;
}

void mr_train_amp_set(const mr_train_amp_t *a, mr_compute_t *c) {
  c->dtype = amp_dtype[a->dtype];
  c->policy = &a->policy;
  bool narrow = a->values > 0, master = a->master == 0;
  c->values = narrow && !master ? amp_dtype[a->values] : MR_F32;
  c->reads = narrow && master ? amp_dtype[a->values] : (mr_dtype_t)0;
  c->slots = amp_dtype[a->slots];
}
