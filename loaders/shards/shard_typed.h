/* Columns of containers that state the type of each: MDS, .beton, .npz, safetensors, tables.

   A scan adds typed columns to its draft; the type is part of the column's name in the index, so
   that files in which a column has different types have different columns.  Settling and unpacking
   the fields is then the same for all such containers. */
#ifndef MR_LOADERS_SHARDS_SHARD_TYPED_H
#define MR_LOADERS_SHARDS_SHARD_TYPED_H

#include "loaders/shards/shard_source.h"

/* How a part's bytes become a value; the kind of a column. */
typedef enum mr_typed {
  MR_TYPED_PLAIN, /* an array of the type, as it is */
  MR_TYPED_BYTES, /* ragged u8: the part's bytes */
  MR_TYPED_I8,    /* an array of i8, i16 or u16, which becomes one of i32 */
  MR_TYPED_I16,
  MR_TYPED_U16,
  MR_TYPED_TEXT_INT, /* a number as text: i64, f64 */
  MR_TYPED_TEXT_FLOAT,
  MR_TYPED_TEXT_CLASS, /* text; its class is its index in the sorted words of the column */
  MR_TYPED_WORD,       /* a word of such a column, "NAME\tWORD": no column of its own */
  MR_TYPED_REFUSED,    /* a column that cannot be a field; TYPE says why */
  MR_TYPED_SWAPPED,    /* an array of the type, its elements big-endian; and as I16 and U16 */
  MR_TYPED_SWAPPED_I16,
  MR_TYPED_SWAPPED_U16,
  MR_TYPED_SIZES, /* the sizes at the head of a record, whose item is their sum: no field */
} mr_typed_t;

/* Adds a column (name[0,n)), or finds it, in *column.  type: dtype and dimensions of PLAIN, of
   SWAPPED and of the narrow kinds (dtype i32 there); NULL for the others.  why: of REFUSED, else
   NULL. MR_ERR_DATA for a name that is too long or holds a NUL or a tab, and for too many columns;
   MR_ERR_NOMEM. */
mr_err_t mr_typed_column(mr_shard_draft_t *d, const char *name, size_t n, mr_typed_t kind,
                         const mr_field_t *type, const char *why, uint32_t *column,
                         mr_diag_t *diag);

/* Adds the list of sizes at byte `at`, bytes[0,n), to the last record: it is read with the record,
   whose values would lie elsewhere if it were another one.  MR_ERR_NOMEM. */
mr_err_t mr_typed_sizes(mr_shard_draft_t *d, int64_t at, const void *bytes, size_t n,
                        mr_diag_t *diag);

/* Adds a column that cannot be a field, for the reason why: a question for it gets the reason, and
   the notice of what is left out has it.  A name that no column can have is cut or changed until
   one can.  A draft without room is fine.  MR_ERR_NOMEM. */
mr_err_t mr_typed_refuse(mr_shard_draft_t *d, const char *name, size_t n, const char *why,
                         uint32_t *column, mr_diag_t *diag);

/* Returns the bytes that an element of a PLAIN, SWAPPED or narrow kind has in the file. */
size_t mr_typed_stored(mr_typed_t kind, mr_dtype_t dtype);

/* Sets kind and dtype by NumPy's name of a type, name[0,n); "int" is int64.  False, and nothing
   set, for another name. */
bool mr_typed_numpy(const char *name, size_t n, mr_typed_t *kind, mr_dtype_t *dtype);

/* Parses a type with a shape, "f32[2x3]" or "f32[]", or without, "f32" (f->ndim is -1 then), into
   dtype and dimensions of *f, and its elements into *count.  False if text is not a type, or a
   value would have more than MR_SHARD_PART_MAX elements. */
bool mr_typed_parse(const char *text, mr_field_t *f, int64_t *count);

/* Hooks settle and unpack of an mr_shard_kind_t. */
mr_err_t mr__typed_settle(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word,
                          int n, mr_spec_t *out);
mr_err_t mr__typed_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part, mr_rec_t *rec,
                          mr_diag_t *diag);

#endif
