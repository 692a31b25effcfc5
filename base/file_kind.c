/* One table of the marks with which files of other programs begin, so that every reader knows the
   same ones and calls them the same.  A mark that a row of numbers or a text may well begin with
   has no place here: the reader of text asks for those itself. */
#include "base/file_kind.h"

#include <string.h>

#define MARK(text) text, sizeof(text) - 1

static const struct {
  const char *mark;
  size_t n;
  mr_file_kind_t kind;
} known[] = {
    {MARK("\x1f\x8b\x08"), {"packed by gzip", "gzip", "gunzip"}},
    {MARK("\x28\xb5\x2f\xfd"), {"packed by zstd", "zstd", "unzstd"}},
    {MARK("BZh"), {"packed by bzip2", "bzip2", "bunzip2"}},
    {MARK("\xfd\x37\x7a\x58\x5a"), {"packed by xz", "xz", "unxz"}},
    {MARK("\x04\x22\x4d\x18"), {"packed by lz4", "lz4", "unlz4"}},
    {MARK("PK\3\4"), {"a zip file, as .npz, torch.save and spreadsheets are", NULL, NULL}},
    {MARK("\x89HDF\r\n"), {"an HDF5 file", NULL, NULL}},
    {MARK("PAR1"), {"a Parquet file", NULL, NULL}},
    {MARK("ARROW1"), {"an Arrow file", NULL, NULL}},
    {MARK("FEA1"), {"a Feather file", NULL, NULL}},
    {MARK("SQLite format 3"), {"a database of SQLite", NULL, NULL}},
    {MARK("\x89PNG\r\n"), {"a picture", NULL, NULL}},
    {MARK("\xff\xd8\xff"), {"a picture", NULL, NULL}},
    /* protocols 2 and 3 with a dict or a class, 4 and 5 with a frame */
    {MARK("\x80\2}"), {"a Python pickle", NULL, NULL}},
    {MARK("\x80\2c"), {"a Python pickle", NULL, NULL}},
    {MARK("\x80\3}"), {"a Python pickle", NULL, NULL}},
    {MARK("\x80\3c"), {"a Python pickle", NULL, NULL}},
    {MARK("\x80\4\x95"), {"a Python pickle", NULL, NULL}},
    {MARK("\x80\5\x95"), {"a Python pickle", NULL, NULL}},
};

const mr_file_kind_t *mr_file_kind(const void *bytes, size_t n) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (n >= known[i].n && !memcmp(bytes, known[i].mark, known[i].n)) return &known[i].kind;
  return NULL;
}
