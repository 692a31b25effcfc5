/* A rank that the others wait for: whether it works, is stopped or has failed follows from what its
   process answers, and not from how long it takes. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "model/exec/device.h"
#include "tests/ranks/processes.h"

enum { SIZE = 3 };

/* The wait of a call, in which a thread may be made to stand. */
bool __real_mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns);
bool __wrap_mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns);
static void (*stands)(void); /* in this process's next wait; NULL: waits as usual */
static void (*counts)(void); /* before each of its waits; NULL: nothing */

bool __wrap_mr_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ns) {
  void (*now)(void) = stands;
  stands = NULL;
  if (counts) counts();
  if (!now) return __real_mr_cond_wait_until(c, lock, until_ns);
  pthread_mutex_unlock(lock);
  now();
  pthread_mutex_lock(lock);
  return true;
}

/* Joins a communicator with this limit. */
static mr_collect_t *join(mr_job_t *job, double limit_s, said_t *said) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  said->code = mr_job_collect(job)->create(mr_device_default(), "late", mr_job_rank(job), SIZE,
                                           limit_s, &c, &diag);
  return c;
}

static void gather(mr_job_t *job, mr_collect_t *c) {
  int mine = mr_job_rank(job), all[SIZE];
  mr_job_collect(job)->all_gather(c, sizeof mine, &mine, all);
}

/* Leaves the communicator and says how it has gone. */
static void leave(mr_job_t *job, mr_collect_t *c, said_t *said) {
  mr_diag_t diag = {0};
  said->code = mr_job_collect(job)->failed(c, &said->missing, &diag);
  snprintf(said->text, sizeof said->text, "%.390s", diag.text);
  mr_job_collect(job)->destroy(c);
}

static void run_all(ranks_t *t, rank_fn *fn) {
  for (int r = 0; r < t->size; r++) start_rank(t, r, fn);
}

static mr_pace_t pace; /* of rank 1's work */

/* Works, while the others wait for much longer than the limit. */
static void work_long(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 2, said);
  if (rank == 1) {
    mr_job_doing(job, "evaluates after", 7, pace);
    for (double until = mr_now_s() + 4; mr_now_s() < until;) mr_pace_beat(pace, 12, 40);
  }
  gather(job, c);
  leave(job, c, said);
}

static void work_that_continues_outlasts_the_limit(void **state) {
  static const mr_pace_t paces[] = {MR_PACE_OPEN, MR_PACE_BATCHES, MR_PACE_TENSORS};
  for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
    ranks_t t = ranks_of(SIZE, 600);
    t.cfg.silent_s = 60;
    pace = paces[i];
    run_all(&t, work_long);
    for (int r = 0; r < SIZE; r++) {
      said_t said = end_rank(&t, r);
      if (said.code < 0) fail_msg("rank %d: %s", r, said.text);
    }
  }
}

/* Stands still within long work until the others fail. */
static void halt_in_long_work(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 2, said);
  mr_diag_t diag = {0};
  int missing;
  mr_job_doing(job, rank == 1 ? "evaluates after" : "is ready for", 7, rank == 1 ? pace : 0);
  if (rank == 1) mr_pace_beat(pace, 12, 40);
  while (rank == 1 && mr_job_collect(job)->failed(c, &missing, &diag) >= 0) continue;
  gather(job, c);
  leave(job, c, said);
}

static void long_work_that_stands_still_is_named_with_where(void **state) {
  static const struct {
    mr_pace_t pace;
    const char *where;
  } rows[] = {{MR_PACE_BATCHES, "; rank 1 evaluates after step 7, batch 12 of 40 since"},
              {MR_PACE_TENSORS, "; rank 1 evaluates after step 7, tensor 12 of 40 since"},
              {MR_PACE_VALUES, "; rank 1 evaluates after step 7, piece 12 of 40 since"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ranks_t t = ranks_of(SIZE, 600);
    t.cfg.silent_s = 60;
    pace = rows[i].pace;
    run_all(&t, halt_in_long_work);
    for (int r = 0; r < SIZE; r++) {
      said_t said = end_rank(&t, r);
      assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
      assert_int_equal(said.missing, 1);
      if (!strstr(said.text, rows[i].where)) fail_msg("rank %d says: %s", r, said.text);
    }
  }
}

/* Halts in its second fetch of values, before its first piece, while some come. */
static void halt_between_pieces(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 2, said);
  mr_diag_t diag = {0};
  int missing;
  mr_job_doing(job, "gives its parts of", 6, MR_PACE_VALUES);
  if (rank == 1) mr_pace_beat(MR_PACE_VALUES, 40, 40);
  int64_t ended = mr_now_ns();
  while (mr_now_ns() == ended) continue;
  mr_job_doing(job, "gives its parts of", 7, MR_PACE_VALUES);
  if (rank == 1) mr_pace_beat(MR_PACE_VALUES, 0, 0);
  while (rank == 1 && mr_job_collect(job)->failed(c, &missing, &diag) >= 0) continue;
  gather(job, c);
  leave(job, c, said);
}

static void a_piece_of_an_earlier_work_is_not_said_of_the_next_one(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 60;
  run_all(&t, halt_between_pieces);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    assert_int_equal(said.missing, 1);
    if (!strstr(said.text, "; rank 1 gives its parts of step 7 since"))
      fail_msg("rank %d says: %s", r, said.text);
  }
}

static void work_until_the_others_fail(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 2, said);
  mr_diag_t diag = {0};
  int missing;
  mr_job_doing(job, rank == 1 ? "reads the batch of" : "is ready for", 7, MR_PACE_LIMITED);
  while (rank == 1 && mr_job_collect(job)->failed(c, &missing, &diag) >= 0) continue;
  gather(job, c);
  leave(job, c, said);
}

static void a_rank_that_is_late_is_named_with_what_it_does(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 60;
  run_all(&t, work_until_the_others_fail);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    assert_int_equal(said.missing, 1);
    if (!strstr(said.text, "rank 1 did not come to all_gather within 2 s") ||
        !strstr(said.text, "; rank 1 reads the batch of step 7 since"))
      fail_msg("rank %d says: %s", r, said.text);
  }
}

static void stop_within_a_call(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 600, said);
  gather(job, c);
  if (rank == 1) raise(SIGSTOP);
  gather(job, c);
  leave(job, c, said);
}

static void a_process_that_says_nothing_is_named_long_before_the_limit(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 1;
  run_all(&t, stop_within_a_call);
  for (int r = 0; r < SIZE; r++) {
    if (r == 1) continue;
    said_t said = end_rank(&t, r);
    assert_int_equal(said.missing, 1);
    if (!strstr(said.text, "rank 1 has not been heard of")) fail_msg("rank %d: %s", r, said.text);
  }
  kill(t.pid[1], SIGKILL);
  end_rank(&t, 1);
}

/* As behind a device, whose library waits: no rank is within a call of the table. */
static void ask_while_the_device_waits(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c = join(job, 600, said);
  mr_diag_t unsaid = {0};
  int missing;
  gather(job, c);
  if (rank == 1) raise(SIGSTOP);
  for (int64_t since = mr_now_ns(); ops->failed(c, &missing, &unsaid) >= 0; sched_yield())
    ops->ask(c, since, "a recorded run");
  leave(job, c, said);
}

static void a_process_that_says_nothing_is_named_by_ranks_that_ask(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 1;
  run_all(&t, ask_while_the_device_waits);
  for (int r = 0; r < SIZE; r++) {
    if (r == 1) continue;
    said_t said = end_rank(&t, r);
    assert_int_equal(said.missing, 1);
    if (!strstr(said.text, "rank 1 has not been heard of") ||
        !strstr(said.text, "in a recorded run"))
      fail_msg("rank %d: %s", r, said.text);
  }
  kill(t.pid[1], SIGKILL);
  end_rank(&t, 1);
}

static void wait_in_a_circle(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  char byte;
  mr_collect_t *c = join(job, 600, said);
  gather(job, c);
  mr_job_collect(job)->receive(c, (rank + 1) % SIZE, 1, &byte);
  leave(job, c, said);
}

static void ranks_that_wait_for_each_other_do_not_wait_for_the_limit(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 1;
  run_all(&t, wait_in_a_circle);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    if (!strstr(said.text, "they make different calls")) fail_msg("rank %d: %s", r, said.text);
  }
}

static int standing[2]; /* a pipe, with a byte for each of the others when rank 1 stands */
static const mr_collect_ops_t *standing_ops;
static mr_collect_t *standing_in;

static void stand_until_the_others_fail(void) {
  mr_diag_t diag = {0};
  int missing;
  if (write(standing[1], "ab", SIZE - 1) != SIZE - 1) abort();
  while (standing_ops->failed(standing_in, &missing, &diag) >= 0) continue;
}

static void stand_within_a_call(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  char byte;
  mr_collect_t *c = join(job, 9, said);
  gather(job, c);
  standing_ops = mr_job_collect(job), standing_in = c;
  if (rank == 1) stands = stand_until_the_others_fail;
  if (rank != 1 && read(standing[0], &byte, 1) != 1) abort();
  for (int turn = 0; turn < 2; turn++) gather(job, c);
  leave(job, c, said);
}

/* What rank 1 has waited for is there, but its thread does not continue: it does not wait for rank
   0 any more, whatever it said before. */
static void a_stalled_thread_is_not_taken_for_one_that_waits(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 3;
  assert_int_equal(pipe(standing), 0);
  run_all(&t, stand_within_a_call);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    bool late = strstr(said.text, "did not come to all_gather") != NULL;
    if ((late && said.missing != 1) || strstr(said.text, "they make different calls"))
      fail_msg("rank %d says: %s", r, said.text);
  }
  close(standing[0]), close(standing[1]);
}

/* ---- ranks that wait in another communicator ---- */

/* Joins a communicator of ranks `first` and first + 1. */
static mr_collect_t *join_pair(mr_job_t *job, const char *id, int first, double limit_s,
                               said_t *said) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  said->code = mr_job_collect(job)->create(mr_device_default(), id, mr_job_rank(job) - first, 2,
                                           limit_s, &c, &diag);
  return c;
}

static int waiting[2]; /* a pipe, with a byte when rank 1 waits for rank 2 */
static int done[2];    /* and with one when rank 0 has failed */

static void say_that_rank_1_waits(void) {
  if (write(waiting[1], "a", 1) != 1) abort();
}

static void read_byte(int fd) {
  char byte;
  if (read(fd, &byte, 1) != 1) abort();
}

/* Rank 0 waits for rank 1, which waits for rank 2 in another communicator. */
static void wait_for_one_that_waits(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c =
      rank == 0 ? join_pair(job, "first", 0, 2, said) : join_pair(job, "second", 1, 600, said);
  mr_collect_t *first = rank == 1 ? join_pair(job, "first", 0, 600, said) : NULL;
  mr_job_doing(job, "computes", 7, MR_PACE_LIMITED);
  if (rank == 0) read_byte(waiting[0]);
  if (rank == 1) stands = say_that_rank_1_waits;
  if (rank == 2) read_byte(done[0]);
  gather(job, c);
  if (rank == 0 && write(done[1], "a", 1) != 1) abort();
  leave(job, c, said);
  if (first) mr_job_collect(job)->destroy(first);
}

static void a_rank_that_waits_in_another_communicator_is_not_named(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 60;
  assert_int_equal(pipe(waiting) | pipe(done), 0);
  run_all(&t, wait_for_one_that_waits);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    if (r) continue;
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    assert_int_equal(said.missing, -1); /* of the pair none */
    if (!strstr(said.text, "rank 2 did not come to all_gather within 2 s, for which rank 0 waited"))
      fail_msg("rank %d says: %s", r, said.text);
  }
  close(waiting[0]), close(waiting[1]), close(done[0]), close(done[1]);
}

/* The same, and rank 2 is stopped: rank 1 learns it, and ends its run with that. */
static void wait_for_one_that_waits_for_a_stopped(const ranks_t *t, int rank, mr_job_t *job,
                                                  said_t *said) {
  char why[300];
  mr_collect_t *c =
      rank == 0 ? join_pair(job, "first", 0, 600, said) : join_pair(job, "second", 1, 600, said);
  mr_collect_t *first = rank == 1 ? join_pair(job, "first", 0, 600, said) : NULL;
  if (rank) gather(job, c); /* rank 1 knows then which process it waits for */
  if (rank == 2) raise(SIGSTOP);
  gather(job, c);
  leave(job, c, said);
  snprintf(why, sizeof why, "train: step 7: %.250s", said->text);
  if (rank == 1) mr_job_fail(job, why);
  if (first) mr_job_collect(job)->destroy(first);
}

static void a_rank_that_has_waited_for_the_stopped_one_is_not_named(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  t.cfg.silent_s = 1;
  run_all(&t, wait_for_one_that_waits_for_a_stopped);
  for (int r = 0; r < 2; r++) {
    said_t said = end_rank(&t, r);
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    if (!strstr(said.text, "rank 2 has not been heard of") || strstr(said.text, "rank 1 has"))
      fail_msg("rank %d says: %s", r, said.text);
  }
  kill(t.pid[2], SIGKILL);
  end_rank(&t, 2);
}

/* ---- healthy ranks that wait for longer than a process may be silent ---- */

static int rank_1_waits[2], rank_1_works[2], rank_2_works[2]; /* pipes: a byte ends it */
static int64_t begun_ns;
static int turns;
static bool one_communicator;

enum { SILENT_S = 3, TURNS = 6 /* in which rank 0 learns for whom rank 1 waits, and asks that */ };

static void end_work(int fd) {
  if (write(fd, "a", 1) != 1) abort();
}

static void say_that_rank_1_waits_now(void) { end_work(rank_1_waits[1]); }

/* Rank 0's waits: rank 1 ends its work after the time of silence, and rank 2 when rank 0 has had
   the time to learn of it. */
static void let_the_others_work(void) {
  static bool reported, waits;
  char byte;
  if (!reported && mr_now_ns() - begun_ns > (int64_t)SILENT_S * 3 / 2 * 1000000000)
    reported = true, end_work(rank_1_works[1]);
  if (reported && !waits && read(rank_1_waits[0], &byte, 1) == 1) waits = true;
  if (waits && ++turns == TURNS) end_work(rank_2_works[1]);
}

/* Values go from rank 2 to 1 and from there to 0. */
static void work_one_after_the_other(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  char byte = 0;
  mr_collect_t *low = one_communicator ? join(job, 600, said) : NULL, *high = low;
  if (!one_communicator && rank < 2) low = join_pair(job, "first", 0, 600, said);
  if (!one_communicator && rank > 0) high = join_pair(job, "second", 1, 600, said);
  begun_ns = mr_now_ns();
  if (rank == 0) counts = let_the_others_work;
  if (rank == 0) ops->receive(low, 1, 1, &byte);
  if (rank == 1) read_byte(rank_1_works[0]), stands = say_that_rank_1_waits_now;
  if (rank == 1) ops->receive(high, one_communicator ? 2 : 1, 1, &byte);
  if (rank == 1) ops->send(low, 0, 1, &byte);
  if (rank == 2) read_byte(rank_2_works[0]);
  if (rank == 2) ops->send(high, one_communicator ? 1 : 0, 1, &byte);
  counts = NULL;
  if (rank == 1 && high != low) ops->destroy(high);
  leave(job, rank < 2 ? low : high, said);
}

/* Rank 0 has asked rank 2 nothing while it waited for rank 1: it has not been silent then. */
static void a_rank_that_was_not_asked_is_not_silent(void **state) {
  for (int i = 0; i < 2; i++) {
    ranks_t t = ranks_of(SIZE, 600);
    t.cfg.silent_s = SILENT_S;
    one_communicator = i;
    assert_int_equal(pipe(rank_1_waits) | pipe(rank_1_works) | pipe(rank_2_works), 0);
    run_all(&t, work_one_after_the_other);
    for (int r = 0; r < SIZE; r++) {
      said_t said = end_rank(&t, r);
      if (said.code < 0) fail_msg("rank %d: %s", r, said.text);
    }
    for (int k = 0; k < 2; k++) close(rank_1_waits[k]), close(rank_1_works[k]);
    for (int k = 0; k < 2; k++) close(rank_2_works[k]);
  }
}

/* ---- circles over several communicators ---- */

static int circle_size;

/* Each rank waits for the next one, in a communicator of its own. */
static void wait_in_a_circle_of_communicators(const ranks_t *t, int rank, mr_job_t *job,
                                              said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c[SIZE];
  mr_diag_t diag = {0};
  char id[24], byte;
  for (int i = 0; i < circle_size; i++) {
    snprintf(id, sizeof id, "of %d", i);
    ops->create(mr_device_default(), id, rank, circle_size, 3, &c[i], &diag);
  }
  mr_job_doing(job, "computes", 7, MR_PACE_LIMITED);
  ops->receive(c[rank], (rank + 1) % circle_size, 1, &byte);
  for (int i = 0; i < circle_size; i++)
    if (i != rank) ops->destroy(c[i]);
  leave(job, c[rank], said);
}

static void a_circle_over_communicators_ends(void **state) {
  static const double silent_s[] = {1, 60};
  for (int i = 0; i < 4; i++) {
    bool named = false;
    circle_size = 2 + i / 2;
    ranks_t t = ranks_of(circle_size, 20);
    t.cfg.silent_s = silent_s[i % 2];
    run_all(&t, wait_in_a_circle_of_communicators);
    for (int r = 0; r < circle_size; r++) {
      said_t said = end_rank(&t, r);
      assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
      named |= strstr(said.text, "in another communicator: they make different calls") != NULL;
    }
    assert_true(named);
  }
}

static int both_wait[2]; /* a pipe, with a byte when rank 0 has waited for long */

static void *receive_beside(void *c) {
  char byte;
  mr_collect_zmq.receive(c, 0, 1, &byte);
  return NULL;
}

static void let_rank_1_work(void) {
  if (++turns == 3 * TURNS) end_work(both_wait[1]);
}

/* A thread of rank 1 waits for rank 0, which waits for another one, that works. */
static void work_beside_a_thread_that_waits(const ranks_t *t, int rank, mr_job_t *job,
                                            said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *first = join_pair(job, "first", 0, 2, said);
  mr_collect_t *second = join_pair(job, "second", 0, 600, said);
  pthread_t beside;
  char byte = 0;
  struct pollfd ends = {.fd = both_wait[0], .events = POLLIN};
  if (rank == 0) {
    counts = let_rank_1_work;
    ops->receive(first, 1, 1, &byte);
    counts = NULL;
    ops->send(second, 1, 1, &byte);
  } else {
    mr_job_doing(job, "evaluates after", 7, MR_PACE_BATCHES);
    if (pthread_create(&beside, NULL, receive_beside, second)) abort();
    while (!poll(&ends, 1, 10)) mr_pace_beat(MR_PACE_BATCHES, 12, 40);
    ops->send(first, 0, 1, &byte);
    pthread_join(beside, NULL);
  }
  ops->destroy(second);
  leave(job, first, said);
}

static void a_thread_that_waits_is_not_taken_for_one_that_works(void **state) {
  ranks_t t = ranks_of(2, 600);
  t.cfg.silent_s = 2;
  assert_int_equal(pipe(both_wait), 0);
  run_all(&t, work_beside_a_thread_that_waits);
  for (int r = 0; r < 2; r++) {
    said_t said = end_rank(&t, r);
    if (said.code < 0) fail_msg("rank %d: %s", r, said.text);
  }
  close(both_wait[0]), close(both_wait[1]);
}

static void fail_while_others_wait(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 600, said);
  gather(job, c);
  if (rank == 1) mr_job_fail(job, "the disk is full");
  gather(job, c);
  leave(job, c, said);
  c = join(job, 600, said); /* one that is joined later fails too */
  gather(job, c);
  leave(job, c, said);
}

static void a_run_that_fails_says_why_to_all_ranks(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  run_all(&t, fail_while_others_wait);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    assert_int_equal(said.code, MR_ERR_UNAVAILABLE);
    assert_string_equal(said.text,
                        r == 1 ? "the disk is full" : "rank 1 has failed: the disk is full");
  }
}

/* As a stage says it when all ranks have heard of one's failure. */
static void fail_by_another_rank(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 600, said);
  gather(job, c);
  if (rank == 2) mr_job_fail(job, "train: rank 1: a file: the disk is full");
  gather(job, c);
  leave(job, c, said);
}

static void a_rank_that_repeats_anothers_failure_is_not_named(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  run_all(&t, fail_by_another_rank);
  for (int r = 0; r < SIZE; r++)
    assert_string_equal(end_rank(&t, r).text, "train: rank 1: a file: the disk is full");
  assert_true(mr_names_rank("rank 12: gone"));
  assert_false(mr_names_rank("matmul: rank 3, want 2"));
  assert_false(mr_names_rank("a frank 3: gone"));
  assert_false(mr_names_rank("train: rank : gone"));
}

static void leave_early(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_collect_t *c = join(job, 600, said);
  gather(job, c);
  if (rank != 1) gather(job, c);
  leave(job, c, said);
}

static void a_rank_that_leaves_is_not_waited_for(void **state) {
  ranks_t t = ranks_of(SIZE, 600);
  run_all(&t, leave_early);
  for (int r = 0; r < SIZE; r++) {
    said_t said = end_rank(&t, r);
    if (r == 1) continue;
    if (!strstr(said.text, "rank 1 has left")) fail_msg("rank %d: %s", r, said.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_that_continues_outlasts_the_limit),
      cmocka_unit_test(long_work_that_stands_still_is_named_with_where),
      cmocka_unit_test(a_piece_of_an_earlier_work_is_not_said_of_the_next_one),
      cmocka_unit_test(a_rank_that_is_late_is_named_with_what_it_does),
      cmocka_unit_test(a_process_that_says_nothing_is_named_long_before_the_limit),
      cmocka_unit_test(a_process_that_says_nothing_is_named_by_ranks_that_ask),
      cmocka_unit_test(ranks_that_wait_for_each_other_do_not_wait_for_the_limit),
      cmocka_unit_test(a_stalled_thread_is_not_taken_for_one_that_waits),
      cmocka_unit_test(a_rank_that_waits_in_another_communicator_is_not_named),
      cmocka_unit_test(a_rank_that_has_waited_for_the_stopped_one_is_not_named),
      cmocka_unit_test(a_rank_that_was_not_asked_is_not_silent),
      cmocka_unit_test(a_circle_over_communicators_ends),
      cmocka_unit_test(a_thread_that_waits_is_not_taken_for_one_that_works),
      cmocka_unit_test(a_run_that_fails_says_why_to_all_ranks),
      cmocka_unit_test(a_rank_that_repeats_anothers_failure_is_not_named),
      cmocka_unit_test(a_rank_that_leaves_is_not_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
