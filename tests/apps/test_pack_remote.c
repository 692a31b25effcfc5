/* Arrays on a server: a call of pack that continues reads the objects that the first one read, or
   is refused; and a run trains on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/loaders/origin.h"

enum { RECORDS = 700, EACH = 256 };

static char dir[64], graph[200];
static void *file; /* an array */
static origin_t origin;
static program_t p;

static int setup(void **state) {
  static float x[RECORDS];
  char path[100];
  size_t n;
  mr_diag_t d = {0};
  strcpy(dir, "/tmp/mr-pack-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  unsetenv("http_proxy"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
  for (int i = 0; i < RECORDS; i++) x[i] = 3 * (float)i;
  snprintf(path, sizeof path, "%s/x.npy", dir);
  assert_int_equal(mr_npy_save(path, MR_F32, 1, (int64_t[]){RECORDS}, x, &d), MR_OK);
  assert_int_equal(mr_read_file(path, 1 << 20, &file, &n, &d), MR_OK);
  origin_open(&origin, file, n, 5);
  snprintf(graph, sizeof graph, "npy backoff=0.001 fields=x:http://127.0.0.1:%d/x.npy",
           origin.port);
  return 0;
}

static int teardown(void **state) {
  origin_close(&origin);
  free(file);
  return program_forget(dir);
}

static void pack_into(const char *folder) {
  char records[16];
  snprintf(records, sizeof records, "%d", EACH);
  RUN(&p, "pack", graph, "--out", folder, "--records", records);
}

static void continues(const char *folder, const char *said) {
  pack_into(folder);
  if (p.status || !strstr(p.err, said)) fail_msg("%s%s", p.out, p.err);
}

static void refuses_changed(const char *folder) {
  pack_into(folder);
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err, "the data of the graph has changed since the shards there were written"))
    fail_msg("%s%s", p.out, p.err);
}

/* With an ETag, and where only a time tells an object's states apart; of the same size each time.
 */
static void changed_objects_are_refused(void **state) {
  for (int dated = 0; dated < 2; dated++) {
    char folder[100], shard[120];
    origin.dated = dated;
    origin.etag = 0;
    snprintf(folder, sizeof folder, "%s/out-%d", dir, dated);
    snprintf(shard, sizeof shard, "%s/shard-00001.tar", folder);
    continues(folder, "");
    assert_int_equal(unlink(shard), 0);
    continues(folder, "is missing: it is written again");
    assert_int_equal(access(shard, F_OK), 0);
    origin.etag = 1;
    refuses_changed(folder); /* though all shards are there */
    assert_int_equal(unlink(shard), 0);
    refuses_changed(folder);
    assert_int_not_equal(access(shard, F_OK), 0);
    origin.etag = 0;
    continues(folder, "");
    assert_int_equal(access(shard, F_OK), 0);
  }
}

/* A run compares its records with those that are held back before it begins: by lineages alone, for
   which no source is open. */
static void a_run_compares_its_records_without_reading_them(void **state) {
  char text[700], name[100], run[100];
  snprintf(text, sizeof text,
           "%s,y:http://127.0.0.1:%d/y.npy split=train holdout=9 ! sequential epochs=1 ! batch 8\n"
           "  ! train-step name=t model=mlp hidden=4 steps=1 threads=1\n"
           "%s,y:http://127.0.0.1:%d/y.npy split=valid holdout=9 ! sequential epochs=0 ! batch 8\n"
           "  ! t.valid\n",
           graph, origin.port, graph, origin.port);
  snprintf(name, sizeof name, "%s/own.mr", dir);
  snprintf(run, sizeof run, "%s/run", dir);
  assert_int_equal(mr_write_file(name, text, strlen(text), NULL), MR_OK);
  RUN(&p, "train", "--graph", name, "--run-dir", run);
  if (p.status) fail_msg("%d: %s%s", p.status, p.out, p.err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_compares_its_records_without_reading_them),
      cmocka_unit_test(changed_objects_are_refused)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
