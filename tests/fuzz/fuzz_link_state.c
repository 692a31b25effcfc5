/* A link's state machine under messages in any order from two speakers: whatever they say, the
   numbers of the link keep their order, and a buffer that is believed holds all that it claims. */
#include "links/link_private.h"

#include "tests/fuzz/fuzz.h"

enum { BATCH = 4, WIDTH = 16, ROWS = 3, WINDOW = 5, BUFFERS = 3 * WINDOW };

static const char *const class_name[] = {"cat", "dog"};
static const mr_dataset_t dataset = {"test", 2, class_name};

/* What is left of the input; zeros behind its end. */
typedef struct tape {
  const uint8_t *at, *end;
} tape_t;

static uint8_t next(tape_t *t) { return t->at < t->end ? *t->at++ : 0; }

typedef struct ends {
  mr_link_t *l;
  mr_spec_t spec;
  mr_pool_t *pool; /* of what the sending end sends */
  mr_buf_t *taken[BUFFERS];
  int n_taken;
} ends_t;

/* ---- what must hold ---- */

static void numbers_are_in_order(const mr_link_t *l) {
  if (l->out) {
    fuzz_need(l->first_held <= l->next && l->next - l->first_held <= l->cfg.window, "held");
    fuzz_need(l->state != MR__LINK_MET || (l->first_held <= l->sent && l->sent <= l->next), "sent");
    fuzz_need(l->asked.number >= 0 && l->asked.number <= MR_LINK_NUMBER_MAX, "asked");
    fuzz_need(l->asked.position >= 0 && l->asked.position <= MR_LINK_POSITION_MAX, "position");
    fuzz_need(!l->asked.n_words || l->asked.n_words == l->spec.n_words, "words");
    fuzz_need(l->limit <= MR_LINK_NUMBER_MAX + MR_LINK_WINDOW_MAX, "limit");
  } else {
    fuzz_need(l->released <= l->taken && l->taken <= l->expected, "taken");
    fuzz_need(l->expected - l->released <= l->cfg.window, "window");
    fuzz_need(l->total < 0 || l->total <= l->expected, "total");
  }
}

/* Reads all of it, as stages do. */
static void is_whole(const mr_link_t *l, const mr_buf_t *b) {
  const mr_spec_t *s = mr_link_spec(l);
  volatile uint8_t sum = 0;
  fuzz_need(b->n >= 0 && (s->flow != MR_FLOW_BATCHES || b->n <= s->batch), "records");
  if (s->flow == MR_FLOW_BATCHES) fuzz_need(b->size == mr_buf_bytes(s, b, b->n), "bytes");
  for (int f = 0; f < s->n_fields; f++) {
    const uint8_t *data = b->key ? b->field[f].data : b->data;
    const int64_t *offset = b->field[f].offset;
    for (size_t i = 0; i < mr__link_field_bytes(s, b, f); i++) sum ^= data[i];
    fuzz_need(!offset == !s->field[f].ragged && (!offset || !offset[0]), "offsets");
    for (int i = 0; offset && i < b->n; i++)
      fuzz_need(offset[i + 1] >= offset[i] && offset[i + 1] - offset[i] <= s->field[f].dim[0],
                "rows");
  }
  for (int i = 0; b->label && i < b->n; i++)
    fuzz_need(b->label[i] >= -1 && (!s->dataset || b->label[i] < s->dataset->n_classes), "label");
  for (int i = 0; b->word && i < s->n_words; i++) sum ^= (uint8_t)b->word[i];
  (void)sum;
}

/* ---- messages ---- */

static int64_t some_number(const mr_link_t *l, tape_t *t) {
  const int64_t base[] = {l->expected, l->sent,  l->next, l->first_held,      l->released,
                          l->acked,    l->taken, 0,       MR_LINK_NUMBER_MAX, INT64_MAX};
  int64_t from = base[next(t) % (sizeof base / sizeof *base)];
  return (int64_t)((uint64_t)from + (uint64_t)(int64_t)(int8_t)next(t) / 16);
}

/* A body that is right, but for what the tape changes in it. */
static size_t right_body(const ends_t *e, int kind, int64_t number, tape_t *t, uint8_t *body) {
  const mr_spec_t *s = &e->spec;
  int64_t limit = number > MR_LINK_NUMBER_MAX ? number : number + WINDOW;
  mr__link_hello_t hello = {.limit = limit, .n_words = (uint32_t)s->n_words};
  mr__link_ack_t ack = {.limit = limit, .committed = number};
  mr__link_knock_t knock = {"edge"};
  mr__link_data_t d = {.n = 1 + next(t) % BATCH, .n_words = (uint32_t)s->n_words};
  bool batches = s->flow == MR_FLOW_BATCHES, ragged = s->n_fields > 2;
  int64_t rows = ragged ? next(t) % (ROWS + 1) : 0; /* of the last record */
  size_t n = 0, records = (size_t)d.n, arrays = batches ? records * 17 : 0;
  size_t offsets = ragged ? (records + 1) * 8 : 0;
  d.size = batches ? records * (WIDTH + 4) + (size_t)rows * 4 : 40;
  strcpy(hello.name, "edge");
  memset(body, 0, 2048);
  switch (kind) {
    case MR__LINK_KNOCK: memcpy(body, &knock, n = sizeof knock); break;
    case MR__LINK_HELLO:
      memcpy(body, &hello, sizeof hello), n = sizeof hello + hello.n_words * 8;
      break;
    case MR__LINK_WELCOME:
      n = MR__LINK_TOKEN + mr__link_spec_write(s, body + MR__LINK_TOKEN, 1024);
      break;
    case MR__LINK_ACK: memcpy(body, &ack, n = sizeof ack); break;
    case MR__LINK_DATA:
      memcpy(body, &d, sizeof d), n = sizeof d + d.n_words * 8 + arrays + offsets + d.size;
      if (ragged) memcpy(body + sizeof d + d.n_words * 8 + records * 24, &rows, sizeof rows);
      break;
    default: break;
  }
  for (int changes = next(t) % 4; changes && n; changes--) {
    size_t at = next(t) % n;
    body[at] = next(t);
  }
  return n;
}

static void speak(ends_t *e, int kind, tape_t *t) {
  uint8_t frame[4096], how = next(t);
  mr__message_t m = {.bad = how & 64};
  mr__link_head_t head;
  int64_t number = some_number(e->l, t);
  uint64_t session = how & 1 ? e->l->session : how & 2 ? 0 : next(t);
  size_t n = right_body(e, kind, number, t, frame + sizeof head), apart = 0;
  bool more = kind == MR__LINK_DATA && how & 4;
  uint8_t which =
      more ? next(t) : 0; /* which fields are said to be apart, and how many frames come */
  m.n = more ? 1 + which % 4 : 1;
  if (more) {
    uint32_t bits = which >> 2 & 7;
    size_t at = sizeof head + offsetof(mr__link_data_t, apart);
    memcpy(frame + at, &bits, sizeof bits);
    apart = bits & 1 ? WIDTH * (1 + (size_t)(which >> 5) % BATCH) : n / 2;
    n -= apart < n ? apart : n;
  }
  mr__link_head(&head, kind, session, number, n, m.n - 1);
  memcpy(frame, &head, sizeof head);
  for (int i = 0; i < m.n; i++) {
    size_t bytes = i ? apart : sizeof head + n;
    fuzz_need(!zmq_msg_init_size(&m.frame[i], bytes), "memory");
    memcpy(zmq_msg_data(&m.frame[i]), i ? frame + sizeof head + n : frame, bytes);
  }
  memset(e->l->k.from, how & 8 ? 'a' : 'b', e->l->k.n_from = 5);
  mr__link_hear(e->l, &m);
  mr__message_close(&m);
}

static void ask_plainly(ends_t *e, tape_t *t) {
  char text[64];
  mr__message_t m = {.n = 1};
  int n = snprintf(text, sizeof text, "edge %lld", (long long)some_number(e->l, t));
  fuzz_need(!zmq_msg_init_size(&m.frame[0], (size_t)n), "memory");
  memcpy(zmq_msg_data(&m.frame[0]), text, (size_t)n);
  memset(e->l->k.from, next(t) & 8 ? 'a' : 'b', e->l->k.n_from = 5);
  mr__link_hear(e->l, &m);
  mr__message_close(&m);
}

/* ---- what the owner does ---- */

static void send_or_take(ends_t *e) {
  mr_buf_t *b;
  if (e->l->out && mr_link_room(e->l) && (b = mr_pool_get(e->pool))) {
    b->n = BATCH, b->size = mr_spec_bytes(&e->spec), b->position = BATCH;
    if (b->label) memset(b->label, 0, BATCH * sizeof *b->label);
    for (int f = 0; f < e->spec.n_fields; f++)
      if (b->field[f].offset) memset(b->field[f].offset, 0, (BATCH + 1) * sizeof(int64_t));
    if (b->key) b->size = mr_buf_bytes(&e->spec, b, b->n);
    mr_link_send(e->l, b);
  }
  if (!e->l->out && e->n_taken < BUFFERS && mr_link_take(e->l, &b, 1)) {
    is_whole(e->l, b);
    e->taken[e->n_taken++] = b;
  }
}

static void act(ends_t *e, tape_t *t) {
  mr_link_point_t point = {.number = next(t)};
  switch (next(t) % 6) {
    case 0: send_or_take(e); break;
    case 1:
      if (e->n_taken) mr_buf_unref(e->taken[--e->n_taken]);
      break;
    case 2: mr_link_pump(e->l, NULL); break;
    case 3: e->l->out ? mr_link_end(e->l) : mr_link_commit(e->l, next(t)); break;
    case 4: e->l->out ? mr_link_refuse(e->l, &point, "why") : mr_link_leave(e->l); break;
    default: send_or_take(e), send_or_take(e), mr_link_pump(e->l, NULL);
  }
}

static void open_ends(ends_t *e, uint8_t how) {
  char address[64];
  static int turn;
  mr_diag_t diag = {0};
  snprintf(address, sizeof address, "ipc://@mr-fuzz-%ld-%d", (long)getpid(), turn++);
  mr_link_cfg_t cfg = {.name = "edge",
                       .address = address,
                       .bind = true,
                       .window = WINDOW,
                       .by_hand = how & 2,
                       .copy = true,
                       .linger_ms = 1};
  e->spec = (mr_spec_t){
      .flow = how & 8 ? MR_FLOW_BYTES : MR_FLOW_BATCHES,
      .n_fields = how & 8    ? 1
                  : how & 64 ? 3
                             : 2,
      .field = {{.name = "image", .dtype = MR_U8, .ndim = 1, .dim = {how & 8 ? 64 : WIDTH}},
                mr_field_of_label(dataset.n_classes),
                {.name = "tokens", .dtype = MR_U32, .ndim = 1, .dim = {ROWS}, .ragged = true}},
      .batch = how & 8 ? 0 : BATCH,
      .n_words = how & 16 && !(how & 8) ? 2 : 0,
      .dataset = &dataset};
  if (how & 1) {
    e->pool = mr_pool_create(&e->spec, BUFFERS);
    e->l = mr_link_open_out(&cfg, &e->spec, how & 32 ? 3 : 0, &diag);
  } else {
    e->l = mr_link_open_in(&cfg, how & 4 ? NULL : &e->spec, NULL, &diag);
  }
  fuzz_need(e->l != NULL, diag.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tape_t t = {data, data + n};
  ends_t e = {0};
  open_ends(&e, next(&t));
  while (t.at < t.end && e.l->failure.code >= 0) {
    int op = next(&t) % 16;
    if (op < MR__LINK_KIND_N)
      speak(&e, op, &t);
    else if (op == 11)
      ask_plainly(&e, &t);
    else
      act(&e, &t);
    numbers_are_in_order(e.l);
  }
  while (e.n_taken) mr_buf_unref(e.taken[--e.n_taken]);
  mr_link_close(e.l);
  mr_pool_destroy(e.pool);
  return 0;
}
