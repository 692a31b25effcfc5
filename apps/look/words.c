/* The words of other frameworks and programs, and what is written for them here: every table of
   hints, one row a line, as tab-separated columns: what the row leads to, its name, the words, what
   to write, and the sentence before it. */
#include "apps/look/words.h"

#include <stdio.h>

#include "apps/cli/cli.h"

static void words_put(const char *what, const char *of, const char *name, const char *words,
                      const char *write, const char *why) {
  printf("%s\t%s%s%s\t%s\t%s\t%s\n", what, of, name ? "." : "", name ? name : "", words,
         write ? write : "", why ? why : "");
}

static void put_rows(const char *what, const char *of, const char *name, const mr_hint_t *row) {
  for (; row && row->words; row++) words_put(what, of, name, row->words, row->write, row->why);
}

static void put_stage(const mr_stage_def_t *d) {
  const mr_stage_def_t *usual = mr_stage_def_usual(d);
  put_rows("stage", d->name, NULL, d->hint);
  for (const mr_opt_t *o = usual->opts; o && o->type != MR_OPT_END; o++) {
    if (o->hint) words_put("setting", d->name, o->name, o->hint, o->name, NULL);
    put_rows("value", d->name, o->name, o->values);
  }
  put_rows("setting", d->name, NULL, usual->setting_hint);
}

void mr_words_print(void) {
  const mr_registry_t *reg = mr_all_stages();
  const mr_command_t *c;
  for (int i = 0; i < reg->n; i++) put_stage(reg->def[i]);
  for (int i = 0; (c = mr_command_at(i)); i++) {
    put_rows("command", c->name, NULL, c->hint);
    put_rows("flag", c->name, NULL, c->flag_hint);
    for (int k = 0; k < 2; k++) put_rows("flag value", c->name, NULL, c->values[k]);
  }
}
