/* The CPU as a backend: the table of functions that the executor uses.  Most of it is thin, since
   the host's memory is the device's; what it adds is the team of threads that the kernels of a run
   share: its size, its pinning, and its end. */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/machine.h"
#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/program.h"
#include "model/backends/cpu/rules.h"
#include "model/exec/backend.h"
#include "model/ops/rules.h"
#include "model/transforms/passes.h"

/* ---- the OpenMP team that the kernels of a run share ---- */

static struct {
  pthread_once_t once;
  cpu_set_t allowed; /* as at the first call; a pinned thread's own set is smaller */
  int n;
} cpus = {.once = PTHREAD_ONCE_INIT};

static void team_look(void) {
  CPU_ZERO(&cpus.allowed);
  if (sched_getaffinity(0, sizeof cpus.allowed, &cpus.allowed) == 0)
    cpus.n = CPU_COUNT(&cpus.allowed);
}

/* Sets the team of the calling thread to n >= 1 threads.  Returns the size it had before. */
static int team_set(int n) {
  int before = omp_get_max_threads();
  omp_set_num_threads(n);
  return before;
}

static void pin_to(int k) {
  cpu_set_t one;
  int cpu = 0;
  for (k %= cpus.n; !CPU_ISSET(cpu, &cpus.allowed) || k-- > 0;) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/* Returns the number of processors that the process may use, as found before any thread was
   pinned (at the first call of this or of team_pin); 0 if the system does not say.  Any thread. */
static int team_processors(void) {
  pthread_once(&cpus.once, team_look);
  return cpus.n;
}

/* Pins each thread of the calling thread's team, itself included, to a processor of its own among
   those the process may use; with fewer processors, threads share them in turn.  Does nothing if
   the system refuses. */
static void team_pin(void) {
  if (!team_processors()) return;
#pragma omp parallel
  pin_to(omp_get_thread_num());
}

/* Ends the other threads of the team, which would spin beside the team of another thread while
   they wait. */
static void team_release(void) { omp_pause_resource_all(omp_pause_soft); }

/* ---- the table ---- */

static void backend_give(void *data, size_t bytes) { free(data); }

/* The pointers of an empty copy may be NULL, which memcpy does not accept. */
static void backend_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way) {
  if (bytes) memcpy(to, from, bytes);
}

static int backend_begin(int threads, bool pin) {
  int before = team_set(threads);
  if (pin) team_pin();
  return before;
}

static void backend_end(int before) { team_set(before); }

static void backend_spread(int threads) { team_set(threads); }

/* Whether e asks for a lower precision of f32 products than its kernel has. */
static bool asks_in_vain(const mr_eqn_t *e) {
  const mr_cpu_rule_t *r = mr__cpu_rule(e->op);
  mr_precision_t p = mr_precision_of(e);
  return r && r->f32_alone && e->in[0]->aval.dtype == MR_F32 &&
         (p == MR_PRECISION_DEFAULT || p == MR_PRECISION_HIGH);
}

/* Whether e computes in f64, which kernels of composites cannot. */
static bool too_wide(const mr_eqn_t *e) {
  bool wide = false;
  for (int k = 0; k < e->n_in; k++) wide |= e->in[k]->aval.dtype == MR_F64;
  for (int k = 0; k < e->n_out; k++) wide |= e->out[k]->aval.dtype == MR_F64;
  return wide;
}

static bool backend_opens(const mr_eqn_t *e) { return asks_in_vain(e) || too_wide(e); }

static const mr_target_t target = {.loop_eqns = MR_PROGRAM_EQNS,
                                   .loop_ends = MR_PROGRAM_ENDS,
                                   .element = mr__cpu_element,
                                   .opens = backend_opens};

static mr_err_t backend_open(const char *number, mr_diag_t *diag) {
  if (!number) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "device = cpu:%.40s: the processors are one device, want cpu; threads= says how "
                 "many compute",
                 number);
}

static void backend_describe(void (*say)(void *arg, const char *line), void *arg) {
  say(arg, "cpu: the processors, always");
}

const mr_backend_t mr_backend_cpu = {.name = "cpu",
                                     .align = 64,
                                     .host = true,
                                     .open = backend_open,
                                     .check = mr_isa_check,
                                     .describe = backend_describe,
                                     .take = mr_pages_alloc,
                                     .give = backend_give,
                                     .room = mr_machine_memory,
                                     .copy = backend_copy,
                                     .lower = mr__cpu_lower,
                                     .target = &target,
                                     .threads = omp_get_max_threads,
                                     .processors = team_processors,
                                     .begin = backend_begin,
                                     .end = backend_end,
                                     .spread = backend_spread,
                                     .leave = team_release,
                                     .fma = mr_limit_fma,
                                     .bandwidth = mr_limit_copy};
