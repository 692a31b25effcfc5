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
  vectors_met(read, 250), vectors_met(refused, 250);
  for (int i = 0; i < 2; i++) defs[i]->destroy(made[i]);
  mr_grown_free(&to);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_that_lacks_parts_is_what_pillow_makes_of_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
