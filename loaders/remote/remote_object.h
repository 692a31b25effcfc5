/* The file of one object in a cache: the object's blocks at their own places, with holes for those
   that it lacks, then a table with an entry for each block, then a tail that says of which state of
   which object it is, in blocks of which size.

   An entry is written after its block, and names the block's digest, in which object, place and
   length are mixed: neither a kill between the two, nor a power cut, nor a foreign file gives a
   wrong byte.  Each removal of a block changes its entry before its bytes go: a run that has
   verified a block once, and finds the same entry after a later read, has read the same bytes.

   Implemented in remote_object.c.  Every call may be made by any thread; those that change a block
   expect its lock. */
#ifndef MR_LOADERS_REMOTE_REMOTE_OBJECT_H
#define MR_LOADERS_REMOTE_REMOTE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/err.h"
#include "base/trusted.h"

enum {
  MR__OBJECT_NAME = 80,
  MR__OBJECT_FOLDERS = 256 /* 00 to ff, into which the files are spread */
};

/* Writes the name of the file of an object whose state has that hash, below the cache's folder,
   FOLDER/NAME. */
void mr__object_name(const uint64_t state[2], int64_t block, char out[MR__OBJECT_NAME]);

/* Reads the name without its folder; false if it is not the name of such a file. */
bool mr__object_name_parse(const char *name, uint64_t state[2], int64_t *block);

/* Returns the size of the object whose file has `bytes` bytes, up to 15 more. */
int64_t mr__object_bytes(int64_t bytes, int64_t block);

/* What the table says of a block. */
typedef struct mr__block_entry {
  uint64_t digest;  /* 0: the block is not there */
  uint64_t changes; /* how often it has been removed */
} mr__block_entry_t;

/* A part of the file: where block `at` lies, and how long it is. */
typedef struct mr__object_file {
  int fd;
  int64_t size, block; /* of the object, of a block */
  uint64_t state[2];
  mr_trust_t trust; /* whose files are believed */
} mr__object_file_t;

/* Opens the file at path; f->fd is -1 without one, or if what lies there is no such file, or one
   that is not to be believed. */
void mr__object_open(mr__object_file_t *f, const char *path);

/* Makes it: writes it under the name `temporary`, and places it at path, unless another run has
   done so, whose file is opened then.  What lies at path and is no such file is removed.  MR_ERR_IO
   with a sentence; f->fd is -1 then. */
mr_err_t mr__object_make(mr__object_file_t *f, const char *path, const char *temporary,
                         mr_diag_t *diag);

/* Whether the file still has its name. */
bool mr__object_linked(const mr__object_file_t *f);

/* Locks the block at byte `at` until unlock; false if another run has it, which is not waited for.
   A file system without such locks locks nothing. */
bool mr__object_lock(const mr__object_file_t *f, int64_t at);
void mr__object_unlock(const mr__object_file_t *f, int64_t at);

/* Reads or writes an entry; false: the file cannot be read there, or written. */
bool mr__object_entry(const mr__object_file_t *f, int64_t at, mr__block_entry_t *out);
bool mr__object_set(const mr__object_file_t *f, int64_t at, mr__block_entry_t e);

/* Returns the digest of a block's n bytes, never 0. */
uint64_t mr__object_digest(const mr__object_file_t *f, int64_t at, const void *data, int64_t n);

/* Reads n bytes of the object from byte `at`; false if they are not all there. */
bool mr__object_read(const mr__object_file_t *f, int64_t at, void *to, int64_t n);

/* Writes a block and its entry.  MR_ERR_IO: neither stays. */
mr_err_t mr__object_write(const mr__object_file_t *f, int64_t at, const void *data, int64_t n,
                          mr__block_entry_t was, mr_diag_t *diag);

/* Makes a hole of n bytes from `at`, whose room the disk gets back. */
void mr__object_punch(const mr__object_file_t *f, int64_t at, int64_t n);

/* Whether the file system that holds fd can make holes. */
bool mr__object_punches(int fd);

/* Calls fn for each block that is there, in order.  False if fn returns false, or the table cannot
   be read. */
bool mr__object_blocks(const mr__object_file_t *f, bool (*fn)(void *ctx, int64_t at, int64_t n),
                       void *ctx);

/* Makes holes where killed runs have left bytes without an entry.  No other run may use the file.
 */
void mr__object_tidy(const mr__object_file_t *f);

#endif
