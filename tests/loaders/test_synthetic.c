#include "pipeline/stage_source.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_synthetic;

static void fetch_one(hand_t *h, int64_t index, hand_rec_t *r) {
  assert_int_equal(hand_fetch(h, 0, index, r), MR_OK);
}

static void open_split(hand_t *h, const char *split, const char *n) {
  if (hand_open(h, &mr_stage_synthetic, NULL, HAND_SETTINGS(split, n, "seed=12")) < 0)
    fail_msg("%s", h->diag.text);
}

static void a_seed_decides_every_picture_alone(void **state) {
  hand_t a, b, c;
  hand_rec_t x, y;
  open_split(&a, "split=train", "n=50"), open_split(&b, "split=train", "n=20");
  assert_int_equal(hand_open(&c, &mr_stage_synthetic, NULL, HAND_SETTINGS("n=20", "seed=13")),
                   MR_OK);
  for (int64_t i = 0; i < 20; i++) {
    fetch_one(&a, i, &x), fetch_one(&b, i, &y);
    assert_int_equal(hand_label(&x), hand_label(&y));
    assert_int_equal(x.rec.key, y.rec.key);
    assert_memory_equal(hand_image(&x), hand_image(&y), 3072);
    fetch_one(&c, i, &y);
    assert_memory_not_equal(hand_image(&x), hand_image(&y), 3072);
  }
  hand_close(&a), hand_close(&b), hand_close(&c);
}

static void of_many_each_is_drawn_when_it_is_due(void **state) {
  hand_t few, many;
  hand_rec_t x, y, last, kept[2];
  open_split(&few, "split=train", "n=20"), open_split(&many, "split=train", "n=4000000000");
  for (int64_t i = 0; i < 20; i++) {
    fetch_one(&few, i, &x), fetch_one(&many, i, &y);
    assert_int_equal(hand_label(&x), hand_label(&y));
    assert_int_equal(x.rec.key, y.rec.key);
    assert_memory_equal(hand_image(&x), hand_image(&y), 3072);
  }
  int64_t both[2] = {3999999999, 5};
  mr_rec_t r[2] = {*hand_rec(&kept[0], &many.s), *hand_rec(&kept[1], &many.s)};
  assert_int_equal(mr_stage_synthetic.source->fetch(&many.s, 3, both, 2, r), MR_OK);
  fetch_one(&few, 5, &x), fetch_one(&many, 3999999999, &last);
  assert_memory_equal(hand_image(&kept[1]), hand_image(&x), 3072); /* other workers' records stay */
  assert_memory_equal(hand_image(&kept[0]), hand_image(&last), 3072);
  assert_int_equal(r[0].key, 3999999999);
  hand_close(&few), hand_close(&many);
}

static void splits_share_no_picture_and_no_id(void **state) {
  hand_t a, b;
  hand_rec_t x, y;
  open_split(&a, "split=train", "n=30"), open_split(&b, "split=test", "n=30");
  for (int64_t i = 0; i < 30; i++)
    for (int64_t j = 0; j < 30; j++) {
      fetch_one(&a, i, &x), fetch_one(&b, j, &y);
      assert_true(x.rec.key != y.rec.key);
      assert_memory_not_equal(hand_image(&x), hand_image(&y), 3072);
    }
  hand_close(&a), hand_close(&b);
}

static void ten_named_classes_come_about_equally_often(void **state) {
  hand_t h;
  int count[10] = {0};
  open_split(&h, "split=train", "n=0");
  const mr_spec_t *o = &h.s.out_spec[0];
  assert_int_equal(o->n_records, 10000);
  assert_int_equal(mr_spec_bytes(o), 3072 + 4);
  assert_string_equal(o->dataset->origin, "synthetic");
  for (int64_t i = 0; i < o->n_records; i++) {
    hand_rec_t r;
    fetch_one(&h, i, &r);
    count[hand_label(&r)]++;
  }
  for (int c = 0; c < 10; c++) {
    assert_true(count[c] > 850 && count[c] < 1150);
    assert_true(strlen(o->dataset->class_name[c]) > 0);
  }
  hand_close(&h);
}

/* Strength of the light's first difference along x and y tells bars from columns, whatever the
   colours: a picture holds what its label says. */
static void bars_run_across_and_columns_down(void **state) {
  hand_t h;
  open_split(&h, "split=valid", "n=0");
  int right = 0, all = 0;
  for (int64_t i = 0; i < h.s.out_spec[0].n_records; i++) {
    hand_rec_t r;
    fetch_one(&h, i, &r);
    if (hand_label(&r) != 6 && hand_label(&r) != 7) continue;
    const uint8_t *p = hand_image(&r);
    double column[32] = {0}, row[32] = {0}, dx = 0, dy = 0;
    for (int c = 0; c < 3; c++, p += 1024) {
      for (int k = 0; k < 32; k++) column[k] = row[k] = 0;
      for (int k = 0; k < 1024; k++) column[k % 32] += p[k], row[k / 32] += p[k];
      for (int k = 1; k < 32; k++) {
        dx += (column[k] - column[k - 1]) * (column[k] - column[k - 1]);
        dy += (row[k] - row[k - 1]) * (row[k] - row[k - 1]);
      }
    }
    right += (dy > dx) == (hand_label(&r) == 6), all++;
  }
  assert_true(all > 100);
  assert_int_equal(right, all);
  hand_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_seed_decides_every_picture_alone),
      cmocka_unit_test(of_many_each_is_drawn_when_it_is_due),
      cmocka_unit_test(splits_share_no_picture_and_no_id),
      cmocka_unit_test(ten_named_classes_come_about_equally_often),
      cmocka_unit_test(bars_run_across_and_columns_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
