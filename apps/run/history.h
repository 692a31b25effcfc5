/* The history of a run: which graph, settings, data and plug-ins held from which step on.  It is
   RUN/history.jsonl, to which each start of training appends a line, and all that recomputes a step
   of a run asks it.  Main thread only. */
#ifndef MR_APPS_RUN_HISTORY_H
#define MR_APPS_RUN_HISTORY_H

#include <stdint.h>

#include "base/err.h"

/* What held behind step `from` until the next part.  Texts are heap and never NULL; those of
   several lines end each with a newline. */
typedef struct mr_history_part {
  int64_t from;
  char *graph, *settings;
  char *carry;   /* settings by which a stream that changed continues (apps/run/carry.h) */
  char *data;    /* of mr_data_facts; "": unknown */
  char *plugins; /* "NAME DIGEST" each; "": none, or unknown */
} mr_history_part_t;

typedef struct mr_history {
  mr_history_part_t *part; /* [n] by rising `from`; steps that were repeated later are not in it */
  int n;
  mr_history_part_t newest; /* the last line, whatever it was followed by; if n > 0 */
  char *text;               /* of the whole lines of the file */
} mr_history_t;

/* Reads the history of the run in this folder; empty, and MR_OK, if it has none (earlier versions).
   A last line that is cut short, as a kill may leave it, does not count.  MR_ERR_IO, MR_ERR_NOMEM;
   MR_ERR_DATA names the line.  The caller calls mr_history_free, after a failure too. */
mr_err_t mr_history_read(const char *run, mr_history_t *h, mr_diag_t *diag);
void mr_history_free(mr_history_t *h); /* all zero is fine */

/* The part that a step, from 1, belongs to; NULL if the history is empty. */
const mr_history_part_t *mr_history_at(const mr_history_t *h, int64_t step);

/* Appends a part (copied; NULL texts count as "") in memory.  MR_ERR_NOMEM. */
mr_err_t mr_history_add(mr_history_t *h, const mr_history_part_t *part, mr_diag_t *diag);

/* Writes such a text as the file, which is on the disk then and readable by its owner alone; ""
   removes the file.  MR_ERR_IO.  Changes the process's umask meanwhile. */
mr_err_t mr_history_write(const char *run, const char *text, mr_diag_t *diag);

#endif
