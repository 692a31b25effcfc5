/* The process's defaults for graphs, precision of products and layout of PRNG keys: each is the
   environment's until a call sets it.  A bad value of the environment cannot fail here; compiling
   reports it. */
#include "model/ir/defaults.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { UNSET = -1 };

/* Relaxed: they publish no other memory. */
static atomic_int default_precision = UNSET, default_layout = UNSET;

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
  int now = atomic_load_explicit(&default_precision, memory_order_relaxed);
  if (now != UNSET) return (mr_precision_t)now;
  mr_precision_t p = MR_PRECISION_NONE;
  mr_diag_t unused = {0}; /* mr_compile reports it */
  const char *text = getenv("MILLRACE_MATMUL_PRECISION");
  if (text) mr_precision_parse("MILLRACE_MATMUL_PRECISION", text, &p, &unused);
  return p;
}

void mr_matmul_precision_set(mr_precision_t p) {
  atomic_store_explicit(&default_precision, (int)p, memory_order_relaxed);
}

/* ---- layout of draws ---- */

static const char *layout_setting(void) { return getenv("MILLRACE_THREEFRY_PARTITIONABLE"); }

mr_err_t mr_key_layout_check(mr_diag_t *diag) {
  const char *text = layout_setting();
  if (!text || !strcmp(text, "0") || !strcmp(text, "1")) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "MILLRACE_THREEFRY_PARTITIONABLE: \"%s\", want 1 (jax's default) or 0", text);
}

mr_key_layout_t mr_key_layout(void) {
  int now = atomic_load_explicit(&default_layout, memory_order_relaxed);
  if (now != UNSET) return (mr_key_layout_t)now;
  const char *text = layout_setting(); /* mr_compile refuses other values */
  return text && !strcmp(text, "0") ? MR_KEY_ORIGINAL : MR_KEY_PARTITIONABLE;
}

void mr_key_layout_set(mr_key_layout_t layout) {
  atomic_store_explicit(&default_layout, (int)layout, memory_order_relaxed);
}
