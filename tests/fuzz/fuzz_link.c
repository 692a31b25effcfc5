/* A link's messages: a frame that is believed has a body as long as said, and every part that is
   pointed at lies within it. */
#include "links/plain.h"
#include "links/wire.h"

#include "tests/fuzz/fuzz.h"

static const char *const class_name[] = {"cat", "dog"};
static const mr_dataset_t dataset = {"test", 2, class_name};

static void within(const char *part, size_t bytes, const uint8_t *frame, size_t n) {
  if (!part) return;
  const uint8_t *at = (const uint8_t *)part;
  fuzz_need(at >= frame && bytes <= n && (size_t)(at - frame) <= n - bytes, "a part is outside");
}

/* The session, which means nothing here, chooses: two fields, four of which two are ragged, or
   bytes. */
static void read_data(const mr__link_head_t *head, const uint8_t *frame, size_t n) {
  mr_spec_t spec = {
      .flow = MR_FLOW_BATCHES,
      .n_fields = frame[8] & 64 ? 4 : 2,
      .field = {{.name = "image", .dtype = MR_U8, .ndim = 1, .dim = {16}},
                mr_field_of_label(0),
                {.name = "tokens", .dtype = MR_U32, .ndim = 2, .dim = {7, 2}, .ragged = true},
                {.name = "bytes", .dtype = MR_U8, .ndim = 1, .dim = {9}, .ragged = true}},
      .batch = 4,
      .n_words = frame[8] % 3,
      .dataset = &dataset};
  mr__link_data_t d;
  mr__link_parts_t p;
  if (frame[8] >= 128) spec = mr_spec_of_bytes(MR_FLOW_BYTES, 64);
  const uint8_t *body = frame + sizeof *head;
  if (!mr__link_data_read(body, head->body, head->frames, &spec, &d, &p)) return;
  fuzz_need(d.n >= 0 && d.size <= mr_spec_bytes(&spec), "too much is believed");
  size_t size = 0;
  for (int f = 0; f < spec.n_fields; f++) {
    size += p.bytes[f];
    within(p.value[f], p.bytes[f], frame, n);
    within(p.offset[f], ((size_t)d.n + 1) * 8, frame, n);
    size_t most = spec.flow == MR_FLOW_BATCHES ? (size_t)d.n * mr_field_bytes(&spec.field[f]) : 64;
    fuzz_need(p.bytes[f] <= most, "more than the records have");
    fuzz_need(d.where || p.value[f] || d.apart >> f & 1, "values are missing");
  }
  fuzz_need(d.where || size == d.size, "sizes do not add up");
  within(p.word, d.n_words * 8, frame, n);
  within(p.key, (size_t)d.n * 8, frame, n);
  within(p.draw, (size_t)d.n * 8, frame, n);
  within(p.excluded, (size_t)d.n, frame, n);
}

static void read_spec(const void *bytes, size_t n) {
  mr_spec_t spec, again;
  void *names, *names_again = NULL;
  char text[160], wire[1 << 16], why[400];
  if (mr__link_spec_read(bytes, n, &spec, &names)) {
    mr_spec_text(&spec, text, sizeof text);
    size_t k = mr__link_spec_write(&spec, wire, sizeof wire);
    fuzz_need(k && mr__link_spec_read(wire, k, &again, &names_again), "a spec is lost on the way");
    fuzz_need(mr__link_spec_same(&spec, &again, why, sizeof why), "a spec changes on the way");
    free(names_again);
  }
  free(names);
}

static void read_cast(const void *frame, size_t n) {
  mr__cast_ask_t what;
  int64_t number;
  if (!mr__cast_read(frame, n, "serve", &what, &number)) return;
  fuzz_need(number >= 0 && n < 64 && what <= MR__CAST_SPEC, "a bad request is believed");
}

/* A plain request that is believed says the number that it was read as. */
static void read_plain(const void *frame, size_t n) {
  char text[64];
  int64_t number;
  if (!mr__plain_read(frame, n, "serve", &number)) return;
  fuzz_need(number >= 0 && n < sizeof text, "a bad request is believed");
  snprintf(text, sizeof text, "%.*s", (int)n, (const char *)frame);
  fuzz_need(!strncmp(text, "serve ", 6) && strtoll(text + 6, NULL, 10) == number, "another number");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  mr__link_head_t head;
  mr__link_hello_t hello;
  int64_t word[MR_LINK_WORDS];
  const char *why;
  read_spec(data, n);
  read_plain(data, n);
  read_cast(data, n);
  if (!mr__link_head_read(data, n, &head, &why)) return 0;
  fuzz_need(head.body + sizeof head == n && head.number >= 0, "a bad head is believed");
  const uint8_t *body = data + sizeof head;
  if (head.kind == MR__LINK_DATA) read_data(&head, data, n);
  if (head.kind == MR__LINK_WELCOME && head.body > MR__LINK_TOKEN)
    read_spec(body + MR__LINK_TOKEN, head.body - MR__LINK_TOKEN);
  mr__link_ack_t ack;
  if (head.kind == MR__LINK_ACK && mr__link_ack_read(body, head.body, head.number, &ack))
    fuzz_need(ack.committed >= 0 && ack.committed <= head.number && head.number <= ack.limit,
              "numbers that cannot be");
  if (head.kind == MR__LINK_HELLO &&
      mr__link_hello_read(body, head.body, head.number, &hello, word))
    fuzz_need(strlen(hello.name) < sizeof hello.name && hello.n_words <= MR_LINK_WORDS, "a name");
  return 0;
}
