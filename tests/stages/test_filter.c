/* filter by the values of a field: the same records as without it, less those that do not fit, also
   where the stream starts at a far batch. */
#include "pipeline/stage_source.h"
#include "tests/loaders/streams.h"

/* ---- a source with a whole number of each type ---- */

enum { N = 50 };
enum { ID, BOOL, U8, I32, U32, I64, U64, F32, PAIR }; /* fields */

static mr_err_t kinds_plan(mr_stage_t *s) {
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 9,
                               .field = {{.name = "id", .dtype = MR_I64},
                                         {.name = "b", .dtype = MR_BOOL},
                                         {.name = "u8", .dtype = MR_U8},
                                         {.name = "i32", .dtype = MR_I32},
                                         {.name = "u32", .dtype = MR_U32},
                                         {.name = "i64", .dtype = MR_I64},
                                         {.name = "u64", .dtype = MR_U64},
                                         {.name = "f32", .dtype = MR_F32},
                                         {.name = "pair", .dtype = MR_I32, .ndim = 1, .dim = {2}}},
                               .n_records = N,
                               .n_epochs = 1};
  s->writes = 0x1FF;
  return MR_OK;
}

static mr_err_t kinds_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  for (int i = 0; i < n; i++) {
    mr_value_t *v = out[i].field;
    int64_t id = index[i];
    *(int64_t *)v[ID].data = id;
    *(uint8_t *)v[BOOL].data = id % 2 == 1;
    *(uint8_t *)v[U8].data = (uint8_t)(250 + id % 5);
    *(int32_t *)v[I32].data = (int32_t)(id % 3 - 1);
    *(uint32_t *)v[U32].data = id % 4 ? UINT32_MAX : 7;
    *(int64_t *)v[I64].data = id % 4 ? INT64_MIN : INT64_MAX;
    *(uint64_t *)v[U64].data = id % 4 ? UINT64_MAX : 1;
    *(float *)v[F32].data = 1;
    memset(v[PAIR].data, 0, 8);
    out[i].key = (uint64_t)id;
  }
  return MR_OK;
}

static const mr_stage_def_t kinds = {.name = "kinds",
                                     .help = "Test source.",
                                     .out = {{.name = "out", .flow = MR_FLOW_RECORDS}},
                                     .plan = kinds_plan,
                                     .source = &(const mr_source_def_t){.fetch = kinds_fetch}};
static const mr_stage_def_t *const own[] = {&kinds, NULL};

/* ---- which records stay ---- */

/* All values of a stream one after the other, into value[STREAM_MAX]; returns how many. */
static int values_of(const stream_t *t, int from, int64_t *value) {
  int n = 0;
  for (int k = from; k < t->n; k++)
    for (int i = 0; i < t->element[k].n; i++) value[n++] = t->element[k].value[i];
  return n;
}

static void a_field_of_any_whole_type_decides(void **state) {
  static const struct {
    const char *words;
    int of, rest; /* records that stay: id % of is rest */
  } row[] = {{"1 field=b", 2, 1},
             {"252 field=u8", 5, 2},
             {"-1 field=i32", 3, 0},
             {"4294967295 invert field=u32", 4, 0},
             {"7,8 field=u32", 4, 0},
             {"9223372036854775807 field=i64", 4, 0},
             {"-9223372036854775808 invert field=i64", 4, 0},
             {"1 field=u64", 4, 0}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    char text[256];
    static int64_t value[STREAM_MAX];
    snprintf(text, sizeof text, "kinds ! filter %s ! select id ! batch 7", row[k].words);
    stream_t t = stream_run(text);
    int n = values_of(&t, 0, value), at = 0;
    for (int id = row[k].rest; id < N; id += row[k].of, at++) {
      if (at >= n || value[at] != id) fail_msg("%s: record %d is not %d", text, at, id);
    }
    assert_int_equal(n, at);
    stream_free(&t);
  }
}

/* Lists of every length, in no order and with values twice, against a search through the list. */
static void a_record_stays_if_its_value_is_anywhere_in_the_list(void **state) {
  static const int step = 37; /* prime to N: each number once, in no order */
  for (int n = 1; n <= N; n++) {
    char text[1024] = "kinds ! filter ";
    static int64_t value[STREAM_MAX];
    bool stays[N] = {false};
    for (int i = 0; i < n; i++) {
      int id = i % 7 == 6 ? 0 : i * step % N;
      stays[id] = true;
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? "," : "", id);
    }
    strcat(text, " field=id ! select id ! batch 7");
    stream_t t = stream_run(text);
    int got = values_of(&t, 0, value), at = 0;
    for (int id = 0; id < N; id++) {
      if (!stays[id]) continue;
      if (at >= got || value[at] != id) fail_msg("%s: record %d is not %d", text, at, id);
      at++;
    }
    assert_int_equal(got, at);
    stream_free(&t);
  }
}

static void fields_that_cannot_decide_are_refused(void **state) {
  static const char *const row[][2] = {
      {"kinds ! filter 1 field=nix", "setting field = nix: the records have id, b, u8"},
      {"kinds ! filter 1 field=f32",
       "setting field = f32: it is f32[], want whole numbers, one a record"},
      {"kinds ! filter 1 field=pair", "it is i32[2], want whole numbers"},
      {"kinds ! filter field=b", "setting field = b: want the values to keep as well"},
      {"kinds ! filter 1", "fields id and b could both be whole numbers, one a record: set field="},
      {"kinds ! select f32,pair ! filter 1",
       "takes whole numbers, one a record; the records have f32, pair"},
      {"kinds ! filter 256 field=u8", "no record has the value 256, since field u8 is u8"},
      {"kinds ! filter -1 field=u64", "no record has the value -1, since field u64 is u64"},
      {"kinds ! filter 2 field=b", "no record has the value 2, since field b is bool"},
      {"kinds ! filter 9223372036854775808 field=u64", "want up to 8192 whole numbers"},
      {"kinds ! filter 1,x field=b", "want up to 8192 whole numbers"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    char text[256];
    mr_diag_t d = {0};
    snprintf(text, sizeof text, "%s ! batch 7", row[k][0]);
    mr_graph_t *g = stream_graph(text);
    if (mr_graph_settle(g, &d) >= 0) fail_msg("%s: went well", text);
    if (!strstr(d.text, row[k][1])) fail_msg("%s: %s", text, d.text);
    mr_graph_destroy(g);
  }
  stream_t t =
      stream_run("kinds ! select id,f32 ! filter 3 ! batch 7"); /* the only one that fits */
  assert_int_equal(t.n, 1);
  assert_int_equal(t.element[0].value[0], 3);
  stream_free(&t);
}

/* ---- where a stream starts ---- */

static stream_t run_from(const char *text, int64_t batch) {
  stream_t t = {0};
  mr_diag_t d = {0};
  bool found;
  mr_graph_t *g = stream_graph(text);
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  mr_err_t e = mr_graph_seek(g, "batch", batch, &found, &d);
  if (e >= 0 && !found) e = mr_graph_start_number(g, "batch", batch, &d);
  stream_now = &t;
  if (e >= 0) e = mr_graph_run(g, &d);
  if (e < 0) fail_msg("%s: from %lld: %s", text, (long long)batch, d.text);
  mr_graph_destroy(g);
  return t;
}

static void far_batches_hold_what_they_do_in_turn(void **state) {
  static const char *const stream[] = {
      "range 40 ! shuffle seed=1 epochs=6 ! %s",
      "range 40 ! shuffle seed=1 epochs=6 ! affine mul=3 ! %s",
      "range 40 ! shuffle seed=1 epochs=6 ! rand mul=0 below=7 ! %s", /* another one each epoch */
      "range 40 ! shuffle seed=1 epochs=6 ! rand mul=0 below=7 ! to-iter-dataset ! %s",
      "range 40 ! shuffle seed=1 epochs=6 ! to-iter-dataset ! rand mul=0 below=7 ! %s",
      "range 40 ! shuffle seed=1 epochs=6 ! filter modulo=3 ! rand mul=0 below=7 ! %s",
      "range 40 ! shuffle seed=1 epochs=6 ! z.a  range 40 ! shuffle seed=2 epochs=6 ! z.b  "
      "zip name=z prefix=a.,b. ! select b.value,a.value ! %s"};
  static const char *const words[] = {"filter 0,3,6 field=%s", "filter 0,3,6 field=%s modulo=2",
                                      "filter 1,2,3,4,5,6 field=%s invert"};
  for (size_t k = 0; k < sizeof stream / sizeof *stream; k++)
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
      char filter[64], part[512], text[600];
      snprintf(filter, sizeof filter, words[w], strstr(stream[k], "b.value") ? "b.value" : "value");
      snprintf(part, sizeof part, stream[k], filter);
      snprintf(text, sizeof text, "%s ! batch 3 across-epochs", part);
      static int64_t whole[STREAM_MAX], rest[STREAM_MAX];
      stream_t all = stream_run(text);
      int n = values_of(&all, 0, whole);
      assert_true(n > 0);
      for (int from = 0; from < all.n; from++) {
        stream_t t = run_from(text, from);
        int left = values_of(&t, 0, rest);
        if (left != n - 3 * from || memcmp(rest, whole + 3 * from, (size_t)left * sizeof *rest))
          fail_msg("%s: from batch %d: %d records of %d", text, from, left, n - 3 * from);
        stream_free(&t);
      }
      stream_free(&all);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_field_of_any_whole_type_decides),
      cmocka_unit_test(a_record_stays_if_its_value_is_anywhere_in_the_list),
      cmocka_unit_test(fields_that_cannot_decide_are_refused),
      cmocka_unit_test(far_batches_hold_what_they_do_in_turn)};
  stream_stages = own;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
