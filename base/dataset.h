/* Facts about a source's records as a whole: origin and class names; and the label of a record that
   does not count. */
#ifndef MR_BASE_DATASET_H
#define MR_BASE_DATASET_H

#include "base/decls.h"

MR_BEGIN_DECLS

/* Static, or owned by the stage that returns it. */
typedef struct mr_dataset {
  const char *origin; /* name of the data, as its source says it; part of every metrics record */
  int n_classes;
  const char *const *class_name; /* [n_classes] */
} mr_dataset_t;

/* The label that marks a record excluded from its batch; its row has zero weight. */
#define MR_LABEL_NONE (-1)

MR_END_DECLS

#endif
