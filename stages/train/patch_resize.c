/* A patch of the old size is resized by a matrix R, which is the product of one matrix W for each
   axis.  The new kernel is the old one times the pseudo-inverse of R, and that is a product of
   those of W.  W has full rank, so its pseudo-inverse comes from the smaller of W W' and W' W.
   Source: timm's resample_patch_embed; Beyer et al., "FlexiViT" (2023). */
#include "stages/train/patch_resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stages/train/pos_embed.h"

static void swap_rows(double *a, int columns, int i, int j) {
  for (int k = 0; k < columns && i != j; k++) {
    double t = a[i * columns + k];
    a[i * columns + k] = a[j * columns + k], a[j * columns + k] = t;
  }
}

/* Solves a x = b for x, written into b[n][m], by Gauss and Jordan's elimination; a[n][n] is used
   up. */
static void solve_system(double *a, double *b, int n, int m) {
  for (int i = 0; i < n; i++) {
    int pivot = i;
    for (int r = i + 1; r < n; r++)
      if (fabs(a[r * n + i]) > fabs(a[pivot * n + i])) pivot = r;
    swap_rows(a, n, i, pivot), swap_rows(b, m, i, pivot);
    double by = 1 / a[i * n + i];
    for (int k = 0; k < n; k++) a[i * n + k] *= by;
    for (int k = 0; k < m; k++) b[i * m + k] *= by;
    for (int r = 0; r < n; r++) {
      double f = r == i ? 0 : a[r * n + i];
      for (int k = 0; k < n && f != 0; k++) a[r * n + k] -= f * a[i * n + k];
      for (int k = 0; k < m && f != 0; k++) b[r * m + k] -= f * b[i * m + k];
    }
  }
}

/* p[G][g]: the pseudo-inverse of w[G][g], transposed; gram[min(G,g)^2] is for use here.  With more
   places than before, p' = (W'W)^-1 W'; with fewer, p = (WW')^-1 W. */
static void invert_weights(const double *w, int G, int g, double *p, double *turned, double *gram) {
  bool more = G > g;
  int n = more ? g : G, m = more ? G : g;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < m; k++)
        sum += more ? w[k * g + i] * w[k * g + j] : w[i * g + k] * w[j * g + k];
      gram[i * n + j] = sum;
    }
  if (!more) {
    memcpy(p, w, (size_t)G * (size_t)g * sizeof *p);
    return solve_system(gram, p, n, m);
  }
  for (int i = 0; i < g; i++)
    for (int k = 0; k < G; k++) turned[i * G + k] = w[k * g + i];
  solve_system(gram, turned, n, m);
  for (int i = 0; i < g; i++)
    for (int k = 0; k < G; k++) p[k * g + i] = turned[i * G + k];
}

/* One kernel of one channel: to = p from p'; half[G][g] is for use here. */
static void resize_one(const double *p, const float *from, int g, float *to, int G, double *half) {
  for (int Y = 0; Y < G; Y++)
    for (int x = 0; x < g; x++) {
      double sum = 0;
      for (int y = 0; y < g; y++) sum += p[Y * g + y] * (double)from[y * g + x];
      half[Y * g + x] = sum;
    }
  for (int Y = 0; Y < G; Y++)
    for (int X = 0; X < G; X++) {
      double sum = 0;
      for (int x = 0; x < g; x++) sum += p[X * g + x] * half[Y * g + x];
      to[Y * G + X] = (float)sum;
    }
}

mr_err_t mr__patch_resize(const float *from, int from_side, float *to, int to_side, int64_t n,
                          mr_diag_t *diag) {
  size_t g = (size_t)from_side, G = (size_t)to_side, least = g < G ? g : G;
  double *w = calloc(G * g, sizeof *w), *p = calloc(G * g, sizeof *p);
  double *room = calloc(G * g, sizeof *room), *gram = calloc(least * least, sizeof *gram);
  bool ready = w && p && room && gram;
  if (ready) {
    mr__pos_embed_weights(w, from_side, to_side);
    invert_weights(w, to_side, from_side, p, room, gram);
  }
  for (int64_t i = 0; i < n && ready; i++)
    resize_one(p, from + i * (int64_t)(g * g), from_side, to + i * (int64_t)(G * G), to_side, room);
  free(w), free(p), free(room), free(gram);
  return ready ? MR_OK : mr_no_memory(diag, "the kernel of patches of another size");
}
