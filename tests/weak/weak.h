/* A stress tester of C11's weak memory orders for the real text of pipeline/: rings, pools,
   waiting, ports, the scheduler.

   That room is compiled once more with atomics.h in front, so that each of its atomic operations,
   futex calls, mutexes and thread starts comes here; wait.c alone also with descriptors.h, for
   poll.  Threads are fibers on one kernel thread; after every operation a generator decides who
   runs next, and which of the values that the memory model allows a load returns:
   - each location keeps the history of its stores; a thread's view says how old a value it may
   still see in each location, and reading takes that value's place as the new limit (coherence);
   - a release store carries its thread's view, which an acquire load of it joins;
   read-modify-writes read the newest value and hand on what the store they replace carried (release
   sequences);
   - a seq_cst load sees no value older than the newest seq_cst store of its location.
   The order of stores to one location is the order in which they ran, and loads never see stores
   that have not run yet: so cycles of relaxed loads and stores (load buffering) are not explored,
   which the compilers and processors of today do not make out of these files' operations either. As
   in Relacy (D. Vyukov), whose simplifications these are; unlike it this takes C text as it is.

   Plain memory that the threads hand over is checked through weak_write and weak_read: an access
   that the accesses of others before it are not ordered before is a data race.  All threads asleep
   is a lost wake-up.  A failure prints the round's seed and the last operations, and ends the
   process. */
#ifndef MR_TESTS_WEAK_H
#define MR_TESTS_WEAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { WEAK_THREADS = 8 };

typedef struct weak_test {
  const char *name;
  void (*before)(
      void); /* makes what the threads share and starts them; ordered before all of them */
  void (*after)(void); /* checks and gives back; ordered after all of them */
} weak_test_t;

/* In before: starts one more thread, of at most WEAK_THREADS. */
void weak_start(void *(*thread)(void *arg), void *arg);
/* A number in [0,n), n > 0, by which before and the threads vary a round. */
int weak_draw(int n);

/* Runs n rounds with the generator's seeds first, first+1 ...; exits with 1 at the first failure.
 */
void weak_run(const weak_test_t *test, uint64_t first, int n);

/* The same until one round fails, which is a return value and not printed: for tests of the
   tester, whose threads are faulty on purpose.  true: some round in n has failed. */
bool weak_finds(const weak_test_t *test, uint64_t first, int n);

/* What atomics.h makes of an atomic operation on at[0,bytes), bytes in [1,8]. */
enum { WEAK_ADD, WEAK_OR, WEAK_SWAP };
uint64_t weak_load(const volatile void *at, int bytes, int order);
void weak_store(volatile void *at, int bytes, uint64_t value, int order);
uint64_t weak_rmw(volatile void *at, int bytes, int how, uint64_t value, int order);
bool weak_cas(volatile void *at, int bytes, void *expected, uint64_t value, int order, int failure);
void weak_init(volatile void *at, int bytes, uint64_t value);
void weak_fence(int order);

/* SYS_futex: FUTEX_WAIT (with most not NULL it may time out at any moment) and FUTEX_WAKE. */
long weak_futex(volatile void *word, int op, unsigned value, const void *most);
/* An eventfd that does not block: write adds 1, read takes all, false: there is nothing.  Gone with
   the round. */
int weak_event(void);
void weak_event_write(int fd);
bool weak_event_read(int fd);
/* poll for reading such descriptors; with times_out it may return 0 at any moment. */
struct pollfd;
int weak_poll(const struct pollfd *fd, int n, bool times_out);
void weak_yield(void); /* another thread may run */
void weak_lock(const void *mutex);
void weak_unlock(const void *mutex);

/* Accesses to plain memory, which only says that they happen: at is any address. */
void weak_write(const void *at);
void weak_read(const void *at);

/* In a thread: holds must be true. */
#define WEAK_CHECK(holds) ((holds) ? (void)0 : weak_fail(__FILE__, __LINE__, #holds))
_Noreturn void weak_fail(const char *file, int line, const char *what);

#endif
