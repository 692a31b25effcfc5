/* The scans of a progressive file: their headers, the tables between them, and the blocks of each
   scan as far down as a box needs them.  The bytes behind those are passed unread, to the marker
   that ends the scan.

   Only files whose scans give all bits of all coefficients, each once and in order, are decoded
   here.  From others libjpeg makes a smoothed picture. */
#include <stdio.h>
#include <string.h>

/* after stdio.h and stddef.h */
#include "stages/jpeg_scan_private.h"

#if defined(__x86_64__)
enum {
  DHT = 0xC4,
  SOS = 0xDA,
  DRI = 0xDD,
  RST7 = JPEG_RST0 + 7,
  SCANS_MAX = 500, /* as decode_jpeg.c limits libjpeg */
  BITS_MAX = 13
};

/* The header of a scan. */
typedef struct pass_head {
  int n, part[MR_JPEG_PARTS], dc[MR_JPEG_PARTS], ac[MR_JPEG_PARTS];
  int first, last, high, low;
} pass_head_t;

typedef struct passes {
  pass_head_t head;
  int interval;
  int8_t missing[MR_JPEG_PARTS][DCTSIZE2]; /* bits that scans have not given yet; -1: all of them */
} passes_t;

/* ---- memory ---- */

mr_err_t mr__jpeg_passes_memory(mr_jpeg_scan_t *s, const scan_window_t *w, mr_diag_t *diag) {
  size_t coefs = 0, seen = 0;
  for (int i = 0; i < s->n; i++) {
    const mr_jpeg_part_t *p = &s->part[i];
    mr_jpeg_store_t *t = &s->store[i];
    *t = (mr_jpeg_store_t){.across = (p->w + 7) / 8, .down = (p->h + 7) / 8};
    t->top = w->top * p->down, t->bottom = w->bottom * p->down;
    t->left = w->left * p->across, t->right = w->right * p->across;
    if (t->bottom > t->down) t->bottom = t->down;
    if (t->right > t->across) t->right = t->across;
    coefs += DCTSIZE2 * (size_t)(t->bottom - t->top) * (size_t)(t->right - t->left);
    seen += (size_t)t->bottom * (size_t)t->across;
  }
  MR_TRY(mr_grow(&s->coefs, coefs * sizeof(int16_t), diag));
  MR_TRY(mr_grow(&s->seen, seen * sizeof(uint64_t), diag));
  memset(s->coefs.at, 0, coefs * sizeof(int16_t));
  memset(s->seen.at, 0, seen * sizeof(uint64_t));
  int16_t *coef = (int16_t *)s->coefs.at;
  uint64_t *mask = (uint64_t *)s->seen.at;
  for (mr_jpeg_store_t *t = s->store; t < s->store + s->n; t++) {
    t->coef = coef, t->seen = mask;
    coef += DCTSIZE2 * (size_t)(t->bottom - t->top) * (size_t)(t->right - t->left);
    mask += (size_t)t->bottom * (size_t)t->across;
  }
  return MR_OK;
}

/* ---- headers ---- */

static void passes_table(jpeg_table_t *t, const JHUFF_TBL *from) {
  t->given = from;
  if (!from) return;
  memcpy(t->count, from->bits, sizeof t->count);
  memcpy(t->symbol, from->huffval, sizeof t->symbol);
}

/* Takes what libjpeg has read: all up to the first scan's header. */
static bool passes_begin(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c, passes_t *p) {
  *p = (passes_t){.head = {c->comps_in_scan, .first = c->Ss, .last = c->Se, .high = c->Ah},
                  .interval = (int)c->restart_interval};
  p->head.low = c->Al;
  memset(p->missing, -1, sizeof p->missing);
  for (int k = 0; k < JPEG_TABLES; k++) {
    passes_table(&s->table[JPEG_DC][k], c->dc_huff_tbl_ptrs[k]);
    passes_table(&s->table[JPEG_AC][k], c->ac_huff_tbl_ptrs[k]);
  }
  if (p->head.n < 1 || p->head.n > s->n) return false;
  for (int i = 0; i < p->head.n; i++) {
    const jpeg_component_info *info = c->cur_comp_info[i];
    p->head.part[i] = info->component_index;
    p->head.dc[i] = info->dc_tbl_no, p->head.ac[i] = info->ac_tbl_no;
  }
  return true;
}

static int passes_word(const uint8_t *at) { return at[0] << 8 | at[1]; }

/* The bytes [s->at, end) of the segment behind a marker; s->at leaves it.  NULL if it is cut
   short. */
static const uint8_t *passes_body(mr_jpeg_scan_t *s, const uint8_t **end) {
  const uint8_t *at = s->at;
  if (s->end - at < 2 || passes_word(at) < 2 || s->end - at < passes_word(at)) return NULL;
  *end = s->at = at + passes_word(at);
  return at + 2;
}

static bool passes_huffman(mr_jpeg_scan_t *s) {
  const uint8_t *end, *at = passes_body(s, &end);
  while (at && at < end) {
    int n = 0, which = *at >> 4, number = *at & 15;
    if (end - at < 17 || which > JPEG_AC || number >= JPEG_TABLES) return false;
    jpeg_table_t *t = &s->table[which][number];
    for (int k = 1; k <= 16; k++) n += t->count[k] = at[k];
    at += 17;
    if (n > 256 || n > end - at) return false;
    memset(t->symbol, 0, sizeof t->symbol);
    memcpy(t->symbol, at, (size_t)n);
    t->given = true, at += n;
  }
  return at;
}

static bool passes_scan(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c, pass_head_t *h) {
  const uint8_t *end, *at = passes_body(s, &end);
  if (!at || at == end || *at < 1 || *at > s->n || end - at != 4 + 2 * *at) return false;
  *h = (pass_head_t){.n = *at++};
  for (int i = 0; i < h->n; i++, at += 2) {
    int which = 0;
    while (which < s->n && c->comp_info[which].component_id != at[0]) which++;
    if (which == s->n) return false;
    h->part[i] = which, h->dc[i] = at[1] >> 4, h->ac[i] = at[1] & 15;
  }
  h->first = at[0], h->last = at[1], h->high = at[2] >> 4, h->low = at[2] & 15;
  return true;
}

/* Whether the scan gives bits that are the next ones; notes them. */
static bool passes_follows(const mr_jpeg_scan_t *s, passes_t *p) {
  const pass_head_t *h = &p->head;
  bool dc = h->first == 0;
  if (h->last >= DCTSIZE2 || h->first > h->last || (dc ? h->last : h->n > 1)) return false;
  if (h->low > BITS_MAX || (h->high && h->low != h->high - 1)) return false;
  for (int i = 0; i < h->n; i++) {
    int8_t *missing = p->missing[h->part[i]];
    if (!dc && missing[0] < 0) return false;
    for (int k = i + 1; k < h->n; k++)
      if (h->part[i] == h->part[k]) return false;
    for (int k = h->first; k <= h->last; k++) {
      if (missing[k] != (h->high ? h->high : -1)) return false;
      missing[k] = (int8_t)h->low;
    }
  }
  return true;
}

static bool passes_tables(mr_jpeg_scan_t *s, const pass_head_t *h) {
  const jpeg_table_t *t;
  for (int i = 0; i < h->n && h->first == 0 && !h->high; i++) {
    if (h->dc[i] < 0 || h->dc[i] >= JPEG_TABLES) return false;
    t = &s->table[JPEG_DC][h->dc[i]];
    if (!t->given || !mr_jpeg_huff_build(&s->dc[i], t->count, t->symbol, MR_JPEG_DC)) return false;
    s->part[h->part[i]].dc = &s->dc[i];
  }
  if (h->first == 0) return true;
  if (h->ac[0] < 0 || h->ac[0] >= JPEG_TABLES) return false;
  t = &s->table[JPEG_AC][h->ac[0]];
  return t->given && mr_jpeg_huff_build(&s->runs, t->count, t->symbol, MR_JPEG_RUNS);
}

/* ---- blocks ---- */

/* MCU x of row y of a scan of several components. */
static bool passes_mcu(mr_jpeg_scan_t *s, const pass_head_t *h, mr_jpeg_pass_t *p,
                       mr_jpeg_bits_t *in, int y, int x) {
  for (int i = 0; i < h->n; i++) {
    mr_jpeg_part_t *part = &s->part[h->part[i]];
    for (int k = 0; k < part->down * part->across; k++)
      if (!mr_jpeg_pass_dc(in, p, &s->store[h->part[i]], y * part->down + k / part->across,
                           x * part->across + k % part->across, part))
        return false;
  }
  return true;
}

/* MCUs [from,to) of row y. */
static bool passes_row(mr_jpeg_scan_t *s, const pass_head_t *h, mr_jpeg_pass_t *p,
                       mr_jpeg_bits_t *in, int y, int from, int to) {
  int which = h->part[0];
  const mr_jpeg_store_t *t = &s->store[which];
  if (h->first && p->refine) return mr_jpeg_pass_refine(in, p, t, y, from, to);
  if (h->first) return mr_jpeg_pass_first(in, p, t, y, from, to);
  for (int x = from; x < to; x++)
    if (h->n == 1 ? !mr_jpeg_pass_dc(in, p, t, y, x, &s->part[which])
                  : !passes_mcu(s, h, p, in, y, x))
      return false;
  return true;
}

/* The blocks of a scan; those of one component alone are in no MCUs. */
static bool passes_blocks(mr_jpeg_scan_t *s, const passes_t *all, const scan_window_t *w) {
  const pass_head_t *h = &all->head;
  const mr_jpeg_store_t *t = &s->store[h->part[0]];
  int rows = h->n == 1 ? t->bottom : w->bottom, across = h->n == 1 ? t->across : s->mcus_across;
  mr_jpeg_pass_t p = {.first = h->first, .last = h->last, .low = h->low, .refine = h->high > 0};
  scan_segment_t g = {.interval = all->interval};
  p.ac = &s->runs;
  for (int y = 0; y < rows; y++)
    for (int x = 0, n; x < across; x += n) {
      if (!g.left) {
        if (!mr__jpeg_segment_begin(s, &g)) return false;
        p.run = 0, p.limit = g.limit;
      }
      n = g.left > 0 && g.left < across - x ? g.left : across - x;
      if (!passes_row(s, h, &p, &g.in, y, x, x + n) || !mr__jpeg_segment_passed(&g, n))
        return false;
    }
  return true;
}

/* ---- markers ---- */

/* Passes the segments of a scan that are not read.  False for what does not belong to one. */
static bool passes_skip(mr_jpeg_scan_t *s, int interval) {
  while (s->marker >= JPEG_RST0 && s->marker <= RST7) {
    const uint8_t *ff = s->at;
    if (!interval) return false;
    do {
      ff = memchr(s->at, 0xFF, (size_t)(s->end - s->at));
      if (!ff || s->end - ff < 2) return false;
      s->at = ff + 2;
    } while (!ff[1]);
    s->marker = ff[1];
  }
  return s->marker > 0;
}

/* Goes from the marker behind a scan to the next scan or, with *over, to the file's end. */
static bool passes_next(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c, passes_t *p,
                        bool *over) {
  const uint8_t *end, *at;
  for (*over = false;; s->marker = s->at[1], s->at += 2) {
    switch (s->marker) {
      case SOS: return passes_scan(s, c, &p->head);
      case JPEG_EOI: return *over = true;
      case DHT:
        if (!passes_huffman(s)) return false;
        break;
      case DRI:
        at = passes_body(s, &end);
        if (!at || end - at != 2) return false;
        p->interval = passes_word(at);
        break;
      default: return false;
    }
    if (s->end - s->at < 2 || s->at[0] != 0xFF) return false;
  }
}

bool mr__jpeg_passes(mr_jpeg_scan_t *s, const struct jpeg_decompress_struct *c,
                     const scan_window_t *w) {
  passes_t p;
  bool over = false;
  if (!passes_begin(s, c, &p)) return false;
  for (int scans = 0; !over; scans++) {
    if (scans == SCANS_MAX || !passes_follows(s, &p) || !passes_tables(s, &p.head) ||
        !passes_blocks(s, &p, w) || !passes_skip(s, p.interval) || !passes_next(s, c, &p, &over))
      return false;
  }
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (p.missing[i][k]) return false;
  for (int i = 0; i < s->n; i++)
    if (!mr_jpeg_pass_samples(&s->store[i], &s->part[i], s->block)) return false;
  return true;
}
#endif
