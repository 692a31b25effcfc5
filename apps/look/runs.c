/* millrace runs: lists the runs of a folder, or compares some side by side.  All it knows comes
   from the files of each run (run_info.c); a folder that cannot be read as a run is left out of a
   list, but an error when it is named. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/run_info.h"
#include "base/shown.h"
#include "base/text.h"

/* Writes "0.4123", or "-" for NaN; returns text. */
static const char *runs_number(double v, const char *fmt, char *text, size_t n) {
  if (isnan(v))
    snprintf(text, n, "-");
  else
    snprintf(text, n, fmt, v);
  return text;
}

static void runs_print_head(void) {
  printf("%-20s %-10s %9s %8s %7s %7s %9s %-10s %s\n", "run", "state", "step", "loss", "valid",
         "test", "images/s", "data", "ledger");
}

static const char *short_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static void print_run(const mr_run_info_t *r, bool whole_path) {
  char loss[24], valid[24], test[24], rate[24], path[MR_RUN_PATH + 300];
  printf("%-20s %-10s %9" PRId64 " %8s %7s %7s %9s %-10s %s\n",
         mr_printable(whole_path ? r->path : short_name(r->path), path, sizeof path), r->state,
         r->step, runs_number(r->loss, "%.4f", loss, sizeof loss),
         runs_number(r->valid, "%.4f", valid, sizeof valid),
         runs_number(r->test, "%.4f", test, sizeof test),
         runs_number(r->rate, "%.1f", rate, sizeof rate), r->data, r->ledger);
}

/* ---- a folder of runs ---- */

static int runs_by_name(const void *a, const void *b) {
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Appends a copy of a name to *name (heap), which has *room places; false without memory. */
static bool append_name(char ***name, size_t *n, size_t *room, const char *text) {
  if (*n == *room) {
    size_t more = *room ? 2 * *room : 64;
    char **grown = realloc(*name, more * sizeof *grown);
    if (!grown) return false;
    *name = grown, *room = more;
  }
  if (!((*name)[*n] = strdup(text))) return false;
  ++*n;
  return true;
}

/* Puts the names of the runs in a folder into *name (heap, as its *n names are) in order.  A run is
   a folder with metrics.  MR_ERR_NOMEM; the caller frees the names in any case. */
static mr_err_t names_in(const char *folder, char ***name, size_t *n, mr_diag_t *diag) {
  size_t room = 0;
  mr_err_t code = MR_OK;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && code >= 0 && (e = readdir(d));) {
    char file[MR_RUN_PATH + 300];
    snprintf(file, sizeof file, "%s/%s/metrics.jsonl", folder, e->d_name);
    if (e->d_name[0] == '.' || access(file, R_OK) < 0) continue;
    if (!append_name(name, n, &room, e->d_name))
      code = mr_no_memory(diag, "the names of the runs in %s", folder);
  }
  if (d) closedir(d);
  if (*n) qsort(*name, *n, sizeof **name, runs_by_name);
  return code;
}

static int list_runs(const char *folder, mr_diag_t *diag) {
  char **name = NULL;
  size_t n = 0;
  mr_err_t e = names_in(folder, &name, &n, diag);
  if (e >= 0 && !n)
    e = mr_fail(diag, MR_ERR_IO, "%s: holds no runs; `millrace train` makes runs/1", folder);
  if (e >= 0) runs_print_head();
  for (size_t i = 0; i < n && e >= 0; i++) {
    char path[MR_RUN_PATH + 300];
    mr_run_info_t r;
    mr_diag_t unsaid = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name[i]);
    mr_err_t read = mr_run_info_read(path, &r, &unsaid);
    if (read >= 0) print_run(&r, false);
    if (read == MR_ERR_NOMEM) e = mr_diag_relay(diag, read, &unsaid);
  }
  for (size_t i = 0; i < n; i++) free(name[i]);
  free(name);
  return e;
}

/* ---- side by side ---- */

enum { COMPARED = MR_WORDS_MAX, VALUE = 64 };

/* A run in a comparison.  dir has the settings that were given; g has the values of all others. */
typedef struct compared {
  mr_run_info_t info;
  mr_run_dir_t dir;
  mr_graph_t *g;     /* NULL: its files can no longer be read */
  char value[VALUE]; /* of the setting whose row is printed */
} compared_t;

static mr_err_t open_compared(const char *path, compared_t *c, mr_diag_t *diag) {
  mr_diag_t unsaid = {0};
  MR_TRY(mr_run_info_read(path, &c->info, diag));
  c->g = mr_graph_create(mr_all_stages());
  if (!c->g) return mr_no_memory(diag, "the graph of %s", path);
  if (mr_run_dir_read(&c->dir, path, &unsaid) >= 0 && mr_run_dir_graph(&c->dir, c->g, &unsaid) >= 0)
    return MR_OK;
  mr_graph_destroy(c->g);
  c->g = NULL;
  return unsaid.code == MR_ERR_NOMEM ? mr_diag_relay(diag, unsaid.code, &unsaid) : MR_OK;
}

static void close_compared(compared_t *c) {
  mr_graph_destroy(c->g);
  mr_run_dir_free(&c->dir);
}

/* Copies the value of "let NAME = VALUE" in a graph's text into out; false if there is no such
   line. */
static bool variable_of(const char *graph, const char *name, char *out, size_t n) {
  size_t len = strlen(name);
  for (const char *at = graph; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
    const char *p = at + strspn(at, " \t");
    if (strncmp(p, "let", 3) || (p[3] != ' ' && p[3] != '\t')) continue;
    p += 3 + strspn(p + 3, " \t");
    if (strncmp(p, name, len)) continue;
    p += len, p += strspn(p, " \t");
    if (*p != '=') continue;
    p += 1 + strspn(p + 1, " \t");
    snprintf(out, n, "%.*s", (int)strcspn(p, " \t#\n"), p);
    return true;
  }
  return false;
}

/* The stage that a name belongs to, "STAGE.SETTING" or a setting that only one stage has, and its
   setting; NULL if none or several match. */
static const mr_stage_t *stage_of(const mr_graph_t *g, const char *name, const char **setting) {
  const char *dot = strchr(name, '.');
  const mr_stage_t *found = NULL;
  int n = 0;
  *setting = dot ? dot + 1 : name;
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    bool named = !dot || (strlen(s->name) == (size_t)(dot - name) &&
                          !strncmp(s->name, name, (size_t)(dot - name)));
    if (named && mr_stage_def_opt(s->def, *setting)) found = s, n++;
  }
  return n == 1 ? found : NULL;
}

/* The secret setting of this name, "STAGE.SETTING" or "SETTING", of any stage of the graph or of
   any that millrace has: the graph may no longer be readable.  NULL: the name is of none. */
static const mr_opt_t *secret_of(const mr_graph_t *g, const char *name) {
  const char *dot = strchr(name, '.'), *setting = dot ? dot + 1 : name;
  const mr_registry_t *all = mr_all_stages();
  const mr_opt_t *o = NULL;
  for (int i = 0; g && i < mr_graph_n_stages(g); i++) {
    o = mr_stage_def_opt(mr_graph_stage_at(g, i)->def, setting);
    if (o && o->type == MR_OPT_SECRET) return o;
  }
  for (int i = 0; i < all->n; i++) {
    o = mr_stage_def_opt(all->def[i], setting);
    if (o && o->type == MR_OPT_SECRET) return o;
  }
  return NULL;
}

/* Whether a run's variable may hold a secret; without its graph nothing tells what uses it. */
static bool variable_hides(const compared_t *c, const char *name) {
  char unused[VALUE];
  bool variable = c->dir.graph && variable_of(c->dir.graph, name, unused, sizeof unused);
  return variable && (c->g ? mr_graph_hides(c->g, name) : true);
}

/* Writes a run's value of a setting, given or default, as it may be shown into out; "-" if it has
   no such setting.  MR_ERR_NOMEM without a sentence. */
static mr_err_t runs_value_of(const compared_t *c, const char *name, char *out, size_t n) {
  const char *setting, *given = mr_run_dir_get(&c->dir, name);
  char variable[1024];
  const mr_stage_t *s = c->g ? stage_of(c->g, name, &setting) : NULL;
  if (!given && c->dir.graph && variable_of(c->dir.graph, name, variable, sizeof variable))
    given = variable;
  if (!given && s) given = mr_graph_setting(c->g, s->name, setting);
  bool hides = given && variable_hides(c, name);
  char *shown = given && !hides ? mr_shown(secret_of(c->g, name), given) : NULL;
  if (given && !hides && !shown) return MR_ERR_NOMEM;
  mr_printable(shown ? shown : given ? "(hidden)" : "-", out, n);
  free(shown);
  return MR_OK;
}

static mr_err_t runs_print_row(compared_t *c, int n, const char *name) {
  bool differ = false;
  for (int i = 0; i < n; i++) {
    MR_TRY(runs_value_of(&c[i], name, c[i].value, VALUE));
    differ |= strcmp(c[i].value, c[0].value) != 0;
  }
  if (!differ) return MR_OK;
  char label[128];
  printf("%-28s", mr_printable(name, label, sizeof label));
  for (int i = 0; i < n; i++) printf(" %16.16s", c[i].value);
  putchar('\n');
  return MR_OK;
}

/* Copies the name of setting k of run i; false if an earlier setting has it too. */
static bool first_of_name(const compared_t *c, int i, int k, char *name, size_t n) {
  const char *text = c[i].dir.setting[k];
  size_t len = strcspn(text, "=") + 1;
  snprintf(name, n, "%.*s", (int)len - 1, text);
  for (int r = 0; r <= i; r++)
    for (int at = 0; at < (r == i ? k : c[r].dir.n_settings); at++)
      if (!strncmp(c[r].dir.setting[at], text, len)) return false;
  return true;
}

static mr_err_t print_settings(compared_t *c, int n) {
  char name[128];
  for (int i = 0; i < n; i++)
    for (int k = 0; k < c[i].dir.n_settings; k++)
      if (first_of_name(c, i, k, name, sizeof name)) MR_TRY(runs_print_row(c, n, name));
  return MR_OK;
}

/* Prints the losses at some steps that all runs have reached. */
static mr_err_t print_losses(const compared_t *c, int n, mr_diag_t *diag) {
  int64_t common = c[0].info.step;
  for (int i = 1; i < n; i++) common = c[i].info.step < common ? c[i].info.step : common;
  for (int part = 1; part <= 5 && common; part++) {
    int64_t at = common * part / 5;
    if (at == common * (part - 1) / 5) continue; /* of fewer than five steps */
    char label[48], text[32];
    snprintf(label, sizeof label, "loss at step %" PRId64, at);
    printf("%-28s", label);
    for (int i = 0; i < n; i++) {
      double loss;
      MR_TRY(mr_run_info_loss(&c[i].info, at, &loss, diag));
      printf(" %16s", runs_number(loss, "%.4f", text, sizeof text));
    }
    putchar('\n');
  }
  return MR_OK;
}

static int compare_runs(const mr_args_t *a, mr_diag_t *diag) {
  compared_t *c = calloc((size_t)a->n_words, sizeof *c);
  mr_err_t e = c ? MR_OK : mr_no_memory(diag, "runs");
  for (int i = 0; i < a->n_words && e >= 0; i++) e = open_compared(a->word[i], &c[i], diag);
  if (e >= 0) {
    runs_print_head();
    for (int i = 0; i < a->n_words; i++) print_run(&c[i].info, true);
    printf("\n%-28s", "");
    for (int i = 0; i < a->n_words; i++) {
      char path[VALUE];
      printf(" %16.16s", mr_printable(short_name(c[i].info.path), path, sizeof path));
    }
    putchar('\n');
    e = print_settings(c, a->n_words);
    if (e < 0) mr_no_memory(diag, "the settings of %d runs", a->n_words);
  }
  if (e >= 0) e = print_losses(c, a->n_words, diag);
  for (int i = 0; c && i < a->n_words; i++) close_compared(&c[i]);
  free(c);
  return e;
}

static bool runs_is_run(const char *path) {
  char file[MR_RUN_PATH + 32];
  snprintf(file, sizeof file, "%s/metrics.jsonl", path);
  return access(file, R_OK) == 0;
}

static int runs_run(const mr_args_t *a, mr_diag_t *diag) {
  if (!a->n_words) return list_runs("runs", diag);
  if (a->n_words == 1 && !runs_is_run(a->word[0])) return list_runs(a->word[0], diag);
  return compare_runs(a, diag);
}

static const mr_hint_t runs_words[] = {{"list ls compare diff", "runs", NULL}, {0}};

const mr_command_t mr_command_runs = {
    .name = "runs",
    .hint = runs_words,
    .words = "[FOLDER | RUN...]",
    .help = "Lists the runs in a folder (runs/), or compares some: settings, losses, ledgers.",
    .more =
        "\n"
        "The loss is the mean of the last 20 steps.  Settings that do not differ are not shown.",
    .max_words = COMPARED,
    .run = runs_run,
};
