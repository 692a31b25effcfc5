/* Sources and maps that are functions of the program: their records have the order, ledger and
   states of those of a source in C. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "pull/loader.h"

static mr_err_t plan_value(void *of, mr_own_call_t *call, mr_diag_t *diag) {
  call->n_output = 1;
  call->output[0] = (mr_own_value_t){.name = "value", .dtype = MR_I64};
  return MR_OK;
}

static mr_err_t make_index(void *of, mr_own_call_t *call, mr_diag_t *diag) {
  int64_t bad = *(const int64_t *)of;
  if (call->index == bad) return mr_fail(diag, MR_ERR_DATA, "record %d is bad", (int)call->index);
  *(int64_t *)call->output[0].data = call->index;
  return MR_OK;
}

static mr_err_t make_double(void *of, mr_own_call_t *call, mr_diag_t *diag) {
  assert_int_equal(call->n_input, 1);
  assert_string_equal(call->input[0].name, "value");
  *(int64_t *)call->output[0].data = 2 * *(const int64_t *)call->input[0].data;
  return MR_OK;
}

static mr_err_t make_draw(void *of, mr_own_call_t *call, mr_diag_t *diag) {
  *(int64_t *)call->output[0].data = (int64_t)(call->seed >> 1);
  return MR_OK;
}

static int64_t none = -1, seventh = 7;
static const mr_own_t own[] = {
    {.name = "whole", .n = 100, .plan = plan_value, .make = make_index, .of = &none},
    {.name = "broken", .n = 100, .plan = plan_value, .make = make_index, .of = &seventh},
    {.name = "double", .plan = plan_value, .make = make_double},
    {.name = "draw", .draws = true, .plan = plan_value, .make = make_draw}};
static const mr_loader_settings_t with_own = {.own = own, .n_own = sizeof own / sizeof *own};

/* Reads to the end; the sum of the values, and the ledger. */
static mr_err_t sum_up(const char *graph, const char *state, uint64_t *sum, uint64_t *ledger,
                       mr_diag_t *diag) {
  mr_loader_settings_t set = with_own;
  const mr_batch_t *b;
  mr_loader_t *l;
  mr_err_t e;
  set.state = state;
  *sum = 0;
  if ((e = mr_loader_open(graph, &set, &l, diag)) < 0) return e;
  while ((e = mr_loader_next(l, &b, diag)) == MR_OK)
    for (int i = 0; i < b->n; i++)
      *sum += ((const uint64_t *)b->field[0].data)[i] * (uint64_t)b->step;
  *ledger = mr_loader_ledger(l);
  mr_loader_close(l);
  return e;
}

static void records_have_the_order_and_ledger_of_all_others(void **state) {
  uint64_t want, sum;
  uint64_t want_ledger, ledger;
  mr_diag_t d = {0};
  const char *rest = "! shuffle seed=3 epochs=2 ! batch 8 workers=3";
  char theirs[128], ours[128];
  snprintf(theirs, sizeof theirs, "range 100 %s", rest);
  snprintf(ours, sizeof ours, "own-source whole %s", rest);
  assert_int_equal(sum_up(theirs, NULL, &want, &want_ledger, &d), MR_END);
  assert_int_equal(sum_up(ours, NULL, &sum, &ledger, &d), MR_END);
  assert_int_equal(sum, want);
  assert_int_equal(ledger, want_ledger);
  assert_int_equal(sum_up("own-source whole ! shuffle seed=3 epochs=2 ! own-map double ! batch 8",
                          NULL, &sum, &ledger, &d),
                   MR_END);
  assert_int_equal(sum, 2 * want);
  assert_int_equal(ledger, want_ledger);
}

static void draws_are_of_the_record_and_in_the_ledger(void **state) {
  uint64_t sum, again;
  uint64_t ledger, plain;
  mr_diag_t d = {0};
  const char *graph = "own-source whole ! shuffle seed=3 ! own-map draw ! batch 8";
  assert_int_equal(sum_up(graph, NULL, &sum, &ledger, &d), MR_END);
  assert_int_equal(sum_up("own-source whole ! shuffle seed=3 ! own-map draw ! batch 8 workers=4",
                          NULL, &again, &plain, &d),
                   MR_END);
  assert_int_equal(again, sum);
  assert_int_equal(plain, ledger);
  assert_int_equal(sum_up("own-source whole ! shuffle seed=3 ! batch 8", NULL, &again, &plain, &d),
                   MR_END);
  assert_int_not_equal(plain, ledger);
}

static void a_state_resumes_them(void **state) {
  const char *graph = "own-source whole ! shuffle seed=5 ! own-map double ! batch 7";
  uint64_t whole, head = 0, rest;
  uint64_t want, ledger;
  mr_diag_t d = {0};
  const mr_batch_t *b;
  mr_loader_t *l;
  char *text;
  assert_int_equal(sum_up(graph, NULL, &whole, &want, &d), MR_END);
  assert_int_equal(mr_loader_open(graph, &with_own, &l, &d), MR_OK);
  for (int k = 0; k < 5; k++) {
    assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
    for (int i = 0; i < b->n; i++)
      head += ((const uint64_t *)b->field[0].data)[i] * (uint64_t)b->step;
  }
  assert_int_equal(mr_loader_state(l, &text, &d), MR_OK);
  mr_loader_close(l);
  assert_int_equal(sum_up(graph, text, &rest, &ledger, &d), MR_END);
  assert_int_equal(head + rest, whole);
  assert_int_equal(ledger, want);
  free(text);
}

static void a_wrong_name_or_a_bad_record_is_said(void **state) {
  static const struct {
    const char *graph;
    mr_err_t e;
    const char *says;
  } bad[] = {
      {"own-source nothing ! batch 8", MR_ERR_USAGE, "no source of its own called \"nothing\""},
      {"own-source double ! batch 8", MR_ERR_USAGE, "no source of its own called \"double\""},
      {"own-source whole ! own-map whole ! batch 8", MR_ERR_USAGE, "no map of its own"},
      {"own-source ! batch 8", MR_ERR_CONFIG, "of"},
      {"own-source whole ! own-map draw ! batch 8", MR_ERR_CONFIG, "generator"},
      {"own-source broken ! batch 8", MR_ERR_DATA, "record 7 is bad"},
      {"own-source broken on-bad=skip-replace ! batch 8", MR_END, ""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint64_t sum;
    uint64_t ledger;
    mr_diag_t d = {0};
    mr_err_t e = sum_up(bad[i].graph, NULL, &sum, &ledger, &d);
    if (e != bad[i].e || !strstr(d.text, bad[i].says))
      fail_msg("%s: %d \"%s\"", bad[i].graph, e, d.text);
  }
}

/* What a function says of its fields may be anything. */
static mr_own_value_t odd[17];
static int n_odd;
static mr_err_t plan_odd(void *of, mr_own_call_t *call, mr_diag_t *diag) {
  call->n_output = n_odd;
  memcpy(call->output, odd, sizeof call->output);
  return MR_OK;
}

static void fields_that_are_none_are_refused(void **state) {
  static const struct {
    int n;
    mr_own_value_t value;
    const char *says;
  } bad[] = {
      {0, {.name = "a"}, "want [1,16]"},
      {17, {.name = "a"}, "want [1,16]"},
      {2, {.name = "a"}, "occurs twice"},
      {1, {.name = "a b"}, "want a name"},
      {1, {.name = ""}, "want a name"},
      {1, {.name = "a", .dtype = MR_DTYPE_COUNT}, "unknown dtype"},
      {1, {.name = "a", .dtype = -1}, "unknown dtype"},
      {1, {.name = "a", .ndim = 8}, "7 dimensions"},
      {1, {.name = "a", .ndim = -1}, "7 dimensions"},
      {1, {.name = "a", .ndim = 1, .dim = {-1}}, "2 GiB"},
      {1, {.name = "a", .ndim = 3, .dim = {1 << 20, 1 << 20, 1 << 30}}, "2 GiB"},
  };
  const mr_own_t one = {.name = "odd", .n = 4, .plan = plan_odd, .make = make_index, .of = &none};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t d = {0};
    mr_loader_t *l;
    n_odd = bad[i].n, odd[0] = odd[1] = bad[i].value;
    assert_int_equal(mr_loader_open("own-source odd ! batch 2",
                                    &(mr_loader_settings_t){.own = &one, .n_own = 1}, &l, &d),
                     MR_ERR_SHAPE);
    if (!strstr(d.text, bad[i].says)) fail_msg("case %d: \"%s\"", (int)i, d.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_have_the_order_and_ledger_of_all_others),
      cmocka_unit_test(draws_are_of_the_record_and_in_the_ledger),
      cmocka_unit_test(a_state_resumes_them),
      cmocka_unit_test(a_wrong_name_or_a_bad_record_is_said),
      cmocka_unit_test(fields_that_are_none_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
