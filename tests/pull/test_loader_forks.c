/* A child of a process that pulls batches: its copy of the loader gets a sentence, at once, and the
   parent's continues.  Apart from the other tests, because the thread sanitizer misses the parent's
   threads in the child. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "pull/loader.h"
#include "tests/child.h"

static int loader_is_refused(void *arg) {
  mr_loader_t *l = arg;
  mr_diag_t d = {0};
  const mr_batch_t *b;
  char *text;
  if (mr_loader_next(l, &b, &d) != MR_ERR_USAGE || b) return 1;
  if (!strstr(d.text, "opened by the process that this one was forked from")) return 2;
  if (mr_loader_take(l, -1, &b, NULL) != MR_ERR_USAGE) return 3;
  if (mr_loader_seek(l, 1, NULL) != MR_ERR_USAGE) return 4;
  if (mr_loader_state(l, &text, NULL) != MR_ERR_USAGE || text) return 5;
  if (mr_loader_describe(l, "stats", &text, NULL) != MR_ERR_USAGE) return 6;
  mr_loader_stop(l);
  mr_loader_close(l);
  if (!CHILD_HAS_THREADS) return 0;
  mr_loader_t *own_one; /* but one of its own works */
  if (mr_loader_open("range 10 ! batch 5", NULL, &own_one, NULL) < 0) return 7;
  if (mr_loader_next(own_one, &b, NULL) != MR_OK || b->n != 5) return 8;
  mr_loader_close(own_one);
  return 0;
}

static void a_loader_of_the_parent_is_refused_in_a_child(void **state) {
  const mr_batch_t *b;
  mr_diag_t d = {0};
  mr_loader_t *l;
  const mr_loader_settings_t keep = {.keep = 1};
  if (mr_loader_open("range 1000 ! shuffle seed=1 ! batch 10 workers=2", &keep, &l, &d) < 0)
    fail_msg("%s", d.text);
  assert_int_equal(mr_loader_take(l, -1, &b, NULL), MR_OK);
  in_a_child(loader_is_refused, l);
  mr_batch_drop(b);
  for (int i = 2; i <= 100; i++) { /* the parent's is as it was */
    assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
    assert_int_equal(b->step, i);
  }
  assert_int_equal(mr_loader_next(l, &b, &d), MR_END);
  mr_loader_close(l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loader_of_the_parent_is_refused_in_a_child)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
