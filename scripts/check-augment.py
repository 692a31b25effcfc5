"""Compares the augmentations of millrace with torchvision v2's on PIL pictures: `who` says what each record drew,
and torchvision's functions get the same numbers.  check-pictures.sh runs it."""
import json, os, re, subprocess, sys

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

program, work = sys.argv[1:3]
BATCH = 64
MODE = {"nearest": v2.InterpolationMode.NEAREST, "bilinear": v2.InterpolationMode.BILINEAR}


def millrace(*words):
    p = subprocess.run([program, *words], capture_output=True, text=True, cwd=work)
    if p.returncode:
        sys.exit("check-augment: %s: %s" % (" ".join(words), p.stderr))
    return p.stdout


def images(graph, step):
    millrace("batch", graph + " ! batch %d ! null" % BATCH, "--step", str(step), "--out", os.path.join(work, "a.npz"))
    return np.load(os.path.join(work, "a.npz"))["image"]


def draws(graph, step):
    rows = millrace("who", graph + " ! batch %d ! null" % BATCH, "--step", str(step), "--json").splitlines()
    return [[d.split(": ", 1) for d in json.loads(r)["draws"]] for r in rows]


def settings(stage):
    return dict(w.split("=") for w in stage.split()[1:] if "=" in w)


def single(text):
    """the float that was printed with nine digits"""
    return float(np.float32(text))


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def color_jitter(im, word, how):
    name, factor = word.split()
    return getattr(F, "adjust_" + name)(im, single(factor))


def grayscale(im, word, how):
    return im if word.startswith("not") else F.rgb_to_grayscale(im, len(im.getbands()))


def pad_crop(im, word, how):
    i, j = numbers(word)
    h, w = (numbers(how["size"]) * 2)[:2]
    fill = [int(v) for v in how.get("fill", "0").split(",")]
    pad = int(how.get("padding", 0))
    im = F.pad(im, [pad] * 4, fill[0] if len(fill) == 1 else fill, how.get("mode", "constant"))
    return F.crop(im, i, j, h, w)


def gaussian_blur(im, word, how):
    kernel = (numbers(how["kernel"]) * 2)[:2]
    sigma = single(word.split()[1])
    return F.gaussian_blur(im, kernel[::-1], [sigma, sigma])


def random_erasing(im, word, how):
    if word.startswith("not"):
        return im
    i0, i1, j0, j1 = numbers(word)
    v = torch.tensor([float(x) for x in how.get("value", "0").split(",")])[:, None, None]
    return F.to_pil_image(F.erase(F.pil_to_tensor(im), i0, j0, i1 - i0 + 1, j1 - j0 + 1, v))


def policy(im, word, how):
    """one operation of rand-augment, auto-augment or trivial-augment"""
    name, magnitude = (word.split() + ["0"])[:2]
    fill = [int(v) for v in how["fill"].split(",")] if "fill" in how else None
    one = v2.RandAugment(interpolation=MODE[how.get("filter", "nearest")], fill=fill)
    return one._apply_image_or_video_transform(im, name, single(magnitude), one.interpolation, one._fill)


def check(source, stage, exact=True):
    """runs the pictures through the stage and through torchvision; returns bytes that differ, their largest difference, bytes"""
    differ = most = total = 0
    how = settings(stage)
    function = {"rand-augment": policy, "auto-augment": policy, "trivial-augment": policy}.get(stage.split()[0])
    function = function or globals()[stage.split()[0].replace("-", "_")]
    for step in (1, 2):
        before, after = images(source, step), images(source + " ! " + stage, step)
        for a, b, words in zip(before, after, draws(source + " ! " + stage, step)):
            planes = a.ndim == 3 and a.shape[0] in (1, 3)
            im = Image.fromarray(np.ascontiguousarray(a.transpose(1, 2, 0).squeeze() if planes else a))
            mine = [w for s, w in words if s == stage.split()[0]]
            for word in mine:
                im = function(im, word, how)
            want = np.asarray(im)
            got = b.transpose(1, 2, 0).squeeze() if planes else b
            if got.shape != want.shape:
                sys.exit("check-augment: %s: %s instead of %s pixels" % (stage, got.shape, want.shape))
            off = np.abs(got.astype(int) - want)
            differ, most, total = differ + (off > 0).sum(), max(most, off.max()), total + off.size
            if exact and differ:
                sys.exit("check-augment: %s: %s: %d bytes differ, by up to %d" % (source, stage, differ, most))
    return differ, most, total


pictures = "folder %s ! shuffle seed=9 ! decode ! resized-crop 73" % sys.argv[3]
np.save(os.path.join(work, "grey.npy"), np.random.default_rng(1).integers(0, 256, (200, 41, 37), dtype=np.uint8))
np.save(os.path.join(work, "grey-labels.npy"), np.zeros(200, np.int32))
grey = "npy %s/grey.npy labels=%s/grey-labels.npy ! shuffle seed=2" % (work, work)
small = "synthetic n=200 ! shuffle seed=4"
STAGES = (
    "color-jitter brightness=0.4 contrast=0.4 saturation=0.4 hue=0.1",
    "color-jitter hue=0.5",
    "color-jitter contrast=0:3 saturation=0.2:4",
    "grayscale p=0.5",
    "pad-crop size=32 padding=4",
    "pad-crop size=24x31 padding=9 mode=reflect",
    "pad-crop size=50x60 padding=40 mode=symmetric",
    "pad-crop size=33x40 padding=12 mode=edge",
    "pad-crop size=48 padding=20 fill=7",
    "random-erasing p=0.8 value=9",
    "rand-augment",
    "rand-augment ops=5 magnitude=24 filter=bilinear fill=77",
    "auto-augment policy=imagenet",
    "auto-augment policy=cifar10 filter=bilinear",
    "auto-augment policy=svhn fill=128",
    "trivial-augment",
    "trivial-augment bins=7 filter=bilinear fill=200",
)
checked = 0
for source in (pictures, small, grey):
    for stage in STAGES:
        check(source, stage)
        checked += 1
    for stage in ("gaussian-blur kernel=5", "gaussian-blur kernel=3x9 sigma=0.3:4"):
        differ, most, total = check(source, stage, exact=False)
        print("check-augment: %s: %d of %d bytes differ from torchvision's, by up to %d" % (stage, differ, total, most))
        if most > 1 or differ > total * 2e-4:
            sys.exit("check-augment: want at most 1 byte of 5,000, by 1")
        checked += 1


def whole(graph, step):
    text = millrace("batch", graph, "--step", str(step), "--out", os.path.join(work, "a.npz"))
    b = np.load(os.path.join(work, "a.npz"))
    words = [int(re.search(r"epoch (\d+)", text).group(1)) - 1] + numbers(re.search(r"^keys (.*)$", text, re.M).group(1))
    return torch.from_numpy(b["image"]), torch.from_numpy(b["label"]), words


def mixing(kind, tag, words, alpha, x):
    """torchvision's draws, from numpy's generator as mixup and cutmix use it"""
    h = 0xCBF29CE484222325
    for word in words:
        h = (h ^ word) * 0x100000001B3 % 2**64
    g = np.random.Generator(np.random.Philox(key=np.array([5 + (tag << 32), h], np.uint64)))
    lam = float(np.float32(g.beta(alpha, alpha)))
    if kind is v2.MixUp:
        return dict(lam=lam)
    h, w = x.shape[-2:]
    at_x, at_y = int(g.integers(0, w)), int(g.integers(0, h))
    half = [int(0.5 * (1 - lam) ** 0.5 * side) for side in (w, h)]
    x1, x2 = (min(max(at_x + s * half[0], 0), w) for s in (-1, 1))
    y1, y2 = (min(max(at_y + s * half[1], 0), h) for s in (-1, 1))
    return dict(box=(x1, y1, x2, y2), lam_adjusted=1 - (x2 - x1) * (y2 - y1) / (w * h))


for kind, tag in ((v2.MixUp, 1), (v2.CutMix, 2)):
    for alpha in (0.2, 1.0):
        for step in (1, 2, 4, 7):  # 7 records in the last one of an epoch
            name = kind.__name__.lower()
            graph = "synthetic n=71 ! shuffle seed=4 epochs=3 ! normalize layout=chw ! batch 32"
            x, label, words = whole(graph + " ! null", step)
            got = whole("%s ! %s alpha=%g seed=5 ! null" % (graph, name, alpha), step)
            theirs = kind(alpha=alpha, num_classes=10)
            label = label.long()
            params = dict(mixing(kind, tag, words, alpha, x), labels=label, batch_size=len(label))
            want = [theirs.transform(v, params) for v in (x, label)]
            if not (torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])):
                sys.exit("check-augment: %s alpha=%g, step %d differs" % (name, alpha, step))
    print("check-augment: %s gives torchvision's floats" % name)

# The magnitudes themselves: torch's own, where its kernels are those for AVX2.
space = {"rand-augment": (v2.RandAugment, 31), "auto-augment": (v2.AutoAugment, 10), "trivial-augment": (v2.TrivialAugmentWide, 31)}
for name, (kind, bins) in space.items():
    seen = set()
    for bin in range(bins) if name == "rand-augment" else (0,):
        stage = name + (" magnitude=%d" % bin if name == "rand-augment" else " policy=cifar10" if name == "auto-augment" else "")
        for step in (1, 2):
            for words in draws(small + " ! " + stage, step):
                for stage_name, word in words:
                    op, magnitude = (word.split() + [None])[:2]
                    table = kind._AUGMENTATION_SPACE[op][0](bins, 32, 32)
                    if (table is None) != (magnitude is None) or (magnitude and abs(single(magnitude)) not in [float(v) for v in table]):
                        sys.exit("check-augment: %s: %s is no magnitude of torchvision's" % (stage, word))
                    if name == "rand-augment" and magnitude and abs(single(magnitude)) != float(table[bin]):
                        sys.exit("check-augment: %s: %s is not bin %d" % (stage, word, bin))
                    seen.add((op, magnitude))
    print("check-augment: %s: %d magnitudes are torch's" % (name, len(seen)))
print("check-augment: %d stages on %d pictures each as torchvision and Pillow %s make them" % (checked, 2 * BATCH, Image.__version__))
