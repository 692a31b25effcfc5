/* What watches training cannot hold it up: sinks whose reader stands still, a full disk; and what
   telemetry adds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/sinks/talk.h"

static const mr_stage_def_t *const own[] = {&talk_def, NULL};
static int setup(void **state) { return talk_setup(own); }
static int teardown(void **state) {
  talk_before = NULL;
  return talk_teardown();
}

/* ---- a reader that is stopped until the run's last words ---- */

static pid_t reader;
static int hold; /* keeps the pipe open until the run is over */
static double count_steps_done;

static void wake_reader_for_the_last_words(mr_report_t *r) {
  if (r->kind == MR_REPORT_TEST) count_steps_done = mr_now_s();
  if (r->kind == MR_REPORT_FINAL) kill(reader, SIGCONT);
}

static void start_stopped_reader(const char *fifo) {
  char out[96];
  int status;
  snprintf(out, sizeof out, "%s/read", dir);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  reader = fork();
  if (reader == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no process behind */
    int in = open(fifo, O_RDONLY), to = open(out, O_WRONLY | O_CREAT, 0600);
    dup2(in, 0), dup2(to, 1);
    execlp("cat", "cat", (char *)NULL);
    _exit(127);
  }
  int fd = hold = open(fifo, O_WRONLY); /* returns once the reader has it open too */
  kill(reader, SIGSTOP);
  assert_int_equal(waitpid(reader, &status, WUNTRACED), reader);
  assert_true(WIFSTOPPED(status));
  /* The pipe is full before the run begins, so that the sink can write nothing. */
  fcntl(fd, F_SETFL, O_NONBLOCK);
  char spaces[4096];
  memset(spaces, '\n', sizeof spaces);
  while (write(fd, spaces, sizeof spaces) > 0) {
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void a_stopped_reader_blocks_no_writer_and_gets_the_final_values(void **state) {
  char fifo[96], text[256];
  int status;
  mr_diag_t diag;
  snprintf(fifo, sizeof fifo, "%s/fifo", dir);
  start_stopped_reader(fifo);
  talk_before = wake_reader_for_the_last_words;
  snprintf(text, sizeof text, "talk last=20000 ! telemetry ! jsonl path=%s", fifo);
  double t0 = mr_now_s();
  count_steps_done = 0;
  assert_int_equal(run(text, &diag), MR_OK);
  assert_true(count_steps_done > t0); /* every step was given while the reader stood still */
  close(hold);                        /* the last writer: the reader takes what is left and ends */
  assert_int_equal(waitpid(reader, &status, 0), reader);
  char *got = read_text("read");
  const char *last = strstr(got, "\"kind\":\"final\"");
  assert_non_null(last);
  assert_non_null(strstr(last, "\"step\":20000"));
  assert_non_null(strstr(got, "\"kind\":\"test\""));
  free(got);
}

/* ---- a disk that is full for a while ---- */

static void give_room_at_the_end(mr_report_t *r) {
  struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
  if (r->kind != MR_REPORT_FINAL) return;
  getrlimit(RLIMIT_FSIZE, &any);
  any.rlim_cur = any.rlim_max;
  setrlimit(RLIMIT_FSIZE, &any);
}

static void a_disk_that_gets_room_again_gets_every_line_whole_and_in_order(void **state) {
  char text[192];
  mr_diag_t diag;
  struct rlimit old, small;
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &old);
  small = (struct rlimit){1500, old.rlim_max}; /* in the middle of a line */
  setrlimit(RLIMIT_FSIZE, &small);
  talk_before = give_room_at_the_end;
  snprintf(text, sizeof text, "talk last=60 ! jsonl path=%s/m", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  setrlimit(RLIMIT_FSIZE, &old);
  char *got = read_text("m"), *save = NULL;
  int64_t n = 0;
  for (char *line = strtok_r(got, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    if (!j) fail_msg("not JSON: %s", line);
    if (++n <= 60) assert_true(cJSON_GetNumberValue(cJSON_GetObjectItem(j, "step")) == (double)n);
    cJSON_Delete(j);
  }
  assert_int_equal(n, 62);
  free(got);
}

/* ---- what telemetry adds ---- */

static const cJSON *at(const cJSON *j, const char *key) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);
  if (!v) fail_msg("no %s", key);
  return v;
}

static void every_measured_record_tells_stages_quantiles_and_the_process(void **state) {
  char text[192];
  mr_diag_t diag;
  snprintf(text, sizeof text,
           "talk last=150 pause=2000 name=source ! telemetry every=0.001 ! jsonl path=%s/m", dir);
  assert_int_equal(run(text, &diag), MR_OK);
  char *got = read_text("m"), *last = strstr(got, "{\"kind\":\"final\"");
  cJSON *j = cJSON_Parse(last);
  const cJSON *source = at(at(j, "stages"), "source");
  double busy = at(source, "busy")->valuedouble, starved = at(source, "starved")->valuedouble,
         blocked = at(source, "blocked")->valuedouble;
  assert_true(busy + starved + blocked > .99 && busy + starved + blocked < 1.01);
  assert_true(busy > .5); /* it sleeps in its own step */
  assert_true(at(at(at(j, "stages"), "jsonl"), "items")->valuedouble >= 1);
  assert_true(at(j, "rss_bytes")->valuedouble > 1e5);
  assert_true(at(j, "disk_free_bytes")->valuedouble > 0);
  assert_true(at(j, "cpu_cores")->valuedouble >= 0);
  assert_true(at(j, "telemetry_lost")->valuedouble == 0);
  double p50 = at(j, "step_p50_s")->valuedouble;
  assert_true(p50 == 0.5); /* what talk says a step took */
  assert_true(at(j, "step_p99_s")->valuedouble >= p50);
  cJSON_Delete(j);
  free(got);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_stopped_reader_blocks_no_writer_and_gets_the_final_values),
      CASE(a_disk_that_gets_room_again_gets_every_line_whole_and_in_order),
      CASE(every_measured_record_tells_stages_quantiles_and_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
