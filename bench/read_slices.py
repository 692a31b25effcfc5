"""How fast is a checkpoint read, beside its files by themselves?  In turns, after the kernel's cache is dropped (as root), the
files are read by a plain reader in pieces of 16 MB, and `millrace checkpoint verify` reads and checks them.
usage: read_slices.py MILLRACE CHECKPOINT [TURNS], CHECKPOINT a step-N.safetensors with its slices beside it.  Last line: the
medians in MB/s and the ratio."""

import glob
import os
import statistics
import subprocess
import sys
import time

millrace, path = os.path.abspath(sys.argv[1]), os.path.realpath(sys.argv[2])
turns = int(sys.argv[3]) if len(sys.argv) > 3 else 7
files = [path, *sorted(glob.glob(path.removesuffix(".safetensors") + ".*-of-*.safetensors"))]
size = sum(os.path.getsize(f) for f in files)


def drop_cache():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    subprocess.run([millrace, "checkpoint", "--help"], check=True, stdout=subprocess.DEVNULL)  # the program itself is not measured


def plain():
    piece = bytearray(16 << 20)
    for name in files:
        with open(name, "rb", buffering=0) as f:
            while f.readinto(piece):
                pass


def checked():
    subprocess.run([millrace, "checkpoint", "verify", path], check=True, stdout=subprocess.DEVNULL)


took = {plain: [], checked: []}
for _ in range(turns):
    for read in took:
        drop_cache()
        start = time.monotonic()
        read()
        took[read].append(time.monotonic() - start)
rate = [size / 1e6 / statistics.median(took[read]) for read in (plain, checked)]
print(f"{len(files)} files of {size / 1e6:.0f} MB: {rate[0]:.0f} MB/s by a plain reader, {rate[1]:.0f} MB/s read and checked, {rate[1] / rate[0]:.2f} of it")
