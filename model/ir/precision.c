/* The default precision of products: one process-wide value, and the environment until it is
   set. */
#include "model/ir/precision.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { UNSET = -1 };

static atomic_int process_default = UNSET; /* relaxed: it publishes no other memory */

static const struct {
  const char *name;
  mr_precision_t p;
} names[] = {{"none", MR_PRECISION_NONE},        {"default", MR_PRECISION_DEFAULT},
             {"high", MR_PRECISION_HIGH},        {"highest", MR_PRECISION_HIGHEST},
             {"fastest", MR_PRECISION_DEFAULT},  {"bfloat16", MR_PRECISION_DEFAULT},
             {"bfloat16_3x", MR_PRECISION_HIGH}, {"tensorfloat32", MR_PRECISION_HIGH},
             {"float32", MR_PRECISION_HIGHEST}};

const char *mr_precision_name(mr_precision_t p) { return names[p].name; }

mr_err_t mr_precision_parse(const char *setting, const char *text, mr_precision_t *out,
                            mr_diag_t *diag) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(text, names[i].name)) {
      *out = names[i].p;
      return MR_OK;
    }
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s: \"%s\", want none, default (bfloat16), high (bfloat16_3x) or highest "
                 "(float32)",
                 setting, text);
}

mr_err_t mr_matmul_precision_check(mr_diag_t *diag) {
  const char *text = getenv("MILLRACE_MATMUL_PRECISION");
  mr_precision_t p;
  return text ? mr_precision_parse("MILLRACE_MATMUL_PRECISION", text, &p, diag) : MR_OK;
}

mr_precision_t mr_matmul_precision(void) {
  int now = atomic_load_explicit(&process_default, memory_order_relaxed);
  if (now != UNSET) return (mr_precision_t)now;
  mr_precision_t p = MR_PRECISION_NONE;
  mr_diag_t unheard = {0}; /* mr_compile reports it */
  const char *text = getenv("MILLRACE_MATMUL_PRECISION");
  if (text) mr_precision_parse("MILLRACE_MATMUL_PRECISION", text, &p, &unheard);
  return p;
}

void mr_matmul_precision_set(mr_precision_t p) {
  atomic_store_explicit(&process_default, (int)p, memory_order_relaxed);
}
