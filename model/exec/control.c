/* Rules of scan, while and cond.  The graphs inside are compiled with the call and work in its
   scratch.  Carries alternate between the result's memory and a second place in the scratch, so
   that no step copies them. */
#include "model/exec/call.h"

#include <stdlib.h>
#include <string.h>

#include "model/control/flow.h"
#include "model/exec/device.h"
#include "model/exec/exec_private.h"

/* ---- inner executables: functions inside an equation, planned with the graph around it.  They
   work in scratch memory of the call, so that the memory plan of the outer graph covers them, and
   are bound together with it.  Their inputs and outputs may be rows of larger arrays, aligned to no
   more than mr_compile_options_t.align says ---- */

/* Compiles f for c's device and options, without an arena; its inputs and outputs are multiples of
   `align` bytes.  The call lists *out in c->inner, with its offset in c->scratch, and frees it in
   c->fini. */
static mr_err_t inner_create(const mr_call_t *c, const mr_fn_t *f, size_t align, mr_exec_t **out,
                             mr_diag_t *diag) {
  mr_exec_t *x = calloc(1, sizeof *x);
  if (!x) return mr_no_memory(diag, "a compiled graph");
  mr_compile_options_t o = *c->options;
  o.in_place = 0;
  o.donate = NULL; /* donations are those of the outer graph's inputs */
  o.lender = NULL;
  o.align = align;
  x->device = mr_device_keep(c->device);
  x->threads = o.threads ? o.threads : mr_device_threads(x->device);
  x->lent = true; /* the arena is the call's scratch */
  mr_err_t err = mr__exec_plan(x, f, &o, true, diag);
  if (err < 0) {
    mr_exec_destroy(x);
    return err;
  }
  x->first_write = x->fn->n_eqn;
  *out = x;
  return MR_OK;
}

static size_t inner_align(const mr_device_t *d, size_t n) {
  return (n + d->backend->align - 1) & ~(d->backend->align - 1);
}

/* The bytes of x's arena in the scratch. */
static size_t inner_bytes(const mr_exec_t *x) { return inner_align(x->device, x->plan.bytes); }

static size_t call_align(const mr_call_t *c, size_t n) { return inner_align(c->device, n); }

static mr_err_t control_no_memory(const mr_call_t *c, mr_diag_t *diag) {
  return mr_no_memory(diag, "the lowering of %s", c->eqn->op->name);
}

/* Copies the bytes of a carry, unless it is already in place. */
static void control_move(const mr_call_t *c, void *to, const void *from, size_t bytes,
                         mr_copy_way_t way) {
  if (to != from && bytes) mr_device_copy(c->device, to, from, bytes, way);
}

/* ---- scan: carries alternate between the result's memory and a second place; rows are read and
   written in place ---- */
typedef struct scan {
  mr_scan_t s;
  mr_exec_t *body;
  mr_call_inner_t inner;
  size_t *size; /* [n_in + n_out] bytes of a carry, or of a row of x or y; 0 for constants */
  const void **in;
  void **out;
} scan_t;

static void scan_fini(void *state) {
  scan_t *l = state;
  mr_exec_destroy(l->body);
  free(l->size);
  free(l->in);
  free(l->out);
  free(l);
}

/* The place of carry k after `done` steps of n: after the last step it is the result. */
static void *carry_at(const mr_call_t *c, char *second, int k, int64_t done, int64_t n) {
  return (n - done) % 2 ? second : c->out[k];
}

/* Points the body's inputs and outputs at the values of a step. */
static void control_aim(const mr_call_t *c, int64_t step) {
  scan_t *l = c->state;
  int64_t n = l->s.length, row = l->s.reverse ? n - 1 - step : step;
  int first = l->s.n_consts, n_in = c->eqn->n_in;
  char *second = (char *)c->scratch + inner_bytes(l->body);
  for (int k = 0; k < l->s.n_carry; k++) {
    l->in[first + k] = step ? carry_at(c, second, k, step, n) : c->in[first + k];
    l->out[k] = carry_at(c, second, k, step + 1, n);
    second += call_align(c, l->size[n_in + k]);
  }
  for (int i = first + l->s.n_carry; i < n_in; i++)
    l->in[i] = (char *)c->in[i] + (size_t)row * l->size[i];
  for (int k = l->s.n_carry; k < c->eqn->n_out; k++)
    l->out[k] = (char *)c->out[k] + (size_t)row * l->size[n_in + k];
}

static void scan_run(const mr_call_t *c) {
  scan_t *l = c->state;
  int first = l->s.n_consts;
  for (int i = 0; i < first; i++) l->in[i] = c->in[i];
  for (int k = 0; k < l->s.n_carry && !l->s.length; k++)
    control_move(c, c->out[k], c->in[first + k], l->size[c->eqn->n_in + k], MR_COPY_WITHIN);
  for (int64_t step = 0; step < l->s.length; step++) {
    control_aim(c, step);
    mr_exec_start(l->body, l->in, l->out);
  }
}

/* What every row of x and y is aligned to: their arrays are aligned as the call's operands. */
static size_t scan_align(const mr_call_t *c, const scan_t *l) {
  size_t align = mr__call_align(c);
  int first_y = c->eqn->n_in + l->s.n_carry;
  for (int i = l->s.n_consts + l->s.n_carry; i < c->eqn->n_in; i++)
    while (l->size[i] % align) align /= 2;
  for (int i = first_y; i < c->eqn->n_in + c->eqn->n_out; i++)
    while (l->size[i] % align) align /= 2;
  return align;
}

mr_err_t mr__scan_lower(mr_call_t *c, mr_diag_t *diag) {
  const mr_eqn_t *e = c->eqn;
  mr_scan_parts_t p = mr__scan_parts(e);
  scan_t *l = calloc(1, sizeof *l);
  if (!l) return control_no_memory(c, diag);
  c->state = l;
  c->fini = scan_fini;
  l->s = p.s;
  l->size = calloc((size_t)(e->n_in + e->n_out) + 1, sizeof *l->size);
  l->in = calloc((size_t)e->n_in + 1, sizeof *l->in);
  l->out = calloc((size_t)e->n_out + 1, sizeof *l->out);
  if (!l->size || !l->in || !l->out) return control_no_memory(c, diag);
  for (int i = 0; i < e->n_in; i++) l->size[i] = mr_aval_bytes(&p.body->in[i]->aval);
  for (int k = 0; k < e->n_out; k++) l->size[e->n_in + k] = mr_aval_bytes(&p.body->out[k]->aval);
  MR_TRY(inner_create(c, p.body, scan_align(c, l), &l->body, diag));
  c->scratch_bytes = inner_bytes(l->body);
  for (int k = 0; k < p.s.n_carry; k++) c->scratch_bytes += call_align(c, l->size[e->n_in + k]);
  if (!p.s.length && p.s.n_carry) { /* otherwise the last step computes them there */
    c->note[0].what = "carries copied to the result of a scan of no steps";
    for (int k = 0; k < p.s.n_carry; k++) c->note[0].bytes += 2 * l->size[e->n_in + k];
  }
  l->inner = (mr_call_inner_t){.exec = l->body, .runs = p.s.length, .branch = -1};
  c->inner = &l->inner;
  c->n_inner = 1;
  c->serial = false; /* each equation of the body decides for itself */
  c->run = scan_run;
  return MR_OK;
}

/* ---- while: carries alternate between the result's memory and a second place.  In a recording the
   addresses of a round are fixed: each round reads the carries from the result's memory, and copies
   them back there from the second place ---- */
typedef struct loop {
  int n_cond, n_body, n_carry; /* constants of both functions, and what is carried */
  mr_exec_t *cond, *body;
  mr_call_inner_t inner[2];
  size_t verdict, second;          /* offsets in the scratch: the condition, the second carries */
  const void **to_cond, **to_body; /* their operands, constants first */
  void **out;
} loop_t;

static void loop_fini(void *state) {
  loop_t *l = state;
  mr_exec_destroy(l->cond);
  mr_exec_destroy(l->body);
  free(l->to_cond);
  free(l->to_body);
  free(l->out);
  free(l);
}

static size_t carry_bytes(const mr_call_t *c, int k) {
  return mr_aval_bytes(&c->eqn->out[k]->aval);
}

static uint8_t *verdict_of(const mr_call_t *c) {
  const loop_t *l = c->state;
  return (uint8_t *)c->scratch + l->verdict;
}

/* Runs the condition on the current carries. */
static void while_test(const mr_call_t *c) {
  loop_t *l = c->state;
  mr_exec_start(l->cond, l->to_cond, (void *[]){verdict_of(c)});
}

/* Whether another step follows. */
static bool loop_holds(const mr_call_t *c) {
  uint8_t yes = 0;
  while_test(c);
  control_move(c, &yes, verdict_of(c), sizeof yes, MR_COPY_OUT);
  return yes;
}

/* For a recording: what comes before the first round (part 0), or a round. */
static void while_give(void *arg, int part) {
  const mr_call_t *c = arg;
  loop_t *l = c->state;
  const void **now_cond = l->to_cond + l->n_cond, **now = l->to_body + l->n_body;
  char *at = (char *)c->scratch + l->second;
  for (int k = 0; k < l->n_carry && part; k++) {
    l->out[k] = at;
    at += call_align(c, carry_bytes(c, k));
  }
  if (part) mr_exec_start(l->body, l->to_body, l->out);
  for (int k = 0; k < l->n_carry; k++) {
    control_move(c, c->out[k], part ? l->out[k] : now[k], carry_bytes(c, k), MR_COPY_WITHIN);
    now[k] = now_cond[k] = c->out[k];
  }
  while_test(c);
}

static void while_run(const mr_call_t *c) {
  loop_t *l = c->state;
  const void **now_cond = l->to_cond + l->n_cond, **now = l->to_body + l->n_body;
  for (int i = 0; i < l->n_cond; i++) l->to_cond[i] = c->in[i];
  for (int i = 0; i < l->n_body; i++) l->to_body[i] = c->in[l->n_cond + i];
  for (int k = 0; k < l->n_carry; k++) now[k] = now_cond[k] = c->in[l->n_cond + l->n_body + k];
  const mr_record_ops_t *record = c->device->backend->record;
  void *arg = (void *)(uintptr_t)c; /* what give gets back as const */
  if (record && record->loop && record->loop(c->device, verdict_of(c), while_give, arg)) return;
  while (loop_holds(c)) {
    char *at = (char *)c->scratch + l->second;
    for (int k = 0; k < l->n_carry; k++) {
      l->out[k] = now[k] == c->out[k] ? at : c->out[k];
      at += call_align(c, carry_bytes(c, k));
    }
    mr_exec_start(l->body, l->to_body, l->out);
    for (int k = 0; k < l->n_carry; k++) now[k] = now_cond[k] = l->out[k];
  }
  for (int k = 0; k < l->n_carry; k++)
    control_move(c, c->out[k], now[k], carry_bytes(c, k), MR_COPY_WITHIN);
}

mr_err_t mr__while_lower(mr_call_t *c, mr_diag_t *diag) {
  mr_while_parts_t p = mr__while_parts(c->eqn);
  loop_t *l = calloc(1, sizeof *l);
  if (!l) return control_no_memory(c, diag);
  c->state = l;
  c->fini = loop_fini;
  l->n_cond = p.n_cond, l->n_body = p.n_body, l->n_carry = p.n_carry;
  l->to_cond = calloc((size_t)p.cond->n_in + 1, sizeof *l->to_cond);
  l->to_body = calloc((size_t)p.body->n_in + 1, sizeof *l->to_body);
  l->out = calloc((size_t)p.n_carry + 1, sizeof *l->out);
  if (!l->to_cond || !l->to_body || !l->out) return control_no_memory(c, diag);
  MR_TRY(inner_create(c, p.cond, mr__call_align(c), &l->cond, diag));
  MR_TRY(inner_create(c, p.body, mr__call_align(c), &l->body, diag));
  size_t body_at = inner_bytes(l->cond);
  l->verdict = body_at + inner_bytes(l->body);
  l->second = l->verdict + call_align(c, 1);
  c->scratch_bytes = l->second;
  for (int k = 0; k < p.n_carry; k++) c->scratch_bytes += call_align(c, carry_bytes(c, k));
  l->inner[0] =
      (mr_call_inner_t){.exec = l->cond, .runs = 1, .when = "each test of while", .branch = -1};
  l->inner[1] = (mr_call_inner_t){
      .exec = l->body, .at = body_at, .runs = 1, .when = "each step of while", .branch = -1};
  const mr_record_ops_t *record = c->device->backend->record;
  c->note[0].what = record && record->loop
                        ? "carries copied to the result, in a captured run with each step"
                        : "carries copied to the result, unless the number of steps is odd";
  for (int k = 0; k < p.n_carry; k++) c->note[0].bytes += 2 * carry_bytes(c, k);
  if (!p.n_carry) c->note[0].what = NULL;
  c->inner = l->inner;
  c->n_inner = 2;
  c->serial = false;
  c->run = while_run;
  return MR_OK;
}

/* ---- cond: only one branch runs, so all of them share the scratch ---- */
typedef struct choice {
  int n;
  mr_call_inner_t *inner; /* [n] */
} choice_t;

static void choice_fini(void *state) {
  choice_t *s = state;
  for (int j = 0; s->inner && j < s->n; j++) mr_exec_destroy(s->inner[j].exec);
  free(s->inner);
  free(s);
}

static void cond_give(void *arg, int j) {
  const mr_call_t *c = arg;
  const choice_t *s = c->state;
  mr_exec_start(s->inner[j].exec, (const void *const *)(uintptr_t)(c->in + 1), c->out);
}

/* Runs the branch that the index names; an index outside is clamped, as in jax.lax.switch. */
static void cond_run(const mr_call_t *c) {
  const choice_t *s = c->state;
  const mr_record_ops_t *record = c->device->backend->record;
  void *arg = (void *)(uintptr_t)c; /* what give gets back as const */
  int32_t index;
  if (record && record->choose && record->choose(c->device, c->in[0], s->n, cond_give, arg)) return;
  control_move(c, &index, c->in[0], sizeof index, MR_COPY_OUT);
  cond_give(arg, index < 0 ? 0 : index < s->n ? index : s->n - 1);
}

mr_err_t mr__cond_lower(mr_call_t *c, mr_diag_t *diag) {
  const mr_fn_t *const *b;
  int n = mr__cond_branches(c->eqn, &b);
  choice_t *s = calloc(1, sizeof *s);
  if (!s) return control_no_memory(c, diag);
  c->state = s;
  c->fini = choice_fini;
  s->n = n;
  s->inner = calloc((size_t)n, sizeof *s->inner);
  if (!s->inner) return control_no_memory(c, diag);
  for (int j = 0; j < n; j++) {
    s->inner[j] = (mr_call_inner_t){.runs = 1, .branch = j};
    MR_TRY(inner_create(c, b[j], mr__call_align(c), &s->inner[j].exec, diag));
    size_t bytes = inner_bytes(s->inner[j].exec);
    if (bytes > c->scratch_bytes) c->scratch_bytes = bytes;
  }
  c->inner = s->inner;
  c->n_inner = n;
  c->serial = false;
  c->run = cond_run;
  return MR_OK;
}

mr_call_lower_fn *mr__control_rule(const mr_op_def_t *op) {
  static const struct {
    const mr_op_def_t *op;
    mr_call_lower_fn *lower;
  } rows[] = {{&mr_op_scan, mr__scan_lower},
              {&mr_op_while, mr__while_lower},
              {&mr_op_cond, mr__cond_lower},
              {&mr_op_psum, mr__psum_lower},
              {&mr_op_pmax, mr__pmax_lower},
              {&mr_op_pmin, mr__pmin_lower},
              {&mr_op_axis_index, mr__axis_index_lower},
              {&mr_op_all_gather, mr__all_gather_lower},
              {&mr_op_reduce_scatter, mr__reduce_scatter_lower},
              {&mr_op_all_to_all, mr__all_to_all_lower},
              {&mr_op_ppermute, mr__ppermute_lower}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == op) return rows[i].lower;
  return NULL;
}
