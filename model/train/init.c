/* Initialisers by name, with the arithmetic of jax.nn.initializers, for a model's parameters or for
   those that a pattern means. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "model/train/step.h"

/* variance_scaling divides by the deviation of a normal that is cut at two deviations. */
#define CUT_DEVIATION 0.87962566103423978

typedef enum by { BY_NOTHING, BY_IN, BY_OUT_AND_IN, BY_OUT } by_t;

typedef struct named {
  const char *name;
  mr_init_kind_t kind;
  double usual; /* of the number behind the name, or of the variance times the fan */
  by_t by;      /* what divides the variance; BY_NOTHING: the name has a number */
} named_t;

static const named_t named[] = {
    {"zeros", MR_INIT_ZEROS, 0, BY_NOTHING},
    {"ones", MR_INIT_ONES, 1, BY_NOTHING},
    {"constant", MR_INIT_CONSTANT, 0, BY_NOTHING},
    {"normal", MR_INIT_NORMAL, .01, BY_NOTHING},
    {"truncated_normal", MR_INIT_LECUN_NORMAL, .01, BY_NOTHING},
    {"uniform", MR_INIT_UNIFORM_UP, .01, BY_NOTHING},
    {"zeros_init", MR_INIT_ZEROS, 0, BY_NOTHING},
    {"ones_init", MR_INIT_ONES, 1, BY_NOTHING},
    {"orthogonal", MR_INIT_ORTHOGONAL, 1, BY_NOTHING},
    {"delta_orthogonal", MR_INIT_DELTA_ORTHOGONAL, 1, BY_NOTHING},
    {"lecun_normal", MR_INIT_LECUN_NORMAL, 1, BY_IN},
    {"lecun_uniform", MR_INIT_SCALED_UNIFORM, 1, BY_IN},
    {"he_normal", MR_INIT_LECUN_NORMAL, 2, BY_IN},
    {"kaiming_normal", MR_INIT_LECUN_NORMAL, 2, BY_IN},
    {"he_uniform", MR_INIT_SCALED_UNIFORM, 2, BY_IN},
    {"kaiming_uniform", MR_INIT_SCALED_UNIFORM, 2, BY_IN},
    {"glorot_normal", MR_INIT_LECUN_NORMAL, 1, BY_OUT_AND_IN},
    {"xavier_normal", MR_INIT_LECUN_NORMAL, 1, BY_OUT_AND_IN},
    {"glorot_uniform", MR_INIT_SCALED_UNIFORM, 1, BY_OUT_AND_IN},
    {"xavier_uniform", MR_INIT_SCALED_UNIFORM, 1, BY_OUT_AND_IN},
};
enum { N_NAMED = sizeof named / sizeof *named };

/* The mode and the distribution of variance_scaling, whose name is long: S:MODE:DISTRIBUTION. */
static const char scaling[] = "variance_scaling";
static const struct {
  const char *name;
  by_t by;
} mode[] = {{"fan_in", BY_IN}, {"fan_out", BY_OUT}, {"fan_avg", BY_OUT_AND_IN}};
static const struct {
  const char *name;
  mr_init_kind_t kind;
} distribution[] = {{"truncated_normal", MR_INIT_LECUN_NORMAL},
                    {"normal", MR_INIT_NORMAL},
                    {"uniform", MR_INIT_SCALED_UNIFORM}};

static const char *last_part(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

/* What a product multiplies with, of flax's or torch's layout. */
static bool is_kernel(const mr_param_t *p) {
  const char *last = last_part(p->name);
  return p->aval.ndim >= 2 && (!strcmp(last, "kernel") || !strcmp(last, "weight"));
}

/* The product of dimensions [from,to) of a. */
static double dims_between(const mr_aval_t *a, int from, int to) {
  double n = 1;
  for (int i = from; i < to; i++) n *= (double)a->dim[i];
  return n;
}

/* How many numbers an output is a sum of, and how many an input goes to, of at least two
   dimensions.  flax's attention has kernels of three, which the model counts itself: in `models`,
   its initialiser before all rules. */
static void fans_of(const mr_param_t *p, const mr_init_t *models, double *in, double *out) {
  const mr_aval_t *a = &p->aval;
  int n = a->ndim;
  if (!strcmp(last_part(p->name), "weight")) {
    *in = dims_between(a, 1, n), *out = dims_between(a, 0, 1) * dims_between(a, 2, n);
  } else if (n == 3 && models->kind == MR_INIT_LECUN_NORMAL) {
    *in = (double)models->a, *out = dims_between(a, 0, n) / *in;
  } else {
    *in = dims_between(a, 0, n - 1), *out = dims_between(a, 0, n - 2) * dims_between(a, n - 1, n);
  }
}

static mr_init_t init_of(const named_t *what, double number, const mr_param_t *p,
                         const mr_init_t *models) {
  double in, out;
  if (what->by == BY_NOTHING && what->kind == MR_INIT_LECUN_NORMAL)
    return (mr_init_t){what->kind, (float)(1 / pow(number * CUT_DEVIATION, 2))};
  if (what->by == BY_NOTHING) return (mr_init_t){what->kind, (float)number};
  fans_of(p, models, &in, &out);
  double fan = what->by == BY_IN ? in : what->by == BY_OUT ? out : (in + out) / 2;
  fan /= what->usual; /* 1 / variance */
  double a = what->kind == MR_INIT_LECUN_NORMAL ? fan
             : what->kind == MR_INIT_NORMAL     ? sqrt(1 / fan)
                                                : sqrt(3 / fan);
  return (mr_init_t){what->kind, (float)a};
}

static mr_err_t refuse_name(const char *name, mr_diag_t *diag) {
  char near[256];
  mr_suggest_t s = {.word = name};
  for (int i = 0; i < N_NAMED; i++) mr_suggest_offer(&s, named[i].name);
  mr_suggest_offer(&s, scaling);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "init: \"%.60s\" is no initialiser%s; want zeros, ones, constant:V, normal:S, "
                 "truncated_normal:S, uniform:S, orthogonal, delta_orthogonal, lecun, glorot "
                 "(xavier) or he (kaiming) with _normal or _uniform, or "
                 "variance_scaling:S:MODE:DISTRIBUTION",
                 name, mr_suggest_text(&s, near, sizeof near));
}

/* Reads S:MODE:DISTRIBUTION behind variance_scaling; text NULL: nothing is there. */
static mr_err_t read_scaling(const char *text, named_t *out, mr_diag_t *diag) {
  char *end = NULL;
  const char *number = text ? text : "";
  named_t is = {.name = scaling, .usual = mr_strtod(number, &end), .by = BY_NOTHING};
  size_t n = *end == ':' ? strcspn(end + 1, ":") : 0;
  const char *kind = n && end[1 + n] == ':' ? end + 2 + n : NULL;
  bool sound = end != number && isfinite((float)is.usual) && is.usual > 0, drawn = false;
  for (size_t i = 0; i < sizeof mode / sizeof *mode; i++)
    if (strlen(mode[i].name) == n && !memcmp(mode[i].name, end + 1, n)) is.by = mode[i].by;
  for (size_t i = 0; kind && i < sizeof distribution / sizeof *distribution; i++)
    if (!strcmp(kind, distribution[i].name)) is.kind = distribution[i].kind, drawn = true;
  if (!sound || !drawn || is.by == BY_NOTHING)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "init: %s%s%.60s: want %s:S:MODE:DISTRIBUTION, as %s:2:fan_in:normal: S above "
                   "0; fan_in, fan_out or fan_avg; truncated_normal, normal or uniform",
                   scaling, text ? ":" : "", number, scaling, scaling);
  *out = is;
  return MR_OK;
}

/* Reads NAME, NAME:NUMBER or variance_scaling's text; *what points at a row or at *room. */
static mr_err_t read_initialiser(char *text, const named_t **what, named_t *room, double *number,
                                 mr_diag_t *diag) {
  char *colon = strchr(text, ':'), *end = NULL;
  *what = NULL;
  if (colon) *colon = 0;
  if (!strcmp(text, scaling)) {
    *what = room;
    return read_scaling(colon ? colon + 1 : NULL, room, diag);
  }
  for (int i = 0; i < N_NAMED; i++)
    if (!strcmp(text, named[i].name)) *what = &named[i];
  if (!*what) return refuse_name(text, diag);
  *number = (*what)->usual;
  if (!colon && (*what)->kind == MR_INIT_CONSTANT)
    return mr_fail(diag, MR_ERR_CONFIG, "init: constant: want its value, as constant:0.1");
  if (!colon) return MR_OK;
  bool takes = (*what)->by == BY_NOTHING && (*what)->kind > MR_INIT_ONES;
  if (!takes)
    return mr_fail(diag, MR_ERR_CONFIG, "init: %s has no number, and %.40s is behind it", text,
                   colon + 1);
  *number = mr_strtod(colon + 1, &end);
  bool sound = end != colon + 1 && !*end && isfinite((float)*number) &&
               (*number > 0 || (*what)->kind == MR_INIT_CONSTANT);
  return sound ? MR_OK
               : mr_fail(diag, MR_ERR_CONFIG, "init: %s:%.40s: want a number%s", text, colon + 1,
                         (*what)->kind == MR_INIT_CONSTANT ? "" : " above 0");
}

static bool is_matrix(const named_t *what) {
  return what->kind == MR_INIT_ORTHOGONAL || what->kind == MR_INIT_DELTA_ORTHOGONAL;
}

/* Sets how a kernel is a matrix of inputs and outputs.  That of a convolution has dimensions of
   places beside inputs and outputs, and of the former no more than of the latter. */
static mr_err_t set_matrix(const named_t *what, mr_param_t *p, const mr_init_t *models,
                           mr_diag_t *diag) {
  const mr_aval_t *a = &p->aval;
  char text[MR_AVAL_TEXT];
  double in, out;
  fans_of(p, models, &in, &out);
  p->out_first = !strcmp(last_part(p->name), "weight");
  p->fan_in = (int64_t)in;
  if (what->kind == MR_INIT_ORTHOGONAL) return MR_OK;
  int64_t ins = a->dim[p->out_first ? 1 : a->ndim - 2];
  int64_t outs = a->dim[p->out_first ? 0 : a->ndim - 1];
  bool places = a->ndim > 3 || (a->ndim == 3 && models->kind != MR_INIT_LECUN_NORMAL);
  p->fan_in = ins;
  if (places && ins <= outs) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "init: delta_orthogonal: %s is %s, and this initialiser is for kernels of "
                 "convolutions with no more inputs than outputs; want their pattern before it, as "
                 "patch_embed=delta_orthogonal, or orthogonal",
                 p->name, mr_aval_text(a, text));
}

/* models: the initialisers before all rules. */
static mr_err_t apply_init_rule(mr_params_t *list, const mr_init_t *models, char *rule,
                                mr_diag_t *diag) {
  char *equals = strchr(rule, '=');
  const named_t *what;
  named_t room;
  double number = 0;
  int met = 0, set = 0;
  if (equals) *equals = 0;
  MR_TRY(read_initialiser(equals ? equals + 1 : rule, &what, &room, &number, diag));
  for (int i = 0; i < list->n; i++) {
    mr_param_t *p = &list->param[i];
    bool kernels = !equals || what->by != BY_NOTHING || is_matrix(what);
    if (equals && !mr__train_means(rule, p)) continue;
    met++;
    if (kernels && !is_kernel(p)) continue;
    if (is_matrix(what)) MR_TRY(set_matrix(what, p, &models[i], diag));
    p->init = init_of(what, number, p, &models[i]), set++;
  }
  if (equals && !met) return mr__train_refuse_pattern(list, "init", rule, diag);
  if (!set)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "init: %s%s%s: has no kernel, and this initialiser is for kernels; want zeros, "
                   "ones, constant:V, normal:S, truncated_normal:S or uniform:S",
                   equals ? rule : "the model", equals ? "=" : "", equals ? what->name : "");
  return MR_OK;
}

mr_err_t mr_train_init(mr_params_t *list, const char *rules, mr_diag_t *diag) {
  char *text = strdup(rules), *rest = NULL;
  mr_init_t *models = malloc(((size_t)list->n + 1) * sizeof *models);
  mr_err_t e = text && models ? MR_OK : mr_no_memory(diag, "initialisers");
  for (int i = 0; i < list->n && e >= 0; i++) models[i] = list->param[i].init;
  for (char *r = e >= 0 ? strtok_r(text, ", ", &rest) : NULL; r && e >= 0;
       r = strtok_r(NULL, ", ", &rest))
    e = apply_init_rule(list, models, r, diag);
  free(text), free(models);
  return e;
}
