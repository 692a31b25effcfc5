/* A scan of a baseline JPEG file: the bytes without stuffing, part by part between restart markers;
   the MCUs that a box needs, and the others before them without their samples; then the box's rows.

   Anything unusual ends with "not done" instead of an error, since what libjpeg makes of damaged
   files is the contract. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* after stdio.h and stddef.h */
#include "base/isa.h"
#include "stages/jpeg.h"
#include "stages/jpeg_scan.h"

#if defined(__x86_64__)
enum { QUANT_MAX = 255 };

struct mr_jpeg_scan {
  mr_jpeg_part_t part[MR_JPEG_PARTS];
  mr_jpeg_huff_t dc[2], ac[2];
  int n, mcus_across, mcus_down;
  mr_grown_t plain, samples, scratch;
  mr_jpeg_block_t block[2];
  /* the scan's bytes that are left */
  const uint8_t *at, *end;
  int marker; /* that ended the last segment; 0: none did */
};

mr_jpeg_scan_t *mr_jpeg_scan_create(void) { return calloc(1, sizeof(mr_jpeg_scan_t)); }

void mr_jpeg_scan_free(mr_jpeg_scan_t *s) {
  if (!s) return;
  mr_grown_free(&s->plain), mr_grown_free(&s->samples), mr_grown_free(&s->scratch);
  free(s);
}

/* ---- what is decoded here ---- */

/* The components' blocks in an MCU: Y over chroma, of 1x1, 2x1 or 2x2. */
static bool scan_layout(const struct jpeg_decompress_struct *c) {
  const jpeg_component_info *p = c->comp_info;
  if (c->num_components == 1) return c->jpeg_color_space == JCS_GRAYSCALE;
  if (c->num_components != 3 || c->jpeg_color_space != JCS_YCbCr) return false;
  int across = p->h_samp_factor, down = p->v_samp_factor;
  for (int i = 1; i < 3; i++)
    if (p[i].h_samp_factor != 1 || p[i].v_samp_factor != 1) return false;
  return (across == 1 && down == 1) || (across == 2 && (down == 1 || down == 2));
}

/* Takes the tables and sizes of component i of the scan. */
static bool scan_part(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c, int i) {
  const jpeg_component_info *info = c->cur_comp_info[i];
  mr_jpeg_part_t *p = &s->part[i];
  if (info != c->comp_info + i || info->quant_tbl_no < 0 || info->quant_tbl_no >= NUM_QUANT_TBLS)
    return false;
  const JQUANT_TBL *quant = c->quant_tbl_ptrs[info->quant_tbl_no];
  int dc = info->dc_tbl_no, ac = info->ac_tbl_no;
  if (!quant || dc < 0 || dc > 1 || ac < 0 || ac > 1) return false;
  if (!c->dc_huff_tbl_ptrs[dc] || !c->ac_huff_tbl_ptrs[ac]) return false;
  bool grey = s->n == 1; /* a single component has MCUs of a block, whatever its factors */
  p->across = grey ? 1 : info->h_samp_factor, p->down = grey ? 1 : info->v_samp_factor;
  int most_across = grey ? 1 : c->max_h_samp_factor, most_down = grey ? 1 : c->max_v_samp_factor;
  p->w = (int)((c->image_width * (unsigned)p->across + (unsigned)most_across - 1) /
               (unsigned)most_across);
  p->h =
      (int)((c->image_height * (unsigned)p->down + (unsigned)most_down - 1) / (unsigned)most_down);
  p->dc = &s->dc[dc], p->ac = &s->ac[ac], p->before = 0;
  for (int k = 0; k < DCTSIZE2; k++) {
    if (quant->quantval[k] > QUANT_MAX) return false;
    p->quant[k] = quant->quantval[k];
  }
  return true;
}

/* Whether the file is of a kind that is decoded here; takes what its header says. */
static bool scan_begin(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c) {
  if (c->progressive_mode || c->arith_code || c->comps_in_scan != c->num_components || c->Ss != 0 ||
      c->Se != DCTSIZE2 - 1 || c->Ah || c->Al || !scan_layout(c))
    return false;
  s->n = c->num_components;
  for (int i = 0; i < s->n; i++)
    if (!scan_part(s, c, i)) return false;
  for (int t = 0; t < 2; t++) {
    const JHUFF_TBL *dc = c->dc_huff_tbl_ptrs[t], *ac = c->ac_huff_tbl_ptrs[t];
    if (dc && !mr_jpeg_huff_build(&s->dc[t], dc->bits, dc->huffval, true)) return false;
    if (ac && !mr_jpeg_huff_build(&s->ac[t], ac->bits, ac->huffval, false)) return false;
  }
  const mr_jpeg_part_t *y = s->part;
  s->mcus_across = (y->w + 8 * y->across - 1) / (8 * y->across);
  s->mcus_down = (y->h + 8 * y->down - 1) / (8 * y->down);
  /* libjpeg smooths no chroma so narrow. */
  return y->across == 1 || s->part[1].w > 2;
}

/* ---- bytes ---- */

/* Copies the bytes up to the next marker without stuffing; returns their number.  Leaves s->marker
   0 if none came, and -1 if the bytes are not as they should be. */
static size_t scan_unstuff(mr_jpeg_scan_t *s, uint8_t *to) {
  uint8_t *begin = to;
  for (s->marker = 0; s->at < s->end;) {
    const uint8_t *ff = memchr(s->at, 0xFF, (size_t)(s->end - s->at));
    size_t n = (size_t)((ff ? ff : s->end) - s->at);
    memcpy(to, s->at, n), to += n, s->at += n;
    if (!ff || ff + 1 == s->end) break;
    s->at += 2;
    if (ff[1]) {
      s->marker = ff[1] == 0xFF ? -1 : ff[1];
      break;
    }
    *to++ = 0xFF;
  }
  memset(to, 0, MR_JPEG_PAD);
  return (size_t)(to - begin);
}

/* ---- MCUs ---- */

typedef struct scan_window {
  int top, bottom, left, right; /* MCUs: from the first to the one behind the last */
} scan_window_t;

/* The MCUs whose samples the box needs: of chroma at half the resolution, one sample around. */
static scan_window_t scan_window(const mr_jpeg_scan_t *s, mr_box_t b) {
  int across = 8 * s->part->across, down = 8 * s->part->down;
  int more_x = s->part->across == 2 ? 2 : 0, more_y = s->part->down == 2 ? 2 : 0;
  scan_window_t w = {.top = b.i > more_y ? (b.i - more_y) / down : 0,
                     .bottom = (b.i + b.h + more_y + down - 1) / down,
                     .left = b.j > more_x ? (b.j - more_x) / across : 0,
                     .right = (b.j + b.w + more_x + across - 1) / across};
  if (w.bottom > s->mcus_down) w.bottom = s->mcus_down;
  if (w.right > s->mcus_across) w.right = s->mcus_across;
  return w;
}

static mr_err_t scan_memory(mr_jpeg_scan_t *s, const scan_window_t *w, size_t bytes,
                            mr_diag_t *diag) {
  size_t need = 0;
  for (mr_jpeg_part_t *p = s->part; p < s->part + s->n; p++) {
    p->stride = (size_t)(w->right - w->left) * 8 * (size_t)p->across;
    p->top = w->top * 8 * p->down, p->left = w->left * 8 * p->across;
    need += p->stride * (size_t)(w->bottom - w->top) * 8 * (size_t)p->down;
  }
  MR_TRY(mr_grow(&s->samples, need, diag));
  MR_TRY(mr_grow(&s->plain, bytes + MR_JPEG_PAD, diag));
  uint8_t *at = s->samples.at;
  for (mr_jpeg_part_t *p = s->part; p < s->part + s->n; p++) {
    p->samples = at;
    at += p->stride * (size_t)(w->bottom - w->top) * 8 * (size_t)p->down;
  }
  return MR_OK;
}

/* Decodes the MCUs up to the window's bottom.  False for what libjpeg must decode. */
static bool scan_mcus(mr_jpeg_scan_t *s, const scan_window_t *w, int interval) {
  mr_jpeg_bits_t in = {0};
  const uint8_t *limit = NULL;
  int left = 0, restarts = 0;
  for (int row = 0; row < w->bottom; row++)
    for (int column = 0; column < s->mcus_across; column++, left--) {
      if (!left) { /* a segment */
        if (restarts && s->marker != JPEG_RST0 + (restarts - 1) % 8) return false;
        in = (mr_jpeg_bits_t){.at = s->plain.at};
        limit = in.at + scan_unstuff(s, s->plain.at);
        if (s->marker < 0) return false;
        for (int i = 0; i < s->n; i++) s->part[i].before = 0;
        left = interval ? interval : -1, restarts++;
      }
      bool keep = row >= w->top && column >= w->left && column < w->right;
      if (!mr_jpeg_mcu(&in, s->part, s->n, row - w->top, column - w->left, keep, s->block))
        return false;
      if (in.at - in.count / 8 > limit) return false;
      if (left == 1 && limit - (in.at - in.count / 8) > 0)
        return false; /* bytes that are left over */
    }
  return true;
}

mr_err_t mr_jpeg_scan_read(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                           const uint8_t *bytes, size_t n, mr_box_t box, mr_grown_t *to, bool *done,
                           mr_diag_t *diag) {
  *done = false;
  if (mr_isa() < MR_ISA_AVX2 || !__builtin_cpu_supports("bmi2") || !scan_begin(s, c)) return MR_OK;
  scan_window_t w = scan_window(s, box);
  MR_TRY(scan_memory(s, &w, n, diag));
  s->at = bytes, s->end = bytes + n;
  memset(s->block, 0, sizeof s->block);
  if (!scan_mcus(s, &w, (int)c->restart_interval)) return MR_OK;
  MR_TRY(mr_grow(to, 3 * (size_t)box.w * (size_t)box.h, diag));
  MR_TRY(mr_grow(&s->scratch, mr_jpeg_row_scratch(box.w), diag));
  for (int y = 0; y < box.h; y++)
    mr_jpeg_row(s->part, s->n, box.i + y, box.j, box.w, to->at + 3 * (size_t)box.w * (size_t)y,
                s->scratch.at);
  *done = true;
  return MR_OK;
}

#else /* libjpeg decodes everything */
struct mr_jpeg_scan {
  char none;
};

mr_jpeg_scan_t *mr_jpeg_scan_create(void) { return calloc(1, sizeof(mr_jpeg_scan_t)); }

void mr_jpeg_scan_free(mr_jpeg_scan_t *s) { free(s); }

mr_err_t mr_jpeg_scan_read(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                           const uint8_t *bytes, size_t n, mr_box_t box, mr_grown_t *to, bool *done,
                           mr_diag_t *diag) {
  *done = false;
  return MR_OK;
}
#endif
