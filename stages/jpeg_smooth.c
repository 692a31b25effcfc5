/* An estimate is a sum of the DC of 5 x 5 blocks around the one that lacks the coefficient, by
   weights of 1/256, in units of the two quantization steps; it stays below what the bits that are
   known would have shown.  Where no scan has given any AC, DC is smoothed as well.

   The weights, their rounding and the rows that count as the picture's edge are libjpeg-turbo's,
   since the pixels shall be. */
#include <stdlib.h>
#include <string.h>

/* after stdio.h and stddef.h */
#include "stages/jpeg_smooth.h"

enum { SIDE = 5, LARGEST = 1023 /* of a coefficient of a baseline file */ };

typedef int8_t kernel_t[SIDE][SIDE];

/* Estimates of one coefficient: its number in a scan's order, and its place by row and column. */
typedef struct estimate {
  int number, place;
  bool turned; /* the kernel's rows are columns */
  kernel_t with_dc, of_dc;
} estimate_t;

/* Weights where DC is smoothed too, and where it is known: of the lowest frequencies alone. */
#define ODD                                   \
  {{-1, -1, 0, 1, 1},                         \
   {-3, 13, 0, -13, 3},                       \
   {-3, 38, 0, -38, 3},                       \
   {-3, 13, 0, -13, 3},                       \
   {-1, -1, 0, 1, 1}},                        \
  {                                           \
    {0}, {0}, {-7, 50, 0, -50, 7}, {0}, { 0 } \
  }
#define EVEN                                                           \
  {{0}, {0, 2, -5, 2, 0}, {1, 7, -14, 7, 1}, {0, 2, -5, 2, 0}, {0}}, { \
    {0}, {0}, {-1, 13, -24, 13, -1}, {0}, { 0 }                        \
  }
#define ODD_3                                                         \
  {{0}, {0, 1, 0, -1, 0}, {0, 2, 0, -2, 0}, {0, 1, 0, -1, 0}, {0}}, { \
    { 0 }                                                             \
  }
#define ODD_EVEN                                                      \
  {{0}, {0, 1, 0, -1, 0}, {0, -3, 0, 3, 0}, {0, 1, 0, -1, 0}, {0}}, { \
    { 0 }                                                             \
  }

static const estimate_t estimates[] = {
    {1, 1, false, ODD},
    {2, 8, true, ODD},
    {3, 16, true, EVEN},
    {4,
     9,
     false,
     {{-1, 0, 0, 0, 1}, {0, 9, 0, -9, 0}, {0}, {0, -9, 0, 9, 0}, {1, 0, 0, 0, -1}},
     {{0, -1, 0, 1, 0}, {-1, 10, 0, -10, 1}, {0}, {1, -10, 0, 10, -1}, {0, 1, 0, -1, 0}}},
    {5, 2, false, EVEN},
    {6, 3, false, ODD_3},
    {7, 10, true, ODD_EVEN},
    {8, 17, false, ODD_EVEN},
    {9, 24, true, ODD_3}};

/* No int8_t holds 152: a quarter of the middle is added apart. */
static const kernel_t mean = {{-2, -6, -8, -6, -2},
                              {-6, 6, 42, 6, -6},
                              {-8, 42, 38, 42, -8},
                              {-6, 6, 42, 6, -6},
                              {-2, -6, -8, -6, -2}};

/* ---- what is known ---- */

void mr_jpeg_known_scan(mr_jpeg_known_t *k, const struct jpeg_decompress_struct *c) {
  if (!c->coef_bits || c->input_scan_number == k->scan || c->num_components > MR_JPEG_SMOOTH_PARTS)
    return;
  bool first = c->input_scan_number == 1;
  for (int i = 0; i < c->comps_in_scan; i++) {
    int part = c->cur_comp_info[i]->component_index;
    for (int n = c->Ss ? 1 : 0; n < MR_JPEG_SMOOTH_BITS; n++)
      k->before[part][n] = first ? 0 : k->now[part][n];
  }
  for (int part = 0; part < c->num_components; part++)
    memcpy(k->now[part], c->coef_bits[part], sizeof k->now[part]);
  k->scan = c->input_scan_number, k->cut = false;
}

void mr_jpeg_known_cut(mr_jpeg_known_t *k, const struct jpeg_decompress_struct *c) {
  k->cut = true, k->cut_row = c->input_iMCU_row;
}

/* Whether blocks can be estimated at all: each component has some DC, and steps that are not 0. */
static bool can_estimate(const struct jpeg_decompress_struct *c, const mr_jpeg_known_t *k) {
  for (int part = 0; part < c->num_components; part++) {
    const JQUANT_TBL *quant = c->comp_info[part].quant_table;
    if (!quant || !quant->quantval[0] || k->now[part][0] < 0) return false;
    for (size_t i = 0; i < sizeof estimates / sizeof *estimates; i++)
      if (!quant->quantval[estimates[i].place]) return false;
  }
  return true;
}

/* ---- a component ---- */

typedef struct smoothed {
  const int *known; /* of a row of blocks */
  bool dc;          /* no AC is known, and DC is smoothed */
  const UINT16 *quant;
  const JCOEF *around[SIDE]; /* DC of the rows around it */
  JDIMENSION across;
} smoothed_t;

static long weigh_around(const smoothed_t *s, const JDIMENSION at[SIDE], const kernel_t kernel,
                         bool turned) {
  long sum = 0;
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++)
      sum += (turned ? kernel[x][y] : kernel[y][x]) * (long)s->around[y][at[x]];
  return sum;
}

/* sum / 256, from steps of DC to steps of `step`, rounded away from 0; less than 1 << bits if bits
   are known. */
static JCOEF estimate_coef(const smoothed_t *s, long sum, long step, int bits) {
  long scaled = sum * s->quant[0], size = ((step << 7) + labs(scaled)) / (step << 8);
  int most = (1 << (bits > 0 ? bits : 0)) - 1;
  int value = bits > 0 && (int)size > most ? most : (int)size;
  return (JCOEF)(scaled < 0 ? -value : value);
}

static void smooth_block(const smoothed_t *s, JDIMENSION x, JCOEF *block) {
  JDIMENSION last = s->across - 1, at[SIDE];
  for (JDIMENSION i = 0; i < SIDE; i++) {
    at[i] = x + i < 2 ? 0 : x + i - 2;
    if (at[i] > last) at[i] = last;
  }
  for (size_t i = 0; i < sizeof estimates / sizeof *estimates; i++) {
    const estimate_t *e = &estimates[i];
    int bits = s->known[e->number];
    if (!bits || block[e->place] || (!s->dc && e->number > 5)) continue;
    long sum = weigh_around(s, at, s->dc ? e->with_dc : e->of_dc, e->turned);
    block[e->place] = estimate_coef(s, sum, s->quant[e->place], bits);
  }
  if (!s->dc) return;
  long sum = weigh_around(s, at, mean, false) + 114 * (long)s->around[2][at[2]];
  block[0] = estimate_coef(s, sum, s->quant[0], 0);
}

/* What is known of the blocks of a component in a row of MCUs: of those that the last scan did not
   reach, what was known before it. */
static void settle_known(smoothed_t *s, const mr_jpeg_known_t *k, int part, JDIMENSION row) {
  static const int nothing[MR_JPEG_SMOOTH_BITS] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const int *known = !k->cut || row <= k->cut_row ? k->now[part]
                     : k->scan > 1                ? k->before[part]
                                                  : nothing;
  s->known = known, s->dc = true;
  for (int i = 1; i < MR_JPEG_SMOOTH_BITS; i++) s->dc &= known[i] == -1;
}

static JCOEF *row_of_blocks(j_decompress_ptr c, jvirt_barray_ptr blocks, JDIMENSION y) {
  return c->mem->access_virt_barray((j_common_ptr)c, blocks, y, 1, TRUE)[0][0];
}

/* The DC of all blocks, those among them that only fill MCUs below the picture. */
static JCOEF *copy_dc(j_decompress_ptr c, jvirt_barray_ptr blocks, JDIMENSION down,
                      JDIMENSION across) {
  JCOEF *dc = c->mem->alloc_large((j_common_ptr)c, JPOOL_IMAGE, (size_t)down * across * sizeof *dc);
  for (JDIMENSION y = 0; y < down; y++) {
    const JCOEF *row = row_of_blocks(c, blocks, y);
    for (JDIMENSION x = 0; x < across; x++) dc[(size_t)y * across + x] = row[DCTSIZE2 * x];
  }
  return dc;
}

static void smooth_part(j_decompress_ptr c, int part, jvirt_barray_ptr blocks,
                        const mr_jpeg_known_t *k) {
  const jpeg_component_info *info = c->comp_info + part;
  JDIMENSION factor = (JDIMENSION)info->v_samp_factor, mcus = c->total_iMCU_rows;
  JDIMENSION left = info->height_in_blocks % factor, across = info->width_in_blocks;
  JCOEF *dc = copy_dc(c, blocks, mcus * factor, across);
  smoothed_t s = {.quant = info->quant_table->quantval, .across = across};
  for (JDIMENSION m = 0; m < mcus; m++) {
    JDIMENSION rows = m + 1 < mcus || !left ? factor : left;
    settle_known(&s, k, part, m);
    for (JDIMENSION i = 0; i < rows; i++) {
      /* Edges are counted in the rows that this row of MCUs has, as libjpeg-turbo counts them. */
      JDIMENSION y = m * factor + i, number = m * rows + i, all = mcus * rows;
      int up = number > 1 ? 2 : number > 0, below = number + 2 < all ? 2 : number + 1 < all;
      for (int n = 0; n < SIDE; n++) {
        int far = n - 2 < -up ? -up : n - 2 > below ? below : n - 2;
        s.around[n] = dc + (size_t)((long)y + far) * across;
      }
      JCOEF *row = row_of_blocks(c, blocks, y);
      for (JDIMENSION x = 0; x < across; x++) smooth_block(&s, x, row + DCTSIZE2 * x);
    }
  }
}

static bool fits_baseline(j_decompress_ptr c, int part, jvirt_barray_ptr blocks) {
  const jpeg_component_info *info = c->comp_info + part;
  for (JDIMENSION y = 0; y < info->height_in_blocks; y++) {
    const JCOEF *row = row_of_blocks(c, blocks, y);
    for (size_t i = 0; i < (size_t)info->width_in_blocks * DCTSIZE2; i++)
      if (row[i] > LARGEST || row[i] < -LARGEST) return false;
  }
  return true;
}

/* Whether libjpeg can write all components in one scan, each with the table of its slot. */
static bool fits_one_scan(const struct jpeg_decompress_struct *c) {
  int blocks = 0;
  for (int i = 0; i < c->num_components; i++) {
    const jpeg_component_info *p = c->comp_info + i;
    bool slot = p->quant_tbl_no >= 0 && p->quant_tbl_no < NUM_QUANT_TBLS;
    const JQUANT_TBL *table = slot ? c->quant_tbl_ptrs[p->quant_tbl_no] : NULL;
    blocks += p->h_samp_factor * p->v_samp_factor;
    if (!table || (p->quant_table &&
                   memcmp(table->quantval, p->quant_table->quantval, sizeof table->quantval)))
      return false;
  }
  return c->num_components == 1 || blocks <= C_MAX_BLOCKS_IN_MCU;
}

bool mr_jpeg_smooth(j_decompress_ptr c, jvirt_barray_ptr *coef, const mr_jpeg_known_t *k) {
  bool good = c->num_components <= MR_JPEG_SMOOTH_PARTS && fits_one_scan(c),
       can = good && can_estimate(c, k);
  for (int part = 0; good && part < c->num_components; part++) {
    if (can) smooth_part(c, part, coef[part], k);
    good = fits_baseline(c, part, coef[part]);
  }
  return good;
}
