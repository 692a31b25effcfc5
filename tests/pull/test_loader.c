/* The loader: the batches of a graph's run, in its order and with its ledger, wherever it begins
   and however it is asked for them. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ledger.h"
#include "base/xio.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "pull/dlpack.h"
#include "pull/loader.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/child.h"
#include "tests/random.h"

/* Streams of every kind: positions alone, walks with words, mixes, regrouped batches, ragged
   fields. */
static const char *const streams[] = {
    "range 1000 ! shuffle seed=1 epochs=3 ! batch 32 workers=2",
    "synthetic n=300 ! shuffle seed=3 epochs=2 ! flip ! normalize ! batch 16 workers=3",
    "range 500 ! shuffle seed=5 epochs=2 ! to-iter-dataset ! window-shuffle 64 seed=2 ! batch 20",
    ("range 300 ! shuffle seed=1 epochs=2 ! mix weights=1,3 name=m range 900 ! shuffle seed=2 "
     "epochs=2 ! m.b m. ! filter p=0.5 ! batch 16"),
    "range 640 ! shuffle seed=8 epochs=2 ! batch 10 ! rebatch 24",
    "range 100 ! shuffle seed=4 ! batch 7 across-epochs"};
enum { STREAMS = sizeof streams / sizeof *streams, MOST = 512 };

/* What a batch holds. */
static uint64_t content_of(const mr_batch_t *b) {
  uint64_t h = mr_hash_mix((uint64_t)b->step, (uint64_t)b->n);
  for (int f = 0; f < b->n_fields; f++) {
    const mr_batch_field_t *v = &b->field[f];
    size_t bytes = mr_dtype_size((mr_dtype_t)v->dtype);
    for (int d = 0; d < v->ndim; d++) bytes *= (size_t)v->dim[d];
    for (size_t i = 0; i < bytes; i++) h = mr_hash_mix(h, ((const uint8_t *)v->data)[i]);
  }
  for (int i = 0; i < b->n; i++) h = mr_hash_mix(mr_hash_mix(h, b->key[i]), b->draw[i]);
  return h;
}

static mr_loader_t *opened(const char *graph, const mr_loader_settings_t *settings) {
  mr_diag_t d = {0};
  mr_loader_t *l = NULL;
  if (mr_loader_open(graph, settings, &l, &d) != MR_OK) fail_msg("%s: %s", graph, d.text);
  return l;
}

static mr_loader_t *opened_with(const char *graph, const char *set, const char *state) {
  return opened(graph, &(mr_loader_settings_t){
                           .set = set ? &set : NULL, .n_set = set != NULL, .state = state});
}

/* Reads to the end into content[0,MOST); returns how many batches there were. */
static int read_all(mr_loader_t *l, uint64_t *content) {
  const mr_batch_t *b;
  mr_diag_t d = {0};
  mr_err_t e;
  int n = 0;
  while ((e = mr_loader_next(l, &b, &d)) == MR_OK && n < MOST) content[n++] = content_of(b);
  if (e != MR_END) fail_msg("%s", d.text);
  assert_null(b);
  assert_int_equal(mr_loader_next(l, &b, &d), MR_END); /* again and again */
  return n;
}

static char *state_of(mr_loader_t *l) {
  char *text;
  mr_diag_t d = {0};
  if (mr_loader_state(l, &text, &d) != MR_OK) fail_msg("%s", d.text);
  return text;
}

/* ---- the graph's own run ---- */

static void batches_are_those_of_the_graphs_run(void **state) {
  static mr_registry_t reg;
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  for (int i = 0; i < STREAMS; i++) {
    char text[1024], where[] = "/tmp/millrace-loader-XXXXXX";
    mr_diag_t d = {0};
    assert_int_not_equal(close(mkstemp(where)), -1);
    snprintf(text, sizeof text, "%s ! ledger state=%s", streams[i], where);
    mr_graph_t *g = mr_graph_create(&reg);
    if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_run(g, &d) < 0) fail_msg("%s", d.text);
    mr_graph_destroy(g);
    void *saved;
    size_t n;
    uint64_t content[MOST];
    assert_int_equal(mr_read_file(where, 65536, &saved, &n, &d), MR_OK);
    unlink(where);
    mr_loader_t *l = opened(streams[i], NULL);
    int batches = read_all(l, content);
    char ledger[64], *mine = state_of(l);
    snprintf(ledger, sizeof ledger, "\"ledger\":\"%016" PRIx64 "\"", mr_loader_ledger(l));
    if (!strstr(saved, ledger)) fail_msg("%s: %s is not in %s", text, ledger, (char *)saved);
    assert_non_null(strstr(mine, ledger));
    snprintf(ledger, sizeof ledger, "\"step\":%d,", batches);
    assert_non_null(strstr(saved, ledger));
    if (mr_loader_steps(l)) assert_int_equal(mr_loader_steps(l), batches);
    /* The state that the stage left is one of ours too. */
    mr_loader_t *after = opened_with(streams[i], NULL, saved);
    const mr_batch_t *b;
    assert_int_equal(mr_loader_next(after, &b, &d), MR_END);
    mr_loader_close(after), mr_loader_close(l);
    free(saved), free(mine);
  }
}

/* ---- states ---- */

static void a_state_resumes_exactly_with_other_workers(void **state) {
  round_t r = round_first(1);
  round_next(&r);
  for (int i = 0; i < STREAMS; i++) {
    uint64_t whole[MOST], rest[MOST];
    mr_loader_t *l = opened(streams[i], NULL);
    int n = read_all(l, whole);
    uint64_t ledger = mr_loader_ledger(l);
    mr_loader_close(l);
    for (int round = 0; round < 12; round++) {
      const mr_batch_t *b;
      mr_diag_t d = {0};
      char workers[32], *saved;
      int stop = draw(&r, n + 1);
      snprintf(workers, sizeof workers, "batch.workers=%d", 1 + draw(&r, 4));
      l = opened_with(streams[i], workers, NULL);
      for (int k = 0; k < stop; k++) assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
      saved = state_of(l);
      assert_true(strlen(saved) < 600);
      mr_loader_close(l);
      l = opened_with(streams[i], round % 2 ? NULL : "batch.workers=2", saved);
      assert_int_equal(mr_loader_step(l), stop);
      assert_int_equal(read_all(l, rest), n - stop);
      assert_memory_equal(rest, whole + stop, (size_t)(n - stop) * sizeof *rest);
      assert_true(mr_loader_ledger(l) == ledger);
      mr_loader_close(l);
      free(saved);
    }
  }
}

/* Records of the batches of several hosts, as a sum that does not depend on their order. */
static void add_records(const mr_batch_t *b, uint64_t *sum) {
  for (int i = 0; i < b->n; i++)
    *sum += mr_hash_mix(mr_hash_mix((uint64_t)b->step, (uint64_t)(b->first + i)), b->key[i]);
}

static uint64_t records_of_hosts(const char *graph, int hosts, const char *from, int64_t steps,
                                 char **left) {
  uint64_t sum = 0;
  for (int h = 0; h < hosts; h++) {
    const mr_batch_t *b;
    mr_diag_t d = {0};
    mr_loader_t *l =
        opened(graph, &(mr_loader_settings_t){.host = h, .hosts = hosts, .state = from});
    for (int64_t k = 0; k < steps && mr_loader_next(l, &b, &d) == MR_OK; k++) add_records(b, &sum);
    if (left && !h) *left = state_of(l);
    mr_loader_close(l);
  }
  return sum;
}

static void a_state_resumes_exactly_with_other_hosts(void **state) {
  const char *graph = "range 960 ! shuffle seed=6 epochs=2 ! batch 48 workers=2";
  uint64_t whole = records_of_hosts(graph, 1, NULL, 1000, NULL);
  for (int hosts = 1; hosts <= 4; hosts++)
    for (int then = 1; then <= 4; then++) {
      char *left;
      uint64_t first = records_of_hosts(graph, hosts, NULL, 5 + hosts, &left);
      assert_true(first + records_of_hosts(graph, then, left, 1000, NULL) == whole);
      free(left);
    }
}

static void a_killed_loop_resumes_from_what_it_saved(void **state) {
  const char *graph = streams[2];
  uint64_t whole[MOST], rest[MOST];
  char folder[] = "/tmp/millrace-killed-XXXXXX", file[64];
  mr_loader_t *l = opened(graph, NULL);
  int n = read_all(l, whole), at = 0;
  mr_loader_close(l);
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/state", folder);
  for (int round = 0; round < 4; round++) {
    int go[2], status;
    assert_int_equal(pipe(go), 0);
    fflush(stdout);
    pid_t child = fork();
    if (!child) { /* saves after each batch until it is killed, and says how many it had */
      void *from = NULL;
      size_t bytes;
      const mr_batch_t *b;
      alarm(HANGS);
      if (round) mr_read_file(file, 65536, &from, &bytes, NULL);
      l = NULL;
      mr_loader_open(graph, &(mr_loader_settings_t){.state = from}, &l, NULL);
      while (l && mr_loader_next(l, &b, NULL) == MR_OK) {
        char *text;
        if (mr_loader_state(l, &text, NULL) < 0 ||
            mr_write_file(file, text, strlen(text), NULL) < 0 || write(go[1], "x", 1) != 1)
          _exit(3);
        free(text);
      }
      for (;;) pause();
    }
    close(go[1]);
    for (int k = 0; k < 7 + round; k++) {
      char x;
      assert_int_equal(read(go[0], &x, 1), 1);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(go[0]);
    void *saved;
    size_t bytes;
    mr_diag_t d = {0};
    assert_int_equal(mr_read_file(file, 65536, &saved, &bytes, &d), MR_OK);
    l = opened_with(graph, NULL, saved);
    assert_true(mr_loader_step(l) >= at + 7 + round);
    at = (int)mr_loader_step(l);
    assert_int_equal(read_all(l, rest), n - at);
    assert_memory_equal(rest, whole + at, (size_t)(n - at) * sizeof *rest);
    mr_loader_close(l);
    free(saved);
  }
  unlink(file), rmdir(folder);
}

static void a_state_of_another_stream_says_what_differs(void **state) {
  static const struct {
    const char *of, *in, *says;
  } cases[] = {{"range 1000 ! shuffle seed=1 ! batch 32", "range 1000 ! shuffle seed=2 ! batch 32",
                "it had \"shuffle seed=1\", this one has \"shuffle seed=2\""},
               {"range 1000 ! shuffle seed=1 ! batch 32", "range 1000 ! shuffle seed=1 ! batch 64",
                "it had \"batch size=32\", this one has \"batch size=64\""},
               {"range 1000 ! shuffle seed=1 ! batch 32", "range 999 ! shuffle seed=1 ! batch 32",
                "it had 1000 records an epoch, this one has 999"},
               {"synthetic n=64 ! shuffle seed=1 ! flip ! batch 8",
                "synthetic n=64 ! shuffle seed=1 ! batch 8", "it had \"flip\""},
               {"synthetic n=64 ! shuffle seed=1 ! batch 8",
                "synthetic n=64 ! shuffle seed=1 ! flip ! batch 8", "it had no \"flip\""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_diag_t d = {0};
    mr_loader_t *l = opened(cases[i].of, NULL);
    const mr_batch_t *b;
    assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
    char *saved = state_of(l);
    mr_loader_close(l);
    assert_int_equal(mr_loader_open(cases[i].in, &(mr_loader_settings_t){.state = saved}, &l, &d),
                     MR_ERR_DATA);
    assert_null(l);
    if (!strstr(d.text, cases[i].says)) fail_msg("%s", d.text);
    free(saved);
  }
}

static void settings_that_move_no_record_may_differ_from_those_of_the_state(void **state) {
  mr_loader_t *l = opened("range 1000 ! shuffle seed=1 epochs=2 ! batch 32 workers=3 ! null", NULL);
  char *saved = state_of(l);
  mr_loader_close(l);
  mr_loader_close(
      opened_with("range 1000 ! shuffle seed=01 epochs=5 name=other ! batch 32", NULL, saved));
  free(saved);
}

static void broken_states_are_refused(void **state) {
  static const char *const bad[] = {
      "",
      "{}",
      "[]",
      "null",
      "7",
      "{\"version\":3,\"step\":1,\"position\":1,\"ledger\":\"0000000000000000\",\"words\":[]}",
      "{\"version\":2,\"step\":-1,\"position\":1,\"ledger\":\"0000000000000000\",\"words\":[]}",
      "{\"version\":2,\"step\":1,\"position\":1e300,\"ledger\":\"0000000000000000\",\"words\":[]}",
      "{\"version\":2,\"step\":1,\"position\":1,\"ledger\":\"xyz\",\"words\":[]}",
      "{\"version\":2,\"step\":1,\"position\":1,\"ledger\":\"0000000000000000\",\"words\":[\"a\"]}",
      "{\"version\":2,\"step\":1,\"position\":1,\"ledger\":\"0000000000000000\",\"words\":[1]}",
      "{\"version\":2,\"step\":1,\"position\":1,\"ledger\":\"0000000000000000\",\"words\":[],"
      "\"stages\":[1]}",
      "{\"version\":2,\"step\":1,\"position\":1,\"ledger\":\"0000000000000000\",\"words\":[],"
      "\"stages\":[[]]}",
      "{\"version\":2,\"step\":99999,\"ledger\":\"0000000000000000\",\"words\":[],\"by_number\":"
      "true}"};
  const char *graph = "range 100 ! shuffle seed=1 ! batch 10";
  mr_loader_t *l = opened(graph, NULL);
  char *good = state_of(l);
  mr_loader_close(l);
  for (size_t i = 0; i < sizeof bad / sizeof *bad + strlen(good); i++) {
    mr_diag_t d = {0};
    size_t cut = i - sizeof bad / sizeof *bad;
    char *text = strdup(i < sizeof bad / sizeof *bad ? bad[i] : good);
    if (i >= sizeof bad / sizeof *bad) text[cut] = 0; /* every beginning of a good one */
    mr_err_t e = mr_loader_open(graph, &(mr_loader_settings_t){.state = text}, &l, &d);
    if (e >= 0) fail_msg("taken: %s", text);
    assert_true(*d.text);
    free(text);
  }
  free(good);
}

/* ---- beginning anywhere ---- */

static void seek_finds_every_batch(void **state) {
  round_t r = round_first(1);
  round_next(&r);
  for (int i = 0; i < STREAMS; i++) {
    uint64_t whole[MOST];
    mr_diag_t d = {0};
    mr_loader_t *l = opened(streams[i], NULL);
    int n = read_all(l, whole);
    for (int round = 0; round < 15; round++) {
      const mr_batch_t *b;
      int at = draw(&r, n);
      if (mr_loader_seek(l, at, &d) != MR_OK) fail_msg("%s: %d: %s", streams[i], at, d.text);
      assert_int_equal(mr_loader_step(l), at);
      if (round % 3 == 0) { /* the state there is as good */
        char *saved = state_of(l);
        mr_loader_close(l);
        l = opened_with(streams[i], NULL, saved);
        free(saved);
      }
      assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
      assert_true(content_of(b) == whole[at]);
    }
    if (mr_loader_steps(l)) {
      const mr_batch_t *b;
      if (mr_loader_seek(l, n, &d) != MR_OK) fail_msg("%s: the end: %s", streams[i], d.text);
      assert_int_equal(mr_loader_next(l, &b, &d), MR_END);
      assert_int_equal(mr_loader_seek(l, n + 1, &d), MR_ERR_CONFIG);
      assert_int_equal(mr_loader_seek(l, -1, NULL), MR_ERR_CONFIG);
      assert_int_equal(mr_loader_next(l, &b, &d), MR_END); /* as it was */
    }
    mr_loader_close(l);
  }
}

/* ---- keeping ---- */

static void kept_batches_stay_and_outlive_their_loader(void **state) {
  const mr_batch_t *kept[4], *b;
  uint64_t content[4];
  mr_diag_t d = {0};
  mr_loader_t *l = opened(streams[1], &(mr_loader_settings_t){.keep = 3});
  for (int i = 0; i < 4; i++) {
    assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
    assert_int_equal(b->kept, i);
    kept[i] = mr_batch_keep(b), content[i] = content_of(b);
  }
  assert_int_equal(mr_loader_kept(l), 3); /* and the newest */
  assert_int_equal(mr_loader_next(l, &b, &d), MR_ERR_USAGE);
  assert_non_null(strstr(d.text, "4 batches of the stream are kept, and keep=3 allows no more"));
  mr_batch_drop(kept[0]);
  for (int i = 0; i < 5; i++) assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
  if (mr_loader_seek(l, 7, &d) != MR_OK) fail_msg("%s", d.text);
  for (int i = 0; i < 5; i++) assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
  mr_loader_close(l);
  for (int i = 1; i < 4; i++) {
    assert_true(content_of(kept[i]) == content[i]);
    mr_batch_drop(kept[i]);
  }
}

/* What describe says that a stage has given so far. */
static int items_of(mr_loader_t *l, const char *stage) {
  char *text, name[64];
  mr_diag_t d = {0};
  if (mr_loader_describe(l, "stats", &text, &d) != MR_OK) fail_msg("%s", d.text);
  snprintf(name, sizeof name, "\"name\":\"%s\"", stage);
  const char *at = strstr(text, name);
  if (at) at = strstr(at, "\"items\":");
  assert_non_null(at);
  int n = atoi(at + strlen("\"items\":"));
  free(text);
  return n;
}

/* As many as loader.h says. */
static void batches_are_made_ahead_while_the_caller_stands_still(void **state) {
  static const struct {
    const char *graph, *last;
    int ahead;
  } want[] = {
      {"synthetic n=400 ! shuffle seed=1 epochs=0 ! batch 400 workers=1", "batch", 8},
      {"synthetic n=400 ! shuffle seed=1 epochs=0 ! batch 400 workers=2", "batch", 16},
      {"synthetic n=400 ! shuffle seed=1 epochs=0 ! batch 400 workers=3", "batch", 12},
      {"synthetic n=400 ! shuffle seed=1 epochs=0 ! batch 400 workers=4", "batch", 16},
      {"synthetic n=400 ! shuffle seed=1 epochs=0 ! batch 200 workers=3 ! rebatch 400", "rebatch",
       8},
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    mr_loader_t *l = opened(want[i].graph, &(mr_loader_settings_t){.keep = 2});
    for (int taken = 0; taken <= 6; taken++) {
      const mr_batch_t *b;
      if (taken) assert_int_equal(mr_loader_next(l, &b, NULL), MR_OK);
      while (items_of(l, want[i].last) < taken + want[i].ahead) sched_yield();
      for (int k = 0; k < 50; k++) sched_yield();
      assert_int_equal(items_of(l, want[i].last), taken + want[i].ahead);
    }
    mr_loader_close(l);
  }
}

static void a_copy_is_the_callers_own(void **state) {
  const mr_batch_t *b;
  mr_diag_t d = {0};
  mr_loader_t *l = opened(streams[1], NULL);
  assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
  uint64_t content = content_of(b);
  const mr_batch_t *copy = mr_batch_copy(b);
  memset(b->field[0].data, 1, 8);
  assert_int_equal(mr_loader_next(l, &b, &d), MR_OK); /* it is none of those that are kept */
  mr_loader_close(l);
  assert_true(content_of(copy) == content);
  assert_string_equal(copy->field[0].name, "image");
  assert_true(copy->writable);
  mr_batch_drop(mr_batch_keep(copy));
  mr_batch_drop(copy);
}

/* What the specification of DLPack says of a tensor, read as a consumer reads it. */
typedef struct seen_tensor {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} seen_tensor_t;
typedef struct seen_versioned {
  uint32_t major, minor;
  void *ctx;
  void (*deleter)(struct seen_versioned *self);
  uint64_t flags;
  seen_tensor_t tensor;
} seen_versioned_t;
typedef struct seen_plain {
  seen_tensor_t tensor;
  void *ctx;
  void (*deleter)(struct seen_plain *self);
} seen_plain_t;

static void *drops_a_view(void *arg) {
  seen_versioned_t *v = arg;
  v->deleter(v);
  return NULL;
}

static void a_view_by_dlpack_keeps_its_batch_until_it_is_deleted(void **state) {
  const mr_batch_t *b;
  mr_diag_t d = {0};
  void *view, *plain, *first;
  pthread_t t;
  mr_loader_t *l = opened(streams[1], NULL);
  assert_int_equal(mr_loader_take(l, -1, &b, &d), MR_OK);
  assert_int_equal(mr_batch_dlpack(b, 0, true, &view, &d), MR_OK);
  assert_int_equal(mr_batch_dlpack(b, 1, false, &first, &d), MR_OK);
  const seen_versioned_t *v = view;
  assert_true(v->major == 1 && v->flags == 0 && v->tensor.data == b->field[0].data);
  assert_true(v->tensor.device_type == 1 && v->tensor.lanes == 1 && v->tensor.byte_offset == 0);
  assert_true(v->tensor.code == 2 && v->tensor.bits == 32 && v->tensor.ndim == 4);
  const int64_t shape[] = {16, 32, 32, 3}, strides[] = {3072, 96, 3, 1};
  assert_memory_equal(v->tensor.shape, shape, sizeof shape);
  assert_memory_equal(v->tensor.strides, strides, sizeof strides);
  assert_int_equal(((seen_plain_t *)first)->tensor.ndim, 1);
  assert_int_equal(mr_batch_dlpack(b, 2, true, &plain, NULL), MR_ERR_USAGE); /* no offsets */
  assert_int_equal(mr_batch_dlpack(b, -1, true, &plain, NULL), MR_ERR_USAGE);
  assert_null(plain);
  ((seen_plain_t *)first)->deleter(first);
  const mr_batch_t *more;
  mr_batch_drop(b);
  assert_int_equal(mr_loader_kept(l), 1); /* the views have it */
  assert_int_equal(mr_loader_next(l, &more, NULL), MR_ERR_USAGE);
  mr_loader_close(l);
  pthread_create(&t, NULL, drops_a_view, view);
  pthread_join(t, NULL);
}

/* ---- threads ---- */

typedef struct shared {
  mr_loader_t *l;
  pthread_mutex_t lock;
  uint64_t content[MOST];
  int seen[MOST];
} shared_t;

static void *takes_its_share(void *arg) {
  shared_t *s = arg;
  const mr_batch_t *b;
  mr_diag_t d = {0};
  mr_err_t e;
  while ((e = mr_loader_take(s->l, -1, &b, &d)) == MR_OK || e == MR_AGAIN) {
    if (e == MR_AGAIN) continue;
    uint64_t h = content_of(b);
    pthread_mutex_lock(&s->lock);
    s->content[b->step - 1] = h, s->seen[b->step - 1]++;
    pthread_mutex_unlock(&s->lock);
    mr_batch_drop(b);
  }
  return e == MR_END ? NULL : arg;
}

static void threads_that_share_a_loader_see_each_batch_once(void **state) {
  uint64_t whole[MOST];
  static shared_t s;
  pthread_t t[4];
  mr_loader_t *l = opened(streams[1], NULL);
  int n = read_all(l, whole);
  mr_loader_close(l);
  s = (shared_t){.l = opened(streams[1], &(mr_loader_settings_t){.keep = 4})};
  pthread_mutex_init(&s.lock, NULL);
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, takes_its_share, &s);
  for (int i = 0; i < 4; i++) {
    void *bad;
    pthread_join(t[i], &bad);
    assert_null(bad);
  }
  mr_loader_close(s.l);
  for (int i = 0; i < n; i++) assert_int_equal(s.seen[i], 1);
  assert_memory_equal(s.content, whole, (size_t)n * sizeof *whole);
}

/* A source of batches that never gives one. */
static mr_err_t silent_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}
static mr_err_t silent_run(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_OK) mr_buf_unref(b);
  if (e != MR_END) return e;
  MR_TRY(mr_wait_fds(s, mr_news(s), NULL, 0, -1)); /* until it is cancelled */
  return MR_OK;
}
static const mr_stage_def_t silent = {.name = "silent",
                                      .help = "Gives nothing.",
                                      .in = {{"in", MR_FLOW_BATCHES, false}},
                                      .out = {{"out", MR_FLOW_BATCHES, false}},
                                      .plan = silent_plan,
                                      .step = &(const mr_step_def_t){.run = silent_run}};
static const mr_stage_def_t *const own[] = {&silent, NULL};

static void *waits_for_ever(void *arg) {
  const mr_batch_t *b;
  mr_diag_t d = {0};
  mr_err_t e = mr_loader_next(arg, &b, &d);
  return e == MR_ERR_CANCEL && strstr(d.text, "stopped") ? NULL : arg;
}

static void stop_ends_the_wait_of_another_thread(void **state) {
  for (int round = 0; round < 40; round++) {
    pthread_t t[2];
    void *bad;
    mr_loader_t *l = opened("range 10 ! batch 2 ! silent", &(mr_loader_settings_t){.stages = own});
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, waits_for_ever, l);
    mr_loader_stop(l);
    for (int i = 0; i < 2; i++) {
      pthread_join(t[i], &bad);
      assert_null(bad);
    }
    const mr_batch_t *b;
    assert_int_equal(mr_loader_next(l, &b, NULL), MR_ERR_CANCEL); /* from then on */
    mr_loader_close(l);
  }
}

/* Gives nothing in the first graph that opens it, and all of its input in later ones. */
static int n_opened; /* of the test's thread */
typedef struct late {
  bool silent;
} late_t;
static mr_err_t late_open(mr_stage_t *s) {
  ((late_t *)s->state)->silent = !n_opened++;
  return MR_OK;
}
static mr_err_t late_run(mr_stage_t *s) {
  mr_buf_t *b;
  if (((late_t *)s->state)->silent) return silent_run(s);
  mr_err_t e = mr_pull(s, 0, &b);
  return e == MR_OK ? mr_push(s, 0, b) : e;
}
static const mr_stage_def_t late = {.name = "late",
                                    .help = "Gives nothing at first.",
                                    .in = {{"in", MR_FLOW_BATCHES, false}},
                                    .out = {{"out", MR_FLOW_BATCHES, false}},
                                    .state_sz = sizeof(late_t),
                                    .plan = silent_plan,
                                    .open = late_open,
                                    .step = &(const mr_step_def_t){.run = late_run}};

/* Some of the threads wait for the batches of the graph that the seek ends, and some for them. */
static void a_seek_moves_the_waits_of_other_threads(void **state) {
  static const mr_stage_def_t *const table[] = {&late, NULL};
  enum { BATCHES = 5, TAKERS = 3 };
  for (int round = 0; round < 40; round++) {
    static shared_t s;
    pthread_t t[TAKERS];
    mr_diag_t d = {0};
    n_opened = 0;
    s = (shared_t){.l = opened("range 10 ! batch 2 ! late",
                               &(mr_loader_settings_t){.keep = TAKERS, .stages = table})};
    pthread_mutex_init(&s.lock, NULL);
    for (int i = 0; i < TAKERS; i++) pthread_create(&t[i], NULL, takes_its_share, &s);
    const mr_batch_t *b;
    assert_int_equal(mr_loader_take(s.l, round % 3, &b, NULL), MR_AGAIN);
    if (mr_loader_seek(s.l, 0, &d) != MR_OK) fail_msg("%s", d.text);
    for (int i = 0; i < TAKERS; i++) {
      void *bad;
      pthread_join(t[i], &bad);
      assert_null(bad);
    }
    mr_loader_close(s.l);
    for (int i = 0; i < BATCHES; i++) assert_int_equal(s.seen[i], 1);
  }
}

static void *closes(void *arg) {
  mr_loader_close(arg);
  return NULL;
}

static void a_batch_that_does_not_come_is_not_waited_for_longer(void **state) {
  const mr_batch_t *b;
  mr_loader_t *l = opened("range 10 ! batch 2 ! silent", &(mr_loader_settings_t){.stages = own});
  for (int i = 0; i < 3; i++) assert_int_equal(mr_loader_take(l, i, &b, NULL), MR_AGAIN);
  closes(l);
}

static void on_signal(int signal) {}

static void *takes_until_a_signal(void *arg) {
  const mr_batch_t *b;
  mr_err_t e = mr_loader_take(arg, -1, &b, NULL);
  return e == MR_AGAIN ? NULL : arg;
}

static void a_signal_ends_take_with_again(void **state) {
  struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  pthread_t t;
  void *bad;
  int gone;
  sigaction(SIGUSR1, &act, &before);
  mr_loader_t *l = opened("range 10 ! batch 2 ! silent", &(mr_loader_settings_t){.stages = own});
  pthread_create(&t, NULL, takes_until_a_signal, l);
  do pthread_kill(t, SIGUSR1); /* until one comes while it waits */
  while ((gone = pthread_tryjoin_np(t, &bad)));
  assert_null(bad);
  mr_loader_close(l);
  sigaction(SIGUSR1, &before, NULL);
}

/* ---- bad input ---- */

static void bad_openings_say_what_is_wrong(void **state) {
  static const struct {
    const char *graph;
    mr_loader_settings_t set;
    mr_err_t code;
    const char *says;
  } cases[] = {
      {"rnage 10 ! batch 2", {0}, MR_ERR_USAGE, "did you mean \"range\""},
      {"range 10 ! batch sise=2", {0}, MR_ERR_CONFIG, "did you mean \"size\""},
      {"range 10 ! shuffle", {0}, MR_ERR_USAGE, "makes no batches"},
      {"", {0}, MR_ERR_USAGE, "the graph has no stages"},
      {"missing/graph.mr", {0}, MR_ERR_IO, "missing/graph.mr"},
      {"/", {0}, MR_ERR_USAGE, "it is a folder"},
      {"range 10 ! batch 2", {.keep = -1}, MR_ERR_CONFIG, "keep -1: want [0,4096]"},
      {"range 10 ! batch 2", {.keep = 4097}, MR_ERR_CONFIG, "keep 4097"},
      {"range 10 ! batch 2",
       {.host = 2, .hosts = 2},
       MR_ERR_CONFIG,
       "host 2 of 2: want a number in [0,2)"},
      {"range 10 ! batch 2", {.host = -1, .hosts = 2}, MR_ERR_CONFIG, "host -1 of 2"},
      {"range 10 ! batch 2", {.hosts = -3}, MR_ERR_CONFIG, "of -3"},
      {"range 10 ! batch 2", {.n_set = -1}, MR_ERR_USAGE, "-1 settings"},
      {"range 10 ! batch 2", {.n_set = 2}, MR_ERR_USAGE, "2 settings, but no texts"},
      {"range 10 ! batch 2", {.stage = "train"}, MR_ERR_USAGE, "\"train\""},
      {"range 10 ! batch 2", {.stage = "range"}, MR_ERR_SHAPE, "range"},
      {"plugin x.so\nrange 10 ! batch 2", {0}, MR_ERR_UNAVAILABLE, "plug"},
      {"range 10 ! batch 2", {.stages = own}, MR_OK, ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_diag_t d = {0};
    mr_loader_t *l;
    mr_err_t e = mr_loader_open(cases[i].graph, &cases[i].set, &l, &d);
    if (e != cases[i].code || !strstr(d.text, cases[i].says))
      fail_msg("case %zu: %d: %s", i, (int)e, d.text);
    assert_true((l != NULL) == (e >= 0));
    mr_loader_close(l);
  }
  mr_loader_close(NULL);
  mr_batch_drop(mr_batch_keep(NULL));
}

/* A map that fails at its 30th record. */
static int n_mapped;
static mr_err_t failing_run(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  if (++n_mapped == 4) {
    mr_buf_unref(b);
    return mr_stage_fail(s, MR_ERR_DATA, "batch 4 is bad");
  }
  return mr_push(s, 0, b);
}
static const mr_stage_def_t failing = {.name = "failing",
                                       .help = "Fails.",
                                       .in = {{"in", MR_FLOW_BATCHES, false}},
                                       .out = {{"out", MR_FLOW_BATCHES, false}},
                                       .plan = silent_plan,
                                       .step = &(const mr_step_def_t){.run = failing_run}};

static void a_failure_of_a_stage_is_said_again_and_again(void **state) {
  static const mr_stage_def_t *const table[] = {&failing, NULL};
  const mr_batch_t *b;
  n_mapped = 0;
  mr_loader_t *l =
      opened("range 100 ! batch 2 ! failing", &(mr_loader_settings_t){.stages = table});
  mr_err_t e;
  for (int i = 0; (e = mr_loader_next(l, &b, NULL)) == MR_OK; i++) assert_true(i < 3);
  for (int i = 0; i < 3; i++) {
    mr_diag_t d = {0};
    assert_int_equal(mr_loader_next(l, &b, &d), MR_ERR_DATA);
    assert_string_equal(d.text, "failing: batch 4 is bad");
  }
  mr_loader_close(l);
}

static void descriptions_are_json(void **state) {
  char *text;
  mr_diag_t d = {0};
  mr_loader_t *l = opened("synthetic n=64 ! shuffle seed=1 ! batch 8 ! null", NULL);
  assert_int_equal(mr_loader_describe(l, "spec", &text, &d), MR_OK);
  assert_non_null(strstr(text, "\"batch\":8"));
  assert_non_null(strstr(text, "{\"name\":\"image\",\"dtype\":\"u8\",\"dim\":[3,32,32]"));
  free(text);
  assert_int_equal(mr_loader_describe(l, "graph", &text, &d), MR_OK);
  assert_null(strstr(text, "hand-over"));
  free(text);
  uint64_t content[MOST];
  read_all(l, content);
  assert_int_equal(mr_loader_describe(l, "stats", &text, &d), MR_OK);
  assert_non_null(strstr(text, "\"items\":8"));
  free(text);
  assert_int_equal(mr_loader_describe(l, "colour", &text, &d), MR_ERR_USAGE);
  assert_null(text);
  mr_loader_close(l);
}

/* No server is there, and source waits a day for it. */
static void an_opening_that_waits_for_a_server_ends_when_it_is_asked_to(void **state) {
  (void)state;
  mr_atomic_int_t halt = 1;
  mr_loader_settings_t set = {.halt = &halt};
  mr_loader_t *l = NULL;
  mr_diag_t d = {0};
  char graph[128];
  snprintf(graph, sizeof graph, "source ipc://@millrace-nobody-%d wait=86400", (int)getpid());
  assert_int_equal(mr_loader_open(graph, &set, &l, &d), MR_ERR_CANCEL);
  assert_null(l);
  assert_non_null(strstr(d.text, "no answer yet"));
  atomic_store_explicit(&halt, 0, memory_order_relaxed);
  l = opened("range 10 ! batch 5", &set);
  const mr_batch_t *b;
  assert_int_equal(mr_loader_next(l, &b, &d), MR_OK);
  mr_loader_close(l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_opening_that_waits_for_a_server_ends_when_it_is_asked_to),
      cmocka_unit_test(batches_are_those_of_the_graphs_run),
      cmocka_unit_test(a_state_resumes_exactly_with_other_workers),
      cmocka_unit_test(a_state_resumes_exactly_with_other_hosts),
      cmocka_unit_test(a_killed_loop_resumes_from_what_it_saved),
      cmocka_unit_test(a_state_of_another_stream_says_what_differs),
      cmocka_unit_test(settings_that_move_no_record_may_differ_from_those_of_the_state),
      cmocka_unit_test(broken_states_are_refused),
      cmocka_unit_test(seek_finds_every_batch),
      cmocka_unit_test(kept_batches_stay_and_outlive_their_loader),
      cmocka_unit_test(batches_are_made_ahead_while_the_caller_stands_still),
      cmocka_unit_test(a_copy_is_the_callers_own),
      cmocka_unit_test(a_view_by_dlpack_keeps_its_batch_until_it_is_deleted),
      cmocka_unit_test(threads_that_share_a_loader_see_each_batch_once),
      cmocka_unit_test(stop_ends_the_wait_of_another_thread),
      cmocka_unit_test(a_seek_moves_the_waits_of_other_threads),
      cmocka_unit_test(a_batch_that_does_not_come_is_not_waited_for_longer),
      cmocka_unit_test(a_signal_ends_take_with_again),
      cmocka_unit_test(bad_openings_say_what_is_wrong),
      cmocka_unit_test(a_failure_of_a_stage_is_said_again_and_again),
      cmocka_unit_test(descriptions_are_json)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
