/* Recognises a stream that holds no record, so that no search runs for ever.

   Over positions, twice as many consecutive holes as the stream's period contain a whole epoch
   without a record, wherever the count began.  Over records that a filter drops one by one, every
   source below must have passed two epochs or have ended.  Where epochs may differ, as those of
   every second record of a shuffle do, more epochs are searched. */
#include <assert.h>
#include <inttypes.h>

#include "pipeline/records/walk_private.h"

/* No run reaches that many positions, so a longer stream counts as endless. */
static const int64_t BEYOND = INT64_C(1) << 32;
enum {
  DROPPED_LEAST = 1 << 20, /* a tenth of a second; shorter streams end by themselves */
  EPOCHS_SURE = 2,
  EPOCHS_UNSURE = 64, /* e^-64: the probability that chance alone hid a record */
  UNSURE_MOST = 1 << 24
};

/* The name of the stage that leaves holes before a branch, or drops records; NULL: none does. */
static const char *find_dropper(const mr_chain_t *c, int branch) {
  const mr__branch_t *b = &c->branch[branch];
  if (mr__leaves_holes(b->s.def)) return b->s.name;
  for (int i = 0; i < b->n_in; i++) {
    const char *name = find_dropper(c, b->in[i]);
    if (name) return name;
  }
  return NULL;
}

static mr_err_t fail_empty(const mr_walk_t *w, const mr__walking_t *x, int64_t records) {
  const char *name = find_dropper(x->c, w->branch);
  return mr_stage_fail(x->s, MR_ERR_DATA,
                       "no record is left of an epoch of %" PRId64
                       ": \"%s\" removed all of them; change its settings",
                       records, name ? name : "a stage before");
}

/* True if every epoch of w holds the same records. */
static bool is_sure(const mr_walk_t *w, const mr_chain_t *c) {
  mr_period_t p = mr__period(c, w->branch);
  return p.n == w->pass && (w->stride == 1 || p.ordered);
}

static bool has_waited(const mr_walk_t *w, const mr_chain_t *c) {
  assert(w->at && w->pass > 0 && w->holes > 0);
  if (w->holes / EPOCHS_SURE < w->pass) return false;
  return w->holes / EPOCHS_UNSURE >= w->pass || w->holes >= UNSURE_MOST || is_sure(w, c);
}

mr_err_t mr__walk_hole(mr_walk_t *w, mr__walking_t *x, int64_t n) {
  int64_t left = mr__walk_end(x->c, w) - (w->offset + w->word[0] * w->stride);
  if (n % MR__LOOK_UP_EVERY == 0) {
    mr_err_t e = mr__walk_ended(x);
    if (e != MR_OK) return e;
  }
  w->holes++;
  if (!has_waited(w, x->c)) return MR_OK;
  if (left > BEYOND) return fail_empty(w, x, w->pass);
  return is_sure(w, x->c) ? MR_END : MR_OK;
}

static void forget_seen(mr_walk_t *w) {
  w->seen = 0;
  for (int i = 0; i < w->n_below; i++) forget_seen(w->below[i]);
}

/* True if each walk over positions below has passed enough epochs or is at its end. */
static bool all_seen(const mr_walk_t *w, const mr_chain_t *c, int64_t *records) {
  if (w->at) {
    *records += w->pass;
    int epochs = w->stride == 1 ? EPOCHS_SURE : EPOCHS_UNSURE;
    return w->seen / epochs >= w->pass || w->offset + w->word[0] * w->stride >= mr__walk_end(c, w);
  }
  for (int i = 0; i < w->n_below; i++)
    if (!all_seen(w->below[i], c, records)) return false;
  return true;
}

mr_err_t mr__walk_dropped(mr_walk_t *w, mr__walking_t *x, int64_t n) {
  int64_t records = 0;
  assert(!w->at && n > 0);
  if (n % MR__LOOK_UP_EVERY) return MR_OK;
  mr_err_t e = mr__walk_ended(x);
  if (e != MR_OK) return e;
  if (n == MR__LOOK_UP_EVERY) forget_seen(w);
  return n >= DROPPED_LEAST && all_seen(w, x->c, &records) ? fail_empty(w, x, records) : MR_OK;
}
