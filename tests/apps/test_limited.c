/* Short runs by flags of train, the run that a job script starts or resumes by one line, and what
   an evaluation says of each class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "tests/apps/small_run.h"

#define GRAPH                                                                                  \
  "let run = unset\n"                                                                          \
  "synthetic name=data n=96 ! shuffle name=mixed seed=1 epochs=4 ! normalize preset=cifar10\n" \
  "  ! batch 8 drop-remainder name=batches\n"                                                  \
  "  ! train-step name=train layers=1 embed=16 mlp=16 heads=2 threads=1\n"                     \
  "synthetic name=held n=64 split=valid ! sequential epochs=0 ! normalize preset=cifar10\n"    \
  "  ! batch 16 name=held-batches ! train.valid\n"                                             \
  "train.metrics ! progress\n"                                                                 \
  "train.metrics ! jsonl path=$run/metrics.jsonl\n"                                            \
  "train.state ! checkpoint dir=$run/checkpoints\n"

static int make_folder(void **state) {
  return small_run("limited", GRAPH) || program_forget(whole);
}

static void went_well(void) {
  if (p.status) fail_msg("status %d: %s%s", p.status, p.out, p.err);
}

/* The ids of the records of a step, in order. */
static void records_of(int step, char ids[512]) {
  char number[16];
  ids[0] = 0;
  snprintf(number, sizeof number, "%d", step);
  RUN(&p, "who", other, "--step", number);
  went_well();
  char *rest = NULL;
  for (char *line = strtok_r(p.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    int slot, id;
    if (sscanf(line, "%d %d", &slot, &id) == 2)
      snprintf(ids + strlen(ids), 512 - strlen(ids), "%d ", id);
  }
}

static void an_epoch_ends_after_the_records_of_limit_train(void **state) {
  char first[512], again[512];
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--limit-train", "24");
  went_well();
  assert_non_null(strstr(p.out, "Done: 12 steps"));
  records_of(1, first), records_of(4, again);
  assert_string_not_equal(first, again); /* each epoch has an order of its own */
  assert_int_equal(program_forget(other), 0);
}

static void overfit_batches_come_again_in_each_epoch(void **state) {
  char one[512], two[512], again[512];
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--overfit-batches", "2");
  went_well();
  assert_non_null(strstr(p.out, "Done: 8 steps"));
  records_of(1, one), records_of(2, two), records_of(7, again);
  assert_string_not_equal(one, two);
  assert_string_equal(one, again);
  records_of(8, again);
  assert_string_equal(two, again);
  assert_int_equal(program_forget(other), 0);
}

static void an_order_with_first_is_the_beginning_of_the_whole_one(void **state) {
  char whole_order[512], short_order[512];
  RUN(&p, "train", "--graph", file, "--run-dir", other);
  went_well();
  records_of(14, whole_order); /* the second batch of the second epoch */
  assert_int_equal(program_forget(other), 0);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--limit-train", "24");
  records_of(5, short_order);
  assert_string_equal(whole_order, short_order);
  assert_int_equal(program_forget(other), 0);
}

static void limit_valid_evaluates_the_first_records(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--limit-valid", "20", "--steps", "24");
  went_well();
  char path[160], line[8192];
  int validations = 0;
  snprintf(path, sizeof path, "%s/metrics.jsonl", other);
  FILE *f = fopen(path, "r");
  while (fgets(line, sizeof line, f)) {
    if (strncmp(line, "{\"kind\":\"valid\"", 15)) continue;
    validations++;
    assert_non_null(strstr(line, "\"records\":20,"));
    assert_non_null(strstr(line, "\"per_class\":{\"precision\":["));
  }
  fclose(f);
  assert_int_equal(validations, 2);
  assert_int_equal(program_forget(other), 0);
}

/* Entries of /tmp that fast-dev-run makes; tests beside this one may have some. */
static void fast_dev_run_leaves_nothing(void **state) {
  char made[64];
  RUN(&p, "train", "--graph", file, "--fast-dev-run");
  went_well();
  assert_non_null(strstr(p.out, "Done: 2 steps"));
  const char *at = strstr(p.out, "run folder: ");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "run folder: %63s", made), 1);
  assert_non_null(strstr(made, "millrace-dev-"));
  assert_int_not_equal(access(made, F_OK), 0);
  RUN(&p, "train", "--graph", file, "--fast-dev-run", "--run-dir", other);
  assert_non_null(strstr(p.err, "want no --run-dir"));
}

static void resume_auto_starts_or_resumes_by_the_same_line(void **state) {
  char ledger[32];
  RUN(&p, "train", "--graph", file, "--run-dir", whole, "--steps", "20");
  went_well();
  snprintf(ledger, sizeof ledger, "%.24s", strstr(p.out, "ledger "));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--resume=auto", "--steps", "9");
  went_well();
  assert_non_null(strstr(p.out, "Done: 9 steps"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--resume=auto", "--steps", "20");
  went_well();
  assert_non_null(strstr(p.out, "resumed at step 9"));
  assert_non_null(strstr(p.out, ledger));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--resume=auto", "--steps", "20");
  assert_non_null(strstr(p.out, "nothing to do"));
  RUN(&p, "train", "--graph", file, "--resume=auto");
  assert_non_null(strstr(p.err, "want --run-dir DIR"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--resume=always");
  assert_non_null(strstr(p.err, "expected auto or nothing"));
}

static void wrong_limits_are_refused(void **state) {
  RUN(&p, "train", "--graph", file, "--limit-train", "0");
  assert_non_null(strstr(p.err, "--limit-train"));
  RUN(&p, "train", "--graph", file, "--limit-train", "8", "--overfit-batches", "1");
  assert_non_null(strstr(p.err, "want one of them"));
  RUN(&p, "train", "--resume", "--run-dir", other, "--limit-valid", "8");
  assert_non_null(strstr(p.err, "a resumed run keeps the records that it has"));
  RUN(&p, "train", "--graph", file, "mixed.first=5", "mixed.shard=0/2");
  assert_non_null(strstr(p.err, "setting first = 5: want it without shard="));
}

static void classes_have_precision_recall_and_f1(void **state) {
  RUN(&p, "eval", whole, "--split", "valid");
  went_well();
  const char *at = strstr(p.out, "class         records precision  recall      f1\n");
  assert_non_null(at);
  double precision = 0, recall = 0, f1 = 0, mean[3];
  int records = 0, all;
  for (int i = 0; i < 10; i++) {
    double one[3];
    int n;
    at = strchr(at, '\n') + 1;
    assert_int_equal(sscanf(at, "%*s %d %lf %lf %lf", &n, &one[0], &one[1], &one[2]), 4);
    double both = one[0] + one[1], want = both > 0 ? 2 * one[0] * one[1] / both : 0;
    assert_true(one[2] > want - 1e-3 && one[2] < want + 1e-3);
    records += n, precision += one[0], recall += one[1], f1 += one[2];
  }
  at = strchr(at, '\n') + 1;
  assert_int_equal(sscanf(at, "mean %d %lf %lf %lf", &all, &mean[0], &mean[1], &mean[2]), 4);
  assert_int_equal(all, records);
  assert_true(mean[0] > precision / 10 - 1e-3 && mean[0] < precision / 10 + 1e-3);
  assert_true(mean[1] > recall / 10 - 1e-3 && mean[1] < recall / 10 + 1e-3);
  assert_true(mean[2] > f1 / 10 - 1e-3 && mean[2] < f1 / 10 + 1e-3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_epoch_ends_after_the_records_of_limit_train),
      cmocka_unit_test(overfit_batches_come_again_in_each_epoch),
      cmocka_unit_test(an_order_with_first_is_the_beginning_of_the_whole_one),
      cmocka_unit_test(limit_valid_evaluates_the_first_records),
      cmocka_unit_test(fast_dev_run_leaves_nothing),
      cmocka_unit_test(resume_auto_starts_or_resumes_by_the_same_line),
      cmocka_unit_test(wrong_limits_are_refused),
      cmocka_unit_test(classes_have_precision_recall_and_f1),
  };
  return cmocka_run_group_tests(tests, make_folder, small_run_forget);
}
