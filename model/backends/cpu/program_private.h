/* The form of a lowered program, shared by program.c, program_run.c and program_columns.c. */
#ifndef MR_MODEL_CPU_PROGRAM_PRIVATE_H
#define MR_MODEL_CPU_PROGRAM_PRIVATE_H

#include "model/backends/cpu/program.h"
#include "model/backends/cpu/unit.h"

typedef enum place {
  PLACE_IN,     /* an operand of the call with n elements */
  PLACE_OUT,    /* a result of the call with n elements */
  PLACE_SLOT,   /* a block of this thread's memory */
  PLACE_ONE,    /* an operand of the call with one element */
  PLACE_CONST,  /* one element that the program holds */
  PLACE_OTHER,  /* an operand of the call with another number of elements, to be repeated */
  PLACE_REPEAT, /* such an operand, repeated to n elements */
  PLACE_INDEX,  /* numbers computed from the index of an element */
  PLACE_FOLDED  /* the result of a reduction */
} place_t;

typedef struct value {
  mr_dtype_t dtype;
  place_t place;
  int index;          /* into the call's in or out; -1: neither */
  int slot;           /* of a thread's blocks, for SLOT, REPEAT and INDEX; else -1 */
  int64_t mid, inner; /* of REPEAT and INDEX, as in ir/unit.h */
  size_t size;        /* of an element */
  _Alignas(8) char constant[8];
  int born, last; /* the steps that write it first and read it last; -1: none */
} value_t;

typedef struct step {
  mr_cpu_unit_t unit;
  int in[MR_UNIT_IN], out;
} step_t;

enum {
  VALUES_MAX = 2 * MR_PROGRAM_EQNS + 2 * MR_PROGRAM_ENDS,
  STEPS_MAX = MR_PROGRAM_EQNS + MR_PROGRAM_ENDS,
  SLOT_BYTES = 32768, /* of all slots of a thread */
  BLOCK_MIN = 64,     /* elements of a block: a multiple of MR_FOLD_LANES */
  BLOCK_MAX = 2048,
  CHUNK = 32768 /* elements of a row that one thread reduces */
};

typedef struct program {
  int64_t n;                  /* elements */
  int64_t inner;              /* elements of a row, if there are reductions; else 0 */
  bool columns;               /* reductions fold rows into one row, not each row into an element */
  int64_t chunks, chunk_rows; /* with columns: how the rows are divided */
  int64_t block;              /* elements of a block */
  int n_step, n_value, n_slot, n_reduce;
  size_t slot_bytes;
  step_t *step, *reduce; /* [n_step], [n_reduce] */
  value_t *value;        /* [n_value] */
} program_t;

/* The state of a thread that works on a block. */
typedef struct frame {
  const program_t *p;
  const mr_call_t *c;
  char *slots;          /* [SLOT_BYTES], 64-aligned */
  void *at[VALUES_MAX]; /* the part of each value in the block */
} frame_t;

/* slots: [SLOT_BYTES], 64-aligned; the caller's, used by f. */
void mr__frame_init(frame_t *f, const mr_call_t *c, char *slots);
/* Runs all steps on elements [i0,i0+m), m in [1,block]. */
void mr__frame_block(frame_t *f, int64_t i0, int64_t m);

void mr__program_run(const mr_call_t *c);

/* The same for a program with columns. */
void mr__program_columns_run(const mr_call_t *c);
/* Decides how such a program divides its rows, and returns the bytes of scratch that it needs. */
size_t mr__program_columns_cut(program_t *p);

#endif
