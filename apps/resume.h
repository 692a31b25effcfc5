/* Resuming from a checkpoint. */
#ifndef MR_APPS_RESUME_H
#define MR_APPS_RESUME_H

#include "pipeline/graph.h"
#include "stages/train/state.h"

/* Sets up a resumed run: the checkpoint that stage `step` reads, and where the sinks and the
   streams before it resume.  g must not be settled.  Fails as mr_graph_set. */
mr_err_t mr_resume_set(mr_graph_t *g, const char *step, const char *path,
                       const mr_train_progress_t *at, mr_diag_t *diag);

/* The same with the progress read from the checkpoint.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_resume_from(mr_graph_t *g, const char *step, const char *path, mr_diag_t *diag);

/* Returns whether path exists and was written at or after since (ns of the Unix clock).  A link is
   not followed. */
bool mr_resume_is_newer(const char *path, int64_t since);

/* Metrics reported before a kill are not reported again.  The last checkpoint is older than the
   last report, so a resume repeats some steps.  Files are cut back to the checkpoint, but reports
   to a terminal, a scraper or a subscriber cannot be taken back.

   Sets resume-told of every stage that has it to the last step in the files of the graph's jsonl
   stages, or -1 without one.  Files not written since (ns of the Unix clock) are ignored.  g must
   not be settled, and the files not yet cut back.  Fails as mr_graph_set. */
mr_err_t mr_resume_told(mr_graph_t *g, int64_t since, mr_diag_t *diag);

#endif
