/* Files of class names; the first byte says how many are wanted.  A terminal can show what is read.
 */
#include "base/text.h"
#include "loaders/local/class_names.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static mr_class_names_t names;
  static const char *usual[256];
  char shown[640], again[2560];
  mr_diag_t diag = {0};
  if (!n) return 0;
  for (int i = 0; i < 256; i++) usual[i] = "?";
  mr_err_t e = mr__class_names_usual(&names, usual, *data, &diag);
  if (e >= 0)
    e = mr__class_names_read(&names, NULL, fuzz_file("names.txt", data + 1, n - 1), *data, &diag);
  if (e < 0) {
    fuzz_need(*diag.text, "a sentence");
    fuzz_need(names.n == *data, "the usual names");
    return 0;
  }
  fuzz_need(*data ? names.n == *data : names.n > 0, "as many as are wanted");
  for (int i = 0; i < names.n; i++) {
    fuzz_need(mr__class_name_ok(names.name[i]), "a name of a class");
    mr_printable_cell(names.name[i], MR_CLASS_NAME_MAX, shown, sizeof shown);
    for (const char *c = shown; *c; c++) fuzz_need((unsigned char)*c >= 0x20 && *c != 0x7F, "text");
    fuzz_need(!strcmp(mr_printable_cell(shown, 640, again, sizeof again), shown), "nothing left");
  }
  return 0;
}
