/* A communicator: devices that compute the same graph on parts of the data and speak to one another
   in its collectives.  Here a device is a thread of this process. */
#ifndef MR_MODEL_EXEC_COMM_H
#define MR_MODEL_EXEC_COMM_H

#include "base/err.h"

typedef struct mr_comm mr_comm_t;

/* What a graph is compiled with for one device: collectives over axis speak to the others. */
typedef struct mr_comm_rank {
  mr_comm_t *comm;
  int rank; /* in [0,mr_comm_size) */
  const char *axis;
} mr_comm_rank_t;

/* A communicator of size >= 1 devices, which must outlive all graphs compiled with it.
   MR_ERR_NOMEM. */
mr_err_t mr_comm_create(int size, mr_comm_t **out, mr_diag_t *diag);
void mr_comm_destroy(mr_comm_t *c);   /* NULL is fine */
int mr_comm_size(const mr_comm_t *c); /* devices */

/* Shows value to all and waits until all show theirs: then all[rank], in order, until leave.  Every
   device calls meet and leave in turn. */
const void *const *mr__comm_meet(mr_comm_t *c, int rank, const void *value);
void mr__comm_leave(mr_comm_t *c); /* waits until all have read */

#endif
