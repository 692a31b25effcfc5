/* linearize: the jvp graph cut in two.  Equations that depend on no tangent form the point; the
   rest is linear in the tangents and reads values of the first part, the residuals, as inputs. */
#include <stdlib.h>

#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

typedef struct cut {
  const mr_fn_t *j; /* the jvp: inputs and tangents -> outputs and their tangents */
  int n_point;      /* j->in[n_point..] are the tangents */
  bool *moves;      /* [j->n_var]: depends on a tangent */
  mr_var_t **kept;  /* [n_kept] residuals: read by equations that depend on a tangent */
  bool *seen;       /* [j->n_var]: is in kept */
  int n_kept;
} cut_t;

static void linearize_keep(cut_t *c, mr_var_t *v) {
  if (c->moves[v->id] || v->literal || c->seen[v->id]) return;
  c->seen[v->id] = true;
  c->kept[c->n_kept++] = v;
}

/* Finds the equations that depend on a tangent, and the residuals they read; a tangent that is
   constant is a residual too, since the linear part has it as an output. */
static void linearize_mark(cut_t *c) {
  const mr_fn_t *j = c->j;
  for (int i = c->n_point; i < j->n_in; i++) c->moves[j->in[i]->id] = true;
  for (int i = 0; i < j->n_eqn; i++) {
    const mr_eqn_t *e = j->eqn[i];
    bool any = false;
    for (int k = 0; k < e->n_in; k++) any |= c->moves[e->in[k]->id];
    for (int k = 0; k < e->n_out; k++) c->moves[e->out[k]->id] = any;
    for (int k = 0; any && k < e->n_in; k++) linearize_keep(c, e->in[k]);
  }
  for (int i = j->n_out / 2; i < j->n_out; i++)
    linearize_keep(c, j->out[i]); /* constant tangents */
}

/* Appends to g the equations that depend on a tangent, or those that do not; map holds g's
   inputs. */
static void copy_part(const cut_t *c, mr_fn_t *g, bool moving, mr_var_t **map) {
  for (int i = 0; i < c->j->n_eqn && g->diag.code >= 0; i++) {
    const mr_eqn_t *e = c->j->eqn[i];
    if (e->n_out && c->moves[e->out[0]->id] == moving) mr__copy_eqn(g, e, map);
  }
}

static mr_err_t point_part(const cut_t *c, mr_var_t **map, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "linearize");
  int n = c->j->n_out / 2;
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(n + c->n_kept + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < c->n_point; i++) map[c->j->in[i]->id] = mr_fn_input(g, c->j->in[i]->aval);
  copy_part(c, g, false, map);
  for (int i = 0; i < n + c->n_kept && g->diag.code >= 0; i++)
    all[i] = mr__mapped(g, map, i < n ? c->j->out[i] : c->kept[i - n]);
  return mr__finish(g, n + c->n_kept, all, out, diag);
}

static mr_err_t linear_part(const cut_t *c, mr_var_t **map, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_no_memory(diag, "linearize");
  int n = c->j->n_out / 2;
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < c->n_kept; i++) map[c->kept[i]->id] = mr_fn_input(g, c->kept[i]->aval);
  for (int i = c->n_point; i < c->j->n_in; i++)
    map[c->j->in[i]->id] = mr_fn_input(g, c->j->in[i]->aval);
  copy_part(c, g, true, map);
  for (int i = 0; i < n && g->diag.code >= 0; i++) all[i] = mr__mapped(g, map, c->j->out[n + i]);
  return mr__finish(g, n, all, out, diag);
}

static mr_err_t cut_in_two(cut_t *c, mr_fn_t **point, mr_fn_t **linear, mr_diag_t *diag) {
  size_t n = (size_t)c->j->n_var + 1;
  mr_var_t **map = calloc(2 * n, sizeof *map);
  c->moves = calloc(2 * n, sizeof(bool));
  c->kept = calloc(n, sizeof(mr_var_t *));
  mr_err_t err = MR_ERR_NOMEM;
  if (!map || !c->moves || !c->kept) {
    mr_no_memory(diag, "linearize");
  } else {
    c->seen = c->moves + n;
    linearize_mark(c);
    err = point_part(c, map, point, diag);
    if (err >= 0 && (err = linear_part(c, map + n, linear, diag)) < 0) mr_fn_destroy(*point);
  }
  free(map);
  free(c->moves);
  free(c->kept);
  return err;
}

mr_err_t mr_linearize(const mr_fn_t *f, int n, const int *wrt, mr_fn_t **point, mr_fn_t **linear,
                      mr_diag_t *diag) {
  mr_fn_t *j;
  MR_TRY(mr_jvp(f, n, wrt, &j, diag));
  cut_t c = {.j = j, .n_point = f->n_in};
  mr_err_t err = cut_in_two(&c, point, linear, diag);
  mr_fn_destroy(j);
  return err;
}
