/* grayscale: makes pictures grey with probability p, in as many channels as before: torchvision's
   RandomGrayscale, and with p=1, the default, its Grayscale. */
#include <stdio.h>

#include "pipeline/stage_map.h"
#include "stages/pil_ops.h"

typedef struct grayscale {
  double p;
  const char *field;
  mr_pixels_t in;
} grayscale_t;

static mr_err_t grayscale_plan(mr_stage_t *s) {
  grayscale_t *t = s->state;
  MR_TRY(mr_canvas_plan(s, t->field, &t->in));
  return t->p == 0 || t->p == 1 ? MR_OK : mr_needs_generator(s, "p=0 or p=1");
}

static mr_err_t grayscale_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const grayscale_t *t = s->state;
  int f = t->in.field;
  bool grey = t->p == 1;
  if (t->p > 0 && t->p < 1) {
    grey = mr_philox_random(in->rng) < t->p;
    mr_draw_note(out, grey);
  }
  if (!grey) {
    out->field[f] = in->field[f];
    return MR_OK;
  }
  MR_TRY(mr_canvas_open(s, &t->in, &in->field[f], out->field[f].data));
  mr_pil_grey(s->scratch);
  mr_canvas_close(s, &t->in, out->field[f].data);
  return MR_OK;
}

static void grayscale_draw_text(const mr_stage_t *s, uint64_t what, char *text, size_t n) {
  snprintf(text, n, "%s", what ? "grey" : "not grey");
}

static const mr_opt_t grayscale_opts[] = {{.name = "p",
                                           .hint = "prob probability",
                                           .type = MR_OPT_F64,
                                           .offset = offsetof(grayscale_t, p),
                                           .def = "1",
                                           .hi = 1,
                                           .help = "Probability that a picture becomes grey.",
                                           .positional = 1},
                                          MR_PIXELS_OPT(grayscale_t, field),
                                          {0}};

static const mr_hint_t grayscale_words[] = {
    {"randomgrayscale", "grayscale 0.1", NULL},
    {"gray grey togray rgbtograyscale rgbtogray", "grayscale 1", NULL},
    {0}};

const mr_stage_def_t mr_stage_grayscale = {
    .name = "grayscale",
    .hint = grayscale_words,
    .help = "Makes pictures grey, each with probability p.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = grayscale_opts,
    .state_sz = sizeof(grayscale_t),
    .plan = grayscale_plan,
    .map =
        &(const mr_map_def_t){
            .run = grayscale_map, .leave = mr_canvas_leave, .draw_text = grayscale_draw_text},
};
