#!/usr/bin/env python3
"""Writes folder.txt: folders with difficult names, and what torchvision's ImageFolder lists in them.

usage: folder.py OUT     (torchvision; the committed file is of torchvision 0.29)

Lines: "case NAME", then entries to make ("dir PATH", "file PATH", "pipe PATH", "link PATH TARGET"), then
"class NAME" in their order and "is PATH LABEL" in the listing's order.  Bytes other than letters, digits,
"/", ".", "-" and "_" are written as %XX.
"""
import os, random, sys, tempfile

from torchvision.datasets import ImageFolder

r = random.Random(9)


def quote(path):
    return "".join(chr(b) if chr(b).isalnum() and b < 128 or chr(b) in "/.-_" else "%%%02X" % b for b in os.fsencode(path))


cases = {
    "plain": ["dir b", "dir a", "file b/2.jpg", "file b/10.jpg", "file a/x.png", "file a/y.JPEG", "file readme.txt", "file top.jpg", "file a/notes.txt"],
    "endings": ["dir a"] + ["file a/f%d%s" % (i, e) for i, e in enumerate((".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".WebP", ".gif", ".jpg.txt", "jpg", ".JPG", ".jpg~"))] + ["file a/.jpg", "file a/.hidden.png", "file a/..jpg"],
    "below": ["dir c", "dir c/a", "dir c/a/b", "dir c/a-b", "dir c/a.b", "dir c/A", "file c/z.jpg", "file c/a/1.jpg", "file c/a/b/1.jpg", "file c/a-b/1.jpg", "file c/a.b/1.jpg", "file c/A/0.jpg", "file c/0.jpg", "dir d", "dir d/only", "file d/only/x.jpg"],
    "links": ["dir real", "file real/1.jpg", "link linked real", "dir other", "link other/in ../real", "link other/one.jpg ../real/1.jpg", "link other/broken.jpg nowhere", "link gone nowhere", "pipe other/pipe.jpg"],
    "names": ["dir " + d for d in ("é", "e", "z", "Z", "%41", "a b", "a\nb", "a\tb", "\U0001F600", "\uFFFD", "\uE000", b"\x80".decode("utf8", "surrogateescape"), b"\xff\xfe".decode("utf8", "surrogateescape"), b"\xc3".decode("utf8", "surrogateescape"), b"\xed\xa0\x80".decode("utf8", "surrogateescape"), ".hidden", "-", "_")],
}
cases["names"] += ["file " + e[4:] + "/" + n for e in list(cases["names"]) for n in ("1.jpg", b"\x80.jpg".decode("utf8", "surrogateescape"), "é.jpg", "\U0001F600.png", " .jpg", "a\nb.jpg")]
for k in range(6):
    dirs, entries = ["c%d" % i for i in range(3)], []
    letters = ["a", "b", "B", "-", ".", "_", "0", "é", "\U0001F600", b"\xe9".decode("utf8", "surrogateescape")]
    for i in range(12):
        d = r.choice(dirs) + "/" + "".join(r.choices(letters, k=r.randint(1, 3)))
        if not d.endswith(("/.", "/..")) and d not in dirs:
            dirs.append(d)
    entries = ["dir " + d for d in dirs] + ["file c%d/x.jpg" % i for i in range(3)]
    files = {r.choice(dirs) + "/" + "".join(r.choices(letters, k=r.randint(1, 3))) + r.choice((".jpg", ".png", ".txt")) for _ in range(40)}
    cases["random-%d" % k] = entries + ["file " + f for f in sorted(files) if f not in dirs]

with open(os.path.join(sys.argv[1], "folder.txt"), "w") as out:
    import torchvision
    print("# folder.py, torchvision", torchvision.__version__, file=out)
    for name, entries in cases.items():
        print("case", name, file=out)
        with tempfile.TemporaryDirectory() as top:
            for e in entries:
                kind, path = e.split(" ", 1)
                if kind == "link":
                    path, target = path.split(" ")
                    os.symlink(target, os.path.join(top, path))
                    print("link", quote(path), quote(target), file=out)
                    continue
                p = os.path.join(top, path)
                if kind == "dir": os.mkdir(p)
                if kind == "file": open(p, "wb").close()
                if kind == "pipe": os.mkfifo(p)
                print(kind, quote(path), file=out)
            data = ImageFolder(top)
            for c in data.classes:
                print("class", quote(c), file=out)
            for path, label in data.samples:
                print("is", quote(os.path.relpath(path, top)), label, file=out)
