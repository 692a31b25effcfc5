/* Which stage limits: a stage of a chain is slowed at random, and must be named; what half its
   delay brings is predicted, then measured.  Stages sleep, or compute.  DIAGNOSE_TRIALS=40 is the
   long form (scripts/check-diagnosis.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <time.h>

#include "base/philox.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/watch/diagnose.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"

enum { STAGES = 4, RECORDS = 4, BATCHES = 20 };

static const char *const stage_name[STAGES] = {"first", "second", "third", "fourth"};

typedef struct found {
  char stage[32];
  double seconds, gain;
} found_t;

/* First and second share the batch stage's thread, third and fourth have their own.  us: a
   buffer's delay in each. */
static mr_graph_t *start_graph(const double *us, bool asleep) {
  static mr_registry_t reg;
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  char text[512];
  const char *how = asleep ? " asleep" : "";
  mr_diag_t diag = {0};
  mr_graph_t *g = mr_graph_create(&reg);
  snprintf(text, sizeof text,
           "synthetic n=%d ! delay-record %.1f%s name=first ! delay-record %.1f%s name=second "
           "! batch %d ! delay %.1f%s name=third ! delay %.1f%s name=fourth ! null",
           RECORDS * BATCHES, us[0] / RECORDS, how, us[1] / RECORDS, how, RECORDS, us[2], how,
           us[3], how);
  assert_int_equal(mr_graph_parse(g, text, NULL, 0, &diag), MR_OK);
  if (mr_graph_start(g, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

static void end_graph(mr_graph_t *g, found_t *out) {
  mr_diag_t diag = {0};
  mr_diagnosis_t d;
  if (mr_graph_join(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_snapshot_t *all = mr_snapshot_take(g);
  assert_true(mr_diagnose(g, NULL, all, &d));
  snprintf(out->stage, sizeof out->stage, "%s", d.stage);
  out->seconds = d.seconds, out->gain = d.seconds / d.twice_s;
  mr_snapshot_free(all);
  mr_graph_destroy(g);
}

/* Who sleeps leaves the machine to the other: at once, so that whatever else runs strikes both.  A
   run lasts until it is joined: the fast one is, first. */
static void run_both(const double *slow_us, const double *fast_us, bool asleep, found_t *slow,
                     found_t *fast) {
  mr_graph_t *g = start_graph(slow_us, asleep);
  if (!asleep) end_graph(g, slow);
  end_graph(start_graph(fast_us, asleep), fast);
  if (asleep) end_graph(g, slow);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_size);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Whether a run took little more than its delays demand: who slept was woken in time. */
static bool was_calm(const found_t *f, const double *us) {
  double fill = us[0] + us[1], most = fill;
  for (int i = 2; i < STAGES; i++) fill += us[i], most = us[i] > most ? us[i] : most;
  return f->seconds * 1e6 <= 1.1 * (fill + (BATCHES - 1) * most);
}

/* The gain foretold and the one measured, each the median of runs in turn, slow and half: what
   others do on the machine meanwhile strikes some.  *calm: it did not strike most, so that the
   medians lie among the others. */
static bool trial(mr_philox_t *g, int runs, bool asleep, bool *near, bool *calm) {
  double us[STAGES], half[STAGES], foretold[9], measured[9];
  int k = (int)mr_philox_uniform(g, 0, STAGES), named = 0, undisturbed = 0;
  for (int i = 0; i < STAGES; i++) us[i] = mr_philox_uniform(g, 200, 4000);
  us[k] = mr_philox_uniform(g, 12000, 24000);
  memcpy(half, us, sizeof half);
  half[k] /= 2;
  for (int i = 0; i < runs; i++) {
    found_t slow, fast;
    run_both(us, half, asleep, &slow, &fast);
    named += !strcmp(slow.stage, stage_name[k]);
    undisturbed += was_calm(&slow, us) && was_calm(&fast, half);
    foretold[i] = slow.gain, measured[i] = slow.seconds / fast.seconds;
  }
  double gain = median(measured, runs), said = median(foretold, runs);
  *near = fabs(said - gain) <= 0.15 * gain;
  *calm = 2 * undisturbed > runs;
  print_message("%s slowed%s: named in %d of %d, gain %.2f predicted, %.2f measured%s\n",
                stage_name[k], asleep ? "" : " (computes)", named, runs, said, gain,
                *calm ? "" : ", disturbed by others");
  return 2 * named > runs;
}

/* At most two of 40 may be wrong, and none of the few of the short form, which all sleep: who
   computes shares the processors with other tests.  Those also keep sleepers from waking in time,
   and then what was measured is no gain: the short form asks for none there. */
static void a_slowed_stage_is_named_and_its_gain_foretold(void **state) {
  const char *wanted = getenv("DIAGNOSE_TRIALS");
  uint64_t seed = (uint64_t)time(NULL);
  int n = wanted ? atoi(wanted) : 6, named = 0, near = 0;
  mr_philox_t g;
  mr_philox_init(&g, seed, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int i = 0; i < n; i++) {
    bool right, calm;
    named += trial(&g, 3, !wanted || i % 2 == 0, &right, &calm);
    near += right || (!wanted && !calm);
  }
  print_message("%d of %d named, %d gains within 15 %%%s\n", named, n, near,
                wanted ? "" : " or disturbed");
  assert_in_range(named, n - n / 20, n);
  assert_in_range(near, n - n / 20, n);
}

/* ---- timeline ---- */

static cJSON *trace_of(program_t *p, const char *graph) {
  static char text[1 << 20];
  char path[64];
  snprintf(path, sizeof path, "/tmp/millrace-trace-%d.json", (int)getpid());
  RUN(p, "run", "--trace", path, graph);
  if (p->status) fail_msg("status %d: %s", p->status, p->err);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f), remove(path);
  cJSON *o = cJSON_Parse(text);
  if (!o) fail_msg("no JSON: %.200s", text);
  cJSON *events = cJSON_DetachItemFromObject(o, "traceEvents");
  cJSON_Delete(o);
  return events;
}

static double number(const cJSON *e, const char *name) {
  return cJSON_GetObjectItem(e, name)->valuedouble;
}

static void a_trace_follows_each_batch_to_the_end(void **state) {
  static program_t p;
  cJSON *all = trace_of(&p,
                        "synthetic n=400 ! normalize preset=cifar10 ! batch 8 name=load workers=2 "
                        "! identity ! null");
  const cJSON *e, *f;
  double end[16] = {0};
  int arrows = 0, made = 0;
  bool is_made[50] = {0};
  cJSON_ArrayForEach(e, all) {
    const char *ph = cJSON_GetObjectItem(e, "ph")->valuestring;
    int thread = (int)number(e, "tid");
    if (*ph == 'X') { /* slices of a thread follow each other */
      assert_true(number(e, "ts") >= end[thread] - 0.01 && number(e, "dur") >= 0);
      end[thread] = number(e, "ts") + number(e, "dur");
      int batch;
      if (!strcmp(cJSON_GetObjectItem(e, "cat")->valuestring, "load")) {
        assert_int_equal(sscanf(cJSON_GetObjectItem(e, "name")->valuestring, "batch %d", &batch),
                         1);
        assert_in_range(batch, 0, 49);
        made += !is_made[batch], is_made[batch] = true;
      }
    }
    if (*ph != 'f') continue;
    int begins = 0;
    cJSON_ArrayForEach(f, all) {
      if (*cJSON_GetObjectItem(f, "ph")->valuestring != 's' || number(f, "id") != number(e, "id"))
        continue;
      assert_true(number(f, "ts") <= number(e, "ts"));
      begins++;
    }
    assert_int_equal(begins, 1);
    arrows++;
  }
  assert_int_equal(made, 50);
  assert_int_equal(arrows, 100); /* 50 batches into identity, 50 into null */
  cJSON_Delete(all);
}

/* Those that make batches have nothing else to do: there are no gaps, whatever they wait for. */
static void a_trace_shows_work_before_a_wait_too(void **state) {
  static program_t p;
  cJSON *all =
      trace_of(&p, "synthetic n=1600 ! normalize ! batch 8 name=load ! delay 3000 asleep ! null");
  const cJSON *e;
  double end = 0;
  int waits = 0;
  cJSON_ArrayForEach(e, all) {
    if (*cJSON_GetObjectItem(e, "ph")->valuestring != 'X' || number(e, "tid") != 1) continue;
    if (end > 0) assert_float_equal(number(e, "ts"), end, 0.01);
    end = number(e, "ts") + number(e, "dur");
    waits += !strcmp(cJSON_GetObjectItem(e, "name")->valuestring, "waits for room");
  }
  assert_true(waits > 0);
  cJSON_Delete(all);
}

static void a_run_ends_with_the_stage_that_limits(void **state) {
  static program_t p;
  RUN(&p, "run", "--explain", "synthetic n=64 ! batch 8 ! delay 100000 asleep ! null");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.err, "delay limits: delay works "));
  assert_non_null(strstr(p.err, "Twice as fast"));
}

/* The work of the last of many record stages is counted as the others' is. */
static void a_stage_behind_hundreds_of_sources_is_named(void **state) {
  enum { SOURCES = 700 };
  char *text = malloc(64 * (SOURCES + 4)), *at = text;
  mr_diag_t diag = {0};
  mr_diagnosis_t d;
  static mr_registry_t reg;
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  mr_graph_t *g = mr_graph_create(&reg);
  assert_non_null(text);
  for (int i = 0; i < SOURCES; i++) at += sprintf(at, "synthetic n=1 ! m.\n");
  sprintf(at, "mix name=m ! delay-record 2000 asleep name=slow ! batch 70 ! null");
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0 || mr_graph_run(g, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_snapshot_t *all = mr_snapshot_take(g);
  assert_true(mr_diagnose(g, NULL, all, &d));
  assert_string_equal(d.stage, "slow");
  mr_snapshot_free(all);
  mr_graph_destroy(g), free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slowed_stage_is_named_and_its_gain_foretold),
      cmocka_unit_test(a_trace_follows_each_batch_to_the_end),
      cmocka_unit_test(a_trace_shows_work_before_a_wait_too),
      cmocka_unit_test(a_run_ends_with_the_stage_that_limits),
      cmocka_unit_test(a_stage_behind_hundreds_of_sources_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
