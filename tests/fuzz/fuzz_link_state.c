/* A link's state machine under messages in any order from two speakers: whatever they say, the
   numbers of the link keep their order, and a buffer that is believed holds all that it claims. */
#include "links/link_private.h"

#include "tests/fuzz/fuzz.h"

enum { BATCH = 4, WIDTH = 16, WINDOW = 5, BUFFERS = 3 * WINDOW };

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
  for (size_t i = 0; i < mr__link_payload(s, b); i++) sum ^= ((const uint8_t *)b->data)[i];
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
  size_t n = 0, arrays = s->flow == MR_FLOW_BATCHES ? (size_t)d.n * 20 : 0;
  d.size = s->flow == MR_FLOW_BATCHES ? (size_t)d.n * WIDTH : 40;
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
      memcpy(body, &d, sizeof d), n = sizeof d + d.n_words * 8 + arrays + d.size;
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
  zmq_msg_t part[2];
  mr__link_head_t head;
  int64_t number = some_number(e->l, t);
  uint64_t session = how & 1 ? e->l->session : how & 2 ? 0 : next(t);
  size_t n = right_body(e, kind, number, t, frame + sizeof head), apart = 0;
  bool second = kind == MR__LINK_DATA && how & 4;
  if (second) apart = n / 2, n -= apart; /* most often not what the head says */
  mr__link_head(&head, kind, session, number, n, second);
  memcpy(frame, &head, sizeof head);
  fuzz_need(!zmq_msg_init_size(&part[0], sizeof head + n), "memory");
  fuzz_need(!zmq_msg_init_size(&part[1], apart), "memory");
  memcpy(zmq_msg_data(&part[0]), frame, sizeof head + n);
  memset(zmq_msg_data(&part[1]), 0, apart);
  memset(e->l->k.from, how & 8 ? 'a' : 'b', e->l->k.n_from = 5);
  mr__link_hear(e->l, part, how & 64 ? 3 : second ? 2 : 1);
  zmq_msg_close(&part[0]), zmq_msg_close(&part[1]);
}

static void ask_plainly(ends_t *e, tape_t *t) {
  char text[64];
  zmq_msg_t part[2];
  int n = snprintf(text, sizeof text, "edge %lld", (long long)some_number(e->l, t));
  fuzz_need(!zmq_msg_init_size(&part[0], (size_t)n), "memory");
  memcpy(zmq_msg_data(&part[0]), text, (size_t)n);
  zmq_msg_init(&part[1]);
  memset(e->l->k.from, next(t) & 8 ? 'a' : 'b', e->l->k.n_from = 5);
  mr__link_hear(e->l, part, 1);
  zmq_msg_close(&part[0]), zmq_msg_close(&part[1]);
}

/* ---- what the owner does ---- */

static void send_or_take(ends_t *e) {
  mr_buf_t *b;
  if (e->l->out && mr_link_room(e->l) && (b = mr_pool_get(e->pool))) {
    b->n = BATCH, b->size = mr_spec_bytes(&e->spec), b->position = BATCH;
    if (b->label) memset(b->label, 0, BATCH * sizeof *b->label);
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
      .n_fields = how & 8 ? 1 : 2,
      .field = {{.name = "image", .dtype = MR_U8, .ndim = 1, .dim = {how & 8 ? 64 : WIDTH}},
                mr_field_of_label(dataset.n_classes)},
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
