#include "model/nn/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/threefry.h"

mr_err_t mr_params_add(mr_params_t *s, const char *name, mr_aval_t aval, mr_init_t init,
                       mr_diag_t *diag) {
  if (mr_params_find(s, name) >= 0)
    return mr_fail(diag, MR_ERR_CONFIG, "two parameters are called %s", name);
  if (s->n == s->cap) {
    int cap = s->cap ? s->cap * 2 : 64;
    mr_param_t *more = realloc(s->param, (size_t)cap * sizeof *more);
    if (!more) return mr_fail(diag, MR_ERR_NOMEM, "no memory for the list of parameters");
    s->param = more;
    s->cap = cap;
  }
  char *copy = strdup(name);
  if (!copy) return mr_fail(diag, MR_ERR_NOMEM, "no memory for the list of parameters");
  size_t size = (size_t)mr_aval_elems(&aval);
  s->param[s->n++] = (mr_param_t){copy, aval, init, s->arena_size, size};
  s->arena_size += (size + 15) & ~(size_t)15;
  s->count += (int64_t)size;
  return MR_OK;
}

mr_err_t mr_params_module(mr_params_t *s, mr_module_t m, mr_diag_t *diag) {
  if (s->n_module == s->cap_module) {
    int cap = s->cap_module ? s->cap_module * 2 : 64;
    mr_module_t *more = realloc(s->module, (size_t)cap * sizeof *more);
    if (!more) return mr_fail(diag, MR_ERR_NOMEM, "no memory for the list of modules");
    s->module = more;
    s->cap_module = cap;
  }
  m.name = strdup(m.name);
  if (!m.name) return mr_fail(diag, MR_ERR_NOMEM, "no memory for the list of modules");
  s->module[s->n_module++] = m;
  return MR_OK;
}

static float *arena(size_t n) {
  size_t bytes = (n * sizeof(float) + 63) & ~(size_t)63;
  float *a = mr_pages_alloc(bytes + 64);
  if (a) memset(a, 0, bytes + 64);
  return a;
}

mr_err_t mr_params_alloc(mr_params_t *s, mr_diag_t *diag) {
  s->p = arena(s->arena_size);
  s->m = arena(s->arena_size);
  s->v = arena(s->arena_size);
  if (s->averaged) s->average = arena(s->arena_size);
  if (s->p && s->m && s->v && (s->average || !s->averaged)) return MR_OK;
  return mr_fail(diag, MR_ERR_NOMEM, "out of memory: parameters and moments need %zu bytes",
                 (size_t)(3 + s->averaged) * s->arena_size * sizeof(float));
}

void mr_params_fini(mr_params_t *s) {
  for (int i = 0; i < s->n; i++) free((char *)s->param[i].name);
  for (int i = 0; i < s->n_module; i++) free((char *)s->module[i].name);
  free(s->module);
  free(s->param);
  free(s->p);
  free(s->m);
  free(s->v);
  free(s->average);
  *s = (mr_params_t){0};
}

const float *mr_params_judged(const mr_params_t *s) { return s->average ? s->average : s->p; }

int mr_params_find(const mr_params_t *s, const char *name) {
  for (int i = 0; i < s->n; i++)
    if (!strcmp(s->param[i].name, name)) return i;
  return -1;
}

/* A normal cut at two deviations has this deviation itself (jax.nn.initializers). */
#define CUT_DEVIATION 0.87962566103423978f

static float draw(const mr_init_t *init, mr_key_t key, uint64_t i) {
  switch (init->kind) {
    case MR_INIT_ZEROS: return 0.0f;
    case MR_INIT_ONES: return 1.0f;
    case MR_INIT_NORMAL: return init->a * mr_key_normal(key, i);
    case MR_INIT_LECUN_NORMAL:
      return mr_key_truncated_normal(key, i, -2.0f, 2.0f) * sqrtf(1.0f / init->a) / CUT_DEVIATION;
    case MR_INIT_TRUNC_NORMAL:
      return init->a * mr_key_truncated_normal(key, i, -2.0f / init->a, 2.0f / init->a);
    case MR_INIT_UNIFORM: return mr_key_uniform(key, i, -init->a, init->a);
  }
  return 0.0f;
}

void mr_params_init(mr_params_t *s, uint64_t seed) {
  for (int k = 0; k < s->n; k++) {
    const mr_param_t *t = &s->param[k];
    mr_key_t key = mr_key_split(mr_key(seed), (uint64_t)k);
    float *p = s->p + t->offset;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < t->size; i++) p[i] = draw(&t->init, key, i);
  }
  memset(s->m, 0, s->arena_size * sizeof(float));
  memset(s->v, 0, s->arena_size * sizeof(float));
  if (s->average) memcpy(s->average, s->p, s->arena_size * sizeof(float));
}
