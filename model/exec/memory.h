/* The memory plan: which bytes each value of a graph lives in.

   Values with disjoint lifetimes share bytes of one aligned arena; reshapes are their
   operand; an op that may write over an operand does so when the operand dies there, which is
   also how a donated input becomes an output. */
#ifndef MR_MODEL_EXEC_MEMORY_H
#define MR_MODEL_EXEC_MEMORY_H

#include "base/err.h"
#include "model/exec/call.h"

typedef enum mr_block_place {
  MR_BLOCK_ARENA, /* at offset */
  MR_BLOCK_IN,    /* in the caller's input number index */
  MR_BLOCK_OUT,   /* in the caller's output number index */
  MR_BLOCK_CONST  /* at offset among the constants */
} mr_block_place_t;

typedef struct mr_block {
  mr_block_place_t place;
  int index;
  size_t bytes, offset; /* offset in the arena, a multiple of the plan's align */
  int first, last;      /* equations between which it is alive, both included */
  bool pinned;          /* nothing may be written over it: literals, inputs that are not donated */
} mr_block_t;

typedef struct mr_memory_plan {
  int n_block;
  mr_block_t *block;
  int *of_var;     /* [f->n_var]: its block, -1 if it is never used */
  int *of_scratch; /* [f->n_eqn]: the block of the call's scratch, -1 */
  size_t align;
  size_t bytes;     /* of the arena: the peak */
  size_t constants; /* bytes of literals that stand apart */
} mr_memory_plan_t;

/* donate: [f->n_in], or NULL for none.  in_place: the last in_place inputs are donated and become
   the last in_place outputs, one by one: such an output is computed in its input's memory or copied
   there at the end of a run, and no other output takes that memory.  MR_ERR_SHAPE where an input
   and its output differ.  call: [f->n_eqn], for their scratch.  align: of blocks, a power of two.
   apart: literals have memory of their own, as others write to the arena between runs; else they
   stand in the arena throughout.  mr_memory_plan_fini frees. */
mr_err_t mr_memory_plan_init(mr_memory_plan_t *p, const mr_fn_t *f, const bool *donate,
                             int in_place, const mr_call_t *call, size_t align, bool apart,
                             mr_diag_t *diag);
/* Walks f in the order of a run and verifies that each equation, and the caller at the end, finds
   the value it reads: that nothing has been written over it, be it a donated input that became an
   output or a value whose bytes another took.  MR_ERR_DATA names both equations: a defect of the
   planner, never of f.  mr_compile asks this of every plan. */
mr_err_t mr_memory_plan_check(const mr_memory_plan_t *p, const mr_fn_t *f, mr_diag_t *diag);
void mr_memory_plan_fini(mr_memory_plan_t *p);

#endif
