/* Functions cut over a mesh: what the devices compute on their parts, joined, is what the function
   gives of whole arrays, and they send no more than they must.  A device here is an example of
   nested maps, one for each axis of the mesh, or a thread of pmap.

   MILLRACE_PROGRAMS=N takes N random programs instead of 150, MILLRACE_SEED=S begins at seed S. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/mesh/placement_rules.h"
#include "model/partition/partition.h"
#include "tests/model/random_program.h"

static mr_mesh_t mesh_of(const char *text) {
  mr_mesh_t m;
  mr_diag_t diag = {0};
  if (mr_mesh_parse(text, 0, &m, &diag) < 0) fail_msg("%s", diag.text);
  return m;
}

static mr_placement_t placed(const mr_mesh_t *mesh, int ndim, const char *text) {
  mr_placement_t p;
  mr_diag_t diag = {0};
  if (mr_placement_parse("placement", text, mesh, ndim, &p, &diag) < 0) fail_msg("%s", diag.text);
  return p;
}

static mr_aval_t aval_of_part(const mr_aval_t *a, const mr_mesh_t *mesh, const mr_placement_t *p) {
  mr_aval_t part = *a;
  for (int d = 0; d < a->ndim; d++) part.dim[d] /= mr_placement_parts(p, mesh, d);
  return part;
}

/* The place of device r along those axes together. */
static int64_t place_along(const mr_mesh_t *mesh, uint8_t axes, int r) {
  int place[MR_MESH_AXES];
  int64_t at = 0;
  mr_mesh_place(mesh, r, place);
  for (int a = 0; a < mesh->n; a++)
    if (axes >> a & 1) at = at * mesh->size[a] + place[a];
  return at;
}

/* Where element i of device r's part of a lies in a. */
static int64_t place_in_whole(const mr_aval_t *a, const mr_mesh_t *mesh, const mr_placement_t *p,
                              int r, int64_t i) {
  mr_aval_t part = aval_of_part(a, mesh, p);
  int64_t at = 0, stride = 1;
  for (int d = a->ndim - 1; d >= 0; d--) {
    int64_t k = i % part.dim[d], outer = p->outer[d] > 1 ? p->outer[d] : 1;
    int64_t own = part.dim[d] / outer, parts = mr_placement_parts(p, mesh, d);
    i /= part.dim[d];
    at += ((k / own * parts + place_along(mesh, p->axes[d], r)) * own + k % own) * stride;
    stride *= a->dim[d];
  }
  return at;
}

static int64_t elems_of_part(const mr_var_t *v, const mr_mesh_t *mesh, const mr_placement_t *p) {
  mr_aval_t part = aval_of_part(&v->aval, mesh, p);
  return mr_aval_elems(&part);
}

/* Every device's part of v's value x, one after the other. */
static double *cut(const mr_var_t *v, const double *x, const mr_mesh_t *mesh,
                   const mr_placement_t *p) {
  int64_t n = elems_of_part(v, mesh, p);
  double *parts = doubles(n * mr_mesh_ranks(mesh) + 1);
  for (int r = 0; r < mr_mesh_ranks(mesh); r++)
    for (int64_t i = 0; i < n; i++) parts[r * n + i] = x[place_in_whole(&v->aval, mesh, p, r, i)];
  return parts;
}

/* Whole values from the parts; devices that hold the same element must agree to the bit. */
static double *joined(const char *what, const mr_var_t *v, const double *parts,
                      const mr_mesh_t *mesh, const mr_placement_t *p) {
  int64_t n = elems_of_part(v, mesh, p), all = elems(v);
  double *x = doubles(all + 1);
  bool *seen = calloc((size_t)all + 1, 1);
  for (int r = 0; r < mr_mesh_ranks(mesh); r++)
    for (int64_t i = 0; i < n; i++) {
      int64_t at = place_in_whole(&v->aval, mesh, p, r, i);
      double y = parts[r * n + i];
      if (seen[at] && memcmp(&x[at], &y, sizeof y) && !(isnan(x[at]) && isnan(y)))
        fail_msg("%s: device %d has %.17g where another has %.17g", what, r, y, x[at]);
      x[at] = y, seen[at] = true;
    }
  for (int64_t i = 0; i < all; i++) assert_true(seen[i]);
  free(seen);
  return x;
}

/* The local function over all devices: mapped over the last axis first. */
static mr_fn_t *over_mesh(const char *what, const mr_fn_t *local, const mr_mesh_t *mesh) {
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_copy(local, &diag);
  for (int a = mesh->n - 1; a >= 0; a--) {
    mr_fn_t *m = NULL;
    if (mr_vmap_axis(f, mesh->name[a], mesh->size[a], NULL, NULL, &m, &diag) < 0)
      fail_msg("%s: %s\n%s", what, diag.text, mr_fn_text(local));
    mr_fn_destroy(f);
    f = m;
  }
  return f;
}

static mr_fn_t *partitioned(const char *what, const mr_fn_t *f, const mr_mesh_t *mesh,
                            const mr_placement_t *in, const mr_placement_t *out) {
  mr_fn_t *local = NULL;
  mr_diag_t diag = {0};
  if (mr_partition(f, mesh, in, out, &local, &diag) < 0)
    fail_msg("%s: %s\n%s", what, diag.text, mr_fn_text(f));
  return local;
}

/* f, cut as in[] says, gives what it gives whole. */
static void assert_cut_is_whole(const char *what, const mr_fn_t *f, const mr_mesh_t *mesh,
                                const mr_placement_t *in, const mr_placement_t *out,
                                double *const *x, double tolerance) {
  double *want[GRID_MAX], *parts[GRID_MAX], *got[GRID_MAX], *there[GRID_MAX];
  mr_fn_t *local = partitioned(what, f, mesh, in, out), *all = over_mesh(what, local, mesh);
  run_without(what, f, NULL, x, want);
  for (int i = 0; i < f->n_in; i++) parts[i] = cut(f->in[i], x[i], mesh, &in[i]);
  run_without(what, all, NULL, parts, there);
  for (int i = 0; i < f->n_out; i++) got[i] = joined(what, f->out[i], there[i], mesh, &out[i]);
  assert_near(what, f, got, want, tolerance);
  free_all(f->n_in, parts), free_all(f->n_out, want), free_all(f->n_out, got);
  free_all(f->n_out, there);
  mr_fn_destroy(local), mr_fn_destroy(all);
}

/* A random placement that fits v: each axis cuts a dimension that it divides, or none. */
static mr_placement_t random_placement(const mr_var_t *v, const mr_mesh_t *mesh) {
  mr_placement_t p = {.partial = 0};
  for (int a = 0; v->aval.ndim && a < mesh->n; a++) {
    mr_placement_t q = p;
    mr_diag_t unsaid = {0};
    int d = (int)under((uint32_t)v->aval.ndim);
    if (one_in(3) && !q.axes[d] && v->aval.dim[d] % 2 == 0) q.outer[d] = 2;
    q.axes[d] |= (uint8_t)(1 << a);
    if (!one_in(4) && mr_placement_fits("it", &q, mesh, v->aval.ndim, v->aval.dim, &unsaid) >= 0)
      p = q;
  }
  return p;
}

static void check_random_cuts(const char *what, const mr_fn_t *f, double *const *x, int turns) {
  static const char *const meshes[] = {"data=2,model=2", "data=2,model=3",
                                       "data=2,stage=1,model=2"};
  mr_fn_t *wide = NULL;
  mr_diag_t diag = {0};
  if (mr_in_f64(f, &wide, &diag) < 0) fail_msg("%s: %s", what, diag.text);
  for (int turn = 0; turn < turns; turn++) {
    mr_mesh_t mesh = mesh_of(meshes[under(3)]);
    mr_placement_t in[GRID_MAX], out[GRID_MAX];
    for (int i = 0; i < f->n_in; i++) in[i] = random_placement(wide->in[i], &mesh);
    for (int i = 0; i < f->n_out; i++) out[i] = random_placement(wide->out[i], &mesh);
    assert_cut_is_whole(what, wide, &mesh, in, out, x, 1e-7);
  }
  mr_fn_destroy(wide);
}

static void samples_of_all_ops_and_their_gradients_are_cut_and_joined(void **state) {
  for (int i = 0; i < mr_n_ops; i++) {
    cell_t c;
    for (int k = 0; cell_init(&c, mr_ops[i], k); k++) {
      check_random_cuts(c.name, c.f, c.in, 3);
      if (c.s && !c.forward_only && !c.reverse_only && c.n_wrt) {
        mr_fn_t *g = NULL;
        mr_diag_t diag = {0};
        char name[128];
        snprintf(name, sizeof name, "gradient of %s", c.name);
        if (mr_value_and_grad(c.s, c.n_wrt, c.wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
        check_random_cuts(name, g, c.in, 3);
        mr_fn_destroy(g);
      }
      cell_fini(&c);
    }
  }
}

static void random_programs_are_cut_and_joined(void **state) {
  const char *n = getenv("MILLRACE_PROGRAMS"), *first = getenv("MILLRACE_SEED");
  uint32_t from = first ? (uint32_t)strtoul(first, NULL, 10) : 0;
  uint32_t programs = n ? (uint32_t)strtoul(n, NULL, 10) : 150;
  for (uint32_t seed = from; seed < from + programs; seed++) {
    bool narrow;
    func_t q = random_program(seed, false, &narrow);
    if (!narrow) check_random_cuts(q.name, q.f, q.in, 2);
    func_fini(&q);
  }
}

/* ---- Megatron's layer: columns, then rows ---- */
enum { X, W1, B1, W2, B2, LAYER_IN };

static mr_fn_t *layer(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 16));
  mr_var_t *w1 = mr_fn_input(f, mr_aval_of(MR_F32, 16, 32));
  mr_var_t *b1 = mr_fn_input(f, mr_aval_of(MR_F32, 32));
  mr_var_t *w2 = mr_fn_input(f, mr_aval_of(MR_F32, 32, 16));
  mr_var_t *b2 = mr_fn_input(f, mr_aval_of(MR_F32, 16));
  mr_var_t *y = mr_lax_dot(f, x, w1);
  y = mr_lax_add(f, y, mr_lax_broadcast_in_dim(f, b1, 2, y->aval.dim, (int[]){1}));
  y = mr_lax_dot(f, mr_lax_gelu(f, y, MR_GELU_TANH), w2);
  y = mr_lax_add(f, y, mr_lax_broadcast_in_dim(f, b2, 2, y->aval.dim, (int[]){1}));
  y = mr_lax_add(f, x, y);
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void place_layer(const mr_mesh_t *mesh, mr_placement_t *in) {
  in[X] = placed(mesh, 2, "(data,None)");
  in[W1] = placed(mesh, 2, "(None,model)"), in[B1] = placed(mesh, 1, "(model)");
  in[W2] = placed(mesh, 2, "(model,None)"), in[B2] = placed(mesh, 1, "(None)");
}

static void fill(const mr_fn_t *f, double **x) {
  for (int i = 0; i < f->n_in; i++) x[i] = values(f->in[i], -1, 1);
}

static int count_over(const mr_fn_t *f, const char *op, const char *axis) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++)
    n += !strcmp(f->eqn[i]->op->name, op) &&
         !strcmp(mr_attr_get(f->eqn[i], "axis_name")->text, axis);
  return n;
}

static void a_layer_of_columns_and_rows_sums_once_over_the_model(void **state) {
  mr_fn_t *f = layer();
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_placement_t in[LAYER_IN], out = placed(&mesh, 2, "(data,None)");
  place_layer(&mesh, in);
  mr_fn_t *local = partitioned("layer", f, &mesh, in, &out);
  double *x[LAYER_IN];
  fill(f, x);
  assert_int_equal(count_over(local, "psum", "model"), 1);
  assert_int_equal(count(local, "psum"), 1);
  assert_int_equal(count(local, "all_gather"), 0);
  assert_int_equal(count(local, "take"), 0);
  assert_cut_is_whole("layer", f, &mesh, in, &out, x, 1e-5);
  for (int i = 0; i < local->n_eqn; i++)
    if (!strcmp(local->eqn[i]->op->name, "psum")) {
      assert_string_equal(local->eqn[i]->by, "partition");
      assert_string_equal(local->eqn[i]->of->name, "add");
    }
  free_all(LAYER_IN, x);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

/* The gradients lie as their parameters do: each is summed over the data, and x's over the model.
 */
static void gradients_of_a_layer_lie_as_its_parameters_do(void **state) {
  mr_fn_t *f = layer(), *s = mr_fn_create(), *g = NULL;
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_diag_t diag = {0};
  mr_var_t *y;
  double *x[LAYER_IN];
  mr_placement_t in[LAYER_IN], out[LAYER_IN + 1] = {{.partial = 0}};
  place_layer(&mesh, in);
  for (int i = 0; i < LAYER_IN; i++) mr_fn_input(s, f->in[i]->aval), out[i + 1] = in[i];
  mr_inline(s, f, s->in, &y);
  y = mr_lax_reduce_sum(s, mr_lax_mul(s, y, y), 2, (int[]){0, 1});
  mr_fn_return(s, 1, &y);
  assert_int_equal(mr_value_and_grad(s, LAYER_IN, (int[]){X, W1, B1, W2, B2}, &g, &diag), MR_OK);
  fill(g, x);
  mr_fn_t *local = partitioned("gradients", g, &mesh, in, out);
  assert_int_equal(count_over(local, "psum", "data"), 5);  /* loss and four parameters */
  assert_int_equal(count_over(local, "psum", "model"), 2); /* forward, backward */
  assert_int_equal(count(local, "all_gather"), 0);
  assert_cut_is_whole("gradients", g, &mesh, in, out, x, 1e-4);
  free_all(LAYER_IN, x);
  mr_fn_destroy(f), mr_fn_destroy(s), mr_fn_destroy(g), mr_fn_destroy(local);
}

/* ZeRO's third stage: a parameter that is cut along the data is gathered where it is read. */
static void a_parameter_cut_along_the_data_is_gathered(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 64, 16));
  mr_var_t *y = mr_lax_dot(f, x, mr_fn_input(f, mr_aval_of(MR_F32, 16, 8)));
  mr_fn_return(f, 1, &y);
  const mr_placement_t rows = placed(&mesh, 2, "(data,None)"), in[] = {rows, rows};
  mr_fn_t *local = partitioned("zero", f, &mesh, in, &rows);
  assert_int_equal(count_over(local, "all_gather", "data"), 1);
  assert_int_equal(count(local, "psum"), 0);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

/* Terms of two sums along one axis are added before they are summed. */
static void terms_are_added_before_they_are_summed(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_placement_t in[4], out = placed(&mesh, 2, "(data,None)");
  mr_var_t *x[4];
  for (int i = 0; i < 4; i++) {
    x[i] = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8));
    in[i] = placed(&mesh, 2, i % 2 ? "(model,None)" : "(data,model)");
  }
  mr_var_t *y = mr_lax_sub(f, mr_lax_dot(f, x[0], x[1]), mr_lax_neg(f, mr_lax_dot(f, x[2], x[3])));
  y = mr_lax_tanh(f, mr_lax_reshape_to(f, mr_lax_transpose(f, y, (int[]){1, 0}), 8, 8));
  y = mr_lax_transpose(f, y, (int[]){1, 0});
  mr_fn_return(f, 1, &y);
  double *v[4];
  fill(f, v);
  mr_fn_t *local = partitioned("terms", f, &mesh, in, &out);
  assert_int_equal(count_over(local, "psum", "model"), 1);
  assert_int_equal(count(local, "psum") + count(local, "all_gather"), 1);
  assert_cut_is_whole("terms", f, &mesh, in, &out, v, 1e-5);
  free_all(4, v);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

/* Heads of q, k and v side by side: a cut of the heads stays one when the three are one matrix. */
static void heads_stay_cut_within_three_blocks(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 6));
  mr_var_t *w = mr_lax_reshape_to(f, mr_fn_input(f, mr_aval_of(MR_F32, 6, 3, 4)), 6, 12);
  mr_var_t *y = mr_lax_reshape_to(f, mr_lax_dot(f, x, w), 8, 3, 4);
  y = mr_lax_reduce_sum(f, mr_lax_exp(f, y), 1, (int[]){1});
  mr_fn_return(f, 1, &y);
  const mr_placement_t in[] = {placed(&mesh, 2, "(data,None)"),
                               placed(&mesh, 3, "(None,None,model)")};
  const mr_placement_t out = placed(&mesh, 2, "(data,model)");
  double *v[2];
  fill(f, v);
  mr_fn_t *local = partitioned("heads", f, &mesh, in, &out);
  assert_int_equal(count(local, "psum") + count(local, "all_gather") + count(local, "take"), 0);
  assert_cut_is_whole("heads", f, &mesh, in, &out, v, 1e-5);
  free_all(2, v);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

/* The same where the three are blocks of one dimension already. */
static void blocks_of_a_dimension_are_cut_each_by_itself(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 6));
  mr_var_t *y = mr_lax_dot(f, x, mr_fn_input(f, mr_aval_of(MR_F32, 6, 12)));
  y = mr_lax_reshape_to(f, y, 8, 3, 4);
  mr_fn_return(f, 1, &y);
  mr_placement_t in[] = {placed(&mesh, 2, "P()"), placed(&mesh, 2, "(None,model)")};
  const mr_placement_t out = placed(&mesh, 3, "(None,None,model)");
  double *v[2];
  in[1].outer[1] = 3;
  fill(f, v);
  mr_fn_t *local = partitioned("blocks", f, &mesh, in, &out);
  assert_int_equal(count(local, "psum") + count(local, "all_gather") + count(local, "take"), 0);
  assert_cut_is_whole("blocks", f, &mesh, in, &out, v, 1e-5);
  free_all(2, v);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

/* A broadcast that parts are added to is never there whole. */
static void a_broadcast_is_written_for_the_part_alone(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 64, 64));
  mr_var_t *y = mr_lax_add(f, mr_lax_full(f, &x->aval, 3), x);
  mr_fn_return(f, 1, &y);
  const mr_placement_t p = placed(&mesh, 2, "(data,model)");
  mr_fn_t *local = partitioned("broadcast", f, &mesh, &p, &p);
  for (int i = 0; i < local->n_eqn; i++) assert_true(elems(local->eqn[i]->out[0]) <= 32 * 32);
  assert_int_equal(count(local, "take"), 0);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

static void threads_of_pmap_compute_the_parts(void **state) {
  mr_mesh_t mesh = mesh_of("data=4");
  mr_fn_t *f = layer();
  mr_placement_t in[LAYER_IN], out = placed(&mesh, 2, "(None,data)");
  for (int i = 0; i < LAYER_IN; i++) in[i] = placed(&mesh, f->in[i]->aval.ndim, "P()");
  in[X] = in[W1] = placed(&mesh, 2, "(data,None)");
  mr_fn_t *local = partitioned("pmap", f, &mesh, in, &out);
  double *x[LAYER_IN], *parts[LAYER_IN], *want[1], *got;
  mr_pmapped_t *p = NULL;
  mr_diag_t diag = {0};
  float *a[LAYER_IN], *y = grid_bytes(8 * 16 * sizeof *y);
  fill(f, x);
  run_as_it_is(f, x, want);
  if (mr_pmap(local, "data", 4, NULL, &p, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < LAYER_IN; i++) {
    int64_t n = 4 * elems(local->in[i]);
    parts[i] = cut(f->in[i], x[i], &mesh, &in[i]);
    a[i] = grid_bytes((size_t)n * sizeof(float));
    for (int64_t k = 0; k < n; k++) a[i][k] = (float)parts[i][k];
  }
  mr_pmap_run(p, (const void *const *)a, (void *const *)&y);
  double *there = doubles(8 * 16);
  for (int k = 0; k < 8 * 16; k++) there[k] = y[k];
  got = joined("pmap", f->out[0], there, &mesh, &out);
  assert_near("pmap", f, &got, want, 1e-5);
  free_all(LAYER_IN, x), free_all(LAYER_IN, parts), free_all(1, want), free(got), free(there);
  for (int i = 0; i < LAYER_IN; i++) free(a[i]);
  free(y);
  mr_pmap_destroy(p);
  mr_fn_destroy(f), mr_fn_destroy(local);
}

/* Rows, columns and heads of dropouts draw what the whole draws, forward and backward; blocks of
   a dimension that are cut each by itself are gathered. */
static void a_dropout_draws_for_the_elements_of_its_part_alone(void **state) {
  static const struct {
    const char *mesh, *at;
    int ndim;
    int64_t dim[4];
    bool gathers;
  } cases[] = {
      {"data=2,model=2", "(data,None)", 2, {4, 6}, false},
      {"data=2,model=2", "(None,model)", 2, {3, 8}, false},
      {"data=2,model=2", "(data,model)", 2, {6, 4}, false},
      {"data=2,model=2", "((data,model),None)", 2, {8, 3}, false},
      {"data=2,model=2", "(data,None,None,model)", 4, {2, 3, 2, 4}, false},
      {"data=2,model=2", "(data,model,None,None)", 4, {4, 4, 3, 2}, false},
      {"data=3,model=2", "(None,data,None)", 3, {2, 6, 5}, false},
      {"data=2,model=2", "(None,data,model)", 3, {2, 4, 6}, true},
      {"data=2,model=2", "(3*model,None)", 2, {12, 2}, true},
      {"data=2,model=2", "(data,None)", 2, {0, 4}, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_mesh_t mesh = mesh_of(cases[i].mesh);
    mr_placement_t at = placed(&mesh, cases[i].ndim, cases[i].at);
    const mr_placement_t in[] = {at, {.partial = 0}, {.partial = 0}, at};
    mr_fn_t *f = mr_fn_create(), *g = NULL;
    mr_diag_t diag = {0};
    mr_aval_t a = {.dtype = MR_F32, .ndim = cases[i].ndim};
    double *x[4];
    memcpy(a.dim, cases[i].dim, sizeof cases[i].dim);
    mr_var_t *v[] = {mr_fn_input(f, a), mr_fn_input(f, mr_aval_scalar(MR_U64)),
                     mr_fn_input(f, mr_aval_scalar(MR_U32))};
    mr_var_t *y = mr_lax_dropout_from(f, mr_lax_sin(f, v[0]), 0.4f, 3, i % 2 ? 24 : 0, v[1], v[2]);
    mr_fn_return(f, 1, &y);
    if (mr_vjp(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
    for (int k = 0; k < 4; k++) x[k] = values(g->in[k], k % 3 ? 7 : -1, k % 3 ? 8 : 1);
    for (int back = 0; back < 2; back++) {
      const mr_fn_t *whole = back ? g : f;
      mr_fn_t *local = partitioned(cases[i].at, whole, &mesh, in, &at);
      assert_int_equal(count(local, "all_gather") > 0, cases[i].gathers);
      assert_int_equal(count(local, "dropout_part"), !cases[i].gathers);
      assert_cut_is_whole(cases[i].at, whole, &mesh, in, &at, x, 1e-6);
      mr_fn_destroy(local);
    }
    free_all(4, x);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

/* ---- a whole model ---- */
/* Megatron's table for flax's ViT: heads and the first linear layer by columns, what reads them by
   rows. */
#define MEGATRON                                                                        \
  "*.query.kernel=(None,model,None),*.key.kernel=(None,model,None),"                    \
  "*.value.kernel=(None,model,None),*.query.bias=(model,None),*.key.bias=(model,None)," \
  "*.value.bias=(model,None),*.out.kernel=(model,None,None),"                           \
  "*.linear1.kernel=(None,model),*.linear1.bias=(model),*.linear2.kernel=(model,None)"

/* The loss of a ViT of two blocks and its gradients by all parameters, which are listed in p. */
static mr_fn_t *vit_gradients(mr_params_t *p, int *n_data) {
  static mr_vit_config_t c;
  mr_diag_t diag = {0};
  int wrt[GRID_MAX];
  c = mr_vit_default();
  c.image = 8, c.embed = 16, c.mlp = 32, c.heads = 4, c.layers = 2, c.classes = 6;
  mr_loss_t l = mr_vit_loss(&c);
  const mr_compute_t f32 = {.dtype = MR_F32};
  const mr_loss_use_t use = {.batch = 8, .train = true};
  mr_fn_t *f = mr_loss_fn(&l, &f32, &use, p, &diag), *loss, *g = NULL;
  if (!f) fail_msg("%s", diag.text);
  *n_data = mr_loss_n_data(&l);
  loss = mr_fn_copy(f, &diag);
  mr_fn_return(loss, 1, (mr_var_t *[]){loss->out[0]});
  for (int i = 0; i < p->n; i++) wrt[i] = *n_data + i;
  if (mr_value_and_grad(loss, p->n, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f), mr_fn_destroy(loss);
  return g;
}

/* Forward each block sums twice over the model, where Megatron has its g, and backward twice, its
   f; the embeddings, the head and the norms are whole there. */
static void a_vit_is_cut_by_data_and_by_megatrons_table(void **state) {
  mr_params_t p = {0};
  mr_placement_t in[GRID_MAX] = {{.partial = 0}}, out[GRID_MAX] = {{.partial = 0}};
  mr_placement_rules_t rules = {0};
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_diag_t diag = {0};
  double *x[GRID_MAX];
  int n_data;
  mr_fn_t *g = vit_gradients(&p, &n_data);
  assert_int_equal(mr_placement_rules_parse(MEGATRON, &rules, &diag), MR_OK);
  for (int i = 0; i < g->n_in; i++) x[i] = values(g->in[i], i < 2 ? 0 : -0.5, i < 2 ? 5 : 0.5);
  in[0] = placed(&mesh, g->in[0]->aval.ndim, "P('data')");
  in[1] = placed(&mesh, g->in[1]->aval.ndim, "P('data')");
  for (int i = 0; i < p.n; i++) {
    const mr_param_t *q = &p.param[i];
    if (mr_placement_rules_place(&rules, &mesh, q->name, q->aval.ndim, q->aval.dim, &in[n_data + i],
                                 &diag) < 0)
      fail_msg("%s", diag.text);
    out[1 + i] = in[n_data + i];
  }
  mr_fn_t *local = partitioned("vit", g, &mesh, in, out);
  assert_int_equal(count_over(local, "psum", "model"), 2 * (2 + 2));
  assert_true(count_over(local, "psum", "data") <= 1 + p.n);
  for (int i = 0; i < local->n_eqn; i++) /* dropout draws for a device's own elements */
    assert_string_not_equal(local->eqn[i]->op->name, "all_gather");
  assert_cut_is_whole("vit", g, &mesh, in, out, x, 2e-5);
  free_all(g->n_in, x);
  mr_fn_destroy(g), mr_fn_destroy(local);
  mr_placement_rules_fini(&rules);
  mr_params_fini(&p);
}

/* ---- bad input ---- */
static void assert_refused(mr_placement_t in, mr_placement_t out, const char *want) {
  mr_mesh_t mesh = mesh_of("data=4,model=2");
  mr_fn_t *f = mr_fn_create(), *local = NULL;
  mr_diag_t diag = {0};
  mr_var_t *y = mr_lax_sin(f, mr_fn_input(f, mr_aval_of(MR_F32, 10, 4)));
  mr_fn_return(f, 1, &y);
  assert_int_equal(mr_partition(f, &mesh, &in, &out, &local, &diag), MR_ERR_SHAPE);
  if (!strstr(diag.text, want)) fail_msg("%s, want %s", diag.text, want);
  assert_null(local);
  mr_fn_destroy(f);
}

static void placements_that_do_not_fit_are_refused_with_what_lies_so(void **state) {
  mr_mesh_t mesh = mesh_of("data=4,model=2");
  const mr_placement_t whole = {.partial = 0}, columns = placed(&mesh, 2, "(None,model)");
  assert_refused(placed(&mesh, 2, "(data,None)"), whole, "input 0");
  assert_refused(columns, placed(&mesh, 2, "(None,(data,model))"), "result 0");
  assert_refused(placed(&mesh, 3, "(None,None,data)"), whole,
                 "input 0 has 2 dimensions, but its placement cuts the one with the number 2");
  assert_refused(whole, (mr_placement_t){.partial = 1},
                 "result 0 is placed as terms of a sum, want it summed");
}

static void a_function_that_communicates_is_refused(void **state) {
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_fn_t *f = mr_fn_create(), *local = NULL;
  mr_diag_t diag = {0};
  mr_var_t *y = mr_lax_psum(f, mr_fn_input(f, mr_aval_of(MR_F32, 2)), "data");
  mr_fn_return(f, 1, &y);
  assert_int_equal(mr_partition(f, &mesh, NULL, NULL, &local, &diag), MR_ERR_NORULE);
  assert_string_equal(diag.text, "psum has no shard rule");
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_layer_of_columns_and_rows_sums_once_over_the_model),
      cmocka_unit_test(gradients_of_a_layer_lie_as_its_parameters_do),
      cmocka_unit_test(a_parameter_cut_along_the_data_is_gathered),
      cmocka_unit_test(terms_are_added_before_they_are_summed),
      cmocka_unit_test(heads_stay_cut_within_three_blocks),
      cmocka_unit_test(blocks_of_a_dimension_are_cut_each_by_itself),
      cmocka_unit_test(a_broadcast_is_written_for_the_part_alone),
      cmocka_unit_test(threads_of_pmap_compute_the_parts),
      cmocka_unit_test(a_dropout_draws_for_the_elements_of_its_part_alone),
      cmocka_unit_test(a_vit_is_cut_by_data_and_by_megatrons_table),
      cmocka_unit_test(placements_that_do_not_fit_are_refused_with_what_lies_so),
      cmocka_unit_test(a_function_that_communicates_is_refused),
      cmocka_unit_test(samples_of_all_ops_and_their_gradients_are_cut_and_joined),
      cmocka_unit_test(random_programs_are_cut_and_joined),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
