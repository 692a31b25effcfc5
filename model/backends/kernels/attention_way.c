/* The word of MILLRACE_ATTENTION.  Reads the environment at each call, so that tests can compile in
   several ways in one process. */
#include "model/backends/kernels/attention_way.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

mr_attention_way_t mr_attention_way(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const char *way = getenv("MILLRACE_ATTENTION");
  if (!way || !*way) return MR_ATTENTION_USUAL;
  if (!strcmp(way, "own")) return MR_ATTENTION_OWN;
  if (!strcmp(way, "cudnn")) return MR_ATTENTION_CUDNN;
  if (!strcmp(way, "opened")) return MR_ATTENTION_OPENED;
  /* Relaxed: the flag orders nothing, it only lets one thread say it. */
  if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
    mr_notice("MILLRACE_ATTENTION: \"%s\", want own, cudnn or opened; it is ignored", way);
  return MR_ATTENTION_USUAL;
}
