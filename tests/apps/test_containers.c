/* Runs of the program over a sharded source: killed and resumed, and with records that are bad. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/npy.h"
#include "base/xio.h"
#include "tests/apps/program.h"

enum { RECORDS = 120, SHARDS = 2, BAD = 77 /* has no y */ };

static program_t p;
static char dir[64], file[96];

static void add_member(FILE *o, int i, const char *ext, int ndim, const float *v, int n) {
  char block[512] = "", name[64], head[MR_NPY_HEAD_MAX];
  int64_t dim[] = {n};
  size_t size = mr_npy_head(MR_F32, ndim, dim, head);
  unsigned sum = 0;
  snprintf(name, sizeof name, "%d.%s.npy", i, ext);
  memcpy(block, name, strlen(name));
  snprintf(block + 124, 12, "%011zo", size + (size_t)n * 4);
  block[156] = '0';
  memset(block + 148, ' ', 8);
  for (int k = 0; k < 512; k++) sum += (uint8_t)block[k];
  snprintf(block + 148, 7, "%06o", sum);
  fwrite(block, 1, 512, o), fwrite(head, 1, size, o), fwrite(v, 4, (size_t)n, o);
  memset(block, 0, 512);
  fwrite(block, 1, (512 - (size + (size_t)n * 4) % 512) % 512, o);
}

/* Archives of x (4) and y = x . (1,2,3,4); of record `without`, x alone. */
static void write_archives(const char *name, int without) {
  for (int k = 0; k < SHARDS; k++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s-%d.tar", dir, name, k);
    FILE *o = fopen(path, "wb");
    assert_non_null(o);
    for (int i = k * RECORDS / SHARDS; i < (k + 1) * RECORDS / SHARDS; i++) {
      float x[4], y = 0;
      for (int c = 0; c < 4; c++) x[c] = (float)((i * 7 + c * 13) % 19) / 10 - 1;
      for (int c = 0; c < 4; c++) y += x[c] * (float)(c + 1);
      add_member(o, i, "x", 1, x, 4);
      if (i != without) add_member(o, i, "y", 0, &y, 1);
    }
    assert_int_equal(fclose(o), 0);
  }
}

static int make(void **state) {
  char graph[700], cache[96];
  strcpy(dir, "/tmp/mr-containers-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(file, sizeof file, "%s/graph.mr", dir);
  snprintf(cache, sizeof cache, "%s/cache", dir);
  setenv("XDG_CACHE_HOME", cache, 1);
  write_archives("good", -1), write_archives("bad", BAD);
  int n = snprintf(graph, sizeof graph,
                   "let run = unset\n"
                   "tar %s/good-{0..1}.tar fields=x.npy:x:npy,y.npy:y:npy name=data\n"
                   "  ! shuffle seed=3 epochs=0 ! batch 16 drop-remainder workers=2\n"
                   "  ! train-step model=mlp name=train checkpoint-every=20\n"
                   "train.metrics ! jsonl path=$run/metrics.jsonl\n"
                   "train.state ! checkpoint dir=$run/checkpoints\n",
                   dir);
  return mr_write_file(file, graph, (size_t)n, NULL) < 0 ? -1 : 0;
}

static int forget(void **state) { return program_forget(dir); }

/* The ledger of the last line of a run's metrics. */
static void last_ledger(const char *run, char ledger[17]) {
  char path[160], line[4096], last[4096] = "";
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) strcpy(last, line);
  fclose(f);
  const char *at = strstr(last, "\"ledger\":\"");
  assert_non_null(at);
  snprintf(ledger, 17, "%s", at + 10);
}

static void a_killed_run_resumes_to_the_same_ledger(void **state) {
  char whole[96], killed[96], latest[160], want[17], got[17];
  snprintf(whole, sizeof whole, "%s/whole", dir), snprintf(killed, sizeof killed, "%s/killed", dir);
  snprintf(latest, sizeof latest, "%s/checkpoints/latest", killed);
  RUN(&p, "train", "--graph", file, "--run-dir", whole, "--steps", "150");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start(
      (const char *const[]){"train", "--graph", file, "--run-dir", killed, "--steps", "150", NULL},
      out, err);
  siginfo_t ended = {0};
  while (access(latest, F_OK) < 0 && !ended.si_pid) {
    waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    usleep(1000);
  }
  kill(pid, SIGKILL); /* harmless if it has finished: the resume then has nothing to do */
  program_wait(pid);
  fclose(out), fclose(err);
  RUN(&p, "train", "--run-dir", killed, "--resume", "--steps", "150");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  last_ledger(whole, want), last_ledger(killed, got);
  assert_string_equal(got, want);
}

static void records_that_lack_a_member_are_replaced_or_fail_the_run(void **state) {
  char graph[400], quarantine[128];
  void *text;
  size_t n;
  const char *tar = "tar %s/bad-{0..1}.tar fields=x.npy:x:npy,y.npy:y:npy %s ! batch 10 ! null";
  snprintf(graph, sizeof graph, tar, dir, "holdout=0");
  RUN(&p, "run", graph);
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "record 17, 77, at byte"));
  assert_non_null(strstr(p.err, "member .y.npy is missing"));
  snprintf(quarantine, sizeof quarantine, "on-bad=quarantine:1 quarantine=%s/q.jsonl", dir);
  snprintf(graph, sizeof graph, tar, dir, quarantine);
  RUN(&p, "run", graph);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_non_null(strstr(p.out, "12 batches, 120 records"));
  snprintf(quarantine, sizeof quarantine, "%s/q.jsonl", dir);
  assert_int_equal(mr_read_file(quarantine, 1 << 16, &text, &n, NULL), MR_OK);
  assert_non_null(strstr(text, "\"index\":77"));
  assert_non_null(strstr(text, "bad-1.tar"));
  free(text);
}

static void columns_that_become_no_field_are_named(void **state) {
  char path[96], graph[200], text[600] = "\"x,y\"";
  int n = (int)strlen(text);
  snprintf(graph, sizeof graph, "tar %s/bad-{0..1}.tar ! batch 10 ! null", dir);
  RUN(&p, "run", graph);
  if (!strstr(p.err, "left out: 1 member, \"y.npy\" (not every record has it): fields= chooses"))
    fail_msg("%s", p.err);
  snprintf(graph, sizeof graph, "tar %s/good-{0..1}.tar ! batch 10 ! null", dir);
  RUN(&p, "run", graph);
  assert_null(strstr(p.err, "left out"));
  for (int c = 0; c < 20; c++) n += sprintf(text + n, ",c%d", c);
  for (int r = 0; r < 3; r++)
    for (int c = 0; c <= 20; c++) n += sprintf(text + n, "%s%d", c ? "," : "\n", c);
  snprintf(path, sizeof path, "%s/wide.csv", dir);
  assert_int_equal(mr_write_file(path, text, (size_t)n, NULL), MR_OK);
  snprintf(graph, sizeof graph, "table %s ! batch 1 ! null", path);
  RUN(&p, "run", graph);
  if (!strstr(p.err,
              "left out: 1 column, \"x,y\" (no field can have that name); 4 columns, "
              "\"c16\", \"c17\", \"c18\", \"c19\" (a record has at most 16 fields)"))
    fail_msg("%s", p.err);
}

/* An archive without members gets no advice about bad records, and a size that cannot be read is
   not shown as a number. */
static void an_empty_or_damaged_archive_is_said(void **state) {
  char path[96], graph[200], bytes[1024] = "0.x.npy";
  unsigned sum = 0;
  snprintf(path, sizeof path, "%s/none.tar", dir);
  snprintf(graph, sizeof graph, "tar %s fields=x.npy ! batch 1 ! null", path);
  assert_int_equal(mr_write_file(path, bytes + 8, 1000, NULL), MR_OK);
  assert_int_equal(truncate(path, 1024), 0);
  RUN(&p, "run", graph);
  if (!strstr(p.err, "none.tar: no records\n")) fail_msg("%s", p.err);
  memcpy(bytes + 124, "0000000zz1", 10), bytes[156] = '0', memset(bytes + 148, ' ', 8);
  for (int k = 0; k < 512; k++) sum += (uint8_t)bytes[k];
  snprintf(bytes + 148, 7, "%06o", sum);
  assert_int_equal(mr_write_file(path, bytes, sizeof bytes, NULL), MR_OK);
  RUN(&p, "run", graph);
  if (!strstr(p.err, "the header at byte 0 has a size that is not valid")) fail_msg("%s", p.err);
}

static void a_test_set_uses_no_holdout_and_says_so(void **state) {
  char graph[200];
  snprintf(graph, sizeof graph, "tar %s/good-{0..1}.tar split=test holdout=20 ! batch 10 ! null",
           dir);
  RUN(&p, "run", graph);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "12 batches, 120 records"));
  assert_non_null(strstr(p.err, "split=test takes all 120 records: holdout=20 is not used"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_run_resumes_to_the_same_ledger),
      cmocka_unit_test(columns_that_become_no_field_are_named),
      cmocka_unit_test(an_empty_or_damaged_archive_is_said),
      cmocka_unit_test(a_test_set_uses_no_holdout_and_says_so),
      cmocka_unit_test(records_that_lack_a_member_are_replaced_or_fail_the_run),
  };
  return cmocka_run_group_tests(tests, make, forget);
}
