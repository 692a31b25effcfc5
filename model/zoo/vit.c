/* The model vit: the Vision Transformer of the recipe as a constant of settings, plan and loss,
   over the fields image and label.  Sizes of pictures and the number of classes come from the
   fields, everything else from settings; the network itself is nn/vit*.c. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/nn/vit.h"
#include "model/zoo/shared_opts.h"
#include "model/zoo/zoo.h"

typedef struct vit {
  int style;
  int64_t patch, embed, mlp, heads, layers;
  double dropout, attn_drop, proj_drop, drop_path, ln_eps, label_smoothing, focal_gamma;
  int activation, gelu, norm, loss;
  bool qkv_bias;
  mr_vit_config_t config; /* filled by plan from these and the fields */
} vit_t;

#define AT(field) offsetof(vit_t, field)
static const mr_opt_t vit_opts[] = {
    {.name = "style",
     .type = MR_OPT_ENUM,
     .offset = AT(style),
     .def = "flax",
     .choices = "flax|timm",
     .help = "Variant of the Vision Transformer, with the names and layout of its parameters."},
    {.name = "patch",
     .hint = "patchsize",
     .type = MR_OPT_INT,
     .offset = AT(patch),
     .unit = "pixels",
     .def = "4",
     .lo = 1,
     .hi = 1024,
     .help = "Side of a patch; must divide the side of the picture."},
    {.name = "embed",
     .hint = "dim width hiddensize hiddendim embeddim embeddingdim dmodel modeldim",
     .type = MR_OPT_INT,
     .offset = AT(embed),
     .def = "384",
     .lo = 1,
     .hi = 65536,
     .help = "Width of a token."},
    {.name = "mlp",
     .hint = "mlpdim ffndim dff intermediatesize mlphidden dimfeedforward",
     .type = MR_OPT_INT,
     .offset = AT(mlp),
     .def = "1536",
     .lo = 1,
     .hi = 262144,
     .help = "Width inside the MLP."},
    {.name = "heads",
     .hint = "numheads nheads nhead numattentionheads",
     .type = MR_OPT_INT,
     .offset = AT(heads),
     .def = "8",
     .lo = 1,
     .hi = 1024,
     .help = "Attention heads; must divide embed."},
    {.name = "layers",
     .hint = "numlayers nlayers nblocks numblocks blocks depth numhiddenlayers",
     .type = MR_OPT_INT,
     .offset = AT(layers),
     .def = "6",
     .lo = 1,
     .hi = 1024,
     .help = "Encoder blocks."},
    {.name = "dropout",
     .hint = "dropoutrate droprate dropoutprob hiddendropoutprob",
     .type = MR_OPT_F64,
     .offset = AT(dropout),
     .def = "0.1",
     .hi = 0.99,
     .help = "Dropout rate in the MLP while training."},
    {.name = "attn-drop",
     .hint = "attndroprate attentiondropout attentionprobsdropoutprob attentiondropoutrate",
     .type = MR_OPT_F64,
     .offset = AT(attn_drop),
     .def = "0",
     .hi = 0.99,
     .help = "Dropout rate of the attention probabilities while training."},
    {.name = "proj-drop",
     .hint = "projdroprate",
     .type = MR_OPT_F64,
     .offset = AT(proj_drop),
     .def = "-1",
     .hi = 0.99,
     .help = "timm: dropout rate of the attention output while training; -1: that of dropout."},
    {.name = "drop-path",
     .hint = "droppathrate stochasticdepth stochasticdepthprob droppathprob",
     .type = MR_OPT_F64,
     .offset = AT(drop_path),
     .def = "0",
     .hi = 0.99,
     .help = "timm: rate at which records skip the last block while training; 0 in the first "
             "block, linear in between."},
    {.name = "qkv-bias",
     .type = MR_OPT_BOOL,
     .offset = AT(qkv_bias),
     .def = "true",
     .help = "timm: biases of q, k and v."},
    MR__ACTIVATION_OPTS(AT(activation), AT(gelu), "that of style, tanh for flax, erf for timm"),
    {.name = "norm",
     .hint = "normlayer normtype normalization",
     .type = MR_OPT_ENUM,
     .offset = AT(norm),
     .def = "layer",
     .choices = "layer|rms",
     .help = "Normalization of tokens: layer; rms: without mean and bias."},
    {.name = "ln-eps",
     .hint = "layernormeps layernormepsilon normeps",
     .type = MR_OPT_F64,
     .offset = AT(ln_eps),
     .def = "0",
     .hi = 0.1,
     .help = "Added to the variance in normalizations, or to the mean square; 0: that of style, "
             "1e-6 for flax, 1e-5 for timm."},
    MR__LOSS_OPTS(AT(loss), AT(focal_gamma), AT(label_smoothing), "cross-entropy",
                  MR_CLASS_LOSS_CHOICES, ""),
    {0}};

static mr_err_t vit_plan(void *state, mr_model_plan_t *p, mr_diag_t *diag) {
  vit_t *v = state;
  const mr_model_field_t *image = mr_model_take(p, "image", diag);
  const mr_model_field_t *label = image ? mr_model_take(p, "label", diag) : NULL;
  if (!label) return MR_ERR_SHAPE;
  const mr_aval_t *a = &image->aval;
  if (a->dtype != MR_F32 || a->ndim != 3 || strcmp(image->layout, "HWC"))
    return mr_fail(diag, MR_ERR_SHAPE,
                   "want batches of f32 pictures laid out HWC; put `normalize layout=hwc` before "
                   "batch");
  if (a->dim[0] != a->dim[1]) return mr_fail(diag, MR_ERR_SHAPE, "want square pictures");
  const mr_aval_t *l = &label->aval;
  bool targets = l->dtype == MR_F32 && l->ndim == 1 && l->dim[0] > 0;
  if (label->classes < 1 && !targets)
    return mr_fail(diag, MR_ERR_SHAPE, "want a dataset with classes, or labels of one-hot");
  int64_t classes = targets ? l->dim[0] : label->classes;
  v->config = (mr_vit_config_t){.variant = v->style ? MR_VIT_TIMM : MR_VIT_FLAX,
                                .image = (int)a->dim[0],
                                .patch = (int)v->patch,
                                .channels = (int)a->dim[2],
                                .embed = (int)v->embed,
                                .mlp = (int)v->mlp,
                                .heads = (int)v->heads,
                                .layers = (int)v->layers,
                                .classes = (int)classes,
                                .dropout = (float)v->dropout,
                                .attn_drop = (float)v->attn_drop,
                                .proj_drop = (float)v->proj_drop,
                                .drop_path = (float)v->drop_path,
                                .no_qkv_bias = !v->qkv_bias,
                                .ln_eps = (float)v->ln_eps,
                                .activation = (mr_activation_t)v->activation,
                                .gelu = (mr_nn_gelu_t)v->gelu,
                                .rms = v->norm == 1,
                                .label_smoothing = (float)v->label_smoothing,
                                .loss = (mr_class_loss_kind_t)v->loss,
                                .focal_gamma = (float)v->focal_gamma};
  p->loss.classes = label->classes, p->loss.masked = targets;
  if (v->style) p->loss.no_decay = "vectors,pos_embed,cls_token"; /* timm's rule */
  mr_model_reports(p, "accuracy");
  if (classes >= MR_LOSS_TOP5_FROM) mr_model_judged_by(p, &mr_loss_top5);
  return mr_vit_check(&v->config, diag);
}

static mr_err_t vit_loss(const void *state, mr_nn_t *s, mr_var_t *const *field,
                         mr_loss_out_t *out) {
  return mr_vit_trace(&((const vit_t *)state)->config, s, field, out);
}

/* What is as the style has it is not said, so that texts of older checkpoints are equal. */
static void vit_text(const void *state, const mr_model_plan_t *p, char *text, size_t n) {
  const vit_t *v = state;
  const mr_vit_config_t *c = &v->config;
  mr_vit_config_t usual = {.variant = c->variant};
  mr_nn_gelu_t own = c->variant == MR_VIT_FLAX ? MR_NN_GELU_TANH : MR_NN_GELU_ERF;
  bool is_gelu = c->activation == MR_ACTIVATION_GELU;
  char activation[40] = "", eps[32] = "";
  if (!is_gelu)
    snprintf(activation, sizeof activation, " activation=%s", mr_activation_name(c->activation));
  else if (c->gelu != MR_NN_GELU_OWN && c->gelu != own)
    snprintf(activation, sizeof activation, " gelu=%s", c->gelu == MR_NN_GELU_ERF ? "erf" : "tanh");
  if (mr_vit_ln_eps(c) != mr_vit_ln_eps(&usual))
    mr_snprintf(eps, sizeof eps, " ln-eps=%.9g", v->ln_eps);
  snprintf(
      text, n,
      "vit %s image=%d patch=%d channels=%d embed=%d mlp=%d heads=%d layers=%d classes=%d%s%s%s%s",
      c->variant == MR_VIT_FLAX ? "flax" : "timm", c->image, c->patch, c->channels, c->embed,
      c->mlp, c->heads, c->layers, c->classes, c->no_qkv_bias ? " qkv-bias=false" : "", activation,
      c->rms ? " norm=rms" : "", eps);
}

/* Megatron's columns and rows: heads and the first layer of an MLP by columns, what reads them by
   rows.  flax's matrices are (in, out), timm's (out, in), whose q, k and v are three blocks. */
static const char vit_partition[] =
    "*.attn.query.kernel=(None,model,None), *.attn.query.bias=(model,None), "
    "*.attn.key.kernel=(None,model,None), *.attn.key.bias=(model,None), "
    "*.attn.value.kernel=(None,model,None), *.attn.value.bias=(model,None), "
    "*.attn.out.kernel=(model,None,None), "
    "*.linear1.kernel=(None,model), *.linear1.bias=(model), *.linear2.kernel=(model,None), "
    "*.attn.qkv.weight=(3*model,None), *.attn.qkv.bias=(3*model), *.attn.proj.weight=(None,model), "
    "*.mlp.fc1.weight=(model,None), *.mlp.fc1.bias=(model), *.mlp.fc2.weight=(None,model)";

const mr_model_def_t mr_model_vit = {
    .name = "vit",
    .help = "A Vision Transformer over pictures with a class: flax's or timm's.",
    .opts = vit_opts,
    .state_sz = sizeof(vit_t),
    .shapes = "style patch embed mlp heads layers qkv-bias activation gelu norm ln-eps",
    .remat = true,
    .plan = vit_plan,
    .loss = vit_loss,
    .metrics = mr_vit_metrics,
    .text = vit_text,
    .partition = vit_partition,
};
