/* The quarantine file that a resumed run reads: each line counts, a last one that a kill cut off
   does not, and no byte behind the file is read. */
#include <sys/mman.h>

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/loaders/shards.h"

static size_t page;
static char *kept; /* the text of the file, which ends where the readable memory does */

mr_err_t __real_mr_read_file(const char *path, size_t max, void **data, size_t *n, mr_diag_t *diag);
mr_err_t __wrap_mr_read_file(const char *path, size_t max, void **data, size_t *n, mr_diag_t *diag);
void __real_free(void *p);
void __wrap_free(void *p);

mr_err_t __wrap_mr_read_file(const char *path, size_t max, void **data, size_t *n,
                             mr_diag_t *diag) {
  mr_err_t e = __real_mr_read_file(path, max, data, n, diag);
  if (e < 0 || !strstr(path, "quarantine")) return e;
  kept = mmap(NULL, *n / page * page + 2 * page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(kept != MAP_FAILED);
  char *edge = kept + (*n + page - 1) / page * page;
  assert_int_equal(mprotect(edge, page, PROT_NONE), 0);
  kept = memcpy(edge - *n, *data, *n);
  __real_free(*data);
  *data = kept;
  return e;
}

/* The few pages stay until the program ends. */
void __wrap_free(void *p) {
  if (!p || p != kept) __real_free(p);
}

/* Runs over 20 records of 4 tokens, of which some have a token that there is not. */
static void run_stream(void) {
  static mr_registry_t reg;
  char text[400], file[128];
  mr_diag_t diag = {0};
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  snprintf(file, sizeof file, "%s", in_folder("t.bin"));
  snprintf(
      text, sizeof text,
      "tokens files=%s length=3 stride=4 dtype=u8 vocab=10 on-bad=quarantine:9 quarantine=%s ! "
      "sequential epochs=1 ! batch 2 ! null",
      file, in_folder("quarantine.jsonl"));
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0 || mr_graph_run(g, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

static char *read_lines(int *lines) {
  void *text;
  size_t n;
  mr_diag_t diag = {0};
  assert_int_equal(__real_mr_read_file(in_folder("quarantine.jsonl"), 1 << 20, &text, &n, &diag),
                   MR_OK);
  char *copy = strndup(text, n);
  __real_free(text);
  *lines = 0;
  for (const char *c = copy; *c; c++) *lines += *c == '\n';
  return copy;
}

static void write_lines(const char *text, const char *more) {
  char whole[8192];
  snprintf(whole, sizeof whole, "%s%s", text, more);
  write_file("quarantine.jsonl", whole, strlen(whole));
}

static void a_resumed_run_reads_its_quarantine_file_and_nothing_behind_it(void **state) {
  uint8_t token[81];
  int lines, again;
  page = (size_t)sysconf(_SC_PAGESIZE);
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
    __real_free(text);
  }
  /* A line that is cut off has no effect: its record is found bad once more. */
  for (char *end = strrchr(first, '\n'); end > first; end = NULL) {
    *end = 0;
    write_lines(first, "");
    run_stream();
    char *text = read_lines(&again);
    assert_true(strlen(text) > strlen(first));
    __real_free(text);
  }
  __real_free(first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_resumed_run_reads_its_quarantine_file_and_nothing_behind_it)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
