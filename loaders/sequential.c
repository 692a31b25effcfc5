/* The records in their own order, as grain's SequentialSampler gives them. */
#include "loaders/order.h"

static mr_err_t sequential_plan(mr_stage_t *s) { return mr__order_plan(s, true, false); }

static const mr_opt_t sequential_opts[] = {
    {"seed", MR_OPT_INT, offsetof(mr_order_t, seed), "", "-1", -1, 4294967295.0, NULL,
     "Decides the draws on the way; -1: this stage gives records no generator.", 0},
    MR_ORDER_OPTS,
    {"shard", MR_OPT_STR, offsetof(mr_order_t, shard), "I/N", NULL, 0, 0, NULL,
     "Reads only records I, I+N, I+2N, ...; all without it.", 0},
    {0}};

const mr_stage_def_t mr_stage_sequential = {
    .name = "sequential",
    .help = "Gives the records in their own order (grain's SequentialSampler).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = sequential_opts,
    .state_sz = sizeof(mr_order_t),
    .plan = sequential_plan,
    .order = &(const mr_order_def_t){.at = mr__order_at, .period = mr__order_period},
};
