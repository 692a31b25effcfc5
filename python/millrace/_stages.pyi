"""Made by scripts/python-stubs.py from the table of stages; do not edit."""

import os
from collections.abc import Sequence
from typing import Literal, Union

from ._graph import Graph

Number = Union[int, float, str]  # "64MiB" too
Text = Union[str, int, float, "os.PathLike[str]", Sequence[Union[str, int, float, "os.PathLike[str]"]]]
Range = Union[str, float, Sequence[float]]
Vector = Union[str, float, Sequence[float]]

__all__ = [
    "alert",
    "arrayrecord",
    "auto_augment",
    "batch",
    "beton",
    "broadcast",
    "center_crop",
    "checkpoint",
    "cifar10",
    "cifar100",
    "color_jitter",
    "concatenate",
    "count",
    "csv",
    "cutmix",
    "decode",
    "delay",
    "delay_record",
    "drop",
    "eval_step",
    "filter",
    "flip",
    "folder",
    "gather",
    "gaussian_blur",
    "grayscale",
    "identity",
    "interleave",
    "jsonl",
    "ledger",
    "limit",
    "link_in",
    "link_out",
    "litdata",
    "mds",
    "mix",
    "mixup",
    "mp_prefetch",
    "normalize",
    "npy",
    "npz",
    "null",
    "one_hot",
    "pad_crop",
    "predict",
    "progress",
    "prometheus",
    "publish",
    "rand_augment",
    "random_erasing",
    "random_map",
    "range",
    "rebatch",
    "rename",
    "repeat",
    "resize",
    "resized_crop",
    "safetensors",
    "seed",
    "select",
    "sequential",
    "shard_to_device",
    "shuffle",
    "slice",
    "source",
    "synthetic",
    "table",
    "tar",
    "tee",
    "telemetry",
    "tensorboard",
    "tfrecord",
    "to_device",
    "to_iter_dataset",
    "tokens",
    "train_step",
    "trivial_augment",
    "vit_step",
    "web",
    "window_shuffle",
    "zip",
]

def alert(
    *inputs: Graph,
    nan: bool | None = ...,
    plateau: Number | None = ...,
    stall: Number | None = ...,
    slow: Number | None = ...,
    disk: Number | None = ...,
    command: Text | None = ...,
    webhook: Text | None = ...,
    fail: bool | None = ...,
    resume_reported: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Runs a command, sends a POST request, or fails the run when a run goes wrong.

    nan: Alerts if the loss is not finite, or a step that is not ends the run (on-nan).

    plateau: Alerts if the smoothed loss has had no new minimum for this many steps; 0: never.

    stall: Alerts if the training stage waits for data for this share of its time; 0: never.

    slow: Alerts if the smoothed images/s fall below this share of their best; 0: never.

    disk: Alerts if the disk of the run has less free space than this (needs telemetry before it); 0: never.

    command: Shell command to run; MILLRACE_ALERT, MILLRACE_STEP and MILLRACE_TEXT are set for it; a graph's text
    has $$ for a dollar.

    webhook: URL that receives a POST request with the alert as JSON; needs a build with libcurl.

    fail: Makes the run fail at its end.

    resume_reported: Last step that the run reported before it was killed; steps up to it are shown as repeated
    ones."""

def arrayrecord(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the records of ArrayRecord files, grain's format, in any order.

    files: Files, as in train-{00000..00127}-of-00128.array_record; several names are joined by "::".

    fields: Features, the fields they become and how: image/encoded:image,id:id:i32; AS is bytes, label, or a
    type, with a shape (f32[2x3]) or without; __record__:record is the whole record.  By default every feature
    that all undamaged records have.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def auto_augment(
    *inputs: Graph | Literal["imagenet", "cifar10", "svhn"],
    policy: Literal["imagenet", "cifar10", "svhn"] | None = ...,
    filter: Literal["nearest", "bilinear"] | None = ...,
    fill: Vector | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Applies one of 25 learned pairs of operations to pictures (AutoAugment).

    policy: Data set for which the pairs were learned.

    filter: How sheared, moved and turned pictures are sampled.

    fill: Level of each channel outside of such a picture; a single number applies to all channels.

    field: Field of the pictures; needed where several fields could be pictures."""

def batch(
    *inputs: Graph | Number,
    size: Number | None = ...,
    drop_remainder: bool | None = ...,
    across_epochs: bool | None = ...,
    order: Literal["stream", "grain-workers"] | None = ...,
    loader_workers: Number | None = ...,
    host: Text | None = ...,
    parts: Number | None = ...,
    skip_steps: Text | None = ...,
    resume: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Collects records into batches.

    size: Number of records in a batch.

    drop_remainder: Drops the last batch of an epoch if it is not full.

    across_epochs: Lets a batch cross the end of an epoch, as grain's DataLoader does.

    order: grain-workers: batches as grain's worker processes make them, each of every loader-workers-th record,
    across epochs.

    loader_workers: Number of grain's worker processes that order=grain-workers reproduces; workers= sets the
    threads of this stage.

    host: Produces only slice I of N, from 0, of each batch, for N processes that share it.

    parts: With host=: slices are whole parts of a batch that is cut into this many, as ranks share those of
    ordered= (docs/distributed.md); 0: slices of equal records.

    skip_steps: Steps to skip, from 1, 3,10-20 or @FILE: their batches come empty and change no parameter.

    resume: Written by a resume that changed the stream: the position at which the batch behind this many steps
    begins, and the state of the stream there."""

def beton(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the samples of FFCV's .beton files, in any order.

    files: Files, as in train.beton; several names are joined by "::".

    fields: Fields of the file, and what they become: image:image,class:label; AS is label, for whole numbers.  By
    default every field.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def broadcast(
    *inputs: Graph | Text,
    bind: Text | None = ...,
    link: Text | None = ...,
    key: Text | None = ...,
    peers: Text | None = ...,
    window: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Publishes buffers to any number of subscribers, and waits for none.

    bind: Where subscribers come: tcp://HOST:PORT (port * takes a free one), ipc://@NAME or ipc://FILE.

    link: Name that requests begin with.

    key: File of the secret key, needed beyond loopback.

    peers: Public key files of accepted peers, separated by commas.

    window: Buffers kept for subscribers that are a little late."""

def center_crop(
    *inputs: Graph | Text,
    size: Text | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Cuts the middle out of each picture.

    size: Height and width of the output pictures.

    field: Field of the pictures; needed where several fields could be pictures."""

def checkpoint(
    *inputs: Graph | Text,
    dir: Text | None = ...,
    keep: Number | None = ...,
    best: Number | None = ...,
    best_by: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Writes training states as safetensors files.

    dir: Folder to write to; it is created if it is missing.

    keep: Number of checkpoints to keep; older ones of the run are removed; 0: keeps all.

    best: Also keeps this many of the best by best-by, and DIR/best points to the best one.

    best_by: The metric of held-back records that says which is best, with an input before it if that is not
    valid: accuracy, valid.dogs/loss."""

def cifar10(
    *inputs: Text,
    path: Text | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    memory: Number | None = ...,
    read_ahead: bool | None = ...,
    backend: Literal["auto", "uring", "direct", "pread", "mmap"] | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    records: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the pictures of CIFAR-10's binary files.

    path: Folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    memory: Files up to this size are kept in memory, larger ones are read as records are needed; -1: half of the
    free memory.

    read_ahead: Reads records that are not in memory while earlier ones are transformed.

    backend: How files are read; auto chooses by machine and data (`millrace doctor` prints why).

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones.

    records: Records in each file."""

def cifar100(
    *inputs: Text,
    path: Text | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    memory: Number | None = ...,
    read_ahead: bool | None = ...,
    backend: Literal["auto", "uring", "direct", "pread", "mmap"] | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    labels: Literal["fine", "coarse"] | None = ...,
    records: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the pictures of CIFAR-100's binary files.

    path: Folder of train.bin and test.bin.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    memory: Files up to this size are kept in memory, larger ones are read as records are needed; -1: half of the
    free memory.

    read_ahead: Reads records that are not in memory while earlier ones are transformed.

    backend: How files are read; auto chooses by machine and data (`millrace doctor` prints why).

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones.

    labels: Which label a record has: one of 100 fine classes, or one of 20 coarse ones.

    records: Records in train.bin; test.bin holds a fifth as many."""

def color_jitter(
    *inputs: Graph,
    brightness: Text | None = ...,
    contrast: Text | None = ...,
    saturation: Text | None = ...,
    hue: Text | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Changes brightness, contrast, saturation and hue of pictures at random.

    brightness: Range of the brightness factor; D means 1-D (at least 0) to 1+D.

    contrast: Range of the contrast factor; D means 1-D (at least 0) to 1+D.

    saturation: Range of the saturation factor; D means 1-D (at least 0) to 1+D.

    hue: Range of the hue shift in turns, within [-0.5,0.5]; D means -D to D.

    field: Field of the pictures; needed where several fields could be pictures."""

def concatenate(
    *inputs: Graph,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Passes one stream after the other (grain's MapDataset.concatenate)."""

def count(
    *inputs: Number,
    n: Number | None = ...,
    bytes: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Produces numbered buffers of plain bytes.

    n: Number of buffers; 0: endless.

    bytes: Bytes of a buffer."""

def csv(
    *inputs: Graph | Text,
    path: Text | None = ...,
    resume_step: Number | None = ...,
    resume_valid: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Writes the numbers of each metrics record as a row of a CSV file.

    path: File to write; its folder is created if it is missing.

    resume_step: Keeps what an earlier run wrote up to this step, and appends; -1: starts a new file.

    resume_valid: Whether that step was validated before its checkpoint; if not, its validation is reported again."""

def cutmix(
    *inputs: Graph | Number,
    alpha: Number | None = ...,
    p: Number | None = ...,
    classes: Number | None = ...,
    seed: Number | None = ...,
    label: Text | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Fills a box of each picture of a batch from the one before it, and blends labels.

    alpha: Both parameters of the beta distribution from which a record's own share is drawn.

    p: Probability that a batch is mixed; labels always become rows.

    classes: Number of classes; 0: that of the input.

    seed: Seed of the draws, which are a function of it, the epoch and the records.

    label: Field of the labels; needed where several fields could be labels.

    field: Field of the pictures; needed where several fields could be pictures."""

def decode(
    *inputs: Graph,
    max_pixels: Number | None = ...,
    mode: Literal["exact", "fast"] | None = ...,
    orient: bool | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Decodes JPEG, PNG and WebP files to RGB pictures, each of its own size.

    max_pixels: Most pixels of a picture; one with more is a bad record and takes no memory.

    mode: exact: Pillow's pixels; fast: a resize behind it reads the colours of JPEG files at their own
    resolution, which is faster and changes pixels a little (docs/pictures.md).

    orient: Turns pictures upright by their EXIF orientation, as Pillow's exif_transpose does.

    field: Field of the encoded bytes; needed where several fields could be encoded bytes."""

def delay(
    *inputs: Graph | Number,
    us: Number | None = ...,
    asleep: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Delays each buffer on a thread of its own, to simulate a slow stage.

    us: Delay of each buffer.

    asleep: Sleeps during the delay, so that other threads can use the processor."""

def delay_record(
    *inputs: Graph | Number,
    us: Number | None = ...,
    asleep: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Delays each record in its chain, to simulate a slow transform.

    us: Delay of each record.

    asleep: Sleeps meanwhile, and leaves the processor to others."""

def drop(
    *inputs: Graph | Text,
    fields: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Removes some fields from each record.

    fields: Names of the fields to remove."""

def eval_step(
    *inputs: Graph | Text,
    checkpoint: Text | None = ...,
    dtype: Literal["f32", "bf16", "f16"] | None = ...,
    amp: Literal["usual", "jaxamp", "none"] | None = ...,
    amp_rule: Text | None = ...,
    param_dtype: Literal["f32", "bf16", "f16"] | None = ...,
    records: Text | None = ...,
    mistakes: Text | None = ...,
    evaluations: Number | None = ...,
    ema: bool | None = ...,
    matmul_precision: Literal["none", "default", "high", "highest"] | None = ...,
    threads: Number | None = ...,
    pin: bool | None = ...,
    device: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Evaluates a checkpoint of train-step over each epoch of a stream.

    checkpoint: Checkpoint file of train-step; the model is the one it holds.

    dtype: Type that the model computes in, as far as amp says.  f16 wants loss-scale=dynamic: small gradients are
    0 in it.

    amp: What computes in dtype: usual (products, and what follows them; sums, norms and losses in f32), jaxamp
    (as the library of that name), or none (all in f32).

    amp_rule: Exceptions to amp, as "head=f32, attn=original, exp=compute": a part of the model or an op, and
    class, compute, f32, original, follow or as-is.

    param_dtype: Type of the parameters that the model reads.

    records: What the records are called beside the result, where they are no test records.

    mistakes: File that gets a line of JSON for each record whose class is guessed wrong: its id, its class and
    the guess, when the evaluations have ended; default: none.

    evaluations: Ends after this many, also of an endless stream; 0: when the stream ends.

    ema: Evaluates the average of the weights if the checkpoint holds one (train-step ema=), not the weights of
    its last step.

    matmul_precision: Precision of products of f32, as train-step's.

    threads: Number of compute threads; 0: one per processor.

    pin: Binds each of these threads to a processor of its own, or in turn if there are fewer processors.

    device: Where the step runs: cpu, opencl[:N] or cuda[:N], the device of that number by OpenCL or by CUDA
    (docs/devices.md)."""

def filter(
    *inputs: Graph | Text,
    label: Text | None = ...,
    field: Text | None = ...,
    key: Range | None = ...,
    modulo: Number | None = ...,
    remainder: Range | None = ...,
    p: Number | None = ...,
    seed: Number | None = ...,
    invert: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Keeps the records of some labels, values or keys, or a share of them (grain's filter).

    label: Keeps records whose label, or whose field=, is one of these; all without it.

    field: Field that label= is compared with, one whole number a record; needed if records have no label and
    several such fields.

    key: Keeps records whose key lies in this range, both ends included.

    modulo: Keeps records by the remainder of key / modulo; 0 asks for none.

    remainder: Remainders that stay, both ends included.

    p: Keeps this share of the records, drawn by key and seed.

    seed: Decides which share p keeps.

    invert: Inverts the choice."""

def flip(
    *inputs: Graph | Number,
    p: Number | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Mirrors pictures left to right, each with probability p.

    p: Probability that a picture is mirrored.

    field: Field of the pictures; needed where several fields could be pictures."""

def folder(
    *inputs: Text,
    path: Text | None = ...,
    list: Text | None = ...,
    index: Text | None = ...,
    relist: bool | None = ...,
    field: Text | None = ...,
    max_bytes: Number | None = ...,
    max_files: Number | None = ...,
    allow_empty: bool | None = ...,
    read_threads: Number | None = ...,
    id_base: Number | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the picture files of a folder, one folder a class, as torchvision's ImageFolder.

    path: Folder that holds a folder of pictures for each class; or a URL, s3://BUCKET/PREFIX, or http:// with
    list=.

    list: List of the files to use, in its order: CSV with a header, or JSON lines, with file_name (or path, below
    the folder) and label (a number or a name).  A URL: paths are relative to the list if path= is not given.

    index: URLs: where the listing is kept, which is made at first use: auto (in cache=, else in the user's
    cache), or a folder.

    relist: URLs: lists the files anew, and replaces the listing that is kept, which every other run uses, however
    old it is.

    field: Name of the field of encoded bytes.

    max_bytes: Size of the largest file; a larger one is a bad record.

    max_files: Most files; a folder with more is refused.

    allow_empty: Accepts classes without a picture, as torchvision's allow_empty does.

    read_threads: Threads that read files while earlier ones are transformed; 0: files are read when they are due.

    id_base: Id of the first file; give folders that are used in one graph different ids.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def gather(
    *inputs: Graph | Number,
    size: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Assembles whole batches from the slices of several readers (batch host=I/N).

    size: Number of records in a whole batch; 0: those of all slices together."""

def gaussian_blur(
    *inputs: Graph | Text,
    kernel: Text | None = ...,
    sigma: Range | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Blurs pictures with a Gaussian kernel of random width.

    kernel: Height and width of the kernel in pixels, odd.

    sigma: Standard deviation, drawn uniformly.

    field: Field of the pictures; needed where several fields could be pictures."""

def grayscale(
    *inputs: Graph | Number,
    p: Number | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Makes pictures grey, each with probability p.

    p: Probability that a picture becomes grey.

    field: Field of the pictures; needed where several fields could be pictures."""

def identity(
    *inputs: Graph,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Passes buffers unchanged."""

def interleave(
    *inputs: Graph | Number,
    cycle_length: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Takes records from several streams in turn (grain's InterleaveIterDataset).

    cycle_length: Number of streams that are open at a time."""

def jsonl(
    *inputs: Graph | Text,
    path: Text | None = ...,
    resume_step: Number | None = ...,
    resume_valid: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Writes every metrics record as one line of JSON.

    path: File to write; its folder is created if it is missing.

    resume_step: Keeps what an earlier run wrote up to this step, and appends; -1: starts a new file.

    resume_valid: Whether that step was validated before its checkpoint; if not, its validation is reported again."""

def ledger(
    *inputs: Graph | Text,
    path: Text | None = ...,
    state: Text | None = ...,
    every: Number | None = ...,
    steps: Number | None = ...,
    resume_step: Number | None = ...,
    resume_ledger: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Writes the contents of each batch, and the state of the stream after it.

    path: File of the lines; default: none.

    state: File of the stream's state, from which `millrace run --from FILE` resumes.

    every: Steps between writes of the state; it is also written at the end.

    steps: Ends after this step of the stream, counted from its beginning; 0: never.

    resume_step: Keeps the lines of an earlier run up to this step, and appends; -1: starts a new file.

    resume_ledger: Ledger at resume-step, from which the final one continues."""

def limit(
    *inputs: Graph | Number,
    n: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Ends a stream after n records (grain's LimitIterDataset).

    n: Most records to pass."""

def link_in(
    *inputs: Graph,
    link: Text | None = ...,
    address: Text | None = ...,
    bind: bool | None = ...,
    key: Text | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    window: Number | None = ...,
    linger: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Receives buffers from a link-out in another process or on another host.

    link: Name of the link, the same on both ends.

    address: tcp://HOST:PORT, ipc://@NAME or ipc://FILE.

    bind: Listens at the address; the other end connects.

    key: File of this end's secret key, for links between hosts.

    peers: Public key files of the accepted or expected peers, separated by commas.

    peer: Name of the process at the other end, for messages.

    window: Most buffers in flight or in use at the receiving end.

    linger: How long this end waits for acknowledgements before it closes."""

def link_out(
    *inputs: Graph,
    link: Text | None = ...,
    address: Text | None = ...,
    bind: bool | None = ...,
    key: Text | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    window: Number | None = ...,
    linger: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Sends buffers to a link-in in another process or on another host.

    link: Name of the link, the same on both ends.

    address: tcp://HOST:PORT, ipc://@NAME or ipc://FILE.

    bind: Listens at the address; the other end connects.

    key: File of this end's secret key, for links between hosts.

    peers: Public key files of the accepted or expected peers, separated by commas.

    peer: Name of the process at the other end, for messages.

    window: Most buffers in flight or in use at the receiving end.

    linger: How long this end waits for acknowledgements before it closes."""

def litdata(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the items of litdata's chunks, in any order.

    files: Folder with an index.json; several are joined by "::".

    fields: Leaves, and the fields they become: image,class:label; AS is label, for whole numbers.  By default
    every leaf that can be a field.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def mds(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the samples of MosaicML Streaming's shards, in any order.

    files: Folder with an index.json; several are joined by "::".

    fields: Columns, and the fields they become: jpeg:image,class:label; AS is label, for whole numbers, or bytes,
    for numbers as text.  By default every column that can be a field.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def mix(
    *inputs: Graph | Text,
    weights: Text | None = ...,
    exact: bool | None = ...,
    resume: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Mixes streams by weights (grain's MapDataset.mix and IterDataset.mix).

    weights: Shares of the inputs a, b, .. in the output, or NAME:A,NAME:B,.. with names of inputs or of the
    stages that lead to them; default: equal.

    exact: Uses the weights as given; grain scales the smallest to 100 and truncates the others to integers,
    233:100 for 7:3.

    resume: Written by a resume that changed the mix: from this position on each input continues at a position of
    its own."""

def mixup(
    *inputs: Graph | Number,
    alpha: Number | None = ...,
    p: Number | None = ...,
    classes: Number | None = ...,
    seed: Number | None = ...,
    label: Text | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Blends each record of a batch with the one before it, pictures and labels.

    alpha: Both parameters of the beta distribution from which a record's own share is drawn.

    p: Probability that a batch is mixed; labels always become rows.

    classes: Number of classes; 0: that of the input.

    seed: Seed of the draws, which are a function of it, the epoch and the records.

    label: Field of the labels; needed where several fields could be labels.

    field: Field of the pictures; needed where several fields could be pictures."""

def mp_prefetch(
    *inputs: Graph | Number,
    num_workers: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Orders records as grain's worker processes do (grain's mp_prefetch).

    num_workers: Number of grain's worker processes whose order is reproduced."""

def normalize(
    *inputs: Graph,
    preset: Literal["none", "cifar10", "imagenet"] | None = ...,
    mean: Vector | None = ...,
    std: Vector | None = ...,
    layout: Literal["hwc", "chw"] | None = ...,
    dtype: Literal["f32", "bf16", "u8"] | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Turns bytes into floats: (x/255 - mean) / std for each channel.

    preset: Uses mean and std of a known data set instead of the settings below.

    mean: Subtracted from each channel of values in [0,1]; a single number applies to all channels.

    std: Divisor of each channel, above 0; a single number applies to all channels.

    layout: Order of the output axes.

    dtype: Output type; bf16: rounded; u8: the bytes, of at most three channels for a step, in the chosen layout,
    which train-step and eval-step then normalise.

    field: Field of the pictures; needed where several fields could be pictures."""

def npy(
    *inputs: Text,
    images: Text | None = ...,
    labels: Text | None = ...,
    fields: Text | None = ...,
    ragged: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    layout: Literal["auto", "hwc", "chw", "none"] | None = ...,
    id_base: Number | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    memory: Number | None = ...,
    read_ahead: bool | None = ...,
    backend: Literal["auto", "uring", "direct", "pread", "mmap"] | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads records from .npy files: images and labels, or fields of any names.

    images: File or URL of the images, (N, ...) of u1 or f4, C-ordered.

    labels: File or URL of the labels, (N,) of u1, i4, u4, i8 or u8.

    fields: Other fields, each the array (N, ...) of a file, of any type; images and labels are then optional.

    ragged: Fields with a varying number of rows per record: a file of all rows, and one of the row at which each
    record begins, (N+1,) of i8.

    classes: Labels are in [0,classes).

    names: File of the class names, one per line; without classes= there are as many as names.

    layout: Meaning of the three dimensions of an image; auto: the side with one, three or four channels, last or
    first.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    memory: Files up to this size are kept in memory, larger ones are read as records are needed; -1: half of the
    free memory.

    read_ahead: Reads records that are not in memory while earlier ones are transformed.

    backend: How files are read; auto chooses by machine and data (`millrace doctor` prints why).

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def npz(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the rows of the arrays of .npz files, in any order.

    files: Files, as in part-{0..7}.npz; several names are joined by "::".

    fields: Arrays, and the fields that their rows become: pixels:image,class:label; AS is label, for whole
    numbers.  By default every array that has a row for each record.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def null(
    *inputs: Graph,
    limit: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Discards its input; keeps only a count and a ledger.

    limit: Ends after this many buffers; 0: never."""

def one_hot(
    *inputs: Graph | Number,
    classes: Number | None = ...,
    smoothing: Number | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Turns labels into rows of f32, with label smoothing.

    classes: Length of a row; 0: the number of classes of the input.

    smoothing: Share of each label that is spread evenly over all classes.

    field: Field of the labels; needed where there are several."""

def pad_crop(
    *inputs: Graph | Text,
    size: Text | None = ...,
    padding: Number | None = ...,
    mode: Literal["constant", "edge", "reflect", "symmetric"] | None = ...,
    fill: Vector | None = ...,
    pad_if_needed: bool | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Pads pictures and cuts a box of one size out of each at a random place.

    size: Height and width of the output pictures.

    padding: Pixels added on each side before the box is cut out.

    mode: What is added: the fill (constant), the outermost pixel (edge), or the mirrored picture without
    (reflect) or with (symmetric) its outermost pixel.

    fill: Level of each channel for mode=constant; a single number applies to all channels.

    pad_if_needed: Pads smaller pictures further, on each side by the missing height or width.

    field: Field of the pictures; needed where several fields could be pictures."""

def predict(
    *inputs: Graph | Text,
    checkpoint: Text | None = ...,
    features: bool | None = ...,
    dtype: Literal["f32", "bf16", "f16"] | None = ...,
    amp: Literal["usual", "jaxamp", "none"] | None = ...,
    amp_rule: Text | None = ...,
    param_dtype: Literal["f32", "bf16", "f16"] | None = ...,
    ema: bool | None = ...,
    matmul_precision: Literal["none", "default", "high", "highest"] | None = ...,
    threads: Number | None = ...,
    pin: bool | None = ...,
    device: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Gives what a checkpoint of train-step predicts for each record: classes and scores.

    checkpoint: Checkpoint file of train-step; the model is the one it holds.

    features: Gives what the model's last product takes, its embedding of the record, instead of what it predicts.

    dtype: Type that the model computes in, as far as amp says.  f16 wants loss-scale=dynamic: small gradients are
    0 in it.

    amp: What computes in dtype: usual (products, and what follows them; sums, norms and losses in f32), jaxamp
    (as the library of that name), or none (all in f32).

    amp_rule: Exceptions to amp, as "head=f32, attn=original, exp=compute": a part of the model or an op, and
    class, compute, f32, original, follow or as-is.

    param_dtype: Type of the parameters that the model reads.

    ema: Predicts by the average of the weights if the checkpoint holds one (train-step ema=), not by the weights
    of its last step.

    matmul_precision: Precision of products of f32, as train-step's.

    threads: Number of compute threads; 0: one per processor.

    pin: Binds each of these threads to a processor of its own, or in turn if there are fewer processors.

    device: Where the step runs: cpu, opencl[:N] or cuda[:N], the device of that number by OpenCL or by CUDA
    (docs/devices.md)."""

def progress(
    *inputs: Graph | Number,
    every: Number | None = ...,
    resume_reported: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Shows the progress of training: a live line on a terminal, plain lines elsewhere.

    every: Steps between plain lines.

    resume_reported: Last step that the run reported before it was killed; steps up to it are shown as repeated
    ones."""

def prometheus(
    *inputs: Graph | Number,
    bind: Text | None = ...,
    port: Number | None = ...,
    allow_host: Text | None = ...,
    tls_cert: Text | None = ...,
    tls_key: Text | None = ...,
    resume_reported: Number | None = ...,
    resume_images: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Serves the newest metrics at /metrics for Prometheus.

    bind: Address to listen at; addresses beyond loopback need tls-cert and tls-key.

    port: Port to listen at; 0: any free port; the default is followed by the next free one.

    allow_host: Additional host name, without port, that requests may use.

    tls_cert: File with the certificate, PEM.

    tls_key: File with the key of the certificate, PEM.

    resume_reported: Last step that the run reported before it was killed; steps up to it are shown as repeated
    ones.

    resume_images: Training images up to resume-reported, or up to the checkpoint where no step is repeated; their
    counter begins there and waits there while steps are repeated."""

def publish(
    *inputs: Graph | Text,
    bind: Text | None = ...,
    linger: Number | None = ...,
    resume_reported: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Publishes metrics over ZeroMQ, one topic per metric.

    bind: Address of the socket: tcp:// on loopback (port *: any free one), or ipc://FILE.

    linger: How long the end of a run waits for subscribers to receive its last records.

    resume_reported: Last step that the run reported before it was killed; steps up to it are shown as repeated
    ones."""

def rand_augment(
    *inputs: Graph | Number,
    ops: Number | None = ...,
    magnitude: Number | None = ...,
    bins: Number | None = ...,
    filter: Literal["nearest", "bilinear"] | None = ...,
    fill: Vector | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Applies a few of fourteen operations of one magnitude to pictures (RandAugment).

    ops: Number of operations, drawn one after the other.

    magnitude: Magnitude of all operations, less than bins.

    bins: Number of magnitudes to choose from.

    filter: How sheared, moved and turned pictures are sampled.

    fill: Level of each channel outside of such a picture; a single number applies to all channels.

    field: Field of the pictures; needed where several fields could be pictures."""

def random_erasing(
    *inputs: Graph | Number,
    p: Number | None = ...,
    scale: Range | None = ...,
    ratio: Range | None = ...,
    value: Text | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Overwrites a random box of each picture with probability p.

    p: Probability that a box is erased.

    scale: Share of the picture's area that a box covers, drawn uniformly.

    ratio: Aspect ratio of a box, drawn uniformly in its logarithm.

    value: What the box is filled with: a number for each channel, one for all, or random, a standard normal for
    each value of pictures behind normalize.

    field: Field of the pictures; needed where several fields could be pictures."""

def random_map(
    *inputs: Graph,
    seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Seeds the records' generators as grain's random_map does.

    seed: Seed of the generators; default: derived from a stage "seed" before this one."""

def range(
    *inputs: Number,
    start: Number | None = ...,
    stop: Number | None = ...,
    step: Number | None = ...,
    epochs: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Produces the integers of a range (grain's MapDataset.range).

    start: First number; if it is the only setting, the end of a range from 0.

    stop: End of the range, exclusive.

    step: Difference of neighbouring numbers.

    epochs: Number of passes; 0: endless.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def rebatch(
    *inputs: Graph | Number,
    size: Number | None = ...,
    drop_remainder: bool | None = ...,
    host: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Changes the size of batches (grain's RebatchIterDataset).

    size: Number of records in an output batch.

    drop_remainder: Drops the last batch of the stream if it is not full.

    host: Produces only slice I of N, from 0, of each batch, for N processes that share it."""

def rename(
    *inputs: Graph | Text,
    fields: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Renames fields of records.

    fields: Old and new names of fields."""

def repeat(
    *inputs: Graph | Number,
    n: Number | None = ...,
    reseed_each_epoch: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Repeats a stream several times within one epoch (grain's repeat).

    n: Number of repetitions; 0: endless.

    reseed_each_epoch: false: all passes equal the first one, including shuffles and draws."""

def resize(
    *inputs: Graph | Text,
    size: Text | None = ...,
    filter: Literal["bilinear", "bicubic", "lanczos", "hamming", "box", "nearest"] | None = ...,
    pillow: Literal["13", "12"] | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Resizes pictures as Pillow does, to HxW or by their shorter side.

    size: Pixels of the shorter side, or height and width of the output pictures.

    filter: Pillow's filter.

    pillow: Pillow version whose bytes to reproduce: 13 resizes tall pictures vertically first, 12 and earlier
    always horizontally first.

    field: Field of the pictures; needed where several fields could be pictures."""

def resized_crop(
    *inputs: Graph | Number,
    size: Number | None = ...,
    scale: Range | None = ...,
    ratio: Range | None = ...,
    alpha: bool | None = ...,
    filter: Literal["bilinear", "bicubic", "lanczos", "hamming", "box", "nearest"] | None = ...,
    pillow: Literal["13", "12"] | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Cuts a random box out of each picture and resizes it as Pillow does.

    size: Height and width of the output pictures.

    scale: Share of the picture's area that a box covers, drawn uniformly.

    ratio: Aspect ratio of a box, drawn uniformly in its logarithm.

    alpha: Treats the fourth of four channels as alpha, which weights the others, as Pillow does for RGBA; false:
    treats it as another channel.

    filter: Pillow's filter.

    pillow: Pillow version whose bytes to reproduce: 13 resizes tall boxes vertically first, 12 and earlier always
    horizontally first.

    field: Field of the pictures; needed where several fields could be pictures."""

def safetensors(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the rows of the tensors of safetensors files, in any order.

    files: Files, as in part-{0..7}.safetensors; several names are joined by "::".

    fields: Tensors, and the fields that their rows become: pixels:image,class:label; AS is label, for whole
    numbers.  By default every tensor that has a row for each record.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def seed(
    *inputs: Graph | Number,
    seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Sets the seed from which the random stages after it derive theirs (grain's Dataset.seed).

    seed: Seed from which the later stages derive theirs."""

def select(
    *inputs: Graph | Text,
    fields: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Keeps some fields of each record.

    fields: Names of the fields to keep, in the order of the output."""

def sequential(
    *inputs: Graph,
    seed: Number | None = ...,
    epochs: Number | None = ...,
    drop_remainder: bool | None = ...,
    whole_shards: bool | None = ...,
    first: Number | None = ...,
    resume: Text | None = ...,
    shard: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Passes the records in their own order (grain's SequentialSampler).

    seed: Seed of the records' generators; -1: the records get none.

    epochs: Number of passes over the records; 0: endless.  Default: that of the input.

    drop_remainder: Drops the remainder of the records that does not divide evenly among the shards.

    whole_shards: Each shard gives all of its records in every epoch, even if shards differ in size; grain 0.2.18
    omits some and lets the shards' epochs drift apart.

    first: Each epoch ends after this many records; 0: after all.

    resume: Written by a resume that found more records: this epoch began with so few, keeps their order, and has
    those added since at its end.

    shard: Reads only records I, I+N, I+2N, ...; default: all."""

def shard_to_device(
    *inputs: Graph | Text,
    mesh: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Shares each batch among the ranks of a mesh, which compute the step behind it together.

    mesh: Ranks with named axes, as batch=8,model=1: the records of a batch are shared along data, batch or else
    the first axis; along the others parameters are cut, as partition= of the step says.  Threads of this process,
    each with its share of the processors, or the processes of a job that a launcher has started
    (docs/distributed.md)."""

def shuffle(
    *inputs: Graph,
    seed: Number | None = ...,
    epochs: Number | None = ...,
    drop_remainder: bool | None = ...,
    whole_shards: bool | None = ...,
    first: Number | None = ...,
    resume: Text | None = ...,
    shard: Text | None = ...,
    bijective: bool | None = ...,
    reshuffle: bool | None = ...,
    shuffle: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Shuffles the records anew in each epoch (grain's IndexSampler).

    seed: Seed of the order and of the records' generators; -1: none (with shuffle=false).  Default: derived from
    a stage "seed" before this one, if there is one.

    epochs: Number of passes over the records; 0: endless.  Default: that of the input.

    drop_remainder: Drops the remainder of the records that does not divide evenly among the shards.

    whole_shards: Each shard gives all of its records in every epoch, even if shards differ in size; grain 0.2.18
    omits some and lets the shards' epochs drift apart.

    first: Each epoch ends after this many records; 0: after all.

    resume: Written by a resume that found more records: this epoch began with so few, keeps their order, and has
    those added since at its end.

    shard: Reads only part I of N consecutive parts of the records; default: all.

    bijective: Gives each record once per epoch for exactly 4^k + 1 records (k >= 8) too; grain 0.2.18 omits the
    last one and repeats another.

    reshuffle: Each epoch has an order of its own; false: all have that of the first.

    shuffle: Shuffles the records in each epoch; false: keeps their order."""

def slice(
    *inputs: Graph | Text,
    range: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Keeps some positions of each epoch (grain's MapDataset.slice).

    range: Positions of each epoch to keep, as in Python: 2:9:3, ::2, -100: or ::-1."""

def source(
    *inputs: Text,
    link: Text | None = ...,
    subscribe: Text | None = ...,
    window: Number | None = ...,
    key: Text | None = ...,
    peers: Text | None = ...,
    wait: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Receives the batches of `millrace serve` or of a broadcast in another process or on another host.

    link: Address of the server, tcp://HOST:PORT, as it prints when it starts.

    subscribe: Name of the broadcast there ("batches", unless it is given another): takes its buffers as they
    come, and misses those for which it is late.

    window: Most batches in flight or in use here.

    key: File of this end's secret key (`millrace keys`).

    peers: File of the server's public key.

    wait: How long to wait for the server's answer before anything runs."""

def synthetic(
    *,
    split: Literal["train", "valid", "test"] | None = ...,
    n: Number | None = ...,
    seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Draws 32x32 pictures of ten shapes and textures in memory, from a seed.

    split: Which pictures; the splits are disjoint.

    n: Number of pictures; 0: 10000 for train, 1000 for valid, 2000 for test.  Up to 50000 are kept in memory; of
    larger sets each picture is drawn when it is needed (10 us).

    seed: Seed of all pictures.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def table(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the rows of CSV files whose first row names the columns, in any order.

    files: Files, as in part-{0..7}.csv; several names are joined by "::".

    fields: Columns, and the fields they become: price:x:f32,kind:label:class; AS is bytes, i32, i64, f32, f64,
    label (a whole number) or class (a word, as its index in the sorted words of the column).  By default the
    first 16.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def tar(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the samples of WebDataset's tar archives, in any order.

    files: Archives, as in shard-{000..012}.tar; several names are joined by "::".

    fields: Members by extension, and the fields they become: jpg:image,cls:label; AS is bytes, label, int, float
    or npy; __key__:key is the sample's name.  By default every member that all samples have.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def tee(
    *inputs: Graph,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Passes each buffer to all of its outputs."""

def telemetry(
    *inputs: Graph,
    every: Number | None = ...,
    disk: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Adds busy shares of stages, queue depths, step-time quantiles, CPU, memory and disk usage to metrics.

    every: Seconds between measurements, the first with the first record; records in between pass unchanged.

    disk: Folder on the disk whose free space is reported."""

def tensorboard(
    *inputs: Graph | Text,
    dir: Text | None = ...,
    resume_step: Number | None = ...,
    resume_valid: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Writes metrics, histograms, pictures and settings as TensorBoard event files.

    dir: Folder of the event files; it is created if it is missing.

    resume_step: Keeps what an earlier run wrote up to this step, and appends; -1: starts a new file.

    resume_valid: Whether that step was validated before its checkpoint; if not, its validation is reported again."""

def tfrecord(
    *inputs: Text,
    files: Text | None = ...,
    fields: Text | None = ...,
    index: Text | None = ...,
    classes: Number | None = ...,
    names: Text | None = ...,
    id_base: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads the tf.train.Examples of TFRecord files, in any order.

    files: Files, as in train-{00000..00127}-of-00128; several names are joined by "::".

    fields: Features, the fields they become and how: image/encoded:image,id:id:i32; AS is bytes, label, or a
    type, with a shape (f32[2x3]) or without; __record__:record is the whole record.  By default every feature
    that all undamaged records have.

    index: Where index files, which are made at first use, are kept: auto (beside the file if one is there, else
    in the user's cache), beside, or a folder.

    classes: Labels are in [0,classes); 0: unknown.

    names: File of the class names, one per line; without classes= there are as many as names.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    read_ahead: Reads records while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def to_device(
    *inputs: Graph | Text,
    device: Text | None = ...,
    slots: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Copies batches to a device's memory while the step before them computes.

    device: Device of the step behind it: cuda[:N] or opencl[:N] (docs/devices.md); cpu: batches pass unchanged.
    By default the device= of the train-step directly behind it.

    slots: Batches in the device's memory at a time; the step uses up to 4 of them."""

def to_iter_dataset(
    *inputs: Graph,
    allow_nones: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Makes a stream sequential and skips its holes (grain's to_iter_dataset).

    allow_nones: Passes a hole as a record of zeros with label -1 and key 2^64-1 instead of skipping it."""

def tokens(
    *inputs: Text,
    files: Text | None = ...,
    length: Number | None = ...,
    stride: Number | None = ...,
    pack: Literal["stream", "reset", "whole"] | None = ...,
    eos: Number | None = ...,
    pad: Number | None = ...,
    dtype: Literal["u16", "u32", "u8", "i32"] | None = ...,
    vocab: Number | None = ...,
    id_base: Number | None = ...,
    memory: Number | None = ...,
    read_ahead: bool | None = ...,
    connections: Number | None = ...,
    retries: Number | None = ...,
    backoff: Number | None = ...,
    timeout: Number | None = ...,
    local_redirects: bool | None = ...,
    hedge: Number | None = ...,
    ahead: Number | None = ...,
    cache: Text | None = ...,
    cache_size: Text | None = ...,
    cache_block: Number | None = ...,
    shared: bool | None = ...,
    peers: Text | None = ...,
    peer: Text | None = ...,
    peer_token: Text | None = ...,
    endpoint: Text | None = ...,
    region: Text | None = ...,
    anonymous: bool | None = ...,
    split: Literal["train", "valid", "test", "all"] | None = ...,
    holdout: Number | None = ...,
    split_seed: Number | None = ...,
    skip_records: Text | None = ...,
    on_bad: Text | None = ...,
    quarantine: Text | None = ...,
    bad_seed: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Reads windows of token ids, of flat files or Megatron-LM's, in any order.

    files: Files of token ids, such as train-{000..012}.bin; several names are joined by "::".  NAME.bin with
    NAME.idx beside it is Megatron-LM's.

    length: Tokens of a record; its targets are the same tokens shifted by one.

    stride: Distance from the beginning of a window to that of the next; 0: length, so that each token is a target
    once.

    pack: stream: windows over all documents; reset: the same, with positions, segments and mask of documents;
    whole: whole documents, as many as fit, then padding.

    eos: Token that ends a document of a flat file; -1: a file is one document.

    pad: Token that fills the rest of a record of pack=whole.

    dtype: Type of the tokens of a flat file without a header.

    vocab: Number of different tokens; a record with a token outside [0,vocab) is bad; 0: unknown.

    id_base: Id of the first record; give data sets that are used in one graph different ids.

    memory: Tokens are kept in memory if all of them fit into this size, as i32 if these fit; otherwise windows
    are read as they are due; -1: half of the free memory.

    read_ahead: Reads windows that are not in memory while earlier ones are transformed.

    connections: URLs: highest number of requests in flight.

    retries: URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx.

    backoff: URLs: longest pause before the first retry; it doubles each time, up to 20 s, and the pause is drawn
    from 0 to that.

    timeout: URLs: time without a byte, or with less than 64 bytes a second, after which a request has failed.

    local_redirects: URLs: a server elsewhere may redirect to an address of this machine or of its link
    (127.0.0.1, 169.254.169.254), where it could read what is not its own.

    hedge: URLs: a request that takes this many times as long as usual is sent a second time; 0: never.

    ahead: URLs: bytes in memory that are fetched before they are due.

    cache: URLs: folder in which blocks of objects are kept; several runs may share it.  By default none.

    cache_size: URLs: limit of the cache, as in 500GB; the block whose next use is furthest in the future is
    dropped.

    cache_block: URLs: size of a block of the cache.

    shared: URLs: the cache is a group's: what its members wrote there is believed.  By default only this user and
    root may have written it.

    peers: URLs: processes that share their caches, this one included: each block is fetched from the server by
    one of them.

    peer: URLs: which of peers= this process is; it answers there.

    peer_token: URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN.

    endpoint: s3://: server of the buckets, https://HOST:PORT; by default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
    or Amazon's.

    region: s3://: region of the buckets; by default that of AWS_REGION or the profile, else us-east-1.

    anonymous: s3://: reads public buckets without credentials.

    split: train: the training records without those held back; valid: those held back; test: the test records, or
    all records of a source without files of its own for them; all: all training records.

    holdout: Training records held back for validation.

    split_seed: Seed that chooses the records held back.

    skip_records: Records to exclude, 3,10-20 or @FILE: they keep their slot in the batch with zero weight.

    on_bad: What to do with an unreadable or invalid record: fail, skip-replace (use another one) or quarantine:N
    (the same for at most N records, which are listed in a file).

    quarantine: File of on-bad=quarantine:N, one line of JSON per record.

    bad_seed: Seed that chooses the records used instead of bad ones."""

def train_step(
    *inputs: Graph,
    model: Text | None = ...,
    style: Literal["flax", "timm"] | None = ...,
    patch: Number | None = ...,
    embed: Number | None = ...,
    mlp: Number | None = ...,
    heads: Number | None = ...,
    layers: Number | None = ...,
    dropout: Number | None = ...,
    attn_drop: Number | None = ...,
    proj_drop: Number | None = ...,
    drop_path: Number | None = ...,
    qkv_bias: bool | None = ...,
    activation: Literal["gelu", "quick-gelu", "relu", "silu", "tanh"] | None = ...,
    gelu: Literal["auto", "erf", "tanh"] | None = ...,
    norm: Literal["layer", "rms"] | None = ...,
    ln_eps: Number | None = ...,
    label_smoothing: Number | None = ...,
    loss: Literal["cross-entropy", "focal", "mse", "auto"] | None = ...,
    focal_gamma: Number | None = ...,
    threads: Number | None = ...,
    pin: bool | None = ...,
    matmul_precision: Literal["none", "default", "high", "highest"] | None = ...,
    dtype: Literal["f32", "bf16", "f16"] | None = ...,
    amp: Literal["usual", "jaxamp", "none"] | None = ...,
    amp_rule: Text | None = ...,
    param_dtype: Literal["f32", "bf16", "f16"] | None = ...,
    master: Literal["f32", "none"] | None = ...,
    slot_dtype: Literal["f32", "bf16"] | None = ...,
    rounding: Literal["nearest", "stochastic"] | None = ...,
    fp8: Literal["none", "hybrid", "e4m3"] | None = ...,
    fp8_history: Number | None = ...,
    fp8_margin: Number | None = ...,
    fp8_amax: Literal["max", "most-recent"] | None = ...,
    seed: Number | None = ...,
    lr: Number | None = ...,
    optimizer: Literal["sgd", "momentum", "adam", "adamw", "lion", "lamb"] | None = ...,
    b1: Number | None = ...,
    b2: Number | None = ...,
    eps: Number | None = ...,
    weight_decay: Number | None = ...,
    no_decay: Text | None = ...,
    layer_decay: Number | None = ...,
    freeze: Text | None = ...,
    init: Text | None = ...,
    class_weights: Text | None = ...,
    nesterov: bool | None = ...,
    accumulate: Number | None = ...,
    ordered: Number | None = ...,
    zero: Number | None = ...,
    pipeline: Number | None = ...,
    microbatches: Number | None = ...,
    stages: Text | None = ...,
    pipeline_schedule: Literal["1f1b", "gpipe"] | None = ...,
    partition: Text | None = ...,
    remat: Literal["none", "dots", "full"] | None = ...,
    fit: Text | None = ...,
    ema: Number | None = ...,
    clip_norm: Number | None = ...,
    loss_scale: Text | None = ...,
    loss_scale_start: Number | None = ...,
    loss_scale_patience: Number | None = ...,
    redo_on_nan: Number | None = ...,
    max_skipped: Number | None = ...,
    on_nan: Literal["stop", "skip", "trace"] | None = ...,
    replay_dir: Text | None = ...,
    schedule: Literal["constant", "cosine", "linear", "rsqrt"] | None = ...,
    warmup: Number | None = ...,
    warmup_epochs: Number | None = ...,
    validate_every: Number | None = ...,
    validate_minutes: Number | None = ...,
    stop_after: Number | None = ...,
    stop_by: Text | None = ...,
    stop_delta: Number | None = ...,
    steps: Number | None = ...,
    checkpoint_every: Number | None = ...,
    checkpoint_files: Literal["one", "ranks"] | None = ...,
    checkpoint_dir: Text | None = ...,
    checkpoint_minutes: Number | None = ...,
    watch_every: Number | None = ...,
    resume: Text | None = ...,
    from_: Text | None = ...,
    leak_check: Literal["ids", "content", "off"] | None = ...,
    device: Text | None = ...,
    hidden: Number | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Trains a model, one step per batch, and evaluates it.

    model: Model to train; its settings become settings of this stage: `millrace inspect train-step model=NAME`.

    style: Variant of the Vision Transformer, with the names and layout of its parameters.

    patch: Side of a patch; must divide the side of the picture.

    embed: Width of a token.

    mlp: Width inside the MLP.

    heads: Attention heads; must divide embed.

    layers: Encoder blocks.

    dropout: Dropout rate in the MLP while training.

    attn_drop: Dropout rate of the attention probabilities while training.

    proj_drop: timm: dropout rate of the attention output while training; -1: that of dropout.

    drop_path: timm: rate at which records skip the last block while training; 0 in the first block, linear in
    between.

    qkv_bias: timm: biases of q, k and v.

    activation: What the MLPs apply between their products; quick-gelu: x sigmoid(1.702 x), silu: x sigmoid(x).

    gelu: GELU of the MLPs: by erf, or its approximation by tanh; auto: that of style, tanh for flax, erf for
    timm.

    norm: Normalization of tokens: layer; rms: without mean and bias.

    ln_eps: Added to the variance in normalizations, or to the mean square; 0: that of style, 1e-6 for flax, 1e-5
    for timm.

    label_smoothing: Share of the target spread evenly over all classes.

    loss: Loss of classes: cross-entropy; focal: less of it where the prediction is right already; mse: mean
    square of logits minus one-hot.

    focal_gamma: Of the focal loss: how much less a record counts whose class is predicted already.

    threads: Number of compute threads; 0: one per processor.

    pin: Binds each of these threads to a processor of its own, or in turn if there are fewer processors.

    matmul_precision: Precision of f32 products: bf16 with f32 sums (default), three of these (high) or f32
    (highest); none: MILLRACE_MATMUL_PRECISION, else f32.

    dtype: Type that the model computes in, as far as amp says.  f16 wants loss-scale=dynamic: small gradients are
    0 in it.

    amp: What computes in dtype: usual (products, and what follows them; sums, norms and losses in f32), jaxamp
    (as the library of that name), or none (all in f32).

    amp_rule: Exceptions to amp, as "head=f32, attn=original, exp=compute": a part of the model or an op, and
    class, compute, f32, original, follow or as-is.

    param_dtype: Type of the parameters that the model reads.

    master: With a narrow param-dtype: f32 keeps a copy in f32, to which updates are added; none keeps only the
    narrow ones: rounding= decides what becomes of small updates.

    slot_dtype: Type in which the optimizer keeps its moments between steps.

    rounding: How updates are rounded to parameters and moments that are kept narrow: to nearest, which loses what
    is less than half of the distance to the next number, or up or down at random, so that small updates count on
    average; drawn by seed and step.

    fp8: Computes products of bf16 operands in f8 with delayed scaling: operands in e4m3, gradients of results in
    e5m2 (hybrid) or e4m3.  A CPU multiplies f8 values as bf16.  Evaluation computes in dtype.

    fp8_history: Steps whose largest magnitudes the scales of fp8 follow.

    fp8_margin: Divides the scales of fp8 by this power of two.

    fp8_amax: Which magnitude of the history sets a scale of fp8.

    seed: Seed of the initial parameters and of dropout.

    lr: Peak learning rate.

    optimizer: How gradients update the parameters.

    b1: Decay of the first moment, or of the momentum; -1: the optimizer's usual value.

    b2: Decay of the second moment; -1: the optimizer's usual one.

    eps: Added to the root of the second moment; -1: the optimizer's usual value.

    weight_decay: Decoupled weight decay; -1: the optimizer's usual value.

    no_decay: Parameters without weight decay, by names, beginnings of names or patterns, as "vectors,pos_embed",
    where vectors are biases and scales; none: all decay; default timm's rule for style=timm, else none.

    layer_decay: Factor of the learning rate from each layer to the one before it; what comes behind the numbered
    layers has the learning rate itself.

    freeze: Parameters that are not trained, as no-decay names them: "patch_embed,blocks.0,blocks.1".

    init: Initialisers by flax's names: of all kernels, as "xavier_uniform", or of what a pattern means, as
    "he_normal,head=zeros,pos_embed=normal:0.02"; later ones win; default the model's own.

    class_weights: How often the loss of a record counts in training by its class: a number for each class,
    "1,2,0.5", or some by name, "cat:2,dog:0.5".

    nesterov: Uses Nesterov momentum.

    accumulate: Splits a batch into this many parts and adds up their gradients: needs less memory.

    ordered: Works through a batch in this many parts, a power of two, and adds their gradients as a fixed binary
    tree; each record draws what it draws in a batch of one part; 0: none, or 8 behind shard-to-device, whose
    ranks share them.

    zero: What ranks behind shard-to-device keep a share of, with the same results.  0: nothing, each updates all
    parameters; 1: the optimizer's slots and the average, each rank updates its share and receives the others'
    parameters; 2: gradients too, which leave for their share's rank during the backward pass; 3: the parameters
    too, which come before each pass that reads them, or once a step to the stage of a pipeline.

    pipeline: Cuts the model into this many stages, each computed by a rank of its own, through which the
    microbatches of a batch pass; the results are those of ordered=. 0: as many as stages= has, or none.

    microbatches: Parts of a batch in a pipeline, a power of two that divides it: the parts of ordered=. With N
    stages ranks wait (N - 1)/microbatches of the time. 0: those of ordered=, or 8.

    stages: The layers of each stage of a pipeline, as "embed,blocks[0:3] | blocks[3:6],head"; without it the
    stages cost the same as nearly as layers allow.

    pipeline_schedule: Order of a pipeline: back through a microbatch as soon as it can be, which keeps the values
    of at most as many as there are stages, or forward through all first.

    partition: How parameters lie on the ranks' mesh, as rules by name: "*.linear1.kernel=(None,model),
    *.linear2.kernel=(model,None)", also in the words of PartitionSpec, SBP and Megatron (docs/distributed.md).
    The model's own table follows them where the mesh has an axis model; none: whole on each rank.  Parts give
    results close to those of one rank.

    remat: What the backward pass of a block recomputes instead of storing it: needs less memory.

    fit: A memory limit such as 2GiB: chooses remat and accumulate so that the planned peak of a step stays below
    it, the cheapest by the limits of the device.

    ema: Decay of an average of the weights over the steps, debiased, which validation and test then use and
    checkpoints hold beside the weights; 0: none.

    clip_norm: Scales gradients down to this global norm; 0 leaves them.

    loss_scale: Multiplies the loss before the gradient, and divides the gradients by it again: small ones then do
    not vanish in the type of the products.  A number, of which a power of two changes nothing else; or dynamic:
    it grows as long as gradients stay finite, and steps with gradients that are not are skipped.

    loss_scale_start: The first scale of loss-scale=dynamic.

    loss_scale_patience: Finite steps after which a dynamic scale doubles with the next one.

    redo_on_nan: With a dynamic scale, a step whose gradients overflow is run again with the next scale, on the
    same batch and with the same draws, at most this often; then it is skipped.

    max_skipped: With a dynamic scale or on-nan=skip, at most this many steps in a row are skipped; the next one
    that is not finite ends the run.

    on_nan: A step whose loss or gradients are not finite changes nothing.  stop: it ends the run; skip: the run
    continues without it; trace: as stop, and says which op gave the first such number and writes nan-
    STEP.safetensors for `millrace replay`.

    replay_dir: Folder for that file, made if missing; default the run's folder, or the current one outside of
    `millrace train`.

    schedule: Learning rate after the warm-up: constant, a cosine or a line to 0 at the last step, or falling with
    the root of the step.

    warmup: Steps over which the learning rate rises linearly.

    warmup_epochs: The same in epochs, of which it may be a part.

    validate_every: Also evaluates held-back records every this many steps, and emits the state; 0: only after
    each epoch.

    validate_minutes: The same by the clock, that of rank 0 where ranks are processes; 0: not.

    stop_after: Ends training when this many validations in a row are not better than the best one; 0: never.

    stop_by: The metric that says what is better, with an input before it if that is not valid: accuracy,
    valid.dogs/loss.

    stop_delta: By how much more than this a better one is better.

    steps: Ends the run after this many steps; 0: when the stream ends.

    checkpoint_every: Also emits the state every this many steps; 0: only after each epoch and at the end.

    checkpoint_files: In a job of processes: one: rank 0 receives all slots and writes one file; ranks: each
    process writes those of a share into the checkpoints' folder, which all hosts must share, beside the file of
    rank 0, which names them.

    checkpoint_dir: That folder; `millrace train` sets it to that of the stage checkpoint.

    checkpoint_minutes: Also emits the state when it is this old, so that a kill in a long epoch loses no more; 0:
    not.

    watch_every: Reports histograms and sample pictures every this many steps, first after step 1; 0: never.

    resume: Checkpoint file to resume from.

    from_: A new run begins with the parameters of this safetensors file: a checkpoint of another run, or weights
    of a ViT as timm, flax, Hugging Face or torchvision name them, for either style.  Positions are interpolated
    for pictures of another size; a head for other classes begins anew.

    leak_check: Refuses inputs that share records, compared by their location in the files, by their bytes, or not
    at all.

    device: Where the step runs: cpu, opencl[:N] or cuda[:N], the device of that number by OpenCL or by CUDA
    (docs/devices.md).

    hidden: Width of a hidden layer."""

def trivial_augment(
    *inputs: Graph | Number,
    bins: Number | None = ...,
    filter: Literal["nearest", "bilinear"] | None = ...,
    fill: Vector | None = ...,
    field: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Applies one of fourteen operations of any magnitude to pictures (TrivialAugmentWide).

    bins: Number of magnitudes to choose from.

    filter: How sheared, moved and turned pictures are sampled.

    fill: Level of each channel outside of such a picture; a single number applies to all channels.

    field: Field of the pictures; needed where several fields could be pictures."""

def vit_step(
    *inputs: Graph,
    model: Text | None = ...,
    style: Literal["flax", "timm"] | None = ...,
    patch: Number | None = ...,
    embed: Number | None = ...,
    mlp: Number | None = ...,
    heads: Number | None = ...,
    layers: Number | None = ...,
    dropout: Number | None = ...,
    attn_drop: Number | None = ...,
    proj_drop: Number | None = ...,
    drop_path: Number | None = ...,
    qkv_bias: bool | None = ...,
    activation: Literal["gelu", "quick-gelu", "relu", "silu", "tanh"] | None = ...,
    gelu: Literal["auto", "erf", "tanh"] | None = ...,
    norm: Literal["layer", "rms"] | None = ...,
    ln_eps: Number | None = ...,
    label_smoothing: Number | None = ...,
    loss: Literal["cross-entropy", "focal", "mse"] | None = ...,
    focal_gamma: Number | None = ...,
    threads: Number | None = ...,
    pin: bool | None = ...,
    matmul_precision: Literal["none", "default", "high", "highest"] | None = ...,
    dtype: Literal["f32", "bf16", "f16"] | None = ...,
    amp: Literal["usual", "jaxamp", "none"] | None = ...,
    amp_rule: Text | None = ...,
    param_dtype: Literal["f32", "bf16", "f16"] | None = ...,
    master: Literal["f32", "none"] | None = ...,
    slot_dtype: Literal["f32", "bf16"] | None = ...,
    rounding: Literal["nearest", "stochastic"] | None = ...,
    fp8: Literal["none", "hybrid", "e4m3"] | None = ...,
    fp8_history: Number | None = ...,
    fp8_margin: Number | None = ...,
    fp8_amax: Literal["max", "most-recent"] | None = ...,
    seed: Number | None = ...,
    lr: Number | None = ...,
    optimizer: Literal["sgd", "momentum", "adam", "adamw", "lion", "lamb"] | None = ...,
    b1: Number | None = ...,
    b2: Number | None = ...,
    eps: Number | None = ...,
    weight_decay: Number | None = ...,
    no_decay: Text | None = ...,
    layer_decay: Number | None = ...,
    freeze: Text | None = ...,
    init: Text | None = ...,
    class_weights: Text | None = ...,
    nesterov: bool | None = ...,
    accumulate: Number | None = ...,
    ordered: Number | None = ...,
    zero: Number | None = ...,
    pipeline: Number | None = ...,
    microbatches: Number | None = ...,
    stages: Text | None = ...,
    pipeline_schedule: Literal["1f1b", "gpipe"] | None = ...,
    partition: Text | None = ...,
    remat: Literal["none", "dots", "full"] | None = ...,
    fit: Text | None = ...,
    ema: Number | None = ...,
    clip_norm: Number | None = ...,
    loss_scale: Text | None = ...,
    loss_scale_start: Number | None = ...,
    loss_scale_patience: Number | None = ...,
    redo_on_nan: Number | None = ...,
    max_skipped: Number | None = ...,
    on_nan: Literal["stop", "skip", "trace"] | None = ...,
    replay_dir: Text | None = ...,
    schedule: Literal["constant", "cosine", "linear", "rsqrt"] | None = ...,
    warmup: Number | None = ...,
    warmup_epochs: Number | None = ...,
    validate_every: Number | None = ...,
    validate_minutes: Number | None = ...,
    stop_after: Number | None = ...,
    stop_by: Text | None = ...,
    stop_delta: Number | None = ...,
    steps: Number | None = ...,
    checkpoint_every: Number | None = ...,
    checkpoint_files: Literal["one", "ranks"] | None = ...,
    checkpoint_dir: Text | None = ...,
    checkpoint_minutes: Number | None = ...,
    watch_every: Number | None = ...,
    resume: Text | None = ...,
    from_: Text | None = ...,
    leak_check: Literal["ids", "content", "off"] | None = ...,
    device: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Trains a Vision Transformer: train-step model=vit.

    model: Model to train; its settings become settings of this stage: `millrace inspect train-step model=NAME`.

    style: Variant of the Vision Transformer, with the names and layout of its parameters.

    patch: Side of a patch; must divide the side of the picture.

    embed: Width of a token.

    mlp: Width inside the MLP.

    heads: Attention heads; must divide embed.

    layers: Encoder blocks.

    dropout: Dropout rate in the MLP while training.

    attn_drop: Dropout rate of the attention probabilities while training.

    proj_drop: timm: dropout rate of the attention output while training; -1: that of dropout.

    drop_path: timm: rate at which records skip the last block while training; 0 in the first block, linear in
    between.

    qkv_bias: timm: biases of q, k and v.

    activation: What the MLPs apply between their products; quick-gelu: x sigmoid(1.702 x), silu: x sigmoid(x).

    gelu: GELU of the MLPs: by erf, or its approximation by tanh; auto: that of style, tanh for flax, erf for
    timm.

    norm: Normalization of tokens: layer; rms: without mean and bias.

    ln_eps: Added to the variance in normalizations, or to the mean square; 0: that of style, 1e-6 for flax, 1e-5
    for timm.

    label_smoothing: Share of the target spread evenly over all classes.

    loss: Loss of classes: cross-entropy; focal: less of it where the prediction is right already; mse: mean
    square of logits minus one-hot.

    focal_gamma: Of the focal loss: how much less a record counts whose class is predicted already.

    threads: Number of compute threads; 0: one per processor.

    pin: Binds each of these threads to a processor of its own, or in turn if there are fewer processors.

    matmul_precision: Precision of f32 products: bf16 with f32 sums (default), three of these (high) or f32
    (highest); none: MILLRACE_MATMUL_PRECISION, else f32.

    dtype: Type that the model computes in, as far as amp says.  f16 wants loss-scale=dynamic: small gradients are
    0 in it.

    amp: What computes in dtype: usual (products, and what follows them; sums, norms and losses in f32), jaxamp
    (as the library of that name), or none (all in f32).

    amp_rule: Exceptions to amp, as "head=f32, attn=original, exp=compute": a part of the model or an op, and
    class, compute, f32, original, follow or as-is.

    param_dtype: Type of the parameters that the model reads.

    master: With a narrow param-dtype: f32 keeps a copy in f32, to which updates are added; none keeps only the
    narrow ones: rounding= decides what becomes of small updates.

    slot_dtype: Type in which the optimizer keeps its moments between steps.

    rounding: How updates are rounded to parameters and moments that are kept narrow: to nearest, which loses what
    is less than half of the distance to the next number, or up or down at random, so that small updates count on
    average; drawn by seed and step.

    fp8: Computes products of bf16 operands in f8 with delayed scaling: operands in e4m3, gradients of results in
    e5m2 (hybrid) or e4m3.  A CPU multiplies f8 values as bf16.  Evaluation computes in dtype.

    fp8_history: Steps whose largest magnitudes the scales of fp8 follow.

    fp8_margin: Divides the scales of fp8 by this power of two.

    fp8_amax: Which magnitude of the history sets a scale of fp8.

    seed: Seed of the initial parameters and of dropout.

    lr: Peak learning rate.

    optimizer: How gradients update the parameters.

    b1: Decay of the first moment, or of the momentum; -1: the optimizer's usual value.

    b2: Decay of the second moment; -1: the optimizer's usual one.

    eps: Added to the root of the second moment; -1: the optimizer's usual value.

    weight_decay: Decoupled weight decay; -1: the optimizer's usual value.

    no_decay: Parameters without weight decay, by names, beginnings of names or patterns, as "vectors,pos_embed",
    where vectors are biases and scales; none: all decay; default timm's rule for style=timm, else none.

    layer_decay: Factor of the learning rate from each layer to the one before it; what comes behind the numbered
    layers has the learning rate itself.

    freeze: Parameters that are not trained, as no-decay names them: "patch_embed,blocks.0,blocks.1".

    init: Initialisers by flax's names: of all kernels, as "xavier_uniform", or of what a pattern means, as
    "he_normal,head=zeros,pos_embed=normal:0.02"; later ones win; default the model's own.

    class_weights: How often the loss of a record counts in training by its class: a number for each class,
    "1,2,0.5", or some by name, "cat:2,dog:0.5".

    nesterov: Uses Nesterov momentum.

    accumulate: Splits a batch into this many parts and adds up their gradients: needs less memory.

    ordered: Works through a batch in this many parts, a power of two, and adds their gradients as a fixed binary
    tree; each record draws what it draws in a batch of one part; 0: none, or 8 behind shard-to-device, whose
    ranks share them.

    zero: What ranks behind shard-to-device keep a share of, with the same results.  0: nothing, each updates all
    parameters; 1: the optimizer's slots and the average, each rank updates its share and receives the others'
    parameters; 2: gradients too, which leave for their share's rank during the backward pass; 3: the parameters
    too, which come before each pass that reads them, or once a step to the stage of a pipeline.

    pipeline: Cuts the model into this many stages, each computed by a rank of its own, through which the
    microbatches of a batch pass; the results are those of ordered=. 0: as many as stages= has, or none.

    microbatches: Parts of a batch in a pipeline, a power of two that divides it: the parts of ordered=. With N
    stages ranks wait (N - 1)/microbatches of the time. 0: those of ordered=, or 8.

    stages: The layers of each stage of a pipeline, as "embed,blocks[0:3] | blocks[3:6],head"; without it the
    stages cost the same as nearly as layers allow.

    pipeline_schedule: Order of a pipeline: back through a microbatch as soon as it can be, which keeps the values
    of at most as many as there are stages, or forward through all first.

    partition: How parameters lie on the ranks' mesh, as rules by name: "*.linear1.kernel=(None,model),
    *.linear2.kernel=(model,None)", also in the words of PartitionSpec, SBP and Megatron (docs/distributed.md).
    The model's own table follows them where the mesh has an axis model; none: whole on each rank.  Parts give
    results close to those of one rank.

    remat: What the backward pass of a block recomputes instead of storing it: needs less memory.

    fit: A memory limit such as 2GiB: chooses remat and accumulate so that the planned peak of a step stays below
    it, the cheapest by the limits of the device.

    ema: Decay of an average of the weights over the steps, debiased, which validation and test then use and
    checkpoints hold beside the weights; 0: none.

    clip_norm: Scales gradients down to this global norm; 0 leaves them.

    loss_scale: Multiplies the loss before the gradient, and divides the gradients by it again: small ones then do
    not vanish in the type of the products.  A number, of which a power of two changes nothing else; or dynamic:
    it grows as long as gradients stay finite, and steps with gradients that are not are skipped.

    loss_scale_start: The first scale of loss-scale=dynamic.

    loss_scale_patience: Finite steps after which a dynamic scale doubles with the next one.

    redo_on_nan: With a dynamic scale, a step whose gradients overflow is run again with the next scale, on the
    same batch and with the same draws, at most this often; then it is skipped.

    max_skipped: With a dynamic scale or on-nan=skip, at most this many steps in a row are skipped; the next one
    that is not finite ends the run.

    on_nan: A step whose loss or gradients are not finite changes nothing.  stop: it ends the run; skip: the run
    continues without it; trace: as stop, and says which op gave the first such number and writes nan-
    STEP.safetensors for `millrace replay`.

    replay_dir: Folder for that file, made if missing; default the run's folder, or the current one outside of
    `millrace train`.

    schedule: Learning rate after the warm-up: constant, a cosine or a line to 0 at the last step, or falling with
    the root of the step.

    warmup: Steps over which the learning rate rises linearly.

    warmup_epochs: The same in epochs, of which it may be a part.

    validate_every: Also evaluates held-back records every this many steps, and emits the state; 0: only after
    each epoch.

    validate_minutes: The same by the clock, that of rank 0 where ranks are processes; 0: not.

    stop_after: Ends training when this many validations in a row are not better than the best one; 0: never.

    stop_by: The metric that says what is better, with an input before it if that is not valid: accuracy,
    valid.dogs/loss.

    stop_delta: By how much more than this a better one is better.

    steps: Ends the run after this many steps; 0: when the stream ends.

    checkpoint_every: Also emits the state every this many steps; 0: only after each epoch and at the end.

    checkpoint_files: In a job of processes: one: rank 0 receives all slots and writes one file; ranks: each
    process writes those of a share into the checkpoints' folder, which all hosts must share, beside the file of
    rank 0, which names them.

    checkpoint_dir: That folder; `millrace train` sets it to that of the stage checkpoint.

    checkpoint_minutes: Also emits the state when it is this old, so that a kill in a long epoch loses no more; 0:
    not.

    watch_every: Reports histograms and sample pictures every this many steps, first after step 1; 0: never.

    resume: Checkpoint file to resume from.

    from_: A new run begins with the parameters of this safetensors file: a checkpoint of another run, or weights
    of a ViT as timm, flax, Hugging Face or torchvision name them, for either style.  Positions are interpolated
    for pictures of another size; a head for other classes begins anew.

    leak_check: Refuses inputs that share records, compared by their location in the files, by their bytes, or not
    at all.

    device: Where the step runs: cpu, opencl[:N] or cuda[:N], the device of that number by OpenCL or by CUDA
    (docs/devices.md)."""

def web(
    *inputs: Graph | Number,
    bind: Text | None = ...,
    port: Number | None = ...,
    allow_host: Text | None = ...,
    tls_cert: Text | None = ...,
    tls_key: Text | None = ...,
    run: Text | None = ...,
    resume_step: Number | None = ...,
    resume_valid: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Shows the run on a live page.

    bind: Address to listen at; addresses beyond loopback need tls-cert and tls-key.

    port: Port to listen at; 0: any free port; the default is followed by the next free one.

    allow_host: Additional host name, without port, that requests may use.

    tls_cert: File with the certificate, PEM.

    tls_key: File with the key of the certificate, PEM.

    run: Run folder; the page can overlay the curves of the runs beside it.

    resume_step: Keeps what an earlier run wrote up to this step, and appends; -1: starts a new file.

    resume_valid: Whether that step was validated before its checkpoint; if not, its validation is reported again."""

def window_shuffle(
    *inputs: Graph | Number,
    window_size: Number | None = ...,
    seed: Number | None = ...,
    within_epoch: bool | None = ...,
    wrap_seed: bool | None = ...,
    bijective: bool | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Shuffles the records within each window (grain's WindowShuffle datasets).

    window_size: Number of records in a window.

    seed: Seed of the orders.

    within_epoch: Shortens the last window of an epoch; in grain's MapDataset it reaches into the next epoch, so
    that some records come twice and others never.

    wrap_seed: Wraps a window's seed around at 2^32, where grain fails.

    bijective: Gives each record once in a window of exactly 4^k + 1 records (k >= 8) too, where grain omits one."""

def zip(
    *inputs: Graph,
    prefix: Text | None = ...,
    workers: Number | None = ...,
    name: str | None = ...,
) -> Graph:
    """Joins the records of several streams side by side (grain's zip).

    prefix: Prefixes of the field names of inputs a, b, ..: left.,right.; without it, inputs with equal fields are
    stacked."""
