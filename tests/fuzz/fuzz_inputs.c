/* What a checkpoint says of its inputs: the bytes are that text, in a file that is whole. */
#include "base/safetensors.h"
#include "stages/train/inputs.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static char text[1 << 16];
  static float x[4];
  mr_diag_t diag = {0};
  mr_train_inputs_t in;
  if (n >= sizeof text || memchr(data, 0, n)) return 0;
  memcpy(text, data, n), text[n] = 0;
  const mr_st_tensor_t t = {.name = "x", .dtype = MR_F32, .ndim = 1, .dim = {4}, .data = x};
  const mr_st_meta_t meta = {"millrace.inputs", text};
  const char *path = fuzz_file("inputs.safetensors", data, 0);
  if (mr_safetensors_write(path, &t, 1, &meta, 1, &diag) < 0) return 0;
  if (mr_train_inputs_read(path, &in, &diag) < 0) {
    fuzz_need(*diag.text, "a sentence");
    return 0;
  }
  for (int f = 0; f < in.spec.n_fields; f++) {
    const mr_field_t *field = &in.spec.field[f];
    char shown[200];
    fuzz_need(mr_field_name_ok(field->name) && field->dtype < MR_DTYPE_COUNT, "a field");
    fuzz_need(field->ndim >= 0 && field->ndim < MR_MAX_NDIM, "dimensions");
    if (field->classes) mr_classes_text(field->classes, shown, sizeof shown);
  }
  mr_train_inputs_fini(&in);
  return 0;
}
