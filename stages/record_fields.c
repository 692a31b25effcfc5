/* select, drop, rename: which fields a record has, in which order and under which names.  A list of
   fields is "A,B,.."; no value is touched. */
#include <stdio.h>
#include <string.h>

#include "pipeline/stage_map.h"

enum { WORD_MAX = 2 * MR_FIELD_NAME + 2 /* longer words name no field and are cut */ };

/* Copies the next word of the list and advances *at; false at its end, also if *at is NULL. */
static bool list_next(const char **at, char word[WORD_MAX]) {
  if (!*at || !**at) return false;
  size_t n = strcspn(*at, ",");
  snprintf(word, WORD_MAX, "%.*s", n < WORD_MAX ? (int)n : WORD_MAX, *at);
  *at += n + ((*at)[n] == ',');
  return true;
}

/* In plan: the index of input 0's field called word; MR_ERR_CONFIG (< 0) with a sentence about the
   setting if the records have no such field. */
static int find_field_named(mr_stage_t *s, const char *setting, const char *word) {
  char names[MR_FIELDS_MAX * (MR_FIELD_NAME + 2)];
  const mr_spec_t *in = &s->in_spec[0];
  int f = mr_spec_find(in, word);
  if (f >= 0) return f;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting %s: there is no field \"%s\"; the records have %s", setting, word,
                       mr_spec_names(in, names, sizeof names));
}

/* In plan: makes input 0's field `in` the next field of output 0. */
static void field_pass(mr_stage_t *s, int in) {
  mr_spec_t *out = &s->out_spec[0];
  out->field[out->n_fields] = s->in_spec[0].field[in];
  mr_field_from(s, out->n_fields++, 0, in);
}

/* The run of a map that changes which fields a record has, and none of their values. */
static mr_err_t fields_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) { return MR_OK; }

/* ---- select: keeps some fields, in the order in which they are named ---- */

typedef struct select {
  const char *fields;
} select_t;

static mr_err_t select_plan(mr_stage_t *s) {
  const char *at = ((const select_t *)s->state)->fields;
  mr_spec_t *out = &s->out_spec[0];
  char word[WORD_MAX];
  *out = s->in_spec[0];
  out->n_fields = 0;
  while (list_next(&at, word)) {
    int f = find_field_named(s, "fields", word);
    if (f < 0) return (mr_err_t)f;
    if (mr_spec_find(out, word) >= 0)
      return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: %s is named twice", word);
    field_pass(s, f);
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
    .map = &(const mr_map_def_t){.run = fields_run},
};

/* ---- drop: removes some fields ---- */

typedef struct drop {
  const char *fields;
} drop_t;

static mr_err_t drop_plan(mr_stage_t *s) {
  const char *at = ((const drop_t *)s->state)->fields;
  const mr_spec_t *in = &s->in_spec[0];
  mr_spec_t *out = &s->out_spec[0];
  bool goes[MR_FIELDS_MAX] = {false};
  char word[WORD_MAX];
  while (list_next(&at, word)) {
    int f = find_field_named(s, "fields", word);
    if (f < 0) return (mr_err_t)f;
    goes[f] = true;
  }
  *out = *in;
  out->n_fields = 0;
  for (int f = 0; f < in->n_fields; f++)
    if (!goes[f]) field_pass(s, f);
  if (out->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: a record needs a field, and this drops them all");
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
    .map = &(const mr_map_def_t){.run = fields_run},
};

/* ---- rename: gives fields other names ---- */

typedef struct rename {
  const char *fields;
} rename_t;

/* Applies "OLD:NEW". OLD refers to the input's names, so one word does not affect another. */
static mr_err_t rename_one(mr_stage_t *s, char *word) {
  mr_field_t *field = s->out_spec[0].field;
  char *to = strchr(word, ':');
  if (to) *to++ = 0;
  int f = find_field_named(s, "fields", word);
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
  char word[WORD_MAX];
  *out = s->in_spec[0];
  while (list_next(&at, word)) MR_TRY(rename_one(s, word));
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
    .map = &(const mr_map_def_t){.run = fields_run},
};
