"""millrace's stream graph in Python: batches of named arrays, without copies.

    import millrace as mr
    stream = mr.stream("folder photos/train ! shuffle seed=1 epochs=2 ! decode ! resized-crop 224 ! normalize ! batch 64")
    for batch in stream:
        x = torch.from_dlpack(batch["image"])

Stages are functions of their names: mr.folder("photos/train") | mr.shuffle(seed=1) | mr.batch(64).
"""

from __future__ import annotations


from ._arrays import Array, Batch
from ._graph import Graph, GraphLike, Stage, dataset, map, map_batches, quoted, stage, stages
from ._stream import State, Stream
from .errors import (
    ClosedError,
    ConfigError,
    DataError,
    Error,
    OutOfMemoryError,
    ReadError,
    ShapeError,
    StoppedError,
    UnavailableError,
    UsageError,
)

TYPE_CHECKING = False  # as typing's, which takes longer to import than all of the package
if TYPE_CHECKING:
    from typing import Any

    from ._stages import *  # noqa: F403

__version__ = "0.1.0"
__all__ = [
    "Array", "Batch", "ClosedError", "ConfigError", "DataError", "Error", "Graph", "GraphLike", "OutOfMemoryError",
    "ReadError", "ShapeError", "Stage", "State", "StoppedError", "Stream", "UnavailableError", "UsageError", "connect",
    "dataset", "map", "map_batches", "stage", "stages", "stream", "to_jax",
]


def stream(graph: GraphLike, **how: Any) -> Stream:
    """Opens the batches of a graph: its text, a path, or stages joined by "|".

    state: where to begin, from Stream.state.  host=(i, n): slice i of n of each batch.  keep: batches whose
    arrays may be views of the stream's buffers at a time; those beyond are copies.  stage: whose batches.
    settings: {"workers": 2, "shuffle.seed": 3}, as words after the graph of `millrace run`.  plugins: the graph
    may load plug-ins, which are code.
    """
    return Stream(graph, **how)


def connect(address: str, **how: Any) -> Stream:
    """Opens the batches that `millrace serve` gives at an address, "tcp://host:port"."""
    if not isinstance(address, str):
        raise TypeError(f'address: want a text, "tcp://host:port", not {type(address).__name__}')
    return Stream(f"source {quoted(address)}", **how)


def to_jax(batch: Any, sharding: Any = None) -> dict[str, Any]:
    """The arrays of a batch as JAX's: views on the CPU, or put where a sharding says."""
    import jax  # pyright: ignore[reportMissingImports]

    arrays = {name: jax.dlpack.from_dlpack(a) for name, a in batch.items()}
    return arrays if sharding is None else {n: jax.device_put(a, sharding) for n, a in arrays.items()}


if not TYPE_CHECKING:  # type checkers read _stages.pyi

    def __getattr__(name: str) -> Stage:
        if name.startswith("__"):
            raise AttributeError(name)
        return stage(name)



def __dir__() -> list[str]:
    return sorted(__all__ + [s.replace("-", "_") for s in stages()])
