/* A graph as text, for tests that compare graphs. */
#ifndef MR_TESTS_PIPELINE_DUMP_H
#define MR_TESTS_PIPELINE_DUMP_H

#include <stdio.h>

#include "pipeline/graph/graph.h"

/* What mr_graph_dump writes; the caller frees it. */
static inline char *dump(const mr_graph_t *g) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  mr_graph_dump(g, f);
  fclose(f);
  return text;
}

#endif
