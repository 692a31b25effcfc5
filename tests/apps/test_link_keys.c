/* Keys between processes and hosts, with the real program: who holds the right ones gets the
   stream, everybody else no byte of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/stat.h>

#include "tests/apps/processes.h"
#include "tests/port.h"

#define GRAPH "synthetic n=320 ! shuffle seed=1 epochs=1 ! flip ! batch 16"

static const char *const names[] = {"server", "trainer", "stranger"};

/* DIR/NAME.END, good until the eighth call after. */
static const char *key(const char *name, const char *end) {
  static char path[8][128];
  static int turn;
  char *p = path[turn++ % 8];
  snprintf(p, sizeof path[0], "%s/%s.%s", dir, name, end);
  return p;
}

static int make_keys(void **state) {
  program_t *p = calloc(1, sizeof *p);
  if (setup(state)) return -1;
  for (int i = 0; i < 3; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s", dir, names[i]);
    RUN(p, "keys", name);
    if (p->status) return -1;
  }
  free(p);
  return 0;
}

static int free_port(void) {
  int port = port_free();
  assert_true(port > 0);
  return port;
}

static running_t serve(const char *host, int port) {
  char at[64];
  snprintf(at, sizeof at, "tcp://%s:%d", host, port);
  return start((const char *const[]){"serve", GRAPH, "--bind", at, "--key", key("server", "key"),
                                     "--peers", key("trainer", "pub"), NULL});
}

static void stop(running_t *r) {
  kill(r->pid, SIGINT);
  finish(r);
  assert_int_equal(r->p->status, 130);
  free(r->p);
}

/* Takes the stream with these keys (NULL: none) into DIR/NAME.txt. */
static running_t take(int port, int wait, const char *name, const char *own, const char *peer) {
  char graph[TEXT_MAX];
  int n = snprintf(graph, sizeof graph, "source link=tcp://127.0.0.1:%d wait=%d", port, wait);
  if (own)
    n += snprintf(graph + n, sizeof graph - (size_t)n, " key=%s peers=%s", key(own, "key"),
                  key(peer, "pub"));
  snprintf(graph + n, sizeof graph - (size_t)n, " ! ledger path=%s/%s.txt", dir, name);
  return start((const char *const[]){"run", graph, NULL});
}

static void same_lines(const char *a, const char *b) {
  char *x = file_of(a, ".txt"), *y = file_of(b, ".txt");
  assert_string_equal(x, y);
  free(x), free(y);
}

static void lines_without_a_link(const char *name) {
  char graph[TEXT_MAX];
  program_t *p = calloc(1, sizeof *p);
  snprintf(graph, sizeof graph, GRAPH " ! ledger path=%s/%s.txt", dir, name);
  RUN(p, "run", graph);
  if (p->status) fail_msg("%s", p->err);
  free(p);
}

static void a_server_that_all_can_reach_serves_the_keys_it_knows(void **state) {
  int port = free_port();
  running_t server = serve("0.0.0.0", port), good = take(port, 600, "good", "trainer", "server");
  finish(&good);
  if (good.p->status) fail_msg("%s", good.p->err);
  lines_without_a_link("plain");
  same_lines("plain", "good");
  free(good.p), stop(&server);
}

static void a_peer_without_the_right_key_gets_nothing(void **state) {
  int port = free_port();
  running_t server = serve("127.0.0.1", port);
  running_t bad[] = {take(port, 1, "none", NULL, NULL),
                     take(port, 1, "other", "stranger", "server"),
                     take(port, 1, "false", "trainer", "stranger")};
  for (int i = 0; i < 3; i++) {
    finish(&bad[i]);
    assert_int_equal(bad[i].p->status, 1);
    assert_non_null(strstr(bad[i].p->err, ": no answer; start"));
    free(bad[i].p);
  }
  assert_int_not_equal(access(key("none", "txt"), F_OK), 0);
  running_t good = take(port, 600, "after", "trainer", "server"); /* the others did it no harm */
  finish(&good);
  if (good.p->status) fail_msg("%s", good.p->err);
  free(good.p), stop(&server);
}

static void beyond_this_machine_only_with_keys(void **state) {
  program_t *p = calloc(1, sizeof *p);
  RUN(p, "serve", GRAPH, "--bind", "tcp://0.0.0.0:5570");
  assert_int_equal(p->status, 2);
  assert_non_null(strstr(p->err, "an address beyond this machine needs CURVE"));
  RUN(p, "run",
      "process a { " GRAPH
      " name=x }\nprocess b address=tcp://0.0.0.0:5570 { null name=y "
      "}\nx. ! y.");
  assert_int_not_equal(p->status, 0);
  assert_non_null(strstr(p->err, "an address beyond this machine needs CURVE"));
  chmod(key("stranger", "key"), 0644);
  RUN(p, "serve", GRAPH, "--key", key("stranger", "key"), "--peers", key("trainer", "pub"));
  assert_int_not_equal(p->status, 0);
  assert_non_null(strstr(p->err, "stranger.key"));
  chmod(key("stranger", "key"), 0600);
  free(p);
}

static running_t start_blocks(const char *name, int copies, const char *reader, int port) {
  char text[TEXT_MAX], path[TEXT_MAX];
  snprintf(text, sizeof text,
           "process reader copies=%d restart=100 key=%s peers=%s {\n" GRAPH
           " name=batches\n}\n"
           "process writer restart=100 address=tcp://127.0.0.1:%d key=%s peers=%s {\n"
           "  delay 4000 name=delay ! ledger path=$out.txt state=$out.json name=lines\n}\n"
           "batches. ! delay.\n",
           copies, key(reader, "key"), key("server", "pub"), port, key("server", "key"),
           key("trainer", "pub"));
  write_graph(name, text, path);
  return start((const char *const[]){"run", path, NULL});
}

static void processes_with_keys_meet_again_when_they_were_killed(void **state) {
  static const char *const all[] = {"--process=reader-1", "--process=writer", NULL};
  char path[TEXT_MAX];
  running_t r = start_blocks("blocks", 2, "trainer", free_port());
  snprintf(path, sizeof path, "%s/blocks.mr", dir);
  int done = disturb(&r, path, all);
  finish(&r);
  if (r.p->status) fail_msg("after %d kills: %s", done, r.p->err);
  lines_without_a_link("single");
  same_lines("single", "blocks");
  free(r.p);
}

/* What a program has said so far. */
static bool has_said(const running_t *r, const char *text) {
  char all[TEXT_MAX];
  ssize_t n = pread(fileno(r->err), all, sizeof all - 1, 0);
  all[n > 0 ? n : 0] = 0;
  return strstr(all, text) != NULL;
}

static void a_process_with_a_wrong_key_gives_nothing_and_that_is_said(void **state) {
  char path[TEXT_MAX];
  running_t r = start_blocks("wrong", 1, "stranger", free_port());
  while (runs(&r) && !has_said(&r, "does each end know the other's key")) usleep(100000);
  assert_true(has_said(&r, "no answer from tcp://"));
  assert_int_not_equal(access(key("wrong", "json"), F_OK), 0);
  kill(r.pid, SIGKILL);
  finish(&r);
  snprintf(path, sizeof path, "%s/wrong.mr", dir);
  wait_until_gone(path); /* before its folder goes */
  free(r.p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_that_all_can_reach_serves_the_keys_it_knows),
      cmocka_unit_test(a_peer_without_the_right_key_gets_nothing),
      cmocka_unit_test(beyond_this_machine_only_with_keys),
      cmocka_unit_test(processes_with_keys_meet_again_when_they_were_killed),
      cmocka_unit_test(a_process_with_a_wrong_key_gives_nothing_and_that_is_said),
  };
  return cmocka_run_group_tests(tests, make_keys, teardown);
}
