/* grain's samplers as arithmetic: position to global index, global index to epoch and record.
   Nothing is stored: any position is found at once, by any thread, and the order of a resumed run
   is the same by construction.  Sharding follows grain's even_split, before any shuffle. */
#include "loaders/orders/sampler.h"

#include <inttypes.h>
#include <stdlib.h>

static const int64_t LENGTH_MAX = (int64_t)1 << 62;

/* grain's even_split: consecutive ranges, chosen before any shuffle. */
static void even_split(const mr_sampler_conf_t *c, int64_t *start, int64_t *size) {
  int64_t per = c->n_records / c->n_shards, rest = c->n_records % c->n_shards;
  *start = per * c->shard, *size = per;
  if (c->drop_remainder) return;
  *start += c->shard < rest ? c->shard : rest;
  *size += c->shard < rest;
}

/* grain's len(sampler), 0 if endless.  One shard is grain's NoSharding. */
static int64_t sampler_len(const mr_sampler_t *s) {
  const mr_sampler_conf_t *c = &s->conf;
  int64_t epoch = c->n_records;
  if (c->n_shards > 1 && c->drop_remainder) epoch = c->n_records / c->n_shards * c->n_shards;
  return epoch * c->n_epochs;
}

mr_err_t mr_sampler_init(mr_sampler_t *s, const mr_sampler_conf_t *c, mr_diag_t *diag) {
  if (c->n_records < 1)
    return mr_fail(diag, MR_ERR_CONFIG, "%" PRId64 " records, want at least 1", c->n_records);
  if (c->n_epochs < 0 || (c->n_epochs && c->n_records > LENGTH_MAX / c->n_epochs))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "epochs=%" PRId64 " of %" PRId64
                   " records, want at least 0 and at most 2^62 records in all",
                   c->n_epochs, c->n_records);
  if (c->n_shards < 1 || c->shard < 0 || c->shard >= c->n_shards)
    return mr_fail(diag, MR_ERR_CONFIG, "shard %" PRId64 "/%" PRId64 ", want I/N with 0 <= I < N",
                   c->shard, c->n_shards);
  if (c->shuffle && !c->seeded) return mr_fail(diag, MR_ERR_CONFIG, "a shuffle needs a seed");
  *s = (mr_sampler_t){.conf = *c};
  even_split(c, &s->start, &s->size);
  s->len = sampler_len(s);
  s->local_len = s->len / c->n_shards;
  if (c->whole_shards) s->local_len = s->size * c->n_epochs;
  if (s->size < 1 || (s->len && !s->local_len))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "shard %" PRId64 "/%" PRId64 " of %" PRId64 " records has no records", c->shard,
                   c->n_shards, c->n_records);
  return MR_OK;
}

bool mr_sampler_reaches(const mr_sampler_t *s, int64_t i) {
  return i >= 0 && (s->conf.n_shards == 1 || i < (INT64_C(1) << 61) / s->conf.n_shards);
}

int64_t mr_sampler_index(const mr_sampler_t *s, int64_t i) {
  return i * s->conf.n_shards + s->conf.shard;
}

void mr_sampler_at(const mr_sampler_t *s, int64_t index, int64_t *record, uint64_t *key) {
  const mr_sampler_conf_t *c = &s->conf;
  *key = c->seeded ? (uint64_t)c->seed + (uint64_t)index : 0;
  int64_t local = index / c->n_shards, epoch = local / s->size, i = local % s->size;
  if (c->sequential && c->whole_shards) {
    *record = c->shard + i * c->n_shards;
    return;
  }
  if (c->sequential) {
    int64_t whole = c->drop_remainder ? c->n_records / c->n_shards * c->n_shards : c->n_records;
    *record = index % whole;
    return;
  }
  if (c->shuffle)
    i = (int64_t)mr_permute((uint64_t)i, (uint64_t)s->size - 1, c->seed + (uint32_t)epoch,
                            c->bijective);
  *record = s->start + i;
}

int mr_sampler_from(const mr_sampler_t *s, int64_t epoch, int64_t record, int64_t position[2]) {
  const mr_sampler_conf_t *c = &s->conf;
  int64_t i = record - s->start, first = epoch * s->size;
  uint64_t from[2];
  if (record < 0 || record >= c->n_records) return 0;
  if (c->sequential && c->whole_shards) {
    if (record % c->n_shards != c->shard) return 0;
    return position[0] = first + record / c->n_shards, 1;
  }
  if (c->sequential) return position[0] = first + record, 1;
  if (i < 0 || i >= s->size) return 0;
  if (!c->shuffle) return position[0] = first + i, 1;
  int n = mr_permute_from((uint64_t)i, (uint64_t)s->size - 1, c->seed + (uint32_t)epoch,
                          c->bijective, from);
  for (int k = 0; k < n; k++) position[k] = first + (int64_t)from[k];
  return n;
}

bool mr_sampler_parse_shard(const char *text, int64_t *shard, int64_t *n_shards) {
  *shard = 0, *n_shards = 1;
  if (!text || !*text) return true;
  char *end;
  if (*text < '0' || *text > '9') return false;
  *shard = strtoll(text, &end, 10);
  if (*end != '/' || end[1] < '0' || end[1] > '9') return false;
  *n_shards = strtoll(end + 1, &end, 10);
  return *end == 0 && *n_shards >= 1 && *n_shards <= ((int64_t)1 << 31) && *shard < *n_shards;
}
