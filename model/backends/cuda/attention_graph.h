/* Attention as graphs of cuDNN's backend API: softmax(q k' scale) v with its
   statistics, and the backward pass.  Each becomes one kernel, which reads q, k
   and v where the op has them, also as thirds of one array (B,T,3,H,D).

   A graph is described, then planned: cuDNN's heuristic names configurations of
   engines that support it, and the first that can be finalized is the plan.
   Building a graph and asking the heuristic needs the library and a description
   of a device, not the device itself. */
#ifndef MR_MODEL_BACKENDS_CUDA_ATTENTION_GRAPH_H
#define MR_MODEL_BACKENDS_CUDA_ATTENTION_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "model/backends/cuda/cudnn.h"
#include "model/ir/fn.h"

/* What a graph depends on. */
typedef struct mr_cuda_attention {
  int64_t B, T, H, D;
  mr_dtype_t dtype; /* bf16 or f16 */
  bool packed;      /* q, k, v (and their gradients) are thirds of one array
                       (B,T,3,H,D) */
  bool backward;
} mr_cuda_attention_t;

/* Sets *a for e.  false if e is not attention or its backward pass, or if cuDNN
   has no kernel for it: another dtype, D no multiple of 8, nothing to compute.
   Pure; any thread.  What is true may still be refused by the heuristic. */
bool mr__cuda_attention(const mr_eqn_t *e, mr_cuda_attention_t *a);

/* Whether the backward graph of *a adds the parts of dq in an accumulator of
   f32, DQ_SUM, which cuDNN's kernels do with atomic operations, one for each
   block of keys.  Blocks have 64 keys or more: up to 128 rows at most two parts
   are added to 0, whose order does not matter.  Beyond, the product is written
   to DQ itself, the form that cudnn-frontend takes for
   is_deterministic_algorithm, so that every run gives the same bits. */
static inline bool mr__cuda_attention_sums(const mr_cuda_attention_t *a) {
  return a->backward && a->T <= 128;
}

/* The arrays of a graph, by the numbers that cuDNN knows them by.  SCALE and
   ONE are floats of the host. */
typedef enum mr_cudnn_id {
  MR_CUDNN_Q = 1,  /* (B,T,H,D) */
  MR_CUDNN_K,      /* (B,T,H,D) */
  MR_CUDNN_V,      /* (B,T,H,D) */
  MR_CUDNN_O,      /* (B,T,H,D), dense */
  MR_CUDNN_STATS,  /* (B,H,T) f32, the log of the sums of exponents */
  MR_CUDNN_SCALE,  /* () f32 */
  MR_CUDNN_DO,     /* backward: (B,T,H,D), dense */
  MR_CUDNN_DQ,     /* backward: as Q */
  MR_CUDNN_DK,     /* backward: as K */
  MR_CUDNN_DV,     /* backward: as V */
  MR_CUDNN_DSUM,   /* backward: (B,H,T) f32, memory for the run */
  MR_CUDNN_DQ_SUM, /* if mr__cuda_attention_sums: (B,H,T,D) f32, memory for the run */
  MR_CUDNN_ONE,    /* backward: () f32, 1 */
  MR_CUDNN_IDS
} mr_cudnn_id_t;

enum { MR_CUDNN_ALIGN = 16 }; /* bytes, of every array on the device */

enum { MR_CUDNN_MADE = 160, MR_CUDNN_OPS = 24 };

/* A graph under construction.  The first call that fails is kept, and later
 * ones do nothing. */
typedef struct mr_cudnn_graph {
  const mr_cudnn_t *cudnn;
  cudnnBackendDescriptor_t made[MR_CUDNN_MADE], op[MR_CUDNN_OPS], whole;
  int n_made, n_op;
  int64_t next;         /* number of the next array that exists only within the graph */
  cudnnStatus_t status; /* of the first call that failed */
  const char *failed;   /* what that call was for, or NULL */
} mr_cudnn_graph_t;

/* Whether this version of cuDNN computes *a as it should: MR_OK, or
   MR_ERR_UNAVAILABLE with the reason.  Pure. */
mr_err_t mr__cudnn_computes(size_t version, const mr_cuda_attention_t *a, mr_diag_t *diag);

/* Builds the graph of *a into *g.  handle: of the device it is for; NULL with a
   description.  MR_OK; MR_ERR_UNAVAILABLE with cuDNN's reason, or if this
   version computes it wrongly.  The caller ends
   *g in any case; it must outlive the plans made of it. */
mr_err_t mr__cudnn_graph(const mr_cudnn_t *cudnn, const mr_cuda_attention_t *a,
                         cudnnHandle_t handle, mr_cudnn_graph_t *g, mr_diag_t *diag);
void mr__cudnn_graph_fini(mr_cudnn_graph_t *g); /* frees every descriptor; cannot fail */

/* Makes a descriptor of a device from cuDNN's own description of one in JSON,
   for graphs without that device; g owns it.  NULL if cuDNN refuses it. */
cudnnBackendDescriptor_t mr__cudnn_described(mr_cudnn_graph_t *g, const char *json);

/* How many configurations the heuristic names for g, on the handle's device or
   on `device`, if that is not NULL.  0: no engine supports the graph. */
int mr__cudnn_configurations(mr_cudnn_graph_t *g, cudnnBackendDescriptor_t device);

/* Plans g for the handle's device: sets *plan, which g owns, and the bytes that
   a run needs.  MR_OK; MR_ERR_UNAVAILABLE, with the reason of the last refusal,
   if no configuration can be finalized. */
mr_err_t mr__cudnn_plan(mr_cudnn_graph_t *g, cudnnHandle_t handle, cudnnBackendDescriptor_t *plan,
                        int64_t *workspace, mr_diag_t *diag);

#endif
