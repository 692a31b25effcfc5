/* One table of the marks with which files of other programs begin, so that every reader knows the
   same ones and calls them the same.  A mark that a row of numbers or a text may well begin with
   has no place here: the reader of text asks for those itself. */
#include "base/file_kind.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/xio.h"

#define MARK(text) text, sizeof(text) - 1

#define SERVED "if a server has answered so, ask it for the file again"

static const struct {
  const char *mark;
  size_t n;
  mr_file_kind_t kind;
} known[] = {
    {MARK("\x1f\x8b\x08"), {"packed by gzip", "gzip", "gunzip", "unpack it first (gunzip)"}},
    {MARK("\x28\xb5\x2f\xfd"), {"packed by zstd", "zstd", "unzstd", "unpack it first (unzstd)"}},
    {MARK("BZh"), {"packed by bzip2", "bzip2", "bunzip2", "unpack it first (bunzip2)"}},
    {MARK("\xfd\x37\x7a\x58\x5a"), {"packed by xz", "xz", "unxz", "unpack it first (unxz)"}},
    {MARK("\x04\x22\x4d\x18"), {"packed by lz4", "lz4", "unlz4", "unpack it first (unlz4)"}},
    {MARK("PK\3\4"), {"a zip file, as .npz, torch.save and spreadsheets are", NULL, NULL, NULL}},
    {MARK("\x89HDF\r\n"), {"an HDF5 file", NULL, NULL, NULL}},
    {MARK("PAR1"), {"a Parquet file", NULL, NULL, NULL}},
    {MARK("ARROW1"), {"an Arrow file", NULL, NULL, NULL}},
    {MARK("FEA1"), {"a Feather file", NULL, NULL, NULL}},
    {MARK("Obj\1"), {"an Avro file", NULL, NULL, NULL}},
    {MARK("version https://git-lfs.github.com/spec/"),
     {"a pointer of Git LFS", NULL, NULL, "git lfs pull fetches the file that it stands for"}},
    {MARK("<!DOCTYPE html"), {"a web page", NULL, NULL, SERVED}},
    {MARK("<!doctype html"), {"a web page", NULL, NULL, SERVED}},
    {MARK("<html"), {"a web page", NULL, NULL, SERVED}},
    {MARK("<?xml"), {"XML", NULL, NULL, SERVED}},
    {MARK("SQLite format 3"), {"a database of SQLite", NULL, NULL, NULL}},
    {MARK("\x89PNG\r\n"), {"a picture", NULL, NULL, NULL}},
    {MARK("\xff\xd8\xff"), {"a picture", NULL, NULL, NULL}},
    /* protocols 2 and 3 with a dict or a class, 4 and 5 with a frame */
    {MARK("\x80\2}"), {"a Python pickle", NULL, NULL, NULL}},
    {MARK("\x80\2c"), {"a Python pickle", NULL, NULL, NULL}},
    {MARK("\x80\3}"), {"a Python pickle", NULL, NULL, NULL}},
    {MARK("\x80\3c"), {"a Python pickle", NULL, NULL, NULL}},
    {MARK("\x80\4\x95"), {"a Python pickle", NULL, NULL, NULL}},
    {MARK("\x80\5\x95"), {"a Python pickle", NULL, NULL, NULL}},
};

const mr_file_kind_t *mr_file_kind(const void *bytes, size_t n) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (n >= known[i].n && !memcmp(bytes, known[i].mark, known[i].n)) return &known[i].kind;
  return NULL;
}

/* UTF-8 is not decoded: bytes above 0x7F do for text. */
static bool file_is_text(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] == 0x7F || (p[i] < ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t')) return false;
  return n >= 16;
}

const char *mr_file_described(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  const mr_file_kind_t *kind = mr_file_kind(bytes, n);
  size_t at = 0;
  if (kind) return kind->what;
  if (!file_is_text(p, n)) return NULL;
  if (!memcmp(p, "\xEF\xBB\xBF", 3)) at = 3;
  while (at < n && strchr(" \t\r\n", p[at])) at++;
  bool object = at + 1 < n && p[at] == '{', list = at + 1 < n && p[at] == '[';
  while (object && at + 1 < n && !(p[at] == '\n' && p[at + 1] == '{')) at++;
  if (object && at + 1 < n) return "JSON lines";
  return object || list ? "JSON" : "text";
}

const char *mr_file_kind_hint(const void *bytes, size_t n, char *text, size_t size) {
  const mr_file_kind_t *kind = mr_file_kind(bytes, n);
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
