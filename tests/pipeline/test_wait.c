/* Waiting alone: what returns at once, what has no descriptor left, and that no wake-up is lost,
   whichever way a thread waits.  In the random rounds threads pass one token on: its next owner
   gets one wake-up and no second one that could hide that the first was lost. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "pipeline/wait.h"
#include "tests/random.h"

static bool always(void *arg) { return true; }
static bool never(void *arg) { return false; }
static bool is_set(void *arg) {
  return atomic_load_explicit((atomic_int *)arg, memory_order_seq_cst);
}

static int descriptors(void) { /* the lowest free one */
  int fd = dup(0);
  close(fd);
  return fd;
}

static int event(void) {
  int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  assert_true(fd >= 0);
  return fd;
}

static void without_a_descriptor_left_poll_says_so_and_waits_for_nothing(void **state) {
  mr_wait_t w = {0};
  struct rlimit before, none;
  int lowest = descriptors();
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before, none.rlim_cur = (rlim_t)lowest;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  bool could = mr_wait_poll(&w, never, NULL, NULL, 0, -1);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_false(could);
  assert_true(mr_wait_poll(&w, always, NULL, NULL, 0, -1)); /* and is none the worse for it */
  mr_wait_fini(&w);
}

static void news_that_is_there_already_returns_at_once(void **state) {
  mr_wait_t w = {0}, patient = {.patient = true};
  mr_wait_until(&w, always, NULL);
  mr_wait_until(&patient, always, NULL);
  assert_true(mr_wait_poll(&w, always, NULL, NULL, 0, -1));
  assert_int_equal(w.parked, 0);
  assert_int_equal(patient.parked, 0);
  mr_wait_fini(&w);
}

static void a_wake_up_for_a_thread_that_runs_changes_nothing(void **state) {
  mr_wait_t w = {0};
  mr_wait_wake(&w), mr_wait_hint(&w);
  assert_int_equal(w.parked, 0);
  assert_int_equal(w.event, 0);
  assert_true(mr_wait_poll(&w, never, NULL, NULL, 0, 0)); /* no time: looks and returns */
  assert_int_equal(w.parked, 0);
  mr_wait_fini(&w);
}

static void each_of_the_descriptors_ends_the_wait(void **state) {
  mr_wait_t w = {0};
  struct pollfd fd[MR_WAIT_FDS];
  uint64_t one = 1;
  for (int i = 0; i < MR_WAIT_FDS; i++) fd[i] = (struct pollfd){.fd = event(), .events = POLLIN};
  for (int n = 1; n <= MR_WAIT_FDS; n++) {
    for (int i = 0; i < n; i++) {
      assert_int_equal(write(fd[i].fd, &one, sizeof one), sizeof one);
      assert_true(mr_wait_poll(&w, never, NULL, fd, n, -1));
      assert_int_equal(read(fd[i].fd, &one, sizeof one), sizeof one); /* it took nothing of it */
    }
  }
  for (int i = 0; i < MR_WAIT_FDS; i++) close(fd[i].fd);
  mr_wait_fini(&w);
}

static void the_end_closes_what_was_opened(void **state) {
  mr_wait_t w = {0};
  int lowest = descriptors();
  mr_wait_fini(&w); /* nothing was */
  assert_true(mr_wait_poll(&w, always, NULL, NULL, 0, -1));
  assert_int_not_equal(descriptors(), lowest);
  mr_wait_fini(&w), mr_wait_fini(&w);
  assert_int_equal(descriptors(), lowest);
}

/* ---- from a signal handler ---- */

static mr_wait_t handled;
static atomic_int heard;

static void hear(int signo) {
  int kept = errno;
  atomic_exchange_explicit(&heard, 1, memory_order_seq_cst);
  errno = EDOM;
  mr_wait_wake(&handled);
  if (errno != EDOM) atomic_store_explicit(&heard, -1, memory_order_seq_cst);
  errno = kept;
}

static void *interrupt(void *arg) {
  while (!atomic_load_explicit(&handled.parked, memory_order_seq_cst)) sched_yield();
  pthread_kill(*(pthread_t *)arg, SIGUSR1);
  return NULL;
}

static void a_signal_handler_wakes_the_thread_that_it_interrupts(void **state) {
  struct sigaction act = {.sa_handler = hear}, before;
  pthread_t me = pthread_self(), other;
  sigaction(SIGUSR1, &act, &before);
  for (int i = 0; i < 200; i++) {
    atomic_store_explicit(&heard, 0, memory_order_seq_cst);
    assert_int_equal(pthread_create(&other, NULL, interrupt, &me), 0);
    if (i % 2)
      mr_wait_until(&handled, is_set, &heard);
    else
      while (!is_set(&heard)) assert_true(mr_wait_poll(&handled, is_set, &heard, NULL, 0, -1));
    assert_int_equal(heard, 1); /* and errno is as it was */
    pthread_join(other, NULL);
  }
  sigaction(SIGUSR1, &before, NULL);
  mr_wait_fini(&handled);
}

/* ---- rounds ---- */

enum { MOST = 6, HOPS = 400, DESCRIPTORS = 3 };

typedef struct walker {
  struct circle *c;
  int me;
  round_t r;
  mr_wait_t wait;
  int fd[DESCRIPTORS];
  atomic_int news; /* hops that came this way, and not through a descriptor */
  int seen;        /* the owner's: of news */
  int64_t came;
} walker_t;

typedef struct circle {
  walker_t w[MOST];
  int n;
  bool over_descriptors; /* a hop may come through one */
  atomic_int hops, over;
} circle_t;

static bool has_come(void *arg) {
  walker_t *w = arg;
  return atomic_load_explicit(&w->news, memory_order_seq_cst) != w->seen ||
         atomic_load_explicit(&w->c->over, memory_order_seq_cst);
}

/* Takes the hop that came by news or by a descriptor, of which there is at most one. */
static bool take_hop(walker_t *w) {
  uint64_t n;
  int news = atomic_load_explicit(&w->news, memory_order_seq_cst), came = news - w->seen;
  w->seen = news;
  for (int i = 0; i < DESCRIPTORS; i++)
    if (read(w->fd[i], &n, sizeof n) == sizeof n) came += (int)n;
  round_check(&w->r, came == 0 || came == 1, "%d hops came at once", came);
  w->came += came;
  return came;
}

static void pass_on(walker_t *from) {
  circle_t *c = from->c;
  walker_t *to = &c->w[draw(&from->r, c->n)];
  uint64_t one = 1;
  if (atomic_fetch_add_explicit(&c->hops, 1, memory_order_relaxed) + 1 >= HOPS) {
    atomic_exchange_explicit(&c->over, 1, memory_order_seq_cst);
    for (int i = 0; i < c->n; i++) mr_wait_wake(&c->w[i].wait);
    return;
  }
  for (int i = draw(&from->r, 3); i; i--) sched_yield();
  if (one_in(&from->r, 4)) mr_wait_wake(&c->w[draw(&from->r, c->n)].wait); /* for no reason */
  if (c->over_descriptors && one_in(&from->r, 2)) {
    (void)!write(to->fd[draw(&from->r, DESCRIPTORS)], &one, sizeof one);
    return;
  }
  atomic_fetch_add_explicit(&to->news, 1, memory_order_seq_cst);
  mr_wait_wake(&to->wait);
}

static void wait_some_way(walker_t *w) {
  struct pollfd fd[DESCRIPTORS];
  for (int i = 0; i < DESCRIPTORS; i++) fd[i] = (struct pollfd){.fd = w->fd[i], .events = POLLIN};
  if (!w->c->over_descriptors && one_in(&w->r, 2)) {
    mr_wait_until(&w->wait, has_come, w);
    round_check(&w->r, has_come(w), "until returned without news");
  } else {
    int ms = one_in(&w->r, 4) ? draw(&w->r, 3) : -1;
    round_check(&w->r, mr_wait_poll(&w->wait, has_come, w, fd, DESCRIPTORS, ms), "no descriptor");
  }
  round_check(&w->r, !atomic_load_explicit(&w->wait.parked, memory_order_relaxed),
              "it still counts as asleep");
}

static void *walk(void *arg) {
  walker_t *w = arg;
  while (!atomic_load_explicit(&w->c->over, memory_order_seq_cst)) {
    if (take_hop(w)) pass_on(w);
    if (!has_come(w)) wait_some_way(w);
  }
  return NULL;
}

static void run_circle(circle_t *c, round_t *r) {
  pthread_t thread[MOST];
  c->n = 2 + draw(r, MOST - 1);
  for (int i = 0; i < c->n; i++) {
    c->w[i] = (walker_t){.c = c, .me = i, .r = round_split(r)};
    for (int k = 0; k < DESCRIPTORS; k++) c->w[i].fd[k] = event();
  }
  c->w[0].news = 1;
  for (int i = 0; i < c->n; i++) pthread_create(&thread[i], NULL, walk, &c->w[i]);
  int64_t came = 0;
  for (int i = 0; i < c->n; i++) {
    pthread_join(thread[i], NULL);
    mr_wait_fini(&c->w[i].wait);
    for (int k = 0; k < DESCRIPTORS; k++) close(c->w[i].fd[k]);
    came += c->w[i].came;
  }
  round_check(r, came == HOPS, "%lld hops came", (long long)came);
}

static void a_token_that_is_passed_on_never_waits_for_a_thread_that_sleeps(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    circle_t c = {.over_descriptors = one_in(&r, 2)};
    run_circle(&c, &r);
  }
}

/* Patient threads see what they were only hinted at when their doze is over; real wake-ups reach
   them before. */
static void *hint(void *arg) {
  circle_t *c = arg;
  round_t r = c->w[0].r;
  for (int i = 0; i < 5; i++) {
    while (atomic_load_explicit(&c->hops, memory_order_seq_cst) != i) sched_yield();
    if (one_in(&r, 2))
      while (atomic_load_explicit(&c->w[0].wait.parked, memory_order_seq_cst) != MR__DOZES)
        sched_yield();
    atomic_fetch_add_explicit(&c->w[0].news, 1, memory_order_seq_cst);
    if (one_in(&r, 2))
      mr_wait_hint(&c->w[0].wait);
    else
      mr_wait_wake(&c->w[0].wait);
  }
  return NULL;
}

static void a_hint_reaches_a_patient_thread_in_the_end(void **state) {
  round_t r = round_first(4);
  while (round_next(&r)) {
    circle_t c = {.n = 1};
    pthread_t thread;
    c.w[0] = (walker_t){.c = &c, .r = round_split(&r), .wait = {.patient = true}};
    pthread_create(&thread, NULL, hint, &c);
    for (int i = 0; i < 5; i++) {
      mr_wait_until(&c.w[0].wait, has_come, &c.w[0]);
      c.w[0].seen = atomic_load_explicit(&c.w[0].news, memory_order_seq_cst);
      round_check(&r, c.w[0].seen == i + 1, "%d came", c.w[0].seen);
      atomic_fetch_add_explicit(&c.hops, 1, memory_order_seq_cst);
    }
    pthread_join(thread, NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_descriptor_left_poll_says_so_and_waits_for_nothing),
      cmocka_unit_test(news_that_is_there_already_returns_at_once),
      cmocka_unit_test(a_wake_up_for_a_thread_that_runs_changes_nothing),
      cmocka_unit_test(each_of_the_descriptors_ends_the_wait),
      cmocka_unit_test(the_end_closes_what_was_opened),
      cmocka_unit_test(a_signal_handler_wakes_the_thread_that_it_interrupts),
      cmocka_unit_test(a_token_that_is_passed_on_never_waits_for_a_thread_that_sleeps),
      cmocka_unit_test(a_hint_reaches_a_patient_thread_in_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
