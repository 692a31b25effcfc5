"""A stream as torch's IterableDataset: DataLoader(dataset, batch_size=None, num_workers=0, pin_memory=True)."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils.data
from torch.utils.dlpack import from_dlpack

from ._graph import GraphLike
from ._stream import Stream
from .errors import UsageError


class IterableDataset(torch.utils.data.IterableDataset):  # type: ignore[type-arg,unused-ignore]
    """Batches as dicts of tensors.  A loop begins where the last one stopped, or anew once the stream is over.

    The stream has workers of its own (workers= of its batch stage), so that the DataLoader needs none.
    """

    def __init__(self, graph: GraphLike, **how: Any) -> None:
        super().__init__()
        self.stream = Stream(graph, **how)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        if torch.utils.data.get_worker_info() is not None:
            raise UsageError("DataLoader(num_workers=...): want 0, because the stream has threads of its own; "
                             "give its batch stage workers= instead")
        for batch in self.stream:
            yield {name: from_dlpack(array) for name, array in batch.items()}
        self.stream.seek(0)

    def __len__(self) -> int:
        return len(self.stream)

    def state_dict(self) -> dict[str, Any]:
        return self.stream.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stream.load_state_dict(state)
