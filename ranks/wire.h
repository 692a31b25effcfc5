/* A wire: how the processes of a job send parcels to each other.  A parcel is a head and bytes;
   those of one sender to one receiver arrive in the order in which they were sent, each whole and
   once.  Nothing waits for the receiver: what is sent is queued in memory.

   The collectives (processes.c) are written once, on this table. */
#ifndef MR_RANKS_WIRE_H
#define MR_RANKS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/launcher.h"
#include "model/exec/collect.h"

MR_BEGIN_DECLS

/* What a parcel is; the fields that a kind uses are named beside it. */
typedef enum mr__parcel_kind {
  MR__PARCEL_JOIN = 1, /* the sender has created rank a of b of a communicator */
  MR__PARCEL_LEAVE,    /* and has destroyed it */
  MR__PARCEL_DATA,     /* of rank a in its call number `call`, which is of kind b */
  MR__PARCEL_LETTER,   /* of rank a; `call` bytes in all, of which these are the next */
  MR__PARCEL_TAKEN,    /* rank a has received a letter whole */
  MR__PARCEL_BEAT,     /* rank a is alive and waits for rank b; bytes: any if values come from it */
  MR__PARCEL_FAIL,     /* the communicator has failed: rank a is missing; bytes: the sentence */
  MR__PARCEL_BYE,      /* the sender closes the job: its last one */
  MR__PARCEL_ASK,      /* is the receiver alive?  Of processes, as the two below */
  MR__PARCEL_ALIVE,    /* it is; a: the process that it waits for, or -1; b: 1 if values come from
                          there; call: the ns since it continued; bytes: what it does */
  MR__PARCEL_DOWN,     /* the sender's run has failed; a: whether by a call of ranks, which says
                          whom it waited for; bytes: the sentence */
  MR__PARCEL_OPENING,  /* of a wire that is being opened; the wire's own */
} mr__parcel_kind_t;

enum { MR__PARCEL_MAGIC = 0x314B524D, MR__PARCEL_MOST = 1 << 20 /* bytes of a parcel's data */ };

/* As it is sent, in the byte order of the machine: another order has another magic. */
typedef struct mr__head {
  uint32_t magic, kind;
  uint32_t from;  /* rank in the job */
  uint32_t epoch; /* how many communicators of this id the sender had before */
  uint64_t call, bytes;
  int32_t a, b;
  char id[MR_COLLECT_ID]; /* the communicator's, with its NUL */
  uint64_t spare;         /* 0; the data lie at a multiple of 16 bytes */
} mr__head_t;
_Static_assert(sizeof(mr__head_t) % 16 == 0, "data behind a head are aligned");

typedef struct mr__parcel mr__parcel_t;
struct mr__parcel {
  mr__parcel_t *next;
  mr__head_t *head;
  char *data; /* head->bytes of them, aligned for every dtype */
  void (*drop)(mr__parcel_t *p);
};

/* A parcel with room for `bytes` behind its head, in one piece of memory from head on; head is
   zeroed but for magic and bytes.  NULL without memory.  The owner ends it by its drop. */
mr__parcel_t *mr__parcel_new(size_t bytes);
/* Whether n bytes at data are a head that is well formed, and what it says follows; rank and size
   within the job.  For what comes from outside. */
bool mr__head_is_good(const void *data, size_t n, int size);

typedef struct mr__wire mr__wire_t;

typedef struct mr__wire_cfg {
  const mr_launch_t *launch;
  const char
      *key; /* a file of `millrace keys`; NULL: MILLRACE_SECRET of the environment, or none */
  double limit_s;
} mr__wire_cfg_t;

typedef struct mr__wire_ops {
  const char *name;
  bool polls; /* receive is woken when a call begins to wait, so that it asks more often */
  /* Waits until all ranks of the job have opened theirs, up to the limit.  *missing is then the
     rank that has not, or -1. */
  mr_err_t (*open)(const mr__wire_cfg_t *cfg, mr__wire_t **out, int *missing, mr_diag_t *diag);
  /* Takes over p.  Any thread, one at a time.  false: out of memory, and p is dropped. */
  bool (*send)(mr__wire_t *w, int to, mr__parcel_t *p);
  /* Waits up to ms (-1: forever) for a parcel or a wake, less if `soon`, when a call waits.  Gives
     the next parcel, which the caller drops, or NULL, which may be sooner.  One thread alone. */
  mr__parcel_t *(*receive)(mr__wire_t *w, int ms, bool soon);
  /* Bytes that the kernel has got from a rank, those of a parcel that is not whole yet too: over a
     slow link they show sooner that it is alive.  0: not known, for the moment or at all.  The
     thread that receives.  NULL: this wire cannot tell. */
  uint64_t (*arrived)(mr__wire_t *w, int from);
  void (*wake)(mr__wire_t *w); /* ends a receive that waits.  Any thread */
  /* After the last receive.  whole: all ranks have said that they close, and miss nothing; else
     what was sent may be lost, but is given some time to leave. */
  void (*close)(mr__wire_t *w, bool whole);
} mr__wire_ops_t;

extern const mr__wire_ops_t mr__wire_zmq, mr__wire_mpi;

MR_END_DECLS

#endif
