/* Profiles of live arrays: which are in them, by which functions, and files that cannot be
   written.  scripts/check-pprof.sh has pprof itself read one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "model/model.h"

enum { N = 16 };

static mr_diag_t diag;
static char path[] = "/tmp/mr-live-XXXXXX";
static char bytes[1 << 16];
static size_t n_bytes;

static int group_setup(void **state) {
  close(mkstemp(path));
  return 0;
}

static int group_teardown(void **state) { return unlink(path); }

/* Writes a profile and reads its bytes. */
static void read_profile(void) {
  if (mr_memory_profile(path, &diag) < 0) fail_msg("%s", diag.text);
  gzFile f = gzopen(path, "rb");
  n_bytes = gzfread(bytes, 1, sizeof bytes, f);
  gzclose(f);
  assert_true(n_bytes < sizeof bytes);
}

static bool says(const char *text) { return memmem(bytes, n_bytes, text, strlen(text)) != NULL; }

static uint64_t varint(const unsigned char **at) {
  uint64_t v = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char c = *(*at)++;
    v |= (uint64_t)(c & 127) << shift;
    if (c < 128) return v;
  }
}

/* The objects of the profile, and in *sum their bytes: field 2, whose field 2 has count and bytes.
 */
static int objects(int64_t *sum) {
  const unsigned char *at = (const unsigned char *)bytes, *end = at + n_bytes;
  int n = 0;
  *sum = 0;
  while (at < end) {
    uint64_t tag = varint(&at), size = varint(&at);
    if ((tag & 7) != 2) continue;
    const unsigned char *in = at, *last = at += size;
    if (tag >> 3 != 2) continue;
    n++;
    while (in < last) {
      uint64_t t = varint(&in), s = varint(&in);
      if (t >> 3 == 2) {
        const unsigned char *value = in;
        assert_int_equal(varint(&value), 1);
        *sum += (int64_t)varint(&value);
      }
      in += s;
    }
  }
  return n;
}

/* Static, and not inlined: its name is in the table of symbols alone. */
static __attribute__((noinline)) mr_array_t *make_one_array(void) {
  static const float numbers[N];
  mr_array_t *a = mr_array_of(mr_aval_of(MR_F32, N), numbers, &diag);
  assert_non_null(a);
  return a;
}

static mr_err_t doubled(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_add(f, f->in[0], f->in[0]);
  return mr_fn_return(f, 1, &y);
}

static void live_arrays_are_in_the_profile_by_their_functions(void **state) {
  mr_queue_t *q;
  mr_jitted_t *j;
  int64_t sum;
  assert_int_equal(mr_queue_create(&q, &diag), MR_OK);
  assert_int_equal(mr_jitted_create(q, "doubled", doubled, NULL, NULL, &j, &diag), MR_OK);
  mr_array_t *before = make_one_array(), *y, *in;
  mr_memory_profile_begin();
  read_profile();
  assert_int_equal(objects(&sum), 0);
  in = make_one_array();
  assert_int_equal(mr_jitted_call(j, 1, &in, 1, &y, &diag), MR_OK);
  assert_int_equal(mr_block_until_ready(y, &diag), MR_OK);
  read_profile();
  assert_int_equal(objects(&sum), 2);
  assert_int_equal(sum, 2 * N * sizeof(float));
  assert_true(says("f32[16]") && says("jit doubled") && says("make_one_array"));
  mr_array_drop(in);
  read_profile();
  assert_int_equal(objects(&sum), 1);
  assert_true(says("jit doubled") && !says("make_one_array"));
  mr_memory_profile_end();
  mr_array_t *after = make_one_array();
  read_profile();
  assert_int_equal(objects(&sum), 1); /* what is noted stays until it ends */
  mr_array_drop(y), mr_array_drop(before), mr_array_drop(after);
  read_profile();
  assert_int_equal(objects(&sum), 0);
  mr_jitted_destroy(j);
  mr_queue_destroy(q);
}

static void release_nothing(void *arg) {}

static void wrapped_and_donated_memory_counts_once(void **state) {
  static _Alignas(64) float own[N];
  const mr_jitted_options_t donates = {.donate = 1};
  mr_queue_t *q;
  mr_jitted_t *j;
  int64_t sum;
  assert_int_equal(mr_queue_create(&q, &diag), MR_OK);
  assert_int_equal(mr_jitted_create(q, "in_place", doubled, NULL, &donates, &j, &diag), MR_OK);
  mr_memory_profile_begin();
  mr_array_t *over =
      mr_array_over(NULL, mr_aval_of(MR_F32, 4, 4), own, release_nothing, NULL, &diag);
  mr_array_t *in = make_one_array(), *y;
  assert_int_equal(mr_jitted_call(j, 1, &in, 1, &y, &diag), MR_OK);
  assert_int_equal(mr_block_until_ready(y, &diag), MR_OK);
  mr_array_drop(in);
  read_profile();
  assert_int_equal(objects(&sum), 2);
  assert_int_equal(sum, 2 * sizeof own);
  assert_true(says("f32[4,4]") && says("jit in_place"));
  mr_memory_profile_end();
  mr_array_drop(over), mr_array_drop(y);
  mr_jitted_destroy(j);
  mr_queue_destroy(q);
}

static void *make_and_drop(void *arg) {
  for (int i = 0; i < 300; i++) mr_array_drop(make_one_array());
  return NULL;
}

static void threads_make_arrays_while_profiles_are_written(void **state) {
  pthread_t t[3];
  int64_t sum;
  mr_memory_profile_begin();
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, make_and_drop, NULL), 0);
  for (int i = 0; i < 20; i++) read_profile();
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  mr_memory_profile_end();
  read_profile();
  assert_int_equal(objects(&sum), 0);
}

static void a_file_that_cannot_be_written_is_named(void **state) {
  mr_err_t e = mr_memory_profile("/nowhere/live.pb", &diag);
  assert_int_equal(e, MR_ERR_IO);
  if (!strstr(diag.text, "/nowhere/live.pb: cannot be written: ")) fail_msg("%s", diag.text);
  diag = (mr_diag_t){0};
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(live_arrays_are_in_the_profile_by_their_functions),
      cmocka_unit_test(wrapped_and_donated_memory_counts_once),
      cmocka_unit_test(threads_make_arrays_while_profiles_are_written),
      cmocka_unit_test(a_file_that_cannot_be_written_is_named),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
