/* Reads whole files of a folder in bursts, for sources of many small files.

   A burst that was announced is read by a few threads while the one before it is transformed;
   others are read by the thread that fetches them. */
#ifndef MR_LOADERS_LOCAL_FILES_H
#define MR_LOADERS_LOCAL_FILES_H

#include "pipeline/stage.h"

typedef struct mr_files mr_files_t;

typedef struct mr_files_conf {
  const char *folder;                                  /* lives until close */
  const char *(*path)(const void *ctx, int64_t index); /* below the folder; pure, any thread */
  const void *ctx;                                     /* lives until close */
  int64_t max_bytes;                                   /* of a file */
  int threads;                                         /* that read ahead, [0,64]; 0: none */
} mr_files_conf_t;

/* Opens the folder and starts the threads.  The caller ends *out with mr_files_close.  MR_ERR_IO,
   MR_ERR_NOMEM; *out is NULL then. */
mr_err_t mr_files_open(mr_files_t **out, const mr_files_conf_t *conf, mr_diag_t *diag);
void mr_files_close(mr_files_t *f); /* NULL is fine; joins the threads */

/* Reads files index[0,n), n <= MR_BURST: data[i] with size[i] bytes, which belong to f and live
   until the next fetch of this worker, in [0,MR_MAX_READERS).  Several workers may call at once.
   Blocks while it reads, but never for a pipe.  MR_ERR_IO for a file that cannot be read,
   MR_ERR_DATA for one that is none or too large, MR_ERR_NOMEM for want of memory or descriptors. */
mr_err_t mr_files_fetch(mr_files_t *f, int worker, const int64_t *index, int n, uint8_t **data,
                        size_t *size, mr_diag_t *diag);

/* Announces that this worker's next fetch will be of index[0,n).  What its last fetch gave stays
   valid.  True if reading has begun.  With n == 0: whether it would.  Does not block. */
bool mr_files_ahead(mr_files_t *f, int worker, const int64_t *index, int n);

#endif
