/* millrace top in a real terminal, tmux's, and what it says without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

static char dir[64];
static program_t p;
static pid_t page; /* a run with a page; 0: none */

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-top-XXXXXX");
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
  char command[256];
  if (page > 0) kill(page, SIGKILL), program_wait(page);
  page = 0;
  snprintf(command, sizeof command, "tmux -S %s/tmux kill-server 2>/dev/null", dir);
  (void)!system(command);
  return program_forget(dir);
}

static void add_line(const char *text) {
  char path[96];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  FILE *f = fopen(path, "a");
  fputs(text, f);
  fclose(f);
}

static void add_step(int step, double loss) {
  char text[512];
  snprintf(text, sizeof text,
           "{\"kind\":\"step\",\"step\":%d,\"total_steps\":100,\"epoch\":1,\"loss\":%.4f,"
           "\"accuracy\":0.5,\"images_per_s\":80.5,\"cpu_cores\":1.5,\"stages\":{\"train\":{"
           "\"busy\":0.75,\"starved\":0.25,\"blocked\":0,\"queue\":2},\"to-x\":{\"released\":12,"
           "\"committed\":10}}}\n",
           step, loss);
  add_line(text);
}

/* Until the terminal shows want and not without (NULL: whatever else).  A frame that is looked at
   while it is drawn still has parts of the one before. */
static void screen_has(const char *want, const char *without) {
  static char text[1 << 14];
  char command[256];
  for (int i = 0; i < 6000; i++) {
    snprintf(command, sizeof command, "tmux -S %s/tmux capture-pane -p 2>/dev/null", dir);
    FILE *f = popen(command, "r");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    pclose(f);
    if (strstr(text, want) && (!without || !strstr(text, without))) return;
    usleep(20000);
  }
  fail_msg("the terminal never shows \"%s\" without \"%s\": %s", want, without ? without : "",
           text);
}

static void screen_with(const char *want) { screen_has(want, NULL); }

static void tmux(const char *words) {
  char command[800];
  snprintf(command, sizeof command, "tmux -S %s/tmux %s", dir, words);
  assert_int_equal(system(command), 0);
}

/* In CI it is installed, so that nothing is left out unseen. */
static bool has_tmux(void) {
  if (!system("command -v tmux >/dev/null 2>&1")) return true;
  if (getenv("CI")) fail_msg("tmux is not installed");
  return false;
}

static void it_follows_a_run_and_leaves_on_q(void **state) {
  NEEDS("NCURSES");
  char words[512], path[96];
  if (!has_tmux()) skip();
  for (int i = 1; i <= 40; i++) add_step(i, 3 - 0.05 * i);
  snprintf(words, sizeof words,
           "-f /dev/null new-session -d -x 130 -y 40 '%s top %s; echo left with $? > %s/part; "
           "mv %s/part %s/left'",
           MR_PROGRAM, dir, dir, dir, dir);
  tmux(words);
  screen_with("step 40/100");
  screen_with("loss 1.0000");
  screen_with("train             75.0% busy  25.0% starved");
  screen_with("to-x             released up to 12, committed up to 10");
  screen_with("##########");
  screen_with("  2.9500"); /* the curve's ends */
  screen_with("****");
  add_step(41, 0.9);
  add_line("{\"kind\":\"valid\",\"step\":41,\"loss\":0.8,\"accuracy\":0.625}\n");
  screen_with("step 41/100");
  screen_with("loss 0.9000");
  screen_with("valid at step 41");
  screen_with("accuracy 0.6250");
  add_line("{\"kind\":\"final\",\"step\":41,\"note\":\"stopped on request\"}\n");
  screen_with("stopped on request");
  tmux("resize-window -x 60 -y 12"); /* too small for all of it */
  screen_with("step 41/100");
  tmux("send-keys q");
  snprintf(path, sizeof path, "%s/left", dir);
  for (int i = 0; i < 12000 && access(path, F_OK); i++) usleep(10000);
  void *left;
  size_t n;
  assert_int_equal(mr_read_file(path, 100, &left, &n, NULL), MR_OK);
  assert_string_equal(left, "left with 0\n");
  free(left);
}

static void after_a_resume_it_forgets_what_was_cut(void **state) {
  NEEDS("NCURSES");
  char words[512], path[96], part[96];
  if (!has_tmux()) skip();
  for (int i = 1; i <= 40; i++) add_step(i, 3);
  snprintf(words, sizeof words, "-f /dev/null new-session -d -x 130 -y 40 '%s top %s'", MR_PROGRAM,
           dir);
  tmux(words);
  screen_with("step 40/100");
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  snprintf(part, sizeof part, "%s/old", dir);
  assert_int_equal(rename(path, part), 0);
  for (int i = 1; i <= 30; i++) add_step(i, 2);
  screen_has("step 30/100", "3.0000");
}

static void forty_columns_show_every_number(void **state) {
  NEEDS("NCURSES");
  char words[512];
  if (!has_tmux()) skip();
  for (int i = 1; i <= 40; i++) add_step(i, 3 - 0.05 * i);
  snprintf(words, sizeof words, "-f /dev/null new-session -d -x 40 -y 40 '%s top %s'", MR_PROGRAM,
           dir);
  tmux(words);
  screen_with("80.5 images/s");
  screen_with("p99 nan s");
  screen_with("lost records");
  screen_with("stage            busy starv block   wait");
  screen_with("train             75%   25%    0%    2.0");
  screen_with("to-x             released up to 12,\n  committed up to 10");
}

/* ---- a live page ---- */

/* A run with a page, until teardown; its address in url. */
static void begin_page(char url[128]) {
  char graph[512], path[96];
  snprintf(
      graph, sizeof graph,
      "synthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 drop-remainder ! vit-step "
      "name=t layers=1 embed=16 mlp=16 heads=2 patch=8 threads=1 steps=1000000 t.metrics ! web "
      "port=0 run=%s",
      dir);
  snprintf(path, sizeof path, "%s/web.url", dir);
  FILE *said = tmpfile();
  page = program_start((const char *const[]){"run", graph, NULL}, said, said);
  fclose(said);
  for (int i = 0; i < 12000 && access(path, F_OK); i++) usleep(10000);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(url, 128, f));
  fclose(f);
  url[strcspn(url, "\n")] = 0;
}

static void a_page_is_read_without_its_token_on_the_command_line(void **state) {
  NEEDS("CURL MICROHTTPD");
  char url[128], path[96], base[128];
  begin_page(url);
  const char *token = strstr(url, "token=") + strlen("token=");
  snprintf(path, sizeof path, "%s/web.url", dir);
  RUN(&p, "top", path, "--once");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "loss "));
  assert_null(strstr(p.out, token));
  snprintf(base, sizeof base, "%.*s", (int)(strchr(url, '?') - url), url);
  RUN(&p, "top", base, "--once");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "MILLRACE_TOKEN"));
  setenv("MILLRACE_TOKEN", token, 1);
  RUN(&p, "top", base, "--once");
  unsetenv("MILLRACE_TOKEN");
  assert_int_equal(p.status, 0);
  RUN(&p, "top", url, "--once"); /* as it always was */
  assert_int_equal(p.status, 0);
}

static void a_token_on_the_command_line_is_hidden(void **state) {
  NEEDS("CURL MICROHTTPD NCURSES");
  char url[128], words[512], text[64], line[512] = "";
  if (!has_tmux()) skip();
  begin_page(url);
  snprintf(words, sizeof words, "-f /dev/null new-session -d -x 130 -y 40 \"exec %s top '%s'\"",
           MR_PROGRAM, url);
  tmux(words);
  screen_with("gradient norm");
  screen_has("running", strstr(url, "token=") + strlen("token="));
  snprintf(words, sizeof words, "tmux -S %s/tmux display-message -p '#{pane_pid}'", dir);
  FILE *f = popen(words, "r");
  assert_non_null(fgets(text, sizeof text, f));
  pclose(f);
  snprintf(words, sizeof words, "/proc/%d/cmdline", atoi(text));
  f = fopen(words, "r");
  size_t n = fread(line, 1, sizeof line - 1, f);
  fclose(f);
  for (size_t i = 0; i + 1 < n; i++) line[i] = line[i] ? line[i] : ' ';
  assert_non_null(strstr(line, "token=********************************"));
}

static void without_a_terminal_it_says_what_to_do(void **state) {
  add_step(7, 1.25);
  RUN(&p, "top", dir);
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "--once"));
  RUN(&p, "top", dir, "--once");
  assert_int_equal(p.status, 0);
  assert_non_null(
      strstr(p.out, "step 7/100  epoch 1  loss 1.2500  accuracy 0.5000  80.5 images/s"));
  add_line("{\"kind\":\"step\",\"step\":8,\"total_steps\":0,\"epoch\":2,\"loss\":1}\n");
  RUN(&p, "top", dir, "--once");
  assert_non_null(strstr(p.out, "step 8  epoch 2  loss 1.0000")); /* of an endless stream */
  RUN(&p, "top", "/nowhere", "--once");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "/nowhere: holds no metrics.jsonl"));
  RUN(&p, "top", "http://127.0.0.1:1/", "--once");
  assert_int_equal(p.status, 1);
}

static void a_model_is_shown_by_what_it_is_judged_by(void **state) {
  add_line(
      "{\"kind\":\"step\",\"step\":8,\"total_steps\":9,\"epoch\":1,\"loss\":0.5,"
      "\"mean_error\":0.125,\"lr\":1e-3,\"images_per_s\":80.5}\n"
      "{\"kind\":\"valid\",\"step\":8,\"loss\":0.25,\"mean_error\":null,\"records\":64}\n"
      "{\"kind\":\"test\",\"step\":8,\"loss\":0.25,\"records\":64}\n");
  RUN(&p, "top", dir, "--once");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "loss 0.5000  mean error 0.1250  80.5 images/s"));
  assert_non_null(strstr(p.out, "valid at step 8: loss 0.2500, mean error nan\n"));
  assert_non_null(strstr(p.out, "test at step 8: loss 0.2500\n"));
  assert_null(strstr(p.out, "accuracy"));
  add_line("{\"kind\":\"step\",\"step\":9,\"total_steps\":9,\"epoch\":1,\"skipped\":1}\n");
  RUN(&p, "top", dir, "--once");
  assert_non_null(strstr(p.out, "step 9/9  epoch 1  loss 0.5000  mean error 0.1250"));
}

static void skipped_steps_are_shown_once_there_are_any(void **state) {
  add_line(
      "{\"kind\":\"step\",\"step\":8,\"epoch\":1,\"loss\":0.5,\"lr\":1,\"skipped_steps\":0}\n");
  RUN(&p, "top", dir, "--once");
  assert_null(strstr(p.out, "skipped"));
  add_line(
      "{\"kind\":\"step\",\"step\":9,\"epoch\":1,\"loss\":0.5,\"lr\":1,\"skipped_steps\":3}\n");
  RUN(&p, "top", dir, "--once");
  assert_non_null(strstr(p.out, "\nsteps skipped as not finite: 3\n"));
}

static void metrics_that_are_no_regular_file_are_not_waited_for(void **state) {
  char path[96];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  assert_int_equal(mkfifo(path, 0600), 0);
  RUN(&p, "top", dir, "--once");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "regular file"));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink("/dev/zero", path), 0);
  RUN(&p, "top", dir, "--once");
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "regular file"));
}

static void a_line_without_end_is_passed_over(void **state) {
  char path[96];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  add_step(6, 0.75);
  FILE *f = fopen(path, "a");
  for (int i = 0; i < 17 << 10; i++) fprintf(f, "%1024d", i);
  fputc('\n', f);
  fclose(f);
  add_step(7, 0.5);
  RUN(&p, "top", dir, "--once");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "step 7/100"));
}

/* ---- pages that never say what they have ---- */

/* Serves one connection in a process of its own: an answer's head, then `part` again and again, in
   pieces of 64 KiB. */
static pid_t serve_page(const char *part, int *port) {
  struct sockaddr_in a = {.sin_family = AF_INET};
  socklen_t size = sizeof a;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_true(!bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 8) &&
              !getsockname(fd, (struct sockaddr *)&a, &size));
  *port = ntohs(a.sin_port);
  pid_t pid = fork();
  if (pid == 0) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    static char many[64 << 10];
    size_t n = 0, each = strlen(part);
    for (; each && n + each <= sizeof many; n += each) memcpy(many + n, part, each);
    int c = accept(fd, NULL, NULL);
    bool resume = send(c, head, strlen(head), MSG_NOSIGNAL) > 0;
    while (resume && n) resume = send(c, many, n, MSG_NOSIGNAL) > 0;
    char none;
    while (resume && recv(c, &none, 1, 0) > 0) continue; /* says nothing until the other leaves */
    _exit(0);
  }
  close(fd);
  return pid;
}

/* On a machine that is too slow to read 16 MiB in the seconds that top waits, the line's length is
   not what it is left for. */
static void a_page_without_end_is_left(void **state) {
  NEEDS("CURL");
  static const char waited[] = "no record of a run";
  static const char *const row[][2] = {
      {"", waited},
      {"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
       "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
       "a line of more than"},
      {": a comment that is no record\n", waited},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int port;
    char url[64];
    pid_t server = serve_page(row[i][0], &port);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/?token=x", port);
    RUN(&p, "top", "--once", url);
    if (!p.status || (!strstr(p.err, row[i][1]) && !strstr(p.err, waited)))
      fail_msg("%zu: %d %s", i, p.status, p.err);
    assert_int_equal(program_wait(server), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(it_follows_a_run_and_leaves_on_q, setup, teardown),
      cmocka_unit_test_setup_teardown(after_a_resume_it_forgets_what_was_cut, setup, teardown),
      cmocka_unit_test_setup_teardown(forty_columns_show_every_number, setup, teardown),
      cmocka_unit_test_setup_teardown(a_page_is_read_without_its_token_on_the_command_line, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_token_on_the_command_line_is_hidden, setup, teardown),
      cmocka_unit_test_setup_teardown(without_a_terminal_it_says_what_to_do, setup, teardown),
      cmocka_unit_test_setup_teardown(a_model_is_shown_by_what_it_is_judged_by, setup, teardown),
      cmocka_unit_test_setup_teardown(skipped_steps_are_shown_once_there_are_any, setup, teardown),
      cmocka_unit_test_setup_teardown(metrics_that_are_no_regular_file_are_not_waited_for, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_line_without_end_is_passed_over, setup, teardown),
      cmocka_unit_test(a_page_without_end_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
