#!/usr/bin/env python3
"""Writes ffcv.beton.gz: a file of FFCV's own DatasetWriter, which scripts/check-containers.py reads.

usage: beton.py OUT     (ffcv 1.0.2 and NumPy 1.26; bench/peers/setup.sh DIR ffcv installs them)"""
import gzip, os, sys, tempfile

import numpy

RECORDS = 300


def row(i):
    """Record i: the fields in the order of the file."""
    y, x = numpy.mgrid[0:5, 0:4]
    image = numpy.stack([(17 * x + 31 * y + 5 * i + 40 * k) % 256 for k in range(3)], -1).astype('u1')
    text = numpy.frombuffer(b'record %d' % i * (1 + i % 4), 'u1').copy()
    return {'image': image, 'id': i, 'ratio': i / 7, 'text': text, 'box': numpy.full((2, 3), i / 3, 'f4')}


class Rows:
    def __len__(self):
        return RECORDS

    def __getitem__(self, i):
        return tuple(row(i).values())


if __name__ == '__main__':
    from ffcv.fields import BytesField, FloatField, IntField, NDArrayField, RGBImageField
    from ffcv.writer import DatasetWriter

    fields = {'image': RGBImageField(write_mode='raw'), 'id': IntField(), 'ratio': FloatField(), 'text': BytesField(),
              'box': NDArrayField(numpy.dtype('f4'), (2, 3))}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'f.beton')
        DatasetWriter(path, fields, page_size=1 << 21, num_workers=3).from_indexed_dataset(Rows(), chunksize=20)
        with open(path, 'rb') as f, open(os.path.join(sys.argv[1], 'ffcv.beton.gz'), 'wb') as out:
            out.write(gzip.compress(f.read(), 9, mtime=0))
