/* The head of a model that begins with the parameters of a file, where both say what their classes
   are called: the file's number of a class need not be the model's. */
#ifndef MR_STAGES_TRAIN_FROM_HEAD_H
#define MR_STAGES_TRAIN_FROM_HEAD_H

#include "base/classes.h"
#include "model/nn/params.h"
#include "pipeline/spec.h"

typedef struct mr__from_head {
  int32_t *place; /* heap: [n] the model's number of the file's class i, or -1; NULL: i itself */
  int n;
  int known;    /* classes of the model that the file has; 0 beside `place`: other classes */
  bool unnamed; /* one of both does not name its classes: they are matched by number */
} mr__from_head_t;

/* Compares the classes that `truth`, the field that the model predicts (NULL: none), has with those
   of the field of its name, or else of the only label, that the file's model was trained on. MR_OK;
   MR_ERR_DATA with both lists if one has a name twice and they differ, or for a file that does not
   say its inputs rightly; MR_ERR_IO; MR_ERR_NOMEM.  *out, overwritten, is freed by
   mr__from_head_fini in any case. */
mr_err_t mr__from_head_open(const char *path, const mr_field_t *truth, mr__from_head_t *out,
                            mr_diag_t *diag);
void mr__from_head_fini(mr__from_head_t *h);

/* Puts a tensor of the head, v of that dtype as the file has it, into the model's order of classes,
   which dimension `axis` of a numbers; a class that the file lacks becomes what it is in drawn.
   MR_OK, or MR_ERR_NOMEM. */
mr_err_t mr__from_head_order(const mr__from_head_t *h, const mr_aval_t *a, int axis, size_t each,
                             const void *drawn, void *v, mr_diag_t *diag);

#endif
