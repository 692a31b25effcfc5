/* Ranks as processes over ZeroMQ: the bits of threads, with and without keys, and the name of a
   rank that never comes, is killed or stands still. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <zmq.h>

#include "links/curve_key.h"
#include "model/control/control.h"
#include "model/exec/comm.h"
#include "model/exec/exec.h"
#include "model/ops/lax.h"
#include "ranks/wire.h"
#include "tests/ranks/processes.h"
#include "tests/ranks/sequence.h"

enum { TURNS = 120, SEED = 28 };

/* ---- the same bits ---- */

typedef struct thread_rank {
  int rank, size;
  uint64_t hash;
} thread_rank_t;

static uint64_t run_as(const mr_collect_ops_t *ops, int rank, int size, said_t *said) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  int missing = -2;
  uint64_t hash = 0;
  mr_err_t e = ops->create(mr_device_default(), "sequence", rank, size, 600, &c, &diag);
  if (e >= 0) {
    hash = sequence_run(ops, c, rank, size, SEED, TURNS);
    e = ops->failed(c, &missing, &diag);
  }
  ops->destroy(c);
  if (said) {
    said->hash = hash, said->code = e, said->missing = missing;
    snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  }
  return hash;
}

static void *thread_main(void *arg) {
  thread_rank_t *r = arg;
  r->hash = run_as(&mr_collect_threads, r->rank, r->size, NULL);
  return NULL;
}

static void process_main(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  assert_int_equal(mr_job_rank(job), rank);
  run_as(mr_job_collect(job), rank, mr_job_size(job), said);
}

static void same_as_threads(ranks_t *t) {
  pthread_t thread[RANKS_MOST];
  thread_rank_t expected[RANKS_MOST];
  for (int r = 0; r < t->size; r++) start_rank(t, r, process_main);
  for (int r = 0; r < t->size; r++) {
    expected[r] = (thread_rank_t){.rank = r, .size = t->size};
    assert_int_equal(pthread_create(&thread[r], NULL, thread_main, &expected[r]), 0);
  }
  for (int r = 0; r < t->size; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < t->size; r++) {
    said_t said = end_rank(t, r);
    if (said.code < 0) fail_msg("rank %d: %s", r, said.text);
    assert_true(expected[r].hash != 0);
    assert_true(said.hash == expected[r].hash);
  }
}

static void processes_give_the_bits_of_threads(void **state) {
  static const int sizes[] = {1, 2, 3, 5};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    ranks_t t = ranks_of(sizes[i], 600);
    same_as_threads(&t);
  }
}

static void a_secret_of_the_environment_seals_what_ranks_send(void **state) {
  setenv("MILLRACE_SECRET", "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF", 1);
  ranks_t t = ranks_of(2, 600);
  same_as_threads(&t);
  unsetenv("MILLRACE_SECRET");
}

static void a_file_of_keys_is_the_key_of_all_ranks(void **state) {
  char folder[] = "/tmp/millrace-ranks-XXXXXX", name[80], file[100];
  mr_diag_t diag = {0};
  assert_non_null(mkdtemp(folder));
  snprintf(name, sizeof name, "%s/job", folder);
  if (mr_curve_key_make(name, &diag) < 0) fail_msg("%s", diag.text);
  snprintf(file, sizeof file, "%s.key", name);
  ranks_t t = ranks_of(2, 600);
  t.cfg.key = file;
  same_as_threads(&t);
  unlink(file);
  snprintf(file, sizeof file, "%s.pub", name);
  unlink(file);
  rmdir(folder);
}

/* A graph's collectives are the job's: rank r gives (r+1, 2r+2) and gets the sum times its number,
   and what each gave. */
static void run_a_graph(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  mr_diag_t diag = {0};
  mr_comm_rank_t at = {.ops = mr_job_collect(job), .rank = rank, .size = t->size, .axis = "i"};
  mr_fn_t *f = mr_fn_create();
  mr_exec_t *x = NULL;
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *out[2];
  mr_var_t *number = mr_lax_convert(f, mr_lax_axis_index(f, "i"), MR_F32);
  out[0] = mr_lax_mul(f, mr_lax_psum(f, v, "i"), number);
  out[1] = mr_lax_all_gather(f, v, "i", t->size);
  mr_fn_return(f, 2, out);
  said->code = at.ops->create(mr_device_default(), "graph", rank, t->size, 600, &at.collect, &diag);
  if (said->code >= 0)
    said->code = mr_compile(f, &(mr_compile_options_t){.threads = 1, .rank = &at}, &x, &diag);
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  if (said->code < 0) return;
  _Alignas(64) float in[2] = {(float)(rank + 1), (float)(2 * rank + 2)}, sum[2],
                     all[2 * RANKS_MOST];
  float n = (float)(t->size * (t->size + 1) / 2);
  for (int turn = 0; turn < 20; turn++) {
    mr_exec_run(x, (const void *[]){in}, (void *[]){sum, all});
    for (int k = 0; k < 2; k++)
      if (sum[k] != n * (float)((k + 1) * rank)) said->code = MR_ERR_DATA;
    for (int i = 0; i < 2 * t->size; i++)
      if (all[i] != (float)((i / 2 + 1) * (i % 2 + 1))) said->code = MR_ERR_DATA;
  }
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  at.ops->destroy(at.collect);
}

static void a_compiled_graph_exchanges_values_between_processes(void **state) {
  ranks_t t = ranks_of(3, 600);
  for (int r = 0; r < 3; r++) start_rank(&t, r, run_a_graph);
  for (int r = 0; r < 3; r++) {
    said_t said = end_rank(&t, r);
    if (said.code < 0) fail_msg("rank %d: code %d: %s", r, said.code, said.text);
  }
}

/* Sends to rank 0's address, until it is killed, what no rank sends: heads cut short and drawn at
   random, each with one field out of its range. */
static void flood(int port) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves none behind */
  char address[40];
  round_t random = {.x = 28};
  void *context = zmq_ctx_new(), *out = zmq_socket(context, ZMQ_PUSH);
  snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
  if (zmq_connect(out, address)) _exit(1);
  for (;;) {
    mr__head_t h = {.magic = MR__PARCEL_MAGIC, .kind = 1 + (uint32_t)draw(&random, 8)};
    h.a = draw(&random, 7) - 1, h.b = draw(&random, 2000) - 3;
    strcpy(h.id, "sequence");
    int wrong = draw(&random, 6);
    if (wrong == 0) h.magic++;
    if (wrong == 1) h.from = 2 + (uint32_t)draw(&random, 1 << 30);
    if (wrong == 2) h.kind = 100 + (uint32_t)draw(&random, 1 << 30);
    if (wrong == 3) h.bytes = 1 + (uint64_t)draw(&random, 1 << 30);
    if (wrong == 4) memset(h.id, 'x', sizeof h.id);
    size_t n = wrong == 5 ? (size_t)draw(&random, sizeof h) : sizeof h;
    if (zmq_send(out, &h, n, 0) < 0) _exit(1);
  }
}

static void messages_that_no_rank_sends_do_not_disturb_a_job(void **state) {
  ranks_t t = ranks_of(2, 600);
  pid_t stranger = fork();
  if (!stranger) flood(t.launch.port);
  same_as_threads(&t);
  kill(stranger, SIGKILL);
  waitpid(stranger, NULL, 0);
}

/* ---- strangers ---- */

enum { DESCRIPTORS = 200, STRANGERS = 150, ROOM = DESCRIPTORS / 4 + 2 };

static int enough[2]; /* a pipe: rank 0 is to end the work */
static int works[2];  /* a pipe: the first sum is done */

/* Sums until rank 0 reads that it is enough, which the others know by the sum. */
static void work_until_enough(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  float in = 1, out = 0;
  char word = 'w';
  said->code = ops->create(mr_device_default(), "beside", rank, t->size, 600, &c, &diag);
  for (bool first = true; said->code >= 0 && out < 10; first = false) {
    if (rank == 0 && read(enough[0], &word, 1) == 1) in = 10;
    ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &in, &out);
    said->code = ops->failed(c, &said->missing, &diag);
    if (rank == 0 && first && write(works[1], &word, 1) != 1) said->code = MR_ERR_IO;
  }
  if (out != 11) said->code = MR_ERR_DATA;
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  ops->destroy(c);
}

/* A connection that says what libzmq wants to hear at first, so that libzmq keeps it, and then one
   message that a rank could have sent, or nothing; -1 without one.  It must have heard the other
   side's READY before. */
static int stranger(int port, bool silent, uint32_t from) {
  static const char ready[] = "\4\x1a\5READY\xbSocket-Type\0\0\0\4PUSH";
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons((uint16_t)port)};
  char hello[64] = {(char)0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3};
  struct {
    char flags, bytes, head[sizeof(mr__head_t)];
  } said = {.bytes = sizeof said.head};
  char heard[sizeof hello + sizeof ready - 1];
  mr__head_t h = {.magic = MR__PARCEL_MAGIC, .kind = MR__PARCEL_BEAT, .from = from, .id = "none"};
  memcpy(hello + 12, "NULL", 4), memcpy(said.head, &h, sizeof h);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!connect(fd, (void *)&a, sizeof a) &&
      send(fd, hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello &&
      send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL) == (ssize_t)sizeof ready - 1 &&
      (silent || (recv(fd, heard, sizeof heard, MSG_WAITALL) == (ssize_t)sizeof heard &&
                  send(fd, &said, sizeof said, MSG_NOSIGNAL) == (ssize_t)sizeof said)))
    return fd;
  close(fd);
  return -1;
}

/* How many of the connections have been ended by the other side. */
static int count_ended(const int fd[STRANGERS]) {
  int n = 0;
  char text[256];
  for (int i = 0; i < STRANGERS; i++) {
    ssize_t k = fd[i] < 0 ? 0 : 1;
    while (k > 0) k = recv(fd[i], text, sizeof text, MSG_DONTWAIT);
    n += k == 0 || (errno != EAGAIN && errno != EINTR);
  }
  return n;
}

/* Strangers come to rank 0, silent ones at once, others when the ranks work: those beyond a quarter
   of the descriptors are shown out, and no sum is disturbed. */
static void strangers_come(bool silent) {
  struct rlimit was, few;
  int fd[STRANGERS];
  char word;
  assert_int_equal(pipe2(enough, O_NONBLOCK | O_CLOEXEC), 0);
  assert_int_equal(pipe2(works, O_CLOEXEC), 0);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
  few = (struct rlimit){DESCRIPTORS, was.rlim_max};
  ranks_t t = ranks_of(2, 600);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int r = 0; r < 2; r++) start_rank(&t, r, work_until_enough);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
  close(works[1]);
  if (!silent) assert_int_equal(read(works[0], &word, 1), 1);
  for (int i = 0; i < STRANGERS; i++)
    while ((fd[i] = stranger(t.launch.port, silent, 1)) < 0 && !i && /* no port yet */
           !waitpid(t.pid[0], NULL, WNOHANG))
      usleep(1000);
  while (count_ended(fd) < STRANGERS - ROOM && !waitpid(t.pid[0], NULL, WNOHANG)) usleep(1000);
  if (!silent) assert_true(count_ended(fd) < STRANGERS - ROOM / 2); /* the others are let in */
  assert_int_equal(write(enough[1], "x", 1), 1);
  for (int r = 0; r < 2; r++) {
    said_t said = end_rank(&t, r);
    if (said.code < 0) fail_msg("rank %d: %s", r, said.text);
  }
  for (int i = 0; i < STRANGERS; i++)
    if (fd[i] >= 0) close(fd[i]);
  close(enough[0]), close(enough[1]), close(works[0]);
}

/* The ranks' first words may be lost with a connection that is shown out, and are said again. */
static void strangers_that_come_first_keep_no_rank_out(void **state) { strangers_come(true); }

static void strangers_take_a_part_of_a_ranks_descriptors(void **state) { strangers_come(false); }

/* ---- what the kernel has ---- */

/* A connection of the test speaks for rank 0 to rank 0, which never sends to itself: a whole parcel
   and then a part of another one.  Ends with 0 if rank 0 sees all of these bytes. */
static int see_a_part_of_a_parcel(mr__wire_t *w, int port) {
  static const char part[1009] = {2, 0, 0, 0, 0, 0, 0, 9, 9}; /* of a frame of 2,313 bytes */
  mr__parcel_t *p = NULL, *bye = mr__parcel_new(0);
  int fd = -1;
  if (!bye) return 2;
  for (int turn = 0; !p || p->head->kind != MR__PARCEL_BEAT; turn++) {
    if (p) p->drop(p);
    if (turn % 8 == 0) { /* libzmq gives up one that is slow to greet */
      if (fd >= 0) close(fd);
      fd = stranger(port, false, 0);
    }
    p = mr__wire_zmq.receive(w, 1000, false);
  }
  p->drop(p);
  uint64_t before = mr__wire_zmq.arrived(w, 0);
  if (!before) return 3;
  if (send(fd, part, sizeof part, MSG_NOSIGNAL) != (ssize_t)sizeof part) return 4;
  while (mr__wire_zmq.arrived(w, 0) != before + sizeof part)
    if ((p = mr__wire_zmq.receive(w, 1, false))) p->drop(p);
  close(fd);
  while (mr__wire_zmq.arrived(w, 0)) /* until libzmq has closed it, too */
    if ((p = mr__wire_zmq.receive(w, 1, false))) p->drop(p);
  bye->head->kind = MR__PARCEL_BYE;
  return mr__wire_zmq.send(w, 1, bye) ? 0 : 5;
}

static int wire_main(mr_launch_t launch, int rank) {
  mr__wire_t *w = NULL;
  mr__parcel_t *p = NULL;
  mr_diag_t diag = {0};
  int missing, end = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  launch.rank = rank;
  mr__wire_cfg_t cfg = {.launch = &launch, .limit_s = 600};
  if (mr__wire_zmq.open(&cfg, &w, &missing, &diag) < 0) return 1;
  if (rank == 0) end = see_a_part_of_a_parcel(w, launch.port);
  while (rank == 1 && !(p = mr__wire_zmq.receive(w, 1000, false))) continue;
  if (p) p->drop(p);
  mr__wire_zmq.close(w, true);
  return end;
}

static void bytes_of_a_parcel_that_is_not_whole_are_seen(void **state) {
  ranks_t t = ranks_of(2, 600);
  for (int r = 0; r < 2; r++)
    if (!(t.pid[r] = fork())) _exit(wire_main(t.launch, r));
  for (int r = 0; r < 2; r++) {
    int status;
    assert_int_equal(waitpid(t.pid[r], &status, 0), t.pid[r]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
}

/* ---- the missing rank is named ---- */

static void says(said_t said, int missing, const char *text) {
  if (said.code != MR_ERR_UNAVAILABLE || said.missing != missing || !strstr(said.text, text))
    fail_msg("code %d, rank %d: %s", said.code, said.missing, said.text);
}

static void a_rank_that_is_never_started_is_named_by_all(void **state) {
  ranks_t t = ranks_of(4, 3);
  for (int r = 0; r < 4; r++)
    if (r != 2) start_rank(&t, r, NULL);
  for (int r = 0; r < 4; r++)
    if (r != 2) says(end_rank(&t, r), -2, "rank 2 of 4 did not come to the job within 3 s");
}

static void a_rank_with_another_secret_is_not_let_in(void **state) {
  ranks_t t = ranks_of(2, 3);
  setenv("MILLRACE_SECRET", "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF", 1);
  start_rank(&t, 0, NULL);
  setenv("MILLRACE_SECRET", "10112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF", 1);
  start_rank(&t, 1, NULL);
  unsetenv("MILLRACE_SECRET");
  says(end_rank(&t, 0), -2, "rank 1 of 2 did not come to the job");
  says(end_rank(&t, 1), -2, "rank 0 did not answer rank 1");
}

/* Reduces until it fails; rank 2 stops, is killed, or leaves out a call after some. */
enum { STOPS = SIGSTOP, IS_KILLED = SIGKILL, COMPUTES = 0 };
static int fate;

static void reduce_until_it_fails(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  enum { N = 100000 };
  static float in[N], out[N];
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  said->code = ops->create(mr_device_default(), "watched", rank, t->size, 3, &c, &diag);
  for (int turn = 0; said->code >= 0; turn++) {
    if (rank == 2 && turn == 20 && fate) raise(fate);
    if (rank == 2 && turn == 20 && !fate) break;
    ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, N, in, out);
    said->code = ops->failed(c, &said->missing, &diag);
  }
  while (rank == 2 && !fate && said->code >= 0) /* elsewhere, until the others give up */
    said->code = ops->failed(c, &said->missing, &diag), sched_yield();
  if (said->code < 0 && !isnan(out[0]) && rank != 2) said->code = MR_ERR_DATA;
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  ops->destroy(c);
}

static void named_by_all(int how) {
  ranks_t t = ranks_of(4, 600);
  fate = how;
  for (int r = 0; r < 4; r++) start_rank(&t, r, reduce_until_it_fails);
  for (int r = 0; r < 4; r++)
    if (r != 2) says(end_rank(&t, r), 2, "rank 2 did not come to all_reduce within 3 s");
  if (how == STOPS) kill(t.pid[2], SIGCONT);
  said_t late = end_rank(&t, 2);
  if (how == IS_KILLED)
    assert_int_equal(late.code, MR_ERR_CANCEL);
  else
    says(late, 2, "rank 2 did not come");
}

static void a_rank_that_is_killed_is_named_by_all(void **state) { named_by_all(IS_KILLED); }
static void a_rank_that_stands_still_is_named_by_all(void **state) { named_by_all(STOPS); }
static void a_rank_that_leaves_out_a_call_is_named_by_all(void **state) { named_by_all(COMPUTES); }

static void abort_one(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  float x = 1, y = 0;
  said->code = ops->create(mr_device_default(), "aborted", rank, t->size, 3600, &c, &diag);
  if (said->code < 0) return;
  ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y); /* all have come */
  if (rank == 1)
    ops->abort(c);
  else
    ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  said->code = ops->failed(c, &said->missing, &diag);
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  ops->destroy(c);
}

static void an_abort_ends_the_calls_of_all_processes(void **state) {
  ranks_t t = ranks_of(3, 600);
  for (int r = 0; r < 3; r++) start_rank(&t, r, abort_one);
  for (int r = 0; r < 3; r++) says(end_rank(&t, r), -1, "it was aborted");
}

static void make_other_calls(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  float x = 1, y[2] = {0};
  said->code = ops->create(mr_device_default(), "other calls", rank, t->size, 600, &c, &diag);
  if (said->code < 0) return;
  if (rank)
    ops->all_gather(c, sizeof x, &x, y);
  else
    ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, y);
  said->code = ops->failed(c, &said->missing, &diag);
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  ops->destroy(c);
}

static void ranks_that_make_other_calls_are_reported(void **state) {
  ranks_t t = ranks_of(2, 600);
  for (int r = 0; r < 2; r++) start_rank(&t, r, make_other_calls);
  for (int r = 0; r < 2; r++)
    says(end_rank(&t, r), -1, "all ranks must make the same calls in the same order");
}

/* ---- a communicator of some ranks, whose places are not the job's numbers ---- */

enum { OF_JOB = 4 };
typedef enum amiss { TWICE, OTHER_SIZE, OTHER_BYTES } amiss_t;
static amiss_t amiss;

/* Ranks 2 and 3 meet in a communicator of two places, of which something does not fit. */
static void meet_amiss(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  char bytes[8] = "", all[OF_JOB];
  int place = rank - 2, last = rank == OF_JOB - 1;
  if (place < 0) return;
  said->code = ops->create(mr_device_default(), "half", amiss == TWICE ? 0 : place,
                           amiss == OTHER_SIZE && last ? 3 : 2, 600, &c, &diag);
  if (said->code >= 0 && amiss != OTHER_BYTES) ops->all_gather(c, 1, bytes, all);
  if (said->code >= 0 && amiss == OTHER_BYTES && last) ops->receive(c, 0, 4, bytes);
  if (said->code >= 0 && amiss == OTHER_BYTES && !last) ops->send(c, 1, 8, bytes);
  if (said->code >= 0) said->code = ops->failed(c, &said->missing, &diag);
  snprintf(said->text, sizeof said->text, "%.300s", diag.text);
  if (c) ops->destroy(c);
}

/* Which of the two comes first decides who finds out. */
static void sentences_have_the_numbers_of_the_job(void **state) {
  static const char *const says_one_of[][4] = {
      [TWICE] = {"ranks 2 and 3 have both joined in place 0 of 2",
                 "ranks 3 and 2 have both joined in place 0 of 2",
                 "rank 2 has joined already in place 0 of 2, which rank 3 asks for",
                 "rank 3 has joined already in place 0 of 2, which rank 2 asks for"},
      [OTHER_SIZE] = {"rank 3 has size 3, the other ranks have 2",
                      "rank 2 has size 2, the other ranks have 3", "size 3, the other ranks have 2",
                      "size 2, the other ranks have 3"},
      [OTHER_BYTES] = {"a message of rank 2 has 8 bytes, where its receive by rank 3 expected 4"}};
  for (amiss = TWICE; amiss <= OTHER_BYTES; amiss++) {
    ranks_t t = ranks_of(OF_JOB, 600);
    for (int r = 0; r < OF_JOB; r++) start_rank(&t, r, meet_amiss);
    for (int r = 0; r < OF_JOB; r++) {
      said_t said = end_rank(&t, r);
      bool good = r < 2;
      for (int k = 0; k < 4 && says_one_of[amiss][k]; k++)
        good |= strstr(said.text, says_one_of[amiss][k]) != NULL;
      if (!good) fail_msg("rank %d says: %s", r, said.text);
    }
  }
}

/* ---- what is refused ---- */

static void open_fails(const mr_launch_t *l, const mr_job_cfg_t *cfg, mr_err_t code,
                       const char *text) {
  mr_diag_t diag = {0};
  mr_job_t *job = NULL;
  assert_int_equal(mr_job_open(l, cfg, &job, &diag), code);
  if (!strstr(diag.text, text)) fail_msg("%s", diag.text);
  assert_null(job);
}

static void settings_that_do_not_fit_a_job_are_refused_by_a_sentence(void **state) {
  mr_launch_t l = {
      .launcher = MR_LAUNCHER_SLURM, .size = 2, .n_nodes = 2, .host = "n1", .port = 7000};
  mr_job_cfg_t cfg = {.communicator = "zmq", .limit_s = 1};
  open_fails(&l, &cfg, MR_ERR_CONFIG, "need a key");
  setenv("MILLRACE_SECRET", "0011", 1);
  open_fails(&l, &cfg, MR_ERR_CONFIG, "expected 64 hexadecimal digits");
  unsetenv("MILLRACE_SECRET");
  cfg.communicator = "zqm";
  open_fails(&l, &cfg, MR_ERR_CONFIG, "did you mean \"zmq\"");
  cfg.communicator = "threads";
  open_fails(&l, &cfg, MR_ERR_CONFIG, "srun has started 2 processes");
  cfg.communicator = "zmq", l.launcher = MR_LAUNCHER_OPEN_MPI, l.host[0] = 0, l.port = 0;
  open_fails(&l, &cfg, MR_ERR_CONFIG, "set MILLRACE_RANK0=HOST:PORT");
  cfg.communicator = "mpi";
  open_fails(&l, &cfg, MR_ERR_CONFIG, "gives these processes no MPI");
  cfg.limit_s = 0;
  open_fails(&l, &cfg, MR_ERR_CONFIG, "want more than 0");
}

static void without_a_launcher_ranks_are_threads(void **state) {
  mr_launch_t l = {.size = 1, .local_size = 1, .n_nodes = 1};
  mr_job_cfg_t cfg = {.limit_s = 1};
  mr_job_t *job = NULL;
  assert_int_equal(mr_job_open(&l, &cfg, &job, NULL), MR_OK);
  assert_ptr_equal(mr_job_collect(job), &mr_collect_threads);
  assert_int_equal(mr_job_size(job), 1);
  mr_job_close(job);
}

static void a_rank_of_a_process_needs_a_job(void **state) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_collect_zmq.create(mr_device_default(), "lone", 0, 1, 1, &c, &diag),
                   MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "no job is open"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_give_the_bits_of_threads),
      cmocka_unit_test(a_secret_of_the_environment_seals_what_ranks_send),
      cmocka_unit_test(a_file_of_keys_is_the_key_of_all_ranks),
      cmocka_unit_test(messages_that_no_rank_sends_do_not_disturb_a_job),
      cmocka_unit_test(strangers_that_come_first_keep_no_rank_out),
      cmocka_unit_test(strangers_take_a_part_of_a_ranks_descriptors),
      cmocka_unit_test(bytes_of_a_parcel_that_is_not_whole_are_seen),
      cmocka_unit_test(a_compiled_graph_exchanges_values_between_processes),
      cmocka_unit_test(a_rank_that_is_never_started_is_named_by_all),
      cmocka_unit_test(a_rank_with_another_secret_is_not_let_in),
      cmocka_unit_test(a_rank_that_is_killed_is_named_by_all),
      cmocka_unit_test(a_rank_that_stands_still_is_named_by_all),
      cmocka_unit_test(a_rank_that_leaves_out_a_call_is_named_by_all),
      cmocka_unit_test(an_abort_ends_the_calls_of_all_processes),
      cmocka_unit_test(ranks_that_make_other_calls_are_reported),
      cmocka_unit_test(sentences_have_the_numbers_of_the_job),
      cmocka_unit_test(settings_that_do_not_fit_a_job_are_refused_by_a_sentence),
      cmocka_unit_test(without_a_launcher_ranks_are_threads),
      cmocka_unit_test(a_rank_of_a_process_needs_a_job),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
