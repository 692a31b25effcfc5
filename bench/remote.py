#!/usr/bin/env python3
"""Shards on a server behind a link of 1 Gbit/s with 20 ms round trips.
usage: bench/remote.py MILLRACE PHOTOS [--rounds N] [--gbit G] [--rtt MS] [--shard-mb M] [--times T] [--work DIR]

PHOTOS is a folder of pictures with one folder for each class; its train/ is packed into tar shards, which are there T times
under different names, so that an epoch takes longer than its start. nginx serves them, and bench/paced_link.c is the link. Printed, medians of the rounds, each with what it is compared with in turn:
- the link's own ceiling: 16 connections of curl that stream all shards;
- cold: a shuffled epoch, by the link's clock (first request to last byte) and the wall, in per cent of that ceiling and of
  the nominal rate; and the first use of all, when the index files are made too: without a cache, with one, and by two
  processes that share their caches (peers=), each of which reads half of the records;
- an epoch out of a full cache on disk beside the local files, with and without decoding;
- a cache of half of the data: hits beside Belady's rule and the least recently used block by simulation, for two sizes of blocks.
Needs nginx, curl and a C compiler; everything stays in a temporary folder."""

import argparse
import collections
import hashlib
import heapq
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(f'{root}/scripts')
from ports import free_port # noqa: E402


def options():
    a = argparse.ArgumentParser(usage=__doc__.splitlines()[1].split(': ')[1])
    a.add_argument('millrace')
    a.add_argument('photos')
    a.add_argument('--rounds', type=int, default=3)
    a.add_argument('--gbit', type=float, default=1)
    a.add_argument('--rtt', type=float, default=20)
    a.add_argument('--shard-mb', type=int, default=32)
    a.add_argument('--times', type=int, default=4)
    a.add_argument('--work')
    a = a.parse_args()
    a.millrace = os.path.abspath(a.millrace)
    return a


class Shards:
    """Tar shards of the pictures, and where each record's parts lie: part[i] = [(shard, at, size), ...]."""

    def __init__(self, photos, folder, shard_bytes):
        self.folder, self.size, self.part = folder, [], []
        os.makedirs(folder, exist_ok=True)
        classes = sorted(os.listdir(photos))
        files = [(c, f) for c in range(len(classes)) for f in sorted(os.listdir(f'{photos}/{classes[c]}'))]
        files.sort(key=lambda cf: hash_of(cf[1]))  # classes lie beside each other in no shard
        tar, labels = None, ''
        for c, name in files:
            if tar is None:
                path = f'{folder}/p-{len(self.size):04d}.tar'
                tar = tarfile.open(path, 'w', format=tarfile.USTAR_FORMAT)
            label = os.path.join(folder, 'label')
            with open(label, 'w') as f:
                f.write(str(c))
            parts = []
            for source, ext in ((f'{photos}/{classes[c]}/{name}', 'jpg'), (label, 'cls')):
                size = os.path.getsize(source)
                parts.append((len(self.size), tar.offset + 512, size))
                tar.add(source, f'{len(self.part):07d}.{ext}')
            self.part.append(parts)
            if tar.offset > shard_bytes:
                tar.close()
                self.size.append(os.path.getsize(path))
                tar = None
        if tar is not None:
            tar.close()
            self.size.append(os.path.getsize(path))
        os.remove(label)
        self.names = 'p-{0000..%04d}.tar' % (len(self.size) - 1)


def hash_of(name):
    return hashlib.sha256(name.encode()).digest()


def start_nginx(folder, www):
    for _ in range(20):
        port = free_port()
        with open(f'{folder}/nginx.conf', 'w') as conf:
            conf.write(f'''daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 2048; }}
http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000; client_body_temp_path {folder}/t1;
proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
server {{ listen 127.0.0.1:{port}; root {www}; }} }}''')
        server = subprocess.Popen(['nginx', '-c', f'{folder}/nginx.conf', '-e', f'{folder}/nginx.log'], stderr=subprocess.DEVNULL)
        for _ in range(100):
            if server.poll() is not None:
                break
            try:
                socket.create_connection(('127.0.0.1', port), 1).close()
                return server, port
            except OSError:
                time.sleep(0.05)
    sys.exit('remote: nginx does not start')


def first(process):
    """Lets the link and the server have a processor when they want one, if this user may; they need a tenth of one."""
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, -20)
    except PermissionError:
        pass


class Link:
    def __init__(self, folder, port, gbit, rtt):
        program = f'{folder}/paced_link'
        subprocess.run(['cc', '-O2', '-o', program, f'{root}/bench/paced_link.c'], check=True)
        self.process = subprocess.Popen([program, str(port), str(gbit), str(rtt)], stdout=subprocess.PIPE, text=True)
        first(self.process)
        self.port, self.counts_port = map(int, self.process.stdout.readline().split())

    def counts(self):
        """What passed since the last call."""
        with socket.create_connection(('127.0.0.1', self.counts_port)) as s:
            return json.loads(s.makefile().read())


def environment(folder):
    return {k: v for k, v in os.environ.items() if not k.lower().endswith('_proxy')} | {'HOME': folder, 'MILLRACE_PEER_TOKEN': 'a-token-for-this-run'}


def run_together(millrace, graphs, folder):
    processes = [subprocess.Popen([millrace, 'run', graph], env=environment(folder), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for graph in graphs]
    for process, graph in zip(processes, graphs):
        text = process.communicate()[0]
        if process.returncode:
            sys.exit(f'remote: {graph}\n{text}')


def run(millrace, graph, folder):
    """Returns the wall seconds, the processor seconds and what was printed."""
    env = environment(folder)
    before, begin = os.times(), time.monotonic()
    done = subprocess.run([millrace, 'run', graph], env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wall, after = time.monotonic() - begin, os.times()
    if done.returncode:
        sys.exit(f'remote: {graph}\n{done.stdout}')
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used, done.stdout


# ---- caches by simulation ----

def block_uses(shards, order, block):
    """The blocks that the records of a ledger use, one after the other."""
    uses = []
    for record in order:
        for shard, at, size in shards.part[record]:
            uses += [(shard, k) for k in range(at // block, (at + size - 1) // block + 1)] if size else []
    return uses


def belady_hits(uses, room):
    """Hits if the block whose next use is furthest away goes; a new one may be the one that goes."""
    following, after = {}, [0] * len(uses)
    for i in range(len(uses) - 1, -1, -1):
        after[i] = following.get(uses[i], len(uses) + i)
        following[uses[i]] = i
    kept, heap, hits = {}, [], 0
    for i, block in enumerate(uses):
        hits += block in kept
        kept[block] = after[i]
        heapq.heappush(heap, (-after[i], block))
        while len(kept) > room:
            at, other = heapq.heappop(heap)
            if kept.get(other) == -at:
                del kept[other]
    return hits


def lru_hits(uses, room):
    kept, hits = collections.OrderedDict(), 0
    for block in uses:
        if block in kept:
            hits += 1
            kept.move_to_end(block)
        else:
            kept[block] = True
            if len(kept) > room:
                kept.popitem(last=False)
    return hits


# ---- figures ----

def main():
    a = options()
    work = a.work or tempfile.mkdtemp(prefix='remote-')
    os.makedirs(work, exist_ok=True)
    shards = Shards(f'{a.photos}/train', f'{work}/www', a.shard_mb << 20)
    n = len(shards.size)
    for i in range(n * (a.times - 1)):
        os.link(f'{work}/www/p-{i % n:04d}.tar', f'{work}/www/p-{n + i:04d}.tar')
    shards.all = 'p-{0000..%04d}.tar' % (n * a.times - 1)
    data = sum(shards.size)
    nginx, port = start_nginx(work, f'{work}/www')
    first(nginx)
    link = Link(work, port, a.gbit, a.rtt)
    try:
        measure(a, work, shards, data * a.times, f'http://127.0.0.1:{link.port}/{shards.all}', link)
    finally:
        link.process.kill()
        nginx.kill()
        if not a.work:
            shutil.rmtree(work)


def measure(a, work, shards, data, url, link):
    nominal = a.gbit * 1e9 / 8
    median = statistics.median
    fields = 'fields=jpg:image,cls:label'
    print(f'{len(shards.size) * a.times} shards, {len(shards.part) * a.times} records, {data / 1e6:.0f} MB; {a.gbit:g} Gbit/s, {a.rtt:g} ms')

    def tail(epochs=1, decode=False):
        return (f'! shuffle seed=3 epochs={epochs} ' + ('! decode ! resized-crop 224 ' if decode else '') +
                '! batch 64 workers=2 ! null')

    run(a.millrace, f'tar files="{work}/www/{shards.all}" {fields} index=index {tail()}', work)
    link.counts()
    run(a.millrace, f'tar files="{url}" {fields} index=index-first {tail()}', work)
    with_index = link.counts()
    run(a.millrace, f'tar files="{url}" {fields} index=index-c cache=first cache-size=100GB {tail()}', work)
    with_cache = link.counts()
    peers = [f'127.0.0.1:{free_port()}' for _ in range(2)]
    run_together(a.millrace, [f'tar files="{url}" {fields} index=index-p{i} cache=peer-{i} cache-size=100GB peers={",".join(peers)} peer={peers[i]} '
                              f'{tail(1).replace("shuffle", f"shuffle shard={i}/2")}' for i in range(2)], work)
    with_peers = link.counts()
    run(a.millrace, f'tar files="{url}" {fields} index=index-r cache=whole cache-size=100GB {tail()}', work)
    link.counts()

    ceiling, cold, cold_wall, local, cached, starts = [], [], [], [], [], []
    local_d, cached_d, cpu_local, cpu_cached = [], [], [], []
    for _ in range(a.rounds):
        names = [part for i in range(len(shards.size) * a.times)
                 for part in ('-o', '/dev/null', url.replace(shards.all, f'p-{i:04d}.tar'))]
        subprocess.run(['curl', '-s', '--no-progress-meter', '--fail', '--parallel', '--parallel-immediate', '--parallel-max', '16'] + names, check=True)
        c = link.counts()
        ceiling.append(c['bytes'] / c['seconds'])
        wall, _, _ = run(a.millrace, f'tar files="{url}" {fields} index=index-r {tail()}', work)
        c = link.counts()
        cold.append(c['bytes'] / c['seconds'])
        cold_wall.append(c['bytes'] / wall)
        for decode, here, there in ((False, local, cached), (True, local_d, cached_d)):
            w, cpu, _ = run(a.millrace, f'tar files="{work}/www/{shards.all}" {fields} index=index {tail(1, decode)}', work)
            w3, cpu3, _ = run(a.millrace, f'tar files="{work}/www/{shards.all}" {fields} index=index {tail(3, decode)}', work)
            here.append(((w3 - w) / 2, (cpu3 - cpu) / 2, w))
            source = f'tar files="{url}" {fields} index=index-r cache=whole cache-size=100GB'
            w, cpu, _ = run(a.millrace, f'{source} {tail(1, decode)}', work)
            w3, cpu3, _ = run(a.millrace, f'{source} {tail(3, decode)}', work)
            there.append(((w3 - w) / 2, (cpu3 - cpu) / 2, w))
            c = link.counts()
            cached_text = f'{c["requests"]} requests, {c["bytes"]} bytes'

    def of(rows, i):
        return median(row[i] for row in rows)

    top = median(ceiling)
    print(f'link by curl, 16 connections      {top / 1e6:7.1f} MB/s, {100 * top / nominal:5.1f} % of nominal')
    print(f'cold epoch, first to last byte    {median(cold) / 1e6:7.1f} MB/s, {100 * median(cold) / top:5.1f} % of curl, '
          f'{100 * median(cold) / nominal:.1f} % of nominal')
    print(f'cold epoch, wall of the process   {median(cold_wall) / 1e6:7.1f} MB/s, {100 * median(cold_wall) / top:5.1f} % of curl')
    for what, c in (('', with_index), (', with a cache', with_cache), (', two peers', with_peers)):
        print(f'{"first use, indexes made too" + what:<41}: {c["bytes"] / c["seconds"] / 1e6:5.1f} MB/s, {c["bytes"] / data:.3f} times the data crossed the link')
    for name, here, there in (('bytes alone', local, cached), ('decode and resized-crop', local_d, cached_d)):
        print(f'full cache, {name}: an epoch {of(there, 0):.3f} s, local {of(here, 0):.3f} s, {of(there, 0) / of(here, 0):.3f} times; '
              f'processor {of(there, 1):.2f} and {of(here, 1):.2f} s; one epoch with start {of(there, 2):.3f} and {of(here, 2):.3f} s')
    print(f'  the link meanwhile: {cached_text}')

    epochs, data, url = 4, data // a.times, url.replace(shards.all, shards.names)
    for block in (65536, 16384):
        room = data // 2
        shutil.rmtree(f'{work}/half', ignore_errors=True)
        graph = (f'tar files="{url}" {fields} index=index-r cache=half cache-size={room} cache-block={block} '
                 f'! shuffle seed=3 epochs={epochs} ! batch 64 ! ledger order')
        _, _, text = run(a.millrace, graph, work)
        order = [int(line.split()[2]) for line in open(f'{work}/order')]
        uses = block_uses(shards, order, block)
        hits = re.search(r'the cache had (\d+) of (\d+) blocks', text)
        ours = int(hits[1]), int(hits[2])
        best, lru = belady_hits(uses, room // block), lru_hits(uses, room // block)
        print(f'half of the data in blocks of {block}: {ours[0]} hits of {ours[1]} uses ({100 * ours[0] / ours[1]:.2f} %), '
              f"Belady's rule {best} of {len(uses)} ({100 * best / len(uses):.2f} %), least recently used {100 * lru / len(uses):.2f} %")
    link.counts()


main()
