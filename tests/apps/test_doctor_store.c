/* millrace doctor about a server: what it measures is what the server did, and the verdict follows
   from the rate of the model, whether that is given or taken from a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <zstd.h>

#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/loaders/arrayrecord.h"
#include "tests/loaders/mds.h"
#include "tests/loaders/origin.h"

enum { TOKENS = 1 << 20, LENGTH = 4096 };

static char dir[64], graph[400];
static uint16_t tokens[TOKENS];
static origin_t origin;
static program_t p;

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-doctor-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  unsetenv("http_proxy"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  origin_open(&origin, tokens, sizeof tokens, 5);
  snprintf(graph, sizeof graph,
           "tokens http://127.0.0.1:%d/t.bin length=%d memory=0 connections=8 retries=1 "
           "backoff=0.001 name=text ! shuffle seed=1 ! batch 4 ! null",
           origin.port, LENGTH);
  return 0;
}

static int teardown(void **state) {
  origin_close(&origin);
  return program_forget(dir);
}

/* The section about the source; the caller deletes *report. */
static const cJSON *section_of(const char *rate, cJSON **report) {
  if (rate)
    RUN(&p, "doctor", graph, "--json", "--rate", rate);
  else
    RUN(&p, "doctor", graph, "--json");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  *report = cJSON_Parse(p.out);
  const cJSON *s = cJSON_GetObjectItem(*report, "servers of text");
  if (!s) fail_msg("no section in %s", p.out);
  return s;
}

static double number(const cJSON *s, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(s, name);
  if (!cJSON_IsNumber(v)) fail_msg("no %s in %s", name, p.out);
  return v->valuedouble;
}

static void a_server_is_measured_by_what_it_sends(void **state) {
  cJSON *report;
  long long before = origin.sent;
  const cJSON *s = section_of(NULL, &report);
  assert_true(number(s, "latency_ms") > 0);
  assert_true(number(s, "bytes_per_record") >= 2 * LENGTH);
  assert_true(number(s, "mb_per_s_with_1") > 0 && number(s, "mb_per_s_with_4") > 0);
  double most = number(s, "mb_per_s_with_8"), sent = (double)(origin.sent - before);
  assert_true(most > 0 &&
              most * 1e6 < sent * 2); /* three quarters of a second of all that was sent */
  assert_true(number(s, "records_per_s") > 0);
  assert_null(cJSON_GetObjectItem(s, "keeps_up"));
  cJSON_Delete(report);
}

static void want_verdict(const char *rate, bool keeps_up) {
  cJSON *report;
  const cJSON *s = section_of(rate, &report);
  assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(s, "keeps_up")), keeps_up);
  assert_int_equal(cJSON_HasObjectItem(s, "cache"), !keeps_up);
  assert_non_null(strstr(cJSON_GetObjectItem(s, "verdict")->valuestring,
                         keeps_up ? "keeps up; connections=" : "the server limits"));
  cJSON_Delete(report);
}

static void the_verdict_follows_from_the_rate(void **state) {
  want_verdict("1", true);
  want_verdict("1e9", false);
}

static void the_rate_may_be_a_runs(void **state) {
  static const char text[] =
      "{\"kind\":\"step\",\"step\":1,\"images_per_s\":9e9}\n"
      "{\"kind\":\"valid\",\"step\":1,\"images_per_s\":9e9}\n";
  char path[100], line[128];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  FILE *f = fopen(path, "w");
  fputs(text, f);
  for (int i = 0; i < 60; i++)
    fprintf(f, "{\"kind\":\"step\",\"step\":%d,\"images_per_s\":%d}\n", i + 2,
            i < 10 ? 1000000000 : 2);
  fclose(f);
  cJSON *report;
  const cJSON *s = section_of(dir, &report);
  assert_true(number(s, "model_records_per_s") == 2); /* of the last steps alone */
  cJSON_Delete(report);
  snprintf(line, sizeof line, "%s/none", dir);
  RUN(&p, "doctor", "--rate", "100");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "doctor: --rate: want a graph too"));
  RUN(&p, "doctor", graph, "--rate", line);
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "want the records a second"));
}

/* Steps before very many lines of other kinds, each of which is looked at once: a search to the end
   of the text from each of them would take hours. */
static void a_long_run_of_other_lines_is_read_once(void **state) {
  char path[100];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  FILE *f = fopen(path, "w");
  fputs("{\"kind\":\"step\",\"step\":1,\"images_per_s\":7}\n", f);
  for (int i = 0; i < 1000000; i++) fprintf(f, "{\"kind\":\"step\",\"step\":%d,\"loss\":1}\n", i);
  fputs("{\"kind\":\"step\",\"step\":2,\"images_per_s\":nan}\n\n", f);
  fputs("{\"kind\":\"step\",\"step\":2", f); /* cut off */
  assert_int_equal(fclose(f), 0);
  cJSON *report;
  const cJSON *s = section_of(dir, &report);
  assert_true(number(s, "model_records_per_s") == 7);
  cJSON_Delete(report);
}

/* What is read once and kept in memory never limits the steps. */
static void a_source_that_is_read_once_has_a_load_time_and_no_rate(void **state) {
  char before[sizeof graph];
  cJSON *report;
  strcpy(before, graph);
  memset(strstr(graph, "memory=0"), ' ', 8); /* by default it fits */
  const cJSON *s = section_of("1e9", &report);
  assert_true(number(s, "load_bytes") == sizeof tokens && number(s, "load_s") >= 0);
  assert_non_null(strstr(cJSON_GetObjectItem(s, "verdict")->valuestring, "is read once"));
  assert_false(cJSON_HasObjectItem(s, "keeps_up") || cJSON_HasObjectItem(s, "cache"));
  cJSON_Delete(report);
  strcpy(graph, before);
}

/* A server of these bytes, and the section about a graph that reads from it; %d in the graph's text
   is its port.  NULL without a section; the caller deletes *report. */
static const cJSON *section_from(const void *data, size_t n, const char *json, const char *text,
                                 cJSON **report) {
  char kept[sizeof graph];
  origin_t other;
  strcpy(kept, graph);
  origin_open(&other, data, n, 5);
  other.json = json;
  snprintf(graph, sizeof graph, text, other.port);
  RUN(&p, "doctor", graph, "--json", "--rate", "1e9");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  *report = cJSON_Parse(p.out);
  origin_close(&other);
  strcpy(graph, kept);
  return cJSON_GetObjectItem(*report, "servers of text");
}

/* An array that fits into memory is read once; one that does not, row by row. */
static void an_array_that_is_kept_is_a_load_and_no_rate(void **state) {
  enum { ROWS = 5000, EACH = 16 };
  static float x[ROWS][EACH];
  char path[100];
  void *file;
  size_t n;
  cJSON *report;
  snprintf(path, sizeof path, "%s/x.npy", dir);
  assert_int_equal(mr_npy_save(path, MR_F32, 2, (int64_t[]){ROWS, EACH}, x, NULL), MR_OK);
  assert_int_equal(mr_read_file(path, 1 << 20, &file, &n, NULL), MR_OK);
  const cJSON *s = section_from(file, n, NULL,
                                "npy fields=x:http://127.0.0.1:%d/x.npy connections=2 name=text ! "
                                "shuffle seed=1 ! batch 4 ! null",
                                &report);
  if (!s) fail_msg("no section in %s", p.out);
  assert_true(number(s, "load_bytes") == (double)n && number(s, "load_s") >= 0);
  assert_false(cJSON_HasObjectItem(s, "keeps_up") || cJSON_HasObjectItem(s, "bytes_per_record"));
  cJSON_Delete(report);
  s = section_from(file, n, NULL,
                   "npy fields=x:http://127.0.0.1:%d/x.npy connections=2 memory=0 name=text ! "
                   "shuffle seed=1 ! batch 4 ! null",
                   &report);
  if (!s) fail_msg("no section in %s", p.out);
  assert_false(cJSON_HasObjectItem(s, "load_bytes"));
  assert_true(cJSON_IsFalse(cJSON_GetObjectItem(s, "keeps_up")));
  assert_in_range((int)number(s, "bytes_per_record"), sizeof x[0], sizeof x[0] + 1);
  cJSON_Delete(report);
  free(file);
}

/* A compressed shard has been read when the graph is planned, so that no server limits the steps; a
   raw one is read record by record. */
static void a_shard_is_read_once_if_it_is_compressed(void **state) {
  enum { SAMPLES = 500, EACH = 300 };
  static uint8_t sample[EACH];
  static char index[2][1000];
  char text[300], zip[100];
  cJSON *report;
  mds_shard_t shard = {.columns =
                           "\"column_names\": [\"b\"], \"column_encodings\": [\"bytes\"], "
                           "\"column_sizes\": [null]"};
  for (int i = 0; i < SAMPLES; i++) {
    sample[0] = (uint8_t)i;
    mds_sample(&shard, &(uint32_t){EACH}, 4, sample, EACH);
  }
  image_t raw = mds_file(&shard), packed = {0};
  size_t most = ZSTD_compressBound(raw.n);
  packed.n = ZSTD_compress(image_add(&packed, NULL, most), most, raw.at, raw.n, 1);
  assert_false(ZSTD_isError(packed.n));
  snprintf(zip, sizeof zip, "{\"basename\": \"s.zstd\", \"bytes\": %zu, \"hashes\": {}}", packed.n);
  mds_index_add(index[0], sizeof index[0], "s.mds", raw.n, "", "null", "null");
  mds_index_add(index[1], sizeof index[1], "s.mds", raw.n, "", "\"zstd:1\"", zip);
  for (int i = 0; i < 2; i++) strcat(index[i], "]}");
  snprintf(text, sizeof text,
           "mds http://127.0.0.1:%%d/set connections=2 index=%s name=text ! shuffle seed=1 ! batch "
           "4 ! null",
           dir);
  const cJSON *s = section_from(raw.at, raw.n, index[0], text, &report);
  if (!s) fail_msg("no section in %s", p.out);
  assert_false(cJSON_HasObjectItem(s, "load_bytes"));
  assert_in_range((int)number(s, "bytes_per_record"), EACH, EACH + 20);
  cJSON_Delete(report);
  assert_null(section_from(packed.at, packed.n, index[1], text, &report));
  cJSON_Delete(report);
  mds_free(&shard), free(raw.at), free(packed.at);
}

/* A shuffled record costs its chunk; in the order of the file it costs its share of one. */
static void a_chunk_of_records_counts_for_all_of_them(void **state) {
  enum { CHUNKS = 8, EACH = 32, RECORD = 1000 };
  static uint8_t content[EACH * RECORD];
  char of_tokens[sizeof graph];
  origin_t other;
  ar_out_t file = {0};
  size_t size[EACH];
  cJSON *report;
  strcpy(of_tokens, graph);
  for (int i = 0; i < EACH; i++) size[i] = RECORD;
  for (int c = 0; c < CHUNKS; c++) {
    image_t data = ar_plain(content, size, EACH);
    ar_records(&file, EACH, EACH * RECORD, &data);
    free(data.at);
  }
  ar_end(&file);
  origin_open(&other, file.file.at, file.file.n, 5);
  snprintf(
      graph, sizeof graph,
      "arrayrecord http://127.0.0.1:%d/r.ar fields=__record__:r connections=1 name=text index=%s "
      "! shuffle seed=1 ! batch 4 ! null",
      other.port, dir);
  const cJSON *s = section_of(NULL, &report);
  assert_in_range((int)number(s, "bytes_per_record"), EACH * RECORD, EACH * RECORD + 1000);
  double each = number(s, "records_per_chunk"), shuffled = number(s, "records_per_s"),
         in_order = number(s, "records_per_s_in_file_order");
  assert_true(each > EACH / 2 && each <= EACH); /* the file has more than its chunks */
  assert_true(in_order > shuffled * (each - 1) && in_order < (shuffled + 1) * (each + 1));
  cJSON_Delete(report);
  origin_close(&other);
  ar_free(&file);
  strcpy(graph, of_tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_is_measured_by_what_it_sends),
      cmocka_unit_test(the_verdict_follows_from_the_rate),
      cmocka_unit_test(the_rate_may_be_a_runs),
      cmocka_unit_test(a_source_that_is_read_once_has_a_load_time_and_no_rate),
      cmocka_unit_test(an_array_that_is_kept_is_a_load_and_no_rate),
      cmocka_unit_test(a_shard_is_read_once_if_it_is_compressed),
      cmocka_unit_test(a_chunk_of_records_counts_for_all_of_them),
      cmocka_unit_test(a_long_run_of_other_lines_is_read_once),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
