/* Measurements of this program on this machine, for `millrace bench`.  list.def names them;
   jax.c, link.c, model.c and stream.c hold them (without.c if their libraries are missing), and
   bench.c what they share. */
#ifndef MR_APPS_BENCH_BENCH_H
#define MR_APPS_BENCH_BENCH_H

#include "apps/cli/cli.h"

enum { MR_BENCH_ROWS = 32 };

/* The figures of one measurement, under names that scripts read. */
typedef struct mr_bench {
  const char *data; /* the name of the source, or "none" */
  bool silent;      /* another process prints the figures */
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
#define MR_BENCH(call, name, help) \
  mr_err_t mr_bench_##call(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
#include "apps/bench/list.def"
#undef MR_BENCH

#endif
