/* millrace mem as a person meets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "tests/apps/program.h"

#define TINY "--layers", "1", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "4"

static program_t p;

static size_t after(const char *label) {
  const char *at = strstr(p.out, label);
  if (!at) fail_msg("\"%s\" is not in: %s%s", label, p.out, p.err);
  return strtoull(at + strlen(label), NULL, 10);
}

static void a_run_touches_what_was_planned_to_the_byte(void **state) {
  const char *words[] = {"loss", "grad", "step"}, *dtypes[] = {"f32", "bf16"};
  for (int i = 0; i < 6; i++) {
    RUN(&p, "mem", words[i / 2], TINY, "--dtype", dtypes[i % 2]);
    if (p.status) fail_msg("%s of %s: %s", words[i / 2], dtypes[i % 2], p.err);
    assert_true(after("planned peak ") > 10000);
    assert_int_equal(after("planned peak "), after("measured peak "));
  }
}

static void the_timeline_marks_one_peak_and_tensors_stand_there(void **state) {
  RUN(&p, "mem", "loss", TINY, "--timeline", "--no-run", "--top", "2");
  assert_int_equal(p.status, 0);
  char *mark = strstr(p.out, "<- peak");
  assert_non_null(mark);
  assert_null(strstr(mark + 1, "<- peak"));
  assert_non_null(strstr(p.out, "fused in encoder_blocks.0"));
  assert_non_null(strstr(p.out, "--top N shows them"));
  assert_null(strstr(p.out, "measured"));
}

static void a_size_to_fit_into_chooses_what_fits(void **state) {
  RUN(&p, "mem", "step", TINY, "--no-run");
  size_t whole = after("planned peak ");
  char size[32];
  snprintf(size, sizeof size, "%zuB", whole * 3 / 4);
  RUN(&p, "mem", "step", TINY, "--fit", size);
  if (p.status) fail_msg("%s", p.err);
  assert_true(after("planned peak ") <= whole * 3 / 4);
  assert_int_equal(after("planned peak "), after("measured peak "));
  assert_true(after("accumulate=") > 1 || strstr(p.out, "remat=full"));
  RUN(&p, "mem", "step", TINY, "--fit", "1k");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "the smallest peak is"));
  RUN(&p, "mem", "loss", TINY, "--fit", "1k");
  assert_int_equal(p.status, 2);
}

static void impossible_requests_are_refused_in_one_sentence(void **state) {
  RUN(&p, "mem", "sum");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "unknown function \"sum\"; expected loss, grad or step"));
}

static void too_large_a_batch_is_refused_with_the_planned_peak(void **state) {
  RUN(&p, "mem", "step", "--batch", "65536");
  assert_int_equal(p.status, 1);
  assert_non_null(strstr(p.err, "out of memory: the planned peak is "));
  RUN(&p, "mem", "step", "--batch", "65536", "--no-run");
  assert_int_equal(p.status, 0);
  assert_true(after("planned peak ") > (size_t)100 << 30);
}

static size_t bytes_of(const cJSON *o, const char *name) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
  return cJSON_IsNumber(v) ? (size_t)v->valuedouble : 0;
}

static size_t sum_of(const cJSON *o) {
  size_t sum = 0;
  for (const cJSON *v = o->child; v; v = v->next) sum += (size_t)v->valuedouble;
  return sum;
}

static cJSON *causes(void) {
  if (p.status) fail_msg("%s", p.err);
  cJSON *all = cJSON_Parse(p.out);
  assert_non_null(all);
  const cJSON *arena = cJSON_GetObjectItem(all, "arena"), *held = cJSON_GetObjectItem(all, "held");
  assert_int_equal(sum_of(arena), bytes_of(all, "planned_peak_bytes"));
  assert_int_equal(sum_of(held), bytes_of(all, "held_bytes"));
  assert_int_equal(bytes_of(all, "measured_peak_bytes"), bytes_of(all, "planned_peak_bytes"));
  assert_true(bytes_of(arena, "unused between blocks") < sum_of(arena) / 3);
  return all;
}

static void causes_add_up_for_models_and_dtypes(void **state) {
  const char *models[] = {"model=vit", "model=mlp"}, *dtypes[] = {"f32", "bf16", "f16"};
  for (int i = 0; i < 6; i++) {
    RUN(&p, "mem", "step", models[i / 3], "--batch", "8", "--json", "--dtype", dtypes[i % 3],
        i / 3 ? "hidden=32" : "layers=1");
    cJSON *all = causes();
    const cJSON *held = cJSON_GetObjectItem(all, "held"),
                *arena = cJSON_GetObjectItem(all, "arena");
    size_t params = bytes_of(held, "parameters, f32");
    assert_true(params > 0 && params == bytes_of(held, "adamw slot.0, f32"));
    assert_int_equal(params, bytes_of(held, "adamw slot.1, f32"));
    assert_true(bytes_of(held, "inputs: batch and scalars") >= 8 * 32 * 32 * 3 * 4);
    assert_true(i % 3 || !bytes_of(arena, "casts"));
    cJSON_Delete(all);
  }
}

/* The bytes of a step in all, of a model whose kernels are large beside its activations. */
static double step_bytes_in_all(const char *param, const char *master, const char *optimizer) {
  RUN(&p, "mem", "step", "model=vit", "layers=2", "--batch", "8", "--no-run", "--json", "--dtype",
      "bf16", "--param-dtype", param, "--master", master, "--optimizer", optimizer);
  if (p.status) fail_msg("%s", p.err);
  cJSON *all = cJSON_Parse(p.out);
  double bytes = cJSON_GetNumberValue(cJSON_GetObjectItem(all, "planned_peak_bytes")) +
                 cJSON_GetNumberValue(cJSON_GetObjectItem(all, "held_bytes"));
  cJSON_Delete(all);
  return bytes;
}

/* Half of the bytes of the parameters are saved at least: no copy in f32 lives through
   the step instead. */
static void narrow_parameters_without_a_master_copy_need_less_memory(void **state) {
  static const char *const optimizer[] = {"adamw", "sgd", "lion"};
  RUN(&p, "mem", "loss", "model=vit", "layers=2", "--batch", "8", "--no-run", "--json");
  cJSON *all = cJSON_Parse(p.out);
  double params = (double)bytes_of(cJSON_GetObjectItem(all, "held"), "parameters, f32");
  cJSON_Delete(all);
  assert_true(params > 0);
  for (int i = 0; i < 3; i++) {
    double wide = step_bytes_in_all("f32", "f32", optimizer[i]);
    double narrow = step_bytes_in_all("bf16", "none", optimizer[i]);
    if (!(narrow < wide - 0.5 * params))
      fail_msg("%s: %.0f bytes, %.0f with f32 parameters of %.0f", optimizer[i], narrow, wide,
               params);
  }
}

/* The recipe's step: what it keeps for the backward pass is what it keeps with f32 parameters, and
   no copy of a matrix. */
static void the_recipes_step_keeps_no_copy_of_narrow_parameters(void **state) {
  size_t kept[2], total[2], params = 0;
  for (int i = 0; i < 2; i++) {
    RUN(&p, "mem", "step", "--no-run", "--json", "--param-dtype", i ? "bf16" : "f32", "--master",
        i ? "none" : "f32");
    if (p.status) fail_msg("%s", p.err);
    cJSON *all = cJSON_Parse(p.out);
    const cJSON *arena = cJSON_GetObjectItem(all, "arena");
    kept[i] = bytes_of(arena, "activations kept for the backward pass");
    total[i] = bytes_of(all, "planned_peak_bytes") + bytes_of(all, "held_bytes");
    if (i)
      assert_true(bytes_of(arena, "casts") < 1 << 18);
    else
      params = bytes_of(cJSON_GetObjectItem(all, "held"), "parameters, f32");
    cJSON_Delete(all);
  }
  assert_true(kept[0] > 0 && kept[1] == kept[0]);
  if (!(total[1] < total[0] - params / 2 - params / 3))
    fail_msg("%zu bytes, %zu with f32 parameters of %zu", total[1], total[0], params);
}

/* A part of the batch reads what was computed again for the part before. */
static void a_batch_in_parts_is_planned_for_every_dtype_of_parameters(void **state) {
  static const char *const parts[] = {"2", "4", "8"}, *const dtype[] = {"bf16", "f16"};
  for (int i = 0; i < 12; i++) {
    RUN(&p, "mem", "step", "model=vit", "layers=1", "--batch", "8", "--json", "--dtype",
        dtype[i % 2], "--param-dtype", dtype[i % 2], "--master", i < 6 ? "none" : "f32",
        "--accumulate", parts[i / 2 % 3]);
    cJSON_Delete(causes());
  }
}

static void parameter_sets_that_are_kept_narrow_are_named_with_their_dtype(void **state) {
  RUN(&p, "mem", "step", TINY, "--json");
  cJSON *all = causes();
  size_t params = bytes_of(cJSON_GetObjectItem(all, "held"), "parameters, f32");
  size_t whole = bytes_of(all, "planned_peak_bytes");
  cJSON_Delete(all);
  RUN(&p, "mem", "step", TINY, "--json", "--param-dtype", "bf16", "--slot-dtype", "bf16", "--ema",
      "0.9");
  const cJSON *held = cJSON_GetObjectItem(all = causes(), "held");
  assert_int_equal(bytes_of(held, "master copy of the parameters, f32"), params);
  assert_int_equal(bytes_of(held, "adamw slot.0, bf16"), params / 2);
  assert_int_equal(bytes_of(held, "average of the parameters, f32"), params);
  cJSON_Delete(all);
  RUN(&p, "mem", "step", TINY, "--json", "--slot-dtype", "bf16"); /* widened one by one */
  size_t narrow = bytes_of(all = causes(), "planned_peak_bytes");
  cJSON_Delete(all);
  assert_int_equal(narrow, whole);
  RUN(&p, "mem", "step", TINY, "--json", "--param-dtype", "f16", "--master", "none", "--optimizer",
      "lion");
  held = cJSON_GetObjectItem(all = causes(), "held");
  assert_int_equal(bytes_of(held, "parameters, f16"), params / 2);
  assert_int_equal(bytes_of(held, "lion slot.0, f32"), params);
  assert_int_equal(bytes_of(held, "lion slot.1, f32"), 0);
  cJSON_Delete(all);
  RUN(&p, "mem", "step", TINY, "--master", "none");
  assert_true(p.status == 2 && strstr(p.err, "--master none: parameters are f32 without a copy"));
  RUN(&p, "mem", "step", TINY, "--ema", "1");
  assert_true(p.status == 2 && strstr(p.err, "expected a number in [0,0.9999999]"));
  RUN(&p, "mem", "step", TINY, "--optimizer", "adan");
  assert_true(p.status == 2 && strstr(p.err, "--optimizer: \"adan\""));
}

/* All shares together are a whole set. */
static void a_rank_holds_its_share_alone(void **state) {
  static const char *const rank[] = {"0", "1", "2"}, *const zero[] = {"0", "1", "2", "3"};
  RUN(&p, "mem", TINY, "--ordered", "4", "--json", "--no-run", "--dtype", "f32", "--ema", "0.5");
  cJSON *one = cJSON_Parse(p.out);
  size_t params = bytes_of(cJSON_GetObjectItem(one, "held"), "parameters, f32");
  assert_true(params > 0);
  cJSON_Delete(one);
  for (int z = 0; z < 4; z++) {
    size_t slots = 0, average = 0, values = 0;
    for (int r = 0; r < 3; r++) {
      RUN(&p, "mem", TINY, "--ordered", "4", "--mesh", "data=3", "--zero", zero[z], "--rank",
          rank[r], "--json", "--dtype", "f32", "--ema", "0.5");
      if (p.status) fail_msg("%s", p.err);
      cJSON *all = cJSON_Parse(p.out);
      const cJSON *held = cJSON_GetObjectItem(all, "held");
      const cJSON *arena = cJSON_GetObjectItem(all, "arena");
      assert_int_equal(sum_of(arena), bytes_of(all, "planned_peak_bytes"));
      assert_int_equal(sum_of(held), bytes_of(all, "held_bytes"));
      assert_int_equal(bytes_of(all, "measured_peak_bytes"), 0);
      values += bytes_of(held, z == 3 ? "parameters, this rank's share, f32" : "parameters, f32");
      slots += bytes_of(held, z ? "adamw slot.1, this rank's share, f32" : "adamw slot.1, f32");
      average += bytes_of(held, z ? "average of the parameters, this rank's share, f32"
                                  : "average of the parameters, f32");
      cJSON_Delete(all);
    }
    assert_int_equal(values, z == 3 ? params : 3 * params);
    assert_int_equal(slots, z ? params : 3 * params);
    assert_int_equal(average, slots);
  }
}

/* The numbers of a step that has run. */
static void a_rank_plans_what_its_step_takes(void **state) {
  static const char *const zero[] = {"0", "2", "3"};
  for (int z = 0; z < 3; z++) {
    RUN(&p, "bench", "step", "--layers", "1", "--batch", "8", "--ordered", "8", "--ranks", "2",
        "--zero", zero[z], "--steps", "1", "--warm-up", "0", "--json", "--dtype", "f32");
    if (p.status) fail_msg("%s", p.err);
    cJSON *run = cJSON_Parse(p.out);
    RUN(&p, "mem", "--layers", "1", "--batch", "8", "--mesh", "data=2", "--zero", zero[z],
        "--dtype", "f32", "--json");
    if (p.status) fail_msg("%s", p.err);
    cJSON *plan = cJSON_Parse(p.out);
    const cJSON *arena = cJSON_GetObjectItem(plan, "arena");
    assert_int_equal(bytes_of(plan, "planned_peak_bytes"), bytes_of(run, "planned_peak_bytes"));
    assert_true(bytes_of(arena, "gradients of parameters") > 0);
    assert_true(z || bytes_of(arena, "gradients of parameters") > sum_of(arena) / 2);
    cJSON_Delete(run), cJSON_Delete(plan);
  }
}

/* Parts of parameters and their slots; the stage of a pipeline. */
static void ranks_of_a_mesh_and_of_a_pipeline_are_planned(void **state) {
  RUN(&p, "mem", TINY, "--mesh", "data=2,model=2", "--json", "--dtype", "f32");
  cJSON *all = cJSON_Parse(p.out), *held = cJSON_GetObjectItem(all, "held");
  size_t part = bytes_of(held, "parameters, f32");
  assert_int_equal(bytes_of(held, "adamw slot.0, f32"), part);
  cJSON_Delete(all);
  RUN(&p, "mem", TINY, "--mesh", "data=2,model=2", "--zero", "1", "--json", "--dtype", "f32");
  held = cJSON_GetObjectItem(all = cJSON_Parse(p.out), "held");
  assert_int_equal(bytes_of(held, "parameters, f32"), part);
  size_t piece = bytes_of(held, "adamw slot.0, this rank's share, f32");
  assert_true(piece >= part * 2 / 5 && piece < part * 3 / 5); /* a half, and what is not cut */
  cJSON_Delete(all);
  RUN(&p, "mem", TINY, "--mesh", "data=2,model=2", "--zero", "3", "--json", "--dtype", "f32");
  held = cJSON_GetObjectItem(all = cJSON_Parse(p.out), "held");
  assert_int_equal(bytes_of(held, "adamw slot.0, this rank's share, f32"), piece);
  size_t values = bytes_of(held, "parameters, this rank's share, f32");
  assert_true(values >= piece && values < part * 3 / 5); /* pieces begin at multiples of 64 bytes */
  cJSON_Delete(all);
  RUN(&p, "mem", TINY, "--mesh", "data=2", "--pipeline", "2", "--microbatches", "4", "--rank", "1",
      "--json", "--dtype", "f32");
  held = cJSON_GetObjectItem(all = cJSON_Parse(p.out), "held");
  size_t whole = bytes_of(held, "parameters, f32");
  size_t stage = bytes_of(held, "adamw slot.0, this rank's share, f32");
  assert_true(part > 0 && part < whole && stage > 0 && stage < whole);
  cJSON_Delete(all);
  for (int z = 0; z < 2; z++) {
    size_t slots = 0, shares = 0;
    for (int r = 0; r < 4; r++) {
      static const char *const rank[] = {"0", "1", "2", "3"};
      RUN(&p, "mem", TINY, "--mesh", "data=4", "--pipeline", "2", "--microbatches", "4", "--zero",
          z ? "3" : "0", "--rank", rank[r], "--json", "--dtype", "f32");
      if (p.status) fail_msg("%s", p.err);
      held = cJSON_GetObjectItem(all = cJSON_Parse(p.out), "held");
      if (!z) assert_int_equal(bytes_of(held, "parameters, f32"), whole);
      if (z) shares += bytes_of(held, "parameters, this rank's share, f32");
      slots += bytes_of(held, "adamw slot.0, this rank's share, f32");
      cJSON_Delete(all);
    }
    assert_int_equal(slots, whole);
    assert_int_equal(shares, z ? whole : 0);
  }
  RUN(&p, "mem", TINY, "--mesh", "data=2", "--pipeline", "2", "--microbatches", "4");
  assert_true(!p.status && strstr(p.out, "pipeline of 2 stages"));
  assert_non_null(strstr(p.out, "rank 0 of 2 on the mesh data=2"));
}

static void ranks_that_do_not_fit_are_refused(void **state) {
  static const struct {
    const char *flag[4], *said;
  } bad[] = {
      {{"--zero", "1", "--top", "1"}, "mem: --zero: expected --mesh beside it"},
      {{"--partition", "*=P()", "--top", "1"}, "mem: --partition: expected --mesh beside it"},
      {{"--pipeline", "2", "--top", "1"}, "mem: --pipeline: expected --mesh beside it"},
      {{"--rank", "1", "--top", "1"}, "mem: --rank: expected --mesh beside it"},
      {{"--mesh", "data=2", "--rank", "2"}, "--rank: \"2\""},
      {{"--mesh", "data=2", "--fit", "1G"}, "mem: --fit: expected no --mesh beside it"},
      {{"--mesh", "data=9", "--top", "1"}, "mem: --mesh: 9 ranks that share ordered=8 parts"},
      {{"--mesh", "data=2,model=2", "--accumulate", "2"}, "beside a mesh that cuts parameters"},
      {{"--mesh", "data=2", "--accumulate", "2"}, "beside ordered=8"},
      {{"--mesh", "data=2,model=2", "--zero", "4"}, "--zero: \"4\""},
      {{"--mesh", "data=1", "--pipeline", "2"}, "2 stages of 1 ranks"},
      {{"--mesh", "data=2;", "--top", "1"}, "mem: --mesh: mesh \"data=2;\""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *const *f = bad[i].flag;
    RUN(&p, "mem", "--layers", "1", "--batch", "16", f[0], f[1], f[2], f[3]);
    if (p.status != 2 || !strstr(p.err, bad[i].said))
      fail_msg("status %d: \"%s\" is not in: %s", p.status, bad[i].said, p.err);
  }
  RUN(&p, "mem", "grad", TINY, "--mesh", "data=2");
  assert_true(p.status == 2 && strstr(p.err, "mem: --mesh: grad, expected function step"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_touches_what_was_planned_to_the_byte),
      cmocka_unit_test(the_timeline_marks_one_peak_and_tensors_stand_there),
      cmocka_unit_test(a_size_to_fit_into_chooses_what_fits),
      cmocka_unit_test(impossible_requests_are_refused_in_one_sentence),
      cmocka_unit_test(causes_add_up_for_models_and_dtypes),
      cmocka_unit_test(narrow_parameters_without_a_master_copy_need_less_memory),
      cmocka_unit_test(the_recipes_step_keeps_no_copy_of_narrow_parameters),
      cmocka_unit_test(a_batch_in_parts_is_planned_for_every_dtype_of_parameters),
      cmocka_unit_test(parameter_sets_that_are_kept_narrow_are_named_with_their_dtype),
      cmocka_unit_test(too_large_a_batch_is_refused_with_the_planned_peak),
      cmocka_unit_test(a_rank_holds_its_share_alone),
      cmocka_unit_test(a_rank_plans_what_its_step_takes),
      cmocka_unit_test(ranks_of_a_mesh_and_of_a_pipeline_are_planned),
      cmocka_unit_test(ranks_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
