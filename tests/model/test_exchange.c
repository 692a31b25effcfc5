/* What the ranks of a step exchange, where arrays and shares do not fit each other: parameters of
   several dtypes, in shares that begin within one, fewer elements than ranks, and shares of several
   chunks, also of whole parameters, which are uneven: a rank may have none. */
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
#include "model/ir/op.h"
#include "model/model.h"
#include "model/transforms/transforms.h"

enum { PARTS = 8, ROWS = 2, MOST_PARAMS = 5, MOST_ARRAYS = 16, ROOM = 1 << 18 };

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
  int n, from;             /* parameters; the first that has a slot */
  int values, values_from; /* parameters with a value, and the first of them */
  _Alignas(64) char out[MOST_ARRAYS][ROOM];
} ran_t;

static int64_t size_of_param(const void *arg, int i) {
  return mr_aval_elems(&((const small_t *)arg)->param[i]);
}

static void compile_step(const small_t *c, int rank, int size, int zero, const mr_comm_t *comm,
                         ran_t *r) {
  mr_fn_t *part = part_of(c), *step;
  const mr_fn_t *parts[PARTS];
  for (int k = 0; k < PARTS; k++) parts[k] = part;
  mr_optim_ranks_t ranks = {.rank = rank, .size = size, .axis = "ranks", .zero = zero};
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
  r->n = c->n;
  r->from = comm && zero ? mr_optim_share_from(c->n, size_of_param, c, size, rank) : 0;
  int to = comm && zero ? mr_optim_share_from(c->n, size_of_param, c, size, rank + 1) : c->n;
  r->values_from = zero == 3 ? r->from : 0;
  r->values = zero == 3 ? to - r->from : c->n;
  assert_int_equal(mr_exec_fn(r->exec)->n_in, 3 + r->values + to - r->from);
  assert_int_equal(mr_exec_fn(r->exec)->n_out, 3 + r->values + to - r->from);
}

/* The arrays of a rank's values and slots have the numbers of those of one that has all: behind x,
   lr and t, or two outputs and a norm. */
static int number_of(const ran_t *r, int i) {
  if (i < 3) return i;
  return i < 3 + r->values ? i + r->values_from : i - r->values + r->n + r->from;
}

static void *run_step(void *arg) {
  ran_t *r = arg;
  const mr_fn_t *f = mr_exec_fn(r->exec);
  char *in = aligned_alloc(64, (size_t)MOST_ARRAYS * ROOM);
  const void *ins[MOST_ARRAYS];
  void *outs[MOST_ARRAYS];
  for (int i = 0; i < f->n_in; i++) {
    const mr_aval_t *a = &f->in[i]->aval;
    ins[i] = in + (size_t)i * ROOM;
    assert_true(mr_aval_bytes(a) <= ROOM);
    for (int64_t k = 0; k < mr_aval_elems(a); k++)
      mr_set_f64(a->dtype, in + (size_t)i * ROOM, k,
                 0.001 * (double)((k * 7919 + number_of(r, i) * 31) % 997));
  }
  for (int i = 0; i < f->n_out; i++) outs[i] = r->out[i];
  mr_exec_run(r->exec, ins, outs);
  free(in);
  return NULL;
}

static void same_on_any_number_of_ranks(const small_t *c, int zero) {
  static ran_t one, many[PARTS];
  compile_step(c, 0, 1, 0, NULL, &one);
  run_step(&one);
  for (int size = 1; size <= PARTS; size++) {
    mr_comm_t *comm;
    mr_diag_t diag = {0};
    assert_int_equal(mr_comm_create(size, 1e6, &comm, &diag), MR_OK);
    for (int r = 0; r < size; r++) compile_step(c, r, size, zero, comm, &many[r]);
    for (int r = 0; r < size; r++)
      assert_int_equal(pthread_create(&many[r].thread, NULL, run_step, &many[r]), 0);
    for (int r = 0; r < size; r++) pthread_join(many[r].thread, NULL);
    for (int r = 0; r < size; r++) {
      const mr_fn_t *f = mr_exec_fn(many[r].exec);
      for (int i = 0; i < f->n_out; i++) {
        int k = number_of(&many[r], i);
        if (memcmp(one.out[k], many[r].out[i], mr_aval_bytes(&f->out[i]->aval)) != 0)
          fail_msg("zero=%d: output %d of rank %d of %d differs", zero, i, r, size);
      }
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
                           mr_aval_of(MR_F32, 40)}},
      0);
}

static void arrays_without_elements_are_shared(void **state) {
  const small_t c = {
      .n = 5,
      .param = {mr_aval_of(MR_F32, 0, 4), mr_aval_of(MR_F32, 5), mr_aval_of(MR_F32, 0, 4),
                mr_aval_of(MR_F32, 7), mr_aval_of(MR_F32, 3, 0)}};
  for (int zero = 0; zero <= MR_ZERO_MOST; zero++) same_on_any_number_of_ranks(&c, zero);
}

static void fewer_elements_than_ranks_are_shared(void **state) {
  same_on_any_number_of_ranks(
      &(small_t){.n = 2, .param = {mr_aval_of(MR_F32, 2), mr_aval_scalar(MR_F32)}}, 0);
}

/* More elements than one chunk has: chunks begin within arrays of two dtypes, and within the shares
   of some ranks only. */
static void shares_of_several_chunks_are_added_and_joined(void **state) {
  static const small_t c = {.n = 5,
                            .param = {{MR_F32, 2, {37, 811}},
                                      {MR_BF16, 2, {900, 100}},
                                      {MR_F32, 1, {33}},
                                      {MR_F32, 2, {211, 307}},
                                      {MR_BF16, 1, {19}}}};
  for (int zero = 0; zero <= MR_ZERO_MOST; zero++) same_on_any_number_of_ranks(&c, zero);
}

/* The calls of all ranks in a rank's compiled step, one after the other: "all_gather 2". */
static void calls_of_all(const small_t *c, int rank, int size, int zero, const mr_comm_t *comm,
                         char *text, size_t room) {
  mr_fn_t *part = part_of(c), *step;
  const mr_fn_t *parts[PARTS];
  for (int k = 0; k < PARTS; k++) parts[k] = part;
  const mr_optim_ranks_t ranks = {.rank = rank, .size = size, .axis = "ranks", .zero = zero};
  const mr_comm_rank_t speaks = mr_comm_rank_of(comm, rank, "ranks");
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_optim_t o = mr_optim_of("adamw");
  o.clip_norm = 0.5f, o.below = 65520, o.only_finite = true, o.dynamic.max_bad = 3;
  const mr_optim_loss_t loss = {.n_data = 1,
                                .parts = PARTS,
                                .tree = true,
                                .part = parts,
                                .split = (const bool[]){true},
                                .ranks = &ranks};
  const mr_compile_options_t options = {.threads = 1, .rank = &speaks, .plan_only = true};
  if (mr_optim_step_fn(&loss, &o, &step, &diag) < 0 || mr_compile(step, &options, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  const mr_fn_t *f = mr_exec_fn(x);
  size_t at = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if (!e->op->collective || !e->n_in || !strcmp(e->op->name, "ppermute")) continue;
    if (!mr_eqn_is_awaited(e)) fail_msg("zero=%d: %s has no turn", zero, e->op->name);
    at += (size_t)snprintf(text + at, room - at, "%s %d\n", e->op->name,
                           (int)mr_attr_get(e, MR_TURN)->i[0]);
    assert_true(at < room);
  }
  mr_exec_destroy(x);
  mr_fn_destroy(step), mr_fn_destroy(part);
}

/* Also ranks that have no parameter to look at, of those that are kept in f16. */
static void ranks_make_the_same_calls_in_one_order(void **state) {
  static const small_t c = {.n = 3,
                            .param = {{MR_F16, 2, {37, 11}}, {MR_F16, 1, {500}}, {MR_F16, 1, {3}}}};
  for (int size = 2; size <= PARTS; size += 2)
    for (int zero = 0; zero <= MR_ZERO_MOST; zero++) {
      char first[1024] = "", own[1024] = "";
      mr_comm_t *comm;
      mr_diag_t diag = {0};
      assert_int_equal(mr_comm_create(size, 1e6, &comm, &diag), MR_OK);
      for (int r = 0; r < size; r++) {
        calls_of_all(&c, r, size, zero, comm, r ? own : first, sizeof own);
        if (r) assert_string_equal(own, first);
      }
      assert_true(!zero || strstr(first, "all_gather 2"));
      mr_comm_destroy(comm);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_that_begin_within_arrays_are_added_in_their_dtypes),
      cmocka_unit_test(arrays_without_elements_are_shared),
      cmocka_unit_test(fewer_elements_than_ranks_are_shared),
      cmocka_unit_test(shares_of_several_chunks_are_added_and_joined),
      cmocka_unit_test(ranks_make_the_same_calls_in_one_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
