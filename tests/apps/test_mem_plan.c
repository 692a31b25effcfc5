/* millrace mem --plan as a person meets it: what it proposes trains, and holds what mem says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/xio.h"
#include "tests/apps/program.h"

#define TINY \
  "--layers", "2", "--embed", "32", "--mlp", "64", "--heads", "4", "--batch", "32", "--dtype", "f32"
enum { DEVICES = 4, CHOICES_LEAST = 8 };

static program_t p;
static char dir[64], graph[96];

/* The same model and batch as TINY. */
static const char text[] =
    "let run = unset\n"
    "synthetic n=32 split=train ! shuffle seed=1 epochs=1 ! normalize preset=cifar10\n"
    "  ! batch 32 drop-remainder\n"
    "  ! train-step name=train model=vit layers=2 embed=32 mlp=64 heads=4 dtype=f32 threads=1\n"
    "train.metrics ! progress\n"
    "train.state ! checkpoint dir=$run/checkpoints\n";

static int setup(void **state) {
  snprintf(dir, sizeof dir, "/tmp/mr-mem-plan-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(graph, sizeof graph, "%s/small.mr", dir);
  return mr_write_file(graph, text, sizeof text - 1, NULL) < 0 ? -1 : 0;
}

static int forget(void **state) { return program_forget(dir); }

static double number_of(const cJSON *o, const char *name) {
  return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static const char *text_of(const cJSON *o, const char *name) {
  const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
  return s ? s : "";
}

static double sum_of(const cJSON *o) {
  double sum = 0;
  for (const cJSON *v = o ? o->child : NULL; v; v = v->next) sum += v->valuedouble;
  return sum;
}

static cJSON *plan_of(const char *devices) {
  RUN(&p, "mem", "--plan", devices, TINY, "--json");
  cJSON *all = cJSON_Parse(p.out);
  if (!all) fail_msg("%s%s", p.out, p.err);
  return all;
}

/* What mem says of a rank of a proposed mesh. */
static double mem_of_rank(const cJSON *c, int rank) {
  char zero[16], pipeline[16], parts[16], r[16];
  int stages = (int)number_of(c, "pipeline");
  snprintf(zero, sizeof zero, "%d", (int)number_of(c, "zero"));
  snprintf(pipeline, sizeof pipeline, "%d", stages);
  snprintf(parts, sizeof parts, "%d", (int)number_of(c, "parts"));
  snprintf(r, sizeof r, "%d", rank);
  if (stages)
    RUN(&p, "mem", "--mesh", text_of(c, "mesh"), "--rank", r, "--json", TINY, "--pipeline",
        pipeline, "--microbatches", parts, "--zero", zero);
  else
    RUN(&p, "mem", "--mesh", text_of(c, "mesh"), "--rank", r, "--json", TINY, "--zero", zero);
  cJSON *all = cJSON_Parse(p.out);
  if (!all) fail_msg("%s: %s", text_of(c, "train"), p.err);
  double bytes = number_of(all, "held_bytes") + number_of(all, "planned_peak_bytes");
  cJSON_Delete(all);
  return bytes;
}

static void every_mesh_holds_what_mem_says_in_its_fullest_rank(void **state) {
  cJSON *all = plan_of("4x1GB");
  const cJSON *c;
  int n = 0;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "meshes")) {
    double bytes = number_of(c, "bytes");
    assert_float_equal(
        sum_of(cJSON_GetObjectItem(c, "held")) + sum_of(cJSON_GetObjectItem(c, "arena")), bytes,
        0.5);
    for (int r = 0; r < DEVICES; r++) {
      double own = mem_of_rank(c, r);
      bool fullest = r == (int)number_of(c, "rank");
      if (own > bytes || (fullest && own < bytes))
        fail_msg("%s: rank %d holds %.0f bytes, the fullest one %.0f", text_of(c, "train"), r, own,
                 bytes);
    }
    n++;
  }
  assert_true(n >= CHOICES_LEAST);
  cJSON_Delete(all);
}

/* By threads, with the words that are proposed. */
static void every_mesh_trains_a_step(void **state) {
  cJSON *all = plan_of("4x1GB");
  const cJSON *c;
  int n = 0;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "meshes")) {
    char words[256], run[128], *save = NULL;
    const char *argv[16] = {"train", "--graph", graph, "--run-dir", run};
    int k = 5;
    snprintf(words, sizeof words, "%s", text_of(c, "train"));
    snprintf(run, sizeof run, "%s/run%d", dir, n++);
    for (char *w = strtok_r(words, " ", &save); w && k < 15; w = strtok_r(NULL, " ", &save))
      argv[k++] = w;
    program_run(&p, argv);
    if (p.status || !strstr(p.out, "\nledger "))
      fail_msg("%s: %s%s", text_of(c, "train"), p.out, p.err);
  }
  cJSON_Delete(all);
}

static void meshes_come_by_time_and_the_others_say_what_they_lack(void **state) {
  cJSON *all = plan_of("4x1GB");
  const cJSON *c;
  double least = 1e18, most = 0, before = 0;
  int cut = 0, values = 0; /* meshes whose stages have parts, and shares of values */
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "meshes")) {
    double bytes = number_of(c, "bytes"), s = number_of(c, "seconds");
    int stages = (int)number_of(c, "pipeline"), parts = (int)number_of(c, "parts");
    assert_true(s >= before && s > 0);
    int data = 0; /* the ranks that are stages */
    assert_int_equal(sscanf(text_of(c, "mesh"), "data=%d", &data), 1);
    cut += stages && data < DEVICES;
    values += stages && (int)number_of(c, "zero") == 3;
    if (stages)
      assert_float_equal(number_of(c, "bubble"), (stages - 1) / (parts / (data / (double)stages)),
                         1e-9);
    if (bytes < least) least = bytes;
    if (bytes > most) most = bytes;
    before = s;
  }
  assert_true(cut > 0 && values > cut / 2);
  cJSON_Delete(all);
  char devices[48];
  double between = (least + most) / 2;
  int fit = 0, others = 0;
  snprintf(devices, sizeof devices, "4x%.0f", between);
  all = plan_of(devices);
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "meshes")) fit++,
      assert_true(number_of(c, "bytes") <= between);
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "others")) {
    if (!cJSON_GetObjectItem(c, "bytes")) continue;
    others++;
    assert_true(number_of(c, "bytes") > between);
    assert_non_null(strstr(text_of(c, "why"), " asked"));
  }
  assert_true(fit && others);
  cJSON_Delete(all);
  snprintf(devices, sizeof devices, "4x%.0f", least - 1);
  RUN(&p, "mem", "--plan", devices, TINY);
  assert_int_equal(p.status, 1);
  if (!strstr(p.err, "no mesh fits") || !strstr(p.out, "not these:")) fail_msg("%s", p.err);
}

static void devices_that_are_no_number_and_size_are_refused(void **state) {
  static const char *const bad[] = {"8", "x80GB", "1x80GB", "8x", "8xGB", "9999x1GB"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    RUN(&p, "mem", "--plan", bad[i], TINY);
    if (p.status != 2 || !strstr(p.err, "--plan")) fail_msg("%s: %d %s", bad[i], p.status, p.err);
  }
  RUN(&p, "mem", "--plan", "4x1GB", "--mesh", "data=4");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "--mesh: expected no --plan beside it"));
  RUN(&p, "mem", "loss", "--plan", "4x1GB");
  assert_int_equal(p.status, 2);
  RUN(&p, "mem", "--rates", "threads");
  assert_non_null(strstr(p.err, "--rates: expected --plan beside it"));
  RUN(&p, "mem", "--plan", "4x1GB", "--rates", "tape", TINY);
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "no table of that name"));
}

#ifdef MR_FAULTS
/* On a clock that is ten seconds later each time, so that every rank is shown. */
static void a_long_plan_shows_how_far_it_is(void **state) {
  int at = 0, of = 0, n = 0, before = 0, all = 0;
  setenv("LD_PRELOAD", MR_FAULTS, 1);
  setenv("FAULT_CLOCK", "10", 1);
  RUN(&p, "mem", "--plan", "4x1GB", TINY);
  unsetenv("LD_PRELOAD");
  unsetenv("FAULT_CLOCK");
  assert_int_equal(p.status, 0);
  for (const char *line = p.err; (line = strstr(line, "mem: rank ")); line++, n++) {
    assert_int_equal(sscanf(line, "mem: rank %d of %d, about ", &at, &of), 2);
    assert_true(at > before && at <= of);
    if (n) assert_int_equal(of, all);
    before = at, all = of;
  }
  if (n < CHOICES_LEAST) fail_msg("%d ranks are shown: %s", n, p.err);
  assert_null(strchr(p.err, '\r')); /* no terminal */
}
#endif

/* What explain says of the same mesh, and the source of its table. */
static void times_are_those_of_explain(void **state) {
  RUN(&p, "mem", "--plan", "4x1GB", TINY, "--json", "--rates", "8xH200");
  cJSON *all = cJSON_Parse(p.out);
  const cJSON *c, *found = NULL;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "meshes")) if ((int)number_of(c, "zero") == 2 &&
                                                                !strchr(text_of(c, "mesh"), ','))
      found = c;
  if (!found) fail_msg("%s%s", p.out, p.err);
  assert_non_null(strstr(text_of(all, "source"), "published"));
  double s = number_of(found, "seconds");
  RUN(&p, "explain", "step", "--mesh", "data=4", "--zero", "2", TINY, "--json", "--rates",
      "8xH200");
  cJSON *said = cJSON_Parse(p.out);
  if (!said) fail_msg("%s%s", p.out, p.err);
  assert_float_equal(number_of(said, "seconds"), s, 1e-12);
  double bytes = 0;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(said, "collectives")) bytes += number_of(c, "bytes");
  assert_float_equal(bytes, number_of(said, "received_bytes"), 0.5);
  assert_non_null(strstr(text_of(said, "source"), "published"));
  cJSON_Delete(said);
  cJSON_Delete(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mesh_holds_what_mem_says_in_its_fullest_rank),
      cmocka_unit_test(every_mesh_trains_a_step),
      cmocka_unit_test(meshes_come_by_time_and_the_others_say_what_they_lack),
      cmocka_unit_test(devices_that_are_no_number_and_size_are_refused),
      cmocka_unit_test(times_are_those_of_explain),
#ifdef MR_FAULTS
      cmocka_unit_test(a_long_plan_shows_how_far_it_is),
#endif
  };
  return cmocka_run_group_tests(tests, setup, forget);
}
