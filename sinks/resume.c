#include "sinks/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"

bool mr_resume_keeps(const mr_resume_t *r, const char *kind, double step) {
  if (step > (double)r->step || !strcmp(kind, "final") || !strcmp(kind, "test")) return false;
  return r->valid || step != (double)r->step || strcmp(kind, "valid") != 0;
}

bool mr_resume_was_told(int64_t told, const char *kind, int64_t step) {
  return strcmp(kind, "step") ? step < told && !strcmp(kind, "valid") : step <= told;
}

bool mr_resume_is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The steps that a file lacks, as text: "6 to 10, 12". */
typedef struct holes {
  int64_t next; /* step expected next, from 1 */
  int64_t n;
  bool full; /* the text */
  char text[160];
} holes_t;

enum { ROOM = 56 }; /* for one more hole in the text */

static void pass_to(holes_t *h, int64_t step) {
  size_t at = strlen(h->text), room = sizeof h->text - at;
  const char *comma = h->n ? ", " : "";
  int64_t first = h->next, last = step - 1;
  if (step < h->next) return;
  h->next = step + 1;
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

static void say_holes(const mr_stage_t *s, const char *path, const holes_t *h) {
  if (h->n)
    fprintf(stderr,
            "millrace: %s: %s: has no records of %" PRId64 " step%s before this resume: %s\n",
            s->name, path, h->n, h->n == 1 ? "" : "s", h->text);
}

/* Moves the lines that hold to the front of text[0,n) and returns their bytes. */
static size_t keep_lines(char *text, size_t n, const mr_resume_t *r, mr_resume_read_fn *read,
                         const void *arg, holes_t *h) {
  size_t kept = 0;
  for (size_t at = 0, len; at < n; at += len) {
    char *end = memchr(text + at, '\n', n - at);
    mr_resume_line_t line = {0};
    if (!end) break; /* cut short when that run was killed */
    len = (size_t)(end - text) + 1 - at;
    if (!read(arg, text + at, len, &line)) continue;
    if (!line.head && !mr_resume_keeps(r, line.kind, (double)line.step)) continue;
    if (!line.head && !strcmp(line.kind, "step")) pass_to(h, line.step);
    memmove(text + kept, text + at, len);
    kept += len;
  }
  return kept;
}

mr_err_t mr_resume_cut(const mr_stage_t *s, const char *path, const mr_resume_t *r,
                       mr_resume_read_fn *read, const void *arg, mr_diag_t *diag) {
  void *text = NULL;
  size_t n = 0;
  holes_t h = {.next = 1};
  if (access(path, F_OK) == 0 && !mr_resume_is_file(path)) return MR_OK;
  if (access(path, F_OK) == 0) MR_TRY(mr_read_file(path, (size_t)1 << 32, &text, &n, diag));
  size_t kept = text ? keep_lines(text, n, r, read, arg, &h) : 0;
  mr_err_t e = kept < n ? mr_write_file(path, text, kept, diag) : MR_OK;
  free(text);
  pass_to(&h, r->step + 1);
  if (e >= 0) say_holes(s, path, &h);
  return e;
}
