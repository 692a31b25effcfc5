/* millrace inspect: lists the stages, the settings of one, or the contents of data files.
   Everything about a stage comes from its definition, the same rows by which graph texts are
   parsed, so that the help cannot fall behind the code. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/look/inspect_data.h"
#include "apps/look/words.h"
#include "base/feature.h"
#include "base/text.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "model/zoo/zoo.h"
#include "pipeline/graph/process.h"
#include "pipeline/opt.h"
#include "plugins/plugin.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

static const mr_flag_t inspect_flags[] = {
    {"--words", NULL, "Lists the words of other frameworks, and what to write for them here."},
    {0}};

static const char *type_text(const mr_opt_t *o) {
  switch (o->type) {
    case MR_OPT_INT: return "whole number";
    case MR_OPT_F64: return "number";
    case MR_OPT_BOOL: return "yes or no";
    case MR_OPT_STR:
    case MR_OPT_SECRET: return "text";
    case MR_OPT_ENUM: return o->choices;
    case MR_OPT_RANGE: return "LO:HI";
    case MR_OPT_VEC3: return "A,B,C";
    case MR_OPT_VEC: return "A,B,..";
    case MR_OPT_END: break;
  }
  return "";
}

static const char *flow_text(mr_flow_t flow) {
  switch (flow) {
    case MR_FLOW_RECORDS: return "records";
    case MR_FLOW_BATCHES: return "batches";
    case MR_FLOW_METRICS: return "metrics";
    case MR_FLOW_STATE: return "state";
    case MR_FLOW_BYTES: return "bytes";
    case MR_FLOW_NONE: break;
  }
  return "anything";
}

/* The line length: the terminal's, at most 100; 80 without a terminal. */
static int line_columns(void) {
  int columns = mr_columns(STDOUT_FILENO);
  return columns <= 0 ? 80 : columns > 100 ? 100 : columns;
}

static void print_ports(const char *side, const mr_port_def_t *p) {
  char line[256];
  for (int i = 0; i < MR_MAX_PORTS && p[i].name; i++) {
    if (i && p[i].family && p[i - 1].family) continue; /* one line for all of a family */
    snprintf(line, sizeof line, "  %-4s %-10s %s%s%s", side, p[i].name, flow_text(p[i].flow),
             p[i].optional ? ", may stay unconnected" : "",
             p[i].family ? "; several, with a name for the *"
             : p[i].more ? "; more like it may follow, i, j, .. aa, ab, .."
                         : "");
    mr_put_wrapped(stdout, line, line_columns(), 18);
  }
}

/* Writes "whole number of steps in [0, 1000], default 20". */
static void print_what(const mr_opt_t *o, char *text, size_t n) {
  size_t at = (size_t)mr_snprintf(text, n, "%s", type_text(o));
  bool text_type = o->type == MR_OPT_STR || o->type == MR_OPT_SECRET;
  if (o->unit && *o->unit) at += (size_t)mr_snprintf(text + at, n - at, " of %s", o->unit);
  if (o->lo != o->hi)
    at += (size_t)mr_snprintf(text + at, n - at, " in [%.10g, %.10g]", o->lo, o->hi);
  if (o->def && *o->def)
    mr_snprintf(text + at, n - at, ", default %s", o->def);
  else if (!text_type)
    mr_snprintf(text + at, n - at, ", must be given");
}

/* Prints a setting with its type and range, and its help below. */
static void print_option(const mr_opt_t *o) {
  enum { NAME = 16 };
  char what[512], line[1024];
  int columns = line_columns(), indent = columns < 60 ? 4 : NAME + 2;
  print_what(o, what, sizeof what);
  snprintf(line, sizeof line, "  %-*s%s", indent - 2, o->name, what);
  if (strlen(o->name) + 3 > (size_t)indent) snprintf(line, sizeof line, "  %s  %s", o->name, what);
  mr_put_wrapped(stdout, line, columns, indent);
  snprintf(line, sizeof line, "%*s%s%s", indent, "", o->help,
           o->positional ? " The bare value means this one." : "");
  mr_put_wrapped(stdout, line, columns, indent);
}

/* Prints the settings of a stage, including those that every stage has. */
static void print_options(const mr_stage_def_t *d) {
  for (const mr_opt_t *o = d->opts; o && o->name; o++) print_option(o);
  if (mr_stage_def_parallel(d))
    print_option(&(mr_opt_t){
        .name = "workers",
        .type = MR_OPT_INT,
        .unit = "threads",
        .def = "1",
        .lo = 1,
        .hi = 64,
        .help =
            "Number of threads that share the work; the order of the results does not change."});
  if (d != &mr_process_def)
    print_option(&(mr_opt_t){.name = "name",
                             .type = MR_OPT_STR,
                             .def = d->name,
                             .help = "Name of this stage in the graph."});
}

static void print_stage(const mr_stage_def_t *d) {
  char line[1024], note[MR_LACKING_MAX];
  snprintf(line, sizeof line, "%s: %s%s", d->name, d->help,
           mr_lacking_note(d->needs, note, sizeof note));
  mr_put_wrapped(stdout, line, line_columns(), 2);
  puts("");
  print_ports("in", d->in);
  print_ports("out", d->out);
  if (d->in[0].name || d->out[0].name) puts("");
  if (!mr_built_in(d->needs)) return;
  puts("settings");
  print_options(d);
}

static void print_room(const char *room, const mr_stage_def_t *const *table) {
  char line[1024], note[MR_LACKING_MAX];
  int columns = line_columns();
  printf("%s\n", room);
  for (int i = 0; table[i]; i++) {
    snprintf(line, sizeof line, "  %-15s %s%s", table[i]->name, table[i]->help,
             mr_lacking_note(table[i]->needs, note, sizeof note));
    mr_put_wrapped(stdout, line, columns, columns < 60 ? 4 : 18);
  }
}

static void print_plugin(const mr_plugin_t *p) {
  char title[128];
  snprintf(title, sizeof title, "plug-in %s", p->name);
  if (p->stages) print_room(title, p->stages);
  if (!p->stages) puts(title);
  for (int i = 0; p->ops && p->ops[i]; i++) printf("  op %s\n", p->ops[i]->name);
  for (int i = 0; p->models && p->models[i]; i++) printf("  model %s\n", p->models[i]->name);
  for (int i = 0; p->losses && p->losses[i]; i++)
    printf("  loss %s: %s\n", p->losses[i]->name, p->losses[i]->help);
}

/* Replaces a family of stages by the stage that a second word, such as model=mlp, chooses. */
static mr_err_t choose_of_family(const mr_args_t *a, const mr_stage_def_t **d, mr_diag_t *diag) {
  const char *word = a->n_words > 1 ? a->word[1] : NULL, *by = (*d)->chosen_by;
  char hint[MR_HINT_MAX];
  size_t n = by ? strlen(by) : 0;
  if (word && (!n || strncmp(word, by, n) || word[n] != '='))
    return mr_fail(diag, MR_ERR_USAGE, "inspect: \"%s\" after %s: expected %s", word, (*d)->name,
                   by ? "model=NAME" : "nothing");
  if (!(*d)->choose) return MR_OK;
  const mr_stage_def_t *of = (*d)->choose(word ? word + n + 1 : NULL, hint, sizeof hint);
  if (!of)
    return mr_fail(diag, MR_ERR_USAGE, "inspect: %s: not accepted%s", word ? word : by, hint);
  *d = of;
  return MR_OK;
}

/* Lists the models after the stage that trains them. */
static void print_models(const mr_stage_def_t *d) {
  char line[1024];
  const mr_model_def_t *m;
  int columns = line_columns();
  if (!d->choose) return;
  puts("\nmodels");
  for (int i = 0; (m = mr_model_at(i)); i++) {
    snprintf(line, sizeof line, "  %-15s %s", m->name, m->help);
    mr_put_wrapped(stdout, line, columns, columns < 60 ? 4 : 18);
  }
}

static int inspect_run(const mr_args_t *a, mr_diag_t *diag) {
  if (mr_args_text(a, "--words")) return mr_words_print(), 0;
  if (a->n_words == 0) {
    print_room("loaders", mr_loaders_stages);
    print_room("stages", mr_stages_stages);
    print_room("links", mr_links_stages);
    print_room("sinks", mr_sinks_stages);
    for (int i = 0; i < mr_plugin_count(); i++) print_plugin(mr_plugin_at(i, NULL));
    print_room("blocks", (const mr_stage_def_t *const[]){&mr_process_def, NULL});
    return 0;
  }
  const mr_registry_t *reg = mr_all_stages();
  const mr_stage_def_t *d = mr_registry_find(reg, a->word[0]);
  if (!d && !strcmp(a->word[0], mr_process_def.name)) d = &mr_process_def;
  if (d) {
    if (a->n_words > 2)
      return mr_fail(diag, MR_ERR_USAGE, "inspect: \"%s\" after %s: expected nothing", a->word[2],
                     a->word[1]);
    MR_TRY(choose_of_family(a, &d, diag));
    print_stage(d);
    print_models(d);
    return 0;
  }
  if (access(a->word[0], F_OK) == 0 || strstr(a->word[0], "://") || strchr(a->word[0], '{'))
    return mr_inspect_data(a->word[0], a->word + 1, a->n_words - 1, diag);
  if (a->n_words > 1)
    return mr_fail(diag, MR_ERR_USAGE, "inspect: %s: only stages and data have settings",
                   a->word[0]);
  char hint[MR_HINT_MAX];
  if (strpbrk(a->word[0], "/."))
    return mr_fail(diag, MR_ERR_USAGE, "inspect: %s: there is no such file or folder%s", a->word[0],
                   mr_path_hint(a->word[0], hint, sizeof hint));
  return mr_fail(diag, MR_ERR_USAGE, "inspect: unknown stage \"%s\"%s", a->word[0],
                 mr_registry_hint(reg, a->word[0], hint, sizeof hint));
}

static const mr_hint_t inspect_words[] = {{"gstinspect1.0 stages plugins", "inspect", NULL}, {0}};

const mr_command_t mr_command_inspect = {
    .name = "inspect",
    .hint = inspect_words,
    .words = "[STAGE [model=NAME]|process|PATH [NAME=VALUE...]]",
    .help = "Lists all stages, the ports and settings of one stage, or the contents of data files.",
    .more =
        "\n"
        "Data: what `millrace train PATH` recognises, and .npy and .safetensors files alone;\n"
        "with source=STAGE, which says what it is, and settings of that stage (fields=) as there.",
    .flags = inspect_flags,
    .max_words = MR_WORDS_MAX,
    .run = inspect_run,
};
