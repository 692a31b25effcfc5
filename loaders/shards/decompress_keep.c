/* A decompressed file is checked each time it is found.  Reading all of it would delay every start
   by minutes for a terabyte, so it is trusted while its size, its time and its first and last bytes
   are those it was made with, as the index of any shard is; if they are not, its digest decides:
   it was copied, or it is damaged.

   The check gets its name before the file does, so that no file is without one.  Its own time is
   that of the file's last use: processes that share a folder can have different states of a shard,
   and open their files again while they run.  A list of its states lies with a shard's files,
   since looking through a folder of many shards for each of them would take long. */
#include "loaders/shards/decompress_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/xio.h"
#include "loaders/shards/shard_index.h"
#include "loaders/shards/shard_place.h"

enum { CHUNK = 1 << 18, STATE_DIGITS = 16, STATES_MAX = 1 << 20 /* bytes of their list */ };
#define RAW ".raw"
#define SUM ".sum"
static const char MAGIC[8] = "MRRAW001";

typedef struct raw_sum {
  char magic[8];
  mr_shard_id_t id;         /* of the file */
  uint64_t state, contents; /* as in mr__raw_note */
  uint64_t digest;          /* XXH3-64 of the members before */
} raw_sum_t;

_Static_assert(sizeof(raw_sum_t) == 56, "no padding is written");

static bool raw_sum_path(const char *path, char out[MR_PATH_MAX]) {
  return snprintf(out, MR_PATH_MAX, "%s" SUM, path) < MR_PATH_MAX;
}

static uint64_t raw_sum_digest(const raw_sum_t *s) {
  return XXH3_64bits(s, offsetof(raw_sum_t, digest));
}

/* MR_END if it is missing, damaged or not to be believed; MR_ERR_NOMEM. */
static mr_err_t raw_sum_read(const char *path, const mr_trust_t *trust, raw_sum_t *out,
                             mr_diag_t *diag) {
  mr_diag_t why = {0};
  void *data;
  size_t n;
  mr_err_t e = mr_read_trusted(path, sizeof *out, MR_KEPT_SHARD, trust, &data, &n, &why);
  if (e < 0) return e == MR_ERR_NOMEM ? mr_diag_relay(diag, e, &why) : MR_END;
  bool whole = n == sizeof *out;
  if (whole) memcpy(out, data, sizeof *out);
  free(data);
  whole &= !memcmp(out->magic, MAGIC, sizeof MAGIC) && out->digest == raw_sum_digest(out);
  return whole ? MR_OK : MR_END;
}

static mr_err_t raw_sum_write(const char *path, const mr_trust_t *trust, raw_sum_t *s,
                              mr_diag_t *diag) {
  char to[MR_PATH_MAX];
  if (!raw_sum_path(path, to)) return mr_fail(diag, MR_ERR_IO, "%s: the path is too long", path);
  memcpy(s->magic, MAGIC, sizeof MAGIC);
  s->digest = raw_sum_digest(s);
  return mr_write_own(to, s, sizeof *s, trust, diag);
}

/* Whether all bytes of a file have this digest; false too if they cannot be read. */
static bool raw_has_contents(int fd, uint64_t state, uint64_t contents) {
  XXH3_state_t *h = XXH3_createState();
  uint8_t *chunk = malloc(CHUNK);
  ssize_t got = h && chunk ? 1 : -1;
  if (h) XXH3_64bits_reset_withSeed(h, state);
  for (off_t at = 0; got > 0;) {
    got = pread(fd, chunk, CHUNK, at);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      XXH3_64bits_update(h, chunk, (size_t)got), at += got;
  }
  bool same = got == 0 && XXH3_64bits_digest(h) == contents;
  XXH3_freeState(h), free(chunk);
  return same;
}

mr_err_t mr__raw_find(const char *path, uint64_t state, int64_t bytes, const mr_trust_t *trust,
                      bool *sound, mr_diag_t *diag) {
  char sum_path[MR_PATH_MAX];
  raw_sum_t sum;
  mr_shard_id_t now;
  *sound = false;
  if (!raw_sum_path(path, sum_path)) return MR_OK;
  mr_err_t e = raw_sum_read(sum_path, trust, &sum, diag);
  if (e != MR_OK || sum.state != state) return e < 0 ? e : MR_OK;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0 && mr_is_shortage(errno)) return mr_open_short(path, errno, diag);
  if (fd < 0) return MR_OK;
  bool there = !mr_distrust(fd, MR_KEPT_SHARD, trust) && mr_shard_id_of(fd, path, &now, NULL) >= 0;
  bool same = there && !memcmp(&now, &sum.id, sizeof now);
  *sound = same || (there && now.size == sum.id.size && raw_has_contents(fd, state, sum.contents));
  close(fd);
  if (*sound && bytes >= 0 && now.size != bytes) *sound = false; /* the index.json has changed */
  sum.id = now;
  if (same)
    utimensat(AT_FDCWD, sum_path, NULL, 0); /* not of another user's file: it may then be removed */
  else if (*sound)
    raw_sum_write(path, trust, &sum, NULL); /* without it the next process reads the file again */
  return MR_OK;
}

/* The list of the states that a file's source has had: a line of STATE_DIGITS for each. */
static bool raw_states_path(const char *path, char out[MR_PATH_MAX]) {
  size_t n = strlen(path) - STATE_DIGITS - strlen(RAW);
  return snprintf(out, MR_PATH_MAX, "%.*sstates", (int)n, path) < MR_PATH_MAX;
}

/* Adds the state in path's name to the list.  Without it the file will not be removed.  A list that
   others may have written, or a pipe, stays as it is. */
static void raw_states_add(const char *path, const mr_trust_t *trust) {
  char list[MR_PATH_MAX], line[STATE_DIGITS + 2];
  if (!raw_states_path(path, list)) return;
  snprintf(line, sizeof line, "%.*s\n", STATE_DIGITS,
           path + strlen(path) - STATE_DIGITS - strlen(RAW));
  int fd = open(list, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) return;
  if (!mr_distrust(fd, MR_KEPT_SHARD, trust)) {
    mr_trust_own(fd, trust);
    (void)!write(fd, line, strlen(line)); /* at once, since other processes add theirs */
  }
  close(fd);
}

mr_err_t mr__raw_note(const char *made, const char *path, uint64_t state, uint64_t contents,
                      const mr_trust_t *trust, mr_diag_t *diag) {
  raw_sum_t sum = {.state = state, .contents = contents};
  int fd = open(made, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && mr_is_shortage(errno)) return mr_open_short(made, errno, diag);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", made, strerror(errno));
  mr_trust_own(fd, trust);
  mr_err_t e = mr_shard_id_of(fd, made, &sum.id, diag);
  close(fd);
  if (e >= 0) raw_states_add(path, trust);
  return e < 0 ? e : raw_sum_write(path, trust, &sum, diag);
}

/* ---- earlier states ---- */

static bool is_unused(const char *sum_path, int64_t now) {
  struct stat st;
  return lstat(sum_path, &st) == 0 && now - st.st_mtim.tv_sec > MR__KEEP_S;
}

/* Removes the file at path, its indexes and, last, its check, so that a process that is killed here
   leaves what the next one removes. */
static void raw_remove(const char *path, const char *sum_path, const char *where) {
  char place[MR_SHARD_PLACE_MAX];
  for (int i = 0; mr_shard_place(path, where, i, place); i++) unlink(place);
  unlink(path);
  unlink(sum_path);
}

void mr__raw_prune(const char *path, const char *where, const mr_trust_t *trust) {
  char list[MR_PATH_MAX], other[MR_PATH_MAX], sum[MR_PATH_MAX];
  struct stat st;
  void *text;
  size_t n, stem = strlen(path) - STATE_DIGITS - strlen(RAW);
  if (!raw_sum_path(path, sum) || stat(sum, &st) < 0 || !raw_states_path(path, list) ||
      mr_read_trusted(list, STATES_MAX, MR_KEPT_SHARD, trust, &text, &n, NULL) < 0)
    return;
  int64_t now = st.st_mtim.tv_sec; /* by the clock that gives the other files their times */
  for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    if (strlen(line) != STATE_DIGITS || strspn(line, "0123456789abcdef") != STATE_DIGITS) continue;
    snprintf(other, sizeof other, "%.*s%s" RAW, (int)stem, path, line);
    if (strcmp(other, path) && raw_sum_path(other, sum) && is_unused(sum, now))
      raw_remove(other, sum, where);
  }
  free(text);
}
