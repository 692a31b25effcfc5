/* PNG with the pixels of Pillow (png_file.h, png_rows.h).  A picture is decoded whole when its
   first box is asked for, since its rows are one compressed stream. */
#include <stdlib.h>
#include <string.h>

#include "stages/decoder.h"
#include "stages/png_rows.h"

enum { SIDE_MAX = 65535 };

typedef struct png {
  mr_png_file_t file;
  mr_png_rows_t rows;
  mr_grown_t text; /* of the chunk that is looked at */
  bool done;
} png_t;

static void *png_create_decoder(void) { return calloc(1, sizeof(png_t)); }

static void png_destroy_decoder(void *decoder) {
  png_t *d = decoder;
  if (!d) return;
  mr_grown_free(&d->file.texts);
  mr_grown_free(&d->text);
  mr_png_rows_free(&d->rows);
  free(d);
}

/* ---- orientation ---- */

static const char profile_name[] = "Raw profile type exif", xmp_name[] = "XML:com.adobe.xmp",
                  exif_name[] = "exif";

/* The EXIF data that ImageMagick writes as text: three lines, then hexadecimal digits.  In place;
   their number, 0 for other text. */
static size_t png_unhex(uint8_t *text, size_t n) {
  size_t at = 0, out = 0;
  for (int line = 0; line < 3; line++, at++)
    while (at < n && text[at] != '\n') at++;
  int half = -1;
  for (; at < n; at++) {
    static const char digits[] = "0123456789abcdef";
    if (!text[at]) return 0;
    if (half < 0 && strchr(" \t\r\n\f\v", text[at])) continue;
    const char *digit = strchr(digits, text[at] >= 'A' ? text[at] | 0x20 : text[at]);
    if (!digit) return 0;
    int value = (int)(digit - digits);
    if (half < 0)
      half = value;
    else
      text[out++] = (uint8_t)(half << 4 | value), half = -1;
  }
  return half < 0 ? out : 0;
}

/* Where the text of a chunk whose key is `name` begins, behind its length and name; 0 for another
   key.  *packed: it is packed by zlib. */
static size_t png_find_text(const uint8_t *chunk, size_t size, const char *name, bool *packed) {
  size_t key = strlen(name) + 1, at = key;
  const uint8_t *data = chunk + 8;
  *packed = !memcmp(chunk + 4, "zTXt", 4);
  if (size < key || memcmp(data, name, key) != 0) return 0;
  if (*packed) return size > key && !data[key] ? key + 1 : 0;
  if (memcmp(chunk + 4, "iTXt", 4) != 0) return key;
  if (size < key + 2) return 0;
  *packed = data[key];
  if (*packed && data[key + 1]) return 0;
  at += 2;
  for (int zeros = 0; zeros < 2; zeros++) { /* behind the language and the key in it */
    const uint8_t *zero = memchr(data + at, 0, size - at);
    if (!zero) return 0;
    at = (size_t)(zero - data) + 1;
  }
  return at;
}

/* The text of such a chunk, copied to d->text, with its bytes in *n; *found: it has that key, and
   is not damaged. */
static mr_err_t png_text_of(png_t *d, const uint8_t *chunk, size_t size, const char *name,
                            size_t *n, bool *found, mr_diag_t *diag) {
  bool packed;
  size_t at = png_find_text(chunk, size, name, &packed);
  *found = at;
  if (!at) return MR_OK;
  const uint8_t *text = chunk + 8 + at;
  if (packed) return mr_png_unpack(text, size - at, &d->text, n, found, diag);
  MR_TRY(mr_grow(&d->text, size - at, diag));
  memcpy(d->text.at, text, *n = size - at);
  return MR_OK;
}

/* What the chunks of a file say of its orientation, 0: nothing; the last of each counts. */
typedef struct png_turned {
  bool exif; /* an eXIf chunk is there, so that a profile in text does not count */
  int by_exif, by_profile, by_xmp;
} png_turned_t;

static mr_err_t png_look_at_text(png_t *d, const uint8_t *chunk, size_t size, png_turned_t *t,
                                 mr_diag_t *diag) {
  size_t n;
  bool found;
  MR_TRY(png_text_of(d, chunk, size, profile_name, &n, &found, diag));
  if (found) t->by_profile = mr_exif_orientation(d->text.at, png_unhex(d->text.at, n));
  if (!memcmp(chunk + 4, "tEXt", 4)) {
    MR_TRY(png_text_of(d, chunk, size, exif_name, &n, &found, diag));
    if (found) t->exif = true, t->by_exif = mr_exif_orientation(d->text.at, n);
  } else if (!memcmp(chunk + 4, "iTXt", 4)) {
    MR_TRY(png_text_of(d, chunk, size, xmp_name, &n, &found, diag));
    if (found) t->by_xmp = mr_xmp_orientation(d->text.at, n);
  }
  return MR_OK;
}

/* Sets *turned.  A text that is too long is left to the reading of the file. */
static mr_err_t png_orientation(png_t *d, const uint8_t *bytes, size_t n, int *turned,
                                mr_diag_t *diag) {
  png_turned_t t = {0};
  for (size_t at = 8, size; n - at >= 12; at += 12 + size) {
    const uint8_t *chunk = bytes + at;
    size = (size_t)chunk[0] << 24 | (size_t)chunk[1] << 16 | (size_t)chunk[2] << 8 | chunk[3];
    if (size > n - at - 12) break;
    mr_err_t e = MR_OK;
    if (!memcmp(chunk + 4, "eXIf", 4))
      t.exif = true, t.by_exif = mr_exif_orientation(chunk + 8, size);
    else if (!memcmp(chunk + 4, "tEXt", 4) || !memcmp(chunk + 4, "zTXt", 4) ||
             !memcmp(chunk + 4, "iTXt", 4))
      e = png_look_at_text(d, chunk, size, &t, diag);
    if (e == MR_ERR_NOMEM) return e;
  }
  int by = t.exif ? t.by_exif : t.by_profile;
  *turned = by ? by : t.by_xmp ? t.by_xmp : 1;
  return MR_OK;
}

/* ---- decoding ---- */

static mr_err_t png_begin(void *decoder, const uint8_t *bytes, size_t n, bool orient,
                          mr_head_t *head, mr_diag_t *diag) {
  png_t *d = decoder;
  int turned = 1;
  d->done = false;
  MR_TRY(mr_png_open(&d->file, bytes, n, diag));
  if (d->file.w > SIDE_MAX || d->file.h > SIDE_MAX)
    return mr_fail(diag, MR_ERR_DATA, "PNG: %u x %u pixels, want at most %d x %d", d->file.h,
                   d->file.w, SIDE_MAX, SIDE_MAX);
  if (orient) MR_TRY(png_orientation(d, bytes, n, &turned, diag));
  *head = (mr_head_t){(int)d->file.h, (int)d->file.w, turned, false};
  return MR_OK;
}

static mr_err_t png_read(void *decoder, mr_box_t b, mr_grown_t *to, mr_part_t *out,
                         mr_diag_t *diag) {
  png_t *d = decoder;
  size_t stride = 3 * (size_t)d->file.w;
  if (!d->done) {
    mr_png_file_t file = d->file; /* which a failure leaves as it was */
    MR_TRY(mr_grow(to, stride * d->file.h, diag));
    mr_err_t e = mr_png_rows(&d->rows, &file, to->at, diag);
    d->file.texts = file.texts;
    if (e < 0) return e;
  }
  d->done = true;
  *out = (mr_part_t){to->at + (size_t)b.i * stride + 3 * (size_t)b.j, stride};
  return MR_OK;
}

const mr_decoder_def_t mr_decoder_png = {
    .name = "PNG",
    .needs = "PNG",
    .is = mr_is_png,
    .create = png_create_decoder,
    .destroy = png_destroy_decoder,
    .begin = png_begin,
    .read = png_read,
};
