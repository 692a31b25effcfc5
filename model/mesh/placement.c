/* Parts of an array by arithmetic: the ranks that cut a dimension count its parts, the first axis
   of the mesh slowest, as digits of a number. */
#include "model/mesh/placement.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int mr_placement_parts(const mr_placement_t *p, const mr_mesh_t *m, int d) {
  int parts = 1;
  for (int a = 0; a < m->n; a++)
    if (p->axes[d] >> a & 1) parts *= m->size[a];
  return parts;
}

/* "model", or "data and model". */
static const char *axes_of_dim(uint8_t axes, const mr_mesh_t *m, char *out, size_t size) {
  size_t at = 0;
  *out = 0;
  for (int a = 0; a < m->n && at < size; a++)
    if (axes >> a & 1)
      at += (size_t)snprintf(out + at, size - at, "%s%s", at ? " and " : "", m->name[a]);
  return out;
}

mr_err_t mr_placement_fits(const char *name, const mr_placement_t *p, const mr_mesh_t *m, int ndim,
                           const int64_t *dim, mr_diag_t *diag) {
  for (int d = 0; d < ndim; d++) {
    int64_t blocks = p->outer[d] > 1 ? p->outer[d] : 1,
            parts = mr_placement_parts(p, m, d) * blocks, rest = dim[d] % parts;
    char axes[MR_MESH_AXES * (MR_AXIS_NAME + 5)], below[32] = "", of_blocks[48] = "";
    if (!rest) continue;
    if (dim[d] > rest) snprintf(below, sizeof below, "%" PRId64 " or ", dim[d] - rest);
    if (blocks > 1) snprintf(of_blocks, sizeof of_blocks, ", in %" PRId64 " blocks", blocks);
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s: dimension %d of %" PRId64
                   " does not divide among the %d ranks of %s%s: "
                   "%" PRId64 " %s left over, expected a multiple such as %s%" PRId64,
                   name, d, dim[d], mr_placement_parts(p, m, d),
                   axes_of_dim(p->axes[d], m, axes, sizeof axes), of_blocks, rest,
                   rest == 1 ? "is" : "are", below, dim[d] - rest + parts);
  }
  return MR_OK;
}

void mr_placement_part(const mr_placement_t *p, const mr_mesh_t *m, int ndim, const int64_t *dim,
                       int rank, int64_t *from, int64_t *n) {
  int at[MR_MESH_AXES];
  mr_mesh_place(m, rank, at);
  for (int d = 0; d < ndim; d++) {
    int64_t k = 0;
    for (int a = 0; a < m->n; a++)
      if (p->axes[d] >> a & 1) k = k * m->size[a] + at[a];
    n[d] = dim[d] / mr_placement_parts(p, m, d);
    from[d] = k * n[d];
  }
}

typedef struct placement_out {
  char *text;
  size_t n;
} placement_out_t;

static void placement_say(placement_out_t *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void placement_say(placement_out_t *o, const char *format, ...) {
  va_list args;
  va_start(args, format);
  o->n += (size_t)vsnprintf(o->text + o->n, MR_PLACEMENT_TEXT - o->n, format, args);
  va_end(args);
}

static void say_as_sbp(const mr_placement_t *p, const mr_mesh_t *m, int ndim, placement_out_t *o) {
  for (int a = 0; a < m->n; a++) {
    int d = 0;
    while (d < ndim && !(p->axes[d] >> a & 1)) d++;
    placement_say(o, a ? "," : "[");
    if (d < ndim)
      placement_say(o, "S(%d)", d);
    else
      placement_say(o, p->partial >> a & 1 ? "P(sum)" : "B");
  }
  placement_say(o, "]");
}

static void say_as_spec(const mr_placement_t *p, const mr_mesh_t *m, int ndim, placement_out_t *o) {
  placement_say(o, "(");
  for (int d = 0; d < ndim; d++) {
    bool several = p->axes[d] & (p->axes[d] - 1);
    int n = 0;
    placement_say(o, d ? "," : "");
    if (!p->axes[d]) placement_say(o, "None");
    if (p->axes[d] && p->outer[d] > 1) placement_say(o, "%" PRId64 "*", p->outer[d]);
    if (several) placement_say(o, "(");
    for (int a = 0; a < m->n; a++)
      if (p->axes[d] >> a & 1) placement_say(o, "%s%s", n++ ? "," : "", m->name[a]);
    if (several) placement_say(o, ")");
  }
  placement_say(o, ")");
}

const char *mr_placement_text(const mr_placement_t *p, const mr_mesh_t *m, int ndim, char *out) {
  placement_out_t o = {out, 0};
  if (p->partial)
    say_as_sbp(p, m, ndim, &o);
  else
    say_as_spec(p, m, ndim, &o);
  return out;
}
