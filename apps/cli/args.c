/* Flags and words of a command, and its help.  An unknown flag gets the flag or setting that was
   probably meant, also from the vocabulary of other programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "base/feature.h"
#include "base/suggest.h"
#include "base/text.h"
#include "pipeline/graph/graph.h"
#include "pipeline/opt.h"

/* The optional libraries that a flag requires, whichever command has it; NULL: none. */
static const char *flag_needs(const char *name) {
  static const char *const row[][2] = {{"--web", "MICROHTTPD"},
                                       {"--prometheus", "MICROHTTPD"},
                                       {"--tensorboard", "PROTOBUF"},
                                       {"--pprof", "PROTOBUF"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!strcmp(row[i][0], name)) return row[i][1];
  return NULL;
}

static int flag_index(const mr_command_t *c, const char *name, size_t n) {
  for (int i = 0; c->flags && c->flags[i].name; i++)
    if (strlen(c->flags[i].name) == n && !strncmp(c->flags[i].name, name, n)) return i;
  return -1;
}

/* What the command says about another program's flag, with its dashes, into text[0,n); false if it
   says nothing. */
static bool flag_hint(const mr_command_t *c, const char *word, char *text, size_t n) {
  const mr_hint_t *row = mr_hint_find(c->flag_hint, word);
  if (!row) return false;
  bool same = flag_index(c, row->write, strlen(row->write)) >= 0;
  snprintf(text, n, same ? "; it is %s here" : "; write %s", row->write);
  return true;
}

/* The table of the command that has another word for one of a flag's choices; NULL without one. */
static const mr_hint_t *values_of(const mr_command_t *c, const char *choices, const char *word) {
  for (int i = 0; i < 2; i++) {
    const mr_hint_t *row = mr_hint_find(c->values[i], word);
    if (row && mr_is_choice(choices, row->write)) return c->values[i];
  }
  return NULL;
}

/* The name of a setting that a word means in a graph text, into ours[0,n); false if the text cannot
   be read or nothing in it has that meaning. */
static bool setting_in(const char *text, const char *word, char *ours, size_t n) {
  mr_diag_t unsaid = {0};
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  bool known =
      g && mr_graph_parse(g, text, NULL, 0, &unsaid) >= 0 && mr_graph_name_for(g, word, ours, n);
  mr_graph_destroy(g);
  return known;
}

/* For commands that take NAME=VALUE: writes how "--lr 0.1" or "--batch-size=64" is spelt here, in
   the graph of the command's first word or else in the default one.  False if the flag means no
   setting. */
static bool setting_for(const mr_args_t *a, const char *name, const char *value, char *to,
                        size_t n) {
  char ours[192], *text = NULL;
  const char *origin;
  mr_diag_t unsaid = {0};
  name += strspn(name, "-");
  if (!strstr(a->command->words, "NAME=VALUE")) return false;
  bool own = a->n_words && !strchr(a->word[0], '=') &&
             mr_graph_text(a->word[0], &text, &origin, &unsaid) >= 0;
  bool known = (own && setting_in(text, name, ours, sizeof ours)) ||
               setting_in(mr_default_graph, name, ours, sizeof ours);
  free(text);
  if (known)
    snprintf(to, n, "; settings of the graph have no dashes: %s=%.40s", ours,
             value ? value : "VALUE");
  return known;
}

/* Fails with a suggestion.  word: the flag as given; next: the word after it, or NULL. */
static mr_err_t unknown_flag(const mr_args_t *a, const char *word, const char *next,
                             mr_diag_t *diag) {
  const mr_command_t *c = a->command;
  char hint[MR_HINT_MAX] = "", name[64];
  size_t n = strcspn(word, "=");
  snprintf(name, sizeof name, "%.*s", (int)n, word);
  const char *value = word[n] ? word + n + 1 : next && *next != '-' ? next : NULL;
  mr_suggest_t s = {.word = name};
  for (int i = 0; c->flags && c->flags[i].name; i++) mr_suggest_offer(&s, c->flags[i].name);
  mr_suggest_offer(&s, "--help");
  mr_suggest_offer(&s, "--version");
  mr_suggest_offer(&s, "--plugin");
  bool sure = s.best && !s.distance;
  if ((sure || !flag_hint(c, name, hint, sizeof hint)) &&
      (s.best || !setting_for(a, name, value, hint, sizeof hint)))
    mr_suggest_text(&s, hint, sizeof hint);
  if (!*hint) snprintf(hint, sizeof hint, "; `millrace %s --help` lists them", c->name);
  return mr_fail(diag, MR_ERR_USAGE, "%s: unknown flag %s%s", c->name, name, hint);
}

/* Writes "a|b|c" as "a, b or c" into text[0,n). */
static const char *choices_text(const char *choices, char *text, size_t n) {
  const char *last = strrchr(choices, '|');
  size_t at = 0;
  for (const char *s = choices; *s && at + 5 < n; s++)
    if (*s == '|')
      at += (size_t)snprintf(text + at, n - at, "%s", s == last ? " or " : ", ");
    else
      text[at++] = *s;
  text[at] = 0;
  return text;
}

/* Checks the value of a flag that takes one of several words, "train|valid|test". */
static mr_err_t check_choice(const mr_command_t *c, const mr_flag_t *f, const char *text,
                             mr_diag_t *diag) {
  char near[MR_HINT_MAX], list[256];
  const mr_opt_t o = {.name = f->name,
                      .type = MR_OPT_ENUM,
                      .choices = f->value,
                      .values = f->value ? values_of(c, f->value, text) : NULL};
  if (!f->value || !strchr(f->value, '|') || mr_is_choice(f->value, text)) return MR_OK;
  for (const char *s = f->value; *s; s++)
    if (*s >= 'A' && *s <= 'Z') return MR_OK; /* FILE|FOLDER */
  return mr_fail(diag, MR_ERR_USAGE, "%s: %s: \"%.60s\", expected %s%s", c->name, f->name, text,
                 choices_text(f->value, list, sizeof list),
                 mr_value_hint(&o, text, near, sizeof near));
}

/* Takes argv[*i], and the word after it if the flag takes a value. */
static mr_err_t take_flag(mr_args_t *a, int argc, char **argv, int *i, mr_diag_t *diag) {
  const mr_command_t *c = a->command;
  const char *word = argv[*i], *equals = strchr(word, '=');
  char what[64];
  int at = flag_index(c, word, equals ? (size_t)(equals - word) : strlen(word));
  if (at < 0) return unknown_flag(a, word, *i + 1 < argc ? argv[*i + 1] : NULL, diag);
  const mr_flag_t *f = &c->flags[at];
  if (a->flag[at]) return mr_fail(diag, MR_ERR_USAGE, "%s: %s is given twice", c->name, f->name);
  if (!mr_built_in(flag_needs(f->name))) {
    snprintf(what, sizeof what, "%s: %s", c->name, f->name);
    return mr_without(diag, what, flag_needs(f->name));
  }
  if (!f->value && equals)
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s takes no value", c->name, f->name);
  bool optional = f->value && *f->value == '[';
  if (optional && equals && strcmp(equals + 1, "auto"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s: \"%.60s\", expected auto or nothing", c->name,
                   f->name, equals + 1);
  if (f->value && !optional && !equals && *i + 1 >= argc)
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s needs a value, %s", c->name, f->name, f->value);
  bool bare = !f->value || (optional && !equals);
  a->flag[at] = bare ? "" : equals ? equals + 1 : argv[++*i];
  if (optional) return MR_OK;
  return check_choice(c, f, a->flag[at], diag);
}

bool mr_args_plugin(mr_args_t *a, int argc, char **argv, int *i, mr_diag_t *diag) {
  static const char flag[] = "--plugin";
  const char *rest = argv[*i] + sizeof flag - 1, *file;
  if (strncmp(argv[*i], flag, sizeof flag - 1) || (*rest && *rest != '=')) return false;
  file = *rest ? rest + 1 : *i + 1 < argc ? argv[++*i] : "";
  if (!*file)
    mr_fail(diag, MR_ERR_USAGE, "--plugin needs a value, FILE.so");
  else if (a->n_plugins == MR_PLUGINS_MAX)
    mr_fail(diag, MR_ERR_USAGE, "--plugin: more than %d", MR_PLUGINS_MAX);
  else
    a->plugin[a->n_plugins++] = file;
  return true;
}

mr_err_t mr_args_parse(const mr_command_t *c, int argc, char **argv, mr_args_t *out,
                       mr_diag_t *diag) {
  out->command = c;
  bool words_only = false;
  for (int i = 0; i < argc; i++) {
    if (!words_only && !strcmp(argv[i], "--")) {
      words_only = true;
    } else if (!words_only && mr_args_plugin(out, argc, argv, &i, diag)) {
      if (diag->code < 0) return diag->code;
    } else if (!words_only && argv[i][0] == '-' && !strchr("0123456789.", argv[i][1])) {
      MR_TRY(take_flag(out, argc, argv, &i, diag));
    } else if (out->n_words == MR_WORDS_MAX) {
      return mr_fail(diag, MR_ERR_USAGE, "%s: more than %d words, of which \"%s\" is one too many",
                     c->name, MR_WORDS_MAX, argv[i]);
    } else if (out->n_words == c->max_words) {
      return mr_fail(diag, MR_ERR_USAGE, "%s: one word too many, \"%s\"; usage: millrace %s %s",
                     c->name, argv[i], c->name, c->words);
    } else {
      out->word[out->n_words++] = argv[i];
    }
  }
  if (out->n_words < c->min_words)
    return mr_fail(diag, MR_ERR_USAGE, "%s: a word is missing; usage: millrace %s %s", c->name,
                   c->name, c->words);
  return MR_OK;
}

static const char *word_at(const mr_args_t *a, int i) { return i < a->n_words ? a->word[i] : ""; }

/* The value of word i if spaces around '=' have separated it ("lr = 0.1"), else NULL. */
static const char *cut_off_value(const mr_args_t *a, int i) {
  const char *word = a->word[i], *next = word_at(a, i + 1), *equals = strchr(word, '=');
  if (!equals && *next == '=') return next[1] ? next + 1 : word_at(a, i + 2);
  if (equals && equals != word && !equals[1] && *next && !strchr(next, '=')) return next;
  return NULL;
}

mr_err_t mr_args_settings(const mr_args_t *a, int at, mr_diag_t *diag) {
  for (int i = at; i < a->n_words; i++) {
    const char *word = a->word[i], *value = cut_off_value(a, i);
    int name_n = (int)strcspn(word, "=");
    if (value)
      return mr_fail(diag, MR_ERR_USAGE,
                     "%s: \"%.*s\" and its value are separated: write %.*s=%.60s without blanks",
                     a->command->name, name_n, word, name_n, word, value);
    if (!name_n || !word[name_n])
      return mr_fail(diag, MR_ERR_USAGE, "%s: \"%.200s\", expected NAME=VALUE%s", a->command->name,
                     word, at ? " (quote the graph as one word)" : "");
    for (int j = at; j < i; j++)
      if (!strncmp(word, a->word[j], (size_t)name_n + 1))
        return mr_fail(diag, MR_ERR_USAGE, "%s: %.*s is given twice", a->command->name, name_n,
                       word);
  }
  return MR_OK;
}

const char *mr_args_text(const mr_args_t *a, const char *flag) {
  int at = flag_index(a->command, flag, strlen(flag));
  return at < 0 ? NULL : a->flag[at];
}

mr_err_t mr_args_int(const mr_args_t *a, const char *flag, int64_t lo, int64_t hi, int64_t *out,
                     mr_diag_t *diag) {
  const char *text = mr_args_text(a, flag);
  if (!text) return MR_OK;
  char *end, hint[96];
  errno = 0;
  long long v = strtoll(text, &end, 10);
  const mr_opt_t o = {.type = MR_OPT_INT, .lo = (double)lo, .hi = (double)hi};
  if (errno || end == text || *end || v < lo || v > hi)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: %s: \"%s\", expected a whole number from %lld to %lld%s", a->command->name,
                   flag, text, (long long)lo, (long long)hi,
                   mr_value_hint(&o, text, hint, sizeof hint));
  *out = v;
  return MR_OK;
}

static int flag_text(const mr_flag_t *f, char *text, size_t n) {
  return snprintf(text, n, "%s%s%s", f->name, f->value && *f->value != '[' ? " " : "",
                  f->value ? f->value : "");
}

/* Prints one flag and its help, wrapped to the terminal. */
static void print_flag(const char *left, int width, const char *help, const char *note) {
  char line[512];
  int columns = mr_columns(STDOUT_FILENO);
  snprintf(line, sizeof line, "  %-*s  %s%s", width, left, help, note);
  mr_put_wrapped(stdout, line, columns, columns < 60 ? 4 : width + 4);
}

static void print_lines(const char *text) {
  char line[512];
  while (text && *text) {
    size_t n = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)n, text);
    mr_put_wrapped(stdout, line, mr_columns(STDOUT_FILENO), 2);
    text += n + (text[n] == '\n');
  }
}

void mr_args_help(const mr_command_t *c) {
  char left[64], note[MR_LACKING_MAX], usage[512];
  static const mr_flag_t every[] = {
      {"--plugin", "FILE.so", "Loads stages, models and ops from a plug-in; repeatable."},
      {"--help", NULL, "Shows this text."}};
  const int n_every = sizeof every / sizeof *every;
  int width = flag_text(&every[0], left, sizeof left);
  snprintf(usage, sizeof usage, "usage: millrace %s %s\n\n%s%s", c->name, c->words, c->help,
           mr_lacking_note(c->needs, note, sizeof note));
  print_lines(usage);
  print_lines(c->more);
  puts("");
  for (const mr_flag_t *f = c->flags; f && f->name; f++) {
    int n = flag_text(f, left, sizeof left);
    if (n > width) width = n;
  }
  for (const mr_flag_t *f = c->flags; f && f->name; f++) {
    flag_text(f, left, sizeof left);
    print_flag(left, width, f->help, mr_lacking_note(flag_needs(f->name), note, sizeof note));
  }
  for (int i = 0; i < n_every; i++) {
    flag_text(&every[i], left, sizeof left);
    print_flag(left, width, every[i].help, "");
  }
}
