/* A training step as a jitted function: what calls of it cost. */
#ifndef MR_APPS_BENCH_CACHED_H
#define MR_APPS_BENCH_CACHED_H

#include "apps/bench.h"
#include "model/nn/vit.h"

/* Adds call_first_ms, which traces, differentiates and compiles; call_cached_ms, the median of
   three further calls, until they return; and call_compiles, how many of the four compiled. */
mr_err_t mr_bench_cached(const mr_vit_config_t *c, int64_t batch, mr_bench_t *out, mr_diag_t *diag);

#endif
