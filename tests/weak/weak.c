#include "tests/weak/weak.h"

#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
  LOCATIONS = 512, /* a round's atomic and plain objects */
  HISTORY = 4096,  /* stores and plain accesses of a round, over all locations */
  MAX_OPS = 40000, /* of a round: more is a livelock */
  STACK = 256 << 10,
  TRACE = 60,
  EVENTS = 16,
  FIRST_EVENT = 1000, /* eventfds of a round, and their first number */
  BUSY = 200          /* operations in a row after which a thread gives way */
};

/* For each location the index, within its history, of the oldest store that may still be seen.  For
   plain memory: how many of its accesses are known to have happened. */
typedef struct {
  uint32_t seen[LOCATIONS];
} view_t;

typedef struct event { /* a store, or an access to plain memory */
  int32_t before;      /* the location's event before it; -1: its first */
  uint32_t index;      /* within the location, from 0 */
  uint64_t value;
  int32_t view; /* what a release store carries: number in views; -1: nothing */
} event_t;

/* An atomic object; or of a plain one its writes, or its reads by one thread. */
enum { ATOMIC = -2, WRITES = -1 };
typedef struct {
  const volatile void *at;
  int kind;         /* ATOMIC, WRITES, or the thread that reads */
  int32_t newest;   /* event */
  uint32_t seq_cst; /* index of the newest seq_cst store */
} location_t;

typedef struct {
  ucontext_t context;
  char *stack;
  void *(*thread)(void *arg);
  void *arg;
  bool over;
  const volatile void *sleeps; /* on this futex word; NULL: it runs */
  bool may_time_out, woken;
  view_t view;
  view_t acquired; /* what relaxed loads have read of release stores: for a later acquire fence */
  view_t fenced;   /* the view at the last release fence: what later relaxed stores carry */
  bool has_fenced;
} fiber_t;

typedef struct {
  const char *what;
  int thread, order;
  const volatile void *at;
  uint64_t value;
} traced_t;

static struct {
  const weak_test_t *test;
  uint64_t seed, random;
  fiber_t fiber[WEAK_THREADS];
  int n_threads;
  int me, n_ops, in_a_row; /* me -1: before or after the threads */
  uint64_t stale, turns,
      spurious; /* one in this many: an older value, another thread's turn, a wake-up */
  ucontext_t scheduler;
  location_t location[LOCATIONS];
  int n_locations, n_events, n_views;
  event_t event[HISTORY];
  view_t views[HISTORY];
  view_t main_view;
  int events[EVENTS], n_event_fds; /* what is in each */
  traced_t trace[TRACE];
  uint64_t n_traced;
  bool quiet, failed;
} w;

static uint64_t draw(void) { /* splitmix64 */
  uint64_t z = w.random += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static void print_trace(void) {
  static const char *const order[] = {"relaxed", "consume", "acquire",
                                      "release", "acq_rel", "seq_cst"};
  uint64_t from = w.n_traced > TRACE ? w.n_traced - TRACE : 0;
  for (uint64_t i = from; i < w.n_traced; i++) {
    const traced_t *t = &w.trace[i % TRACE];
    fprintf(stderr, "  thread %d  %-10s %-8s %p  %llx\n", t->thread, t->what,
            t->order < 0 ? "" : order[t->order], (const void *)t->at, (unsigned long long)t->value);
  }
}

void weak_fail(const char *file, int line, const char *what) {
  if (!w.quiet || w.me < 0) {
    fprintf(stderr, "weak: %s: %s:%d: %s; seed %llu.  The last operations:\n", w.test->name, file,
            line, what, (unsigned long long)w.seed);
    print_trace();
    exit(1);
  }
  w.failed = true;
  setcontext(&w.scheduler); /* which never comes back to a thread of this round */
  abort();
}

static void note(const char *what, const volatile void *at, uint64_t value, int order) {
  w.trace[w.n_traced++ % TRACE] = (traced_t){what, w.me, order, at, value};
}

/* ---- fibers ---- */

static void pass_on(void) { /* to the scheduler, which picks the next thread */
  if (w.me < 0) return;
  w.in_a_row = 0;
  swapcontext(&w.fiber[w.me].context, &w.scheduler);
}

/* Before each operation of a thread: mostly another thread may go first. */
static void step(void) {
  if (w.me < 0) return;
  if (++w.n_ops > MAX_OPS) weak_fail(__FILE__, __LINE__, "the round does not end");
  if (++w.in_a_row > BUSY || draw() % w.turns == 0) pass_on();
}

void weak_yield(void) { pass_on(); }

static void fiber_main(int index) {
  fiber_t *f = &w.fiber[index];
  f->thread(f->arg);
  f->over = true;
  pass_on();
}

void weak_start(void *(*thread)(void *arg), void *arg) {
  if (w.n_threads == WEAK_THREADS) weak_fail(__FILE__, __LINE__, "WEAK_THREADS is too small");
  fiber_t *f = &w.fiber[w.n_threads];
  char *stack = f->stack ? f->stack : malloc(STACK);
  if (!stack) abort();
  *f = (fiber_t){.stack = stack, .thread = thread, .arg = arg};
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = stack, f->context.uc_stack.ss_size = STACK;
  makecontext(&f->context, (void (*)(void))fiber_main, 1, w.n_threads++);
}

int weak_draw(int n) { return (int)(draw() % (uint64_t)n); }

static bool can_run(const fiber_t *f) { return !f->over && (!f->sleeps || f->may_time_out); }

static int pick(void) {
  int n = 0, at[WEAK_THREADS];
  bool any_left = false;
  for (int i = 0; i < w.n_threads; i++) {
    if (can_run(&w.fiber[i])) at[n++] = i;
    if (!w.fiber[i].over) any_left = true;
  }
  if (!n && any_left) {
    if (!w.quiet) weak_fail(__FILE__, __LINE__, "all threads sleep: a wake-up was lost");
    w.failed = true;
  }
  return n ? at[draw() % (uint64_t)n] : -1;
}

/* ---- memory ---- */

static view_t *my_view(void) { return w.me < 0 ? &w.main_view : &w.fiber[w.me].view; }

static void join(view_t *into, const view_t *v) {
  for (int i = 0; i < w.n_locations; i++)
    if (into->seen[i] < v->seen[i]) into->seen[i] = v->seen[i];
}

static int new_event(location_t *l, uint64_t value, int view) {
  if (w.n_events == HISTORY) weak_fail(__FILE__, __LINE__, "HISTORY is too small");
  uint32_t index = l->newest < 0 ? 0 : w.event[l->newest].index + 1;
  w.event[w.n_events] = (event_t){l->newest, index, value, view};
  return l->newest = w.n_events++;
}

static uint64_t memory_of(const volatile void *at, int bytes) {
  uint64_t v = 0;
  memcpy(&v, (const void *)at, (size_t)bytes);
  return v;
}

/* The location at an address; its first event is what memory held before. */
static int location_of(const volatile void *at, int bytes, int kind) {
  for (int i = 0; i < w.n_locations; i++)
    if (w.location[i].at == at && w.location[i].kind == kind) return i;
  if (w.n_locations == LOCATIONS) weak_fail(__FILE__, __LINE__, "LOCATIONS is too small");
  int i = w.n_locations++;
  w.location[i] = (location_t){.at = at, .kind = kind, .newest = -1};
  new_event(&w.location[i], memory_of(at, bytes), -1);
  return i;
}

static bool acquires(int order) {
  return order != memory_order_relaxed && order != memory_order_release;
}
static bool releases(int order) { return order >= memory_order_release; }

static void read_event(int at, const event_t *e, int order) {
  view_t *v = my_view();
  if (v->seen[at] < e->index) v->seen[at] = e->index;
  if (e->view < 0) return;
  if (acquires(order)) join(v, &w.views[e->view]);
  if (w.me >= 0) join(&w.fiber[w.me].acquired, &w.views[e->view]);
}

/* What a store carries: its thread's view if it releases, what the last release fence saw, and what
   the store carried that a read-modify-write replaces. */
static int carried(int order, int replaced) {
  const fiber_t *f = w.me < 0 ? NULL : &w.fiber[w.me];
  bool fence = f && f->has_fenced;
  if (!releases(order) && !fence && replaced < 0) return -1;
  view_t *v = &w.views[w.n_views];
  memset(v, 0, sizeof *v);
  if (releases(order)) join(v, my_view());
  if (fence) join(v, &f->fenced);
  if (replaced >= 0) join(v, &w.views[replaced]);
  return w.n_views++;
}

static void add_store(int at, int bytes, uint64_t value, int order, int replaced) {
  location_t *l = &w.location[at];
  my_view()->seen[at] = w.event[l->newest].index + 1; /* a store carries itself */
  int e = new_event(l, value, -1);
  w.event[e].view = carried(order, replaced);
  if (order == memory_order_seq_cst) l->seq_cst = w.event[e].index;
  memcpy((void *)(uintptr_t)l->at, &value, (size_t)bytes); /* memory holds the newest value */
}

/* One of the stores that a load may see. */
static const event_t *choose(int at, int order) {
  const location_t *l = &w.location[at];
  uint32_t least = my_view()->seen[at];
  if (order == memory_order_seq_cst && least < l->seq_cst) least = l->seq_cst;
  const event_t *e = &w.event[l->newest];
  while (e->index > least && draw() % w.stale == 0) e = &w.event[e->before];
  return e;
}

uint64_t weak_load(const volatile void *at, int bytes, int order) {
  step();
  int l = location_of(at, bytes, ATOMIC);
  const event_t *e = choose(l, order);
  read_event(l, e, order);
  note("load", at, e->value, order);
  return e->value;
}

void weak_store(volatile void *at, int bytes, uint64_t value, int order) {
  step();
  add_store(location_of(at, bytes, ATOMIC), bytes, value, order, -1);
  note("store", at, value, order);
}

static uint64_t cut(uint64_t v, int bytes) {
  return bytes == 8 ? v : v & ((1ull << 8 * bytes) - 1);
}

uint64_t weak_rmw(volatile void *at, int bytes, int how, uint64_t value, int order) {
  step();
  int l = location_of(at, bytes, ATOMIC);
  event_t old = w.event[w.location[l].newest];
  uint64_t now = how == WEAK_ADD ? old.value + value : how == WEAK_OR ? old.value | value : value;
  read_event(l, &old, order);
  add_store(l, bytes, cut(now, bytes), order, old.view);
  note(how == WEAK_SWAP ? "exchange" : how == WEAK_ADD ? "add" : "or", at, cut(now, bytes), order);
  return old.value;
}

bool weak_cas(volatile void *at, int bytes, void *expected, uint64_t value, int order,
              int failure) {
  step();
  int l = location_of(at, bytes, ATOMIC);
  event_t old = w.event[w.location[l].newest];
  uint64_t want = memory_of(expected, bytes);
  bool spurious = draw() % 16 == 0;
  if (old.value == want && !spurious) {
    read_event(l, &old, order);
    add_store(l, bytes, value, order, old.view);
    note("cas", at, value, order);
    return true;
  }
  const event_t *e = spurious ? &old : choose(l, failure);
  read_event(l, e, failure);
  memcpy(expected, &e->value, (size_t)bytes);
  note("cas failed", at, e->value, failure);
  return false;
}

void weak_init(volatile void *at, int bytes, uint64_t value) {
  add_store(location_of(at, bytes, ATOMIC), bytes, value, memory_order_relaxed, -1);
}

void weak_fence(int order) {
  step();
  if (w.me < 0) return;
  fiber_t *f = &w.fiber[w.me];
  if (acquires(order)) join(&f->view, &f->acquired);
  if (releases(order)) f->fenced = f->view, f->has_fenced = true;
  if (order == memory_order_seq_cst)
    weak_fail(__FILE__, __LINE__, "seq_cst fences are not modelled");
}

/* Whether all that happened in location i so far is ordered before what this thread does now. */
static bool knows_all(int i) { return my_view()->seen[i] == w.event[w.location[i].newest].index; }

static void happen(int i) {
  new_event(&w.location[i], 0, -1);
  my_view()->seen[i] = w.event[w.location[i].newest].index;
}

void weak_write(const void *at) {
  step();
  int writes = location_of(at, 0, WRITES);
  for (int i = 0; i < w.n_locations; i++)
    if (w.location[i].at == at && w.location[i].kind != ATOMIC && !knows_all(i))
      weak_fail(__FILE__, __LINE__, "a write races with an access before it");
  happen(writes);
  note("write", at, 0, -1);
}

void weak_read(const void *at) {
  step();
  if (!knows_all(location_of(at, 0, WRITES)))
    weak_fail(__FILE__, __LINE__, "a read races with a write before it");
  if (w.me >= 0) happen(location_of(at, 0, w.me));
  note("read", at, 0, -1);
}

/* ---- mutexes: a thread that finds one taken tries again later ---- */

void weak_lock(const void *mutex) {
  volatile void *word = (volatile void *)(uintptr_t)mutex; /* its first four bytes: 0 is free */
  if (w.me < 0) return;
  for (;;) {
    unsigned is_free = 0;
    if (weak_cas(word, 4, &is_free, 1, memory_order_acquire, memory_order_relaxed)) return;
    pass_on();
  }
}

void weak_unlock(const void *mutex) {
  if (w.me >= 0) weak_store((volatile void *)(uintptr_t)mutex, 4, 0, memory_order_release);
}

/* ---- futex: the kernel looks at the newest value and sleeps in one step ---- */

static long wake(const volatile void *word, unsigned most) {
  long n = 0;
  for (int i = 0; i < w.n_threads && n < (long)most; i++) {
    fiber_t *f = &w.fiber[i];
    if (f->sleeps != word || f->woken) continue;
    f->sleeps = NULL, f->woken = true, n++;
  }
  return n;
}

long weak_futex(volatile void *word, int op, unsigned value, const void *most) {
  step();
  note((op & FUTEX_CMD_MASK) == FUTEX_WAKE ? "futex wake" : "futex wait", word, value, -1);
  if ((op & FUTEX_CMD_MASK) == FUTEX_WAKE) return wake(word, value);
  if (memory_of(word, 4) != value) return -1;
  fiber_t *f = &w.fiber[w.me];
  f->sleeps = word, f->may_time_out = most != NULL, f->woken = false;
  if (draw() % w.spurious == 0) f->may_time_out = true; /* as the kernel is free to wake it */
  pass_on();
  f->sleeps = NULL;
  return 0;
}

/* ---- descriptors: as the kernel's, one order of all reads and writes ---- */

static int *event_at(int fd) {
  if (fd < FIRST_EVENT || fd >= FIRST_EVENT + w.n_event_fds)
    weak_fail(__FILE__, __LINE__, "no descriptor of this round");
  return &w.events[fd - FIRST_EVENT];
}

int weak_event(void) {
  step();
  if (w.n_event_fds == EVENTS) weak_fail(__FILE__, __LINE__, "EVENTS is too small");
  w.events[w.n_event_fds] = 0;
  return FIRST_EVENT + w.n_event_fds++;
}

void weak_event_write(int fd) {
  step();
  note("event", NULL, (uint64_t)fd, -1);
  ++*event_at(fd);
  wake(w.events, WEAK_THREADS); /* those that poll others sleep on */
}

bool weak_event_read(int fd) {
  step();
  int there = *event_at(fd);
  *event_at(fd) = 0;
  return there;
}

int weak_poll(const struct pollfd *fd, int n, bool times_out) {
  step();
  fiber_t *f = &w.fiber[w.me];
  for (;;) {
    int ready = 0;
    for (int i = 0; i < n; i++) ready += *event_at(fd[i].fd) != 0;
    if (ready) return ready;
    note("poll", NULL, (uint64_t)n, -1);
    f->sleeps = w.events, f->woken = false;
    f->may_time_out = times_out || draw() % w.spurious == 0; /* or a signal comes */
    pass_on();
    f->sleeps = NULL;
    if (!f->woken) return 0;
  }
}

/* ---- rounds ---- */

static void round_of(const weak_test_t *test, uint64_t seed) {
  w.test = test, w.seed = seed, w.random = seed * 0x9E3779B97F4A7C15u + 1;
  w.n_locations = w.n_events = w.n_views = w.n_ops = w.in_a_row = w.n_threads = 0;
  w.n_event_fds = 0;
  w.n_traced = 0;
  w.failed = false;
  /* Some faults need threads that run far, some threads that take turns, some very old values. */
  w.stale = 2 + draw() % 4, w.turns = 2ull << draw() % 6, w.spurious = 4ull << draw() % 8;
  memset(&w.main_view, 0, sizeof w.main_view);
  w.me = -1;
  test->before();
  for (int i = 0; i < w.n_threads; i++) w.fiber[i].view = w.main_view;
  for (int i; w.me = -1, (i = pick()) >= 0;) {
    w.me = i;
    swapcontext(&w.scheduler, &w.fiber[i].context);
    if (w.failed) return;
  }
  if (w.failed) return;
  for (int i = 0; i < w.n_threads; i++) join(&w.main_view, &w.fiber[i].view);
  if (test->after) test->after();
}

void weak_run(const weak_test_t *test, uint64_t first, int n) {
  w.quiet = false;
  for (int i = 0; i < n; i++) round_of(test, first + (uint64_t)i);
  printf("weak: %s: %d rounds, nothing found\n", test->name, n);
}

bool weak_finds(const weak_test_t *test, uint64_t first, int n) {
  w.quiet = true;
  for (int i = 0; i < n; i++) {
    round_of(test, first + (uint64_t)i);
    if (w.failed) return true;
  }
  return false;
}
