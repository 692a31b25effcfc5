/* A grid of boxes.  Its rows are the parts of one dimension and its columns those of another, so
   that an array that is cut along one dimension is one row or one column. */
#include "model/mesh/placement_draw.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BOX_TEXT = 40, RANKS_DRAWN = 1024, LINES_MOST = 64 };

/* What is drawn: the dimensions of rows and columns, -1 if there is but one. */
typedef struct grid {
  const mr_placement_t *p;
  const mr_mesh_t *m;
  int ndim, down, across, n_rows, n_columns;
  const int64_t *dim;
  char (*text)[BOX_TEXT]; /* [n_rows][n_columns] the ranks of each part */
  int label, width;       /* characters of the labels of rows, and within a box */
} grid_t;

/* Chooses the dimensions; false if three or more are cut. */
static bool choose_dims(grid_t *g) {
  g->down = g->across = -1;
  for (int d = 0; d < g->ndim; d++) {
    if (mr_placement_parts(g->p, g->m, d) == 1) continue;
    if (g->down >= 0 && g->across >= 0) return false;
    if (g->down < 0 && d < g->ndim - 1)
      g->down = d;
    else
      g->across = d;
  }
  g->n_rows = g->down < 0 ? 1 : mr_placement_parts(g->p, g->m, g->down);
  g->n_columns = g->across < 0 ? 1 : mr_placement_parts(g->p, g->m, g->across);
  return true;
}

/* "0:96", the places of part k of a dimension. */
static int range_text(const grid_t *g, int d, int k, char *out) {
  int64_t n = d < 0 ? 0 : g->dim[d] / mr_placement_parts(g->p, g->m, d);
  if (d < 0) return *out = 0, 0;
  return snprintf(out, BOX_TEXT, "%" PRId64 ":%" PRId64, k * n, (k + 1) * n);
}

/* Appends ranks first to last to a box: "0,2,4-7"; one that is full ends in "..". */
static void box_add(char *box, int first, int last) {
  char run[32];
  size_t n = strlen(box);
  if (n && box[n - 1] == '.') return;
  snprintf(run, sizeof run, first == last ? "%s%d" : "%s%d-%d", n ? "," : "", first, last);
  snprintf(box + n, BOX_TEXT - n, "%s", n + strlen(run) + 4 > BOX_TEXT ? ",.." : run);
}

/* Writes into each box the ranks that hold its part, which are visited in order. */
static void fill_boxes(grid_t *g) {
  int boxes = g->n_rows * g->n_columns, ranks = mr_mesh_ranks(g->m);
  for (int b = 0; b < boxes; b++) {
    int first = -1;
    for (int rank = 0; rank <= ranks; rank++) {
      int64_t from[MR_MAX_NDIM], n[MR_MAX_NDIM];
      bool here = rank < ranks;
      if (here) {
        mr_placement_part(g->p, g->m, g->ndim, g->dim, rank, from, n);
        int64_t row = g->down < 0 || !n[g->down] ? 0 : from[g->down] / n[g->down],
                column = g->across < 0 || !n[g->across] ? 0 : from[g->across] / n[g->across];
        here = row * g->n_columns + column == b;
      }
      if (here && first < 0) first = rank;
      if (!here && first >= 0) box_add(g->text[b], first, rank - 1), first = -1;
    }
  }
}

static void measure_grid(grid_t *g) {
  char text[BOX_TEXT];
  g->label = g->width = 0;
  for (int b = 0; b < g->n_rows * g->n_columns; b++)
    if ((int)strlen(g->text[b]) > g->width) g->width = (int)strlen(g->text[b]);
  for (int k = 0; k < g->n_columns; k++) {
    int n = range_text(g, g->across, k, text);
    if (n > g->width) g->width = n;
  }
  for (int k = 0; k < g->n_rows; k++) {
    int n = range_text(g, g->down, k, text);
    if (n > g->label) g->label = n;
  }
}

static void print_border(const grid_t *g, const char *left, const char *between, const char *right,
                         FILE *to) {
  fprintf(to, "%*s%s", g->label + 1, "", left);
  for (int k = 0; k < g->n_columns; k++) {
    for (int i = 0; i < g->width + 2; i++) fputs("─", to);
    fputs(k < g->n_columns - 1 ? between : right, to);
  }
  fputc('\n', to);
}

static void print_grid(const grid_t *g, FILE *to) {
  char text[BOX_TEXT];
  if (g->across >= 0) {
    fprintf(to, "%*s", g->label + 1, "");
    for (int k = 0; k < g->n_columns; k++) {
      range_text(g, g->across, k, text);
      fprintf(to, "  %-*s", k < g->n_columns - 1 ? g->width + 1 : 0, text);
    }
    fputc('\n', to);
  }
  print_border(g, "┌", "┬", "┐", to);
  for (int r = 0; r < g->n_rows; r++) {
    if (r) print_border(g, "├", "┼", "┤", to);
    range_text(g, g->down, r, text);
    fprintf(to, "%*s │", g->label, text);
    for (int k = 0; k < g->n_columns; k++)
      fprintf(to, " %-*s │", g->width, g->text[r * g->n_columns + k]);
    fputc('\n', to);
  }
  print_border(g, "└", "┴", "┘", to);
}

static void print_rank_lines(const grid_t *g, FILE *to) {
  int ranks = mr_mesh_ranks(g->m);
  for (int rank = 0; rank < ranks && rank < LINES_MOST; rank++) {
    int64_t from[MR_MAX_NDIM], n[MR_MAX_NDIM];
    mr_placement_part(g->p, g->m, g->ndim, g->dim, rank, from, n);
    fprintf(to, "rank %d: [", rank);
    for (int d = 0; d < g->ndim; d++)
      fprintf(to, "%s%" PRId64 ":%" PRId64, d ? ", " : "", from[d], from[d] + n[d]);
    fputs("]\n", to);
  }
  if (ranks > LINES_MOST) fprintf(to, "and %d ranks more\n", ranks - LINES_MOST);
}

mr_err_t mr_placement_draw(const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, int columns, FILE *to, mr_diag_t *diag) {
  grid_t g = {.p = p, .m = m, .ndim = ndim, .dim = dim};
  if (mr_mesh_ranks(m) > RANKS_DRAWN || !choose_dims(&g) || 2 * g.n_rows > LINES_MOST) {
    print_rank_lines(&g, to);
    return MR_OK;
  }
  g.text = calloc((size_t)(g.n_rows * g.n_columns), sizeof *g.text);
  if (!g.text) return mr_no_memory(diag, "the picture of an array on a mesh");
  fill_boxes(&g);
  measure_grid(&g);
  if (columns && g.label + 2 + g.n_columns * (g.width + 3) > columns)
    print_rank_lines(&g, to);
  else
    print_grid(&g, to);
  free(g.text);
  return MR_OK;
}
