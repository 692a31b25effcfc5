/* A program against the installed library, read as C11, C17 and C++17: a stream graph with a stage
   of its own, and a traced, differentiated and compiled function. */
#include <millrace.h>
#include <stdio.h>

#include "pipeline/stage_step.h"

static int failed;

static void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "library: %s\n", what);
  failed = 1;
}

/* ---- a stage of its own: counts the buffers that reach it ---- */

static int n_counted;

static mr_err_t count_plan(mr_stage_t *s) { return MR_OK; }

static mr_err_t count_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t n = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < n; i++) mr_buf_unref(b[i]);
  n_counted += (int)n;
  return n ? MR_OK : mr_idle(s);
}

static void streams(void) {
  static mr_registry_t reg;
  static mr_stage_def_t count;
  static mr_step_def_t step;
  count.name = "count", count.help = "Counts buffers.", count.in[0].name = "in";
  step.run = count_step;
  count.plan = count_plan, count.step = &step;
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_links_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  static mr_diag_t diag;
  mr_graph_t *g = mr_graph_create(&reg);
  const char *name;
  expect(mr_graph_parse(g, "synthetic n=1000 ! shuffle seed=3 ! batch 100", NULL, 0, &diag) >= 0 &&
             mr_graph_add_def(g, &count, NULL, &name, &diag) >= 0 &&
             mr_graph_link(g, "batch", NULL, name, NULL, &diag) >= 0 && mr_graph_run(g, &diag) >= 0,
         diag.text);
  expect(n_counted == 10, "the graph did not make ten batches");
  mr_graph_destroy(g);
}

/* ---- d/dx of sum(tanh(x)) ---- */

static void tensors(void) {
  static mr_diag_t diag;
  mr_fn_t *f = mr_fn_create(), *df = NULL;
  mr_exec_t *run = NULL;
  int dim = 0, wrt = 0;
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  mr_var_t *sum = mr_lax_reduce_sum(f, mr_lax_tanh(f, x), 1, &dim);
  mr_fn_return(f, 1, &sum);
  expect(mr_grad(f, 1, &wrt, &df, &diag) >= 0 && mr_compile(df, NULL, &run, &diag) >= 0, diag.text);
  float in[4] = {0, 0, 0, 0}, slope[4] = {0, 0, 0, 0};
  const void *from[] = {in};
  void *to[] = {slope};
  if (run) mr_exec_run(run, from, to);
  expect(slope[0] == 1 && slope[3] == 1, "the slope of tanh at 0 is not 1");
  mr_exec_destroy(run);
  mr_fn_destroy(df);
  mr_fn_destroy(f);
}

int main(void) {
  streams();
  tensors();
  if (!failed) puts("library: streams and tensors run");
  return failed;
}
