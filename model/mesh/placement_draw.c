/* A grid of boxes.  Its rows are the parts of one dimension and its columns those of another, so
   that an array that is cut along one dimension is one row or one column. */
#include "model/mesh/placement_draw.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BOX_TEXT = MR_GRID_TEXT, RANKS_DRAWN = 1024, LINES_MOST = 64 };

/* What is drawn: the dimensions of rows and columns, -1 if there is but one. */
typedef struct grid {
  const mr_placement_t *p;
  const mr_mesh_t *m;
  int ndim, down, across, n_rows, n_columns;
  const int64_t *dim;
  char (*text)[BOX_TEXT]; /* [n_rows][n_columns] the ranks of each part */
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

static mr_err_t find_grid(grid_t *g, mr_placement_grid_t *out, mr_diag_t *diag) {
  *out = (mr_placement_grid_t){.n_rows = 0};
  if (mr_mesh_ranks(g->m) > RANKS_DRAWN || !choose_dims(g) || 2 * g->n_rows > LINES_MOST)
    return MR_OK;
  out->row = calloc((size_t)g->n_rows, sizeof *out->row);
  out->column = calloc((size_t)g->n_columns, sizeof *out->column);
  out->ranks = calloc((size_t)(g->n_rows * g->n_columns), sizeof *out->ranks);
  if (!out->row || !out->column || !out->ranks) {
    mr_placement_grid_fini(out);
    return mr_no_memory(diag, "the picture of an array on a mesh");
  }
  g->text = out->ranks;
  fill_boxes(g);
  for (int k = 0; k < g->n_rows; k++) range_text(g, g->down, k, out->row[k]);
  for (int k = 0; k < g->n_columns; k++) range_text(g, g->across, k, out->column[k]);
  out->n_rows = g->n_rows, out->n_columns = g->n_columns;
  return MR_OK;
}

mr_err_t mr_placement_grid(const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, mr_placement_grid_t *out, mr_diag_t *diag) {
  grid_t g = {.p = p, .m = m, .ndim = ndim, .dim = dim};
  return find_grid(&g, out, diag);
}

void mr_placement_grid_fini(mr_placement_grid_t *g) {
  free(g->row), free(g->column), free(g->ranks);
  *g = (mr_placement_grid_t){.n_rows = 0};
}

/* ---- in a terminal ---- */

static int longest_text(int n, char (*text)[BOX_TEXT]) {
  int most = 0;
  for (int i = 0; i < n; i++)
    if ((int)strlen(text[i]) > most) most = (int)strlen(text[i]);
  return most;
}

static void print_border(int label, int width, int n, const char *const sign[3], FILE *to) {
  fprintf(to, "%*s%s", label + 1, "", sign[0]);
  for (int k = 0; k < n; k++) {
    for (int i = 0; i < width + 2; i++) fputs("─", to);
    fputs(k < n - 1 ? sign[1] : sign[2], to);
  }
  fputc('\n', to);
}

static void print_grid(const mr_placement_grid_t *g, int label, int width, FILE *to) {
  static const char *const top[] = {"┌", "┬", "┐"}, *const between[] = {"├", "┼", "┤"},
                           *const bottom[] = {"└", "┴", "┘"};
  if (*g->column[0]) {
    fprintf(to, "%*s", label + 1, "");
    for (int k = 0; k < g->n_columns; k++)
      fprintf(to, "  %-*s", k < g->n_columns - 1 ? width + 1 : 0, g->column[k]);
    fputc('\n', to);
  }
  print_border(label, width, g->n_columns, top, to);
  for (int r = 0; r < g->n_rows; r++) {
    if (r) print_border(label, width, g->n_columns, between, to);
    fprintf(to, "%*s │", label, g->row[r]);
    for (int k = 0; k < g->n_columns; k++)
      fprintf(to, " %-*s │", width, g->ranks[r * g->n_columns + k]);
    fputc('\n', to);
  }
  print_border(label, width, g->n_columns, bottom, to);
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
  mr_placement_grid_t found;
  MR_TRY(find_grid(&g, &found, diag));
  int label = longest_text(found.n_rows, found.row);
  int width = longest_text(found.n_rows * found.n_columns, found.ranks);
  int across = longest_text(found.n_columns, found.column);
  if (across > width) width = across;
  if (!found.n_rows || (columns && label + 2 + found.n_columns * (width + 3) > columns))
    print_rank_lines(&g, to);
  else
    print_grid(&found, label, width, to);
  mr_placement_grid_fini(&found);
  return MR_OK;
}
