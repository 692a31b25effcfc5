/* sequential: passes the records in their own order, as grain's SequentialSampler does.  It gives
   them generators if it has a seed, for the stages that draw; its shards are strided, as grain's
   are here, and unlike those of shuffle. */
#include "loaders/orders/order.h"

static mr_err_t sequential_plan(mr_stage_t *s) { return mr__order_plan(s, true, false); }

static const mr_opt_t sequential_opts[] = {
    {.name = "seed",
     .hint = "randomseed manualseed rngseed randomstate prngseed",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_order_t, seed),
     .def = "-1",
     .lo = -1,
     .hi = 4294967295.0,
     .help = "Seed of the records' generators; -1: the records get none."},
    MR_ORDER_OPTS,
    {.name = "shard",
     .type = MR_OPT_STR,
     .offset = offsetof(mr_order_t, shard),
     .unit = "I/N",
     .help = "Reads only records I, I+N, I+2N, ...; default: all."},
    {0}};

static const mr_hint_t sequential_words[] = {{"sequentialsampler", "sequential", NULL}, {0}};

const mr_stage_def_t mr_stage_sequential = {
    .name = "sequential",
    .role = MR_ROLE_SEEDS,
    .hint = sequential_words,
    .help = "Passes the records in their own order (grain's SequentialSampler).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = sequential_opts,
    .state_sz = sizeof(mr_order_t),
    .plan = sequential_plan,
    .order = &(const mr_order_def_t){.at = mr__order_at,
                                     .period = mr__order_period,
                                     .taken = mr__order_taken,
                                     .spans = mr__order_spans},
};
