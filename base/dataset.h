/* What a source says of its records as a whole. */
#ifndef MR_BASE_DATASET_H
#define MR_BASE_DATASET_H

#include "base/decls.h"

MR_BEGIN_DECLS

/* Static, or owned by the stage that gives it. */
typedef struct mr_dataset {
  const char *origin; /* "cifar10", "synthetic": said in every metrics record */
  int n_classes;
  const char *const *class_name; /* [n_classes] */
} mr_dataset_t;

MR_END_DECLS

#endif
