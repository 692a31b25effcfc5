/* The decoders against Pillow's pixels (tests/golden/pictures.py): whole pictures, boxes of them,
   and files that are damaged. */
#include "stages/decoder.h"
#include "tests/vectors.h"
/* after vectors.h */
#include "tests/crc.h"
#include "tests/random.h"

enum { FILES_MAX = 128, BYTES_MAX = 1 << 20 };

typedef struct row {
  char name[64];
  int at, n, h[2], w[2]; /* [1]: turned upright */
  unsigned crc[2];
} row_t;

static row_t row[FILES_MAX];
static int n_rows;
static uint8_t file[BYTES_MAX];

static int read_rows(void **state) {
  char line[256];
  FILE *f = vectors_open("pictures.txt");
  assert_non_null(f);
  while (vectors_line(f, line, sizeof line)) {
    row_t *x = &row[n_rows++];
    assert_true(n_rows <= FILES_MAX);
    assert_int_equal(sscanf(line, "%63s %d %d %d %d %x %d %d %x", x->name, &x->at, &x->n, &x->h[0],
                            &x->w[0], &x->crc[0], &x->h[1], &x->w[1], &x->crc[1]),
                     9);
  }
  fclose(f);
  f = vectors_open("pictures.bin");
  size_t n = fread(file, 1, sizeof file, f);
  fclose(f);
  assert_int_equal(n, row[n_rows - 1].at + row[n_rows - 1].n);
  assert_true(n_rows > 60);
  return 0;
}

static const mr_decoder_def_t *decoder_of(const uint8_t *bytes, size_t n) {
  if (mr_decoder_jpeg.is(bytes, n)) return &mr_decoder_jpeg;
  if (mr_decoder_png.is(bytes, n)) return &mr_decoder_png;
  return mr_decoder_webp.is(bytes, n) ? &mr_decoder_webp : NULL;
}

/* One decoder of each format is used for all files, as a worker does. */
static void *kept(const mr_decoder_def_t *def) {
  static void *made[3];
  int i = def == &mr_decoder_jpeg ? 0 : def == &mr_decoder_png ? 1 : 2;
  if (!made[i]) made[i] = def->create();
  assert_non_null(made[i]);
  return made[i];
}

static uint32_t crc_of(mr_part_t part, int h, int w) {
  uint32_t crc = 0;
  for (int y = 0; y < h; y++)
    crc = crc32_of(crc, part.data + (size_t)y * part.stride, 3 * (size_t)w);
  return crc;
}

static void files_have_pillows_pixels(void **state) {
  mr_grown_t to = {0};
  for (int i = 0; i < n_rows; i++) {
    const row_t *f = &row[i];
    const uint8_t *bytes = file + f->at;
    const mr_decoder_def_t *def = decoder_of(bytes, (size_t)f->n);
    mr_diag_t diag = {0};
    mr_head_t head;
    mr_part_t part;
    if (!def) fail_msg("%s: no decoder takes it", f->name);
    void *d = kept(def);
    if (def->begin(d, bytes, (size_t)f->n, true, &head, &diag) < 0)
      fail_msg("%s: %s", f->name, diag.text);
    assert_int_equal(head.h, f->h[0]);
    assert_int_equal(head.w, f->w[0]);
    if (def->read(d, (mr_box_t){0, 0, head.h, head.w}, &to, &part, &diag) < 0)
      fail_msg("%s: %s", f->name, diag.text);
    if (crc_of(part, head.h, head.w) != f->crc[0]) fail_msg("%s: other pixels", f->name);
    uint8_t *upright = malloc(3 * (size_t)head.h * (size_t)head.w);
    mr_turn(part.data, part.stride, head.h, head.w, head.turned, upright);
    mr_part_t turned = {upright, 3 * (size_t)f->w[1]};
    if (crc_of(turned, f->h[1], f->w[1]) != f->crc[1])
      fail_msg("%s: orientation %d gives other pixels", f->name, head.turned);
    free(upright);
  }
  free(to.at);
}

static mr_box_t any_box(round_t *r, int h, int w) {
  mr_box_t b = {.h = 1 + draw(r, h), .w = 1 + draw(r, w)};
  b.i = draw(r, h - b.h + 1), b.j = draw(r, w - b.w + 1);
  return b;
}

static void boxes_equal_the_whole_picture(void **state) {
  round_t r = round_first(60);
  mr_grown_t whole = {0}, to = {0};
  while (round_next(&r))
    for (int i = 0; i < n_rows; i++) {
      const row_t *f = &row[i];
      const mr_decoder_def_t *def = decoder_of(file + f->at, (size_t)f->n);
      void *d = kept(def);
      mr_head_t head;
      mr_part_t all, part;
      assert_int_equal(def->begin(d, file + f->at, (size_t)f->n, false, &head, NULL), MR_OK);
      assert_int_equal(def->read(d, (mr_box_t){0, 0, head.h, head.w}, &whole, &all, NULL), MR_OK);
      size_t bytes = 3 * (size_t)head.h * (size_t)head.w;
      uint8_t *copy = malloc(bytes);
      memcpy(copy, all.data, bytes);
      if (draw(&r, 2)) /* the first box after the header, or a later one */
        assert_int_equal(def->begin(d, file + f->at, (size_t)f->n, false, &head, NULL), MR_OK);
      for (int k = 0; k < 3; k++) {
        mr_box_t b = any_box(&r, head.h, head.w);
        assert_int_equal(def->read(d, b, def == &mr_decoder_jpeg ? &to : &whole, &part, NULL),
                         MR_OK);
        for (int y = 0; y < b.h; y++)
          if (memcmp(part.data + (size_t)y * part.stride,
                     copy + 3 * ((size_t)(b.i + y) * (size_t)head.w + (size_t)b.j),
                     3 * (size_t)b.w))
            fail_msg("%s, seed %llu: box of %d x %d at %d, %d, row %d", f->name,
                     (unsigned long long)r.seed, b.h, b.w, b.i, b.j, y);
      }
      free(copy);
    }
  free(whole.at), free(to.at);
}

/* A crop must not decide whether a record is bad. */
static void damaged_files_fail_for_every_box_or_for_none(void **state) {
  round_t r = round_first(200);
  mr_grown_t to = {0};
  int bad = 0, good = 0;
  while (round_next(&r))
    for (int i = 0; i < n_rows; i++) {
      const row_t *f = &row[i];
      int n = draw(&r, 2) ? f->n : 3 + draw(&r, f->n);
      if (n > f->n) n = f->n;
      uint8_t *bytes = malloc((size_t)n); /* of exactly this size: no over-read */
      memcpy(bytes, file + f->at, (size_t)n);
      for (int k = draw(&r, 4); k > 0; k--) bytes[draw(&r, n)] = (uint8_t)round_bits(&r);
      const mr_decoder_def_t *def = decoder_of(bytes, (size_t)n);
      mr_head_t head;
      if (def && def->begin(kept(def), bytes, (size_t)n, true, &head, NULL) >= 0 &&
          (int64_t)head.h * head.w <= 1 << 20) {
        mr_err_t first = MR_OK;
        for (int k = 0; k < 3; k++) {
          mr_part_t part;
          mr_diag_t diag = {0};
          mr_box_t b = any_box(&r, head.h, head.w);
          mr_err_t e = def->read(kept(def), b, &to, &part, &diag);
          if (e >= 0) crc_of(part, b.h, b.w);
          if (!k) first = e;
          if (e != first)
            fail_msg("%s, seed %llu: %d for one box, %d for another (%s)", f->name,
                     (unsigned long long)r.seed, (int)first, (int)e, diag.text);
        }
        first < 0 ? bad++ : good++;
      }
      free(bytes);
    }
  free(to.at);
  assert_true(bad > 10 && good > 10);
}

static void cut_files_are_bad(void **state) {
  mr_grown_t to = {0};
  for (int i = 0; i < n_rows; i++) {
    const row_t *f = &row[i];
    mr_diag_t diag = {0};
    mr_head_t head;
    mr_part_t part;
    const uint8_t *bytes = file + f->at;
    const mr_decoder_def_t *def = decoder_of(bytes, (size_t)f->n);
    if (strstr(f->name, "no-end") || strstr(f->name, "animation")) continue;
    size_t n = (size_t)f->n - (def == &mr_decoder_png ? 30 : 20);
    mr_err_t e = def->begin(kept(def), bytes, n, false, &head, &diag);
    if (e >= 0) e = def->read(kept(def), (mr_box_t){0, 0, 1, 1}, &to, &part, &diag);
    if (e != MR_ERR_DATA) fail_msg("%s cut short: %d", f->name, (int)e);
  }
  free(to.at);
}

/* An animation's canvas alone: a file of 30 bytes that says how many pixels memory is taken for. */
static void a_canvas_of_too_many_pixels_on_a_side_is_bad(void **state) {
  static const uint8_t bytes[30] = {'R', 'I', 'F', 'F', 22,  0,   0,   0, 'W', 'E',
                                    'B', 'P', 'V', 'P', '8', 'X', 10,  0, 0,   0,
                                    2,   0,   0,   0,   255, 255, 255, 4, 0,   0};
  mr_diag_t diag = {0};
  mr_head_t head;
  void *d = mr_decoder_webp.create();
  assert_non_null(d);
  assert_int_equal(mr_decoder_webp.begin(d, bytes, sizeof bytes, false, &head, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "16777216 x 5 pixels, want at most 65535"));
  mr_decoder_webp.destroy(d);
}

static mr_err_t read_pixel(const uint8_t *bytes, size_t n, mr_diag_t *diag) {
  mr_grown_t to = {0};
  mr_head_t head;
  mr_part_t part;
  void *d = kept(&mr_decoder_jpeg);
  mr_err_t e = mr_decoder_jpeg.begin(d, bytes, n, false, &head, diag);
  if (e >= 0) e = mr_decoder_jpeg.read(d, (mr_box_t){0, 0, 1, 1}, &to, &part, diag);
  free(to.at);
  return e;
}

/* A progressive grey picture of side x side pixels, all 0, and `scans` scans of its lowest
   frequency; returns the bytes written.  Without a quantization table libjpeg fails where it begins
   the first scan. */
static size_t write_scans(uint8_t *to, int side, bool decodable, int scans) {
  const uint8_t frame[37] = {0xFF, 0xD8, 0xFF, 0xC2, 0, 11, 8, (uint8_t)(side >> 8), (uint8_t)side,
                             (uint8_t)(side >> 8), (uint8_t)side, 1, 1, 0x11, 0,
                             /* a code of one bit for 0; zeros follow */
                             0xFF, 0xC4, 0, 20, 0, 1};
  static const uint8_t table[5] = {0xFF, 0xDB, 0, 67, 0},
                       scan[11] = {0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 0, 0, 0};
  uint8_t *at = to;
  memcpy(at, frame, sizeof frame), at += sizeof frame;
  if (decodable) {
    memcpy(at, table, sizeof table);
    memset(at + sizeof table, 1, 64), at += sizeof table + 64;
  }
  for (int i = 0; i < scans; i++, at += sizeof scan) memcpy(at, scan, sizeof scan);
  *at++ = 0xFF, *at++ = 0xD9;
  return (size_t)(at - to);
}

static void expect_too_many_scans(const uint8_t *bytes, size_t n) {
  mr_diag_t diag = {0};
  assert_int_equal(read_pixel(bytes, n, &diag), MR_ERR_DATA);
  assert_string_equal(diag.text, "JPEG: more than 500 scans");
}

/* A few bytes can hold thousands of scans of a large picture. */
static void scans_are_counted_before_the_first_is_decoded(void **state) {
  static uint8_t bytes[BYTES_MAX];
  mr_diag_t diag = {0};
  assert_int_equal(read_pixel(bytes, write_scans(bytes, 8, false, 500), &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "uantization table"));
  expect_too_many_scans(bytes, write_scans(bytes, 8, false, 501)); /* not even begun */
  expect_too_many_scans(bytes, write_scans(bytes, 8, true, 501));
  expect_too_many_scans(bytes, write_scans(bytes, 8224, true, 2000));
  assert_int_equal(read_pixel(bytes, write_scans(bytes, 8, true, 500), NULL), MR_OK);
}

/* Bytes like those of a scan in a comment, or behind the end. */
static void bytes_that_look_like_a_scan_are_not_counted(void **state) {
  static const uint8_t comment[4] = {0xFF, 0xFE, 2000 >> 8, 2000 & 255};
  static uint8_t bytes[BYTES_MAX];
  int after = 0;
  size_t n = write_scans(bytes, 8, true, 500) - 2;
  memcpy(bytes + n, comment, sizeof comment), n += sizeof comment;
  for (int k = 0; k < 999; k++) bytes[n++] = 0xFF, bytes[n++] = 0xDA;
  bytes[n++] = 0xFF, bytes[n++] = 0xD9;
  assert_int_equal(read_pixel(bytes, n, NULL), MR_OK);
  for (int i = 0; i < n_rows; i++) {
    const uint8_t *f = file + row[i].at;
    if (decoder_of(f, (size_t)row[i].n) != &mr_decoder_jpeg || f[row[i].n - 1] != 0xD9) continue;
    mr_diag_t diag = {0};
    memcpy(bytes, f, n = (size_t)row[i].n);
    for (int k = 0; k < 1000; k++) bytes[n++] = 0xFF, bytes[n++] = 0xDA;
    if (read_pixel(bytes, n, &diag) < 0) fail_msg("%s: %s", row[i].name, diag.text);
    after++;
  }
  assert_true(after > 10);
}

/* Pixels above a stray marker would be right; libjpeg finds it behind the scan. */
static void a_marker_within_a_scan_makes_a_bad_file(void **state) {
  static uint8_t bytes[BYTES_MAX];
  int bad = 0;
  for (int i = 0; i < n_rows; i++) {
    size_t n = (size_t)row[i].n, at = 2;
    memcpy(bytes, file + row[i].at, n);
    if (decoder_of(bytes, n) != &mr_decoder_jpeg || bytes[n - 1] != 0xD9) continue;
    bool baseline = false, restarts = false;
    while (at + 4 < n && bytes[at + 1] != 0xDA) {
      baseline |= bytes[at + 1] == 0xC0, restarts |= bytes[at + 1] == 0xDD;
      at += 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
    }
    if (!baseline || restarts || n - at < 200) continue; /* restarts pass over markers */
    mr_diag_t diag = {0};
    bytes[n - 60] = 0xFF, bytes[n - 59] = 0x85;
    if (read_pixel(bytes, n, &diag) != MR_ERR_DATA) fail_msg("%s: is taken", row[i].name);
    bad++;
  }
  assert_true(bad > 5);
}

/* ---- PNG chunks by hand ---- */

static size_t add_chunk(uint8_t *to, const char *type, const void *data, uint32_t n) {
  uint8_t be[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
  memcpy(to, be, 4), memcpy(to + 4, type, 4);
  if (n) memcpy(to + 8, data, n);
  uint32_t crc = crc32_of(0, to + 4, n + 4);
  for (int i = 0; i < 4; i++) to[8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
  return n + 12;
}

/* Indices 0 and 200 of a palette of one colour. */
static void an_index_beyond_the_palette_is_black(void **state) {
  static const uint8_t head[] = {0, 0, 0, 2, 0, 0, 0, 1, 8, 3, 0, 0, 0}, colour[] = {10, 20, 30};
  static const uint8_t rows[14] = {0x78, 1, 1, 3, 0, 0xFC, 0xFF, 0, 0, 200};
  uint8_t png[200] = "\x89PNG\r\n\x1A\n", zlib[sizeof rows];
  memcpy(zlib, rows, sizeof rows);
  uint32_t a = 1, b = 0; /* Adler-32 */
  for (int i = 7; i < 10; i++) a = (a + rows[i]) % 65521, b = (b + a) % 65521;
  zlib[10] = (uint8_t)(b >> 8), zlib[11] = (uint8_t)b, zlib[12] = (uint8_t)(a >> 8);
  zlib[13] = (uint8_t)a;
  size_t n = 8;
  n += add_chunk(png + n, "IHDR", head, sizeof head);
  n += add_chunk(png + n, "PLTE", colour, sizeof colour);
  n += add_chunk(png + n, "IDAT", zlib, sizeof zlib);
  n += add_chunk(png + n, "IEND", NULL, 0);
  mr_grown_t to = {0};
  mr_head_t is;
  mr_part_t part;
  mr_diag_t diag = {0};
  void *d = kept(&mr_decoder_png);
  mr_err_t e = mr_decoder_png.begin(d, png, n, false, &is, &diag);
  if (e >= 0) e = mr_decoder_png.read(d, (mr_box_t){0, 0, 1, 2}, &to, &part, &diag);
  if (e < 0) fail_msg("%s", diag.text);
  assert_memory_equal(part.data, ((uint8_t[]){10, 20, 30, 0, 0, 0}), 6);
  free(to.at);
}

/* An entry of a TIFF directory: its type, count and value, which lies at byte 26 if it does not fit
   into four bytes. */
static int orientation_of(int type, int count, const void *value, size_t n) {
  uint8_t tiff[40] = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1};
  tiff[12] = (uint8_t)type, tiff[14] = (uint8_t)count;
  if (n > 4) tiff[18] = 26;
  memcpy(tiff + (n > 4 ? 26 : 18), value, n);
  return mr_exif_orientation(tiff, sizeof tiff);
}

/* ---- orientations in the text of a PNG ---- */

static size_t put_number(uint8_t *to, size_t v) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
  return 4;
}

/* Appends a chunk of this type and data. */
static size_t put_chunk(uint8_t *to, const char *type, const void *data, size_t n) {
  size_t at = put_number(to, n);
  memcpy(to + at, type, 4), memcpy(to + at + 4, data, n);
  at += 4 + n;
  return at + put_number(to + at, crc32_of(0, to + 4, 4 + n));
}

/* A zlib stream of one block that is not compressed. */
static size_t put_stored(uint8_t *to, const char *text, size_t n) {
  uint32_t a = 1, b = 0;
  memcpy(to, "\x78\x01\x01", 3);
  to[3] = (uint8_t)n, to[4] = (uint8_t)(n >> 8), to[5] = (uint8_t)~n, to[6] = (uint8_t)(~n >> 8);
  memcpy(to + 7, text, n);
  for (size_t i = 0; i < n; i++) a = (a + (uint8_t)text[i]) % 65521, b = (b + a) % 65521;
  return 7 + n + put_number(to + 7 + n, b << 16 | a);
}

/* What ImageMagick writes of an orientation, and other text. */
static int profile_text(char text[400], const char *head, int orientation) {
  return sprintf(text, "%s4578696600004d4d002a000000080001011200030000\n0001%04x000000000000\n",
                 head, orientation);
}

/* The orientation of the first PNG of the golden files with these chunks behind its header. */
static int turned_by(const uint8_t *chunks, size_t n) {
  const row_t *f = row;
  while (!mr_decoder_png.is(file + f->at, (size_t)f->n)) f++;
  uint8_t *whole = malloc((size_t)f->n + n);
  mr_diag_t diag = {0};
  mr_head_t head;
  memcpy(whole, file + f->at, 33), memcpy(whole + 33, chunks, n);
  memcpy(whole + 33 + n, file + f->at + 33, (size_t)f->n - 33);
  if (mr_decoder_png.begin(kept(&mr_decoder_png), whole, (size_t)f->n + n, true, &head, &diag) < 0)
    fail_msg("%s", diag.text);
  free(whole);
  return head.turned;
}

static void orientations_in_the_text_of_a_png_count(void **state) {
  static const char name[] = "Raw profile type exif", usual[] = "\nexif\n      44\n";
  static const uint8_t exif[] = "MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\10\0\0\0\0\0\0";
  uint8_t chunk[2000], data[1000];
  char text[400];
  size_t n, at, head = sizeof name;
  memcpy(data, name, head);
  n = (size_t)profile_text(text, usual, 6);
  memcpy(data + head, text, n);
  at = put_chunk(chunk, "tEXt", data, head + n);
  assert_int_equal(turned_by(chunk, at), 6);
  size_t more = put_chunk(chunk + at, "eXIf", exif, sizeof exif - 1);
  assert_int_equal(turned_by(chunk, at + more), 8); /* the profile does not count then */
  data[head] = 0;                                   /* the method of compression */
  size_t packed = put_stored(data + head + 1, text, n);
  assert_int_equal(turned_by(chunk, put_chunk(chunk, "zTXt", data, head + 1 + packed)), 6);
  memset(data + head, 0, 4), memcpy(data + head + 4, text, n);
  assert_int_equal(turned_by(chunk, put_chunk(chunk, "iTXt", data, head + 4 + n)), 6);
  static const struct {
    const char *head;
    int orientation, want;
  } row_of[] = {{"\nexif\n44\n", 3, 3},  {"no lines", 6, 1},     {"\nexif\n44\n0x", 6, 1},
                {"\nexif\n44\n4", 6, 1}, {"\nexif\n44\n", 9, 1}, {"\nexif\n44\n  \t", 5, 5}};
  for (size_t i = 0; i < sizeof row_of / sizeof *row_of; i++) {
    n = (size_t)profile_text(text, row_of[i].head, row_of[i].orientation);
    memcpy(data + head, text, n);
    assert_int_equal(turned_by(chunk, put_chunk(chunk, "tEXt", data, head + n)), row_of[i].want);
  }
  static const char xmp[] = "XML:com.adobe.xmp\0\1\0\0", line[] = "<x tiff:Orientation=\"7\"/>";
  memcpy(data, xmp, sizeof xmp);
  packed = put_stored(data + sizeof xmp, line, sizeof line - 1);
  assert_int_equal(turned_by(chunk, put_chunk(chunk, "iTXt", data, sizeof xmp + packed)), 7);
  data[sizeof xmp + 8] ^= 1; /* damaged: no text, and no harm */
  assert_int_equal(turned_by(chunk, put_chunk(chunk, "iTXt", data, sizeof xmp + packed)), 1);
}

static void orientations_of_every_type_of_number_count(void **state) {
  assert_int_equal(orientation_of(3, 1, &(uint16_t){6}, 2), 6);
  assert_int_equal(orientation_of(4, 1, &(uint32_t){6}, 4), 6);
  assert_int_equal(orientation_of(9, 1, &(int32_t){8}, 4), 8);
  assert_int_equal(orientation_of(5, 1, (uint32_t[]){12, 2}, 8), 6);
  assert_int_equal(orientation_of(5, 1, (uint32_t[]){13, 2}, 8), 1);
  assert_int_equal(orientation_of(5, 1, (uint32_t[]){6, 0}, 8), 1);
  assert_int_equal(orientation_of(11, 1, &(float){3}, 4), 3);
  assert_int_equal(orientation_of(12, 1, &(double){7}, 8), 7);
  assert_int_equal(orientation_of(1, 1, "\6", 1), 1); /* bytes are no number */
  assert_int_equal(orientation_of(3, 1, &(uint16_t){9}, 2), 1);
  assert_int_equal(orientation_of(3, 2, (uint16_t[]){5, 6}, 4), 5);
  assert_int_equal(orientation_of(3, 0, &(uint16_t){6}, 2), 0);
  assert_int_equal(orientation_of(5, 255, (uint32_t[]){12, 2}, 8), 0); /* beyond the data */
  static const char *const xmp[] = {"<x tiff:Orientation=\"6\"/>", "<tiff:Orientation>3</..>",
                                    "<tiff:Orientation>9</..>", "tiff:Orientation", "tiff:Ori"};
  static const int want[] = {6, 3, 1, 0, 0};
  for (int i = 0; i < 5; i++)
    assert_int_equal(mr_xmp_orientation((const uint8_t *)xmp[i], strlen(xmp[i])), want[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_have_pillows_pixels),
      cmocka_unit_test(boxes_equal_the_whole_picture),
      cmocka_unit_test(damaged_files_fail_for_every_box_or_for_none),
      cmocka_unit_test(cut_files_are_bad),
      cmocka_unit_test(scans_are_counted_before_the_first_is_decoded),
      cmocka_unit_test(bytes_that_look_like_a_scan_are_not_counted),
      cmocka_unit_test(a_marker_within_a_scan_makes_a_bad_file),
      cmocka_unit_test(an_index_beyond_the_palette_is_black),
      cmocka_unit_test(orientations_in_the_text_of_a_png_count),
      cmocka_unit_test(orientations_of_every_type_of_number_count),
      cmocka_unit_test(a_canvas_of_too_many_pixels_on_a_side_is_bad),
  };
  return cmocka_run_group_tests(tests, read_rows, NULL);
}
