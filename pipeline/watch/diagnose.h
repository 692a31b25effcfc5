/* Which stage limits a graph, on what evidence, and what a faster one would bring.

   The model: the threads of a graph overlap, so a run lasts as long as its busiest thread works,
   and no shorter than its processor time spread over all cores.  Time in which a thread was ready
   but other threads had the processors is not its work.  How many threads of other programs compete
   for the processors follows from the time they got (base/clock.h); each of them gets
   as much as the busiest thread does.  A stage that shares a thread with others (source, order,
   map) gets the share of that thread's work that timed samples of its calls give.  The limiting
   stage is the one whose doubled speed would shorten the run most.

   A thread that waits for another process shows what this process cannot see: if it waits longer
   than the limiting stage here works, the other process limits. */
#ifndef MR_PIPELINE_WATCH_DIAGNOSE_H
#define MR_PIPELINE_WATCH_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_graph mr_graph_t;
typedef struct mr_snapshot mr_snapshot_t;

typedef struct mr_diagnosis {
  const char *stage;  /* names belong to the graph */
  const char *thread; /* the stage in whose threads it works; stage itself if it has its own */
  const char *next;   /* what would limit next; NULL: still the same stage */
  double share;       /* of its thread's work, (0,1] */
  double work;        /* its own work, of the window's time */
  double busy, starved, blocked; /* of its threads' time */
  double cores_used;
  int cores;
  double seconds, twice_s; /* the window; the same work with the stage twice as fast */
  const char *link;  /* the link whose waits for another process exceed the work of `stage`: that
                        process limits; NULL: none */
  const char *other; /* the name of that process, or NULL */
  bool sends;        /* the link waits for room there, not for buffers from there */
  double waits;      /* that wait's share of the window's time */
} mr_diagnosis_t;

/* A snapshot of what all stages have done so far, the caller's until mr_snapshot_free.  Any thread,
   from create to destroy of the graph.  NULL without memory or before the threads start. */
mr_snapshot_t *mr_snapshot_take(const mr_graph_t *g);
void mr_snapshot_free(mr_snapshot_t *s); /* NULL is fine */

/* Diagnoses the time between two snapshots of g into *out; since NULL: from the start.  False if no
   stage worked in between, and *out is unchanged.  Names in *out live as long as the graph. */
bool mr_diagnose(const mr_graph_t *g, const mr_snapshot_t *since, const mr_snapshot_t *now,
                 mr_diagnosis_t *out);

/* One sentence into text[0,n), n > 0; cut to fit. */
void mr_diagnosis_text(const mr_diagnosis_t *d, char *text, size_t n);

#endif
