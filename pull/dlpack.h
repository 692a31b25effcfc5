/* Arrays of a batch for other libraries of the process, by the DLPack protocol (1.0, and the form
   before it).  https://dmlc.github.io/dlpack/latest/ */
#ifndef MR_PULL_DLPACK_H
#define MR_PULL_DLPACK_H

#include "pull/loader.h"

MR_BEGIN_DECLS

/* A DLManagedTensorVersioned in *managed, or a DLManagedTensor if versioned is false, over the
   values of field `field` in [0,n_fields) of a batch, which it keeps until its deleter is called:
   by any thread, once, without a lock or an interpreter.  field n_fields + i: the offsets of field
   i. MR_ERR_USAGE: no such field; MR_ERR_SHAPE: values that may not be written, and versioned is
   false, which could not say so; MR_ERR_NOMEM. */
mr_err_t mr_batch_dlpack(const mr_batch_t *batch, int field, bool versioned, void **managed,
                         mr_diag_t *diag);

/* For Python: its PyCapsule_IsValid and PyCapsule_GetPointer, which mr_dlpack_capsule_end calls. */
void mr_dlpack_capsule_calls(int (*is_valid)(void *capsule, const char *name),
                             void *(*pointer)(void *capsule, const char *name));

/* The destructor of a capsule called "dltensor" or "dltensor_versioned": calls the deleter of what
   no library has taken over.  The interpreter calls it. */
void mr_dlpack_capsule_end(void *capsule);

MR_END_DECLS

#endif
