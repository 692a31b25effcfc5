/* Every option of every command that names a file to write, given what is no regular file: it is
   written to, or refused, but never replaced.  A rename would put a file in the place of
   /dev/stdout itself.  The options are those of the help texts: one that is added and has no row is
   noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tests/apps/small_run.h"

static char checkpoint[160], pictures[96];

enum { MOST = 12 };

/* A command with an option that writes; WHOLE is a run's folder, PICTURES an array of some,
   CHECKPOINT its last state, TO what the option is given. */
typedef struct row {
  const char *option, *ending;
  const char *word[MOST];
} row_t;

static const row_t row[] = {
    {"--trace", "", {"train", "--graph", "GRAPH", "--run-dir", "OTHER", "--trace", "TO"}},
    {"--trace", "", {"run", "synthetic n=64 ! batch 16 ! null", "--trace", "TO"}},
    {"--svg", "", {"graph", "synthetic n=64 ! batch 16 ! null", "--svg", "TO"}},
    {"--jsonl", "", {"eval", "CHECKPOINT", "--jsonl", "TO"}},
    {"--mistakes", "", {"eval", "CHECKPOINT", "--mistakes", "TO"}},
    {"--out", ".jsonl", {"predict", "CHECKPOINT", "PICTURES", "--out", "TO"}},
    {"--out", ".csv", {"predict", "CHECKPOINT", "PICTURES", "--out", "TO"}},
    {"--out", ".npz", {"predict", "CHECKPOINT", "PICTURES", "--out", "TO"}},
    {"--out", ".safetensors", {"export", "CHECKPOINT", "--format", "timm", "--out", "TO"}},
    {"--out", ".safetensors", {"checkpoint", "merge", "WHOLE", "--out", "TO"}},
    {"--out", ".npz", {"batch", "WHOLE", "--step", "1", "--out", "TO"}},
    {"--out", ".npy", {"batch", "WHOLE", "--step", "1", "--out", "TO"}},
    {"--labels",
     ".npy",
     {"batch", "WHOLE", "--step", "1", "--out", "ELSEWHERE.npy", "--labels", "TO"}},
    {"--rates", "", {"bench", "ranks", "--ranks", "2", "--rates", "TO"}},
    {"--pprof", "", {"mem", "grad", "model=mlp", "--no-run", "--pprof", "TO"}},
    {"--trace", "", {"profile", "GRAPH", "train.steps=9", "--steps", "1", "--trace", "TO"}},
    {"--flame", "", {"profile", "GRAPH", "train.steps=9", "--steps", "1", "--flame", "TO"}},
    {"--json", "", {"profile", "GRAPH", "train.steps=9", "--steps", "1", "--json", "TO"}},
};
enum { ROWS = sizeof row / sizeof *row };

/* Black pictures, as numpy.save writes them. */
static bool write_pictures(void) {
  enum { HEADER = 128, PICTURES = 20 };
  static uint8_t bytes[HEADER + PICTURES * 32 * 32 * 3] = "\x93NUMPY\1\0\x76";
  int n =
      snprintf((char *)bytes + 10, HEADER - 10,
               "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 32, 32, 3), }", PICTURES);
  memset(bytes + 10 + n, ' ', (size_t)(HEADER - 11 - n)), bytes[HEADER - 1] = '\n';
  snprintf(pictures, sizeof pictures, "%s/pictures.npy", dir);
  return mr_write_file(pictures, bytes, sizeof bytes, NULL) >= 0;
}

static int setup(void **state) {
  static const char graph[] =
      "let run = x\n"
      "synthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 drop-remainder ! train-step "
      "name=train model=vit embed=16 mlp=32 heads=2 layers=1 patch=8 threads=1 steps=2 "
      "checkpoint-every=2\n"
      "train.metrics ! jsonl path=$run/metrics.jsonl\n"
      "train.state ! checkpoint dir=$run/checkpoints\n";
  int status = small_run("written", graph);
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/latest", whole);
  return status || !write_pictures();
}

/* ---- which options write ---- */

static bool has_row(const char *command, const char *option) {
  for (int i = 0; i < ROWS; i++)
    if (!strcmp(row[i].word[0], command) && !strcmp(row[i].option, option)) return true;
  return false;
}

/* What an option's help says when the option names a file to write. */
static bool writes(const char *help) {
  static const char *const word[] = {"rites ", "to write", "Where the rows go", "Where its "};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (strstr(help, word[i])) return true;
  return false;
}

static int options_of(const char *command) {
  static char text[1 << 16];
  int n = 0;
  char *rest, option[32], value[32];
  RUN(&p, command, "--help");
  strcpy(text, p.out);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    if (sscanf(line, " %31[-a-z] %31s", option, value) != 2 || strncmp(value, "FILE", 4) ||
        !writes(line))
      continue;
    if (!has_row(command, option)) fail_msg("%s %s: add it to the rows", command, option);
    n++;
  }
  return n;
}

static void every_option_that_writes_has_a_row(void **state) {
  static char list[1 << 16];
  char *rest, command[32];
  int n = 0;
  setenv("COLUMNS", "10000", 1);
  RUN(&p, "--help");
  strcpy(list, p.out);
  for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    if (sscanf(line, "  %31[a-z]", command) == 1 && line[2] != ' ' && line[0] == ' ')
      n += options_of(command);
  unsetenv("COLUMNS");
  assert_true(n >= 13);
}

/* ---- what they are given ---- */

static void put(char *text, size_t n, const char *word, const char *to) {
  const char *const from[] = {"GRAPH",         "OTHER",    "CHECKPOINT", "WHOLE",
                              "ELSEWHERE.npy", "PICTURES", "TO"};
  char elsewhere[96];
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere.npy", dir);
  const char *const by[] = {file, other, checkpoint, whole, elsewhere, pictures, to};
  snprintf(text, n, "%s", word);
  for (int i = 0; i < 7; i++)
    if (!strcmp(word, from[i])) snprintf(text, n, "%s", by[i]);
}

typedef enum target { LINK, LOST_LINK, PIPE, DEVICE, FOLDER, TARGETS } target_t;

/* Makes it at `to`; -1: this user cannot. */
static int make_target(target_t what, const char *to, const char *precious) {
  switch (what) {
    case LINK: return symlink(precious, to);
    case LOST_LINK: return symlink("/tmp/mr-written-nowhere/x", to);
    case PIPE: return mkfifo(to, 0600);
    case DEVICE: return mknod(to, S_IFCHR | 0600, makedev(1, 3)); /* as /dev/null */
    default: return mkdir(to, 0700);
  }
}

static void forget_other(void) {
  if (access(other, F_OK) == 0) assert_int_equal(program_forget(other), 0);
}

static void give(const row_t *r, target_t what) {
  char to[96], precious[96], text[MOST][200];
  const char *word[MOST + 1] = {NULL};
  struct stat before, after;
  snprintf(to, sizeof to, "%s/to%s", dir, r->ending);
  snprintf(precious, sizeof precious, "%s/precious", dir);
  assert_int_equal(mr_write_file(precious, "mine", 4, NULL), MR_OK);
  if (make_target(what, to, precious)) return;
  int reader = what == PIPE ? open(to, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
  assert_int_equal(lstat(to, &before), 0);
  for (int i = 0; i < MOST && r->word[i]; i++)
    put(text[i], sizeof text[i], r->word[i], to), word[i] = text[i];
  program_run(&p, word);
  if (lstat(to, &after)) fail_msg("%s %s: removed", r->word[0], to);
  if (before.st_ino != after.st_ino || before.st_mode != after.st_mode)
    fail_msg("%s %s (%d) is another thing now: %s", r->word[0], to, what, p.err);
  if (p.status && !strstr(p.err, to)) fail_msg("%s %d: %d %s", r->word[0], what, p.status, p.err);
  if (p.status > 2) fail_msg("%s %d: %d %s", r->word[0], what, p.status, p.err);
  if (reader >= 0) close(reader);
  assert_int_equal(what == FOLDER ? rmdir(to) : unlink(to), 0);
  forget_other();
}

static void only_a_regular_file_is_replaced(void **state) {
  for (int i = 0; i < ROWS; i++)
    for (target_t what = 0; what < TARGETS; what++) give(&row[i], what);
}

/* Else the test above would test nothing. */
static void a_regular_file_is_written(void **state) {
  for (int i = 0; i < ROWS; i++) {
    char to[96], text[MOST][200];
    const char *word[MOST + 1] = {NULL};
    struct stat st;
    snprintf(to, sizeof to, "%s/file%s", dir, row[i].ending);
    for (int k = 0; k < MOST && row[i].word[k]; k++)
      put(text[k], sizeof text[k], row[i].word[k], to), word[k] = text[k];
    program_run(&p, word);
    bool no_dot = p.status && strstr(p.err, "dot");
    if (p.status && !no_dot) fail_msg("%s %s: %s", row[i].word[0], row[i].option, p.err);
    if (!no_dot && (stat(to, &st) || !st.st_size))
      fail_msg("%s: nothing in %s", row[i].word[0], to);
    unlink(to);
    forget_other();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_option_that_writes_has_a_row),
      cmocka_unit_test(a_regular_file_is_written),
      cmocka_unit_test(only_a_regular_file_is_replaced),
  };
  setenv("OMP_WAIT_POLICY", "passive", 0);
  return cmocka_run_group_tests(tests, setup, small_run_forget);
}
