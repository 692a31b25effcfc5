/* Learning rates against optax's, of settings drawn at random (tests/golden/schedule.py). */
#include <inttypes.h>
#include <math.h>

#include "model/model.h"
#include "tests/vectors.h"

static void every_rate_is_that_of_optax(void **state) {
  FILE *f = vectors_open("schedule.txt");
  char line[256];
  int rows = 0;
  assert_non_null(f);
  while (vectors_line(f, line, sizeof line)) {
    mr_schedule_t s;
    int kind;
    int64_t step;
    float want;
    assert_int_equal(sscanf(line, "%d %f %f %" SCNd64 " %" SCNd64 " %" SCNd64 " %f", &kind, &s.peak,
                            &s.end, &s.warmup, &s.total, &step, &want),
                     7);
    s.kind = (mr_schedule_kind_t)kind;
    float got = mr_schedule_at(&s, step), most = fmaxf(s.peak, s.end);
    if (fabsf(got - want) > 4e-7f * most) fail_msg("%s: %.9g", line, got);
    rows++;
  }
  fclose(f);
  vectors_met(rows, 271);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_rate_is_that_of_optax)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
