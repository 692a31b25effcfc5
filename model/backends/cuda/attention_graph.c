/* Builds attention's graphs, operation by operation, and lets cuDNN plan them.

   Arrays have rank 4, (batch, head, row, column), and any strides whose last is
   1; a transposed operand is the same memory with two strides exchanged. Values
   within a graph are f32, except for the factors of products, which have the
   dtype of q. */
#include "model/backends/cuda/attention_graph.h"

#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"

bool mr__cuda_attention(const mr_eqn_t *e, mr_cuda_attention_t *a) {
  if (!mr__is_attention(e)) return false;
  mr_attention_sizes_t s = mr__attention_sizes(e);
  *a = (mr_cuda_attention_t){s.B, s.T, s.H, s.D, e->in[0]->aval.dtype, s.packed, s.backward};
  if (a->dtype != MR_BF16 && a->dtype != MR_F16) return false;
  return s.D % 8 == 0 && s.B > 0 && s.T > 0 && s.H > 0 && s.D > 0 && s.T <= INT32_MAX &&
         s.B * s.H <= INT32_MAX;
}

/* ---- descriptors ---- */

typedef cudnnBackendDescriptor_t desc_t;

/* Keeps the first failure; returns whether all went well so far. */
static bool graph_went_well(mr_cudnn_graph_t *g, cudnnStatus_t s, const char *what) {
  if (s != CUDNN_STATUS_SUCCESS && !g->failed) g->status = s, g->failed = what;
  return !g->failed;
}

static desc_t make_descriptor(mr_cudnn_graph_t *g, cudnnBackendDescriptorType_t type,
                              const char *what) {
  desc_t d = NULL;
  if (g->failed) return NULL;
  cudnnStatus_t s = g->n_made == MR_CUDNN_MADE ? CUDNN_STATUS_ALLOC_FAILED
                                               : g->cudnn->cudnnBackendCreateDescriptor(type, &d);
  if (!graph_went_well(g, s, what)) return NULL;
  return g->made[g->n_made++] = d;
}

static void set_attribute(mr_cudnn_graph_t *g, desc_t d, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n, const void *value,
                          const char *what) {
  if (!g->failed)
    graph_went_well(g, g->cudnn->cudnnBackendSetAttribute(d, name, type, n, value), what);
}

static void set_desc(mr_cudnn_graph_t *g, desc_t d, cudnnBackendAttributeName_t name, desc_t value,
                     const char *what) {
  set_attribute(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

static desc_t finalize_descriptor(mr_cudnn_graph_t *g, desc_t d, const char *what) {
  if (!g->failed) graph_went_well(g, g->cudnn->cudnnBackendFinalize(d), what);
  return d;
}

/* ---- arrays ---- */

typedef struct shape {
  int64_t dim[4], stride[4];
} shape_t;

typedef enum place { PLACE_DEVICE, PLACE_VIRTUAL, PLACE_HOST } place_t;

static desc_t make_array(mr_cudnn_graph_t *g, int64_t id, cudnnDataType_t t, shape_t s,
                         place_t place) {
  static const char what[] = "an array";
  const bool yes = true;
  const int64_t align = MR_CUDNN_ALIGN;
  desc_t d = make_descriptor(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
  set_attribute(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t, what);
  set_attribute(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, s.dim, what);
  set_attribute(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, s.stride, what);
  set_attribute(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, what);
  set_attribute(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align, what);
  if (place == PLACE_VIRTUAL)
    set_attribute(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes, what);
  if (place == PLACE_HOST)
    set_attribute(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes, what);
  return finalize_descriptor(g, d, what);
}

static cudnnDataType_t narrow_type(const mr_cuda_attention_t *a) {
  return a->dtype == MR_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* q, k, v or a gradient of one: rows follow each other after 3 H D elements if
   they are packed. */
static shape_t operand_shape(const mr_cuda_attention_t *a) {
  int64_t row = (a->packed ? 3 : 1) * a->H * a->D;
  return (shape_t){{a->B, a->H, a->T, a->D}, {a->T * row, a->D, row, 1}};
}

static shape_t swap_last_axes(shape_t s) {
  return (shape_t){{s.dim[0], s.dim[1], s.dim[3], s.dim[2]},
                   {s.stride[0], s.stride[1], s.stride[3], s.stride[2]}};
}

/* (B,T,H,D), dense. */
static shape_t result_shape(const mr_cuda_attention_t *a) {
  int64_t row = a->H * a->D;
  return (shape_t){{a->B, a->H, a->T, a->D}, {a->T * row, a->D, row, 1}};
}

/* (B,H,rows,cols), dense. */
static shape_t dense_shape(const mr_cuda_attention_t *a, int64_t rows, int64_t cols) {
  return (shape_t){{a->B, a->H, rows, cols}, {a->H * rows * cols, rows * cols, cols, 1}};
}

static desc_t virtual_array(mr_cudnn_graph_t *g, cudnnDataType_t t, shape_t s) {
  return make_array(g, g->next++, t, s, PLACE_VIRTUAL);
}

static desc_t qkv_array(mr_cudnn_graph_t *g, const mr_cuda_attention_t *a, mr_cudnn_id_t id) {
  return make_array(g, id, narrow_type(a), operand_shape(a), PLACE_DEVICE);
}

static desc_t make_number(mr_cudnn_graph_t *g, mr_cudnn_id_t id) {
  shape_t one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  return make_array(g, id, CUDNN_DATA_FLOAT, one, PLACE_HOST);
}

/* ---- operations ---- */

static void add_op(mr_cudnn_graph_t *g, desc_t op, const char *what) {
  finalize_descriptor(g, op, what);
  if (g->failed) return;
  if (g->n_op == MR_CUDNN_OPS) {
    graph_went_well(g, CUDNN_STATUS_ALLOC_FAILED, what);
    return;
  }
  g->op[g->n_op++] = op;
}

static void product_op(mr_cudnn_graph_t *g, desc_t a, desc_t b, desc_t c) {
  static const char what[] = "a product";
  const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
  desc_t how = make_descriptor(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
  set_attribute(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32, what);
  finalize_descriptor(g, how, what);
  desc_t op = make_descriptor(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how, what);
  add_op(g, op, what);
}

/* y = mode(x, b); b is NULL for modes of one operand. */
static desc_t each_op(mr_cudnn_graph_t *g, cudnnPointwiseMode_t mode, desc_t x, desc_t b,
                      desc_t y) {
  static const char what[] = "an elementwise operation";
  const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
  desc_t how = make_descriptor(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
  set_attribute(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, what);
  set_attribute(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f32, what);
  finalize_descriptor(g, how, what);
  desc_t op = make_descriptor(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, what);
  if (b) set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, what);
  add_op(g, op, what);
  return y;
}

static void reduce_op(mr_cudnn_graph_t *g, cudnnReduceTensorOp_t mode, desc_t x, desc_t y) {
  static const char what[] = "a reduction";
  const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
  desc_t how = make_descriptor(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
  set_attribute(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode,
                what);
  set_attribute(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32, what);
  finalize_descriptor(g, how, what);
  desc_t op = make_descriptor(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how, what);
  add_op(g, op, what);
}

/* The elements of x in y's order: a transposition. */
static void turn_op(mr_cudnn_graph_t *g, desc_t x, desc_t y) {
  static const char what[] = "a transposition";
  desc_t op = make_descriptor(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, what);
  set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, what);
  add_op(g, op, what);
}

/* ---- the two graphs ---- */

typedef struct parts {
  desc_t q, k_turned, scale, stats;
  shape_t rows, square; /* (B,H,T,1) and (B,H,T,T) */
} parts_t;

static parts_t attention_parts(mr_cudnn_graph_t *g, const mr_cuda_attention_t *a) {
  parts_t p = {.rows = dense_shape(a, a->T, 1), .square = dense_shape(a, a->T, a->T)};
  p.q = qkv_array(g, a, MR_CUDNN_Q);
  p.k_turned =
      make_array(g, MR_CUDNN_K, narrow_type(a), swap_last_axes(operand_shape(a)), PLACE_DEVICE);
  p.scale = make_number(g, MR_CUDNN_SCALE);
  p.stats = make_array(g, MR_CUDNN_STATS, CUDNN_DATA_FLOAT, p.rows, PLACE_DEVICE);
  return p;
}

/* q k' scale. */
static desc_t make_scores(mr_cudnn_graph_t *g, const parts_t *p) {
  desc_t s = virtual_array(g, CUDNN_DATA_FLOAT, p->square),
         t = virtual_array(g, CUDNN_DATA_FLOAT, p->square);
  product_op(g, p->q, p->k_turned, s);
  return each_op(g, CUDNN_POINTWISE_MUL, s, p->scale, t);
}

/* A new value of the graph: mode(x, b). */
static desc_t each_new(mr_cudnn_graph_t *g, cudnnPointwiseMode_t mode, desc_t x, desc_t b,
                       shape_t s) {
  return each_op(g, mode, x, b, virtual_array(g, CUDNN_DATA_FLOAT, s));
}

static void forward_graph(mr_cudnn_graph_t *g, const mr_cuda_attention_t *a) {
  parts_t p = attention_parts(g, a);
  desc_t s = make_scores(g, &p), top = virtual_array(g, CUDNN_DATA_FLOAT, p.rows);
  reduce_op(g, CUDNN_REDUCE_TENSOR_MAX, s, top);
  desc_t w = each_new(g, CUDNN_POINTWISE_SUB, s, top, p.square);
  w = each_new(g, CUDNN_POINTWISE_EXP, w, NULL, p.square);
  desc_t sum = virtual_array(g, CUDNN_DATA_FLOAT, p.rows);
  reduce_op(g, CUDNN_REDUCE_TENSOR_ADD, w, sum);
  desc_t log = each_new(g, CUDNN_POINTWISE_LOG, sum, NULL, p.rows);
  each_op(g, CUDNN_POINTWISE_ADD, top, log, p.stats);
  w = each_op(g, CUDNN_POINTWISE_DIV, w, sum, virtual_array(g, narrow_type(a), p.square));
  product_op(g, w, qkv_array(g, a, MR_CUDNN_V),
             make_array(g, MR_CUDNN_O, narrow_type(a), result_shape(a), PLACE_DEVICE));
}

/* The transposition of a value (B,H,T,T) as a factor of a product. */
static desc_t turned_factor(mr_cudnn_graph_t *g, const mr_cuda_attention_t *a, desc_t x) {
  desc_t t = virtual_array(g, narrow_type(a), swap_last_axes(dense_shape(a, a->T, a->T)));
  turn_op(g, x, t);
  return t;
}

/* w = exp(s - stats), dv = w' do, ds = w (do v' - sum(do o)) scale, dk = ds' q,
   dq = ds k; as attention_vjp_open (ops/attention.c) has it. */
static void backward_graph(mr_cudnn_graph_t *g, const mr_cuda_attention_t *a) {
  parts_t p = attention_parts(g, a);
  desc_t grad = make_array(g, MR_CUDNN_DO, narrow_type(a), result_shape(a), PLACE_DEVICE);
  desc_t out = make_array(g, MR_CUDNN_O, narrow_type(a), result_shape(a), PLACE_DEVICE);
  desc_t dsum = make_array(g, MR_CUDNN_DSUM, CUDNN_DATA_FLOAT, p.rows, PLACE_DEVICE);
  desc_t v_turned =
      make_array(g, MR_CUDNN_V, narrow_type(a), swap_last_axes(operand_shape(a)), PLACE_DEVICE);
  shape_t mixed = dense_shape(a, a->T, a->D);
  mixed.stride[2] = a->H * a->D; /* of a value that has no memory; cuDNN's pattern wants this one */
  desc_t x = each_new(g, CUDNN_POINTWISE_MUL, grad, out, mixed);
  desc_t sum = virtual_array(g, CUDNN_DATA_FLOAT, p.rows);
  reduce_op(g, CUDNN_REDUCE_TENSOR_ADD, x, sum);
  each_op(g, CUDNN_POINTWISE_MUL, sum, make_number(g, MR_CUDNN_ONE), dsum);
  x = each_new(g, CUDNN_POINTWISE_SUB, make_scores(g, &p), p.stats, p.square);
  desc_t w = each_new(g, CUDNN_POINTWISE_EXP, x, NULL, p.square);
  product_op(g, turned_factor(g, a, w), grad, qkv_array(g, a, MR_CUDNN_DV));
  desc_t dw = virtual_array(g, CUDNN_DATA_FLOAT, p.square);
  product_op(g, grad, v_turned, dw);
  x = each_new(g, CUDNN_POINTWISE_SUB, dw, dsum, p.square);
  x = each_new(g, CUDNN_POINTWISE_MUL, x, w, p.square);
  desc_t ds =
      each_op(g, CUDNN_POINTWISE_MUL, x, p.scale, virtual_array(g, narrow_type(a), p.square));
  product_op(g, turned_factor(g, a, ds), p.q, qkv_array(g, a, MR_CUDNN_DK));
  desc_t k = virtual_array(g, narrow_type(a), operand_shape(a));
  turn_op(g, p.k_turned, k);
  if (!mr__cuda_attention_sums(a)) {
    product_op(g, ds, k, qkv_array(g, a, MR_CUDNN_DQ));
    return;
  }
  desc_t dq =
      make_array(g, MR_CUDNN_DQ_SUM, CUDNN_DATA_FLOAT, dense_shape(a, a->T, a->D), PLACE_DEVICE);
  product_op(g, ds, k, dq);
  each_op(g, CUDNN_POINTWISE_IDENTITY, dq, NULL, qkv_array(g, a, MR_CUDNN_DQ));
}

static mr_err_t graph_report_refusal(const mr_cudnn_t *c, cudnnStatus_t s, const char *what,
                                     mr_diag_t *diag) {
  char why[400] = "";
  c->cudnnGetLastErrorString(why, sizeof why);
  why[strcspn(why, "\n")] = 0;
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "device cuda: cuDNN refuses %s of attention: %s%s%s",
                 what, c->cudnnGetErrorString(s), *why ? ", " : "", why);
}

mr_err_t mr__cudnn_computes(size_t version, const mr_cuda_attention_t *a, mr_diag_t *diag) {
  if (a->backward && a->T % 128 && version < MR_CUDNN_ANY_T)
    return mr_fail(
        diag, MR_ERR_UNAVAILABLE,
        "device cuda: cuDNN %zu.%zu computes the backward pass of attention only for "
        "multiples of 128 rows, so that it is computed by generated kernels, which may be "
        "slow; want 9.16 or newer",
        version / 10000, version / 100 % 100);
  return MR_OK;
}

mr_err_t mr__cudnn_graph(const mr_cudnn_t *cudnn, const mr_cuda_attention_t *a,
                         cudnnHandle_t handle, mr_cudnn_graph_t *g, mr_diag_t *diag) {
  static const char what[] = "the graph";
  *g = (mr_cudnn_graph_t){.cudnn = cudnn, .next = 1000};
  MR_TRY(mr__cudnn_computes(cudnn->version, a, diag));
  if (a->backward)
    backward_graph(g, a);
  else
    forward_graph(g, a);
  g->whole = make_descriptor(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
  set_attribute(g, g->whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_op,
                g->op, what);
  if (handle)
    set_attribute(g, g->whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle,
                  what);
  finalize_descriptor(g, g->whole, what);
  return g->failed ? graph_report_refusal(cudnn, g->status, g->failed, diag) : MR_OK;
}

void mr__cudnn_graph_fini(mr_cudnn_graph_t *g) {
  while (g->n_made > 0) g->cudnn->cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
}

cudnnBackendDescriptor_t mr__cudnn_described(mr_cudnn_graph_t *g, const char *json) {
  static const char what[] = "a device";
  desc_t d = make_descriptor(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, what);
  set_attribute(g, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                (int64_t)strlen(json) + 1, json, what);
  finalize_descriptor(g, d, what);
  return g->failed ? NULL : d;
}

/* ---- planning ---- */

enum { CONFIGS = 8 };

/* Asks the heuristic; the configurations are descriptors of g. */
static int ask_plan_heuristic(mr_cudnn_graph_t *g, desc_t device, cudnnBackendHeurMode_t mode,
                              desc_t *config) {
  static const char what[] = "the heuristic";
  int64_t n = 0;
  desc_t heuristic = make_descriptor(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
  set_desc(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->whole, what);
  set_attribute(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, what);
  if (device) set_desc(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device, what);
  if (g->failed || g->cudnn->cudnnBackendFinalize(heuristic) != CUDNN_STATUS_SUCCESS) return 0;
  for (int i = 0; i < CONFIGS; i++)
    config[i] = make_descriptor(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
  if (g->failed || g->cudnn->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &n,
                                                      config) != CUDNN_STATUS_SUCCESS)
    return 0;
  return n < CONFIGS ? (int)n : CONFIGS;
}

int mr__cudnn_configurations(mr_cudnn_graph_t *g, cudnnBackendDescriptor_t device) {
  desc_t config[CONFIGS];
  return ask_plan_heuristic(g, device, CUDNN_HEUR_MODE_A, config);
}

/* One configuration as a plan; NULL if it cannot be finalized, with the status
   in *s. */
static desc_t plan_of(mr_cudnn_graph_t *g, cudnnHandle_t handle, desc_t config, int64_t *workspace,
                      cudnnStatus_t *s) {
  static const char what[] = "a plan";
  int64_t n = 0;
  desc_t p = make_descriptor(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what);
  set_desc(g, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config, what);
  set_attribute(g, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, what);
  *s = g->failed ? g->status : g->cudnn->cudnnBackendFinalize(p);
  if (*s == CUDNN_STATUS_SUCCESS)
    *s = g->cudnn->cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &n, workspace);
  return *s == CUDNN_STATUS_SUCCESS && n == 1 && *workspace >= 0 ? p : NULL;
}

mr_err_t mr__cudnn_plan(mr_cudnn_graph_t *g, cudnnHandle_t handle, cudnnBackendDescriptor_t *plan,
                        int64_t *workspace, mr_diag_t *diag) {
  static const cudnnBackendHeurMode_t mode[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
  cudnnStatus_t s = CUDNN_STATUS_NOT_SUPPORTED;
  desc_t config[CONFIGS];
  for (int m = 0; m < 2; m++) {
    int n = ask_plan_heuristic(g, NULL, mode[m], config);
    for (int i = 0; i < n; i++)
      if ((*plan = plan_of(g, handle, config[i], workspace, &s))) return MR_OK;
  }
  return graph_report_refusal(g->cudnn, s, "every plan", diag);
}
