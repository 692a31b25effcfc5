/* Files of token ids as one long row of tokens, with the documents in it.

   Flat files (nanoGPT: ids alone; llm.c: a header of 1 KiB before them; NumPy's .npy), and
   Megatron-LM's pairs of NAME.bin and NAME.idx.  Sources: Megatron-LM
   megatron/core/datasets/indexed_dataset.py; llm.c llmc/dataloader.h, dev/data/data_common.py. */
#ifndef MR_LOADERS_FORMATS_TOKEN_FILES_H
#define MR_LOADERS_FORMATS_TOKEN_FILES_H

#include "loaders/shards/shard_reads.h"

typedef enum mr_token_type {
  MR_TOKEN_U16,
  MR_TOKEN_U32,
  MR_TOKEN_U8,
  MR_TOKEN_I32,
  MR_TOKEN_I64 /* of .npy files alone */
} mr_token_type_t;
#define MR_TOKEN_TYPES "u16|u32|u8|i32" /* in the order above, for a setting */

/* One file. */
typedef struct mr_token_file {
  mr_token_type_t type;
  int64_t head;           /* bytes before the first token */
  int64_t first, n;       /* number of its first token in the row; its tokens */
  uint8_t *kept;          /* all tokens as in the file; NULL: not in memory */
  const mr_object_t *idx; /* of a remote file: Megatron's index beside it; NULL: none */
} mr_token_file_t;

typedef struct mr_token_files {
  mr_shards_t *shards;   /* paths and identities, no index */
  mr_token_file_t *file; /* [shards->n] */
  int64_t n;             /* tokens of all files, at least 1 */
  int64_t *document;     /* [n_documents + 1] where each begins, ascending; the last is n; NULL: not
                            asked for */
  int64_t n_documents;   /* none is empty */
  int32_t *wide;         /* [n] all tokens as i32; NULL: mr_token_files_widen has not run */
  int32_t wide_bits, wide_most; /* of wide: all tokens joined by or; the largest */
} mr_token_files_t;

typedef struct mr_token_files_conf {
  const char *names;              /* as mr_shard_names_expand takes them */
  mr_token_type_t type;           /* of flat files without a header */
  bool documents;                 /* find documents: by the .idx, else by eos */
  const mr_remote_conf_t *remote; /* for names that are URLs; copied */
  int64_t eos; /* the token that ends a document of a flat file; -1: a file is one */
} mr_token_files_conf_t;

/* Opens the files and keeps none open.  A file NAME.bin with NAME.idx beside it is Megatron's.
   Blocks; finding documents by eos reads the files.  The caller ends *out with
   mr_token_files_close.  MR_ERR_CONFIG, MR_ERR_IO, MR_ERR_NOMEM, MR_ERR_DATA for files that do not
   hold what their headers say; *out is NULL then. */
mr_err_t mr_token_files_open(mr_token_files_t **out, const mr_token_files_conf_t *conf,
                             mr_diag_t *diag);
void mr_token_files_close(mr_token_files_t *t); /* NULL is fine */

/* Reads all tokens into memory.  Fails as mr_reader_read does, and by MR_ERR_NOMEM. */
mr_err_t mr_token_files_keep(mr_token_files_t *t, mr_diag_t *diag);

/* Reads all tokens into memory as i32, so that any range of the row lies there as one piece.  Fails
   as mr_token_files_keep. */
mr_err_t mr_token_files_widen(mr_token_files_t *t, mr_diag_t *diag);

/* Returns the bytes of all tokens in the files. */
int64_t mr_token_files_bytes(const mr_token_files_t *t);

/* Returns the number of the file that holds token number at, in [0,n). */
int mr_token_files_find(const mr_token_files_t *t, int64_t at);

/* Returns the number of the document that holds token number at, in [0,n).  Documents have been
   asked for. */
int64_t mr_token_files_document(const mr_token_files_t *t, int64_t at);

/* Returns the bytes of one token of a type. */
int mr_token_size(mr_token_type_t type);

/* Widens n tokens of a type to i32 and returns their bits joined by or, so that a negative result
   means that a value does not fit i32.  from need not be aligned. */
int32_t mr_token_widen(mr_token_type_t type, const void *from, int64_t n, int32_t *to);

#endif
