/* The table of optional libraries, and what is said of a part that lacks one. */
#include <glob.h>

#include "base/feature.h"
#include "base/xio.h"
#include "tests/vectors.h"

static char *text_of(const char *path) {
  void *text;
  size_t n;
  mr_diag_t diag = {0};
  if (mr_read_file(path, 1 << 22, &text, &n, &diag) < 0) fail_msg("%s", diag.text);
  return text;
}

static void a_name_that_is_none_is_seen(void **state) {
  assert_false(mr_are_features("curl"));
  assert_false(mr_are_features("CURL ARCHIV"));
  assert_false(mr_are_features("CURLARCHIVE"));
  assert_true(mr_are_features("CURL ARCHIVE"));
  assert_true(mr_are_features(""));
  assert_true(mr_are_features(NULL));
}

static void each_row_is_whole(void **state) {
  for (const mr_feature_t *f = mr_features; f->name; f++) {
    assert_true(mr_are_features(f->name));
    assert_true(*f->library && *f->packages && *f->gives && strstr(f->option, f->name));
    if (f->version) assert_true(*f->version);
  }
}

static void a_part_is_built_in_if_all_it_needs_is(void **state) {
  char needs[64], note[MR_LACKING_MAX];
  assert_true(mr_built_in(NULL));
  assert_true(mr_built_in(""));
  for (const mr_feature_t *f = mr_features; f->name; f++)
    for (const mr_feature_t *g = mr_features; g->name; g++) {
      snprintf(needs, sizeof needs, "%s %s", f->name, g->name);
      assert_int_equal(mr_built_in(needs), f->version && g->version);
      bool quiet = !*mr_lacking_note(needs, note, sizeof note);
      assert_int_equal(quiet, f->version && g->version);
      if (!f->version) assert_non_null(strstr(note, f->library));
    }
}

static void a_missing_feature_is_one_sentence_with_package_and_option(void **state) {
  for (const mr_feature_t *f = mr_features; f->name; f++) {
    mr_diag_t diag = {0};
    char option[64];
    snprintf(option, sizeof option, "-D%s=ON", f->option);
    if (f->version) continue;
    assert_int_equal(mr_without(&diag, "part", f->name), MR_ERR_UNAVAILABLE);
    assert_memory_equal(diag.text, "part: ", 6);
    assert_non_null(strstr(diag.text, f->library));
    assert_non_null(strstr(diag.text, f->packages));
    assert_non_null(strstr(diag.text, option));
    assert_null(strchr(diag.text, '\n'));
  }
}

/* Whether a source of the room of `without`, other than itself, holds the line. */
static bool room_holds(const char *without, const char *line) {
  static const char *const depth[] = {"*.c", "*/*.c", "*/*/*.c"}; /* a room, its parts */
  char pattern[512];
  glob_t found = {0};
  bool holds = false;
  for (int i = 0; i < 3; i++) {
    snprintf(pattern, sizeof pattern, "%.*s/%s", (int)(strrchr(without, '/') - without), without,
             depth[i]);
    int e = glob(pattern, i ? GLOB_APPEND : 0, NULL, &found);
    assert_true(e == 0 || e == GLOB_NOMATCH);
  }
  for (size_t i = 0; i < found.gl_pathc && !holds; i++) {
    if (!strcmp(found.gl_pathv[i], without)) continue;
    char *text = text_of(found.gl_pathv[i]);
    holds = strstr(text, line) != NULL;
    free(text);
  }
  globfree(&found);
  return holds;
}

/* A stage or command in a without.c has the name and help of the real one that it replaces. */
static void both_forms_of_a_part_have_one_help(void **state) {
  glob_t found;
  int n = 0;
  assert_int_equal(glob(MR_SOURCE_DIR "/*/without.c", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    const char *without = found.gl_pathv[i];
    char *text = text_of(without);
    for (const char *line = text; (line = strstr(line, "\n    .")); line++) {
      if (strncmp(line, "\n    .name", 10) && strncmp(line, "\n    .help", 10)) continue;
      char want[512];
      snprintf(want, sizeof want, "%.*s", (int)(strcspn(line + 1, "\n") + 1), line);
      if (!room_holds(without, want)) fail_msg("%s: no other source has%s", without, want);
      n++;
    }
    free(text);
  }
  globfree(&found);
  assert_true(n > 0);
}

/* The launcher installs what all of them need; docs/dependencies.md names each. */
static void packages_and_documents_name_all(void **state) {
  char *packages = text_of(MR_SOURCE_DIR "/scripts/packages.txt");
  char *documents = text_of(MR_SOURCE_DIR "/docs/dependencies.md");
  for (const mr_feature_t *f = mr_features; f->name; f++) {
    char names[256], line[256], option[64], *save = NULL;
    snprintf(names, sizeof names, "%s", f->packages);
    for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
      snprintf(line, sizeof line, "\n%s", name);
      bool ours =
          strcmp(f->name, "CUDA") != 0; /* NVIDIA's archive has it, which few machines use */
      if (ours && !strstr(packages, line)) fail_msg("packages.txt lacks %s", name);
      if (!strstr(documents, name)) fail_msg("dependencies.md lacks %s", name);
    }
    snprintf(option, sizeof option, "%s`", f->option);
    if (!strstr(documents, option)) fail_msg("dependencies.md lacks %s", option);
  }
  free(packages), free(documents);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_that_is_none_is_seen),
      cmocka_unit_test(each_row_is_whole),
      cmocka_unit_test(a_part_is_built_in_if_all_it_needs_is),
      cmocka_unit_test(a_missing_feature_is_one_sentence_with_package_and_option),
      cmocka_unit_test(both_forms_of_a_part_have_one_help),
      cmocka_unit_test(packages_and_documents_name_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
