/* A row of the table has timm's name and another library's; # stands for the number of a block.
   Names that end with a dot continue with "weight" or "bias"; `weight` is what the other library
   calls the first. */
#include "stages/train/weight_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/ir/element.h"

typedef struct weight_row {
  const char *timm, *theirs[MR__WEIGHT_PARTS]; /* NULL-ended unless all are used */
  const char *weight;                          /* NULL: "weight" */
  int in;                                      /* of its weight, as mr__weight_t's */
  bool heads;
} weight_row_t;

/* The recipe's model in flax.nnx. */
static const weight_row_t flax[] = {
    {"cls_token", {"cls_token"}, NULL, 0, false},
    {"pos_embed", {"pos_embed"}, NULL, 0, false},
    {"patch_embed.proj.", {"patch_embed.conv_proj."}, "kernel", 3, false},
    {"blocks.#.norm1.", {"encoder_blocks.#.norm1."}, "scale", 0, false},
    {"blocks.#.attn.qkv.",
     {"encoder_blocks.#.attn.query.", "encoder_blocks.#.attn.key.", "encoder_blocks.#.attn.value."},
     "kernel",
     1,
     true},
    {"blocks.#.attn.proj.", {"encoder_blocks.#.attn.out."}, "kernel", 2, true},
    {"blocks.#.norm2.", {"encoder_blocks.#.norm2."}, "scale", 0, false},
    {"blocks.#.mlp.fc1.", {"encoder_blocks.#.linear1."}, "kernel", 1, false},
    {"blocks.#.mlp.fc2.", {"encoder_blocks.#.linear2."}, "kernel", 1, false},
    {"norm.", {"norm."}, "scale", 0, false},
    {"head.", {"head."}, "kernel", 1, false},
    {0}};

static const weight_row_t hugging_face[] = {
    {"cls_token", {"vit.embeddings.cls_token"}, NULL, 0, false},
    {"pos_embed", {"vit.embeddings.position_embeddings"}, NULL, 0, false},
    {"patch_embed.proj.", {"vit.embeddings.patch_embeddings.projection."}, NULL, 0, false},
    {"blocks.#.norm1.", {"vit.encoder.layer.#.layernorm_before."}, NULL, 0, false},
    {"blocks.#.attn.qkv.",
     {"vit.encoder.layer.#.attention.attention.query.",
      "vit.encoder.layer.#.attention.attention.key.",
      "vit.encoder.layer.#.attention.attention.value."},
     NULL,
     0,
     false},
    {"blocks.#.attn.proj.", {"vit.encoder.layer.#.attention.output.dense."}, NULL, 0, false},
    {"blocks.#.norm2.", {"vit.encoder.layer.#.layernorm_after."}, NULL, 0, false},
    {"blocks.#.mlp.fc1.", {"vit.encoder.layer.#.intermediate.dense."}, NULL, 0, false},
    {"blocks.#.mlp.fc2.", {"vit.encoder.layer.#.output.dense."}, NULL, 0, false},
    {"norm.", {"vit.layernorm."}, NULL, 0, false},
    {"head.", {"classifier."}, NULL, 0, false},
    {0}};

static const weight_row_t hugging_face_5[] = {
    {"cls_token", {"vit.embeddings.cls_token"}, NULL, 0, false},
    {"pos_embed", {"vit.embeddings.position_embeddings"}, NULL, 0, false},
    {"patch_embed.proj.", {"vit.embeddings.patch_embeddings.projection."}, NULL, 0, false},
    {"blocks.#.norm1.", {"vit.layers.#.layernorm_before."}, NULL, 0, false},
    {"blocks.#.attn.qkv.",
     {"vit.layers.#.attention.q_proj.", "vit.layers.#.attention.k_proj.",
      "vit.layers.#.attention.v_proj."},
     NULL,
     0,
     false},
    {"blocks.#.attn.proj.", {"vit.layers.#.attention.o_proj."}, NULL, 0, false},
    {"blocks.#.norm2.", {"vit.layers.#.layernorm_after."}, NULL, 0, false},
    {"blocks.#.mlp.fc1.", {"vit.layers.#.mlp.fc1."}, NULL, 0, false},
    {"blocks.#.mlp.fc2.", {"vit.layers.#.mlp.fc2."}, NULL, 0, false},
    {"norm.", {"vit.layernorm."}, NULL, 0, false},
    {"head.", {"classifier."}, NULL, 0, false},
    {0}};

static const weight_row_t torchvision[] = {
    {"cls_token", {"class_token"}, NULL, 0, false},
    {"pos_embed", {"encoder.pos_embedding"}, NULL, 0, false},
    {"patch_embed.proj.", {"conv_proj."}, NULL, 0, false},
    {"blocks.#.norm1.", {"encoder.layers.encoder_layer_#.ln_1."}, NULL, 0, false},
    {"blocks.#.attn.qkv.",
     {"encoder.layers.encoder_layer_#.self_attention.in_proj_"},
     NULL,
     0,
     false},
    {"blocks.#.attn.proj.",
     {"encoder.layers.encoder_layer_#.self_attention.out_proj."},
     NULL,
     0,
     false},
    {"blocks.#.norm2.", {"encoder.layers.encoder_layer_#.ln_2."}, NULL, 0, false},
    {"blocks.#.mlp.fc1.", {"encoder.layers.encoder_layer_#.mlp.0."}, NULL, 0, false},
    {"blocks.#.mlp.fc2.", {"encoder.layers.encoder_layer_#.mlp.3."}, NULL, 0, false},
    {"norm.", {"encoder.ln."}, NULL, 0, false},
    {"head.", {"heads.head."}, NULL, 0, false},
    {0}};

/* The rows of a library; NULL: its names are timm's, or of no model here. */
static const weight_row_t *library_rows(mr__names_t of) {
  return of == MR__NAMES_FLAX          ? flax
         : of == MR__NAMES_HF          ? hugging_face
         : of == MR__NAMES_HF5         ? hugging_face_5
         : of == MR__NAMES_TORCHVISION ? torchvision
                                       : NULL;
}

/* Whether a name begins as a pattern says; *number is that of its block, *rest what follows. */
static bool begins_as(const char *name, const char *pattern, int *number, const char **rest) {
  *number = 0;
  for (; *pattern; pattern++) {
    if (*pattern != '#') {
      if (*name++ != *pattern) return false;
      continue;
    }
    if (!isdigit((unsigned char)*name)) return false;
    for (*number = 0; isdigit((unsigned char)*name) && *number < 100000; name++)
      *number = 10 * *number + (*name - '0');
  }
  *rest = name;
  return true;
}

/* Writes a pattern with a block's number and what follows it. */
static void write_name(const char *pattern, int number, const char *rest, char *to) {
  const char *mark = strchr(pattern, '#');
  if (mark)
    snprintf(to, MR__WEIGHT_NAME, "%.*s%d%s%s", (int)(mark - pattern), pattern, number, mark + 1,
             rest);
  else
    snprintf(to, MR__WEIGHT_NAME, "%s%s", pattern, rest);
}

void mr__weight_of(mr__names_t of, const char *name, mr__weight_t *out) {
  *out = (mr__weight_t){.n = 1};
  for (const weight_row_t *r = library_rows(of); r && r->timm; r++) {
    const char *rest;
    int number, n = 0;
    if (!begins_as(name, r->timm, &number, &rest)) continue;
    bool weight = !strcmp(rest, "weight");
    for (; n < MR__WEIGHT_PARTS && r->theirs[n]; n++)
      write_name(r->theirs[n], number, weight && r->weight ? r->weight : rest, out->name[n]);
    out->n = n, out->in = weight ? r->in : 0;
    out->heads = r->heads && (weight || n > 1);
    return;
  }
  snprintf(out->name[0], MR__WEIGHT_NAME, "%s", name);
}

int mr__weight_timm(mr__names_t of, const char *name, char *timm) {
  snprintf(timm, MR__WEIGHT_NAME, "%s", name);
  if (of == MR__NAMES_TIMM) return 0;
  for (const weight_row_t *r = library_rows(of); r && r->timm; r++)
    for (int n = 0; n < MR__WEIGHT_PARTS && r->theirs[n]; n++) {
      const char *rest;
      int number;
      if (!begins_as(name, r->theirs[n], &number, &rest)) continue;
      bool weight = r->weight && !strcmp(rest, r->weight);
      write_name(r->timm, number, weight ? "weight" : rest, timm);
      return n;
    }
  return -1;
}

/* ---- shapes ---- */

static int64_t count_dims(const mr_aval_t *a, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; d++) n *= a->dim[d];
  return n;
}

mr_aval_t mr__weight_whole(const mr__weight_t *w, const mr_aval_t *part) {
  const mr_aval_t *p = part;
  if (!w->in && !w->heads) {
    mr_aval_t whole = *p;
    if (w->n > 1) whole.dim[0] *= w->n;
    return whole;
  }
  if (!w->in) return mr_aval_of(p->dtype, w->n * count_dims(p, 0, p->ndim));
  if (w->in == 3) return mr_aval_of(p->dtype, p->dim[3], p->dim[2], p->dim[0], p->dim[1]);
  return mr_aval_of(p->dtype, w->n * count_dims(p, w->in, p->ndim), count_dims(p, 0, w->in));
}

mr_aval_t mr__weight_part(const mr__weight_t *w, const mr_aval_t *whole, int heads) {
  mr_aval_t part = *whole;
  int64_t h = heads > 0 ? heads : 1, rows = whole->ndim ? whole->dim[0] / w->n : 1;
  if (!w->in && !w->heads) {
    if (w->n > 1) part.dim[0] = rows;
    return part;
  }
  if (!w->in) return mr_aval_of(part.dtype, h, rows / h);
  if (w->in == 3)
    return mr_aval_of(part.dtype, whole->dim[2], whole->dim[3], whole->dim[1], whole->dim[0]);
  int64_t columns = whole->dim[1];
  if (w->in == 2) return mr_aval_of(part.dtype, h, columns / h, rows);
  return w->heads ? mr_aval_of(part.dtype, columns, h, rows / h)
                  : mr_aval_of(part.dtype, columns, rows);
}

bool mr__weight_fits(const mr__weight_t *w, const mr_aval_t *whole, int heads) {
  bool none = false;
  for (int d = 0; d < whole->ndim; d++) none |= whole->dim[d] < 1;
  if (none || mr_aval_wrong(whole)) return false;
  if (w->in && whole->ndim != (w->in == 3 ? 4 : 2)) return false;
  if (!w->in && w->heads && whole->ndim != 1) return false;
  if (w->n > 1 && (whole->ndim < 1 || whole->dim[0] % w->n)) return false;
  if (!w->heads) return true;
  return heads > 0 && (w->in == 2 ? whole->dim[1] : whole->dim[0] / w->n) % heads == 0;
}

/* ---- values ---- */

/* The place of row r and column c in a tensor of `rows` rows.  A convolution's column is (channel,
   y, x) of timm's, and (y, x, channel) of flax's. */
static int64_t element_place(const mr__weight_t *w, const mr_aval_t *whole, int64_t rows, int64_t r,
                             int64_t c) {
  if (!w->in) return r * count_dims(whole, 1, whole->ndim) + c;
  if (w->in == 3) {
    int64_t pixels = whole->dim[2] * whole->dim[3];
    c = c % pixels * whole->dim[1] + c / pixels;
  }
  return c * rows + r;
}

static double value_at(const mr_st_tensor_t *t, int64_t at) {
  _Alignas(8) char one[8]; /* a file's data need not be aligned */
  size_t each = mr_dtype_size(t->dtype);
  memcpy(one, (const char *)t->data + (size_t)at * each, each);
  return mr_get_f64(t->dtype, one, 0);
}

void mr__weight_copy(const mr_aval_t *whole, const mr__weight_t *from,
                     const mr_st_tensor_t *const *t, const mr__weight_t *to, int part,
                     mr_dtype_t dtype, void *at) {
  int64_t all = whole->ndim ? whole->dim[0] : 1, rows = all / to->n, each = all / from->n;
  int64_t columns = count_dims(whole, 1, whole->ndim);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) {
      int64_t row = part * rows + r;
      double v = value_at(t[row / each], element_place(from, whole, each, row % each, c));
      mr_set_f64(dtype, at, element_place(to, whole, rows, r, c), v);
    }
}

/* ---- what a model's text says ---- */

/* The value of a word NAME=VALUE; NULL: it is missing. */
static const char *word_of(const char *text, const char *name) {
  size_t n = strlen(name);
  for (const char *at = text; (at = strchr(at, ' ')); at++)
    if (!strncmp(at + 1, name, n) && at[1 + n] == '=') return at + n + 2;
  return NULL;
}

static int word_number(const char *text, const char *name) {
  const char *at = word_of(text, name);
  return at ? atoi(at) : 0;
}

mr__vit_t mr__vit_of(const char *text) {
  mr__vit_t v = {0};
  if (!text || strncmp(text, "vit ", 4)) return v;
  bool is_flax = !strncmp(text + 4, "flax ", 5);
  const char *bias = word_of(text, "qkv-bias"), *gelu = word_of(text, "gelu"),
             *eps = word_of(text, "ln-eps");
  v.known = true;
  v.style = is_flax ? MR__NAMES_FLAX : MR__NAMES_TIMM;
  v.image = word_number(text, "image"), v.patch = word_number(text, "patch");
  v.channels = word_number(text, "channels"), v.embed = word_number(text, "embed");
  v.mlp = word_number(text, "mlp"), v.heads = word_number(text, "heads");
  v.layers = word_number(text, "layers"), v.classes = word_number(text, "classes");
  v.qkv_bias = !bias || strncmp(bias, "false", 5) != 0;
  v.erf = gelu ? !strncmp(gelu, "erf", 3) : !is_flax;
  v.eps = eps ? mr_strtod(eps, NULL) : is_flax ? 1e-6 : 1e-5;
  const char *norm = word_of(text, "norm"), *act = word_of(text, "activation");
  v.rms = norm && !strncmp(norm, "rms", 3);
  for (int i = 0; act && i < MR_ACTIVATIONS; i++) {
    const char *name = mr_activation_name((mr_activation_t)i);
    if (strlen(name) == strcspn(act, " ") && !strncmp(act, name, strlen(name)))
      v.activation = (mr_activation_t)i;
  }
  return v;
}
