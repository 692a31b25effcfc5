/* millrace profile: its files are read back by a JSON reader and its figures fit each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/apps/program.h"

static program_t p;
static char dir[] = "/tmp/millrace-profile-XXXXXX", trace[64], flame[64], json[64];

static int measure(void **state) {
  if (!mkdtemp(dir)) return -1;
  snprintf(trace, sizeof trace, "%s/trace.json", dir);
  snprintf(flame, sizeof flame, "%s/flame.svg", dir);
  snprintf(json, sizeof json, "%s/profile.json", dir);
  RUN(&p, "profile", "--steps", "3", "data=synthetic", "batch=8", "valid_batch=8", "layers=2",
      "embed=64", "mlp=128", "heads=4", "--trace", trace, "--flame", flame, "--json", json);
  return 0;
}

static int clean_up(void **state) {
  remove(trace), remove(flame), remove(json);
  return rmdir(dir);
}

static char *text_of(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s is not there", path);
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  char *text = malloc(n + 1);
  rewind(f);
  assert_int_equal(fread(text, 1, n, f), n);
  text[n] = 0;
  fclose(f);
  return text;
}

static cJSON *read_json(const char *path) {
  char *text = text_of(path);
  cJSON *o = cJSON_Parse(text);
  if (!o) fail_msg("%s is no JSON: %.200s", path, text);
  free(text);
  return o;
}

static double number(const cJSON *o, const char *name) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
  if (!cJSON_IsNumber(v)) fail_msg("no number %s", name);
  return v->valuedouble;
}

static void says_limits_ops_scopes_and_the_three_sums(void **state) {
  static const char *const words[] = {
      "f32 multiply-add", "bf16 multiply-add", "copy (read",
      "encoder_blocks.1", "matrix products",   "bandwidth-bound",
      "3 steps of",       "all ops",           "where the time goes"};
  if (p.status) fail_msg("status %d: %s", p.status, p.err);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (!strstr(p.out, words[i])) fail_msg("\"%s\" is not in: %s", words[i], p.out);
}

static void sums_of_the_json_file_are_those_of_its_calls(void **state) {
  static const char *const kind[] = {"matrix products", "bandwidth-bound", "other"};
  cJSON *o = read_json(json);
  const cJSON *c, *sums = cJSON_GetObjectItem(o, "sums");
  double ms = 0, gflop = 0, sum_ms = 0, sum_gflop = 0;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(o, "calls")) {
    ms += number(c, "ms"), gflop += number(c, "gflop");
    assert_true(number(c, "limit_ms") >= 0 && number(c, "mb") > 0);
  }
  for (int k = 0; k < 3; k++) {
    const cJSON *s = cJSON_GetObjectItem(sums, kind[k]);
    sum_ms += number(s, "ms"), sum_gflop += number(s, "gflop");
  }
  assert_true(ms > 0 && ms - sum_ms < 1e-9 && sum_ms - ms < 1e-9);
  assert_true(gflop > 0 && gflop - sum_gflop < 1e-9 && sum_gflop - gflop < 1e-9);
  assert_true(ms <= number(o, "step_ms"));
  assert_int_equal(number(o, "steps"), 3);
  assert_true(number(cJSON_GetObjectItem(o, "limits"), "f32_gflops") > 0);
  assert_true(number(cJSON_GetObjectItem(o, "limits"), "copy_gbs") > 0);
  cJSON_Delete(o);
}

/* The table shows the ops that took longest; the file all of them. */
static int calls_of(const cJSON *profile, const char *op, const char *what) {
  const cJSON *c;
  int n = 0;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(profile, "calls")) {
    int same = !strcmp(cJSON_GetObjectItem(c, "op")->valuestring, op);
    n += same && strstr(cJSON_GetObjectItem(c, "shape")->valuestring, what) != NULL;
  }
  return n;
}

static void ops_say_what_they_are_made_of(void **state) {
  cJSON *o = read_json(json);
  assert_true(calls_of(o, "fused", "; gelu dropout") >= 2); /* one a layer */
  assert_true(calls_of(o, "dot_general", "bf16[") >= 2 * 6);
  assert_true(calls_of(o, "adamw", "f32[") >= 1);
  cJSON_Delete(o);
}

static void every_kernel_of_the_trace_lies_within_its_step(void **state) {
  cJSON *o = read_json(trace);
  const cJSON *e;
  double from = 0, to = 0;
  int steps = 0, kernels = 0;
  cJSON_ArrayForEach(e, cJSON_GetObjectItem(o, "traceEvents")) {
    if (strcmp(cJSON_GetObjectItem(e, "ph")->valuestring, "X") != 0) continue;
    double ts = number(e, "ts"), end = ts + number(e, "dur");
    if (!strncmp(cJSON_GetObjectItem(e, "name")->valuestring, "step ", 5)) {
      assert_true(ts >= to);
      from = ts, to = end, steps++;
      continue;
    }
    kernels++;
    assert_true(ts >= from - 0.01 && end <= to + 0.01); /* microseconds, three decimals */
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(e, "args"), "scope"));
  }
  assert_int_equal(steps, 3);
  assert_true(kernels > 100 && kernels % 3 == 0);
  cJSON_Delete(o);
}

static void flame_graph_has_a_titled_box_for_scopes_and_ops(void **state) {
  char *svg = text_of(flame);
  assert_non_null(strstr(svg, "<svg xmlns="));
  assert_non_null(strstr(svg, "<title>encoder_blocks.0: "));
  assert_non_null(strstr(svg, "<title>dot_general: "));
  assert_non_null(strstr(svg, "prefers-color-scheme:dark"));
  assert_null(strstr(svg, "<script"));
  assert_non_null(strstr(svg, "</svg>"));
  free(svg);
}

static void graphs_without_a_training_step_are_refused(void **state) {
  RUN(&p, "profile", "synthetic ! batch 8 ! null");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "no train-step"));
}

static void a_stream_that_ends_too_early_is_said(void **state) {
  RUN(&p, "profile",
      "synthetic n=24 ! sequential epochs=1 ! normalize preset=cifar10 ! batch 8 ! "
      "vit-step layers=1 embed=32 mlp=32 heads=2 steps=2");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "ended within"));
}

/* Even before the graph is looked at, which has no training step. */
static void a_file_that_cannot_be_written_is_reported_before_measuring(void **state) {
  static const char *const flag[] = {"--trace", "--flame", "--json"};
  for (int k = 0; k < 3; k++) {
    char want[128];
    snprintf(want, sizeof want, "profile: %s: /none/there/x: cannot make the file: No such",
             flag[k]);
    RUN(&p, "profile", "synthetic ! batch 8 ! null", flag[k], "/none/there/x");
    assert_int_equal(p.status, 1);
    assert_string_equal(p.out, "");
    if (!strstr(p.err, want)) fail_msg("no \"%s\" in: %s", want, p.err);
  }
  RUN(&p, "profile", "synthetic ! batch 8 ! null", "--json", dir);
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "is a folder"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_limits_ops_scopes_and_the_three_sums),
      cmocka_unit_test(ops_say_what_they_are_made_of),
      cmocka_unit_test(sums_of_the_json_file_are_those_of_its_calls),
      cmocka_unit_test(every_kernel_of_the_trace_lies_within_its_step),
      cmocka_unit_test(flame_graph_has_a_titled_box_for_scopes_and_ops),
      cmocka_unit_test(graphs_without_a_training_step_are_refused),
      cmocka_unit_test(a_stream_that_ends_too_early_is_said),
      cmocka_unit_test(a_file_that_cannot_be_written_is_reported_before_measuring),
  };
  return cmocka_run_group_tests(tests, measure, clean_up);
}
