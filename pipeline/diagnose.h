/* Which stage limits a graph, on what evidence, and what a faster one would bring.

   The model: the threads of a graph overlap, so a run lasts as long as its busiest thread works,
   and no shorter than its processor time spread over all cores.  Time in which a thread could have
   run but others had the processors is not its work.  Where other programs want the processors, how
   many of their threads do follows from what they got (pipeline/others_time.h), and each of them
   gets as much as the busiest thread does.  A stage that shares a thread with others (source,
   order, map) has the share of that thread's work that timing some of its calls gives.  The stage
   whose doubled speed would shorten the run most is the one that limits.

   A thread that waits for another process shows what this process cannot: if it waits for longer
   than the stage that would limit here works, the other process limits. */
#ifndef MR_PIPELINE_DIAGNOSE_H
#define MR_PIPELINE_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_graph mr_graph_t;
typedef struct mr_snapshot mr_snapshot_t;

typedef struct mr_diagnosis {
  const char *stage;  /* names are the graph's */
  const char *thread; /* the stage in whose threads it works; stage itself if it has its own */
  const char *next;   /* what would limit then; NULL: the same stage still */
  double share;       /* of its thread's work, (0,1] */
  double work;        /* its own work, of the window's time */
  double busy, starved, blocked; /* of its threads' time */
  double cores_used;
  int cores;
  double seconds, twice_s; /* the window; the same work with the stage twice as fast */
  const char *link;  /* the stage whose waits for another process outweigh what stage works: that
                        process limits; NULL: none */
  const char *other; /* that process' name, or NULL */
  bool sends;        /* link waits for room there, not for buffers from there */
  double waits;      /* so much of the window's time */
} mr_diagnosis_t;

/* What all stages have done up to now; any thread, from start to destroy.  NULL without memory or
   before the start. */
mr_snapshot_t *mr_snapshot_take(const mr_graph_t *g);
void mr_snapshot_free(mr_snapshot_t *s); /* NULL is fine */

/* About the time between two snapshots of g; since NULL: from the start.  False if nothing has
   worked meanwhile. */
bool mr_diagnose(const mr_graph_t *g, const mr_snapshot_t *since, const mr_snapshot_t *now,
                 mr_diagnosis_t *out);

/* One sentence into text[0,n). */
void mr_diagnosis_text(const mr_diagnosis_t *d, char *text, size_t n);

#endif
