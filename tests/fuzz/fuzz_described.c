/* Descriptions of CUDA's devices: what is read is printed as the same device, and any other text is
   refused with a sentence. */
#include "model/backends/cuda/described.h"
#include "tests/fuzz/fuzz.h"

static bool near(double a, double b) { return a - b <= 1e-5 * a && b - a <= 1e-5 * a; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_cuda_described_t d, again;
  mr_diag_t diag = {0};
  if (mr__cuda_described_parse((const char *)data, n, &d, &diag) < 0) {
    fuzz_need(*diag.text, "a sentence");
    return 0;
  }
  char *text = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&text, &size);
  mr__cuda_described_print(&d, f);
  fuzz_need(fclose(f) == 0, "memory");
  fuzz_need(mr__cuda_described_parse(text, size, &again, &diag) == MR_OK, diag.text);
  fuzz_need(!strcmp(again.name, d.name) && again.major == d.major && again.minor == d.minor,
            "the same device");
  fuzz_need(again.processors == d.processors && again.memory == d.memory, "the same size");
  fuzz_need(again.cublaslt == d.cublaslt && again.cudnn == d.cudnn, "the same libraries");
  fuzz_need(near(d.f32_gflops, again.f32_gflops) && near(d.bf16_gflops, again.bf16_gflops) &&
                near(d.copy_gbs, again.copy_gbs),
            "the same limits");
  free(text);
  return 0;
}
