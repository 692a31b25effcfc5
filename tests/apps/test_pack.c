/* The command pack: shards of every format hold the stream that was packed, record for record; a
   call that is killed again and again leaves the files of one that was not; what cannot be packed
   is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/random.h"

enum { RECORDS = 1000, FORMATS = 3 };

static const char *const format[FORMATS] = {"tar", "tfrecord", "mds"};
static const char *const ending[FORMATS] = {"-%05d.tar", "-%05d.tfrecord", ".%05d.mds"};
static program_t p;
static char dir[64], source[600];

static void save(const char *name, mr_dtype_t dtype, int ndim, int64_t rows, int64_t each,
                 const void *data) {
  char path[128];
  mr_diag_t d = {0};
  snprintf(path, sizeof path, "%s/%s.npy", dir, name);
  if (mr_npy_save(path, dtype, ndim, (int64_t[]){rows, each}, data, &d) < 0) fail_msg("%s", d.text);
}

static int make(void **state) {
  static float x[RECORDS][3];
  static double y[RECORDS];
  static int64_t id[RECORDS], at[RECORDS + 1];
  static int32_t label[RECORDS];
  static uint8_t text[RECORDS * 20];
  char cache[96];
  round_t r = {.x = 11};
  strcpy(dir, "/tmp/mr-pack-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(cache, sizeof cache, "%s/cache", dir);
  setenv("XDG_CACHE_HOME", cache, 1);
  for (int i = 0; i < RECORDS; i++) {
    for (int k = 0; k < 3; k++) x[i][k] = (float)draw(&r, 1000) / 8;
    y[i] = (double)draw(&r, 1 << 30) / 3, id[i] = (int64_t)round_bits(&r), label[i] = draw(&r, 10);
    at[i + 1] = at[i] + draw(&r, 20);
  }
  for (int i = 0; i < at[RECORDS]; i++) text[i] = (uint8_t)round_bits(&r);
  save("x", MR_F32, 2, RECORDS, 3, x), save("y", MR_F64, 1, RECORDS, 0, y);
  save("id", MR_I64, 1, RECORDS, 0, id), save("at", MR_I64, 1, RECORDS + 1, 0, at);
  save("text", MR_U8, 1, at[RECORDS], 0, text), save("labels", MR_I32, 1, RECORDS, 0, label);
  snprintf(source, sizeof source,
           "npy fields=x:%s/x.npy,y:%s/y.npy,id:%s/id.npy ragged=text:%s/text.npy:%s/at.npy "
           "labels=%s/labels.npy ! select x,label,y,id,text",
           dir, dir, dir, dir, dir, dir);
  return 0;
}

static int forget(void **state) { return program_forget(dir); }

/* The lines of a graph's ledger, which hold a hash of each record; heap. */
static char *ledger_of(const char *stream) {
  char graph[1500], path[128];
  void *text;
  size_t n;
  mr_diag_t d = {0};
  snprintf(path, sizeof path, "%s/ledger", dir);
  snprintf(graph, sizeof graph, "%s ! shuffle seed=5 ! batch 64 ! ledger %s", stream, path);
  RUN(&p, "run", graph);
  if (p.status) fail_msg("%s: %s%s", graph, p.out, p.err);
  assert_int_equal(mr_read_file(path, 1 << 24, &text, &n, &d), MR_OK);
  return text;
}

/* Packs the source; reading gets the graph text that the command prints. */
static void pack_to(int f, const char *name, const char *records, char folder[128],
                    char reading[600]) {
  snprintf(folder, 128, "%s/%s-%s", dir, name, format[f]);
  RUN(&p, "pack", source, "-o", folder, "--format", format[f], "--records", records);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  const char *at = strstr(p.out, "read them by\n  ");
  if (!at) return;
  snprintf(reading, 600, "%s", at + strlen("read them by\n  "));
  reading[strcspn(reading, "\n")] = 0;
}

static void every_format_gives_the_ledger_of_the_source(void **state) {
  char *want = ledger_of(source), folder[128], reading[600];
  for (int f = 0; f < FORMATS; f++) {
    pack_to(f, "one", f ? "300" : "256", folder, reading);
    char *got = ledger_of(reading);
    assert_string_equal(got, want);
    free(got);
  }
  free(want);
}

/* The classes of the first records of a stream, as `who` calls them, into out[600]. */
static void classes_of(const char *stream, char out[600]) {
  char graph[1500];
  size_t n = 0;
  out[0] = 0;
  snprintf(graph, sizeof graph, "%s ! batch 20 ! null", stream);
  RUN(&p, "who", graph, "--step", "1", "--json");
  if (p.status) fail_msg("%s: %s%s", graph, p.out, p.err);
  for (const char *at = p.out; (at = strstr(at, "\"class\":\"")) && n < 500;)
    at += 9, n += (size_t)snprintf(out + n, 600 - n, "%.*s ", (int)strcspn(at, "\""), at);
}

static void names_of_classes_come_back_with_the_shards(void **state) {
  static const char named[] = "synthetic n=40 ! select label";
  char folder[128], path[160], want[600], got[600];
  classes_of(named, want);
  assert_true(strlen(want) > 40);
  for (int f = 0; f < FORMATS; f++) {
    snprintf(folder, sizeof folder, "%s/named-%s", dir, format[f]);
    RUN(&p, "pack", named, "-o", folder, "--format", format[f]);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    char reading[600] = "";
    const char *at = strstr(p.out, "read them by\n  ");
    assert_non_null(at);
    snprintf(reading, sizeof reading, "%.*s", (int)strcspn(at + 15, "\n"), at + 15);
    classes_of(reading, got);
    assert_string_equal(got, want);
    snprintf(path, sizeof path, "%s/pack-classes.txt", folder);
    assert_int_equal(unlink(path), 0);
    classes_of(reading, got);
    assert_string_equal(got, "");
  }
}

/* One file of names speaks of all labels: of two lists none is written, and that is said. */
static void labels_of_two_lists_keep_no_names(void **state) {
  char folder[128], path[160], graph[300], list[160];
  static const char one[] = "kind\nant\nbee\n";
  mr_diag_t d = {0};
  snprintf(folder, sizeof folder, "%s/two-lists", dir);
  snprintf(list, sizeof list, "%s/kinds.csv", dir);
  assert_int_equal(mr_write_file(list, one, strlen(one), &d), MR_OK);
  snprintf(graph, sizeof graph,
           "synthetic n=2 ! select label ! zip name=z prefix=,n. table %s fields=kind:kind:class ! "
           "z.b z.",
           list);
  RUN(&p, "pack", graph, "-o", folder, "--format", "mds");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_non_null(strstr(p.err, "those of field n.kind are not those of the labels"));
  snprintf(path, sizeof path, "%s/pack-classes.txt", folder);
  assert_int_equal(access(path, F_OK), -1);
}

/* Packs of two lists as one set: numbers of both would be taken for those of one of them. */
static void packs_of_different_classes_are_no_one_set(void **state) {
  static const char *const rows[] = {"kind\nant\nbee\n", "kind\nbee\ncat\n",
                                     "kind\nant\nbee\ncat\n"};
  static const char *const reading[] = {
      "tar %1$s/c%3$d-tar/shard-00000.tar::%1$s/c%2$d-tar/shard-00000.tar",
      "tfrecord %1$s/c%3$d-tfrecord/shard-00000.tfrecord::%1$s/c%2$d-tfrecord/shard-00000.tfrecord",
      "mds %1$s/c%3$d-mds::%1$s/c%2$d-mds"};
  char folder[128], list[160], graph[1200];
  mr_diag_t d = {0};
  for (int i = 0; i < 3 * FORMATS; i++) {
    snprintf(list, sizeof list, "%s/c%d.csv", dir, i / FORMATS);
    snprintf(folder, sizeof folder, "%s/c%d-%s", dir, i / FORMATS, format[i % FORMATS]);
    snprintf(graph, sizeof graph, "table %s fields=kind:label:class", list);
    assert_int_equal(mr_write_file(list, rows[i / FORMATS], strlen(rows[i / FORMATS]), &d), MR_OK);
    RUN(&p, "pack", graph, "-o", folder, "--format", format[i % FORMATS]);
    if (p.status) fail_msg("%s%s", p.out, p.err);
  }
  for (int f = 0; f < FORMATS; f++) {
    assert_non_null(strstr(reading[f], format[f]));
    snprintf(graph, sizeof graph, reading[f], dir, 1, 0);
    strcat(graph, " ! batch 4 ! null");
    RUN(&p, "who", graph, "--step", "1");
    assert_int_equal(p.status, 1);
    if (!strstr(p.err,
                "pack-classes.txt calls the 2 classes bee, cat, and the folder of the first "
                "file the 2 classes ant, bee: one number would mean two classes"))
      fail_msg("%s: %s", graph, p.err);
    snprintf(graph, sizeof graph, reading[f], dir, 2, 0); /* the same, and one more */
    char got[600];
    classes_of(graph, got);
    assert_string_equal(got, "ant bee ant bee cat ");
    strcat(graph, " names="), strcat(graph, dir), strcat(graph, "/c2-tar/pack-classes.txt");
    classes_of(graph, got);
    assert_string_equal(got, "ant bee ant bee cat ");
  }
}

/* A given classes= holds whichever folder comes first, and lists that no label has are not judged.
 */
static void packs_are_judged_by_what_is_read_of_them(void **state) {
  static const char *const rows[] = {"kind,v\nant,1\nbee,2\n", "kind,v\nant,3\nbee,4\ncat,5\n",
                                     "kind,v\nbee,6\ncat,7\n"};
  static const struct {
    int first, second;
    const char *setting, *refused, *classes;
  } row[] = {{0, 1, " classes=2", "has 3 names, want as many", NULL},
             {1, 0, " classes=2", "has 3 names, want as many", NULL},
             {0, 1, " classes=3", NULL, "ant bee ant bee cat "},
             {1, 0, " classes=3", NULL, "ant bee cat ant bee "},
             {0, 1, " classes=2 fields=v:v", NULL, NULL},
             {2, 1, "", "e2/pack-classes.txt calls the 2 classes bee, cat, and ", NULL},
             {0, 2, "", "one number would mean two classes", NULL},
             {0, 2, " fields=v:v", NULL, NULL},
             {1, 2, " fields=v:v", NULL, NULL}};
  char folder[128], list[160], graph[1200], got[600];
  mr_diag_t d = {0};
  for (int i = 0; i < 3; i++) {
    snprintf(list, sizeof list, "%s/e%d.csv", dir, i);
    snprintf(folder, sizeof folder, "%s/e%d", dir, i);
    snprintf(graph, sizeof graph, "table %s fields=kind:label:class,v:v", list);
    assert_int_equal(mr_write_file(list, rows[i], strlen(rows[i]), &d), MR_OK);
    RUN(&p, "pack", graph, "-o", folder, "--format", "tfrecord");
    if (p.status) fail_msg("%s%s", p.out, p.err);
  }
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(graph, sizeof graph,
             "tfrecord %s/e%d/shard-00000.tfrecord::%s/e%d/shard-00000.tfrecord%s", dir,
             row[i].first, dir, row[i].second, row[i].setting);
    if (row[i].classes) {
      classes_of(graph, got);
      assert_string_equal(got, row[i].classes);
      continue;
    }
    strcat(graph, " ! batch 2 ! null");
    RUN(&p, "who", graph, "--step", "1");
    if (!p.status != !row[i].refused) fail_msg("row %zu: %s", i, p.err);
    if (row[i].refused && !strstr(p.err, row[i].refused)) fail_msg("row %zu: %s", i, p.err);
  }
}

/* A folder's name that is no word of a graph, and a graph that ends with a comment. */
static void names_with_blanks_and_comments_are_read_back(void **state) {
  char kept[sizeof source], *want = ledger_of(source), folder[128], reading[600];
  memcpy(kept, source, sizeof kept);
  strncat(source, " # the end", sizeof source - strlen(source) - 1);
  for (int f = 0; f < FORMATS; f++) {
    pack_to(f, "a b=c #d", "500", folder, reading);
    char *got = ledger_of(reading);
    assert_string_equal(got, want);
    free(got);
  }
  memcpy(source, kept, sizeof kept);
  free(want);
}

static bool same_file(const char *a, const char *b) {
  void *x = NULL, *y = NULL;
  size_t n = 0, m = 1;
  mr_read_file(a, 1 << 24, &x, &n, NULL), mr_read_file(b, 1 << 24, &y, &m, NULL);
  bool same = x && y && n == m && !memcmp(x, y, n);
  free(x), free(y);
  return same;
}

static int files_in(const char *folder, const char *piece) {
  char command[300];
  snprintf(command, sizeof command, "ls '%s' | grep -c -e '%s'", folder, piece);
  FILE *f = popen(command, "r");
  int n = -1;
  assert_int_equal(fscanf(f, "%d", &n), 1);
  pclose(f);
  return n;
}

/* Starts the command and kills it once it has written another shard, until it finishes first. */
static void a_killed_pack_continues_to_the_same_bytes(void **state) {
  round_t r = round_first(3);
  char whole[128], killed[128], name[64], a[256], b[256], reading[600];
  while (round_next(&r)) {
    int f = draw(&r, FORMATS), kills = 0;
    char tag[16];
    snprintf(tag, sizeof tag, "whole%d", (int)r.seed), pack_to(f, tag, "40", whole, reading);
    snprintf(killed, sizeof killed, "%s/killed%d", dir, (int)r.seed);
    for (int k = 0;; k += 1 + draw(&r, 6)) {
      FILE *out = tmpfile(), *err = tmpfile();
      siginfo_t ended = {0};
      const char *words[] = {"pack",    source,      "-o", killed, "--format",
                             format[f], "--records", "40", NULL};
      pid_t pid = program_start(words, out, err);
      int n = snprintf(name, sizeof name, "shard");
      snprintf(name + n, sizeof name - (size_t)n, ending[f], k);
      snprintf(a, sizeof a, "%s/%s", killed, name);
      while (access(a, F_OK) < 0 && !ended.si_pid)
        waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
      kill(pid, SIGKILL);
      int status = program_wait(pid);
      program_read(err, p.err, sizeof p.err), fclose(out);
      if (status == 0) break;
      round_check(&r, status == 128 + SIGKILL, "%d: %s", status, p.err);
      round_check(&r, files_in(killed, "lock") == 0, "a lock is left");
      kills++;
    }
    round_check(&r, kills > 0, "no call was killed");
    for (int k = 0; k < RECORDS / 40; k++) {
      int n = snprintf(name, sizeof name, "shard");
      snprintf(name + n, sizeof name - (size_t)n, ending[f], k);
      snprintf(a, sizeof a, "%s/%s", whole, name), snprintf(b, sizeof b, "%s/%s", killed, name);
      round_check(&r, same_file(a, b), "%s differs", b);
    }
    snprintf(reading, sizeof reading, "test \"$(ls -A '%s')\" = \"$(ls -A '%s')\"", whole, killed);
    round_check(&r, system(reading) == 0, "%s holds other files than %s", killed, whole);
    round_check(&r, files_in(killed, ".part-") == 0, "parts are left");
    round_check(&r, files_in(killed, "^shard.*mrindex$") == RECORDS / 40, "indexes are missing");
  }
}

/* ---- no space ---- */

/* Files of more bytes cannot be written, as on a disk without room. */
static void begin_full_disk(rlim_t bytes, struct rlimit *was) {
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, was), 0);
  struct rlimit small = {bytes, was->rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
}

/* A failure before the first shard leaves no folder, so that another graph is packed there. */
static void a_pack_that_fails_at_once_leaves_nothing(void **state) {
  struct rlimit was;
  char folder[128], path[200];
  for (int f = 0; f < FORMATS; f++) {
    snprintf(folder, sizeof folder, "%s/at-once-%s", dir, format[f]);
    begin_full_disk(2000, &was);
    RUN(&p, "pack", source, "-o", folder, "--format", format[f]);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    if (p.status != 1 || !strstr(p.err, "cannot")) fail_msg("%d %s", p.status, p.err);
    if (access(folder, F_OK) == 0) fail_msg("%s is left", folder);
    assert_int_equal(mkdir(folder, 0755), 0); /* the caller's own folder stays */
    RUN(&p, "pack", "synthetic n=20 ! shuffle epochs=0", "-o", folder, "--format", format[f]);
    assert_int_not_equal(p.status, 0);
    assert_int_equal(files_in(folder, "."), 0);
    RUN(&p, "pack", source, "-o", folder, "--format", format[f]);
    if (p.status) fail_msg("%s", p.err);
    snprintf(path, sizeof path, "grep -q '\"whole\":.true' '%s/pack.json'", folder);
    assert_int_equal(system(path), 0);
  }
}

/* Two shards have room, and the third one has none. */
static void a_pack_on_a_full_disk_is_not_whole_and_continues(void **state) {
  static int64_t at[201];
  static uint8_t text[100 * 8000 + 100];
  char graph[400], folder[128], whole[128], path[200], name[64], a[256], b[256];
  struct rlimit was;
  for (int i = 0; i < 200; i++) at[i + 1] = at[i] + (i < 100 ? 1 : 8000);
  save("large", MR_U8, 1, at[200], 0, text), save("large-at", MR_I64, 1, 201, 0, at);
  snprintf(graph, sizeof graph, "npy ragged=text:%s/large.npy:%s/large-at.npy", dir, dir);
  for (int f = 0; f < FORMATS; f++) {
    snprintf(folder, sizeof folder, "%s/full-%s", dir, format[f]);
    snprintf(whole, sizeof whole, "%s/roomy-%s", dir, format[f]);
    RUN(&p, "pack", graph, "-o", whole, "--format", format[f], "--records", "50");
    if (p.status) fail_msg("%s", p.err);
    begin_full_disk(300000, &was);
    RUN(&p, "pack", graph, "-o", folder, "--format", format[f], "--records", "50");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    if (p.status != 1 || !strstr(p.err, "2 shard files are in") ||
        !strstr(p.err, "the same command continues there"))
      fail_msg("%d %s", p.status, p.err);
    snprintf(path, sizeof path, "grep -q '\"whole\":.false' '%s/pack.json'", folder);
    assert_int_equal(system(path), 0);
    assert_int_equal(files_in(folder, "."), 3); /* with pack.json, and without an index.json */
    snprintf(path, sizeof path, "touch '%s/pack.json.part-1'", folder);
    assert_int_equal(system(path), 0); /* as a kill may leave it */
    RUN(&p, "pack", graph, "-o", folder, "--format", format[f], "--records", "50");
    if (p.status) fail_msg("%s", p.err);
    assert_int_equal(files_in(folder, ".part-"), 0);
    for (int k = 0; k < 4; k++) {
      int n = snprintf(name, sizeof name, "shard");
      snprintf(name + n, sizeof name - (size_t)n, ending[f], k);
      snprintf(a, sizeof a, "%s/%s", whole, name), snprintf(b, sizeof b, "%s/%s", folder, name);
      if (!same_file(a, b)) fail_msg("%s differs", b);
    }
  }
}

static void want_failure(const char *graph, const char *folder, const char *kind,
                         const char *piece) {
  RUN(&p, "pack", graph, "-o", folder, "--format", kind);
  if (!p.status || !strstr(p.err, piece))
    fail_msg("%s: want '%s', got %d %s", graph, piece, p.status, p.err);
}

static void want_failure_of(const char *graph, const char *folder, const char *piece) {
  RUN(&p, "pack", graph, "-o", folder, "--records", "100");
  if (!p.status || !strstr(p.err, piece))
    fail_msg("%s: want '%s', got %d %s", graph, piece, p.status, p.err);
}

static void streams_that_cannot_be_packed_are_refused(void **state) {
  char folder[128], reading[600], other[128], path[160];
  pack_to(0, "two", "100", folder, reading);
  want_failure("synthetic n=20", folder, "tar", "holds shards of another graph");
  pack_to(0, "two", "100", folder, reading);
  assert_non_null(strstr(p.out, "holds all shards of this graph already"));
  snprintf(other, sizeof other, "%s/other", dir);
  want_failure("synthetic n=20 ! shuffle epochs=0", other, "tar", "the stream is endless");
  snprintf(other, sizeof other, "%s/cast", dir);
  want_failure("synthetic n=20 ! normalize dtype=bf16", other, "mds",
               "field image: an MDS shard holds");
  snprintf(other, sizeof other, "%s/a::b", dir);
  want_failure("synthetic n=20", other, "tar", "want another folder");
  assert_int_not_equal(access(other, F_OK), 0); /* before anything is written */
  snprintf(other, sizeof other, "%s/foreign", dir);
  mkdir(other, 0755);
  snprintf(path, sizeof path, "%s/shard-00000.tar", other);
  assert_int_equal(mr_write_file(path, "x", 1, NULL), MR_OK);
  want_failure("synthetic n=20", other, "tar", "shards that pack did not write");
}

/* A file that is missing or was cut short is written again, with the bytes it had. */
static void damaged_shards_are_written_again(void **state) {
  char folder[128], good[128], reading[600], name[64], a[256], b[256];
  for (int f = 0; f < FORMATS; f++) {
    pack_to(f, "good", "100", good, reading);
    pack_to(f, "hurt", "100", folder, reading);
    for (int k = 3; k < 10; k += 4) {
      int n = snprintf(name, sizeof name, "shard");
      snprintf(name + n, sizeof name - (size_t)n, ending[f], k);
      snprintf(b, sizeof b, "%s/%s", folder, name);
      assert_int_equal(k == 3 ? truncate(b, 700) : unlink(b), 0);
    }
    pack_to(f, "hurt", "100", folder, reading);
    if (!strstr(p.err, "has 700 bytes")) fail_msg("%s", p.err);
    for (int k = 0; k < 10; k++) {
      int n = snprintf(name, sizeof name, "shard");
      snprintf(name + n, sizeof name - (size_t)n, ending[f], k);
      snprintf(a, sizeof a, "%s/%s", good, name), snprintf(b, sizeof b, "%s/%s", folder, name);
      if (!same_file(a, b)) fail_msg("%s differs", b);
    }
    pack_to(f, "hurt", "100", folder, reading);
    assert_non_null(strstr(p.out, "holds all shards of this graph already"));
  }
}

/* Shards of the data as it was and as it is never lie in one folder. */
static void changed_data_is_refused(void **state) {
  static float x[RECORDS][3], y[RECORDS][3];
  char graph[200], folder[128];
  for (int i = 0; i < RECORDS; i++) y[i][1] = 1;
  save("change", MR_F32, 2, RECORDS, 3, x);
  snprintf(graph, sizeof graph, "npy fields=x:%s/change.npy", dir);
  snprintf(folder, sizeof folder, "%s/changed", dir);
  RUN(&p, "pack", graph, "-o", folder, "--records", "100");
  if (p.status) fail_msg("%s", p.err);
  save("change", MR_F32, 2, RECORDS, 3, y);
  want_failure_of(graph, folder, "the data of the graph has changed");
  snprintf(graph, sizeof graph, "%s/shard-00009.tar", folder);
  assert_int_equal(unlink(graph), 0);
  snprintf(graph, sizeof graph, "npy fields=x:%s/change.npy", dir);
  want_failure_of(graph, folder, "the data of the graph has changed");
}

/* What is said is about the words of the user, and nothing is left. */
static void ends_that_do_not_fit_are_said_of_the_graph(void **state) {
  const char *const end[][2] = {
      {"synthetic n=20 ! batch 4", "pack: batch gives batches"},
      {"range 10 ! filter 99", "pack: the stream has no records"},
      {"npy fields=x:%s/x.npy skip-records=0-999", "pack: the stream has no records"},
  };
  char graph[200], folder[128];
  snprintf(folder, sizeof folder, "%s/none", dir);
  for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
    snprintf(graph, sizeof graph, end[i][0], dir);
    want_failure_of(graph, folder, end[i][1]);
    if (strstr(p.err, "graph:2:")) fail_msg("%s", p.err);
    assert_int_not_equal(access(folder, F_OK), 0);
  }
  want_failure_of("synthetic n=20", "s3://bucket/folder", "shards are written to a folder");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_format_gives_the_ledger_of_the_source),
      cmocka_unit_test(names_of_classes_come_back_with_the_shards),
      cmocka_unit_test(labels_of_two_lists_keep_no_names),
      cmocka_unit_test(packs_of_different_classes_are_no_one_set),
      cmocka_unit_test(packs_are_judged_by_what_is_read_of_them),
      cmocka_unit_test(names_with_blanks_and_comments_are_read_back),
      cmocka_unit_test(a_killed_pack_continues_to_the_same_bytes),
      cmocka_unit_test(a_pack_that_fails_at_once_leaves_nothing),
      cmocka_unit_test(a_pack_on_a_full_disk_is_not_whole_and_continues),
      cmocka_unit_test(streams_that_cannot_be_packed_are_refused),
      cmocka_unit_test(damaged_shards_are_written_again),
      cmocka_unit_test(changed_data_is_refused),
      cmocka_unit_test(ends_that_do_not_fit_are_said_of_the_graph),
  };
  return cmocka_run_group_tests(tests, make, forget);
}
