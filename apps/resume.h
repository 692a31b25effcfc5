/* Going on from a checkpoint. */
#ifndef MR_APPS_RESUME_H
#define MR_APPS_RESUME_H

#include "pipeline/graph.h"
#include "stages/train/state.h"

/* Sets what a resumed run needs: the checkpoint that stage step reads, where the sinks and the
   streams before it go on.  g is not settled. */
mr_err_t mr_resume_set(mr_graph_t *g, const char *step, const char *path,
                       const mr_train_progress_t *at, mr_diag_t *diag);

/* The same with what the checkpoint says.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_resume_from(mr_graph_t *g, const char *step, const char *path, mr_diag_t *diag);

/* Whether path is there and was written since (ns of the Unix clock). */
bool mr_resume_is_newer(const char *path, int64_t since);

#endif
