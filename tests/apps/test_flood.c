/* Strangers at every port that a stage can open: they hold at most a quarter of the descriptors,
   and the run trains, hears a stop, and saves.  The stages are those of the registry: one that is
   added with a port and without a row here is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "links/links.h"
#include "loaders/loaders.h"
#include "pipeline/registry.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"
#include "tests/loaders/origin.h"
#include "tests/port.h"

enum {
  DESCRIPTORS = 400, /* of the program */
  STRANGERS = 300,
  OWN = 40, /* files that a run may open meanwhile, and the guard's own */
  LOOKS = 150
};

/* What opens a port, and a graph with it beside the training: PORT is replaced, DATA by the URL of
   an array, DIR by a folder; open: settings with which it would listen for all without a proof. */
typedef struct row {
  const char *stage, *text, *open;
} row_t;

static const row_t row[] = {
    {"web", "train.metrics ! web port=PORT", "bind=0.0.0.0"},
    {"prometheus", "train.metrics ! prometheus port=PORT", "bind=0.0.0.0"},
    {"publish", "train.metrics ! publish bind=tcp://127.0.0.1:PORT", NULL},
    {"broadcast", "b. ! broadcast bind=tcp://127.0.0.1:PORT", NULL},
    {"link-out", "b. ! link-out link=x address=tcp://127.0.0.1:PORT bind linger=50", NULL},
    {"link-in",
     "b. ! link-out link=x address=tcp://127.0.0.1:PORT linger=50 ! link-in link=x "
     "address=tcp://127.0.0.1:PORT bind linger=50 ! null",
     NULL},
    {"npy",
     "npy fields=x:DATA memory=0 cache=DIR/cache peers=127.0.0.1:PORT peer=127.0.0.1:PORT "
     "peer-token=0123456789abcdef ! shuffle seed=1 epochs=0 ! batch 4 ! delay us=1000 asleep "
     "! null",
     "peer-token=x"},
};
enum { ROWS = sizeof row / sizeof *row };

static char dir[64];
static origin_t origin;
static program_t p;

/* ---- which stages open a port ---- */

static bool has_setting(const mr_stage_def_t *def, const char *name) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, name)) return true;
  return false;
}

/* All sources of URLs answer peers by the same settings and code: npy stands for them. */
static const char *row_name(const mr_stage_def_t *def) {
  return has_setting(def, "peer-token") ? "npy" : def->name;
}

static bool opens_port(const mr_stage_def_t *def) {
  return has_setting(def, "port") || has_setting(def, "bind") || has_setting(def, "peer-token");
}

static void every_stage_that_opens_a_port_has_a_row(void **state) {
  static mr_registry_t all;
  int n = 0;
  mr_registry_add(&all, mr_loaders_stages), mr_registry_add(&all, mr_stages_stages);
  mr_registry_add(&all, mr_links_stages), mr_registry_add(&all, mr_sinks_stages);
  for (int i = 0; i < all.n; i++) {
    bool found = false;
    if (!opens_port(all.def[i])) continue;
    for (int k = 0; k < ROWS; k++) found |= !strcmp(row[k].stage, row_name(all.def[i]));
    if (!found) fail_msg("%s: add what opens its port to the rows", all.def[i]->name);
    n++;
  }
  assert_true(n >= ROWS);
}

/* ---- a run with a port ---- */

static void put(char *text, const char *word, const char *value) {
  char copy[2048];
  for (char *at; (at = strstr(text, word));) {
    strcpy(copy, at + strlen(word));
    sprintf(at, "%s%s", value, copy);
  }
}

static pid_t start_run(const row_t *r, int port, FILE *out, FILE *err) {
  char text[4096], number[16], url[96];
  struct rlimit was, few;
  snprintf(text, sizeof text,
           "synthetic n=640 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 drop-remainder name=b "
           "! train-step name=train model=mlp hidden=8 threads=1 steps=1000000000 "
           "checkpoint-every=1000000\ntrain.state ! checkpoint dir=DIR/%s\n%s\n",
           r->stage, r->text);
  snprintf(number, sizeof number, "%d", port);
  snprintf(url, sizeof url, "http://127.0.0.1:%d/x.npy", origin.port);
  put(text, "PORT", number), put(text, "DATA", url), put(text, "DIR", dir);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
  few = (struct rlimit){DESCRIPTORS, was.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  pid_t pid = program_start((const char *const[]){"run", text, NULL}, out, err);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
  return pid;
}

static int count_descriptors(pid_t pid) {
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *d = opendir(path);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* A connection, or -1 and errno.  It does not wait, so that a listener that takes no more holds up
   nothing. */
static int connect_to(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || errno == EINPROGRESS) return fd;
  close(fd);
  return -1;
}

static int first_connection(pid_t pid, int port) {
  for (;; usleep(5000)) {
    int fd = connect_to(port), error = 0;
    socklen_t n = sizeof error;
    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && !error) {
      struct sockaddr_in a;
      n = sizeof a;
      if (getpeername(fd, (struct sockaddr *)&a, &n) == 0) return fd;
    }
    if (fd >= 0) close(fd);
    if (has_ended(pid)) return -1;
  }
}

/* Half a request, and then a byte now and then: each would restart a time-out of silence. */
static void drip_to(const int held[STRANGERS], const char *text) {
  for (int i = 0; i < STRANGERS; i++)
    if (held[i] >= 0) send(held[i], text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void flood(const row_t *r) {
  int held[STRANGERS], port = port_free();
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = start_run(r, port, out, err);
  held[0] = first_connection(pid, port);
  int before = count_descriptors(pid), bound = before + DESCRIPTORS / 4 + OWN;
  for (int i = 1; i < STRANGERS && held[0] >= 0; i++) held[i] = connect_to(port);
  /* libzmq takes every connection, and the guard ends those that are too many. */
  for (int k = 0; held[0] >= 0 && !has_ended(pid); k++, usleep(10000)) {
    drip_to(held, k ? "x" : "GET /x HTTP/1.1\r\nX: ");
    if (k >= LOOKS && count_descriptors(pid) <= bound) break;
  }
  kill(pid, SIGTERM);
  p.status = program_wait(pid);
  for (int i = 0; i < STRANGERS && held[0] >= 0; i++)
    if (held[i] >= 0) close(held[i]);
  program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
  if (held[0] < 0) fail_msg("%s: status %d: %s", r->stage, p.status, p.err);
  if (p.status == 1 || strstr(p.err, "Too many open files"))
    fail_msg("%s: status %d: %s", r->stage, p.status, p.err);
  char link[160], name[64];
  snprintf(link, sizeof link, "%s/%s/latest", dir, r->stage);
  if (readlink(link, name, sizeof name) < 0) fail_msg("%s: no checkpoint: %s", r->stage, p.err);
}

/* Writes the row's text with its listener open to other hosts. */
static void open_to_all(const row_t *r, char text[1024]) {
  char rest[1024];
  snprintf(text, 1024, "%s", r->text);
  if (!r->open) {
    put(text, "//127.0.0.1:PORT", "//0.0.0.0:PORT");
    return;
  }
  size_t key = strcspn(r->open, "=") + 1;
  char *at = strstr(text, "peer-token="), *after;
  bool replaces = at && !strncmp(at, r->open, key);
  if (!replaces) at = strstr(text, "PORT") + strlen("PORT");
  after = replaces ? at + strcspn(at, " ") : at;
  strcpy(rest, after);
  size_t room = 1024 - (size_t)(at - text);
  assert_true((size_t)snprintf(at, room, "%s%s%s", replaces ? "" : " ", r->open, rest) < room);
}

/* Where other hosts could connect, no listener is opened that lets them in without a proof; peers
   want their token here too. */
static void without_a_proof_each_listens_to_this_machine_alone(void **state) {
  unsetenv("MILLRACE_PEER_TOKEN");
  for (int i = 0; i < ROWS; i++) {
    row_t r = row[i];
    char text[1024];
    open_to_all(&r, text);
    r.text = text;
    FILE *out = tmpfile(), *err = tmpfile();
    p.status = program_wait(start_run(&r, port_free(), out, err));
    program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
    if (p.status != 2 || (!strstr(p.err, "this machine") && !strstr(p.err, "want a token of")))
      fail_msg("%s: %s: status %d: %s", r.stage, text, p.status, p.err);
  }
}

/* What listens, by the files that call for it: a listener that is added is flooded too. */
static void every_call_that_listens_is_known(void **state) {
  static const char *const known[] = {
      "links/socket.c",                /* link-in, link-out, broadcast */
      "links/share.c",                 /* of this user, by SO_PEERCRED, at an abstract name */
      "links/zap.c",                   /* within the process */
      "loaders/remote/remote_serve.c", /* peers */
      "ranks/wire_zmq.c",              /* tests/ranks/test_zmq.c floods it */
      "sinks/http.c",                  /* web, prometheus */
      "sinks/subscribers.c",           /* within the process, behind the next */
      "sinks/subscribers_listener.c",  /* publish */
      "apps/bench/link.c",             /* a measurement of its own */
  };
  char line[256];
  int n = 0;
  FILE *f = popen("cd " MR_SOURCE_DIR
                  " && grep -rlE '(^|[^a-z_])(listen|zmq_bind|MHD_start_daemon) ?\\(' "
                  "--include='*.c' apps base links loaders metrics model pipeline plugins pull "
                  "ranks sinks stages",
                  "r");
  assert_non_null(f);
  for (; fgets(line, sizeof line, f); n++) {
    bool found = false;
    line[strcspn(line, "\n")] = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= !strcmp(known[i], line);
    if (!found) fail_msg("%s listens: flood it here, and say so", line);
  }
  assert_int_equal(pclose(f), 0);
  assert_int_equal(n, sizeof known / sizeof *known);
}

static void strangers_take_a_part_of_the_descriptors_and_no_run(void **state) {
  for (int i = 0; i < ROWS; i++) flood(&row[i]);
}

/* Numbers as numpy.save writes them. */
static uint8_t array[128 + 640 * 4];
static int setup(void **state) {
  strcpy(dir, "/tmp/mr-flood-XXXXXX");
  for (const char *const *v = (const char *const[]){"http_proxy", "all_proxy", "ALL_PROXY", NULL};
       *v; v++)
    unsetenv(*v);
  memcpy(array, "\x93NUMPY\1\0\x76\0", 10);
  int n = snprintf((char *)array + 10, 118,
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (640,), }");
  memset(array + 10 + n, ' ', (size_t)(117 - n)), array[127] = '\n';
  origin_open(&origin, array, sizeof array, 1);
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
  origin_close(&origin);
  return program_forget(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_stage_that_opens_a_port_has_a_row),
      cmocka_unit_test(every_call_that_listens_is_known),
      cmocka_unit_test(without_a_proof_each_listens_to_this_machine_alone),
      cmocka_unit_test(strangers_take_a_part_of_the_descriptors_and_no_run),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
