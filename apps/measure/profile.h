/* The measurements of `millrace profile` and their output formats: profile_table.c sums and prints,
   profile_file.c and profile_flame.c write files. */
#ifndef MR_APPS_MEASURE_PROFILE_H
#define MR_APPS_MEASURE_PROFILE_H

#include <stdio.h>

#include "model/exec/backend.h"
#include "model/exec/exec.h"

/* The machine's limits, measured directly before. */
typedef struct mr_profile_limits {
  int threads;
  double f32, bf16, copy;             /* GFLOP/s, GFLOP/s, GB/s: all threads */
  double f32_one, bf16_one, copy_one; /* one thread */
} mr_profile_limits_t;

typedef enum mr_profile_kind {
  MR_PROFILE_PRODUCT, /* matrix products */
  MR_PROFILE_MEMORY,  /* limited by memory: the traffic takes longer than the arithmetic */
  MR_PROFILE_OTHER    /* the rest, time between kernels included */
} mr_profile_kind_t;

/* A kernel call of the step; independent of the executable, which is gone when it is printed. */
typedef struct mr_profile_op {
  const char *op;              /* its name, of the op's constant */
  char scope[160], shape[192]; /* "vit/head", "f32[8320,384] f32[384,1536] -> ..." */
  bool narrow, serial;         /* a product of bf16; runs on one thread */
  mr_cost_t cost;
  int64_t ns; /* of all runs */
} mr_profile_op_t;

typedef struct mr_profile {
  mr_profile_limits_t limit;
  mr_profile_op_t *call; /* [n] in running order */
  int n, runs, max_runs;
  int64_t *at, *ns;   /* [max_runs][n] each run's calls */
  int64_t wall_ns;    /* of all runs, from call to return */
  int64_t outside_ns; /* between runs: waiting for batches, metrics */
} mr_profile_t;

/* A sum over calls, a step. */
typedef struct mr_profile_sum {
  int calls;
  double ns, flop, bytes, ideal_ns; /* ideal: at the machine's limit */
} mr_profile_sum_t;

/* Returns the kind of a call, and its name, static. */
mr_profile_kind_t mr_profile_kind(const mr_profile_t *p, const mr_profile_op_t *c);
const char *mr_profile_kind_name(mr_profile_kind_t kind);
/* Returns the shortest time in ns that the limits allow for a call. */
double mr_profile_ideal_ns(const mr_profile_t *p, const mr_profile_op_t *c);
/* Adds a call to *sum. */
void mr_profile_add(const mr_profile_t *p, mr_profile_sum_t *sum, const mr_profile_op_t *c);
/* Returns the sum over all calls of a kind; kind < 0: of every kind. */
mr_profile_sum_t mr_profile_total(const mr_profile_t *p, int kind);

/* Returns the length of the first level of a scope path: up to a '/' or '.', but a number belongs
   to the name before it ("encoder_blocks.0").  *skip: the characters up to the next level. */
size_t mr_profile_level(const char *scope, size_t *skip);

/* Prints the tables; prints nothing without memory. */
void mr_profile_table(const mr_profile_t *p, FILE *to);
/* Each writes a file, whole or not at all.  MR_ERR_IO or MR_ERR_NOMEM. */
mr_err_t mr_profile_trace(const mr_profile_t *p, const char *path, mr_diag_t *diag);
mr_err_t mr_profile_flame(const mr_profile_t *p, const char *path, mr_diag_t *diag);
mr_err_t mr_profile_json(const mr_profile_t *p, const char *path, mr_diag_t *diag);

#endif
