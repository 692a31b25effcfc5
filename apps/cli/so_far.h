/* How far a long command is, on stderr: on a terminal one line that is written over once a second,
   elsewhere a line each ten seconds, so that a short command says nothing. */
#ifndef MR_APPS_SO_FAR_H
#define MR_APPS_SO_FAR_H

#include <stdint.h>

typedef struct mr_so_far {
  const char *what;    /* "who: at step" */
  int64_t first, of;   /* its units are [first,of]; of 0: unknown */
  int64_t began, said; /* when the first one began, and when progress was shown last; 0: not yet */
} mr_so_far_t;

/* Units [first,of] begin; what is kept. */
mr_so_far_t mr_so_far_begin(const char *what, int64_t first, int64_t of);
/* Unit `at` is done: shows it, and the time that is left if all take as long, where it is due. */
void mr_so_far(mr_so_far_t *p, int64_t at);
/* Ends the line on a terminal.  At any time, also if nothing was shown. */
void mr_so_far_end(mr_so_far_t *p);

#endif
