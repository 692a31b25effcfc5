/* Lowering a program.  Each equation becomes a step, a reduction or another name for a value;
   intermediate values get slots of a thread's block memory by their lifetimes. */
#include "model/backends/cpu/program.h"

#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/program_private.h"
#include "model/backends/cpu/rules.h"
#include "model/ir/element.h"
#include "model/ops/rules.h"

typedef struct builder {
  program_t *p;
  const mr_call_t *c;
  mr_diag_t *diag;
  int n_name; /* the vars and their values; a reshape's result has the value of its operand */
  struct {
    const mr_var_t *var;
    int value;
  } name[VALUES_MAX];
} builder_t;

static mr_err_t program_refuse(const builder_t *b, const char *what) {
  return mr_fail(b->diag, MR_ERR_SHAPE, "%s: a fused loop cannot take it: %s", b->c->eqn->op->name,
                 what);
}

/* ---- values ---- */
static int program_find(const builder_t *b, const mr_var_t *v) {
  for (int i = 0; i < b->n_name; i++)
    if (b->name[i].var == v) return b->name[i].value;
  return -1;
}

static bool call_it(builder_t *b, const mr_var_t *v, int value) {
  if (b->n_name == VALUES_MAX) return false;
  b->name[b->n_name].var = v;
  b->name[b->n_name++].value = value;
  return true;
}

/* The index of a new value; -1: there are too many. */
static int program_add(builder_t *b, mr_dtype_t t, place_t place, int index) {
  if (b->p->n_value == VALUES_MAX) return -1;
  b->p->value[b->p->n_value] = (value_t){.dtype = t,
                                         .place = place,
                                         .index = index,
                                         .slot = -1,
                                         .size = mr_dtype_size(t),
                                         .born = -1,
                                         .last = -1};
  return b->p->n_value++;
}

static int64_t program_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

/* ---- units ---- */
/* The value of an operand.  A literal becomes a constant at its first use. */
static int find_operand(builder_t *b, const mr_var_t *v) {
  int i = program_find(b, v);
  if (i >= 0 || !v->literal) return i;
  i = program_add(b, v->aval.dtype, PLACE_CONST, -1);
  if (i < 0 || !call_it(b, v, i)) return -1;
  char *to = b->p->value[i].constant;
  if (v->aval.dtype == MR_U64 || v->aval.dtype == MR_I64) {
    *(int64_t *)to = v->whole;
  } else {
    mr_set_f64(v->aval.dtype, to, 0, v->value);
  }
  return i;
}

static bool is_one(const value_t *x) { return x->place == PLACE_ONE || x->place == PLACE_CONST; }

static bool bind_each(builder_t *b, step_t *t) {
  const mr_eqn_t *e = t->unit.eqn;
  if (e->n_in > MR_UNIT_IN || program_elems(e->out[0]) != b->p->n) return false;
  for (int k = 0; k < e->n_in; k++) {
    t->in[k] = find_operand(b, e->in[k]);
    if (t->in[k] < 0) return false;
    value_t *x = &b->p->value[t->in[k]];
    if (x->place == PLACE_FOLDED || x->place == PLACE_OTHER) return false;
    t->unit.step[k] = !is_one(x);
    if (x->last < b->p->n_step) x->last = b->p->n_step;
  }
  t->out = program_add(b, e->out[0]->aval.dtype, PLACE_SLOT, -1);
  if (t->out < 0 || b->p->n_step == STEPS_MAX || !call_it(b, e->out[0], t->out)) return false;
  b->p->value[t->out].born = b->p->n_step;
  b->p->step[b->p->n_step++] = *t;
  return true;
}

/* Another name for the operand, or an operand of the call to be repeated. */
static bool bind_view(builder_t *b, const step_t *t) {
  const mr_eqn_t *e = t->unit.eqn;
  int from = find_operand(b, e->in[0]);
  if (from < 0) return false;
  value_t x = b->p->value[from];
  if (is_one(&x) || program_elems(e->in[0]) == program_elems(e->out[0]))
    return call_it(b, e->out[0], from);
  if (x.place != PLACE_OTHER || program_elems(e->out[0]) != b->p->n) return false;
  int to = program_add(b, x.dtype, PLACE_REPEAT, x.index);
  if (to < 0) return false;
  b->p->value[to].mid = t->unit.is.mid;
  b->p->value[to].inner = t->unit.is.inner;
  return call_it(b, e->out[0], to);
}

static bool bind_index(builder_t *b, const step_t *t) {
  const mr_var_t *y = t->unit.eqn->out[0];
  if (program_elems(y) != b->p->n) return false;
  int to = program_add(b, y->aval.dtype, PLACE_INDEX, -1);
  if (to < 0) return false;
  b->p->value[to].mid = t->unit.is.mid;
  b->p->value[to].inner = t->unit.is.inner;
  return call_it(b, y, to);
}

/* Repeats one element: a reduction reads n of them. */
static void spread_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) memcpy((char *)out + i * u->whole, in[0], (size_t)u->whole);
}

/* Returns the value whose n elements are those of a value of one, -1 if there are too many. */
static int bind_spread(builder_t *b, int one) {
  program_t *p = b->p;
  step_t t = {.unit = {.run = spread_run, .whole = (int64_t)p->value[one].size}, .in = {one}};
  t.out = program_add(b, p->value[one].dtype, PLACE_SLOT, -1);
  if (t.out < 0 || p->n_step == STEPS_MAX) return -1;
  p->value[t.out].born = p->n_step;
  p->step[p->n_step++] = t;
  return t.out;
}

/* All reductions of a program must fold the same rows in the same way. */
static bool bind_reduce(builder_t *b, step_t *t) {
  program_t *p = b->p;
  const mr_eqn_t *e = t->unit.eqn;
  t->in[0] = program_find(b, e->in[0]);
  if (t->in[0] >= 0 && is_one(&p->value[t->in[0]])) t->in[0] = bind_spread(b, t->in[0]);
  t->out = program_add(b, e->out[0]->aval.dtype, PLACE_FOLDED, -1);
  bool columns = t->unit.is.kind == MR_UNIT_COLUMNS;
  bool alike = !p->inner || (p->inner == t->unit.is.inner && p->columns == columns);
  bool fits = t->in[0] >= 0 && t->out >= 0 && p->n_reduce < MR_PROGRAM_ENDS &&
              t->unit.is.inner > 1 && alike && program_elems(e->in[0]) == p->n;
  if (!fits) return false;
  p->inner = t->unit.is.inner;
  p->columns = columns;
  p->value[t->in[0]].last = STEPS_MAX;
  p->reduce[p->n_reduce++] = *t;
  return call_it(b, e->out[0], t->out);
}

static mr_err_t program_bind(builder_t *b, const mr_eqn_t *e) {
  step_t t = {.unit = {.eqn = e}};
  if (!mr__cpu_unit(&t.unit))
    return mr_fail(b->diag, MR_ERR_NORULE, "%s: the CPU cannot fuse it", e->op->name);
  bool fits = false;
  switch (t.unit.is.kind) {
    case MR_UNIT_EACH: fits = bind_each(b, &t); break;
    case MR_UNIT_REDUCE:
    case MR_UNIT_COLUMNS: fits = bind_reduce(b, &t); break;
    case MR_UNIT_INDEX: fits = bind_index(b, &t); break;
    case MR_UNIT_SAME:
    case MR_UNIT_REPEAT: fits = bind_view(b, &t); break;
  }
  return fits ? MR_OK : program_refuse(b, e->op->name);
}

/* ---- ends ---- */
static mr_err_t bind_inputs(builder_t *b, int n, mr_var_t *const *in) {
  for (int k = 0; k < n; k++) {
    int64_t size = program_elems(in[k]);
    int v = program_add(b, in[k]->aval.dtype,
                        size == b->p->n ? PLACE_IN
                        : size == 1     ? PLACE_ONE
                                        : PLACE_OTHER,
                        k);
    if (v < 0 || !call_it(b, in[k], v)) return program_refuse(b, "too many operands");
  }
  return MR_OK;
}

static void copy_run(const mr_cpu_unit_t *u, const void *const *in, void *out, int64_t n) {
  memcpy(out, in[0], (size_t)(n * u->whole)); /* bytes of an element */
}

/* The memory of an output may be that of an operand.  A value that is written before the last
   read of such an operand must stay in its slot and be copied at the end of the block. */
static bool is_early(const program_t *p, const value_t *y) {
  for (int v = 0; v < p->n_value; v++)
    if (p->value[v].place == PLACE_IN && p->value[v].size == y->size && p->value[v].last > y->born)
      return true;
  return false;
}

static bool copy_out(builder_t *b, int value, int k) {
  program_t *p = b->p;
  value_t *y = &p->value[value];
  step_t t = {.unit = {.run = copy_run, .whole = (int64_t)y->size, .step = {1}}, .in = {value}};
  t.out = program_add(b, y->dtype, PLACE_OUT, k);
  if (t.out < 0 || p->n_step == STEPS_MAX) return false;
  y->last = p->n_step;
  p->step[p->n_step++] = t;
  return true;
}

static mr_err_t bind_output(builder_t *b, const mr_var_t *v, int k) {
  int i = program_find(b, v);
  value_t *y = i < 0 ? NULL : &b->p->value[i];
  if (!y || y->index >= 0 || (y->place != PLACE_SLOT && y->place != PLACE_FOLDED))
    return program_refuse(b, "a result that nothing in it computes, or that is given twice");
  if (y->place == PLACE_SLOT && is_early(b->p, y))
    return copy_out(b, i, k) ? MR_OK : program_refuse(b, "too many results");
  y->index = k;
  if (y->place == PLACE_SLOT) y->place = PLACE_OUT;
  return MR_OK;
}

/* ---- slots ---- */
static bool needs_slot(const value_t *x) {
  return x->place == PLACE_SLOT || x->place == PLACE_REPEAT || x->place == PLACE_INDEX;
}

/* Assigns slots; a slot is free after the last step that reads its value. */
static void assign_slots(program_t *p) {
  int until[VALUES_MAX];
  size_t size = 1;
  for (int v = 0; v < p->n_value; v++) {
    value_t *x = &p->value[v];
    if (x->size > size) size = x->size;
    if (!needs_slot(x)) continue;
    int s = 0;
    while (s < p->n_slot && until[s] >= x->born) s++;
    if (s == p->n_slot) p->n_slot++;
    x->slot = s;
    until[s] = x->place != PLACE_SLOT ? STEPS_MAX : x->last < x->born ? x->born : x->last;
  }
  size_t room = p->n_slot ? SLOT_BYTES / 2 / (size_t)p->n_slot / size : BLOCK_MAX;
  p->block = (int64_t)room / BLOCK_MIN * BLOCK_MIN;
  if (p->block > BLOCK_MAX) p->block = BLOCK_MAX;
  if (p->block < BLOCK_MIN) p->block = BLOCK_MIN;
  p->slot_bytes = (size_t)p->block * size;
}

static mr_err_t program_finish(builder_t *b) {
  program_t *p = b->p;
  assign_slots(p);
  if (p->slot_bytes * (size_t)p->n_slot > SLOT_BYTES)
    return program_refuse(b, "too many values at a time");
  return MR_OK;
}

/* The number of elements of the program's values: that of the largest, or 0 if a result is
   empty. */
static int64_t count_elements(int n_eqn, mr_eqn_t *const *eqn) {
  int64_t n = 0;
  for (int i = 0; i < n_eqn; i++) {
    for (int k = 0; k < eqn[i]->n_in; k++)
      if (program_elems(eqn[i]->in[k]) > n) n = program_elems(eqn[i]->in[k]);
    for (int k = 0; k < eqn[i]->n_out; k++) {
      if (!program_elems(eqn[i]->out[k])) return 0;
      if (program_elems(eqn[i]->out[k]) > n) n = program_elems(eqn[i]->out[k]);
    }
  }
  return n;
}

static mr_err_t program_build(builder_t *b, int n_eqn, mr_eqn_t *const *eqn, int n_in,
                              mr_var_t *const *in, int n_out, mr_var_t *const *out) {
  if (n_eqn > MR_PROGRAM_EQNS || n_in > MR_PROGRAM_ENDS || n_out > MR_PROGRAM_ENDS)
    return program_refuse(b, "too many equations, operands or results");
  b->p->n = count_elements(n_eqn, eqn);
  MR_TRY(bind_inputs(b, n_in, in));
  for (int i = 0; i < n_eqn; i++) MR_TRY(program_bind(b, eqn[i]));
  for (int k = 0; k < n_out; k++) MR_TRY(bind_output(b, out[k], k));
  return program_finish(b);
}

/* A program with room for the largest possible one. */
typedef struct draft {
  program_t p;
  step_t step[STEPS_MAX], reduce[MR_PROGRAM_ENDS];
  value_t value[VALUES_MAX];
} draft_t;

/* A copy of d in one block of memory; NULL without memory. */
static program_t *copy_compact(const program_t *d) {
  size_t steps = (size_t)d->n_step * sizeof(step_t), folds = (size_t)d->n_reduce * sizeof(step_t);
  size_t values = (size_t)d->n_value * sizeof(value_t);
  program_t *p = malloc(sizeof *p + steps + folds + values);
  if (!p) return NULL;
  *p = *d;
  p->step = (step_t *)(p + 1);
  p->reduce = p->step + d->n_step;
  p->value = (value_t *)(p->reduce + d->n_reduce);
  memcpy(p->step, d->step, steps);
  memcpy(p->reduce, d->reduce, folds);
  memcpy(p->value, d->value, values);
  return p;
}

mr_err_t mr__program_lower(mr_call_t *c, int n_eqn, mr_eqn_t *const *eqn, int n_in,
                           mr_var_t *const *in, int n_out, mr_var_t *const *out, mr_diag_t *diag) {
  draft_t draft;
  builder_t b = {.p = &draft.p, .c = c, .diag = diag};
  draft.p = (program_t){.step = draft.step, .reduce = draft.reduce, .value = draft.value};
  MR_TRY(program_build(&b, n_eqn, eqn, n_in, in, n_out, out));
  program_t *p = copy_compact(&draft.p);
  if (!p) return mr_no_memory(diag, "the lowering of a fused loop");
  c->state = p;
  c->fini = free;
  c->run = mr__program_run;
  int64_t chunks = p->inner ? (p->inner + CHUNK - 1) / CHUNK : 0;
  if (p->columns)
    c->scratch_bytes = mr__program_columns_cut(p);
  else if (chunks > 1)
    c->scratch_bytes = (size_t)(p->n / p->inner * chunks * p->n_reduce) * sizeof(float);
  return MR_OK;
}

mr_err_t mr__program_one(mr_call_t *c, mr_diag_t *diag) {
  mr_eqn_t *e = (mr_eqn_t *)(uintptr_t)c->eqn; /* it is only read */
  return mr__program_lower(c, 1, &e, e->n_in, e->in, e->n_out, e->out, diag);
}
