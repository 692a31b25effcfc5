/* The object files that a cache has open, so that a read of a block opens none: as many as the
   process may well spare, those that were used last.  Any thread. */
#ifndef MR_LOADERS_REMOTE_REMOTE_OPENED_H
#define MR_LOADERS_REMOTE_REMOTE_OPENED_H

#include "loaders/remote/remote_object.h"

typedef struct mr__opened mr__opened_t;

/* NULL without memory; the caller ends it with mr__opened_close, when no file is taken. */
mr__opened_t *mr__opened_new(void);
void mr__opened_close(mr__opened_t *o); /* NULL is fine */

/* A file in use. */
typedef struct mr__taken {
  mr__object_file_t file;
  int slot; /* -1: it has no place among the open ones, and is closed when it is left */
} mr__taken_t;

/* Takes the open file of t->file's state and block size; false: it is not open. */
bool mr__opened_take(mr__opened_t *o, mr__taken_t *t);

/* Hands over a file that was opened; if another thread has done so meanwhile, takes that one. */
void mr__opened_put(mr__opened_t *o, mr__taken_t *t);
void mr__opened_leave(mr__opened_t *o, mr__taken_t *t);

/* Leaves a file, and closes it for all, calling fn before, which may be NULL; if another thread
   uses it, just leaves it. */
void mr__opened_drop(mr__opened_t *o, mr__taken_t *t, void (*fn)(void *ctx), void *ctx);

#endif
