/* Files that are cut short while a graph reads them, by every way of reading. */
#include <unistd.h>

#include "tests/loaders/streams.h"

enum { FILES = 5, PER_FILE = 400, RECORD = 3073 };

static char folder[64], path[FILES][96];

static void cut(int64_t bytes) {
  for (int f = 0; f < FILES; f++) assert_int_equal(truncate(path[f], bytes), 0);
}

static mr_err_t cutter_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  mr_buf_unref(b);
  cut(1000);
  return MR_OK;
}

static const mr_stage_def_t cutter = {.name = "cutter",
                                      .help = "Cuts the files short.",
                                      .in = {{"in", MR_FLOW_BATCHES, false}},
                                      .step = &(const mr_step_def_t){.run = cutter_step}};
static const mr_stage_def_t *const own[] = {&cutter, NULL};

static int setup(void **state) {
  strcpy(folder, "/tmp/mr-cut-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  for (int f = 0; f < FILES; f++) {
    snprintf(path[f], sizeof path[f], "%s/data_batch_%d.bin", folder, f + 1);
    FILE *o = fopen(path[f], "wb"); /* zeros are records of class 0 */
    if (!o || fclose(o)) return -1;
  }
  return 0;
}

static int teardown(void **state) {
  for (int f = 0; f < FILES; f++) unlink(path[f]);
  return rmdir(folder);
}

static void a_running_graph_fails_with_a_sentence(void **state) {
  static const char *const way[] = {"mmap", "pread", "uring"};
  stream_stages = own;
  for (int k = 0; k < 3; k++) {
    char text[512];
    mr_diag_t d = {0};
    cut(PER_FILE * RECORD);
    snprintf(text, sizeof text,
             "cifar10 path=%s records=%d holdout=0 backend=%s memory=0 ! shuffle seed=1 epochs=0 "
             "! batch 32 workers=2 name=b  b. ! cutter  b.",
             folder, PER_FILE, way[k]);
    mr_graph_t *g = stream_graph(text);
    stream_t t = {0};
    stream_now = &t;
    mr_err_t e = mr_graph_run(g, &d);
    mr_graph_destroy(g);
    stream_free(&t);
    if (e == MR_ERR_UNAVAILABLE) continue; /* a kernel without io_uring */
    /* The second worker opens its reader with its first burst: before the cut, or after it. */
    if (e != MR_ERR_DATA ||
        (!strstr(d.text, ".bin: ends at byte ") && !strstr(d.text, ".bin: 1000 bytes, want ")))
      fail_msg("%s: %d \"%s\"", way[k], e, d.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_running_graph_fails_with_a_sentence, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
