/* The default layout of draws: one process-wide value, and the environment until it is set. */
#include "model/ir/key_layout.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { UNSET = -1 };

static atomic_int process_default = UNSET; /* relaxed: it publishes no other memory */

static const char *said(void) { return getenv("MILLRACE_THREEFRY_PARTITIONABLE"); }

mr_err_t mr_key_layout_check(mr_diag_t *diag) {
  const char *text = said();
  if (!text || !strcmp(text, "0") || !strcmp(text, "1")) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "MILLRACE_THREEFRY_PARTITIONABLE: \"%s\", want 1 (jax's default) or 0", text);
}

mr_key_layout_t mr_key_layout(void) {
  int now = atomic_load_explicit(&process_default, memory_order_relaxed);
  if (now != UNSET) return (mr_key_layout_t)now;
  const char *text = said(); /* mr_compile refuses other values */
  return text && !strcmp(text, "0") ? MR_KEY_ORIGINAL : MR_KEY_PARTITIONABLE;
}

void mr_key_layout_set(mr_key_layout_t layout) {
  atomic_store_explicit(&process_default, (int)layout, memory_order_relaxed);
}
