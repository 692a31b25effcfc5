/* The inside of a chain: the tree of record stages before one port of a step stage, as one worker
   sees it.

   A *program* says where a record comes from: a few operations in the order of evaluation, found by
   locate (from a position) or by a walk, and run when the record is made.  This separates finding
   records from making them: finding follows one order, making can be done by many workers.

   Implemented in chain.c (building the tree), chain_run.c (running programs), period.c,
   lineage.c and chain_bad.c (records that a map finds bad). */
#ifndef MR_PIPELINE_RECORDS_CHAIN_PRIVATE_H
#define MR_PIPELINE_RECORDS_CHAIN_PRIVATE_H

#include "pipeline/records/lineage.h"
#include "pipeline/records/records_private.h"
#include "pipeline/records/tally_private.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"

typedef enum mr__kind { MR__SOURCE, MR__ORDER, MR__MAP, MR__KEEP, MR__JOIN, MR__NEXT } mr__kind_t;

enum { MR__NO_FIELD = UINT8_MAX };

typedef enum mr__code {
  MR__OP_LEAF,
  MR__OP_SEED,
  MR__OP_MAP,
  MR__OP_JOIN,
  MR__OP_HOLE,
  MR__OP_RENUMBER
} mr__code_t;

typedef struct mr__op {
  int32_t code; /* mr__code_t */
  int32_t node;
  int64_t index;   /* LEAF: in the source; SEED: the counter; RENUMBER: the input port */
  uint64_t key[2]; /* SEED; LEAF: key[0] is the slot of the fetch */
} mr__op_t;

/* Consecutive programs. */
typedef struct mr__prog {
  mr__op_t *op; /* [cap] */
  size_t n, cap;
} mr__prog_t;

/* True if the stage leaves holes in its output. */
static inline bool mr__leaves_holes(const mr_stage_def_t *def) {
  return def->filter || (def->order && def->order->sparse);
}

/* A stage of the tree.  `s` is this worker's copy, so that failures go to its own diag; the state
   is shared. */
typedef struct mr__branch {
  mr_stage_t s;
  int node; /* its node in the graph */
  mr__kind_t kind;
  mr__tally_t tally; /* time of its own calls, without those of the stages before it */
  int *in, n_in;     /* branches below, by input port */
  int worker;        /* SOURCE: its reader's number, in [0,workers) */
  int64_t *index;    /* SOURCE: [MR_BURST] */
  mr_rec_t *rec;     /* SOURCE: [MR_BURST] */
  mr_value_t *value; /* SOURCE: [MR_BURST][n_fields], the values of rec */
  void *room;        /* SOURCE: memory of the fields that fetch writes */
  int n;             /* SOURCE: records of the burst in use */
  int64_t *later;    /* SOURCE: [MR_BURST] records of the next burst */
  int n_later;

  int n_fields; /* of its output */
  struct {
    uint16_t
        port; /* MAP, JOIN: where the value is before the stage runs; in MR__NO_FIELD: nowhere */
    uint8_t in;
    uint8_t end;          /* the field of a finished record that this one becomes, if no later stage
                             writes it; else MR__NO_FIELD */
  } field[MR_FIELDS_MAX]; /* [n_fields] */
  uint8_t made[MR_FIELDS_MAX]; /* [n_made] fields that the stage writes: a source, map or join,
                                  or an order that renumbers labels */
  int n_made;
  bool passes;                    /* MAP: before it runs, every output field is the input field of
                                     its number */
  size_t made_bytes;              /* MAP, JOIN: of the longest value that it writes, and more */
  char *block;                    /* MAP, JOIN: [n_made][made_bytes] of the chain's scratch */
  mr_value_t hole[MR_FIELDS_MAX]; /* [n_fields] the values of a hole requested as a record */
} mr__branch_t;

/* What a record in the making has besides its mr_rec_t. */
typedef struct mr__level {
  bool hole;
  mr_philox_t rng;
  mr_value_t value[2][MR_FIELDS_MAX]; /* rec.field points to one of the two, or to a branch's
                                         values */
} mr__level_t;

struct mr_chain {
  mr__branch_t *branch; /* [n_branches], inputs before the stages that read them; the last one is
                           nearest the batch */
  int n_branches;
  int *fetched, n_fetched;         /* [n_branches] the sources with records of the burst in use */
  int *asked;                      /* [n_branches] those of the next burst, while it is announced */
  int depth;                       /* most records that a program holds at once */
  mr_spec_t spec;                  /* of a finished record */
  size_t bytes[MR_FIELDS_MAX];     /* bytes of each field; of one row if the field is ragged */
  void *to[MR_FIELDS_MAX];         /* where the finished record's values go */
  size_t scratch_bytes;            /* of all values that maps and joins write */
  char *scratch;                   /* [scratch_bytes], 64-aligned: the branches' blocks */
  void *zeros;                     /* zeros for the longest value */
  mr_rec_t *rec;                   /* [depth] */
  mr__level_t *level;              /* [depth] */
  const mr__op_t *failed;          /* operation at which the last mr__run failed */
  const mr__lineage_to_t *lineage; /* NULL: no one asks for lineages */
  mr_draws_t *draws;               /* of the current record; NULL without lineage */
  mr_leaf_t *leaf;                 /* [n_branches] the same */
  mr__prog_t prog[2];              /* programs of a burst and of the next one */
  int64_t then;                    /* where the fill after the next one begins, */
  int then_n;                      /* and its length; 0: unknown */
};

static inline const mr_spec_t *mr__branch_spec(const mr__branch_t *b) { return &b->s.out_spec[0]; }

/* Operations of most records' programs; one of a record with more inputs makes a program grow. */
static inline int mr__usual_ops(const mr_chain_t *c) {
  return 2 * (c->n_branches < 64 ? c->n_branches : 64);
}

/* Append one operation, or op[0,n) of another program.  MR_ERR_NOMEM with a sentence in diag. */
mr_err_t mr__prog_push(mr__prog_t *p, mr__op_t op, mr_diag_t *diag);
mr_err_t mr__prog_copy(mr__prog_t *p, const mr__op_t *op, size_t n, mr_diag_t *diag);

/* Appends, behind the program of a record of input port of an order or walk, what renumbers its
   labels, if they are renumbered. */
mr_err_t mr__prog_renumber(const mr__branch_t *b, int branch, int port, mr__prog_t *p);

/* Appends the program of the record at a position of an indexable branch.  MR_OK; *hole says
   whether the position is a hole: then nothing is appended.  Or a failure, with a sentence. */
mr_err_t mr__locate(mr_chain_t *c, int branch, int64_t position, mr__prog_t *p, bool *hole);

/* The period of the records at the positions of an indexable branch, where records count as equal
   if the sources give the same label and key; of joined records the first one counts. */
mr_period_t mr__period(const mr_chain_t *c, int branch);

/* True if the filter of a branch decides by what the source of its first input gives, so that it
   keeps equally many records in each period of its input. */
bool mr__is_of_record(const mr_chain_t *c, int branch);

/* The number of positions, at least 1, after which an indexable branch repeats its records.  Where
   a stage does not say, this assumes, unlike mr__period, that a filter decides alike each time and
   that an order of one input has the input's period. */
int64_t mr__pass_length(const mr_chain_t *c, int branch);

/* Fetches the records of the leaves of op[0,n), at most MR_BURST of each source; their data is
   valid until the next call. */
mr_err_t mr__fetch(mr_chain_t *c, mr__op_t *op, size_t n);

/* True if reads of the next burst can run while one is made. */
bool mr__wants_ahead(const mr_chain_t *c);

/* Runs one program whose leaves have been fetched.  into: a stage that writes a field of the
   finished record may write it to c->to.  out->field says where the values are, until the next
   call. */
mr_err_t mr__run(mr_chain_t *c, const mr__op_t *op, size_t n, bool into, mr_rec_t *out);

/* After mr__run(c, op, n, ..) has failed with e: if a map found the record bad, its source replaces
   it.  MR_OK: fetch and run again.  Otherwise a failure with a sentence: e, or the source's. */
mr_err_t mr__chain_reject(mr_chain_t *c, const mr__op_t *op, size_t n, mr_err_t e);

/* Sets *kept to whether the branch's filter keeps the record made by op[from,n), the program
   appended last. */
mr_err_t mr__kept(mr_chain_t *c, int branch, mr__prog_t *p, size_t from, bool *kept);

/* Makes the records of n programs, record i by op[at[i],at[i+1]), into slots [0,n) of buf. */
mr_err_t mr__make(mr_chain_t *c, mr__op_t *op, const size_t *at, int n, mr_buf_t *buf);

/* lineage.c: passes on the lineage of a record made by op[0,n); rec NULL: it was only found.
   Returns the key that it gets. */
uint64_t mr__lineage_report(mr_chain_t *c, const mr__op_t *op, size_t n, int slot,
                            const mr_rec_t *rec);

#endif
