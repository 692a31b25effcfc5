/* The files of a folder with one folder for each class, in the order and with the class numbers of
   torchvision's ImageFolder; or the files that a list names.

   Implemented in folder_list.c (the list itself), folder_scan.c (from a folder), folder_parse.c
   (from a file) and folder_keys.c (from the keys of a bucket). */
#ifndef MR_LOADERS_FORMATS_FOLDER_LIST_H
#define MR_LOADERS_FORMATS_FOLDER_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spill.h"

enum { MR_FOLDER_CLASSES_MAX = 100000 };

typedef struct mr_folder_file {
  uint64_t at;   /* of its path in text */
  uint32_t root; /* bytes of the path before its last "/" */
  int32_t label;
} mr_folder_file_t;

/* The holder's until mr_folder_list_free; beyond the memory of spill.h it lies in files.  Zeros:
   empty. */
typedef struct mr_folder_list {
  char *text; /* [n_text] paths below the folder and names, each with a final NUL */
  size_t n_text;
  mr_folder_file_t *file;              /* [n] */
  mr_spill_t text_memory, file_memory; /* of text and file */
  int64_t n, most;                     /* most: files allowed */
  const char *from;  /* the folder or list, for sentences; the caller's, used until listing ends */
  const char **name; /* [n_classes] of the classes, printable */
  int n_classes;
  bool numbered;   /* a list of files gives numbers, and names say no more than these */
  uint64_t *empty; /* [n_empty] in text, of keys: the classes without a file, as they are named */
  int n_empty;
  int64_t n_outside; /* pictures beside the folders of classes, which are not in the list */
  char outside[256]; /* the name of the first of them */
} mr_folder_list_t;

/* Lists the files below `folder` whose names end as pictures' do: classes are the folders in it,
   sorted; in each, files are sorted by folder and name; pictures outside of them are counted. Links
   are followed.  Names sort as Python's str do.  allow_empty: a class may have no file.  MR_OK with
   at least one file. MR_ERR_IO for a folder that cannot be read or leads back into itself;
   MR_ERR_DATA without a class or a file, for a class without one, or beyond `most` files or
   MR_FOLDER_CLASSES_MAX; MR_ERR_NOMEM.  *l is empty after a failure. */
mr_err_t mr_folder_list_scan(mr_folder_list_t *l, const char *folder, int64_t most,
                             bool allow_empty, mr_diag_t *diag);

/* Lists the files that text[0,n), of a list at `path`, names: CSV with a header, or JSON lines,
   in UTF-8, with a byte order mark or without.
   Columns are file_name (or path), relative to the folder and inside it, and label: numbers from 0,
   or names, which are numbered in their order as strings.  MR_ERR_DATA with the line otherwise. */
mr_err_t mr_folder_list_parse(mr_folder_list_t *l, const char *path, const char *text, size_t n,
                              int64_t most, mr_diag_t *diag);

void mr_folder_list_free(mr_folder_list_t *l);

/* ---- keys ---- */

/* What a list of keys is made of: files and folders come in any order. */
typedef struct mr_folder_keys {
  mr_folder_list_t *list;
  char **name; /* [n] heap, as each of them: classes so far, sorted and each once in [0,sorted) */
  int n, cap, sorted;
} mr_folder_keys_t;

/* Begins a list.  The caller ends k with mr_folder_keys_end. */
void mr_folder_keys_begin(mr_folder_keys_t *k, mr_folder_list_t *l, const char *from, int64_t most);

/* Adds a key, a path below the folder; one with a final "/" is a folder.  *is_file: it is a picture
   in a class, as the list has it now.  Pictures outside of classes, and files that are no pictures,
   are left out; their folders count.  `state`, n bytes, follows the path in the list's text.
   MR_ERR_DATA for a path that no folder has (an empty part, "." or ".."), or for too many;
   MR_ERR_NOMEM.
 */
mr_err_t mr_folder_keys_add(mr_folder_keys_t *k, const char *path, const void *state, size_t n,
                            bool *is_file, mr_diag_t *diag);

/* Ends the list: sorts it, and numbers the classes, as mr_folder_list_scan does.  With e < 0, or a
   failure, it empties the list, and returns that.  MR_ERR_DATA as mr_folder_list_scan, and for a
   path that was added twice. */
mr_err_t mr_folder_keys_end(mr_folder_keys_t *k, bool allow_empty, mr_err_t e, mr_diag_t *diag);

static inline const char *mr_folder_path(const mr_folder_list_t *l, int64_t i) {
  return l->text + l->file[i].at;
}

/* ---- for both ways of listing ---- */

/* Counts a picture that is in none of the classes, by its name of n bytes. */
void mr__folder_outside(mr_folder_list_t *l, const char *name, size_t n);

/* Compares byte strings as Python compares the str that os.fsdecode makes of them: by code points,
   and bytes that are no UTF-8 as U+DC80 and up.  Returns -1, 0 or 1. */
int mr__folder_compare(const char *a, size_t n, const char *b, size_t m);

/* Appends a file.  MR_ERR_DATA beyond l->most, MR_ERR_NOMEM. */
mr_err_t mr__folder_add(mr_folder_list_t *l, const char *path, size_t n, int32_t label,
                        mr_diag_t *diag);

/* Appends n bytes and a NUL to the text; *at is where they begin.  False without memory. */
bool mr__folder_text(mr_folder_list_t *l, const char *bytes, size_t n, uint64_t *at);

/* Sorts the files of one class, from number `from` to the last. */
void mr__folder_sort(mr_folder_list_t *l, int64_t from);

/* True if the name ends as a picture's does. */
bool mr__folder_is_picture(const char *name);

/* Sets the names of the classes to printable copies of name[n].  MR_ERR_NOMEM, MR_ERR_DATA. */
mr_err_t mr__folder_classes(mr_folder_list_t *l, char *const *name, int n, mr_diag_t *diag);

#endif
