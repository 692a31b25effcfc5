"""libmillrace.so.0, loaded when it is first needed, so that importing the package costs nothing."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading

from . import _abi
from .errors import UnavailableError

TYPE_CHECKING = False  # as typing's; see __init__.py
if TYPE_CHECKING:
    from typing import Any, Optional

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None
_receivers: list[Any] = []  # callbacks that the library holds


def _candidates() -> list[str]:
    given = os.environ.get("MILLRACE_LIBRARY")
    if given:
        return [given]
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libmillrace.so.0")
    return ([beside] if os.path.exists(beside) else []) + ["libmillrace.so.0"]


def _open() -> ctypes.CDLL:
    why = ""
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as e:
            why = why or str(e)
    raise UnavailableError(
        f"cannot load libmillrace.so.0: {why}; install the package with its library, or name the file in "
        "MILLRACE_LIBRARY")


def _hear(lib: ctypes.CDLL) -> None:
    """Sends what the library has to say to the logger "millrace"."""
    import logging

    log = logging.getLogger("millrace")
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)

    def warn(_: Any, text: bytes) -> None:
        log.warning("%s", text.decode("utf-8", "replace"))

    def inform(_: Any, text: bytes) -> None:
        log.info("%s", text.decode("utf-8", "replace"))

    _receivers[:] = [kind(warn), kind(inform)]
    lib.mr_notice_to(ctypes.cast(_receivers[0], ctypes.c_void_p), None)
    lib.mr_announce_to(ctypes.cast(_receivers[1], ctypes.c_void_p), None)


def _prepare(lib: ctypes.CDLL) -> None:
    for name, (result, arguments) in _abi.CALLS.items():
        call = getattr(lib, name)
        call.restype = result
        call.argtypes = arguments
    lib.mr_graph_is_stuck.restype = ctypes.c_bool
    lib.free.restype = None
    lib.free.argtypes = [ctypes.c_void_p]
    python = ctypes.pythonapi
    lib.mr_dlpack_capsule_calls(ctypes.cast(python.PyCapsule_IsValid, ctypes.c_void_p),
                                ctypes.cast(python.PyCapsule_GetPointer, ctypes.c_void_p))
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    _hear(lib)


def library() -> ctypes.CDLL:
    """The library, with the types of its calls set."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                lib = _open()
                _prepare(lib)
                _loaded = lib
    return _loaded


def text_of(lib: ctypes.CDLL, pointer: ctypes.c_char_p) -> str:
    """The text of the library at pointer, which it gives back."""
    value = pointer.value or b""
    lib.free(ctypes.cast(pointer, ctypes.c_void_p))
    return value.decode("utf-8", "replace")


@atexit.register
def _leave() -> None:
    """Threads of streams that still run must not call an interpreter that ends."""
    from . import _stream

    _stream.close_all()
    if _loaded is not None:
        _loaded.mr_notice_to(None, None)
        _loaded.mr_announce_to(None, None)
