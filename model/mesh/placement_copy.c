/* Parts are copied by runs: what lies together in the part and in the whole, from the innermost
   dimension that is cut on. */
#include "model/mesh/placement_copy.h"

#include <stdbool.h>
#include <string.h>

typedef struct copier {
  int ndim;                   /* dimensions up to the innermost one that is cut */
  size_t run;                 /* bytes of one element of those dimensions */
  int64_t own[MR_MAX_NDIM];   /* elements of a block's part, which follow each other */
  int64_t whole[MR_MAX_NDIM]; /* elements of the dimension */
  int64_t parts[MR_MAX_NDIM], place[MR_MAX_NDIM]; /* of how many parts this rank has which */
  char *part, *all;
  bool joins;
} copier_t;

/* The rank's place among those that cut dimension d: along several axes, the first one of the mesh
   counts most. */
static int64_t place_in_dimension(const mr_placement_t *p, const mr_mesh_t *m, int d, int rank) {
  int at[MR_MESH_AXES];
  int64_t place = 0;
  mr_mesh_place(m, rank, at);
  for (int a = 0; a < m->n; a++)
    if (p->axes[d] >> a & 1) place = place * m->size[a] + at[a];
  return place;
}

/* Copies dimensions d and those within it, of the whole's element `at` of those before; the part is
   taken in its own order. */
static void copy_from_dimension(copier_t *c, int d, int64_t at) {
  if (d == c->ndim) {
    char *whole = c->all + (size_t)at * c->run;
    if (c->run) memcpy(c->joins ? whole : c->part, c->joins ? c->part : whole, c->run);
    c->part += c->run;
    return;
  }
  int64_t step = c->own[d] * c->parts[d];
  for (int64_t block = 0; step && block < c->whole[d]; block += step)
    for (int64_t k = 0; k < c->own[d]; k++)
      copy_from_dimension(c, d + 1, at * c->whole[d] + block + c->place[d] * c->own[d] + k);
}

static void copy_rank_part(const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, size_t bytes, int rank, char *part, char *whole,
                           bool joins) {
  copier_t c = {.run = bytes, .part = part, .all = whole, .joins = joins};
  for (int d = 0; d < ndim; d++)
    if (mr_placement_parts(p, m, d) > 1) c.ndim = d + 1;
  for (int d = c.ndim; d < ndim; d++) c.run *= (size_t)dim[d];
  for (int d = 0; d < c.ndim; d++) {
    c.whole[d] = dim[d];
    c.parts[d] = mr_placement_parts(p, m, d);
    c.place[d] = place_in_dimension(p, m, d, rank);
    int64_t blocks = c.parts[d] > 1 && p->outer[d] > 1 ? p->outer[d] : 1;
    c.own[d] = dim[d] / blocks / c.parts[d];
  }
  /* A block's part of the innermost one of them is one run. */
  if (c.ndim) {
    int d = c.ndim - 1;
    int64_t own = c.own[d];
    if (own) c.run *= (size_t)own, c.whole[d] /= own, c.own[d] = 1;
  }
  copy_from_dimension(&c, 0, 0);
}

void mr_placement_cut(const mr_placement_t *p, const mr_mesh_t *m, int ndim, const int64_t *dim,
                      size_t bytes, int rank, const void *whole, void *part) {
  copy_rank_part(p, m, ndim, dim, bytes, rank, part, (char *)(uintptr_t)whole, false);
}

void mr_placement_join(const mr_placement_t *p, const mr_mesh_t *m, int ndim, const int64_t *dim,
                       size_t bytes, int rank, const void *part, void *whole) {
  copy_rank_part(p, m, ndim, dim, bytes, rank, (char *)(uintptr_t)part, whole, true);
}
