/* One function for each launcher reads its variables into an mr_launch_t.  The innermost launcher
   is asked first: mpirun within a job of Slurm leaves srun's variables in place, which then
   describe mpirun's own daemons.

   A variable that a launcher always sets identifies it; what it sets beside that must be
   there too, so that a stray variable of a shell is noticed and not taken for a job of one rank. */
#include "base/launcher.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  PORT_FIRST = 61440, /* ports that no system hands out by itself; JAX chooses from the same */
  PORTS = 4096
};

/* What is read, and where the sentence goes. */
typedef struct variables {
  mr_variable_fn *get;
  void *arg;
  mr_diag_t *diag;
} variables_t;

static const char *variable_value(const variables_t *v, const char *name) {
  const char *text = v->get(v->arg, name);
  return text && *text ? text : NULL;
}

/* Reads decimal digits alone; false if text is no number in [lo,hi]. */
static bool decimal_in(const char *text, long long lo, long long hi, long long *out) {
  long long n = 0;
  if (!*text) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || n > (LLONG_MAX - 9) / 10) return false;
    n = 10 * n + (*text - '0');
  }
  if (n < lo || n > hi) return false;
  *out = n;
  return true;
}

static mr_err_t read_decimal(const variables_t *v, const char *name, long long lo, long long hi,
                             const char *why, long long *out) {
  const char *text = variable_value(v, name);
  if (!text)
    return mr_fail(v->diag, MR_ERR_CONFIG,
                   "%s is not set, expected %s in [%lld,%lld]; a launcher has set only a part of "
                   "its variables, or the shell has others of the same names",
                   name, why, lo, hi);
  if (decimal_in(text, lo, hi, out)) return MR_OK;
  return mr_fail(v->diag, MR_ERR_CONFIG, "%s=%.80s: expected %s in [%lld,%lld]", name, text, why,
                 lo, hi);
}

/* A rank and its size, by the names of their variables; also of ranks within a host. */
static mr_err_t read_rank(const variables_t *v, const char *rank_name, const char *size_name,
                          int *rank, int *size) {
  long long r, n;
  MR_TRY(read_decimal(v, size_name, 1, MR_RANKS_MAX, "a number of ranks", &n));
  char why[120];
  snprintf(why, sizeof why, "a rank below %s=%lld,", size_name, n);
  MR_TRY(read_decimal(v, rank_name, 0, n - 1, why, &r));
  *rank = (int)r, *size = (int)n;
  return MR_OK;
}

/* The ranks of a host cannot be more than all, and there are no ranks but those of hosts. */
static mr_err_t check_local(const variables_t *v, const char *local_name, const char *size_name,
                            const mr_launch_t *l) {
  if (l->local_size <= l->size) return MR_OK;
  return mr_fail(v->diag, MR_ERR_CONFIG, "%s=%d: expected at most %s=%d, the ranks of all hosts",
                 local_name, l->local_size, size_name, l->size);
}

static bool is_host(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char c = text[i];
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && !strchr(".-_:%", c)) return false;
  }
  return n > 0 && n < MR_HOST_MAX && text[0] != '-';
}

static mr_err_t read_host(const variables_t *v, const char *name, char *host) {
  const char *text = variable_value(v, name);
  if (!text || !is_host(text, strlen(text)))
    return mr_fail(v->diag, MR_ERR_CONFIG,
                   "%s=%.80s: expected the name or address of the host of rank 0, letters, digits "
                   "and .-_:%% of at most %d bytes",
                   name, text ? text : "", MR_HOST_MAX - 1);
  strcpy(host, text);
  return MR_OK;
}

/* Takes the first number of a bracket "[3-5,9]" at *text, which it moves behind the bracket. */
static bool take_bracket(const char **text, char *host, size_t *n) {
  const char *at = *text + 1, *close = strchr(at, ']');
  size_t digits = strspn(at, "0123456789");
  if (!close || !digits || !strchr("-,]", at[digits])) return false;
  if (strspn(at, "0123456789-,") != (size_t)(close - at)) return false;
  if (*n + digits >= MR_HOST_MAX) return false;
  memcpy(host + *n, at, digits);
  *n += digits;
  *text = close + 1;
  return true;
}

mr_err_t mr_first_host(const char *variable, const char *text, char *host, mr_diag_t *diag) {
  const char *at = text;
  size_t n = 0;
  bool good = true;
  while (good && *at && *at != ',') {
    if (*at == '[')
      good = take_bracket(&at, host, &n);
    else if (n < MR_HOST_MAX - 1)
      host[n++] = *at++;
    else
      good = false;
  }
  if (good && is_host(host, n)) {
    host[n] = 0;
    return MR_OK;
  }
  *host = 0;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s=%.80s: expected a list of hosts such as n[3-5,9],m2, each name of at most %d "
                 "bytes",
                 variable, text, MR_HOST_MAX - 1);
}

/* The entry of a node in "2(x3),1": tasks of three nodes and of a fourth.  -1 if text is no such
   list of n_nodes entries. */
static int tasks_of_node(const char *text, int node, int n_nodes, int *all) {
  long long at = 0, sum = 0, found = -1;
  while (*text) {
    char *end = NULL;
    long long tasks = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0, times = 1;
    if (tasks < 1 || tasks > MR_RANKS_MAX) return -1;
    if (!strncmp(end, "(x", 2)) {
      times = end[2] >= '0' && end[2] <= '9' ? strtoll(end + 2, &end, 10) : 0;
      if (times < 1 || times > MR_RANKS_MAX || *end++ != ')') return -1;
    }
    if (node >= at && node < at + times) found = tasks;
    at += times, sum += tasks * times;
    if (at > n_nodes || sum > MR_RANKS_MAX) return -1;
    if (*end && *end != ',') return -1;
    text = *end ? end + 1 : end;
  }
  *all = (int)sum;
  return at == n_nodes ? (int)found : -1;
}

/* Which of Slurm's plug-ins an MPI library finds; NULL with --mpi=none. */
static const char *slurm_mpi(const variables_t *v) {
  if (variable_value(v, "PMIX_RANK") || variable_value(v, "PMIX_SERVER_URI2"))
    return "PMIx of Slurm";
  return variable_value(v, "PMI_RANK") || variable_value(v, "PMI_FD") ? "PMI of Slurm" : NULL;
}

static mr_err_t launch_slurm(const variables_t *v, mr_launch_t *l) {
  static const char per_node[] = "SLURM_STEP_TASKS_PER_NODE", list[] = "SLURM_STEP_NODELIST";
  long long job, step, node, n_nodes, local;
  MR_TRY(read_rank(v, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", &l->rank, &l->size));
  MR_TRY(read_decimal(v, "SLURM_STEP_NUM_NODES", 1, l->size, "a number of hosts", &n_nodes));
  MR_TRY(read_decimal(v, "SLURM_NODEID", 0, n_nodes - 1, "a host's number", &node));
  l->node = (int)node, l->n_nodes = (int)n_nodes;
  const char *tasks = variable_value(v, per_node), *hosts = variable_value(v, list);
  int all = 0;
  l->local_size = tasks ? tasks_of_node(tasks, l->node, l->n_nodes, &all) : -1;
  if (l->local_size < 0 || all != l->size)
    return mr_fail(v->diag, MR_ERR_CONFIG,
                   "%s=%.80s: expected the tasks of each of %d hosts, %d in all, as 2(x3),1",
                   per_node, tasks ? tasks : "", l->n_nodes, l->size);
  MR_TRY(read_decimal(v, "SLURM_LOCALID", 0, l->local_size - 1, "a rank of this host", &local));
  l->local_rank = (int)local;
  MR_TRY(mr_first_host(list, hosts ? hosts : "", l->host, v->diag));
  MR_TRY(read_decimal(v, "SLURM_JOB_ID", 0, UINT32_MAX, "a job's number", &job));
  MR_TRY(read_decimal(v, "SLURM_STEP_ID", 0, UINT32_MAX, "a step's number", &step));
  l->port = PORT_FIRST + (int)((job + step) % PORTS); /* steps of one job run beside each other */
  l->mpi = slurm_mpi(v);
  return MR_OK;
}

static mr_err_t launch_open_mpi(const variables_t *v, mr_launch_t *l) {
  static const char size[] = "OMPI_COMM_WORLD_SIZE", local[] = "OMPI_COMM_WORLD_LOCAL_SIZE";
  l->mpi = "Open MPI";
  MR_TRY(read_rank(v, "OMPI_COMM_WORLD_RANK", size, &l->rank, &l->size));
  MR_TRY(read_rank(v, "OMPI_COMM_WORLD_LOCAL_RANK", local, &l->local_rank, &l->local_size));
  return check_local(v, local, size, l);
}

static mr_err_t launch_mpich(const variables_t *v, mr_launch_t *l) {
  l->mpi = "MPICH";
  MR_TRY(read_rank(v, "PMI_RANK", "PMI_SIZE", &l->rank, &l->size));
  if (!variable_value(v, "MPI_LOCALNRANKS")) return MR_OK;
  MR_TRY(read_rank(v, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", &l->local_rank, &l->local_size));
  return check_local(v, "MPI_LOCALNRANKS", "PMI_SIZE", l);
}

static mr_err_t launch_torchrun(const variables_t *v, mr_launch_t *l) {
  long long port, node, n_nodes;
  MR_TRY(read_rank(v, "RANK", "WORLD_SIZE", &l->rank, &l->size));
  if (variable_value(v, "LOCAL_RANK") || variable_value(v, "LOCAL_WORLD_SIZE")) {
    MR_TRY(read_rank(v, "LOCAL_RANK", "LOCAL_WORLD_SIZE", &l->local_rank, &l->local_size));
    MR_TRY(check_local(v, "LOCAL_WORLD_SIZE", "WORLD_SIZE", l));
  }
  if (variable_value(v, "GROUP_RANK") && variable_value(v, "GROUP_WORLD_SIZE")) {
    MR_TRY(read_decimal(v, "GROUP_WORLD_SIZE", 1, l->size, "a number of hosts", &n_nodes));
    MR_TRY(read_decimal(v, "GROUP_RANK", 0, n_nodes - 1, "a host's number", &node));
    l->node = (int)node, l->n_nodes = (int)n_nodes;
  }
  MR_TRY(read_host(v, "MASTER_ADDR", l->host));
  MR_TRY(read_decimal(v, "MASTER_PORT", 1, 65535, "a port", &port));
  /* torchrun itself listens at its port; all ranks derive the same other one. */
  bool own = variable_value(v, "TORCHELASTIC_RUN_ID") != NULL;
  l->port = own ? PORT_FIRST + (int)(port % PORTS) : (int)port;
  return MR_OK;
}

/* Kubernetes gives an index alone. */
static mr_err_t launch_kubernetes(const variables_t *v, mr_launch_t *l) {
  if (!variable_value(v, "MILLRACE_RANKS"))
    return mr_fail(v->diag, MR_ERR_CONFIG,
                   "JOB_COMPLETION_INDEX=%.80s, but MILLRACE_RANKS is not set: expected the "
                   "completions of the job, or 1 if each index is a run of its own",
                   variable_value(v, "JOB_COMPLETION_INDEX"));
  if (!strcmp(variable_value(v, "MILLRACE_RANKS"), "1")) {
    *l = (mr_launch_t){.size = 1, .local_size = 1, .n_nodes = 1};
    return MR_OK;
  }
  MR_TRY(read_rank(v, "JOB_COMPLETION_INDEX", "MILLRACE_RANKS", &l->rank, &l->size));
  l->local_rank = 0, l->local_size = 1, l->node = l->rank, l->n_nodes = l->size;
  if (variable_value(v, "MILLRACE_RANK0")) return MR_OK;
  return mr_fail(
      v->diag, MR_ERR_CONFIG,
      "JOB_COMPLETION_INDEX=%d of %d, but MILLRACE_RANK0 is not set: expected HOST[:PORT] "
      "of index 0, JOB-0.SERVICE",
      l->rank, l->size);
}

/* MILLRACE_RANK0=HOST[:PORT]; an address with several colons is in brackets, [fe80::1]:7000. */
static mr_err_t read_rank0(const variables_t *v, mr_launch_t *l) {
  const char *text = variable_value(v, "MILLRACE_RANK0"), *host = text, *port = NULL;
  if (!text) return MR_OK;
  size_t n = strlen(text);
  long long number = l->port ? l->port : PORT_FIRST;
  if (*text == '[') { /* "": what follows the address is no port */
    host = text + 1, n = strcspn(host, "]");
    port = host[n] && !host[n + 1] ? NULL : host[n] && host[n + 1] == ':' ? host + n + 2 : "";
  } else if ((port = strchr(text, ':'))) {
    n = (size_t)(port++ - text);
  }
  if (!is_host(host, n) || (port && !decimal_in(port, 1, 65535, &number)))
    return mr_fail(v->diag, MR_ERR_CONFIG,
                   "MILLRACE_RANK0=%.80s: expected HOST or HOST:PORT of rank 0, an IPv6 address in "
                   "brackets",
                   text);
  snprintf(l->host, sizeof l->host, "%.*s", (int)n, host);
  l->port = (int)number;
  return MR_OK;
}

/* A variable that a launcher sets for each of its ranks, in the order in which launchers nest. */
typedef struct launcher_row {
  mr_launcher_t launcher;
  const char *name, *mark, *also; /* also: another one that identifies it; NULL: none */
  mr_err_t (*read)(const variables_t *v, mr_launch_t *l);
} launcher_row_t;

static const launcher_row_t launcher_rows[] = {
    {MR_LAUNCHER_TORCHRUN, "torchrun", "WORLD_SIZE", "RANK", launch_torchrun},
    {MR_LAUNCHER_OPEN_MPI, "Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     launch_open_mpi},
    {MR_LAUNCHER_MPICH, "MPICH's mpirun", "PMI_SIZE", "PMI_RANK", launch_mpich},
    {MR_LAUNCHER_SLURM, "srun", "SLURM_STEP_NUM_TASKS", NULL, launch_slurm},
    {MR_LAUNCHER_KUBERNETES, "an indexed job of Kubernetes", "JOB_COMPLETION_INDEX", NULL,
     launch_kubernetes},
};
enum { N_LAUNCHERS = sizeof launcher_rows / sizeof *launcher_rows };

const char *mr_launcher_name(mr_launcher_t launcher) {
  for (int i = 0; i < N_LAUNCHERS; i++)
    if (launcher_rows[i].launcher == launcher) return launcher_rows[i].name;
  return "none";
}

static const launcher_row_t *launcher_row(mr_launcher_t launcher) {
  const launcher_row_t *row = launcher_rows;
  while (row->launcher != launcher) row++;
  return row;
}

static bool is_reported_by(const variables_t *v, mr_launcher_t launcher) {
  const launcher_row_t *row = launcher_row(launcher);
  return variable_value(v, row->mark) || (row->also && variable_value(v, row->also));
}

/* Hydra and srun --mpi=pmi2 both set PMI_RANK; the ranks of a host are in Hydra's alone. */
static bool pmi_is_slurms(const variables_t *v) {
  return is_reported_by(v, MR_LAUNCHER_SLURM) && !variable_value(v, "MPI_LOCALNRANKS");
}

static mr_err_t launch_as(const variables_t *v, mr_launcher_t launcher, mr_launch_t *l) {
  *l = (mr_launch_t){.launcher = launcher, .size = 1};
  l->local_rank = l->local_size = l->node = l->n_nodes = -1;
  return launcher_row(launcher)->read(v, l);
}

/* Both name this process: they must name the same rank. */
static mr_err_t check_agrees(const variables_t *v, mr_launch_t *l, mr_launcher_t other) {
  mr_launch_t o;
  const launcher_row_t *row = launcher_row(other);
  MR_TRY(launch_as(v, other, &o));
  if (!l->mpi) l->mpi = o.mpi;
  if (o.rank == l->rank && o.size == l->size) return MR_OK;
  return mr_fail(v->diag, MR_ERR_CONFIG,
                 "%s says rank %d of %d, but %s (%s) says rank %d of %d: expected one launcher; "
                 "unset the variables that are left from the other",
                 mr_launcher_name(l->launcher), l->rank, l->size, row->name, row->mark, o.rank,
                 o.size);
}

/* torchrun's names are also set by hand, from another launcher's or for none. */
static mr_err_t check_by_hand(const variables_t *v, mr_launch_t *l) {
  static const mr_launcher_t others[] = {MR_LAUNCHER_OPEN_MPI, MR_LAUNCHER_MPICH,
                                         MR_LAUNCHER_SLURM};
  if (variable_value(v, "TORCHELASTIC_RUN_ID")) return MR_OK; /* it runs within the other */
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (is_reported_by(v, others[i]) && !(others[i] == MR_LAUNCHER_MPICH && pmi_is_slurms(v)))
      return check_agrees(v, l, others[i]);
  return MR_OK;
}

static mr_err_t launch_innermost(const variables_t *v, mr_launch_t *l) {
  for (int i = 0; i < N_LAUNCHERS; i++) {
    mr_launcher_t launcher = launcher_rows[i].launcher;
    if (!is_reported_by(v, launcher)) continue;
    if (launcher == MR_LAUNCHER_MPICH && pmi_is_slurms(v)) continue;
    MR_TRY(launch_as(v, launcher, l));
    if (launcher == MR_LAUNCHER_TORCHRUN) MR_TRY(check_by_hand(v, l));
    if (launcher == MR_LAUNCHER_SLURM && is_reported_by(v, MR_LAUNCHER_MPICH))
      MR_TRY(check_agrees(v, l, MR_LAUNCHER_MPICH));
    return MR_OK;
  }
  *l = (mr_launch_t){.size = 1, .local_size = 1, .n_nodes = 1};
  l->in_allocation = variable_value(v, "SLURM_JOB_ID") != NULL;
  return MR_OK;
}

/* If all ranks are on one host, that is the job's only one. */
static void settle_one_host(mr_launch_t *l) {
  if (l->local_size != l->size) return;
  l->node = 0, l->n_nodes = 1;
}

mr_err_t mr_launch_read(mr_variable_fn *variable, void *arg, mr_launch_t *l, mr_diag_t *diag) {
  variables_t v = {variable, arg, diag};
  mr_err_t e = launch_innermost(&v, l);
  if (e >= 0 && l->launcher) e = read_rank0(&v, l);
  if (e >= 0) settle_one_host(l);
  if (e < 0) *l = (mr_launch_t){.size = 1, .local_size = 1, .n_nodes = 1};
  return e;
}

static const char *variable_of_process(void *arg, const char *name) { return getenv(name); }

mr_err_t mr_launch_of_process(mr_launch_t *l, mr_diag_t *diag) {
  return mr_launch_read(variable_of_process, NULL, l, diag);
}
