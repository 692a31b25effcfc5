/* safetensors files and checkpoints.  The digest is put right first, so that what lies behind it is
   reached. */
#include "base/safetensors.h"

#include <xxhash.h>

#include "pipeline/graph/graph.h"
#include "stages/train/computes.h"
#include "stages/train/export.h"
#include "tests/fuzz/fuzz.h"

enum { DIGITS = 16 };

static void put_digest(uint8_t *file, size_t n) {
  static const char key[] = "\"millrace.xxh3\":\"";
  uint8_t *at = memmem(file, n, key, sizeof key - 1);
  if (!at || (size_t)(file + n - at) < sizeof key - 1 + DIGITS) return;
  char text[DIGITS + 1];
  at += sizeof key - 1;
  memset(at, '0', DIGITS);
  snprintf(text, sizeof text, "%016llx", (unsigned long long)XXH3_64bits(file, n));
  memcpy(at, text, DIGITS);
}

static void look(const mr_safetensors_t *f) {
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(f, i);
    size_t bytes = mr_dtype_size(t->dtype);
    for (int d = 0; d < t->ndim; d++) bytes *= (size_t)t->dim[d];
    const volatile uint8_t *data = t->data;
    if (bytes) (void)(data[0] ^ data[bytes - 1]);
    fuzz_need(mr_safetensors_find(f, t->name) != NULL, "a tensor is not found by its name");
  }
}

/* Scales of fp8 are copied out of any file that has them, or refused. */
static void look_for_scales(const mr_safetensors_t *f) {
  for (int history = 1; history <= 3; history++) {
    mr_train_fp8_t state = {0};
    mr_diag_t diag = {0};
    if (mr__computes_load_fp8(f, "file", history, &state, &diag) < 0)
      fuzz_need(diag.text[0] != 0, "a refusal has no sentence");
    else
      fuzz_need(state.n > 0 && state.history == history && state.scale[0] > 0, "impossible scales");
    free(state.scale);
  }
}

/* A resume from the file: a graph gets the streams that it holds. */
static void resume(const char *path) {
  static const char text[] = "range 9 ! to-iter-dataset ! random-map seed=1 ! batch 2 ! rebatch 3";
  mr_train_progress_t at;
  mr_diag_t diag = {0};
  if (mr_train_state_progress(path, &at, &diag) < 0) return;
  mr_graph_t *g = mr_graph_create(fuzz_stages());
  fuzz_need(mr_graph_parse(g, text, NULL, 0, &diag) >= 0, diag.text);
  for (int i = 0; i < MR_TRAIN_STREAMS; i++)
    if (at.stream_known[i]) mr_graph_resume(g, "rebatch", &at.stream[i], &diag);
  mr_graph_destroy(g);
}

/* Whatever the file says and holds, its weights are exported whole or refused. */
static void export_weights(const char *path) {
  static const char *const format[] = {"timm", "flax", "hf", "torchvision"};
  for (int i = 0; i < 4; i++) {
    static mr_export_t made;
    char out[160];
    mr_diag_t diag = {0};
    mr_safetensors_t *f;
    snprintf(out, sizeof out, "%s/exported.safetensors", fuzz_folder());
    if (mr_train_export(path, format[i], out, &made, &diag) < 0) {
      fuzz_need(diag.text[0] != 0, "a refusal has no sentence");
      continue;
    }
    fuzz_need(mr_safetensors_open(out, &f, &diag) >= 0, diag.text);
    look(f);
    mr_safetensors_close(f);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n > 1 << 16) return 0;
  uint8_t *file = malloc(n + 1);
  memcpy(file, data, n);
  put_digest(file, n);
  const char *path = fuzz_file("file.safetensors", file, n);
  free(file);
  mr_diag_t diag = {0};
  mr_safetensors_t *f;
  if (mr_safetensors_open(path, &f, &diag) >= 0) {
    look(f);
    look_for_scales(f);
    mr_safetensors_close(f);
  }
  char model[MR_MODEL_TEXT];
  diag = (mr_diag_t){0};
  mr_train_state_model(path, model, &diag);
  resume(path);
  export_weights(path);
  return 0;
}
