/* A set of steps as ranges, in which a step nearly always extends the last range; and the cut of a
   file of lines.  A run writes its file for as long as it lives, so the cut is found from the end:
   only the last lines up to the step of the checkpoint are read and filtered. */
#include "sinks/resume.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lines.h"
#include "base/xio.h"
#include "metrics/report.h"

/* ---- the steps of an earlier run ---- */

static bool reported_steps_grow(mr_reported_steps_t *t) {
  if (t->n < t->room) return true;
  size_t room = t->room ? 2 * t->room : 8;
  mr_reported_range_t *range = realloc(t->range, room * sizeof *range);
  if (!range) return false;
  t->range = range, t->room = room;
  return true;
}

bool mr_reported_steps_add(mr_reported_steps_t *t, int64_t step) {
  size_t at = t->n; /* the first range that lies wholly after step */
  while (at && t->range[at - 1].first > step) at--;
  mr_reported_range_t *before = at ? &t->range[at - 1] : NULL;
  mr_reported_range_t *after = at < t->n ? &t->range[at] : NULL;
  if (before && step <= before->last) return true;
  bool joins_before = before && before->last + 1 == step;
  bool joins_after = after && after->first - 1 == step;
  if (joins_before && joins_after) {
    before->last = after->last;
    memmove(after, after + 1, (size_t)(t->range + t->n - after - 1) * sizeof *after);
    t->n--;
  } else if (joins_before) {
    before->last = step;
  } else if (joins_after) {
    after->first = step;
  } else {
    if (!reported_steps_grow(t)) return false;
    memmove(t->range + at + 1, t->range + at, (t->n - at) * sizeof *t->range);
    t->range[at] = (mr_reported_range_t){step, step};
    t->n++;
  }
  return true;
}

void mr_reported_steps_forget(mr_reported_steps_t *t, int64_t first) {
  while (t->n && t->range[t->n - 1].first >= first) t->n--;
  if (t->n && t->range[t->n - 1].last >= first) t->range[t->n - 1].last = first - 1;
}

enum { ROOM = 56 }; /* for one more hole in the text */

/* The missing steps as text: "6 to 10, 12". */
typedef struct holes {
  int64_t n;
  bool full; /* the text is full and ends in ", ..." */
  char text[160];
} holes_t;

static void add_hole(holes_t *h, int64_t first, int64_t last) {
  size_t at = strlen(h->text), room = sizeof h->text - at;
  const char *comma = h->n ? ", " : "";
  if (last < first) return;
  h->n += last - first + 1;
  if (h->full) return;
  h->full = room < ROOM;
  if (h->full)
    snprintf(h->text + at, room, ", ...");
  else if (last == first)
    snprintf(h->text + at, room, "%s%" PRId64, comma, last);
  else
    snprintf(h->text + at, room, "%s%" PRId64 " to %" PRId64, comma, first, last);
}

void mr_reported_steps_say_missing(const mr_reported_steps_t *t, const mr_stage_t *s,
                                   const char *where, int64_t first, int64_t last) {
  holes_t h = {0};
  int64_t next = first;
  for (size_t i = 0; i < t->n && next <= last; i++) {
    const mr_reported_range_t *r = &t->range[i];
    if (r->last < next) continue;
    if (r->first > next) add_hole(&h, next, r->first <= last ? r->first - 1 : last);
    next = r->last < last ? r->last + 1 : last + 1;
  }
  add_hole(&h, next, last);
  if (h.n)
    mr_notice("%s: %s: has no records of %" PRId64 " step%s before this resume: %s", s->name, where,
              h.n, h.n == 1 ? "" : "s", h.text);
}

void mr_reported_steps_fini(mr_reported_steps_t *t) {
  free(t->range);
  *t = (mr_reported_steps_t){0};
}

/* ---- lines of an earlier run ---- */

bool mr_resume_keeps(const mr_resume_t *r, const char *kind, double step) {
  if (step > (double)r->step || !strcmp(kind, "final") || !strcmp(kind, "test")) return false;
  return r->valid || step != (double)r->step || !mr_report_kind_is_valid(kind);
}

bool mr_resume_was_reported(int64_t reported, const char *kind, int64_t step) {
  return strcmp(kind, "step") ? step < reported && mr_report_kind_is_valid(kind) : step <= reported;
}

bool mr_resume_is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The end of a file of lines, from the byte `from` to where lines of later steps begin. */
typedef struct last_lines {
  char *text; /* [n] heap */
  size_t n;
  int64_t from;
  size_t kept;  /* bytes of the lines that stay, at the front of text */
  size_t whole; /* of these, the bytes before the first line that goes */
} last_lines_t;

/* Moves the lines to keep to the front of l->text, and adds their steps to steps.  False without
   memory. */
static bool keep_lines(last_lines_t *l, const mr_resume_t *r, mr_resume_read_fn *read,
                       const void *arg, mr_reported_steps_t *steps) {
  l->kept = l->whole = 0;
  for (size_t at = 0, len; at < l->n; at += len) {
    char *end = memchr(l->text + at, '\n', l->n - at);
    mr_resume_line_t line = {0};
    if (!end) break; /* cut short when the earlier run was killed */
    len = (size_t)(end - l->text) + 1 - at;
    if (!read(arg, l->text + at, len, &line)) continue;
    if (!line.head && !mr_resume_keeps(r, line.kind, (double)line.step)) continue;
    if (!line.head && !strcmp(line.kind, "step") && !mr_reported_steps_add(steps, line.step))
      return false;
    if (l->kept == at)
      l->whole = at + len;
    else
      memmove(l->text + l->kept, l->text + at, len);
    l->kept += len;
  }
  return true;
}

typedef struct numbering {
  mr_resume_read_fn *read;
  const void *arg;
} numbering_t;

static int64_t step_of_line(const void *arg, const char *text, size_t n) {
  const numbering_t *of = arg;
  mr_resume_line_t line = {0};
  return of->read(of->arg, text, n, &line) && !line.head ? line.step : -1;
}

/* Reads the last lines up to the step. */
static mr_err_t read_last(FILE *f, const char *path, int64_t step, const numbering_t *of,
                          last_lines_t *l, mr_diag_t *diag) {
  struct stat st;
  int64_t to = fstat(fileno(f), &st) < 0 ? -1 : (int64_t)st.st_size;
  if (to > MR_LINES_TAIL) to = mr_lines_above(f, step, step_of_line, of);
  if (to >= 0) l->from = mr_lines_seek(f, to > MR_LINES_TAIL ? to - MR_LINES_TAIL : 0);
  if (to < 0 || l->from < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  size_t room = to > l->from ? (size_t)(to - l->from) : 0;
  l->text = malloc(room + 1);
  if (!l->text) return mr_no_memory(diag, "the last lines of %s", path);
  l->n = fread(l->text, 1, room, f);
  return l->n == room ? MR_OK : mr_fail(diag, MR_ERR_IO, "%s: cannot be read", path);
}

/* Copies the bytes before the last lines, then those that stay. */
static mr_err_t rewrite_lines(FILE *f, const char *path, const last_lines_t *l, mr_diag_t *diag) {
  static const size_t piece = 1 << 16;
  mr_newfile_t to;
  char *bytes = malloc(piece);
  if (!bytes) return mr_no_memory(diag, "a copy of %s", path);
  mr_err_t e = mr_newfile_open(&to, path, diag);
  bool opened = e >= 0;
  if (fseeko(f, 0, SEEK_SET) < 0) e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read", path);
  for (int64_t left = l->from; left > 0 && e >= 0;) {
    size_t n = fread(bytes, 1, left < (int64_t)piece ? (size_t)left : piece, f);
    e = n ? mr_write_all(to.fd, bytes, n, path, diag)
          : mr_fail(diag, MR_ERR_IO, "%s: cannot be read", path);
    left -= (int64_t)n;
  }
  if (e >= 0) e = mr_write_all(to.fd, l->text, l->kept, path, diag);
  free(bytes);
  if (e < 0) return opened ? mr_newfile_drop(&to), e : e;
  return mr_newfile_commit(&to, diag);
}

/* Of a short file those who follow it see another file; a long one is not copied where it need only
   end earlier. */
static mr_err_t put_cut(FILE *f, const char *name, const last_lines_t *l, mr_diag_t *diag) {
  struct stat st;
  char path[PATH_MAX]; /* what a link leads to is cut, and the link stays */
  int64_t end = l->from + (int64_t)l->kept;
  if (fstat(fileno(f), &st) == 0 && st.st_size == end && l->whole == l->kept) return MR_OK;
  if (!realpath(name, path))
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be cut: %s", name, strerror(errno));
  if (!l->from) return mr_write_file(path, l->text, l->kept, diag);
  if (l->whole < l->kept) return rewrite_lines(f, path, l, diag);
  if (truncate(path, (off_t)end) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be cut: %s", path, strerror(errno));
}

mr_err_t mr_resume_cut(const mr_stage_t *s, const char *path, const mr_resume_t *r,
                       mr_resume_read_fn *read, const void *arg, mr_diag_t *diag) {
  mr_reported_steps_t steps = {0};
  last_lines_t l = {0};
  FILE *f = mr_resume_is_file(path) ? mr_open_regular(path) : NULL;
  if (!f && mr_resume_is_file(path))
    return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", path, mr_open_reason(errno));
  mr_err_t e = f ? read_last(f, path, r->step, &(numbering_t){read, arg}, &l, diag) : MR_OK;
  if (e >= 0 && !keep_lines(&l, r, read, arg, &steps))
    e = mr_no_memory(diag, "the steps in %s", path);
  if (e >= 0 && f) e = put_cut(f, path, &l, diag);
  if (f) fclose(f);
  free(l.text);
  int64_t first = !l.from ? 1 : steps.n ? steps.range[0].first : r->step + 1;
  if (e >= 0 && (f || access(path, F_OK) < 0))
    mr_reported_steps_say_missing(&steps, s, path, first, r->step);
  mr_reported_steps_fini(&steps);
  return e;
}
