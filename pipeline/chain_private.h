/* The inside of a chain: the tree of record stages before one port of a step stage, as one worker
   sees it.

   Where a record comes from is said by a *program*: a few operations in the order of evaluation,
   found by locate (from a position) or by a walk, and run when the record is made.  So finding
   records is apart from making them: the first needs one order, the second may be done by many
   workers. */
#ifndef MR_PIPELINE_CHAIN_PRIVATE_H
#define MR_PIPELINE_CHAIN_PRIVATE_H

#include "pipeline/chain.h"
#include "pipeline/graph_private.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/tally_private.h"

typedef enum mr__kind { MR__SOURCE, MR__ORDER, MR__MAP, MR__KEEP, MR__JOIN, MR__NEXT } mr__kind_t;

enum { MR__NO_FIELD = UINT8_MAX };

typedef enum mr__code { MR__OP_LEAF, MR__OP_SEED, MR__OP_MAP, MR__OP_JOIN, MR__OP_HOLE } mr__code_t;

typedef struct mr__op {
  int32_t code; /* mr__code_t */
  int32_t node;
  int64_t index;   /* LEAF: of the source; SEED: the counter */
  uint64_t key[2]; /* SEED; LEAF: key[0] is the slot of the fetch */
} mr__op_t;

/* Programs one after the other. */
typedef struct mr__prog {
  mr__op_t *op; /* [cap] */
  size_t n, cap;
} mr__prog_t;

/* True if some positions behind the stage hold nothing, because of it. */
static inline bool mr__leaves_holes(const mr_stage_def_t *def) {
  return def->filter || (def->order && def->order->sparse);
}

/* Stages are copies of this worker's own, so that failures are told in its own diag; their states
   are shared. */
typedef struct mr__branch {
  mr_stage_t s;
  int node; /* of the graph */
  mr__kind_t kind;
  mr__tally_t tally;          /* of its own calls, without those of the stages before it */
  int in[MR_MAX_PORTS], n_in; /* branches below, by input port */
  int lane;                   /* SOURCE: in [0,workers) of the source */
  int64_t *index;             /* SOURCE: [MR_BURST] */
  mr_rec_t *rec;              /* SOURCE: [MR_BURST] */
  mr_value_t *value;          /* SOURCE: [MR_BURST][n_fields], of rec */
  void *room;                 /* SOURCE: of the fields that fetch writes */
  int n;                      /* SOURCE: of them in use */

  int n_fields; /* that come out */
  struct {
    uint8_t port, in; /* MAP, JOIN: what it is before the stage runs; in MR__NO_FIELD: nothing */
    uint8_t end;      /* the field of a finished record that it is, if no stage behind this one
                         writes it; else MR__NO_FIELD */
  } field[MR_FIELDS_MAX];      /* [n_fields] */
  uint8_t made[MR_FIELDS_MAX]; /* [n_made] fields that a source, map or join writes */
  int n_made;
  bool passes;                    /* MAP: before it runs, every field is the one of its number */
  char *block;                    /* MAP, JOIN: [n_made][scratch_bytes] of the chain's scratch */
  mr_value_t hole[MR_FIELDS_MAX]; /* [n_fields] of a hole that was asked for as a record */
} mr__branch_t;

/* What a record that is being made has besides its mr_rec_t. */
typedef struct mr__level {
  bool hole;
  mr_philox_t rng;
  mr_value_t value[2][MR_FIELDS_MAX]; /* rec.field is one of them, or a branch's */
} mr__level_t;

struct mr_chain {
  mr__branch_t *branch; /* [n_branches], inputs before the stages that read them; the last one is
                           nearest the batch */
  int n_branches;
  int depth;                   /* records that a program holds at once, at most */
  mr_spec_t spec;              /* of a finished record */
  size_t bytes[MR_FIELDS_MAX]; /* of its fields; of ragged ones a row's */
  void *to[MR_FIELDS_MAX];     /* where the values of the finished record in hand go */
  size_t scratch_bytes;        /* of the longest value that a map or join writes */
  int n_scratch;               /* as many as maps and joins write */
  char *scratch;               /* [n_scratch][scratch_bytes], 64-aligned */
  void *zeros;                 /* as many as the longest value has bytes */
  mr_rec_t *rec;               /* [depth] */
  mr__level_t *level;          /* [depth] */
  const mr__tracer_t *tracer;  /* NULL: nobody watches */
  mr_draws_t *draws;           /* of the record in hand; NULL without a tracer */
  mr__prog_t prog[2];          /* of a burst, and of the one after it */
  int64_t then;                /* where the fill after the next one begins, */
  int then_n;                  /* and how long it is; 0: unknown */
};

static inline const mr_spec_t *mr__branch_spec(const mr__branch_t *b) { return &b->s.out_spec[0]; }

mr_err_t mr__prog_push(mr__prog_t *p, mr__op_t op, mr_diag_t *diag);
mr_err_t mr__prog_copy(mr__prog_t *p, const mr__op_t *op, size_t n, mr_diag_t *diag);

/* Appends the program of the record at a position of an indexable branch.  MR_AGAIN: a hole,
   nothing appended. */
mr_err_t mr__locate(mr_chain_t *c, int branch, int64_t position, mr__prog_t *p);

/* Of the records that stand at the positions of an indexable branch, as the sources tell them
   apart: label and key of a record, of the first one where several are joined. */
mr_period_t mr__period(const mr_chain_t *c, int branch);

/* Whether the filter of a branch decides by what the source of its first input gives, so that it
   keeps as many records in each period of what is before it. */
bool mr__is_of_record(const mr_chain_t *c, int branch);

/* The number of positions of an indexable branch after which its records come again, at least 1.
   Unlike mr__period it assumes, where a stage does not say, that a filter decides alike each time
   and that an order of one input is through with it after as many positions as the input. */
int64_t mr__pass_length(const mr_chain_t *c, int branch);

/* Fetches what the leaves of op[0,n) ask for, at most MR_BURST of each source; their data lasts
   until the next call.  made: for batches; a filter only looks, and what it sees is not counted. */
mr_err_t mr__fetch(mr_chain_t *c, mr__op_t *op, size_t n, bool made);

/* True if reads of the next burst can fly while one is made. */
bool mr__wants_ahead(const mr_chain_t *c);

/* Runs one program, fetched before.  into: stages that make a value of the finished record may put
   it where c->to says.  out->field says where the values lie, until the next call. */
mr_err_t mr__run(mr_chain_t *c, const mr__op_t *op, size_t n, bool into, mr_rec_t *out);

/* Appended last: op[from,n) makes a record that the filter keeps? */
mr_err_t mr__kept(mr_chain_t *c, int branch, mr__prog_t *p, size_t from, bool *kept);

/* Makes the records of n programs, number i of which is op[at[i],at[i+1]), into slots [0,n). */
mr_err_t mr__make(mr_chain_t *c, mr__op_t *op, const size_t *at, int n, mr_buf_t *buf);

#endif
