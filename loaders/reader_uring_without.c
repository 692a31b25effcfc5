/* The two io_uring ways in a build without liburing: open refuses with MR_ERR_UNAVAILABLE.
   reader_choose.c learns from mr_uring_refused that they are missing, and chooses between the other
   two. */
#include "loaders/reader_private.h"

int mr_uring_refused(void) { return MR_URING_NOT_BUILT_IN; }

static mr_err_t reader_uring_without_refuse(mr_reader_t *r, mr_diag_t *diag) {
  char text[MR_URING_REFUSED_MAX];
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s",
                 mr_uring_refused_text(MR_URING_NOT_BUILT_IN, text, sizeof text));
}

static void close_none(mr_reader_t *r) {}

const mr_reader_way_t mr__reader_uring = {.open = reader_uring_without_refuse, .close = close_none};
const mr_reader_way_t mr__reader_direct = {.open = reader_uring_without_refuse,
                                           .close = close_none};
