/* The end of waits.  A wait that a server, a disk or another process may prolong without limit asks
   mr_halted again and again, and gives up once the run that its thread works for is to end.  The
   scheduler sets what the threads of stages ask; a thread that works for another one takes over its
   mr_halt_t.  In a thread without one no wait ends early.

   Every call is for the calling thread alone, and none fails. */
#ifndef MR_BASE_HALT_H
#define MR_BASE_HALT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* Whether the run that `of` stands for is to end; any thread; must not block. */
typedef bool mr_halt_fn(const void *of);

typedef struct mr_halt {
  mr_halt_fn *asked; /* NULL: never */
  const void *of;    /* lives as long as a thread has this mr_halt_t */
  int64_t until_ns; /* of mr_now_ns: before it no wait ends, though the run is to end; 0: at once */
} mr_halt_t;

/* Sets what this thread's waits ask, and returns what they asked before. */
mr_halt_t mr_halt_set(mr_halt_t h);
mr_halt_t mr_halt_get(void); /* to be passed on to a thread that is started */

/* Whether this thread's waits are to end. */
bool mr_halted(void);

/* How long this thread may still wait, in ms, at most `most`, which is returned while the run goes
   on; 0 once waits are to end. */
int mr_halt_left_ms(int most);

enum { MR_HALT_SLICE_MS = 100 /* longest time for which a wait does not ask */ };

/* Waits with lock held, as pthread_cond_wait does, for at most MR_HALT_SLICE_MS: a loop around it
   checks what it waits for.  False, at once, when the wait is to end. */
bool mr_halt_wait(pthread_cond_t *c, pthread_mutex_t *lock);

/* Sleeps.  False if the wait is to end, perhaps before the time is over. */
bool mr_halt_pause(int64_t ns);

MR_END_DECLS

#endif
