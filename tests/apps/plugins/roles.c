/* The plug-in of test_roles.c: stages that take the places of ours.  A checkpoint that keeps one
   file, and a link over a stream socket, which sends the values of batches as they lie.  With LONE
   it has one end of the link, with BARE a checkpoint without a folder. */
#include <errno.h>
#include <millrace.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the checkpoint ---- */

typedef struct vault {
  const char *dir;
  int64_t kept;
} vault_t;

static const mr_opt_t vault_opts[] = {{.name = "dir",
                                       .type = MR_OPT_STR,
                                       .offset = offsetof(vault_t, dir),
                                       .def = "vault",
                                       .help = "Folder of the file.",
                                       .positional = 1},
                                      {0}};

static mr_err_t vault_open(mr_stage_t *s) {
  const vault_t *v = s->state;
  if (mkdir(v->dir, 0777) < 0 && errno != EEXIST)
    return mr_stage_fail(s, MR_ERR_IO, "%s: cannot be made", v->dir);
  mr_commits(s);
  return MR_OK;
}

static mr_err_t vault_step(mr_stage_t *s) {
  vault_t *v = s->state;
  char path[4096];
  mr_diag_t why = {0};
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  mr_state_t st = *(const mr_state_t *)b->data;
  snprintf(path, sizeof path, "%s/latest", v->dir);
  e = mr_safetensors_write(path, st.tensor, st.n_tensors, st.meta, st.n_meta, &why);
  mr_buf_unref(b);
  if (e < 0) return mr_stage_relay(s, e, &why);
  for (int i = 0; st.of && i < MR_STATE_STREAMS; i++) mr_commit(s, st.of, i, st.taken[i]);
  v->kept++;
  return MR_OK;
}

static void vault_report(mr_stage_t *s, char *text, size_t n) {
  snprintf(text, n, "%d states kept", (int)((const vault_t *)s->state)->kept);
}

static const mr_step_def_t vault_kind = {.run = vault_step};

static const mr_hint_t vault_words[] = {{"strongbox", "train.state ! vault", NULL}, {0}};

static const mr_stage_def_t vault = {
    .name = "vault",
    .help = "Keeps the newest state.",
    .role = MR_ROLE_CHECKPOINT,
    .alias = "safe",
    .hint = vault_words,
    .in = {{.name = "state", .flow = MR_FLOW_STATE}},
#ifdef BARE
    .opts = vault_opts + 1,
#else
    .opts = vault_opts,
#endif
    .state_sz = sizeof(vault_t),
    .open = vault_open,
    .step = &vault_kind,
    .report = vault_report,
};

/* ---- the link ---- */

typedef struct wire {
  const char *link, *address, *key, *peers, *peer;
  bool bind;
  int64_t window, count;
  int listener, fd;
} wire_t;

#define TEXT(NAME) \
  { .name = #NAME, .type = MR_OPT_STR, .offset = offsetof(wire_t, NAME), .help = "Text." }

static const mr_opt_t wire_opts[] = {TEXT(link),
                                     TEXT(address),
                                     TEXT(key),
                                     TEXT(peers),
                                     TEXT(peer),
                                     {.name = "bind",
                                      .type = MR_OPT_BOOL,
                                      .offset = offsetof(wire_t, bind),
                                      .def = "false",
                                      .help = "Listens."},
                                     {.name = "window",
                                      .type = MR_OPT_INT,
                                      .offset = offsetof(wire_t, window),
                                      .def = "8",
                                      .lo = 1,
                                      .hi = 4096,
                                      .help = "Not used."},
                                     {0}};

static mr_err_t wire_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

/* An abstract socket of the link's address, whatever that says. */
static socklen_t wire_name(const wire_t *w, struct sockaddr_un *at) {
  *at = (struct sockaddr_un){.sun_family = AF_UNIX};
  size_t n = strlen(w->address), most = sizeof at->sun_path - 1;
  const char *end = n > most ? w->address + n - most : w->address;
  memcpy(at->sun_path + 1, end, strlen(end));
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(end));
}

static mr_err_t wire_open(mr_stage_t *s) {
  wire_t *w = s->state;
  struct sockaddr_un at;
  socklen_t n = wire_name(w, &at);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  w->fd = w->listener = -1, w->count = 0;
  if (!w->bind) return w->fd = fd, fd < 0 ? mr_stage_fail(s, MR_ERR_IO, "no socket") : MR_OK;
  w->listener = fd;
  if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, n) == 0 && listen(fd, 1) == 0) return MR_OK;
  return mr_stage_fail(s, MR_ERR_IO, "%s: cannot listen: %s", w->address, strerror(errno));
}

static void wire_close(mr_stage_t *s) {
  wire_t *w = s->state;
  if (w->fd >= 0) close(w->fd);
  if (w->listener >= 0) close(w->listener);
}

/* MR_AGAIN: the other end is not there yet. */
static mr_err_t wire_meet(mr_stage_t *s) {
  wire_t *w = s->state;
  struct sockaddr_un at;
  socklen_t n = wire_name(w, &at);
  if (w->listener >= 0 && w->fd < 0) {
    struct pollfd p = {.fd = w->listener, .events = POLLIN};
    if (poll(&p, 1, 10) == 1) w->fd = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC);
    return w->fd < 0 ? MR_AGAIN : MR_OK;
  }
  if (w->listener >= 0 || w->count) return MR_OK;
  if (connect(w->fd, (const struct sockaddr *)&at, n) == 0 || errno == EISCONN) return MR_OK;
  poll(NULL, 0, 10);
  return MR_AGAIN;
}

static mr_err_t wire_await(mr_stage_t *s) {
  mr_err_t e;
  while ((e = wire_meet(s)) == MR_AGAIN)
    if (mr_stopping(s)) return MR_END;
  return e;
}

/* Moves n bytes, out or in; false at the end of the stream. */
static bool wire_move(int fd, void *bytes, size_t n, bool out) {
  for (char *at = bytes; n;) {
    ssize_t k = out ? send(fd, at, n, MSG_NOSIGNAL) : recv(fd, at, n, 0);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    at += k, n -= (size_t)k;
  }
  return true;
}

typedef struct head {
  int64_t epoch, position;
  int32_t first, n;
  uint32_t flags;
} head_t;

/* The parts of a batch, as it lies in both processes. */
static bool wire_parts(const mr_spec_t *spec, mr_buf_t *b, int fd, bool out) {
  size_t n = (size_t)b->n;
  bool good = wire_move(fd, b->key, n * sizeof *b->key, out) &&
              wire_move(fd, b->draw, n * sizeof *b->draw, out) &&
              wire_move(fd, b->excluded, n, out);
  if (b->word) good &= wire_move(fd, b->word, (size_t)spec->n_words * sizeof *b->word, out);
  for (int f = 0; f < spec->n_fields && good; f++)
    good = wire_move(fd, b->field[f].data, n * mr_field_bytes(&spec->field[f]), out);
  return good;
}

static mr_err_t wire_out(mr_stage_t *s) {
  wire_t *w = s->state;
  mr_buf_t *b;
  mr_err_t e = wire_await(s);
  if (e == MR_OK) e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  head_t h = {b->epoch, b->position, b->first, b->n, b->flags};
  bool sent = wire_move(w->fd, &h, sizeof h, true) && wire_parts(&s->in_spec[0], b, w->fd, true);
  mr_buf_unref(b);
  w->count++;
  return sent ? MR_OK : MR_END;
}

static mr_err_t wire_in(mr_stage_t *s) {
  wire_t *w = s->state;
  head_t h;
  mr_buf_t *b;
  mr_err_t e = wire_await(s);
  if (e != MR_OK) return e;
  if (!wire_move(w->fd, &h, sizeof h, false)) return MR_END;
  e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  if (h.n < 0 || h.n > s->out_spec[0].batch)
    return mr_stage_fail(s, MR_ERR_DATA, "%d records", h.n);
  b->epoch = h.epoch, b->position = h.position, b->first = h.first, b->n = h.n, b->flags = h.flags;
  if (!wire_parts(&s->out_spec[0], b, w->fd, false))
    return mr_stage_fail(s, MR_ERR_IO, "cut short");
  b->size = mr_buf_bytes(&s->out_spec[0], b, b->n);
  w->count++;
  return mr_push(s, 0, b);
}

static void wire_report(mr_stage_t *s, char *text, size_t n) {
  snprintf(text, n, "%d batches over a wire", (int)((const wire_t *)s->state)->count);
}

static const mr_step_def_t out_kind = {.run = wire_out, .outside = true};
static const mr_step_def_t in_kind = {.run = wire_in, .outside = true};

static const mr_stage_def_t wire_from = {
    .name = "wire-out",
    .help = "Sends batches.",
    .role = MR_ROLE_LINK_OUT,
    .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
    .out = {{"link", MR_FLOW_BATCHES, true}},
    .opts = wire_opts,
    .state_sz = sizeof(wire_t),
    .plan = wire_plan,
    .open = wire_open,
    .close = wire_close,
    .report = wire_report,
    .step = &out_kind,
};

static const mr_stage_def_t wire_to = {
    .name = "wire-in",
    .help = "Receives batches.",
#ifndef LONE
    .role = MR_ROLE_LINK_IN,
#endif
    .in = {{"link", MR_FLOW_BATCHES, true}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = wire_opts,
    .state_sz = sizeof(wire_t),
    .plan = wire_plan,
    .open = wire_open,
    .close = wire_close,
    .report = wire_report,
    .step = &in_kind,
};

static const mr_stage_def_t *const stages[] = {&vault, &wire_from, &wire_to, NULL};

const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "roles", .stages = stages};
