/* One question a thread.  Waits look at it a few times a second rather than being woken: what ends
   a run knows nothing of the locks and sockets that its stages wait with. */
#include "base/halt.h"

#include <time.h>

#include "base/clock.h"

static _Thread_local mr_halt_t of_thread;

mr_halt_t mr_halt_set(mr_halt_t h) {
  mr_halt_t before = of_thread;
  of_thread = h;
  return before;
}

mr_halt_t mr_halt_get(void) { return of_thread; }
static bool thread_ends(void) { return of_thread.asked && of_thread.asked(of_thread.of); }
bool mr_halted(void) { return thread_ends() && mr_now_ns() >= of_thread.until_ns; }

int mr_halt_left_ms(int most) {
  if (!thread_ends()) return most;
  int64_t left = (of_thread.until_ns - mr_now_ns()) / 1000000;
  return left < 0 ? 0 : left < most ? (int)left : most;
}

static const int64_t slice_ns = MR_HALT_SLICE_MS * INT64_C(1000000);

bool mr_halt_wait(pthread_cond_t *c, pthread_mutex_t *lock) {
  if (mr_halted()) return false;
  int64_t until = mr_now_ns() + slice_ns;
  struct timespec at = {until / 1000000000, until % 1000000000};
  pthread_cond_clockwait(c, lock, CLOCK_MONOTONIC, &at);
  return true;
}

bool mr_halt_pause(int64_t ns) {
  for (int64_t left = ns; left > 0; left -= slice_ns) {
    int64_t some = left < slice_ns ? left : slice_ns;
    struct timespec t = {some / 1000000000, some % 1000000000};
    if (mr_halted()) return false;
    nanosleep(&t, NULL);
  }
  return !mr_halted();
}
