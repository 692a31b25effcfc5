/* Which arrays a program holds, and who made them: writes live-arrays.pb, which
   `pprof -top live-arrays.pb` reads, or a browser after `pprof -http=: live-arrays.pb`. */
#include <millrace.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 256 };

static mr_diag_t diag;

static void fail(void) {
  fprintf(stderr, "%s\n", diag.text);
  exit(1);
}

static mr_err_t product(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_dot(f, f->in[0], f->in[1]);
  return mr_fn_return(f, 1, &y);
}

static mr_array_t *make_weights(void) {
  static float numbers[N * N];
  mr_array_t *w = mr_array_of(mr_aval_of(MR_F32, N, N), numbers, &diag);
  if (!w) fail();
  return w;
}

/* Keeps a result, and drops another one, which is in no profile then. */
static mr_array_t *apply_twice(mr_jitted_t *j, mr_array_t *w) {
  mr_array_t *in[] = {w, w}, *first, *second;
  if (mr_jitted_call(j, 2, in, 1, &first, &diag) < 0) fail();
  in[0] = first;
  if (mr_jitted_call(j, 2, in, 1, &second, &diag) < 0) fail();
  mr_array_drop(first);
  return second;
}

int main(void) {
  mr_queue_t *q;
  mr_jitted_t *j;
  if (mr_queue_create(&q, &diag) < 0) fail();
  if (mr_jitted_create(q, "product", product, NULL, NULL, &j, &diag) < 0) fail();
  mr_memory_profile_begin();
  mr_array_t *w = make_weights(), *y = apply_twice(j, w);
  if (mr_block_until_ready(y, &diag) < 0) fail();
  if (mr_memory_profile("live-arrays.pb", &diag) < 0) fail();
  mr_memory_profile_end();
  mr_array_drop(w), mr_array_drop(y);
  mr_jitted_destroy(j);
  mr_queue_destroy(q);
  return 0;
}
