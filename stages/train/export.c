/* Each parameter of the checkpoint leads to timm's name of it, and that to the tensors of the
   format (weight_names.h).  What is not in the weights, sizes, GELU and epsilon, is in the code
   that makes the model. */
#include "stages/train/export.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "stages/train/recall.h"
#include "stages/train/state.h"
#include "stages/train/weight_names.h"

const char mr_export_formats[] = "timm|flax|hf|torchvision";

typedef struct export {
  const char *path; /* of the checkpoint */
  const mr_safetensors_t *from;
  const char *prefix; /* "params/" or "ema/" */
  const char *format;
  mr__names_t names;
  mr__vit_t model;
  mr_st_tensor_t *t; /* [n] for the file; each one's name and data are heap */
  int n, cap;
}
export_t;

/* ---- whether the library computes it ---- */

static mr_err_t refuse_function(const export_t *x, const char *what, const char *want,
                                mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_USAGE,
                 "export: %s: %s, which the model of format %s does not compute; train with %s, or "
                 "take --format timm or hf, whose models have that setting",
                 x->path, what, x->format, want);
}

static mr_err_t check_function(const export_t *x, mr_diag_t *diag) {
  const mr__vit_t *m = &x->model;
  bool is_flax = x->names == MR__NAMES_FLAX;
  char what[64];
  if (m->rms)
    return mr_fail(diag, MR_ERR_USAGE,
                   "export: %s: its normalizations are RMS, which no format's model computes alike "
                   "in all versions of its library; train with norm=layer",
                   x->path);
  if (x->names == MR__NAMES_TIMM || x->names == MR__NAMES_HF) return MR_OK;
  snprintf(what, sizeof what, "its MLPs compute %s", mr_activation_name(m->activation));
  if (m->activation != MR_ACTIVATION_GELU) return refuse_function(x, what, "activation=gelu", diag);
  if (m->erf == is_flax)
    return refuse_function(x, m->erf ? "its GELU is by erf" : "its GELU is by tanh",
                           m->erf ? "gelu=tanh" : "gelu=erf", diag);
  mr_snprintf(what, sizeof what, "its normalizations add %.9g", m->eps);
  if (is_flax && (float)m->eps != 1e-6f) return refuse_function(x, what, "ln-eps=1e-6", diag);
  return MR_OK;
}

/* ---- whether the checkpoint has the model that its text names ---- */

static bool is_parameter_of(const mr_params_t *params, const char *name) {
  for (int i = 0; i < params->n; i++)
    if (!strcmp(params->param[i].name, name)) return true;
  return false;
}

static mr_err_t refuse_others(const export_t *x, const mr_params_t *params, mr_diag_t *diag) {
  size_t skip = strlen(x->prefix);
  for (int i = 0; i < mr_safetensors_count(x->from); i++) {
    const char *name = mr_safetensors_at(x->from, i)->name;
    if (strncmp(name, x->prefix, skip) || is_parameter_of(params, name + skip)) continue;
    return mr_fail(diag, MR_ERR_DATA, "export: %s: the tensor %s is no parameter of its model",
                   x->path, name);
  }
  return MR_OK;
}

/* Checks the tensors against the parameters of the model, as an evaluation does. */
static mr_err_t check_tensors(const export_t *x, const char *text, mr_diag_t *diag) {
  const mr__vit_t *v = &x->model;
  const mr_model_field_t field[] = {
      {.name = "image",
       .aval = mr_aval_of(MR_F32, v->image, v->image, v->channels),
       .layout = "HWC"},
      {.name = "label", .aval = mr_aval_scalar(MR_I32), .layout = "", .classes = v->classes}};
  char brings[MR_MODEL_TEXT];
  mr_recalled_t recalled;
  mr_compute_t compute = {.dtype = MR_F32};
  mr_params_t params = {0};
  mr_model_t model;
  mr_diag_t why = {0};
  mr_err_t e = mr_recall_model(&recalled, x->path, text, &why);
  if (e >= 0) e = mr_model_plan(&model, recalled.def, recalled.state, 2, field, &why);
  if (e < 0) e = mr_diag_prefix(diag, MR_ERR_DATA, &why, "export: %s", x->path);
  if (e >= 0) mr_model_text(&model, brings);
  if (e >= 0 && strcmp(text, brings))
    e = mr_fail(diag, MR_ERR_DATA,
                "export: %s: its model is \"%s\", which means \"%s\" here: want a checkpoint of "
                "train-step",
                x->path, text, brings);
  if (e >= 0) e = mr_recall_list(x->path, &model, true, &compute, &params, diag);
  if (e >= 0) e = refuse_others(x, &params, diag);
  mr_params_fini(&params);
  mr_recalled_fini(&recalled);
  return e;
}

/* ---- the tensors ---- */

/* Tensors of a parameter as the checkpoint keeps it; false if it lacks one, or one is of another
   type or shape than the first. */
static bool find_fellows(const export_t *x, const mr__weight_t *w, const mr_st_tensor_t **t) {
  for (int i = 0; i < w->n; i++) {
    char all[2 * MR__WEIGHT_NAME];
    snprintf(all, sizeof all, "%s%s", x->prefix, w->name[i]);
    if (!(t[i] = mr_safetensors_find(x->from, all))) return false;
    bool same = t[i]->dtype == t[0]->dtype && t[i]->ndim == t[0]->ndim &&
                !memcmp(t[i]->dim, t[0]->dim, (size_t)t[0]->ndim * sizeof *t[0]->dim);
    if (!same) return false;
  }
  return true;
}

/* Sets *whole to the shape of timm's tensor; false for shapes of no such one. */
static bool find_whole(const export_t *x, const mr__weight_t *w, const mr_st_tensor_t *t,
                       mr_aval_t *whole) {
  const mr_aval_t one = mr_aval(t->dtype, t->ndim, t->dim);
  *whole = mr__weight_whole(w, &one);
  if (!mr__weight_fits(w, whole, x->model.heads)) return false;
  const mr_aval_t again = mr__weight_part(w, whole, x->model.heads);
  return mr_aval_equal(&one, &again);
}

/* Appends a tensor; NULL without memory. */
static mr_st_tensor_t *append_tensor(export_t *x, const char *name, const mr_aval_t *a) {
  if (x->n == x->cap) {
    int cap = x->cap ? 2 * x->cap : 64;
    mr_st_tensor_t *t = realloc(x->t, (size_t)cap * sizeof *t);
    if (!t) return NULL;
    x->t = t, x->cap = cap;
  }
  char *own = strdup(name);
  void *data = calloc((size_t)mr_aval_elems(a) + 1, mr_dtype_size(a->dtype));
  if (!own || !data) return free(own), free(data), NULL;
  mr_st_tensor_t *to = &x->t[x->n++];
  *to = (mr_st_tensor_t){.name = own, .dtype = a->dtype, .ndim = a->ndim, .data = data};
  memcpy(to->dim, a->dim, sizeof to->dim);
  return to;
}

/* Appends the tensors of timm's parameter `name`; t: as the checkpoint keeps it, NULL: zeros. */
static mr_err_t add_parameter(export_t *x, const char *name, const mr_aval_t *whole,
                              const mr__weight_t *from, const mr_st_tensor_t *const *t,
                              mr_diag_t *diag) {
  mr__weight_t to;
  mr__weight_of(x->names, name, &to);
  if (!mr__weight_fits(&to, whole, x->model.heads))
    return mr_fail(diag, MR_ERR_DATA, "export: %s: %s has a shape of no Vision Transformer",
                   x->path, name);
  mr_aval_t each = mr__weight_part(&to, whole, x->model.heads);
  if (x->names == MR__NAMES_FLAX) each.dtype = MR_F32; /* numpy has no bf16 */
  for (int part = 0; part < to.n; part++) {
    const mr_st_tensor_t *made = append_tensor(x, to.name[part], &each);
    if (!made) return mr_no_memory(diag, "the weights");
    if (t) mr__weight_copy(whole, from, t, &to, part, each.dtype, (void *)made->data);
  }
  return MR_OK;
}

/* Models without biases of q, k and v are equal to others with zeros. */
static mr_err_t add_zero_biases(export_t *x, const char *name, const mr_aval_t *weight,
                                mr_diag_t *diag) {
  const char *end = strstr(name, ".attn.qkv.weight");
  bool kept = x->names == MR__NAMES_TIMM || x->names == MR__NAMES_HF;
  if (!end || x->model.qkv_bias || kept) return MR_OK;
  char bias[MR__WEIGHT_NAME];
  const mr_aval_t a = mr_aval_of(weight->dtype, weight->dim[0]);
  snprintf(bias, sizeof bias, "%.*s.attn.qkv.bias", (int)(end - name), name);
  return add_parameter(x, bias, &a, NULL, NULL, diag);
}

static mr_err_t add_parameters(export_t *x, mr_diag_t *diag) {
  size_t skip = strlen(x->prefix);
  for (int i = 0; i < mr_safetensors_count(x->from); i++) {
    const mr_st_tensor_t *at = mr_safetensors_at(x->from, i), *t[MR__WEIGHT_PARTS];
    char name[MR__WEIGHT_NAME];
    mr__weight_t from;
    mr_aval_t whole;
    if (strncmp(at->name, x->prefix, skip) != 0) continue;
    int part = mr__weight_timm(x->model.style, at->name + skip, name);
    if (part > 0) continue; /* came with the first part */
    mr__weight_of(x->model.style, name, &from);
    if (part < 0 || !find_fellows(x, &from, t) || !find_whole(x, &from, at, &whole))
      return mr_fail(diag, MR_ERR_DATA,
                     "export: %s: the tensor %s is of no Vision Transformer, or lacks its fellows",
                     x->path, at->name);
    MR_TRY(add_parameter(x, name, &whole, &from, t, diag));
    MR_TRY(add_zero_biases(x, name, &whole, diag));
  }
  return MR_OK;
}

/* ---- the code ---- */

/* Writes a path as Python takes it between quotes into to[2 * strlen(path) + 1]. */
static void quote_path(const char *path, char *to) {
  for (; *path; *to++ = *path++)
    if (*path == '\'' || *path == '\\') *to++ = '\\';
  *to = 0;
}

/* Writes the mlp_ratio of which timm, as int(embed * mlp_ratio), gets mlp. */
static void write_ratio(const mr__vit_t *m, char text[48]) {
  bool exact = (int)(m->embed * ((double)m->mlp / m->embed)) == m->mlp;
  snprintf(text, 48, exact ? "%d / %d" : "(%d + 0.5) / %d", m->mlp, m->embed);
}

static const char *activation_of_timm(const mr__vit_t *m) {
  switch (m->activation) {
    case MR_ACTIVATION_QUICK_GELU: return "timm.layers.QuickGELU";
    case MR_ACTIVATION_RELU: return "torch.nn.ReLU";
    case MR_ACTIVATION_SILU: return "torch.nn.SiLU";
    case MR_ACTIVATION_TANH: return "torch.nn.Tanh";
    case MR_ACTIVATION_GELU:
    case MR_ACTIVATIONS: break;
  }
  return m->erf ? "functools.partial(torch.nn.GELU, approximate='none')"
                : "functools.partial(torch.nn.GELU, approximate='tanh')";
}

static const char *activation_of_hf(const mr__vit_t *m) {
  if (m->activation == MR_ACTIVATION_QUICK_GELU) return "quick_gelu";
  if (m->activation != MR_ACTIVATION_GELU) return mr_activation_name(m->activation);
  return m->erf ? "gelu" : "gelu_pytorch_tanh";
}

/* out: quoted. */
static void write_code(const export_t *x, const char *out, char *code) {
  const mr__vit_t *m = &x->model;
  char ratio[48];
  write_ratio(m, ratio);
  const char *load = "model.load_state_dict(safetensors.torch.load_file(";
  if (x->names == MR__NAMES_TIMM)
    mr_snprintf(code, MR_EXPORT_CODE,
                "import functools, safetensors.torch, timm.layers, torch\n"
                "from timm.models.vision_transformer import VisionTransformer\n"
                "model = VisionTransformer(\n"
                "    img_size=%d, patch_size=%d, in_chans=%d, num_classes=%d, embed_dim=%d, "
                "depth=%d,\n"
                "    num_heads=%d, mlp_ratio=%s, qkv_bias=%s,\n"
                "    norm_layer=functools.partial(torch.nn.LayerNorm, eps=%.9g),\n"
                "    act_layer=%s)\n"
                "%s'%s'))\n",
                m->image, m->patch, m->channels, m->classes, m->embed, m->layers, m->heads, ratio,
                m->qkv_bias ? "True" : "False", m->eps, activation_of_timm(m), load, out);
  else if (x->names == MR__NAMES_HF)
    mr_snprintf(code, MR_EXPORT_CODE,
                "import safetensors.torch\n"
                "from transformers import ViTConfig, ViTForImageClassification\n"
                "config = ViTConfig(\n"
                "    image_size=%d, patch_size=%d, num_channels=%d, num_labels=%d, "
                "hidden_size=%d,\n"
                "    num_hidden_layers=%d, num_attention_heads=%d, intermediate_size=%d, "
                "qkv_bias=%s,\n"
                "    layer_norm_eps=%.9g, hidden_act='%s')\n"
                "model = ViTForImageClassification.from_pretrained(\n"
                "    None, config=config, state_dict=safetensors.torch.load_file('%s'))\n",
                m->image, m->patch, m->channels, m->classes, m->embed, m->layers, m->heads, m->mlp,
                m->qkv_bias ? "True" : "False", m->eps, activation_of_hf(m), out);
  else if (x->names == MR__NAMES_TORCHVISION)
    mr_snprintf(code, MR_EXPORT_CODE,
                "import functools, safetensors.torch, torch\n"
                "from torchvision.models import VisionTransformer\n"
                "model = VisionTransformer(\n"
                "    image_size=%d, patch_size=%d, num_classes=%d, hidden_dim=%d, num_layers=%d,\n"
                "    num_heads=%d, mlp_dim=%d,\n"
                "    norm_layer=functools.partial(torch.nn.LayerNorm, eps=%.9g))\n"
                "%s'%s'))\n",
                m->image, m->patch, m->classes, m->embed, m->layers, m->heads, m->mlp, m->eps, load,
                out);
  else
    mr_snprintf(code, MR_EXPORT_CODE,
                "import safetensors.numpy\n"
                "# Paths of nnx.state(model, nnx.Param), joined by dots, of the model with\n"
                "# image=%d patch=%d embed=%d mlp=%d heads=%d layers=%d classes=%d.\n"
                "parameters = safetensors.numpy.load_file('%s')\n",
                m->image, m->patch, m->embed, m->mlp, m->heads, m->layers, m->classes, out);
}

/* ---- all of it ---- */

static mr_err_t check_format(export_t *x, mr_diag_t *diag) {
  static const char *const name[] = {"timm", "flax", "hf", "torchvision"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (!strcmp(x->format, name[i])) return x->names = (mr__names_t)i, MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "export: format %s, want %s", x->format, mr_export_formats);
}

static mr_err_t export_open(export_t *x, const char *out, mr_export_t *made, mr_diag_t *diag) {
  char text[MR_MODEL_TEXT], quoted[2 * PATH_MAX + 1];
  bool averaged;
  MR_TRY(mr_train_state_model(x->path, text, diag));
  MR_TRY(mr_train_state_averaged(x->path, &averaged, diag));
  if (strlen(out) > PATH_MAX)
    return mr_fail(diag, MR_ERR_IO, "%.60s...: the path is too long", out);
  x->model = mr__vit_of(text), x->prefix = averaged ? "ema/" : "params/";
  if (!x->model.known)
    return mr_fail(diag, MR_ERR_USAGE,
                   "export: %s: its model is \"%.100s\", want a checkpoint of model=vit", x->path,
                   text);
  if (x->names == MR__NAMES_TORCHVISION && x->model.channels != 3)
    return mr_fail(diag, MR_ERR_USAGE,
                   "export: %s: its pictures have %d channels, and torchvision's model takes 3",
                   x->path, x->model.channels);
  MR_TRY(check_function(x, diag));
  MR_TRY(check_tensors(x, text, diag));
  MR_TRY(add_parameters(x, diag));
  const mr_st_meta_t meta[] = {{"format", "pt"}, {MR__EXPORTED, text}};
  MR_TRY(mr_safetensors_write(out, x->t, x->n, meta, 2, diag));
  made->tensors = x->n;
  for (int i = 0; i < x->n; i++) {
    const mr_aval_t a = mr_aval(x->t[i].dtype, x->t[i].ndim, x->t[i].dim);
    made->count += mr_aval_elems(&a);
  }
  quote_path(out, quoted);
  write_code(x, quoted, made->code);
  return MR_OK;
}

mr_err_t mr_train_export(const char *checkpoint, const char *format, const char *out,
                         mr_export_t *made, mr_diag_t *diag) {
  export_t x = {.path = checkpoint, .format = format};
  mr_safetensors_t *from = NULL;
  *made = (mr_export_t){0};
  MR_TRY(check_format(&x, diag));
  MR_TRY(mr_safetensors_open(checkpoint, &from, diag));
  x.from = from;
  mr_err_t e = export_open(&x, out, made, diag);
  for (int i = 0; i < x.n; i++) free((char *)x.t[i].name), free((void *)x.t[i].data);
  free(x.t);
  mr_safetensors_close(from);
  return e;
}
