/* Measurements of this program on this machine, for `millrace bench`.  Those of NAME are in
   bench_NAME.c (without.c if their libraries are missing), what they share in bench.c. */
#ifndef MR_APPS_BENCH_H
#define MR_APPS_BENCH_H

#include "apps/cli.h"

enum { MR_BENCH_ROWS = 32 };

/* The figures of one measurement, under names that scripts read. */
typedef struct mr_bench {
  const char *data; /* "cifar10", "synthetic", "none" */
  int n;
  struct {
    const char *name; /* static: "images_per_s", "step_s", "ns_per_hop" */
    double value;
  } row[MR_BENCH_ROWS];
} mr_bench_t;

/* Adds a figure; drops it if b is full.  name is static. */
void mr_bench_add(mr_bench_t *b, const char *name, double value);

/* Returns the median of v[0,n), n >= 1; sorts v. */
double mr_bench_median(double *v, int n);

/* Each runs one measurement with the command's flags and adds its figures to *out.  MR_ERR_USAGE
   for a wrong flag, else the failure of what was measured. */
mr_err_t mr_bench_loader(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_reader(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_stage(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_compile(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_infer(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_jax(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_link(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
mr_err_t mr_bench_step(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);

#endif
