/* What millrace index prints: the sampler's answers, line by line, beyond one block of output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/index_shuffle.h"
#include "loaders/orders/sampler.h"

/* Each line as printf would write it, and none after the last. */
static void expect_lines(const char *flags, mr_sampler_conf_t conf) {
  char command[512], line[128], want[128];
  mr_sampler_t s;
  conf.seeded = true;
  assert_int_equal(mr_sampler_init(&s, &conf, NULL), MR_OK);
  snprintf(command, sizeof command, "'%s' index %s", MR_PROGRAM, flags);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  for (int64_t i = 0; i < s.local_len; i++) {
    int64_t record;
    uint64_t key;
    mr_sampler_at(&s, mr_sampler_index(&s, i), &record, &key);
    snprintf(want, sizeof want, "%" PRId64 " %" PRId64 " %" PRIu64 "\n", i, record, key);
    if (!fgets(line, sizeof line, f) || strcmp(line, want))
      fail_msg("%s: position %" PRId64 ": %s, want %s", flags, i, line, want);
  }
  assert_null(fgets(line, sizeof line, f));
  assert_int_equal(pclose(f), 0);
}

static void many_blocks_of_lines_are_the_samplers_answers(void **state) {
  expect_lines("--records 50000 --seed 12 --epochs 3",
               (mr_sampler_conf_t){
                   .n_records = 50000, .n_epochs = 3, .shuffle = true, .seed = 12, .n_shards = 1});
}

/* The sampler here keeps what the last call made, and so may the program: these come from grain's
   formula alone. */
static void tiny_sets_over_many_epochs_too(void **state) {
  FILE *f = popen("'" MR_PROGRAM "' index --records 10 --seed 12 --epochs 60 --shard 1/2", "r");
  assert_non_null(f);
  for (int i = 0; i < 300; i++) {
    long long position, record, key;
    mr_index_shuffle_t s;
    mr_index_shuffle_init(&s, 4, 12 + (uint32_t)(i / 5), MR_SHUFFLE_ROUNDS);
    assert_int_equal(fscanf(f, "%lld %lld %lld", &position, &record, &key), 3);
    assert_int_equal(position, i);
    assert_int_equal(record, 5 + mr_index_shuffle_at(&s, (uint64_t)(i % 5)));
    assert_int_equal(key, 12 + 2 * i + 1);
  }
  assert_int_equal(pclose(f), 0);
}

static void large_numbers_and_shards_too(void **state) {
  expect_lines("--records 2147483648 --shard 2147/100000 --seed 4294967295",
               (mr_sampler_conf_t){.n_records = INT64_C(1) << 31,
                                   .n_epochs = 1,
                                   .shuffle = true,
                                   .seed = UINT32_MAX,
                                   .shard = 2147,
                                   .n_shards = 100000});
}

static void corrected_orders_too(void **state) {
  expect_lines("--records 65537 --bijective --seed 4", (mr_sampler_conf_t){.n_records = 65537,
                                                                           .n_epochs = 1,
                                                                           .shuffle = true,
                                                                           .seed = 4,
                                                                           .n_shards = 1,
                                                                           .bijective = true});
  expect_lines("--records 1000 --whole-shards --shard 1/7 --epochs 3",
               (mr_sampler_conf_t){.n_records = 1000,
                                   .n_epochs = 3,
                                   .shuffle = true,
                                   .shard = 1,
                                   .n_shards = 7,
                                   .whole_shards = true});
}

static void sequential_order_too(void **state) {
  expect_lines("--records 1001 --shard 2/7 --epochs 30 --drop-remainder --sequential",
               (mr_sampler_conf_t){.n_records = 1001,
                                   .n_epochs = 30,
                                   .sequential = true,
                                   .shard = 2,
                                   .n_shards = 7,
                                   .drop_remainder = true});
}

static void a_full_disk_is_a_failure(void **state) {
  char command[512];
  snprintf(command, sizeof command, "'%s' index --records 1000000 2>&1 >/dev/full", MR_PROGRAM);
  FILE *f = popen(command, "r");
  char line[256] = "";
  assert_non_null(f);
  assert_non_null(fgets(line, sizeof line, f));
  assert_non_null(strstr(line, "cannot write"));
  assert_int_equal(WEXITSTATUS(pclose(f)), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_blocks_of_lines_are_the_samplers_answers),
      cmocka_unit_test(tiny_sets_over_many_epochs_too),
      cmocka_unit_test(large_numbers_and_shards_too),
      cmocka_unit_test(corrected_orders_too),
      cmocka_unit_test(sequential_order_too),
      cmocka_unit_test(a_full_disk_is_a_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
