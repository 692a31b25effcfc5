/* The live page's server by hand: who is let in, and what the stream of events brings.  A real
   browser looks at it in scripts/check-web.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/slow_clients.h"
#include "sinks/web_private.h"
#include "tests/sinks/talk.h"

static const mr_stage_def_t *const own[] = {&talk_def, NULL};
static int setup(void **state) { return talk_setup(own); }
static int teardown(void **state) {
  talk_over = false;
  talk_before = NULL, talk_metrics = &talk_usual;
  return talk_teardown();
}

/* ---- a graph that runs in another thread, and the address it announces ---- */

static pthread_t runner;
static char graph_text[256], token[40];
static int port;
static mr_err_t run_said_code;

static void *run_graph(void *arg) {
  mr_diag_t diag;
  run_said_code = run(graph_text, &diag);
  return NULL;
}

/* Appends an announcement to the file "said" by one write. */
static void keep_announcement(void *arg, const char *text) {
  char path[96];
  snprintf(path, sizeof path, "%s/said", dir);
  FILE *f = fopen(path, "a");
  assert_non_null(f);
  fprintf(f, "%s\n", text);
  fclose(f);
}

/* The address that a stage has announced, in a file; false: not yet. */
static bool find_address(const char *path, const char *stage, int *at, char *with) {
  char line[512], want[96];
  bool there = false;
  snprintf(want, sizeof want, "%s: http://127.0.0.1:%%d/?token=%%32[0-9a-f]", stage);
  FILE *f = fopen(path, "r");
  while (f && !there && fgets(line, sizeof line, f))
    there = strchr(line, '\n') && sscanf(line, want, at, with) == 2;
  if (f) fclose(f);
  return there;
}

/* Starts the graph and waits until `last`, the stage that opens last, has announced its address,
   which is then port and token. */
static void start_until(const char *text, const char *last) {
  char path[96];
  snprintf(path, sizeof path, "%s/said", dir);
  unlink(path);
  mr_announce_to(keep_announcement, NULL);
  snprintf(graph_text, sizeof graph_text, "%s", text);
  assert_int_equal(pthread_create(&runner, NULL, run_graph, NULL), 0);
  bool there = false;
  for (int i = 0; i < 120000 && !there; i++) {
    usleep(1000);
    there = find_address(path, last, &port, token);
  }
  assert_true(there);
}

static void start(const char *text) { start_until(text, "web"); }

static void finish(void) {
  talk_over = true;
  pthread_join(runner, NULL);
  assert_int_equal(run_said_code, MR_OK);
}

static int dial(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
  return fd;
}

/* Sends text, reads up to the end of the answer; the caller frees it.  heard is called with its
   first bytes, if not NULL. */
static char *ask_and_tell(const char *text, size_t n, bool hang_up, void (*heard)(void)) {
  int fd = dial();
  char *answer = NULL;
  size_t have = 0, cap = 0;
  (void)!send(fd, text, n, MSG_NOSIGNAL);
  if (hang_up) shutdown(fd, SHUT_WR);
  for (;;) {
    if (cap - have < 4096) answer = realloc(answer, cap = 2 * cap + 8192);
    ssize_t k = recv(fd, answer + have, cap - have - 1, 0);
    if (k <= 0) break;
    if (heard && !have) heard();
    have += (size_t)k;
  }
  answer[have] = 0;
  close(fd);
  return answer;
}

static char *ask_raw(const char *text, size_t n, bool hang_up) {
  return ask_and_tell(text, n, hang_up, NULL);
}

static int status_of(const char *path, const char *with_token, const char *host, const char *more) {
  char text[1024];
  int n = snprintf(text, sizeof text,
                   "GET %s?token=%s HTTP/1.1\r\nHost: %s\r\n%sConnection: "
                   "close\r\n\r\n",
                   path, with_token, host, more);
  char *answer = ask_raw(text, (size_t)n, false);
  int status = 0;
  sscanf(answer, "HTTP/1.1 %d", &status);
  free(answer);
  return status;
}

/* The whole answer to a GET of path, from the server at a port; the caller frees it. */
static char *get(int at, const char *method, const char *path, const char *head) {
  char text[512];
  int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%sConnection: close\r\n\r\n", method, path,
                   head);
  port = at;
  return ask_raw(text, (size_t)n, false);
}

/* ---- the tests ---- */

static void a_refusal_holds_no_token(void **state) {
  char right[64], query[80];
  start("talk last=1000000 pause=5000 ! web port=0");
  snprintf(right, sizeof right, "Host: 127.0.0.1:%d\r\n", port);
  snprintf(query, sizeof query, "/run.json?token=%s", token);
  const struct {
    const char *method, *path, *head, *status;
  } refused[] = {{"GET", "/run.json?token=x", right, " 401 "},
                 {"GET", "/run.json?token=", right, " 401 "},
                 {"GET", "/?token=00000000000000000000000000000000", right, " 401 "},
                 {"GET", "/?token=", "Host: evil.example\r\n", " 403 "},
                 {"GET", query, "Host: evil.example\r\n", " 403 "},
                 {"POST", "/?token=", right, " 405 "},
                 {"POST", query, right, " 405 "}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    char *answer = get(port, refused[i].method, refused[i].path, refused[i].head);
    assert_non_null(strstr(answer, refused[i].status));
    assert_null(strstr(answer, token));
    assert_null(strstr(answer, "Set-Cookie"));
    free(answer);
  }
  char *answer = get(port, "GET", query, right);
  assert_non_null(strstr(answer, " 200 "));
  assert_non_null(strstr(answer, "Set-Cookie"));
  assert_non_null(strstr(answer, token));
  free(answer);
  finish();
}

static void the_settings_on_the_page_hide_secrets(void **state) {
  char path[80], head[64];
  start(
      "talk last=1000000 pause=5000 name=t  t. ! web port=0"
      "  t. ! alert command='echo told' webhook=https://hooks.example/services/PASS");
  snprintf(head, sizeof head, "Host: 127.0.0.1:%d\r\n", port);
  snprintf(path, sizeof path, "/run.json?token=%s", token);
  char *answer = get(port, "GET", path, head);
  assert_non_null(strstr(answer, "\"webhook\":\"(hidden)\""));
  assert_non_null(strstr(answer, "\"command\":\"(hidden)\""));
  assert_null(strstr(answer, "PASS"));
  assert_null(strstr(answer, "echo told"));
  free(answer);
  finish();
}

/* Two servers that share a port answer for each other. */
static void a_second_page_takes_another_port(void **state) {
  char said[96], name[2][8] = {"web", "web2"}, with[2][40], path[80], head[64];
  int at[2];
  mr_diag_t diag;
  start_until("talk last=1000000 pause=5000 name=t  t. ! web  t. ! web name=web2", "web2");
  snprintf(said, sizeof said, "%s/said", dir);
  for (int i = 0; i < 2; i++) assert_true(find_address(said, name[i], &at[i], with[i]));
  assert_int_not_equal(at[0], at[1]);
  for (int i = 0; i < 2; i++) /* each knows its own token alone */
    for (int k = 0; k < 2; k++) {
      snprintf(head, sizeof head, "Host: 127.0.0.1:%d\r\n", at[i]);
      snprintf(path, sizeof path, "/run.json?token=%s", with[k]);
      char *answer = get(at[i], "GET", path, head);
      assert_non_null(strstr(answer, i == k ? " 200 " : " 401 "));
      free(answer);
    }
  char *text = read_text("said"), line[96];
  snprintf(line, sizeof line, "is in use, port %d is taken instead", at[1]);
  assert_non_null(strstr(text, line));
  free(text);
  snprintf(path, sizeof path, "talk ! web port=%d", at[0]);
  assert_int_equal(run(path, &diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "Address already in use; choose another port"));
  snprintf(path, sizeof path, "talk ! prometheus port=%d", at[1]);
  assert_int_equal(run(path, &diag), MR_ERR_IO);
  finish();
}

/* An open page then continues to show the run after a resume. */
static void the_next_page_of_a_folder_has_the_same_address(void **state) {
  char text[160], path[96], first[40];
  struct stat st;
  snprintf(text, sizeof text, "talk last=1000000 pause=5000 ! web run=%s", dir);
  snprintf(path, sizeof path, "%s/web.url", dir);
  start(text);
  int first_port = port;
  strcpy(first, token);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0600);
  finish();
  talk_over = false;
  start(text);
  assert_string_equal(token, first);
  /* another program may have taken the port meanwhile: then the token alone stays */
  if (port != first_port) print_message("port %d was taken\n", first_port);
  finish();
  assert_int_equal(chmod(path, 0644), 0); /* a token that others could read is none */
  talk_over = false;
  start(text);
  assert_string_not_equal(token, first);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0600);
  finish();
}

static void only_its_own_pages_with_the_token_get_in(void **state) {
  char host[64], origin[128], wrong[40];
  start("talk last=1000000 pause=5000 ! web port=0");
  snprintf(host, sizeof host, "127.0.0.1:%d", port);
  assert_int_equal(status_of("/run.json", token, host, ""), 200);
  assert_int_equal(status_of("/app.js", token, host, ""), 200);
  snprintf(origin, sizeof origin, "Origin: http://%s\r\n", host);
  assert_int_equal(status_of("/run.json", token, host, origin), 200);
  assert_int_equal(status_of("/run.json", token, host, "Origin: http://evil.example\r\n"), 403);
  assert_int_equal(status_of("/run.json", token, host, "Origin: null\r\n"), 403);
  assert_int_equal(status_of("/run.json", token, "evil.example", ""), 403);
  assert_int_equal(status_of("/run.json", token, "127.0.0.1.evil.example", ""), 403);
  assert_int_equal(status_of("/run.json", token, "127.0.0.1:1", ""), 403);
  assert_int_equal(status_of("/run.json", "", host, ""), 401);
  snprintf(wrong, sizeof wrong, "%s", token);
  wrong[31] = wrong[31] == '0' ? '1' : '0';
  assert_int_equal(status_of("/run.json", wrong, host, ""), 401);
  assert_int_equal(status_of("/runs/../../etc/passwd", token, host, ""), 404);
  assert_int_equal(status_of("/runs/..%2f..%2fetc", token, host, ""), 404);
  assert_int_equal(status_of("/picture/-1", token, host, ""), 404);
  assert_int_equal(status_of("/picture/99999999999999999999", token, host, ""), 404);
  finish();
}

static void bodies_nonsense_and_long_heads_do_not_get_in(void **state) {
  static char text[40000];
  start("talk last=1000000 pause=5000 ! web port=0");
  int n = snprintf(text, sizeof text,
                   "POST /run.json?token=%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: "
                   "10\r\nConnection: close\r\n\r\n0123456789",
                   token, port);
  char *answer = ask_raw(text, (size_t)n, false);
  assert_non_null(strstr(answer, " 405 "));
  free(answer);
  memset(text, 'a', sizeof text);
  memcpy(text, "GET /", 5);
  answer = ask_raw(text, sizeof text, true);
  assert_null(strstr(answer, " 200 "));
  free(answer);
  uint64_t x = 88172645463325252u;
  for (int i = 0; i < 100; i++) { /* random bytes: closed or refused, never answered */
    for (int k = 0; k < 64; k++) x ^= x << 13, x ^= x >> 7, x ^= x << 17, text[k] = (char)x;
    memcpy(text + 60, "\r\n\r\n", 4);
    answer = ask_raw(text, 64, true);
    if (strstr(answer, " 200 ")) fail_msg("round %d was let in", i);
    free(answer);
  }
  finish();
}

/* Holds the run at its second step until a client reads. */
static atomic_bool is_read;

static void wait_until_read(mr_report_t *r) {
  while (r->step > 1 && !is_read) usleep(1000);
}

static void now_it_is_read(void) { is_read = true; }

static void the_stream_brings_every_record_and_ends_with_the_run(void **state) {
  char text[256];
  is_read = false;
  talk_before = wait_until_read;
  start("talk last=60 ! telemetry every=0 ! web port=0");
  int n = snprintf(text, sizeof text,
                   "GET /events?token=%s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n", /* no chunks */
                   token, port);
  char *answer = ask_and_tell(text, (size_t)n, false, now_it_is_read);
  assert_non_null(strstr(answer, "Content-Type: text/event-stream"));
  assert_null(strstr(answer, "Access-Control-Allow-Origin"));
  for (int step = 1; step <= 60; step++) {
    snprintf(text, sizeof text, "data: {\"kind\":\"step\",\"step\":%d,", step);
    if (!strstr(answer, text)) fail_msg("no step %d", step);
  }
  assert_non_null(strstr(answer, "\"kind\":\"final\""));
  assert_non_null(strstr(answer, "event: live"));
  free(answer);
  finish();
}

static void clients_that_say_nothing_do_not_hold_the_run(void **state) {
  int fd[50];
  start("talk last=1000000 pause=5000 ! web port=0");
  for (int i = 0; i < 50; i++) fd[i] = dial(); /* more than are let in */
  finish();
  for (int i = 0; i < 50; i++) close(fd[i]);
}

static const double LIMIT_S = 0.2;

/* A connection that was answered within the limit: once more, if a busy machine let that pass. */
static void answered_in_time(mr_slow_clients_t *s, int pair[2]) {
  for (;;) {
    double from = mr_now_s();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    mr_slow_clients_begin(s, pair[0]);
    mr_slow_clients_answer(s, pair[0]);
    if (mr_now_s() - from < LIMIT_S) return;
    mr_slow_clients_end(s, pair[0]);
    close(pair[0]), close(pair[1]);
  }
}

/* The server's own limit is 20 s: scripts/check-web.sh waits for it. */
static void a_connection_that_comes_to_no_request_is_ended(void **state) {
  mr_slow_clients_t s = {0};
  int slow[2], answered[2];
  char byte;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, slow), 0);
  assert_true(mr_slow_clients_open(&s, 8, LIMIT_S));
  answered_in_time(&s, answered);
  mr_slow_clients_begin(&s, slow[0]);
  assert_int_equal(recv(slow[1], &byte, 1, 0), 0);
  assert_int_equal(recv(answered[1], &byte, 1, MSG_DONTWAIT), -1); /* still open */
  mr_slow_clients_end(&s, slow[0]);
  close(slow[0]);
  mr_slow_clients_wait(&s, answered[0]); /* for another request, which does not come either */
  assert_int_equal(recv(answered[1], &byte, 1, 0), 0);
  mr_slow_clients_close(&s);
  close(slow[1]), close(answered[0]), close(answered[1]);
}

/* How many threads of this process have a name that begins so; each must have a priority. */
static int threads_of_priority(const char *begins, int priority) {
  int found = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *e; (e = readdir(tasks));) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
    FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!f) continue;
    if (fgets(name, sizeof name, f) && !strncmp(name, begins, strlen(begins))) {
      assert_int_equal(getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name)), priority);
      found++;
    }
    fclose(f);
  }
  closedir(tasks);
  return found;
}

/* Threads come one by one as the graph opens. */
static void a_thread_has(const char *begins, int priority) {
  for (int i = 0; i < 120000 && !threads_of_priority(begins, priority); i++) usleep(1000);
  assert_true(threads_of_priority(begins, priority) >= 1);
}

static void threads_that_answer_requests_have_the_lowest_priority(void **state) {
  char text[160];
  snprintf(text, sizeof text,
           "talk last=1000000 pause=5000 name=t  t. ! web port=0  t. ! publish ipc://%s/p", dir);
  start(text);
  a_thread_has("MHD", 19);
  a_thread_has("ZMQbg/IO", 19);
  a_thread_has("t/0", getpriority(PRIO_PROCESS, 0));
  finish();
}

/* 64 at once, then one in 20 ms: this many cannot have been accepted sooner.  A slow machine is no
   matter. */
static void of_many_that_come_each_is_answered_in_its_turn(void **state) {
  enum { COME = 94, BURST = 64, LATE = COME - BURST - 1 };
  int64_t begun = mr_now_ns();
  start("talk last=1000000 pause=5000 ! web port=0");
  for (int i = 0; i < COME; i++) assert_int_equal(status_of("/", "", "localhost", ""), 401);
  assert_true(mr_now_ns() - begun >= LATE * INT64_C(20000000));
  finish();
}

static void beyond_loopback_it_wants_tls(void **state) {
  mr_diag_t diag;
  assert_int_equal(run("talk ! web port=0 bind=0.0.0.0", &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "tls-cert"));
  assert_int_equal(run("talk ! prometheus port=0 bind=::", &diag), MR_ERR_CONFIG);
  assert_int_equal(run("talk ! web port=0 bind=localhost", &diag), MR_ERR_CONFIG);
  assert_int_equal(run("talk ! web port=0 tls-cert=x", &diag), MR_ERR_CONFIG);
}

static void a_full_log_keeps_every_second_old_step_and_all_the_rest(void **state) {
  mr_web_log_t l = {0};
  for (int i = 0; i < MR_WEB_LOG_MAX + 1; i++) {
    char text[16];
    snprintf(text, sizeof text, "%d", i);
    mr_web_log_add(&l, text, i % 100 == 0);
  }
  assert_int_equal(l.thinned, 1);
  assert_true(l.n < MR_WEB_LOG_MAX * 4 / 5);
  int stays = 0, last = -1;
  for (size_t i = 0; i < l.n; i++) {
    int number = atoi(l.message[i]->text + strlen("data: "));
    assert_true(number > last);
    last = number;
    stays += l.message[i]->stays;
  }
  assert_int_equal(last, MR_WEB_LOG_MAX);
  assert_int_equal(stays, MR_WEB_LOG_MAX / 100 + 1);
  mr_web_log_fini(&l);
}

/* Matrices of a thousand evaluations, which stay, would fill the memory of a long run. */
static void the_log_of_a_page_has_a_limit_of_bytes(void **state) {
  enum { ADDED = 3000, BYTES = 100000 };
  mr_web_log_t l = {0};
  char *text = malloc(BYTES + 1);
  memset(text, ' ', BYTES), text[BYTES] = 0;
  for (int i = 0; i < ADDED; i++) {
    text[snprintf(text, 10, "%d", i)] = ' ';
    mr_web_log_add(&l, text, i % 3 != 0);
    assert_true(l.bytes <= MR_WEB_LOG_BYTES);
  }
  size_t bytes = 0;
  for (size_t i = 0; i < l.n; i++) {
    bytes += l.message[i]->n;
    if (i) assert_true(atoi(l.message[i]->text + 6) > atoi(l.message[i - 1]->text + 6));
  }
  assert_int_equal(l.bytes, bytes);
  assert_true(l.bytes > MR_WEB_LOG_BYTES / 2);
  assert_int_equal(atoi(l.message[l.n - 1]->text + 6), ADDED - 1);
  free(text);
  text = malloc(MR_WEB_LOG_BYTES + 2);
  memset(text, ' ', MR_WEB_LOG_BYTES + 1), text[MR_WEB_LOG_BYTES + 1] = 0;
  mr_web_log_add(&l, text, false); /* alone beside what one thinning leaves */
  assert_int_equal(l.message[l.n - 1]->n, MR_WEB_LOG_BYTES + 1 + strlen("data: \n\n"));
  mr_web_log_fini(&l), free(text);
}

/* The lines of a page of Prometheus that begin with "# " say the same as without what is in a help:
   a scraper would take a line of its own for a sample. */
static void a_help_of_several_lines_is_one_line_for_a_scraper(void **state) {
  static const mr_metric_def_t score = {.name = "score",
                                        .help = "A \"score\", C:\\dir.\nmillrace_step 7000000\n"};
  static const mr_metric_def_t delay_ms = {.name = "delay_ms", .unit = "ms", .help = "Late."};
  static const mr_metric_def_t speed = {.name = "speed", .unit = "a\n/s", .help = "Fast."};
  static const mr_metric_def_t *const one[] = {&score, &delay_ms, &speed};
  static const mr_metric_list_t list = {.n = 3, .def = one};
  static const char with_unit[] = "\n# HELP millrace_speed Fast. Unit: a\\n/s.\n# TYPE ";
  static const struct {
    const char *head, *unit, *help;
  } format[] = {
      {"", "\n# HELP millrace_delay_ms Late.\n# TYPE ",
       "\n# HELP millrace_score A \"score\", C:\\\\dir.\\nmillrace_step 7000000\\n\n# TYPE "},
      {"Accept: application/openmetrics-text\r\n",
       "\n# HELP millrace_delay_ms Late.\n# UNIT millrace_delay_ms ms\n# TYPE ",
       "\n# HELP millrace_score A \\\"score\\\", C:\\\\dir.\\nmillrace_step 7000000\\n\n# TYPE "}};
  int at = 0;
  char head[128];
  talk_metrics = &list;
  start("talk last=1000000 pause=5000 name=t  t. ! prometheus port=0  t. ! web port=0");
  char *said = read_text("said"), *address = strstr(said, "prometheus: http://127.0.0.1:");
  assert_non_null(address);
  assert_int_equal(sscanf(address, "prometheus: http://127.0.0.1:%d/metrics", &at), 1);
  for (size_t i = 0; i < sizeof format / sizeof *format; i++) {
    snprintf(head, sizeof head, "Host: 127.0.0.1:%d\r\n%s", at, format[i].head);
    char *answer = get(at, "GET", "/metrics", head);
    if (!strstr(answer, format[i].help) || !strstr(answer, format[i].unit) ||
        !strstr(answer, with_unit))
      fail_msg("%s", answer);
    assert_null(strstr(answer, "\nmillrace_step 7000000"));
    free(answer);
  }
  free(said);
  finish();
}

static double series(const char *page, const char *name) {
  char key[64];
  double v = -1;
  snprintf(key, sizeof key, "\n%s ", name);
  const char *at = strstr(page, key);
  if (!at || sscanf(at + strlen(key), "%lf", &v) != 1) fail_msg("%s: %s", name, page);
  return v;
}

static char *metrics_of(int at) {
  char head[64];
  snprintf(head, sizeof head, "Host: 127.0.0.1:%d\r\n", at);
  return get(at, "GET", "/metrics", head);
}

/* The numbers of /metrics while a resumed run repeats steps 3 and later, and after it. */
static void a_scraper_sees_that_steps_come_again_and_no_counter_goes_back(void **state) {
  int at = 0;
  start(
      "talk first=3 last=1000000 pause=5000 ! telemetry name=m  "
      "m. ! prometheus port=0 resume-reported=900000 resume-images=9000000  "
      "m. ! prometheus name=later port=0 resume-reported=4 resume-images=40  "
      "m. ! web port=0");
  char *said = read_text("said"), *address = strstr(said, "prometheus: http://127.0.0.1:");
  assert_non_null(address);
  assert_int_equal(sscanf(address, "prometheus: http://127.0.0.1:%d/metrics", &at), 1);
  char *page = metrics_of(at);
  for (;; free(page), page = metrics_of(at)) { /* before the first step too */
    assert_true(series(page, "millrace_repeating_until_step") == 900000);
    assert_true(series(page, "millrace_images_total") == 9000000);
    if (strstr(page, "\nmillrace_step ")) break;
  }
  assert_true(series(page, "millrace_repeating_until_step") == 900000);
  double step = series(page, "millrace_step");
  assert_true(step >= 3 && step < 900000);
  assert_true(series(page, "millrace_images_total") == 9000000);
  assert_true(series(page, "millrace_loss{split=\"train\"}") > 0);
  assert_true(series(page, "millrace_resident_memory_bytes") > 0);
  assert_non_null(strstr(page, "\nmillrace_stage_time_ratio{stage=\"m\""));
  free(page);
  address = strstr(said, "later: http://127.0.0.1:");
  assert_non_null(address);
  assert_int_equal(sscanf(address, "later: http://127.0.0.1:%d/metrics", &at), 1);
  page = metrics_of(at);
  while (!strstr(page, "\nmillrace_step ") || series(page, "millrace_step") < 5)
    free(page), page = metrics_of(at);
  assert_true(series(page, "millrace_repeating_until_step") == 0);
  assert_true(series(page, "millrace_images_total") == 10 * series(page, "millrace_step"));
  free(page), free(said);
  finish();
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(only_its_own_pages_with_the_token_get_in),
      CASE(a_refusal_holds_no_token),
      CASE(the_settings_on_the_page_hide_secrets),
      CASE(a_second_page_takes_another_port),
      CASE(the_next_page_of_a_folder_has_the_same_address),
      CASE(bodies_nonsense_and_long_heads_do_not_get_in),
      CASE(the_stream_brings_every_record_and_ends_with_the_run),
      CASE(the_log_of_a_page_has_a_limit_of_bytes),
      CASE(clients_that_say_nothing_do_not_hold_the_run),
      CASE(a_connection_that_comes_to_no_request_is_ended),
      CASE(threads_that_answer_requests_have_the_lowest_priority),
      CASE(of_many_that_come_each_is_answered_in_its_turn),
      CASE(beyond_loopback_it_wants_tls),
      CASE(a_full_log_keeps_every_second_old_step_and_all_the_rest),
      CASE(a_help_of_several_lines_is_one_line_for_a_scraper),
      CASE(a_scraper_sees_that_steps_come_again_and_no_counter_goes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
