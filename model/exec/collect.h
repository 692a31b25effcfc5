/* Collectives: a table of the calls by which the ranks of a communicator exchange values.

   A rank is a device of this or another process.  Each call is given to the queue of the rank's
   device, in whose order it runs; on a device without a queue it has ended when it returns.  All
   ranks make the same calls in the same order; send and receive pair up by themselves.  A call that
   waits longer than the communicator's limit fails, as do all calls after it: a run cannot return
   an error, so its results are bytes 0xFF, NaN in every float, and `failed` names the rank that did
   not come. */
#ifndef MR_MODEL_EXEC_COLLECT_H
#define MR_MODEL_EXEC_COLLECT_H

#include "model/exec/backend.h"

MR_BEGIN_DECLS

typedef struct mr_collect mr_collect_t; /* one rank of a communicator; one thread at a time */

enum { MR_COLLECT_RANKS = 1024, MR_COLLECT_ID = 64 };
/* An id that begins so is of a communicator in which ranks find out whether a table serves them:
   its failure is no failure of their job. */
#define MR_COLLECT_TRY "try "

/* What a reduction makes of the ranks' values.  A maximum and a minimum are NaN where one of the
   values is. */
typedef enum mr_reduce { MR_REDUCE_SUM, MR_REDUCE_MAX, MR_REDUCE_MIN } mr_reduce_t;

typedef struct mr_collect_ops {
  const char *name; /* "threads" */
  /* Calls are given to the queue of the rank's device and may be recorded with a run
     (mr_record_ops_t), but for the first one of a communicator.  false: the host takes part. */
  bool recorded;
  /* Joins the communicator `id`, a text of less than MR_COLLECT_ID bytes that all its ranks give,
     as number `rank` of `size`; does not wait for the others.  Calls may wait limit_s seconds for
     another rank, > 0.  The caller destroys *out before it closes d.  MR_OK; MR_ERR_CONFIG for a
     rank or size out of range, another size than the other ranks gave, or a rank that has joined
     already; MR_ERR_NOMEM. */
  mr_err_t (*create)(const mr_device_t *d, const char *id, int rank, int size, double limit_s,
                     mr_collect_t **out, mr_diag_t *diag);
  /* out[n] = the sum, maximum or minimum of all ranks' in[n], taken in the order of ranks: the same
     bits everywhere (by NCCL in its own order, with the same bits on all ranks).  in and out lie in
     the rank's device and do not overlap, here and below. */
  void (*all_reduce)(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n, const void *in,
                     void *out);
  /* out[size][bytes]: what each rank gave as in[bytes], by rank. */
  void (*all_gather)(mr_collect_t *c, size_t bytes, const void *in, void *out);
  /* out[n]: part number `rank` of the sum of all ranks' in[size][n]. */
  void (*reduce_scatter)(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in, void *out);
  /* out[size][bytes]: row r is row `rank` of in[size][bytes] of rank r. */
  void (*all_to_all)(mr_collect_t *c, size_t bytes, const void *in, void *out);
  /* Sends data[bytes] to rank `to`, whose receive has the same bytes; and the other way round. */
  void (*send)(mr_collect_t *c, int to, size_t bytes, const void *data);
  void (*receive)(mr_collect_t *c, int from, size_t bytes, void *data);
  /* Both at once, so that ranks in a ring need not take turns: sends in[bytes] to rank `to`, and
     receives out[bytes] from rank `from`; -1: to none, from none.  Both may be this rank. */
  void (*send_receive)(mr_collect_t *c, int to, int from, size_t bytes, const void *in, void *out);
  /* After a run that was recorded has been given to the queue: its calls are waited for, from now
     on, as others are.  NULL: tables whose calls are not recorded. */
  void (*given)(mr_collect_t *c);
  /* This rank has waited for the others elsewhere since then, in `what`, as for its device: one
     that is not heard of fails the communicator.  Does not wait.  NULL: ranks cannot be lost. */
  void (*ask)(mr_collect_t *c, int64_t since_ns, const char *what);
  /* Makes all calls of all ranks fail, those that wait now too.  Any thread. */
  void (*abort)(mr_collect_t *c);
  /* MR_OK, *rank -1; or MR_ERR_UNAVAILABLE with the sentence, *rank the one that did not come in
     time, or -1 after an abort or a message of other bytes than expected.  Any thread. */
  mr_err_t (*failed)(mr_collect_t *c, int *rank, mr_diag_t *diag);
  void (*destroy)(mr_collect_t *c); /* leaves the communicator; not during a call; NULL is fine */
} mr_collect_ops_t;

/* Ranks are threads of this process, on devices whose memory is the host's. */
extern const mr_collect_ops_t mr_collect_threads;

/* Ranks on devices whose memory the host cannot read: each call copies its operand to the host,
   waits for the device, exchanges by the table of this process's ranks (process_ranks.h; threads if
   it is alone), and copies the result to the device.  Sums are those of that table. */
extern const mr_collect_ops_t mr_collect_by_host;

/* For tables whose ranks read memory of the host: what create refuses by MR_ERR_CONFIG whatever the
   other ranks gave. */
mr_err_t mr__collect_check(const mr_device_t *d, const char *id, int rank, int size, double limit_s,
                           mr_diag_t *diag);

/* out[n] = out[n] + x[n], each in the dtype's own arithmetic, or the larger or smaller one. */
void mr__collect_reduce(mr_reduce_t how, mr_dtype_t t, void *out, const void *x, int64_t n);

MR_END_DECLS

#endif
