/* Launchers by the variables that they set.  The environments are those of real launchers, taken
   down on Debian 12: Slurm 22.05, Open MPI 4.1, MPICH 4.0, PyTorch 1.13; scripts/check-ranks.sh
   asks the launchers themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launcher.h"

/* An environment as "NAME=value NAME=value"; the later one of two counts. */
typedef struct environment {
  const char *text[4];
} environment_t;

static const char *variable_of_text(void *arg, const char *name) {
  environment_t *e = arg;
  size_t n = strlen(name);
  const char *found = NULL;
  for (int i = 0; i < 4 && e->text[i]; i++)
    for (const char *at = e->text[i]; *at; at += strcspn(at, " "), at += strspn(at, " "))
      if (!strncmp(at, name, n) && at[n] == '=') found = at + n + 1;
  if (!found) return NULL;
  /* A few values live at the same time. */
  static char room[8][512];
  static int turn;
  char *to = room[turn++ % 8];
  snprintf(to, sizeof room[0], "%.*s", (int)strcspn(found, " "), found);
  return to;
}

#define SRUN                                                                                \
  "SLURM_JOB_ID=4099 SLURM_STEP_ID=2 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3 SLURM_NTASKS=3 " \
  "SLURM_STEP_NUM_NODES=2 SLURM_NODEID=1 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=2,1 "    \
  "SLURM_STEP_NODELIST=gpu[07-08]"
#define SCRIPT_OF_JOB                                                            \
  "SLURM_JOB_ID=5 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=2 SLURM_PROCID=0 " \
  "SLURM_TASKS_PER_NODE=2"
#define DAEMON_OF_MPIRUN                                                                 \
  "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=2 " \
  "SLURM_STEP_NUM_NODES=1 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 "   \
  "SLURM_STEP_NODELIST=n1"
#define OPEN_MPI                                                                \
  "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 " \
  "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 PMIX_RANK=3"
#define HYDRA "PMI_RANK=1 PMI_SIZE=2 PMI_FD=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"
#define TORCHRUN                                                                         \
  "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 " \
  "ROLE_RANK=5 MASTER_ADDR=10.0.0.7 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none "         \
  "TORCHELASTIC_USE_AGENT_STORE=True"
#define BY_HAND "RANK=2 WORLD_SIZE=3 MASTER_ADDR=gpu07 MASTER_PORT=29500"
#define KUBERNETES "JOB_COMPLETION_INDEX=2 MILLRACE_RANKS=4 MILLRACE_RANK0=train-0.train"

static mr_launch_t read_of(const char *a, const char *b, const char *c) {
  environment_t e = {{a, b, c}};
  mr_diag_t diag = {0};
  mr_launch_t l;
  mr_err_t got = mr_launch_read(variable_of_text, &e, &l, &diag);
  if (got != MR_OK || *diag.text) fail_msg("%s", diag.text);
  return l;
}

static void refused(const char *a, const char *b, const char *sentence) {
  environment_t e = {{a, b}};
  mr_diag_t diag = {0};
  mr_launch_t l;
  assert_int_equal(mr_launch_read(variable_of_text, &e, &l, &diag), MR_ERR_CONFIG);
  if (!strstr(diag.text, sentence)) fail_msg("\"%s\" is not in: %s", sentence, diag.text);
  assert_int_equal(l.launcher, MR_LAUNCHER_NONE);
  assert_int_equal(l.rank, 0);
  assert_int_equal(l.size, 1);
}

static void want_ranks(const mr_launch_t *l, mr_launcher_t launcher, int rank, int size,
                       int local_rank, int local_size, int node, int n_nodes) {
  assert_int_equal(l->launcher, launcher);
  assert_int_equal(l->rank, rank);
  assert_int_equal(l->size, size);
  assert_int_equal(l->local_rank, local_rank);
  assert_int_equal(l->local_size, local_size);
  assert_int_equal(l->node, node);
  assert_int_equal(l->n_nodes, n_nodes);
}

static void without_a_launcher_a_process_is_rank_0_of_1(void **state) {
  mr_launch_t l = read_of("PATH=/bin", NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1);
  assert_string_equal(l.host, "");
  assert_false(l.in_allocation);
  assert_string_equal(mr_launcher_name(l.launcher), "none");
}

static void srun_gives_ranks_hosts_and_an_address(void **state) {
  mr_launch_t l = read_of(SRUN, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_SLURM, 2, 3, 0, 1, 1, 2);
  assert_string_equal(l.host, "gpu07");
  assert_int_equal(l.port, 61440 + 5);
  assert_null(l.mpi); /* --mpi=none */
  l = read_of(SRUN, "PMI_RANK=2 PMI_SIZE=3 PMI_FD=11", NULL);
  want_ranks(&l, MR_LAUNCHER_SLURM, 2, 3, 0, 1, 1, 2);
  assert_string_equal(l.mpi, "PMI of Slurm");
}

static void the_script_of_a_job_is_no_rank_of_it(void **state) {
  mr_launch_t l = read_of(SCRIPT_OF_JOB, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1);
  assert_true(l.in_allocation);
}

static void mpirun_gives_ranks_and_leaves_the_address_to_mpi(void **state) {
  mr_launch_t l = read_of(OPEN_MPI, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_OPEN_MPI, 3, 4, 1, 2, -1, -1);
  assert_string_equal(l.host, "");
  assert_int_equal(l.port, 0);
  assert_string_equal(l.mpi, "Open MPI");
  l = read_of(HYDRA, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_MPICH, 1, 2, 1, 2, 0, 1); /* all ranks on this host: it is the one */
  l = read_of("PMI_RANK=1 PMI_SIZE=2", NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_MPICH, 1, 2, -1, -1, -1, -1);
}

static void torchrun_gives_all_and_keeps_its_own_port(void **state) {
  mr_launch_t l = read_of(TORCHRUN, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2);
  assert_string_equal(l.host, "10.0.0.7");
  assert_int_not_equal(l.port, 29500);
  assert_in_range(l.port, 61440, 65535);
  l = read_of(BY_HAND, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_TORCHRUN, 2, 3, -1, -1, -1, -1);
  assert_int_equal(l.port, 29500); /* no launcher listens there */
}

static void an_indexed_job_needs_its_size_and_the_address_of_index_0(void **state) {
  mr_launch_t l = read_of(KUBERNETES, NULL, NULL);
  want_ranks(&l, MR_LAUNCHER_KUBERNETES, 2, 4, 0, 1, 2, 4);
  assert_string_equal(l.host, "train-0.train");
  assert_int_equal(l.port, 61440);
  l = read_of("JOB_COMPLETION_INDEX=2 MILLRACE_RANKS=1", NULL, NULL); /* each by itself */
  want_ranks(&l, MR_LAUNCHER_NONE, 0, 1, 0, 1, 0, 1);
  refused("JOB_COMPLETION_INDEX=2", NULL, "MILLRACE_RANKS is not set");
  refused("JOB_COMPLETION_INDEX=2 MILLRACE_RANKS=4", NULL, "MILLRACE_RANK0 is not set");
  refused("JOB_COMPLETION_INDEX=4 MILLRACE_RANKS=4 MILLRACE_RANK0=a", NULL,
          "JOB_COMPLETION_INDEX=4: expected a rank below MILLRACE_RANKS=4");
}

static void of_nested_launchers_the_innermost_counts(void **state) {
  mr_launch_t l = read_of(DAEMON_OF_MPIRUN, OPEN_MPI, NULL);
  want_ranks(&l, MR_LAUNCHER_OPEN_MPI, 3, 4, 1, 2, -1, -1);
  l = read_of(DAEMON_OF_MPIRUN, HYDRA, NULL);
  want_ranks(&l, MR_LAUNCHER_MPICH, 1, 2, 1, 2, 0, 1);
  l = read_of(SRUN, TORCHRUN, NULL);
  want_ranks(&l, MR_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2);
  l = read_of(OPEN_MPI, TORCHRUN, NULL);
  want_ranks(&l, MR_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2);
  l = read_of("JOB_COMPLETION_INDEX=1", TORCHRUN, NULL);
  want_ranks(&l, MR_LAUNCHER_TORCHRUN, 5, 8, 1, 4, 1, 2);
}

static void launchers_that_contradict_each_other_are_refused(void **state) {
  mr_launch_t l = read_of(SRUN, BY_HAND, NULL); /* RANK=$SLURM_PROCID, as many scripts have it */
  want_ranks(&l, MR_LAUNCHER_TORCHRUN, 2, 3, -1, -1, -1, -1);
  refused(SRUN, BY_HAND " RANK=1",
          "torchrun says rank 1 of 3, but srun (SLURM_STEP_NUM_TASKS) says rank 2 of 3");
  refused(OPEN_MPI, BY_HAND, "torchrun says rank 2 of 3, but Open MPI's mpirun");
  refused(SRUN, "PMI_RANK=1 PMI_SIZE=3",
          "srun says rank 2 of 3, but MPICH's mpirun (PMI_SIZE) says rank 1 of 3");
}

static void each_value_is_checked_by_name(void **state) {
  refused("RANK=1", NULL, "WORLD_SIZE is not set, expected a number of ranks in [1,1048576]");
  refused("WORLD_SIZE=4", NULL, "RANK is not set, expected a rank below WORLD_SIZE=4");
  refused(TORCHRUN, "RANK=8", "RANK=8: expected a rank below WORLD_SIZE=8");
  refused(TORCHRUN, "RANK=-1", "RANK=-1");
  refused(TORCHRUN, "RANK=1x", "RANK=1x");
  refused(TORCHRUN, "WORLD_SIZE=99999999999999999999", "WORLD_SIZE=99999999999999999999");
  refused(TORCHRUN, "LOCAL_WORLD_SIZE=9", "LOCAL_WORLD_SIZE=9: expected at most WORLD_SIZE=8");
  refused(TORCHRUN, "LOCAL_RANK=4", "LOCAL_RANK=4: expected a rank below LOCAL_WORLD_SIZE=4");
  refused(TORCHRUN, "GROUP_RANK=2", "GROUP_RANK=2: expected a host's number in [0,1]");
  refused(TORCHRUN, "MASTER_PORT=0", "MASTER_PORT=0: expected a port in [1,65535]");
  refused(TORCHRUN, "MASTER_PORT=65536", "MASTER_PORT=65536");
  refused(TORCHRUN, "MASTER_ADDR=a;b", "MASTER_ADDR=a;b: expected the name or address");
  refused(TORCHRUN, "MASTER_ADDR=", "MASTER_ADDR=: expected the name or address");
  refused(OPEN_MPI, "OMPI_COMM_WORLD_RANK=4", "OMPI_COMM_WORLD_RANK=4");
  refused(OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=5", "OMPI_COMM_WORLD_LOCAL_SIZE=5");
  refused(HYDRA, "PMI_RANK=2", "PMI_RANK=2");
  refused(HYDRA, "MPI_LOCALRANKID=2", "MPI_LOCALRANKID=2");
  refused(SRUN, "SLURM_PROCID=3", "SLURM_PROCID=3");
  refused(SRUN, "SLURM_NODEID=2", "SLURM_NODEID=2");
  refused(SRUN, "SLURM_LOCALID=1", "SLURM_LOCALID=1");
  refused(SRUN, "SLURM_JOB_ID=x", "SLURM_JOB_ID=x");
  refused(SRUN, "SLURM_STEP_NODELIST=", "SLURM_STEP_NODELIST=: expected a list of hosts");
  static const char *const tasks[] = {"2,2",
                                      "2",
                                      "2(x2)",
                                      "2,1,1",
                                      "2,",
                                      ",2",
                                      "2(x0),1",
                                      "2(x,1",
                                      "2(x1",
                                      "-2,5",
                                      "3(x99999999999999999999)",
                                      "x",
                                      "2 ,1"};
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    char text[96];
    snprintf(text, sizeof text, "SLURM_STEP_TASKS_PER_NODE=%s", tasks[i]);
    refused(SRUN, text, "SLURM_STEP_TASKS_PER_NODE=");
  }
}

static void rank_0_can_be_named_by_hand(void **state) {
  mr_launch_t l = read_of(OPEN_MPI, "MILLRACE_RANK0=head:7000", NULL);
  assert_string_equal(l.host, "head");
  assert_int_equal(l.port, 7000);
  l = read_of(SRUN, "MILLRACE_RANK0=[fe80::1%eth0]", NULL);
  assert_string_equal(l.host, "fe80::1%eth0");
  assert_int_equal(l.port, 61440 + 5);
  l = read_of(SRUN, "MILLRACE_RANK0=[::1]:80", NULL);
  assert_string_equal(l.host, "::1");
  assert_int_equal(l.port, 80);
  static const char *const bad[] = {"head:", "head:x",  "head:0", "head:65536", ":80",   "::1",
                                    "[::1",  "[::1]80", "[]:80",  "[::1]:",     "he/ad", "-head"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[96];
    snprintf(text, sizeof text, "MILLRACE_RANK0=%s", bad[i]);
    refused(OPEN_MPI, text, text);
  }
}

static void the_first_host_of_a_list_is_written_out(void **state) {
  static const char *const lists[][2] = {{"n1", "n1"},
                                         {"n1,n2", "n1"},
                                         {"n[1-2]", "n1"},
                                         {"gpu[007,009-012],m2", "gpu007"},
                                         {"r[2-3]n[04-05]-ib", "r2n04-ib"},
                                         {"a-b.example.org", "a-b.example.org"}};
  static const char *const bad[] = {"",      ",n1",      "n[", "n[]", "n[1", "n[x]",
                                    "n[1-2", "n[1-[2]]", "n]", "n 1", "[-1]"};
  char host[MR_HOST_MAX], longer[MR_HOST_MAX + 8];
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    assert_int_equal(mr_first_host("LIST", lists[i][0], host, NULL), MR_OK);
    assert_string_equal(host, lists[i][1]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    if (mr_first_host("LIST", bad[i], host, &diag) != MR_ERR_CONFIG)
      fail_msg("%s: %s", bad[i], host);
    assert_string_equal(host, "");
    assert_non_null(strstr(diag.text, "LIST="));
  }
  memset(longer, 'n', sizeof longer - 1);
  longer[MR_HOST_MAX] = 0;
  assert_int_equal(mr_first_host("LIST", longer, host, NULL), MR_ERR_CONFIG);
  longer[MR_HOST_MAX - 1] = 0;
  assert_int_equal(mr_first_host("LIST", longer, host, NULL), MR_OK);
  strcpy(longer + MR_HOST_MAX - 4, "[1234]");
  assert_int_equal(mr_first_host("LIST", longer, host, NULL), MR_ERR_CONFIG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_value_is_checked_by_name),
      cmocka_unit_test(launchers_that_contradict_each_other_are_refused),
      cmocka_unit_test(without_a_launcher_a_process_is_rank_0_of_1),
      cmocka_unit_test(srun_gives_ranks_hosts_and_an_address),
      cmocka_unit_test(the_script_of_a_job_is_no_rank_of_it),
      cmocka_unit_test(mpirun_gives_ranks_and_leaves_the_address_to_mpi),
      cmocka_unit_test(torchrun_gives_all_and_keeps_its_own_port),
      cmocka_unit_test(an_indexed_job_needs_its_size_and_the_address_of_index_0),
      cmocka_unit_test(of_nested_launchers_the_innermost_counts),
      cmocka_unit_test(rank_0_can_be_named_by_hand),
      cmocka_unit_test(the_first_host_of_a_list_is_written_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
