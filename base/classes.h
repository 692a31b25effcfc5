/* The names of classes: what the numbers of a label mean.  Streams, checkpoints and the ends of
   links each have such a list of their own, and numbers of two lists are compared by these names,
   never by position.

   Names are the same as base/same_name.h says.  A list borrows its names.  Any thread may call all
   of it. */
#ifndef MR_BASE_CLASSES_H
#define MR_BASE_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_classes {
  int n;
  const char *const *name; /* [n] UTF-8, of class i */
} mr_classes_t;

/* True if both have the same names in the same order.  NULL, classes without names, is the same as
   NULL alone. */
bool mr_classes_same(const mr_classes_t *a, const mr_classes_t *b);

/* "ant, bee, cat", made safe to show, into the caller's text[0,n), n >= 40; "ant, bee and 998 more"
   if they do not fit; returns text.  NULL: "no names". */
const char *mr_classes_text(const mr_classes_t *c, char *text, size_t n);

/* Finds what each class of `from` is called in `to`.  MR_OK with *number NULL: both lists are the
   same, or one is NULL, so that numbers mean what they say.  MR_OK with *number, heap, [from->n],
   the caller frees it: number[i] is the place in `to` of from's class i.  MR_ERR_DATA with both
   lists in the sentence: `to` lacks a name of `from`, or a list has a name twice, so that a name
   does not say which class it is; from_of and to_of say whose lists they are.  MR_ERR_NOMEM. */
mr_err_t mr_classes_align(const mr_classes_t *from, const char *from_of, const mr_classes_t *to,
                          const char *to_of, int32_t **number, mr_diag_t *diag);

/* A list by its names: where one is, in the time that reading the name takes.  It borrows the
   list's names.  The caller ends it by mr_classes_index_destroy, which accepts NULL.  NULL without
   memory, with a sentence. */
typedef struct mr_classes_index mr_classes_index_t;
mr_classes_index_t *mr_classes_index_create(const mr_classes_t *c, mr_diag_t *diag);
void mr_classes_index_destroy(mr_classes_index_t *x);

/* Returns the place of the first name of these very bytes, or without one that of the first that is
   the same; -1: none is. */
int32_t mr_classes_find(const mr_classes_index_t *x, const char *name);

/* Returns whether two names are the same in other bytes, and sets places[2] to those of the first
   such ones, rising. */
bool mr_classes_forms(const mr_classes_index_t *x, int32_t places[2]);

/* Finds names: place[i] = the place in `in` of of's name i, as mr_classes_find; place[of->n] is the
   caller's.  Neither is NULL.  MR_OK; MR_ERR_NOMEM with a sentence. */
mr_err_t mr_classes_places(const mr_classes_t *of, const mr_classes_t *in, int32_t *place,
                           mr_diag_t *diag);

/* A list that holds all names of several: heap, by mr_classes_join. */
typedef struct mr_classes_joined {
  mr_classes_t all;  /* the first list's, then those of the second that the first lacks, ... */
  const char **name; /* [all.n] all's names, borrowed from the lists */
  int32_t **number;  /* [n_lists]; number[l][i] is the place in `all` of list l's class i; NULL: i
                        itself */
  int n_lists;
} mr_classes_joined_t;

/* Joins list[0,n), n >= 1, none NULL; of says whose each is.  MR_OK; MR_ERR_DATA if a list has a
   name twice and another list is not the same; MR_ERR_NOMEM; both with a sentence, and *out is then
   empty.  mr_classes_unjoin frees what *out holds, and leaves it empty; a zeroed one is empty. */
mr_err_t mr_classes_join(const mr_classes_t *const *list, const char *const *of, int n,
                         mr_classes_joined_t *out, mr_diag_t *diag);
void mr_classes_unjoin(mr_classes_joined_t *out);

MR_END_DECLS

#endif
