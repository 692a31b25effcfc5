/* Each rank gives a fixed number of bytes: a head, and its rows of the batch.  All ranks see all
   heads and draw the same conclusion from them, so that none continues alone: a rank that only saw
   its own end would leave the others waiting for it in the middle of a step. */
#include "stages/train/agree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ledger.h"
#include "base/parts.h"
#include "base/safetensors.h"
#include "model/exec/device.h"
#include "model/mesh/mesh.h"
#include "pipeline/stage_step.h"

typedef enum agreed { AGREED_BATCH = 1, AGREED_END, AGREED_STOP, AGREED_SETTLED } agreed_t;

typedef struct head {
  uint32_t what, flags; /* agreed_t; of the batch */
  int32_t first, n;     /* this rank's slots [first,first+n) */
  int64_t step, epoch, position;
  uint64_t stream;          /* hash of the state of a walk, and of the keys of a whole batch */
  float loss, norm, params; /* of the newest step read */
  uint32_t wants;           /* MR__WANTS_STATE and the like */
} head_t;
_Static_assert(sizeof(head_t) % 8 == 0, "the rows behind a head are aligned");

struct mr__agree {
  const mr_process_ranks_t *ranks;
  mr_mesh_t mesh;
  int lines; /* pipelines, which rank r is of number r % lines; 0: ranks have no stages */
  mr_collect_t *collect;
  const mr_collect_ops_t *step_ops; /* of a step on a device, with of_step */
  mr_collect_t *of_step;            /* NULL: the step exchanges by collect */
  bool ended;                       /* all ranks have given all steps of the run */
  bool slices;                      /* each rank has its own records alone */
  int rows;                         /* the most of a rank; 0: batches are whole */
  int n_labels, label[MR_FIELDS_MAX];
  size_t bytes;     /* of a rank */
  char *mine, *all; /* [bytes], [size][bytes] */
  int own;          /* records of the newest batch that this process has */
};

/* ---- rows: keys u64, draws u64, labels i32, marks u8 ---- */

static size_t agree_bytes(const mr__agree_t *a) {
  size_t row = 2 * sizeof(uint64_t) + (size_t)a->n_labels * sizeof(int32_t) + 1;
  return (sizeof(head_t) + (size_t)a->rows * row + 7) / 8 * 8;
}

static int32_t *labels_of(const mr_buf_t *b, int f) {
  return b->field[f].label ? b->field[f].label : b->field[f].data;
}

/* Copies n rows between a batch, from slot `first` on, and a message. */
static void copy_message_rows(const mr__agree_t *a, mr_buf_t *b, int first, int n, char *message,
                              bool give) {
  char *at = message + sizeof(head_t);
  const size_t rows = (size_t)a->rows;
  struct piece {
    void *of_batch;
    size_t size;
  } piece[3 + MR_FIELDS_MAX] = {{b->key + first, sizeof *b->key},
                                {b->draw + first, sizeof *b->draw}};
  int k = 2;
  for (int i = 0; i < a->n_labels; i++)
    piece[k++] = (struct piece){labels_of(b, a->label[i]) + first, sizeof(int32_t)};
  piece[k++] = (struct piece){b->excluded + first, sizeof *b->excluded};
  for (int i = 0; i < k; at += rows * piece[i++].size) {
    size_t bytes = (size_t)n * piece[i].size;
    if (give)
      memcpy(at, piece[i].of_batch, bytes);
    else
      memcpy(piece[i].of_batch, at, bytes);
  }
}

/* The rank that leads the slice of this one: the first along all axes but that of the batch, or the
   first stage of its pipeline.  The others have its records too. */
static int leader_of_slice(const mr__agree_t *a, int rank) {
  int at[MR_MESH_AXES], batch = mr_mesh_batch(&a->mesh);
  mr_mesh_place(&a->mesh, rank, at);
  for (int i = 0; i < a->mesh.n; i++)
    if (i != batch) at[i] = 0;
  if (a->lines) at[batch] %= a->lines;
  return mr_mesh_rank(&a->mesh, at);
}

/* ---- opening ---- */

static void list_labels(mr__agree_t *a, const mr_spec_t *in) {
  for (int f = 0; f < in->n_fields; f++)
    if (in->field[f].label) a->label[a->n_labels++] = f;
}

/* Exchanges how something has come out on this rank: *all, whether it has on all of them. */
static mr_err_t gather_outcomes(mr__agree_t *a, mr_err_t e, bool *all, mr_diag_t *diag) {
  const mr_process_ranks_t *p = a->ranks;
  int32_t own = e, *of = calloc((size_t)p->size, sizeof *of);
  int missing;
  if (!of) return mr_no_memory(diag, "what ranks agree on");
  p->ops->all_gather(a->collect, sizeof own, &own, of);
  mr_err_t failed = p->ops->failed(a->collect, &missing, diag);
  *all = true;
  for (int r = 0; r < p->size; r++) *all &= of[r] >= 0;
  free(of);
  return failed;
}

/* A first call, in which a library finds out whether it can serve these devices: two ranks on one
   of them, say. */
static mr_err_t try_call(const mr_collect_ops_t *ops, mr_collect_t *c, int size,
                         const mr_device_t *on, mr_diag_t *diag) {
  size_t all = (size_t)size * sizeof(int32_t);
  void *in = mr_device_take(on, sizeof(int32_t)), *out = mr_device_take(on, all);
  int missing;
  mr_err_t e = in && out ? MR_OK : mr_no_memory(diag, "a first call of ranks on devices");
  if (e >= 0) ops->all_gather(c, sizeof(int32_t), in, out);
  if (e >= 0) e = mr_device_reached(on, NULL, true, diag);
  if (e >= 0) e = ops->failed(c, &missing, diag);
  if (e < 0) (*ops->abort)(c); /* the others may wait in it */
  mr_device_give(on, in, sizeof(int32_t)), mr_device_give(on, out, all);
  return e;
}

/* Whether a table serves all ranks, by a communicator of its own: *why has this rank's reason
   against it, if it has one. */
static mr_err_t try_table(mr__agree_t *a, const mr_collect_ops_t *ops, const mr_device_t *on,
                          bool *serves, mr_diag_t *why, mr_diag_t *diag) {
  const mr_process_ranks_t *p = a->ranks;
  mr_collect_t *c = NULL;
  mr_err_t own = ops->create(on, MR_COLLECT_TRY "step", p->rank, p->size, p->limit_s, &c, why);
  mr_err_t e = gather_outcomes(a, own, serves, diag);
  if (e >= 0 && *serves) {
    own = try_call(ops, c, p->size, on, why);
    e = gather_outcomes(a, own, serves, diag);
  }
  if (c) ops->destroy(c);
  return e;
}

/* The communicator of a device's steps.  Where the library of its maker does not serve all ranks,
   values of all go through the host. */
static mr_err_t join_for_device(mr__agree_t *a, const mr_device_t *on, mr_diag_t *diag) {
  const mr_process_ranks_t *p = a->ranks;
  mr_diag_t why = {0};
  bool serves = true;
  if (on->backend->host) return MR_OK;
  a->step_ops = p->ops_of ? p->ops_of(on) : &mr_collect_by_host;
  if (a->step_ops != &mr_collect_by_host)
    MR_TRY(try_table(a, a->step_ops, on, &serves, &why, diag));
  if (!serves) {
    mr_notice("ranks on device %s exchange values through the host's memory: %s", on->name,
              *why.text ? why.text : "another rank says why");
    a->step_ops = &mr_collect_by_host;
  }
  return a->step_ops->create(on, "step", p->rank, p->size, p->limit_s, &a->of_step, diag);
}

mr_err_t mr__agree_open(mr_stage_t *s, int64_t ordered, int stages, const mr_device_t *on,
                        mr__agree_t **out) {
  const mr_process_ranks_t *p = mr_process_ranks();
  const mr_spec_t *in = &s->in_spec[0];
  mr_diag_t why = {0};
  *out = NULL;
  if (!p || !in->ranks) return MR_OK;
  mr__agree_t *a = calloc(1, sizeof *a);
  if (!a) return mr_stage_no_memory(s, "what ranks agree on");
  a->ranks = p, a->slices = in->part;
  mr_err_t e = mr_mesh_parse(in->mesh, p->size, &a->mesh, &why);
  if (e >= 0 && stages) a->lines = a->mesh.size[mr_mesh_batch(&a->mesh)] / stages;
  int slices = e < 0 ? 1 : a->lines ? a->lines : a->mesh.size[mr_mesh_batch(&a->mesh)];
  int64_t parts = ordered ? ordered : slices; /* 0: ranks have parts of parameters */
  if (a->slices) list_labels(a, in);
  if (a->slices) a->rows = (int)mr_part_begins(in->batch, parts, mr_part_begins(parts, slices, 1));
  a->bytes = agree_bytes(a);
  a->mine = calloc(1, a->bytes), a->all = calloc((size_t)p->size, a->bytes);
  if (e >= 0 && (!a->mine || !a->all)) e = mr_no_memory(&why, "what ranks agree on");
  if (e >= 0)
    e = p->ops->create(mr_device_default(), "train", p->rank, p->size, p->limit_s, &a->collect,
                       &why);
  if (e >= 0) e = join_for_device(a, on, &why);
  if (e >= 0) return *out = a, MR_OK;
  mr__agree_close(a);
  return mr_stage_relay(s, e, &why);
}

void mr__agree_close(mr__agree_t *a) {
  if (!a) return;
  if (a->of_step) a->step_ops->destroy(a->of_step);
  if (a->collect) a->ranks->ops->destroy(a->collect);
  free(a->mine), free(a->all);
  free(a);
}

void mr__agree_set(const mr__agree_t *a, mr_train_config_t *t) {
  if (!a) return;
  t->rank = a->ranks->rank, t->ranks = a->ranks->size;
  t->collect_ops = a->of_step ? a->step_ops : a->ranks->ops;
  t->collect = a->of_step ? a->of_step : a->collect;
  t->limit_s = a->ranks->limit_s;
  if (!t->compute.threads) t->compute.threads = a->ranks->threads;
}

int mr__agree_own(const mr__agree_t *a, const mr_buf_t *batch) { return a ? a->own : batch->n; }

void mr__agree_doing(const mr__agree_t *a, const char *what, int64_t step, mr_pace_t pace) {
  if (a && a->ranks->doing) a->ranks->doing(what, step, pace);
}

/* ---- a step ---- */

static uint64_t stream_hash(const mr__agree_t *a, const mr_spec_t *in, const mr_buf_t *b) {
  uint64_t h = 1;
  for (int i = 0; b->word && i < in->n_words; i++) h = mr_hash_mix(h, (uint64_t)b->word[i]);
  for (int i = 0; !a->slices && i < b->n; i++)
    h = mr_hash_mix(mr_hash_mix(h, b->key[i]), b->draw[i]);
  return h;
}

/* Writes what this rank has. */
static void write_mine(const mr_stage_t *s, mr__agree_t *a, int64_t step, agreed_t what,
                       uint32_t wants, const mr_train_out_t *said, mr_buf_t *b) {
  head_t h = {.what = what, .step = step, .wants = wants};
  h.loss = said->loss, h.norm = said->grad_norm, h.params = said->param_norm;
  if (what == AGREED_BATCH) {
    h.flags = b->flags, h.epoch = b->epoch, h.position = b->position;
    h.stream = stream_hash(a, &s->in_spec[0], b);
    h.first = a->slices ? b->first : 0, h.n = b->n - h.first;
    if (a->slices) copy_message_rows(a, b, h.first, h.n, a->mine, true);
  }
  memcpy(a->mine, &h, sizeof h);
}

static head_t head_of(const mr__agree_t *a, int rank) {
  head_t h;
  memcpy(&h, a->all + (size_t)rank * a->bytes, sizeof h);
  return h;
}

static mr_err_t refuse_end(mr_stage_t *s, const mr__agree_t *a, const head_t *first) {
  for (int r = 1; r < a->ranks->size; r++) {
    head_t h = head_of(a, r);
    if (h.what != first->what)
      return mr_stage_fail(s, MR_ERR_DATA,
                           "step %" PRId64
                           ": the stream of rank %d has ended, and rank %d has another batch: want "
                           "the same graph and data on all ranks",
                           first->step, h.what == AGREED_END ? r : 0, h.what == AGREED_END ? 0 : r);
  }
  return MR_END;
}

/* Whether two ranks are at the same place of the same stream. */
static mr_err_t compare_places(mr_stage_t *s, int r, const head_t *h, const head_t *first) {
  if (h->epoch != first->epoch || h->position != first->position || h->flags != first->flags ||
      h->stream != first->stream)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "step %" PRId64 ": the batch of rank %d ends at position %" PRId64
                         " of epoch %" PRId64 ", that of rank 0 at position %" PRId64
                         " of epoch %" PRId64 "%s: want the same graph and data on all ranks",
                         first->step, r, h->position, h->epoch, first->position, first->epoch,
                         h->stream != first->stream ? ", and they hold other records" : "");
  return MR_OK;
}

/* The numbers that a step reports are those of all ranks' records. */
static mr_err_t compare_steps(mr_stage_t *s, int r, const head_t *h, const head_t *first) {
  if (h->step == first->step && !memcmp(&h->loss, &first->loss, 3 * sizeof h->loss)) return MR_OK;
  if (h->step != first->step)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "rank %d is at step %" PRId64 ", rank 0 at step %" PRId64
                         ": want all ranks to begin with the same checkpoint",
                         r, h->step, first->step);
  return mr_stage_fail(s, MR_ERR_DATA,
                       "before step %" PRId64
                       ": rank %d reports loss %.9g and a norm of the parameters of %.9g, rank 0 "
                       "%.9g and %.9g: they have lost step",
                       first->step, r, (double)h->loss, (double)h->params, (double)first->loss,
                       (double)first->params);
}

/* Puts the rows of all ranks into a batch. */
static mr_err_t join_rows(mr_stage_t *s, mr__agree_t *a, mr_buf_t *b) {
  int at = 0;
  for (int r = 0; r < a->ranks->size; r++) {
    head_t h = head_of(a, r);
    int leader = leader_of_slice(a, r);
    if (leader != r) {
      head_t first = head_of(a, leader);
      if (h.first == first.first && h.n == first.n) continue;
      return mr_stage_fail(s, MR_ERR_DATA,
                           "step %" PRId64
                           ": rank %d has records [%d,%d) of the batch, want [%d,%d) as "
                           "rank %d, whose slice it has",
                           h.step, r, h.first, h.first + h.n, first.first, first.first + first.n,
                           leader);
    }
    bool fits =
        h.n >= 0 && h.n <= a->rows && at + h.n <= s->in_spec[0].batch && (!h.n || h.first == at);
    if (!fits)
      return mr_stage_fail(s, MR_ERR_DATA,
                           "step %" PRId64
                           ": rank %d has records [%d,%d) of the batch, want those "
                           "from %d on",
                           h.step, r, h.first, h.first + h.n, at);
    if (r != a->ranks->rank) copy_message_rows(a, b, at, h.n, a->all + (size_t)r * a->bytes, false);
    at += h.n;
  }
  a->own = b->n - b->first;
  b->n = at, b->first = 0;
  return MR_OK;
}

static mr_err_t agree_on_step(mr_stage_t *s, mr__agree_t *a, int64_t step, mr_err_t pulled,
                              bool settled, const mr_train_out_t *said, mr_buf_t *batch,
                              uint32_t *wants, bool *stop) {
  const mr_collect_ops_t *ops = a->ranks->ops;
  agreed_t what = mr_stopping(s)     ? AGREED_STOP
                  : settled          ? AGREED_SETTLED
                  : pulled == MR_END ? AGREED_END
                                     : AGREED_BATCH;
  mr_diag_t why = {0};
  int missing;
  write_mine(s, a, step, what, *wants, said, batch);
  ops->all_gather(a->collect, a->bytes, a->mine, a->all);
  if (ops->failed(a->collect, &missing, &why) < 0)
    return mr_diag_prefix(s->diag, MR_ERR_UNAVAILABLE, &why, "%s: step %" PRId64, s->name, step);
  const head_t first = head_of(a, 0);
  bool ends = false;
  settled = false;
  for (int r = 0; r < a->ranks->size; r++) {
    head_t h = head_of(a, r);
    MR_TRY(compare_steps(s, r, &h, &first));
    settled |= h.what == AGREED_SETTLED;
    *stop |= h.what == AGREED_STOP;
    ends |= h.what == AGREED_END;
    *wants |= h.wants;
  }
  if (*stop || settled) return MR_END;
  if (ends) return refuse_end(s, a, &first);
  for (int r = 1; r < a->ranks->size; r++) {
    head_t h = head_of(a, r);
    MR_TRY(compare_places(s, r, &h, &first));
  }
  a->own = batch->n;
  return a->slices ? join_rows(s, a, batch) : MR_OK;
}

/* Steps that are under way on devices wait for ranks that may come no more. */
static mr_err_t end_steps_after(mr__agree_t *a, mr_err_t e) {
  if (e < 0 && a->of_step) (*a->step_ops->abort)(a->of_step);
  return e;
}

void mr__agree_end(mr__agree_t *a) {
  if (a) a->ended = true;
}

void mr__agree_leave_steps(mr__agree_t *a) {
  if (a && !a->ended) end_steps_after(a, MR_ERR_CANCEL);
}

mr_err_t mr__agree(mr_stage_t *s, mr__agree_t *a, int64_t step, mr_err_t pulled, bool settled,
                   const mr_train_out_t *said, mr_buf_t *batch, uint32_t *wants, bool *stop) {
  return end_steps_after(a, agree_on_step(s, a, step, pulled, settled, said, batch, wants, stop));
}

/* ---- a checkpoint ---- */

typedef struct outcome {
  int32_t code;
  char text[1020], name[MR_SAFETENSORS_SLICE_NAME];
} outcome_t;

/* The failure of the first rank that has one. */
static mr_err_t first_failure(mr_stage_t *s, const mr__agree_t *a, outcome_t *all) {
  for (int r = 0; r < a->ranks->size; r++) {
    all[r].text[sizeof all[r].text - 1] = 0;
    if (all[r].code < 0)
      return mr_stage_fail(s, (mr_err_t)all[r].code, "rank %d: %s", r, all[r].text);
  }
  return MR_OK;
}

mr_err_t mr__agree_files(mr_stage_t *s, mr__agree_t *a, mr_err_t e, const mr_diag_t *why,
                         const char *name, char *index) {
  const mr_collect_ops_t *ops = a->ranks->ops;
  int size = a->ranks->size, missing;
  outcome_t mine = {.code = e < 0 ? e : MR_OK}, *all = calloc((size_t)size, sizeof *all);
  mr_diag_t lost = {0};
  if (!all) return mr_stage_no_memory(s, "what ranks agree on");
  snprintf(mine.text, sizeof mine.text, "%.1000s", e < 0 ? why->text : "");
  snprintf(mine.name, sizeof mine.name, "%s", name);
  ops->all_gather(a->collect, sizeof mine, &mine, all);
  if (ops->failed(a->collect, &missing, &lost) < 0)
    e = mr_diag_prefix(s->diag, MR_ERR_UNAVAILABLE, &lost, "%s: checkpoint", s->name);
  else
    e = first_failure(s, a, all);
  *index = 0;
  for (int r = 1; r < size && e >= 0; r++) {
    all[r].name[sizeof all[r].name - 1] = 0;
    if (r > 1) strcat(index, "\n");
    strcat(index, all[r].name);
  }
  free(all);
  return end_steps_after(a, e);
}
