/* What a terminal is given of text that came from a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "base/text.h"

static void characters_that_a_terminal_obeys_are_escaped(void **state) {
  static const struct {
    const char *text, *want;
  } cases[] = {
      {"cat", "cat"},
      {"", ""},
      {"K\xC3\xA4"
       "fer \xE7\x8C\xAB \xF0\x9F\x90\xB1",
       "K\xC3\xA4"
       "fer \xE7\x8C\xAB \xF0\x9F\x90\xB1"},
      {"a\x1B[2Jb", "a\\x1b[2Jb"},
      {"two\nlines\t\r", "two\\x0alines\\x09\\x0d"},
      {"\x7F\x9B", "\\x7f\\x9b"},
      {"\xC2\x9B", "\\xc2\\x9b"},                     /* C1 */
      {"\xE2\x80\xAE", "\\xe2\\x80\\xae"},            /* right to left */
      {"\xC0\x80 \xE2\x82", "\\xc0\\x80 \\xe2\\x82"}, /* no UTF-8 */
      {"\xED\xA0\x80\xFF", "\\xed\\xa0\\x80\\xff"},
  };
  char to[128];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_string_equal(mr_printable(cases[i].text, to, sizeof to), cases[i].want);
    assert_string_equal(mr_printable_cell(cases[i].text, 99, to, sizeof to), cases[i].want);
  }
}

/* Eight characters are looked at together: each byte at each place among others is what it is
   alone. */
static void a_byte_is_shown_the_same_at_any_place(void **state) {
  char text[32], to[128], alone[8], want[128];
  for (int c = 1; c < 256; c++) {
    mr_printable((char[]){(char)c, 0}, alone, sizeof alone);
    for (int at = 0; at < 20; at++) {
      memset(text, '~', 20);
      text[at] = (char)c, text[20] = 0;
      snprintf(want, sizeof want, "%.*s%s%s", at, text, alone, text + at + 1);
      assert_string_equal(mr_printable(text, to, sizeof to), want);
    }
  }
}

static void a_text_that_does_not_fit_ends_at_a_whole_character(void **state) {
  char to[8];
  assert_string_equal(mr_printable("abcdef\xC3\xA4", to, sizeof to), "abcdef");
  assert_string_equal(mr_printable("abcde\x1B", to, sizeof to), "abcde");
  assert_string_equal(mr_printable("abcdefgh", to, sizeof to), "abcdefg");
  assert_string_equal(mr_printable("a", to, 1), "");
  assert_string_equal(mr_printable_cell("\xC3\xA4\xC3\xA4\xC3\xA4", 2, to, sizeof to),
                      "\xC3\xA4\xC3\xA4");
}

static void sentences_of_failures_are_printable(void **state) {
  mr_diag_t diag = {0};
  mr_fail(&diag, MR_ERR_DATA, "tensor %s", "\x1B]0;title\x07");
  assert_string_equal(diag.text, "tensor \\x1b]0;title\\x07");
}

/* A sentence is one line, whichever call writes it: a name with a newline cannot pass for another
   message. */
static void sentences_of_failures_are_one_line(void **state) {
  static const char name[] = "a\nmillrace: all is well";
  mr_diag_t diag[4] = {0}, why = {0};
  mr_fail(&diag[0], MR_ERR_DATA, "%s: damaged", name);
  mr_no_memory(&diag[1], "%s", name);
  snprintf(why.text, sizeof why.text, "%s", name); /* written by hand, by a plug-in perhaps */
  mr_diag_relay(&diag[2], MR_ERR_IO, &why);
  mr_diag_prefix(&diag[3], MR_ERR_IO, &why, "%s", name);
  for (int i = 0; i < 4; i++) {
    assert_null(strchr(diag[i].text, '\n'));
    assert_non_null(strstr(diag[i].text, "a\\x0amillrace: all is well"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(characters_that_a_terminal_obeys_are_escaped),
      cmocka_unit_test(a_byte_is_shown_the_same_at_any_place),
      cmocka_unit_test(a_text_that_does_not_fit_ends_at_a_whole_character),
      cmocka_unit_test(sentences_of_failures_are_printable),
      cmocka_unit_test(sentences_of_failures_are_one_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
