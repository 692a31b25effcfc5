/* Random draws from keys, and new keys from old ones, as kernels over base/random.h.  Since element
   i depends on the key and i alone, chunks of an array are drawn by any threads in any order; a
   mapped key gives a draw for each example. */
#include "model/backends/cpu/rules.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

typedef struct draw draw_t;
struct draw {
  mr_key_layout_t layout;
  /* Writes elements [i,i+n) of a draw of `of` elements to out[n], of u32, i32 or f32; the caller
     widens f32 to f64. */
  void (*fill)(const draw_t *d, mr_prng_t key, int64_t i, int64_t n, int64_t of, void *out);
  float lo, hi;
  int64_t whole_lo, whole_hi; /* the range of integers; a permutation is of whole_hi numbers */
};

static mr_prng_t key_at(const mr_call_t *c, int64_t k) {
  const uint32_t *key = c->in[0];
  const draw_t *d = c->state;
  return (mr_prng_t){{key[2 * k], key[2 * k + 1]}, d->layout};
}

enum { CHUNK = 1024 };

/* Writes elements [from,from+n) of key k's draw. */
static void draw_chunk(const mr_call_t *c, int64_t k, int64_t each, int64_t from, int64_t n) {
  const draw_t *d = c->state;
  float drawn[CHUNK];
  bool wide = c->eqn->out[0]->aval.dtype == MR_F64;
  void *out = wide ? drawn : (float *)c->out[0] + k * each + from;
  d->fill(d, key_at(c, k), from, n, each, out);
  for (int64_t i = 0; wide && i < n; i++)
    ((double *)c->out[0])[k * each + from + i] = (double)drawn[i];
}

static void draw_run(const mr_call_t *c) {
  int64_t keys = mr__key_count(c->eqn), n = mr_aval_elems(&c->eqn->out[0]->aval);
  int64_t each = keys ? n / keys : 0, chunks = (each + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static)
  for (int64_t j = 0; j < keys * chunks; j++) {
    int64_t from = j % chunks * CHUNK;
    draw_chunk(c, j / chunks, each, from, each - from < CHUNK ? each - from : CHUNK);
  }
}

static mr_err_t lower_draw(mr_call_t *c, draw_t d, void (*run)(const mr_call_t *c),
                           mr_diag_t *diag) {
  const mr_attr_t *p = mr_attr_find(c->eqn, "partitionable");
  d.layout = p && !p->i[0] ? MR_KEY_ORIGINAL : MR_KEY_PARTITIONABLE;
  c->run = run;
  return mr__call_state(c, &d, sizeof d, diag);
}

static void bits_fill(const draw_t *d, mr_prng_t key, int64_t i, int64_t n, int64_t of, void *to) {
  uint32_t *out = to;
  for (int64_t k = 0; k < n; k++) out[k] = mr_random_word(key, (size_t)(i + k), (size_t)of);
}

mr_err_t mr__cpu_random_bits(mr_call_t *c, mr_diag_t *diag) {
  return lower_draw(c, (draw_t){.fill = bits_fill}, draw_run, diag);
}

static void uniform_fill(const draw_t *d, mr_prng_t key, int64_t i, int64_t n, int64_t of,
                         void *to) {
  float *out = to;
  for (int64_t k = 0; k < n; k++)
    out[k] = mr_uniform_of_bits(mr_random_word(key, (size_t)(i + k), (size_t)of), d->lo, d->hi);
}

mr_err_t mr__cpu_random_uniform(mr_call_t *c, mr_diag_t *diag) {
  draw_t d = {.fill = uniform_fill,
              .lo = (float)mr_attr_get(c->eqn, "minval")->f,
              .hi = (float)mr_attr_get(c->eqn, "maxval")->f};
  return lower_draw(c, d, draw_run, diag);
}

static void normal_fill(const draw_t *d, mr_prng_t key, int64_t i, int64_t n, int64_t of,
                        void *to) {
  float *out = to;
  for (int64_t k = 0; k < n; k++)
    out[k] = mr_normal_of_bits(mr_random_word(key, (size_t)(i + k), (size_t)of));
}

mr_err_t mr__cpu_random_normal(mr_call_t *c, mr_diag_t *diag) {
  return lower_draw(c, (draw_t){.fill = normal_fill}, draw_run, diag);
}

static void truncated_normal_fill(const draw_t *d, mr_prng_t key, int64_t i, int64_t n, int64_t of,
                                  void *to) {
  mr_truncated_t cut = mr_truncated(d->lo, d->hi);
  float *out = to;
  for (int64_t k = 0; k < n; k++)
    out[k] = mr_truncated_normal_of_bits(mr_random_word(key, (size_t)(i + k), (size_t)of), &cut);
}

mr_err_t mr__cpu_random_truncated_normal(mr_call_t *c, mr_diag_t *diag) {
  draw_t d = {.fill = truncated_normal_fill,
              .lo = (float)mr_attr_get(c->eqn, "lower")->f,
              .hi = (float)mr_attr_get(c->eqn, "upper")->f};
  return lower_draw(c, d, draw_run, diag);
}

static void randint_fill(const draw_t *d, mr_prng_t key, int64_t i, int64_t n, int64_t of,
                         void *to) {
  mr_random_randint_part(key, (size_t)of, (size_t)i, (size_t)n, (int32_t)d->whole_lo,
                         (int32_t)d->whole_hi, to);
}

mr_err_t mr__cpu_random_randint(mr_call_t *c, mr_diag_t *diag) {
  draw_t d = {.fill = randint_fill,
              .whole_lo = mr_attr_get(c->eqn, "minval")->i[0],
              .whole_hi = mr_attr_get(c->eqn, "maxval")->i[0]};
  return lower_draw(c, d, draw_run, diag);
}

/* A permutation sorts the whole draw, so it runs on one thread. */
static void permutation_run(const mr_call_t *c) {
  int64_t keys = mr__key_count(c->eqn), n = ((const draw_t *)c->state)->whole_hi;
  for (int64_t k = 0; k < keys; k++)
    mr_random_permutation_in(key_at(c, k), (uint32_t)n, c->scratch, (uint32_t *)c->out[0] + k * n);
}

mr_err_t mr__cpu_random_permutation(mr_call_t *c, mr_diag_t *diag) {
  draw_t d = {.whole_hi = mr_attr_get(c->eqn, "shape")->i[0]};
  c->scratch_bytes = mr_random_permutation_room((uint32_t)d.whole_hi);
  return lower_draw(c, d, permutation_run, diag);
}

static void split_run(const mr_call_t *c) {
  uint32_t *out = c->out[0];
  int64_t keys = mr__key_count(c->eqn), n = mr_aval_elems(&c->eqn->out[0]->aval) / 2;
  int64_t each = keys ? n / keys : 0;
  for (int64_t i = 0; i < n; i++) {
    mr_key_t k = mr_random_split_at(key_at(c, i / each), (size_t)(i % each), (size_t)each).key;
    out[2 * i] = k.a;
    out[2 * i + 1] = k.b;
  }
}

mr_err_t mr__cpu_random_split(mr_call_t *c, mr_diag_t *diag) {
  return lower_draw(c, (draw_t){0}, split_run, diag);
}

static void fold_in_run(const mr_call_t *c) {
  uint32_t *out = c->out[0];
  for (int64_t i = 0; i < mr__key_count(c->eqn); i++) {
    mr_key_t k = mr_random_fold_in(key_at(c, i), ((const uint32_t *)c->in[1])[i]).key;
    out[2 * i] = k.a;
    out[2 * i + 1] = k.b;
  }
}

mr_err_t mr__cpu_random_fold_in(mr_call_t *c, mr_diag_t *diag) {
  return lower_draw(c, (draw_t){0}, fold_in_run, diag);
}
