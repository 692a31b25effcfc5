#!/usr/bin/env python3
"""Writes python/millrace/_stages.pyi, what type checkers and editors know of the stages, from the library's table.

MILLRACE_LIBRARY names the library; --table FILE reads what mr_loader_stages gave instead.  --check says whether the file is as the table wants it.
"""
import json
import keyword
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "python/millrace/_stages.pyi"
sys.path.insert(0, str(ROOT / "python"))

from millrace import stages  # noqa: E402

TYPES = {"int": "Number", "float": "Number", "bool": "bool", "str": "Text", "range": "Range", "vector": "Vector"}


def type_of(setting: dict) -> str:
    if setting["type"] == "enum":
        return "Literal[" + ", ".join(f'"{c}"' for c in setting["choices"].split("|")) + "]"
    return TYPES[setting["type"]]


def parameter(name: str) -> str:
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def function_of(row: dict) -> str:
    settings = {parameter(s["name"]): type_of(s) for s in row["settings"]}
    usual = [parameter(s["name"]) for s in row["settings"] if s.get("positional")]
    first = " | ".join(dict.fromkeys(["Graph"] * bool(row["in"]) + [settings[u] for u in usual]))
    head = [f"*inputs: {first}"] if first else []
    for name in ("workers", "name"):
        settings.setdefault(name, "Number" if name == "workers" else "str")
    named = [f"{name}: {kind} | None = ..." for name, kind in settings.items()]
    lines = [f"def {parameter(row['name'])}("]
    lines += [f"    {p}," for p in (head or ["*"]) + named]
    lines.append(") -> Graph:")
    doc = [row["help"]] + [f"{parameter(s['name'])}: {s['help']}" for s in row["settings"] if s.get("help")]
    text = "\n\n".join("\n".join(textwrap.wrap(d, 110)) for d in doc).replace("\\", "\\\\").replace('"""', "'''")
    text += " " * text.endswith('"')
    lines += textwrap.indent(f'"""{text}"""', "    ").splitlines()
    return "\n".join(lines)


if "--table" in sys.argv:
    table = {s["name"]: s for s in json.loads(Path(sys.argv[sys.argv.index("--table") + 1]).read_text())}
else:
    table = stages()
names = sorted(parameter(n) for n in table)
text = '"""Made by scripts/python-stubs.py from the table of stages; do not edit."""\n\n'
text += "import os\nfrom collections.abc import Sequence\nfrom typing import Literal, Union\n\n"
text += "from ._graph import Graph\n\n"
text += "Number = Union[int, float, str]  # \"64MiB\" too\n"
text += 'Text = Union[str, int, float, "os.PathLike[str]", Sequence[Union[str, int, float, "os.PathLike[str]"]]]\n'
text += "Range = Union[str, float, Sequence[float]]\nVector = Union[str, float, Sequence[float]]\n\n"
text += "__all__ = [\n" + "".join(f'    "{n}",\n' for n in names) + "]\n\n"
text += "\n\n".join(function_of(table[n]) for n in sorted(table)) + "\n"
if "--check" in sys.argv:
    if not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"python-stubs: {OUT.relative_to(ROOT)} is not what the stages say: run scripts/python-stubs.py")
    print(f"python-stubs: {len(names)} stages are as the library has them")
else:
    OUT.write_text(text)
