/* grain's Dataset orders and iterator states: every expression of the vectors becomes a graph. */
#include "tests/loaders/grain_expr.h"
#include "tests/loaders/streams.h"
#include "tests/vectors.h"

enum { LINE = 4096 };

/* ---- elements as the vectors write them ---- */

static int put_record(char *to, size_t n, const int64_t *v, int width, bool raw) {
  if (raw) {
    double r;
    memcpy(&r, &v[2], sizeof r);
    return snprintf(to, n, "%lld:%016llx:%.13a", (long long)v[0], (unsigned long long)v[1], r);
  }
  int k = 0;
  for (int i = 0; i < width; i++)
    k += snprintf(to + k, n - (size_t)k, "%s%lld", i ? "," : width > 1 ? "(" : "", (long long)v[i]);
  return width > 1 ? k + snprintf(to + k, n - (size_t)k, ")") : k;
}

static void element_text(const element_t *x, bool batched, bool raw, char *to, size_t n) {
  int k = 0;
  if (!batched && x->hole) {
    snprintf(to, n, "None");
    return;
  }
  for (int i = 0; i < x->n; i++) {
    if (batched) k += snprintf(to + k, n - (size_t)k, "%s", i ? "," : "[");
    k += put_record(to + k, n - (size_t)k, x->value + i * x->width, x->width, raw);
  }
  if (batched) snprintf(to + k, n - (size_t)k, "]");
}

/* ---- orders ---- */

typedef struct run {
  char name[LINE];
  expr_t x;
  stream_t t;
  int at, want; /* next element of t, elements compared */
} run_t;

static void run_open(run_t *r, const char *name) {
  snprintf(r->name, sizeof r->name, "%s", name);
  expr_read(&r->x, r->name);
  r->t = stream_run(r->x.text);
  r->at = r->want = 0;
}

/* A hole leaves its position out; positions count from 1 behind each element. */
static bool hole_next(const run_t *r) {
  return r->at == r->t.n || r->t.element[r->at].position != r->want + 1;
}

static void run_compare(run_t *r, const char *want) {
  char got[LINE] = "None";
  bool raw = strstr(r->name, "random_raw") != NULL;
  bool iter = strstr(r->name, "to_iter") != NULL;
  if (!strcmp(want, "None") && !iter) {
    if (!hole_next(r)) fail_msg("%s: no hole at %d", r->name, r->want);
  } else {
    if (r->at >= r->t.n) fail_msg("%s: ends after %d, want %s", r->name, r->want, want);
    element_text(&r->t.element[r->at++], r->x.batched, raw, got, sizeof got);
    if (strcmp(got, want) != 0) fail_msg("%s: %d is %s, want %s", r->name, r->want, got, want);
  }
  r->want++;
}

static void run_close(run_t *r) {
  if (r->x.take ? r->want != r->x.take : r->at != r->t.n)
    fail_msg("%s: %d elements, %d compared", r->name, r->t.n, r->want);
  stream_free(&r->t);
}

static void compare_orders(FILE *f, int least) {
  char line[LINE];
  run_t *r = calloc(1, sizeof *r);
  int runs = 0;
  while (vectors_line(f, line, sizeof line)) {
    if (strncmp(line, "== ", 3) != 0) {
      assert_true(runs > 0);
      run_compare(r, line);
      continue;
    }
    if (runs++) run_close(r);
    run_open(r, line + 3);
  }
  run_close(r);
  print_message("%d expressions\n", runs);
  assert_true(runs >= least);
  free(r);
  fclose(f);
}

static void every_order_is_grains(void **state) {
  compare_orders(vectors_open("dataset_orders.txt"), 40);
}

/* Mixes of mixes, filters under shuffles, seeds from several inputs: unusual combinations. */
static void random_expressions_give_grains_orders(void **state) {
  FILE *f = vectors_open("dataset_random.txt");
  compare_orders(f, 100);
}

/* Every order above resumes from each of its elements, by the state and where that is one number by
   the position; and with several threads. */
static void every_order_resumes_and_does_not_depend_on_threads(void **state) {
  FILE *f = vectors_open("dataset_orders.txt");
  char line[LINE], text[9000];
  expr_t *x = calloc(1, sizeof *x);
  while (vectors_line(f, line, sizeof line)) {
    if (strncmp(line, "== ", 3) != 0) continue;
    expr_read(x, line + 3);
    const char *stage = x->rebatch ? "rebatch" : "batch";
    stream_t all = stream_run(x->text);
    int step = all.n > 60 ? all.n / 7 : 3;
    for (int i = 0; i < all.n; i += step) {
      stream_t rest = stream_resume_at(x->text, stage, &all, i, true);
      assert_same_stream(line, &all, i + 1, &rest);
      stream_free(&rest);
      if (x->rebatch) continue;
      rest = stream_resume(x->text, &all, i, false);
      assert_same_stream(line, &all, i + 1, &rest);
      stream_free(&rest);
    }
    if (!x->rebatch) {
      snprintf(text, sizeof text, "%s workers=3", x->text);
      stream_t more = stream_run(text);
      assert_same_stream(line, &all, 0, &more);
      stream_free(&more);
    }
    stream_free(&all);
  }
  free(x);
  fclose(f);
}

/* ---- states ---- */

static const char *find_number(const char *json, const char *key, int64_t *v) {
  char name[64];
  snprintf(name, sizeof name, "\"%s\": ", key);
  const char *at = strstr(json, name);
  if (!at) return NULL;
  at += strlen(name);
  *v = !strncmp(at, "true", 4) ? 1 : strtoll(at, NULL, 10);
  return at;
}

/* grain's numbers in our order: those of each stage, then those of the streams below it. */
static int state_words(const char *json, int64_t *word) {
  static const char *const own[] = {"index_for_rng", "window_index", "pos_in_window",      "index",
                                    "stop",          "epoch",        "next_index_in_cycle"};
  int n = 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (find_number(json, own[i], &word[n])) n++;
  while ((json = find_number(json, "next_index", &word[n]))) n++;
  return n;
}

static void compare_state(const char *name, const expr_t *x, const stream_t *t, int taken,
                          const char *json) {
  int64_t word[64] = {0};
  int n = state_words(json, word);
  if (!taken) { /* the start: nothing has been passed */
    for (int i = 0; i < n; i++) assert_int_equal(word[i], 0);
    return;
  }
  const element_t *e = &t->element[taken - 1];
  if (n > 1) {
    assert_int_equal(t->n_words, n);
    for (int i = 0; i < n; i++)
      if (e->word[i] != word[i])
        fail_msg("%s | %d: number %d is %lld, want %lld", name, taken, i, (long long)e->word[i],
                 (long long)word[i]);
  } else { /* a MapDataset counts its own elements, whatever they hold */
    int64_t per = x->batched && !x->batched_iter ? x->batch : 1;
    int64_t last = t->element[t->n - 1].position;
    int64_t want = word[0] * per < last ? word[0] * per : last;
    if (e->position != want)
      fail_msg("%s | %d: position %lld, want %lld", name, taken, (long long)e->position,
               (long long)want);
  }
}

static void every_iterator_state_is_grains(void **state) {
  FILE *f = vectors_open("dataset_states.txt");
  char line[LINE];
  expr_t *x = calloc(1, sizeof *x);
  int rows = 0;
  while (vectors_line(f, line, sizeof line)) {
    char *bar = strstr(line, " | ");
    assert_non_null(bar);
    char *json = strstr(bar + 3, " | ");
    assert_non_null(json);
    *bar = 0;
    int taken = (int)strtol(bar + 3, NULL, 10);
    expr_read(x, line);
    stream_t t = stream_run(x->text);
    assert_true(taken <= t.n);
    compare_state(line, x, &t, taken, json);
    stream_free(&t);
    rows++;
  }
  assert_true(rows >= 20);
  free(x);
  fclose(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_order_is_grains),
      cmocka_unit_test(random_expressions_give_grains_orders),
      cmocka_unit_test(every_order_resumes_and_does_not_depend_on_threads),
      cmocka_unit_test(every_iterator_state_is_grains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
