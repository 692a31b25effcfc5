/* The names of classes as a file on the disk: one per line, in order of the class index.  Where
   there is no such file, a table in the code or the numbers of the classes take its place.  Memory
   is that of the names there are. */
#ifndef MR_LOADERS_LOCAL_CLASS_NAMES_H
#define MR_LOADERS_LOCAL_CLASS_NAMES_H

#include <stdbool.h>

#include "base/classes.h"
#include "base/err.h"

enum { MR_CLASSES_MAX = 100000, MR_CLASS_NAME_MAX = 127 };

/* The file that `millrace pack` writes beside its shards, and shards are read with. */
#define MR_PACK_CLASSES "pack-classes.txt"

/* Zeroed: no names.  Ends with mr__class_names_free. */
typedef struct mr_class_names {
  char *text;        /* heap: the file's text, or the numbers; NULL: none */
  const char **name; /* [n] heap: into text, or what usual names point to */
  int n;
  mr_classes_index_t *index; /* of a file's names, to find one; NULL: they are of no file */
} mr_class_names_t;

void mr__class_names_free(mr_class_names_t *names); /* to zeros; zeros are fine */

/* Replaces the names by usual[n], n in [0,MR_CLASSES_MAX], whose texts must outlive *names.
   MR_ERR_NOMEM, with no names then. */
mr_err_t mr__class_names_usual(mr_class_names_t *names, const char *const *usual, int n,
                               mr_diag_t *diag);

/* Replaces the first n names by first[n], as usual, and keeps those behind them.  MR_ERR_NOMEM,
   with the names unchanged. */
mr_err_t mr__class_names_first(mr_class_names_t *names, const char *const *first, int n,
                               mr_diag_t *diag);

/* Replaces the names by the numbers "0" to "n-1"; fails as usual. */
mr_err_t mr__class_names_numbers(mr_class_names_t *names, int n, mr_diag_t *diag);

/* True if a name can be a line of such a file. */
bool mr__class_name_ok(const char *name);

/* Says of two names that are one in two of Unicode's forms (base/same_name.h) and yet two classes.
 */
void mr__class_names_say_forms(const mr_classes_t *c, const char *where);

/* Replaces the names by those of folder/file, or of the path `file` if folder is NULL.  The file
   must have `want` names of 1 to MR_CLASS_NAME_MAX bytes without control characters, or if that is
   0 any number from 1 to MR_CLASSES_MAX; else MR_ERR_DATA.  MR_OK, with names unchanged, if the
   folder has no such file; MR_ERR_IO if it cannot be opened; MR_ERR_NOMEM.  Unchanged on failure.
   Says of two forms of one name, as above. */
mr_err_t mr__class_names_read(mr_class_names_t *names, const char *folder, const char *file,
                              int want, mr_diag_t *diag);

#endif
