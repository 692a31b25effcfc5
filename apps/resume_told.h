/* What a run had told before it was killed.  Its last checkpoint is older than that, so a resume
   makes some steps again; files are cut back to the checkpoint, but what a terminal, a scraper or a
   subscriber has seen stays seen. */
#ifndef MR_APPS_RESUME_TOLD_H
#define MR_APPS_RESUME_TOLD_H

#include "pipeline/graph.h"

/* Sets resume-told of every stage that has it to the last step in the files of the graph's jsonl
   stages, those left out that were not written since (ns of the Unix clock).  g is not settled;
   the files are not cut yet. */
mr_err_t mr_resume_told(mr_graph_t *g, int64_t since, mr_diag_t *diag);

#endif
