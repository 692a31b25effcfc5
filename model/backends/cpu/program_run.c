/* Running a program: block by block, each step on the whole block, so that intermediate values
   never leave the first-level cache. */
#include <string.h>

#include "model/backends/cpu/program_private.h"
#include "model/ops/rules.h"

void mr__frame_init(frame_t *f, const mr_call_t *c, char *slots) {
  f->p = c->state, f->c = c, f->slots = slots;
  for (int v = 0; v < f->p->n_value; v++) {
    const value_t *x = &f->p->value[v];
    if (x->place == PLACE_ONE) f->at[v] = c->in[x->index];
    if (x->place == PLACE_CONST) f->at[v] = (void *)(uintptr_t)x->constant; /* it is only read */
    if (x->place == PLACE_SLOT) f->at[v] = slots + (size_t)x->slot * f->p->slot_bytes;
  }
}

static void program_run_fill(char *to, const char *from, size_t size, int64_t n) {
  if (size == 4) {
    uint32_t v;
    memcpy(&v, from, sizeof v);
    for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &v, sizeof v);
  } else {
    for (int64_t i = 0; i < n; i++) memcpy(to + size * (size_t)i, from, size);
  }
}

/* Writes elements [i0,i0+m) of a repeated value to `to`. */
static void repeat_elements(const value_t *x, const char *from, char *to, int64_t i0, int64_t m) {
  size_t size = x->size;
  for (int64_t i = i0; i < i0 + m;) {
    int64_t k = i / x->inner % x->mid, left = i0 + m - i, run;
    if (x->inner == 1) {
      run = x->mid - k < left ? x->mid - k : left;
      memcpy(to, from + size * (size_t)k, size * (size_t)run);
    } else {
      run = x->inner - i % x->inner < left ? x->inner - i % x->inner : left;
      program_run_fill(to, from + size * (size_t)k, size, run);
    }
    to += size * (size_t)run;
    i += run;
  }
}

static void *program_run_repeat(const frame_t *f, const value_t *x, int64_t i0, int64_t m) {
  char *from = f->c->in[x->index], *slot = f->slots + (size_t)x->slot * f->p->slot_bytes;
  if (x->inner == 1 && i0 % x->mid + m <= x->mid) return from + x->size * (size_t)(i0 % x->mid);
  repeat_elements(x, from, slot, i0, m);
  return slot;
}

/* Writes k, k + 1, ..., or n times k if inner elements share a number. */
static void count_on(const value_t *x, int64_t k, char *to, int64_t n) {
  float real = (float)k;
  int32_t whole = (int32_t)k;
  if (x->inner != 1)
    program_run_fill(to, x->dtype == MR_F32 ? (char *)&real : (char *)&whole, x->size, n);
  else if (x->dtype == MR_F32)
    for (int32_t j = 0; j < (int32_t)n; j++) ((float *)to)[j] = (float)(whole + j);
  else
    for (int32_t j = 0; j < (int32_t)n; j++) ((int32_t *)to)[j] = whole + j;
}

/* Returns elements [i0,i0+m) of a counter, in its slot. */
static void *program_run_count(const frame_t *f, const value_t *x, int64_t i0, int64_t m) {
  char *slot = f->slots + (size_t)x->slot * f->p->slot_bytes;
  for (int64_t done = 0, run; done < m; done += run) {
    int64_t i = i0 + done, k = i / x->inner % x->mid;
    run = x->inner == 1 ? x->mid - k : x->inner - i % x->inner;
    if (run > m - done) run = m - done;
    count_on(x, k, slot + (size_t)done * x->size, run);
  }
  return slot;
}

void mr__frame_block(frame_t *f, int64_t i0, int64_t m) {
  const program_t *p = f->p;
  for (int v = 0; v < p->n_value; v++) {
    const value_t *x = &p->value[v];
    size_t at = x->size * (size_t)i0;
    if (x->place == PLACE_IN) f->at[v] = (char *)f->c->in[x->index] + at;
    if (x->place == PLACE_OUT) f->at[v] = (char *)f->c->out[x->index] + at;
    if (x->place == PLACE_REPEAT) f->at[v] = program_run_repeat(f, x, i0, m);
    if (x->place == PLACE_INDEX) f->at[v] = program_run_count(f, x, i0, m);
  }
  for (int s = 0; s < p->n_step; s++) {
    const step_t *t = &p->step[s];
    const void *in[MR_UNIT_IN] = {f->at[t->in[0]], f->at[t->in[1]], f->at[t->in[2]]};
    if (t->unit.run_at)
      t->unit.run_at(&t->unit, in, f->at[t->out], i0, m);
    else
      t->unit.run(&t->unit, in, f->at[t->out], m);
  }
}

static int64_t program_run_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- without reductions ---- */
enum { SPAN = 8 * BLOCK_MAX };

static void run_span(const mr_call_t *c, int64_t from, int64_t to) {
  _Alignas(64) char slots[SLOT_BYTES];
  frame_t f;
  mr__frame_init(&f, c, slots);
  for (int64_t i = from; i < to; i += f.p->block)
    mr__frame_block(&f, i, program_run_least(f.p->block, to - i));
}

static void run_each(const mr_call_t *c) {
  const program_t *p = c->state;
  int64_t n = p->n;
  if (n <= SPAN || c->serial) {
    run_span(c, 0, n);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += SPAN) run_span(c, i, program_run_least(i + SPAN, n));
}

/* ---- with reductions: rows, or chunks of a long row ---- */
static const value_t *first_operand(const program_t *p, const step_t *r) {
  return &p->value[r->in[0]];
}

static void program_run_begin(const program_t *p, float (*lane)[MR_FOLD_LANES]) {
  for (int k = 0; k < p->n_reduce; k++)
    for (int i = 0; i < MR_FOLD_LANES; i++) lane[k][i] = p->reduce[k].unit.start;
}

static void program_run_fold(const frame_t *f, float (*lane)[MR_FOLD_LANES], int64_t skip,
                             int64_t m) {
  for (int k = 0; k < f->p->n_reduce; k++) {
    const step_t *r = &f->p->reduce[k];
    const value_t *x = first_operand(f->p, r);
    r->unit.fold(x->dtype, (char *)f->at[r->in[0]] + x->size * (size_t)skip, lane[k], m);
  }
}

static void program_run_end(const frame_t *f, float (*lane)[MR_FOLD_LANES], int64_t row) {
  for (int k = 0; k < f->p->n_reduce; k++) {
    const step_t *r = &f->p->reduce[k];
    const value_t *y = &f->p->value[r->out];
    mr_set_f32(y->dtype, f->c->out[y->index], row, r->unit.join(lane[k]));
  }
}

/* Rows so short that several fit into a block. */
static void run_short_rows(frame_t *f, int64_t from, int64_t to) {
  int64_t inner = f->p->inner, each = f->p->block / inner;
  float lane[MR_PROGRAM_ENDS][MR_FOLD_LANES];
  for (int64_t r = from; r < to; r += each) {
    int64_t rows = program_run_least(each, to - r);
    mr__frame_block(f, r * inner, rows * inner);
    for (int64_t j = 0; j < rows; j++) {
      program_run_begin(f->p, lane);
      program_run_fold(f, lane, j * inner, inner);
      program_run_end(f, lane, r + j);
    }
  }
}

static void fold_part(frame_t *f, float (*lane)[MR_FOLD_LANES], int64_t from, int64_t to) {
  program_run_begin(f->p, lane);
  for (int64_t i = from; i < to; i += f->p->block) {
    int64_t m = program_run_least(f->p->block, to - i);
    mr__frame_block(f, i, m);
    program_run_fold(f, lane, 0, m);
  }
}

static void run_rows(const mr_call_t *c, int64_t from, int64_t to) {
  _Alignas(64) char slots[SLOT_BYTES];
  float lane[MR_PROGRAM_ENDS][MR_FOLD_LANES];
  frame_t f;
  mr__frame_init(&f, c, slots);
  int64_t inner = f.p->inner;
  if (inner <= f.p->block) {
    run_short_rows(&f, from, to);
    return;
  }
  for (int64_t r = from; r < to; r++) {
    fold_part(&f, lane, r * inner, (r + 1) * inner);
    program_run_end(&f, lane, r);
  }
}

/* Folds one chunk of a row into its place in the scratch. */
static void run_chunk(const mr_call_t *c, int64_t chunk, int64_t chunks, int64_t total) {
  _Alignas(64) char slots[SLOT_BYTES];
  float lane[MR_PROGRAM_ENDS][MR_FOLD_LANES];
  frame_t f;
  mr__frame_init(&f, c, slots);
  int64_t row = chunk / chunks, at = chunk % chunks * CHUNK, inner = f.p->inner;
  fold_part(&f, lane, row * inner + at, row * inner + program_run_least(at + CHUNK, inner));
  for (int k = 0; k < f.p->n_reduce; k++)
    ((float *)c->scratch)[k * total + chunk] = f.p->reduce[k].unit.join(lane[k]);
}

static void join_chunks(const mr_call_t *c, int64_t rows, int64_t chunks) {
  const program_t *p = c->state;
  frame_t f = {.p = p, .c = c};
  float lane[MR_PROGRAM_ENDS][MR_FOLD_LANES];
  for (int64_t r = 0; r < rows; r++) {
    program_run_begin(p, lane);
    for (int k = 0; k < p->n_reduce; k++)
      p->reduce[k].unit.fold(MR_F32, (float *)c->scratch + k * rows * chunks + r * chunks, lane[k],
                             chunks);
    program_run_end(&f, lane, r);
  }
}

static void run_reduce(const mr_call_t *c) {
  const program_t *p = c->state;
  int64_t rows = p->n / p->inner, chunks = (p->inner + CHUNK - 1) / CHUNK, total = rows * chunks;
  if (chunks > 1) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < total; i++) run_chunk(c, i, chunks, total);
    join_chunks(c, rows, chunks);
    return;
  }
  int64_t each = p->inner < SPAN ? SPAN / p->inner : 1;
#pragma omp parallel for schedule(static) if (rows > each && !c->serial)
  for (int64_t r = 0; r < rows; r += each) run_rows(c, r, program_run_least(r + each, rows));
}

void mr__program_run(const mr_call_t *c) {
  const program_t *p = c->state;
  if (p->columns)
    mr__program_columns_run(c);
  else if (p->inner)
    run_reduce(c);
  else
    run_each(c);
}
