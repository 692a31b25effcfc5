#include "apps/model_arg.h"

#include <stdlib.h>
#include <string.h>

#include "model/transforms/transforms.h"

static bool takes(const mr_args_t *a, const char *flag) {
  for (const mr_flag_t *f = a->command->flags; f->name; f++)
    if (!strcmp(f->name, flag)) return true;
  return false;
}

static mr_err_t size_flag(const mr_args_t *a, const char *flag, int *out, mr_diag_t *diag) {
  int64_t v = *out;
  MR_TRY(mr_args_int(a, flag, 1, 1 << 20, &v, diag));
  *out = (int)v;
  return MR_OK;
}

/* One of two words; the second sets *second. */
static mr_err_t word_flag(const mr_args_t *a, const char *flag, const char *first,
                          const char *other, bool *second, mr_diag_t *diag) {
  const char *text = mr_args_text(a, flag);
  if (!text) return MR_OK;
  if (strcmp(text, first) && strcmp(text, other))
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s: \"%s\", expected %s or %s", a->command->name, flag,
                   text, first, other);
  *second = !strcmp(text, other);
  return MR_OK;
}

static mr_err_t remat_flag(const mr_args_t *a, mr_vit_remat_t *out, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--remat");
  if (!text) return MR_OK;
  for (int r = 0; r < MR_VIT_REMATS; r++)
    if (!strcmp(text, mr_vit_remat_name((mr_vit_remat_t)r))) {
      *out = (mr_vit_remat_t)r;
      return MR_OK;
    }
  return mr_fail(diag, MR_ERR_USAGE, "%s: --remat: \"%s\", expected none, dots or full",
                 a->command->name, text);
}

static mr_err_t step_flags(const mr_args_t *a, mr_vit_config_t *c, mr_train_config_t *t,
                           mr_diag_t *diag) {
  *t = mr_train_default(128);
  MR_TRY(mr_args_int(a, "--batch", 1, 65536, &t->batch, diag));
  MR_TRY(mr_args_int(a, "--accumulate", 1, 65536, &t->accumulate, diag));
  return remat_flag(a, &c->remat, diag);
}

mr_err_t mr_model_arg(const mr_args_t *a, mr_vit_config_t *c, mr_train_config_t *t,
                      mr_diag_t *diag) {
  *c = mr_vit_default();
  bool timm = false, bf16 = true;
  const struct {
    const char *flag;
    int *out;
  } sizes[] = {{"--layers", &c->layers},  {"--embed", &c->embed}, {"--mlp", &c->mlp},
               {"--heads", &c->heads},    {"--patch", &c->patch}, {"--image", &c->image},
               {"--classes", &c->classes}};
  MR_TRY(word_flag(a, "--variant", "flax", "timm", &timm, diag));
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    MR_TRY(size_flag(a, sizes[i].flag, sizes[i].out, diag));
  if (t) MR_TRY(step_flags(a, c, t, diag));
  if (takes(a, "--dtype")) MR_TRY(word_flag(a, "--dtype", "f32", "bf16", &bf16, diag));
  const char *precision = takes(a, "--precision") ? mr_args_text(a, "--precision") : NULL;
  if (precision) MR_TRY(mr_precision_parse("--precision", precision, &c->precision, diag));
  c->variant = timm ? MR_VIT_TIMM : MR_VIT_FLAX;
  c->dtype = bf16 ? MR_BF16 : MR_F32;
  return mr_vit_check(c, diag);
}

static mr_fn_t *grad_of(const mr_fn_t *loss, mr_diag_t *diag) {
  int n = loss->n_in - MR_VIT_N_DATA;
  int *wrt = calloc((size_t)n, sizeof *wrt);
  mr_fn_t *f = NULL;
  if (!wrt) return mr_fail(diag, MR_ERR_NOMEM, "no memory for the gradient"), NULL;
  for (int i = 0; i < n; i++) wrt[i] = MR_VIT_N_DATA + i;
  mr_err_t e = mr_value_and_grad(loss, n, wrt, &f, diag);
  free(wrt);
  return e < 0 ? NULL : f;
}

mr_fn_t *mr_model_fn(const char *word, const mr_vit_config_t *c, const mr_train_config_t *t,
                     mr_params_t *params, mr_diag_t *diag) {
  bool grad = !strcmp(word, "grad"), step = !strcmp(word, "step");
  mr_fn_t *f = NULL;
  if (!grad && !step && strcmp(word, "loss")) {
    mr_fail(diag, MR_ERR_USAGE, "unknown function \"%s\"; expected loss, grad or step", word);
    return NULL;
  }
  if (step) return mr_train_step_fn(c, t, params, &f, diag) < 0 ? NULL : f;
  mr_fn_t *loss = mr_vit_loss(c, t->batch, true, 0, params, diag);
  if (!loss || !grad) return loss;
  f = grad_of(loss, diag);
  mr_fn_destroy(loss);
  return f;
}

mr_err_t mr_model_jit(const mr_fn_t *f, const char *word, mr_exec_t **out, mr_diag_t *diag) {
  mr_compile_options_t o = {.in_place = strcmp(word, "step") ? 0 : f->n_in - MR_VIT_N_DATA - 2};
  return mr_compile(f, &o, out, diag);
}
