/* Settings: the text of every setting of every stage, NAME=VALUE words over a graph, and the files
   of a run's folder. */
#include "apps/cli/cli.h"
#include "apps/run/run_dir.h"
#include "loaders/orders/sampler.h"
#include "pipeline/graph/graph.h"
#include "tests/fuzz/fuzz.h"

/* Of apps/cli/graphs.c: a fuzzer loads no code that its input names. */
mr_err_t mr_load_plugin(const char *file, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_CONFIG, "plug-in %s: not loaded here", file);
}

mr_err_t mr_plugin_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag) {
  return mr_load_plugin(file, diag);
}

const mr_registry_t *mr_all_stages(void) { return fuzz_stages(); }

static void every_option(const char *text) {
  const mr_registry_t *reg = fuzz_stages();
  for (int i = 0; i < reg->n; i++) {
    void *state = calloc(1, reg->def[i]->state_sz + 1);
    for (const mr_opt_t *o = reg->def[i]->opts; o && o->name; o++) {
      mr_diag_t diag = {0};
      mr_opt_set(o, state, reg->def[i]->name, text, &diag);
    }
    free(state);
  }
}

static void override(const char *word) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(fuzz_stages());
  const char *const words[] = {word};
  if (mr_graph_parse(g, "let size = 8\nsynthetic n=20 ! shuffle seed=1 ! batch $size ! null", words,
                     1, &diag) >= 0)
    mr_graph_settle(g, &diag);
  mr_graph_destroy(g);
}

static void run_folder(const char *graph, size_t n_graph, const char *text, size_t n) {
  mr_run_dir_t r = {0};
  mr_diag_t diag = {0};
  fuzz_file("graph.mr", graph, n_graph);
  fuzz_file("settings.txt", text, n);
  if (mr_run_dir_open(&r, fuzz_folder(), &diag) >= 0) {
    mr_resume_point_t at;
    mr_run_dir_get(&r, "batch");
    mr_run_dir_resume_point(&r, &at, &diag);
  }
  mr_run_dir_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char graph[] = "count 5 ! null\n";
  int64_t shard, n_shards;
  if (n > 4096) return 0;
  char *text = malloc(n + 1);
  memcpy(text, data, n);
  text[n] = 0;
  every_option(text);
  override(text);
  mr_sampler_parse_shard(text, &shard, &n_shards);
  run_folder(graph, sizeof graph - 1, text, n);
  free(text);
  return 0;
}
