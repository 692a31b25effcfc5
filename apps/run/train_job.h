/* A run whose ranks are the processes of a job that a launcher has started: how they begin as one,
   and end as one.  Rank 0 has the run's folder; it tells the others what to run.  Every call is
   made by all ranks in the same order, on the main thread.  All calls accept a NULL job, of a
   process that is alone: they then do nothing and return MR_OK. */
#ifndef MR_APPS_RUN_TRAIN_JOB_H
#define MR_APPS_RUN_TRAIN_JOB_H

#include "apps/cli/cli.h"
#include "apps/run/run_dir.h"

typedef struct mr_train_job mr_train_job_t;

/* Opens the job if a launcher has started several processes, and compares command lines, versions
   and instruction sets.  *out is NULL without one.  Stages of this process are ranks of it from now
   on (model/exec/process_ranks.h).  Notices of ranks above 0 begin with their number.  The caller
   closes *out.  Fails as mr_job_open; MR_ERR_USAGE if a rank differs from rank 0, with both
   values. */
mr_err_t mr_train_job_open(const mr_args_t *a, mr_train_job_t **out, mr_diag_t *diag);

/* Whether this process is a rank that rank 0 tells what to run; false for NULL. */
bool mr_train_job_follows(const mr_train_job_t *j);
/* Processes of the job, from 1. */
int mr_train_job_size(const mr_train_job_t *j);

/* Agrees about how all ranks have done so far: e and diag are this rank's.  Returns e if it is a
   failure, else the failure of the first rank that has one, as "rank 2: ...", in diag.  *value, if
   not NULL, becomes rank 0's. */
mr_err_t mr_train_job_agree(mr_train_job_t *j, mr_err_t e, int *value, mr_diag_t *diag);

/* The same; *value becomes the greatest of all ranks'. */
mr_err_t mr_train_job_most(mr_train_job_t *j, mr_err_t e, int *value, mr_diag_t *diag);

/* Gives the run as rank 0 has prepared it to the others, whose *r it fills: graph, settings, carry
   and the folder's name, of which they only read the name.  *at: the checkpoint of a resumed run;
   the others get a copy of it in memory, which lives until the job is closed.  MR_ERR_NOMEM,
   MR_ERR_IO, or a failure of the job. */
mr_err_t mr_train_job_share(mr_train_job_t *j, mr_run_dir_t *r, mr_resume_point_t *at,
                            mr_diag_t *diag);

/* Compares facts, a text of lines "NAME VALUE" (mr_data_facts), with rank 0's, which may have more
   names: MR_ERR_DATA names the first that differs, with both values. */
mr_err_t mr_train_job_same_data(mr_train_job_t *j, const char *facts, mr_diag_t *diag);

/* Says to the others that this rank's run has failed, and why: theirs fail too, with that sentence.
 */
void mr_train_job_fail(mr_train_job_t *j, const mr_diag_t *why);

/* Closes the job: after a run that has ended well once all ranks have come here; after one that has
   failed, e and why, the others fail too, with that sentence.  NULL is fine. */
void mr_train_job_close(mr_train_job_t *j, mr_err_t e, const mr_diag_t *why);

#endif
