/* What lies at a path or URL: which stage reads it, and what of it is for training, validation and
   test.  Names and small files decide; records are not read.  Main thread only.
 */
#ifndef MR_APPS_RUN_RECOGNISE_H
#define MR_APPS_RUN_RECOGNISE_H

#include "apps/cli/texts.h"
#include "base/err.h"

enum { MR_FOUND_TEXT = 8192 };

/* Texts that graph text can hold as they are; "" means none. */
typedef struct mr_found {
  mr_kind_t kind;
  char data[MR_FOUND_TEXT];       /* the value of the variable `data` */
  char valid_data[MR_FOUND_TEXT]; /* that of `valid_data`, if validation records have other files */
  char list[64];                  /* a temporary list of the pictures of a folder without classes */
  char train[256], valid[256], test[256]; /* settings of the source: "path=$data/train" */
} mr_found_t;

/* Recognises what lies at `path`.  kind: a stage that the user names (source=), NULL: as it looks.
   A URL that names no file is asked for what lies there, by those of word[0,n), NAME=VALUE, that
   say how (endpoint=, retries=); blocks then, and fails as the server answers.  MR_ERR_IO: it
   cannot be read; MR_ERR_DATA: nothing that is known, or several kinds, with what would be;
   MR_ERR_USAGE: a path that graph text cannot hold, or an unknown kind. */
mr_err_t mr_recognise(const char *path, const char *kind, const char *const *word, int n,
                      mr_found_t *out, mr_diag_t *diag);

/* The same for predictions, which need no classes: a picture, or a folder with pictures in no
   folders of classes, becomes a temporary list of them, out->list, which the caller unlinks.
   MR_ERR_USAGE for a folder of several parts. */
mr_err_t mr_recognise_unlabelled(const char *path, const char *kind, const char *const *word, int n,
                                 mr_found_t *out, mr_diag_t *diag);

#endif
