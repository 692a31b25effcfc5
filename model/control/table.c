/* The table of all ops: those of ops/, and those that stand above the transforms. */
#include <string.h>

#include "model/control/control.h"
#include "model/ops/op.h"

const mr_op_def_t *const mr_ops[] = {
#define MR_OP(name) &mr_op_##name,
#include "model/control/list.def"
#include "model/ops/list.def"
#undef MR_OP
};

const int mr_n_ops = (int)(sizeof mr_ops / sizeof *mr_ops);

const mr_op_def_t *mr_op_find(const char *name) {
  for (int i = 0; i < mr_n_ops; i++)
    if (!strcmp(mr_ops[i]->name, name)) return mr_ops[i];
  return NULL;
}
