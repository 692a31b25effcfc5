/* One value of the whole process, and not one that is passed along: a process has one job, and a
   stage that is made from a graph's text has no other way to learn of it.  It is set before any
   thread that reads it is started. */
#include "model/exec/process_ranks.h"

static mr_process_ranks_t process_ranks;
static bool ranks_paused;

void mr_process_ranks_set(const mr_process_ranks_t *r) {
  process_ranks = r ? *r : (mr_process_ranks_t){0};
}

const mr_process_ranks_t *mr_process_ranks(void) {
  return process_ranks.size > 1 && !ranks_paused ? &process_ranks : NULL;
}

void mr_process_ranks_pause(bool paused) { ranks_paused = paused; }
bool mr_process_ranks_paused(void) { return ranks_paused; }
