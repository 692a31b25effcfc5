/* Compressed chunks of litdata on a server: what is made of them lies in the folder of cache=, and
   index.json names no file outside its own folder. */
#include <zstd.h>

#include "loaders/formats/index_json.h"
#include "tests/loaders/litdata.h"
#include "tests/loaders/origin.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_litdata;

enum { ITEMS = 20 };

static char json[1000];
static uint8_t packed[1000];
static origin_t origin;

static int start(void **state) {
  litdata_out_t o = {0};
  for (int64_t i = 0; i < ITEMS; i++) litdata_item(&o, (const void *[]){&i}, (uint32_t[]){8}, 1);
  image_t file = litdata_file(&o);
  size_t n = ZSTD_compress(packed, sizeof packed, file.at, file.n, 1);
  assert_false(ZSTD_isError(n));
  litdata_free(&o), free(file.at);
  litdata_index_add(json, sizeof json, "chunk-0-0.bin.zst", ITEMS);
  litdata_index_end(json, sizeof json, "[\"int\"]", "[\\\\\\\"id\\\\\\\"]", 1,
                    "\"compression\": \"zstd\", ");
  origin_open(&origin, packed, n, 78);
  origin.json = json;
  unsetenv("http_proxy"), unsetenv("HTTP_PROXY"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  return make_folder(state);
}

static int stop(void **state) {
  origin_close(&origin);
  return remove_folder(state);
}

static int files_with(const char *name, const char *ending) {
  int n = 0;
  DIR *d = opendir(in_folder(name));
  for (struct dirent *e; d && (e = readdir(d));) {
    size_t k = strlen(e->d_name), m = strlen(ending);
    n += k >= m && !strcmp(e->d_name + k - m, ending) && *e->d_name != '.';
  }
  if (d) closedir(d);
  return n;
}

static void decompressed_chunks_lie_in_the_folder_of_the_cache(void **state) {
  hand_t h;
  char url[80], cache[200];
  snprintf(url, sizeof url, "files=http://127.0.0.1:%d/set", origin.port);
  snprintf(cache, sizeof cache, "cache=%s", in_folder("blocks"));
  if (shards_plan(&h, &mr_stage_litdata, HAND_SETTINGS(url, "fields=id", cache)) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, ITEMS);
  shards_close(&h);
  assert_int_equal(files_with("blocks", ".raw"), 1);
  assert_int_equal(files_with("blocks", ".mrindex"), 1);
  assert_int_equal(files_with("cache/millrace", ""), 0); /* the user's cache */
}

static void want_name(const char *at, const char *name, bool good) {
  static mr_index_json_t x;
  char path[MR_PATH_MAX];
  snprintf(x.folder, sizeof x.folder, "%s", at);
  x.remote = mr_remote_is(at);
  cJSON *text = cJSON_CreateString(name);
  if (mr_index_json_path(&x, text, path) != good) fail_msg("%s below %s", name, at);
  cJSON_Delete(text);
}

/* A web server decodes what is encoded. */
static void names_that_lead_elsewhere_on_a_web_server_are_refused(void **state) {
  static const char *const name[] = {"%2e%2e/x", "a/%2E%2E/x", "x?y", "x#y", "..\\x", "%00"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    want_name("http://h/set/", name[i], false);
    want_name("https://h/set/", name[i], false);
    want_name("s3://bucket/set/", name[i], true); /* each byte of a key is encoded */
    want_name("/set/", name[i], true);
  }
  want_name("http://h/set/", "a/x-0.bin.zst", true);
  want_name("s3://bucket/set/", "../x", false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decompressed_chunks_lie_in_the_folder_of_the_cache),
      cmocka_unit_test(names_that_lead_elsewhere_on_a_web_server_are_refused),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
