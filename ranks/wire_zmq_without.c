/* The wire of ZeroMQ in a build without that library: opening one fails with the sentence of
   base/feature.h. */
#include "base/feature.h"
#include "ranks/wire.h"

static mr_err_t refuse_zmq_wire(const mr__wire_cfg_t *cfg, mr__wire_t **out, int *missing,
                                mr_diag_t *diag) {
  return *missing = -1, mr_without(diag, "communicator=zmq", "ZMQ");
}

const mr__wire_ops_t mr__wire_zmq = {.name = "zmq", .open = refuse_zmq_wire};
