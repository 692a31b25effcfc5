#!/usr/bin/env python3
"""Writes base/decomposed.inc and base/combining.inc: Unicode 14.0.0's canonical decompositions and combining classes.

usage: scripts/unicode.py     (needs Python 3.11, whose unicodedata is of UnicodeData.txt 14.0.0)
"""
import pathlib
import textwrap
import unicodedata

BASE = pathlib.Path(__file__).resolve().parent.parent / "base"


def write(name, comment, rows):
    text = textwrap.fill(" ".join("{" + row.replace(" ", "~") + "}," for row in rows), 100, break_long_words=False)
    (BASE / name).write_text(f"/* {comment}:\n   scripts/unicode.py, of Unicode {unicodedata.unidata_version}. */\n"
                             "/* clang-format off */\n" + text.replace("~", " ") + "\n/* clang-format on */\n")


def decomposed():
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if parts and not parts[0].startswith("<"):
            first, second = (int(p, 16) for p in (parts + ["0"])[:2])
            yield f"0x{code:X}, 0x{first:X}, " + (f"0x{second:X}" if second else "0")


def combining():
    rows = []
    for code in range(0x110000):
        order = unicodedata.combining(chr(code))
        if order and rows and rows[-1][1:] == [code - 1, order]:
            rows[-1][1] = code
        elif order:
            rows.append([code, code, order])
    return (f"0x{first:X}, 0x{last:X}, {order}" for first, last, order in rows)


def main():
    assert unicodedata.unidata_version == "14.0.0", "Python 3.11 has Unicode 14.0.0"
    write("decomposed.inc", "Characters that are two others, or one other and 0, by rising number", decomposed())
    write("combining.inc", "Marks by rising number, the first and last of a row, and their canonical combining class",
          combining())


if __name__ == "__main__":
    main()
