/* decode mode=fast: near the pixels that decoding and resizing give, and the same by every decoder
   and instruction set. */
#include <math.h>
#include <stdio.h>

/* before cmocka.h */
#include "stages/decoder.h"
#include "stages/resample.h"
#include "tests/vectors.h"
/* after vectors.h */
#include <jpeglib.h>

#include "tests/crc.h"
#include "tests/random.h"

enum { SIDE = 200, PSNR_MIN = 45 };

static uint8_t pixel[SIDE * SIDE * 3], got[SIDE * SIDE * 3], want[SIDE * SIDE * 3];
static unsigned char *bytes; /* malloc */
static unsigned long n_bytes;

/* A file of smooth colours with some noise, as photographs have them. */
static void draw_photograph(round_t *r, int *h, int *w) {
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr errors;
  int parts = one_in(r, 6) ? 1 : 3, a[3][3], noise = draw(r, 12);
  *h = 8 + draw(r, SIDE - 8), *w = 8 + draw(r, SIDE - 8);
  for (int k = 0; k < 9; k++) a[k / 3][k % 3] = draw(r, 100);
  for (int y = 0; y < *h; y++)
    for (int x = 0; x < *w; x++)
      for (int k = 0; k < parts; k++)
        pixel[(y * *w + x) * parts + k] =
            (uint8_t)(128 + 50 * sin(y * a[k][0] / 1000.0 + x * a[k][1] / 1000.0) +
                      40 * sin(x * a[k][2] / 1000.0) + draw(r, noise + 1));
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  free(bytes), bytes = NULL, n_bytes = 0;
  jpeg_mem_dest(&c, &bytes, &n_bytes);
  c.image_width = (JDIMENSION)*w, c.image_height = (JDIMENSION)*h;
  c.input_components = parts, c.in_color_space = parts == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&c);
  jpeg_set_quality(&c, 60 + draw(r, 40), TRUE);
  jpeg_component_info *first = c.comp_info;
  first->h_samp_factor = 1 + draw(r, parts == 1 ? 4 : 2);
  first->v_samp_factor = 1 + draw(r, parts == 1 ? 4 : first->h_samp_factor);
  if (one_in(r, 3)) jpeg_simple_progression(&c);
  jpeg_start_compress(&c, TRUE);
  for (int y = 0; y < *h; y++) {
    JSAMPROW row = pixel + y * *w * parts;
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
}

static mr_box_t draw_box(round_t *r, int h, int w) {
  mr_box_t b = {.i = draw(r, h), .j = draw(r, w)};
  b.h = 1 + draw(r, h - b.i), b.w = 1 + draw(r, w - b.j);
  return one_in(r, 3) ? (mr_box_t){.h = h, .w = w} : b;
}

static mr_scaling_t draw_scaling(round_t *r, int h, int w) {
  mr_scaling_t s = {.from = draw_box(r, h, w), .h = 1 + draw(r, SIDE), .w = 1 + draw(r, SIDE)};
  s.out = draw_box(r, s.h, s.w);
  return s;
}

/* Makes a part of a random picture in `got`; returns its bytes. */
static size_t make(round_t *r, void *d, mr_scaling_t *s) {
  int h, w;
  mr_head_t head;
  mr_diag_t diag = {0};
  draw_photograph(r, &h, &w);
  *s = draw_scaling(r, h, w);
  round_check(r, mr_decoder_jpeg.begin(d, bytes, n_bytes, false, &head, &diag) >= 0, "%s",
              diag.text);
  round_check(r, head.resizes, "a picture of %d x %d is resized", w, h);
  round_check(r, mr_decoder_jpeg.resized(d, s, got, &diag) >= 0, "%s", diag.text);
  return 3 * (size_t)s->out.h * (size_t)s->out.w;
}

/* The same by decoding and resizing, in `want`. */
static void make_exact(void *d, const mr_scaling_t *s) {
  static mr_resampler_t resampler;
  static mr_grown_t to;
  mr_resize_t how = {.in_h = s->from.h, .in_w = s->from.w, .out_h = s->h, .out_w = s->w, .C = 3};
  mr_box_t need;
  mr_part_t part;
  assert_int_equal(mr_resample_begin(&resampler, &how, s->out, &need, NULL), MR_OK);
  mr_box_t read = {s->from.i + need.i, s->from.j + need.j, need.h, need.w};
  assert_true(mr_decoder_jpeg.read(d, read, &to, &part, NULL) >= 0);
  assert_int_equal(mr_resample(&resampler, &how, need, part, want, NULL), MR_OK);
}

static void pixels_are_near_the_exact_ones(void **state) {
  void *d = mr_decoder_jpeg.create();
  round_t r = round_first(600);
  double square = 0, bytes_in_all = 0;
  while (round_next(&r)) {
    mr_scaling_t s;
    size_t n = make(&r, d, &s);
    make_exact(d, &s);
    for (size_t k = 0; k < n; k++) square += (got[k] - want[k]) * (got[k] - want[k]);
    bytes_in_all += (double)n;
  }
  double psnr = 10 * log10(255 * 255 / (square / bytes_in_all));
  print_message("PSNR %.1f dB\n", psnr);
  assert_true(psnr > PSNR_MIN);
  mr_decoder_jpeg.destroy(d);
}

static uint32_t crc_of_all(void) {
  void *d = mr_decoder_jpeg.create();
  round_t r = round_first(300);
  uint32_t crc = 0;
  while (round_next(&r)) {
    mr_scaling_t s;
    size_t n = make(&r, d, &s);
    crc = crc32_of(crc, got, n);
  }
  mr_decoder_jpeg.destroy(d);
  return crc;
}

/* The checksum that this program prints with the instruction sets up to `isa`. */
static uint32_t crc_with(const char *isa) {
  unsigned crc = 0;
  char line[128], command[128];
  snprintf(command, sizeof command, "MILLRACE_ISA=%s /proc/$PPID/exe crc 2>/dev/null", isa);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  bool found = false;
  while (fgets(line, sizeof line, f)) found |= sscanf(line, "crc %x", &crc) == 1;
  assert_int_equal(pclose(f), 0);
  assert_true(found);
  return crc;
}

/* With plain, libjpeg decodes and no pass is vectorised. */
static void every_machine_has_the_same_pixels(void **state) {
  uint32_t crc = crc_of_all();
  assert_int_equal(crc_with("plain"), crc);
  assert_int_equal(crc_with("avx2"), crc);
}

int main(int argc, char **argv) {
  if (argc > 1) return printf("crc %x\n", crc_of_all()) < 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(pixels_are_near_the_exact_ones),
                                     cmocka_unit_test(every_machine_has_the_same_pixels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
