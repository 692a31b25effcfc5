/* A model's parameters: a list of named tensors, and sets of numbers for all of them: values, the
   slots of an optimizer, and optionally an average of the values over time.  Each set is one
   arena with its own dtype.

   Zero-initialise a mr_params_t, add tensors, then alloc; mr_params_fini frees all of it, also
   after a failure.  One thread at a time.  Implemented in params.c, and summary.c (mr_summary). */
#ifndef MR_MODEL_NN_PARAMS_H
#define MR_MODEL_NN_PARAMS_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/aval.h"

MR_BEGIN_DECLS

typedef enum mr_init_kind {
  MR_INIT_ZEROS,
  MR_INIT_ONES,
  MR_INIT_NORMAL,         /* a: standard deviation */
  MR_INIT_LECUN_NORMAL,   /* a: fan_in; normal cut at two deviations, of variance 1/fan_in */
  MR_INIT_TRUNC_NORMAL,   /* a: standard deviation; cut at +-2 absolute (timm) */
  MR_INIT_UNIFORM,        /* a: bound; in [-a,a) */
  MR_INIT_CONSTANT,       /* a: the value */
  MR_INIT_UNIFORM_UP,     /* a: bound; a times one in [0,1) */
  MR_INIT_SCALED_UNIFORM, /* a: bound; a times one in [-1,1) */
  MR_INIT_ORTHOGONAL, /* a: factor of a matrix (fan_in,outputs) with orthonormal rows or columns */
  MR_INIT_DELTA_ORTHOGONAL /* the same at the middle of a convolution's kernel, and zeros elsewhere
                            */
} mr_init_kind_t;

typedef struct mr_init {
  mr_init_kind_t kind;
  float a;
} mr_init_t;

typedef struct mr_param {
  const char *name; /* "encoder_blocks.0.attn.query.kernel" */
  mr_aval_t aval;   /* f32 */
  mr_init_t init;
  /* For the last two: the numbers that an output is a sum of, at one place of a convolution's
     kernel for DELTA; 0: the dimensions of flax's layout but the last, or the last but one. */
  int64_t fan_in;
  bool out_first;      /* for them: outputs are the first dimension, as in torch's layout */
  size_t offset, size; /* elements, in each set's arena; offset is a multiple of 32 (64 bytes) */
} mr_param_t;

/* The type of modules that draw: flax keeps a key and a counter for each. */
#define MR_MODULE_DROPOUT "Dropout"

/* A part of the model that was applied: its type, its input and its output. */
typedef struct mr_module {
  const char *name; /* "encoder_blocks.0.attn"; "" is the model */
  const char *type; /* "MultiHeadAttention"; lives as long as the program */
  mr_aval_t in, out;
  int in_var, out_var; /* ids of the vars they are of, as traced; -1: unknown */
} mr_module_t;

typedef enum mr_set_kind {
  MR_SET_VALUES,
  MR_SET_SLOT,    /* of the optimizer: number 0, 1 */
  MR_SET_AVERAGE, /* of the values over time */
} mr_set_kind_t;

/* The numbers of one kind for all tensors. */
typedef struct mr_param_set {
  mr_set_kind_t kind;
  int number;
  mr_dtype_t dtype;
  void *data; /* [arena_size] of dtype, 64-aligned; NULL until mr_params_alloc */
  size_t *at; /* [n+1] where tensors begin, and the end; NULL: as all sets (mr__params_pieces) */
} mr_param_set_t;

enum { MR_PARAM_SETS = 4, MR_PARAM_SLOTS = 2 };

typedef struct mr_params {
  int n, cap;
  mr_param_t *param;
  int n_module, cap_module;
  mr_module_t *module; /* in the order in which mr_params_module added them: inner ones first */
  size_t arena_size;   /* elements of an arena, padding included; padding stays 0 */
  int64_t count;       /* elements of the tensors */
  int n_sets;
  mr_param_set_t set[MR_PARAM_SETS];
  bool slots_wanted; /* mr_params_want_slots was called */
} mr_params_t;

/* Appends a tensor of aval, f32; name is copied.  MR_OK, MR_ERR_CONFIG for a name that exists
   already, or MR_ERR_NOMEM. */
mr_err_t mr_params_add(mr_params_t *s, const char *name, mr_aval_t aval, mr_init_t init,
                       mr_diag_t *diag);
/* Appends a module; m.name is copied, m.type is not.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_params_module(mr_params_t *s, mr_module_t m, mr_diag_t *diag);
/* Requests an average, or another dtype for values, before alloc.  Asserts that the same set has
   not been requested before. */
void mr_params_want(mr_params_t *s, mr_set_kind_t kind, int number, mr_dtype_t dtype);
/* Requests n slots of that dtype, in [0,MR_PARAM_SLOTS], before alloc: as many as the optimizer
   has, none for parameters that are only evaluated.  Asserts that no slot has been requested
   before. */
void mr_params_want_slots(mr_params_t *s, int n, mr_dtype_t dtype);
/* Has a set that was requested hold pieces of the tensors alone: elems[n] of each, 0 for one that
   it lacks, of which nothing may be read or written.  Before alloc, when all tensors are there.
   MR_OK or MR_ERR_NOMEM. */
mr_err_t mr__params_pieces(mr_params_t *s, mr_set_kind_t kind, int number, const size_t *elems,
                           mr_diag_t *diag);
/* Takes arenas of zeros for all tensors: values, in f32 unless mr_params_want requested another
   dtype; the slots of mr_params_want_slots, or without it MR_PARAM_SLOTS of f32; and an average if
   it was requested.  MR_OK; MR_ERR_NOMEM names the bytes, also where they are more than this
   process may still take. */
mr_err_t mr_params_alloc(mr_params_t *s, mr_diag_t *diag);
/* Returns the bytes of the sets that were requested, as mr_params_alloc takes them. */
size_t mr_params_bytes(const mr_params_t *s);
/* Frees lists and arenas, and zeroes *s. */
void mr_params_fini(mr_params_t *s);

/* The index of the tensor of that name, or -1. */
int mr_params_find(const mr_params_t *s, const char *name);
/* The set of that kind and number, or NULL; it belongs to s and lives as long as it. */
const mr_param_set_t *mr_params_set(const mr_params_t *s, mr_set_kind_t kind, int number);
/* Returns the elements of tensor i in a set, of set->dtype, after alloc; they belong to s and live
   until mr_params_fini. */
void *mr_params_at(const mr_params_t *s, const mr_param_set_t *set, int i);
/* Makes tensors [from,to) of a set zeros and gives their memory back to the system, but for what
   they share a page with, until they are written again. */
void mr_params_forget(const mr_params_t *s, const mr_param_set_t *set, int from, int to);
/* The arena of a set of f32 (asserted), [arena_size]; it belongs to s.  NULL: there is no such
   set, or alloc has not been called. */
float *mr_params_f32(const mr_params_t *s, mr_set_kind_t kind, int number);
/* Returns element i of tensor k in a set of f32, bf16 or f16, after alloc. */
float mr_params_read(const mr_params_t *s, const mr_param_set_t *set, int k, size_t i);
/* The set that evaluation uses: the average if there is one, else the values.  It belongs to s;
   NULL before alloc. */
const mr_param_set_t *mr_params_judged(const mr_params_t *s);
/* Draws the values with the initialisers, rounded to their dtype, sets the slots to 0 and the
   average (f32) to the values; after alloc.  Tensor i uses the key split(key(seed), i) of threefry,
   so the values do not depend on the number of threads.  MR_OK; MR_ERR_NOMEM for the room that
   orthogonal ones need.  Source: jax.nn.initializers; trunc_normal: timm. */
mr_err_t mr_params_init(mr_params_t *s, uint64_t seed, mr_diag_t *diag);

/* A row of the table of a model's parameters, with the counts of flax's tabulate. */
typedef struct mr_summary_row {
  char name[200];            /* "(all)", "encoder_blocks.0.attn" */
  int depth;                 /* parts of its name; 0 for (all) */
  int64_t count;             /* parameters in it and in modules below it */
  int draws;                 /* modules in it that draw (MR_MODULE_DROPOUT), itself included */
  const mr_module_t *module; /* belongs to s; NULL: the module was not applied */
} mr_summary_row_t;

/* Makes one row for each module, in the order of the parameters, "(all)" first; those without
   parameters follow what was applied before them.  A list of modules (a name followed by a number)
   has no row of its own.  MR_OK: *rows holds *n rows, which point into s; the caller frees it with
   free.  MR_ERR_NOMEM: there is nothing to free.  Source: flax.nnx.tabulate. */
mr_err_t mr_summary(const mr_params_t *s, mr_summary_row_t **rows, int *n, mr_diag_t *diag);

MR_END_DECLS

#endif
