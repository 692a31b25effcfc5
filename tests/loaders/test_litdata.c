/* The stage litdata: random items of every kind of leaf against what was written; damaged bytes;
   index files that lie. */
#include <fcntl.h>

#include "pipeline/care.h"
#include "tests/loaders/litdata.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_litdata;

enum { RECORDS = 60, CHUNKS = 3, LONGEST = 40, LEAVES = 8 };

#define FORMATS                                                                              \
  "[\"int\", \"bytes\", \"float\", \"bool\", \"numpy\", \"tensor\", \"no_header_numpy:1\", " \
  "\"pickle\"]"
#define KEYS                                                                                 \
  "[\\\\\\\"id\\\\\\\", \\\\\\\"data\\\\\\\", \\\\\\\"ratio\\\\\\\", \\\\\\\"flag\\\\\\\", " \
  "\\\\\\\"x\\\\\\\", \\\\\\\"t\\\\\\\", \\\\\\\"v\\\\\\\", \\\\\\\"odd\\\\\\\"]"

static struct {
  int64_t id;
  uint8_t data[LONGEST];
  uint32_t n;
  double ratio;
  uint8_t flag;
  float x[6];
  int32_t t[4];
  int16_t v[3];
} wrote[RECORDS];
static size_t item_at[RECORDS + 1]; /* in the file of its chunk */

static int first_of(int chunk) { return RECORDS * chunk / CHUNKS; }

static void draw_records(round_t *r) {
  for (int i = 0; i < RECORDS; i++) {
    wrote[i].id = (int64_t)round_bits(r), wrote[i].n = (uint32_t)draw(r, LONGEST);
    for (int k = 0; k < LONGEST; k++) wrote[i].data[k] = (uint8_t)round_bits(r);
    wrote[i].ratio = (double)draw(r, 1000) / 7, wrote[i].flag = (uint8_t)draw(r, 2);
    for (int k = 0; k < 6; k++) wrote[i].x[k] = (float)draw(r, 1000) / 8;
    for (int k = 0; k < 4; k++) wrote[i].t[k] = (int32_t)round_bits(r);
    for (int k = 0; k < 3; k++) wrote[i].v[k] = (int16_t)round_bits(r);
  }
}

static image_t make_chunk(int first, int end) {
  litdata_out_t o = {0};
  for (int i = first; i < end; i++) {
    uint32_t numpy[4] = {9, 2, 2, 3};                                              /* f32[2x3] */
    uint8_t array[16 + 24], tensor[16 + 16] = "\0\0\0\17\0\0\0\2\0\0\0\2\0\0\0\2"; /* i32[2x2] */
    memcpy(array, numpy, 16), memcpy(array + 16, wrote[i].x, 24);
    memcpy(tensor + 16, wrote[i].t, 16);
    item_at[i] = o.data.n;
    litdata_item(&o,
                 (const void *[]){&wrote[i].id, wrote[i].data, &wrote[i].ratio, &wrote[i].flag,
                                  array, tensor, wrote[i].v, "\x80\x04K\x01."},
                 (uint32_t[]){8, wrote[i].n, 8, 1, sizeof array, sizeof tensor, 6, 5}, LEAVES);
  }
  image_t file = litdata_file(&o);
  for (int i = first; i < end; i++) item_at[i] += 4 + 4 * (size_t)(end - first + 1);
  litdata_free(&o);
  return file;
}

/* Writes the data set; change, of chunk 0, has changed the bytes. */
static void write_data_set(void (*change)(image_t *file, round_t *r), round_t *r,
                           const char *more) {
  char text[4000] = "", name[32];
  for (int k = 0; k < CHUNKS; k++) {
    image_t file = make_chunk(first_of(k), first_of(k + 1));
    if (change && k == 0) change(&file, r);
    snprintf(name, sizeof name, "chunk-0-%d.bin", k), write_file(name, file.at, file.n);
    litdata_index_add(text, sizeof text, name, (uint32_t)(first_of(k + 1) - first_of(k)));
    free(file.at);
  }
  litdata_index_end(text, sizeof text, FORMATS, KEYS, LEAVES, more);
  write_file("index.json", text, strlen(text));
}

static char *folder_setting(void) {
  static char files[120];
  snprintf(files, sizeof files, "files=%s", folder);
  return files;
}

#define ALL "fields=id,data,ratio,flag,x,t,v"

static bool is_as_written(const mr_rec_t *rec, int64_t i) {
  const mr_value_t *v = rec->field;
  int32_t wide[3] = {wrote[i].v[0], wrote[i].v[1], wrote[i].v[2]};
  return !memcmp(v[0].data, &wrote[i].id, 8) && v[1].rows == wrote[i].n &&
         !memcmp(v[1].data, wrote[i].data, wrote[i].n) && !memcmp(v[2].data, &wrote[i].ratio, 8) &&
         *(uint8_t *)v[3].data == wrote[i].flag && !memcmp(v[4].data, wrote[i].x, 24) &&
         !memcmp(v[5].data, wrote[i].t, 16) && !memcmp(v[6].data, wide, 12);
}

static void random_items_are_read_as_written(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    hand_t h;
    draw_records(&r), write_data_set(NULL, &r, "");
    round_check(&r,
                hand_open(&h, &mr_stage_litdata, NULL, HAND_SETTINGS(folder_setting(), ALL)) >= 0,
                "%s", h.diag.text);
    const mr_spec_t *spec = &h.s.out_spec[0];
    round_check(&r, spec->n_records == RECORDS && spec->field[4].dim[1] == 3, "%d",
                (int)spec->n_records);
    burst_t *b = burst_new(&h.s);
    for (int k = 0; k < 10; k++) {
      int64_t index[MR_BURST];
      int n = 1 + draw(&r, MR_BURST);
      for (int i = 0; i < n; i++) index[i] = draw(&r, RECORDS);
      round_check(&r, burst_fetch(&h, 0, index, n, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < n; i++)
        round_check(&r, is_as_written(&b->rec[i], index[i]), "item %d", (int)index[i]);
    }
    burst_free(b), shards_close(&h);
  }
}

static int changed; /* item */

/* Changes a size at the head of an item, so that the sizes no longer add up. */
static void change_a_size(image_t *file, round_t *r) {
  changed = draw(r, first_of(1));
  file->at[item_at[changed] + 4 * (size_t)draw(r, LEAVES)] ^= (uint8_t)(1 + draw(r, 255));
}

/* Changes the type, the dimensions or the shape of an array. */
static void change_an_array(image_t *file, round_t *r) {
  changed = draw(r, first_of(1));
  size_t array = item_at[changed] + 4 * LEAVES + 8 + wrote[changed].n + 8 + 1;
  static const uint8_t other[] = {77, 200, 250, 255};
  file->at[array + 4 * (size_t)draw(r, 4)] = other[draw(r, 4)];
}

static void a_changed_item_is_a_bad_record(void **state) {
  round_t r = round_first(100);
  while (round_next(&r)) {
    hand_t h;
    draw_records(&r), write_data_set(one_in(&r, 2) ? change_a_size : change_an_array, &r, "");
    round_check(&r,
                hand_open(&h, &mr_stage_litdata, NULL, HAND_SETTINGS(folder_setting(), ALL)) >= 0,
                "%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    for (int64_t i = 0; i < RECORDS; i++) {
      mr_err_t e = burst_fetch(&h, 0, &i, 1, b);
      round_check(&r, e == (i == changed ? MR_ERR_DATA : MR_OK), "item %d, %d is bad: %s", (int)i,
                  changed, h.diag.text);
      round_check(&r, e < 0 || is_as_written(&b->rec[0], i), "item %d", (int)i);
    }
    burst_free(b), shards_close(&h);
  }
}

static void cut_file(image_t *file, round_t *r) {
  changed = draw(r, first_of(1));
  file->n = item_at[changed] + (size_t)draw(r, 20);
}

static void a_cut_chunk_gives_the_items_before_the_cut(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    hand_t h;
    draw_records(&r), write_data_set(cut_file, &r, "");
    mr_err_t e = shards_plan(&h, &mr_stage_litdata, HAND_SETTINGS(folder_setting(), ALL));
    round_check(&r, e == MR_ERR_DATA && strstr(h.diag.text, "within item"), "%s", h.diag.text);
    mr_stage_litdata.forget(&h.s);
    ((mr_care_t *)((char *)h.s.state + mr_stage_litdata.source->care))->lenient = true;
    h.diag = (mr_diag_t){0};
    round_check(&r, mr_stage_litdata.plan(&h.s) >= 0, "%s", h.diag.text);
    round_check(&r, h.s.out_spec[0].n_records == RECORDS - first_of(1) + changed, "%d",
                (int)h.s.out_spec[0].n_records);
    shards_close(&h);
  }
}

static void write_index(const char *text) { write_file("index.json", text, strlen(text)); }

static void index_files_that_lie_are_refused(void **state) {
#define WRONG(piece, ...) \
  want_refused(&mr_stage_litdata, HAND_SETTINGS(folder_setting(), __VA_ARGS__), piece)
  round_t r = {.x = 4};
  char deep[3000] = "";
  draw_records(&r);
  write_data_set(NULL, &r, "\"encryption\": {\"algorithm\": \"rsa\"}, ");
  WRONG("index.json: its chunks are encrypted", ALL);
  write_data_set(NULL, &r, "\"compression\": \"lz4\", ");
  WRONG("index.json: is compressed by lz4, want zstd", ALL);
  write_data_set(NULL, &r, "\"compression\": \"zstd\", \"compression_level\": \"batch\", ");
  WRONG("has compression_level=\"batch\", want no compression, or", ALL);
  write_data_set(NULL, &r, "\"item_loader\": \"TokensLoader\", ");
  WRONG("was written for TokensLoader, want PyTreeLoader", ALL);
  write_data_set(NULL, &r, "");
  WRONG("there is no column none; the records of", "fields=none");
  WRONG("column odd", "fields=odd");
  write_file("chunk-0-0.bin", "\xFF\xFF\xFF\xFF and so on", 14);
  WRONG("is not a chunk of litdata with the 20 items that index.json says", ALL);
  write_file("chunk-0-0.bin", "\24\0\0\0\1\0\0\0", 8);
  WRONG("is not a chunk of litdata, or ends early: it would have 20 items", ALL);
  write_index("{}"), WRONG("is not an index.json of litdata: it has no \"chunks\"", ALL);
  write_index("{\"chunks\": [1]}"), WRONG("want a \"config\" whose \"data_format\" has", ALL);
  write_index(
      "{\"chunks\": [{\"filename\": \"../x\", \"chunk_size\": 1}], \"config\": "
      "{\"data_format\": [\"int\"], \"data_spec\": \"[1, {\\\"type\\\": null}]\"}}");
  WRONG("a chunk lacks a \"filename\" in the same folder", ALL);
  for (int i = 0; i < 50; i++)
    strcat(deep, "{\\\"type\\\": \\\"list\\\", \\\"children_spec\\\": [");
  char text[4000];
  snprintf(text, sizeof text,
           "{\"chunks\": [{}], \"config\": {\"data_format\": [\"int\"], \"data_spec\": \"[1, %s",
           deep);
  strcat(text, "{\\\"type\\\": null}");
  for (int i = 0; i < 50; i++) strcat(text, "]}");
  strcat(text, "]\"}}");
  write_index(text), WRONG("want a \"config\" whose \"data_format\" has", ALL);
}

/* A list of a leaf and n lists of nothing. */
static void write_wide_index(int n) {
  static char text[40000];
  size_t at = (size_t)snprintf(
      text, sizeof text,
      "{\"chunks\": [{\"filename\": \"chunk-0-0.bin\", \"chunk_size\": 20}], \"config\": "
      "{\"data_format\": [\"pickle\"], \"data_spec\": \"[1, {\\\"type\\\": \\\"list\\\", "
      "\\\"children_spec\\\": [{\\\"type\\\": null}");
  for (int i = 0; i < n; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, ", {\\\"type\\\": \\\"list\\\"}");
  snprintf(text + at, sizeof text - at, "]}]\"}}");
  write_index(text);
}

/* Members are looked up one by one, so that many would take a time that grows with the square. */
static void wide_nodes_are_refused(void **state) {
  round_t r = {.x = 4};
  draw_records(&r);
  write_data_set(NULL, &r, "");
  write_wide_index(255);
  WRONG("column 0 cannot be a field: it holds pickles", "fields=0:x");
  write_wide_index(256);
  WRONG("want a \"config\" whose \"data_format\" has", "fields=0:x");
}

/* Three items with JSON in the forms of several releases, and a dict in a form that is not read. */
static void json_comes_as_text_or_numbers(void **state) {
  static const uint8_t tagged[] = {0, 5, 0, 0, 0, '[', '1', '.', '0', ']'};
  static const uint8_t whole[] = {2, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0};
  static const uint8_t dict[] = {5, 0, 0, 0, 0};
  litdata_out_t o = {0};
  char text[2000] = "";
  hand_t h;
  for (int i = 0; i < 3; i++) { /* "d" can be read in one record alone */
    const void *leaf[] = {i ? (const void *)tagged : "[1.0]", whole, dict, i ? dict : tagged};
    litdata_item(&o, leaf,
                 (uint32_t[]){i ? sizeof tagged : 5, sizeof whole, sizeof dict,
                              i ? sizeof dict : sizeof tagged},
                 4);
  }
  image_t file = litdata_file(&o);
  write_file("chunk-0-0.bin", file.at, file.n);
  litdata_index_add(text, sizeof text, "chunk-0-0.bin", 3);
  litdata_index_end(text, sizeof text, "[\"json\", \"json\", \"json\", \"json\"]",
                    "[\\\\\\\"a\\\\\\\", \\\\\\\"b\\\\\\\", \\\\\\\"c\\\\\\\", "
                    "\\\\\\\"d\\\\\\\"]",
                    4, "");
  write_index(text);
  if (shards_plan(&h, &mr_stage_litdata, HAND_SETTINGS(folder_setting(), "holdout=0")) < 0 ||
      h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 2);
  assert_non_null(strstr(last_notice, "2 columns, \"c\", \"d\" (litdata wrote its lists or dicts"));
  assert_null(strstr(last_notice, "not every record"));
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 3; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(b->rec[0].field[0].rows, 5);
    assert_memory_equal(b->rec[0].field[0].data, "[1.0]", 5);
    assert_int_equal(*(int64_t *)b->rec[0].field[1].data, 7);
  }
  burst_free(b), shards_close(&h), free(file.at), litdata_free(&o);
}

/* A chunk that is written anew under a run, while it is open: an item has other sizes, and as many
   bytes as before. */
static void an_item_of_other_sizes_is_not_read_by_the_old_index(void **state) {
  round_t r = round_first(1);
  uint32_t size[LEAVES];
  hand_t h;
  assert_true(round_next(&r));
  draw_records(&r), write_data_set(NULL, &r, "");
  if (hand_open(&h, &mr_stage_litdata, NULL, HAND_SETTINGS(folder_setting(), ALL)) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, &(int64_t){0}, 1, b), MR_OK);
  int fd = open(in_folder("chunk-0-0.bin"), O_RDWR);
  assert_int_equal(pread(fd, size, sizeof size, (off_t)item_at[1]), sizeof size);
  assert_int_equal(size[1], wrote[1].n);
  size[1]++, size[2]--;
  assert_int_equal(pwrite(fd, size, sizeof size, (off_t)item_at[1]), sizeof size);
  close(fd);
  assert_int_equal(burst_fetch(&h, 0, &(int64_t){0}, 1, b), MR_OK);
  assert_int_equal(burst_fetch(&h, 0, &(int64_t){1}, 1, b), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "chunk-0-0.bin: record 1"));
  assert_non_null(strstr(h.diag.text, "the file has changed since its index was made"));
  burst_free(b), shards_close(&h);
}

/* index.json in the working folder, so that nothing is put before the names in it. */
static void urls_are_no_names_of_a_folder(void **state) {
  static const char *const name[] = {"http://127.0.0.1:1/x", "s3://bucket/x", "file:///etc/passwd"};
  char text[400], before[4096];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(folder), 0);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    snprintf(text, sizeof text,
             "{\"chunks\": [{\"filename\": \"%s\", \"chunk_size\": 1}], \"config\": "
             "{\"data_format\": [\"int\"], \"data_spec\": \"[1, {\\\"type\\\": null}]\"}}",
             name[i]);
    write_index(text);
    want_refused(&mr_stage_litdata, HAND_SETTINGS("files=index.json"),
                 "a chunk lacks a \"filename\" in the same folder");
  }
  assert_int_equal(chdir(before), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_items_are_read_as_written),
      cmocka_unit_test(a_changed_item_is_a_bad_record),
      cmocka_unit_test(a_cut_chunk_gives_the_items_before_the_cut),
      cmocka_unit_test(index_files_that_lie_are_refused),
      cmocka_unit_test(wide_nodes_are_refused),
      cmocka_unit_test(json_comes_as_text_or_numbers),
      cmocka_unit_test(an_item_of_other_sizes_is_not_read_by_the_old_index),
      cmocka_unit_test(urls_are_no_names_of_a_folder),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
