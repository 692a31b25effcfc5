/* Leaves out records by what is cheap to ask: label, key, chance.  Those left out are holes: the
   others keep their positions, and batches close up over them. */
#include <stdlib.h>

#include "base/philox.h"
#include "pipeline/stage_filter.h"

enum { LABELS_MAX = 64 };

typedef struct filter {
  const char *label_text;
  int32_t label[LABELS_MAX];
  int n_labels, field; /* field: of the label */
  double key[2], remainder[2], p;
  int64_t modulo, seed;
  bool invert;
} filter_t;

static mr_err_t parse_labels(mr_stage_t *s) {
  filter_t *t = s->state;
  const char *at = t->label_text;
  t->n_labels = 0;
  while (at && *at) {
    char *end;
    long v = strtol(at, &end, 10);
    if (end == at || (*end && *end != ',') || v != (int32_t)v || t->n_labels == LABELS_MAX)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "setting label = \"%.200s\": want up to %d whole numbers A,B,C",
                           t->label_text, LABELS_MAX);
    t->label[t->n_labels++] = (int32_t)v;
    at = *end ? end + 1 : end;
  }
  return MR_OK;
}

static mr_err_t filter_plan(mr_stage_t *s) {
  filter_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  MR_TRY(parse_labels(s));
  t->field = mr_spec_label(in);
  if (t->n_labels && t->field < 0)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting label: the records have %s field that is a label",
                         t->field == -1 ? "no" : "more than one");
  int classes = t->field < 0 ? 0 : in->field[t->field].n_classes;
  s->out_spec[0] = *in;
  for (int i = 0; i < t->n_labels && classes; i++)
    if (t->label[i] < 0 || t->label[i] >= classes)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "setting label = \"%.200s\": no record has the label %d, since the "
                           "data set%s%s has the classes 0 to %d",
                           t->label_text, (int)t->label[i], in->dataset ? " " : "",
                           in->dataset ? in->dataset->origin : "", classes - 1);
  return MR_OK;
}

static bool has_label(const filter_t *t, const mr_rec_t *rec) {
  if (!t->n_labels) return true;
  int32_t label = *(const int32_t *)rec->field[t->field].data;
  for (int i = 0; i < t->n_labels; i++)
    if (t->label[i] == label) return true;
  return false;
}

/* Of the record alone, so that it stays or goes in every epoch. */
static bool is_lucky(const filter_t *t, uint64_t key) {
  mr_philox_t g;
  if (t->p >= 1) return true;
  mr_philox_init(&g, key, (uint64_t)t->seed);
  return mr_philox_random(&g) < t->p;
}

static mr_err_t filter_keep(mr_stage_t *s, const mr_rec_t *rec, bool *keep) {
  const filter_t *t = s->state;
  double key = (double)rec->key;
  double rest = t->modulo ? (double)(rec->key % (uint64_t)t->modulo) : t->remainder[0];
  bool fits = has_label(t, rec) && key >= t->key[0] && key <= t->key[1] &&
              rest >= t->remainder[0] && rest <= t->remainder[1] && is_lucky(t, rec->key);
  *keep = fits != t->invert;
  return MR_OK;
}

static const mr_opt_t filter_opts[] = {
    {.name = "label",
     .type = MR_OPT_STR,
     .offset = offsetof(filter_t, label_text),
     .unit = "A,B,C",
     .help = "Keeps records with one of these labels; all without it.",
     .positional = 1},
    {.name = "key",
     .type = MR_OPT_RANGE,
     .offset = offsetof(filter_t, key),
     .def = "0:1.9e19",
     .hi = 1.9e19,
     .help = "Keeps records whose key lies in this range, both ends included."},
    {.name = "modulo",
     .type = MR_OPT_INT,
     .offset = offsetof(filter_t, modulo),
     .def = "0",
     .hi = 1e15,
     .help = "Keeps records by the remainder of key / modulo; 0 asks for none."},
    {.name = "remainder",
     .type = MR_OPT_RANGE,
     .offset = offsetof(filter_t, remainder),
     .def = "0:0",
     .hi = 1e15,
     .help = "Remainders that stay, both ends included."},
    {.name = "p",
     .type = MR_OPT_F64,
     .offset = offsetof(filter_t, p),
     .def = "1",
     .hi = 1,
     .help = "Keeps this share of the records, drawn by key and seed."},
    {.name = "seed",
     .type = MR_OPT_INT,
     .offset = offsetof(filter_t, seed),
     .def = "0",
     .hi = 4294967295.0,
     .help = "Decides which share p keeps."},
    {.name = "invert",
     .type = MR_OPT_BOOL,
     .offset = offsetof(filter_t, invert),
     .def = "false",
     .help = "Inverts the choice."},
    {0}};

const mr_stage_def_t mr_stage_filter = {
    .name = "filter",
    .help = "Keeps the records of some labels or keys, or a share of them (grain's filter).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = filter_opts,
    .state_sz = sizeof(filter_t),
    .plan = filter_plan,
    .filter = &(const mr_filter_def_t){.keep = filter_keep, .of_record = true},
};
