/* millrace runs: the runs of a folder, or some of them side by side. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli.h"
#include "apps/run_info.h"
#include "base/printable.h"

enum { RUNS_MAX = 4096 };

/* "0.4123" or "-". */
static const char *number(double v, const char *fmt, char *text, size_t n) {
  if (isnan(v))
    snprintf(text, n, "-");
  else
    snprintf(text, n, fmt, v);
  return text;
}

static void print_head(void) {
  printf("%-20s %-10s %9s %8s %7s %7s %9s %-10s %s\n", "run", "state", "step", "loss", "valid",
         "test", "images/s", "data", "ledger");
}

static const char *short_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static void print_run(const mr_run_info_t *r, bool whole_path) {
  char loss[24], valid[24], test[24], rate[24];
  printf("%-20s %-10s %9" PRId64 " %8s %7s %7s %9s %-10s %s\n",
         whole_path ? r->path : short_name(r->path), r->state, r->step,
         number(r->loss, "%.4f", loss, sizeof loss), number(r->valid, "%.4f", valid, sizeof valid),
         number(r->test, "%.4f", test, sizeof test), number(r->rate, "%.1f", rate, sizeof rate),
         r->data, r->ledger);
}

/* ---- a folder of runs ---- */

static int by_name(const void *a, const void *b) {
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int names_in(const char *folder, char **name, int most) {
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && n < most && (e = readdir(d));) {
    char file[MR_RUN_PATH + 300];
    snprintf(file, sizeof file, "%s/%s/metrics.jsonl", folder, e->d_name);
    if (e->d_name[0] == '.' || access(file, R_OK) < 0) continue;
    if ((name[n] = strdup(e->d_name))) n++;
  }
  if (d) closedir(d);
  qsort(name, (size_t)n, sizeof *name, by_name);
  return n;
}

static int list(const char *folder, mr_diag_t *diag) {
  static char *name[RUNS_MAX];
  int n = names_in(folder, name, RUNS_MAX);
  mr_err_t e =
      n ? MR_OK
        : mr_fail(diag, MR_ERR_IO, "%s: holds no runs; `millrace train` makes runs/1", folder);
  if (n) print_head();
  for (int i = 0; i < n; i++) {
    char path[MR_RUN_PATH + 300];
    mr_run_info_t r;
    mr_diag_t unsaid = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    if (mr_run_info_read(path, &r, &unsaid) >= 0) print_run(&r, false);
    mr_run_info_free(&r);
    free(name[i]);
  }
  return e;
}

/* ---- side by side ---- */

/* The last value of KEY= in a text of settings into out; "-" if there is none. */
static void setting_of(const char *settings, const char *key, size_t n_key, char *out, size_t n) {
  snprintf(out, n, "-");
  for (const char *line = settings; line && *line;) {
    size_t len = strcspn(line, "\n");
    if (len > n_key && !strncmp(line, key, n_key) && line[n_key] == '=') {
      char value[256];
      snprintf(value, sizeof value, "%.*s", (int)(len - n_key - 1), line + n_key + 1);
      mr_printable_cell(value, n, out, n);
    }
    line += len + (line[len] == '\n');
  }
}

static bool said_before(const mr_run_info_t *r, int run, const char *key, size_t n_key) {
  for (int i = 0; i <= run; i++)
    for (const char *line = r[i].settings; line && *line;) {
      if (line == key) return false;
      if (!strncmp(line, key, n_key + 1)) return true; /* with the = */
      line += strcspn(line, "\n");
      line += *line == '\n';
    }
  return false;
}

static void print_row(const mr_run_info_t *r, int n, const char *key, size_t n_key) {
  char value[16][64];
  bool differ = false;
  for (int i = 0; i < n; i++) {
    setting_of(r[i].settings, key, n_key, value[i], sizeof value[i]);
    differ |= strcmp(value[i], value[0]) != 0;
  }
  if (!differ) return;
  printf("%-28.*s", (int)n_key, key);
  for (int i = 0; i < n; i++) printf(" %16.16s", value[i]);
  putchar('\n');
}

static void print_settings(const mr_run_info_t *r, int n) {
  for (int i = 0; i < n; i++)
    for (const char *line = r[i].settings; line && *line;) {
      size_t n_key = strcspn(line, "=\n");
      if (line[n_key] == '=' && !said_before(r, i, line, n_key)) print_row(r, n, line, n_key);
      line += strcspn(line, "\n");
      line += *line == '\n';
    }
}

/* Losses at some steps that all have reached. */
static void print_losses(const mr_run_info_t *r, int n) {
  int64_t common = r[0].step;
  for (int i = 1; i < n; i++) common = r[i].step < common ? r[i].step : common;
  for (int part = 1; part <= 5 && common; part++) {
    int64_t at = common * part / 5;
    if (!at) continue;
    char label[48], text[32];
    snprintf(label, sizeof label, "loss at step %" PRId64, at);
    printf("%-28s", label);
    for (int i = 0; i < n; i++)
      printf(" %16s", number(mr_run_info_loss(&r[i], at), "%.4f", text, sizeof text));
    putchar('\n');
  }
}

static int compare(const mr_args_t *a, mr_diag_t *diag) {
  mr_run_info_t r[16] = {0};
  mr_err_t e = MR_OK;
  for (int i = 0; i < a->n_words && e >= 0; i++) e = mr_run_info_read(a->word[i], &r[i], diag);
  if (e >= 0) {
    print_head();
    for (int i = 0; i < a->n_words; i++) print_run(&r[i], true);
    printf("\n%-28s", "");
    for (int i = 0; i < a->n_words; i++) printf(" %16.16s", short_name(r[i].path));
    putchar('\n');
    print_settings(r, a->n_words);
    print_losses(r, a->n_words);
  }
  for (int i = 0; i < a->n_words; i++) mr_run_info_free(&r[i]);
  return e;
}

static bool is_run(const char *path) {
  char file[MR_RUN_PATH + 32];
  snprintf(file, sizeof file, "%s/metrics.jsonl", path);
  return access(file, R_OK) == 0;
}

static int runs_run(const mr_args_t *a, mr_diag_t *diag) {
  if (!a->n_words) return list("runs", diag);
  if (a->n_words == 1 && !is_run(a->word[0])) return list(a->word[0], diag);
  return compare(a, diag);
}

const mr_command_t mr_command_runs = {
    .name = "runs",
    .words = "[FOLDER | RUN...]",
    .help = "Lists the runs of a folder (runs/), or compares some: settings, losses, ledgers.",
    .more =
        "\nThe loss is the mean of the last 20 steps.  Settings that are the same are left out.",
    .max_words = 16,
    .run = runs_run,
};
