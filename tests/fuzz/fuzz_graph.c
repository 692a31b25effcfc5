/* Graph text: parsed, settled, dumped; what was dumped parses again to the same dump. */
#include "pipeline/graph/graph.h"

#include "tests/fuzz/fuzz.h"

static char *dump(const mr_graph_t *g) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  fuzz_need(f != NULL, "memory");
  mr_graph_dump(g, f);
  fclose(f);
  return text;
}

static void check_again(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(fuzz_stages());
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) {
    fprintf(stderr, "%s\n%s\n", text, diag.text);
    fuzz_need(0, "a dump does not parse");
  }
  char *again = dump(g);
  fuzz_need(strcmp(text, again) == 0, "a dump of a dump differs");
  free(again);
  mr_graph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n > 4096) return 0;
  char *text = malloc(n + 1);
  memcpy(text, data, n);
  text[n] = 0;
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(fuzz_stages());
  if (mr_graph_parse(g, text, NULL, 0, &diag) >= 0) {
    char *first = dump(g);
    check_again(first);
    free(first);
    mr_graph_settle(g, &diag);
  }
  mr_graph_destroy(g);
  free(text);
  return 0;
}
