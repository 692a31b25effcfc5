/* Training and evaluation that share records are refused before the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/stat.h>

#include "base/xio.h"
#include "tests/apps/program.h"

enum { RECORD = 3073, PER_FILE = 20 };

static program_t p;
static char dir[64], run[96];

static void write_file(const char *folder, const char *name, int first) {
  static unsigned char bytes[PER_FILE * RECORD];
  char path[192];
  for (int r = 0; r < PER_FILE; r++)
    for (int i = 0; i < RECORD; i++)
      bytes[r * RECORD + i] =
          (unsigned char)(i ? ((first + r) * 37 + i * (first + r)) >> 2 : r % 10);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(mr_write_file(path, bytes, sizeof bytes, NULL), MR_OK);
}

static void write_set(const char *folder) {
  char name[32];
  assert_int_equal(mkdir(folder, 0700), 0);
  for (int f = 0; f < 5; f++) {
    snprintf(name, sizeof name, "data_batch_%d.bin", f + 1);
    write_file(folder, name, f * PER_FILE);
  }
  write_file(folder, "test_batch.bin", 5 * PER_FILE);
}

/* Trains a step with these sources for train, valid and test. */
static void train(const char *train_source, const char *valid, const char *test, const char *more) {
  static char graph[1 << 17];
  char file[96];
  assert_int_equal(program_forget(run), 0);
  snprintf(graph, sizeof graph,
           "%s ! shuffle seed=1 epochs=1 ! normalize ! batch 8 drop-remainder ! "
           "vit-step name=train embed=12 heads=2 layers=1 mlp=16 steps=1 %s\n"
           "%s ! sequential epochs=0 ! normalize ! batch 8 ! train.valid\n"
           "%s ! sequential epochs=1 ! normalize ! batch 8 ! train.test\n"
           "train.metrics ! progress\n",
           train_source, more, valid, test);
  snprintf(file, sizeof file, "%s/graph.mr", dir);
  assert_int_equal(mr_write_file(file, graph, strlen(graph), NULL), MR_OK);
  RUN(&p, "train", "--graph", file, "--run-dir", run);
}

static void refused(const char *sentence) {
  struct stat st;
  if (p.status != 2 || !strstr(p.err, sentence))
    fail_msg("status %d: %s%s; expected %s", p.status, p.out, p.err, sentence);
  assert_string_equal(p.out, "");       /* nothing ran */
  assert_int_equal(stat(run, &st), -1); /* and no run folder is left */
}

static void passes(void) {
  if (p.status) fail_msg("status %d: %s", p.status, p.err);
  assert_non_null(strstr(p.out, "ledger "));
}

#define SOURCE(name, folder, more) \
  "cifar10 name=" name " path=" folder " records=20 holdout=30 split-seed=3 " more

static void splits_of_one_set_share_nothing(void **state) {
  train(SOURCE("a", "one", "split=train"), SOURCE("b", "one", "split=valid"),
        SOURCE("c", "one", "split=test"), "");
  passes();
  train(SOURCE("a", "one", "split=train"), SOURCE("b", "one", "split=valid"),
        SOURCE("c", "one", "split=test"), "leak-check=content");
  passes();
}

static void records_in_two_splits_are_counted_and_the_first_are_named(void **state) {
  train(SOURCE("a", "one", "split=all"), SOURCE("b", "one", "split=valid"),
        SOURCE("c", "one", "split=test"), "");
  refused("train and valid share 30 records (a ");
  assert_non_null(strstr(p.err, "permit them with leak-check=off"));
  train(SOURCE("a", "one", "split=all"), SOURCE("b", "one", "split=valid"),
        SOURCE("c", "one", "split=test"), "leak-check=off");
  passes();
}

static void another_seed_of_the_split_is_found(void **state) {
  train(SOURCE("a", "one", "split=train"),
        "cifar10 path=one records=20 holdout=30 split=valid "
        "split-seed=4",
        SOURCE("c", "one", "split=test"), "");
  refused("train and valid share ");
}

static void valid_and_test_may_share_nothing_either(void **state) {
  train(SOURCE("a", "one", "split=train"), SOURCE("b", "one", "split=test"),
        SOURCE("c", "one", "split=test"), "");
  refused("valid and test share 20 records (b 50000 = c 50000, ");
}

static void a_folder_by_another_name_is_the_same(void **state) {
  train(SOURCE("a", "one", "split=train"), SOURCE("b", "link/../link", "split=train"),
        SOURCE("c", "one", "split=test"), "");
  refused("train and valid share 70 records");
}

static void copies_are_found_by_their_content_alone(void **state) {
  train(SOURCE("a", "one", "split=train"), SOURCE("b", "two", "split=all"),
        SOURCE("c", "one", "split=test"), "");
  passes();
  train(SOURCE("a", "one", "split=train"), SOURCE("b", "two", "split=all"),
        SOURCE("c", "one", "split=test"), "leak-check=content");
  refused("train and valid share 70 records");
}

static void parts_of_a_stream_that_share_nothing_pass(void **state) {
  train(SOURCE("a", "one", "split=all ! slice 0:60"),
        SOURCE("b", "one", "split=all ! slice 60:100"), SOURCE("c", "one", "split=test"), "");
  passes();
  train(SOURCE("a", "one", "split=all ! slice 0:61"),
        SOURCE("b", "one", "split=all ! slice 60:100"), SOURCE("c", "one", "split=test"), "");
  refused("train and valid share 1 records (a 30000 = b 30000);");
}

/* A file of zeros with holes: its header says how many records there are. */
static bool write_large(const char *name, const char *shape, long long bytes) {
  char path[128], head[128];
  int n = snprintf(head, sizeof head,
                   "\x93NUMPY\x01%c\x76%c{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }",
                   0, 0, shape);
  memset(head + n, ' ', sizeof head - (size_t)n);
  head[sizeof head - 1] = '\n';
  snprintf(path, sizeof path, "%s/%s", dir, name);
  assert_int_equal(mr_write_file(path, head, sizeof head, NULL), MR_OK);
  return truncate(path, (off_t)sizeof head + bytes) == 0;
}

static void inputs_too_large_to_hold_are_said_with_what_to_do(void **state) {
  char large[256];
  snprintf(large, sizeof large, "npy name=b images=%s/large.npy labels=%s/large-labels.npy", dir,
           dir);
  if (!write_large("large.npy", "60000000, 3, 32, 32", 60000000ll * 3072) ||
      !write_large("large-labels.npy", "60000000,", 60000000ll))
    skip(); /* no file system for files of 184 GB with holes */
  train(SOURCE("a", "one", "split=train"), large, SOURCE("c", "one", "split=all"), "");
  refused("train and test share 70 records"); /* so that nothing reads the large one */
  assert_non_null(strstr(p.err, "input valid has 60000000 records, more than the 52428800"));
  assert_non_null(strstr(p.err, "this input is not checked; leak-check=off silences this"));
}

static void filtered_streams_are_looked_at_as_they_are(void **state) {
  train(SOURCE("a", "one", "split=all ! filter modulo=2 remainder=0:0"),
        SOURCE("b", "one", "split=all ! filter modulo=2 remainder=1:1"),
        SOURCE("c", "one", "split=test"), "");
  passes();
  train(SOURCE("a", "one", "split=all ! filter modulo=2 remainder=0:0"),
        SOURCE("b", "one", "split=all ! filter modulo=4 remainder=2:3"),
        SOURCE("c", "one", "split=test"), "");
  refused("train and valid share 25 records");
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-leak-XXXXXX");
  if (!mkdtemp(dir) || chdir(dir)) return -1;
  snprintf(run, sizeof run, "%s/run", dir);
  write_set("one"), write_set("two");
  return symlink("one", "link");
}

static int teardown(void **state) { return chdir("/") || program_forget(dir); }

static void each_of_a_thousand_sources_is_called_by_its_name(void **state) {
  enum { SOURCES = 1100 };
  char *text = malloc(64 * SOURCES), *at = text;
  assert_non_null(text);
  for (int i = 0; i < SOURCES; i++)
    at += sprintf(at, "synthetic n=1 seed=%d name=v%d ! m.\n", i, i);
  sprintf(at, "mix name=m");
  train("synthetic n=8 seed=1050 name=a", text, "synthetic n=8 seed=5000", "");
  refused("train and valid share 1 records (a 0 = v1050 0)");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splits_of_one_set_share_nothing),
      cmocka_unit_test(records_in_two_splits_are_counted_and_the_first_are_named),
      cmocka_unit_test(another_seed_of_the_split_is_found),
      cmocka_unit_test(valid_and_test_may_share_nothing_either),
      cmocka_unit_test(a_folder_by_another_name_is_the_same),
      cmocka_unit_test(copies_are_found_by_their_content_alone),
      cmocka_unit_test(parts_of_a_stream_that_share_nothing_pass),
      cmocka_unit_test(inputs_too_large_to_hold_are_said_with_what_to_do),
      cmocka_unit_test(filtered_streams_are_looked_at_as_they_are),
      cmocka_unit_test(each_of_a_thousand_sources_is_called_by_its_name),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
