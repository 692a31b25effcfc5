/* The stage beton: random samples of every kind of field against what was written; damaged bytes;
   files that are none. */
#include "tests/loaders/beton.h"

extern const mr_stage_def_t mr_stage_beton;

enum { RECORDS = 50, LONGEST = 60 };

static struct {
  double price;
  int64_t id;
  uint8_t text[LONGEST], jpeg[LONGEST], raw[4 * 3 * 3];
  size_t n, n_jpeg;
  int16_t array[6];
} wrote[RECORDS];

static void draw_samples(round_t *r) {
  for (int i = 0; i < RECORDS; i++) {
    wrote[i].price = (double)draw(r, 1000) / 8, wrote[i].id = draw(r, 50);
    wrote[i].n = (size_t)draw(r, LONGEST), wrote[i].n_jpeg = 1 + (size_t)draw(r, LONGEST - 1);
    for (size_t k = 0; k < LONGEST; k++)
      wrote[i].text[k] = (uint8_t)round_bits(r), wrote[i].jpeg[k] = (uint8_t)round_bits(r);
    for (int k = 0; k < 36; k++) wrote[i].raw[k] = (uint8_t)round_bits(r);
    for (int k = 0; k < 6; k++) wrote[i].array[k] = (int16_t)round_bits(r);
  }
}

/* A row: f64, i64, jpeg 13, text 16, a byte of padding to 8, array 8, raw 13, padding to 8. */
static image_t make_file(void) {
  enum { JPEG = 16, TEXT = 29, ARRAY = 48, RAW = 56, ROW = 72 };
  beton_out_t o = {.row = ROW, .place = {JPEG + 5, TEXT, ARRAY, RAW + 5}, .n_places = 4};
  beton_field(&o, 0, "price", NULL, 0, NULL), beton_field(&o, 1, "class", NULL, 0, NULL);
  beton_field(&o, 2, "image", NULL, 0, NULL), beton_field(&o, 3, "text", NULL, 0, NULL);
  beton_field(&o, 4, "a-name-16-bytes-", (uint64_t[]){2, 3}, 2, "[[\"\", \"<i2\"]]");
  beton_field(&o, 2, "raw", NULL, 0, NULL);
  for (; o.n < RECORDS; o.n++) {
    int i = o.n;
    uint64_t jpeg = beton_value(&o, wrote[i].jpeg, wrote[i].n_jpeg), n = wrote[i].n;
    uint64_t text = beton_value(&o, wrote[i].text, n), array = beton_value(&o, wrote[i].array, 12);
    uint64_t raw = beton_value(&o, wrote[i].raw, 36);
    uint16_t side[2] = {3, 4}; /* width, height */
    uint8_t *p = image_add(&o.rows, NULL, ROW);
    memcpy(p, &wrote[i].price, 8), memcpy(p + 8, &wrote[i].id, 8);
    memcpy(p + JPEG + 1, side, 4), memcpy(p + JPEG + 5, &jpeg, 8);
    memcpy(p + TEXT, &text, 8), memcpy(p + TEXT + 8, &n, 8), memcpy(p + ARRAY, &array, 8);
    p[RAW] = 1, memcpy(p + RAW + 1, side, 4), memcpy(p + RAW + 5, &raw, 8);
  }
  image_t file = beton_file(&o);
  beton_free(&o);
  return file;
}

static const char *const *beton_settings(const char *name) {
  static char files[120], index[100];
  static const char *all[] = {files, index, NULL};
  snprintf(files, sizeof files, "files=%s/%s", folder, name);
  snprintf(index, sizeof index, "index=%s/cache", folder);
  return all;
}

static void samples_are_what_was_written(void **state) {
  round_t r = round_first(20);
  while (round_next(&r)) {
    hand_t h;
    draw_samples(&r);
    image_t file = make_file();
    write_file("t.beton", file.at, file.n);
    if (shards_plan(&h, &mr_stage_beton, beton_settings("t.beton")) < 0 || h.s.def->open(&h.s) < 0)
      fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].n_fields, 6);
    burst_t *b = burst_new(&h.s);
    for (int n = 0; n < RECORDS; n++) {
      int64_t i = draw(&r, RECORDS);
      const char *const name[] = {"price", "label", "image", "text", "a-name-16-bytes-", "raw"};
      const mr_value_t *v[6];
      if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
      for (int f = 0; f < 6; f++) {
        int at = mr_spec_find(&h.s.out_spec[0], name[f]);
        if (at < 0) fail_msg("no field %s", name[f]);
        v[f] = &b->rec[0].field[at];
      }
      assert_true(*(double *)v[0]->data == wrote[i].price);
      assert_int_equal(*(int32_t *)v[1]->data, wrote[i].id);
      assert_int_equal(v[2]->rows, wrote[i].n_jpeg);
      assert_memory_equal(v[2]->data, wrote[i].jpeg, wrote[i].n_jpeg);
      assert_int_equal(v[3]->rows, wrote[i].n);
      assert_memory_equal(v[3]->data, wrote[i].text, wrote[i].n);
      for (int k = 0; k < 6; k++) assert_int_equal(((int32_t *)v[4]->data)[k], wrote[i].array[k]);
      assert_memory_equal(v[5]->data, wrote[i].raw, 36);
    }
    burst_free(b), shards_close(&h), free(file.at);
  }
}

static void damaged_bytes_give_bad_records_or_a_sentence(void **state) {
  round_t r = round_first(300);
  while (round_next(&r)) {
    hand_t h;
    draw_samples(&r);
    image_t file = make_file();
    size_t head = 24 + 6 * 1041 + RECORDS * 72;
    for (int k = draw(&r, 6); k > 0; k--) {
      size_t most = one_in(&r, 3) ? 24 : one_in(&r, 2) ? head : file.n;
      file.at[(size_t)draw(&r, (int)most)] = (uint8_t)round_bits(&r);
    }
    if (one_in(&r, 3)) file.n = (size_t)draw(&r, (int)file.n);
    write_file("d.beton", file.at, file.n);
    mr_err_t e = shards_plan(&h, &mr_stage_beton, beton_settings("d.beton"));
    if (e >= 0) e = h.s.def->open(&h.s);
    burst_t *b = e >= 0 ? burst_new(&h.s) : NULL;
    for (int64_t i = 0; e >= 0 && i < h.s.out_spec[0].n_records; i++) {
      mr_err_t got = burst_fetch(&h, 0, &i, 1, b);
      round_check(&r, got >= 0 || (got == MR_ERR_DATA && strstr(h.diag.text, "d.beton: ")), "%s",
                  h.diag.text);
    }
    if (e < 0) round_check(&r, strstr(h.diag.text, "d.beton") != NULL, "%s", h.diag.text);
    if (b) burst_free(b);
    shards_close(&h), free(file.at);
  }
}

static char notice[2000];
static void hear(void *ctx, const char *text) {
  size_t n = strlen(notice);
  snprintf(notice + n, sizeof notice - n, "%s\n", text);
}

/* A column of arrays that no field can hold is named with its reason, and those beside it are
   read: big-endian numbers are numbers. */
static void arrays_that_are_no_field_are_named(void **state) {
  static const uint64_t pair[] = {2}, none[] = {0x7FFFFFFF, 0x7FFFFFFF},
                        many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  static const struct {
    const char *name, *descr, *why;
    const uint64_t *shape;
    int ndim;
  } lost[] = {{"pairs", "[[\"\", \"<c8\"]]", "the type of its arrays, <c8", pair, 1},
              {"times", "[[\"\", \"<M8[s]\"]]", "the type of its arrays, <M8[s]", pair, 1},
              {"two", "[[\"a\", \"<i4\"], [\"b\", \"<i4\"]]", "of several fields", pair, 1},
              {"deep", "[[\"\", \"<i4\"]]", "its arrays have 10 dimensions", many, 10},
              {"large", "[[\"\", \"<i4\"]]", "its arrays have more than 268435456 bytes", none, 2}};
  enum { LOST = sizeof lost / sizeof *lost, ROW = 8 * (LOST + 2) };
  const uint8_t big[] = {0x12, 0x34, 0x56, 0x78, 0xFF, 0xFF, 0xFF, 0xFE, 0, 0, 0, 0, 0, 0, 0, 0};
  beton_out_t o = {.row = ROW, .place = {ROW - 8}, .n_places = 1};
  beton_field(&o, 1, "id", NULL, 0, NULL);
  for (int i = 0; i < LOST; i++)
    beton_field(&o, 4 + 2 * (i % 2), lost[i].name, lost[i].shape, lost[i].ndim, lost[i].descr);
  beton_field(&o, 4, "big", pair, 1, "[[\"\", \">i4\"]]");
  uint64_t at = beton_value(&o, big, sizeof big);
  uint8_t *p = image_add(&o.rows, NULL, ROW);
  p[0] = 7, memcpy(p + ROW - 8, &at, 8), o.n = 1;
  image_t file = beton_file(&o);
  write_file("l.beton", file.at, file.n);
  hand_t h;
  *notice = 0;
  mr_notice_to(hear, NULL);
  if (shards_plan(&h, &mr_stage_beton, beton_settings("l.beton")) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  mr_notice_to(NULL, NULL);
  assert_int_equal(h.s.out_spec[0].n_fields, 2);
  for (int i = 0; i < LOST; i++)
    if (!strstr(notice, lost[i].name) || !strstr(notice, lost[i].why))
      fail_msg("%s: \"%s\" is not in: %s", lost[i].name, lost[i].why, notice);
  burst_t *b = burst_new(&h.s);
  int64_t first = 0;
  if (burst_fetch(&h, 0, &first, 1, b) < 0) fail_msg("%s", h.diag.text);
  const int32_t *read = b->rec[0].field[mr_spec_find(&h.s.out_spec[0], "big")].data;
  assert_int_equal(read[0], 0x12345678);
  assert_int_equal(read[1], -2);
  burst_free(b), shards_close(&h);
  char files[120];
  snprintf(files, sizeof files, "files=%s/l.beton", folder);
  want_refused(&mr_stage_beton, (const char *[]){files, "fields=pairs", NULL}, "<c8");
  beton_free(&o), free(file.at);
}

static void files_that_are_none_are_refused(void **state) {
  round_t r = {.x = 4};
  draw_samples(&r);
  image_t file = make_file();
  write_file("n.beton", "no", 2);
  want_refused(&mr_stage_beton, beton_settings("n.beton"), "is not a .beton file, or ends early");
  file.at[0] = 1;
  write_file("n.beton", file.at, file.n);
  want_refused(&mr_stage_beton, beton_settings("n.beton"), "is not a .beton file of version 2");
  file.at[0] = 2, memset(file.at + 8, 0xFF, 8);
  write_file("n.beton", file.at, file.n);
  want_refused(&mr_stage_beton, beton_settings("n.beton"), "ends early: it would have");
  memset(file.at + 8, 0, 8), file.at[8] = RECORDS, file.at[24] = 9;
  write_file("n.beton", file.at, file.n);
  want_refused(&mr_stage_beton, beton_settings("n.beton"), "field price is of type 9");
  file.at[24] = 0, memset(file.at + 16, 0, 8);
  write_file("n.beton", file.at, file.n);
  want_refused(&mr_stage_beton, beton_settings("n.beton"), "was not written to its end");
  free(file.at);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(samples_are_what_was_written),
                                     cmocka_unit_test(damaged_bytes_give_bad_records_or_a_sentence),
                                     cmocka_unit_test(arrays_that_are_no_field_are_named),
                                     cmocka_unit_test(files_that_are_none_are_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
