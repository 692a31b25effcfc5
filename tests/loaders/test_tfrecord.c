/* The stage tfrecord: random Examples, encoded in every way that protobuf allows, against what was
   written; damaged bytes; and settings that do not fit. */
#include "base/crc32c.h"
#include "pipeline/care.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_tfrecord;

enum { RECORDS = 80, LIST = 6, PICTURE = 600 };

/* ---- writing ---- */

static void add_varint(image_t *o, uint64_t v) {
  do {
    uint8_t byte = (uint8_t)(v & 0x7F) | (v > 0x7F ? 0x80 : 0);
    image_add(o, &byte, 1);
  } while (v >>= 7);
}

static void add_delimited(image_t *o, int number, const void *data, size_t n) {
  add_varint(o, (uint64_t)number << 3 | 2);
  add_varint(o, n);
  image_add(o, data, n);
}

/* A field that readers must pass over. */
static void add_unknown(round_t *r, image_t *o) {
  if (!one_in(r, 5)) return;
  switch (draw(r, 4)) {
    case 0: add_varint(o, 77 << 3), add_varint(o, round_bits(r)); break;
    case 1: add_varint(o, 78 << 3 | 1), image_add(o, "12345678", 8); break;
    case 2: add_varint(o, 79 << 3 | 5), image_add(o, "1234", 4); break;
    default: add_delimited(o, 80, "unknown", 7);
  }
}

static void add_ints(round_t *r, image_t *o, const int64_t *v, int n) {
  for (int i = 0; i < n;) {
    int some = one_in(r, 3) ? 1 + draw(r, n - i) : n - i;
    if (one_in(r, 3)) {
      add_varint(o, 1 << 3), add_varint(o, (uint64_t)v[i++]);
      continue;
    }
    image_t packed = {0};
    for (int k = 0; k < some; k++) add_varint(&packed, (uint64_t)v[i + k]);
    add_delimited(o, 1, packed.at, packed.n);
    free(packed.at);
    i += some;
  }
  add_unknown(r, o);
}

static void add_floats(round_t *r, image_t *o, const float *v, int n) {
  for (int i = 0; i < n;) {
    int some = one_in(r, 3) ? 1 + draw(r, n - i) : n - i;
    if (one_in(r, 3)) {
      add_varint(o, 1 << 3 | 5), image_add(o, &v[i++], 4);
      continue;
    }
    add_delimited(o, 1, v + i, (size_t)some * 4);
    i += some;
  }
}

/* Adds a feature to a map; list is the encoded list of kind 1 (bytes), 2 (floats) or 3 (ints). */
static void add_feature(round_t *r, image_t *map, const char *name, int kind, image_t *list) {
  image_t feature = {0}, entry = {0};
  add_unknown(r, &feature);
  add_delimited(&feature, kind, list->at ? list->at : (uint8_t *)"", list->n);
  bool value_first = one_in(r, 4);
  if (value_first) add_delimited(&entry, 2, feature.at, feature.n);
  add_delimited(&entry, 1, name, strlen(name));
  if (!value_first) add_delimited(&entry, 2, feature.at, feature.n);
  add_delimited(map, 1, entry.at, entry.n);
  free(feature.at), free(entry.at), free(list->at);
  *list = (image_t){0};
}

static size_t add_framed(image_t *o, const void *data, uint64_t n) {
  uint32_t sum = mr_crc32c_mask(mr_crc32c(&n, 8));
  image_add(o, &n, 8), image_add(o, &sum, 4);
  size_t at = o->n;
  image_add(o, data, n);
  sum = mr_crc32c_mask(mr_crc32c(data, n));
  image_add(o, &sum, 4);
  return at;
}

/* ---- the oracle ---- */

static struct {
  uint8_t picture[PICTURE];
  int n_picture, n_ids, n_weights;
  int64_t label, ids[LIST];
  float weights[LIST], box[4];
  int16_t raw[6];
  size_t at, n; /* in the file */
} wrote[RECORDS];
static int n_wrote;

static void make_record(round_t *r, int i) {
  wrote[i].n_picture = draw(r, PICTURE), wrote[i].n_ids = draw(r, LIST);
  wrote[i].n_weights = draw(r, LIST);
  wrote[i].label = draw(r, 9);
  for (int k = 0; k < PICTURE; k++) wrote[i].picture[k] = (uint8_t)round_bits(r);
  for (int k = 0; k < LIST; k++) {
    wrote[i].ids[k] = (int64_t)round_bits(r) >> draw(r, 60);
    wrote[i].weights[k] = (float)draw(r, 1000) / 8;
  }
  for (int k = 0; k < 4; k++) wrote[i].box[k] = (float)draw(r, 1000) / 4;
  for (int k = 0; k < 6; k++) wrote[i].raw[k] = (int16_t)round_bits(r);
}

static void add_record(round_t *r, image_t *o, int i) {
  image_t map = {0}, list = {0}, example = {0};
  if (one_in(r, 6)) { /* of two features with one name the last counts */
    add_ints(r, &list, (int64_t[]){-5}, 1);
    add_feature(r, &map, "image/class/label", 3, &list);
  }
  add_delimited(&list, 1, wrote[i].picture, (size_t)wrote[i].n_picture);
  add_feature(r, &map, "image/encoded", 1, &list);
  add_ints(r, &list, &wrote[i].label, 1);
  add_feature(r, &map, "image/class/label", 3, &list);
  add_ints(r, &list, wrote[i].ids, wrote[i].n_ids);
  add_feature(r, &map, "ids", 3, &list);
  add_floats(r, &list, wrote[i].weights, wrote[i].n_weights);
  add_feature(r, &map, "weights", 2, &list);
  add_floats(r, &list, wrote[i].box, 4);
  add_feature(r, &map, "box", 2, &list);
  add_delimited(&list, 1, wrote[i].raw, sizeof wrote[i].raw);
  add_feature(r, &map, "raw", 1, &list);
  if (one_in(r, 2)) add_feature(r, &map, "sometimes", 3, &list);
  add_unknown(r, &example);
  add_delimited(&example, 1, map.at, map.n);
  wrote[i].at = add_framed(o, example.at, example.n), wrote[i].n = example.n;
  free(map.at), free(example.at);
}

static image_t write_records(round_t *r) {
  image_t o = {0};
  n_wrote = 2 + draw(r, RECORDS - 2);
  for (int i = 0; i < n_wrote; i++) make_record(r, i), add_record(r, &o, i);
  write_file("r.tfrecord", o.at, o.n);
  return o;
}

static void check_record(const round_t *r, const mr_rec_t *rec, int64_t i) {
  const mr_value_t *v = rec->field;
#define SAME(f, count, from, size)                                                            \
  round_check(r, v[f].rows == (count) && !memcmp(v[f].data, from, size), "field %d of %d", f, \
              (int)i)
  SAME(0, wrote[i].n_picture, wrote[i].picture, (size_t)wrote[i].n_picture);
  round_check(r, *(int32_t *)v[1].data == wrote[i].label, "label of %d", (int)i);
  SAME(2, wrote[i].n_ids, wrote[i].ids, (size_t)wrote[i].n_ids * 8);
  SAME(3, wrote[i].n_weights, wrote[i].weights, (size_t)wrote[i].n_weights * 4);
  round_check(r, !memcmp(v[4].data, wrote[i].box, 16), "box of %d", (int)i);
  round_check(r, !memcmp(v[5].data, wrote[i].raw, 12), "raw of %d", (int)i);
}

#define FIELDS "fields=image/encoded,image/class/label,ids,weights,box:box:f32[2x2],raw:raw:u8[3x4]"

static char *files_setting(void) {
  static char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("r.tfrecord"));
  return files;
}

static void random_examples_are_read_as_written(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    hand_t h;
    image_t o = write_records(&r);
    free(o.at);
    round_check(
        &r, hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), FIELDS)) >= 0,
        "%s", h.diag.text);
    const mr_spec_t *spec = &h.s.out_spec[0];
    round_check(&r,
                spec->n_records == n_wrote && spec->field[1].label && spec->field[4].dim[1] == 2,
                "%d", (int)spec->n_records);
    burst_t *b = burst_new(&h.s);
    for (int k = 0; k < 10; k++) {
      int64_t index[MR_BURST];
      int n = 1 + draw(&r, MR_BURST);
      for (int i = 0; i < n; i++) index[i] = draw(&r, n_wrote);
      round_check(&r, burst_fetch(&h, 0, index, n, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < n; i++) check_record(&r, &b->rec[i], index[i]);
    }
    burst_free(b);
    shards_close(&h);
  }
}

/* One byte of the file is changed: exactly the record it lies in is bad, or the file is. */
static void a_changed_byte_is_found(void **state) {
  round_t r = round_first(150);
  while (round_next(&r)) {
    hand_t h;
    image_t o = write_records(&r);
    size_t at = (size_t)(round_bits(&r) % o.n);
    int bad = 0;
    while (bad < n_wrote && at >= wrote[bad].at + wrote[bad].n + 4) bad++;
    o.at[at] ^= (uint8_t)(1 + draw(&r, 255));
    write_file("r.tfrecord", o.at, o.n);
    free(o.at);
    mr_err_t e =
        hand_open(&h, &mr_stage_tfrecord, NULL,
                  HAND_SETTINGS(files_setting(), n_wrote > 1 ? "fields=__record__:x" : FIELDS));
    bool in_head = at < wrote[bad].at;
    round_check(&r, (e < 0) == in_head, "byte %zu, record %d at %zu: %s", at, bad, wrote[bad].at,
                h.diag.text);
    if (e < 0) {
      round_check(&r, strstr(h.diag.text, "no record, or one whose length is damaged"), "%s",
                  h.diag.text);
    } else {
      burst_t *b = burst_new(&h.s);
      for (int64_t i = 0; i < n_wrote; i++) {
        e = burst_fetch(&h, 0, &i, 1, b);
        round_check(&r, (e < 0) == (i == bad), "record %d, %d is bad", (int)i, bad);
        round_check(&r, e >= 0 || strstr(h.diag.text, "its checksum is wrong"), "%s", h.diag.text);
      }
      burst_free(b);
    }
    shards_close(&h);
  }
}

/* The file may be cut anywhere: the records before are whole. */
static void a_cut_file_gives_the_records_before_the_cut(void **state) {
  round_t r = round_first(100);
  while (round_next(&r)) {
    hand_t h;
    image_t o = write_records(&r);
    size_t left = 1 + (size_t)(round_bits(&r) % (o.n - 1));
    int whole = 0;
    while (wrote[whole].at + wrote[whole].n + 4 <= left) whole++;
    bool between = whole && wrote[whole - 1].at + wrote[whole - 1].n + 4 == left;
    write_file("r.tfrecord", o.at, left);
    free(o.at);
    mr_err_t e =
        shards_plan(&h, &mr_stage_tfrecord, HAND_SETTINGS(files_setting(), "fields=__record__:x"));
    round_check(&r, (e >= 0) == between, "%zu: %s", left, h.diag.text);
    if (e < 0 && whole) {
      mr_stage_tfrecord.forget(&h.s);
      ((mr_care_t *)((char *)h.s.state + mr_stage_tfrecord.source->care))->lenient = true;
      h.diag = (mr_diag_t){0};
      round_check(&r, mr_stage_tfrecord.plan(&h.s) >= 0, "%s", h.diag.text);
      round_check(&r, h.s.out_spec[0].n_records == whole, "%d of %d",
                  (int)h.s.out_spec[0].n_records, whole);
    }
    shards_close(&h);
  }
}

static void write_one(const char *name, int kind, void (*fill)(round_t *, image_t *)) {
  round_t r = {.x = 2};
  image_t map = {0}, list = {0}, example = {0}, o = {0};
  fill(&r, &list);
  add_feature(&r, &map, name, kind, &list);
  add_delimited(&example, 1, map.at, map.n);
  add_framed(&o, example.at, example.n);
  write_file("r.tfrecord", o.at, o.n);
  free(map.at), free(example.at), free(o.at);
}

static void fill_two_ints(round_t *r, image_t *list) {
  add_ints(r, list, (int64_t[]){3, 1LL << 40}, 2);
}
static void fill_two_strings(round_t *r, image_t *list) {
  add_delimited(list, 1, "a", 1), add_delimited(list, 1, "b", 1);
}

static void fill_an_int(round_t *r, image_t *list) { add_ints(r, list, (int64_t[]){3}, 1); }

/* A few bad records do not hide the features that all others have. */
static void bad_records_do_not_count_for_the_fields(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    bool bad[RECORDS];
    int n = 2 + draw(&r, RECORDS - 2), good = draw(&r, n);
    image_t o = {0};
    hand_t h;
    for (int i = 0; i < n; i++) {
      image_t map = {0}, list = {0}, example = {0};
      bad[i] = i != good && one_in(&r, 3);
      fill_an_int(&r, &list), add_feature(&r, &map, "all", 3, &list);
      fill_an_int(&r, &list);
      if (i != good && one_in(&r, 2))
        free(list.at);
      else
        add_feature(&r, &map, "some", 3, &list);
      add_delimited(&example, 1, map.at, map.n);
      int how = draw(&r, 3); /* empty, cut short, or with a wrong checksum */
      size_t at = add_framed(&o, example.at, bad[i] && how < 2 ? how * (example.n - 1) : example.n);
      if (bad[i] && how == 2) o.at[at] ^= 1;
      free(map.at), free(example.at);
    }
    write_file("r.tfrecord", o.at, o.n);
    free(o.at);
    round_check(
        &r,
        hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "holdout=0")) >= 0,
        "%s", h.diag.text);
    round_check(&r, !strcmp(h.s.out_spec[0].field[0].name, "all"), "a field is missing");
    burst_t *b = burst_new(&h.s);
    for (int64_t i = 0; i < n; i++) {
      mr_err_t e = burst_fetch(&h, 0, &i, 1, b);
      round_check(&r, e == (bad[i] ? MR_ERR_DATA : MR_OK), "record %d of %d: %s", (int)i, n,
                  h.diag.text);
    }
    burst_free(b);
    shards_close(&h);
  }
}

/* A name that begins as another's does, with a NUL behind it, is another name, and no field. */
static void names_with_a_nul_are_left_out(void **state) {
  round_t r = {.x = 3};
  image_t map = {0}, list = {0}, feature = {0}, entry = {0}, example = {0}, o = {0};
  size_t long_name = 1 << 20;
  char *name = calloc(1, long_name);
  hand_t h;
  assert_non_null(name);
  name[0] = 'n';
  add_ints(&r, &list, (int64_t[]){3}, 1);
  add_feature(&r, &map, "n", 3, &list);
  add_delimited(&feature, 3, "", 0);
  add_delimited(&entry, 1, name, long_name), add_delimited(&entry, 2, feature.at, feature.n);
  add_delimited(&map, 1, entry.at, entry.n);
  add_delimited(&example, 1, map.at, map.n);
  add_framed(&o, example.at, example.n);
  write_file("r.tfrecord", o.at, o.n);
  if (hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 1);
  assert_int_equal(h.s.out_spec[0].field[0].dtype, MR_I64);
  assert_int_equal(h.s.out_spec[0].field[0].ndim, 0);
  char quoted[300];
  snprintf(quoted, sizeof quoted, "\"n%0199d\" (a name of more than 255 bytes or with a NUL", 0);
  for (char *at = quoted; (at = strchr(at, '0')); at++) *at = '?';
  assert_non_null(strstr(last_notice, quoted));
  shards_close(&h);
  free(name), free(map.at), free(feature.at), free(entry.at), free(example.at), free(o.at);
}

/* In the first record "n" has two numbers and then one, as in the second. */
static void a_feature_held_twice_counts_once(void **state) {
  round_t r = {.x = 6};
  image_t o = {0};
  hand_t h;
  for (int i = 0; i < 2; i++) {
    image_t map = {0}, list = {0}, example = {0};
    if (!i) fill_two_ints(&r, &list), add_feature(&r, &map, "n", 3, &list);
    fill_an_int(&r, &list), add_feature(&r, &map, "n", 3, &list);
    add_delimited(&example, 1, map.at, map.n);
    add_framed(&o, example.at, example.n);
    free(map.at), free(example.at);
  }
  write_file("r.tfrecord", o.at, o.n);
  if (hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 1);
  assert_int_equal(h.s.out_spec[0].field[0].ndim, 0); /* one number in every record */
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0, 1}, 2, b), MR_OK);
  assert_int_equal(*(int64_t *)b->rec[0].field[0].data, 3);
  burst_free(b), shards_close(&h), free(o.at);
}

/* One record whose feature "n" has two lists in one value, and then others in another value. */
static void lists_that_occur_twice_are_joined(void **state) {
  round_t r = {.x = 6};
  static const int64_t number[] = {4, 5, 6, 7};
  image_t o = {0}, list[4] = {0}, value[2] = {0}, entry = {0}, map = {0}, example = {0}, text = {0};
  hand_t h;
  for (int i = 0; i < 4; i++) add_ints(&r, &list[i], number + i, 1);
  add_delimited(&text, 1, "x", 1);
  add_delimited(&value[0], 3, list[0].at, list[0].n); /* which a list of strings ends */
  add_delimited(&value[0], 1, text.at, text.n);
  add_delimited(&value[0], 3, list[1].at, list[1].n);
  add_delimited(&value[0], 3, list[2].at, list[2].n);
  add_delimited(&value[1], 3, list[3].at, list[3].n);
  add_delimited(&entry, 2, value[0].at, value[0].n), add_delimited(&entry, 1, "n", 1);
  add_delimited(&entry, 2, value[1].at, value[1].n);
  add_delimited(&map, 1, entry.at, entry.n), add_delimited(&example, 1, map.at, map.n);
  add_framed(&o, example.at, example.n);
  write_file("r.tfrecord", o.at, o.n);
  if (hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0}, 1, b), MR_OK);
  assert_int_equal(h.s.out_spec[0].field[0].dim[0], 3);
  assert_memory_equal(b->rec[0].field[0].data, number + 1, 24);
  burst_free(b), shards_close(&h);
  for (int i = 0; i < 4; i++) free(list[i].at);
  free(value[0].at), free(value[1].at), free(entry.at), free(map.at), free(example.at), free(o.at);
  free(text.at);
}

/* Of two records the second has no "n", and both have feature lists of a SequenceExample. */
static void absent_features_are_empty_and_feature_lists_are_named(void **state) {
  round_t r = {.x = 6};
  image_t o = {0};
  hand_t h;
  for (int i = 0; i < 2; i++) {
    image_t map = {0}, list = {0}, example = {0}, sequence = {0}, lists = {0};
    if (!i) fill_an_int(&r, &list), add_feature(&r, &map, "n", 3, &list);
    fill_an_int(&r, &list), add_feature(&r, &map, "id", 3, &list);
    fill_two_strings(&r, &list), add_feature(&r, &map, "words", 1, &list);
    add_delimited(&example, 1, map.at, map.n);
    add_delimited(&sequence, 1, "steps", 5), add_delimited(&lists, 1, sequence.at, sequence.n);
    add_delimited(&example, 2, lists.at, lists.n);
    add_framed(&o, example.at, example.n);
    free(map.at), free(example.at), free(sequence.at), free(lists.at);
  }
  write_file("r.tfrecord", o.at, o.n);
  if (hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "fields=n:n:i64")) < 0)
    fail_msg("%s", h.diag.text);
  assert_true(h.s.out_spec[0].field[0].ragged);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0, 1}, 2, b), MR_OK);
  assert_int_equal(b->rec[0].field[0].rows, 1);
  assert_int_equal(b->rec[1].field[0].rows, 0);
  burst_free(b), shards_close(&h);
  if (shards_plan(&h, &mr_stage_tfrecord, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 1);
  assert_non_null(strstr(last_notice, "\"steps\" (the feature list of a SequenceExample)"));
  assert_non_null(strstr(last_notice, "\"words\" (several byte strings, or none, in a record)"));
  assert_non_null(strstr(last_notice, "\"n\" (not every record has it)"));
  shards_close(&h), free(o.at);
}

/* Names without values, an empty name, and one more feature than are counted. */
static void features_that_hold_nothing_are_named(void **state) {
  enum { MANY = 1100 };
  round_t r = {.x = 9};
  image_t o = {0};
  hand_t h;
  for (int i = 0; i < 2; i++) {
    image_t map = {0}, list = {0}, entry = {0}, example = {0};
    fill_an_int(&r, &list), add_feature(&r, &map, "id", 3, &list);
    add_delimited(&entry, 1, "never", 5);
    add_delimited(&map, 1, entry.at, entry.n);
    free(entry.at), entry = (image_t){0};
    if (i) {
      fill_an_int(&r, &list), add_feature(&r, &map, "once", 3, &list);
    } else {
      add_delimited(&entry, 1, "once", 4);
      add_delimited(&map, 1, entry.at, entry.n);
    }
    fill_an_int(&r, &list), add_feature(&r, &map, "", 3, &list);
    add_delimited(&example, 1, map.at, map.n);
    add_framed(&o, example.at, example.n);
    free(map.at), free(entry.at), free(example.at);
  }
  write_file("r.tfrecord", o.at, o.n);
  if (shards_plan(&h, &mr_stage_tfrecord, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 1);
  assert_non_null(strstr(last_notice, "\"never\" (no values in any record)"));
  assert_non_null(strstr(last_notice, "\"once\" (a record holds no values of it)"));
  assert_non_null(strstr(last_notice, "\"\" (no field can have that name)"));
  shards_close(&h), free(o.at);
  want_refused(&mr_stage_tfrecord, HAND_SETTINGS(files_setting(), "fields=never"),
               "never as a field: the feature holds no list of values in any record");
  image_t map = {0}, list = {0}, example = {0}, many = {0};
  for (int k = 0; k < MANY; k++) {
    char name[20];
    snprintf(name, sizeof name, "f%d", k);
    fill_an_int(&r, &list), add_feature(&r, &map, name, 3, &list);
  }
  add_delimited(&example, 1, map.at, map.n);
  for (int i = 0; i < 2; i++) add_framed(&many, example.at, example.n);
  write_file("r.tfrecord", many.at, many.n);
  if (shards_plan(&h, &mr_stage_tfrecord, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 16);
  assert_non_null(strstr(last_notice, "or one of more than 1,024 features)"));
  shards_close(&h), free(map.at), free(example.at), free(many.at);
}

static void fill_nothing(round_t *r, image_t *list) {}

static void a_feature_without_values_has_no_rows(void **state) {
  hand_t h;
  write_one("boxes", 2, fill_nothing);
  if (hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  const mr_field_t *f = h.s.out_spec[0].field;
  assert_true(f->ragged && f->ndim == 1 && f->dtype == MR_F32);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0}, 1, b), MR_OK);
  assert_int_equal(b->rec[0].field[0].rows, 0);
  burst_free(b), shards_close(&h);
}

static void settings_that_do_not_fit_are_refused(void **state) {
#define WRONG(piece, ...) \
  want_refused(&mr_stage_tfrecord, HAND_SETTINGS(files_setting(), __VA_ARGS__), piece)
  write_one("n", 3, fill_two_ints);
  WRONG("no record has a feature m; the records of", "fields=m");
  WRONG("n as label: the feature holds 2 to 2 whole numbers, want one whole number",
        "fields=n:n:label");
  WRONG("want i64, i32 or label", "fields=n:n:f32");
  WRONG("want i64, i32 or label", "fields=n:n:i64[3]");
  WRONG("want i64, i32 or label", "fields=n:n:i64[2");
  WRONG("want i64, i32 or label", "fields=n:n:i64[2x]");
  WRONG("want i64, i32 or label", "fields=n:n:i64[0]");
  WRONG("want i64, i32 or label", "fields=n:n:i64[999999999999x9999999999999]");
  WRONG("__record__ as i32: the feature holds the whole record", "fields=__record__:r:i32");
  hand_t h;
  if (hand_open(&h, &mr_stage_tfrecord, NULL, HAND_SETTINGS(files_setting(), "fields=n:n:i32")) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  int64_t zero = 0;
  assert_int_equal(burst_fetch(&h, 0, &zero, 1, b), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "feature n has a value that does not fit i32"));
  burst_free(b);
  shards_close(&h);
  write_one("s", 1, fill_two_strings);
  WRONG("lists of byte strings, want one", "fields=s");
  WRONG("no feature is in every record", "holdout=0");
  write_file("r.tfrecord", "\x1f\x8b\x08 and more than twelve", 25);
  WRONG("is compressed by gzip", "holdout=0");
  write_file("r.tfrecord", "", 0);
  WRONG("no records", "holdout=0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_examples_are_read_as_written),
      cmocka_unit_test(a_changed_byte_is_found),
      cmocka_unit_test(a_cut_file_gives_the_records_before_the_cut),
      cmocka_unit_test(bad_records_do_not_count_for_the_fields),
      cmocka_unit_test(names_with_a_nul_are_left_out),
      cmocka_unit_test(a_feature_held_twice_counts_once),
      cmocka_unit_test(lists_that_occur_twice_are_joined),
      cmocka_unit_test(absent_features_are_empty_and_feature_lists_are_named),
      cmocka_unit_test(a_feature_without_values_has_no_rows),
      cmocka_unit_test(features_that_hold_nothing_are_named),
      cmocka_unit_test(settings_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
