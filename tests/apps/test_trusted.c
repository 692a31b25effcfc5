/* Every kind of file that a run keeps for the next one, each file and folder of it in turn as
   another user or a broken disk could leave it: what is read stays the same, and what is not
   believed is said, or made anew.  The kinds are the rows of base/trusted.h, and their files are
   found by walking the folders, so that a kind or a file that is added later is attacked too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/feature.h"
#include "base/trusted.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/kept.h"
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

/* The shards of MDS that are compressed as a whole are decompressed into a file that is kept. */
static bool pack_compressed(void) {
  char command[900];
  RUN(&p, "pack", "synthetic n=64", "-o", in_dir("mds"), "--format", "mds");
  if (p.status) return false;
  snprintf(
      command, sizeof command,
      "cd %s && rm *.mrindex && gzip -n shard.00000.mds && n=$(wc -c < shard.00000.mds.gz) && "
      "sed -i 's/\"compression\":null/\"compression\":\"gz\"/; s/\"zip_data\":null/\"zip_data\":"
      "{\"basename\":\"shard.00000.mds.gz\",\"bytes\":'$n',\"hashes\":{}}/' index.json",
      in_dir("mds"));
  return system(command) == 0;
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
  snprintf(command, sizeof command,
           "cd %s && cp packed/shard-00000.tar s.tar && printf "
           "'file_name,label\\ncat/1.jpg,cat\\ndog/2.jpg,dog\\n' > list.txt",
           dir);
  return system(command) || !pack_compressed();
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

/* ---- the kinds ---- */

static const char *source_of(char text[700], const char *form, ...) {
  va_list args;
  va_start(args, form);
  vsnprintf(text, 700, form, args);
  va_end(args);
  return text;
}

#define FIELDS "fields=image.npy:image:npy,cls:label:label"

/* The results of a run that keeps files of a kind in `folder`, or uses those that are there: a text
   (heap), NULL if the run failed, which p tells. */
static char *blocks(const char *folder) {
  char text[700];
  return ledger_of(
      source_of(text, "tar http://127.0.0.1:%d/s.tar " FIELDS " cache=%s", origin.port, folder));
}

static char *indexes(const char *folder) {
  char text[700];
  return ledger_of(source_of(text, "tar %s " FIELDS " index=%s", in_dir("s.tar"), folder));
}

static char *listings(const char *folder) {
  char text[700];
  return ledger_of(source_of(text, "folder http://127.0.0.1:%d/p list=%s index=%s", origin.port,
                             in_dir("list.txt"), folder));
}

static char *shards(const char *folder) {
  char text[700];
  return ledger_of(source_of(text, "mds %s index=%s", in_dir("mds"), folder));
}

static char *kernels(const char *folder) {
  setenv("MILLRACE_KERNELS", folder, 1);
  RUN(&p, "run",
      "synthetic n=64 ! shuffle seed=1 ! normalize ! batch 16 drop-remainder ! train-step "
      "model=mlp "
      "hidden=8 threads=1 device=opencl steps=2");
  unsetenv("MILLRACE_KERNELS");
  return p.status ? NULL : strdup(p.out);
}

/* The page of a run that is resumed. */
static char *addresses(const char *folder) {
  char graph[160];
  static const char text[] =
      "let run = x\n"
      "synthetic n=64 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 name=b ! train-step "
      "name=train model=mlp hidden=8 threads=1 steps=4 checkpoint-every=4\n"
      "train.metrics ! web port=0\n"
      "train.state ! checkpoint dir=$run/checkpoints\n";
  snprintf(graph, sizeof graph, "%s", in_dir("page.mr"));
  if (mr_write_file(graph, text, strlen(text), NULL) < 0) return NULL;
  if (access(folder, F_OK))
    RUN(&p, "train", "--graph", graph, "--run-dir", folder);
  else
    RUN(&p, "train", "--run-dir", folder, "--resume");
  return p.status ? NULL : strdup("trained");
}

static char *plugins(const char *folder) {
  char file[200], command[600];
  snprintf(file, sizeof file, "%s/whole.so", folder);
  snprintf(command, sizeof command, "mkdir -p %s && cp %s/whole.so %s", folder, MR_PLUGINS, file);
  if (access(folder, F_OK) && system(command)) return NULL;
  RUN(&p, "--plugin", file, "run", "synthetic n=64 ! batch 16 ! null");
  return p.status ? NULL : strdup(p.out);
}

/* A driver's own compiler is not built for a sanitizer. */
static bool opencl_works(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#endif
  RUN(&p, "doctor");
  return strstr(p.out, "\n  opencl:0 ") != NULL;
}

typedef struct kind {
  const char *needs;                    /* libraries; NULL: none */
  bool (*works)(void);                  /* whether this machine has what is needed; NULL: always */
  char *(*results)(const char *folder); /* NULL: of a device that only the test below stands for */
  const char *elsewhere;
  const char *only;   /* an ending of the files that are attacked; NULL: all, and their folders */
  const char *unread; /* an ending of files that these runs do not read: used when others go */
  int least;          /* files and folders that are kept */
} kind_t;

static const kind_t kinds[MR_KEPTS] = {
    [MR_KEPT_BLOCKS] = {.results = blocks, .least = 4}, /* used, index, object, its folder */
    [MR_KEPT_INDEX] = {.results = indexes, .least = 1},
    [MR_KEPT_LISTING] = {.results = listings, .least = 1},
    [MR_KEPT_SHARD] = {.needs = "ZSTD",
                       .results = shards,
                       .unread = ".states",
                       .least = 3}, /* shard, sum, index */
    [MR_KEPT_KERNEL] = {.needs = "OPENCL", .works = opencl_works, .results = kernels, .least = 1},
    [MR_KEPT_TUNING] = {.elsewhere = "tests/model/test_cuda_tuned.c"},
    [MR_KEPT_ADDRESS] = {.needs = "MICROHTTPD", .results = addresses, .only = ".url", .least = 1},
    [MR_KEPT_PLUGIN] = {.results = plugins, .least = 1},
};

static const char *base_name(const char *path) { return strrchr(path, '/') + 1; }

static bool ends_in(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n > k && !strcmp(text + n - k, end);
}

/* One attack on one file of the kept folder: what is read is the same, or the run is refused by a
   sentence about it. */
static void try_attack(mr_kept_t kind, const char *folder, const char *path, kept_attack_t how,
                       const char *right) {
  const kind_t *k = &kinds[kind];
  struct stat st;
  bool silent = (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && !mr_kept_defs[kind].folders) ||
                (k->unread && ends_in(path, k->unread));
  if (kind ==
      MR_KEPT_PLUGIN) /* its name is the user's; in a sticky folder no other user replaces it */
    silent |= how == KEPT_LINK || how == KEPT_STICKY;
  bool there = kept_attack(path, how);
  if (!there) return;
  char *got = k->results(folder);
  bool said = strstr(p.err, base_name(path)) || strstr(p.err, folder);
  if (p.status > 2 || p.status < 0)
    fail_msg("%s, %s: status %d: %s", path, kept_attack_name[how], p.status, p.err);
  if (p.status && !said) fail_msg("%s, %s: %s", path, kept_attack_name[how], p.err);
  if (!p.status && (!got || strcmp(got, right)))
    fail_msg("%s, %s: other results", path, kept_attack_name[how]);
  if (!p.status && !said && !silent && !kept_is_sound(path))
    fail_msg("%s, %s: used without a word: %s", path, kept_attack_name[how], p.err);
  free(got);
}

static void attack_kind(mr_kept_t kind) {
  const kind_t *k = &kinds[kind];
  char folder[160], copy[160], command[600];
  static char at[KEPT_MOST][300];
  snprintf(folder, sizeof folder, "%s", in_dir("kept"));
  snprintf(copy, sizeof copy, "%s", in_dir("copy"));
  char *right = k->results(folder);
  if (!right) fail_msg("%s: %s", mr_kept_defs[kind].name, p.err);
  char *again = k->results(folder);
  if (!again || strcmp(again, right)) fail_msg("%s: %s", mr_kept_defs[kind].name, p.err);
  snprintf(command, sizeof command, "rm -rf %s && mv %s %s", copy, folder, copy);
  assert_int_equal(system(command), 0);
  n_kept = 0;
  note_below(copy);
  int n = n_kept;
  if (n < k->least) fail_msg("%s: %d files and folders", mr_kept_defs[kind].name, n);
  memcpy(at, kept, sizeof at);
  for (int i = -1; i < n; i++)
    for (kept_attack_t how = 0; how < KEPT_ATTACKS; how++) {
      char path[300];
      if (i < 0 && how == KEPT_LINK) continue; /* what a user names may be one */
      if (k->only && (i < 0 || !ends_in(at[i], k->only))) continue;
      snprintf(command, sizeof command, "rm -rf %s && cp -a %s %s", folder, copy, folder);
      assert_int_equal(system(command), 0);
      snprintf(path, sizeof path, "%s%.140s", folder, i < 0 ? "" : at[i] + strlen(copy));
      try_attack(kind, folder, path, how, right);
    }
  free(right), free(again);
  snprintf(command, sizeof command, "rm -rf %s %s %s.aside", folder, copy, folder);
  assert_int_equal(system(command), 0);
}

static void kept_files_that_another_user_may_have_written_are_not_used(void **state) {
  for (mr_kept_t kind = 0; kind < MR_KEPTS; kind++) {
    const kind_t *k = &kinds[kind];
    char path[300];
    assert_non_null(mr_kept_defs[kind].name);
    if (!k->results && !k->elsewhere)
      fail_msg("%s: add a run that keeps such files", mr_kept_defs[kind].name);
    snprintf(path, sizeof path, MR_SOURCE_DIR "/%s", k->elsewhere ? k->elsewhere : "");
    if (access(path, R_OK)) fail_msg("%s", path);
    if (!k->results || !mr_built_in(k->needs)) continue;
    if (!k->works || k->works())
      attack_kind(kind);
    else
      printf("left out without a device: %s\n", mr_kept_defs[kind].name);
  }
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
  if (geteuid() == 0) { /* what another member has made: blocks and indexes */
    char command[200];
    snprintf(command, sizeof command, "chown -R %d:%d %s", KEPT_OTHER_USER, (int)getegid(),
             in_dir("team"));
    assert_int_equal(system(command), 0);
    char *again = ledger_of(source);
    if (!again || strcmp(again, got) || strstr(p.err, "not used")) fail_msg("%s", p.err);
    free(again);
    *strstr(source, " shared") = 0;
    assert_null(ledger_of(source));
    assert_non_null(strstr(p.err, "it belongs to another user"));
    strcat(source, " shared");
  }
  free(got);
  assert_int_equal(chmod(in_dir("team"), 0777), 0); /* of no group */
  assert_null(ledger_of(source));
}

/* In a folder of all, such as /tmp, another user can give a name that a run is about to make to a
   pipe, which would hold up its open until someone reads or writes there. */
static void a_pipe_under_a_name_that_a_run_makes_holds_nothing_up(void **state) {
  static const struct {
    const char *needs;
    char *(*results)(const char *folder);
  } row[] = {{"ZSTD", shards}, {NULL, indexes}, {NULL, listings}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char folder[160];
    if (!mr_built_in(row[i].needs)) continue;
    snprintf(folder, sizeof folder, "%s", in_dir("of-all"));
    char *right = row[i].results(folder);
    if (!right) fail_msg("row %zu: %s", i, p.err);
    assert_int_equal(chmod(folder, 0777), 0);
    n_kept = 0;
    note_below(folder);
    assert_true(n_kept > 0);
    for (int k = 0; k < n_kept; k++) {
      char pipe[320];
      const char *more = ends_in(kept[k], ".states") ? "" : ".lock";
      assert_int_equal(unlink(kept[k]), 0);
      snprintf(pipe, sizeof pipe, "%.300s%s", kept[k], more);
      assert_int_equal(mkfifo(pipe, 0600) | chmod(pipe, 0666), 0);
    }
    char *got = row[i].results(folder);
    if (!got || strcmp(got, right)) fail_msg("row %zu: %s", i, p.err);
    for (int k = 0; k < n_kept; k++)
      if (ends_in(kept[k], ".raw") && access(kept[k], F_OK)) fail_msg("%s is not made", kept[k]);
    free(right), free(got);
    assert_int_equal(program_forget(folder), 0);
  }
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
    const char *why = mr_distrust(fd, MR_KEPT_BLOCKS, &more);
    if (!why != !row[i].why || (why && strcmp(why, row[i].why)))
      fail_msg("row %zu: %s", i, why ? why : "believed");
    assert_true(mr_trust_own(fd, &more));
    assert_null(mr_distrust(fd, MR_KEPT_BLOCKS, &more));
  }
  close(fd);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_string_equal(mr_distrust(ends[0], MR_KEPT_BLOCKS, NULL), "it is no regular file");
  close(ends[0]), close(ends[1]);
  if (geteuid() != 0) return;
  assert_int_equal(chown(in_dir("file"), 65534, 65534), 0);
  fd = open(in_dir("file"), O_RDONLY | O_CLOEXEC);
  assert_int_equal(fchmod(fd, 0644), 0);
  assert_string_equal(mr_distrust(fd, MR_KEPT_BLOCKS, NULL), "it belongs to another user");
  assert_null(mr_distrust(fd, MR_KEPT_INDEX, &(mr_trust_t){.has_owner = true, .owner = 65534}));
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_files_that_another_user_may_have_written_are_not_used),
      cmocka_unit_test(a_umask_of_002_keeps_nothing_that_is_doubted),
      cmocka_unit_test(a_folder_of_a_group_is_believed_by_a_word),
      cmocka_unit_test(a_pipe_under_a_name_that_a_run_makes_holds_nothing_up),
      cmocka_unit_test(the_rule_names_its_reason),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
