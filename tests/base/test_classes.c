/* Names of classes: joining and matching lists against a plain oracle, and the sentences of lists
   that do not match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/classes.h"
#include "base/philox.h"
#include "base/same_name.h"
#include "tests/vectors.h"

enum { NAMES = 300, LISTS = 5 };

static char word[NAMES][16];

static void write_words(void) {
  for (int i = 0; i < NAMES; i++) snprintf(word[i], sizeof word[i], "name-%d", i * 7919 % 1000);
}

/* A random subset of the words in a random order. */
static mr_classes_t random_list(mr_philox_t *g, const char **room) {
  int n = 0;
  for (int i = 0; i < NAMES; i++)
    if (mr_philox_integers(g, 0, 3)) room[n++] = word[i];
  for (int i = n - 1; i > 0; i--) {
    int k = (int)mr_philox_integers(g, 0, i + 1);
    const char *t = room[i];
    room[i] = room[k], room[k] = t;
  }
  return (mr_classes_t){n, room};
}

static int place_of(const mr_classes_t *c, const char *name) {
  for (int i = 0; i < c->n; i++)
    if (!strcmp(c->name[i], name)) return i;
  return -1;
}

static void joined_lists_hold_each_name_once_and_say_where_it_went(void **state) {
  const char *room[LISTS][NAMES], *of[LISTS] = {"a", "b", "c", "d", "e"};
  write_words();
  for (uint64_t seed = 0; seed < 200; seed++) {
    mr_philox_t g;
    mr_philox_init(&g, seed, 1);
    mr_classes_t list[LISTS];
    const mr_classes_t *at[LISTS];
    int n = 1 + (int)mr_philox_integers(&g, 0, LISTS);
    for (int l = 0; l < n; l++) list[l] = random_list(&g, room[l]), at[l] = &list[l];
    mr_classes_joined_t j;
    mr_diag_t diag = {0};
    if (mr_classes_join(at, of, n, &j, &diag) < 0) fail_msg("seed %d: %s", (int)seed, diag.text);
    int want = 0;
    for (int l = 0; l < n; l++)
      for (int i = 0; i < list[l].n; i++) {
        int to = j.number[l] ? j.number[l][i] : i;
        bool fresh = true;
        for (int k = 0; k < l; k++) fresh &= place_of(&list[k], list[l].name[i]) < 0;
        if (fresh && to != want)
          fail_msg("seed %d: a new name at %d, want %d", (int)seed, to, want);
        want += fresh;
        assert_in_range(to, 0, j.all.n - 1);
        assert_string_equal(j.all.name[to], list[l].name[i]);
      }
    assert_int_equal(j.all.n, want);
    assert_null(j.number[0]); /* the first list stays as it is */
    mr_classes_unjoin(&j);
  }
}

static void a_list_is_matched_by_name_or_its_first_name_without_a_place_is_reported(void **state) {
  const char *room[2][NAMES];
  write_words();
  for (uint64_t seed = 0; seed < 200; seed++) {
    mr_philox_t g;
    mr_philox_init(&g, seed, 2);
    mr_classes_t from = random_list(&g, room[0]), to = random_list(&g, room[1]);
    if (seed % 2) { /* all of from's names, in another order */
      memcpy(room[1], room[0], sizeof room[1]);
      to.n = from.n;
      for (int i = 0; i + 1 < to.n; i += 2) {
        const char *t = room[1][i];
        room[1][i] = room[1][i + 1], room[1][i + 1] = t;
      }
    }
    int32_t *number;
    mr_diag_t diag = {0};
    const char *lacks = NULL;
    for (int i = 0; i < from.n && !lacks; i++)
      if (place_of(&to, from.name[i]) < 0) lacks = from.name[i];
    mr_err_t e = mr_classes_align(&from, "this", &to, "that", &number, &diag);
    assert_int_equal(e, lacks ? MR_ERR_DATA : MR_OK);
    if (lacks) {
      char quoted[32];
      snprintf(quoted, sizeof quoted, "\"%s\" is only in the first", lacks);
      assert_null(number);
      assert_non_null(strstr(diag.text, quoted));
      continue;
    }
    for (int i = 0; i < from.n; i++)
      assert_int_equal(number ? number[i] : i, place_of(&to, from.name[i]));
    free(number);
  }
}

static void both_lists_are_in_the_sentence(void **state) {
  static const char *const one[] = {"ant", "bee", "cat"},
                           *const other[] = {"bee", "cat", "d\x1bog"},
                           *const crane[] = {"crane", "ant", "crane"};
  const mr_classes_t a = {3, one}, b = {3, other}, c = {3, crane};
  int32_t *number;
  mr_diag_t diag = {0};
  assert_int_equal(mr_classes_align(&a, "one", &b, "other", &number, &diag), MR_ERR_DATA);
  assert_string_equal(
      diag.text,
      "one has the 3 classes ant, bee, cat, and other the 3 classes bee, cat, "
      "d\\x1bog: \"ant\" is only in the first: want the same names, or fewer there");
  diag = (mr_diag_t){0};
  assert_int_equal(mr_classes_align(&c, "one", &a, "other", &number, &diag), MR_ERR_DATA);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_classes_align(&a, "one", &c, "other", &number, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "\"crane\" is in a list twice"));
  const mr_classes_t *const list[] = {&c, &a};
  const char *const of[] = {"one", "other"};
  mr_classes_joined_t j;
  diag = (mr_diag_t){0};
  assert_int_equal(mr_classes_join(list, of, 2, &j, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "crane, ant, crane"));
  assert_non_null(strstr(diag.text, "ant, bee, cat"));
}

static void equal_lists_and_missing_ones_need_no_numbers(void **state) {
  static const char *const crane[] = {"crane", "ant", "crane"}, *const again[] = {"crane", "ant",
                                                                                  "crane"};
  const mr_classes_t a = {3, crane}, b = {3, again};
  const mr_classes_t *const list[] = {&a, &b};
  const char *const of[] = {"one", "other"};
  int32_t *number;
  mr_classes_joined_t j;
  mr_diag_t diag = {0};
  assert_true(mr_classes_same(&a, &b));
  assert_true(mr_classes_same(NULL, NULL));
  assert_false(mr_classes_same(&a, NULL));
  assert_int_equal(mr_classes_align(&a, "one", &b, "other", &number, &diag), MR_OK);
  assert_null(number);
  assert_int_equal(mr_classes_align(NULL, "one", &b, "other", &number, &diag), MR_OK);
  assert_null(number);
  assert_int_equal(mr_classes_join(list, of, 2, &j, &diag), MR_OK); /* twice, but in both alike */
  assert_int_equal(j.all.n, 3);
  mr_classes_unjoin(&j);
}

/* The forms of NFC and NFD, as Python's unicodedata makes them. */
static void a_letter_and_its_mark_are_one_name_or_two_characters(void **state) {
  static const char *const
      nfc[] = {"caf\xC3\xA9", "\xE1\xBA\xBF", "\xED\x95\x9C\xEA\xB8\x80", "\xE1\xBD\x83", "ant"},
      *const nfd[] = {"ant", "\xCE\xBF\xCC\x94\xCC\x80",
                      "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB\xE1\x84\x80\xE1\x85\xB3\xE1\x86\xAF",
                      "e\xCC\x82\xCC\x81", "cafe\xCC\x81"};
  enum { N = 5 };
  const mr_classes_t one = {N, nfc}, other = {N, nfd};
  mr_diag_t diag = {0};
  int32_t *number;
  /* The lists run in opposite orders. */
  assert_int_equal(mr_classes_align(&other, "b", &one, "a", &number, &diag), MR_OK);
  for (int i = 0; i < N; i++) assert_int_equal(number[i], ((int[]){4, 3, 2, 1, 0})[i]);
  free(number);
  const mr_classes_t *list[] = {&one, &other};
  mr_classes_joined_t joined;
  assert_int_equal(mr_classes_join(list, (const char *[]){"a", "b"}, 2, &joined, &diag), MR_OK);
  assert_int_equal(joined.all.n, N);
  mr_classes_unjoin(&joined);
  const char *const twice[] = {nfc[0], nfd[4]};
  const mr_classes_t both = {2, twice};
  assert_int_equal(mr_classes_align(&both, "b", &one, "a", &number, &diag), MR_ERR_DATA);
  assert_true(mr_classes_same(&(mr_classes_t){1, &nfc[0]}, &(mr_classes_t){1, &nfd[4]}));
  assert_false(mr_same_name("cafe", nfc[0]) || mr_same_name("caf\xC3", nfc[0]) ||
               mr_same_name("\xFF", "\xFE") || !mr_same_name("\xFF", "\xFF"));
}

static void names_are_found_at_the_first_of_equal_ones(void **state) {
  const char *room[2][NAMES];
  write_words();
  for (uint64_t seed = 0; seed < 50; seed++) {
    mr_philox_t g;
    mr_philox_init(&g, seed, 3);
    mr_classes_t of = random_list(&g, room[0]), in = random_list(&g, room[1]);
    for (int i = 0; i + 1 < in.n; i += 3) room[1][i + 1] = room[1][i]; /* repeated ones */
    int32_t place[NAMES];
    mr_diag_t diag = {0};
    assert_int_equal(mr_classes_places(&of, &in, place, &diag), MR_OK);
    for (int i = 0; i < of.n; i++) assert_int_equal(place[i], place_of(&in, of.name[i]));
  }
}

/* Of two forms in one list each is found by its bytes, and a third form at the first of them. */
static void a_name_is_found_by_its_bytes_before_another_form(void **state) {
  static const char *const in[] = {"ant",          "caf\xC3\xA9", "cafe\xCC\x81",
                                   "\xE1\xBA\xBF", "ant",         "\xC3\xAA\xCC\x81"},
                           *const of[] = {"cafe\xCC\x81",     "caf\xC3\xA9", "e\xCC\x82\xCC\x81",
                                          "\xC3\xAA\xCC\x81", "cafe",        "ant"};
  static const int32_t want[] = {2, 1, 3, 5, -1, 0};
  enum { N = 6 };
  const mr_classes_t list = {N, in}, names = {N, of}, one_form = {2, in};
  mr_diag_t diag = {0};
  int32_t place[N], forms[2];
  assert_int_equal(mr_classes_places(&names, &list, place, &diag), MR_OK);
  assert_memory_equal(place, want, sizeof want);
  mr_classes_index_t *x = mr_classes_index_create(&list, &diag);
  assert_non_null(x);
  for (int i = 0; i < N; i++) assert_int_equal(mr_classes_find(x, of[i]), want[i]);
  assert_true(mr_classes_forms(x, forms));
  assert_int_equal(forms[0], 1), assert_int_equal(forms[1], 2);
  mr_classes_index_destroy(x);
  x = mr_classes_index_create(&one_form, &diag);
  assert_false(mr_classes_forms(x, forms));
  mr_classes_index_destroy(x), mr_classes_index_destroy(NULL);
}

static int unhex(const char *hex, char *text) {
  int n = 0;
  for (unsigned c; hex[2 * n] && sscanf(hex + 2 * n, "%2x", &c) == 1; n++) text[n] = (char)c;
  return text[n] = 0, n;
}

/* tests/golden/same_names.py makes them with Python's unicodedata. */
static void names_are_the_same_where_their_nfd_is(void **state) {
  enum { ROW = 400 };
  char line[ROW], a[ROW], b[ROW], one[ROW], other[ROW];
  FILE *f = vectors_open("same_names.txt");
  int64_t n = 0, same = 0;
  for (int want; vectors_line(f, line, sizeof line); n++) {
    assert_int_equal(sscanf(line, "%399s %399s %d", a, b, &want), 3);
    unhex(a, one), unhex(b, other);
    if (mr_same_name(one, other) != want || mr_same_name(other, one) != want)
      fail_msg("%s and %s: want %d", a, b, want);
    if (want)
      assert_int_equal(mr_same_name_hash(one), mr_same_name_hash(other));
    else
      assert_int_not_equal(mr_same_name_hash(one), mr_same_name_hash(other));
    same += want;
  }
  fclose(f);
  vectors_met(same, 700), vectors_met(n - same, 400);
}

/* Longer than what is ordered at once: the same text is the same, whatever is cut. */
static void a_letter_with_hundreds_of_marks_is_itself(void **state) {
  enum { MARKS = 300 };
  char one[2 * MARKS + 2] = "e", other[2 * MARKS + 2] = "e";
  for (int i = 0; i < MARKS; i++) {
    memcpy(one + 1 + 2 * i, i % 2 ? "\xCC\x81" : "\xCC\xA9", 2);
    memcpy(other + 1 + 2 * i, one + 1 + 2 * i, 2);
  }
  assert_true(mr_same_name(one, other));
  other[2 * MARKS] = '\x82';
  assert_false(mr_same_name(one, other));
  assert_int_not_equal(mr_same_name_hash(one), mr_same_name_hash(other));
}

static void a_long_list_is_cut_and_says_how_much(void **state) {
  const char *room[NAMES];
  char text[60];
  write_words();
  for (int i = 0; i < NAMES; i++) room[i] = word[i];
  const mr_classes_t c = {NAMES, room};
  mr_classes_text(&c, text, sizeof text);
  assert_non_null(strstr(text, "name-0, name-919"));
  const char *more = strstr(text, " and ");
  assert_non_null(more);
  int shown = 1;
  for (const char *at = text; (at = strstr(at, ", ")); at++) shown++;
  assert_int_equal(atoi(more + 5), NAMES - shown);
  assert_string_equal(mr_classes_text(NULL, text, sizeof text), "no names");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joined_lists_hold_each_name_once_and_say_where_it_went),
      cmocka_unit_test(a_list_is_matched_by_name_or_its_first_name_without_a_place_is_reported),
      cmocka_unit_test(both_lists_are_in_the_sentence),
      cmocka_unit_test(equal_lists_and_missing_ones_need_no_numbers),
      cmocka_unit_test(a_letter_and_its_mark_are_one_name_or_two_characters),
      cmocka_unit_test(names_are_found_at_the_first_of_equal_ones),
      cmocka_unit_test(a_name_is_found_by_its_bytes_before_another_form),
      cmocka_unit_test(names_are_the_same_where_their_nfd_is),
      cmocka_unit_test(a_letter_with_hundreds_of_marks_is_itself),
      cmocka_unit_test(a_long_list_is_cut_and_says_how_much),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
