/* What ranks do here: how fast each computes while the others do too, and exchanges with them. They
   are threads of this process, each with its share of the processors, or the processes that a
   launcher has started.  All measure in step, behind a collective; the figures are rank 0's. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/bench/bench.h"
#include "apps/cli/fn_arrays.h"
#include "base/clock.h"
#include "base/launcher.h"
#include "base/text.h"
#include "base/xio.h"
#include "model/exec/device.h"
#include "model/ops/lax.h"
#include "ranks/job.h"

enum {
  RANKS_MOST = 64,
  ROUNDS = 25, /* of which the least counts: what else runs on the machine only adds */
  ROWS = 1040, /* of a product, sixteen pictures of the recipe's model */
  IN = 384,
  OUT = 1536,
  COPIED = 1 << 23, /* elements of f32 that are copied */
  CHAIN = 400,      /* equations behind each other */
  SMALL_CALLS = 4,
  SMALL_ROUNDS = 200, /* of a round */
  LARGE = 1 << 22     /* bytes that each rank gives */
};
static const double LIMIT_S = 120;

/* The figures of a rank, in the units of a table of rates. */
typedef struct figures {
  double f32_gflops, bf16_gflops, f16_gflops, copy_gbs, equation_us, call_us, message_us, link_gbs;
} figures_t;

typedef struct team {
  const mr_collect_ops_t *ops;
  int size, threads; /* threads of each */
} team_t;

typedef struct member {
  const team_t *team;
  int rank;
  mr_collect_t *collect;
  pthread_t thread;
  figures_t found;
  mr_err_t failed;
  mr_diag_t why;
} member_t;

static double least_of(const double *each, int n) {
  double least = each[0];
  for (int i = 1; i < n; i++)
    if (each[i] < least) least = each[i];
  return least;
}

/* All have come. */
static void meet_all_ranks(const member_t *m) {
  char in[8] = {0}, out[8 * RANKS_MOST];
  m->team->ops->all_gather(m->collect, sizeof in, in, out);
}

/* ---- computing ---- */

static mr_fn_t *fn_of_product(mr_dtype_t t) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, ROWS, IN));
  mr_var_t *y = mr_lax_dot(f, x, mr_fn_input(f, mr_aval_of(t, IN, OUT)));
  mr_fn_return(f, 1, &y);
  return f;
}

static mr_fn_t *fn_of_copy(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = mr_lax_scale(f, 2, mr_fn_input(f, mr_aval_of(MR_F32, COPIED)));
  mr_fn_return(f, 1, &y);
  return f;
}

/* Equations that no pass joins. */
static mr_fn_t *fn_of_chain(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8));
  for (int i = 0; i < CHAIN; i++) x = mr_lax_dot(f, x, x);
  mr_fn_return(f, 1, &x);
  return f;
}

/* The seconds of a run of f, which ends here, while all ranks run it. */
static mr_err_t time_function(member_t *m, mr_fn_t *f, double *s) {
  const mr_compile_options_t o = {.threads = m->team->threads};
  mr_exec_t *x = NULL;
  mr_fn_arrays_t arrays = {0};
  double each[ROUNDS];
  mr_err_t e = mr_compile(f, &o, &x, &m->why);
  if (e >= 0) e = mr_fn_arrays_init(&arrays, x, &m->why);
  meet_all_ranks(m); /* also one that has failed, for which the others would wait */
  for (int i = -1; e >= 0 && i < ROUNDS; i++) {
    double from = mr_now_s();
    mr_exec_run(x, (const void *const *)arrays.in, arrays.out);
    if (i >= 0) each[i] = mr_now_s() - from;
  }
  if (e >= 0) *s = least_of(each, ROUNDS);
  mr_fn_arrays_fini(&arrays);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  return e;
}

static mr_err_t measure_computing(member_t *m) {
  const double flop = 2.0 * ROWS * IN * OUT;
  figures_t *g = &m->found;
  double s;
  MR_TRY(time_function(m, fn_of_product(MR_F32), &s));
  g->f32_gflops = flop / s / 1e9;
  MR_TRY(time_function(m, fn_of_product(MR_BF16), &s));
  g->bf16_gflops = flop / s / 1e9;
  MR_TRY(time_function(m, fn_of_product(MR_F16), &s));
  g->f16_gflops = flop / s / 1e9;
  MR_TRY(time_function(m, fn_of_copy(), &s));
  g->copy_gbs = 2.0 * COPIED * sizeof(float) / s / 1e9;
  MR_TRY(time_function(m, fn_of_chain(), &s));
  g->equation_us = 1e6 * s / CHAIN;
  return MR_OK;
}

/* ---- exchanging ---- */

/* Seconds of a small call: a message round the ring, or one to each. */
static double time_small(const member_t *m, bool ring) {
  char in[8] = {0}, out[8 * RANKS_MOST];
  int n = m->team->size;
  double each[SMALL_ROUNDS];
  for (int i = 0; i < SMALL_ROUNDS; i++) {
    meet_all_ranks(m);
    double from = mr_now_s();
    for (int k = 0; k < SMALL_CALLS; k++)
      if (ring)
        m->team->ops->send_receive(m->collect, (m->rank + 1) % n, (m->rank + n - 1) % n, sizeof in,
                                   in, out);
      else
        m->team->ops->all_gather(m->collect, sizeof in, in, out);
    each[i] = (mr_now_s() - from) / SMALL_CALLS;
  }
  return least_of(each, SMALL_ROUNDS);
}

static mr_err_t measure_exchange(member_t *m) {
  int n = m->team->size;
  double each[ROUNDS], one = time_small(m, true), all = time_small(m, false);
  char *in = calloc(1, LARGE), *out = calloc((size_t)n, LARGE);
  mr_err_t e = in && out ? MR_OK : mr_no_memory(&m->why, "what ranks exchange");
  for (int i = 0; i < ROUNDS; i++) {
    meet_all_ranks(m);
    double from = mr_now_s();
    if (e >= 0) m->team->ops->all_gather(m->collect, LARGE, in, out);
    each[i] = mr_now_s() - from;
  }
  free(in), free(out);
  /* Of two ranks a call has one message, in whose time that of the call is. */
  double message = n > 2 ? (all - one) / (n - 2) : one;
  if (message < 0) message = 0;
  double call = one > message ? one - message : 0, s = least_of(each, ROUNDS);
  double moving = s - call - (n - 1) * message;
  if (moving < 0.1 * s) moving = 0.1 * s;
  m->found.call_us = 1e6 * call, m->found.message_us = 1e6 * message;
  m->found.link_gbs = (double)(n - 1) * LARGE / moving / 1e9;
  return e;
}

static void *member_main(void *arg) {
  member_t *m = arg;
  int missing;
  m->failed = measure_computing(m);
  if (m->failed >= 0) m->failed = measure_exchange(m);
  if (m->failed >= 0) m->failed = m->team->ops->failed(m->collect, &missing, &m->why);
  if (m->failed < 0) m->team->ops->abort(m->collect);
  return NULL;
}

/* ---- the ranks ---- */

static mr_err_t join_team(member_t *m, const team_t *team, int rank, const char *id,
                          mr_diag_t *diag) {
  *m = (member_t){.team = team, .rank = rank};
  return team->ops->create(mr_device_default(), id, rank, team->size, LIMIT_S, &m->collect, diag);
}

static mr_err_t measure_threads(const mr_args_t *a, team_t *team, figures_t *out, mr_diag_t *diag) {
  int64_t n = 2;
  char id[32];
  MR_TRY(mr_args_int(a, "--ranks", 2, RANKS_MOST, &n, diag));
  int all = mr_device_threads(mr_device_default()), started = 0, made = 0;
  member_t *m = calloc((size_t)n, sizeof *m);
  if (!m) return mr_no_memory(diag, "ranks to measure");
  *team = (team_t){&mr_collect_threads, (int)n, all >= n ? all / (int)n : 1};
  snprintf(id, sizeof id, "bench %ld", (long)getpid());
  mr_err_t e = MR_OK;
  for (; made < n && e >= 0; made++) e = join_team(&m[made], team, made, id, diag);
  for (started = 1; started < n && e >= 0; started++)
    if (pthread_create(&m[started].thread, NULL, member_main, &m[started]))
      e = mr_fail(diag, MR_ERR_NOMEM, "bench ranks: no thread for rank %d", started--);
  if (e >= 0)
    member_main(&m[0]);
  else if (made)
    m[0].team->ops->abort(m[0].collect);
  for (int r = 1; r < started; r++) pthread_join(m[r].thread, NULL);
  for (int r = 0; r < n && e >= 0; r++)
    if (m[r].failed < 0) e = mr_diag_relay(diag, m[r].failed, &m[r].why);
  *out = m[0].found;
  for (int r = 0; r < made; r++)
    if (m[r].collect) team->ops->destroy(m[r].collect);
  free(m);
  return e;
}

static mr_err_t measure_processes(const mr_args_t *a, const mr_launch_t *l, team_t *team,
                                  figures_t *out, mr_diag_t *diag) {
  const mr_job_cfg_t cfg = {.limit_s = LIMIT_S};
  mr_job_t *job;
  member_t m = {.team = team};
  if (mr_args_text(a, "--ranks"))
    return mr_fail(diag, MR_ERR_USAGE,
                   "bench: --ranks: the ranks are the %d processes of this job, expected no number",
                   l->size);
  if (l->size > RANKS_MOST)
    return mr_fail(diag, MR_ERR_USAGE, "bench: ranks: %d processes, expected at most %d", l->size,
                   RANKS_MOST);
  MR_TRY(mr_job_open(l, &cfg, &job, diag));
  int mine = mr_device_processors(mr_device_default()),
      local = l->local_size > 0 ? l->local_size : 1;
  bool bound = mine < sysconf(_SC_NPROCESSORS_ONLN);
  int threads = bound ? mine : mine / local;
  *team = (team_t){mr_job_collect(job), l->size, threads > 0 ? threads : 1};
  mr_err_t e = join_team(&m, team, l->rank, "bench", diag);
  if (e >= 0) {
    member_main(&m);
    e = mr_diag_relay(diag, m.failed, &m.why);
    *out = m.found;
  }
  if (m.collect) team->ops->destroy(m.collect);
  if (e < 0) mr_job_fail(job, diag->text);
  mr_job_close(job);
  return e;
}

/* ---- the report ---- */

/* Writes the table that explain and mem read. */
static mr_err_t write_rates(const char *file, const team_t *team, const figures_t *g,
                            mr_diag_t *diag) {
  char text[1024], machine[160];
  gethostname(machine, sizeof machine - 1);
  machine[sizeof machine - 1] = 0;
  int n = snprintf(text, sizeof text,
                   "millrace ranks 1\n"
                   "source measured by millrace bench ranks: %d ranks of %d thread%s by %s on %s\n"
                   "f32-gflops %.6g\nbf16-gflops %.6g\nf16-gflops %.6g\ncopy-gbs %.6g\n"
                   "equation-us %.6g\ncall-us %.6g\nmessage-us %.6g\nlink-gbs %.6g\nbeside no\n",
                   team->size, team->threads, team->threads == 1 ? "" : "s", team->ops->name,
                   machine, g->f32_gflops, g->bf16_gflops, g->f16_gflops, g->copy_gbs,
                   g->equation_us, g->call_us, g->message_us, g->link_gbs);
  return mr_write_file(file, text, (size_t)n, diag);
}

mr_err_t mr_bench_ranks(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  mr_launch_t l;
  team_t team = {0};
  figures_t g = {0};
  MR_TRY(mr_launch_of_process(&l, diag));
  MR_TRY(l.size > 1 ? measure_processes(a, &l, &team, &g, diag)
                    : measure_threads(a, &team, &g, diag));
  out->silent = l.size > 1 && l.rank;
  if (out->silent) return MR_OK;
  out->data = team.ops->name;
  mr_bench_add(out, "ranks", team.size);
  mr_bench_add(out, "threads", team.threads);
  mr_bench_add(out, "f32_gflops", g.f32_gflops);
  mr_bench_add(out, "bf16_gflops", g.bf16_gflops);
  mr_bench_add(out, "f16_gflops", g.f16_gflops);
  mr_bench_add(out, "copy_gbs", g.copy_gbs);
  mr_bench_add(out, "equation_us", g.equation_us);
  mr_bench_add(out, "call_us", g.call_us);
  mr_bench_add(out, "message_us", g.message_us);
  mr_bench_add(out, "link_gbs", g.link_gbs);
  const char *file = mr_args_text(a, "--rates");
  return file ? write_rates(file, &team, &g, diag) : MR_OK;
}
