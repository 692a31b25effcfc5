#include "model/optim/schedule.h"

#include <math.h>

float mr_schedule_at(const mr_schedule_t *s, int64_t step) {
  if (step < s->warmup) return s->peak * (float)step / (float)s->warmup;
  if (s->total <= s->warmup) return s->peak;
  if (step >= s->total) return s->end;
  double at = (double)(step - s->warmup) / (double)(s->total - s->warmup);
  return (float)(s->end + (s->peak - s->end) * 0.5 * (1 + cos(3.14159265358979323846 * at)));
}
