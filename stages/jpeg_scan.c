/* A JPEG file: the bytes of a scan without stuffing, part by part between restart markers; of a
   baseline file the MCUs that a box needs, and the others before them without their samples; then
   the box's rows.

   Anything unusual ends with "not done" instead of an error, since what libjpeg makes of damaged
   files is the contract. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* after stdio.h and stddef.h */
#include "base/isa.h"
#include "stages/jpeg_scan_private.h"

#if defined(__x86_64__)
enum { QUANT_MAX = 255 };

mr_jpeg_scan_t *mr_jpeg_scan_create(void) { return calloc(1, sizeof(mr_jpeg_scan_t)); }

void mr_jpeg_scan_free(mr_jpeg_scan_t *s) {
  if (!s) return;
  mr_grown_free(&s->plain), mr_grown_free(&s->samples), mr_grown_free(&s->scratch);
  mr_grown_free(&s->coefs), mr_grown_free(&s->seen);
  free(s);
}

/* ---- what is decoded here ---- */

/* Takes the steps and sizes of component i. */
static bool scan_part(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c, int i) {
  const jpeg_component_info *info = c->comp_info + i;
  mr_jpeg_part_t *p = &s->part[i];
  if (info->quant_tbl_no < 0 || info->quant_tbl_no >= NUM_QUANT_TBLS) return false;
  const JQUANT_TBL *quant = c->quant_tbl_ptrs[info->quant_tbl_no];
  if (!quant) return false;
  bool grey = s->n == 1; /* a single component has MCUs of a block, whatever its factors */
  p->across = grey ? 1 : info->h_samp_factor, p->down = grey ? 1 : info->v_samp_factor;
  int most_across = grey ? 1 : c->max_h_samp_factor, most_down = grey ? 1 : c->max_v_samp_factor;
  p->w = (int)((c->image_width * (unsigned)p->across + (unsigned)most_across - 1) /
               (unsigned)most_across);
  p->h =
      (int)((c->image_height * (unsigned)p->down + (unsigned)most_down - 1) / (unsigned)most_down);
  p->before = 0;
  for (int k = 0; k < DCTSIZE2; k++) {
    if (quant->quantval[k] > QUANT_MAX) return false;
    p->quant[k] = quant->quantval[k];
  }
  return true;
}

/* Takes the tables of a baseline file's only scan. */
static bool scan_tables(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c) {
  if (c->comps_in_scan != s->n || c->Ss != 0 || c->Se != DCTSIZE2 - 1 || c->Ah || c->Al)
    return false;
  for (int i = 0; i < s->n; i++) {
    const jpeg_component_info *info = c->cur_comp_info[i];
    int dc = info->dc_tbl_no, ac = info->ac_tbl_no;
    if (info != c->comp_info + i || dc < 0 || dc > 1 || ac < 0 || ac > 1) return false;
    if (!c->dc_huff_tbl_ptrs[dc] || !c->ac_huff_tbl_ptrs[ac]) return false;
    s->part[i].dc = &s->dc[dc], s->part[i].ac = &s->ac[ac];
  }
  for (int t = 0; t < 2; t++) {
    const JHUFF_TBL *dc = c->dc_huff_tbl_ptrs[t], *ac = c->ac_huff_tbl_ptrs[t];
    if (dc && !mr_jpeg_huff_build(&s->dc[t], dc->bits, dc->huffval, MR_JPEG_DC)) return false;
    if (ac && !mr_jpeg_huff_build(&s->ac[t], ac->bits, ac->huffval, MR_JPEG_AC)) return false;
  }
  return true;
}

/* Whether the file is of a kind that is decoded here; takes what its header says. */
static bool scan_begin(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c) {
  if (c->arith_code || !mr_jpeg_has_planes(c)) return false;
  s->n = c->num_components;
  for (int i = 0; i < s->n; i++)
    if (!scan_part(s, c, i)) return false;
  if (!c->progressive_mode && !scan_tables(s, c)) return false;
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

bool mr__jpeg_segment_begin(mr_jpeg_scan_t *s, scan_segment_t *g) {
  if (g->restarts && s->marker != JPEG_RST0 + (g->restarts - 1) % 8) return false;
  g->in = (mr_jpeg_bits_t){.at = s->plain.at};
  g->limit = g->in.at + scan_unstuff(s, s->plain.at);
  for (int i = 0; i < s->n; i++) s->part[i].before = 0;
  g->left = g->interval ? g->interval : -1, g->restarts++;
  return s->marker >= 0;
}

bool mr__jpeg_segment_passed(scan_segment_t *g, int n) {
  ptrdiff_t more = g->limit - (g->in.at - g->in.count / 8);
  if (g->interval) g->left -= n;
  return more >= 0 && (g->left || more == 0);
}

/* Decodes the MCUs of a baseline file up to the window's bottom.  False for what libjpeg must
   decode. */
static bool scan_mcus(mr_jpeg_scan_t *s, const scan_window_t *w, int interval) {
  scan_segment_t g = {.interval = interval};
  for (int row = 0; row < w->bottom; row++)
    for (int column = 0; column < s->mcus_across; column++) {
      bool keep = row >= w->top && column >= w->left && column < w->right;
      if (!g.left && !mr__jpeg_segment_begin(s, &g)) return false;
      if (!mr_jpeg_mcu(&g.in, s->part, s->n, row - w->top, column - w->left, keep, s->block) ||
          !mr__jpeg_segment_passed(&g, 1))
        return false;
    }
  return true;
}

/* Whether the scan's bytes, behind those that were decoded, are followed by the picture's end and
   no other marker, which libjpeg must judge. */
static bool scan_is_last(mr_jpeg_scan_t *s) {
  while (s->marker >= JPEG_RST0 && s->marker <= JPEG_RST0 + 7) {
    const uint8_t *ff = memchr(s->at, 0xFF, (size_t)(s->end - s->at));
    if (!ff || s->end - ff < 2) return false;
    s->at = ff + 1;
    if (ff[1] && ff[1] != 0xFF) s->marker = ff[1];
  }
  return s->marker == JPEG_EOI;
}

/* Whether this machine has the instructions that jpeg*.c is compiled for. */
static bool scan_machine(void) {
  return mr_isa() >= MR_ISA_AVX2 && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

mr_err_t mr_jpeg_scan_planes(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                             const uint8_t *bytes, size_t n, mr_box_t box, mr_jpeg_planes_t *out,
                             bool *done, mr_diag_t *diag) {
  *done = false;
  if (!scan_machine() || !scan_begin(s, c)) return MR_OK;
  scan_window_t w = scan_window(s, box);
  MR_TRY(scan_memory(s, &w, n, diag));
  if (c->progressive_mode) MR_TRY(mr__jpeg_passes_memory(s, &w, diag));
  s->at = bytes, s->end = bytes + n;
  memset(s->block, 0, sizeof s->block);
  *done = c->progressive_mode ? mr__jpeg_passes(s, c, &w)
                              : scan_mcus(s, &w, (int)c->restart_interval) && scan_is_last(s);
  out->n = s->n;
  for (int i = 0; i < s->n; i++) {
    const mr_jpeg_part_t *p = &s->part[i];
    out->plane[i] = (mr_jpeg_plane_t){
        {p->samples, p->stride},    p->top, p->left, p->h, p->w, s->part->down / p->down,
        s->part->across / p->across};
  }
  return MR_OK;
}

mr_err_t mr_jpeg_scan_read(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                           const uint8_t *bytes, size_t n, mr_box_t box, mr_grown_t *to, bool *done,
                           mr_diag_t *diag) {
  mr_jpeg_planes_t planes;
  MR_TRY(mr_jpeg_scan_planes(s, c, bytes, n, box, &planes, done, diag));
  if (!*done) return MR_OK;
  MR_TRY(mr_grow(to, 3 * (size_t)box.w * (size_t)box.h, diag));
  MR_TRY(mr_grow(&s->scratch, mr_jpeg_row_scratch(box.w), diag));
  for (int y = 0; y < box.h; y++)
    mr_jpeg_row(s->part, s->n, box.i + y, box.j, box.w, to->at + 3 * (size_t)box.w * (size_t)y,
                s->scratch.at);
  return MR_OK;
}

#else /* libjpeg decodes everything */
struct mr_jpeg_scan {
  char none;
};

mr_jpeg_scan_t *mr_jpeg_scan_create(void) { return calloc(1, sizeof(mr_jpeg_scan_t)); }

void mr_jpeg_scan_free(mr_jpeg_scan_t *s) { free(s); }

mr_err_t mr_jpeg_scan_planes(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                             const uint8_t *bytes, size_t n, mr_box_t box, mr_jpeg_planes_t *out,
                             bool *done, mr_diag_t *diag) {
  *done = false;
  return MR_OK;
}

mr_err_t mr_jpeg_scan_read(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                           const uint8_t *bytes, size_t n, mr_box_t box, mr_grown_t *to, bool *done,
                           mr_diag_t *diag) {
  *done = false;
  return MR_OK;
}
#endif
