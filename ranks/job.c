/* Opens what a job's ranks exchange values by.  Which one follows from the launcher and the
   setting, which are the same on all ranks, and from whether there is a library of MPI: where that
   differs from host to host, ranks miss each other, and say so when the limit is over. */
#include "ranks/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/loopback.h"
#include "base/suggest.h"
#include "ranks/mpi.h"
#include "ranks/nccl.h"
#include "ranks/processes.h"

struct mr_job {
  const mr_collect_ops_t *collect;
  bool wired; /* to other processes */
  int rank, size;
};

/* The communicators between processes. */
static const struct job_row {
  const mr__wire_ops_t *wire;
  const mr_collect_ops_t *collect;
} job_rows[] = {{&mr__wire_zmq, &mr_collect_zmq}, {&mr__wire_mpi, &mr_collect_mpi}};
enum { N_ROWS = sizeof job_rows / sizeof *job_rows };

static mr_err_t refuse_communicator(const char *name, mr_diag_t *diag) {
  char hint[80];
  mr_suggest_t s = {.word = name};
  mr_suggest_offer(&s, "auto"), mr_suggest_offer(&s, "threads"), mr_suggest_offer(&s, "nccl");
  for (int i = 0; i < N_ROWS; i++) mr_suggest_offer(&s, job_rows[i].wire->name);
  return mr_fail(diag, MR_ERR_CONFIG, "communicator=%.40s: want auto, threads, mpi, zmq or nccl%s",
                 name, mr_suggest_text(&s, hint, sizeof hint));
}

const char *mr_job_communicator(const mr_launch_t *l) {
  char path[512];
  void *lib;
  if (l->size == 1) return "threads";
  if (l->mpi && (!*l->host || mr_mpi_library_find(l, &lib, path, sizeof path))) return "mpi";
  return "zmq";
}

bool mr_job_needs_key(const mr_launch_t *l) { return l->n_nodes != 1 && mr_needs_proof(l->host); }

/* *row NULL: threads. */
static mr_err_t choose_row(const mr_launch_t *l, const char *name, const struct job_row **row,
                           mr_diag_t *diag) {
  *row = NULL;
  if (!name || !strcmp(name, "auto")) name = mr_job_communicator(l);
  for (int i = 0; i < N_ROWS; i++)
    if (!strcmp(name, job_rows[i].wire->name)) *row = &job_rows[i];
  if (*row) return MR_OK;
  if (strcmp(name, "threads") != 0) return refuse_communicator(name, diag);
  if (l->size == 1) return MR_OK;
  return mr_fail(
      diag, MR_ERR_CONFIG,
      "communicator=threads: %s has started %d processes, and threads are ranks of one: use "
      "auto, mpi or zmq",
      mr_launcher_name(l->launcher), l->size);
}

mr_err_t mr_job_open(const mr_launch_t *l, const mr_job_cfg_t *cfg, mr_job_t **out,
                     mr_diag_t *diag) {
  const struct job_row *row;
  mr__wire_t *w = NULL;
  int missing;
  if (!(cfg->limit_s > 0))
    return mr_fail(diag, MR_ERR_CONFIG, "a job's limit is %g s, want more than 0", cfg->limit_s);
  if (l->size > MR_COLLECT_RANKS)
    return mr_fail(diag, MR_ERR_CONFIG, "the job has %d ranks, want at most %d", l->size,
                   MR_COLLECT_RANKS);
  bool by_nccl = cfg->communicator && !strcmp(cfg->communicator, "nccl");
  MR_TRY(choose_row(l, by_nccl ? NULL : cfg->communicator, &row, diag));
  mr_job_t *job = calloc(1, sizeof *job);
  if (!job) return mr_no_memory(diag, "a job of %d ranks", l->size);
  *job = (mr_job_t){.collect = by_nccl ? &mr_collect_nccl : &mr_collect_threads, .size = 1};
  mr__nccl_carry(row ? row->collect : &mr_collect_threads);
  if (!row) return *out = job, MR_OK;
  *job = (mr_job_t){by_nccl ? &mr_collect_nccl : row->collect, true, l->rank, l->size};
  mr__wire_cfg_t wire = {l, cfg->key, cfg->limit_s};
  mr_err_t e = row->wire->open(&wire, &w, &missing, diag);
  if (e >= 0 && (e = mr__processes_start(row->wire, w, l->rank, l->size, cfg->limit_s,
                                         cfg->silent_s, diag)) < 0)
    row->wire->close(w, false);
  if (e < 0) return free(job), e;
  return *out = job, MR_OK;
}

const mr_collect_ops_t *mr_job_collect(const mr_job_t *job) { return job->collect; }
const mr_collect_ops_t *mr_job_collect_of(const mr_device_t *d) {
  const mr_queue_ops_t *queue = d->backend->queue;
  return queue && queue->stream ? &mr_collect_nccl : &mr_collect_by_host;
}
int mr_job_rank(const mr_job_t *job) { return job->rank; }
int mr_job_size(const mr_job_t *job) { return job->size; }

void mr_job_doing(mr_job_t *job, const char *what, int64_t step, mr_pace_t pace) {
  if (job->collect != &mr_collect_threads) mr__processes_doing(what, step, pace);
}

bool mr_names_rank(const char *text) {
  for (const char *at = text; at; at = (at = strstr(at, ": ")) ? at + 2 : NULL) {
    size_t digits = strncmp(at, "rank ", 5) ? 0 : strspn(at + 5, "0123456789");
    if (digits && !strncmp(at + 5 + digits, ": ", 2)) return true;
  }
  return false;
}

void mr_job_fail(mr_job_t *job, const char *why) {
  if (job->collect != &mr_collect_threads) mr__processes_fail(why);
}

void mr_job_close(mr_job_t *job) {
  if (!job) return;
  if (job->wired) mr__processes_stop();
  mr__nccl_carry(&mr_collect_threads);
  free(job);
}
