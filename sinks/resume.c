/* A set of steps as ranges, in which a step nearly always extends the last range; and the rewriting
   of a file of lines, which is read whole, filtered in place, and replaced by rename only if a line
   goes. */
#include "sinks/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
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
                                   const char *where, int64_t last) {
  holes_t h = {0};
  int64_t next = 1;
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

/* Moves the lines to keep to the front of text[0,*n), sets *n to their bytes and adds their steps
   to steps.  False without memory. */
static bool keep_lines(char *text, size_t *n, const mr_resume_t *r, mr_resume_read_fn *read,
                       const void *arg, mr_reported_steps_t *steps) {
  size_t kept = 0;
  for (size_t at = 0, len; at < *n; at += len) {
    char *end = memchr(text + at, '\n', *n - at);
    mr_resume_line_t line = {0};
    if (!end) break; /* cut short when the earlier run was killed */
    len = (size_t)(end - text) + 1 - at;
    if (!read(arg, text + at, len, &line)) continue;
    if (!line.head && !mr_resume_keeps(r, line.kind, (double)line.step)) continue;
    if (!line.head && !strcmp(line.kind, "step") && !mr_reported_steps_add(steps, line.step))
      return false;
    memmove(text + kept, text + at, len);
    kept += len;
  }
  *n = kept;
  return true;
}

mr_err_t mr_resume_cut(const mr_stage_t *s, const char *path, const mr_resume_t *r,
                       mr_resume_read_fn *read, const void *arg, mr_diag_t *diag) {
  void *text = NULL;
  size_t n = 0;
  mr_reported_steps_t steps = {0};
  mr_err_t e = MR_OK;
  if (access(path, F_OK) == 0 && !mr_resume_is_file(path)) return MR_OK;
  if (access(path, F_OK) == 0) MR_TRY(mr_read_file(path, (size_t)1 << 32, &text, &n, diag));
  size_t kept = n;
  if (text && !keep_lines(text, &kept, r, read, arg, &steps))
    e = mr_no_memory(diag, "the steps in %s", path);
  if (e >= 0 && kept < n) e = mr_write_file(path, text, kept, diag);
  free(text);
  if (e >= 0) mr_reported_steps_say_missing(&steps, s, path, r->step);
  mr_reported_steps_fini(&steps);
  return e;
}
