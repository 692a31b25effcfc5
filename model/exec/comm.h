/* A communicator: devices that compute the same graph on parts of the data and exchange values in
   its collectives.  Here a device is a thread of this process. */
#ifndef MR_MODEL_EXEC_COMM_H
#define MR_MODEL_EXEC_COMM_H

#include "base/err.h"

typedef struct mr_comm mr_comm_t;

/* One device of a communicator, for which a graph is compiled: its collectives over axis exchange
   values with the other devices. */
typedef struct mr_comm_rank {
  mr_comm_t *comm;
  int rank; /* in [0,mr_comm_size) */
  const char *axis;
} mr_comm_rank_t;

/* A communicator of size devices, in [1,1024].  It must outlive all graphs compiled with it; the
   caller destroys it.  MR_OK, MR_ERR_CONFIG for another size, or MR_ERR_NOMEM. */
mr_err_t mr_comm_create(int size, mr_comm_t **out, mr_diag_t *diag);
void mr_comm_destroy(mr_comm_t *c);   /* NULL is fine */
int mr_comm_size(const mr_comm_t *c); /* devices */

/* Publishes value and waits until every device has published its own.  Returns the values of all
   devices by rank, [size]; the array belongs to c and is valid until this device calls leave.  Each
   device calls meet and leave in turn; a device that does not come blocks the others for ever. */
const void *const *mr__comm_meet(mr_comm_t *c, int rank, const void *value);
void mr__comm_leave(mr_comm_t *c); /* waits until every device has called it */

#endif
