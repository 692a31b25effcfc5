/* The stages npz and safetensors: rows of random arrays in several files against what was written;
   damaged bytes; files that hold no rows. */
#include <stdatomic.h>

#include "base/npz.h"
#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_npz, mr_stage_safetensors;
static const mr_stage_def_t *const stage[] = {&mr_stage_npz, &mr_stage_safetensors};
static const char *const ending[] = {"npz", "safetensors"};

/* Comparisons of texts, which the threads that open files make too. */
static atomic_llong n_compared;
int __real_strcmp(const char *a, const char *b);
int __real_strncmp(const char *a, const char *b, size_t n);
int __wrap_strcmp(const char *a, const char *b);
int __wrap_strncmp(const char *a, const char *b, size_t n);
int __wrap_strcmp(const char *a, const char *b) {
  atomic_fetch_add_explicit(&n_compared, 1, memory_order_relaxed);
  return __real_strcmp(a, b);
}
int __wrap_strncmp(const char *a, const char *b, size_t n) {
  atomic_fetch_add_explicit(&n_compared, 1, memory_order_relaxed);
  return __real_strncmp(a, b, n);
}

enum { FILES = 3, ROWS_MAX = 40, ALL = FILES * ROWS_MAX };

static float x[ALL][2][3];
static int64_t id[ALL];
static uint8_t class[ALL];
static int first[FILES + 1];

static void draw_rows(round_t *r) {
  for (int k = 0; k < FILES; k++) first[k + 1] = first[k] + 3 + draw(r, ROWS_MAX - 3);
  for (int i = 0; i < first[FILES]; i++) {
    for (int k = 0; k < 6; k++) x[i][k / 3][k % 3] = (float)draw(r, 999);
    id[i] = (int64_t)round_bits(r), class[i] = (uint8_t)draw(r, 9);
  }
}

/* File k of a stage: three arrays with a row a record, and two without. */
static void write_rows(int s, int k) {
  char path[200];
  float scale[2] = {1, 2};
  int64_t n = first[k + 1] - first[k];
  mr_diag_t d = {0};
  snprintf(path, sizeof path, "%s/p%d.%s", folder, k, ending[s]);
  mr_npz_array_t z[] = {
      {.name = "x", .dtype = MR_F32, .ndim = 3, .dim = {n, 2, 3}, .data = x[first[k]]},
      {.name = "scale", .dtype = MR_F32, .ndim = 1, .dim = {2}, .data = scale},
      {.name = "id", .dtype = MR_I64, .ndim = 1, .dim = {n}, .data = id + first[k]},
      {.name = "one", .dtype = MR_F32, .ndim = 0, .data = scale},
      {.name = "class", .dtype = MR_U8, .ndim = 1, .dim = {n}, .data = class + first[k]}};
  mr_st_tensor_t t[5];
  for (int i = 0; i < 5; i++) {
    t[i] = (mr_st_tensor_t){
        .name = z[i].name, .dtype = z[i].dtype, .ndim = z[i].ndim, .data = z[i].data};
    memcpy(t[i].dim, z[i].dim, sizeof t[i].dim);
  }
  if ((s ? mr_safetensors_write(path, t, 5, NULL, 0, &d) : mr_npz_save(path, z, 5, &d)) < 0)
    fail_msg("%s", d.text);
}

static const char *const *row_settings(int s) {
  static char files[120];
  static const char *all[] = {files, "fields=x,id,class:label", NULL};
  snprintf(files, sizeof files, "files=%s/p{0..%d}.%s", folder, FILES - 1, ending[s]);
  return all;
}

static void rows_are_what_was_written(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    int s = draw(&r, 2);
    hand_t h;
    draw_rows(&r);
    for (int k = 0; k < FILES; k++) write_rows(s, k);
    if (shards_plan(&h, stage[s], row_settings(s)) < 0 || h.s.def->open(&h.s) < 0)
      fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].n_records, first[FILES]);
    burst_t *b = burst_new(&h.s);
    for (int n = 0; n < 20; n++) {
      int64_t i = draw(&r, first[FILES]);
      mr_where_t where = {.file = (char[MR_WHERE_MAX]){0}};
      char want[30];
      if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
      assert_memory_equal(b->rec[0].field[0].data, x[i], sizeof x[i]);
      assert_int_equal(*(int64_t *)b->rec[0].field[1].data, id[i]);
      assert_int_equal(*(int32_t *)b->rec[0].field[2].data, class[i]);
      int k = i < first[1] ? 0 : i < first[2] ? 1 : 2;
      h.s.def->source->where(&h.s, i, &where);
      snprintf(want, sizeof want, "/p%d.%s", k, ending[s]);
      assert_non_null(strstr(where.file, want));
    }
    burst_free(b), shards_close(&h);
  }
}

static void damaged_bytes_never_lead_out_of_the_file(void **state) {
  round_t r = round_first(300);
  while (round_next(&r)) {
    int s = draw(&r, 2);
    hand_t h;
    char name[40];
    void *data;
    size_t n;
    mr_diag_t d = {0};
    draw_rows(&r);
    for (int k = 0; k < FILES; k++) write_rows(s, k);
    snprintf(name, sizeof name, "p1.%s", ending[s]);
    assert_int_equal(mr_read_file(in_folder(name), 1 << 20, &data, &n, &d), MR_OK);
    if (one_in(&r, 4)) n = (size_t)draw(&r, (int)n);
    for (int k = draw(&r, 4); k > 0 && n; k--) {
      size_t near =
          one_in(&r, 2) && n > 400 ? n - 1 - (size_t)draw(&r, 400) : (size_t)draw(&r, (int)n);
      ((uint8_t *)data)[near] = (uint8_t)round_bits(&r);
    }
    write_file(name, data, n);
    mr_err_t e = shards_plan(&h, stage[s], row_settings(s));
    if (e >= 0) e = h.s.def->open(&h.s);
    burst_t *b = e >= 0 ? burst_new(&h.s) : NULL;
    for (int64_t i = 0; e >= 0 && i < h.s.out_spec[0].n_records; i++)
      if (burst_fetch(&h, 0, &i, 1, b) < 0)
        round_check(&r, strstr(h.diag.text, name) != NULL, "%s", h.diag.text);
    if (e < 0)
      round_check(&r, strstr(h.diag.text, name) || strstr(h.diag.text, "column"), "%s",
                  h.diag.text);
    if (b) burst_free(b);
    shards_close(&h), free(data);
  }
}

static void files_without_rows_are_refused(void **state) {
  char files[2][100];
  float one = 1;
  mr_diag_t d = {0};
  mr_npz_array_t z = {.name = "one", .dtype = MR_F32, .data = &one};
  mr_st_tensor_t t = {.name = "one", .dtype = MR_F32, .data = &one};
  assert_int_equal(mr_npz_save(in_folder("none.npz"), &z, 1, &d), MR_OK);
  assert_int_equal(mr_safetensors_write(in_folder("none.safetensors"), &t, 1, NULL, 0, &d), MR_OK);
  for (int s = 0; s < 2; s++) {
    snprintf(files[s], sizeof files[s], "files=%s/none.%s", folder, ending[s]);
    want_refused(stage[s], (const char *const[]){files[s], NULL}, "holds no array with rows");
  }
  write_file("text", "no zip, and no tensors", 22);
  snprintf(files[0], sizeof files[0], "files=%s/text", folder);
  want_refused(stage[0], (const char *const[]){files[0], NULL}, "is not an .npz file");
  want_refused(stage[1], (const char *const[]){files[0], NULL}, "text: ");
}

/* A safetensors file of five tensors by hand, as base/safetensors.h does not write narrow ones. */
static void write_tensors(const char *name) {
  static const char head[] =
      "{\"i\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[0,3]},"
      "\"u\":{\"dtype\":\"U16\",\"shape\":[3,1],\"data_offsets\":[3,9]},"
      "\"s\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[9,15]},"
      "\"c\":{\"dtype\":\"C64\",\"shape\":[3],\"data_offsets\":[15,39]},"
      "\"few\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[39,47]}}";
  uint8_t file[8 + sizeof head - 1 + 47] = {0}, *data = file + sizeof file - 47;
  uint64_t n = sizeof head - 1;
  memcpy(file, &n, 8), memcpy(file + 8, head, n);
  for (int i = 0; i < 3; i++) {
    data[i] = (uint8_t)(-1 - i);
    memcpy(data + 3 + 2 * i, &(uint16_t){(uint16_t)(65535 - i)}, 2);
    memcpy(data + 9 + 2 * i, &(int16_t){(int16_t)(-300 * i)}, 2);
  }
  write_file(name, file, sizeof file);
}

static void narrow_tensors_become_i32_and_the_others_are_named(void **state) {
  char files[100];
  hand_t h;
  snprintf(files, sizeof files, "files=%s/narrow.safetensors", folder);
  write_tensors("narrow.safetensors");
  if (shards_plan(&h, stage[1], (const char *const[]){files, NULL}) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 3);
  assert_non_null(strstr(last_notice, "\"c\" (no field has its type, C64)"));
  assert_non_null(strstr(last_notice, "\"few\" (2 rows, and the records are 3)"));
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 3; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, -1 - i);
    assert_int_equal(*(int32_t *)b->rec[0].field[1].data, 65535 - i);
    assert_int_equal(*(int32_t *)b->rec[0].field[2].data, -300 * i);
  }
  burst_free(b), shards_close(&h);
  want_refused(stage[1], (const char *const[]){files, "fields=c", NULL}, "has its type, C64");
  want_refused(stage[1], (const char *const[]){files, "fields=i,few", NULL},
               "1 array of 3 rows (i) and 1 of 2 (few) are asked for");
  if (shards_plan(&h, stage[1], (const char *const[]){files, "fields=few", NULL}) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, 2);
  shards_close(&h);
}

static void equal_groups_of_row_counts_are_refused_with_both(void **state) {
  char files[100];
  float data[7] = {0};
  mr_diag_t d = {0};
  mr_npz_array_t z[] = {{.name = "a", .dtype = MR_F32, .ndim = 1, .dim = {5}, .data = data},
                        {.name = "b", .dtype = MR_F32, .ndim = 1, .dim = {7}, .data = data},
                        {.name = "c", .dtype = MR_F32, .ndim = 1, .dim = {5}, .data = data},
                        {.name = "d", .dtype = MR_F32, .ndim = 1, .dim = {7}, .data = data}};
  snprintf(files, sizeof files, "files=%s/two.npz", folder);
  assert_int_equal(mr_npz_save(in_folder("two.npz"), z, 4, &d), MR_OK);
  want_refused(stage[0], (const char *const[]){files, NULL},
               "2 arrays of 5 rows (a) and 2 of 7 (b)");
}

/* What the format's reference library (safetensors 0.8.0) says of each file, both readers here say
   too: NULL, it is read. */
static void places_of_tensors_are_judged_as_by_the_reference_library(void **state) {
#define T(name, shape, from, to) \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"
  static const struct {
    const char *head, *piece;
    size_t body;
  } row[] = {
      {"{" T("a", "[4,2]", 0, 32) "," T("b", "[4,2]", 32, 64) "}", NULL, 64},
      {"{" T("b", "[4,2]", 32, 64) "," T("a", "[4,2]", 0, 32) "}", NULL, 64},
      {"{" T("a", "[4,2]", 0, 32) "," T("e", "[4,0]", 32, 32) "}", NULL, 32},
      {"{" T("a", "[4,2]", 0, 32) ",\"__metadata__\":{\"x\":\"y\"}}", NULL, 32},
      {"{" T("a", "[4,2]", 0, 32) "," T("b", "[4,2]", 16, 48) "}", "a hole or an overlap", 48},
      {"{" T("a", "[4,2]", 0, 32) "," T("b", "[4,2]", 0, 32) "}", "a hole or an overlap", 32},
      {"{" T("a", "[4,2]", 0, 32) "," T("b", "[4,2]", 40, 72) "}", "a hole or an overlap", 72},
      {"{" T("a", "[4,2]", 8, 40) "}", "a hole or an overlap", 40},
      {"{" T("a", "[4,2]", 0, 32) "," T("e", "[4,0]", 16, 16) "}", "a hole or an overlap", 32},
      {"{" T("a", "[4,2]", 0, 32) "}", "8 bytes at the end belong to no tensor", 40},
      {"{" T("a", "[4,2]", 0, 32) ",\"__metadata__\":{\"x\":1}}", "", 32},
      {"{" T("a", "[4,2]", 0, 32) "}xx", "", 32}};
#undef T
  char files[100];
  snprintf(files, sizeof files, "files=%s/judged.safetensors", folder);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    uint8_t file[512] = {0};
    uint64_t n = strlen(row[i].head);
    mr_safetensors_t *f;
    mr_diag_t d = {0};
    hand_t h;
    memcpy(file, &n, 8), memcpy(file + 8, row[i].head, n);
    write_file("judged.safetensors", file, 8 + n + row[i].body);
    mr_err_t e = mr_safetensors_open(in_folder("judged.safetensors"), &f, &d);
    mr_safetensors_close(f);
    if ((e >= 0) != !row[i].piece) fail_msg("%s: %s", row[i].head, d.text);
    if (row[i].piece) {
      assert_non_null(strstr(d.text, row[i].piece));
      want_refused(stage[1], (const char *const[]){files, NULL}, row[i].piece);
    } else {
      if (shards_plan(&h, stage[1], (const char *const[]){files, NULL}) < 0)
        fail_msg("%s", h.diag.text);
      shards_close(&h);
    }
  }
}

/* The bytes of n elements in the other order. */
static void swap(void *to, const void *from, size_t n, size_t size) {
  for (size_t i = 0; i < n * size; i++)
    ((uint8_t *)to)[i] = ((const uint8_t *)from)[i / size * size + size - 1 - i % size];
}

/* Written little-endian with swapped bytes, and then said to be big-endian. */
static void elements_of_the_other_byte_order_are_read(void **state) {
  enum { N = 6 };
  static const float value[N][2] = {{1.5f, -2}, {3, 4},     {1e-30f, 6},
                                    {7, 8},     {9, 1e30f}, {0, -0.0f}};
  static const int64_t whole[N] = {1, -2, INT64_MAX, INT64_MIN, 5, 258};
  static const uint32_t label[N] = {0, 1, 2, 3, 2, 1};
  static const int16_t narrow[N] = {1, -1, 258, -32768, 32767, 0};
  float bx[N][2];
  int64_t bid[N];
  uint32_t blabel[N];
  int16_t bnarrow[N][2] = {{0}};
  char files[100];
  void *data;
  size_t n;
  hand_t h;
  mr_diag_t d = {0};
  swap(bx, value, 2 * N, 4), swap(bid, whole, N, 8), swap(blabel, label, N, 4);
  for (int i = 0; i < N; i++) swap(&bnarrow[i / 2][i % 2], &narrow[i], 1, 2);
  mr_npz_array_t z[] = {
      {.name = "x", .dtype = MR_F32, .ndim = 2, .dim = {N, 2}, .data = bx},
      {.name = "id", .dtype = MR_I64, .ndim = 1, .dim = {N}, .data = bid},
      {.name = "label", .dtype = MR_U32, .ndim = 1, .dim = {N}, .data = blabel},
      {.name = "narrow", .dtype = MR_F16, .ndim = 1, .dim = {N}, .data = bnarrow}};
  assert_int_equal(mr_npz_save(in_folder("big.npz"), z, 4, &d), MR_OK);
  assert_int_equal(mr_read_file(in_folder("big.npz"), 1 << 20, &data, &n, &d), MR_OK);
  int found = 0;
  for (char *at = data; (at = memmem(at, (size_t)((char *)data + n - at), "'<", 2)); found++) {
    at[1] = '>';
    if (at[2] == 'f' && at[3] == '2') at[2] = 'i';
  }
  assert_int_equal(found, 4);
  write_file("big.npz", data, n);
  free(data);
  snprintf(files, sizeof files, "files=%s/big.npz", folder);
  if (shards_plan(&h, stage[0], (const char *const[]){files, NULL}) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_fields, 4);
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < N; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_memory_equal(b->rec[0].field[0].data, value[i], sizeof value[i]);
    assert_int_equal(*(int64_t *)b->rec[0].field[1].data, whole[i]);
    assert_int_equal(*(int32_t *)b->rec[0].field[2].data, label[i]);
    assert_int_equal(*(int32_t *)b->rec[0].field[3].data, narrow[i]);
  }
  burst_free(b), shards_close(&h);
}

/* Replaces a piece of a file by another one of its length, everywhere; it is there `times` times.
 */
static void replace_in_file(const char *name, const char *piece, const char *by, int times) {
  void *data;
  size_t n, size = strlen(piece);
  mr_diag_t d = {0};
  assert_int_equal(strlen(by), size);
  assert_int_equal(mr_read_file(in_folder(name), 1 << 28, &data, &n, &d), MR_OK);
  char *at = data, *end = at + n;
  int found = 0;
  for (; (at = memmem(at, (size_t)(end - at), piece, size)); found++) memcpy(at, by, size);
  assert_int_equal(found, times);
  write_file(name, data, n);
  free(data);
}

/* Says of the arrays in a file that they are in Fortran order. */
static void say_fortran(const char *name) {
  static const char c_order[] = "'fortran_order': False";
  void *data;
  size_t n;
  mr_diag_t d = {0};
  assert_int_equal(mr_read_file(in_folder(name), 1 << 28, &data, &n, &d), MR_OK);
  char *at = data, *end = at + n;
  int found = 0;
  for (; (at = memmem(at, (size_t)(end - at), c_order, sizeof c_order - 1)); found++)
    memcpy(at + 17, "True ", 5);
  assert_true(found > 0);
  write_file(name, data, n);
  free(data);
}

static void rows_of_arrays_in_fortran_order_are_put_together(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    int dims = 2 + draw(&r, 3), each = 1;
    bool large = r.seed == 1; /* more than is read together */
    bool whole = draw(&r, 2), swapped = draw(&r, 2);
    int64_t dim[4] = {large ? 6000000 : 2 + draw(&r, 50), 0};
    for (int k = 1; k < dims; k++)
      each *= (int)(dim[k] = large ? (k == 1 ? 3 : 1) : 2 + draw(&r, 4));
    size_t all = (size_t)dim[0] * (size_t)each;
    uint16_t *data = malloc(all * sizeof *data);
    for (size_t i = 0; i < all; i++) data[i] = (uint16_t)(i * 2654435761u >> 7);
    mr_npz_array_t z = {.name = "a", .dtype = MR_F16, .ndim = dims, .data = data};
    memcpy(z.dim, dim, sizeof dim);
    char files[100];
    hand_t h;
    mr_diag_t d = {0};
    assert_int_equal(mr_npz_save(in_folder("turned.npz"), &z, 1, &d), MR_OK);
    say_fortran("turned.npz");
    if (whole) replace_in_file("turned.npz", "'<f2'", "'<i2'", 1);
    if (swapped)
      replace_in_file("turned.npz", whole ? "'<i2'" : "'<f2'", whole ? "'>i2'" : "'>f2'", 1);
    snprintf(files, sizeof files, "files=%s/turned.npz", folder);
    if (shards_plan(&h, stage[0], (const char *const[]){files, NULL}) < 0 ||
        h.s.def->open(&h.s) < 0)
      fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].n_records, dim[0]);
    burst_t *b = burst_new(&h.s);
    for (int n = 0; n < 20; n++) {
      int64_t i = n ? draw(&r, (int)dim[0]) : dim[0] - 1, index[4] = {i};
      if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
      const uint16_t *half = b->rec[0].field[0].data;
      const int32_t *wide = b->rec[0].field[0].data;
      for (int k = 0; k < each; k++) {
        int64_t rest = k, at = 0;
        for (int q = dims - 1; q > 0; q--) index[q] = rest % dim[q], rest /= dim[q];
        for (int q = dims - 1; q >= 0; q--) at = at * dim[q] + index[q];
        uint16_t want = swapped ? (uint16_t)(data[at] << 8 | data[at] >> 8) : data[at];
        round_check(&r, whole ? wide[k] == (int16_t)want : half[k] == want,
                    "record %d, element %d, whole %d, swapped %d", (int)i, k, whole, swapped);
      }
    }
    burst_free(b), shards_close(&h), free(data);
  }
}

static void files_of_both_orders_go_together(void **state) {
  static const float rows[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, turned[2][2] = {{5, 7}, {6, 8}};
  char files[120];
  hand_t h;
  mr_diag_t d = {0};
  mr_npz_array_t z = {.name = "x", .dtype = MR_F32, .ndim = 2, .dim = {2, 2}, .data = rows};
  assert_int_equal(mr_npz_save(in_folder("order0.npz"), &z, 1, &d), MR_OK);
  z.data = turned;
  assert_int_equal(mr_npz_save(in_folder("order1.npz"), &z, 1, &d), MR_OK);
  say_fortran("order1.npz");
  snprintf(files, sizeof files, "files=%s/order{0..1}.npz", folder);
  if (shards_plan(&h, stage[0], (const char *const[]){files, NULL}) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, 4);
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 4; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_memory_equal(b->rec[0].field[0].data, rows[i], sizeof rows[i]);
  }
  burst_free(b), shards_close(&h);
}

/* numpy.load gives the last one. */
static void of_members_of_one_name_the_last_counts(void **state) {
  static const int32_t before[3] = {1, 2, 3}, after[4] = {7, 8, 9, 10};
  char files[100];
  hand_t h;
  mr_diag_t d = {0};
  mr_npz_array_t z[] = {{.name = "a", .dtype = MR_I32, .ndim = 1, .dim = {3}, .data = before},
                        {.name = "a", .dtype = MR_I32, .ndim = 1, .dim = {4}, .data = after}};
  assert_int_equal(mr_npz_save(in_folder("twice.npz"), z, 2, &d), MR_OK);
  snprintf(files, sizeof files, "files=%s/twice.npz", folder);
  if (shards_plan(&h, stage[0], (const char *const[]){files, NULL}) < 0 || h.s.def->open(&h.s) < 0)
    fail_msg("%s", h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, 4);
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 4; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, after[i]);
  }
  burst_free(b), shards_close(&h);
}

/* ---- names of classes ---- */

static const uint32_t ant_bee[2][3] = {{'a', 'n', 't'}, {'b', 0xE9, 0x1F41D}};

/* File `name`: whole numbers in array `numbers`, and the names of their classes in array `list`. */
static void write_classes(const char *name, const char *numbers, const char *list,
                          const uint32_t names[2][3]) {
  static const int16_t label[5] = {0, 1, 1, 0, 1};
  mr_diag_t d = {0};
  mr_npz_array_t z[] = {{.dtype = MR_F16, .ndim = 1, .dim = {5}, .data = label},
                        {.chars = 3, .ndim = 1, .dim = {2}, .data = names}};
  snprintf(z[0].name, sizeof z[0].name, "%s", numbers);
  snprintf(z[1].name, sizeof z[1].name, "%s", list);
  assert_int_equal(mr_npz_save(in_folder(name), z, 2, &d), MR_OK);
  replace_in_file(name, "'<f2'", "'<u2'", 1);
}

static void plan_classes(hand_t *h, const char *name, const char *setting) {
  char files[120];
  snprintf(files, sizeof files, "files=%s/%s", folder, name);
  *last_notice = 0;
  if (shards_plan(h, stage[0], (const char *const[]){files, setting, NULL}) < 0 ||
      h->s.def->open(&h->s) < 0)
    fail_msg("%s", h->diag.text);
}

/* What is too long for an index loses a whole part, not the end of a word. */
static void reasons_end_with_a_word(void **state) {
  hand_t h;
  write_classes("text.npz", "label", "text", ant_bee);
  plan_classes(&h, "text.npz", NULL);
  assert_non_null(strstr(last_notice,
                         "\"text\" (its header: its type is '<U3', want b1 u1 i1 i2 u2 i4 u4 i8 u8 "
                         "f2 f4 or f8): fields= chooses"));
  shards_close(&h);
}

static void texts_of_an_npz_name_the_classes_of_its_numbers(void **state) {
  static const char *const numbers[] = {"label", "cls", "y"};
  for (int i = 0; i < 3; i++) {
    char list[40];
    hand_t h;
    snprintf(list, sizeof list, "%s.classes", numbers[i]);
    write_classes("c0.npz", numbers[i], list, ant_bee);
    plan_classes(&h, "c0.npz", NULL);
    const mr_field_t *f = h.s.out_spec[0].field;
    assert_int_equal(h.s.out_spec[0].n_fields, 1);
    assert_true(f->label && f->classes);
    assert_int_equal(f->classes->n, 2);
    assert_string_equal(f->classes->name[0], "ant");
    assert_string_equal(f->classes->name[1], "b\xC3\xA9\xF0\x9F\x90\x9D");
    assert_int_equal(h.s.out_spec[0].dataset->n_classes, 2);
    assert_string_equal(last_notice, "");
    burst_t *b = burst_new(&h.s);
    if (burst_fetch(&h, 0, (int64_t[]){4}, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, 1);
    burst_free(b), shards_close(&h);
  }
}

static void two_forms_of_a_name_in_an_npz_are_said(void **state) {
  static const uint32_t forms[2][3] = {{'o', 0xE9}, {'o', 'e', 0x301}};
  hand_t h;
  write_classes("c0.npz", "label", "label.classes", forms);
  plan_classes(&h, "c0.npz", NULL);
  assert_int_equal(h.s.out_spec[0].field->classes->n, 2);
  assert_non_null(strstr(last_notice, "c0.npz: label.classes: classes 0 and 1 are one name, "));
  *last_notice = 0, shards_close(&h);
}

static void lists_of_names_that_differ_are_refused(void **state) {
  static const uint32_t other[2][3] = {{'a', 'n', 't'}, {'c', 'a', 't'}};
  char files[120];
  write_classes("c0.npz", "label", "label.classes", ant_bee);
  write_classes("c1.npz", "label", "label.classes", other);
  snprintf(files, sizeof files, "files=%s/c{0..1}.npz", folder);
  want_refused(stage[0], (const char *const[]){files, NULL}, "label.classes calls class 1 b");
  want_refused(stage[0], (const char *const[]){files, NULL}, "in one file and cat in another");
  snprintf(files, sizeof files, "files=%s/c0.npz", folder);
  want_refused(stage[0], (const char *const[]){files, "classes=3", NULL},
               "label.classes has 2 names");
}

/* Each array has the names of its own classes, whatever its field is called. */
static void each_array_keeps_its_own_list_of_names(void **state) {
  static const uint32_t other[3][3] = {{'b', 0xE9, 0x1F41D}, {'c', 'a', 't'}, {'d', 'o', 'g'}};
  static const int32_t label[5] = {0, 1, 1, 0, 1}, second[5] = {0, 2, 1, 2, 0};
  mr_npz_array_t z[] = {{"label", .dtype = MR_I32, .ndim = 1, .dim = {5}, .data = label},
                        {"label.classes", .chars = 3, .ndim = 1, .dim = {2}, .data = ant_bee},
                        {"second", .dtype = MR_I32, .ndim = 1, .dim = {5}, .data = second},
                        {"second.classes", .chars = 3, .ndim = 1, .dim = {3}, .data = other}};
  mr_diag_t d = {0};
  hand_t h;
  assert_int_equal(mr_npz_save(in_folder("c2.npz"), z, 4, &d), MR_OK);
  plan_classes(&h, "c2.npz", NULL);
  const mr_field_t *f = h.s.out_spec[0].field;
  assert_int_equal(h.s.out_spec[0].n_fields, 2);
  assert_true(f[0].label && f[1].label);
  assert_int_equal(f[0].n_classes, 2);
  assert_int_equal(f[1].n_classes, 3);
  assert_string_equal(f[0].classes->name[0], "ant");
  assert_string_equal(f[1].classes->name[2], "dog");
  assert_string_equal(last_notice, "");
  burst_t *b = burst_new(&h.s); /* class 2 of two and of three */
  if (burst_fetch(&h, 0, (int64_t[]){1}, 1, b) < 0) fail_msg("%s", h.diag.text);
  assert_int_equal(*(int32_t *)b->rec[0].field[1].data, 2);
  burst_free(b), shards_close(&h);
  plan_classes(&h, "c2.npz", "fields=second:label");
  assert_string_equal(h.s.out_spec[0].field->classes->name[0], "b\xC3\xA9\xF0\x9F\x90\x9D");
  shards_close(&h);
}

/* names= may rename classes, and not exchange them. */
static void names_that_exchange_classes_are_refused(void **state) {
  static const struct {
    const char *names, *refused, *said;
  } row[] = {{"ant\nb\xC3\xA9\xF0\x9F\x90\x9D\n", NULL, NULL},
             {"ant\nb\xC3\xA9\xF0\x9F\x90\x9D\ncat\n", NULL, NULL},
             {"Ameise\nBiene\n", NULL, "are called Ameise, Biene, as names= says"},
             {"ant\nBiene\n", NULL, "are called ant, Biene, as names= says"},
             {"b\xC3\xA9\xF0\x9F\x90\x9D\nant\n", "one number would mean two classes", NULL},
             {"Biene\nant\n", "c0.npz: label.classes calls the 2 classes ant, b", NULL}};
  char names[160], files[120];
  hand_t h;
  write_classes("c0.npz", "label", "label.classes", ant_bee);
  snprintf(names, sizeof names, "names=%s/names.txt", folder);
  snprintf(files, sizeof files, "files=%s/c0.npz", folder);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    write_file("names.txt", row[i].names, strlen(row[i].names));
    if (row[i].refused) {
      want_refused(stage[0], (const char *const[]){files, names, NULL}, row[i].refused);
      continue;
    }
    plan_classes(&h, "c0.npz", names);
    if (row[i].said ? !strstr(last_notice, row[i].said) : *last_notice != 0)
      fail_msg("row %zu: %s", i, last_notice);
    assert_int_equal(strlen(h.s.out_spec[0].field->classes->name[0]), strcspn(row[i].names, "\n"));
    shards_close(&h);
  }
}

/* Arrays of 5 numbers and lists of names of one byte to three: NULL ends both. */
static void write_lists(const char *name, const char *const *numbers, const int32_t (*value)[5],
                        const char *const *lists) {
  enum { MOST = 6 };
  static uint32_t text[MOST][MOST][8];
  mr_npz_array_t z[MOST] = {0};
  mr_diag_t d = {0};
  int n = 0;
  for (; numbers[n]; n++) {
    z[n] = (mr_npz_array_t){.dtype = MR_I32, .ndim = 1, .dim = {5}, .data = value[n]};
    snprintf(z[n].name, sizeof z[n].name, "%s", numbers[n]);
  }
  for (; *lists; lists += 2, n++) { /* of which array, "ant,bee" */
    int k = 0;
    memset(text[n], 0, sizeof text[n]);
    for (const char *at = lists[1]; *at; at += *at == ',', k++)
      for (int i = 0; *at && *at != ','; i++) text[n][k][i] = (uint32_t)*at++;
    z[n] = (mr_npz_array_t){.chars = 8, .ndim = 1, .dim = {k}, .data = text[n]};
    snprintf(z[n].name, sizeof z[n].name, "%s.classes", *lists);
  }
  assert_int_equal(mr_npz_save(in_folder(name), z, n, &d), MR_OK);
}

static const char *names_setting(const char *names) {
  static char text[160];
  write_file("names.txt", names, strlen(names));
  snprintf(text, sizeof text, "names=%s/names.txt", folder);
  return text;
}

static void names_of_the_setting_replace_lists_that_differ(void **state) {
  static const int32_t value[2][5] = {{0, 1, 1, 0, 1}, {1, 0, 2, 1, 0}};
  const char *const one[] = {"label", NULL}, *const other[] = {"y", NULL},
                    *const two[] = {"label", "coarse", NULL};
  char files[120];
  hand_t h;
  snprintf(files, sizeof files, "files=%s/d{0..1}.npz", folder);
  for (int i = 0; i < 2; i++) {
    const char *const *numbers = i ? other : one;
    write_lists("d0.npz", numbers, value, (const char *[]){*numbers, "ant,bee", NULL});
    write_lists("d1.npz", numbers, value, (const char *[]){*numbers, "ant,wasp", NULL});
    want_refused(stage[0], (const char *const[]){files, NULL},
                 "bee in one file and wasp in another");
    plan_classes(&h, "d{0..1}.npz", names_setting("Ameise\nBiene\n"));
    assert_string_equal(h.s.out_spec[0].field->classes->name[1], "Biene");
    assert_int_equal(h.s.out_spec[0].field->n_classes, 2);
    assert_non_null(strstr(last_notice, "they are called as names= says"));
    shards_close(&h);
  }
  /* a list that names= is not about is dropped */
  write_lists("d0.npz", two, value, (const char *[]){"coarse", "fish,fruit", NULL});
  write_lists("d1.npz", two, value, (const char *[]){"coarse", "fish,game", NULL});
  plan_classes(&h, "d{0..1}.npz", names_setting("ant\nbee\n"));
  assert_non_null(strstr(last_notice, "coarse.classes calls class 1 fruit in one file and game"));
  assert_string_equal(h.s.out_spec[0].field[0].classes->name[1], "bee");
  assert_null(h.s.out_spec[0].field[1].classes);
  assert_int_equal(h.s.out_spec[0].field[1].n_classes, 0);
  shards_close(&h);
  /* nothing is said of an array that is not read */
  plan_classes(&h, "d{0..1}.npz", "fields=label");
  assert_string_equal(last_notice, "");
  shards_close(&h);
}

static void names_of_the_setting_are_those_of_one_array(void **state) {
  static const int32_t value[2][5] = {{0, 5, 9, 2, 7}, {0, 1, 1, 0, 1}},
                       few[2][5] = {{0, 1, 2, 0, 1}, {0, 1, 1, 0, 1}};
  const char *const two[] = {"label", "coarse", NULL};
  hand_t h;
  write_lists("c.npz", two, value, (const char *[]){"coarse", "animal,plant", NULL});
  plan_classes(&h, "c.npz", names_setting("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"));
  const mr_field_t *f = h.s.out_spec[0].field;
  assert_int_equal(f[0].n_classes, 10);
  assert_string_equal(f[0].classes->name[9], "j");
  assert_int_equal(f[1].n_classes, 2);
  assert_string_equal(f[1].classes->name[1], "plant");
  assert_int_equal(h.s.out_spec[0].dataset->n_classes, 10);
  assert_string_equal(last_notice, "");
  burst_t *b = burst_new(&h.s);
  if (burst_fetch(&h, 0, (int64_t[]){2}, 1, b) < 0) fail_msg("%s", h.diag.text);
  assert_int_equal(*(int32_t *)b->rec[0].field[0].data, 9);
  burst_free(b), shards_close(&h);
  write_lists("e.npz", two, few,
              (const char *[]){"label", "apple,bear,fish", "coarse", "fish,fruit", NULL});
  plan_classes(&h, "e.npz", names_setting("apple\nbear\nfish\n"));
  f = h.s.out_spec[0].field;
  assert_string_equal(f[0].classes->name[2], "fish");
  assert_int_equal(f[1].n_classes, 2);
  assert_string_equal(f[1].classes->name[0], "fish");
  assert_string_equal(last_notice, "");
  shards_close(&h);
}

static void a_list_is_about_its_own_array_alone(void **state) {
  static const int32_t value[2][5] = {{0, 5, 9, 2, 7}, {0, 1, 1, 0, 1}};
  static const char *const setting[] = {NULL, "classes=10"};
  char files[120];
  hand_t h;
  write_lists("c.npz", (const char *[]){"label", "coarse", NULL}, value,
              (const char *[]){"coarse", "animal,plant", NULL});
  for (int i = 0; i < 2; i++) {
    plan_classes(&h, "c.npz", setting[i]);
    const mr_field_t *f = h.s.out_spec[0].field;
    assert_int_equal(mr_spec_classes(&h.s.out_spec[0], 0), 10 * i);
    assert_null(f[0].classes);
    assert_int_equal(f[1].n_classes, 2);
    burst_t *b = burst_new(&h.s);
    if (burst_fetch(&h, 0, (int64_t[]){1}, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[0].data, 5);
    burst_free(b), shards_close(&h);
  }
  snprintf(files, sizeof files, "files=%s/c.npz", folder);
  want_refused(stage[0], (const char *const[]){files, "fields=coarse", "classes=10", NULL},
               "coarse.classes has 2 names");
}

static void lists_of_arrays_that_are_not_read_may_differ(void **state) {
  static const int32_t value[2][5] = {{0, 1, 1, 0, 1}, {3, 1, 4, 1, 5}};
  const char *const two[] = {"label", "x", NULL};
  char files[120];
  hand_t h;
  write_lists("d0.npz", two, value, (const char *[]){"label", "ant,bee", NULL});
  write_lists("d1.npz", two, value, (const char *[]){"label", "ant,wasp", NULL});
  snprintf(files, sizeof files, "files=%s/d{0..1}.npz", folder);
  want_refused(stage[0], (const char *const[]){files, NULL}, "bee in one file and wasp in another");
  plan_classes(&h, "d{0..1}.npz", "fields=x");
  assert_int_equal(h.s.out_spec[0].n_records, 10);
  shards_close(&h);
}

/* How many comparisons it takes to plan two files whose lists have n names, one of them for an
   array that is not there, and whose columns have other numbers. */
static long long comparisons_of(int n) {
  static const int32_t label[5] = {0, 1, 1, 0, 1};
  uint32_t(*name)[6] = calloc((size_t)n, sizeof *name);
  assert_non_null(name);
  for (int i = 0; i < n; i++)
    for (int k = 0, v = i; k < 6; k++, v /= 10) name[i][k] = '0' + (uint32_t)(v % 10);
  mr_npz_array_t z[] = {{"more", .dtype = MR_I32, .ndim = 1, .dim = {5}, .data = label},
                        {"label", .dtype = MR_I32, .ndim = 1, .dim = {5}, .data = label},
                        {"label.classes", .chars = 6, .ndim = 1, .dim = {n}, .data = name},
                        {"none.classes", .chars = 6, .ndim = 1, .dim = {n}, .data = name}};
  mr_diag_t d = {0};
  hand_t h;
  assert_int_equal(mr_npz_save(in_folder("n0.npz"), z, 4, &d), MR_OK);
  assert_int_equal(mr_npz_save(in_folder("n1.npz"), z + 1, 3, &d), MR_OK);
  long long before = atomic_load_explicit(&n_compared, memory_order_relaxed);
  plan_classes(&h, "n{0..1}.npz", NULL);
  long long made = atomic_load_explicit(&n_compared, memory_order_relaxed) - before;
  assert_int_equal(h.s.out_spec[0].dataset->n_classes, n);
  shards_close(&h), free(name);
  return made;
}

static void work_grows_as_the_names_of_a_list_do(void **state) {
  long long some = comparisons_of(1500), twice = comparisons_of(3000);
  assert_true(some > 1500);
  if (twice > 3 * some) fail_msg("%lld comparisons of 1500 names, %lld of 3000", some, twice);
}

static void texts_that_name_no_classes_are_named_as_left_out(void **state) {
  static const uint32_t tab[2][3] = {{'a', '\t', 't'}, {'b'}};
  hand_t h;
  write_classes("c0.npz", "label", "other.classes", ant_bee);
  plan_classes(&h, "c0.npz", NULL);
  assert_null(h.s.out_spec[0].field->classes);
  assert_non_null(
      strstr(last_notice, "\"other.classes\" (it names classes, and no array of whole"));
  shards_close(&h);
  write_classes("c0.npz", "label", "label.classes", tab);
  plan_classes(&h, "c0.npz", NULL);
  assert_null(h.s.out_spec[0].field->classes);
  assert_non_null(strstr(last_notice, "\"label.classes\" ("));
  shards_close(&h);
  replace_in_file("c0.npz", "label.classes.npy", "label.classes.txt", 2);
  plan_classes(&h, "c0.npz", NULL);
  assert_non_null(strstr(last_notice, "\"label.classes.txt\" (it is no .npy file)"));
  shards_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reasons_end_with_a_word),
      cmocka_unit_test(texts_of_an_npz_name_the_classes_of_its_numbers),
      cmocka_unit_test(two_forms_of_a_name_in_an_npz_are_said),
      cmocka_unit_test(lists_of_names_that_differ_are_refused),
      cmocka_unit_test(each_array_keeps_its_own_list_of_names),
      cmocka_unit_test(names_that_exchange_classes_are_refused),
      cmocka_unit_test(names_of_the_setting_replace_lists_that_differ),
      cmocka_unit_test(names_of_the_setting_are_those_of_one_array),
      cmocka_unit_test(a_list_is_about_its_own_array_alone),
      cmocka_unit_test(lists_of_arrays_that_are_not_read_may_differ),
      cmocka_unit_test(work_grows_as_the_names_of_a_list_do),
      cmocka_unit_test(texts_that_name_no_classes_are_named_as_left_out),
      cmocka_unit_test(rows_are_what_was_written),
      cmocka_unit_test(damaged_bytes_never_lead_out_of_the_file),
      cmocka_unit_test(files_without_rows_are_refused),
      cmocka_unit_test(narrow_tensors_become_i32_and_the_others_are_named),
      cmocka_unit_test(elements_of_the_other_byte_order_are_read),
      cmocka_unit_test(of_members_of_one_name_the_last_counts),
      cmocka_unit_test(rows_of_arrays_in_fortran_order_are_put_together),
      cmocka_unit_test(files_of_both_orders_go_together),
      cmocka_unit_test(places_of_tensors_are_judged_as_by_the_reference_library),
      cmocka_unit_test(equal_groups_of_row_counts_are_refused_with_both)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
