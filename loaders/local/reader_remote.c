/* Reads of objects: all of a call are in flight together.  Neighbours are not merged, since what
   was fetched ahead is found by exactly the part that was announced; but bytes that are read once,
   in order, are loaded in as large parts as they come. */
#include <stdlib.h>

#include "loaders/local/reader_private.h"

static mr_err_t reader_remote_open(mr_reader_t *r, mr_diag_t *diag) { return MR_OK; }
static void reader_remote_close(mr_reader_t *r) {}

/* Reads that follow each other in the object and in memory are one. */
static mr_err_t load_objects(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  for (size_t i = 0; i < n;) {
    const mr_object_t *o = r->object[read[i].file];
    mr_remote_want_t want = {o, read[i].offset, (int64_t)read[i].len, read[i].dst};
    size_t k = i + 1;
    for (; k < n && read[k].file == read[i].file && read[k].offset == want.at + want.size &&
           read[k].dst == (char *)want.to + want.size;
         k++)
      want.size += (int64_t)read[k].len;
    if (want.at > o->size - want.size) return mr__reader_fail(r, &read[k - 1], 0, diag);
    MR_TRY(mr_remote_load(r->remote, &want, true, diag));
    i = k;
  }
  return MR_OK;
}

static mr_err_t read_objects(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  if (r->once) return load_objects(r, read, n, diag);
  mr_remote_want_t *want = malloc((n + 1) * sizeof *want);
  mr_err_t e = want ? MR_OK : mr_no_memory(diag, "%zu reads", n);
  for (size_t i = 0; i < n && e >= 0; i++) {
    want[i] = (mr_remote_want_t){r->object[read[i].file], read[i].offset, (int64_t)read[i].len,
                                 read[i].dst};
    if (want[i].at > want[i].object->size - want[i].size) e = mr__reader_fail(r, &read[i], 0, diag);
  }
  if (e >= 0) e = mr_remote_read(r->remote, want, (int)n, diag);
  free(want);
  return e;
}

const mr_reader_way_t mr__reader_remote = {
    .open = reader_remote_open, .close = reader_remote_close, .read = read_objects};
