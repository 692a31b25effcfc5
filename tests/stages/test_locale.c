/* A whole run in a program that has set a locale with a decimal comma: settings, metrics files and
   checkpoints mean the same as anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <cJSON.h>

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/comma.h"

static char dir[64];
static mr_registry_t reg;

static int setup(void **state) {
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  strcpy(dir, "/tmp/mr-locale-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

static void run(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0 || mr_graph_run(g, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

static int commas(const char *line) {
  int n = 0;
  for (; *line; line++) n += *line == ',';
  return n;
}

static void a_run_reads_and_writes_points(void **state) {
  char text[1024], path[128], line[8192];
  if (!comma_locale()) skip();
  snprintf(text, sizeof text,
           "synthetic n=40 seed=1 ! shuffle seed=2 ! normalize ! batch 8 "
           "! vit-step layers=1 embed=32 mlp=32 heads=2 lr=0.001 ema=0.5\n"
           "vit-step.metrics ! telemetry\ntelemetry. ! jsonl path=%s/m.jsonl\n"
           "telemetry. ! csv path=%s/m.csv\nvit-step.state ! checkpoint dir=%s/checkpoints",
           dir, dir, dir);
  run(text);

  snprintf(path, sizeof path, "%s/m.jsonl", dir);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  int steps = 0;
  while (fgets(line, sizeof line, f)) {
    cJSON *j = cJSON_Parse(line);
    if (!j) fail_msg("no JSON: %s", line);
    const cJSON *loss = cJSON_GetObjectItem(j, "loss");
    steps += cJSON_IsNumber(loss) && loss->valuedouble > 1 && loss->valuedouble < 5;
    cJSON_Delete(j);
  }
  fclose(f);
  assert_true(steps >= 4);

  snprintf(path, sizeof path, "%s/m.csv", dir);
  f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(line, sizeof line, f));
  int columns = commas(line);
  while (fgets(line, sizeof line, f)) assert_int_equal(commas(line), columns);
  fclose(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_reads_and_writes_points)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
