/* millrace checkpoint: verify reads checkpoints whole, as a resume would, and names a damaged
   tensor with its file; merge makes one file of those of several ranks. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/run_dir.h"
#include "base/safetensors.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/xio.h"
#include "stages/train/state.h"

/* ---- verify ---- */

static const char *hashes_of(const mr_safetensors_t *f) {
  if (mr_safetensors_meta(f, MR_SAFETENSORS_HASHES)) return "each has its hash";
  if (mr_safetensors_meta(f, "millrace.format")) return "the file has its hash";
  return "without a hash to compare";
}

/* Says that there are several files. */
static const char *files_text(int files, char text[32]) {
  snprintf(text, 32, files > 1 ? " in %d files" : "", files);
  return text;
}

static mr_err_t verify_file(const char *path, mr_diag_t *diag) {
  char shown[MR_PATH_MAX], text[32];
  mr_safetensors_t *f = NULL;
  size_t bytes = 0;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  for (int i = 0; i < mr_safetensors_count(f); i++)
    bytes += mr_safetensors_bytes(mr_safetensors_at(f, i));
  const char *step = mr_safetensors_meta(f, "millrace.step");
  int files = mr_safetensors_files(f);
  printf("%s: whole,%s%.20s %d tensors of %.1f MB%s, %s\n", mr_printable(path, shown, sizeof shown),
         step ? " step " : "", step ? step : "", mr_safetensors_count(f), (double)bytes / 1e6,
         files_text(files, text), hashes_of(f));
  mr_safetensors_close(f);
  return MR_OK;
}

static bool is_step(const char *name) {
  int64_t step;
  char again[64];
  if (sscanf(name, "step-%" SCNd64, &step) != 1) return false;
  snprintf(again, sizeof again, MR_STATE_STEM ".safetensors", step);
  return !strcmp(again, name);
}

static bool is_link_of_run(const char *name) {
  return !strcmp(name, "latest") || !strcmp(name, "best");
}

static int is_checkpoint(const struct dirent *e) {
  return is_link_of_run(e->d_name) || is_step(e->d_name);
}

/* Whether an entry is a link of the run's to a file of the same folder, which is verified under the
   name of its step. */
static bool is_other_name(const char *path, const char *name) {
  char to[64];
  struct stat file;
  ssize_t n = is_link_of_run(name) ? readlink(path, to, sizeof to - 1) : -1;
  if (n < 0) return false;
  to[n] = 0;
  return is_step(to) && stat(path, &file) == 0;
}

/* Whether an entry is there no more: a run removes its older checkpoints. */
static bool is_gone(const char *path) {
  struct stat st;
  return lstat(path, &st) < 0 && errno == ENOENT;
}

/* Verifies the files of a folder, *whole of which are.  All but the first failure are notices. */
static mr_err_t verify_files(const char *folder, struct dirent *const *entry, int n, int *whole,
                             mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  for (int i = 0; i < n; i++) {
    char path[MR_PATH_MAX];
    mr_diag_t why = {0};
    if (snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name) >= (int)sizeof path)
      return mr_fail(diag, MR_ERR_IO, "%.60s...: the path is too long", folder);
    if (is_other_name(path, entry[i]->d_name)) continue;
    mr_err_t bad = verify_file(path, &why);
    *whole += bad >= 0;
    if (bad >= 0 || is_gone(path)) continue;
    if (e < 0)
      mr_notice("%s", why.text);
    else
      e = mr_diag_relay(diag, bad, &why);
  }
  return e;
}

/* Again where a run has removed all before they were read. */
static mr_err_t verify_folder(const char *folder, mr_diag_t *diag) {
  enum { TRIES = 8 };
  int whole = 0, n = 1;
  mr_err_t e = MR_OK;
  for (int try = 0; try < TRIES && n > 0 && !whole && e >= 0; try++) {
    struct dirent **entry = NULL;
    n = scandir(folder, &entry, is_checkpoint, versionsort);
    e = verify_files(folder, entry, n, &whole, diag);
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
  }
  if (whole || e < 0) return e;
  return mr_fail(diag, MR_ERR_IO,
                 "%s: holds no checkpoint, want a run, its folder checkpoints or a file of it",
                 folder);
}

/* The folders of checkpoints of a run; 0 for another folder, and for a run that cannot be read. */
static int folders_of_run(const char *word, char (*folder)[MR_RUN_CHECKPOINTS],
                          mr_resume_point_t *newest) {
  mr_run_dir_t r = {0};
  mr_diag_t unsaid = {0};
  char graph[MR_PATH_MAX];
  struct stat st;
  int n = 0;
  bool run = snprintf(graph, sizeof graph, "%s/graph.mr", word) < (int)sizeof graph &&
             stat(graph, &st) == 0 && mr_run_dir_read(&r, word, &unsaid) >= 0;
  if (run) n = mr_run_dir_checkpoints(&r, folder, MR_RUN_FOLDERS);
  if (run && newest && mr_run_dir_resume_point(&r, newest, &unsaid) < 0) newest->path[0] = 0;
  mr_run_dir_free(&r);
  return n;
}

static bool has_checkpoint(const char *folder) {
  struct dirent **entry = NULL;
  int n = scandir(folder, &entry, is_checkpoint, NULL);
  for (int i = 0; i < n; i++) free(entry[i]);
  free(entry);
  return n > 0;
}

/* All checkpoints of a run, wherever its graph keeps them. */
static mr_err_t verify_run(const char *word, int n, char (*folder)[MR_RUN_CHECKPOINTS],
                           mr_diag_t *diag) {
  bool any = false;
  for (int i = 0; i < n; i++) {
    if (!has_checkpoint(folder[i])) continue;
    MR_TRY(verify_folder(folder[i], diag));
    any = true;
  }
  return any ? MR_OK : verify_folder(word, diag); /* which says so */
}

static mr_err_t verify_word(const char *word, mr_diag_t *diag) {
  static char folder[MR_RUN_FOLDERS][MR_RUN_CHECKPOINTS];
  char inside[MR_PATH_MAX];
  struct stat st;
  if (stat(word, &st) < 0 || !S_ISDIR(st.st_mode)) return verify_file(word, diag);
  int n = folders_of_run(word, folder, NULL);
  if (n) return verify_run(word, n, folder, diag);
  if (snprintf(inside, sizeof inside, "%s/checkpoints", word) < (int)sizeof inside &&
      stat(inside, &st) == 0)
    return verify_folder(inside, diag);
  return verify_folder(word, diag);
}

/* ---- merge ---- */

/* The checkpoint of a word: the newest of a run. */
static mr_err_t newest_of(const char *word, char path[MR_PATH_MAX], mr_diag_t *diag) {
  static char folder[MR_RUN_FOLDERS][MR_RUN_CHECKPOINTS];
  struct stat st;
  mr_resume_point_t newest = {0};
  bool is_folder = stat(word, &st) == 0 && S_ISDIR(st.st_mode);
  if (snprintf(path, MR_PATH_MAX, "%s%s", word, is_folder ? "/checkpoints/latest" : "") >=
      MR_PATH_MAX)
    return mr_fail(diag, MR_ERR_IO, "%.60s...: the path is too long", word);
  if (is_folder && folders_of_run(word, folder, &newest) && newest.path[0])
    strcpy(path, newest.path);
  if (!is_folder || stat(path, &st) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: holds no checkpoint, want a run or a file", word);
}

static mr_err_t merge_word(const char *word, const char *out, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  mr_diag_t why = {0};
  mr_newfile_t f;
  int slices;
  if (!out) return mr_fail(diag, MR_ERR_USAGE, "checkpoint merge: want --out FILE.safetensors");
  if (mr_newfile_check(out, &why) < 0)
    return mr_diag_prefix(diag, MR_ERR_USAGE, &why, "checkpoint merge: --out");
  MR_TRY(newest_of(word, path, diag));
  MR_TRY(mr_newfile_open(&f, out, diag));
  mr_err_t e = mr_train_state_merge(path, f.fd, out, &slices, diag);
  if (e < 0) return mr_newfile_drop(&f), e;
  MR_TRY(mr_newfile_commit(&f, diag));
  fprintf(stderr, "millrace: %s is one file of %d\n", out, slices + 1);
  return MR_OK;
}

/* ---- the command ---- */

static int checkpoint_run(const mr_args_t *a, mr_diag_t *diag) {
  const char *out = mr_args_text(a, "--out");
  char near[128];
  mr_suggest_t s = {.word = a->word[0]};
  mr_suggest_offer(&s, "verify");
  mr_suggest_offer(&s, "merge");
  if (!strcmp(a->word[0], "merge")) return merge_word(a->word[1], out, diag);
  if (!strcmp(a->word[0], "verify") && out)
    return mr_fail(diag, MR_ERR_USAGE, "checkpoint verify: --out is of checkpoint merge");
  if (!strcmp(a->word[0], "verify")) return verify_word(a->word[1], diag);
  return mr_fail(diag, MR_ERR_USAGE,
                 "checkpoint: unknown word \"%s\"%s; usage: millrace checkpoint verify|merge "
                 "RUN|CHECKPOINT",
                 a->word[0], mr_suggest_text(&s, near, sizeof near));
}

static const mr_flag_t checkpoint_flags[] = {
    {"--out", "FILE", "merge: the file to write, FILE.safetensors."}, {0}};

static const mr_hint_t checkpoint_words[] = {{"verify fsck checksum", "checkpoint verify", NULL},
                                             {"merge consolidate", "checkpoint merge", NULL},
                                             {0}};

const mr_command_t mr_command_checkpoint = {
    .name = "checkpoint",
    .hint = checkpoint_words,
    .words = "verify|merge RUN|CHECKPOINT",
    .help = "Compares checkpoints with their hashes, or makes one file of those of several ranks.",
    .more =
        "\nverify: of a run all of its checkpoints are read.  A damaged tensor is named with its "
        "file, and the status is\n1 then.  merge: of a run the newest is taken, and the file is "
        "that of a process without ranks.",
    .flags = checkpoint_flags,
    .min_words = 2,
    .max_words = 2,
    .run = checkpoint_run,
};
