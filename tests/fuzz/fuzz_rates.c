/* Tables of rates: a text is read with numbers that predict a time, or refused with a sentence. */
#include <math.h>

#include "model/mesh/rates.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_rates_t r;
  mr_diag_t diag = {0};
  if (mr_rates_parse((const char *)data, n, &r, &diag) < 0) {
    fuzz_need(*diag.text, "a sentence");
    return 0;
  }
  double s = mr_rates_call(&r, 3, 1e6) + mr_rates_equation(&r, MR_BF16, 1e6, 1e6);
  fuzz_need(isfinite(s) && s > 0 && *r.source, "a time");
  return 0;
}
