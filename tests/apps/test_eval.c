/* millrace eval: a checkpoint gives again what its run said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/safetensors.h"
#include "tests/apps/program.h"

static char dir[64], run[128], checkpoint[160];
static program_t p;

/* The number behind `"name":` in the first line of the run's metrics of this kind. */
static double told(const char *file, const char *kind, const char *name) {
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
  assert_true(told(json, "test", "loss") == told(metrics, "test", "loss"));
  assert_true(told(json, "test", "accuracy") == told(metrics, "test", "accuracy"));
  assert_true(told(json, "test", "step") == 3);
}

static void other_records_are_called_by_their_name(void **state) {
  RUN(&p, "eval", checkpoint, "--data", "synthetic", "--split", "valid", "--threads", "1");
  if (p.status) fail_msg("%s%s", p.err, p.out);
  assert_non_null(strstr(p.out, "\nHeld-back records, Loss: "));
  assert_null(strstr(p.out, "Test,"));
}

static void what_is_no_checkpoint_or_no_split_is_refused(void **state) {
  RUN(&p, "eval", run, "--data", "synthetic");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, run));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_test_records_give_what_the_run_gave),
      cmocka_unit_test(other_records_are_called_by_their_name),
      cmocka_unit_test(what_is_no_checkpoint_or_no_split_is_refused),
      cmocka_unit_test(a_file_that_claims_a_huge_model_is_refused_by_what_it_lacks),
      cmocka_unit_test(names_in_a_file_cannot_steer_the_terminal),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
