/* millrace explain --mesh --array as a person meets it, and the ranks that doctor reports. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/apps/program.h"

static program_t p;

/* The tests may run within a job themselves. */
static int leave_the_job(void **state) {
  static const char *const names[] = {"RANK",
                                      "WORLD_SIZE",
                                      "LOCAL_RANK",
                                      "LOCAL_WORLD_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "GROUP_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "PMI_FD",
                                      "SLURM_JOB_ID",
                                      "SLURM_STEP_NUM_TASKS",
                                      "OMPI_COMM_WORLD_RANK",
                                      "JOB_COMPLETION_INDEX"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
  return 0;
}

static void prints(const char *mesh, const char *array, const char *want) {
  RUN(&p, "explain", "--mesh", mesh, "--array", array);
  if (p.status || !strstr(p.out, want)) fail_msg("\"%s\" is not in: %s%s", want, p.out, p.err);
}

static void refuses(const char *mesh, const char *array, const char *sentence) {
  RUN(&p, "explain", "--mesh", mesh, "--array", array);
  assert_int_equal(p.status, 2);
  if (!strstr(p.err, sentence)) fail_msg("\"%s\" is not in: %s", sentence, p.err);
}

#define MESH "data=4,model=2"

static void an_array_is_drawn_by_shape_or_name(void **state) {
  prints(MESH, "384x1536=(None,model)",
         "384x1536 as (None,model) on the mesh data=4,model=2: 384x768 on each rank, 2 parts on 4 "
         "ranks each\n");
  prints(MESH, "384x1536=(None,model)", "│ 0,2,4,6  │ 1,3,5,7  │\n");
  prints(MESH, "encoder_blocks.0.linear1.kernel=column", "384x1536 as (None,model)");
  prints(MESH, "encoder_blocks.0.linear1.kernel", "384x1536 as (None,model)");
  prints("data=8", "encoder_blocks.0.linear1.kernel", "1 part on 8 ranks each");
  prints(MESH, "8=[B,P]", "along model the ranks hold terms of a sum\n");
}

static void wrong_arrays_and_meshes_are_refused(void **state) {
  refuses("data=4,data=2", "8=B",
          "explain: --mesh: mesh \"data=4,data=2\": \"data=2\": expected each axis once");
  refuses(MESH, "8", "--array 8: expected SHAPE=PLACEMENT");
  refuses(MESH, "head.kernl", "did you mean \"head.kernel\"?");
  refuses(MESH, "8y=B", "--array 8y: expected at most 8 sizes from 1");
  refuses(MESH, "8x=B", "--array 8x: expected");
  refuses(MESH, "0=B", "--array 0: expected");
  refuses(MESH, "1x1x1x1x1x1x1x1x1=B", "expected at most 8 sizes");
  refuses(MESH, "9999999999=B", "--array 9999999999: expected");
  refuses(MESH, "9=(model)", "dimension 0 of 9 does not divide among the 2 ranks of model");
  refuses(MESH, "encoder_blocks.0.linear1.kernal=B",
          "did you mean \"encoder_blocks.0.linear1.kernel\"?");
  RUN(&p, "explain", "--mesh", MESH, "--array", "8=B", "step");
  assert_true(p.status == 2 && strstr(p.err, "expected no function beside"));
  RUN(&p, "explain", "--mesh", MESH, "--array", "8=B", "--json");
  assert_true(p.status == 2 && strstr(p.err, "--json: expected no --array"));
}

#define TINY \
  "--layers", "2", "--embed", "32", "--mlp", "64", "--heads", "2", "--batch", "8", "--dtype", "f32"

/* How many lines have both texts. */
static int lines_with(const char *a, const char *b) {
  int n = 0;
  for (const char *at = p.out; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
    size_t length = strcspn(at, "\n");
    const char *x = strstr(at, a), *y = strstr(at, b);
    n += x && y && x < at + length && y < at + length;
  }
  return n;
}

/* What ranks report goes to all, shares of gradients go to their ranks and come back as sums. */
static void the_collectives_of_a_step_are_printed_with_their_bytes(void **state) {
  RUN(&p, "explain", "--mesh", "batch=8,model=1", TINY);
  if (p.status) fail_msg("%s", p.err);
  assert_non_null(strstr(p.out, "step on the mesh batch=8,model=1: 3 collectives"));
  assert_int_equal(lines_with("all_to_all", "batch "), 1);
  assert_int_equal(lines_with("all_gather", "exchange"), 2);
  const char *row = strstr(p.out, "all_gather");
  int64_t elements = 0, bytes = 0;
  assert_int_equal(sscanf(row, "all_gather batch f32[%" SCNd64 "] %" SCNd64, &elements, &bytes), 2);
  assert_int_equal(bytes, 7 * 4 * elements);
  RUN(&p, "explain", "step", "--mesh", "data=3", "--zero", "1", TINY);
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(lines_with("all_gather", "adamw"), 2); /* the norm, and new parameters */
  RUN(&p, "explain", "--mesh", "data=1", TINY);
  assert_true(p.status == 0 && strstr(p.out, ": 0 collectives"));
}

/* Megatron's columns and rows: a sum forward at the rows, one backward before the columns. */
static void the_collectives_of_a_cut_function_name_the_equations_that_need_them(void **state) {
  static const char rules[] =
      "*.linear1.kernel=(None,model), *.linear1.bias=(model), "
      "*.linear2.kernel=(model,None)";
  RUN(&p, "explain", "loss", "--mesh", MESH, "--partition", rules, TINY);
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(lines_with("psum            model", "in encoder_blocks.0.linear2"), 1);
  assert_int_equal(lines_with("psum            model", ""), 2);
  RUN(&p, "explain", "grad", "--mesh", MESH, "--partition", rules, TINY);
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(lines_with("psum            model", ""), 4);
  assert_int_equal(lines_with("psum            data", "in encoder_blocks.1.linear1"), 2);
  RUN(&p, "explain", "grad", "--mesh", MESH, TINY);
  assert_int_equal(lines_with("psum            model", ""), 0);
  RUN(&p, "explain", "step", "--mesh", MESH, "--zero", "1", TINY);
  int scattered = lines_with("reduce_scatter  data", ""),
      gathered = lines_with("all_gather      data", "");
  assert_true(scattered > 0 && scattered == gathered);
}

static void functions_that_do_not_fit_a_mesh_are_refused(void **state) {
  static const struct {
    const char *word, *mesh, *flag, *value, *said;
  } bad[] = {
      {"step", MESH, "--accumulate", "2", "beside a mesh that cuts parameters"},
      {"step", "data=2", "--partition", "*.kernel=(model)", "has no axis \"model\""},
      {"step", "data=9", "--top", "1", "9 ranks"},
      {"step", "data=2", "--zero", "7", "--zero: \"7\""},
      {"loss", "data=2", "--zero", "1", "expected function step"},
      {"loss", "data=3", "--top", "1",
       "8 records does not divide among the 3 ranks of data: 2 left"},
      {"loss", MESH, "--partition", "*.linear9.kernel=(model)",
       "did you mean \"*.linear1.kernel\"?"},
      {"loss", MESH, "--partition", "*.linear1.kernel=(tensor)", "has no axis \"tensor\""},
      {"loss", MESH, "--partition", "*.linear1.kernel=(None,None,model)",
       "more entries than the 2"},
      {"loss", "data=2,model=5", "--partition", "*.linear1.kernel=(None,model)",
       "dimension 1 of 64 does not divide among the 5 ranks of model: 4 are left over"},
      {"poly", MESH, "--top", "1", "expected loss, grad or step"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    RUN(&p, "explain", bad[i].word, "--mesh", bad[i].mesh, bad[i].flag, bad[i].value, TINY);
    if (!p.status || !strstr(p.err, bad[i].said))
      fail_msg("%s: \"%s\" is not in: %s", bad[i].mesh, bad[i].said, p.err);
  }
}

static void flags_of_a_mesh_need_one(void **state) {
  static const char *const flag[][2] = {
      {"--zero", "1"}, {"--partition", "*=P()"}, {"--pipeline", "2"}};
  for (int i = 0; i < 3; i++) {
    char said[64];
    snprintf(said, sizeof said, "explain: %s: expected --mesh beside it", flag[i][0]);
    RUN(&p, "explain", "step", flag[i][0], flag[i][1], TINY);
    if (p.status != 2 || !strstr(p.err, said)) fail_msg("%s: %s", said, p.err);
  }
}

static void a_mesh_has_as_many_ranks_as_the_launcher_has_started(void **state) {
  setenv("PMI_RANK", "1", 1), setenv("PMI_SIZE", "6", 1);
  prints("data=3,model=2", "6=(data)", "on the mesh data=3,model=2");
  refuses(MESH, "8=(data)", "has 8 places, but the job has 6 ranks");
  RUN(&p, "explain", "--array", "6=(data)");
  assert_true(p.status == 0 && strstr(p.out, "on the mesh data=6"));
  unsetenv("PMI_RANK"), unsetenv("PMI_SIZE");
}

/* A row of doctor's section about ranks, until the next call. */
static const char *row_of_ranks(const char *name) {
  static char text[1200];
  RUN(&p, "doctor", "--json");
  cJSON *all = cJSON_Parse(p.out);
  const cJSON *row = cJSON_GetObjectItem(cJSON_GetObjectItem(all, "ranks"), name);
  snprintf(text, sizeof text, "%s", cJSON_IsString(row) ? row->valuestring : "no such row");
  cJSON_Delete(all);
  return text;
}

static void doctor_reports_the_launcher_or_why_it_is_unknown(void **state) {
  assert_string_equal(row_of_ranks("launcher"), "none");
  assert_string_equal(row_of_ranks("communicator"), "threads");
  setenv("RANK", "1", 1), setenv("WORLD_SIZE", "2", 1), setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "7000", 1);
  assert_string_equal(row_of_ranks("launcher"), "torchrun");
  assert_string_equal(row_of_ranks("rank0"), "127.0.0.1:7000");
  assert_string_equal(row_of_ranks("rank0_address"), "127.0.0.1");
  assert_string_equal(row_of_ranks("communicator"), "zmq");
  assert_null(strstr(row_of_ranks("missing"), "MILLRACE_SECRET"));
  setenv("MASTER_ADDR", "192.0.2.1", 1); /* of another host */
  assert_non_null(strstr(row_of_ranks("missing"), "set MILLRACE_SECRET to the same 64"));
  setenv("MILLRACE_SECRET", "00", 1);
  assert_null(strstr(row_of_ranks("missing"), "MILLRACE_SECRET"));
  unsetenv("MILLRACE_SECRET");
  setenv("RANK", "2", 1);
  assert_string_equal(row_of_ranks("launcher"), "unknown");
  assert_non_null(strstr(row_of_ranks("missing"), "RANK=2: expected a rank below WORLD_SIZE=2"));
  unsetenv("RANK"), unsetenv("WORLD_SIZE"), unsetenv("MASTER_ADDR"), unsetenv("MASTER_PORT");
  setenv("SLURM_JOB_ID", "1", 1);
  assert_non_null(strstr(row_of_ranks("missing"), "srun has not started this process"));
  unsetenv("SLURM_JOB_ID");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_array_is_drawn_by_shape_or_name),
      cmocka_unit_test(wrong_arrays_and_meshes_are_refused),
      cmocka_unit_test(the_collectives_of_a_step_are_printed_with_their_bytes),
      cmocka_unit_test(the_collectives_of_a_cut_function_name_the_equations_that_need_them),
      cmocka_unit_test(functions_that_do_not_fit_a_mesh_are_refused),
      cmocka_unit_test(flags_of_a_mesh_need_one),
      cmocka_unit_test(a_mesh_has_as_many_ranks_as_the_launcher_has_started),
      cmocka_unit_test(doctor_reports_the_launcher_or_why_it_is_unknown),
  };
  return cmocka_run_group_tests(tests, leave_the_job, NULL);
}
