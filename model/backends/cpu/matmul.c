/* Matrix products by oneDNN, tile by tile.  The division into tiles depends on the sizes alone,
   one thread computes each tile, and a long sum is divided into parts that are added in order: so
   no result depends on the number of threads.  A free thread takes the next tile.

   If many rows of a share one b, b is first packed into the blocks that oneDNN prefers: that
   costs n k moves beside 2 m n k operations, and saves a copy of b's panels for every block of
   rows.  For the same reason a transposed bf16 a with a long sum (the gradient of a weight) is
   transposed first.  Both are done for one part of the sum at a time, which is then in cache.
   Every f16 product, and a bf16 product where the processor has none, becomes an f32 product of
   widened operands. */
#include <assert.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/matmul_private.h"
#include "model/backends/cpu/matmul_tile.h"

enum {
  PACK_ROWS = 1024, /* packing b pays from this many rows on */
  TURN_SUM = 2048,  /* transposing a pays from this many terms on */
  PART = 2048,      /* the approximate number of terms in a part of a long sum */
  F32_PART = 1000,  /* the same for f32 with a packed b, so that b's part stays in cache */
  TILES = 32,       /* the desired number: enough for large teams, few enough to be large */
  FEW_TILES = 8,    /* with fewer, columns are divided too */
  FEW_TURNED = 4,   /* the same for a transposed b, which each piece of columns copies again */
  TILE_ROWS = 64,
  F32_ROWS = 128, /* the same for f32 with a packed b */
  TILE_COLS = 256,
  ROW_COLS = 192, /* the same for a single row of tiles */
};

/* n divided into `count` pieces of `size`; the last one has `rest`, which may be less. */
typedef struct matmul_cut {
  int64_t count, size, rest;
} cut_t;

/* The parts of a sum: FIRST writes the result, MORE adds to it, SHORT is a shorter last one. */
enum { FIRST, MORE, SHORT, N_PARTS };

struct mr_matmul {
  mr_matmul_spec_t s;
  mr_matmul_t *other; /* the product used instead (f32 for bf16 and f16, bf16 for f32), or NULL;
                         with it the fields below are unused */
  cut_t m, n, k;
  bool turn, packs;
  mr__pack_t pack[2];             /* [short part]; run is NULL: b is used without packing */
  mr__tile_t tile[N_PARTS][2][2]; /* [part][short rows][short columns] */
  int threads;                    /* the largest team that it can run on */
  size_t scratch_bytes;           /* for one thread */
  size_t packed_bytes;
  size_t turned_bytes;
  struct pack_form { /* what the packed b depends on beside b */
    dnnl_memory_desc_t from, to;
  } form;
};

static int64_t ceil_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static int64_t matmul_least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t greater_i64(int64_t a, int64_t b) { return a > b ? a : b; }

static cut_t matmul_cut(int64_t n, int64_t count, int64_t unit) {
  int64_t size = matmul_least(n, ceil_to((n + count - 1) / count, unit));
  count = (n + size - 1) / size;
  return (cut_t){count, size, n - (count - 1) * size};
}

static bool turn_pays(const mr_matmul_spec_t *s) {
  return s->batch == 1 && s->a == MR_BF16 && s->a_row == 1 && s->m >= 64 && s->n >= 64 &&
         s->k >= TURN_SUM && mr__turn_works();
}

/* The largest even number up to pieces, so that teams of two share evenly; at least 1. */
static int64_t even_pieces(int64_t pieces) { return pieces < 2 ? 1 : pieces / 2 * 2; }

/* Divides the product.  Columns are divided only if there are few rows, as oneDNN cannot combine
   a packed b and a result with gaps.  Few rows are divided to the row, so that no thread waits
   for the longest piece. */
static void cut_up(mr_matmul_t *p) {
  const mr_matmul_spec_t *s = &p->s;
  bool f32 = s->a == MR_F32 && s->a_col == 1 && p->packs;
  int64_t rows = even_pieces(matmul_least(TILES, s->m / (f32 ? F32_ROWS : TILE_ROWS))),
          few = FEW_TILES;
  int64_t part = f32 ? F32_PART : PART;
  if (s->b_row == 1 && s->b_col != 1) few = FEW_TURNED;
  p->m = matmul_cut(s->m, rows, s->m / rows >= 3 * TILE_ROWS ? TILE_ROWS : 1);
  int64_t wide = p->m.count == 1 && s->a_col == 1 ? ROW_COLS : TILE_COLS;
  p->n = matmul_cut(s->n,
                    p->packs ? 1 : greater_i64(1, matmul_least(few / p->m.count, s->n / wide)), 64);
  bool parts = s->batch == 1 && s->out == MR_F32 && !s->bias && s->k >= 2 * part;
  p->k = matmul_cut(s->k, parts ? s->k / part : 1, 32);
}

/* The row stride of the transposed a.  It is dense if possible, as oneDNN then packs b. */
static int64_t turned_row(int64_t terms) { return ceil_to(terms, 32); }

static mr_matmul_spec_t tile_spec(const mr_matmul_t *p, int part, int i, int j) {
  mr_matmul_spec_t s = p->s;
  s.batch = 1;
  s.m = i ? p->m.rest : p->m.size;
  s.n = j ? p->n.rest : p->n.size;
  s.k = part == SHORT ? p->k.rest : p->k.size;
  if (p->turn) s.a_row = turned_row(s.k), s.a_col = 1;
  return s;
}

static dnnl_status_t make_tile(mr_matmul_t *p, int part, int i, int j) {
  mr_matmul_spec_t s = tile_spec(p, part, i, j);
  const mr__pack_t *pack = &p->pack[part == SHORT];
  mr__tile_t *t = &p->tile[part][i][j];
  MR_DNN(mr__tile_init(t, &s, part != FIRST, pack->run ? &pack->to : NULL));
  if (t->scratch_bytes > p->scratch_bytes) p->scratch_bytes = t->scratch_bytes;
  return dnnl_success;
}

/* 1 if piece i is smaller than the others, else 0. */
static int is_short(const cut_t *c, int64_t i) { return i == c->count - 1 && c->rest != c->size; }

static int part_kind(const cut_t *k, int64_t i) {
  return i == 0 ? FIRST : is_short(k, i) ? SHORT : MORE;
}

static bool has_short(const cut_t *c) { return c->rest != c->size; }

static bool has_part(const cut_t *k, int part) {
  if (part == FIRST) return true;
  return part == SHORT ? has_short(k) : k->count > 1 + has_short(k);
}

static dnnl_status_t make_pack(mr_matmul_t *p, int part) {
  mr_matmul_spec_t s = tile_spec(p, part, 0, 0);
  mr__pack_t *pack = &p->pack[part == SHORT];
  if (pack->run) return dnnl_success;
  MR_DNN(mr__pack_init(pack, &s));
  if (pack->bytes > p->packed_bytes) p->packed_bytes = pack->bytes;
  return dnnl_success;
}

static dnnl_status_t make_part(mr_matmul_t *p, int part) {
  if (p->packs) MR_DNN(make_pack(p, part));
  for (int i = 0; i <= has_short(&p->m); i++)
    for (int j = 0; j <= has_short(&p->n); j++) MR_DNN(make_tile(p, part, i, j));
  return dnnl_success;
}

/* A part's panels are packed over those of the part before: only a sum of one part leaves all. */
static bool packs_whole_operand(const mr_matmul_t *p) {
  return !p->other && p->pack[0].run && p->k.count == 1;
}

static void note_form(mr_matmul_t *p) {
  if (!packs_whole_operand(p)) return;
  memcpy(&p->form.from, &p->pack[0].from, sizeof p->form.from);
  memcpy(&p->form.to, &p->pack[0].to, sizeof p->form.to);
}

static dnnl_status_t matmul_make(mr_matmul_t *p) {
  p->turn = turn_pays(&p->s);
  p->packs = p->turn || (p->s.batch == 1 && p->s.m >= PACK_ROWS);
  cut_up(p);
  if (p->turn) p->turned_bytes = (size_t)(p->s.m * turned_row(p->k.size)) * sizeof(mr_bf16_t);
  p->threads = omp_get_max_threads();
  for (int part = 0; part < N_PARTS; part++)
    if (has_part(&p->k, part)) MR_DNN(make_part(p, part));
  note_form(p);
  return dnnl_success;
}

static void clear_tiles(mr_matmul_t *p) {
  for (int i = 0; i < 4; i++) {
    for (int part = 0; part < N_PARTS; part++) mr__tile_fini(&p->tile[part][i / 2][i % 2]);
  }
  for (int i = 0; i < 2; i++) mr__pack_fini(&p->pack[i]);
  mr_matmul_destroy(p->other);
  p->other = NULL;
}

static bool matmul_fits(const mr_matmul_spec_t *s) {
  bool f32 = s->a == MR_F32 && s->b == MR_F32 && s->out == MR_F32;
  bool bf16 = s->a == MR_BF16 && s->b == MR_BF16 && (s->out == MR_BF16 || s->out == MR_F32);
  bool f16 = s->a == MR_F16 && s->b == MR_F16 && (s->out == MR_F16 || s->out == MR_F32);
  return (f32 || bf16 || f16) && s->batch > 0 && s->m > 0 && s->n > 0 && s->k > 0;
}

static mr_err_t matmul_report_refusal(const mr_matmul_spec_t *s, dnnl_status_t status,
                                      mr_diag_t *diag) {
  return mr_fail(diag, status == dnnl_out_of_memory ? MR_ERR_NOMEM : MR_ERR_UNAVAILABLE,
                 "matmul: oneDNN (%s) does not multiply %s %lld x (%lld,%lld) (%lld,%lld): %s",
                 mr_isa_name(mr_isa()), mr_dtype_name(s->a), (long long)s->batch, (long long)s->m,
                 (long long)s->k, (long long)s->k, (long long)s->n, dnnl_status2str(status));
}

static mr_err_t create_other(mr_matmul_t *p, const mr_matmul_spec_t *spec, mr_diag_t *diag) {
  clear_tiles(p);
  return mr_matmul_create(spec, &p->other, diag);
}

/* True for the products that oneDNN lacks, or emulates at a fraction of f32's speed: AVX-512
   without its bf16 part takes 4 times as long for a bf16 product as for the widened one. */
static bool matmul_is_emulated(const mr_matmul_spec_t *s) {
  return s->a == MR_F16 || (s->a == MR_BF16 && mr_isa() < MR_ISA_AVX512_BF16);
}

static mr_err_t make_or_refuse(mr_matmul_t *p, mr_diag_t *diag) {
  mr_matmul_spec_t other;
  if (mr__narrows(&p->s)) {
    other = mr__narrow_spec(&p->s);
    return create_other(p, &other, diag);
  }
  dnnl_status_t status = matmul_is_emulated(&p->s) ? dnnl_unimplemented : matmul_make(p);
  if (status == dnnl_success) return MR_OK;
  if (status != dnnl_unimplemented || p->s.a == MR_F32)
    return matmul_report_refusal(&p->s, status, diag);
  other = mr__wide_spec(&p->s);
  return create_other(p, &other, diag);
}

mr_err_t mr_matmul_create(const mr_matmul_spec_t *spec, mr_matmul_t **out, mr_diag_t *diag) {
  *out = NULL;
  if (!matmul_fits(spec))
    return mr_fail(
        diag, MR_ERR_SHAPE,
        "matmul: no product of %s by %s into %s for sizes %lld x (%lld,%lld) (%lld,%lld)",
        mr_dtype_name(spec->a), mr_dtype_name(spec->b), mr_dtype_name(spec->out),
        (long long)spec->batch, (long long)spec->m, (long long)spec->k, (long long)spec->k,
        (long long)spec->n);
  mr_matmul_t *p = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "a matrix product");
  p->s = *spec;
  mr__workspace_join();
  mr_err_t err = make_or_refuse(p, diag);
  if (err < 0) {
    mr_matmul_destroy(p);
    return err;
  }
  *out = p;
  return MR_OK;
}

void mr_matmul_destroy(mr_matmul_t *p) {
  if (!p) return;
  clear_tiles(p);
  free(p);
  mr__workspace_leave();
}

static size_t scratch_total(const mr_matmul_t *p) { return (size_t)p->threads * p->scratch_bytes; }

/* Bytes for the converted operands of `other`, beside its own workspace. */
static size_t copies_bytes(const mr_matmul_t *p) {
  return p->s.a == MR_F32 ? mr__narrow_bytes(&p->s) : mr__wide_bytes(&p->s);
}

size_t mr_matmul_workspace(const mr_matmul_t *p) {
  if (p->other) return copies_bytes(p) + mr_matmul_workspace(p->other);
  return scratch_total(p) + p->packed_bytes + p->turned_bytes;
}

/* One run: the operands of one part of the sum. */
typedef struct run {
  mr_matmul_t *p;
  int part;
  const char *a, *b, *bias;
  char *out, *work, *packed;
  bool is_packed;    /* b lies in `packed` already */
  int64_t a_row;     /* the row stride of a, transposed or not */
  atomic_int failed; /* relaxed: it is read after the barrier at the team's end */
} run_t;

static dnnl_status_t run_tile(const run_t *r, int64_t at, mr__tile_frame_t frame[2][2],
                              void *work) {
  const mr_matmul_t *p = r->p;
  const mr_matmul_spec_t *s = &p->s;
  int64_t i = at % p->m.count, j = at / p->m.count % p->n.count, z = at / p->m.count / p->n.count;
  int64_t row = i * p->m.size, col = j * p->n.size, size = (int64_t)mr_dtype_size(s->a);
  int short_i = is_short(&p->m, i), short_j = is_short(&p->n, j);
  const char *b =
      p->pack[r->part == SHORT].run ? r->packed : r->b + (z * s->b_batch + col * s->b_col) * size;
  return mr__tile_run(
      &p->tile[r->part][short_i][short_j], &frame[short_i][short_j],
      r->a + (z * s->a_batch + row * r->a_row) * size, b,
      s->bias ? r->bias + col * (int64_t)mr_dtype_size(s->bias_dtype) : NULL,
      r->out + (z * s->out_batch + row * s->out_row + col) * (int64_t)mr_dtype_size(s->out), work);
}

static void run_tiles(run_t *r, int team, int64_t tiles) {
#pragma omp parallel num_threads(team)
  {
    mr__tile_frame_t frame[2][2] = {0};
    char *work = r->work + (size_t)omp_get_thread_num() * r->p->scratch_bytes;
#pragma omp for schedule(dynamic) nowait
    for (int64_t at = 0; at < tiles; at++)
      if (run_tile(r, at, frame, work) != dnnl_success)
        atomic_store_explicit(&r->failed, 1, memory_order_relaxed);
    for (int i = 0; i < 4; i++) mr__tile_close(&frame[i / 2][i % 2]);
  }
}

/* Runs the tiles of one part.  A primitive is made for one thread: without a parallel region
   around it, the team must be set to 1. */
static bool matmul_run_part(run_t *r) {
  const mr_matmul_t *p = r->p;
  int64_t tiles = p->s.batch * p->m.count * p->n.count;
  int most_now = omp_get_max_threads(), team = (int)matmul_least(most_now, p->threads);
  const mr__pack_t *pack = &p->pack[r->part == SHORT];
  if (pack->run && !r->is_packed && mr__pack_run(pack, r->b, r->packed) != dnnl_success)
    return false;
  if (tiles == 1 || team == 1) omp_set_num_threads(team = 1);
  run_tiles(r, team, tiles);
  omp_set_num_threads(most_now);
  return !atomic_load_explicit(&r->failed, memory_order_relaxed);
}

/* packed: b as it was packed before, or NULL. */
static bool multiply_tiles(mr_matmul_t *p, const char *a, const char *b, const char *bias,
                           char *out, char *work, char *packed) {
  const mr_matmul_spec_t *s = &p->s;
  int64_t size = (int64_t)mr_dtype_size(s->a);
  char *room = work + scratch_total(p);
  run_t r = {.p = p,
             .bias = bias,
             .out = out,
             .work = work,
             .packed = packed ? packed : room,
             .is_packed = packed != NULL};
  mr_bf16_t *turned = (mr_bf16_t *)(room + p->packed_bytes);
  for (int64_t k = 0; k < p->k.count; k++) {
    int64_t from = k * p->k.size, terms = k == p->k.count - 1 ? p->k.rest : p->k.size;
    r.part = part_kind(&p->k, k);
    r.a = a + from * s->a_col * size;
    r.b = b + from * s->b_row * size;
    r.a_row = p->turn ? turned_row(terms) : s->a_row;
    if (p->turn) mr__turn((const mr_bf16_t *)r.a, s->a_col, terms, s->m, turned, r.a_row);
    if (p->turn) r.a = (const char *)turned;
    if (!matmul_run_part(&r)) return false;
  }
  return true;
}

/* packed: as for multiply_tiles. */
static void matmul_run_on(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out,
                          char *packed) {
  char *work = mr__workspace_take(p->other ? copies_bytes(p) : mr_matmul_workspace(p));
  bool done = work != NULL;
  if (work && p->other && p->s.a == MR_F32)
    mr__narrow_run(&p->s, p->other, a, b, bias, out, work);
  else if (work && p->other)
    mr__wide_run(&p->s, p->other, a, b, bias, out, work);
  else if (work)
    done = multiply_tiles(p, a, b, bias, out, work, packed);
  if (work) mr__workspace_give(work);
  assert(done || !work);
  if (!done) mr__matmul_plain(&p->s, a, b, bias, out);
}

void mr_matmul_run(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out) {
  matmul_run_on(p, a, b, bias, out, NULL);
}

/* Whether packing succeeded is written after what is packed. */
enum { VERDICT = 64 };

mr_matmul_kept_t mr_matmul_kept(const mr_matmul_t *p) {
  if (!packs_whole_operand(p)) return (mr_matmul_kept_t){0};
  return (mr_matmul_kept_t){p->packed_bytes + VERDICT, &p->form, sizeof p->form};
}

void mr_matmul_run_kept(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out,
                        void *kept, bool make) {
  char *packed = kept, *verdict = packed + p->packed_bytes;
  assert(packs_whole_operand(p));
  if (make) *verdict = mr__pack_run(&p->pack[0], b, packed) == dnnl_success;
  matmul_run_on(p, a, b, bias, out, *verdict ? packed : NULL);
}

const char *mr_matmul_how(const mr_matmul_t *p) {
  bool wide = p->other && (p->s.a == MR_BF16 || p->other->other);
  if (p->s.a == MR_F16) return "f16 widened to f32";
  if (p->s.a == MR_BF16) return wide ? "bf16 widened to f32" : "bf16, f32 sums";
  if (!p->other) return "f32";
  if (p->s.precision == MR_PRECISION_DEFAULT)
    return wide ? "f32 rounded to bf16, widened" : "f32 rounded to bf16, f32 sums";
  return wide ? "f32 as 3 bf16 products, widened" : "f32 as 3 bf16 products, f32 sums";
}

mr_matmul_moves_t mr_matmul_moves(const mr_matmul_t *p) {
  const mr_matmul_spec_t *s = &p->s;
  size_t size = mr_dtype_size(s->a), of_a = (size_t)(s->m * s->k) * size;
  size_t of_b = (size_t)(s->k * s->n) * size;
  if (p->other) {
    mr_matmul_moves_t inner = mr_matmul_moves(p->other);
    inner.converted += (size_t)s->batch * (of_a + of_b) + copies_bytes(p);
    return inner;
  }
  return (mr_matmul_moves_t){p->pack[0].run ? 2 * of_b : 0, p->turn ? 2 * of_a : 0, 0};
}
