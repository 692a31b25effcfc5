/* The inside of a process's end: its communicators, what has come for them, and waiting.
   processes.c keeps them and has the thread that receives; collect_processes.c makes the calls. */
#ifndef MR_RANKS_PROCESSES_PRIVATE_H
#define MR_RANKS_PROCESSES_PRIVATE_H

#include <pthread.h>

#include "ranks/processes.h"

MR_BEGIN_DECLS

typedef struct mr__parcels {
  mr__parcel_t *first, **last;
} mr__parcels_t;

typedef struct mr__member {
  int job_rank; /* -1: has not joined */
  mr__parcels_t data, letters;
  uint64_t taken;  /* letters that it has acknowledged */
  int64_t left_ns; /* when it left; 0: it has not */
  int64_t beat_ns; /* when it said last that it waits, for the rank below; 0: never */
  int waits_for;
  bool comes; /* and it sees values come from there */
} mr__member_t;

typedef struct mr__group {
  struct mr__group *next;
  char id[MR_COLLECT_ID];
  uint32_t epoch;
  int size, joined, left;
  int own; /* this process's rank; -1: it is no member, or not yet */
  double limit_s;
  bool tried; /* the job continues after its failure (MR_COLLECT_TRY) */
  pthread_cond_t changed;
  mr_diag_t why; /* of the first failure; code MR_OK: none */
  int missing;
  int64_t circle_ns;  /* since when it and the rank that it waits for wait for each other; 0: not */
  int64_t noticed_ns; /* when a notice has reported a wait; 0: none has */
  int waits_for;      /* the rank that this one waits for; -1: none */
  int64_t beat_ns;    /* when this rank said so last */
  mr__member_t member[];
} mr__group_t;

struct mr_collect {
  mr__group_t *group;
  int rank, size;
  uint64_t calls, letters; /* made so far; letters sent */
};

/* Join and leave; mr_collect_ops_t's create and destroy, by their contracts there. */
mr_err_t mr__group_join(const char *id, int rank, int size, double limit_s, mr__group_t **out,
                        mr_diag_t *diag);
void mr__group_leave(mr__group_t *g);

/* The lock is held by all that follow. */
void mr__processes_lock(void);
void mr__processes_unlock(void);
/* Sends p to rank r of g, takes it over.  Without memory, p NULL too, g fails. */
void mr__group_send(mr__group_t *g, int r, mr__parcel_kind_t kind, uint64_t call, int b,
                    mr__parcel_t *p);
/* Makes g fail here and at all members, once: missing is the rank that did not come, or -1. */
void mr__group_fail(mr__group_t *g, int missing, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Waits for the others once, for rank r above all, until something changes or the time is up.
   false: g has failed, now perhaps, since the time was up; `what` is what the rank did not come
   to. */
bool mr__group_wait(mr__group_t *g, int r, int64_t until_ns, const char *what);
/* Asks all others what they do, for a rank that has waited for them elsewhere since `begun`, in
   `what`: one that is not heard of fails the communicator.  With the lock held. */
void mr__group_ask(mr__group_t *g, int64_t begun, const char *what);
int64_t mr__group_until(const mr__group_t *g); /* now, and the limit */
/* The process of rank r, by which sentences name it; r itself while that is unknown. */
int mr__group_process(const mr__group_t *g, int r);
mr__parcel_t *mr__parcels_take(mr__parcels_t *q); /* the first; NULL: none */

MR_END_DECLS

#endif
