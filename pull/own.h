/* Sources and maps that are functions of the program, for languages that cannot write a stage
   (pipeline/stage.h).  In the text of a graph they are `own-source NAME` and `own-map NAME`; their
   records have the order, the ledger and the states of all others. */
#ifndef MR_PULL_OWN_H
#define MR_PULL_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* The value of one field of one record, or what it looks like. */
typedef struct mr_own_value {
  char name[32]; /* letters, digits, "_", "-" and "."; begins with a letter */
  int32_t dtype; /* mr_dtype_t */
  int32_t ndim;  /* 0: a single number */
  int64_t dim[8];
  bool ragged; /* of an input: dim[0] differs from record to record; in plan it is the largest */
  void *data;  /* row-major; NULL in plan */
} mr_own_value_t;

/* What a function is asked for. */
typedef struct mr_own_call {
  int64_t index; /* source: which record, in [0,n); map: the record's id within its source */
  uint64_t seed; /* draws: of this record, from its own generator */
  int32_t n_input, n_output;
  mr_own_value_t input[16];  /* [n_input] of a map; values are read-only */
  mr_own_value_t output[16]; /* [n_output] */
} mr_own_call_t;

typedef struct mr_own {
  const char *name;
  int64_t n;  /* source: records of an epoch, above 0; map: 0 */
  bool draws; /* map: gets a seed, which the ledger notes */
  /* Sets n_output, and of output[0,n_output) all but data, from the inputs.  Whenever the graph is
     built; MR_OK, or a failure with its sentence. */
  mr_err_t (*plan)(void *of, mr_own_call_t *call, mr_diag_t *diag);
  /* Writes one record's values to output[i].data, which have the sizes that plan has said.  Several
     threads call it at once.  MR_OK; MR_ERR_DATA with a sentence: the record is bad, which on-bad=
     of its source decides on; another failure ends the stream. */
  mr_err_t (*make)(void *of, mr_own_call_t *call, mr_diag_t *diag);
  void *of;
} mr_own_t;

MR_END_DECLS

#endif
