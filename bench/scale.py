#!/usr/bin/env python3
# usage: bench/scale.py [--table FILE.json] [--ranks N] [--stages P] [--microbatches M] [--check]
# A simulated job of 1,024 ranks from a table of what one rank, link and disk do here: step time, the pipeline's bubble,
# checkpoint time, and where it stops scaling.  Nothing of it has run on so many ranks.  The assumptions:
#   compute  a rank's step takes what `millrace bench step` measured, a backward pass twice a forward one; each rank and
#            step is slower by |N(0, spread)| of that (3 % if the table has none), and a step waits for the slowest rank;
#            weak: the same pictures a rank; strong: as many in all as 64 ranks have, and time as pictures
#   link     one rank a link, full duplex, no congestion: n messages of b bytes take n * latency + b / bandwidth
#   gradient f32, exchanged as all_reduce does between processes: a part to each rank, the sums back, not overlapped
#   pipeline 1F1B over equal stages of layers; a stage sends one activation of the microbatch forward and back
#   disk     one a host of 8 ranks; weights and two slots are cut among all ranks, each writes its part and waits for fsync
#   table    measured when it is not given: compute by the program, the link on loopback, the disk in the working folder
# --table FILE: its keys are those of the line "table"; --check: the simulation against what is known, and nothing else.
import argparse
import json
import os
import random
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOST = 8  # ranks that share a disk


def measure_compute():
    program = os.environ.get('MILLRACE', os.path.join(ROOT, 'build/release/millrace'))
    line = subprocess.run([program, 'bench', 'step', '--json', '--batch', '16', '--threads', '1', '--steps', '5'],
                          check=True, capture_output=True, text=True).stdout
    row = json.loads(line)
    return {'step_s': row['step_s'], 'parameters': row['parameters'], 'batch': row['batch']}


def read_all(s, n):
    while n:
        n -= len(s.recv(min(n, 1 << 20)) or exit('scale: the link ended'))


def measure_link(size=1 << 26, turns=200):
    server = socket.create_server(('127.0.0.1', 0))

    def answer():
        s = server.accept()[0]
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(turns):
            read_all(s, 8)
            s.sendall(bytes(8))
        read_all(s, size)
        s.sendall(bytes(8))

    thread = threading.Thread(target=answer)
    thread.start()
    s = socket.create_connection(server.getsockname())
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begun = time.monotonic()
    for _ in range(turns):
        s.sendall(bytes(8))
        read_all(s, 8)
    latency = (time.monotonic() - begun) / turns / 2
    begun = time.monotonic()
    s.sendall(bytes(size))
    read_all(s, 8)
    seconds = time.monotonic() - begun
    thread.join()
    return {'latency_s': latency, 'link_bytes_s': size / seconds}


def measure_disk(size=1 << 27):
    with tempfile.NamedTemporaryFile(dir='.') as f:
        begun = time.monotonic()
        f.write(os.urandom(size))
        f.flush()
        os.fsync(f.fileno())
        seconds = time.monotonic() - begun
        begun = time.monotonic()
        f.write(b'x')
        f.flush()
        os.fsync(f.fileno())
        return {'disk_bytes_s': size / seconds, 'fsync_s': time.monotonic() - begun}


def all_reduce(table, ranks, size):
    if ranks == 1:
        return 0.0
    return 2 * ((ranks - 1) * table['latency_s'] + size * (ranks - 1) / ranks / table['link_bytes_s'])


def pipeline(stages, microbatches, forward, backward, send):
    """Seconds of 1F1B: the work of every stage in its order, each begun when its input has come."""
    order = []
    for p in range(stages):
        warm = min(stages - p, microbatches)
        work = [('f', m) for m in range(warm)]
        for m in range(microbatches):
            work.append(('b', m))
            if warm + m < microbatches:
                work.append(('f', warm + m))
        order.append(work)
    ended, at, free, left = {}, [0] * stages, [0.0] * stages, 2 * stages * microbatches
    while left:
        for p in range(stages):
            while at[p] < len(order[p]):
                kind, m = order[p][at[p]]
                first, before = (p == 0, p - 1) if kind == 'f' else (p == stages - 1, p + 1)
                needs = (None if first else (kind, before, m)) if kind == 'f' or not first else ('f', p, m)
                if needs and needs not in ended:
                    break
                come = ended[needs] + (send if needs[1] != p else 0) if needs else 0.0
                free[p] = ended[kind, p, m] = max(free[p], come) + (forward if kind == 'f' else backward)
                at[p] += 1
                left -= 1
    return max(free)


def step(table, ranks, stages, microbatches, share, draw):
    """Seconds of a step and its bubble; each replica has `share` of the pictures that the table is for."""
    replicas = ranks // stages
    slowest = max(1 + abs(draw.gauss(0, table['spread'])) for _ in range(ranks))
    compute = table['step_s'] * share * slowest
    size = 4 * table['parameters'] / stages
    if stages == 1:
        return compute + all_reduce(table, replicas, size), 0.0
    work = compute / stages / microbatches  # of one stage on one microbatch
    send = table['latency_s'] + table['activation_bytes'] * share / microbatches / table['link_bytes_s']
    seconds = pipeline(stages, microbatches, work / 3, work * 2 / 3, send)
    busy = work * microbatches
    return seconds + all_reduce(table, replicas, size), (seconds - busy) / busy


def checkpoint(table, ranks):
    size = 3 * 4 * table['parameters'] / ranks * min(HOST, ranks)
    return size / table['disk_bytes_s'] + table['fsync_s'] + ranks * table['latency_s']  # rank 0 hears from all


def check():
    for p in (2, 4, 8):
        for m in (p, 2 * p, 16 * p):
            bubble = pipeline(p, m, 1.0, 2.0, 0.0) / (3.0 * m) - 1
            assert abs(bubble - (p - 1) / m) < 1e-9, (p, m, bubble)
    table = {'latency_s': 0.0, 'link_bytes_s': 100.0}
    assert all_reduce(table, 2, 100) == 1.0 and abs(all_reduce(table, 1000, 100) - 2) < 0.01
    assert pipeline(1, 5, 1.0, 2.0, 0.0) == 15.0
    assert pipeline(2, 1, 1.0, 2.0, 0.5) == 7.0  # a forward, its message, and the way back


def print_scaling(table, most, stages, microbatches, weak):
    print(f'{"weak" if weak else "strong"}, {stages} stages\n'
          f'{"ranks":>6} {"step ms":>9} {"images/s":>10} {"of ideal":>8} {"bubble":>7} {"checkpoint ms":>13}')
    ranks, before, one, ends = stages, 0.0, table['batch'] / table['step_s'], None
    while ranks <= most:
        share = 1.0 if weak else 64 / (ranks // stages)
        draw = random.Random(ranks)
        rows = [step(table, ranks, stages, microbatches, share, draw) for _ in range(20)]
        seconds = sum(r[0] for r in rows) / len(rows)
        rate = table['batch'] * share * (ranks // stages) / seconds
        print(f'{ranks:6} {1e3 * seconds:9.2f} {rate:10.0f} {rate / one / ranks:8.1%} {rows[0][1]:7.1%} '
              f'{1e3 * checkpoint(table, ranks):13.1f}')
        if before and rate < 1.5 * before and ends is None:
            ends = ranks
        before = rate
        ranks *= 2
    print(f'stops scaling at {ends} ranks, which make less than 1.5 times the images/s of {ends // 2}' if ends
          else f'scales to {most} ranks')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--table')
    p.add_argument('--ranks', type=int, default=1024)
    p.add_argument('--stages', type=int, default=4)
    p.add_argument('--microbatches', type=int, default=16)
    p.add_argument('--check', action='store_true')
    o = p.parse_args()
    check()
    if o.check:
        return
    if o.table:
        table = {'spread': 0.03, **json.load(open(o.table))}
    else:
        table = {**measure_compute(), **measure_link(), **measure_disk(), 'spread': 0.03}
        table['activation_bytes'] = table['batch'] * 64 * 384 * 4  # tokens and width of the recipe's model, f32
    for line in open(__file__).read().split('\n')[2:12]:
        print(line)
    print('table', json.dumps(table))
    for weak in (True, False):
        for stages in (1, o.stages):
            print_scaling(table, o.ranks, stages, o.microbatches, weak)


if __name__ == '__main__':
    main()
