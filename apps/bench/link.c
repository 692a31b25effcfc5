/* The cost of a link compared with ZeroMQ alone: batches over tcp, by reference on one host, and
   under CURVE, and the round trip of 64 bytes.  Both are measured alternately, in one run, between
   two processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "apps/bench/bench.h"
#include "base/clock.h"
#include "links/curve_key.h"
#include "links/link.h"

enum {
  WINDOW = 8, /* the default of a link; measured with twice as many too */
  SPARE = 4,  /* buffers of a pool beyond the window */
  BATCHES = 400,
  REFERENCES = 100000,
  TURNS = 4000,
  ROUNDS_MAX = 33
};
enum { SMALL = 64, SMALL_WINDOW = 256, SKIPPED = 16 };

/* One way to move buffers; both processes know it. */
typedef struct way {
  bool shared, round_trip;
  int window; /* 0: WINDOW */
  int64_t n;
  char keys[64]; /* folder of the keys; "": none */
  char address[2][128];
} way_t;

typedef struct result {
  double per_s, cpu_us, turn_us;
} result_t;

static mr_spec_t batch_spec(void) {
  return (mr_spec_t){.flow = MR_FLOW_BATCHES,
                     .n_fields = 2,
                     .field = {{.name = "image", .dtype = MR_F32, .ndim = 3, .dim = {32, 32, 3}},
                               mr_field_of_label(0)},
                     .batch = 128,
                     .n_batches = 1};
}

static mr_spec_t small_spec(void) { return mr_spec_of_bytes(MR_FLOW_BYTES, SMALL); }

static double cpu_us(int who) {
  struct rusage u;
  getrusage(who, &u);
  return 1e6 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Forks a process that is killed when this one ends; returns 0 in it. */
static pid_t start_peer(void) {
  pid_t parent = getpid(), p = fork();
  if (p) return p;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  return 0;
}

static mr_err_t end_peer(pid_t p, mr_diag_t *diag) {
  int status;
  if (waitpid(p, &status, 0) == p && WIFEXITED(status) && !WEXITSTATUS(status)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "bench link: the other process failed");
}

/* ---- ZeroMQ alone ---- */

static int window_of(const way_t *w) { return w->window ? w->window : WINDOW; }

static void *raw_socket(void *context, const way_t *w) {
  int window = window_of(w);
  void *s = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(s, ZMQ_SNDHWM, &window, sizeof window);
  zmq_setsockopt(s, ZMQ_RCVHWM, &window, sizeof window);
  return s;
}

static void bench_link_keep(void *data, void *hint) {}

static void raw_peer(const way_t *w, size_t bytes) {
  void *context = zmq_ctx_new(), *s = raw_socket(context, w);
  size_t buffers = (size_t)window_of(w) + SPARE;
  char *memory = malloc(buffers * bytes), small[SMALL];
  zmq_msg_t m;
  if (!memory || zmq_connect(s, w->address[0])) _exit(1);
  memset(memory, 1, buffers * bytes);
  for (int64_t i = 0; i < w->n; i++) {
    if (w->round_trip && zmq_recv(s, small, SMALL, 0) != SMALL) _exit(1);
    zmq_msg_init_data(&m, memory + (size_t)i % buffers * bytes, bytes, bench_link_keep, NULL);
    if (zmq_msg_send(&m, s, 0) < 0) _exit(1);
  }
  zmq_close(s);
  zmq_ctx_term(context);
  _exit(0);
}

static bool raw_take(void *s, bool round_trip) {
  char small[SMALL] = {0};
  zmq_msg_t m;
  if (round_trip && zmq_send(s, small, SMALL, 0) < 0) return false;
  zmq_msg_init(&m);
  bool good = zmq_msg_recv(&m, s, 0) >= 0;
  zmq_msg_close(&m);
  return good;
}

static mr_err_t raw_run(way_t *w, result_t *r, mr_diag_t *diag) {
  mr_spec_t spec = w->round_trip ? small_spec() : batch_spec();
  size_t bytes = mr_spec_bytes(&spec), n = sizeof w->address[0];
  void *context = zmq_ctx_new(), *s = raw_socket(context, w);
  bool good = zmq_bind(s, "tcp://127.0.0.1:*") == 0;
  zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, w->address[0], &n);
  double cpu = cpu_us(RUSAGE_SELF) + cpu_us(RUSAGE_CHILDREN);
  int64_t begin = 0;
  pid_t p = good ? start_peer() : -1;
  if (p == 0) raw_peer(w, bytes);
  for (int64_t i = 0; good && p > 0 && i < w->n; i++) {
    good = raw_take(s, w->round_trip);
    if (i == SKIPPED) begin = mr_now_ns();
  }
  double s_per = 1e-9 * (double)(mr_now_ns() - begin) / (double)(w->n - SKIPPED - 1);
  zmq_close(s);
  zmq_ctx_term(context);
  if (!good || p < 0) return mr_fail(diag, MR_ERR_IO, "bench link: %s", zmq_strerror(zmq_errno()));
  MR_TRY(end_peer(p, diag));
  cpu = cpu_us(RUSAGE_SELF) + cpu_us(RUSAGE_CHILDREN) - cpu;
  *r = (result_t){1 / s_per, cpu / (double)w->n, 1e6 * s_per};
  return MR_OK;
}

/* ---- links ---- */

static mr_link_cfg_t link_cfg(const way_t *w, int i, bool bind, char file[2][128]) {
  mr_link_cfg_t c = {.name = i ? "back" : "there", .bind = bind, .copy = !w->shared};
  c.window = w->round_trip ? SMALL_WINDOW : window_of(w);
  c.address = bind ? (w->shared ? w->address[i] : "tcp://127.0.0.1:*") : w->address[i];
  if (!*w->keys) return c;
  snprintf(file[0], 128, "%s/%s.key", w->keys, bind ? "here" : "there");
  snprintf(file[1], 128, "%s/%s.pub", w->keys, bind ? "there" : "here");
  c.key = file[0], c.peers = file[1];
  return c;
}

/* Waits and pumps once; the caller repeats it until its condition holds. */
static void bench_link_turn(mr_link_t *l, int ms) {
  mr_link_wait(l, ms);
  if (mr_link_pump(l, NULL) < 0) _exit(1);
}

static mr_pool_t *touched_pool(const mr_spec_t *spec, bool shared, int n) {
  mr_pool_t *p = shared ? mr_pool_create_shared(spec, (size_t)n) : mr_pool_create(spec, (size_t)n);
  mr_buf_t *b[2 * SMALL_WINDOW];
  if (!p) _exit(1);
  for (int i = 0; i < n; i++) {
    b[i] = mr_pool_get(p);
    memset(b[i]->data, 1, b[i]->cap);
  }
  for (int i = 0; i < n; i++) mr_buf_unref(b[i]);
  return p;
}

static bool send_next(mr_link_t *l, mr_pool_t *pool, const mr_spec_t *spec) {
  mr_buf_t *b = mr_link_room(l) ? mr_pool_get(pool) : NULL;
  if (!b) return false;
  b->size = mr_spec_bytes(spec);
  if (spec->flow == MR_FLOW_BATCHES) b->n = (int32_t)spec->batch;
  mr_link_send(l, b);
  return true;
}

static void batches_peer(const way_t *w) {
  char file[2][128];
  mr_link_cfg_t c = link_cfg(w, 0, false, file);
  mr_spec_t spec = batch_spec();
  mr_pool_t *pool = touched_pool(&spec, w->shared, window_of(w) + (w->shared ? 16 : SPARE));
  mr_link_t *l = mr_link_open_out(&c, &spec, 0, NULL);
  if (!l) _exit(1);
  for (int64_t i = 0; !mr_link_done(l);) {
    while (i < w->n && send_next(l, pool, &spec)) i++;
    if (i == w->n) mr_link_end(l);
    if (mr_link_pump(l, NULL) < 0) _exit(1);
    mr_link_wait(l, 100);
  }
  mr_link_close(l);
  mr_pool_destroy(pool);
  _exit(0);
}

static mr_err_t batches_run(way_t *w, result_t *r, mr_diag_t *diag) {
  char file[2][128];
  mr_buf_t *b[64];
  mr_spec_t spec = batch_spec();
  if (w->shared) snprintf(w->address[0], sizeof w->address[0], "ipc://@mr-bench-%d", (int)getpid());
  mr_link_cfg_t c = link_cfg(w, 0, true, file);
  mr_link_t *l = mr_link_open_in(&c, &spec, NULL, diag);
  if (!l) return diag->code;
  snprintf(w->address[0], sizeof w->address[0], "%s", mr_link_address(l));
  double cpu = cpu_us(RUSAGE_SELF) + cpu_us(RUSAGE_CHILDREN);
  int64_t begin = 0, first = 0, got = 0;
  pid_t p = start_peer();
  if (p == 0) batches_peer(w);
  mr_err_t e = p < 0 ? mr_fail(diag, MR_ERR_IO, "bench link: cannot start a process") : MR_OK;
  while (e >= 0 && !mr_link_over(l)) {
    e = mr_link_pump(l, diag);
    size_t k = mr_link_take(l, b, 64);
    for (size_t i = 0; i < k; i++) mr_buf_unref(b[i]);
    got += (int64_t)k;
    if (!begin && got > SKIPPED) begin = mr_now_ns(), first = got;
    if (!k) mr_link_wait(l, 100);
  }
  double s_per = 1e-9 * (double)(mr_now_ns() - begin) / (double)(got - first);
  mr_link_close(l);
  MR_TRY(e);
  MR_TRY(end_peer(p, diag));
  cpu = cpu_us(RUSAGE_SELF) + cpu_us(RUSAGE_CHILDREN) - cpu;
  *r = (result_t){1 / s_per, cpu / (double)w->n, 0};
  return MR_OK;
}

/* ---- the round trip ---- */

static void wait_for_one(mr_link_t *l) {
  mr_buf_t *b;
  while (!mr_link_take(l, &b, 1)) bench_link_turn(l, 100);
  mr_buf_unref(b);
}

static bool have_met(const mr_link_t *l) {
  mr_link_stats_t st;
  mr_link_stats(l, &st);
  return st.connected;
}

static void await_meeting(mr_link_t *a, mr_link_t *b) {
  while (!have_met(a) || !have_met(b)) {
    bench_link_turn(a, 1);
    bench_link_turn(b, 1);
  }
}

static void echo_peer(const way_t *w) {
  char file[2][128];
  mr_link_cfg_t there = link_cfg(w, 0, false, file), back = link_cfg(w, 1, false, file);
  mr_spec_t spec = small_spec();
  mr_pool_t *pool = touched_pool(&spec, false, SMALL_WINDOW + 8);
  mr_link_t *in = mr_link_open_in(&there, &spec, NULL, NULL);
  mr_link_t *out = mr_link_open_out(&back, &spec, 0, NULL);
  if (!in || !out) _exit(1);
  await_meeting(in, out);
  for (int64_t i = 0; i < w->n; i++) {
    wait_for_one(in);
    while (!send_next(out, pool, &spec)) bench_link_turn(out, 100);
  }
  mr_link_end(out);
  mr_link_close(out);
  mr_link_close(in);
  mr_pool_destroy(pool);
  _exit(0);
}

static mr_err_t echo_run(way_t *w, result_t *r, mr_diag_t *diag) {
  char file[2][128];
  mr_link_cfg_t there = link_cfg(w, 0, true, file), back = link_cfg(w, 1, true, file);
  mr_spec_t spec = small_spec();
  mr_pool_t *pool = mr_pool_create(&spec, SMALL_WINDOW + 8);
  mr_link_t *out = mr_link_open_out(&there, &spec, 0, diag);
  mr_link_t *in = mr_link_open_in(&back, &spec, NULL, diag);
  int64_t begin = 0;
  pid_t p = -1;
  if (pool && out && in) {
    snprintf(w->address[0], sizeof w->address[0], "%s", mr_link_address(out));
    snprintf(w->address[1], sizeof w->address[1], "%s", mr_link_address(in));
    if ((p = start_peer()) == 0) echo_peer(w);
  }
  if (p > 0) await_meeting(in, out);
  for (int64_t i = 0; p > 0 && i < w->n; i++) {
    while (!send_next(out, pool, &spec)) bench_link_turn(out, 100);
    wait_for_one(in);
    if (i == SKIPPED) begin = mr_now_ns();
  }
  r->turn_us = 1e-3 * (double)(mr_now_ns() - begin) / (double)(w->n - SKIPPED - 1);
  while (p > 0 && !mr_link_over(in)) bench_link_turn(in, 100);
  mr_link_close(in);
  mr_link_close(out);
  mr_pool_destroy(pool);
  return p > 0 ? end_peer(p, diag) : diag->code < 0 ? diag->code : MR_ERR_IO;
}

/* ---- all of it ---- */

static mr_err_t make_keys(char *folder, mr_diag_t *diag) {
  char name[128];
  strcpy(folder, "/tmp/millrace-bench-XXXXXX");
  if (!mkdtemp(folder))
    return mr_fail(diag, MR_ERR_IO, "bench link: cannot make a folder for keys in /tmp");
  snprintf(name, sizeof name, "%s/here", folder);
  MR_TRY(mr_curve_key_make(name, diag));
  snprintf(name, sizeof name, "%s/there", folder);
  return mr_curve_key_make(name, diag);
}

static void drop_keys(const char *folder) {
  static const char *const name[] = {"here.key", "here.pub", "there.key", "there.pub"};
  char file[128];
  for (int i = 0; i < 4; i++) {
    snprintf(file, sizeof file, "%s/%s", folder, name[i]);
    unlink(file);
  }
  rmdir(folder);
}

typedef mr_err_t (*run_t)(way_t *w, result_t *r, mr_diag_t *diag);

/* The figures of one way.  Ways alternate in rounds, because the machine's speed drifts; a ratio is
   the median of the ratios of each round. */
typedef struct column {
  run_t run;
  way_t way;
  double per_s[ROUNDS_MAX], cpu_us[ROUNDS_MAX], turn_us[ROUNDS_MAX];
} column_t;

enum { RAW, TCP, RAW_WIDE, TCP_WIDE, SHARED, CURVE, RAW_TURN, LINK_TURN, COLUMNS };

static mr_err_t bench_link_measure(column_t *c, int rounds, mr_diag_t *diag) {
  for (int i = 0; i < rounds; i++)
    for (int k = 0; k < COLUMNS; k++) {
      result_t r = {0};
      MR_TRY(c[k].run(&c[k].way, &r, diag));
      c[k].per_s[i] = r.per_s, c[k].cpu_us[i] = r.cpu_us, c[k].turn_us[i] = r.turn_us;
    }
  return MR_OK;
}

static double median_ratio(const double *a, const double *b, int n) {
  double v[ROUNDS_MAX];
  for (int i = 0; i < n; i++) v[i] = a[i] / b[i];
  return mr_bench_median(v, n);
}

static void bench_link_report(column_t *c, int n, mr_bench_t *out) {
  mr_bench_add(out, "tcp_ratio", median_ratio(c[TCP].per_s, c[RAW].per_s, n));
  mr_bench_add(out, "tcp_ratio_window_16", median_ratio(c[TCP_WIDE].per_s, c[RAW_WIDE].per_s, n));
  mr_bench_add(out, "curve_ratio", median_ratio(c[CURVE].per_s, c[TCP].per_s, n));
  mr_bench_add(out, "turn_ratio", median_ratio(c[LINK_TURN].turn_us, c[RAW_TURN].turn_us, n));
  mr_bench_add(out, "raw_per_s", mr_bench_median(c[RAW].per_s, n));
  mr_bench_add(out, "tcp_per_s", mr_bench_median(c[TCP].per_s, n));
  mr_bench_add(out, "raw_per_s_window_16", mr_bench_median(c[RAW_WIDE].per_s, n));
  mr_bench_add(out, "tcp_per_s_window_16", mr_bench_median(c[TCP_WIDE].per_s, n));
  mr_bench_add(out, "shared_per_s", mr_bench_median(c[SHARED].per_s, n));
  mr_bench_add(out, "curve_per_s", mr_bench_median(c[CURVE].per_s, n));
  mr_bench_add(out, "raw_cpu_us", mr_bench_median(c[RAW].cpu_us, n));
  mr_bench_add(out, "tcp_cpu_us", mr_bench_median(c[TCP].cpu_us, n));
  mr_bench_add(out, "shared_cpu_us", mr_bench_median(c[SHARED].cpu_us, n));
  mr_bench_add(out, "curve_cpu_us", mr_bench_median(c[CURVE].cpu_us, n));
  mr_bench_add(out, "raw_turn_us", mr_bench_median(c[RAW_TURN].turn_us, n));
  mr_bench_add(out, "turn_us", mr_bench_median(c[LINK_TURN].turn_us, n));
}

mr_err_t mr_bench_link(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  int64_t seconds = 9;
  char keys[64];
  MR_TRY(mr_args_int(a, "--seconds", 1, 60, &seconds, diag));
  int rounds = (int)(seconds / 2) * 2 + 1; /* of about a second each; odd, for the median */
  if (rounds > ROUNDS_MAX) rounds = ROUNDS_MAX;
  column_t *c = calloc(COLUMNS, sizeof *c);
  mr_err_t e = c ? make_keys(keys, diag) : mr_no_memory(diag, "the columns of the table");
  if (e >= 0) {
    c[RAW] = (column_t){.run = raw_run, .way.n = BATCHES};
    c[TCP] = (column_t){.run = batches_run, .way.n = BATCHES};
    c[RAW_WIDE] = (column_t){.run = raw_run, .way = {.n = BATCHES, .window = 2 * WINDOW}};
    c[TCP_WIDE] = (column_t){.run = batches_run, .way = {.n = BATCHES, .window = 2 * WINDOW}};
    c[SHARED] =
        (column_t){.run = batches_run, .way = {.n = REFERENCES, .shared = true, .window = 64}};
    c[CURVE] = (column_t){.run = batches_run, .way.n = BATCHES / 4};
    strcpy(c[CURVE].way.keys, keys);
    c[RAW_TURN] = (column_t){.run = raw_run, .way = {.n = TURNS, .round_trip = true}};
    c[LINK_TURN] = (column_t){.run = echo_run, .way = {.n = TURNS, .round_trip = true}};
    e = bench_link_measure(c, rounds, diag);
  }
  if (e >= 0) bench_link_report(c, rounds, out);
  if (c) drop_keys(keys);
  free(c);
  return e;
}
