/* Metrics reported before a kill are not reported again.  The last checkpoint is older than the
   last report, so a resume repeats some steps.  Files are cut back to the checkpoint, but reports
   to a terminal, a scraper or a subscriber cannot be taken back. */
#ifndef MR_APPS_RESUME_TOLD_H
#define MR_APPS_RESUME_TOLD_H

#include "pipeline/graph.h"

/* Sets resume-told of every stage that has it to the last step in the files of the graph's jsonl
   stages, or -1 without one.  Files not written since (ns of the Unix clock) are ignored.  g must
   not be settled, and the files not yet cut back.  Fails as mr_graph_set. */
mr_err_t mr_resume_told(mr_graph_t *g, int64_t since, mr_diag_t *diag);

#endif
