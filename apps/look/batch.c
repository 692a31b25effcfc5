/* millrace batch: writes the batch of any one step as an .npz or .npy file, without producing the
   earlier ones. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "apps/run/take_batches.h"
#include "base/ledger.h"
#include "base/npy.h"
#include "base/npz.h"
#include "base/text.h"
#include "pipeline/care.h"

static const mr_flag_t batch_flags[] = {
    {"--step", "N", "The step whose batch to write, from 1; required."},
    {"--out", "FILE.npz", "Where its fields go; FILE.npy holds one field, without labels."},
    {"--labels", "FILE.npy", "Where its labels go, as i32."},
    {"--stage", "NAME",
     "Uses the batches of this stage; default: the last stage on the first line of batches."},
    {0}};

typedef struct wanted {
  const char *out, *labels;
} wanted_t;

/* Prints the keys as the ledger hashes them, and those of excluded records.  Bit 63 alone does not
   mark these: negative numbers (range) and holes have it too. */
static void print_keys(const mr_buf_t *b) {
  bool any = false;
  printf("keys");
  for (int i = 0; i < b->n; i++) printf(" %" PRIu64, b->key[i]);
  for (int i = 0; i < b->n; i++) {
    uint64_t key = b->key[i];
    if (!(key & MR_KEY_SKIPPED) || !b->excluded[i] || key == UINT64_MAX) continue;
    printf("%s %" PRIu64, any ? "" : "\nexcluded", key & ~MR_KEY_SKIPPED);
    any = true;
  }
  puts("");
}

/* Finds the field that a .npy holds: the only one besides the label, or a label that is alone. */
static mr_err_t only_values(const mr_spec_t *spec, int *field, mr_diag_t *diag) {
  char names[512];
  int label = mr_spec_label(spec), n = 0;
  *field = 0;
  for (int f = 0; f < spec->n_fields; f++)
    if (f != label) *field = f, n++;
  if (n > 1)
    return mr_fail(
        diag, MR_ERR_USAGE,
        "batch: --out: a .npy file holds one field, but the records have %s; give a name "
        "that ends in .npz for all of them",
        mr_spec_names(spec, names, sizeof names));
  if (spec->field[*field].ragged)
    return mr_fail(diag, MR_ERR_USAGE,
                   "batch: --out: field %s is ragged, and a .npy file holds rows of one length; "
                   "give a name that ends in .npz",
                   spec->field[*field].name);
  return MR_OK;
}

static mr_err_t save_npy(const char *file, const mr_spec_t *spec, const mr_buf_t *b,
                         mr_diag_t *diag) {
  int f;
  MR_TRY(only_values(spec, &f, diag));
  const mr_field_t *field = &spec->field[f];
  int64_t dim[MR_MAX_NDIM] = {b->n};
  memcpy(dim + 1, field->dim, (size_t)field->ndim * sizeof *dim);
  return mr_npy_save(file, field->dtype, field->ndim + 1, dim, b->field[f].data, diag);
}

/* Adds the names of a field's classes as the array NAME.classes, whose data is the caller's.  Names
   are cut at NAME_CHARS characters. */
static mr_err_t add_names(const mr_field_t *field, mr_npz_array_t *a, mr_diag_t *diag) {
  enum { NAME_CHARS = 256 };
  const mr_classes_t *c = field->classes;
  int chars = 1;
  for (int i = 0; i < c->n; i++) {
    int n = 0;
    uint32_t code;
    for (const char *at = c->name[i]; *at; n++) at += mr_utf8_character(at, &code);
    chars = n > chars ? n : chars;
  }
  if (chars > NAME_CHARS) chars = NAME_CHARS;
  uint32_t *to = calloc((size_t)c->n * (size_t)chars + 1, sizeof *to);
  if (!to) return mr_no_memory(diag, "names of classes");
  for (int i = 0; i < c->n; i++) {
    const char *at = c->name[i];
    for (int k = 0; k < chars && *at; k++) {
      uint32_t *code = &to[(size_t)i * (size_t)chars + (size_t)k];
      at += mr_utf8_character(at, code);
      if (*code == UINT32_MAX) *code = 0xFFFD; /* the replacement character */
    }
  }
  *a = (mr_npz_array_t){.chars = chars, .ndim = 1, .dim = {c->n}, .data = to};
  snprintf(a->name, sizeof a->name, "%s.classes", field->name);
  return MR_OK;
}

/* Adds those of all fields, unless a field has such a name. */
static mr_err_t add_all_names(const mr_spec_t *spec, mr_npz_array_t *array, int *n,
                              mr_diag_t *diag) {
  for (int f = 0; f < spec->n_fields; f++) {
    char name[MR_NPZ_NAME];
    snprintf(name, sizeof name, "%s.classes", spec->field[f].name);
    if (!spec->field[f].classes || mr_spec_find(spec, name) >= 0) continue;
    MR_TRY(add_names(&spec->field[f], &array[*n], diag));
    ++*n;
  }
  return MR_OK;
}

/* Writes each field as array NAME of shape (B,...).  A ragged field is the rows of all records, and
   NAME.offsets. */
static mr_err_t save_npz(const char *file, const mr_spec_t *spec, const mr_buf_t *b,
                         mr_diag_t *diag) {
  mr_npz_array_t array[3 * MR_FIELDS_MAX] = {0};
  int n = 0;
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    const mr_buf_field_t *v = &b->field[f];
    int skip = field->ragged; /* its first dimension is the one that rows run along */
    mr_npz_array_t *a = &array[n++];
    *a = (mr_npz_array_t){.dtype = field->dtype,
                          .ndim = field->ndim + 1 - skip,
                          .dim = {field->ragged ? v->offset[b->n] : b->n},
                          .data = v->data};
    snprintf(a->name, sizeof a->name, "%s", field->name);
    memcpy(a->dim + 1, field->dim + skip, (size_t)(field->ndim - skip) * sizeof *a->dim);
    if (!field->ragged) continue;
    a = &array[n++];
    *a = (mr_npz_array_t){.dtype = MR_I64, .ndim = 1, .dim = {b->n + 1}, .data = v->offset};
    snprintf(a->name, sizeof a->name, "%s.offsets", field->name);
    if (mr_spec_find(spec, a->name) >= 0)
      return mr_fail(diag, MR_ERR_USAGE,
                     "batch: --out: the offsets of %s would have the name of field %s; put "
                     "\"rename\" before the batch stage",
                     field->name, a->name);
  }
  int fields = n;
  mr_err_t e = add_all_names(spec, array, &n, diag);
  if (e >= 0) e = mr_npz_save(file, array, n, diag);
  while (n > fields) free((void *)array[--n].data);
  return e;
}

static mr_err_t save_values(const char *file, const mr_spec_t *spec, const mr_buf_t *b,
                            mr_diag_t *diag) {
  size_t n = strlen(file);
  bool all = n > 4 && !strcmp(file + n - 4, ".npz");
  return all ? save_npz(file, spec, b, diag) : save_npy(file, spec, b, diag);
}

static mr_err_t batch_save(void *ctx, const mr_spec_t *spec, int64_t step, const mr_buf_t *b,
                           mr_diag_t *diag) {
  const wanted_t *w = ctx;
  int64_t labels = b->n;
  char text[256];
  if (w->out) MR_TRY(save_values(w->out, spec, b, diag));
  if (w->labels && !b->label)
    return mr_fail(diag, MR_ERR_USAGE,
                   "batch: --labels: the records have no field that is a label");
  if (w->labels) MR_TRY(mr_npy_save(w->labels, MR_I32, 1, &labels, b->label, diag));
  mr_spec_text(spec, text, sizeof text);
  printf("step %" PRId64 ", epoch %" PRId64 ": %d records of %s, ledger of this step %016" PRIx64
         "\n",
         step, b->epoch + 1, b->n, text, mr_ledger_step(0, step, b->key, b->draw, b->n, 0));
  print_keys(b);
  return MR_OK;
}

static int batch_run(const mr_args_t *a, mr_diag_t *diag) {
  wanted_t w = {.out = mr_args_text(a, "--out"), .labels = mr_args_text(a, "--labels")};
  mr_graph_of_steps_t of;
  if (!mr_args_text(a, "--step"))
    return mr_fail(diag, MR_ERR_USAGE, "batch: --step N must be given");
  mr_batches_t want = {.stage = mr_args_text(a, "--stage"), .n = 1, .take = batch_save, .ctx = &w};
  MR_TRY(mr_args_int(a, "--step", 1, INT64_C(1) << 53, &want.first, diag));
  MR_TRY(mr_graph_of_step(a, 0, want.first, want.stage, &of, diag));
  want.data = of.data;
  mr_err_t e = mr_take_batches(of.g, &want, diag);
  if (e >= 0) mr_note_step_ahead(a, 0, want.first);
  mr_graph_destroy(of.g);
  free(of.data);
  return e;
}

const mr_command_t mr_command_batch = {
    .name = "batch",
    .words = "GRAPH|FILE|RUN --step N --out F.npz|F.npy [--labels F.npy] [NAME=VALUE...]",
    .help = "Writes the batch of any one step, without producing the earlier ones.",
    .more =
        "\nRUN is the folder of a run: its graph with the settings of that step.  The keys and the "
        "ledger's "
        "hash of\nthis step alone go to standard output.  In FILE.npz each field is an array "
        "(B,...); a ragged\n"
        "one is the rows of all records, and NAME.offsets says where each record's begin.",
    .flags = batch_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = batch_run,
};
