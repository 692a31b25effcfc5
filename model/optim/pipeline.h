/* Pipelines: a loss cut into stages, one a rank, through which the parts of a batch pass one behind
   the other.  What a rank computes when is a table, made from the numbers of stages and parts
   alone (pipeline_table.c).  Where a loss can be cut follows from its equations (pipeline_cut.c):
   between the last one that reads a parameter of one stage and the first that reads one of the
   next, where a single value crosses.  A cut with two values that depend on parameters, such as
   one inside a residual, is refused.  What depends on no parameter, or on those of the reading
   stage alone, is computed where it is read.

   Sources: Huang et al., "GPipe" (2019); Narayanan et al., "PipeDream-Flush" and Megatron-LM (2021)
   for 1F1B. */
#ifndef MR_MODEL_OPTIM_PIPELINE_H
#define MR_MODEL_OPTIM_PIPELINE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

enum { MR_PIPELINE_STAGES = 64, MR_PIPELINE_PARTS = 256 };

/* 1F1B: a stage goes back through a part as soon as it can, so that rank r keeps the values of at
   most stages - r parts.  GPipe: each goes forward through all parts before it goes back through
   one. */
typedef enum mr_pipeline_kind { MR_PIPELINE_1F1B, MR_PIPELINE_GPIPE } mr_pipeline_kind_t;

typedef struct mr_pipeline {
  int stages; /* [2,MR_PIPELINE_STAGES]; 0: none */
  mr_pipeline_kind_t kind;
  /* [stages+1] the first parameter of each stage, ascending from 0; that of the last is their
     number */
  int first[MR_PIPELINE_STAGES + 1];
} mr_pipeline_t;

/* ---- when ---- */

/* A rank goes forward, or back, through a part in the time [time,time+1). */
typedef struct mr_pipeline_slot {
  int rank, time, part;
  bool backward;
} mr_pipeline_slot_t;

/* Writes 2 * stages * parts slots, in the order of time and rank, for stages in
   [1,MR_PIPELINE_STAGES] and parts in [1,MR_PIPELINE_PARTS].  Each stage goes forward through
   parts in ascending order, behind the stage before it, and back likewise, behind the stage after
   it.  Returns the time at which all are done.  Cannot fail. */
int mr_pipeline_table(mr_pipeline_kind_t kind, int stages, int parts, mr_pipeline_slot_t *slot);
/* Returns the time that ranks wait, as a share of that in which they compute: (stages - 1) / parts.
   Of a table of n slots that ends at `end`. */
double mr_pipeline_bubble(int stages, int n, int end);
/* Returns the most parts whose values a rank of the table keeps at once: those that it has gone
   forward through but not back. */
int mr_pipeline_held(const mr_pipeline_slot_t *slot, int n, int rank);

/* ---- where ---- */

/* The loss f: (data[n_data], parameters...) -> (loss, aux...), seen as a line of equations that can
   be cut.  For pipeline_cut.c; f outlives it. */
typedef struct mr_pipeline_line mr_pipeline_line_t;

/* The caller destroys *out.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_pipeline_line(const mr_fn_t *f, int n_data, mr_pipeline_line_t **out, mr_diag_t *diag);
void mr_pipeline_line_destroy(mr_pipeline_line_t *l); /* NULL is fine */

/* A cut before parameter `param`, in (0,number of parameters). */
typedef struct mr_pipeline_cut {
  int at;            /* equations [0,at) are before it */
  const mr_var_t *x; /* the one value that crosses; it belongs to f */
} mr_pipeline_cut_t;
/* Finds the cut across which the fewest bytes go.  MR_OK; MR_ERR_CONFIG, with what crosses, if no
   place has a single value, parameters before and behind it are read together, or an aux would not
   come from the last stage. */
mr_err_t mr_pipeline_cut(const mr_pipeline_line_t *l, int param, mr_pipeline_cut_t *out,
                         mr_diag_t *diag);
/* Returns the operations of equations [from,to), forward, those computed anywhere left out. */
double mr_pipeline_flop(const mr_pipeline_line_t *l, int from, int to);

/* Appends what stage s of f computes to g.  in[f->n_in] are vars of g for f's inputs, of which only
   the data and the parameters of the stage are read, and x is what the stage before has sent, NULL
   for the first stage.  out[f->n_out] become f's outputs for the last stage; else *out is what the
   stage sends.  MR_OK; the failure in g->diag: as mr_pipeline_cut. */
mr_err_t mr_pipeline_inline(mr_fn_t *g, const mr_fn_t *f, int n_data, const mr_pipeline_t *p, int s,
                            mr_var_t *const *in, mr_var_t *x, mr_var_t **out);
/* The aval of what stage s of f sends to the next.  MR_OK, or as mr_pipeline_cut. */
mr_err_t mr_pipeline_sent(const mr_fn_t *f, int n_data, const mr_pipeline_t *p, int s,
                          mr_aval_t *out, mr_diag_t *diag);

MR_END_DECLS

#endif
