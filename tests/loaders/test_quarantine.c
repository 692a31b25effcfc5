/* The quarantine file: what a resumed run reads of it (each line counts, a last one that a kill cut
   off does not), how it is written, and that many bad records take no more than they must. */
#include <cjson/cJSON.h>

#include "base/npy.h"
#include "base/text.h"
#include "base/xio.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/records/care_private.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/loaders/shards.h"

static int n_writes, n_sentences;
static int n_full; /* writes to come that a full disk cuts off halfway */

mr_err_t __real_mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag);
mr_err_t __wrap_mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag);
int __real_mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap);
int __wrap_mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap);

mr_err_t __wrap_mr_write_all(int fd, const void *data, size_t n, const char *path,
                             mr_diag_t *diag) {
  if (strstr(path, "quarantine")) {
    n_writes++;
    assert_int_equal(((const char *)data)[n - 1], '\n'); /* whole lines */
    if (n_full) {
      n_full--;
      assert_int_equal(__real_mr_write_all(fd, data, n / 2, path, diag), MR_OK);
      return mr_fail(diag, MR_ERR_IO, "%s: No space left on device", path);
    }
  }
  return __real_mr_write_all(fd, data, n, path, diag);
}

int __wrap_mr_vsnprintf(char *to, size_t n, const char *fmt, va_list ap) {
  n_sentences += strstr(fmt, "the label of record") != NULL;
  return __real_mr_vsnprintf(to, n, fmt, ap);
}

static mr_graph_t *parse_text(const char *text) {
  static mr_registry_t reg;
  mr_diag_t diag = {0};
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

static void run_text(const char *text) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parse_text(text);
  if (mr_graph_run(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

/* Of 20 records of 4 tokens: 1, 8 and 17 have a token that there is not. */
static void write_tokens(void) {
  uint8_t token[81];
  for (int i = 0; i < 81; i++) token[i] = (uint8_t)(i % 10);
  token[5] = token[33] = token[70] = 200;
  write_file("t.bin", token, sizeof token);
}

static mr_graph_t *parse_stream(void) {
  char text[400], file[128];
  snprintf(file, sizeof file, "%s", in_folder("t.bin"));
  snprintf(
      text, sizeof text,
      "tokens files=%s length=3 stride=4 dtype=u8 vocab=10 on-bad=quarantine:9 quarantine=%s ! "
      "sequential epochs=1 ! batch 2 ! null",
      file, in_folder("quarantine.jsonl"));
  return parse_text(text);
}

static void run_stream(void) {
  mr_diag_t diag = {0};
  mr_graph_t *g = parse_stream();
  if (mr_graph_run(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
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
  int lines, again;
  write_tokens();
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

/* ---- a full disk ---- */

/* Opens the source of the stream alone. */
static mr_stage_t *open_source(mr_graph_t **g) {
  static mr_diag_t diag;
  diag = (mr_diag_t){0};
  *g = parse_stream();
  if (mr_graph_settle(*g, &diag) < 0) fail_msg("%s", diag.text);
  mr_stage_t *s = mr_graph_stage_of(*g, "tokens");
  s->diag = &diag;
  if (mr__care_open(s) < 0 || s->def->open(s) < 0) fail_msg("%s", diag.text);
  return s;
}

static void close_source(mr_stage_t *s, mr_graph_t *g) {
  s->def->close(s);
  mr__care_close(s);
  mr_graph_destroy(g);
}

/* Workers that have not yet heard of the failure find further bad records, and there may be room
   for these: the next start must know each whose write has succeeded. */
static void a_line_cut_by_a_full_disk_takes_no_other_with_it(void **state) {
  static const int64_t bad[] = {1, 8, 17};
  write_tokens();
  for (int full = 1; full <= 2; full++) {
    int64_t other[3];
    mr_graph_t *g;
    unlink(in_folder("quarantine.jsonl"));
    mr_stage_t *s = open_source(&g);
    n_full = full;
    for (int i = 0; i < 3; i++) {
      int32_t room[MR_FIELDS_MAX][4];
      mr_value_t value[MR_FIELDS_MAX];
      for (int f = 0; f < MR_FIELDS_MAX; f++) value[f] = (mr_value_t){.data = room[f]};
      mr_rec_t rec = {.field = value};
      int64_t index = bad[i];
      assert_int_equal(mr__care_fetch(s, 0, &index, 1, &rec), i < full ? MR_ERR_IO : MR_OK);
      other[i] = index;
    }
    close_source(s, g);
    s = open_source(&g);
    struct mr__care *t = mr__care_of(s)->rt;
    assert_int_equal(mr__care_n_bad(t), 3 - full);
    for (int i = full; i < 3; i++) {
      const bad_t *row = mr__care_bad(t, bad[i]);
      assert_non_null(row);
      assert_int_equal(row->other, other[i]);
    }
    close_source(s, g);
  }
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
      cmocka_unit_test(a_line_cut_by_a_full_disk_takes_no_other_with_it),
      cmocka_unit_test(a_bad_record_costs_one_sentence_and_a_burst_one_write),
      cmocka_unit_test(lines_are_json_whatever_files_are_called),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
