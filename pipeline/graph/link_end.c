/* The calls on the sending end of a link, whichever stage it is: each goes through the table in the
   stage's definition, and a function that is not there means that nothing happens. */
#include "pipeline/graph/link_end.h"

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

void mr_link_end_no_peer_comes(const mr_registry_t *reg) {
  for (int i = 0; i < reg->n; i++) {
    const mr_step_def_t *step = reg->def[i]->step;
    if (step && step->link_end && step->link_end->no_peer_comes) step->link_end->no_peer_comes();
  }
}
