/* Belady's rule: of the units that a cache holds, drop the one whose next use lies furthest in the
   future.  The rule needs to know the future, and a stream whose records are a function of their
   position does: uses are announced in order, long before they are taken.

   A unit is a number from 0 on.  A use beyond what is known counts as never.  A unit that is
   not in the cache when it is used is taken in only if it is used again before one that is there:
   no other rule has more hits (Belady 1966; with such a bypass too).  One thread at a time. */
#ifndef MR_LOADERS_REMOTE_BELADY_H
#define MR_LOADERS_REMOTE_BELADY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_BELADY_NONE = UINT32_MAX };

typedef struct mr_belady mr_belady_t;

/* A cache of `capacity` units, empty; 0: uses are only kept in order.  The caller ends it with
   mr_belady_free.  NULL without memory. */
mr_belady_t *mr_belady_new(uint32_t capacity);
void mr_belady_free(mr_belady_t *b); /* NULL is fine */

/* Appends a use.  False without memory; nothing is changed then. */
bool mr_belady_tell(mr_belady_t *b, uint32_t unit);

/* Returns how many uses are known and not taken. */
int64_t mr_belady_known(const mr_belady_t *b);

/* What the next use does to the cache. */
typedef struct mr_belady_use {
  uint32_t unit;
  bool hit;      /* the cache held it */
  bool kept;     /* the cache holds it now */
  uint32_t lost; /* the unit that it replaced; MR_BELADY_NONE: none */
} mr_belady_use_t;

/* Takes the next use.  False if none is known. */
bool mr_belady_take(mr_belady_t *b, mr_belady_use_t *out);

/* Returns the uses that will be taken before the next one of this unit; -1 if none is known. */
int64_t mr_belady_distance(const mr_belady_t *b, uint32_t unit);

/* Puts a unit into the cache or out of it, as found at the beginning or lost later.  hold returns
   false if the cache is full, or without memory. */
bool mr_belady_hold(mr_belady_t *b, uint32_t unit);
void mr_belady_drop(mr_belady_t *b, uint32_t unit);

/* Keeps a unit that is not in the cache out of it from now on, or with `barred` false no longer;
   its uses stay known and in order.  False without memory. */
bool mr_belady_bar(mr_belady_t *b, uint32_t unit, bool barred);
bool mr_belady_holds(const mr_belady_t *b, uint32_t unit);

#endif
