/* Bad input to millrace train: one sentence, the right exit status, nothing half-written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/feature.h"
#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/program.h"

enum { RECORD = 3073, BATCH_FILE = 10000 * RECORD };

#define MODEL "vit-step name=train layers=1 embed=32 mlp=32 heads=2 checkpoint-every=5\n"
#define SINKS                                       \
  "train.metrics ! jsonl path=$run/metrics.jsonl\n" \
  "train.state ! checkpoint dir=$run/checkpoints keep=0\n"

static const char synthetic[] =
    "let run = unset\n"
    "synthetic n=200 ! shuffle seed=12 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder name=batches ! " MODEL SINKS;
static const char real[] =
    "let run = unset\nlet data = unset\n"
    "cifar10 path=$data split=train name=data ! sequential epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder ! " MODEL SINKS;

static program_t p;
static char dir[64], synthetic_mr[96], real_mr[96], run[96], data[96];

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-bad-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(synthetic_mr, sizeof synthetic_mr, "%s/made-up.mr", dir);
  snprintf(real_mr, sizeof real_mr, "%s/real.mr", dir);
  snprintf(run, sizeof run, "%s/run", dir);
  snprintf(data, sizeof data, "%s/data", dir);
  if (mr_write_file(synthetic_mr, synthetic, sizeof synthetic - 1, NULL) < 0) return -1;
  return mr_write_file(real_mr, real, sizeof real - 1, NULL);
}

static int teardown(void **state) { return program_forget(dir); }

/* One line on standard error that holds both texts. */
static void refuses(int status, const char *what, const char *expected) {
  if (p.status != status || !strstr(p.err, what) || !strstr(p.err, expected))
    fail_msg("status %d, expected %d, \"%s\" and \"%s\": %s", p.status, status, what, expected,
             p.err);
  const char *end = strchr(p.err, '\n');
  if (!end || end[1]) fail_msg("not one line: %s", p.err);
}

/* A run that never began leaves no folder. */
static void nothing_left(void) {
  struct stat st;
  if (stat(run, &st) == 0) fail_msg("%s was left behind: %s", run, p.err);
}

static void with(const char *name_value) {
  RUN(&p, "train", "--graph", synthetic_mr, "--run-dir", run, "--steps", "2", name_value);
}

/* A filter or a limit decides how long a stream is: such a stream is not called endless. */
static void a_schedule_asks_for_steps_and_says_what_is_known_of_the_stream(void **state) {
  static const char unknown[] =
      "the number of batches is not known before they are made, want "
      "steps= beside it",
                    endless[] = "the stream is endless, want steps= beside it";
  static const struct {
    const char *stream, *schedule, *says;
  } t[] = {{"filter 0,1 ! shuffle seed=1 epochs=2", "cosine", unknown},
           {"shuffle seed=1 epochs=2 ! limit 1000", "linear", unknown},
           {"sequential epochs=1 ! filter 0", "linear", unknown},
           {"shuffle seed=1 epochs=0", "cosine", endless},
           {"sequential epochs=0", "linear", endless}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char text[300];
    snprintf(text, sizeof text,
             "synthetic ! %s ! normalize ! batch 50 drop-remainder ! train-step model=mlp hidden=8 "
             "schedule=%s",
             t[i].stream, t[i].schedule);
    RUN(&p, "run", text);
    if (p.status != 2 || !strstr(p.err, t[i].says))
      fail_msg("%s: status %d: %s", text, p.status, p.err);
  }
}

static void wrong_settings_are_usage_errors(void **state) {
  static const struct {
    const char *given, *what, *expected;
  } t[] = {
      {"lr=fast", "lr", "fast"},
      {"lr=-1", "lr", "-1"},
      {"lr=nan", "lr", "nan"},
      {"dropout=2", "dropout", "2"},
      {"layers=1.5", "layers", "1.5"},
      {"layers=99999999999999999999", "layers", "99999999999999999999"},
      {"heads=", "heads", ""},
      {"schedule=cosin", "schedule", "want one of constant|cosine"},
      {"droput=0.5", "droput", "did you mean \"dropout\"?"},
      {"train.layer=2", "layer", "did you mean \"layers\"?"},
      {"trein.layers=2", "trein", "did you mean \"train\"?"},
      {"batches.workers=0", "workers", "0"},
      {"name", "\"name\"", "NAME=VALUE"},
      {"=3", "\"=3\"", "NAME=VALUE"},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    with(t[i].given);
    refuses(2, t[i].what, t[i].expected);
    nothing_left();
  }
}

static void a_graph(const char *text, int status, const char *what, const char *expected) {
  char path[96];
  snprintf(path, sizeof path, "%s/bad.mr", dir);
  assert_int_equal(mr_write_file(path, text, strlen(text), NULL), MR_OK);
  RUN(&p, "train", "--graph", path, "--run-dir", run, "--steps", "2");
  refuses(status, what, expected);
  nothing_left();
}

static void bad_graphs_are_reported_with_line_and_column(void **state) {
  a_graph("synthetic ! shuffle ! normalize ! batch 8 drop-remainder\n" MODEL, 2, "batch", "");
  a_graph("synthetic ! shuffle ! " MODEL, 2, "train takes batches", "records");
  a_graph("synthetic ! shufle ! null", 2, "shufle", "did you mean \"shuffle\"?");
  a_graph("synthetic ! ", 2, "1:", "");
  a_graph("", 2, "", "");
  RUN(&p, "train", "--graph", "/nowhere/x.mr", "--run-dir", run);
  refuses(1, "/nowhere/x.mr", "");
  nothing_left();
}

static void wrong_flags_are_usage_errors(void **state) {
  RUN(&p, "train", "--epoch", "2");
  refuses(2, "--epoch", "did you mean \"--epochs\"?");
  RUN(&p, "train", "--steps", "many", "--graph", synthetic_mr, "--run-dir", run);
  refuses(2, "steps", "many");
  nothing_left();
  RUN(&p, "train", "--graph", synthetic_mr, "--run-dir", run, "--device", "tpu");
  refuses(2, "device", "tpu");
  nothing_left();
  if (!access("/dev/nvidiactl", F_OK)) return; /* a driver is here */
  RUN(&p, "train", "--graph", synthetic_mr, "--run-dir", run, "--device", "cuda");
  refuses(1, "device", mr_built_in("CUDA") ? "NVIDIA driver" : "no CUDA backend");
  nothing_left();
}

/* ---- data ---- */

/* The official layout of empty pictures with label 0; sparse, so it costs no disk. */
static void make_data(void) {
  char path[160];
  mkdir(data, 0777);
  for (int i = 1; i <= 6; i++) {
    snprintf(path, sizeof path, i < 6 ? "%s/data_batch_%d.bin" : "%s/test_batch.bin", data, i);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BATCH_FILE), 0);
    close(fd);
  }
}

static void on_data(const char *where) {
  RUN(&p, "train", "--graph", real_mr, "--run-dir", run, "--steps", "2", "--data", where);
}

static void third(char path[160]) { snprintf(path, 160, "%s/data_batch_3.bin", data); }

static void data_that_is_not_cifar10_is_refused(void **state) {
  char path[160], size[32];
  on_data("/nowhere/data");
  refuses(1, "/nowhere/data", "");
  on_data(real_mr); /* a file */
  refuses(1, real_mr, "");
  make_data();
  third(path);
  for (int by = -1; by <= 1; by += 2) {
    assert_int_equal(truncate(path, BATCH_FILE + by), 0);
    on_data(data);
    refuses(1, path, "30730000");
    snprintf(size, sizeof size, "%d bytes", BATCH_FILE + by);
    assert_non_null(strstr(p.err, size));
    nothing_left();
  }
  unlink(path);
  on_data(data);
  refuses(1, path, "");
  nothing_left();
  mkdir(path, 0777);
  on_data(data);
  refuses(1, path, "");
  nothing_left();
}

static void foreign_labels_are_refused(void **state) {
  char path[160];
  unsigned char label[] = {10, 255};
  for (int i = 0; i < 2; i++) {
    make_data();
    for (int k = 1; k <= 5; k++) {
      snprintf(path, sizeof path, "%s/data_batch_%d.bin", data, k);
      int fd = open(path, O_WRONLY);
      for (int r = 0; r < 10000; r++)
        assert_int_equal(pwrite(fd, label + i, 1, (off_t)r * RECORD), 1);
      close(fd);
    }
    on_data(data);
    refuses(1, i ? "label 255" : "label 10", "want [0,9]");
  }
}

static void good_data_of_this_kind_is_taken(void **state) {
  make_data();
  on_data(data);
  if (p.status != 0) fail_msg("%s", p.err);
}

/* ---- checkpoints ---- */

static char *bytes_of(const char *name, size_t *n) {
  char path[192];
  void *bytes;
  snprintf(path, sizeof path, "%s/checkpoints/%s", run, name);
  assert_int_equal(mr_read_file(path, 1 << 28, &bytes, n, NULL), MR_OK);
  return bytes;
}

static void put(const char *bytes, size_t n) {
  char path[192];
  snprintf(path, sizeof path, "%s/checkpoints/step-000005.safetensors", run);
  assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
}

static void resume_refused(void) {
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "6");
  refuses(1, "checkpoints/latest", "");
}

static void a_checkpoint_cut_or_changed_anywhere_is_refused(void **state) {
  size_t n, m;
  RUN(&p, "train", "--graph", synthetic_mr, "--run-dir", run, "--steps", "5");
  assert_int_equal(p.status, 0);
  char *good = bytes_of("step-000005.safetensors", &n);
  const size_t cut[] = {0, 1, 7, 8, 9, 100, n / 2, n - 1};
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) put(good, cut[i]), resume_refused();
  const size_t at[] = {0, 3, 7, 8, 12, 40, 200, 1000, n / 3, n / 2, n - 1};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    good[at[i]] ^= 1;
    put(good, n), resume_refused();
    good[at[i]] ^= 1;
  }
  put("It is a text, not a checkpoint.", 31), resume_refused();
  char *now = bytes_of("step-000005.safetensors", &m);
  assert_int_equal(m, 31); /* a refused resume wrote nothing */
  free(now);
  put(good, n);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "6");
  assert_int_equal(p.status, 0);
  free(good);
}

static void another_model_is_named(void **state) {
  RUN(&p, "train", "--graph", synthetic_mr, "--run-dir", run, "--steps", "5");
  assert_int_equal(p.status, 0);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "6", "layers=2",
      "--allow-change=model");
  refuses(1, "layers=1", "layers=2");
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "6"); /* it spoilt nothing */
  if (p.status != 0) fail_msg("%s", p.err);
}

/* ---- run folders ---- */

static void run_folders_that_cannot_be_used_are_named(void **state) {
  char below[128];
  snprintf(below, sizeof below, "%s/run", synthetic_mr); /* below a file */
  RUN(&p, "train", "--graph", synthetic_mr, "--run-dir", below, "--steps", "2");
  refuses(1, synthetic_mr, "");
  RUN(&p, "train", "--resume", "--run-dir", run);
  refuses(1, run, "");
  nothing_left();
  with("lr=1e-3");
  assert_int_equal(p.status, 0);
  with("lr=1e-3");
  refuses(2, run, "--resume");
}

/* ---- no space ---- */

static void limited(rlim_t bytes, const char *const *words) {
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = (struct rlimit){bytes, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  program_run(&p, words);
  setrlimit(RLIMIT_FSIZE, &old);
}

static void opens_well(const char *path) {
  mr_safetensors_t *f;
  mr_diag_t diag = {0};
  if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

static void no_space_ends_the_run_and_spares_the_old_checkpoint(void **state) {
  char path[192];
  with("lr=1e-3");
  assert_int_equal(p.status, 0);
  limited(20000,
          (const char *const[]){"train", "--resume", "--run-dir", run, "--steps", "9", NULL});
  refuses(1, "checkpoints/step-", "cannot write");
  snprintf(path, sizeof path, "%s/checkpoints/latest", run);
  opens_well(path);
  snprintf(path, sizeof path, "ls -A '%s/checkpoints' | grep -q part", run);
  assert_int_not_equal(system(path), 0);
  RUN(&p, "train", "--resume", "--run-dir", run, "--steps", "9");
  if (p.status != 0) fail_msg("%s", p.err);
}

static void metrics_without_space_fail_the_run_only_at_its_end(void **state) {
  char path[192];
  with("jsonl.path=/dev/full");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "jsonl: /dev/full: cannot write: No space left"));
  assert_non_null(strstr(p.err, "records could not be written"));
  snprintf(path, sizeof path, "%s/checkpoints/latest", run);
  opens_well(path);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(wrong_settings_are_usage_errors),
      CASE(a_schedule_asks_for_steps_and_says_what_is_known_of_the_stream),
      CASE(bad_graphs_are_reported_with_line_and_column),
      CASE(wrong_flags_are_usage_errors),
      CASE(data_that_is_not_cifar10_is_refused),
      CASE(foreign_labels_are_refused),
      CASE(good_data_of_this_kind_is_taken),
      CASE(a_checkpoint_cut_or_changed_anywhere_is_refused),
      CASE(another_model_is_named),
      CASE(run_folders_that_cannot_be_used_are_named),
      CASE(no_space_ends_the_run_and_spares_the_old_checkpoint),
      CASE(metrics_without_space_fail_the_run_only_at_its_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
