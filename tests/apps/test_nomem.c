/* An allocation of a command fails: it ends with a status above 0 and says why, or what it wrote is
   whole.  A few allocations of each command, chosen by a seed that is the same on every run;
   MILLRACE_NOMEM=SEED chooses others, MILLRACE_NOMEM=all takes every one, MILLRACE_NOMEM=every-N
   each N-th.  MILLRACE_NOMEM_COMMAND=NAME runs one command alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

#ifndef MR_FAULTS
#define MR_FAULTS "" /* a sanitizer allows no allocator but its own */
#endif

enum { FEW = 32, SEED = 20, WORDS = 24, WORD_MAX = 768, TEXT_MAX = 1 << 20 };

static char dir[] = "/tmp/mr-nomem-XXXXXX", out_dir[64], kept_dir[64];
static program_t p;
static long every; /* each `every`-th allocation fails; 0: FEW of them do */
static unsigned seed, draws;

/* What of its standard output is part of what a command is asked for. */
typedef enum says { NOTHING, ALL, ALL_BUT_NUMBERS } says_t;

typedef struct command {
  const char *name;
  says_t says;
  const char *words[WORDS]; /* $O: the folder for what it writes, $K: that of an earlier run */
} command_t;

#define TRAINER                                                                     \
  "vit-step name=train layers=1 embed=16 mlp=16 heads=2 patch=8 threads=1 steps=3 " \
  "checkpoint-every=2"

#define TRAINED                                                                            \
  "synthetic n=64 ! shuffle seed=1 epochs=0 ! flip ! normalize ! batch 16 drop-remainder " \
  "! " TRAINER

#define TINY "--layers", "1", "--embed", "16", "--mlp", "16", "--heads", "2", "--patch", "8"

static const char graph[] = "let run = x\nlet data = synthetic\n" TRAINED
                            " watch-every=2\n"
                            "train.metrics ! jsonl path=$run/metrics.jsonl\n"
                            "train.metrics ! csv path=$run/m.csv\n"
                            "train.state ! checkpoint dir=$run/checkpoints keep=0\n";

static const command_t commands[] = {
    {"ledger",
     NOTHING,
     {"run",
      "synthetic n=64 ! shuffle seed=1 epochs=1 ! flip ! normalize ! batch 16 workers=2 ! ledger "
      "path=$O/l state=$O/s.json"}},
    {"walk",
     NOTHING,
     {"run",
      "synthetic n=64 ! filter 0,1,2,3 ! mix weights=7,3 name=m synthetic seed=9 n=64 ! shuffle "
      "seed=1 ! m.b m. ! window-shuffle 8 seed=1 ! batch 8 workers=2 ! rebatch 12 ! ledger "
      "path=$O/l state=$O/s.json steps=4"}},
    {"graph",
     ALL,
     {"graph",
      "synthetic ! filter 0,1,2,3 ! mix weights=7,3 name=m synthetic seed=9 ! shuffle seed=1 ! m.b "
      "m. ! batch 128 workers=2 ! null"}},
    {"inspect", ALL, {"inspect", "$K/run/checkpoints/step-000003.safetensors"}},
    {"index", ALL, {"index", "--records", "500", "--seed", "12", "--epochs", "1"}},
    {"batch",
     NOTHING,
     {"batch", "$K/run", "--step", "2", "--out", "$O/x.npy", "--labels", "$O/y.npy"}},
    {"who", ALL, {"who", "$K/run", "--step", "2"}},
    {"runs", ALL_BUT_NUMBERS, {"runs", "$K/run", "$K/run"}},
    {"train", NOTHING, {"train", "--graph", "$K/graph.mr", "--run-dir", "$O/run"}},
    {"run",
     NOTHING,
     {"run", TRAINED "\ntrain.metrics ! jsonl path=$O/m.jsonl\ntrain.metrics ! csv path=$O/m.csv\n"
                     "train.state ! checkpoint dir=$O/c keep=0\n"}},
    {"eval",
     ALL,
     {"eval", "$K/run/checkpoints/latest", "--data", "synthetic", "--threads", "1", "--jsonl",
      "$O/e.jsonl"}},
    {"jaxpr", ALL, {"jaxpr", "step", TINY, "--batch", "2"}},
    {"mem", ALL, {"mem", "step", TINY, "--batch", "2"}},
    {"plan", ALL, {"mem", "grad", TINY, "--batch", "2", "--no-run", "--timeline"}},
    {"explain", ALL, {"explain", "grad", TINY, "--batch", "2"}},
    {"summary", ALL, {"summary", TINY}},
    {"processes",
     NOTHING,
     {"run",
      "process reader { synthetic n=64 ! shuffle seed=1 epochs=1 ! batch 16 name=batches }\n"
      "process writer { ledger path=$O/l state=$O/s.json name=lines }\nbatches. ! lines.\n"}},
};

/* ---- what a command wrote ---- */

static char *wrote; /* TEXT_MAX bytes: every file of the folder */
static size_t n_wrote;

static void add(const void *data, size_t n) {
  if (n > TEXT_MAX - n_wrote) n = TEXT_MAX - n_wrote;
  memcpy(wrote + n_wrote, data, n);
  n_wrote += n;
}

/* Times and rates differ from run to run: numbers, and the spaces that align them, are left out. */
static void add_without_numbers(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (text[i] == ' ') continue;
    if (!isdigit((unsigned char)text[i])) {
      add(text + i, 1);
      continue;
    }
    while (i + 1 < n && (isalnum((unsigned char)text[i + 1]) || strchr(".+-", text[i + 1]))) i++;
    add("#", 1);
  }
}

static bool is_time(const char *name, size_t n) {
  static const char *const times[] = {"elapsed_s", "step_s", "images_per_s"};
  for (int i = 0; i < 3; i++)
    if (n == strlen(times[i]) && !memcmp(name, times[i], n)) return true;
  return false;
}

/* Lines of JSON without the values of the fields that are times. */
static void add_jsonl(const char *text, size_t size) {
  const char *end = text + size;
  for (const char *next; text < end; text = next) {
    next = text + 1 + strcspn(text + 1, ",}");
    const char *name = strchr(text, '"'), *colon = strchr(text, ':');
    bool time = name && colon && colon < next && is_time(name + 1, (size_t)(colon - name - 2));
    add(text, (size_t)((time ? colon : next) - text));
  }
}

/* A table without the columns that are times. */
static void add_csv(const char *text, size_t size) {
  bool time[128] = {false}, header = true;
  int column = 0;
  for (const char *end = text + size; text < end; text++) {
    size_t n = strcspn(text, ",\n");
    assert_true(column < 128);
    if (header) time[column] = is_time(text, n);
    if (!time[column]) add(text, n + 1);
    text += n;
    column++;
    if (*text == '\n') header = false, column = 0;
  }
}

static bool ends_in(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n >= k && !strcmp(name + n - k, end);
}

/* How many records: each is its length, a checksum of that, the record and its checksum. */
static void add_events(const char *data, size_t size) {
  char text[32];
  int records = 0;
  for (uint64_t n, at = 0; at + sizeof n <= size; at += n + 16, records++)
    memcpy(&n, data + at, sizeof n);
  add(text, (size_t)snprintf(text, sizeof text, "%d records", records));
}

/* A file of TensorBoard has the time in its name and in each record. */
static void add_file(const char *path, const char *name) {
  void *data;
  size_t n;
  mr_diag_t diag = {0};
  if (mr_read_file(path, 1 << 24, &data, &n, &diag) < 0) fail_msg("%s", diag.text);
  if (!strncmp(name, "events.out", 10)) {
    add_events(data, n);
  } else {
    add(name, strlen(name));
    if (ends_in(name, ".jsonl"))
      add_jsonl(data, n);
    else if (ends_in(name, ".csv"))
      add_csv(data, n);
    else
      add(data, n);
  }
  free(data);
}

static void add_folder(const char *folder) {
  struct dirent **e;
  struct stat st;
  char path[512];
  int n = scandir(folder, &e, NULL, alphasort);
  assert_true(n >= 0);
  for (int i = 0; i < n; free(e[i++])) {
    if (e[i]->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e[i]->d_name);
    if (stat(path, &st) < 0) fail_msg("%s can not be read", path);
    if (S_ISDIR(st.st_mode))
      add_folder(path);
    else
      add_file(path, e[i]->d_name);
  }
  free(e);
}

static size_t what_it_wrote(const command_t *c, char *text) {
  wrote = text, n_wrote = 0;
  if (c->says == ALL) add(p.out, strlen(p.out));
  if (c->says == ALL_BUT_NUMBERS) add_without_numbers(p.out, strlen(p.out));
  add_folder(out_dir);
  assert_true(n_wrote < TEXT_MAX);
  return n_wrote;
}

/* ---- running one ---- */

static void run_command(const command_t *c, long at) {
  char text[WORDS][WORD_MAX], number[32];
  const char *words[WORDS] = {0};
  for (int i = 0; c->words[i]; i++) {
    char *to = text[i];
    for (const char *w = c->words[i]; *w; w++) {
      bool name = w[0] == '$' && (w[1] == 'O' || w[1] == 'K');
      to += name ? sprintf(to, "%s", w[1] == 'O' ? out_dir : kept_dir) : sprintf(to, "%c", *w);
      w += name;
    }
    words[i] = text[i];
  }
  assert_int_equal(program_forget(out_dir), 0);
  assert_int_equal(mkdir(out_dir, 0700), 0);
  snprintf(number, sizeof number, "%ld", at);
  setenv("FAULT_ALLOC", number, 1);
  setenv("LD_PRELOAD", MR_FAULTS, 1);
  program_run(&p, words);
  unsetenv("LD_PRELOAD");
}

static long allocations(void) {
  char path[128];
  long n = 0;
  snprintf(path, sizeof path, "%s/count", dir);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "%ld", &n), 1);
  fclose(f);
  return n;
}

static void fail_one(const command_t *c, long at, const char *whole, size_t n_whole, char *text) {
  run_command(c, at);
  if (p.status < 0 || p.status > 3)
    fail_msg("%s, allocation %ld (seed %u): status %d: %s", c->name, at, seed, p.status, p.err);
  if (p.status && !p.err[0])
    fail_msg("%s, allocation %ld (seed %u): status %d without a word", c->name, at, seed, p.status);
  if (p.status) return;
  size_t n = what_it_wrote(c, text);
  if (n != n_whole || memcmp(text, whole, n))
    fail_msg("%s, allocation %ld (seed %u): status 0, but its output is not whole: %s", c->name, at,
             seed, p.err);
}

static void a_failed_allocation_is_reported_or_costs_nothing(void **state) {
  char *whole = malloc(TEXT_MAX), *text = malloc(TEXT_MAX);
  assert_true(whole && text);
  const char *only = getenv("MILLRACE_NOMEM_COMMAND");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const command_t *c = &commands[i];
    if (only && strcmp(only, c->name)) continue;
    run_command(c, 0);
    if (p.status) fail_msg("%s: %s", c->name, p.err);
    long n = allocations(), most = every ? n / every : n < FEW ? n : FEW;
    size_t n_whole = what_it_wrote(c, whole);
    print_message("%s: %ld allocations, %ld of them fail\n", c->name, n, most);
    for (long k = 1; k <= most; k++)
      fail_one(c, every ? k * every : 1 + (long)((unsigned)rand_r(&draws) % (unsigned long)n),
               whole, n_whole, text);
  }
  free(whole), free(text);
}

static int setup(void **state) {
  char path[128];
  const char *how = getenv("MILLRACE_NOMEM");
  if (how && !strcmp(how, "all")) every = 1;
  if (how && !strncmp(how, "every-", 6)) every = atol(how + 6);
  seed = how && !every ? (unsigned)strtoul(how, NULL, 10) : SEED;
  draws = seed;
  print_message("seed %u\n", seed);
  if (!mkdtemp(dir)) return -1;
  snprintf(out_dir, sizeof out_dir, "%s/out", dir);
  snprintf(kept_dir, sizeof kept_dir, "%s/kept", dir);
  snprintf(path, sizeof path, "%s/graph.mr", kept_dir);
  char all[1024];
  int n = snprintf(all, sizeof all, "%s%s", graph,
                   with("PROTOBUF", "train.metrics ! tensorboard dir=$run/tb\n"));
  if (mkdir(kept_dir, 0700) || mr_write_file(path, all, (size_t)n, NULL) < 0) return -1;
  snprintf(path, sizeof path, "%s/count", dir);
  setenv("FAULT_COUNT", path, 1);
  const command_t first = {"", NOTHING, {"train", "--graph", "$K/graph.mr", "--run-dir", "$K/run"}};
  run_command(&first, 0);
  if (p.status) print_error("%s", p.err);
  return p.status;
}

static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  if (!MR_FAULTS[0]) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failed_allocation_is_reported_or_costs_nothing)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
