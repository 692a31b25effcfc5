"""A stream as a tf.data.Dataset, by from_generator."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from ._arrays import DTYPES
from ._graph import GraphLike
from ._stream import Stream

_NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "u8": "uint8", "i32": "int32",
          "u32": "uint32", "i64": "int64", "u64": "uint64", "bool": "bool", "f8_e4m3fn": "float8_e4m3fn",
          "f8_e5m2": "float8_e5m2"}
assert set(_NAMES.values()) == {name for name, _, _ in DTYPES}


def _signature(field: dict[str, Any]) -> Any:
    dtype = tf.as_dtype(_NAMES[field["dtype"]])
    if field.get("ragged"):
        return tf.RaggedTensorSpec([None, None, *field["dim"][1:]], dtype, 1, tf.int64)
    return tf.TensorSpec([None, *field["dim"]], dtype)


def _tensor(array: Any) -> Any:
    values = array.__array__()
    offsets = getattr(array, "offsets", None)
    return values if offsets is None else tf.RaggedTensor.from_row_splits(values, offsets.__array__())


def dataset(graph: GraphLike, **how: Any) -> Any:
    """Batches as dicts of tensors, which are copies; what is arguments of mr.stream follows the graph.

    Each loop begins at the start, or at state=.  tf.data has no way to say where a loop is: read the stream itself, or
    count its batches, to save a place.
    """
    with Stream(graph, **how) as stream:
        fields = {f["name"]: _signature(f) for f in stream.spec["fields"]}

    def batches() -> Iterator[dict[str, Any]]:
        with Stream(graph, **how) as stream:
            for batch in stream:
                yield {name: _tensor(array) for name, array in batch.items()}

    return tf.data.Dataset.from_generator(batches, output_signature=fields)
