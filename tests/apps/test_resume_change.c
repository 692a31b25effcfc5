/* A resume that changes its run: said, free or refused; and one of a run that has finished. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"

enum { N = 48, PICTURE = 3 * 8 * 8 };

static const char graph[] =
    "let run = unset\n"
    "let seed = 12\n"
    "let folder = unset\n"
    "let batch = 8\n"
    "npy name=data images=$folder/images.npy labels=$folder/labels.npy\n"
    "  ! shuffle seed=$seed epochs=1 ! flip p=0.5 ! normalize ! batch $batch drop-remainder\n"
    "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 patch=4 seed=$seed\n"
    "npy name=held images=$folder/images.npy labels=$folder/labels.npy id-base=1000\n"
    "  ! sequential epochs=0 ! normalize ! batch 16 name=held-batches ! train.valid\n"
    "train.metrics ! progress\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static program_t p;
static char dir[64], file[96], run[96], folder[128];

/* A data set of this name; seed decides every byte. */
static void write_data(const char *name, uint32_t seed) {
  static uint8_t images[N * PICTURE];
  int32_t labels[N];
  char path[160];
  mr_diag_t diag;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  assert_int_equal(mr_make_folder(path, &diag), MR_OK);
  for (uint32_t i = 0; i < N * PICTURE; i++) images[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
  for (int i = 0; i < N; i++) labels[i] = (int32_t)((unsigned)i + seed) % 10;
  snprintf(path, sizeof path, "%s/%s/images.npy", dir, name);
  assert_int_equal(mr_npy_save(path, MR_U8, 4, (int64_t[]){N, 3, 8, 8}, images, &diag), MR_OK);
  snprintf(path, sizeof path, "%s/%s/labels.npy", dir, name);
  assert_int_equal(mr_npy_save(path, MR_I32, 1, (int64_t[]){N}, labels, &diag), MR_OK);
}

static const char *setting(const char *name) {
  static char text[160];
  snprintf(text, sizeof text, "folder=%s/%s", dir, name);
  return text;
}

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s%s", p.status, status, sentence, p.err, p.out);
}

/* The resume went well and said this. */
static void said(const char *sentence) {
  if (p.status || !strstr(p.out, sentence))
    fail_msg("status %d, expected \"%s\": %s%s", p.status, sentence, p.err, p.out);
}

/* A run of three steps of six. */
static int setup(void **state) {
  strcpy(dir, "/tmp/mr-change-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/g.mr", dir);
  snprintf(run, sizeof run, "%s/r", dir);
  snprintf(folder, sizeof folder, "%s/a", dir);
  if (mr_write_file(file, graph, sizeof graph - 1, NULL) < 0) return -1;
  write_data("a", 1);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--steps", "3", setting("a"),
      "leak-check=off");
  if (p.status) fail_msg("%s", p.err);
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

#define RESUME(...) RUN(&p, "train", "--resume", "--run-dir", run, __VA_ARGS__)

/* What a refused resume must leave as it is. */
static char *all_of_the_run(void) {
  char command[256], *text = calloc(1, 1 << 16);
  snprintf(command, sizeof command,
           "cd %s && cat settings.txt data.txt metrics.jsonl && "
           "ls -l --time-style=full-iso checkpoints",
           run);
  FILE *f = popen(command, "r");
  text[fread(text, 1, (1 << 16) - 1, f)] = 0;
  assert_int_equal(pclose(f), 0);
  return text;
}

static void changes_of_the_meaning_of_the_ledger_are_refused_with_a_reason(void **state) {
  static const struct {
    const char *word, *said, *allow;
  } of[] = {
      {"batch=4", "batch.size 8 -> 4", "--allow-change=batch resumes"},
      {"seed=13", "shuffle.seed 12 -> 13; train.seed 12 -> 13", "--allow-change=seed resumes"},
      {"flip.p=0.25", "flip.p 0.5 -> 0.25", "--allow-change=data resumes"},
      {"data.id-base=5", "data.id-base 0 -> 5", "--allow-change=data resumes"},
      {"train.embed=32", "train.embed 16 -> 32", "--allow-change=model resumes"},
      {"dropout=0.2", "train.dropout 0.1 -> 0.2", "--allow-change=model resumes"}};
  char *before = all_of_the_run();
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    RESUME("--steps", "5", of[i].word);
    expect(2, of[i].said);
    expect(2, of[i].allow);
  }
  RESUME("--steps", "5", "batch=4", "seed=13", "--allow-change=seed");
  expect(2, "batch.size 8 -> 4; --allow-change=seed,batch resumes");
  RESUME("--steps", "5", "batch=4", "--allow-change=batches");
  expect(2,
         "--allow-change: \"batches\": want one or more of data, seed, batch, model, separated by "
         "commas");
  char *after = all_of_the_run();
  assert_string_equal(after, before);
  free(before), free(after);
}

static void changes_that_are_allowed_are_reported_and_made(void **state) {
  RESUME("--steps", "5", "batch=4", "seed=13", "--allow-change=batch,seed");
  said("changed: batch.size: 8 -> 4");
  said("changed: train.seed: 12 -> 13");
  assert_non_null(strstr(p.out, "resumed at step 3"));
  RESUME("--steps", "6"); /* they are the run's own from now on */
  expect(0, "");
  assert_null(strstr(p.out, "batch.size"));
}

static void a_checkpoint_of_another_model_is_refused_even_so(void **state) {
  RESUME("--steps", "5", "embed=32", "--allow-change=model");
  expect(1, "a checkpoint of another model: it holds");
  RESUME("--steps", "5");
  expect(0, "");
}

static void changes_of_the_training_alone_are_reported(void **state) {
  RESUME("--steps", "5", "lr=5e-4", "batch.workers=2", "flip.p=0.50");
  said("changed: train.lr: 1e-3 -> 5e-4");
  said("changed: train.steps: 3 -> 5");
  assert_null(strstr(p.out, "workers"));
  assert_null(strstr(p.out, "flip"));
}

static void the_same_data_elsewhere_are_the_same(void **state) {
  write_data("b", 1);
  RESUME("--steps", "5", setting("b"));
  said("stage data reads the same data from ");
  assert_non_null(strstr(p.out, "resumed at step 3"));
}

static void other_data_of_the_same_shape_are_refused(void **state) {
  write_data("b", 2);
  RESUME("--steps", "5", setting("b"));
  expect(2, "data of stage data npy records=48 classes=10 sample=");
  write_data("a", 2); /* and under the same name */
  RESUME("--steps", "5");
  expect(2, "--allow-change=data resumes");
  RESUME("--steps", "5", "--allow-change=data");
  said("changed: data of stage data");
  RESUME("--steps", "6");
  expect(0, "");
}

static void a_run_of_before_data_txt_resumes(void **state) {
  char path[128];
  snprintf(path, sizeof path, "%s/data.txt", run);
  assert_int_equal(unlink(path), 0);
  write_data("b", 1);
  RESUME("--steps", "5", setting("b"));
  expect(2, "data of stage data ");
  RESUME("--steps", "5");
  expect(0, "");
  assert_int_equal(access(path, R_OK), 0);
}

static void a_finished_run_says_that_there_is_nothing_to_do(void **state) {
  RESUME("--steps", "0");
  expect(0, "");
  assert_non_null(strstr(p.out, "Done: 6 steps"));
  char *before = all_of_the_run(), ledger[24];
  snprintf(ledger, sizeof ledger, "%.23s", strstr(p.out, "ledger "));
  RESUME("lr=1");
  expect(0, "");
  assert_non_null(strstr(p.out, "nothing to do: the run has finished, at step 6"));
  assert_non_null(strstr(p.out, ledger));
  RESUME("--steps", "4");
  expect(2, "is at step 6, and with these settings it would end before, at step 4");
  char *after = all_of_the_run();
  assert_string_equal(after, before);
  free(before), free(after);
  RESUME("shuffle.epochs=2");
  said("changed: shuffle.epochs: 1 -> 2");
  assert_non_null(strstr(p.out, "Done: 12 steps"));
}

/* Killed between its last checkpoint and its last words: the end is produced again. */
static void a_run_without_its_last_record_is_not_finished(void **state) {
  char command[200];
  RESUME("--steps", "0");
  expect(0, "");
  snprintf(command, sizeof command, "sed -i '/\"kind\":\"final\"/d' %s/metrics.jsonl", run);
  assert_int_equal(system(command), 0);
  RESUME("--steps", "0");
  expect(0, "");
  assert_non_null(strstr(p.out, "Done: 6 steps"));
}

/* Not in whatever folder the program was started in. */
static void bad_records_are_listed_in_the_run_folder(void **state) {
  int32_t labels[N] = {[7] = 77};
  char path[160], other[96], before[512];
  write_data("bad", 3);
  snprintf(path, sizeof path, "%s/bad/labels.npy", dir);
  assert_int_equal(mr_npy_save(path, MR_I32, 1, (int64_t[]){N}, labels, NULL), MR_OK);
  snprintf(other, sizeof other, "%s/other", dir);
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(dir), 0);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "--steps", "6", setting("bad"),
      "data.on-bad=quarantine:3", "held.on-bad=quarantine:3", "leak-check=off");
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(access("other/quarantine.jsonl", R_OK), 0);
  assert_int_equal(access("quarantine.jsonl", F_OK), -1);
  assert_int_equal(chdir(before), 0);
}

/* A schedule that ends with the run reaches another rate where the run becomes longer. */
static void a_longer_run_under_a_schedule_says_both_rates(void **state) {
  char longer[112];
  snprintf(longer, sizeof longer, "%s/longer", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", longer, setting("a"), "leak-check=off",
      "train.lr=1e-3", "train.schedule=linear", "train.warmup=0", "train.steps=4");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "train", "--run-dir", longer, "--resume", "train.steps=5");
  said(
      "changed: train.steps: 4 -> 5\n"
      "changed: learning rate of step 5: 0 -> 0.0002; step 4 had 0.00025\n");
  RUN(&p, "train", "--run-dir", longer, "--resume", "train.steps=6", "train.schedule=constant");
  said("changed: learning rate of step 6: 0 -> 0.001; step 5 had 0.0002\n");
  RUN(&p, "train", "--run-dir", longer, "--resume", "train.checkpoint-every=2");
  if (p.status || strstr(p.out, "learning rate")) fail_msg("%s%s", p.out, p.err);
}

/* Appends to the metrics of a run what a process that was killed would have left there. */
static void report_beyond(const char *path, const char *line) {
  FILE *f = fopen(path, "a");
  assert_non_null(f);
  assert_true(fputs(line, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

/* A resume cuts the files back, so a process that is killed before it has passed the step leaves
   nothing of it there. */
static void repeated(const char *of, const char *name, const char *sink, const char *line) {
  char path[160], beside[176], text[sizeof graph + 64], *at;
  snprintf(text, sizeof text, "%s", graph);
  at = strstr(text, "jsonl path");
  memmove(at + strlen(sink), at + strlen("jsonl path=$run/metrics.jsonl"),
          strlen(at + strlen("jsonl path=$run/metrics.jsonl")) + 1);
  memcpy(at, sink, strlen(sink));
  assert_int_equal(mr_write_file(file, text, strlen(text), NULL), MR_OK);
  snprintf(path, sizeof path, "%s/%s/%s", dir, of, name);
  snprintf(beside, sizeof beside, "%s.reported", path);
  snprintf(run, sizeof run, "%s/%s", dir, of);
  assert_int_equal(mr_make_folder(run, NULL), MR_OK);
  report_beyond(beside, "step,9,1,72\n"); /* of a run that was there before */
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--steps", "3", setting("a"),
      "leak-check=off");
  expect(0, "");
  assert_int_equal(access(beside, F_OK), -1);
  report_beyond(path, line);
  char left[2][256]; /* by a process that was killed, and by one that lives */
  snprintf(left[0], sizeof left[0], "%s.part-0123abcd-99999999", beside);
  snprintf(left[1], sizeof left[1], "%s.part-0123abcd-%ld", beside, (long)getpid());
  for (int i = 0; i < 2; i++) assert_int_equal(mr_write_file(left[i], "1", 1, NULL), MR_OK);
  RESUME("--steps", "4");
  said("Steps 4 to 6 are repeated; they were reported before.");
  for (int i = 0; i < 2; i++) assert_int_equal(access(left[i], F_OK), i - 1);
  RESUME("--steps", "5");
  said("Steps 5 to 6 are repeated; they were reported before.");
  RESUME("--steps", "6");
  said("Steps 6 to 6 are repeated; they were reported before.");
  RESUME("--steps", "8", "shuffle.epochs=2");
  said("changed: shuffle.epochs: 1 -> 2");
  assert_null(strstr(p.out, "repeated"));
  assert_int_equal(access(beside, F_OK), -1);
}

static void a_second_kill_forgets_no_step_that_was_reported(void **state) {
  repeated("j", "metrics.jsonl", "jsonl path=$run/metrics.jsonl",
           "{\"kind\":\"step\",\"step\":6,\"epoch\":1,\"images\":48}\n");
  repeated("c", "m.csv", "csv path=$run/m.csv", "step,6,1,48,1.5,2.25\n");
}

/* Reports into a link, a pipe and a file beside which lies another's link, where no file may appear
   and none may be written. */
static void the_last_reported_step_is_kept_only_beside_regular_files(void **state) {
  static const char line[] = "{\"kind\":\"step\",\"step\":6,\"epoch\":1,\"images\":48}\n";
  char text[sizeof graph + 320], beside[176], link[112], pipe[112], other[112], metrics[144];
  snprintf(link, sizeof link, "%s/link", dir);
  snprintf(pipe, sizeof pipe, "%s/pipe", dir);
  snprintf(other, sizeof other, "%s/other", dir);
  snprintf(run, sizeof run, "%s/k", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
  snprintf(
      text, sizeof text,
      "%strain.metrics ! jsonl name=second path=%s\ntrain.metrics ! jsonl name=third path=%s\n",
      graph, link, pipe);
  assert_int_equal(mr_write_file(file, text, strlen(text), NULL), MR_OK);
  assert_int_equal(mr_write_file(other, "of another\n", 11, NULL), MR_OK);
  assert_int_equal(mkfifo(pipe, 0600), 0);
  int fd = open(pipe, O_RDWR | O_CLOEXEC); /* holds all that two runs report */
  assert_true(fd >= 0);
  assert_int_equal(symlink("/dev/null", link), 0);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--steps", "3", setting("a"),
      "leak-check=off");
  expect(0, "");
  report_beyond(metrics, line);
  assert_int_equal(unlink(link), 0); /* a link and a pipe that are newer than the run */
  assert_int_equal(symlink("/dev/null", link), 0);
  snprintf(beside, sizeof beside, "%s.reported", metrics);
  assert_int_equal(symlink(other, beside), 0);
  RESUME("--steps", "4");
  said("Steps 4 to 6 are repeated; they were reported before.");
  void *kept;
  size_t n;
  assert_int_equal(mr_read_file(other, 64, &kept, &n, NULL), MR_OK);
  assert_int_equal(n, 11);
  assert_memory_equal(kept, "of another\n", 11);
  free(kept);
  snprintf(beside, sizeof beside, "%s.reported", link);
  assert_int_equal(access(beside, F_OK), -1);
  snprintf(beside, sizeof beside, "%s.reported", pipe);
  assert_int_equal(access(beside, F_OK), -1);
  assert_int_equal(close(fd), 0);
}

/* Where nothing can be kept, a notice says what another resume will not know. */
static void a_last_step_that_cannot_be_kept_beside_its_file_is_said(void **state) {
  static const char line[] = "{\"kind\":\"step\",\"step\":6,\"epoch\":1,\"images\":48}\n";
  char metrics[144], beside[176];
  snprintf(run, sizeof run, "%s/full", dir);
  snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
  snprintf(beside, sizeof beside, "%s.reported", metrics);
  assert_int_equal(mr_write_file(file, graph, strlen(graph), NULL), MR_OK);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--steps", "3", setting("a"),
      "leak-check=off");
  expect(0, "");
  report_beyond(metrics, line);
  assert_int_equal(mkdir(beside, 0700), 0);
  RESUME("--steps", "4");
  said("Steps 4 to 6 are repeated; they were reported before.");
  if (!strstr(p.err, "would not know that steps up to 6 were reported")) fail_msg("%s", p.err);
  assert_int_equal(rmdir(beside), 0); /* nothing was left in it */
}

static void a_graph_that_keeps_no_steps_says_so(void **state) {
  char text[sizeof graph + 64], *at;
  snprintf(text, sizeof text, "%s", graph);
  at = strstr(text, "jsonl path=$run/metrics.jsonl");
  assert_non_null(at);
  memmove(at + strlen("progress name=more"), at + strlen("jsonl path=$run/metrics.jsonl"),
          strlen(at + strlen("jsonl path=$run/metrics.jsonl")) + 1);
  memcpy(at, "progress name=more", strlen("progress name=more"));
  assert_int_equal(mr_write_file(file, text, strlen(text), NULL), MR_OK);
  snprintf(run, sizeof run, "%s/shown", dir);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--steps", "3", setting("a"),
      "leak-check=off");
  expect(0, "");
  static const char unkept[] = "those after step %d that were before the run was cut off are not";
  char want[160], lock[128];
  snprintf(lock, sizeof lock, "%s/lock", run);
  snprintf(want, sizeof want, unkept, 4);
  RESUME("--steps", "4");
  if (p.status || strstr(p.err, "cut off")) fail_msg("after an end in order: %s", p.err);
  assert_int_equal(mr_write_file(lock, "", 0, NULL), MR_OK); /* what a killed process leaves */
  RESUME("--steps", "5", "train.lr=-3");
  assert_int_equal(p.status, 2); /* and a resume that is refused */
  RESUME("--steps", "5");
  if (p.status || !strstr(p.err, want)) fail_msg("after a kill: %s", p.err);
  assert_int_equal(access(lock, F_OK), -1);
  RESUME("--steps", "6");
  if (p.status || strstr(p.err, "cut off")) fail_msg("after an end in order: %s", p.err);
}

/* The graph of the tests with its checkpoints in $keep. */
static void write_graph_with_keep(const char *path) {
  static const char usual[] = "$run/checkpoints";
  char text[sizeof graph + 32];
  mr_diag_t diag;
  const char *at = strstr(graph, usual);
  assert_non_null(at);
  int n = snprintf(text, sizeof text, "let keep = unset\n%.*s$keep%s", (int)(at - graph), graph,
                   at + sizeof usual - 1);
  assert_int_equal(mr_write_file(path, text, (size_t)n, &diag), MR_OK);
}

static void a_run_that_keeps_its_checkpoints_elsewhere_is_resumed(void **state) {
  char other[96], path[96], first[96], second[96];
  snprintf(other, sizeof other, "%s/other", dir);
  snprintf(path, sizeof path, "%s/keep.mr", dir);
  snprintf(first, sizeof first, "keep=%s/first", dir);
  snprintf(second, sizeof second, "keep=%s/second", dir);
  write_graph_with_keep(path);
#define TRAIN(...) RUN(&p, "train", "--run-dir", other, __VA_ARGS__)
  TRAIN("--graph", path, "--steps", "2", setting("a"), "leak-check=off", first);
  said("Done: 2 steps");
  TRAIN("--resume", "--steps", "3");
  said("resumed at step 2");
  TRAIN("--resume", "--steps", "4", second);
  said("resumed at step 3");
  TRAIN("--resume", "--steps", "5");
  said("resumed at step 4");
  RUN(&p, "checkpoint", "verify", other);
  said("second/step-000005.safetensors: whole");
  said("first/step-000003.safetensors: whole");
  RUN(&p, "eval", other);
  said("Accuracy");
  RUN(&p, "inspect", other);
  expect(1, "second/latest");
  /* Neither a new run nor another one's resume takes them over. */
  RUN(&p, "train", "--graph", path, "--steps", "2", setting("a"), "--run-dir", run, first);
  expect(2, "holds an earlier run");
  snprintf(other, sizeof other, "%s/fresh", dir);
  TRAIN("--graph", path, "--steps", "2", setting("a"), "leak-check=off", first);
  expect(2, "holds checkpoints of another run");
  snprintf(first, sizeof first, "keep=%s/third", dir);
  TRAIN("--graph", path, "--steps", "1", setting("a"), "leak-check=off", first);
  said("Done: 1 steps");
  TRAIN("--resume", "--steps", "2", second);
  expect(2, "holds checkpoints of another run");
  TRAIN("--resume", "--steps", "2");
  said("resumed at step 1");
#undef TRAIN
}

/* Two runs of two working folders call theirs alike. */
static void a_relative_folder_of_checkpoints_is_that_of_the_first_start(void **state) {
  char back[512], keep[96], place[96], text[160];
  assert_non_null(getcwd(back, sizeof back));
  snprintf(keep, sizeof keep, "%s/keep.mr", dir);
  write_graph_with_keep(keep);
  for (int k = 0; k < 2; k++) {
    snprintf(place, sizeof place, "%s/place-%d", dir, k);
    assert_int_equal(mkdir(place, 0777), 0);
    assert_int_equal(chdir(place), 0);
    RUN(&p, "train", "--graph", keep, "--steps", k ? "4" : "2", setting("a"), "leak-check=off",
        "--run-dir", "r", "keep=ck");
    said(k ? "Done: 4 steps" : "Done: 2 steps");
  }
  RUN(&p, "train", "--resume", "--run-dir", "../place-0/r", "--steps", "6");
  expect(2, "holds checkpoints of another run");
  RUN(&p, "train", "--resume", "--run-dir", "../place-0/r", "--steps", "3", "keep=other");
  said("resumed at step 2");
  RUN(&p, "checkpoint", "verify", "r");
  said("step-000004.safetensors: whole");
  /* Its own folder by other names. */
  snprintf(text, sizeof text, "keep=%s/place-1/ck", dir);
  RUN(&p, "train", "--resume", "--run-dir", "r", "--steps", "5", text);
  said("resumed at step 4");
  RUN(&p, "train", "--resume", "--run-dir", "r", "--steps", "6", "keep=./ck");
  said("resumed at step 5");
  assert_int_equal(chdir(back), 0);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(changes_of_the_meaning_of_the_ledger_are_refused_with_a_reason),
      CASE(changes_that_are_allowed_are_reported_and_made),
      CASE(a_checkpoint_of_another_model_is_refused_even_so),
      CASE(changes_of_the_training_alone_are_reported),
      CASE(the_same_data_elsewhere_are_the_same),
      CASE(other_data_of_the_same_shape_are_refused),
      CASE(a_run_of_before_data_txt_resumes),
      CASE(a_longer_run_under_a_schedule_says_both_rates),
      CASE(a_finished_run_says_that_there_is_nothing_to_do),
      CASE(bad_records_are_listed_in_the_run_folder),
      CASE(a_run_without_its_last_record_is_not_finished),
      CASE(a_second_kill_forgets_no_step_that_was_reported),
      CASE(the_last_reported_step_is_kept_only_beside_regular_files),
      CASE(a_last_step_that_cannot_be_kept_beside_its_file_is_said),
      CASE(a_graph_that_keeps_no_steps_says_so),
      CASE(a_run_that_keeps_its_checkpoints_elsewhere_is_resumed),
      CASE(a_relative_folder_of_checkpoints_is_that_of_the_first_start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
