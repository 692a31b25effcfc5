"""Writes f8.txt here: float8_e4m3fn and float8_e5m2 as ml_dtypes converts them (ml_dtypes 0.6.0, numpy 2.4.6).

Lines: "NAME crc32" of the results' bytes, each NaN as the quiet one without payload and sign.
  DTYPE.widen       -> f32 of all 256 codes
  DTYPE.bf16, .f16  from all 65,536 codes of that dtype
  DTYPE.f32         from the codes (j << 12) + d, d = -1, 0, 1, for each 20-bit j: every tie, and both neighbours of each
  DTYPE.f64         from the same numbers as f64, then from those with their last bit turned
  DTYPE.i32         from -70,000 to 69,999
"""
import zlib

import ml_dtypes
import numpy as np

np.seterr(all="ignore")
CODES = np.arange(65536, dtype=np.uint32).astype(np.uint16)
j = np.arange(1 << 20, dtype=np.uint32)[:, None] << np.uint32(12)
ties = (j + np.array([-1, 0, 1], np.int32).astype(np.uint32)).ravel().view(np.float32)
wide = ties.astype(np.float64)
near = (wide.view(np.uint64) ^ np.uint64(1)).view(np.float64)

with open("f8.txt", "w") as f:
    f.write(f"# ml_dtypes {ml_dtypes.__version__}: NAME crc32 (f8.py)\n")
    for dtype, nan in (ml_dtypes.float8_e4m3fn, 0x7F), (ml_dtypes.float8_e5m2, 0x7E):
        def line(name, x, quiet, uint):
            bits = x.view(uint).copy()
            bits[np.isnan(x.astype(np.float32))] = quiet
            f.write(f"{np.dtype(dtype).name}.{name} {zlib.crc32(bits.tobytes()):08x}\n")

        line("widen", np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32), 0x7FC00000, np.uint32)
        for name, x in {"bf16": CODES.view(ml_dtypes.bfloat16), "f16": CODES.view(np.float16), "f32": ties,
                        "f64": np.concatenate([wide, near]),
                        "i32": np.arange(-70000, 70000, dtype=np.int32)}.items():
            line(name, x.astype(dtype), nan, np.uint8)
