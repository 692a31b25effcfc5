/* Belady's rule against a plain oracle on random orders, and against LRU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loaders/remote/belady.h"
#include "tests/random.h"

enum { UNITS_MOST = 40, USES_MOST = 600 };

/* The next use of a unit after i; n if it is not used again. */
static int next_use(const int *use, int n, int i, int unit) {
  for (i++; i < n && use[i] != unit; i++) continue;
  return i;
}

/* Hits of the best cache, by looking at the whole future each time. */
static int best_hits(const int *use, int n, int capacity) {
  int held[UNITS_MOST], n_held = 0, hits = 0;
  for (int i = 0; i < n; i++) {
    int worst = -1, at = 0;
    for (int k = 0; k < n_held; k++) at |= held[k] == use[i];
    hits += at;
    if (at) continue;
    if (n_held < capacity) {
      held[n_held++] = use[i];
      continue;
    }
    for (int k = 0; k < n_held; k++)
      if (worst < 0 || next_use(use, n, i, held[k]) > next_use(use, n, i, held[worst])) worst = k;
    if (worst >= 0 && next_use(use, n, i, held[worst]) > next_use(use, n, i, use[i]))
      held[worst] = use[i];
  }
  return hits;
}

static int lru_hits(const int *use, int n, int capacity) {
  int held[UNITS_MOST], n_held = 0, hits = 0; /* held[0]: the newest */
  for (int i = 0; i < n && capacity; i++) {
    int at = 0;
    while (at < n_held && held[at] != use[i]) at++;
    if (at < n_held)
      hits++;
    else if (n_held < capacity)
      at = n_held++;
    else
      at = n_held - 1;
    for (; at; at--) held[at] = held[at - 1];
    held[0] = use[i];
  }
  return hits;
}

/* Epochs of permutations, as training has, or any order at all. */
static int draw_order(round_t *r, int *use, int units) {
  int n = 0;
  bool epochs = one_in(r, 2);
  while (n + units <= USES_MOST && !(n && one_in(r, 12))) {
    for (int i = 0; i < units; i++) use[n + i] = epochs ? i : (int)draw(r, (uint64_t)units);
    for (int i = units - 1; i > 0 && epochs; i--) {
      int k = (int)draw(r, (uint64_t)i + 1), t = use[n + i];
      use[n + i] = use[n + k], use[n + k] = t;
    }
    n += units;
  }
  return n;
}

static void hits_are_those_of_the_best_cache(void **state) {
  for (round_t r = round_first(300); round_next(&r);) {
    int use[USES_MOST], units = 1 + (int)draw(&r, UNITS_MOST);
    int n = draw_order(&r, use, units), capacity = (int)draw(&r, (uint64_t)units + 2), hits = 0;
    bool held[UNITS_MOST] = {false};
    mr_belady_t *b = mr_belady_new((uint32_t)capacity);
    for (int i = 0; i < n; i++) assert_true(mr_belady_tell(b, (uint32_t)use[i]));
    for (int i = 0; i < n; i++) {
      mr_belady_use_t u;
      assert_int_equal(mr_belady_distance(b, (uint32_t)use[i]), 0);
      assert_true(mr_belady_take(b, &u));
      round_check(&r, u.unit == (uint32_t)use[i] && u.hit == held[use[i]], "use %d", i);
      hits += u.hit;
      if (u.lost != MR_BELADY_NONE) {
        round_check(&r, held[u.lost], "use %d drops what is not there", i);
        held[u.lost] = false;
      }
      held[use[i]] = u.kept;
      int n_held = 0;
      for (int k = 0; k < units; k++) n_held += held[k];
      round_check(&r, n_held <= capacity, "use %d: %d units in %d", i, n_held, capacity);
    }
    int best = best_hits(use, n, capacity), lru = lru_hits(use, n, capacity);
    round_check(&r, hits == best && hits >= lru, "%d hits, the best has %d, LRU %d", hits, best,
                lru);
    mr_belady_free(b);
  }
}

/* Uses may be announced little by little; with too short a view hits are fewer, and never wrong. */
static void a_short_view_is_still_a_cache(void **state) {
  for (round_t r = round_first(200); round_next(&r);) {
    int use[USES_MOST], units = 1 + (int)draw(&r, UNITS_MOST), reported = 0, hits = 0;
    int n = draw_order(&r, use, units), view = 1 + (int)draw(&r, 3 * (uint64_t)units);
    uint32_t capacity = 1 + (uint32_t)draw(&r, (uint64_t)units);
    mr_belady_t *b = mr_belady_new(capacity);
    for (int i = 0; i < n; i++) {
      mr_belady_use_t u;
      for (; reported < n && reported < i + view; reported++)
        mr_belady_tell(b, (uint32_t)use[reported]);
      if (one_in(&r, 20)) mr_belady_drop(b, (uint32_t)draw(&r, UNITS_MOST));
      bool held = mr_belady_holds(b, (uint32_t)use[i]);
      assert_true(mr_belady_take(b, &u));
      round_check(&r, u.hit == held && u.unit == (uint32_t)use[i], "use %d", i);
      hits += u.hit;
    }
    round_check(&r, hits <= best_hits(use, n, (int)capacity), "more hits than possible");
    mr_belady_free(b);
  }
}

/* Units that are kept out change nothing for the others. */
static void barred_units_take_no_room(void **state) {
  for (round_t r = round_first(100); round_next(&r);) {
    int use[USES_MOST], rest[USES_MOST], units = 2 + (int)draw(&r, UNITS_MOST - 1), n_rest = 0,
                                         hits = 0;
    int n = draw_order(&r, use, units), barred = (int)draw(&r, (uint64_t)units);
    uint32_t capacity = (uint32_t)draw(&r, (uint64_t)units + 1);
    mr_belady_t *b = mr_belady_new(capacity);
    for (int i = 0; i < barred; i++) assert_true(mr_belady_bar(b, (uint32_t)i, true));
    for (int i = 0; i < n; i++) {
      assert_true(mr_belady_tell(b, (uint32_t)use[i]));
      if (use[i] >= barred) rest[n_rest++] = use[i];
    }
    if (barred) assert_false(mr_belady_hold(b, 0));
    for (mr_belady_use_t u; mr_belady_take(b, &u);) {
      round_check(&r, u.unit >= (uint32_t)barred || (!u.hit && !u.kept && u.lost == MR_BELADY_NONE),
                  "unit %u is kept", u.unit);
      hits += u.hit;
    }
    int best = best_hits(rest, n_rest, (int)capacity);
    round_check(&r, hits == best, "%d hits, the best has %d", hits, best);
    mr_belady_free(b);
  }
}

/* A cache of half the data, and permutations: no record is used twice within an epoch. */
static void half_the_data_gives_more_than_twice_the_hits_of_lru(void **state) {
  enum { UNITS = UNITS_MOST, EPOCHS = 15 };
  int use[UNITS * EPOCHS], n = 0;
  round_t r = {.x = 3};
  for (int e = 0; e < EPOCHS; e++, n += UNITS) {
    for (int i = 0; i < UNITS; i++) use[n + i] = i;
    for (int i = UNITS - 1; i > 0; i--) {
      int k = (int)draw(&r, (uint64_t)i + 1), t = use[n + i];
      use[n + i] = use[n + k], use[n + k] = t;
    }
  }
  int hits = 0, best = best_hits(use, n, UNITS / 2), lru = lru_hits(use, n, UNITS / 2);
  mr_belady_t *b = mr_belady_new(UNITS / 2);
  for (int i = 0; i < n; i++) assert_true(mr_belady_tell(b, (uint32_t)use[i]));
  for (mr_belady_use_t u; mr_belady_take(b, &u);) hits += u.hit;
  mr_belady_free(b);
  print_message("hits behind the first epoch: %d %%, LRU %d %%\n", 100 * hits / (n - UNITS),
                100 * lru / (n - UNITS));
  assert_int_equal(hits, best);
  assert_true(hits > 2 * lru);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hits_are_those_of_the_best_cache),
      cmocka_unit_test(a_short_view_is_still_a_cache),
      cmocka_unit_test(barred_units_take_no_room),
      cmocka_unit_test(half_the_data_gives_more_than_twice_the_hits_of_lru),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
