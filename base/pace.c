/* The newest beat of each pace.  Its numbers belong together, which a lock keeps; beats come
   once a batch or some MB, so that this costs nothing. */
#include "base/pace.h"

#include <assert.h>
#include <pthread.h>

#include "base/clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr_beat_t newest[MR_PACE_N];

void mr_pace_beat(mr_pace_t pace, int64_t at, int64_t of) {
  assert(pace < MR_PACE_N);
  int64_t now = mr_now_ns();
  pthread_mutex_lock(&lock);
  if (at) newest[pace] = (mr_beat_t){.at = at, .of = of, .unit_ns = now};
  newest[pace].ns = now;
  pthread_mutex_unlock(&lock);
}

mr_beat_t mr_pace_newest(mr_pace_t pace) {
  assert(pace < MR_PACE_N);
  pthread_mutex_lock(&lock);
  mr_beat_t beat = newest[pace];
  pthread_mutex_unlock(&lock);
  return beat;
}

const char *mr_pace_unit(mr_pace_t pace) {
  static const char *const units[MR_PACE_N] = {
      [MR_PACE_BATCHES] = "batch", [MR_PACE_TENSORS] = "tensor", [MR_PACE_VALUES] = "piece"};
  assert(pace < MR_PACE_N);
  return units[pace];
}
