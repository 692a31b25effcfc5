/* Unpacking, filters and passes, by the rules of Pillow's ZipDecode: the stream may end behind any
   whole row, what follows the last row is not looked at, and rows that are not there are zeros,
   which of a palette are its first colour. */
#include "stages/png_rows.h"

#include <stdint.h>
#include <string.h>

enum { PASSES = 7 };

/* Where the pixels of a pass are: the first row and column, and the steps from there. */
static const struct {
  int row, column, down, across;
} pass_of[PASSES] = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
                     {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};

/* ---- filters ---- */

static uint8_t png_paeth(int a, int b, int c) {
  int p = b - c, q = a - c, pa = p < 0 ? -p : p, pb = q < 0 ? -q : q,
      pc = p + q < 0 ? -(p + q) : p + q;
  return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Undoes a filter in line[0,n), whose pixels have k bytes; before: the line above. */
static inline __attribute__((always_inline)) void png_unfilter_by(int filter, uint8_t *line,
                                                                  const uint8_t *before, size_t n,
                                                                  size_t k) {
  if (filter == 1)
    for (size_t i = k; i < n; i++) line[i] = (uint8_t)(line[i] + line[i - k]);
  if (filter == 2)
    for (size_t i = 0; i < n; i++) line[i] = (uint8_t)(line[i] + before[i]);
  for (size_t i = 0; filter > 2 && i < k && i < n; i++)
    line[i] = (uint8_t)(line[i] + (filter == 3 ? before[i] / 2 : before[i]));
  if (filter == 3)
    for (size_t i = k; i < n; i++) line[i] = (uint8_t)(line[i] + (line[i - k] + before[i]) / 2);
  if (filter == 4)
    for (size_t i = k; i < n; i++)
      line[i] = (uint8_t)(line[i] + png_paeth(line[i - k], before[i], before[i - k]));
}

/* A loop for each usual size of a pixel, so that it is a constant there. */
static void png_unfilter(int filter, uint8_t *line, const uint8_t *before, size_t n, size_t k) {
  if (k == 1)
    png_unfilter_by(filter, line, before, n, 1);
  else if (k == 3)
    png_unfilter_by(filter, line, before, n, 3);
  else if (k == 4)
    png_unfilter_by(filter, line, before, n, 4);
  else
    png_unfilter_by(filter, line, before, n, k);
}

/* ---- pixels ---- */

static const uint8_t *png_palette_colour(const mr_png_file_t *f, size_t i) {
  static const uint8_t black[3]; /* beyond the palette */
  return f->palette && i < f->n_palette / 3 ? f->palette + 3 * i : black;
}

/* A palette counts for grey pixels too: a file has one where its header came twice. */
static void png_set_colours(mr_png_rows_t *r, const mr_png_file_t *f) {
  int depth = f->mode->depth < 8 ? f->mode->depth : 8, most = (1 << depth) - 1;
  for (int i = 0; i <= most; i++) {
    int level = f->mode->colour == MR_PNG_INDEX ? i : i * 255 / most;
    if (f->mode->colour == MR_PNG_INDEX || f->palette)
      memcpy(r->colour[i], png_palette_colour(f, (size_t)level), 3);
    else
      memset(r->colour[i], level, 3);
  }
}

/* n pixels of up to 8 bits, from the first bit of raw on. */
static void png_by_table(const mr_png_rows_t *r, const mr_png_mode_t *m, const uint8_t *raw,
                         size_t n, uint8_t *rgb) {
  unsigned bits = m->bits, most = (1u << bits) - 1;
  for (size_t i = 0; i < n; i++, rgb += 3) {
    unsigned at = (unsigned)i * bits;
    memcpy(rgb, r->colour[raw[at / 8] >> (8 - bits - at % 8) & most], 3);
  }
}

static void png_to_rgb(const mr_png_rows_t *r, const mr_png_mode_t *m, const uint8_t *raw, size_t n,
                       uint8_t *rgb) {
  size_t k = m->bits / 8u;
  if (m->bits <= 8) {
    png_by_table(r, m, raw, n, rgb);
  } else if (m->colour == MR_PNG_GREY) { /* 16 bits are cut off */
    for (size_t i = 0; i < n; i++) memset(rgb + 3 * i, raw[2 * i] ? 255 : raw[2 * i + 1], 3);
  } else if (m->colour == MR_PNG_GREY_ALPHA && k == 2) {
    for (size_t i = 0; i < n; i++) memcpy(rgb + 3 * i, r->colour[raw[2 * i]], 3);
  } else if (m->colour == MR_PNG_RGB && k == 3) {
    memcpy(rgb, raw, 3 * n);
  } else { /* of two bytes of a colour the first one */
    size_t next = m->colour == MR_PNG_GREY_ALPHA ? 0 : m->depth / 8u;
    for (size_t i = 0; i < n; i++, raw += k, rgb += 3)
      rgb[0] = raw[0], rgb[1] = raw[next], rgb[2] = raw[2 * next];
  }
}

/* ---- rows ---- */

/* Where the next row goes. */
typedef struct place {
  int w, h, x, y; /* of the part of the picture that is in the data, and where it begins */
  int row, pass;
  bool interlaced;
} place_t;

static int pixels_of_row(const place_t *p) {
  if (!p->interlaced) return p->w;
  return (p->w - pass_of[p->pass].column + pass_of[p->pass].across - 1) / pass_of[p->pass].across;
}

static void png_put_row(const mr_png_rows_t *r, const mr_png_file_t *f, const place_t *p,
                        const uint8_t *raw, uint8_t *rgb) {
  size_t bits = f->mode->bits, stride = 3 * (size_t)f->w;
  if (!p->interlaced) {
    png_to_rgb(r, f->mode, raw, (size_t)p->w,
               rgb + (size_t)(p->y + p->row) * stride + 3 * (size_t)p->x);
    return;
  }
  int n = pixels_of_row(p), column = pass_of[p->pass].column;
  for (int i = 0; i < n; i++, column += pass_of[p->pass].across) {
    size_t at = (size_t)i * bits;
    uint8_t shifted = (uint8_t)(raw[at / 8] << at % 8);
    png_to_rgb(r, f->mode, bits < 8 ? &shifted : raw + at / 8, 1,
               rgb + (size_t)p->row * stride + 3 * (size_t)column);
  }
}

/* Goes to the next row; true where that is the first one of a pass. */
static bool next_row(place_t *p) {
  bool begins = false;
  p->row += p->interlaced ? pass_of[p->pass].down : 1;
  while (p->interlaced && (p->row >= p->h || pixels_of_row(p) <= 0)) {
    begins = true;
    if (++p->pass == PASSES) return p->row = p->h, begins;
    p->row = pass_of[p->pass].row;
  }
  return begins;
}

static size_t bytes_of_row(const mr_png_file_t *f, const place_t *p) {
  return ((size_t)pixels_of_row(p) * f->mode->bits + 7) / 8;
}

static mr_err_t png_unpack_fails(int end, mr_diag_t *diag) {
  if (end == Z_MEM_ERROR) return mr_no_memory(diag, "a PNG decoder");
  return mr_fail(diag, MR_ERR_DATA, "PNG: its packed rows are damaged");
}

/* Unpacks rows from a part of the data.  MR_END: the picture is whole, or the data end with a row.
 */
static mr_err_t png_unpack_part(mr_png_rows_t *r, const mr_png_file_t *f, place_t *p,
                                uint8_t **line, uint8_t **before, size_t *have, uint8_t *rgb,
                                mr_diag_t *diag) {
  size_t each = (f->mode->bits + 7u) / 8;
  while (r->z.avail_in) {
    size_t n = bytes_of_row(f, p);
    r->z.next_out = *line + *have, r->z.avail_out = (unsigned)(n + 1 - *have);
    int end = inflate(&r->z, Z_NO_FLUSH);
    if (end < 0) return png_unpack_fails(end, diag);
    *have = n + 1 - r->z.avail_out;
    if (r->z.avail_out) return MR_OK;
    if (**line > 4) return mr_fail(diag, MR_ERR_DATA, "PNG: has a filter %d", **line);
    png_unfilter(**line, *line + 1, *before + 1, n, each);
    png_put_row(r, f, p, *line + 1, rgb);
    uint8_t *above = *line;
    if (next_row(p)) memset(above, 0, r->lines.cap / 2);
    *line = *before, *before = above, *have = 0;
    if (p->row >= p->h || end == Z_STREAM_END) return MR_END;
  }
  return MR_OK;
}

static mr_err_t png_begin_rows(mr_png_rows_t *r, const mr_png_file_t *f, const place_t *p,
                               mr_diag_t *diag) {
  size_t line = ((size_t)p->w * f->mode->bits + 7) / 8 + 1;
  MR_TRY(mr_grow(&r->lines, 2 * line, diag));
  memset(r->lines.at, 0, r->lines.cap);
  if (r->ready) return inflateReset(&r->z), MR_OK;
  r->z = (z_stream){.zalloc = mr_png_zalloc, .zfree = mr_png_zfree};
  if (inflateInit(&r->z) != Z_OK) return mr_no_memory(diag, "a PNG decoder");
  return r->ready = true, MR_OK;
}

mr_err_t mr_png_rows(mr_png_rows_t *r, mr_png_file_t *f, uint8_t *rgb, mr_diag_t *diag) {
  const uint32_t *box = f->box;
  place_t p = {.w = (int)f->w, .h = (int)f->h, .interlaced = f->interlaced};
  if (f->framed)
    p = (place_t){(int)box[2], (int)box[3], (int)box[0], (int)box[1], 0, 0, f->interlaced};
  MR_TRY(png_begin_rows(r, f, &p, diag));
  png_set_colours(r, f);
  const uint8_t *zero = f->palette ? r->colour[0] : (const uint8_t[3]){0};
  size_t pixels = (size_t)f->w * f->h, have = 0;
  uint8_t *line = r->lines.at, *before = line + r->lines.cap / 2;
  for (size_t i = 0; i < pixels; i++) memcpy(rgb + 3 * i, zero, 3);
  for (mr_err_t e = MR_OK; e != MR_END;) {
    const uint8_t *part;
    size_t n;
    MR_TRY(mr_png_data(f, &part, &n, diag));
    r->z.next_in = (uint8_t *)(uintptr_t)part, r->z.avail_in = (unsigned)n; /* is read alone */
    MR_TRY(e = png_unpack_part(r, f, &p, &line, &before, &have, rgb, diag));
  }
  return mr_png_finish(f, diag);
}

void mr_png_rows_free(mr_png_rows_t *r) {
  if (r->ready) inflateEnd(&r->z);
  mr_grown_free(&r->lines);
  *r = (mr_png_rows_t){0};
}
