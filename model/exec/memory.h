/* The memory plan: it assigns bytes to each value of a graph.

   Values with disjoint lifetimes share bytes of one aligned arena.  A reshape shares the bytes of
   its operand.  An op that may write over an operand does so if that is the operand's last use;
   this is also how a donated input becomes an output.  Implemented in memory.c and
   memory_check.c. */
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
  int first, last;      /* alive from equation first to equation last, both included */
  bool pinned;          /* nothing may be written over it: literals, inputs that are not donated */
} mr_block_t;

typedef struct mr_memory_plan {
  int n_block;
  mr_block_t *block;
  int *of_var;     /* [f->n_var]: its block, -1 if it is never used */
  int *of_scratch; /* [f->n_eqn]: the block of the call's scratch, -1 without scratch */
  int *of_kept; /* [f->n_eqn]: the block of what calls keep of an operand; -1: nothing, or no other
                   call uses it.  The call at the block's first makes it. */
  size_t align;
  size_t bytes;     /* of the arena: the peak */
  size_t constants; /* bytes of literals outside the arena */
} mr_memory_plan_t;

/* Plans the memory of f. donate: [f->n_in], or NULL for none. in_place: the last in_place inputs
   are donated and become the last in_place outputs, one by one: such an output is computed in its
   input's memory or copied there at the end of a run, and no other output takes that memory. call:
   [f->n_eqn], read for their scratch and what they keep. align: the alignment of blocks, a power of
   two. apart: literals get memory outside the arena, which other executables write to between runs;
   else each keeps its place in the arena throughout.

   MR_OK: the caller frees *p with mr_memory_plan_fini.  MR_ERR_SHAPE if in_place is out of range,
   an input and its output differ, or such an output is another such input; MR_ERR_NOMEM.  After a
   failure there is nothing to free. */
mr_err_t mr_memory_plan_init(mr_memory_plan_t *p, const mr_fn_t *f, const bool *donate,
                             int in_place, const mr_call_t *call, size_t align, bool apart,
                             mr_diag_t *diag);
/* Verifies a plan: goes through f in the order of a run and checks that each equation, and the
   caller at the end, reads values that no other value has overwritten.  MR_OK; MR_ERR_DATA names
   the reader and the writer, and is a defect of the planner, never of f; MR_ERR_NOMEM. mr_compile
   checks every plan. */
mr_err_t mr_memory_plan_check(const mr_memory_plan_t *p, const mr_fn_t *f, mr_diag_t *diag);
void mr_memory_plan_fini(mr_memory_plan_t *p);

#endif
