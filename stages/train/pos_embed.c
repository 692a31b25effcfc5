/* The interpolation is separable, and both axes have the same weights.  Source: timm's
   resample_abs_pos_embed, PyTorch's upsampling with antialiasing (Keys' cubic with a = -1/2, as
   Pillow has it, widened where it makes smaller). */
#include "stages/train/pos_embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int grid_side(const mr_aval_t *a) {
  int side = (int)lround(sqrt((double)(a->dim[1] - 1)));
  return (int64_t)side * side == a->dim[1] - 1 ? side : 0;
}

bool mr__pos_embed_grids(const mr_aval_t *a, const mr_aval_t *b, int *from, int *to) {
  if (a->ndim != 3 || b->ndim != 3 || a->dim[0] != 1 || b->dim[0] != 1) return false;
  if (a->dim[2] != b->dim[2] || a->dim[1] == b->dim[1]) return false;
  return (*from = grid_side(a)) > 0 && (*to = grid_side(b)) > 0;
}

static double cubic_weight(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

void mr__pos_embed_weights(double *w, int from, int to) {
  double scale = (double)from / to, wide = scale > 1 ? scale : 1;
  for (int i = 0; i < to; i++, w += from) {
    double center = scale * (i + 0.5), sum = 0;
    int lo = (int)(center - 2 * wide + 0.5), hi = (int)(center + 2 * wide + 0.5);
    for (int j = lo < 0 ? 0 : lo; j < hi && j < from; j++)
      sum += w[j] = cubic_weight((j - center + 0.5) / wide);
    for (int j = 0; j < from; j++) w[j] /= sum;
  }
}

mr_err_t mr__pos_embed_resize(const float *from, int from_side, float *to, int to_side, int width,
                              mr_diag_t *diag) {
  size_t g = (size_t)from_side, G = (size_t)to_side, E = (size_t)width;
  double *w = calloc(G * g, sizeof *w), *rows = calloc(g * G * E, sizeof *rows);
  double *one = calloc(E, sizeof *one);
  bool room = w && rows && one;
  if (room) mr__pos_embed_weights(w, from_side, to_side);
  if (room) memcpy(to, from, E * sizeof *to);
  for (size_t y = 0; y < g && room; y++)
    for (size_t X = 0; X < G; X++)
      for (size_t x = 0; x < g; x++)
        for (size_t e = 0; w[X * g + x] != 0 && e < E; e++)
          rows[(y * G + X) * E + e] += w[X * g + x] * (double)from[(1 + y * g + x) * E + e];
  for (size_t Y = 0; Y < G && room; Y++)
    for (size_t X = 0; X < G; X++) {
      memset(one, 0, E * sizeof *one);
      for (size_t y = 0; y < g; y++)
        for (size_t e = 0; w[Y * g + y] != 0 && e < E; e++)
          one[e] += w[Y * g + y] * rows[(y * G + X) * E + e];
      for (size_t e = 0; e < E; e++) to[(1 + Y * G + X) * E + e] = (float)one[e];
    }
  free(w), free(rows), free(one);
  return room ? MR_OK : mr_no_memory(diag, "the interpolation of pos_embed");
}
