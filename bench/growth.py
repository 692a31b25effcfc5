#!/usr/bin/env python3
# usage: bench/growth.py [--work] [--times] [PROGRAM]
# Measures what ten times as much costs: each axis at four sizes, the exponent of a power of the size fitted to what each
# size takes more than the smallest, compared with what is allowed.  Peak memory and bytes read by default, as .ci/run does;
# --work: also the instructions, counted by valgrind, where it is installed; --times: also seconds, which decide nothing.
import io
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORDS = [w for w in sys.argv[1:] if not w.startswith('-')]
PROGRAM = os.path.abspath(WORDS[0] if WORDS else os.path.join(ROOT, 'build/release/millrace'))


def write(name, text):
    with open(name, 'w') as f:
        f.write(text)
    return name


def records(n):
    return 'run', write('g.mr', 'range 2000 ! shuffle seed=1' + ' ! repeat 1' * n + ' ! batch 256 ! null\n')


def steps(n):
    return 'run', write('g.mr', 'count n=1000 bytes=64' + ' ! identity' * n + ' ! null\n')


def unnamed(n):
    return 'graph', write('g.mr', 'count n=1 bytes=64' + ' ! identity' * n + ' ! null\n')


def processes(n):
    lines = ['process src { count n=1 bytes=4096 name=i0 }', 'process end { null name=z }']
    lines += [f'process p{i} {{ identity name=i{i} }}' for i in range(1, n + 1)]
    lines += [f'i{i - 1}. ! i{i}.' for i in range(1, n + 1)] + [f'i{n}. ! z.']
    return 'run', write('g.mr', '\n'.join(lines) + '\n')


def npy(name, dtype, shape, data):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    with open(name, 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00' + len(head).to_bytes(2, 'little') + head.encode() + data)


def mix(n, source):
    return 'run', write('g.mr', ''.join(f'{source(i)} ! m.\n' for i in range(n)) + 'mix name=m ! shuffle seed=1 ! batch 8 ! null\n')


def inputs(n):
    return mix(n, lambda i: 'range 20')


def tars(n):
    with tarfile.open('0.tar', 'w') as t:
        for k in range(4):
            member = tarfile.TarInfo(f'{k}.bin')
            member.size = 100
            t.addfile(member, io.BytesIO(bytes(100)))
    for i in range(1, n):
        shutil.copy('0.tar', f'{i}.tar')
    return mix(n, lambda i: f'tar {i}.tar fields=bin:value index=beside')


def arrays(n):
    for i in range(n):
        npy(f'{i}.npy', '<i8', '(4,)', bytes(32))
    return mix(n, lambda i: f'npy fields=value:{i}.npy')


def shards(n):
    tars(n)
    return 'run', write('g.mr', f'tar {{0..{n - 1}}}.tar fields=bin:value index=beside ! shuffle seed=1 ! batch 64 ! null\n')


def class_words(n):
    write('t.csv', 'x,label\n' + ''.join(f'{i},word {i // 2}\n' for i in range(2 * n)))
    return 'run', write('g.mr', 'table t.csv fields=x,label:label:class index=beside ! shuffle seed=1 ! batch 64 ! null\n')


def class_names(n):
    npy('x.npy', '|u1', '(64, 2, 2, 3)', bytes(768))
    npy('y.npy', '<i4', '(64,)', bytes(256))
    write('names.txt', ''.join(f'class {i}\n' for i in range(n)))
    return 'run', write('g.mr', f'npy images=x.npy labels=y.npy classes={n} names=names.txt ! shuffle seed=1 ! batch 8 ! null\n')


def far_step(n):
    return 'batch', write('g.mr', 'range 1000000000000000 ! shuffle seed=1 ! batch 64 ! null\n'), '--step', str(n), '--out', 'b.npz'


def window(n):
    return 'run', write('g.mr', f'range {n} ! to-iter-dataset ! window-shuffle {n} seed=1 ! batch 64 ! null\n')


def bad_records(n):
    npy('x.npy', '|u1', f'({2 * n}, 2, 2, 3)', bytes(24 * n))
    npy('y.npy', '<i4', f'({2 * n},)', b'\x4d\0\0\0\0\0\0\0' * n)
    return 'run', (f'npy images=x.npy labels=y.npy classes=10 on-bad=quarantine:{n} quarantine={n}.jsonl'
                   f' ! shuffle seed=1 ! batch 64 ! null')


def metrics(n):
    os.makedirs('r', exist_ok=True)
    with open('r/metrics.jsonl', 'w') as f:
        for i in range(1, n + 1):
            record = {'kind': 'step', 'step': i, 'total_steps': n + 1, 'epoch': 1, 'loss': 1.5, 'filled': 'x' * 100}
            f.write(json.dumps(record, separators=(',', ':')) + '\n')


def runs(n):
    metrics(n)
    return 'runs', 'r', 'r'


def top(n):
    metrics(n)
    return 'top', 'r', '--once'


def jaxpr_text(n):
    lines = ''.join(f' b{i}:f32[4,4] = mul b{i - 1} b{i - 1}\n' for i in range(1, n + 1))
    return write('g.jaxpr', '{ lambda ; b0:f32[4,4]. let\n' + lines + f'  in (b{n},) }}\n')


def parsed(n):
    return 'jaxpr', jaxpr_text(n)


def differentiated(n):
    return 'jaxpr', write('g.jaxpr', open(jaxpr_text(n)).read().replace(f'(b{n},)', '(s,)').replace(
        '  in (s', f' s:f32[] = reduce_sum[axes=(0, 1)] b{n}\n  in (s')), '--grad'


def compiled(n):
    return 'jaxpr', jaxpr_text(n), '--compiled'


def layers(n):
    return 'mem', 'step', 'model=vit', f'layers={n}', 'embed=32', 'heads=2', 'mlp=64', '--batch', '2', '--no-run'


def record_of_many(n):
    return 'who', write('g.mr', f'range {n} ! shuffle seed=1 epochs=1000 ! batch 1000 ! null\n'), '--record', str(n // 3)


def epochs_of_record(n):
    return 'who', write('g.mr', f'range 1000000000 ! shuffle seed=1 epochs={n} ! batch 1000 ! null\n'), '--record', '7'


def record_of_mix(n):
    mix(n, lambda i: f'range {100 * i} stop={100 * i + 100}')
    text = open('g.mr').read().replace('shuffle seed=1', 'shuffle seed=1 epochs=20')
    return 'who', write('g.mr', text), '--record', '7'


def fields(n):
    for i in range(n):
        npy(f'f{i}.npy', '<i8', '(64,)', bytes(512))
    return 'run', 'npy fields=' + ','.join(f'f{i}:f{i}.npy' for i in range(n)) + ' ! shuffle seed=1 ! batch 8 ! null'


def variables(n):
    return 'graph', write('g.mr', ''.join(f'let v{i}={i}\n' for i in range(n)) + 'range 8 ! batch 8 ! null\n')


def lines_of_graphs(n):
    return 'run', write('g.mr', 'range 8 ! batch 8 ! null\n' * n)


def folder(n):
    for i in range(n):
        os.makedirs(f'd/{i % 10}', exist_ok=True)
        write(f'd/{i % 10}/{i}.png', '')
    return 'graph', write('g.mr', 'folder d ! shuffle seed=1 ! decode ! resized-crop ! batch 8 ! null\n')


def index(n):
    with tarfile.open('t.tar', 'w') as t:
        for k in range(n):
            member = tarfile.TarInfo(f'{k}.bin')
            member.size = 8
            t.addfile(member, io.BytesIO(bytes(8)))
    return 'run', 'tar t.tar fields=bin:value index=beside ! shuffle seed=1 ! batch 64 ! null'


def indexed_step(n):
    return 'run', f'range {n} ! shuffle seed=1 ! batch 64 ! null'


def kept_labels(n):
    return 'run', write('g.mr', 'range 10000 ! filter ' + ','.join(str(i) for i in range(n)) + ' ! batch 64 ! null\n')


def left_out_records(n):
    write('skip.txt', ''.join(f'{3 * i}\n' for i in range(n)))
    return 'run', 'range 1000 skip-records=@skip.txt ! shuffle seed=1 ! batch 64 ! null'


def compared_runs(n):
    metrics(20)
    for i in range(n):
        shutil.copytree('r', f'r{i}', dirs_exist_ok=True)
    return ('runs', *[f'r{i}' for i in range(n)])


def history(n):
    metrics(n)
    graph = 'range 1000000 ! shuffle seed=1 epochs=100 ! batch 8 ! null\n'
    write('r/graph.mr', graph), write('r/settings.txt', '')
    with open('r/history.jsonl', 'w') as f:
        for i in range(n):
            f.write(json.dumps({'from': 100 * i, 'graph': graph, 'settings': f'batch.drop-remainder={i % 2}\n', 'carry': '', 'data': '', 'plugins': ''}) + '\n')
    return 'who', 'r', '--step', str(100 * n - 50)


# axis, sizes, exponents allowed of memory, bytes read and instructions, and the most kB that one more may take
AXES = [
    ('stages of records', records, (100, 200, 400, 800), 1.2, 1.2, 1.6, 400),
    ('stages with threads', steps, (50, 100, 200, 400), 1.2, 1.2, 1.6, 100),
    ('stages without names', unnamed, (250, 500, 1000, 2000), 1.2, 1.2, 1.6, 100),
    ('processes', processes, (4, 8, 16, 32), 1.4, 2.2, None, 300),
    ('inputs of a mix', inputs, (500, 1000, 2000, 4000), 1.2, 1.2, 1.6, 30),
    ('sources of a mix, tar', tars, (125, 250, 500, 1000), 1.2, 1.2, None, 60),
    ('sources of a mix, npy', arrays, (125, 250, 500, 1000), 1.2, 1.2, None, 80),
    ('shards of a source', shards, (500, 1000, 2000, 4000), 1.2, 1.2, None, 8),
    ('words of a column as classes', class_words, (1250, 2500, 5000, 10000), 1.2, 1.2, 1.4, 2),
    ('names of classes', class_names, (12500, 25000, 50000, 100000), 1.2, 1.2, 1.2, 0.3),
    ('step that is sought', far_step, (10 ** 3, 10 ** 6, 10 ** 9, 10 ** 12), 0.2, 0.2, 0.2, 0.001),
    ('records of a held window', window, (250000, 500000, 1000000, 2000000), 1.2, 1.2, 1.2, 0.08),
    ('bad records', bad_records, (5000, 10000, 20000, 40000), 1.2, 1.2, 1.2, 1),
    ('lines of metrics, runs', runs, (100000, 200000, 400000, 800000), 0.2, 0.2, None, 0.05),
    ('lines of metrics, top --once', top, (100000, 200000, 400000, 800000), 0.2, 0.2, None, 0.05),
    ('equations of a jaxpr, printed', parsed, (500, 1000, 2000, 4000), 1.2, 1.2, 1.3, 4),
    ('equations, differentiated', differentiated, (500, 1000, 2000, 4000), 1.2, 1.2, 1.3, 8),
    ('equations, compiled', compiled, (500, 1000, 2000, 4000), 1.2, 1.2, 1.5, 10),
    ('layers of a model, planned', layers, (4, 8, 16, 32), 1.2, 1.2, 1.6, 4000),
    ('records, who --record', record_of_many, (10 ** 6, 10 ** 7, 10 ** 8, 10 ** 9), 0.2, 0.2, 0.2, 0.001),
    ('epochs, who --record', epochs_of_record, (1250, 2500, 5000, 10000), 1.2, 1.2, 1.2, 0.3),
    ('inputs of a mix, who --record', record_of_mix, (500, 1000, 2000, 4000), 1.2, 1.2, 1.6, 30),
    ('fields of records', fields, (2, 4, 8, 14), 1.2, 1.2, 1.4, 500),
    ('variables of a graph', variables, (500, 1000, 2000, 4000), 1.2, 1.2, 1.6, 4),
    ('graphs in a file', lines_of_graphs, (50, 100, 200, 400), 1.2, 1.2, 1.6, 1000),
    ('files of a folder', folder, (1000, 2000, 4000, 8000), 1.2, 1.2, 1.3, 2),
    ('records of a shard, indexed', index, (2500, 5000, 10000, 20000), 1.2, 1.2, 1.2, 0.5),
    ('records of an epoch, run', indexed_step, (25000, 50000, 100000, 200000), 0.2, 0.2, 1.1, 0.05),
    ('labels that filter keeps', kept_labels, (1000, 2000, 4000, 8000), 1.2, 1.2, 1.2, 0.5),
    ('records left out', left_out_records, (12500, 25000, 50000, 100000), 1.2, 1.2, 1.2, 0.2),
    ('runs compared', compared_runs, (100, 200, 400, 800), 1.2, 1.2, 1.3, 30),
    ('resumes of a run, who --step', history, (250, 500, 1000, 2000), 1.2, 1.2, 1.3, 5),
]


def bytes_read():
    with open('/proc/self/io') as f:  # with those of the children that have been waited for
        return int(f.readline().split()[1])


def measure(words):
    """Peak kB of the program or a process of its own, bytes read, seconds."""
    began, before = time.monotonic(), bytes_read()
    child = os.posix_spawn(PROGRAM, [PROGRAM, *words], os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, 'said', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)])
    status, use = os.wait4(child, 0)[1:]
    if status:
        sys.exit(f'growth: {" ".join(words)[:80]}: status {status}: {open("said").read()[:300]}')
    return use.ru_maxrss, bytes_read() - before, time.monotonic() - began


def instructions(words):
    out = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', PROGRAM, *words],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    found = [line.split(':')[1] for line in out.splitlines() if 'Collected' in line]
    return int(found[0]) if found else None


def exponent(sizes, took, least):
    """The slope of log(took - what the smallest takes) over log(size); 0 where that never exceeds `least`."""
    more = [(math.log(n - sizes[0]), math.log(t - took[0])) for n, t in zip(sizes[1:], took[1:]) if t - took[0] > least]
    if len(more) < 2:
        return 0.0
    x, y = (sum(p[k] for p in more) / len(more) for k in (0, 1))
    return sum((a - x) * (b - y) for a, b in more) / sum((a - x) ** 2 for a, b in more)


def grown(sizes, took, memory, read, most_kb):
    """How memory and bytes read grow, and the kB of one more, each beside what is allowed."""
    kb, io = ([t[k] for t in took] for k in (0, 1))
    one = (kb[-1] - kb[0]) / (sizes[-1] - sizes[0])
    return [(exponent(sizes, kb, 4096), memory), (exponent(sizes, io, 1 << 22), read), (one, most_kb)]


def exceeds(found):
    return any(is_now > most for is_now, most in found)


def shared_memory():
    """A folder whose files need not reach a disk, as each index of a thousand would; None without one."""
    try:
        room = os.statvfs('/dev/shm')
    except OSError:
        return None
    return '/dev/shm' if room.f_bavail * room.f_frsize > 1 << 30 else None


def main():
    bad = 0
    work, times = '--work' in sys.argv, '--times' in sys.argv
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(f'{"axis":30} {"sizes":>20} {"memory":>7} {"of one, kB":>10} {"read":>6}' + ' instructions' * work)
    for name, words, sizes, memory, read, most_work, most_kb in AXES:
        with tempfile.TemporaryDirectory(dir=shared_memory()) as folder:
            os.chdir(folder)
            took = [measure(words(n)) for n in sizes]
            # A peak has what happened to be on its way: where it is too much, the least of three runs counts.
            for _ in range(2):
                if not exceeds(grown(sizes, took, memory, read, most_kb)):
                    break
                took = [tuple(map(min, t, measure(words(n)))) for t, n in zip(took, sizes)]
            counts = [instructions(words(n)) for n in sizes] if work and most_work else None
            os.chdir('/')
        found = grown(sizes, took, memory, read, most_kb)
        line = f'{name:30} {sizes[0]:>9} to {sizes[-1]:>7} {found[0][0]:7.2f} {found[2][0]:10.3g} {found[1][0]:6.2f}'
        if counts and None not in counts:
            found.append((exponent(sizes, counts, 0), most_work))
            line += f' {found[-1][0]:12.2f}'
        if times:
            line += '  ' + ', '.join(f'{t[2]:.2f} s' for t in took)
        wrong = exceeds(found)
        bad += wrong
        print(line + ('  MORE THAN ALLOWED: ' + ', '.join(f'{m:g}' for _, m in found)) * wrong, flush=True)
    print(f'growth: {len(AXES)} axes, {bad} more than allowed')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
