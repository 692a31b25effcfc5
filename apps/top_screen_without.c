/* The screen of top in a build without ncurses: unavailable. */
#include "apps/top_run.h"
#include "base/feature.h"

mr_err_t mr_top_watch(mr_top_t *t, mr_diag_t *diag) {
  return mr_without(diag, "top: the screen (--once prints the numbers)", "NCURSES");
}
