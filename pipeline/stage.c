/* What every stage can call, and the check of a stage's constant.  Plug-ins bring such constants at
   run time, so each fault that the compiler does not see has a sentence. */
#include "pipeline/stage.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/feature.h"
#include "base/text.h"
#include "pipeline/care.h"
#include "pipeline/registry.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "pipeline/stage_walk.h"

/* ---- names, settings and failures ---- */

const char *mr_input_letters(int i, char *text) {
  char back[MR_INPUT_LETTERS];
  int n = 0, k = 0;
  assert(i >= 0 && i < MR_INPUTS_MAX);
  for (int rest = i + 1; rest; rest = (rest - 1) / 26) back[n++] = (char)('a' + (rest - 1) % 26);
  while (n) text[k++] = back[--n];
  text[k] = 0;
  return text;
}

mr_err_t mr_stage_fail(mr_stage_t *s, mr_err_t code, const char *fmt, ...) {
  char text[900];
  va_list ap;
  va_start(ap, fmt);
  mr_vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return mr_fail(s->diag, code, "%s: %s", s->name, text);
}

mr_err_t mr_stage_relay(mr_stage_t *s, mr_err_t e, const mr_diag_t *from) {
  return mr_diag_prefix(s->diag, e, from, "%s", s->name);
}

mr_err_t mr_stage_no_memory(mr_stage_t *s, const char *what, ...) {
  char text[900];
  mr_diag_t why = {0};
  va_list ap;
  va_start(ap, what);
  mr_vsnprintf(text, sizeof text, what, ap);
  va_end(ap);
  return mr_stage_relay(s, mr_no_memory(&why, "%s", text), &why);
}

bool mr_setting_given(const mr_stage_t *s, size_t offset) {
  for (const mr_opt_t *o = s->def->opts; o && o->type != MR_OPT_END; o++)
    if (o->offset == offset)
      return s->given[(o - s->def->opts) / 64] >> ((o - s->def->opts) % 64) & 1;
  return false;
}

/* ---- the field that a stage works on ---- */

static int find_field_index(mr_stage_t *s, const char *name, mr_field_fits_fn *fits,
                            const char *wants) {
  const mr_spec_t *in = &s->in_spec[0];
  char text[MR_FIELDS_MAX * (MR_FIELD_NAME + 2)];
  int f = mr_spec_find(in, name);
  if (f < 0)
    return mr_stage_fail(s, MR_ERR_SHAPE, "setting field = %s: the records have %s", name,
                         mr_spec_names(in, text, sizeof text));
  if (fits(&in->field[f])) return f;
  mr_field_text(&in->field[f], 0, text, sizeof text);
  return mr_stage_fail(s, MR_ERR_SHAPE, "setting field = %s: it is %s, want %s", name,
                       text + strlen(name) + 1, wants);
}

int mr_field_choose(mr_stage_t *s, const char *name, mr_field_fits_fn *fits, const char *wants) {
  const mr_spec_t *in = &s->in_spec[0];
  char names[MR_FIELDS_MAX * (MR_FIELD_NAME + 2)];
  int found = -1;
  if (name) return find_field_index(s, name, fits, wants);
  for (int f = 0; f < in->n_fields; f++) {
    if (!fits(&in->field[f])) continue;
    if (found >= 0)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "fields %s and %s could both be %s: set field= to one of them",
                           in->field[found].name, in->field[f].name, wants);
    found = f;
  }
  if (found >= 0) return found;
  return mr_stage_fail(s, MR_ERR_SHAPE, "takes %s; the records have %s", wants,
                       mr_spec_names(in, names, sizeof names));
}

/* ---- the constant ---- */

/* Rows of the table in mr_stage_def_check. */
enum { ORDER = 1, WALK = 5 };

typedef struct kind {
  const char *name, *function; /* the member that must be set */
  bool is, complete;
  int least_in, most_in;
} kind_t;

static mr_err_t check_kind(const mr_stage_def_t *d, const kind_t *kind, int n, mr_diag_t *diag) {
  const kind_t *first = NULL;
  for (int i = 0; i < n; i++) {
    const kind_t *k = &kind[i];
    if (!k->is) continue;
    if (!k->complete)
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": .%s needs .%s; set it", d->name, k->name,
                     k->function);
    if (first && !(first == &kind[ORDER] && k == &kind[WALK]))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": sets .%s and .%s, want one kind (only .order and .walk go "
                     "together); make two stages of it",
                     d->name, first->name, k->name);
    first = k;
  }
  return first ? MR_OK
               : mr_fail(diag, MR_ERR_CONFIG,
                         "stage \"%s\": is of no kind; set one of .source, .order, .map, .filter, "
                         ".join, .walk and .step",
                         d->name);
}

static mr_err_t check_ports(const mr_stage_def_t *d, const kind_t *k, mr_diag_t *diag) {
  int n_in = mr_stage_def_n_in(d), n_out = mr_stage_def_n_out(d);
  if (n_in < k->least_in || n_in > k->most_in)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": has %d inputs, want %d to %d for .%s",
                   d->name, n_in, k->least_in, k->most_in, k->name);
  for (int i = 0; i < n_out && d->step; i++)
    if (d->out[i].flow == MR_FLOW_RECORDS)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": output \"%s\" gives records, which a stage with .step cannot; "
                     "give batches",
                     d->name, d->out[i].name);
  for (int i = 0; i < n_in; i++)
    if (d->in[i].more && k->most_in == 1)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": input \"%s\" has .more, and .%s takes one input; remove it, or "
                     "make it a .join",
                     d->name, d->in[i].name, k->name);
    else if (d->in[i].more && (i + 1 < n_in || !d->in[i].alike || !d->in[i].optional))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": input \"%s\" has .more, which only the last input can that is "
                     ".alike and .optional",
                     d->name, d->in[i].name);
  if (d->step && d->step->pulled && (n_out || d->step->parallel || d->step->run || d->step->left))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": .step is .pulled, and has outputs, .run, .left or .parallel, but "
                   "the program takes its buffers, in a thread of its own; remove them",
                   d->name);
  if (d->step) return MR_OK;
  for (int i = 0; i < n_in; i++)
    if (d->in[i].flow != MR_FLOW_RECORDS)
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": input \"%s\" must take records for .%s",
                     d->name, d->in[i].name, k->name);
  if (n_out != 1 || d->out[0].flow != MR_FLOW_RECORDS)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": want one output, of records, for .%s",
                   d->name, k->name);
  return MR_OK;
}

static mr_err_t check_settings(const mr_stage_def_t *d, mr_diag_t *diag) {
  int n = 0;
  for (const mr_opt_t *o = d->opts; o && o->type != MR_OPT_END; o++, n++) {
    if (n == MR_SETTINGS_MAX)
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": has more than %d settings", d->name,
                     MR_SETTINGS_MAX);
    if (!o->name || !*o->name)
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": setting %d has no name", d->name, n);
    if (!mr_opt_fits(o, d->state_sz))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage \"%s\": setting \"%s\" lies outside the state of %zu bytes; take its "
                     "offset with offsetof and state_sz with sizeof, of one struct",
                     d->name, o->name, d->state_sz);
    if (o->type == MR_OPT_ENUM && (!o->choices || !*o->choices))
      return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": setting \"%s\" has no choices", d->name,
                     o->name);
  }
  size_t care = d->source ? d->source->care : 0;
  if (care && (care > d->state_sz || d->state_sz - care < sizeof(mr_care_t)))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": .source's .care lies outside the state of %zu bytes", d->name,
                   d->state_sz);
  return MR_OK;
}

/* What the program relies on in the stage of a role: pipeline/stage.h. */
typedef struct role_needs {
  const char *what; /* "a checkpoint" */
  const char *setting[8];
  bool outside, end, feeds; /* outside: .step's; end: no output; feeds: an input */
  mr_flow_t takes;          /* of the first input; MR_FLOW_NONE: any */
} role_needs_t;

#define LINK_SETTINGS \
  { "link", "address", "bind", "key", "peers", "peer", "window" }

static const role_needs_t role_needs[MR_ROLES] = {
    [MR_ROLE_CLASSES] = {"a source of classes", {"path"}},
    [MR_ROLE_SEEDS] = {"a giver of generators", {"seed"}},
    [MR_ROLE_SIZES] = {"a maker of one size", {"size"}},
    [MR_ROLE_BATCH] = {"a maker of batches", {"size"}, .takes = MR_FLOW_RECORDS},
    [MR_ROLE_GATHER] = {"a joiner of slices", {"size"}, .takes = MR_FLOW_BATCHES},
    [MR_ROLE_STEP] = {"a training step", {NULL}, .takes = MR_FLOW_BATCHES},
    [MR_ROLE_CHECKPOINT] = {"a checkpoint", {"dir"}, .takes = MR_FLOW_STATE},
    [MR_ROLE_LEDGER] = {"a ledger", {"state", "resume-step", "resume-ledger"}},
    [MR_ROLE_LINES] = {"a file of metrics", {"path"}, .takes = MR_FLOW_METRICS},
    [MR_ROLE_PUBLISH] = {"a publisher of metrics", {NULL}, .takes = MR_FLOW_METRICS},
    [MR_ROLE_DISCARD] = {"a discarder", {NULL}, .end = true, .feeds = true},
    [MR_ROLE_LINK_OUT] = {"the sending end of a link", LINK_SETTINGS, .outside = true,
                          .feeds = true},
    [MR_ROLE_LINK_IN] = {"the receiving end of a link", LINK_SETTINGS, .outside = true},
};

static mr_err_t check_role(const mr_stage_def_t *d, mr_diag_t *diag) {
  if ((unsigned)d->role >= MR_ROLES)
    return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": .role = %d, want one of mr_role_t", d->name,
                   (int)d->role);
  const role_needs_t *r = &role_needs[d->role];
  const char *lacks = NULL;
  for (int i = 0; i < 8 && r->setting[i] && !lacks; i++)
    if (!mr_stage_def_opt(d, r->setting[i])) lacks = r->setting[i];
  if (lacks)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": .role says that it is %s, which has a setting \"%s\"; add it",
                   d->name, r->what, lacks);
  if (r->takes && d->in[0].flow != r->takes) lacks = "another first input";
  if (r->feeds && !d->in[0].name) lacks = "an input";
  if (r->end && d->out[0].name) lacks = "no output";
  if (r->outside && !(d->step && d->step->outside)) lacks = ".outside in its .step";
  if (!lacks) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "stage \"%s\": .role says that it is %s, which has %s",
                 d->name, r->what, lacks);
}

static mr_err_t check_metrics(const mr_stage_def_t *d, mr_diag_t *diag) {
  char who[160];
  snprintf(who, sizeof who, "stage \"%.120s\"", d->name);
  for (const mr_metric_def_t *m = d->metrics; m && m->name; m++) {
    MR_TRY(mr_metric_check(who, m->name, MR_METRIC_STAGE, diag));
    for (const mr_metric_def_t *before = d->metrics; before < m; before++)
      if (!strcmp(before->name, m->name))
        return mr_fail(diag, MR_ERR_CONFIG, "%s: declares the metric \"%.80s\" twice", who,
                       m->name);
    if (m->role != MR_METRIC_STAGE)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: its metric \"%.80s\" has another role than MR_METRIC_STAGE", who,
                     m->name);
  }
  return MR_OK;
}

mr_err_t mr_stage_def_check(const mr_stage_def_t *d, mr_diag_t *diag) {
  if (!d->name || !*d->name) return mr_fail(diag, MR_ERR_CONFIG, "a stage has no name");
  if (!mr_are_features(d->needs))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": .needs = \"%s\", want names of optional libraries", d->name,
                   d->needs);
  if (!mr_built_in(d->needs)) return MR_OK; /* the rest of the row is empty */
#define KIND(member, fn, least, most) \
  { #member, #fn, d->member, d->member && d->member->fn, least, most }
  const kind_t kind[] = {
      KIND(source, fetch, 0, 0),
      [ORDER] = KIND(order, at, 1, MR_MAX_PORTS),
      KIND(map, run, 1, 1),
      KIND(filter, keep, 1, 1),
      KIND(join, run, 1, MR_MAX_PORTS),
      [WALK] = KIND(walk, next, 1, MR_MAX_PORTS),
      {"step", "run", d->step, d->step && (d->step->run || d->step->pulled), 0, MR_MAX_PORTS},
  };
#undef KIND
  int n = sizeof kind / sizeof *kind;
  MR_TRY(check_kind(d, kind, n, diag));
  for (int i = 0; i < n; i++)
    if (kind[i].is) MR_TRY(check_ports(d, &kind[i], diag));
  if (d->order && !d->order->taken != !d->order->spans)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "stage \"%s\": .taken and .spans of .order go together; set both or none",
                   d->name);
  MR_TRY(check_settings(d, diag));
  MR_TRY(check_metrics(d, diag));
  return check_role(d, diag);
}
