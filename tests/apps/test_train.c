/* millrace train on a small model: what it leaves, resume, and every way to spoil a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"

static const char graph[] =
    "let run = unset\n"
    "let data = synthetic\n"
    "synthetic split=train ! shuffle seed=12 epochs=1 ! flip p=0.5 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder\n"
    "  ! vit-step name=train layers=1 embed=32 mlp=32 heads=2 seed=12 checkpoint-every=5\n"
    "train.metrics ! progress\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static program_t p;
static char dir[64], file[96], a[96], b[96];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-train-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/small.mr", dir);
  snprintf(a, sizeof a, "%s/a", dir);
  snprintf(b, sizeof b, "%s/b", dir);
  return mr_write_file(file, graph, sizeof graph - 1, NULL);
}

static int teardown(void **state) { return program_forget(dir); }

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s%s", p.status, status, sentence, p.err, p.out);
}

static void train(const char *run, const char *steps) {
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--steps", steps);
}

static void ledger_of(char text[17]) {
  const char *at = strstr(p.out, "\nledger ");
  if (!at) fail_msg("no ledger in: %s", p.out);
  snprintf(text, 17, "%.16s", at + 8);
}

/* The bytes of RUN/checkpoints/NAME (heap). */
static char *checkpoint_bytes(const char *run, const char *name, size_t *n) {
  char path[192];
  void *bytes;
  snprintf(path, sizeof path, "%s/checkpoints/%s", run, name);
  mr_diag_t diag = {0};
  if (mr_read_file(path, 1 << 28, &bytes, n, &diag) < 0) fail_msg("%s", diag.text);
  return bytes;
}

static void put_checkpoint(const char *run, const char *name, const char *bytes, size_t n) {
  char path[192];
  snprintf(path, sizeof path, "%s/checkpoints/%s", run, name);
  assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
}

static void a_resumed_run_ends_as_one_that_never_stopped(void **state) {
  char whole[17], parts[17];
  size_t n, m;
  train(a, "12");
  expect(0, "");
  ledger_of(whole);
  train(b, "7");
  expect(0, "");
  RUN(&p, "train", "--resume", "--run-dir", b, "--steps", "12");
  expect(0, "");
  ledger_of(parts);
  assert_string_equal(parts, whole);
  char *x = checkpoint_bytes(a, "step-000012.safetensors", &n);
  char *y = checkpoint_bytes(b, "step-000012.safetensors", &m);
  uint64_t len_x, len_y;
  memcpy(&len_x, x, 8);
  memcpy(&len_y, y, 8);
  assert_int_equal(n - len_x, m - len_y); /* headers hold settings; the tensors must be equal */
  assert_memory_equal(x + 8 + len_x, y + 8 + len_y, n - 8 - len_x);
  free(x);
  free(y);
}

static void a_damaged_checkpoint_is_not_resumed(void **state) {
  size_t n;
  train(a, "5");
  expect(0, "");
  char *bytes = checkpoint_bytes(a, "step-000005.safetensors", &n);
  bytes[n / 2] ^= 1;
  put_checkpoint(a, "step-000005.safetensors", bytes, n);
  RUN(&p, "train", "--resume", "--run-dir", a, "--steps", "9");
  expect(1, "changed since it was written");
  bytes[n / 2] ^= 1;
  put_checkpoint(a, "step-000005.safetensors", bytes, n - 1);
  RUN(&p, "train", "--resume", "--run-dir", a, "--steps", "9");
  expect(1, "lies outside the file");
  put_checkpoint(a, "step-000005.safetensors", bytes, n);
  RUN(&p, "train", "--resume", "--run-dir", a, "--steps", "9");
  expect(0, "");
  free(bytes);
}

static void a_checkpoint_of_another_model_is_refused(void **state) {
  train(a, "5");
  expect(0, "");
  RUN(&p, "train", "--resume", "--run-dir", a, "--steps", "9", "embed=64", "--allow-change=model");
  expect(1, "a checkpoint of another model: it holds");
}

static void ctrl_c_leaves_a_checkpoint_to_resume_from(void **state) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start((const char *const[]){"train", "--graph", file, "--run-dir", a,
                                                  "mlp=2048", "embed=256", NULL},
                            out, err);
  char path[192];
  snprintf(path, sizeof path, "%s/checkpoints/latest", a);
  struct stat st;
  for (int i = 0; i < 30000 && lstat(path, &st); i++)
    usleep(10000); /* until the first five steps */
  kill(pid, SIGINT);
  p.status = program_wait(pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  assert_int_equal(p.status, 130);
  assert_true(strstr(p.out, "--resume") || strstr(p.err, "--resume"));
}

static void bad_input_gets_one_sentence(void **state) {
  RUN(&p, "train", "--graph", file, "--run-dir", "/proc/nowhere/run", "--steps", "1");
  expect(1, "/proc/nowhere");
  RUN(&p, "train", "--run-dir", a, "--data", "/nowhere", "--steps", "1");
  expect(1, "/nowhere");
  RUN(&p, "train", "--stesp", "1");
  expect(2, "did you mean \"--steps\"?");
  RUN(&p, "train", "--graph", file, "--run-dir", b, "droput=0");
  expect(2, "droput");
  RUN(&p, "train", "--graph", file, "--run-dir", b, "dropout=2");
  expect(2, "dropout");
  RUN(&p, "train", "--resume", "--run-dir", "/nowhere/run");
  expect(1, "/nowhere/run: holds no graph.mr, so it is not a run");
}

/* More classes than a confusion matrix is drawn for. */
static void many_classes_are_trained_and_tested_without_a_matrix(void **state) {
  enum { N = 48, CLASSES = 24, PICTURE = 3 * 8 * 8 };
  static uint8_t images[N * PICTURE];
  int32_t labels[N];
  char name[3][128], text[1024];
  mr_diag_t diag = {0};
  snprintf(name[0], sizeof name[0], "%s/images.npy", dir);
  snprintf(name[1], sizeof name[1], "%s/labels.npy", dir);
  snprintf(name[2], sizeof name[2], "%s/many.mr", dir);
  for (int i = 0; i < N * PICTURE; i++) images[i] = (uint8_t)(i * 7 % 251);
  for (int i = 0; i < N; i++) labels[i] = i % CLASSES;
  if (mr_npy_save(name[0], MR_U8, 4, (int64_t[]){N, 3, 8, 8}, images, &diag) < 0 ||
      mr_npy_save(name[1], MR_I32, 1, (int64_t[]){N}, labels, &diag) < 0)
    fail_msg("%s", diag.text);
  int n =
      snprintf(text, sizeof text,
               "let run = unset\n"
               "npy %s labels=%s classes=24 ! shuffle seed=1 epochs=1 ! normalize ! batch 16\n"
               "  ! vit-step name=train layers=1 embed=32 mlp=32 heads=2 patch=4 leak-check=off\n"
               "npy %s labels=%s classes=24 name=again id-base=1000 ! sequential epochs=1\n"
               "  ! normalize ! batch 16 name=again-batches ! train.test\n"
               "train.metrics ! progress\n"
               "train.metrics ! jsonl path=$run/metrics.jsonl\n",
               name[0], name[1], name[0], name[1]);
  assert_int_equal(mr_write_file(name[2], text, (size_t)n, &diag), MR_OK);
  RUN(&p, "train", "--graph", name[2], "--run-dir", a);
  if (p.status != 0) fail_msg("status %d: %s%s", p.status, p.err, p.out);
  assert_non_null(strstr(p.out, "Done: 3 steps, 48 images"));
  assert_non_null(strstr(p.out, "Test, Loss: "));
  assert_null(strstr(p.out, "truth"));
}

static void a_run_of_no_step_says_why(void **state) {
  mr_diag_t diag = {0};
  char text[512];
  int n =
      snprintf(text, sizeof text,
               "let run = unset\n"
               "synthetic n=64 ! filter key=1000000:2000000 ! shuffle seed=1 ! normalize\n"
               "  ! batch 8 drop-remainder ! vit-step name=train layers=1 embed=32 mlp=32 heads=2\n"
               "train.metrics ! progress\n");
  assert_int_equal(mr_write_file(file, text, (size_t)n, &diag), MR_OK);
  RUN(&p, "train", "--graph", file, "--run-dir", a);
  if (p.status != 0) fail_msg("status %d: %s%s", p.status, p.err, p.out);
  assert_non_null(strstr(p.out, "Done: 0 steps"));
  assert_non_null(strstr(p.out, "batch gave nothing: the stages before it removed every record"));
}

/* Where there is no CIFAR-10, no other records take the place of those that a graph names. */
static void the_data_of_ones_own_graph_are_kept(void **state) {
  static const char *const let[] = {"let data = no-such", "  let\tdata =no-such",
                                    "let data=no-such"};
  char text[512], here[256];
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(dir), 0);
  for (int i = 0; i < 3; i++) {
    snprintf(text, sizeof text,
             "let batch = 8\n%s # not data = here\ncifar10 path=$data ! shuffle seed=1 epochs=1\n"
             "  ! normalize ! batch $batch ! train-step name=t model=mlp\nt.metrics ! progress\n",
             let[i]);
    assert_int_equal(mr_write_file("own.mr", text, strlen(text), NULL), MR_OK);
    RUN(&p, "train", "--graph", "own.mr", "--run-dir", a);
    expect(1, "path=no-such");
  }
  assert_int_equal(chdir(here), 0);
}

/* run=, by which graphs name the folder of their run, is where the run lies. */
static void the_variable_run_is_the_folder_of_the_run(void **state) {
  char run[112], other[112], path[128];
  snprintf(run, sizeof run, "run=%s", a);
  snprintf(other, sizeof other, "run=%s", b);
  snprintf(path, sizeof path, "%s/checkpoints/latest", a);
  RUN(&p, "train", "--graph", file, run, "--steps", "2");
  assert_int_equal(p.status, 0);
  assert_int_equal(access(path, F_OK), 0);
  RUN(&p, "train", "--graph", file, run, "--resume=auto", "--steps", "3");
  if (p.status || !strstr(p.out, "resumed at step 2")) fail_msg("%s%s", p.err, p.out);
  RUN(&p, "train", run, "--resume", "--steps", "4");
  if (p.status || !strstr(p.out, "resumed at step 3")) fail_msg("%s%s", p.err, p.out);
  RUN(&p, "train", "--graph", file, other, "--run-dir", a);
  expect(2, "the folder of the run is given twice");
  RUN(&p, "train", "--graph", file, other, "--fast-dev-run");
  expect(2, "want no run=");
  RUN(&p, "batch", a, "--step", "1", other);
  expect(2, "the graph is that of the run in ");
  RUN(&p, "eval", a, other);
  expect(2, "the graph is that of the run in ");
  snprintf(path, sizeof path, "%s/one.npz", dir);
  RUN(&p, "batch", a, "--step", "1", run, "--out", path);
  if (p.status) fail_msg("%s", p.err);
  const char without[] = "synthetic n=64 ! batch 8 ! train-step model=mlp name=t\n";
  assert_int_equal(mr_write_file(file, without, sizeof without - 1, NULL), MR_OK);
  RUN(&p, "train", "--graph", file, other, "--run-dir", b);
  expect(2, "run=: neither a variable of the graph nor a setting of a stage");
  assert_int_equal(access(b, F_OK), -1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_resumed_run_ends_as_one_that_never_stopped),
      CASE(a_damaged_checkpoint_is_not_resumed),
      CASE(a_checkpoint_of_another_model_is_refused),
      CASE(ctrl_c_leaves_a_checkpoint_to_resume_from),
      CASE(bad_input_gets_one_sentence),
      CASE(a_run_of_no_step_says_why),
      CASE(the_data_of_ones_own_graph_are_kept),
      CASE(the_variable_run_is_the_folder_of_the_run),
      CASE(many_classes_are_trained_and_tested_without_a_matrix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
