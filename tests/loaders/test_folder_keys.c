/* The list made of a bucket's keys against that of the same tree of folders, for trees drawn at
   random; pages of a listing, whole, cut off anywhere and from servers that lie. */
#include <errno.h>
#include <fcntl.h>

#include "loaders/formats/folder_remote.h"
#include "loaders/remote/remote_private.h"
#include "tests/loaders/shards.h"

enum { KEYS = 60 };

/* ---- keys and trees ---- */

static char key[KEYS][100];
static int n_keys;

static void draw_name(round_t *r, char *to) {
  static const char *const part[] = {"a", "B", "b", "-", "+", " ", "\xC3\xBC", "\xF0\x9F\x8E\x89",
                                     "0", "z."};
  *to = 0;
  for (int n = 1 + draw(r, 3); n > 0; n--) strcat(to, part[draw(r, 10)]);
}

static void draw_key(round_t *r, char *to) {
  static const char *const end[] = {".png", ".JPG", ".webp", ".txt", ""};
  char name[32];
  *to = 0;
  for (int n = draw(r, 4); n > 0; n--) draw_name(r, name), strcat(strcat(to, name), "/");
  draw_name(r, name), strcat(strcat(to, name), end[draw(r, 5)]);
}

/* Makes the file of a key; false if the tree cannot have it, or has it already. */
static bool make_key(const char *tree, const char *name) {
  char path[300];
  size_t n = (size_t)snprintf(path, sizeof path, "%s/", tree);
  for (const char *slash = name; (slash = strchr(slash, '/')); slash++) {
    snprintf(path + n, sizeof path - n, "%.*s", (int)(slash - name), name);
    if (mkdir(path, 0700) < 0 && errno != EEXIST) return false;
  }
  snprintf(path + n, sizeof path - n, "%s", name);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static void make_tree(round_t *r, const char *tree) {
  n_keys = 0;
  assert_int_equal(mkdir(tree, 0700), 0);
  for (int i = 1 + draw(r, KEYS - 8); i > 0; i--) {
    char name[100];
    draw_key(r, name);
    if (make_key(tree, name)) strcpy(key[n_keys++], name);
  }
  while (one_in(r, 2) && n_keys < KEYS) { /* a folder without files */
    char name[32], path[300];
    draw_name(r, name);
    snprintf(path, sizeof path, "%s/%s", tree, name);
    if (mkdir(path, 0700) < 0) continue;
    snprintf(key[n_keys++], sizeof key[0], "%s/", name);
  }
}

static mr_err_t list_keys(round_t *r, mr_folder_list_t *l, bool allow_empty, mr_diag_t *diag) {
  mr_folder_keys_t k;
  bool is_file;
  for (int i = n_keys - 1; i > 0; i--) { /* in any order */
    int j = draw(r, i + 1);
    char swap[100];
    memcpy(swap, key[i], 100), memcpy(key[i], key[j], 100), memcpy(key[j], swap, 100);
  }
  mr_err_t e = MR_OK;
  mr_folder_keys_begin(&k, l, "s3://b/p", 1000);
  for (int i = 0; i < n_keys && e >= 0; i++)
    e = mr_folder_keys_add(&k, key[i], key[i], strlen(key[i]), &is_file, diag);
  return mr_folder_keys_end(&k, allow_empty, e, diag);
}

static void keys_are_listed_as_the_tree_is(void **state) {
  int good = 0;
  for (round_t r = round_first(40); round_next(&r);) {
    char tree[160], name[32];
    mr_folder_list_t of_tree, of_keys;
    mr_diag_t d = {0}, why = {0};
    bool allow_empty = !one_in(&r, 4);
    snprintf(name, sizeof name, "tree-%llu", (unsigned long long)r.seed);
    snprintf(tree, sizeof tree, "%s", in_folder(name));
    make_tree(&r, tree);
    mr_err_t e = mr_folder_list_scan(&of_tree, tree, 1000, allow_empty, &d);
    mr_err_t f = list_keys(&r, &of_keys, allow_empty, &why);
    round_check(&r, e == f, "%d %s, %d %s", e, d.text, f, why.text);
    round_check(&r, of_tree.n == of_keys.n && of_tree.n_classes == of_keys.n_classes, "counts");
    good += e == MR_OK;
    for (int64_t i = 0; i < of_tree.n; i++) {
      const char *path = mr_folder_path(&of_keys, i);
      round_check(&r, !strcmp(mr_folder_path(&of_tree, i), path), "file %d: %s", (int)i, path);
      round_check(&r, of_tree.file[i].label == of_keys.file[i].label, "label %d", (int)i);
      round_check(&r, !strcmp(path, path + strlen(path) + 1), "the state of %s", path);
    }
    for (int c = 0; c < of_tree.n_classes; c++)
      round_check(&r, !strcmp(of_tree.name[c], of_keys.name[c]), "class %d", c);
    mr_folder_list_free(&of_tree), mr_folder_list_free(&of_keys);
  }
  assert_true(good > 5);
}

static void want_key_refused(const char *one, const char *two, int64_t most, const char *piece) {
  mr_folder_list_t l;
  mr_folder_keys_t k;
  mr_diag_t d = {0};
  bool is_file;
  mr_folder_keys_begin(&k, &l, "s3://b/p", most);
  mr_err_t e = mr_folder_keys_add(&k, "a/fine.png", "", 0, &is_file, &d);
  if (e >= 0) e = mr_folder_keys_add(&k, one, "", 0, &is_file, &d);
  if (e >= 0) e = mr_folder_keys_add(&k, two, "", 0, &is_file, &d);
  e = mr_folder_keys_end(&k, false, e, &d);
  if (e != MR_ERR_DATA || !strstr(d.text, piece)) fail_msg("want '%s', got '%s'", piece, d.text);
  assert_null(l.text);
}

static void keys_that_no_tree_has_are_refused(void **state) {
  static const char *const bad[] = {
      "../x.png", "a/../../x.png", "a/./x.png", "a//x.png", "/a/x.png", "/", "..",
      ".",        "a/..",          "//"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    want_key_refused("b/x.png", bad[i], 10, "want the path of a file below a folder");
  want_key_refused("b/x.png", "b/x.png", 10, "lists \"b/x.png\" twice");
  want_key_refused("b/x.png", "b/y.png", 2, "more than max-files=2");
  want_key_refused("b/x.txt", "c/y.png", 9, "/b: holds no picture");
}

/* Keys of a bucket may alternate between classes, as a server gives them in any order. */
static void keys_that_alternate_between_two_classes_are_of_two(void **state) {
  enum { FILES = 250000 };
  mr_folder_list_t l;
  mr_folder_keys_t k;
  mr_diag_t d = {0};
  bool is_file;
  mr_err_t e = MR_OK;
  mr_folder_keys_begin(&k, &l, "s3://b/p", FILES);
  for (int i = 0; i < FILES && e >= 0; i++) {
    char path[32];
    snprintf(path, sizeof path, "%s/%07d.jpg", i % 2 ? "a" : "b", i);
    e = mr_folder_keys_add(&k, path, "", 0, &is_file, &d);
  }
  assert_true(k.cap < 1 << 17);
  e = mr_folder_keys_end(&k, false, e, &d);
  if (e < 0) fail_msg("%s", d.text);
  assert_int_equal(l.n_classes, 2);
  assert_int_equal(l.n, FILES);
  assert_string_equal(mr_folder_path(&l, 0), "a/0000001.jpg");
  mr_folder_list_free(&l);
}

static void too_many_classes_are_refused(void **state) {
  mr_folder_list_t l;
  mr_folder_keys_t k;
  mr_diag_t d = {0};
  bool is_file;
  mr_err_t e = MR_OK;
  mr_folder_keys_begin(&k, &l, "s3://b/p", 1 << 20);
  for (int i = 0; i < 1 << 20 && e >= 0; i++) {
    char path[32];
    snprintf(path, sizeof path, "%07d/x.jpg", i);
    e = mr_folder_keys_add(&k, path, "", 0, &is_file, &d);
  }
  assert_int_equal(mr_folder_keys_end(&k, false, e, &d), MR_ERR_DATA);
  assert_non_null(strstr(d.text, "want at most 100000"));
}

/* The names of classes are printable; an index keeps those of empty ones as they are. */
static void empty_classes_keep_their_names(void **state) {
  static const char *const given[] = {"a\1b/", "c/x.png", "\xFF/", "d/"};
  mr_folder_list_t l;
  mr_folder_keys_t k;
  mr_diag_t d = {0};
  bool is_file;
  mr_folder_keys_begin(&k, &l, "s3://b/p", 10);
  for (int i = 0; i < 4; i++)
    assert_int_equal(mr_folder_keys_add(&k, given[i], "", 0, &is_file, &d), MR_OK);
  assert_int_equal(mr_folder_keys_end(&k, true, MR_OK, &d), MR_OK);
  assert_int_equal(l.n_classes, 4);
  assert_string_equal(l.name[0], "a?b");
  assert_int_equal(l.n_empty, 3);
  assert_string_equal(l.text + l.empty[0], "a\1b");
  assert_string_equal(l.text + l.empty[1], "d");
  assert_string_equal(l.text + l.empty[2], "\xFF");
  mr_folder_list_free(&l);
}

/* ---- kept listings ---- */

static void state_of_number(const void *ctx, int64_t i, mr_folder_state_t *out) {
  *out = (mr_folder_state_t){1000 + i, 1700000000000000000, "\"0123456789abcdef0123456789abcdef\""};
}

static mr_err_t count_kept(void *ctx, const char *path, const mr_folder_state_t *s,
                           mr_diag_t *diag) {
  int64_t *n = ctx;
  char want[32];
  snprintf(want, sizeof want, "n%02d/%07d.jpg", (int)*n / 1000, (int)*n);
  assert_string_equal(path, want);
  assert_int_equal(s->size, 1000 + *n);
  ++*n;
  return MR_OK;
}

/* More than a mebibyte of keys. */
static void large_listings_are_kept_and_read_back(void **state) {
  enum { FILES = 30000 };
  mr_folder_list_t l;
  mr_folder_keys_t k;
  mr_diag_t d = {0};
  bool is_file;
  int64_t n = 0, written_s;
  mr_folder_keys_begin(&k, &l, "s3://b/p", FILES);
  for (int i = 0; i < FILES; i++) {
    char path[32];
    snprintf(path, sizeof path, "n%02d/%07d.jpg", i / 1000, i);
    assert_int_equal(mr_folder_keys_add(&k, path, "", 0, &is_file, &d), MR_OK);
  }
  assert_int_equal(mr_folder_keys_end(&k, false, MR_OK, &d), MR_OK);
  mr_folder_facts_t facts = {.list = &l, .state = state_of_number};
  mr_folder_index_write("s3://b/p#1", in_folder("kept"), 0, NULL, &facts);
  assert_int_equal(mr_folder_index_read("s3://b/p#1", in_folder("kept"), 0, NULL, count_kept, &n,
                                        &written_s, &d),
                   MR_OK);
  assert_int_equal(n, FILES);
  mr_folder_list_free(&l);
}

/* ---- pages ---- */

#define HEAD "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3/\"><Name>b</Name>"
#define ROW(k, n)                                               \
  "<Contents><Key>" k                                           \
  "</Key><LastModified>2020-01-02T03:04:05.000Z</LastModified>" \
  "<ETag>&quot;e&quot;</ETag><Size>" n "</Size><Owner><ID>o</ID></Owner></Contents>"
#define ENDS "<IsTruncated>false</IsTruncated></ListBucketResult>"

static struct {
  int n;
  char path[4][64];
  int64_t size[4], mtime_ns;
} saw;

static mr_err_t see(void *ctx, const mr_listed_t *f, mr_diag_t *diag) {
  snprintf(saw.path[saw.n % 4], sizeof saw.path[0], "%s", f->path);
  saw.size[saw.n++ % 4] = f->size, saw.mtime_ns = f->mtime_ns;
  assert_string_equal(f->etag, "\"e\"");
  return MR_OK;
}

/* The text lies at the end of its memory, so that a sanitizer sees a byte too much. */
static mr_err_t parse_page(const char *text, size_t n, mr__paged_t *out, char *token) {
  char *page = malloc(n + 1);
  mr_diag_t d = {0};
  memcpy(page, text, n), page[n] = 0;
  saw.n = 0;
  mr_err_t e = mr__page_parse(page, n, see, NULL, out, &d);
  snprintf(token, 64, "%s", out->token ? out->token : "");
  free(page);
  assert_int_equal(e, out->wrong ? MR_ERR_DATA : MR_OK);
  return e;
}

static void pages_are_parsed(void **state) {
  static const char whole[] = HEAD
      "<Contents/><!-- c --><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a&lt;=&amp;</NextContinuationToken></ListBucketResult>";
  static const char two[] = HEAD ROW(
      "x/&#xFC;&apos;+%20.png",
      "12") "<CommonPrefixes><Prefix>p</Prefix></CommonPrefixes>" ROW("y", "9007199254740993") ENDS
      "\n";
  char token[64];
  mr__paged_t out;
  assert_int_equal(parse_page(two, sizeof two - 1, &out, token), MR_OK);
  assert_int_equal(saw.n, 2);
  assert_string_equal(saw.path[0], "x/\xC3\xBC'+%20.png");
  assert_int_equal(saw.size[0], 12);
  assert_int_equal(saw.size[1], 9007199254740993);
  assert_int_equal(saw.mtime_ns / 1000000000, 1577934245);
  assert_false(out.more);
  assert_int_equal(parse_page(whole, sizeof whole - 1, &out, token), MR_ERR_DATA);
  assert_non_null(strstr(out.wrong, "without its name"));
  for (size_t n = 0; n < sizeof two - 2; n++) /* but for the last newline */
    assert_int_equal(parse_page(two, n, &out, token), MR_ERR_DATA);
  static const char more[] = HEAD
      "<IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a&lt;=&amp;</NextContinuationToken></ListBucketResult>";
  assert_int_equal(parse_page(more, sizeof more - 1, &out, token), MR_OK);
  assert_true(out.more);
  assert_string_equal(token, "a<=&");
}

/* An empty element of use, as <ETag/>, is as one that is missing. */
static void empty_elements_leave_the_next_tag(void **state) {
  static const char last[] =
      HEAD "<NextContinuationToken/>" ROW("a/b.png", "3") "<IsTruncated>false</IsTruncated>"
                                                          "</ListBucketResult>";
  static const char row[] = HEAD "<Contents><ETag/><Key>a.png</Key><Size>3</Size></Contents>" ENDS;
  char token[64];
  mr__paged_t out;
  assert_int_equal(parse_page(last, sizeof last - 1, &out, token), MR_OK);
  assert_int_equal(saw.n, 1);
  assert_string_equal(saw.path[0], "a/b.png");
  assert_string_equal(token, "");
  assert_int_equal(parse_page(row, sizeof row - 1, &out, token), MR_ERR_DATA);
  assert_non_null(strstr(out.wrong, "without its name, size or ETag"));
}

static void pages_of_liars_are_refused(void **state) {
  static const struct {
    const char *text, *piece;
  } row[] = {
      {"", "is not XML"},
      {"<html><body>sign in</body></html>", "is not an answer"},
      {"<!DOCTYPE x [<!ENTITY a \"aaaa\">]>" HEAD ENDS, "is not an answer"},
      {HEAD ROW("&a;", "1") ENDS, "text that is not valid"},
      {HEAD ROW("a&#0;b", "1") ENDS, "text that is not valid"},
      {HEAD ROW("a&#xD800;", "1") ENDS, "text that is not valid"},
      {HEAD ROW("a", "-1") ENDS, "a size that is none"},
      {HEAD ROW("a", "9999999999999999999") ENDS, "a size that is none"},
      {HEAD ROW("", "1") ENDS, "without its name"},
      {HEAD "<Contents><Key>a</Key><Size>1</Size></Contents>" ENDS,
       "without its name, size or ETag"},
      {HEAD "<Contents><Key>a</Key><Size>1</Size><ETag>x&#13;&#10;A: b</ETag></Contents>" ENDS,
       "an ETag with a control character"},
      {HEAD "<Contents><Key>a</Key><Size>1</Size><ETag>x\nb</ETag></Contents>" ENDS,
       "an ETag with a control character"},
      {HEAD "</ListBucketResult>", "does not say whether more follows"},
      {HEAD "<a><b><c><d><e><f><g><h><i></i>" ENDS, "nested too deeply"},
      {HEAD "<a></b></a>" ENDS, "closes another element"},
      {HEAD ENDS "<ListBucketResult>", "is not an answer"},
      {"</a>", "closes another element"},
      {"<a b=\">", "ends early"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char token[64];
    mr__paged_t out;
    mr_err_t e = parse_page(row[i].text, strlen(row[i].text), &out, token);
    if (e != MR_ERR_DATA || !strstr(out.wrong, row[i].piece))
      fail_msg("%s: want '%s', got '%s'", row[i].text, row[i].piece, out.wrong ? out.wrong : "");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_are_listed_as_the_tree_is),
      cmocka_unit_test(keys_that_no_tree_has_are_refused),
      cmocka_unit_test(keys_that_alternate_between_two_classes_are_of_two),
      cmocka_unit_test(too_many_classes_are_refused),
      cmocka_unit_test(empty_classes_keep_their_names),
      cmocka_unit_test(large_listings_are_kept_and_read_back),
      cmocka_unit_test(pages_are_parsed),
      cmocka_unit_test(empty_elements_leave_the_next_tag),
      cmocka_unit_test(pages_of_liars_are_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
