/* What jax prints of some six hundred programs, read and run: nine of ten must come in, and give
   what jax computes.  The texts are of tests/model/jaxprs.py, which makes them anew
   (MILLRACE_JAXPRS names another file of them). */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/ops/rules.h"
#include "tests/vectors.h"

enum { TEXT = 1 << 20, SHOWN = 12 };

typedef struct program {
  char title[128];
  char *text; /* of the jaxpr */
  char *want; /* behind it: "#= 1.0 2.0\n" an output */
  mr_fn_t *fn;
} program_t;

/* The next program of the file; false at the end. */
static bool next_program(FILE *f, program_t *p) {
  char *line = NULL;
  size_t cap = 0, at = 0, n_want = 0;
  *p->title = *p->text = *p->want = 0;
  while (getline(&line, &cap, f) > 0) {
    if (!*p->title) {
      if (!strncmp(line, "## ", 3)) snprintf(p->title, sizeof p->title, "%.120s", line + 3);
      p->title[strcspn(p->title, "\n")] = 0;
      continue;
    }
    if (line[0] == '\n') break;
    bool want = !strncmp(line, "#= ", 3);
    size_t *n = want ? &n_want : &at;
    assert_true(*n + strlen(line) < TEXT);
    strcpy((want ? p->want : p->text) + *n, want ? line + 3 : line);
    *n += strlen(want ? line + 3 : line);
  }
  free(line);
  return *p->title != 0;
}

/* Input k: the same numbers as value() of jaxprs.py. */
static void *input(const mr_aval_t *a, int k) {
  int64_t n = mr_aval_elems(a);
  char *data = calloc((size_t)n + 1, mr_dtype_size(a->dtype));
  for (int64_t i = 0; i < n; i++) {
    if (a->dtype == MR_F32)
      ((float *)data)[i] = (float)((i * 37 + k * 11) % 41) / 32 + 0.125f;
    else if (a->dtype == MR_BOOL)
      data[i] = (i + k) % 2 == 0;
    else if (a->dtype == MR_I32)
      ((int32_t *)data)[i] = (int32_t)((i * 5 + k) % 3);
    else
      fail_msg("an input of %s", mr_dtype_name(a->dtype));
  }
  return data;
}

static double element(const void *data, mr_dtype_t t, int64_t i) {
  switch (t) {
    case MR_F32: return (double)((const float *)data)[i];
    case MR_BF16: return (double)mr_bf16_to_f32(((const mr_bf16_t *)data)[i]);
    case MR_I32: return ((const int32_t *)data)[i];
    case MR_U32: return ((const uint32_t *)data)[i];
    case MR_BOOL: return ((const uint8_t *)data)[i];
    default: fail_msg("an output of %s", mr_dtype_name(t));
  }
  return 0;
}

static bool near(double got, double want) {
  if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
  return fabs(got - want) <= 2e-4 + 2e-4 * fabs(want);
}

/* Whether every output is what jax computed; says where not. */
static bool outputs_are_right(const program_t *p, void *const *out) {
  const char *want = p->want;
  for (int k = 0; k < p->fn->n_out; k++) {
    const mr_aval_t *a = &p->fn->out[k]->aval;
    for (int64_t i = 0; i < mr_aval_elems(a) && i < SHOWN; i++) {
      char *end;
      double v = strtod(want, &end), got = element(out[k], a->dtype, i);
      if (end == want || !near(got, v)) {
        print_error("%s: output %d, element %d is %.9g, jax has %.9g\n", p->title, k, (int)i, got,
                    v);
        return false;
      }
      want = end;
    }
    want += strcspn(want, "\n");
    want += *want == '\n';
  }
  return *want == 0;
}

static bool runs_right(const program_t *p) {
  const mr_fn_t *f = p->fn;
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_compile_options_t o = {.threads = 1};
  if (mr_compile(f, &o, &x, &diag) < 0) {
    print_error("%s: does not compile: %s\n", p->title, diag.text);
    return false;
  }
  const void **in = calloc((size_t)f->n_in + 1, sizeof *in);
  void **out = calloc((size_t)f->n_out + 1, sizeof *out);
  for (int i = 0; i < f->n_in; i++) in[i] = input(&f->in[i]->aval, i);
  for (int i = 0; i < f->n_out; i++)
    out[i] = aligned_alloc(64, (mr_aval_bytes(&f->out[i]->aval) + 127) / 64 * 64);
  mr_exec_run(x, in, out);
  bool right = outputs_are_right(p, out);
  for (int i = 0; i < f->n_in; i++) free((void *)(uintptr_t)in[i]);
  for (int i = 0; i < f->n_out; i++) free(out[i]);
  free(in), free(out);
  mr_exec_destroy(x);
  return right;
}

/* Printing again and reading that gives the same text. */
static void assert_round_trip(const program_t *p) {
  mr_fn_t *again = NULL;
  mr_diag_t diag = {0};
  char *text = mr_fn_text(p->fn);
  if (mr_fn_parse(text, &again, &diag) < 0) fail_msg("%s, printed: %s", p->title, diag.text);
  char *twice = mr_fn_text(again);
  assert_string_equal(twice, text);
  free(text), free(twice);
  mr_fn_destroy(again);
}

/* Arrays that a program holds stand before the ';' of its head, and their values nowhere. */
static bool holds_arrays(const char *text) {
  const char *head = text;
  for (const char *at; (at = strstr(head + 1, "\n{ lambda"));) head = at;
  head += *head == '\n';
  return strncmp(head, "{ lambda ;", 10) != 0;
}

static void nine_of_ten_programs_of_jax_come_in_and_compute_the_same(void **state) {
  const char *path = getenv("MILLRACE_JAXPRS");
  FILE *f = path ? vectors_at(path) : vectors_open("jaxprs/jax.txt");
  program_t p = {.text = malloc(TEXT), .want = malloc(TEXT)};
  int n = 0, read = 0, wrong = 0;
  while (next_program(f, &p)) {
    mr_diag_t diag = {0};
    n++;
    if (mr_fn_parse(p.text, &p.fn, &diag) < 0) {
      print_message("not read: %s: %s\n", p.title, diag.text);
      continue;
    }
    read++;
    assert_round_trip(&p);
    if (!holds_arrays(p.text)) wrong += !runs_right(&p);
    mr_fn_destroy(p.fn);
  }
  fclose(f);
  free(p.text), free(p.want);
  print_message("%d of %d programs come in: %.1f %%\n", read, n, 100.0 * read / n);
  assert_int_equal(wrong, 0);
  assert_true(n >= 500 && 10 * read >= 9 * n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nine_of_ten_programs_of_jax_come_in_and_compute_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
