mr_needs(mr_ranks ZMQ ranks/wire_zmq.c)
