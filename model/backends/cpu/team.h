/* The OpenMP team that kernels of one run share. */
#ifndef MR_MODEL_CPU_TEAM_H
#define MR_MODEL_CPU_TEAM_H

#include <stdbool.h>

/* Sets the team of the calling thread to n >= 1 threads.  Returns the size it had before. */
int mr__team_set(int n);

/* Returns the number of processors that the process may use, as found before any thread was
   pinned (at the first call of this or of mr__team_pin); 0 if the system does not say.  Any
   thread. */
int mr__team_processors(void);

/* Pins each thread of the calling thread's team, itself included, to a processor of its own among
   those the process may use; with fewer processors, threads share them in turn.  Does nothing if
   the system refuses. */
void mr__team_pin(void);

/* Ends the other threads of the team, which would spin beside the team of another thread while
   they wait. */
void mr__team_release(void);

#endif
