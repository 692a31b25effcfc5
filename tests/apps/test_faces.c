/* One run, all its faces: the same numbers at one step, and one line after a kill and a resume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/feature.h"
#include "base/xio.h"
#include "tests/apps/program.h"

static char dir[64], run[96];
static program_t p;

#define SMALL \
  "train.layers=1", "train.embed=32", "train.heads=2", "train.mlp=32", "batch=16", "seed=12"

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-faces-XXXXXX");
  setenv("OMP_NUM_THREADS", "1", 1); /* small steps on a busy machine: no barriers */
  if (!mkdtemp(dir)) return -1;
  snprintf(run, sizeof run, "%s/r", dir);
  return 0;
}

static int teardown(void **state) { return program_forget(dir); }

/* ---- a run in the background ---- */

static FILE *out, *err;
static pid_t pid;

static void start(const char *const *words) {
  out = tmpfile(), err = tmpfile();
  pid = program_start(words, out, err);
  assert_true(pid > 0);
}

/* What follows "NAME: " in what the run has printed. */
static void address(const char *name, char *text, size_t n) {
  char said[8192] = "", key[32];
  snprintf(key, sizeof key, "%s: ", name);
  for (int i = 0; i < 12000; i++) {
    ssize_t k = pread(fileno(out), said, sizeof said - 1, 0);
    said[k > 0 ? k : 0] = 0;
    char *at = strstr(said, key);
    if (at && strchr(at, '\n')) {
      snprintf(text, n, "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
      return;
    }
    usleep(10000);
  }
  fail_msg("%s has no address: %s", name, said);
}

static int end_with(int signo) {
  int status;
  if (signo) kill(pid, signo);
  waitpid(pid, &status, 0);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The body and head of an answer (heap), NULL without a server; heard is called with its first
   bytes, if not NULL. */
static char *get_and_tell(const char *url, void (*heard)(void)) {
  int port = 0, n;
  char path[512] = "", text[1024], *answer = NULL;
  size_t have = 0, cap = 0;
  assert_int_equal(sscanf(url, "http://127.0.0.1:%d%511s", &port, path), 2);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  n = snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n\r\n", path, port);
  if (connect(fd, (struct sockaddr *)&a, sizeof a) || send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
    return close(fd), NULL;
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

static char *get(const char *url) {
  char *answer = get_and_tell(url, NULL);
  if (!answer) fail_msg("nobody answers at %s", url);
  return answer;
}

/* ---- what a face says of a step ---- */

typedef struct seen {
  int step;
  double loss;
} seen_t;

/* The loss of a step in metrics.jsonl, or -1. */
static double file_loss(int step) {
  char path[128], *save = NULL;
  void *text;
  size_t n;
  double loss = -1;
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  if (access(path, F_OK)) return -1; /* not yet */
  assert_int_equal(mr_read_file(path, 1 << 26, &text, &n, NULL), MR_OK);
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(j, "kind"));
    if (kind && !strcmp(kind, "step") &&
        cJSON_GetNumberValue(cJSON_GetObjectItem(j, "step")) == step)
      loss = cJSON_GetNumberValue(cJSON_GetObjectItem(j, "loss"));
    cJSON_Delete(j);
  }
  free(text);
  return loss;
}

static void agrees(const char *face, seen_t s, double within) {
  double loss = -1;
  for (int i = 0; i < 12000 && loss < 0; i++, usleep(10000)) loss = file_loss(s.step);
  if (s.step < 1 || loss < 0 || s.loss < loss - within || s.loss > loss + within)
    fail_msg("%s says loss %.9g at step %d, metrics.jsonl %.9g", face, s.loss, s.step, loss);
}

static seen_t by_prometheus(const char *url) {
  seen_t s = {0};
  char *page = get(url), *at = strstr(page, "\nmillrace_step ");
  if (at) sscanf(at, "\nmillrace_step %d", &s.step);
  at = strstr(page, "millrace_loss{split=\"train\"} ");
  if (at) sscanf(at, "millrace_loss{split=\"train\"} %lf", &s.loss);
  free(page);
  return s;
}

static seen_t by_top(const char *where) {
  seen_t s = {0};
  const char *words[] = {"top", "--once", where, NULL};
  program_run(&p, words);
  if (p.status) fail_msg("top: %s", p.err);
  const char *at = strstr(p.out, "step ");
  if (at) sscanf(at, "step %d", &s.step);
  at = strstr(p.out, "loss ");
  if (at) sscanf(at, "loss %lf", &s.loss);
  return s;
}

/* ---- the page's stream, read to its end by a process of its own ---- */

static int reading[2];

static void tell_that_it_reads(void) { (void)!write(reading[1], "x", 1); }

/* Returns when it reads: a run may end then, and its last words come.  -1: the run was over. */
static pid_t read_events(const char *url) {
  char at[320], path[96], byte;
  snprintf(at, sizeof at, "%.*sevents%s", (int)strcspn(url, "?"), url, strchr(url, '?'));
  snprintf(path, sizeof path, "%s/events", dir);
  assert_int_equal(pipe(reading), 0);
  pid_t reader = fork();
  if (reader == 0) {
    char *text = get_and_tell(at, tell_that_it_reads);
    _exit(!text || mr_write_file(path, text, strlen(text), NULL) < 0);
  }
  close(reading[1]);
  bool reads = read(reading[0], &byte, 1) == 1;
  close(reading[0]);
  if (!reads) waitpid(reader, NULL, 0);
  return reads ? reader : -1;
}

static char *events_of(pid_t reader) {
  char path[96];
  int status;
  void *text;
  size_t n;
  waitpid(reader, &status, 0);
  assert_int_equal(status, 0);
  snprintf(path, sizeof path, "%s/events", dir);
  assert_int_equal(mr_read_file(path, 1 << 26, &text, &n, NULL), MR_OK);
  return text;
}

static const char step_event[] = "data: {\"kind\":\"step\",";

static void last_event(const char *events, seen_t *s) {
  for (const char *at = events; (at = strstr(at, step_event)); at++) {
    const char *loss = strstr(at, "\"loss\":");
    assert_int_equal(sscanf(at + strlen(step_event), "\"step\":%d,", &s->step), 1);
    assert_int_equal(sscanf(loss, "\"loss\":%lf", &s->loss), 1);
  }
}

static void every_face_says_the_same_of_a_step(void **state) {
  char prometheus[256], web[256];
  const char *words[] = {"train",      "--run-dir",         run,           "--prometheus", "--web",
                         "web.port=0", "prometheus.port=0", "epochs=1000", SMALL,          NULL};
  start(words);
  address("prometheus", prometheus, sizeof prometheus);
  address("web", web, sizeof web);
  seen_t s = {0};
  for (int i = 0; i < 12000 && s.step < 25; i++, usleep(10000)) s = by_prometheus(prometheus);
  agrees("prometheus", s, 1e-6);
  agrees("top, of the folder", by_top(run), 6e-5);
  agrees("top, of the page", by_top(web), 6e-5);
  pid_t reader = read_events(web);
  assert_true(reader > 0);
  assert_int_equal(end_with(SIGINT), 130);
  char *events = events_of(reader);
  last_event(events, &s);
  agrees("the page", s, 1e-9);
  free(events);
  const char *at = p.out, *line;
  int lines = 0;
  for (; (line = strstr(at, "\nStep ")); at = line + 1, lines++) {
    assert_int_equal(sscanf(line, "\nStep %d, Loss: %lf", &s.step, &s.loss), 2);
    agrees("progress", s, 6e-5);
    if (lines == 3) break;
  }
  assert_true(lines > 0);
}

/* Every step once and in order, from the first on: no zig-zag. */
static void one_line(const char *face, const char *text, const char *key, int from, int steps) {
  int step, want = from;
  for (const char *at = text; (at = strstr(at, key)); at += strlen(key)) {
    if (sscanf(at + strlen(key), "%d", &step) != 1 || step != want++)
      fail_msg("%s: step %d, want %d", face, step, want - 1);
  }
  if (want != steps + 1) fail_msg("%s ends before step %d, want %d", face, want, steps);
}

static int last_step(void) {
  int step = 0;
  while (file_loss(step + 1) >= 0) step++;
  return step;
}

static void after_a_kill_and_a_resume_every_face_shows_one_line(void **state) {
  char web[256], path[128], until[64];
  void *text;
  size_t n;
  int steps;
  pid_t reader = -1;
  const char *words[] = {
      "train", "--run-dir", run, "--web", "web.port=0", "epochs=1000", "train.checkpoint-every=10",
      SMALL,   NULL};
  start(words);
  address("web", web, sizeof web);
  for (int i = 0; i < 12000 && file_loss(37) < 0; i++) usleep(10000);
  assert_int_equal(end_with(SIGKILL), -SIGKILL);
  const char *again[] = {"train", "--run-dir", run, "--resume", until, NULL};
  for (steps = last_step(); reader < 0;) { /* once more, if the reader came too late */
    snprintf(until, sizeof until, "--steps=%d", steps += 50);
    start(again);
    address("web", web, sizeof web);
    reader = read_events(web);
    assert_int_equal(end_with(0), 0);
  }
  char *events = events_of(reader);
  one_line("the page", events, "data: {\"kind\":\"step\",\"step\":", 1, steps);
  free(events);
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  assert_int_equal(mr_read_file(path, 1 << 26, &text, &n, NULL), MR_OK);
  one_line("metrics.jsonl", text, "{\"kind\":\"step\",\"step\":", 1, steps);
  free(text);
  seen_t s = by_top(run);
  assert_int_equal(s.step, steps);
  snprintf(path, sizeof path, "%s/versions.json", run); /* what the run was made with */
  assert_int_equal(mr_read_file(path, 1 << 16, &text, &n, NULL), MR_OK);
  cJSON *j = cJSON_Parse(text);
  assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(j, "libraries"), "oneDNN"));
  cJSON_Delete(j);
  free(text);
}

/* A picture that is neither the first field nor the only one.  Those of step 1 stay, as no others
   come. */
static void the_page_tells_every_field_and_shows_the_picture_among_them(void **state) {
  static const char graph[] =
      "synthetic n=64 ! zip.a  range 64 ! zip.b  zip prefix=,n. name=zip ! normalize ! shuffle "
      "epochs=0 ! select n.value,label,image ! batch 8 ! train-step name=train model=vit layers=1 "
      "embed=32 heads=2 mlp=32 watch-every=1000000  train.metrics ! telemetry ! web port=0 "
      "name=web";
  char web[256], at[512], *answer;
  start((const char *const[]){"run", graph, NULL});
  address("web", web, sizeof web);
  const char *token = strstr(web, "?token=");
  assert_non_null(token);
  snprintf(at, sizeof at, "%.*srun.json%s", (int)(token - web), web, token);
  answer = get(at);
  assert_non_null(strstr(
      answer, "\"fields\":[\"n.value i64[8]\",\"label i32[8]\",\"image f32[8,32,32,3] HWC\"]"));
  free(answer);
  if (mr_built_in("PNG")) {
    bool there = false;
    snprintf(at, sizeof at, "%.*spicture/0%s", (int)(token - web), web, token);
    for (int i = 0; !there && i < 3000; i++, usleep(10000)) {
      answer = get(at);
      there = strstr(answer, " 200 ") && strstr(answer, "image/png");
      free(answer);
    }
    assert_true(there);
  }
  end_with(SIGINT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_page_tells_every_field_and_shows_the_picture_among_them),
      cmocka_unit_test_setup_teardown(every_face_says_the_same_of_a_step, setup, teardown),
      cmocka_unit_test_setup_teardown(after_a_kill_and_a_resume_every_face_shows_one_line, setup,
                                      teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
