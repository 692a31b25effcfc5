/* A new order of the records each epoch, as grain's IndexSampler gives it. */
#include "loaders/order.h"

static mr_err_t shuffle_plan(mr_stage_t *s) {
  const mr_order_t *o = s->state;
  return mr__order_plan(s, false, o->shuffle);
}

static const mr_opt_t shuffle_opts[] = {
    {.name = "seed",
     .type = MR_OPT_INT,
     .offset = offsetof(mr_order_t, seed),
     .def = "0",
     .lo = -1,
     .hi = 4294967295.0,
     .help = "Decides the order and every draw on the way; -1 is none (with shuffle=false).  If "
             "not given it follows from a stage \"seed\" before this one, where there is one."},
    MR_ORDER_OPTS,
    {.name = "shard",
     .type = MR_OPT_STR,
     .offset = offsetof(mr_order_t, shard),
     .unit = "I/N",
     .help = "Reads only the I-th of N consecutive parts of the records; all without it."},
    {.name = "bijective",
     .type = MR_OPT_BOOL,
     .offset = offsetof(mr_order_t, bijective),
     .def = "false",
     .help = "Of exactly 4^k + 1 records (k >= 8) each comes once an epoch too; grain 0.2.18 never "
             "gives the last one and another twice."},
    {.name = "shuffle",
     .type = MR_OPT_BOOL,
     .offset = offsetof(mr_order_t, shuffle),
     .def = "true",
     .help = "Reorders the records each epoch; false keeps their order."},
    {0}};

const mr_stage_def_t mr_stage_shuffle = {
    .name = "shuffle",
    .help = "Puts the records into a new order each epoch (grain's IndexSampler).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = shuffle_opts,
    .state_sz = sizeof(mr_order_t),
    .plan = shuffle_plan,
    .order = &(const mr_order_def_t){.at = mr__order_at, .period = mr__order_period},
};
