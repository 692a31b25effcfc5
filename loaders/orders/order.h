/* Shared by the stages shuffle and sequential: an order stage over a sampler. */
#ifndef MR_LOADERS_ORDERS_ORDER_H
#define MR_LOADERS_ORDERS_ORDER_H

#include "loaders/orders/sampler.h"
#include "pipeline/stage_order.h"

typedef struct mr_order {
  int64_t seed; /* -1: none */
  int64_t epochs;
  const char *shard; /* "I/N" or NULL */
  bool drop_remainder, shuffle, whole_shards, bijective, reshuffle;
  int64_t first, each; /* setting; positions of an epoch that are given, from plan */
  mr_sampler_t sampler;
  const char *resume;
  int64_t cut;         /* the epoch in which records were added; -1: none */
  mr_sampler_t before; /* of the records that it began with: they keep their order, and those that
                          were added come behind them */
} mr_order_t;

/* Settles the output spec.  With one shard an epoch is the data set and epochs is as given.  With
   several shards grain's local length becomes n_epochs equal epochs if they divide it, else one
   epoch of that many positions: shards of an uneven split drift apart.  MR_ERR_CONFIG for a bad
   shard=, and as mr_sampler_init. */
mr_err_t mr__order_plan(mr_stage_t *s, bool sequential, bool shuffle);

/* The order hook of both stages: maps a position to an index and a key of the input.  MR_ERR_CONFIG
   if the sampler does not reach the position. */
mr_err_t mr__order_at(mr_stage_t *s, int64_t position, mr_at_t *at);

/* The hooks of both stages that find when a record comes. */
mr_err_t mr__order_taken(mr_stage_t *s, int port, int64_t index, int64_t from, int64_t *position);
void mr__order_spans(const mr_stage_t *s, int port, int64_t lo, int64_t hi, int64_t *first,
                     int64_t *end);

/* The period hook of both stages: returns after how many positions the same records come again,
   with n = 0 if they do not. */
mr_period_t mr__order_period(const mr_stage_t *s, const mr_period_t *in);

/* Rows of a table: clang-format would put each value on its own line. */
/* clang-format off */

/* The settings that both have. */
#define MR_ORDER_OPTS                                                                             \
  {.name = "epochs", .hint = "numepochs nepochs maxepochs epoch numtrainepochs trainepochs",      \
   .type = MR_OPT_INT, .offset = offsetof(mr_order_t, epochs),                                    \
   .unit = "epochs", .def = "1", .hi = 1e9,                                                       \
   .help = "Number of passes over the records; 0: endless.  Default: that of the input."},        \
  {.name = "drop-remainder", .type = MR_OPT_BOOL,                                                 \
   .offset = offsetof(mr_order_t, drop_remainder), .def = "false",                                \
   .help = "Drops the remainder of the records that does not divide evenly among the shards."},   \
  {.name = "whole-shards", .type = MR_OPT_BOOL, .offset = offsetof(mr_order_t, whole_shards),     \
   .def = "false",                                                                                \
   .help = "Each shard gives all of its records in every epoch, even if shards differ in "        \
           "size; grain 0.2.18 omits some and lets the shards' epochs drift apart."},               \
  {.name = "first", .hint = "maxsamples maxrecords limitsamples subset nsamples", .type = MR_OPT_INT, \
   .offset = offsetof(mr_order_t, first), .unit = "records", .def = "0", .hi = 1e15,              \
   .help = "Each epoch ends after this many records; 0: after all."},                             \
  {.name = "resume", .type = MR_OPT_STR, .offset = offsetof(mr_order_t, resume),                  \
   .unit = "EPOCH:RECORDS",                                                                       \
   .help = "Written by a resume that found more records: this epoch began with so few, keeps "    \
           "their order, and has those added since at its end."}
/* clang-format on */

#endif
