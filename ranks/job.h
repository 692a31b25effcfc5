/* The job of this process: the ranks that a launcher has started, and the table of collectives by
   which they exchange values.  One call opens the right one. */
#ifndef MR_RANKS_JOB_H
#define MR_RANKS_JOB_H

#include "base/launcher.h"
#include "base/pace.h"
#include "model/exec/collect.h"

MR_BEGIN_DECLS

typedef struct mr_job mr_job_t;

typedef struct mr_job_cfg {
  /* "auto", "threads", "mpi", "zmq" or "nccl"; NULL: auto, which is threads for one process, else
     mpi where the launcher and a library of MPI allow it, else zmq.  nccl is for CUDA devices; what
     its ranks must tell each other, the unique ids of communicators among it, goes by what auto is.
   */
  const char *communicator;
  /* For zmq: a file NAME.key of `millrace keys`, the same on all ranks.  NULL: the 64 hexadecimal
     digits of MILLRACE_SECRET, if it is set.  Without either, ranks are reached on this host alone.
   */
  const char *key;
  double limit_s; /* how long a rank may take to come when the job is opened and closed; > 0 */
  /* Above 0: a call that waits for a process of which nothing has been heard for that long fails,
     and so does one that waits for ranks that wait for it in turn in the same communicator.  Over
     several communicators such a circle fails at their limit: other threads may work meanwhile.  A
     rank that is heard of, and whose work continues by its pace (mr_job_doing), may keep others
     waiting beyond the limit of their communicator.  0: that limit alone counts. */
  double silent_s;
} mr_job_cfg_t;

/* Returns what "auto" is for l: "threads", "mpi" or "zmq".  Looks for a library of MPI.  Static. */
const char *mr_job_communicator(const mr_launch_t *l);
/* Returns whether zmq's ranks of l need a key: they are not on this host alone.  Pure. */
bool mr_job_needs_key(const mr_launch_t *l);
/* Opens the job that l describes; all its ranks call it.  It blocks until all have come, but never
   with threads.  The caller closes *out.  A process has at most one job that is open.  MR_OK;
   MR_ERR_CONFIG for a setting, a key or an address that does not fit; MR_ERR_IO if the address of
   rank 0 cannot be bound; MR_ERR_UNAVAILABLE, with the rank that has not come in the sentence, for
   one of them, for a library that is missing or cannot be used from threads; MR_ERR_NOMEM. */
mr_err_t mr_job_open(const mr_launch_t *l, const mr_job_cfg_t *cfg, mr_job_t **out,
                     mr_diag_t *diag);
/* The job's table.  With threads any number of ranks may be created; else each process is one rank
   of a communicator, of at most the job's size, and devices' memory must be the host's.  With nccl
   devices are CUDA's, one for each rank.  Static. */
const mr_collect_ops_t *mr_job_collect(const mr_job_t *job);
/* This process's number among the job's processes, and how many they are; 0 and 1 with threads. */
int mr_job_rank(const mr_job_t *job);
int mr_job_size(const mr_job_t *job);
/* Says what this process does from now on, which the others' sentences repeat if they wait for it:
   `what` is static, "computes", at step `step` of a run; pace: how long it may take, counted from
   now and from the pace's newest beat.  Any thread.  Nothing with threads. */
void mr_job_doing(mr_job_t *job, const char *what, int64_t step, mr_pace_t pace);
/* Says that this process's run has failed, and why: all communicators of all ranks fail with that
   sentence, now and later.  Any thread.  Nothing with threads. */
void mr_job_fail(mr_job_t *job, const char *why);
/* Whether a sentence says already of which rank it is: "rank 3: ", also behind names of stages. */
bool mr_names_rank(const char *text);
/* After all communicators are destroyed.  Blocks until all ranks close the job, so that none misses
   what another has sent; up to the limit, and briefly once a communicator has failed.  NULL is
   fine. */
void mr_job_close(mr_job_t *job);

/* Ranks are processes of a job that is open, on devices whose memory is the host's: over ZeroMQ,
   over MPI.
   create needs the job: MR_ERR_CONFIG without one.  A rank of another size or a number twice may be
   found only when the calls begin, which then fail with that sentence. */
extern const mr_collect_ops_t mr_collect_zmq, mr_collect_mpi;

/* Ranks are CUDA devices, each of another process of the job that is open with communicator=nccl,
   or of another thread, and NCCL computes: sums have the same bits on all ranks, but are added in
   its own order, and a maximum beside a NaN is what it makes of it.  The library is opened at run
   time; create: MR_ERR_UNAVAILABLE without one of 2.18 or newer, MR_ERR_CONFIG for a device of
   another kind.  The first call of a communicator connects all of its ranks: each makes it, on a
   thread of its own, and not while it is recorded.  A call is given to the device's queue, and
   later calls may be recorded and repeated with a run; the limit is watched from a thread beside.
   A call that is aborted while it runs leaves its results, and what is computed of them meanwhile,
   undefined; `failed` tells.  NCCL has no sums of bool and none of eight-bit floats: such a call
   fails. */
extern const mr_collect_ops_t mr_collect_nccl;
/* Returns the table by which the job's ranks exchange what lies on d: NCCL's on a CUDA device, and
   on others whose memory the host cannot read mr_collect_by_host.  Any thread. */
const mr_collect_ops_t *mr_job_collect_of(const mr_device_t *d);

MR_END_DECLS

#endif
