/* drop: removes some fields from each record. */
#include "stages/field_names.h"

typedef struct drop {
  const char *fields;
} drop_t;

static mr_err_t drop_plan(mr_stage_t *s) {
  const char *at = ((const drop_t *)s->state)->fields;
  const mr_spec_t *in = &s->in_spec[0];
  mr_spec_t *out = &s->out_spec[0];
  bool goes[MR_FIELDS_MAX] = {false};
  char word[MR_WORD_OF_LIST];
  while (mr_list_next(&at, word)) {
    int f = mr_field_named(s, "fields", word);
    if (f < 0) return (mr_err_t)f;
    goes[f] = true;
  }
  *out = *in;
  out->n_fields = 0;
  for (int f = 0; f < in->n_fields; f++)
    if (!goes[f]) mr_field_pass(s, f);
  if (out->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: a record needs one field, and all go");
}

static const mr_opt_t drop_opts[] = {{.name = "fields",
                                      .type = MR_OPT_STR,
                                      .offset = offsetof(drop_t, fields),
                                      .unit = "A,B,..",
                                      .positional = 1,
                                      .help = "Names of the fields to remove."},
                                     {0}};

const mr_stage_def_t mr_stage_drop = {
    .name = "drop",
    .help = "Removes some fields from each record.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = drop_opts,
    .state_sz = sizeof(drop_t),
    .plan = drop_plan,
    .map = &(const mr_map_def_t){.run = mr_fields_run},
};
