/* Remote objects from a server that misbehaves: the bytes are right, or there is one clear error;
   names of objects; what servers say. */
#include <ifaddrs.h>

#include "loaders/remote/remote_answer.h"
#include "loaders/remote/remote_attempt.h"
#include "loaders/remote/remote_private.h"
#include "loaders/remote/remote_sign.h"
#include "loaders/remote/remote_url.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

enum { BYTES = 300000 };

static uint8_t content[BYTES];
static origin_t origin;

static int start(void **state) {
  round_t r = {.x = 5};
  for (int i = 0; i < BYTES; i++) content[i] = (uint8_t)draw(&r, 256);
  origin_open(&origin, content, BYTES, 77);
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return 0;
}

static int stop(void **state) {
  origin_close(&origin);
  return 0;
}

static void behave(int trouble, origin_way_t way) {
  origin.trouble = trouble;
  origin.way = (int)way;
}

static const mr_remote_conf_t usual = {
    .connections = 8, .retries = 40, .backoff = 0.001, .timeout = 0.15, .hedge = 4};

static const char *url_of(const char *path) {
  static char url[256];
  snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", origin.port, path);
  return url;
}

static mr_remote_t *open_remote(const mr_remote_conf_t *conf) {
  mr_remote_t *r;
  assert_int_equal(mr_remote_open(&r, conf, NULL), MR_OK);
  return r;
}

/* ---- reading ---- */

static void troubles_that_pass_change_no_byte(void **state) {
  for (round_t r = round_first(12); round_next(&r);) {
    mr_remote_t *remote = open_remote(&usual);
    const mr_object_t *o;
    mr_diag_t diag = {0};
    behave(40, ORIGIN_WELL);
    mr_err_t e = mr_remote_object(remote, url_of("x"), &o, &diag);
    round_check(&r, e >= 0, "%s", diag.text);
    round_check(
        &r, o->size == BYTES && !strcmp(o->etag, "\"e0\"") && o->mtime_ns / 1000000000 == 784111777,
        "%lld bytes, %s", (long long)o->size, o->etag);
    mr_remote_want_t want[20];
    int n = 1 + (int)draw(&r, 20);
    for (int i = 0; i < n; i++) {
      int64_t at = (int64_t)draw(&r, BYTES), size = (int64_t)draw(&r, (uint64_t)(BYTES - at) + 1);
      want[i] = (mr_remote_want_t){o, at, size, malloc((size_t)size + 1)};
    }
    e = mr_remote_read(remote, want, n, &diag);
    round_check(&r, e >= 0, "%s", diag.text);
    for (int i = 0; i < n; i++) {
      round_check(&r, !memcmp(want[i].to, content + want[i].at, (size_t)want[i].size),
                  "range %d is wrong", i);
      free(want[i].to);
    }
    mr_remote_close(remote);
  }
}

/* What the first request after opening meets, and the words of its sentence. */
static void want_fault(origin_way_t way, mr_err_t code, const char *piece) {
  mr_remote_t *remote = open_remote(&usual);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  uint8_t to[1000];
  behave(0, ORIGIN_WELL);
  assert_int_equal(mr_remote_object(remote, url_of("x?secret=1"), &o, &diag), MR_OK);
  mr_remote_want_t want = {o, 100, sizeof to, to};
  behave(0, way);
  int before = origin.requests;
  mr_err_t e = mr_remote_read(remote, &want, 1, &diag);
  if (e != code || !strstr(diag.text, piece) || strstr(diag.text, "secret"))
    fail_msg("want %d '%s', got %d '%s'", code, piece, e, diag.text);
  assert_int_equal(origin.requests, before + 1); /* it does not pass: no second try */
  mr_remote_close(remote);
  behave(0, ORIGIN_WELL);
}

static void a_server_that_lies_is_one_clear_error(void **state) {
  want_fault(ORIGIN_WHOLE, MR_ERR_DATA, "ignores ranges");
  want_fault(ORIGIN_OTHER, MR_ERR_DATA, "Content-Range");
  want_fault(ORIGIN_SHORT, MR_ERR_DATA, "fewer bytes");
  want_fault(ORIGIN_LONG, MR_ERR_DATA, "more bytes");
  want_fault(ORIGIN_PACKED, MR_ERR_DATA, "compresses");
  want_fault(ORIGIN_MISSING, MR_ERR_IO, "404");
  want_fault(ORIGIN_CHANGED, MR_ERR_DATA, "has changed");
}

/* A byte now and then, 100 Continue and an error's text restart no clock. */
static void a_server_that_never_ends_is_left_after_the_timeout(void **state) {
  static const struct {
    origin_way_t way;
    const char *want;
  } row[] = {{ORIGIN_DRIP, "bytes in 0.15 s"},
             {ORIGIN_WAIT, "no byte for 0.15 s"},
             {ORIGIN_TALK, "status 404, InvalidObjectState"}};
  mr_remote_conf_t few = usual;
  few.retries = 1, few.hedge = 0;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_remote_t *remote = open_remote(&few);
    const mr_object_t *o;
    mr_diag_t diag = {0};
    uint8_t to[1000];
    behave(0, ORIGIN_WELL);
    assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_OK);
    behave(0, row[i].way);
    mr_remote_want_t want = {o, 0, sizeof to, to};
    if (mr_remote_read(remote, &want, 1, &diag) != MR_ERR_IO || !strstr(diag.text, row[i].want))
      fail_msg("row %zu: %s", i, diag.text);
    mr_remote_close(remote);
  }
  behave(0, ORIGIN_WELL);
}

/* What a server of S3 says of its reason is in the sentence, with what to do; a server that wants
   fewer requests is asked again. */
static void a_code_of_s3_is_in_the_sentence(void **state) {
  static const struct {
    int status;
    const char *code, *want;
    bool again;
  } row[] = {
      {503, "SlowDown", "status 503, SlowDown", true},
      {500, "InternalError", "status 500, InternalError", true},
      {429, "TooManyRequests", "status 429, TooManyRequests", true},
      {403, "RequestTimeTooSkewed",
       "status 403, RequestTimeTooSkewed; the clocks of this machine and the server differ", false},
      {403, "InvalidObjectState", "status 403, InvalidObjectState; it is archived", false},
      {403, "InvalidAccessKeyId",
       "status 403, InvalidAccessKeyId; the server does not know the access key", false},
      {403, "SignatureDoesNotMatch", "SignatureDoesNotMatch; the secret key is not that of", false},
      {403, "AccessDenied",
       "status 403, AccessDenied; it does not exist, or these credentials do not permit", false},
      {404, "NoSuchBucket", "status 404, NoSuchBucket; there is no such bucket", false},
      {404, "NoSuchKey", "status 404, NoSuchKey", false},
      {400, "ExpiredToken", "status 400, ExpiredToken", true},
      {403, "</Code>", "status 403; it does not exist", false},
      {403, "x\033[31m", "status 403; it does not exist", false},
  };
  enum { TRIES = 2 };
  char endpoint[64];
  mr_remote_conf_t few = usual;
  snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", origin.port);
  few.retries = TRIES, few.hedge = 0, few.anonymous = true, few.endpoint = endpoint;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_remote_t *remote = open_remote(&few);
    const mr_object_t *o;
    mr_diag_t diag = {0};
    uint8_t to[1000];
    behave(0, ORIGIN_WELL);
    if (mr_remote_object(remote, "s3://bucket/key", &o, &diag) < 0) fail_msg("%s", diag.text);
    origin.code = row[i].code;
    origin.code_status = row[i].status;
    behave(0, ORIGIN_CODE);
    int before = origin.requests;
    mr_remote_want_t want = {o, 0, sizeof to, to};
    if (mr_remote_read(remote, &want, 1, &diag) != MR_ERR_IO || !strstr(diag.text, row[i].want))
      fail_msg("row %zu: %s", i, diag.text);
    int tries = origin.requests - before;
    if (tries != (row[i].again ? 1 + TRIES : 1)) fail_msg("row %zu: %d requests", i, tries);
    mr_remote_close(remote);
  }
  behave(0, ORIGIN_WELL);
}

static mr_err_t take_listed(void *ctx, const mr_listed_t *file, mr_diag_t *diag) { return MR_OK; }

/* Some stores give empty pages before those with files; a store that gives nothing else is left. */
static void a_listing_of_empty_pages_ends(void **state) {
  static const int pages[] = {50, 1000000};
  char endpoint[64];
  mr_remote_conf_t conf = usual;
  snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", origin.port);
  conf.anonymous = true, conf.endpoint = endpoint;
  behave(0, ORIGIN_WELL);
  for (int i = 0; i < 2; i++) {
    mr_remote_t *remote = open_remote(&conf);
    mr_diag_t diag = {0};
    int before = origin.requests;
    origin.empty = pages[i];
    mr_err_t e = mr_remote_list(remote, "s3://bucket/p", take_listed, NULL, &diag);
    assert_true(origin.requests - before < 200);
    assert_int_equal(e, i ? MR_ERR_DATA : MR_OK);
    if (i && !strstr(diag.text, "the listing does not end: its pages are empty"))
      fail_msg("%s", diag.text);
    mr_remote_close(remote);
  }
}

static void write_credentials(const char *path, const char *token) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f,
          "[default]\naws_access_key_id = k\naws_secret_access_key = s\naws_session_token = %s\n",
          token);
  assert_int_equal(fclose(f), 0);
}

static void a_token_that_has_expired_is_read_again(void **state) {
  char path[] = "/tmp/mr-token-XXXXXX", endpoint[64];
  uint8_t to[1000];
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  unsetenv("AWS_ACCESS_KEY_ID"), unsetenv("AWS_PROFILE");
  setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
  snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", origin.port);
  behave(0, ORIGIN_WELL);
  mr_remote_conf_t conf = usual;
  conf.endpoint = endpoint, conf.retries = 3;
  mr_remote_t *remote = open_remote(&conf);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  write_credentials(path, "the-first-token");
  if (mr_remote_object(remote, "s3://bucket/key", &o, &diag) < 0) fail_msg("%s", diag.text);
  mr_remote_want_t want = {o, 0, sizeof to, to};
  origin.expired = "the-first-token";
  if (mr_remote_read(remote, &want, 1, &diag) != MR_ERR_IO || !strstr(diag.text, "ExpiredToken"))
    fail_msg("%s", diag.text); /* the file has no newer one */
  write_credentials(path, "the-second-token");
  diag = (mr_diag_t){0};
  if (mr_remote_read(remote, &want, 1, &diag) < 0) fail_msg("%s", diag.text);
  assert_memory_equal(to, content, sizeof to);
  mr_remote_close(remote);
  origin.expired = NULL;
  unsetenv("AWS_SHARED_CREDENTIALS_FILE");
  unlink(path);
}

static void addresses_of_this_machine_are_known(void **state) {
  static const char *const near[] = {
      "127.0.0.1",        "127.9.9.9",          "169.254.169.254", "0.0.0.0", "::1",          "::",
      "::ffff:127.0.0.1", "::ffff:169.254.1.1", "fe80::1",         "FEBF::1", "fd00:ec2::254"};
  static const char *const far[] = {"128.0.0.1",       "10.0.0.1", "169.255.0.1", "192.168.0.1",
                                    "100.0.0.1",       "fec0::1",  "fe",          "2001:db8::1",
                                    "::ffff:10.0.0.1", ""};
  for (size_t i = 0; i < sizeof near / sizeof *near; i++)
    if (!mr__remote_is_near(near[i])) fail_msg("%s", near[i]);
  for (size_t i = 0; i < sizeof far / sizeof *far; i++)
    if (mr__remote_is_near(far[i])) fail_msg("%s", far[i]);
}

/* The address of an interface of this machine that is not near, for "elsewhere"; false without. */
static bool outer_address(char out[INET_ADDRSTRLEN]) {
  struct ifaddrs *all = NULL;
  bool found = false;
  if (getifaddrs(&all) < 0) return false;
  for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
    inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, out, INET_ADDRSTRLEN);
    found = !mr__remote_is_near(out);
  }
  freeifaddrs(all);
  return found;
}

static void a_server_elsewhere_leads_to_no_address_of_this_machine(void **state) {
  char at[INET_ADDRSTRLEN], url[64], lead[64];
  origin_t elsewhere;
  if (!outer_address(at)) skip();
  origin_open_at(&elsewhere, at, content, BYTES, 78);
  snprintf(lead, sizeof lead, "http://127.0.0.1:%d/x", origin.port);
  snprintf(url, sizeof url, "http://%s:%d/x", at, elsewhere.port);
  elsewhere.lead = lead;
  behave(0, ORIGIN_WELL);
  for (int allowed = 0; allowed < 2; allowed++) {
    mr_remote_conf_t conf = usual;
    conf.local_redirects = allowed;
    mr_remote_t *remote = open_remote(&conf);
    const mr_object_t *o;
    mr_diag_t diag = {0};
    int before = origin.requests;
    mr_err_t e = mr_remote_object(remote, url, &o, &diag);
    if (e != (allowed ? MR_OK : MR_ERR_IO)) fail_msg("%d: %s", allowed, diag.text);
    if (!allowed) assert_non_null(strstr(diag.text, "local-redirects"));
    assert_int_equal(origin.requests - before, allowed);
    mr_remote_close(remote);
  }
  origin_close(&elsewhere);
}

/* It would end the line of a request, and the next one would be the server's. */
static void an_etag_with_a_line_in_it_is_not_asked_for(void **state) {
  mr_remote_t *remote = open_remote(&usual);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  int before = origin.requests;
  assert_int_equal(mr_remote_known(remote, url_of("x"), BYTES, 0, "\"x\"\r\nX-Evil: 1", &o, &diag),
                   MR_ERR_DATA);
  assert_null(o);
  assert_non_null(strstr(diag.text, "/x: is listed with an ETag with a control character"));
  behave(0, ORIGIN_CONTROL);
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_ERR_DATA);
  assert_int_equal(origin.requests - before, 1);
  behave(0, ORIGIN_WELL);
  mr_remote_close(remote);
}

/* dated: the server gives no ETag or, if weak, one that does not change with the bytes. */
static void want_change_refused(bool dated, bool weak) {
  mr_remote_t *remote = open_remote(&usual);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  uint8_t to[10];
  behave(0, ORIGIN_WELL);
  origin.dated = dated;
  origin.weak = weak;
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_OK);
  assert_int_equal(!*o->etag, dated && !weak);
  mr_remote_want_t want = {o, 0, sizeof to, to};
  if (mr_remote_read(remote, &want, 1, &diag) < 0) fail_msg("%s", diag.text);
  origin.etag++;
  assert_int_equal(mr_remote_read(remote, &want, 1, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "has changed since it was opened"));
  origin.etag--;
  origin.dated = origin.weak = false;
  mr_remote_close(remote);
}

static void a_changed_object_is_refused(void **state) {
  want_change_refused(false, false);
  want_change_refused(true, false);
  want_change_refused(true, true);
}

static void count_stateless(void *arg, const char *text) {
  *(int *)arg += strstr(text, "sends neither ETag nor Last-Modified") != NULL;
}

static void an_object_whose_states_look_alike_is_said_once(void **state) {
  mr_remote_t *remote = open_remote(&usual);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  int said = 0;
  behave(0, ORIGIN_WELL);
  mr_notice_to(count_stateless, &said);
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_OK);
  assert_int_equal(said, 0);
  origin.stateless = true;
  for (int i = 0; i < 2; i++)
    assert_int_equal(mr_remote_object(remote, url_of(i ? "y" : "x"), &o, &diag), MR_OK);
  mr_notice_to(NULL, NULL);
  origin.stateless = false;
  assert_int_equal(said, 1);
  mr_remote_close(remote);
}

static void requests_end_after_the_configured_retries(void **state) {
  mr_remote_conf_t few = usual;
  few.retries = 3;
  mr_remote_t *remote = open_remote(&few);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  behave(0, ORIGIN_BUSY);
  int before = origin.requests;
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_ERR_IO);
  assert_int_equal(origin.requests - before, 4);
  assert_non_null(strstr(diag.text, "503"));
  assert_non_null(strstr(diag.text, "3 retries failed too"));
  mr_remote_close(remote);
  few.retries = 0, diag = (mr_diag_t){0};
  remote = open_remote(&few);
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_ERR_IO);
  assert_null(strstr(diag.text, "retries failed"));
  mr_remote_close(remote);
  behave(0, ORIGIN_WELL);
}

static void a_run_from_the_cache_alone_is_reported(void **state) {
  char text[200];
  mr_remote_counts_t counts = {.uses = 4, .hits = 4};
  mr_remote_report(&counts, text, sizeof text);
  assert_non_null(strstr(text, "the cache had 4 of 4 blocks"));
  counts = (mr_remote_counts_t){0};
  mr_remote_report(&counts, text, sizeof text);
  assert_string_equal(text, "");
}

/* Bytes that are wrong each time are never given out. */
static void corrupt_bytes_are_noticed(void **state) {
  mr_remote_conf_t few = usual;
  few.retries = 2;
  mr_remote_t *remote = open_remote(&few);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  uint8_t to[100];
  behave(0, ORIGIN_WELL);
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_OK);
  behave(0, ORIGIN_CORRUPT);
  mr_remote_want_t want = {o, 50, sizeof to, to};
  assert_int_equal(mr_remote_read(remote, &want, 1, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "checksum"));
  mr_remote_close(remote);
  behave(0, ORIGIN_WELL);
}

static void a_straggler_is_sent_twice(void **state) {
  mr_remote_conf_t patient = usual;
  patient.timeout = 20; /* without a second request the test would take this long */
  mr_remote_t *remote = open_remote(&patient);
  const mr_object_t *o;
  mr_diag_t diag = {0};
  mr_remote_counts_t counts;
  uint8_t to[1000];
  behave(0, ORIGIN_WELL);
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, &diag), MR_OK);
  mr_remote_want_t want = {o, 100, sizeof to, to};
  for (int i = 0; i < 40; i++) assert_int_equal(mr_remote_read(remote, &want, 1, &diag), MR_OK);
  pthread_mutex_lock(&origin.lock); /* the next request is silent, and the one after it is not */
  origin.random.x = 0;
  do {
    origin.random.x++;
    round_t try = origin.random;
    bool silent = draw(&try, 100) < 50 && draw(&try, ORIGIN_TROUBLES) == ORIGIN_SILENT;
    if (silent && draw(&try, 100) >= 50) break;
  } while (true);
  pthread_mutex_unlock(&origin.lock);
  behave(50, ORIGIN_WELL);
  memset(to, 0, sizeof to);
  assert_int_equal(mr_remote_read(remote, &want, 1, &diag), MR_OK);
  assert_memory_equal(to, content + 100, sizeof to);
  mr_remote_count(remote, &counts);
  assert_true(counts.hedges >= 1);
  behave(0, ORIGIN_WELL);
  mr_remote_close(remote);
}

static void closing_ends_what_is_in_flight(void **state) {
  mr_remote_t *remote = open_remote(&usual);
  const mr_object_t *o;
  behave(0, ORIGIN_WELL);
  assert_int_equal(mr_remote_object(remote, url_of("x"), &o, NULL), MR_OK);
  mr_remote_close(remote);
  mr_remote_close(NULL);
}

/* ---- names ---- */

static void names_show_no_secret(void **state) {
  static const char *const row[][2] = {
      {"http://u:p@h/a", "http://h/a"},
      {"https://h:1/a?X-Amz-Signature=s", "https://h:1/a"},
      {"https://u:p@w@h/a@b#f", "https://h/a@b"},
      {"http://h?x", "http://h"},
      {"http://u:p/w@h/a", "http://h/a"},
      {"http://u:p?w@h/a", "http://h/a"},
      {"http://u:p#w/@h:1/a?b", "http://h:1/a"},
      {"http://v:p/w@x@h/a", "http://h/a"},
      {"http://h:80/a@b", "http://h:80/a@b"},
      {"http://[::1]:80/a@b", "http://[::1]:80/a@b"},
      {"http://h/a@b", "http://h/a@b"},
      {"s3://b/k?x", "s3://b/k?x"},
      {"file:///a%20b", "/a b"},
      {"file://localhost/c", "/c"},
      {"a@b?c", "a@b?c"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *shown = mr_remote_shown(row[i][0]);
    assert_string_equal(shown, row[i][1]);
    free(shown);
  }
}

static void queries_tell_objects_apart_and_signatures_do_not(void **state) {
  static const struct {
    const char *one, *other;
    bool same;
  } row[] = {
      {"http://h/get?f=1", "http://h/get?f=2", false},
      {"http://h/get?f=1", "http://h/get", false},
      {"http://h/get?f=1&g=2", "http://h/get?f=1&g=3", false},
      {"http://h/get?", "http://h/get", true},
      {"http://h/get?f=1#a", "http://h/get?f=1#b", true},
      {"http://u:p@h/get?f=1", "http://w@h/get?f=1", true},
      {"http://h/x?X-Amz-Date=1&x-amz-signature=a", "http://h/x?X-Amz-Date=2&X-Amz-Signature=b",
       true},
      {"http://h/x?versionId=1&X-Amz-Date=1", "http://h/x?versionId=2&X-Amz-Date=1", false},
      {"http://h/x?Expires=1&Signature=a&Key-Pair-Id=k", "http://h/x", true},
      {"http://h/x?sv=1&se=2&sr=b&sig=a", "http://h/x?sv=2&se=3&sr=b&sig=b", true},
      {"http://h/x?se=2", "http://h/x?se=3", false},
      {"http://h/x?signatures=2", "http://h/x?signatures=3", false},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    bool same = mr_remote_query(row[i].one) == mr_remote_query(row[i].other);
    if (same != row[i].same) fail_msg("%s and %s", row[i].one, row[i].other);
  }
  assert_int_equal(mr_remote_query("s3://b/k"), 0);
}

static void names_of_buckets_become_urls(void **state) {
  static const struct {
    const char *name, *endpoint, *url;
  } row[] = {
      {"s3://bucket/a b/c+d.tar", NULL, "https://bucket.s3.eu-x.amazonaws.com/a%20b/c%2Bd.tar"},
      {"s3://my.bucket/k", NULL, "https://s3.eu-x.amazonaws.com/my.bucket/k"},
      {"s3://bucket/../x//y", "http://h:9/", "http://h:9/bucket/../x//y"},
      {"s3://bucket/\xc3\xa9?#%", "http://h/base", "http://h/base/bucket/%C3%A9%3F%23%25"},
      {"s3://bucket", NULL, NULL},
      {"s3://bucket/", NULL, NULL},
      {"s3://b@evil/x", NULL, NULL},
      {"s3://ab/x", NULL, NULL},
      {"s3://bucket/x", "http://u:p@h", NULL},
      {"s3://bucket/x", "ftp://h", NULL},
  };
  char url[MR_PATH_MAX];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_diag_t diag = {0};
    mr_err_t e = mr__remote_s3_url(row[i].name, row[i].endpoint, "eu-x", url, &diag);
    assert_int_equal(e, row[i].url ? MR_OK : MR_ERR_CONFIG);
    if (row[i].url) assert_string_equal(url, row[i].url);
    assert_null(strstr(diag.text, "u:p"));
  }
}

/* ---- answers ---- */

static void spans_are_parsed(void **state) {
  static const struct {
    const char *text;
    bool good;
    mr_remote_span_t span;
  } row[] = {
      {"bytes 0-0/1", true, {0, 0, 1}},
      {"bytes 5-9/*", true, {5, 9, -1}},
      {"bytes */77", true, {-1, -1, 77}},
      {"BYTES 5-9/10", true, {5, 9, 10}},
      {"bytes 5-9/9", false, {0}},
      {"bytes 9-5/10", false, {0}},
      {"bytes */*", false, {0}},
      {"bytes 5-9", false, {0}},
      {"bytes 5-9/10x", false, {0}},
      {"bytes -5-9/10", false, {0}},
      {"bytes 9999999999999999999-9/10", false, {0}},
      {"", false, {0}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_remote_span_t s;
    bool good = mr__remote_span(row[i].text, strlen(row[i].text), &s);
    if (good != row[i].good) fail_msg("%s", row[i].text);
    if (good)
      assert_true(s.first == row[i].span.first && s.last == row[i].span.last &&
                  s.total == row[i].span.total);
  }
}

static void profiles_are_parsed(void **state) {
  static const char text[] =
      "# aws_secret = no\n[default]\naws_access_key_id = A\r\n aws_secret_access_key = nested\n"
      "aws_secret_access_key=S=/+ \n[profile x]\nregion = eu-y\n[ other ]\nregion=z";
  char out[16];
  assert_true(mr__remote_ini(text, sizeof text - 1, "default", "aws_access_key_id", out, 16));
  assert_string_equal(out, "A");
  assert_true(mr__remote_ini(text, sizeof text - 1, "default", "aws_secret_access_key", out, 16));
  assert_string_equal(out, "S=/+");
  assert_true(mr__remote_ini(text, sizeof text - 1, "profile x", "region", out, 16));
  assert_string_equal(out, "eu-y");
  assert_true(mr__remote_ini(text, sizeof text - 1, "other", "region", out, 16));
  assert_string_equal(out, "z");
  assert_false(mr__remote_ini(text, sizeof text - 1, "default", "region", out, 16));
  assert_false(mr__remote_ini(text, sizeof text - 1, "profile x", "region", out, 4));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(troubles_that_pass_change_no_byte),
      cmocka_unit_test(a_server_that_lies_is_one_clear_error),
      cmocka_unit_test(a_server_that_never_ends_is_left_after_the_timeout),
      cmocka_unit_test(a_code_of_s3_is_in_the_sentence),
      cmocka_unit_test(a_listing_of_empty_pages_ends),
      cmocka_unit_test(a_token_that_has_expired_is_read_again),
      cmocka_unit_test(addresses_of_this_machine_are_known),
      cmocka_unit_test(a_server_elsewhere_leads_to_no_address_of_this_machine),
      cmocka_unit_test(an_etag_with_a_line_in_it_is_not_asked_for),
      cmocka_unit_test(a_changed_object_is_refused),
      cmocka_unit_test(an_object_whose_states_look_alike_is_said_once),
      cmocka_unit_test(requests_end_after_the_configured_retries),
      cmocka_unit_test(a_run_from_the_cache_alone_is_reported),
      cmocka_unit_test(corrupt_bytes_are_noticed),
      cmocka_unit_test(a_straggler_is_sent_twice),
      cmocka_unit_test(closing_ends_what_is_in_flight),
      cmocka_unit_test(names_show_no_secret),
      cmocka_unit_test(queries_tell_objects_apart_and_signatures_do_not),
      cmocka_unit_test(names_of_buckets_become_urls),
      cmocka_unit_test(spans_are_parsed),
      cmocka_unit_test(profiles_are_parsed),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
