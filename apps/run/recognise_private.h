/* What recognise.c and recognise_url.c share: names, and lists of them. */
#ifndef MR_APPS_RUN_RECOGNISE_PRIVATE_H
#define MR_APPS_RUN_RECOGNISE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/run/recognise.h"

/* Parts of a data set, and the names that folders and files of them have, in order. */
enum { MR__TRAIN, MR__VALID, MR__TEST, MR__PARTS };
extern const char *const mr__part_names[MR__PARTS];

/* The kind of a file's name; MR_KINDS: unknown. */
mr_kind_t mr__kind_of_name(const char *name);

bool mr__is_picture(const char *name);

/* The kind of the text of an index.json, text[0,n); MR_KINDS: of none. */
mr_kind_t mr__kind_of_index(const char *text, size_t n);

/* Writes where the parts of a folder are, part[p] NULL: nowhere, for a source whose setting `place`
   names its folder. */
void mr__place_parts(const char *const part[MR__PARTS], const char *place, mr_found_t *out);

/* Looks for files of one kind, or of the one that is wanted, among name[0,n), sorted, which lie in
   a folder; out->kind stays MR_KINDS if there are none.  pictures: folders with pictures lie there
   too.  MR_ERR_DATA for several kinds, and for files that are of no training records. */
mr_err_t mr__recognise_files(const char *folder, const char *const *name, int n, bool pictures,
                             mr_kind_t want, mr_found_t *out, mr_diag_t *diag);

/* Recognises what lies at a URL that names no file, by requests for what the kinds have there, or
   for the parts of the one that is wanted (MR_KINDS: none); out->kind stays what it is if nothing
   is found.  word[0,n): NAME=VALUE, of which those of MR_REMOTE_OPTS decide how it is asked.
   Blocks.  Fails as mr_remote_find and mr_remote_list; for a kind that is wanted only by
   MR_ERR_NOMEM, MR_ERR_USAGE and as mr_remote_open, and else as if nothing was found. */
mr_err_t mr__recognise_url(const char *url, mr_kind_t want, const char *const *word, int n,
                           mr_found_t *out, mr_diag_t *diag);

#endif
