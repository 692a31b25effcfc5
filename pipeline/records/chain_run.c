/* From positions to records: locating writes programs, running them makes the records.

   Records are fetched in bursts, and each goes through its whole program while it is in the
   first-level cache.  Stages pass a pointer for each field; a stage that writes a value puts it
   into its own block of scratch, and the last stage that writes a field puts it into the batch.  So
   fields that no stage writes are copied once, from the source's memory to the batch. */
#include <assert.h>
#include <string.h>

#include "base/dataset.h"
#include "pipeline/records/care_private.h"
#include "pipeline/records/chain_private.h"

/* ---- locating ---- */

static mr_err_t locate_order(mr_chain_t *c, int branch, int64_t position, mr__prog_t *p,
                             bool *hole) {
  mr__branch_t *b = &c->branch[branch];
  mr_at_t at = {.index = position};
  int64_t since = mr__tally_begin(&b->tally);
  MR_TRY(b->s.def->order->at(&b->s, position, &at));
  mr__tally_end(&b->tally, since);
  if (at.hole) return *hole = true, MR_OK;
  assert(at.port >= 0 && at.port < b->n_in);
  MR_TRY(mr__locate(c, b->in[at.port], at.index, p, hole));
  if (*hole) return MR_OK;
  MR_TRY(mr__prog_renumber(b, branch, at.port, p));
  if (!at.seeded) return MR_OK;
  mr__op_t op = {MR__OP_SEED, branch, (int64_t)at.counter, {at.key[0], at.key[1]}};
  return mr__prog_push(p, op, b->s.diag);
}

static mr_err_t locate_join(mr_chain_t *c, int branch, int64_t position, mr__prog_t *p,
                            bool *hole) {
  mr__branch_t *b = &c->branch[branch];
  size_t from = p->n;
  for (int i = 0; i < b->n_in; i++) {
    MR_TRY(mr__locate(c, b->in[i], position, p, hole));
    if (*hole) return p->n = from, MR_OK; /* a hole in any input makes a hole in the output */
  }
  return mr__prog_push(p, (mr__op_t){MR__OP_JOIN, branch, 0, {0}}, b->s.diag);
}

static mr_err_t locate_kept(mr_chain_t *c, int branch, int64_t position, mr__prog_t *p,
                            bool *hole) {
  size_t from = p->n;
  bool kept;
  MR_TRY(mr__locate(c, c->branch[branch].in[0], position, p, hole));
  if (*hole) return MR_OK;
  MR_TRY(mr__kept(c, branch, p, from, &kept));
  if (!kept) p->n = from, *hole = true;
  return MR_OK;
}

mr_err_t mr__locate(mr_chain_t *c, int branch, int64_t position, mr__prog_t *p, bool *hole) {
  mr__branch_t *b = &c->branch[branch];
  mr__op_t op = {MR__OP_LEAF, branch, 0, {0}};
  *hole = false;
  if (position < 0) /* from an order with a bug: nothing before a source's start is read */
    return mr_stage_fail(&b->s, MR_ERR_CONFIG, "is asked for position %lld, want 0 or more",
                         (long long)position);
  switch (b->kind) {
    case MR__SOURCE:
      assert(mr__branch_spec(b)->n_records > 0);
      op.index = position % mr__branch_spec(b)->n_records;
      break;
    case MR__ORDER: return locate_order(c, branch, position, p, hole);
    case MR__KEEP: return locate_kept(c, branch, position, p, hole);
    case MR__JOIN: return locate_join(c, branch, position, p, hole);
    case MR__NEXT:
      return mr_stage_fail(&b->s, MR_ERR_USAGE,
                           "gives a sequential stream, which cannot be read by position");
    case MR__MAP:
      MR_TRY(mr__locate(c, b->in[0], position, p, hole));
      if (*hole) return MR_OK;
      op.code = MR__OP_MAP;
  }
  return mr__prog_push(p, op, b->s.diag);
}

mr_err_t mr__kept(mr_chain_t *c, int branch, mr__prog_t *p, size_t from, bool *kept) {
  mr__branch_t *b = &c->branch[branch];
  mr_rec_t rec;
  mr__op_t *op = p->op + from;
  size_t n = p->n - from;
  MR_TRY(mr__fetch(c, op, n));
  for (mr_err_t e; (e = mr__run(c, op, n, false, &rec)) < 0;) {
    MR_TRY(mr__chain_reject(c, op, n, e));
    MR_TRY(mr__fetch(c, op, n));
  }
  *kept = true;
  if (c->level[0].hole) return MR_OK;
  int64_t since = mr__tally_begin(&b->tally);
  mr_err_t e = b->s.def->filter->keep(&b->s, &rec, kept);
  mr__tally_end(&b->tally, since);
  return e;
}

/* ---- making ---- */

mr_err_t mr__fetch(mr_chain_t *c, mr__op_t *op, size_t n) {
  while (c->n_fetched) c->branch[c->fetched[--c->n_fetched]].n = 0;
  for (size_t k = 0; k < n; k++) {
    if (op[k].code != MR__OP_LEAF) continue;
    mr__branch_t *b = &c->branch[op[k].node];
    assert(b->n < MR_BURST);
    if (!b->n) c->fetched[c->n_fetched++] = op[k].node;
    op[k].key[0] = (uint64_t)b->n;
    b->rec[b->n] = (mr_rec_t){.field = b->value + b->n * b->n_fields};
    b->index[b->n++] = op[k].index;
  }
  for (int i = 0; i < c->n_fetched; i++) {
    mr__branch_t *b = &c->branch[c->fetched[i]];
    int64_t since = mr__tally_begin(&b->tally);
    MR_TRY(mr__care_fetch(&b->s, b->worker, b->index, b->n, b->rec));
    mr__tally_end(&b->tally, since);
  }
  return MR_OK;
}

/* False if there is a filter: finding the next burst's records would fetch them by itself. */
bool mr__wants_ahead(const mr_chain_t *c) {
  bool wants = false;
  if (c->lineage && c->lineage->only) return false;
  for (int i = 0; i < c->n_branches; i++) {
    const mr__branch_t *b = &c->branch[i];
    if (b->kind == MR__KEEP) return false;
    if (b->kind != MR__SOURCE || !b->s.def->source->ahead) continue;
    wants |= b->s.def->source->ahead((mr_stage_t *)&b->s, b->worker, NULL, 0);
  }
  return wants;
}

/* The next fetch will be of op[0,n): starts their reads. */
static void read_ahead(mr_chain_t *c, const mr__op_t *op, size_t n) {
  int asked = 0;
  for (size_t k = 0; k < n; k++) {
    mr__branch_t *b = &c->branch[op[k].node];
    if (op[k].code != MR__OP_LEAF || !b->s.def->source->ahead) continue;
    assert(b->n_later < MR_BURST);
    if (!b->n_later) c->asked[asked++] = op[k].node;
    b->later[b->n_later++] = op[k].index;
  }
  for (int i = 0; i < asked; i++) {
    mr__branch_t *b = &c->branch[c->asked[i]];
    mr__care_ahead(&b->s, b->worker, b->later, b->n_later);
    b->n_later = 0;
  }
}

static void run_leaf(mr_chain_t *c, const mr__branch_t *b, const mr__op_t *op, int level) {
  assert(level < c->depth && op->key[0] < (uint64_t)b->n); /* fetched before */
  c->rec[level] = b->rec[op->key[0]];
  c->rec[level].draws = c->draws;
  c->level[level].hole = false;
}

/* A hole requested as a record, as the branch's output. */
static void set_hole(mr_chain_t *c, mr__branch_t *b, int level) {
  assert(level < c->depth);
  c->rec[level] = (mr_rec_t){.field = b->hole, .key = UINT64_MAX};
  c->level[level].hole = true;
}

/* The output record of a map or join whose inputs begin at rec[level], before the stage runs. */
static mr_rec_t begin_rec(mr_chain_t *c, const mr__branch_t *b, int level, bool into) {
  mr__level_t *l = &c->level[level];
  const mr_rec_t *in = &c->rec[level];
  mr_rec_t out = *in;
  char *block = b->block;
  out.field = l->value[in->field == l->value[0]];
  for (int f = 0; f < b->n_fields; f++)
    if (b->passes)
      out.field[f] = in->field[f];
    else if (b->field[f].in != MR__NO_FIELD)
      out.field[f] = in[b->field[f].port].field[b->field[f].in];
  for (int k = 0; k < b->n_made; k++, block += b->made_bytes) {
    int f = b->made[k], end = b->field[f].end;
    out.field[f].data = into && end != MR__NO_FIELD ? c->to[end] : block;
  }
  return out;
}

static mr_err_t run_map(mr_chain_t *c, mr__branch_t *b, int level, bool into) {
  if (c->level[level].hole) return set_hole(c, b, level), MR_OK;
  mr_rec_t *rec = &c->rec[level], out = begin_rec(c, b, level, into);
  if (c->draws) c->draws->now = &b->s;
  int64_t since = mr__tally_begin(&b->tally);
  MR_TRY(b->s.def->map->run(&b->s, rec, &out));
  mr__tally_end(&b->tally, since);
  *rec = out;
  return MR_OK;
}

static mr_err_t run_join(mr_chain_t *c, mr__branch_t *b, int level, bool into) {
  mr_rec_t *rec = &c->rec[level], out = begin_rec(c, b, level, into);
  if (c->draws) c->draws->now = &b->s;
  for (int i = 1; i < b->n_in; i++) out.skipped |= rec[i].skipped;
  int64_t since = mr__tally_begin(&b->tally);
  MR_TRY(b->s.def->join->run(&b->s, rec, b->n_in, &out));
  mr__tally_end(&b->tally, since);
  *rec = out;
  return MR_OK;
}

/* An order whose inputs number classes in their own ways. */
static mr_err_t run_renumber(mr_chain_t *c, mr__branch_t *b, int port, int level, bool into) {
  const mr_renumber_t *r = b->s.renumber;
  if (c->level[level].hole) return MR_OK;
  mr_rec_t *rec = &c->rec[level], out = begin_rec(c, b, level, into);
  for (int k = 0; k < b->n_made; k++) {
    int f = b->made[k];
    int32_t label = *(const int32_t *)rec->field[f].data;
    bool known = r->number[port][f] && label != MR_LABEL_NONE && !rec->skipped;
    if (known && (label < 0 || label >= r->n[port][f]))
      return mr_stage_fail(&b->s, MR_ERR_DATA, "a record of input %s has label %d, want [0,%d)",
                           b->s.in_name[port], label, r->n[port][f]);
    *(int32_t *)out.field[f].data = known ? r->number[port][f][label] : label;
  }
  *rec = out;
  return MR_OK;
}

static void run_seed(mr_chain_t *c, const mr__op_t *op, int level) {
  mr_philox_t *rng = &c->level[level].rng;
  mr_philox_init(rng, op->key[0], op->key[1]);
  rng->counter[3] = (uint64_t)op->index;
  c->rec[level].rng = rng;
}

mr_err_t mr__run(mr_chain_t *c, const mr__op_t *op, size_t n, bool into, mr_rec_t *out) {
  int top = -1;
  for (size_t k = 0; k < n; k++) {
    mr__branch_t *b = &c->branch[op[k].node];
    c->failed = &op[k];
    switch ((mr__code_t)op[k].code) {
      case MR__OP_LEAF: run_leaf(c, b, &op[k], ++top); break;
      case MR__OP_HOLE: set_hole(c, b, ++top); break;
      case MR__OP_SEED: run_seed(c, &op[k], top); break;
      case MR__OP_MAP: MR_TRY(run_map(c, b, top, into)); break;
      case MR__OP_RENUMBER: MR_TRY(run_renumber(c, b, (int)op[k].index, top, into)); break;
      case MR__OP_JOIN:
        top -= b->n_in - 1;
        assert(top >= 0);
        MR_TRY(run_join(c, b, top, into));
        break;
    }
  }
  assert(top == 0);
  *out = c->rec[0];
  return MR_OK;
}

/* ---- into a batch ---- */

static void chain_run_aim(mr_chain_t *c, const mr_buf_t *buf, int slot) {
  for (int f = 0; f < c->spec.n_fields; f++) {
    const mr_buf_field_t *field = &buf->field[f];
    size_t at = field->offset ? (size_t)field->offset[slot] : (size_t)slot;
    c->to[f] = (char *)field->data + at * c->bytes[f];
  }
}

/* Most values other than pictures are single numbers, so their sizes are constants here. */
static void copy_value(void *to, const void *from, size_t bytes) {
  if (to == from) return;
  if (bytes == 4)
    memcpy(to, from, 4);
  else if (bytes == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, bytes);
}

static mr_err_t put_ragged(mr_chain_t *c, int f, const mr_value_t *v, int64_t *offset) {
  const mr_field_t *field = &c->spec.field[f];
  const mr_stage_t *last = &c->branch[c->n_branches - 1].s;
  if (v->rows < 0 || v->rows > field->dim[0])
    return mr_fail(last->diag, MR_ERR_DATA,
                   "%s: a record has %lld rows in field %s, want at most %lld", last->name,
                   (long long)v->rows, field->name, (long long)field->dim[0]);
  offset[1] = offset[0] + v->rows;
  copy_value(c->to[f], v->data, (size_t)v->rows * c->bytes[f]);
  return MR_OK;
}

/* Copies the values that no stage has written to their place. */
static mr_err_t chain_run_put_values(mr_chain_t *c, const mr_rec_t *r, mr_buf_t *buf, int slot) {
  for (int f = 0; f < c->spec.n_fields; f++) {
    if (buf->field[f].offset)
      MR_TRY(put_ragged(c, f, &r->field[f], &buf->field[f].offset[slot]));
    else
      copy_value(c->to[f], r->field[f].data, c->bytes[f]);
  }
  return MR_OK;
}

/* Zeros, no rows and no class. */
static void put_nothing(mr_chain_t *c, mr_buf_t *buf, int slot) {
  const int32_t none = MR_LABEL_NONE;
  for (int f = 0; f < c->spec.n_fields; f++) {
    int64_t *offset = buf->field[f].offset;
    if (offset)
      offset[slot + 1] = offset[slot];
    else if (c->spec.field[f].label)
      memcpy(c->to[f], &none, sizeof none);
    else
      memset(c->to[f], 0, c->bytes[f]);
  }
}

static mr_err_t chain_run_put_record(mr_chain_t *c, const mr_rec_t *r, mr_buf_t *buf, int slot) {
  bool hole = c->level[0].hole;
  buf->excluded[slot] = r->skipped || hole;
  buf->key[slot] = r->key | (r->skipped ? MR_KEY_SKIPPED : 0);
  buf->draw[slot] = r->draw;
  if (!r->skipped) return chain_run_put_values(c, r, buf, slot);
  put_nothing(c, buf, slot);
  return MR_OK;
}

/* Instead of making the records, passes on their lineages, which gives their keys. */
static void burst_lineages(mr_chain_t *c, const mr__op_t *op, const size_t *at, int n,
                           mr_buf_t *buf, int slot) {
  for (int i = 0; i < n; i++) {
    c->draws->n = 0;
    buf->key[slot + i] = mr__lineage_report(c, op + at[i], at[i + 1] - at[i], slot + i, NULL);
    buf->draw[slot + i] = 0;
  }
}

/* Counts a record that is in its slot: what was fetched for it before is replaced no more. */
static void count_record(mr_chain_t *c, const mr__op_t *op, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (op[k].code != MR__OP_LEAF) continue;
    mr__branch_t *b = &c->branch[op[k].node];
    uint64_t slot = op[k].key[0];
    mr__care_count(&b->s, op[k].index, b->index[slot], &b->rec[slot]);
  }
}

/* The programs of n <= MR_BURST records; record i is op[at[i],at[i+1]). */
typedef struct burst {
  mr__op_t *op;
  const size_t *at; /* [n+1] */
  int n;
} burst_t;

/* Makes a burst into buf from slot on, while the reads of the next one (NULL: unknown) run. */
static mr_err_t make_burst(mr_chain_t *c, const burst_t *b, const burst_t *next, mr_buf_t *buf,
                           int slot) {
  assert(b->n > 0 && b->n <= MR_BURST && b->at[0] <= b->at[b->n]);
  if (c->lineage && c->lineage->only)
    return burst_lineages(c, b->op, b->at, b->n, buf, slot), MR_OK;
  for (int f = 0; f < c->spec.n_fields && !slot; f++)
    if (buf->field[f].offset) buf->field[f].offset[0] = 0;
  MR_TRY(mr__fetch(c, b->op + b->at[0], b->at[b->n] - b->at[0]));
  if (next && next->n) read_ahead(c, next->op + next->at[0], next->at[next->n] - next->at[0]);
  for (int i = 0; i < b->n; i++) {
    mr_rec_t r;
    mr__op_t *op = b->op + b->at[i];
    size_t n = b->at[i + 1] - b->at[i];
    if (c->draws) c->draws->n = 0;
    chain_run_aim(c, buf, slot + i);
    for (mr_err_t e; (e = mr__run(c, op, n, true, &r)) < 0;) {
      MR_TRY(mr__chain_reject(c, op, n, e));
      if (c->draws) c->draws->n = 0;
      MR_TRY(mr__fetch(c, b->op + b->at[0], b->at[b->n] - b->at[0]));
    }
    uint64_t key = c->lineage ? mr__lineage_report(c, op, n, slot + i, &r) : 0;
    MR_TRY(chain_run_put_record(c, &r, buf, slot + i));
    if (c->lineage) buf->key[slot + i] = key;
    count_record(c, op, n);
  }
  return MR_OK;
}

static int upto_burst(int64_t n) { return n < 0 ? 0 : n < MR_BURST ? (int)n : MR_BURST; }

mr_err_t mr__make(mr_chain_t *c, mr__op_t *op, const size_t *at, int n, mr_buf_t *buf) {
  bool ahead = mr__wants_ahead(c);
  for (int i = 0; i < n; i += MR_BURST) {
    burst_t b = {op, at + i, upto_burst(n - i)}, next = {op, at + i + b.n, upto_burst(n - i - b.n)};
    MR_TRY(make_burst(c, &b, ahead ? &next : NULL, buf, i));
  }
  return MR_OK;
}

/* ---- filling by position ---- */

/* at: [n+1], where each record's program begins. */
static mr_err_t locate_burst(mr_stage_t *s, mr_chain_t *c, int64_t pos, mr__prog_t *p, size_t *at,
                             int n) {
  p->n = at[0] = 0;
  for (int i = 0; i < n; i++) {
    bool hole;
    MR_TRY(mr__locate(c, c->n_branches - 1, pos + i, p, &hole));
    if (hole)
      return mr_stage_fail(
          s, MR_ERR_DATA,
          "a filter dropped the record at position %lld, and this stage reads records by position",
          (long long)(pos + i));
    at[i + 1] = p->n;
  }
  return MR_OK;
}

bool mr_chain_foresees(mr_chain_t *c) {
  if (!mr__wants_ahead(c)) return false; /* also where sources are not open: for lineages alone */
  bool some = false;
  for (int i = 0; i < c->n_branches && !some; i++) {
    mr__branch_t *b = &c->branch[i];
    some = b->kind == MR__SOURCE && b->s.def->source->foresee &&
           b->s.def->source->foresee(&b->s, NULL, 0) >= 0;
  }
  return some;
}

int64_t mr_chain_wants(mr_chain_t *c) {
  int64_t most = 0;
  for (int i = 0; i < c->n_branches; i++) {
    mr__branch_t *b = &c->branch[i];
    if (b->kind != MR__SOURCE || !b->s.def->source->foresee) continue;
    int64_t more = b->s.def->source->foresee(&b->s, NULL, 0);
    if (more > most) most = more;
  }
  return most;
}

/* Announces the leaves of one record's program. */
static void announce_leaves(mr_chain_t *c, const mr__prog_t *p) {
  for (size_t k = 0; k < p->n; k++) {
    mr__branch_t *b = &c->branch[p->op[k].node];
    if (p->op[k].code == MR__OP_LEAF && b->s.def->source->foresee)
      mr__care_foresee(&b->s, &p->op[k].index, 1);
  }
}

void mr_chain_foresee(mr_chain_t *c, int64_t pos, int64_t n) {
  mr_diag_t *diag = c->branch[c->n_branches - 1].s.diag, kept = *diag;
  mr__prog_t *p = &c->prog[0]; /* no fill is in progress */
  for (int64_t i = 0; i < n; i++) {
    bool hole;
    p->n = 0;
    if (mr__locate(c, c->n_branches - 1, pos + i, p, &hole) < 0) break;
    announce_leaves(c, p);
  }
  *diag = kept; /* a failure is reported when that position is filled */
}

void mr_chain_then(mr_chain_t *c, int64_t pos, int n) { c->then = pos, c->then_n = n; }

/* As locate_burst for the fill that c->then announces; returns how many of its n positions can be
   located now.  A failure at the next one is reported when that position is filled, if ever. */
static int locate_wish(mr_chain_t *c, mr__prog_t *p, size_t *at, int n) {
  mr_diag_t *diag = c->branch[c->n_branches - 1].s.diag, kept = *diag;
  p->n = at[0] = 0;
  for (int i = 0; i < n; i++) {
    bool hole;
    mr_err_t e = mr__locate(c, c->n_branches - 1, c->then + i, p, &hole);
    if (e < 0 || hole) return *diag = kept, i;
    at[i + 1] = p->n;
  }
  return n;
}

/* Locates each burst while the one before it is about to be made.  The first burst of the next fill
   is located for its reads alone, and again when it is filled. */
static mr_err_t fill_ahead(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf) {
  size_t at[2][MR_BURST + 1];
  int now = 0;
  MR_TRY(locate_burst(s, c, pos, &c->prog[0], at[0], upto_burst(n)));
  for (int i = 0; i < n; i += MR_BURST, now ^= 1) {
    int more = upto_burst(n - i - MR_BURST), then = more ? 0 : upto_burst(c->then_n);
    mr__prog_t *next = &c->prog[now ^ 1];
    if (more) MR_TRY(locate_burst(s, c, pos + i + MR_BURST, next, at[now ^ 1], more));
    if (then) then = locate_wish(c, next, at[now ^ 1], then);
    burst_t a = {c->prog[now].op, at[now], upto_burst(n - i)},
            b = {next->op, at[now ^ 1], more + then};
    MR_TRY(make_burst(c, &a, &b, buf, i));
  }
  return MR_OK;
}

static mr_err_t chain_run_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf) {
  size_t at[MR_BURST + 1];
  for (int i = 0; i < n; i += MR_BURST) {
    int some = upto_burst(n - i);
    MR_TRY(locate_burst(s, c, pos + i, &c->prog[0], at, some));
    burst_t b = {c->prog[0].op, at, some};
    MR_TRY(make_burst(c, &b, NULL, buf, i));
  }
  return MR_OK;
}

mr_err_t mr_chain_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf) {
  mr_err_t e = (mr__wants_ahead(c) ? fill_ahead : chain_run_fill)(s, c, pos, n, buf);
  c->then_n = 0;
  return e;
}
