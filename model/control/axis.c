#include "model/control/axis.h"

#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/exec.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

mr_err_t mr__axis_lower(mr_cpu_call_t *c, void (*run)(const mr_cpu_call_t *c), mr_diag_t *diag) {
  const mr_comm_rank_t *rank = c->options->rank;
  if (rank && !strcmp(rank->axis, mr_attr_get(c->eqn, "axis_name")->text)) {
    mr_axis_state_t *s = malloc(sizeof *s);
    if (!s) return mr_fail(diag, MR_ERR_NOMEM, "no memory to lower %s", c->eqn->op->name);
    *s = (mr_axis_state_t){rank->comm, rank->rank};
    c->state = s;
    c->fini = free;
    c->run = run;
    return MR_OK;
  }
  return mr_fail(diag, MR_ERR_NORULE, "%s%s%s: no vmap binds the axis \"%s\"", c->eqn->scope,
                 *c->eqn->scope ? ": " : "", c->eqn->op->name,
                 mr_attr_get(c->eqn, "axis_name")->text);
}

bool mr__axis_sample(mr_sample_t *s, mr_fn_t *body, mr_var_t *y) {
  mr_fn_t *m = NULL;
  mr_var_t *x = mr_sample_f32(s, -1, 1, 3, 2), *out = NULL;
  if (mr_fn_return(body, 1, &y) >= 0 &&
      mr_vmap_axis(body, "i", 3, NULL, NULL, &m, &s->f->diag) >= 0)
    mr_inline(s->f, m, &x, &out);
  mr_fn_destroy(m);
  mr_fn_destroy(body);
  mr_fn_return(s->f, 1, &out);
  return true;
}
