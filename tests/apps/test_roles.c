/* Stages are what their roles say: a plug-in's checkpoint keeps a run that resumes, a plug-in's
   link joins the processes of a graph, and what a role needs is checked when a plug-in is loaded.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

static program_t p;
static char dir[] = "/tmp/mr-roles-XXXXXX";

/* A path in the test's folder. */
static const char *in_dir(const char *name) {
  static char path[16][256];
  static int next;
  char *to = path[next++ % 16];
  snprintf(to, sizeof path[0], "%s/%s", dir, name);
  return to;
}

static const char *copy(const char *plugin) {
  char from[PATH_MAX], name[64];
  void *bytes;
  size_t n;
  snprintf(from, sizeof from, "%s/%s.so", MR_PLUGINS, plugin);
  snprintf(name, sizeof name, "%s.so", plugin);
  const char *to = in_dir(name);
  assert_int_equal(mr_read_file(from, 1 << 26, &bytes, &n, NULL), MR_OK);
  assert_int_equal(mr_write_file(to, bytes, n, NULL), MR_OK);
  assert_int_equal(chmod(to, 0644), 0);
  free(bytes);
  return to;
}

static const char *text_file(const char *name, const char *text) {
  const char *path = in_dir(name);
  assert_int_equal(mr_write_file(path, text, strlen(text), NULL), MR_OK);
  return path;
}

static char *contents(const char *path) {
  void *bytes;
  size_t n;
  mr_diag_t why = {0};
  if (mr_read_file(path, 1 << 24, &bytes, &n, &why) < 0) fail_msg("%s", why.text);
  char *text = realloc(bytes, n + 1);
  text[n] = 0;
  return text;
}

static const char trainer[] =
    "let run = runs/1\n"
    "synthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 ! train-step name=train "
    "embed=16 mlp=16 heads=2 layers=1 patch=8 checkpoint-every=2\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n";

static void a_run_resumes_from_the_checkpoint_of_a_plugin(void **state) {
  char text[1024];
  const char *plugin = copy("roles");
  snprintf(text, sizeof text, "%strain.state ! vault dir=$run/checkpoints\n", trainer);
  const char *graph = text_file("vault.mr", text), *run = in_dir("run");
  RUN(&p, "train", "--plugin", plugin, "--graph", graph, "--run-dir", run, "--steps", "4");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "7");
  if (p.status) fail_msg("%s", p.err);
  if (!strstr(p.out, "resumed at step 4")) fail_msg("%s", p.out);

  /* The same parameters as without a stop, kept by the checkpoint of the program. */
  snprintf(text, sizeof text, "%strain.state ! checkpoint dir=$run/checkpoints\n", trainer);
  const char *whole = in_dir("whole");
  RUN(&p, "train", "--graph", text_file("ours.mr", text), "--run-dir", whole, "--steps", "7");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "eval", in_dir("run/checkpoints/latest"), "--data", "synthetic", "--jsonl",
      in_dir("a.jsonl"));
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "eval", in_dir("whole/checkpoints/latest"), "--data", "synthetic", "--jsonl",
      in_dir("b.jsonl"));
  if (p.status) fail_msg("%s", p.err);
  char *a = contents(in_dir("a.jsonl")), *b = contents(in_dir("b.jsonl"));
  const char *loss_a = strstr(a, "\"ledger\""), *loss_b = strstr(b, "\"ledger\"");
  assert_non_null(loss_a);
  assert_non_null(loss_b);
  assert_memory_equal(loss_a, loss_b, strlen("\"ledger\":\"0123456789abcdef\""));
  free(a), free(b);
}

static void a_process_resumes_from_the_checkpoint_of_a_plugin(void **state) {
  NEEDS("ZMQ");
  char text[1024], keep[512];
  const char *plugin = copy("roles"), *lines = in_dir("steps.jsonl");
  snprintf(text, sizeof text,
           "process t {\nsynthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 ! "
           "train-step name=train embed=16 mlp=16 heads=2 layers=1 patch=8 steps=3\n"
           "train.state ! vault dir=%s\ntrain.metrics ! jsonl path=%s\n}\n",
           in_dir("kept"), lines);
  const char *graph = text_file("process.mr", text);
  RUN(&p, "run", "--plugin", plugin, graph, "--process", "t");
  if (p.status) fail_msg("%s", p.err);
  snprintf(keep, sizeof keep, "train.steps=5");
  RUN(&p, "run", "--plugin", plugin, graph, keep, "--process", "t", "--resume");
  if (p.status) fail_msg("%s", p.err);
  char *said = contents(lines);
  int n[6] = {0};
  for (const char *at = said; (at = strstr(at, "{\"kind\":\"step\",\"step\":")); at++) {
    long step = strtol(at + strlen("{\"kind\":\"step\",\"step\":"), NULL, 10);
    assert_in_range(step, 1, 5);
    n[step]++;
  }
  for (int i = 1; i <= 5; i++) assert_int_equal(n[i], 1); /* none is done twice */
  free(said);
}

static void the_processes_of_a_graph_are_joined_by_the_link_of_a_plugin(void **state) {
  NEEDS("ZMQ");
  char text[1024];
  const char *plugin = copy("roles");
  for (int own = 0; own < 2; own++) {
    snprintf(text, sizeof text,
             "process a {\nsynthetic n=320 ! shuffle seed=1 ! flip ! batch 16 name=b\n}\n"
             "process c {\nledger path=%s name=l\n}\nb. ! l.\n",
             in_dir(own ? "own.txt" : "ours.txt"));
    const char *graph = text_file(own ? "own.mr" : "ours.mr", text);
    if (own)
      RUN(&p, "run", "--plugin", plugin, graph);
    else
      RUN(&p, "run", graph);
    if (p.status) fail_msg("%s", p.err);
    bool said = strstr(p.out, "20 batches over a wire") || strstr(p.err, "20 batches over a wire");
    assert_int_equal(said, own);
  }
  char *ours = contents(in_dir("ours.txt")), *own = contents(in_dir("own.txt"));
  assert_true(strlen(ours) > 320 * 20);
  assert_string_equal(ours, own);
  free(ours), free(own);
}

static void a_stage_answers_to_its_alias_and_to_other_words(void **state) {
  const char *plugin = copy("roles");
  RUN(&p, "inspect", "safe", "--plugin", plugin);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "vault: Keeps the newest state."));
  RUN(&p, "inspect", "strongbox", "--plugin", plugin);
  assert_int_equal(p.status, 2);
  if (!strstr(p.err, "stage \"vault\" does that: train.state ! vault")) fail_msg("%s", p.err);
  RUN(&p, "inspect", "vit-eval"); /* the former name of a stage of ours */
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "eval-step: "));
}

static void a_role_without_what_it_needs_is_refused(void **state) {
  RUN(&p, "inspect", "--plugin", copy("roles_lone"));
  assert_int_equal(p.status, 2);
  if (!strstr(p.err,
              "stage \"wire-out\": .role says that it is one end of a link, and the other "
              "end is missing; add a stage with MR_ROLE_LINK_IN"))
    fail_msg("%s", p.err);
  RUN(&p, "inspect", "--plugin", copy("roles_bare"));
  assert_int_equal(p.status, 2);
  if (!strstr(p.err,
              "stage \"vault\": .role says that it is a checkpoint, which has a setting "
              "\"dir\"; add it"))
    fail_msg("%s", p.err);
}

static int set_up(void **state) { return mkdtemp(dir) ? 0 : -1; }
static int tear_down(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_resumes_from_the_checkpoint_of_a_plugin),
      cmocka_unit_test(a_process_resumes_from_the_checkpoint_of_a_plugin),
      cmocka_unit_test(the_processes_of_a_graph_are_joined_by_the_link_of_a_plugin),
      cmocka_unit_test(a_stage_answers_to_its_alias_and_to_other_words),
      cmocka_unit_test(a_role_without_what_it_needs_is_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
