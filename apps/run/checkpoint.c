/* millrace checkpoint: verify reads checkpoints whole, as a resume would, and names a damaged
   tensor with its file. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/cli/cli.h"
#include "base/safetensors.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/xio.h"

/* ---- verify ---- */

static const char *hashes_of(const mr_safetensors_t *f) {
  if (mr_safetensors_meta(f, MR_SAFETENSORS_HASHES)) return "each has its hash";
  if (mr_safetensors_meta(f, "millrace.format")) return "the file has its hash";
  return "without a hash to compare";
}

static mr_err_t verify_file(const char *path, mr_diag_t *diag) {
  char shown[MR_PATH_MAX];
  mr_safetensors_t *f = NULL;
  size_t bytes = 0;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  for (int i = 0; i < mr_safetensors_count(f); i++)
    bytes += mr_safetensors_bytes(mr_safetensors_at(f, i));
  const char *step = mr_safetensors_meta(f, "millrace.step");
  printf("%s: whole,%s%.20s %d tensors of %.1f MB, %s\n", mr_printable(path, shown, sizeof shown),
         step ? " step " : "", step ? step : "", mr_safetensors_count(f), (double)bytes / 1e6,
         hashes_of(f));
  mr_safetensors_close(f);
  return MR_OK;
}

static int is_checkpoint(const struct dirent *e) {
  int64_t step;
  char again[64];
  if (!strcmp(e->d_name, "latest") || !strcmp(e->d_name, "best")) return 1;
  if (sscanf(e->d_name, "step-%" SCNd64, &step) != 1) return 0;
  snprintf(again, sizeof again, "step-%06" PRId64 ".safetensors", step);
  return !strcmp(again, e->d_name);
}

/* Whether a link of a folder leads to a file that the folder has itself, and is verified as that.
 */
static bool is_other_name(const char *path) {
  struct stat link, file;
  return lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && stat(path, &file) == 0;
}

/* Verifies the files of a folder.  All but the first failure are notices. */
static mr_err_t verify_files(const char *folder, struct dirent *const *entry, int n,
                             mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  for (int i = 0; i < n; i++) {
    char path[MR_PATH_MAX];
    mr_diag_t why = {0};
    if (snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name) >= (int)sizeof path)
      return mr_fail(diag, MR_ERR_IO, "%.60s...: the path is too long", folder);
    mr_err_t bad = is_other_name(path) ? MR_OK : verify_file(path, &why);
    if (bad >= 0) continue;
    if (e < 0)
      mr_notice("%s", why.text);
    else
      e = mr_diag_relay(diag, bad, &why);
  }
  return e;
}

static mr_err_t verify_folder(const char *folder, mr_diag_t *diag) {
  struct dirent **entry = NULL;
  int n = scandir(folder, &entry, is_checkpoint, versionsort);
  mr_err_t e = n > 0 ? verify_files(folder, entry, n, diag)
                     : mr_fail(diag, MR_ERR_IO,
                               "%s: holds no checkpoint, want a run, its folder checkpoints or a "
                               "file of it",
                               folder);
  for (int i = 0; i < n; i++) free(entry[i]);
  free(entry);
  return e;
}

static mr_err_t verify_word(const char *word, mr_diag_t *diag) {
  char inside[MR_PATH_MAX];
  struct stat st;
  if (stat(word, &st) < 0 || !S_ISDIR(st.st_mode)) return verify_file(word, diag);
  if (snprintf(inside, sizeof inside, "%s/checkpoints", word) < (int)sizeof inside &&
      stat(inside, &st) == 0)
    return verify_folder(inside, diag);
  return verify_folder(word, diag);
}

/* ---- the command ---- */

static int checkpoint_run(const mr_args_t *a, mr_diag_t *diag) {
  char near[128];
  mr_suggest_t s = {.word = a->word[0]};
  mr_suggest_offer(&s, "verify");
  if (!strcmp(a->word[0], "verify")) return verify_word(a->word[1], diag);
  return mr_fail(diag, MR_ERR_USAGE,
                 "checkpoint: unknown word \"%s\"%s; usage: millrace checkpoint verify "
                 "RUN|CHECKPOINT",
                 a->word[0], mr_suggest_text(&s, near, sizeof near));
}

static const mr_hint_t checkpoint_words[] = {{"verify fsck checksum", "checkpoint verify", NULL},
                                             {0}};

const mr_command_t mr_command_checkpoint = {
    .name = "checkpoint",
    .hint = checkpoint_words,
    .words = "verify RUN|CHECKPOINT",
    .help = "Reads checkpoints whole and compares their hashes; names damaged tensors.",
    .more =
        "\nOf a run all of its checkpoints are read.  A damaged tensor is named with its file, "
        "and the status is 1 then.",
    .min_words = 2,
    .max_words = 2,
    .run = checkpoint_run,
};
