#!/usr/bin/env python3
# usage: scripts/check-docs.py [-v] [DOCUMENT...]
# Runs every command and graph that README.md and docs/*.md show in an indented or fenced block, one after the other as
# a newcomer types them, each document in an empty folder beside the tree's examples/ and scripts/.  Fails if a
# command fails, if it prints other lines than the document quotes after it, or if one of the lists below names
# a command that no document has any more.  The data is made up, in CIFAR-10's layout and in .npy files; models are small.
import concurrent.futures
import io
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib

from ports import free_ports

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_S = 150  # no command takes a tenth of it; a hang is told instead of waited for

# Commands that cannot run here: (document, how the command begins, reason).
NOT_RUN = [
    ('README.md', './millrace test', 'is the first check of .ci/run'),
    ('docs/dependencies.md', 'cmake --preset minimal', 'scripts/check-minimal.sh builds it'),
    ('docs/loading.md', "millrace doctor 'tar s3://", 'measures a bucket; test apps.doctor_store measures a server'),
    ('docs/recipes.md', 'millrace train --graph examples/bucket.mr', 'reads a bucket; scripts/check-stores.py runs it on a server'),
    ('docs/devices.md', 'millrace train --device cuda', 'needs a GPU; scripts/gpu_check.sh runs it on one'),
    ('docs/ledger.md', 'scripts/elastic.sh', 'takes minutes; tests apps.elastic and apps.train_exact are its short forms'),
]

# Commands that are ended by Ctrl-C: (document, how it begins, file that must hold a text first, the text).
# File "-" is what the command prints.  Such a command runs on while those after it run, unless it says "now".
INTERRUPTED = [
    ('docs/recipes.md', './millrace train --data', 'runs/a/metrics.jsonl', '"step":310,', 'now'),
    ('docs/recipes.md', './millrace top', '-', 'step', 'now'),
    ('docs/recipes.md', './millrace serve', '-', 'shard 1/2', 'now'),
    ('docs/processes.md', 'millrace serve', '-', 'shard 1/2', 'later'),
    ('docs/links.md', 'millrace run \'cifar10', '-', 'step', 'later'),
]

# What makes a command short: the first place that fits in each command.
TINY = 'embed=16 mlp=32 heads=2 layers=1 patch=16'
SHORTER = [
    (r'millrace train(?!.* (--resume(?!=auto)|--graph|model=mlp))', rf'\g<0> {TINY}'),
    (r'millrace train(?!.* (--resume|--epochs|--steps))', r'\g<0> --steps 20'),
    (r'--resume --epochs 2', r'--resume --steps 25'),
    (r'millrace profile', rf'\g<0> {TINY}'),
    (r'millrace mem step (--batch 128)?', r'millrace mem step --batch 8 '),
    (r'\bvit-step(?=[ \n])', rf'\g<0> {TINY}'),
    (r'source link=[^!]*! vit-step', r'\g<0> steps=5'),
    (r'(shuffle seed=1)( ! normalize ! batch 128 drop-remainder name=batches)', r'\1 epochs=0\2'),
    (r'examples/two-processes.mr', r'\g<0> layers=1 steps=30'),
]

# Labels of those records that docs/ledger.md lists, as they are in CIFAR-10.
LABELS = {15934: 1, 2344: 8, 44569: 8, 1292: 8}

COMMAND = re.compile(r'\$ |\./millrace |millrace |scripts/|cmake |export |cc |cat |head |[A-Z]+=')
GRAPH = re.compile(r'process |let |plugin ')  # a block of graph text, which runs too
verbose = '-v' in sys.argv
failures = []


def fail(where, what):
    failures.append(f'{where}: {what}')
    print(f'{where}: FAILED: {what}', flush=True)


class Command:
    def __init__(self, doc, line, text, has_prompt):
        self.doc, self.line = doc, line
        self.text, self.quoted = text[2:] if has_prompt else text, []
        self.where = f'{doc}:{line}'


def is_open(text):
    """Whether a quote of the command is still open, or its line continues."""
    return text.count("'") % 2 == 1 or text.replace('\\"', '').count('"') % 2 == 1 or text.endswith('\\')


def blocks(lines):
    """Indented and fenced blocks as lists of (number, text)."""
    block, fenced = [], False
    for number, line in enumerate(lines + [''], 1):
        if line.startswith('```'):
            fenced = not fenced
            line = ''
        elif line.startswith('    ') or fenced:
            block.append((number, line[0 if fenced else 4:]))
            continue
        if block and not line.strip():
            yield block
            block = []


def commands(doc):
    found = []
    with open(os.path.join(ROOT, doc), encoding='utf-8') as f:
        lines = f.read().split('\n')
    for block in blocks(lines):
        if GRAPH.match(block[0][1]):
            text = '\n'.join(text for _, text in block)
            found.append(Command(doc, block[0][0], f"millrace run '{text}'", False))
            continue
        prompts = any(text.startswith('$ ') for _, text in block)
        here = []
        for number, text in block:
            if here and is_open(here[-1].text):
                here[-1].text += '\n' + text
            elif (text.startswith('$ ') if prompts else COMMAND.match(text)):
                here.append(Command(doc, number, re.sub(r' +# .*', '', text), prompts))
            elif here and text.strip():
                here[-1].quoted.append(text.rstrip())
        found += here
    return found


def make_data(folder):
    """CIFAR-10's six files with pixels by a generator, and a copy where a label is spoilt and a file cut."""
    os.makedirs(f'{folder}/data/cifar-10-batches-bin')
    os.makedirs(f'{folder}/bad')
    generator = random.Random(12)
    pixels = generator.randbytes(1 << 20)
    names = [f'data_batch_{i}.bin' for i in range(1, 6)] + ['test_batch.bin']
    for k, name in enumerate(names):
        records = bytearray(pixels * (10000 * 3073 // len(pixels) + 1))[:10000 * 3073]
        records[::3073] = bytes(LABELS.get(10000 * k + i, (i * 7 + k) % 10) for i in range(10000))
        with open(f'{folder}/data/cifar-10-batches-bin/{name}', 'wb') as f:
            f.write(records)
        if name == 'data_batch_2.bin':
            records[3073 * 5934] = 77
        if name == 'data_batch_5.bin':
            del records[-10000:]
        with open(f'{folder}/bad/{name}', 'wb') as f:
            f.write(records)
    return f'{folder}/data', f'{folder}/bad'


def save_npy(path, descr, shape, values):
    header = f"{{'descr': '<{descr}', 'fortran_order': False, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}"
    header += ' ' * (-(len(header) + 11) % 64) + '\n'
    with open(path, 'wb') as f:
        f.write(b'\x93NUMPY\1\0' + struct.pack('<H', len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}{ {'f4': 'f', 'i4': 'i', 'i8': 'q'}[descr] }", *values))


def make_arrays(folder):
    """Arrays by which docs train a regression: y follows from x, and each record has some tokens."""
    os.makedirs(folder)
    generator = random.Random(12)
    x = [[generator.gauss(0, 1) for _ in range(4)] for _ in range(1000)]
    at = [0]
    for _ in x:
        at.append(at[-1] + generator.randrange(9))
    save_npy(f'{folder}/x.npy', 'f4', (1000, 4), [v for row in x for v in row])
    save_npy(f'{folder}/y.npy', 'f4', (1000,), [2 * a - 3 * b + c * d for a, b, c, d in x])
    save_npy(f'{folder}/tokens.npy', 'i4', (at[-1],), range(at[-1]))
    save_npy(f'{folder}/tokens-at.npy', 'i8', (1001,), at)
    make_shards(f'{folder}/shards', generator)
    make_pictures(f'{folder}/my-photos', generator)
    return folder


def make_pictures(folder, generator):
    """48 pictures in two folders of classes, dark and light, and some of them once more in one folder."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    os.makedirs(f'{os.path.dirname(folder)}/more-photos')
    for k, name in enumerate(('dark', 'light')):
        os.makedirs(f'{folder}/{name}')
        for i in range(24):
            rows = b''.join(b'\0' + bytes(128 * k + generator.randrange(128) for _ in range(120)) for _ in range(40))
            png = (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 40, 40, 8, 2, 0, 0, 0)) +
                   chunk(b'IDAT', zlib.compress(rows, 1)) + chunk(b'IEND', b''))
            places = [f'{folder}/{name}/{i}.png'] + [f'{os.path.dirname(folder)}/more-photos/{k}-{i}.png'] * (i < 3)
            for place in places:
                with open(place, 'wb') as f:
                    f.write(png)


def make_shards(folder, generator):
    """100 pictures (of random bytes) and their classes in each archive and each TFRecord file; tokens."""
    os.makedirs(folder)
    for k in range(4):
        with tarfile.open(f'{folder}/photos-{k:03}.tar', 'w') as archive:
            for i in range(100 * k, 100 * k + 100):
                for name, data in ((f'{i:06}.jpg', generator.randbytes(generator.randrange(4000))), (f'{i:06}.cls', b'%d' % (i % 10))):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    for k in range(2):
        with open(f'{folder}/rows-{k}.tfrecord', 'wb') as f:
            for i in range(100):
                picture = delimited(1, generator.randbytes(generator.randrange(4000)))
                f.write(framed(delimited(1, feature('image/encoded', delimited(1, picture)) +
                                         feature('image/class/label', delimited(3, bytes([8, i % 10]))))))
        with open(f'{folder}/text-{k}.bin', 'wb') as f:
            f.write(struct.pack('<10000H', *(generator.randrange(50) for _ in range(10000))))
        with open(f'{folder}/rows-{k}.csv', 'w') as f:
            f.write('size,price,kind\n' + ''.join(f'{i},{generator.random()},{generator.choice("abc")}\n' for i in range(100)))
        save_npy(f'{folder}/x.npy', 'f4', (100, 4), [generator.random() for _ in range(400)])
        save_npy(f'{folder}/id.npy', 'i8', (100,), range(100 * k, 100 * k + 100))
        with zipfile.ZipFile(f'{folder}/rows-{k}.npz', 'w') as z:
            z.write(f'{folder}/x.npy', 'x.npy'), z.write(f'{folder}/id.npy', 'id.npy')
    make_mds(f'{folder}/mds', generator)


def make_mds(folder, generator):
    """100 samples of four floats and a class."""
    os.makedirs(folder)
    config = json.dumps({'column_names': ['class', 'x'], 'column_encodings': ['int', 'ndarray:float32:4'], 'column_sizes': [8, 16]}).encode()
    samples = b''.join(struct.pack('<q4f', i % 10, *(generator.random() for _ in range(4))) for i in range(100))
    first = 4 + 4 * 101 + len(config)
    data = struct.pack('<102I', 100, *range(first, first + 24 * 101, 24)) + config + samples
    with open(f'{folder}/shard.00000.mds', 'wb') as f:
        f.write(data)
    with open(f'{folder}/index.json', 'w') as f:
        json.dump({'version': 2, 'shards': [{'format': 'mds', 'compression': None, 'zip_data': None, 'samples': 100,
                                             'raw_data': {'basename': 'shard.00000.mds', 'bytes': len(data), 'hashes': {}}}]}, f)


def delimited(number, data):
    """A field of a protobuf message."""
    n, size = len(data), b''
    while n > 127:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


def feature(name, value):
    return delimited(1, delimited(1, name.encode()) + delimited(2, value))


def framed(data):
    def masked(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    head = struct.pack('<Q', len(data))
    return head + masked(head) + data + masked(data)


class Document:
    """A document's commands in a folder of its own."""

    def __init__(self, doc, work, data, bad, arrays):
        self.doc, self.data, self.bad, self.arrays = doc, data, bad, arrays
        self.dir = os.path.join(work, os.path.basename(doc))
        self.bin = os.path.join(self.dir, '.bin')
        self.said = []  # assignments and exports so far
        self.running = []
        os.makedirs(self.bin)
        for name in ('examples', 'scripts', 'build'):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.dir, name))
        for place in (self.dir, self.bin):
            os.symlink(os.path.join(ROOT, 'build/release/millrace'), os.path.join(place, 'millrace'))
        self.commands = commands(doc)
        ports = sorted({int(p) for c in self.commands for p in re.findall(r'127\.0\.0\.1:(\d+)', c.text)})
        first = free_ports(ports[-1] - ports[0] + 2) if ports else 0
        self.port = {p: first + p - ports[0] for p in range(ports[0], ports[-1] + 2)} if ports else {}

    def shorter(self, text):
        for pattern, instead in SHORTER:
            text = re.sub(pattern, instead, text, count=1)
        return self.with_ports(text)

    def with_ports(self, text):
        """The document's ports become free ones."""
        for theirs, ours in self.port.items():
            text = text.replace(f'127.0.0.1:{theirs}', f'127.0.0.1:{ours}')
        return text

    def prepare(self, text):
        """The data appears where it is named first, so that commands before run without."""
        for word, source in (('data', self.data), ('bad', self.bad)):
            place = os.path.join(self.dir, word)
            if re.search(rf'\b({word}\b|cifar10 )', '\n'.join(self.said + [text])) and not os.path.exists(place):
                os.symlink(source, place)
        for name in os.listdir(self.arrays):
            place = os.path.join(self.dir, name)
            if name in text and not os.path.exists(place):
                os.symlink(os.path.join(self.arrays, name), place)

    def start(self, text):
        out = tempfile.TemporaryFile()
        env = dict(os.environ, PATH=f'{self.bin}:{os.environ["PATH"]}', TERM='xterm', LINES='24', COLUMNS='100',
                   XDG_CACHE_HOME=os.path.join(self.dir, '.cache'))
        script = '\n'.join(self.said + [text])
        if 'millrace top' in text:  # wants a terminal
            script = f"script -qec '{text}' /dev/null"
        child = subprocess.Popen(['bash', '-c', script], cwd=self.dir, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        child.out = out
        return child

    @staticmethod
    def output(child):
        child.out.seek(0)
        return child.out.read().decode(errors='replace')

    def wait_for(self, child, file, text):
        """Until a file, or the command's output, holds the text; False if the command ends or hangs before."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            over = child.poll() is not None
            try:
                with open(os.path.join(self.dir, file), encoding='utf-8') as f:
                    said = f.read()
            except OSError:
                said = self.output(child) if file == '-' else ''
            if text in said:
                return True
            if over:
                return False
            time.sleep(0.02)
        return False

    def stop(self, child):
        """Ctrl-C, which goes to every process of the terminal."""
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
        return self.wait(child)

    def wait(self, child):
        try:
            return child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return -1

    def run(self, c):
        if any(c.doc == doc and c.text.startswith(begin) for doc, begin, _ in NOT_RUN):
            return
        if re.match(r'export |[A-Z]+=', c.text):
            self.said.append(c.text)
            return
        began = time.monotonic()
        self.prepare(c.text)
        child = self.start(self.shorter(c.text))
        rule = next((r for r in INTERRUPTED if c.doc == r[0] and c.text.startswith(r[1])), None)
        awaited = [(rule[2], rule[3])] + [('-', self.with_ports(q)) for q in c.quoted] if rule else []
        for file, text in awaited:
            if not self.wait_for(child, file, text):
                self.stop(child)
                return fail(c.where, f'{c.text}\n  "{text}" never came in {file}:\n{self.output(child)[-2000:]}')
        if rule and rule[4] == 'later':
            self.running.append((c, child))
        else:
            self.judge(c, child, self.stop(child) if rule else self.wait(child), bool(rule))
        if not rule: # several processes may have printed, in any order
            self.compare(c, self.output(child))
        if verbose:
            print(f'{c.where}: {time.monotonic() - began:.1f} s: {c.text.splitlines()[0][:100]}', flush=True)

    def judge(self, c, child, status, interrupted):
        refused = bool(c.quoted) and c.quoted[-1].startswith('millrace: ') # the document shows a refusal
        good = (0, 130, -signal.SIGINT) if interrupted else (1, 2) if refused else (0,)
        if status not in good:
            what = 'hangs' if status == -1 else f'status {status}'
            fail(c.where, f'{c.text}\n  {what}:\n{self.output(child)[-2000:]}')

    @staticmethod
    def compare(c, output):
        """The quoted lines come in what was printed, whole and in their order."""
        lines = iter(line.rstrip() for line in output.replace('\r', '\n').split('\n'))
        for quoted in c.quoted:
            if quoted not in lines:
                return fail(c.where, f'{c.text}\n  the document quotes\n{quoted}\n  it printed\n{output[-3000:]}')

    def run_all(self):
        try:
            for c in self.commands:
                self.run(c)
        finally:
            for c, child in self.running:
                self.judge(c, child, self.stop(child), True)


def check_lists(docs, given):
    every = [c for doc in docs for c in commands(doc)]
    for rule in NOT_RUN + INTERRUPTED:
        if rule[0] in docs and not any(c.doc == rule[0] and c.text.startswith(rule[1]) for c in every):
            fail('check-docs.py', f'{rule[0]} has no command that begins "{rule[1]}" any more')
    for pattern, _ in SHORTER:
        if not given and not any(re.search(pattern, c.text) for c in every):
            fail('check-docs.py', f'no command has "{pattern}" any more')
    return len(every)


def main():
    given = [a for a in sys.argv[1:] if a != '-v']
    docs = given or ['README.md'] + sorted(f'docs/{d}' for d in os.listdir(f'{ROOT}/docs') if d.endswith('.md'))
    work = tempfile.mkdtemp(prefix='millrace-docs-')
    try:
        data, bad = make_data(work)
        arrays = make_arrays(f'{work}/arrays')
        n = check_lists(docs, given)
        documents = [Document(doc, work, data, bad, arrays) for doc in docs]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # each document has a folder of its own
            longest_first = sorted(documents, key=lambda d: -len(d.commands))
            for ran in [pool.submit(d.run_all) for d in longest_first]:
                ran.result()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f'docs: {n} commands of {len(docs)} documents, {len(NOT_RUN)} of them not run, {len(failures)} failures')
    return bool(failures)


sys.exit(main())
