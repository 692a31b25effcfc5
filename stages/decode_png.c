/* PNG by libpng.  A picture is decoded whole when its first box is asked for, since its rows are
   one compressed stream.

   What Pillow does and libpng's own conversions do not: 16-bit grey becomes grey of 8 bits by
   cutting off at 255, and palette entries that a file lacks are grey ramps. */
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "stages/decoder.h"

enum { SIDE_MAX = 65535, CHUNK_MAX = 1 << 23 };

typedef struct png {
  png_structp p;
  png_infop info;
  const uint8_t *bytes;
  size_t n, at;
  int h, w, depth, colour;
  bool done, no_memory;
  char why[160];
  mr_grown_t raw; /* rows as libpng gives them, where these are not RGB */
  png_bytep *row; /* [n_rows] */
  size_t n_rows;
} png_t;

static void png_throw(png_structp p, png_const_charp text) {
  png_t *d = png_get_error_ptr(p);
  size_t n = strlen(text) < sizeof d->why ? strlen(text) : sizeof d->why - 1;
  memcpy(d->why, text, n);
  d->why[n] = 0;
  png_longjmp(p, 1);
}

/* libpng reports missing memory as it reports damage, so what it asks for is noted here. */
static png_voidp png_memory(png_structp p, png_alloc_size_t n) {
  png_t *d = png_get_mem_ptr(p);
  void *got = malloc(n);
  if (!got) d->no_memory = true;
  return got;
}

static void png_memory_back(png_structp p, png_voidp memory) { free(memory); }

static void png_ignore(png_structp p, png_const_charp text) {}

static void png_take(png_structp p, png_bytep to, size_t n) {
  png_t *d = png_get_io_ptr(p);
  if (n > d->n - d->at) png_error(p, "is cut short");
  memcpy(to, d->bytes + d->at, n);
  d->at += n;
}

static void png_end(png_t *d) {
  if (d->p) png_destroy_read_struct(&d->p, &d->info, NULL);
}

static void *png_create_decoder(void) { return calloc(1, sizeof(png_t)); }

static void png_destroy_decoder(void *decoder) {
  png_t *d = decoder;
  if (!d) return;
  png_end(d);
  mr_grown_free(&d->raw);
  free(d->row);
  free(d);
}

static mr_err_t png_fail(const png_t *d, mr_diag_t *diag) {
  if (d->no_memory) return mr_no_memory(diag, "a PNG of %d x %d pixels", d->w, d->h);
  return mr_fail(diag, MR_ERR_DATA, "PNG: %s", d->why);
}

/* ---- the header ---- */

/* Chunks that do not change pixels and that libpng would decompress and keep: a file of a few
   kilobytes could take gigabytes. */
enum { N_NOT_READ = 4, CHUNKS = 16 };
static const png_byte not_read[] = "tEXt\0zTXt\0iTXt\0iCCP";

/* ---- text ---- */

static const char profile_name[] = "Raw profile type exif", xmp_name[] = "XML:com.adobe.xmp";

/* Reads the header of a file that has one text chunk alone; its text, copied, and *n its bytes;
   NULL without one. */
static uint8_t *png_read_text(png_t *d, size_t *n) {
  png_textp text;
  int n_texts = 0;
  uint8_t *copy = NULL;
  d->p = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, png_throw, png_ignore, d, png_memory,
                                  png_memory_back);
  if (d->p) d->info = png_create_info_struct(d->p);
  if (!d->p || !d->info || setjmp(png_jmpbuf(d->p))) return NULL;
  png_set_read_fn(d->p, d, png_take);
  png_set_user_limits(d->p, SIDE_MAX, SIDE_MAX);
  png_set_chunk_malloc_max(d->p, CHUNK_MAX);
  png_set_crc_action(d->p, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
  png_read_info(d->p, d->info);
  if (!png_get_text(d->p, d->info, &text, &n_texts) || n_texts < 1) return NULL;
  *n = text->compression > 0 ? text->itxt_length : text->text_length;
  if ((copy = malloc(*n + 1))) memcpy(copy, text->text, *n), copy[*n] = 0;
  return copy;
}

/* The text of a chunk of a file that is whole up to it, unpacked if it is compressed; heap, NULL
   without one.  libpng reads it from a file that has nothing else, because it would keep every text
   of the whole file, however long. */
static uint8_t *png_text_of(const uint8_t *file, const uint8_t *chunk, size_t size, size_t *n) {
  enum { HEAD = 33 /* the signature and IHDR */ };
  static const uint8_t pixels[] = {0, 0, 0, 0, 'I', 'D', 'A', 'T', 0x35, 0xAF, 0x06, 0x1E};
  uint8_t *alone = malloc(HEAD + 12 + size + sizeof pixels);
  if (!alone) return NULL;
  memcpy(alone, file, HEAD);
  memcpy(alone + HEAD, chunk, 12 + size);
  memcpy(alone + HEAD + 12 + size, pixels, sizeof pixels);
  png_t d = {.bytes = alone, .n = HEAD + 12 + size + sizeof pixels};
  uint8_t *text = png_read_text(&d, n);
  png_end(&d);
  free(alone);
  return text;
}

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

static bool png_is_named(const uint8_t *chunk, size_t size, const char *name) {
  size_t n = strlen(name) + 1;
  return size > n && !memcmp(chunk + 8, name, n);
}

/* What the chunks of a file say of its orientation, 0: nothing; the last of each counts. */
typedef struct png_turned {
  bool exif; /* an eXIf chunk is there, so that a profile in text does not count */
  int by_exif, by_profile, by_xmp;
} png_turned_t;

static void png_look_at_text(const uint8_t *file, const uint8_t *chunk, size_t size,
                             png_turned_t *t) {
  bool profile = png_is_named(chunk, size, profile_name);
  bool xmp = !memcmp(chunk + 4, "iTXt", 4) && png_is_named(chunk, size, xmp_name);
  size_t n = 0;
  uint8_t *text = profile || xmp ? png_text_of(file, chunk, size, &n) : NULL;
  if (text && profile) t->by_profile = mr_exif_orientation(text, png_unhex(text, n));
  if (text && xmp) t->by_xmp = mr_xmp_orientation(text, n);
  free(text);
}

static int png_orientation(const png_t *d) {
  png_turned_t t = {0};
  for (size_t at = 8, size; d->n - at >= 12; at += 12 + size) {
    const uint8_t *chunk = d->bytes + at;
    size = (size_t)chunk[0] << 24 | (size_t)chunk[1] << 16 | (size_t)chunk[2] << 8 | chunk[3];
    if (size > d->n - at - 12) break;
    if (!memcmp(chunk + 4, "eXIf", 4))
      t.exif = true, t.by_exif = mr_exif_orientation(chunk + 8, size);
    else if (!memcmp(chunk + 5, "EXt", 3) || !memcmp(chunk + 5, "TXt", 3))
      png_look_at_text(d->bytes, chunk, size, &t);
  }
  int turned = t.exif ? t.by_exif : t.by_profile;
  return turned ? turned : t.by_xmp ? t.by_xmp : 1;
}

static mr_err_t png_begin(void *decoder, const uint8_t *bytes, size_t n, bool orient,
                          mr_head_t *head, mr_diag_t *diag) {
  png_t *d = decoder;
  png_end(d);
  d->bytes = bytes, d->n = n, d->at = 0, d->done = d->no_memory = false;
  d->h = d->w = 0;
  d->p = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, png_throw, png_ignore, d, png_memory,
                                  png_memory_back);
  if (d->p) d->info = png_create_info_struct(d->p);
  if (!d->p || !d->info) return mr_no_memory(diag, "a PNG decoder");
  if (setjmp(png_jmpbuf(d->p))) return png_fail(d, diag);
  png_set_read_fn(d->p, d, png_take);
  png_set_user_limits(d->p, SIDE_MAX, SIDE_MAX);
  png_set_chunk_malloc_max(d->p, CHUNK_MAX);
  png_set_chunk_cache_max(d->p, CHUNKS);
  png_set_keep_unknown_chunks(d->p, PNG_HANDLE_CHUNK_NEVER, not_read, N_NOT_READ);
  png_set_crc_action(d->p, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
  png_read_info(d->p, d->info);
  d->h = (int)png_get_image_height(d->p, d->info), d->w = (int)png_get_image_width(d->p, d->info);
  d->depth = png_get_bit_depth(d->p, d->info), d->colour = png_get_color_type(d->p, d->info);
  *head = (mr_head_t){d->h, d->w, orient ? png_orientation(d) : 1, false};
  return MR_OK;
}

/* ---- pixels ---- */

static bool is_wide_grey(const png_t *d) {
  return d->colour == PNG_COLOR_TYPE_GRAY && d->depth == 16;
}

static void png_ask(png_t *d) {
  if (d->colour == PNG_COLOR_TYPE_PALETTE) {
    png_set_packing(d->p);
  } else if (!is_wide_grey(d)) {
    if (d->depth == 16) png_set_strip_16(d->p);
    if (d->colour == PNG_COLOR_TYPE_GRAY && d->depth < 8) png_set_expand_gray_1_2_4_to_8(d->p);
    if (d->colour & PNG_COLOR_MASK_ALPHA) png_set_strip_alpha(d->p);
    if (!(d->colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(d->p);
  }
  png_set_interlace_handling(d->p);
  png_read_update_info(d->p, d->info);
}

static void png_from_palette(png_t *d, const uint8_t *raw, size_t n, uint8_t *rgb) {
  png_color colour[256], *given = NULL;
  int n_given = 0;
  memset(colour, 0, sizeof colour); /* black beyond the palette */
  png_get_PLTE(d->p, d->info, &given, &n_given);
  for (int i = 0; i < n_given && i < 256; i++) colour[i] = given[i];
  for (size_t i = 0; i < n; i++, rgb += 3)
    rgb[0] = colour[raw[i]].red, rgb[1] = colour[raw[i]].green, rgb[2] = colour[raw[i]].blue;
}

static void png_from_wide_grey(const uint8_t *raw, size_t n, uint8_t *rgb) {
  for (size_t i = 0; i < n; i++, rgb += 3) memset(rgb, raw[2 * i] ? 255 : raw[2 * i + 1], 3);
}

static mr_err_t png_rows(png_t *d, uint8_t *to, size_t stride, mr_diag_t *diag) {
  if (d->n_rows < (size_t)d->h) {
    free(d->row);
    d->row = malloc((size_t)d->h * sizeof *d->row);
    d->n_rows = d->row ? (size_t)d->h : 0;
    if (!d->row) return mr_no_memory(diag, "the rows of a picture");
  }
  for (int y = 0; y < d->h; y++) d->row[y] = to + (size_t)y * stride;
  return MR_OK;
}

static mr_err_t png_read_rows_of(png_t *d, size_t bytes, mr_diag_t *diag) {
  if (setjmp(png_jmpbuf(d->p))) return png_fail(d, diag);
  png_ask(d);
  if (png_get_rowbytes(d->p, d->info) != bytes) png_error(d->p, "has rows of another size");
  png_read_image(d->p, d->row);
  return MR_OK;
}

static mr_err_t png_decode(png_t *d, mr_grown_t *to, mr_diag_t *diag) {
  size_t pixels = (size_t)d->h * (size_t)d->w;
  bool indexed = d->colour == PNG_COLOR_TYPE_PALETTE, raw = indexed || is_wide_grey(d);
  size_t each = indexed ? 1 : raw ? 2 : 3;
  MR_TRY(mr_grow(to, 3 * pixels, diag));
  if (raw) MR_TRY(mr_grow(&d->raw, each * pixels, diag));
  MR_TRY(png_rows(d, raw ? d->raw.at : to->at, each * (size_t)d->w, diag));
  MR_TRY(png_read_rows_of(d, each * (size_t)d->w, diag));
  if (indexed)
    png_from_palette(d, d->raw.at, pixels, to->at);
  else if (raw)
    png_from_wide_grey(d->raw.at, pixels, to->at);
  return MR_OK;
}

static mr_err_t png_read(void *decoder, mr_box_t b, mr_grown_t *to, mr_part_t *out,
                         mr_diag_t *diag) {
  png_t *d = decoder;
  if (!d->done) MR_TRY(png_decode(d, to, diag));
  d->done = true;
  size_t stride = 3 * (size_t)d->w;
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
