/* How a stream of training batches continues when a resume has changed it: at each source's own
   position, so that no record is lost and none comes twice. */
#ifndef MR_APPS_RUN_CARRY_H
#define MR_APPS_RUN_CARRY_H

#include "apps/run/run_dir.h"

/* Compares the run as it was when it made the checkpoint's last step (h) with the run as it is now
   (r), and sets r->carry to the settings by which the changed stream continues there, and the
   position in at->at to the one where the stream as it is now does; both as they were where nothing
   of the stream has changed.  A notice says what cannot continue so.  MR_ERR_NOMEM. */
mr_err_t mr_carry_stream(mr_run_dir_t *r, const mr_history_t *h, mr_resume_point_t *at,
                         mr_diag_t *diag);

#endif
