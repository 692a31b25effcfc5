/* Which launcher started this process, and which of its ranks the process is: Slurm's srun, Open
   MPI's and MPICH's mpirun, torchrun, or an indexed job of Kubernetes.

   Launchers say so in environment variables.  This is the one place that reads them.  Their values
   are outside input: each is checked, and values that contradict each other are refused, since a
   job whose ranks disagree about who they are would wait forever. */
#ifndef MR_BASE_LAUNCHER_H
#define MR_BASE_LAUNCHER_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

enum {
  MR_RANKS_MAX = 1 << 20, /* ranks of a job */
  MR_HOST_MAX = 256       /* bytes of a host's name with its 0 */
};

typedef enum mr_launcher {
  MR_LAUNCHER_NONE, /* one process, rank 0 of 1 */
  MR_LAUNCHER_SLURM,
  MR_LAUNCHER_OPEN_MPI,
  MR_LAUNCHER_MPICH, /* Hydra, also Intel's MPI */
  MR_LAUNCHER_TORCHRUN,
  MR_LAUNCHER_KUBERNETES
} mr_launcher_t;

typedef struct mr_launch {
  mr_launcher_t launcher;
  int rank, size;             /* rank in [0,size), size in [1,MR_RANKS_MAX] */
  int local_rank, local_size; /* among the ranks of this host; -1: the launcher does not say */
  int node, n_nodes;          /* of this host among the job's; -1: the launcher does not say */
  char host[MR_HOST_MAX];     /* where rank 0 is; "" if only MPI itself can tell */
  int port;                   /* at which rank 0 is to listen, in [1,65535]; 0 if host is "" */
  const char *mpi; /* how MPI is reached: "Open MPI", "MPICH", "PMI" or "PMIx" of Slurm.  NULL: an
                      MPI library would take each process for a job of its own */
  bool in_allocation; /* without a launcher, but within a job of Slurm: srun was forgotten, or this
                         is the job's script */
} mr_launch_t;

/* Returns the value of an environment variable, which lives until mr_launch_read returns, or
   NULL. */
typedef const char *mr_variable_fn(void *arg, const char *name);

/* Sets *l from the variables that `variable` gives, called with arg.  MR_OK; else *l is rank 0 of 1
   without a launcher, and the sentence names variable, value and what was expected: MR_ERR_CONFIG.
   Of nested launchers the innermost counts: torchrun within mpirun or srun, mpirun within srun.

   MILLRACE_RANK0=HOST[:PORT] takes precedence over the launcher's address of rank 0.  A job of
   Kubernetes must set it, and MILLRACE_RANKS to the number of its completions. */
mr_err_t mr_launch_read(mr_variable_fn *variable, void *arg, mr_launch_t *l, mr_diag_t *diag);

/* The same from this process's environment: MR_OK, or MR_ERR_CONFIG as above.  Not while another
   thread changes it. */
mr_err_t mr_launch_of_process(mr_launch_t *l, mr_diag_t *diag);

/* Returns the launcher's name for people, static: "srun", "Open MPI's mpirun", "none". */
const char *mr_launcher_name(mr_launcher_t launcher);

/* Writes the first host of a list as Slurm writes it, "n[3-5,9],m2" or "rack[1-2]n[01-04]", into
   the caller's host[MR_HOST_MAX].  MR_ERR_CONFIG, with `variable` in the sentence, if text is no
   such list or the name is too long; host is then "". */
mr_err_t mr_first_host(const char *variable, const char *text, char *host, mr_diag_t *diag);

MR_END_DECLS

#endif
