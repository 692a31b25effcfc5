/* Pools: what a buffer holds, and that none is lost or given twice. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "pipeline/buffer.h"

static void a_batch_has_aligned_data_and_room_for_its_records(void **state) {
  mr_spec_t spec = {
      .flow = MR_FLOW_BATCHES,
      .n_fields = 2,
      .field = {{.name = "x", .dtype = MR_F32, .ndim = 1, .dim = {3}}, mr_field_of_label(0)},
      .batch = 5};
  mr_pool_t *p = mr_pool_create(&spec, 2);
  mr_buf_t *a = mr_pool_get(p), *b = mr_pool_get(p);
  assert_non_null(b);
  assert_null(mr_pool_get(p));
  assert_int_equal(a->cap, 60 + 20);
  assert_int_equal((uintptr_t)a->data % 64, 0);
  assert_int_equal((uintptr_t)b->data % 64, 0);
  for (int i = 0; i < 5; i++) a->label[i] = i, a->key[i] = a->draw[i] = UINT64_MAX;
  for (int i = 0; i < 15; i++) ((float *)b->data)[i] = 1;
  assert_int_equal(a->label[4], 4);
  mr_buf_unref(b);
  mr_buf_unref(mr_buf_ref(a));
  assert_int_equal(a->refs, 1);
  mr_buf_unref(a);
  mr_buf_unref(NULL);
  mr_pool_destroy(p);
  mr_pool_destroy(NULL);
}

static void a_batch_on_a_device_has_labels_on_the_host_alone(void **state) {
  mr_spec_t spec = {.flow = MR_FLOW_BATCHES,
                    .n_fields = 3,
                    .field = {{.name = "x", .dtype = MR_F32, .ndim = 1, .dim = {1 << 30}},
                              mr_field_of_label(0),
                              {.name = "y", .dtype = MR_I32}},
                    .batch = 1 << 20,
                    .device = "moon"};
  mr_pool_t *p = mr_pool_create(&spec, 2);
  mr_buf_t *b = mr_pool_get(p);
  assert_null(b->data);
  assert_int_equal(b->cap, 0);
  for (int f = 0; f < 3; f++) assert_null(b->field[f].data);
  assert_null(b->field[0].label);
  assert_null(b->field[2].label);
  assert_ptr_equal(b->field[1].label, b->label);
  for (int i = 0; i < 1 << 20; i++) b->label[i] = i, b->key[i] = 7;
  assert_int_equal(b->label[1000], 1000);
  mr_buf_unref(b);
  mr_pool_destroy(p);
}

static void a_buffer_comes_back_reset(void **state) {
  mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_METRICS, 1000);
  mr_pool_t *p = mr_pool_create(&spec, 1);
  mr_buf_t *b = mr_pool_get(p);
  assert_int_equal(b->cap, 1000);
  assert_null(b->label);
  b->n = 3, b->flags = 1, b->position = 9, b->epoch = 2;
  mr_buf_unref(b);
  assert_ptr_equal(mr_pool_get(p), b);
  assert_true(b->n == 0 && b->flags == 0 && b->position == 0 && b->epoch == 0 && b->refs == 1);
  mr_buf_unref(b);
  mr_pool_destroy(p);
}

static void too_large_a_pool_is_refused(void **state) {
  mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_BYTES, (int64_t)1 << 50);
  assert_null(mr_pool_create(&spec, (size_t)1 << 20));
}

static void *churn(void *arg) {
  for (int i = 0; i < 50000; i++) {
    mr_buf_t *b = mr_pool_get(arg);
    if (!b) continue;
    if (b->data && *(int *)b->data) return arg; /* another holder has it too */
    *(int *)b->data = 1;
    *(int *)b->data = 0;
    mr_buf_unref(b);
  }
  return NULL;
}

static void threads_never_hold_the_same_buffer(void **state) {
  mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_BYTES, 64);
  mr_pool_t *p = mr_pool_create(&spec, 3);
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, churn, p);
  for (int i = 0; i < 4; i++) {
    void *bad;
    pthread_join(t[i], &bad);
    assert_null(bad);
  }
  for (int i = 0; i < 3; i++) assert_non_null(mr_pool_get(p));
  assert_null(mr_pool_get(p));
  mr_pool_destroy(p);
}

/* The flags of the mapping that holds `at`, as the kernel tells them; empty: it does not. */
static void flags_of(const void *at, char flags[512]) {
  FILE *f = fopen("/proc/self/smaps", "r");
  unsigned long long from, to;
  bool inside = false;
  char line[512];
  flags[0] = 0;
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
      inside = from <= (uintptr_t)at && (uintptr_t)at < to;
    else if (inside && !strncmp(line, "VmFlags:", 8))
      memcpy(flags, line, sizeof line);
  }
  if (f) fclose(f);
}

/* True if the kernel tells of memory that this test itself has asked for huge pages. */
static bool advice_is_seen(void) {
  char flags[512];
  size_t bytes = (size_t)4 << 20;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(at != MAP_FAILED);
  (void)madvise(at, bytes, MADV_HUGEPAGE); /* fails on a kernel without them */
  flags_of(at, flags);
  munmap(at, bytes);
  return strstr(flags, " hg") != NULL;
}

static bool asks_for_huge_pages(int records, size_t n) {
  mr_spec_t spec = {.flow = MR_FLOW_BATCHES,
                    .n_fields = 1,
                    .field = {{.name = "x", .dtype = MR_F32, .ndim = 1, .dim = {256}}},
                    .batch = records};
  char flags[512];
  mr_pool_t *p = mr_pool_create(&spec, n);
  mr_buf_t *b = mr_pool_get(p);
  memset(b->data, 1, b->cap);
  flags_of(b->data, flags);
  mr_buf_unref(b);
  mr_pool_destroy(p);
  return strstr(flags, " hg") != NULL;
}

static void large_buffers_alone_ask_for_huge_pages(void **state) {
  (void)state;
  if (!advice_is_seen()) skip(); /* a kernel without them, or an emulator that keeps the advice */
  assert_true(asks_for_huge_pages(3 << 10, 2)); /* 3 MiB each */
  assert_false(asks_for_huge_pages(64, 1024));  /* 64 KiB each, 64 MiB in all */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_has_aligned_data_and_room_for_its_records),
      cmocka_unit_test(a_batch_on_a_device_has_labels_on_the_host_alone),
      cmocka_unit_test(a_buffer_comes_back_reset),
      cmocka_unit_test(large_buffers_alone_ask_for_huge_pages),
      cmocka_unit_test(too_large_a_pool_is_refused),
      cmocka_unit_test(threads_never_hold_the_same_buffer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
