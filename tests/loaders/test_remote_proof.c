/* Proofs of peers: each part of an exchange is in them, and no other text is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "loaders/remote/remote_proof.h"

static const mr_proof_about_t usual = {"a token of this job", "host:1", "/00ff", 10, 20};
static const uint8_t data[20] = "bytes of a block...";

/* Exchanges that differ from the usual one in one part. */
static const mr_proof_about_t others[] = {{"a token of that job", "host:1", "/00ff", 10, 20},
                                          {"a token of this job", "host:2", "/00ff", 10, 20},
                                          {"a token of this job", "host:1", "/00fe", 10, 20},
                                          {"a token of this job", "host:1", "/00ff", 11, 20},
                                          {"a token of this job", "host:1", "/00ff", 10, 19}};

static void an_exchange_of_one_token_is_proven(void **state) {
  char asked[MR_PROOF_TEXT], again[MR_PROOF_TEXT], answer[MR_PROOF_TEXT];
  assert_true(mr__proof_ask(&usual, asked) && mr__proof_ask(&usual, again));
  assert_string_not_equal(asked, again);
  assert_true(mr__proof_asked(&usual, asked));
  assert_true(mr__proof_answer(&usual, asked, data, answer));
  assert_true(mr__proof_answered(&usual, asked, data, answer));
  assert_false(mr__proof_answered(&usual, again, data, answer)); /* recorded for another request */
  assert_false(mr__proof_asked(&usual, answer));
  assert_false(mr__proof_answered(&usual, asked, data, asked)); /* what was sent, sent back */
}

static void another_part_is_another_exchange(void **state) {
  char asked[MR_PROOF_TEXT], answer[MR_PROOF_TEXT];
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    assert_true(mr__proof_ask(&others[i], asked));
    if (mr__proof_asked(&usual, asked)) fail_msg("request %zu", i);
    assert_true(mr__proof_ask(&usual, asked) && mr__proof_answer(&others[i], asked, data, answer));
    if (mr__proof_answered(&usual, asked, data, answer)) fail_msg("answer %zu", i);
  }
  uint8_t changed[sizeof data];
  assert_true(mr__proof_answer(&usual, asked, data, answer));
  for (size_t i = 0; i < sizeof data; i++) {
    memcpy(changed, data, sizeof data);
    changed[i] ^= 1;
    assert_false(mr__proof_answered(&usual, asked, changed, answer));
  }
}

static void a_text_with_any_other_digit_is_no_proof(void **state) {
  char asked[MR_PROOF_TEXT], changed[MR_PROOF_TEXT + 1];
  assert_true(mr__proof_ask(&usual, asked));
  for (size_t i = 0; i < MR_PROOF_TEXT - 1; i++) {
    memcpy(changed, asked, sizeof asked);
    changed[i] = asked[i] == '0' ? '1' : '0';
    if (mr__proof_asked(&usual, changed)) fail_msg("digit %zu", i);
    changed[i] = 0; /* a beginning */
    if (mr__proof_asked(&usual, changed)) fail_msg("the first %zu digits", i);
  }
  memcpy(changed, asked, sizeof asked);
  strcat(changed, "0");
  assert_false(mr__proof_asked(&usual, changed));
  assert_false(mr__proof_asked(&usual, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_exchange_of_one_token_is_proven),
      cmocka_unit_test(another_part_is_another_exchange),
      cmocka_unit_test(a_text_with_any_other_digit_is_no_proof),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
