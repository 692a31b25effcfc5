/* A mesh, a placement and rules, a line each, the first byte with the number of dimensions: what is
   read is printed and read again as the same, and the parts of an array that fits lie within it. */
#include "model/mesh/placement_draw.h"
#include "model/mesh/placement_rules.h"
#include "tests/fuzz/fuzz.h"

/* The parts of the first ranks; with as many rows in a dimension as it has parts, or twice that. */
static void check_parts(const mr_placement_t *p, const mr_mesh_t *m, int ndim) {
  int64_t dim[MR_MAX_NDIM], from[MR_MAX_NDIM], n[MR_MAX_NDIM];
  for (int d = 0; d < ndim; d++) dim[d] = (1 + d % 2) * mr_placement_parts(p, m, d);
  fuzz_need(mr_placement_fits("x", p, m, ndim, dim, NULL) == MR_OK, "sizes that divide");
  for (int rank = 0; rank < mr_mesh_ranks(m) && rank < 64; rank++) {
    mr_placement_part(p, m, ndim, dim, rank, from, n);
    for (int d = 0; d < ndim; d++)
      fuzz_need(n[d] == 1 + d % 2 && from[d] >= 0 && from[d] + n[d] <= dim[d], "a part within");
  }
  static FILE *null;
  if (!null) null = fopen("/dev/null", "w");
  fuzz_need(null && mr_placement_draw(p, m, ndim, dim, 80, null, NULL) == MR_OK, "a picture");
}

static void check_placement(const char *text, const mr_mesh_t *m, int ndim) {
  mr_placement_t p, again;
  mr_diag_t diag = {0};
  char out[MR_PLACEMENT_TEXT], second[MR_PLACEMENT_TEXT];
  if (mr_placement_parse("x", text, m, ndim, &p, &diag) < 0) {
    fuzz_need(*diag.text, "a sentence");
    return;
  }
  mr_placement_text(&p, m, ndim, out);
  fuzz_need(mr_placement_parse("x", out, m, ndim, &again, NULL) == MR_OK, out);
  fuzz_need(!strcmp(mr_placement_text(&again, m, ndim, second), out), out);
  check_parts(&p, m, ndim);
}

static void check_rules(const char *text, const mr_mesh_t *m) {
  static mr_placement_rules_t r;
  static const char *const names[] = {"blocks.0.linear1.kernel", "head.bias"};
  const int64_t dim[2] = {8, 8};
  mr_placement_t p;
  mr_diag_t diag = {0};
  mr_err_t e = mr_placement_rules_parse(text, &r, &diag);
  if (e >= 0) e = mr_placement_rules_check(&r, names, 2, &diag);
  for (int i = 0; e >= 0 && i < 2; i++)
    e = mr_placement_rules_place(&r, m, names[i], 2 - i, dim, &p, &diag);
  fuzz_need(e >= 0 || *diag.text, "a sentence");
  mr_placement_rules_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr_mesh_t m, again;
  mr_diag_t diag = {0};
  char out[MR_MESH_TEXT];
  if (!n) return 0;
  char *text = malloc(n), *at = text;
  memcpy(text, data + 1, n - 1);
  text[n - 1] = 0;
  const char *mesh = strsep(&at, "\n"), *placement = strsep(&at, "\n");
  if (mr_mesh_parse(mesh, 0, &m, &diag) < 0) {
    fuzz_need(*diag.text, "a sentence");
  } else {
    int ranks = mr_mesh_ranks(&m);
    fuzz_need(m.n > 0 && ranks > 0 && ranks <= MR_MESH_RANKS, "a mesh with ranks");
    fuzz_need(mr_mesh_parse(mr_mesh_text(&m, out), ranks, &again, NULL) == MR_OK, out);
    fuzz_need((mr_mesh_parse(out, 7, &again, &diag) < 0) == (ranks != 7), "a sentence for others");
    if (placement) check_placement(placement, &m, *data % (MR_MAX_NDIM + 1));
    if (at) check_rules(at, &m);
  }
  free(text);
  return 0;
}
