/* millrace eval: a checkpoint gives again what its run said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/program.h"

static char dir[64], run[128], checkpoint[160];
static program_t p;

/* The number behind `"name":` in the first line of the run's metrics of this kind. */
static double reported(const char *file, const char *kind, const char *name) {
  char line[8192], want[64], key[64];
  FILE *f = fopen(file, "r");
  assert_non_null(f);
  snprintf(want, sizeof want, "\"kind\":\"%s\"", kind);
  snprintf(key, sizeof key, "\"%s\":", name);
  while (fgets(line, sizeof line, f)) {
    const char *at = strstr(line, want) ? strstr(line, key) : NULL;
    if (!at) continue;
    fclose(f);
    return strtod(at + strlen(key), NULL);
  }
  fail_msg("%s has no %s of kind %s", file, name, kind);
  return 0;
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-eval-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(run, sizeof run, "%s/run", dir);
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", run);
  RUN(&p, "train", "--data", "synthetic", "--run-dir", run, "--steps", "3", "layers=1", "embed=32",
      "mlp=32", "heads=2", "batch=16");
  if (p.status) fprintf(stderr, "%s%s", p.err, p.out);
  return p.status;
}

static int teardown(void **state) { return program_forget(dir); }

static void the_test_records_give_what_the_run_gave(void **state) {
  char metrics[160], json[160];
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
  snprintf(json, sizeof json, "%s/eval.jsonl", run);
  RUN(&p, "eval", checkpoint, "--data", "synthetic", "--jsonl", json);
  if (p.status) fail_msg("%s%s", p.err, p.out);
  assert_non_null(strstr(p.out, "\nTest, Loss: "));
  assert_true(reported(json, "test", "loss") == reported(metrics, "test", "loss"));
  assert_true(reported(json, "test", "accuracy") == reported(metrics, "test", "accuracy"));
  assert_true(reported(json, "test", "step") == 3);
}

static void other_records_are_called_by_their_name(void **state) {
  RUN(&p, "eval", checkpoint, "--data", "synthetic", "--split", "valid", "--threads", "1");
  if (p.status) fail_msg("%s%s", p.err, p.out);
  assert_non_null(strstr(p.out, "\nHeld-back records, Loss: "));
  assert_null(strstr(p.out, "Test,"));
}

static void a_wrong_checkpoint_or_split_is_refused(void **state) {
  RUN(&p, "eval", dir, "--data", "synthetic");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "holds no run"));
  RUN(&p, "eval", checkpoint, "--data", "synthetic", "--split", "half");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "half"));
}

/* Before memory is taken for the model: 100 TB would not be there. */
static void a_file_that_claims_a_huge_model_is_refused_by_what_it_lacks(void **state) {
  static const mr_st_meta_t meta[] = {
      {"millrace.model",
       "vit flax image=32 patch=4 channels=3 embed=65536 mlp=262144 heads=8 "
       "layers=256 classes=10"}};
  char file[128];
  snprintf(file, sizeof file, "%s/huge.safetensors", dir);
  assert_int_equal(mr_safetensors_write(file, NULL, 0, meta, 1, NULL), MR_OK);
  RUN(&p, "eval", file, "--data", "synthetic");
  assert_int_equal(p.status, 1);
  if (!strstr(p.err, "is missing") || strstr(p.err, "memory")) fail_msg("%s", p.err);
}

static void names_in_a_file_cannot_steer_the_terminal(void **state) {
  static const mr_st_tensor_t t = {
      .name = "\x1B[2J\xC2\x9B", .dtype = MR_U8, .ndim = 1, .dim = {0}, .data = ""};
  char file[128];
  snprintf(file, sizeof file, "%s/names.safetensors", dir);
  assert_int_equal(mr_safetensors_write(file, &t, 1, NULL, 0, NULL), MR_OK);
  RUN(&p, "inspect", file);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "\\x1b[2J\\xc2\\x9b"));
  assert_null(strchr(p.out, 0x1B));
}

static void inspect_follows_latest_and_says_where_a_run_has_its_checkpoint(void **state) {
  char file[160], command[256], says[512];
  snprintf(command, sizeof command, "mkdir -p %s/seen/checkpoints", dir);
  assert_int_equal(system(command), 0);
  snprintf(file, sizeof file, "%s/seen/checkpoints/step-000001.safetensors", dir);
  assert_int_equal(mr_safetensors_write(file, NULL, 0, NULL, 0, NULL), MR_OK);
  snprintf(file, sizeof file, "%s/seen/checkpoints/latest", dir);
  assert_int_equal(symlink("step-000001.safetensors", file), 0);
  RUN(&p, "inspect", file);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "latest: safetensors, 0 tensors"));
  snprintf(command, sizeof command, "%s/seen", dir);
  snprintf(says, sizeof says, "%s is a run; its newest checkpoint is %s\n", command, file);
  RUN(&p, "inspect", command);
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, says));
}

/* ---- the data of the run ---- */

/* A CIFAR-10 of 20 records a file. */
static void write_cifar(const char *folder) {
  static unsigned char record[3073];
  static const char *const file[] = {"data_batch_1", "data_batch_2", "data_batch_3",
                                     "data_batch_4", "data_batch_5", "test_batch"};
  assert_int_equal(mr_make_folder(folder, NULL), MR_OK);
  for (int k = 0; k < 6; k++) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s.bin", folder, file[k]);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 20; i++) {
      for (int at = 1; at < 3073; at++) record[at] = (unsigned char)((at * (k + 3) + i * 37) >> 2);
      record[0] = (unsigned char)((i + k) % 10);
      fwrite(record, 1, sizeof record, f);
    }
    fclose(f);
  }
}

static void train_on(const char *folder, const char *to) {
  RUN(&p, "train", "--data", folder, "--run-dir", to, "layers=1", "embed=32", "mlp=32", "heads=2",
      "batch=16", "seed=5", "data.records=20", "valid-data.records=20", "test-data.records=20",
      "data.holdout=20", "valid-data.holdout=20", "test-data.holdout=20", "leak-check=off");
  if (p.status) fail_msg("%s%s", p.err, p.out);
}

static void a_checkpoint_is_judged_on_the_data_of_its_run(void **state) {
  char folder[128], moved[128], of[128], latest[192], alone[160], json[160], metrics[192],
      before[512];
  snprintf(folder, sizeof folder, "%s/cifar", dir);
  snprintf(moved, sizeof moved, "%s/cifar-moved", dir);
  snprintf(of, sizeof of, "%s/real", dir);
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", of);
  snprintf(alone, sizeof alone, "%s/alone.safetensors", dir);
  snprintf(json, sizeof json, "%s/eval.jsonl", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", of);
  write_cifar(folder);
  train_on(folder, of);
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(dir), 0); /* a folder without data/ */
  static const char *const split[] = {"test", "valid"};
  for (int i = 0; i < 2; i++) { /* valid: those that this run's seed has held back */
    RUN(&p, "eval", latest, "--split", split[i], "--jsonl", json);
    if (p.status) fail_msg("%s", p.err);
    assert_null(strstr(p.out, "SYNTHETIC"));
    assert_true(reported(json, "test", "loss") == reported(metrics, split[i], "loss"));
  }
  size_t n;
  void *bytes;
  assert_int_equal(mr_read_file(latest, 1 << 28, &bytes, &n, NULL), MR_OK);
  assert_int_equal(mr_write_file(alone, bytes, n, NULL), MR_OK);
  free(bytes);
  RUN(&p, "eval", alone); /* of no run */
  assert_int_equal(p.status, 1);
  assert_non_null(
      strstr(p.err, "was trained on CIFAR-10, which is not in data/cifar-10-batches-bin"));
  assert_int_equal(rename(folder, moved), 0);
  RUN(&p, "eval", latest);
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, folder));
  assert_non_null(strstr(p.err, "name its folder with --data"));
  RUN(&p, "eval", latest, "--data", moved);
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(chdir(before), 0);
}

static void synthetic_pictures_are_only_for_runs_that_trained_on_them(void **state) {
  RUN(&p, "eval", checkpoint);
  if (p.status) fail_msg("%s%s", p.err, p.out);
  assert_non_null(strstr(p.out, "(synthetic data)"));
}

static void the_last_records_say_the_epoch_of_their_step(void **state) {
  char metrics[160];
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
  static const char *const kind[] = {"step", "test", "final"};
  for (int i = 0; i < 3; i++) assert_true(reported(metrics, kind[i], "epoch") == 1);
}

/* ---- the graph of the run ---- */

/* Trains a graph whose preparation of records no default knows; valid: its held-back records are
   an endless stream. */
static void train_own_graph(const char *to, const char *lines) {
  char file[160], text[2048];
  snprintf(file, sizeof file, "%s/own.mr", dir);
  snprintf(text, sizeof text,
           "let run = r\n"
           "synthetic n=320 name=shapes split=train ! shuffle seed=1 epochs=1 ! flip p=0.5"
           " ! normalize mean=0.5 std=0.01 ! batch 32 drop-remainder"
           " ! train-step name=train model=mlp hidden=16 layers=1\n%s"
           "train.metrics ! jsonl path=$run/metrics.jsonl\n"
           "train.state ! checkpoint dir=$run/checkpoints\n",
           lines);
  assert_int_equal(mr_write_file(file, text, strlen(text), NULL), MR_OK);
  RUN(&p, "train", "--graph", file, "--run-dir", to);
  if (p.status) fail_msg("%s", p.err);
}

static void records_are_prepared_as_the_run_prepared_them(void **state) {
  char of[128], json[160], metrics[192];
  snprintf(of, sizeof of, "%s/other", dir);
  snprintf(json, sizeof json, "%s/other.jsonl", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", of);
  train_own_graph(of,
                  "synthetic n=320 name=vd split=valid ! sequential epochs=0"
                  " ! normalize mean=0.5 std=0.01 ! batch 50 ! train.valid\n"
                  "synthetic n=320 name=td split=test ! sequential epochs=1"
                  " ! normalize mean=0.5 std=0.01 ! batch 50 ! train.test\n");
  static const char *const split[] = {"test", "valid"};
  for (int i = 0; i < 2; i++) { /* the run, not one of its checkpoints */
    RUN(&p, "eval", of, "--split", split[i], "--jsonl", json);
    if (p.status) fail_msg("%s", p.err);
    assert_true(reported(json, "test", "loss") == reported(metrics, split[i], "loss"));
    assert_true(reported(json, "test", "records") == reported(metrics, split[i], "records"));
  }
  double loss = reported(json, "test", "loss");
  RUN(&p, "eval", of, "--split", "valid", "--jsonl", json, "vd.split=test");
  if (p.status) fail_msg("%s", p.err);
  assert_true(reported(json, "test", "loss") == reported(metrics, "test", "loss"));
  assert_true(reported(json, "test", "loss") != loss);
  RUN(&p, "eval", of, "--split", "train", "--jsonl", json);
  if (p.status) fail_msg("%s", p.err);
  assert_true(reported(json, "test", "records") == 320); /* whole, as the evaluated ones are */
  assert_non_null(strstr(p.out, "Training records, Loss: "));
}

static void a_run_without_test_records_is_judged_on_those_held_back(void **state) {
  char of[128], json[160], metrics[192];
  snprintf(of, sizeof of, "%s/held", dir);
  snprintf(json, sizeof json, "%s/held.jsonl", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", of);
  train_own_graph(of,
                  "synthetic n=320 name=vd split=valid ! sequential epochs=0"
                  " ! normalize mean=0.5 std=0.01 ! batch 50 ! train.valid\n");
  RUN(&p, "eval", of, "--jsonl", json);
  if (p.status) fail_msg("%s", p.err);
  assert_non_null(strstr(p.out, "Held-back records, Loss: "));
  assert_true(reported(json, "test", "loss") == reported(metrics, "valid", "loss"));
  RUN(&p, "eval", of, "--split", "test");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err,
                         "--split test: the run's graph leads no such records into train; "
                         "--split takes another, of train, valid"));
}

/* The checkpoint's own words about its pictures, not a default's. */
static void a_checkpoint_without_its_run_says_how_pictures_are_normalised(void **state) {
  char of[128], json[160], metrics[192], latest[192], alone[160];
  snprintf(of, sizeof of, "%s/gone", dir);
  snprintf(json, sizeof json, "%s/gone.jsonl", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", of);
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", of);
  snprintf(alone, sizeof alone, "%s/gone.safetensors", dir);
  train_own_graph(of,
                  "synthetic name=td split=test ! sequential epochs=1"
                  " ! normalize mean=0.5 std=0.01 ! batch 256 ! train.test\n");
  size_t n;
  void *bytes;
  assert_int_equal(mr_read_file(latest, 1 << 28, &bytes, &n, NULL), MR_OK);
  assert_int_equal(mr_write_file(alone, bytes, n, NULL), MR_OK);
  free(bytes);
  RUN(&p, "eval", alone, "--jsonl", json);
  if (p.status) fail_msg("%s", p.err);
  assert_true(reported(json, "test", "loss") == reported(metrics, "test", "loss"));
  RUN(&p, "eval", alone, "batch=3");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "of no run that is here"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_test_records_give_what_the_run_gave),
      cmocka_unit_test(a_checkpoint_is_judged_on_the_data_of_its_run),
      cmocka_unit_test(synthetic_pictures_are_only_for_runs_that_trained_on_them),
      cmocka_unit_test(the_last_records_say_the_epoch_of_their_step),
      cmocka_unit_test(records_are_prepared_as_the_run_prepared_them),
      cmocka_unit_test(a_run_without_test_records_is_judged_on_those_held_back),
      cmocka_unit_test(a_checkpoint_without_its_run_says_how_pictures_are_normalised),
      cmocka_unit_test(other_records_are_called_by_their_name),
      cmocka_unit_test(a_wrong_checkpoint_or_split_is_refused),
      cmocka_unit_test(a_file_that_claims_a_huge_model_is_refused_by_what_it_lacks),
      cmocka_unit_test(names_in_a_file_cannot_steer_the_terminal),
      cmocka_unit_test(inspect_follows_latest_and_says_where_a_run_has_its_checkpoint),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
