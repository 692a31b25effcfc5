/* An allocation of a command fails: it ends with a status above 0 and says why, or what it wrote is
   whole.  A few allocations of each command, chosen by a seed; MILLRACE_NOMEM=all takes every one,
   MILLRACE_NOMEM=SEED another choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "base/xio.h"
#include "tests/apps/program.h"

#ifndef MR_FAULTS
#define MR_FAULTS NULL /* a sanitizer allows no allocator but its own */
#endif

enum { FEW = 16, WORDS = 24, TEXT_MAX = 1 << 20 };

static char dir[] = "/tmp/mr-nomem-XXXXXX", out_dir[64], kept_dir[64];
static program_t p;
static long few = FEW;
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

static const char graph[] =
    "let run = x\nlet data = synthetic\n"
    "synthetic n=64 ! shuffle seed=1 epochs=0 ! flip ! normalize ! batch 16 drop-remainder "
    "! " TRAINER
    " watch-every=2\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n"
    "train.metrics ! csv path=$run/m.csv\n"
    "train.metrics ! tensorboard dir=$run/tb\n"
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

static void add_file(const char *name) {
  char path[256];
  void *data;
  size_t n;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s", out_dir, name);
  if (mr_read_file(path, 1 << 24, &data, &n, &diag) < 0) fail_msg("%s", diag.text);
  add(name, strlen(name));
  add(data, n);
  free(data);
}

static size_t what_it_wrote(const command_t *c, char *text) {
  struct dirent **e;
  wrote = text, n_wrote = 0;
  if (c->says == ALL) add(p.out, strlen(p.out));
  if (c->says == ALL_BUT_NUMBERS) add_without_numbers(p.out, strlen(p.out));
  int n = scandir(out_dir, &e, NULL, alphasort);
  assert_true(n >= 0);
  for (int i = 0; i < n; free(e[i++]))
    if (e[i]->d_name[0] != '.') add_file(e[i]->d_name);
  free(e);
  return n_wrote;
}

/* ---- running one ---- */

static void run_command(const command_t *c, long at) {
  char text[WORDS][512], number[32];
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

static void a_failed_allocation_is_told_or_costs_nothing(void **state) {
  char *whole = malloc(TEXT_MAX), *text = malloc(TEXT_MAX);
  assert_true(whole && text);
  const char *only = getenv("MILLRACE_NOMEM_COMMAND");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const command_t *c = &commands[i];
    if (only && strcmp(only, c->name)) continue;
    run_command(c, 0);
    if (p.status) fail_msg("%s: %s", c->name, p.err);
    long n = allocations(), most = few ? few : n;
    size_t n_whole = what_it_wrote(c, whole);
    print_message("%s: %ld allocations, %ld of them fail\n", c->name, n, most < n ? most : n);
    for (long k = 0; k < most && k < n; k++)
      fail_one(c, few ? 1 + (long)((unsigned)rand_r(&draws) % (unsigned long)n) : k + 1, whole,
               n_whole, text);
  }
  free(whole), free(text);
}

static int setup(void **state) {
  char path[128];
  const char *how = getenv("MILLRACE_NOMEM");
  few = how && !strcmp(how, "all") ? 0 : FEW;
  seed = how && few ? (unsigned)strtoul(how, NULL, 10) : (unsigned)time(NULL);
  draws = seed;
  print_message("seed %u\n", seed);
  if (!mkdtemp(dir)) return -1;
  snprintf(out_dir, sizeof out_dir, "%s/out", dir);
  snprintf(kept_dir, sizeof kept_dir, "%s/kept", dir);
  snprintf(path, sizeof path, "%s/graph.mr", kept_dir);
  if (mkdir(kept_dir, 0700) || mr_write_file(path, graph, strlen(graph), NULL) < 0) return -1;
  snprintf(path, sizeof path, "%s/count", dir);
  setenv("FAULT_COUNT", path, 1);
  const command_t first = {"", NOTHING, {"train", "--graph", "$K/graph.mr", "--run-dir", "$K/run"}};
  run_command(&first, 0);
  if (p.status) print_error("%s", p.err);
  return p.status;
}

static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  if (!MR_FAULTS) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failed_allocation_is_told_or_costs_nothing)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
