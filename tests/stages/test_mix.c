/* mixup, cutmix and one-hot: each batch against the same batch unmixed and a plain oracle, from the
   start of the stream and from any step, with any number of workers. */
#include <math.h>

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/mix.h"
#include "stages/stages.h"
#include "tests/vectors.h"

enum { BATCHES = 20, B = 8, SIDE = 32, IMAGE = 3 * SIDE * SIDE, CLASSES = 10, SEED = 77 };

typedef struct batch {
  int n;
  int64_t epoch, position;
  uint64_t key[B], draw[B];
  float image[B][IMAGE], row[B][CLASSES];
  int32_t label[B];
} batch_t;

static batch_t plain[BATCHES], mixed[BATCHES];
static batch_t *to;
static int n_kept;

static mr_err_t keep_mixed_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  batch_t *k = &to[n_kept++];
  assert_true(n_kept <= BATCHES && b->n <= B);
  const mr_field_t *label = &s->in_spec[0].field[1];
  k->n = b->n, k->epoch = b->epoch, k->position = b->position;
  memcpy(k->key, b->key, sizeof *b->key * (size_t)b->n);
  memcpy(k->draw, b->draw, sizeof *b->draw * (size_t)b->n);
  memcpy(k->image, b->field[0].data, sizeof *k->image * (size_t)b->n);
  if (label->label)
    memcpy(k->label, b->field[1].data, sizeof *k->label * (size_t)b->n);
  else
    memcpy(k->row, b->field[1].data, sizeof *k->row * (size_t)b->n);
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t keep_mixed = {.name = "keep-mixed",
                                          .help = "Keeps batches.",
                                          .in = {{"in", MR_FLOW_BATCHES, false}},
                                          .step = &(const mr_step_def_t){.run = keep_mixed_step}};

/* Runs the stream with `stages` behind its batches, from batch `first` on. */
static void run_into(batch_t *out, const char *layout, const char *workers, const char *stages,
                     int64_t first) {
  static mr_registry_t reg;
  static const mr_stage_def_t *const own[] = {&keep_mixed, NULL};
  char text[512];
  mr_diag_t d = {0};
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, own);
  }
  snprintf(
      text, sizeof text,
      "synthetic n=37 ! shuffle seed=3 epochs=2 ! normalize layout=%s ! batch %d workers=%s %s "
      "! keep-mixed",
      layout, B, workers, stages);
  to = out, n_kept = 0;
  memset(out, 0, sizeof plain);
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0 ||
      (first && mr_graph_start_number(g, "batch", first, &d) < 0) || mr_graph_run(g, &d) < 0)
    fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
}

static mr_philox_t generator_of(const batch_t *b, uint64_t tag) {
  mr_philox_t g;
  uint64_t h = (0xCBF29CE484222325u ^ (uint64_t)b->epoch) * 0x100000001B3u;
  for (int i = 0; i < b->n; i++) h = (h ^ b->key[i]) * 0x100000001B3u;
  mr_philox_init(&g, SEED + (tag << 32), h);
  return g;
}

static void expect_rows(const batch_t *from, const batch_t *got, float own) {
  for (int i = 0; i < from->n; i++) {
    int other = (i + from->n - 1) % from->n;
    for (int c = 0; c < CLASSES; c++) {
      float want = (from->label[other] == c) * (1 - own);
      want += (from->label[i] == c) * own;
      if (!(fabsf(got->row[i][c] - want) < 1e-6f)) fail_msg("label of record %d, class %d", i, c);
    }
  }
}

static float expect_mixup(const batch_t *from, const batch_t *got, double alpha) {
  mr_philox_t g = generator_of(from, 1);
  double lam = (float)mr_beta(&g, alpha);
  float keep = (float)lam, take = (float)(1 - lam);
  for (int i = 0; i < from->n; i++)
    for (int k = 0; k < IMAGE; k++) {
      const float *a = from->image[i], *b = from->image[(i + from->n - 1) % from->n];
      volatile float x = b[k] * take, y = a[k] * keep;
      if (got->image[i][k] != x + y) fail_msg("record %d, number %d", i, k);
    }
  expect_rows(from, got, keep);
  return keep;
}

static float expect_cutmix(const batch_t *from, const batch_t *got, double alpha, bool hwc) {
  mr_philox_t g = generator_of(from, 2);
  double lam = (float)mr_beta(&g, alpha), r = 0.5 * sqrt(1 - lam);
  int x = (int)mr_philox_integers(&g, 0, SIDE), y = (int)mr_philox_integers(&g, 0, SIDE);
  int half = (int)(r * SIDE), area = 0;
  for (int i = 0; i < from->n; i++)
    for (int k = 0; k < IMAGE; k++) {
      int at_x = hwc ? k / 3 % SIDE : k % SIDE, at_y = hwc ? k / 3 / SIDE : k / SIDE % SIDE;
      bool in = at_x >= x - half && at_x < x + half && at_y >= y - half && at_y < y + half;
      const float *want = from->image[in ? (i + from->n - 1) % from->n : i];
      if (got->image[i][k] != want[k]) fail_msg("record %d, number %d", i, k);
      area += in && !i;
    }
  float own = (float)(1 - area / 3.0 / (SIDE * SIDE));
  expect_rows(from, got, own);
  return own;
}

static void batches_are_mixed_as_their_records_say(void **state) {
  static const double alphas[] = {0.2, 1, 4};
  for (int k = 0; k < 12; k++) {
    bool hwc = k & 1, cut = k & 2;
    double alpha = alphas[k / 4];
    char stages[96];
    const char *layout = hwc ? "hwc" : "chw";
    float first = -1;
    bool differ = false;
    snprintf(stages, sizeof stages, "! %s alpha=%g seed=%d workers=%d", cut ? "cutmix" : "mixup",
             alpha, SEED, 1 + k % 3);
    run_into(plain, layout, "1", "", 0);
    assert_int_equal(n_kept, 10);
    run_into(mixed, layout, "2", stages, 0);
    assert_int_equal(n_kept, 10);
    for (int n = 0; n < 10; n++) {
      assert_memory_equal(plain[n].key, mixed[n].key, sizeof plain[n].key);
      assert_int_equal(plain[n].position, mixed[n].position);
      float own = cut ? expect_cutmix(&plain[n], &mixed[n], alpha, hwc)
                      : expect_mixup(&plain[n], &mixed[n], alpha);
      differ |= n && own != first;
      first = own;
      if (own != 1) assert_true(mixed[n].draw[0] != plain[n].draw[0]);
    }
    assert_true(differ);
    static batch_t tail[BATCHES];
    int64_t from = 1 + k % 9;
    run_into(tail, layout, "1", stages, from);
    assert_int_equal(n_kept, 10 - from);
    for (int n = 0; n < n_kept; n++)
      assert_memory_equal(tail[n].image, mixed[n + from].image, sizeof tail[n].image);
  }
}

static void a_probability_leaves_batches_as_they_are(void **state) {
  int kept = 0;
  run_into(plain, "hwc", "1", "", 0);
  run_into(mixed, "hwc", "1", "! mixup p=0.5 seed=9", 0);
  for (int n = 0; n < n_kept; n++) {
    bool same = !memcmp(plain[n].image, mixed[n].image, sizeof plain[n].image);
    kept += same;
    if (same) expect_rows(&plain[n], &mixed[n], 1);
  }
  assert_true(kept > 0 && kept < n_kept);
}

static void rows_of_one_hot_are_mixed_like_labels(void **state) {
  static batch_t smooth[BATCHES];
  run_into(plain, "hwc", "1", "! mixup seed=77", 0);
  run_into(mixed, "hwc", "1", "! mixup seed=77 ! cutmix p=0", 0);
  for (int n = 0; n < n_kept; n++)
    assert_memory_equal(plain[n].row, mixed[n].row, sizeof plain[n].row);
  run_into(mixed, "hwc ! one-hot smoothing=0.3", "1", "", 0);
  run_into(smooth, "hwc", "1", "", 0);
  for (int n = 0; n < n_kept; n++)
    for (int i = 0; i < smooth[n].n; i++)
      for (int c = 0; c < CLASSES; c++) {
        float want = 0.03f + 0.7f * (float)(smooth[n].label[i] == c);
        assert_true(fabsf(mixed[n].row[i][c] - want) < 1e-6f);
      }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Moments for each alpha, and for alpha 1 and 2 the distribution itself. */
static void shares_have_the_beta_distribution(void **state) {
  enum { N = 40000 };
  static const double alphas[] = {0.05, 0.2, 0.4, 1, 2, 8, 500};
  static double x[N];
  mr_philox_t g;
  mr_philox_init(&g, 31, 4);
  for (int a = 0; a < 7; a++) {
    double mean = 0, square = 0, far = 0, alpha = alphas[a], variance = 0.25 / (2 * alpha + 1);
    for (int k = 0; k < N; k++) {
      x[k] = mr_beta(&g, alpha);
      assert_true(x[k] >= 0 && x[k] <= 1);
      mean += x[k] / N, square += (x[k] - 0.5) * (x[k] - 0.5) / N;
    }
    if (fabs(mean - 0.5) > 5 * sqrt(variance / N)) fail_msg("alpha %g: mean %g", alpha, mean);
    if (fabs(square / variance - 1) > 0.05) fail_msg("alpha %g: variance %g", alpha, square);
    qsort(x, N, sizeof *x, by_size);
    for (int k = 0; k < N; k++) {
      double cdf = alpha == 1 ? x[k] : x[k] * x[k] * (3 - 2 * x[k]);
      far = fmax(far, fabs(cdf - (k + 0.5) / N));
    }
    if ((alpha == 1 || alpha == 2) && far > 2 / sqrt(N))
      fail_msg("alpha %g: off by %g", alpha, far);
  }
}

static void graphs_that_cannot_mix_are_refused(void **state) {
  static const struct {
    const char *stages, *says;
  } row[] = {{"normalize ! batch 8 ! mixup 0", "alpha"},
             {"normalize ! batch 8 ! mixup nan", "alpha"},
             {"normalize ! batch 8 ! mixup 1e9", "alpha"},
             {"normalize ! batch 8 ! cutmix p=2", "p"},
             {"normalize ! batch 8 ! mixup classes=7", "10 classes"},
             {"normalize ! batch 8 ! mixup seed=-1", "seed"},
             {"batch 8 ! mixup", "normalize"},
             {"normalize ! batch 8 host=0/2 ! mixup", "gather"},
             {"normalize ! one-hot 3 ! batch 8", "10 classes"},
             {"normalize ! one-hot smoothing=1.1 ! batch 8", "smoothing"},
             {"normalize ! one-hot ! one-hot ! batch 8", "label"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    static mr_registry_t reg;
    char text[256];
    mr_diag_t d = {0};
    if (!reg.n) {
      mr_registry_add(&reg, mr_loaders_stages);
      mr_registry_add(&reg, mr_stages_stages);
      mr_registry_add(&reg, mr_sinks_stages);
    }
    snprintf(text, sizeof text, "synthetic n=37 ! %s ! null", row[k].stages);
    mr_graph_t *g = mr_graph_create(&reg);
    if (mr_graph_parse(g, text, NULL, 0, &d) >= 0 && mr_graph_run(g, &d) >= 0)
      fail_msg("%s runs", text);
    if (!strstr(d.text, row[k].says)) fail_msg("%s: %s", text, d.text);
    mr_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_are_mixed_as_their_records_say),
      cmocka_unit_test(a_probability_leaves_batches_as_they_are),
      cmocka_unit_test(rows_of_one_hot_are_mixed_like_labels),
      cmocka_unit_test(shares_have_the_beta_distribution),
      cmocka_unit_test(graphs_that_cannot_mix_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
