/* Positions and numbers that a peer, a file of state or a flag may ask for: however far, nothing
   overflows and nothing in front of a source is read. */
#include "tests/loaders/streams.h"

#define FAR (INT64_C(1) << 62)

enum { NUMBER, POSITION, BOTH, SEEK, WAYS };

static const int64_t far_away[] = {
    500000000000000000, 700000000000000000, 900000000000000000, INT64_C(1) << 61, FAR - 1, FAR,
    INT64_MAX - 1,      INT64_MAX};

/* Begins at x in one of the ways, and takes up to a few batches. */
static mr_err_t begin(mr_graph_t *g, int way, int64_t x, mr_diag_t *d) {
  mr_stream_at_t at = {.number = way == POSITION ? 0 : x, .position = way == NUMBER ? 0 : x};
  bool found;
  if (way != SEEK) return mr_graph_resume(g, "b", &at, d);
  MR_TRY(mr_graph_settle(g, d));
  MR_TRY(mr_graph_seek(g, "b", x, &found, d));
  return found ? MR_OK : mr_graph_start_number(g, "b", x, d);
}

static int n_taken;

static mr_err_t look_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  for (int i = 0; i < b->n; i++) /* keys of range 1000 are its numbers */
    if (b->key[i] >= 1000) fail_msg("key %llu", (unsigned long long)b->key[i]);
  mr_buf_unref(b);
  return ++n_taken < 3 ? MR_OK : MR_END;
}

static const mr_stage_def_t look = {.name = "look",
                                    .help = "Checks keys.",
                                    .in = {{"in", MR_FLOW_BATCHES, false}},
                                    .step = &(const mr_step_def_t){.run = look_step}};

static void try_from(const char *text, int way, int64_t x, bool refused) {
  mr_diag_t d = {0};
  static mr_registry_t reg;
  if (!reg.n) {
    static const mr_stage_def_t *const own[] = {&look, NULL};
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, own);
  }
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0) fail_msg("%s: %s", text, d.text);
  n_taken = 0;
  mr_err_t e = begin(g, way, x, &d);
  if (e >= 0) e = mr_graph_run(g, &d);
  if (e < 0 && (e != MR_ERR_CONFIG || !*d.text))
    fail_msg("%s: way %d from %lld: %d \"%s\"", text, way, (long long)x, e, d.text);
  if (refused && e != MR_ERR_CONFIG) fail_msg("%s: way %d from %lld", text, way, (long long)x);
  mr_graph_destroy(g);
}

static void far_starts_are_refused_or_right(void **state) {
  static const char *const text[] = {
      "range 1000 epochs=0 ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! batch 32 name=b drop-remainder workers=3 ! look",
      "range 1000 ! shuffle seed=1 epochs=0 ! batch 32 name=b across-epochs ! look",
      "range 1000 ! shuffle seed=1 epochs=2 ! batch 32 name=b ! look",
      "range 1000 ! shuffle seed=1 shard=1/7 epochs=0 ! batch 32 name=b ! look",
      "range 1000 ! sequential shard=1/7 epochs=0 ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! slice ::300 ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! slice ::-300 ! batch 32 name=b ! look",
      "range 1000 ! repeat ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! filter modulo=2 ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! filter modulo=2 ! batch 32 name=b across-epochs ! look",
      "range 1000 epochs=0 ! to-iter-dataset ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! window-shuffle 7 seed=1 wrap-seed ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! mix 1,3 name=m range 1000 epochs=0 ! m.b m. ! batch 32 name=b ! look",
      "range 1000 epochs=0 ! batch 32 name=b skip-steps=3,900000000000000000-950000000000000000 ! "
      "look",
      "range 1000 epochs=0 ! batch 32 ! rebatch 7 name=b ! look",
      "range 1000 epochs=0 ! batch 32 skip-steps=4 ! rebatch 7 name=b ! look",
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    for (size_t k = 0; k < sizeof far_away / sizeof *far_away; k++)
      for (int way = 0; way < WAYS; way++)
        try_from(text[i], way, far_away[k], i == 0 && (way == NUMBER || way == SEEK));
}

static void an_order_that_asks_before_the_first_record_is_refused(void **state) {
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph("range 1000 epochs=0 ! slice ::300 ! batch 32");
  mr_stream_at_t at = {.position = (INT64_C(1) << 62) - 32};
  assert_int_equal(mr_graph_resume(g, "batch", &at, &d), MR_OK);
  assert_int_equal(mr_graph_run(g, &d), MR_ERR_CONFIG);
  assert_non_null(strstr(d.text, "position"));
  mr_graph_destroy(g);
}

static void lengths_beyond_2_to_the_62_are_refused(void **state) {
  static const char *const text[] = {
      "range 4000000000000000 epochs=0 ! batch 65536 across-epochs",
      "range 4000000000000000 epochs=1000 ! concatenate name=m range 4000000000000000 "
      "epochs=1000 ! m.b m. ! batch 4"};
  for (int i = 0; i < 2; i++) {
    mr_diag_t d = {0};
    mr_graph_t *g = stream_graph(text[i]);
    if (mr_graph_settle(g, &d) != MR_ERR_CONFIG || !strstr(d.text, "2^62"))
      fail_msg("%s: \"%s\"", text[i], d.text);
    mr_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(far_starts_are_refused_or_right),
      cmocka_unit_test(an_order_that_asks_before_the_first_record_is_refused),
      cmocka_unit_test(lengths_beyond_2_to_the_62_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
