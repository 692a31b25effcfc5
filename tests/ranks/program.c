/* usage: ranks_program FOLDER COMMUNICATOR [threads N | stop RANK | skip RANK | time BYTES]
   What scripts/check-ranks.sh and bench/stalls.py start by launchers or their variables: opens the
   job and writes what came of it to the file FOLDER/RANK: the hash of a random sequence of
   collectives; after `stop`, by which a rank stops itself, and `skip`, by which it leaves out a
   call, what the others say; after `time`, seconds of an all_reduce beside MPI's own. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/library.h"
#include "ranks/job.h"
#include "ranks/mpi.h"
#include "tests/ranks/sequence.h"

enum { TURNS = 120, SEED = 28, TIMES = 15 };

static int fail(const char *text) { return fprintf(stderr, "ranks_program: %s\n", text), 1; }

static FILE *open_result(const char *folder, int rank) {
  char file[512];
  snprintf(file, sizeof file, "%s/%d", folder, rank);
  return fopen(file, "w");
}

/* ---- threads ---- */

static const char *threads_folder;
static int threads_size;

static void *thread_main(void *arg) {
  int rank = (int)(intptr_t)arg;
  FILE *f = open_result(threads_folder, rank);
  mr_collect_t *c = NULL;
  if (!f || mr_collect_threads.create(mr_device_default(), "sequence", rank, threads_size, 600, &c,
                                      NULL) < 0)
    return NULL;
  fprintf(
      f, "%016llx\n",
      (unsigned long long)sequence_run(&mr_collect_threads, c, rank, threads_size, SEED, TURNS));
  mr_collect_threads.destroy(c);
  fclose(f);
  return NULL;
}

static int run_threads(const char *folder, int size) {
  pthread_t thread[64];
  threads_folder = folder, threads_size = size;
  if (size < 1 || size > 64) return fail("want 1 to 64 threads");
  for (int r = 0; r < size; r++) pthread_create(&thread[r], NULL, thread_main, (void *)(intptr_t)r);
  for (int r = 0; r < size; r++) pthread_join(thread[r], NULL);
  return 0;
}

/* ---- processes ---- */

/* What is tried and fails is no failure of the job, which ends as any other. */
static void try_and_fail(mr_job_t *job) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  int missing, rank = mr_job_rank(job), all[MR_COLLECT_RANKS];
  if (ops->create(mr_device_default(), MR_COLLECT_TRY "and fail", rank, mr_job_size(job), 600, &c,
                  &diag) < 0)
    exit(fail(diag.text));
  ops->all_gather(c, sizeof rank, &rank, all);
  if (rank == mr_job_size(job) - 1) (*ops->abort)(c);
  while (ops->failed(c, &missing, &diag) >= 0) ops->all_gather(c, sizeof rank, &rank, all);
  ops->destroy(c);
}

static void run_sequence(mr_job_t *job, mr_collect_t *c, FILE *f) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  try_and_fail(job);
  uint64_t hash = sequence_run(ops, c, mr_job_rank(job), mr_job_size(job), SEED, TURNS);
  fprintf(f, "%016llx\n", (unsigned long long)hash);
}

static void run_until_one_stops(mr_job_t *job, mr_collect_t *c, int stops, FILE *f) {
  static float in[100000], out[100000];
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_diag_t diag = {0};
  int missing;
  for (int turn = 0; ops->failed(c, &missing, &diag) >= 0; turn++) {
    if (turn == 20 && mr_job_rank(job) == stops) raise(SIGSTOP);
    ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 100000, in, out);
  }
  fprintf(f, "%s\n", diag.text);
}

static void run_until_one_skips(mr_job_t *job, mr_collect_t *c, int skips, FILE *f) {
  static float in[1000], out[1000 * 64];
  const mr_collect_ops_t *ops = mr_job_collect(job);
  mr_diag_t diag = {0};
  int missing;
  for (int turn = 0; ops->failed(c, &missing, &diag) >= 0; turn++) {
    if (turn == 20 && mr_job_rank(job) == skips) continue;
    if (turn % 2)
      ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1000, in, out);
    else
      ops->all_gather(c, sizeof in, in, out);
  }
  fprintf(f, "%s\n", diag.text);
}

static double middle(double *s) {
  for (int i = 1; i < TIMES; i++)
    for (int k = i; k && s[k] < s[k - 1]; k--) {
      double t = s[k];
      s[k] = s[k - 1], s[k - 1] = t;
    }
  return s[TIMES / 2];
}

static void time_reduce(mr_job_t *job, mr_collect_t *c, size_t bytes, double theirs, FILE *f) {
  const mr_collect_ops_t *ops = mr_job_collect(job);
  float *in = calloc(1, bytes), *out = calloc(1, bytes);
  double s[TIMES];
  for (int i = -1; i < TIMES; i++) {
    double begin = mr_now_s();
    ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, (int64_t)(bytes / 4), in, out);
    if (i >= 0) s[i] = mr_now_s() - begin;
  }
  fprintf(f, "%s %zu bytes: %.2f ms", ops->name, bytes, 1e3 * middle(s));
  if (theirs > 0) fprintf(f, ", MPI_Allreduce %.2f ms", 1e3 * theirs);
  fprintf(f, "\n");
  free(in), free(out);
}

/* MPI_Allreduce of floats, by the process's own start of MPI; 0 without. */
static double time_mpi(const mr_launch_t *l, size_t bytes) {
  char path[512];
  void *lib;
  const mr_mpi_library_t *m = mr_mpi_library_find(l, &lib, path, sizeof path);
  if (!m) return 0;
  int level, (*init)(int *, char ***, int, int *);
  *(void **)&init = dlsym(lib, "MPI_Init_thread");
  if (!init || init(NULL, NULL, 3, &level)) return 0;
  bool open_mpi = !strcmp(m->family, "Open MPI");
  int (*by_pointer)(const void *, void *, int, void *, void *, void *);
  int (*by_number)(const void *, void *, int, int, int, int);
  *(void **)&by_pointer = *(void **)&by_number = dlsym(lib, "MPI_Allreduce");
  float *in = calloc(1, bytes), *out = calloc(1, bytes);
  double s[TIMES];
  for (int i = -1; i < TIMES; i++) {
    double begin = mr_now_s();
    if (open_mpi)
      by_pointer(in, out, (int)(bytes / 4), dlsym(lib, "ompi_mpi_float"),
                 dlsym(lib, "ompi_mpi_op_sum"), dlsym(lib, "ompi_mpi_comm_world"));
    else
      by_number(in, out, (int)(bytes / 4), 0x4c00040a, 0x58000003, 0x44000000);
    if (i >= 0) s[i] = mr_now_s() - begin;
  }
  free(in), free(out);
  return middle(s);
}

static void end_mpi(const mr_launch_t *l) {
  char path[512];
  void *lib;
  int (*finalize)(void);
  if (!mr_mpi_library_find(l, &lib, path, sizeof path)) return;
  *(void **)&finalize = dlsym(lib, "MPI_Finalize");
  if (finalize) finalize();
}

int main(int argc, char **argv) {
  mr_launch_t l;
  mr_diag_t diag = {0};
  mr_job_t *job = NULL;
  mr_collect_t *c = NULL;
  if (argc != 3 && argc != 5) return fail("want FOLDER COMMUNICATOR [WHAT NUMBER]");
  const char *what = argc == 5 ? argv[3] : "sequence";
  long long number = argc == 5 ? atoll(argv[4]) : 0;
  if (!strcmp(what, "threads")) return run_threads(argv[1], (int)number);
  if (mr_launch_of_process(&l, &diag) < 0) return fail(diag.text);
  bool stops = !strcmp(what, "stop"), timed = !strcmp(what, "time");
  bool beside = timed && strcmp(argv[2], "zmq") != 0;
  double theirs = beside ? time_mpi(&l, (size_t)number) : 0;
  mr_job_cfg_t cfg = {.communicator = argv[2], .limit_s = 60};
  if (mr_job_open(&l, &cfg, &job, &diag) < 0) return fail(diag.text);
  FILE *f = open_result(argv[1], l.rank);
  if (!f || mr_job_collect(job)->create(mr_device_default(), "sequence", l.rank, l.size,
                                        stops ? 3 : 60, &c, &diag) < 0)
    return fail(f ? diag.text : "cannot write the result");
  if (stops)
    run_until_one_stops(job, c, (int)number, f);
  else if (!strcmp(what, "skip"))
    run_until_one_skips(job, c, (int)number, f);
  else if (timed)
    time_reduce(job, c, (size_t)number, theirs, f);
  else
    run_sequence(job, c, f);
  fprintf(f, "%s\n", mr_job_collect(job)->name);
  fclose(f);
  mr_job_collect(job)->destroy(c);
  mr_job_close(job);
  if (theirs > 0) end_mpi(&l);
  return 0;
}
