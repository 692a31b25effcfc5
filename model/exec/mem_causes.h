/* What the memory of an executable is for: the arena's peak and what the caller holds, each divided
   into causes whose bytes add up exactly. */
#ifndef MR_MODEL_EXEC_MEM_CAUSES_H
#define MR_MODEL_EXEC_MEM_CAUSES_H

#include "model/exec/exec.h"

/* How the values of the arena are divided.  Each counts once, by the first that holds; "kept
   for" and "read by" look through equations that only move or convert. */
typedef enum mr_mem_cause {
  MR_MEM_CONSTANTS,   /* literals */
  MR_MEM_WORKSPACE,   /* scratch of kernels: packed operands of products, graphs of loops */
  MR_MEM_CASTS,       /* results of conversions, fused or not, in whatever part of the step */
  MR_MEM_ACTIVATIONS, /* values of the forward pass that the backward pass reads again */
  MR_MEM_FORWARD,     /* values of the forward pass that it alone reads */
  MR_MEM_EXCHANGE,    /* what collectives behind the forward pass give, and arrays that are put
                         together to be sent by them */
  MR_MEM_UPDATE,      /* values of the optimizer */
  MR_MEM_GRADIENTS,   /* of parameters: read by the optimizer, or outputs; also those of parts of
                         the batch, whose sums are */
  MR_MEM_BACKWARD,    /* other values of the backward pass */
  MR_MEM_UNUSED,      /* between blocks at the peak: what no value takes */
  MR_MEM_CAUSES
} mr_mem_cause_t;
/* Returns the name of a cause, "activations kept for the backward pass"; static.
   c < MR_MEM_CAUSES. */
const char *mr_mem_cause_name(mr_mem_cause_t c);

/* What the graph does not say itself. */
typedef struct mr_mem_parts {
  const mr_var_t *loss; /* of mr_exec_fn(x): what it depends on is the forward pass; NULL: all is */
  const char *update;   /* the outermost scope of the optimizer; NULL without one */
  const char *posted;   /* where an equation has this scope, those are the ends of the forward pass
                           instead of loss, which ranks learn by an exchange of gradients too; NULL:
                           none has */
  const char *gathered; /* the scope of what brings values that other ranks have, in any pass: an
                           exchange; NULL: nothing does */
} mr_mem_parts_t;

typedef struct mr_mem_causes {
  size_t bytes[MR_MEM_CAUSES]; /* at the equation `peak`; their sum is mr_exec_peak_bytes */
  int peak;                    /* as mr_mem_report_t's; -1: the graph has no equations */
  size_t constants;            /* literals outside the arena, where it is borrowed */
  size_t outputs; /* arrays of the caller for outputs that do not take an input's memory */
} mr_mem_causes_t;

/* Fills *c; nothing in it is owned.  parts NULL: no loss and no optimizer.  MR_OK or
   MR_ERR_NOMEM. */
mr_err_t mr_mem_causes_find(mr_mem_causes_t *c, const mr_exec_t *x, const mr_mem_parts_t *parts,
                            mr_diag_t *diag);

#endif
