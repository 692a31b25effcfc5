"""Batches of `millrace serve` or of stage broadcast as numpy arrays, and metrics of stage publish.

    python examples/link/batches.py tcp://127.0.0.1:5570 [NAME] [NUMBER]
    python examples/link/batches.py tcp://127.0.0.1:5560 --metrics
"""
import json, sys, numpy, zmq

def batches(address, name="serve", number=0):
    """Yields (number, pictures, labels, keys) from this batch on, also when the server comes back."""
    s = zmq.Context.instance().socket(zmq.DEALER)
    s.connect(address)
    while True:
        s.send_string(f"{name} {number}")  # "this one next; all before it are done with"
        while s.poll(1000):                # else nobody heard it: once more
            head, keys, labels, data = s.recv_multipart()
            head = json.loads(head)
            if "error" in head: raise ValueError(head["error"])
            if head["number"] < number: continue  # asked for twice
            if head["end"]: return
            pictures = numpy.frombuffer(data, head["dtype"]).reshape(head["shape"])
            yield head["number"], pictures, numpy.frombuffer(labels, "<i4"), numpy.frombuffer(keys, "<u8")
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
    for number, pictures, labels, keys in batches(*sys.argv[1:3], *map(int, sys.argv[3:])):
        print(number, pictures.shape, pictures.dtype, labels[:4], int(keys.sum()), flush=True)
