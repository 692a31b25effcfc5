"""A stream as grain's IterDataset: its iterators have get_state and set_state, as orbax's checkpoints want."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grain

from ._graph import GraphLike
from ._stream import Stream


class DatasetIterator(grain.DatasetIterator):  # type: ignore[misc,unused-ignore]
    """Batches as dicts of numpy arrays."""

    def __init__(self, graph: GraphLike, how: dict[str, Any]) -> None:
        super().__init__()
        self.stream = Stream(graph, **how)

    def __next__(self) -> dict[str, Any]:
        return {name: array.__array__() for name, array in next(self.stream).items()}

    def get_state(self) -> dict[str, Any]:
        return self.stream.state_dict()

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.stream.load_state_dict(state)

    def close(self) -> None:
        self.stream.close()


class IterDataset(grain.IterDataset):  # type: ignore[misc,unused-ignore]
    """The batches of a graph; what is arguments of mr.stream follows it."""

    def __init__(self, graph: GraphLike, **how: Any) -> None:
        super().__init__()
        self._graph = graph
        self._how = how

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self._graph, self._how)
