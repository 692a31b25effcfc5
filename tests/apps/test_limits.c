/* Limits of the command line: what is at one works, and what is one above it is
   refused by a sentence, or nothing limits it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"

/* As in apps/cli/cli.h. */
enum { WORDS = 1024, GRAPH_BYTES = 64 << 20, JAXPR_BYTES = 256 << 20 };

static program_t p;
static char dir[64];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-limits-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) { return program_forget(dir); }

static void make_run(const char *path) {
  static const char line[] = "{\"kind\":\"step\",\"step\":1,\"loss\":0.75}\n";
  char file[160];
  snprintf(file, sizeof file, "%s/metrics.jsonl", path);
  assert_int_equal(mr_make_folder(path, NULL), MR_OK);
  assert_int_equal(mr_write_file(file, line, sizeof line - 1, NULL), MR_OK);
}

static void as_many_runs_are_compared_as_a_command_takes_words(void **state) {
  static const char *words[WORDS + 3] = {"runs"};
  char run[128];
  snprintf(run, sizeof run, "%s/one", dir);
  make_run(run);
  for (int i = 0; i <= WORDS; i++) words[1 + i] = run;
  program_run(&p, words);
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "runs: more than 1024 words"));
  words[1 + WORDS] = NULL;
  program_run(&p, words);
  if (p.status) fail_msg("%s", p.err);
  int shown = 0;
  for (const char *at = p.out; (at = strstr(at, " 0.7500")); at++) shown++;
  assert_true(shown >= WORDS);
}

static void all_runs_of_a_folder_are_listed(void **state) {
  enum { RUNS = 5000 };
  char folder[96], run[128];
  snprintf(folder, sizeof folder, "%s/many", dir);
  for (int i = 0; i < RUNS; i++) {
    snprintf(run, sizeof run, "%s/%d", folder, i);
    make_run(run);
  }
  RUN(&p, "runs", folder);
  if (p.status) fail_msg("%s", p.err);
  int lines = 0;
  for (const char *at = p.out; (at = strchr(at, '\n')); at++) lines++;
  assert_int_equal(lines, 1 + RUNS);
}

/* A file of n bytes: blanks, but for a text at its end. */
static void make_padded(const char *file, const char *text, size_t n) {
  size_t len = strlen(text);
  char *bytes = malloc(n);
  assert_non_null(bytes);
  memset(bytes, '\n', n - len);
  memcpy(bytes + n - len, text, len);
  assert_int_equal(mr_write_file(file, bytes, n, NULL), MR_OK);
  free(bytes);
}

static void texts_of_graphs_and_jaxprs_are_read_up_to_their_limits(void **state) {
  static const struct {
    const char *command, *name, *text, *refused;
    size_t most;
  } kind[] = {{"graph", "g.mr", "count n=1 bytes=8 ! null\n", "67108865 bytes, expected at most",
               GRAPH_BYTES},
              {"jaxpr", "f.jaxpr", "{ lambda ; a:f32[2]. let b:f32[2] = mul a a in (b,) }\n",
               "268435457 bytes, expected at most", JAXPR_BYTES}};
  for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
    char file[96];
    snprintf(file, sizeof file, "%s/%s", dir, kind[i].name);
    make_padded(file, kind[i].text, kind[i].most);
    RUN(&p, kind[i].command, file);
    if (p.status) fail_msg("%s: %s", kind[i].command, p.err);
    assert_int_equal(truncate(file, (off_t)kind[i].most + 1), 0);
    RUN(&p, kind[i].command, file);
    assert_true(p.status != 0);
    if (!strstr(p.err, kind[i].refused)) fail_msg("%s: %s", kind[i].command, p.err);
    unlink(file);
  }
}

static void a_model_has_as_many_layers_as_its_setting_says(void **state) {
  static const char *const said[] = {"layers=1024", "layers=1025"};
  for (int i = 0; i < 2; i++) {
    char graph[256];
    snprintf(graph, sizeof graph,
             "synthetic n=8 ! shuffle seed=1 ! normalize ! batch 4 ! vit-step %s embed=2 mlp=1 "
             "heads=1 patch=32",
             said[i]);
    RUN(&p, "graph", graph);
    if (i) {
      assert_true(p.status != 0);
      if (!strstr(p.err, "layers = \"1025\": want a whole number in [1,1024]"))
        fail_msg("%s", p.err);
    } else if (p.status) {
      fail_msg("%s", p.err);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_runs_are_compared_as_a_command_takes_words),
      cmocka_unit_test(all_runs_of_a_folder_are_listed),
      cmocka_unit_test(texts_of_graphs_and_jaxprs_are_read_up_to_their_limits),
      cmocka_unit_test(a_model_has_as_many_layers_as_its_setting_says),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
