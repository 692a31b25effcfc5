"""A stream of batches: an iterator with a place that can be saved, found and shared among hosts."""

from __future__ import annotations

import _thread
import ctypes
import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from . import _abi
from ._arrays import WRITABLE, Batch, Held, Layout, copied
from ._graph import Graph, GraphLike, shown, text_of_value
from ._library import library, text_of
from ._own import After, Own, Use, inside
from .errors import ClosedError, ConfigError, UsageError, error_of

TYPE_CHECKING = False  # as typing's; see __init__.py
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Optional, Union

if TYPE_CHECKING:
    State = Union[str, bytes, Mapping[str, Any]]
else:
    State = "str | bytes | Mapping[str, Any]"

_GLANCE_MS = 100
_LEAVE_S = 5
_BatchPointer = ctypes.POINTER(_abi.mr_batch_t)

class _Ahead:
    """A batch whose functions run in worker processes, and the stream's place before it."""

    __slots__ = ("state", "step", "ledger", "batch", "made")

    def __init__(self, state: str, step: int, ledger: str) -> None:
        self.state, self.step, self.ledger = state, step, ledger
        self.batch: Any = None
        self.made: Any = None


_alive: "weakref.WeakSet[Stream]" = weakref.WeakSet()
_kept: list[Any] = []
_halted: list[threading.Event] = []  # of calls that were interrupted, set once they are undone


def _whole(value: Any, what: str) -> int:
    """A whole number, also one of numpy, as the library's int64."""
    try:
        n: int = operator.index(value)
    except TypeError:
        raise TypeError(f"{what}: want a whole number") from None
    return max(-(1 << 63), min(n, (1 << 63) - 1))


def _limited(value: Any, most: int, says: str) -> int:
    """A whole number in [0,most]."""
    try:
        n: int = operator.index(value)
    except TypeError:
        n = -1
    if not 0 <= n <= most:
        raise ConfigError(says)
    return n


def _host_of(host: Any) -> tuple[int, int]:
    """Slice i of n; (0, 0) for whole batches."""
    if host is None:
        return 0, 0
    says = f"host {host!r}: want (i, n), slice i of n of each batch"
    if not isinstance(host, tuple) or len(host) != 2:
        raise ConfigError(says)
    i, n = (_limited(x, (1 << 31) - 1, says) for x in host)
    if not n:
        raise ConfigError(says)
    return i, n


def _encoded(text: str, what: str) -> bytes:
    """As the library takes it: of a file's name that is not UTF-8, its own bytes."""
    try:
        out = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as e:
        raise UsageError(f"{what}: {text[e.start]!r} is no character") from None
    if b"\0" in out:
        raise UsageError(f"{what}: a text cannot hold a zero byte")
    return out


def _settings_of(settings: Any) -> list[bytes]:
    if not isinstance(settings, Mapping):
        raise TypeError(f'settings: want a mapping, as {{"batch.workers": 2}}, not {type(settings).__name__}')
    return [_encoded(f"{name}={text_of_value(value)}", "settings") for name, value in settings.items() if value is not None]


def _state_text(state: State) -> bytes:
    if isinstance(state, Mapping) and set(state) == {"millrace"}:  # of state_dict
        return _state_text(state["millrace"])
    if isinstance(state, (bytes, bytearray)):
        return bytes(state)
    if isinstance(state, str):
        return _encoded(state, "state")
    if isinstance(state, Mapping):
        import json

        return json.dumps(state).encode()
    raise TypeError(f"state: want what stream.state() gave, not {type(state).__name__}")


def _text_of_graph(graph: GraphLike) -> str:
    if isinstance(graph, (str, Graph)):
        return str(graph)
    if isinstance(graph, os.PathLike):
        return os.path.abspath(os.fspath(graph))
    raise TypeError(f"graph: want text, a path or stages, not {type(graph).__name__}")


def _own_calls(own: tuple[Own, ...]) -> Any:
    calls = (_abi.mr_own_t * max(1, len(own)))()
    for to, o in zip(calls, own):
        to.name, to.n, to.draws = o.name.encode(), o.n, o.draws
        to.plan = ctypes.cast(o.plan, ctypes.c_void_p)
        to.make = ctypes.cast(o.make, ctypes.c_void_p)
    return calls


def _interruptible(call: Callable[[], int], halt: Any, undo: Callable[[int], None]) -> tuple[int, Optional[BaseException]]:
    """Makes a call that may wait for a server, and gives its result and None, or what a signal's handler has raised.

    Handlers run in the main thread alone, and not while it is in the library, so that another thread makes the call.
    If one raises, halt ends the call, and undo gets its result in that thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(), None
    lock, over, undone, result = threading.Lock(), threading.Event(), threading.Event(), -1
    begun = gone = False

    def make() -> None:
        nonlocal begun, result
        with lock:
            begun = True
            if gone:
                undone.set()
                return
        result = call()
        with lock:
            over.set()
            late = gone
        if late:
            undo(result)
            undone.set()

    try:
        try:
            _thread.start_new_thread(make, ())
        except RuntimeError:  # no further thread is to be had
            return call(), None
        while not over.wait(_GLANCE_MS / 1000):  # a signal that came just before a wait does not end it
            pass
    except BaseException as e:
        with lock:
            gone, goes_on = True, begun and not over.is_set()
        halt.value = 1
        if goes_on or not begun:  # a thread that is to begin may not do so while the interpreter ends
            _halted.append(undone)
        if not goes_on:
            undo(result)
        return -1, e
    return result, None


def _close(lib: Any, ptr: Any, use: Use, wait: bool) -> None:
    """Closes a loader; in another thread if this one is the stream's own, which a close would wait for."""
    def close() -> None:
        lib.mr_loader_close(ptr)
        if lib.mr_graph_is_stuck():  # a function that has not come back yet returns to these
            _kept.append(use.called)
        use.end(wait)

    if getattr(inside, "own", None) is None:
        close()
    else:
        threading.Thread(target=close).start()


class Stream(Iterator[Batch]):
    """The batches of a graph, as `millrace run` makes them: same order, same ledger.

    It is an iterator: two loops over one stream share its place.  Any thread may use it.
    """

    def __init__(self, graph: GraphLike, *, state: Optional[State] = None,
                 host: Optional[tuple[int, int]] = None, keep: int = 4, stage: Optional[str] = None,
                 settings: Optional[Mapping[str, Any]] = None, plugins: bool = False) -> None:
        self._ptr: Any = None
        self._make_locks()
        self._users = 0
        self._closing: list[tuple[Any, Use]] = []  # once the last call that uses them is over
        self._graph = _text_of_graph(graph)
        self._own = graph._own if isinstance(graph, Graph) else ()
        self._after = graph._after if isinstance(graph, Graph) else None
        self._ahead: deque[_Ahead] = deque()  # the oldest first; the library's place is behind all of them
        self._how: dict[str, Any] = {"host": host, "keep": keep, "stage": stage,
                                     "settings": {} if settings is None else settings, "plugins": plugins}
        self._keep = _limited(keep, 4096, f"keep {keep!r}: want a whole number in [0,4096]")
        self._lib = library()
        self._ptr, self._use = self._open(state, self._keep)
        self._how["settings"] = dict(self._how["settings"])
        self._take = self._lib.mr_loader_take
        self._drop = self._lib.mr_batch_drop
        self._layout: Optional[Layout] = None  # of its batches, once there was one
        _alive.add(self)

    def _make_locks(self) -> None:
        self._lock = threading.Lock()
        # Of threads that share the stream, to count what is kept and take the next; a signal's handler may do so too.
        self._turn = threading.RLock()
        self._taking = False  # the thread that has its turn is in _take_made

    def _open(self, state: Optional[State], keep: int) -> tuple[Any, Use]:
        host, hosts = _host_of(self._how["host"])
        words = _settings_of(self._how["settings"])
        stage = self._how["stage"]
        if stage is not None and not isinstance(stage, str):
            raise TypeError(f"stage: want its name, not {type(stage).__name__}")
        halt = ctypes.c_int(0)
        set_ = _abi.mr_loader_settings_t(
            set=(ctypes.c_char_p * (len(words) + 1))(*words), n_set=len(words), keep=keep,
            host=host, hosts=hosts, stage=_encoded(stage, "stage") if stage is not None else None,
            state=_state_text(state) if state is not None else None, plugins=self._how["plugins"],
            own=_own_calls(self._own), n_own=len(self._own), halt=ctypes.pointer(halt))
        ptr, diag = ctypes.c_void_p(), _abi.mr_diag_t()
        text = _encoded(self._graph, "graph")
        use = Use((*self._own, self._after) if self._after else self._own)
        use.called = (use.called, set_, halt)

        def undo(e: int) -> None:
            if e >= 0:
                _close(self._lib, ptr, use, False)
            else:
                use.end(False)

        def call() -> int:
            return int(self._lib.mr_loader_open(text, ctypes.byref(set_), ctypes.byref(ptr), ctypes.byref(diag)))

        # Functions in Python are asked in the thread that opens the stream, where a handler ends them.
        e, interrupt = (call(), None) if self._own else _interruptible(call, halt, undo)
        if interrupt is not None:
            raise interrupt
        if e < 0:
            use.end(True)
            raise self._error(e, diag)
        return ptr, use

    def _error(self, e: int, diag: _abi.mr_diag_t) -> BaseException:
        """A failure, with the exception of a function in Python that it comes from."""
        error: BaseException = error_of(e, diag)
        for own in self._own:
            if own.cause is not None and own.name in str(error):
                if not isinstance(own.cause, Exception):
                    return own.cause  # KeyboardInterrupt
                error.__cause__ = own.cause
        return error

    # ---- one call after the other, from any thread ----

    def _enter(self) -> Any:
        with self._lock:
            if self._ptr is None:
                raise ClosedError("the stream is closed")
            self._users += 1
            return self._ptr

    def _exit(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            closing, self._closing = self._closing, []
        for ptr, use in closing:
            _close(self._lib, ptr, use, True)

    def close(self) -> None:
        """Ends the stream, the waits of other threads, and worker processes that no other stream uses.

        Arrays that are kept stay.
        """
        self._end(True)

    def _end(self, wait: bool) -> None:
        """wait: and returns when its worker processes have gone."""
        with self._lock:
            ptr, self._ptr = self._ptr, None
            if ptr is None:
                return
            if self._users:  # the last of them closes it
                self._closing.append((ptr, self._use))
                self._lib.mr_loader_stop(ptr)
                return
        _close(self._lib, ptr, self._use, wait)

    def stop(self) -> None:
        """Ends the waits of other threads with StoppedError, until seek."""
        ptr = self._enter()
        try:
            self._lib.mr_loader_stop(ptr)
        finally:
            self._exit()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_ptr", None) is not None:
            self._end(False)

    # ---- batches ----

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Batch:
        ptr = self._enter()
        try:
            with self._turn:
                if self._after is None:
                    batch: Batch = self._take_batch(ptr, _GLANCE_MS)
                    return batch
                return self._take_next(ptr, self._after)
        finally:
            self._exit()

    def _take_next(self, ptr: Any, after: After) -> Batch:
        if after.processes:
            return self._take_made(ptr, after)
        batch: Batch = self._take_batch(ptr, _GLANCE_MS)
        try:
            return batch.holding(after.priced(after.one(batch.plain())))
        except Exception as e:
            raise after.failure(e, batch.step - 1, batch.ids) from e

    def _take_batch(self, ptr: Any, ms: int) -> Any:
        """The next batch; with ms of 0, None if it is not there yet."""
        batch: Any = _BatchPointer()
        diag: Any = None
        while True:
            e = self._take(ptr, ms, ctypes.byref(batch), diag)
            if e == _abi.MR_OK:
                break
            if e == _abi.MR_END:
                raise StopIteration
            # MR_AGAIN: a signal came, whose handler has run when the call is made again.  One that came just before
            # the wait does not end it, so that no wait is longer than a glance.
            if e == _abi.MR_AGAIN:
                if not ms:
                    return None
            elif diag is None:
                diag = _abi.mr_diag_t()  # a failure is said again
            else:
                raise self._error(e, diag)
        held = Held(batch, self._drop)
        layout = self._layout
        if layout is None:
            layout = self._layout = Layout(held)
        read = layout.read(held)
        # A buffer of a link that is held would stop the link once its window is full.
        if read[-1] >= self._keep or not read[WRITABLE]:
            return Batch(copied(held), layout, True)
        return Batch(held, layout, False, read)

    def _take_made(self, ptr: Any, after: After) -> Batch:
        """The next batch of the worker processes, which have others ahead meanwhile."""
        self._not_taking()
        with self._lock:
            ahead = self._ahead if self._ptr is ptr else deque()  # load_state_dict was faster
        self._taking = True
        try:
            return self._take_first(ptr, after, ahead)
        finally:
            self._taking = False

    def _not_taking(self) -> None:
        if self._taking:
            raise UsageError("a signal's handler came while its thread takes a batch of map_batches(processes=...): "
                             "there it can neither take one nor seek; let it set a flag instead")

    def _take_first(self, ptr: Any, after: After, ahead: deque[_Ahead]) -> Batch:
        from concurrent.futures import BrokenExecutor

        for entry in ahead:  # those that were not sent, or were lost with a process
            if entry.made is None:
                entry.made = after.submit(entry.batch.plain())
        while len(ahead) <= after.processes and self._send(ptr, after, ahead):
            pass
        first = ahead[0]
        try:
            made = first.made.result()
        except BrokenExecutor as e:
            for entry in ahead:
                if not entry.made.done() or isinstance(entry.made.exception(), BrokenExecutor):
                    entry.made = None
            raise after.loss(e, first.step, first.batch.ids, len(ahead) - 1) from e
        except Exception as e:
            ahead.popleft()
            raise after.failure(e, first.step, first.batch.ids) from e
        ahead.popleft()
        batch: Batch = first.batch
        return batch.holding(after.priced(made))

    def _send(self, ptr: Any, after: After, ahead: deque[_Ahead]) -> bool:
        """Sends the worker processes one more batch, if it is there or none is ahead."""
        alone = not ahead
        entry = _Ahead(self._text("mr_loader_state"), int(self._lib.mr_loader_step(ptr)),
                       f"{self._lib.mr_loader_ledger(ptr):016x}")
        ahead.append(entry)  # before the library's place moves on
        try:
            entry.batch = self._take_batch(ptr, _GLANCE_MS if alone else 0)
            if entry.batch is not None:
                entry.made = after.submit(entry.batch.plain())
        except BaseException as e:
            if entry.batch is None:  # one that was taken stays, to be sent by the next call
                ahead.pop()
            if alone or not isinstance(e, Exception):
                raise
            return False  # an end or a failure of the stream comes again behind what is ahead
        if entry.batch is None:
            ahead.pop()
        return entry.batch is not None

    def _before_ahead(self) -> Optional[_Ahead]:
        """The place behind the last batch given, if the library's is further on."""
        try:
            return self._ahead[0] if self._ptr is not None else None
        except IndexError:
            return None

    def __len__(self) -> int:
        """Batches of the whole stream, whatever its place; TypeError for one without a known end."""
        n: int = self._ask("mr_loader_steps")
        if not n:
            raise TypeError("the stream is endless, or its length is not known before its end")
        return n

    def __length_hint__(self) -> int:
        n: int = self._ask("mr_loader_steps")
        return max(0, n - self.step) if n else 0

    def __getitem__(self, step: int) -> Batch:
        """Batch number `step`, from 0, without making those before it; the stream's place stays."""
        step, n = _whole(step, f"stream[{step!r}]"), self._ask("mr_loader_steps")
        at = step + n if step < 0 else step
        if at < 0 or (n and at >= n):
            raise IndexError(f"stream[{step}]: the stream has {n} batches")
        with Stream(self._whole_graph(), **self._how) as other:
            other.seek(at)
            for batch in other:
                return batch
        raise IndexError(f"stream[{step}]: the stream ends before")

    def seek(self, step: int) -> None:
        """Goes to batch number `step`, from 0: the next one is stream[step].  The ledger restarts there."""
        step = _whole(step, f"seek({step!r})")
        if self._after is None or not self._after.processes:
            self._seek(step)
            return
        with self._turn:  # no thread is to take a batch ahead between the two
            self._not_taking()
            self._seek(step)
            self._ahead = deque()

    def _seek(self, step: int) -> None:
        ptr, diag = self._enter(), _abi.mr_diag_t()
        try:
            e = self._lib.mr_loader_seek(ptr, step, ctypes.byref(diag))
            if e < 0:
                raise error_of(e, diag)
        finally:
            self._exit()

    # ---- its place ----

    def state(self) -> str:
        """The place behind the last batch, as JSON of a few hundred bytes: mr.stream(..., state=s)."""
        before = self._before_ahead()
        return before.state if before else self._text("mr_loader_state")

    def state_dict(self) -> dict[str, Any]:
        return {"millrace": self.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at a state of this stream, perhaps of other workers and hosts."""
        if not isinstance(state, Mapping) or "millrace" not in state:
            raise TypeError("load_state_dict: want what state_dict gave")
        fresh, use = self._open(state["millrace"], self._keep)
        with self._lock:
            old, self._ptr = self._ptr, fresh
            old_use, self._use = self._use, use
            self._ahead = deque()
            if old is not None and self._users:
                self._closing.append((old, old_use))
                self._lib.mr_loader_stop(old)
                old = None
        if old is not None:
            _close(self._lib, old, old_use, True)

    @property
    def step(self) -> int:
        """Batches given so far, counted from the start of the stream."""
        before = self._before_ahead()
        return before.step if before else self._ask("mr_loader_step")

    @property
    def ledger(self) -> str:
        """The ledger of the batches so far, as the program prints it."""
        before = self._before_ahead()
        return before.ledger if before else f"{self._ask('mr_loader_ledger'):016x}"

    # ---- what it is ----

    def _ask(self, call: str) -> int:
        ptr = self._enter()
        try:
            return int(getattr(self._lib, call)(ptr))
        finally:
            self._exit()

    def _text(self, call: str, *arguments: Any) -> str:
        ptr, text, diag = self._enter(), ctypes.c_char_p(), _abi.mr_diag_t()
        try:
            e = getattr(self._lib, call)(ptr, *arguments, ctypes.byref(text), ctypes.byref(diag))
            if e < 0:
                raise error_of(e, diag)
            return text_of(self._lib, text)
        finally:
            self._exit()

    def _described(self, what: bytes) -> Any:
        import json

        return json.loads(self._text("mr_loader_describe", what))

    @property
    def spec(self) -> dict[str, Any]:
        """What the batches hold: size, fields with name, dtype, dimensions, classes; epochs."""
        spec: dict[str, Any] = self._described(b"spec")
        return spec

    def stats(self) -> dict[str, Any]:
        """What each stage did so far, and which one limits the stream."""
        stats: dict[str, Any] = self._described(b"stats")
        return stats

    @property
    def graph(self) -> str:
        """The graph's canonical text."""
        return str(self._described(b"graph"))

    def who(self, step: int) -> list[int]:
        """The ids of the records of batch number `step`, from 0."""
        return self[step].ids

    def __repr__(self) -> str:
        return f"millrace.stream({shown(self._graph)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Text, settings and place travel, open files do not."""
        return _opened_again, (self._whole_graph(), self._how, self.state())

    def _whole_graph(self) -> GraphLike:
        return Graph(self._graph, (), self._own, self._after) if self._own or self._after else self._graph


def _opened_again(graph: GraphLike, how: dict[str, Any], state: str) -> Stream:
    return Stream(graph, state=state, **how)


def _after_fork() -> None:
    for stream in list(_alive):  # a thread of the parent may have held them, and is not here
        stream._make_locks()
        stream._ahead = deque()  # its worker processes are the parent's


os.register_at_fork(after_in_child=_after_fork)


def close_all() -> None:
    for stream in list(_alive):
        stream.close()
    for undone in _halted:  # the library may not end under a call
        undone.wait(_LEAVE_S)
