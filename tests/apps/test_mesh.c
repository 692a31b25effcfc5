/* train --mesh: ranks of one process give the checkpoint, ledger and report of a run on one, also
   where a run stops on some ranks and resumes on others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/apps/small_run.h"

enum { STEPS = 6 };

/* Batches of 18 records: parts of 3 and of 2. */
static const char graph[] =
    "let run = unset\n"
    "synthetic n=40 split=train ! shuffle seed=1 epochs=3 ! flip p=0.5 ! normalize preset=cifar10\n"
    "  ! batch 18 drop-remainder ! shard-to-device mesh=batch=1,model=1\n"
    "  ! train-step name=train model=vit layers=1 embed=16 mlp=16 heads=2 dropout=0.2 ema=0.75\n"
    "      clip-norm=0.5 loss-scale=dynamic lr=1e-2 threads=2 checkpoint-every=2\n"
    "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.test\n"
    "train.metrics ! progress\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static char whole_end[1 << 12]; /* what the run on one rank says last */
static char f32[128];           /* the folder of one that computes in f32, in one part */

/* Keeps the line of the ledger of what was said. */
static void keep_ledger(char *to, size_t n) {
  const char *at = strstr(p.out, "\nledger "), *end = at ? strchr(at + 1, '\n') : NULL;
  if (!end || (size_t)(end - at) > n) {
    fail_msg("no ledger: %s%s", p.out, p.err);
    return;
  }
  memcpy(to, at + 1, (size_t)(end - at - 1));
  to[end - at - 1] = 0;
}

static int group_setup(void **state) {
  int status = small_run("mesh", graph);
  if (status) return status;
  keep_ledger(whole_end, sizeof whole_end);
  snprintf(f32, sizeof f32, "%s/f32", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", f32, "train.dtype=f32");
  return p.status;
}

static void assert_same_checkpoint(const char *run, int step) {
  char path[192];
  void *x, *y;
  size_t n, m;
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", whole, step);
  assert_int_equal(mr_read_file(path, 1 << 24, &x, &n, NULL), MR_OK);
  snprintf(path, sizeof path, "%s/checkpoints/step-%06d.safetensors", run, step);
  if (mr_read_file(path, 1 << 24, &y, &m, NULL) < 0) fail_msg("no %s", path);
  if (n != m || memcmp(x, y, n) != 0) fail_msg("%s differs from that of one rank", path);
  free(x), free(y);
}

static void any_mesh_ends_with_the_checkpoint_and_ledger_of_one_rank(void **state) {
  static const char *const mesh[] = {"batch=2,model=1", "data=3", "x=5", "batch=8"};
  for (size_t i = 0; i < sizeof mesh / sizeof *mesh; i++) {
    char run[128], ledger[sizeof whole_end];
    snprintf(run, sizeof run, "%s/mesh%zu", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", mesh[i]);
    if (p.status) fail_msg("%s: %s%s", mesh[i], p.out, p.err);
    keep_ledger(ledger, sizeof ledger);
    assert_string_equal(ledger, whole_end);
    for (int step = 2; step <= STEPS; step += 2) assert_same_checkpoint(run, step);
  }
}

/* The same run with what ranks share of the optimizer's state changed at each resume. */
static void a_run_resumes_with_another_zero_with_the_same_bits(void **state) {
  static const char *const mesh[] = {"data=7", "data=3", "data=8"};
  static const char *const zero[] = {"train.zero=3", "train.zero=0", "train.zero=3"};
  static const char *const until[] = {"train.steps=2", "train.steps=3", "train.steps=4"};
  char run[128], ledger[sizeof whole_end];
  snprintf(run, sizeof run, "%s/zero", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", "data=4", "train.zero=1",
      "train.steps=1");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  for (int i = 0; i < 3; i++) {
    RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", mesh[i], zero[i], until[i]);
    if (p.status) fail_msg("%s %s: %s%s", mesh[i], zero[i], p.out, p.err);
  }
  RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", "data=5", "train.zero=2",
      "train.steps=0");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  for (int step = 2; step <= STEPS; step += 2) assert_same_checkpoint(run, step);
}

static void a_run_resumes_on_other_ranks_with_the_same_bits(void **state) {
  static const char *const mesh[] = {"data=4", "data=3", "data=7", "data=1"};
  char ledger[sizeof whole_end];
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--mesh", mesh[0], "train.steps=1");
  assert_int_equal(p.status, 0);
  for (int i = 1; i < 4; i++) {
    const char *until[] = {"", "train.steps=3", "train.steps=4", "train.steps=0"};
    RUN(&p, "train", "--run-dir", other, "--resume", "--mesh", mesh[i], until[i]);
    if (p.status) fail_msg("%s: %s%s", mesh[i], p.out, p.err);
    assert_non_null(strstr(p.out, "shard-to-device.mesh: "));
  }
  keep_ledger(ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  assert_same_checkpoint(other, STEPS);
}

/* The loss of a step, of the lines of metrics. */
static double loss_of(const char *run, int step) {
  char path[192], key[32];
  void *text;
  size_t n;
  double loss = -1;
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  snprintf(key, sizeof key, "\"step\":%d,", step);
  if (mr_read_file(path, 1 << 24, &text, &n, NULL) < 0) fail_msg("no %s", path);
  const char *at = strstr(text, key), *value = at ? strstr(at, "\"loss\":") : NULL;
  if (!value || sscanf(value + 7, "%lf", &loss) != 1)
    fail_msg("%s: no loss of step %d", path, step);
  free(text);
  return loss;
}

/* Parts of parameters, by the model's own table, by a user's rules, and along another axis. */
static void ranks_with_parts_of_parameters_train_close_to_one_rank(void **state) {
  static const struct {
    const char *mesh, *rules;
  } row[] = {{"data=3,model=2", ""},
             {"model=2,data=1", "*.linear1.kernel=column, *.linear2.kernel=row, *=P()"},
             {"data=2", "*.linear1.kernel=P('data')"},
             {"data=1", "*=P()"},
             {"data=3,tp=2", "*.linear1.kernel=[B,S(1)], *.linear2.kernel=[B,S(0)]"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char run[128], rules[128];
    snprintf(run, sizeof run, "%s/parts%zu", dir, i);
    snprintf(rules, sizeof rules, "train.partition=%s", row[i].rules);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", row[i].mesh, rules,
        "train.dtype=f32");
    if (p.status) fail_msg("%s %s: %s%s", row[i].mesh, rules, p.out, p.err);
    for (int step = 1; step <= STEPS; step++) {
      double want = loss_of(f32, step), got = loss_of(run, step);
      if (fabs(got - want) > 1e-4 * want)
        fail_msg("%s %s: step %d: loss %.9g, want %.9g", row[i].mesh, rules, step, got, want);
    }
  }
}

/* A checkpoint is whole: one rank continues it, and ranks with parts continue that of one; what
   ranks compute from it is the same each time. */
static void parts_are_whole_in_a_checkpoint(void **state) {
  static const char *const mesh[] = {"data=2,model=2", "data=1", "data=1,model=2",
                                     "data=2,model=2"};
  char run[128], again[128], ledger[2][sizeof whole_end];
  snprintf(run, sizeof run, "%s/change", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", mesh[0], "train.dtype=f32",
      "train.steps=1");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  for (int i = 1; i < 4; i++) {
    const char *until[] = {"", "train.steps=3", "train.steps=4", "train.steps=0"};
    RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", mesh[i], until[i]);
    if (p.status) fail_msg("%s: %s%s", mesh[i], p.out, p.err);
  }
  for (int step = 1; step <= STEPS; step++)
    if (fabs(loss_of(run, step) - loss_of(f32, step)) > 1e-4 * loss_of(f32, step))
      fail_msg("step %d: loss %.9g, want %.9g", step, loss_of(run, step), loss_of(f32, step));
  for (int i = 0; i < 2; i++) {
    snprintf(again, sizeof again, "%s/again%d", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", again, "--mesh", mesh[0], "train.dtype=f32",
        i ? "train.steps=4" : "train.lr=1e-2");
    if (!p.status && i) RUN(&p, "train", "--run-dir", again, "--resume", "train.steps=0");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(ledger[i], sizeof ledger[i]);
  }
  assert_string_equal(ledger[0], ledger[1]);
}

/* Losses of ranks with parts depend on the mesh, in the last bits: their ledger has records and
   draws alone, and is that of an undisturbed run on any such meshes, with any zero=. */
static void parts_keep_their_ledger_on_other_meshes(void **state) {
  static const char *const mesh[] = {"data=2,model=2", "data=1,model=2", "data=3,model=2"};
  static const char *const zero[] = {"train.zero=3", "train.zero=1", "train.zero=2"};
  static const char *const until[] = {"train.steps=2", "train.steps=3", "train.steps=0"};
  char run[128], ledger[2][sizeof whole_end];
  snprintf(run, sizeof run, "%s/undisturbed", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", mesh[1], "train.dtype=f32");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(ledger[0], sizeof ledger[0]);
  snprintf(run, sizeof run, "%s/other-meshes", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", mesh[0], "train.dtype=f32", zero[0],
      until[0]);
  for (int i = 1; i < 3 && !p.status; i++)
    RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", mesh[i], zero[i], until[i]);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger(ledger[1], sizeof ledger[1]);
  assert_string_equal(ledger[0], ledger[1]);
  for (int step = 1; step <= STEPS; step++)
    if (fabs(loss_of(run, step) - loss_of(f32, step)) > 1e-4 * loss_of(f32, step))
      fail_msg("step %d: loss %.9g, want %.9g", step, loss_of(run, step), loss_of(f32, step));
}

/* A run of 20 steps on thread ranks, with stages whose ranks have parts, and one of them continued
   on one rank. */
static void stages_with_parts_train_close_to_one_rank(void **state) {
  static const struct {
    const char *mesh, *until;
  } row[] = {{"data=2,model=2", "train.steps=20"},
             {"data=4,model=2", "train.steps=20"},
             {"model=2,data=2", "train.steps=9"}};
  enum { LONG = 20 };
  char one[128];
  snprintf(one, sizeof one, "%s/long", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", one, "train.dtype=f32", "train.layers=2",
      "shuffle.epochs=10", "train.steps=20");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char run[128];
    snprintf(run, sizeof run, "%s/stages%zu", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", row[i].mesh, "train.dtype=f32",
        "train.layers=2", "shuffle.epochs=10", row[i].until, "train.pipeline=2",
        "train.microbatches=2");
    if (!p.status && i == 2)
      RUN(&p, "train", "--run-dir", run, "--resume", "--mesh", "data=1", "train.pipeline=0",
          "train.microbatches=0", "train.steps=20");
    if (p.status) fail_msg("%s: %s%s", row[i].mesh, p.out, p.err);
    for (int step = 1; step <= LONG; step++) {
      double want = loss_of(one, step), got = loss_of(run, step);
      if (fabs(got - want) > 1e-3 * want)
        fail_msg("%s: step %d: loss %.9g, want %.9g", row[i].mesh, step, got, want);
    }
  }
}

static void the_default_graph_gets_its_ranks_by_the_flag(void **state) {
  char run[2][128], ledger[2][sizeof whole_end];
  for (int i = 0; i < 2; i++) {
    snprintf(run[i], sizeof run[i], "%s/flag%d", dir, i);
    RUN(&p, "train", "--data", "synthetic", "--run-dir", run[i], "--steps", "2", "model=mlp",
        i ? "--mesh" : "--ordered", i ? "batch=4,model=1" : "8");
    if (p.status) fail_msg("%s%s", p.out, p.err);
    keep_ledger(ledger[i], sizeof ledger[i]);
  }
  assert_string_equal(ledger[0], ledger[1]);
}

/* Without ordered=, ranks change the order of sums: the run would be another one. */
static void a_run_without_a_mesh_is_not_resumed_on_one_unasked(void **state) {
  char run[128];
  snprintf(run, sizeof run, "%s/late", dir);
  RUN(&p, "train", "--data", "synthetic", "--run-dir", run, "--steps", "1", "model=mlp");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--run-dir", run, "--resume", "--steps", "2", "--mesh", "data=2");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "mesh or pipeline (sets ordered=) none -> given"));
  RUN(&p, "train", "--run-dir", run, "--resume", "--steps", "2", "--mesh", "data=2",
      "--allow-change", "batch");
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

static void a_mesh_that_does_not_fit_is_refused(void **state) {
  static const struct {
    const char *mesh, *also, *said;
  } bad[] = {
      {"data=9", "train.lr=1e-2", "9 ranks share the parts of a batch; want at most 8 ranks"},
      {"data=2,model=3", "train.lr=1e-2", "does not divide among the 3 ranks of model"},
      {"data=4,model=2", "train.lr=1e-2",
       "a batch of 18 records does not divide among the 4 ranks"},
      {"data=2,model=2", "train.ordered=8", "want ordered=0"},
      {"data=2,model=2", "train.accumulate=2", "want accumulate=1"},
      {"data=2,tensor=2", "train.lr=1e-2", "cuts no parameter"},
      {"data=2,tensor=2", "train.partition=*.kernel=(None,modl)", "has no axis \"modl\""},
      {"data=2,model=2", "train.partition=*.linear1.kernel=(model)", "expected 2"},
      {"data=2,model=2", "train.partition=*.linaer1.kernel=(None,model)",
       "did you mean \"*.linear1.kernel\"?"},
      {"data=two", "train.lr=1e-2", "expected sizes from 1"},
      {"data=2,data=2", "train.lr=1e-2", "data"},
      {"data=2", "train.ordered=6", "want a power of two"},
      {"data=2", "train.ordered=32", "a batch of 18 records"},
      {"data=2", "train.pin=true", "want pin=false"},
      {"data=2", "train.accumulate=2", "splits the batch too"},
      {"data=2", "train.zero=4", "zero"},
      {"data=2,model=2", "train.device=opencl", "a mesh that cuts parameters is for device=cpu"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char run[128];
    snprintf(run, sizeof run, "%s/bad%zu", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--mesh", bad[i].mesh, bad[i].also);
    if (!p.status || !strstr(p.err, bad[i].said))
      fail_msg("mesh %s %s: status %d, \"%s\"", bad[i].mesh, bad[i].also, p.status, p.err);
  }
}

static void batches_that_ranks_share_go_to_a_training_step_alone(void **state) {
  char path[128], run[128];
  static const char wrong[] =
      "synthetic n=40 split=train ! sequential epochs=1 ! normalize preset=cifar10\n"
      "  ! batch 8 drop-remainder ! shard-to-device mesh=data=2 ! delay\n"
      "  ! train-step name=train model=mlp\n";
  snprintf(path, sizeof path, "%s/wrong.mr", dir);
  snprintf(run, sizeof run, "%s/wrong", dir);
  assert_int_equal(mr_write_file(path, wrong, sizeof wrong - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", path, "--run-dir", run);
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err, "2 ranks share the batches of shard-to-device")) fail_msg("%s", p.err);
}

static void ranks_of_a_job_that_run_a_graph_by_another_command_are_refused(void **state) {
  char run[128];
  snprintf(run, sizeof run, "run=%s/job", dir);
  setenv("OMPI_COMM_WORLD_RANK", "1", 1), setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1), setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
  RUN(&p, "run", file, run, "mesh=data=2");
  unsetenv("OMPI_COMM_WORLD_RANK"), unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_LOCAL_RANK"), unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "rank 1 of 2 processes"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_mesh_ends_with_the_checkpoint_and_ledger_of_one_rank),
      cmocka_unit_test(a_run_resumes_with_another_zero_with_the_same_bits),
      cmocka_unit_test(a_run_resumes_on_other_ranks_with_the_same_bits),
      cmocka_unit_test(ranks_with_parts_of_parameters_train_close_to_one_rank),
      cmocka_unit_test(parts_are_whole_in_a_checkpoint),
      cmocka_unit_test(parts_keep_their_ledger_on_other_meshes),
      cmocka_unit_test(stages_with_parts_train_close_to_one_rank),
      cmocka_unit_test(the_default_graph_gets_its_ranks_by_the_flag),
      cmocka_unit_test(a_run_without_a_mesh_is_not_resumed_on_one_unasked),
      cmocka_unit_test(a_mesh_that_does_not_fit_is_refused),
      cmocka_unit_test(batches_that_ranks_share_go_to_a_training_step_alone),
      cmocka_unit_test(ranks_of_a_job_that_run_a_graph_by_another_command_are_refused),
  };
  return cmocka_run_group_tests(tests, group_setup, small_run_forget);
}
