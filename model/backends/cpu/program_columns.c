/* Running a program whose reductions fold rows into one row: sums over leading dimensions, such
   as the gradient of a bias.

   Rows are divided into chunks by sizes alone.  Each chunk is folded, row after row, into a row
   of its own in the scratch; at the end these rows are folded in their order.  Columns are
   independent: a row longer than a block is processed in pieces. */
#include "model/backends/cpu/program_private.h"
#include "model/backends/cpu/rows.h"
#include "model/ops/rules.h"

/* The number of chunks; fewer if rows are so long that the scratch would hold more than MOST
   sums: then the pieces of a row keep all threads busy. */
enum { CHUNKS = 64, MOST = 1 << 21, SMALL = 1 << 14 };

static int64_t program_columns_least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t rows_of(const program_t *p) { return p->n / p->inner; }

size_t mr__program_columns_cut(program_t *p) {
  int64_t most = p->inner < MOST ? program_columns_least(CHUNKS, MOST / p->inner) : 1;
  p->chunk_rows = (rows_of(p) + most - 1) / most;
  p->chunks = (rows_of(p) + p->chunk_rows - 1) / p->chunk_rows;
  return (size_t)(p->chunks * p->inner * p->n_reduce) * sizeof(float);
}

/* The row of chunk `chunk` of reduction k in the scratch. */
static float *partial_row(const mr_call_t *c, int k, int64_t chunk) {
  const program_t *p = c->state;
  return (float *)c->scratch + (k * p->chunks + chunk) * p->inner;
}

/* Folds rows [r,end) of columns [j,j+m), all in one block, each into the row of its chunk. */
static void fold_block(frame_t *f, int64_t r, int64_t end, int64_t j, int64_t m) {
  const program_t *p = f->p;
  mr__frame_block(f, r * p->inner + j, (end - r) * m);
  for (int64_t from = r, to; from < end; from = to) {
    int64_t chunk = from / p->chunk_rows;
    to = program_columns_least((chunk + 1) * p->chunk_rows, end);
    for (int k = 0; k < p->n_reduce; k++) {
      const step_t *t = &p->reduce[k];
      const value_t *x = &p->value[t->in[0]];
      const char *at = (const char *)f->at[t->in[0]] + x->size * (size_t)((from - r) * m);
      t->unit.fold_rows(x->dtype, at, m, to - from, partial_row(f->c, k, chunk) + j, m);
    }
  }
}

/* Folds columns [j,j+m) of chunks [from,to). */
static void run_piece(const mr_call_t *c, int64_t from, int64_t to, int64_t j, int64_t m) {
  _Alignas(64) char slots[SLOT_BYTES];
  frame_t f;
  mr__frame_init(&f, c, slots);
  const program_t *p = f.p;
  int64_t end = program_columns_least(to * p->chunk_rows, rows_of(p)),
          each = m < p->inner ? 1 : p->block / m;
  for (int k = 0; k < p->n_reduce; k++)
    for (int64_t chunk = from; chunk < to; chunk++)
      for (int64_t i = 0; i < m; i++) partial_row(c, k, chunk)[j + i] = p->reduce[k].unit.start;
  for (int64_t r = from * p->chunk_rows; r < end; r += each)
    fold_block(&f, r, program_columns_least(r + each, end), j, m);
}

/* Folds the chunks' rows into columns [j,j+m) of all results. */
static void join_piece(const mr_call_t *c, int64_t j, int64_t m) {
  const program_t *p = c->state;
  float acc[BLOCK_MAX];
  for (int k = 0; k < p->n_reduce; k++) {
    const step_t *t = &p->reduce[k];
    const value_t *y = &p->value[t->out];
    for (int64_t i = 0; i < m; i++) acc[i] = t->unit.start;
    t->unit.fold_rows(MR_F32, partial_row(c, k, 0) + j, p->inner, p->chunks, acc, m);
    mr__rows()->convert(MR_F32, acc, y->dtype, (char *)c->out[y->index] + y->size * (size_t)j, 0,
                        m);
  }
}

void mr__program_columns_run(const mr_call_t *c) {
  const program_t *p = c->state;
  int64_t pieces = (p->inner + p->block - 1) / p->block, each = p->block;
  bool alone = p->n <= SMALL || c->serial;
  int64_t cuts = alone ? 1 : p->chunks, per = alone ? p->chunks : 1;
#pragma omp parallel for schedule(static) if (!alone)
  for (int64_t i = 0; i < cuts * pieces; i++) {
    int64_t from = i / pieces * per, j = i % pieces * each;
    run_piece(c, from, from + per, j, program_columns_least(each, p->inner - j));
  }
#pragma omp parallel for schedule(static) if (!alone && pieces > 1)
  for (int64_t i = 0; i < pieces; i++)
    join_piece(c, i * each, program_columns_least(each, p->inner - i * each));
}
