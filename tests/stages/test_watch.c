/* Histograms of gradients, which follow from what an update changes: with learning rates by layer
   and with parameters that are frozen too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/train/train.h"
#include "stages/train/watch.h"

enum { SIZE = 4 };

static const char *const names[] = {"blocks.0.kernel", "blocks.1.kernel", "head.kernel"};

static void add_parameters(mr_params_t *params, int slots) {
  mr_diag_t diag = {0};
  for (int i = 0; i < 3; i++)
    assert_int_equal(mr_params_add(params, names[i], mr_aval(MR_F32, 1, (int64_t[]){SIZE}),
                                   (mr_init_t){.kind = MR_INIT_ONES}, &diag),
                     MR_OK);
  mr_params_want_slots(params, slots, MR_F32);
  assert_int_equal(mr_params_alloc(params, &diag), MR_OK);
  assert_int_equal(mr_params_init(params, 1, &diag), MR_OK);
}

/* Moves each element of tensor k of a set. */
static void move(mr_params_t *params, mr_set_kind_t kind, int k, float by) {
  float *x = mr_params_at(params, mr_params_set(params, kind, 0), k);
  for (int i = 0; i < SIZE; i++) x[i] += by;
}

static const mr_histogram_t *gradients_of(const mr_report_t *r, const char *name) {
  for (size_t i = 0; i < r->n_histograms; i++)
    if (!strncmp(r->histogram[i].name, "gradients/", 10) &&
        !strcmp(r->histogram[i].name + 10, name))
      return &r->histogram[i];
  return NULL;
}

static void rates_of_layers_do_not_change_the_gradients_of_sgd(void **state) {
  mr_params_t params = {0};
  mr_train_watch_t w = {0};
  mr_report_t r = {0};
  mr_diag_t diag = {0};
  const mr_optim_t sgd = {.def = &mr_optim_sgd};
  const mr_train_rules_t rules = {.layer_decay = .5};
  add_parameters(&params, 0);
  assert_int_equal(mr_train_each(&params, &rules, NULL, &w.each, &diag), MR_OK);
  assert_non_null(w.each);
  assert_true(mr_train_watch_before(&w, &sgd, .25F, &params));
  for (int k = 0; k < 3; k++) move(&params, MR_SET_VALUES, k, -.25F * w.each[k].rate * 3);
  assert_true(w.each[0].rate < w.each[1].rate && w.each[1].rate < w.each[2].rate);
  mr_report_begin(&r, MR_REPORT_STEP);
  mr_train_watch_histograms(&w, &params, &r);
  for (int k = 0; k < 3; k++) {
    const mr_histogram_t *h = gradients_of(&r, names[k]);
    assert_non_null(h);
    assert_float_equal(h->min, 3, 1e-5);
    assert_float_equal(h->max, 3, 1e-5);
  }
  mr_report_fini(&r), mr_train_watch_fini(&w), mr_params_fini(&params);
}

static void parameters_that_are_frozen_have_no_gradients(void **state) {
  mr_params_t params = {0};
  mr_train_watch_t w = {0};
  mr_report_t r = {0};
  mr_diag_t diag = {0};
  const mr_optim_t momentum = {.def = &mr_optim_momentum, .b1 = .5F};
  const mr_train_rules_t rules = {.freeze = "blocks.0"};
  add_parameters(&params, 1);
  for (int k = 0; k < 3; k++) move(&params, MR_SET_SLOT, k, 8); /* of steps before it was frozen */
  assert_int_equal(mr_train_each(&params, &rules, NULL, &w.each, &diag), MR_OK);
  assert_true(mr_train_watch_before(&w, &momentum, .25F, &params));
  for (int k = 1; k < 3; k++) move(&params, MR_SET_SLOT, k, -4 + 3);
  mr_report_begin(&r, MR_REPORT_STEP);
  mr_train_watch_histograms(&w, &params, &r);
  assert_null(gradients_of(&r, names[0]));
  assert_non_null(gradients_of(&r, names[2]));
  assert_float_equal(gradients_of(&r, names[2])->max, 3, 1e-5);
  assert_int_equal(r.n_histograms, 5);
  mr_report_fini(&r), mr_train_watch_fini(&w), mr_params_fini(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rates_of_layers_do_not_change_the_gradients_of_sgd),
      cmocka_unit_test(parameters_that_are_frozen_have_no_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
