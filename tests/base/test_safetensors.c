#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/safetensors.h"
#include "base/xio.h"
#include "tests/fault.h"

static char folder[64], path[96];

static const float weights[6] = {1, -2, 3.5f, 0, 1e-30f, 7};
static const mr_bf16_t halves[3] = {0x3F80, 0xC000, 0x7F80};
static const mr_st_tensor_t tensors[] = {
    {.name = "layer.weight", .dtype = MR_F32, .ndim = 2, .dim = {2, 3}, .data = weights},
    {.name = "empty", .dtype = MR_I64, .ndim = 1, .dim = {0}, .data = weights},
    {.name = "a \"quoted\" \xC3\xA9", .dtype = MR_BF16, .ndim = 1, .dim = {3}, .data = halves},
    {.name = "scalar", .dtype = MR_U8, .ndim = 0, .data = "\x2A"},
    {.name = "forward", .dtype = MR_F8_E4M3FN, .ndim = 1, .dim = {2}, .data = "\x38\x7F"},
    {.name = "backward", .dtype = MR_F8_E5M2, .ndim = 1, .dim = {1}, .data = "\x7C"},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };
static const mr_st_meta_t meta[] = {{"step", "351"}, {"data", "\"millrace.xxh3\":\"0\""}};

static int setup(void **state) {
  strcpy(folder, "/tmp/mr-safetensors-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/x.safetensors", folder);
  return 0;
}

static int files_left(void) {
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static int teardown(void **state) {
  unlink(path);
  return rmdir(folder);
}

static void write_sample(void) {
  mr_diag_t diag = {0};
  assert_int_equal(mr_safetensors_write(path, tensors, N_TENSORS, meta, 2, &diag), MR_OK);
}

static mr_err_t try_open(mr_diag_t *diag) {
  mr_safetensors_t *f;
  *diag = (mr_diag_t){0};
  mr_err_t e = mr_safetensors_open(path, &f, diag);
  if (e < 0) assert_null(f);
  mr_safetensors_close(f);
  return e;
}

static void written_tensors_are_read_back(void **state) {
  write_sample();
  mr_safetensors_t *f;
  mr_diag_t diag = {0};
  assert_int_equal(mr_safetensors_open(path, &f, &diag), MR_OK);
  assert_int_equal(mr_safetensors_count(f), N_TENSORS);
  for (int i = 0; i < N_TENSORS; i++) {
    const mr_st_tensor_t *t = mr_safetensors_find(f, tensors[i].name);
    assert_non_null(t);
    assert_int_equal(t->dtype, tensors[i].dtype);
    assert_int_equal(t->ndim, tensors[i].ndim);
    assert_memory_equal(t->dim, tensors[i].dim, sizeof t->dim);
  }
  assert_memory_equal(mr_safetensors_find(f, "layer.weight")->data, weights, sizeof weights);
  assert_memory_equal(mr_safetensors_find(f, tensors[2].name)->data, halves, sizeof halves);
  assert_string_equal(mr_safetensors_at(f, 0)->name, "layer.weight");
  assert_string_equal(mr_safetensors_meta(f, "step"), "351");
  assert_string_equal(mr_safetensors_meta(f, "data"), meta[1].value);
  assert_null(mr_safetensors_meta(f, "stop"));
  assert_null(mr_safetensors_find(f, "layer.weights"));
  mr_safetensors_close(f);
  assert_int_equal(files_left(), 1);
}

static void every_cut_is_noticed(void **state) {
  write_sample();
  void *bytes;
  size_t n;
  mr_diag_t diag = {0};
  assert_int_equal(mr_read_file(path, 1 << 20, &bytes, &n, &diag), MR_OK);
  for (size_t len = 0; len < n; len++) {
    assert_int_equal(truncate(path, (off_t)len), 0);
    assert_int_equal(try_open(&diag), MR_ERR_DATA);
    assert_non_null(strstr(diag.text, path));
    assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
  }
  free(bytes);
}

/* Who opens a file that is open gets the same one, until it changes; the last reader ends it. */
static void an_open_file_is_shared_until_it_changes(void **state) {
  mr_safetensors_t *first, *second, *other;
  mr_diag_t diag = {0};
  write_sample();
  assert_int_equal(mr_safetensors_open(path, &first, &diag), MR_OK);
  assert_int_equal(mr_safetensors_open(path, &second, &diag), MR_OK);
  assert_ptr_equal(first, second);
  mr_safetensors_close(first);
  assert_non_null(mr_safetensors_find(second, tensors[0].name));
  write_sample(); /* another file in its place */
  assert_int_equal(mr_safetensors_open(path, &other, &diag), MR_OK);
  assert_ptr_not_equal(other, second);
  assert_int_equal(truncate(path, 100), 0);
  assert_int_equal(mr_safetensors_open(path, &first, &diag), MR_ERR_DATA);
  mr_safetensors_close(second);
  mr_safetensors_close(other);
  write_sample();
  assert_int_equal(try_open(&diag), MR_OK);
}

static void every_changed_byte_is_noticed(void **state) {
  write_sample();
  void *bytes;
  size_t n;
  mr_diag_t diag = {0};
  assert_int_equal(mr_read_file(path, 1 << 20, &bytes, &n, &diag), MR_OK);
  FILE *file = fopen(path, "r+b");
  for (size_t i = 0; i < n; i++)
    for (int bit = 0; bit < 8; bit++) {
      unsigned char *b = (unsigned char *)bytes + i;
      fseek(file, (long)i, SEEK_SET);
      fputc(*b ^ 1 << bit, file);
      fflush(file);
      if (try_open(&diag) >= 0) fail_msg("byte %zu bit %d changed unnoticed", i, bit);
      fseek(file, (long)i, SEEK_SET);
      fputc(*b, file);
      fflush(file);
    }
  fclose(file);
  assert_int_equal(try_open(&diag), MR_OK);
  free(bytes);
}

/* Writes the sample with the bytes of these tensors changed; before: as versions without hashes of
   tensors wrote it. */
static void write_damaged(const char *const *name, int n_names, bool before) {
  static const char digest_key[] = "\"millrace.xxh3\":\"", hashes_key[] = "\"millrace.hashes\"";
  mr_safetensors_t *f;
  void *bytes;
  size_t n, body;
  char hex[17];
  write_sample();
  assert_int_equal(mr_read_file(path, 1 << 20, &bytes, &n, NULL), MR_OK);
  uint64_t header;
  memcpy(&header, bytes, sizeof header);
  body = 8 + (size_t)header;
  if (before) {
    char *at = memmem(bytes, n, hashes_key, sizeof hashes_key - 1);
    char *digits = memmem(bytes, n, digest_key, sizeof digest_key - 1);
    assert_non_null(at), assert_non_null(digits);
    memcpy(at, "\"millrace.before\"", sizeof hashes_key - 1);
    memset(digits + sizeof digest_key - 1, '0', 16);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
    memcpy(digits + sizeof digest_key - 1, hex, 16);
  }
  assert_int_equal(mr_safetensors_open(path, &f, NULL), MR_OK);
  const char *first = mr_safetensors_at(f, 0)->data;
  for (int i = 0; i < n_names; i++) {
    const char *data = mr_safetensors_find(f, name[i])->data;
    ((char *)bytes)[body + (size_t)(data - first)] ^= 1;
  }
  mr_safetensors_close(f);
  assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
  free(bytes);
}

static void a_damaged_tensor_is_named_with_its_file(void **state) {
  static const char *const name[] = {"layer.weight", "scalar", "forward", "backward",
                                     "a \"quoted\" \xC3\xA9"};
  mr_diag_t diag = {0};
  for (int i = 0; i < 5; i++) {
    write_damaged(&name[i], 1, false);
    assert_int_equal(try_open(&diag), MR_ERR_DATA);
    if (!strstr(diag.text, path) || !strstr(diag.text, name[i]) || !strstr(diag.text, "is damaged"))
      fail_msg("%s: %s", name[i], diag.text);
  }
  write_damaged(name, 3, false);
  assert_int_equal(try_open(&diag), MR_ERR_DATA);
  for (int i = 0; i < 3; i++) assert_non_null(strstr(diag.text, name[i]));
  assert_null(strstr(diag.text, name[3]));
  assert_non_null(strstr(diag.text, "3 tensors are damaged"));
  write_damaged(name, 5, false);
  assert_int_equal(try_open(&diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, ", ..."));
}

static void a_damaged_hash_blames_no_tensor(void **state) {
  static const char key[] = "\"millrace.hashes\":\"";
  const int damaged[] = {0, N_TENSORS - 1};
  void *bytes;
  size_t n;
  mr_diag_t diag = {0};
  write_sample();
  assert_int_equal(mr_read_file(path, 1 << 20, &bytes, &n, NULL), MR_OK);
  char *hashes = memmem(bytes, n, key, sizeof key - 1);
  assert_non_null(hashes);
  hashes += sizeof key - 1;
  for (int i = 0; i < 2; i++) {
    char want[64], *digit = hashes + damaged[i] * 16 + 3, was = *digit;
    *digit = was == '0' ? '1' : '0';
    assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
    assert_int_equal(try_open(&diag), MR_ERR_DATA);
    snprintf(want, sizeof want, "the hash that it has of %s is damaged", tensors[damaged[i]].name);
    if (!strstr(diag.text, want) || !strstr(diag.text, "the tensors are whole"))
      fail_msg("%s, want %s", diag.text, want);
    ((char *)bytes)[n - 1] ^= 1; /* and the last tensor */
    assert_int_equal(mr_write_file(path, bytes, n, NULL), MR_OK);
    assert_int_equal(try_open(&diag), MR_ERR_DATA);
    assert_null(strstr(diag.text, "whole"));
    ((char *)bytes)[n - 1] ^= 1, *digit = was;
  }
  free(bytes);
}

static void a_file_without_hashes_of_its_tensors_is_read_and_checked_as_a_whole(void **state) {
  static const char *const name[] = {"scalar"};
  mr_diag_t diag = {0};
  write_damaged(name, 0, true);
  if (try_open(&diag) < 0) fail_msg("%s", diag.text);
  write_damaged(name, 1, true);
  assert_int_equal(try_open(&diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "changed since it was written"));
}

/* ---- slices ---- */

/* Writes a slice that says it is k of n and has one tensor, and its name into name. */
static void write_slice(const char *tensor, int k, int n, char name[MR_SAFETENSORS_SLICE_NAME]) {
  char place[32], hex[MR_SAFETENSORS_HEX + 1], at[256];
  const mr_st_tensor_t t = {
      .name = tensor, .dtype = MR_F32, .ndim = 1, .dim = {6}, .data = weights};
  const mr_st_meta_t says = {MR_SAFETENSORS_SLICE, place};
  snprintf(place, sizeof place, "%d of %d", k, n);
  assert_int_equal(mr_safetensors_digest("a slice", &t, 1, &says, 1, hex, NULL), MR_OK);
  mr_safetensors_slice_name("x", k, n, hex, name);
  snprintf(at, sizeof at, "%s/%s", folder, name);
  assert_int_equal(mr_safetensors_write(at, &t, 1, &says, 1, NULL), MR_OK);
  assert_true(mr_safetensors_is_slice(name, "x"));
  assert_false(mr_safetensors_is_slice(name, "y"));
}

/* Writes the first file, whose index has these names. */
static void write_first(const char *a, const char *b) {
  char index[3 * MR_SAFETENSORS_SLICE_NAME];
  const mr_st_meta_t says[] = {{"step", "7"}, {MR_SAFETENSORS_SLICES, index}};
  snprintf(index, sizeof index, "%s%s%s", a, b ? "\n" : "", b ? b : "");
  assert_int_equal(mr_safetensors_write(path, tensors, N_TENSORS, says, 2, NULL), MR_OK);
}

static void assert_refused(const char *said) {
  mr_diag_t diag = {0};
  if (try_open(&diag) >= 0 || !strstr(diag.text, said)) fail_msg("%s, want %s", diag.text, said);
}

static void a_file_is_opened_with_the_slices_that_it_names(void **state) {
  char one[MR_SAFETENSORS_SLICE_NAME], two[MR_SAFETENSORS_SLICE_NAME], link[96];
  mr_safetensors_t *f;
  mr_diag_t diag = {0};
  write_slice("of.one", 1, 3, one), write_slice("of.two", 2, 3, two);
  write_first(one, two);
  snprintf(link, sizeof link, "%s/latest", folder);
  assert_int_equal(symlink("x.safetensors", link), 0);
  if (mr_safetensors_open(link, &f, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_safetensors_files(f), 3);
  assert_int_equal(mr_safetensors_count(f), N_TENSORS + 2);
  assert_memory_equal(mr_safetensors_find(f, "of.two")->data, weights, sizeof weights);
  assert_string_equal(mr_safetensors_at(f, N_TENSORS)->name, "of.one");
  assert_string_equal(mr_safetensors_meta(f, "step"), "7");
  mr_safetensors_close(f);
  unlink(link);
}

static void a_header_says_whether_a_file_names_slices(void **state) {
  bool sliced = true;
  mr_diag_t diag = {0};
  write_sample();
  assert_int_equal(mr_safetensors_sliced(path, &sliced, &diag), MR_OK);
  assert_false(sliced);
  write_first("x.1-of-2.0123456789abcdef.safetensors", NULL); /* which is not there */
  assert_int_equal(mr_safetensors_sliced(path, &sliced, &diag), MR_OK);
  assert_true(sliced);
  for (int size = 0; size < 100; size++) {
    assert_int_equal(truncate(path, size), 0);
    assert_int_equal(mr_safetensors_sliced(path, &sliced, NULL), MR_ERR_DATA);
    assert_false(sliced);
  }
  unlink(path);
  assert_int_equal(mr_safetensors_sliced(path, &sliced, NULL), MR_ERR_IO);
}

/* Memory that was given back reads as zeros. */
static void tensors_that_are_written_once_are_given_back(void **state) {
  enum { N = 1 << 18 };
  static float many[N];
  const mr_st_tensor_t t[] = {
      {.name = "small", .dtype = MR_F32, .ndim = 1, .dim = {6}, .data = weights},
      {.name = "many", .dtype = MR_F32, .ndim = 1, .dim = {N}, .data = many}};
  mr_safetensors_t *f;
  void *bytes[2];
  size_t n[2];
  for (int i = 0; i < N; i++) many[i] = (float)i + 1;
  assert_int_equal(mr_safetensors_write(path, t, 2, meta, 1, NULL), MR_OK);
  assert_int_equal(mr_read_file(path, 1 << 24, &bytes[0], &n[0], NULL), MR_OK);
  assert_int_equal(mr_safetensors_open(path, &f, NULL), MR_OK);
  const mr_st_tensor_t of[] = {*mr_safetensors_at(f, 0), *mr_safetensors_at(f, 1)};
  for (int once = 0; once < 2; once++) {
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(mr_safetensors_write_fd(fd, path, of, 2, meta, 1, once, NULL), MR_OK);
    close(fd);
    assert_int_equal(mr_read_file(path, 1 << 24, &bytes[1], &n[1], NULL), MR_OK);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[1]);
    float middle;
    memcpy(&middle, (const char *)of[1].data + sizeof many / 2, sizeof middle);
    assert_float_equal(middle, once ? 0 : N / 2 + 1, 0);
  }
  mr_safetensors_close(f);
  free(bytes[0]);
}

static int newer_files; /* that a run writes, each as one looks for the slice of rank 2 */

/* A run that is at work removes the slices of the file that was read. */
int __real_access(const char *file, int how);
int __wrap_access(const char *file, int how);
int __wrap_access(const char *file, int how) {
  char one[MR_SAFETENSORS_SLICE_NAME], two[MR_SAFETENSORS_SLICE_NAME], tensor[24];
  if (!newer_files || !strstr(file, ".2-of-3.")) return __real_access(file, how);
  snprintf(tensor, sizeof tensor, "newer.%d", --newer_files);
  unlink(file);
  write_slice("of.one", 1, 3, one), write_slice(tensor, 2, 3, two);
  write_first(one, two);
  return __real_access(file, how);
}

static void the_newer_file_is_read_where_slices_are_removed_meanwhile(void **state) {
  enum { MANY = 1000 };
  char one[MR_SAFETENSORS_SLICE_NAME], two[MR_SAFETENSORS_SLICE_NAME];
  mr_safetensors_t *f;
  mr_diag_t diag = {0};
  write_slice("of.one", 1, 3, one), write_slice("of.two", 2, 3, two);
  write_first(one, two);
  newer_files = 3;
  if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(newer_files, 0);
  assert_non_null(mr_safetensors_find(f, "newer.0"));
  assert_int_equal(mr_safetensors_count(f), N_TENSORS + 2);
  mr_safetensors_close(f);
  newer_files = MANY;
  assert_refused("the slice of rank 2 of 3 is missing");
  assert_true(newer_files > MANY / 2); /* the tries are bounded */
  newer_files = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d));)
    if (mr_safetensors_is_slice(e->d_name, "x")) unlinkat(dirfd(d), e->d_name, 0);
  closedir(d);
}

static void slices_that_do_not_belong_to_a_file_are_refused(void **state) {
  char one[MR_SAFETENSORS_SLICE_NAME], two[MR_SAFETENSORS_SLICE_NAME], at[256], to[256];
  char same[MR_SAFETENSORS_SLICE_NAME], other[MR_SAFETENSORS_SLICE_NAME];
  char wrong[MR_SAFETENSORS_SLICE_NAME];
  write_slice("of.one", 1, 3, one), write_slice("of.two", 2, 3, two);
  write_slice("of.one", 2, 3, same), write_slice("scalar", 2, 3, other);
  write_first(one, NULL);
  assert_refused("where that of rank 1 of 2 is wanted"); /* the other is not named */
  write_first(one, one);
  assert_refused("where that of rank 2 of 3 is wanted");
  write_first(two, one);
  assert_refused("where that of rank 1 of 3 is wanted");
  write_first(one, same);
  assert_refused("the tensor of.one is there twice, in the files of rank 1 and of rank 2");
  write_first(one, other);
  assert_refused("the tensor scalar is there twice, in the files of rank 0 and of rank 2");
  write_first(one, "../x.2-of-3.0123456789abcdef.safetensors");
  assert_refused("where that of rank 2 of 3 is wanted");
  write_first(one, "x.2-of-3.0123456789abcdef.safetensors");
  assert_refused("the slice of rank 2 of 3 is missing");
  snprintf(wrong, sizeof wrong, "x.2-of-3.0123456789abcdef.safetensors");
  snprintf(at, sizeof at, "%s/%s", folder, two), snprintf(to, sizeof to, "%s/%s", folder, wrong);
  assert_int_equal(rename(at, to), 0);
  assert_refused("of another step or another run");
  assert_int_equal(rename(to, at), 0);
  write_first(one, two);
  mr_diag_t diag = {0};
  if (try_open(&diag) < 0) fail_msg("%s", diag.text);
  const char *const made[] = {one, two, same, other};
  for (int i = 0; i < 4; i++) {
    snprintf(at, sizeof at, "%s/%s", folder, made[i]);
    unlink(at);
  }
  unlink(path);
}

static void write_raw(const char *header, const void *body, size_t n) {
  FILE *f = fopen(path, "wb");
  uint64_t len = strlen(header);
  fwrite(&len, 8, 1, f);
  fwrite(header, 1, len, f);
  fwrite(body, 1, n, f);
  fclose(f);
}

#define T(shape, from, to) \
  "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void foreign_files_are_read_and_wrong_ones_refused(void **state) {
  static const struct {
    const char *header;
    size_t body;
    mr_err_t want;
    const char *say;
  } cases[] = {
      {"{\"w\":" T("[2]", 0, 8) "}", 8, MR_OK, ""},
      {"{\"b\":" T("[1]", 4, 8) ",\"a\":" T("[1]", 0, 4) "}   ", 8, MR_OK, ""},
      {"{\"__metadata__\":{\"format\":\"pt\"},\"w\":" T("[]", 0, 4) "}", 4, MR_OK, ""},
      {"{}", 0, MR_OK, ""},
      {"{}", 3, MR_ERR_DATA, "belong to no tensor"},
      {"[]", 0, MR_ERR_DATA, "JSON object"},
      {"{\"w\":" T("[2]", 0, 8) "}x", 8, MR_ERR_DATA, "JSON object"},
      {"{\"w\":3}", 0, MR_ERR_DATA, "w is not a tensor"},
      {"{\"w\":" T("[2]", 0, 8) "}", 12, MR_ERR_DATA, "belong to no tensor"},
      {"{\"w\":" T("[2]", 0, 8) "}", 4, MR_ERR_DATA, "outside the file"},
      {"{\"w\":" T("[3]", 0, 8) "}", 8, MR_ERR_DATA, "its shape wants 12"},
      {"{\"w\":" T("[2]", 8, 0) "}", 8, MR_ERR_DATA, "outside the file"},
      {"{\"w\":" T("[-2]", 0, 8) "}", 8, MR_ERR_DATA, "shape"},
      {"{\"w\":" T("[1.5]", 0, 8) "}", 8, MR_ERR_DATA, "shape"},
      {"{\"w\":" T("[4294967296,4294967296,4294967296]", 0, 8) "}", 8, MR_ERR_DATA, "shape"},
      {"{\"w\":" T("[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, MR_ERR_DATA, "shape"},
      {"{\"w\":" T("[1e300]", 0, 8) "}", 8, MR_ERR_DATA, "shape"},
      {"{\"w\":" T("2", 0, 8) "}", 8, MR_ERR_DATA, "shape"},
      {"{\"a\":" T("[1]", 0, 4) ",\"b\":" T("[1]", 0, 4) "}", 4, MR_ERR_DATA, "overlap"},
      {"{\"a\":" T("[1]", 0, 4) ",\"b\":" T("[1]", 8, 12) "}", 12, MR_ERR_DATA, "hole"},
      {"{\"a\":" T("[1]", 0, 4) ",\"a\":" T("[1]", 4, 8) "}", 8, MR_ERR_DATA, "twice"},
      {"{\"w\":{\"dtype\":\"Q4\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, MR_ERR_DATA, "dtype"},
      {"{\"w\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, MR_ERR_DATA, "dtype"},
      {"{\"w\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0]}}", 1, MR_ERR_DATA, "outside"},
      {"{\"__metadata__\":[]}", 0, MR_ERR_DATA, "__metadata__"},
      {"{\"__metadata__\":{\"a\":1}}", 0, MR_ERR_DATA, "not text"},
      {"{\"__metadata__\":{\"millrace.format\":\"1\"}}", 0, MR_ERR_DATA, "digest"},
      /* The key is written with an escape; what looks like it stands at the very end. */
      {"{\"__metadata__\":{\"millrace.xxh\\u0033\":\"0123456789abcdef\"},\"t\":{\"dtype\":\"U8\","
       "\"shape\":[0],\"data_offsets\":[0,0],\"millrace.xxh3\":\"\"}}",
       0, MR_ERR_DATA, "digest"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    static const char zeros[64];
    mr_diag_t diag;
    write_raw(cases[i].header, zeros, cases[i].body);
    if (try_open(&diag) != cases[i].want) fail_msg("%s: %s", cases[i].header, diag.text);
    if (!strstr(diag.text, cases[i].say)) fail_msg("%s: %s", cases[i].header, diag.text);
  }
}

/* What is open holds, whatever another process does to the file: also to one in memory, which is
   mapped as it is if no process can change it. */
static void an_open_file_does_not_change(void **state) {
  for (int way = 0; way < 3; way++) {
    mr_safetensors_t *f;
    mr_diag_t diag = {0};
    char name[64];
    void *bytes;
    size_t n;
    write_sample();
    assert_int_equal(mr_read_file(path, 1 << 20, &bytes, &n, NULL), MR_OK);
    int fd = way ? memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING) : open(path, O_RDWR);
    if (way) assert_int_equal(write(fd, bytes, n), n);
    if (way == 2) assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (mr_safetensors_open(name, &f, &diag) < 0) fail_msg("%d: %s", way, diag.text);
    assert_int_equal(ftruncate(fd, 0), way == 2 ? -1 : 0);
    close(fd);
    const mr_st_tensor_t *t = mr_safetensors_find(f, "layer.weight");
    assert_non_null(t);
    assert_memory_equal(t->data, weights, sizeof weights);
    assert_string_equal(mr_safetensors_meta(f, "step"), "351");
    mr_safetensors_close(f);
    free(bytes);
  }
}

static void a_missing_file_and_a_folder_are_said(void **state) {
  mr_diag_t diag;
  unlink(path);
  assert_int_equal(try_open(&diag), MR_ERR_IO);
  assert_non_null(strstr(diag.text, "No such file"));
  assert_int_equal(mkdir(path, 0777), 0);
  assert_int_equal(try_open(&diag), MR_ERR_IO);
  rmdir(path);
}

static void a_full_disk_leaves_the_older_file(void **state) {
  write_sample();
  static char large[1 << 16];
  mr_st_tensor_t t = {.name = "x", .dtype = MR_U8, .ndim = 1, .dim = {sizeof large}, .data = large};
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur =
      20000; /* a write past this fails with EFBIG, as one on a full disk does with ENOSPC */
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  mr_diag_t diag = {0};
  mr_err_t e = mr_safetensors_write(path, &t, 1, NULL, 0, &diag);
  setrlimit(RLIMIT_FSIZE, &old);
  assert_int_equal(e, MR_ERR_IO);
  assert_non_null(strstr(diag.text, path));
  assert_int_equal(files_left(), 1);
  assert_int_equal(try_open(&diag), MR_OK);
}

/* The disk refuses the call of this number, from 1; 0: none. */
static int refused_call, refused_with, disk_calls;

int __real_sync_file_range(int fd, off_t at, off_t n, unsigned how);
int __wrap_sync_file_range(int fd, off_t at, off_t n, unsigned how);
int __wrap_sync_file_range(int fd, off_t at, off_t n, unsigned how) {
  if (++disk_calls == refused_call) return errno = refused_with, -1;
  return __real_sync_file_range(fd, at, n, how);
}

/* Linux tells a descriptor of an error once: a later fsync of it succeeds. */
static void bytes_that_the_disk_lost_on_the_way_leave_the_older_file(void **state) {
  enum { LARGE = 72 << 20 };
  char *large = calloc(1, LARGE);
  const mr_st_tensor_t t = {.name = "x", .dtype = MR_U8, .ndim = 1, .dim = {LARGE}, .data = large};
  assert_non_null(large);
  disk_calls = 0;
  write_sample();
  assert_int_equal(disk_calls, 0); /* it is too small to be given away in pieces */
  for (refused_call = 1; refused_call <= 3; refused_call++) {
    mr_diag_t diag = {0};
    disk_calls = 0, refused_with = refused_call == 1 ? EIO : ENOSPC;
    assert_int_equal(mr_safetensors_write(path, &t, 1, NULL, 0, &diag), MR_ERR_IO);
    assert_non_null(strstr(diag.text, "cannot write: "));
    assert_non_null(strstr(diag.text, strerror(refused_with)));
    assert_int_equal(disk_calls, refused_call);
    assert_int_equal(files_left(), 1);
    assert_int_equal(try_open(&diag), MR_OK); /* the sample */
  }
  refused_call = 1, refused_with = ESPIPE, disk_calls = 0; /* it cannot, which loses nothing */
  assert_int_equal(mr_safetensors_write(path, &t, 1, NULL, 0, NULL), MR_OK);
  assert_true(disk_calls > 3);
  refused_call = 0;
  free(large);
}

/* ---- large files, which are read in pieces beside a second thread ---- */

enum { LARGE_FILE = (37 << 20) + 5 }; /* more than is cleared ahead, and no whole pages */

ssize_t __real_pread(int fd, void *data, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t n, off_t at) {
  int e = fault_now(true);
  if (e > 0) return errno = e, -1;
  return __real_pread(fd, data, e < 0 ? n / 2 : n, at);
}

/* Writes it with a digest, or as other programs do, and returns its bytes (heap). */
static unsigned char *write_large(bool digest) {
  unsigned char *large = malloc(LARGE_FILE);
  const mr_st_tensor_t t = {
      .name = "x", .dtype = MR_U8, .ndim = 1, .dim = {LARGE_FILE}, .data = large};
  char header[100], length[9] = {96};
  assert_non_null(large);
  for (size_t i = 0; i < LARGE_FILE; i++) large[i] = (unsigned char)(i * 2654435761u >> 13);
  if (digest) {
    assert_int_equal(mr_safetensors_write(path, &t, 1, NULL, 0, NULL), MR_OK);
    return large;
  }
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  int n = snprintf(header, sizeof header,
                   "{\"x\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", LARGE_FILE,
                   LARGE_FILE);
  assert_true(n <= 96);
  fwrite(length, 8, 1, f);
  fprintf(f, "%-96s", header);
  fwrite(large, LARGE_FILE, 1, f);
  assert_int_equal(fclose(f), 0);
  return large;
}

static void a_large_file_is_read_whole_whatever_pieces_come(void **state) {
  static const fault_kind_t kind[] = {FAULT_SHORT, FAULT_EINTR};
  for (int digest = 0; digest < 2; digest++) {
    unsigned char *large = write_large(digest);
    for (int i = 0; i < 8; i++) {
      mr_safetensors_t *f;
      mr_diag_t diag = {0};
      fault_set(i / 2 + 1, kind[i % 2], false);
      if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
      assert_int_equal(fault.times, 1);
      assert_memory_equal(mr_safetensors_find(f, "x")->data, large, LARGE_FILE);
      mr_safetensors_close(f);
    }
    fault_set(0, FAULT_EIO, false);
    free(large);
  }
}

static void a_disk_that_fails_within_a_large_file_is_said(void **state) {
  mr_diag_t diag;
  free(write_large(true));
  fault_set(0, FAULT_EIO, false);
  assert_int_equal(try_open(&diag), MR_OK);
  long calls = fault.calls;
  assert_true(calls > 8);
  for (long k = 1; k <= calls; k++) {
    fault_set(k, FAULT_EIO, false);
    assert_int_equal(try_open(&diag), MR_ERR_IO);
    assert_non_null(strstr(diag.text, path));
    assert_non_null(strstr(diag.text, strerror(EIO)));
  }
  fault_set(0, FAULT_EIO, false);
}

static void a_changed_byte_of_a_large_file_is_noticed_in_each_piece(void **state) {
  struct stat st;
  mr_diag_t diag;
  unsigned char b;
  free(write_large(true));
  int fd = open(path, O_RDWR | O_CLOEXEC);
  assert_true(fd >= 0 && fstat(fd, &st) == 0);
  for (off_t at = st.st_size - 1; at > 4096; at -= (4 << 20) - 1) {
    assert_int_equal(pread(fd, &b, 1, at), 1);
    b ^= 1;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    assert_int_equal(try_open(&diag), MR_ERR_DATA);
    assert_non_null(strstr(diag.text, "tensor x is damaged"));
    b ^= 1;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
  }
  close(fd);
  assert_int_equal(try_open(&diag), MR_OK);
}

static void a_folder_that_is_not_there_is_said(void **state) {
  mr_diag_t diag = {0};
  assert_int_equal(mr_safetensors_write("/nowhere/at/all.safetensors", tensors, 1, NULL, 0, &diag),
                   MR_ERR_IO);
  assert_non_null(strstr(diag.text, "/nowhere/at/all.safetensors"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_tensors_are_read_back),
      cmocka_unit_test(every_cut_is_noticed),
      cmocka_unit_test(an_open_file_is_shared_until_it_changes),
      cmocka_unit_test(every_changed_byte_is_noticed),
      cmocka_unit_test(a_damaged_tensor_is_named_with_its_file),
      cmocka_unit_test(a_damaged_hash_blames_no_tensor),
      cmocka_unit_test(a_file_without_hashes_of_its_tensors_is_read_and_checked_as_a_whole),
      cmocka_unit_test(a_file_is_opened_with_the_slices_that_it_names),
      cmocka_unit_test(a_header_says_whether_a_file_names_slices),
      cmocka_unit_test(tensors_that_are_written_once_are_given_back),
      cmocka_unit_test(the_newer_file_is_read_where_slices_are_removed_meanwhile),
      cmocka_unit_test(slices_that_do_not_belong_to_a_file_are_refused),
      cmocka_unit_test(foreign_files_are_read_and_wrong_ones_refused),
      cmocka_unit_test(an_open_file_does_not_change),
      cmocka_unit_test(a_missing_file_and_a_folder_are_said),
      cmocka_unit_test(a_full_disk_leaves_the_older_file),
      cmocka_unit_test(bytes_that_the_disk_lost_on_the_way_leave_the_older_file),
      cmocka_unit_test(a_large_file_is_read_whole_whatever_pieces_come),
      cmocka_unit_test(a_disk_that_fails_within_a_large_file_is_said),
      cmocka_unit_test(a_changed_byte_of_a_large_file_is_noticed_in_each_piece),
      cmocka_unit_test(a_folder_that_is_not_there_is_said),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
