/* The lock of a run folder, RUN/lock: one process at a time writes a run's metrics and checkpoints.

   The lock is the kernel's (fcntl, open file description), so it ends with its process however that
   ends; the file's text says who holds it, for sentences.  An orderly end removes the file.  Where
   a file system has no locks, or has them for each host alone, the text decides: a process of this
   host that is gone has left a stale lock, one of another host cannot be looked at from here. */
#ifndef MR_APPS_RUN_LOCK_H
#define MR_APPS_RUN_LOCK_H

#include "base/err.h"

typedef struct mr_run_lock mr_run_lock_t;

/* Locks a folder for this process until mr_run_lock_release or its end; never waits.  *out is the
   caller's.  MR_ERR_CONFIG names the process that holds it, or the one of another host that may;
   MR_ERR_IO if the file cannot be written, MR_ERR_NOMEM.  On failure *out is NULL. */
mr_err_t mr_run_lock_take(const char *folder, mr_run_lock_t **out, mr_diag_t *diag);

/* Removes the file and frees l; NULL is fine. */
void mr_run_lock_release(mr_run_lock_t *l);

typedef enum mr_run_lock_state {
  MR_RUN_LOCK_HELD,   /* a process writes there now */
  MR_RUN_LOCK_LEFT,   /* its process was killed */
  MR_RUN_LOCK_UNKNOWN /* no lock file, no locks, or the process is another host's */
} mr_run_lock_state_t;

/* What the lock of a folder says about its run, by looking alone; to any process but the holder. */
mr_run_lock_state_t mr_run_lock_look(const char *folder);

#endif
