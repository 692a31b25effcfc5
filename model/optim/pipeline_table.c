/* The schedules of a pipeline.  Each tick every rank takes the most urgent of what it can do: the
   backward pass of its next part if its cotangent has come, else the forward pass of the next
   part if that has come and few enough are held.  Of GPipe, all forward passes come first. */
#include <assert.h>
#include <string.h>

#include "model/optim/pipeline.h"

/* Parts that a rank has gone through, forward and back, before this tick and now. */
typedef struct progress {
  int ahead, back, ahead_now, back_now;
} progress_t;

static bool can_go_back(const progress_t *at, int r, int stages) {
  return r + 1 < stages ? at[r].back < at[r + 1].back : at[r].back < at[r].ahead;
}

static bool can_go_forward(const progress_t *at, mr_pipeline_kind_t kind, int r, int stages,
                           int parts) {
  if (at[r].ahead == parts || (r && at[r].ahead >= at[r - 1].ahead)) return false;
  return kind == MR_PIPELINE_GPIPE || at[r].ahead - at[r].back < stages - r;
}

int mr_pipeline_table(mr_pipeline_kind_t kind, int stages, int parts, mr_pipeline_slot_t *slot) {
  progress_t at[MR_PIPELINE_STAGES] = {{0}};
  int n = 0, time = 0;
  assert(stages >= 1 && stages <= MR_PIPELINE_STAGES && parts >= 1 && parts <= MR_PIPELINE_PARTS);
  for (; n < 2 * stages * parts; time++) {
    for (int r = 0; r < stages; r++) {
      bool back = can_go_back(at, r, stages) && (kind == MR_PIPELINE_1F1B || at[r].ahead == parts);
      if (!back && !can_go_forward(at, kind, r, stages, parts)) continue;
      int *now = back ? &at[r].back_now : &at[r].ahead_now;
      slot[n++] = (mr_pipeline_slot_t){r, time, (*now)++, back};
    }
    for (int r = 0; r < stages; r++) at[r].ahead = at[r].ahead_now, at[r].back = at[r].back_now;
  }
  return time;
}

double mr_pipeline_bubble(int stages, int n, int end) { return ((double)stages * end - n) / n; }

int mr_pipeline_held(const mr_pipeline_slot_t *slot, int n, int rank) {
  int held = 0, most = 0;
  for (int i = 0; i < n; i++) {
    if (slot[i].rank != rank) continue;
    held += slot[i].backward ? -1 : 1;
    if (held > most) most = held;
  }
  return most;
}
