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

enum { MR_REGISTRY_MAX = 256 };

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
   complete (a name of letters, digits, - and _, a help, settings that lie in its state, something
   to do), its name is free and there is room.  MR_OK; MR_ERR_CONFIG names the stage, the fault, and
   where a stage of the same name comes from.  origin: "plug-in cutout (/lib/cutout.so)". */
mr_err_t mr_registry_check(const mr_registry_t *reg, const mr_stage_def_t *const *table,
                           const char *origin, mr_diag_t *diag);

/* Adds a table that mr_registry_check has passed.  origin and the table's stages are not copied and
   must outlive reg. */
void mr_registry_add_from(mr_registry_t *reg, const mr_stage_def_t *const *table,
                          const char *origin);

/* The stage of this name, which belongs to its table; NULL if it is unknown. */
const mr_stage_def_t *mr_registry_find(const mr_registry_t *reg, const char *name);

/* A hint what to write instead of an unknown stage's name, into text[0,n): the nearest name, "; did
   you mean \"batch\"?", or the counterpart of another framework's stage (pipeline/foreign.h); ""
   without a guess.  Returns text. */
const char *mr_registry_hint(const mr_registry_t *reg, const char *word, char *text, size_t n);

/* The definition that a stage has without further settings: def itself or, for a family, the one
   that it chooses; never NULL for a def of the registry.  Static, as def is. */
const mr_stage_def_t *mr_stage_def_usual(const mr_stage_def_t *def);

/* The setting of this name, a row of def->opts that lives as long as def; NULL if def has none. */
const mr_opt_t *mr_stage_def_opt(const mr_stage_def_t *def, const char *name);

/* The first setting that has the word among its choices, a row of def->opts that lives as long as
   def; NULL if none has. */
const mr_opt_t *mr_stage_def_opt_taking(const mr_stage_def_t *def, const char *word);

/* True if the stage may run in workers=N threads. */
bool mr_stage_def_parallel(const mr_stage_def_t *def);

/* The number of ports, [0,MR_MAX_PORTS]. */
int mr_stage_def_n_in(const mr_stage_def_t *def);
int mr_stage_def_n_out(const mr_stage_def_t *def);

MR_END_DECLS

#endif
