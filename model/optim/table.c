/* The table of optimizers, made from list.def, and the check of their settings.  An optimizer is a
   constant with a traced update; what all have in common, clipping, loss scale and average, is
   checked here and computed around the update. */
#include <string.h>

#include "model/optim/optim.h"

static const mr_optim_def_t *const defs[] = {
#define MR_OPTIM(name) &mr_optim_##name,
#include "model/optim/list.def"
#undef MR_OPTIM
};

mr_optim_t mr_optim_of(const char *name) {
  for (size_t i = 0; i < sizeof defs / sizeof *defs; i++) {
    if (strcmp(defs[i]->name, name)) continue;
    mr_optim_t o = defs[i]->usual;
    o.def = defs[i];
    return o;
  }
  return (mr_optim_t){0};
}

bool mr_optim_counts(const mr_optim_t *o) { return o->dynamic.patience > 0 || o->only_finite; }

int mr_optim_sets(const mr_optim_t *o) { return 1 + o->def->n_slots + (o->ema > 0); }

mr_err_t mr_optim_check(const mr_optim_t *o, mr_diag_t *diag) {
  const struct {
    const char *name;
    float v, lo, hi;
    bool closed; /* hi is allowed */
  } row[] = {{"b1", o->b1, 0, 1, false},
             {"b2", o->b2, 0, 1, false},
             {"eps", o->eps, 0, 1, true},
             {"weight-decay", o->weight_decay, 0, 100, false},
             {"ema", o->ema, 0, 1, false},
             {"clip-norm", o->clip_norm, 0, 1e9f, true},
             {"loss-scale", o->loss_scale, 0, 1e9f, true}};
  if (!o->def) return mr_fail(diag, MR_ERR_CONFIG, "optimizer: none is set");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!(row[i].v >= row[i].lo &&
          (row[i].v < row[i].hi || (row[i].closed && row[i].v == row[i].hi))))
      return mr_fail(diag, MR_ERR_CONFIG, "%s.%s: %g, want [%g,%g%c", o->def->name, row[i].name,
                     (double)row[i].v, (double)row[i].lo, (double)row[i].hi,
                     row[i].closed ? ']' : ')');
  return mr_loss_scale_check(&o->dynamic, diag);
}
