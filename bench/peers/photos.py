#!/usr/bin/env python3
"""Throughput of peer loaders on JPEG photographs: read file -> decode -> RandomResizedCrop(224, scale (.08,1), ratio (3/4,4/3),
bilinear, antialias where the peer has it) -> RandomHorizontalFlip -> f32 normalised by ImageNet's mean and std -> batches of 64.

usage: photos.py PEER DIR [JOB]           prints one line:  PEER.JOB images_per_s   (median of 3 windows after a warm-up)
       photos.py list                     the peers and their jobs
DIR holds train/CLASS/*.jpg and val/CLASS/*.jpg.  JOB:
  train   the job above, shuffled, DIR/train (default)
  decode  read and decode to full-size RGB, nothing more, shuffled, DIR/train
  val     Resize(256) + CenterCrop(224) + normalise, in order, DIR/val
WINDOW=seconds of one window (10; it ends on a batch).  WORKERS=worker processes or threads (2).
SHEET=FILE.png keeps the first batch as a picture sheet (and FILE.npy).  Peers with a container of their own write it into DIR/peers first;
delete that folder when the pictures change.

Where a peer does another job: tfdata decodes with the fast DCT, its default, draws smaller crops (mean area .39 of the picture, RandomResizedCrop
.45), and does not round after the resize; tfdata_noaa resizes without antialias, which is tf.image.resize's default.  dali_crop and tfdata decode the crop
alone, all others the whole picture.  ffcv and ffcv_same use the fast DCT and OpenCV's INTER_AREA; ffcv's writer codes all pictures again, ffcv_same
keeps the files' bytes.  webdataset shuffles shards of 100 and a buffer of 1000, litdata blocks of 256.  floor_*: libjpeg-turbo by simplejpeg,
one thread, times two."""
import io, math, os, statistics, sys, time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import numpy as np

MEAN = np.array([.485, .456, .406], np.float32)
STD = np.array([.229, .224, .225], np.float32)
SCALE, RATIO, S, B = (0.08, 1.0), (3 / 4, 4 / 3), 224, 64
W = int(os.environ.get("WORKERS", "2"))
WIN = float(os.environ.get("WINDOW", "10"))
PEERS = {}


def peer(f, jobs=("train", "decode", "val"), name=None):
    PEERS[name or f.__name__] = (f, jobs)
    return f


def split(job):
    return "val" if job == "val" else "train"


def files(d, job):
    """(paths, labels) in ImageFolder's order; reads every file once, so that the page cache is warm"""
    root = os.path.join(d, split(job))
    paths, labels = [], []
    for k, c in enumerate(sorted(os.listdir(root))):
        for f in sorted(os.listdir(os.path.join(root, c))):
            paths.append(os.path.join(root, c, f))
            labels.append(k)
    for p in paths:
        open(p, "rb").read()
    return paths, labels


def container(d, job, kind, write):
    """DIR/peers/KIND-SPLIT, written by write(path, paths, labels) if it is not there (train in a shuffled order); read once"""
    out = os.path.join(d, "peers", f"{kind}-{split(job)}")
    if not os.path.exists(out):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        part = f"{out}.part{os.getpid()}"
        paths, labels = files(d, job)
        order = np.random.default_rng(1).permutation(len(paths)) if split(job) == "train" else range(len(paths))
        write(part, [paths[i] for i in order], [labels[i] for i in order])
        os.rename(part, out)
    for r, _, fs in os.walk(out) if os.path.isdir(out) else [(os.path.dirname(out), 0, [os.path.basename(out)])]:
        for f in fs:
            with open(os.path.join(r, f), "rb") as s:
                while s.read(1 << 24):
                    pass
    return out


def passes(n):
    """how often a container's loader goes through its n records before its epoch ends, so that no window holds an end"""
    return max(1, 240000 // n)


def cpu():
    """CPU seconds used so far by this process and the workers below it"""
    used, kids = {}, {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            s = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        kids.setdefault(int(s[1]), []).append(int(p))
        used[int(p)] = (int(s[11]) + int(s[12])) / os.sysconf("SC_CLK_TCK")
    todo, t = [os.getpid()], 0.
    while todo:
        t += used.get(todo[0], 0.)
        todo += kids.get(todo.pop(0), [])
    return t


def sheet(x, out):
    """8 x 8 pictures of a normalised batch, NHWC or NCHW"""
    from PIL import Image
    np.save(os.path.splitext(out)[0] + ".npy", x)
    if x.shape[1] == 3:
        x = x.transpose(0, 2, 3, 1)
    u = np.clip(np.rint((x * STD + MEAN) * 255), 0, 255).astype(np.uint8)
    Image.fromarray(u.reshape(8, 8, S, S, 3).transpose(0, 2, 1, 3, 4).reshape(8 * S, 8 * S, 3)).resize((4 * S, 4 * S)).save(out)


def report(name, job, step, times=1):
    """step() does one batch of B images"""
    t, n = time.perf_counter(), 0
    while n < 2 * W or time.perf_counter() - t < max(2., WIN / 2):
        step()
        n += 1
    got, ms = [], []
    for _ in range(3):
        n, c, t = 0, cpu(), time.perf_counter()
        while (dt := time.perf_counter() - t) < WIN:
            step()
            n += B
        got.append(times * n / dt)
        ms.append((cpu() - c) / n * 1e3)
    print(f"{name}.{job} {statistics.median(got):.1f}", flush=True)
    print(f"#   windows: {' '.join('%.1f' % g for g in got)}  cpu_ms_per_image: {' '.join('%.2f' % m for m in ms)}", file=sys.stderr)


def measure(name, job, batches):
    """batches: an endless iterator of image batches (decode: of anything, B images each)"""
    it = iter(batches)
    if job != "decode":
        x = np.asarray(next(it))
        assert x.dtype == np.float32 and x.shape in ((B, 3, S, S), (B, S, S, 3)), (x.dtype, x.shape)
        assert x.min() > -2.2 and x.max() < 2.7 and abs(float(x.mean())) < 1.5 and 0.3 < float(x.std()) < 2, (x.min(), x.max(), x.mean(), x.std())
        if os.environ.get("SHEET"):
            sheet(x, os.environ["SHEET"])
        del x
    report(name, job, lambda: next(it))


def forever(make):
    while True:
        yield from make()


# ------------------------------------------------------------------ floor: libjpeg-turbo itself
def floor(d, job, name, half=False, **kw):
    """simplejpeg into one reused buffer, one thread, times two (reads included; CMYK files left out: it cannot make RGB of them)"""
    import simplejpeg
    paths, size = files(d, job)[0], {}
    for p in paths:
        try:
            h, w, space, _ = simplejpeg.decode_jpeg_header(open(p, "rb").read())
        except ValueError:      # CMYK 4:2:0
            continue
        if space != "CMYK":
            size[p] = dict(min_height=(h + 1) // 2, min_width=(w + 1) // 2) if half else kw
    paths, rng, out = list(size), np.random.default_rng(0), np.empty(1 << 23, np.uint8)
    order = forever(lambda: rng.permutation(len(paths)))

    def step():
        for _ in range(B):
            p = paths[next(order)]
            with open(p, "rb") as f:
                simplejpeg.decode_jpeg(f.read(), buffer=out, strict=False, **size[p])
    report(name, job, step, times=2)


peer(lambda d, j: floor(d, j, "floor_full"), ("decode",), "floor_full")
peer(lambda d, j: floor(d, j, "floor_fast", fastdct=True, fastupsample=True), ("decode",), "floor_fast")
peer(lambda d, j: floor(d, j, "floor_scaled", min_height=256, min_width=256), ("decode",), "floor_scaled")   # n/8, the least with both sides >= 256
peer(lambda d, j: floor(d, j, "floor_half", half=True), ("decode",), "floor_half")


# ------------------------------------------------------------------ torch
def tv(job, pil):
    """torchvision's v2 transforms, from a PIL image or a u8 tensor (C,H,W)"""
    import torch
    from torchvision.transforms import v2 as T
    if job == "decode":
        return (lambda im: torch.tensor(im.size)) if pil else (lambda x: x[:, 0, 0].clone())
    first = [T.RandomResizedCrop(S, SCALE, RATIO, antialias=True), T.RandomHorizontalFlip()] if job == "train" else [T.Resize(256, antialias=True), T.CenterCrop(S)]
    return T.Compose(first + [T.PILToTensor()] * pil + [T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN.tolist(), STD.tolist())])


class Endless:
    """a sampler without epochs' ends: permutation after permutation (or the files in order)"""

    def __init__(self, n, shuffle):
        self.n, self.shuffle = n, shuffle

    def __iter__(self):
        rng = np.random.default_rng(0)
        return forever(lambda: (rng.permutation(self.n) if self.shuffle else np.arange(self.n)).tolist())


class Tensors:
    """torchvision.io on u8 tensors"""

    def __init__(self, paths, labels, t):
        self.paths, self.labels, self.t = paths, labels, t

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file
        return self.t(decode_jpeg(read_file(self.paths[i]), mode=ImageReadMode.RGB)), self.labels[i]


def workers(**kw):
    return dict(num_workers=W, persistent_workers=W > 0, prefetch_factor=2 if W else None, **kw)


def torch_loader(name, job, ds):
    import torch
    torch.set_num_threads(1 if W else 2)
    measure(name, job, (b[0] for b in torch.utils.data.DataLoader(ds, batch_size=B, drop_last=True, sampler=Endless(len(ds), job != "val"), **workers())))


@peer
def torch_pil(d, job):
    """ImageFolder (PIL) + v2 transforms + DataLoader: the usual way"""
    from torchvision.datasets import ImageFolder
    files(d, job)
    torch_loader("torch_pil", job, ImageFolder(os.path.join(d, split(job)), tv(job, True)))


@peer
def torch_tensor(d, job):
    """torchvision.io.decode_jpeg -> u8 tensor + v2 transforms + DataLoader"""
    torch_loader("torch_tensor", job, Tensors(*files(d, job), tv(job, False)))


# ------------------------------------------------------------------ webdataset, MDS, litdata: containers for torch
def first(s):
    return s[0]


@peer
def webdataset(d, job):
    """tar shards of 100 files (their bytes unchanged), shards and a buffer of 1000 shuffled; decode("pilrgb") + v2; batched in the worker"""
    import webdataset as wds

    def write(out, paths, labels):
        os.makedirs(out)
        with wds.ShardWriter(os.path.join(out, "%04d.tar"), maxcount=100 if job != "val" else 60, verbose=0) as w:
            for i, (p, y) in enumerate(zip(paths, labels)):
                w.write({"__key__": "%06d" % i, "jpg": open(p, "rb").read(), "cls": y})
    out = container(d, job, "wds", write)
    shards = sorted(os.path.join(out, f) for f in os.listdir(out))
    rng = np.random.default_rng(0)                          # 1000 epochs as one list of shards: `repeat=True` ends after one
    urls = [shards[i] for _ in range(1000) for i in (rng.permutation(len(shards)) if job != "val" else range(len(shards)))]
    ds = wds.WebDataset(urls, shardshuffle=False)
    if job != "val":
        ds = ds.shuffle(1000)
    ds = ds.decode("pilrgb").to_tuple("jpg", "cls").map_tuple(tv(job, True)).batched(B, partial=False)
    measure("webdataset", job, map(first, wds.WebLoader(ds, batch_size=None, **workers())))


@peer
def mds(d, job):
    """mosaicml-streaming, local MDS shards (64 MB), column "jpeg" (bytes unchanged, PIL on reading) + v2"""
    import torch
    from PIL import Image
    from streaming import MDSWriter, StreamingDataset

    def write(out, paths, labels):
        with MDSWriter(columns={"image": "jpeg", "label": "int"}, out=out, size_limit=1 << 26) as w:
            for p, y in zip(paths, labels):
                w.write({"image": Image.open(p), "label": y})
    out, t = container(d, job, "mds", write), tv(job, True)
    n = len(files(d, job)[0])

    class Mds(StreamingDataset):
        def __getitem__(self, i):
            r = super().__getitem__(i)
            return t(r["image"].convert("RGB")), r["label"]
    ds = Mds(local=out, shuffle=job != "val", batch_size=B, epoch_size=passes(n) * n)
    dl = torch.utils.data.DataLoader(ds, batch_size=B, drop_last=True, **workers())
    measure("mds", job, forever(lambda: map(first, dl)))


def lit_record(r):
    from PIL import Image
    return {"image": Image.open(r[0]), "label": r[1]}


def lit_image(t, r):
    return t(r["image"]), r["label"]


@peer
def litdata(d, job):
    """litdata chunks (64 MB, JPEG bytes unchanged), decoded by torchvision.io + v2 (PIL, turned upright, where there is EXIF)"""
    import functools, litdata as lit

    def write(out, paths, labels):
        lit.optimize(lit_record, list(zip(paths, labels)), out, chunk_bytes="64MB", num_workers=1, start_method="fork", verbose=False)
    out = container(d, job, "litdata", write)
    ds = lit.StreamingDataset(out, shuffle=job != "val", drop_last=False, subsample=float(passes(len(files(d, job)[0]))), transform=functools.partial(lit_image, tv(job, False)))
    dl = lit.StreamingDataLoader(ds, batch_size=B, drop_last=True, **workers())
    measure("litdata", job, forever(lambda: map(first, dl)))


# ------------------------------------------------------------------ grain
class Paths:
    def __init__(self, paths, labels):
        self.x = list(zip(paths, labels))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]

    def __repr__(self):
        return "Paths"


@peer
def grain(d, job):
    """MapDataset -> PIL crop and resize, f32 by numpy, grain's rng -> batch -> mp_prefetch"""
    import grain as g
    from absl import flags, logging
    flags.FLAGS.mark_as_parsed()
    logging.set_verbosity(logging.ERROR)
    a, b = (1 / (255 * STD)).astype(np.float32), (-MEAN / STD).astype(np.float32)

    class Load(g.transforms.RandomMap):
        def random_map(self, e, rng):
            from PIL import Image
            im = Image.open(e[0]).convert("RGB")
            w, h = im.size
            if job == "decode":
                return {"image": np.array([w, h]), "label": e[1]}
            if job == "val":
                r, q = (256, int(256 * h / w)) if w < h else (int(256 * w / h), 256)
                i, j = round((q - S) / 2), round((r - S) / 2)
                im = im.resize((r, q), Image.BILINEAR).crop((j, i, j + S, i + S))
            else:
                for _ in range(10):
                    area, ratio = w * h * rng.uniform(*SCALE), math.exp(rng.uniform(*np.log(RATIO)))
                    cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
                    if 0 < cw <= w and 0 < ch <= h:
                        j, i = int(rng.integers(0, w - cw + 1)), int(rng.integers(0, h - ch + 1))
                        break
                else:
                    cw, ch = min(w, round(h * RATIO[1])), min(h, round(w / RATIO[0]))
                    j, i = (w - cw) // 2, (h - ch) // 2
                im = im.crop((j, i, j + cw, i + ch)).resize((S, S), Image.BILINEAR)
                if rng.random() < .5:
                    im = im.transpose(Image.FLIP_LEFT_RIGHT)
            return {"image": np.asarray(im) * a + b, "label": e[1]}
    ds = g.MapDataset.source(Paths(*files(d, job))).seed(12)
    if job != "val":
        ds = ds.shuffle()
    ds = ds.repeat().random_map(Load()).to_iter_dataset().batch(B, drop_remainder=True)
    ds = ds.mp_prefetch(g.MultiprocessingOptions(num_workers=W, per_worker_buffer_size=2)) if W else ds
    measure("grain", job, (x["image"] for x in ds))


# ------------------------------------------------------------------ tf.data
def tfdata(d, job, antialias, name):
    """read_file -> decode_and_crop_jpeg (box by sample_distorted_bounding_box) -> tf.image.resize -> flip; parallel map, then batch"""
    import tensorflow as tf
    paths, labels = files(d, job)
    one = tf.constant([[[0., 0., 1., 1.]]])

    def f(path, y):
        s = tf.io.read_file(path)
        if job == "decode":
            x = tf.io.decode_jpeg(s, channels=3)
            return x[0, 0], y
        if job == "val":
            x = tf.io.decode_jpeg(s, channels=3)
            s = 256 * tf.shape(x)[:2] // tf.reduce_min(tf.shape(x)[:2])
            at = tf.cast(tf.round((s - S) / 2), tf.int32)
            x = tf.image.resize(x, s, antialias=antialias)[at[0]:at[0] + S, at[1]:at[1] + S]
        else:
            at, size, _ = tf.image.sample_distorted_bounding_box(tf.io.extract_jpeg_shape(s), one, min_object_covered=0., aspect_ratio_range=RATIO, area_range=SCALE,
                                                                 max_attempts=10, use_image_if_no_bounding_boxes=True)
            x = tf.io.decode_and_crop_jpeg(s, tf.stack([at[0], at[1], size[0], size[1]]), channels=3)
            x = tf.image.random_flip_left_right(tf.image.resize(x, [S, S], antialias=antialias))
        return tf.ensure_shape(x, [S, S, 3]) * (1 / (255 * STD)) + (-MEAN / STD), y
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    if job != "val":
        ds = ds.shuffle(len(paths))
    ds = ds.repeat().map(f, num_parallel_calls=tf.data.AUTOTUNE, deterministic=job == "val").batch(B, drop_remainder=True).prefetch(2)
    o = tf.data.Options()
    o.threading.private_threadpool_size = W
    measure(name, job, (b[0] for b in ds.with_options(o).as_numpy_iterator()))


peer(lambda d, j: tfdata(d, j, True, "tfdata"), name="tfdata")
peer(lambda d, j: tfdata(d, j, False, "tfdata_noaa"), ("train", "val"), "tfdata_noaa")     # tf.image.resize's default: no antialias


# ------------------------------------------------------------------ DALI
def dali(d, job, crop, name):
    """CPU pipeline: readers.file -> decoders.image_random_crop + resize (crop) or decoders.image + random_resized_crop -> crop_mirror_normalize (the flip), NCHW"""
    from nvidia.dali import fn, pipeline_def, types
    files(d, job)
    rgb = dict(device="cpu", output_type=types.RGB, adjust_orientation=False)
    how = dict(interp_type=types.INTERP_LINEAR, antialias=True)

    @pipeline_def(batch_size=B, num_threads=W, device_id=None, prefetch_queue_depth=2, seed=12)
    def pipe():
        x, y = fn.readers.file(file_root=os.path.join(d, split(job)), shuffle_after_epoch=job != "val", name="reader")
        if job == "train" and crop:
            x = fn.decoders.image_random_crop(x, random_area=SCALE, random_aspect_ratio=RATIO, num_attempts=10, **rgb)
            x = fn.resize(x, size=(S, S), **how)
        elif job == "train":
            x = fn.random_resized_crop(fn.decoders.image(x, **rgb), size=(S, S), random_area=SCALE, random_aspect_ratio=RATIO, num_attempts=10, **how)
        else:
            x = fn.decoders.image(x, **rgb)
            if job == "decode":
                return x, y
            x = fn.resize(x, resize_shorter=256, subpixel_scale=False, **how)
        flip = dict(mirror=fn.random.coin_flip()) if job == "train" else {}
        return fn.crop_mirror_normalize(x, crop=(S, S), dtype=types.FLOAT, output_layout="CHW", mean=(MEAN * 255).tolist(), std=(STD * 255).tolist(), **flip), y
    p = pipe()
    p.build()
    measure(name, job, (x if job == "decode" else x.as_array() for x, _ in forever(lambda: [p.run()])))


peer(lambda d, j: dali(d, j, True, "dali_crop"), ("train",), "dali_crop")
peer(lambda d, j: dali(d, j, False, "dali_full"), name="dali_full")


# ------------------------------------------------------------------ FFCV
def ffcv(d, job, same, name):
    """.beton, jpg mode; RandomResizedCropRGBImageDecoder (full decode with the fast DCT, then OpenCV INTER_AREA), flip, NormalizeImage.
    same: the files' own bytes (CMYK re-coded); else as FFCV's writer does it: all coded again, quality 90, 4:2:0"""
    from PIL import Image
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from ffcv.writer import DatasetWriter

    class Same(RGBImageField):
        def encode(self, destination, image, malloc):
            if isinstance(image, Image.Image):
                return super().encode(destination, image, malloc)
            (w, h), raw = image
            destination["mode"], destination["height"], destination["width"] = 0, h, w
            destination["data_ptr"], storage = malloc(len(raw))
            storage[:] = np.frombuffer(raw, np.uint8)

    class Records:
        def __init__(self, paths, labels):
            self.x = list(zip(paths, labels))

        def __len__(self):
            return len(self.x)

        def __getitem__(self, i):
            im = Image.open(self.x[i][0])
            keep = same and im.mode != "CMYK"
            return ((im.size, open(self.x[i][0], "rb").read()) if keep else im.convert("RGB")), self.x[i][1]

    def write(out, paths, labels):
        field = RGBImageField(write_mode="jpg", jpeg_quality=90)
        if same:
            field.encode = Same(write_mode="jpg").encode    # the field keeps its type, which the file's header names
        DatasetWriter(out, {"image": field, "label": IntField()}, num_workers=1).from_indexed_dataset(Records(paths, labels))
    beton = container(d, job, name + ".beton", write)
    n = len(files(d, job)[0])
    if job == "decode":                                     # decode, then a 1 x 1 picture of a few pixels
        image = [CenterCropRGBImageDecoder((1, 1), ratio=.01), ToTensor()]
    else:
        image = [RandomResizedCropRGBImageDecoder((S, S), SCALE, RATIO), RandomHorizontalFlip()] if job == "train" else [CenterCropRGBImageDecoder((S, S), ratio=S / 256)]
        image += [NormalizeImage(MEAN * 255, STD * 255, np.float32), ToTensor(), ToTorchImage(channels_last=False)]
    order = dict(order=OrderOption.RANDOM if job != "val" else OrderOption.SEQUENTIAL, indices=np.tile(np.arange(n), passes(n)))
    dl = Loader(beton, batch_size=B, num_workers=W, drop_last=True, os_cache=True, pipelines={"image": image, "label": [IntDecoder(), ToTensor()]}, **order)
    measure(name, job, forever(lambda: map(first, dl)))


peer(lambda d, j: ffcv(d, j, False, "ffcv"), name="ffcv")
peer(lambda d, j: ffcv(d, j, True, "ffcv_same"), name="ffcv_same")


if __name__ == "__main__":
    name, d, job = sys.argv[1:2] or ["list"], sys.argv[2:3] or ["."], sys.argv[3:4] or ["train"]
    name, d, job = name[0], d[0], job[0]
    if name not in PEERS or (len(sys.argv) > 3 and job not in PEERS[name][1]):
        print("\n".join(f"{n} {' '.join(j)}" for n, (_, j) in PEERS.items()))
        sys.exit(0 if name == "list" else 2)
    run, jobs = PEERS[name]
    run(d, job if job in jobs else jobs[0])
    sys.stdout.flush()
    import multiprocessing
    for p in multiprocessing.active_children():   # endless loaders: end their workers without waiting for them
        p.terminate()
        p.join(2)
    os._exit(0)
