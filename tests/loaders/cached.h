/* The blocks of a cache's folder, read by a few lines of its own: for each file its tail says how
   large the object and its blocks are, and its table which blocks are there. */
#ifndef MR_TESTS_LOADERS_CACHED_H
#define MR_TESTS_LOADERS_CACHED_H

#include <fcntl.h>
#include <stdio.h>

#include "tests/loaders/shards.h"

typedef struct cached_block {
  char path[512]; /* of the object's file */
  int64_t at, n;  /* where the block lies there */
  int64_t entry;  /* where its 16 bytes of the table do */
} cached_block_t;

/* Calls fn for each block of one file; returns how many there are. */
static inline int each_cached_of(const char *path, void (*fn)(void *, const cached_block_t *),
                                 void *ctx) {
  struct {
    char magic[8];
    uint64_t state[2];
    int64_t size, block;
    uint64_t digest;
  } tail;
  struct stat st;
  int n = 0, fd = open(path, O_RDONLY | O_NOFOLLOW);
  if (fd < 0) return 0;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof tail &&
      pread(fd, &tail, sizeof tail, st.st_size - (off_t)sizeof tail) == sizeof tail &&
      !memcmp(tail.magic, "mrobject", 8)) {
    cached_block_t b = {.entry = (tail.size + 15) / 16 * 16};
    snprintf(b.path, sizeof b.path, "%s", path);
    for (; b.at < tail.size; b.at += tail.block, b.entry += 16) {
      uint64_t digest = 0;
      b.n = tail.size - b.at < tail.block ? tail.size - b.at : tail.block;
      if (pread(fd, &digest, 8, b.entry) != 8 || !digest) continue;
      n++;
      if (fn) fn(ctx, &b);
    }
  }
  close(fd);
  return n;
}

/* The same for all files of a folder in the test's folder. */
static inline int each_cached(const char *cache, void (*fn)(void *, const cached_block_t *),
                              void *ctx) {
  char command[256], path[512];
  int n = 0;
  snprintf(command, sizeof command, "find '%s' -name '*.object' | sort", in_folder(cache));
  FILE *list = popen(command, "r");
  while (list && fgets(path, sizeof path, list)) {
    path[strcspn(path, "\n")] = 0;
    n += each_cached_of(path, fn, ctx);
  }
  if (list) pclose(list);
  return n;
}

static inline int count_cached(const char *cache) { return each_cached(cache, NULL, NULL); }

#endif
