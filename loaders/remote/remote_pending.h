/* Parts of objects that are to be requested, by the order of their use and by their place, so that
   the part that is due first can be requested together with its neighbours.

   A part is added once and removed once; it is named by a handle in between.  One thread at a
   time. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PENDING_H
#define MR_LOADERS_REMOTE_REMOTE_PENDING_H

#include "loaders/remote/object.h"

enum { MR_PENDING_NONE = -1 };

typedef struct mr__pending mr__pending_t;

mr__pending_t *mr__pending_create(void);    /* the caller's until destroy; NULL without memory */
void mr__pending_destroy(mr__pending_t *p); /* NULL is fine */
int64_t mr__pending_bytes(const mr__pending_t *p); /* returns the sum of the parts' sizes */

/* Appends a part of `size` bytes, which is the caller's number `unit`.  Returns its handle;
   MR_PENDING_NONE without memory. */
int32_t mr__pending_add(mr__pending_t *p, int32_t unit, const mr_object_t *o, int64_t at,
                        int64_t size);
void mr__pending_remove(mr__pending_t *p, int32_t handle);

/* Return the unit of the part that was added first; of the first one of the object at byte `at` or
   behind; of the last one of the object before byte `at`.  MR_PENDING_NONE without one. */
int32_t mr__pending_first(const mr__pending_t *p);
int32_t mr__pending_from(const mr__pending_t *p, const mr_object_t *o, int64_t at);
int32_t mr__pending_before(const mr__pending_t *p, const mr_object_t *o, int64_t at);

#endif
