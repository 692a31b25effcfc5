/* The stage table: random tables, quoted in every way, against what was written; damaged bytes; and
   tables that do not fit each other or their settings. */
#include "loaders/formats/table_scan.h"
#include "pipeline/care.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_table;

enum { ROWS = 60, TEXT = 20, WORDS = 5 };

static const char *const words[WORDS] = {"ant", "bee", "bee,r", "cat", "d\"g"}; /* sorted */

static struct {
  int64_t id;
  double price;
  char text[TEXT];
  int n, kind;
} wrote[ROWS];

static const char *const *table_settings(const char *fields) {
  static char files[120], index[100], all_fields[200];
  static const char *all[] = {files, index, all_fields, NULL};
  snprintf(files, sizeof files, "files=%s/t{0..1}.csv", folder);
  snprintf(index, sizeof index, "index=%s/cache", folder);
  snprintf(all_fields, sizeof all_fields, "fields=%s", fields);
  return all;
}

/* A cell, in quotes if it must be or by chance. */
static void add_cell(round_t *r, image_t *o, const char *text, size_t n, char separator) {
  bool quote = one_in(r, 4);
  for (size_t i = 0; i < n; i++) quote |= text[i] == '"' || text[i] == separator || text[i] < ' ';
  if (quote) image_add(o, "\"", 1);
  for (size_t i = 0; i < n; i++) {
    image_add(o, &text[i], 1);
    if (quote && text[i] == '"') image_add(o, "\"", 1);
  }
  if (quote) image_add(o, "\"", 1);
}

static image_t make_table(round_t *r, int first, int end, char separator) {
  static const char *const name[] = {"id", "price, EUR", "text", "kind"};
  image_t o = {0};
  char number[40];
  const char *line = one_in(r, 2) ? "\n" : "\r\n";
  if (one_in(r, 4)) image_add(&o, "\xEF\xBB\xBF", 3);
  for (int c = 0; c < 4; c++) {
    add_cell(r, &o, name[c], strlen(name[c]), separator);
    image_add(&o, c < 3 ? &separator : line, c < 3 ? 1 : strlen(line));
  }
  for (int i = first; i < end; i++) {
    snprintf(number, sizeof number, "%lld", (long long)wrote[i].id);
    add_cell(r, &o, number, strlen(number), separator), image_add(&o, &separator, 1);
    snprintf(number, sizeof number, "%.17g", wrote[i].price);
    add_cell(r, &o, number, strlen(number), separator), image_add(&o, &separator, 1);
    add_cell(r, &o, wrote[i].text, (size_t)wrote[i].n, separator), image_add(&o, &separator, 1);
    add_cell(r, &o, words[wrote[i].kind], strlen(words[wrote[i].kind]), separator);
    if (i + 1 < end || one_in(r, 2)) image_add(&o, line, strlen(line));
    if (one_in(r, 9) && i + 1 < end) image_add(&o, line, strlen(line)); /* an empty line */
  }
  return o;
}

static void draw_table(round_t *r) {
  static const char letter[] = "abc,;\t\"\n\r x\xC3\xA9";
  for (int i = 0; i < ROWS; i++) {
    wrote[i].id = (int64_t)(round_bits(r) >> 8) - (1LL << 54);
    wrote[i].price = (double)draw(r, 1 << 30) / 1024;
    wrote[i].n = draw(r, TEXT), wrote[i].kind = i < WORDS ? i : draw(r, WORDS);
    for (int k = 0; k < wrote[i].n; k++) wrote[i].text[k] = letter[draw(r, (int)sizeof letter - 1)];
  }
}

static void write_tables(round_t *r) {
  char separator = ",;\t"[draw(r, 3)];
  for (int k = 0; k < 2; k++) {
    image_t o = make_table(r, k * ROWS / 2, (k + 1) * ROWS / 2, separator);
    write_file(k ? "t1.csv" : "t0.csv", o.at, o.n);
    free(o.at);
  }
}

static void rows_are_what_was_written(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    hand_t h;
    draw_table(&r), write_tables(&r);
    if (shards_plan(&h, &mr_stage_table, table_settings("id,text,kind:kind:class")) < 0 ||
        h.s.def->open(&h.s) < 0)
      fail_msg("seed %llu: %s", (unsigned long long)r.seed, h.diag.text);
    round_check(&r, h.s.out_spec[0].n_records == ROWS, "%lld records",
                (long long)h.s.out_spec[0].n_records);
    assert_int_equal(h.s.out_spec[0].dataset->n_classes, WORDS);
    burst_t *b = burst_new(&h.s);
    for (int n = 0; n < 40; n++) {
      int64_t i = draw(&r, ROWS);
      if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
      const mr_value_t *v = b->rec[0].field;
      assert_int_equal(*(int64_t *)v[0].data, wrote[i].id);
      round_check(&r,
                  v[1].rows == wrote[i].n && !memcmp(v[1].data, wrote[i].text, (size_t)wrote[i].n),
                  "row %lld: another text", (long long)i);
      assert_int_equal(*(int32_t *)v[2].data, wrote[i].kind);
    }
    burst_free(b), shards_close(&h);
  }
}

static void kinds_of_columns_follow_from_all_cells(void **state) {
  static const char one[] = "a,b,c,label\n1,2,x,7\n-3,4.5,,8\n,5,z,9\n";
  static const char two[] = "a,b,c,label\n5,6,7,3\n";
  hand_t h;
  write_file("t0.csv", one, strlen(one)), write_file("t1.csv", two, strlen(two));
  if (shards_plan(&h, &mr_stage_table, table_settings("a,b,c,label,b:wide:f64")) < 0 ||
      h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  const mr_field_t *f = h.s.out_spec[0].field;
  assert_int_equal(f[0].dtype, MR_F32); /* a missing number makes floats of whole ones */
  assert_int_equal(f[1].dtype, MR_F32);
  assert_true(f[2].ragged && f[2].dim[0] == 1);
  assert_int_equal(f[3].dtype, MR_I32);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){2, 3, 1}, 3, b), MR_OK);
  float missing = *(float *)b->rec[0].field[0].data;
  assert_true(missing != missing && *(float *)b->rec[1].field[0].data == 5);
  assert_true(*(double *)b->rec[2].field[4].data == 4.5);
  assert_int_equal(*(int32_t *)b->rec[1].field[3].data, 3);
  burst_free(b), shards_close(&h);
}

static void want_classes(const char *const *settings, const char *const *want, int n) {
  hand_t h;
  if (shards_plan(&h, &mr_stage_table, settings) < 0) fail_msg("%s", h.diag.text);
  const mr_spec_t *out = h.s.out_spec;
  const mr_classes_t of_dataset = {out->dataset->n_classes, out->dataset->class_name},
                     wanted = {n, want};
  assert_int_equal(out->field[0].n_classes, n);
  assert_true(mr_classes_same(out->field[0].classes, &wanted));
  assert_true(mr_classes_same(&of_dataset, &wanted));
  shards_close(&h);
}

/* Classes that no word is for keep the names that they would have without words. */
static void classes_beyond_the_words_have_names_too(void **state) {
  static const char rows[] = "kind\nred\nblue\ngreen\n", list[] = "a\nb\nc\nd\ne\n";
  static const char *const numbers[] = {"blue", "green", "red", "3", "4", "5", "6"},
                           *const packed[] = {"blue", "green", "red", "d", "e"};
  const char *const *three = table_settings("kind:label:class");
  const char *const seven[] = {three[0], three[1], three[2], "classes=7", NULL};
  write_file("t0.csv", rows, strlen(rows)), write_file("t1.csv", rows, strlen(rows));
  want_classes(three, numbers, 3);
  want_classes(seven, numbers, 7);
  write_file("pack-classes.txt", list, strlen(list));
  want_classes(three, packed, 5);
  assert_int_equal(remove(in_folder("pack-classes.txt")), 0);
}

/* A letter and its mark: one character in the rows, two in the list, and the other way round. */
static void words_are_found_in_names_of_another_form(void **state) {
  static const char rows[] = "kind\ncaf\xC3\xA9\nbee\nn\xCC\x83u\n",
                    list[] = "\xC3\xB1u\ncow\nbee\ncafe\xCC\x81\n";
  static const int want[] = {3, 2, 0};
  hand_t h;
  char names[120];
  snprintf(names, sizeof names, "names=%s", in_folder("names.txt"));
  write_file("t0.csv", rows, strlen(rows)), write_file("t1.csv", rows, strlen(rows));
  write_file("names.txt", list, strlen(list));
  const char *const *three = table_settings("kind:label:class");
  if (shards_plan(&h, &mr_stage_table,
                  (const char *const[]){three[0], three[1], three[2], names, NULL}) < 0 ||
      h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 6; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, want[i % 3]);
  }
  burst_free(b), shards_close(&h);
}

/* Where the list has both forms, each word has its own class. */
static void two_forms_in_names_are_two_classes(void **state) {
  static const char rows[] = "kind\ncaf\xC3\xA9\nbee\ncafe\xCC\x81\n",
                    list[] = "bee\ncaf\xC3\xA9\ncafe\xCC\x81\n";
  static const int want[] = {1, 0, 2};
  hand_t h;
  char names[120];
  snprintf(names, sizeof names, "names=%s", in_folder("names.txt"));
  write_file("t0.csv", rows, strlen(rows)), write_file("t1.csv", rows, strlen(rows));
  write_file("names.txt", list, strlen(list));
  const char *const *three = table_settings("kind:label:class");
  *last_notice = 0;
  if (shards_plan(&h, &mr_stage_table,
                  (const char *const[]){three[0], three[1], three[2], names, NULL}) < 0 ||
      h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_non_null(strstr(last_notice, "names.txt: classes 1 and 2 are one name, "));
  *last_notice = 0;
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 6; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, want[i % 3]);
  }
  burst_free(b), shards_close(&h);
}

static void one_word_in_two_forms_is_said(void **state) {
  static const char one[] = "kind\ncaf\xC3\xA9\n", two[] = "kind\nbee\ncafe\xCC\x81\n";
  hand_t h;
  write_file("t0.csv", one, strlen(one)), write_file("t1.csv", two, strlen(two));
  if (shards_plan(&h, &mr_stage_table, table_settings("kind:label:class")) < 0)
    fail_msg("%s", h.diag.text);
  assert_non_null(strstr(last_notice, "classes 1 and 2 are one name, "));
  *last_notice = 0, shards_close(&h);
  write_file("t1.csv", one, strlen(one));
  if (shards_plan(&h, &mr_stage_table, table_settings("kind:label:class")) < 0)
    fail_msg("%s", h.diag.text);
  assert_string_equal(last_notice, "");
  shards_close(&h);
}

/* The cells that are text lie in the second file alone, those that are not in the first. */
static void numbers_are_words_where_another_file_has_text(void **state) {
  static const char one[] = "x,label\n1,7\n2,\n3,2.5\n", two[] = "x,label\n4,b\n5,7\n";
  static const int want[] = {2, 0, 1, 3, 2}; /* of "", "2.5", "7", "b" */
  hand_t h;
  write_file("t0.csv", one, strlen(one)), write_file("t1.csv", two, strlen(two));
  if (shards_plan(&h, &mr_stage_table, table_settings("label")) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].dataset->n_classes, 4);
  assert_non_null(strstr(last_notice, "\"b\" is no number, so that numbers"));
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 5; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, want[i]);
  }
  burst_free(b), shards_close(&h);
}

/* Rows [first,first+n); `times` of them have one label. */
static void write_rows(const char *name, const char *format, int first, int n, int times) {
  image_t o = {0};
  char row[80];
  image_add(&o, "id,label\n", 9);
  for (int i = first; i < first + n; i++)
    image_add(&o, row, (size_t)snprintf(row, sizeof row, format, i, i / times));
  write_file(name, o.at, o.n);
  free(o.at);
}

/* n different numbers, and then a word. */
static void write_numbers_first(const char *name, int n) {
  image_t o = {0};
  char row[80];
  image_add(&o, "id,label\n", 9);
  for (int i = 0; i < n; i++)
    image_add(&o, row, (size_t)snprintf(row, sizeof row, "%d,%d\n", i, i));
  image_add(&o, "0,x\n", 4);
  write_file(name, o.at, o.n);
  free(o.at);
}

/* A file with fewer rows than counted words has noted all of its texts. */
static void texts_of_many_small_files_are_no_columns(void **state) {
  char name[16], files[120];
  hand_t h;
  for (int k = 0; k < 8; k++) {
    snprintf(name, sizeof name, "m%d.csv", k);
    write_rows(name, "%d,caption %d\n", 2600 * k, 2600, 2);
  }
  snprintf(files, sizeof files, "files=%s/m{0..7}.csv", folder);
  if (shards_plan(&h, &mr_stage_table,
                  (const char *[]){files, "fields=id,label:text:bytes", NULL}) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, 8 * 2600);
  shards_close(&h);
  want_refused(
      &mr_stage_table, (const char *[]){files, "fields=label", NULL},
      "column label has more than 10,000 different words in all files, want it as bytes, or a "
      "column of the classes' numbers, whose names are in names=FILE");
  write_rows("t0.csv", "%d,%d\n", 0, 300, 1), write_rows("t1.csv", "%d,x%d\n", 0, 5, 1);
  want_refused(&mr_stage_table, table_settings("label:label:class"),
               "classes of at most 10,000 different words, fewer in a file of many columns");
  write_numbers_first("t0.csv", 255);
  if (shards_plan(&h, &mr_stage_table, table_settings("label:label:class")) < 0)
    fail_msg("%s", h.diag.text);
  shards_close(&h);
  write_numbers_first("t0.csv", 256);
  want_refused(&mr_stage_table, table_settings("label:label:class"),
               "and none in one that begins with 256 different numbers");
  write_rows("t0.csv", "%d,x%d\n", 0, 20002, 2), write_rows("t1.csv", "%d,x%d\n", 0, 5, 1);
  want_refused(&mr_stage_table, table_settings("label:label:class"), "at most 10,000 different");
  /* other words in each of the files */
  write_rows("t0.csv", "%d,x%d\n", 0, 1024, 1);
  write_rows("t1.csv", "%d,x%d\n", 1024, 1024, 1);
  if (shards_plan(&h, &mr_stage_table, table_settings("label:label:class")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].field[0].n_classes, 2048);
  shards_close(&h);
}

/* As of the classes of ImageNet and of iNaturalist, beside a column of captions. */
static void thousands_of_words_are_classes_in_one_file(void **state) {
  static const int sizes[] = {1000, 9000};
  for (int k = 0; k < 2; k++) {
    hand_t h;
    write_rows("t0.csv", "caption %d,n%08d\n", 0, 2 * sizes[k], 2);
    write_rows("t1.csv", "caption %d,n%08d\n", 0, 5, 1);
    if (shards_plan(&h, &mr_stage_table, table_settings("label:label:class")) < 0 ||
        h.s.def->open(&h.s) < 0)
      fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].field[0].n_classes, sizes[k]);
    burst_t *b = burst_new(&h.s);
    int64_t last = 2 * sizes[k] - 1;
    if (burst_fetch(&h, 0, &last, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, sizes[k] - 1);
    burst_free(b), shards_close(&h);
  }
}

/* Words that hardly come again are no classes: their index is one of rows alone. */
static void captions_take_no_room_in_an_index(void **state) {
  enum { CAPTIONS = 9000, ROW_BYTES = 16 + 24 /* of a record and its part */ };
  char files[120];
  struct stat st;
  hand_t h;
  snprintf(files, sizeof files, "files=%s/t{0..1}.csv", folder);
  write_rows("t0.csv", "caption %d,x%d\n", 0, CAPTIONS, 1);
  write_rows("t1.csv", "caption %d,x%d\n", 0, 5, 1);
  if (shards_plan(&h, &mr_stage_table, HAND_SETTINGS(files, "index=beside", "fields=id,label:x")) <
      0)
    fail_msg("%s", h.diag.text);
  shards_close(&h);
  assert_int_equal(stat(in_folder("t0.csv.mrindex"), &st), 0);
  assert_true(st.st_size < CAPTIONS * ROW_BYTES + 4096);
  want_refused(&mr_stage_table, table_settings("label:label:class"),
               "in one where nearly all cells differ");
}

/* The words of a column of a long name take more bytes in the index than the file has. */
static void an_index_of_many_words_is_not_produced_again(void **state) {
  enum { NAME = 127, ROWS_OF_WORDS = 20000, MANY = 10000 };
  char name[NAME + 1], row[40], fields[NAME + 20];
  struct stat was, is;
  image_t o = {0};
  hand_t h;
  memset(name, 'n', NAME), name[NAME] = 0;
  image_add(&o, name, NAME), image_add(&o, "\n", 1);
  for (int i = 0; i < ROWS_OF_WORDS; i++)
    image_add(&o, row, (size_t)snprintf(row, sizeof row, "w%d\n", i % MANY));
  write_file("t0.csv", o.at, o.n), write_file("t1.csv", o.at, o.n);
  free(o.at);
  snprintf(fields, sizeof fields, "fields=%s:label:class", name);
  for (int k = 0; k < 2; k++) {
    static char files[120];
    snprintf(files, sizeof files, "files=%s/t{0..1}.csv", folder);
    if (shards_plan(&h, &mr_stage_table, HAND_SETTINGS(files, "index=beside", fields)) < 0)
      fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].field[0].n_classes, MANY);
    shards_close(&h);
    assert_int_equal(stat(in_folder("t0.csv.mrindex"), k ? &is : &was), 0);
  }
  assert_int_equal(is.st_ino, was.st_ino); /* each save makes a new file */
  assert_true(is.st_mtim.tv_sec == was.st_mtim.tv_sec && is.st_mtim.tv_nsec == was.st_mtim.tv_nsec);
}

/* Columns of captions that would take all room leave a label its words. */
static void a_column_of_many_words_takes_none_from_one_of_few(void **state) {
  enum { COLUMNS = 3, MANY = 10000, LEFT = 5, LABELS = 10 };
  int room = MR_TABLE_WORDS_ROOM;
  image_t o = {0};
  char row[80];
  hand_t h;
  image_add(&o, "one,two,label\n", 14);
  for (int i = 0; i < 2 * MANY; i++)
    image_add(&o, row,
              (size_t)snprintf(row, sizeof row, "a%d,b%d,c%d\n", i % MANY, i % (room - MANY - LEFT),
                               i % LABELS));
  write_file("t0.csv", o.at, o.n), write_file("t1.csv", o.at, o.n);
  free(o.at);
  if (shards_plan(&h, &mr_stage_table, table_settings("label:label:class")) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].field[0].n_classes, LABELS);
  shards_close(&h);
}

static void a_file_without_rows_changes_nothing(void **state) {
  static const char *const empty[] = {"b,a\n", "b;a;c\n", "a,b", "x\n"};
  static const char rows[] = "a,b\n1,2\n3,4\n";
  for (size_t i = 0; i < 2 * sizeof empty / sizeof *empty; i++) {
    hand_t h;
    write_file(i % 2 ? "t1.csv" : "t0.csv", empty[i / 2], strlen(empty[i / 2]));
    write_file(i % 2 ? "t0.csv" : "t1.csv", rows, strlen(rows));
    if (shards_plan(&h, &mr_stage_table, table_settings("a,b")) < 0 || h.s.def->open(&h.s) < 0)
      fail_msg("beside \"%s\": %s", empty[i / 2], h.diag.text);
    burst_t *b = burst_new(&h.s);
    if (burst_fetch(&h, 0, (int64_t[]){0, 1}, 2, b) < 0) fail_msg("%s", h.diag.text);
    for (int k = 0; k < 2; k++) {
      assert_int_equal(*(int64_t *)b->rec[k].field[0].data, 2 * k + 1);
      assert_int_equal(*(int64_t *)b->rec[k].field[1].data, 2 * k + 2);
    }
    burst_free(b), shards_close(&h);
  }
}

static void whole_numbers_of_64_bits_keep_every_digit(void **state) {
  static const char most[] =
      "id,far\n9223372036854775807,9223372036854775808\n"
      "-9223372036854775808,1\n";
  hand_t h;
  write_file("t0.csv", most, strlen(most)), write_file("t1.csv", "id,far\n", 7);
  if (shards_plan(&h, &mr_stage_table, table_settings("id,far")) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].field[0].dtype, MR_I64);
  assert_int_equal(h.s.out_spec[0].field[1].dtype, MR_F32); /* it has one too large */
  burst_t *b = burst_new(&h.s);
  if (burst_fetch(&h, 0, (int64_t[]){0, 1}, 2, b) < 0) fail_msg("%s", h.diag.text);
  assert_true(*(int64_t *)b->rec[0].field[0].data == INT64_MAX);
  assert_true(*(int64_t *)b->rec[1].field[0].data == INT64_MIN);
  burst_free(b), shards_close(&h);
}

static void damaged_bytes_give_bad_records_or_a_sentence(void **state) {
  round_t r = round_first(200);
  while (round_next(&r)) {
    hand_t h;
    draw_table(&r), write_tables(&r);
    image_t o = make_table(&r, 0, ROWS / 2, ',');
    for (int k = draw(&r, 4); k > 0; k--) o.at[draw(&r, (int)o.n)] = (uint8_t)round_bits(&r);
    if (one_in(&r, 3)) o.n = (size_t)draw(&r, (int)o.n);
    write_file("t0.csv", o.at, o.n), write_file("t1.csv", o.at, o.n);
    mr_err_t e = shards_plan(&h, &mr_stage_table, table_settings("id,text,kind"));
    if (e >= 0) e = h.s.def->open(&h.s);
    burst_t *b = e >= 0 ? burst_new(&h.s) : NULL;
    for (int64_t i = 0; e >= 0 && i < h.s.out_spec[0].n_records; i++) {
      mr_err_t got = burst_fetch(&h, 0, &i, 1, b);
      round_check(&r, got >= 0 || (got == MR_ERR_DATA && strstr(h.diag.text, ".csv: record")), "%s",
                  h.diag.text);
    }
    if (e < 0)
      round_check(&r, strstr(h.diag.text, ".csv") || strstr(h.diag.text, "column"), "%s",
                  h.diag.text);
    if (b) burst_free(b);
    shards_close(&h), free(o.at);
  }
}

static void tables_that_do_not_fit_are_refused(void **state) {
  static const struct {
    const char *first, *second, *fields, *piece;
  } t[] = {{"a,b\n1,2\n", "b,a\n1,2\n", "a", "its first row names other columns"},
           {"a,b\n1,2\n", "a;b\n1;2\n", "a", "its first row names other columns"},
           {"a,,b\n1,2,3\n", "a\n1\n", "a", "its first row names other columns"},
           {"", "a\n1\n", "a", "has no first row"},
           {"a,b\n1,\"2\n", "a,b\n1,2\n", "a", "ends within quotes, in the row at byte 4"},
           {"a,b\n1,x\n", "a,b\n1,2\n", "c", "there is no column c; the first row"},
           {"a,b\n1,x\n", "a,b\n1,2\n", "b:b:i64", "the column holds text, want bytes or class"},
           {"a,b\n", "a,b\n", "a", "no records"}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    write_file("t0.csv", t[i].first, strlen(t[i].first));
    write_file("t1.csv", t[i].second, strlen(t[i].second));
    want_refused(&mr_stage_table, table_settings(t[i].fields), t[i].piece);
  }
}

static void open_table(hand_t *h, const char *text, size_t n, const char *fields) {
  static char files[120], chosen[200];
  snprintf(files, sizeof files, "files=%s", in_folder("people.csv"));
  snprintf(chosen, sizeof chosen, "fields=%s", fields);
  write_file("people.csv", text, n);
  *last_notice = 0;
  if (shards_plan(h, &mr_stage_table,
                  *fields ? HAND_SETTINGS(files, chosen) : HAND_SETTINGS(files, "holdout=0")) < 0 ||
      h->s.def->open(&h->s) < 0)
    fail_msg("%s", h->diag.text);
}

static void tables_as_people_write_them_are_read(void **state) {
  static const char *const text[] = {
      ",x,label\n0,1.5,7\n1,NA,8\n2, 2.5 ,9\n",                     /* pandas, R */
      "row,x,label,\nA,1.5,7,\nB,None,8,\nC,2.5,9,\n",              /* a comma at the end */
      "row,x,label\nA,1.5,7,\nB,null,8,\nC,2.5,9,\n",               /* of the rows alone */
      "\xEF\xBB\xBFrow,x,label\r\nA,1.5,7\r\nB,,8\r\nC,2.5, 9\r\n", /* a spreadsheet */
      "row,x,label\rA,1.5,7 \rB,NaN,8\rC,2.5,9\r",                  /* lines end in a return */
      "\"row\",\"x\",\"label\"\n\"A\",1.5,7\n\"B\",N/A,8\n\"C\",2.5,9\n"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    hand_t h;
    open_table(&h, text[i], strlen(text[i]), "x,label");
    assert_int_equal(h.s.out_spec[0].field[0].dtype, MR_F32);
    assert_int_equal(h.s.out_spec[0].n_records, 3);
    burst_t *b = burst_new(&h.s);
    if (burst_fetch(&h, 0, (int64_t[]){0, 1, 2}, 3, b) < 0) fail_msg("%zu: %s", i, h.diag.text);
    for (int k = 0; k < 3; k++) {
      float x = *(float *)b->rec[k].field[0].data;
      if (k == 1 ? x == x : x != (k ? 2.5f : 1.5f))
        fail_msg("%zu: x of row %d: %g", i, k, (double)x);
      assert_int_equal(*(int32_t *)b->rec[k].field[1].data, 7 + k);
    }
    burst_free(b), shards_close(&h);
  }
  hand_t h;
  open_table(&h, text[1], strlen(text[1]), "");
  assert_int_equal(h.s.out_spec[0].n_fields, 3);
  assert_non_null(strstr(last_notice, "\"column-4\" (it has neither a name nor a value)"));
  shards_close(&h);
  open_table(&h, "x,y\n0x10,1\n0x11,2\n", 18, "x,y"); /* codes, not 16 and 17 */
  assert_true(h.s.out_spec[0].field[0].ragged);
  shards_close(&h);
  open_table(&h, "x\nNA\nNA\n", 8, "x"); /* no number says that these are missing ones */
  assert_true(h.s.out_spec[0].field[0].ragged);
  shards_close(&h);
}

/* The cells are the numbers of the columns, from 1 on. */
static void columns_of_one_name_are_called_as_by_pandas(void **state) {
  static const struct {
    const char *head, *fields;
    int n;
    int64_t cell[6];
  } t[] = {
      {"a,a,a.1", "a,a.2:f,a.1:g", 3, {1, 2, 3}},
      {"a,b,a,a.1,a", "a,b,a.2:f,a.1:g,a.3:h", 5, {1, 2, 3, 4, 5}},
      {"a.1,a,a,a.1,a", "a.1:f,a,a.2:g,a.1.1:h,a.3:i", 5, {1, 2, 3, 4, 5}},
      {"a,a,a.2,a", "a,a.1:f,a.2:g,a.3:h", 4, {1, 2, 3, 4}},
      {"a.1.1,a.1,a.1,a,a", "a.1.1:f,a.1:g,a.1.2:h,a,a.2:i", 5, {1, 2, 3, 4, 5}},
      {",column-1", "column-1:f,column-1.1:g", 2, {2, 1}},
      {",column-1,column-1,column-1.1",
       "column-1:f,column-1.3:g,column-1.2:h,column-1.1:i",
       4,
       {2, 1, 3, 4}},
      {"x,column-4,column-4,,column-4.1", "column-4:f,column-4.2:g,column-4.3:h", 3, {2, 3, 4}},
      {"x,,column-2.1,column-2", "column-2.2:f,column-2:g", 2, {2, 4}}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char text[120];
    hand_t h;
    int n = snprintf(text, sizeof text, "%s\n1", t[i].head), cell = 1;
    for (const char *at = t[i].head; (at = strchr(at, ',')); at++)
      n += snprintf(text + n, sizeof text - (size_t)n, ",%d", ++cell);
    open_table(&h, text, (size_t)n, t[i].fields);
    burst_t *b = burst_new(&h.s);
    assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0}, 1, b), MR_OK);
    for (int f = 0; f < t[i].n; f++)
      if (*(int64_t *)b->rec[0].field[f].data != t[i].cell[f])
        fail_msg("%s: field %d is column %d, want %d", t[i].head, f,
                 (int)*(int64_t *)b->rec[0].field[f].data, (int)t[i].cell[f]);
    burst_free(b), shards_close(&h);
  }
}

/* As many columns as a table may have: those of one name find what the others leave. */
static void thousands_of_columns_of_one_name_get_others(void **state) {
  enum { COLUMNS = 8192, FIRST = 4000 /* named a; behind them a.1, a.3, .. */ };
  image_t o = {0};
  char cell[32];
  for (int r = -1; r < 1; r++)
    for (int c = 0; c < COLUMNS; c++) {
      int n = r >= 0      ? snprintf(cell, sizeof cell, "%d", c)
              : c < FIRST ? snprintf(cell, sizeof cell, "a")
                          : snprintf(cell, sizeof cell, "a.%d", 2 * (c - FIRST) + 1);
      image_add(&o, cell, (size_t)n), image_add(&o, c + 1 < COLUMNS ? "," : "\n", 1);
    }
  hand_t h;
  open_table(&h, (char *)o.at, o.n, "a,a.2:f,a.7998:g,a.1:i,a.8383:j");
  static const int64_t want[] = {0, 1, FIRST - 1, FIRST, COLUMNS - 1};
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0}, 1, b), MR_OK);
  for (int f = 0; f < 5; f++) assert_int_equal(*(int64_t *)b->rec[0].field[f].data, want[f]);
  burst_free(b), shards_close(&h), free(o.at);
}

static void thousands_of_columns_are_read(void **state) {
  enum { COLUMNS = 5000, WIDE_ROWS = 3 };
  image_t o = {0};
  char cell[32];
  for (int r = -1; r < WIDE_ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) {
      int n = r < 0 ? snprintf(cell, sizeof cell, "p%d", c)
              : c   ? snprintf(cell, sizeof cell, "%d", r * COLUMNS + c)
                    : snprintf(cell, sizeof cell, "%s", r == 1 ? "dog" : "cat");
      image_add(&o, cell, (size_t)n), image_add(&o, c + 1 < COLUMNS ? "," : "\n", 1);
    }
  hand_t h;
  open_table(&h, (char *)o.at, o.n, "p4999,p0:label:class,p17:x,p17:again:f32");
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){0, 1, 2}, 3, b), MR_OK);
  for (int r = 0; r < WIDE_ROWS; r++) {
    assert_int_equal(*(int64_t *)b->rec[r].field[0].data, r * COLUMNS + 4999);
    assert_int_equal(*(int32_t *)b->rec[r].field[1].data, r == 1);
    assert_int_equal(*(int64_t *)b->rec[r].field[2].data, r * COLUMNS + 17);
    assert_true(*(float *)b->rec[r].field[3].data == (float)(r * COLUMNS + 17));
  }
  burst_free(b), shards_close(&h), free(o.at);
}

/* As many columns as a table may have, without names, each of numbers that i64, f32 and f64 change.
 */
static void all_that_is_noted_of_thousands_of_columns_has_room(void **state) {
  static const char *const cells[] = {"", "007", "", "9007199254740993"};
  enum { COLUMNS = 8192 };
  image_t o = {0};
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < COLUMNS; c++) {
      image_add(&o, cells[r], strlen(cells[r]));
      image_add(&o, c + 1 < COLUMNS ? "," : "\n", 1);
    }
  hand_t h;
  open_table(&h, (char *)o.at, o.n, "column-8192:x");
  assert_int_equal(h.s.out_spec[0].n_records, 3);
  assert_int_equal(h.s.out_spec[0].field[0].dtype, MR_F64); /* f32 changes one */
  assert_non_null(strstr(last_notice, "1 whole number is written with zeros in front"));
  shards_close(&h), free(o.at);
}

static void numbers_that_a_type_changes_are_said(void **state) {
  static const struct {
    const char *text, *fields, *piece; /* "": no notice */
    mr_dtype_t dtype;
  } t[] = {
      {"x,y\n16777217,1\n,1\n", "x", /* f64 holds what f32 does not */
       "1 cell holds no number, so that whole numbers become f64", MR_F64},
      {"x,y\n16777217,1\n,1\n", "x:x:f32", "1 number is not what f32 can hold", MR_F32},
      {"x,y\n16777216,1\n,1\nNA,1\n", "x", "2 cells hold no number", MR_F32},
      {"x,y\n9007199254740993,1\n,1\n", "x", "1 number is not what f64 can hold", MR_F64},
      {"x\n9007199254740993\n", "x", "", MR_I64},
      {"x\n18446744073709551615\n-1\n", "x", "1 number is not what f64 can hold", MR_F64},
      {"x\n1e400\n-2e400\n1\n", "x", "2 numbers are not what f64 can hold", MR_F64},
      {"x\n1e39\n1\n", "x", "", MR_F64},
      {"x\n1e-400\n1\n", "x", "1 number is not what f64 can hold", MR_F64},
      {"x\n1e-50\n1\n", "x", "", MR_F64},
      {"x\n0e5\n0.25\n", "x", "", MR_F32},
      {"x\n16777217.0\n0.25\n", "x", "", MR_F64}, /* as pandas writes whole numbers */
      {"x\n16777216.0\n0.25\n", "x", "", MR_F32},
      {"x\n9007199254740993.00\n0.25\n", "x", "1 number is not what f64", MR_F64},
      {"label\n1\n\"\"\n", "label", "become f32 and are no labels", MR_F32},
      {"label\n1.0\n2.0\n", "label", "become f32 and are no labels", MR_F32},
      {"label\n1.0\n2.0\n", "label:label:f32", "", MR_F32},
      {"x\ninf\n0.1\n", "x", "", MR_F32},
      {"x\n007\n7\n-008\n", "x", "2 whole numbers are written with zeros in front", MR_I64},
      {"label\n000\n1\n", "label", "which a label drops (007 becomes 7)", MR_I32},
      {"x\n007\n7.5\n", "x", "which f32 drops", MR_F32},
      {"x\n0\n-0\n0.5\n", "x", "", MR_F32},
      {"month\n01\n12\n-05\n", "month", "", MR_I64},
      {"x\n007\n7\n", "x:x:i64", "", MR_I64},
      {"\n\r\n\nx\n1\n", "x", "", MR_I64},
      {"label\nant\nNA\n\"\"\n", "label", "the classes \"\", \"NA\" may stand for missing", MR_I32},
      {"label\nant\nbee \nbee\n", "label", "the class \"bee \" differs from another one in blanks",
       MR_I32},
      {"label\n-1\n2.5\n 1e3\n-\n", "label", "\"-\" is no number, so that numbers", MR_I32},
      {"label\n-1\nx\n", "label", "\"x\" is no number", MR_I32},
      {"label\n1\nNA\n(none)\n", "label", "\"(none)\" is no number", MR_I32},
      {"label\nant\n0x10\n", "label", "", MR_I32},
      {"label\nant\nNamibia\nb ee\nbee\n", "label", "", MR_I32}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    hand_t h;
    open_table(&h, t[i].text, strlen(t[i].text), t[i].fields);
    if (h.s.out_spec[0].field[0].dtype != t[i].dtype) fail_msg("%s: another type", t[i].text);
    if (*t[i].piece ? !strstr(last_notice, t[i].piece) : *last_notice)
      fail_msg("%s: '%s', want '%s'", t[i].text, last_notice, t[i].piece);
    shards_close(&h);
  }
}

static void files_that_are_no_csv_are_refused_by_name(void **state) {
  static const struct {
    const char *bytes;
    size_t n;
    const char *piece;
  } t[] = {{"\xFF\xFE\0\0x\0\0\0", 8, "UTF-32"},
           {"\xFF\xFEx\0\n\0", 6, "UTF-16"},
           {"x\0\n\0001\0\n", 8, "UTF-16"},
           {"\x1f\x8b\x08\0...", 7, "packed by gzip"},
           {"PAR1\25\4\25.", 8, "a Parquet file"},
           {"ARROW1\0\0", 8, "an Arrow file"},
           {"{\"a\": 1}\n", 9, "JSON lines"},
           {"[{\"a\": 1},{\"a\": 2}]\n", 20, "but JSON: write it as CSV"},
           {"ORC\x13\0\0\n\5", 8, "an ORC file: write it as CSV"},
           {"PNG\x13,x\n1,2\n", 11, "no CSV file: byte 3 is 0x13, which no text holds"},
           {"x,a\x7F\n1,2\n", 9, "byte 3 is 0x7f"},
           {"sep=;\r\na;b\r\n", 12, "a setting of Excel, sep=;, want"},
           {"sep=;\r\na;b\r\n", 12, "remove it (sed -i 1d)"},
           {"sep=;\na;b\n", 10, "remove it (sed -i 1d)"},
           {"sep=;\ra;b\r", 10, "the columns: remove it"}};
  char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("other.csv"));
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    write_file("other.csv", t[i].bytes, t[i].n);
    want_refused(&mr_stage_table, HAND_SETTINGS(files, "holdout=0"), t[i].piece);
  }
  hand_t h; /* the last one: sed would take all of it for its first line */
  assert_true(shards_plan(&h, &mr_stage_table, HAND_SETTINGS(files, "holdout=0")) < 0);
  assert_null(strstr(h.diag.text, "sed"));
  shards_close(&h);
}

/* Columns may be called as the first bytes of other formats are. */
static void columns_are_called_as_marks_of_other_formats(void **state) {
  static const char *const name[] = {"PAR1", "FEA1", "BZh", "ARROW1", "GGUF", "RIFF"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char text[60];
    hand_t h;
    snprintf(text, sizeof text, "%s,x\n1,2\n3,4\n", name[i]);
    open_table(&h, text, strlen(text), "");
    assert_string_equal(h.s.out_spec[0].field[0].name, name[i]);
    assert_int_equal(h.s.out_spec[0].n_records, 2);
    shards_close(&h);
  }
}

/* What the scan takes for a number is one when it is read. */
static void long_numbers_are_numbers(void **state) {
  for (int n = 60; n <= 140; n += 4) {
    char rows[400];
    hand_t h;
    int size = snprintf(rows, sizeof rows, "a\n7\n0.%0*d\n", n - 2, 5);
    write_file("t0.csv", rows, (size_t)size), write_file("t1.csv", "a\n", 2);
    if (shards_plan(&h, &mr_stage_table, table_settings("a")) < 0 || h.s.def->open(&h.s) < 0)
      fail_msg("%s", h.diag.text);
    const mr_field_t *f = &h.s.out_spec[0].field[0];
    burst_t *b = burst_new(&h.s);
    if (burst_fetch(&h, 0, (int64_t[]){0, 1}, 2, b) < 0) fail_msg("%d: %s", n, h.diag.text);
    assert_int_equal(f->dtype, n < 128 ? MR_F64 : MR_U8); /* f32 has no number so small */
    if (f->dtype == MR_F64) assert_true(*(double *)b->rec[0].field[0].data == 7);
    burst_free(b), shards_close(&h);
  }
}

static void on_bad_is_advised_only_where_it_helps(void **state) {
  static const char *const rows[] = {"a,b\n1,\"2\n", "a,b\n"};
  for (int i = 0; i < 2; i++) {
    hand_t h;
    write_file("t0.csv", rows[i], strlen(rows[i])), write_file("t1.csv", "a,b\n", 4);
    assert_int_equal(shards_plan(&h, &mr_stage_table, table_settings("a")),
                     i ? MR_ERR_CONFIG : MR_ERR_DATA);
    assert_int_equal(strstr(h.diag.text, MR_ON_BAD_ADVICE) != NULL, i == 0);
    shards_close(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_what_was_written),
      cmocka_unit_test(classes_beyond_the_words_have_names_too),
      cmocka_unit_test(words_are_found_in_names_of_another_form),
      cmocka_unit_test(two_forms_in_names_are_two_classes),
      cmocka_unit_test(one_word_in_two_forms_is_said),
      cmocka_unit_test(kinds_of_columns_follow_from_all_cells),
      cmocka_unit_test(numbers_are_words_where_another_file_has_text),
      cmocka_unit_test(texts_of_many_small_files_are_no_columns),
      cmocka_unit_test(thousands_of_words_are_classes_in_one_file),
      cmocka_unit_test(captions_take_no_room_in_an_index),
      cmocka_unit_test(an_index_of_many_words_is_not_produced_again),
      cmocka_unit_test(a_column_of_many_words_takes_none_from_one_of_few),
      cmocka_unit_test(a_file_without_rows_changes_nothing),
      cmocka_unit_test(whole_numbers_of_64_bits_keep_every_digit),
      cmocka_unit_test(damaged_bytes_give_bad_records_or_a_sentence),
      cmocka_unit_test(tables_that_do_not_fit_are_refused),
      cmocka_unit_test(tables_as_people_write_them_are_read),
      cmocka_unit_test(columns_of_one_name_are_called_as_by_pandas),
      cmocka_unit_test(thousands_of_columns_of_one_name_get_others),
      cmocka_unit_test(thousands_of_columns_are_read),
      cmocka_unit_test(all_that_is_noted_of_thousands_of_columns_has_room),
      cmocka_unit_test(numbers_that_a_type_changes_are_said),
      cmocka_unit_test(files_that_are_no_csv_are_refused_by_name),
      cmocka_unit_test(columns_are_called_as_marks_of_other_formats),
      cmocka_unit_test(long_numbers_are_numbers),
      cmocka_unit_test(on_bad_is_advised_only_where_it_helps),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
