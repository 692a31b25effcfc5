/* Alerts, each by causing it; and what goes out over ZeroMQ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <sys/socket.h>
#include <zmq.h>

#include "tests/needs.h"
#include "tests/port.h"
#include "tests/sinks/talk.h"

/* ---- a training stage that waits for its data ---- */

static mr_err_t drip_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}

typedef struct drip {
  int64_t n;
} drip_t;

static mr_err_t drip_step(mr_stage_t *s) {
  drip_t *d = s->state;
  mr_buf_t *b;
  if (d->n++ == 30) return MR_END;
  usleep(5000);
  mr_err_t e = mr_fresh(s, 0, &b);
  return e != MR_OK ? e : mr_push(s, 0, b);
}

static const mr_stage_def_t drip_def = {
    .name = "drip",
    .help = "Gives bytes, slowly.",
    .out = {{.name = "out", .flow = MR_FLOW_BYTES}},
    .state_sz = sizeof(drip_t),
    .plan = drip_plan,
    .step = &(const mr_step_def_t){.run = drip_step},
};

static mr_err_t hungry_step(mr_stage_t *s) {
  mr_buf_t *in, *out;
  mr_err_t e = mr_pull(s, 0, &in);
  if (e != MR_OK) return e;
  mr_buf_unref(in);
  if ((e = mr_fresh(s, 0, &out)) != MR_OK) return e;
  mr_report_t *r = out->data;
  mr_report_begin(r, MR_REPORT_STEP);
  r->step = out->seq + 1;
  mr_report_add(r, MR_METRIC_OWN(LOSS), 1);
  return mr_push(s, 0, out);
}

static const mr_stage_def_t hungry_def = {
    .name = "hungry",
    .help = "Trains, as far as anyone can see.",
    .in = {{.name = "in", .flow = MR_FLOW_BYTES}},
    .out = {{.name = "metrics", .flow = MR_FLOW_METRICS}},
    .plan = talk_plan,
    .step = &(const mr_step_def_t){.run = hungry_step},
};

static const mr_stage_def_t *const own[] = {&talk_def, &drip_def, &hungry_def, NULL};
static int setup(void **state) {
  talk_over = false;
  talk_depth = 512;
  return talk_setup(own);
}
static int teardown(void **state) {
  talk_before = NULL;
  return talk_teardown();
}

/* ---- causing them ---- */

static void set_loss(mr_report_t *r, double v) {
  for (size_t i = 0; i < r->n_numbers; i++)
    if (r->number[i].def == MR_METRIC_OWN(LOSS)) r->number[i].value = v;
}

static void nan_from_step_30(mr_report_t *r) {
  if (r->step >= 30) set_loss(r, NAN);
}
static void no_better_after_step_40(mr_report_t *r) {
  set_loss(r, r->step < 40 ? 3 - 0.05 * (double)r->step : 1.05);
}
static void slower_from_step_100(mr_report_t *r) {
  mr_report_add(r, MR_METRIC_OWN(IMAGES_PER_S), r->step < 100 ? 50 : 20);
}

static void left_out_from_step_60(mr_report_t *r) {
  mr_report_add(r, MR_METRIC_OWN(IMAGES_PER_S), 50);
  if (r->step < 60 || r->step >= 120 || r->kind != MR_REPORT_STEP) return;
  r->n_numbers = 0;
  r->skipped = true;
}

/* Runs a graph whose alert, with settings, writes what it received; the text (heap). */
static char *reported(const char *source, const char *settings) {
  char text[512];
  mr_diag_t diag;
  snprintf(text, sizeof text,
           "%s ! alert %s command='echo \"$$MILLRACE_ALERT $$MILLRACE_STEP\" >> %s/told'", source,
           settings, dir);
  mr_err_t e = run(text, &diag);
  if (e < 0) fail_msg("%s", diag.text);
  snprintf(text, sizeof text, "touch %s/told", dir);
  assert_int_equal(system(text), 0);
  return read_text("told");
}

static void a_run_without_a_fault_is_left_alone(void **state) {
  char *got =
      reported("talk last=300 ! telemetry every=0", "plateau=400 slow=0.5 stall=0.9 disk=1");
  assert_string_equal(got, "");
  free(got);
}

static void a_loss_that_is_not_a_number_raises_one_alert(void **state) {
  talk_before = nan_from_step_30;
  char *got = reported("talk last=50 pause=500", "");
  assert_string_equal(got, "nan 30\n");
  free(got);
}

/* Step 30 is one that was reported before a kill, and in the second run it is not. */
static void an_alert_says_that_its_step_comes_again(void **state) {
  static const char *const want[] = {"the loss is nan (repeating until step 45)\n",
                                     "the loss is nan\n"};
  char text[512];
  mr_diag_t diag;
  talk_before = nan_from_step_30;
  for (int i = 0; i < 2; i++) {
    snprintf(text, sizeof text,
             "talk last=50 ! alert resume-reported=%d command='echo \"$$MILLRACE_TEXT\" > %s/told'",
             i ? 29 : 45, dir);
    mr_err_t e = run(text, &diag);
    if (e < 0) fail_msg("%s", diag.text);
    char *got = read_text("told");
    assert_string_equal(got, want[i]);
    free(got);
  }
}

static void a_plateau_raises_an_alert(void **state) {
  talk_before = no_better_after_step_40;
  char *got = reported("talk last=400 pause=500", "plateau=50");
  int step = 0;
  assert_int_equal(sscanf(got, "plateau %d\n", &step), 1);
  assert_true(step >= 90 && step <= 300);
  free(got);
}

static void a_rate_that_drops_raises_an_alert(void **state) {
  talk_before = slower_from_step_100;
  char *got = reported("talk last=200", "slow=0.6");
  int step = 0;
  assert_int_equal(sscanf(got, "slow %d\n", &step), 1);
  assert_true(step > 100 && step < 160);
  free(got);
}

static void steps_that_are_left_out_raise_nothing(void **state) {
  talk_before = left_out_from_step_60;
  char *got = reported("talk last=200", "plateau=150 slow=0.9");
  assert_string_equal(got, "");
  free(got);
}

static void a_full_disk_raises_an_alert(void **state) {
  char *got = reported("talk last=3 ! telemetry every=0", "disk=1e18");
  assert_string_equal(got, "disk 1\n");
  free(got);
}

static void a_training_stage_that_waits_raises_an_alert(void **state) {
  char *got = reported("drip ! hungry ! telemetry every=0.05", "stall=0.6");
  assert_memory_equal(got, "stall ", 6);
  free(got);
}

static void an_alert_can_fail_the_run_after_its_end(void **state) {
  char text[256];
  mr_diag_t diag;
  talk_before = nan_from_step_30;
  snprintf(text, sizeof text, "talk last=50 name=t t.metrics ! alert fail t.metrics ! jsonl %s/m",
           dir);
  assert_int_equal(run(text, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "alert: nan at step 30"));
  char *got = read_text("m");
  assert_non_null(strstr(got, "\"final\""));
  free(got);
}

/* ---- a web address that gets them ---- */

static char posted[4096];

static void *serve_one(void *arg) {
  int fd = accept(*(int *)arg, NULL, NULL);
  size_t have = 0;
  while (!strstr(posted, "}") && have < sizeof posted - 1) {
    ssize_t k = recv(fd, posted + have, sizeof posted - 1 - have, 0);
    if (k <= 0) break;
    have += (size_t)k;
  }
  (void)!write(fd, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 46);
  close(fd);
  return NULL;
}

static void a_webhook_gets_the_alert_as_json(void **state) {
  NEEDS("CURL");
  struct sockaddr_in a = {.sin_family = AF_INET};
  socklen_t n = sizeof a;
  pthread_t server;
  char text[128];
  mr_diag_t diag;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
  assert_int_equal(listen(fd, 1), 0);
  getsockname(fd, (struct sockaddr *)&a, &n);
  pthread_create(&server, NULL, serve_one, &fd);
  talk_before = nan_from_step_30;
  snprintf(text, sizeof text, "talk last=40 ! alert webhook=http://127.0.0.1:%d/x",
           ntohs(a.sin_port));
  assert_int_equal(run(text, &diag), MR_OK);
  pthread_join(server, NULL);
  close(fd);
  assert_memory_equal(posted, "POST /x HTTP/1.1", 16);
  assert_non_null(strstr(posted, "{\"alert\":\"nan\",\"step\":30,"));
}

/* ---- ZeroMQ ---- */

static void *publish_graph(void *arg) {
  mr_diag_t diag;
  return run(arg, &diag) == MR_OK ? NULL : "the graph failed";
}

static void a_subscriber_gets_topics_and_whole_records(void **state) {
  char text[256], at[128], topic[64], body[8192];
  void *said;
  bool final = false;
  int losses = 0;
  pthread_t thread;
  snprintf(at, sizeof at, "ipc://%s/pub", dir);
  snprintf(text, sizeof text, "talk last=1000000 pause=3000 ! publish %s linger=600", at);
  void *context = zmq_ctx_new(), *sub = zmq_socket(context, ZMQ_SUB);
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "train/loss", 10);
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "record", 6);
  assert_int_equal(zmq_connect(sub, at), 0);
  assert_int_equal(pthread_create(&thread, NULL, publish_graph, text), 0);
  while (!final) {
    int k = zmq_recv(sub, topic, sizeof topic - 1, 0), n = zmq_recv(sub, body, sizeof body - 1, 0);
    assert_true(k > 0 && n > 0);
    topic[k] = 0, body[n] = 0;
    cJSON *j = cJSON_Parse(body);
    double step = cJSON_GetNumberValue(cJSON_GetObjectItem(j, "step"));
    if (!strcmp(topic, "train/loss")) {
      talk_over = ++losses >= 5; /* whenever the two have found each other */
      assert_true(fabs(cJSON_GetNumberValue(cJSON_GetObjectItem(j, "value")) * step - 2.5) < 1e-12);
    } else {
      assert_string_equal(topic, "record");
      final = strstr(body, "\"kind\":\"final\"") != NULL;
    }
    cJSON_Delete(j);
  }
  assert_true(losses > 0);
  pthread_join(thread, &said);
  if (said) fail_msg("%s", (char *)said);
  zmq_close(sub);
  zmq_ctx_term(context);
}

/* A subscriber of all topics: repeated steps come below "repeat" and say until when. */
static void a_subscriber_learns_which_steps_come_again(void **state) {
  enum { UNTIL = 2000 };
  char text[256], at[128], topic[64], body[8192];
  void *said;
  bool curve = false, repeated = false, record = false, final = false;
  pthread_t thread;
  snprintf(at, sizeof at, "ipc://%s/again", dir);
  snprintf(text, sizeof text,
           "talk last=1000000 pause=1000 ! publish %s linger=600 resume-reported=%d", at, UNTIL);
  void *context = zmq_ctx_new(), *sub = zmq_socket(context, ZMQ_SUB);
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0);
  assert_int_equal(zmq_connect(sub, at), 0);
  assert_int_equal(pthread_create(&thread, NULL, publish_graph, text), 0);
  while (!final) {
    int k = zmq_recv(sub, topic, sizeof topic - 1, 0), n = zmq_recv(sub, body, sizeof body - 1, 0);
    assert_true(k > 0 && n > 0);
    topic[k] = 0, body[n] = 0;
    cJSON *j = cJSON_Parse(body);
    const cJSON *until = cJSON_GetObjectItem(j, "repeating_until");
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(j, "kind"));
    int64_t step = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(j, "step"));
    bool again = step <= UNTIL && (!kind || !strcmp(kind, "step"));
    assert_non_null(j);
    if (!strncmp(topic, "test/", 5)) again = false; /* after the steps, whatever its number */
    assert_int_equal(cJSON_IsNumber(until), again);
    if (again) assert_int_equal(cJSON_GetNumberValue(until), UNTIL);
    if (!strcmp(topic, "record")) record |= again;
    if (!strcmp(topic, "repeat/train/loss")) repeated = true, assert_true(again);
    if (!strcmp(topic, "train/loss")) curve = talk_over = true, assert_false(again);
    final = kind && !strcmp(kind, "final");
    cJSON_Delete(j);
  }
  assert_true(curve && repeated && record);
  pthread_join(thread, &said);
  if (said) fail_msg("%s", (char *)said);
  zmq_close(sub);
  zmq_ctx_term(context);
}

/* The final record of a file of lines. */
static double number_at_the_end(const char *name, const char *key) {
  char path[128], line[16384], last[16384] = "";
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) strcpy(last, line);
  fclose(f);
  cJSON *j = cJSON_Parse(last);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(j, "kind")), "final");
  const cJSON *v = cJSON_GetObjectItem(j, key);
  double n = cJSON_IsNumber(v) ? v->valuedouble : -1;
  cJSON_Delete(j);
  return n;
}

/* Until a file of lines tells so much of a metric. */
static void wait_for(const char *name, const char *key, double least) {
  char path[128], line[16384], want[64];
  double v = -1;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  snprintf(want, sizeof want, "\"%s\":", key);
  for (FILE *f = NULL; v < least; usleep(10000)) {
    if (!f && !(f = fopen(path, "r"))) continue;
    while (fgets(line, sizeof line, f)) {
      const char *value = strstr(line, want);
      if (value) v = strtod(value + strlen(want), NULL);
    }
    clearerr(f); /* the rest is to come */
    if (v >= least) fclose(f);
  }
}

static void losses_of_a_subscriber_that_does_not_read_are_a_metric(void **state) {
  char text[512], at[128];
  void *said;
  int few = 1, none = 0;
  pthread_t thread;
  snprintf(at, sizeof at, "ipc://%s/deaf", dir);
  snprintf(text, sizeof text,
           "talk last=1000000 pause=500 ! telemetry every=0 name=t   t. ! publish %s   "
           "t. ! jsonl path=%s/deaf.jsonl   t. ! csv path=%s/deaf.csv",
           at, dir, dir);
  void *context = zmq_ctx_new(), *sub = zmq_socket(context, ZMQ_SUB);
  zmq_setsockopt(sub, ZMQ_RCVHWM, &few, sizeof few);
  zmq_setsockopt(sub, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0);
  assert_int_equal(zmq_connect(sub, at), 0);
  assert_int_equal(pthread_create(&thread, NULL, publish_graph, text), 0);
  wait_for("deaf.jsonl", "publish_dropped", 1000); /* whenever it was heard of and is full */
  talk_over = true;
  pthread_join(thread, &said);
  if (said) fail_msg("%s", (char *)said);
  double dropped = number_at_the_end("deaf.jsonl", "publish_dropped");
  if (dropped < 1000) fail_msg("%g", dropped);
  snprintf(text, sizeof text, "grep -Eq '^final,.*,%.9g,[0-9a-f]{16},' %s/deaf.csv", dropped, dir);
  assert_int_equal(system(text), 0);
  zmq_close(sub);
  zmq_ctx_term(context);
}

static void addresses_that_cannot_be_are_refused_by_name(void **state) {
  static const char *const bad[][2] = {
      {"talk ! alert webhook=ftp://h/x",
       "alert: webhook: want an address that begins with http:// or https://"},
      {"talk ! alert webhook=h", "alert: webhook: want an address"},
      {"talk ! publish tcp://127.0.0.1:99999", "publish: bind: tcp://127.0.0.1:99999: want tcp://"},
      {"talk ! publish ipc:///no/such/folder", "publish: bind: cannot bind /no/such/folder: "}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag;
    mr_err_t e = run(bad[i][0], &diag);
    assert_true(e < 0);
    if (e == MR_ERR_UNAVAILABLE && strstr(diag.text, "this millrace was built without")) continue;
    if (!strstr(diag.text, bad[i][1])) fail_msg("%s", diag.text);
  }
}

static void a_socket_beyond_this_machine_is_refused(void **state) {
  mr_diag_t diag;
  assert_int_equal(run("talk ! publish tcp://0.0.0.0:5560", &diag), MR_ERR_CONFIG);
  assert_int_equal(run("talk ! publish 'tcp://*:5560'", &diag), MR_ERR_CONFIG);
}

/* ---- peers that do not speak the protocol ---- */

static void malformed_peers_block_no_thread(void **state) {
  int port = port_free();
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons((uint16_t)port)};
  char text[128];
  void *said;
  pthread_t thread;
  uint64_t x = 88172645463325252u;
  assert_true(port > 0);
  snprintf(text, sizeof text, "talk last=1000000 pause=2000 ! publish tcp://127.0.0.1:%d", port);
  assert_int_equal(pthread_create(&thread, NULL, publish_graph, text), 0);
  int reached = 0;
  for (int i = 0; i < 20000 && reached < 60; i++, usleep(5000)) {
    unsigned char bytes[256] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3}; /* a greeting's start */
    for (size_t k = i % 2 ? 0 : 11; k < sizeof bytes; k++)
      x ^= x << 13, x ^= x >> 7, x ^= x << 17, bytes[k] = (unsigned char)x;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
      reached += send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) > 0;
    close(fd);
  }
  talk_over = true;
  pthread_join(thread, &said);
  assert_true(reached > 0);
  if (said) fail_msg("%s", (char *)said);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_run_without_a_fault_is_left_alone),
      CASE(a_loss_that_is_not_a_number_raises_one_alert),
      CASE(an_alert_says_that_its_step_comes_again),
      CASE(a_plateau_raises_an_alert),
      CASE(a_rate_that_drops_raises_an_alert),
      CASE(steps_that_are_left_out_raise_nothing),
      CASE(a_full_disk_raises_an_alert),
      CASE(a_training_stage_that_waits_raises_an_alert),
      CASE(an_alert_can_fail_the_run_after_its_end),
      CASE(a_webhook_gets_the_alert_as_json),
      CASE(a_subscriber_gets_topics_and_whole_records),
      CASE(a_subscriber_learns_which_steps_come_again),
      CASE(losses_of_a_subscriber_that_does_not_read_are_a_metric),
      CASE(addresses_that_cannot_be_are_refused_by_name),
      CASE(a_socket_beyond_this_machine_is_refused),
      CASE(malformed_peers_block_no_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
