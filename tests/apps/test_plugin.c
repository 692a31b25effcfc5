/* Plug-ins: what is refused and why, what is loaded, and runs that resume with theirs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

#define GRAPH "synthetic n=64 ! tint 3 ! batch 16"

static program_t p;
static char dir[64], file[96]; /* the test's folder, and the plug-in `whole` in it */

static const char *in_dir(const char *name) {
  static char path[32][160]; /* more than a test needs at a time */
  static int next;
  char *to = path[next++ % 32];
  snprintf(to, sizeof path[0], "%s/%s", dir, name);
  return to;
}

/* A copy of a plug-in under another name, readable and writable by its owner. */
static const char *copy(const char *plugin, const char *name) {
  const char *to = in_dir(name);
  char from[PATH_MAX];
  void *bytes;
  size_t n;
  snprintf(from, sizeof from, "%s/%s.so", MR_PLUGINS, plugin);
  assert_int_equal(mr_read_file(from, 1 << 26, &bytes, &n, NULL), MR_OK);
  assert_int_equal(mr_write_file(to, bytes, n, NULL), MR_OK);
  assert_int_equal(chmod(to, 0644), 0);
  free(bytes);
  return to;
}

static int setup(void **state) {
  snprintf(dir, sizeof dir, "/tmp/mr-plugin-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/whole.so", dir);
  copy("whole", "whole.so");
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

static void write_text(const char *path, const char *fmt, ...) {
  char text[2048];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  assert_int_equal(mr_write_file(path, text, strlen(text), NULL), MR_OK);
}

/* The program refuses the file with a status and a sentence that has these words. */
static void refuses(const char *path, int status, const char *words) {
  RUN(&p, "inspect", "--plugin", path);
  if (p.status != status || !strstr(p.err, words))
    fail_msg("%s: status %d, \"%s\"; expected %d, \"%s\"", path, p.status, p.err, status, words);
}

/* ---- refused ---- */

static void files_that_others_could_have_made_are_refused(void **state) {
  const char *path = copy("whole", "writable.so");
  char words[256];
  assert_int_equal(chmod(path, 0664), 0);
  refuses(path, 1, "others can write");
  refuses(path, 1, "chmod g-w");
  assert_int_equal(chmod(path, 0646), 0);
  refuses(path, 1, "chmod o-w");

  const char *folder = in_dir("open"), *inside;
  assert_int_equal(mkdir(folder, 0755), 0);
  inside = copy("whole", "open/whole.so");
  assert_int_equal(chmod(folder, 0777), 0);
  snprintf(words, sizeof words, "others can write %s (mode 0777)", folder);
  refuses(inside, 1, words);
  assert_int_equal(symlink(inside, in_dir("link.so")), 0); /* where it leads to counts */
  refuses(in_dir("link.so"), 1, words);
  assert_int_equal(chmod(folder, 01777), 0); /* as /tmp: no other user can replace a file there */
  RUN(&p, "inspect", "--plugin", inside);
  assert_int_equal(p.status, 0);
}

static void files_of_other_users_are_refused(void **state) {
  const char *path = copy("whole", "theirs.so");
  if (chown(path, 12345, (gid_t)-1) < 0) skip(); /* only root can make one */
  refuses(path, 1, "belongs to user 12345");
  assert_int_equal(chown(path, 0, (gid_t)-1), 0);
  const char *folder = in_dir("theirs");
  assert_int_equal(mkdir(folder, 0755), 0);
  path = copy("whole", "theirs/whole.so");
  assert_int_equal(chown(folder, 12345, (gid_t)-1), 0);
  refuses(path, 1, "belongs to user 12345");
}

static void a_plugin_that_is_no_regular_file_is_refused_without_being_opened(void **state) {
  refuses(dir, 1, "it is a folder, expected a regular file");
  assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
  refuses(in_dir("fifo"), 1, "a pipe, socket or device"); /* opening it would wait for ever */
  refuses("/dev/null", 1, "a pipe, socket or device");
  refuses(in_dir("none.so"), 1, "none.so: cannot be opened: No such file or directory");
  assert_int_equal(symlink(in_dir("loop.so"), in_dir("loop.so")), 0);
  refuses(in_dir("loop.so"), 1, strerror(ELOOP));
  refuses("", 2, "--plugin needs a value");
}

static void a_file_that_is_no_plugin_is_refused(void **state) {
  write_text(in_dir("text.so"), "no shared object");
  refuses(in_dir("text.so"), 1, "text.so: not a millrace plug-in: it is not a shared object");
  refuses(copy("not_a_plugin", "c.so"), 1, "it has no constant mr_plugin");
  void *bytes;
  size_t n;
  assert_int_equal(mr_read_file(file, 1 << 26, &bytes, &n, NULL), MR_OK);
  const char *cut = in_dir("cut.so");
  for (size_t part = 1; part < n; part = 3 * part + 1) { /* cut short at many places */
    assert_int_equal(mr_write_file(cut, bytes, part, NULL), MR_OK);
    RUN(&p, "inspect", "--plugin", cut);
    assert_true(p.status == 1 || p.status == 0); /* what is cut may be for debuggers alone */
  }
  free(bytes);
}

static void plugins_for_other_headers_are_refused(void **state) {
  refuses(copy("wrong_abi", "abi.so"), 1, "built for plug-in ABI 3, this program has 2");
  refuses(copy("other_size", "size.so"), 1, "built with other headers: its mr_stage_def_t has");
  refuses(copy("missing_symbol", "missing.so"), 1,
          "missing.so: cannot be loaded: undefined symbol: mr_of_a_later_version");
  refuses(copy("own_library", "own.so"), 1, "it contains its own copy of the millrace library");
}

static void names_that_are_there_and_constants_with_gaps_are_refused(void **state) {
  refuses(copy("stage_clash", "c.so"), 2,
          "c.so): stage \"flip\": the program has a stage of that name");
  refuses(copy("op_clash", "c.so"), 2, "c.so): op \"tanh\": the program has an op of that name");
  refuses(copy("bad_name", "c.so"), 2, "the plug-in's name is \"two words\"");
  refuses(copy("idle_stage", "c.so"), 2, "stage \"tint\": is of no kind");
  refuses(copy("bad_setting", "c.so"), 2, "setting \"add\" lies outside the state of 8 bytes");
  refuses(copy("no_rule", "c.so"), 2, "op \"twice\": its vjp rule is missing");
  refuses(copy("model_clash", "c.so"), 2,
          "c.so): model \"vit\": the program has a model of that name");
  refuses(copy("no_loss", "c.so"), 2, "model \"flat\": it has no loss");
  refuses(copy("model_setting", "c.so"), 2,
          "model \"flat\": setting \"width\" lies outside the state of 8 bytes");
}

static void two_plugins_with_one_name_are_distinguished_by_their_files(void **state) {
  char words[256];
  copy("whole", "again.so");
  RUN(&p, "inspect", "--plugin", file, "--plugin", in_dir("again.so"));
  snprintf(words, sizeof words, "again.so: a plug-in called \"whole\" is loaded already, from %s",
           file);
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, words));
  copy("second", "second.so");
  RUN(&p, "inspect", "--plugin", file, "--plugin", in_dir("second.so"));
  snprintf(words, sizeof words,
           "plug-in second (%s): op \"twice\": plug-in whole (%s) has an op of that name",
           in_dir("second.so"), file);
  assert_int_equal(p.status, 2);
  if (!strstr(p.err, words)) fail_msg("%s", p.err);
}

/* ---- loaded ---- */

static void a_stage_of_a_plugin_is_one_like_any_other(void **state) {
  RUN(&p, "inspect", "tint", "--plugin", file);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "tint: Adds a number to each byte."));
  RUN(&p, "--plugin", file, "inspect"); /* before the command, too */
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "plug-in whole"));
  assert_non_null(strstr(p.out, "  tint "));
  RUN(&p, "run", "--plugin", file, GRAPH " ! ledger");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "inspect", "tint");
  assert_int_equal(p.status, 2);
}

static void an_op_of_a_plugin_is_read_differentiated_and_compiled(void **state) {
  const char *path = in_dir("sum.jaxpr");
  write_text(path,
             "{ lambda ; a:f32[4]. let\n  b:f32[4] = twice a\n"
             "  c:f32[] = reduce_sum[axes=(0,)] b\n  in (c,) }\n");
  RUN(&p, "jaxpr", "--plugin", file, path, "--grad");
  if (p.status) fail_msg("%s", p.err);
  assert_non_null(strstr(p.out, "b:f32[4] = twice a\n"));
  assert_non_null(strstr(p.out, "mul 2.0:f32[] ")); /* its vjp rule */
  RUN(&p, "jaxpr", "--plugin", file, path, "--compiled");
  assert_int_equal(p.status, 0);
  write_text(path,
             "{ lambda ; a:f32[4]. let\n  b:f32[4] = doubled a\n"
             "  c:f32[] = reduce_sum[axes=(0,)] b\n  in (c,) }\n");
  RUN(&p, "jaxpr", "--plugin", file, path, "--grad", "--compiled");
  if (p.status) fail_msg("%s", p.err);
  assert_null(strstr(p.out, "doubled")); /* other ops are in its place */
  RUN(&p, "jaxpr", path);
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "sum.jaxpr: jaxpr, line 2: expected a known op, not doubled"));
  write_text(path, "{ lambda ; a:f32[4]. let b:f32[4] = neg a in (b,) }\n");
  RUN(&p, "jaxpr", path, "--grad");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "gives no scalar"));
}

static void one_file_may_be_named_more_than_once(void **state) {
  assert_int_equal(symlink(file, in_dir("same.so")), 0);
  RUN(&p, "run", "--plugin", file, "--plugin", in_dir("same.so"), GRAPH " ! null");
  if (p.status) fail_msg("%s", p.err);
}

/* The bytes that a command writes for a step. */
static void batch_of(const char *const *words, const char *name, uint8_t *to, size_t n) {
  const char *argv[16] = {"batch", "--step", "2", "--out", in_dir(name)};
  void *bytes;
  size_t size;
  for (int i = 0; words[i]; i++) argv[5 + i] = words[i];
  program_run(&p, argv);
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(mr_read_file(argv[4], 1 << 20, &bytes, &size, NULL), MR_OK);
  assert_true(size > n);
  memcpy(to, (char *)bytes + size - n, n);
  free(bytes);
}

static void graph_text_names_its_plugins_from_where_it_stands(void **state) {
  uint8_t plain[3072], tinted[3072], again[3072];
  write_text(in_dir("graph.mr"), "# comment\nplugin whole.so\n" GRAPH " ! null\n");
  batch_of((const char *const[]){"synthetic n=64 ! batch 16", NULL}, "a.npy", plain, 3072);
  batch_of((const char *const[]){in_dir("graph.mr"), NULL}, "b.npy", tinted, 3072);
  for (int i = 0; i < 3072; i++) assert_int_equal(tinted[i], (uint8_t)(plain[i] + 3));
  char text[300];
  snprintf(text, sizeof text, "plugin '%s' " GRAPH, file);
  batch_of((const char *const[]){text, NULL}, "c.npy", again, 3072);
  assert_memory_equal(again, tinted, 3072);
  RUN(&p, "graph", in_dir("graph.mr"));
  assert_non_null(strstr(p.out, "// plugin whole.so"));
}

static void graph_text_says_where_its_plugin_is_wrong(void **state) {
  static const struct {
    const char *text, *words;
  } wrong[] = {
      {"plugin\nsynthetic ! null", ":1:1: want plugin FILE"},
      {"plugin ! null", ":1:1: want plugin FILE"},
      {"let d = /tmp\nplugin $d/x.so\nsynthetic ! null", ":2:8: \"$d/x.so\": a plug-in is loaded"},
      {"plugin none.so\nsynthetic ! null", "none.so: cannot be opened"},
      {"synthetic ! batch 4 ! null plugin x.so", "\"plugin\" begins on a new line"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    write_text(in_dir("wrong.mr"), "%s\n", wrong[i].text);
    RUN(&p, "run", in_dir("wrong.mr"));
    assert_int_not_equal(p.status, 0);
    if (!strstr(p.err, wrong[i].words)) fail_msg("%s", p.err);
  }
}

static void every_process_of_a_graph_has_the_plugins(void **state) {
  NEEDS("ZMQ");
  write_text(in_dir("two.mr"),
             "process a {\n synthetic n=64 ! tint 3 ! batch 16 name=b\n}\n"
             "process c {\n null name=n\n}\nb. ! n.\n");
  RUN(&p, "run", "--plugin", file, in_dir("two.mr"));
  if (p.status) fail_msg("%s", p.err);
}

/* ---- runs ---- */

static const char recipe[] =
    "synthetic n=64 ! shuffle seed=1 epochs=0 ! tint 3 ! normalize ! batch 16 ! vit-step "
    "name=train "
    "embed=32 mlp=32 heads=2 layers=1 checkpoint-every=2\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static char *settings_of(const char *run) {
  char path[200];
  void *text;
  size_t n;
  snprintf(path, sizeof path, "%s/settings.txt", run);
  assert_int_equal(mr_read_file(path, 1 << 20, &text, &n, NULL), MR_OK);
  return text;
}

static void a_run_remembers_its_plugins(void **state) {
  char words[256];
  const char *run = in_dir("run");
  write_text(in_dir("recipe.mr"), "let run = runs/1\n%s", recipe);
  RUN(&p, "train", "--plugin", file, "--graph", in_dir("recipe.mr"), "--run-dir", run, "--steps",
      "2");
  if (p.status) fail_msg("%s", p.err);
  char *text = settings_of(run);
  snprintf(words, sizeof words, "plugin=whole %s\n", file);
  assert_non_null(strstr(text, words));
  free(text);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "4"); /* without saying it again */
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "who", run, "--step", "1");
  if (p.status) fail_msg("%s", p.err);

  assert_int_equal(rename(file, in_dir("moved.so")), 0);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "6");
  assert_int_equal(p.status, 1);
  snprintf(words, sizeof words, "the run needs a plug-in: %s: cannot be opened", file);
  if (!strstr(p.err, words) || !strstr(p.err, "--plugin FILE names another file"))
    fail_msg("%s", p.err);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "6", "--plugin", in_dir("moved.so"));
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "8"); /* it has followed the move */
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(rename(in_dir("moved.so"), file), 0);
}

static void a_run_remembers_the_plugins_of_its_text_by_where_they_were(void **state) {
  const char *run = in_dir("run2");
  write_text(in_dir("recipe2.mr"), "let run = runs/1\nplugin whole.so\n%s", recipe);
  RUN(&p, "train", "--graph", in_dir("recipe2.mr"), "--run-dir", run, "--steps", "2");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "4");
  if (p.status) fail_msg("%s", p.err);
}

/* With a head of zeros every logit is 0, and each of 10 classes costs log 2. */
static void a_loss_of_a_plugin_is_trained_resumed_and_evaluated(void **state) {
  const char *run = in_dir("run5"), *bce = copy("bce", "bce.so"), *unknown;
  void *lines;
  size_t n;
  double loss = 0;
  write_text(in_dir("bce.mr"),
             "let run = runs/1\nsynthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 ! "
             "train-step model=mlp name=train hidden=8 loss=bce init=head=zeros dtype=f32 "
             "checkpoint-every=2\ntrain.state ! checkpoint dir=$run/checkpoints\n"
             "train.metrics ! jsonl path=$run/metrics.jsonl\n");
  RUN(&p, "inspect", "--plugin", bce);
  assert_non_null(strstr(p.out, "  loss bce: The binary cross-entropy"));
  RUN(&p, "train", "--plugin", bce, "--graph", in_dir("bce.mr"), "--run-dir", run, "--steps", "2");
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(mr_read_file(in_dir("run5/metrics.jsonl"), 1 << 20, &lines, &n, NULL), MR_OK);
  const char *at = strstr(lines, "\"loss\":");
  if (!at || sscanf(at, "\"loss\":%lf", &loss) != 1 || fabs(loss - 10 * log(2)) > 1e-5)
    fail_msg("loss %.9g in %s", loss, (char *)lines);
  free(lines);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "4");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "eval", run, "--data", "synthetic");
  if (p.status) fail_msg("%s", p.err);
  unknown = "synthetic n=64 ! normalize ! batch 16 ! train-step model=mlp loss=bce";
  RUN(&p, "run", unknown);
  assert_int_equal(p.status, 2);
  if (!strstr(p.err, "want one of auto|cross-entropy|focal|mse")) fail_msg("%s", p.err);
}

static void a_model_of_a_plugin_is_trained_resumed_and_evaluated(void **state) {
  const char *run = in_dir("run4"), *mixer = copy("mixer", "mixer.so"), *latest;
  write_text(in_dir("mixer.mr"),
             "let run = runs/1\nsynthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 ! "
             "train-step model=mixer name=train patch=16 width=8 layers=1 tokens-mlp=8 mlp=8 "
             "checkpoint-every=2\ntrain.state ! checkpoint dir=$run/checkpoints\n");
  RUN(&p, "train", "--plugin", mixer, "--graph", in_dir("mixer.mr"), "--run-dir", run, "--steps",
      "2");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "4");
  if (p.status) fail_msg("%s", p.err);
  latest = in_dir("run4/checkpoints/latest");
  RUN(&p, "eval", latest, "--data", "synthetic");
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(rename(mixer, in_dir("elsewhere.so")), 0);
  RUN(&p, "eval", latest, "--data", "synthetic"); /* the checkpoint names its model */
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "mixer"));
  RUN(&p, "eval", latest, "--data", "synthetic", "--plugin", in_dir("elsewhere.so"));
  if (p.status) fail_msg("%s", p.err);
}

static void a_run_folder_brings_no_code_along(void **state) {
  const char *run = in_dir("run3");
  char path[200];
  write_text(in_dir("recipe.mr"), "let run = runs/1\n%s", recipe);
  RUN(&p, "train", "--plugin", file, "--graph", in_dir("recipe.mr"), "--run-dir", run, "--steps",
      "2");
  assert_int_equal(p.status, 0);
  copy("whole", "run3/whole.so");
  snprintf(path, sizeof path, "%s/settings.txt", run);
  write_text(path, "steps=2\nplugin=whole %s/whole.so\n", run);
  write_text(in_dir("run3/history.jsonl"),
             "{\"from\":0,\"graph\":\"null\",\"settings\":\"plugin=whole %s/whole.so\\n\"}\n", run);
  RUN(&p, "who", run, "--step", "1");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "code from there is not loaded"));
  assert_int_equal(unlink(in_dir("run3/history.jsonl")), 0); /* as of earlier versions */
  RUN(&p, "who", run, "--step", "1");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "code from there is not loaded"));
  write_text(path, "steps=2\nplugin=whole whole.so\n");
  RUN(&p, "who", run, "--step", "1");
  assert_int_equal(p.status, 2);
  write_text(path, "steps=2\n"); /* text alone names it: it is not looked for */
  snprintf(path, sizeof path, "%s/graph.mr", run);
  write_text(path, "plugin whole.so\n%s", recipe);
  RUN(&p, "who", run, "--step", "1");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "the run's settings name no plug-in"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_that_others_could_have_made_are_refused),
      cmocka_unit_test(files_of_other_users_are_refused),
      cmocka_unit_test(a_plugin_that_is_no_regular_file_is_refused_without_being_opened),
      cmocka_unit_test(a_file_that_is_no_plugin_is_refused),
      cmocka_unit_test(plugins_for_other_headers_are_refused),
      cmocka_unit_test(names_that_are_there_and_constants_with_gaps_are_refused),
      cmocka_unit_test(two_plugins_with_one_name_are_distinguished_by_their_files),
      cmocka_unit_test(a_stage_of_a_plugin_is_one_like_any_other),
      cmocka_unit_test(an_op_of_a_plugin_is_read_differentiated_and_compiled),
      cmocka_unit_test(one_file_may_be_named_more_than_once),
      cmocka_unit_test(graph_text_names_its_plugins_from_where_it_stands),
      cmocka_unit_test(graph_text_says_where_its_plugin_is_wrong),
      cmocka_unit_test(every_process_of_a_graph_has_the_plugins),
      cmocka_unit_test(a_run_remembers_its_plugins),
      cmocka_unit_test(a_run_remembers_the_plugins_of_its_text_by_where_they_were),
      cmocka_unit_test(a_model_of_a_plugin_is_trained_resumed_and_evaluated),
      cmocka_unit_test(a_loss_of_a_plugin_is_trained_resumed_and_evaluated),
      cmocka_unit_test(a_run_folder_brings_no_code_along),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
