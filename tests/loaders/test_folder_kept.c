/* The listing of a folder on a server is kept: a later plan says how old it is, and relist=true
   lists anew. */
#include <time.h>
#include <utime.h>

#include "loaders/formats/folder_remote.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_folder;

static const char content[] = "file_name,label\na.png,0\nb.png,1\n"; /* of the list as well */
static origin_t origin;
static char notice[2000], url[80], list[80];

static void keep_notice(void *arg, const char *text) {
  snprintf(notice, sizeof notice, "%s", text);
}

static int start(void **state) {
  origin_open(&origin, content, sizeof content - 1, 78);
  origin.way = ORIGIN_WELL;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  if (make_folder(state) < 0) return -1;
  mr_notice_to(keep_notice, NULL);
  write_file("list.csv", content, sizeof content - 1);
  snprintf(url, sizeof url, "path=http://127.0.0.1:%d/x", origin.port);
  snprintf(list, sizeof list, "list=%s", in_folder("list.csv"));
  return 0;
}

static int stop(void **state) {
  origin_close(&origin);
  return remove_folder(state);
}

/* Sets the time of the kept listing, the only file of its folder, to some seconds ago. */
static void make_older(int seconds) {
  DIR *d = opendir(in_folder("kept"));
  char path[400];
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (*e->d_name == '.') continue;
    struct utimbuf t = {time(NULL) - seconds, time(NULL) - seconds};
    snprintf(path, sizeof path, "%s/%s", in_folder("kept"), e->d_name);
    assert_int_equal(utime(path, &t), 0);
    n++;
  }
  closedir(d);
  assert_int_equal(n, 1);
}

/* Plans, and wants a notice with the piece, or, for NULL, none. */
static void want_notice(const char *relist, const char *piece) {
  hand_t h;
  char index[200];
  snprintf(index, sizeof index, "index=%s", in_folder("kept"));
  *notice = 0;
  if (shards_plan(&h, &mr_stage_folder, HAND_SETTINGS(url, list, index, relist)) < 0)
    fail_msg("%s", h.diag.text);
  if (piece ? !strstr(notice, piece) : *notice != 0) fail_msg("want '%s', got '%s'", piece, notice);
  shards_close(&h);
}

static void a_kept_listing_says_its_age(void **state) {
  want_notice("relist=false", NULL); /* it is made */
  want_notice("relist=false", ", less than a minute old, is used, 2 files");
  make_older(3 * 86400 + 10);
  want_notice("relist=false", ", 3 days old, is used, 2 files; files added since are not in it");
  want_notice("relist=false", "(relist=true lists anew)");
  make_older(3700);
  want_notice("relist=false", ", 1 hour old, is used");
  make_older(-5000);
  want_notice("relist=false", ", less than a minute old, is used");
  want_notice("relist=true", NULL);
}

/* The kept listing is that of the URL, whatever its signature. */
static void a_list_with_a_new_signature_is_the_same(void **state) {
  static const char *const query[] = {"X-Amz-Signature=1", "X-Amz-Signature=2&X-Amz-Date=3",
                                      "versionId=4"};
  for (int i = 0; i < 3; i++) {
    snprintf(list, sizeof list, "list=http://127.0.0.1:%d/list.csv?%s", origin.port, query[i]);
    want_notice("relist=false", i == 1 ? ", less than a minute old, is used, 2 files" : NULL);
  }
}

/* What a server claims is summed without wrapping. */
static void files_of_any_size_are_listed(void **state) {
  static const mr_remote_conf_t remote = {.connections = 4, .timeout = 20, .cache_block = 65536};
  char text[1000] = "file_name,label\n", folder_url[80];
  mr_folder_remote_t *f;
  mr_folder_list_t l;
  mr_diag_t diag = {0};
  for (int i = 0; i < 20; i++) sprintf(text + strlen(text), "%d.png,0\n", i);
  write_file("huge.csv", text, strlen(text));
  snprintf(folder_url, sizeof folder_url, "http://127.0.0.1:%d/h", origin.port);
  mr_folder_remote_conf_t conf = {.folder = folder_url,
                                  .list = in_folder("huge.csv"),
                                  .index = in_folder("huge"),
                                  .max_files = 100,
                                  .remote = &remote};
  origin.claims = 999999999999999999;
  if (mr_folder_remote_open(&f, &conf, &l, &diag) < 0) fail_msg("%s", diag.text);
  origin.claims = 0;
  assert_true(mr_folder_remote_bytes(f) == INT64_MAX);
  mr_folder_remote_close(f);
  mr_folder_list_free(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_kept_listing_says_its_age),
                                     cmocka_unit_test(a_list_with_a_new_signature_is_the_same),
                                     cmocka_unit_test(files_of_any_size_are_listed)};
  return cmocka_run_group_tests(tests, start, stop);
}
