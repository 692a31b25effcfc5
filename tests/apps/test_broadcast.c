/* Subscribers of a run: they come, go, sleep and ask for nonsense, and the run is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <zmq.h>

#include "tests/apps/processes.h"

#define STREAM                                                                   \
  "synthetic n=3200 ! shuffle seed=1 epochs=%d ! normalize ! batch 16 name=b ! " \
  "delay %d asleep ! ledger"

/* A run continues while these tests are kept from theirs by a busy machine: it is made longer until
   they have seen what they came to see. */
enum { BATCHES = 200, PACE_US = 10000, LONGEST = 16, LONGER = 4 };

typedef struct peer {
  void *context, *socket;
} peer_t;

static peer_t peer(const char *address) {
  peer_t p = {.context = zmq_ctx_new()};
  int zero = 0, patience = 100;
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

/* The head of the next answer, which says its number and whether it is the end; -1: the run is over
   and did not answer. */
static int64_t next(const running_t *r, peer_t *p, int64_t asked, bool *end) {
  char text[512];
  zmq_msg_t m;
  snprintf(text, sizeof text, "batches %ld", (long)asked);
  assert_true(zmq_send(p->socket, text, strlen(text), 0) > 0);
  int n = -1;
  do n = zmq_recv(p->socket, text, sizeof text - 1, 0);
  while (n < 0 && runs(r));
  if (n < 0) return *end = true, -1;
  assert_true((size_t)n < sizeof text);
  text[n] = 0;
  int more = 0;
  zmq_getsockopt(p->socket, ZMQ_RCVMORE, &more, &(size_t){sizeof more});
  while (more) { /* of the end the head is alone */
    zmq_msg_init(&m);
    assert_true(zmq_msg_recv(&m, p->socket, 0) >= 0);
    more = zmq_msg_more(&m);
    zmq_msg_close(&m);
  }
  *end = strstr(text, "\"end\": true") != NULL;
  return atol(strchr(text, ':') + 1);
}

static void ledger_alone(int epochs, char *line) {
  char graph[TEXT_MAX];
  program_t *p = calloc(1, sizeof *p);
  snprintf(graph, sizeof graph, STREAM, epochs, 0);
  RUN(p, "run", graph);
  if (p->status) fail_msg("%s", p->err);
  ledger_line(p->out, "ledger: ", line);
  free(p);
}

/* Each of the buffers was published, or is counted as dropped before: on a busy machine some are.
 */
static void assert_all_reported(const char *report, int64_t n) {
  const char *published = strstr(report, " buffers published");
  const char *dropped = strstr(report, " before they were published");
  assert_true(published && dropped);
  while (published > report && published[-1] >= '0' && published[-1] <= '9') published--;
  while (dropped > report && dropped[-1] >= '0' && dropped[-1] <= '9') dropped--;
  assert_int_equal(atol(published) + atol(dropped), n);
}

/* Reads until the run is past a batch, or over. */
static void read_far(const running_t *r, peer_t *p, int64_t number) {
  bool end = false;
  for (int64_t at = -1; at < number && !end;) at = next(r, p, at + 1, &end);
}

/* One run with its subscribers; false: it was over before one of them came, or fell behind. */
static bool is_the_same(int epochs) {
  char graph[TEXT_MAX], at[100], alone[24], seen[24];
  bool end = false;
  int64_t got = 0, missed = 0, number = -1; /* the first batch is number 0 */
  snprintf(at, sizeof at, "ipc://@mr-broadcast-%ld-%d", (long)getpid(), epochs);
  snprintf(graph, sizeof graph, STREAM "  b. ! broadcast %s", epochs, PACE_US, at);
  running_t r = start((const char *const[]){"run", graph, NULL});
  peer_t reader = peer(at), deaf = peer(at), late = peer(at), rude = peer(at);
  zmq_send(rude.socket, "give me all", 11, 0);
  for (int i = 0; i < 500; i++) zmq_send(deaf.socket, "batches 0", 9, 0);
  for (; !end; got += !end) {
    int64_t asked = number + 1;
    number = next(&r, &reader, asked, &end);
    if (got && !end) missed += number - asked;
    if (got == 20) read_far(&r, &late, number + 60); /* more than a window of batches */
  }
  gone(&late);
  finish(&r);
  if (r.p->status) fail_msg("%s", r.p->err);
  assert_true(number < 0 || number == epochs * BATCHES);
  assert_true(got + missed <= epochs * BATCHES);
  ledger_alone(epochs, alone);
  ledger_line(r.p->out, "ledger: ", seen);
  assert_string_equal(alone, seen);
  assert_all_reported(r.p->out, epochs * BATCHES);
  bool all_there = number > 0 && got > 20 && missed > 0 && strstr(r.p->out, "to 3 subscribers");
  gone(&reader), gone(&deaf), gone(&rude), free(r.p);
  return all_there;
}

static void no_subscriber_changes_or_blocks_a_run(void **state) {
  int epochs = 1;
  while (!is_the_same(epochs) && epochs <= LONGEST) epochs *= LONGER;
  assert_true(epochs <= LONGEST);
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

#define PUBLISHER                                                                       \
  "synthetic n=3200 ! shuffle seed=1 epochs=%d ! flip ! normalize ! batch 16 name=b ! " \
  "delay %d asleep ! ledger path=%s/all.txt  b. ! broadcast %s"

/* "NAME: ... N WORD": the number. */
static long reported(const char *out, const char *word) {
  const char *at = strstr(out, word);
  if (!at) fail_msg("no \"%s\" in: %s", word, out);
  while (at > out && at[-1] == ' ') at--;
  while (at > out && at[-1] >= '0' && at[-1] <= '9') at--;
  return atol(at);
}

/* Waits for the end of one that may have come too late to learn of it. */
static bool ends_by_itself(running_t *r) {
  for (int ms = 0; runs(r) && ms < 10000; ms += 10) usleep(10000);
  kill(r->pid, SIGINT);
  finish(r);
  if (r->p->status && r->p->status != 130) fail_msg("%s", r->p->err);
  return !r->p->status;
}

/* One run, one that takes it at a third of its speed, and one that is killed; false: it was over
   before they had met. */
static bool gets_what_was_published(int epochs) {
  char graph[TEXT_MAX], slow[TEXT_MAX], killed[TEXT_MAX], at[100];
  snprintf(at, sizeof at, "ipc://@mr-subscribe-%ld-%d", (long)getpid(), epochs);
  snprintf(graph, sizeof graph, PUBLISHER, epochs, PACE_US, dir, at);
  snprintf(slow, sizeof slow,
           "source link=%s subscribe=batches wait=600 ! delay %d asleep ! ledger path=%s/some.txt",
           at, 3 * PACE_US, dir);
  snprintf(killed, sizeof killed, "source link=%s subscribe=batches wait=600 ! null name=dies", at);
  running_t r = start((const char *const[]){"run", graph, NULL});
  running_t dies = start((const char *const[]){"run", killed, NULL});
  running_t s = start((const char *const[]){"run", slow, NULL});
  usleep(50 * PACE_US);
  kill(dies.pid, SIGKILL);
  finish(&dies), finish(&r);
  if (r.p->status) fail_msg("%s", r.p->err);
  bool met = ends_by_itself(&s);
  long got = met ? reported(s.p->out, "buffers received") : 0;
  long missed = met ? reported(s.p->out, "missed in") : 0;
  char *all = file_of("all", ".txt"), *some = met ? file_of("some", ".txt") : strdup("");
  assert_int_equal(lines_in(all, all), epochs * BATCHES * 16);
  assert_int_equal(lines_in(some, all), 16 * got);
  assert_true(got + missed <= epochs * BATCHES);
  free(all), free(some), free(r.p), free(s.p), free(dies.p);
  return got >= 20 && missed >= 20;
}

static void a_source_that_subscribes_gets_what_was_published_and_tells_what_it_missed(
    void **state) {
  int epochs = 1;
  while (!gets_what_was_published(epochs) && epochs <= LONGEST) epochs *= LONGER;
  assert_true(epochs <= LONGEST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_subscriber_changes_or_blocks_a_run),
      cmocka_unit_test(a_source_that_subscribes_gets_what_was_published_and_tells_what_it_missed),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
