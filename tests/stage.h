/* A stage made by hand, to call its hooks one by one without a graph. */
#ifndef MR_TESTS_STAGE_H
#define MR_TESTS_STAGE_H

#include "pipeline/registry.h"
#include "pipeline/stage_source.h"
#include "tests/vectors.h"

typedef struct hand {
  mr_stage_t s;
  mr_diag_t diag;
  mr_spec_t spec[2][MR_MAX_PORTS];
  bool linked[2][MR_MAX_PORTS];
  const char *name[2][MR_MAX_PORTS];
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
  h->s.n_in = mr_stage_def_n_in(def), h->s.n_out = mr_stage_def_n_out(def);
  h->s.in_spec = h->spec[0], h->s.out_spec = h->spec[1];
  h->s.in_linked = h->linked[0], h->s.out_linked = h->linked[1];
  h->s.in_name = h->name[0], h->s.in_from = h->name[1];
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
    ptrdiff_t bit = hand_opt(def, name) - def->opts;
    h->s.given[bit / 64] |= UINT64_C(1) << bit % 64;
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
  if (h->s.def->forget) h->s.def->forget(&h->s);
  free(h->s.state);
}

/* A record of two fields at most, as a source gives it or a map takes it. */
typedef struct hand_rec {
  mr_rec_t rec;
  mr_value_t value[2];
  _Alignas(64) char room[2][4096]; /* of what fetch writes */
} hand_rec_t;

/* Ready for a fetch of the source. */
static inline mr_rec_t *hand_rec(hand_rec_t *r, const mr_stage_t *s) {
  r->rec = (mr_rec_t){.field = r->value};
  for (int f = 0; f < 2; f++) r->value[f].data = s->writes >> f & 1 ? r->room[f] : NULL;
  return &r->rec;
}

/* What a fetch of one record says. */
static inline mr_err_t hand_fetch(hand_t *h, int worker, int64_t index, hand_rec_t *r) {
  return h->s.def->source->fetch(&h->s, worker, &index, 1, hand_rec(r, &h->s));
}

/* Of pictures with labels. */
static inline const uint8_t *hand_image(const hand_rec_t *r) { return r->value[0].data; }
static inline int32_t hand_label(const hand_rec_t *r) { return *(const int32_t *)r->value[1].data; }

/* A record whose field 0 is at data. */
#define HAND_REC(at, ...) \
  (mr_rec_t) { .field = (mr_value_t[2]){{.data = (at)}}, __VA_ARGS__ }

#define HAND_SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
