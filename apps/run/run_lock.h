/* The lock of a run folder, RUN/lock: one process at a time writes a run's metrics and checkpoints.

   The lock is the kernel's (fcntl, open file description), so it ends with its process however that
   ends.  The file's text names the owner, for sentences; an orderly end removes the file.  Where a
   file system has no locks, or has them per host only, the text decides: if its process was on this
   host and no longer exists, the lock is stale; a process of another host cannot be checked from
   here. */
#ifndef MR_APPS_RUN_RUN_LOCK_H
#define MR_APPS_RUN_RUN_LOCK_H

#include "base/err.h"

typedef struct mr_run_lock mr_run_lock_t;

/* Locks a folder for this process until the caller calls mr_run_lock_release or the process ends;
   never waits.  MR_ERR_CONFIG names the process that holds it, or one of another host that may;
   MR_ERR_IO if the file cannot be written, MR_ERR_NOMEM.  *out is NULL on failure. */
mr_err_t mr_run_lock_take(const char *folder, mr_run_lock_t **out, mr_diag_t *diag);

/* Removes the file and frees l; NULL is fine. */
void mr_run_lock_release(mr_run_lock_t *l);

/* Ends the lock and frees l, and leaves the file, as a process that is killed does; NULL is fine.
 */
void mr_run_lock_leave(mr_run_lock_t *l);

typedef enum mr_run_lock_state {
  MR_RUN_LOCK_HELD,   /* a process writes there now */
  MR_RUN_LOCK_LEFT,   /* its process was killed */
  MR_RUN_LOCK_UNKNOWN /* no lock file, no locks, or a process of another host */
} mr_run_lock_state_t;

/* Returns the state of a folder's lock without taking it.  Not for the process that holds it. */
mr_run_lock_state_t mr_run_lock_look(const char *folder);

#endif
