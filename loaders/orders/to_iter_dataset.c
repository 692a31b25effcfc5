/* Turns a stream with positions into a sequential one: grain's to_iter_dataset.  Later stages
   behave as grain's IterDatasets do. */
#include "pipeline/stage_walk.h"

typedef struct to_iter {
  bool allow_nones;
} to_iter_t;

static mr_err_t to_iter_plan(mr_stage_t *s) {
  const to_iter_t *t = s->state;
  s->out_spec[0] = s->in_spec[0];
  for (int f = 0; t->allow_nones && f < s->out_spec[0].n_fields; f++)
    s->out_spec[0].field[f].n_classes = 0; /* a hole's label is -1 */
  return MR_OK;
}

static mr_err_t to_iter_next(mr_stage_t *s, mr_walk_t *w) {
  const to_iter_t *t = s->state;
  return t->allow_nones ? mr_walk_pull_any(w, 0) : mr_walk_pull(w, 0);
}

static mr_err_t to_iter_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  const to_iter_t *t = s->state;
  return t->allow_nones ? mr_walk_skip_any(w, 0, n) : mr_walk_skip(w, 0, n);
}

static const mr_opt_t to_iter_opts[] = {
    {.name = "allow-nones",
     .type = MR_OPT_BOOL,
     .offset = offsetof(to_iter_t, allow_nones),
     .def = "false",
     .help =
         "Passes a hole as a record of zeros with label -1 and key 2^64-1 instead of skipping it."},
    {0}};

const mr_stage_def_t mr_stage_to_iter_dataset = {
    .name = "to-iter-dataset",
    .help = "Makes a stream sequential and skips its holes (grain's to_iter_dataset).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = to_iter_opts,
    .state_sz = sizeof(to_iter_t),
    .plan = to_iter_plan,
    .walk = &(const mr_walk_def_t){.next = to_iter_next, .skip = to_iter_skip, .one_each = true},
};
