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
  char path[512], title[128], text[4096];
  snprintf(path, sizeof path, "%s/transforms/jaxprs.txt", MR_GOLDEN);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
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

static void what_is_wrong_is_said_with_its_line(void **state) {
  const struct {
    const char *text, *says;
  } wrong[] = {
      {"", "line 1: expected {"},
      {"{ lambda ; a:f32[3]. let\n b:f32[3] = tan a\n in (b,) }", "line 2: expected a known op"},
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
      cmocka_unit_test(what_is_wrong_is_said_with_its_line),
      cmocka_unit_test(dot_has_a_box_an_equation_and_an_edge_an_operand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
