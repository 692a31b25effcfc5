/* Every wait for something outside ends when the run is asked to end: a server or a peer of a link
   that says nothing, a pipe that nothing is read from, a command.  The stages are those of the
   registry: one that is added and may wait, and has no row here, is noticed.  Each wait would last
   far longer than a test has; a run that trains meanwhile saves its last step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "pipeline/registry.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"
#include "tests/port.h"

enum { LONG_S = 20 /* far above the 2 s that a stop may take, far below what is waited for */ };

/* How a row is known to wait.  HAS_HANDLERS: it hears signals, and a training run has made a step.
 */
typedef enum begins { ASKS_SERVER, MAKES_FILE, HAS_HANDLERS } begins_t;

/* A stage and what waits: URL is a server that answers nothing, DIR a folder, PIPE a full pipe,
   PORT a free port.  Beside a training run, unless it is alone. */
typedef struct row {
  const char *stage;
  begins_t begins;
  bool alone;
  const char *text;
} row_t;

static const row_t row[] = {
    {"alert", MAKES_FILE, false,
     "train.metrics ! alert plateau=1 command='touch DIR/began; sleep 1000'"},
    {"alert", ASKS_SERVER, false, "train.metrics ! alert plateau=1 webhook=URL/x"},
    {"web", HAS_HANDLERS, false, "train.metrics ! web port=0"},
    {"prometheus", HAS_HANDLERS, false, "train.metrics ! prometheus port=0"},
    {"publish", HAS_HANDLERS, false, "train.metrics ! publish bind=tcp://127.0.0.1:PORT"},
    {"broadcast", HAS_HANDLERS, false, "b. ! broadcast bind=tcp://127.0.0.1:PORT"},
    {"link-out", HAS_HANDLERS, false,
     "b. ! link-out link=x address=tcp://127.0.0.1:PORT bind linger=60000"},
    {"link-in", HAS_HANDLERS, false,
     "b. ! link-out link=y address=tcp://127.0.0.1:PORT bind linger=60000 ! link-in link=x "
     "address=tcp://127.0.0.1:1 linger=60000 ! null"},
    {"source", HAS_HANDLERS, true, "source link=tcp://127.0.0.1:PORT ! null"},
    {"delay", HAS_HANDLERS, true, "count 2 ! delay us=1e9 asleep ! null"},
    {"jsonl", HAS_HANDLERS, false, "train.metrics ! jsonl path=PIPE"},
    {"csv", HAS_HANDLERS, false, "train.metrics ! csv path=PIPE"},
    {"ledger", HAS_HANDLERS, false, "b. ! ledger path=PIPE"},
    {"ledger", HAS_HANDLERS, true,
     "range 4 ! batch 2 ! ledger path=DIR/unread"}, /* waits in open() */
    {"npy", ASKS_SERVER, true, "npy fields=x:URL/x.npy timeout=3600 ! batch 2 ! null"},
    {"delay-record", HAS_HANDLERS, true, "range 4 ! delay-record us=1e9 asleep ! batch 2 ! null"},
    {"folder", ASKS_SERVER, true,
     "folder s3://bucket/p endpoint=URL anonymous timeout=3600 ! batch 2 ! null"},
};
enum { ROWS = sizeof row / sizeof *row };

static char dir[64];
static int server; /* listens, and never answers */
static int full;   /* keeps the pipe full */
static program_t p;

/* ---- which stages may wait ---- */

static bool has_setting(const mr_stage_def_t *def, const char *name) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, name)) return true;
  return false;
}

static bool may_wait(const mr_stage_def_t *def) {
  static const char *const word[] = {"port",    "bind",    "address", "link",
                                     "webhook", "command", "asleep"};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (has_setting(def, word[i])) return true;
  return false;
}

/* Sources of URLs, which wait for a server alike. */
static bool reads_urls(const mr_stage_def_t *def) { return has_setting(def, "peer-token"); }

static mr_registry_t *registry(void) {
  static mr_registry_t all;
  if (all.n) return &all;
  mr_registry_add(&all, mr_loaders_stages), mr_registry_add(&all, mr_stages_stages);
  mr_registry_add(&all, mr_links_stages), mr_registry_add(&all, mr_sinks_stages);
  return &all;
}

static void every_stage_that_may_wait_has_a_row(void **state) {
  const mr_registry_t *all = registry();
  int n = 0;
  for (int i = 0; i < all->n; i++) {
    bool found = false;
    if (!may_wait(all->def[i])) continue;
    for (int k = 0; k < ROWS; k++) found |= !strcmp(row[k].stage, all->def[i]->name);
    if (!found) fail_msg("%s: add what it waits for to the rows", all->def[i]->name);
    n++;
  }
  assert_true(n >= 9);
}

/* ---- one wait ---- */

static void put(char *text, const char *word, const char *value) {
  char copy[2048];
  for (char *at; (at = strstr(text, word));) {
    strcpy(copy, at + strlen(word));
    sprintf(at, "%s%s", value, copy);
  }
}

static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Waits until the run of row i waits; the connection that it has made, or -1. */
static int until_it_waits(const row_t *r, int i, pid_t pid) {
  char file[96];
  int way = -1;
  struct stat st = {0};
  snprintf(file, sizeof file, "%s/%d.jsonl", dir, i);
  for (; !r->alone && (stat(file, &st) || !st.st_size) && !has_ended(pid); usleep(1000)) continue;
  snprintf(file, sizeof file, "%s/began", dir);
  if (r->begins == HAS_HANDLERS && !strcmp(r->stage, "source")) return usleep(1000), -1;
  if (r->begins == HAS_HANDLERS) program_wait_for_handler(pid, SIGTERM, 1);
  for (; r->begins == ASKS_SERVER && way < 0 && !has_ended(pid); usleep(1000))
    way = accept4(server, NULL, NULL, SOCK_CLOEXEC);
  for (; r->begins == MAKES_FILE && access(file, F_OK) && !has_ended(pid); usleep(1000)) continue;
  unlink(file);
  return way;
}

static void fill_pipe(void) {
  static const char bytes[4096];
  while (write(full, bytes, sizeof bytes) > 0 || write(full, bytes, 1) > 0) continue;
}

/* The newest step that a row's run has saved; "": none. */
static const char *saved(int i) {
  static char name[64];
  char link[96];
  snprintf(link, sizeof link, "%s/%d/latest", dir, i);
  ssize_t n = readlink(link, name, sizeof name - 1);
  name[n < 0 ? 0 : n] = 0;
  return name;
}

static void row_text(const row_t *r, int i, char text[4096]) {
  char number[16], url[64], pipe[96];
  struct sockaddr_in at;
  socklen_t size = sizeof at;
  assert_int_equal(getsockname(server, (struct sockaddr *)&at, &size), 0);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
  snprintf(pipe, sizeof pipe, "%s/pipe", dir);
  snprintf(number, sizeof number, "%d", port_free());
  snprintf(text, 4096, "%s%s\n",
           r->alone ? ""
                    : "synthetic n=640 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 "
                      "drop-remainder name=b ! train-step name=train model=mlp hidden=8 threads=1 "
                      "steps=1000000000 checkpoint-every=1000000\ntrain.state ! checkpoint "
                      "dir=DIR/NUMBER\ntrain.metrics ! jsonl path=DIR/NUMBER.jsonl\n",
           r->text);
  put(text, "PORT", number), put(text, "URL", url), put(text, "PIPE", pipe), put(text, "DIR", dir);
  snprintf(number, sizeof number, "%d", i);
  put(text, "NUMBER", number);
}

static void stop_one(const row_t *r, int i) {
  char text[4096];
  FILE *out = tmpfile(), *err = tmpfile();
  row_text(r, i, text);
  fill_pipe();
  pid_t pid = program_start((const char *const[]){"run", text, NULL}, out, err);
  int way = until_it_waits(r, i, pid);
  bool early = has_ended(pid);
  int64_t begun = mr_now_ns();
  kill(pid, SIGTERM);
  p.status = program_wait(pid);
  double took = 1e-9 * (double)(mr_now_ns() - begun);
  if (way >= 0) close(way);
  program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
  if (early || p.status != 128 + SIGTERM)
    fail_msg("%s: status %d: %s%s", r->stage, p.status, text, p.err);
  if (took > LONG_S) fail_msg("%s: has taken %.1f s: %s", r->stage, took, p.err);
  if (!r->alone && !*saved(i)) fail_msg("%s: no checkpoint: %s", r->stage, p.err);
}

static void a_stop_ends_each_wait_with_a_checkpoint(void **state) {
  for (int i = 0; i < ROWS; i++) stop_one(&row[i], i);
}

/* What a source reads is a URL of the silent server. */
static void a_stop_ends_the_first_wait_of_every_source(void **state) {
  static char text[ROWS + 64][300];
  const mr_registry_t *all = registry();
  int n = 0;
  for (int i = 0; i < all->n && n < 64; i++) {
    const char *name = all->def[i]->name;
    if (!reads_urls(all->def[i]) || !strcmp(name, "npy") || !strcmp(name, "folder")) continue;
    snprintf(text[n], sizeof *text, "%s URL/x timeout=3600 ! batch 2 ! null", name);
    const row_t r = {name, ASKS_SERVER, true, text[n++]};
    stop_one(&r, ROWS);
  }
  assert_true(n >= 8);
}

/* ---- commands with children ---- */

static int stopped(const char *const *words, bool asks) {
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(words, out, err);
  int way = -1;
  if (!asks) program_wait_for_handler(pid, SIGTERM, 1);
  for (; asks && way < 0 && !has_ended(pid); usleep(1000))
    way = accept4(server, NULL, NULL, SOCK_CLOEXEC);
  int64_t begun = mr_now_ns();
  kill(pid, SIGTERM);
  p.status = program_wait(pid);
  if (way >= 0) close(way);
  program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
  if (mr_now_ns() - begun > LONG_S * INT64_C(1000000000)) fail_msg("%s: %s", words[0], p.err);
  return p.status;
}

/* The shards are stopped while they wait for trainers, and while they are planned. */
static void serve_stops_its_shards(void **state) {
  char text[4096], to[64];
  const row_t r = {"serve", ASKS_SERVER, true, "npy fields=x:URL/x.npy timeout=3600 ! batch 2"};
  snprintf(to, sizeof to, "--bind=tcp://127.0.0.1:%d", port_free());
  int status = stopped(
      (const char *const[]){"serve", "synthetic n=64 ! shuffle epochs=0 ! batch 16", to, NULL},
      false);
  if (status != 130 && status != 143) fail_msg("status %d: %s", status, p.err);
  row_text(&r, 0, text);
  snprintf(to, sizeof to, "--bind=tcp://127.0.0.1:%d", port_free());
  status = stopped((const char *const[]){"serve", text, "--shards", "2", to, NULL}, true);
  if (status != 130 && status != 143) fail_msg("status %d: %s", status, p.err);
}

static int setup(void **state) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  char pipe[96];
  strcpy(dir, "/tmp/mr-waits-XXXXXX");
  for (const char *const *v = (const char *const[]){"http_proxy", "all_proxy", "ALL_PROXY", NULL};
       *v; v++)
    unsetenv(*v);
  if (!mkdtemp(dir)) return -1;
  snprintf(pipe, sizeof pipe, "%s/pipe", dir);
  if (mkfifo(pipe, 0600)) return -1;
  full = open(pipe, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  snprintf(pipe, sizeof pipe, "%s/unread", dir); /* which no process opens for reading */
  if (mkfifo(pipe, 0600)) return -1;
  server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(server, (struct sockaddr *)&at, sizeof at)) return -1;
  return listen(server, 64);
}

static int teardown(void **state) {
  close(server), close(full);
  return program_forget(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_stage_that_may_wait_has_a_row),
      cmocka_unit_test(a_stop_ends_each_wait_with_a_checkpoint),
      cmocka_unit_test(a_stop_ends_the_first_wait_of_every_source),
      cmocka_unit_test(serve_stops_its_shards),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
