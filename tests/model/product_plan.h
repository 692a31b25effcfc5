/* What tests of products for libraries share: products of random dimensions, and the copies that a
   plan wants, made on the host. */
#ifndef MR_TESTS_MODEL_PRODUCT_PLAN_H
#define MR_TESTS_MODEL_PRODUCT_PLAN_H

#include "model/backends/kernels/product.h"
#include "tests/model/cell.h"

static inline double product_part(double x, mr_product_part_t part) {
  float upper = mr_bf16_to_f32(mr_bf16_from_f32((float)x));
  if (part == MR_PRODUCT_PART_ALL) return upper;
  if (!isfinite(upper)) return 0;
  if (part == MR_PRODUCT_PART_FINITE) return upper;
  return mr_bf16_to_f32(mr_bf16_from_f32((float)x - upper));
}

/* The copy of an operand into the scratch, element by element of the copy. */
static inline void copy_operand(const mr_product_operand_t *o, const void *x, void *scratch) {
  int64_t k = 1;
  for (int d = o->ndim - o->n_k; d < o->ndim; d++) k *= o->dim[d];
  for (int64_t i = 0; i < o->copied; i++) {
    int64_t row = i / (k * o->n_parts), part = i / k % o->n_parts, rest = row * k + i % k, from = 0;
    for (int d = o->ndim - 1; d >= 0; d--) {
      from += rest % o->dim[d] * o->stride[d];
      rest /= o->dim[d];
    }
    double v = mr_get_f64(o->from, x, from);
    if (o->rounds) v = product_part(v, o->part[part]);
    mr_set_f64(o->dtype, (char *)scratch + o->at, i, v);
  }
}

static inline void shuffle_ints(int *v, int n) {
  for (int i = n - 1; i > 0; i--) {
    int k = (int)(grid_random() % (uint32_t)(i + 1)), t = v[i];
    v[i] = v[k], v[k] = t;
  }
}

/* Random groups of dimensions in random order, sizes of 1 among them. */
static inline mr_fn_t *random_dot(mr_dtype_t in, mr_dtype_t out, mr_precision_t precision) {
  mr_fn_t *f = mr_fn_create();
  mr_dot_dims_t d = {.n_batch = (int)(grid_random() % 3), .n_contract = (int)(grid_random() % 3)};
  int free_dims[2] = {(int)(grid_random() % 3), (int)(grid_random() % 2)};
  int64_t batch[2], contract[2];
  mr_var_t *v[2];
  for (int i = 0; i < 2; i++)
    batch[i] = 1 + grid_random() % 3, contract[i] = grid_random() % 4 ? 1 + grid_random() % 7 : 1;
  for (int s = 0; s < 2; s++) {
    int n = d.n_batch + d.n_contract + free_dims[s], at[6] = {0, 1, 2, 3, 4, 5};
    int64_t dim[6];
    if (grid_random() % 3) shuffle_ints(at, n);
    for (int i = 0; i < d.n_batch; i++) {
      (s ? d.rhs_batch : d.lhs_batch)[i] = at[i];
      dim[at[i]] = batch[i];
    }
    for (int i = 0; i < d.n_contract; i++) {
      (s ? d.rhs_contract : d.lhs_contract)[i] = at[d.n_batch + i];
      dim[at[d.n_batch + i]] = contract[i];
    }
    for (int i = 0; i < free_dims[s]; i++)
      dim[at[d.n_batch + d.n_contract + i]] = grid_random() % 4 ? 1 + grid_random() % 6 : 1;
    v[s] = mr_fn_input(f, mr_aval(in, n, dim));
  }
  mr_precision_t before = mr_precision_enter(f, precision);
  mr_var_t *y = mr_lax_dot_general(f, v[0], v[1], &d, out);
  mr_precision_leave(f, before);
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

#endif
