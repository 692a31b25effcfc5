/* The listing of a folder on a server is kept: a later plan says how old it is, and relist=true
   lists anew. */
#include <time.h>
#include <utime.h>

#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_folder;

static const uint8_t content[100];
static origin_t origin;
static char notice[2000], url[80], list[80];

static void keep_notice(void *arg, const char *text) {
  snprintf(notice, sizeof notice, "%s", text);
}

static int start(void **state) {
  static const char text[] = "file_name,label\na.png,0\nb.png,1\n";
  origin_open(&origin, content, sizeof content, 78);
  origin.way = ORIGIN_WELL;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  if (make_folder(state) < 0) return -1;
  mr_notice_to(keep_notice, NULL);
  write_file("list.csv", text, sizeof text - 1);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_kept_listing_says_its_age)};
  return cmocka_run_group_tests(tests, start, stop);
}
