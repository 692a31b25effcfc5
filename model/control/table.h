/* The ops by name: those of the program, and those that plug-ins have added. */
#ifndef MR_MODEL_CONTROL_TABLE_H
#define MR_MODEL_CONTROL_TABLE_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* The table of all ops, in the order of ops/list.def, then control/list.def. */
extern const mr_op_def_t *const mr_ops[];
extern const int mr_n_ops;
/* The op of this name, of the table or added; NULL if there is none.  Any thread. */
const mr_op_def_t *mr_op_find(const char *name);

enum { MR_OPS_ADDED_MAX = 256 };

/* Whether every op of a NULL-ended table from outside (plugins/plugin.h) can be added: it has every
   rule, its name is free and there is room.  MR_ERR_CONFIG names the op, what is wrong with it, and
   where the one that has its name comes from.  origin: "plug-in hardswish (/lib/hardswish.so)". */
mr_err_t mr_ops_check(const mr_op_def_t *const *table, const char *origin, mr_diag_t *diag);
/* Adds a table that mr_ops_check has passed: mr_op_find, and so the parser, knows its ops from here
   on.  They and origin are not copied and stay for as long as the process runs.  One thread at a
   time adds; others may look ops up meanwhile. */
void mr_ops_add(const mr_op_def_t *const *table, const char *origin);

MR_END_DECLS

#endif
