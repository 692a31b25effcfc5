#ifndef MR_MODEL_CPU_PROGRAM_PRIVATE_H
#define MR_MODEL_CPU_PROGRAM_PRIVATE_H

#include "model/backends/cpu/program.h"
#include "model/backends/cpu/unit.h"

typedef enum place {
  PLACE_IN,     /* n elements of the caller's */
  PLACE_OUT,    /* the same, written */
  PLACE_SLOT,   /* a block of this thread's */
  PLACE_ONE,    /* one element of the caller's */
  PLACE_CONST,  /* one element that the program holds */
  PLACE_OTHER,  /* another number of the caller's elements: something to be repeated */
  PLACE_REPEAT, /* elements of the caller's again and again */
  PLACE_INDEX,  /* numbers made from where an element stands */
  PLACE_FOLDED  /* a reduction's result */
} place_t;

typedef struct value {
  mr_dtype_t dtype;
  place_t place;
  int index;          /* of the caller's in or out */
  int slot;           /* of a thread's blocks: SLOT, and REPEAT where it must be written out */
  int64_t mid, inner; /* REPEAT: as in unit.h */
  size_t size;        /* of an element */
  _Alignas(8) char constant[8];
  int born, last; /* steps that write it first and read it last; -1 */
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
  int64_t inner;              /* of a row, if there are reductions; else 0 */
  bool columns;               /* they fold rows into one, instead of each row into an element */
  int64_t chunks, chunk_rows; /* then: how the rows are cut */
  int64_t block;              /* elements of a block */
  int n_step, n_value, n_slot, n_reduce;
  size_t slot_bytes;
  step_t *step, *reduce; /* [n_step], [n_reduce] */
  value_t *value;        /* [n_value] */
} program_t;

/* A thread that works on a block. */
typedef struct frame {
  const program_t *p;
  const mr_call_t *c;
  char *slots;          /* [SLOT_BYTES], 64-aligned */
  void *at[VALUES_MAX]; /* where each value's part of the block is */
} frame_t;

void mr__frame_init(frame_t *f, const mr_call_t *c, char *slots);
/* All steps on elements [i0,i0+m), m in [1,block]. */
void mr__frame_block(frame_t *f, int64_t i0, int64_t m);

void mr__program_run(const mr_call_t *c);

/* The same for a program whose reductions fold rows into one. */
void mr__program_columns_run(const mr_call_t *c);
/* Settles how such a program cuts its rows; returns the bytes of scratch that it takes. */
size_t mr__program_columns_cut(program_t *p);

#endif
