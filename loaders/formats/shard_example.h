/* Records that are tf.train.Examples, whatever container holds them: the features that a scan
   counts become fields, and a field can also be the whole record.

   Implemented in shard_example.c, and shard_example_count.c for scans. */
#ifndef MR_LOADERS_FORMATS_SHARD_EXAMPLE_H
#define MR_LOADERS_FORMATS_SHARD_EXAMPLE_H

#include "loaders/formats/example.h"
#include "loaders/shards/shard_source.h"

/* Kinds of columns in the index of a file. */
enum {
  MR_COLUMN_RECORD, /* name "__record__": the bytes of a record */
  MR_COLUMN_BYTES,  /* a feature of one byte string: its length */
  MR_COLUMN_FLOAT,  /* numbers: how many */
  MR_COLUMN_INT64,
  MR_COLUMN_LIST,     /* a feature of no or several byte strings: how many */
  MR_COLUMN_EXAMPLE,  /* name "", no feature: the records that have features */
  MR_COLUMN_CHUNK,    /* of a container that compresses records in groups: the bytes of a group */
  MR_COLUMN_SEQUENCE, /* a feature list of a SequenceExample, which becomes no field */
  MR_COLUMN_EMPTY,    /* a feature without a list of values: it becomes no field either, */
  MR_COLUMN_UNNAMED,  /* nor does one whose name is too long or has a NUL, cut and changed here */
};

/* ---- for a scan ---- */

typedef struct mr_example_count mr_example_count_t;

/* Returns the counts for a draft; the caller ends them with mr_example_count_free.  NULL without
   memory. */
mr_example_count_t *mr_example_count_new(mr_shard_draft_t *draft);
void mr_example_count_free(mr_example_count_t *c); /* NULL is fine */

/* Counts the features of the draft's last record, data[0,n); bytes that are no Example have none.
   MR_ERR_NOMEM. */
mr_err_t mr_example_count(mr_example_count_t *c, const uint8_t *data, size_t n, mr_diag_t *diag);

/* ---- for a source ---- */

typedef struct mr_example_field {
  mr_feature_kind_t kind;
  size_t name_n;
  int64_t n;   /* values of every record; -1: ragged */
  bool absent; /* a record without the feature has no values */
} mr_example_field_t;

/* The state of a source of Examples. */
typedef struct mr_shard_example {
  mr_shard_source_t source;
  int64_t tail; /* bytes that a column of records counts beside the record's own */
  mr_example_field_t more[MR_FIELDS_MAX];
} mr_shard_example_t;

/* Settles the fields, as the hook of mr_shard_kind_t; the source has asked for the one part that a
   record is made of before. */
mr_err_t mr__example_settle(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word,
                            int n, mr_spec_t *out);

/* Sets the fields of rec from the record data[0,n).  MR_ERR_DATA if it is not the Example that the
   fields want. */
mr_err_t mr__example_unpack(const mr_shard_source_t *t, const uint8_t *data, size_t n,
                            mr_rec_t *rec, mr_diag_t *diag);

#endif
