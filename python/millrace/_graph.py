"""Graphs as text, as files, and as stages joined by "|"."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable

from . import _abi
from ._library import library, text_of
from ._own import After, Map, Own, Source
from ._own import after as after_of
from .errors import ConfigError, UsageError, error_of

TYPE_CHECKING = False  # as typing's; see __init__.py
if TYPE_CHECKING:
    from typing import Any, Optional, Union

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+%@~-")


def text_of_value(value: Any, joint: str = ",") -> str:
    """A setting's value as graph text has it, without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return joint.join(text_of_value(v) for v in value)
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if hasattr(value, "item"):  # a number of numpy
        return text_of_value(value.item(), joint)
    raise TypeError(f"{value!r}: want a number, a text, a path, a truth value or a sequence of these")


def quoted(text: str) -> str:
    if text and _PLAIN.issuperset(text):
        return text
    if "\0" in text:
        raise UsageError(f"{text!r}: a text of a graph cannot hold a zero byte")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$") + '"'


_VALUE = r"""((?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+)"""  # a word may be joined from quoted pieces


def shown(text: str) -> str:
    """A graph's text for a person or a log: without secrets, and without what gives access in a URL."""
    names = {re.escape(s["name"]) for row in stages().values() for s in row["settings"] if s.get("secret")}
    secret = re.compile(rf"(?<![\w.-])([\w.-]*\.)?({'|'.join(sorted(names))})(\s*=\s*){_VALUE}")
    if any("$" in found[4] for found in secret.finditer(text)):  # of a variable, perhaps of one in that
        text = re.sub(rf"(?m)^(\s*let\s+[\w-]+\s*=\s*){_VALUE}", r"\1(hidden)", text)
    text = secret.sub(r"\1\2\3(hidden)", text)
    text = re.sub(r"""(?i)(\bs3://)[^\s"'/]*@""", r"\1", text)  # whose keys may hold "?" and "@"
    text = re.sub(r"""(?i)(\b(?!file://)\w+://)[^\s"'/]*@""", r"\1", text)
    text = re.sub(r"""(?i)(\b(?!s3://|file://)\w+://)[^\s"',]*@""", r"\1", text)  # a password with "/"
    return re.sub(r"""(?i)(\bhttps?://[^\s"',?#]*)[?#][^\s"',]*""", r"\1", text)


class Graph:
    """Stages in a row, and the graphs that lead into them; str() is its text."""

    __slots__ = ("_before", "_row", "_own", "_after")

    def __init__(self, row: str, before: tuple[str, ...] = (), own: tuple[Own, ...] = (),
                 after: Optional[After] = None) -> None:
        self._row = row
        self._before = before
        self._own = own  # its sources and maps in Python
        self._after = after  # functions of its batches

    def __or__(self, other: "Graph") -> "Graph":
        if not isinstance(other, Graph):
            return NotImplemented
        if self._after and other._row:
            raise UsageError("map_batches: functions of batches come last, behind all stages")
        row = f"{self._row} ! {other._row}" if other._row else self._row
        return Graph(row, self._before + other._before, together(self._own, other._own),
                     self._after.then(other._after) if self._after else other._after)

    def __str__(self) -> str:
        return "\n".join(self._before + (self._row,))

    def __repr__(self) -> str:
        return f"millrace.Graph({shown(str(self))!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def together(a: tuple[Own, ...], b: tuple[Own, ...]) -> tuple[Own, ...]:
    """The sources and maps of two graphs, each of a name of its own."""
    out = a
    for own in b:
        same = [o for o in out if o.name == own.name]
        if same and same[0] is not own:
            raise UsageError(f"two of the graph's functions are called {own.name}: give one of them another name=")
        out += () if same else (own,)
    return out


if TYPE_CHECKING:
    GraphLike = Union[str, Graph, os.PathLike[str]]
else:
    GraphLike = "str | Graph | os.PathLike[str]"

_table: Optional[dict[str, dict[str, Any]]] = None
_joined = 0


def stages() -> dict[str, dict[str, Any]]:
    """What every stage takes, by name: the tables that `millrace inspect` prints."""
    global _table
    if _table is not None:
        return _table
    import json

    lib = library()
    text, diag = ctypes.c_char_p(), _abi.mr_diag_t()
    e = lib.mr_loader_stages(ctypes.byref(text), ctypes.byref(diag))
    if e < 0:
        raise error_of(e, diag)
    table: dict[str, dict[str, Any]] = {s["name"]: s for s in json.loads(text_of(lib, text))}
    _table = table
    return table


class Stage:
    """Makes the stage of a name: a call gives a graph of that stage alone."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row
        self._settings: dict[str, dict[str, Any]] = {s["name"].replace("-", "_"): s for s in row["settings"]}
        self.__name__ = row["name"].replace("-", "_")
        self.__doc__ = _doc_of(row)

    def __repr__(self) -> str:
        return f"<millrace stage {self._row['name']}>"

    def _setting(self, name: str) -> dict[str, Any]:
        bare = name[:-1] if name.endswith("_") else name  # from_, for words of Python
        found = self._settings.get(bare)
        if found is None and bare in ("workers", "name"):
            return {"name": bare, "type": "str"}
        if found is not None:
            return found
        import difflib

        near = difflib.get_close_matches(bare, list(self._settings), 1)
        hint = f'; did you mean "{near[0]}"?' if near else f"; it has {', '.join(self._settings) or 'none'}"
        raise ConfigError(f"{self._row['name']}: there is no setting {bare!r}{hint}")

    def __call__(self, *inputs: Any, **settings: Any) -> Graph:
        global _joined
        words = [self._row["name"]]
        graphs = [x for x in inputs if isinstance(x, Graph)]
        values = [x for x in inputs if not isinstance(x, Graph)]
        usual = [s for s in self._row["settings"] if s.get("positional")]
        if len(values) > len(usual):
            raise ConfigError(f"{self._row['name']}: takes {len(usual)} value{'s' * (len(usual) != 1)} without a "
                              f"name, not {len(values)}")
        for s, v in zip(usual, values):
            text = quoted(text_of_value(v))
            words.append(f"{s['name']}={text}" if s["type"] == "str" else text)
        if graphs and "name" not in settings:
            _joined += 1
            settings["name"] = f"{self.__name__}-of-{_joined}"
        for name, v in settings.items():
            if v is None:
                continue
            s = self._setting(name)
            words.append(f"{s['name']}={quoted(text_of_value(v, ':' if s['type'] == 'range' else ','))}")
        before: tuple[str, ...] = ()
        own: tuple[Own, ...] = ()
        ports = self._row["in"]
        most = self._row.get("most_in", len(ports))
        if len(graphs) > most:
            raise UsageError(f"{self._row['name']}: has {most} inputs, not {len(graphs)}")
        for g, port in zip(graphs, ports + [""] * (len(graphs) - len(ports))):  # "": the next free one
            if g._after:
                raise UsageError("map_batches: functions of batches come last, behind all stages")
            before += g._before + (f"{g._row} ! {settings['name']}.{port}",)
            own = together(own, g._own)
        return Graph(" ".join(words), before, own)


def _doc_of(row: dict[str, Any]) -> str:
    lines = [row["help"], ""]
    for s in row["settings"]:
        what = s.get("choices") or s["type"]
        usual = f", default {s['default']}" if "default" in s else ""
        lines += [f"{s['name'].replace('-', '_')}: {what}{usual}", f"    {s.get('help', '')}"]
    return "\n".join(lines)


def stage(name: str) -> Stage:
    """The stage of this name, with "_" for "-"; AttributeError for an unknown one."""
    table = stages()
    row = table.get(name) or table.get(name.rstrip("_").replace("_", "-"))
    if row is None:
        import difflib

        near = difflib.get_close_matches(name.replace("_", "-"), list(table), 1)
        hint = f'; did you mean "{near[0].replace("-", "_")}"?' if near else ""
        raise AttributeError(f"millrace has no {name!r}, and no stage is called so{hint}")
    return Stage(row)


def dataset(of: Any, *, epochs: Optional[int] = None, on_bad: Optional[str] = None, name: Optional[str] = None,
            processes: int = 0) -> Graph:
    """Records of an object with __len__ and __getitem__, as torch's and grain's are.

    A record is a dict of numpy arrays or numbers, an image and its label, or one value; all are of the first
    one's dtypes and shapes.  processes: how many worker processes ask it, 0: the threads of the stream.
    """
    own = Source(of, name, processes)
    words = [f"own-source {quoted(own.name)}"]
    words += [f"{n}={quoted(text_of_value(v))}" for n, v in (("epochs", epochs), ("on-bad", on_bad)) if v is not None]
    return Graph(" ".join(words), (), (own,))


def map(of: Callable[..., Any], *, random: bool = False, name: Optional[str] = None, processes: int = 0) -> Graph:
    """Records made by a function of a record, a dict of numpy arrays that are read-only.

    What it gives for a record of zeros says which fields all have.  random: it takes a second argument, a
    numpy.random.Generator of this record, whose seed the ledger holds.  processes: as of dataset.
    """
    own = Map(of, name, random, processes)
    return Graph(f"own-map {quoted(own.name)}", (), (own,))


def map_batches(of: Callable[..., Any], *, name: Optional[str] = None, processes: int = 0) -> Graph:
    """A function of a dict of a batch's arrays, which gives another: behind all stages, when the batch is taken.

    processes: how many worker processes run it, on the next batches ahead; 0: the thread that takes the batch.
    Of several functions, all run in worker processes if one asks for them.
    """
    return Graph("", (), (), after_of(of, name, processes))
