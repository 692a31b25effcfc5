/* The stages own-source and own-map: records that functions of the program make.

   What the functions give is declared once, when the graph settles, so that a record has room
   before it is made; a function that gives something else is refused by its caller, who knows its
   language. */
#include "pull/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/care.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_source.h"
#include "pull/reader.h"

typedef struct own {
  const char *of;
  int64_t epochs;
  mr_care_t care;
  const mr_own_t *own;
} own_t;

static_assert(sizeof((mr_own_call_t *)0)->output == MR_FIELDS_MAX * sizeof(mr_own_value_t),
              "a call has room for the fields of a record");
static_assert(sizeof((mr_own_value_t *)0)->name == MR_FIELD_NAME, "and for their names");

static void value_of_field(const mr_field_t *f, mr_own_value_t *v) {
  *v = (mr_own_value_t){.dtype = (int32_t)f->dtype, .ndim = f->ndim, .ragged = f->ragged};
  memcpy(v->name, f->name, sizeof v->name);
  memcpy(v->dim, f->dim, sizeof v->dim);
}

static mr_err_t refuse_value(mr_stage_t *s, const mr_own_value_t *v, const char *fault) {
  return mr_stage_fail(s, MR_ERR_SHAPE, "%s: field %.31s: %s", ((own_t *)s->state)->of, v->name,
                       fault);
}

/* A field of the output; what an input field of the same form means, it means too. */
static mr_err_t plan_field(mr_stage_t *s, const mr_own_value_t *v, mr_field_t *f) {
  const mr_spec_t *in = &s->in_spec[0];
  if (!memchr(v->name, 0, sizeof v->name) || !mr_field_name_ok(v->name))
    return refuse_value(s, v,
                        "want a name of letters, digits, _, - and . that begins with a letter");
  if (v->dtype < 0 || v->dtype >= MR_DTYPE_COUNT) return refuse_value(s, v, "unknown dtype");
  if (v->ndim < 0 || v->ndim >= MR_MAX_NDIM) return refuse_value(s, v, "want at most 7 dimensions");
  *f = (mr_field_t){.dtype = (mr_dtype_t)v->dtype, .ndim = v->ndim};
  memcpy(f->name, v->name, sizeof f->name);
  int64_t bytes = (int64_t)mr_dtype_size(f->dtype);
  for (int d = 0; d < v->ndim; d++) {
    if (v->dim[d] < 0 || (v->dim[d] && bytes > INT32_MAX / v->dim[d]))
      return refuse_value(s, v, "want records of at most 2 GiB");
    f->dim[d] = v->dim[d], bytes *= v->dim[d];
  }
  f->label = f->dtype == MR_I32 && !f->ndim && !strcmp(f->name, "label");
  if (f->dtype == MR_U8 && f->ndim == 3 && f->dim[2] >= 1 && f->dim[2] <= 4)
    f->layout = MR_LAYOUT_HWC;
  int from = s->def->map ? mr_spec_find(in, f->name) : -1;
  if (from < 0) return MR_OK;
  const mr_field_t *was = &in->field[from];
  if (was->dtype == f->dtype && was->ndim == f->ndim && !was->ragged) {
    f->label = was->label, f->n_classes = was->n_classes, f->classes = was->classes;
    f->layout = was->layout;
  }
  return MR_OK;
}

static mr_err_t own_plan_fields(mr_stage_t *s, mr_own_call_t *call) {
  const own_t *t = s->state;
  mr_spec_t *spec = &s->out_spec[0];
  mr_diag_t diag = {0};
  mr_err_t e = t->own->plan(t->own->of, call, &diag);
  if (e < 0) return mr_stage_relay(s, e, &diag);
  if (call->n_output < 1 || call->n_output > MR_FIELDS_MAX)
    return mr_stage_fail(s, MR_ERR_SHAPE, "%s gives %d fields: want [1,%d]", t->of, call->n_output,
                         MR_FIELDS_MAX);
  for (int f = 0; f < call->n_output; f++) {
    MR_TRY(plan_field(s, &call->output[f], &spec->field[f]));
    for (int g = 0; g < f; g++)
      if (!strcmp(spec->field[g].name, spec->field[f].name))
        return refuse_value(s, &call->output[f], "occurs twice");
  }
  spec->n_fields = call->n_output;
  s->writes = (uint16_t)((1u << call->n_output) - 1);
  return MR_OK;
}

static mr_err_t own_find(mr_stage_t *s, bool source) {
  own_t *t = s->state;
  if (!t->of)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting of: want the name of a %s of the program",
                         source ? "source" : "map");
  t->own = mr__reader_own(s->registry, t->of);
  if (!t->own || (t->own->n > 0) != source)
    return mr_stage_fail(s, MR_ERR_USAGE, "the program has no %s of its own called \"%.60s\"",
                         source ? "source" : "map", t->of);
  return MR_OK;
}

static void set_room(const mr_spec_t *spec, const mr_rec_t *out, mr_own_call_t *call) {
  call->n_output = spec->n_fields;
  for (int f = 0; f < spec->n_fields; f++) {
    value_of_field(&spec->field[f], &call->output[f]);
    call->output[f].data = out->field[f].data;
  }
}

static mr_err_t make_record(mr_stage_t *s, mr_own_call_t *call) {
  const own_t *t = s->state;
  mr_diag_t diag = {0};
  mr_err_t e = t->own->make(t->own->of, call, &diag);
  return e < 0 ? mr_stage_relay(s, e, &diag) : MR_OK;
}

/* ---- source ---- */

static mr_err_t own_source_plan(mr_stage_t *s) {
  own_t *t = s->state;
  mr_own_call_t call = {0};
  MR_TRY(own_find(s, true));
  s->out_spec[0] =
      (mr_spec_t){.flow = MR_FLOW_RECORDS, .n_records = t->own->n, .n_epochs = t->epochs};
  return own_plan_fields(s, &call);
}

static mr_err_t own_source_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                                 mr_rec_t *out) {
  for (int i = 0; i < n; i++) {
    mr_own_call_t call = {.index = index[i]};
    set_room(&s->out_spec[0], &out[i], &call);
    out[i].key = (uint64_t)index[i];
    MR_TRY(make_record(s, &call));
  }
  return MR_OK;
}

static void own_source_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  snprintf(out->file, MR_WHERE_MAX, "%s", ((const own_t *)s->state)->of);
  out->offset = -1, out->key = (uint64_t)index;
}

static const mr_opt_t own_source_opts[] = {{.name = "of",
                                            .type = MR_OPT_STR,
                                            .offset = offsetof(own_t, of),
                                            .help = "Which source of the program.",
                                            .positional = 1},
                                           {.name = "epochs",
                                            .type = MR_OPT_INT,
                                            .offset = offsetof(own_t, epochs),
                                            .unit = "epochs",
                                            .def = "1",
                                            .hi = 1e9,
                                            .help = "Number of passes; 0: endless."},
                                           MR_CARE_OPTS(own_t, care),
                                           {0}};

static const mr_stage_def_t own_source = {
    .name = "own-source",
    .help = "Takes records from a function of the program.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = own_source_opts,
    .state_sz = sizeof(own_t),
    .plan = own_source_plan,
    .source = &(const mr_source_def_t){
        .fetch = own_source_fetch, .where = own_source_where, .care = offsetof(own_t, care)}};

/* ---- map ---- */

static mr_err_t own_map_plan(mr_stage_t *s) {
  const own_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  mr_own_call_t call = {.n_input = in->n_fields};
  MR_TRY(own_find(s, false));
  if (t->own->draws) MR_TRY(mr_needs_generator(s, NULL));
  for (int f = 0; f < in->n_fields; f++) {
    if (in->field[f].varies)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "%s: pictures of field %s differ in size: put resized-crop, center-crop "
                           "or resize before it",
                           t->of, in->field[f].name);
    value_of_field(&in->field[f], &call.input[f]);
  }
  s->out_spec[0] = *in;
  MR_TRY(own_plan_fields(s, &call));
  for (int f = 0; f < s->out_spec[0].n_fields; f++) mr_field_from(s, f, 0, -1);
  return MR_OK;
}

static mr_err_t own_map_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const own_t *t = s->state;
  const mr_spec_t *spec = &s->in_spec[0];
  mr_own_call_t call = {.index = (int64_t)(in->key & ~MR_KEY_SKIPPED), .n_input = spec->n_fields};
  for (int f = 0; f < spec->n_fields; f++) {
    value_of_field(&spec->field[f], &call.input[f]);
    call.input[f].data = in->field[f].data;
    if (spec->field[f].ragged) call.input[f].dim[0] = in->field[f].rows;
  }
  if (t->own->draws) {
    call.seed = mr_philox_next64(in->rng);
    mr_draw_note(out, call.seed);
  }
  set_room(&s->out_spec[0], out, &call);
  return make_record(s, &call);
}

static const mr_opt_t own_map_opts[] = {{.name = "of",
                                         .type = MR_OPT_STR,
                                         .offset = offsetof(own_t, of),
                                         .help = "Which map of the program.",
                                         .positional = 1},
                                        {0}};

static const mr_stage_def_t own_map = {
    .name = "own-map",
    .help = "Makes records of records by a function of the program.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = own_map_opts,
    .state_sz = sizeof(own_t),
    .plan = own_map_plan,
    .map = &(const mr_map_def_t){.run = own_map_run}};

const mr_stage_def_t *const mr__own_stages[] = {&own_source, &own_map, NULL};
