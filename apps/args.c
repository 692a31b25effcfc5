#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli.h"
#include "base/suggest.h"

static int flag_index(const mr_command_t *c, const char *name, size_t n) {
  for (int i = 0; c->flags && c->flags[i].name; i++)
    if (strlen(c->flags[i].name) == n && !strncmp(c->flags[i].name, name, n)) return i;
  return -1;
}

static mr_err_t unknown_flag(const mr_command_t *c, const char *word, mr_diag_t *diag) {
  char near[128], name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  mr_suggest_t s = {.word = name};
  for (int i = 0; c->flags && c->flags[i].name; i++) mr_suggest_offer(&s, c->flags[i].name);
  mr_suggest_offer(&s, "--help");
  return mr_fail(diag, MR_ERR_USAGE, "%s: unknown flag %s%s", c->name, name,
                 mr_suggest_text(&s, near, sizeof near));
}

/* Takes argv[*i], and the word after it where the flag wants a value. */
static mr_err_t take_flag(mr_args_t *a, int argc, char **argv, int *i, mr_diag_t *diag) {
  const mr_command_t *c = a->command;
  const char *word = argv[*i], *equals = strchr(word, '=');
  int at = flag_index(c, word, equals ? (size_t)(equals - word) : strlen(word));
  if (at < 0) return unknown_flag(c, word, diag);
  const mr_flag_t *f = &c->flags[at];
  if (a->flag[at]) return mr_fail(diag, MR_ERR_USAGE, "%s: %s is given twice", c->name, f->name);
  if (!f->value && equals)
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s takes no value", c->name, f->name);
  if (f->value && !equals && *i + 1 >= argc)
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s needs a value, %s", c->name, f->name, f->value);
  a->flag[at] = !f->value ? "" : equals ? equals + 1 : argv[++*i];
  return MR_OK;
}

mr_err_t mr_args_parse(const mr_command_t *c, int argc, char **argv, mr_args_t *out,
                       mr_diag_t *diag) {
  *out = (mr_args_t){.command = c};
  bool words_only = false;
  for (int i = 0; i < argc; i++) {
    if (!words_only && !strcmp(argv[i], "--")) {
      words_only = true;
    } else if (!words_only && argv[i][0] == '-' && argv[i][1] == '-') {
      MR_TRY(take_flag(out, argc, argv, &i, diag));
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

const char *mr_args_text(const mr_args_t *a, const char *flag) {
  int at = flag_index(a->command, flag, strlen(flag));
  return at < 0 ? NULL : a->flag[at];
}

mr_err_t mr_args_int(const mr_args_t *a, const char *flag, int64_t lo, int64_t hi, int64_t *out,
                     mr_diag_t *diag) {
  const char *text = mr_args_text(a, flag);
  if (!text) return MR_OK;
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (errno || end == text || *end || v < lo || v > hi)
    return mr_fail(diag, MR_ERR_USAGE, "%s: %s: \"%s\", expected a whole number from %lld to %lld",
                   a->command->name, flag, text, (long long)lo, (long long)hi);
  *out = v;
  return MR_OK;
}

static int flag_text(const mr_flag_t *f, char *text, size_t n) {
  return snprintf(text, n, "%s%s%s", f->name, f->value ? " " : "", f->value ? f->value : "");
}

void mr_args_help(const mr_command_t *c) {
  char left[64];
  int width = (int)strlen("--help");
  printf("usage: millrace %s %s\n\n%s\n", c->name, c->words, c->help);
  if (c->more) printf("%s\n", c->more);
  puts("");
  for (const mr_flag_t *f = c->flags; f && f->name; f++) {
    int n = flag_text(f, left, sizeof left);
    if (n > width) width = n;
  }
  for (const mr_flag_t *f = c->flags; f && f->name; f++) {
    flag_text(f, left, sizeof left);
    printf("  %-*s  %s\n", width, left, f->help);
  }
  printf("  %-*s  %s\n", width, "--help", "Shows this.");
}
