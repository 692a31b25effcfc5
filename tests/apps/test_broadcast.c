/* Subscribers of a run: they come, go, sleep and ask for nonsense, and the run is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <zmq.h>

#include "tests/apps/processes.h"

#define STREAM                                                                                \
  "synthetic n=3200 ! shuffle seed=1 epochs=1 ! normalize ! batch 16 name=b ! delay 10000 ! " \
  "ledger"

typedef struct peer {
  void *context, *socket;
} peer_t;

static peer_t peer(const char *address) {
  peer_t p = {.context = zmq_ctx_new()};
  int zero = 0, patience = 600000;
  p.socket = zmq_socket(p.context, ZMQ_DEALER);
  zmq_setsockopt(p.socket, ZMQ_LINGER, &zero, sizeof zero);
  zmq_setsockopt(p.socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
  assert_int_equal(zmq_connect(p.socket, address), 0);
  return p;
}

static void gone(peer_t *p) {
  zmq_close(p->socket);
  zmq_ctx_term(p->context);
}

/* The head of the next answer, which says its number and whether it is the end. */
static int64_t next(peer_t *p, int64_t asked, bool *end) {
  char text[512];
  zmq_msg_t m;
  snprintf(text, sizeof text, "batches %ld", (long)asked);
  assert_true(zmq_send(p->socket, text, strlen(text), 0) > 0);
  int n = zmq_recv(p->socket, text, sizeof text - 1, 0);
  assert_true(n > 0);
  text[n] = 0;
  for (int more = 1; more;) {
    zmq_msg_init(&m);
    assert_true(zmq_msg_recv(&m, p->socket, 0) >= 0);
    more = zmq_msg_more(&m);
    zmq_msg_close(&m);
  }
  *end = strstr(text, "\"end\": true") != NULL;
  return atol(strchr(text, ':') + 1);
}

static void ledger_of(const char *graph, char *line) {
  program_t *p = calloc(1, sizeof *p);
  RUN(p, "run", graph);
  if (p->status) fail_msg("%s", p->err);
  ledger_line(p->out, "ledger: ", line);
  free(p);
}

/* Each of the buffers was published, or is counted as dropped before: on a busy machine some are.
 */
static void assert_all_told(const char *report, int64_t n) {
  const char *published = strstr(report, " buffers published");
  const char *dropped = strstr(report, " before they were published");
  assert_true(published && dropped);
  while (published > report && published[-1] >= '0' && published[-1] <= '9') published--;
  while (dropped > report && dropped[-1] >= '0' && dropped[-1] <= '9') dropped--;
  assert_int_equal(atol(published) + atol(dropped), n);
}

/* Reads until the run is past a batch, or over. */
static void read_far(peer_t *p, int64_t number) {
  bool end = false;
  for (int64_t at = 0; at < number && !end;) at = next(p, at ? at + 1 : 0, &end);
}

static void nobody_who_subscribes_changes_or_holds_up_a_run(void **state) {
  char graph[TEXT_MAX], at[100], alone[24], seen[24];
  bool end = false;
  int64_t got = 0, missed = 0, number = 0;
  snprintf(at, sizeof at, "ipc://@mr-broadcast-%ld", (long)getpid());
  snprintf(graph, sizeof graph, STREAM "  b. ! broadcast %s", at);
  running_t r = start((const char *const[]){"run", graph, NULL});
  peer_t reader = peer(at), deaf = peer(at), late = peer(at), rude = peer(at);
  zmq_send(rude.socket, "give me all", 11, 0);
  for (int i = 0; i < 500; i++) zmq_send(deaf.socket, "batches 0", 9, 0);
  for (; !end; got += !end) {
    int64_t asked = number ? number + 1 : 0;
    number = next(&reader, asked, &end);
    if (got && !end) missed += number - asked;
    if (got == 20) read_far(&late, number + 60); /* more than a window of batches */
  }
  gone(&late);
  finish(&r);
  if (r.p->status) fail_msg("%s", r.p->err);
  assert_int_equal(number, 200);
  if (got <= 20 || missed <= 0 || got + missed > 200)
    fail_msg("got %ld, missed %ld of 200; %s", (long)got, (long)missed, r.p->out);
  ledger_of(STREAM, alone);
  ledger_line(r.p->out, "ledger: ", seen);
  assert_string_equal(alone, seen);
  assert_all_told(r.p->out, 200);
  assert_non_null(strstr(r.p->out, "to 3 subscribers"));
  gone(&reader), gone(&deaf), gone(&rude), free(r.p);
}

/* Each record line of a has its record in b: slot, key, draws and bytes; steps are counted anew. */
static long lines_in(const char *a, const char *b) {
  long n = 0;
  for (const char *at = a, *end; (end = strchr(at, '\n')); at = end + 1, n++) {
    char rest[200];
    const char *space = strchr(at, ' ');
    snprintf(rest, sizeof rest, "%.*s", (int)(end + 1 - space), space);
    if (!strstr(b, rest)) fail_msg("not published: %s", rest);
  }
  return n;
}

#define PUBLISHER                                                                      \
  "synthetic n=3200 ! shuffle seed=1 epochs=1 ! flip ! normalize ! batch 16 name=b ! " \
  "delay 10000 asleep ! ledger path=%s/all.txt  b. ! broadcast %s"

/* "NAME: ... N WORD": the number. */
static long told(const char *out, const char *word) {
  const char *at = strstr(out, word);
  if (!at) fail_msg("no \"%s\" in: %s", word, out);
  while (at > out && at[-1] == ' ') at--;
  while (at > out && at[-1] >= '0' && at[-1] <= '9') at--;
  return atol(at);
}

static void a_source_that_subscribes_gets_what_was_published_and_tells_what_it_missed(
    void **state) {
  char graph[TEXT_MAX], slow[TEXT_MAX], killed[TEXT_MAX], at[100];
  pid_t pid[16];
  snprintf(at, sizeof at, "ipc://@mr-subscribe-%ld", (long)getpid());
  snprintf(graph, sizeof graph, PUBLISHER, dir, at);
  snprintf(slow, sizeof slow,
           "source link=%s subscribe=batches ! delay 30000 asleep ! ledger path=%s/some.txt", at,
           dir);
  snprintf(killed, sizeof killed, "source link=%s subscribe=batches ! null name=dies", at);
  running_t r = start((const char *const[]){"run", graph, NULL});
  running_t dies = start((const char *const[]){"run", killed, NULL});
  running_t s = start((const char *const[]){"run", slow, NULL});
  usleep(500000);
  while (!find("name=dies", at, pid)) usleep(1000); /* it ends after the publisher alone */
  kill(pid[0], SIGKILL);
  finish(&dies), finish(&s), finish(&r);
  if (r.p->status || s.p->status) fail_msg("%s\n%s", r.p->err, s.p->err);
  char *all = file_of("all", ".txt"), *some = file_of("some", ".txt");
  long got = told(s.p->out, "buffers received"), missed = told(s.p->out, "missed in");
  assert_int_equal(lines_in(all, all), 3200);
  assert_int_equal(lines_in(some, all), 16 * got);
  if (got < 20 || missed < 20 || got + missed > 200) fail_msg("%s", s.p->out);
  free(all), free(some), free(r.p), free(s.p), free(dies.p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_who_subscribes_changes_or_holds_up_a_run),
      cmocka_unit_test(a_source_that_subscribes_gets_what_was_published_and_tells_what_it_missed),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
