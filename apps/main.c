/* The program: finds the command, parses its words, runs it, and reports its failure.  It is the
   one place that prints a failure and chooses an exit status, and it receives what the libraries
   announce; commands and libraries only return codes and fill the diag. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/versions.h"
#include "base/feature.h"
#include "base/isa.h"
#include "base/suggest.h"
#include "base/text.h"
#include "pipeline/graph/graph.h"
#include "stages/train/replay.h"

#define MR_COMMAND(name) extern const mr_command_t mr_command_##name;
#include "apps/commands.def"
#undef MR_COMMAND

static const mr_command_t *const commands[] = {
#define MR_COMMAND(name) &mr_command_##name,
#include "apps/commands.def"
#undef MR_COMMAND
    NULL};

static const char usage[] =
    "usage: millrace [--plugin FILE.so]... COMMAND ...\n\nDataflow training pipelines.\n";

static void help_row(const char *name, const char *text, const char *note) {
  char line[512];
  int columns = mr_columns(STDOUT_FILENO);
  snprintf(line, sizeof line, "  %-9s %s%s", name, text, note);
  mr_put_wrapped(stdout, line, columns, columns < 60 ? 4 : 12);
}

static void print_usage(void) {
  puts(usage);
  char note[MR_LACKING_MAX];
  for (int i = 0; commands[i]; i++)
    help_row(commands[i]->name, commands[i]->help,
             mr_lacking_note(commands[i]->needs, note, sizeof note));
  puts("");
  help_row("--help", "Shows this text; after a command, the flags of that command.", "");
  help_row("--version", "Shows the version, and which optional libraries are built in.", "");
  help_row("--plugin", "Loads a plug-in, before or after the command; repeatable.", "");
}

/* Prints text and the libraries that this build has, or lacks; nothing for an empty list. */
static void list_libraries(const char *text, bool in) {
  int n = 0;
  for (const mr_feature_t *f = mr_features; f->name; f++)
    if ((f->version != NULL) == in) printf("%s%s", n++ ? ", " : text, f->library);
  if (n) puts("");
}

static void print_version(void) {
  puts("millrace " MR_VERSION);
  list_libraries("with ", true);
  list_libraries("without ", false);
}

const mr_command_t *mr_command_at(int i) {
  return i >= 0 && i < (int)(sizeof commands / sizeof *commands) ? commands[i] : NULL;
}

static const mr_command_t *main_find(const char *name) {
  for (int i = 0; commands[i]; i++)
    if (!strcmp(commands[i]->name, name)) return commands[i];
  return NULL;
}

/* What other programs call the version is no command of ours. */
static const mr_hint_t main_words[] = {{"version v", "--version", NULL}, {0}};

/* The row about another program's command; NULL without one. */
static const mr_hint_t *main_hint(const char *word) {
  const mr_hint_t *row = mr_hint_find(main_words, word);
  for (int i = 0; commands[i] && !row; i++) row = mr_hint_find(commands[i]->hint, word);
  return row;
}

static int main_unknown(const char *word) {
  char hint[128] = "; millrace --help lists them", shown[256];
  mr_suggest_t s = {.word = word};
  for (int i = 0; commands[i]; i++) mr_suggest_offer(&s, commands[i]->name);
  mr_suggest_offer(&s, "--version");
  mr_suggest_offer(&s, "--help");
  if (s.best) mr_suggest_text(&s, hint, sizeof hint);
  const mr_hint_t *row = main_hint(word);
  if (row) snprintf(hint, sizeof hint, "; `millrace %s` does that", row->write);
  if (strchr(word, '!') || strchr(word, ' '))
    snprintf(hint, sizeof hint, "; `millrace run` runs a graph");
  mr_printable(word, shown, sizeof shown);
  fprintf(stderr, "millrace: unknown command \"%s\"%s\n", shown, hint);
  return 2;
}

/* Whether a flag that every command has is given before "--", after which everything is a word. */
static bool asks_for_flag(int argc, char **argv, const char *flag, const char *or_flag) {
  for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], flag) || !strcmp(argv[i], or_flag)) return true;
  return false;
}

/* Out of memory, cJSON omits items silently and rejects good lines; a command in which that has
   happened fails. */
static atomic_bool json_lost; /* relaxed: threads that print are joined before it is read */

static void *json_malloc(size_t n) {
  void *p = malloc(n);
  if (!p) atomic_store_explicit(&json_lost, true, memory_order_relaxed);
  return p;
}

/* Prints what a stage announces, such as the address of its page, for users and scripts that wait
   for the line. */
static void print_announcement(void *arg, const char *text) {
  printf("%s\n", text);
  fflush(stdout);
}

/* Takes all descriptors that the process may have: the usual limit of 1024 is one for programs that
   call select, and data sets of more files than that are ordinary. */
enum { DESCRIPTORS = 1 << 20 };
static void raise_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS) return;
  limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
  setrlimit(RLIMIT_NOFILE, &limit); /* a failure leaves the limit as it was, which is announced */
}

/* Runs a command; a holds the plug-ins given before it.  Returns the exit status. */
static int main_run(const mr_command_t *c, mr_args_t *a, int argc, char **argv) {
  mr_diag_t diag = {0};
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = json_malloc, .free_fn = free});
  mr_announce_to(print_announcement, NULL);
  raise_descriptors();
  mr_replay_made_with(mr_versions_line());
  int e = mr_isa_check(&diag);
  if (e >= 0 && !mr_built_in(c->needs)) e = mr_without(&diag, c->name, c->needs);
  if (e >= 0) e = mr_args_parse(c, argc, argv, a, &diag);
  for (int i = 0; i < a->n_plugins && e >= 0; i++) e = mr_load_plugin(a->plugin[i], &diag);
  if (e >= 0) e = c->run(a, &diag);
  if (e >= 0 && atomic_load_explicit(&json_lost, memory_order_relaxed))
    e = mr_no_memory(&diag, "JSON: the output is incomplete");
  if (e >= 0) {
    if (fflush(stdout) == 0) return e;
    mr_fail(&diag, MR_ERR_IO, "standard output: cannot write: %s", strerror(errno));
    e = MR_ERR_IO;
  }
  fflush(stdout);
  fprintf(stderr, "millrace: %s\n", diag.code < 0 ? diag.text : mr_err_text((mr_err_t)e));
  return mr_err_exit((mr_err_t)e);
}

/* SIGUSR1, which a scheduler sends at a moment of its own, is ignored until a graph runs
   (apps/run/interrupt.h). */
int main(int argc, char **argv) {
  signal(SIGUSR1, SIG_IGN);
  mr_args_t args = {0};
  mr_diag_t diag = {0};
  for (int i = 1; i < argc && mr_args_plugin(&args, argc, argv, &i, &diag); i = 1)
    argv[i] = argv[0], argc -= i, argv += i;
  if (diag.code < 0) return fprintf(stderr, "millrace: %s\n", diag.text), 2;
  if (argc < 2) {
    fputs(usage, stderr);
    fputs("millrace --help lists the commands.\n", stderr);
    return 2;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    print_usage();
    return 0;
  }
  const mr_command_t *c = main_find(argv[1]);
  if (asks_for_flag(argc - (c ? 2 : 1), argv + (c ? 2 : 1), "--version", "--version")) {
    print_version();
    return 0;
  }
  if (!c) return main_unknown(argv[1]);
  if (asks_for_flag(argc - 2, argv + 2, "--help", "-h")) {
    mr_args_help(c);
    return 0;
  }
  int status = main_run(c, &args, argc - 2, argv + 2);
  if (!mr_graph_is_stuck()) return status;
  fflush(stdout);
  _exit(status);
}
