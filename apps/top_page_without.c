/* Pages in a build without libcurl: open always fails, so the other calls are never reached. */
#include "apps/top_page.h"
#include "base/feature.h"

mr_err_t mr_top_page_open(const char *where, mr_top_page_t **out, mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, "top: the address of a page (a run's folder can be read)", "CURL");
}

void mr_top_page_close(mr_top_page_t *p) {}
const char *mr_top_page_name(const mr_top_page_t *p) { return NULL; }
char *mr_top_page_next(mr_top_page_t *p) { return NULL; }
bool mr_top_page_caught_up(const mr_top_page_t *p) { return false; }
const char *mr_top_page_over(mr_top_page_t *p) { return NULL; }
