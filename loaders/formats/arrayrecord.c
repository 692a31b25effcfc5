/* arrayrecord: records of ArrayRecord files, in any order.  Chunks of records are found by their
   index (arrayrecord_scan.c) and opened when one of their records is due. */
#include <string.h>

#include "loaders/formats/arrayrecord_scan.h"
#include "loaders/formats/riegeli.h"
#include "loaders/formats/shard_example.h"

static mr_err_t arrayrecord_settle(mr_shard_source_t *t, mr_stage_t *s,
                                   const mr_shard_field_word_t *word, int n, mr_spec_t *out) {
  mr__shard_source_want(t, mr_shards_column(t->shards, "__chunk__", NULL));
  return mr__example_settle(t, s, word, n, out);
}

static mr_err_t arrayrecord_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part,
                                   mr_rec_t *rec, mr_diag_t *diag) {
  return mr__example_unpack(t, part->data, (size_t)part->size, rec, diag);
}

static const mr_shard_kind_t arrayrecord_kind = {.name = "arrayrecord",
                                                 .own = "an ArrayRecord",
                                                 .index = "arrayrecord/3",
                                                 .scan = mr_arrayrecord_scan,
                                                 .group = mr_riegeli_group,
                                                 .settle = arrayrecord_settle,
                                                 .unpack = arrayrecord_unpack};

static mr_err_t arrayrecord_plan(mr_stage_t *s) {
  return mr__shard_source_plan(s, &arrayrecord_kind);
}

static const mr_opt_t arrayrecord_opts[] = {
    MR_SHARD_OPTS(
        "Files, as in train-{00000..00127}-of-00128.array_record; several names are joined by "
        "\"::\".",
        "Features, the fields they become and how: image/encoded:image,id:id:i32; AS is "
        "bytes, label, or a type, with a shape (f32[2x3]) or without; __record__:record "
        "is the whole record.  By default every feature that all undamaged records have."),
    {0}};

static const mr_hint_t arrayrecord_words[] = {
    {"grainarrayrecord arrayrecorddatasource", "arrayrecord FILE", NULL}, {0}};

const mr_stage_def_t mr_stage_arrayrecord = {
    .name = "arrayrecord",
    .hint = arrayrecord_words,
    .help = "Reads the records of ArrayRecord files, grain's format, in any order.",
    .opts = arrayrecord_opts,
    .state_sz = sizeof(mr_shard_example_t),
    .plan = arrayrecord_plan,
    MR_SHARD_HOOKS,
};
