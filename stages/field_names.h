/* Lists of fields in settings, "A,B,..", for the stages that keep, leave out and rename them. */
#ifndef MR_STAGES_FIELD_NAMES_H
#define MR_STAGES_FIELD_NAMES_H

#include "pipeline/stage_map.h"

enum { MR_WORD_OF_LIST = 2 * MR_FIELD_NAME + 2 /* longer words name no field and come cut */ };

/* The next word of the list, whose rest is *at; false at its end. */
bool mr_list_next(const char **at, char word[MR_WORD_OF_LIST]);

/* In plan: the number of input 0's field that the word names; MR_ERR_CONFIG with a sentence about
   the setting of this name if none does. */
int mr_field_named(mr_stage_t *s, const char *setting, const char *word);

/* In plan: input 0's field `in` as the next field of output 0. */
void mr_field_pass(mr_stage_t *s, int in);

/* The run of a map that changes which fields there are, and none of their values. */
mr_err_t mr_fields_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out);

#endif
