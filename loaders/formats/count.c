/* count: produces n buffers that hold their own number.  It reads no data and makes no records; it
   is the source for measuring rings, links and schedulers, and for tests that must know which
   buffer they got. */
#include <string.h>

#include "pipeline/stage_step.h"

typedef struct count {
  int64_t n, bytes, next;
} count_t;

static const mr_opt_t count_opts[] = {
    {.name = "n",
     .type = MR_OPT_INT,
     .offset = offsetof(count_t, n),
     .unit = "buffers",
     .def = "1000",
     .lo = 0,
     .hi = 1e15,
     .positional = 1,
     .help = "Number of buffers; 0: endless."},
    {.name = "bytes",
     .type = MR_OPT_INT,
     .offset = offsetof(count_t, bytes),
     .unit = "bytes",
     .def = "64",
     .lo = 8,
     .hi = 1 << 28,
     .help = "Bytes of a buffer."},
    {0},
};

static mr_err_t count_plan(mr_stage_t *s) {
  const count_t *c = s->state;
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, c->bytes);
  return MR_OK;
}

static mr_err_t count_open(mr_stage_t *s) {
  count_t *c = s->state;
  c->next = s->start_position;
  return MR_OK;
}

/* Produces as many as there is room for, so that a burst is published once. */
static mr_err_t count_count_step(mr_stage_t *s) {
  count_t *c = s->state;
  mr_buf_t *b[MR_BURST];
  size_t k = 0, room = mr_room(s, 0);
  if ((c->n && c->next >= c->n) || mr_stopping(s)) return MR_END;
  if (!room) return mr_idle(s);
  while (k < room && (!c->n || c->next < c->n)) {
    mr_err_t e = k ? MR_OK : mr_fresh(s, 0, &b[0]);
    if (e != MR_OK) return e;
    if (k && !(b[k] = mr_pool_get(b[0]->pool))) break;
    memcpy(b[k]->data, &c->next, sizeof c->next);
    b[k]->size = (size_t)c->bytes;
    b[k++]->position = ++c->next;
  }
  mr_give(s, 0, b, k);
  return MR_OK;
}

const mr_stage_def_t mr_stage_count = {
    .name = "count",
    .help = "Produces numbered buffers of plain bytes.",
    .out = {{"out", MR_FLOW_BYTES, false}},
    .opts = count_opts,
    .state_sz = sizeof(count_t),
    .plan = count_plan,
    .open = count_open,
    .step = &(const mr_step_def_t){.run = count_count_step},
};
