/* The calls on the sending end of a link, whichever stage it is: each goes through the table in the
   stage's definition, and a function that is not there means that nothing happens. */
#include "pipeline/graph/link_end.h"

#include <stdatomic.h>

static const mr_link_end_t *link_end_of(const mr_stage_t *s) {
  static const mr_link_end_t none;
  const mr_link_end_t *end = s->def->step ? s->def->step->link_end : NULL;
  return end ? end : &none;
}

bool mr_link_end_moved(const mr_stage_t *s, mr_stream_at_t *at) {
  const mr_link_end_t *end = link_end_of(s);
  return end->moved && end->moved(s, at);
}

void mr_link_end_refuse(const mr_stage_t *s, const mr_stream_at_t *at, const char *why) {
  const mr_link_end_t *end = link_end_of(s);
  if (end->refuse) end->refuse(s, at, why);
}

bool mr_link_end_left(const mr_stage_t *s) {
  const mr_link_end_t *end = link_end_of(s);
  return end->left && end->left(s);
}

void mr_link_end_set_left(const mr_stage_t *s) {
  const mr_link_end_t *end = link_end_of(s);
  if (end->set_left) end->set_left(s);
}

int64_t mr_link_end_sent(const mr_stage_t *s) {
  const mr_link_end_t *end = link_end_of(s);
  return end->sent ? end->sent(s) : 0;
}

mr_err_t mr_link_end_ask(const mr_stage_t *s, mr_stream_at_t *at, mr_diag_t *diag) {
  const mr_link_end_t *end = link_end_of(s);
  return end->ask ? end->ask(s, at, diag) : MR_OK;
}

/* Lock-free, since a signal handler sets it.  Relaxed, in end_all and in all_ended alike: it hands
   nothing over, and the stages that the signal wakes see it. */
static atomic_bool all_ended;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a signal handler must not take a lock");

void mr_link_end_end_all(void) {
  atomic_store_explicit(&all_ended, true,
                        memory_order_relaxed); /* pairs with mr_link_end_all_ended */
}

bool mr_link_end_all_ended(void) {
  return atomic_load_explicit(&all_ended,
                              memory_order_relaxed); /* pairs with mr_link_end_end_all */
}
