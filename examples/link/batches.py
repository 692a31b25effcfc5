"""Batches of `millrace serve` as numpy arrays, and metrics of stage `publish`: needs pyzmq and numpy.

    python examples/link/batches.py tcp://127.0.0.1:5570 [BATCHES]
    python examples/link/batches.py --metrics tcp://127.0.0.1:5560 [RECORDS]
"""
import json, struct, sys, time, numpy, zmq

DTYPES = ["?", "u1", "<i4", "<u4", "<i8", "<u8", "<u2", "<f2", "<f4", "<f8"]  # u2: bf16 bits
KNOCK, HELLO, WELCOME, REFUSE, DATA, ACK, END, BEAT, LEAVE, RESET = range(1, 11)

def batches(address, first=0, window=8, name=b"serve"):
    """Yields (number, pictures, labels, keys) from batch `first` on; each once and in order."""
    s, session, spec, said = zmq.Context.instance().socket(zmq.DEALER), time.time_ns(), None, 0
    s.connect(address)
    def say(kind, number=0, body=b""):
        s.send(struct.pack("<4sHBBQqII", b"MRLK", 1, kind, 0, session, number, len(body), 0) + body)
    while True:
        if spec is None and time.time() - said > 1:
            said = time.time()
            say(HELLO, first, struct.pack("<qqqII64s64s", 0, 0, first + window, 0, 0, name, b""))
        if not s.poll(500):
            say(BEAT) if spec else None
            continue
        head, *payload = s.recv_multipart()
        _, _, kind, _, of, number, _, _ = struct.unpack_from("<4sHBBQqII", head)
        if of != session or kind == REFUSE: raise SystemExit(head[32:].decode() or "another session")
        if kind == RESET: session, spec = time.time_ns(), None
        if kind == WELCOME: spec = head[96:100], struct.unpack_from("<8q", head, 104)
        if kind == END: return say(LEAVE)
        if kind != DATA: continue
        size, n, words = struct.unpack_from("<16xQ12xi4xI", head, 32)
        at = 32 + 56 + 8 * words
        keys, labels = numpy.frombuffer(head, "<u8", n, at), numpy.frombuffer(head, "<i4", n, at + 16 * n)
        data = payload[0] if payload else head[at + 20 * n:]
        shape = (n,) + spec[1][1:spec[0][3]]
        yield number, numpy.frombuffer(data, DTYPES[spec[0][1]]).reshape(shape), labels, keys
        first = number + 1
        say(ACK, first, struct.pack("<q", first + window))

def metrics(address):
    """Yields what the sink publish sends: one dict a record."""
    s = zmq.Context.instance().socket(zmq.SUB)
    s.connect(address), s.subscribe("record")
    while True: yield json.loads(s.recv_multipart()[1])

if __name__ == "__main__":
    want = [a for a in sys.argv[1:] if a != "--metrics"]
    for i, x in enumerate((metrics if "--metrics" in sys.argv else batches)(want[0]), 1):
        print(x if isinstance(x, dict) else (x[0], x[1].shape, x[1].dtype, x[2][:4], int(x[3].sum())), flush=True)
        if i == int((want + [0])[1]): break
