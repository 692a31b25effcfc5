/* f8 in graphs: converted, moved, printed, refused where it would be computed. */
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

enum { CODES = 65536, WHOLE = 140000 };

static const mr_dtype_t f8s[] = {MR_F8_E4M3FN, MR_F8_E5M2};
static const char *const names[] = {"float8_e4m3fn", "float8_e5m2"};

static mr_fn_t *read_fn(const char *text) {
  mr_fn_t *f = NULL;
  mr_diag_t diag = {0};
  if (mr_fn_parse(text, &f, &diag) < 0) fail_msg("%s\n%s", diag.text, text);
  return f;
}

static void run_fn(const mr_fn_t *f, const void *const *in, void *const *out) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s\n%s", diag.text, mr_fn_text(f));
  mr_exec_run(x, in, out);
  mr_exec_destroy(x);
}

static void convert(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t n) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_lax_convert(f, mr_fn_input(f, mr_aval_of(from, n)), to);
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  run_fn(f, &x, &y);
  mr_fn_destroy(f);
}

/* x converted to f8s[d], against the golden sums of ml_dtypes. */
static void expect_converted(mr_dtype_t from, const void *x, int64_t n, int d, const char *what) {
  static _Alignas(64) uint8_t y[WHOLE];
  char name[64];
  convert(from, x, f8s[d], y, n);
  for (int64_t i = 0; i < n; i++)
    if (isnan(mr_f8_to_f32(f8s[d], y[i]))) y[i] = d ? 0x7E : 0x7F;
  snprintf(name, sizeof name, "%s.%s", names[d], what);
  assert_crc("f8.txt", name, crc32_of(0, y, (size_t)n));
}

static void conversions_are_those_of_ml_dtypes(void **state) {
  static _Alignas(64) uint16_t code[CODES];
  static _Alignas(64) int32_t whole[WHOLE];
  for (int i = 0; i < CODES; i++) code[i] = (uint16_t)i;
  for (int i = 0; i < WHOLE; i++) whole[i] = i - WHOLE / 2;
  for (int d = 0; d < 2; d++) {
    expect_converted(MR_BF16, code, CODES, d, "bf16");
    expect_converted(MR_F16, code, CODES, d, "f16");
    expect_converted(MR_I32, whole, WHOLE, d, "i32");
  }
}

/* Ties of f32 and their neighbours in f64, which a rounding to f32 on the way would make ties. */
static void an_f64_is_rounded_to_f8_once(void **state) {
  enum { TIES = 3 << 20, PIECE = 1 << 16 };
  static _Alignas(64) double x[PIECE];
  static _Alignas(64) uint8_t y[PIECE];
  for (int d = 0; d < 2; d++) {
    char name[64];
    uint32_t crc = 0;
    mr_fn_t *f = mr_fn_create();
    mr_var_t *v = mr_lax_convert(f, mr_fn_input(f, mr_aval_of(MR_F64, PIECE)), f8s[d]);
    mr_exec_t *run;
    mr_diag_t diag = {0};
    assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
    if (mr_compile(f, NULL, &run, &diag) < 0) fail_msg("%s", diag.text);
    for (uint32_t from = 0; from < 2 * TIES; from += PIECE) {
      for (uint32_t i = 0; i < PIECE; i++) {
        uint32_t at = (from + i) % TIES, u = (at / 3 << 12) + at % 3 - 1;
        uint64_t wide;
        float tie;
        memcpy(&tie, &u, sizeof tie);
        x[i] = (double)tie;
        memcpy(&wide, &x[i], sizeof wide);
        wide ^= from >= TIES;
        memcpy(&x[i], &wide, sizeof wide);
      }
      mr_exec_run(run, (const void *[]){x}, (void *[]){y});
      for (uint32_t i = 0; i < PIECE; i++)
        if (isnan(mr_f8_to_f32(f8s[d], y[i]))) y[i] = d ? 0x7E : 0x7F;
      crc = crc32_of(crc, y, PIECE);
    }
    mr_exec_destroy(run);
    mr_fn_destroy(f);
    snprintf(name, sizeof name, "%s.f64", names[d]);
    assert_crc("f8.txt", name, crc);
  }
}

/* By every way a conversion can take. */
static void each_code_keeps_its_value_in_wider_floats(void **state) {
  static const mr_dtype_t wider[] = {MR_F32, MR_BF16, MR_F16, MR_F64};
  _Alignas(64) uint8_t code[256], back[256];
  _Alignas(64) double wide[256];
  for (int i = 0; i < 256; i++) code[i] = (uint8_t)i;
  for (int d = 0; d < 2; d++)
    for (int k = 0; k < 4; k++) {
      convert(f8s[d], code, wider[k], wide, 256);
      convert(wider[k], wide, f8s[d], back, 256);
      for (int i = 0; i < 256; i++) {
        double got = mr_get_f64(wider[k], wide, i), want = (double)mr_f8_to_f32(f8s[d], code[i]);
        assert_true(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want));
        if (!isnan(want)) assert_int_equal(back[i], code[i]);
      }
    }
}

/* Runs of an odd length, over every tie and its neighbours. */
static void every_instruction_set_converts_alike(void **state) {
  enum { TIES = 3 << 20, PIECE = 4099 };
  static _Alignas(64) float x[PIECE], wide[256];
  static _Alignas(64) uint8_t y[PIECE], code[256];
  for (int i = 0; i < 256; i++) code[i] = (uint8_t)i;
  for (mr_isa_t isa = MR_ISA_PLAIN; isa < MR_ISA_COUNT; isa++)
    for (int d = 0; d < 2 && mr_isa_available(isa); d++) {
      mr__rows_of(isa)->convert(f8s[d], code, MR_F32, wide, 0, 256);
      for (int i = 0; i < 256; i++) {
        float want = mr_f8_to_f32(f8s[d], code[i]);
        assert_memory_equal(&wide[i], &want, sizeof want);
      }
      for (uint32_t from = 0; from < TIES; from += PIECE) {
        uint32_t n = TIES - from < PIECE ? TIES - from : PIECE;
        for (uint32_t i = 0; i < n; i++) {
          uint32_t u = ((from + i) / 3 << 12) + (from + i) % 3 - 1;
          memcpy(&x[i], &u, sizeof u);
        }
        mr__rows_of(isa)->convert(MR_F32, x, f8s[d], y, 0, n);
        for (uint32_t i = 0; i < n; i++)
          if (y[i] != mr_f8_from_f32(f8s[d], x[i]))
            fail_msg("%s, %s: %a is %x", mr_isa_name(isa), names[d], (double)x[i], y[i]);
      }
    }
}

static void the_text_is_jaxs(void **state) {
  static const char text[] =
      "{ lambda ; a:f32[3] b:bool[3]. let\n"
      "    c:f8_e4m3fn[3] = convert_element_type[\n"
      "      new_dtype=float8_e4m3fn\n"
      "      weak_type=False\n"
      "    ] a\n"
      "    d:f8_e4m3fn[3] = broadcast_in_dim 1.125:f8_e4m3fn[]\n"
      "    e:f8_e4m3fn[3] = select_n b c d\n"
      "    f:f8_e4m3fn[3] = rev[dimensions=(0,)] e\n"
      "    g:f8_e5m2[3] = convert_element_type[new_dtype=float8_e5m2 weak_type=False] f\n"
      "  in (f, g) }\n";
  mr_fn_t *f = read_fn(text);
  char *printed = mr_fn_text(f);
  assert_string_equal(printed, text);
  _Alignas(64) float a[] = {448, 1.0625f, -1e9f};
  _Alignas(64) uint8_t b[] = {0, 1, 0}, y[3], z[3];
  run_fn(f, (const void *[]){a, b}, (void *[]){y, z});
  static const uint8_t want[] = {0xFF, 0x39, 0x7E}, wide[] = {0xFE, 0x3C, 0x5F};
  assert_memory_equal(y, want, sizeof want);
  assert_memory_equal(z + 1, wide + 1, 2);
  assert_true(isnan(mr_f8_to_f32(MR_F8_E5M2, z[0])));
  mr_fn_destroy(f);
  free(printed);
}

/* The cotangent is rounded to f8 where the value was. */
static void a_gradient_passes_through_the_conversion(void **state) {
  mr_fn_t *f = read_fn(
      "{ lambda ; a:f32[2] b:f32[2]. let\n"
      "    c:f8_e4m3fn[2] = convert_element_type[new_dtype=float8_e4m3fn weak_type=False] a\n"
      "    d:f32[2] = convert_element_type[new_dtype=float32 weak_type=False] c\n"
      "    e:f32[2] = mul d b\n"
      "    f:f32[] = reduce_sum[axes=(0,) out_sharding=None] e\n"
      "  in (f,) }");
  mr_fn_t *g = gradient(f);
  _Alignas(64) float a[] = {1, 2}, b[] = {1.2f, 3}, loss, da[2], db[2];
  run_fn(g, (const void *[]){a, b}, (void *[]){&loss, da, db});
  assert_true(da[0] == 1.25f && da[1] == 3 && db[0] == 1 && db[1] == 2);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
}

static void ops_that_would_compute_in_f8_are_refused_by_name(void **state) {
  static const char *const text[] = {"add a a",
                                     "exp a",
                                     "lt a a",
                                     "reduce_sum[axes=(0,) out_sharding=None] a",
                                     "integer_pow[y=2] a",
                                     "cumsum[axis=0 reverse=False] a"};
  for (int k = 0; k < 6; k++) {
    char all[256], op[32];
    mr_exec_t *x = NULL;
    mr_diag_t diag = {0};
    const char *shape = k == 2 ? "bool[4]" : k == 3 ? "f8_e5m2[]" : "f8_e5m2[4]";
    snprintf(all, sizeof all, "{ lambda ; a:f8_e5m2[4]. let b:%s = %s in (b,) }", shape, text[k]);
    mr_fn_t *f = read_fn(all);
    assert_int_equal(mr_compile(f, NULL, &x, &diag), MR_ERR_NORULE);
    snprintf(op, sizeof op, "%.*s", (int)strcspn(text[k], " ["), text[k]);
    assert_non_null(strstr(diag.text, op));
    assert_non_null(strstr(diag.text, "computes no f8_e5m2: convert to bf16, f16 or f32 first"));
    mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_f64_is_rounded_to_f8_once),
      cmocka_unit_test(conversions_are_those_of_ml_dtypes),
      cmocka_unit_test(each_code_keeps_its_value_in_wider_floats),
      cmocka_unit_test(every_instruction_set_converts_alike),
      cmocka_unit_test(the_text_is_jaxs),
      cmocka_unit_test(a_gradient_passes_through_the_conversion),
      cmocka_unit_test(ops_that_would_compute_in_f8_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
