/* How the parameters of a file become those of a model: each by timm's name of it
   (weight_names.h), so that the file may have any library's names and the model either style. */
#include "stages/train/from.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/safetensors.h"
#include "base/suggest.h"
#include "model/ir/element.h"
#include "stages/train/from_head.h"
#include "stages/train/patch_resize.h"
#include "stages/train/pos_embed.h"
#include "stages/train/weight_names.h"

enum { FROM_NAME = MR__WEIGHT_NAME };

typedef struct from {
  const mr_safetensors_t *file;
  const char *path, *prefix; /* before every name: "params/" */
  size_t skip;               /* characters of the names of the table that the file leaves out */
  mr__names_t names, ours;   /* whose names the file has, and the parameters */
  mr__vit_t there, here;     /* what the file and the model say of what they compute */
  mr__from_head_t head;
  const mr_st_tensor_t **used; /* [n_used] heap: those that parameters were taken from */
  int n_used;
} from_t;

static bool has_names_of(const mr_safetensors_t *f, const char *prefix) {
  for (int i = 0; i < mr_safetensors_count(f); i++)
    if (!strncmp(mr_safetensors_at(f, i)->name, prefix, strlen(prefix))) return true;
  return false;
}

static bool has_tensor(const mr_safetensors_t *f, const char *prefix, const char *name) {
  char all[FROM_NAME];
  return snprintf(all, sizeof all, "%s%s", prefix, name) < FROM_NAME && mr_safetensors_find(f, all);
}

/* Finds out who has written the file. */
static void recognise_names(from_t *from) {
  const mr_safetensors_t *f = from->file;
  const char *text = mr_safetensors_meta(f, "millrace.model");
  from->prefix = "";
  if (text) from->prefix = has_names_of(f, "ema/") ? "ema/" : "params/";
  from->there = mr__vit_of(text ? text : mr_safetensors_meta(f, MR__EXPORTED));
  from->names = MR__NAMES_OTHER;
  if (has_tensor(f, from->prefix, "patch_embed.proj.weight"))
    from->names = MR__NAMES_TIMM;
  else if (has_tensor(f, from->prefix, "patch_embed.conv_proj.kernel"))
    from->names = MR__NAMES_FLAX;
  else if (has_tensor(f, "vit.", "embeddings.cls_token"))
    from->names = MR__NAMES_HF;
  else if (has_tensor(f, "", "embeddings.cls_token"))
    from->names = MR__NAMES_HF, from->skip = strlen("vit.");
  else if (has_tensor(f, "", "class_token"))
    from->names = MR__NAMES_TORCHVISION;
  const char *of_5 = "vit.layers.0.layernorm_before.weight";
  if (from->names == MR__NAMES_HF && has_tensor(f, "", of_5 + from->skip))
    from->names = MR__NAMES_HF5;
}

/* How the file keeps a parameter, and how the model does; the same for names of no table.  Returns
   the part of timm's tensor that the parameter is. */
static int find_names(const from_t *from, const char *name, mr__weight_t *file,
                      mr__weight_t *model) {
  char timm[FROM_NAME];
  int part = -1;
  if (from->names != MR__NAMES_OTHER) part = mr__weight_timm(from->ours, name, timm);
  if (part < 0) snprintf(timm, sizeof timm, "%s", name);
  mr__weight_of(part < 0 ? MR__NAMES_OTHER : from->names, timm, file);
  mr__weight_of(part < 0 ? MR__NAMES_OTHER : from->ours, timm, model);
  for (int i = 0; i < file->n; i++) {
    size_t n = strlen(from->prefix), room = FROM_NAME - 1 - n;
    bool head = !strncmp(timm, "head.", 5); /* Hugging Face's stands outside of vit. */
    const char *rest = file->name[i] + (head ? 0 : from->skip);
    size_t length = strlen(rest) < room ? strlen(rest) : room;
    memmove(file->name[i] + n, rest, length);
    memcpy(file->name[i], from->prefix, n);
    file->name[i][n + length] = 0;
  }
  return part < 0 ? 0 : part;
}

static bool same_shape(const mr_st_tensor_t *t, const mr_aval_t *want) {
  return t->ndim == want->ndim && mr_is_float(t->dtype) &&
         !memcmp(t->dim, want->dim, (size_t)t->ndim * sizeof *t->dim);
}

static mr_err_t refuse_missing(const from_t *from, const mr_param_t *p, const char *theirs,
                               mr_diag_t *diag) {
  enum { SHOWN = 3 };
  const char *near[SHOWN] = {NULL};
  size_t distance[SHOWN];
  char text[3 * FROM_NAME] = "";
  for (int i = 0; i < mr_safetensors_count(from->file); i++) {
    const char *name = mr_safetensors_at(from->file, i)->name;
    size_t d = mr_edit_distance(theirs, name);
    int at = SHOWN;
    while (at > 0 && (!near[at - 1] || distance[at - 1] > d)) at--;
    if (at == SHOWN) continue;
    memmove(near + at + 1, near + at, (size_t)(SHOWN - 1 - at) * sizeof *near);
    memmove(distance + at + 1, distance + at, (size_t)(SHOWN - 1 - at) * sizeof *distance);
    near[at] = name, distance[at] = d;
  }
  for (int i = 0; i < SHOWN && near[i]; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.200s", i ? ", " : "", near[i]);
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: has no %s for parameter %s; nearest are %s; want the weights of this "
                 "model, of another run or as timm, flax, Hugging Face or torchvision name them",
                 from->path, theirs, p->name, *text ? text : "none");
}

/* Fills positions from those of pictures of another size. */
static mr_err_t resize_positions(const mr_st_tensor_t *t, const mr_aval_t *was, mr_params_t *params,
                                 int i, int from, int to, mr_diag_t *diag) {
  const mr_param_set_t *set = mr_params_set(params, MR_SET_VALUES, 0);
  const mr__weight_t same = {.n = 1};
  size_t n = params->param[i].size;
  float *old = malloc((size_t)mr_aval_elems(was) * sizeof *old), *new = malloc(n * sizeof *new);
  mr_err_t e = old && new ? MR_OK : mr_no_memory(diag, "the interpolation of pos_embed");
  if (e >= 0) mr__weight_copy(was, &same, &t, &same, 0, MR_F32, old);
  if (e >= 0) e = mr__pos_embed_resize(old, from, new, to, (int)was->dim[2], diag);
  for (size_t k = 0; k < n && e >= 0; k++)
    mr_set_f64(set->dtype, mr_params_at(params, set, i), (int64_t)k, (double)new[k]);
  free(old), free(new);
  return e;
}

/* The side of the file's patches if t is a kernel (timm's shape: whole) for patches of another
   size; else 0. */
static int other_patch(const mr__weight_t *file, const mr_aval_t *whole, const mr_st_tensor_t *t) {
  enum { MOST = 1024 };
  mr_aval_t was = *whole;
  if (t->ndim != 4 || whole->ndim != 4) return 0;
  was.dim[2] = was.dim[3] = file->in ? t->dim[0] : t->dim[3];
  const mr_aval_t each = mr__weight_part(file, &was, 0);
  return was.dim[2] > 0 && was.dim[2] <= MOST && same_shape(t, &each) ? (int)was.dim[2] : 0;
}

/* Fills the kernel of a patch embedding from one for patches of that side. */
static mr_err_t resize_patch(const mr_st_tensor_t *t, const mr__weight_t *file, int side,
                             const mr__weight_t *model, const mr_aval_t *whole, mr_params_t *params,
                             int i, mr_diag_t *diag) {
  const mr_param_set_t *set = mr_params_set(params, MR_SET_VALUES, 0);
  const mr__weight_t timm = {.n = 1};
  const int64_t E = whole->dim[0], C = whole->dim[1], P = whole->dim[2];
  mr_aval_t was = *whole;
  was.dim[2] = was.dim[3] = side;
  float *old = malloc((size_t)mr_aval_elems(&was) * sizeof *old);
  float *new = malloc((size_t)mr_aval_elems(whole) * sizeof *new);
  mr_err_t e = old && new ? MR_OK : mr_no_memory(diag, "the kernel of patches of another size");
  if (e >= 0) mr__weight_copy(&was, file, &t, &timm, 0, MR_F32, old);
  if (e >= 0) e = mr__patch_resize(old, side, new, (int)P, E * C, diag);
  for (int64_t k = 0; k < E * C && e >= 0; k++)
    for (int64_t at = 0; at < P * P; at++)
      mr_set_f64(set->dtype, mr_params_at(params, set, i),
                 model->in ? (at * C + k % C) * E + k / C : k * P * P + at,
                 (double)new[k * P * P + at]);
  free(old), free(new);
  return e;
}

/* Fills parameter i of the head from the file's tensors, whose classes may be others. */
static mr_err_t fill_head(const from_t *from, mr_params_t *params, int i, const mr__weight_t *file,
                          const mr_st_tensor_t *const *t, const mr__weight_t *model,
                          mr_diag_t *diag) {
  const mr_param_t *p = &params->param[i];
  const mr_param_set_t *set = mr_params_set(params, MR_SET_VALUES, 0);
  void *to = mr_params_at(params, set, i);
  size_t each = mr_dtype_size(set->dtype), bytes = p->size * each;
  int axis = strcmp(p->name, "head.weight") ? p->aval.ndim - 1 : 0;
  void *drawn = malloc(bytes + 1);
  if (!drawn) return mr_no_memory(diag, "the head of another file");
  memcpy(drawn, to, bytes);
  mr_aval_t whole = mr__weight_whole(model, &p->aval);
  mr__weight_copy(&whole, file, t, model, 0, set->dtype, to);
  mr_err_t e = MR_OK;
  if (from->head.place && axis >= 0 && p->aval.dim[axis] == from->head.n)
    e = mr__from_head_order(&from->head, &p->aval, axis, each, drawn, to, diag);
  free(drawn);
  return e;
}

static mr_err_t fill_parameter(from_t *from, mr_params_t *params, int i, mr__from_t *said,
                               mr_diag_t *diag) {
  const mr_param_t *p = &params->param[i];
  const mr_param_set_t *set = mr_params_set(params, MR_SET_VALUES, 0);
  const mr_st_tensor_t *t[MR__WEIGHT_PARTS];
  char have[MR_AVAL_TEXT], want[MR_AVAL_TEXT];
  mr__weight_t file, model;
  int part = find_names(from, p->name, &file, &model), from_side, to_side;
  const mr_aval_t whole = mr__weight_whole(&model, &p->aval);
  const mr_aval_t each = mr__weight_part(&file, &whole, from->here.heads);
  bool head = !strncmp(p->name, "head.", 5), there = true, fits = true;
  for (int k = 0; k < file.n && there; k++)
    there = (t[k] = mr_safetensors_find(from->file, file.name[k])) != NULL;
  for (int k = 0; k < file.n && there; k++) fits = fits && same_shape(t[k], &each);
  for (int k = 0; k < file.n && there; k++) from->used[from->n_used++] = t[k];
  if (head && from->head.place && !from->head.known) return said->fresh_head = true, MR_OK;
  if (head && there && fits) return fill_head(from, params, i, &file, t, &model, diag);
  if (there && fits) {
    mr__weight_copy(&whole, &file, t, &model, part, set->dtype, mr_params_at(params, set, i));
    return MR_OK;
  }
  if (head) return said->fresh_head = true, MR_OK;
  if (!there) return refuse_missing(from, p, file.name[0], diag);
  const mr_aval_t a = mr_aval(t[0]->dtype, t[0]->ndim, t[0]->dim);
  bool positions = !strcmp(p->name, "pos_embed") && mr_is_float(a.dtype);
  if (positions && mr__pos_embed_grids(&a, &p->aval, &from_side, &to_side)) {
    said->from_side = from_side, said->to_side = to_side;
    return resize_positions(t[0], &a, params, i, from_side, to_side, diag);
  }
  bool patch = !strncmp(p->name, "patch_embed.", 12) && mr_is_float(a.dtype);
  if (patch && (said->from_patch = other_patch(&file, &whole, t[0])) > 0) {
    said->to_patch = (int)whole.dim[2];
    return resize_patch(t[0], &file, said->from_patch, &model, &whole, params, i, diag);
  }
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: %s is %s, and parameter %s is %s: want a model of the same sizes "
                 "(embed=, mlp=, heads=)",
                 from->path, file.name[0], mr_aval_text(&a, have), p->name,
                 mr_aval_text(&p->aval, want));
}

/* Writes the name of the same parameter of another layer; false if it is of no layer 0. */
static bool name_in_layer(const char *name, int layer, char other[FROM_NAME]) {
  const char *zero = strstr(name, "blocks.0.");
  if (!zero) return false;
  int before = (int)(zero - name) + (int)strlen("blocks.");
  return snprintf(other, FROM_NAME, "%.*s%d%s", before, name, layer, zero + strlen("blocks.0")) <
         FROM_NAME;
}

static bool has_parameter(const mr_params_t *params, const char *name) {
  for (int i = 0; i < params->n; i++)
    if (!strcmp(params->param[i].name, name)) return true;
  return false;
}

/* Layers that the file has and params do not would be left out. */
static mr_err_t refuse_more_layers(const from_t *from, const mr_params_t *params, mr_diag_t *diag) {
  char name[FROM_NAME];
  mr__weight_t theirs, model;
  int i = 0, here = 1;
  while (i < params->n && !name_in_layer(params->param[i].name, 0, name)) i++;
  if (i == params->n) return MR_OK;
  const char *first = params->param[i].name;
  while (name_in_layer(first, here, name) && has_parameter(params, name)) here++;
  int there = here;
  for (; name_in_layer(first, there, name); there++) {
    find_names(from, name, &theirs, &model);
    if (!mr_safetensors_find(from->file, theirs.name[0])) break;
  }
  if (there == here) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: has %d layers, and the model has layers=%d; want layers=%d", from->path,
                 there, here, there);
}

/* Other heads give tensors of the same shapes another meaning. */
static mr_err_t refuse_other_heads(const from_t *from, mr_diag_t *diag) {
  int there = from->there.heads, here = from->here.heads;
  if (!there || !here || there == here) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: its model has heads=%d, and this one has heads=%d; want heads=%d",
                 from->path, there, here, there);
}

/* So do another activation, normalization and epsilon.  Files of other libraries do not say theirs:
   their normalization shows in their tensors, and their activation is what the model here has, said
   in a notice if it is not the usual GELU: that of timm, Hugging Face and torchvision is by erf,
   flax's by tanh; epsilons differ from model to model, but flax's has one. */
static mr_err_t refuse_other_functions(const from_t *from, mr_diag_t *diag) {
  bool is_flax = from->names == MR__NAMES_FLAX;
  const mr__vit_t *here = &from->here;
  const bool known = from->there.known;
  bool erf = known ? from->there.erf : !is_flax, rms = known ? from->there.rms : here->rms;
  mr_activation_t does = known ? from->there.activation : here->activation;
  double eps = known ? from->there.eps : is_flax ? 1e-6 : here->eps;
  if (!here->known || from->names == MR__NAMES_OTHER) return MR_OK;
  if (!known && does != MR_ACTIVATION_GELU)
    mr_notice("from: %s does not say what the MLPs of its model compute: taken for this model's %s",
              from->path, mr_activation_name(does));
  if (does != here->activation)
    return mr_fail(diag, MR_ERR_DATA,
                   "from: %s: the MLPs of its model compute %s, and this one's %s; want "
                   "activation=%s",
                   from->path, mr_activation_name(does), mr_activation_name(here->activation),
                   mr_activation_name(does));
  if (rms != here->rms)
    return mr_fail(diag, MR_ERR_DATA,
                   "from: %s: its model has %s normalizations, and this one %s; want norm=%s",
                   from->path, rms ? "RMS" : "layer", here->rms ? "RMS" : "layer",
                   rms ? "rms" : "layer");
  if (does == MR_ACTIVATION_GELU && erf != here->erf)
    return mr_fail(diag, MR_ERR_DATA,
                   "from: %s: its model computes GELU by %s, and this one by %s; want gelu=%s",
                   from->path, erf ? "erf" : "tanh", here->erf ? "erf" : "tanh",
                   erf ? "erf" : "tanh");
  if ((float)eps == (float)here->eps) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: its normalizations add %.9g to the variance, and this model's "
                 "add %.9g; want ln-eps=%.9g",
                 from->path, eps, here->eps, eps);
}

static bool is_used(const from_t *from, const mr_st_tensor_t *t) {
  for (int i = 0; i < from->n_used; i++)
    if (from->used[i] == t) return true;
  return false;
}

/* Whether the model computes the same without a tensor: buffers, which are whole numbers, what
   Hugging Face has for other tasks, and where the head is drawn anew, the file's.  name: without
   the prefix. */
static bool is_needless(const mr_st_tensor_t *t, const char *name, bool fresh_head) {
  static const char *const other[] = {"vit.pooler.", "pooler.", "vit.embeddings.mask_token",
                                      "embeddings.mask_token", NULL};
  static const char *const head[] = {"head.", "heads.", "classifier.", "pre_logits.", NULL};
  if (!mr_is_float(t->dtype)) return true;
  for (const char *const *begin = other; *begin; begin++)
    if (!strncmp(name, *begin, strlen(*begin))) return true;
  for (const char *const *begin = head; *begin && fresh_head; begin++)
    if (!strncmp(name, *begin, strlen(*begin))) return true;
  return false;
}

/* Tensors that no parameter has taken belong to a model that computes something else. */
static mr_err_t refuse_unused(const from_t *from, bool fresh_head, mr_diag_t *diag) {
  size_t n = strlen(from->prefix);
  for (int i = 0; i < mr_safetensors_count(from->file); i++) {
    const mr_st_tensor_t *t = mr_safetensors_at(from->file, i);
    if (strncmp(t->name, from->prefix, n) || is_used(from, t)) continue;
    if (is_needless(t, t->name + n, fresh_head)) continue;
    return mr_fail(
        diag, MR_ERR_DATA,
        "from: %s: has %s, which is no parameter of this model, so that its own computes "
        "something else; want the weights of a model without it",
        from->path, t->name);
  }
  return MR_OK;
}

/* Biases that the file has and the model does not would be left out. */
static mr_err_t refuse_biases(const from_t *from, const mr_params_t *params, mr_diag_t *diag) {
  mr__weight_t file, model;
  if (!from->here.known || !params->n || from->here.qkv_bias) return MR_OK;
  find_names(from, "blocks.0.attn.qkv.bias", &file, &model);
  if (!mr_safetensors_find(from->file, file.name[0])) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: has %s, and the model has qkv-bias=false; want qkv-bias=true",
                 from->path, file.name[0]);
}

mr_err_t mr__train_from(const char *path, const char *model, const mr_field_t *truth,
                        mr_params_t *params, mr__from_t *said, mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  *said = (mr__from_t){0};
  MR_TRY(mr_safetensors_open(path, &f, diag));
  from_t from = {.file = f, .path = path, .here = mr__vit_of(model)};
  from.ours = from.here.known ? from.here.style : MR__NAMES_OTHER;
  recognise_names(&from);
  if (!from.here.known) from.names = MR__NAMES_OTHER;
  mr_diag_t why = {0};
  mr_err_t e = mr__from_head_open(path, truth, &from.head, &why);
  if (e < 0) e = mr_diag_prefix(diag, e, &why, "from");
  if (e >= 0) e = refuse_other_heads(&from, diag);
  if (e >= 0) e = refuse_other_functions(&from, diag);
  if (e >= 0) e = refuse_biases(&from, params, diag);
  if (e >= 0) e = refuse_more_layers(&from, params, diag);
  from.used = malloc((size_t)(params->n * MR__WEIGHT_PARTS + 1) * sizeof *from.used);
  if (e >= 0 && !from.used) e = mr_no_memory(diag, "the parameters of another file");
  for (int i = 0; i < params->n && e >= 0; i++) e = fill_parameter(&from, params, i, said, diag);
  if (e >= 0) e = refuse_unused(&from, said->fresh_head, diag);
  said->unnamed = from.head.unnamed && !said->fresh_head;
  said->known = from.head.place && !said->fresh_head ? from.head.known : 0;
  said->classes = from.head.n;
  mr__from_head_fini(&from.head);
  free(from.used);
  mr_safetensors_close(f);
  return e;
}
