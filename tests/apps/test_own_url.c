/* Data on a server: how it is asked is what the command line says, a kind that is named needs no
   look, and what the server refuses is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/apps/http.h"
#include "tests/apps/program.h"

static program_t p;
static http_t server;
static atomic_int asked,
    listings; /* requests of the bucket "there"; of these, for lists of names */
static char endpoint[64];

/* Refuses whatever it is asked. */
static void *refuse_all(void *arg) {
  static const char answer[] =
      "HTTP/1.1 403 no\r\nContent-Length: 40\r\nConnection: close\r\n\r\n"
      "<Error><Code>AccessDenied</Code></Error>";
  for (int c; (c = accept(server.fd, NULL, NULL)) >= 0; close(c)) {
    char request[8192];
    size_t n = 0;
    request[0] = 0;
    for (ssize_t k; n < sizeof request - 1 && !strstr(request, "\r\n\r\n"); n += (size_t)k) {
      if ((k = recv(c, request + n, sizeof request - 1 - n, 0)) <= 0) break;
      request[n + (size_t)k] = 0;
    }
    if (strstr(request, "/there")) atomic_fetch_add(&asked, 1); /* seq_cst: the test reads it */
    if (strstr(request, "list-type=2")) atomic_fetch_add(&listings, 1);
    http_send(c, answer, sizeof answer - 1);
    shutdown(c, SHUT_WR);
    while (recv(c, request, sizeof request, 0) > 0) continue;
  }
  return NULL;
}

static int setup(void **state) {
  for (const char *const *v =
           (const char *const[]){"http_proxy", "all_proxy", "ALL_PROXY", "AWS_ENDPOINT_URL",
                                 "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN", NULL};
       *v; v++)
    unsetenv(*v);
  setenv("AWS_ACCESS_KEY_ID", "someone", 1), setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  setenv("AWS_REGION", "us-east-1", 1);
  if (http_listen(&server)) return -1;
  snprintf(endpoint, sizeof endpoint, "endpoint=http://127.0.0.1:%d", server.port);
  return pthread_create(&server.thread, NULL, refuse_all, NULL);
}

static int teardown(void **state) {
  http_stop(&server);
  return 0;
}

static void expect(const char *sentence) {
  if (!p.status || !strstr(p.err, sentence))
    fail_msg("status %d, expected \"%s\": %s%s", p.status, sentence, p.err, p.out);
}

static void a_kind_that_is_named_needs_no_look(void **state) {
  RUN(&p, "inspect", "s3://there/set", endpoint, "retries=0");
  expect("403");
  int before = listings;
  RUN(&p, "inspect", "s3://there/set", "source=mds", endpoint, "retries=0");
  assert_int_equal(listings, before); /* no listing tells of such shards */
  /* The look for parts fails, and the stage says what it reads. */
  RUN(&p, "inspect", "s3://there/set", "source=tar", endpoint, "retries=0");
  expect("tar: ");
  assert_true(listings > before);
}

static void a_server_s_refusal_of_the_data_is_reported(void **state) {
  RUN(&p, "train", "--data", "s3://there/set", endpoint, "retries=0", "--print-graph");
  expect("403");
}

static void predict_asks_as_its_command_line_says(void **state) {
  char dir[] = "/tmp/mr-url-XXXXXX", run[64];
  assert_non_null(mkdtemp(dir));
  snprintf(run, sizeof run, "%s/r", dir);
  RUN(&p, "train", "--data", "synthetic", "--run-dir", run, "--steps", "1", "layers=1", "embed=16",
      "mlp=16", "heads=2", "batch=4", "threads=1");
  if (p.status) fail_msg("%s%s", p.err, p.out);
  int before = asked;
  RUN(&p, "predict", run, "s3://there/set", endpoint, "retries=0");
  expect("403");
  assert_true(asked > before);
  assert_int_equal(program_forget(dir), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_kind_that_is_named_needs_no_look),
      cmocka_unit_test(a_server_s_refusal_of_the_data_is_reported),
      cmocka_unit_test(predict_asks_as_its_command_line_says),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
