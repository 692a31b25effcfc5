/* Rows of the arrays of .npz files as records.  numpy.savez stores its arrays uncompressed, so that
   the offset of a row follows from its index; the directory at the end of the zip names the arrays.

   Source of the format: PKWARE, "APPNOTE - .ZIP File Format Specification". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/npy.h"
#include "loaders/formats/npz_classes.h"
#include "loaders/formats/row_columns.h"
#include "loaders/formats/turned_rows.h"
#include "loaders/shards/shard_typed.h"

enum {
  END = 0x06054b50,
  END_BYTES = 22,
  END_64 = 0x06064b50,
  END_64_BYTES = 56,
  LOCATOR_64 = 0x07064b50,
  LOCATOR_64_BYTES = 20,
  CENTRAL = 0x02014b50,
  CENTRAL_BYTES = 46,
  LOCAL = 0x04034b50,
  LOCAL_BYTES = 30,
  COMMENT_MAX = 65535,
  DIRECTORY_MAX = 16 << 20,
  HEADER_MAX = 65536 /* of an array */
};

typedef struct npz {
  mr_shard_file_t *file;
  int64_t size;
  const char *path;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  uint8_t *directory; /* [n_directory] */
  int64_t n_directory, n_entries;
  mr_row_array_t *array; /* [n_entries]; the names lie in the directory */
  int n;
} npz_t;

static uint16_t npz_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t npz_u32(const uint8_t *p) { return npz_u16(p) | (uint32_t)npz_u16(p + 2) << 16; }
static uint64_t npz_u64(const uint8_t *p) { return npz_u32(p) | (uint64_t)npz_u32(p + 4) << 32; }

/* A fault of the contents ends the scan with MR_END. */
static mr_err_t npz_fault(npz_t *z, const char *what) {
  mr_fail(z->fault, MR_ERR_DATA, "%s: %s", z->path, what);
  return MR_END;
}

static mr_err_t npz_read(npz_t *z, int64_t at, void *to, int64_t n) {
  if (at < 0 || n > z->size || at > z->size - n)
    return npz_fault(z, "ends early, or is not an .npz file");
  mr_err_t e = mr_shard_file_read(z->file, at, to, (size_t)n, z->diag);
  return e == MR_END ? npz_fault(z, "has become shorter") : e;
}

/* Finds the directory: behind a comment of unknown length there is nothing more. */
static mr_err_t find_directory(npz_t *z, int64_t *at) {
  int64_t n = z->size < COMMENT_MAX + END_BYTES ? z->size : COMMENT_MAX + END_BYTES;
  uint8_t *tail = malloc((size_t)n + 1), more[END_64_BYTES];
  if (!tail) return mr_no_memory(z->diag, "the end of %s", z->path);
  mr_err_t e = npz_read(z, z->size - n, tail, n);
  int64_t end = n - END_BYTES;
  while (e == MR_OK && end >= 0 &&
         (npz_u32(tail + end) != END || end + END_BYTES + npz_u16(tail + end + 20) != n))
    end--;
  if (e == MR_OK && end < 0)
    e = npz_fault(z, "is not an .npz file, or ends early: it has no directory");
  if (e == MR_OK) {
    z->n_entries = npz_u16(tail + end + 10), z->n_directory = npz_u32(tail + end + 12);
    *at = npz_u32(tail + end + 16);
    bool wide = end >= LOCATOR_64_BYTES && npz_u32(tail + end - LOCATOR_64_BYTES) == LOCATOR_64;
    if (wide) e = npz_read(z, (int64_t)npz_u64(tail + end - 12), more, END_64_BYTES);
    if (wide && e == MR_OK && npz_u32(more) != END_64) e = npz_fault(z, "has a damaged directory");
    if (wide && e == MR_OK)
      z->n_entries = (int64_t)npz_u64(more + 32), z->n_directory = (int64_t)npz_u64(more + 40),
      *at = (int64_t)npz_u64(more + 48);
  }
  free(tail);
  return e;
}

static mr_err_t read_directory(npz_t *z) {
  int64_t at = 0;
  mr_err_t e = find_directory(z, &at);
  if (e != MR_OK) return e;
  if (z->n_directory < 0 || z->n_directory > DIRECTORY_MAX || z->n_entries < 0 ||
      z->n_entries > z->n_directory / CENTRAL_BYTES)
    return npz_fault(z, "has a damaged directory");
  z->directory = malloc((size_t)z->n_directory + 1);
  z->array = calloc((size_t)z->n_entries + 1, sizeof *z->array);
  if (!z->directory || !z->array) return mr_no_memory(z->diag, "the directory of %s", z->path);
  return npz_read(z, at, z->directory, z->n_directory);
}

/* Replaces numbers that a directory entry leaves to its zip64 field. */
static void widen_entry(const uint8_t *extra, size_t n, uint64_t value[3]) {
  while (n >= 4) {
    size_t size = npz_u16(extra + 2), at = 4;
    if (size > n - 4) return;
    for (int i = 0; i < 3 && npz_u16(extra) == 1; i++) {
      if (value[i] != UINT32_MAX) continue;
      if (at + 8 > size + 4) return;
      value[i] = npz_u64(extra + at), at += 8;
    }
    extra += size + 4, n -= size + 4;
  }
}

static void refuse_array(mr_row_array_t *a, const char *why) {
  a->refused = true;
  snprintf(a->why_text, sizeof a->why_text, "%.*s", (int)sizeof a->why_text - 1, why);
}

/* Takes type and shape; bytes: what the entry holds behind its header. */
static mr_err_t take_array(npz_t *z, const mr_npy_t *npy, int64_t bytes, size_t offset,
                           mr_row_array_t *a) {
  if (npy->count * npy->size != (uint64_t)bytes) {
    mr_fail(z->fault, MR_ERR_DATA, "%s: array %.*s: its size is not that of its shape", z->path,
            (int)a->n_name, a->name);
    return MR_END;
  }
  bool as_is = npy->size == mr_dtype_size(npy->dtype), swapped = npy->swapped && npy->size > 1;
  a->kind = as_is            ? (swapped ? MR_TYPED_SWAPPED : MR_TYPED_PLAIN)
            : npy->size == 1 ? MR_TYPED_I8
            : npy->is_signed ? (swapped ? MR_TYPED_SWAPPED_I16 : MR_TYPED_I16)
                             : (swapped ? MR_TYPED_SWAPPED_U16 : MR_TYPED_U16);
  a->fortran = npy->fortran && npy->ndim > 1;
  a->dtype = npy->dtype, a->ndim = npy->ndim, a->at += (int64_t)offset;
  memcpy(a->dim, npy->dim, sizeof a->dim);
  return MR_OK;
}

/* Reads the header of the array behind a local header, and checks that the array fills its entry.
 */
static mr_err_t read_array(npz_t *z, int64_t local, int64_t size, mr_row_array_t *a) {
  uint8_t head[LOCAL_BYTES];
  mr_npy_t npy;
  size_t offset = 0;
  mr_diag_t why = {0};
  mr_err_t e = npz_read(z, local, head, LOCAL_BYTES);
  if (e != MR_OK) return e;
  if (npz_u32(head) != LOCAL) return npz_fault(z, "has a damaged directory");
  a->at = local + LOCAL_BYTES + npz_u16(head + 26) + npz_u16(head + 28);
  if (a->at > z->size || size > z->size - a->at) return npz_fault(z, "has a damaged directory");
  const char *not = NULL;
  if (mr_npz_names_classes(a->name, a->n_name)) {
    e = mr_npz_note_classes(z->file, a->at, size, a->name, a->n_name, z->draft, &not, z->diag);
    if (e == MR_END) return npz_fault(z, "has become shorter");
    if (!not ) refuse_array(a, "it names classes, and no array of whole numbers has its name");
    if (e < 0 || !not ) return e;
  }
  int64_t n = size < HEADER_MAX ? size : HEADER_MAX;
  uint8_t *text = malloc((size_t)n + 1);
  if (!text) return mr_no_memory(z->diag, "a header of %s", z->path);
  e = npz_read(z, a->at, text, n);
  if (e == MR_OK) {
    e = mr_npy_header("its header", text, (size_t)n, &npy, &offset, &why);
    if (e == MR_ERR_DATA) e = MR_OK, refuse_array(a, not ? not : why.text);
    if (e < 0) mr_diag_relay(z->diag, e, &why);
  }
  free(text);
  return e != MR_OK || a->refused ? e : take_array(z, &npy, size - (int64_t)offset, offset, a);
}

static mr_err_t npz_entry(npz_t *z, int64_t *at) {
  const uint8_t *p = z->directory + *at;
  if (z->n_directory - *at < CENTRAL_BYTES || npz_u32(p) != CENTRAL)
    return npz_fault(z, "has a damaged directory");
  size_t name = npz_u16(p + 28), extra = npz_u16(p + 30), comment = npz_u16(p + 32);
  if ((size_t)(z->n_directory - *at - CENTRAL_BYTES) < name + extra + comment)
    return npz_fault(z, "has a damaged directory");
  uint64_t value[3] = {npz_u32(p + 24), npz_u32(p + 20), npz_u32(p + 42)}; /* size, packed, place */
  widen_entry(p + CENTRAL_BYTES + name, extra, value);
  *at += CENTRAL_BYTES + (int64_t)(name + extra + comment);
  const char *text = (const char *)p + CENTRAL_BYTES;
  if (name < 4 || memcmp(text + name - 4, ".npy", 4)) {
    if (!name || text[name - 1] == '/') return MR_OK; /* a folder */
    mr_row_array_t *other = &z->array[z->n++];
    other->name = text, other->n_name = name;
    return refuse_array(other, "it is no .npy file"), MR_OK;
  }
  mr_row_array_t *packed = &z->array[z->n];
  if (npz_u16(p + 10) != 0) {
    packed->name = text, packed->n_name = name - 4, z->n++;
    refuse_array(packed,
                 "it is compressed, so that rows cannot be read at random: "
                 "numpy.savez writes it uncompressed");
    return MR_OK;
  }
  if (value[0] != value[1] || value[0] > (uint64_t)z->size || value[2] > (uint64_t)z->size)
    return npz_fault(z, "has a damaged directory");
  mr_row_array_t *a = &z->array[z->n++];
  a->name = text, a->n_name = name - 4;
  return read_array(z, (int64_t)value[2], (int64_t)value[0], a);
}

/* Of members of one name the last counts, as for Python's zipfile; a file with more members than a
   reader takes is refused anyway. */
static void drop_replaced(npz_t *z) {
  int n = 0;
  for (int i = 0; i < z->n; i++) {
    bool again = false;
    for (int k = i + 1; k < z->n && z->n <= 2 * MR_SHARD_COLUMNS_MAX && !again; k++)
      again = z->array[k].n_name == z->array[i].n_name &&
              !memcmp(z->array[k].name, z->array[i].name, z->array[i].n_name);
    if (!again) z->array[n++] = z->array[i];
  }
  z->n = n;
}

static mr_err_t npz_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                         mr_diag_t *diag) {
  npz_t z = {.file = file,
             .size = file->size,
             .path = file->path,
             .draft = draft,
             .fault = fault,
             .diag = diag};
  int64_t at = 0;
  mr_err_t e = read_directory(&z);
  for (int64_t i = 0; i < z.n_entries && e == MR_OK; i++) e = npz_entry(&z, &at);
  drop_replaced(&z);
  if (e == MR_OK) e = mr_row_columns(z.array, z.n, file, draft, fault, diag);
  free(z.directory), free(z.array);
  return e < 0 ? e : MR_OK;
}

/* The state of the stage. */
typedef struct npz_source {
  mr_shard_source_t source; /* first: the shared hooks work on it */
  mr_turned_rows_t turned;  /* from open to close */
} npz_source_t;

static mr_err_t npz_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part, mr_rec_t *rec,
                           mr_diag_t *diag) {
  const mr_turned_rows_t *turned = &((const npz_source_t *)t)->turned;
  mr_shard_bytes_t own[MR_SHARD_PARTS_READ];
  if (!turned->n) return mr__typed_unpack(t, part, rec, diag);
  memcpy(own, part, (size_t)t->n_wants * sizeof *own);
  mr_turned_rows_apply(turned, t, (int64_t)rec->key - t->id_base, own);
  return mr__typed_unpack(t, own, rec, diag);
}

static mr_err_t npz_settle(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word,
                           int n, mr_spec_t *out) {
  MR_TRY(mr_npz_take_classes(s, t));
  MR_TRY(mr__typed_settle(t, s, word, n, out));
  return mr_npz_name_labels(s, t, out);
}

static mr_err_t npz_open(mr_stage_t *s) {
  npz_source_t *t = s->state;
  mr_diag_t why = {0};
  MR_TRY(mr__shard_source_open(s));
  mr_err_t e = mr_turned_rows_open(&t->turned, &t->source, &why);
  return mr_stage_relay(s, e, &why);
}

static void npz_close(mr_stage_t *s) {
  mr_turned_rows_close(&((npz_source_t *)s->state)->turned);
  mr__shard_source_close(s);
}

static const mr_shard_kind_t npz_kind = {.name = "npz",
                                         .own = "an .npz file",
                                         .scan = npz_scan,
                                         .settle = npz_settle,
                                         .unpack = npz_unpack};

static mr_err_t npz_plan(mr_stage_t *s) { return mr__shard_source_plan(s, &npz_kind); }

static const mr_opt_t npz_opts[] = {
    MR_SHARD_OPTS("Files, as in part-{0..7}.npz; several names are joined by \"::\".",
                  "Arrays, and the fields that their rows become: pixels:image,class:label; AS is "
                  "label, for whole numbers.  By default every array that has a row for each "
                  "record."),
    {0}};

const mr_stage_def_t mr_stage_npz = {
    .name = "npz",
    .help = "Reads the rows of the arrays of .npz files, in any order.",
    .opts = npz_opts,
    .state_sz = sizeof(npz_source_t),
    .plan = npz_plan,
    .forget = mr__shard_source_forget,
    .open = npz_open,
    .close = npz_close,
    .report = mr__shard_source_report,
    .source = &mr__shard_source,
    .out = {{"out", MR_FLOW_RECORDS, false}},
};
