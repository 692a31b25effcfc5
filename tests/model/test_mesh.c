/* Functions on a mesh of named axes: jax's own program of collectives gives jax's values, random
   programs give those of a plain loop over all ranks and those of one rank that maps all others,
   and arrays change how they lie. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <pthread.h>

#include "model/mesh/placement_copy.h"
#include "model/model.h"
#include "tests/random.h"

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

static mr_shard_mapped_t *mapped(const mr_fn_t *f, const mr_mesh_t *mesh, const mr_placement_t *in,
                                 const mr_placement_t *out) {
  mr_shard_mapped_t *m = NULL;
  mr_diag_t diag = {0};
  if (mr_shard_map(f, mesh, in, out, NULL, &m, &diag) < 0) fail_msg("%s", diag.text);
  return m;
}

static mr_fn_t *done(mr_fn_t *f, mr_var_t *y) {
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

/* ---- what jax gives ---- */

/* The function inside of shard_map as jax 0.10.2 prints it. */
static const char program[] =
    "{ lambda ; a:f32[8,2]. let\n"
    "    b:f32[8,2] = psum[axes=('i',) axis_index_groups=None] a\n"
    "    c:f32[8,2] = pmax[axes=('j',) axis_index_groups=None] b\n"
    "    d:f32[8,2] = ppermute[axis_name=('i',) perm=((0, 1), (1, 0))] c\n"
    "    e:f32[2,8,2] = all_gather[\n"
    "      all_gather_dimension=0\n"
    "      axis_index_groups=None\n"
    "      axis_name=('j',)\n"
    "      axis_size=2\n"
    "      tiled=False\n"
    "    ] d\n"
    "    f:f32[8,2] = reduce_scatter[\n"
    "      axis_index_groups=None\n"
    "      axis_name=('j',)\n"
    "      axis_size=2\n"
    "      scatter_dimension=0\n"
    "      tiled=False\n"
    "    ] e\n"
    "    g:f32[2,8] = reshape[dimensions=None new_sizes=(2, 8) sharding=None] f\n"
    "    h:f32[2,8] = all_to_all[\n"
    "      axis_index_groups=None\n"
    "      axis_name=i\n"
    "      concat_axis=0\n"
    "      split_axis=0\n"
    "      tiled=False\n"
    "    ] g\n"
    "    i:i32[] = axis_index[axis_name=j] \n"
    "    j:f32[] = convert_element_type[new_dtype=float32 weak_type=False] i\n"
    "    k:f32[2,8] = mul h j\n"
    "    l:f32[2,8] = pmin[axes=('i', 'j') axis_index_groups=None] k\n"
    "    m:f32[2,8] = add k l\n"
    "    n:f32[2,8] = psum[axes=('i',) axis_index_groups=None] k\n"
    "    o:f32[2,8] = div n 2.0:f32[]\n"
    "    p:f32[2,8] = add m o\n"
    "  in (p,) }\n";

static const float program_gives[4][16] = {
    {0, 0, 0, -1.25f, -0.75f, 0, 0, 0, 1.5f, 6.25f, 4.25f, -1.5f, -0.125f, 2.875f, 0.875f, 7.25f},
    {0, 0, 0, -1.25f, -0.75f, 0, 0, 0, 1.5f, 6.25f, 4.25f, -1.5f, -0.125f, 2.875f, 0.875f, 7.25f},
    {0, 0, 0, -1.25f, -0.75f, 0, 0, 0, 4.5f, 4.75f, 2.75f, -3.0f, 4.125f, 2.625f, 0.625f, 5.75f},
    {0, 0, 0, -1.25f, -0.75f, 0, 0, 0, 4.5f, 4.75f, 2.75f, -3.0f, 4.125f, 2.625f, 0.625f, 5.75f}};

static void draw_as_in_jax(float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = (float)(i * 7 % 23 - 11) / 8;
}

static void a_program_that_jax_prints_gives_jax_s_values_on_two_axes(void **state) {
  mr_mesh_t mesh = mesh_of("i=2,j=2");
  mr_placement_t at = placed(&mesh, 2, "(i,j)");
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  _Alignas(64) float x[64], y[64];
  if (mr_fn_parse(program, &f, &diag) < 0) fail_msg("%s", diag.text);
  mr_shard_mapped_t *m = mapped(f, &mesh, &at, &at);
  assert_int_equal(mr_shard_mapped_in(m, 0)->dim[0], 16);
  assert_int_equal(mr_shard_mapped_out(m, 0)->dim[1], 16);
  draw_as_in_jax(x, 64);
  for (int turn = 0; turn < 20; turn++) {
    memset(y, 0, sizeof y);
    mr_shard_mapped_run(m, (const void *[]){x}, (void *[]){y});
    assert_memory_equal(y, program_gives, sizeof y);
  }
  mr_shard_mapped_destroy(m);
  mr_fn_destroy(f);
}

/* sum(psum_scatter(all_gather(ppermute(sin(x), i) x, j), j) psum(x, i)) and its gradient. */
static void a_gradient_through_collectives_of_two_axes_is_jax_s(void **state) {
  static const float want[16] = {
      1.0350583791732788f,  -0.7308642864227295f, 2.068788528442383f,   -2.475327253341675f,
      -1.8234120607376099f, 7.623573303222656f,   -2.9141225814819336f, -1.4892627000808716f,
      7.623573303222656f,   -1.8234120607376099f, -2.475327253341675f,  2.068788528442383f,
      -0.7308642864227295f, 1.0350583791732788f,  -0.9827074408531189f, 1.8000316619873047f};
  mr_mesh_t mesh = mesh_of("i=2,j=2");
  mr_placement_t at = placed(&mesh, 2, "(i,j)");
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 2, 2));
  mr_var_t *c = mr_lax_ppermute(f, mr_lax_sin(f, v), "i", 2, (const int[][2]){{0, 1}, {1, 0}});
  mr_var_t *d = mr_lax_all_gather(f, mr_lax_mul(f, c, v), "j", 2);
  mr_var_t *e = mr_lax_mul(f, mr_lax_psum_scatter(f, d, "j"), mr_lax_psum(f, v, "i"));
  f = done(f, mr_lax_reduce_sum(f, e, 2, (int[]){0, 1}));
  if (mr_grad(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_shard_mapped_t *m = mapped(g, &mesh, &at, &at);
  _Alignas(64) float x[16], y[16];
  draw_as_in_jax(x, 16);
  mr_shard_mapped_run(m, (const void *[]){x}, (void *[]){y});
  for (int i = 0; i < 16; i++)
    if (!(fabsf(y[i] - want[i]) <= 2e-6f * (1 + fabsf(want[i]))))
      fail_msg("element %d is %.9g, jax gives %.9g", i, y[i], want[i]);
  mr_shard_mapped_destroy(m);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

/* ---- random programs of collectives ---- */

enum { STEPS = 12, WIDE = 12 /* divides by every axis */, RANKS = 12 };

typedef struct step {
  int what, axis, scale;
  int to[RANKS]; /* ppermute: where each place sends; -1: nowhere */
} step_t;

typedef struct random_program {
  mr_mesh_t mesh;
  int n;
  step_t step[STEPS];
} random_program_t;

enum { PSUM, PMAX, PMIN, GATHER, SCATTER, EXCHANGE, PERMUTE, INDEX, SCALE, KINDS };

static random_program_t draw_program(round_t *r) {
  static const char *const meshes[] = {"a=2,b=3", "a=3,b=2", "a=4", "a=2,b=2,c=3", "a=1,b=4"};
  random_program_t p = {.mesh = mesh_of(meshes[draw(r, 5)]), .n = 1 + draw(r, STEPS)};
  for (int k = 0; k < p.n; k++) {
    step_t *s = &p.step[k];
    *s = (step_t){.what = draw(r, KINDS), .axis = draw(r, p.mesh.n), .scale = draw(r, 9) - 4};
    int size = p.mesh.size[s->axis];
    bool used[RANKS] = {false};
    for (int i = 0; i < size; i++) {
      int to = one_in(r, 4) ? -1 : draw(r, size);
      s->to[i] = to < 0 || used[to] ? -1 : to;
      if (s->to[i] >= 0) used[to] = true;
    }
  }
  return p;
}

/* One step on x i32[WIDE] of every rank; each gives i32[WIDE] again. */
static mr_var_t *trace_step(mr_fn_t *f, const random_program_t *p, const step_t *s, mr_var_t *x) {
  const char *axis = p->mesh.name[s->axis];
  int64_t size = p->mesh.size[s->axis];
  int pairs[RANKS][2], n = 0;
  for (int i = 0; i < size; i++)
    if (s->to[i] >= 0) pairs[n][0] = i, pairs[n++][1] = s->to[i];
  switch (s->what) {
    case PSUM: return mr_lax_psum(f, x, axis);
    case PMAX: return mr_lax_pmax(f, x, axis);
    case PMIN: return mr_lax_pmin(f, x, axis);
    case GATHER: /* row 0's, plus all rows weighted by their number */
    {
      mr_var_t *all = mr_lax_all_gather(f, x, axis, size);
      mr_var_t *place = mr_lax_iota(f, MR_I32, 2, (int64_t[]){size, WIDE}, 0);
      return mr_lax_reduce_sum(f, mr_lax_mul(f, all, place), 1, (int[]){0});
    }
    case SCATTER: /* each place's part, repeated */
    {
      mr_var_t *part = mr_lax_psum_scatter(f, mr_lax_reshape_to(f, x, size, WIDE / size), axis);
      part = mr_lax_broadcast_in_dim(f, part, 2, (int64_t[]){size, WIDE / size}, (int[]){1});
      return mr_lax_reshape_to(f, part, WIDE);
    }
    case EXCHANGE:
      x = mr_lax_all_to_all(f, mr_lax_reshape_to(f, x, size, WIDE / size), axis);
      return mr_lax_reshape_to(f, x, WIDE);
    case PERMUTE: return mr_lax_ppermute(f, x, axis, n, (const int(*)[2])pairs);
    case INDEX: return mr_lax_add(f, x, mr_lax_axis_index(f, axis));
    default: return mr_lax_mul(f, x, mr_literal_whole(f, MR_I32, s->scale));
  }
}

static mr_fn_t *trace_program(const random_program_t *p) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_I32, WIDE));
  for (int k = 0; k < p->n; k++) x = trace_step(f, p, &p->step[k], x);
  return done(f, x);
}

/* The same step as a loop over all ranks, in 32 bits that wrap. */
static void plain_step(const random_program_t *p, const step_t *s, uint32_t (*x)[WIDE]) {
  static uint32_t old[RANKS][WIDE];
  int ranks = mr_mesh_ranks(&p->mesh), size = p->mesh.size[s->axis], part = WIDE / size;
  memcpy(old, x, sizeof old);
  for (int r = 0; r < ranks; r++) {
    int group[RANKS], own, n = mr_mesh_group(&p->mesh, s->axis, r, group, &own);
    for (int i = 0; i < WIDE; i++) {
      uint32_t v = s->what == PMAX || s->what == PMIN ? old[group[0]][i] : 0;
      for (int g = 0; g < n; g++) {
        uint32_t o = old[group[g]][i];
        if (s->what == PSUM) v += o;
        if (s->what == PMAX && (int32_t)o > (int32_t)v) v = o;
        if (s->what == PMIN && (int32_t)o < (int32_t)v) v = o;
        if (s->what == GATHER) v += o * (uint32_t)g;
        if (s->what == SCATTER) v += old[group[g]][own * part + i % part];
        if (s->what == EXCHANGE && i / part == g) v = old[group[g]][own * part + i % part];
        if (s->what == PERMUTE && s->to[g] == own) v = o;
      }
      if (s->what == INDEX) v = old[r][i] + (uint32_t)own;
      if (s->what == SCALE) v = old[r][i] * (uint32_t)s->scale;
      x[r][i] = v;
    }
  }
}

/* On one rank: each axis mapped by vmap, the last one first. */
static mr_fn_t *over_all_axes(const mr_fn_t *f, const mr_mesh_t *mesh) {
  mr_diag_t diag = {0};
  mr_fn_t *g = mr_fn_copy(f, &diag);
  for (int a = mesh->n - 1; a >= 0; a--) {
    mr_fn_t *m = NULL;
    if (mr_vmap_axis(g, mesh->name[a], mesh->size[a], NULL, NULL, &m, &diag) < 0)
      fail_msg("%s", diag.text);
    mr_fn_destroy(g);
    g = m;
  }
  return g;
}

/* The placement of [RANKS * WIDE] values, rank after rank. */
static mr_placement_t by_rank(const mr_mesh_t *mesh) {
  return (mr_placement_t){.axes = {(uint8_t)((1 << mesh->n) - 1)}};
}

static void random_programs_on_a_mesh_are_a_loop_and_one_rank_that_maps_all(void **state) {
  static _Alignas(64) int32_t x[RANKS][WIDE], got[RANKS][WIDE], one[RANKS][WIDE];
  static uint32_t want[RANKS][WIDE];
  round_t r = round_first(60);
  while (round_next(&r)) {
    random_program_t p = draw_program(&r);
    size_t bytes = (size_t)mr_mesh_ranks(&p.mesh) * sizeof x[0];
    mr_placement_t at = by_rank(&p.mesh);
    mr_fn_t *f = trace_program(&p), *all = over_all_axes(f, &p.mesh);
    mr_exec_t *e = NULL;
    mr_diag_t diag = {0};
    for (int i = 0; i < RANKS * WIDE; i++) x[i / WIDE][i % WIDE] = draw(&r, 2001) - 1000;
    memcpy(want, x, sizeof want);
    for (int k = 0; k < p.n; k++) plain_step(&p, &p.step[k], want);
    mr_shard_mapped_t *m = mapped(f, &p.mesh, &at, &at);
    mr_shard_mapped_run(m, (const void *[]){x}, (void *[]){got});
    round_check(&r, !memcmp(got, want, bytes), "ranks as threads and the loop");
    if (mr_compile(all, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
    mr_exec_run(e, (const void *[]){x}, (void *[]){one});
    round_check(&r, !memcmp(one, want, bytes), "one rank that maps all axes and the loop");
    mr_exec_destroy(e);
    mr_shard_mapped_destroy(m);
    mr_fn_destroy(f), mr_fn_destroy(all);
  }
}

/* ---- how arrays lie ---- */

typedef struct reshard {
  mr_mesh_t mesh;
  mr_aval_t whole;
  mr_placement_t from, to;
  int rank;
  const float *parts; /* of all ranks in `from` */
  float got[64];
  size_t n; /* elements of got */
  mr_err_t code;
  mr_diag_t diag;
} reshard_t;

static void *reshard_rank(void *arg) {
  reshard_t *s = arg;
  mr_mesh_comm_t *comm = NULL;
  mr_array_t *part = NULL, *out = NULL;
  mr_aval_t a = s->whole;
  for (int d = 0; d < a.ndim; d++) a.dim[d] /= mr_placement_parts(&s->from, &s->mesh, d);
  const float *own = s->parts + s->rank * mr_aval_elems(&a);
  s->code = mr_mesh_comm_create(&mr_collect_threads, mr_device_default(), &s->mesh, "reshard",
                                s->rank, 600, &comm, &s->diag);
  if (s->code >= 0) part = mr_array_of(a, own, &s->diag);
  if (part)
    s->code = mr_array_reshard(comm, &s->mesh, &s->whole, part, &s->from, &s->to, &out, &s->diag);
  if (out) {
    s->n = (size_t)mr_aval_elems(mr_array_aval(out));
    s->code = mr_array_read(out, s->got, &s->diag);
  }
  mr_array_drop(part), mr_array_drop(out);
  mr_mesh_comm_destroy(comm);
  return NULL;
}

/* A whole array of 8 by 6 with the values 0 to 47, or terms whose sum it is. */
static void check_reshard(const char *mesh_text, const char *from, const char *to) {
  static float whole[48], parts[8][48];
  mr_mesh_t mesh = mesh_of(mesh_text);
  mr_placement_t a = placed(&mesh, 2, from), b = placed(&mesh, 2, to), lies = a;
  int ranks = mr_mesh_ranks(&mesh);
  const int64_t dim[] = {8, 6};
  reshard_t s[8];
  pthread_t thread[8];
  lies.partial = 0;
  int64_t n = 48 / mr_placement_parts(&a, &mesh, 0) / mr_placement_parts(&a, &mesh, 1);
  for (int r = 0; r < ranks; r++) {
    int at[MR_MESH_AXES], terms = 1, term = 0;
    mr_mesh_place(&mesh, r, at);
    for (int x = 0; x < mesh.n; x++)
      if (a.partial >> x & 1) term = term * mesh.size[x] + at[x], terms *= mesh.size[x];
    for (int i = 0; i < 48; i++) /* the first term has what the others do not make up */
      whole[i] = (float)(term ? 3 * i + term : i - (terms - 1) * 3 * i - terms * (terms - 1) / 2);
    mr_placement_cut(&lies, &mesh, 2, dim, sizeof(float), r, whole, &parts[0][0] + r * n);
  }
  for (int r = 0; r < ranks; r++) {
    s[r] = (reshard_t){.mesh = mesh,
                       .whole = mr_aval_of(MR_F32, 8, 6),
                       .from = a,
                       .to = b,
                       .rank = r,
                       .parts = &parts[0][0]};
    assert_int_equal(pthread_create(&thread[r], NULL, reshard_rank, &s[r]), 0);
  }
  for (int r = 0; r < ranks; r++) pthread_join(thread[r], NULL);
  for (int i = 0; i < 48; i++) whole[i] = (float)i;
  for (int r = 0; r < ranks; r++) {
    float want[48];
    mr_placement_cut(&b, &mesh, 2, dim, sizeof(float), r, whole, want);
    if (s[r].code < 0) fail_msg("%s to %s: %s", from, to, s[r].diag.text);
    if (memcmp(s[r].got, want, s[r].n * sizeof(float)))
      fail_msg("%s: %s to %s: rank %d has another part", mesh_text, from, to, r);
  }
}

static void an_array_changes_how_it_lies_between_all_ranks(void **state) {
  static const char *const from[] = {"(None,None)", "(a,None)", "(a,b)",    "((a,b),None)",
                                     "(None,b)",    "[P,B]",    "[P,S(1)]", "[P,P]"};
  static const char *const to[] = {"(None,None)",  "(a,None)", "(a,b)",
                                   "((a,b),None)", "(b,None)", "(None,a)"};
  for (size_t i = 0; i < sizeof from / sizeof *from; i++)
    for (size_t k = 0; k < sizeof to / sizeof *to; k++) check_reshard("a=2,b=2", from[i], to[k]);
  check_reshard("a=4,b=2", "((a,b),None)", "(a,b)");
  check_reshard("a=4,b=2", "[P,S(0)]", "(None,b)");
}

static void placements_that_a_function_cannot_have_are_refused_by_a_sentence(void **state) {
  mr_mesh_t mesh = mesh_of("a=2,b=2");
  mr_placement_t sum = placed(&mesh, 1, "[P,B]"), twice = {.axes = {1, 1}}, past = {.axes = {0, 2}};
  mr_fn_t *f = mr_fn_create();
  mr_shard_mapped_t *m = NULL;
  f = done(f, mr_lax_psum(f, mr_fn_input(f, mr_aval_of(MR_F32, 4)), "a"));
  mr_diag_t diag = {0};
  assert_int_equal(mr_shard_map(f, &mesh, &sum, NULL, NULL, &m, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "input 0: its placement says terms of a sum"));
  diag = (mr_diag_t){0};
  assert_int_equal(mr_shard_map(f, &mesh, NULL, &sum, NULL, &m, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "result 0"));
  diag = (mr_diag_t){0};
  assert_int_equal(mr_shard_map(f, &mesh, &twice, NULL, NULL, &m, &diag), MR_ERR_SHAPE);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_shard_map(f, &mesh, &past, NULL, NULL, &m, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "dimension 1"));
  mr_mesh_t other = mesh_of("c=2,b=2");
  diag = (mr_diag_t){0};
  assert_int_equal(mr_shard_map(f, &other, NULL, NULL, NULL, &m, &diag), MR_ERR_NORULE);
  assert_non_null(strstr(diag.text, "\"a\""));
  mr_fn_destroy(f);
}

/* Only the last rank skips a collective: those that share an axis with it wait, and it is named by
   its number on the mesh. */
static void a_rank_of_the_mesh_that_does_not_come_is_named(void **state) {
  mr_mesh_t mesh = mesh_of("a=2,b=2");
  mr_placement_t at = by_rank(&mesh);
  mr_fn_t *sums = mr_fn_create(), *same = mr_fn_create(), *f = mr_fn_create();
  sums = done(sums, mr_lax_psum(sums, mr_fn_input(sums, mr_aval_of(MR_F32, 1)), "b"));
  same = done(same, mr_fn_input(same, mr_aval_of(MR_F32, 1)));
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 1));
  mr_var_t *comes = mr_lax_reshape(f, mr_lax_lt(f, v, mr_lax_full(f, &v->aval, 4)), 0, NULL);
  if (mr_lax_cond(f, comes, sums, same, &v, &v) < 0) fail_msg("%s", f->diag.text);
  f = done(f, v);
  mr_shard_mapped_t *m = NULL;
  mr_diag_t diag = {0};
  if (mr_shard_map(f, &mesh, &at, &at, &(mr_pmap_options_t){.limit_s = 0.01}, &m, &diag) < 0)
    fail_msg("%s", diag.text);
  _Alignas(64) float x[4] = {1, 2, 3, 4}, y[4];
  int missing = -2;
  mr_shard_mapped_run(m, (const void *[]){x}, (void *[]){y});
  assert_int_equal(mr_shard_mapped_failed(m, &missing, &diag), MR_ERR_UNAVAILABLE);
  assert_int_equal(missing, 3);
  assert_true(isnan(y[2]) && y[3] == 4);
  mr_shard_mapped_destroy(m);
  mr_fn_destroy(f), mr_fn_destroy(sums), mr_fn_destroy(same);
}

/* ---- mr_lax_shard ---- */

static int count(const mr_fn_t *f, const char *op) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) n += !strcmp(f->eqn[i]->op->name, op);
  return n;
}

/* tanh(x) with x whole, which each rank computes for its rows alone where a constraint cuts it, as
   it does the gradient by x. */
static void a_constraint_cuts_what_is_computed_behind_it(void **state) {
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  mr_placement_t whole = placed(&mesh, 2, "(None,None)");
  mr_fn_t *f = mr_fn_create(), *local = NULL, *twice = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 6));
  f = done(f, mr_lax_tanh(f, mr_lax_shard(f, x, "(data,None)")));
  if (mr_partition(f, &mesh, &whole, &whole, &local, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < local->n_eqn; i++)
    if (!strcmp(local->eqn[i]->op->name, "tanh"))
      assert_int_equal(local->eqn[i]->out[0]->aval.dim[0], 4);
  assert_int_equal(count(local, "tanh"), 1);
  assert_int_equal(count(local, "all_gather"), 1);
  assert_int_equal(count(local, "sharding_constraint"), 0);
  mr_shard_mapped_t *m = mapped(local, &mesh, NULL, NULL);
  _Alignas(64) float v[48], y[48];
  draw_as_in_jax(v, 48);
  mr_shard_mapped_run(m, (const void *[]){v}, (void *[]){y});
  for (int i = 0; i < 48; i++) assert_true(fabsf(y[i] - tanhf(v[i])) < 1e-6f);
  mr_shard_mapped_destroy(m);
  /* vmap adds a whole dimension before; the text follows. */
  if (mr_vmap(f, 3, (int[]){1}, NULL, &twice, &diag) < 0) fail_msg("%s", diag.text);
  char *text = mr_fn_text(twice);
  if (!strstr(text, "spec=(data,None,None)") && !strstr(text, "spec=(None,data,None)"))
    fail_msg("%s", text);
  free(text);
  mr_fn_destroy(f), mr_fn_destroy(local), mr_fn_destroy(twice);
}

static void a_constraint_that_does_not_fit_is_refused(void **state) {
  static const char *const bad[] = {"(data)", "data,None", "((data,None)", "", "(data,None,None)"};
  mr_mesh_t mesh = mesh_of("data=2,model=2");
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    mr_fn_t *f = mr_fn_create();
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 6));
    if (mr_lax_shard(f, x, bad[k])) fail_msg("%s is taken", bad[k]);
    assert_int_equal(f->diag.code, MR_ERR_SHAPE);
    mr_fn_destroy(f);
  }
  static const char *const unfit[] = {"(modell,None)", "((data,model),data)"};
  static const char *const says[] = {"modell", "data"};
  for (int k = 0; k < 2; k++) {
    mr_fn_t *f = mr_fn_create(), *local = NULL;
    mr_diag_t diag = {0};
    f = done(f, mr_lax_shard(f, mr_fn_input(f, mr_aval_of(MR_F32, 8, 6)), unfit[k]));
    assert_int_equal(mr_partition(f, &mesh, NULL, NULL, &local, &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, says[k]) || !strstr(diag.text, "sharding_constraint"))
      fail_msg("%s", diag.text);
    mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_program_that_jax_prints_gives_jax_s_values_on_two_axes),
      cmocka_unit_test(a_gradient_through_collectives_of_two_axes_is_jax_s),
      cmocka_unit_test(random_programs_on_a_mesh_are_a_loop_and_one_rank_that_maps_all),
      cmocka_unit_test(an_array_changes_how_it_lies_between_all_ranks),
      cmocka_unit_test(placements_that_a_function_cannot_have_are_refused_by_a_sentence),
      cmocka_unit_test(a_rank_of_the_mesh_that_does_not_come_is_named),
      cmocka_unit_test(a_constraint_cuts_what_is_computed_behind_it),
      cmocka_unit_test(a_constraint_that_does_not_fit_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
