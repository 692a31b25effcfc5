/* Writes profiles of memory in pprof's format, so that `pprof -top`, its graphs and its flame
   graphs show who holds how many bytes.  Implemented in pprof.c, or pprof_without.c in a build
   without protobuf-c.  One thread at a time. */
#ifndef MR_MODEL_CALL_PPROF_H
#define MR_MODEL_CALL_PPROF_H

#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_pprof mr_pprof_t;

enum { MR_PPROF_DEEPEST = 64 }; /* names of a stack; those further out are left out */

/* Returns an empty profile, which mr_pprof_save destroys; NULL without memory. */
mr_pprof_t *mr_pprof_create(void);
/* Adds an object of that many bytes: the names of its stack, the innermost first, name[n], which
   are copied.  Memory that is missing is said by mr_pprof_save.  A NULL p does nothing. */
void mr_pprof_add(mr_pprof_t *p, int n, const char *const *name, int64_t bytes);
/* Writes the profile, gzipped, and destroys it.  MR_OK; MR_ERR_IO with the path; MR_ERR_NOMEM, also
   for a NULL p; MR_ERR_UNAVAILABLE, with `what` in the sentence, in a build without protobuf-c. */
mr_err_t mr_pprof_save(mr_pprof_t *p, const char *what, const char *path, mr_diag_t *diag);

MR_END_DECLS

#endif
