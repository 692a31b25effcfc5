/* Pages of a bucket's listing: what comes out has a name and a size, and no key leaves the folder.
 */
#include "loaders/formats/folder_list.h"
#include "loaders/remote/remote_private.h"
#include "tests/fuzz/fuzz.h"

static mr_err_t take(void *ctx, const mr_listed_t *f, mr_diag_t *diag) {
  bool is_file;
  fuzz_need(*f->path && f->size >= 0 && f->etag, "an object");
  return mr_folder_keys_add(ctx, f->path, f->etag, strlen(f->etag), &is_file, diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_folder_list_t l;
  mr_folder_keys_t k;
  mr__paged_t out;
  mr_diag_t diag = {0};
  char *page = malloc(n + 1);
  memcpy(page, data, n), page[n] = 0;
  mr_folder_keys_begin(&k, &l, "folder", 1000);
  mr_err_t e = mr__page_parse(page, n, take, &k, &out, &diag);
  fuzz_need((e >= 0 && !out.wrong) || out.wrong || *diag.text, "a sentence");
  free(page); /* nothing points there any more */
  mr_folder_keys_end(&k, true, e, &diag);
  for (int64_t i = 0; i < l.n; i++) {
    const char *path = mr_folder_path(&l, i);
    fuzz_need(*path && *path != '/' && !strstr(path, "/../") && strncmp(path, "../", 3), "inside");
    fuzz_need(l.file[i].label >= 0 && l.file[i].label < l.n_classes, "a class");
  }
  mr_folder_list_free(&l);
  return 0;
}
