/* Listings of folders against torchvision's ImageFolder (tests/golden/folder.py), lists in CSV and
   JSON lines, and reading whole files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loaders/formats/folder_list.h"
#include "loaders/local/files.h"
#include "tests/vectors.h"
/* after vectors.h */
#include "tests/random.h"

enum { CLASSES_MAX = 64 };

static char top[] = "/tmp/mr-folder-XXXXXX";

static int make_top(void **state) { return mkdtemp(top) ? 0 : -1; }

static int remove_top(void **state) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf '%s'", top);
  return system(command);
}

/* %XX to bytes, in place. */
static char *unquoted(char *text) {
  char *to = text;
  for (char *at = text; *at; to++) {
    unsigned byte;
    if (*at == '%' && sscanf(at + 1, "%2X", &byte) == 1)
      *to = (char)byte, at += 3;
    else
      *to = *at++;
  }
  *to = 0;
  return text;
}

static void make_entry(const char *folder, const char *kind, const char *path, const char *target) {
  char full[600];
  snprintf(full, sizeof full, "%s/%s", folder, path);
  int e = 0, fd;
  if (!strcmp(kind, "dir")) e = mkdir(full, 0755);
  if (!strcmp(kind, "pipe")) e = mkfifo(full, 0644);
  if (!strcmp(kind, "link")) e = symlink(target, full);
  if (!strcmp(kind, "file")) e = fd = open(full, O_WRONLY | O_CREAT | O_EXCL, 0644), close(fd);
  if (e < 0) fail_msg("%s %s: %s", kind, full, strerror(errno));
}

/* A class's name is its folder's, with marks for bytes that are no printable text. */
static void assert_printable_as(const char *got, const char *want) {
  assert_int_equal(strlen(got), strlen(want));
  for (size_t i = 0; got[i]; i++)
    assert_true(got[i] == want[i] || (got[i] == '?' && (want[i] < ' ' || want[i] == 0x7F)));
}

static void folders_are_listed_as_by_torchvision(void **state) {
  char line[2048], folder[64] = "";
  FILE *f = vectors_open("folder.txt");
  mr_folder_list_t l = {0};
  int64_t at = 0;
  int cases = 0, classes = 0;
  bool listed = false;
  assert_non_null(f);
  for (bool more = true; more;) {
    char kind[16] = "case", one[1000] = "", two[1000] = "";
    more = vectors_line(f, line, sizeof line);
    if (more) assert_true(sscanf(line, "%15s %999s %999s", kind, one, two) >= 2);
    unquoted(one), unquoted(two);
    if (!strcmp(kind, "case")) {
      if (cases) assert_true(listed);
      if (listed) assert_int_equal(l.n, at);
      if (listed) assert_int_equal(l.n_classes, classes);
      mr_folder_list_free(&l);
      if (!more) break;
      snprintf(folder, sizeof folder, "%s/%d", top, cases++);
      assert_int_equal(mkdir(folder, 0755), 0);
      at = classes = 0, listed = false;
      continue;
    }
    bool reported = !strcmp(kind, "class") || !strcmp(kind, "is");
    if (!reported) make_entry(folder, kind, one, two);
    mr_diag_t diag = {0};
    if (reported && !listed && mr_folder_list_scan(&l, folder, 1000, false, &diag) < 0)
      fail_msg("%s", diag.text);
    listed |= reported;
    if (!strcmp(kind, "class")) {
      assert_true(classes < l.n_classes);
      assert_printable_as(l.name[classes++], one);
    }
    if (strcmp(kind, "is")) continue;
    assert_true(at < l.n);
    if (strcmp(mr_folder_path(&l, at), one))
      fail_msg("case %d: file %d is %s, want %s", cases, (int)at, mr_folder_path(&l, at), line);
    assert_int_equal(l.file[at++].label, atoi(two));
  }
  fclose(f);
  vectors_met(cases, 11);
}

static void refused(const char *folder, int64_t most, mr_err_t code, const char *why) {
  char path[128];
  mr_folder_list_t l;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/%s", top, folder);
  assert_int_equal(mr_folder_list_scan(&l, path, most, false, &diag), code);
  if (!strstr(diag.text, why)) fail_msg("%s: not \"%s\"", diag.text, why);
  assert_null(l.text);
}

static void folders_without_pictures_or_end_are_refused(void **state) {
  char path[128];
  snprintf(path, sizeof path, "%s/odd", top);
  make_entry(top, "dir", "odd", "");
  refused("odd", 10, MR_ERR_DATA, "holds no folders, want one for each class");
  refused("none", 10, MR_ERR_IO, "the folder cannot be read");
  make_entry(path, "dir", "a", "");
  refused("odd", 10, MR_ERR_DATA, "odd/a: holds no picture");
  make_entry(path, "file", "a/1.jpg", ""), make_entry(path, "file", "a/2.jpg", "");
  refused("odd", 1, MR_ERR_DATA, "more than max-files=1 files");
  make_entry(path, "link", "a/up", "..");
  refused("odd", 10, MR_ERR_IO, "is a link to a folder above it");
}

/* The list of a list that is too large for the heap is the same, in files. */
static void a_large_list_lies_in_files(void **state) {
  char path[128], name[32];
  mr_folder_list_t heap, files;
  size_t was = mr__spill_heap_max;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/many", top);
  make_entry(top, "dir", "many", "");
  make_entry(path, "dir", "a", ""), make_entry(path, "dir", "b", "");
  for (int i = 0; i < 2000; i++) {
    snprintf(name, sizeof name, "%c/%d.jpg", i % 3 ? 'a' : 'b', i * 7919 % 10007);
    make_entry(path, "file", name, "");
  }
  if (mr_folder_list_scan(&heap, path, 5000, false, &diag) < 0) fail_msg("%s", diag.text);
  mr__spill_heap_max = 0;
  if (mr_folder_list_scan(&files, path, 5000, false, &diag) < 0) fail_msg("%s", diag.text);
  mr__spill_heap_max = was;
  assert_true(!heap.file_memory.mapped && files.file_memory.mapped && files.text_memory.mapped);
  assert_int_equal(heap.n, 2000);
  assert_int_equal(files.n, 2000);
  for (int64_t i = 0; i < heap.n; i++) {
    assert_string_equal(mr_folder_path(&heap, i), mr_folder_path(&files, i));
    assert_int_equal(heap.file[i].label, files.file[i].label);
  }
  mr_folder_list_free(&heap), mr_folder_list_free(&files);
}

/* ---- lists ---- */

static mr_err_t parsed(mr_folder_list_t *l, const char *text, mr_diag_t *diag) {
  *diag = (mr_diag_t){0};
  return mr_folder_list_parse(l, "list", text, strlen(text), 1000, diag);
}

static void lists_name_files_and_labels(void **state) {
  static const char *const same[] = {
      "file_name,label\na/1.jpg,2\n\"b \"\"x\"\",2.jpg\",0\n",
      "id,label,path\r\n7,2,a/1.jpg\r\n8,0,\"b \"\"x\"\",2.jpg\"",
      "{\"file_name\": \"a/1.jpg\", \"label\": 2}\n\n{\"label\": 0, \"path\": \"b "
      "\\\"x\\\",2.jpg\"}",
      "\xEF\xBB\xBF"
      "file_name,label\na/1.jpg,2\n\"b \"\"x\"\",2.jpg\",0\n",
      "\xEF\xBB\xBF{\"path\": \"a/1.jpg\", \"label\": 2}\n{\"label\": 0, \"path\": \"b "
      "\\\"x\\\",2.jpg\"}",
  };
  mr_folder_list_t l;
  mr_diag_t diag;
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    if (parsed(&l, same[i], &diag) < 0) fail_msg("%d: %s", (int)i, diag.text);
    assert_int_equal(l.n, 2);
    assert_string_equal(mr_folder_path(&l, 0), "a/1.jpg");
    assert_string_equal(mr_folder_path(&l, 1), "b \"x\",2.jpg");
    assert_int_equal(l.file[0].label, 2);
    assert_int_equal(l.file[1].label, 0);
    assert_int_equal(l.n_classes, 3);
    assert_string_equal(l.name[2], "2");
    mr_folder_list_free(&l);
  }
  assert_int_equal(parsed(&l, "path,label\n1,owl\n2,cat\n3,owl\n4,7\n", &diag), MR_OK);
  assert_int_equal(l.n_classes, 3);
  assert_string_equal(l.name[0], "7");
  assert_string_equal(l.name[1], "cat");
  assert_int_equal(l.file[0].label, 2);
  assert_int_equal(l.file[1].label, 1);
  assert_int_equal(l.file[2].label, 2);
  assert_int_equal(l.file[3].label, 0);
  mr_folder_list_free(&l);
}

static void bad_lists_are_refused_by_line(void **state) {
  static const struct {
    const char *text, *why;
  } bad[] = {
      {"", "line 1: want a header"},
      {"\xEF\xBB\xBF", "line 1: want a header"},
      {"\xEF\xBB\xBF\xEF\xBB\xBF"
       "path,label\n1,2",
       "line 1: want a header"},
      {"file,label\n", "line 1: want a header with the columns"},
      {"path,label\n", "names no file"},
      {"path,label\na.jpg\n", "line 2: want a file_name (or path) and a label"},
      {"path,label\na.jpg,\n", "line 2: the label is empty"},
      {"path,label\na.jpg,1\n/etc/passwd,1\n", "line 3: the file must be named by a path in"},
      {"path,label\na/../../b.jpg,1\n", "line 2: the file must be named by a path in"},
      {"path,label\n..,1\n", "line 2: the file must be named by a path in"},
      {"path,label\na/,1\n", "line 2: the name ends with \"/\""},
      {"path,label\n\"a,1\n", "line 2: a quote is not closed"},
      {"path,label\n\"a\"b,1\n", "line 2: text follows a closing quote"},
      {"path,label\na,999999999\n", "label 999999999, want labels in"},
      {"path,label\na,-1\n", "line 2: the label is a number that is no class"},
      {"path,label\na,99999999999\n", "line 2: the label is a number that is no class"},
      {"{\"path\": \"a\\u0000/0.png\", \"label\": 1}", "line 1: a string with a zero byte"},
      {"{\"path\": 3, \"label\": 1}", "line 1: want a file_name"},
      {"{\"path\": \"a\", \"label\": -1}", "line 1: want a file_name"},
      {"{\"path\": \"a\", \"label\": 1}\n[]", "line 2: want a JSON object"},
      {"{\"path\": \"a\", \"label\": 1}\n{", "line 2: want a JSON object"},
  };
  mr_folder_list_t l;
  mr_diag_t diag;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(parsed(&l, bad[i].text, &diag), MR_ERR_DATA);
    if (!strstr(diag.text, bad[i].why)) fail_msg("%s: not \"%s\"", diag.text, bad[i].why);
    assert_null(l.text);
  }
}

/* ---- reading ---- */

enum { FILES = 150 };

static const char *number_path(const void *ctx, int64_t index) {
  static _Thread_local char text[32];
  snprintf(text, sizeof text, "f%lld", (long long)index);
  return text;
}

static int file_bytes(int64_t i) { return (int)(i * i * 37 % 20000); }
static uint8_t file_byte(int64_t i, int k) { return (uint8_t)(i * 31 + k * 7 + k / 256); }

/* Announcements that are right, wrong or missing change no byte. */
static void announced_or_not_files_have_their_bytes(void **state) {
  char folder[64], path[128];
  snprintf(folder, sizeof folder, "%s/files", top);
  assert_int_equal(mkdir(folder, 0755), 0);
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/f%d", folder, i);
    FILE *f = fopen(path, "wb");
    for (int k = 0; k < file_bytes(i); k++) fputc(file_byte(i, k), f);
    fclose(f);
  }
  round_t r = round_first(60);
  while (round_next(&r)) {
    mr_files_t *f;
    mr_files_conf_t conf = {folder, number_path, NULL, 20000, draw(&r, 5)};
    assert_int_equal(mr_files_open(&f, &conf, NULL), MR_OK);
    int64_t next[2][MR_BURST];
    int n_next[2] = {0, 0};
    for (int k = 0; k < 20; k++) {
      int worker = draw(&r, 2), n = n_next[worker];
      int64_t index[MR_BURST];
      uint8_t *data[MR_BURST];
      size_t size[MR_BURST];
      memcpy(index, next[worker], sizeof index);
      if (!n || one_in(&r, 4)) {
        n = 1 + draw(&r, MR_BURST);
        for (int i = 0; i < n; i++) index[i] = draw(&r, FILES);
      }
      assert_int_equal(mr_files_fetch(f, worker, index, n, data, size, NULL), MR_OK);
      n_next[worker] = 0;
      for (int more = draw(&r, 3); more > 0; more--) {
        n_next[worker] = 1 + draw(&r, MR_BURST);
        for (int i = 0; i < n_next[worker]; i++) next[worker][i] = draw(&r, FILES);
        assert_int_equal(mr_files_ahead(f, worker, next[worker], n_next[worker]), conf.threads > 0);
      }
      for (int i = 0; i < n; i++) { /* after the next burst was announced */
        round_check(&r, size[i] == (size_t)file_bytes(index[i]), "file %d", (int)index[i]);
        for (int b = 0; b < (int)size[i]; b++)
          round_check(&r, data[i][b] == file_byte(index[i], b), "byte %d of %d", b, (int)index[i]);
      }
    }
    mr_files_close(f); /* often while a burst is read */
  }
}

static void fails_to_read(mr_files_t *f, int64_t index, mr_err_t code, const char *why) {
  uint8_t *data;
  size_t size;
  for (int announced = 0; announced < 2; announced++) {
    mr_diag_t diag = {0};
    if (announced) assert_true(mr_files_ahead(f, 0, &index, 1));
    assert_int_equal(mr_files_fetch(f, 0, &index, 1, &data, &size, &diag), code);
    if (!strstr(diag.text, why)) fail_msg("%s: not \"%s\"", diag.text, why);
  }
}

static void pipes_and_large_files_are_refused_at_once(void **state) {
  char folder[64];
  snprintf(folder, sizeof folder, "%s/hostile", top);
  make_entry(top, "dir", "hostile", "");
  make_entry(folder, "pipe", "f0", ""), make_entry(folder, "dir", "f1", "");
  make_entry(folder, "link", "f2", "nowhere"), make_entry(folder, "file", "f3", "");
  make_entry(folder, "link", "f5", "/dev/zero");
  mr_files_t *f;
  mr_files_conf_t conf = {folder, number_path, NULL, 100, 2};
  char path[128];
  snprintf(path, sizeof path, "%s/f3", folder);
  assert_int_equal(truncate(path, 101), 0);
  assert_int_equal(mr_files_open(&f, &conf, NULL), MR_OK);
  fails_to_read(f, 0, MR_ERR_DATA, "f0: is not a regular file");
  fails_to_read(f, 1, MR_ERR_DATA, "f1: is not a regular file");
  fails_to_read(f, 2, MR_ERR_IO, "f2: cannot be read: No such file");
  fails_to_read(f, 3, MR_ERR_DATA, "f3: 101 bytes, want at most max-bytes=100");
  fails_to_read(f, 4, MR_ERR_IO, "f4: cannot be read: No such file");
  fails_to_read(f, 5, MR_ERR_DATA, "f5: is not a regular file");
  mr_files_close(f);
}

/* A lack of descriptors says nothing about a file: no record is bad for it. */
static void a_lack_of_descriptors_is_no_fault_of_a_file(void **state) {
  char folder[64];
  uint8_t *data;
  size_t size;
  int64_t index = 7;
  mr_diag_t diag = {0};
  mr_files_t *f;
  snprintf(folder, sizeof folder, "%s/few", top);
  make_entry(top, "dir", "few", ""), make_entry(folder, "file", "f7", "");
  mr_files_conf_t conf = {folder, number_path, NULL, 100, 2};
  assert_int_equal(mr_files_open(&f, &conf, NULL), MR_OK);
  struct rlimit was, none;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
  none = was, none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  fails_to_read(f, index, MR_ERR_NOMEM, "f7: cannot be opened: Too many open files: want fewer");
  assert_true(mr_files_ahead(f, 0, &index, 1)); /* fails, if it is done before the limit ends */
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
  if (mr_files_fetch(f, 0, &index, 1, &data, &size, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(size, 0);
  mr_files_close(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folders_are_listed_as_by_torchvision),
      cmocka_unit_test(folders_without_pictures_or_end_are_refused),
      cmocka_unit_test(a_large_list_lies_in_files),
      cmocka_unit_test(lists_name_files_and_labels),
      cmocka_unit_test(bad_lists_are_refused_by_line),
      cmocka_unit_test(announced_or_not_files_have_their_bytes),
      cmocka_unit_test(pipes_and_large_files_are_refused_at_once),
      cmocka_unit_test(a_lack_of_descriptors_is_no_fault_of_a_file),
  };
  return cmocka_run_group_tests(tests, make_top, remove_top);
}
