/* Parts to be requested, against a plain list that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loaders/remote/remote_pending.h"
#include "tests/random.h"

enum { MOST = 300, OBJECTS = 3, PLACES = 200 };

typedef struct plain {
  int32_t unit, handle;
  const mr_object_t *object;
  int64_t at, size;
} plain_t;

static int32_t find_first(const plain_t *list, int n) { return n ? list[0].unit : MR_PENDING_NONE; }

/* The place of the neighbour: at `at` or behind it, or before it. */
static int64_t find_place(const plain_t *list, int n, const mr_object_t *o, int64_t at,
                          bool before) {
  int64_t best = -1;
  for (int i = 0; i < n; i++) {
    int64_t x = list[i].at;
    if (list[i].object != o || (before ? x >= at : x < at)) continue;
    if (best < 0 || (before ? x > best : x < best)) best = x;
  }
  return best;
}

static int64_t place_of(const plain_t *list, int n, int32_t unit, const mr_object_t *o) {
  for (int i = 0; i < n; i++)
    if (list[i].unit == unit) return list[i].object == o ? list[i].at : -2;
  return -1;
}

static void parts_are_found_by_order_and_by_place(void **state) {
  static const mr_object_t object[OBJECTS];
  for (round_t r = round_first(30); round_next(&r);) {
    plain_t list[MOST];
    mr__pending_t *p = mr__pending_create();
    int n = 0;
    int64_t bytes = 0;
    assert_non_null(p);
    for (int step = 0; step < 3000; step++) {
      const mr_object_t *o = &object[draw(&r, OBJECTS)];
      int64_t at = (int64_t)draw(&r, PLACES);
      if (n < MOST && (int)draw(&r, 400) < MOST - n) {
        plain_t x = {.unit = step, .object = o, .at = at, .size = (int64_t)draw(&r, 9)};
        x.handle = mr__pending_add(p, x.unit, o, at, x.size);
        assert_int_not_equal(x.handle, MR_PENDING_NONE);
        list[n++] = x, bytes += x.size;
      } else if (n) {
        int k = (int)draw(&r, (uint64_t)n);
        mr__pending_remove(p, list[k].handle);
        bytes -= list[k].size;
        for (n--; k < n; k++) list[k] = list[k + 1];
      }
      int64_t from = place_of(list, n, mr__pending_from(p, o, at), o);
      int64_t before = place_of(list, n, mr__pending_before(p, o, at), o);
      round_check(&r, mr__pending_first(p) == find_first(list, n), "step %d: first", step);
      round_check(&r, mr__pending_bytes(p) == bytes, "step %d: bytes", step);
      round_check(&r, from == find_place(list, n, o, at, false), "step %d: from", step);
      round_check(&r, before == find_place(list, n, o, at, true), "step %d: before", step);
    }
    mr__pending_destroy(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_found_by_order_and_by_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
