/* gather: joins the slices that several readers made of each batch (batch host=I/N).

   Every input has the same batches, each input its slots of them.  So the order of the stream is
   that of any input, and an output batch is the one that a single reader would have made, with the
   same number, position and state. */
#include <inttypes.h>
#include <string.h>

#include "pipeline/stage_step.h"

typedef struct gather {
  int64_t size;
  int n; /* inputs */
} gather_t;

static const mr_opt_t gather_opts[] = {
    {.name = "size",
     .type = MR_OPT_INT,
     .offset = offsetof(gather_t, size),
     .unit = "records",
     .def = "0",
     .lo = 0,
     .hi = 65536,
     .positional = 1,
     .help = "Number of records in a whole batch; 0: those of all slices together."},
    {0}};

static bool gather_alike(const mr_spec_t *a, const mr_spec_t *b) {
  return mr_spec_alike(a, b) && a->n_words == b->n_words && a->n_batches == b->n_batches &&
         a->ahead == b->ahead && a->n_records == b->n_records && a->n_epochs == b->n_epochs;
}

/* The slices of a batch come from one data set, so that other names of its classes are a mistake.
 */
static mr_err_t gather_check_classes(mr_stage_t *s, int i) {
  char one[300], other[300];
  for (int f = 0; f < s->in_spec[0].n_fields; f++) {
    const mr_classes_t *a = s->in_spec[0].field[f].classes, *b = s->in_spec[i].field[f].classes;
    if (!a || !b || mr_classes_same(a, b)) continue;
    return mr_stage_fail(s, MR_ERR_DATA,
                         "inputs a and %s are not slices of the same batches: field %s has the %d "
                         "classes %s in a and the %d classes %s in %s",
                         s->in_name[i], s->in_spec[0].field[f].name, a->n,
                         mr_classes_text(a, one, sizeof one), b->n,
                         mr_classes_text(b, other, sizeof other), s->in_name[i]);
  }
  return MR_OK;
}

static mr_err_t gather_plan(mr_stage_t *s) {
  gather_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  int64_t most = 0;
  char missing[MR_INPUT_LETTERS];
  for (t->n = 0; t->n < s->n_in && s->in_linked[t->n]; t->n++) {
    if (!gather_alike(&s->in_spec[t->n], &s->in_spec[0]))
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "inputs a and %s are not slices of the same batches: want the same "
                           "records, sizes and epochs",
                           s->in_name[t->n]);
    MR_TRY(gather_check_classes(s, t->n));
    most += s->in_spec[t->n].batch;
  }
  for (int i = t->n; i < s->n_in; i++)
    if (s->in_linked[i])
      return mr_stage_fail(s, MR_ERR_USAGE, "input %s is connected, but %s is not", s->in_name[i],
                           mr_input_letters(t->n, missing));
  if (t->size > most)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting size = %" PRId64 ": the slices have at most %" PRId64
                         " records together",
                         t->size, most);
  *out = s->in_spec[0];
  out->batch = t->size ? t->size : most;
  return MR_OK;
}

/* True if b continues where out ends: slices come in the order of the inputs. */
static bool slice_follows(const mr_buf_t *out, const mr_buf_t *b, int64_t size) {
  return b->epoch == out->epoch && b->position == out->position && b->n <= size - out->n &&
         (!b->n || !out->n || b->first == out->first + out->n);
}

static mr_err_t add_slice(mr_stage_t *s, int i, mr_buf_t *b, mr_buf_t *out) {
  const mr_spec_t *spec = &s->in_spec[i];
  if (!i) {
    out->epoch = b->epoch, out->position = b->position, out->flags = b->flags;
    if (spec->n_words) memcpy(out->word, b->word, (size_t)spec->n_words * sizeof *b->word);
  }
  if (!slice_follows(out, b, s->out_spec[0].batch))
    return mr_stage_fail(s, MR_ERR_DATA,
                         "batch %" PRId64
                         ": slots from %d on came at input %s after those up to "
                         "%d; want host=I/N of one batch at inputs a, b, ... in the order of I",
                         b->seq, b->first, s->in_name[i], out->first + out->n);
  if (!out->n) out->first = b->first;
  mr_buf_append(spec, b, 0, b->n, out);
  return MR_OK;
}

static mr_err_t gather_end_input(mr_stage_t *s, int i) {
  if (!i || mr_stopping(s) || mr_unwanted(s)) return MR_END;
  return mr_stage_fail(s, MR_ERR_DATA, "input %s has ended, but a has another batch",
                       s->in_name[i]);
}

static mr_err_t gather_step(mr_stage_t *s) {
  const gather_t *t = s->state;
  mr_buf_t *out, *b;
  mr_err_t e = mr_fresh(s, 0, &out);
  if (e != MR_OK) return e;
  for (int i = 0; i < t->n && e == MR_OK; i++) {
    e = mr_pull(s, i, &b);
    if (e == MR_END) e = gather_end_input(s, i);
    if (e != MR_OK) break;
    e = add_slice(s, i, b, out);
    mr_buf_unref(b);
  }
  if (e != MR_OK) return mr_buf_unref(out), e;
  return mr_push(s, 0, out);
}

#define SLICES(letter, may_lack) \
  { .name = letter, .flow = MR_FLOW_BATCHES, .optional = may_lack, .alike = true }

const mr_stage_def_t mr_stage_gather = {
    .name = "gather",
    .role = MR_ROLE_GATHER,
    .help = "Assembles whole batches from the slices of several readers (batch host=I/N).",
    .in = {SLICES("a", false),
           SLICES("b", true),
           SLICES("c", true),
           SLICES("d", true),
           SLICES("e", true),
           SLICES("f", true),
           SLICES("g", true),
           {.name = "h", .flow = MR_FLOW_BATCHES, .optional = true, .alike = true, .more = true}},
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .opts = gather_opts,
    .state_sz = sizeof(gather_t),
    .plan = gather_plan,
    .step = &(const mr_step_def_t){.run = gather_step},
};
