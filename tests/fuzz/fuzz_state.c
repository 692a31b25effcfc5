/* The state that a stage ledger leaves (`run --from FILE`), and a stream that resumes from it: with
   whatever numbers the file holds it ends, or fails with a sentence. */
#include "apps/run/resume.h"
#include "tests/fuzz/fuzz.h"

static void resume(const char *graph, const char *path) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(fuzz_stages());
  fuzz_need(mr_graph_parse(g, graph, NULL, 0, &diag) >= 0, diag.text);
  if (mr_from_state(g, path, NULL, &diag) >= 0) mr_graph_run(g, &diag);
  mr_graph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const graph[] = {
      "range 9 ! batch 2 ! ledger steps=20",
      "range 9 ! to-iter-dataset ! window-shuffle 4 seed=1 ! batch 2 ! rebatch 3 ! ledger steps=20",
      "range 9 ! batch 2 order=grain-workers loader-workers=2 ! ledger steps=20"};
  if (n > 4096) return 0;
  const char *path = fuzz_file("state.json", data, n);
  for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) resume(graph[i], path);
  return 0;
}
