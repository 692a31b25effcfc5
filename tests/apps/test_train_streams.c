/* Every stream of a training run resumes from what its checkpoint holds of it: walked ones too, the
   validation streams too, and at once however far it has come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/apps/program.h"

#define HEAD "let run = unset\n"
#define TAIL                                                                                  \
  "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 checkpoint-every=1\n"             \
  "synthetic name=held n=64 split=valid ! shuffle seed=5 epochs=0 ! filter name=some p=0.6\n" \
  "  ! flip ! normalize preset=cifar10 ! batch 16 name=held-batches ! train.valid\n"          \
  "synthetic name=dogs n=48 seed=9 split=valid ! shuffle seed=6 epochs=0 ! flip\n"            \
  "  ! normalize preset=cifar10 ! batch 16 name=dogs-batches ! train.valid.dogs\n"            \
  "synthetic name=last n=32 split=test ! sequential epochs=1 ! normalize preset=cifar10\n"    \
  "  ! batch 16 name=last-batches ! train.test\n"                                             \
  "train.metrics ! jsonl path=$run/metrics.jsonl\n"                                           \
  "train.state ! checkpoint dir=$run/checkpoints keep=0\n"

/* Batches of a function of their number, over holes, of a walk, and made of other batches. */
static const char *const graphs[] = {
    HEAD
    "synthetic n=50 ! shuffle seed=1 epochs=3 ! flip ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder name=batches\n" TAIL,
    HEAD
    "synthetic n=50 ! shuffle seed=1 epochs=3 ! filter name=kept p=0.7 ! flip\n"
    "  ! normalize preset=cifar10 ! batch 8 drop-remainder name=batches\n" TAIL,
    HEAD
    "synthetic n=50 ! shuffle seed=1 epochs=3 ! flip ! to-iter-dataset ! mix.a\n"
    "synthetic name=more n=30 ! shuffle seed=2 epochs=0 ! to-iter-dataset ! mix.b\n"
    "mix name=mix weights=2,1 ! window-shuffle 20 seed=4 ! normalize preset=cifar10\n"
    "  ! batch 8 drop-remainder name=batches\n" TAIL,
    HEAD
    "synthetic n=50 ! shuffle seed=1 epochs=3 ! filter name=kept p=0.7 ! to-iter-dataset\n"
    "  ! normalize preset=cifar10 ! batch 6 name=batches ! rebatch 8 drop-remainder\n" TAIL};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs, WALKED = 2 };

static program_t p;
static char dir[64];

static const char *in_dir(const char *name) {
  static char path[4][192];
  static int turn;
  char *to = path[turn++ % 4];
  snprintf(to, sizeof path[0], "%s/%s", dir, name);
  return to;
}

static void went_well(void) {
  if (p.status) fail_msg("status %d: %s%s", p.status, p.out, p.err);
}

static void write_graph(int g) {
  assert_int_equal(mr_write_file(in_dir("graph.mr"), graphs[g], strlen(graphs[g]), NULL), MR_OK);
}

static void start_run(const char *name, const char *steps) {
  RUN(&p, "train", "--graph", in_dir("graph.mr"), "--run-dir", in_dir(name), steps,
      "leak-check=off");
  went_well();
}

static void resume(const char *name, const char *steps, const char *workers) {
  RUN(&p, "train", "--resume", "--run-dir", in_dir(name), steps, workers);
  went_well();
}

static void remove_run(const char *name) { assert_int_equal(program_forget(in_dir(name)), 0); }

static char *contents(const char *run, const char *file, size_t *n) {
  char path[192];
  void *bytes;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s/%s", dir, run, file);
  if (mr_read_file(path, 1 << 28, &bytes, n, &diag) < 0) fail_msg("%s", diag.text);
  return bytes;
}

/* What the validations said, without the time they took; and the step of the last one. */
static char *validations(const char *run, int *steps) {
  size_t n;
  char *text = contents(run, "metrics.jsonl", &n), *save = NULL, *out = calloc(n + 1, 1);
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    const char *step = strstr(line, "\"step\":"), *loss = strstr(line, "\"loss\":");
    if (step && atoi(step + 7) > *steps) *steps = atoi(step + 7);
    if (!strstr(line, "\"kind\":\"valid") || !step || !loss) continue;
    sprintf(out + strlen(out), "%d %.24s\n", atoi(step + 7), loss);
  }
  free(text);
  return out;
}

static int expect_same_run(const char *whole, const char *other, const char *what) {
  size_t n, m;
  int steps = 0, again = 0;
  char *x = contents(whole, "checkpoints/latest", &n),
       *y = contents(other, "checkpoints/latest", &m);
  if (n != m || memcmp(x, y, n)) fail_msg("%s: another checkpoint at the end", what);
  free(x), free(y);
  x = validations(whole, &steps), y = validations(other, &again);
  if (strcmp(x, y)) fail_msg("%s: validations were\n%swant\n%s", what, y, x);
  assert_non_null(strchr(x, '\n'));
  free(x), free(y);
  assert_int_equal(steps, again);
  return steps;
}

static void a_run_left_at_any_step_resumes_with_all_its_streams(void **state) {
  for (int g = 0; g < N_GRAPHS; g++) {
    write_graph(g);
    start_run("whole", "steps=0");
    int steps = expect_same_run("whole", "whole", "itself"), cut = 1;
    assert_in_range(steps, 8, 40);
    for (; cut < steps; cut += 1 + steps / 5) {
      char at[32], what[64];
      snprintf(at, sizeof at, "steps=%d", cut);
      snprintf(what, sizeof what, "graph %d left at step %d", g, cut);
      start_run("other", at);
      resume("other", "steps=0", cut % 2 ? "batches.workers=3" : "batches.workers=1");
      expect_same_run("whole", "other", what);
      remove_run("other");
    }
    remove_run("whole");
  }
}

/* ---- checkpoints as others have left them ---- */

enum { TENSORS_MAX = 256 };

typedef struct edit {
  bool without_streams; /* as the first version wrote it */
  const char *version;
  int64_t far; /* added to all numbers of the training stream but its own count */
  int words;   /* how many numbers that stream then has */
} edit_t;

static void edit_checkpoint(const char *run, edit_t *e) {
  static const char *const key[] = {"millrace.step",     "millrace.images", "millrace.epoch",
                                    "millrace.position", "millrace.seed",   "millrace.unvalidated",
                                    "millrace.ledger",   "millrace.model",  "millrace.data",
                                    "millrace.optimizer"};
  char path[192];
  mr_safetensors_t *f;
  mr_diag_t d = {0};
  mr_st_tensor_t tensor[TENSORS_MAX];
  mr_st_meta_t meta[16];
  int64_t number[512];
  int n = 0, n_meta = 0;
  snprintf(path, sizeof path, "%s/%s/checkpoints/latest", dir, run);
  assert_int_equal(mr_safetensors_open(path, &f, &d), MR_OK);
  assert_non_null(mr_safetensors_meta(f, "millrace.version"));
  for (size_t i = 0; i < sizeof key / sizeof *key; i++)
    meta[n_meta++] = (mr_st_meta_t){key[i], mr_safetensors_meta(f, key[i])};
  if (e->version) meta[n_meta++] = (mr_st_meta_t){"millrace.version", e->version};
  for (int i = 0; i < mr_safetensors_count(f) && n < TENSORS_MAX; i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    if (e->without_streams && !strncmp(t->name, "stream/", 7)) continue;
    tensor[n++] = *t;
    if (strcmp(t->name, "stream/in")) continue;
    e->words = (int)t->dim[0] - 2;
    assert_true(t->dim[0] * 8 <= 4096);
    memcpy(number, t->data, (size_t)t->dim[0] * 8);
    for (int k = 0; k < t->dim[0]; k++) number[k] += k == 1 ? 0 : e->far;
    tensor[n - 1].data = number;
  }
  if (mr_safetensors_write(in_dir("edited"), tensor, n, meta, n_meta, &d) < 0)
    fail_msg("%s", d.text);
  mr_safetensors_close(f);
  char link[192];
  snprintf(link, sizeof link, "%s/%s/checkpoints/latest", dir, run);
  assert_int_equal(unlink(link), 0);
  assert_int_equal(rename(in_dir("edited"), link), 0);
}

static void checkpoints_of_the_first_version_resume(void **state) {
  for (int g = 0; g < WALKED + 1; g++) {
    size_t n, m;
    edit_t e = {.without_streams = true};
    write_graph(g);
    start_run("whole", "steps=6");
    start_run("other", "steps=3");
    edit_checkpoint("other", &e);
    resume("other", "steps=6", "batches.workers=2");
    char *x = contents("whole", "checkpoints/latest", &n);
    char *y = contents("other", "checkpoints/latest", &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x), free(y);
    remove_run("whole"), remove_run("other");
  }
}

static void a_newer_version_is_refused(void **state) {
  edit_t e = {.version = "5"};
  write_graph(0);
  start_run("other", "steps=2");
  edit_checkpoint("other", &e);
  RUN(&p, "train", "--resume", "--run-dir", in_dir("other"), "steps=4");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "a checkpoint of version 5, want at most 4"));
  remove_run("other");
}

/* A walk through a hundred million million records would never end: the words say where to resume.
 */
static void how_far_a_stream_has_come_costs_nothing(void **state) {
  static const char endless[] = HEAD
      "synthetic n=50 ! shuffle seed=1 epochs=0 ! flip ! to-iter-dataset\n"
      "  ! random-map seed=3 ! normalize preset=cifar10 ! batch 8 name=batches\n" TAIL;
  edit_t e = {.version = "2", .far = INT64_C(100000000000000)};
  assert_int_equal(mr_write_file(in_dir("graph.mr"), endless, sizeof endless - 1, NULL), MR_OK);
  start_run("other", "steps=2");
  edit_checkpoint("other", &e);
  assert_true(e.words > 1);
  resume("other", "steps=4", "batches.workers=2");
  remove_run("other");
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-streams-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_left_at_any_step_resumes_with_all_its_streams),
      cmocka_unit_test(checkpoints_of_the_first_version_resume),
      cmocka_unit_test(a_newer_version_is_refused),
      cmocka_unit_test(how_far_a_stream_has_come_costs_nothing),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
