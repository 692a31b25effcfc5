/* A row's time is that between two stamps in the queue of commands, so that it holds the steps and
   what the device waits for, and nothing of the host's own.  The host reads the results of a step
   up to MR_TRAIN_RING steps later, as a training does. */
#include "model/train/queued.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/train/slots.h"

enum {
  ROWS = 20, /* at most */
  STEPS_USUAL = 200,
  STEPS_LEAST = 5,
  SLOTS = MR_SLOTS_USUAL
};
static const double warm_up_seconds = 1, most_seconds = 20;

typedef struct queued {
  const mr_queued_t *q;
  mr_slots_t
      *slots;   /* SLOTS batches, of which the first never changes while no copies are asked for */
  bool copies;  /* each step's batch is copied before it */
  void *mark;   /* of the copy to the slot of the next step; NULL: it is done or not begun */
  bool filling; /* there is such a copy */
  int64_t begun, read;
  float loss[2]; /* of the first two steps */
} queued_t;

static mr_err_t queued_read(queued_t *s, mr_diag_t *diag) {
  mr_train_out_t got;
  MR_TRY(mr_train_step_read(s->q->step, true, &got, diag));
  if (s->read < 2) s->loss[s->read] = got.loss;
  s->read++;
  return MR_OK;
}

/* Waits for all steps that were given. */
static mr_err_t queued_drain(queued_t *s, mr_diag_t *diag) {
  while (s->read < s->begun) MR_TRY(queued_read(s, diag));
  return MR_OK;
}

/* Begins to copy the batch of the next step; those that have read its slot are over, as there are
   more slots than steps that are unread. */
static void queued_fill(queued_t *s) {
  s->mark = mr_slots_fill(s->slots, (int)(s->begun % SLOTS), s->q->field, s->q->bytes);
  s->filling = true;
}

/* The slot of the next step, when its batch is there. */
static mr_err_t queued_slot(queued_t *s, int *slot, mr_diag_t *diag) {
  *slot = s->copies ? (int)(s->begun % SLOTS) : 0;
  if (!s->copies) return MR_OK;
  if (!s->filling) queued_fill(s);
  s->filling = false;
  return mr_slots_filled(s->slots, s->mark, true, diag);
}

/* Gives a step without waiting for it, and begins the copy for the one behind it. */
static mr_err_t queued_give(queued_t *s, mr_diag_t *diag) {
  int slot;
  MR_TRY(queued_slot(s, &slot, diag));
  const void *const field[] = {mr_slots_at(s->slots, slot, 0), mr_slots_at(s->slots, slot, 1)};
  if (s->begun - s->read == MR_TRAIN_RING) MR_TRY(queued_read(s, diag));
  const mr_train_in_t in = {.step = s->begun + 1, .seed = 12, .lr = 1e-3f};
  MR_TRY(mr_train_step_run(s->q->step, s->q->params, field, &in, diag));
  s->begun++;
  if (s->copies) queued_fill(s);
  return MR_OK;
}

/* Runs at least `least` steps, and until a second is over. */
static mr_err_t queued_warm_up(queued_t *s, int64_t least, double *took, mr_diag_t *diag) {
  double from = mr_now_s();
  for (int64_t i = 0; i < least || mr_now_s() - from < warm_up_seconds; i++)
    MR_TRY(queued_give(s, diag));
  MR_TRY(queued_drain(s, diag));
  *took = mr_now_s() - from;
  return MR_OK;
}

static mr_err_t queued_steps(queued_t *s, int64_t *steps, mr_diag_t *diag) {
  *steps = s->q->steps;
  if (*steps) return MR_OK;
  double from = mr_now_s();
  MR_TRY(queued_give(s, diag));
  MR_TRY(queued_drain(s, diag));
  double room = most_seconds / (mr_now_s() - from);
  *steps = room < STEPS_LEAST ? STEPS_LEAST : room < STEPS_USUAL ? (int64_t)room : STEPS_USUAL;
  return MR_OK;
}

/* Gives rows of steps with a stamp at each end, and reads the stamps when all are done. */
static mr_err_t rows_by_stamps(queued_t *s, int rows, int64_t row, void *const *stamp,
                               double *seconds, mr_diag_t *diag) {
  const mr_device_t *d = s->q->device;
  const mr_clock_ops_t *clock = d->backend->queue->clock;
  clock->record(d, stamp[0]);
  for (int i = 0; i < rows; i++) {
    for (int64_t k = 0; k < row; k++) MR_TRY(queued_give(s, diag));
    clock->record(d, stamp[i + 1]);
  }
  MR_TRY(queued_drain(s, diag));
  MR_TRY(mr_device_reached(s->q->device, NULL, true, diag));
  for (int i = 0; i < rows; i++) {
    int64_t ns = clock->between(d, stamp[i], stamp[i + 1]);
    if (ns < 0) return mr_fail(diag, MR_ERR_UNAVAILABLE, "the device's clock has failed");
    seconds[i] = (double)ns * 1e-9;
  }
  return MR_OK;
}

static mr_err_t rows_by_host(queued_t *s, int rows, int64_t row, double *seconds, mr_diag_t *diag) {
  for (int i = 0; i < rows; i++) {
    double from = mr_now_s();
    for (int64_t k = 0; k < row; k++) MR_TRY(queued_give(s, diag));
    MR_TRY(queued_drain(s, diag));
    seconds[i] = mr_now_s() - from;
  }
  return MR_OK;
}

static int by_seconds(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sets *median to the seconds of a step. */
static mr_err_t queued_time(queued_t *s, int rows, int64_t row, double *median, mr_diag_t *diag) {
  const mr_device_t *d = s->q->device;
  const mr_clock_ops_t *clock = d->backend->queue->clock;
  void *stamp[ROWS + 1] = {0};
  double seconds[ROWS];
  bool all = clock != NULL;
  for (int i = 0; i <= rows && all; i++) all = (stamp[i] = clock->create(d)) != NULL;
  mr_err_t e = clock && !all ? mr_no_memory(diag, "the stamps of a row of steps")
               : clock       ? rows_by_stamps(s, rows, row, stamp, seconds, diag)
                             : rows_by_host(s, rows, row, seconds, diag);
  for (int i = 0; i <= rows && clock; i++) clock->destroy(d, stamp[i]);
  if (e < 0) return e;
  qsort(seconds, (size_t)rows, sizeof *seconds, by_seconds);
  *median = (seconds[(rows - 1) / 2] + seconds[rows / 2]) / 2 / (double)row;
  return MR_OK;
}

static mr_err_t queued_both(queued_t *s, mr_queued_times_t *out, mr_diag_t *diag) {
  int64_t steps;
  double again;
  void *first = mr_slots_fill(s->slots, 0, s->q->field, s->q->bytes);
  MR_TRY(mr_slots_filled(s->slots, first, true, diag));
  MR_TRY(queued_warm_up(s, s->q->warm_up, &out->warm_up_s, diag));
  MR_TRY(queued_steps(s, &steps, diag));
  out->rows = steps < ROWS ? (int)steps : ROWS;
  out->steps = steps / out->rows * out->rows;
  MR_TRY(queued_time(s, out->rows, steps / out->rows, &out->step_s, diag));
  s->copies = true; /* the first runs of each slot are recorded: these are in its warm-up */
  MR_TRY(queued_warm_up(s, 2 * SLOTS, &again, diag));
  MR_TRY(queued_time(s, out->rows, steps / out->rows, &out->copied_s, diag));
  out->by_device = s->q->device->backend->queue->clock != NULL;
  out->loss[0] = s->loss[0], out->loss[1] = s->loss[1];
  return MR_OK;
}

mr_err_t mr_queued_measure(const mr_queued_t *q, mr_queued_times_t *out, mr_diag_t *diag) {
  queued_t s = {.q = q};
  mr_diag_t unsaid = {0};
  void *pages = (void *)(uintptr_t)q->field[0];
  bool pinned = false;
  MR_TRY(mr_slots_create(q->device, SLOTS, 2, q->bytes, &s.slots, diag));
  if (q->device->backend->memory->pin)
    pinned = q->device->backend->memory->pin(q->device, pages, q->bytes[0]);
  mr_err_t e = queued_both(&s, out, diag);
  if (s.filling) (void)mr_slots_filled(s.slots, s.mark, true, &unsaid); /* the host's bytes stay */
  (void)mr_device_reached(q->device, NULL, true, NULL);
  if (pinned) q->device->backend->memory->unpin(q->device, pages);
  mr_slots_destroy(s.slots);
  return e;
}
