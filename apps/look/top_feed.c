/* Where top's records come from: a metrics.jsonl that grows, or a live page (top_page.c).  A file
   is followed by its inode, since a resumed run may have replaced it, and the last line counts only
   once its newline is there. */
#include "apps/look/top_feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/look/top_page.h"
#include "base/lines.h"
#include "base/text.h"
#include "base/xio.h"

struct mr_top_feed {
  mr_top_page_t *page; /* NULL: a file, described by the fields below */
  char path[4200], name[4100];
  FILE *file;
  ino_t inode;
  int64_t newest; /* where the newest records begin, behind an earlier validation; below 0: there */
};

enum { FURTHER = 8 << 20 /* bytes in which a validation is looked for */ };

/* Moves to the last validation before the newest records, or to these. */
static void begin_late(mr_top_feed_t *f, int64_t bytes) {
  struct stat st;
  f->newest = -1;
  if (fstat(fileno(f->file), &st) < 0 || st.st_size <= bytes) return;
  int64_t from = mr_lines_seek(f->file, st.st_size - bytes);
  if (from >= st.st_size) from = -1; /* within a line longer than that: all records are before it */
  int64_t valid = from < 0 ? -1 : mr_lines_last(f->file, from, FURTHER, "{\"kind\":\"valid\"");
  if (valid >= 0) f->newest = from;
  fseeko(f->file, (off_t)(valid >= 0 ? valid : from < 0 ? 0 : from), SEEK_SET);
}

static mr_err_t open_folder(mr_top_feed_t *f, const char *where, int64_t bytes, mr_diag_t *diag) {
  struct stat st;
  mr_printable(where, f->name, sizeof f->name);
  snprintf(f->path, sizeof f->path, "%s/metrics.jsonl", where);
  f->file = mr_open_regular(f->path);
  if (!f->file)
    return mr_fail(
        diag, MR_ERR_IO,
        "%s: holds no metrics.jsonl, a regular file; name a run's folder, its web.url or "
        "the address of its page",
        where);
  f->inode = fstat(fileno(f->file), &st) == 0 ? st.st_ino : 0;
  begin_late(f, bytes);
  return MR_OK;
}

/* Reopens the file if a resume has replaced it or cut it before byte `at`; false if not. */
static bool reopen_replaced(mr_top_feed_t *f, long at) {
  struct stat st;
  if (stat(f->path, &st) < 0 || (st.st_ino == f->inode && st.st_size >= at)) return false;
  FILE *now = mr_open_regular(f->path);
  if (!now) return false;
  fclose(f->file);
  f->file = now, f->inode = st.st_ino, f->newest = -1;
  return true;
}

static char *next_line(mr_top_feed_t *f, bool *again) {
  char *line = NULL;
  size_t cap = 0;
  long at = ftell(f->file);
  clearerr(f->file);
  ssize_t n;
  while ((n = mr_read_line(f->file, MR_LINE_MOST, &line, &cap)) == 0) at = ftell(f->file);
  if (n > 0 && line[n - 1] == '\n') {
    if (f->newest >= 0) fseeko(f->file, (off_t)f->newest, SEEK_SET);
    f->newest = -1;
    return line;
  }
  free(line);
  fseek(f->file, at, SEEK_SET); /* half a line: retry when the rest is there */
  *again = reopen_replaced(f, at);
  return NULL;
}

/* ---- both kinds ---- */

static bool is_address(const char *where) {
  return !strncmp(where, "http://", 7) || !strncmp(where, "https://", 8);
}

/* Reads a file with an address, as the web stage writes it; false if it has none. */
static bool read_address(const char *path, char *address, size_t n) {
  struct stat st;
  FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? mr_open_regular(path) : NULL;
  bool read = f && fgets(address, (int)n, f) && is_address(address);
  if (f) fclose(f);
  if (read) address[strcspn(address, "\r\n")] = 0;
  return read;
}

mr_err_t mr_top_feed_open(const char *where, int64_t bytes, mr_top_feed_t **out, mr_diag_t *diag) {
  char address[1024];
  mr_top_feed_t *f = calloc(1, sizeof *f);
  *out = NULL;
  if (!f) return mr_no_memory(diag, "a watch on %s", where);
  mr_err_t e = strlen(where) > 4000 ? mr_fail(diag, MR_ERR_USAGE, "the name is too long")
               : is_address(where)  ? mr_top_page_open(where, &f->page, diag)
               : read_address(where, address, sizeof address)
                   ? mr_top_page_open(address, &f->page, diag)
                   : open_folder(f, where, bytes, diag);
  if (e < 0) mr_top_feed_close(f);
  if (e >= 0) *out = f;
  return e;
}

void mr_top_feed_close(mr_top_feed_t *f) {
  if (!f) return;
  mr_top_page_close(f->page);
  if (f->file) fclose(f->file);
  free(f);
}

const char *mr_top_feed_name(const mr_top_feed_t *f) {
  return f->page ? mr_top_page_name(f->page) : f->name;
}

char *mr_top_feed_next(mr_top_feed_t *f, bool *again) {
  *again = false;
  return f->page ? mr_top_page_next(f->page) : next_line(f, again);
}

bool mr_top_feed_caught_up(const mr_top_feed_t *f) {
  return !f->page || mr_top_page_caught_up(f->page);
}

const char *mr_top_feed_over(mr_top_feed_t *f) {
  return f->page ? mr_top_page_over(f->page) : NULL;
}
