/* The tuning file of CUDA's products: what is read is printed as the same rows,
   and any other text is refused with a sentence. */
#include "model/backends/cuda/tunings.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_cuda_tunings_t t = {0}, again = {0};
  mr_diag_t diag = {0};
  if (mr__cuda_tunings_parse((const char *)data, n, &t, &diag) < 0) {
    fuzz_need(*diag.text, "a sentence");
  } else {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    mr__cuda_tunings_print(&t, f);
    fuzz_need(fclose(f) == 0, "memory");
    fuzz_need(mr__cuda_tunings_parse(text, size, &again, &diag) == MR_OK, diag.text);
    fuzz_need(again.n == t.n, "as many rows");
    for (size_t i = 0; i < t.n; i++) {
      const mr_cuda_tuning_t *r = &t.row[i];
      const mr_cuda_tuning_t *s = mr__cuda_tunings_find(&again, r->device, r->version, r->product);
      fuzz_need(s && s->workspace == r->workspace && s->ns == r->ns, "the same row");
      fuzz_need(!memcmp(s->algorithm, r->algorithm, sizeof r->algorithm), "the same algorithm");
    }
    free(text);
  }
  mr__cuda_tunings_fini(&t);
  mr__cuda_tunings_fini(&again);
  return 0;
}
