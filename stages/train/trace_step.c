/* Inspects every value of one training step, to find where a NaN or an infinity begins.

   The step is compiled again without the pass `fuse`, so that each op is an equation of its own
   with the scope of its layer.  On the CPU the bits are the same; a device adds rows in another
   order.  Without memory for that, the step runs as it did, and a fused op is named as a whole. */
#include "stages/train/trace_step.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/exec/finite.h"
#include "stages/train/computes.h"

mr_err_t mr__traced_compile(const mr__traced_step_t *t, bool apart, mr_train_step_t **out,
                            mr_diag_t *diag) {
  mr_train_config_t c = t->config;
  char skip[MR_REPLAY_TEXT];
  const char *usual = c.skip ? c.skip : getenv("MILLRACE_SKIP_PASSES");
  snprintf(skip, sizeof skip, "fuse%s%s", usual && *usual ? "," : "", usual ? usual : "");
  if (apart) c.skip = skip;
  c.optim.only_finite = true;
  MR_TRY(mr_train_step_create(t->loss, &c, out, diag));
  mr_scale_state_t *scale = mr_train_step_scale(*out);
  *scale = t->scale;
  scale->bad = INT32_MAX - 1; /* more than any limit: nothing is applied */
  mr_err_t e = mr__computes_set_fp8("the step", &t->fp8, *out, diag);
  if (e < 0) mr_train_step_destroy(*out), *out = NULL;
  return e;
}

mr_err_t mr__traced_run(const mr__traced_step_t *t, mr_train_step_t *step, mr_train_out_t *out,
                        mr_diag_t *diag) {
  MR_TRY(mr_train_step_run(step, t->params, t->field, &t->in, diag));
  MR_TRY(mr_train_step_read(step, true, out, diag));
  mr_train_step_retake(step);
  return MR_OK;
}

/* ---- texts ---- */

static const char *trace_number_text(double v, char text[32]) {
  if (isnan(v)) return "nan";
  if (isinf(v)) return v > 0 ? "inf" : "-inf";
  mr_snprintf(text, 32, "%.4g", v);
  return text;
}

/* "[3,17]" */
static void place_text(const mr_aval_t *a, int64_t flat, char *text, size_t n) {
  int64_t at[MR_MAX_NDIM];
  for (int d = a->ndim - 1; d >= 0; d--) at[d] = flat % a->dim[d], flat /= a->dim[d];
  size_t len = (size_t)snprintf(text, n, "[");
  for (int d = 0; d < a->ndim && len < n; d++)
    len += (size_t)snprintf(text + len, n - len, "%s%" PRId64, d ? "," : "", at[d]);
  if (len < n) snprintf(text + len, n - len, "]");
}

/* Whether a tensor of that shape may be a parameter's gradient, whose rows are no records. */
static bool of_parameter(const mr__traced_step_t *t, const mr_aval_t *a) {
  for (int i = 0; i < t->params->n; i++) {
    const mr_aval_t *p = &t->params->param[i].aval;
    if (mr_aval_elems(p) == mr_aval_elems(a)) return true;
  }
  return false;
}

/* Appends what v is computed from to queue[n], each var once, and returns the new n. */
static int operands_of(const mr_var_t *v, bool *seen, const mr_var_t **queue, int n) {
  for (int k = 0; v->def && k < v->def->n_in; k++) {
    const mr_var_t *x = v->def->in[k];
    if (!x->literal && !seen[x->id]) seen[x->id] = true, queue[n++] = x;
  }
  return n;
}

/* Of a step in parts, the part that v of g belongs to: it is computed from a slice of the batch's
   fields.  -1 if it is not, or without memory. */
static int64_t trace_part_of(const mr__traced_step_t *t, const mr_fn_t *g, const mr_var_t *v) {
  const mr_train_config_t *c = &t->config;
  const mr_var_t **queue = calloc((size_t)g->n_var + 1, sizeof *queue);
  bool *seen = calloc((size_t)g->n_var + 1, sizeof *seen);
  int64_t part = -1, parts = mr_train_parts(c);
  int n = 0;
  if (queue && seen) queue[n++] = v;
  for (int at = 0; at < n && part < 0; at++) {
    const mr_eqn_t *e = queue[at]->def;
    for (int i = 0; e && e->op == &mr_op_slice && i < t->loss->n_fields; i++)
      for (int64_t k = 0; e->in[0] == g->in[i] && k < parts; k++)
        if (mr_attr_get(e, "start_indices")->i[0] == mr_train_part_at(c, k) &&
            e->out[0]->aval.dim[0] == mr_train_part_at(c, k + 1) - mr_train_part_at(c, k))
          part = k;
    n = operands_of(queue[at], seen, queue, n);
  }
  free(queue), free(seen);
  return part;
}

/* " (slot 3, record 40)": the record that row `row` of an output of e in g is of; e NULL: of an
   input.  "" if its rows are no records, or may be those of a parameter's gradient. */
static void record_text(const mr__traced_step_t *t, const mr_fn_t *g, const mr_eqn_t *e,
                        bool forward, const mr_aval_t *a, int64_t row, char text[96]) {
  const mr_train_config_t *c = &t->config;
  int64_t parts = mr_train_parts(c), part = -1;
  *text = 0;
  if (!a->ndim) return;
  if (parts > 1 && e) part = trace_part_of(t, g, e->out[0]);
  if (part >= 0 && a->dim[0] != mr_train_part_at(c, part + 1) - mr_train_part_at(c, part))
    part = -1;
  if (of_parameter(t, a) && (part < 0 || !forward)) return;
  if (a->dim[0] != t->config.batch && part < 0) return;
  int64_t slot = part < 0 ? row : mr_train_part_at(c, part) + row;
  if (slot >= t->n_records) return;
  int n = snprintf(text, 96, " (slot %" PRId64 ", record %" PRIu64, slot, t->record[slot]);
  if (part < 0)
    snprintf(text + n, (size_t)(96 - n), ")");
  else
    snprintf(text + n, (size_t)(96 - n), ", part %" PRId64 " of %" PRId64 ")", part + 1, parts);
}

/* "inf at [3,17] (slot 3, record 40), and 4 more of 40 elements"; record: of record_text. */
static void element_text(const mr_aval_t *a, const mr_seen_t *s, const char *record, char *text,
                         size_t n) {
  char place[160], number[32], more[64] = "";
  place_text(a, s->first, place, sizeof place);
  if (s->bad > 1)
    snprintf(more, sizeof more, ", and %" PRId64 " more of %" PRId64 " elements", s->bad - 1,
             mr_aval_elems(a));
  snprintf(text, n, "%s at %s%s%s", trace_number_text(s->value, number), place, record, more);
}

/* The row of element s->first. */
static int64_t trace_row_of(const mr_aval_t *a, const mr_seen_t *s) {
  return a->ndim ? s->first / (mr_aval_elems(a) / a->dim[0]) : 0;
}

/* The first input of the step's graph that is a parameter. */
static int first_parameter(const mr__traced_step_t *t) {
  return mr_loss_n_data(t->loss) + 2 + MR_SCALE_VARS + (t->fp8.n ? 2 : 0);
}

/* An input of the step's graph: "field x", "parameter head.kernel". */
static void input_text(const mr__traced_step_t *t, int i, char *text, size_t n) {
  const mr_loss_t *l = t->loss;
  int k = i - first_parameter(t);
  if (i < l->n_fields)
    snprintf(text, n, "field %s of the batch", l->field[i].name);
  else if (k < 0)
    snprintf(text, n, "input %d of the step", i);
  else if (k < t->params->n)
    snprintf(text, n, "parameter %s", t->params->param[k].name);
  else
    snprintf(text, n, "tensor %d that the optimizer keeps for parameter %s", k / t->params->n,
             t->params->param[k % t->params->n].name);
}

static const char *part_name(mr_train_part_t p) {
  static const char *const name[] = {
      [MR_PART_FORWARD] = "forward", [MR_PART_BACKWARD] = "backward", [MR_PART_UPDATE] = "update"};
  return name[p];
}

/* The text of equation `want` is kept, and those before it are printed. */
typedef struct listing {
  const mr_fn_t *fn;
  mr_train_step_t *step;
  const mr_finite_t *seen;
  FILE *to;
  int want;
  char *kept;
} listing_t;

static void take_text(void *arg, int i, const char *text) {
  listing_t *l = arg;
  const mr_eqn_t *e = l->fn->eqn[i];
  if (i == l->want && !l->kept) l->kept = strdup(text);
  if (!l->to) return;
  mr_seen_t worst = {.first = -1};
  for (int k = 0; k < e->n_out; k++) {
    const mr_seen_t *s = mr_finite_seen(l->seen, e->out[k]);
    worst.most = s->most > worst.most ? s->most : worst.most;
    worst.bad += s->bad;
  }
  char most[32];
  fprintf(l->to, "%5d %-8s %-28s max %-10s %s%s\n", i, part_name(mr_train_part_of(l->step, e)),
          *e->scope ? e->scope : "-", trace_number_text(worst.most, most), text,
          worst.bad ? "   <- not finite" : "");
}

static int index_of(const mr_fn_t *f, const mr_eqn_t *e) {
  int i = 0;
  while (i < f->n_eqn && f->eqn[i] != e) i++;
  return i;
}

/* "; the gradient of parameter head.kernel goes up to 3e+25": where the squares of gradients
   overflow that are all finite.  Of several that do so alone, the first. */
static void gradient_text(const mr__traced_step_t *t, const listing_t *l, const mr_fault_t *f,
                          char *text, size_t n) {
  int which = -1;
  double most = 0;
  char number[32];
  *text = 0;
  if (f->call || f->eqn->op != &mr_op_sum_squares || f->eqn->n_in != t->params->n) return;
  for (int k = 0; k < f->eqn->n_in && most * most < (double)FLT_MAX; k++) {
    const mr_seen_t *s = mr_finite_seen(l->seen, f->eqn->in[k]);
    if (s->most > most) most = s->most, which = k;
  }
  if (which >= 0)
    snprintf(text, n, "; the gradient of parameter %s goes up to %s", t->params->param[which].name,
             trace_number_text(most, number));
}

static void describe_columns(const mr__traced_step_t *t, const listing_t *l, const mr_fault_t *f,
                             char text[MR_TRACED_TEXT]) {
  char element[256], record[96] = "", input[MR_REPLAY_TEXT], inside[96] = "";
  char gradient[160];
  if (!f->eqn) {
    const mr_var_t *v = l->fn->in[f->which];
    input_text(t, f->which, input, sizeof input);
    record_text(t, l->fn, NULL, true, &v->aval, trace_row_of(&v->aval, &f->seen), record);
    element_text(&v->aval, &f->seen, record, element, sizeof element);
    snprintf(text, MR_TRACED_TEXT, "%s holds %s", input, element);
    return;
  }
  const mr_eqn_t *outer = f->call ? f->call : f->eqn;
  mr_train_part_t part = mr_train_part_of(l->step, outer);
  const mr_aval_t *a = &f->eqn->out[f->which]->aval;
  if (part != MR_PART_UPDATE)
    record_text(t, l->fn, outer, part == MR_PART_FORWARD, a, trace_row_of(a, &f->seen), record);
  element_text(a, &f->seen, record, element, sizeof element);
  gradient_text(t, l, f, gradient, sizeof gradient);
  if (f->call)
    snprintf(inside, sizeof inside, ", in run %" PRId64 " inside %s", f->run, f->call->op->name);
  mr_snprintf(text, MR_TRACED_TEXT, "%s%s%s%s: `%.300s` gives %s%s", part_name(part),
              *f->eqn->scope ? ", " : "", f->eqn->scope, inside,
              l->kept ? l->kept : f->eqn->op->name, element, gradient);
}

/* ---- parameters that would not fit ---- */

/* The parameter that v, which has its shape, is the update of: the nearest such operand of v's
   equation, of those that compute its operands, and so on.  NULL without memory. */
static const char *updated_by(const mr__traced_step_t *t, const mr_fn_t *g, const mr_var_t *v) {
  const mr_var_t **queue = calloc((size_t)g->n_var + 1, sizeof *queue);
  bool *seen = calloc((size_t)g->n_var + 1, sizeof *seen);
  const char *name = NULL;
  int n = 0, first = first_parameter(t);
  if (queue && seen) queue[n++] = v;
  for (int at = 0; at < n && !name; at++) {
    const mr_eqn_t *e = queue[at]->def;
    for (int i = 0; !e && i < t->params->n && !name; i++)
      if (queue[at] == g->in[first + i] && mr_aval_same_shape(&queue[at]->aval, &v->aval))
        name = t->params->param[i].name;
    n = operands_of(queue[at], seen, queue, n);
  }
  free(queue), free(seen);
  return name;
}

static bool of_reach(const mr_eqn_t *e) {
  const char *last = strrchr(e->scope, '/');
  return e->op == &mr_op_abs && last && !strcmp(last + 1, MR_OPTIM_REACH);
}

/* Names the parameter whose update goes furthest beyond the dtype that it is kept in. */
static void trace_unfit(const mr__traced_step_t *t, const mr_fn_t *g, const mr_finite_t *w,
                        mr_traced_t *out) {
  double limit = (double)mr_train_limit(&t->config.compute), most = 0;
  const mr_eqn_t *worst = NULL;
  for (int i = 0; i < g->n_eqn && limit > 0; i++) {
    const mr_seen_t *s = of_reach(g->eqn[i]) ? mr_finite_seen(w, g->eqn[i]->out[0]) : NULL;
    if (s && s->most >= limit && s->most > most) most = s->most, worst = g->eqn[i];
  }
  const char *name = worst ? updated_by(t, g, worst->out[0]) : NULL;
  if (!worst) return;
  out->found = true;
  mr_snprintf(out->text, MR_TRACED_TEXT,
              "%s, %s: the update makes a number of magnitude %.6g of %s%s",
              part_name(MR_PART_UPDATE), t->config.optim.def->name, most,
              name ? "parameter " : "a parameter", name ? name : "");
}

/* ---- the trace ---- */

static mr_err_t trace_report(const mr__traced_step_t *t, mr_train_step_t *step,
                             const mr_finite_t *w, FILE *list, mr_traced_t *out, mr_diag_t *diag) {
  mr_fault_t f = {0};
  const mr_fn_t *g = mr_exec_fn(mr_train_step_exec(step));
  out->found = mr_finite_origin(w, 0, &f);
  int last = !out->found ? g->n_eqn - 1 : !f.eqn ? -1 : index_of(g, f.call ? f.call : f.eqn);
  listing_t l = {.fn = g, .step = step, .seen = w, .to = list, .want = f.call ? -1 : last};
  mr_err_t e = mr_fn_each_text(g, last + 1, take_text, &l);
  if (e >= 0 && f.call) {
    listing_t inner = {.fn = f.fn, .step = step, .want = f.index};
    e = mr_fn_each_text(f.fn, f.index + 1, take_text, &inner);
    l.kept = inner.kept;
  }
  if (e < 0) e = mr_no_memory(diag, "the text of an equation");
  if (e >= 0 && out->found)
    describe_columns(t, &l, &f, out->text);
  else if (e >= 0)
    trace_unfit(t, g, w, out);
  free(l.kept);
  return e < 0 ? e : MR_OK;
}

mr_err_t mr__trace_step(const mr__traced_step_t *t, FILE *list, mr_traced_t *out, mr_diag_t *diag) {
  mr_train_step_t *step = NULL;
  mr_finite_t *w = NULL;
  mr_diag_t unsaid = {0};
  *out = (mr_traced_t){0};
  mr_err_t e = mr__traced_compile(t, true, &step, &unsaid);
  if (e < 0) e = mr__traced_compile(t, false, &step, diag);
  if (e >= 0) e = mr_finite_create(mr_train_step_profiled(step), &w, diag);
  if (e >= 0) e = mr__traced_run(t, step, &out->out, diag);
  if (e >= 0) e = trace_report(t, step, w, list, out, diag);
  mr_finite_destroy(w);
  mr_train_step_destroy(step);
  return e;
}
