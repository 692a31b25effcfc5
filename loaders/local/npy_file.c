/* Local files go by the calls of base/npy.h.  Of an object the first bytes are requested for its
   header, before all objects are known; all others come through the cache and the peers. */
#include "loaders/local/npy_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ALIGN = 64 };
#define LOAD_MAX ((int64_t)1 << 34) /* as mr_npy_load */

mr_err_t mr_npy_file_find(mr_npy_file_t *f, mr_remote_t **remote, const mr_remote_conf_t *conf,
                          mr_diag_t *diag) {
  if (!strncasecmp(f->path, "file://", 7)) {
    f->path = f->own = mr_remote_shown(f->path);
    return f->own ? MR_OK : mr_no_memory(diag, "the name of a file");
  }
  if (!mr_remote_is(f->path)) return MR_OK;
  if (!*remote) MR_TRY(mr_remote_open(remote, conf, diag));
  MR_TRY(mr_remote_object(*remote, f->path, &f->object, diag));
  f->remote = *remote, f->path = f->object->name;
  return MR_OK;
}

void mr_npy_file_forget(mr_npy_file_t *f) {
  free(f->own);
  *f = (mr_npy_file_t){0};
}

static mr_err_t npy_room(const mr_npy_file_t *f, size_t n, void **out, mr_diag_t *diag) {
  *out = aligned_alloc(ALIGN, n / ALIGN * ALIGN + ALIGN);
  return *out ? MR_OK : mr_no_memory(diag, "%s, %zu bytes", f->path, n);
}

mr_err_t mr_npy_file_peek(const mr_npy_file_t *f, mr_npy_t *out, size_t *offset, mr_diag_t *diag) {
  void *head;
  if (!f->object) return mr_npy_peek(f->path, out, offset, diag);
  int64_t size = f->object->size, n = size < MR_NPY_HEADER_MAX ? size : MR_NPY_HEADER_MAX;
  MR_TRY(npy_room(f, (size_t)n, &head, diag));
  mr_remote_want_t want = {f->object, 0, n, head};
  mr_err_t e = mr_remote_read(f->remote, &want, 1, diag);
  if (e >= 0) e = mr_npy_header(f->path, head, (size_t)n, out, offset, diag);
  free(head);
  return e < 0 ? e : mr_npy_check_size(f->path, out, (size_t)size - *offset, diag);
}

mr_err_t mr_npy_file_load(const mr_npy_file_t *f, mr_npy_t *out, mr_diag_t *diag) {
  void *file;
  *out = (mr_npy_t){0};
  if (!f->object) return mr_npy_load(f->path, out, diag);
  if (f->object->size > LOAD_MAX)
    return mr_fail(diag, MR_ERR_DATA, "%s: %" PRId64 " bytes, want at most %" PRId64, f->path,
                   f->object->size, LOAD_MAX);
  MR_TRY(mr_npy_file_part(f, MR_READ_AUTO, 0, (size_t)f->object->size, &file, diag));
  mr_err_t e = mr_npy_parse(f->path, file, (size_t)f->object->size, out, diag);
  free(file);
  return e;
}

mr_err_t mr_npy_file_reader(const mr_npy_file_t *f, mr_read_way_t backend, bool once,
                            mr_reader_t **out, mr_diag_t *diag) {
  mr_reader_conf_t conf = {.path = &f->path,
                           .n_files = 1,
                           .remote = f->remote,
                           .object = f->object ? &f->object : NULL,
                           .backend = backend,
                           .once = once};
  return mr_reader_open(out, &conf, diag);
}

mr_err_t mr_npy_file_part(const mr_npy_file_t *f, mr_read_way_t backend, size_t at, size_t n,
                          void **out, mr_diag_t *diag) {
  mr_reader_t *r = NULL;
  MR_TRY(npy_room(f, n, out, diag));
  mr_err_t e = mr_npy_file_reader(f, backend, true, &r, diag);
  if (e >= 0 && n) e = mr_reader_read_big(r, 0, (int64_t)at, n, *out, diag);
  mr_reader_close(r);
  if (e < 0) free(*out), *out = NULL;
  return e;
}
