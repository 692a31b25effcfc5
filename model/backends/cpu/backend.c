/* The CPU as a backend: the tables of functions that the executor uses.  Most of it is thin, since
   the host's memory is the device's; what it adds is the team of threads that the kernels of a run
   share: its size, its pinning, and its end.  A device is all processors, or a share of them: its
   runs use as many threads.  The process has one memory and one library of threads for all of
   them. */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/machine.h"
#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/program.h"
#include "model/backends/cpu/rules.h"
#include "model/exec/backend.h"
#include "model/exec/collect.h"
#include "model/ops/rules.h"
#include "model/transforms/passes.h"

/* ---- the OpenMP team that the kernels of a run share ---- */

/* Of the whole process. */
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

/* Processors [first,first+n) of those that the process may use, counted from 0; with n threads or
   more, threads share them in turn. */
typedef struct share {
  int first, n;
  int index, of; /* the share's number among equal ones; of is 0 for all processors */
} share_t;

/* Returns the number of processors that the process may use, as found before any thread was
   pinned (at the first call); 0 if the system does not say.  Any thread. */
static int team_all(void) {
  pthread_once(&cpus.once, team_look);
  return cpus.n;
}

/* The processors of d. */
static share_t team_share(const mr_device_t *d) {
  const share_t *s = d->context;
  return s ? *s : (share_t){.first = 0, .n = team_all()};
}

static int team_processors(const mr_device_t *d) { return team_share(d).n; }

/* All that the calling thread's team has, or the processors of the share. */
static int team_threads(const mr_device_t *d) {
  const share_t *s = d->context;
  return !s ? omp_get_max_threads() : s->n ? s->n : 1;
}

static void pin_to(int k) {
  cpu_set_t one;
  int cpu = 0;
  for (k %= cpus.n; !CPU_ISSET(cpu, &cpus.allowed) || k-- > 0;) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/* Pins each thread of the calling thread's team, itself included, to a processor of its own among
   those of s; with fewer processors, threads share them in turn.  Does nothing if the system
   refuses. */
static void team_pin(share_t s) {
  if (!s.n) return;
#pragma omp parallel
  pin_to(s.first + omp_get_thread_num() % s.n);
}

static int team_begin(const mr_device_t *d, int threads, bool pin) {
  int before = team_set(threads);
  if (pin) team_pin(team_share(d));
  return before;
}

static void team_end(const mr_device_t *d, int before) { team_set(before); }

static void team_spread(const mr_device_t *d, int threads) { team_set(threads); }

/* Ends the other threads of the team, which would spin beside the team of another thread while
   they wait. */
static void team_release(void) { omp_pause_resource_all(omp_pause_soft); }

/* A child has none of the threads, and OpenMP would wait for them for ever: the team of the thread
   that forks ends before, and begins again with the next work, in parent and child. */
__attribute__((constructor)) static void team_outlives_forks(void) {
  pthread_atfork(team_release, NULL, NULL);
  pthread_atfork(mr__workspace_hold, mr__workspace_let_go, mr__workspace_let_go);
}

/* ---- memory, which is the host's: one for all shares ---- */

static void *host_take(const mr_device_t *d, size_t bytes) { return mr_pages_alloc(bytes); }

static void host_give(const mr_device_t *d, void *data, size_t bytes) { free(data); }

static size_t host_room(const mr_device_t *d) { return mr_machine_memory(); }

/* The pointers of an empty copy may be NULL, which memcpy does not accept. */
static void host_copy(const mr_device_t *d, void *to, const void *from, size_t bytes,
                      mr_copy_way_t way) {
  if (bytes) memcpy(to, from, bytes);
}

/* ---- what is compiled how ---- */

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

static bool cpu_opens(const mr_target_t *t, const mr_eqn_t *e) {
  return asks_in_vain(e) || too_wide(e);
}

static const mr_target_t cpu_target = {.loop_eqns = MR_PROGRAM_EQNS,
                                       .loop_ends = MR_PROGRAM_ENDS,
                                       .element = mr__cpu_element,
                                       .opens = cpu_opens};

/* The same of all shares. */
static const mr_target_t *cpu_target_of(const mr_device_t *d) { return &cpu_target; }

/* ---- devices: all processors together, or one of several equal shares ---- */

enum { SHARES_MOST = 1024 };

/* How many shares the numbers count: MILLRACE_CPU_DEVICES, else one a processor, but at least two,
   so that a program for two devices runs everywhere. */
static mr_err_t shares_usual(int *of, mr_diag_t *diag) {
  const char *wish = getenv("MILLRACE_CPU_DEVICES");
  *of = team_all() > 2 ? team_all() : 2;
  if (!wish || !*wish) return MR_OK;
  *of = strlen(wish) <= 4 && strspn(wish, "0123456789") == strlen(wish) ? atoi(wish) : 0;
  if (*of >= 1 && *of <= SHARES_MOST) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "MILLRACE_CPU_DEVICES = %.40s: want the number of devices that share the "
                 "processors, 1 to %d",
                 wish, SHARES_MOST);
}

/* Digits up to `end`, at most four; -1: there are none, or more, or others. */
static int share_number(const char *text, const char *end) {
  size_t n = (size_t)(end - text);
  return n && n <= 4 && strspn(text, "0123456789") == n ? atoi(text) : -1;
}

/* Reads "1", one of the usual number of shares, or "1/4". */
static mr_err_t share_parse(const char *number, share_t *s, mr_diag_t *diag) {
  const char *end = number + strlen(number), *slash = strchr(number, '/');
  *s = (share_t){.index = share_number(number, slash ? slash : end)};
  if (slash)
    s->of = share_number(slash + 1, end);
  else
    MR_TRY(shares_usual(&s->of, diag));
  if (s->index < 0 || (slash && (s->of < 1 || s->of > SHARES_MOST)))
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "device = cpu:%.40s: want cpu, cpu:N, or cpu:N/D for share N, from 0, of D equal "
        "shares of the processors, D at most %d",
        number, SHARES_MOST);
  if (s->index < s->of) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "device = cpu:%.40s: the processors are shared by %d device%s, want 0 to %d%s",
                 number, s->of, s->of == 1 ? "" : "s", s->of - 1,
                 slash ? "" : "; MILLRACE_CPU_DEVICES says how many");
}

/* A share has the processors from index/of to (index+1)/of of all; where there are more shares than
   processors, one, which others have too. */
static void share_place(share_t *s) {
  int all = team_all();
  s->first = (int)((int64_t)s->index * all / s->of);
  s->n = (int)((int64_t)(s->index + 1) * all / s->of) - s->first;
  if (!s->n) s->n = all > 0;
}

static mr_err_t cpu_key(const char *number, char key[MR_DEVICE_KEY], mr_diag_t *diag) {
  share_t s;
  *key = 0;
  if (!number) return MR_OK;
  MR_TRY(share_parse(number, &s, diag));
  snprintf(key, MR_DEVICE_KEY, "%d/%d", s.index, s.of);
  return MR_OK;
}

static mr_err_t cpu_open(mr_device_t *d, const char *number, mr_diag_t *diag) {
  share_t *s = malloc(sizeof *s);
  if (!s) return mr_no_memory(diag, "device %s", d->name);
  mr_err_t e = share_parse(number, s, diag);
  if (e < 0) return free(s), e;
  share_place(s);
  d->context = s;
  return MR_OK;
}

static void cpu_close(mr_device_t *d) { free(d->context); }

static mr_err_t cpu_usable(const mr_device_t *d, mr_diag_t *diag) { return mr_isa_check(diag); }

static void cpu_describe(void (*say)(void *arg, const char *line), void *arg) {
  int of;
  char line[160];
  mr_diag_t why = {0};
  snprintf(line, sizeof line, "cpu: %d processor%s", team_all(), team_all() == 1 ? "" : "s");
  say(arg, line);
  if (shares_usual(&of, &why) < 0) {
    say(arg, why.text);
    return;
  }
  for (int i = 0; i < of; i++) {
    share_t s = {.index = i, .of = of};
    share_place(&s);
    snprintf(line, sizeof line, "cpu:%d: share of the processors: %d from number %d on", i, s.n,
             s.first);
    say(arg, line);
  }
}

static double cpu_fma(const mr_device_t *d, mr_dtype_t dtype, int threads) {
  return mr_limit_fma(dtype, threads);
}

static double cpu_bandwidth(const mr_device_t *d, int threads) { return mr_limit_copy(threads); }

static const mr_device_ops_t cpu_device_ops = {.key = cpu_key,
                                               .open = cpu_open,
                                               .close = cpu_close,
                                               .usable = cpu_usable,
                                               .describe = cpu_describe};
static const mr_memory_ops_t cpu_memory_ops = {
    .take = host_take, .give = host_give, .room = host_room, .copy = host_copy};
static const mr_compile_ops_t cpu_compile_ops = {.target = cpu_target_of, .lower = mr__cpu_lower};
static const mr_team_ops_t cpu_team_ops = {.threads = team_threads,
                                           .processors = team_processors,
                                           .begin = team_begin,
                                           .end = team_end,
                                           .spread = team_spread,
                                           .leave = team_release};
static const mr_limit_ops_t cpu_limit_ops = {.fma = cpu_fma, .bandwidth = cpu_bandwidth};

const mr_backend_t mr_backend_cpu = {.name = "cpu",
                                     .align = 64,
                                     .host = true,
                                     .device = &cpu_device_ops,
                                     .memory = &cpu_memory_ops,
                                     .compile = &cpu_compile_ops,
                                     .team = &cpu_team_ops,
                                     .limits = &cpu_limit_ops,
                                     .collect = &mr_collect_threads};
