/* The waiter alone, over news and over descriptors: under every order of threads and every value
   that weak memory may show no thread sleeps for ever, and what was written before the news is
   seen. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>

#include "pipeline/wait.h"
#include "tests/weak/descriptors.h"
#include "tests/weak/weak.h"

enum { HOPS = 6 };

typedef enum way { UNTIL, POLL, EITHER, PATIENT } way_t;

typedef struct side {
  mr_wait_t wait;
  atomic_int news; /* hops that came to this side */
  int fd;          /* through which some of them come */
  int seen;
} side_t;

static side_t side[2];
static way_t way;
static bool by_descriptor;
static int plain;

static bool has_come(void *arg) {
  side_t *s = arg;
  return atomic_load_explicit(&s->news, memory_order_seq_cst) != s->seen;
}

static void wait_for_hop(side_t *s) {
  struct pollfd fd = {.fd = s->fd, .events = POLLIN};
  for (;;) {
    if (has_come(s)) {
      s->seen++;
      return;
    }
    if (by_descriptor && weak_event_read(s->fd)) return;
    bool polls = way == POLL || by_descriptor || (way == EITHER && weak_draw(2));
    if (polls)
      mr_wait_poll(&s->wait, has_come, s, &fd, 1, weak_draw(4) ? -1 : 5);
    else
      mr_wait_until(&s->wait, has_come, s);
  }
}

/* A descriptor hands nothing over, as the kernel's order is not C11's: beside them nothing is
   written. */
static void send_hop(side_t *to) {
  if (by_descriptor && weak_draw(2)) {
    weak_event_write(to->fd);
    return;
  }
  if (!by_descriptor) weak_write(&plain);
  atomic_fetch_add_explicit(&to->news, 1, memory_order_seq_cst);
  if (way == PATIENT && weak_draw(2))
    mr_wait_hint(&to->wait);
  else
    mr_wait_wake(&to->wait);
}

/* Each side sends a hop, then waits for one: a wake-up that is lost is the last one. */
static void *hop(void *arg) {
  side_t *me = arg, *other = &side[me == &side[0]];
  for (int i = 0; i < HOPS; i++) {
    if (me == &side[0]) send_hop(other);
    int before = me->seen;
    wait_for_hop(me);
    if (me->seen != before && !by_descriptor) weak_read(&plain);
    if (me == &side[1]) send_hop(other);
  }
  return NULL;
}

/* Wakes both for no reason. */
static void *disturb(void *arg) {
  for (int i = 0; i < 4; i++) mr_wait_wake(&side[weak_draw(2)].wait);
  return NULL;
}

static void before(void) {
  for (int i = 0; i < 2; i++) {
    side[i] = (side_t){.fd = weak_event(), .wait = {.patient = way == PATIENT}};
    atomic_init(&side[i].wait.parked, 0), atomic_init(&side[i].wait.event, 0);
    atomic_init(&side[i].news, 0);
    weak_start(hop, &side[i]);
  }
  weak_start(disturb, NULL);
}

static void after(void) {
  for (int i = 0; i < 2; i++) mr_wait_fini(&side[i].wait);
}

static int number_of(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

static void try_way(const char *name, way_t w, bool descriptors) {
  weak_test_t test = {name, before, after};
  uint64_t seed = (uint64_t)number_of("MR_SEED", 1);
  int rounds = number_of("MR_ROUNDS", 5000);
  way = w, by_descriptor = descriptors;
#ifdef WEAK_SEQ_CST
  assert_true(weak_finds(&test, seed, rounds * 10));
#else
  weak_run(&test, seed, rounds);
#endif
}

static void no_wake_up_is_lost_by_a_futex(void **state) { try_way("until", UNTIL, false); }
static void no_wake_up_is_lost_by_poll(void **state) { try_way("poll", POLL, false); }

#ifndef WEAK_SEQ_CST
static void no_wake_up_is_lost_when_both_are_used(void **state) {
  try_way("until and poll", EITHER, false);
}
static void no_wake_up_is_lost_beside_descriptors(void **state) {
  try_way("descriptors", EITHER, true);
}
static void no_wake_up_or_hint_is_lost_by_patient_threads(void **state) {
  try_way("patient", PATIENT, false);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_wake_up_is_lost_by_a_futex),
      cmocka_unit_test(no_wake_up_is_lost_by_poll),
#ifndef WEAK_SEQ_CST
      cmocka_unit_test(no_wake_up_is_lost_when_both_are_used),
      cmocka_unit_test(no_wake_up_is_lost_beside_descriptors),
      cmocka_unit_test(no_wake_up_or_hint_is_lost_by_patient_threads),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
