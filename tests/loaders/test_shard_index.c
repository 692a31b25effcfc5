/* Index files of sharded sources: damaged in any byte, of changed files, made by two processes at
   once or by one that is killed, and where none can be written. */
#include "loaders/shards/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "loaders/shards/shard_place.h"
#include "tests/loaders/shards.h"

/* A container for the tests: a file of bytes; each byte n above 0 begins a record of n bytes, which
   it counts itself, and 0 is a fault. */
static mr_err_t scan_counts(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                            mr_diag_t *diag) {
  char key[32];
  const char *path = file->path;
  for (int64_t at = 0; at < file->size;) {
    uint8_t n;
    uint32_t column;
    if (mr_shard_file_read(file, at, &n, 1, diag) != MR_OK)
      return mr_fail(diag, MR_ERR_IO, "%s", path);
    if (n == 0 || at + n > file->size) return mr_fail(fault, MR_ERR_DATA, "%s: bad", path), MR_OK;
    int len = snprintf(key, sizeof key, "at %lld", (long long)at);
    MR_TRY(mr_shard_draft_record(draft, n % 3 ? key : NULL, (size_t)len, diag));
    MR_TRY(mr_shard_draft_column(draft, n % 2 ? "odd" : "even", n % 2 ? 3 : 4, 7, &column, diag));
    MR_TRY(mr_shard_draft_part(draft, column, at, n, diag));
    at += n;
  }
  return MR_OK;
}

enum { SHARDS = 6, BYTES = 4000 };

static int64_t place[SHARDS * BYTES]; /* the oracle: shard * BYTES + offset of each record */
static int n_places;

static void write_counts(round_t *r) {
  n_places = 0;
  for (int k = 0; k < SHARDS; k++) {
    uint8_t data[BYTES];
    char name[16];
    int size = 1 + draw(r, BYTES - 1), at = 0;
    while (at < size) {
      int n = 1 + draw(r, size - at < 200 ? size - at : 200);
      for (int i = 0; i < n; i++) data[at + i] = (uint8_t)round_bits(r);
      data[at] = (uint8_t)n;
      place[n_places++] = (int64_t)k * BYTES + at;
      at += n;
    }
    snprintf(name, sizeof name, "c%d", k);
    write_file(name, data, (size_t)size);
  }
}

static mr_shards_conf_t conf_of(const char *index) {
  static char files[120];
  snprintf(files, sizeof files, "%s/c{0..%d}", folder, SHARDS - 1);
  return (mr_shards_conf_t){
      .files = files, .kind = "counts/1", .scan = scan_counts, .index = index};
}

/* NULL, or what is wrong. */
static const char *wrong_with(const char *index) {
  static char text[1100];
  mr_shards_t *s;
  mr_diag_t diag = {0};
  mr_shards_conf_t conf = conf_of(index);
  const char *wrong = NULL;
  if (mr_shards_open(&s, &conf, &diag) < 0) {
    snprintf(text, sizeof text, "%s", diag.text);
    return text;
  }
  if (s->n_records != n_places || s->n_columns > 2) wrong = "the counts";
  for (int i = 0; i < n_places && !wrong; i++) {
    const mr_shard_t *shard = mr_shards_find(s, i);
    char key[32];
    int64_t at = place[i] % BYTES;
    mr_shard_part_t p = {0};
    bool has = mr_shards_part(shard, i, mr_shards_column(s, "odd", NULL), &p) ||
               mr_shards_part(shard, i, mr_shards_column(s, "even", NULL), &p);
    if (shard - s->shard != place[i] / BYTES || !has || p.at != at) wrong = "the place of a record";
    snprintf(key, sizeof key, "at %lld", (long long)at);
    if (!wrong && strcmp(mr_shards_key(shard, i), p.size % 3 ? key : "")) wrong = "a key";
  }
  mr_shards_close(s);
  return wrong;
}

static void damaged_index_files_are_rebuilt(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    write_counts(&r);
    const char *wrong = wrong_with("beside");
    round_check(&r, !wrong, "%s", wrong);
    for (int k = 0; k < 3; k++) {
      char name[32];
      snprintf(name, sizeof name, "c%d.mrindex", draw(&r, SHARDS));
      struct stat st;
      round_check(&r, stat(in_folder(name), &st) == 0, "%s", name);
      int fd = open(in_folder(name), O_RDWR);
      uint8_t byte;
      off_t at = (off_t)(round_bits(&r) % (uint64_t)st.st_size);
      round_check(&r, pread(fd, &byte, 1, at) == 1, "%s", name);
      byte ^= (uint8_t)(1 + draw(&r, 255));
      if (one_in(&r, 4))
        round_check(&r, ftruncate(fd, at) == 0, "%s", name);
      else
        round_check(&r, pwrite(fd, &byte, 1, at) == 1, "%s", name);
      close(fd);
      wrong = wrong_with("beside");
      round_check(&r, !wrong, "%s", wrong);
    }
  }
}

static int n_scans;
static mr_err_t scan_add_counter(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                                 mr_diag_t *diag) {
  __atomic_fetch_add(&n_scans, 1, __ATOMIC_RELAXED);
  return scan_counts(file, draft, fault, diag);
}

static void only_files_that_have_changed_are_scanned_again(void **state) {
  round_t r = {.x = 11};
  write_counts(&r);
  for (int step = 0; step < 4; step++) {
    mr_shards_t *s;
    mr_diag_t diag = {0};
    mr_shards_conf_t conf = conf_of(in_folder("indexes"));
    conf.scan = scan_add_counter, n_scans = 0;
    if (step == 2) write_file("c3", "\5aaaa\2b", 7);
    if (step == 3) conf.kind = "counts/2";
    assert_int_equal(mr_shards_open(&s, &conf, &diag), MR_OK);
    assert_int_equal(n_scans, step == 0 || step == 3 ? SHARDS : step == 2);
    mr_shards_close(s);
  }
}

static void without_a_place_for_indexes_records_are_still_found(void **state) {
  round_t r = {.x = 12};
  write_counts(&r);
  n_notices = 0;
  const char *wrong = wrong_with("/proc/none");
  if (wrong) fail_msg("%s", wrong);
  assert_int_equal(n_notices, 1);
}

/* Exits with 0 if all is right. */
static pid_t open_in_child(const char *index) {
  pid_t child = fork();
  if (child == 0) _exit(wrong_with(index) != NULL);
  assert_true(child > 0);
  return child;
}

static int n_in_folder(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static void two_processes_make_one_index_at_once(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    char name[32];
    snprintf(name, sizeof name, "two-%llu", (unsigned long long)r.seed);
    write_counts(&r);
    pid_t child[3];
    for (int i = 0; i < 3; i++) child[i] = open_in_child(in_folder(name));
    for (int i = 0; i < 3; i++) {
      int status;
      round_check(&r, waitpid(child[i], &status, 0) == child[i] && status == 0, "%d", status);
    }
    round_check(&r, n_in_folder(in_folder(name)) == SHARDS, "%d", n_in_folder(in_folder(name)));
  }
}

static void a_killed_process_leaves_whole_indexes_or_none(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    char name[32];
    snprintf(name, sizeof name, "kill-%llu", (unsigned long long)r.seed);
    write_counts(&r);
    pid_t child = open_in_child(in_folder(name));
    usleep((useconds_t)draw(&r, 8000)); /* any moment will do */
    kill(child, SIGKILL);
    round_check(&r, waitpid(child, NULL, 0) == child, "wait");
    const char *wrong = wrong_with(in_folder(name));
    round_check(&r, !wrong, "%s", wrong);
  }
}

/* The folder's files may be as many as a data set has shards, and a disk takes milliseconds for
   each that is waited for. */
static atomic_int n_syncs;
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd) {
  atomic_fetch_add_explicit(&n_syncs, 1, memory_order_relaxed);
  return __real_fsync(fd);
}

static void the_disk_is_not_waited_for_when_indexes_are_written(void **state) {
  round_t r = {.x = 12};
  struct stat st;
  int n_written = 0;
  write_counts(&r);
  atomic_store_explicit(&n_syncs, 0, memory_order_relaxed);
  assert_null(wrong_with("beside"));
  for (int k = 0; k < SHARDS; k++) {
    char name[32];
    snprintf(name, sizeof name, "c%d.mrindex", k);
    n_written += stat(in_folder(name), &st) == 0;
  }
  assert_int_equal(n_written, SHARDS);
  assert_int_equal(atomic_load_explicit(&n_syncs, memory_order_relaxed), 0);
  int fd = open(in_folder("c0.mrindex"), O_RDONLY);
  assert_true(fd >= 0 && fsync(fd) == 0); /* those of the libraries would be counted as this one */
  close(fd);
  assert_int_equal(atomic_load_explicit(&n_syncs, memory_order_relaxed), 1);
}

static void two_files_of_one_name_have_two_indexes(void **state) {
  char a[MR_SHARD_PLACE_MAX], b[MR_SHARD_PLACE_MAX], where[100];
  mr_diag_t diag = {0};
  assert_int_equal(mkdir(in_folder("x"), 0700) | mkdir(in_folder("y"), 0700), 0);
  write_file("x/s.tar", "", 0), write_file("y/s.tar", "", 0);
  snprintf(where, sizeof where, "%s", in_folder("place"));
  assert_int_equal(mr_shard_place_new(in_folder("x/s.tar"), where, a, &diag), MR_OK);
  assert_int_equal(mr_shard_place_new(in_folder("y/s.tar"), where, b, &diag), MR_OK);
  assert_string_not_equal(a, b);
  assert_true(mr_shard_place(in_folder("x/../x/s.tar"), where, 0, b));
  assert_string_equal(a, b);
}

/* ---- indexes by another hand ---- */

static void names_with_a_nul_are_no_columns(void **state) {
  char name[200] = "odd";
  uint32_t column;
  mr_shard_draft_t *d = mr_shard_draft_new();
  assert_non_null(d);
  assert_int_equal(mr_shard_draft_column(d, "odd", 3, 7, &column, NULL), MR_OK);
  assert_int_equal(mr_shard_draft_column(d, name, sizeof name, 7, &column, NULL), MR_ERR_DATA);
  assert_int_equal(mr_shard_draft_column(d, name, 4, 7, &column, NULL), MR_ERR_DATA);
  assert_int_equal(mr_shard_draft_column(d, "odd", 3, 7, &column, NULL), MR_OK);
  mr_shard_draft_free(d);
}

enum { SHARD_BYTES = 4000 };
static const mr_shard_id_t forged_id = {SHARD_BYTES, 1, 2};

/* An index of random records of a file of SHARD_BYTES. */
static void make_forged(round_t *r, mr_shard_index_t *x) {
  mr_shard_draft_t *d = mr_shard_draft_new();
  assert_non_null(d);
  for (int64_t at = 0, n; at < SHARD_BYTES; at += n) {
    uint32_t column;
    n = 1 + draw(r, 200);
    if (n > SHARD_BYTES - at) n = SHARD_BYTES - at;
    assert_int_equal(mr_shard_draft_record(d, "key", 3, NULL), MR_OK);
    assert_int_equal(
        mr_shard_draft_column(d, n % 2 ? "odd" : "even", n % 2 ? 3 : 4, 7, &column, NULL), MR_OK);
    assert_int_equal(mr_shard_draft_part(d, column, at, n, NULL), MR_OK);
  }
  assert_int_equal(mr_shard_index_make(d, "counts/1", &forged_id, NULL, x, NULL), MR_OK);
  mr_shard_draft_free(d);
}

/* The digest is right, so that the rows alone can tell. */
static void forged_counts_and_sizes_are_refused(void **state) {
  round_t r = round_first(300);
  while (round_next(&r)) {
    mr_shard_index_t x, y;
    make_forged(&r, &x);
    mr_shard_column_t *c = (mr_shard_column_t *)&x.column[draw(&r, (int)x.n_columns)], was = *c;
    int64_t value = (int64_t)(round_bits(&r) >> draw(&r, 64));
    int member = draw(&r, 3);
    *(member == 0 ? &c->have : member == 1 ? &c->least : &c->most) = value;
    bool good = member == 0   ? value >= 0 && value <= SHARD_BYTES
                : member == 1 ? value >= 0 && value <= was.least
                              : value >= was.most && value <= SHARD_BYTES;
    seal_index(&x);
    assert_int_equal(mr_shard_index_save(&x, in_folder("forged"), NULL, NULL), MR_OK);
    mr_err_t e = mr_shard_index_load(in_folder("forged"), "counts/1", &forged_id, MR_KEPT_INDEX,
                                     NULL, &y, NULL);
    round_check(&r, e == (good ? MR_OK : MR_ERR_DATA), "%d: member %d is %lld", e, member,
                (long long)value);
    mr_shard_index_close(&x), mr_shard_index_close(&y);
  }
}

int __real_close(int fd);
int __wrap_close(int fd);
static bool close_fails; /* of files that are written; by one thread */

int __wrap_close(int fd) {
  bool fails = close_fails && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
  int e = __real_close(fd);
  if (!fails) return e;
  errno = EDQUOT;
  return -1;
}

static void an_index_that_cannot_be_closed_is_not_kept(void **state) {
  round_t r = round_first(1);
  mr_diag_t diag = {0};
  mr_shard_index_t x;
  make_forged(&r, &x);
  int before = n_in_folder(folder);
  close_fails = true;
  mr_err_t e = mr_shard_index_save(&x, in_folder("unclosed"), NULL, &diag);
  close_fails = false;
  assert_int_equal(e, MR_ERR_IO);
  assert_non_null(strstr(diag.text, "unclosed: cannot be closed: "));
  assert_int_equal(n_in_folder(folder), before); /* neither the index nor a temporary file */
  mr_shard_index_close(&x);
}

/* With no bytes allowed on the heap, drafts and blocks of this many records lie in files. */
static void large_indexes_lie_in_files(void **state) {
  enum { RECORDS = 5000 };
  const mr_shard_id_t id = {2 * RECORDS, 1, 2};
  size_t was = mr__spill_heap_max;
  mr_shard_index_t x, y;
  uint32_t column;
  mr__spill_heap_max = 0;
  mr_shard_draft_t *d = mr_shard_draft_new();
  assert_non_null(d);
  for (int k = 0; k < RECORDS; k++) {
    char key[16];
    int n = snprintf(key, sizeof key, "%d", k);
    assert_int_equal(mr_shard_draft_record(d, key, (size_t)n, NULL), MR_OK);
    assert_int_equal(mr_shard_draft_column(d, "x", 1, 7, &column, NULL), MR_OK);
    assert_int_equal(mr_shard_draft_part(d, column, 2 * k, k % 3, NULL), MR_OK);
  }
  assert_int_equal(mr_shard_index_make(d, "counts/1", &id, "ends early", &x, NULL), MR_OK);
  mr_shard_draft_free(d);
  assert_true(x.memory.mapped);
  assert_int_equal(mr_shard_index_save(&x, in_folder("large"), NULL, NULL), MR_OK);
  assert_int_equal(
      mr_shard_index_load(in_folder("large"), "counts/1", &id, MR_KEPT_INDEX, NULL, &y, NULL),
      MR_OK);
  assert_true(y.memory.mapped);
  assert_int_equal(y.n_records, RECORDS);
  assert_string_equal(y.fault, "ends early");
  for (int k = 0; k < RECORDS; k++) {
    assert_int_equal(atoi(y.text + y.record[k].key), k);
    assert_int_equal(y.part[y.record[k].part].at, 2 * k);
    assert_int_equal(y.part[y.record[k].part].size, k % 3);
  }
  mr_shard_index_close(&x), mr_shard_index_close(&y);
  mr__spill_heap_max = was;
}

static void an_index_stays_as_it_was_checked(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    mr_shard_index_t x, y;
    make_forged(&r, &x);
    assert_int_equal(mr_shard_index_save(&x, in_folder("changed"), NULL, NULL), MR_OK);
    assert_int_equal(mr_shard_index_load(in_folder("changed"), "counts/1", &forged_id,
                                         MR_KEPT_INDEX, NULL, &y, NULL),
                     MR_OK);
    int fd = open(in_folder("changed"), O_RDWR);
    uint64_t noise = round_bits(&r);
    off_t at = (off_t)(round_bits(&r) % (x.bytes - sizeof noise));
    if (one_in(&r, 2))
      round_check(&r, ftruncate(fd, at) == 0, "truncate");
    else
      round_check(&r, pwrite(fd, &noise, sizeof noise, at) == sizeof noise, "write");
    close(fd);
    round_check(&r, y.bytes == x.bytes && !memcmp(y.block, x.block, x.bytes), "byte %d changed",
                (int)at);
    mr_shard_index_close(&x), mr_shard_index_close(&y);
  }
}

/* ---- locks ---- */

static atomic_bool no_locks; /* as in a folder of a server that has none */
int __real_flock(int fd, int what);
int __wrap_flock(int fd, int what);

int __wrap_flock(int fd, int what) {
  if (!no_locks) return __real_flock(fd, what);
  errno = ENOLCK;
  return -1;
}

typedef struct waiter {
  pthread_t thread;
  char path[200], files[200]; /* files "": what is made is made of none */
  atomic_bool over;
  mr_err_t e;
} waiter_t;

static void *wait_for_lock(void *arg) {
  waiter_t *t = arg;
  char name[MR_SHARD_LOCK_MAX];
  bool busy;
  int from = *t->files ? open(t->files, O_RDONLY | O_CLOEXEC) : -1;
  int fd = mr_shard_lock(t->path, from, true, name, &busy);
  t->over = true;
  mr_shard_unlock(fd, name);
  if (from >= 0) close(from);
  return NULL;
}

static void want_lock_ended_by_unlock(waiter_t *t) {
  char name[MR_SHARD_LOCK_MAX];
  bool busy;
  int from = *t->files ? open(t->files, O_RDONLY | O_CLOEXEC) : -1;
  int fd = mr_shard_lock(t->path, from, false, name, &busy);
  assert_true(fd >= 0);
  assert_int_equal(*name != 0, !*t->files); /* a file that is locked itself needs no other */
  pid_t child = fork();
  if (!child) pause(), _exit(0);
  assert_int_equal(pthread_create(&t->thread, NULL, wait_for_lock, t), 0);
  usleep(200000); /* it waits by now */
  assert_false(t->over);
  mr_shard_unlock(fd, name);
  for (int i = 0; i < 1000 && !t->over; i++) usleep(10000);
  bool over = t->over;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  pthread_join(t->thread, NULL);
  if (from >= 0) close(from);
  assert_true(over);
}

/* A program may fork while a file is scanned, and the child lives on. */
static void a_lock_ends_though_a_child_has_inherited_it(void **state) {
  waiter_t of_a_file = {0}, of_none = {0};
  snprintf(of_none.path, sizeof of_none.path, "%s", in_folder("inherited"));
  want_lock_ended_by_unlock(&of_none);
  write_file("made-of", "x", 1);
  snprintf(of_a_file.files, sizeof of_a_file.files, "%s", in_folder("made-of"));
  snprintf(of_a_file.path, sizeof of_a_file.path, "%s", in_folder("made-of.mrindex"));
  want_lock_ended_by_unlock(&of_a_file);
}

static void where_there_are_no_locks_no_file_is_left(void **state) {
  char name[MR_SHARD_LOCK_MAX];
  bool busy = true;
  no_locks = true;
  assert_int_equal(mr_shard_lock(in_folder("unlocked"), -1, false, name, &busy), -1);
  no_locks = false;
  assert_false(busy);
  assert_int_equal(access(name, F_OK), -1);
}

static void *open_indexed(void *arg) {
  waiter_t *t = arg;
  mr_shards_conf_t conf = {
      .files = t->files, .kind = "counts/1", .scan = scan_counts, .index = t->path};
  mr_shards_t *s;
  mr_diag_t diag = {0};
  t->e = mr_shards_open(&s, &conf, &diag);
  mr_shards_close(s);
  return NULL;
}

static void an_index_that_was_waited_for_is_not_written_again(void **state) {
  static const uint8_t data[] = {2, 0, 1};
  waiter_t t = {0};
  char index[MR_SHARD_PLACE_MAX], away[MR_SHARD_PLACE_MAX + 8], lock[MR_SHARD_LOCK_MAX];
  struct stat before, after;
  bool busy;
  write_file("waited", data, sizeof data);
  snprintf(t.path, sizeof t.path, "%s", in_folder("indexes"));
  snprintf(t.files, sizeof t.files, "%s", in_folder("waited"));
  open_indexed(&t);
  assert_int_equal(t.e, MR_OK);
  assert_int_equal(mr_shard_place_new(t.files, t.path, index, NULL), MR_OK);
  snprintf(away, sizeof away, "%s.away", index);
  assert_int_equal(stat(index, &before) | rename(index, away), 0);
  int fd = mr_shard_lock(index, -1, false, lock, &busy);
  assert_true(fd >= 0);
  assert_int_equal(pthread_create(&t.thread, NULL, open_indexed, &t), 0);
  usleep(200000);
  assert_int_equal(rename(away, index), 0);
  mr_shard_unlock(fd, lock);
  pthread_join(t.thread, NULL);
  assert_int_equal(t.e, MR_OK);
  assert_int_equal(stat(index, &after), 0);
  assert_int_equal(after.st_ino, before.st_ino);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damaged_index_files_are_rebuilt),
      cmocka_unit_test(only_files_that_have_changed_are_scanned_again),
      cmocka_unit_test(without_a_place_for_indexes_records_are_still_found),
      cmocka_unit_test(two_processes_make_one_index_at_once),
      cmocka_unit_test(a_killed_process_leaves_whole_indexes_or_none),
      cmocka_unit_test(the_disk_is_not_waited_for_when_indexes_are_written),
      cmocka_unit_test(two_files_of_one_name_have_two_indexes),
      cmocka_unit_test(names_with_a_nul_are_no_columns),
      cmocka_unit_test(forged_counts_and_sizes_are_refused),
      cmocka_unit_test(an_index_that_cannot_be_closed_is_not_kept),
      cmocka_unit_test(large_indexes_lie_in_files),
      cmocka_unit_test(an_index_stays_as_it_was_checked),
      cmocka_unit_test(a_lock_ends_though_a_child_has_inherited_it),
      cmocka_unit_test(where_there_are_no_locks_no_file_is_left),
      cmocka_unit_test(an_index_that_was_waited_for_is_not_written_again),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
