/* millrace serve: trainers elsewhere get their shard, from where they resume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <zmq.h>

#include "base/xio.h"
#include "links/wire.h"
#include "tests/apps/program.h"

#define GRAPH "synthetic n=320 ! shuffle seed=1 epochs=1 ! flip ! batch 16"

static char dir[64], at[64];

static int setup(void **state) {
  snprintf(dir, sizeof dir, "/tmp/mr-serve-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(at, sizeof at, "ipc://@mr-serve-%ld", (long)getpid());
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

static pid_t serve(const char *shards, FILE *out) {
  return program_start(
      (const char *const[]){"serve", GRAPH, "--bind", at, "--shards", shards, NULL}, out, out);
}

/* Ctrl-C ends it with 130. */
static void stop(pid_t server) {
  kill(server, SIGINT);
  assert_int_equal(program_wait(server), 130);
}

/* Ledger lines of what is taken from a link, or of a graph itself, into DIR/NAME. */
static void take(const char *source, const char *name, const char *more) {
  char graph[512];
  program_t *p = calloc(1, sizeof *p);
  snprintf(graph, sizeof graph, "%s ! ledger path=%s/%s state=%s/%s.json %s", source, dir, name,
           dir, name, more);
  RUN(p, "run", graph);
  if (p->status) fail_msg("%s", p->err);
  free(p);
}

static char *lines_of(const char *name) {
  char path[200];
  void *text;
  size_t n;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  assert_int_equal(mr_read_file(path, 1 << 24, &text, &n, NULL), MR_OK);
  char *copy = realloc(text, n + 1);
  copy[n] = 0;
  return copy;
}

static void same_lines(const char *a, const char *b) {
  char *x = lines_of(a), *y = lines_of(b);
  assert_string_equal(x, y);
  free(x), free(y);
}

static void a_trainer_gets_the_stream_and_the_next_one_too(void **state) {
  FILE *out = tmpfile();
  char source[100];
  pid_t server = serve("1", out);
  snprintf(source, sizeof source, "source link=%s wait=600", at);
  take(GRAPH, "whole", "");
  take(source, "first", "");
  take(source, "second", "");
  same_lines("whole", "first");
  same_lines("whole", "second");
  stop(server);
  fclose(out);
}

static void one_that_stops_resumes_from_its_state(void **state) {
  FILE *out = tmpfile();
  char source[100], graph[400], from[100];
  program_t *p = calloc(1, sizeof *p);
  pid_t server = serve("1", out);
  snprintf(source, sizeof source, "source link=%s wait=600", at);
  take(GRAPH, "all", "");
  take(source, "part", "steps=7");
  snprintf(graph, sizeof graph, "%s ! ledger path=%s/part", source, dir);
  snprintf(from, sizeof from, "%s/part.json", dir);
  RUN(p, "run", graph, "--from", from);
  if (p->status) fail_msg("%s", p->err);
  same_lines("all", "part");
  stop(server);
  fclose(out), free(p);
}

static void each_shard_is_a_slice_of_every_batch(void **state) {
  FILE *out = tmpfile();
  char source[100], command[512];
  pid_t server = serve("2", out);
  take(GRAPH, "undivided", "");
  snprintf(source, sizeof source, "source link=%s wait=600", at);
  take(source, "shard0", "");
  snprintf(source, sizeof source, "source link=%s-1 wait=600", at);
  take(source, "shard1", "");
  snprintf(
      command, sizeof command,
      "cd %s && sort -n -k1 -k2 shard0 shard1 > both && sort -n -k1 -k2 undivided | cmp - both",
      dir);
  assert_int_equal(system(command), 0);
  stop(server);
  fclose(out);
}

/* ---- peers that ask for what cannot be ---- */

typedef struct asking {
  mr__link_head_t head;
  mr__link_hello_t hello;
  int64_t word[8];
} asking_t;

static void ask(void *socket, int64_t number, int64_t position, int words) {
  asking_t m = {.hello = {.limit = number + 8, .position = position, .n_words = (uint32_t)words}};
  size_t body = sizeof m.hello + (size_t)words * sizeof *m.word;
  strcpy(m.hello.name, "serve");
  mr__link_head(&m.head, MR__LINK_HELLO, 77, number, body, 0);
  assert_true(zmq_send(socket, &m, sizeof m.head + body, 0) >= 0);
}

/* Asks again and again, as a peer does, until it is refused with a reason. */
static void is_refused(int64_t number, int64_t position, int words, const char *why) {
  char got[4096] = "";
  mr__link_head_t head = {0};
  int patience = 250, none = 0;
  void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(s, ZMQ_RCVTIMEO, &patience, sizeof patience);
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  assert_int_equal(zmq_connect(s, at), 0);
  while (head.kind != MR__LINK_REFUSE) {
    ask(s, number, position, words);
    int n = zmq_recv(s, got, sizeof got - 1, 0);
    if (n < (int)sizeof head) continue; /* no peer is there while the server makes its graph */
    assert_true(n < (int)sizeof got);
    got[n] = 0;
    memcpy(&head, got, sizeof head);
  }
  if (!strstr(got + sizeof head, why)) fail_msg("\"%s\" has no \"%s\"", got + sizeof head, why);
  zmq_close(s), zmq_ctx_term(context);
}

static void a_trainer_that_asks_for_what_cannot_be_is_refused_and_the_next_one_is_served(
    void **state) {
  FILE *out = tmpfile();
  char source[100];
  pid_t server = serve("1", out);
  is_refused(1000, 7, 0, "no batch of 16 starts at position 7");
  is_refused(1000, 16, 5, "a state of 5 numbers");
  snprintf(source, sizeof source, "source link=%s wait=600", at);
  take(GRAPH, "honest-alone", "");
  take(source, "honest", "");
  same_lines("honest-alone", "honest");
  stop(server);
  fclose(out);
}

static void graphs_that_cannot_be_served_are_refused(void **state) {
  program_t *p = calloc(1, sizeof *p);
  RUN(p, "serve", "synthetic ! flip");
  assert_int_equal(p->status, 2);
  assert_non_null(strstr(p->err, "the graph makes no batches"));
  RUN(p, "serve", GRAPH, "--bind", "tcp://0.0.0.0:5570");
  assert_true(p->status != 0);
  RUN(p, "serve", GRAPH, "--bind", "tcp://127.0.0.1:x");
  assert_int_equal(p->status, 2);
  assert_non_null(strstr(p->err, "want tcp://HOST:PORT"));
  RUN(p, "serve", GRAPH, "--bind", "udp://h:1");
  assert_true(p->status != 0);
  assert_non_null(strstr(p->err, "address = udp://h:1: want tcp://HOST:PORT"));
  free(p);
}

static void an_impossible_address_is_refused_before_waiting_for_peers(void **state) {
  static const char *const bad[][2] = {
      {"source link=tcp://h:99999 ! null", "source: link = tcp://h:99999: want tcp://HOST:PORT"},
      {"source link=tcp://h:99999 subscribe=b ! null", "source: link = tcp://h:99999: want tcp://"},
      {"source ! null", "source: link = \"\": want tcp://HOST:PORT"},
      {"synthetic ! batch 4 ! broadcast bind=foo", "broadcast: bind = foo: want tcp://HOST:PORT"}};
  program_t *p = calloc(1, sizeof *p);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    RUN(p, "run", bad[i][0]);
    assert_int_equal(p->status, 2);
    if (!strstr(p->err, bad[i][1])) fail_msg("%s", p->err);
  }
  free(p);
}

/* Each trainer would be promised a shape that only some of its batches have. */
static void a_batch_that_does_not_divide_into_the_shards_is_refused(void **state) {
  char said[4096];
  FILE *out = tmpfile();
  assert_int_not_equal(program_wait(serve("3", out)), 0);
  program_read(out, said, sizeof said);
  if (!strstr(said, "--shards 3: batches of 16 records")) fail_msg("%s", said);
}

/* The records of another process cannot be compared with those of evaluation, which is said; those
   of two evaluations are. */
static void a_trainer_on_a_source_is_validated(void **state) {
  char graph[1024], file[96], run[2][96];
  static const char *const test[] = {"n=32 split=test seed=5", "n=32 split=test"};
  program_t *p = calloc(2, sizeof *p);
  FILE *out = tmpfile();
  pid_t server =
      program_start((const char *const[]){"serve",
                                          "synthetic n=320 ! shuffle seed=1 epochs=1 ! normalize ! "
                                          "batch 16",
                                          "--bind", at, NULL},
                    out, out);
  snprintf(file, sizeof file, "%s/trainer.mr", dir);
  for (int i = 0; i < 2; i++) {
    snprintf(
        graph, sizeof graph,
        "source %s ! train-step name=train model=mlp hidden=8 steps=3\n"
        "synthetic n=32 split=test ! sequential epochs=1 ! normalize ! batch 16 ! train.valid\n"
        "synthetic %s ! sequential epochs=1 ! normalize ! batch 16 ! train.test\n"
        "train.metrics ! progress\n",
        at, test[i]);
    (void)mr_write_file(file, graph, strlen(graph), NULL);
    snprintf(run[i], sizeof run[i], "%s/trainer%d", dir, i);
    RUN(&p[i], "train", "--graph", file, "--run-dir", run[i]);
  }
  stop(server);
  if (p[0].status) fail_msg("%s%s", p[0].out, p[0].err);
  assert_non_null(strstr(p[0].err, "the batches of input in come from another process"));
  assert_non_null(strstr(p[0].out, "Test, Loss"));
  assert_int_equal(p[1].status, 2);
  assert_non_null(strstr(p[1].err, "share 32 records"));
  fclose(out), free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trainer_on_a_source_is_validated),
      cmocka_unit_test(a_batch_that_does_not_divide_into_the_shards_is_refused),
      cmocka_unit_test(a_trainer_gets_the_stream_and_the_next_one_too),
      cmocka_unit_test(one_that_stops_resumes_from_its_state),
      cmocka_unit_test(each_shard_is_a_slice_of_every_batch),
      cmocka_unit_test(
          a_trainer_that_asks_for_what_cannot_be_is_refused_and_the_next_one_is_served),
      cmocka_unit_test(graphs_that_cannot_be_served_are_refused),
      cmocka_unit_test(an_impossible_address_is_refused_before_waiting_for_peers),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
