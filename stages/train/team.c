/* The note about pinned threads that share a processor. */
#include "stages/train/team.h"

#include <stdio.h>

void mr_train_team_tell(const mr_stage_t *s, const mr_train_team_t *t) {
  int n = mr_backend_default()->processors();
  if (!t->pin || !n || t->threads <= n) return;
  fprintf(
      stderr,
      "millrace: %s: pin=true ties threads=%lld to %d processor%s, which is all this process may "
      "use: some share one; threads=0 takes one each\n",
      s->name, (long long)t->threads, n, n == 1 ? "" : "s");
}
