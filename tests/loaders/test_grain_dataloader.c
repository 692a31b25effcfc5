/* grain's DataLoader: its elements, and the numbers of its states, for any worker count. */
#include "tests/loaders/streams.h"
#include "tests/vectors.h"

enum { LINE = 8192 };

typedef struct run {
  char what[256], graph[1024];
  long long n, seed, epochs, workers, batch;
  long long shard, shards; /* shards 1: NoSharding */
  bool batched;
  stream_t t;
  int compared;
} run_t;

/* "map_filter_rand_batch_drop": the operations in order. */
static void put_operations(run_t *r, char *name, char *ops, size_t n, char *batch, size_t m) {
  size_t k = 0;
  ops[0] = 0;
  snprintf(batch, m, "batch 1");
  for (char *op = strtok(name, "_"); op; op = strtok(NULL, "_")) {
    if (!strcmp(op, "map")) {
      k += (size_t)snprintf(ops + k, n - k, "affine mul=2 add=1 ! ");
    } else if (!strcmp(op, "rand")) {
      k += (size_t)snprintf(ops + k, n - k, "rand mul=1000 below=1000 ! ");
    } else if (!strcmp(op, "filter")) {
      k += (size_t)snprintf(ops + k, n - k, "keep-if mod=3 ! ");
    } else if (!strcmp(op, "batch")) {
      r->batched = true;
      snprintf(batch, m, "batch %lld", r->batch);
    } else if (!strcmp(op, "drop")) {
      snprintf(batch, m, "batch %lld drop-remainder", r->batch);
    } else if (strcmp(op, "none") != 0) {
      fail_msg("%s: what is %s?", r->what, op);
    }
  }
}

/* "run NAME n seed epochs shard workers batch" to a graph, and runs it. */
static void run_open(run_t *r, const char *line) {
  char name[64], shard[64], ops[512], batch[128], order[128] = "across-epochs", cut[64] = "";
  *r = (run_t){.shards = 1};
  snprintf(r->what, sizeof r->what, "%.200s", line);
  assert_int_equal(sscanf(line, "run %63s %lld %lld %lld %63s %lld %lld", name, &r->n, &r->seed,
                          &r->epochs, shard, &r->workers, &r->batch),
                   7);
  int drop = 0;
  if (strcmp(shard, "-") != 0) {
    assert_int_equal(sscanf(shard, "%lld/%lld/%d", &r->shard, &r->shards, &drop), 3);
    snprintf(cut, sizeof cut, " shard=%lld/%lld%s", r->shard, r->shards,
             drop ? " drop-remainder" : "");
  }
  put_operations(r, name, ops, sizeof ops, batch, sizeof batch);
  if (r->workers > 1)
    snprintf(order, sizeof order, "order=grain-workers loader-workers=%lld", r->workers);
  snprintf(r->graph, sizeof r->graph, "range %lld ! shuffle seed=%lld epochs=%lld%s ! %s%s %s",
           r->n, r->seed, r->epochs, cut, ops, batch, order);
  r->t = stream_run(r->graph);
}

static void run_close(run_t *r) {
  if (r->compared != r->t.n) fail_msg("%s: %d elements, want %d", r->what, r->t.n, r->compared);
  stream_free(&r->t);
}

static void compare_element(run_t *r, const char *want) {
  char got[LINE];
  size_t k = 0;
  if (r->compared >= r->t.n) fail_msg("%s: ends after %d, want %s", r->what, r->compared, want);
  const element_t *x = &r->t.element[r->compared++];
  for (int i = 0; i < x->n; i++)
    k += (size_t)snprintf(got + k, sizeof got - k, "%s%lld",
                          !r->batched ? ""
                          : i         ? ","
                                      : "[",
                          (long long)x->value[i]);
  if (r->batched) snprintf(got + k, sizeof got - k, "]");
  if (strcmp(got, want) != 0) fail_msg("%s: %s, want %s", r->what, got, want);
}

/* The vectors, or those of a folder of tests/golden. */
static FILE *open_of(const char *place, const char *name) {
  char path[128];
  if (!place) return vectors_open(name);
  snprintf(path, sizeof path, "%s/%s", place, name);
  return vectors_open(path);
}

static void every_element_is_grains(void **state) {
  FILE *f = open_of(*state, "dataloader.txt");
  char line[LINE];
  run_t *r = calloc(1, sizeof *r);
  int runs = 0, elements = 0;
  while (vectors_line(f, line, sizeof line)) {
    if (!strncmp(line, "run ", 4)) runs++, run_open(r, line);
    if (!strncmp(line, "e ", 2)) elements++, compare_element(r, line + 2);
    if (!strcmp(line, "end")) run_close(r);
  }
  print_message("%d runs, %d elements\n", runs, elements);
  assert_true(runs >= 20 && elements > 500);
  free(r);
  fclose(f);
}

/* ---- states ---- */

/* The JSON of a state file into text. */
static void read_state(const char *place, const char *file, char *text, size_t n) {
  FILE *f = open_of(place, "dataloader_states.txt");
  char line[LINE];
  bool in = false;
  size_t k = 0;
  while (vectors_line(f, line, sizeof line)) {
    if (in && !strncmp(line, "== ", 3)) break;
    if (in) k += (size_t)snprintf(text + k, n - k, "%s\n", line);
    if (!strncmp(line, "== ", 3) && !strcmp(line + 3, file)) in = true;
  }
  fclose(f);
  if (!k) fail_msg("no state %s", file);
}

/* Records that worker w has used after taken elements. */
static long long used(const run_t *r, int taken, int w) {
  if (!taken) return 0;
  const element_t *x = &r->t.element[taken - 1];
  return r->workers > 1 ? x->word[1 + w] : x->position;
}

static long long turn(const run_t *r, int taken) {
  return taken && r->workers > 1 ? r->t.element[taken - 1].word[0] : 0;
}

static void compare_state(const char *place, const run_t *r, int taken, const char *file) {
  char text[LINE], key[32];
  read_state(place, file, text, sizeof text);
  int workers = r->workers > 1 ? (int)r->workers : 1;
  long long G = workers * r->shards;
  for (int w = 0; w < workers; w++) {
    snprintf(key, sizeof key, "\"%d\": ", w);
    const char *at = strstr(text, key);
    assert_non_null(at);
    long long want = strtoll(at + strlen(key), NULL, 10);
    long long got = r->shard - G + w * r->shards + used(r, taken, w) * G;
    if (got != want) fail_msg("%s: %s: worker %d at %lld, want %lld", r->what, file, w, got, want);
  }
  const char *at = strstr(text, "\"last_worker_index\": ");
  assert_non_null(at);
  assert_int_equal(strtoll(at + 21, NULL, 10), turn(r, taken) - 1);
}

static void resumes_from(const run_t *r, int taken) {
  if (!taken) return;
  for (int words = 0; words < 2; words++) {
    stream_t rest = stream_resume(r->graph, &r->t, taken - 1, words);
    assert_same_stream(r->what, &r->t, taken, &rest);
    stream_free(&rest);
  }
}

static void every_state_is_grains_and_resumes(void **state) {
  FILE *f = open_of(*state, "dataloader.txt");
  char line[LINE];
  run_t *r = calloc(1, sizeof *r);
  int states = 0;
  while (vectors_line(f, line, sizeof line)) {
    char file[256];
    int taken;
    if (!strncmp(line, "run ", 4)) run_open(r, line);
    if (sscanf(line, "state %d %255s", &taken, file) == 2) {
      compare_state(*state, r, taken, file);
      resumes_from(r, taken);
      states++;
    }
    if (!strcmp(line, "end")) stream_free(&r->t);
  }
  vectors_met(states, 61);
  free(r);
  fclose(f);
}

static void threads_do_not_change_an_element(void **state) {
  FILE *f = open_of(*state, "dataloader.txt");
  char line[LINE], text[1100];
  run_t *r = calloc(1, sizeof *r);
  while (vectors_line(f, line, sizeof line)) {
    if (strncmp(line, "run ", 4) != 0) continue;
    run_open(r, line);
    snprintf(text, sizeof text, "%s workers=3", r->graph);
    stream_t more = stream_run(text);
    assert_same_stream(text, &r->t, 0, &more);
    stream_free(&more);
    stream_free(&r->t);
  }
  free(r);
  fclose(f);
}

#define RANDOM "random-loader" /* loaders drawn at random, by make.py there */

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_element_is_grains),
      cmocka_unit_test(every_state_is_grains_and_resumes),
      cmocka_unit_test(threads_do_not_change_an_element),
      {"every_element_of_random_loaders_is_grains", every_element_is_grains, NULL, NULL, RANDOM},
      {"every_state_of_random_loaders_is_grains_and_resumes", every_state_is_grains_and_resumes,
       NULL, NULL, RANDOM},
      {"threads_do_not_change_an_element_of_random_loaders", threads_do_not_change_an_element, NULL,
       NULL, RANDOM},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
