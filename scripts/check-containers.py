"""Writes data sets with the libraries of their formats, and compares what millrace reads, in shuffled order, with what
those libraries read.  usage: check-containers.py MILLRACE FOLDER (an empty one)"""

import os
import random
import subprocess
import sys

import numpy

program, folder = sys.argv[1:]
os.environ['XDG_CACHE_HOME'] = os.path.join(folder, 'cache')
RECORDS, BATCH = 300, 50


def batches(graph):
    """All batches of one epoch, as dictionaries of arrays."""
    for step in range(1, RECORDS // BATCH + 1):
        out = os.path.join(folder, 'batch.npz')
        subprocess.run([program, 'batch', f'{graph} ! shuffle seed=7 ! batch {BATCH}', '--step', str(step), '--out', out],
                       check=True, stdout=subprocess.DEVNULL)
        with numpy.load(out) as arrays:
            yield dict(arrays)


def records(graph):
    """All records of one epoch, in shuffled order; a ragged field is the rows of its record."""
    for batch in batches(graph):
        for i in range(BATCH):
            yield {name: a[batch[f'{name}.offsets'][i]:batch[f'{name}.offsets'][i + 1]] if f'{name}.offsets' in batch else a[i]
                   for name, a in batch.items() if not name.endswith('.offsets')}


def compare(name, graph, expected, key):
    """expected: records as dictionaries of bytes or arrays, by the value of `key`."""
    seen = set()
    for record in records(graph):
        k = record[key].tobytes()
        want = expected[k]
        for field, value in record.items():
            if value.tobytes() != (want[field] if isinstance(want[field], bytes) else want[field].tobytes()):
                sys.exit(f'{name}: field {field} of {k!r} differs')
        seen.add(k)
    if seen != set(expected):
        sys.exit(f'{name}: {len(seen)} records, want {len(expected)}')
    print(f'{name}: {len(seen)} records alike')


def check_tar(generator):
    import webdataset

    for shard in range(3):
        with webdataset.TarWriter(os.path.join(folder, f'w-{shard}.tar')) as writer:
            for i in range(shard * 100, shard * 100 + 100):
                writer.write({'__key__': f'{"long/" * (i % 30)}{i}', 'jpg': generator.randbytes(generator.randrange(3000)), 'cls': i % 7,
                              'part.npy': numpy.full((2, 3), i, 'f4')})
    names = os.path.join(folder, 'w-{0..2}.tar')
    expected = {}
    for sample in webdataset.WebDataset(names, shardshuffle=False):
        with open(os.path.join(folder, 'array.npy'), 'wb') as f:
            f.write(sample['part.npy'])
        expected[sample['__key__'].encode()] = {
            'key': sample['__key__'].encode(), 'image': sample['jpg'], 'label': numpy.int32(int(sample['cls'])),
            'x': numpy.load(os.path.join(folder, 'array.npy'))}
    compare('webdataset', f'tar {names} fields=__key__:key,jpg:image,cls:label,part.npy:x:npy', expected, 'key')


def check_tfrecord(generator):
    import tfrecord

    for shard in range(3):
        writer = tfrecord.TFRecordWriter(os.path.join(folder, f'r-{shard}.tfrecord'))
        for i in range(shard * 100, shard * 100 + 100):
            writer.write({'id': (i * 10**12 - 7, 'int'), 'data': (generator.randbytes(generator.randrange(3000)), 'byte'),
                          'box': ([i / 3, -1.5, 2.5, i], 'float'), 'many': (list(range(1, i % 9 + 2)), 'int')})
        writer.close()
    expected = {}
    for shard in range(3):
        for row in tfrecord.tfrecord_loader(os.path.join(folder, f'r-{shard}.tfrecord'), None,
                                            {'id': 'int', 'data': 'byte', 'box': 'float', 'many': 'int'}):
            expected[row['id'].astype('i8').tobytes()] = {
                'id': row['id'].astype('i8'), 'data': bytes(row['data']), 'box': row['box'].astype('f4'),
                'many': row['many'].astype('i4')}
    compare('tfrecord', f'tfrecord {folder}/r-{{0..2}}.tfrecord fields=id,data,box:box:f32[2x2],many:many:i32', expected, 'id')


def check_tokens(generator):
    ids = numpy.random.default_rng(1).integers(0, 50257, RECORDS * 64 + 1).astype('u2')
    ids.tofile(os.path.join(folder, 'flat.bin'))
    rows = ids.astype('i4')
    expected = {rows[i * 64:i * 64 + 64].tobytes(): {'tokens': rows[i * 64:i * 64 + 64], 'targets': rows[i * 64 + 1:i * 64 + 65]}
                for i in range(RECORDS)}
    compare('tokens', f'tokens {folder}/flat.bin length=64', expected, 'tokens')


check_tar(random.Random(1))
check_tfrecord(random.Random(2))
check_tokens(random.Random(3))
