/* f16: the kernels' conversions on each instruction set, and graphs that compute in it, against
   NumPy's. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/backends/cpu/rows.h"
#include "model/parse/parse.h"
#include "tests/crc.h"
#include "tests/model/grid.h"

enum { CODES = 65536, TIES = 3 << 20, PIECE = 4099 };

static float tie(uint32_t i) {
  uint32_t u = (i / 3 << 12) + i % 3 - 1;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

#define EACH_ISA(isa)                                          \
  for (mr_isa_t isa = MR_ISA_PLAIN; isa < MR_ISA_COUNT; isa++) \
    if (mr_isa_available(isa))

static void every_instruction_set_widens_every_code_alike(void **state) {
  static _Alignas(64) mr_f16_t code[CODES];
  static _Alignas(64) float wide[CODES];
  for (int i = 0; i < CODES; i++) code[i] = (mr_f16_t)i;
  EACH_ISA(isa) {
    mr__rows_of(isa)->convert(MR_F16, code, MR_F32, wide, 0, CODES);
    for (int i = 0; i < CODES; i++) {
      float want = mr_f16_to_f32(code[i]);
      if (memcmp(&wide[i], &want, sizeof want))
        fail_msg("%s: code %x is %a, want %a", mr_isa_name(isa), i, (double)wide[i], (double)want);
    }
  }
}

/* In pieces of an odd length, so that the last elements of a run are among them too. */
static void every_instruction_set_rounds_every_tie_alike(void **state) {
  static _Alignas(64) float x[PIECE];
  static _Alignas(64) mr_f16_t y[PIECE];
  EACH_ISA(isa)
  for (uint32_t from = 0; from < TIES; from += PIECE) {
    uint32_t n = TIES - from < PIECE ? TIES - from : PIECE;
    for (uint32_t i = 0; i < n; i++) x[i] = tie(from + i);
    mr__rows_of(isa)->convert(MR_F32, x, MR_F16, y, 0, n);
    for (uint32_t i = 0; i < n; i++)
      if (y[i] != mr_f16_from_f32(x[i]))
        fail_msg("%s: %a is %x, want %x", mr_isa_name(isa), (double)x[i], y[i],
                 mr_f16_from_f32(x[i]));
  }
}

/* But for spaces and ends of lines. */
static bool same_words(const char *a, const char *b) {
  static const char space[] = " \n";
  for (;; a++, b++) {
    a += strspn(a, space), b += strspn(b, space);
    if (*a != *b || !*a) return *a == *b;
  }
}

/* text's function of in to out; it is printed as it was read. */
static void run(const char *text, const void *const *in, void *const *out) {
  mr_fn_t *f = NULL;
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_fn_parse(text, &f, &diag) < 0 || mr_compile(f, NULL, &x, &diag) < 0)
    fail_msg("%s\n%s", diag.text, text);
  char *printed = mr_fn_text(f);
  if (!same_words(printed, text)) fail_msg("%s\nis printed as\n%s", text, printed);
  mr_exec_run(x, in, out);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  free(printed);
}

/* Over all codes, subnormals, infinities and NaN among them. */
static void arithmetic_is_numpys_to_the_bit(void **state) {
  static const char *const name[] = {"add", "sub",  "mul", "div", "max",
                                     "min", "sqrt", "abs", "neg", "floor"};
  static _Alignas(64) mr_f16_t a[CODES], b[CODES], y[CODES];
  for (uint32_t i = 0; i < CODES; i++) a[i] = (mr_f16_t)i, b[i] = (mr_f16_t)(40503u * i + 12345u);
  for (int k = 0; k < 10; k++) {
    char text[256];
    if (k < 6)
      snprintf(text, sizeof text,
               "{ lambda ; a:f16[65536] b:f16[65536]. let\n    c:f16[65536] = %s a b\n  in (c,) }",
               name[k]);
    else
      snprintf(text, sizeof text, "{ lambda ; a:f16[65536]. let b:f16[65536] = %s a in (b,) }",
               name[k]);
    run(text, (const void *[]){a, b}, (void *[]){y});
    for (int i = 0; i < CODES; i++)
      if ((y[i] & 0x7FFF) > 0x7C00) y[i] = 0x7E00;
    assert_crc("f16.txt", name[k], crc32_of(0, y, sizeof y));
  }
}

/* Each op rounds once: 2048 + 1 is a tie, which goes to 2048, and no 1 is kept for later. */
static void a_chain_is_rounded_after_each_op(void **state) {
  _Alignas(64) mr_f16_t x[2] = {mr_f16_from_f32(2048), mr_f16_from_f32(300)}, y[2];
  run("{ lambda ; a:f16[2]. let\n"
      "    b:f16[2] = add a 1.0:f16[]\n"
      "    c:f16[2] = add b 1.0:f16[]\n"
      "    d:f16[2] = mul c c\n"
      "  in (d,) }",
      (const void *[]){x}, (void *[]){y});
  assert_int_equal(y[0], 0x7C00);
  assert_int_equal(y[1], 0x7C00); /* 302^2 is too large */
  run("{ lambda ; a:f16[2]. let\n"
      "    b:f16[2] = add a 1.0:f16[]\n"
      "    c:f16[2] = add b 1.0:f16[]\n"
      "  in (c,) }",
      (const void *[]){x}, (void *[]){y});
  assert_int_equal(y[0], x[0]);
  assert_int_equal(y[1], mr_f16_from_f32(302));
}

/* 4096 ones are 4096, where a sum kept in f16 would stop at 2048. */
static void sums_and_products_accumulate_in_f32(void **state) {
  enum { N = 4096 };
  static _Alignas(64) mr_f16_t x[N], narrow[3];
  _Alignas(64) float wide;
  for (int i = 0; i < N; i++) x[i] = mr_f16_from_f32(1);
  run("{ lambda ; a:f16[4096]. let\n"
      "    b:f16[] = reduce_sum[axes=(0,) out_sharding=None] a\n"
      "    c:f16[] = dot_general[\n"
      "      dimension_numbers=(([0], [0]), ([], []))\n"
      "      preferred_element_type=float16\n"
      "    ] a a\n"
      "    d:f32[] = dot_general[\n"
      "      dimension_numbers=(([0], [0]), ([], []))\n"
      "      preferred_element_type=float32\n"
      "    ] a a\n"
      "  in (b, c, d) }",
      (const void *[]){x}, (void *[]){narrow, narrow + 1, &wide});
  assert_int_equal(narrow[0], mr_f16_from_f32(N));
  assert_int_equal(narrow[1], mr_f16_from_f32(N));
  assert_true(wide == (float)N);
}

/* The largest f16 is 65504: what is beyond it is infinite, an integer too. */
static void numbers_of_other_dtypes_become_the_nearest_f16(void **state) {
  _Alignas(64) int32_t x[] = {2049, 2051, -65519, 65520, INT32_MIN, 7};
  _Alignas(64) mr_f16_t y[6];
  static const mr_f16_t want[] = {0x6800, 0x6802, 0xFBFF, 0x7C00, 0xFC00, 0x4700};
  _Alignas(64) int32_t back[6];
  run("{ lambda ; a:i32[6]. let\n"
      "    b:f16[6] = convert_element_type[new_dtype=float16 weak_type=False] a\n"
      "    c:i32[6] = convert_element_type[new_dtype=int32 weak_type=False] b\n"
      "  in (b, c) }",
      (const void *[]){x}, (void *[]){y, back});
  assert_memory_equal(y, want, sizeof want);
  assert_int_equal(back[2], -65504);
  assert_int_equal(back[3], INT32_MAX);
  assert_int_equal(back[5], 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_instruction_set_widens_every_code_alike),
      cmocka_unit_test(every_instruction_set_rounds_every_tie_alike),
      cmocka_unit_test(arithmetic_is_numpys_to_the_bit),
      cmocka_unit_test(a_chain_is_rounded_after_each_op),
      cmocka_unit_test(sums_and_products_accumulate_in_f32),
      cmocka_unit_test(numbers_of_other_dtypes_become_the_nearest_f16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
