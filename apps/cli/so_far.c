/* How long the rest takes is reckoned from all that is done, and not from the newest unit: units
   differ, and the figure would jump. */
#include "apps/cli/so_far.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const int64_t second = 1000000000;

mr_so_far_t mr_so_far_begin(const char *what, int64_t first, int64_t of) {
  return (mr_so_far_t){.what = what, .first = first, .of = of, .began = mr_now_ns()};
}

void mr_so_far(mr_so_far_t *p, int64_t at) {
  bool terminal = isatty(STDERR_FILENO);
  int64_t now = mr_now_ns(), since = p->said ? p->said : p->began;
  if (now - since < (terminal ? 1 : 10) * second) return;
  double rate = (double)(at - p->first + 1) / ((double)(now - p->began) / (double)second);
  p->said = now;
  fprintf(stderr, "%s%s %" PRId64, terminal ? "\r\033[K" : "", p->what, at);
  if (p->of)
    fprintf(stderr, " of %" PRId64 ", about %.0f s left", p->of, (double)(p->of - at) / rate);
  if (!terminal) fputs("\n", stderr);
}

void mr_so_far_end(mr_so_far_t *p) {
  if (p->said && isatty(STDERR_FILENO)) fputs("\n", stderr);
  p->said = 0;
}
