/* The stage arrayrecord: random records in groups of any size, damaged bytes, cut files, and files
   whose numbers are wrong on purpose.  Reads and opened chunks are counted. */
#include <sys/uio.h>
#include <zstd.h>

#include "loaders/formats/riegeli.h"
#include "pipeline/care.h"
#include "tests/loaders/arrayrecord.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_arrayrecord;

enum { RECORDS = 60, RECORD = 3000, FILES_MAX = 120 };

/* ---- the oracle ---- */

static struct {
  uint8_t data[RECORD];
  size_t n;
  int group;
} wrote[RECORDS];
static int n_wrote, n_groups;
static size_t group_at[RECORDS], group_end[RECORDS];

/* ---- what is read and opened ---- */

static int n_opened, n_read;
static int64_t last_opened;

mr_shard_group_fn __real_mr_riegeli_group, __wrap_mr_riegeli_group;
mr_err_t __wrap_mr_riegeli_group(uint8_t *data, int64_t at, int64_t size, mr_shard_group_t *out,
                                 mr_diag_t *diag) {
  n_opened++, last_opened = at;
  return __real_mr_riegeli_group(data, at, size, out, diag);
}

ssize_t __real_preadv2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *v, int n, off_t at, int flags) {
  n_read++;
  return __real_preadv2(fd, v, n, at, flags);
}

/* ---- writing ---- */

static void add_packed(image_t *o, const image_t *plain) {
  size_t most = ZSTD_compressBound(plain->n), at = o->n;
  ar_varint(o, plain->n), at = o->n;
  image_add(o, NULL, most);
  o->n = at + ZSTD_compress(o->at + at, most, plain->at, plain->n, 1);
}

/* The same data compressed by zstd, whose two buffers begin with their sizes. */
static image_t pack(const void *values, const size_t *size, int n) {
  image_t sizes = {0}, packed = {0}, data = {0};
  size_t bytes = 0;
  for (int i = 0; i < n; i++) ar_varint(&sizes, size[i]), bytes += size[i];
  add_packed(&packed, &sizes);
  image_add(&data, "z", 1), ar_varint(&data, packed.n), image_add(&data, packed.at, packed.n);
  add_packed(&data, &(image_t){(uint8_t *)values, bytes, 0});
  free(sizes.at), free(packed.at);
  return data;
}

static ar_out_t write_records(round_t *r) {
  ar_out_t o = {0};
  int most = 1 + draw(r, 20);
  bool large = one_in(r, 3);
  n_wrote = 2 + draw(r, RECORDS - 2), n_groups = 0;
  for (int first = 0, n; first < n_wrote; first += n, n_groups++) {
    image_t values = {0};
    size_t size[RECORDS];
    n = 1 + draw(r, most);
    if (n > n_wrote - first) n = n_wrote - first;
    for (int i = 0; i < n; i++) {
      size_t some = one_in(r, 9) ? 0 : (size_t)draw(r, large ? RECORD : 30);
      wrote[first + i].n = size[i] = some, wrote[first + i].group = n_groups;
      for (size_t k = 0; k < some; k++) wrote[first + i].data[k] = (uint8_t)(round_bits(r) & 7);
      image_add(&values, wrote[first + i].data, some);
    }
    image_t data = one_in(r, 2) ? pack(values.at, size, n) : ar_plain(values.at, size, n);
    group_at[n_groups] = o.file.n ? o.file.n : 64;
    ar_records(&o, (uint64_t)n, values.n, &data);
    group_end[n_groups] = o.file.n;
    if (one_in(r, 8)) ar_pad_block(&o.file);
    if (one_in(r, 8)) ar_chunk(&o.file, 'm', 0, 0, "about", 5);
    free(values.at), free(data.at);
  }
  ar_end(&o);
  write_file("r.ar", o.file.at, o.file.n);
  return o;
}

static char *files_setting(void) {
  static char files[FILES_MAX];
  snprintf(files, sizeof files, "files=%s", in_folder("r.ar"));
  return files;
}

#define RAW "fields=__record__:r"

static void check_record(const round_t *r, const mr_rec_t *rec, int64_t i) {
  const mr_value_t *v = rec->field;
  round_check(r, v->rows == (int64_t)wrote[i].n && !memcmp(v->data, wrote[i].data, wrote[i].n),
              "record %d", (int)i);
  for (int k = 0; k < 64; k++) /* zeros follow each value */
    round_check(r, !((uint8_t *)v->data)[v->rows + k], "behind record %d", (int)i);
}

/* ---- tests ---- */

static void random_records_are_read_as_written(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    hand_t h;
    ar_out_t o = write_records(&r);
    round_check(
        &r, hand_open(&h, &mr_stage_arrayrecord, NULL, HAND_SETTINGS(files_setting(), RAW)) >= 0,
        "%s", h.diag.text);
    round_check(&r, h.s.out_spec[0].n_records == n_wrote, "%d", (int)h.s.out_spec[0].n_records);
    burst_t *b = burst_new(&h.s);
    for (int k = 0; k < 10; k++) {
      int64_t index[MR_BURST];
      int n = 1 + draw(&r, MR_BURST), first = draw(&r, n_wrote);
      bool run = one_in(&r, 2);
      for (int i = 0; i < n; i++) index[i] = run ? (first + i) % n_wrote : draw(&r, n_wrote);
      round_check(&r, burst_fetch(&h, k % 2, index, n, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < n; i++) check_record(&r, &b->rec[i], index[i]);
    }
    burst_free(b), shards_close(&h), ar_free(&o);
  }
}

/* Each chunk of a burst is read and opened once, and not again for the bursts behind it. */
static void a_chunk_is_read_and_opened_once(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    hand_t h;
    ar_out_t o = write_records(&r);
    round_check(
        &r, hand_open(&h, &mr_stage_arrayrecord, NULL, HAND_SETTINGS(files_setting(), RAW)) >= 0,
        "%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    int64_t index[MR_BURST];
    n_opened = n_read = 0;
    for (int first = 0, n; first < n_wrote; first += n) { /* in the order of the file */
      n = 1 + draw(&r, MR_BURST);
      if (n > n_wrote - first) n = n_wrote - first;
      for (int i = 0; i < n; i++) index[i] = first + i;
      round_check(&r, burst_fetch(&h, 0, index, n, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < n; i++) check_record(&r, &b->rec[i], index[i]);
    }
    round_check(&r, n_opened == n_groups && n_read == n_groups,
                "%d chunks, %d are opened and %d read", n_groups, n_opened, n_read);
    for (int worker = 1; worker < 4; worker++) { /* in any order */
      bool seen[RECORDS] = {0};
      int groups = 0;
      for (int i = 0; i < MR_BURST; i++) {
        index[i] = draw(&r, n_wrote);
        groups += !seen[wrote[index[i]].group];
        seen[wrote[index[i]].group] = true;
      }
      n_opened = n_read = 0;
      round_check(&r, burst_fetch(&h, worker, index, MR_BURST, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < MR_BURST; i++) check_record(&r, &b->rec[i], index[i]);
      round_check(&r, n_opened == groups && n_read == groups,
                  "%d chunks in a burst, %d are opened and %d read", groups, n_opened, n_read);
      int64_t last = index[MR_BURST - 1]; /* its chunk may be any of the burst's last ones */
      for (int i = 0; i < MR_BURST; i++)
        if ((int64_t)group_at[wrote[index[i]].group] == last_opened) last = index[i];
      n_opened = n_read = 0;
      round_check(&r, burst_fetch(&h, worker, &last, 1, b) >= 0, "%s", h.diag.text);
      check_record(&r, &b->rec[0], last);
      round_check(&r, !n_opened && !n_read, "a chunk that is kept is read again");
    }
    burst_free(b), shards_close(&h), ar_free(&o);
  }
}

/* Counts the records that are bad; each of them is in this group. */
static int count_bad(const round_t *r, hand_t *h, int group) {
  burst_t *b = burst_new(&h->s);
  int bad = 0;
  for (int64_t i = 0; i < n_wrote; i++) {
    mr_err_t e = burst_fetch(h, 0, &i, 1, b);
    if (e >= 0) {
      check_record(r, &b->rec[0], i);
      continue;
    }
    round_check(r, e == MR_ERR_DATA && wrote[i].group == group, "record %d, group %d: %s", (int)i,
                group, h->diag.text);
    bad++;
  }
  burst_free(b);
  return bad;
}

/* One byte of a chunk is changed: its records are bad, and no others, as the footer says where the
   others are.  A block header is not needed. */
static void a_changed_byte_costs_its_chunk(void **state) {
  round_t r = round_first(150);
  while (round_next(&r)) {
    hand_t h;
    ar_out_t o = write_records(&r);
    int group = draw(&r, n_groups), n = 0;
    for (int i = 0; i < n_wrote; i++) n += wrote[i].group == group;
    size_t begin = group_at[group], bytes = group_end[group] - begin;
    size_t at = begin + (size_t)(round_bits(&r) % (one_in(&r, 2) ? bytes : 40)); /* its header */
    bool in_block_header = at % AR_BLOCK < 24;
    o.file.at[at] ^= (uint8_t)(1 + draw(&r, 255));
    write_file("r.ar", o.file.at, o.file.n);
    round_check(
        &r, hand_open(&h, &mr_stage_arrayrecord, NULL, HAND_SETTINGS(files_setting(), RAW)) >= 0,
        "%s", h.diag.text);
    int bad = count_bad(&r, &h, group);
    round_check(&r, bad == (in_block_header ? 0 : n), "byte %zu: %d bad, want %d", at, bad, n);
    shards_close(&h), ar_free(&o);
  }
}

static mr_err_t plan_leniently(hand_t *h) {
  mr_stage_arrayrecord.forget(&h->s);
  ((mr_care_t *)((char *)h->s.state + mr_stage_arrayrecord.source->care))->lenient = true;
  h->diag = (mr_diag_t){0};
  mr_err_t e = mr_stage_arrayrecord.plan(&h->s);
  return e < 0 ? e : mr_stage_arrayrecord.open(&h->s);
}

/* Cut anywhere, a file has no list at its end; the chunks before the cut are whole. */
static void a_cut_file_gives_the_chunks_before_the_cut(void **state) {
  round_t r = round_first(100);
  while (round_next(&r)) {
    hand_t h;
    ar_out_t o = write_records(&r);
    size_t left = 1 + (size_t)(round_bits(&r) % (o.file.n - 1));
    int whole = 0, records = 0;
    while (whole < n_groups && group_end[whole] <= left) whole++;
    for (int i = 0; i < n_wrote; i++) records += wrote[i].group < whole;
    write_file("r.ar", o.file.at, left);
    mr_err_t e = shards_plan(&h, &mr_stage_arrayrecord, HAND_SETTINGS(files_setting(), RAW));
    round_check(&r, e == MR_ERR_DATA, "%zu of %zu: %s", left, o.file.n, h.diag.text);
    if (left >= 64)
      round_check(&r, strstr(h.diag.text, "chunk"), "%s", h.diag.text);
    else
      round_check(&r, strstr(h.diag.text, "is not an ArrayRecord file"), "%s", h.diag.text);
    if (records) {
      e = plan_leniently(&h);
      round_check(&r, e >= 0 && h.s.out_spec[0].n_records == records,
                  "%d, want %d: cut at %zu of %zu, last group at %zu to %zu: %s",
                  (int)h.s.out_spec[0].n_records, records, left, o.file.n, group_at[whole],
                  group_end[whole], h.diag.text);
      n_wrote = records;
      round_check(&r, count_bad(&r, &h, -1) == 0, "a record is bad");
    }
    shards_close(&h), ar_free(&o);
  }
}

/* A file of one chunk with these numbers; its hashes are right. */
static void write_chunk(uint64_t records, uint64_t decoded, const void *data, size_t n) {
  ar_out_t o = {0};
  ar_records(&o, records, decoded, &(image_t){(uint8_t *)data, n, 0});
  ar_end(&o);
  write_file("r.ar", o.file.at, o.file.n);
  ar_free(&o);
}

/* Its record is bad, and the sentence has the piece. */
static void want_bad(const char *piece) {
  hand_t h;
  if (hand_open(&h, &mr_stage_arrayrecord, NULL, HAND_SETTINGS(files_setting(), RAW, "holdout=0")) <
      0)
    fail_msg("%s: %s", piece, h.diag.text);
  burst_t *b = burst_new(&h.s);
  mr_err_t e = burst_fetch(&h, 0, (int64_t[]){0}, 1, b);
  if (e != MR_ERR_DATA || !strstr(h.diag.text, piece))
    fail_msg("want '%s', got %d '%s'", piece, e, h.diag.text);
  burst_free(b), shards_close(&h);
}

#define CHUNK(records, decoded, data) write_chunk(records, decoded, data, sizeof data - 1)

/* Numbers that are wrong although the checksums are right. */
static void numbers_that_lie_are_refused(void **state) {
  uint8_t bomb[200] = "z\x0A\x01", zeros[1 << 16] = {0};
  CHUNK(1, 4, "\0\1\4abcd");
  hand_t h;
  if (hand_open(&h, &mr_stage_arrayrecord, NULL, HAND_SETTINGS(files_setting(), RAW, "holdout=0")) <
      0)
    fail_msg("%s", h.diag.text);
  shards_close(&h);
  CHUNK(1, 5, "\0\1\4abcd"), want_bad("has a damaged list of sizes");
  CHUNK(1, 4, "\0\1\3abcd"), want_bad("sizes of records that do not add up");
  CHUNK(1, 4, "\0\1\5abcd"), want_bad("sizes of records that do not add up");
  CHUNK(2, 4, "\0\1\4abcd"), want_bad("sizes of records that do not add up");
  CHUNK(1, 4, "\0\2\2\2abcd"), want_bad("sizes of records that do not add up");
  CHUNK(1, 4, "\0\x7F\4abcd"), want_bad("has a damaged list of sizes");
  CHUNK(1, 4, "\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1\4abcd"), want_bad("damaged list of sizes");
  CHUNK(1, 4, "\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\2\4abcd"), want_bad("damaged list of sizes");
  CHUNK(2, 4, "\0\12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1abcd"), want_bad("do not add up");
  CHUNK(2, 4, "\0\13\376\377\377\377\377\377\377\377\377\1\6abcd"), want_bad("do not add up");
  CHUNK(1, 4, "q\1\4abcd"), want_bad("compressed by method 0x71");
  CHUNK(1, 4, ""), want_bad("has a damaged list of sizes");
  CHUNK(1, 4, "z\2\1\4\4abcd"), want_bad("is damaged, or holds more than it says");
  CHUNK(1, 1ULL << 40, "\0\1\4abcd"), want_bad("bytes of records, want at most 268435456");
  CHUNK(1, 1ULL << 62, "\0\1\4abcd"), want_bad("has a wrong checksum in its header");
  /* 64 KiB of zeros that say they are four bytes. */
  size_t sizes = ZSTD_compress(bomb + 3, 90, "\4", 1, 1);
  bomb[1] = (uint8_t)(sizes + 1), bomb[3 + sizes] = 4;
  size_t n = ZSTD_compress(bomb + 4 + sizes, 90, zeros, sizeof zeros, 1);
  assert_false(ZSTD_isError(n));
  write_chunk(1, 4, bomb, 4 + sizes + n), want_bad("holds more than it says");
}

/* Snappy's runs and copies, and what leads outside them. */
static void snappy_is_read_and_checked(void **state) {
  hand_t h;
  CHUNK(1, 10, "s\4\1\1\0\12\12\12\10abcd\15\3\0"); /* abc d + copies of 3 behind: 4 + 6 is wrong */
  want_bad("is damaged, or holds another number of bytes");
  CHUNK(1, 10, "s\4\1\1\0\12\12\12\14abcd\11\4"); /* "abcd", then six bytes from four back */
  if (hand_open(&h, &mr_stage_arrayrecord, NULL, HAND_SETTINGS(files_setting(), RAW, "holdout=0")) <
      0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  if (burst_fetch(&h, 0, (int64_t[]){0}, 1, b) < 0) fail_msg("%s", h.diag.text);
  assert_int_equal(b->rec[0].field[0].rows, 10);
  assert_memory_equal(b->rec[0].field[0].data, "abcdabcdab", 10);
  burst_free(b), shards_close(&h);
  CHUNK(1, 10, "s\4\1\1\0\12\12\12\14abcd\11\5"),
      want_bad("is damaged"); /* from before the first */
  CHUNK(1, 10, "s\4\1\1\0\12\12\12\14abcd\11\0"), want_bad("is damaged"); /* from itself */
  CHUNK(1, 10, "s\4\1\1\0\12\12\12\14abcd\31\4"), want_bad("is damaged"); /* too many */
  CHUNK(1, 10, "s\4\1\1\0\12\12\12\374abcd"), want_bad("is damaged");     /* a run of 16 million */
  CHUNK(1, 10, "s\4\1\1\0\12\12\13\14abcd\11\4"), want_bad("is damaged"); /* another size */
}

static void other_files_are_refused(void **state) {
#define WRONG(piece) \
  want_refused(&mr_stage_arrayrecord, HAND_SETTINGS(files_setting(), RAW, "holdout=0"), piece)
  ar_out_t o = {0};
  write_file("r.ar", "", 0);
  WRONG("r.ar: is not an ArrayRecord file");
  write_file("r.ar", "PK\3\4 and more than sixty-four bytes of something that is another format",
             72);
  WRONG("r.ar: is not an ArrayRecord file");
  image_t data = ar_plain("abcd", (size_t[]){4}, 1);
  ar_records(&o, 1, 4, &data);
  size_t at = o.file.n;
  ar_chunk(&o.file, 't', 1, 4, "abcd", 4), ar_end(&o);
  uint64_t row[3] = {at, 4, 1};
  image_add(&o.footer, row, sizeof row);
  write_file("r.ar", o.file.at, o.file.n);
  hand_t h; /* the footer does not list it */
  if (shards_plan(&h, &mr_stage_arrayrecord, HAND_SETTINGS(files_setting(), RAW, "holdout=0")) < 0)
    fail_msg("%s", h.diag.text);
  shards_close(&h);
  ar_end(&o), write_file("r.ar", o.file.at, o.file.n);
  WRONG("is transposed, want records that are not transposed: write the file without");
  ar_free(&o), o = (ar_out_t){0};
  ar_end(&o), write_file("r.ar", o.file.at, o.file.n);
  WRONG("no records");
  ar_free(&o), free(data.at);
}

/* A footer that is not of its file: the file is read from its start, or refused. */
static void a_footer_that_lies_is_not_used(void **state) {
  static const struct {
    uint64_t at, records;
  } lie[] = {{1ULL << 50, 1}, {0, 1}, {64, 1ULL << 55}, {65, 1}, {64, 3}};
  for (size_t i = 0; i < sizeof lie / sizeof *lie; i++) {
    ar_out_t o = {0};
    hand_t h;
    image_t data = ar_plain("abcd", (size_t[]){4}, 1);
    ar_records(&o, 1, 4, &data), ar_records(&o, 1, 4, &data);
    ((uint64_t *)o.footer.at)[0] = lie[i].at, ((uint64_t *)o.footer.at)[2] = lie[i].records;
    ar_end(&o), write_file("r.ar", o.file.at, o.file.n);
    mr_err_t e = hand_open(&h, &mr_stage_arrayrecord, NULL,
                           HAND_SETTINGS(files_setting(), RAW, "holdout=0"));
    if (i < 3) {
      assert_int_equal(e, MR_ERR_DATA);
      assert_non_null(strstr(h.diag.text, "has no list of chunks at its end"));
      assert_true(plan_leniently(&h) >= 0);
      assert_int_equal(h.s.out_spec[0].n_records, 2);
    } else { /* of the first chunk, what is not there is bad */
      burst_t *b = burst_new(&h.s);
      assert_int_equal(e, MR_OK);
      for (int64_t k = i == 4; k < (int64_t)lie[i].records; k++)
        assert_int_equal(burst_fetch(&h, 0, &k, 1, b), MR_ERR_DATA);
      assert_int_equal(burst_fetch(&h, 0, (int64_t[]){(int64_t)lie[i].records}, 1, b), MR_OK);
      burst_free(b);
    }
    shards_close(&h), ar_free(&o), free(data.at);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_records_are_read_as_written),
      cmocka_unit_test(a_chunk_is_read_and_opened_once),
      cmocka_unit_test(a_changed_byte_costs_its_chunk),
      cmocka_unit_test(a_cut_file_gives_the_chunks_before_the_cut),
      cmocka_unit_test(numbers_that_lie_are_refused),
      cmocka_unit_test(snappy_is_read_and_checked),
      cmocka_unit_test(other_files_are_refused),
      cmocka_unit_test(a_footer_that_lies_is_not_used),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
