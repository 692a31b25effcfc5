"""A program that uses the package, for mypy and pyright: scripts/check-wheel.sh."""

from __future__ import annotations

import millrace as mr


def graph() -> mr.Graph:
    photos = mr.folder("photos/train") | mr.shuffle(seed=1, epochs=2) | mr.decode()
    both = mr.mix(photos, mr.range(90), weights="1,3")
    return both | mr.resized_crop(224, scale=(0.5, 1.0)) | mr.normalize(dtype="bf16") | mr.batch(64, workers=2)


def records(state: mr.State | None = None) -> int:
    n = 0
    with mr.stream(graph(), state=state, host=(0, 2), settings={"workers": 2}) as stream:
        for batch in stream:
            shape: tuple[int, ...] = batch["image"].shape
            n += shape[0] + len(batch.ids)
    return n


def served(address: str) -> list[int]:
    with mr.connect(address) as stream:
        return next(stream).ids
