/* What the tests of sharded sources share: a folder, files in it, and a stage made by hand whose
   records have any number of fields. */
#ifndef MR_TESTS_LOADERS_SHARDS_H
#define MR_TESTS_LOADERS_SHARDS_H

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/err.h"
#include "loaders/shards/shard_index.h"
#include "tests/loaders/image.h"
#include "tests/random.h"
#include "tests/stage.h"

static char folder[64];

static inline const char *in_folder(const char *name) {
  static char path[8][160];
  static int at;
  at = (at + 1) % 8;
  snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
  return path[at];
}

/* Shards are opened by several threads, each of which may send a notice.  A test reads these when
   no shard is being opened. */
static pthread_mutex_t notices_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_notices;
static char last_notice[1024];
static inline void count_notice(void *arg, const char *text) {
  pthread_mutex_lock(&notices_lock);
  n_notices++;
  snprintf(last_notice, sizeof last_notice, "%s", text);
  pthread_mutex_unlock(&notices_lock);
}

/* The cache lies in the folder too, so that no test finds another's index. */
static inline int make_folder(void **state) {
  strcpy(folder, "/tmp/millrace-shards-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  setenv("XDG_CACHE_HOME", in_folder("cache"), 1);
  mr_notice_to(count_notice, NULL);
  return 0;
}

static inline int remove_folder(void **state) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static inline void write_file(const char *name, const void *data, size_t n) {
  FILE *o = fopen(in_folder(name), "wb");
  assert_non_null(o);
  assert_int_equal(fwrite(data, 1, n, o), n);
  assert_int_equal(fclose(o), 0);
}

/* Sets the digest of an index whose rows a test has changed, as another program could. */
static inline void seal_index(mr_shard_index_t *x) {
  uint64_t *digest = (uint64_t *)((char *)x->block + 88);
  *digest = 0;
  *digest = XXH3_64bits(x->block, x->bytes);
}

/* Lets the process open `more` files; returns the limit, for end_shortage. */
static inline struct rlimit begin_shortage(int more) {
  struct rlimit was, now;
  int fd[8];
  for (int i = 0; i <= more; i++) assert_true((fd[i] = dup(0)) >= 0);
  for (int i = 0; i <= more; i++) close(fd[i]);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
  now = was, now.rlim_cur = (rlim_t)fd[more];
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
  return was;
}

static inline void end_shortage(struct rlimit was) {
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* A stage whose plan has run.  A failed plan leaves the sentence in h->diag. */
static inline mr_err_t shards_plan(hand_t *h, const mr_stage_def_t *def,
                                   const char *const *settings) {
  return hand_plan(h, def, NULL, settings);
}

static inline void shards_close(hand_t *h) { hand_close(h); }

/* A burst of records with room where fetch writes. */
typedef struct burst {
  mr_rec_t rec[MR_BURST];
  mr_value_t value[MR_BURST][MR_FIELDS_MAX];
  char *room[MR_BURST][MR_FIELDS_MAX];
} burst_t;

static inline burst_t *burst_new(const mr_stage_t *s) {
  burst_t *b = calloc(1, sizeof *b);
  assert_non_null(b);
  for (int i = 0; i < MR_BURST; i++)
    for (int f = 0; f < s->out_spec[0].n_fields; f++)
      if (s->writes >> f & 1)
        b->room[i][f] = aligned_alloc(64, mr_field_bytes(&s->out_spec[0].field[f]) / 64 * 64 + 64);
  return b;
}

static inline void burst_free(burst_t *b) {
  for (int i = 0; i < MR_BURST; i++)
    for (int f = 0; f < MR_FIELDS_MAX; f++) free(b->room[i][f]);
  free(b);
}

static inline mr_err_t burst_fetch(hand_t *h, int worker, const int64_t *index, int n, burst_t *b) {
  h->diag = (mr_diag_t){0};
  for (int i = 0; i < n; i++) {
    b->rec[i] = (mr_rec_t){.field = b->value[i]};
    for (int f = 0; f < MR_FIELDS_MAX; f++) b->value[i][f] = (mr_value_t){.data = b->room[i][f]};
  }
  return h->s.def->source->fetch(&h->s, worker, index, n, b->rec);
}

/* Plans with these settings and wants a failure whose sentence has the piece. */
static inline void want_refused(const mr_stage_def_t *def, const char *const *settings,
                                const char *piece) {
  hand_t h;
  mr_err_t e = shards_plan(&h, def, settings);
  if (e >= 0 || !strstr(h.diag.text, piece))
    fail_msg("want '%s', got %d '%s'", piece, e, h.diag.text);
  shards_close(&h);
}

#endif
