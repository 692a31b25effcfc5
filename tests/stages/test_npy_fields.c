/* The npy stage with fields of any names: random records of random shapes and types, ragged ones
   among them, read back in every order against the arrays themselves; and files that lie. */
#include <unistd.h>

#include "base/npy.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "stages/stages.h"
#include "tests/random.h"
#include "tests/vectors.h"

enum { FIELDS = 5, SEEN = 8192, ID_BASE = 7000 };

static char folder[64];

static const char *in_folder(const char *name) {
  static char path[4][128];
  static int at;
  at = (at + 1) % 4;
  snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
  return path[at];
}

static void save(const char *name, mr_dtype_t dtype, int ndim, const int64_t *dim,
                 const void *data) {
  mr_diag_t d = {0};
  if (mr_npy_save(in_folder(name), dtype, ndim, dim, data, &d) < 0) fail_msg("%s", d.text);
}

/* ---- the oracle: what a test has written ---- */

typedef struct array {
  mr_dtype_t dtype;
  int ndim;       /* of a record */
  int64_t dim[3]; /* of a record; ragged: dim[0] means nothing */
  bool ragged;
  size_t row;      /* bytes of a record, or of a row */
  int64_t *offset; /* [n + 1] ragged */
  uint8_t *data;
} array_t;

static struct {
  int64_t n;
  int n_fields, n_labels; /* n_labels: 1 if records have a label behind the fields */
  array_t field[FIELDS];
  int32_t *label;
} wrote;

static uint64_t key_seen[SEEN];
static int n_seen;

static const round_t *now; /* whose records run; NULL: of files that are to be refused */

static bool is_right(const mr_spec_t *spec, const mr_buf_t *b, int f, int i, int64_t key) {
  const array_t *a = &wrote.field[f];
  const mr_buf_field_t *got = &b->field[f];
  const char *data = got->data;
  if (spec->field[f].dtype != a->dtype || spec->field[f].ndim != a->ndim) return false;
  if (!a->ragged) return !memcmp(data + (size_t)i * a->row, a->data + (size_t)key * a->row, a->row);
  int64_t first = got->offset[i], rows = got->offset[i + 1] - first;
  return rows == a->offset[key + 1] - a->offset[key] &&
         !memcmp(data + (size_t)first * a->row, a->data + (size_t)a->offset[key] * a->row,
                 (size_t)rows * a->row);
}

/* In a thread of the graph. */
static mr_err_t check_step(mr_stage_t *s) {
  const mr_spec_t *spec = &s->in_spec[0];
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  if (!now) return mr_buf_unref(b), MR_OK;
  round_check(now, spec->n_fields == wrote.n_fields + wrote.n_labels, "%d", spec->n_fields);
  round_check(now, n_seen + b->n <= SEEN, "%d", n_seen);
  for (int i = 0; i < b->n; i++) {
    int64_t key = (int64_t)b->key[i] - ID_BASE;
    round_check(now, key >= 0 && key < wrote.n, "record %lld", (long long)key);
    for (int f = 0; f < wrote.n_fields; f++)
      round_check(now, is_right(spec, b, f, i, key), "f%d of %lld", f, (long long)key);
    if (wrote.n_labels)
      round_check(now, ((int32_t *)b->field[wrote.n_fields].data)[i] == wrote.label[key],
                  "label of %lld", (long long)key);
    key_seen[n_seen++] = (uint64_t)key;
  }
  mr_buf_unref(b);
  return MR_OK;
}
static const mr_stage_def_t check = {.name = "check",
                                     .help = "Compares every byte.",
                                     .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
                                     .step = &(const mr_step_def_t){.run = check_step}};
static const mr_stage_def_t *const own[] = {&check, NULL};
static mr_registry_t reg;

/* Runs graph text from batch `first` of the stage "bat" on. */
static mr_err_t run(const char *text, int64_t first, mr_diag_t *d) {
  mr_graph_t *g = mr_graph_create(&reg);
  *d = (mr_diag_t){0};
  n_seen = 0;
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, d);
  if (e >= 0) e = mr_graph_settle(g, d);
  if (e >= 0 && first) e = mr_graph_start_number(g, "bat", first, d);
  if (e >= 0) e = mr_graph_run(g, d);
  mr_graph_destroy(g);
  return e;
}

/* ---- random records ---- */

static void fill(round_t *r, array_t *a, size_t bytes) {
  a->data = malloc(bytes + 1);
  assert_non_null(a->data);
  for (size_t i = 0; i < bytes; i++)
    a->data[i] = (uint8_t)(a->dtype == MR_BOOL ? draw(r, 2) : draw(r, 256));
}

static void write_even(round_t *r, array_t *a, const char *file) {
  int64_t dim[4] = {wrote.n};
  memcpy(dim + 1, a->dim, sizeof a->dim);
  fill(r, a, (size_t)wrote.n * a->row);
  save(file, a->dtype, a->ndim + 1, dim, a->data);
}

static void write_ragged(round_t *r, array_t *a, const char *file, const char *offsets) {
  int most = 1 + draw(r, one_in(r, 4) ? 200 : 9);
  a->offset = calloc((size_t)wrote.n + 1, sizeof *a->offset);
  for (int64_t i = 0; i < wrote.n; i++)
    a->offset[i + 1] = a->offset[i] + (one_in(r, 3) ? 0 : draw(r, most + 1));
  a->dim[0] = a->offset[wrote.n];
  fill(r, a, (size_t)a->dim[0] * a->row);
  save(file, a->dtype, a->ndim, a->dim, a->data);
  save(offsets, MR_I64, 1, (int64_t[]){wrote.n + 1}, a->offset);
}

static void draw_array(round_t *r, array_t *a, bool ragged) {
  static const mr_dtype_t dtypes[] = {MR_BOOL, MR_U8,  MR_I32, MR_U32, MR_I64,
                                      MR_U64,  MR_F16, MR_F32, MR_F64};
  *a = (array_t){.dtype = dtypes[draw(r, sizeof dtypes / sizeof *dtypes)],
                 .ndim = ragged ? 1 + draw(r, 3) : draw(r, 4),
                 .ragged = ragged};
  a->row = mr_dtype_size(a->dtype);
  for (int i = 0; i < a->ndim; i++) {
    a->dim[i] = 1 + draw(r, 5);
    if (!ragged || i) a->row *= (size_t)a->dim[i];
  }
}

/* Writes random files; into text[0,n): the stage that reads them. */
static void write_records(round_t *r, char *text, size_t n) {
  char fields[512] = "", ragged[512] = "";
  wrote.n = 1 + draw(r, 300), wrote.n_fields = 1 + draw(r, FIELDS);
  wrote.n_labels = one_in(r, 3);
  int n_even = draw(r, wrote.n_fields + 1);
  for (int f = 0; f < wrote.n_fields; f++) {
    array_t *a = &wrote.field[f];
    char file[24], offsets[24], *list = f < n_even ? fields : ragged;
    sprintf(file, "%d.npy", f), sprintf(offsets, "%d-at.npy", f);
    draw_array(r, a, f >= n_even);
    if (a->ragged)
      write_ragged(r, a, file, offsets);
    else
      write_even(r, a, file);
    size_t at = strlen(list);
    snprintf(list + at, sizeof fields - at, "%sf%d:%s", at ? "," : "", f, in_folder(file));
    at = strlen(list);
    if (a->ragged) snprintf(list + at, sizeof fields - at, ":%s", in_folder(offsets));
  }
  size_t at =
      (size_t)snprintf(text, n, "npy id-base=%d%s%s%s%s", ID_BASE, *fields ? " fields=" : "",
                       fields, *ragged ? " ragged=" : "", ragged);
  if (!wrote.n_labels) return;
  wrote.label = calloc((size_t)wrote.n, sizeof *wrote.label);
  for (int64_t i = 0; i < wrote.n; i++) wrote.label[i] = draw(r, 7);
  save("labels.npy", MR_I32, 1, &wrote.n, wrote.label);
  snprintf(text + at, n - at, " labels=%s classes=7", in_folder("labels.npy"));
}

static void forget(void) {
  for (int f = 0; f < wrote.n_fields; f++) free(wrote.field[f].data), free(wrote.field[f].offset);
  free(wrote.label);
  memset(&wrote, 0, sizeof wrote);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void must(round_t *r, const char *text, int64_t first) {
  mr_diag_t d;
  mr_err_t e = run(text, first, &d);
  round_check(r, e >= 0, "%s: %s", text, d.text);
}

/* All of them, each once an epoch: the shards and parts together. */
static void parts_make_the_whole(round_t *r, const char *npy) {
  static const char *const part[][2] = {
      {"%s ! sequential shard=0/2 whole-shards", "%s ! sequential shard=1/2 whole-shards"},
      {"%s split=train holdout=1 ! shuffle seed=3 epochs=1", "%s split=valid holdout=1"},
      {"%s ! slice ::2", "%s ! slice 1::2"}};
  int k = draw(r, 3), n = 0;
  uint64_t key[SEEN];
  if (wrote.n < 2) return;
  for (int i = 0; i < 2; i++) {
    char stream[2048], text[2304];
    snprintf(stream, sizeof stream, part[k][i], npy);
    snprintf(text, sizeof text, "%s ! batch 7 name=bat ! check", stream);
    must(r, text, 0);
    memcpy(key + n, key_seen, (size_t)n_seen * sizeof *key), n += n_seen;
  }
  qsort(key, (size_t)n, sizeof *key, by_value);
  round_check(r, n == wrote.n, "%d records of %lld", n, (long long)wrote.n);
  for (int i = 0; i < n; i++) round_check(r, key[i] == (uint64_t)i, "record %d", i);
}

/* The same records in the same order, however they are read and wherever the stream starts. */
static void orders_hold(round_t *r, const char *npy) {
  static const char *const how[] = {"memory=0", "memory=0 backend=mmap", "memory=0 backend=pread",
                                    "memory=500", "read-ahead=false memory=0"};
  static uint64_t whole[SEEN];
  char text[2304];
  int batch = 1 + draw(r, 9), seed = draw(r, 1000);
  snprintf(text, sizeof text, "%s ! shuffle seed=%d epochs=3 ! batch %d name=bat ! check", npy,
           seed, batch);
  must(r, text, 0);
  int n = n_seen;
  round_check(r, n == 3 * wrote.n, "%d records of 3 x %lld", n, (long long)wrote.n);
  memcpy(whole, key_seen, (size_t)n * sizeof *whole);
  snprintf(text, sizeof text,
           "%s %s ! shuffle seed=%d epochs=3 ! batch %d name=bat workers=%d ! "
           "check",
           npy, how[draw(r, 5)], seed, batch, 1 + draw(r, 3));
  must(r, text, 0);
  round_check(r, n_seen == n && !memcmp(whole, key_seen, (size_t)n * sizeof *whole), "%s", text);
  int64_t an_epoch = (wrote.n + batch - 1) / batch, first = draw(r, (int)(3 * an_epoch));
  must(r, text, first);
  int64_t passed = first / an_epoch * wrote.n + first % an_epoch * batch;
  round_check(r, n_seen == n - passed, "%d records from batch %lld on", n_seen, (long long)first);
  round_check(r, !memcmp(whole + passed, key_seen, (size_t)n_seen * sizeof *whole), "%s", text);
}

static void random_records_come_as_they_were_written(void **state) {
  round_t r = round_first(40);
  for (now = &r; round_next(&r); forget()) {
    char npy[1536];
    write_records(&r, npy, sizeof npy);
    orders_hold(&r, npy);
    parts_make_the_whole(&r, npy);
  }
}

/* ---- what is refused ---- */

enum { N = 6, ROWS = 12 };
static const int64_t good_offsets[N + 1] = {0, 3, 3, 4, 9, 11, ROWS};

static void write_plain(void) {
  static float x[N][4], y[N];
  static int32_t rows[ROWS];
  for (int i = 0; i < ROWS; i++) rows[i] = i;
  save("x.npy", MR_F32, 2, (int64_t[]){N, 4}, x);
  save("y.npy", MR_F32, 1, (int64_t[]){N}, y);
  save("rows.npy", MR_I32, 1, (int64_t[]){ROWS}, rows);
  save("at.npy", MR_I64, 1, (int64_t[]){N + 1}, good_offsets);
}

/* Text with each "@" written as the folder. */
static const char *spelled(const char *text) {
  static char out[4096];
  size_t at = 0;
  for (; *text && at + sizeof folder + 1 < sizeof out; text++)
    at += *text == '@' ? (size_t)sprintf(out + at, "%s/", folder)
                       : (size_t)sprintf(out + at, "%c", *text);
  return out;
}

static void refuses(const char *npy, const char *piece) {
  char text[8192];
  mr_diag_t d;
  snprintf(text, sizeof text, "npy %s ! batch 2 name=bat ! check", spelled(npy));
  assert_true(run(text, 0, &d) < 0);
  if (!strstr(d.text, piece) || !strstr(d.text, "npy")) fail_msg("%s: %s", npy, d.text);
}

static void words_that_name_no_field_are_refused(void **state) {
  static const char *const row[][2] = {
      {"fields=x", "setting fields: \"x\": want NAME:FILE.npy"},
      {"fields=x:", "setting fields: \"x:\": want NAME:FILE.npy"},
      {"fields=:@x.npy", "want NAME:FILE.npy"},
      {"fields=9x:@x.npy", "setting fields: \"9x\": want NAME"},
      {"fields=x:@x.npy,", "setting fields: \"\": want NAME:FILE.npy"},
      {"fields=x:@x.npy,x:@y.npy", "two fields would be named x"},
      {"fields=image:@x.npy images=@x.npy", "two fields would be named image"},
      {"fields=label:@x.npy labels=@at.npy", "two fields would be named label"},
      {"fields=x:@x.npy ragged=x:@rows.npy:@at.npy", "two fields would be named x"},
      {"ragged=t:@rows.npy", "want NAME:VALUES.npy:OFFSETS.npy"},
      {"ragged=t:@rows.npy:", "want NAME:VALUES.npy:OFFSETS.npy"},
      {"ragged=t::@at.npy", "want NAME:VALUES.npy:OFFSETS.npy"},
      {"fields=x:@x.npy classes=4",
       "setting classes: applies to labels, and these records have none"},
      {"fields=x:@x.npy names=@n", "setting names: applies to labels"},
      {"fields=a:@y.npy,b:@y.npy,c:@y.npy,d:@y.npy,e:@y.npy,f:@y.npy,g:@y.npy,h:@y.npy,i:@y.npy,"
       "j:@y.npy,k:@y.npy,l:@y.npy,m:@y.npy,n:@y.npy,o:@y.npy,p:@y.npy,q:@y.npy",
       "want at most 16 fields"},
      {"fields=x:@x.npy,y:@no.npy", "no.npy: cannot open"},
      {"fields=x:@x.npy,t:@rows.npy", "rows.npy: is of 12 records, want 6, one for each record of"},
      {"fields=x:@x.npy labels=@y.npy", "y.npy: holds f32[6], want whole numbers [6]"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) refuses(row[i][0], row[i][1]);
}

static void offsets_that_lie_are_refused(void **state) {
  static const struct {
    int at;
    int64_t value;
    const char *piece;
  } row[] = {{0, 1, "at.npy: offset 0 is 1, want offsets that begin at 0"},
             {0, -1, "offset 0 is -1"},
             {3, 2, "offset 3 is 2"},
             {3, INT64_MIN, "offset 3 is -9223372036854775808"},
             {3, INT64_MAX, "offset 3 is 9223372036854775807"},
             {5, ROWS + 1, "offset 5 is 13"},
             {6, ROWS - 1, "offset 6 is 11, the last one"},
             {6, ROWS + 1, "offset 6 is 13, the last one, want"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int64_t offset[N + 1];
    memcpy(offset, good_offsets, sizeof offset);
    offset[row[i].at] = row[i].value;
    save("at.npy", MR_I64, 1, (int64_t[]){N + 1}, offset);
    refuses("ragged=t:@rows.npy:@at.npy", row[i].piece);
  }
  save("at.npy", MR_I64, 1, (int64_t[]){1}, good_offsets);
  refuses("ragged=t:@rows.npy:@at.npy", "want offsets, i8 (N+1,) with N at least 1");
  save("at.npy", MR_I64, 2, (int64_t[]){N + 1, 1}, good_offsets);
  refuses("ragged=t:@rows.npy:@at.npy", "want offsets, i8 (N+1,)");
  save("at.npy", MR_F64, 1, (int64_t[]){N + 1}, good_offsets);
  refuses("ragged=t:@rows.npy:@at.npy", "want offsets, i8 (N+1,)");
  save("at.npy", MR_I64, 1, (int64_t[]){N}, good_offsets);
  refuses("ragged=t:@rows.npy:@at.npy", "offset 5 is 11, the last one, want");
  write_plain();
  refuses("fields=y:@y.npy ragged=t:@rows.npy:@no.npy", "no.npy: cannot open");
  save("y.npy", MR_F32, 1, (int64_t[]){N - 1}, (float[N]){0});
  refuses("fields=y:@y.npy ragged=t:@rows.npy:@at.npy", "at.npy: is of 6 records, want 5");
  write_plain();
  save("rows.npy", MR_I32, 0, NULL, (int32_t[]){1});
  refuses("ragged=t:@rows.npy:@at.npy", "rows.npy: want values (rows, ...)");
  save("rows.npy", MR_I32, 2, (int64_t[]){ROWS, 0}, "");
  refuses("ragged=t:@rows.npy:@at.npy", "rows.npy: want values (rows, ...)");
  write_plain();
}

/* With on-bad= others replace them. */
static void bears(const char *npy) {
  char text[8192];
  mr_diag_t d;
  snprintf(text, sizeof text, "npy %s on-bad=skip-replace ! batch 2 name=bat ! check",
           spelled(npy));
  if (run(text, 0, &d) < 0) fail_msg("%s: %s", npy, d.text);
}

static void bools_are_zeros_and_ones(void **state) {
  static uint8_t flag[ROWS];
  flag[4] = 2;
  for (int k = 0; k < 2; k++) {
    save("y.npy", MR_BOOL, 1, (int64_t[]){N}, flag);
    refuses(k ? "fields=y:@y.npy memory=0" : "fields=y:@y.npy",
            "y.npy: holds a bool of value 2, want 0 or 1");
    save("rows.npy", MR_BOOL, 1, (int64_t[]){ROWS}, flag);
    refuses(k ? "ragged=t:@rows.npy:@at.npy memory=0" : "ragged=t:@rows.npy:@at.npy",
            "rows.npy: holds a bool of value 2, want 0 or 1");
    bears(k ? "fields=y:@y.npy memory=0" : "fields=y:@y.npy");
    bears(k ? "ragged=t:@rows.npy:@at.npy memory=0" : "ragged=t:@rows.npy:@at.npy");
  }
  write_plain();
}

/* Neither a value nor an offset is trusted to be what it was when the graph was planned. */
static void files_that_change_before_they_are_opened_are_refused(void **state) {
  static const int64_t longer[N + 1] = {0, 0, 0, 0, 0, 0, ROWS}, fallen[N + 1] = {0, 5, 3};
  static const struct {
    const char *file, *piece;
    int64_t n;
    const void *data;
    mr_dtype_t dtype;
  } row[] = {{"at.npy", "at.npy: has changed since the graph was planned", N + 1, longer, MR_I64},
             {"at.npy", "at.npy: offset 2 is 3", N + 1, fallen, MR_I64},
             {"at.npy", "at.npy", N, longer, MR_I64},
             {"rows.npy", "rows.npy", ROWS - 1, longer, MR_I32},
             {"x.npy", "x.npy", N, longer, MR_F32}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    for (int kept = 0; kept < 2; kept++) {
      char text[8192];
      mr_diag_t d = {0};
      mr_graph_t *g = mr_graph_create(&reg);
      snprintf(text, sizeof text, "npy %s memory=%d ! batch 2 ! check",
               spelled("fields=x:@x.npy ragged=t:@rows.npy:@at.npy"), kept ? -1 : 0);
      assert_int_equal(mr_graph_parse(g, text, NULL, 0, &d), MR_OK);
      assert_int_equal(mr_graph_settle(g, &d), MR_OK);
      save(row[i].file, row[i].dtype, 1, &row[i].n, row[i].data);
      assert_true(mr_graph_run(g, &d) < 0);
      if (!strstr(d.text, row[i].piece)) fail_msg("%s: %s", row[i].file, d.text);
      mr_graph_destroy(g);
      write_plain();
    }
  }
}

static int make_folder(void **state) {
  strcpy(folder, "/tmp/millrace-fields-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  write_plain();
  return 0;
}

static int remove_folder(void **state) {
  char name[24];
  for (int f = 0; f < FIELDS; f++) {
    sprintf(name, "%d.npy", f), unlink(in_folder(name));
    sprintf(name, "%d-at.npy", f), unlink(in_folder(name));
  }
  unlink(in_folder("x.npy")), unlink(in_folder("y.npy")), unlink(in_folder("labels.npy"));
  unlink(in_folder("rows.npy")), unlink(in_folder("at.npy"));
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_that_name_no_field_are_refused),
      cmocka_unit_test(offsets_that_lie_are_refused), cmocka_unit_test(bools_are_zeros_and_ones),
      cmocka_unit_test(files_that_change_before_they_are_opened_are_refused),
      cmocka_unit_test(random_records_come_as_they_were_written)};
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, own);
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
