/* The three learning-rate schedules: cosine, linear and inverse square root, each behind a linear
   warm-up.  The rate of a step follows from its number alone, so a resumed run needs no state for
   it. */
#include "model/optim/schedule.h"

#include <math.h>

float mr_schedule_at(const mr_schedule_t *s, int64_t step) {
  if (step < s->warmup) return s->peak * (float)step / (float)s->warmup;
  if (s->kind == MR_SCHEDULE_RSQRT) {
    double from = s->warmup > 0 ? (double)s->warmup : 1;
    return (float)(s->peak * sqrt(from / fmax((double)step, from)));
  }
  if (s->total <= s->warmup) return s->peak;
  if (step >= s->total) return s->end;
  double at = (double)(step - s->warmup) / (double)(s->total - s->warmup);
  double left =
      s->kind == MR_SCHEDULE_LINEAR ? 1 - at : 0.5 * (1 + cos(3.14159265358979323846 * at));
  return (float)(s->end + (s->peak - s->end) * left);
}
