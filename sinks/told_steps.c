/* Steps nearly always extend the last range; others are inserted or join two ranges. */
#include "sinks/told_steps.h"
#include "base/notice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool told_steps_grow(mr_told_steps_t *t) {
  if (t->n < t->room) return true;
  size_t room = t->room ? 2 * t->room : 8;
  mr_told_range_t *range = realloc(t->range, room * sizeof *range);
  if (!range) return false;
  t->range = range, t->room = room;
  return true;
}

bool mr_told_steps_add(mr_told_steps_t *t, int64_t step) {
  size_t at = t->n; /* the first range that lies wholly after step */
  while (at && t->range[at - 1].first > step) at--;
  mr_told_range_t *before = at ? &t->range[at - 1] : NULL;
  mr_told_range_t *after = at < t->n ? &t->range[at] : NULL;
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
    if (!told_steps_grow(t)) return false;
    memmove(t->range + at + 1, t->range + at, (t->n - at) * sizeof *t->range);
    t->range[at] = (mr_told_range_t){step, step};
    t->n++;
  }
  return true;
}

void mr_told_steps_forget(mr_told_steps_t *t, int64_t first) {
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

void mr_told_steps_say_missing(const mr_told_steps_t *t, const mr_stage_t *s, const char *where,
                               int64_t last) {
  holes_t h = {0};
  int64_t next = 1;
  for (size_t i = 0; i < t->n && next <= last; i++) {
    const mr_told_range_t *r = &t->range[i];
    if (r->last < next) continue;
    if (r->first > next) add_hole(&h, next, r->first <= last ? r->first - 1 : last);
    next = r->last < last ? r->last + 1 : last + 1;
  }
  add_hole(&h, next, last);
  if (h.n)
    mr_notice("%s: %s: has no records of %" PRId64 " step%s before this resume: %s", s->name, where,
              h.n, h.n == 1 ? "" : "s", h.text);
}

void mr_told_steps_fini(mr_told_steps_t *t) {
  free(t->range);
  *t = (mr_told_steps_t){0};
}
