/* The processes of a graph: started, watched, started again when they die, stopped in order. */
#ifndef MR_APPS_SUPERVISE_H
#define MR_APPS_SUPERVISE_H

#include "apps/cli.h"
#include "pipeline/process.h"

/* Runs every process of a graph whose text has blocks, each as `millrace run ... --process NAME`.
   g has been cut and settled, so what is wrong with it has been said.  A process that a signal
   kills is started again as often as its restart= allows, and those before it that had ended with
   it; one that ends with a failure ends all.  Ctrl-C stops those that only receive first, so that
   nothing which has been sent is lost; a second one after the grace (apps/interrupt.h) ends all at
   once but for checkpoints under way, a third kills all.  None outlives this process, however that
   ends.  0, MR_EXIT_STOPPED, or a failure. */
int mr_supervise(const mr_args_t *a, const mr_graph_t *g, const char *run, mr_diag_t *diag);

#endif
