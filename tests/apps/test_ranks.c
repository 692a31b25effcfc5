/* millrace explain --mesh --array as a person meets it, and the ranks that doctor reports. */
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
  prints(MESH, "8=[B,P]", "along model the ranks hold terms of a sum\n");
}

static void wrong_arrays_and_meshes_are_refused(void **state) {
  refuses("data=4,data=2", "8=B",
          "explain: --mesh: mesh \"data=4,data=2\": \"data=2\": expected each axis once");
  refuses(MESH, "8", "--array 8: expected SHAPE=PLACEMENT");
  refuses(MESH, "8y=B", "--array 8y: expected at most 8 sizes from 1");
  refuses(MESH, "8x=B", "--array 8x: expected");
  refuses(MESH, "0=B", "--array 0: expected");
  refuses(MESH, "1x1x1x1x1x1x1x1x1=B", "expected at most 8 sizes");
  refuses(MESH, "9999999999=B", "--array 9999999999: expected");
  refuses(MESH, "9=(model)", "dimension 0 of 9 does not divide among the 2 ranks of model");
  refuses(MESH, "encoder_blocks.0.linear1.kernal=B",
          "did you mean \"encoder_blocks.0.linear1.kernel\"?");
  RUN(&p, "explain", "--mesh", MESH);
  assert_true(p.status == 2 && strstr(p.err, "expected --array beside it"));
  RUN(&p, "explain", "--mesh", MESH, "--array", "8=B", "step");
  assert_true(p.status == 2 && strstr(p.err, "expected no function beside"));
  RUN(&p, "explain", "--mesh", MESH, "--array", "8=B", "--json");
  assert_true(p.status == 2 && strstr(p.err, "--json: expected no --mesh"));
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
      cmocka_unit_test(a_mesh_has_as_many_ranks_as_the_launcher_has_started),
      cmocka_unit_test(doctor_reports_the_launcher_or_why_it_is_unknown),
  };
  return cmocka_run_group_tests(tests, leave_the_job, NULL);
}
