/* What a model is judged by: one number of an evaluation, named "valid/accuracy", or "accuracy" for
   the input valid; and the text in which a checkpoint keeps all such numbers of the evaluations of
   its parameters, "valid/loss=1.25 valid/accuracy=0.5 valid.dogs/loss=1.5".

   What chooses the best checkpoint and what ends training early ask here, so that both mean the
   same. Any thread; nothing is owned. */
#ifndef MR_METRICS_JUDGED_H
#define MR_METRICS_JUDGED_H

#include "metrics/report.h"

MR_BEGIN_DECLS

enum { MR_JUDGED_TEXT = 4096 }; /* bytes of the text of all numbers, the 0 included */

typedef struct mr_judged {
  char name[MR_IN_NAME_MAX + MR_METRIC_NAME_MAX + 2]; /* "valid/accuracy" */
  bool more_is_better;
} mr_judged_t;

/* Reads the value of a setting of that name of stage s: METRIC or INPUT/METRIC.  list: the metrics
   that there are; NULL: unknown, any name is taken, and more is better of accuracy alone.  MR_OK;
   or MR_ERR_CONFIG with the metrics that the model is judged by. */
mr_err_t mr_judged_by(mr_stage_t *s, const char *setting, const char *text,
                      const mr_metric_list_t *list, mr_judged_t *out);

/* Appends a number of an evaluation of an input to text[MR_JUDGED_TEXT], unless there is no room.
 */
void mr_judged_add(const char *input, const mr_metric_def_t *def, double value, char *text);

/* Returns whether such a text, of any origin, has the number, and writes it to *value; a number
   that is not finite counts as missing. */
bool mr_judged_find(const mr_judged_t *j, const char *text, double *value);

/* Returns whether a is better than b by more than delta. */
bool mr_judged_better(const mr_judged_t *j, double a, double b, double delta);

MR_END_DECLS

#endif
