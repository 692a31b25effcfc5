"""What goes wrong, with the program's own sentence: stage, setting, value, what was expected, what to do."""

from __future__ import annotations

from . import _abi

__all__ = [
    "Error", "UsageError", "ConfigError", "ShapeError", "DataError", "ReadError", "OutOfMemoryError",
    "StoppedError", "UnavailableError", "ClosedError",
]


class Error(Exception):
    """Any failure of a stream."""


class UsageError(Error, ValueError):
    """The graph text, a stage's name, or how a call is used."""


class ConfigError(Error, ValueError):
    """A setting is unknown or out of its range."""


class ShapeError(Error, ValueError):
    """Shapes or dtypes do not fit."""


class DataError(Error, ValueError):
    """A file does not hold what it should, or a state is of another stream."""


class ReadError(Error, OSError):
    """The operating system or a server refused a read or a write."""


class OutOfMemoryError(Error, MemoryError):
    """Memory ran out."""


class StoppedError(Error):
    """The stream was stopped or closed while a thread waited for its next batch."""


class UnavailableError(Error):
    """This build or machine lacks what was asked for."""


class ClosedError(Error, ValueError):
    """The stream is closed."""


_BY_CODE: dict[int, type[Error]] = {
    _abi.MR_ERR_USAGE: UsageError,
    _abi.MR_ERR_CONFIG: ConfigError,
    _abi.MR_ERR_SHAPE: ShapeError,
    _abi.MR_ERR_DATA: DataError,
    _abi.MR_ERR_IO: ReadError,
    _abi.MR_ERR_NOMEM: OutOfMemoryError,
    _abi.MR_ERR_CANCEL: StoppedError,
    _abi.MR_ERR_UNAVAILABLE: UnavailableError,
}


def error_of(code: int, diag: _abi.mr_diag_t) -> Error:
    """The exception for a failed call."""
    text = bytes(diag.text).decode("utf-8", "replace")
    return _BY_CODE.get(code, Error)(text)
