/* millrace runs A B: what two runs had, given or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

static const char graph[] =
    "let run = unset\n"
    "let batch = 8   # records\n"
    "synthetic name=data n=64 ! shuffle seed=12 epochs=0 ! normalize ! batch $batch name=batches\n"
    "  ! vit-step name=train layers=1 embed=16 mlp=16 heads=2 patch=8\n"
    "train.metrics ! telemetry ! alert name=warn\n"
    "train.metrics ! jsonl path=$run/metrics.jsonl\n";

static program_t p;
static char dir[64], file[96], a[96], b[96];

static void train(const char *run, const char *const *more) {
  const char *words[32] = {"train", "--graph", file, "--run-dir", run, "--steps", "3"};
  for (int i = 0; more[i]; i++) words[7 + i] = more[i];
  program_run(&p, words);
  if (p.status) fail_msg("%s", p.err);
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-runs-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/g.mr", dir);
  snprintf(a, sizeof a, "%s/a", dir);
  snprintf(b, sizeof b, "%s/b", dir);
  return mr_write_file(file, graph, sizeof graph - 1, NULL);
}

static int teardown(void **state) { return program_forget(dir); }

/* The words of the row that begins with a key; "" without one. */
static const char *row(const char *key) {
  static char text[256];
  char one[64] = "", two[64] = "", start[64];
  snprintf(start, sizeof start, "\n%s ", key);
  const char *at = strstr(p.out, start);
  if (!at || sscanf(at + strlen(start), "%63s %63s", one, two) != 2) return "";
  snprintf(text, sizeof text, "%s %s", one, two);
  return text;
}

static void a_setting_of_one_run_is_shown_beside_the_default_of_the_other(void **state) {
  NEEDS("CURL"); /* webhook= */
  train(a, (const char *const[]){"lr=5e-4", "batch=4", "data.n=32", "warn.webhook=http://h/secret",
                                 "train.warmup=0", NULL});
  train(b, (const char *const[]){NULL});
  RUN(&p, "runs", a, b);
  assert_int_equal(p.status, 0);
  assert_string_equal(row("lr"), "5e-4 1e-3");
  assert_string_equal(row("batch"), "4 8");
  assert_string_equal(row("data.n"), "32 64");
  assert_string_equal(row("train.warmup"), ""); /* the same, said or not */
  assert_string_equal(row("steps"), "");
  assert_null(strstr(p.out, "secret"));
  const char *at = strstr(p.out, "loss at step 1 ");
  assert_non_null(at);
  assert_null(strstr(at + 1, "loss at step 1 ")); /* once, of three steps */
}

static void runs_of_other_models_show_what_those_are_judged_by(void **state) {
  static const char lines[] =
      "{\"kind\":\"step\",\"step\":1,\"loss\":0.5,\"mean_error\":0.75,\"lr\":1e-3}\n"
      "{\"kind\":\"valid\",\"step\":1,\"loss\":0.5,\"mean_error\":0.125,\"records\":8}\n"
      "{\"kind\":\"test\",\"step\":1,\"loss\":0.5,\"records\":8}\n";
  char path[128];
  snprintf(path, sizeof path, "%s/other", dir);
  assert_int_equal(mr_make_folder(path, NULL), MR_OK);
  snprintf(path, sizeof path, "%s/other/metrics.jsonl", dir);
  assert_int_equal(mr_write_file(path, lines, sizeof lines - 1, NULL), MR_OK);
  RUN(&p, "runs", dir);
  assert_int_equal(p.status, 0);
  const char *at = strstr(p.out, "\nother ");
  char valid[16] = "", test[16] = "";
  assert_non_null(at);
  assert_int_equal(sscanf(at, " other %*s%*[^0-9]%*d %*s %15s %15s", valid, test), 2);
  assert_string_equal(valid, "0.1250");
  assert_string_equal(test, "-");
}

/* Valid as `millrace runs` shows it of a run with these records. */
static const char *valid_shown(const char *lines) {
  static char valid[16];
  char path[128];
  snprintf(path, sizeof path, "%s/named", dir);
  assert_int_equal(mr_make_folder(path, NULL), MR_OK);
  snprintf(path, sizeof path, "%s/named/metrics.jsonl", dir);
  assert_int_equal(mr_write_file(path, lines, strlen(lines), NULL), MR_OK);
  RUN(&p, "runs", dir);
  assert_int_equal(p.status, 0);
  const char *at = strstr(p.out, "\nnamed ");
  assert_non_null(at);
  assert_int_equal(sscanf(at, " named %*s%*[^0-9]%*d %*s %15s", valid), 1);
  return valid;
}

#define RECORD(kind, step, accuracy)                                             \
  "{\"kind\":\"" kind "\",\"step\":" step ",\"loss\":0.5,\"accuracy\":" accuracy \
  ",\"records\":8}"                                                              \
  "\n"

static void a_run_with_named_validations_alone_shows_the_first_of_them(void **state) {
  assert_string_equal(valid_shown(RECORD("step", "1", "0.75") RECORD("valid.dogs", "1", "0.25")),
                      "0.2500");
  assert_string_equal(
      valid_shown(RECORD("step", "1", "0.75") RECORD("valid.dogs", "1", "0.25")
                      RECORD("valid.cats", "1", "0.5") RECORD("valid.dogs", "2", "0.375")
                          RECORD("valid.cats", "2", "0.625")),
      "0.3750");
  assert_string_equal(
      valid_shown(RECORD("step", "1", "0.75") RECORD("valid.dogs", "1", "0.25")
                      RECORD("valid", "1", "0.125") RECORD("valid.dogs", "1", "0.625")),
      "0.1250");
  assert_string_equal(valid_shown(RECORD("step", "1", "0.75") RECORD("validity", "1", "0.25")),
                      "-");
}

static void a_folder_name_cannot_command_the_terminal(void **state) {
  static const char *const name = "\033]0;owned\007\033[31m";
  static const char lines[] = RECORD("step", "1", "0.75");
  char path[192], own[128], other[128];
  snprintf(own, sizeof own, "%s/%s", dir, name);
  snprintf(other, sizeof other, "%s/beside", dir);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/metrics.jsonl", i ? other : own);
    assert_int_equal(mr_make_folder(i ? other : own, NULL), MR_OK);
    assert_int_equal(mr_write_file(path, lines, strlen(lines), NULL), MR_OK);
  }
  const char *const line[][6] = {
      {"runs", dir}, {"runs", own, other}, {"runs", own}, {"top", "--once", own}};
  for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
    program_run(&p, line[i]);
    if (strpbrk(p.out, "\033\007") || strpbrk(p.err, "\033\007"))
      fail_msg("line %zu: %s%s", i, p.out, p.err);
    if (!strstr(p.out, "\\x1b]0;owned")) fail_msg("line %zu: %s%s", i, p.out, p.err);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_setting_of_one_run_is_shown_beside_the_default_of_the_other),
      cmocka_unit_test(runs_of_other_models_show_what_those_are_judged_by),
      cmocka_unit_test(a_run_with_named_validations_alone_shows_the_first_of_them),
      cmocka_unit_test(a_folder_name_cannot_command_the_terminal),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
