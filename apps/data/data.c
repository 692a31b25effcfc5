/* millrace data fetch: downloads CIFAR-10 from its official site, verifies and unpacks it.  The
   archive is checked against a known MD5 before a byte of it is unpacked, and the folder appears
   only when it is complete. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/data/fetch.h"
#include "base/suggest.h"
#include "base/xio.h"

static const char official_url[] = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
static const char official_md5[] = "c32a1d4ab5d03f1284b67883e8d87530";
static const int64_t archive_max = INT64_C(512) << 20;

static const mr_flag_t data_flags[] = {
    {"--dir", "DIR", "Folder to create cifar-10-batches-bin in; default data."},
    {"--url", "URL", "Another address of cifar-10-binary.tar.gz (http or https)."},
    {"--md5", "HEX", "MD5 of the archive, if it is not the official one."},
    {0}};

static mr_err_t data_check_words(const mr_args_t *a, const char *md5, mr_diag_t *diag) {
  char near[128];
  mr_suggest_t s = {.word = a->word[0]};
  mr_suggest_offer(&s, "fetch");
  if (strcmp(a->word[0], "fetch"))
    return mr_fail(diag, MR_ERR_USAGE, "data: unknown word \"%s\"%s; usage: millrace data fetch",
                   a->word[0], mr_suggest_text(&s, near, sizeof near));
  if (strlen(md5) != 32 || strspn(md5, "0123456789abcdef") != 32)
    return mr_fail(diag, MR_ERR_USAGE, "data: --md5: \"%s\", expected 32 lower-case hex digits",
                   md5);
  return MR_OK;
}

static int data_run(const mr_args_t *a, mr_diag_t *diag) {
  const char *dir = mr_args_text(a, "--dir"), *url = mr_args_text(a, "--url");
  const char *md5 = mr_args_text(a, "--md5");
  if (!dir) dir = "data";
  if (!url) url = official_url;
  if (!md5) md5 = official_md5;
  MR_TRY(data_check_words(a, md5, diag));
  MR_TRY(mr_make_folder(dir, diag));
  char folder[MR_PATH_MAX], archive[MR_PATH_MAX];
  if (strlen(dir) > sizeof folder - 64)
    return mr_fail(diag, MR_ERR_USAGE, "--dir: the path is too long");
  snprintf(folder, sizeof folder, "%s/cifar-10-batches-bin", dir);
  snprintf(archive, sizeof archive, "%s/cifar-10-binary.tar.gz", dir);
  struct stat st;
  if (lstat(folder, &st) == 0) {
    printf("%s is already there\n", folder);
    return 0;
  }
  if (mr_check_md5(archive, md5, NULL) < 0)
    MR_TRY(mr_fetch_file(url, archive, md5, archive_max, diag));
  MR_TRY(mr_unpack_cifar10(archive, folder, diag));
  unlink(archive);
  printf("CIFAR-10 is in %s; train on it with: millrace train --data %s\n", folder, folder);
  return 0;
}

static const mr_hint_t data_words[] = {{"download fetch", "data fetch", NULL}, {0}};

const mr_command_t mr_command_data = {
    .name = "data",
    .hint = data_words,
    .words = "fetch [--dir DIR] [--url URL]",
    .help = "Downloads CIFAR-10 (162 MB), verifies and unpacks it.",
    .more =
        "\n"
        "An interrupted download resumes where it stopped.",
    .flags = data_flags,
    .min_words = 1,
    .max_words = 1,
    .run = data_run,
};
