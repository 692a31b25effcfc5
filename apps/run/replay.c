/* millrace replay: repeats one training step from a replay file, alone, and compares its result.
   The file holds all inputs of the step, so on the same versions and instruction set loss and norm
   must agree to the bit; where they need not, a notice says so first. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "apps/cli/model_arg.h"
#include "apps/run/versions.h"
#include "base/err.h"
#include "base/isa.h"
#include "base/text.h"
#include "model/exec/device.h"
#include "stages/train/replay.h"

static const mr_flag_t replay_flags[] = {
    {"--trace", NULL, "Also lists every equation up to the first that is not finite."},
    {"--threads", "N", "Number of compute threads; default as the run had.  Changes no bit."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]", "Where the step is repeated; default cpu."},
    {0}};

static uint32_t bits_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static void replay_print_one(const char *what, float v) {
  if (isnan(v)) /* its sign has no meaning */
    printf("%s nan (%08" PRIx32 ")", what, bits_of(v));
  else
    mr_printf("%s %.9g (%08" PRIx32 ")", what, (double)v, bits_of(v));
}

static void replay_print(const char *what, float loss, float norm) {
  printf("%s: ", what);
  replay_print_one("loss", loss);
  replay_print_one(", gradient norm", norm);
  puts("");
}

static void replay_print_reported(const mr_replay_report_t *t) {
  mr_printf("step %" PRId64 " of %s: model %s, batch %" PRId64 ", seed %" PRIu64 ", lr %.9g\n",
            t->step, t->stage, t->model, t->batch, t->seed, (double)t->lr);
  if (t->ema > 0)
    mr_printf("average of the weights: decay %.9g, begun after %" PRId64 " applied steps\n",
              (double)t->ema, t->ema_after);
  printf("made with %s, %s, %" PRId64 " threads", t->made_with, t->isa, t->threads);
  if (strcmp(t->device, "cpu")) printf(", device %s", t->device);
  puts("");
  printf("records");
  for (int i = 0; i < t->n_records; i++) printf(" %" PRIu64, t->record[i]);
  puts("");
}

/* Kernels of another device or instruction set round otherwise, and so may another version. */
static bool replay_is_alike(const mr_replay_report_t *t, const char *device) {
  const char *isa = mr_isa_name(mr_isa()), *versions = mr_versions_line();
  bool here = !strcmp(device, t->device), same = !strcmp(isa, t->isa);
  if (!here)
    mr_notice(
        "the run computed on device %s, this is %s: bits may differ; --device %s repeats it where "
        "there is one",
        t->device, device, t->device);
  if (!same)
    mr_notice(
        "the run used the instruction set %s, this is %s: bits may differ; MILLRACE_ISA=%s "
        "repeats it where the processor has it",
        t->isa, isa, t->isa);
  if (strcmp(versions, t->made_with))
    mr_notice("the run was made with %s, this is %s: bits may differ", t->made_with, versions);
  return here && same && !strcmp(versions, t->made_with);
}

static int replay_step(mr_replay_t *r, const char *device, int threads, bool list,
                       mr_diag_t *diag) {
  const mr_replay_report_t *t = mr_replay_report(r);
  mr_train_out_t out;
  mr_traced_t found;
  replay_print_reported(t);
  bool alike = replay_is_alike(t, device);
  MR_TRY(mr_replay_run(r, threads, &out, diag));
  replay_print("recorded", t->loss, t->grad_norm);
  replay_print("replayed", out.loss, out.grad_norm);
  bool same =
      bits_of(out.loss) == bits_of(t->loss) && bits_of(out.grad_norm) == bits_of(t->grad_norm);
  puts(same ? "the bits are the same" : "the bits DIFFER");
  MR_TRY(mr_replay_trace(r, threads, list ? stdout : NULL, &found, diag));
  if (found.found)
    printf("first value that is not finite: %s\n", found.text);
  else
    puts("loss and gradients are finite");
  if (same) return 0;
  return mr_fail(diag, MR_ERR_DATA, "replay: the step does not repeat to the bit%s",
                 alike ? "" : ", on another machine, device or version than it was recorded on");
}

static int replay_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_replay_t *r = NULL;
  const mr_device_t *device = NULL;
  int64_t threads = 0;
  MR_TRY(mr_args_int(a, "--threads", 1, 1024, &threads, diag));
  MR_TRY(mr_isa_check(diag));
  MR_TRY(mr_device_arg(a, &device, diag));
  MR_TRY(mr_replay_open(a->word[0], &r, diag));
  mr_replay_set_device(r, device);
  int e = replay_step(r, device ? device->backend->name : "cpu", (int)threads,
                      mr_args_text(a, "--trace") != NULL, diag);
  mr_replay_close(r);
  mr_device_close(device);
  return e;
}

const mr_command_t mr_command_replay = {
    .name = "replay",
    .words = "FILE",
    .help = "Repeats one training step out of the file that on-nan=trace has written.",
    .more =
        "\n"
        "FILE holds parameters, batch and settings: neither the run nor its data is needed.  "
        "The command\n"
        "prints loss and gradient norm, whether they have the recorded bits, and the first "
        "value that is\n"
        "not finite; it ends with status 1 if the bits differ.",
    .flags = replay_flags,
    .min_words = 1,
    .max_words = 1,
    .run = replay_run,
};
