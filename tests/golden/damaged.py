"""Writes damaged.bin, random PNG and JPEG files that lack parts, and damaged.txt, what Pillow makes of each: its pixels or
nothing.  Needs numpy and Pillow 13; run as: python3 damaged.py [SEED [N]]"""
import io
import struct
import sys
import warnings
import zlib

import numpy as np
from PIL import Image, __version__

warnings.simplefilter("ignore")
seed, count = int(sys.argv[1]) if len(sys.argv) > 1 else 29, int(sys.argv[2]) if len(sys.argv) > 2 else 700
rng = np.random.default_rng(seed)
MODES = [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2), (1, 3), (2, 3), (4, 3), (8, 3), (8, 4), (16, 4), (8, 6), (16, 6)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def draw(n):
    return int(rng.integers(0, n))


def noise(n):
    return bytes(rng.integers(0, 256, n, dtype=np.uint8))


def one_of(*choices):
    return choices[draw(len(choices))]


def chunk(name, data=b"", crc=None):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) if crc is None else crc)


def header(w, h, bits, colour, passes):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, bits, colour, 0, 0, passes))


def frame(number, w, h, x, y):
    return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, w, h, x, y, 1, 1, 0, 0))


def rows(w, h, bits, colour, passes):
    def row(n):
        return bytes([draw(5) if draw(60) else draw(256)]) + noise((n * bits * CHANNELS[colour] + 7) // 8)
    if not passes:
        return [row(w) for _ in range(h)]
    return [row((w - c + dc - 1) // dc) for r, c, dr, dc in PASSES if w > c for _ in range(r, h, dr)]


def text():
    key = one_of(b"Comment", b"exif", b"XML:com.adobe.xmp", b"Raw profile type exif", b"", b"\xff")
    value = one_of(b"hello", b"", b"a\0b", b"\xff\xfe", b"x" * 30, "\u00e9\u4e2d".encode())
    packed = zlib.compress(one_of(value, value, value, b"a" * (1 << 20), b"a" * ((1 << 20) + 1)), 9)
    if draw(5) == 0:
        packed = packed[:draw(len(packed) + 1)]
    if draw(5) == 0 and packed:
        packed = packed[:-1] + noise(1)
    zero, method = b"\0" if draw(8) else b"", bytes([draw(20) == 0])
    kind = draw(3)
    if kind == 0:
        return chunk(b"tEXt", key + zero + value)
    if kind == 1:
        return chunk(b"zTXt", key + zero + method + packed)
    flag = draw(2)
    return chunk(b"iTXt", key + b"\0" + bytes([flag]) + method + one_of(b"", b"en", b"\xff") + b"\0tk" + b"\0" * (draw(10) > 0) + (packed if flag else value))


def ancillary():
    kind = draw(10)
    if kind < 4:
        return text()
    if kind < 8:
        name, size = ((b"gAMA", 4), (b"cHRM", 32), (b"sRGB", 1), (b"pHYs", 9))[kind - 4]
        return chunk(name, bytes(size + one_of(0, 0, 1, -1)))
    if kind == 8:
        return chunk(b"iCCP", one_of(b"n\0\0" + zlib.compress(b"icc"), b"n\0\1x", b"", b"n\0", b"n\0\0bad", b"\0" + zlib.compress(b"a" * ((1 << 20) + 5), 9)))
    return one_of(chunk(one_of(b"abcd", b"ABCD", b"a_b1", b"a-bc", b"eXIf"), bytes(draw(9))),
                  chunk(b"tRNS", one_of(b"", b"\0\1", b"\xff\0\xff", b"\0" * 6, b"\xff" * 9)))


def png():
    bits, colour = one_of(*MODES)
    w, h, passes = 1 + draw(12), 1 + draw(12), draw(2)
    lines = rows(w, h, bits, colour, passes)
    head = [header(w, h, bits, colour, passes if draw(20) else 7)]
    if (colour == 3 and draw(8)) or draw(20) == 0:
        head.append(chunk(b"PLTE", noise(one_of(draw(60), 3 * draw(20), 771 if draw(4) == 0 else 9, 3 * draw(8)))))
    for _ in range(draw(3)):
        if draw(3) == 0:
            head.insert(1 + draw(len(head)), ancillary())
    if draw(8) == 0:
        head.insert(1 + draw(len(head)), chunk(b"acTL", struct.pack(">II", draw(4), 0)))
        if draw(2):
            box = (w, h, 0, 0) if draw(2) else (draw(w + 1), draw(h + 1), draw(4), draw(4))
            head.append(frame(draw(8) == 0, *box))
    if draw(20) == 0:
        head.insert(draw(len(head) + 1), header(1 + draw(16), 1 + draw(12), *one_of(*MODES), draw(2)) if draw(2) else header(w, h, bits, draw(8), passes))
    raw = one_of(b"".join(lines), b"".join(lines), b"".join(lines[:len(lines) - draw(len(lines))]), b"".join(lines)[:-1 - draw(40)], b"".join(lines) + bytes(draw(300)))
    packed = zlib.compress(raw, one_of(0, 1, 6, 9))
    kind = draw(12)
    if kind == 0:
        packed = packed[:-draw(6) - 1]
    elif kind == 1:
        at = draw(len(packed))
        packed = packed[:at] + noise(1) + packed[at + 1:]
    elif kind == 2:
        packed += bytes(draw(20))
    cuts = sorted({draw(len(packed) + 1) for _ in range(draw(5))} | {max(0, len(packed) - draw(7))}) if draw(2) else []
    data = [chunk(b"IDAT", packed[a:z], draw(9) if draw(30) == 0 else None) for a, z in zip([0] + cuts, cuts + [len(packed)])]
    if draw(16) == 0 and len(data) > 1:
        data.insert(1 + draw(len(data) - 1), one_of(ancillary(), chunk(b"DDAT"), chunk(b"fdAT", struct.pack(">I", draw(3)) + b"ab")))
    tail = [ancillary() for _ in range(draw(3)) if draw(3) == 0]
    if draw(12) == 0:
        tail.append(one_of(chunk(b"PLTE", b"abc"), header(3, 3, 8, 2, 0), frame(draw(3), w, h, 0, 0), chunk(b"fdAT", struct.pack(">I", draw(3)) + b"abc"), chunk(b"IDAT", b"xx"), chunk(b"gAMA", b"abcd", 5)))
    made = b"\x89PNG\r\n\x1a\n" + b"".join(head + data + tail) + (chunk(b"IEND") if draw(10) else b"")
    kind = draw(14)
    if kind == 0:
        made = made[:8 + draw(len(made) - 8)]
    elif kind == 1:
        at = 8 + draw(len(made) - 8)
        made = made[:at] + noise(1) + made[at + 1:]
    return "png", made + bytes(draw(20) if kind == 2 else 0)


def jpeg():
    """without its end marker, and with other bytes in place of it"""
    h, w, channels = 1 + draw(40), 1 + draw(40), one_of(1, 3, 4)
    a = np.clip(np.cumsum(np.cumsum(rng.normal(0, 3, (h, w, channels)), 0), 1) + 128, 0, 255).astype(np.uint8)
    to = io.BytesIO()
    more = {"subsampling": draw(3)} if channels == 3 else {}
    if draw(2):
        more["restart_marker_blocks"] = 1 + draw(4)
    picture = Image.fromarray(a[..., 0] if channels == 1 else a, {1: "L", 3: "RGB", 4: "CMYK"}[channels])
    picture.save(to, "JPEG", quality=one_of(20, 75, 95), progressive=draw(5) == 0, optimize=bool(draw(2)), **more)
    made = to.getvalue()[:-2]
    made = one_of(made, made + b"\xff", made[:-1 - draw(12)], made + noise(draw(12)), made + bytes(draw(12)))
    if draw(6) == 0:
        at = 2 + draw(len(made) - 2)
        made = made[:at] + b"\xff" + one_of(b"\xd0", b"\1", b"\0", b"\xff") + made[at:]
    if draw(6) == 0:
        made = made[:2] + one_of(b"\xff" + noise(1), b"\xff\xe0\0" + bytes([2 + draw(10)]) + b"JFIF\0\1\1\0"[:draw(9)],
                                 b"\xff\xee\0" + bytes([2 + draw(14)]) + b"Adobe\0d\0\0\0\0\1"[:draw(13)]) + made[2:]
    return "jpeg", made


def whole(bits=8, colour=2, passes=0, w=3, h=3, before=(), behind=(), between=(), lines=None, crc=None, filters=None):
    """a PNG of these rows, and chunks before, between and behind its data"""
    lines = rows(w, h, bits, colour, passes) if lines is None else lines
    if filters is not None:
        lines = [bytes([filters]) + line[1:] for line in lines]
    packed = zlib.compress(b"".join(lines))
    data = [chunk(b"IDAT", packed[:5], crc), *between, chunk(b"IDAT", packed[5:])] if between else [chunk(b"IDAT", packed, crc)]
    return b"\x89PNG\r\n\x1a\n" + header(w, h, bits, colour, passes) + b"".join([*before, *data, *behind]) + chunk(b"IEND")


def edges():
    """what lies at the limits of each rule, on both sides"""
    for bits, colour in MODES:
        palette = [chunk(b"PLTE", noise(21))] if colour == 3 else []
        for filters in range(6):
            yield whole(bits, colour, 0, 5, 3, palette, filters=filters)
            yield whole(bits, colour, 1, 5, 6, palette, filters=filters)
        for w in range(1, 10, 2):
            yield whole(bits, colour, 1, w, 10 - w, palette)
        for n in (0, 1, 2, 3, 5, 6, 7):  # a colour that is clear
            yield whole(bits, colour, before=palette + [chunk(b"tRNS", b"\0" + b"\xff" * (n - 1) if n else b"")])
        yield whole(bits, colour, behind=[chunk(b"tRNS", b"\xff\0\xff")])
        yield whole(bits, colour, behind=[chunk(b"tRNS", b"\xff\1\xff")])
        for n in (0, 2, 3, 30, 767, 768, 770, 771, 774):
            yield whole(bits, colour, before=[chunk(b"PLTE", noise(n))])
        # a palette of grey pixels: the header comes twice
        yield b"\x89PNG\r\n\x1a\n" + header(3, 3, 8, 3, 0) + chunk(b"PLTE", noise(200)) + whole(bits, colour)[8:]
        for part in range(2, 4):
            lines = rows(4, 4, bits, colour, 0)
            yield whole(bits, colour, 0, 4, 4, palette, lines=lines[:part])
            yield whole(bits, colour, 0, 4, 4, palette, lines=lines[:part] + [lines[part][:-1]])
    for c in b"/09:@AZ[`az{_ \x7f":
        for at in range(4):
            name = bytearray(b"abcd")
            name[at] = c
            yield whole(before=[chunk(bytes(name))])
            yield whole(behind=[chunk(bytes(name)), chunk(b"gAMA")])
    head = struct.pack(">IIBBBBB", 3, 3, 8, 2, 0, 0, 0)
    for data in (head[:12], head, head + b"\0", head[:11] + b"\1\0", head[:10] + b"\1\0\0", head[:12] + b"\2", head[:4] + bytes(4) + head[8:], bytes(4) + head[4:], head[:8] + b"\3\2\0\0\0"):
        yield b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", data) + whole()[33:]
    for name, size in ((b"gAMA", 4), (b"cHRM", 32), (b"sRGB", 1), (b"pHYs", 9), (b"acTL", 8), (b"fcTL", 26)):
        for n in (size - 1, size):
            yield whole(before=[chunk(name, bytes(n))])
            yield whole(behind=[chunk(name, bytes(n))])
            yield whole(before=[chunk(name, bytes(n), 1)])
            yield whole(behind=[chunk(name, bytes(n), 1)])
    for count in (0, 1, 2, 0x80000000, 0x80000001):
        frames = chunk(b"acTL", struct.pack(">II", count, 0))
        for first in ([], [frame(0, 3, 3, 0, 0)], [frame(0, 2, 2, 1, 1)], [frame(1, 3, 3, 0, 0)], [frames], [frame(0, 3, 3, 0, 0), frame(1, 1, 3, 2, 0)]):
            for last in ([], [frame(1, 3, 3, 0, 0)], [frame(0, 3, 3, 0, 0)], [chunk(b"fdAT", struct.pack(">I", 1) + b"ab")], [chunk(b"fdAT", struct.pack(">I", 0))],
                         [chunk(b"fdAT", b"\0\0\0")], [frame(1, 3, 3, 0, 0), chunk(b"gAMA")], [chunk(b"gAMA"), frame(1, 3, 3, 0, 0)]):
                yield whole(before=[frames] + first, behind=last)
    for w, h, x, y in ((3, 3, 1, 0), (3, 3, 0, 1), (2, 3, 1, 0), (3, 2, 0, 1), (0, 3, 0, 0), (3, 0, 0, 0), (2, 2, 2, 0), (2, 2, 0, 2), (1, 1, 2, 2), (2**31, 1, 2**31, 0), (1, 3, 2**32 - 1, 0)):
        yield whole(before=[frame(0, w, h, x, y)])
        yield whole(before=[frame(0, w, h, x, y)], passes=1)
    for between in ([chunk(b"DDAT", b"")], [chunk(b"DDAT", b"", 3)], [chunk(b"gAMA", bytes(4))], [chunk(b"fdAT", bytes(4))], [chunk(b"IDAT")], [chunk(b"IDAT"), chunk(b"IDAT")]):
        yield whole(between=between)
        yield whole(before=[frame(0, 3, 3, 0, 0)], between=between)
    yield whole(before=[frame(0, 3, 3, 0, 0)], between=[chunk(b"fdAT", struct.pack(">I", 1))])
    yield whole(before=[frame(0, 3, 3, 0, 0)], between=[chunk(b"fdAT", struct.pack(">I", 2))])
    for data in (b"", b"n", b"n\0", b"n\0\0", b"n\0\1", b"\0\0", b"\0", b"\1", b"\0" + zlib.compress(b"a" * (1 << 20), 9), b"n\0\0" + zlib.compress(b"a" * (1 << 20), 9), b"n\0\0" + zlib.compress(b"a" * ((1 << 20) + 1), 9)):
        yield whole(before=[chunk(b"iCCP", data)])
        yield whole(before=[chunk(b"zTXt", data)])
        yield whole(behind=[chunk(b"zTXt", data)])
    made = whole()
    for n in range(8, len(made)):
        yield made[:n]
    yield made + b"a"


def utf8(least):
    """texts of one of each kind that UTF-8 has and has not, and one that fills 64 MiB of characters to within `least`"""
    odd = [bytes(b) for c in (0x7F, 0x80, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5)
           for b in ((c,), (c, 0x80), (c, 0xBF), (c, 0x9F, 0x80), (c, 0xA0, 0xBF), (c, 0x8F, 0x80), (c, 0x8F, 0x80, 0x80), (c, 0x90, 0xBF, 0xBF), (c, 0xBF, 0x7F), (c, 0xBF, 0xBF, 0xC0),
                     (c, 0xC0), (c, 0x7F), (c, 0xBF, 0xBF, 0xBF, 0x80), (c, 0x90, 0x80, 0x80), (c, 0xA0, 0x80), (c, 0xBF, 0xBF, 0x80, 0x80))]
    texts = [chunk(b"iTXt", b"k\0\0\0\0\0" + b + b"a" * (i * 37 % 101)) for i, b in enumerate(odd)]  # no two changes make up for each other
    texts += [chunk(b"iTXt", b"k\0\0\0" + b + b"\0\0xyz") for b in odd[:40]] + [chunk(b"iTXt", b"k\0\0\0\0" + b + b"\0xyz") for b in odd[:40]]
    texts += [chunk(b"tEXt", b"k\0abc"), chunk(b"tEXt", b"\0abc"), chunk(b"tEXt", b"abc"), chunk(b"zTXt", b"k\0\0" + zlib.compress(b"abcd")), chunk(b"zTXt", b"\0\0" + zlib.compress(b"abcd")),
              chunk(b"zTXt", b"k\0\0" + zlib.compress(b"abcd")[:-5]), chunk(b"iTXt", b"k\0\1\0\0\0" + zlib.compress("\u00e9a".encode())), chunk(b"iTXt", b"k\0\1\1\0\0" + zlib.compress(b"abc"))]
    big = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * (1 << 20), 9))
    rest = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * ((1 << 20) - least), 9))
    return whole(before=texts + [big] * 63 + [rest], filters=0)


def is_read(made):
    try:
        return bool(Image.open(io.BytesIO(made)).load())
    except Exception:
        return False


def filled():
    """the most characters that Pillow takes, and one more"""
    low, high = 0, 1 << 15  # a smaller rest is refused
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_read(utf8(middle)) else (middle, high)
    return [utf8(high), utf8(low)]


with open("damaged.bin", "wb") as out, open("damaged.txt", "w") as text_out:
    print("# Pillow", __version__, "by damaged.py", seed, count, "name, begin, bytes, height, width, CRC-32 of the pixels; 0 0 0: refused", file=text_out)
    drawn = [jpeg() if i % 7 == 6 else png() for i in range(count)]
    for i, (kind, made) in enumerate(drawn + [("png", made) for made in [*edges(), *filled()]]):
        try:
            a = np.asarray(Image.open(io.BytesIO(made)).convert("RGB"))
            found = f"{a.shape[0]} {a.shape[1]} {zlib.crc32(a.tobytes()):08x}"
        except Exception:
            found = "0 0 0"
        print(f"{kind}-{i}", out.tell(), len(made), found, file=text_out)
        out.write(made)
