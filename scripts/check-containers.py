"""Writes data sets with the libraries of their formats, and compares what millrace reads, in shuffled order, with what
those libraries read.  usage: check-containers.py MILLRACE FOLDER FFCV|torch
FOLDER is empty, FFCV a folder with FFCV's Python files; a second run with "torch" compares with the readers that import PyTorch,
also of what the first one left."""

import gzip
import importlib.machinery
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import types

import numpy

program, folder = sys.argv[1:3]
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
    """All records of one epoch, in shuffled order; a ragged field is the rows of its record, and what NAME.classes calls a
    number of NAME is NAME.class."""
    for batch in batches(graph):
        for i in range(BATCH):
            record = {name: a[batch[f'{name}.offsets'][i]:batch[f'{name}.offsets'][i + 1]] if f'{name}.offsets' in batch else a[i]
                      for name, a in batch.items() if not name.endswith(('.offsets', '.classes'))}
            for name, a in batch.items():
                if name.endswith('.classes'):
                    field = name.removesuffix('.classes')
                    record[f'{field}.class'] = a[record[field]]
            yield record


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


def check_arrayrecord(generator):
    import tfrecord
    from array_record.python import array_record_module

    options = ('group_size:1', 'group_size:1,uncompressed', 'group_size:1,brotli', 'group_size:7,zstd:9', 'group_size:64,uncompressed',
               'group_size:16,brotli:3', 'group_size:9,snappy', 'group_size:5,pad_to_block_boundary:true', '')
    for number, option in enumerate(options):
        path = os.path.join(folder, f'a-{number}.array_record')
        writer = array_record_module.ArrayRecordWriter(path, option)
        for i in range(RECORDS):
            writer.write(b'%d ' % i + generator.randbytes(generator.choice([0, 30, 3000, 70000])))
        writer.close()
        reader = array_record_module.ArrayRecordReader(path)
        expected = {record: {'r': record} for record in reader.read(0, RECORDS)}
        compare(f'arrayrecord {option}', f'arrayrecord {path} fields=__record__:r', expected, 'r')
    expected = {}
    for shard in range(3):
        writer = array_record_module.ArrayRecordWriter(os.path.join(folder, f'e-{shard}.array_record'), f'group_size:{shard * 3 + 1}')
        for i in range(shard * 100, shard * 100 + 100):
            data, box = generator.randbytes(generator.randrange(3000)), [i / 3, -1.5, 2.5, i]
            writer.write(tfrecord.TFRecordWriter.serialize_tf_example({'id': (i * 10**12 - 7, 'int'), 'data': (data, 'byte'), 'box': (box, 'float')}))
            expected[numpy.int64(i * 10**12 - 7).tobytes()] = {'id': numpy.int64(i * 10**12 - 7), 'data': data, 'box': numpy.array(box, 'f4')}
        writer.close()
    compare('arrayrecord of Examples', f'arrayrecord {folder}/e-{{0..2}}.array_record fields=id,data,box:box:f32[2x2]', expected, 'id')


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


def first_batch(graph):
    """The fields of the first records, and the notices."""
    out = os.path.join(folder, 'batch.npz')
    said = subprocess.run([program, 'batch', f'{graph} ! batch 2', '--step', '1', '--out', out], check=True, capture_output=True, text=True)
    with numpy.load(out) as arrays:
        return {name for name in arrays if not name.endswith('.offsets')}, said.stderr


def name_all(name, graphs):
    """graphs: columns by the graph that reads them, and one that is surely a field.  Each is a field, or named as left out."""
    for graph, columns in graphs.items():
        fields, said = first_batch(graph)
        lost = [c for c in columns if c not in fields and f'"{c}"' not in said]
        if lost:
            sys.exit(f'{name}: left out without a word: {lost}')
    print(f'{name}: each of {sum(map(len, graphs.values()))} columns is a field or named')


def check_every_type():
    """One column of every type that a library writes: none may leave without a word."""
    import safetensors.numpy

    kinds = '? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 S3 U3 M8[s] m8[s] V4 >i4 >f8'.split()
    arrays = {f'c{i}': numpy.zeros((3, 2), kind) for i, kind in enumerate(kinds)}
    arrays |= {'fortran': numpy.asfortranarray(numpy.ones((3, 2))), 'empty': numpy.zeros((3, 0)), 'single': numpy.float32(1), 'few': numpy.zeros(2)}
    names = list(arrays)
    graphs = {}
    for at in range(0, len(names), 12):
        path = os.path.join(folder, f'every-{at}.npz')
        some = {n: arrays[n] for n in names[at:at + 12]}
        numpy.savez(path, id=numpy.arange(3), id2=numpy.arange(3), id3=numpy.arange(3), **some)
        graphs[f'npz {path}'] = some
    name_all('npz, every type', graphs)

    path = os.path.join(folder, 'every.safetensors')
    some = {f'c{i}': numpy.zeros((3, 2), kind) for i, kind in enumerate('? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8'.split())}
    try:
        safetensors.numpy.save_file(some, path)
    except (ValueError, KeyError):  # releases without complex numbers
        del some['c12']
        safetensors.numpy.save_file(some, path)
    name_all('safetensors, every type', {f'safetensors {path}': some})

    writer, _ = import_litdata()
    leaves = {'none': None, 'scalar': numpy.float32(3), 'text': 'a', 'bytes': b'a', 'f16': numpy.zeros(2, 'f2'), 'empty': numpy.zeros(0, 'f4'),
              'rank0': numpy.array(5), 'complex': numpy.zeros(2, 'c8'), 'flag': True, 'whole': 1, 'real': 0.5, 'wide': numpy.zeros((2, 2), 'c16')}
    path = os.path.join(folder, 'every-litdata')
    shards = writer(path, chunk_bytes=1 << 20)
    for i in range(3):
        shards.add_item(i, {'id': i} | leaves)
    shards.done()
    shards.merge()
    name_all('litdata, every type', {f'litdata {path}': leaves})

    writer, _ = import_mds()
    from PIL import Image
    picture = Image.fromarray(numpy.zeros((4, 4, 3), 'u1'))
    values = {'bytes': b'a', 'str': 'a', 'int': 1, 'uint8': numpy.uint8(1), 'int8': numpy.int8(1), 'uint16': numpy.uint16(1),
              'int16': numpy.int16(1), 'float16': numpy.float16(1), 'str_float': 0.5, 'pkl': {1}, 'json': {'a': 1}, 'pil': picture, 'png': picture,
              'ndarray': numpy.zeros((2, 2), 'f4')}
    path = os.path.join(folder, 'every-mds')
    with writer(out=path, columns={f'c_{k}': k for k in values}) as shards:
        for _ in range(3):
            shards.write({f'c_{k}': v for k, v in values.items()})
    name_all('mds, every type', {f'mds {path}': [f'c_{k}' for k in values]})
    check_every_ffcv_type(picture)
    check_every_example_type()


def import_ffcv():
    """FFCV's writer, which is Python alone: what reads, a library of C and code that numba compiles, is left out, and so is PyTorch, of
    which tensors are arrays here."""
    def itself(*_, **__):
        return itself

    class Module(types.ModuleType):
        def __getattr__(self, name):
            return itself

    class Tensor:
        def __init__(self, array):
            self.numpy = lambda: array

    names = 'numba', 'numba.extending', 'numba.typed', 'torch', 'ffcv.libffcv', 'ffcv.pipeline', 'ffcv.pipeline.operation', \
        'ffcv.pipeline.state', 'ffcv.pipeline.compiler', 'ffcv.pipeline.allocation_query'
    package = types.ModuleType('ffcv')
    package.__path__ = [sys.argv[3]]
    sys.modules['ffcv'] = package
    for name in names:
        sys.modules[name] = Module(name)
    sys.modules['numba.typed'].Dict = dict
    sys.modules['torch'].zeros = lambda n, dtype: Tensor(numpy.zeros(n, dtype))
    sys.modules['ffcv.pipeline.operation'].Operation = object
    from ffcv import fields, writer
    for name in names[:4]:
        del sys.modules[name]
    return fields, writer.DatasetWriter, Tensor


def check_every_ffcv_type(picture):
    """What is not a column of numbers is compared, too."""
    fields, writer, tensor = import_ffcv()
    image = numpy.arange(4 * 5 * 3, dtype='u1').reshape(4, 5, 3)
    columns = {'whole': (fields.IntField(), 7), 'real': (fields.FloatField(), 0.5), 'raw': (fields.RGBImageField(write_mode='raw'), image),
               'coded': (fields.RGBImageField(write_mode='jpg'), image), 'smart': (fields.RGBImageField(write_mode='smart'), image),
               'some': (fields.RGBImageField(write_mode='proportion', compress_probability=.5), image),
               'bytes': (fields.BytesField(), numpy.frombuffer(b'abc', 'u1')), 'json': (fields.JSONField(), {'a': 1})}
    for i, kind in enumerate('? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >i4'.split()):
        a = numpy.arange(6).reshape(2, 3).astype(kind)
        columns[f'a{i}'] = fields.NDArrayField(a.dtype, a.shape), a
    for i, kind in enumerate('? i1 i2 i4 i8 u1 f2 f4 f8 c8'.split()):
        a = numpy.arange(6).reshape(2, 3).astype(kind)
        columns[f't{i}'] = fields.TorchTensorField(a.dtype, a.shape), tensor(a)
    graphs = {}
    for at in range(0, len(columns), 9):
        some = dict(list(columns.items())[at:at + 9])

        class Rows:
            def __len__(self):
                return 4

            def __getitem__(self, i):
                return (i, *(value for _, value in some.values()))

        path = os.path.join(folder, f'every-{at}.beton')
        writer(path, {'id': fields.IntField()} | {n: field for n, (field, _) in some.items()}, page_size=1 << 21,
               num_workers=1).from_indexed_dataset(Rows(), chunksize=2)
        graphs[f'beton {path}'] = some
    name_all('beton, every type', graphs)
    out = os.path.join(folder, 'batch.npz')
    for graph, some in graphs.items():
        subprocess.run([program, 'batch', f'{graph} ! batch 2', '--step', '2', '--out', out], check=True, capture_output=True)
        with numpy.load(out) as got:
            for name, (_, value) in some.items():
                value = value if isinstance(value, (numpy.ndarray, int, float)) else value.numpy() if hasattr(value, 'numpy') else None
                if name in got and name not in ('coded', 'smart', 'some') and value is not None and \
                        not numpy.array_equal(got[name].reshape(-1), numpy.concatenate([numpy.asarray(value).reshape(-1)] * 2)):
                    sys.exit(f'beton, every type: {name}: {got[name]}')


def check_every_example_type():
    """ArrayRecord and TFRecord hold Examples, whose features are of three types: of none, one and several values, as many as before or not."""
    import tfrecord
    from array_record.python import array_record_module

    rows = [{'one': ([i], 'int'), 'many': ([i, i + 1], 'int'), 'ragged': (list(range(i)), 'int'), 'real': ([i / 7], 'float'),
             'reals': ([i / 7] * 3, 'float'), 'uneven': ([.5] * (1 + i % 2), 'float'), 'text': (b'abc', 'byte'), 'texts': ([b'a', b'bc'], 'byte'),
             'none': ([], 'int')} | ({'rare': ([i], 'int')} if i % 2 else {}) for i in range(4)]
    paths = [os.path.join(folder, f'every.{kind}') for kind in ('tfrecord', 'array_record')]
    frames, groups = tfrecord.TFRecordWriter(paths[0]), array_record_module.ArrayRecordWriter(paths[1], 'group_size:2')
    for row in rows:
        frames.write(row)
        groups.write(tfrecord.TFRecordWriter.serialize_tf_example(row))
    frames.close()
    groups.close()
    names = set().union(*rows)
    name_all('Examples, every type', {f'tfrecord {paths[0]}': names, f'arrayrecord {paths[1]}': names})


def check_beton(generator):
    """More kinds of fields than check_ffcv's file has.  FFCV needs OpenCV and a compiler to install, so that this file is written here,
    with NumPy's types, as ffcv/types.py has them."""
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


def check_ffcv():
    """A file that FFCV wrote (tests/golden/beton.py)."""
    golden = pathlib.Path(__file__).resolve().parent.parent / 'tests' / 'golden'
    module = types.ModuleType('beton')
    exec(compile((golden / 'beton.py').read_text(), 'beton.py', 'exec'), module.__dict__)
    with open(os.path.join(folder, 'ffcv.beton'), 'wb') as f:
        f.write(gzip.decompress((golden / 'ffcv.beton.gz').read_bytes()))
    expected = {}
    for i in range(RECORDS):
        row = module.row(i)
        expected[numpy.int64(i).tobytes()] = {**row, 'id': numpy.int64(i), 'ratio': numpy.float64(row['ratio'])}
    compare('ffcv', f'beton {folder}/ffcv.beton fields=image,id,ratio,text,box', expected, 'id')


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
                'label': numpy.int32(['ant', 'bee', 'c,at', 'd"g'].index(row.kind)), 'label.class': numpy.str_(row.kind)}
    compare('table', f'table {folder}/t-{{0..2}}.csv fields=id,text,ratio:ratio:f64,kind:label:class', expected, 'id')


class Absent(types.ModuleType):
    """PyTorch, for imports that no reader or writer of shards uses."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return type(name, (), {})


class WithoutTorch:
    """Imports parts of packages without their __init__, which imports data loaders, and without PyTorch."""

    ABSENT = 'torch', 'torch.distributed', 'torch.utils', 'torch.utils.data', 'torch.utils.data.dataloader', 'torch.utils.data.dataset', \
        'torch.utils.data.sampler'

    def __init__(self, *packages):
        self.packages = packages

    def __enter__(self):
        for name in self.ABSENT:
            sys.modules[name] = Absent(name)
            sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
        sys.modules['torch'].distributed = types.SimpleNamespace(is_available=lambda: False)
        sys.modules['torch.utils.data'].get_worker_info = lambda: None
        site = pathlib.Path(numpy.__file__).parent.parent
        for name in self.packages:
            package = types.ModuleType(name)
            package.__path__ = [str(site / name.replace('.', '/'))]
            sys.modules[name] = package

    def __exit__(self, *_):
        for name in self.ABSENT:  # webdataset looks for PyTorch too
            del sys.modules[name]


def import_mds():
    with WithoutTorch('streaming', 'streaming.base'):
        from streaming.base.format.mds import MDSReader, MDSWriter
    return MDSWriter, MDSReader


def import_litdata():
    with WithoutTorch('litdata', 'litdata.streaming'):
        from litdata.streaming import cache  # first, as the two import each other
        from litdata.streaming.writer import BinaryWriter
        from litdata.streaming.serializers import _SERIALIZERS
    return BinaryWriter, _SERIALIZERS


def check_litdata(generator):
    """litdata's writer; its reader needs PyTorch (check_streaming_dataset), so that leaves are what its serializers read back."""
    writer, serializers = import_litdata()
    for name, how in {'litdata': {}, 'litdata zstd': {'compression': 'zstd:3', 'compression_level': 'chunk'}}.items():
        path, expected = os.path.join(folder, name.replace(' ', '-')), {}
        shards = writer(path, chunk_size=70, **how)
        for i in range(RECORDS):
            row = {'id': i * 10**12 - 7, 'class': i % 7, 'jpeg': generator.randbytes(generator.randrange(900)), 'text': f'\u00e9 {i}', 'ratio': i / 7,
                   'flag': bool(i % 2), 'x': numpy.full((2, 3), i / 3, 'f4'), 'v': numpy.full(5, -i, 'i2'), 'odd': {'a': i, 'b': (i, f's{i}')}}
            shards.add_item(i, row)
            back = {k: serializers[s].deserialize(serializers[s].serialize(row[k])[0]) for k, s in
                    (('text', 'str'), ('jpeg', 'bytes'), ('x', 'numpy'), ('id', 'int'), ('ratio', 'float'), ('flag', 'bool'))}
            expected[back['text'].encode()] = {
                'text': back['text'].encode(), 'image': back['jpeg'], 'x': back['x'], 'id': numpy.int64(back['id']), 'label': numpy.int32(i % 7),
                'ratio': numpy.float64(back['ratio']), 'flag': numpy.bool_(back['flag']), 'v': row['v'].astype('i4'),
                'odd.a': numpy.int64(i), 'odd.b.0': numpy.int64(i), 'odd.b.1': f's{i}'.encode()}
        shards.done()
        shards.merge()
        compare(name, f'litdata {path} fields=text,jpeg:image,x,id,class:label,ratio,flag,v,odd.a,odd.b.0,odd.b.1', expected, 'text')


def ledger_of(source):
    """The ledger of two shuffled epochs: a line for each record, with its key and a hash of its bytes."""
    path = os.path.join(folder, 'one.ledger')
    if os.path.exists(path):
        os.remove(path)
    ran = subprocess.run([program, 'run', f'{source} ! shuffle seed=11 epochs=2 ! batch 32 workers=2 ! ledger {path}'], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr)
    with open(path) as f:
        return f.read()


def check_one_ledger():
    """The same records, written by the libraries' own writers, give one ledger and the same bytes.  FFCV's needs OpenCV and a compiler."""
    import pandas
    import PIL.Image
    import safetensors.numpy
    import tfrecord
    import webdataset
    from array_record.python import array_record_module

    generator, here = numpy.random.default_rng(12), os.path.join(folder, 'one')
    a = generator.integers(97, 123, (RECORDS, 12)).astype('u1')  # letters, so that a table can hold them too
    ids = generator.integers(1, 1 << 60, RECORDS)
    mds, (litdata, _) = import_mds()[0], import_litdata()
    os.makedirs(f'{here}/tree/class')
    numpy.save(f'{here}/a.npy', a)
    numpy.save(f'{here}/id.npy', ids)
    lit = litdata(f'{here}/lit', chunk_size=100)
    with mds(out=f'{here}/mds', columns={'a': 'ndarray:uint8:12', 'id': 'int'}, size_limit=1 << 11) as shards:
        for i in range(RECORDS):
            shards.write({'a': a[i], 'id': int(ids[i])})
            lit.add_item(i, {'a': a[i], 'id': int(ids[i])})
            PIL.Image.fromarray(a[i].reshape(2, 2, 3)).save(f'{here}/tree/class/{i:03}.png')
    lit.done()
    lit.merge()
    for k in range(3):
        part = slice(k * 100, k * 100 + 100)
        numpy.savez(f'{here}/{k}.npz', a=a[part], id=ids[part])
        safetensors.numpy.save_file({'a': a[part].copy(), 'id': ids[part].copy()}, f'{here}/{k}.safetensors')
        pandas.DataFrame({'a': [bytes(row).decode() for row in a[part]], 'id': ids[part]}).to_csv(f'{here}/{k}.csv', index=False)
        frames, groups = tfrecord.TFRecordWriter(f'{here}/{k}.tfrecord'), array_record_module.ArrayRecordWriter(f'{here}/{k}.array_record', 'group_size:9')
        with webdataset.TarWriter(f'{here}/{k}.tar') as tar:
            for i in range(k * 100, k * 100 + 100):
                example = {'a': (bytes(a[i]), 'byte'), 'id': (int(ids[i]), 'int')}
                tar.write({'__key__': f'{i:03}', 'a.npy': a[i], 'id': int(ids[i])})
                frames.write(example)
                groups.write(tfrecord.TFRecordWriter.serialize_tf_example(example))
        frames.close()
        groups.close()
    sources = {
        'numpy.save': f'npy fields=a:{here}/a.npy,id:{here}/id.npy', 'numpy.savez': f'npz {here}/{{0..2}}.npz fields=a,id',
        'safetensors': f'safetensors {here}/{{0..2}}.safetensors fields=a,id', 'pandas': f'table {here}/{{0..2}}.csv fields=a,id',
        'webdataset': f'tar {here}/{{0..2}}.tar fields=a.npy:a:npy,id', 'tfrecord': f'tfrecord {here}/{{0..2}}.tfrecord fields=a,id',
        'array_record': f'arrayrecord {here}/{{0..2}}.array_record fields=a,id', 'mosaicml-streaming': f'mds {here}/mds fields=a,id',
        'litdata': f'litdata {here}/lit fields=a,id', 'Pillow, in a folder': f'folder {here}/tree ! decode ! center-crop 2 ! rename image:a'}
    expected = {bytes(a[i]): {'a': a[i], 'id': ids[i]} for i in range(RECORDS)}
    ledger, of_a = (ledger_of(sources['numpy.save'] + more) for more in ('', ' ! select a'))
    for name, source in sources.items():  # a picture has no id
        if ledger_of(f'{source} ! select a') != of_a or ('folder' not in name and ledger_of(source) != ledger):
            sys.exit(f'{name}: another ledger than numpy.save')
        compare(f'one ledger: {name}', f'{source} ! select {"a" if "folder" in name else "a,id"}', expected, 'a')
    print(f'one ledger of {len(sources)} containers, written by nine libraries')


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


def check_streaming_dataset():
    """The chunks of check_litdata, as litdata's own reader reads them."""
    from litdata.streaming import dataset

    dataset._check_version_and_prompt_upgrade = lambda version: None  # which asks the network
    for name in 'litdata', 'litdata zstd':
        path, copy, expected = os.path.join(folder, name.replace(' ', '-')), os.path.join(folder, 'copy'), {}
        shutil.copytree(path, copy)  # the reader unpacks chunks beside themselves
        for row in dataset.StreamingDataset(copy, shuffle=False):
            expected[row['text'].encode()] = {
                'text': row['text'].encode(), 'image': row['jpeg'], 'x': row['x'], 'id': numpy.int64(row['id']), 'label': numpy.int32(row['class']),
                'ratio': numpy.float64(row['ratio']), 'flag': numpy.bool_(row['flag']), 'v': row['v'].astype('i4'),
                'odd.a': numpy.int64(row['odd']['a']), 'odd.b.0': numpy.int64(row['odd']['b'][0]), 'odd.b.1': row['odd']['b'][1].encode()}
        shutil.rmtree(copy)
        compare(f'StreamingDataset: {name}', f'litdata {path} fields=text,jpeg:image,x,id,class:label,ratio,flag,v,odd.a,odd.b.0,odd.b.1',
                expected, 'text')


def write_indexed(prefix, dtype, documents, modes):
    """documents: of each the tokens of its sequences."""
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    builder = IndexedDatasetBuilder(f'{prefix}.bin', dtype=dtype, multimodal=modes)
    for document in documents:
        for number, sequence in enumerate(document):
            builder.add_item(torch.from_numpy(sequence), mode=number % 2)
        builder.end_document()
    builder.finalize(f'{prefix}.idx')


def read_indexed(prefix, modes):
    """Of each document its tokens, as Megatron's reader gives its sequences."""
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    rows = IndexedDataset(prefix, multimodal=modes)
    sequences = [rows[i][0] if modes else rows[i] for i in range(len(rows))]
    begin = rows.document_indices
    return [numpy.concatenate([numpy.zeros(0, sequences[0].dtype)] + sequences[a:b]) for a, b in zip(begin, begin[1:])]


def row_of(tokens, document, length):
    """The record of length + 1 tokens or fewer, where `document` numbers the document of each."""
    n, inputs = len(tokens), min(len(tokens), length)
    row = {'tokens': numpy.zeros(length, 'i4'), 'targets': numpy.zeros(length, 'i4'), 'positions': numpy.zeros(length, 'i4'),
           'segments': numpy.full(length, -1, 'i4'), 'mask': numpy.zeros(length, '?')}
    row['tokens'][:inputs], row['targets'][:n - 1] = tokens[:inputs], tokens[1:]
    for i in range(inputs):
        first = i == 0 or document[i] != document[i - 1]
        row['positions'][i] = 0 if first else row['positions'][i - 1] + 1
        row['segments'][i] = 0 if i == 0 else row['segments'][i - 1] + first
        row['mask'][i] = i + 1 < n and document[i + 1] == document[i]
    return row


def check_megatron(generator):
    """Token files by Megatron's builder: windows over all documents, up to the last token, and documents one by one."""
    length = 64
    for dtype, top, modes in (numpy.uint8, 1 << 8, False), (numpy.uint16, 1 << 16, False), (numpy.int32, (1 << 31) - 1, True):
        prefix, documents, left = os.path.join(folder, f'megatron-{dtype.__name__}'), [], RECORDS * length + 1

        def draw(n):
            return generator.integers(0, top, n, 'i4')

        while left:
            sizes = [min(int(generator.integers(1, 150)), left) for _ in range(generator.integers(0, 4))]  # some documents are empty
            sizes = sizes if sum(sizes) <= left else [left]
            documents.append([draw(n) for n in sizes])
            left -= sum(sizes)
        write_indexed(prefix, dtype, documents, modes)
        read = read_indexed(prefix, modes)
        tokens, numbers = numpy.concatenate(read), numpy.repeat(numpy.arange(len(read)), [len(d) for d in read])
        rows = [row_of(tokens[at:at + length + 1], numbers[at:at + length + 1], length) for at in range(0, RECORDS * length, length)]
        compare(f'Megatron {dtype.__name__}, {len(read)} documents', f'tokens {prefix}.bin length={length} pack=reset',
                {r['tokens'].tobytes(): r for r in rows}, 'tokens')

        prefix += '-whole'  # no two documents fit into one record
        write_indexed(prefix, dtype, [[draw(8), draw(int(generator.integers(25, length - 7)))] for _ in range(RECORDS)], modes)
        rows = [row_of(d, [0] * len(d), length) for d in read_indexed(prefix, modes)]
        compare(f'Megatron {dtype.__name__}, whole documents', f'tokens {prefix}.bin length={length} pack=whole',
                {r['tokens'].tobytes(): r for r in rows}, 'tokens')


if sys.argv[3:] == ['torch']:
    check_streaming_dataset()
    check_megatron(numpy.random.default_rng(13))
    sys.exit()
check_tar(random.Random(1))
check_tfrecord(random.Random(2))
check_arrayrecord(random.Random(9))
check_tokens(random.Random(3))
check_npz()
check_safetensors()
check_every_type()
check_table(random.Random(7))
check_beton(random.Random(8))
check_ffcv()
check_litdata(random.Random(10))
check_one_ledger()
check_pack(check_mds(random.Random(6)))
