/* millrace export: the weights of a run or a checkpoint for other libraries.  The file goes where
   --out says; standard output gets the Python that makes the library's model, so that it can be
   piped into a script. */
#include <stdio.h>

#include "apps/cli/cli.h"
#include "apps/run/checkpoint_arg.h"
#include "base/xio.h"
#include "stages/train/export.h"

static const mr_flag_t export_flags[] = {
    {"--format", "timm|flax|hf|torchvision",
     "Whose names and layouts the file has; hf: Hugging Face's ViTForImageClassification."},
    {"--out", "FILE", "The file to write, FILE.safetensors."},
    {0}};

static int export_run(const mr_args_t *a, mr_diag_t *diag) {
  const char *format = mr_args_text(a, "--format"), *out = mr_args_text(a, "--out");
  mr_checkpoint_arg_t of;
  mr_export_t made;
  mr_diag_t why = {0};
  if (!format || !out)
    return mr_fail(diag, MR_ERR_USAGE, "export: want %s",
                   format ? "--out FILE.safetensors" : "--format timm, flax, hf or torchvision");
  if (mr_newfile_check(out, &why) < 0)
    return mr_diag_prefix(diag, MR_ERR_USAGE, &why, "export: --out");
  mr_err_t e = mr_checkpoint_arg(a->word[0], NULL, NULL, 0, &of, diag);
  if (e >= 0) e = mr_train_export(of.path, format, out, &made, diag);
  mr_checkpoint_arg_fini(&of);
  if (e < 0) return e;
  fprintf(stderr, "millrace: %s has %lld parameters in %d tensors\n", out, made.count,
          made.tensors);
  fputs(made.code, stdout);
  return 0;
}

static const mr_hint_t export_words[] = {
    {"convert save savepretrained toonnx onnx", "export", NULL}, {0}};

const mr_command_t mr_command_export = {
    .name = "export",
    .hint = export_words,
    .words = "RUN|CHECKPOINT --format FORMAT --out FILE",
    .help =
        "Writes the weights of a Vision Transformer as timm, flax, Hugging Face or torchvision "
        "read them.",
    .more =
        "\nWhat the weights do not say, sizes, GELU and epsilon, is in the Python that is printed: "
        "it makes the\nlibrary's model and loads the file.  A model that the library does not "
        "compute is refused.\n`train from=FILE` reads such files.",
    .flags = export_flags,
    .min_words = 1,
    .max_words = 1,
    .run = export_run,
};
