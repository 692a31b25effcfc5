/* Lists of field names in settings. */
#include "stages/field_names.h"

#include <stdio.h>
#include <string.h>

bool mr_list_next(const char **at, char word[MR_WORD_OF_LIST]) {
  if (!*at || !**at) return false;
  size_t n = strcspn(*at, ",");
  snprintf(word, MR_WORD_OF_LIST, "%.*s", n < MR_WORD_OF_LIST ? (int)n : MR_WORD_OF_LIST, *at);
  *at += n + ((*at)[n] == ',');
  return true;
}

int mr_field_named(mr_stage_t *s, const char *setting, const char *word) {
  char names[MR_FIELDS_MAX * (MR_FIELD_NAME + 2)];
  const mr_spec_t *in = &s->in_spec[0];
  int f = mr_spec_find(in, word);
  if (f >= 0) return f;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting %s: there is no field \"%s\"; the records have %s", setting, word,
                       mr_spec_names(in, names, sizeof names));
}

void mr_field_pass(mr_stage_t *s, int in) {
  mr_spec_t *out = &s->out_spec[0];
  out->field[out->n_fields] = s->in_spec[0].field[in];
  mr_field_from(s, out->n_fields++, 0, in);
}

mr_err_t mr_fields_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) { return MR_OK; }
