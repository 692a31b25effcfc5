"""The files that check-stores.py puts on servers, in the folder www of the current one."""

import gzip
import io
import json
import os
import random
import struct
import tarfile

SHARDS, RECORDS, PICTURES = 3, 150, 12


def make(seed):
    make_data(seed)
    make_mds(seed)
    make_tree(seed)
    make_arrays(seed)


def make_data(seed):
    draw = random.Random(seed)
    os.mkdir('www')
    for shard in range(SHARDS):
        with tarfile.open(f'www/p-{shard:03d}.tar', 'w') as tar:
            for i in range(RECORDS):
                for ext, data in (('jpg', draw.randbytes(draw.randint(500, 20000))), ('cls', str(i % 10).encode())):
                    member = tarfile.TarInfo(f'{shard}_{i:05d}.{ext}')
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    for name in ('a', 'b'):
        with open(f'www/{name}.bin', 'wb') as flat:
            flat.write(draw.randbytes(2 * 20000))
    documents = [draw.randint(1, 900) for _ in range(60)]  # Megatron-LM's pair
    with open('www/m.bin', 'wb') as tokens, open('www/m.idx', 'wb') as index:
        tokens.write(draw.randbytes(2 * sum(documents)))
        begins = [2 * sum(documents[:i]) for i in range(len(documents))]
        index.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 8, len(documents), len(documents) + 1) +
                    struct.pack(f'<{len(documents)}i', *documents) + struct.pack(f'<{len(begins)}q', *begins) +
                    struct.pack(f'<{len(begins) + 1}q', *range(len(begins) + 1)))


def make_tree(seed):
    """Files of pictures, a folder a class, and lists of them; their bytes are nothing that can be decoded."""
    draw, rows = random.Random(seed + 2), []
    for name in ('Z', 'a b', 'ü', '100%25+&'):
        os.makedirs(f'www/tree/{name}/sub+x')
        for i in range(PICTURES):
            path = f'{name}/{"sub+x/" if i % 4 == 0 else ""}{i}.png'
            rows.append((path, name))
            with open(f'www/tree/{path}', 'wb') as picture:
                picture.write(draw.randbytes(draw.randint(0, 9000)))
        with open(f'www/tree/{name}/notes.txt', 'w') as notes:
            notes.write('no picture')
    with open('www/tree/top.png', 'wb') as picture:
        picture.write(b'in no class')
    draw.shuffle(rows)
    with open('www/tree/list.csv', 'w') as table:
        table.write('file_name,label\n' + ''.join(f'{path},{name}\n' for path, name in rows))
    with open('www/tree/list.jsonl', 'w') as lines:
        lines.write(''.join(json.dumps({'file_name': path, 'label': name}) + '\n' for path, name in rows))


def make_arrays(seed):
    """Files of numpy.save."""
    draw = random.Random(seed + 3)
    lengths = [draw.randint(0, 9) for _ in range(RECORDS)]
    offsets = [sum(lengths[:i]) for i in range(RECORDS + 1)]
    os.mkdir('www/arrays')
    for name, kind, shape, data in (('x', '|u1', (RECORDS, 40), draw.randbytes(RECORDS * 40)),
                                    ('y', '<i8', (RECORDS,), struct.pack(f'<{RECORDS}q', *(i % 10 for i in range(RECORDS)))),
                                    ('t', '<f4', (offsets[-1], 3), draw.randbytes(offsets[-1] * 12)),
                                    ('at', '<i8', (RECORDS + 1,), struct.pack(f'<{RECORDS + 1}q', *offsets))):
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + '\n'
        with open(f'www/arrays/{name}.npy', 'wb') as array:
            array.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data)


def make_mds(seed):
    """MosaicML's shards, uncompressed in one folder and compressed in another."""
    draw = random.Random(seed + 1)
    config = json.dumps({'column_encodings': ['bytes', 'int'], 'column_names': ['data', 'id'], 'column_sizes': [None, 8], 'format': 'mds',
                         'hashes': [], 'version': 2}).encode()
    index = {'raw': [], 'packed': []}
    for folder in index:
        os.makedirs(f'www/{folder}')
    for shard in range(SHARDS):
        samples = [struct.pack('<I', n) + draw.randbytes(n) + struct.pack('<q', shard * RECORDS + i)
                   for i, n in enumerate(draw.randint(0, 3000) for _ in range(RECORDS))]
        offsets = [4 + 4 * (RECORDS + 1) + len(config)]
        for sample in samples:
            offsets.append(offsets[-1] + len(sample))
        data = struct.pack(f'<{RECORDS + 2}I', RECORDS, *offsets) + config + b''.join(samples)
        packed, name = gzip.compress(data), f'shard.{shard:05d}.mds'
        raw, zipped = ({'basename': n, 'bytes': len(d), 'hashes': {}} for n, d in ((name, data), (f'{name}.gz', packed)))
        for folder, d, entry in (('raw', data, raw), ('packed', packed, zipped)):
            with open(f'www/{folder}/{entry["basename"]}', 'wb') as f:
                f.write(d)
        index['raw'].append({'format': 'mds', 'compression': None, 'raw_data': raw, 'zip_data': None})
        index['packed'].append({'format': 'mds', 'compression': 'gz', 'raw_data': raw, 'zip_data': zipped})
    for folder, shards in index.items():
        with open(f'www/{folder}/index.json', 'w') as f:
            json.dump({'version': 2, 'shards': shards}, f)
