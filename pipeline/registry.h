/* The stages a program knows.

   Each room of stages has a list.def with one line a stage, MR_STAGE(resized_crop) for
   mr_stage_resized_crop, and a NULL-ended table made from it (mr_loaders_stages,
   mr_stages_stages, mr_sinks_stages).  A program adds the tables it links; a plug-in's table is
   checked first, since it is not the program's own (plugins/plugin.h). */
#ifndef MR_PIPELINE_REGISTRY_H
#define MR_PIPELINE_REGISTRY_H

#include "base/decls.h"
#include "base/suggest.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

enum { MR_REGISTRY_MAX = 256 };

/* Zero-initialise; the caller keeps it as long as graphs use it.  Stages may be added while graphs
   exist, by the thread that builds graphs; none is ever taken out. */
typedef struct mr_registry {
  const mr_stage_def_t *def[MR_REGISTRY_MAX];
  const char *origin[MR_REGISTRY_MAX]; /* "plug-in cutout (/lib/cutout.so)"; NULL: the program */
  int n;
} mr_registry_t;

/* Adds every stage of a NULL-ended table.  A stage that mr_stage_def_check refuses, whose name is
   already known, or beyond MR_REGISTRY_MAX is an error in the program: asserted. */
void mr_registry_add(mr_registry_t *reg, const mr_stage_def_t *const *table);

/* Whether every stage of a NULL-ended table from outside the program can be added: it is whole (a
   name of letters, digits, - and _, a help, settings that lie in its state, something to do), its
   name is free and there is room.  MR_ERR_CONFIG names the stage, what is wrong with it, and where
   the one that has its name comes from.  origin: "plug-in cutout (/lib/cutout.so)". */
mr_err_t mr_registry_check(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                           const char *origin, mr_diag_t *diag);

/* Adds a table that mr_registry_check has passed.  origin and the table's stages are not copied and
   must outlive the registry. */
void mr_registry_add_from(mr_registry_t *reg, const mr_stage_def_t *const *table,
                          const char *origin);

/* The stage of this name, or NULL. */
const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name);

/* What to write instead of a stage's name that is unknown, into text[0,n): the nearest name, "; did
   you mean \"batch\"?", or what stands here for another framework's stage (pipeline/foreign.h); ""
   if nothing is known.  Returns text. */
const char *mr_registry_hint(const mr_registry_t *reg, const char *word, char *text, size_t n);

/* The definition that a stage has without further settings: def itself, or the one that it chooses
   where it is a family; never NULL for a def of the registry. */
const mr_stage_def_t *mr_stage_def_usual(const mr_stage_def_t *def);

/* The setting of this name, or NULL. */
const mr_opt_t *mr_stage_def_opt(const mr_stage_def_t *def, const char *name);

/* The setting that has the word among its choices, or NULL. */
const mr_opt_t *mr_stage_def_opt_taking(const mr_stage_def_t *def, const char *word);

/* True if the stage may run in workers=N threads. */
bool mr_stage_def_parallel(const mr_stage_def_t *def);

/* Ports until the NULL name. */
int mr_stage_def_n_in(const mr_stage_def_t *def);
int mr_stage_def_n_out(const mr_stage_def_t *def);

MR_END_DECLS

#endif
