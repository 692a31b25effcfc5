/* rename: gives fields other names. */
#include <string.h>

#include "stages/field_names.h"

typedef struct rename {
  const char *fields;
} rename_t;

/* Applies "OLD:NEW". OLD refers to the input's names, so one word does not affect another. */
static mr_err_t rename_one(mr_stage_t *s, char *word) {
  mr_field_t *field = s->out_spec[0].field;
  char *to = strchr(word, ':');
  if (to) *to++ = 0;
  int f = mr_field_named(s, "fields", word);
  if (f < 0) return (mr_err_t)f;
  if (!to || !mr_field_name_ok(to))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fields: \"%s:%s\": want OLD:NEW, where NEW has at most %d "
                         "letters, digits, \"_\", \"-\" and \".\", a letter first",
                         word, to ? to : "", MR_FIELD_NAME - 1);
  memset(field[f].name, 0, sizeof field[f].name);
  memcpy(field[f].name, to, strlen(to));
  return MR_OK;
}

static mr_err_t rename_plan(mr_stage_t *s) {
  const char *at = ((const rename_t *)s->state)->fields;
  mr_spec_t *out = &s->out_spec[0];
  char word[MR_WORD_OF_LIST];
  *out = s->in_spec[0];
  while (mr_list_next(&at, word)) MR_TRY(rename_one(s, word));
  for (int f = 0; f < out->n_fields; f++)
    if (mr_spec_find(out, out->field[f].name) != f)
      return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: two fields would be called %s",
                           out->field[f].name);
  return MR_OK;
}

static const mr_opt_t rename_opts[] = {{.name = "fields",
                                        .type = MR_OPT_STR,
                                        .offset = offsetof(rename_t, fields),
                                        .unit = "OLD:NEW,..",
                                        .positional = 1,
                                        .help = "Old and new names of fields."},
                                       {0}};

const mr_stage_def_t mr_stage_rename = {
    .name = "rename",
    .help = "Renames fields of records.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = rename_opts,
    .state_sz = sizeof(rename_t),
    .plan = rename_plan,
    .map = &(const mr_map_def_t){.run = mr_fields_run},
};
