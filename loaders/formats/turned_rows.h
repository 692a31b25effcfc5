/* Arrays in Fortran order, whose rows are scattered over the file: their rows are put together
   once, when the source opens, in memory that may spill (base/spill.h). */
#ifndef MR_LOADERS_FORMATS_TURNED_ROWS_H
#define MR_LOADERS_FORMATS_TURNED_ROWS_H

#include "base/spill.h"
#include "loaders/shards/shard_typed.h"

typedef struct mr_turned_rows {
  mr_spill_t *rows; /* [n] of shard s and want w at s * n_wants + w; without bytes: read as it is */
  int n;            /* 0: no array is in Fortran order */
} mr_turned_rows_t;

/* Reads the arrays of a planned source's wants that are in Fortran order (mr_row_array_t.fortran),
   and turns them.  Blocks.  MR_OK; the errors of mr_shard_reads_fetch; MR_ERR_NOMEM.
   mr_turned_rows_close frees *out, zeroed before, in any case. */
mr_err_t mr_turned_rows_open(mr_turned_rows_t *out, const mr_shard_source_t *t, mr_diag_t *diag);
void mr_turned_rows_close(mr_turned_rows_t *t);

/* Points the parts of a record (part[n_wants]) that are of such arrays at its rows. */
void mr_turned_rows_apply(const mr_turned_rows_t *turned, const mr_shard_source_t *t,
                          int64_t number, mr_shard_bytes_t *part);

#endif
