/* Tests that walk the table of ops walk a plug-in's instead: examples/plugin-op, built into them.
   Included before the test's own text (tests/CMakeLists.txt). */
#ifndef MR_TESTS_MODEL_PLUGIN_OPS_H
#define MR_TESTS_MODEL_PLUGIN_OPS_H

#include <stdio.h>
#include <stdlib.h>

#include "model/control/table.h"
#include "plugins/plugin.h"

/* As the loader does, so that the parser knows them. */
__attribute__((constructor)) static inline void add_plugin_ops(void) {
  mr_diag_t diag = {0};
  if (mr_ops_check(mr_plugin.ops, "the plug-in", &diag) < 0) {
    fprintf(stderr, "%s\n", diag.text);
    abort();
  }
  mr_ops_add(mr_plugin.ops, "the plug-in");
}

#define mr_ops mr_plugin.ops
#define mr_n_ops 1

#endif
