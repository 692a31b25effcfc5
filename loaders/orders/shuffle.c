/* shuffle: passes the records in an order that is drawn anew for each epoch, as grain's
   IndexSampler does.  There is no buffer of records to mix: the order is a permutation computed for
   each position (index_shuffle), so a seek costs nothing and records far apart meet in a batch. */
#include "loaders/orders/order.h"

static mr_err_t shuffle_plan(mr_stage_t *s) {
  const mr_order_t *o = s->state;
  return mr__order_plan(s, false, o->shuffle);
}

static const mr_opt_t shuffle_opts[] = {
    {.name = "seed",
     .hint = "randomseed manualseed rngseed randomstate prngseed",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_order_t, seed),
     .def = "0",
     .lo = -1,
     .hi = 4294967295.0,
     .help = "Seed of the order and of the records' generators; -1: none (with shuffle=false).  "
             "Default: derived from a stage \"seed\" before this one, if there is one."},
    MR_ORDER_OPTS,
    {.name = "shard",
     .type = MR_OPT_STR,
     .offset = offsetof(mr_order_t, shard),
     .unit = "I/N",
     .help = "Reads only part I of N consecutive parts of the records; default: all."},
    {.name = "bijective",
     .type = MR_OPT_BOOL,
     .offset = offsetof(mr_order_t, bijective),
     .def = "false",
     .help = "Gives each record once per epoch for exactly 4^k + 1 records (k >= 8) too; grain "
             "0.2.18 omits the last one and repeats another."},
    {.name = "reshuffle",
     .hint = "reshuffleeachiteration",
     .type = MR_OPT_BOOL,
     .offset = offsetof(mr_order_t, reshuffle),
     .def = "true",
     .help = "Each epoch has an order of its own; false: all have that of the first."},
    {.name = "shuffle",
     .type = MR_OPT_BOOL,
     .offset = offsetof(mr_order_t, shuffle),
     .def = "true",
     .help = "Shuffles the records in each epoch; false: keeps their order."},
    {0}};

static const mr_hint_t shuffle_words[] = {
    {"shard distribute distributedsampler", "shuffle shard=0/4",
     "shuffle shard=0/4 reads one of four parts; batch host=0/4 makes one of four slices of each "
     "batch"},
    {"sampler randomsampler indexsampler randompermute permute", "shuffle", NULL},
    {0}};

static const mr_hint_t shuffle_setting_words[] = {
    {"sampler batchsampler generator", NULL,
     "the order is a stage before the batches: shuffle, sequential or mix"},
    {"worldsize rank numreplicas numshards shardindex shardid localrank", "shard=0/4",
     "one of four hosts is shard=0/4 of shuffle, or host=0/4 of batch"},
    {"buffersize shufflebuffer shufflebuffersize buffer", NULL,
     "shuffle needs no buffer, it reorders all records of an epoch; stage \"window-shuffle\" "
     "reorders within windows"},
    {"shuffle", "shuffle seed=1",
     "the order is a stage: shuffle seed=1 orders anew each epoch, sequential keeps the order"},
    {0}};

const mr_stage_def_t mr_stage_shuffle = {
    .name = "shuffle",
    .role = MR_ROLE_SEEDS,
    .hint = shuffle_words,
    .setting_hint = shuffle_setting_words,
    .help = "Shuffles the records anew in each epoch (grain's IndexSampler).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = shuffle_opts,
    .state_sz = sizeof(mr_order_t),
    .plan = shuffle_plan,
    .order = &(const mr_order_def_t){.at = mr__order_at,
                                     .period = mr__order_period,
                                     .taken = mr__order_taken,
                                     .spans = mr__order_spans},
};
