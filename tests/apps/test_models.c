/* Models by name, as a user types them: train, resume, eval, inspect, and what a wrong one says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "base/xio.h"
#include "tests/apps/program.h"

static const char graph[] =
    "let run = unset\n"
    "synthetic n=100 split=train ! shuffle seed=3 epochs=2 ! flip ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder name=batches ! train-step name=train checkpoint-every=5\n"
    "synthetic name=held n=20 split=valid ! sequential epochs=0 ! normalize preset=cifar10\n"
    "  ! batch 16 name=held-batches ! train.valid\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.metrics ! progress every=1\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static program_t p;
static char dir[64], file[96], whole[96], part[96];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-models-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/small.mr", dir);
  snprintf(whole, sizeof whole, "%s/whole", dir);
  snprintf(part, sizeof part, "%s/part", dir);
  return mr_write_file(file, graph, sizeof graph - 1, NULL) < 0 ? -1 : 0;
}

static int teardown(void **state) { return program_forget(dir); }

static void expect_failure(const char *sentence) {
  if (p.status == 0) fail_msg("no failure: %s", p.out);
  if (!strstr(p.err, sentence)) fail_msg("\"%s\" is not in: %s", sentence, p.err);
}

static void expect_says(const char *text) {
  if (p.status) fail_msg("status %d: %s", p.status, p.err);
  if (!strstr(p.out, text)) fail_msg("\"%s\" is not in: %s", text, p.out);
}

static void a_model_that_is_none_is_named_with_the_nearest(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", whole, "model=mpl");
  expect_failure("did you mean \"mlp\"?");
  RUN(&p, "run", "synthetic n=8 ! shuffle ! normalize ! batch 4 ! train-step model=zebra");
  expect_failure("setting model = zebra: not accepted; known: vit, mlp");
  RUN(&p, "run", "synthetic n=8 ! shuffle ! normalize ! batch 4 ! vit-step model=mlp");
  expect_failure("write train-step model=mlp");
}

static void a_setting_of_another_model_is_refused_by_name(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", whole, "model=mlp", "hiden=3");
  expect_failure("did you mean \"hidden\"?");
  RUN(&p, "run", "synthetic n=8 ! shuffle ! normalize ! batch 4 ! train-step model=mlp heads=2");
  expect_failure("unknown setting \"heads\"");
  RUN(&p, "run", "synthetic n=8 ! shuffle ! normalize ! batch 4 ! train-step hidden=2 model=vit");
  expect_failure("unknown setting \"hidden\"");
  RUN(&p, "run",
      "synthetic n=8 ! shuffle ! normalize ! batch 4 ! train-step model=mlp remat=full ! null");
  expect_failure("model mlp has no parts to recompute");
}

static void inspect_lists_the_settings_of_a_model(void **state) {
  RUN(&p, "inspect", "train-step", "model=mlp");
  expect_says("Width of a hidden layer.");
  expect_says("models\n");
  RUN(&p, "inspect", "train-step");
  expect_says("Attention heads");
  RUN(&p, "inspect", "train-step", "model=mlpp");
  expect_failure("did you mean \"mlp\"?");
}

static void the_old_spelling_of_a_form_of_the_vit_gives_the_same_run(void **state) {
  static const char *const step[] = {"vit-step model=timm", "train-step model=timm",
                                     "train-step style=timm", "train-step style=timm model=vit"};
  char ledger[4][17], text[512];
  for (int i = 0; i < 4; i++) {
    snprintf(text, sizeof text,
             "synthetic n=32 ! shuffle seed=1 ! normalize ! batch 8 ! %s layers=1 embed=16 mlp=16 "
             "heads=2 patch=8 ! progress",
             step[i]);
    RUN(&p, "run", text);
    const char *at = strstr(p.out, "ledger ");
    if (p.status || !at) fail_msg("%s: %s%s", step[i], p.out, p.err);
    snprintf(ledger[i], sizeof ledger[i], "%.16s", at + 7);
    assert_string_equal(ledger[i], ledger[0]);
  }
}

static void *checkpoint(const char *run, size_t *n) {
  char path[192];
  void *bytes;
  snprintf(path, sizeof path, "%s/checkpoints/step-000024.safetensors", run);
  if (mr_read_file(path, 1 << 26, &bytes, n, NULL) < 0) fail_msg("%s: cannot be read", path);
  return bytes;
}

static void an_mlp_trains_resumes_exactly_and_is_evaluated(void **state) {
  size_t n[2];
  char path[160];
  RUN(&p, "train", "--graph", file, "--run-dir", whole, "model=mlp", "hidden=32", "dropout=0.2");
  expect_says("Accuracy: ");
  RUN(&p, "train", "--graph", file, "--run-dir", part, "hidden=32", "dropout=0.2", "model=mlp",
      "--steps", "7");
  expect_says("Done: 7 steps");
  RUN(&p, "train", "--resume", "--run-dir", part, "--steps", "24");
  expect_says("Done: 24 steps");
  void *a = checkpoint(whole, &n[0]), *b = checkpoint(part, &n[1]);
  assert_int_equal(n[0], n[1]);
  assert_memory_equal(a, b, n[0]);
  free(a), free(b);
  snprintf(path, sizeof path, "%s/checkpoints/latest", whole);
  RUN(&p, "eval", path);
  expect_says("Accuracy: ");
  RUN(&p, "train", "--resume", "--run-dir", part, "--steps", "30", "hidden=16");
  expect_failure("--allow-change=model");
}

static void functions_of_a_model_are_printed_and_planned(void **state) {
  RUN(&p, "summary", "model=mlp", "hidden=7");
  expect_says("hidden/0");
  RUN(&p, "mem", "step", "model=mlp", "hidden=7", "--batch", "8");
  expect_says("measured peak");
  RUN(&p, "jaxpr", "loss", "model=mlp", "hidden=7", "layers=1", "--batch", "2");
  expect_says("f32[3072,7]");
  RUN(&p, "mem", "step", "model=mlp", "--heads", "3");
  expect_failure("model mlp has no setting heads");
}

static void focal_gamma_beside_another_loss_is_said(void **state) {
  static const char *const model[] = {"mlp hidden=4", "vit layers=1 embed=16 mlp=16 heads=2"};
  static const char *const loss[] = {"mse", "focal"};
  char text[224];
  for (int i = 0; i < 4; i++) {
    snprintf(text, sizeof text,
             "synthetic n=8 ! shuffle epochs=1 ! normalize ! batch 4 ! train-step model=%s loss=%s "
             "focal-gamma=3",
             model[i / 2], loss[i % 2]);
    RUN(&p, "run", text);
    if (p.status) fail_msg("%s: %s", text, p.err);
    bool said = strstr(p.err, "setting focal-gamma changes nothing without loss=focal");
    if (said == i % 2) fail_msg("%s: %s", text, p.err);
  }
}

static void a_model_keeps_its_activation_and_its_norm(void **state) {
  char path[160], graphed[96];
  const char *const small[] = {"layers=1 embed=16 mlp=16 heads=2 patch=8 activation=relu norm=rms",
                               "model=mlp hidden=8 activation=silu gelu=erf"};
  const char *const text[] = {"activation=relu", "activation=silu"};
  const char *const other[] = {"activation=gelu", "activation=tanh"};
  for (int i = 0; i < 2; i++) {
    char whole_graph[1024];
    snprintf(graphed, sizeof graphed, "%s/kept-%d.mr", dir, i);
    const char *at = strstr(graph, "train-step ");
    snprintf(whole_graph, sizeof whole_graph, "%.*strain-step %s %s", (int)(at - graph), graph,
             small[i], at + strlen("train-step "));
    assert_int_equal(mr_write_file(graphed, whole_graph, strlen(whole_graph), NULL), MR_OK);
    snprintf(path, sizeof path, "%s/kept-%d", dir, i);
    RUN(&p, "train", "--graph", graphed, "--run-dir", path, "--steps", "5");
    expect_says("Done: 5 steps");
    char checkpoint[192];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", path);
    void *bytes;
    size_t n;
    if (mr_read_file(checkpoint, 1 << 26, &bytes, &n, NULL) < 0) fail_msg("%s", checkpoint);
    static const char key[] = "\"millrace.model\":\"";
    const char *said = memmem(bytes, n, key, strlen(key));
    assert_non_null(said);
    said = strndup(said + strlen(key), strcspn(said + strlen(key), "\""));
    if (!strstr(said, text[i]) || strstr(said, "gelu")) fail_msg("%s", said);
    free((char *)said);
    free(bytes);
    RUN(&p, "eval", checkpoint);
    expect_says("Accuracy: ");
    RUN(&p, "train", "--resume", "--run-dir", path, "--steps", "9");
    expect_says("Done: 9 steps");
    RUN(&p, "train", "--resume", "--run-dir", path, "--steps", "12", other[i]);
    expect_failure("--allow-change=model");
    RUN(&p, "export", path, "--format", "timm", "--out", file);
    expect_failure(i ? "want a checkpoint of model=vit" : "its normalizations are RMS");
  }
  RUN(&p, "run",
      "synthetic n=8 ! shuffle epochs=1 ! normalize ! batch 4 ! train-step model=mlp hidden=4 "
      "activation=relu gelu=erf");
  if (p.status) fail_msg("%s", p.err);
  if (!strstr(p.err, "setting gelu changes nothing without activation=gelu")) fail_msg("%s", p.err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_that_is_none_is_named_with_the_nearest),
      cmocka_unit_test(a_setting_of_another_model_is_refused_by_name),
      cmocka_unit_test(inspect_lists_the_settings_of_a_model),
      cmocka_unit_test(the_old_spelling_of_a_form_of_the_vit_gives_the_same_run),
      cmocka_unit_test(an_mlp_trains_resumes_exactly_and_is_evaluated),
      cmocka_unit_test(functions_of_a_model_are_printed_and_planned),
      cmocka_unit_test(focal_gamma_beside_another_loss_is_said),
      cmocka_unit_test(a_model_keeps_its_activation_and_its_norm),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
