/* Batches of any fields over a link, to a subscriber and to a plain program: random sets of fields,
   compared byte by byte with what was sent, and messages of them that lie. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <unistd.h>
#include <zmq.h>

#include "links/cast.h"
#include "links/listen.h"
#include "links/plain.h"
#include "links/wire.h"
#include "tests/links/some_fields.h"

enum { WINDOW = 4, BUFFERS = 12, PATIENCE = 100000 };

/* Buffers of one spec, and one more of it for what should have come. */
typedef struct made {
  mr_spec_t spec;
  mr_pool_t *pool, *own;
  mr_buf_t *want;
} made_t;

static made_t make(round_t *r, bool shared) {
  made_t t = {.spec = some_spec(r)};
  t.pool = shared ? mr_pool_create_shared(&t.spec, BUFFERS) : mr_pool_create(&t.spec, BUFFERS);
  t.own = mr_pool_create(&t.spec, 1);
  t.want = mr_pool_get(t.own);
  assert_non_null(t.pool);
  assert_non_null(t.want);
  return t;
}

static void unmake(made_t *t) {
  mr_buf_unref(t->want);
  mr_pool_destroy(t->pool), mr_pool_destroy(t->own);
}

static void is_as_sent(round_t *r, made_t *t, const mr_buf_t *b, int64_t number) {
  some_fill(&t->spec, number, t->want);
  const char *differs = some_differs(&t->spec, b, t->want);
  round_check(r, !differs, "buffer %lld: %s", (long long)number, differs);
}

/* ---- a link ---- */

static void pump(round_t *r, mr_link_t *l) {
  mr_diag_t diag = {0};
  round_check(r, mr_link_pump(l, &diag) >= 0, "%s", diag.text);
}

static void carry(round_t *r, made_t *t, mr_link_t *out, mr_link_t *in) {
  int64_t got = 0, sent = 0;
  mr_buf_t *b[WINDOW];
  while (!mr_link_done(out)) {
    for (; sent < BUFFERS && mr_link_room(out); sent++) {
      mr_buf_t *next = mr_pool_get(t->pool);
      if (!next) break;
      some_fill(&t->spec, sent, next);
      mr_link_send(out, next);
    }
    if (sent == BUFFERS) mr_link_end(out);
    pump(r, out), pump(r, in);
    size_t k = mr_link_take(in, b, WINDOW);
    for (size_t i = 0; i < k; i++, got++) {
      round_check(r, b[i]->seq == got, "number %lld", (long long)b[i]->seq);
      is_as_sent(r, t, b[i], got);
      mr_buf_unref(b[i]);
    }
    if (!k) mr_link_wait(in, 1);
  }
  round_check(r, got == BUFFERS, "%lld came", (long long)got);
}

static void every_byte_of_every_field_arrives(void **state) {
  round_t r = round_first(150);
  while (round_next(&r)) {
    mr_diag_t diag = {0};
    mr_link_stats_t stats;
    bool shared = one_in(&r, 2), copy = one_in(&r, 3), reported = one_in(&r, 2);
    made_t t = make(&r, shared);
    mr_link_cfg_t cfg = {
        .name = "edge", .address = "tcp://127.0.0.1:*", .bind = true, .window = WINDOW};
    mr_link_t *out = mr_link_open_out(&cfg, &t.spec, 0, &diag);
    round_check(&r, out, "%s", diag.text);
    char at[64];
    snprintf(at, sizeof at, "%s", mr_link_address(out));
    mr_link_cfg_t comes = {.name = "edge", .address = at, .window = WINDOW, .copy = copy};
    mr_link_t *in = mr_link_open_in(&comes, reported ? &t.spec : NULL, NULL, &diag);
    round_check(&r, in, "%s", diag.text);
    carry(&r, &t, out, in);
    mr_link_stats(in, &stats);
    round_check(&r, !stats.malformed && !stats.refused, "%s", mr_link_refusal(in));
    if (shared && !copy) round_check(&r, stats.by_reference, "none by reference");
    mr_link_close(in), mr_link_close(out);
    unmake(&t);
  }
}

/* ---- a publisher ---- */

static void a_subscriber_gets_every_field(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    mr_diag_t diag = {0};
    made_t t = make(&r, false);
    mr_link_cfg_t cfg = {
        .name = "edge", .address = "tcp://127.0.0.1:*", .window = WINDOW, .linger_ms = 1};
    mr_cast_t *cast = mr_cast_open(&cfg, &t.spec, &diag);
    round_check(&r, cast, "%s", diag.text);
    cfg.address = mr_cast_address(cast);
    mr_listen_t *in = mr_listen_open(&cfg, &t.spec, 0, &diag);
    round_check(&r, in, "%s", diag.text);
    mr_cast_stats_t stats = {0};
    int64_t seq = 0, got = 0;
    for (int turns = 0; got < 6; turns++) {
      round_check(&r, turns < PATIENCE, "nothing comes");
      mr_cast_pump(cast);
      mr_cast_stats(cast, &stats);
      if (stats.present && seq == got) {
        mr_buf_t *b = mr_pool_get(t.pool);
        some_fill(&t.spec, seq, b);
        b->seq = seq++;
        round_check(&r, mr_cast_give(cast, b), "it is not given");
        mr_buf_unref(b);
      }
      round_check(&r, mr_listen_pump(in, &diag) >= 0, "%s", diag.text);
      mr_buf_t *b;
      if (!mr_listen_take(in, &b, 1)) {
        usleep(200);
        continue;
      }
      round_check(&r, b->seq == got, "number %lld", (long long)b->seq);
      is_as_sent(&r, &t, b, got++);
      mr_buf_unref(b);
    }
    mr_listen_close(in), mr_cast_close(cast);
    unmake(&t);
  }
}

static void plain_frames_hold_every_field(void **state) {
  round_t r = round_first(100);
  while (round_next(&r)) {
    zmq_msg_t part[MR__PLAIN_MOST];
    made_t t = make(&r, false);
    mr_buf_t *b = mr_pool_get(t.pool);
    some_fill(&t.spec, 5, b);
    int n = mr__plain_write(&t.spec, b, 5, one_in(&r, 2), part), at = MR__PLAIN_FIELDS;
    round_check(&r, n, "no memory");
    round_check(&r, zmq_msg_size(&part[1]) == (size_t)b->n * 8, "keys");
    round_check(&r, zmq_msg_size(&part[2]) == (size_t)b->n, "marks");
    for (int f = 0; f < t.spec.n_fields; f++) {
      size_t bytes = mr__link_field_bytes(&t.spec, b, f), offsets = ((size_t)b->n + 1) * 8;
      round_check(&r, mr__plain_frame(&t.spec, f) == at, "frame %d", at);
      round_check(&r, zmq_msg_size(&part[at]) == bytes, "frame %d", at);
      round_check(&r, !memcmp(zmq_msg_data(&part[at++]), b->field[f].data, bytes), "field %d", f);
      if (!t.spec.field[f].ragged) continue;
      round_check(&r, zmq_msg_size(&part[at]) == offsets, "frame %d", at);
      round_check(&r, !memcmp(zmq_msg_data(&part[at++]), b->field[f].offset, offsets), "%d", f);
    }
    round_check(&r, n == at, "%d frames", n);
    for (int i = 0; i < n; i++) zmq_msg_close(&part[i]);
    mr_buf_unref(b);
    unmake(&t);
  }
}

/* ---- what is not believed ---- */

static bool believed(const mr_spec_t *spec, const char *first, size_t n) {
  mr__link_head_t head;
  mr__link_data_t d;
  mr__link_parts_t parts;
  const char *why;
  return mr__link_head_read(first, n, &head, &why) &&
         mr__link_data_read(first + sizeof head, head.body, head.frames, spec, &d, &parts);
}

/* Any change of an offset, and any of a length, is seen before a byte of a field is. */
static void offsets_and_lengths_that_lie_are_refused(void **state) {
  round_t r = round_first(300);
  while (round_next(&r)) {
    made_t t = make(&r, false);
    mr_buf_t *b = mr_pool_get(t.pool);
    some_fill(&t.spec, draw(&r, 50), b);
    char *first = malloc(mr__link_first_max(&t.spec) + 64);
    mr__link_data_t d = mr__link_data_of(&t.spec, b, MR__LINK_INLINE);
    size_t n = mr__link_data_write(&d, &t.spec, b, 0, 0, first);
    round_check(&r, n == mr__link_first_bytes(&d, &t.spec, b), "%zu bytes", n);
    round_check(&r, n <= mr__link_first_max(&t.spec), "%zu bytes", n);
    round_check(&r, believed(&t.spec, first, n), "what is true");
    size_t at = sizeof(mr__link_head_t) + sizeof d + d.n_words * 8 + (size_t)b->n * 16;
    for (int f = 0; f < t.spec.n_fields; f++) {
      const mr_field_t *field = &t.spec.field[f];
      if (!field->ragged) continue;
      for (int i = 0; i <= b->n; i++, at += 8) {
        int64_t was = b->field[f].offset[i];
        int64_t lies[] = {-1,
                          INT64_MIN,
                          INT64_MAX,
                          was + field->dim[0] + 1,
                          was - field->dim[0] - 1,
                          i == 0 || i == b->n ? was + 1 : -was - 1};
        for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
          memcpy(first + at, &lies[k], 8);
          round_check(&r, !believed(&t.spec, first, n), "offset %lld", (long long)lies[k]);
        }
        memcpy(first + at, &was, 8);
      }
    }
    mr__link_head_t head;
    int change = draw(&r, 2) ? 1 : -1;
    memcpy(&head, first, sizeof head);
    head.body += (uint32_t)change;
    memcpy(first, &head, sizeof head);
    round_check(&r, !believed(&t.spec, first, n + (size_t)change), "a length");
    mr_buf_unref(b);
    free(first), unmake(&t);
  }
}

/* A spec that differs in one thing, and the words that name it. */
static void specs_that_differ_name_the_field(void **state) {
  static const mr_spec_t spec = {
      .flow = MR_FLOW_BATCHES,
      .n_fields = 3,
      .field = {{.name = "image", .dtype = MR_U8, .ndim = 3, .dim = {8, 8, 3}},
                {.name = "tokens", .dtype = MR_U32, .ndim = 1, .dim = {9}, .ragged = true},
                {.name = "label", .dtype = MR_I32, .label = true, .n_classes = 3}},
      .batch = 4};
  static const char *const want[] = {
      "field tokens: u32[4,<=7] there, u32[4,<=9] here",
      "field tokens: u32[4,9] there, u32[4,<=9] here",
      "field image: f32[4,8,8,3] there, u8[4,8,8,3] here",
      "field image: u8[4,8,8,3] CHW there, u8[4,8,8,3] here",
      "field 2 is words there, tokens here",
      "field 3 is missing there, label here",
      "field 4 is age there, missing here",
      "field label: 2 classes there, 3 here",
      "field label: i32[4] there, i32[4], a label, here",
      "records a batch: 5 there, 4 here",
      "epochs: 2 there, 0 here",
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    mr_spec_t there = spec;
    char why[400] = "";
    switch (i) {
      case 0: there.field[1].dim[0] = 7; break;
      case 1: there.field[1].ragged = false; break;
      case 2: there.field[0].dtype = MR_F32; break;
      case 3: there.field[0].layout = MR_LAYOUT_CHW; break;
      case 4: strcpy(there.field[1].name, "words"); break;
      case 5: there.n_fields = 2; break;
      case 6: there.field[there.n_fields++] = (mr_field_t){.name = "age", .dtype = MR_I64}; break;
      case 7: there.field[2].n_classes = 2; break;
      case 8: there.field[2].label = false; break;
      case 9: there.batch = 5; break;
      default: there.n_epochs = 2;
    }
    assert_false(mr__link_spec_same(&there, &spec, why, sizeof why));
    assert_string_equal(why, want[i]);
  }
  assert_true(mr__link_spec_same(&spec, &spec, (char[1]){0}, 1));
}

/* ---- names of classes ---- */

enum { MOST_NAMES = 40 };
typedef struct named {
  char text[MR_FIELDS_MAX + 1][MOST_NAMES][12];
  const char *name[MR_FIELDS_MAX + 1][MOST_NAMES];
  mr_classes_t list[MR_FIELDS_MAX + 1];
  mr_dataset_t dataset;
} named_t;

static void write_list(round_t *r, named_t *t, int l, int n) {
  for (int i = 0; i < n; i++) {
    snprintf(t->text[l][i], sizeof t->text[l][i], "c%d", draw(r, 1000));
    t->name[l][i] = t->text[l][i];
  }
  t->list[l] = (mr_classes_t){n, t->name[l]};
}

/* Gives a spec names: some of its fields those of its data set, some their own. */
static void name_spec(round_t *r, named_t *t, mr_spec_t *spec) {
  int last = MR_FIELDS_MAX;
  write_list(r, t, last, 1 + draw(r, MOST_NAMES));
  if (one_in(r, 2)) {
    t->dataset = (mr_dataset_t){"some", t->list[last].n, t->list[last].name};
    spec->dataset = &t->dataset;
  }
  for (int f = 0; f < spec->n_fields; f++) {
    write_list(r, t, f, 1 + draw(r, MOST_NAMES));
    if (one_in(r, 2)) spec->field[f].classes = &t->list[one_in(r, 2) ? f : last];
  }
}

static void names_of_classes_arrive_with_their_fields(void **state) {
  round_t r = round_first(2000);
  static named_t t;
  static char wire[64 << 10];
  while (round_next(&r)) {
    mr_spec_t spec = some_spec(&r), got;
    void *names;
    name_spec(&r, &t, &spec);
    size_t n = mr__link_spec_write(&spec, wire, sizeof wire);
    round_check(&r, n && mr__link_spec_read(wire, n, &got, &names), "a spec is lost");
    for (int f = 0; f < spec.n_fields; f++)
      round_check(&r, mr_classes_same(got.field[f].classes, spec.field[f].classes), "field %d", f);
    round_check(&r, !spec.dataset == !got.dataset, "a data set");
    if (spec.dataset) {
      const mr_classes_t a = {spec.dataset->n_classes, spec.dataset->class_name},
                         b = {got.dataset->n_classes, got.dataset->class_name};
      round_check(&r, mr_classes_same(&a, &b), "names of a data set");
    }
    mr_spec_t none;
    void *unread = NULL;
    round_check(&r, !mr__link_spec_read(wire, n - 1, &none, &unread), "a name that is cut");
    free(names), free(unread);
  }
}

static void ends_with_other_classes_tell_each_other_both_lists(void **state) {
  static const char *const one[] = {"ant", "bee", "cat"}, *const other[] = {"bee", "cat", "dog"};
  const mr_classes_t a = {3, one}, b = {3, other};
  mr_diag_t diag = {0};
  mr_spec_t spec = {
      .flow = MR_FLOW_BATCHES, .n_fields = 1, .field = {mr_field_of_label(3)}, .batch = 4};
  mr_spec_t more = spec;
  spec.field->classes = &a, more.field->classes = &b;
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true};
  mr_link_t *out = mr_link_open_out(&cfg, &spec, 0, &diag);
  assert_non_null(out);
  mr_link_cfg_t comes = {.name = "edge", .address = mr_link_address(out)};
  mr_link_t *in = mr_link_open_in(&comes, &more, NULL, &diag);
  assert_non_null(in);
  while (mr_link_pump(in, &diag) >= 0) mr_link_pump(out, NULL), mr_link_wait(in, 1);
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text,
                         "field label: the 3 classes ant, bee, cat there, the 3 classes bee, cat, "
                         "dog here"));
  mr_link_close(in), mr_link_close(out);
  more.field->classes = NULL; /* an end that knows no names says nothing against them */
  assert_true(mr__link_spec_same(&spec, &more, (char[1]){0}, 1));
}

/* A spec longer by megabytes than the one that is wanted arrives, to say how it differs. */
static void many_names_that_an_end_does_not_expect_are_refused_in_a_sentence(void **state) {
  enum { MANY = 30000, EACH = 100 };
  static char text[MANY][EACH];
  static const char *name[MANY];
  static const char *const few[] = {"ant", "bee"};
  for (int i = 0; i < MANY; i++) snprintf(text[i], EACH, "%090d", i), name[i] = text[i];
  const mr_classes_t many = {MANY, name}, two = {2, few};
  mr_diag_t diag = {0};
  mr_spec_t spec = {
      .flow = MR_FLOW_BATCHES, .n_fields = 1, .field = {mr_field_of_label(MANY)}, .batch = 4};
  mr_spec_t want = spec;
  spec.field->classes = &many, want.field->classes = &two;
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true};
  mr_link_t *out = mr_link_open_out(&cfg, &spec, 0, &diag);
  assert_non_null(out);
  mr_link_cfg_t comes = {.name = "edge", .address = mr_link_address(out)};
  mr_link_t *in = mr_link_open_in(&comes, &want, NULL, &diag);
  assert_non_null(in);
  while (mr_link_pump(in, &diag) >= 0) mr_link_pump(out, NULL), mr_link_wait(in, 1);
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "the 2 classes ant, bee here"));
  mr_link_close(in), mr_link_close(out);

  mr_cast_t *cast = mr_cast_open(&cfg, &spec, &diag);
  assert_non_null(cast);
  comes.address = mr_cast_address(cast), diag = (mr_diag_t){0};
  mr_listen_t *heard = mr_listen_open(&comes, &want, 0, &diag);
  assert_non_null(heard);
  while (mr_listen_pump(heard, &diag) >= 0) mr_cast_pump(cast), usleep(100);
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "the 2 classes ant, bee here"));
  mr_listen_close(heard), mr_cast_close(cast);
}

static void two_ends_of_other_fields_tell_each_other(void **state) {
  mr_diag_t diag = {0};
  mr_spec_t spec = {.flow = MR_FLOW_BATCHES,
                    .n_fields = 2,
                    .field = {{.name = "image", .dtype = MR_U8, .ndim = 1, .dim = {8}},
                              {.name = "depth", .dtype = MR_F32, .ndim = 1, .dim = {8}}},
                    .batch = 4};
  mr_spec_t other = spec;
  other.field[1].dtype = MR_F16;
  mr_link_cfg_t cfg = {.name = "edge", .address = "tcp://127.0.0.1:*", .bind = true};
  mr_link_t *out = mr_link_open_out(&cfg, &spec, 0, &diag);
  assert_non_null(out);
  mr_link_cfg_t comes = {.name = "edge", .address = mr_link_address(out)};
  mr_link_t *in = mr_link_open_in(&comes, &other, NULL, &diag);
  assert_non_null(in);
  mr_link_stats_t stats = {0};
  while (mr_link_pump(in, &diag) >= 0) mr_link_pump(out, NULL), mr_link_wait(in, 1);
  assert_int_equal(diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "field depth: f32[4,8] there, f16[4,8] here"));
  for (; !stats.refused; mr_link_stats(out, &stats)) mr_link_pump(out, NULL), mr_link_wait(out, 1);
  assert_non_null(strstr(mr_link_refusal(out), "field depth"));
  mr_link_close(in), mr_link_close(out);
}

/* What is read back from changed bytes is sane, whatever they say. */
static void specs_of_changed_bytes_are_refused_or_sane(void **state) {
  round_t r = round_first(20000);
  while (round_next(&r)) {
    mr_spec_t spec = some_spec(&r), got, again;
    uint8_t wire[4096], twice[4096];
    char why[400];
    void *names, *more = NULL;
    size_t n = mr__link_spec_write(&spec, wire, sizeof wire);
    round_check(&r, n && mr__link_spec_read(wire, n, &got, &names), "a spec");
    round_check(&r, mr__link_spec_same(&got, &spec, why, sizeof why), "%s", why);
    free(names);
    for (int i = draw(&r, 4); i >= 0; i--) wire[draw(&r, (int)n)] = (uint8_t)round_bits(&r);
    if (one_in(&r, 5)) n -= (size_t)draw(&r, (int)n);
    if (mr__link_spec_read(wire, n, &got, &names)) {
      round_check(&r, got.n_fields <= MR_FIELDS_MAX && got.n_fields > 0, "%d", got.n_fields);
      round_check(&r, mr_spec_bytes(&got) <= (size_t)8 << 30, "too large");
      size_t k = mr__link_spec_write(&got, twice, sizeof twice);
      round_check(&r, k && mr__link_spec_read(twice, k, &again, &more), "it is lost");
      round_check(&r, mr__link_spec_same(&again, &got, why, sizeof why), "%s", why);
      free(more);
    }
    free(names);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(specs_that_differ_name_the_field),
      cmocka_unit_test(specs_of_changed_bytes_are_refused_or_sane),
      cmocka_unit_test(offsets_and_lengths_that_lie_are_refused),
      cmocka_unit_test(names_of_classes_arrive_with_their_fields),
      cmocka_unit_test(ends_with_other_classes_tell_each_other_both_lists),
      cmocka_unit_test(many_names_that_an_end_does_not_expect_are_refused_in_a_sentence),
      cmocka_unit_test(two_ends_of_other_fields_tell_each_other),
      cmocka_unit_test(plain_frames_hold_every_field),
      cmocka_unit_test(every_byte_of_every_field_arrives),
      cmocka_unit_test(a_subscriber_gets_every_field),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
