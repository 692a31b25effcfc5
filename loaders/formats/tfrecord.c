/* tfrecord: Examples of TFRecord files as records, features by their name, in any order.  The
   framing has no index, so one is made by reading each file once (tfrecord_scan.c). */
#include <string.h>

#include "base/crc32c.h"
#include "loaders/formats/shard_example.h"
#include "loaders/formats/tfrecord_scan.h"

static mr_err_t tfrecord_settle(mr_shard_source_t *t, mr_stage_t *s,
                                const mr_shard_field_word_t *word, int n, mr_spec_t *out) {
  ((mr_shard_example_t *)t)->tail = MR_TFRECORD_SUM;
  mr__shard_source_want(t, mr_shards_column(t->shards, "__record__", NULL));
  return mr__example_settle(t, s, word, n, out);
}

static mr_err_t tfrecord_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part,
                                mr_rec_t *rec, mr_diag_t *diag) {
  if (part->size < MR_TFRECORD_SUM) return mr_fail(diag, MR_ERR_DATA, "has no checksum");
  size_t n = (size_t)part->size - MR_TFRECORD_SUM;
  uint32_t sum;
  memcpy(&sum, part->data + n, sizeof sum);
  if (sum != mr_crc32c_mask(mr_crc32c(part->data, n)))
    return mr_fail(diag, MR_ERR_DATA, "its checksum is wrong");
  return mr__example_unpack(t, part->data, n, rec, diag);
}

static const mr_shard_kind_t tfrecord_kind = {.name = "tfrecord",
                                              .own = "a TFRecord file",
                                              .index = "tfrecord/5",
                                              .scan = mr_tfrecord_scan,
                                              .settle = tfrecord_settle,
                                              .unpack = tfrecord_unpack};

static mr_err_t tfrecord_plan(mr_stage_t *s) { return mr__shard_source_plan(s, &tfrecord_kind); }

static const mr_opt_t tfrecord_opts[] = {
    MR_SHARD_OPTS(
        "Files, as in train-{00000..00127}-of-00128; several names are joined by \"::\".",
        "Features, the fields they become and how: image/encoded:image,id:id:i32; AS is "
        "bytes, label, or a type, with a shape (f32[2x3]) or without; __record__:record "
        "is the whole record.  By default every feature that all undamaged records have."),
    {0}};

static const mr_hint_t tfrecord_words[] = {
    {"tfrecorddataset tfrecordreader", "tfrecord FILE", NULL}, {0}};

const mr_stage_def_t mr_stage_tfrecord = {
    .name = "tfrecord",
    .hint = tfrecord_words,
    .help = "Reads the tf.train.Examples of TFRecord files, in any order.",
    .opts = tfrecord_opts,
    .state_sz = sizeof(mr_shard_example_t),
    .plan = tfrecord_plan,
    MR_SHARD_HOOKS,
};
