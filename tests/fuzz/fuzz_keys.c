/* Key files of links: what is read are two keys of 40 letters that belong together. */
#include "links/curve_key.h"

#include <zmq.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char own[MR_CURVE_KEY_TEXT], secret[MR_CURVE_KEY_TEXT], derived[MR_CURVE_KEY_TEXT];
  mr_diag_t diag = {0};
  const char *file = fuzz_file("a.key", data, n);
  fuzz_need(chmod(file, 0600) == 0, "chmod");
  if (mr_curve_key_read_secret(file, own, secret, &diag) >= 0) {
    fuzz_need(strlen(own) == 40 && strlen(secret) == 40, "40 letters");
    fuzz_need(zmq_curve_public(derived, secret) == 0 && !strcmp(derived, own), "a pair");
  } else {
    fuzz_need(*diag.text, "a sentence");
  }
  diag = (mr_diag_t){0};
  if (mr_curve_key_read_public(file, own, &diag) >= 0)
    fuzz_need(strlen(own) == 40, "40 letters");
  else
    fuzz_need(*diag.text, "a sentence");
  return 0;
}
