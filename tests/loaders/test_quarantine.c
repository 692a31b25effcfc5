/* The quarantine file: what a resumed run reads of it (each line counts, a last one that a kill cut
   off does not), how it is written, and that many bad records take no more than they must. */
#include <cjson/cJSON.h>

#include "base/npy.h"
#include "base/text.h"
#include "base/xio.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/loaders/shards.h"

static int n_writes, n_sentences;

mr_err_t __real_mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag);
mr_err_t __wrap_mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag);
int __real_mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap);
int __wrap_mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap);

mr_err_t __wrap_mr_write_all(int fd, const void *data, size_t n, const char *path,
                             mr_diag_t *diag) {
  if (strstr(path, "quarantine")) {
    n_writes++;
    assert_int_equal(((const char *)data)[n - 1], '\n'); /* whole lines */
  }
  return __real_mr_write_all(fd, data, n, path, diag);
}

int __wrap_mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap) {
  n_sentences += strstr(fmt, "the label of record") != NULL;
  return __real_mr_vsnprintf(to, n, fmt, ap);
}

static void run_text(const char *text) {
  static mr_registry_t reg;
  mr_diag_t diag = {0};
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0 || mr_graph_run(g, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

/* Runs over 20 records of 4 tokens, of which some have a token that there is not. */
static void run_stream(void) {
  char text[400], file[128];
  snprintf(file, sizeof file, "%s", in_folder("t.bin"));
  snprintf(
      text, sizeof text,
      "tokens files=%s length=3 stride=4 dtype=u8 vocab=10 on-bad=quarantine:9 quarantine=%s ! "
      "sequential epochs=1 ! batch 2 ! null",
      file, in_folder("quarantine.jsonl"));
  run_text(text);
}

static char *read_lines(int *lines) {
  void *text;
  size_t n;
  mr_diag_t diag = {0};
  assert_int_equal(mr_read_file(in_folder("quarantine.jsonl"), 1 << 24, &text, &n, &diag), MR_OK);
  char *copy = strndup(text, n);
  free(text);
  *lines = 0;
  for (const char *c = copy; *c; c++) *lines += *c == '\n';
  return copy;
}

static void write_lines(const char *text, const char *more) {
  char whole[8192];
  snprintf(whole, sizeof whole, "%s%s", text, more);
  write_file("quarantine.jsonl", whole, strlen(whole));
}

static void a_resumed_run_reads_its_quarantine_file(void **state) {
  uint8_t token[81];
  int lines, again;
  for (int i = 0; i < 81; i++) token[i] = (uint8_t)(i % 10);
  token[5] = token[33] = token[70] = 200;
  write_file("t.bin", token, sizeof token);
  run_stream();
  char *first = read_lines(&lines);
  assert_int_equal(lines, 3);
  /* Each line is known: none is written again.  A last line without its end is not one. */
  static const char *const more[] = {"", "\n", "\n\n\n", "{\"source\":", "no JSON\n", "{}\n{}\n{}"};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    write_lines(first, more[i]);
    run_stream();
    char *text = read_lines(&again);
    assert_int_equal(strlen(text), strlen(first) + strlen(more[i]));
    free(text);
  }
  /* A line that is cut off has no effect: its record is found bad once more, and is known then. */
  for (char *end = strrchr(first, '\n'); end > first; end = NULL) {
    *end = 0;
    write_lines(first, "");
    run_stream();
    char *text = read_lines(&again);
    assert_int_equal(again, 4);
    run_stream();
    char *later = read_lines(&again);
    assert_string_equal(later, text);
    free(text), free(later);
  }
  free(first);
}

/* ---- many bad records ---- */

enum { MANY = 4096 };

/* Every second record has a label that there is not, in files of these names. */
static void write_arrays(const char *images, const char *labels) {
  static uint8_t image[2 * MANY * 3];
  static int32_t label[2 * MANY];
  for (int i = 0; i < 2 * MANY; i++) label[i] = i % 2 ? 77 : 3;
  assert_int_equal(
      mr_npy_save(in_folder(images), MR_U8, 4, (int64_t[]){2 * MANY, 1, 1, 3}, image, NULL), MR_OK);
  assert_int_equal(mr_npy_save(in_folder(labels), MR_I32, 1, (int64_t[]){2 * MANY}, label, NULL),
                   MR_OK);
}

static void a_bad_record_costs_one_sentence_and_a_burst_one_write(void **state) {
  char text[600], file[2][128];
  int lines;
  write_arrays("x.npy", "y.npy");
  unlink(in_folder("quarantine.jsonl"));
  snprintf(file[0], sizeof file[0], "%s", in_folder("x.npy"));
  snprintf(file[1], sizeof file[1], "%s", in_folder("y.npy"));
  snprintf(
      text, sizeof text,
      "npy images=%s labels=%s classes=10 on-bad=quarantine:%d quarantine=%s ! shuffle seed=1 ! "
      "batch 64 workers=1 ! null",
      file[0], file[1], MANY, in_folder("quarantine.jsonl"));
  n_writes = n_sentences = 0;
  run_text(text);
  free(read_lines(&lines));
  assert_int_equal(lines, MANY);
  assert_int_equal(n_sentences, MANY);
  assert_true(n_writes <= 2 * MANY / MR_BURST);
  n_writes = n_sentences = 0;
  run_text(text); /* each is known now */
  assert_int_equal(n_writes + n_sentences, 0);
}

/* A name of a stage or a file may hold any byte but 0 and '/'. */
static void lines_are_json_whatever_files_are_called(void **state) {
  char text[600], file[2][128];
  int lines;
  write_arrays("a \"b\\\x01\x1f\x7f\xC3\xA4.npy", "y.npy");
  unlink(in_folder("quarantine.jsonl"));
  snprintf(file[0], sizeof file[0], "%s", in_folder("a \\\"b\\\\\x01\x1f\x7f\xC3\xA4.npy"));
  snprintf(file[1], sizeof file[1], "%s", in_folder("y.npy"));
  snprintf(text, sizeof text,
           "npy images=\"%s\" labels=%s classes=10 on-bad=quarantine:%d quarantine=%s ! shuffle "
           "seed=1 ! "
           "batch 64 ! null",
           file[0], file[1], MANY, in_folder("quarantine.jsonl"));
  run_text(text);
  char *all = read_lines(&lines), *at = all;
  assert_int_equal(lines, MANY);
  for (char *end; (end = strchr(at, '\n')); at = end + 1) {
    cJSON *o = cJSON_ParseWithLength(at, (size_t)(end - at));
    assert_non_null(o);
    double index = cJSON_GetObjectItem(o, "index")->valuedouble;
    assert_string_equal(cJSON_GetObjectItem(o, "source")->valuestring, "npy");
    assert_true((int)index % 2 && index < 2 * MANY);
    assert_true(cJSON_GetObjectItem(o, "id")->valuedouble == index);
    assert_string_equal(strrchr(cJSON_GetObjectItem(o, "file")->valuestring, '/') + 1,
                        "a \"b\\\x01\x1f\x7f\xC3\xA4.npy");
    assert_non_null(strstr(cJSON_GetObjectItem(o, "reason")->valuestring, "want classes=N"));
    assert_true((int)cJSON_GetObjectItem(o, "replacement")->valuedouble % 2 == 0);
    cJSON_Delete(o);
  }
  free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_resumed_run_reads_its_quarantine_file),
      cmocka_unit_test(a_bad_record_costs_one_sentence_and_a_burst_one_write),
      cmocka_unit_test(lines_are_json_whatever_files_are_called),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
