/* The table of ops: the program's own, and those that plug-ins have added. */
#ifndef MR_MODEL_CONTROL_TABLE_H
#define MR_MODEL_CONTROL_TABLE_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* The program's own ops, in the order of control/list.def, then ops/list.def. */
extern const mr_op_def_t *const mr_ops[];
extern const int mr_n_ops;
/* The op of this name, of the program or added; it lives as long as the process.  NULL: there is
   no such op.  Any thread. */
const mr_op_def_t *mr_op_find(const char *name);

enum { MR_OPS_ADDED_MAX = 256 };

/* Checks whether every op of a NULL-ended table of a plug-in (plugins/plugin.h) can be added: it
   has every rule, its name is free, and there is room.  MR_OK, or MR_ERR_CONFIG, which names the
   op, its fault, and the origin of an op that has its name already.  origin: "plug-in hardswish
   (/lib/hardswish.so)". */
mr_err_t mr_ops_check(const mr_op_def_t *const *table, const char *origin, mr_diag_t *diag);
/* Adds a table that has passed mr_ops_check; mr_op_find, and so the parser, finds its ops from
   then on.  Ops and origin are not copied and must live as long as the process.  One thread at a
   time checks and adds; others may look ops up meanwhile. */
void mr_ops_add(const mr_op_def_t *const *table, const char *origin);

MR_END_DECLS

#endif
