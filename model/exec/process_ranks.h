/* The ranks that are processes: which one this process is, and by what they exchange values.  A
   program that has opened a job of several processes says so here, once; what it runs afterwards
   asks.  In a process that is alone there are none. */
#ifndef MR_MODEL_EXEC_PROCESS_RANKS_H
#define MR_MODEL_EXEC_PROCESS_RANKS_H

#include "base/pace.h"
#include "model/exec/collect.h"

MR_BEGIN_DECLS

typedef struct mr_process_ranks {
  const mr_collect_ops_t *ops; /* each process is one rank of its communicators */
  int rank, size;              /* size at least 2 */
  /* Returns the table for devices whose memory the host cannot read: mr_collect_by_host, or what
     their maker's library gives.  NULL: mr_collect_by_host for all. */
  const mr_collect_ops_t *(*ops_of)(const mr_device_t *d);
  int threads;    /* this rank's share of its host's processors, at least 1 */
  double limit_s; /* how long a rank may keep the others waiting; > 0 */
  /* Says what this rank does from now on, for the others' sentences if they wait for it: `what` is
     static, "computes", at step `step` of a run; pace: how long it may keep them waiting.  Any
     thread; never blocks for long.  May be NULL. */
  void (*doing)(const char *what, int64_t step, mr_pace_t pace);
} mr_process_ranks_t;

/* Keeps a copy of *r; NULL: there are none any more.  While no graph is planned or runs. */
void mr_process_ranks_set(const mr_process_ranks_t *r);
/* Returns them; NULL without.  Valid until the next set.  Any thread. */
const mr_process_ranks_t *mr_process_ranks(void);

/* While paused, mr_process_ranks returns NULL: graphs are planned as those of a process that is
   alone, to compare with them and not to run them.  Not paused at first.  As set, above. */
void mr_process_ranks_pause(bool paused);
bool mr_process_ranks_paused(void);

MR_END_DECLS

#endif
