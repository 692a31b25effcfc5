/* Finds the items of a chunk of litdata, and their columns.

   A chunk: u32 n; u32 offset[n+1] from the file's start; items.  An item: u32 size of each leaf,
   then the leaves.  What the leaves are is in the index.json of the folder, so that the scan gets
   it in mr_shard_file_t.ctx.  Source of the format: litdata/streaming, writer.py and
   serializers.py. */
#ifndef MR_LOADERS_FORMATS_LITDATA_SCAN_H
#define MR_LOADERS_FORMATS_LITDATA_SCAN_H

#include "loaders/shards/shard_source.h"

enum { MR_LITDATA_LEAVES_MAX = 256, MR_LITDATA_FORMAT_MAX = 64 };

typedef struct mr_litdata_leaf {
  char name[MR_SHARD_NAME_MAX];
  char format[MR_LITDATA_FORMAT_MAX]; /* of data_format: "int", "no_header_numpy:9" */
} mr_litdata_leaf_t;

typedef struct mr_litdata_chunk {
  int64_t items;
  char codec[8]; /* "zstd", "": none */
} mr_litdata_chunk_t;

/* The state of the source, which index.json fills. */
typedef struct mr_litdata {
  mr_shard_source_t source;
  mr_shard_kind_t kind;
  char index_kind[16]; /* differs with the leaves */
  mr_litdata_leaf_t leaf[MR_LITDATA_LEAVES_MAX];
  int n_leaves;
  mr_litdata_chunk_t *chunk; /* [n_chunks], during plan */
  int n_chunks;
} mr_litdata_t;

/* An mr_shard_scan_fn whose ctx is an mr_litdata_t, and whose columns are typed.  An item whose
   sizes do not add up is a record without parts here, and a bad record when it is read. */
mr_err_t mr_litdata_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                         mr_diag_t *diag);

#endif
