/* Our JPEG decoder against libjpeg itself: random pictures of all kinds and qualities, progressive
   ones with random scans, boxes of them, and the same files with damaged bytes. */
#include <setjmp.h>
#include <stdio.h>

/* before cmocka.h */
#include "stages/decoder.h"
#include "stages/jpeg_scan.h"
#include "tests/vectors.h"
/* after vectors.h */
#include <jerror.h>

#include "base/isa.h"
#include "tests/random.h"

enum { SIDE = 150, FILE_MAX = 1 << 20, SCANS_MAX = 64, BANDS = 4 };

typedef struct made {
  int w, h, parts, quality, across, down, restart;
  bool progressive, optimized, rgb, lacks; /* lacks: scans that a complete file has */
  jpeg_scan_info scan[SCANS_MAX];
  uint8_t pixel[SIDE * SIDE * 3];
  unsigned char *bytes; /* malloc */
  unsigned long n;
} made_t;

static made_t made;
static uint8_t want[SIDE * SIDE * 3];

/* ---- a file ---- */

/* Pixels of one of five kinds: noise, steps of colour, a gradient, black and white, one colour. */
static void draw_pixels(round_t *r) {
  int kind = draw(r, 5), a = draw(r, 256), b = 1 + draw(r, 40), c = draw(r, 7);
  for (int y = 0; y < made.h; y++)
    for (int x = 0; x < made.w; x++)
      for (int k = 0; k < made.parts; k++) {
        uint8_t *p = &made.pixel[(y * made.w + x) * made.parts + k];
        int v[5] = {draw(r, 256), (x / b + y / (b + 1)) * 37 * (k + 1), x * c + y * (k + 1) + a,
                    draw(r, 2) * 255, a + 50 * k};
        *p = (uint8_t)v[kind];
      }
}

static void plain_is_silent(j_common_ptr c, int level) {}

/* Coefficients of one component, or DC of all, of which scans give some more bits each time. */
typedef struct band {
  int part, first, last, missing; /* part -1: all; missing: bits, -1: all */
} band_t;

static int draw_bands(round_t *r, band_t *band) {
  int n = 0;
  bool apart = one_in(r, 2);
  if (!apart) band[n++] = (band_t){-1, 0, 0, -1};
  for (int i = 0; i < made.parts && apart; i++) band[n++] = (band_t){i, 0, 0, -1};
  for (int i = 0; i < made.parts; i++)
    for (int from = 1, cuts = draw(r, BANDS); from < 64; cuts--) {
      int last = cuts > 0 ? from + draw(r, 64 - from) : 63;
      band[n++] = (band_t){i, from, last, -1};
      from = last + 1;
    }
  return n;
}

/* Scans in random order: any that may come next.  Returns their number. */
static int draw_scans(round_t *r) {
  band_t band[MAX_COMPONENTS * (BANDS + 2)];
  int bands = draw_bands(r, band), n = 0, open = bands, dc_open = 0;
  for (int k = 0; k < bands; k++) dc_open += !band[k].first;
  made.lacks = one_in(r, 12);
  while (open && n < SCANS_MAX) {
    band_t *b = &band[draw(r, bands)];
    if (!b->missing || (b->first && dc_open)) continue;
    if (made.lacks && !dc_open && one_in(r, 8)) break;
    int low = b->missing < 0 ? draw(r, 4) : b->missing - 1;
    jpeg_scan_info *to = &made.scan[n++];
    *to = (jpeg_scan_info){.Ss = b->first, .Se = b->last, .Ah = b->missing < 0 ? 0 : b->missing};
    to->Al = low, to->comps_in_scan = b->part < 0 ? made.parts : 1;
    for (int i = 0; i < to->comps_in_scan; i++) to->component_index[i] = b->part < 0 ? i : b->part;
    if (!b->first && b->missing < 0) dc_open--;
    if (!(b->missing = low)) open--;
  }
  made.lacks = open;
  return n;
}

static void draw_file(round_t *r) {
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr errors;
  made.w = 1 + draw(r, one_in(r, 3) ? 20 : SIDE), made.h = 1 + draw(r, one_in(r, 3) ? 20 : SIDE);
  made.parts = one_in(r, 5) ? 1 : 3, made.quality = 1 + draw(r, 100);
  made.across = 1 + draw(r, 2), made.down = 1 + draw(r, 2);
  made.restart = one_in(r, 4) ? 1 + draw(r, 20) : 0;
  made.progressive = one_in(r, 2), made.optimized = one_in(r, 2), made.rgb = one_in(r, 20);
  draw_pixels(r);
  c.err = jpeg_std_error(&errors);
  errors.emit_message = plain_is_silent;
  jpeg_create_compress(&c);
  free(made.bytes), made.bytes = NULL, made.n = 0;
  jpeg_mem_dest(&c, &made.bytes, &made.n);
  c.image_width = (JDIMENSION)made.w, c.image_height = (JDIMENSION)made.h;
  c.input_components = made.parts, c.in_color_space = made.parts == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&c);
  if (made.parts == 3 && made.rgb) jpeg_set_colorspace(&c, JCS_RGB);
  jpeg_set_quality(&c, made.quality, (boolean)!one_in(r, 4));
  c.comp_info[0].h_samp_factor = made.across, c.comp_info[0].v_samp_factor = made.down;
  c.restart_interval = (unsigned)made.restart, c.optimize_coding = made.optimized;
  made.lacks = false;
  if (made.progressive) jpeg_simple_progression(&c);
  if (made.progressive && one_in(r, 2)) c.num_scans = draw_scans(r), c.scan_info = made.scan;
  jpeg_start_compress(&c, TRUE);
  for (int y = 0; y < made.h; y++) {
    JSAMPROW row = made.pixel + y * made.w * made.parts;
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
}

/* ---- libjpeg ---- */

typedef struct plain {
  struct jpeg_decompress_struct c; /* first: the callback gets only this */
  struct jpeg_error_mgr errors;
  jmp_buf back;
} plain_t;

static void plain_fails(j_common_ptr c) { longjmp(((plain_t *)c)->back, 1); }

/* Whether scans have given all bits of all coefficients. */
static bool plain_has_all_bits(const struct jpeg_decompress_struct *c) {
  for (int i = 0; c->coef_bits && i < c->num_components; i++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (c->coef_bits[i][k]) return false;
  return true;
}

/* Decodes all of it to `want`.  False if libjpeg refuses it. */
static bool plain_read(void) {
  static plain_t d;
  d.c.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = plain_fails, d.errors.emit_message = plain_is_silent;
  jpeg_create_decompress(&d.c);
  if (setjmp(d.back)) return jpeg_destroy_decompress(&d.c), false;
  jpeg_mem_src(&d.c, made.bytes, made.n);
  jpeg_read_header(&d.c, TRUE);
  d.c.out_color_space = JCS_RGB;
  if (d.c.image_width > SIDE || d.c.image_height > SIDE) longjmp(d.back, 1);
  made.w = (int)d.c.image_width, made.h = (int)d.c.image_height;
  jpeg_start_decompress(&d.c);
  made.lacks = !plain_has_all_bits(&d.c);
  while (d.c.output_scanline < d.c.output_height) {
    JSAMPROW row = want + d.c.output_scanline * 3 * (unsigned)made.w;
    jpeg_read_scanlines(&d.c, &row, 1);
  }
  jpeg_destroy_decompress(&d.c);
  return true;
}

/* ---- ours ---- */

static mr_box_t draw_box(round_t *r) {
  mr_box_t b = {.i = draw(r, made.h), .j = draw(r, made.w)};
  b.h = 1 + draw(r, made.h - b.i), b.w = 1 + draw(r, made.w - b.j);
  return one_in(r, 3) ? (mr_box_t){.h = made.h, .w = made.w} : b;
}

static void check_box(round_t *r, void *d, mr_box_t b) {
  static mr_grown_t to;
  mr_part_t part;
  mr_diag_t diag = {0};
  round_check(r, mr_decoder_jpeg.read(d, b, &to, &part, &diag) >= 0, "%s", diag.text);
  for (int y = 0; y < b.h; y++)
    round_check(r,
                !memcmp(part.data + (size_t)y * part.stride, want + ((b.i + y) * made.w + b.j) * 3,
                        3 * (size_t)b.w),
                "%d x %d, quality %d, %d parts, %dx%d, restart %d: row %d of box %d %d %d %d",
                made.w, made.h, made.quality, made.parts, made.across, made.down, made.restart, y,
                b.i, b.j, b.h, b.w);
}

/* Releases of libjpeg smooth the blocks of a file that lacks scans each in its way: the files of
   tests/golden have Pillow's, and here boxes of such a file are those of the whole picture. */
static void want_own_pixels(round_t *r, void *d) {
  static mr_grown_t to;
  mr_part_t part;
  mr_diag_t diag = {0};
  mr_box_t all = {.h = made.h, .w = made.w};
  round_check(r, mr_decoder_jpeg.read(d, all, &to, &part, &diag) >= 0, "%s", diag.text);
  for (int y = 0; y < made.h; y++)
    memcpy(want + 3 * y * made.w, part.data + (size_t)y * part.stride, 3 * (size_t)made.w);
}

/* Compares some boxes, unless libjpeg refuses the file. */
static void check_file(round_t *r, void *d) {
  mr_head_t head;
  mr_diag_t diag = {0};
  if (!plain_read()) return;
  if (mr_decoder_jpeg.begin(d, made.bytes, made.n, false, &head, &diag) < 0) return;
  mr_grown_t none = {0};
  mr_part_t part;
  if (mr_decoder_jpeg.read(d, (mr_box_t){.h = 1, .w = 1}, &none, &part, &diag) >= 0) {
    if (made.lacks) want_own_pixels(r, d);
    for (int k = 0; k < 4; k++) check_box(r, d, draw_box(r));
  }
  mr_grown_free(&none);
}

static void random_files_have_libjpegs_pixels(void **state) {
  void *d = mr_decoder_jpeg.create();
  round_t r = round_first(1500);
  while (round_next(&r)) draw_file(&r), check_file(&r, d);
  mr_decoder_jpeg.destroy(d);
}

/* One to four bytes of the scan, or anywhere, are other ones. */
static void damaged_files_have_libjpegs_pixels(void **state) {
  void *d = mr_decoder_jpeg.create();
  round_t r = round_first(3000);
  while (round_next(&r)) {
    draw_file(&r);
    int from = one_in(&r, 4) || made.n < 700 ? 2 : 600;
    for (int k = 1 + draw(&r, 4); k; k--)
      made.bytes[from + draw(&r, (int)made.n - 2 - from)] = (uint8_t)draw(&r, 256);
    check_file(&r, d);
  }
  mr_decoder_jpeg.destroy(d);
}

/* Whether our own decoder took the file, so that the tests above compare two decoders. */
static bool is_ours(round_t *r) {
  struct jpeg_decompress_struct c;
  struct jpeg_error_mgr errors;
  mr_jpeg_scan_t *s = mr_jpeg_scan_create();
  mr_grown_t to = {0};
  mr_diag_t diag = {0};
  bool done = false;
  c.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&c);
  jpeg_mem_src(&c, made.bytes, made.n);
  jpeg_read_header(&c, TRUE);
  mr_box_t all = {.h = made.h, .w = made.w};
  round_check(r,
              mr_jpeg_scan_read(s, &c, c.src->next_input_byte, c.src->bytes_in_buffer, all, &to,
                                &done, &diag) >= 0,
              "%s", diag.text);
  jpeg_destroy_decompress(&c);
  mr_jpeg_scan_free(s);
  mr_grown_free(&to);
  return done;
}

static void usual_files_are_decoded_by_our_own(void **state) {
#if !defined(__x86_64__)
  skip();
#endif
  if (mr_isa() < MR_ISA_AVX2 || !__builtin_cpu_supports("bmi2")) skip();
  round_t r = round_first(300);
  while (round_next(&r)) {
    draw_file(&r);
    int chroma = (made.w + made.across - 1) / made.across;
    bool usual = !made.lacks && (made.parts == 1 || (!made.rgb && made.across >= made.down &&
                                                     (made.across == 1 || chroma > 2)));
    bool ours = is_ours(&r);
    round_check(&r, usual || !ours, "a file that is libjpeg's is not taken");
    /* Black and white pixels of the worst qualities may need more than 16 bits. */
    round_check(&r, ours || !usual || made.quality < 30, "%d x %d, quality %d, %d parts, %dx%d",
                made.w, made.h, made.quality, made.parts, made.across, made.down);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_files_have_libjpegs_pixels),
                                     cmocka_unit_test(damaged_files_have_libjpegs_pixels),
                                     cmocka_unit_test(usual_files_are_decoded_by_our_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
