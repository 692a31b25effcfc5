/* Chains and walks.  Random trees of sources, orders, maps, filters, joins and walks, against a
   plain evaluation of the tree, position by position: fills of every length across bursts, walks
   resumed at every record, walks that are moved on, and walks over parts of a stream. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "base/philox.h"
#include "pipeline/records/chain.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "tests/pipeline/wired.h"
#include "tests/random.h"

/* ---- what flows: a record is one number, and nothing else here knows where it lies ---- */

static uint64_t value_of(const mr_rec_t *r) { return *(const uint64_t *)r->field->data; }
static void set_value(mr_rec_t *r, uint64_t v) { *(uint64_t *)r->field->data = v; }
static void borrow_value(mr_rec_t *r, uint64_t *v) { r->field->data = v; }
static uint64_t slot_value(const mr_buf_t *b, int i) { return ((const uint64_t *)b->data)[i]; }

static mr_spec_t spec_of_numbers(int64_t n, int64_t epochs) {
  return (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_fields = 1,
                     .field = {{.name = "x", .dtype = MR_I64}},
                     .n_records = n,
                     .n_epochs = epochs};
}

typedef struct plain { /* a record of the oracle */
  uint64_t value, key, draw;
  bool seeded;
  mr_philox_t rng;
} plain_t;

static uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t z = (a + 0x9E3779B97F4A7C15u) * (b * 2 + 1);
  return z ^ z >> 29;
}

/* ---- the stages; every one has the settings k and n ---- */

typedef struct settings {
  int64_t k, n;
} settings_t;

static const mr_opt_t opts[] = {{.name = "k",
                                 .type = MR_OPT_INT,
                                 .offset = offsetof(settings_t, k),
                                 .def = "1",
                                 .lo = 0,
                                 .hi = 1e9},
                                {.name = "n",
                                 .type = MR_OPT_INT,
                                 .offset = offsetof(settings_t, n),
                                 .def = "1",
                                 .lo = 0,
                                 .hi = 1e9},
                                {0}};

static int64_t k_of(const mr_stage_t *s) { return ((const settings_t *)s->state)->k; }
static int64_t n_of(const mr_stage_t *s) { return ((const settings_t *)s->state)->n; }

static mr_err_t same_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->writes = 1;
  return MR_OK;
}

/* src: n records, k epochs. */
static uint64_t src_data[24][MR_MAX_READERS][MR_BURST]; /* by source, reader and slot */
static mr_err_t src_plan(mr_stage_t *s) {
  return s->out_spec[0] = spec_of_numbers(n_of(s), k_of(s)), MR_OK;
}
static uint64_t src_value(int64_t n, int64_t index) { return mixed((uint64_t)n, (uint64_t)index); }
static mr_err_t src_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  uint64_t *data = src_data[s->name[0] - 'a'][worker];
  assert_in_range(n, 1, MR_BURST);
  for (int i = 0; i < n; i++) {
    assert_true(index[i] >= 0 && index[i] < n_of(s));
    data[i] = src_value(n_of(s), index[i]);
    borrow_value(&out[i], &data[i]);
    out[i].key = (uint64_t)index[i];
  }
  return MR_OK;
}
static bool src_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  for (int i = 0; i < n; i++) assert_true(index[i] >= 0 && index[i] < n_of(s));
  return k_of(s) % 2;
}

/* turn: each epoch begins k records later and wraps. */
static int64_t turned(int64_t k, int64_t n, int64_t p) { return p / n * n + (p % n + k) % n; }
static mr_err_t turn_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  at->index = turned(k_of(s), s->in_spec[0].n_records, position);
  return MR_OK;
}
static mr_period_t turn_period(const mr_stage_t *s, const mr_period_t *in) {
  return in[0].n == s->in_spec[0].n_records ? in[0] : (mr_period_t){0};
}

/* every: each k-th record of an epoch, k >= 1. */
static int64_t every_n(int64_t k, int64_t n) { return (n + k - 1) / k; }
static mr_err_t every_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].n_records = every_n(k_of(s), s->in_spec[0].n_records);
  return MR_OK;
}
static int64_t every_index(int64_t k, int64_t n, int64_t p) {
  int64_t m = every_n(k, n);
  return p / m * n + p % m * k;
}
static mr_err_t every_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  at->index = every_index(k_of(s), s->in_spec[0].n_records, position);
  return MR_OK;
}

/* holes: none at positions of its epoch where a hash says so. */
static bool is_hole(int64_t k, int64_t n, int64_t p) {
  return mixed((uint64_t)k, (uint64_t)(p % n)) % 4 == 0;
}
static mr_err_t holes_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  at->hole = is_hole(k_of(s), s->in_spec[0].n_records, position);
  return MR_OK;
}

/* seeds: a generator for each record. */
static mr_err_t seeds_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0], s->out_spec[0].seeded = true;
  return MR_OK;
}
static mr_err_t seeds_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  at->seeded = true, at->key[0] = (uint64_t)k_of(s), at->key[1] = 5,
  at->counter = (uint64_t)position;
  return MR_OK;
}

/* both: the inputs in turn. */
static int64_t all_of(const mr_spec_t *s) { return s->n_records * s->n_epochs; }
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static mr_err_t both_plan(mr_stage_t *s) {
  s->out_spec[0] = spec_of_numbers(2 * lesser(all_of(&s->in_spec[0]), all_of(&s->in_spec[1])), 1);
  s->out_spec[0].seeded = s->in_spec[0].seeded && s->in_spec[1].seeded;
  return MR_OK;
}
static mr_err_t both_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  at->port = (int)(position % 2), at->index = position / 2;
  return MR_OK;
}

/* adds, keeps its data, draws. */
static mr_err_t adds_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  set_value(out, mixed(value_of(in), (uint64_t)k_of(s)));
  return MR_OK;
}
static mr_err_t leaves_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  out->field[0] = in->field[0];
  out->key = in->key + (uint64_t)k_of(s);
  return MR_OK;
}
static mr_err_t draws_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  uint64_t drawn = in->rng ? mr_philox_next64(in->rng) : 7;
  mr_draw_note(out, drawn);
  set_value(out, value_of(in) + drawn);
  return MR_OK;
}

/* odd: by the value; few: by the key alone. */
static bool odd_keeps(uint64_t value, int64_t k) { return value % 5 != (uint64_t)k % 5; }
static bool few_keeps(uint64_t key, int64_t k) { return key % 3 != (uint64_t)k % 3; }
static mr_err_t odd_keep(mr_stage_t *s, const mr_rec_t *rec, bool *keep) {
  return *keep = odd_keeps(value_of(rec), k_of(s)), MR_OK;
}
static mr_err_t few_keep(mr_stage_t *s, const mr_rec_t *rec, bool *keep) {
  return *keep = few_keeps(rec->key, k_of(s)), MR_OK;
}

/* pair: one of two. */
static mr_err_t pair_plan(mr_stage_t *s) {
  s->out_spec[0] = spec_of_numbers(lesser(all_of(&s->in_spec[0]), all_of(&s->in_spec[1])), 1);
  s->out_spec[0].seeded = s->in_spec[0].seeded;
  s->writes = 1;
  return MR_OK;
}
static mr_err_t pair_run(mr_stage_t *s, const mr_rec_t *in, int n, mr_rec_t *out) {
  assert_int_equal(n, 2);
  set_value(out, mixed(value_of(&in[0]), value_of(&in[1])));
  return MR_OK;
}

/* alternate: k records of input a, one of b, until one of them ends. */
static mr_err_t alternate_plan(mr_stage_t *s) {
  s->out_spec[0] = spec_of_numbers(0, 1);
  s->out_spec[0].seeded = s->in_spec[0].seeded && s->in_spec[1].seeded;
  return MR_OK;
}
static mr_err_t alternate_next(mr_stage_t *s, mr_walk_t *w) {
  int64_t *word = mr_walk_words(w);
  mr_err_t e = mr_walk_pull(w, *word < k_of(s) ? 0 : 1);
  if (e == MR_OK) *word = (*word + 1) % (k_of(s) + 1);
  return e;
}

/* window: records in groups of k, each backwards. */
static mr_err_t window_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }
static mr_err_t window_next(mr_stage_t *s, mr_walk_t *w) {
  int64_t *given = mr_walk_words(w), held = mr_walk_held(w);
  if (held < 0) MR_TRY(mr_walk_hold(w, k_of(s), &held)); /* the first one, or after a load */
  if (held && *given >= held) {
    *given = 0;
    MR_TRY(mr_walk_hold(w, k_of(s), &held));
  }
  if (!held) return MR_END;
  return mr_walk_give(w, held - 1 - (*given)++);
}

static mr_err_t no_step(mr_stage_t *s) { return MR_END; }

/* clang-format off */
#define ONE .in = {{.name = "a", .flow = MR_FLOW_RECORDS}}
#define TWO .in = {{.name = "a", .flow = MR_FLOW_RECORDS}, {.name = "b", .flow = MR_FLOW_RECORDS}}
#define SETS .out = {{.name = "out", .flow = MR_FLOW_RECORDS}}, .opts = opts, .state_sz = sizeof(settings_t)
#define KIND(type, ...) &(const type){__VA_ARGS__}
static const mr_stage_def_t src = {.name = "src", SETS, .plan = src_plan, .source = KIND(mr_source_def_t, .fetch = src_fetch, .ahead = src_ahead)};
static const mr_stage_def_t turn = {.name = "turn", ONE, SETS, .plan = same_plan, .order = KIND(mr_order_def_t, .at = turn_at, .period = turn_period)};
static const mr_stage_def_t every = {.name = "every", ONE, SETS, .plan = every_plan, .order = KIND(mr_order_def_t, .at = every_at)};
static const mr_stage_def_t holes = {.name = "holes", ONE, SETS, .plan = same_plan, .order = KIND(mr_order_def_t, .at = holes_at, .period = turn_period, .sparse = true)};
static const mr_stage_def_t seeds = {.name = "seeds", ONE, SETS, .plan = seeds_plan, .order = KIND(mr_order_def_t, .at = seeds_at)};
static const mr_stage_def_t both = {.name = "both", TWO, SETS, .plan = both_plan, .order = KIND(mr_order_def_t, .at = both_at)};
static const mr_stage_def_t adds = {.name = "adds", ONE, SETS, .plan = same_plan, .map = KIND(mr_map_def_t, .run = adds_run)};
static const mr_stage_def_t leaves = {.name = "leaves", ONE, SETS, .plan = same_plan, .map = KIND(mr_map_def_t, .run = leaves_run)};
static const mr_stage_def_t draws = {.name = "draws", ONE, SETS, .plan = same_plan, .map = KIND(mr_map_def_t, .run = draws_run)};
static const mr_stage_def_t odd = {.name = "odd", ONE, SETS, .plan = same_plan, .filter = KIND(mr_filter_def_t, .keep = odd_keep)};
static const mr_stage_def_t few = {.name = "few", ONE, SETS, .plan = same_plan, .filter = KIND(mr_filter_def_t, .keep = few_keep, .of_record = true)};
static const mr_stage_def_t pair = {.name = "pair", TWO, SETS, .plan = pair_plan, .join = KIND(mr_join_def_t, .run = pair_run)};
static const mr_stage_def_t alternate = {.name = "alternate", TWO, SETS, .plan = alternate_plan, .walk = KIND(mr_walk_def_t, .next = alternate_next, .n_words = 1)};
static const mr_stage_def_t window = {.name = "window", ONE, SETS, .plan = window_plan, .walk = KIND(mr_walk_def_t, .next = window_next, .n_words = 1)};
static const mr_stage_def_t end = {.name = "end", ONE, .step = KIND(mr_step_def_t, .run = no_step)};
/* clang-format on */
static const mr_stage_def_t *const table[] = {&src,       &turn,   &every, &holes, &seeds, &both,
                                              &adds,      &leaves, &draws, &odd,   &few,   &pair,
                                              &alternate, &window, &end,   NULL};

/* ---- a round's tree ---- */

enum { NODES = 24, MOST = 4096, BATCH = 3 * MR_BURST + 5 };

typedef struct node {
  const mr_stage_def_t *def;
  int in[2]; /* -1: none */
  int64_t k, n;
  const mr_spec_t *spec; /* of the settled stage */
} node_t;

typedef struct tree {
  round_t *r;
  mr_graph_t *g;
  node_t node[NODES];
  int n;
  mr_stage_t *s; /* the step stage behind node n - 1 */
  mr_chain_t *c;
} tree_t;

static bool is_sequential(const tree_t *t, int i) {
  const node_t *b = &t->node[i];
  if (b->def == &alternate || b->def == &window) return true;
  for (int k = 0; k < 2; k++)
    if (b->in[k] >= 0 && is_sequential(t, b->in[k])) return true;
  return false;
}

/* Adds a stage over what was added last, or over the last two. */
static int grow(tree_t *t, int depth) {
  static const mr_stage_def_t *const kind[] = {&turn,      &every,  &holes, &seeds, &adds,
                                               &leaves,    &draws,  &odd,   &few,   &pair,
                                               &alternate, &window, &both};
  round_t *r = t->r;
  node_t b = {.def = &src, .in = {-1, -1}, .k = 1 + draw(r, 3), .n = 1 + draw(r, 40)};
  if (depth) {
    b.def = kind[draw(r, 13)], b.k = 1 + draw(r, 5);
    b.in[0] = grow(t, depth - 1);
    bool two = b.def->in[1].name && t->n < NODES / 3;
    if (b.def->in[1].name && !two) b.def = &adds;
    if (two) b.in[1] = grow(t, draw(r, 2));
    bool walks = is_sequential(t, b.in[0]) || (two && is_sequential(t, b.in[1]));
    if (b.def->order && walks) b.def = two ? &pair : &adds; /* orders want positions */
  }
  t->node[t->n] = b;
  return t->n++;
}

static tree_t random_tree(round_t *r, mr_registry_t *reg) {
  tree_t t = {.r = r};
  mr_diag_t diag = {0};
  char name[NODES][16], text[24];
  grow(&t, draw(r, 6));
  memset(reg, 0, sizeof *reg);
  mr_registry_add(reg, table);
  t.g = mr_graph_create(reg);
  for (int i = 0; i < t.n; i++) {
    node_t *b = &t.node[i];
    snprintf(name[i], sizeof *name, "%c%d", 'a' + i, i);
    assert_int_equal(mr_graph_add(t.g, b->def->name, name[i], NULL, &diag), MR_OK);
    snprintf(text, sizeof text, "%lld", (long long)b->k);
    assert_int_equal(mr_graph_set(t.g, name[i], "k", text, &diag), MR_OK);
    snprintf(text, sizeof text, "%lld", (long long)b->n);
    assert_int_equal(mr_graph_set(t.g, name[i], "n", text, &diag), MR_OK);
    for (int k = 0; k < 2; k++)
      if (b->in[k] >= 0)
        assert_int_equal(mr_graph_link(t.g, name[b->in[k]], NULL, name[i], k ? "b" : "a", &diag),
                         MR_OK);
  }
  assert_int_equal(mr_graph_add(t.g, "end", "end", NULL, &diag), MR_OK);
  assert_int_equal(mr_graph_link(t.g, name[t.n - 1], NULL, "end", NULL, &diag), MR_OK);
  if (mr_graph_settle(t.g, &diag) < 0 || mr__wire(t.g) < 0) {
    round_check(r, false, "%s", diag.text);
  }
  for (int i = 0; i < t.n; i++) t.node[i].spec = &mr_graph_stage(t.g, name[i])->out_spec[0];
  t.s = worker_of(t.g, "end", 0);
  t.c = mr_in_chain(t.s, 0);
  return t;
}

/* ---- the oracle ---- */

static void plain_map(const node_t *b, plain_t *p) {
  if (b->def == &adds) p->value = mixed(p->value, (uint64_t)b->k);
  if (b->def == &leaves) p->key += (uint64_t)b->k;
  if (b->def != &draws) return;
  uint64_t drawn = p->seeded ? mr_philox_next64(&p->rng) : 7;
  mr_rec_t r = {.draw = p->draw};
  mr_draw_note(&r, drawn);
  p->draw = r.draw, p->value += drawn;
}

static bool plain_keeps(const node_t *b, const plain_t *p) {
  return b->def == &odd ? odd_keeps(p->value, b->k) : few_keeps(p->key, b->k);
}

/* The record at a position of an indexable stage; false: a hole. */
static bool plain_at(const tree_t *t, int i, int64_t p, plain_t *out) {
  const node_t *b = &t->node[i];
  int64_t n = b->in[0] >= 0 ? t->node[b->in[0]].spec->n_records : b->n;
  plain_t other;
  if (b->def == &src) {
    *out = (plain_t){.value = src_value(b->n, p % b->n), .key = (uint64_t)(p % b->n)};
    return true;
  }
  if (b->def == &turn) return plain_at(t, b->in[0], turned(b->k, n, p), out);
  if (b->def == &every) return plain_at(t, b->in[0], every_index(b->k, n, p), out);
  if (b->def == &holes) return !is_hole(b->k, n, p) && plain_at(t, b->in[0], p, out);
  if (b->def == &both) return plain_at(t, b->in[p % 2], p / 2, out);
  if (!plain_at(t, b->in[0], p, out)) return false;
  if (b->def == &seeds) {
    mr_philox_init(&out->rng, (uint64_t)b->k, 5);
    out->rng.counter[3] = (uint64_t)p, out->seeded = true;
  }
  if (b->def->filter) return plain_keeps(b, out);
  if (b->def == &pair) {
    if (!plain_at(t, b->in[1], p, &other)) return false;
    out->value = mixed(out->value, other.value);
  }
  plain_map(b, out);
  return true;
}

/* All records of a stage, one after the other, as they are walked: of the part (offset, stride). */
typedef struct list {
  plain_t *at;
  int n;
} list_t;

static void add(list_t *l, plain_t p) {
  if (l->n < MOST) l->at[l->n++] = p;
}

static list_t plain_list(const tree_t *t, int i, int64_t offset, int64_t stride) {
  const node_t *b = &t->node[i];
  list_t out = {malloc(MOST * sizeof(plain_t)), 0}, a = {0}, c = {0};
  plain_t p;
  assert_non_null(out.at);
  if (!is_sequential(t, i)) {
    for (int64_t at = offset; at < all_of(b->spec); at += stride)
      if (plain_at(t, i, at, &p)) add(&out, p);
    return out;
  }
  a = plain_list(t, b->in[0], offset, stride);
  if (b->in[1] >= 0) c = plain_list(t, b->in[1], offset, stride);
  if (b->def == &alternate)
    for (int x = 0, y = 0, word = 0;; word = (int)((word + 1) % (b->k + 1))) {
      bool first = word < b->k;
      if (first ? x == a.n : y == c.n) break;
      add(&out, first ? a.at[x++] : c.at[y++]);
    }
  else if (b->def == &window)
    for (int from = 0; from < a.n; from += (int)b->k)
      for (int k = (int)lesser(b->k, a.n - from); k; k--) add(&out, a.at[from + k - 1]);
  else
    for (int k = 0; k < a.n && (b->def != &pair || k < c.n); k++) {
      p = a.at[k];
      if (b->def->filter && !plain_keeps(b, &p)) continue;
      if (b->def == &pair) p.value = mixed(p.value, c.at[k].value);
      plain_map(b, &p);
      add(&out, p);
    }
  free(a.at), free(c.at);
  return out;
}

/* ---- comparing ---- */

/* With MILLRACE_TREE set: what the seed's tree is. */
static void print_tree(const tree_t *t) {
  for (int i = 0; i < t->n && getenv("MILLRACE_TREE"); i++) {
    const node_t *b = &t->node[i];
    fprintf(stderr, "%d: %s k=%d n=%d of %d %d\n", i, b->def->name, (int)b->k, (int)b->n, b->in[0],
            b->in[1]);
  }
}

static mr_pool_t *batch_pool(const tree_t *t) {
  mr_spec_t spec = t->s->in_spec[0];
  spec.flow = MR_FLOW_BATCHES, spec.batch = BATCH;
  return mr_pool_create(&spec, 1);
}

static void check_slots(const tree_t *t, const mr_buf_t *b, const plain_t *want, int n,
                        int64_t from) {
  for (int i = 0; i < n; i++)
    round_check(
        t->r,
        slot_value(b, i) == want[i].value && b->key[i] == want[i].key && b->draw[i] == want[i].draw,
        "number %lld: value %llx, want %llx; key %llu, want %llu", (long long)from + i,
        (unsigned long long)slot_value(b, i), (unsigned long long)want[i].value,
        (unsigned long long)b->key[i], (unsigned long long)want[i].key);
}

/* Fills at random positions; a hole among them is reported, or nothing is. */
static void check_fills(tree_t *t, mr_buf_t *b) {
  int64_t all = all_of(t->node[t->n - 1].spec);
  for (int tries = 0; tries < 12; tries++) {
    plain_t want[BATCH];
    int n = one_in(t->r, 3) ? draw(t->r, BATCH + 1) : draw(t->r, MR_BURST + 2);
    int64_t pos = draw(t->r, (int)all + 50), whole = 0;
    while (whole < n && plain_at(t, t->n - 1, pos + whole, &want[whole])) whole++;
    if (one_in(t->r, 2)) mr_chain_then(t->c, draw(t->r, (int)all), draw(t->r, BATCH));
    mr_err_t e = mr_chain_fill(t->s, t->c, pos, n, b);
    round_check(t->r, e == (whole == n ? MR_OK : MR_ERR_DATA),
                "fill of %d at %lld: %d, %lld are there", n, (long long)pos, (int)e,
                (long long)whole);
    if (e == MR_OK) check_slots(t, b, want, n, pos);
  }
}

/* From record `at` of the list to its end, in batches; left where the walk then stands. */
static int walk_some(tree_t *t, mr_walk_t *w, mr_buf_t *b, const list_t *l, int at, int most) {
  mr_picks_t *p = mr_picks_create(t->c, 1 + draw(t->r, 8));
  assert_non_null(p);
  while (most > 0) {
    int n = 1 + draw(t->r, BATCH), k = 0;
    if (n > most) n = most;
    mr_picks_clear(p);
    mr_err_t e = MR_OK;
    bool more;
    while (k < n && (e = mr_walk_next(t->s, t->c, w, INT64_MAX, p, &more)) == MR_OK) k++;
    round_check(t->r, e == MR_OK || e == MR_END, "walk: %d", (int)e);
    round_check(t->r, mr_picks_n(p) == k, "%d picked, want %d", mr_picks_n(p), k);
    round_check(t->r, k == (int)lesser(n, l->n - at), "%d records from %d, want %d of %d", k, at,
                (int)lesser(n, l->n - at), l->n);
    int split = draw(t->r, k + 1); /* made in two parts, as two workers may */
    round_check(t->r, mr_picks_fill(t->s, t->c, p, split, k - split, b) == MR_OK, "fill");
    check_slots(t, b, l->at + at + split, k - split, at + split);
    round_check(t->r, mr_picks_fill(t->s, t->c, p, 0, split, b) == MR_OK, "fill");
    check_slots(t, b, l->at + at, split, at);
    at += k, most -= k;
    if (e == MR_END) break;
  }
  mr_picks_destroy(p);
  return at;
}

/* Walks on, is saved, goes somewhere else, is loaded, is moved on. */
static void check_walk(tree_t *t, mr_buf_t *b, int64_t offset, int64_t stride) {
  list_t l = plain_list(t, t->n - 1, offset, stride);
  mr_walk_t *w = mr_walk_create(t->c, offset, stride);
  int64_t words[MR_STREAM_WORDS_MAX];
  assert_non_null(w);
  int at = walk_some(t, w, b, &l, 0, draw(t->r, l.n + 2));
  for (int tries = 0; tries < 6 && at < l.n; tries++) {
    mr_walk_save(w, words);
    walk_some(t, w, b, &l, at, draw(t->r, 20));
    round_check(t->r, mr_walk_load(w, words), "its own state");
    int skipped = draw(t->r, l.n - at + 2);
    mr_err_t e = mr_walk_pass(t->s, t->c, w, skipped);
    round_check(t->r, e == (skipped <= l.n - at ? MR_OK : MR_END), "pass %d of %d: %d", skipped,
                l.n - at, (int)e);
    if (e == MR_END) break;
    at = walk_some(t, w, b, &l, at + skipped, draw(t->r, 10));
  }
  for (int i = 0; i < t->s->in_spec[0].n_words; i++) words[i] = 0;
  round_check(t->r, mr_walk_load(w, words), "the start");
  walk_some(t, w, b, &l, 0, l.n + 1);
  words[0] = -1;
  round_check(t->r, !mr_walk_load(w, words), "a number below 0");
  mr_walk_destroy(w);
  free(l.at);
}

static void every_tree_gives_what_a_plain_evaluation_gives(void **state) {
  static mr_registry_t reg;
  round_t r = round_first(400);
  while (round_next(&r)) {
    tree_t t = random_tree(&r, &reg);
    print_tree(&t);
    mr_pool_t *pool = batch_pool(&t);
    mr_buf_t *b = mr_pool_get(pool);
    if (!is_sequential(&t, t.n - 1)) check_fills(&t, b);
    check_walk(&t, b, 0, 1);
    int64_t stride = 1 + draw(&r, 4);
    check_walk(&t, b, draw(&r, (int)stride), stride);
    mr_buf_unref(b);
    mr_pool_destroy(pool);
    mr_graph_destroy(t.g);
  }
}

static void a_walk_stops_before_the_position_that_is_named(void **state) {
  mr_registry_t reg;
  mr_graph_t *g = wired(&reg, table, "src n=10 k=1 name=a0 ! end", 0);
  mr_stage_t *s = worker_of(g, "end", 0);
  mr_chain_t *c = mr_in_chain(s, 0);
  mr_walk_t *w = mr_walk_create(c, 0, 1);
  mr_picks_t *p = mr_picks_create(c, 1);
  bool more;
  for (int i = 0; i < 4; i++) assert_int_equal(mr_walk_next(s, c, w, 4, p, &more), MR_OK);
  assert_int_equal(mr_walk_next(s, c, w, 4, p, &more), MR_END);
  assert_true(more);
  assert_int_equal(mr_picks_n(p), 4);
  for (int i = 4; i < 10; i++) assert_int_equal(mr_walk_next(s, c, w, 99, p, &more), MR_OK);
  assert_int_equal(mr_walk_next(s, c, w, 99, p, &more), MR_END);
  assert_false(more);
  mr_graph_stop(g);
  mr_picks_destroy(p), mr_walk_destroy(w), mr_walk_destroy(NULL), mr_picks_destroy(NULL);
  mr_graph_destroy(g);
}

static void a_stream_in_which_nothing_is_left_ends_or_says_so(void **state) {
  static const char *const text[] = {"src n=3 k=2 name=a0 ! odd k=0 ! end",
                                     "src n=3 k=0 name=a0 ! odd k=0 ! end"};
  for (int i = 0; i < 2; i++) {
    mr_registry_t reg;
    mr_diag_t diag = {0};
    mr_graph_t *g = wired(&reg, table, text[i], 0);
    mr_stage_t *s = worker_of(g, "end", 0);
    mr_chain_t *c = mr_in_chain(s, 0);
    mr_walk_t *w = mr_walk_create(c, 0, 1);
    mr_picks_t *p = mr_picks_create(c, 1);
    s->diag = &diag;
    mr_err_t e;
    bool more;
    while ((e = mr_walk_next(s, c, w, INT64_MAX, p, &more)) == MR_OK && mr_picks_n(p) < 1000)
      continue;
    if (mr_picks_n(p) == 0) assert_int_equal(e, i ? MR_ERR_DATA : MR_END);
    mr_picks_destroy(p), mr_walk_destroy(w);
    mr_graph_destroy(g);
  }
}

/* Each of n pairs takes both of its inputs from the one before it: 2^(n+1) - 1 branches. */
static mr_err_t settle_doubled(int n, mr_diag_t *diag) {
  mr_registry_t reg = {0};
  char text[4096];
  size_t at = (size_t)snprintf(text, sizeof text, "src k=1 n=3 name=p0 ");
  for (int i = 1; i <= n; i++)
    at += (size_t)snprintf(text + at, sizeof text - at,
                           "pair k=1 n=1 name=p%d  p%d. ! p%d.a  p%d. ! p%d.b ", i, i - 1, i, i - 1,
                           i);
  snprintf(text + at, sizeof text - at, "p%d. ! end", n);
  mr_registry_add(&reg, table);
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_graph_settle(g, diag);
  mr_graph_destroy(g);
  return e;
}

static void more_paths_than_a_chain_has_room_for_are_refused_by_name(void **state) {
  mr_diag_t diag = {0};
  assert_int_equal(settle_doubled(13, &diag), MR_OK);
  assert_int_equal(settle_doubled(14, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "end: more than 16384 stages of records lead to it"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_paths_than_a_chain_has_room_for_are_refused_by_name),
      cmocka_unit_test(a_walk_stops_before_the_position_that_is_named),
      cmocka_unit_test(a_stream_in_which_nothing_is_left_ends_or_says_so),
      cmocka_unit_test(every_tree_gives_what_a_plain_evaluation_gives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
