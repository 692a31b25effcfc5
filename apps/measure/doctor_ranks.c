/* millrace doctor about the ranks of a job: what the launcher reports to this process, and what a
   job would miss: an MPI library of the launcher's kind, an address for the host of rank 0, a
   device for each rank of a host. */
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "apps/measure/doctor.h"
#include "apps/run/machine_report.h"
#include "base/launcher.h"
#include "base/library.h"
#include "ranks/job.h"
#include "ranks/mpi.h"

/* What the job lacks: sentences, one after the other. */
typedef struct lacks {
  char text[512];
  size_t n;
} lacks_t;

static void lacks_say(lacks_t *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void lacks_say(lacks_t *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t room = sizeof l->text - l->n;
  int head = snprintf(l->text + l->n, room, "%s", l->n ? "; " : "");
  if ((size_t)head < room)
    head += vsnprintf(l->text + l->n + head, room - (size_t)head, format, args);
  l->n = (size_t)head < room ? l->n + (size_t)head : sizeof l->text - 1;
  va_end(args);
}

/* Adds which MPI library there is, of the launcher's kind if it has one. */
static void add_mpi(cJSON *s, const mr_launch_t *l, lacks_t *lacks) {
  const mr_mpi_library_t *found = NULL, *own = NULL;
  char path[512] = "", file[512];
  for (const mr_mpi_library_t *m = mr_mpi_libraries; m->file; m++) {
    bool fits = l->mpi && mr_mpi_fits(m, l->mpi);
    if (fits && !own) own = m;
    if ((found && !fits) || !mr_library_open(m->file, file, sizeof file)) continue;
    found = m;
    strcpy(path, file);
    if (fits) break;
  }
  if (found)
    mr_report_say(s, "mpi_library", "%s: %s", found->family, path);
  else
    mr_report_say(s, "mpi_library", "none found");
  if (l->mpi) mr_report_say(s, "mpi_by", "%s", l->mpi);
  if (l->launcher == MR_LAUNCHER_SLURM && l->size > 1 && !l->mpi)
    lacks_say(lacks,
              "srun runs with --mpi=none, so that MPI would take each rank for a job of its own: "
              "srun --mpi=list prints the others");
  if (l->mpi && !found)
    lacks_say(lacks, "launched through %s, but no libmpi is found: install %s", l->mpi,
              own ? own->package : "libopenmpi3 or libmpich12");
  else if (own && strcmp(found->family, own->family))
    lacks_say(lacks, "launched by %s, but the only libmpi found is of %s: install %s",
              mr_launcher_name(l->launcher), found->family, own->package);
}

/* Adds the address to which the name of rank 0's host resolves. */
static void add_rank0(cJSON *s, const mr_launch_t *l, lacks_t *lacks) {
  struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  char address[NI_MAXHOST];
  if (!*l->host) {
    mr_report_say(
        s, "rank0", "%s",
        l->size == 1 ? "this process" : "known to MPI alone, unless MILLRACE_RANK0 is set");
    return;
  }
  mr_report_say(s, "rank0", strchr(l->host, ':') ? "[%s]:%d" : "%s:%d", l->host, l->port);
  int e = getaddrinfo(l->host, NULL, &want, &found);
  if (e)
    lacks_say(lacks,
              "the host of rank 0, %.80s, has no address here (%s): MILLRACE_RANK0=HOST names "
              "another",
              l->host, gai_strerror(e));
  else if (!getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0,
                        NI_NUMERICHOST))
    mr_report_say(s, "rank0_address", "%s", address);
  if (!e) freeaddrinfo(found);
}

/* GPUs in the section about devices, "cuda:0" and so on. */
static int count_gpus(const cJSON *report) {
  int n = 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, cJSON_GetObjectItem(report, "devices")) n +=
      !strncmp(row->string, "cuda:", 5);
  return n;
}

static void add_gpus(cJSON *s, const cJSON *report, const mr_launch_t *l, lacks_t *lacks) {
  int gpus = count_gpus(report);
  cJSON_AddNumberToObject(s, "gpus_of_this_host", gpus);
  if (gpus && l->local_size > gpus)
    lacks_say(lacks,
              "%d ranks on this host, but %d %s: start as many ranks as GPUs, or use "
              "--device cpu",
              l->local_size, gpus, gpus == 1 ? "GPU" : "GPUs");
}

/* Adds by what the ranks would exchange values. */
static void add_communicator(cJSON *s, const mr_launch_t *l, lacks_t *lacks) {
  const char *by = mr_job_communicator(l), *secret = getenv("MILLRACE_SECRET");
  mr_report_say(s, "communicator", "%s", by);
  if (!strcmp(by, "zmq") && mr_job_needs_key(l) && (!secret || !*secret))
    lacks_say(lacks,
              "ranks on several hosts, and no secret of theirs: set MILLRACE_SECRET to the same 64 "
              "hexadecimal digits for all, or give all of them one file of `millrace keys`");
}

static void add_number_known(cJSON *s, const char *name, int number) {
  if (number >= 0) cJSON_AddNumberToObject(s, name, number);
}

void mr_doctor_ranks(cJSON *report) {
  mr_launch_t l;
  mr_diag_t why = {0};
  lacks_t lacks = {0};
  cJSON *s = cJSON_AddObjectToObject(report, "ranks");
  if (mr_launch_of_process(&l, &why) < 0) {
    mr_report_say(s, "launcher", "unknown");
    mr_report_say(s, "missing", "%s", why.text);
    return;
  }
  mr_report_say(s, "launcher", "%s", mr_launcher_name(l.launcher));
  cJSON_AddNumberToObject(s, "rank", l.rank);
  cJSON_AddNumberToObject(s, "ranks", l.size);
  add_number_known(s, "rank_of_this_host", l.local_rank);
  add_number_known(s, "ranks_of_this_host", l.local_size);
  add_number_known(s, "host", l.node);
  add_number_known(s, "hosts", l.n_nodes);
  add_rank0(s, &l, &lacks);
  add_mpi(s, &l, &lacks);
  add_communicator(s, &l, &lacks);
  add_gpus(s, report, &l, &lacks);
  if (l.in_allocation)
    lacks_say(&lacks, "this is a job of Slurm, but srun has not started this process: it is alone");
  mr_report_say(s, "missing", "%s", lacks.n ? lacks.text : "nothing");
}
