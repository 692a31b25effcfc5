/* Which stage limits: a stage of a chain is slowed at random, and must be named; what half its
   delay brings is predicted, then measured.  DIAGNOSE_TRIALS=40 is the long form
   (scripts/check-diagnosis.sh). */
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
#include "pipeline/diagnose.h"
#include "pipeline/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"

enum { STAGES = 4, RECORDS = 8, BATCHES = 60 };

static const char *const stage_name[STAGES] = {"first", "second", "third", "fourth"};

typedef struct found {
  char stage[32];
  double seconds, gain;
} found_t;

/* First and second share the batch stage's thread, third and fourth have their own.  us: a
   buffer's delay in each. */
static void run_graph(const double *us, found_t *out) {
  static mr_registry_t reg;
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  char text[512];
  mr_diag_t diag = {0};
  mr_diagnosis_t d;
  mr_graph_t *g = mr_graph_create(&reg);
  snprintf(text, sizeof text,
           "synthetic n=%d ! delay-record %.1f asleep name=first ! delay-record %.1f asleep "
           "name=second ! batch %d ! delay %.1f asleep name=third ! delay %.1f asleep name=fourth "
           "! null",
           RECORDS * BATCHES, us[0] / RECORDS, us[1] / RECORDS, RECORDS, us[2], us[3]);
  assert_int_equal(mr_graph_parse(g, text, NULL, 0, &diag), MR_OK);
  if (mr_graph_run(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_snapshot_t *all = mr_snapshot_take(g);
  assert_true(mr_diagnose(g, NULL, all, &d));
  snprintf(out->stage, sizeof out->stage, "%s", d.stage);
  out->seconds = d.seconds, out->gain = d.seconds / d.twice_s;
  mr_snapshot_free(all);
  mr_graph_destroy(g);
}

static int faster(const void *a, const void *b) {
  double x = ((const found_t *)a)->seconds, y = ((const found_t *)b)->seconds;
  return (x > y) - (x < y);
}

/* The run of median length: what others do on the machine meanwhile lengthens some. */
static void run_some(const double *us, int runs, found_t *out) {
  found_t all[9];
  for (int i = 0; i < runs; i++) run_graph(us, &all[i]);
  qsort(all, (size_t)runs, sizeof *all, faster);
  *out = all[runs / 2];
}

static bool trial(mr_philox_t *g, int runs, bool *near) {
  double us[STAGES];
  found_t slow, half;
  for (int i = 0; i < STAGES; i++) us[i] = mr_philox_uniform(g, 100, 800);
  int k = (int)mr_philox_uniform(g, 0, STAGES);
  us[k] = mr_philox_uniform(g, 6000, 12000);
  run_some(us, runs, &slow);
  us[k] /= 2;
  run_some(us, runs, &half);
  double gain = slow.seconds / half.seconds;
  *near = fabs(slow.gain - gain) <= 0.15 * gain;
  print_message("%s slowed: %s named, gain %.2f predicted, %.2f measured\n", stage_name[k],
                slow.stage, slow.gain, gain);
  return !strcmp(slow.stage, stage_name[k]);
}

/* The short form allows for others that use the machine meanwhile. */
static bool named_and_foretold(mr_philox_t *g, const char *wanted) {
  int n = wanted ? atoi(wanted) : 6, named = 0, near = 0;
  for (int i = 0; i < n; i++) {
    bool right;
    named += trial(g, wanted ? 5 : 1, &right);
    near += right;
  }
  print_message("%d of %d named, %d gains within 15 %%\n", named, n, near);
  if (wanted) return named * 40 >= 38 * n && near * 40 >= 38 * n;
  return n - named <= 1 && 3 * near >= n;
}

static void a_slowed_stage_is_named_and_its_gain_foretold(void **state) {
  const char *wanted = getenv("DIAGNOSE_TRIALS");
  uint64_t seed = (uint64_t)time(NULL);
  bool good = false;
  mr_philox_t g;
  mr_philox_init(&g, seed, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int round = 0; round < (wanted ? 1 : 4) && !good; round++)
    good = named_and_foretold(&g, wanted);
  assert_true(good);
}

/* ---- timeline ---- */

static cJSON *trace_of(program_t *p, const char *path) {
  static char text[1 << 20];
  RUN(p, "run", "--trace", path,
      "synthetic n=400 ! normalize preset=cifar10 ! batch 8 name=load workers=2 ! identity ! null");
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
  char path[64];
  snprintf(path, sizeof path, "/tmp/millrace-trace-%d.json", (int)getpid());
  cJSON *all = trace_of(&p, path);
  const cJSON *e, *f;
  double end[16] = {0};
  int arrows = 0, made = 0;
  cJSON_ArrayForEach(e, all) {
    const char *ph = cJSON_GetObjectItem(e, "ph")->valuestring;
    int thread = (int)number(e, "tid");
    if (*ph == 'X') { /* slices of a thread follow each other */
      assert_true(number(e, "ts") >= end[thread] - 0.01 && number(e, "dur") >= 0);
      end[thread] = number(e, "ts") + number(e, "dur");
      made += !strcmp(cJSON_GetObjectItem(e, "cat")->valuestring, "load");
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

static void a_run_ends_with_the_stage_that_limits(void **state) {
  static program_t p;
  RUN(&p, "run", "--explain", "synthetic n=64 ! batch 8 ! delay 20000 asleep ! null");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.err, "delay limits: delay works "));
  assert_non_null(strstr(p.err, "Twice as fast"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_slowed_stage_is_named_and_its_gain_foretold),
      cmocka_unit_test(a_trace_follows_each_batch_to_the_end),
      cmocka_unit_test(a_run_ends_with_the_stage_that_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
