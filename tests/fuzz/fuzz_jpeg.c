/* JPEG files that our own decoder takes: any box has the pixels that libjpeg gives the whole
   picture. */
#include <setjmp.h>
#include <stdio.h>

/* after stdio.h */
#include <jpeglib.h>

#include "stages/jpeg_scan.h"
#include "tests/fuzz/fuzz.h"

enum { PIXELS_MAX = 1 << 16 };

typedef struct plain {
  struct jpeg_decompress_struct c; /* first: the callback gets only this */
  struct jpeg_error_mgr errors;
  jmp_buf back;
} plain_t;

static void plain_fails(j_common_ptr c) { longjmp(((plain_t *)c)->back, 1); }
static void plain_is_silent(j_common_ptr c, int level) {}

static plain_t d;

/* Reads the header.  False, and nothing to destroy, if libjpeg refuses it or it is too large. */
static bool plain_begin(const uint8_t *data, size_t n) {
  d.c.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = plain_fails, d.errors.emit_message = plain_is_silent;
  jpeg_create_decompress(&d.c);
  if (setjmp(d.back)) return jpeg_destroy_decompress(&d.c), false;
  jpeg_mem_src(&d.c, data, n);
  jpeg_read_header(&d.c, TRUE);
  if ((size_t)d.c.image_width * d.c.image_height > PIXELS_MAX) longjmp(d.back, 1);
  return true;
}

/* Decodes the picture.  False if libjpeg refuses it. */
static bool plain_read(uint8_t *to) {
  if (setjmp(d.back)) return false;
  d.c.out_color_space = JCS_RGB;
  jpeg_start_decompress(&d.c);
  while (d.c.output_scanline < d.c.output_height) {
    JSAMPROW row = to + d.c.output_scanline * 3 * d.c.output_width;
    jpeg_read_scanlines(&d.c, &row, 1);
  }
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static mr_jpeg_scan_t *ours;
  static mr_grown_t whole, part;
  mr_diag_t diag = {0};
  bool done = false, good = false;
  if (!ours) ours = mr_jpeg_scan_create();
  if (n < 8 || !plain_begin(data, n)) return 0;
  int h = (int)d.c.image_height, w = (int)d.c.image_width;
  mr_box_t b = {.i = data[n - 3] % h, .j = data[n - 4] % w};
  b.h = 1 + data[n - 5] % (h - b.i), b.w = 1 + data[n - 6] % (w - b.j);
  mr_err_t e = mr_jpeg_scan_read(ours, &d.c, d.c.src->next_input_byte, d.c.src->bytes_in_buffer, b,
                                 &part, &done, &diag);
  if (e >= 0 && done) e = mr_grow(&whole, 3 * (size_t)h * (size_t)w, &diag);
  if (e >= 0 && done) good = plain_read(whole.at);
  jpeg_destroy_decompress(&d.c);
  for (int y = 0; good && y < b.h; y++)
    fuzz_need(
        !memcmp(part.at + 3 * (size_t)b.w * (size_t)y,
                whole.at + 3 * ((size_t)(b.i + y) * (size_t)w + (size_t)b.j), 3 * (size_t)b.w),
        "libjpeg's pixels");
  return 0;
}
