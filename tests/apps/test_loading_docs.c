/* Every graph that docs/loading.md shows runs, and gives records. */
#include "tests/vectors.h"
/* after cmocka's headers */
#include "tests/apps/program.h"

/* The last cell of a table's row, without its backquotes; NULL where a line is none. */
static char *graph_of(char *line) {
  char *end = strrchr(line, '`');
  if (line[0] != '|' || !end || strcmp(end, "` |\n") != 0) return NULL;
  *end = 0;
  char *begin = strrchr(line, '`');
  return begin ? begin + 1 : NULL;
}

static void every_graph_of_the_table_runs(void **state) {
  FILE *f = fopen(MR_SOURCE_DIR "/docs/loading.md", "r");
  assert_non_null(f);
  program_t *p = malloc(sizeof *p);
  char line[1024];
  int graphs = 0;
  while (fgets(line, sizeof line, f)) {
    char *graph = graph_of(line);
    if (!graph) continue;
    RUN(p, "run", graph);
    if (p->status) fail_msg("%s: %s", graph, p->err);
    long long batches = 0, records = 0;
    assert_int_equal(sscanf(p->out, "null: %lld batches, %lld records", &batches, &records), 2);
    if (batches < 1 || records < 1) fail_msg("%s: %s", graph, p->out);
    graphs++;
  }
  fclose(f);
  free(p);
  assert_true(graphs >= 25);
}

/* A row for each stage of the table that is said to exist, so that a renamed one is noticed. */
static void every_record_stage_is_in_the_table(void **state) {
  static const char *const name[] = {"range",
                                     "shuffle",
                                     "sequential",
                                     "window-shuffle",
                                     "slice",
                                     "limit",
                                     "repeat",
                                     "filter",
                                     "mix",
                                     "concatenate",
                                     "zip",
                                     "interleave",
                                     "seed",
                                     "rebatch",
                                     "random-map",
                                     "mp-prefetch",
                                     "to-iter-dataset",
                                     "batch"};
  FILE *f = fopen(MR_SOURCE_DIR "/docs/loading.md", "r");
  program_t *p = malloc(sizeof *p);
  static char text[1 << 16];
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char cell[64];
    snprintf(cell, sizeof cell, "| `%s", name[i]);
    if (!strstr(text, cell)) fail_msg("%s has no row", name[i]);
    RUN(p, "inspect", name[i]);
    if (p->status) fail_msg("inspect %s: %s", name[i], p->err);
  }
  free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_graph_of_the_table_runs),
      cmocka_unit_test(every_record_stage_is_in_the_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
