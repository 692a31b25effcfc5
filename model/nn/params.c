/* The parameter list, its sets, and the initialisers.  Tensors start at multiples of 64 bytes in
   every set, so that kernels find them aligned. */
#include "model/nn/params.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/threefry.h"
#include "model/nn/orthogonal.h"

/* Tensors of an arena begin at multiples of 64 bytes in any dtype. */
static size_t params_room(size_t elems) { return (elems + 31) & ~(size_t)31; }

mr_err_t mr_params_add(mr_params_t *s, const char *name, mr_aval_t aval, mr_init_t init,
                       mr_diag_t *diag) {
  if (mr_params_find(s, name) >= 0)
    return mr_fail(diag, MR_ERR_CONFIG, "two parameters are called %s", name);
  if (s->n == s->cap) {
    int cap = s->cap ? s->cap * 2 : 64;
    mr_param_t *more = realloc(s->param, (size_t)cap * sizeof *more);
    if (!more) return mr_no_memory(diag, "the list of parameters");
    s->param = more;
    s->cap = cap;
  }
  char *copy = strdup(name);
  if (!copy) return mr_no_memory(diag, "the list of parameters");
  size_t size = (size_t)mr_aval_elems(&aval);
  s->param[s->n++] =
      (mr_param_t){.name = copy, .aval = aval, .init = init, .offset = s->arena_size, .size = size};
  s->arena_size += params_room(size);
  s->count += (int64_t)size;
  return MR_OK;
}

mr_err_t mr_params_module(mr_params_t *s, mr_module_t m, mr_diag_t *diag) {
  if (s->n_module == s->cap_module) {
    int cap = s->cap_module ? s->cap_module * 2 : 64;
    mr_module_t *more = realloc(s->module, (size_t)cap * sizeof *more);
    if (!more) return mr_no_memory(diag, "the list of modules");
    s->module = more;
    s->cap_module = cap;
  }
  m.name = strdup(m.name);
  if (!m.name) return mr_no_memory(diag, "the list of modules");
  s->module[s->n_module++] = m;
  return MR_OK;
}

void mr_params_want(mr_params_t *s, mr_set_kind_t kind, int number, mr_dtype_t dtype) {
  assert(s->n_sets < MR_PARAM_SETS && !mr_params_set(s, kind, number));
  s->set[s->n_sets++] = (mr_param_set_t){.kind = kind, .number = number, .dtype = dtype};
}

void mr_params_want_slots(mr_params_t *s, int n, mr_dtype_t dtype) {
  assert(!s->slots_wanted && n >= 0 && n <= MR_PARAM_SLOTS);
  for (int i = 0; i < n; i++) mr_params_want(s, MR_SET_SLOT, i, dtype);
  s->slots_wanted = true;
}

mr_err_t mr__params_pieces(mr_params_t *s, mr_set_kind_t kind, int number, const size_t *elems,
                           mr_diag_t *diag) {
  mr_param_set_t *set = s->set;
  while (set->kind != kind || set->number != number) set++;
  assert(set < s->set + s->n_sets && !set->data && !set->at);
  set->at = malloc(((size_t)s->n + 1) * sizeof *set->at);
  if (!set->at) return mr_no_memory(diag, "the places of parameters");
  set->at[0] = 0;
  for (int i = 0; i < s->n; i++) set->at[i + 1] = set->at[i] + params_room(elems[i]);
  return MR_OK;
}

static size_t arena_bytes(const mr_params_t *s, const mr_param_set_t *set) {
  return (set->at ? set->at[s->n] : s->arena_size) * mr_dtype_size(set->dtype);
}

static void want_usual(mr_params_t *s) {
  if (!mr_params_set(s, MR_SET_VALUES, 0)) mr_params_want(s, MR_SET_VALUES, 0, MR_F32);
  if (!s->slots_wanted) mr_params_want_slots(s, MR_PARAM_SLOTS, MR_F32);
}

/* Whole lines, and one to spare. */
static size_t set_bytes(const mr_params_t *s, const mr_param_set_t *set) {
  return (arena_bytes(s, set) + 63) / 64 * 64 + 64;
}

size_t mr_params_bytes(const mr_params_t *s) {
  size_t bytes = 0;
  for (int i = 0; i < s->n_sets; i++) bytes += set_bytes(s, &s->set[i]);
  return bytes;
}

mr_err_t mr_params_alloc(mr_params_t *s, mr_diag_t *diag) {
  bool got = true;
  want_usual(s);
  size_t total = mr_params_bytes(s), room;
  if (!mr_machine_has(total, &room))
    return mr_no_memory(
        diag,
        "%zu bytes of parameters and moments: this process may still take %zu; want "
        "a smaller model",
        total, room);
  for (int i = 0; i < s->n_sets; i++) {
    mr_param_set_t *set = &s->set[i];
    size_t bytes = set_bytes(s, set);
    set->data = mr_pages_alloc(bytes);
    got &= set->data != NULL;
    if (set->data) memset(set->data, 0, bytes);
  }
  return got ? MR_OK : mr_no_memory(diag, "%zu bytes of parameters and moments", total);
}

void mr_params_fini(mr_params_t *s) {
  for (int i = 0; i < s->n; i++) free((char *)s->param[i].name);
  for (int i = 0; i < s->n_module; i++) free((char *)s->module[i].name);
  for (int i = 0; i < s->n_sets; i++) free(s->set[i].data), free(s->set[i].at);
  free(s->module);
  free(s->param);
  *s = (mr_params_t){0};
}

const mr_param_set_t *mr_params_set(const mr_params_t *s, mr_set_kind_t kind, int number) {
  for (int i = 0; i < s->n_sets; i++)
    if (s->set[i].kind == kind && s->set[i].number == number) return &s->set[i];
  return NULL;
}

void *mr_params_at(const mr_params_t *s, const mr_param_set_t *set, int i) {
  size_t at = set->at ? set->at[i] : s->param[i].offset;
  return (char *)set->data + at * mr_dtype_size(set->dtype);
}

/* Pages of an arena are the process's own, without a file, so that those given back read as zeros;
   whatever the system keeps is cleared before. */
void mr_params_forget(const mr_params_t *s, const mr_param_set_t *set, int from, int to) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (from >= to) return;
  assert(!set->at);
  const mr_param_t *last = &s->param[to - 1];
  char *at = mr_params_at(s, set, from);
  size_t bytes = (last->offset + last->size - s->param[from].offset) * mr_dtype_size(set->dtype);
  uintptr_t first = ((uintptr_t)at + page - 1) / page * page, end = (uintptr_t)(at + bytes);
  size_t whole = first < end ? (end - first) / page * page : 0;
  if (!whole || madvise(at + (first - (uintptr_t)at), whole, MADV_DONTNEED)) whole = 0;
  if (!whole) {
    memset(at, 0, bytes);
    return;
  }
  size_t before = first - (uintptr_t)at;
  memset(at, 0, before);
  memset(at + before + whole, 0, bytes - before - whole);
}

float *mr_params_f32(const mr_params_t *s, mr_set_kind_t kind, int number) {
  const mr_param_set_t *set = mr_params_set(s, kind, number);
  assert(!set || set->dtype == MR_F32);
  return set ? set->data : NULL;
}

const mr_param_set_t *mr_params_judged(const mr_params_t *s) {
  const mr_param_set_t *average = mr_params_set(s, MR_SET_AVERAGE, 0);
  return average ? average : mr_params_set(s, MR_SET_VALUES, 0);
}

int mr_params_find(const mr_params_t *s, const char *name) {
  for (int i = 0; i < s->n; i++)
    if (!strcmp(s->param[i].name, name)) return i;
  return -1;
}

/* The standard deviation of a unit normal that is cut at two deviations (jax.nn.initializers). */
#define CUT_DEVIATION 0.87962566103423978f

/* The bounds of an initialiser that draws truncated normals. */
static mr_truncated_t cut_of(const mr_init_t *init) {
  switch (init->kind) {
    case MR_INIT_LECUN_NORMAL: return mr_truncated(-2.0f, 2.0f);
    case MR_INIT_TRUNC_NORMAL: return mr_truncated(-2.0f / init->a, 2.0f / init->a);
    default: return (mr_truncated_t){0};
  }
}

static float params_draw(const mr_init_t *init, const mr_truncated_t *cut, mr_key_t key,
                         uint64_t i) {
  switch (init->kind) {
    case MR_INIT_ZEROS: return 0.0f;
    case MR_INIT_ONES: return 1.0f;
    case MR_INIT_NORMAL: return init->a * mr_key_normal(key, i);
    case MR_INIT_LECUN_NORMAL:
      return mr_key_truncated_normal(key, i, cut) * sqrtf(1.0f / init->a) / CUT_DEVIATION;
    case MR_INIT_TRUNC_NORMAL: return init->a * mr_key_truncated_normal(key, i, cut);
    case MR_INIT_UNIFORM: return mr_key_uniform(key, i, -init->a, init->a);
    case MR_INIT_CONSTANT: return init->a;
    case MR_INIT_UNIFORM_UP: return init->a * mr_key_uniform(key, i, 0, 1);
    case MR_INIT_SCALED_UNIFORM: return init->a * mr_key_uniform(key, i, -1, 1);
    case MR_INIT_ORTHOGONAL:
    case MR_INIT_DELTA_ORTHOGONAL: break; /* drawn as a whole */
  }
  return 0.0f;
}

/* Element i of tensor k, rounded to the set's dtype. */
static void params_store(const mr_params_t *s, const mr_param_set_t *set, int k, size_t i,
                         float x) {
  void *to = mr_params_at(s, set, k);
  switch (set->dtype) {
    case MR_BF16: ((mr_bf16_t *)to)[i] = mr_bf16_from_f32(x); break;
    case MR_F16: ((mr_f16_t *)to)[i] = mr_f16_from_f32(x); break;
    default: ((float *)to)[i] = x;
  }
}

float mr_params_read(const mr_params_t *s, const mr_param_set_t *set, int k, size_t i) {
  const void *from = mr_params_at(s, set, k);
  switch (set->dtype) {
    case MR_BF16: return mr_bf16_to_f32(((const mr_bf16_t *)from)[i]);
    case MR_F16: return mr_f16_to_f32(((const mr_f16_t *)from)[i]);
    default: return ((const float *)from)[i];
  }
}

/* The product of dimensions [from,to) of a. */
static int64_t params_dims_between(const mr_aval_t *a, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= a->dim[i];
  return n;
}

/* Fills tensor k with an orthogonal matrix.  Of a convolution that is all of it, or the middle of
   its places, for DELTA. */
static mr_err_t draw_orthogonal(const mr_params_t *s, const mr_param_set_t *set, int k,
                                mr_key_t key, mr_diag_t *diag) {
  const mr_param_t *t = &s->param[k];
  const mr_aval_t *a = &t->aval;
  const bool delta = t->init.kind == MR_INIT_DELTA_ORTHOGONAL;
  const int n = a->ndim, first = t->out_first ? 2 : 0; /* of the places' dimensions */
  assert(n >= (delta ? 3 : 2));
  const int64_t places = delta ? params_dims_between(a, first, first + n - 2) : 1;
  const int64_t each = (int64_t)t->size / places;
  int64_t in = t->fan_in, middle = 0;
  if (!in) in = each / a->dim[t->out_first ? 0 : n - 1];
  for (int i = first; delta && i < first + n - 2; i++)
    middle = middle * a->dim[i] + (a->dim[i] - 1) / 2;
  const int64_t out = each / in;
  float *q = malloc((size_t)each * sizeof *q);
  if (!q) return mr_no_memory(diag, "parameter %s", t->name);
  mr_err_t e = mr__orthogonal(key, in, out, q, diag);
  for (size_t i = 0; i < t->size && e >= 0 && delta; i++) params_store(s, set, k, i, 0);
  for (int64_t i = 0; i < in && e >= 0; i++)
    for (int64_t j = 0; j < out; j++) {
      int64_t at = t->out_first ? (j * in + i) * places + middle : middle * each + i * out + j;
      params_store(s, set, k, (size_t)at, t->init.a * q[i * out + j]);
    }
  free(q);
  return e;
}

static bool is_orthogonal(const mr_init_t *init) {
  return init->kind == MR_INIT_ORTHOGONAL || init->kind == MR_INIT_DELTA_ORTHOGONAL;
}

mr_err_t mr_params_init(mr_params_t *s, uint64_t seed, mr_diag_t *diag) {
  const mr_param_set_t *values = mr_params_set(s, MR_SET_VALUES, 0);
  const mr_param_set_t *average = mr_params_set(s, MR_SET_AVERAGE, 0);
  for (int k = 0; k < s->n; k++) {
    const mr_param_t *t = &s->param[k];
    mr_key_t key = mr_key_split(mr_key(seed), (uint64_t)k);
    mr_truncated_t cut = cut_of(&t->init);
    size_t n = is_orthogonal(&t->init) ? 0 : t->size; /* drawn one by one */
    if (is_orthogonal(&t->init)) MR_TRY(draw_orthogonal(s, values, k, key, diag));
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++)
      params_store(s, values, k, i, params_draw(&t->init, &cut, key, i));
    for (size_t i = 0; i < t->size && average; i++)
      params_store(s, average, k, i, mr_params_read(s, values, k, i));
  }
  for (int i = 0; i < s->n_sets; i++)
    if (s->set[i].kind == MR_SET_SLOT) memset(s->set[i].data, 0, arena_bytes(s, &s->set[i]));
  return MR_OK;
}
