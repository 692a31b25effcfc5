/* Pictures that batches hold as bytes or bf16: the step normalises them to the bits that
   `normalize` gives, so that the ledger is that of f32. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdbool.h>

#include "base/npy.h"
#include "tests/apps/program.h"

static program_t p;
static char dir[64];

static void ledger_of(char text[17]) {
  const char *at = strstr(p.out, "ledger ");
  if (p.status != 0 || !at) fail_msg("status %d, no ledger in: %s%s", p.status, p.out, p.err);
  snprintf(text, 17, "%.16s", at + 7);
}

static void same_ledger_as(const char *want, const char *of) {
  char now[17];
  ledger_of(now);
  if (strcmp(now, want)) fail_msg("%s: ledger %s, want %s", of, now, want);
}

/* The line about a validation, "Validation after epoch ..."; "" without one. */
static const char *validation(char line[160]) {
  const char *at = strstr(p.out, "Validation after");
  snprintf(line, 160, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
  return line;
}

/* Runs a graph whose two streams are normalised to these dtypes; run_held: to one. */
static void run_streams(const char *normalize, const char *dtype, const char *valid,
                        const char *model) {
  char text[1024];
  snprintf(text, sizeof text,
           "synthetic n=48 split=train ! shuffle seed=5 ! flip ! normalize %s dtype=%s ! batch 8 ! "
           "train-step name=train seed=5 threads=1 watch-every=3 %s ! progress\n"
           "synthetic name=held n=20 split=valid ! sequential epochs=0 ! normalize %s dtype=%s ! "
           "batch 8 ! train.valid",
           normalize, dtype, model, normalize, valid);
  RUN(&p, "run", text);
}

static void run_held(const char *normalize, const char *dtype, const char *model) {
  run_streams(normalize, dtype, dtype, model);
}

static void bytes_and_floats_have_one_ledger(void **state) {
  static const char *const how[][2] = {
      {"preset=cifar10", "model=mlp hidden=32 layers=1"},
      {"preset=cifar10 layout=chw", "model=mlp hidden=32 layers=1 dtype=f32 accumulate=2"},
      {"mean=0.3 std=0.7,0.1,2.5", "model=mlp hidden=16 layers=2 master=none param-dtype=bf16"},
      {"", "model=vit embed=32 mlp=64 heads=2 layers=1 patch=8"},
  };
  for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
    char f32[17], u8[17], line[2][160];
    run_held(how[i][0], "f32", how[i][1]);
    ledger_of(f32);
    validation(line[0]);
    run_held(how[i][0], "u8", how[i][1]);
    ledger_of(u8);
    if (strcmp(f32, u8)) fail_msg("%s: ledger %s, of f32 %s", how[i][1], u8, f32);
    assert_true(*validation(line[1]) != 0);
    assert_string_equal(line[0], line[1]);
    for (int k = 0; k < 2; k++) { /* each stream as it likes */
      run_streams(how[i][0], k ? "f32" : "u8", k ? "u8" : "f32", how[i][1]);
      same_ledger_as(f32, how[i][1]);
      assert_string_equal(line[0], validation(line[1]));
    }
  }
}

static void bf16_is_rounded_and_trains(void **state) {
  char f32[17], bf16[17];
  run_held("preset=cifar10", "f32", "model=mlp hidden=32 layers=1 dtype=f32");
  ledger_of(f32);
  run_held("preset=cifar10", "bf16", "model=mlp hidden=32 layers=1 dtype=f32");
  ledger_of(bf16);
  assert_string_not_equal(f32, bf16);
}

/* What the step makes of a bf16 batch is what it makes of f32 itself, where it computes in bf16. */
static void bf16_is_what_products_in_bf16_read(void **state) {
  char f32[17], bf16[17];
  run_held("preset=cifar10", "f32", "model=mlp hidden=32 layers=1 dtype=bf16");
  ledger_of(f32);
  run_held("preset=cifar10", "bf16", "model=mlp hidden=32 layers=1 dtype=bf16");
  ledger_of(bf16);
  assert_string_equal(f32, bf16);
}

static void refused(const char *graph, const char *sentence) {
  RUN(&p, "run", graph);
  if (p.status == 0 || !strstr(p.err, sentence))
    fail_msg("status %d, want \"%s\": %s", p.status, sentence, p.err);
}

static void pictures_that_are_not_normalised_are_refused(void **state) {
  refused("synthetic n=16 ! batch 8 ! train-step model=mlp ! progress", "want image of f32");
  refused(
      "synthetic n=16 ! normalize dtype=u8 ! batch 8 ! train-step model=mlp name=t ! progress "
      "synthetic n=16 split=valid name=v ! normalize preset=cifar10 dtype=u8 ! batch 8 ! t.valid",
      "t: input valid: want the fields, classes and normalisation of input in");
  refused(
      "synthetic n=16 ! normalize ! batch 8 ! train-step model=mlp name=t ! progress "
      "synthetic n=16 split=valid name=v ! normalize dtype=u8 ! batch 8 ! t.valid "
      "synthetic n=16 split=test name=w ! normalize ! batch 8 ! t.test",
      "and one batch size, dtype and normalisation for valid and test");
  refused(
      "synthetic n=16 ! normalize ! batch 8 ! train-step model=mlp name=t ! progress "
      "synthetic n=16 split=valid name=v ! normalize dtype=u8 ! batch 8 ! t.valid "
      "synthetic n=16 split=test name=w ! normalize mean=0.3 std=0.7 dtype=u8 ! batch 8 ! t.test",
      "input test: want the fields, classes and normalisation of input in, and one batch size, "
      "dtype and normalisation for valid and test");
}

/* Pictures of four channels train in floats; as bytes they are refused with what to do. */
static void bytes_of_four_channels_are_refused(void **state) {
  static const uint8_t pixel[8 * 2 * 2 * 4];
  static const int32_t label[8];
  const int64_t images[] = {8, 2, 2, 4}, labels[] = {8};
  char file[2][96], graph[512];
  snprintf(file[0], sizeof file[0], "%s/images.npy", dir);
  snprintf(file[1], sizeof file[1], "%s/labels.npy", dir);
  assert_int_equal(mr_npy_save(file[0], MR_U8, 4, images, pixel, NULL), MR_OK);
  assert_int_equal(mr_npy_save(file[1], MR_I32, 1, labels, label, NULL), MR_OK);
  static const char *const dtype[] = {"bf16", "u8"};
  for (int i = 0; i < 2; i++) {
    snprintf(graph, sizeof graph,
             "npy images=%s labels=%s ! normalize dtype=%s ! batch 4 ! train-step model=mlp "
             "hidden=8 layers=1 threads=1 ! progress",
             file[0], file[1], dtype[i]);
    if (i)
      refused(graph,
              "image are bytes of more than 3 channels, which a step does not normalise; want "
              "`normalize dtype=f32` or dtype=bf16 before batch");
    else
      RUN(&p, "run", graph);
    if (!i && p.status) fail_msg("%s", p.err);
  }
}

/* The model is the same, so that a checkpoint fits streams of either kind. */
static void a_checkpoint_of_bytes_is_evaluated_on_floats(void **state) {
  static const char *const dtype[] = {"f32", "u8"};
  char run[96], checkpoint[160], graph[512], file[96], result[2][80];
  snprintf(run, sizeof run, "%s/run", dir);
  snprintf(file, sizeof file, "%s/bytes.mr", dir);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs(
      "let run = unset\n"
      "synthetic n=48 split=train ! shuffle seed=5 ! normalize preset=cifar10 dtype=u8 ! batch 8 "
      "! train-step model=mlp hidden=32 layers=1 name=train seed=5 threads=1\n"
      "train. ! progress\ntrain.state ! checkpoint dir=$run/checkpoints\n",
      f);
  fclose(f);
  RUN(&p, "train", "--graph", file, "--run-dir", run);
  if (p.status) fail_msg("%s", p.err);
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", run);
  for (int i = 0; i < 2; i++) {
    snprintf(graph, sizeof graph,
             "synthetic n=40 split=valid ! normalize preset=cifar10 dtype=%s ! batch 16 ! "
             "eval-step checkpoint=%s threads=1 ! progress",
             dtype[i], checkpoint);
    RUN(&p, "run", graph);
    const char *at = strstr(p.out, "Loss");
    if (p.status || !at) fail_msg("%s%s", p.out, p.err);
    snprintf(result[i], sizeof result[i], "%.*s", (int)strcspn(at, "\n"), at);
  }
  assert_string_equal(result[0], result[1]);
}

static void a_replay_file_holds_the_values(void **state) {
  char replay_dir[96], file[160];
  snprintf(replay_dir, sizeof replay_dir, "replay-dir=%s", dir);
  RUN(&p, "run",
      "synthetic n=48 ! shuffle seed=5 ! normalize mean=0.5 std=1e-36 dtype=u8 ! batch 8 ! "
      "train-step model=mlp hidden=32 layers=1 seed=5 threads=1 on-nan=trace ! progress",
      replay_dir);
  if (p.status != 1 || !strstr(p.err, "millrace replay")) fail_msg("%d %s", p.status, p.err);
  snprintf(file, sizeof file, "ls %s/nan-*.safetensors", dir);
  FILE *f = popen(file, "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%159s", file), 1);
  pclose(f);
  RUN(&p, "replay", file);
  if (!strstr(p.out, "the same")) fail_msg("%d %s%s", p.status, p.out, p.err);
}

static int group_setup(void **state) {
  snprintf(dir, sizeof dir, "/tmp/mr-held-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int group_teardown(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_and_floats_have_one_ledger),
      cmocka_unit_test(bf16_is_rounded_and_trains),
      cmocka_unit_test(bf16_is_what_products_in_bf16_read),
      cmocka_unit_test(pictures_that_are_not_normalised_are_refused),
      cmocka_unit_test(bytes_of_four_channels_are_refused),
      cmocka_unit_test(a_checkpoint_of_bytes_is_evaluated_on_floats),
      cmocka_unit_test(a_replay_file_holds_the_values),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
