/* The stages that a program knows.

   Each room of stages has a list.def with one line a stage, MR_STAGE(resized_crop) for
   mr_stage_resized_crop, and a NULL-ended table made from it (mr_loaders_stages, mr_stages_stages,
   mr_sinks_stages).  A program adds the tables it links.  A plug-in's table comes from outside the
   program, so it is checked first (plugins/plugin.h).

   The calls do not block and allocate nothing. */
#ifndef MR_PIPELINE_REGISTRY_H
#define MR_PIPELINE_REGISTRY_H

#include "base/decls.h"
#include "base/suggest.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* STAGE_NAME_MAX: of a plug-in's names and aliases, in characters. */
enum { MR_REGISTRY_MAX = 256, MR_STAGE_NAME_MAX = 63 };

/* Zero-initialise; the caller keeps it as long as graphs use it.  The thread that builds graphs may
   add stages while graphs exist; none is ever removed. */
typedef struct mr_registry {
  const mr_stage_def_t *def[MR_REGISTRY_MAX];
  const char *origin[MR_REGISTRY_MAX]; /* "plug-in cutout (/lib/cutout.so)"; NULL: the program */
  int n;
} mr_registry_t;

/* Adds every stage of a NULL-ended table, which is not copied and must outlive reg.  A stage that
   mr_stage_def_check refuses, whose name is known already, or beyond MR_REGISTRY_MAX is an error in
   the program: asserted. */
void mr_registry_add(mr_registry_t *reg, const mr_stage_def_t *const *table);

/* Checks that every stage of a NULL-ended table from outside the program can be added: it is
   complete (a help, settings that lie in its state, something to do); its name and its aliases are
   of at most MR_STAGE_NAME_MAX letters, digits, - and _, are no words of graph text, and are free,
   in reg and in the table; both ends of a link come together; and there is room.  MR_OK;
   MR_ERR_CONFIG names the stage, the fault, and where a stage of the same name comes from.  origin:
   "plug-in cutout (/lib/cutout.so)". */
mr_err_t mr_registry_check(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                           const char *origin, mr_diag_t *diag);

/* Adds a table that mr_registry_check has passed.  origin and the table's stages are not copied and
   must outlive reg. */
void mr_registry_add_from(mr_registry_t *reg, const mr_stage_def_t *const *table,
                          const char *origin);

/* The stage of this name or alias, which belongs to its table; NULL if it is unknown. */
const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name);

/* The stage of a role: the one that was added last by a plug-in, else the program's first; NULL
   without one.  It belongs to its table. */
const mr_stage_def_t *mr_registry_role(const mr_registry_t *reg, mr_role_t role);

/* For sentences: the name of mr_registry_role in quotes; otherwise if no stage has the role.  Into
   the caller's text[0,n).  Returns text. */
const char *mr_registry_role_name(const mr_registry_t *reg, mr_role_t role, const char *otherwise,
                                  char *text, size_t n);

/* The same for all stages of a role, in the order of the registry, each with a setting as graph
   text has it, in quotes.  value and, for a setting that is a text, text_value are what follows the
   "=".  "" if no stage has the role.  Into the caller's text[0,n).  Returns text. */
const char *mr_registry_role_list(const mr_registry_t *reg, mr_role_t role, const char *setting,
                                  const char *value, const char *text_value, char *text, size_t n);

/* A hint what to write instead of an unknown stage's name, into text[0,n): the nearest name, "; did
   you mean \"batch\"?", or what the stages' hints say about a word of another framework; "" without
   a guess.  Returns text. */
const char *mr_registry_hint(const mr_registry_t *reg, const char *word, char *text, size_t n);

/* What the stages' hints say about a word for a stage, "; stage \"flip\" does that: flip p=0.5",
   into the caller's text[0,n); "" if none knows it.  Of several stages that know it, the one that
   was added last by a plug-in speaks, else the program's first.  Returns text. */
const char *mr_registry_stage_hint(const mr_registry_t *reg, const char *word, char *text,
                                   size_t n);

/* The same for a word for a setting that def lacks: its own settings' words, its own hints, then
   those of other stages ("; it is \"workers\" of batch"), in the order of mr_registry_stage_hint.
   own: only the first two.  Returns text. */
const char *mr_registry_setting_hint(const mr_registry_t *reg, const mr_stage_def_t *def,
                                     const char *word, bool own, char *text, size_t n);

/* The definition that a stage has without further settings: def itself or, for a family, the one
   that it chooses; never NULL for a def of the registry.  Static, as def is. */
const mr_stage_def_t *mr_stage_def_usual(const mr_stage_def_t *def);

/* The setting of this name, a row of def->opts that lives as long as def; NULL if def has none. */
const mr_opt_t *mr_stage_def_opt(const mr_stage_def_t *def, const char *name);

/* The first setting that has the word among its choices, a row of def->opts that lives as long as
   def; NULL if none has. */
const mr_opt_t *mr_stage_def_opt_taking(const mr_stage_def_t *def, const char *word);

/* The setting of a stage that another framework's word means, the builtin `workers` included: its
   name, which lives as long as def; NULL without one. */
const char *mr_stage_def_setting_for(const mr_stage_def_t *def, const char *word);

/* True if the stage has the setting, the builtin `workers` included. */
bool mr_stage_def_knows(const mr_stage_def_t *def, const char *setting);

/* True if the stage may run in workers=N threads. */
bool mr_stage_def_parallel(const mr_stage_def_t *def);

/* How input i of a stage is, i in [0,mr_stage_t.n_in): a row of def->in that lives as long as def;
   of those behind the described ones, the last one's. */
const mr_port_def_t *mr_stage_def_input(const mr_stage_def_t *def, int i);
/* The most inputs that a stage may have, [0,MR_INPUTS_MAX]. */
int mr_stage_def_most_in(const mr_stage_def_t *def);
/* The number of described ports, [0,MR_MAX_PORTS]. */
int mr_stage_def_n_in(const mr_stage_def_t *def);
int mr_stage_def_n_out(const mr_stage_def_t *def);

MR_END_DECLS

#endif
