/* millrace bench: measures this machine and prints a table or JSON lines.  This file finds a
   measurement by its name in list.def and prints what it reports: rows of names and numbers. */
#include "apps/bench/bench.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"

static const mr_flag_t bench_flags[] = {
    {"--json", NULL, "Prints one JSON object per line."},
    {"--seconds", "S", "How long loader and reader run, default 5, and link, default 9."},
    {"--workers", "N", "Threads of stage batch; default: one per core."},
    {"--batch", "N", "Records in a batch; default 128."},
    {"--data", "DIR",
     "Folder of CIFAR-10; default data/cifar-10-batches-bin, or synthetic pictures if it is "
     "missing."},
    {"--graph", "GRAPH",
     "loader: measures the batches of this endless graph instead of the recipe's: those of its "
     "last stage batch, or of stage b."},
    {"--steps", "N",
     "Measured runs of step, infer and compile; default 5.  Of step on a device: 200, or those of "
     "20 "
     "seconds."},
    {"--warm-up", "N",
     "Runs of step and infer before the measured ones; default 2.  Of step on a device at least, "
     "and "
     "for a second."},
    {"--layers", "N", "Encoder blocks of the model; default 6."},
    {"--fit", "SIZE",
     "step: chooses remat and accumulate so that the planned peak is at most this size."},
    {"--accumulate", "N", "Parts into which a training step splits its batch; default 1."},
    {"--ordered", "N", "Parts that a training step adds as a binary tree, a power of two."},
    {"--ranks", "N",
     "step: ranks that share these parts, threads of the process; default 1.  ranks: how many "
     "threads are measured; default 2."},
    {"--rates", "FILE", "ranks: writes the table that --rates of explain and mem reads."},
    {"--zero", "N", "step: what these ranks keep a share of, as train-step's setting zero."},
    {"--dtype", "f32|bf16|f16", "Type that the model computes in; default bf16."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]",
     "Where step, infer and compile compute; default cpu."},
    {"--threads", "N", "Number of compute threads; default one per processor."},
    {"--pin", NULL, "Binds each of these threads to a processor of its own."},
    {0}};

static const struct {
  const char *name;
  mr_err_t (*run)(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag);
} benches[] = {
#define MR_BENCH(call, name, help) {name, mr_bench_##call},
#include "apps/bench/list.def"
#undef MR_BENCH
};
enum { N_BENCHES = sizeof benches / sizeof benches[0] };

void mr_bench_add(mr_bench_t *b, const char *name, double value) {
  if (b->n == MR_BENCH_ROWS) return;
  b->row[b->n].name = name;
  b->row[b->n++].value = value;
}

static int bench_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double mr_bench_median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, bench_by_value);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static mr_err_t print_json(const char *name, const mr_bench_t *b, mr_diag_t *diag) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "bench", name);
  for (int i = 0; i < b->n; i++) cJSON_AddNumberToObject(o, b->row[i].name, b->row[i].value);
  cJSON_AddStringToObject(o, "data", b->data);
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  if (!text) return mr_no_memory(diag, "the report of a measurement");
  puts(text);
  cJSON_free(text);
  return MR_OK;
}

static void bench_print_table(const char *name, const mr_bench_t *b) {
  printf("%s (data: %s)\n", name, b->data);
  for (int i = 0; i < b->n; i++) printf("  %-16s %.6g\n", b->row[i].name, b->row[i].value);
}

static int bench_find(const char *name, mr_diag_t *diag) {
  char near[128], known[256] = "";
  mr_suggest_t s = {.word = name};
  for (int i = 0; i < N_BENCHES; i++) {
    if (!strcmp(benches[i].name, name)) return i;
    mr_suggest_offer(&s, benches[i].name);
    mr_snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                benches[i].name);
  }
  return mr_fail(diag, MR_ERR_USAGE, "bench: unknown measurement \"%s\"%s; known: %s", name,
                 mr_suggest_text(&s, near, sizeof near), known);
}

static int bench_run(const mr_args_t *a, mr_diag_t *diag) {
  int which[MR_WORDS_MAX];
  for (int i = 0; i < a->n_words; i++) MR_TRY(which[i] = bench_find(a->word[i], diag));
  for (int i = 0; i < a->n_words; i++) {
    mr_bench_t b = {.data = "none"};
    struct rusage use;
    MR_TRY(benches[which[i]].run(a, &b, diag));
    if (b.silent) continue;
    getrusage(RUSAGE_SELF, &use);
    mr_bench_add(&b, "peak_rss_mb", (double)use.ru_maxrss / 1024);
    if (mr_args_text(a, "--json"))
      MR_TRY(print_json(benches[which[i]].name, &b, diag));
    else
      bench_print_table(benches[which[i]].name, &b);
    fflush(stdout);
  }
  return 0;
}

static const mr_hint_t bench_words[] = {{"benchmark", "bench", NULL}, {0}};

const mr_command_t mr_command_bench = {
    .name = "bench",
    .hint = bench_words,
    .values = {mr_dtype_hints},
    .words =
        "loader|reader|stage|step|infer|compile|link|ranks|jax-cases... [--json]", /* list.def */
    .help = "Measures loading, stage overhead and training steps on this machine.",
    .more = "\n"
#define MR_BENCH(call, name, help) "  " name ": " help "\n"
#include "apps/bench/list.def"
#undef MR_BENCH
    ,
    .flags = bench_flags,
    .min_words = 1,
    .max_words = 16,
    .run = bench_run,
};
