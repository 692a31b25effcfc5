#include "stages/vit_common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/label.h"
#include "pipeline/stage_step.h"

mr_err_t mr_vit_check_input(mr_stage_t *s, int port) {
  const mr_spec_t *in = &s->in_spec[port];
  const mr_field_t *image = in->field;
  char text[256];
  mr_spec_text(in, text, sizeof text);
  if (image->dtype != MR_F32 || image->ndim != 3 || image->layout != MR_LAYOUT_HWC)
    return mr_stage_fail(
        s, MR_ERR_SHAPE,
        "input %s is %s: want batches of f32 pictures laid out HWC; put `normalize "
        "layout=hwc` before batch",
        s->def->in[port].name, text);
  if (image->dim[0] != image->dim[1])
    return mr_stage_fail(s, MR_ERR_SHAPE, "input %s is %s: want square pictures",
                         s->def->in[port].name, text);
  if (mr_spec_label(in) < 0 || !in->dataset || in->dataset->n_classes < 1)
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "input %s: want a dataset with classes, and one field that is a label",
                         s->def->in[port].name);
  return MR_OK;
}

mr_err_t mr_vit_config_for(mr_stage_t *s, const mr_vit_settings_t *v, int port,
                           mr_vit_config_t *out) {
  const mr_spec_t *in = &s->in_spec[port];
  MR_TRY(mr_vit_check_input(s, port));
  *out = (mr_vit_config_t){.variant = v->variant ? MR_VIT_TIMM : MR_VIT_FLAX,
                           .image = (int)in->field->dim[0],
                           .patch = (int)v->patch,
                           .channels = (int)in->field->dim[2],
                           .embed = (int)v->embed,
                           .mlp = (int)v->mlp,
                           .heads = (int)v->heads,
                           .layers = (int)v->layers,
                           .classes = in->dataset->n_classes,
                           .dropout = (float)v->dropout,
                           .attn_drop = (float)v->attn_drop,
                           .proj_drop = (float)v->proj_drop,
                           .drop_path = (float)v->drop_path,
                           .no_qkv_bias = !v->qkv_bias,
                           .precision = (mr_precision_t)v->precision, /* the enum's order */
                           .dtype = v->dtype ? MR_BF16 : MR_F32,
                           .threads = (int)v->team.threads,
                           .pin = v->team.pin};
  mr_diag_t why = {0};
  mr_err_t e = mr_vit_check(out, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : e;
}

void mr_vit_team_tell(const mr_stage_t *s, const mr_vit_team_t *t) {
  int n = mr_backend_default()->processors();
  if (!t->pin || !n || t->threads <= n) return;
  fprintf(
      stderr,
      "millrace: %s: pin=true ties threads=%lld to %d processor%s, which is all this process may "
      "use: some share one; threads=0 takes one each\n",
      s->name, (long long)t->threads, n, n == 1 ? "" : "s");
}

static int guess(const float *logits, int64_t classes) {
  int best = 0;
  for (int c = 1; c < classes; c++)
    if (logits[c] > logits[best]) best = c;
  return best;
}

int64_t mr_vit_right(const float *logits, const int32_t *label, int64_t n, int64_t classes) {
  int64_t right = 0;
  for (int64_t i = 0; i < n; i++) right += guess(logits + i * classes, classes) == label[i];
  return right;
}

int64_t mr_vit_labels(const int32_t *label, int64_t n) {
  int64_t labels = 0;
  for (int64_t i = 0; i < n; i++) labels += label[i] != MR_LABEL_NONE;
  return labels;
}

static void count(mr_stage_t *s, int port, mr_vit_tally_t *tally, const float *logits,
                  const float *losses, const mr_buf_t *b) {
  int C = tally->n_classes;
  for (int i = 0; i < b->n; i++) {
    const float *row = logits + (int64_t)i * C;
    if (b->label[i] == MR_LABEL_NONE) continue;
    tally->records++;
    int g = guess(row, C);
    tally->loss += (double)losses[i];
    if (C > MR_METRICS_CLASSES) continue; /* too many for a matrix that people read */
    tally->confusion[b->label[i] * C + g]++;
    if (g != b->label[i] && tally->wrong) tally->wrong(s, tally, port, b, i, g);
  }
  tally->right += mr_vit_right(logits, b->label, b->n, C);
}

/* A short batch as a whole one: its last record repeated without a label.  In memory of its own,
   since a buffer belongs to others too and one that came over a link ends with its last record.
   *images and *labels are the caller's to free, also after a failure. */
static mr_err_t pad(mr_stage_t *s, const mr_spec_t *spec, const mr_buf_t *b, float **images,
                    int32_t **labels) {
  size_t B = (size_t)spec->batch, whole = mr_field_bytes(spec->field) * B, n = (size_t)b->n;
  size_t picture = whole / B;
  char *data = aligned_alloc(64, (whole + 63) / 64 * 64);
  int32_t *label = aligned_alloc(64, (B * sizeof *label + 63) / 64 * 64);
  *images = (float *)data, *labels = label;
  if (!data || !label)
    return mr_stage_fail(s, MR_ERR_NOMEM, "no memory to pad a batch of %zu records to %zu", n, B);
  memcpy(data, b->data, n * picture);
  memcpy(label, b->label, n * sizeof *label);
  for (size_t i = n; i < B; i++) {
    memcpy(data + i * picture, data + (n - 1) * picture, picture);
    label[i] = MR_LABEL_NONE;
  }
  return MR_OK;
}

static mr_err_t evaluate_batch(mr_stage_t *s, int port, mr_eval_step_t *step,
                               const mr_params_t *params, const mr_buf_t *b,
                               mr_vit_tally_t *tally) {
  const mr_spec_t *spec = &s->in_spec[port];
  const float *logits, *losses;
  float *images = NULL;
  int32_t *labels = NULL;
  if (!b->n) return MR_OK;
  bool is_short = b->n < spec->batch;
  mr_err_t e = is_short ? pad(s, spec, b, &images, &labels) : MR_OK;
  if (e >= 0)
    e = mr_eval_step_run(step, params, is_short ? images : b->data, is_short ? labels : b->label,
                         &logits, &losses, s->diag);
  free(images), free(labels);
  if (e >= 0) count(s, port, tally, logits, losses, b);
  return e;
}

mr_err_t mr_vit_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                         mr_vit_tally_t *tally) {
  tally->n_classes = s->in_spec[port].dataset->n_classes;
  for (bool last = false; !last;) {
    mr_buf_t *b = NULL;
    mr_err_t e = mr_stopping(s) ? MR_AGAIN : mr_pull(s, port, &b);
    if (e == MR_END && mr_stopping(s)) return MR_AGAIN;
    if (e == MR_END && tally->records) return MR_OK;
    if (e != MR_OK) return e;
    e = evaluate_batch(s, port, step, params, b, tally);
    last = b->flags & MR_BUF_EPOCH_END;
    mr_stream_at_pass(&tally->at, &s->in_spec[port], b);
    mr_buf_unref(b);
    if (e < 0) return e;
  }
  return MR_OK;
}

void mr_vit_tally_metrics(const mr_vit_tally_t *tally, mr_metrics_t *r) {
  double n = tally->records ? (double)tally->records : 1;
  mr_metrics_add(r, "loss", tally->loss / n);
  mr_metrics_add(r, "accuracy", (double)tally->right / n);
  mr_metrics_add(r, "records", (double)tally->records);
  if (tally->n_classes > MR_METRICS_CLASSES) return;
  r->n_classes = tally->n_classes;
  memcpy(r->confusion, tally->confusion, sizeof r->confusion);
}
