/* First frames of foreign messages: whatever their length, no byte behind them is read. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "links/wire.h"

/* The head of another version, whose first n bytes end where the readable memory does. */
static const char *frame_at_the_edge(size_t n, uint16_t version) {
  static char *pages;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  mr__link_head_t head;
  if (!pages) {
    pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  }
  mr__link_head(&head, MR__LINK_HELLO, 7, 0, 0, 0);
  head.version = version;
  return memcpy(pages + page - n, &head, n);
}

static void foreign_frames_of_any_length_are_judged_by_the_bytes_they_have(void **state) {
  enum { SAYS = offsetof(mr__link_head_t, frames) }; /* magic, version and kind */
  for (size_t n = 0; n <= sizeof(mr__link_head_t); n++) {
    char why[256] = "untouched";
    int kind = -1;
    bool foreign =
        mr__link_is_foreign(frame_at_the_edge(n, MR__LINK_VERSION + 1), n, &kind, why, sizeof why);
    assert_int_equal(foreign, n >= SAYS);
    assert_int_equal(kind, n >= SAYS ? MR__LINK_HELLO : -1);
    if (foreign)
      assert_non_null(
          strstr(why, "speaks version 4 of the links' protocol, this program version 3"));
    else
      assert_string_equal(why, "untouched");
    assert_false(
        mr__link_is_foreign(frame_at_the_edge(n, MR__LINK_VERSION), n, &kind, why, sizeof why));
  }
}

static void frames_shorter_than_a_head_are_no_messages(void **state) {
  for (size_t n = 0; n <= sizeof(mr__link_head_t); n++) {
    mr__link_head_t head;
    const char *why = NULL;
    bool good = mr__link_head_read(frame_at_the_edge(n, MR__LINK_VERSION), n, &head, &why);
    assert_false(good); /* a HELLO has a body */
    assert_string_equal(
        why, n < sizeof head ? "shorter than a head" : "a body of another length than said");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(foreign_frames_of_any_length_are_judged_by_the_bytes_they_have),
      cmocka_unit_test(frames_shorter_than_a_head_are_no_messages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
