/* millrace explain as a person meets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "tests/apps/program.h"

#define TINY "--layers", "2", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "4"

static program_t p;

static cJSON *explained(void) {
  if (p.status) fail_msg("%s", p.err);
  cJSON *all = cJSON_Parse(p.out);
  assert_non_null(all);
  return all;
}

static const char *text_of(const cJSON *o, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(o, name);
  return cJSON_IsString(v) ? v->valuestring : "";
}

static bool every_product(const cJSON *all, const char *asked, const char *executed) {
  const cJSON *o;
  int n = 0;
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "products")) {
    if (strcmp(text_of(o, "asked"), asked) || !strstr(text_of(o, "executed"), executed))
      return false;
    n++;
  }
  return n > 10;
}

static void products_are_computed_as_asked(void **state) {
  RUN(&p, "explain", "grad", TINY, "--json", "--dtype", "f32");
  cJSON *all = explained();
  assert_true(every_product(all, "none", "f32"));
  cJSON_Delete(all);
  RUN(&p, "explain", "grad", TINY, "--json", "--dtype", "f32", "--precision", "high");
  all = explained();
  assert_true(every_product(all, "high", "f32 as 3 bf16 products"));
  cJSON_Delete(all);
  RUN(&p, "explain", "grad", TINY, "--json", "--dtype", "f32", "--precision", "default");
  all = explained();
  assert_true(every_product(all, "default", "f32 rounded to bf16"));
  cJSON_Delete(all);
  setenv("MILLRACE_MATMUL_PRECISION", "bfloat16_3x", 1);
  RUN(&p, "explain", "grad", TINY, "--json", "--dtype", "f32");
  all = explained();
  assert_true(every_product(all, "high", "f32 as 3 bf16 products"));
  cJSON_Delete(all);
  setenv("MILLRACE_MATMUL_PRECISION", "most", 1);
  RUN(&p, "explain", "grad", TINY);
  assert_true(p.status != 0 && strstr(p.err, "MILLRACE_MATMUL_PRECISION: \"most\""));
  unsetenv("MILLRACE_MATMUL_PRECISION");
  RUN(&p, "explain", "grad", TINY, "--precision", "exact");
  assert_true(p.status != 0 && strstr(p.err, "--precision: \"exact\""));
}

/* Without fusion: casts of values that a loop makes are part of it, and move nothing. */
static void each_cast_has_a_cause_a_reader_and_bytes(void **state) {
  setenv("MILLRACE_SKIP_PASSES", "fuse", 1);
  RUN(&p, "explain", "grad", TINY, "--json");
  unsetenv("MILLRACE_SKIP_PASSES");
  cJSON *all = explained();
  const cJSON *o;
  int casts = 0, by_grad = 0;
  double sum = 0, total = cJSON_GetObjectItem(all, "bytes")->valuedouble;
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "moves")) {
    double bytes = cJSON_GetObjectItem(o, "bytes")->valuedouble;
    sum += bytes;
    assert_true(bytes > 0);
    if (strcmp(text_of(o, "kind"), "cast")) continue;
    assert_string_equal(text_of(o, "op"), "convert_element_type");
    casts++;
    by_grad += !strcmp(text_of(o, "by"), "grad") && *text_of(o, "of");
  }
  assert_true(casts > 4 && by_grad > 0 && by_grad < casts);
  assert_true(sum > 0 && sum < total);
  cJSON_Delete(all);
}

static void a_cast_costs_what_it_reads_and_writes(void **state) {
  RUN(&p, "explain", "loss", TINY, "--json");
  cJSON *all = explained();
  const cJSON *o;
  bool seen = false; /* pictures: 4 * 32 * 32 * 3 elements of 4 and of 2 bytes */
  cJSON_ArrayForEach(
      o, cJSON_GetObjectItem(all, "moves")) if (strstr(text_of(o, "what"),
                                                       "f32[4,32,32,3] -> bf16[4,32,32,3]")) {
    assert_int_equal(cJSON_GetObjectItem(o, "bytes")->valueint, 4 * 32 * 32 * 3 * 6);
    seen = true;
  }
  assert_true(seen);
  cJSON_Delete(all);
}

static void the_table_joins_like_layers_unless_all_are_wanted(void **state) {
  RUN(&p, "explain", "step", TINY);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "encoder_blocks.*"));
  assert_null(strstr(p.out, "encoder_blocks.1"));
  assert_non_null(strstr(p.out, "attention, kept as one kernel"));
  assert_non_null(strstr(p.out, "fold-convert: "));
  RUN(&p, "explain", "step", TINY, "--all", "--top", "500");
  assert_non_null(strstr(p.out, "encoder_blocks.1"));
  assert_null(strstr(p.out, "encoder_blocks.*"));
  RUN(&p, "explain", "gelu", "--grad", "--top", "3");
  assert_true(p.status == 2);
  RUN(&p, "explain", "dot");
  assert_non_null(strstr(p.out, "products as executed"));
}

/* A cast after the product in a step of scan goes into it. */
static void work_of_passes_within_loops_counts(void **state) {
  RUN(&p, "explain", "layers", "--json");
  cJSON *all = explained();
  const cJSON *o;
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "passes")) {
    int before = cJSON_GetObjectItem(o, "before")->valueint;
    assert_int_equal(before - cJSON_GetObjectItem(o, "after")->valueint,
                     !strcmp(text_of(o, "name"), "fold-convert"));
  }
  cJSON_Delete(all);
  RUN(&p, "explain", "loss", TINY, "--json");
  all = explained();
  int kept = 0;
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "composites")) kept +=
      !strcmp(text_of(o, "what"), "attention, kept as one kernel");
  assert_int_equal(kept, 2);
  cJSON_Delete(all);
}

/* Five steps of scan; a while, whose steps only a run knows. */
static void moves_within_loops_say_how_often_they_run(void **state) {
  RUN(&p, "explain", "layers", "--json");
  cJSON *all = explained();
  const cJSON *o;
  int by_scan = 0, by_while = 0;
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "moves")) {
    int times = cJSON_GetObjectItem(o, "times")->valueint;
    by_scan += times == 5 && !*text_of(o, "when") && strstr(text_of(o, "what"), "f32[16,16]");
    by_while += times == 1 && !strcmp(text_of(o, "when"), "each step of while");
  }
  assert_int_equal(by_scan, 1);
  assert_true(by_while >= 1);
  cJSON_Delete(all);
  RUN(&p, "explain", "layers");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "; each step of while"));
}

static int count_of(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text++) n++;
  return n;
}

/* Against the text of the compiled graph. */
static void every_cast_of_the_compiled_graph_is_listed(void **state) {
  const char *dtypes[] = {"bf16", "f16", "f32"}, *words[] = {"loss", "grad", "step"};
  for (int i = 0; i < 9; i++) {
    RUN(&p, "jaxpr", words[i / 3], TINY, "--compiled", "--dtype", dtypes[i % 3]);
    int want = count_of(p.out, "convert_element_type["), got = 0;
    RUN(&p, "explain", words[i / 3], TINY, "--json", "--dtype", dtypes[i % 3]);
    cJSON *all = explained();
    const cJSON *o;
    cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "moves")) {
      bool cast = !strcmp(text_of(o, "kind"), "cast");
      got += cast;
      if (cast) assert_non_null(strstr(text_of(o, "equation"), "= convert_element_type["));
      if (!strncmp(text_of(o, "by"), "amp ", 4))
        assert_string_equal(text_of(o, "row"), "amp=usual, others=class");
    }
    assert_int_equal(got, want);
    cJSON_Delete(all);
  }
}

/* The sum of the second column of the rows of a table, up to an empty line. */
static double sum_of_table(const char *header) {
  const char *at = strstr(p.out, header);
  double sum = 0;
  assert_non_null(at);
  for (at = strchr(at, '\n') + 1; *at && *at != '\n'; at = strchr(at, '\n') + 1)
    sum += strtod(at + 6, NULL);
  return sum;
}

static void sums_come_first_and_name_the_row(void **state) {
  RUN(&p, "explain", "grad", TINY, "--amp-rule", "attn = compute, gelu=f32", "--top", "1000");
  assert_int_equal(p.status, 0);
  const char *sums = strstr(p.out, "by what asked for them"), *rows = strstr(p.out, ": cause");
  assert_true(sums && rows && sums < rows);
  assert_non_null(strstr(rows, "amp-rule attn=compute: amp compute of reshape in "));
  const char *row = strstr(sums, "amp-rule attn=compute\n");
  assert_true(row && row < rows && strstr(sums, "grad\n") < rows);
  double all = sum_of_table("of it moved") / 2, causes = sum_of_table("by what asked for them");
  assert_true(all > 0 && causes > all - .05 && causes < all + .05); /* rows are rounded */
  assert_true(sum_of_table(": cause") > all - .2 && sum_of_table(": cause") < all + .2);
}

/* Times are of equations that do nothing but move; parts of kernels and loops have none. */
static void measured_times_are_parts_of_the_runs(void **state) {
  RUN(&p, "explain", "step", TINY, "--json", "--runs", "3");
  cJSON *all = explained();
  const cJSON *o, *run = cJSON_GetObjectItem(all, "ns");
  double sum = 0, shares = 0;
  int timed = 0, not_timed = 0;
  assert_true(run && run->valuedouble > 0);
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "moves")) {
    const cJSON *ns = cJSON_GetObjectItem(o, "ns");
    bool part = cJSON_GetObjectItem(o, "in_loop") || !strcmp(text_of(o, "kind"), "operand");
    if (!ns != part) fail_msg("%s: %s", ns ? "a time" : "no time", text_of(o, "what"));
    ns ? timed++ : not_timed++;
    sum += ns ? ns->valuedouble : 0;
    shares += ns ? cJSON_GetObjectItem(o, "time_share")->valuedouble : 0;
  }
  assert_true(timed > 10 && not_timed > 10 && sum > 0 && sum < run->valuedouble);
  assert_true(shares > 0.999 * sum / run->valuedouble && shares < 1.001 * sum / run->valuedouble);
  cJSON_Delete(all);
  RUN(&p, "explain", "step", TINY, "--json");
  all = explained();
  assert_null(cJSON_GetObjectItem(all, "ns"));
  cJSON_ArrayForEach(o, cJSON_GetObjectItem(all, "moves"))
      assert_null(cJSON_GetObjectItem(o, "time_share"));
  cJSON_Delete(all);
  RUN(&p, "explain", "step", TINY, "--runs", "1");
  assert_non_null(strstr(p.out, "calls          MB  share   time  casts, copies and transposes"));
  assert_non_null(strstr(p.out, "share that of planned bytes"));
  RUN(&p, "explain", "step", TINY, "--runs", "many");
  assert_true(p.status != 0 && strstr(p.err, "--runs"));
}

static void amp_none_is_taken_beside_f32_as_train_step_does(void **state) {
  RUN(&p, "explain", "grad", TINY, "--json", "--amp", "none", "--dtype", "f32");
  cJSON *all = explained();
  assert_true(every_product(all, "none", "f32"));
  cJSON_Delete(all);
  RUN(&p, "mem", "step", TINY, "--no-run", "--amp", "none", "--dtype", "f32");
  if (p.status) fail_msg("%s", p.err);
  RUN(&p, "explain", "grad", TINY, "--amp", "none");
  assert_true(p.status != 0 && strstr(p.err, "expected --dtype f32 beside it"));
  RUN(&p, "explain", "grad", TINY, "--amp", "never");
  assert_true(p.status != 0 && strstr(p.err, "expected usual, jaxamp or none"));
  RUN(&p, "explain", "grad", TINY, "--amp", "usual", "--dtype", "f32");
  assert_true(p.status != 0 && strstr(p.err, "--amp: nothing computes narrower"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_computed_as_asked),
      cmocka_unit_test(each_cast_has_a_cause_a_reader_and_bytes),
      cmocka_unit_test(a_cast_costs_what_it_reads_and_writes),
      cmocka_unit_test(the_table_joins_like_layers_unless_all_are_wanted),
      cmocka_unit_test(work_of_passes_within_loops_counts),
      cmocka_unit_test(moves_within_loops_say_how_often_they_run),
      cmocka_unit_test(every_cast_of_the_compiled_graph_is_listed),
      cmocka_unit_test(sums_come_first_and_name_the_row),
      cmocka_unit_test(measured_times_are_parts_of_the_runs),
      cmocka_unit_test(amp_none_is_taken_beside_f32_as_train_step_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
