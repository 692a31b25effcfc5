/* A stage made by hand, to call its hooks one by one without a graph. */
#ifndef MR_TESTS_STAGE_H
#define MR_TESTS_STAGE_H

#include "pipeline/stage.h"
#include "tests/vectors.h"

typedef struct hand {
  mr_stage_t s;
  mr_diag_t diag;
} hand_t;

static inline const mr_opt_t *hand_opt(const mr_stage_def_t *def, const char *name) {
  const mr_opt_t *o = def->opts;
  while (o->type != MR_OPT_END && strcmp(o->name, name)) o++;
  return o->type == MR_OPT_END ? NULL : o;
}

/* settings: "name=value" texts up to a NULL; the rest has its defaults.  Returns what setting and
   plan say; the sentence is in h->diag.  hand_close follows in any case. */
static inline mr_err_t hand_plan(hand_t *h, const mr_stage_def_t *def, const mr_spec_t *in,
                                 const char *const *settings) {
  *h = (hand_t){.s = {.def = def, .name = def->name, .n_workers = 1}};
  h->s.diag = &h->diag;
  h->s.state = calloc(1, def->state_sz);
  if (in) h->s.in_spec[0] = *in;
  for (const mr_opt_t *o = def->opts; o->type != MR_OPT_END; o++)
    if (o->def) assert_int_equal(mr_opt_set(o, h->s.state, def->name, o->def, &h->diag), MR_OK);
  for (; settings && *settings; settings++) {
    char name[64];
    const char *value = strchr(*settings, '=') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(value - 1 - *settings), *settings);
    assert_non_null(hand_opt(def, name));
    MR_TRY(mr_opt_set(hand_opt(def, name), h->s.state, def->name, value, &h->diag));
    h->s.given |= UINT64_C(1) << (hand_opt(def, name) - def->opts);
  }
  return def->plan(&h->s);
}

static inline mr_err_t hand_open(hand_t *h, const mr_stage_def_t *def, const mr_spec_t *in,
                                 const char *const *settings) {
  MR_TRY(hand_plan(h, def, in, settings));
  return def->open ? def->open(&h->s) : MR_OK;
}

static inline void hand_close(hand_t *h) {
  if (h->s.def->close) h->s.def->close(&h->s);
  free(h->s.state);
}

#define HAND_SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
