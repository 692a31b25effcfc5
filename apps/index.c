/* millrace index: the order in which a sampler asks for records. */
#include <stdio.h>

#include "apps/cli.h"
#include "loaders/sampler.h"

enum { BLOCK = 1 << 16, LINE_MAX_BYTES = 64 }; /* three numbers of 20 digits at most */

typedef struct block {
  size_t n;
  char text[BLOCK];
} block_t;

static const mr_flag_t index_flags[] = {
    {"--records", "N", "Records of the dataset; must be given."},
    {"--seed", "S", "Seed of the shuffle and of the records' generators; default 0."},
    {"--epochs", "E", "Passes over the records; default 1."},
    {"--shard", "I/N", "Only shard I of N, counted from 0; default 0/1."},
    {"--drop-remainder", NULL, "Makes all shards equally long."},
    {"--whole-shards", NULL,
     "Each shard gives all its records every epoch, also where sizes differ; grain does not."},
    {"--bijective", NULL,
     "Each record comes once, also of 4^k + 1 records; grain misses one there."},
    {"--no-shuffle", NULL, "Keeps the records in their order."},
    {"--sequential", NULL, "Uses the sequential sampler: strided shards, one order in all epochs."},
    {0}};

static mr_err_t settings(const mr_args_t *a, mr_sampler_conf_t *c, mr_diag_t *diag) {
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

/* printf reads its format anew for each line and is four times slower. */
static char *put_number(char *to, uint64_t v, char after) {
  char digit[20];
  int n = 0;
  do digit[n++] = (char)('0' + v % 10);
  while (v /= 10);
  while (n) *to++ = digit[--n];
  *to++ = after;
  return to;
}

static void flush(block_t *b) {
  fwrite(b->text, 1, b->n, stdout);
  b->n = 0;
}

static void put_line(block_t *b, int64_t position, int64_t record, uint64_t key) {
  if (b->n > BLOCK - LINE_MAX_BYTES) flush(b);
  char *to = put_number(b->text + b->n, (uint64_t)position, ' ');
  to = put_number(to, (uint64_t)record, ' ');
  b->n = (size_t)(put_number(to, key, '\n') - b->text);
}

static int index_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_sampler_conf_t conf = {.n_epochs = 1, .seeded = true};
  static block_t out;
  mr_sampler_t s;
  MR_TRY(settings(a, &conf, diag));
  MR_TRY(mr_sampler_init(&s, &conf, diag));
  for (int64_t i = 0; i < s.local_len && !ferror(stdout); i++) {
    int64_t record;
    uint64_t key;
    mr_sampler_at(&s, mr_sampler_index(&s, i), &record, &key);
    put_line(&out, i, record, key);
  }
  flush(&out);
  return 0;
}

const mr_command_t mr_command_index = {
    .name = "index",
    .words = "--records N [--seed S] [--epochs E] [--shard I/N]",
    .help = "Prints a sampler's order: position, record and the key of its generator.",
    .flags = index_flags,
    .run = index_run,
};
