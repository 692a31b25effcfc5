/* Plug-ins: stages, ops, models and losses in a shared object of its own, which a program loads by
   name.

   A plug-in is built against the installed headers, without the library, and has one constant:

     #include <millrace.h>
     ...
     static const mr_stage_def_t *const stages[] = {&cutout, NULL};
     const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "cutout", .stages = stages};

     cc -shared -fPIC cutout.c $(pkg-config --cflags millrace-plugin) -o cutout.so

   What it calls it finds in the program that loads it: the command line shows every mr_* function,
   a program of one's own must link the shared library, or all of the static one with -rdynamic.
   docs/plugins.md has the rest, examples/plugin-* are plug-ins. */
#ifndef MR_PLUGINS_PLUGIN_H
#define MR_PLUGINS_PLUGIN_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/op.h"
#include "model/nn/class_loss.h"
#include "model/zoo/zoo.h"
#include "pipeline/graph/link_end.h"
#include "pipeline/registry.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "pipeline/stage_walk.h"

MR_BEGIN_DECLS

/* Rises when a plug-in that was built before would no longer work: an argument, a meaning or an
   order of members is another.  That a struct has another size is noticed without it. */
enum { MR_PLUGIN_ABI = 2 };

/* The structs that a plug-in and the program both touch. */
// clang-format off
#define MR_PLUGIN_TYPES(X)                                                                     \
  X(mr_stage_def_t) X(mr_source_def_t) X(mr_order_def_t) X(mr_map_def_t) X(mr_filter_def_t)    \
  X(mr_join_def_t) X(mr_walk_def_t) X(mr_step_def_t) X(mr_stage_t) X(mr_rec_t) X(mr_buf_t)     \
  X(mr_spec_t) X(mr_field_t) X(mr_opt_t) X(mr_op_def_t) X(mr_eqn_t) X(mr_var_t) X(mr_fn_t)     \
  X(mr_sample_t) X(mr_model_def_t) X(mr_model_plan_t) X(mr_loss_out_t) X(mr_loss_report_t)       \
  X(mr_nn_t) X(mr_diag_t) X(mr_hint_t) X(mr_link_end_t) X(mr_class_loss_def_t)
// clang-format on

enum { MR_PLUGIN_SIZES = 32 };

/* Member by member as here in every version, so that one that does not fit can still be named. */
typedef struct mr_plugin {
  uint32_t abi;                   /* MR_PLUGIN_ABI of the headers it was built with */
  uint32_t size[MR_PLUGIN_SIZES]; /* bytes of each of MR_PLUGIN_TYPES there, then zeros */
  const char *name;               /* letters, digits, - and _ */
  /* NULL-ended tables, NULL where it has none; they live as long as the plug-in. */
  const mr_stage_def_t *const *stages;
  const mr_op_def_t *const *ops;
  const mr_model_def_t *const *models;
  const mr_class_loss_def_t *const *losses;
} mr_plugin_t;

#define MR_PLUGIN_SIZE(type) sizeof(type),
/* The first two members of a plug-in's constant. */
#define MR_PLUGIN_BUILT_FOR \
  MR_PLUGIN_ABI, { MR_PLUGIN_TYPES(MR_PLUGIN_SIZE) 0 }

/* What a plug-in defines.  No program has it: it is looked up in the file that is loaded. */
extern const mr_plugin_t mr_plugin __attribute__((visibility("default")));

/* Loads the plug-in in FILE and adds its stages to reg, its ops to the table of all ops, its models
   to that of all models and its losses to those of the setting loss.  All of it or nothing.  A file
   that was loaded before is fine: reg gets what it has not yet.

   Loading runs code of the file's author, so the file and what leads to it are checked first:
   symbolic links are followed, and the file they lead to must be a regular one that root or the
   user of this process owns and no other user can write, and so must the folders above it (or be
   sticky, as /tmp is).  What was checked is what is loaded.  Libraries that the plug-in itself
   links are the dynamic linker's, as for any program.

   MR_ERR_IO: it cannot be opened.  MR_ERR_UNAVAILABLE: it may not be loaded, is no shared object or
   no plug-in, needs a symbol that is not here, or was built for other headers.  MR_ERR_CONFIG: a
   name of its is there already, or a constant is not whole.  The sentence names the file.

   For the thread that builds graphs, before others use reg.  Nothing is ever unloaded. */
mr_err_t mr_plugin_load(const char *file, mr_registry_t *reg, mr_diag_t *diag);

/* The plug-ins loaded so far, in their order: i in [0,mr_plugin_count()).  The file is the one that
   symbolic links lead to, an absolute path; both live as long as the process. */
int mr_plugin_count(void);
const mr_plugin_t *mr_plugin_at(int i, const char **file);

MR_END_DECLS

#endif
