/* The texts of jaxprs.txt by title, against graphs. */
#ifndef MR_TESTS_MODEL_JAXPRS_H
#define MR_TESTS_MODEL_JAXPRS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "tests/vectors.h"

/* The text under "## title", up to the empty line. */
static inline void golden_text(const char *title, char *out, size_t size) {
  char line[512];
  bool in = false;
  size_t at = 0;
  FILE *f = vectors_open("transforms/jaxprs.txt");
  out[0] = 0;
  while (fgets(line, sizeof line, f)) {
    if (in && line[0] == '\n') break;
    if (in) at += (size_t)snprintf(out + at, size - at, "%s", line);
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "## ", 3) && !strcmp(line + 3, title)) in = true;
  }
  fclose(f);
  assert_true(in && at > 0);
}

static inline void assert_jaxpr(const mr_fn_t *f, const char *title) {
  char want[4096];
  golden_text(title, want, sizeof want);
  char *got = mr_fn_text(f);
  assert_string_equal(got, want);
  free(got);
}

#endif
