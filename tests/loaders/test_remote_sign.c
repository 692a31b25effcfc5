/* Where credentials for s3:// come from: the container's host, and no wider role where another
   source is named that is not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loaders/remote/remote_engine.h"
#include "loaders/remote/remote_sign.h"
#include "tests/loaders/origin.h"

static char dir[] = "/tmp/mr-sign-XXXXXX", config[64];
static origin_t host;

static const char *const variable[] = {"AWS_ACCESS_KEY_ID",
                                       "AWS_SECRET_ACCESS_KEY",
                                       "AWS_SESSION_TOKEN",
                                       "AWS_PROFILE",
                                       "AWS_SHARED_CREDENTIALS_FILE",
                                       "AWS_CONFIG_FILE",
                                       "AWS_WEB_IDENTITY_TOKEN_FILE",
                                       "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                       "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                       "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                       "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"};

/* The machine's metadata, which another source must not be replaced by, gives the wider role. */
static int forget(void **state) {
  char url[64];
  for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) unsetenv(variable[i]);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", host.port);
  setenv("HOME", dir, 1), setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url, 1);
  unlink(config);
  host.requests = 0;
  return 0;
}

static void write_config(const char *text) {
  FILE *f = fopen(config, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  setenv("AWS_CONFIG_FILE", config, 1);
}

static void a_containers_host_gives_credentials(void **state) {
  char url[96];
  mr_credentials_t c;
  mr_diag_t diag = {0};
  snprintf(url, sizeof url, "http://127.0.0.1:%d/index.json", host.port);
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-the-container", 1);
  host.secret = "\r\nAuthorization: of-the-container\r\n";
  host.leaked = false;
  if (mr__remote_credentials(&c, mr__engine_plain, &diag) < 0) fail_msg("%s", diag.text);
  assert_string_equal(c.key, "narrow");
  assert_string_equal(c.token, "t");
  assert_true(host.leaked); /* here it is meant to be there */
}

static void a_token_goes_to_no_other_host(void **state) {
  static const char *const url[] = {"http://192.0.2.1/x", "http://127.0.0.1.example.org/x",
                                    "http://127.0.0.1@192.0.2.1/x", "https://127.0.0.1/x",
                                    "file:///etc/passwd"};
  for (size_t i = 0; i < sizeof url / sizeof *url; i++) {
    mr_credentials_t c;
    mr_diag_t diag = {0};
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url[i], 1);
    assert_int_equal(mr__remote_credentials(&c, mr__engine_plain, &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, "want http://")) fail_msg("%s: %s", url[i], diag.text);
  }
  assert_int_equal(host.requests, 0);
}

static void want_named(const char *what) {
  mr_credentials_t c;
  mr_diag_t diag = {0};
  if (mr__remote_credentials(&c, mr__engine_plain, &diag) != MR_ERR_CONFIG ||
      !strstr(diag.text, what))
    fail_msg("%s: %s", what, diag.text);
  assert_int_equal(host.requests, 0);
}

static void another_source_is_named_and_no_wider_role_used(void **state) {
  static const char *const word[] = {"credential_process = /bin/false", "role_arn = arn:x",
                                     "sso_session = x", "web_identity_token_file = /x",
                                     "login_session = x"};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    char text[128], name[64];
    snprintf(text, sizeof text, "[default]\nregion = x\n%s\n", word[i]);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word[i], " "), word[i]);
    write_config(text);
    want_named(name);
    snprintf(text, sizeof text, "[default]\nregion = x\n[profile p]\n%s\n", word[i]);
    write_config(text);
    setenv("AWS_PROFILE", "p", 1);
    want_named(name);
    unsetenv("AWS_PROFILE");
  }
  forget(state);
  setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/x", 1);
  want_named("AWS_WEB_IDENTITY_TOKEN_FILE");
}

/* A variable that is wrong must not lead to the machine's own role. */
static void a_profile_that_is_not_there_is_said_and_no_wider_role_used(void **state) {
  static const char *const set[][2] = {{"AWS_PROFILE", "none"},
                                       {"AWS_SHARED_CREDENTIALS_FILE", "/none"},
                                       {"AWS_ACCESS_KEY_ID", "alone"},
                                       {"AWS_SECRET_ACCESS_KEY", "alone"}};
  for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
    setenv(set[i][0], set[i][1], 1);
    want_named(set[i][0]);
    unsetenv(set[i][0]);
  }
}

int main(void) {
  static char json[] = "{\"AccessKeyId\":\"narrow\",\"SecretAccessKey\":\"s\",\"Token\":\"t\"}";
  if (!mkdtemp(dir)) return 1;
  snprintf(config, sizeof config, "%s/config", dir);
  origin_open(&host, (const uint8_t *)json, sizeof json - 1, 5);
  host.json = json;
  host.way = ORIGIN_WHOLE;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_containers_host_gives_credentials, forget),
      cmocka_unit_test_setup(a_token_goes_to_no_other_host, forget),
      cmocka_unit_test_setup(another_source_is_named_and_no_wider_role_used, forget),
      cmocka_unit_test_setup(a_profile_that_is_not_there_is_said_and_no_wider_role_used, forget),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  origin_close(&host);
  unlink(config);
  return rmdir(dir) ? 1 : failed;
}
