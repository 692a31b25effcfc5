/* `bench link` in a build without ZeroMQ: unavailable. */
#include "apps/bench.h"
#include "base/feature.h"

mr_err_t mr_bench_link(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  return mr_without(diag, "bench link", "ZMQ");
}
