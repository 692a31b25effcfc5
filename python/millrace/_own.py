"""Sources and maps in Python: functions of a record or a batch, with numpy in and out."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping

from . import _abi
from ._arrays import DTYPES
from .errors import ConfigError, DataError, ShapeError, UsageError

TYPE_CHECKING = False  # as typing's; see __init__.py
if TYPE_CHECKING:
    from typing import Any, Optional

_PLAN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.mr_own_call_t),
                         ctypes.POINTER(_abi.mr_diag_t))
_PRICED = 64  # records, after which the price is said
_PRICED_BATCHES = 8

inside = threading.local()  # .own: this thread of a stream runs a function of the program


class Field:
    """What one field of a record looks like."""

    __slots__ = ("name", "dtype", "shape")

    def __init__(self, name: str, dtype: int, shape: tuple[int, ...]) -> None:
        self.name = name
        self.dtype = dtype  # place in DTYPES
        self.shape = shape

    def __repr__(self) -> str:
        return f"{self.name} {DTYPES[self.dtype][0]}{list(self.shape)}"


def _letters(dtype: int, name: str) -> str:
    letters = DTYPES[dtype][1]
    if letters is None:
        raise ShapeError(f"field {name}: numpy has no {DTYPES[dtype][0]}; put the function before the stage that makes it")
    return letters


def _dtype_number(name: str, dtype: Any) -> int:
    import numpy

    text = numpy.dtype(dtype).str.replace("=", "<")
    for i, (_, letters, _) in enumerate(DTYPES):
        if letters == text:
            return i
    known = ", ".join(d[0] for d in DTYPES if d[1])
    raise ShapeError(f"field {name}: numpy's {numpy.dtype(dtype).name} is none of {known}")


def _array_of(name: str, value: Any) -> Any:
    """A value as numpy's: the label is an int32, other numbers of Python are int64, float32 or bool."""
    import numpy

    if isinstance(value, bool):
        return numpy.asarray(value)
    if isinstance(value, int):
        return numpy.asarray(value, numpy.int32 if name == "label" else numpy.int64)
    if isinstance(value, float):
        return numpy.asarray(value, numpy.float32)
    array = numpy.asarray(value)
    is_label = name == "label" and not array.ndim and array.dtype.kind in "iu"
    return array.astype(numpy.int32) if is_label else array


def named(record: Any) -> Mapping[str, Any]:
    """A record by the names of its fields: a pair is an image and its label, anything else a value."""
    if isinstance(record, Mapping):
        return record
    if isinstance(record, tuple) and len(record) == 2:
        return {"image": record[0], "label": record[1]}
    return {"value": record}


def _fields_of(record: Any) -> list[Field]:
    out = []
    for name, value in named(record).items():
        array = _array_of(name, value)
        out.append(Field(name, _dtype_number(name, array.dtype), array.shape))
    return out


def _view(value: Any) -> Any:
    """The memory of one value as a numpy array."""
    import numpy

    name = value.name.decode()
    letters = _letters(value.dtype, name)
    shape = tuple(value.dim[:value.ndim])
    n = int(numpy.prod(shape, dtype=numpy.int64)) * DTYPES[value.dtype][2]
    if not n:
        return numpy.empty(shape, letters)
    memory = (ctypes.c_char * n).from_address(value.data)
    return numpy.frombuffer(memory, letters).reshape(shape)


def _name_of(name: Optional[str], of: Any) -> str:
    import re

    given = name or getattr(of, "__qualname__", None) or type(of).__qualname__
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", given).strip("-") or "own"


def _checked(processes: Any) -> int:
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 0:
        raise ConfigError(f"processes {processes!r}: want a whole number from 0")
    return processes


class Workers:
    """The worker processes of what makes records or batches, each with a copy of it.

    To be made by a thread of the program: a stream's own block signals, which processes inherit.
    """

    def __init__(self, of: Any, name: str, processes: int) -> None:
        import multiprocessing
        import pickle
        from concurrent.futures import ProcessPoolExecutor

        try:
            there = pickle.dumps(of)
        except Exception as e:
            raise UsageError(f"processes={processes}: {name} cannot be sent to a worker process "
                             f"({e}); define it at the top of a module") from e
        self._pid = os.getpid()
        context = multiprocessing.get_context(_way())
        self._pool: Any = ProcessPoolExecutor(processes, context, _begin_there, (there,))

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return self._pool.submit(call, *arguments)

    def end(self, wait: bool) -> None:
        """Ends the processes; wait: and returns when they have gone.  Those of a parent are the parent's."""
        if self._pid == os.getpid():
            self._pool.shutdown(wait=wait, cancel_futures=True)

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.end(False)


def _way() -> str:
    """How processes begin: by multiprocessing's server, unless that is the server of a parent."""
    from multiprocessing import forkserver

    if _is_child:
        return "spawn"
    try:
        forkserver.ensure_running()
    except ChildProcessError:
        return "spawn"
    return "forkserver"


class Working:
    """What may ask worker processes: they begin with the first stream of it that opens and end with the last."""

    name: str

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._workers: Optional[Workers] = None
        self._streams = 0
        self._lock = threading.RLock()  # a stream may be collected, and closed, while this thread has it
        _working.add(self)

    def begin(self) -> None:
        """Makes its worker processes, unless another stream has."""
        with self._lock:
            self._streams += 1
            try:
                if self.processes and self._workers is None:
                    self._workers = Workers(self, self.name, self.processes)
            except BaseException:
                self._streams -= 1
                raise

    def end(self, wait: bool) -> None:
        """Of each begin."""
        with self._lock:
            self._streams -= 1
            if self._streams:
                return
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.end(wait)

    def asked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """A future of a call there; a pool that has lost a process is made anew."""
        from concurrent.futures import BrokenExecutor

        workers = self._workers
        assert workers is not None  # begin has made them
        try:
            return workers.submit(call, *arguments)
        except BrokenExecutor:
            with self._lock:
                if self._workers is workers:
                    self._workers = Workers(self, self.name, self.processes)
                fresh = self._workers
            assert fresh is not None  # a stream of it is open
            return fresh.submit(call, *arguments)


class Use:
    """What one opening of a stream asks."""

    def __init__(self, of: tuple[Working, ...]) -> None:
        self._pid = os.getpid()
        self.called: Any = of  # what the library calls and reads until it closes the stream
        self._of: list[Working] = []
        try:
            for working in of:
                working.begin()
                self._of.append(working)
        except BaseException:
            self.end(True)
            raise

    def end(self, wait: bool) -> None:
        of, self._of = self._of, []
        for working in of:
            if self._pid == os.getpid():
                working.end(wait)


_working: "weakref.WeakSet[Working]" = weakref.WeakSet()
_is_child = False  # this process is a fork of one that had the package
_of_parent: list[Workers] = []  # kept, since a pool that is collected wakes its thread, which is the parent's


def _after_fork() -> None:
    global _is_child
    _is_child = True
    for working in list(_working):
        working._lock = threading.RLock()
        if working._workers is not None:
            _of_parent.append(working._workers)
        working._workers, working._streams = None, 0


os.register_at_fork(after_in_child=_after_fork)

_there: Any = None  # in a worker process: what it makes records or batches with


def _begin_there(of: bytes) -> None:
    import pickle
    import signal

    global _there
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends its workers
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # as a thread of the library may have begun this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _there = pickle.loads(of)


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _made_there(*arguments: Any) -> Any:
    """What is made here, or an exception that can be sent back: one that cannot would break the pool."""
    try:
        return _there.one(*arguments)
    except BaseException as e:
        if _travels(e):
            raise
        raise RuntimeError(f"{type(e).__name__}: {e}") from e


def _travels(e: BaseException) -> bool:
    import pickle

    try:
        pickle.loads(pickle.dumps(e))
    except Exception:
        return False
    return True


def _log_price(name: str, seconds: float, what: str, processes: int) -> None:
    import logging

    where = f"{processes} processes" if processes else "Python"
    logging.getLogger("millrace").info("%s: %.0f us a %s in %s", name, 1e6 * seconds, what, where)


class Own(Working):
    """One source or map of the program, as the library calls it."""

    def __init__(self, name: Optional[str], of: Any, n: int, draws: bool, processes: int) -> None:
        self.name = _name_of(name, of)
        self.n = n
        self.draws = draws
        super().__init__(_checked(processes))
        self.of = of
        self.cause: Optional[BaseException] = None
        self._priced = 0
        self._spent = 0.0
        self.plan = _PLAN(self._called(self._plan))
        self.make = _PLAN(self._called(self._make))

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "n": self.n, "draws": self.draws, "processes": self.processes, "of": self.of}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Own.__init__(self, state["name"], state["of"], state["n"], state["draws"], state["processes"])

    # ---- what the two kinds do ----

    def look(self, given: list[Field]) -> list[Field]:
        """What it gives for records of these fields."""
        raise NotImplementedError

    def one(self, index: int, record: Optional[dict[str, Any]], seed: int) -> Any:
        """One record."""
        raise NotImplementedError

    # ---- calls of the library ----

    def _called(self, what: Callable[[Any], None]) -> Callable[[Any, Any, Any], int]:
        def call(_: Any, at: Any, diag: Any) -> int:
            before = getattr(inside, "own", None)
            inside.own = self
            try:
                what(at.contents)
                return _abi.MR_OK
            except BaseException as e:  # noqa: B036 - the library has no exceptions: the stream raises it again
                self.cause = e
                text = f"{type(e).__name__}: {e}" if not isinstance(e, ShapeError) else str(e)
                if what == self._make:
                    text = f"{self.name}: record {at.contents.index}: {text}"
                else:
                    text = f"{self.name}: {text}"
                diag.contents.code = _abi.MR_ERR_DATA
                diag.contents.text = text.encode("utf-8", "replace")[:1023]
                return _abi.MR_ERR_DATA if isinstance(e, Exception) else _abi.MR_ERR_CANCEL
            finally:
                inside.own = before
        return call

    def _plan(self, call: Any) -> None:
        given = [Field(v.name.decode(), v.dtype, tuple(v.dim[:v.ndim])) for v in call.input[:call.n_input]]
        fields = self.look(given)
        if len(fields) > 16:
            raise ShapeError(f"{len(fields)} fields: want at most 16")
        for i, f in enumerate(fields):
            if len(f.name.encode()) > 31:
                raise ShapeError(f"field {f.name!r}: want a name of at most 31 letters")
            if len(f.shape) > 7:
                raise ShapeError(f"field {f.name}: {len(f.shape)} dimensions, want at most 7")
            value = call.output[i]
            value.name, value.dtype, value.ndim, value.ragged = f.name.encode(), f.dtype, len(f.shape), False
            value.dim[:len(f.shape)] = f.shape
        call.n_output = len(fields)

    def _make(self, call: Any) -> None:
        begun = time.perf_counter()
        record: Optional[dict[str, Any]] = None
        if call.n_input:
            record = {}
            for v in call.input[:call.n_input]:
                array = _view(v)
                array.flags.writeable = False
                record[v.name.decode()] = array
        made = named(self._asked(call.index, record, call.seed))
        if len(made) != call.n_output:
            raise ShapeError(f"gives the fields {', '.join(made)}, and the first record has "
                             f"{', '.join(v.name.decode() for v in call.output[:call.n_output])}")
        for v in call.output[:call.n_output]:
            name = v.name.decode()
            if name not in made:
                raise ShapeError(f"gives no field {name}, which the first record has")
            array, to = _array_of(name, made[name]), _view(v)
            if array.shape != to.shape or array.dtype != to.dtype:
                raise ShapeError(f"field {name} is {array.dtype}{list(array.shape)}, and of the first record it is "
                                 f"{to.dtype}{list(to.shape)}")
            to[...] = array
        self._price(time.perf_counter() - begun)

    def _price(self, seconds: float) -> None:
        if self._priced >= _PRICED:
            return
        with self._lock:
            self._spent += seconds
            self._priced += 1
            if self._priced == _PRICED:
                _log_price(self.name, self._spent / _PRICED, "record", self.processes)

    # ---- worker processes ----

    def _asked(self, index: int, record: Optional[dict[str, Any]], seed: int) -> Any:
        if not self.processes:
            return self.one(index, record, seed)
        return self.asked(_one_there, index, record, seed).result()


def _one_there(index: int, record: Optional[dict[str, Any]], seed: int) -> Any:
    made = _made_there(index, record, seed)
    return {name: _array_of(name, value) for name, value in named(made).items()}


class Source(Own):
    """Records of an object with __len__ and __getitem__."""

    def __init__(self, of: Any, name: Optional[str], processes: int) -> None:
        for call in ("__len__", "__getitem__"):
            if not hasattr(of, call):
                raise TypeError(f"{type(of).__name__} has no {call}: want an object with __len__ and __getitem__")
        n = len(of)
        if not n:
            raise UsageError(f"{type(of).__name__} is empty")
        super().__init__(name or type(of).__qualname__, of, n, False, processes)
        self._first: Optional[list[Field]] = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        Source.__init__(self, state["of"], state["name"], state["processes"])

    def look(self, given: list[Field]) -> list[Field]:
        if self._first is None:
            self._first = _fields_of(self.of[0])
        return self._first

    def one(self, index: int, record: Optional[dict[str, Any]], seed: int) -> Any:
        return self.of[index]


class Map(Own):
    """Records made of records by a function."""

    def __init__(self, of: Any, name: Optional[str], draws: bool, processes: int) -> None:
        if not callable(of):
            raise TypeError(f"{of!r}: want a function of a record")
        super().__init__(name, of, 0, bool(draws), processes)

    def __setstate__(self, state: dict[str, Any]) -> None:
        Map.__init__(self, state["of"], state["name"], state["draws"], state["processes"])

    def look(self, given: list[Field]) -> list[Field]:
        """As of a record of zeros."""
        import numpy

        record = {f.name: numpy.zeros(f.shape, _letters(f.dtype, f.name)) for f in given}
        return _fields_of(self.one(0, record, 0))

    def one(self, index: int, record: Optional[dict[str, Any]], seed: int) -> Any:
        if not self.draws:
            return self.of(record)
        import numpy

        return self.of(record, numpy.random.Generator(numpy.random.Philox(seed)))


class After(Working):
    """The functions of batches behind a graph's stages, one after the other.

    If one of them asks for worker processes, all run there, in as many as the most that one asks for.
    """

    def __init__(self, functions: tuple[Callable[[dict[str, Any]], Any], ...], names: tuple[str, ...], processes: int) -> None:
        self._functions = functions
        self._names = names
        self.name = ", ".join(names)
        super().__init__(processes)
        self._priced = 0
        self._spent = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {"functions": self._functions, "names": self._names, "processes": self.processes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        After.__init__(self, **state)

    def then(self, other: Optional[After]) -> After:
        if other is None:
            return self
        return After(self._functions + other._functions, self._names + other._names, max(self.processes, other.processes))

    def one(self, values: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """What the functions make of a batch's arrays, and the seconds that it took."""
        begun = time.perf_counter()
        for f, name in zip(self._functions, self._names):
            given = f(values)
            if not isinstance(given, Mapping):
                raise ShapeError(f"{name}: gives {type(given).__name__}, want a dict of arrays")
            values = dict(given)
        return values, time.perf_counter() - begun

    def submit(self, values: dict[str, Any]) -> Any:
        """The same in a worker process: a future of it."""
        return self.asked(_batch_there, values)

    def priced(self, made: tuple[dict[str, Any], float]) -> dict[str, Any]:
        """Its arrays; what a batch costs is logged once."""
        with self._lock:
            self._spent += made[1]
            self._priced += 1
            if self._priced == _PRICED_BATCHES:
                _log_price(self.name, self._spent / _PRICED_BATCHES, "batch", self.processes)
        return made[0]

    def failure(self, e: Exception, step: int, ids: list[int]) -> Exception:
        """Of a batch, with the names of its first records."""
        if isinstance(e, ShapeError):
            return e
        return self._error(f"batch {step} of records {_first_of(ids)}: {type(e).__name__}: {e}", e)

    def loss(self, e: Exception, step: int, ids: list[int], ahead: int) -> Exception:
        """Of a process that has ended, while others of them may have had up to `ahead` further batches."""
        others = f" or the {ahead} behind it" if ahead else ""
        return self._error(f"a worker process ended while it had batch {step} of records {_first_of(ids)}{others}; "
                           "the next call sends them again", e)

    def _error(self, text: str, cause: Exception) -> Exception:
        error = DataError(f"{self.name}: {text}")
        error.__cause__ = cause
        return error


def _first_of(ids: list[int]) -> str:
    return ", ".join(str(i) for i in ids[:4]) + ", ..." * (len(ids) > 4)


def _batch_there(values: dict[str, Any]) -> tuple[dict[str, Any], float]:
    made: tuple[dict[str, Any], float] = _made_there(values)
    return made


def after(of: Any, name: Optional[str], processes: int) -> After:
    if not callable(of):
        raise TypeError(f"{of!r}: want a function of a batch")
    return After((of,), (_name_of(name, of),), _checked(processes))
