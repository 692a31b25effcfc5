"""Batches and their arrays: views of the stream's own buffers, which go back to it when the last view has gone."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping

from . import _abi
from ._library import library
from .errors import ShapeError, UsageError, error_of

TYPE_CHECKING = False  # as typing's; see __init__.py
if TYPE_CHECKING:
    from typing import Any, Optional

# Of each mr_dtype_t: its name here, its letters in the array interface (None: numpy has none), its bytes.
DTYPES: tuple[tuple[str, Optional[str], int], ...] = (
    ("bool", "|b1", 1), ("uint8", "|u1", 1), ("int32", "<i4", 4), ("uint32", "<u4", 4), ("int64", "<i8", 8),
    ("uint64", "<u8", 8), ("bfloat16", None, 2), ("float16", "<f2", 2), ("float32", "<f4", 4),
    ("float64", "<f8", 8), ("float8_e4m3fn", None, 1), ("float8_e5m2", None, 1),
)
_I64 = 4
_UNSIGNED = {1: "|u1", 2: "<u2"}


class Held:
    """One reference to a batch of the library."""

    __slots__ = ("pointer", "_drop")

    def __init__(self, pointer: Any, drop: Any) -> None:
        self.pointer = pointer
        self._drop = drop

    def __del__(self) -> None:
        self._drop(self.pointer)

    def __reduce__(self) -> Any:
        raise TypeError("a batch is memory of its stream, which no pickle takes along: send "
                        "{name: numpy.array(a) for name, a in batch.items()}, or the stream itself")


class Array:
    """The values of one field of a batch.

    numpy.asarray, torch.from_dlpack, jax.numpy.from_dlpack and others take it without a copy.
    """

    __slots__ = ("_held", "_index", "_data", "_dtype", "shape", "offsets", "readonly", "__weakref__")

    def __init__(self, held: Held, index: int, data: int, dtype: int, shape: tuple[int, ...],
                 readonly: bool, offsets: Optional["Array"] = None) -> None:
        self._held = held
        self._index = index
        self._data = data
        self._dtype = dtype
        self.shape = shape
        self.readonly = readonly
        self.offsets = offsets  # of a ragged field: record i has the rows [offsets[i],offsets[i+1])

    @property
    def dtype(self) -> str:
        """"float32", "bfloat16"."""
        return DTYPES[self._dtype][0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def nbytes(self) -> int:
        return self.size * DTYPES[self._dtype][2]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<millrace.Array {self.dtype}{list(self.shape)}>"

    def _interface(self, letters: str) -> dict[str, Any]:
        return {"version": 3, "shape": self.shape, "typestr": letters, "data": (self._data, self.readonly),
                "strides": None}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        letters = DTYPES[self._dtype][1]
        if letters is None:
            raise AttributeError(f"numpy has no {self.dtype} of its own")
        return self._interface(letters)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        import numpy

        name, letters, size = DTYPES[self._dtype]
        if letters is not None:
            array = numpy.asarray(_Interface(self, letters))
        else:
            try:
                import ml_dtypes  # pyright: ignore[reportMissingImports]
            except ImportError:
                raise ShapeError(f"numpy has no {name}: install ml_dtypes, take the array by DLPack, or put "
                                 '"normalize dtype=f32" into the stream') from None
            array = numpy.asarray(_Interface(self, _UNSIGNED[size])).view(getattr(ml_dtypes, name))
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{name} as {dtype} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __getitem__(self, at: Any) -> Any:
        """As of the numpy array."""
        return self.__array__()[at]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[tuple[int, int]] = None,
                   dl_device: Optional[tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        if stream is not None:
            raise BufferError(f"stream {stream!r}: the array is in the host's memory, which has none")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"device {dl_device!r}: the array is in the host's memory, device (1, 0)")
        if copy:
            return self.copy().__dlpack__(max_version=max_version)
        versioned = max_version is not None and max_version[0] >= 1
        lib = library()
        managed = ctypes.c_void_p()
        diag = _abi.mr_diag_t()
        e = lib.mr_batch_dlpack(self._held.pointer, self._index, versioned, ctypes.byref(managed),
                                ctypes.byref(diag))
        if e < 0:
            raise BufferError(str(error_of(e, diag)))
        name = b"dltensor_versioned" if versioned else b"dltensor"
        return ctypes.pythonapi.PyCapsule_New(managed, name,
                                              ctypes.cast(lib.mr_dlpack_capsule_end, ctypes.c_void_p))

    def __copy__(self) -> "Array":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "Array":
        return self.copy()

    def copy(self) -> "Array":
        """The values in memory of their own, which may be written."""
        held = copied(self._held)
        n_fields: int = held.pointer.contents.n_fields
        layout = Layout(held)
        arrays = layout.arrays(held, layout.read(held))
        for i, array in enumerate(arrays.values()):
            if self._index == i:
                return array
            if self._index == n_fields + i and array.offsets is not None:
                return array.offsets
        raise UsageError("the array is of no field")

    def tolist(self) -> Any:
        return self.__array__().tolist()


class _Interface:
    """What numpy reads an array from: it keeps this object, and with it the batch."""

    __slots__ = ("_of", "_letters")

    def __init__(self, of: Array, letters: str) -> None:
        self._of = of
        self._letters = letters

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._of._interface(self._letters)


class Layout:
    """What all batches of a stream have alike, and a reader of the rest in one call, which is most of a batch's price."""

    __slots__ = ("_fields", "_memory", "_unpack")

    def __init__(self, held: Held) -> None:
        batch, kind, of_field = held.pointer.contents, _abi.mr_batch_t, _abi.mr_batch_field_t
        n_fields: int = batch.n_fields
        parts = [(kind.step.offset, "q"), (kind.epoch.offset, "q"), (kind.n.offset, "i"), (kind.first.offset, "i"),
                 (kind.ends_epoch.offset, "?"), (kind.writable.offset, "?")]
        fields = []
        for i in range(n_fields):
            field, at = batch.field[i], kind.field.offset + i * ctypes.sizeof(of_field)
            parts += [(at + of_field.dim.offset, "q"), (at + of_field.data.offset, "Q"), (at + of_field.offset.offset, "Q")]
            fields.append((field.name.decode(), i, n_fields + i, field.dtype, tuple(field.dim[1:field.ndim])))
        parts.append((kind.kept.offset, "i"))
        text, end = "=", 0
        for at, letter in parts:
            text += f"{at - end}x{letter}"
            end = at + struct.calcsize("=" + letter)
        self._fields = tuple(fields)
        self._memory = ctypes.c_char * end
        self._unpack = struct.Struct(text).unpack_from

    def read(self, held: Held) -> tuple[Any, ...]:
        """step, epoch, n, first, ends_epoch, writable; of each field rows, values, offsets; kept."""
        return self._unpack(self._memory.from_address(ctypes.addressof(held.pointer.contents)))

    def arrays(self, held: Held, read: tuple[Any, ...]) -> dict[str, Array]:
        """The arrays of all fields, by name."""
        out, at, readonly = {}, _BEFORE_FIELDS, not read[WRITABLE]
        for name, i, of_offsets, dtype, tail in self._fields:
            offsets = Array(held, of_offsets, read[at + 2], _I64, (read[_N] + 1,), True) if read[at + 2] else None
            out[name] = Array(held, i, read[at + 1], dtype, (read[at], *tail), readonly, offsets)
            at += 3
        return out


_N, WRITABLE, _BEFORE_FIELDS = 2, 5, 6  # places in what Layout.read gives


def copied(held: Held) -> Held:
    lib = library()
    pointer = lib.mr_batch_copy(held.pointer)
    if not pointer:
        raise MemoryError("out of memory for a copy of a batch")
    return Held(pointer, lib.mr_batch_drop)


if TYPE_CHECKING:
    _Fields = dict[str, Any]
else:
    _Fields = dict


class Batch(_Fields):
    """The fields of a batch by name, each an Array, and where it stands in its stream."""

    __slots__ = ("_held", "_layout", "step", "epoch", "n", "first", "ends_epoch", "copied")

    step: int  #: batches up to and with this one
    epoch: int  #: from 0
    n: int  #: records
    first: int  #: slot of record 0 in the whole batch, above 0 where hosts share
    ends_epoch: bool
    copied: bool  #: the stream's buffers were all kept, so that this is a copy

    def __init__(self, held: Held, layout: Layout, is_copy: bool = False,
                 read: Optional[tuple[Any, ...]] = None) -> None:
        read = read or layout.read(held)
        super().__init__(layout.arrays(held, read))
        self._held, self._layout, self.copied = held, layout, is_copy
        self.step, self.epoch, self.n, self.first, self.ends_epoch = read[:WRITABLE]

    @property
    def ids(self) -> list[int]:
        """The records' ids within their source."""
        batch = self._held.pointer.contents
        return [] if not batch.n else list(batch.key[:batch.n])

    @property
    def excluded(self) -> list[bool]:
        """Which records have no weight: skip-records= names them, or they are holes."""
        batch = self._held.pointer.contents
        return [] if not batch.n else [x != 0 for x in batch.excluded[:batch.n]]

    def copy(self) -> "Batch":
        """The batch in memory of its own."""
        out = Batch(copied(self._held), self._layout, True)
        if any(not isinstance(array, Array) for array in self.values()):  # of map_batches
            from copy import deepcopy

            out.holding({name: deepcopy(array) for name, array in self.items()})
        return out

    def __copy__(self) -> "Batch":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "Batch":
        return self.copy()

    def plain(self) -> dict[str, Any]:
        """Its arrays as numpy's."""
        return {name: array.__array__() for name, array in self.items()}

    def holding(self, values: dict[str, Any]) -> "Batch":
        """Itself, with other arrays in their place."""
        self.clear()
        self.update(values)
        return self
