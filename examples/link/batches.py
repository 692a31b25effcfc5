"""Batches of `millrace serve` or of stage broadcast as numpy arrays, and metrics of stage publish.

    python examples/link/batches.py tcp://127.0.0.1:5570 [NAME] [NUMBER]
    python examples/link/batches.py tcp://127.0.0.1:5560 --metrics
"""
import json, sys, numpy, zmq

def array(dtype, data, *shape):
    return numpy.frombuffer(data, dtype).reshape(shape)

def batches(address, name="serve", number=0):
    """Yields (number, fields, keys, excluded) from this batch on, also when the server comes back.

    fields: an array for each name; of a ragged field a list of one array for each record."""
    s = zmq.Context.instance().socket(zmq.DEALER)
    s.connect(address)
    while True:
        s.send_string(f"{name} {number}")  # "this one next; all before it are done with"
        while s.poll(1000):                # else nobody heard it: once more
            head, *frames = s.recv_multipart()
            head, frames = json.loads(head), iter(frames)
            if "error" in head: raise ValueError(head["error"])
            if head["number"] < number: continue  # asked for twice
            if head["end"]: return
            keys, excluded, fields = array("<u8", next(frames), -1), array("?", next(frames), -1), {}
            for f in head["fields"]:
                rows = array(f["dtype"], next(frames), *f["shape"])
                if f.get("ragged"):
                    at = array("<i8", next(frames), -1)
                    rows = [rows[a:b] for a, b in zip(at, at[1:])]
                fields[f["name"]] = rows
            yield head["number"], fields, keys, excluded
            number = head["number"] + 1
            s.send_string(f"{name} {number}")

def metrics(address):
    """Yields what stage publish sends: one dict a record."""
    s = zmq.Context.instance().socket(zmq.SUB)
    s.connect(address), s.subscribe("record")
    while True: yield json.loads(s.recv_multipart()[1])

if __name__ == "__main__" and "--metrics" in sys.argv:
    for record in metrics(sys.argv[1]): print(record, flush=True)
elif __name__ == "__main__":
    for number, fields, keys, _ in batches(*sys.argv[1:3], *map(int, sys.argv[3:])):
        print(number, int(keys.sum()), *(f"{k}{[len(r) for r in v] if isinstance(v, list) else v.shape}" for k, v in fields.items()), flush=True)
