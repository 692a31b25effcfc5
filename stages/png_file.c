/* The chunks of a PNG file, by the rules of Pillow's PngImagePlugin: in front of the rows every
   checksum counts and in the rows and behind them none; a chunk that is known must have the bytes
   that are read of it; of headers, palettes and frames the last one before the rows counts.  A
   header of a kind that no mode has changes the size alone. */
#include "stages/png_file.h"

#include <stdint.h>
#include <string.h>
#include <zlib.h>

enum { TEXT_MAX = 1 << 20, TEXTS_MAX = 64 << 20, PART_MAX = 1 << 16, PALETTE_MAX = 256 * 3 };

static const mr_png_mode_t modes[] = {
    {1, 0, 1}, {2, 0, 2}, {4, 0, 4}, {8, 0, 8},  {16, 0, 16}, {8, 2, 24}, {16, 2, 48}, {1, 3, 1},
    {2, 3, 2}, {4, 3, 4}, {8, 3, 8}, {8, 4, 16}, {16, 4, 32}, {8, 6, 32}, {16, 6, 64},
};

/* A chunk: its name, and what follows its name. */
typedef struct chunk {
  char name[5];
  const uint8_t *data;
  uint32_t size; /* as the file says */
} chunk_t;

static uint32_t get_be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static mr_err_t png_bad(mr_diag_t *diag, const char *name, const char *why) {
  return mr_fail(diag, MR_ERR_DATA, "PNG: chunk %s %s", name, why);
}

static void png_skip(mr_png_file_t *f, size_t n) { f->at += n < f->n - f->at ? n : f->n - f->at; }

/* Reads the head of the next chunk; false at the end, or where no name follows. */
static bool png_next(mr_png_file_t *f, chunk_t *c) {
  const uint8_t *p = f->bytes + f->at;
  size_t left = f->n - f->at;
  png_skip(f, 8);
  if (left < 8) return false;
  for (int i = 4; i < 8; i++)
    if (!(p[i] >= '0' && p[i] <= '9') && !((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z') &&
        p[i] != '_')
      return false;
  *c = (chunk_t){.data = p + 8, .size = get_be32(p)};
  memcpy(c->name, p + 4, 4);
  return true;
}

/* ---- text ---- */

void *mr_png_zalloc(void *opaque, unsigned items, unsigned size) {
  return malloc((size_t)items * size);
}

void mr_png_zfree(void *opaque, void *memory) { free(memory); }

mr_err_t mr_png_unpack(const uint8_t *packed, size_t n_packed, mr_grown_t *to, size_t *n,
                       bool *whole, mr_diag_t *diag) {
  z_stream z = {.zalloc = mr_png_zalloc, .zfree = mr_png_zfree};
  *n = 0;
  MR_TRY(mr_grow(to, TEXT_MAX, diag));
  if (inflateInit(&z) != Z_OK) return mr_no_memory(diag, "the text of a PNG");
  z.next_in = (uint8_t *)(uintptr_t)packed, z.avail_in = (unsigned)n_packed; /* is read alone */
  z.next_out = to->at, z.avail_out = TEXT_MAX;
  int end = inflate(&z, Z_SYNC_FLUSH);
  *n = TEXT_MAX - z.avail_out;
  bool more = end != Z_STREAM_END && z.avail_in;
  inflateEnd(&z);
  if (end == Z_MEM_ERROR) return mr_no_memory(diag, "the text of a PNG");
  *whole = end == Z_OK || end == Z_STREAM_END || end == Z_BUF_ERROR;
  if (!*whole) return MR_OK;
  return more ? mr_fail(diag, MR_ERR_DATA, "PNG: a text of more than 1 MiB when unpacked") : MR_OK;
}

/* Counts a text of n characters. */
static mr_err_t png_count_text(mr_png_file_t *f, size_t n, mr_diag_t *diag) {
  f->text += n;
  if (f->text <= TEXTS_MAX) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "PNG: more than 64 MiB of text");
}

/* The characters of UTF-8, or -1 for bytes that are none. */
static int64_t count_utf8(const uint8_t *s, size_t n) {
  int64_t count = 0;
  for (size_t i = 0, more; i < n; i += 1 + more, count++) {
    uint8_t c = s[i], least = 0x80, most = 0xBF;
    more = c < 0x80 ? 0 : c < 0xC2 ? 4 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 4;
    if (more == 4 || more >= n - i) return -1;
    if (c == 0xE0) least = 0xA0; /* longer than it need be */
    if (c == 0xF0) least = 0x90;
    if (c == 0xED) most = 0x9F; /* half of a pair of UTF-16 */
    if (c == 0xF4) most = 0x8F; /* beyond Unicode */
    for (size_t k = 1; k <= more; k++, least = 0x80, most = 0xBF)
      if (s[i + k] < least || s[i + k] > most) return -1;
  }
  return count;
}

/* Cuts a text off at its first 0, behind which *rest begins; false without one. */
static bool cut_text(const uint8_t **text, size_t *n, const uint8_t **rest, size_t *n_rest) {
  const uint8_t *zero = memchr(*text, 0, *n);
  *rest = *text + *n, *n_rest = 0;
  if (!zero) return false;
  *rest = zero + 1, *n_rest = *n - (size_t)(zero - *text) - 1;
  *n = (size_t)(zero - *text);
  return true;
}

static mr_err_t png_read_text(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  const uint8_t *key = c->data, *text;
  size_t n_key = c->size, n;
  cut_text(&key, &n_key, &text, &n);
  return n_key ? png_count_text(f, n, diag) : MR_OK;
}

static mr_err_t png_read_packed_text(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  const uint8_t *key = c->data, *text;
  size_t n_key = c->size, n, unpacked;
  cut_text(&key, &n_key, &text, &n);
  if (n && *text) return png_bad(diag, c->name, "is packed by an unknown method");
  bool whole;
  MR_TRY(mr_png_unpack(text + !!n, n - !!n, &f->texts, &unpacked, &whole, diag));
  return n_key && whole ? png_count_text(f, unpacked, diag) : MR_OK;
}

static mr_err_t png_read_unicode_text(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  const uint8_t *key = c->data, *lang, *name, *text;
  size_t n_key = c->size, n_lang, n_name, n;
  if (!cut_text(&key, &n_key, &lang, &n_lang) || n_lang < 2) return MR_OK;
  bool packed = lang[0], known = !lang[1];
  lang += 2, n_lang -= 2;
  if (!cut_text(&lang, &n_lang, &name, &n_name) || !cut_text(&name, &n_name, &text, &n))
    return MR_OK;
  if (packed) {
    bool whole = false;
    if (known) MR_TRY(mr_png_unpack(text, n, &f->texts, &n, &whole, diag));
    if (!whole) return MR_OK;
    text = f->texts.at;
  }
  int64_t characters = count_utf8(text, n);
  if (characters < 0 || count_utf8(lang, n_lang) < 0 || count_utf8(name, n_name) < 0) return MR_OK;
  return png_count_text(f, (size_t)characters, diag);
}

/* A profile of colours changes no pixel, but one that cannot be read makes a bad file. */
static mr_err_t png_read_profile(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  const uint8_t *name = c->data, *rest;
  size_t n_name = c->size, n;
  if (!cut_text(&name, &n_name, &rest, &n)) rest = c->data, n = c->size;
  if (!n) return png_bad(diag, c->name, "is cut short");
  if (*rest) return png_bad(diag, c->name, "is packed by an unknown method");
  /* Without a 0, Pillow takes the bytes from the second on for the profile. */
  bool whole;
  return mr_png_unpack(rest + 1, n - 1, &f->texts, &n, &whole, diag);
}

/* ---- other chunks ---- */

static mr_err_t png_read_header(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  const uint8_t *p = c->data;
  if (c->size < 13) return png_bad(diag, c->name, "is cut short");
  f->w = get_be32(p), f->h = get_be32(p + 4);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (modes[i].depth == p[8] && modes[i].colour == p[9]) f->mode = &modes[i];
  if (p[12]) f->interlaced = true;
  return p[11] ? png_bad(diag, c->name, "has an unknown method of filters") : MR_OK;
}

static mr_err_t png_read_clear(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  if (!f->mode) return MR_OK;
  uint8_t colour = f->mode->colour;
  uint32_t least = colour == MR_PNG_GREY ? 2 : colour == MR_PNG_RGB ? 6 : 0;
  if (c->size < least) return png_bad(diag, c->name, "is cut short");
  if (colour != MR_PNG_INDEX) return MR_OK;
  uint32_t clear = 0, full = 0;
  for (uint32_t i = 0; i < c->size; i++) clear += !c->data[i], full += c->data[i] == 255;
  f->one_clear = clear == 1 && full + 1 == c->size;
  return MR_OK;
}

static mr_err_t png_read_frames(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  if (c->size < 8) return png_bad(diag, c->name, "is cut short");
  uint32_t n = get_be32(c->data);
  bool first = !f->counted; /* a second count makes both void */
  f->counted = first && n && n <= UINT32_C(0x80000000);
  f->n_frames = n;
  return MR_OK;
}

static mr_err_t png_in_sequence(mr_png_file_t *f, const chunk_t *c, int64_t least,
                                mr_diag_t *diag) {
  if (f->sequence + 1 != (int64_t)get_be32(c->data) || f->sequence < least)
    return png_bad(diag, c->name, "is out of sequence");
  f->sequence++;
  return MR_OK;
}

static mr_err_t png_read_frame(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  if (c->size < 26) return png_bad(diag, c->name, "is cut short");
  MR_TRY(png_in_sequence(f, c, -1, diag));
  uint64_t w = get_be32(c->data + 4), h = get_be32(c->data + 8), x = get_be32(c->data + 12),
           y = get_be32(c->data + 16);
  if (x + w > f->w || y + h > f->h) return png_bad(diag, c->name, "leads out of the picture");
  uint32_t box[4] = {(uint32_t)x, (uint32_t)y, (uint32_t)w, (uint32_t)h};
  memcpy(f->box, box, sizeof box);
  f->framed = true;
  return MR_OK;
}

static mr_err_t png_read_least(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  uint32_t least = !strcmp(c->name, "gAMA")   ? 4
                   : !strcmp(c->name, "cHRM") ? 32
                   : !strcmp(c->name, "sRGB") ? 1
                                              : 9;
  return c->size < least ? png_bad(diag, c->name, "is cut short") : MR_OK;
}

static mr_err_t png_read_palette(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  if (f->mode && f->mode->colour == MR_PNG_INDEX) f->palette = c->data, f->n_palette = c->size;
  return MR_OK;
}

static const struct {
  char name[5];
  mr_err_t (*read)(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag);
} readers[] = {
    {"IHDR", png_read_header},       {"PLTE", png_read_palette}, {"tRNS", png_read_clear},
    {"gAMA", png_read_least},        {"cHRM", png_read_least},   {"sRGB", png_read_least},
    {"pHYs", png_read_least},        {"tEXt", png_read_text},    {"zTXt", png_read_packed_text},
    {"iTXt", png_read_unicode_text}, {"iCCP", png_read_profile}, {"acTL", png_read_frames},
    {"fcTL", png_read_frame},
};

/* Reads what a chunk says and goes behind it. */
static mr_err_t png_call(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  if (c->size > f->n - f->at) return mr_fail(diag, MR_ERR_DATA, "PNG: is cut short");
  f->at += c->size;
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (!strcmp(readers[i].name, c->name)) return readers[i].read(f, c, diag);
  return MR_OK;
}

/* A chunk of data of a later frame. */
static mr_err_t png_frame_data(mr_png_file_t *f, chunk_t *c, mr_diag_t *diag) {
  if (c->size < 4 || f->n - f->at < 4) return png_bad(diag, c->name, "is cut short");
  MR_TRY(png_in_sequence(f, c, 0, diag));
  f->at += 4, c->data += 4, c->size -= 4;
  return MR_OK;
}

/* ---- the file ---- */

static mr_err_t png_check_crc(mr_png_file_t *f, const chunk_t *c, mr_diag_t *diag) {
  uLong crc = crc32(crc32(0, c->data - 4, 4), c->data, c->size);
  if (f->n - f->at < 4 || get_be32(f->bytes + f->at) != (uint32_t)crc)
    return png_bad(diag, c->name, "has another checksum");
  f->at += 4;
  return MR_OK;
}

/* What a chunk says of transparency counts behind the rows, too. */
static mr_err_t png_check_clear(const mr_png_file_t *f, mr_diag_t *diag) {
  if (!f->bare || !f->one_clear) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "PNG: a transparent colour of no palette");
}

static mr_err_t png_settle(const mr_png_file_t *f, mr_diag_t *diag) {
  if (!f->mode) return mr_fail(diag, MR_ERR_DATA, "PNG: no header of a kind that PNG has");
  if (!f->w || !f->h) return mr_fail(diag, MR_ERR_DATA, "PNG: has no pixels");
  if (!f->found) return mr_fail(diag, MR_ERR_DATA, "PNG: has no data");
  if (f->framed && (!f->box[2] || !f->box[3]))
    return mr_fail(diag, MR_ERR_DATA, "PNG: has an empty frame");
  /* A header behind the frame's may have made the picture smaller. */
  if (f->framed &&
      ((uint64_t)f->box[0] + f->box[2] > f->w || (uint64_t)f->box[1] + f->box[3] > f->h))
    return mr_fail(diag, MR_ERR_DATA, "PNG: a frame leads out of the picture");
  if (f->n_palette / 3 > PALETTE_MAX / 3)
    return mr_fail(diag, MR_ERR_DATA, "PNG: a palette of %zu colours, want at most 256",
                   f->n_palette / 3);
  uint8_t colour = f->mode->colour, depth = f->mode->depth;
  bool grey = (colour == MR_PNG_GREY && depth != 1 && depth != 16) ||
              (colour == MR_PNG_GREY_ALPHA && depth == 8);
  if (f->palette && colour != MR_PNG_INDEX && !grey)
    return mr_fail(diag, MR_ERR_DATA, "PNG: a palette of pixels that are no indices");
  return MR_OK;
}

mr_err_t mr_png_open(mr_png_file_t *f, const uint8_t *bytes, size_t n, mr_diag_t *diag) {
  *f = (mr_png_file_t){
      .bytes = bytes, .n = n, .at = n < 8 ? n : 8, .sequence = -1, .texts = f->texts};
  while (!f->found && !f->over) {
    chunk_t c;
    if (!png_next(f, &c)) return mr_fail(diag, MR_ERR_DATA, "PNG: is cut short, or damaged");
    bool later = !strcmp(c.name, "fdAT"), data = later || !strcmp(c.name, "IDAT");
    if (later) MR_TRY(png_frame_data(f, &c, diag));
    f->over = !strcmp(c.name, "IEND");
    f->found = data && f->mode;
    if (f->found) f->left = c.size, f->apart = f->counted && !f->framed;
    if (f->found || f->over) break;
    MR_TRY(png_call(f, &c, diag));
    MR_TRY(png_check_crc(f, &c, diag));
  }
  MR_TRY(png_settle(f, diag));
  f->bare = f->mode->colour == MR_PNG_INDEX && !f->palette;
  return MR_OK;
}

mr_err_t mr_png_data(mr_png_file_t *f, const uint8_t **part, size_t *size, mr_diag_t *diag) {
  chunk_t c;
  while (!f->left) {
    png_skip(f, 4);
    bool more = png_next(f, &c), later = more && !strcmp(c.name, "fdAT");
    if (!more || (!later && strcmp(c.name, "IDAT") != 0 && strcmp(c.name, "DDAT") != 0))
      return mr_fail(diag, MR_ERR_DATA, "PNG: is cut short");
    if (later) MR_TRY(png_frame_data(f, &c, diag));
    f->left = c.size;
  }
  size_t n = f->left < PART_MAX ? f->left : PART_MAX, there = f->n - f->at;
  f->left -= n;
  *part = f->bytes + f->at, *size = n < there ? n : there;
  f->at += *size;
  return *size ? MR_OK : mr_fail(diag, MR_ERR_DATA, "PNG: is cut short");
}

mr_err_t mr_png_finish(mr_png_file_t *f, mr_diag_t *diag) {
  bool animated = f->counted && (uint64_t)f->n_frames + f->apart > 1;
  chunk_t c;
  png_skip(f, f->left);
  for (;;) {
    png_skip(f, 4);
    if (!png_next(f, &c) || !strcmp(c.name, "IEND") || (!strcmp(c.name, "fcTL") && animated))
      return png_check_clear(f, diag);
    if (!strcmp(c.name, "fdAT")) MR_TRY(png_frame_data(f, &c, diag));
    MR_TRY(png_call(f, &c, diag));
  }
}
