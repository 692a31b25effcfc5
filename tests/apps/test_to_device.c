/* Batches that to-device copies ahead, by the whole program: the ledger is that of a step that
   copies its batches itself, whatever the workers and slots, behind a link, and with commands held
   back in a random order; a slow copy is named; graphs that do not fit are refused. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "model/exec/device.h"
#include "tests/apps/program.h"

#define RECORDS "synthetic n=64 split=train ! shuffle seed=5 epochs=2 ! normalize preset=cifar10 "
#define STEP                                                                           \
  "train-step model=mlp hidden=32 layers=1 name=train device=opencl seed=5 threads=1 " \
  "watch-every=7 "

#define STEP2(where) "train-step model=mlp hidden=32 layers=1 threads=1 device=" where " ! progress"

static program_t p;
static char dir[64], ledger[17];

static void ledger_of(char text[17]) {
  const char *at = strstr(p.out, "ledger ");
  if (p.status != 0 || !at) fail_msg("status %d, no ledger in: %s%s", p.status, p.out, p.err);
  snprintf(text, 17, "%.16s", at + 7);
}

static void same_ledger(const char *of) {
  char now[17];
  ledger_of(now);
  if (strcmp(now, ledger)) fail_msg("%s: ledger %s, want %s", of, now, ledger);
}

static void graphs_have_the_ledger_of_a_step_that_copies_itself(void **state) {
  static const char *const graph[] = {
      RECORDS "! batch 8 ! to-device opencl ! " STEP "! progress",
      RECORDS "! batch 8 workers=3 ! to-device device=opencl slots=4 ! " STEP "! progress",
      RECORDS "! batch 8 ! delay us=2000 asleep ! to-device opencl slots=64 ! " STEP "! progress",
      RECORDS "! batch 4 ! rebatch 8 ! to-device opencl ! " STEP "! progress",
      RECORDS "dtype=u8 ! batch 8 ! to-device opencl ! " STEP "! progress",
      RECORDS "dtype=u8 ! batch 8 ! " STEP "! progress",
      RECORDS "! batch 8 ! to-device cpu ! " STEP "! progress", /* the step copies */
      RECORDS "! batch 8 ! to-device ! " STEP "! progress",
      RECORDS "! batch 8 ! to-device cpu ! to-device cpu ! to-device opencl ! " STEP "! progress",
  };
  for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) {
    RUN(&p, "run", graph[i]);
    same_ledger(graph[i]);
  }
}

static void a_link_may_lie_before_it(void **state) {
  char metrics[96], line[256];
  long long step = -1;
  char found[64] = "";
  snprintf(metrics, sizeof metrics, "path=%s/linked.jsonl", dir);
  RUN(&p, "run",
      "process reader { " RECORDS
      "! batch 8 name=batches }\n"
      "process trainer { to-device opencl name=copy ! " STEP
      "! jsonl name=lines path=x }\n"
      "batches. ! copy.",
      metrics);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  FILE *f = fopen(metrics + 5, "r");
  while (f && fgets(line, sizeof line, f)) {
    const char *at = strstr(line, "\"ledger\":\"");
    if (at) snprintf(found, 17, "%.16s", at + 10);
    (void)sscanf(line, "{\"kind\":\"step\",\"step\":%lld", &step);
  }
  if (f) fclose(f);
  assert_int_equal(step, 16);
  assert_string_equal(found, ledger);
}

/* Held back, a command shows a thread that does not wait: host bytes that change while they are
   copied, a slot that is filled while a step reads it, a step that reads before the copy. */
static void commands_held_back_change_nothing(void **state) {
  char count[96], seed[24];
  long held = 0, any = 0, rounds = getenv("MILLRACE_ROUNDS") ? atol(getenv("MILLRACE_ROUNDS")) : 4;
  snprintf(count, sizeof count, "%s/count", dir);
  setenv("OPENCL_LAYERS", MR_OPENCL_LAYER, 1);
  setenv("LAYER_COUNT", count, 1);
  for (long round = 1; round <= rounds; round++) {
    snprintf(seed, sizeof seed, "%ld", round);
    setenv("LAYER_SEED", seed, 1);
    unlink(count), held = 0;
    RUN(&p, "run", "--pool", "4",
        RECORDS "! batch 8 ! to-device opencl slots=4 ! " STEP "! progress");
    if (p.status) fail_msg("seed %s: status %d: %s", seed, p.status, p.err);
    FILE *f = fopen(count, "r");
    if (f && fscanf(f, "%ld", &held) != 1) held = 0;
    if (f) fclose(f);
    if (held) same_ledger(seed);
    any |= held;
  }
  unsetenv("OPENCL_LAYERS"), unsetenv("LAYER_SEED"), unsetenv("LAYER_COUNT");
  if (!any) skip(); /* a loader without layers */
}

/* The step then waits for each copy, so that one which does not would read too early. */
static void a_slow_copy_is_the_limiting_stage(void **state) {
  setenv("OPENCL_LAYERS", MR_OPENCL_LAYER, 1);
  setenv("LAYER_SLOW", "3000", 1); /* 0.3 s for a batch of 98,304 bytes */
  RUN(&p, "run", RECORDS "! batch 8 ! to-device opencl name=copies ! " STEP "! progress");
  unsetenv("OPENCL_LAYERS"), unsetenv("LAYER_SLOW");
  if (p.status) fail_msg("%s", p.err);
  same_ledger("a slow copy");
  if (!strstr(p.out, "copies: 5 slots of 98560 bytes on device opencl\n")) fail_msg("%s", p.out);
  if (!strstr(p.err, "copies limits")) fail_msg("%s", p.err);
}

static double number_of(const cJSON *o, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(o, name);
  return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

static void mem_and_explain_count_the_bytes_that_it_reports(void **state) {
  int n = 0;
  size_t each = 0;
  RUN(&p, "run", "synthetic n=24 ! normalize ! batch 3 ! to-device opencl ! " STEP "! progress");
  const char *at = strstr(p.out, "to-device: ");
  if (p.status || !at || sscanf(at, "to-device: %d slots of %zu bytes", &n, &each) != 2)
    fail_msg("%s%s", p.out, p.err);
  assert_true(n > 1 && each >= 3 * (32 * 32 * 3 * sizeof(float) + sizeof(int32_t)));
  RUN(&p, "mem", "step", "model=mlp", "hidden=32", "--batch", "3", "--device", "opencl", "--no-run",
      "--json");
  cJSON *all = cJSON_Parse(p.out);
  const cJSON *held = cJSON_GetObjectItem(all, "held");
  double sum = 0;
  for (const cJSON *v = held ? held->child : NULL; v; v = v->next) sum += v->valuedouble;
  assert_true(number_of(held, "slots of to-device") == (double)n * (double)each);
  assert_true(number_of(all, "held_bytes") == sum);
  assert_true(number_of(held, "inputs beside the batch") < 64); /* counted once */
  cJSON_Delete(all);
  RUN(&p, "mem", "grad", "model=mlp", "hidden=32", "--batch", "3", "--device", "opencl", "--no-run",
      "--json");
  all = cJSON_Parse(p.out); /* a gradient has no slots */
  assert_true(number_of(cJSON_GetObjectItem(all, "held"), "inputs: batch and scalars") >= each / 2);
  cJSON_Delete(all);
  RUN(&p, "explain", "step", "--layers", "1", "--batch", "3", "--device", "opencl", "--json");
  all = cJSON_Parse(p.out);
  assert_true(number_of(all, "slots_bytes") == (double)n * (double)each);
  cJSON_Delete(all);
}

/* The numbers of a run with these slots and pictures, and of mem and explain for the same. */
static void slots_and_pictures_are_counted_as_given(void **state) {
  static const struct {
    const char *graph, *slots, *pictures;
  } row[] = {{"dtype=f32 ! batch 3 ! to-device opencl slots=9", "9", "f32"},
             {"dtype=bf16 ! batch 3 ! to-device opencl slots=4", "4", "bf16"},
             {"dtype=u8 ! batch 3 ! to-device opencl", "5", "u8"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char graph[512], line[96];
    int n = 0;
    size_t each = 0;
    snprintf(graph, sizeof graph, "synthetic n=24 ! normalize %s ! " STEP "! progress",
             row[i].graph);
    RUN(&p, "run", graph);
    const char *at = strstr(p.out, "to-device: ");
    if (p.status || !at || sscanf(at, "to-device: %d slots of %zu bytes", &n, &each) != 2)
      fail_msg("%s%s", p.out, p.err);
    RUN(&p, "mem", "step", "model=mlp", "hidden=32", "--batch", "3", "--device", "opencl",
        "--no-run", "--json", "--slots", row[i].slots, "--pictures", row[i].pictures);
    cJSON *all = cJSON_Parse(p.out);
    const cJSON *held = cJSON_GetObjectItem(all, "held");
    if (number_of(held, "slots of to-device") != (double)n * (double)each)
      fail_msg("%d of %zu: %s%s", n, each, p.out, p.err);
    cJSON_Delete(all);
    RUN(&p, "explain", "step", "--layers", "1", "--batch", "3", "--device", "opencl", "--slots",
        row[i].slots, "--pictures", row[i].pictures);
    snprintf(line, sizeof line, "%d batches lie in the slots of to-device, %zu bytes", n,
             (size_t)n * each);
    if (!strstr(p.out, line)) fail_msg("want %s: %s%s", line, p.out, p.err);
  }
  RUN(&p, "mem", "step", "--pictures", "f16");
  if (p.status != 2 || !strstr(p.err, "expected f32, bf16 or u8")) fail_msg("%s", p.err);
  RUN(&p, "mem", "step", "--slots", "3");
  assert_int_equal(p.status, 2);
}

/* It takes the device of the step behind it, and copies: also if that is an override. */
static void without_a_device_it_takes_the_steps(void **state) {
  RUN(&p, "run", RECORDS "! batch 8 ! to-device name=copies ! " STEP "! progress");
  same_ledger("without a device");
  if (!strstr(p.out, "copies: 5 slots of 98560 bytes on device opencl\n")) fail_msg("%s", p.out);
  RUN(&p, "run",
      RECORDS
      "! batch 8 ! to-device name=copies ! train-step model=mlp hidden=32 layers=1 "
      "name=train seed=5 threads=1 watch-every=7 ! progress",
      "train.device=opencl");
  same_ledger("an override");
  if (!strstr(p.out, "copies: 5 slots of 98560 bytes on device opencl\n")) fail_msg("%s", p.out);
  RUN(&p, "run", RECORDS "! batch 8 ! to-device name=copies ! " STEP2("cpu"));
  if (p.status || strstr(p.out, "copies: ")) fail_msg("%s%s", p.out, p.err);
}

static void train_puts_it_in_and_a_graph_that_has_it_runs_on_any_device(void **state) {
  char file[96], run[96];
  snprintf(run, sizeof run, "%s/run", dir);
  for (int own = 0; own < 2; own++) {
    FILE *f;
    snprintf(file, sizeof file, "%s/graph-%d.mr", dir, own);
    assert_non_null(f = fopen(file, "w"));
    fprintf(f, "let run = unset\n%s! batch 8 name=batches ! %s%s", RECORDS,
            own ? "to-device cpu slots=4 name=copies ! " : "",
            "train-step model=mlp hidden=32 layers=1 name=train seed=5 threads=1 watch-every=7\n"
            "train. ! progress\ntrain.state ! checkpoint dir=$run/checkpoints\n");
    fclose(f);
    program_forget(run);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--device", "opencl");
    same_ledger(file);
    RUN(&p, "train", "--run-dir", run, "--resume", "--device", "cpu",
        "batches.drop-remainder=true");
    if (p.status != 2) fail_msg("status %d: %s%s", p.status, p.out, p.err); /* the batch */
    RUN(&p, "train", "--run-dir", run, "--resume", "--device", "cpu", "epochs=3");
    if (p.status || !strstr(p.out, "24 steps")) fail_msg("%s%s", p.out, p.err);
    RUN(&p, "who", run, "--step", "3");
    if (p.status || !strstr(p.out, "synthetic")) fail_msg("%s%s", p.out, p.err);
  }
}

/* The stage is in no text: its settings are those of the run that train makes of it. */
static void settings_reach_the_stage_that_train_inserts(void **state) {
  static const char *const slots[] = {"slots=9", "to-device.slots=9"}, *const few[] = {
                                                                           "slots=3",
                                                                           "to-device.slots=3"};
  static const char range[] = "to-device: setting slots = \"3\": want a whole number in [4,64]";
  char file[96], run[96];
  FILE *f;
  snprintf(run, sizeof run, "%s/slots", dir);
  snprintf(file, sizeof file, "%s/slots.mr", dir);
  assert_non_null(f = fopen(file, "w"));
  fputs(RECORDS
        "! batch 8 ! train-step model=mlp hidden=32 layers=1 name=train seed=5 threads=1 "
        "watch-every=7\ntrain. ! progress\n",
        f);
  fclose(f);
  for (int i = 0; i < 2; i++) {
    program_forget(run);
    RUN(&p, "train", "--graph", file, "--run-dir", run, slots[i], "--device", "opencl");
    same_ledger(slots[i]);
    RUN(&p, "who", run, "--step", "3");
    if (p.status) fail_msg("%s: %s%s", slots[i], p.out, p.err);
    RUN(&p, "profile", file, slots[i], "--steps", "1", "--device", "opencl");
    if (p.status) fail_msg("%s: %s%s", slots[i], p.out, p.err);
    program_forget(run);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--device", "cpu", slots[i]);
    if (p.status) fail_msg("%s: %s%s", slots[i], p.out, p.err);
    program_forget(run);
    RUN(&p, "train", "--graph", file, "--run-dir", run, "--device", "opencl", few[i]);
    if (p.status != 2 || !strstr(p.err, range)) fail_msg("%s: %s", few[i], p.err);
    RUN(&p, "profile", file, few[i], "--device", "opencl");
    if (p.status != 2 || !strstr(p.err, range)) fail_msg("%s: %s", few[i], p.err);
  }
  RUN(&p, "train", "--graph", file, "--run-dir", run, "slots=9", "to-device.slots=9");
  if (p.status != 2 || !strstr(p.err, "it is given twice")) fail_msg("%s", p.err);
  RUN(&p, "run", file, "slots=9"); /* which runs the text as it is written */
  if (p.status != 2 || !strstr(p.err, "nor a setting of a stage")) fail_msg("%s", p.err);
}

/* A run is resumed with other slots, and on the CPU, where they change nothing. */
static void a_resume_may_set_the_slots(void **state) {
  char file[96], run[96];
  FILE *f;
  snprintf(run, sizeof run, "%s/resumed", dir);
  snprintf(file, sizeof file, "%s/resumed.mr", dir);
  assert_non_null(f = fopen(file, "w"));
  fputs("let run = unset\n" RECORDS
        "! batch 8 ! train-step model=mlp hidden=32 layers=1 name=train seed=5 threads=1\n"
        "train. ! progress\ntrain.state ! checkpoint dir=$run/checkpoints\n",
        f);
  fclose(f);
  RUN(&p, "train", "--graph", file, "--run-dir", run, "--device", "opencl");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", run, "--resume", "epochs=3", "slots=7");
  if (p.status || !strstr(p.out, "24 steps")) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", run, "--resume", "epochs=4", "--device", "cpu");
  if (p.status || !strstr(p.out, "32 steps")) fail_msg("%s%s", p.out, p.err);
}

static void refused(const char *graph, const char *sentence) {
  char text[1024];
  snprintf(text, sizeof text, "%s! batch 8 name=batches ! %s", RECORDS, graph);
  RUN(&p, "run", text);
  const char *end = strchr(p.err, '\n');
  if (p.status == 0 || !strstr(p.err, sentence) || !end || end[1])
    fail_msg("%s: status %d, want \"%s\": %s", graph, p.status, sentence, p.err);
}

static void stages_that_do_not_fit_a_device_are_refused_by_a_sentence(void **state) {
  refused(
      "to-device opencl ! null",
      "null: its input \"in\" reads batches in the host's memory, and those of to-device lie on "
      "device opencl; put to-device directly before the input \"in\" of a train-step");
  refused("to-device opencl ! eval-step checkpoint=none device=opencl ! progress",
          "eval-step: its input \"in\" reads batches in the host's memory, and those of to-device");
  refused("to-device opencl ! delay ! null", "delay: its input \"in\" reads batches in the host's");
  refused("to-device opencl ! to-device opencl ! " STEP,
          "to-device2: the batches of to-device lie on device opencl already; leave one of the two "
          "out");
  refused("to-device opencl ! link-out address=ipc://@never",
          "link-out: a link sends batches from the host's memory, and those of to-device lie on");
  refused("to-device opencl ! ledger ! null", "ledger: its input \"in\" reads");
  refused("to-device opencl ! batch 4 ! null", "but batch takes records");
  refused("null " RECORDS "! to-device opencl ! null", "but to-device takes batches");
  refused("to-device opencl ! train-step model=mlp", "want the same device here and in the to-dev");
  refused("to-device opencl:0 ! train-step model=mlp device=opencl:1",
          "setting device = opencl:1: the batches of input in lie on device opencl:0");
  refused("to-device opencl:9 ! train-step model=mlp device=opencl", "this machine has");
  refused("to-device opencl:9 ! " STEP2("opencl:9"), "to-device: device = opencl:9: this machine");
  refused("to-device opencl:x ! " STEP2("opencl:x"), "to-device: device = opencl:x: want opencl:N");
  refused("to-device cuda:7 ! " STEP,
          "train: setting device = opencl: the batches of input in lie on");
  refused("to-device cuda:7 ! " STEP2("cuda:7"), "to-device: device");
  refused("to-device cpu ! to-device opencl ! " STEP2("cpu"),
          "train-step: setting device = cpu: the batches of input in lie on device opencl");
  refused("to-device cuda:x ! " STEP, "to-device: device = cuda:x");
  refused("to-device tpu ! " STEP, "to-device: device = tpu: ");
  refused("to-device opencl slots=3 ! " STEP,
          "setting slots = \"3\": want a whole number in [4,64]");
  refused(STEP
          "leak-check=off synthetic n=64 name=v ! normalize ! batch 8 ! to-device opencl "
          "name=copies ! train.valid",
          "train: its input \"valid\" reads batches in the host's memory");
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1); /* the loader then finds no driver */
  refused("to-device opencl ! " STEP, "to-device: device opencl: no platform has a device");
  unsetenv("OCL_ICD_VENDORS");
}

static void a_link_between_processes_takes_none(void **state) {
  RUN(&p, "run",
      "process reader { " RECORDS
      "! batch 8 ! to-device opencl name=copy }\n"
      "process trainer { train-step model=mlp device=opencl name=train ! progress }\n"
      "copy. ! train.");
  if (p.status != 2 || !strstr(p.err,
                               "to-train: a link sends batches from the host's memory, and those "
                               "of copy lie on device opencl; put copy behind the link"))
    fail_msg("status %d: %s", p.status, p.err);
}

static int group_setup(void **state) {
  snprintf(dir, sizeof dir, "/tmp/mr-to-device-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  RUN(&p, "run", RECORDS "! batch 8 ! " STEP "! progress");
  ledger_of(ledger);
  return 0;
}

static int group_teardown(void **state) { return program_forget(dir); }

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] to_device_under_a_sanitizer\n");
  printf("a driver's own compiler and threads are not built for a sanitizer\n");
  return 77;
#endif
  mr_diag_t diag = {0};
  const mr_device_t *device;
  if (mr_device_open("opencl", &device, &diag) < 0) {
    printf("%s\n[  SKIPPED ] to_device_without_a_device\n", diag.text);
    return 77; /* no device: ctest says that the test was left out */
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(graphs_have_the_ledger_of_a_step_that_copies_itself),
      cmocka_unit_test(a_link_may_lie_before_it),
      cmocka_unit_test(commands_held_back_change_nothing),
      cmocka_unit_test(a_slow_copy_is_the_limiting_stage),
      cmocka_unit_test(mem_and_explain_count_the_bytes_that_it_reports),
      cmocka_unit_test(slots_and_pictures_are_counted_as_given),
      cmocka_unit_test(without_a_device_it_takes_the_steps),
      cmocka_unit_test(train_puts_it_in_and_a_graph_that_has_it_runs_on_any_device),
      cmocka_unit_test(settings_reach_the_stage_that_train_inserts),
      cmocka_unit_test(a_resume_may_set_the_slots),
      cmocka_unit_test(stages_that_do_not_fit_a_device_are_refused_by_a_sentence),
      cmocka_unit_test(a_link_between_processes_takes_none),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
