/* Maps a stream's positions through a sampler, epoch by epoch: the sampler says the record and the
   key, the stage adds where that record is in the stream of its input. */
#include "loaders/orders/order.h"

#include <inttypes.h>
#include <stdio.h>

#include "loaders/orders/sampler.h"

/* Sets records per epoch and epochs, so that a batch can end where an epoch does. */
static void order_lengths(const mr_sampler_t *m, mr_spec_t *out) {
  const mr_sampler_conf_t *c = &m->conf;
  out->n_epochs = c->n_epochs;
  if (c->n_shards == 1) {
    out->n_records = c->n_records;
  } else if (c->n_epochs == 0) {
    bool strided = c->sequential && !c->whole_shards;
    out->n_records = strided ? c->n_records / c->n_shards : m->size;
  } else if (m->local_len % c->n_epochs == 0) {
    out->n_records = m->local_len / c->n_epochs;
  } else {
    out->n_records = m->local_len, out->n_epochs = 1;
  }
}

/* Reads the setting resume. */
static mr_err_t plan_cut_epoch(mr_stage_t *s, const mr_sampler_conf_t *conf) {
  mr_order_t *o = s->state;
  mr_sampler_conf_t had = *conf;
  int64_t last = (INT64_C(1) << 62) / conf->n_records;
  mr_diag_t why = {0};
  char more;
  o->cut = -1;
  if (!o->resume || !*o->resume) return MR_OK;
  int n = sscanf(o->resume, "%" SCNd64 ":%" SCNd64 "%c", &o->cut, &had.n_records, &more);
  if (n != 2 || o->cut < 0 || o->cut >= last || had.n_records < 1 ||
      had.n_records > conf->n_records || conf->n_shards > 1)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting resume = %.60s: want EPOCH:RECORDS with at most the %" PRId64
                         " records that an epoch has, as a resume writes it, and no shard=",
                         o->resume, conf->n_records);
  return mr_stage_relay(s, mr_sampler_init(&o->before, &had, &why), &why);
}

/* Cuts the epochs after `first` records. */
static mr_err_t plan_first(mr_stage_t *s) {
  mr_order_t *o = s->state;
  int64_t n = o->sampler.conf.n_records;
  o->each = n;
  if (o->first && (o->sampler.conf.n_shards > 1 || o->cut >= 0))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting first = %" PRId64
                         ": want it without shard= and resume=, which divide the records otherwise",
                         o->first);
  if (o->first && o->first < n) s->out_spec[0].n_records = o->each = o->first;
  return MR_OK;
}

mr_err_t mr__order_plan(mr_stage_t *s, bool sequential, bool shuffle) {
  mr_order_t *o = s->state;
  mr_spec_t *out = &s->out_spec[0];
  *out = s->in_spec[0];
  if (!mr_setting_given(s, offsetof(mr_order_t, epochs))) o->epochs = out->n_epochs;
  if (!sequential && s->has_default_seed && !mr_setting_given(s, offsetof(mr_order_t, seed)))
    o->seed = s->default_seed;
  mr_sampler_conf_t conf = {.n_records = out->n_records,
                            .n_epochs = o->epochs,
                            .sequential = sequential,
                            .shuffle = shuffle,
                            .seeded = o->seed >= 0,
                            .seed = (uint32_t)(o->seed >= 0 ? o->seed : 0),
                            .drop_remainder = o->drop_remainder,
                            .whole_shards = o->whole_shards,
                            .bijective = o->bijective};
  if (!mr_sampler_parse_shard(o->shard, &conf.shard, &conf.n_shards))
    return mr_stage_fail(s, MR_ERR_CONFIG, "shard=%s, want I/N with 0 <= I < N", o->shard);
  mr_diag_t why = {0};
  if (mr_sampler_init(&o->sampler, &conf, &why) < 0) return mr_stage_relay(s, why.code, &why);
  MR_TRY(plan_cut_epoch(s, &conf));
  order_lengths(&o->sampler, out);
  MR_TRY(plan_first(s));
  out->seeded |= conf.seeded;
  return MR_OK;
}

/* A position among epochs of `first` records as one among whole epochs. */
static mr_err_t place_in_whole(mr_stage_t *s, int64_t *position) {
  const mr_order_t *o = s->state;
  int64_t at;
  if (!__builtin_mul_overflow(*position / o->each, o->sampler.conf.n_records, &at) &&
      !__builtin_add_overflow(at, *position % o->each, &at))
    return *position = at, MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "position %" PRId64 " with first=%" PRId64 " of %" PRId64
                       " records in an epoch lies beyond 2^63 records; want an earlier one",
                       *position, o->first, o->sampler.conf.n_records);
}

mr_err_t mr__order_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  const mr_order_t *o = s->state;
  const mr_sampler_conf_t *c = &o->sampler.conf;
  if (!mr_sampler_reaches(&o->sampler, position))
    return mr_stage_fail(s, MR_ERR_CONFIG, "position %lld of shard=%s lies beyond 2^61 records",
                         (long long)position, o->shard);
  if (o->each != c->n_records) MR_TRY(place_in_whole(s, &position));
  int64_t index = mr_sampler_index(&o->sampler, position);
  mr_sampler_at(&o->sampler, index, &at->index, &at->key[0]);
  if (c->shuffle && !o->reshuffle && c->n_shards == 1) {
    uint64_t key; /* the record is the first epoch's, its draws are this one's */
    mr_sampler_at(&o->sampler, position % c->n_records, &at->index, &key);
  }
  if (o->cut >= 0 && position / c->n_records == o->cut) {
    int64_t had = o->before.conf.n_records, i = position % c->n_records;
    uint64_t key; /* that of the position is the new one's */
    at->index = i;
    if (i < had) mr_sampler_at(&o->before, o->cut * had + i, &at->index, &key);
  }
  /* The index counts epochs too: a stage before this one may give each epoch another order. */
  bool strided = c->sequential && !c->whole_shards;
  int64_t epoch = strided ? index / c->n_records : position / o->sampler.size;
  at->index += epoch * c->n_records;
  at->seeded = c->seeded;
  return MR_OK;
}

/* ---- when a record comes ---- */

static bool is_strided(const mr_order_t *o) {
  const mr_sampler_conf_t *c = &o->sampler.conf;
  return c->sequential && !c->whole_shards && c->n_shards > 1;
}

/* Strided shards count on through the epochs: of the indices of this epoch that give the record,
   those that are the shard's. */
static int find_strided_places(const mr_sampler_conf_t *c, int64_t epoch, int64_t record,
                               int64_t position[2]) {
  int64_t whole = c->drop_remainder ? c->n_records / c->n_shards * c->n_shards : c->n_records;
  int64_t first = epoch * c->n_records, index = first - first % whole + record;
  int n = 0;
  if (record >= whole) return 0;
  for (index += index < first ? whole : 0; index < first + c->n_records && n < 2; index += whole)
    if (index >= c->shard && (index - c->shard) % c->n_shards == 0)
      position[n++] = (index - c->shard) / c->n_shards;
  return n;
}

/* The places among whole epochs, as mr__order_at takes them apart. */
static int find_whole_places(const mr_order_t *o, int64_t epoch, int64_t record,
                             int64_t position[2]) {
  const mr_sampler_t *m = &o->sampler;
  const mr_sampler_conf_t *c = &m->conf;
  int64_t first = epoch * m->size, of = epoch;
  if (is_strided(o)) return find_strided_places(c, epoch, record, position);
  if (o->cut >= 0 && epoch == o->cut) {
    int64_t had = o->before.conf.n_records;
    if (record >= had) return position[0] = first + record, 1;
    int n = mr_sampler_from(&o->before, epoch, record, position);
    for (int k = 0; k < n; k++) position[k] += first - epoch * had;
    return n;
  }
  if (c->shuffle && !o->reshuffle && c->n_shards == 1) of = 0;
  int n = mr_sampler_from(m, of, record, position);
  for (int k = 0; k < n; k++) position[k] += first - of * m->size;
  return n;
}

mr_err_t mr__order_taken(mr_stage_t *s, int port, int64_t index, int64_t from, int64_t *position) {
  const mr_order_t *o = s->state;
  int64_t records = o->sampler.conf.n_records, place[2], best = INT64_MAX;
  int n = find_whole_places(o, index / records, index % records, place);
  for (int k = 0; k < n; k++) {
    int64_t at = place[k];
    if (o->each != records && at % records >= o->each) continue;
    if (o->each != records) at = at / records * o->each + at % records;
    if (at >= from && at < best) best = at;
  }
  return *position = best, best < INT64_MAX ? MR_OK : MR_END;
}

void mr__order_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                     int64_t *end) {
  const mr_order_t *o = s->state;
  const mr_sampler_conf_t *c = &o->sampler.conf;
  int64_t epoch = o->each != c->n_records ? o->each : o->sampler.size;
  if (!is_strided(o)) {
    mr_span_epochs(epoch, c->n_records, lo, hi, first, end);
    return;
  }
  if (__builtin_mul_overflow(hi, c->n_shards, end)) *end = INT64_MAX;
  if (__builtin_mul_overflow(lo, c->n_shards, first)) *first = INT64_MAX;
  mr_span_epochs(c->n_records, c->n_records, *first, *end, first, end);
}

/* A shard takes the same positions of every epoch of the input, hence the same records if the input
   keeps their order.  Strided shards that do not divide the records begin at another position each
   epoch. */
mr_period_t mr__order_period(const mr_stage_t *s, const mr_period_t *in) {
  const mr_sampler_t *m = &((const mr_order_t *)s->state)->sampler;
  const mr_sampler_conf_t *c = &m->conf;
  bool strided = c->sequential && !c->whole_shards && c->n_records % c->n_shards;
  const mr_order_t *o = s->state;
  if (o->each < c->n_records) {
    bool again = in[0].n && c->n_records % in[0].n == 0 && (!c->shuffle || !o->reshuffle);
    return (mr_period_t){again ? o->each : 0, in[0].ordered && !c->shuffle};
  }
  bool keeps = ((const mr_order_t *)s->state)->cut < 0 && in[0].n && c->n_records % in[0].n == 0 &&
               (c->n_shards == 1 || in[0].ordered) && !strided &&
               (!c->shuffle || mr_permutes(m->size, c->bijective));
  return (mr_period_t){keeps ? m->size : 0, in[0].ordered && !c->shuffle};
}
