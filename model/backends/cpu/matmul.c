/* oneDNN's matmul with strides for operands that lie transposed.  Where many rows of a share one
   b, b is first reordered into the blocks the primitive likes: that is n k moves against 2 m n k
   operations, and saves a copy of b's panels for every block of rows.  A bf16 a that
   lies transposed under a long sum (a weight's gradient) is turned first for the same reason.
   A bf16 product that oneDNN does not have is an f32 product of widened operands. */
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/isa.h"
#include "model/backends/cpu/matmul_private.h"
#include "model/backends/cpu/workspace.h"

enum {
  PACK_ROWS = 1024, /* from so many rows on, packing b pays */
  TURN_SUM = 2048,  /* from so many terms on, turning a and packing b pays */
};

struct mr_matmul {
  mr_matmul_spec_t s;
  mr_matmul_t *wide; /* the f32 product that stands for this one; then the rest is unused */
  dnnl_primitive_t product;
  dnnl_primitive_t pack; /* NULL: b is used as it lies */
  dnnl_stream_t stream;
  dnnl_memory_t a, b, packed, bias, out, scratch;
  bool turn;                                        /* a is brought into rows first */
  int64_t turned;                                   /* elements from row to row of the turned a */
  size_t packed_bytes, scratch_bytes, turned_bytes; /* rounded to 64 */
};

static struct {
  pthread_once_t once;
  dnnl_engine_t engine; /* NULL: oneDNN does not start here */
} dnn = {.once = PTHREAD_ONCE_INIT};

/* A named instruction set holds for oneDNN too, which must hear of it before its first use. */
static dnnl_status_t cap_isa(void) {
#if defined(__x86_64__)
  static const dnnl_cpu_isa_t cap[] = {
      [MR_ISA_PLAIN] = dnnl_cpu_isa_sse41, [MR_ISA_AVX2] = dnnl_cpu_isa_avx2};
  if (mr_isa() != mr_isa_best()) return dnnl_set_max_cpu_isa(cap[mr_isa()]);
#endif
  return dnnl_success;
}

static void dnn_start(void) {
  if (cap_isa() != dnnl_success || dnnl_engine_create(&dnn.engine, dnnl_cpu, 0) != dnnl_success)
    dnn.engine = NULL;
}

static size_t round64(size_t n) { return (n + 63) & ~(size_t)63; }

static dnnl_data_type_t type_of(mr_dtype_t t) { return t == MR_F32 ? dnnl_f32 : dnnl_bf16; }

/* A matrix or, if there is more than one, a batch of them. */
static dnnl_status_t view(const mr_matmul_spec_t *s, mr_dtype_t t, int64_t rows, int64_t cols,
                          int64_t batch_stride, int64_t row, int64_t col, dnnl_memory_desc_t *md) {
  dnnl_dims_t dim3 = {s->batch, rows, cols}, stride3 = {batch_stride, row, col};
  dnnl_dims_t dim2 = {rows, cols}, stride2 = {row, col};
  return s->batch > 1 ? dnnl_memory_desc_init_by_strides(md, 3, dim3, type_of(t), stride3)
                      : dnnl_memory_desc_init_by_strides(md, 2, dim2, type_of(t), stride2);
}

static dnnl_status_t bias_view(const mr_matmul_spec_t *s, dnnl_memory_desc_t *md) {
  dnnl_dims_t dim3 = {1, 1, s->n}, dim2 = {1, s->n};
  bool many = s->batch > 1;
  return dnnl_memory_desc_init_by_tag(md, many ? 3 : 2, many ? dim3 : dim2, type_of(s->bias_dtype),
                                      many ? dnnl_abc : dnnl_ab);
}

#define DNN(call)                                \
  do {                                           \
    dnnl_status_t status_ = (call);              \
    if (status_ != dnnl_success) return status_; \
  } while (0)

static bool turn_pays(const mr_matmul_spec_t *s) {
  return s->batch == 1 && s->a == MR_BF16 && s->a_row == 1 && s->m >= 64 && s->n >= 64 &&
         s->k >= TURN_SUM && mr__turn_works();
}

typedef struct views {
  dnnl_memory_desc_t a, b, bias, out;
} views_t;

static dnnl_status_t views_of(const mr_matmul_t *p, views_t *v) {
  const mr_matmul_spec_t *s = &p->s;
  int64_t row = p->turn ? p->turned : s->a_row, col = p->turn ? 1 : s->a_col;
  DNN(view(s, s->a, s->m, s->k, s->a_batch, row, col, &v->a));
  DNN(view(s, s->b, s->k, s->n, s->b_batch, s->b_row, s->b_col, &v->b));
  DNN(view(s, s->out, s->m, s->n, s->out_batch, s->out_row, 1, &v->out));
  return s->bias ? bias_view(s, &v->bias) : dnnl_success;
}

static dnnl_status_t describe(const mr_matmul_t *p, const views_t *v, dnnl_primitive_desc_t *pd) {
  const mr_matmul_spec_t *s = &p->s;
  dnnl_memory_desc_t b = v->b;
  dnnl_matmul_desc_t desc;
  dnnl_primitive_attr_t attr;
  if (p->turn || (s->batch == 1 && s->m >= PACK_ROWS))
    DNN(dnnl_memory_desc_init_by_tag(&b, 2, v->b.dims, type_of(s->b), dnnl_format_tag_any));
  DNN(dnnl_matmul_desc_init(&desc, &v->a, &b, s->bias ? &v->bias : NULL, &v->out));
  DNN(dnnl_primitive_attr_create(&attr));
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  if (status == dnnl_success)
    status = dnnl_primitive_desc_create(pd, &desc, attr, dnn.engine, NULL);
  dnnl_primitive_attr_destroy(attr);
  return status;
}

static dnnl_status_t handle(const dnnl_memory_desc_t *md, dnnl_memory_t *m) {
  return dnnl_memory_create(m, md, dnn.engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t make_pack(mr_matmul_t *p, const dnnl_memory_desc_t *b,
                               const dnnl_memory_desc_t *wanted) {
  dnnl_primitive_desc_t pd;
  if (dnnl_memory_desc_equal(wanted, b)) return dnnl_success;
  DNN(dnnl_reorder_primitive_desc_create(&pd, b, dnn.engine, wanted, dnn.engine, NULL));
  dnnl_status_t status = dnnl_primitive_create(&p->pack, pd);
  dnnl_primitive_desc_destroy(pd);
  if (status != dnnl_success) return status;
  p->packed_bytes = round64(dnnl_memory_desc_get_size(wanted));
  return handle(wanted, &p->packed);
}

static dnnl_status_t make_parts(mr_matmul_t *p, const views_t *v, const_dnnl_primitive_desc_t pd) {
  const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  DNN(make_pack(p, &v->b, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0)));
  DNN(handle(&v->a, &p->a));
  DNN(handle(&v->b, &p->b));
  DNN(handle(&v->out, &p->out));
  if (p->s.bias) DNN(handle(&v->bias, &p->bias));
  DNN(handle(scratch, &p->scratch));
  p->scratch_bytes = round64(dnnl_memory_desc_get_size(scratch));
  DNN(dnnl_stream_create(&p->stream, dnn.engine, dnnl_stream_default_flags));
  return dnnl_primitive_create(&p->product, pd);
}

static dnnl_status_t make(mr_matmul_t *p) {
  views_t v;
  dnnl_primitive_desc_t pd;
  pthread_once(&dnn.once, dnn_start);
  if (!dnn.engine) return dnnl_runtime_error;
  p->turn = turn_pays(&p->s);
  p->turned = (p->s.k + 31) & ~(int64_t)31;
  if (p->turn) p->turned_bytes = (size_t)(p->s.m * p->turned) * sizeof(mr_bf16_t);
  DNN(views_of(p, &v));
  DNN(describe(p, &v, &pd));
  dnnl_status_t status = make_parts(p, &v, pd);
  dnnl_primitive_desc_destroy(pd);
  return status;
}

static void clear(mr_matmul_t *p) {
  dnnl_memory_t *all[] = {&p->a, &p->b, &p->packed, &p->bias, &p->out, &p->scratch};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (*all[i]) dnnl_memory_destroy(*all[i]);
    *all[i] = NULL;
  }
  if (p->product) dnnl_primitive_destroy(p->product);
  if (p->pack) dnnl_primitive_destroy(p->pack);
  if (p->stream) dnnl_stream_destroy(p->stream);
  p->product = p->pack = NULL;
  p->stream = NULL;
  p->packed_bytes = p->scratch_bytes = p->turned_bytes = 0;
  mr_matmul_destroy(p->wide);
  p->wide = NULL;
}

static bool fits(const mr_matmul_spec_t *s) {
  bool f32 = s->a == MR_F32 && s->b == MR_F32 && s->out == MR_F32;
  bool bf16 = s->a == MR_BF16 && s->b == MR_BF16 && (s->out == MR_BF16 || s->out == MR_F32);
  return (f32 || bf16) && s->batch > 0 && s->m > 0 && s->n > 0 && s->k > 0;
}

static mr_err_t refused(const mr_matmul_spec_t *s, dnnl_status_t status, mr_diag_t *diag) {
  return mr_fail(diag, status == dnnl_out_of_memory ? MR_ERR_NOMEM : MR_ERR_UNAVAILABLE,
                 "matmul: oneDNN (%s) does not multiply %s %lld x (%lld,%lld) (%lld,%lld): %s",
                 mr_isa_name(mr_isa()), mr_dtype_name(s->a), (long long)s->batch, (long long)s->m,
                 (long long)s->k, (long long)s->k, (long long)s->n, dnnl_status2str(status));
}

static mr_err_t widen(mr_matmul_t *p, mr_diag_t *diag) {
  mr_matmul_spec_t f32 = mr__wide_spec(&p->s);
  clear(p);
  return mr_matmul_create(&f32, &p->wide, diag);
}

mr_err_t mr_matmul_create(const mr_matmul_spec_t *spec, mr_matmul_t **out, mr_diag_t *diag) {
  *out = NULL;
  if (!fits(spec))
    return mr_fail(
        diag, MR_ERR_SHAPE,
        "matmul: no product of %s by %s into %s for sizes %lld x (%lld,%lld) (%lld,%lld)",
        mr_dtype_name(spec->a), mr_dtype_name(spec->b), mr_dtype_name(spec->out),
        (long long)spec->batch, (long long)spec->m, (long long)spec->k, (long long)spec->k,
        (long long)spec->n);
  mr_matmul_t *p = calloc(1, sizeof *p);
  if (!p) return mr_fail(diag, MR_ERR_NOMEM, "matmul: no memory for the product");
  p->s = *spec;
  mr__workspace_join();
  dnnl_status_t status = make(p);
  mr_err_t err = MR_OK;
  if (status == dnnl_unimplemented && spec->a == MR_BF16)
    err = widen(p, diag);
  else if (status != dnnl_success)
    err = refused(spec, status, diag);
  if (err < 0) {
    mr_matmul_destroy(p);
    return err;
  }
  *out = p;
  return MR_OK;
}

void mr_matmul_destroy(mr_matmul_t *p) {
  if (!p) return;
  clear(p);
  free(p);
  mr__workspace_leave();
}

size_t mr_matmul_workspace(const mr_matmul_t *p) {
  if (p->wide) return mr__wide_bytes(&p->s) + mr_matmul_workspace(p->wide);
  return p->packed_bytes + p->scratch_bytes + p->turned_bytes;
}

static dnnl_status_t pack(mr_matmul_t *p) {
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, p->b}, {DNNL_ARG_TO, p->packed}};
  DNN(dnnl_primitive_execute(p->pack, p->stream, 2, args));
  return dnnl_stream_wait(p->stream);
}

static dnnl_status_t multiply(mr_matmul_t *p, const void *a, const void *b, const void *bias,
                              void *out, char *work) {
  if (p->turn) {
    mr_bf16_t *rows = (mr_bf16_t *)(work + p->scratch_bytes + p->packed_bytes);
    mr__turn(a, p->s.a_col, p->s.k, p->s.m, rows, p->turned);
    a = rows;
  }
  DNN(dnnl_memory_set_data_handle(p->a, (void *)a));
  DNN(dnnl_memory_set_data_handle(p->b, (void *)b));
  DNN(dnnl_memory_set_data_handle(p->out, out));
  if (p->bias) DNN(dnnl_memory_set_data_handle(p->bias, (void *)bias));
  DNN(dnnl_memory_set_data_handle(p->scratch, work));
  if (p->pack) {
    DNN(dnnl_memory_set_data_handle(p->packed, work + p->scratch_bytes));
    DNN(pack(p));
  }
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->a},
                            {DNNL_ARG_WEIGHTS, p->pack ? p->packed : p->b},
                            {DNNL_ARG_DST, p->out},
                            {DNNL_ARG_SCRATCHPAD, p->scratch},
                            {DNNL_ARG_BIAS, p->bias}};
  DNN(dnnl_primitive_execute(p->product, p->stream, p->bias ? 5 : 4, args));
  return dnnl_stream_wait(p->stream);
}

void mr_matmul_run(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out) {
  char *work = mr__workspace_take(p->wide ? mr__wide_bytes(&p->s) : mr_matmul_workspace(p));
  dnnl_status_t status = dnnl_success;
  if (!work)
    status = dnnl_out_of_memory;
  else if (p->wide)
    mr__wide_run(&p->s, p->wide, a, b, bias, out, work);
  else
    status = multiply(p, a, b, bias, out, work);
  if (work) mr__workspace_give(work);
  if (status != dnnl_success) mr__matmul_plain(&p->s, a, b, bias, out);
}
