/* one-hot: turns a label into a row of f32, 1 at its class, or smoothed: the targets that a loss
   takes instead of classes, and that mixup and cutmix blend. */
#include <inttypes.h>

#include "base/dataset.h"
#include "pipeline/stage_map.h"

enum { CLASSES_MAX = 1 << 20 };

typedef struct one_hot {
  const char *field_name;
  int64_t classes;
  double smoothing;
  int field;
} one_hot_t;

static bool is_label(const mr_field_t *f) { return f->label; }

static mr_err_t one_hot_plan(mr_stage_t *s) {
  one_hot_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  t->field = mr_field_choose(s, t->field_name, is_label, "a label");
  if (t->field < 0) return (mr_err_t)t->field;
  const mr_field_t *f = &in->field[t->field];
  int64_t known = mr_spec_classes(in, t->field);
  if (!known && !t->classes)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "field %s does not say how many classes there are; set classes=N",
                         f->name);
  if (t->classes && t->classes < known)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting classes = %" PRId64 ": field %s has %" PRId64 " classes",
                         t->classes, f->name, known);
  if (!t->classes) t->classes = known;
  s->out_spec[0] = *in;
  mr_field_t *row = &s->out_spec[0].field[t->field];
  row->dtype = MR_F32, row->label = false, row->ndim = 1, row->dim[0] = t->classes;
  row->n_classes = (int)t->classes;
  s->writes = (uint16_t)(1u << t->field);
  return MR_OK;
}

static mr_err_t one_hot_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const one_hot_t *t = s->state;
  int32_t label = *(const int32_t *)in->field[t->field].data;
  float *row = out->field[t->field].data;
  float other = (float)(t->smoothing / (double)t->classes);
  if (label != MR_LABEL_NONE && (label < 0 || label >= t->classes))
    return mr_stage_fail(s, MR_ERR_DATA,
                         "record %" PRIu64 " has label %d, want a class in [0,%" PRId64 ")",
                         in->key, label, t->classes);
  for (int64_t c = 0; c < t->classes; c++) row[c] = label == MR_LABEL_NONE ? 0 : other;
  if (label != MR_LABEL_NONE) row[label] += (float)(1 - t->smoothing);
  return MR_OK;
}

static const mr_opt_t one_hot_opts[] = {
    {.name = "classes",
     .hint = "numclasses nclasses",
     .type = MR_OPT_INT,
     .offset = offsetof(one_hot_t, classes),
     .def = "0",
     .lo = 0,
     .hi = CLASSES_MAX,
     .positional = 1,
     .help = "Length of a row; 0: the number of classes of the input."},
    {.name = "smoothing",
     .hint = "labelsmoothing",
     .type = MR_OPT_F64,
     .offset = offsetof(one_hot_t, smoothing),
     .def = "0",
     .hi = 1,
     .help = "Share of each label that is spread evenly over all classes."},
    {.name = "field",
     .type = MR_OPT_STR,
     .offset = offsetof(one_hot_t, field_name),
     .help = "Field of the labels; needed where there are several."},
    {0}};

static const mr_hint_t one_hot_words[] = {
    {"labelsmoothing", "one-hot smoothing=0.1", NULL},
    {"onehotencode onehotencoding onehotencoder tocategorical categoryencoding", "one-hot", NULL},
    {0}};

const mr_stage_def_t mr_stage_one_hot = {
    .name = "one-hot",
    .hint = one_hot_words,
    .help = "Turns labels into rows of f32, with label smoothing.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = one_hot_opts,
    .state_sz = sizeof(one_hot_t),
    .plan = one_hot_plan,
    .map = &(const mr_map_def_t){.run = one_hot_map},
};
