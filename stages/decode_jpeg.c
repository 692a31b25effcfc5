/* JPEG by libjpeg-turbo: the integer DCT and smooth ("fancy") upsampling, as Pillow decodes.

   Of a box, only its rows are decoded, and its columns with one more MCU on each side: smooth
   upsampling treats the edge of what is decoded as the picture's edge, and those columns are
   dropped.  libjpeg reports errors by a callback that must not return, so each call into it follows
   a setjmp. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* after stdio.h and stddef.h */
#include <jerror.h>
#include <jpeglib.h>

#include "stages/decoder.h"
#include "stages/jpeg_scan.h"
#include "stages/jpeg_smooth.h"

enum {
  SCANS_MAX = 500,
  ROWS = 16,
  FED = 1 << 16,
  SOF0 = 0xC0,
  JPG = 0xC8,
  SOS = 0xDA,
  JPG0 = 0xF0
};

typedef struct jpeg {
  struct jpeg_decompress_struct c;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  jmp_buf back;
  char why[JMSG_LENGTH_MAX];
  bool no_memory;
  bool ready; /* the header has been read, and no pixel */
  bool whole; /* the file's end has been found */
  bool waits; /* the source has bytes up to `fed`, and stops there instead of failing */
  size_t fed;
  mr_jpeg_known_t known;
  struct jpeg_compress_struct writer; /* of a file that takes the place of one that lacks scans */
  unsigned char *made;                /* that file, by malloc */
  unsigned long n_made;
  struct jpeg_destination_mgr dest; /* which writes it */
  const uint8_t *bytes;
  size_t n;
  mr_grown_t row; /* CMYK pixels of a row */
  mr_jpeg_scan_t *scan;
  mr_grown_t raw; /* samples of the whole picture, by libjpeg */
  mr_jpeg_resizer_t resizer;
} jpeg_t;

/* ---- callbacks ---- */

static void jpeg_throw(j_common_ptr c) {
  jpeg_t *d = c->client_data;
  d->no_memory = c->err->msg_code == JERR_OUT_OF_MEMORY;
  c->err->format_message(c, d->why);
  longjmp(d->back, 1);
}

/* Warnings: libjpeg continues with what it has, and so does Pillow. */
static void jpeg_count_warning(j_common_ptr c, int level) {
  jpeg_t *d = c->client_data;
  c->err->num_warnings += level < 0;
  if (level < 0 && c->err->msg_code == JWRN_HIT_MARKER) mr_jpeg_known_cut(&d->known, &d->c);
}
static void jpeg_say_nothing(j_common_ptr c) {}

static void jpeg_source_nothing(j_decompress_ptr c) {}

static boolean jpeg_source_ends(j_decompress_ptr c) {
  if (!((const jpeg_t *)c->client_data)->waits) ERREXIT(c, JERR_INPUT_EOF);
  return FALSE;
}

static void jpeg_source_skip(j_decompress_ptr c, long n) {
  if (n <= 0) return;
  if ((size_t)n > c->src->bytes_in_buffer) jpeg_source_ends(c), n = (long)c->src->bytes_in_buffer;
  c->src->next_input_byte += n, c->src->bytes_in_buffer -= (size_t)n;
}

/* A few bytes can hold thousands of scans, each as much work as a picture. */
static void jpeg_count_scans(j_common_ptr c) {
  jpeg_t *d = c->client_data;
  mr_jpeg_known_scan(&d->known, &d->c);
  if (d->c.input_scan_number > SCANS_MAX) {
    snprintf(d->why, JMSG_LENGTH_MAX, "more than %d scans", SCANS_MAX);
    d->no_memory = false;
    longjmp(d->back, 1);
  }
}

/* ---- life ---- */

static void *jpeg_create(void) {
  jpeg_t *d = calloc(1, sizeof *d);
  if (!d || !(d->scan = mr_jpeg_scan_create())) return free(d), NULL;
  d->c.err = d->writer.err = jpeg_std_error(&d->errors);
  d->c.client_data = d->writer.client_data = d;
  d->errors.error_exit = jpeg_throw;
  d->errors.emit_message = jpeg_count_warning;
  d->errors.output_message = jpeg_say_nothing;
  d->source = (struct jpeg_source_mgr){.init_source = jpeg_source_nothing,
                                       .fill_input_buffer = jpeg_source_ends,
                                       .skip_input_data = jpeg_source_skip,
                                       .resync_to_restart = jpeg_resync_to_restart,
                                       .term_source = jpeg_source_nothing};
  d->progress.progress_monitor = jpeg_count_scans;
  return d;
}

static void jpeg_destroy_decoder(void *decoder) {
  jpeg_t *d = decoder;
  if (!d) return;
  jpeg_destroy_decompress(&d->c);
  jpeg_destroy_compress(&d->writer);
  free(d->made);
  mr_grown_free(&d->row);
  mr_grown_free(&d->raw);
  mr_jpeg_scan_free(d->scan);
  mr_jpeg_resizer_free(&d->resizer);
  free(d);
}

static mr_err_t jpeg_fail(const jpeg_t *d, mr_diag_t *diag) {
  return mr_fail(diag, d->no_memory ? MR_ERR_NOMEM : MR_ERR_DATA, "JPEG: %s", d->why);
}

/* ---- the header ---- */

/* A decompressor of its own for each picture: in one that is used again, a file that lacks its
   tables would be decoded with those of the file before it. */
static void jpeg_rewind(jpeg_t *d, bool orient) {
  jpeg_destroy_decompress(&d->c);
  jpeg_create_decompress(&d->c);
  d->c.src = &d->source;
  d->source.next_input_byte = d->bytes, d->source.bytes_in_buffer = d->n;
  d->c.progress = &d->progress;
  jpeg_save_markers(&d->c, JPEG_APP0 + 1, orient ? 0xFFFF : 0);
  d->ready = d->waits = false;
  d->known = (mr_jpeg_known_t){0};
  jpeg_read_header(&d->c, TRUE);
  d->ready = true;
}

static int jpeg_orientation(const jpeg_t *d) {
  static const char xmp[29] = "http://ns.adobe.com/xap/1.0/";
  bool exif = false;
  int turned = 0, by_xmp = 0;
  for (const struct jpeg_marker_struct *m = d->c.marker_list; m; m = m->next) {
    if (m->marker != JPEG_APP0 + 1) continue;
    if (!exif && m->data_length > 6 && !memcmp(m->data, "Exif\0\0", 6))
      exif = true, turned = mr_exif_orientation(m->data, m->data_length);
    if (m->data_length > sizeof xmp && !memcmp(m->data, xmp, sizeof xmp)) /* the last one counts */
      by_xmp = mr_xmp_orientation(m->data + sizeof xmp, m->data_length - sizeof xmp);
  }
  return turned ? turned : by_xmp ? by_xmp : 1;
}

/* Whether a marker ends the entropy-coded bytes from `at` on.  Whether a file without one is cut
   short must not depend on how far a box makes libjpeg read.  Where there is one, libjpeg stops at
   it, however early, and fills the rest of the picture. */
static bool jpeg_scan_ends(const uint8_t *at, size_t n) {
  if (n >= 2 && at[n - 2] == 0xFF && at[n - 1] == JPEG_EOI) return true;
  for (const uint8_t *end = at + n; (at = memchr(at, 0xFF, (size_t)(end - at))); at++) {
    while (at + 1 < end && at[1] == 0xFF) at++;
    if (at + 1 >= end) return false;
    if (at[1] >= SOF0 && (at[1] < JPEG_RST0 || at[1] > JPEG_RST0 + 7)) return true;
  }
  return false;
}

/* Whether the file has more scans than are decoded: counted before any is, since each is as much
   work as a picture.  Bytes [at,at+n) follow the header of the first one.  What lies inside of a
   segment or behind the picture's end is no scan. */
static bool jpeg_has_many_scans(const uint8_t *at, size_t n) {
  int scans = 1;
  for (const uint8_t *end = at + n; (at = memchr(at, 0xFF, (size_t)(end - at)));) {
    while (at < end && *at == 0xFF) at++;
    if (at == end || *at == JPEG_EOI) break;
    bool segment = *at >= SOF0 && (*at < JPEG_RST0 || *at > JPEG_RST0 + 7);
    scans += *at++ == SOS;
    if (!segment) continue;
    int size = end - at < 2 ? 0 : at[0] << 8 | at[1];
    if (size < 2 || size > end - at) break; /* which libjpeg refuses */
    at += size;
  }
  return scans > SCANS_MAX;
}

/* Whether a segment, whose first `size` bytes are its size and data, is JFIF's or Adobe's. */
static bool jpeg_is_named(uint8_t marker, const uint8_t *data, size_t size) {
  return (marker == JPEG_APP0 && size >= 6 && !memcmp(data, "JFIF", 4)) ||
         (marker == JPEG_APP0 + 14 && size >= 7 && !memcmp(data, "Adobe", 5));
}

/* Pillow goes through the header before libjpeg does, and refuses markers that have no meaning, and
   JFIF's and Adobe's segments that are too short for a version. */
static bool jpeg_pillow_opens(const uint8_t *bytes, size_t n) {
  for (size_t at = 3; at < n;) {
    uint8_t marker = bytes[at++];
    if (marker == 0xFF) continue;
    if (marker == SOS) return true;
    if (marker && marker < SOF0) return false;
    bool alone = !marker || marker == JPG || (marker >= JPEG_RST0 && marker <= JPEG_EOI) ||
                 (marker >= JPG0 && marker < JPEG_COM);
    if (!alone) {
      size_t size = n - at < 2 ? n : (size_t)bytes[at] << 8 | bytes[at + 1];
      if (size < 9 && jpeg_is_named(marker, bytes + at + 2, size < n - at ? size : n - at))
        return false;
      at += size < 2 ? 2 : size;
    }
    while (at < n && bytes[at] != 0xFF) at++;
    at++;
  }
  return true; /* libjpeg says what is missing */
}

static mr_err_t jpeg_begin(void *decoder, const uint8_t *bytes, size_t n, bool orient,
                           mr_head_t *head, mr_diag_t *diag) {
  jpeg_t *d = decoder;
  d->bytes = bytes, d->n = n, d->whole = false;
  free(d->made), d->made = NULL;
  if (!jpeg_pillow_opens(bytes, n))
    return mr_fail(
        diag, MR_ERR_DATA,
        "JPEG: its header has a marker without a meaning, or a segment without a version");
  if (setjmp(d->back)) return jpeg_fail(d, diag);
  jpeg_rewind(d, orient);
  int parts = d->c.num_components;
  if (d->c.data_precision != 8 || (parts != 1 && parts != 3 && parts != 4))
    return mr_fail(diag, MR_ERR_DATA,
                   "JPEG: %d components of %d bits, want 1, 3 or 4 components of 8 bits", parts,
                   d->c.data_precision);
  *head = (mr_head_t){(int)d->c.image_height, (int)d->c.image_width,
                      orient ? jpeg_orientation(d) : 1, mr_jpeg_has_planes(&d->c)};
  return MR_OK;
}

/* ---- pixels ---- */

static uint8_t jpeg_product(int a, int b) {
  int t = a * b + 128;
  return (uint8_t)(((t >> 8) + t) >> 8);
}

/* CMYK as Adobe writes it, inverted, to RGB as Pillow converts. */
static void jpeg_from_cmyk(const uint8_t *cmyk, int n, uint8_t *rgb) {
  for (int i = 0; i < n; i++, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(cmyk[3] - jpeg_product(255 - cmyk[c], cmyk[3]));
}

static bool jpeg_has_all_bits(const jpeg_t *d) {
  for (int c = 0; c < d->c.num_components && d->c.coef_bits; c++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (d->c.coef_bits[c][k]) return false;
  return true;
}

/* As jpeg_mem_dest, but d->made is at any time what is to be freed: an error may end it. */
static void jpeg_dest_begin(j_compress_ptr c) {
  jpeg_t *d = c->client_data;
  d->n_made = 1 << 16;
  if (!(d->made = malloc(d->n_made))) ERREXIT1(c, JERR_OUT_OF_MEMORY, 10);
  d->dest.next_output_byte = d->made, d->dest.free_in_buffer = d->n_made;
}

static boolean jpeg_dest_grow(j_compress_ptr c) {
  jpeg_t *d = c->client_data;
  unsigned char *more = realloc(d->made, 2 * d->n_made);
  if (!more) ERREXIT1(c, JERR_OUT_OF_MEMORY, 10);
  d->made = more;
  d->dest.next_output_byte = more + d->n_made, d->dest.free_in_buffer = d->n_made;
  d->n_made *= 2;
  return TRUE;
}

static void jpeg_dest_end(j_compress_ptr c) {
  jpeg_t *d = c->client_data;
  d->n_made -= d->dest.free_in_buffer;
}

/* Puts a baseline file in the place of one that lacks scans, for the rest of the picture.  False if
   it cannot be one: the file is as before. */
static bool jpeg_make_whole(jpeg_t *d) {
  jpeg_rewind(d, false);
  jvirt_barray_ptr *coef = jpeg_read_coefficients(&d->c);
  if (!mr_jpeg_smooth(&d->c, coef, &d->known)) return false;
  jpeg_destroy_compress(&d->writer);
  jpeg_create_compress(&d->writer);
  free(d->made), d->made = NULL, d->n_made = 0;
  d->dest = (struct jpeg_destination_mgr){.init_destination = jpeg_dest_begin,
                                          .empty_output_buffer = jpeg_dest_grow,
                                          .term_destination = jpeg_dest_end};
  d->writer.dest = &d->dest;
  jpeg_copy_critical_parameters(&d->c, &d->writer);
  d->writer.optimize_coding = TRUE;
  jpeg_write_coefficients(&d->writer, coef);
  jpeg_finish_compress(&d->writer);
  d->bytes = d->made, d->n = d->n_made;
  return true;
}

/* Begins to decode, with all scans that there are. */
static void jpeg_start_whole(jpeg_t *d, bool raw) {
  for (bool again = true;; again = false) {
    d->c.raw_data_out = raw;
    if (!raw) d->c.out_color_space = d->c.num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&d->c);
    if (!again || jpeg_has_all_bits(d)) return;
    jpeg_make_whole(d);
    jpeg_rewind(d, false);
    d->ready = false; /* its pixels are read next */
  }
}

/* Begins decoding columns around those of the box, which may become all columns
   and the rows above it; returns the first column decoded. */
static int jpeg_start(jpeg_t *d, mr_box_t *b) {
  int width = (int)d->c.image_width;
  jpeg_start_whole(d, false);
  int mcu = DCTSIZE * d->c.max_h_samp_factor, from = (b->j / mcu - 1) * mcu,
      to = ((b->j + b->w + mcu - 1) / mcu + 1) * mcu;
  /* A damaged file may be smoothed by libjpeg, and a part of it would have other neighbours. */
  if (d->c.progressive_mode && (d->errors.num_warnings || !jpeg_has_all_bits(d)))
    from = 0, to = width, b->h += b->i, b->i = 0;
  if (from < 0) from = 0;
  if (to > width) to = width;
  JDIMENSION first = (JDIMENSION)from, columns = (JDIMENSION)(to - from);
  if (from > 0 || to < width) jpeg_crop_scanline(&d->c, &first, &columns);
  return (int)first;
}

static void jpeg_rows(jpeg_t *d, int n, uint8_t *to) {
  size_t stride = 3 * (size_t)d->c.output_width;
  bool cmyk = d->c.num_components == 4;
  for (int y = 0; y < n;) {
    JSAMPROW row[ROWS];
    int some = cmyk ? 1 : n - y < ROWS ? n - y : ROWS;
    for (int k = 0; k < some; k++) row[k] = cmyk ? d->row.at : to + (size_t)(y + k) * stride;
    int got = (int)jpeg_read_scanlines(&d->c, row, (JDIMENSION)some);
    if (cmyk && got) jpeg_from_cmyk(d->row.at, (int)d->c.output_width, to + (size_t)y * stride);
    y += got;
  }
}

/* ---- a file without an end ---- */

/* Gives the waiting source the next bytes, as many as Pillow reads at once; false at the end. */
static bool jpeg_feed(jpeg_t *d) {
  size_t at = (size_t)(d->source.next_input_byte - d->bytes);
  if (d->fed == d->n) return false;
  d->fed = d->n - d->fed < FED ? d->n : d->fed + FED;
  d->source.bytes_in_buffer = d->fed - at;
  return true;
}

/* Whether libjpeg finds all pixels in the bytes of a file whose only scan no marker ends.  It looks
   ahead, so whether it does depends on where its source makes it wait: where Pillow's does. */
static bool jpeg_has_all_pixels(jpeg_t *d) {
  JSAMPROW row[1] = {d->row.at};
  size_t at = (size_t)(d->source.next_input_byte - d->bytes);
  d->ready = false, d->waits = true;
  d->fed = at > d->n / FED * FED ? d->n : (at + FED - 1) / FED * FED;
  d->source.bytes_in_buffer = d->fed - at;
  while (!jpeg_start_decompress(&d->c))
    if (!jpeg_feed(d)) return false;
  while (d->c.output_scanline < d->c.output_height)
    if (!jpeg_read_scanlines(&d->c, row, 1) && !jpeg_feed(d)) return false;
  return true;
}

/* Gives a file that has all pixels the marker that it lacks, so that a box needs no other reading.
 */
static mr_err_t jpeg_end_it(jpeg_t *d, mr_diag_t *diag) {
  MR_TRY(mr_grow(&d->row, 4 * (size_t)d->c.image_width, diag));
  if (jpeg_has_multiple_scans(&d->c) || !jpeg_has_all_pixels(d))
    return mr_fail(diag, MR_ERR_DATA, "JPEG: is cut short");
  if (!(d->made = malloc(d->n + 2))) return mr_no_memory(diag, "a JPEG of %zu bytes", d->n);
  memcpy(d->made, d->bytes, d->n);
  d->made[d->n] = 0xFF, d->made[d->n + 1] = JPEG_EOI;
  d->bytes = d->made, d->n += 2;
  jpeg_rewind(d, false);
  return MR_OK;
}

/* Goes to the first scan, and checks that the file has an end. */
static mr_err_t jpeg_go(jpeg_t *d, mr_diag_t *diag) {
  if (!d->ready) jpeg_rewind(d, false);
  if (!d->whole && !jpeg_scan_ends(d->source.next_input_byte, d->source.bytes_in_buffer))
    MR_TRY(jpeg_end_it(d, diag));
  if (!d->whole && jpeg_has_multiple_scans(&d->c) &&
      jpeg_has_many_scans(d->source.next_input_byte, d->source.bytes_in_buffer))
    return mr_fail(diag, MR_ERR_DATA, "JPEG: more than %d scans", SCANS_MAX);
  d->whole = true;
  return MR_OK;
}

/* Reads what lies behind the only scan, as Pillow does: a marker there that libjpeg refuses makes a
   bad file of pixels that seem right. */
static void jpeg_finish(jpeg_t *d) {
  if (jpeg_has_multiple_scans(&d->c)) return; /* read before the first pixel */
  /* Raw data are read by the row of MCUs, beyond the last line. */
  JDIMENSION at = d->c.output_scanline, end = d->c.output_height, left = at < end ? end - at : 0;
  JSAMPROW row[1] = {d->row.at}; /* any row's */
  /* The last line is not passed but read: libjpeg-turbo takes a picture whose last line is passed
     for one that has ended. */
  if (left > 1) jpeg_skip_scanlines(&d->c, left - 1);
  while (left && d->c.output_scanline < d->c.output_height) jpeg_read_scanlines(&d->c, row, 1);
  d->waits = true; /* behind all pixels a segment may lead out of the file */
  jpeg_finish_decompress(&d->c);
}

static mr_err_t jpeg_read(void *decoder, mr_box_t b, mr_grown_t *to, mr_part_t *out,
                          mr_diag_t *diag) {
  jpeg_t *d = decoder;
  if (setjmp(d->back)) return jpeg_fail(d, diag);
  MR_TRY(jpeg_go(d, diag));
  bool done;
  MR_TRY(mr_jpeg_scan_read(d->scan, &d->c, d->source.next_input_byte, d->source.bytes_in_buffer, b,
                           to, &done, diag));
  *out = (mr_part_t){to->at, 3 * (size_t)b.w};
  if (done) return MR_OK;
  d->ready = false;
  int top = b.i, first = jpeg_start(d, &b);
  size_t width = d->c.output_width;
  MR_TRY(mr_grow(to, 3 * width * (size_t)b.h, diag));
  MR_TRY(mr_grow(&d->row, 4 * width, diag));
  if (b.i) jpeg_skip_scanlines(&d->c, (JDIMENSION)b.i);
  jpeg_rows(d, b.h, to->at);
  jpeg_finish(d);
  *out = (mr_part_t){to->at + 3 * ((size_t)(top - b.i) * width + (size_t)(b.j - first)), 3 * width};
  return MR_OK;
}

/* ---- samples ---- */

/* Room for the samples of whole MCUs. */
static mr_err_t jpeg_raw_memory(jpeg_t *d, mr_jpeg_planes_t *p, mr_diag_t *diag) {
  const struct jpeg_decompress_struct *c = &d->c;
  size_t bytes = 0, mcus_across = (c->image_width - 1) / (8 * (unsigned)c->max_h_samp_factor) + 1,
         mcus_down = (c->image_height - 1) / (8 * (unsigned)c->max_v_samp_factor) + 1;
  p->n = c->num_components;
  for (int i = 0; i < p->n; i++) {
    const jpeg_component_info *info = &c->comp_info[i];
    mr_jpeg_plane_t *to = &p->plane[i];
    *to = (mr_jpeg_plane_t){.down = c->max_v_samp_factor / info->v_samp_factor,
                            .across = c->max_h_samp_factor / info->h_samp_factor};
    to->h = (int)((c->image_height + (unsigned)to->down - 1) / (unsigned)to->down);
    to->w = (int)((c->image_width + (unsigned)to->across - 1) / (unsigned)to->across);
    to->samples.stride = mcus_across * 8 * (size_t)info->h_samp_factor;
    bytes += to->samples.stride * mcus_down * 8 * (size_t)info->v_samp_factor;
  }
  MR_TRY(mr_grow(&d->raw, bytes, diag));
  bytes = 0;
  for (int i = 0; i < p->n; i++) {
    p->plane[i].samples.data = d->raw.at + bytes;
    bytes += p->plane[i].samples.stride * mcus_down * 8 * (size_t)c->comp_info[i].v_samp_factor;
  }
  return MR_OK;
}

/* All samples, by libjpeg. */
static mr_err_t jpeg_raw(jpeg_t *d, mr_jpeg_planes_t *p, mr_diag_t *diag) {
  JSAMPROW row[MR_JPEG_PLANES][MAX_SAMP_FACTOR * DCTSIZE]; /* grey may have any factor */
  JSAMPARRAY rows[MR_JPEG_PLANES] = {row[0], row[1], row[2]};
  d->ready = false;
  MR_TRY(jpeg_raw_memory(d, p, diag));
  jpeg_start_whole(d, true);
  int lines = DCTSIZE * d->c.max_v_samp_factor;
  for (size_t at = 0; d->c.output_scanline < d->c.output_height; at++) {
    for (int i = 0; i < p->n; i++) {
      size_t n = DCTSIZE * (size_t)d->c.comp_info[i].v_samp_factor;
      mr_part_t to = p->plane[i].samples;
      uint8_t *first = d->raw.at + (to.data - d->raw.at); /* to.data, which may be written here */
      for (size_t k = 0; k < n; k++) row[i][k] = first + (at * n + k) * to.stride;
    }
    jpeg_read_raw_data(&d->c, rows, (JDIMENSION)lines);
  }
  jpeg_finish(d);
  return MR_OK;
}

static mr_err_t jpeg_resized(void *decoder, const mr_scaling_t *how, uint8_t *to, mr_diag_t *diag) {
  jpeg_t *d = decoder;
  mr_jpeg_planes_t planes;
  bool done;
  if (setjmp(d->back)) return jpeg_fail(d, diag);
  MR_TRY(jpeg_go(d, diag));
  MR_TRY(mr_jpeg_scan_planes(d->scan, &d->c, d->source.next_input_byte, d->source.bytes_in_buffer,
                             how->from, &planes, &done, diag));
  if (!done) MR_TRY(jpeg_raw(d, &planes, diag));
  return mr_jpeg_resized(&d->resizer, &planes, how, to, diag);
}

const mr_decoder_def_t mr_decoder_jpeg = {
    .name = "JPEG",
    .needs = "JPEG",
    .is = mr_is_jpeg,
    .create = jpeg_create,
    .destroy = jpeg_destroy_decoder,
    .begin = jpeg_begin,
    .read = jpeg_read,
    .resized = jpeg_resized,
};
