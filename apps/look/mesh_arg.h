/* The flags by which explain, mem and summary show a step of ranks: how they form a mesh, and what
   each has. */
#ifndef MR_APPS_LOOK_MESH_ARG_H
#define MR_APPS_LOOK_MESH_ARG_H

#include "apps/cli/model_arg.h"
#include "model/mesh/mesh.h"
#include "model/mesh/rates.h"

/* Rows for a command's flags; shows: what --mesh prints. */
#define MR_MESH_FLAGS(shows)                                                                       \
  {"--mesh", "AXIS=N,...", shows},                                                                 \
      {"--partition", "RULES",                                                                     \
       "With --mesh, how parameters lie, as \"*.linear1.kernel=(None,model)\"; behind these in a " \
       "step, and in summary, the model's own table for an axis model."},                          \
  {                                                                                                \
    "--zero", "N", "With --mesh, what ranks of a step keep a share of, as zero= of train-step."    \
  }

/* A row for the flag by which times are predicted. */
#define MR_RATES_FLAG                                                                             \
  {                                                                                               \
    "--rates", "NAME|FILE",                                                                       \
        "The table by which times are predicted: threads, mpi, 8xH200 (share/ranks), or a file, " \
        "as `bench ranks` measures it; default threads."                                          \
  }

/* Reads the mesh of --mesh, or of the ranks that a launcher has started, into *m.  MR_OK, or
   MR_ERR_USAGE names the flag. */
mr_err_t mr_mesh_arg(const mr_args_t *a, mr_mesh_t *m, mr_diag_t *diag);
/* MR_ERR_USAGE if a flag is there that means nothing without --mesh, or none for the function
   `word`.  word NULL: the command shows no function, and --pipeline needs no mesh. */
mr_err_t mr_mesh_arg_check(const mr_args_t *a, const char *word, mr_diag_t *diag);
/* Makes job->train the step of the first rank of m, which outlives job, with rules for how
   parameters lie, or NULL, and zero. */
void mr_mesh_set_ranks(const mr_mesh_t *m, const char *rules, int zero, mr_model_job_t *job);
/* Makes job->train the step of the first rank of m by --partition and --zero: of ranks that share
   batches, or that have parts of parameters.  m outlives job.  MR_OK or MR_ERR_USAGE. */
mr_err_t mr_mesh_arg_ranks(const mr_args_t *a, const mr_mesh_t *m, mr_model_job_t *job,
                           mr_diag_t *diag);
/* The same by --pipeline too, whose ranks have stages; print: their table. */
mr_err_t mr_mesh_arg_step(const mr_args_t *a, const mr_mesh_t *m, bool print, mr_model_job_t *job,
                          mr_diag_t *diag);
/* Reads the table of --rates, whose name or file becomes *name; it points into argv, or is static.
   MR_OK, or the failure of mr_rates_read, the flag before the sentence. */
mr_err_t mr_rates_arg(const mr_args_t *a, const char **name, mr_rates_t *out, mr_diag_t *diag);
/* Returns the rules that job's model brings for m; NULL: none, or m has no axis for them. */
const char *mr_mesh_arg_table(const mr_model_job_t *job, const mr_mesh_t *m);

#endif
