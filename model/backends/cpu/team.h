/* The OpenMP team that kernels of one run share. */
#ifndef MR_MODEL_CPU_TEAM_H
#define MR_MODEL_CPU_TEAM_H

#include <stdbool.h>

/* The team of this thread from now on: n >= 1 threads.  Returns how many there were before. */
int mr__team_set(int n);

/* Processors that the process might use when this was first asked or a team first tied, before any
   thread was; 0 where the system does not say. */
int mr__team_processors(void);

/* Ties each thread of this thread's team, itself included, to a processor of its own among those
   the process may use; in turn where there are fewer.  Where the system refuses, none is tied. */
void mr__team_pin(void);

/* Ends the team's other threads: they would wait, spinning, beside the team of another thread. */
void mr__team_release(void);

#endif
