/* A child of a process that runs a graph: the graph gets a sentence there, at once, and one of the
   child's own runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "links/links.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"
#include "tests/child.h"

static mr_registry_t reg;

static int set_up(void **state) {
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_links_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  return 0;
}

static mr_graph_t *parsed(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

#define FINITE "synthetic n=64 ! sequential epochs=2 ! normalize ! batch 8 ! null"

static int runs_its_own(void *arg) {
  mr_graph_t *g = arg;
  mr_diag_t diag = {0};
  if (mr_graph_join(g, &diag) != MR_ERR_USAGE || !strstr(diag.text, "forked from")) return 1;
  mr_graph_stop(g);
  mr_graph_destroy(g);
  if (!CHILD_HAS_THREADS) return 0;
  mr_graph_t *own = mr_graph_create(&reg);
  if (mr_graph_parse(own, FINITE, NULL, 0, &diag) < 0 || mr_graph_run(own, &diag) < 0) return 2;
  mr_graph_destroy(own);
  return 0;
}

static void a_running_graph_of_the_parent_is_refused_in_a_child(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parsed("synthetic n=64 ! sequential epochs=0 ! normalize ! batch 8 ! null");
  if (mr_graph_start(g, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < 3; i++) in_a_child(runs_its_own, g);
  mr_graph_stop(g);
  if (mr_graph_join(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

static int settles_what_the_parent_parsed(void *arg) {
  mr_diag_t diag = {0};
  mr_err_t e = mr_graph_run(arg, &diag);
  mr_graph_destroy(arg);
  return e < 0;
}

/* A graph that has no threads yet is the child's as well. */
static void a_graph_that_has_not_begun_runs_in_parent_and_child(void **state) {
  mr_graph_t *g = parsed(FINITE);
  mr_diag_t diag = {0};
  in_a_child(settles_what_the_parent_parsed, g);
  if (mr_graph_run(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_running_graph_of_the_parent_is_refused_in_a_child),
      cmocka_unit_test(a_graph_that_has_not_begun_runs_in_parent_and_child)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
