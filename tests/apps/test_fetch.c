/* millrace data fetch against a server of our own that cuts connections and lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include "tests/apps/http.h"
#include "tests/apps/program.h"

enum { BATCH = 10000 * 3073, ARCHIVE_MAX = 64 << 20 };

static program_t p;
static char dir[64], url[128];
static char *good; /* an archive as the official one, with other pictures */
static size_t good_n;
static char good_md5[33];
static http_t server;

static void md5_of(const char *data, size_t n, char hex[33]) {
  unsigned char sum[EVP_MAX_MD_SIZE];
  EVP_Digest(data, n, sum, NULL, EVP_md5(), NULL);
  for (int i = 0; i < 16; i++) sprintf(hex + 2 * i, "%02x", sum[i]);
}

static void add(struct archive *a, const char *name, size_t size, int type, const char *link) {
  static char bytes[BATCH];
  struct archive_entry *e = archive_entry_new();
  for (size_t i = 0; i < size; i += 997) bytes[i] = (char)(i >> 3);
  archive_entry_set_pathname(e, name);
  archive_entry_set_filetype(e, (unsigned)type);
  archive_entry_set_perm(e, 0644);
  archive_entry_set_size(e, (la_int64_t)size);
  if (link) archive_entry_set_symlink(e, link);
  archive_write_header(a, e);
  if (size) archive_write_data(a, bytes, size);
  archive_entry_free(e);
}

static struct archive *begin(char *out, size_t *n) {
  struct archive *a = archive_write_new();
  archive_write_add_filter_gzip(a);
  archive_write_set_filter_option(a, "gzip", "compression-level", "1");
  archive_write_set_format_ustar(a);
  archive_write_set_bytes_in_last_block(a, 1);
  archive_write_open_memory(a, out, ARCHIVE_MAX, n);
  return a;
}

static void add_official(struct archive *a, int batches) {
  char name[64];
  add(a, "cifar-10-batches-bin/", 0, AE_IFDIR, NULL);
  for (int i = 1; i <= batches; i++) {
    sprintf(name, "cifar-10-batches-bin/data_batch_%d.bin", i);
    add(a, name, BATCH, AE_IFREG, NULL);
  }
  add(a, "cifar-10-batches-bin/test_batch.bin", BATCH, AE_IFREG, NULL);
  add(a, "cifar-10-batches-bin/batches.meta.txt", 61, AE_IFREG, NULL);
  add(a, "cifar-10-batches-bin/readme.html", 88, AE_IFREG, NULL);
}

static int make_good(void **state) {
  good = malloc(ARCHIVE_MAX);
  struct archive *a = begin(good, &good_n);
  add_official(a, 5);
  archive_write_close(a);
  archive_write_free(a);
  md5_of(good, good_n, good_md5);
  return 0;
}

static int free_good(void **state) {
  free(good);
  return 0;
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-fetch-XXXXXX");
  server = (http_t){.body = good, .size = good_n, .ranges = true};
  if (!mkdtemp(dir) || http_start(&server)) return -1;
  sprintf(url, "http://127.0.0.1:%d/cifar-10-binary.tar.gz", server.port);
  return 0;
}

static int teardown(void **state) {
  http_stop(&server);
  return program_forget(dir);
}

static int files_in(const char *sub) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", dir, sub);
  DIR *d = opendir(path);
  if (!d) return -1;
  int n = 0;
  for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
  closedir(d);
  return n;
}

static void fetch(const char *md5) {
  RUN(&p, "data", "fetch", "--dir", dir, "--url", url, "--md5", md5);
}

static void expect(int status, const char *sentence) {
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, expected %d and \"%s\": %s", p.status, status, sentence, p.err);
}

static void a_fetched_archive_is_checked_and_unpacked(void **state) {
  fetch(good_md5);
  expect(0, "100%");
  assert_int_equal(files_in("cifar-10-batches-bin"), 8);
  assert_int_equal(files_in("."), 1);
  struct stat st;
  char path[128];
  sprintf(path, "%s/cifar-10-batches-bin/data_batch_5.bin", dir);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_size, BATCH);
  fetch(good_md5); /* again: nothing to do */
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "already there"));
  assert_int_equal(server.requests, 1);
}

static void a_cut_connection_resumes_where_it_stopped(void **state) {
  server.cut = good_n / 3;
  server.cuts_left = 2;
  fetch(good_md5);
  expect(0, "resuming");
  assert_int_equal(server.requests, 3);
  assert_int_equal(server.ranged, 2);
  assert_int_equal(server.sent, good_n); /* no byte came twice */
  assert_int_equal(files_in("cifar-10-batches-bin"), 8);
}

static void a_later_call_resumes_too(void **state) {
  server.cut = good_n / 16;
  server.cuts_left = 5;
  fetch(good_md5);
  expect(1, "the next call resumes after");
  assert_int_equal(files_in("."), 1);
  server.cut = 0;
  fetch(good_md5);
  expect(0, "100%");
  assert_int_equal(server.sent, good_n);
  assert_int_equal(files_in("cifar-10-batches-bin"), 8);
}

static void a_server_without_ranges_sends_it_all_again(void **state) {
  server.ranges = false;
  server.cut = good_n / 2;
  server.cuts_left = 1;
  fetch(good_md5);
  expect(0, "");
  assert_int_equal(files_in("cifar-10-batches-bin"), 8);
}

static void a_part_of_another_file_is_thrown_away(void **state) {
  char path[128];
  sprintf(path, "%s/cifar-10-binary.tar.gz.part", dir);
  FILE *f = fopen(path, "w");
  for (size_t i = 0; i < good_n + 10; i++) fputc('x', f);
  fclose(f);
  fetch(good_md5);
  expect(0, "");
  assert_int_equal(files_in("."), 1);
}

static void a_wrong_digest_leaves_nothing(void **state) {
  fetch("c32a1d4ab5d03f1284b67883e8d87530");
  expect(1, "expected c32a1d4ab5d03f1284b67883e8d87530");
  assert_int_equal(files_in("."), 0);
}

static void a_server_that_is_not_there_gives_one_sentence(void **state) {
  RUN(&p, "data", "fetch", "--dir", dir, "--url", "http://127.0.0.1:1/x");
  expect(1, "http://127.0.0.1:1/x: ");
  RUN(&p, "data", "fetch", "--dir", dir, "--url", "file:///etc/passwd");
  expect(1, "file:///etc/passwd: ");
  RUN(&p, "data", "fetch", "--dir", "/proc/nowhere/x", "--url", url);
  expect(1, "/proc/nowhere");
}

/* ---- archives that are not CIFAR-10 ---- */

typedef void (*fill_fn)(struct archive *a);

static void foreign(fill_fn fill, const char *sentence) {
  char *bad = malloc(ARCHIVE_MAX), md5[33];
  size_t n;
  struct archive *a = begin(bad, &n);
  fill(a);
  archive_write_close(a);
  archive_write_free(a);
  md5_of(bad, n, md5);
  server.body = bad;
  server.size = n;
  fetch(md5);
  expect(1, sentence);
  assert_int_equal(files_in("cifar-10-batches-bin"), -1);
  assert_int_equal(files_in("."), 1); /* the archive itself, for the person to look at */
  char path[128];
  sprintf(path, "%s/cifar-10-binary.tar.gz", dir);
  unlink(path);
  free(bad);
}

static void fill_missing(struct archive *a) { add_official(a, 4); }
static void fill_climbing(struct archive *a) {
  add(a, "cifar-10-batches-bin/../../evil", 5, AE_IFREG, NULL);
}
static void fill_absolute(struct archive *a) { add(a, "/tmp/evil", 5, AE_IFREG, NULL); }
static void fill_link(struct archive *a) {
  add(a, "cifar-10-batches-bin/test_batch.bin", 0, AE_IFLNK, "/etc/passwd");
}
static void fill_size(struct archive *a) {
  add(a, "cifar-10-batches-bin/test_batch.bin", BATCH - 1, AE_IFREG, NULL);
}
static void fill_twice(struct archive *a) {
  add(a, "cifar-10-batches-bin/readme.html", 5, AE_IFREG, NULL);
  add(a, "cifar-10-batches-bin/readme.html", 5, AE_IFREG, NULL);
}

static void foreign_archives_are_refused_whole(void **state) {
  foreign(fill_missing, "data_batch_5.bin is missing");
  foreign(fill_climbing, "unexpected entry \"cifar-10-batches-bin/../../evil\"");
  foreign(fill_absolute, "unexpected entry");
  foreign(fill_link, "unexpected entry");
  foreign(fill_size, "expected 30730000");
  foreign(fill_twice, "occurs twice");
}

static void an_archive_cut_short_is_refused(void **state) {
  char md5[33];
  server.size = good_n / 2;
  md5_of(good, server.size, md5);
  fetch(md5);
  expect(1, "cifar-10-binary.tar.gz: ");
  assert_int_equal(files_in("cifar-10-batches-bin"), -1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_fetched_archive_is_checked_and_unpacked),
      CASE(a_cut_connection_resumes_where_it_stopped),
      CASE(a_later_call_resumes_too),
      CASE(a_server_without_ranges_sends_it_all_again),
      CASE(a_part_of_another_file_is_thrown_away),
      CASE(a_wrong_digest_leaves_nothing),
      CASE(a_server_that_is_not_there_gives_one_sentence),
      CASE(foreign_archives_are_refused_whole),
      CASE(an_archive_cut_short_is_refused),
  };
  setenv("no_proxy", "*", 1); /* the server is on this machine */
  return cmocka_run_group_tests(tests, make_good, free_good);
}
