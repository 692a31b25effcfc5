/* millrace batch gives what the whole run gives at that step, from any step, in any graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>

#include "base/npy.h"
#include "base/xio.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"

enum { BATCHES_MAX = 64 };

typedef struct kept {
  int n;
  mr_spec_t spec;
  struct {
    int n;
    void *data;
    int32_t *label;
    uint64_t *key;
  } batch[BATCHES_MAX];
} kept_t;

static program_t p;
static kept_t whole;
static char dir[64], out[96], labels[96];

/* ---- the whole run, every batch of it ---- */

static void *copy(const void *from, size_t n) {
  void *to = malloc(n + 1);
  memcpy(to, from, n);
  return to;
}

static mr_err_t keep_step(mr_stage_t *s) {
  mr_buf_t *b = NULL;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  assert_in_range(whole.n, 0, BATCHES_MAX - 1);
  whole.spec = s->in_spec[0];
  whole.batch[whole.n].n = b->n;
  whole.batch[whole.n].data = copy(b->data, b->size);
  whole.batch[whole.n].label = copy(b->label, (size_t)b->n * sizeof *b->label);
  whole.batch[whole.n++].key = copy(b->key, (size_t)b->n * sizeof *b->key);
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t keep = {.name = "keep",
                                    .help = "Keeps a copy of every batch.",
                                    .in = {{"in", MR_FLOW_BATCHES, false}},
                                    .step = &(const mr_step_def_t){.run = keep_step}};

static void forget(void) {
  for (int i = 0; i < whole.n; i++)
    free(whole.batch[i].data), free(whole.batch[i].label), free(whole.batch[i].key);
  whole.n = 0;
}

/* Runs text up to its stage "last", with two workers in "batch". */
static void run_whole(const char *text) {
  static mr_registry_t reg;
  mr_diag_t diag = {0};
  const char *name;
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  forget();
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, &diag);
  if (e >= 0) e = mr_graph_only(g, "last", &diag);
  if (e >= 0) e = mr_graph_add_def(g, &keep, NULL, &name, &diag);
  if (e >= 0) e = mr_graph_link(g, "last", NULL, name, NULL, &diag);
  if (e >= 0) e = mr_graph_set(g, mr_graph_batches(g, &name), "workers", "2", &diag);
  if (e >= 0) e = mr_graph_run(g, &diag);
  if (e < 0) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

/* ---- one of them by the program ---- */

static void expect_batch(const char *text, int i) {
  char step[32], keys[4096];
  mr_npy_t data, label;
  snprintf(step, sizeof step, "%d", i + 1);
  RUN(&p, "batch", text, "--step", step, "--out", out, "--labels", labels);
  if (p.status) fail_msg("%s", p.err);
  assert_int_equal(mr_npy_load(out, &data, NULL), MR_OK);
  assert_int_equal(mr_npy_load(labels, &label, NULL), MR_OK);
  assert_int_equal(data.dtype, whole.spec.field->dtype);
  assert_int_equal(data.ndim, whole.spec.field->ndim + 1);
  assert_int_equal(data.dim[0], whole.batch[i].n);
  for (int k = 1; k < data.ndim; k++) assert_int_equal(data.dim[k], whole.spec.field->dim[k - 1]);
  assert_memory_equal(data.data, whole.batch[i].data, data.count * mr_dtype_size(data.dtype));
  assert_int_equal(label.count, whole.batch[i].n);
  assert_memory_equal(label.data, whole.batch[i].label, label.count * sizeof(int32_t));
  int n = snprintf(keys, sizeof keys, "keys");
  for (int k = 0; k < whole.batch[i].n; k++)
    n += snprintf(keys + n, sizeof keys - (size_t)n, " %" PRIu64, whole.batch[i].key[k]);
  if (!strstr(p.out, keys)) fail_msg("\"%s\" is not in: %s", keys, p.out);
  mr_npy_free(&data), mr_npy_free(&label);
}

static void each_step_is_the_runs_own(const char *text) {
  run_whole(text);
  for (int i = 0; i < whole.n; i += 1 + whole.n / 9) expect_batch(text, i);
  expect_batch(text, whole.n - 1);
}

static void a_batch_of_an_augmented_stream(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=300 ! shuffle seed=3 epochs=2 ! flip ! resized-crop size=32 scale=0.5:1 ! "
      "normalize ! batch 16 name=last ! null");
  assert_int_equal(whole.n, 38); /* with a part of a batch at each epoch's end */
}

static void a_batch_behind_another_stage_of_batches(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=200 split=test ! sequential epochs=1 ! normalize ! batch 32 ! "
      "identity name=last ! null");
}

static void a_batch_of_a_shard(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=301 ! shuffle seed=9 epochs=3 shard=1/4 drop-remainder ! "
      "batch 10 drop-remainder name=last ! null");
}

static void a_batch_of_a_filtered_stream(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=300 ! filter 0,3,7 ! shuffle seed=2 epochs=2 ! flip ! "
      "batch 8 name=last ! null");
}

static void a_batch_of_a_mixed_stream_without_positions(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=120 ! shuffle seed=2 epochs=1 ! flip ! filter 1,2,3,4 ! to-iter-dataset ! mix.a "
      "synthetic n=90 split=test ! sequential epochs=1 ! to-iter-dataset ! mix.b "
      "mix weights=2,1 name=mix ! batch 8 name=last ! null");
}

static void a_batch_behind_a_stage_that_makes_others(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=100 ! shuffle seed=2 epochs=2 ! batch 12 ! rebatch 7 name=last ! null");
}

static void a_batch_behind_two_stages_that_make_others_over_dropped_ends(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=100 ! shuffle seed=2 epochs=3 ! batch 12 drop-remainder ! rebatch 7 ! identity "
      "! rebatch 5 name=last ! null");
}

static void a_batch_behind_rebatch_over_steps_left_out(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=100 ! shuffle seed=2 epochs=2 ! batch 12 skip-steps=2,5-6 ! rebatch 7 name=last "
      "! null");
}

static void a_batch_behind_rebatch_of_a_filtered_stream(void **state) {
  each_step_is_the_runs_own(
      "synthetic n=200 ! filter 0,1,2 ! shuffle seed=2 epochs=3 ! batch 12 ! rebatch 7 name=last ! "
      "null");
  each_step_is_the_runs_own(
      "synthetic n=200 ! filter 0,1,2 ! shuffle seed=2 epochs=3 ! batch 12 drop-remainder ! "
      "identity ! rebatch 7 ! rebatch 5 name=last ! null");
  each_step_is_the_runs_own(
      "synthetic n=200 ! filter 0,1,2 ! shuffle seed=2 epochs=2 ! batch 12 across-epochs ! "
      "rebatch 7 name=last ! null");
}

/* It must not hold one field of several as if that were all. */
static void records_of_several_fields_are_refused(void **state) {
  RUN(&p, "batch",
      "synthetic n=8 ! zip.a  synthetic n=8 seed=2 ! zip.b  zip prefix=l.,r. name=zip ! batch 4 ! "
      "null",
      "--step", "1", "--out", out);
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err, "holds one field")) fail_msg("%s", p.err);
}

/* Every graph of the table in docs/loading.md: the ids of each step's batch are those that the
   whole run has put into its ledger. */
static void expect_ledger_of(const char *graph) {
  char text[1024], path[96], step[24], want[4096], *save = NULL;
  void *lines;
  size_t n;
  snprintf(path, sizeof path, "%s/ledger", dir);
  snprintf(text, sizeof text, "%.*s! ledger %s", (int)(strlen(graph) - 6), graph, path);
  RUN(&p, "run", text);
  if (p.status) fail_msg("%s: %s", text, p.err);
  assert_int_equal(mr_read_file(path, 1 << 24, &lines, &n, NULL), MR_OK);
  long now = 1;
  size_t at = (size_t)snprintf(want, sizeof want, "keys");
  for (char *l = strtok_r(lines, "\n", &save);; l = strtok_r(NULL, "\n", &save)) {
    long number = -1;
    unsigned long long slot, key;
    if (l) assert_int_equal(sscanf(l, "%ld %llu %llu", &number, &slot, &key), 3);
    if (number != now) { /* the step is whole */
      snprintf(step, sizeof step, "%ld", now);
      RUN(&p, "batch", graph, "--step", step);
      snprintf(want + at, sizeof want - at, "\n");
      if (!strstr(p.out, want))
        fail_msg("%s, step %ld: %s%s, want %s", graph, now, p.out, p.err, want);
      at = strlen("keys"), now = number;
    }
    if (!l || number > 3) break;
    at += (size_t)snprintf(want + at, sizeof want - at, " %llu", key);
  }
  free(lines);
}

static void a_batch_of_every_graph_in_the_docs(void **state) {
  void *page;
  size_t n;
  int graphs = 0;
  assert_int_equal(mr_read_file(MR_SOURCE_DIR "/docs/loading.md", 1 << 20, &page, &n, NULL), MR_OK);
  for (char *end = page; (end = strstr(end, "! null`")); end++) {
    char *from = end, graph[512];
    while (from > (char *)page && from[-1] != '`') from--;
    snprintf(graph, sizeof graph, "%.*s", (int)(end + 6 - from), from);
    expect_ledger_of(graph);
    graphs++;
  }
  free(page);
  assert_in_range(graphs, 20, 1000);
}

/* The slices of all hosts, one after the other, are the batches of the whole. */
static void hosts_share_each_batch(const char *text, int hosts) {
  static kept_t all;
  static char part[1024], host[32];
  run_whole(text);
  all = whole, whole.n = 0;
  int at[BATCHES_MAX] = {0};
  for (int h = 0; h < hosts; h++) {
    const char *name = strstr(text, " name=last");
    snprintf(host, sizeof host, " host=%d/%d", h, hosts);
    snprintf(part, sizeof part, "%.*s%s%s", (int)(name - text), text, host, name);
    run_whole(part);
    assert_int_equal(whole.n, all.n);
    size_t each = mr_field_bytes(whole.spec.field);
    for (int i = 0; i < all.n; i++) {
      int n = whole.batch[i].n;
      assert_true(at[i] + n <= all.batch[i].n);
      assert_memory_equal(whole.batch[i].data, (char *)all.batch[i].data + (size_t)at[i] * each,
                          (size_t)n * each);
      assert_memory_equal(whole.batch[i].key, all.batch[i].key + at[i], (size_t)n * 8);
      assert_memory_equal(whole.batch[i].label, all.batch[i].label + at[i], (size_t)n * 4);
      at[i] += n;
    }
  }
  for (int i = 0; i < all.n; i++) assert_int_equal(at[i], all.batch[i].n);
  forget();
  whole = all;
}

static void hosts_share_each_batch_also_where_they_do_not_divide_it(void **state) {
  for (int hosts = 1; hosts <= 10; hosts += 3) {
    hosts_share_each_batch(
        "synthetic n=105 ! shuffle seed=3 epochs=2 ! flip ! batch 10 name=last ! "
        "null",
        hosts);
    hosts_share_each_batch(
        "synthetic n=205 ! filter 0,1,2,3 ! shuffle seed=3 epochs=2 ! flip ! "
        "batch 10 name=last ! null",
        hosts);
    hosts_share_each_batch(
        "synthetic n=105 ! shuffle seed=3 epochs=2 ! flip ! batch 8 ! rebatch 10 name=last ! null",
        hosts);
  }
}

static void slices_are_not_rebatched(void **state) {
  RUN(&p, "run", "synthetic n=100 ! shuffle ! batch 8 host=1/2 ! rebatch 10 ! null");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "rebatch: setting size = 10: the input is one host's slices"));
  assert_non_null(strstr(p.err, "set host= of this stage"));
}

static void a_host_that_is_none_is_refused(void **state) {
  RUN(&p, "run", "synthetic ! shuffle ! batch 5 host=5/5 ! null");
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "host = 5/5: want I/N with 0 <= I < N <= 5"));
}

static void the_batch_of_a_training_graph_is_what_its_step_takes(void **state) {
  RUN(&p, "batch", MR_SOURCE_DIR "/examples/cifar10-vit.mr", "data=synthetic", "batch=8", "--step",
      "1250", "--out", out);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(
      p.out, "step 1250, epoch 1: 8 records of batches image f32[8,32,32,3] HWC, label i32[8]"));
  RUN(&p, "batch", MR_SOURCE_DIR "/examples/cifar10-vit.mr", "data=synthetic", "--stage",
      "valid-batches", "--step", "4");
  assert_non_null(strstr(p.out, "step 4, epoch 1: 232 records"));
  RUN(&p, "batch", MR_SOURCE_DIR "/examples/seed.mr", "data=synthetic", "batch=8", "--step", "1");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "step 1, epoch 1: 8 records of batches image f32[8,32,32,3]"));
}

static void batch_reports_an_excluded_record(void **state) {
  RUN(&p, "batch", "synthetic n=24 skip-records=3,10-12 ! shuffle seed=1 ! batch 4 ! null",
      "--step", "1");
  assert_non_null(strstr(p.out, "keys 13 7 15 9223372036854775820\nexcluded 12\n"));
  RUN(&p, "batch", "range 0 stop=-3 step=-1 ! batch 3 ! null", "--step", "1");
  assert_non_null(strstr(p.out, "keys 0 18446744073709551615 18446744073709551614\n"));
}

static void a_far_step_of_an_endless_stream_is_there_at_once(void **state) {
  RUN(&p, "batch", "synthetic n=10 ! shuffle epochs=0 ! batch 4 ! null", "--step", "900000000000");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "step 900000000000, epoch 300000000000: 2 records"));
  /* 899999999999 * 7 records lie before it: whole epochs of 15, and 8 more */
  RUN(&p, "batch", "synthetic n=15 ! sequential epochs=0 ! batch 5 ! rebatch 7 ! null", "--step",
      "900000000000");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "step 900000000000"));
  assert_non_null(strstr(p.out, "keys 8 9 10 11 12 13 14"));
  /* 899999999999 * 4 records lie before it: whole epochs of five that stay, and one more */
  RUN(&p, "batch", "range 10 epochs=0 ! filter key=0:4 ! batch 3 ! rebatch 4 ! null", "--step",
      "900000000000");
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.out, "keys 1 2 3 4\n"));
  RUN(&p, "batch",
      "range 10 epochs=0 ! filter key=0:4 ! to-iter-dataset ! batch 3 ! rebatch 4 ! null", "--step",
      "900000000000");
  assert_non_null(strstr(p.out, "keys 1 2 3 4\n"));
}

static void refused(const char *graph, const char *step, int status, const char *sentence) {
  RUN(&p, "batch", graph, "--step", step, "--out", out);
  if (p.status != status || !strstr(p.err, sentence))
    fail_msg("status %d, %s; expected %d, %s", p.status, p.err, status, sentence);
}

static void a_step_that_is_none_is_refused(void **state) {
  refused("synthetic n=100 ! shuffle ! batch 50 ! null", "3", 2, "the stream has steps 1 to 2");
  refused("synthetic n=100 ! shuffle ! batch 50 ! null", "0", 2, "from 1 to");
  refused("count 5 ! null", "1", 2, "the graph makes no batches");
  RUN(&p, "batch", "synthetic ! shuffle ! batch 50 ! null");
  assert_non_null(strstr(p.err, "--step N must be given"));
  RUN(&p, "batch", "synthetic ! shuffle ! batch 50 ! null", "--step", "1", "--out", "/none/x.npy");
  assert_non_null(strstr(p.err, "/none/x.npy"));
  RUN(&p, "batch", "synthetic ! shuffle ! batch 5 ! null", "--step", "1", "--stage", "shuffle");
  assert_int_equal(p.status, 2);
}

static int group_setup(void **state) {
  strcpy(dir, "/tmp/mr-batch-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  snprintf(out, sizeof out, "%s/out.npy", dir);
  snprintf(labels, sizeof labels, "%s/labels.npy", dir);
  return 0;
}

static int group_teardown(void **state) {
  forget();
  return program_forget(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_of_an_augmented_stream),
      cmocka_unit_test(a_batch_behind_another_stage_of_batches),
      cmocka_unit_test(a_batch_of_a_shard),
      cmocka_unit_test(a_batch_of_a_filtered_stream),
      cmocka_unit_test(a_batch_of_a_mixed_stream_without_positions),
      cmocka_unit_test(a_batch_behind_a_stage_that_makes_others),
      cmocka_unit_test(a_batch_behind_two_stages_that_make_others_over_dropped_ends),
      cmocka_unit_test(a_batch_behind_rebatch_over_steps_left_out),
      cmocka_unit_test(a_batch_behind_rebatch_of_a_filtered_stream),
      cmocka_unit_test(records_of_several_fields_are_refused),
      cmocka_unit_test(a_batch_of_every_graph_in_the_docs),
      cmocka_unit_test(hosts_share_each_batch_also_where_they_do_not_divide_it),
      cmocka_unit_test(slices_are_not_rebatched),
      cmocka_unit_test(a_host_that_is_none_is_refused),
      cmocka_unit_test(the_batch_of_a_training_graph_is_what_its_step_takes),
      cmocka_unit_test(batch_reports_an_excluded_record),
      cmocka_unit_test(a_far_step_of_an_endless_stream_is_there_at_once),
      cmocka_unit_test(a_step_that_is_none_is_refused),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
