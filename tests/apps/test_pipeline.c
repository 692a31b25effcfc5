/* train with a pipeline: any stages, cuts and schedules give the checkpoint and ledger of a run on
   one rank, also where a run resumes with others; what cannot be a pipeline is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/apps/small_run.h"

enum { STEPS = 6 };

static const char graph[] =
    "let run = unset\n"
    "synthetic n=48 split=train ! shuffle seed=1 epochs=2 ! flip p=0.5 ! normalize preset=cifar10\n"
    "  ! batch 16 drop-remainder\n"
    "  ! train-step name=train model=vit layers=3 embed=16 mlp=16 heads=2 dropout=0.2 ema=0.75\n"
    "      clip-norm=0.5 loss-scale=dynamic lr=1e-2 threads=2 ordered=4 checkpoint-every=2\n"
    "synthetic n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 16 ! train.test\n"
    "train.metrics ! progress\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static char whole_end[1 << 12]; /* the ledger of the run on one rank */

static void keep_ledger_line(char *to, size_t n) {
  const char *at = strstr(p.out, "\nledger "), *end = at ? strchr(at + 1, '\n') : NULL;
  if (!end || (size_t)(end - at) > n) {
    fail_msg("no ledger: %s%s", p.out, p.err);
    return;
  }
  memcpy(to, at + 1, (size_t)(end - at - 1));
  to[end - at - 1] = 0;
}

static int group_setup(void **state) {
  int status = small_run("pipeline", graph);
  if (!status) keep_ledger_line(whole_end, sizeof whole_end);
  return status;
}

static void assert_end_of_one_rank(const char *run) {
  char ledger[sizeof whole_end], path[2][192];
  void *x, *y;
  size_t n, m;
  if (p.status) fail_msg("%s%s", p.out, p.err);
  keep_ledger_line(ledger, sizeof ledger);
  assert_string_equal(ledger, whole_end);
  for (int i = 0; i < 2; i++)
    snprintf(path[i], sizeof path[i], "%s/checkpoints/step-%06d.safetensors", i ? run : whole,
             STEPS);
  assert_int_equal(mr_read_file(path[0], 1 << 24, &x, &n, NULL), MR_OK);
  if (mr_read_file(path[1], 1 << 24, &y, &m, NULL) < 0) fail_msg("no %s", path[1]);
  if (n != m || memcmp(x, y, n) != 0) fail_msg("%s differs from that of one rank", path[1]);
  free(x), free(y);
}

static void any_pipeline_ends_with_the_checkpoint_and_ledger_of_one_rank(void **state) {
  static const char *const row[][2] = {
      {"train.pipeline=2", "train.microbatches=4"},
      {"train.pipeline=4", "train.pipeline-schedule=gpipe"},
      {"train.stages=embed,blocks[0] | blocks[1:3] | norm,head", "train.pipeline=0"},
      {"train.pipeline=2", "--mesh=data=4"},
      {"train.pipeline=2", "train.zero=3"},
      {"train.pipeline=2", "--mesh=batch=6,model=1"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char run[128];
    snprintf(run, sizeof run, "%s/row%zu", dir, i);
    RUN(&p, "train", "--graph", file, "--run-dir", run, row[i][0], row[i][1]);
    assert_end_of_one_rank(run);
  }
}

/* By ranks that share the slots, too: those of a pipeline have the slots of their stages whatever
   zero= is, and with zero=3 the values. */
static void a_run_resumes_with_other_stages_with_the_same_bits(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--mesh", "data=3", "train.pipeline=3",
      "train.zero=2", "train.steps=2");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", other, "--resume", "--mesh", "data=2", "train.pipeline=0",
      "train.zero=1", "train.steps=4");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", other, "--resume", "--mesh", "data=4", "train.pipeline=2",
      "train.zero=3", "train.steps=5");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", other, "--resume", "--mesh", "data=8", "train.pipeline=2",
      "train.steps=0");
  assert_end_of_one_rank(other);
}

/* Without ordered=, stages change the order of sums: the run would be another one. */
static void a_run_without_a_pipeline_is_not_resumed_on_one_unasked(void **state) {
  static const char *const more[] = {"train.pipeline=2",
                                     "train.stages=embed, blocks[0] | blocks[1:], norm, head"};
  char run[128];
  snprintf(run, sizeof run, "%s/late", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "train.ordered=0",
      "train.stages=", "train.steps=1");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  if (strstr(p.err, "setting stages")) fail_msg("%s", p.err);
  for (int i = 0; i < 2; i++) {
    RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=2", more[i]);
    assert_int_not_equal(p.status, 0);
    if (!strstr(p.err, "mesh or pipeline (sets ordered=) none -> given")) fail_msg("%s", p.err);
  }
  RUN(&p, "train", "--run-dir", run, "--resume", "train.steps=2", more[0], "--allow-change",
      "batch");
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

static void names_of_one_stage_are_said_to_change_nothing(void **state) {
  char run[128];
  snprintf(run, sizeof run, "%s/one", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "train.stages=blocks", "train.steps=1");
  if (p.status || !strstr(p.err, "setting stages changes nothing")) fail_msg("%s", p.err);
}

/* The step is traced, and repeated from its file, as that of one rank. */
static void a_step_of_a_pipeline_that_is_not_finite_is_traced(void **state) {
  char run[128], replay[160], path[192];
  snprintf(run, sizeof run, "%s/trace", dir);
  snprintf(replay, sizeof replay, "train.replay-dir=%s/replays", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "train.pipeline=2", "train.optimizer=sgd",
      "train.lr=100", "train.clip-norm=0", "shuffle.epochs=9", "train.loss-scale=1",
      "train.on-nan=trace", replay);
  assert_int_equal(p.status, 1);
  if (strstr(p.err, "could not be traced") || !strstr(p.err, "millrace replay "))
    fail_msg("%s", p.err);
  const char *from = strstr(p.err, "millrace replay ") + strlen("millrace replay ");
  snprintf(path, sizeof path, "%.*s", (int)strcspn(from, " \n"), from);
  RUN(&p, "replay", path);
  if (p.status || !strstr(p.out, "the bits are the same")) fail_msg("%s%s", p.out, p.err);
}

static void settings_that_exclude_a_pipeline_are_refused(void **state) {
  static const struct {
    const char *a, *b, *said;
  } bad[] = {
      {"train.pipeline=9", "train.lr=1e-2", "9 stages of a model that can be cut between layers"},
      {"train.pipeline=2", "train.microbatches=8", "ordered = 4, and they are the same parts"},
      {"train.pipeline=2", "train.ordered=32",
       "do not divide the batch of 16 records, 16 are left"},
      {"train.pipeline=2", "train.ordered=6", "want a power of two"},
      {"train.pipeline=2", "train.accumulate=2", "microbatches split the batch already"},
      {"train.pipeline=2", "train.fit=1GiB", "it chooses the parts of a batch"},
      {"train.pipeline=2", "train.pin=true", "want pin=false"},
      {"train.pipeline=2", "train.fp8=hybrid", "want fp8=none"},
      {"--mesh=data=3", "train.pipeline=2", "does not divide the 3 ranks of the mesh"},
      {"--mesh=data=10", "train.pipeline=2", "5 pipelines of 2 stages share them"},
      {"--mesh=data=3,model=2", "train.pipeline=2",
       "does not divide the 3 ranks of the mesh along data; want data=2 there or a multiple"},
      {"--mesh=data=2,model=3", "train.pipeline=2", "does not divide among the 3 ranks of model"},
      {"--mesh=ranks=2,model=2", "train.pipeline=2", "want another name, such as data"},
      {"train.stages=embed | blocks, hedd", "train.lr=1e-2", "did you mean \"head\""},
      {"train.stages=embed, encoder_blocks.0.attn, encoder_blocks.0.norm1, encoder_blocks.0.norm2, "
       "encoder_blocks.0.linear1 | encoder_blocks.0.linear2, blocks[1:3], head",
       "train.lr=1e-2", "it is inside a residual"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char run[128];
    snprintf(run, sizeof run, "%s/bad", dir);
    RUN(&p, "train", "--graph", file, "--run-dir", run, bad[i].a, bad[i].b);
    if (!p.status || !strstr(p.err, bad[i].said))
      fail_msg("%s %s: %s, want \"%s\"", bad[i].a, bad[i].b, p.err, bad[i].said);
  }
}

static void summary_and_explain_show_the_stages(void **state) {
  RUN(&p, "summary", "--depth", "0", "--layers", "4", "--pipeline", "2", "--microbatches", "16");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "16 microbatches of 8 records: ranks wait 6.2 %"));
  RUN(&p, "explain", "step", "--mesh", "data=2", "--pipeline", "2", "--stages",
      "embed, blocks[0:3] | blocks[3:], head");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "0  patch_embed to encoder_blocks.2"));
  assert_non_null(strstr(p.out, "20 collectives")); /* the new parameters go in 8 chunks */
  RUN(&p, "explain", "step", "--mesh", "data=2", "--pipeline", "3");
  assert_non_null(strstr(p.err, "3 stages of 2 ranks"));
  RUN(&p, "explain", "step", "--mesh", "data=3,model=2", "--pipeline", "2");
  assert_non_null(strstr(p.err, "2 stages of the 3 ranks along axis data"));
  RUN(&p, "explain", "grad", "--mesh", "data=2", "--pipeline", "2");
  assert_non_null(strstr(p.err, "expected function step"));
  RUN(&p, "summary", "--pipeline", "2", "--microbatches", "6");
  assert_non_null(strstr(p.err, "--pipeline: "));
}

/* Sums of a stage's parts, along model, and what crosses a cut, along data. */
static void stages_in_parts_are_shown(void **state) {
  RUN(&p, "explain", "step", "--mesh", "data=4,model=2", "--pipeline", "2", "--layers", "2");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "2 pipelines that share 8 microbatches, 4 each"));
  assert_non_null(strstr(p.out, "\npsum            model "));
  assert_non_null(strstr(p.out, "\nppermute        data "));
  RUN(&p, "summary", "--mesh", "data=4,model=2", "--pipeline", "2", "--layers", "2");
  assert_int_equal(p.status, 0);
  const char *row = strstr(p.out, "\nencoder_blocks.1.linear1.kernel");
  assert_non_null(row); /* by the first rank of its parts in the second stage, with half of it */
  assert_non_null(strstr(row, "384x768"));
  assert_non_null(strstr(p.out, "updated by"));
}

static int group_teardown(void **state) { return small_run_forget(state); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_pipeline_ends_with_the_checkpoint_and_ledger_of_one_rank),
      cmocka_unit_test(a_run_resumes_with_other_stages_with_the_same_bits),
      cmocka_unit_test(a_run_without_a_pipeline_is_not_resumed_on_one_unasked),
      cmocka_unit_test(names_of_one_stage_are_said_to_change_nothing),
      cmocka_unit_test(a_step_of_a_pipeline_that_is_not_finite_is_traced),
      cmocka_unit_test(settings_that_exclude_a_pipeline_are_refused),
      cmocka_unit_test(summary_and_explain_show_the_stages),
      cmocka_unit_test(stages_in_parts_are_shown),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
