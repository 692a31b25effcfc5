/* Which arrays of a program are alive, with the functions that made them, as a profile for pprof:

     mr_memory_profile_begin();
     ...
     mr_memory_profile("live.pb", &diag);      pprof -top live.pb

   Each object is the memory of an array.  Its stack is the array's shape, "jit NAME" for a result
   of a jitted function, and the calls that led there, by the names of their functions: those that a
   program or a library exports, and those of its table of symbols unless it was stripped.  Any
   thread may call these. */
#ifndef MR_MODEL_CALL_MEMORY_PROFILE_H
#define MR_MODEL_CALL_MEMORY_PROFILE_H

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

/* Notes from now on where arrays are made, until mr_memory_profile_end; earlier ones are in no
   profile.  A note takes some microseconds and half a kilobyte.  Calls of it do not nest. */
void mr_memory_profile_begin(void);
/* Notes no more; what is noted stays until its array ends. */
void mr_memory_profile_end(void);

/* Writes the profile of the noted arrays that are alive, gzipped, to path.  MR_OK, also without
   any; MR_ERR_IO with the path; MR_ERR_NOMEM; MR_ERR_UNAVAILABLE in a build without protobuf-c.
   Source: jax.profiler.save_device_memory_profile. */
mr_err_t mr_memory_profile(const char *path, mr_diag_t *diag);

MR_END_DECLS

#endif
