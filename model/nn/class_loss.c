/* Losses of classifiers.  The cross-entropy of classes is an op of its own; the others are written
   with elementwise ops and sums, which differentiate and fuse as any, in the dtypes as written:
   mixed precision leaves them alone, as it does the op. */
#include "model/nn/class_loss.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/dataset.h"
#include "model/nn/loss.h"
#include "model/ops/lax.h"
#include "model/transforms/amp.h"

const mr_hint_t mr_class_loss_hints[] = {
    {"ce xent crossentropyloss softmaxcrossentropy categoricalcrossentropy", "cross-entropy", NULL},
    {"focalloss", "focal", NULL},
    {"mseloss l2 l2loss squarederror meansquarederror", "mse", NULL},
    {0}};

char mr_class_loss_auto_choices[MR_CLASS_LOSS_TEXT] = "auto|cross-entropy|focal|mse";

static const mr_class_loss_def_t *added[MR_CLASS_LOSSES_ADDED_MAX];
static int n_added;

/* ---- losses of plug-ins ---- */

static bool is_taken(const char *name) {
  size_t n = strlen(name);
  for (const char *at = mr_class_loss_auto_choices; at; at = strchr(at, '|'), at += at != NULL)
    if (strcspn(at, "|") == n && !strncmp(at, name, n)) return true;
  return false;
}

mr_err_t mr_class_losses_check(const mr_class_loss_def_t *const *table, const char *origin,
                               mr_diag_t *diag) {
  size_t room = sizeof mr_class_loss_auto_choices - strlen(mr_class_loss_auto_choices);
  for (int i = 0; table[i]; i++) {
    const mr_class_loss_def_t *d = table[i];
    const char *name = d->name ? d->name : "";
    size_t n = strlen(name) + 1, letters = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    bool twice = false;
    for (int k = 0; k < i; k++) twice |= !strcmp(table[k]->name, name);
    if (n == 1 || letters + 1 != n)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: loss %d: its name is \"%.60s\", expected small letters, digits and -",
                     origin, i, name);
    if (!d->help || !d->losses)
      return mr_fail(diag, MR_ERR_CONFIG, "%s: loss \"%.60s\": it has no %s", origin, name,
                     d->help ? "losses" : "help");
    if (twice || is_taken(name))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: loss \"%.60s\": there is one of that name; rename it", origin, name);
    if (n_added + i == MR_CLASS_LOSSES_ADDED_MAX || n >= room)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: loss \"%.60s\": no room for more than %d losses, or %d bytes of names",
                     origin, name, MR_CLASS_LOSSES_ADDED_MAX, MR_CLASS_LOSS_TEXT);
    room -= n;
  }
  return MR_OK;
}

void mr_class_losses_add(const mr_class_loss_def_t *const *table) {
  for (; *table; table++) {
    size_t n = strlen(mr_class_loss_auto_choices);
    assert(n_added < MR_CLASS_LOSSES_ADDED_MAX);
    snprintf(mr_class_loss_auto_choices + n, sizeof mr_class_loss_auto_choices - n, "|%s",
             (*table)->name);
    added[n_added++] = *table;
  }
}

/* Of what a plug-in traced, whether it has the shape and the dtype that it must have. */
static mr_var_t *added_losses(mr_fn_t *f, const mr_class_loss_def_t *d, mr_var_t *z,
                              mr_var_t *targets) {
  char text[MR_AVAL_TEXT];
  mr_var_t *losses = d->losses(f, z, targets);
  if (!losses && f->diag.code >= 0)
    mr_fail(&f->diag, MR_ERR_CONFIG, "loss %s: traced no losses and says no reason", d->name);
  if (!losses) return NULL;
  const mr_aval_t want = mr_aval_of(z->aval.dtype, z->aval.dim[0]);
  if (mr_aval_equal(&losses->aval, &want)) return losses;
  mr_fail(&f->diag, MR_ERR_SHAPE, "loss %s: traced %s, want one loss for each record of the logits",
          d->name, mr_aval_text(&losses->aval, text));
  return NULL;
}

/* ---- tracing ---- */

/* x[b] for each class of record b. */
static mr_var_t *spread_records(mr_fn_t *f, mr_var_t *x, const mr_aval_t *a) {
  return mr_lax_broadcast_in_dim(f, x, 2, a->dim, (int[]){0});
}

/* Rows with 1 at the class, in the dtype of a, and in *mask 1 for each record that has one. */
static mr_var_t *one_hot_rows(mr_fn_t *f, mr_var_t *labels, const mr_aval_t *a, mr_var_t **mask) {
  mr_var_t *none = mr_lax_full(f, &labels->aval, MR_LABEL_NONE);
  mr_var_t *at = mr_lax_iota(f, MR_I32, 2, a->dim, 1);
  *mask = mr_lax_convert(f, mr_lax_ne(f, labels, none), a->dtype);
  return mr_lax_convert(f, mr_lax_eq(f, at, spread_records(f, labels, a)), a->dtype);
}

/* Targets with even shares for records that do not count: rows that a loss may divide by the sum
   of, as neither its value nor its slope may be infinite where it is multiplied by 0 afterwards. */
static mr_var_t *fill_targets(mr_fn_t *f, mr_var_t *targets, mr_var_t *mask) {
  const mr_aval_t *a = &targets->aval;
  mr_var_t *none = mr_lax_full(f, &mask->aval, 0);
  mr_var_t *counts = spread_records(f, mr_lax_ne(f, mask, none), a);
  return mr_lax_select_n(f, counts, mr_lax_full(f, a, 1 / (double)a->dim[1]), targets);
}

/* log softmax(z), at most 0. */
static mr_var_t *log_shares(mr_fn_t *f, mr_var_t *z) {
  const mr_aval_t *a = &z->aval;
  const int last[] = {1};
  mr_var_t *top = mr_lax_stop_gradient(f, mr_lax_reduce_max(f, z, 1, last));
  mr_var_t *x = mr_lax_sub(f, z, spread_records(f, top, a));
  mr_var_t *lse = mr_lax_log(f, mr_lax_reduce_sum(f, mr_lax_exp(f, x), 1, last));
  return mr_lax_sub(f, x, spread_records(f, lse, a));
}

static mr_var_t *focal_terms(mr_fn_t *f, mr_var_t *z, mr_var_t *targets, double gamma) {
  mr_var_t *log_p = log_shares(f, z);
  if (!log_p) return NULL;
  mr_var_t *terms = mr_lax_mul(f, targets, mr_lax_neg(f, log_p));
  if (gamma == 0) return terms;
  mr_var_t *rest = mr_lax_neg(f, mr_lax_expm1(f, log_p)); /* 1 - p, exact where p is near 1 */
  rest = mr_lax_pow(f, rest, mr_literal(f, z->aval.dtype, gamma));
  return mr_lax_mul(f, rest, terms);
}

static mr_var_t *mse_terms(mr_fn_t *f, mr_var_t *z, mr_var_t *targets) {
  mr_var_t *d = mr_lax_sub(f, z, targets);
  return d ? mr_lax_scale(f, 1 / (double)z->aval.dim[1], mr_lax_mul(f, d, d)) : NULL;
}

/* A loss of other kinds than cross-entropy. */
static mr_var_t *written_losses(mr_fn_t *f, const mr_class_loss_t *l, mr_var_t *logits,
                                mr_var_t *labels, mr_var_t *mask) {
  bool shares = labels->aval.dtype != MR_I32;
  const mr_aval_t *a = &logits->aval;
  mr_var_t *targets = shares ? labels : one_hot_rows(f, labels, a, &mask);
  if (l->smoothing > 0 && targets) {
    mr_var_t *even = mr_lax_full(f, &targets->aval, l->smoothing / (double)a->dim[1]);
    targets = mr_lax_add(f, mr_lax_scale(f, 1 - l->smoothing, targets), even);
  }
  if (!targets) return NULL;
  if (l->kind >= MR_CLASS_LOSS_ADDED) {
    assert((int)l->kind - MR_CLASS_LOSS_ADDED < n_added);
    targets = fill_targets(f, targets, mask);
    if (!targets) return NULL;
    mr_var_t *own = added_losses(f, added[l->kind - MR_CLASS_LOSS_ADDED], logits, targets);
    return own ? mr_lax_mul(f, own, mask) : NULL;
  }
  mr_var_t *terms = l->kind == MR_CLASS_LOSS_FOCAL ? focal_terms(f, logits, targets, l->gamma)
                                                   : mse_terms(f, logits, targets);
  if (!terms) return NULL;
  return mr_lax_mul(f, mr_lax_reduce_sum(f, terms, 1, (int[]){1}), mask);
}

mr_var_t *mr_class_losses(mr_fn_t *f, const mr_class_loss_t *l, mr_var_t *logits, mr_var_t *labels,
                          mr_var_t *mask) {
  if (!logits || !labels) return NULL;
  if (l->kind == MR_CLASS_LOSS_CROSS_ENTROPY)
    return labels->aval.dtype != MR_I32
               ? mr_loss_of_targets(f, logits, labels, mask, l->smoothing)
               : mr_lax_softmax_cross_entropy(f, logits, labels, (float)l->smoothing);
  const char *outer = mr_amp_stop(f);
  mr_var_t *losses = written_losses(f, l, logits, labels, mask);
  mr_scope_leave(f, outer);
  return losses;
}
