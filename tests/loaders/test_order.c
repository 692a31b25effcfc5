#include "loaders/local/image.h"
#include "pipeline/stage_order.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_shuffle, mr_stage_sequential;

static void check_lengths(const mr_stage_def_t *def, int64_t n, const char *epochs,
                          const char *shard, const char *drop, int64_t want_records,
                          int64_t want_epochs) {
  hand_t h;
  mr_spec_t in = mr_image_spec(n, NULL);
  if (hand_plan(&h, def, &in, HAND_SETTINGS(epochs, shard, drop)) < 0) fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, want_records);
  assert_int_equal(h.s.out_spec[0].n_epochs, want_epochs);
  hand_close(&h);
}

static void lengths_are_grains(void **state) {
  check_lengths(&mr_stage_shuffle, 45000, "epochs=3", "shard=0/1", "drop-remainder=false", 45000,
                3);
  check_lengths(&mr_stage_shuffle, 45000, "epochs=0", "shard=0/1", "drop-remainder=false", 45000,
                0);
  check_lengths(&mr_stage_shuffle, 100, "epochs=2", "shard=3/8", "drop-remainder=true", 12, 2);
  check_lengths(&mr_stage_shuffle, 100, "epochs=2", "shard=3/8", "drop-remainder=false", 25, 1);
  check_lengths(&mr_stage_shuffle, 45000, "epochs=1", "shard=6/7", "drop-remainder=false", 6428, 1);
  check_lengths(&mr_stage_shuffle, 100, "epochs=0", "shard=0/8", "drop-remainder=false", 13, 0);
  check_lengths(&mr_stage_sequential, 10, "epochs=1", "shard=1/3", "drop-remainder=true", 3, 1);
}

static void shuffle_walks_its_shard_as_the_dataloader_does(void **state) {
  hand_t h;
  mr_spec_t in = mr_image_spec(45000, NULL);
  assert_int_equal(hand_plan(&h, &mr_stage_shuffle, &in, HAND_SETTINGS("seed=0", "shard=6/7")),
                   MR_OK);
  FILE *f = vectors_open("sampler_keys.txt"); /* case 33 is this sampler */
  char line[256];
  int rows = 0;
  while (vectors_line(f, line, sizeof line)) {
    int k;
    long long local, index, record, key;
    assert_int_equal(sscanf(line, "%d %lld %lld %lld %lld", &k, &local, &index, &record, &key) >= 4,
                     1);
    if (k != 33) continue;
    mr_at_t at = {0};
    assert_int_equal(mr_stage_shuffle.order->at(&h.s, local, &at), MR_OK);
    assert_int_equal(at.index % 45000, record);
    assert_true(at.seeded && at.key[0] == (uint64_t)key && !at.key[1] && !at.counter);
    rows++;
  }
  fclose(f);
  vectors_met(rows, 1001);
  hand_close(&h);
}

static void sequential_without_a_seed_gives_no_generator(void **state) {
  hand_t h;
  mr_spec_t in = mr_image_spec(10, NULL);
  assert_int_equal(hand_plan(&h, &mr_stage_sequential, &in, NULL), MR_OK);
  for (int64_t i = 0; i < 25; i++) {
    mr_at_t at = {0};
    assert_int_equal(mr_stage_sequential.order->at(&h.s, i, &at), MR_OK);
    assert_int_equal(at.index, i); /* epochs continue to count */
    assert_false(at.seeded);
  }
  hand_close(&h);
}

static void bad_shards_and_seeds_are_named(void **state) {
  hand_t h;
  mr_spec_t in = mr_image_spec(10, NULL);
  assert_int_equal(hand_plan(&h, &mr_stage_shuffle, &in, HAND_SETTINGS("shard=3/3")),
                   MR_ERR_CONFIG);
  assert_string_equal(h.diag.text, "shuffle: shard=3/3, want I/N with 0 <= I < N");
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_shuffle, &in, HAND_SETTINGS("seed=-1")), MR_ERR_CONFIG);
  assert_string_equal(h.diag.text, "shuffle: a shuffle needs a seed");
  hand_close(&h);
  assert_int_equal(hand_plan(&h, &mr_stage_shuffle, &in, HAND_SETTINGS("seed=4294967296")),
                   MR_ERR_CONFIG);
  hand_close(&h);
}

static void positions_with_first_count_in_whole_epochs_up_to_the_last_one(void **state) {
  hand_t h;
  mr_spec_t in = mr_image_spec(1000, NULL);
  mr_at_t at = {0};
  assert_int_equal(hand_plan(&h, &mr_stage_shuffle, &in, HAND_SETTINGS("epochs=0", "first=1")),
                   MR_OK);
  assert_int_equal(mr_stage_shuffle.order->at(&h.s, INT64_MAX / 1000, &at), MR_OK);
  assert_true(at.index / 1000 == INT64_MAX / 1000);
  assert_int_equal(mr_stage_shuffle.order->at(&h.s, INT64_MAX / 1000 + 1, &at), MR_ERR_CONFIG);
  assert_string_equal(h.diag.text,
                      "shuffle: position 9223372036854776 with first=1 of 1000 records in an epoch "
                      "lies beyond 2^63 records; want an earlier one");
  hand_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lengths_are_grains),
      cmocka_unit_test(shuffle_walks_its_shard_as_the_dataloader_does),
      cmocka_unit_test(sequential_without_a_seed_gives_no_generator),
      cmocka_unit_test(bad_shards_and_seeds_are_named),
      cmocka_unit_test(positions_with_first_count_in_whole_epochs_up_to_the_last_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
