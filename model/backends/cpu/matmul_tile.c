/* Tiles and packing in oneDNN's API: views of the operands, a primitive made for a team of one,
   and the reorder of b into the blocks that such a primitive prefers. */
#include "model/backends/cpu/matmul_tile.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "base/isa.h"
#include "model/backends/cpu/matmul_private.h"

static struct {
  pthread_once_t once;
  dnnl_engine_t engine;
} dnn = {.once = PTHREAD_ONCE_INIT};

/* Limits oneDNN to a set that was named; this must precede its first use in the process.  The usual
   set needs no limit: oneDNN is given bf16 only where the kernels have pairs, and f32 has the same
   bits by all sets from AVX-512 on. */
static dnnl_status_t cap_isa(void) {
#if defined(__x86_64__)
  static const dnnl_cpu_isa_t cap[] = {[MR_ISA_PLAIN] = dnnl_cpu_isa_sse41,
                                       [MR_ISA_AVX2] = dnnl_cpu_isa_avx2,
                                       [MR_ISA_AVX512] = dnnl_cpu_isa_avx512_core_vnni};
  if (mr_isa() != mr_isa_best() && mr_isa() < MR_ISA_AVX512_BF16)
    return dnnl_set_max_cpu_isa(cap[mr_isa()]);
#endif
  return dnnl_success;
}

static void dnn_start(void) {
  if (cap_isa() != dnnl_success || dnnl_engine_create(&dnn.engine, dnnl_cpu, 0) != dnnl_success)
    dnn.engine = NULL;
}

dnnl_engine_t mr__dnn_engine(void) {
  pthread_once(&dnn.once, dnn_start);
  return dnn.engine;
}

static size_t matmul_tile_round64(size_t n) { return (n + 63) & ~(size_t)63; }

static dnnl_data_type_t type_of(mr_dtype_t t) { return t == MR_F32 ? dnnl_f32 : dnnl_bf16; }

/* oneDNN chooses a kernel, and with it the bytes of scratch, by all strides, but its cache of
   primitives does not compare the stride of a dimension of size 1.  Two views that differ in such a
   stride alone would thus share a primitive that needs the scratch of one of them, and may write
   behind the other's.  So such a stride always gets the same value. */
static dnnl_status_t make_view(mr_dtype_t t, int64_t rows, int64_t cols, int64_t row, int64_t col,
                               dnnl_memory_desc_t *md) {
  if (cols == 1) col = 1;
  if (rows == 1) row = col == 1 ? cols : 1;
  dnnl_dims_t dim = {rows, cols}, stride = {row, col};
  return dnnl_memory_desc_init_by_strides(md, 2, dim, type_of(t), stride);
}

static dnnl_status_t make_views(mr__tile_t *t, const mr_matmul_spec_t *s) {
  dnnl_dims_t row = {1, s->n};
  MR_DNN(make_view(s->a, s->m, s->k, s->a_row, s->a_col, &t->a));
  MR_DNN(make_view(s->b, s->k, s->n, s->b_row, s->b_col, &t->b));
  MR_DNN(make_view(s->out, s->m, s->n, s->out_row, 1, &t->out));
  t->with_bias = s->bias;
  if (!s->bias) return dnnl_success;
  return dnnl_memory_desc_init_by_tag(&t->bias, 2, row, type_of(s->bias_dtype), dnnl_ab);
}

static dnnl_status_t make_attributes(bool add, dnnl_primitive_attr_t *attr) {
  dnnl_post_ops_t ops;
  MR_DNN(dnnl_primitive_attr_create(attr));
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
  if (status == dnnl_success && add) {
    status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success) return status;
    status = dnnl_post_ops_append_sum(ops, 1);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    dnnl_post_ops_destroy(ops);
  }
  return status;
}

static dnnl_status_t matmul_tile_describe(const mr__tile_t *t, bool add,
                                          dnnl_primitive_desc_t *pd) {
  dnnl_matmul_desc_t desc;
  dnnl_primitive_attr_t attr = NULL;
  MR_DNN(dnnl_matmul_desc_init(&desc, &t->a, &t->b, t->with_bias ? &t->bias : NULL, &t->out));
  dnnl_status_t status = make_attributes(add, &attr);
  if (status == dnnl_success)
    status = dnnl_primitive_desc_create(pd, &desc, attr, mr__dnn_engine(), NULL);
  if (attr) dnnl_primitive_attr_destroy(attr);
  return status;
}

/* oneDNN makes a primitive for the team of the calling thread, so the team is 1 here for a
   moment. */
static dnnl_status_t describe_for_one(const mr__tile_t *t, bool add, dnnl_primitive_desc_t *pd) {
  int team = omp_get_max_threads();
  omp_set_num_threads(1);
  dnnl_status_t status = matmul_tile_describe(t, add, pd);
  omp_set_num_threads(team);
  return status;
}

dnnl_status_t mr__tile_init(mr__tile_t *t, const mr_matmul_spec_t *s, bool add,
                            const dnnl_memory_desc_t *b) {
  dnnl_primitive_desc_t pd;
  if (!mr__dnn_engine()) return dnnl_runtime_error;
  MR_DNN(make_views(t, s));
  if (b) t->b = *b;
  MR_DNN(describe_for_one(t, add, &pd));
  t->scratch = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  t->scratch_bytes = matmul_tile_round64(dnnl_memory_desc_get_size(&t->scratch));
  dnnl_status_t status = dnnl_primitive_create(&t->run, pd);
  dnnl_primitive_desc_destroy(pd);
  return status;
}

/* ---- packing ---- */

/* The layout that oneDNN chooses for b. */
static dnnl_status_t preferred_layout(const mr_matmul_spec_t *s, dnnl_memory_desc_t *to) {
  dnnl_primitive_desc_t pd;
  mr__tile_t t = {0};
  if (!mr__dnn_engine()) return dnnl_runtime_error;
  MR_DNN(make_views(&t, s));
  MR_DNN(dnnl_memory_desc_init_by_tag(&t.b, 2, t.b.dims, t.b.data_type, dnnl_format_tag_any));
  MR_DNN(describe_for_one(&t, false, &pd));
  *to = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  dnnl_primitive_desc_destroy(pd);
  return dnnl_success;
}

static bool is_blocked(const dnnl_memory_desc_t *md) {
  return md->format_kind == dnnl_blocked && md->format_desc.blocking.inner_nblks > 0;
}

/* [n/64][k/32][16][64][2] */
static bool matmul_tile_in_pairs(const dnnl_memory_desc_t *md, int64_t k) {
  const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
  static const dnnl_dims_t size = {16, 64, 2}, dim = {0, 1, 0};
  return b->inner_nblks == 3 && memcmp(b->inner_blks, size, 3 * sizeof *size) == 0 &&
         memcmp(b->inner_idxs, dim, 3 * sizeof *dim) == 0 && b->strides[0] == 32 * 64 &&
         b->strides[1] == 64 * ((k + 31) / 32 * 32);
}

dnnl_status_t mr__pack_init(mr__pack_t *p, const mr_matmul_spec_t *s) {
  dnnl_primitive_desc_t pd;
  MR_DNN(preferred_layout(s, &p->to));
  if (!is_blocked(&p->to)) return dnnl_success;
  MR_DNN(make_view(s->b, s->k, s->n, s->b_row, s->b_col, &p->from));
  MR_DNN(dnnl_reorder_primitive_desc_create(&pd, &p->from, mr__dnn_engine(), &p->to,
                                            mr__dnn_engine(), NULL));
  dnnl_status_t status = dnnl_primitive_create(&p->run, pd);
  dnnl_primitive_desc_destroy(pd);
  p->bytes = matmul_tile_round64(dnnl_memory_desc_get_size(&p->to));
  p->spec = *s;
  p->pairs = mr__pairs_work(s) && matmul_tile_in_pairs(&p->to, s->k);
  return status;
}

void mr__tile_fini(mr__tile_t *t) {
  if (t->run) dnnl_primitive_destroy(t->run);
  *t = (mr__tile_t){0};
}

void mr__pack_fini(mr__pack_t *p) {
  if (p->run) dnnl_primitive_destroy(p->run);
  *p = (mr__pack_t){0};
}

static dnnl_status_t make_memory(const dnnl_memory_desc_t *md, void *at, dnnl_memory_t *m) {
  return dnnl_memory_create(m, md, mr__dnn_engine(), at);
}

dnnl_status_t mr__pack_run(const mr__pack_t *p, const void *b, void *packed) {
  dnnl_stream_t stream = NULL;
  dnnl_memory_t from = NULL, to = NULL;
  if (p->pairs) {
    mr__pairs_pack(&p->spec, b, packed);
    return dnnl_success;
  }
  dnnl_status_t status = dnnl_stream_create(&stream, mr__dnn_engine(), dnnl_stream_default_flags);
  if (status == dnnl_success) status = make_memory(&p->from, (void *)b, &from);
  if (status == dnnl_success) status = make_memory(&p->to, packed, &to);
  if (status == dnnl_success) {
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    status = dnnl_primitive_execute(p->run, stream, 2, args);
  }
  if (status == dnnl_success) status = dnnl_stream_wait(stream);
  if (from) dnnl_memory_destroy(from);
  if (to) dnnl_memory_destroy(to);
  if (stream) dnnl_stream_destroy(stream);
  return status;
}

static dnnl_status_t tile_frame_open(const mr__tile_t *t, mr__tile_frame_t *frame, void *work) {
  MR_DNN(dnnl_stream_create(&frame->stream, mr__dnn_engine(), dnnl_stream_default_flags));
  MR_DNN(make_memory(&t->a, DNNL_MEMORY_NONE, &frame->a));
  MR_DNN(make_memory(&t->b, DNNL_MEMORY_NONE, &frame->b));
  MR_DNN(make_memory(&t->out, DNNL_MEMORY_NONE, &frame->out));
  if (t->with_bias) MR_DNN(make_memory(&t->bias, DNNL_MEMORY_NONE, &frame->bias));
  return make_memory(&t->scratch, work, &frame->scratch);
}

dnnl_status_t mr__tile_run(const mr__tile_t *t, mr__tile_frame_t *frame, const void *a,
                           const void *b, const void *bias, void *out, void *work) {
  if (!frame->stream) MR_DNN(tile_frame_open(t, frame, work));
  MR_DNN(dnnl_memory_set_data_handle(frame->a, (void *)a));
  MR_DNN(dnnl_memory_set_data_handle(frame->b, (void *)b));
  MR_DNN(dnnl_memory_set_data_handle(frame->out, out));
  if (t->with_bias) MR_DNN(dnnl_memory_set_data_handle(frame->bias, (void *)bias));
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, frame->a},
                            {DNNL_ARG_WEIGHTS, frame->b},
                            {DNNL_ARG_DST, frame->out},
                            {DNNL_ARG_SCRATCHPAD, frame->scratch},
                            {DNNL_ARG_BIAS, frame->bias}};
  MR_DNN(dnnl_primitive_execute(t->run, frame->stream, t->with_bias ? 5 : 4, args));
  return dnnl_stream_wait(frame->stream);
}

void mr__tile_close(mr__tile_frame_t *frame) {
  dnnl_memory_t all[] = {frame->a, frame->b, frame->bias, frame->out, frame->scratch};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]) dnnl_memory_destroy(all[i]);
  if (frame->stream) dnnl_stream_destroy(frame->stream);
  *frame = (mr__tile_frame_t){0};
}
