/* The CPU as a backend: the table of functions that the executor uses. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/machine.h"
#include "base/pages.h"
#include "model/backends/cpu/limits.h"
#include "model/backends/cpu/lower.h"
#include "model/backends/cpu/program.h"
#include "model/backends/cpu/rules.h"
#include "model/backends/cpu/team.h"
#include "model/exec/backend.h"
#include "model/ops/rules.h"
#include "model/transforms/passes.h"

static void backend_give(void *data, size_t bytes) { free(data); }

/* The pointers of an empty copy may be NULL, which memcpy does not accept. */
static void backend_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way) {
  if (bytes) memcpy(to, from, bytes);
}

static int backend_begin(int threads, bool pin) {
  int before = mr__team_set(threads);
  if (pin) mr__team_pin();
  return before;
}

static void backend_end(int before) { mr__team_set(before); }

static void backend_spread(int threads) { mr__team_set(threads); }

/* Whether e asks for a lower precision of f32 products than its kernel has. */
static bool asks_in_vain(const mr_eqn_t *e) {
  const mr_cpu_rule_t *r = mr__cpu_rule(e->op);
  mr_precision_t p = mr_precision_of(e);
  return r && r->f32_alone && e->in[0]->aval.dtype == MR_F32 &&
         (p == MR_PRECISION_DEFAULT || p == MR_PRECISION_HIGH);
}

/* Whether e computes in f64, which kernels of composites cannot. */
static bool too_wide(const mr_eqn_t *e) {
  bool wide = false;
  for (int k = 0; k < e->n_in; k++) wide |= e->in[k]->aval.dtype == MR_F64;
  for (int k = 0; k < e->n_out; k++) wide |= e->out[k]->aval.dtype == MR_F64;
  return wide;
}

static bool backend_opens(const mr_eqn_t *e) { return asks_in_vain(e) || too_wide(e); }

static const mr_target_t target = {.loop_eqns = MR_PROGRAM_EQNS,
                                   .loop_ends = MR_PROGRAM_ENDS,
                                   .element = mr__cpu_element,
                                   .opens = backend_opens};

const mr_backend_t mr_backend_cpu = {.name = "cpu",
                                     .align = 64,
                                     .host = true,
                                     .check = mr_isa_check,
                                     .take = mr_pages_alloc,
                                     .give = backend_give,
                                     .room = mr_machine_memory,
                                     .copy = backend_copy,
                                     .lower = mr__cpu_lower,
                                     .target = &target,
                                     .threads = omp_get_max_threads,
                                     .processors = mr__team_processors,
                                     .begin = backend_begin,
                                     .end = backend_end,
                                     .spread = backend_spread,
                                     .leave = mr__team_release,
                                     .fma = mr_limit_fma,
                                     .bandwidth = mr_limit_copy};
