/* Archives as WebDataset's: a member for each field, named by the record's number and the field.
   Labels are text, ragged bytes are themselves, all else is a .npy file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/data/pack.h"
#include "base/npy.h"

enum { BLOCK = 512 };

static mr_err_t tar_check(const mr_spec_t *spec, mr_diag_t *diag) {
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    bool bytes = field->ragged && field->ndim == 1 && field->dtype == MR_U8;
    bool array = !field->ragged && field->dtype != MR_BF16 && field->dtype < MR_F8_E4M3FN;
    if (bytes || array) continue;
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "pack: field %s: a tar holds ragged u8, and arrays of NumPy's types: cast, pad or "
        "drop it, or want --format tfrecord",
        field->name);
  }
  return MR_OK;
}

/* The ending of a field's member: jpg for pictures, which WebDataset's readers decode by it. */
static void tar_ending(const mr_field_t *f, char out[MR_FIELD_NAME + 8]) {
  if (f->label)
    snprintf(out, MR_FIELD_NAME + 8, "%s", strcmp(f->name, "label") ? f->name : "cls");
  else if (f->ragged)
    snprintf(out, MR_FIELD_NAME + 8, "%s", strcmp(f->name, "image") ? f->name : "jpg");
  else
    snprintf(out, MR_FIELD_NAME + 8, "%s.npy", f->name);
  for (char *p = out; *p; p++)
    if (*p >= 'A' && *p <= 'Z') *p += 'a' - 'A';
}

static void add_tar_member(mr_pack_bytes_t *o, int64_t number, const char *ending, const void *head,
                           size_t n_head, const void *data, size_t n) {
  char block[BLOCK] = {0};
  unsigned sum = 0;
  size_t size = n_head + n;
  snprintf(block, 100, "%09" PRId64 ".%s", number, ending);
  memcpy(block + 100, "0000644", 8), memcpy(block + 108, "0000000", 8);
  memcpy(block + 116, "0000000", 8), memcpy(block + 136, "00000000000", 12);
  snprintf(block + 124, 12, "%011zo", size);
  block[156] = '0';
  memcpy(block + 257,
         "ustar\0"
         "00",
         8);
  memset(block + 148, ' ', 8);
  for (int i = 0; i < BLOCK; i++) sum += (uint8_t)block[i];
  snprintf(block + 148, 8, "%06o", sum);
  block[155] = ' ';
  mr_pack_add(o, block, BLOCK), mr_pack_add(o, head, n_head), mr_pack_add(o, data, n);
  mr_pack_add(o, NULL, (BLOCK - size % BLOCK) % BLOCK);
}

static void tar_add(const mr_spec_t *spec, const mr_buf_t *b, int i, int64_t number,
                    mr_pack_bytes_t *bytes, mr_pack_bytes_t *ends) {
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    mr_pack_value_t v = mr_pack_value(spec, b, f, i);
    char ending[MR_FIELD_NAME + 8], head[MR_NPY_HEAD_MAX];
    tar_ending(field, ending);
    if (field->label) {
      int n = snprintf(head, sizeof head, "%" PRId64, mr_pack_whole(field, v.data));
      add_tar_member(bytes, number, ending, head, (size_t)n, NULL, 0);
    } else {
      size_t n = field->ragged ? 0 : mr_npy_head(field->dtype, field->ndim, field->dim, head);
      add_tar_member(bytes, number, ending, head, n, v.data, v.bytes);
    }
  }
}

static mr_err_t tar_end(const mr_spec_t *spec, mr_pack_bytes_t *bytes, const mr_pack_bytes_t *ends,
                        mr_diag_t *diag) {
  mr_pack_add(bytes, NULL, 2 * BLOCK); /* two zero blocks end an archive */
  return MR_OK;
}

static void tar_fields(const mr_spec_t *spec, char text[MR_PACK_MAX]) {
  size_t at = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    char ending[MR_FIELD_NAME + 8];
    tar_ending(field, ending);
    at += (size_t)snprintf(text + at, MR_PACK_MAX - at, "%s%s:%s:%s", f ? "," : "", ending,
                           field->name,
                           field->label    ? "label"
                           : field->ragged ? "bytes"
                                           : "npy");
  }
}

const mr_pack_format_t mr_pack_tar = {.name = "tar",
                                      .ending = ".tar",
                                      .check = tar_check,
                                      .add = tar_add,
                                      .end = tar_end,
                                      .fields = tar_fields};
