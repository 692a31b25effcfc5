/* Names of others are a table: a row has our name, of style=timm, and theirs; # stands for the
   number of a block.  What we keep as one tensor, qkv, others may keep as three, which lie in it
   one after the other. */
#include "stages/train/from.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/safetensors.h"
#include "base/suggest.h"
#include "model/ir/element.h"

enum { PARTS = 3, FROM_NAME = 256 };

typedef struct from_row {
  const char *ours, *theirs[PARTS]; /* NULL-ended unless all are used */
} from_row_t;

static const from_row_t hugging_face[] = {
    {"cls_token", {"embeddings.cls_token"}},
    {"pos_embed", {"embeddings.position_embeddings"}},
    {"patch_embed.proj.", {"embeddings.patch_embeddings.projection."}},
    {"blocks.#.norm1.", {"encoder.layer.#.layernorm_before."}},
    {"blocks.#.attn.qkv.",
     {"encoder.layer.#.attention.attention.query.", "encoder.layer.#.attention.attention.key.",
      "encoder.layer.#.attention.attention.value."}},
    {"blocks.#.attn.proj.", {"encoder.layer.#.attention.output.dense."}},
    {"blocks.#.norm2.", {"encoder.layer.#.layernorm_after."}},
    {"blocks.#.mlp.fc1.", {"encoder.layer.#.intermediate.dense."}},
    {"blocks.#.mlp.fc2.", {"encoder.layer.#.output.dense."}},
    {"norm.", {"layernorm."}},
    {"head.", {"classifier."}},
    {0}};

static const from_row_t torchvision[] = {
    {"cls_token", {"class_token"}},
    {"pos_embed", {"encoder.pos_embedding"}},
    {"patch_embed.proj.", {"conv_proj."}},
    {"blocks.#.norm1.", {"encoder.layers.encoder_layer_#.ln_1."}},
    {"blocks.#.attn.qkv.", {"encoder.layers.encoder_layer_#.self_attention.in_proj_"}},
    {"blocks.#.attn.proj.", {"encoder.layers.encoder_layer_#.self_attention.out_proj."}},
    {"blocks.#.norm2.", {"encoder.layers.encoder_layer_#.ln_2."}},
    {"blocks.#.mlp.fc1.", {"encoder.layers.encoder_layer_#.mlp.0."}},
    {"blocks.#.mlp.fc2.", {"encoder.layers.encoder_layer_#.mlp.3."}},
    {"norm.", {"encoder.ln."}},
    {"head.", {"heads.head."}},
    {0}};

typedef struct from {
  const mr_safetensors_t *file;
  const char *path, *prefix; /* before every name: "params/", "vit." */
  const from_row_t *map;     /* NULL: their names are ours */
} from_t;

static bool has_names_of(const mr_safetensors_t *f, const char *prefix) {
  for (int i = 0; i < mr_safetensors_count(f); i++)
    if (!strncmp(mr_safetensors_at(f, i)->name, prefix, strlen(prefix))) return true;
  return false;
}

/* Finds out who has written the file. */
static from_t recognise_names(const mr_safetensors_t *f, const char *path) {
  from_t from = {.file = f, .path = path, .prefix = ""};
  if (mr_safetensors_meta(f, "millrace.model"))
    from.prefix = has_names_of(f, "ema/") ? "ema/" : "params/";
  else if (mr_safetensors_find(f, "vit.embeddings.cls_token"))
    from.prefix = "vit.", from.map = hugging_face;
  else if (mr_safetensors_find(f, "embeddings.cls_token"))
    from.map = hugging_face;
  else if (mr_safetensors_find(f, "class_token"))
    from.map = torchvision;
  return from;
}

/* Whether a name begins as a row says; *number is that of its block, *rest what follows. */
static bool is_of_row(const char *name, const char *ours, int *number, const char **rest) {
  *number = 0;
  for (; *ours; ours++) {
    if (*ours != '#') {
      if (*name++ != *ours) return false;
      continue;
    }
    if (!isdigit((unsigned char)*name)) return false;
    for (*number = 0; isdigit((unsigned char)*name) && *number < 100000; name++)
      *number = 10 * *number + (*name - '0');
  }
  *rest = name;
  return true;
}

/* Writes the file's names of a parameter into theirs[PARTS]; returns how many tensors it is. */
static int names_in_file(const from_t *from, const char *name, char theirs[PARTS][FROM_NAME]) {
  for (const from_row_t *r = from->map; r && r->ours; r++) {
    const char *rest;
    int number, n = 0;
    if (!is_of_row(name, r->ours, &number, &rest)) continue;
    for (; n < PARTS && r->theirs[n]; n++) {
      const char *mark = strchr(r->theirs[n], '#');
      bool head = !strcmp(r->ours, "head."); /* Hugging Face's stands outside of vit. */
      int k = snprintf(theirs[n], FROM_NAME, "%s", head ? "" : from->prefix);
      if (mark)
        snprintf(theirs[n] + k, (size_t)(FROM_NAME - k), "%.*s%d%s%s", (int)(mark - r->theirs[n]),
                 r->theirs[n], number, mark + 1, rest);
      else
        snprintf(theirs[n] + k, (size_t)(FROM_NAME - k), "%s%s", r->theirs[n], rest);
    }
    return n;
  }
  snprintf(theirs[0], FROM_NAME, "%s%s", from->prefix, name);
  return 1;
}

/* The tensors in t[n] have the shape of p together, along dimension 0. */
static bool tensors_fit(const mr_param_t *p, const mr_st_tensor_t *const *t, int n) {
  int64_t rows = 0;
  for (int i = 0; i < n; i++) {
    if (t[i]->ndim != p->aval.ndim || !mr_is_float(t[i]->dtype)) return false;
    for (int d = 1; d < p->aval.ndim; d++)
      if (t[i]->dim[d] != p->aval.dim[d]) return false;
    rows += p->aval.ndim ? t[i]->dim[0] : 1;
  }
  return rows == (p->aval.ndim ? p->aval.dim[0] : 1);
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
                 "model, and style=timm for those of timm, Hugging Face and torchvision",
                 from->path, theirs, p->name, *text ? text : "none");
}

/* Copies n tensors, one after the other, to parameter i. */
static void copy_values(mr_params_t *params, int i, const mr_st_tensor_t *const *t, int n) {
  const mr_param_set_t *to = mr_params_set(params, MR_SET_VALUES, 0);
  char *at = mr_params_at(params, to, i);
  size_t k = 0;
  for (int part = 0; part < n; part++) {
    const mr_aval_t a = mr_aval(t[part]->dtype, t[part]->ndim, t[part]->dim);
    size_t each = mr_dtype_size(a.dtype);
    for (int64_t e = 0; e < mr_aval_elems(&a); e++, k++) {
      _Alignas(8) char one[8]; /* a file's data need not be aligned */
      memcpy(one, (const char *)t[part]->data + (size_t)e * each, each);
      mr_set_f64(to->dtype, at, (int64_t)k, mr_get_f64(a.dtype, one, 0));
    }
  }
}

static mr_err_t fill_parameter(const from_t *from, mr_params_t *params, int i, bool *fresh,
                               mr_diag_t *diag) {
  const mr_param_t *p = &params->param[i];
  const mr_st_tensor_t *t[PARTS];
  char theirs[PARTS][FROM_NAME], have[MR_AVAL_TEXT], want[MR_AVAL_TEXT];
  int n = names_in_file(from, p->name, theirs);
  bool head = !strncmp(p->name, "head.", 5), there = true;
  for (int k = 0; k < n && there; k++)
    there = (t[k] = mr_safetensors_find(from->file, theirs[k])) != NULL;
  if (there && tensors_fit(p, t, n)) return copy_values(params, i, t, n), MR_OK;
  if (head) return *fresh = true, MR_OK;
  if (!there) return refuse_missing(from, p, theirs[0], diag);
  const mr_aval_t a = mr_aval(t[0]->dtype, t[0]->ndim, t[0]->dim);
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: %s is %s, and parameter %s is %s: want a model of the same sizes "
                 "(embed=, mlp=, patch=, the size of pictures)",
                 from->path, theirs[0], mr_aval_text(&a, have), p->name,
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
  char name[FROM_NAME], theirs[PARTS][FROM_NAME];
  int i = 0, here = 1;
  while (i < params->n && !name_in_layer(params->param[i].name, 0, name)) i++;
  if (i == params->n) return MR_OK;
  const char *first = params->param[i].name;
  while (name_in_layer(first, here, name) && has_parameter(params, name)) here++;
  int there = here;
  for (; name_in_layer(first, there, name); there++) {
    names_in_file(from, name, theirs);
    if (!mr_safetensors_find(from->file, theirs[0])) break;
  }
  if (there == here) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: has %d layers, and the model has layers=%d; want layers=%d", from->path,
                 there, here, there);
}

/* The number of heads in a model's text; 0: it says none. */
static int heads_of(const char *model) {
  const char *at = model ? strstr(model, " heads=") : NULL;
  return at ? atoi(at + strlen(" heads=")) : 0;
}

/* Other heads give tensors of the same shapes another meaning. */
static mr_err_t refuse_other_heads(const from_t *from, const char *model, mr_diag_t *diag) {
  int there = heads_of(mr_safetensors_meta(from->file, "millrace.model")), here = heads_of(model);
  if (!there || !here || there == here) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "from: %s: its model has heads=%d, and this one has heads=%d; want heads=%d",
                 from->path, there, here, there);
}

mr_err_t mr__train_from(const char *path, const char *model, mr_params_t *params, bool *fresh,
                        mr_diag_t *diag) {
  mr_safetensors_t *f = NULL;
  *fresh = false;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  const from_t from = recognise_names(f, path);
  mr_err_t e = refuse_other_heads(&from, model, diag);
  if (e >= 0) e = refuse_more_layers(&from, params, diag);
  for (int i = 0; i < params->n && e >= 0; i++) e = fill_parameter(&from, params, i, fresh, diag);
  mr_safetensors_close(f);
  return e;
}
