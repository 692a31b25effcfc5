/* Names of a dataset's classes, as its text file has them: one a line. */
#ifndef MR_LOADERS_CLASS_NAMES_H
#define MR_LOADERS_CLASS_NAMES_H

#include "base/err.h"

enum { MR_CLASSES_MAX = 1000, MR_CLASS_NAMES_TEXT = 32 * MR_CLASSES_MAX };

typedef struct mr_class_names {
  char text[MR_CLASS_NAMES_TEXT]; /* owns what was read */
  const char *name[MR_CLASSES_MAX];
  int n;
} mr_class_names_t;

/* Names that are known without a file: usual[n], static. */
void mr__class_names_usual(mr_class_names_t *names, const char *const *usual, int n);

/* Those of folder/file (folder NULL: file is the whole path): as many as names has, of 1 to 31
   bytes without control characters; MR_ERR_DATA if it holds anything else.  Names stay as they are
   if there is no such file in the folder. */
mr_err_t mr__class_names_read(mr_class_names_t *names, const char *folder, const char *file,
                              mr_diag_t *diag);

#endif
