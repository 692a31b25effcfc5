/* The plan of a test's source of states. */
#ifndef MR_TESTS_SINKS_STATES_H
#define MR_TESTS_SINKS_STATES_H

#include "pipeline/stage.h"
#include "pipeline/state.h"

static inline mr_err_t states_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_STATE, sizeof(mr_state_t));
  return MR_OK;
}

#endif
