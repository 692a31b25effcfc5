/* PNG and JPEG files that lack parts (tests/golden/damaged.py): each has Pillow's pixels, or is bad
   where Pillow refuses it. */
#include "stages/decoder.h"
#include "tests/vectors.h"
/* after vectors.h */
#include "tests/crc.h"

enum { BYTES_MAX = 1 << 22 };

/* Decodes a file; the pixels' CRC-32 in *crc. */
static mr_err_t decode_file(const mr_decoder_def_t *def, void *d, const uint8_t *bytes, size_t n,
                            mr_grown_t *to, mr_head_t *head, uint32_t *crc, mr_diag_t *diag) {
  mr_part_t part;
  *crc = 0;
  MR_TRY(def->begin(d, bytes, n, false, head, diag));
  MR_TRY(def->read(d, (mr_box_t){0, 0, head->h, head->w}, to, &part, diag));
  for (int y = 0; y < head->h; y++)
    *crc = crc32_of(*crc, part.data + (size_t)y * part.stride, 3 * (size_t)head->w);
  return MR_OK;
}

static void a_file_that_lacks_parts_is_what_pillow_makes_of_it(void **state) {
  const mr_decoder_def_t *defs[] = {&mr_decoder_png, &mr_decoder_jpeg};
  void *made[] = {mr_decoder_png.create(), mr_decoder_jpeg.create()};
  static uint8_t all[BYTES_MAX];
  char line[256], name[64];
  int read = 0, refused = 0, at, n, h, w;
  unsigned want;
  mr_grown_t to = {0};
  FILE *f = vectors_open("damaged.bin");
  size_t bytes = fread(all, 1, sizeof all, f);
  fclose(f);
  f = vectors_open("damaged.txt");
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%63s %d %d %d %d %x", name, &at, &n, &h, &w, &want), 6);
    assert_true((size_t)at + (size_t)n <= bytes);
    uint8_t *alone = malloc((size_t)n); /* a byte behind it is found out by a sanitizer */
    memcpy(alone, all + at, (size_t)n);
    int i = !strncmp(name, "jpeg", 4);
    mr_head_t head;
    mr_diag_t diag = {0};
    uint32_t crc;
    assert_true(defs[i]->is(alone, (size_t)n));
    mr_err_t e = decode_file(defs[i], made[i], alone, (size_t)n, &to, &head, &crc, &diag);
    if (h && e < 0) fail_msg("%s: %s", name, diag.text);
    if (!h && e != MR_ERR_DATA) fail_msg("%s: is taken", name);
    if (h && (head.h != h || head.w != w || crc != want)) fail_msg("%s: other pixels", name);
    if (e < 0 && !*diag.text) fail_msg("%s: no sentence", name);
    read += h > 0, refused += !h;
    free(alone);
  }
  fclose(f);
  vectors_met(read, 850), vectors_met(refused, 850);
  for (int i = 0; i < 2; i++) defs[i]->destroy(made[i]);
  mr_grown_free(&to);
}

/* ---- a picture that a second header makes smaller than its frame ---- */

static size_t put_be32(uint8_t *to, uint32_t v) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
  return 4;
}

/* Adds a chunk; its bytes in all. */
static size_t put_chunk(uint8_t *to, const char *name, const uint8_t *data, size_t n) {
  put_be32(to, (uint32_t)n);
  memcpy(to + 4, name, 4);
  if (n) memcpy(to + 8, data, n);
  put_be32(to + 8 + n, crc32_of(0, to + 4, 4 + n));
  return 12 + n;
}

static size_t put_header(uint8_t *to, uint32_t w, uint32_t h) {
  uint8_t data[13] = {[8] = 8, [9] = 2};
  put_be32(data, w), put_be32(data + 4, h);
  return put_chunk(to, "IHDR", data, sizeof data);
}

static void a_frame_beyond_the_last_header_is_refused(void **state) {
  enum { SIDE = 100, ROWS = SIDE * (3 * SIDE + 1) };
  static uint8_t file[ROWS + 1024], rows[ROWS + 16];
  static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  void *d = mr_decoder_png.create();
  mr_grown_t to = {0};
  for (int good = 0; good < 2; good++) {
    uint8_t counted[8] = {[3] = 2}, frame[26] = {0};
    mr_head_t head;
    mr_diag_t diag = {0};
    uint32_t crc;
    size_t n = sizeof signature;
    memcpy(file, signature, n);
    n += put_header(file + n, SIDE, SIDE);
    n += put_chunk(file + n, "acTL", counted, sizeof counted);
    put_be32(frame + 4, SIDE), put_be32(frame + 8, SIDE);
    n += put_chunk(file + n, "fcTL", frame, sizeof frame);
    n += put_header(file + n, good ? SIDE : 1, good ? SIDE : 1);
    memset(rows, 0, sizeof rows); /* one stored block of zlib's */
    rows[0] = 0x78, rows[1] = 1, rows[2] = 1;
    rows[3] = ROWS & 255, rows[4] = ROWS >> 8, rows[5] = ~ROWS & 255, rows[6] = (~ROWS >> 8) & 255;
    n += put_chunk(file + n, "IDAT", rows, 7 + ROWS);
    n += put_chunk(file + n, "IEND", NULL, 0);
    mr_err_t e = decode_file(&mr_decoder_png, d, file, n, &to, &head, &crc, &diag);
    if (good) {
      assert_int_equal(e, MR_OK);
    } else {
      assert_int_equal(e, MR_ERR_DATA);
      assert_string_equal(diag.text, "PNG: a frame leads out of the picture");
    }
  }
  mr_decoder_png.destroy(d);
  mr_grown_free(&to);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_that_lacks_parts_is_what_pillow_makes_of_it),
      cmocka_unit_test(a_frame_beyond_the_last_header_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
