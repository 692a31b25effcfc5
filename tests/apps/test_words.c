/* The command line as a person meets it: help, wrong words, exit statuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/apps/program.h"
#include "tests/needs.h"

#define FETCH "CURL ARCHIVE" /* what `data` needs */

static program_t p;

/* Exactly one sentence on standard error, nothing on standard output. */
static void says(int status, const char *sentence) {
  if (p.status != status) fail_msg("status %d, expected %d: %s%s", p.status, status, p.err, p.out);
  if (!strstr(p.err, sentence)) fail_msg("\"%s\" is not in: %s", sentence, p.err);
  char *end = strchr(p.err, '\n');
  assert_non_null(end);
  if (end[1]) fail_msg("more than one line: %s", p.err);
  assert_string_equal(p.out, "");
}

static void help_is_there_at_each_level(void **state) {
  RUN(&p, "--help");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "index"));
  RUN(&p, "index", "--help");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "--records N"));
  RUN(&p, "data", "fetch", "--help");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, mr_built_in(FETCH) ? "--url URL" : "Not built in"));
  RUN(&p, "--version");
  assert_int_equal(p.status, 0);
  assert_int_equal(strncmp(p.out, "millrace 0.", 11), 0);
}

static void no_command_is_a_usage_error(void **state) {
  program_run(&p, (const char *const[]){NULL});
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "usage: millrace"));
}

static void unknown_words_get_the_nearest_known_one(void **state) {
  RUN(&p, "indx");
  says(2, "unknown command \"indx\"; did you mean \"index\"?");
  RUN(&p, "zzzzzzzz");
  says(2, "unknown command \"zzzzzzzz\"; millrace --help lists them");
  RUN(&p, "index", "--record", "5");
  says(2, "unknown flag --record; did you mean \"--records\"?");
  if (!mr_built_in(FETCH)) return;
  RUN(&p, "data", "fetsh");
  says(2, "data: unknown word \"fetsh\"; did you mean \"fetch\"?");
}

static void wrong_flags_are_said(void **state) {
  RUN(&p, "index", "--records");
  says(2, "--records needs a value, N");
  RUN(&p, "index", "--records", "5", "--records=6");
  says(2, "--records is given twice");
  RUN(&p, "profile", "layers=1", "heads=2", "layers=2");
  says(2, "layers is given twice");
  RUN(&p, "train", "--steps", "4", "steps=5");
  says(2, "steps is given twice, as --steps and as steps=");
  RUN(&p, "index", "--records", "0");
  says(2, "--records: \"0\", expected a whole number from 1 to");
  RUN(&p, "index", "--records", "5x");
  says(2, "--records: \"5x\"");
  RUN(&p, "index", "--records", "99999999999999999999");
  says(2, "--records: \"99999999999999999999\"");
  RUN(&p, "index");
  says(2, "--records N must be given");
  RUN(&p, "index", "--records", "5", "--no-shuffle=1");
  says(2, "--no-shuffle takes no value");
  RUN(&p, "index", "--records", "5", "word");
  says(2, "one word too many, \"word\"");
  RUN(&p, "index", "--records", "5", "--shard", "2/2");
  says(2, "--shard: \"2/2\", expected I/N");
  if (!mr_built_in(FETCH)) return;
  RUN(&p, "data");
  says(2, "a word is missing");
  RUN(&p, "data", "fetch", "--md5", "abc");
  says(2, "--md5: \"abc\", expected 32 lower-case hex digits");
}

static void a_wrong_instruction_set_is_said_at_once(void **state) {
  setenv("MILLRACE_ISA", "sse9", 1);
  RUN(&p, "index", "--records", "5");
  unsetenv("MILLRACE_ISA");
  says(2, "MILLRACE_ISA is \"sse9\"; expected plain, avx2, avx512 or avx512-bf16");
}

static void index_prints_each_record_once(void **state) {
  RUN(&p, "index", "--records", "10", "--seed", "12", "--epochs", "2");
  assert_int_equal(p.status, 0);
  int seen[10] = {0}, lines = 0;
  char *line = strtok(p.out, "\n");
  for (; line; line = strtok(NULL, "\n")) {
    long position, record;
    unsigned long long key;
    assert_int_equal(sscanf(line, "%ld %ld %llu", &position, &record, &key), 3);
    assert_int_equal(position, lines);
    assert_in_range(record, 0, 9);
    seen[record]++;
    lines++;
  }
  assert_int_equal(lines, 20);
  for (int i = 0; i < 10; i++) assert_int_equal(seen[i], 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(help_is_there_at_each_level),
      cmocka_unit_test(no_command_is_a_usage_error),
      cmocka_unit_test(unknown_words_get_the_nearest_known_one),
      cmocka_unit_test(wrong_flags_are_said),
      cmocka_unit_test(a_wrong_instruction_set_is_said_at_once),
      cmocka_unit_test(index_prints_each_record_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
