/* Every file and folder that a run keeps for the next one, each in turn made writable by others: it
   is not used without a word, and what is read stays the same.  What is kept is found by walking
   the folders, so that a cache or a format added later is tested too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/trusted.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/loaders/origin.h"
#include "tests/port.h"

enum { KEPT_MOST = 600 };

static char dir[64];
static origin_t origin;
static void *shard;
static program_t p;

static const char *in_dir(const char *name) {
  static char path[8][160];
  static int at;
  at = (at + 1) % 8;
  snprintf(path[at], sizeof path[at], "%s/%s", dir, name);
  return path[at];
}

static int setup(void **state) {
  char command[512];
  size_t n;
  strcpy(dir, "/tmp/mr-trusted-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  for (const char *const *v = (const char *const[]){"http_proxy", "all_proxy", "ALL_PROXY", NULL};
       *v; v++)
    unsetenv(*v);
  setenv("XDG_CACHE_HOME", in_dir("home"), 1);
  RUN(&p, "pack", "synthetic n=64", "-o", in_dir("packed"), "--records", "64");
  if (p.status) return fprintf(stderr, "%s", p.err), -1;
  if (mr_read_file(in_dir("packed/shard-00000.tar"), (size_t)1 << 26, &shard, &n, NULL) < 0)
    return -1;
  origin_open(&origin, shard, n, 3);
  snprintf(command, sizeof command, "cd %s && cp packed/shard-00000.tar s.tar", dir);
  return system(command);
}

static int teardown(void **state) {
  origin_close(&origin);
  free(shard);
  return program_forget(dir);
}

/* Reads all records, and returns the ledger (heap), NULL if the run failed. */
static char *ledger_of(const char *source) {
  char text[700];
  void *data;
  size_t n;
  snprintf(text, sizeof text, "%s ! batch 16 ! ledger path=%s", source, in_dir("ledger"));
  unlink(in_dir("ledger"));
  RUN(&p, "run", text);
  if (p.status || mr_read_file(in_dir("ledger"), (size_t)1 << 20, &data, &n, NULL) < 0) return NULL;
  return data;
}

/* ---- what is kept ---- */

static char kept[KEPT_MOST][300];
static int n_kept;

/* Notes all below a folder; of the 256 folders of a cache only those that hold something. */
static bool note_below(const char *folder) {
  char path[300];
  bool any = false;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%.100s", folder, e->d_name);
    assert_int_equal(lstat(path, &st), 0);
    if (S_ISDIR(st.st_mode) && !note_below(path)) continue;
    assert_true(n_kept < KEPT_MOST);
    strcpy(kept[n_kept++], path);
    any = true;
  }
  if (d) closedir(d);
  return any;
}

static bool others_may_write(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && st.st_mode & (S_IWGRP | S_IWOTH);
}

/* Named in a message, or replaced; an index and what lies in a cache may be either. */
static void each_kept_file_is_doubted(const char *source, const char *folder, int least) {
  char *right = ledger_of(source);
  if (!right) fail_msg("%s: %s", source, p.err);
  n_kept = 0;
  note_below(folder);
  if (n_kept < least) fail_msg("%s keeps %d files and folders", source, n_kept);
  for (int i = 0; i < n_kept; i++) {
    struct stat st;
    if (lstat(kept[i], &st)) continue; /* went with one before */
    assert_int_equal(chmod(kept[i], (st.st_mode & 07777) | S_IWOTH), 0);
    char *got = ledger_of(source);
    bool said = strstr(p.err, "other users may write") != NULL;
    if (p.status && !said) fail_msg("%s: %s", kept[i], p.err);
    if (!p.status && (!got || strcmp(got, right))) fail_msg("%s: another ledger", kept[i]);
    if (!p.status && !said && others_may_write(kept[i]))
      fail_msg("%s: used without a word: %s", kept[i], p.err);
    free(got);
    if (!lstat(kept[i], &st)) assert_int_equal(chmod(kept[i], st.st_mode & 0755), 0);
  }
  free(right);
}

static void no_file_of_a_cache_of_blocks_is_used_that_others_may_write(void **state) {
  char source[400];
  snprintf(source, sizeof source,
           "tar http://127.0.0.1:%d/s.tar fields=image.npy:image:npy,cls:label:label cache=%s "
           "cache-block=65536",
           origin.port, in_dir("cache"));
  each_kept_file_is_doubted(source, in_dir("cache"), 4); /* used, an index, an object, its folder */
  assert_int_equal(chmod(in_dir("cache"), 0777), 0);
  assert_null(ledger_of(source));
  assert_non_null(strstr(p.err, "other users may write there"));
  assert_int_equal(chmod(in_dir("cache"), 0755), 0);
}

static void no_index_is_used_that_others_may_write(void **state) {
  char source[400];
  snprintf(source, sizeof source, "tar %s fields=image.npy:image:npy,cls:label:label index=%s",
           in_dir("s.tar"), in_dir("indexes"));
  each_kept_file_is_doubted(source, in_dir("indexes"), 1);
}

/* Whatever the umask, the next run takes what this one has kept. */
static void a_umask_of_002_keeps_nothing_that_is_doubted(void **state) {
  char source[400];
  snprintf(source, sizeof source,
           "tar http://127.0.0.1:%d/s.tar fields=image.npy:image:npy,cls:label:label cache=%s",
           origin.port, in_dir("umask"));
  mode_t before = umask(002);
  char *right = ledger_of(source);
  umask(before);
  if (!right) fail_msg("%s", p.err);
  free(right);
  n_kept = 0;
  note_below(in_dir("umask"));
  if (n_kept < 4) fail_msg("%d kept, the first %s", n_kept, kept[0]);
  for (int i = 0; i < n_kept; i++)
    if (others_may_write(kept[i])) fail_msg("%s", kept[i]);
  char *again = ledger_of(source);
  if (!again || strstr(p.err, "may write")) fail_msg("%s", p.err);
  free(again);
}

static void a_folder_of_a_group_is_believed_by_a_word(void **state) {
  char source[400];
  snprintf(source, sizeof source,
           "tar http://127.0.0.1:%d/s.tar fields=image.npy:image:npy,cls:label:label cache=%s",
           origin.port, in_dir("team"));
  assert_int_equal(mkdir(in_dir("team"), 0770), 0);
  assert_int_equal(chmod(in_dir("team"), 0770), 0);
  assert_null(ledger_of(source));
  assert_non_null(strstr(p.err, "`shared` believes the folder of a group"));
  strcat(source, " shared");
  char *got = ledger_of(source);
  if (!got) fail_msg("%s", p.err);
  free(got);
  assert_int_equal(chmod(in_dir("team"), 0777), 0); /* of no group */
  assert_null(ledger_of(source));
}

/* ---- the rule ---- */

static void the_rule_names_its_reason(void **state) {
  static const struct {
    mode_t mode;
    bool group;
    const char *why;
  } row[] = {{0600, false, NULL},
             {0644, false, NULL},
             {0664, false, "other users may write it"},
             {0646, false, "other users may write it"},
             {0664, true, NULL},
             {0666, true, "other users may write it"},
             {0600, true, NULL}};
  int fd = open(in_dir("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const mr_trust_t more = {.group = row[i].group};
    assert_int_equal(fchmod(fd, row[i].mode), 0);
    const char *why = mr_distrust(fd, &more);
    if (!why != !row[i].why || (why && strcmp(why, row[i].why)))
      fail_msg("row %zu: %s", i, why ? why : "believed");
    assert_true(mr_trust_own(fd, &more));
    assert_null(mr_distrust(fd, &more));
  }
  close(fd);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_string_equal(mr_distrust(ends[0], NULL), "it is no regular file");
  close(ends[0]), close(ends[1]);
  if (geteuid() != 0) return;
  assert_int_equal(chown(in_dir("file"), 65534, 65534), 0);
  fd = open(in_dir("file"), O_RDONLY | O_CLOEXEC);
  assert_int_equal(fchmod(fd, 0644), 0);
  assert_string_equal(mr_distrust(fd, NULL), "it belongs to another user");
  assert_null(mr_distrust(fd, &(mr_trust_t){.has_owner = true, .owner = 65534}));
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_file_of_a_cache_of_blocks_is_used_that_others_may_write),
      cmocka_unit_test(no_index_is_used_that_others_may_write),
      cmocka_unit_test(a_umask_of_002_keeps_nothing_that_is_doubted),
      cmocka_unit_test(a_folder_of_a_group_is_believed_by_a_word),
      cmocka_unit_test(the_rule_names_its_reason),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
