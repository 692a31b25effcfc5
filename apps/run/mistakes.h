/* The records that an evaluation's guess was wrong for, with the files that hold them.  Main thread
   only. */
#ifndef MR_APPS_RUN_MISTAKES_H
#define MR_APPS_RUN_MISTAKES_H

#include "pipeline/graph/graph.h"

/* Adds to each line of a file that eval-step's mistakes= has written the file of the record, and
   its place in it, as the source says them, and sets *n to the number of lines, and *why to NULL.
   Lines stay as they are, and *why says the reason, "its source does not say ...", where source, of
   the settled graph, is NULL or one that does not say where records are, or the file has over 1
   GiB; then *n is -1.  MR_ERR_IO, MR_ERR_NOMEM; MR_ERR_DATA for another file. */
mr_err_t mr_mistakes_name(const char *file, mr_stage_t *source, int64_t *n, const char **why,
                          mr_diag_t *diag);

#endif
