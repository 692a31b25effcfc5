/* Names of a data set's classes, from a table or from a text file with one name per line. */
#ifndef MR_LOADERS_LOCAL_CLASS_NAMES_H
#define MR_LOADERS_LOCAL_CLASS_NAMES_H

#include <stdbool.h>

#include "base/err.h"

/* Most classes with names in a file, and bytes of a name. */
enum {
  MR_CLASSES_MAX = 1000,
  MR_CLASS_NAME_MAX = 127,
  MR_CLASS_NAMES_TEXT = (MR_CLASS_NAME_MAX + 1) * MR_CLASSES_MAX
};

/* The file that `millrace pack` writes beside its shards, and shards are read with. */
#define MR_PACK_CLASSES "pack-classes.txt"

typedef struct mr_class_names {
  char text[MR_CLASS_NAMES_TEXT];   /* the file's text */
  const char *name[MR_CLASSES_MAX]; /* [n] into text, or static */
  int n;
} mr_class_names_t;

/* Sets the names usual[n], n <= MR_CLASSES_MAX, which must outlive *names. */
void mr__class_names_usual(mr_class_names_t *names, const char *const *usual, int n);

/* True if a name can be a line of such a file. */
bool mr__class_name_ok(const char *name);

/* Replaces the names by those of folder/file, or of the path `file` if folder is NULL.  The file
   must have names->n names of 1 to MR_CLASS_NAME_MAX bytes without control characters, or if that
   is 0 any number from 1 to MR_CLASSES_MAX, which names->n becomes; else MR_ERR_DATA, and names is
   undefined. MR_OK, with names unchanged, if the folder has no such file; MR_ERR_IO if it cannot be
   opened. */
mr_err_t mr__class_names_read(mr_class_names_t *names, const char *folder, const char *file,
                              mr_diag_t *diag);

#endif
