/* Failures: the first sentence wins, a relayed one keeps its code and words, and nothing that is
   too long or unprintable gets past the end of a diag. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "tests/random.h"

static void the_first_failure_wins(void **state) {
  mr_diag_t d = {0}, from = {0};
  mr_fail(&from, MR_ERR_IO, "second");
  assert_int_equal(mr_fail(&d, MR_ERR_DATA, "first, %d", 1), MR_ERR_DATA);
  assert_int_equal(mr_fail(&d, MR_ERR_IO, "second"), MR_ERR_IO);
  assert_int_equal(mr_diag_relay(&d, MR_ERR_IO, &from), MR_ERR_IO);
  assert_int_equal(mr_diag_prefix(&d, MR_ERR_IO, &from, "here"), MR_ERR_IO);
  assert_int_equal(mr_no_memory(&d, "a graph"), MR_ERR_NOMEM);
  assert_int_equal(d.code, MR_ERR_DATA);
  assert_string_equal(d.text, "first, 1");
}

static void a_relayed_failure_keeps_its_sentence(void **state) {
  mr_diag_t from = {0}, d = {0}, at = {0};
  mr_fail(&from, MR_ERR_DATA, "a.npy: 100 %% of %s", "it");
  assert_int_equal(mr_diag_relay(&d, MR_ERR_CONFIG, &from), MR_ERR_CONFIG);
  assert_int_equal(d.code, MR_ERR_CONFIG);
  assert_string_equal(d.text, "a.npy: 100 % of it");
  assert_int_equal(mr_diag_prefix(&at, MR_ERR_DATA, &from, "record %d", 7), MR_ERR_DATA);
  assert_string_equal(at.text, "record 7: a.npy: 100 % of it");
}

static void a_failure_without_a_sentence_gets_that_of_its_code(void **state) {
  mr_diag_t from = {0}, d = {0}, at = {0};
  mr_diag_relay(&d, MR_ERR_CANCEL, &from);
  assert_string_equal(d.text, mr_err_text(MR_ERR_CANCEL));
  mr_diag_prefix(&at, MR_ERR_NOMEM, &from, "flip-0");
  assert_string_equal(at.text, "flip-0: out of memory");
}

static void news_is_passed_on_and_writes_nothing(void **state) {
  mr_diag_t from = {0}, d = {0};
  for (mr_err_t e = MR_OK; e <= MR_END; e++) {
    assert_int_equal(mr_diag_relay(&d, e, &from), e);
    assert_int_equal(mr_diag_prefix(&d, e, &from, "here"), e);
  }
  assert_int_equal(d.code, MR_OK);
  assert_string_equal(d.text, "");
  assert_int_equal(mr_diag_relay(NULL, MR_ERR_IO, &from), MR_ERR_IO);
  assert_int_equal(mr_diag_prefix(NULL, MR_ERR_IO, &from, "here"), MR_ERR_IO);
  assert_int_equal(mr_no_memory(NULL, "a graph"), MR_ERR_NOMEM);
}

static void missing_memory_is_said_in_one_way(void **state) {
  mr_diag_t d = {0};
  assert_int_equal(mr_no_memory(&d, "%d buffers of link %s", 3, "a"), MR_ERR_NOMEM);
  assert_int_equal(d.code, MR_ERR_NOMEM);
  assert_string_equal(d.text, "out of memory for 3 buffers of link a");
}

/* Prefixes and sentences of any length: what fits is the beginning of the whole. */
static void a_sentence_that_is_too_long_is_cut(void **state) {
  enum { MOST = 3000 };
  static char prefix[MOST], text[MOST], whole[2 * MOST];
  round_t r = round_first(300);
  while (round_next(&r)) {
    mr_diag_t from = {0}, d = {0};
    int n = draw(&r, 1200), m = 1 + draw(&r, 1200);
    memset(prefix, 'p', (size_t)n), prefix[n] = 0;
    memset(text, 't', (size_t)m), text[m] = 0;
    mr_fail(&from, MR_ERR_DATA, "%s", text);
    mr_diag_prefix(&d, MR_ERR_DATA, &from, "%s", prefix);
    strcat(strcat(strcpy(whole, prefix), ": "), text);
    size_t len = strlen(d.text), want = strlen(whole);
    if (want >= sizeof d.text) want = sizeof d.text - 1;
    round_check(&r, len == want, "%d and %d bytes: %zu kept, want %zu", n, m, len, want);
    round_check(&r, !memcmp(d.text, whole, len), "another text");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_failure_wins),
      cmocka_unit_test(a_relayed_failure_keeps_its_sentence),
      cmocka_unit_test(a_failure_without_a_sentence_gets_that_of_its_code),
      cmocka_unit_test(news_is_passed_on_and_writes_nothing),
      cmocka_unit_test(missing_memory_is_said_in_one_way),
      cmocka_unit_test(a_sentence_that_is_too_long_is_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
