/* A zip without compression: for each array a local header and a .npy file, at the end the
   directory. Sizes and checksums are computed before the first byte is written, so nothing is
   patched. */
#include "base/npz.h"

#include <string.h>

#include "base/npy.h"
#include "base/xio.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a zip is little-endian, as we are");

/* ---- CRC-32 of zip, polynomial 0x04C11DB7 reflected; eight bytes at a time ---- */

typedef struct crc {
  uint32_t table[8][256];
} crc_t;

static void crc_init(crc_t *c) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t x = i;
    for (int k = 0; k < 8; k++) x = x >> 1 ^ (x & 1 ? 0xEDB88320u : 0);
    c->table[0][i] = x;
  }
  for (int t = 1; t < 8; t++)
    for (int i = 0; i < 256; i++) {
      uint32_t x = c->table[t - 1][i];
      c->table[t][i] = x >> 8 ^ c->table[0][x & 255];
    }
}

static uint32_t crc_add(const crc_t *c, uint32_t crc, const void *data, size_t n) {
  const uint8_t *p = data;
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x ^= crc, crc = 0;
    for (int k = 0; k < 8; k++) crc ^= c->table[7 - k][x >> 8 * k & 255];
  }
  while (n--) crc = crc >> 8 ^ c->table[0][(crc ^ *p++) & 255];
  return ~crc;
}

/* ---- zip ---- */

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50, VERSION = 20 };
enum {
  NEW_YEAR_1980 = 1 << 5 | 1
}; /* the earliest date of a zip, so that equal arrays give equal files */

typedef struct __attribute__((packed)) local {
  uint32_t magic;
  uint16_t version, flags, method, time, date;
  uint32_t crc, packed, size;
  uint16_t n_name, n_extra;
} local_t; /* then the name */

typedef struct __attribute__((packed)) central {
  uint32_t magic;
  uint16_t made_by;
  uint16_t version, flags, method, time, date;
  uint32_t crc, packed, size;
  uint16_t n_name, n_extra, n_comment, disk, internal;
  uint32_t external, at;
} central_t; /* then the name */

typedef struct __attribute__((packed)) end {
  uint32_t magic;
  uint16_t disk, first_disk, n_here, n;
  uint32_t bytes, at;
  uint16_t n_comment;
} end_t;
_Static_assert(sizeof(local_t) == 30 && sizeof(central_t) == 46 && sizeof(end_t) == 22, "zip's");

typedef struct entry {
  char head[MR_NPY_HEAD_MAX], name[MR_NPZ_NAME + sizeof ".npy"];
  size_t n_head, n_data, at; /* of the local header in the file */
  uint32_t crc;
} entry_t;

static size_t entry_bytes(const entry_t *e) { return e->n_head + e->n_data; }

static void npz_describe(const mr_npz_array_t *a, const crc_t *c, entry_t *e) {
  e->n_head = a->chars ? mr_npy_head_of_texts(a->chars, a->ndim, a->dim, e->head)
                       : mr_npy_head(a->dtype, a->ndim, a->dim, e->head);
  e->n_data = a->chars ? 4 * (size_t)a->chars : mr_dtype_size(a->dtype);
  for (int i = 0; i < a->ndim; i++) e->n_data *= (size_t)a->dim[i];
  e->crc = crc_add(c, crc_add(c, 0, e->head, e->n_head), a->data, e->n_data);
  size_t n = strlen(a->name);
  memcpy(e->name, a->name, n);
  memcpy(e->name + n, ".npy", sizeof ".npy");
}

static mr_err_t write_entry(const mr_newfile_t *f, const entry_t *e, const void *data,
                            mr_diag_t *diag) {
  uint32_t size = (uint32_t)entry_bytes(e);
  local_t h = {.magic = LOCAL,
               .version = VERSION,
               .date = NEW_YEAR_1980,
               .crc = e->crc,
               .packed = size,
               .size = size,
               .n_name = (uint16_t)strlen(e->name)};
  MR_TRY(mr_write_all(f->fd, &h, sizeof h, f->path, diag));
  MR_TRY(mr_write_all(f->fd, e->name, h.n_name, f->path, diag));
  MR_TRY(mr_write_all(f->fd, e->head, e->n_head, f->path, diag));
  return mr_write_all(f->fd, data, e->n_data, f->path, diag);
}

static mr_err_t write_directory(const mr_newfile_t *f, const entry_t *entry, int n, size_t at,
                                mr_diag_t *diag) {
  end_t end = {.magic = END, .n_here = (uint16_t)n, .n = (uint16_t)n, .at = (uint32_t)at};
  for (int i = 0; i < n; i++) {
    const entry_t *e = &entry[i];
    uint32_t size = (uint32_t)entry_bytes(e);
    central_t h = {.magic = CENTRAL,
                   .made_by = VERSION,
                   .version = VERSION,
                   .date = NEW_YEAR_1980,
                   .crc = e->crc,
                   .packed = size,
                   .size = size,
                   .n_name = (uint16_t)strlen(e->name),
                   .at = (uint32_t)e->at};
    MR_TRY(mr_write_all(f->fd, &h, sizeof h, f->path, diag));
    MR_TRY(mr_write_all(f->fd, e->name, h.n_name, f->path, diag));
    end.bytes += (uint32_t)sizeof h + h.n_name;
  }
  return mr_write_all(f->fd, &end, sizeof end, f->path, diag);
}

static mr_err_t write_all(const mr_newfile_t *f, const mr_npz_array_t *array, entry_t *entry, int n,
                          size_t at, mr_diag_t *diag) {
  for (int i = 0; i < n; i++) MR_TRY(write_entry(f, &entry[i], array[i].data, diag));
  return write_directory(f, entry, n, at, diag);
}

mr_err_t mr_npz_save(const char *path, const mr_npz_array_t *array, int n, mr_diag_t *diag) {
  static const size_t most = UINT32_MAX - MR_NPZ_MOST * (sizeof(central_t) + MR_NPZ_NAME) - 1024;
  crc_t crc;
  entry_t entry[MR_NPZ_MOST];
  mr_newfile_t f;
  size_t at = 0;
  crc_init(&crc);
  for (int i = 0; i < n; i++) {
    npz_describe(&array[i], &crc, &entry[i]);
    entry[i].at = at;
    at += sizeof(local_t) + strlen(entry[i].name) + entry_bytes(&entry[i]);
    if (entry_bytes(&entry[i]) > most || at > most)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: want less than 4 GiB of arrays, which is what a zip "
                     "file holds",
                     path);
  }
  MR_TRY(mr_newfile_open(&f, path, diag));
  mr_err_t e = write_all(&f, array, entry, n, at, diag);
  if (e >= 0) return mr_newfile_commit(&f, diag);
  mr_newfile_drop(&f);
  return e;
}
