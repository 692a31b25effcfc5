/* The metrics of an earlier run, cut back on resume: whole lines stay, what is left is cut to
   itself when it is cut again. */
#include "base/xio.h"

#include "tests/fuzz/fuzz.h"

static void resume(const char *path) {
  char setting[160];
  snprintf(setting, sizeof setting, "path=%s", path);
  fuzz_stage_t f;
  fuzz_open(&f, "jsonl", FUZZ_SETTINGS(setting, "resume-step=5"));
  fuzz_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  void *once, *twice;
  size_t n_once, n_twice;
  const char *path = fuzz_file("metrics.jsonl", data, n);
  resume(path);
  fuzz_need(mr_read_file(path, 1 << 24, &once, &n_once, NULL) >= 0, "reading once");
  resume(path);
  fuzz_need(mr_read_file(path, 1 << 24, &twice, &n_twice, NULL) >= 0, "reading twice");
  fuzz_need(n_once <= n && n_once == n_twice && !memcmp(once, twice, n_once),
            "a second cut changes the file");
  fuzz_need(n_once == 0 || ((char *)once)[n_once - 1] == '\n', "half a line is left");
  free(once), free(twice);
  return 0;
}
