/* Precision across a resume.

   Another dtype is allowed, and said, since the parameters mean the same.  The scales of fp8 mean
   something in the format and with the history that they were made with alone: other settings of
   fp8 are refused; without fp8 they are dropped, and a run that begins with fp8 starts new ones. */
#include "stages/train/computes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

void mr__computes_text(const mr_compute_t *c, char text[MR_TRAIN_COMPUTES]) {
  int n = snprintf(text, MR_TRAIN_COMPUTES, "dtype=%s", mr_dtype_name(c->dtype));
  if (c->fp8.history)
    snprintf(text + n, MR_TRAIN_COMPUTES - (size_t)n,
             " fp8=%s fp8-history=%d fp8-margin=%d fp8-amax=%s",
             c->fp8.format == MR_FP8_E4M3 ? "e4m3" : "hybrid", c->fp8.history, c->fp8.margin,
             c->fp8.most_recent ? "most-recent" : "max");
}

uint64_t mr__computes_rules(const mr_train_amp_t *a) {
  uint64_t h = mr_hash_mix(0, (uint64_t)a->amp);
  for (const char *c = a->rules ? a->rules : ""; *c; c++)
    if (*c != ' ') h = mr_hash_mix(h, (unsigned char)*c);
  return h ? h : 1;
}

/* ---- the state ---- */

int mr__computes_pack(const mr_train_fp8_t *fp8, mr_st_tensor_t *t) {
  if (!fp8->n) return 0;
  t[0] = (mr_st_tensor_t){.name = "fp8/scale",
                          .dtype = MR_F32,
                          .ndim = 2,
                          .dim = {fp8->n, MR_FP8_TENSORS},
                          .data = fp8->scale};
  t[1] = (mr_st_tensor_t){.name = "fp8/amax",
                          .dtype = MR_F32,
                          .ndim = 3,
                          .dim = {fp8->history, fp8->n, MR_FP8_TENSORS},
                          .data = fp8->amax};
  return MR__COMPUTES_TENSORS;
}

/* Whether the n numbers at v are finite and at least 0; above: more than 0. */
static bool computes_in_range(const float *v, size_t n, bool above) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(v[i]) || v[i] < 0 || (above && v[i] == 0)) return false;
  return true;
}

/* The data of a file may lie at any address: it is copied before it is read. */
static mr_err_t computes_copy(const mr_st_tensor_t *scale, const mr_st_tensor_t *amax,
                              const char *path, mr_train_fp8_t *out, mr_diag_t *diag) {
  size_t n = (size_t)scale->dim[0] * MR_FP8_TENSORS, all = n * (size_t)(1 + amax->dim[0]);
  float *to = malloc(all * sizeof *to);
  if (!to) return mr_no_memory(diag, "the state of fp8 of %s", path);
  memcpy(to, scale->data, n * sizeof *to);
  memcpy(to + n, amax->data, (all - n) * sizeof *to);
  if (!computes_in_range(to, n, true) || !computes_in_range(to + n, all - n, false)) {
    free(to);
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: tensor fp8/scale or fp8/amax holds a number that is not finite, negative, "
                   "or a scale of 0",
                   path);
  }
  *out = (mr_train_fp8_t){(int)scale->dim[0], (int)amax->dim[0], to, to + n};
  return MR_OK;
}

mr_err_t mr__computes_load_fp8(const mr_safetensors_t *f, const char *path, int history,
                               mr_train_fp8_t *out, mr_diag_t *diag) {
  const mr_st_tensor_t *scale = mr_safetensors_find(f, "fp8/scale"),
                       *amax = mr_safetensors_find(f, "fp8/amax");
  bool fits = scale && amax && scale->dtype == MR_F32 && amax->dtype == MR_F32 &&
              scale->ndim == 2 && amax->ndim == 3 && scale->dim[0] >= 1 &&
              scale->dim[0] <= 1 << 20 && scale->dim[1] == MR_FP8_TENSORS &&
              amax->dim[0] == history && amax->dim[1] == scale->dim[0] &&
              amax->dim[2] == MR_FP8_TENSORS;
  if (fits) return computes_copy(scale, amax, path, out, diag);
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: tensors fp8/scale and fp8/amax are missing or not f32 of (n,%d) and "
                 "(%d,n,%d)",
                 path, MR_FP8_TENSORS, history, MR_FP8_TENSORS);
}

mr_err_t mr__computes_set_fp8(const char *where, const mr_train_fp8_t *from, mr_train_step_t *step,
                              mr_diag_t *diag) {
  mr_train_fp8_t to = mr_train_step_fp8(step);
  if (to.n != from->n || to.history != from->history)
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: has scales of fp8 for %d products and %d steps, but these settings make %d "
        "products and %d steps; want the amp=, amp-rule= and fp8-history= that they were "
        "made with",
        where, from->n, from->history, to.n, to.history);
  size_t n = (size_t)to.n * MR_FP8_TENSORS;
  if (!n) return MR_OK;
  memcpy(to.scale, from->scale, n * sizeof *to.scale);
  memcpy(to.amax, from->amax, n * (size_t)to.history * sizeof *to.amax);
  return MR_OK;
}

/* ---- a resume ---- */

static mr_err_t computes_load(const train_t *v, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  mr_train_fp8_t held = {0};
  MR_TRY(mr_safetensors_open(v->resume, &f, diag));
  mr_err_t e = mr__computes_load_fp8(f, v->resume, v->used.compute.fp8.history, &held, diag);
  if (e >= 0) e = mr__computes_set_fp8(v->resume, &held, v->step, diag);
  free(held.scale);
  mr_safetensors_close(f);
  return e;
}

/* The settings of fp8 in such a text, " fp8=..."; "" without fp8. */
static const char *computes_fp8_of(const char *text) {
  const char *at = strchr(text, ' ');
  return at ? at : "";
}

mr_err_t mr__computes_resume(mr_stage_t *s) {
  const train_t *v = s->state;
  const char *was = v->at.computes, *was_fp8 = computes_fp8_of(was);
  char now[MR_TRAIN_COMPUTES];
  mr_diag_t why = {0};
  mr__computes_text(&v->used.compute, now);
  const char *now_fp8 = computes_fp8_of(now);
  int dtype = (int)strcspn(now, " "), was_dtype = (int)strcspn(was, " ");
  if (*was && (dtype != was_dtype || strncmp(was, now, (size_t)dtype)))
    mr_notice(
        "%s: %.*s: the checkpoint %s was made with %.*s; its next steps differ from those of "
        "that run",
        s->name, dtype, now, v->resume, was_dtype, was);
  if (*was_fp8 && !*now_fp8)
    mr_notice("%s: fp8=none: the checkpoint %s was made with%s; its scales are dropped", s->name,
              v->resume, was_fp8);
  if (*now_fp8 && !*was_fp8)
    mr_notice("%s: fp8: the checkpoint %s has no scales of fp8; they begin at 1", s->name,
              v->resume);
  if (!*now_fp8 || !*was_fp8) return MR_OK;
  if (strcmp(was_fp8, now_fp8))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "settings%s: the checkpoint %s was made with%s, and its scales fit no "
                         "others; want those settings, or fp8=none, which drops the scales",
                         now_fp8, v->resume, was_fp8);
  mr_err_t e = computes_load(v, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  if (!v->at.fp8_rules || v->at.fp8_rules == mr__computes_rules(&v->amp)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "settings amp, amp-rule: the checkpoint %s was made with others, and its "
                       "scales of fp8 are those of other products; want the former settings, or "
                       "fp8=none, which drops the scales",
                       v->resume);
}
