/* Collectives of processes on a wire: what a job and its tables share. */
#ifndef MR_RANKS_PROCESSES_H
#define MR_RANKS_PROCESSES_H

#include "base/pace.h"
#include "ranks/wire.h"

MR_BEGIN_DECLS

/* Starts the process's end: takes over w, and a thread of it receives from now on.  One at a time:
   MR_ERR_CONFIG if there is one; MR_ERR_NOMEM.  On failure w is the caller's. */
mr_err_t mr__processes_start(const mr__wire_ops_t *ops, mr__wire_t *w, int rank, int size,
                             double limit_s, double silent_s, mr_diag_t *diag);
/* mr_job_fail and mr_job_doing, of the process that was started. */
void mr__processes_fail(const char *text);
void mr__processes_doing(const char *what, int64_t step, mr_pace_t pace);
int mr__processes_rank(void); /* in the job, of the process that was started */
/* Waits until all ranks call it, up to the limit unless something has failed before; then ends the
   thread and closes the wire. */
void mr__processes_stop(void);

MR_END_DECLS

#endif
