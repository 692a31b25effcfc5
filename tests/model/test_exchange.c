/* What the ranks of a step exchange, where arrays and shares do not fit each other: parameters of
   several dtypes, in shares that begin within one, and fewer elements than ranks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/exec/comm.h"
#include "model/ir/element.h"
#include "model/model.h"
#include "model/transforms/transforms.h"

enum { PARTS = 8, ROWS = 2, MOST_PARAMS = 4, ROOM = 4096 };

/* A step of a loss whose parameters have these sizes. */
typedef struct small {
  int n;
  mr_aval_t param[MOST_PARAMS];
} small_t;

/* (x f32[ROWS], parameters...) -> (the mean of x sin(sum of parameters), its terms [ROWS]) */
static mr_fn_t *part_of(const small_t *c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *sum = NULL, *x = mr_fn_input(f, mr_aval_of(MR_F32, ROWS));
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < c->n; i++) mr_fn_input(f, c->param[i]);
  for (int i = 0; i < c->n; i++) {
    mr_var_t *p = mr_lax_convert(f, f->in[1 + i], MR_F32);
    p = mr_lax_sin(f, mr_lax_scale(f, 1.0 + i, p));
    p = mr_lax_reduce_sum(f, p, p->aval.ndim, axes);
    sum = sum ? mr_lax_add(f, sum, p) : p;
  }
  sum = mr_lax_broadcast_in_dim(f, sum, 1, (int64_t[]){ROWS}, (int[]){0});
  mr_var_t *each = mr_lax_mul(f, x, mr_lax_sin(f, mr_lax_mul(f, x, sum)));
  mr_var_t *out[] = {mr_lax_scale(f, 1.0 / ROWS, mr_lax_reduce_sum(f, each, 1, (int[]){0})), each};
  mr_fn_return(f, 2, out);
  return f;
}

/* A rank and what its step has given. */
typedef struct ran {
  pthread_t thread;
  mr_exec_t *exec;
  _Alignas(64) char out[16][ROOM];
} ran_t;

static void compile_step(const small_t *c, int rank, int size, const mr_comm_t *comm, ran_t *r) {
  mr_fn_t *part = part_of(c), *step;
  const mr_fn_t *parts[PARTS];
  for (int k = 0; k < PARTS; k++) parts[k] = part;
  mr_optim_ranks_t ranks = {.rank = rank, .size = size, .axis = "ranks"};
  mr_comm_rank_t speaks = {0};
  mr_diag_t diag = {0};
  mr_optim_t o = mr_optim_of("momentum");
  o.clip_norm = 0.5f;
  mr_optim_loss_t loss = {.n_data = 1,
                          .parts = PARTS,
                          .tree = true,
                          .part = parts,
                          .split = (const bool[]){true},
                          .ranks = comm ? &ranks : NULL};
  if (comm) speaks = mr_comm_rank_of(comm, rank, "ranks");
  if (mr_optim_step_fn(&loss, &o, &step, &diag) < 0) fail_msg("%s", diag.text);
  mr_compile_options_t options = {.threads = 1, .rank = comm ? &speaks : NULL};
  if (mr_compile(step, &options, &r->exec, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(step), mr_fn_destroy(part);
}

static void *run_step(void *arg) {
  ran_t *r = arg;
  const mr_fn_t *f = mr_exec_fn(r->exec);
  _Alignas(64) char in[16][ROOM];
  const void *ins[16];
  void *outs[16];
  for (int i = 0; i < f->n_in; i++) {
    const mr_aval_t *a = &f->in[i]->aval;
    for (int64_t k = 0; k < mr_aval_elems(a); k++)
      mr_set_f64(a->dtype, in[i], k, 0.001 * (double)((k * 7919 + i * 31) % 997));
    ins[i] = in[i];
  }
  for (int i = 0; i < f->n_out; i++) outs[i] = r->out[i];
  mr_exec_run(r->exec, ins, outs);
  return NULL;
}

static void same_on_any_number_of_ranks(const small_t *c) {
  static ran_t one, many[PARTS];
  compile_step(c, 0, 1, NULL, &one);
  run_step(&one);
  const mr_fn_t *f = mr_exec_fn(one.exec);
  for (int size = 1; size <= PARTS; size++) {
    mr_comm_t *comm;
    mr_diag_t diag = {0};
    assert_int_equal(mr_comm_create(size, 1e6, &comm, &diag), MR_OK);
    for (int r = 0; r < size; r++) compile_step(c, r, size, comm, &many[r]);
    for (int r = 0; r < size; r++)
      assert_int_equal(pthread_create(&many[r].thread, NULL, run_step, &many[r]), 0);
    for (int r = 0; r < size; r++) pthread_join(many[r].thread, NULL);
    for (int r = 0; r < size; r++) {
      for (int i = 0; i < f->n_out; i++)
        if (memcmp(one.out[i], many[r].out[i], mr_aval_bytes(&f->out[i]->aval)) != 0)
          fail_msg("output %d of rank %d of %d differs", i, r, size);
      mr_exec_destroy(many[r].exec);
    }
    mr_comm_destroy(comm);
  }
  mr_exec_destroy(one.exec);
}

static void shares_that_begin_within_arrays_are_added_in_their_dtypes(void **state) {
  same_on_any_number_of_ranks(
      &(small_t){.n = 4,
                 .param = {mr_aval_of(MR_BF16, 5, 7), mr_aval_of(MR_F32, 11), mr_aval_of(MR_F16, 3),
                           mr_aval_of(MR_F32, 40)}});
}

static void fewer_elements_than_ranks_are_shared(void **state) {
  same_on_any_number_of_ranks(
      &(small_t){.n = 2, .param = {mr_aval_of(MR_F32, 2), mr_aval_scalar(MR_F32)}});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_that_begin_within_arrays_are_added_in_their_dtypes),
      cmocka_unit_test(fewer_elements_than_ranks_are_shared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
