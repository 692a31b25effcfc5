/* millrace index: prints the order in which a sampler requests records.  The order is arithmetic on
   positions, so threads print blocks of lines side by side; numbers are printed without printf,
   which would take most of the time. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "loaders/orders/sampler.h"

/* A line has three numbers of at most 20 digits. */
enum { LINE_MAX_BYTES = 64, BLOCK_LINES = 1 << 14, BLOCKS_MAX = 16 };

/* The lines of positions [first,first+n), printed by one thread. */
typedef struct block {
  const mr_sampler_t *s;
  int64_t first, n;
  size_t bytes;
  char text[BLOCK_LINES * LINE_MAX_BYTES];
} block_t;

static const mr_flag_t index_flags[] = {
    {"--records", "N", "Number of records in the data set; required."},
    {"--seed", "S", "Seed of the shuffle and of the records' generators; default 0."},
    {"--epochs", "E", "Number of passes over the records; default 1."},
    {"--shard", "I/N", "Only shard I of N, counted from 0; default 0/1."},
    {"--drop-remainder", NULL, "Makes all shards equally long by dropping records."},
    {"--whole-shards", NULL,
     "Each shard gives all of its records in every epoch, even if sizes differ; grain does not."},
    {"--bijective", NULL,
     "Gives each record once for 4^k + 1 records too, where grain misses one."},
    {"--no-shuffle", NULL, "Keeps the records in their order."},
    {"--sequential", NULL, "Uses the sequential sampler: strided shards, one order in all epochs."},
    {0}};

static mr_err_t index_settings(const mr_args_t *a, mr_sampler_conf_t *c, mr_diag_t *diag) {
  int64_t seed = 0;
  if (!mr_args_text(a, "--records"))
    return mr_fail(diag, MR_ERR_USAGE, "index: --records N must be given");
  MR_TRY(mr_args_int(a, "--records", 1, INT64_C(1) << 31, &c->n_records, diag));
  MR_TRY(mr_args_int(a, "--seed", 0, UINT32_MAX, &seed, diag));
  MR_TRY(mr_args_int(a, "--epochs", 1, INT64_C(1) << 31, &c->n_epochs, diag));
  const char *shard = mr_args_text(a, "--shard");
  if (!mr_sampler_parse_shard(shard, &c->shard, &c->n_shards))
    return mr_fail(diag, MR_ERR_USAGE, "index: --shard: \"%s\", expected I/N with 0 <= I < N",
                   shard);
  c->seed = (uint32_t)seed;
  c->sequential = mr_args_text(a, "--sequential") != NULL;
  c->shuffle = !c->sequential && !mr_args_text(a, "--no-shuffle");
  c->drop_remainder = mr_args_text(a, "--drop-remainder") != NULL;
  c->whole_shards = mr_args_text(a, "--whole-shards") != NULL;
  c->bijective = mr_args_text(a, "--bijective") != NULL;
  return MR_OK;
}

/* Prints a number and a character; printf, which parses its format for each line, takes four times
   as long. */
static char *index_put_number(char *to, uint64_t v, char after) {
  char digit[20];
  int n = 0;
  do digit[n++] = (char)('0' + v % 10);
  while (v /= 10);
  while (n) *to++ = digit[--n];
  *to++ = after;
  return to;
}

static void *index_fill(void *arg) {
  block_t *b = arg;
  char *to = b->text;
  for (int64_t i = b->first; i < b->first + b->n; i++) {
    int64_t record;
    uint64_t key;
    mr_sampler_at(b->s, mr_sampler_index(b->s, i), &record, &key);
    to = index_put_number(to, (uint64_t)i, ' ');
    to = index_put_number(to, (uint64_t)record, ' ');
    to = index_put_number(to, key, '\n');
  }
  b->bytes = (size_t)(to - b->text);
  return NULL;
}

/* Fills the first block in this thread and each other one in its own, or here if no thread can
   start. */
static void fill_all(block_t *b, int n) {
  pthread_t thread[BLOCKS_MAX];
  bool there[BLOCKS_MAX] = {false};
  for (int k = 1; k < n; k++) there[k] = pthread_create(&thread[k], NULL, index_fill, &b[k]) == 0;
  for (int k = 0; k < n; k++)
    if (!there[k]) index_fill(&b[k]);
  for (int k = 1; k < n; k++)
    if (there[k]) pthread_join(thread[k], NULL);
}

/* Assigns the next positions to blocks; returns how many blocks have some. */
static int index_share(const mr_sampler_t *s, int64_t first, block_t *b, int n) {
  int k = 0;
  for (; k < n && first < s->local_len; k++, first += BLOCK_LINES) {
    int64_t left = s->local_len - first;
    b[k].s = s, b[k].first = first, b[k].n = left < BLOCK_LINES ? left : BLOCK_LINES;
  }
  return k;
}

static int n_processors(void) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
  return n < BLOCKS_MAX ? n : BLOCKS_MAX;
}

static int index_index_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_sampler_conf_t conf = {.n_epochs = 1, .seeded = true};
  mr_sampler_t s;
  int at_once = n_processors(), n = 0;
  MR_TRY(index_settings(a, &conf, diag));
  MR_TRY(mr_sampler_init(&s, &conf, diag));
  block_t *b = malloc((size_t)at_once * sizeof *b);
  if (!b) return mr_no_memory(diag, "the index");
  mr_err_t e = MR_OK;
  for (int64_t i = 0; i < s.local_len && e >= 0; i += (int64_t)n * BLOCK_LINES) {
    n = index_share(&s, i, b, at_once);
    fill_all(b, n);
    for (int k = 0; k < n && e >= 0; k++)
      if (fwrite(b[k].text, 1, b[k].bytes, stdout) < b[k].bytes)
        e = mr_fail(diag, MR_ERR_IO, "standard output: cannot write: %s", strerror(errno));
  }
  free(b);
  return e;
}

const mr_command_t mr_command_index = {
    .name = "index",
    .words = "--records N [--seed S] [--epochs E] [--shard I/N]",
    .help = "Prints a sampler's order: position, record and the key of its generator.",
    .flags = index_flags,
    .run = index_index_run,
};
