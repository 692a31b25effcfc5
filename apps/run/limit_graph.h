/* Flags of train that make a run short: settings of the stages that order records, so that the
   run's folder keeps them and every command that reads it sees the same records. */
#ifndef MR_APPS_RUN_LIMIT_GRAPH_H
#define MR_APPS_RUN_LIMIT_GRAPH_H

#include "apps/run/run_dir.h"

/* clang-format off */
#define MR_LIMIT_FLAGS                                                                             \
  {"--limit-train", "N", "Ends each epoch after N records; of each source, if sources are "        \
   "shuffled apart."},                                                                             \
  {"--limit-valid", "N", "Evaluates the first N records of each input of held-back and test "      \
   "records; of each source, as above."},                                                          \
  {"--overfit-batches", "N", "Trains on the same N batches in each epoch, to see that the model "  \
   "learns them by heart."},                                                                       \
  {"--fast-dev-run", NULL, "Runs two steps and evaluates one batch of each input, in a folder "    \
   "that is removed at the end."}
/* clang-format on */

/* Checks the values of these flags; resumes: the run has them already, and none may be given.
   MR_ERR_USAGE. */
mr_err_t mr_limit_check(const mr_args_t *a, bool resumes, mr_diag_t *diag);

/* Appends their settings to a new run.  MR_ERR_USAGE if no stage that orders records leads to an
   input; failures of parsing the graph. */
mr_err_t mr_limit_set(const mr_args_t *a, mr_run_dir_t *r, mr_diag_t *diag);

/* Makes a folder for --fast-dev-run; removes it with all that is in it.  MR_ERR_IO. */
mr_err_t mr_limit_folder(char path[MR_RUN_PATH], mr_diag_t *diag);
void mr_limit_remove(const char *path);

#endif
