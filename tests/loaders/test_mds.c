/* The stage mds: random samples of every kind of column against what was written; damaged bytes;
   index files that lie. */
#include <fcntl.h>

#include "loaders/shards/file_digest.h"
#include "loaders/shards/shard_typed.h"
#include "pipeline/care.h"
#include "tests/loaders/mds.h"

extern const mr_stage_def_t mr_stage_mds;

enum { RECORDS = 60, SHARDS = 3, LONGEST = 40 };

static const char columns[] =
    "\"column_names\": [\"bytes\", \"dyn\", \"id\", \"n\", \"pk\", \"w\", \"x\"], "
    "\"column_encodings\": [\"bytes\", \"ndarray:int16\", \"int\", \"str_int\", \"pkl\", "
    "\"uint16\", \"ndarray:float32:2,3\"], \"column_sizes\": [null, null, 8, null, null, 2, 24]";

static struct {
  uint8_t bytes[LONGEST];
  uint32_t n;
  int16_t dyn[6];
  int64_t id, number;
  uint16_t w;
  float x[6];
} wrote[RECORDS];

static void draw_records(round_t *r) {
  for (int i = 0; i < RECORDS; i++) {
    wrote[i].n = (uint32_t)draw(r, LONGEST);
    for (uint32_t k = 0; k < wrote[i].n; k++) wrote[i].bytes[k] = (uint8_t)round_bits(r);
    for (int k = 0; k < 6; k++) wrote[i].dyn[k] = (int16_t)round_bits(r);
    for (int k = 0; k < 6; k++) wrote[i].x[k] = (float)draw(r, 1000) / 8;
    wrote[i].id = (int64_t)round_bits(r), wrote[i].number = (int64_t)round_bits(r);
    wrote[i].w = (uint16_t)round_bits(r);
  }
}

static image_t make_shard(int first, int end) {
  mds_shard_t o = {.columns = columns};
  for (int i = first; i < end; i++) {
    char text[32];
    int k = snprintf(text, sizeof text, "%lld", (long long)wrote[i].number);
    uint32_t size[4] = {wrote[i].n, 3 + 12, (uint32_t)k, 5};
    image_t sample = {0};
    image_add(&sample, wrote[i].bytes, wrote[i].n);
    image_add(&sample, "\x08\x02\x03", 3), image_add(&sample, wrote[i].dyn, 12); /* [2,3] of u8 */
    image_add(&sample, &wrote[i].id, 8), image_add(&sample, text, (size_t)k);
    image_add(&sample, "\x80\x04K\x01.", 5), image_add(&sample, &wrote[i].w, 2);
    image_add(&sample, wrote[i].x, 24);
    mds_sample(&o, size, sizeof size, sample.at, sample.n);
    free(sample.at);
  }
  image_t file = mds_file(&o);
  mds_free(&o);
  return file;
}

/* Writes the data set; in shard `damaged`, change has changed the bytes. */
static void write_data_set(int damaged, void (*change)(image_t *file, round_t *r), round_t *r) {
  char text[2000] = "", name[32];
  for (int k = 0; k < SHARDS; k++) {
    image_t file = make_shard(RECORDS * k / SHARDS, RECORDS * (k + 1) / SHARDS);
    if (k == damaged) change(&file, r);
    snprintf(name, sizeof name, "shard.%05d.mds", k);
    write_file(name, file.at, file.n);
    mds_index_add(text, sizeof text, name, file.n, "", "null", "null");
    free(file.at);
  }
  mds_index_write(text, sizeof text);
}

static const char *const *settings(void) {
  static char files[100], index[100];
  static const char *all[] = {files, index, "fields=bytes:b,dyn,id,n,w,x,id:label:label", NULL};
  snprintf(files, sizeof files, "files=%s", folder);
  snprintf(index, sizeof index, "index=%s/cache", folder);
  return all;
}

static void samples_are_what_was_written(void **state) {
  round_t r = round_first(20);
  while (round_next(&r)) {
    hand_t h;
    draw_records(&r);
    for (int i = 0; i < RECORDS; i++) wrote[i].id = draw(&r, 50);
    write_data_set(-1, NULL, NULL);
    if (shards_plan(&h, &mr_stage_mds, settings()) < 0 || h.s.def->open(&h.s) < 0)
      fail_msg("%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    for (int64_t i = 0; i < RECORDS; i++) {
      int64_t k = draw(&r, RECORDS);
      if (burst_fetch(&h, 0, &k, 1, b) < 0) fail_msg("%s", h.diag.text);
      const mr_value_t *v = b->rec[0].field;
      assert_int_equal(v[0].rows, wrote[k].n);
      assert_memory_equal(v[0].data, wrote[k].bytes, wrote[k].n);
      for (int d = 0; d < 6; d++) assert_int_equal(((int32_t *)v[1].data)[d], wrote[k].dyn[d]);
      assert_int_equal(*(int64_t *)v[2].data, wrote[k].id);
      assert_int_equal(*(int64_t *)v[3].data, wrote[k].number);
      assert_int_equal(*(int32_t *)v[4].data, wrote[k].w);
      assert_memory_equal(v[5].data, wrote[k].x, 24);
      assert_int_equal(*(int32_t *)v[6].data, wrote[k].id);
    }
    burst_free(b), shards_close(&h);
  }
}

/* ---- damage ---- */

static void change_some_bytes(image_t *file, round_t *r) {
  for (int k = 1 + draw(r, 4); k > 0; k--)
    file->at[(size_t)draw(r, (int)file->n)] = (uint8_t)round_bits(r);
}

static void cut_short(image_t *file, round_t *r) { file->n = (size_t)draw(r, (int)file->n); }

static void damaged_bytes_give_bad_records_or_a_sentence(void **state) {
  round_t r = round_first(200);
  while (round_next(&r)) {
    hand_t h;
    draw_records(&r);
    write_data_set(1, one_in(&r, 2) ? change_some_bytes : cut_short, &r);
    mr_err_t e = shards_plan(&h, &mr_stage_mds, settings());
    if (e >= 0) e = h.s.def->open(&h.s);
    if (e < 0) {
      bool named = strstr(h.diag.text, "shard.00001.mds") || strstr(h.diag.text, "column");
      round_check(&r, named, "the sentence names no file: %s", h.diag.text);
      shards_close(&h);
      continue;
    }
    burst_t *b = burst_new(&h.s);
    for (int64_t i = 0; i < h.s.out_spec[0].n_records; i++) {
      e = burst_fetch(&h, 0, &i, 1, b);
      bool good = e >= 0 || e == MR_ERR_DATA;
      round_check(&r, good, "%s", h.diag.text);
      bool other = i < RECORDS / SHARDS || i >= 2 * RECORDS / SHARDS;
      bool label = e >= 0 || strstr(h.diag.text, "label");
      if (other && h.s.out_spec[0].n_records == RECORDS)
        round_check(&r, label, "a record of another shard: %s", h.diag.text);
    }
    burst_free(b), shards_close(&h);
  }
}

static void index_files_that_lie_are_refused(void **state) {
  static const char *const text[][2] = {
      {"{\"version\": 2, \"shards\": []}", "has no \"shards\""},
      {"[1, 2", "is not JSON"},
      {"{\"shards\": [{\"format\": \"csv\"}]}", "\"format\": \"mds\""},
      {"{\"shards\": [{\"format\": \"mds\", \"raw_data\": {\"basename\": \"../x\", \"bytes\": "
       "1}}]}",
       "in the same folder"},
      {"{\"shards\": [{\"format\": \"mds\", \"raw_data\": {\"basename\": \"/etc/passwd\", "
       "\"bytes\": 1}}]}",
       "in the same folder"},
      {"{\"shards\": [{\"format\": \"mds\", \"raw_data\": {\"basename\": \"a\", \"bytes\": -1}}]}",
       "\"bytes\""},
      {"{\"shards\": [{\"format\": \"mds\", \"raw_data\": {\"basename\": \"none\", \"bytes\": "
       "1}}]}",
       "cannot be opened"},
      {"{\"shards\": [{\"format\": \"mds\", \"raw_data\": {\"basename\": \"shard.00000.mds\", "
       "\"bytes\": 1}}]}",
       "index.json says 1"}};
  round_t r = round_first(1);
  round_next(&r);
  draw_records(&r);
  write_data_set(-1, NULL, NULL);
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    write_file("index.json", text[i][0], strlen(text[i][0]));
    want_refused(&mr_stage_mds, settings(), text[i][1]);
  }
}

static void wrong_digests_are_refused(void **state) {
  char text[1000] = "", hash[100];
  round_t r = {.x = 8};
  hand_t h;
  draw_records(&r);
  image_t file = make_shard(0, RECORDS);
  write_file("d.mds", file.at, file.n);
  snprintf(hash, sizeof hash, "\"xxh3_64\": \"%016llx\"",
           (unsigned long long)XXH3_64bits(file.at, file.n));
  mds_index_add(text, sizeof text, "d.mds", file.n, hash, "null", "null");
  mds_index_write(text, sizeof text);
  if (shards_plan(&h, &mr_stage_mds, settings()) < 0) fail_msg("%s", h.diag.text);
  shards_close(&h);
  file.at[file.n - 1] ^= 1;
  write_file("d.mds", file.at, file.n);
  want_refused(&mr_stage_mds, settings(), "is damaged: its xxh3_64 is not");
  free(file.at);
}

/* A shard that is written anew under a run, while it is open: its second sample has other sizes,
   and as many bytes as before.  The first one is still what it was. */
static void a_sample_of_other_sizes_is_not_read_by_the_old_index(void **state) {
  round_t r = round_first(1);
  uint32_t at, size[4];
  hand_t h;
  assert_true(round_next(&r));
  draw_records(&r);
  for (int i = 0; i < RECORDS; i++) wrote[i].id = 0, wrote[i].n = LONGEST - 1;
  write_data_set(-1, NULL, NULL);
  if (shards_plan(&h, &mr_stage_mds, settings()) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, &(int64_t){0}, 1, b), MR_OK);
  int fd = open(in_folder("shard.00000.mds"), O_RDWR);
  assert_int_equal(pread(fd, &at, sizeof at, 8), sizeof at);
  assert_int_equal(pread(fd, size, sizeof size, at), sizeof size);
  assert_int_equal(*size, LONGEST - 1);
  size[0]++, size[1]--;
  assert_int_equal(pwrite(fd, size, sizeof size, at), sizeof size);
  close(fd);
  assert_int_equal(burst_fetch(&h, 0, &(int64_t){0}, 1, b), MR_OK);
  assert_int_equal(burst_fetch(&h, 0, &(int64_t){1}, 1, b), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "shard.00000.mds: record 1"));
  assert_non_null(strstr(h.diag.text, "the file has changed since its index was made"));
  burst_free(b), shards_close(&h);
}

static void columns_that_are_no_fields_say_why(void **state) {
  char files[100], index[100];
  const char *pickle[] = {files, index, "fields=pk", NULL},
             *none[] = {files, index, "fields=y", NULL};
  snprintf(files, sizeof files, "files=%s", folder);
  snprintf(index, sizeof index, "index=%s/cache", folder);
  round_t r = {.x = 9};
  draw_records(&r);
  write_data_set(-1, NULL, NULL);
  want_refused(&mr_stage_mds, pickle, "it holds pickles, which are programs");
  hand_t h;
  if (shards_plan(&h, &mr_stage_mds, (const char *const[]){files, index, NULL}) < 0)
    fail_msg("%s", h.diag.text);
  shards_close(&h);
  assert_non_null(strstr(last_notice, "\"pk\" (it holds pickles, which are programs"));
  want_refused(&mr_stage_mds, none, "there is no column y; the records of");
}

/* Makes a shard's index anew with more columns that hold lists of sizes, as another program could.
 */
static void add_lists_of_sizes(const char *file, const char *index, int more) {
  mr_shard_index_t x, forged;
  mr_shard_id_t id;
  mr_shard_draft_t *d = mr_shard_draft_new();
  uint32_t column;
  char name[8];
  FILE *f = fopen(in_folder(file), "rb");
  assert_non_null(f);
  assert_int_equal(mr_shard_id_of(fileno(f), file, &id, NULL), MR_OK);
  assert_int_equal(mr_shard_id_for_index(fileno(f), file, &id, NULL), MR_OK);
  fclose(f);
  assert_int_equal(
      mr_shard_index_load(in_folder(index), "mds/3", &id, MR_KEPT_INDEX, NULL, &x, NULL), MR_OK);
  for (uint32_t c = 0; c < x.n_columns; c++) {
    const char *text = x.text + x.column[c].name;
    mr_shard_draft_column(d, text, strlen(text), x.column[c].kind, &column, NULL);
  }
  for (int64_t i = 0; i < x.n_records; i++) {
    mr_shard_draft_record(d, NULL, 0, NULL);
    for (uint64_t k = x.record[i].part; k < x.record[i + 1].part; k++) {
      const mr_shard_part_t *p = &x.part[k];
      mr_shard_draft_item(d, p->column, p->at, p->size, p->item, NULL);
    }
  }
  for (int k = 0; k < more; k++) {
    int n = snprintf(name, sizeof name, "\t%d", k);
    mr_shard_draft_column(d, name, (size_t)n, MR_TYPED_SIZES, &column, NULL);
  }
  assert_int_equal(mr_shard_index_make(d, "mds/3", &id, NULL, &forged, NULL), MR_OK);
  assert_int_equal(mr_shard_index_save(&forged, in_folder(index), NULL, NULL), MR_OK);
  mr_shard_index_close(&x), mr_shard_index_close(&forged), mr_shard_draft_free(d);
}

static void lists_of_sizes_are_read_once_however_many_an_index_has(void **state) {
  char files[100];
  const char *const set[] = {files, "index=beside", "fields=bytes", NULL};
  hand_t h;
  round_t r = {.x = 11};
  snprintf(files, sizeof files, "files=%s", folder);
  draw_records(&r);
  write_data_set(-1, NULL, NULL);
  assert_int_equal(shards_plan(&h, &mr_stage_mds, set), MR_OK); /* it makes the indexes */
  shards_close(&h);
  add_lists_of_sizes("shard.00000.mds", "shard.00000.mds.mrindex", MR_FIELDS_MAX + 1);
  n_notices = 0;
  if (shards_plan(&h, &mr_stage_mds, set) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(n_notices, 0); /* that index is used */
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < RECORDS; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(b->rec[0].field[0].rows, wrote[i].n);
    assert_memory_equal(b->rec[0].field[0].data, wrote[i].bytes, wrote[i].n);
  }
  burst_free(b), shards_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_are_what_was_written),
      cmocka_unit_test(damaged_bytes_give_bad_records_or_a_sentence),
      cmocka_unit_test(index_files_that_lie_are_refused),
      cmocka_unit_test(wrong_digests_are_refused),
      cmocka_unit_test(a_sample_of_other_sizes_is_not_read_by_the_old_index),
      cmocka_unit_test(columns_that_are_no_fields_say_why),
      cmocka_unit_test(lists_of_sizes_are_read_once_however_many_an_index_has),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
