/* The command line: one constant per command, and one line in commands.def.  Implemented in args.c
   (flags) and graphs.c (stages, plug-ins).

   A command returns a failure (< 0) with its sentence in diag, or the exit status of the program:
   0, or MR_EXIT_STOPPED after Ctrl-C. */
#ifndef MR_APPS_CLI_CLI_H
#define MR_APPS_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/registry.h"
#include "pipeline/text/graph_text.h"

enum { MR_FLAGS_MAX = 64, MR_WORDS_MAX = 1024, MR_PLUGINS_MAX = 32, MR_EXIT_STOPPED = 130 };
enum { MR_JAXPR_BYTES_MAX = 256 << 20 /* of the text of a jaxpr */ };

typedef struct mr_flag {
  const char *name;  /* "--records" */
  const char *value; /* name of its value in the help, "N"; NULL: the flag takes none; "[=auto]": it
                        may have this one behind a = */
  const char *help;  /* one sentence, ends with a period */
} mr_flag_t;

typedef struct mr_args mr_args_t;

typedef struct mr_command {
  const char *name;
  const char *words; /* the words after it, for the help: "GRAPH|FILE [NAME=VALUE...]" */
  const char *help;  /* what it does: one sentence for the list of commands, ends with a period */
  const char *more;  /* further lines for its own help, or NULL */
  const char *needs; /* optional libraries (base/feature.h) that it requires; NULL: none */
  const mr_flag_t *flags;   /* ends at {0}; NULL: none.  Every command has --help and --plugin */
  int min_words, max_words; /* words that are not flags; max_words at most MR_WORDS_MAX */
  int (*run)(const mr_args_t *a, mr_diag_t *diag);
  /* Other programs' words, in tables of base/hint.h; NULL: none.  hint: for the command, `write` is
     what follows "millrace".  flag_hint: for its flags, `write` is a flag, which then takes the
     same values, or all that is to be written.  values: for the choices of its flags. */
  const mr_hint_t *hint, *flag_hint, *values[2];
} mr_command_t;

/* The commands of the program, i from 0, in the order of its help; NULL behind the last. */
const mr_command_t *mr_command_at(int i);

struct mr_args {
  const mr_command_t *command;
  const char *flag[MR_FLAGS_MAX]; /* the value of flags[i], "" for one without a value; NULL: not
                                     given */
  const char *word[MR_WORDS_MAX];
  int n_words;
  const char *plugin[MR_PLUGINS_MAX]; /* the values of --plugin, in their order */
  int n_plugins;
};

/* Takes "--plugin FILE" or "--plugin=FILE" at argv[*i] into a and advances *i to its last word.
   Returns false if argv[*i] is another word.  Returns true with MR_ERR_USAGE in diag if the file is
   missing or there are more than MR_PLUGINS_MAX. */
bool mr_args_plugin(mr_args_t *a, int argc, char **argv, int *i, mr_diag_t *diag);

/* Parses the words after a command's name into *out, whose texts point into argv.  "--flag value"
   and "--flag=value" mean the same; after "--" everything is a word.  MR_ERR_USAGE for an unknown
   flag (with a suggestion), a missing value, one that is not among a flag's "a|b|c", a flag given
   twice (except --plugin), and too few or too many words; MR_ERR_UNAVAILABLE for a flag whose
   library is not built in.  *out must be zeroed, or hold the plug-ins given before the command. */
mr_err_t mr_args_parse(const mr_command_t *c, int argc, char **argv, mr_args_t *out,
                       mr_diag_t *diag);

/* Checks that the words from number at on are NAME=VALUE.  MR_ERR_USAGE reports what is wrong with
   the first that is not. */
mr_err_t mr_args_settings(const mr_args_t *a, int at, mr_diag_t *diag);

/* Returns the value given for a flag of the command's table, "" for a flag without value; NULL if
   it was not given or the command has no such flag.  Points into argv. */
const char *mr_args_text(const mr_args_t *a, const char *flag);

/* Parses a flag's integer in [lo,hi] into *out, which is unchanged if the flag was not given.
   MR_ERR_USAGE if it is no such number. */
mr_err_t mr_args_int(const mr_args_t *a, const char *flag, int64_t lo, int64_t hi, int64_t *out,
                     mr_diag_t *diag);

/* Writes a command's help to standard output. */
void mr_args_help(const mr_command_t *c);

/* Returns the stages of this program and of the plug-ins loaded so far.  Static; main thread
   only. */
const mr_registry_t *mr_all_stages(void);

/* Loads a plug-in (plugins/plugin.h) into that registry; fails as mr_plugin_load. */
mr_err_t mr_load_plugin(const char *file, mr_diag_t *diag);

/* An mr_plugin_fn for a text that the user names: a relative file is searched in the folder of the
   text's file, or in the current folder if the text is the argument itself.  Fails as
   mr_plugin_load; MR_ERR_USAGE if the path is too long. */
mr_err_t mr_plugin_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

/* examples/cifar10-vit.mr, compiled in: the graph that train runs without --graph. */
extern const char mr_default_graph[];

#endif
