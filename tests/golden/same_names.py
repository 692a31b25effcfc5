#!/usr/bin/env python3
"""Golden vectors of names that are the same in Unicode's forms NFC and NFD, and of some that are not.

usage: same_names.py FILE     (tests/golden/same_names.txt; needs Unicode 14.0.0: Python 3.11)
"""
import random
import sys
import unicodedata

# Letters of scripts that compose, and marks: of the classes that compose, of one that does not, of equal classes,
# and of other scripts.
LETTERS = "aeionuyAEOSUZcdghklrst\u03b1\u03b7\u03c9\u0438\u0433\u0915\u09c7\u304b\u30cf\u1100\uac00\U00011131\u212b\u1fee\uf900"
MARKS = ("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030c\u0313\u0314\u031b\u0323\u0326\u0327\u0328"
         "\u0329\u032d\u0331\u0334\u0338\u0342\u0345\u0358\u035d\u0360\u093c\u094d\u09be\u3099\u309a\u1161\u11a8"
         "\u05b4\u05bc\u0651\u064b\u0e38\u0f71\u0f72\U00011127\U0001d165\U0001d16d\u200d\u0340\u0344\u0387")


def hexed(text):
    return text.encode().hex()


def main():
    rng = random.Random(14)
    nfc = lambda s: unicodedata.normalize("NFC", s)
    nfd = lambda s: unicodedata.normalize("NFD", s)
    texts = ["\u00e9\u0329"]  # Yoruba: the acute composes across the line below
    for _ in range(600):
        n = rng.randint(1, 7)
        texts.append(rng.choice(LETTERS) + "".join(rng.choice(MARKS if rng.random() < 0.75 else LETTERS)
                                                   for _ in range(n)))
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write(f"# Unicode {unicodedata.unidata_version}: two names in UTF-8, and whether their NFD is equal: "
                "NFC and NFD of a text, the text and its NFC, and the text with two of its characters changed over.\n")
        for text in texts:
            other = list(text)
            i, k = rng.randrange(len(other)), rng.randrange(len(other))
            other[i], other[k] = other[k], other[i]
            for a, b in (nfc(text), nfd(text)), (text, nfc(text)), (nfc(text), "".join(other)):
                if a != b:
                    f.write(f"{hexed(a)} {hexed(b)} {int(nfd(a) == nfd(b))}\n")


if __name__ == "__main__":
    main()
