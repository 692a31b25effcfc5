/* Names of classes in .npz files: the array NAME.classes of texts, as `millrace batch --out` writes
   it and numpy.savez does, names the classes of the whole numbers in array NAME. */
#ifndef MR_LOADERS_FORMATS_NPZ_CLASSES_H
#define MR_LOADERS_FORMATS_NPZ_CLASSES_H

#include "loaders/shards/shard_typed.h"

/* Returns whether an array name[0,n) is called so. */
bool mr_npz_names_classes(const char *name, size_t n);

/* Notes the names in such an array, an .npy file of `bytes` bytes from byte `at` on, in the draft,
   as columns of kind MR_TYPED_WORD that no field is made of.  *why: a literal that says why they
   cannot be names of classes; NULL if they are.  MR_OK, MR_ERR_IO, MR_ERR_NOMEM; MR_END if the file
   is shorter. */
mr_err_t mr_npz_note_classes(mr_shard_file_t *file, int64_t at, int64_t bytes, const char *name,
                             size_t n, mr_shard_draft_t *draft, const char **why, mr_diag_t *diag);

/* For settle, before the fields are: takes the names of every array of whole numbers that has some,
   into t->own.  MR_ERR_NOMEM. */
mr_err_t mr_npz_take_classes(mr_stage_t *s, mr_shard_source_t *t);

/* For settle, once the fields are: names the classes of those that are labels by t->own.  names=
   takes the place of one list, of the array read as `label`, else of one that is usually a label,
   or of the first, and classes= is its number; that array speaks for the data set too.  MR_ERR_DATA
   for files whose lists of a label differ, unless names= is given, and as mr__shard_agree;
   MR_ERR_CONFIG for another number than classes=; MR_ERR_NOMEM. */
mr_err_t mr_npz_name_labels(mr_stage_t *s, mr_shard_source_t *t, mr_spec_t *out);

#endif
