/* The metric top5 against a loop over the same numbers. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "model/exec/exec.h"
#include "model/nn/loss.h"

enum { B = 64, C = 30 };

static _Alignas(64) float logits[B * C], right[B], got[B];

static void run_top5(void) {
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, B, C)),
           *b = mr_fn_input(f, mr_aval_of(MR_F32, B));
  mr_var_t *v = mr_loss_report_top5(f, a, b);
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_run(x, (const void *[]){logits, right}, (void *[]){got});
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static void top5_is_that_of_a_loop(void **state) {
  int hits = 0;
  for (int i = 0; i < B * C; i++) logits[i] = sinf((float)(i * i % 977));
  for (int i = 0; i < B; i++) right[i] = (float)(i * 7 % C);
  run_top5();
  for (int i = 0; i < B; i++) {
    int above = 0;
    for (int c = 0; c < C; c++) above += logits[i * C + c] > logits[i * C + (int)right[i]];
    assert_true(got[i] == (float)(above < 5));
    hits += above < 5;
  }
  assert_in_range(hits, 3, B - 3);
}

static void a_score_that_is_no_number_is_no_hit(void **state) {
  for (int i = 0; i < B * C; i++) logits[i] = NAN;
  run_top5();
  for (int i = 0; i < B; i++) assert_true(got[i] == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(top5_is_that_of_a_loop),
                                     cmocka_unit_test(a_score_that_is_no_number_is_no_hit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
