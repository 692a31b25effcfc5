/* The words of the switches: variables that are on unless they say "off".  A misspelt word is said
   and not obeyed, since a fault would else be looked for in a part that was on all the time. */
#include "model/backends/cuda/switch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

bool mr__cuda_is_off(mr_cuda_switch_t s) {
  static const char *const name[MR_CUDA_SWITCHES] = {"MILLRACE_CUBLASLT", "MILLRACE_CUDNN",
                                                     "MILLRACE_GRAPH", "MILLRACE_CUDA_POOL"};
  static atomic_flag said[MR_CUDA_SWITCHES]; /* static: clear */
  const char *word = getenv(name[s]);
  if (!word || !*word || !strcmp(word, "on")) return false;
  if (!strcmp(word, "off")) return true;
  /* Relaxed: the flag orders nothing, it only lets one thread say it. */
  if (!atomic_flag_test_and_set_explicit(&said[s], memory_order_relaxed))
    mr_notice("%s: \"%s\", want on or off; it is ignored", name[s], word);
  return false;
}
