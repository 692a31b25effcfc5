/* Reproduces the order of grain's mp_prefetch: worker i of P takes the positions i, i + P, ... of
   every source and runs all earlier stages on them, and the workers' records come in turn.  Only
   the order is reproduced: the number of threads is a setting of batch and does not affect it. */
#include "pipeline/stage_walk.h"

typedef struct mp_prefetch {
  int64_t workers;
} mp_prefetch_t;

static mr_err_t prefetch_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static int prefetch_walks(const mr_stage_t *s) {
  return (int)((const mp_prefetch_t *)s->state)->workers;
}

/* Takes the next worker's record; workers without another record are skipped. */
static mr_err_t prefetch_next(mr_stage_t *s, mr_walk_t *w) {
  int64_t *turn = &mr_walk_words(w)[0];
  int n = mr_walk_n_below(w);
  for (int ended = 0; ended < n; ended++) {
    int64_t i = *turn % n;
    mr_err_t e = mr_walk_pull(w, (int)i);
    *turn = (i + 1) % n;
    if (e != MR_END) return e;
  }
  return MR_END;
}

/* Skips n records; a worker without another record gives none in its turn. */
static mr_err_t prefetch_skip(mr_stage_t *s, mr_walk_t *w, int64_t n) {
  int64_t *turn = &mr_walk_words(w)[0], workers = mr_walk_n_below(w);
  int64_t left = n - 1; /* the last one is pulled, so that the turn ends where it must */
  while (left >= workers) {
    int64_t turns = left;
    for (int64_t k = 0; k < workers; k++) { /* beginning with the one whose turn it is */
      int64_t due = left / workers + (k < left % workers), done;
      MR_TRY(mr_walk_skip_most(w, (int)((*turn + k) % workers), due, &done));
      turns -= done;
    }
    *turn = (*turn + left) % workers;
    if (turns == left) return MR_END;
    left = turns;
  }
  return mr_walk_next_all(w, left + 1);
}

static const mr_opt_t prefetch_opts[] = {
    {.name = "num-workers",
     .type = MR_OPT_INT,
     .offset = offsetof(mp_prefetch_t, workers),
     .unit = "processes",
     .lo = 1,
     .hi = 256,
     .help = "Number of grain's worker processes whose order is reproduced.",
     .positional = 1},
    {0}};

static const mr_walk_def_t prefetch_walk = {
    .next = prefetch_next,
    .skip = prefetch_skip,
    .n_walks = prefetch_walks,
    .n_words = 1,
};

const mr_stage_def_t mr_stage_mp_prefetch = {
    .name = "mp-prefetch",
    .help = "Orders records as grain's worker processes do (grain's mp_prefetch).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = prefetch_opts,
    .state_sz = sizeof(mp_prefetch_t),
    .plan = prefetch_plan,
    .walk = &prefetch_walk,
};
