/* The integers of a range as records: grain's MapDataset.range, and a source for trying out
   graphs. */
#include <inttypes.h>
#include <stdio.h>

#include "pipeline/care.h"
#include "pipeline/stage_source.h"

typedef struct range {
  int64_t start, stop, step, epochs;
  mr_care_t care;
} range_t;

enum { VALUE, LABEL }; /* fields */

/* `range 11` is 0 to 10, as in Python. */
static mr_err_t range_plan(mr_stage_t *s) {
  range_t *t = s->state;
  if (!mr_setting_given(s, offsetof(range_t, stop))) t->stop = t->start, t->start = 0;
  if (!t->step)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting step = 0: want a number other than 0");
  int64_t span = t->step > 0 ? t->stop - t->start : t->start - t->stop;
  int64_t step = t->step > 0 ? t->step : -t->step;
  int64_t n = span > 0 ? (span - 1) / step + 1 : 0;
  if (n < 1)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "no number from %" PRId64 " up to %" PRId64 " in steps of %" PRId64,
                         t->start, t->stop, t->step);
  if (t->epochs && n > (INT64_C(1) << 62) / t->epochs)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting epochs = %" PRId64 ": %" PRId64
                         " numbers repeated that often are more than 2^62",
                         t->epochs, n);
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 2,
                               .field = {{.name = "value", .dtype = MR_I64}, mr_field_of_label(0)},
                               .n_records = n,
                               .n_epochs = t->epochs};
  s->writes = 1 << VALUE | 1 << LABEL;
  return MR_OK;
}

/* label: the number's lower 32 bits; key: the number. */
static mr_err_t range_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  const range_t *t = s->state;
  for (int i = 0; i < n; i++) {
    int64_t value = t->start + index[i] * t->step;
    *(int64_t *)out[i].field[VALUE].data = value;
    *(int32_t *)out[i].field[LABEL].data = (int32_t)value;
    out[i].key = (uint64_t)value;
  }
  return MR_OK;
}

static void range_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const range_t *t = s->state;
  snprintf(out->file, MR_WHERE_MAX, "range");
  out->offset = -1;
  out->key = (uint64_t)(t->start + index * t->step);
}

static int64_t range_index_of(const mr_stage_t *s, uint64_t key) {
  const range_t *t = s->state;
  int64_t ahead = (int64_t)(key - (uint64_t)t->start);
  if (t->step == -1) return ahead > INT64_MIN ? -ahead : -1;
  return ahead % t->step ? -1 : ahead / t->step;
}

static const mr_opt_t range_opts[] = {
    {.name = "start",
     .type = MR_OPT_INT,
     .offset = offsetof(range_t, start),
     .lo = -4e15,
     .hi = 4e15,
     .help = "First number; if it is the only setting, the end of a range from 0.",
     .positional = 1},
    {.name = "stop",
     .type = MR_OPT_INT,
     .offset = offsetof(range_t, stop),
     .def = "0",
     .lo = -4e15,
     .hi = 4e15,
     .help = "End of the range, exclusive."},
    {.name = "step",
     .type = MR_OPT_INT,
     .offset = offsetof(range_t, step),
     .def = "1",
     .lo = -1e15,
     .hi = 1e15,
     .help = "Difference of neighbouring numbers."},
    {.name = "epochs",
     .type = MR_OPT_INT,
     .offset = offsetof(range_t, epochs),
     .unit = "epochs",
     .def = "1",
     .hi = 1e9,
     .help = "Number of passes; 0: endless."},
    MR_CARE_OPTS(range_t, care),
    {0}};

static const mr_source_def_t range_source = {
    .fetch = range_fetch,
    .where = range_where,
    .index_of = range_index_of,
    .care = offsetof(range_t, care),
};

const mr_stage_def_t mr_stage_range = {
    .name = "range",
    .help = "Produces the integers of a range (grain's MapDataset.range).",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = range_opts,
    .state_sz = sizeof(range_t),
    .plan = range_plan,
    .source = &range_source,
};
