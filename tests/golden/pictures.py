#!/usr/bin/env python3
"""Writes pictures.bin and pictures.txt: small encoded pictures of each kind that `decode` reads, and what Pillow makes of them.

usage: pictures.py OUT     (Pillow 13 and NumPy; the committed files are of Pillow 13.0.0)

A row of pictures.txt: name, offset and length in pictures.bin, height, width and CRC-32 of the pixels of
Image.open(f).convert("RGB"), then the same three of ImageOps.exif_transpose(Image.open(f)).convert("RGB").
"""
import io, os, struct, sys, zlib

import numpy as np
from PIL import Image, ImageOps

out = sys.argv[1]
rng = np.random.default_rng(7)
kinds = {}


def scene(h, w, c):
    """smooth colours, edges and a little noise"""
    y, x = np.mgrid[0:h, 0:w]
    planes = [np.sin(x / (5 + 2 * k) + k) * 60 + np.cos(y / (7 - k)) * 50 + 128 + 40 * ((x // 9 + y // 7 + k) % 2) for k in range(c)]
    a = np.stack(planes, -1) + rng.normal(0, 6, (h, w, c))
    return np.clip(a, 0, 255).astype(np.uint8)


def save(name, im, form, **how):
    f = io.BytesIO()
    im.save(f, form, **how)
    kinds[name] = f.getvalue()


def png(name, rows, w, depth, colour, more=b"", interlaced=0):
    """a PNG that Pillow does not write; rows: bytes of all scan lines, each behind its filter byte"""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    h = rows[1]
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced)
    kinds[name] = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(rows[0], 9)) + chunk(b"IEND", b"")


def lines(a):
    return b"".join(b"\0" + r.tobytes() for r in a), len(a)


# ---- JPEG
for (h, w) in ((1, 1), (8, 16), (17, 33), (40, 61), (96, 75)):
    rgb = Image.fromarray(scene(h, w, 3))
    for sub in ("4:4:4", "4:2:2", "4:2:0"):
        save(f"jpeg-{sub.replace(':', '')}-{h}x{w}", rgb, "JPEG", quality=88, subsampling=sub)
    save(f"jpeg-progressive-{h}x{w}", rgb, "JPEG", quality=80, progressive=True)
    save(f"jpeg-grey-{h}x{w}", rgb.convert("L"), "JPEG", quality=85)
rgb = Image.fromarray(scene(50, 67, 3))
save("jpeg-grey-progressive", rgb.convert("L"), "JPEG", progressive=True)
save("jpeg-cmyk", Image.fromarray(scene(41, 39, 4), "CMYK"), "JPEG", quality=85)
save("jpeg-cmyk-progressive", Image.fromarray(scene(33, 50, 4), "CMYK"), "JPEG", progressive=True)
save("jpeg-rgb", rgb, "JPEG", keep_rgb=True)
save("jpeg-restart-blocks", rgb, "JPEG", restart_marker_blocks=2)
save("jpeg-restart-rows", rgb, "JPEG", restart_marker_rows=1, progressive=True)
save("jpeg-optimized", rgb, "JPEG", optimize=True, quality=30)
for k in range(1, 9):
    e = Image.Exif()
    e[0x112] = k
    save(f"jpeg-turned-{k}", Image.fromarray(scene(37, 50, 3)), "JPEG", exif=e, quality=90)
kinds["jpeg-no-end"] = kinds["jpeg-420-40x61"] + b"trailing bytes"

# ---- PNG
grey = scene(19, 29, 1)[..., 0]
save("png-grey", Image.fromarray(grey), "PNG")
save("png-rgb", Image.fromarray(scene(23, 31, 3)), "PNG")
save("png-rgba", Image.fromarray(scene(23, 31, 4)), "PNG")
save("png-grey-alpha", Image.fromarray(scene(12, 9, 2), "LA"), "PNG")
save("png-one-bit", Image.fromarray(grey).convert("1"), "PNG")
save("png-rgb-transparent", Image.fromarray(scene(9, 9, 3)), "PNG", transparency=(1, 2, 3))
for bits in (1, 2, 4, 8):
    p = Image.fromarray(scene(21, 27, 3)).quantize(1 << bits)
    save(f"png-palette-{bits}", p, "PNG", bits=bits)
    save(f"png-palette-{bits}-transparent", p, "PNG", bits=bits, transparency=0)
e = Image.Exif()
e[0x112] = 6
save("png-turned-6", Image.fromarray(scene(14, 22, 3)), "PNG", exif=e)
wide = (scene(15, 20, 1).astype(">u2")[..., 0] * 5)
png("png-grey-16", lines(wide), 20, 16, 0)
png("png-rgb-16", lines((scene(15, 20, 3).astype(np.uint32) * 257 - 100).clip(0).astype(">u2")), 20, 16, 2)
png("png-grey-alpha-16", lines((scene(15, 20, 2).astype(np.uint32) * 250).astype(">u2")), 20, 16, 4)
png("png-rgba-16", lines((scene(15, 20, 4).astype(np.uint32) * 250).astype(">u2")), 20, 16, 6)
png("png-grey-2", lines(rng.integers(0, 256, (10, 5), dtype=np.uint8)), 20, 2, 0)
png("png-grey-4", lines(rng.integers(0, 256, (10, 10), dtype=np.uint8)), 20, 4, 0)
short = struct.pack(">I", 6) + b"PLTE" + bytes([200, 10, 20, 30, 220, 40])
short += struct.pack(">I", zlib.crc32(short[4:]))
png("png-palette-short", lines(rng.integers(0, 2, (10, 20), dtype=np.uint8)), 20, 8, 3, short)
a, passes = scene(11, 13, 3), b""
for y0, x0, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
    part = a[y0::dy, x0::dx]
    passes += lines(part)[0] if part.size else b""
png("png-interlaced", (passes, 11), 13, 8, 2, b"", 1)

# ---- WebP
save("webp-lossy", Image.fromarray(scene(30, 41, 3)), "WEBP", quality=70)
save("webp-lossless", Image.fromarray(scene(16, 21, 3)), "WEBP", lossless=True)
save("webp-lossy-alpha", Image.fromarray(scene(31, 22, 4)), "WEBP", quality=80)
save("webp-lossless-alpha", Image.fromarray(scene(13, 22, 4)), "WEBP", lossless=True, exact=True)
frames = [Image.fromarray(scene(20, 25, 4)) for _ in range(3)]
save("webp-animation", frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=50)
e = Image.Exif()
e[0x112] = 8
save("webp-turned-8", Image.fromarray(scene(17, 26, 3)), "WEBP", exif=e)

# ---- progressive JPEG that lacks scans: the bytes up to one of them, or into it, and an end
def scans(b):
    """offsets of the headers of the scans, and of the end"""
    i, found = 2, []
    while b[i:i + 2] != b"\xff\xd9":
        if b[i] != 0xFF or b[i + 1] in (0, 0xFF) or 0xD0 <= b[i + 1] <= 0xD7:
            i += 1
            continue
        if b[i + 1] == 0xDA:
            found.append(i)
        i += 2 + (b[i + 2] << 8 | b[i + 3])
    return found + [i]


for name, a, mode, more in (("420", scene(37, 52, 3), "RGB", {"subsampling": 2}), ("422-low", scene(33, 9, 3), "RGB", {"subsampling": 1}),
                            ("444", scene(24, 41, 3), "RGB", {"subsampling": 0}), ("grey", scene(43, 30, 1)[..., 0], "L", {}),
                            ("cmyk", scene(21, 35, 4), "CMYK", {}), ("restart", scene(50, 33, 3), "RGB", {"restart_marker_rows": 1})):
    f = io.BytesIO()
    Image.fromarray(a, mode).save(f, "JPEG", quality=75, progressive=True, **more)
    whole, at = f.getvalue(), scans(f.getvalue())
    for k in (1, len(at) // 2, len(at) - 1):
        for kind, end in (("lacks", at[k]), ("cut", (at[k - 1] + 2 * at[k]) // 3)):
            b = whole[:end] + b"\xff\xd9"
            try:
                Image.open(io.BytesIO(b)).load()
            except OSError:  # Pillow misses bytes: a bad record
                continue
            kinds[f"jpeg-{kind}-{name}-{k}"] = b

at = 0
with open(os.path.join(out, "pictures.bin"), "wb") as data, open(os.path.join(out, "pictures.txt"), "w") as rows:
    print("# name offset length | height width crc | the same turned upright    (pictures.py, Pillow %s)" % Image.__version__, file=rows)
    for name, b in kinds.items():
        im = Image.open(io.BytesIO(b))
        both = [np.asarray(im.convert("RGB")), np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(b))).convert("RGB"))]
        what = " ".join("%d %d %08x" % (x.shape[0], x.shape[1], zlib.crc32(x.tobytes())) for x in both)
        print(name, at, len(b), what, file=rows)
        data.write(b)
        at += len(b)
