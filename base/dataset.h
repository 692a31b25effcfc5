/* Facts about a source's records as a whole: origin and class names. */
#ifndef MR_BASE_DATASET_H
#define MR_BASE_DATASET_H

#include "base/decls.h"

MR_BEGIN_DECLS

/* Static, or owned by the stage that returns it. */
typedef struct mr_dataset {
  const char *origin; /* "cifar10", "synthetic"; part of every metrics record */
  int n_classes;
  const char *const *class_name; /* [n_classes] */
} mr_dataset_t;

MR_END_DECLS

#endif
