/* jaxprs read back: jax's own texts, every op's samples and their gradients, and texts that are
   wrong. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "tests/model/grid.h"
#include "tests/vectors.h"

/* The texts of jaxprs.txt, one after the other; false at the end. */
static bool next_text(FILE *f, char *title, char *text, size_t size) {
  char line[512];
  size_t at = 0;
  *title = 0;
  while (fgets(line, sizeof line, f)) {
    if (!*title) {
      if (!strncmp(line, "## ", 3)) snprintf(title, 128, "%.120s", line + 3);
      continue;
    }
    if (line[0] == '\n') break;
    at += (size_t)snprintf(text + at, size - at, "%s", line);
  }
  return *title != 0;
}

static mr_fn_t *parsed(const char *text) {
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  if (mr_fn_parse(text, &f, &diag) < 0) fail_msg("%s\n%s", diag.text, text);
  return f;
}

/* jax's softmax spreads a dimension of size 1 within sub and div, which here is an equation of its
   own. */
static bool of_other_ops(const char *text) { return strstr(text, "sub a e"); }

static void texts_of_jax_come_back_as_they_are(void **state) {
  char title[128], text[4096];
  FILE *f = vectors_open("transforms/jaxprs.txt");
  int seen = 0;
  while (next_text(f, title, text, sizeof text)) {
    if (of_other_ops(text)) continue;
    mr_fn_t *g = parsed(text);
    char *again = mr_fn_text(g);
    if (strstr(text, "lambda a:")) /* constants become inputs */
      assert_int_equal(g->n_in, 2);
    else
      assert_string_equal(again, text);
    free(again);
    mr_fn_destroy(g);
    seen++;
  }
  fclose(f);
  assert_true(seen >= 13);
}

/* jax's softmax, as text, computes what ours does; its gradient text the gradient of ours. */
static void a_text_of_jax_runs(void **state) {
  mr_fn_t *f = parsed(
      "{ lambda ; a:f32[3]. let\n b:f32[3] = tanh a\n c:f32[3] = sub 1.0:f32[] b\n"
      " d:f32[3] = integer_pow[y=2] b\n e:f32[3] = mul 2.0:f32[] b\n"
      " _:f32[] = reduce_sum[axes=(0,) out_sharding=None] d\n f:f32[3] = broadcast_in_dim "
      "1.0:f32[]\n"
      " g:f32[3] = mul f e\n h:f32[3] = mul g c\n i:f32[3] = mul h b\n j:f32[3] = add_any h i\n"
      " in (j,) }");
  mr_fn_t *s = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(s, mr_aval_of(MR_F32, 3));
  x = mr_lax_reduce_sum(s, mr_lax_integer_pow(s, mr_lax_tanh(s, x), 2), 1, (int[]){0});
  assert_int_equal(mr_fn_return(s, 1, &x), MR_OK);
  assert_int_equal(mr_grad(s, 1, (int[]){0}, &g, &diag), MR_OK);
  double v[3] = {-1.5, 0.2, 0.9}, *in[] = {v};
  assert_same_fn("grad(sum(tanh(x)^2))", f, g, in, 1e-12);
  mr_fn_destroy(f);
  mr_fn_destroy(s);
  mr_fn_destroy(g);
}

static void assert_round_trip(const mr_fn_t *f) {
  char *text = mr_fn_text(f);
  mr_fn_t *g = parsed(text);
  char *again = mr_fn_text(g);
  assert_string_equal(again, text);
  free(text);
  free(again);
  mr_fn_destroy(g);
}

/* Walks all samples of all ops. */
static void each_sample(void (*visit)(const mr_fn_t *f)) {
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      bool more = mr_ops[i]->sample(mr_ops[i], &s, k);
      if (more) visit(s.f);
      mr_fn_destroy(s.f);
      if (!more) break;
    }
}

static void every_op_comes_back_from_its_text(void **state) { each_sample(assert_round_trip); }

/* Every beginning of the text, and the text with each byte replaced, is read or refused; of long
   texts some. */
static void spoil(const mr_fn_t *f) {
  char *text = mr_fn_text(f);
  size_t n = strlen(text);
  char *bad = malloc(n + 1);
  for (size_t i = 0; i < 2 * n; i += 1 + n / 700) {
    mr_fn_t *g = NULL;
    mr_diag_t diag = {0};
    strcpy(bad, text);
    bad[i % n] = i < n ? 0 : (char)" 0()[]{}:=,-a9"[i % 14];
    mr_err_t err = mr_fn_parse(bad, &g, &diag);
    assert_true(err >= 0 ? g != NULL : g == NULL && err == MR_ERR_DATA && *diag.text);
    if (i < n - 4) assert_int_equal(err, MR_ERR_DATA);
    mr_fn_destroy(g);
  }
  free(bad);
  free(text);
}

static void spoilt_texts_are_refused(void **state) { each_sample(spoil); }

static void parse_errors_name_the_line(void **state) {
  const struct {
    const char *text, *says;
  } wrong[] = {
      {"", "line 1: expected {"},
      {"{ lambda ; a:f32[3]. let\n b:f32[3] = lgamma a\n in (b,) }", "line 2: expected a known op"},
      {"{ lambda ; a:f32[3]. let\n b:f32[4] = sin a\n in (b,) }",
       "sin gives f32[3], the text says f32[4]"},
      {"{ lambda ; a:f32[3]. let\n b:f32[3] = sin z\n in (b,) }", "line 2: expected a value"},
      {"{ lambda ; a:f32[3]. let b:f32[3] = integer_pow a in (b,) }", "lacks the attribute y"},
      {"{ lambda ; a:f32[3]. let b:f32[3] = integer_pow[y=(2,)] a in (b,) }", "own kinds"},
      {"{ lambda ; a:f32[3]. let b:f32[3] = sin[y=2] a in (b,) }", "no other attributes"},
      {"{ lambda ; a:f32[1,1,1,1,1,1,1,1,1]. let in (a,) }", "at most 8 dimensions"},
      {"{ lambda ; a:f32[99999999999,99999999999]. let in (a,) }", "a smaller size"},
      {"{ lambda ; a:f32[3]. let in (a,) } }", "expected the end"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    mr_fn_t *f = NULL;
    mr_diag_t diag = {0};
    assert_int_equal(mr_fn_parse(wrong[i].text, &f, &diag), MR_ERR_DATA);
    if (!strstr(diag.text, wrong[i].says)) fail_msg("%s\nsaid: %s", wrong[i].text, diag.text);
  }
}

/* sin of sin of ... : among the names is "in". */
static void long_texts_come_back_on_many_lines_and_on_one(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  for (int i = 0; i < 7000; i++) x = mr_lax_sin(f, x); /* and "let", "inf" */
  mr_var_t *two[] = {x, f->eqn[220]->out[0]};
  assert_int_equal(mr_fn_return(f, 2, two), MR_OK);
  char *text = mr_fn_text(f);
  assert_non_null(strstr(text, " in:f32[2] = sin im"));
  assert_non_null(strstr(text, " inf:f32[2] = sin ine"));
  assert_round_trip(f);
  /* jax and the printer write short functions on one line. */
  for (char *c = text; (c = strstr(c, "\n    ")); c++)
    memcpy(c, strstr(c - 5, ". let") == c - 5 ? "     " : ";    ", 5);
  mr_fn_t *g = parsed(text);
  assert_int_equal(g->n_eqn, 7000);
  mr_fn_destroy(f), mr_fn_destroy(g);
  free(text);
  g = parsed(
      "{ lambda ; a:f32[]. let b:f32[] = sin a; in:f32[] = cos b; c:f32[] = sin in in (in, c) }");
  assert_round_trip(g);
  mr_fn_destroy(g);
}

static void constants_keep_every_digit(void **state) {
  mr_fn_t *f = parsed(
      "{ lambda ; . let in (9007199254740993:i64[], -9223372036854775808:i64[], "
      "18446744073709551615:u64[], 2147483647:i32[], -2147483648:i32[], 4294967295:u32[], "
      "True:bool[], -inf:f32[], nan:f32[], 1e-05:f32[]) }");
  char *text = mr_fn_text(f);
  assert_string_equal(text,
                      "{ lambda ;. let\n  in (9007199254740993:i64[], -9223372036854775808:i64[], "
                      "18446744073709551615:u64[], 2147483647:i32[], -2147483648:i32[], "
                      "4294967295:u32[], True:bool[], -inf:f32[], nan:f32[], "
                      "9.999999747378752e-06:f32[]) }\n");
  free(text);
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_compile(f, NULL, &x, &diag), MR_OK);
  static _Alignas(64) int64_t value[10][8];
  void *out[10];
  for (int i = 0; i < 10; i++) out[i] = value[i];
  mr_exec_run(x, NULL, out);
  assert_true(value[0][0] == INT64_C(9007199254740993) && value[1][0] == INT64_MIN);
  assert_true((uint64_t)value[2][0] == UINT64_MAX);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  static const char *const wrong[] = {
      "2147483648:i32[]", "-2147483649:i32[]", "-1:u32[]",  "4294967296:u32[]",
      "256:u8[]",         "1.5:i32[]",         "1e3:i32[]", "9223372036854775808:i64[]",
      "1e39:f32[]",       "1e400:f64[]",       "2:bool[]",  "18446744073709551616:u64[]",
      "True:f32[]",       "nan:i32[]",         "0x10:f32[]"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char all[128];
    diag = (mr_diag_t){0};
    snprintf(all, sizeof all, "{ lambda ; . let in (%s,) }", wrong[i]);
    if (mr_fn_parse(all, &f, &diag) != MR_ERR_DATA) fail_msg("%s is taken", wrong[i]);
  }
}

static void equal_wide_constants_alone_are_merged(void **state) {
  mr_fn_t *f = parsed(
      "{ lambda ; a:i64[]. let b:i64[] = add a 9007199254740992:i64[]\n"
      " c:i64[] = add a 9007199254740993:i64[]\n in (b, c) }");
  mr_exec_t *x = NULL;
  assert_int_equal(mr_compile(f, NULL, &x, NULL), MR_OK);
  static _Alignas(64) int64_t a[8], b[8], c[8];
  mr_exec_run(x, (const void *[]){a}, (void *[]){b, c});
  assert_true(c[0] == b[0] + 1);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static void many_operands_and_deep_calls_are_read(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x[1000];
  for (int i = 0; i < 1000; i++) x[i] = mr_fn_input(f, mr_aval_of(MR_F32, 1));
  x[0] = mr_lax_concatenate(f, 1000, x, 0);
  assert_int_equal(mr_fn_return(f, 1000, x), MR_OK);
  assert_round_trip(f);
  mr_fn_destroy(f);

  mr_fn_t *inner = mr_fn_create();
  x[0] = mr_lax_sin(inner, mr_fn_input(inner, mr_aval_of(MR_F32, 2)));
  mr_fn_return(inner, 1, x);
  for (int depth = 0; depth < 100; depth++) {
    mr_fn_t *g = mr_fn_create();
    mr_var_t *in = mr_fn_input(g, mr_aval_of(MR_F32, 2));
    assert_int_equal(mr_lax_jit(g, "f", inner, &in, x), MR_OK);
    mr_fn_return(g, 1, x);
    mr_fn_destroy(inner);
    inner = g;
  }
  assert_round_trip(inner);
  mr_fn_destroy(inner);
}

/* A rule that trusted the length would read numbers that the text does not have. */
static void lists_of_another_length_than_the_operand_has_are_refused(void **state) {
  static const struct {
    const char *op, *gives, *want;
  } cases[] = {
      {"slice[limit_indices=(1,) start_indices=(0,) strides=None]", "1,0", "a start and a limit"},
      {"slice[limit_indices=(1, 2, 3) start_indices=(0, 0) strides=None]", "1,2",
       "a start and a limit"},
      {"slice[limit_indices=(1, 2) start_indices=(0, 0, 0) strides=None]", "1,2",
       "a start and a limit"},
      {"pad[high=(1,) low=(0, 0)]", "3,3", "two counts"},
      {"pad[high=(1, 0) low=(0,)]", "3,3", "two counts"},
      {"pad[high=(1, 0, 0) low=(0, 0, 0)]", "3,3", "two counts"},
      {"broadcast_in_dim[broadcast_dimensions=(0, 1, 1)]", "2,3", "one of broadcast_dimensions"},
      {"broadcast_in_dim[broadcast_dimensions=(0,)]", "2,3", "one of broadcast_dimensions"},
      {"transpose[permutation=(0,)]", "2,3", "another length"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    mr_fn_t *f = NULL;
    mr_diag_t diag = {0};
    snprintf(text, sizeof text, "{ lambda ; a:f32[2,3]. let b:f32[%s] = %s a in (b,) }",
             cases[i].gives, cases[i].op);
    assert_int_equal(mr_fn_parse(text, &f, &diag), MR_ERR_DATA);
    if (!strstr(diag.text, cases[i].want)) fail_msg("%s: %s", text, diag.text);
  }
}

static void texts_that_would_grow_without_bound_are_refused(void **state) {
  size_t at = 0, size = 1 << 20;
  char *text = malloc(size);
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  for (int i = 0; i < 5000; i++)
    at += (size_t)snprintf(text + at, size - at,
                           "{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=");
  assert_int_equal(mr_fn_parse(text, &f, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "nested less deeply"));
  at = 0;
  for (int i = 0; i < 60; i++) /* 2^60 calls */
    at += (size_t)snprintf(text + at, size - at,
                           "let f%d = { lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f%d] a\n"
                           " c:f32[] = jit[name=f jaxpr=f%d] b\n in (c,) } in\n",
                           i, i + 1, i + 1);
  snprintf(text + at, size - at,
           "let f60 = { lambda ; a:f32[]. let in (a,) } in\n"
           "{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f0] a in (b,) }");
  diag = (mr_diag_t){0};
  assert_int_equal(mr_fn_parse(text, &f, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "called less often"));
  diag = (mr_diag_t){0};
  assert_int_equal(mr_fn_parse("let f = { lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a in "
                               "(b,) } in\n{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a "
                               "in (b,) }",
                               &f, &diag),
                   MR_ERR_DATA);
  free(text);
}

/* Runs a text of jax on the host; out[n_out], which has room for 16 of 4 bytes each. */
static void run_text(const char *text, const void *const *in, float (*out)[16], int n_out) {
  mr_fn_t *f = parsed(text);
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  void *to[8];
  for (int i = 0; i < n_out; i++) to[i] = out[i];
  assert_int_equal(f->n_out, n_out);
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_run(x, in, to);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

/* Products along one dimension, several and none, of even, odd and no elements. */
static void products_of_jax_are_read(void **state) {
  static _Alignas(64) float x[16] = {1, 2, 3, 4, 5, -1, 0.5f, 2, 3, 0, 7, 2, 1, 1, -2};
  static const float rows[] = {120, 0, -28};
  static float out[4][16];
  run_text(
      "{ lambda ; a:f32[3,5]. let\n"
      "    b:f32[3] = reduce_prod[axes=(1,) out_sharding=None] a\n"
      "    c:f32[5] = reduce_prod[axes=(0,)] a\n"
      "    d:f32[] = reduce_prod[axes=(0, 1)] a\n"
      "    e:f32[3,0] = slice[limit_indices=(3, 0) start_indices=(0, 0) strides=None] a\n"
      "    f:f32[3] = reduce_prod[axes=(1,)] e\n"
      "  in (b, c, d, f) }",
      (const void *[]){x}, out, 4);
  for (int i = 0; i < 3; i++) assert_float_equal(out[0][i], rows[i], 0);
  for (int i = 0; i < 5; i++) assert_float_equal(out[1][i], x[i] * x[5 + i] * x[10 + i], 1e-6);
  assert_float_equal(out[2][0], 0, 0);
  for (int i = 0; i < 3; i++) assert_float_equal(out[3][i], 1, 0);
}

/* Where a reduction's operand need not exist, it does not: any, all and argmax of an outer product,
   of which a NaN is the greatest. */
static void any_all_and_argmax_of_an_outer_product_are_loops(void **state) {
  enum { N = 600 };
  static const char text[] =
      "{ lambda ; a:f32[600] b:f32[600]. let\n"
      "    c:f32[600,1] = broadcast_in_dim[broadcast_dimensions=(0,) "
      "shape=(600, 1) sharding=None] a\n"
      "    d:f32[1,600] = broadcast_in_dim[broadcast_dimensions=(1,) "
      "shape=(1, 600) sharding=None] b\n"
      "    e:f32[600,600] = mul c d\n"
      "    f:bool[600,600] = gt e 8.0:f32[]\n"
      "    g:%s\n"
      "  in (g,) }";
  static const char *const kind[] = {"bool[600] = reduce_or[axes=(1,)] f",
                                     "bool[600] = reduce_and[axes=(1,)] f",
                                     "i32[600] = argmax[axes=(1,) index_dtype=int32] e"};
  static _Alignas(64) float x[N], y[N];
  for (int i = 0; i < N; i++) x[i] = (float)(i % 7), y[i] = i == 77 || i == 400 ? 3 : 2;
  x[5] = NAN;
  for (int k = 0; k < 3; k++) {
    static int32_t out[N];
    char own[sizeof text + 60];
    mr_exec_t *exec = NULL;
    mr_diag_t diag = {0};
    snprintf(own, sizeof own, text, kind[k]);
    mr_fn_t *f = parsed(own);
    if (mr_compile(f, NULL, &exec, &diag) < 0) fail_msg("%s", diag.text);
    if (mr_exec_peak_bytes(exec) > 32 * N) /* of one value an element there are N * N */
      fail_msg("%zu bytes\n%s", mr_exec_peak_bytes(exec), mr_fn_text(mr_exec_fn(exec)));
    mr_exec_run(exec, (const void *[]){x, y}, (void *[]){out});
    for (int i = 0; i < N; i++)
      if (k == 2)
        assert_int_equal(out[i], i == 5 || x[i] == 0 ? 0 : 77);
      else
        assert_int_equal(((bool *)out)[i], k ? 2 * x[i] > 8 : 3 * x[i] > 8);
    mr_exec_destroy(exec), mr_fn_destroy(f);
  }
}

/* Results that are not used have the name _, also where a call returns them, in any order. */
static void unused_results_are_read(void **state) {
  static _Alignas(64) float x[16] = {1, 2, 3}, out[1][16];
  run_text(
      "{ lambda ; a:f32[3] _:i32[]. let\n"
      "    b:bool[3] = gt a 0.0:f32[]\n"
      "    _:f32[3] c:f32[] _:f32[3] = jit[\n"
      "      name=inner\n"
      "      jaxpr={ lambda ; b:bool[3] a:f32[3]. let\n"
      "          _:f32[] = reduce_sum[axes=(0,) out_sharding=None] a\n"
      "          _:f32[3] = jit[\n"
      "            name=_where\n"
      "            jaxpr={ lambda ; b:bool[3] a:f32[3] d:i32[]. let\n"
      "                e:f32[] = convert_element_type[new_dtype=float32 weak_type=False] d\n"
      "                f:f32[3] = broadcast_in_dim e\n"
      "                _:f32[3] = select_n b f a\n"
      "              in (_,) }\n"
      "          ] b a 1:i32[]\n"
      "          c:f32[] = reduce_sum[axes=(0,) out_sharding=None] a\n"
      "        in (_, c, _) }\n"
      "    ] b a\n"
      "  in (c,) }",
      (const void *[]){x, &(int32_t){0}}, out, 1);
  assert_float_equal(out[0][0], 6, 0);
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_fn_parse("{ lambda ; a:f32[]. let in (_,) }", &f, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "expected as many values _ before"));
}

/* The table of names grows behind the first of them. */
static void unused_results_outlive_many_names(void **state) {
  for (int names = 1; names <= 200; names += 199) {
    char text[8192] =
        "{ lambda ; z:f32[2]. let _:f32[2] y:f32[2] = jit[name=f jaxpr={ lambda ; "
        "_:f32[2] a0:f32[2]. let ";
    size_t at = strlen(text);
    for (int i = 1; i < names; i++)
      at += (size_t)snprintf(text + at, sizeof text - at, "a%d:f32[2] = neg a%d\n", i, i - 1);
    snprintf(text + at, sizeof text - at, "in (_, a%d) }] z z in (y,) }", names - 1);
    mr_fn_destroy(parsed(text));
  }
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_fn_parse("{ lambda ; _:f32[2] _:f32[]. let in (_,) }", &f, &diag),
                   MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "2 values are called _"));
}

/* jnp.unstack, and memory that is not filled. */
static void unstack_and_empty_are_read(void **state) {
  static _Alignas(64) float x[16] = {1, 2, 3, 4, 5, 6}, out[3][16];
  run_text(
      "{ lambda ; a:f32[2,3]. let\n"
      "    b:f32[2] _:f32[2] c:f32[2] = unstack[axis=1] a\n"
      "    d:f32[2,2] = stack[axis=1] c b\n"
      "    e:f32[2,3] = empty[dtype=float32 out_sharding=None shape=(2, 3)] \n"
      "    f:f32[] = empty2[dtype=float32 memory_space=MemorySpace.Device] \n"
      "    g:f32[2,3] = broadcast_in_dim f\n"
      "    h:f32[2,3] = add a g\n"
      "  in (d, e, h) }",
      (const void *[]){x}, out, 3);
  static const float stacked[] = {3, 1, 6, 4};
  assert_memory_equal(out[0], stacked, sizeof stacked);
  assert_memory_equal(out[2], x, 6 * sizeof *x);
  mr_fn_t *f = NULL;
  static const char *const bad[] = {
      "{ lambda ; a:f32[2,3]. let b:f32[2] c:f32[2] = unstack[axis=1] a in (b,) }",
      "{ lambda ; a:f32[2,3]. let b:f32[3] c:f32[3] = unstack[axis=2] a in (b,) }",
      "{ lambda ; . let a:f32[3] = empty[dtype=float32 shape=(2,)] in (a,) }",
      "{ lambda ; . let a:f32[] = empty2[dtype=int32] in (a,) }",
      "{ lambda ; . let a:f32[] = empty2 in (a,) }"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    assert_int_equal(mr_fn_parse(bad[i], &f, &diag), MR_ERR_DATA);
  }
}

static const char take_text[] =
    "{ lambda ; a:%s[3,2] b:%s[4]. let\n"
    "    c:%s[4,1] = broadcast_in_dim[broadcast_dimensions=(0,)] b\n"
    "    d:%s[4,2] = gather[\n"
    "      dimension_numbers=GatherDimensionNumbers(offset_dims=(1,), "
    "collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(), "
    "start_indices_batching_dims=())\n"
    "      fill_value=%s\n"
    "      mode=GatherScatterMode.%s\n"
    "      slice_sizes=(1, 2)\n"
    "      unique_indices=False\n"
    "    ] a c\n"
    "  in (d,) }";

/* jnp.take: rows outside of the operand are NaN, or what fill_value says. */
static void gather_fills_rows_that_are_not_there(void **state) {
  static _Alignas(64) float x[16] = {1, 2, 3, 4, 5, 6}, out[1][16];
  static _Alignas(64) int32_t whole[16] = {1, 2, 3, 4, 5, 6}, at[16] = {2, 5, -1, 0};
  static _Alignas(64) int64_t far[8] = {2, (int64_t)1 << 32, INT64_MIN, 0};
  static _Alignas(64) uint32_t wide[16] = {2, 3, UINT32_MAX, 0};
  static const struct {
    const char *dtype, *index, *fill, *mode;
    const void *at;
    float want; /* of rows 1 and 2 */
  } row[] = {{"f32", "i32", "nan", "FILL_OR_DROP", at, NAN},
             {"f32", "i32", "None", "FILL_OR_DROP", at, NAN},
             {"f32", "i32", "0.5", "FILL_OR_DROP", at, .5f},
             {"f32", "i64", "-7", "FILL_OR_DROP", far, -7},
             {"f32", "u32", "-7", "FILL_OR_DROP", wide, -7},
             {"i32", "i32", "None", "FILL_OR_DROP", at, 0},
             {"i32", "i32", "-2147483648", "FILL_OR_DROP", at, 0},
             {"f32", "u32", "None", "CLIP", wide, 5}};
  char text[1024];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    bool floats = row[i].dtype[0] == 'f', nan = floats && isnan(row[i].want);
    snprintf(text, sizeof text, take_text, row[i].dtype, row[i].index, row[i].index, row[i].dtype,
             row[i].fill, row[i].mode);
    run_text(text, (const void *[]){floats ? (const void *)x : whole, row[i].at}, out, 1);
    if (floats) {
      assert_true(out[0][0] == 5 && out[0][1] == 6 && out[0][6] == 1 && out[0][7] == 2);
      for (int k = 2; k < 6; k++) {
        float want = row[i].want + (row[i].mode[0] == 'C' ? (float)(k % 2) : 0);
        if (nan ? !isnan(out[0][k]) : out[0][k] != want)
          fail_msg("%zu: %g at %d", i, (double)out[0][k], k);
      }
    } else {
      int32_t got[8], want[] = {5, 6, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, 1, 2};
      memcpy(got, out[0], sizeof got);
      assert_memory_equal(got, want, sizeof want);
    }
  }
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  snprintf(text, sizeof text, take_text, "i32", "i32", "i32", "i32", "nan", "FILL_OR_DROP");
  assert_int_equal(mr_fn_parse(text, &f, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "its fill_value is no number of its dtype"));
}

/* jax 0.3: constants without a dtype, no semicolon between equations on one line. */
static void the_notation_of_jax_03_is_read(void **state) {
  static _Alignas(64) float a[16] = {1, 2, 3, 4, 5, 6}, b[16] = {1, 2, 3}, out[5][16];
  run_text(
      "{ lambda ; a:f32[2,3] inf:f32[3,1]. let c:f32[2,3] = add a 1.0 "
      "d:f32[3,1] = mul 2.0 inf "
      "e:f32[2,1] = dot_general[ dimension_numbers=(((1,), (0,)), ((), ())) precision=None "
      "preferred_element_type=None ] c d "
      "f:bool[2,3] = gt a 3 g:f32[2,3] = broadcast_in_dim[broadcast_dimensions=() "
      "shape=(2, 3)] -inf "
      "h:f32[2,3] = select_n f g a i:i32[] = add 2 3 j:f32[] = convert_element_type["
      "new_dtype=float32 weak_type=False] i "
      "k:f32[2,3] = xla_call[ call_jaxpr={ lambda ; a:f32[2,3] b:f32[]. let c:f32[2,3] = mul a "
      "b in (c,) } device=None donated_invars=(False, False) inline=False "
      "keep_unused=False name=inner ] a 2.0 in (e, h, j, k, 4.0) }",
      (const void *[]){a, b}, out, 5);
  assert_true(out[0][0] == 40 && out[0][1] == 76);
  assert_true(isinf(out[1][2]) && out[1][3] == 4 && out[2][0] == 5 && out[3][5] == 12);
  assert_true(out[4][0] == 4);
  static const struct {
    const char *text, *said;
  } bad[] = {
      {"{ lambda ; a:i32[]. let b:i32[] = add a 5000000000 in (b,) }", "that i32 can hold"},
      {"{ lambda ; a:i32[]. let b:i32[] = add a 0.5 in (b,) }", ""},
      {"{ lambda ; a:u8[]. let b:u8[] = add a 300 in (b,) }", ""},
      {"{ lambda ; a:f32[]. let b:f32[] = add a nano in (b,) }", "a value that has been named"},
      {"{ lambda ; a:f32[]. let b:f32[] = pjit[name=f jaxpr={ lambda ; a:f32[] b:f32[]. let in "
       "(a,) }] a in (b,) }",
       "want the operands and results of its function"},
      {"{ lambda ; a:f32[]. let b:f32[] = add a 1.5.5 in (b,) }", ""}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_fn_t *f = NULL;
    mr_diag_t diag = {0};
    assert_int_equal(mr_fn_parse(bad[i].text, &f, &diag), MR_ERR_DATA);
    if (!strstr(diag.text, bad[i].said)) fail_msg("%s: %s", bad[i].text, diag.text);
  }
}

/* jax does not print the author's rule: what a text cannot say is refused, not guessed. */
static void calls_whose_rule_is_not_in_the_text_have_no_derivatives(void **state) {
  const char *text =
      "{ lambda ; a:f32[2]. let b:f32[2] = custom_jvp_call[name=%s call_jaxpr={ lambda "
      "; c:f32[2]. let d:f32[2] = %s in (d,) } jvp=jvp "
      "symbolic_zeros=False] a\n e:f32[] = reduce_sum[axes=(0,)] b in (e,) }";
  char all[512];
  mr_diag_t diag = {0};
  mr_fn_t *g = NULL;
  static const char relu[] = "max c 0.0:f32[]";
  static const struct {
    const char *name, *body;
  } unknown[] = {{"mine", relu},
                 {"relu", "mul c 3.0:f32[]"},
                 {"relu", "max c 1.0:f32[]"},
                 {"relu", "max c c"}};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    snprintf(all, sizeof all, text, unknown[i].name, unknown[i].body);
    mr_fn_t *of_author = parsed(all);
    diag = (mr_diag_t){0};
    assert_int_equal(mr_grad(of_author, 1, (int[]){0}, &g, &diag), MR_ERR_NORULE);
    assert_non_null(strstr(diag.text, "its author's rule is not in the jaxpr"));
    mr_fn_destroy(of_author);
  }
  snprintf(all, sizeof all, text, "relu", relu);
  mr_fn_t *f = parsed(all);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
  mr_exec_t *x = NULL;
  assert_int_equal(mr_compile(g, NULL, &x, &diag), MR_OK);
  static _Alignas(64) float in[16] = {0, 3}, out[16];
  mr_exec_run(x, (const void *[]){in}, (void *[]){out});
  assert_true(out[0] == 0 && out[1] == 1); /* of max it would be 0.5 at 0 */
  mr_exec_destroy(x);
  mr_fn_destroy(f), mr_fn_destroy(g);
}

static void dot_has_a_box_an_equation_and_an_edge_an_operand(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  const char *outer = mr_scope_enter(f, "head");
  x = mr_lax_add(f, mr_lax_sin(f, x), x);
  mr_scope_leave(f, outer);
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  mr_fn_dot(f, to);
  fclose(to);
  assert_string_equal(text,
                      "digraph fn {\n  node [fontname=\"Helvetica\"];\n"
                      "  in0 [shape=ellipse, label=\"f32[2]\"];\n"
                      "  subgraph cluster_0 {\n  label=\"head\";\n"
                      "  e0 [shape=box, label=\"sin\", tooltip=\"head\"];\n"
                      "  e1 [shape=box, label=\"add\", tooltip=\"head\"];\n  }\n"
                      "  out0 [shape=ellipse, label=\"out 0\"];\n"
                      "  in0 -> e0 [label=\"f32[2]\"];\n  e0 -> e1 [label=\"f32[2]\"];\n"
                      "  in0 -> e1 [label=\"f32[2]\"];\n  e1 -> out0 [label=\"f32[2]\"];\n}\n");
  free(text);
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_of_jax_come_back_as_they_are),
      cmocka_unit_test(a_text_of_jax_runs),
      cmocka_unit_test(every_op_comes_back_from_its_text),
      cmocka_unit_test(spoilt_texts_are_refused),
      cmocka_unit_test(parse_errors_name_the_line),
      cmocka_unit_test(long_texts_come_back_on_many_lines_and_on_one),
      cmocka_unit_test(constants_keep_every_digit),
      cmocka_unit_test(equal_wide_constants_alone_are_merged),
      cmocka_unit_test(many_operands_and_deep_calls_are_read),
      cmocka_unit_test(lists_of_another_length_than_the_operand_has_are_refused),
      cmocka_unit_test(texts_that_would_grow_without_bound_are_refused),
      cmocka_unit_test(unused_results_are_read),
      cmocka_unit_test(unused_results_outlive_many_names),
      cmocka_unit_test(unstack_and_empty_are_read),
      cmocka_unit_test(gather_fills_rows_that_are_not_there),
      cmocka_unit_test(products_of_jax_are_read),
      cmocka_unit_test(any_all_and_argmax_of_an_outer_product_are_loops),
      cmocka_unit_test(the_notation_of_jax_03_is_read),
      cmocka_unit_test(calls_whose_rule_is_not_in_the_text_have_no_derivatives),
      cmocka_unit_test(dot_has_a_box_an_equation_and_an_edge_an_operand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
