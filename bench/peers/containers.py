#!/usr/bin/env python3
"""Records of containers by other means, without decoding, batches of 64 in two workers: what bench/sources.sh compares.

usage: containers.py copy                  GB/s that two threads copy between buffers of 128 MB
       containers.py webdataset TAR...     records/s of shards in sequence, shuffled by a buffer of 1000
       containers.py grain FOLDER          records/s of files below FOLDER in a random order
Prints one line, NAME figure (median of 3 windows of WINDOW seconds, 2)."""
import glob, multiprocessing, os, statistics, sys, threading, time

WINDOW = float(os.environ.get("WINDOW", "2"))


def measure(name, count):
    """count() is a number that grows."""
    time.sleep(WINDOW / 2)
    got = []
    for _ in range(3):
        n, t = count(), time.perf_counter()
        time.sleep(WINDOW)
        got.append((count() - n) / (time.perf_counter() - t))
    print(f"{name} {statistics.median(got):.6g}", flush=True)
    for p in multiprocessing.active_children():  # endless workers
        p.terminate()
        p.join(2)
    os._exit(0)


def records(name, batches):
    done = [0]

    def run():
        for b in batches:
            done[0] += len(b)
    threading.Thread(target=run, daemon=True).start()
    while not done[0]:
        time.sleep(.01)
    measure(name, lambda: done[0])


def copy():
    import numpy as np
    size, done = 1 << 27, [0, 0]

    def run(k):
        a, b = np.ones(size, np.uint8), np.ones(size, np.uint8)
        while True:
            np.copyto(b, a)
            done[k] += size
    for k in range(2):
        threading.Thread(target=run, args=(k,), daemon=True).start()
    measure("copy", lambda: sum(done) / 1e9)


def webdataset(*tars):
    import webdataset as wds
    urls = sorted(tars) * (100000 // len(tars))
    ds = wds.WebDataset(urls, shardshuffle=False, empty_check=False).shuffle(1000).to_tuple("jpg", "cls").batched(64, partial=False)
    records("webdataset", (b[0] for b in wds.WebLoader(ds, batch_size=None, num_workers=2, persistent_workers=True)))


class Files:
    def __init__(self, folder):
        self.path = sorted(glob.glob(os.path.join(folder, "*", "*")))

    def __len__(self):
        return len(self.path)

    def __getitem__(self, i):
        with open(self.path[i], "rb") as f:
            return f.read()

    def __repr__(self):
        return "Files"


def grain(folder):
    import grain as g
    from absl import flags
    flags.FLAGS.mark_as_parsed()
    ds = g.MapDataset.source(Files(folder)).seed(12).shuffle().repeat().to_iter_dataset()
    ds = ds.batch(64, drop_remainder=True, batch_fn=list).mp_prefetch(g.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2))
    records("grain", iter(ds))


if __name__ == "__main__":
    jobs = {"copy": copy, "webdataset": webdataset, "grain": grain}
    if sys.argv[1:2] == [] or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    jobs[sys.argv[1]](*sys.argv[2:])
