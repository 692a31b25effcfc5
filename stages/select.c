/* select: keeps some fields of each record, in the order in which they are named. */
#include "stages/field_names.h"

typedef struct select {
  const char *fields;
} select_t;

static mr_err_t select_plan(mr_stage_t *s) {
  const char *at = ((const select_t *)s->state)->fields;
  mr_spec_t *out = &s->out_spec[0];
  char word[MR_WORD_OF_LIST];
  *out = s->in_spec[0];
  out->n_fields = 0;
  while (mr_list_next(&at, word)) {
    int f = mr_field_named(s, "fields", word);
    if (f < 0) return (mr_err_t)f;
    if (mr_spec_find(out, word) >= 0)
      return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: %s is named twice", word);
    mr_field_pass(s, f);
  }
  if (out->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: want the names of one field or more");
}

static const mr_opt_t select_opts[] = {
    {.name = "fields",
     .type = MR_OPT_STR,
     .offset = offsetof(select_t, fields),
     .unit = "A,B,..",
     .positional = 1,
     .help = "Names of the fields to keep, in the order of the output."},
    {0}};

const mr_stage_def_t mr_stage_select = {
    .name = "select",
    .help = "Keeps some fields of each record.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = select_opts,
    .state_sz = sizeof(select_t),
    .plan = select_plan,
    .map = &(const mr_map_def_t){.run = mr_fields_run},
};
