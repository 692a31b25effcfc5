/* Lists of files with labels: what is taken stays in the folder and has a class. */
#include "loaders/formats/folder_list.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_folder_list_t l;
  mr_diag_t diag = {0};
  char *text = malloc(n + 1);
  memcpy(text, data, n);
  text[n] = 0; /* as mr_read_file leaves it */
  if (mr_folder_list_parse(&l, "list", text, n, 100, &diag) < 0)
    fuzz_need(*diag.text, "a sentence");
  for (int64_t i = 0; i < l.n; i++) {
    const char *path = mr_folder_path(&l, i);
    fuzz_need(l.file[i].label >= 0 && l.file[i].label < l.n_classes, "a class");
    fuzz_need(*path && *path != '/' && !strstr(path, "/../") && strcmp(path, ".."),
              "a path inside");
    fuzz_need(strlen(l.name[l.file[i].label]) < n, "a name");
  }
  if (l.n) /* an order of strings */
    for (int64_t i = 0; i + 1 < l.n; i++) {
      const char *a = mr_folder_path(&l, i), *b = mr_folder_path(&l, i + 1);
      int order = mr__folder_compare(a, strlen(a), b, strlen(b));
      fuzz_need(order == -mr__folder_compare(b, strlen(b), a, strlen(a)), "an order");
      fuzz_need(order || !strcmp(a, b), "only equal strings are equal");
    }
  mr_folder_list_free(&l);
  free(text);
  return 0;
}
