/* Conversions, concatenations and slices of several tensors side by side in one kernel: a step
   converts every parameter to its compute dtype, joins the weights of q, k and v, and cuts their
   gradients apart again, each time for a tensor so small that starting the kernel takes longer than
   what it moves.

   Such an equation is early if nothing but inputs and other early equations precedes it; all early
   ones are moved to the front, one kernel for each step away from the inputs.  The others are moved
   behind, up to an equation that reads several of them.  Both keep their operands or results
   longer than before, hence the bound on their bytes.  An equation that waits and is read alone
   stays alone.  It runs behind all other passes, and what it makes are equations of the op `fused`
   with the attribute `beside`, whose function holds the equations as they were. */
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* Bytes of an operand or a result at most. */
enum { BESIDE_BYTES = 1 << 24 };

typedef struct side {
  mr_fn_t *f;
  const mr_target_t *t;
  mr_eqn_t **old; /* [n_old] the equations before */
  int n_old;
  int *level;      /* by var id: how many early kernels are before it; -1: it is not early */
  int *step;       /* [n_old] the level of an early equation; -1: another one */
  bool *waiting;   /* by var id: the result of an equation that waits */
  mr_eqn_t **wait; /* [n_old] those that wait */
  mr_eqn_t **late; /* [n_old] of them, those that are written last */
  int n_wait;
  mr_var_t **map; /* by var id: its var in the body under way */
} side_t;

static bool moves_alone(const mr_eqn_t *e) {
  const mr_op_def_t *const ops[] = {&mr_op_convert_element_type, &mr_op_concatenate, &mr_op_slice};
  bool is = false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) is |= e->op == ops[i];
  if (!is || !mr_aval_elems(&e->out[0]->aval)) return false;
  if (mr_aval_bytes(&e->out[0]->aval) > BESIDE_BYTES) return false;
  for (int k = 0; k < e->n_in; k++) {
    const mr_aval_t *a = &e->in[k]->aval;
    if (e->in[k]->literal || !mr_aval_elems(a) || mr_aval_bytes(a) > BESIDE_BYTES) return false;
  }
  return true;
}

/* Reshapes, which take no kernel, move with what they reshape. */
static bool is_reshape(const mr_eqn_t *e) {
  return e->op->kind == MR_OP_ALIAS && e->n_in == 1 && e->n_out == 1;
}

/* ---- which are early ---- */

static int level_of(const side_t *s, const mr_eqn_t *e) {
  int level = 0;
  for (int k = 0; k < e->n_in; k++) {
    int own = e->in[k]->literal ? 0 : s->level[e->in[k]->id];
    if (own < 0) return -1;
    if (own > level) level = own;
  }
  return level;
}

/* Returns the number of levels. */
static int side_find_early(side_t *s) {
  int levels = 0;
  for (int v = 0; v < s->f->n_var; v++) s->level[v] = -1;
  for (int k = 0; k < s->f->n_in; k++) s->level[s->f->in[k]->id] = 0;
  for (int i = 0; i < s->n_old; i++) {
    const mr_eqn_t *e = s->old[i];
    bool alias = is_reshape(e);
    int level = alias || moves_alone(e) ? level_of(s, e) : -1;
    s->step[i] = level;
    if (level < 0) continue;
    s->level[e->out[0]->id] = alias ? level : level + 1;
    if (!alias && level + 1 > levels) levels = level + 1;
  }
  return levels;
}

/* ---- equations side by side as one ---- */

static mr_eqn_t *side_form(side_t *s, mr_eqn_t *const *e, int n, int n_ends) {
  mr_fn_t *body = mr_fn_create(), *f = s->f;
  mr_var_t **in = calloc(2 * (size_t)n_ends + 1, sizeof(mr_var_t *));
  mr_var_t **out = in ? in + n_ends : NULL;
  mr_eqn_t *made = NULL;
  int n_in = 0;
  for (int i = 0; i < n && body && in; i++) {
    for (int k = 0; k < e[i]->n_in; k++) {
      mr_var_t *v = e[i]->in[k];
      if (s->map[v->id]) continue;
      s->map[v->id] = mr_fn_input(body, v->aval);
      in[n_in++] = v;
    }
    mr__copy_eqn(body, e[i], s->map);
    out[i] = s->map[e[i]->out[0]->id];
  }
  if (!body || !in || mr_fn_return(body, n, out) < 0) {
    mr_no_memory(&f->diag, "beside");
  } else {
    mr_origin_t before = mr_origin(f);
    mr_origin_from(f, e[n - 1], "beside");
    mr_attr_t attr[] = {mr_attr_fn("jaxpr", body), mr_attr_int("beside", n)};
    int kept = f->n_eqn;
    made = mr_emit(f, &mr_op_fused, n_in, in, 2, attr, n);
    f->n_eqn = kept;
    mr_origin_set(f, before);
  }
  for (int k = 0; k < n_in; k++) s->map[in[k]->id] = NULL;
  for (int i = 0; i < n; i++) {
    s->map[e[i]->out[0]->id] = NULL;
    if (!made) continue;
    made->out[i] = e[i]->out[0];
    made->out[i]->def = made;
  }
  free(in), mr_fn_destroy(body);
  return made;
}

/* Appends e[0,n), which read none of one another's results, in as few equations as the target's
   kernels have ends for. */
static mr_err_t side_emit(side_t *s, mr_eqn_t *const *e, int n) {
  for (int i = 0; i < n;) {
    int ends = 0, many = 0;
    while (i + many < n && ends + e[i + many]->n_in + 1 <= s->t->joined_ends)
      ends += e[i + many++]->n_in + 1;
    mr_eqn_t *one = many > 1 ? side_form(s, e + i, many, ends) : e[i];
    if (!one) return s->f->diag.code;
    MR_TRY(mr__keep(s->f, one));
    i += many ? many : 1;
  }
  return MR_OK;
}

static mr_err_t emit_early(side_t *s, int levels) {
  for (int level = 0; level <= levels; level++) {
    s->n_wait = 0;
    for (int i = 0; i < s->n_old; i++) {
      if (s->step[i] != level) continue;
      if (is_reshape(s->old[i]))
        MR_TRY(mr__keep(s->f, s->old[i]));
      else
        s->wait[s->n_wait++] = s->old[i];
    }
    MR_TRY(side_emit(s, s->wait, s->n_wait));
  }
  s->n_wait = 0;
  return MR_OK;
}

/* ---- those that wait ---- */

static bool side_waits(const side_t *s, const mr_var_t *v) {
  return !v->literal && s->waiting[v->id];
}

/* Appends all that wait: reshapes behind what they reshape. */
static mr_err_t emit_waiting(side_t *s) {
  int n = 0, reshapes = 0;
  mr_eqn_t **of = s->late;
  for (int i = 0; i < s->n_wait; i++) {
    s->waiting[s->wait[i]->out[0]->id] = false;
    if (is_reshape(s->wait[i]))
      of[reshapes++] = s->wait[i];
    else
      s->wait[n++] = s->wait[i];
  }
  s->n_wait = 0;
  MR_TRY(side_emit(s, s->wait, n));
  for (int i = 0; i < reshapes; i++) MR_TRY(mr__keep(s->f, of[i]));
  return MR_OK;
}

/* Appends the equation of v, which waits, alone, behind the one that it reshapes. */
static mr_err_t emit_alone(side_t *s, const mr_var_t *v) {
  mr_eqn_t *e = v->def;
  if (is_reshape(e) && side_waits(s, e->in[0])) MR_TRY(emit_alone(s, e->in[0]));
  int at = 0;
  while (s->wait[at] != e) at++;
  s->n_wait--;
  memmove(s->wait + at, s->wait + at + 1, (size_t)(s->n_wait - at) * sizeof(mr_eqn_t *));
  s->waiting[v->id] = false;
  return mr__keep(s->f, e);
}

/* Appends what e reads of those that wait: all of them if it reads several. */
static mr_err_t emit_read(side_t *s, const mr_eqn_t *e) {
  const mr_var_t *read = NULL;
  for (int k = 0; k < e->n_in; k++) {
    if (!side_waits(s, e->in[k]) || e->in[k] == read) continue;
    if (read) return emit_waiting(s);
    read = e->in[k];
  }
  return read ? emit_alone(s, read) : MR_OK;
}

static mr_err_t emit_others(side_t *s) {
  for (int i = 0; i < s->n_old; i++) {
    mr_eqn_t *e = s->old[i];
    bool reshapes = is_reshape(e) && side_waits(s, e->in[0]);
    if (s->step[i] >= 0) continue;
    if (!reshapes) MR_TRY(emit_read(s, e));
    if (!reshapes && !moves_alone(e)) {
      MR_TRY(mr__keep(s->f, e));
      continue;
    }
    s->waiting[e->out[0]->id] = true;
    s->wait[s->n_wait++] = e;
  }
  return emit_waiting(s);
}

mr_err_t mr_beside(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  size_t n = (size_t)f->n_eqn + 1, v = (size_t)f->n_var + 1;
  if (!t->joined_ends || !f->n_eqn) return MR_OK;
  side_t s = {.f = f, .t = t, .n_old = f->n_eqn};
  s.old = calloc(3 * n, sizeof(mr_eqn_t *));
  s.level = calloc(v + n, sizeof(int));
  s.waiting = calloc(v, sizeof(bool));
  s.map = calloc(v, sizeof(mr_var_t *));
  mr_err_t e = MR_ERR_NOMEM;
  if (s.old && s.level && s.waiting && s.map) {
    memcpy(s.old, f->eqn, (n - 1) * sizeof(mr_eqn_t *));
    s.wait = s.old + n, s.late = s.wait + n;
    s.step = s.level + v;
    int levels = side_find_early(&s);
    f->n_eqn = 0;
    e = emit_early(&s, levels);
    if (e >= 0) e = emit_others(&s);
  }
  free(s.old), free(s.level), free(s.waiting), free(s.map);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "beside")
                                    : mr_diag_relay(diag, e, &f->diag);
}
