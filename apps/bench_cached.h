/* The cost of calling a training step as a jitted function. */
#ifndef MR_APPS_BENCH_CACHED_H
#define MR_APPS_BENCH_CACHED_H

#include "apps/bench.h"
#include "model/train.h"

/* Adds call_first_ms, the first call, which traces, differentiates and compiles; call_cached_ms,
   the median of three further calls until they return; and call_compiles, the number of
   compilations in all four.  MR_ERR_NOMEM, or a failure of compiling. */
mr_err_t mr_bench_cached(const mr_loss_t *l, const mr_train_config_t *t, mr_bench_t *out,
                         mr_diag_t *diag);

#endif
