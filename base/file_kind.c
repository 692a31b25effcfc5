/* One table of the marks with which files of other programs begin, so that every reader knows the
   same ones and calls them the same.  A mark that most rows of numbers or texts may begin with has
   no place here: the reader of text asks for those itself. */
#include "base/file_kind.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/xio.h"

#define MARK(text) text, sizeof(text) - 1

#define PICKLE "a Python pickle", NULL, NULL, NULL
#define SERVED "if a server has answered so, ask it for the file again"

/* ---- what follows a mark ---- */

/* Ids of tokens may be the letters of a short mark by chance, so that what must follow it is looked
   at, too.  Each returns false if one of the n bytes that are there contradicts: of a file that was
   cut short within its head, the mark alone counts. */
typedef bool follows_fn(const unsigned char *p, size_t n);

/* No reserved flag, the level and the system that programs write, and then no reserved block. */
static bool follows_gzip(const unsigned char *p, size_t n) {
  return (n <= 3 || !(p[3] & 0xE0)) && (n <= 8 || p[8] == 0 || p[8] == 2 || p[8] == 4) &&
         (n <= 9 || p[9] <= 19 || p[9] == 255) && (n <= 10 || p[3] || (p[10] >> 1 & 3) != 3);
}

/* No reserved bit, and behind the head, whose length its first byte says, a block that there is. */
static bool follows_zstd(const unsigned char *p, size_t n) {
  static const unsigned char dictionary[] = {0, 1, 2, 4}, size[] = {0, 2, 4, 8};
  if (n <= 4 || p[4] & 8) return n <= 4;
  bool single = p[4] & 0x20;
  size_t at =
      5 + (size_t)!single + dictionary[p[4] & 3] + size[p[4] >> 6] + (single && !(p[4] >> 6));
  return at + 2 >= n || ((p[at] >> 1 & 3) != 3 && p[at + 2] <= 0x10); /* at most 128 KiB */
}

/* The level and a block, or the end of a stream without one: the digits of pi, or of its root. */
static bool follows_bzip2(const unsigned char *p, size_t n) {
  static const unsigned char block[] = "\x31\x41\x59\x26\x53\x59",
                             end[] = "\x17\x72\x45\x38\x50\x90";
  size_t some = n < 10 ? n : 10;
  return n <= 3 ||
         (p[3] >= '1' && p[3] <= '9' &&
          (some <= 4 || !memcmp(p + 4, block, some - 4) || !memcmp(p + 4, end, some - 4)));
}

static bool follows_xz(const unsigned char *p, size_t n) {
  return (n <= 5 || !p[5]) && (n <= 6 || !p[6]) && (n <= 7 || p[7] <= 15);
}

/* Version 1 without reserved bits, and a size of blocks that there is. */
static bool follows_lz4(const unsigned char *p, size_t n) {
  return (n <= 4 || (p[4] & 0xC2) == 0x40) && (n <= 5 || (!(p[5] & 0x8F) && p[5] >= 0x40));
}

/* A version up to 6.3, a method that there is, and a name without controls. */
static bool follows_zip(const unsigned char *p, size_t n) {
  if ((n > 4 && p[4] > 63) || (n > 5 && p[5] > 20) || (n > 8 && p[8] > 99) || (n > 9 && p[9]))
    return false;
  size_t name = n > 27 ? p[26] | (size_t)p[27] << 8 : 0;
  for (size_t i = 30; i < n && i < 30 + name; i++)
    if (p[i] < ' ') return false;
  return n <= 27 || name > 0;
}

/* What every Avro file says among its first entries. */
static bool follows_avro(const unsigned char *p, size_t n) {
  static const char word[] = "avro.";
  for (size_t i = 4; i + sizeof word - 1 <= n; i++)
    if (!memcmp(p + i, word, sizeof word - 1)) return true;
  return n <= 16;
}

/* Compact Thrift: a number of a few, and the next field of a page, or of a footer without pages. */
static bool follows_parquet(const unsigned char *p, size_t n) {
  return (n <= 4 || p[4] == 0x15) && (n <= 5 || p[5] <= 6) &&
         (n <= 6 || p[6] == 0x15 || p[6] == 0x19);
}

/* The mark is padded to 8 bytes. */
static bool follows_arrow(const unsigned char *p, size_t n) {
  for (size_t i = p[0] == 'F' ? 4 : 6; i < 8 && i < n; i++)
    if (p[i]) return false;
  return true;
}

/* Text, whatever its bytes above 0x7F are. */
static bool follows_text(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n && i < MR_FILE_LOOK; i++)
    if (p[i] < ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t') return false;
  return true;
}

/* A segment of JPEG: its length, what it begins with, and behind it, if it is there, a marker. */
static bool follows_jpeg(const unsigned char *p, size_t n) {
  enum { TABLES = 0xC4, QUANTIZERS = 0xDB, APP0 = 0xE0, APP15 = 0xEF };
  if (n <= 3 || p[3] < 0xC0 || p[3] == 0xFF) return n <= 3;
  if (n <= 9) return true;
  size_t length = (size_t)p[4] << 8 | p[5];
  if (length < 2 || (4 + length < n && p[4 + length] != 0xFF)) return false;
  if (p[3] == TABLES || p[3] == QUANTIZERS) return p[6] <= 0x1F && (p[6] & 15) <= 3;
  for (int i = 6; i < 9 && p[3] >= APP0 && p[3] <= APP15; i++) /* "JFIF", "Exif", "Adobe" */
    if (p[i] < ' ' || p[i] > '~') return false;
  return true;
}

static bool is_name_byte(unsigned char c) { return isalnum(c) || c == '_' || c == '.'; }

/* Two lines: the names of a module and of what it has. */
static bool follows_pickled_class(const unsigned char *p, size_t n) {
  size_t at = 3;
  while (at < n && is_name_byte(p[at])) at++;
  return at == n || (at > 4 && p[at] == '\n' && (at + 1 == n || is_name_byte(p[at + 1])));
}

/* Where it is remembered, its end, or that entries follow: the first is a number, a text or
   another list. */
static bool follows_pickled_list(const unsigned char *p, size_t n) {
  static const char entry[] = "KMJGXUN]}(c\x88\x89\x8a";
  return n <= 3 || (p[3] == '.' && n == 4) || (p[3] == 'q' && (n <= 4 || p[4] <= 1)) ||
         (p[3] == '(' && (n <= 4 || memchr(entry, p[4], sizeof entry - 1)));
}

/* The length of a frame of less than a terabyte. */
static bool follows_pickle_frame(const unsigned char *p, size_t n) {
  for (size_t i = 8; i < 11 && i < n; i++)
    if (p[i]) return false;
  return true;
}

static const struct {
  const char *mark;
  size_t n;
  mr_file_kind_t kind;
  follows_fn *follows; /* NULL: the mark is long enough */
} known[] = {
    {MARK("\x1f\x8b\x08"),
     {"packed by gzip", "gzip", "gunzip", "unpack it first (gunzip)"},
     follows_gzip},
    {MARK("\x28\xb5\x2f\xfd"),
     {"packed by zstd", "zstd", "unzstd", "unpack it first (unzstd)"},
     follows_zstd},
    {MARK("BZh"),
     {"packed by bzip2", "bzip2", "bunzip2", "unpack it first (bunzip2)"},
     follows_bzip2},
    {MARK("\xfd\x37\x7a\x58\x5a"),
     {"packed by xz", "xz", "unxz", "unpack it first (unxz)"},
     follows_xz},
    {MARK("\x04\x22\x4d\x18"),
     {"packed by lz4", "lz4", "unlz4", "unpack it first (unlz4)"},
     follows_lz4},
    {MARK("PK\3\4"),
     {"a zip file, as .npz, torch.save and spreadsheets are", NULL, NULL, NULL},
     follows_zip},
    {MARK("\x89HDF\r\n"), {"an HDF5 file", NULL, NULL, NULL}, NULL},
    {MARK("PAR1"), {"a Parquet file", NULL, NULL, NULL}, follows_parquet},
    {MARK("ARROW1"), {"an Arrow file", NULL, NULL, NULL}, follows_arrow},
    {MARK("FEA1"), {"a Feather file", NULL, NULL, NULL}, follows_arrow},
    {MARK("Obj\1"), {"an Avro file", NULL, NULL, NULL}, follows_avro},
    {MARK("version https://git-lfs.github.com/spec/"),
     {"a pointer of Git LFS", NULL, NULL, "git lfs pull fetches the file that it stands for"},
     NULL},
    {MARK("<!DOCTYPE html"), {"a web page", NULL, NULL, SERVED}, follows_text},
    {MARK("<!doctype html"), {"a web page", NULL, NULL, SERVED}, follows_text},
    {MARK("<html"), {"a web page", NULL, NULL, SERVED}, follows_text},
    {MARK("<?xml"), {"XML", NULL, NULL, SERVED}, follows_text},
    {MARK("SQLite format 3"), {"a database of SQLite", NULL, NULL, NULL}, NULL},
    {MARK("\x89PNG\r\n"), {"a picture", NULL, NULL, NULL}, NULL},
    {MARK("\xff\xd8\xff"), {"a picture", NULL, NULL, NULL}, follows_jpeg},
    {MARK("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19"),
     {"a file of torch.save", NULL, NULL, NULL},
     NULL},
    /* protocols 2 and 3 with a dict, a list or a class, 4 and 5 with a frame */
    {MARK("\x80\2}"), {PICKLE}, follows_pickled_list},
    {MARK("\x80\2]"), {PICKLE}, follows_pickled_list},
    {MARK("\x80\2c"), {PICKLE}, follows_pickled_class},
    {MARK("\x80\3}"), {PICKLE}, follows_pickled_list},
    {MARK("\x80\3]"), {PICKLE}, follows_pickled_list},
    {MARK("\x80\3c"), {PICKLE}, follows_pickled_class},
    {MARK("\x80\4\x95"), {PICKLE}, follows_pickle_frame},
    {MARK("\x80\5\x95"), {PICKLE}, follows_pickle_frame},
};

static const mr_file_kind_t *find_kind(const void *bytes, size_t n, bool sure) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (n >= known[i].n && !memcmp(bytes, known[i].mark, known[i].n) &&
        (!sure || !known[i].follows || known[i].follows(bytes, n)))
      return &known[i].kind;
  return NULL;
}

const mr_file_kind_t *mr_file_kind(const void *bytes, size_t n) {
  return find_kind(bytes, n, false);
}

const mr_file_kind_t *mr_file_kind_sure(const void *bytes, size_t n) {
  return find_kind(bytes, n, true);
}

/* UTF-8 is not decoded: bytes above 0x7F do for text. */
static bool file_is_text(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] == 0x7F || (p[i] < ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t')) return false;
  return true;
}

/* The kind of a file that is refused anyway: text that begins with the letters of a short mark, as
   a column's name may, is none. */
static const mr_file_kind_t *kind_of_refused(const void *bytes, size_t n) {
  const mr_file_kind_t *sure = mr_file_kind_sure(bytes, n);
  return sure || file_is_text(bytes, n) ? sure : mr_file_kind(bytes, n);
}

const char *mr_file_described(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  const mr_file_kind_t *kind = kind_of_refused(bytes, n);
  size_t at = 0;
  if (kind) return kind->what;
  if (n < 16 || !file_is_text(p, n)) return NULL;
  if (!memcmp(p, "\xEF\xBB\xBF", 3)) at = 3;
  while (at < n && strchr(" \t\r\n", p[at])) at++;
  bool object = at + 1 < n && p[at] == '{', list = at + 1 < n && p[at] == '[';
  while (object && at + 1 < n && !(p[at] == '\n' && p[at + 1] == '{')) at++;
  if (object && at + 1 < n) return "JSON lines";
  return object || list ? "JSON" : "text";
}

const char *mr_file_kind_hint(const void *bytes, size_t n, char *text, size_t size) {
  const mr_file_kind_t *kind = kind_of_refused(bytes, n);
  const char *what = mr_file_described(bytes, n);
  text[0] = 0;
  if (what && kind && kind->instead)
    snprintf(text, size, "; it is %s: %s", what, kind->instead);
  else if (what)
    snprintf(text, size, "; it is %s", what);
  return text;
}

const char *mr_file_hint(const char *path, char *text, size_t size) {
  unsigned char bytes[MR_FILE_LOOK];
  FILE *f = mr_open_regular(path);
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  return mr_file_kind_hint(bytes, n, text, size);
}
