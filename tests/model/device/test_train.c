/* Training and evaluation steps on a device, beside the same on the CPU: losses of 50 steps from
   one start, loss scales, averages, parts; resuming, and runs that the device records, to the bit;
   what the host may read when. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "model/train/slots.h"
#include "tests/model/device_run.h"
#include "tests/model/vit_step.h"

enum { B = 4, STEPS = 50, SIDE = 8, CLASSES = 5, PIXELS = SIDE * SIDE * 3 };

/* A batch for each step, the same on both sides. */
static _Alignas(64) float images[STEPS][B * PIXELS];
static _Alignas(64) int32_t labels[STEPS][64];

typedef struct side {
  mr_train_config_t t;
  vit_t v;
  mr_params_t params;
  mr_train_step_t *step;
  mr_eval_step_t *eval;
  mr_train_out_t out[STEPS];
} side_t;

static vit_t small_vit(const mr_compute_t *how, const mr_device_t *b) {
  vit_t v = vit_default();
  v.model.image = SIDE, v.model.classes = CLASSES, v.model.layers = 1;
  v.model.embed = 16, v.model.mlp = 32, v.model.heads = 2;
  v.how = *how, v.how.device = b;
  return v;
}

static void side_open(side_t *s, const mr_train_config_t *t, const mr_device_t *b) {
  mr_diag_t diag = {0};
  *s = (side_t){.t = *t, .v = small_vit(&t->compute, b)};
  mr_train_want_sets(&t->compute, &t->optim, &s->params);
  if (vit_params(&s->v, 12, &s->params, &diag) < 0 || vit_step(&s->v, s->t, &s->step, &diag) < 0 ||
      vit_eval(&s->v, B, s->step, &s->eval, &diag) < 0)
    fail_msg("%s", diag.text);
}

static void side_close(side_t *s) {
  mr_eval_step_destroy(s->eval);
  mr_train_step_destroy(s->step);
  mr_params_fini(&s->params);
}

/* Steps from..to, with up to MR_TRAIN_RING of them unread. */
static void side_run(side_t *s, int from, int to) {
  mr_diag_t diag = {0};
  for (int i = from, read = from; read < to;) {
    if (i < to && i - read < MR_TRAIN_RING) {
      const mr_train_in_t in = {.step = i + 1, .seed = 7, .lr = 1e-3f};
      if (mr_train_step_run(s->step, &s->params, (const void *[]){images[i], labels[i]}, &in,
                            &diag) < 0)
        fail_msg("step %d: %s", i + 1, diag.text);
      i++;
      continue;
    }
    mr_err_t e = mr_train_step_read(s->step, true, &s->out[read], &diag);
    if (e != MR_OK) fail_msg("reading step %d: %d %s", read + 1, (int)e, diag.text);
    assert_int_equal(s->out[read].step, read + 1);
    read++;
  }
}

static void side_fetch(side_t *s) {
  mr_diag_t diag = {0};
  if (mr_train_step_fetch(s->step, &s->params, &diag) < 0) fail_msg("%s", diag.text);
}

static void near_to(const char *what, const char *of, int i, double got, double want, double tol) {
  if ((isnan(got) && isnan(want)) || got == want) return; /* steps that overflow are alike */
  if (!(fabs(got - want) <= tol * (1 + fabs(want))))
    fail_msg("%s: %s of %d is %.9g on the device, %.9g on the CPU", what, of, i, got, want);
}

/* Returns how many of `steps` were skipped. */
static int both_sides_for(int steps, const char *what, const mr_train_config_t *t, double tol) {
  side_t cpu, there;
  mr_eval_rows_t a, b;
  mr_diag_t diag = {0};
  side_open(&cpu, t, NULL);
  side_open(&there, t, device);
  side_run(&cpu, 0, steps);
  side_run(&there, 0, steps);
  for (int i = 0; i < steps; i++) {
    const mr_train_out_t *x = &there.out[i], *y = &cpu.out[i];
    near_to(what, "the loss", i + 1, x->loss, y->loss, tol);
    near_to(what, "the gradient's norm", i + 1, x->grad_norm, y->grad_norm, 10 * tol);
    near_to(what, "the parameters' norm", i + 1, x->param_norm, y->param_norm, tol);
    assert_true(x->loss_scale == y->loss_scale && x->applied == y->applied);
    assert_int_equal(x->skipped, y->skipped);
    assert_int_equal(x->bad, y->bad);
  }
  assert_true(cpu.out[steps - 1].param_norm != cpu.out[0].param_norm);
  if (vit_judge(cpu.eval, &cpu.params, images[0], labels[0], &a, &diag) < 0 ||
      vit_judge(there.eval, &there.params, images[0], labels[0], &b, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int i = 0; i < B; i++)
    near_to(what, "an evaluated loss", i, b.losses[i], a.losses[i], 10 * tol);
  side_close(&cpu);
  side_close(&there);
  return cpu.out[steps - 1].skipped;
}

static int both_sides(const char *what, const mr_train_config_t *t, double tol) {
  return both_sides_for(STEPS, what, t, tol);
}

static void losses_of_50_steps_are_the_cpus_in_f32(void **state) {
  mr_train_config_t t = mr_train_default(B);
  t.compute.dtype = MR_F32;
  both_sides("f32", &t, 1e-3);
}

static void losses_in_bf16_are_near_the_cpus(void **state) {
  mr_train_config_t t = mr_train_default(B);
  both_sides("bf16", &t, 1e-2);
}

/* Heads of 8: the kernel of one group a head takes them. */
static void losses_with_own_attention_are_near_the_cpus(void **state) {
  mr_train_config_t t = mr_train_default(B);
  setenv("MILLRACE_ATTENTION", "own", 1);
  both_sides("bf16, attention by a kernel of its own", &t, 1e-2);
  unsetenv("MILLRACE_ATTENTION");
}

static void parts_averages_and_clipping_are_the_cpus(void **state) {
  mr_train_config_t t = mr_train_default(B);
  t.compute.dtype = MR_F32;
  t.accumulate = 2;
  t.optim.ema = 0.9f;
  t.optim.clip_norm = 0.5f;
  both_sides("accumulate=2 ema=0.9", &t, 1e-3);
}

/* Parts of a tree, whose dropouts begin within the batch. */
static void ordered_parts_are_the_cpus(void **state) {
  mr_train_config_t t = mr_train_default(B);
  t.compute.dtype = MR_F32;
  t.ordered = 4;
  both_sides("ordered=4", &t, 1e-3);
}

/* A scale that overflows at first and is halved until it does not, with steps unread: the state is
   handed on within the device. */
static void a_dynamic_scale_takes_the_cpus_course(void **state) {
  mr_train_config_t t = mr_train_default(B);
  t.compute.dtype = MR_F16;
  t.optim.only_finite = true;
  t.optim.dynamic = mr_loss_scale_usual();
  t.optim.dynamic.start = 0x1p36f; /* gradients of f16 overflow far below it */
  t.optim.dynamic.max_bad = 100;
  int skipped = both_sides("f16, loss-scale=dynamic", &t, 1e-2);
  assert_true(skipped > 0 && skipped < STEPS);
}

/* Parameters and slots that are kept narrow, with a master copy and without: each dtype of
   parameters with each of computation. */
static void narrow_parameters_are_trained_as_on_the_cpu(void **state) {
  static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
  enum { FEW = 4 };
  for (int i = 0; i < 9; i++) {
    mr_train_config_t t = mr_train_default(B);
    mr_dtype_t kept = some[i / 3], computes = some[i % 3];
    bool master = kept == MR_F32 || i % 2;
    char what[96];
    t.compute.dtype = computes;
    t.compute.values = master ? MR_F32 : kept;
    t.compute.reads = master && kept != MR_F32 ? kept : 0;
    t.compute.slots = i / 2 % 2 ? MR_BF16 : MR_F32;
    if (kept == MR_F16 || computes == MR_F16) {
      t.optim.only_finite = true;
      t.optim.dynamic = mr_loss_scale_usual();
    }
    snprintf(what, sizeof what, "parameters %s, computes %s, slots %s, %s", mr_dtype_name(kept),
             mr_dtype_name(computes), mr_dtype_name(t.compute.slots),
             master ? "a master copy" : "none");
    both_sides_for(FEW, what, &t, 1e-2);
  }
}

static void same_sets(const side_t *a, const side_t *b) {
  for (int i = 0; i < a->params.n_sets; i++) {
    const mr_param_set_t *x = &a->params.set[i], *y = &b->params.set[i];
    assert_memory_equal(x->data, y->data, a->params.arena_size * mr_dtype_size(x->dtype));
  }
}

/* From the host's copy, which is what a checkpoint holds. */
static void a_run_that_resumes_is_the_same_to_the_bit(void **state) {
  mr_train_config_t t = mr_train_default(B);
  side_t whole, first, second;
  t.optim.ema = 0.9f;
  side_open(&whole, &t, device);
  side_open(&first, &t, device);
  side_open(&second, &t, device);
  side_run(&whole, 0, 20);
  side_run(&first, 0, 11);
  side_fetch(&first);
  for (int i = 0; i < first.params.n_sets; i++)
    memcpy(second.params.set[i].data, first.params.set[i].data,
           first.params.arena_size * sizeof(float));
  side_run(&second, 11, 20);
  side_fetch(&whole);
  side_fetch(&second);
  same_sets(&whole, &second);
  assert_memory_equal(&whole.out[11], &second.out[11], 9 * sizeof *whole.out);
  side_close(&whole), side_close(&first), side_close(&second);
}

static int heard;
static void hear(void *arg, const char *text) { heard++, printf("notice: %s\n", text); }

/* A device that refuses to record a run says so. */
static void recorded_runs_give_the_bytes_of_single_commands(void **state) {
  mr_train_config_t t = mr_train_default(B);
  mr_backend_t commands = *device->backend;
  mr_device_t single = *device;
  side_t a, b;
  if (!device->backend->record) {
    print_message("%s records no runs\n", device->name);
    skip();
  }
  commands.record = NULL, single.backend = &commands;
  side_open(&a, &t, device);
  side_open(&b, &t, &single);
  mr_notice_to(hear, NULL);
  side_run(&a, 0, 20);
  mr_notice_to(NULL, NULL);
  assert_int_equal(heard, 0);
  side_run(&b, 0, 20);
  assert_memory_equal(a.out, b.out, 20 * sizeof *a.out);
  side_fetch(&a);
  side_fetch(&b);
  same_sets(&a, &b);
  side_close(&a), side_close(&b);
}

/* The host's copy changes by mr_train_step_fetch alone, which first waits for its readers. */
static int waits;
static mr_err_t wait_counted(void *arg) { return waits++, *(mr_err_t *)arg; }

static void the_hosts_copy_is_written_by_fetch_alone(void **state) {
  mr_train_config_t t = mr_train_default(B);
  mr_err_t answer = MR_ERR_CANCEL;
  mr_diag_t diag = {0};
  side_t s;
  side_open(&s, &t, device);
  size_t bytes = s.params.arena_size * sizeof(float);
  float *was = malloc(bytes);
  memcpy(was, values_of(&s.params), bytes);
  mr_train_step_before_update(s.step, wait_counted, &answer);
  side_run(&s, 0, 3);
  assert_int_equal(waits, 0);
  assert_memory_equal(was, values_of(&s.params), bytes);
  assert_int_equal(mr_train_step_fetch(s.step, &s.params, &diag), MR_ERR_CANCEL);
  assert_int_equal(waits, 1);
  assert_memory_equal(was, values_of(&s.params), bytes);
  answer = MR_OK;
  side_fetch(&s);
  assert_int_equal(waits, 2);
  assert_true(memcmp(was, values_of(&s.params), bytes) != 0);
  side_fetch(&s); /* nothing is newer */
  assert_int_equal(waits, 2);
  free(was);
  side_close(&s);
}

/* The next step updates the sets, and has been read, when the copies are waited for. */
static void a_fetch_that_is_begun_gives_its_step_while_the_next_computes(void **state) {
  mr_train_config_t t = mr_train_default(B);
  mr_diag_t diag = {0};
  side_t now, later;
  if (!device->backend->queue->copy_beside) skip();
  side_open(&now, &t, device);
  side_open(&later, &t, device);
  for (int i = 0; i < 12; i++) {
    side_run(&now, i, i + 1);
    side_fetch(&now);
    if (i % 2) continue;
    if (!i) side_run(&later, 0, 1);
    mr_err_t e = mr_train_step_fetch_begin(later.step, &later.params, &diag);
    assert_int_equal(e, MR_AGAIN);
    side_run(&later, i + 1, i + 2);
    assert_int_equal(mr_train_step_fetch_end(later.step, &diag), MR_OK);
    same_sets(&now, &later);
    if (i + 2 < 12) side_run(&later, i + 2, i + 3);
  }
  assert_int_equal(mr_train_step_fetch_end(later.step, &diag), MR_OK); /* it is missing */
  side_fetch(&later);
  same_sets(&now, &later);
  side_close(&now), side_close(&later);
}

static void unread_runs_may_be_left_behind(void **state) {
  mr_train_config_t t = mr_train_default(B);
  mr_diag_t diag = {0};
  side_t s;
  side_open(&s, &t, device);
  for (int i = 0; i < MR_TRAIN_RING; i++) {
    const mr_train_in_t in = {.step = i + 1, .seed = 7, .lr = 1e-3f};
    const void *field[] = {images[i], labels[i]};
    assert_int_equal(mr_train_step_run(s.step, &s.params, field, &in, &diag), MR_OK);
  }
  side_close(&s);
}

/* The device, with a count of marks that nothing has waited for. */
static int unreached;

static void *mark_counted(const mr_device_t *d) { return unreached++, mr_device_mark(device); }

static mr_err_t reached_counted(const mr_device_t *d, void *mark, bool wait, mr_diag_t *diag) {
  mr_err_t e = mr_device_reached(device, mark, wait, diag);
  if (e == MR_OK) unreached = mark ? unreached - 1 : 0;
  return e;
}

/* Their batches may then be released, as those behind a step that was not finite. */
static void runs_that_are_undone_read_no_field_any_more(void **state) {
  mr_train_config_t t = mr_train_default(B);
  mr_backend_t counts = *device->backend;
  mr_queue_ops_t queue = *counts.queue;
  mr_device_t counted = *device;
  mr_diag_t diag = {0};
  mr_train_out_t out;
  side_t s;
  queue.mark = mark_counted, queue.reached = reached_counted;
  counts.queue = &queue, counted.backend = &counts;
  side_open(&s, &t, &counted);
  unreached = 0;
  for (int i = 0; i < MR_TRAIN_RING; i++) {
    const mr_train_in_t in = {.step = i + 1, .seed = 7, .lr = 1e-3f};
    const void *field[] = {images[i], labels[i]};
    assert_int_equal(mr_train_step_run(s.step, &s.params, field, &in, &diag), MR_OK);
  }
  assert_int_equal(mr_train_step_read(s.step, true, &out, &diag), MR_OK);
  assert_int_equal(unreached, MR_TRAIN_RING - 1);
  mr_train_step_retake(s.step);
  assert_int_equal(unreached, 0);
  side_close(&s);
}

/* ---- batches that lie on the device already ---- */

enum { SLOTS = 5, PAD = 64 };

/* A slot's batch on the host, which is scribbled over as soon as it has been copied. */
typedef struct slot {
  _Alignas(64) float image[B * PIXELS];
  _Alignas(64) int32_t label[PAD];
  void *mark;
} slot_t;

/* Counts of batches: filled (their copies have begun), there, run, read; batch i is in slot
   i % SLOTS. */
typedef struct ahead {
  int filled, there, run, read;
  mr_slots_t *slots;
  slot_t slot[SLOTS];
} ahead_t;

static void ahead_fill(ahead_t *a) {
  int i = a->filled++;
  slot_t *s = &a->slot[i % SLOTS];
  memcpy(s->image, images[i], sizeof s->image);
  memcpy(s->label, labels[i], sizeof labels[i]);
  s->mark = mr_slots_fill(a->slots, i % SLOTS, (const void *[]){s->image, s->label},
                          (const size_t[]){sizeof s->image, B * sizeof(int32_t)});
}

static void ahead_await(ahead_t *a, bool wait) {
  slot_t *s = &a->slot[a->there % SLOTS];
  mr_diag_t diag = {0};
  mr_err_t e = mr_slots_filled(a->slots, s->mark, wait, &diag);
  if (e < 0) fail_msg("%s", diag.text);
  if (e == MR_AGAIN) return;
  a->there++;
  memset(s->image, 0x7F, sizeof s->image);
  memset(s->label, 0x7F, sizeof s->label);
}

static void ahead_run(ahead_t *a, side_t *s) {
  int i = a->run++;
  mr_diag_t diag = {0};
  const void *field[] = {mr_slots_at(a->slots, i % SLOTS, 0), mr_slots_at(a->slots, i % SLOTS, 1)};
  const mr_train_in_t in = {.step = i + 1, .seed = 7, .lr = 1e-3f};
  if (mr_train_step_run(s->step, &s->params, field, &in, &diag) < 0) fail_msg("%s", diag.text);
}

static void ahead_read(ahead_t *a, side_t *s, bool wait) {
  mr_diag_t diag = {0};
  mr_err_t e = mr_train_step_read(s->step, wait, &s->out[a->read], &diag);
  if (e < 0) fail_msg("%s", diag.text);
  if (e == MR_OK) a->read++;
}

/* One of the things that may happen next, drawn from g. */
static void ahead_move(ahead_t *a, side_t *s, mr_philox_t *g) {
  bool wait = mr_philox_integers(g, 0, 2);
  switch (mr_philox_integers(g, 0, 4)) {
    case 0:
      if (a->filled < STEPS && a->filled - a->read < SLOTS) ahead_fill(a);
      break;
    case 1:
      if (a->there < a->filled) ahead_await(a, wait);
      break;
    case 2:
      if (a->run < a->there && a->run - a->read < MR_TRAIN_RING) ahead_run(a, s);
      break;
    default:
      if (a->read < a->run) ahead_read(a, s, wait);
  }
}

static void batches_copied_ahead_give_the_same_bytes(void **state) {
  static ahead_t a;
  static side_t here, there;
  mr_train_config_t t = mr_train_default(B);
  mr_diag_t diag = {0};
  const size_t bytes[] = {sizeof images[0], B * sizeof(int32_t)};
  side_open(&here, &t, device);
  side_run(&here, 0, STEPS);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    mr_philox_t g;
    mr_philox_init(&g, seed, 0);
    a = (ahead_t){0};
    t.there = true;
    side_open(&there, &t, device);
    if (mr_slots_create(device, SLOTS, 2, bytes, &a.slots, &diag) < 0) fail_msg("%s", diag.text);
    while (a.read < STEPS) ahead_move(&a, &there, &g);
    for (int i = 0; i < STEPS; i++)
      if (memcmp(&here.out[i], &there.out[i], sizeof here.out[i]))
        fail_msg("seed %d: step %d: loss %.9g, want %.9g", (int)seed, i + 1,
                 (double)there.out[i].loss, (double)here.out[i].loss);
    mr_slots_destroy(a.slots);
    side_close(&there);
  }
  side_close(&here);
}

static void slots_that_do_not_fit_are_refused(void **state) {
  const size_t bytes[] = {mr_device_room(device) / 2 + 4096, 64};
  mr_slots_t *s = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_slots_create(device, 1 << 16, 2, bytes, &s, &diag), MR_ERR_NOMEM);
  assert_null(s);
  assert_non_null(strstr(diag.text, "take fewer slots or a smaller batch"));
}

static void make_batches(void) {
  mr_philox_t g;
  mr_philox_init(&g, 5, 0);
  for (int s = 0; s < STEPS; s++) {
    for (int i = 0; i < B * PIXELS; i++) images[s][i] = (float)mr_philox_uniform(&g, -2, 2);
    for (int i = 0; i < B; i++) labels[s][i] = (s + i) % CLASSES;
  }
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  make_batches();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_of_50_steps_are_the_cpus_in_f32),
      cmocka_unit_test(losses_in_bf16_are_near_the_cpus),
      cmocka_unit_test(losses_with_own_attention_are_near_the_cpus),
      cmocka_unit_test(parts_averages_and_clipping_are_the_cpus),
      cmocka_unit_test(ordered_parts_are_the_cpus),
      cmocka_unit_test(a_dynamic_scale_takes_the_cpus_course),
      cmocka_unit_test(narrow_parameters_are_trained_as_on_the_cpu),
      cmocka_unit_test(a_run_that_resumes_is_the_same_to_the_bit),
      cmocka_unit_test(recorded_runs_give_the_bytes_of_single_commands),
      cmocka_unit_test(the_hosts_copy_is_written_by_fetch_alone),
      cmocka_unit_test(a_fetch_that_is_begun_gives_its_step_while_the_next_computes),
      cmocka_unit_test(unread_runs_may_be_left_behind),
      cmocka_unit_test(runs_that_are_undone_read_no_field_any_more),
      cmocka_unit_test(batches_copied_ahead_give_the_same_bytes),
      cmocka_unit_test(slots_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
