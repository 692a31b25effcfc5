"""Writes data sets with the libraries of their formats, and compares what millrace reads, in shuffled order, with what
those libraries read.  usage: check-containers.py MILLRACE FOLDER (an empty one)"""

import importlib.machinery
import json
import os
import pathlib
import random
import subprocess
import sys
import types

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


def rows_of(shard, generator):
    """The arrays of one file of 100 records."""
    return {'x': generator.standard_normal((100, 3, 4)).astype('f4'), 'id': numpy.arange(100) + 100 * shard,
            'class': generator.integers(0, 7, 100).astype('u1'), 'flag': generator.integers(0, 2, 100).astype('?'),
            'scale': numpy.float32(0.5), 'names': numpy.arange(7)}


def check_npz():
    generator, expected = numpy.random.default_rng(4), {}
    for shard in range(3):
        path = os.path.join(folder, f'n-{shard}.npz')
        numpy.savez(path, **rows_of(shard, generator))
        with numpy.load(path) as arrays:
            for i in range(100):
                expected[arrays['id'][i].tobytes()] = {
                    'id': arrays['id'][i], 'x': arrays['x'][i], 'flag': arrays['flag'][i], 'label': arrays['class'][i].astype('i4')}
    compare('npz', f'npz {folder}/n-{{0..2}}.npz', expected, 'id')


def check_safetensors():
    import safetensors.numpy

    generator, expected = numpy.random.default_rng(5), {}
    for shard in range(3):
        path = os.path.join(folder, f's-{shard}.safetensors')
        safetensors.numpy.save_file({k: numpy.asarray(v) for k, v in rows_of(shard, generator).items()}, path)
        arrays = safetensors.numpy.load_file(path)
        for i in range(100):
            expected[arrays['id'][i].tobytes()] = {'id': arrays['id'][i], 'x': arrays['x'][i], 'label': arrays['class'][i].astype('i4')}
    compare('safetensors', f'safetensors {folder}/s-{{0..2}}.safetensors fields=id,x,class:label', expected, 'id')


def check_beton(generator):
    """FFCV needs OpenCV and a compiler to install, so that this file is written here, with NumPy's types, as ffcv/types.py has them."""
    header = numpy.dtype([('version', '<u2'), ('fields', '<u2'), ('page', '<u4'), ('samples', '<u8'), ('table', '<u8')], align=True)
    field = numpy.dtype([('type', '<u1'), ('name', '<u1', 16), ('arguments', '<u1', 1024)], align=True)
    array = numpy.dtype([('shape', '<u8', 32), ('length', '<u8')])
    rgb = numpy.dtype([('mode', '<u1'), ('width', '<u2'), ('height', '<u2'), ('at', '<u8')])
    blob = numpy.dtype([('at', '<u8'), ('size', '<u8')])
    kinds = [('image', 2, rgb), ('id', 1, '<i8'), ('text', 3, blob), ('box', 4, '<u8'), ('ratio', 0, '<f8'), ('raw', 2, rgb), ('meta', 5, blob)]
    row = numpy.dtype([(name, kind) for name, _, kind in kinds], align=True)
    fields, rows, data, table = numpy.zeros(len(kinds), field), numpy.zeros(RECORDS, row), b'', []
    for i, (name, kind, _) in enumerate(kinds):
        fields[i]['type'], fields[i]['name'][:len(name)] = kind, list(name.encode())
    descr = json.dumps(numpy.dtype('<f4').descr).encode()
    arguments = numpy.zeros(1, array)
    arguments['shape'][0][:2], arguments['length'] = (2, 2), len(descr)
    fields[3]['arguments'][:264 + len(descr)] = list(arguments.tobytes() + descr)
    first, expected = header.itemsize + fields.nbytes + rows.nbytes, {}

    def put(i, value):
        nonlocal data
        table.append((i, first + len(data), len(value)))
        data += value + bytes(-len(value) % 64)
        return table[-1][1]

    for i in range(RECORDS):
        image, text = generator.randbytes(1 + generator.randrange(900)), generator.randbytes(generator.randrange(40))
        box, raw, meta = numpy.full((2, 2), i / 3, '<f4'), generator.randbytes(4 * 5 * 3), json.dumps({'i': i}).encode()
        rows[i]['image'] = 0, 5, 4, put(i, image)
        rows[i]['id'], rows[i]['text'], rows[i]['box'] = i, (put(i, text), len(text)), put(i, box.tobytes())
        rows[i]['ratio'], rows[i]['raw'], rows[i]['meta'] = i / 7, (1, 5, 4, put(i, raw)), (put(i, meta + b'\0'), len(meta) + 1)
        expected[numpy.int64(i).tobytes()] = {'id': numpy.int64(i), 'image': image, 'text': text, 'box': box, 'ratio': numpy.float64(i / 7),
                                              'raw': raw, 'meta': meta}
    head = numpy.zeros(1, header)
    head['version'], head['fields'], head['page'], head['samples'], head['table'] = 2, len(kinds), 1 << 21, RECORDS, first + len(data)
    with open(os.path.join(folder, 'f.beton'), 'wb') as f:
        f.write(head.tobytes() + fields.tobytes() + rows.tobytes() + data + numpy.array(table, '<u8').tobytes())
    compare('beton', f'beton {folder}/f.beton', expected, 'id')


def check_table(generator):
    import pandas

    expected, letters = {}, 'ab,;"\n \u00e9'
    for shard in range(3):
        path = os.path.join(folder, f't-{shard}.csv')
        frame = pandas.DataFrame({
            'id': [i * 10**12 - 7 for i in range(shard * 100, shard * 100 + 100)],
            'text': [''.join(generator.choice(letters) for _ in range(generator.randrange(9))) for _ in range(100)],
            'ratio': [generator.choice([i / 7, None, -1e-9]) for i in range(100)],
            'kind': [generator.choice(['ant', 'bee', 'c,at', 'd"g']) for _ in range(100)]})
        frame.to_csv(path, index=False)
        for row in pandas.read_csv(path, keep_default_na=False, dtype={'text': str, 'ratio': str}).itertuples():
            expected[numpy.int64(row.id).tobytes()] = {
                'id': numpy.int64(row.id), 'text': row.text.encode(), 'ratio': numpy.float64(row.ratio or 'nan'),
                'label': numpy.int32(['ant', 'bee', 'c,at', 'd"g'].index(row.kind))}
    compare('table', f'table {folder}/t-{{0..2}}.csv fields=id,text,ratio:ratio:f64,kind:label:class', expected, 'id')


class Absent(types.ModuleType):
    """PyTorch, for imports that no reader or writer of shards uses."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return type(name, (), {})


def import_mds():
    absent = 'torch', 'torch.distributed', 'torch.utils', 'torch.utils.data'
    for name in absent:
        sys.modules[name] = Absent(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
    site = pathlib.Path(numpy.__file__).parent.parent
    for name in ('streaming', 'streaming.base'):  # without their __init__, which imports the data loader
        package = types.ModuleType(name)
        package.__path__ = [str(site / name.replace('.', '/'))]
        sys.modules[name] = package
    from streaming.base.format.mds import MDSReader, MDSWriter
    for name in absent:  # webdataset looks for PyTorch too
        del sys.modules[name]
    return MDSWriter, MDSReader


def check_mds(generator):
    writer, reader = import_mds()
    columns = {'jpeg': 'bytes', 'class': 'int', 'x': 'ndarray:float32:3,4', 'any': 'ndarray', 'name': 'str', 'small': 'uint16',
               'number': 'str_int', 'meta': 'json', 'row': 'ndarray:int16', 'half': 'float16', 'ratio': 'str_float', 'odd': 'pkl'}
    for name, how in {'mds': {}, 'mds zstd': {'compression': 'zstd:7', 'hashes': ['sha1', 'xxh64']},
                      'mds gz': {'compression': 'gz:1', 'hashes': ['xxh3_64']}, 'mds hashes': {'hashes': ['xxh128']}}.items():
        path = os.path.join(folder, name.replace(' ', '-'))
        with writer(out=path, columns=columns, size_limit=1 << 15, keep_local=True, **how) as shards:
            for i in range(RECORDS):
                shards.write({'jpeg': generator.randbytes(generator.randrange(500)), 'class': i % 7, 'x': numpy.full((3, 4), i / 3, 'f4'),
                              'any': numpy.full((2, 5), i, 'i4'), 'name': f'\u00e9 {i}', 'small': numpy.uint16(i * 200),
                              'number': i * 10**12 - 5, 'meta': {'i': i}, 'row': numpy.full(4, -i, 'i2'), 'half': numpy.float16(i),
                              'ratio': i / 7, 'odd': {i}})
        expected = {}
        index = json.load(open(os.path.join(path, 'index.json')))
        for shard in index['shards']:
            one = reader.from_json(path, None, shard)
            raw = os.path.join(path, shard['raw_data']['basename'])
            if shard['zip_data']:
                from streaming.base.compression import decompress
                packed = open(os.path.join(path, shard['zip_data']['basename']), 'rb').read()
                with open(raw, 'wb') as f:
                    f.write(decompress(shard['compression'], packed))
            for i in range(shard['samples']):
                row = one[i]
                expected[row['name'].encode()] = {
                    'name': row['name'].encode(), 'image': row['jpeg'], 'label': numpy.int32(row['class']), 'x': row['x'],
                    'any': row['any'], 'small': numpy.int32(row['small']), 'number': numpy.int64(row['number']),
                    'meta': json.dumps(row['meta']).encode(), 'row': row['row'].astype('i4'), 'half': row['half'],
                    'ratio': numpy.float64(row['ratio'])}
            if shard['zip_data']:
                os.remove(raw)
        compare(name, f'mds {path}', expected, 'name')
    return reader


def check_pack(readers):
    """What `millrace pack` writes, as the libraries of its formats read it."""
    import tfrecord
    import webdataset

    path = os.path.join(folder, 'n-{0..2}.npz')
    expected = {}
    for shard in range(3):
        with numpy.load(os.path.join(folder, f'n-{shard}.npz')) as arrays:
            for i in range(100):
                expected[int(arrays['id'][i])] = (arrays['x'][i], int(arrays['class'][i]))
    out = {kind: os.path.join(folder, f'pack-{kind}') for kind in ('tar', 'tfrecord', 'mds')}
    for kind, target in out.items():
        subprocess.run([program, 'pack', f'npz {path} fields=x,id,class:label ! shuffle seed=3', '-o', target, '--format', kind,
                        '--records', '70'], check=True, stdout=subprocess.DEVNULL)
    rows = {kind: {} for kind in out}
    for sample in webdataset.WebDataset(os.path.join(out['tar'], 'shard-{00000..00004}.tar'), shardshuffle=False).decode():
        rows['tar'][int(sample['id.npy'])] = (sample['x.npy'], int(sample['cls']))
    for shard in range(5):
        for row in tfrecord.tfrecord_loader(os.path.join(out['tfrecord'], f'shard-{shard:05}.tfrecord'), None,
                                            {'id': 'int', 'x': 'float', 'label': 'int'}):
            rows['tfrecord'][int(row['id'][0])] = (row['x'].astype('f4').reshape(3, 4), int(row['label'][0]))
    for shard in json.load(open(os.path.join(out['mds'], 'index.json')))['shards']:
        one = readers.from_json(out['mds'], None, shard)
        for i in range(shard['samples']):
            rows['mds'][int(one[i]['id'])] = (one[i]['x'], int(one[i]['label']))
    for kind, got in rows.items():
        same = got.keys() == expected.keys() and all(
            numpy.array_equal(got[k][0], x) and got[k][0].dtype == x.dtype and got[k][1] == label for k, (x, label) in expected.items())
        if not same:
            sys.exit(f'pack --format {kind}: its library reads other records')
        print(f'pack --format {kind}: {len(got)} records alike')


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
check_npz()
check_safetensors()
check_table(random.Random(7))
check_beton(random.Random(8))
check_pack(check_mds(random.Random(6)))
