/* Runs that begin with the parameters of a file, of another run and under the names of timm, flax,
   Hugging Face and torchvision, and files that are exported under these names.  A step of rate 0
   leaves parameters as they were read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/safetensors.h"
#include "stages/train/patch_resize.h"
#include "tests/apps/small_run.h"

#define GRAPH                                                                                      \
  "let run = unset\n"                                                                              \
  "synthetic name=data n=16 ! sequential seed=3 epochs=1 ! normalize preset=cifar10\n"             \
  "  ! batch 8 drop-remainder name=batches\n"                                                      \
  "  ! train-step name=train layers=2 embed=16 mlp=16 heads=2 style=timm steps=1 lr=0 threads=1\n" \
  "train.metrics ! progress\n"                                                                     \
  "train.metrics ! jsonl path=$run/metrics.jsonl\n"                                                \
  "train.state ! checkpoint dir=$run/checkpoints\n"

enum { TENSORS = 128, NAME = 200 };

static int make_folder(void **state) { return small_run("from", GRAPH); }

static const char *in_dir(const char *name) {
  static char text[4][160];
  static int turn;
  char *to = text[turn++ % 4];
  snprintf(to, sizeof text[0], "%s/%s", dir, name);
  return to;
}

static mr_safetensors_t *state_of(const char *run) {
  char path[192];
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  snprintf(path, sizeof path, "%s/checkpoints/latest", run);
  if (mr_safetensors_open(path, &f, &diag) < 0) fail_msg("%s", diag.text);
  return f;
}

/* ---- files under the names of others ---- */

typedef struct renamed {
  const char *ours, *theirs; /* beginnings; # is the number of a block */
} renamed_t;

static const renamed_t torchvision[] = {
    {"cls_token", "class_token"},
    {"pos_embed", "encoder.pos_embedding"},
    {"patch_embed.proj.", "conv_proj."},
    {"blocks.#.norm1.", "encoder.layers.encoder_layer_#.ln_1."},
    {"blocks.#.attn.qkv.", "encoder.layers.encoder_layer_#.self_attention.in_proj_"},
    {"blocks.#.attn.proj.", "encoder.layers.encoder_layer_#.self_attention.out_proj."},
    {"blocks.#.norm2.", "encoder.layers.encoder_layer_#.ln_2."},
    {"blocks.#.mlp.fc1.", "encoder.layers.encoder_layer_#.mlp.0."},
    {"blocks.#.mlp.fc2.", "encoder.layers.encoder_layer_#.mlp.3."},
    {"norm.", "encoder.ln."},
    {"head.", "heads.head."},
    {0}};

static const renamed_t hugging_face[] = {
    {"cls_token", "vit.embeddings.cls_token"},
    {"pos_embed", "vit.embeddings.position_embeddings"},
    {"patch_embed.proj.", "vit.embeddings.patch_embeddings.projection."},
    {"blocks.#.norm1.", "vit.encoder.layer.#.layernorm_before."},
    {"blocks.#.attn.proj.", "vit.encoder.layer.#.attention.output.dense."},
    {"blocks.#.norm2.", "vit.encoder.layer.#.layernorm_after."},
    {"blocks.#.mlp.fc1.", "vit.encoder.layer.#.intermediate.dense."},
    {"blocks.#.mlp.fc2.", "vit.encoder.layer.#.output.dense."},
    {"norm.", "vit.layernorm."},
    {"head.", "classifier."},
    {0}};

/* Those of a state_dict in transformers 5. */
static const renamed_t hugging_face_5[] = {
    {"cls_token", "vit.embeddings.cls_token"},
    {"pos_embed", "vit.embeddings.position_embeddings"},
    {"patch_embed.proj.", "vit.embeddings.patch_embeddings.projection."},
    {"blocks.#.norm1.", "vit.layers.#.layernorm_before."},
    {"blocks.#.attn.proj.", "vit.layers.#.attention.o_proj."},
    {"blocks.#.norm2.", "vit.layers.#.layernorm_after."},
    {"blocks.#.mlp.", "vit.layers.#.mlp."},
    {"norm.", "vit.layernorm."},
    {"head.", "classifier."},
    {0}};

/* What a name is called by rows; false if none has it. */
static bool rename_by(const renamed_t *row, const char *name, char *to) {
  for (; row && row->ours; row++)
    for (int block = 0; block < 2; block++) {
      char ours[NAME], theirs[NAME];
      const char *from[] = {row->ours, row->theirs};
      char *text[] = {ours, theirs};
      for (int i = 0; i < 2; i++) {
        const char *mark = strchr(from[i], '#');
        if (mark)
          snprintf(text[i], NAME, "%.*s%d%s", (int)(mark - from[i]), from[i], block, mark + 1);
        else
          snprintf(text[i], NAME, "%s", from[i]);
      }
      size_t n = strlen(ours);
      if (strncmp(name, ours, n)) continue;
      snprintf(to, NAME, "%s%s", theirs, name + n);
      return true;
    }
  return false;
}

/* Writes the parameters of a run's state as FILE; rows NULL: under their own names, as timm. */
static void write_as(const char *run, const renamed_t *rows, bool without_head, const char *path) {
  static mr_st_tensor_t t[TENSORS];
  static char name[TENSORS][NAME];
  mr_safetensors_t *f = state_of(run);
  mr_diag_t diag = {0};
  int n = 0;
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *x = mr_safetensors_at(f, i);
    const char *ours = x->name + 7;
    if (strncmp(x->name, "params/", 7) || (without_head && !strncmp(ours, "head.", 5))) continue;
    const char *qkv = strstr(ours, ".attn.qkv.");
    if ((rows == hugging_face || rows == hugging_face_5) && qkv) {
      static const char *const part[] = {
          "encoder.layer.%d.attention.attention.query.%s", "layers.%d.attention.q_proj.%s",
          "encoder.layer.%d.attention.attention.key.%s",   "layers.%d.attention.k_proj.%s",
          "encoder.layer.%d.attention.attention.value.%s", "layers.%d.attention.v_proj.%s"};
      size_t rows_each = (size_t)x->dim[0] / 3, bytes = rows_each * sizeof(float);
      for (int d = 1; d < x->ndim; d++) bytes *= (size_t)x->dim[d];
      for (int k = 0; k < 3; k++, n++) {
        t[n] = *x, t[n].dim[0] = (int64_t)rows_each, t[n].name = name[n];
        t[n].data = (const char *)x->data + (size_t)k * bytes;
        strcpy(name[n], "vit.");
        snprintf(name[n] + 4, NAME - 4, part[2 * k + (rows == hugging_face_5)], atoi(ours + 7),
                 qkv + 10);
      }
      continue;
    }
    if (!rows)
      snprintf(name[n], NAME, "%s", ours);
    else if (!rename_by(rows, ours, name[n]))
      fail_msg("no name for %s", ours);
    t[n] = *x, t[n].name = name[n], n++;
  }
  if (mr_safetensors_write(path, t, n, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

/* A run from that file ends with the parameters of `whole`; those that begin so may differ. */
static void expect_same(const char *from, const char *but) {
  char setting[192];
  snprintf(setting, sizeof setting, "from=%s", from);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "train.seed=77", setting);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  mr_safetensors_t *a = state_of(whole), *b = state_of(other);
  int n = 0;
  for (int i = 0; i < mr_safetensors_count(a); i++) {
    const mr_st_tensor_t *x = mr_safetensors_at(a, i), *y = mr_safetensors_find(b, x->name);
    size_t bytes = sizeof(float);
    if (strncmp(x->name, "params/", 7)) continue;
    assert_non_null(y);
    for (int d = 0; d < x->ndim; d++) bytes *= (size_t)x->dim[d];
    bool weight = strstr(x->name, "weight") != NULL, head = but && !strncmp(x->name + 7, but, 4);
    if (!head && memcmp(x->data, y->data, bytes)) fail_msg("%s: %s differs", from, x->name);
    if (head && weight && !memcmp(x->data, y->data, bytes)) fail_msg("%s is the same", x->name);
    n++;
  }
  assert_int_equal(n, 32);
  mr_safetensors_close(a), mr_safetensors_close(b);
  assert_int_equal(program_forget(other), 0);
}

static void a_run_begins_with_the_parameters_of_another(void **state) {
  char path[160];
  snprintf(path, sizeof path, "%s/checkpoints/latest", whole);
  expect_same(path, NULL);
  assert_non_null(strstr(p.err, "begins with the parameters of"));
}

static void names_of_timm_hugging_face_and_torchvision_are_known(void **state) {
  write_as(whole, NULL, false, in_dir("timm.safetensors"));
  expect_same(in_dir("timm.safetensors"), NULL);
  write_as(whole, torchvision, false, in_dir("torchvision.safetensors"));
  expect_same(in_dir("torchvision.safetensors"), NULL);
  write_as(whole, hugging_face, false, in_dir("hf.safetensors"));
  expect_same(in_dir("hf.safetensors"), NULL);
  write_as(whole, hugging_face_5, false, in_dir("hf5.safetensors"));
  expect_same(in_dir("hf5.safetensors"), NULL);
}

static void a_head_that_does_not_fit_begins_anew(void **state) {
  write_as(whole, hugging_face, true, in_dir("headless.safetensors"));
  expect_same(in_dir("headless.safetensors"), "head");
  assert_non_null(strstr(p.err, "its head does not fit the classes here and is drawn anew"));
}

/* ---- exported files ---- */

/* Whether the tensors of two files are equal, their names too. */
static bool same_tensors(const char *one, const char *other_file) {
  mr_safetensors_t *a = NULL, *b = NULL;
  mr_diag_t diag = {0};
  if (mr_safetensors_open(one, &a, &diag) < 0 || mr_safetensors_open(other_file, &b, &diag) < 0)
    fail_msg("%s", diag.text);
  bool same = mr_safetensors_count(a) == mr_safetensors_count(b) && mr_safetensors_count(a) > 0;
  for (int i = 0; i < mr_safetensors_count(a) && same; i++) {
    const mr_st_tensor_t *x = mr_safetensors_at(a, i), *y = mr_safetensors_find(b, x->name);
    size_t bytes = mr_dtype_size(x->dtype);
    for (int d = 0; d < x->ndim; d++) bytes *= (size_t)x->dim[d];
    same = y && x->dtype == y->dtype && x->ndim == y->ndim &&
           !memcmp(x->dim, y->dim, (size_t)x->ndim * sizeof *x->dim) &&
           !memcmp(x->data, y->data, bytes);
  }
  mr_safetensors_close(a), mr_safetensors_close(b);
  return same;
}

static void must_export(const char *run, const char *format, const char *path) {
  RUN(&p, "export", run, "--format", format, "--out", path);
  if (p.status) fail_msg("%s%s", p.out, p.err);
}

static void exported_weights_are_read_again_under_every_name(void **state) {
  static const char *const format[] = {"timm", "hf", "torchvision"};
  for (int i = 0; i < 3; i++) {
    must_export(whole, format[i], in_dir("out.safetensors"));
    assert_non_null(strstr(p.out, "out.safetensors'))"));
    expect_same(in_dir("out.safetensors"), NULL);
  }
  write_as(whole, NULL, false, in_dir("timm.safetensors"));
  must_export(whole, "timm", in_dir("out.safetensors"));
  assert_true(same_tensors(in_dir("timm.safetensors"), in_dir("out.safetensors")));
}

/* A run of the other style that computes the same; weights that go there and back are the same. */
static void styles_become_each_other_where_they_compute_the_same(void **state) {
  char from[192], flax_run[128];
  snprintf(from, sizeof from, "from=%s/checkpoints/latest", whole);
  snprintf(flax_run, sizeof flax_run, "%s-flax", other);
  RUN(&p, "train", "--graph", file, "--run-dir", flax_run, "style=flax", "gelu=erf", "ln-eps=1e-5",
      "train.seed=5", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  must_export(whole, "hf", in_dir("a.safetensors"));
  must_export(flax_run, "hf", in_dir("b.safetensors"));
  assert_true(same_tensors(in_dir("a.safetensors"), in_dir("b.safetensors")));
  snprintf(from, sizeof from, "%s/checkpoints/latest", flax_run);
  expect_same(from, NULL);
  RUN(&p, "export", flax_run, "--format", "flax", "--out", in_dir("c.safetensors"));
  assert_non_null(strstr(p.err, "its GELU is by erf, which the model of format flax does not"));
  assert_non_null(strstr(p.err, "train with gelu=tanh"));
  assert_int_equal(program_forget(flax_run), 0);
}

/* timm's names say nothing of an activation. */
static void a_file_that_does_not_say_its_activation_has_the_models(void **state) {
  char from[192];
  write_as(whole, NULL, false, in_dir("timm.safetensors"));
  snprintf(from, sizeof from, "from=%s", in_dir("timm.safetensors"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "activation=quick-gelu", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_non_null(strstr(p.err,
                         "does not say what the MLPs of its model compute: taken for this "
                         "model's quick-gelu"));
  assert_int_equal(program_forget(other), 0);
}

static void another_function_is_refused(void **state) {
  char from[192];
  snprintf(from, sizeof from, "from=%s/checkpoints/latest", whole);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "style=flax", from);
  assert_non_null(strstr(p.err, "computes GELU by erf, and this one by tanh; want gelu=erf"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "style=flax", "gelu=erf", from);
  assert_non_null(strstr(p.err,
                         "add 1e-05 to the variance, and this model's add 1e-06; want "
                         "ln-eps=1e-05"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "qkv-bias=false", from);
  assert_non_null(strstr(p.err, "the model has qkv-bias=false; want qkv-bias=true"));
}

static void positions_of_another_size_are_interpolated(void **state) {
  static char text[sizeof GRAPH + 32], path[160], from[192];
  const char *at = strstr(GRAPH, "! normalize");
  snprintf(text, sizeof text, "%.*s! resize 48x48 %s", (int)(at - GRAPH), GRAPH, at);
  snprintf(path, sizeof path, "%s/larger.mr", dir);
  snprintf(from, sizeof from, "from=%s/checkpoints/latest", whole);
  assert_int_equal(mr_write_file(path, text, strlen(text), NULL), MR_OK);
  RUN(&p, "train", "--graph", path, "--run-dir", other, from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_non_null(strstr(p.err, "its positions are interpolated from 8x8 to 12x12 patches"));
  assert_int_equal(program_forget(other), 0);
}

/* In both styles, and with the positions of the fewer patches. */
static void kernels_for_patches_of_another_size_are_resampled(void **state) {
  char from[192];
  snprintf(from, sizeof from, "from=%s/checkpoints/latest", whole);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "patch=8", from);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  assert_non_null(strstr(p.err,
                         "its kernel for patches of 4 pixels is resampled for 8; its positions are "
                         "interpolated from 8x8 to 4x4 patches"));
  must_export(other, "timm", in_dir("a.safetensors"));
  assert_int_equal(program_forget(other), 0);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "patch=8", from, "style=flax", "gelu=erf",
      "ln-eps=1e-5");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  must_export(other, "timm", in_dir("b.safetensors"));
  assert_int_equal(program_forget(other), 0);
  assert_true(same_tensors(in_dir("a.safetensors"), in_dir("b.safetensors")));
  must_export(whole, "timm", in_dir("c.safetensors"));
  mr_safetensors_t *was = NULL, *now = NULL;
  assert_int_equal(mr_safetensors_open(in_dir("c.safetensors"), &was, NULL), MR_OK);
  assert_int_equal(mr_safetensors_open(in_dir("a.safetensors"), &now, NULL), MR_OK);
  const mr_st_tensor_t *old = mr_safetensors_find(was, "patch_embed.proj.weight");
  const mr_st_tensor_t *new = mr_safetensors_find(now, "patch_embed.proj.weight");
  static float want[16 * 3 * 8 * 8];
  assert_int_equal(mr__patch_resize(old->data, 4, want, 8, 16 * 3, NULL), MR_OK);
  assert_memory_equal(new->data, want, sizeof want);
  mr_safetensors_close(was), mr_safetensors_close(now);
}

/* ---- checkpoints that are not what their text says ---- */

/* Writes the parameters of a run's state with one tensor as *as, of its data; as->ndim -1: without
   it; with another text if it is set. */
static void write_changed(const char *run, const char *text, const mr_st_tensor_t *as,
                          const char *path) {
  static mr_st_tensor_t t[TENSORS];
  static const float zeros[4096];
  mr_safetensors_t *f = state_of(run);
  mr_diag_t diag = {0};
  int n = 0, found = 0;
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    const mr_st_tensor_t *x = mr_safetensors_at(f, i);
    if (strncmp(x->name, "params/", 7)) continue;
    t[n] = *x;
    if (as && !strcmp(x->name, as->name)) t[n] = *as, t[n].data = zeros, found = 1;
    n += t[n].ndim >= 0;
  }
  if (as && !found) t[n] = *as, t[n].data = zeros, n++;
  const mr_st_meta_t meta[] = {
      {"millrace.model", text ? text : mr_safetensors_meta(f, "millrace.model")}};
  if (mr_safetensors_write(path, t, n, meta, 1, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

static void expect_no_export(const char *says) {
  static const char *const format[] = {"timm", "hf", "torchvision", "flax"};
  for (int i = 0; i < 4; i++) {
    unlink(in_dir("out.safetensors"));
    RUN(&p, "export", in_dir("changed.safetensors"), "--format", format[i], "--out",
        in_dir("out.safetensors"));
    bool other_function = strstr(p.err, "does not compute") != NULL;
    if (!p.status || p.status > 127 || (!other_function && !strstr(p.err, says)))
      fail_msg("%s, status %d, want %s: %s", format[i], p.status, says, p.err);
    assert_int_not_equal(access(in_dir("out.safetensors"), F_OK), 0);
  }
}

#define QKV "params/blocks.0.attn.qkv."
#define PATCH "params/patch_embed.proj.weight"
#define ATTN "params/encoder_blocks.0.attn."

static void tensors_that_are_not_the_models_are_not_exported(void **state) {
  static const struct {
    bool flax;
    mr_st_tensor_t as;
    const char *says;
  } row[] = {
      {0, {QKV "weight", MR_F32, 1, {48}, NULL}, QKV "weight is f32[48], want f32[48,16]"},
      {0, {QKV "weight", MR_F32, 2, {24, 16}, NULL}, "is f32[24,16], want f32[48,16]"},
      {0, {QKV "bias", MR_F32, 2, {48, 1}, NULL}, "is f32[48,1], want f32[48]"},
      {0, {QKV "bias", MR_I32, 1, {48}, NULL}, "is i32[48], want f32[48]"},
      {0, {QKV "bias", MR_F32, -1, {0}, NULL}, QKV "bias is missing"},
      {0, {PATCH, MR_F32, 2, {16, 48}, NULL}, "is f32[16,48], want f32[16,3,4,4]"},
      {0, {PATCH, MR_F32, 4, {16, 3, 0, 4}, NULL}, "is f32[16,3,0,4], want f32[16,3,4,4]"},
      {0, {PATCH, MR_F32, 2, {INT64_C(1) << 40, 0}, NULL}, "want f32[16,3,4,4]"},
      {0, {"params/blocks.0.ls1.gamma", MR_F32, 1, {16}, NULL}, "ls1.gamma is no parameter of its"},
      {1, {ATTN "key.kernel", MR_F32, 3, {4, 2, 8}, NULL}, "is f32[4,2,8], want f32[16,2,8]"},
      {1, {ATTN "key.bias", MR_BF16, 2, {2, 8}, NULL}, "is f32[4,4,3,16], want bf16[4,4,3,16]"},
      {1, {ATTN "value.bias", MR_F32, -1, {0}, NULL}, "value.bias is missing"}};
  char flax_run[128], text[400];
  snprintf(flax_run, sizeof flax_run, "%s-flax", other);
  RUN(&p, "train", "--graph", file, "--run-dir", flax_run, "style=flax");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    write_changed(row[i].flax ? flax_run : whole, NULL, &row[i].as, in_dir("changed.safetensors"));
    expect_no_export(row[i].says);
  }
  static const char *const word[][2] = {{"heads=7", "7, want a divisor of embed 16"},
                                        {"heads=2 heads=2", "which means"},
                                        {"heads=0", "heads"}};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    mr_safetensors_t *f = state_of(whole);
    const char *model = mr_safetensors_meta(f, "millrace.model"), *at = strstr(model, "heads=2");
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - model), model, word[i][0],
             at + strlen("heads=2"));
    mr_safetensors_close(f);
    write_changed(whole, text, NULL, in_dir("changed.safetensors"));
    expect_no_export(word[i][1]);
  }
  write_changed(whole, NULL, NULL, in_dir("changed.safetensors"));
  must_export(in_dir("changed.safetensors"), "timm", in_dir("out.safetensors"));
  assert_int_equal(program_forget(flax_run), 0);
}

/* ---- files with weights that no parameter takes ---- */

static void copy_with(const char *from, const mr_st_tensor_t *more, const char *to) {
  static mr_st_tensor_t t[TENSORS];
  static const float zeros[4096];
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  if (mr_safetensors_open(from, &f, &diag) < 0) fail_msg("%s", diag.text);
  int n = mr_safetensors_count(f);
  for (int i = 0; i < n; i++) t[i] = *mr_safetensors_at(f, i);
  t[n] = *more, t[n].data = zeros;
  if (mr_safetensors_write(to, t, n + 1, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  mr_safetensors_close(f);
}

static void weights_that_no_parameter_takes_are_refused(void **state) {
  static const struct {
    const renamed_t *names;
    mr_st_tensor_t more;
    bool headless, fine;
  } row[] = {{NULL, {"blocks.0.ls1.gamma", MR_F32, 1, {16}, NULL}, false, false},
             {NULL, {"blocks.1.attn.q_norm.weight", MR_F32, 1, {8}, NULL}, false, false},
             {NULL, {"norm_pre.weight", MR_BF16, 1, {16}, NULL}, false, false},
             {NULL, {"head_dist.weight", MR_F32, 2, {10, 16}, NULL}, false, false},
             {torchvision, {"heads.pre_logits.weight", MR_F32, 2, {16, 16}, NULL}, false, false},
             {torchvision, {"heads.pre_logits.weight", MR_F32, 2, {16, 16}, NULL}, true, true},
             {hugging_face, {"vit.embeddings.position_ids", MR_I64, 2, {1, 65}, NULL}, false, true},
             {hugging_face, {"vit.pooler.dense.weight", MR_F32, 2, {16, 16}, NULL}, true, true},
             {hugging_face, {"vit.encoder.layer.0.lambda_1", MR_F32, 1, {16}, NULL}, false, false}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char setting[192], says[200];
    write_as(whole, row[i].names, row[i].headless, in_dir("less.safetensors"));
    copy_with(in_dir("less.safetensors"), &row[i].more, in_dir("more.safetensors"));
    if (row[i].fine) {
      expect_same(in_dir("more.safetensors"), row[i].headless ? "head" : NULL);
      continue;
    }
    snprintf(setting, sizeof setting, "from=%s", in_dir("more.safetensors"));
    snprintf(says, sizeof says, "has %s, which is no parameter of this model", row[i].more.name);
    RUN(&p, "train", "--graph", file, "--run-dir", other, setting);
    if (!p.status || !strstr(p.err, says))
      fail_msg("status %d, want %s: %s", p.status, says, p.err);
  }
}

/* ---- what the library makes of it ---- */

/* numpy has no bf16. */
static void flax_gets_f32_also_of_narrow_parameters(void **state) {
  mr_safetensors_t *f = NULL;
  mr_diag_t diag = {0};
  RUN(&p, "train", "--graph", file, "--run-dir", other, "style=flax", "param-dtype=bf16",
      "master=none");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  must_export(other, "flax", in_dir("out.safetensors"));
  mr_safetensors_t *own = state_of(other);
  if (mr_safetensors_open(in_dir("out.safetensors"), &f, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < mr_safetensors_count(f); i++) {
    char name[NAME];
    const mr_st_tensor_t *x = mr_safetensors_at(f, i);
    snprintf(name, sizeof name, "params/%s", x->name);
    const mr_st_tensor_t *y = mr_safetensors_find(own, name);
    assert_non_null(y);
    assert_int_equal(x->dtype, MR_F32);
    assert_int_equal(y->dtype, MR_BF16);
    uint32_t wide;
    uint16_t narrow;
    memcpy(&wide, x->data, sizeof wide), memcpy(&narrow, y->data, sizeof narrow);
    assert_int_equal(wide, (uint32_t)narrow << 16);
  }
  mr_safetensors_close(f), mr_safetensors_close(own);
  assert_int_equal(program_forget(other), 0);
}

/* timm computes int(embed * mlp_ratio); the numbers that are printed mean those of the run. */
static void the_printed_code_has_the_runs_numbers(void **state) {
  static const int size[][2] = {{224, 976}, {352, 784}, {448, 1952}, {16, 16}};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    char embed[32], mlp[32];
    double top = 0, bottom = 1;
    snprintf(embed, sizeof embed, "embed=%d", size[i][0]);
    snprintf(mlp, sizeof mlp, "mlp=%d", size[i][1]);
    RUN(&p, "train", "--graph", file, "--run-dir", other, "layers=1", "ln-eps=1.23456789e-6", embed,
        mlp);
    if (p.status) fail_msg("%s%s", p.out, p.err);
    must_export(other, "timm", in_dir("out.safetensors"));
    const char *at = strstr(p.out, "mlp_ratio=");
    assert_non_null(at);
    if (sscanf(at, "mlp_ratio=(%lf + 0.5) / %lf", &top, &bottom) == 2)
      top += 0.5;
    else
      assert_int_equal(sscanf(at, "mlp_ratio=%lf / %lf", &top, &bottom), 2);
    assert_int_equal((int)(size[i][0] * (top / bottom)), size[i][1]);
    assert_non_null(strstr(p.out, "eps=1.23456789e-06)"));
    assert_int_equal(program_forget(other), 0);
  }
}

static void an_export_needs_a_format_a_file_and_a_vision_transformer(void **state) {
  RUN(&p, "export", whole, "--format", "onnx", "--out", in_dir("x.safetensors"));
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "expected timm, flax, hf or torchvision"));
  char link[200];
  snprintf(link, sizeof link, "%s", in_dir("link.safetensors"));
  assert_int_equal(symlink(whole, link), 0);
  RUN(&p, "export", whole, "--format", "timm", "--out", link);
  assert_int_equal(p.status, 2);
  assert_non_null(strstr(p.err, "link.safetensors: is a link, want the name of a file"));
  RUN(&p, "export", whole, "--format", "timm");
  assert_non_null(strstr(p.err, "want --out FILE.safetensors"));
  RUN(&p, "export", whole, "--format", "timm", "--out", in_dir("none/x.safetensors"));
  assert_int_not_equal(p.status, 0);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "layers=1", "qkv-bias=false");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  must_export(other, "torchvision", in_dir("o'clock.safetensors"));
  assert_non_null(strstr(p.out, "o\\'clock.safetensors'"));
  assert_int_equal(program_forget(other), 0);
}

static void weights_that_fit_nothing_are_refused_with_the_nearest_names(void **state) {
  char setting[192];
  snprintf(setting, sizeof setting, "from=%s", in_dir("timm.safetensors"));
  static const float one[4];
  const mr_st_tensor_t odd[] = {{"cls_tokens", MR_F32, 1, {4}, one}, {"mlp", MR_F32, 1, {4}, one}};
  assert_int_equal(mr_safetensors_write(in_dir("odd.safetensors"), odd, 2, NULL, 0, NULL), MR_OK);
  snprintf(setting, sizeof setting, "from=%s", in_dir("odd.safetensors"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, setting);
  assert_non_null(
      strstr(p.err, "has no cls_token for parameter cls_token; nearest are cls_tokens"));
  snprintf(setting, sizeof setting, "from=%s", in_dir("timm.safetensors"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "embed=32", setting);
  assert_non_null(strstr(p.err, "want a model of the same sizes"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "layers=3", setting);
  assert_non_null(strstr(p.err, "has no blocks.2."));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "layers=1", setting);
  assert_non_null(strstr(p.err, "has 2 layers, and the model has layers=1; want layers=2"));
  snprintf(setting, sizeof setting, "from=%s", in_dir("torchvision.safetensors"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "layers=1", setting);
  assert_non_null(strstr(p.err, "has 2 layers, and the model has layers=1; want layers=2"));
  snprintf(setting, sizeof setting, "from=%s/checkpoints/latest", whole);
  RUN(&p, "train", "--graph", file, "--run-dir", other, "heads=4", setting);
  assert_non_null(strstr(p.err, "its model has heads=2, and this one has heads=4; want heads=2"));
  RUN(&p, "train", "--graph", file, "--run-dir", other, "from=/nowhere.safetensors");
  assert_non_null(strstr(p.err, "/nowhere.safetensors"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_begins_with_the_parameters_of_another),
      cmocka_unit_test(names_of_timm_hugging_face_and_torchvision_are_known),
      cmocka_unit_test(a_head_that_does_not_fit_begins_anew),
      cmocka_unit_test(exported_weights_are_read_again_under_every_name),
      cmocka_unit_test(styles_become_each_other_where_they_compute_the_same),
      cmocka_unit_test(a_file_that_does_not_say_its_activation_has_the_models),
      cmocka_unit_test(another_function_is_refused),
      cmocka_unit_test(positions_of_another_size_are_interpolated),
      cmocka_unit_test(kernels_for_patches_of_another_size_are_resampled),
      cmocka_unit_test(tensors_that_are_not_the_models_are_not_exported),
      cmocka_unit_test(weights_that_no_parameter_takes_are_refused),
      cmocka_unit_test(flax_gets_f32_also_of_narrow_parameters),
      cmocka_unit_test(the_printed_code_has_the_runs_numbers),
      cmocka_unit_test(an_export_needs_a_format_a_file_and_a_vision_transformer),
      cmocka_unit_test(weights_that_fit_nothing_are_refused_with_the_nearest_names),
  };
  return cmocka_run_group_tests(tests, make_folder, small_run_forget);
}
