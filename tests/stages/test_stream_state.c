/* The state of a stream is small: its position, or some numbers that do not grow with the data. */
#include "tests/loaders/streams.h"

enum { STATE_BYTES = 4096 };

static int words_of(const char *text) {
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(text);
  if (mr_graph_settle(g, &d) < 0) fail_msg("%s: %s", text, d.text);
  int n = mr_graph_stage(g, "batch")->out_spec[0].n_words;
  mr_graph_destroy(g);
  return n;
}

static void orders_need_their_position_alone(void **state) {
  static const char *const text[] = {
      "range 1000000000000000 ! shuffle seed=1 epochs=0 ! batch 128",
      "range 1000000000000 ! shuffle seed=1 epochs=0 shard=900000/1000000 ! batch 128",
      "range 1000000000000 ! shuffle seed=1 ! repeat ! filter p=0.5 ! batch 128 across-epochs",
      "range 1000000 ! shuffle seed=1 ! mix weights=1,1000 name=m range 9000000000 ! shuffle "
      "seed=2 "
      "! m.b m. ! filter p=0.1 ! window-shuffle 100000 seed=3 ! batch 128"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) assert_int_equal(words_of(text[i]), 0);
}

static void walks_need_a_few_numbers_whatever_the_data(void **state) {
  char text[1024];
  int few = words_of("range 100 ! to-iter-dataset ! window-shuffle 8 seed=1 ! batch 4");
  int many = words_of(
      "range 1000000000000 ! shuffle seed=1 ! to-iter-dataset ! window-shuffle 1000000 seed=1 ! "
      "batch 65536");
  assert_int_equal(few, 3);
  assert_int_equal(many, few);
  snprintf(text, sizeof text, "range 1000000000000 ! shuffle seed=1 ! batch 64 %s",
           "order=grain-workers loader-workers=256");
  assert_true(words_of(text) * 8 <= STATE_BYTES);
}

/* The largest mixes and worker counts that are taken still fit; the others are refused. */
static void no_state_is_larger_than_4_kib(void **state) {
  static const char *const stream[] = {
      "range 100 ! %s mp-prefetch %d ! batch 4",
      "range 100 ! to-iter-dataset ! random-map seed=1 ! %s mp-prefetch %d ! batch 4",
      "range 100 ! to-iter-dataset ! mix name=m range 100 ! m.b range 100 ! m.c range 100 ! m.d "
      "range 100 ! m.e range 100 ! m.f range 100 ! m.g range 100 ! m.h m. ! %s mp-prefetch %d ! "
      "batch 4"};
  int taken = 0, refused = 0;
  for (size_t i = 0; i < sizeof stream / sizeof *stream; i++)
    for (int workers = 1; workers <= 256; workers++) {
      char text[1024];
      mr_diag_t d = {0};
      snprintf(text, sizeof text, stream[i], "window-shuffle 8 seed=1 ! ", workers);
      mr_graph_t *g = stream_graph(text);
      mr_err_t e = mr_graph_settle(g, &d);
      if (e >= 0) {
        assert_true(mr_graph_stage(g, "batch")->out_spec[0].n_words * 8 <= STATE_BYTES);
        taken++;
      } else {
        assert_non_null(strstr(d.text, "want at most 510"));
        refused++;
      }
      mr_graph_destroy(g);
    }
  assert_true(taken > 100 && refused > 100);
}

static void a_state_of_another_graph_is_refused(void **state) {
  static const int64_t word[3] = {0};
  mr_diag_t d = {0};
  stream_t t = {0};
  stream_now = &t;
  mr_graph_t *g = stream_graph("range 9 ! to-iter-dataset ! random-map seed=1 ! batch 3");
  assert_int_equal(mr_graph_start_words(g, "batch", 3, word, 3, &d), MR_OK);
  assert_int_equal(mr_graph_run(g, &d), MR_ERR_CONFIG);
  assert_string_equal(d.text,
                      "batch: the stream was left with a state of 3 numbers, this one has 2; "
                      "resume with the graph that wrote the state");
  mr_graph_destroy(g);
  stream_free(&t);
}

/* Numbers from a damaged file end in a sentence or a stream, never in bad memory. */
static void any_numbers_as_a_state_are_survived(void **state) {
  static const char *const text[] = {
      "range 9 ! interleave 2 name=i range 7 ! i.b range 5 ! i.c i. ! batch 3",
      "range 99 ! to-iter-dataset ! window-shuffle 8 seed=1 ! mp-prefetch 3 ! batch 4",
      "range 40 ! to-iter-dataset ! mix name=m range 50 ! m.b m. ! repeat 3 ! limit 70 ! batch 4",
      ("range 40 ! concatenate name=c range 5 ! to-iter-dataset ! c.b c. ! random-map seed=1 ! "
       "batch 4"),
      "range 40 ! batch 5 order=grain-workers loader-workers=3"};
  static const int64_t odd[] = {0,  1,  2,         3,         7,         100,
                                -1, -9, 1LL << 40, 1LL << 61, INT64_MAX, INT64_MIN};
  uint32_t x = 12345;
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    for (int round = 0; round < 200; round++) {
      int64_t word[512];
      mr_diag_t d = {0};
      int n = words_of(text[i]);
      for (int k = 0; k < n; k++) {
        x = x * 1664525 + 1013904223;
        word[k] = odd[(x >> 16) % (round % 2 ? 6 : 12)];
      }
      stream_t t = {0};
      stream_now = &t;
      mr_graph_t *g = stream_graph(text[i]);
      assert_int_equal(mr_graph_start_words(g, "batch", 3, word, n, &d), MR_OK);
      if (mr_graph_run(g, &d) < 0) assert_true(d.text[0]);
      mr_graph_destroy(g);
      stream_free(&t);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(orders_need_their_position_alone),
      cmocka_unit_test(walks_need_a_few_numbers_whatever_the_data),
      cmocka_unit_test(no_state_is_larger_than_4_kib),
      cmocka_unit_test(a_state_of_another_graph_is_refused),
      cmocka_unit_test(any_numbers_as_a_state_are_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
