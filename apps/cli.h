/* The command line: one constant a command, one line in commands.def.

   A command returns a failure (< 0) with its sentence in diag, or the exit status of the program:
   0, or EXIT_STOPPED after Ctrl-C. */
#ifndef MR_APPS_CLI_H
#define MR_APPS_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/registry.h"

enum { MR_FLAGS_MAX = 24, MR_WORDS_MAX = 256, MR_PLUGINS_MAX = 32, MR_EXIT_STOPPED = 130 };

typedef struct mr_flag {
  const char *name;  /* "--records" */
  const char *value; /* what stands for its value in the help, "N"; NULL: the flag has none */
  const char *help;  /* one sentence, ends with a period */
} mr_flag_t;

typedef struct mr_args mr_args_t;

typedef struct mr_command {
  const char *name;
  const char *words; /* the words after it, for the help: "GRAPH|FILE [KEY=VALUE...]" */
  const char *help;  /* what it does: one sentence for the list of commands, ends with a period */
  const char *more;  /* further lines for its own help, or NULL */
  const char
      *needs; /* optional libraries (base/feature.h) without which it is refused; NULL: none */
  const mr_flag_t *flags;   /* ends at {0}; NULL: none.  Every command has --help and --plugin */
  int min_words, max_words; /* words that are not flags; max_words at most MR_WORDS_MAX */
  int (*run)(const mr_args_t *a, mr_diag_t *diag);
} mr_command_t;

struct mr_args {
  const mr_command_t *command;
  const char *flag[MR_FLAGS_MAX]; /* the text given for flags[i], "" for one without a value; NULL:
                                     not given */
  const char *word[MR_WORDS_MAX];
  int n_words;
  const char *plugin[MR_PLUGINS_MAX]; /* the values of --plugin, in their order */
  int n_plugins;
};

/* Takes "--plugin FILE" or "--plugin=FILE" at argv[*i] into a; *i is then its last word.  False: it
   is another word.  MR_ERR_USAGE in diag without a file, or with more than MR_PLUGINS_MAX. */
bool mr_args_plugin(mr_args_t *a, int argc, char **argv, int *i, mr_diag_t *diag);

/* Sorts the words after a command's name.  "--flag value" and "--flag=value" are the same; after
   "--" everything is a word.  MR_ERR_USAGE on an unknown flag (with what was probably meant), a
   missing value, one that is not among those of a flag's "a|b|c", a flag given twice (all but
   --plugin), too few or too many words.  out: zeroed, or with the plug-ins that stood before the
   command. */
mr_err_t mr_args_parse(const mr_command_t *c, int argc, char **argv, mr_args_t *out,
                       mr_diag_t *diag);

/* Whether the words from number at on are KEY=VALUE.  MR_ERR_USAGE says what is wrong with the
   first that is not. */
mr_err_t mr_args_settings(const mr_args_t *a, int at, mr_diag_t *diag);

/* What was given for a flag of the command's table, or NULL. */
const char *mr_args_text(const mr_args_t *a, const char *flag);

/* A flag's whole number in [lo,hi]; *out is left alone if it was not given.  MR_ERR_USAGE. */
mr_err_t mr_args_int(const mr_args_t *a, const char *flag, int64_t lo, int64_t hi, int64_t *out,
                     mr_diag_t *diag);

/* Writes a command's help to standard output. */
void mr_args_help(const mr_command_t *c);

/* Every stage of this program and of the plug-ins loaded so far. */
const mr_registry_t *mr_all_stages(void);

/* Loads a plug-in (plugins/plugin.h) into these. */
mr_err_t mr_load_plugin(const char *file, mr_diag_t *diag);

/* An mr_plugin_fn for text that the user names: a relative file is looked for where the text's file
   is, or in the current folder if the text is the argument itself. */
mr_err_t mr_plugin_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

/* The text of a graph argument (heap): the contents of the file of that name, else the argument
   itself.  *origin: the file's name or "graph", for "FILE:LINE:COLUMN" in sentences. */
mr_err_t mr_graph_text(const char *arg, char **text, const char **origin, mr_diag_t *diag);

#endif
