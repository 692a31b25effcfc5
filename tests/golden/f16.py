"""Writes f16.txt here: IEEE binary16 as NumPy converts and computes it (numpy 2.4.6).

Lines: "NAME crc32" of the results' little-endian bytes, each NaN as the quiet one without payload.
  widen                   f16 -> f32 of all 65,536 codes
  narrow                  f32 -> f16 of the codes (j << 12) + d, d = -1, 0, 1, for each 20-bit j: every tie, and both
                          neighbours of each
  narrow_f64              f64 -> f16 of the same numbers as f64, then of those with their last bit turned
  add sub mul div max min of code i and of code (40503 i + 12345) mod 65,536, for all i
  sqrt abs neg floor      of all codes
"""
import zlib

import numpy as np

np.seterr(all="ignore")
CODES = np.arange(65536, dtype=np.uint32).astype(np.uint16)
QUIET = {np.float16: 0x7E00, np.float32: 0x7FC00000}
UINT = {np.float16: np.uint16, np.float32: np.uint32}


def crc(x, dtype):
    assert x.dtype == dtype
    bits = x.view(UINT[dtype]).copy()
    bits[np.isnan(x)] = QUIET[dtype]
    return f"{zlib.crc32(bits.tobytes()):08x}"


j = np.arange(1 << 20, dtype=np.uint32)[:, None] << np.uint32(12)
ties = (j + np.array([-1, 0, 1], np.int32).astype(np.uint32)).ravel().view(np.float32)
wide = ties.astype(np.float64)
near = (wide.view(np.uint64) ^ np.uint64(1)).view(np.float64)
a = CODES.view(np.float16)
b = ((CODES.astype(np.uint32) * 40503 + 12345) & 0xFFFF).astype(np.uint16).view(np.float16)

with open("f16.txt", "w") as f:
    f.write(f"# numpy {np.__version__}: NAME crc32 (f16.py)\n")
    f.write(f"widen {crc(a.astype(np.float32), np.float32)}\n")
    f.write(f"narrow {crc(ties.astype(np.float16), np.float16)}\n")
    f.write(f"narrow_f64 {crc(np.concatenate([wide, near]).astype(np.float16), np.float16)}\n")
    for name, op in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
                     "max": np.maximum, "min": np.minimum}.items():
        f.write(f"{name} {crc(op(a, b), np.float16)}\n")
    for name, op in {"sqrt": np.sqrt, "abs": np.abs, "neg": np.negative, "floor": np.floor}.items():
        f.write(f"{name} {crc(op(a), np.float16)}\n")
